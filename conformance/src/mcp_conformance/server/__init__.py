"""The checks of servers, one module for each subject.

A module takes part by standing in this list.
"""

from __future__ import annotations

from mcp_conformance.server import lifecycle, messages, tools
from mcp_conformance.server.registry import SERVER_CHECKS

__all__ = ["SERVER_CHECKS", "lifecycle", "messages", "tools"]
