"""The Model Context Protocol without I/O: what may be said, when, and how it looks on the wire."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
