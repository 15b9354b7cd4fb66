"""The scopes that a message needs: a table that the author of a server fills by method, tool, resource and prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.codec import Batch
from mcp_core.field_methods import FieldValue
from mcp_core.jsonrpc.messages import Notification, Request
from mcp_core.methods import (
    COMPLETION_COMPLETE,
    PROMPTS_GET,
    RESOURCES_READ,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
    SUBSCRIPTIONS_LISTEN,
    TOOLS_CALL,
)

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Message

__all__ = ["Scopes"]

_Given: TypeAlias = "Mapping[str, str | Iterable[str]]"
_Table: TypeAlias = Mapping[str, tuple[str, ...]]

_URI_METHODS: Final = frozenset({RESOURCES_READ.name, RESOURCES_SUBSCRIBE.name, RESOURCES_UNSUBSCRIBE.name})


def _several(given: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(scope for each in ([given] if isinstance(given, str) else given) for scope in each.split())


def _table(given: _Given) -> _Table:
    return {name: _several(scopes) for name, scopes in given.items()}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Scopes(FieldValue):
    """The scopes that requests need. A request needs all scopes of the entries that match it.

    Each value is one scope, several scopes in one string separated by spaces, or a list of scopes.
    """

    base: tuple[str, ...] = attrs.field(default=(), converter=_several)
    """The scopes that every request needs."""
    methods: _Table = attrs.field(factory=dict, converter=_table)
    """Scopes by method, for example `{"tools/call": "notes:use"}`."""
    tools: _Table = attrs.field(factory=dict, converter=_table)
    """Scopes by the name of a tool, as clients call it."""
    resources: _Table = attrs.field(factory=dict, converter=_table)
    """Scopes by the URI of a resource or its URI template, as registered: `{"notes://{id}": "notes:read"}`. A URI needs
    the scopes of every template that it matches, in any spelling of the URI."""
    prompts: _Table = attrs.field(factory=dict, converter=_table)
    """Scopes by the name of a prompt."""
    includes: _Table = attrs.field(factory=dict, converter=_table)
    """Included scopes by scope: `{"notes:write": "notes:read"}` means that a token for writing also permits reading."""

    @property
    def all(self) -> tuple[str, ...]:
        """All scopes that appear in the tables."""
        tables = (self.methods, self.tools, self.resources, self.prompts, self.includes)
        named = [scope for table in tables for scopes in table.values() for scope in scopes]
        return tuple(dict.fromkeys((*self.base, *named, *self.includes)))

    @property
    def depend_on_message(self) -> bool:
        """Whether a message can need other scopes than `base`."""
        return any((self.methods, self.tools, self.resources, self.prompts))

    def granted(self, scopes: frozenset[str]) -> frozenset[str]:
        """Return the scopes of a token with all scopes that they include."""
        if self.includes.keys().isdisjoint(scopes):
            return scopes
        found, waiting = set[str](), list(scopes)
        while waiting:
            scope = waiting.pop()
            if scope not in found:
                found.add(scope)
                waiting += self.includes.get(scope, ())
        return frozenset(found)

    def needed(self, message: Message | Batch, names: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
        """Return the scopes that a message needs in addition to `base`. A batch needs those of all its messages.

        Args:
            message: The message.
            names: A function that returns the resources and templates of the server that match a URI.
        """
        members = message.members if isinstance(message, Batch) else (message,)
        found = [scope for each in members for scope in self._of(each, names)]
        return tuple(dict.fromkeys(found))

    def _of(self, message: object, names: Callable[[str], Iterable[str]]) -> Iterable[str]:
        if not isinstance(message, (Request, Notification)):
            return
        yield from self.methods.get(message.method, ())
        params: JsonObject = message.params or {}
        if message.method == TOOLS_CALL.name:
            yield from _for(self.tools, params.get("name"))
        elif message.method == PROMPTS_GET.name:
            yield from _for(self.prompts, params.get("name"))
        elif message.method in _URI_METHODS:
            yield from self._uri(params.get("uri"), names)
        elif message.method == COMPLETION_COMPLETE.name:
            about = _object(params.get("ref"))
            yield from _for(self.prompts, about.get("name"))
            yield from self._uri(about.get("uri"), names)
        elif message.method == SUBSCRIPTIONS_LISTEN.name:
            uris = _object(params.get("notifications")).get("resourceSubscriptions")
            for uri in uris if isinstance(uris, list) else ():
                yield from self._uri(uri, names)

    def _uri(self, uri: JsonValue, names: Callable[[str], Iterable[str]]) -> Iterable[str]:
        if self.resources and isinstance(uri, str):
            for name in dict.fromkeys((uri, *names(uri))):
                yield from self.resources.get(name, ())


def _for(table: _Table, name: JsonValue) -> tuple[str, ...]:
    return table.get(name, ()) if isinstance(name, str) else ()


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
