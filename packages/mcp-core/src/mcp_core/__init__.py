"""The Model Context Protocol without I/O: wire types, rules of the protocol, and the protocol engine."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
