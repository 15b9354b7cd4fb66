"""Header parameters: tool parameters that requests repeat in HTTP headers.

Spec: basic/transports/streamable-http (2026-07-28)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from mcp_core.http.header_parameters import InvalidParamHeader, param_headers
from mcp_core.methods import TOOLS_CALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import Request
    from mcp_core.types import Tool

__all__ = ["ToolHeaders"]

_log: Final = logging.getLogger("mcp_client")

_REMEMBERED: Final = 4_096
"""Maximum number of tools with header parameters to remember. Tools that were listed longest ago are removed first."""


class ToolHeaders:
    """The header parameters of each tool, from the latest list."""

    def __init__(self) -> None:
        self._header_params: dict[str, tuple[ParamHeader, ...]] = {}

    def learn(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Record the header parameters of a list of tools.

        Returns:
            The tools that can be called. A tool whose `x-mcp-header` is invalid is omitted and logged, because a
            gateway might read a value from the header that differs from the value that the server reads from the body.
        """
        usable = []
        for tool in tools:
            self._header_params.pop(tool.name, None)
            try:
                header_params = param_headers(tool.input_schema)
            except InvalidParamHeader as bad:
                _log.warning("tool with invalid x-mcp-header omitted: tool=%r error=%s", tool.name, bad)
                continue
            usable.append(tool)
            if header_params:
                self._header_params[tool.name] = header_params
        while len(self._header_params) > _REMEMBERED:
            del self._header_params[next(iter(self._header_params))]
        return tuple(usable)

    def of(self, request: Request) -> Sequence[ParamHeader]:
        """Return the header parameters of a request; empty for a tool that was never listed."""
        if not self._header_params or request.method != TOOLS_CALL.name or request.params is None:
            return ()
        name = request.params.get("name")
        return self._header_params.get(name, ()) if isinstance(name, str) else ()
