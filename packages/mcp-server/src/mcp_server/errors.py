"""What goes wrong between a server and the functions that its author registers."""

from __future__ import annotations

from mcp_core.errors import ConnectionEnded, McpError

__all__ = ["InvalidResult", "NotRunning", "OutputBroken", "RegistrationError", "ToolError"]


class RegistrationError(McpError):
    """A function, class or template cannot be registered as it is. Raised at once, where it is registered.

    The message names the function with its file and line, the parameter, and what to do about it.
    """


class NotRunning(McpError):
    """Something needs the life of the server, which has not begun or is over. The message says what to do."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"the server {server!r} is not running: serve it with serve_stdio, serve_http or serve_stream; a host that"
            " mounts its endpoint either sends it the life-span events of ASGI, or runs `async with server.running():`"
        )


class OutputBroken(ConnectionEnded):
    """The stdout of a server cannot be written any more, so that no answer reaches the client. The message says why."""


class ToolError(McpError):
    """Raised by a tool: it failed, and the model should read why.

    The call is answered with a result that has `isError`, and the message as its text. `RequestFailed` is sent as the
    error that it is. Any other exception leads to a result with `isError` which says that the tool failed, and nothing
    of the exception; that goes to the log. Spec: server/tools#error-handling
    """


class InvalidResult(McpError):
    """A function returned what its return annotation does not allow.

    The peer is told that the tool failed, or, of a resource or prompt, "Internal error"; the log says why.
    """
