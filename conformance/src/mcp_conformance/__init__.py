"""Checks whether a Model Context Protocol client or server keeps the rules of the specification."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
