"""The error of the command `mcp-server pack`."""

from __future__ import annotations

__all__ = ["PackError"]


class PackError(Exception):
    """The server cannot be packed. The message names the problem and the remedy. No file was written."""
