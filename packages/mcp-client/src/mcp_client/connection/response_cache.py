"""The response cache: results that the server allows to be reused for a time (2026-07-28).

The cache key is the server, the identity of the user, the method and the parameters. The headers of the request, for
example an access token, identify the user: a private result is not reused for another user. Results for all users
(`"cacheScope": "public"`) can be shared by several clients of one URL that use the same `ResponseCache`.

The cache does not refresh results. A result is removed when its time to live has passed, when the server notifies of a
change, or when the cache is full.

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
from mcp_core.field_methods import FieldValue
from mcp_core.json_text import write
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

    from mcp_client.connection.request_options import RequestOptions
    from mcp_core.engine.events import NotificationReceived
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.revisions import Revision

__all__ = ["Caching", "HeadersOf", "IdentityOf", "ResponseCache"]

HeadersOf: TypeAlias = Callable[[Sequence[tuple[str, str]]], Awaitable[Sequence[tuple[str, str]]]]
"""A function that returns all headers of a request, from the headers of this request only."""

IdentityOf: TypeAlias = Callable[[], Awaitable[str | None]]
"""A function that returns the identity of the user, if the headers do not show it. `None` for an anonymous user."""

_LONGEST: Final = 24 * 60 * 60.0
"""Maximum time to keep a result, in seconds, whatever the server allows: a list of tools is reloaded once a day."""

_NAMELESS: Final = frozenset({*TRACE_KEYS, "user-agent"})
"""Headers that do not identify the user."""

_OUTDATED: Final[Mapping[NotificationMethod[object], frozenset[RequestMethod[object, object]]]] = {
    NOTIFICATIONS_TOOLS_LIST_CHANGED: frozenset({TOOLS_LIST}),
    NOTIFICATIONS_PROMPTS_LIST_CHANGED: frozenset({PROMPTS_LIST}),
    # A resource that was removed from the list may be unreadable.
    NOTIFICATIONS_RESOURCES_LIST_CHANGED: frozenset({RESOURCES_LIST, RESOURCES_TEMPLATES_LIST, RESOURCES_READ}),
}
"""The methods whose results are outdated, by notification. `resources/updated` names the resource."""

P = TypeVar("P")
R = TypeVar("R")


@attrs.frozen(eq=False, repr=False)
class _Key(FieldValue):
    server: str
    who: bytes
    method: str
    uri: str
    params: bytes


@attrs.frozen(eq=False, repr=False)
class _Entry(FieldValue):
    result: object
    size: int
    expires: float


class _Store:
    """Results, limited in number and size."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries: Final = max_entries
        self._max_bytes: Final = max_bytes
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._size = 0
        self._clock: trio.abc.Clock | None = None
        self.changes = 0
        """Number of invalidations. A result that was requested before an invalidation may be outdated."""

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        self.changes += 1
        self._entries.clear()
        self._size = 0

    def _now(self) -> float:
        clock = trio.lowlevel.current_clock()
        if clock is not self._clock:
            # Each run of trio has another clock.
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
    """A response cache for several clients: `ClientOptions(cache=shared)` in each of them.

    Only results that the server marks as public are shared, and only by clients of the same URL. Each client keeps the
    other results in a cache of its own. A client without a shared cache keeps all results in its own cache.

    Args:
        max_entries: Maximum number of results. The least recently used results are evicted first.
        max_bytes: Maximum total size of the results, in bytes of JSON. A larger result is not kept.
    """

    def __init__(self, *, max_entries: int = 1_000, max_bytes: int = 16 * 1024 * 1024) -> None:
        self._store: Final = _Store(max_entries, max_bytes)

    def __len__(self) -> int:
        """Return the number of results in the cache."""
        return len(self._store)

    def __bool__(self) -> bool:
        # An empty cache is still a cache: `cache or default` must not replace it.
        return True

    def clear(self) -> None:
        """Remove all results."""
        self._store.clear()


class Caching:
    """The cached results of one client.

    Args:
        shared: The cache of public results, shared with other clients; `None` to share no results.
        server: The URL of the server; used in the keys of shared results only.
        headers: Returns all headers of a request, which identify the user; `None` without HTTP.
        identity: Returns the identity of the user whose access tokens are used; `None` without authorization.
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
        self._identity: Final = _no_identity if identity is None else identity

    async def answer(
        self,
        definition: RequestMethod[P, R],
        params: P,
        options: RequestOptions,
        revision: Revision,
        fetch: Callable[[Sequence[tuple[str, str]]], Awaitable[R]],
    ) -> R:
        """Return the result of a request from the cache, or else from the server.

        Args:
            definition: The method. Its results have cache hints in this revision.
            params: The parameters.
            options: The options of the request.
            revision: The negotiated revision.
            fetch: Sends the request to the server, with these headers of the application.
        """
        text = _text(params, revision)
        if text is None:
            return await fetch(options.headers)
        headers = options.headers
        if self._headers is not None:
            # Computed once: the cache key and the request use the same headers.
            headers = Complete(await self._headers(headers))
        uri = params.uri if isinstance(params, ReadResourceRequestParams) else ""
        identity = await self._identity()
        own = _Key("", _who(headers, identity), definition.name, uri, text)
        public = own if self._shared is self._own else attrs.evolve(own, server=self._server, who=b"")
        if options.fresh:
            self._own.drop(own)
            self._shared.drop(public)
        kept = self._own.get(own) or self._shared.get(public)
        if kept is not None:
            await trio.lowlevel.checkpoint()
            return cast("R", kept)  # the key contains the method
        before = self._own.changes, self._shared.changes
        result = await fetch(headers)
        # A result that was requested before an invalidation may be older than the change.
        # If another user logged in meanwhile, the result belongs to that user.
        if before == (self._own.changes, self._shared.changes) and identity == await self._identity():
            self._keep(own, public, result, revision)
        return result

    def _keep(self, own: _Key, public: _Key, result: object, revision: Revision) -> None:
        # A result with input requests is not of this class.
        if not isinstance(result, CacheableResult) or result.ttl_ms <= 0:
            return
        # `write` also encodes integers beyond 64 bits.
        size = len(write(converter(revision).unstructure(result)))
        store, key = (self._shared, public) if result.cache_scope == "public" else (self._own, own)
        store.put(key, result, size, result.ttl_ms / 1_000)

    def notified(self, event: NotificationReceived) -> None:
        """Remove the results that a change notification makes outdated."""
        rows = _OUTDATED.get(event.definition)
        if rows is not None:
            self._forget({definition.name for definition in rows})
        elif event.definition is NOTIFICATIONS_RESOURCES_UPDATED:
            params = event.params
            # The changed resource may be below the one that was read: a file in a folder.
            if isinstance(params, ResourceUpdatedNotificationParams):
                self._forget({RESOURCES_READ.name}, params.uri)

    def forget(self, definition: RequestMethod[object, object]) -> bool:
        """Remove the results of a method. Return whether there were any."""
        return self._forget({definition.name})

    def _forget(self, methods: set[str], uri: str | None = None) -> bool:
        def outdated(key: _Key) -> bool:
            return (
                key.server in {"", self._server} and key.method in methods and (uri is None or uri.startswith(key.uri))
            )

        found = self._own.forget(outdated)
        return self._shared.forget(outdated) or found


def _text(params: object, revision: Revision) -> bytes | None:
    """Return the parameters as part of the cache key; `None` if the result must not be cached."""
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
        # Integers beyond 64 bits, or parameters that the connection rejects.
        return None


async def _no_identity() -> None:
    """Return `None`: only the headers identify the user."""


def _who(headers: Sequence[tuple[str, str]], identity: str | None) -> bytes:
    """Return a digest of the headers and the identity. The digest avoids keeping secrets."""
    shown = sorted(pair for pair in headers if pair[0] not in _NAMELESS)
    return hashlib.sha256(repr((identity, shown)).encode(errors="backslashreplace")).digest()
