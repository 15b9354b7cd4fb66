"""HTTP headers that the application adds to the requests of a client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from mcp_core.errors import LocalProtocolError, McpError
from mcp_core.trio.async_library import call_in, caller_library

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Complete", "HeaderSource", "HeadersGiven", "checked"]

HeadersGiven: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""Fixed headers for all requests, or a plain or asynchronous function that is called for each request."""

_OURS: Final = frozenset(
    {"accept", "content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"}
)
"""Headers that the protocol sets."""

_OURS_TOO: Final = "mcp-param-"

_AGENT: Final = ("user-agent", "mcp-client")
"""The default `User-Agent`: some gateways reject requests without one."""


def checked(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the headers as pairs, with names in lower case.

    Raises:
        LocalProtocolError: The protocol sets one of the headers.
    """
    pairs = tuple((name.lower(), value) for name, value in headers.items())
    for name, _ in pairs:
        if name in _OURS or name.startswith(_OURS_TOO):
            raise LocalProtocolError(f"the header {name!r} is set by the protocol itself")
    return pairs


class Complete(tuple[tuple[str, str], ...]):
    """All headers of the application for one request. The function of the application is not called again."""

    __slots__ = ()


class HeaderSource:
    """The source of the application's headers.

    Args:
        given: The headers, or a function that returns them.

    Raises:
        LocalProtocolError: The protocol sets one of the headers.
    """

    def __init__(self, given: HeadersGiven | None) -> None:
        self._ask: Final = given if callable(given) else None
        self.fixed: Final[Sequence[tuple[str, str]]] = _with_agent(
            () if given is None or callable(given) else checked(given)
        )
        """The fixed headers. If a function returns the headers, only the default `User-Agent`."""
        self.is_fixed: Final = self._ask is None
        """Whether all requests have the same headers, except for those of one request only."""

    async def current(self, extra: Sequence[tuple[str, str]] = ()) -> Sequence[tuple[str, str]]:
        """Return the headers of one request.

        Args:
            extra: Headers of this request only; they replace others of the same name.

        Raises:
            LocalProtocolError: The protocol sets one of the headers, or the function that returns them failed.
            McpError: The function that returns the headers raised this error.
        """
        if isinstance(extra, Complete):
            return extra
        headers = self.fixed if self._ask is None else await self._provided(self._ask)
        if not extra:
            return headers
        replaced = {name for name, _ in extra}
        return [*(pair for pair in headers if pair[0] not in replaced), *extra]

    async def _provided(
        self, ask: Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
    ) -> Sequence[tuple[str, str]]:
        try:
            given = ask()
            if not isinstance(given, Mapping):
                pending = given
                given = await call_in(caller_library(), lambda: pending)
            return _with_agent(checked(given))
        except McpError:
            raise
        except Exception as failure:
            # The user's function. Background requests have no caller that could catch its exceptions.
            raise LocalProtocolError("the function that returns the HTTP headers failed") from failure


def _with_agent(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return pairs if any(name == "user-agent" for name, _ in pairs) else (_AGENT, *pairs)
