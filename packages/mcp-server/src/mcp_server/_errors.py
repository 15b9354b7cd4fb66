"""What goes wrong between a server and the functions that its author registers."""

from __future__ import annotations

from mcp_core.errors import McpError

__all__ = ["InvalidResult", "RegistrationError", "ToolError"]


class RegistrationError(McpError):
    """A function, class or template cannot be registered as it is. Raised at once, where it is registered.

    The message names the function with its file and line, the parameter, and what to do about it.
    """


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
