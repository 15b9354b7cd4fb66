"""The end of an HTTP connection: an error that states whether the server may have processed the request."""

from __future__ import annotations

from mcp_core.errors import ConnectionEnded

__all__ = ["HttpConnectionEnded"]


class HttpConnectionEnded(ConnectionEnded):
    """The connection could not be opened, or ended before the response was complete."""

    def __init__(self, message: str, *, sent: bool, begun: bool = False) -> None:
        super().__init__(message)
        self.sent: bool = sent
        """Whether the whole request was written to the connection. If so, the server may have processed it. Otherwise
        the server did not process it, and the request can be sent again."""
        self.begun: bool = begun
        """Whether at least one byte of the response arrived."""
