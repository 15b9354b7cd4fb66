"""Results of `tools/list` and the other list requests, in pages.

Registered items are listed in the order of their registration. The items of sources, for example directories, follow.
Without sources, and if all clients see the same list, the pages are encoded once for each revision, and again after a
change.

A cursor names the last item of the page before, not an index. A list can therefore change between two pages: an item
that exists the whole time is neither omitted nor repeated. Cursors are sealed. A cursor is valid for the client that
received it, for its list, for one hour.

Spec: server/utilities/pagination
"""

from __future__ import annotations

import secrets
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import orjson

from mcp_core.conversion.converter import converter
from mcp_core.engine.mrtr import binding
from mcp_core.errors import ErrorCode, LimitExceeded, RequestFailed
from mcp_core.field_methods import FieldValue
from mcp_core.json_text import write
from mcp_core.schema.similar_names import similar_name
from mcp_core.types import PaginatedRequestParams

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision
    from mcp_core.types import Result, WireObject
    from mcp_server.connection.channel import RequestContext
    from mcp_server.handlers.access import AccessKind, Guard
    from mcp_server.handlers.environment import HandlerEnvironment

__all__ = ["Item", "PagedList", "Source", "unknown"]

_CURSOR_SECONDS: Final = 3_600
"""Validity of a cursor, in seconds. A client does not need longer to read a list."""

_CURSOR_CHARS: Final = 32 * 1024
"""The longest cursor that is accepted, in characters. The longest issued cursor contains a path of 4,096 characters."""

_REGISTERED: Final = ""
"""The name for the registered items in a cursor. A source must not have this name."""


@attrs.frozen(eq=False, repr=False)
class Item(FieldValue):
    """One item of a list."""

    name: str
    """The name that access is decided by."""
    value: WireObject
    """The object that is listed."""
    place: JsonValue
    """The position of the item in its source."""


class Source(Protocol):
    """A source of items in addition to the registered ones."""

    async def after(self, place: JsonValue, count: int) -> Sequence[Item]:
        """Return up to `count` items that follow `place`, in a stable order. `None` means the first items."""


@attrs.frozen(eq=False, repr=False)
class _Entry(FieldValue):
    value: WireObject
    number: int
    """The number of its registration. Later registrations have greater numbers, and a number is not reused."""


class PagedList:
    """All items of one kind that a server offers.

    Args:
        environment: The environment of the handlers of the server.
        kind: The kind of the items.
        empty: The result without items.
    """

    def __init__(self, environment: HandlerEnvironment, kind: AccessKind, empty: Result) -> None:
        self._environment: Final = environment
        self.page_items: int = environment.limits.page_items
        """Maximum number of items on a page."""
        self._kind: Final[AccessKind] = kind
        self._empty: Final = empty
        self._entries: Final[dict[str, _Entry]] = {}
        self._sources: Final[dict[str, Source]] = {}
        self._registrations = 0
        # Registration numbers are valid only in the process that issued them.
        self._process: Final = secrets.token_hex(8)
        self._pages: Final[dict[tuple[Revision, int], JsonObject]] = {}

    def add(self, name: str, value: WireObject) -> None:
        """Add a registered item. Its name must be unique."""
        self._registrations += 1
        self._entries[name] = _Entry(value, self._registrations)
        self._pages.clear()

    def remove(self, name: str) -> None:
        """Remove a registered item."""
        del self._entries[name]
        self._pages.clear()

    def add_source(self, name: str, source: Source) -> None:
        """Add a source, whose items are listed after all others."""
        self._sources[name] = source

    def remove_source(self, name: str) -> None:
        """Remove a source."""
        del self._sources[name]

    def has_source(self, name: str) -> bool:
        """Return whether there is a source with this name."""
        return name in self._sources

    def __contains__(self, name: str) -> bool:
        """Return whether an item with this name is registered."""
        return name in self._entries

    @property
    def offers(self) -> bool:
        """Whether there are registered items or sources."""
        return bool(self._entries or self._sources)

    async def after(self, place: JsonValue, count: int) -> Sequence[Item]:
        """Return up to `count` items that follow `place`. Used if another server mounts this one."""
        match place:
            case None:
                source, inner = _REGISTERED, None
            case [str() as source, inner]:
                pass
            case _:
                raise _not_valid()
        names = [_REGISTERED, *self._sources]
        if source not in names:
            raise _not_valid()
        found: list[Item] = []
        for name in names[names.index(source) :]:
            items = await self._after(name, inner, count - len(found))
            found += [attrs.evolve(item, place=[name, item.place]) for item in items]
            if len(found) == count:
                break
            inner = None
        return found

    async def answer(self, call: RequestContext) -> JsonObject:
        """Return the result of a list request in its wire form.

        Raises:
            RequestFailed: The request has an invalid cursor.
        """
        params = call.request.params
        cursor = params.cursor if isinstance(params, PaginatedRequestParams) else None
        source, place = (_REGISTERED, None) if cursor is None else self._open(call, cursor)
        if self._environment.guard.restricts or self._sources:
            return await self._gathered(call, source, place)
        start, count = self._index(place), self.page_items
        revision = call.request.peer.revision
        page = self._pages.get((revision, start))
        if page is None:
            items = self._registered(start, count)
            page = _page(self._empty, [item.value for item in items], revision)
            # Cursors issued before a change can start at any item. Only the pages from the first item on are cached.
            if start % count == 0:
                self._pages[revision, start] = page
        if start + count >= len(self._entries):
            return page
        (last,) = self._registered(start + count - 1, 1)
        return {**page, "nextCursor": self._seal(call, _REGISTERED, last.place)}

    # --- lists that depend on the client ---------------------------------------------------------------------------

    async def _gathered(self, call: RequestContext, source: str, place: JsonValue) -> JsonObject:
        names = [_REGISTERED, *self._sources]
        if source not in names:
            raise _not_valid()
        most = self.page_items
        found: list[tuple[str, Item]] = []
        for name in names[names.index(source) :]:
            # One more than the page holds: there is a next page only if this client can see an item of it.
            while len(found) <= most:
                items = await self._after(name, place, most + 1)
                for item in items:
                    if await self._environment.guard.allows(call, self._kind, item.name):
                        found.append((name, item))
                        if len(found) > most:
                            break
                if len(items) <= most:
                    break
                place = items[-1].place
            place = None
        page = _page(self._empty, [item.value for _, item in found[:most]], call.request.peer.revision)
        if len(found) <= most:
            return page
        name, last = found[most - 1]
        return {**page, "nextCursor": self._seal(call, name, last.place)}

    async def _after(self, source: str, place: JsonValue, count: int) -> Sequence[Item]:
        if source != _REGISTERED:
            return await self._sources[source].after(place, count)
        return self._registered(self._index(place), count)

    # --- registered items ------------------------------------------------------------------------------------------

    def _registered(self, start: int, count: int) -> list[Item]:
        things = list(self._entries.items())[start : start + count]
        return [Item(name, thing.value, [thing.number, name, self._process]) for name, thing in things]

    def _index(self, place: JsonValue) -> int:
        """Return the index of the first item after a place. Raises `RequestFailed` if the place is unknown."""
        match place:
            case None:
                return 0
            case [int() as number, str(), self._process]:
                return bisect_right([thing.number for thing in self._entries.values()], number)
            case [_, str() as name, _] if name in self._entries:
                return list(self._entries).index(name) + 1
        raise _not_valid()

    # --- cursors ---------------------------------------------------------------------------------------------------

    def _seal(self, call: RequestContext, source: str, place: JsonValue) -> str:
        plain = orjson.dumps([time.time() + _CURSOR_SECONDS, source, place])
        cursor = self._environment.keys.seal(plain, _bound_to(call))
        if len(cursor) > _CURSOR_CHARS:
            # The client could not send it back. The name is chosen by the author, or by a mounted server.
            raise LimitExceeded(
                f"characters of the cursor behind a {self._kind} with a long name",
                observed=len(cursor),
                allowed=_CURSOR_CHARS,
                setting="the length of names",
            )
        return cursor

    def _open(self, call: RequestContext, cursor: str) -> tuple[str, JsonValue]:
        """Return the source and place of a cursor. Raises `RequestFailed` if the cursor is invalid."""
        plain = self._environment.keys.unseal(cursor, _bound_to(call)) if len(cursor) <= _CURSOR_CHARS else None
        if plain is None:
            raise _not_valid()
        expires, source, place = orjson.loads(plain)
        if time.time() >= expires:
            raise _not_valid()
        return source, place


def _bound_to(call: RequestContext) -> bytes:
    """Return the binding of a cursor to its principal and its list, so that it is valid for no other purpose."""
    return binding(call.channel.principal, f"cursor of {call.request.method}", {})


def _not_valid() -> RequestFailed:
    return RequestFailed(
        "invalid params: the cursor is invalid for this list or has expired; request the first page again",
        code=ErrorCode.INVALID_PARAMS,
    )


def _page(empty: Result, values: Sequence[WireObject], revision: Revision) -> JsonObject:
    convert = converter(revision)
    result = convert.unstructure(empty)
    encoded = write([convert.unstructure(value) for value in values])
    member = next(name for name, value in result.items() if value == [])
    result[member] = orjson.Fragment(encoded)  # type: ignore[assignment]  # written as the JSON in it
    return result


_LOOKED_THROUGH: Final = 1_000
"""Maximum number of names, and maximum length of the given name, for the search of a similar name."""


def unknown(what: str, name: str, known: Collection[str], guard: Guard) -> RequestFailed:
    """Return the error for an unknown name. It suggests the closest name, unless access to names is restricted."""
    near = None
    if not guard.restricts and len(known) <= _LOOKED_THROUGH and len(name) <= _LOOKED_THROUGH:
        near = similar_name(name, known)
    hint = f"; did you mean {near!r}?" if near is not None else ""
    return RequestFailed(f"unknown {what}: {name[:_LOOKED_THROUGH]!r}{hint}", code=ErrorCode.INVALID_PARAMS)
