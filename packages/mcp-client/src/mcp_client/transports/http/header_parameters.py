"""Which parameters of which tools are repeated in HTTP headers. Spec: basic/transports/streamable-http (2026-07-28)"""

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
"""How many tools with such parameters are remembered; those that were listed longest ago go."""


class ToolHeaders:
    """What the latest list said of each tool."""

    def __init__(self) -> None:
        self._designated: dict[str, tuple[ParamHeader, ...]] = {}

    def learn(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Takes down what a list says.

        Returns:
            The tools that can be called. A tool whose `x-mcp-header` breaks the rules is left out, with a word in the
            log: a gateway might read another value in the header than the server in the body.
        """
        usable = []
        for tool in tools:
            self._designated.pop(tool.name, None)
            try:
                designated = param_headers(tool.input_schema)
            except InvalidParamHeader as bad:
                _log.warning("the tool %r is left out of the list: %s", tool.name, bad)
                continue
            usable.append(tool)
            if designated:
                self._designated[tool.name] = designated
        while len(self._designated) > _REMEMBERED:
            del self._designated[next(iter(self._designated))]
        return tuple(usable)

    def of(self, request: Request) -> Sequence[ParamHeader]:
        """The parameters that a request has to repeat; none for tools that were never listed."""
        if not self._designated or request.method != TOOLS_CALL.name or request.params is None:
            return ()
        name = request.params.get("name")
        return self._designated.get(name, ()) if isinstance(name, str) else ()
