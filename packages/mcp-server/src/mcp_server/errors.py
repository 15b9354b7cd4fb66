"""Errors between a server and the functions that its author registers."""

from __future__ import annotations

from mcp_core.errors import ConnectionEnded, McpError

__all__ = ["InvalidResult", "NotRunning", "OutputBroken", "RegistrationError", "ToolError"]


class RegistrationError(McpError):
    """A function, class or template cannot be registered. The call that registers it raises this error.

    The message contains the function with its file and line, the parameter, and the remedy.
    """


class NotRunning(McpError):
    """An operation needs the lifespan of the server, which is not running. The message contains the remedy."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"the server {server!r} is not running: serve it with serve_stdio, serve_http or serve_stream; a host that"
            " mounts its endpoint must send the ASGI lifespan events to it or run `async with server.running():`"
        )


class OutputBroken(ConnectionEnded):
    """The stdout of a server cannot be written, so responses are lost. The message contains the reason."""


class ToolError(McpError):
    """A failure of a tool whose message is for the model. Tools raise it.

    The result of the call has `isError`, and the message as its text. If a tool raises `RequestFailed`, the server
    sends an error response. For any other exception, the result has `isError` and says only that the tool failed. The
    exception is logged. Spec: server/tools#error-handling
    """


class InvalidResult(McpError):
    """A function returned a value that its return annotation does not allow.

    The client receives the failure of the tool, or "Internal error" for a resource or prompt. The log contains the
    reason.
    """
