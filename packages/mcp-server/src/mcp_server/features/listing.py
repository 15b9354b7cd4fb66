"""The answers to `tools/list` and its like, in pages.

What is registered is listed in the order of its registration, and what sources add, such as directories, behind it.
Without them, and where everybody sees the same, pages are encoded once for each revision, and again when something
changes.

A cursor says behind what the next page begins, and not at which number. So a list may change between two pages, and
what was there all the time is neither left out nor given twice. Cursors are sealed: they are of use to the client that
they were given to, for the list that they are of, for an hour.

Spec: server/utilities/pagination
"""

from __future__ import annotations

import difflib
import secrets
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import orjson

from mcp_core.conversion.converter import converter
from mcp_core.engine.mrtr import binding
from mcp_core.errors import ErrorCode, LimitExceeded, RequestFailed
from mcp_core.jsonrpc.text import write
from mcp_core.types import PaginatedRequestParams

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.limits import Limits
    from mcp_core.revisions import Revision
    from mcp_core.types import Result, WireObject
    from mcp_server.connection.channel import Call
    from mcp_server.connection.sealer import KeyRing
    from mcp_server.handlers.access import AccessKind, Guard

__all__ = ["Item", "Listing", "Shelf", "Source", "unknown"]

_CURSOR_SECONDS: Final = 3_600
"""How long a cursor is good for. Nobody leafs through a list for longer."""

_CURSOR_CHARS: Final = 32 * 1024
"""The longest cursor that is looked at. The longest that is given out has a path of 4,096 characters in it."""

_REGISTERED: Final = ""
"""What stands in a cursor for the things that are registered, which no source may be called."""


class Shelf(Protocol):
    """What a list needs of the server."""

    limits: Limits
    """Its bounds."""
    guard: Guard
    """Who may see what."""
    keys: KeyRing
    """Seals the cursors."""


@attrs.frozen
class Item:
    """One thing of a list."""

    name: str
    """By what the access to it is decided."""
    value: WireObject
    """What is listed."""
    place: JsonValue
    """Where it is in its source."""


class Source(Protocol):
    """Where more things come from, besides those that are registered."""

    async def after(self, place: JsonValue, count: int) -> Sequence[Item]:
        """Up to `count` things, in an order that does not change, behind the one at `place`; `None`: the first."""


@attrs.frozen
class _Thing:
    value: WireObject
    number: int
    """Of its registration: a later one has a greater one, and none is used twice."""


class Listing:
    """All things of one kind that a server has.

    Args:
        shelf: The server.
        kind: What kind it is.
        empty: The result without any of them.
    """

    def __init__(self, shelf: Shelf, kind: AccessKind, empty: Result) -> None:
        self._shelf: Final = shelf
        self._kind: Final[AccessKind] = kind
        self._empty: Final = empty
        self._things: Final[dict[str, _Thing]] = {}
        self._sources: Final[dict[str, Source]] = {}
        self._registrations = 0
        # Numbers of registrations mean nothing in another process, and nothing after a restart.
        self._process: Final = secrets.token_hex(8)
        self._pages: Final[dict[tuple[Revision, int], JsonObject]] = {}

    def add(self, name: str, value: WireObject) -> None:
        """Something is registered, by a name that nothing else has."""
        self._registrations += 1
        self._things[name] = _Thing(value, self._registrations)
        self._pages.clear()

    def remove(self, name: str) -> None:
        """It is so no longer."""
        del self._things[name]
        self._pages.clear()

    def add_source(self, name: str, source: Source) -> None:
        """More things are listed, behind all others."""
        self._sources[name] = source

    def remove_source(self, name: str) -> None:
        """They are so no longer."""
        del self._sources[name]

    def has_source(self, name: str) -> bool:
        """Whether there is a source of that name."""
        return name in self._sources

    def __contains__(self, name: str) -> bool:
        """Whether something is registered by that name."""
        return name in self._things

    @property
    def offers(self) -> bool:
        """Whether there is anything that may be listed."""
        return bool(self._things or self._sources)

    async def after(self, place: JsonValue, count: int) -> Sequence[Item]:
        """See `Source.after`: the list as a part of that of another server."""
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

    async def answer(self, call: Call) -> JsonObject:
        """The result of a list request, in its wire form.

        Raises:
            RequestFailed: It comes with a cursor that is not valid.
        """
        params = call.request.params
        cursor = params.cursor if isinstance(params, PaginatedRequestParams) else None
        source, place = (_REGISTERED, None) if cursor is None else self._open(call, cursor)
        if self._shelf.guard.asks or self._sources:
            return await self._gathered(call, source, place)
        start, count = self._index(place), self._shelf.limits.page_items
        revision = call.request.peer.revision
        page = self._pages.get((revision, start))
        if page is None:
            items = self._registered(start, count)
            page = _page(self._empty, [item.value for item in items], revision)
            # Cursors from before a change may begin anywhere. Who begins at the first item meets these.
            if start % count == 0:
                self._pages[revision, start] = page
        if start + count >= len(self._things):
            return page
        (last,) = self._registered(start + count - 1, 1)
        return {**page, "nextCursor": self._seal(call, _REGISTERED, last.place)}

    # --- what each client sees by itself ---------------------------------------------------------------------------

    async def _gathered(self, call: Call, source: str, place: JsonValue) -> JsonObject:
        names = [_REGISTERED, *self._sources]
        if source not in names:
            raise _not_valid()
        room = self._shelf.limits.page_items
        found: list[tuple[str, Item]] = []
        for name in names[names.index(source) :]:
            # One more than there is room for: a page is not the last one only if this client may see what is behind it.
            while len(found) <= room:
                items = await self._after(name, place, room + 1)
                for item in items:
                    if await self._shelf.guard.allows(call, self._kind, item.name):
                        found.append((name, item))
                        if len(found) > room:
                            break
                if len(items) <= room:
                    break
                place = items[-1].place
            place = None
        page = _page(self._empty, [item.value for _, item in found[:room]], call.request.peer.revision)
        if len(found) <= room:
            return page
        name, last = found[room - 1]
        return {**page, "nextCursor": self._seal(call, name, last.place)}

    async def _after(self, source: str, place: JsonValue, count: int) -> Sequence[Item]:
        if source != _REGISTERED:
            return await self._sources[source].after(place, count)
        return self._registered(self._index(place), count)

    # --- what is registered ----------------------------------------------------------------------------------------

    def _registered(self, start: int, count: int) -> list[Item]:
        things = list(self._things.items())[start : start + count]
        return [Item(name, thing.value, [thing.number, name, self._process]) for name, thing in things]

    def _index(self, place: JsonValue) -> int:
        """The index of the first thing behind a place. Raises `RequestFailed` when nothing is known of that."""
        match place:
            case None:
                return 0
            case [int() as number, str(), self._process]:
                return bisect_right([thing.number for thing in self._things.values()], number)
            case [_, str() as name, _] if name in self._things:
                return list(self._things).index(name) + 1
        raise _not_valid()

    # --- cursors ---------------------------------------------------------------------------------------------------

    def _seal(self, call: Call, source: str, place: JsonValue) -> str:
        plain = orjson.dumps([time.time() + _CURSOR_SECONDS, source, place])
        cursor = self._shelf.keys.seal(plain, _bound_to(call))
        if len(cursor) > _CURSOR_CHARS:
            # It could not come back. The name is that of the author, or of a mounted server.
            raise LimitExceeded(
                f"characters of the cursor behind a {self._kind} with a long name",
                observed=len(cursor),
                allowed=_CURSOR_CHARS,
                setting="the length of names",
            )
        return cursor

    def _open(self, call: Call, cursor: str) -> tuple[str, JsonValue]:
        """What a cursor says. Raises `RequestFailed`."""
        plain = self._shelf.keys.unseal(cursor, _bound_to(call)) if len(cursor) <= _CURSOR_CHARS else None
        if plain is None:
            raise _not_valid()
        expires, source, place = orjson.loads(plain)
        if time.time() >= expires:
            raise _not_valid()
        return source, place


def _bound_to(call: Call) -> bytes:
    """A cursor is good for whom it was given to, for the list that it is of, and for nothing else that is sealed."""
    return binding(call.link.principal, f"cursor of {call.request.method}", {})


def _not_valid() -> RequestFailed:
    return RequestFailed(
        "invalid params: cursor is not valid for this list, or no longer; begin again without one",
        code=ErrorCode.INVALID_PARAMS,
    )


def _page(empty: Result, values: Sequence[WireObject], revision: Revision) -> JsonObject:
    convert = converter(revision)
    result = convert.unstructure(empty)
    encoded = write([convert.unstructure(value) for value in values])
    member = next(name for name, value in result.items() if value == [])
    result[member] = orjson.Fragment(encoded)  # type: ignore[assignment]  # stands for the JSON in it
    return result


_LOOKED_THROUGH: Final = 1_000
"""How many names are searched for one that may have been meant, and how long the given one may be for it."""


def unknown(what: str, name: str, known: Collection[str], guard: Guard) -> RequestFailed:
    """The error for a name that does not exist, with the closest one that does, where all may know of all."""
    near: list[str] = []
    if not guard.asks and len(known) <= _LOOKED_THROUGH and len(name) <= _LOOKED_THROUGH:
        near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return RequestFailed(f"unknown {what}: {name[:_LOOKED_THROUGH]!r}{hint}", code=ErrorCode.INVALID_PARAMS)
