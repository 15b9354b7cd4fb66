"""The end of an HTTP connection, told so that it is known whether a request may have been processed."""

from __future__ import annotations

from mcp_core.errors import ConnectionEnded

__all__ = ["HttpConnectionEnded"]


class HttpConnectionEnded(ConnectionEnded):
    """There was no connection, or it ended before the answer did."""

    def __init__(self, message: str, *, sent: bool, begun: bool = False) -> None:
        super().__init__(message)
        self.sent: bool = sent
        """All of the request was handed to the connection: the server may have processed it. Otherwise it certainly
        did not, and the request may be made again."""
        self.begun: bool = begun
        """At least one byte of the answer came."""
