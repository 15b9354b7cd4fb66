"""Results that may be used again for a while, because the server said so (2026-07-28).

A result is found again by the server, by whoever asks, and by method and parameters. Who asks is known by the headers of
the request: with another token it is somebody else, and what one is given no other is. What any user may be given
(`"cacheScope": "public"`) can be shared by several clients of one URL, in a `ResponseCache` that they are all told of.

Nothing is refreshed by itself. A result goes when its time has passed, when the server says that it changed,
and when there is no room.

Spec: server/utilities/caching (2026-07-28)
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

import attrs
import orjson
import trio

from mcp_client.connection.request_headers import Complete
from mcp_core.conversion.converter import converter
from mcp_core.features.meta import TRACE_KEYS
from mcp_core.jsonrpc.text import write
from mcp_core.methods import (
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_UPDATED,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
    PROMPTS_LIST,
    RESOURCES_LIST,
    RESOURCES_READ,
    RESOURCES_TEMPLATES_LIST,
    TOOLS_LIST,
)
from mcp_core.types import (
    CacheableResult,
    InputResponseRequestParams,
    ReadResourceRequestParams,
    ResourceUpdatedNotificationParams,
    WireObject,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_client.connection.request_options import Extras
    from mcp_core.engine.events import NotificationReceived
    from mcp_core.methods import Method, NotificationRow
    from mcp_core.revisions import Revision

__all__ = ["Caching", "HeadersOf", "IdentityOf", "ResponseCache"]

HeadersOf: TypeAlias = Callable[[Sequence[tuple[str, str]]], Awaitable[Sequence[tuple[str, str]]]]
"""All headers of a request, from those that are its own."""

IdentityOf: TypeAlias = Callable[[], Awaitable[str | None]]
"""Who asks, where that is not told by these headers. `None`: nobody that is known."""

_LONGEST: Final = 24 * 60 * 60.0
"""Seconds that anything is kept at most, whatever the server says: no list of tools should outlive a day unseen."""

_NAMELESS: Final = frozenset({*TRACE_KEYS, "user-agent"})
"""Headers that say nothing of who asks."""

_OUTDATED: Final[Mapping[NotificationRow[object], frozenset[Method[object, object]]]] = {
    NOTIFICATIONS_TOOLS_LIST_CHANGED: frozenset({TOOLS_LIST}),
    NOTIFICATIONS_PROMPTS_LIST_CHANGED: frozenset({PROMPTS_LIST}),
    # What is no longer listed may no longer be there to be read.
    NOTIFICATIONS_RESOURCES_LIST_CHANGED: frozenset({RESOURCES_LIST, RESOURCES_TEMPLATES_LIST, RESOURCES_READ}),
}
"""What is out of date when the server says so. `resources/updated` names the resource."""

P = TypeVar("P")
R = TypeVar("R")


@attrs.frozen
class _Key:
    server: str
    who: bytes
    method: str
    uri: str
    params: bytes


@attrs.frozen
class _Entry:
    result: object
    size: int
    expires: float


class _Store:
    """Results, as many as there is room for."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries: Final = max_entries
        self._max_bytes: Final = max_bytes
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._size = 0
        self._clock: trio.abc.Clock | None = None
        self.changes = 0
        """How often something was said to be out of date. What was asked for before may be, too."""

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        self.changes += 1
        self._entries.clear()
        self._size = 0

    def _now(self) -> float:
        clock = trio.lowlevel.current_clock()
        if clock is not self._clock:
            # Each run of trio counts from another beginning.
            self.clear()
            self._clock = clock
        return trio.current_time()

    def get(self, key: _Key) -> object | None:
        now = self._now()
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires <= now:
            self.drop(key)
            return None
        self._entries.move_to_end(key)
        return entry.result

    def put(self, key: _Key, result: object, size: int, seconds: float) -> None:
        expires = self._now() + min(seconds, _LONGEST)
        self.drop(key)
        if size > self._max_bytes:
            return
        self._entries[key] = _Entry(result, size, expires)
        self._size += size
        while self._size > self._max_bytes or len(self._entries) > self._max_entries:
            self.drop(next(iter(self._entries)))

    def drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= entry.size

    def forget(self, outdated: Callable[[_Key], bool]) -> bool:
        self.changes += 1
        keys = [key for key in self._entries if outdated(key)]
        for key in keys:
            self.drop(key)
        return bool(keys)


class ResponseCache:
    """Keeps results for several clients: `open_http(url, cache=shared)` in each of them.

    Only what the server calls public is shared, and only by clients of the same URL; the rest each client keeps for
    itself. A client that is given none has its own.

    Args:
        max_entries: How many results are kept. Those that were not used for longest go.
        max_bytes: How large they may be together, in bytes of JSON. A larger one is not kept.
    """

    def __init__(self, *, max_entries: int = 1_000, max_bytes: int = 16 * 1024 * 1024) -> None:
        self._store: Final = _Store(max_entries, max_bytes)

    def __len__(self) -> int:
        """How many results are kept now."""
        return len(self._store)

    def __bool__(self) -> bool:
        # An empty one is a cache, too.
        return True

    def clear(self) -> None:
        """Forgets everything."""
        self._store.clear()


class Caching:
    """What one client keeps.

    Args:
        shared: Keeps what is public, for other clients too; `None`: nobody else has it.
        server: The URL of the server; only what is shared needs it.
        headers: All headers of a request, by which it is known who asks; `None` where there are none.
        identity: Who asks besides, where credentials are got for the requests; `None` where there are none.
    """

    def __init__(
        self,
        shared: ResponseCache | None = None,
        *,
        server: str = "",
        headers: HeadersOf | None = None,
        identity: IdentityOf | None = None,
    ) -> None:
        self._own: Final = ResponseCache()._store  # noqa: SLF001  one module
        self._shared: Final = self._own if shared is None else shared._store  # noqa: SLF001  one module
        self._server: Final = server
        self._headers: Final = headers
        self._identity: Final = _nobody if identity is None else identity

    async def answer(
        self,
        row: Method[P, R],
        params: P,
        extras: Extras,
        revision: Revision,
        ask: Callable[[Extras], Awaitable[R]],
    ) -> R:
        """The result of a request: kept, or asked for.

        Args:
            row: The method; its results have cache hints in that revision.
            params: Its parameters.
            extras: What is added to the request.
            revision: The revision.
            ask: Asks the server.
        """
        text = _text(params, revision)
        if text is None:
            return await ask(extras)
        if self._headers is not None:
            # Asked for once, so that what comes is kept for the one who asked.
            extras = attrs.evolve(extras, headers=Complete(await self._headers(extras.headers)))
        uri = params.uri if isinstance(params, ReadResourceRequestParams) else ""
        identity = await self._identity()
        own = _Key("", _who(extras, identity), row.name, uri, text)
        public = own if self._shared is self._own else attrs.evolve(own, server=self._server, who=b"")
        if extras.fresh:
            self._own.drop(own)
            self._shared.drop(public)
        kept = self._own.get(own) or self._shared.get(public)
        if kept is not None:
            await trio.lowlevel.checkpoint()
            return cast("R", kept)  # it came as the result of the same method
        before = self._own.changes, self._shared.changes
        result = await ask(extras)
        # An answer that was on its way when something changed may be older than the change.
        # And one that somebody else was given, who logged in meanwhile, is theirs.
        if before == (self._own.changes, self._shared.changes) and identity == await self._identity():
            self._keep(own, public, result, revision)
        return result

    def _keep(self, own: _Key, public: _Key, result: object, revision: Revision) -> None:
        # A result that asks a question is of no such class.
        if not isinstance(result, CacheableResult) or result.ttl_ms <= 0:
            return
        # Numbers beyond 64 bits are counted as well.
        size = len(write(converter(revision).unstructure(result)))
        store, key = (self._shared, public) if result.cache_scope == "public" else (self._own, own)
        store.put(key, result, size, result.ttl_ms / 1_000)

    def heard(self, event: NotificationReceived) -> None:
        """The server says that something changed."""
        rows = _OUTDATED.get(event.row)
        if rows is not None:
            self._forget({row.name for row in rows})
        elif event.row is NOTIFICATIONS_RESOURCES_UPDATED:
            params = event.params
            # It may lie below what was read: a file in a folder.
            if isinstance(params, ResourceUpdatedNotificationParams):
                self._forget({RESOURCES_READ.name}, params.uri)

    def forget(self, row: Method[object, object]) -> bool:
        """Forgets the results of a method. Returns whether there were any."""
        return self._forget({row.name})

    def _forget(self, methods: set[str], uri: str | None = None) -> bool:
        def outdated(key: _Key) -> bool:
            return (
                key.server in {"", self._server} and key.method in methods and (uri is None or uri.startswith(key.uri))
            )

        found = self._own.forget(outdated)
        return self._shared.forget(outdated) or found


def _text(params: object, revision: Revision) -> bytes | None:
    """The parameters as they are compared; `None` where the result may not be kept."""
    if not isinstance(params, WireObject):
        return None
    if isinstance(params, InputResponseRequestParams) and (params.input_responses or params.request_state is not None):
        return None
    wire = converter(revision).unstructure(params)
    meta = wire.get("_meta")
    if isinstance(meta, dict):
        wire = {**wire, "_meta": {key: value for key, value in meta.items() if key not in TRACE_KEYS}}
    try:
        return orjson.dumps(wire, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # Numbers beyond 64 bits, or what cannot be sent at all: the connection knows.
        return None


async def _nobody() -> None:
    """There are no credentials but those in the headers."""


def _who(extras: Extras, identity: str | None) -> bytes:
    """A digest of the headers, and of who asks: secrets are not kept."""
    headers = sorted(pair for pair in extras.headers if pair[0] not in _NAMELESS)
    return hashlib.sha256(repr((identity, headers)).encode(errors="backslashreplace")).digest()
