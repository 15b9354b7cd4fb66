"""Faults of pagination, caching and `_meta`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, META, MODERN, RpcError
from mutants.server_faults.lists import changed

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

    Change = Callable[[InboundRequest, JsonObject], JsonObject]

__all__: list[str] = []


def _with(**members: JsonValue) -> Change:
    return lambda _, result: {**result, **members}


def _without(name: str) -> Change:
    return lambda _, result: {key: each for key, each in result.items() if key != name}


def _resources(result: JsonObject) -> list[JsonValue]:
    found = result["resources"]
    return found if isinstance(found, list) else []


# --- pagination and caching ------------------------------------------------------------------------------------------

changed("page-again", "pagination.walk", "resources.unique", method="resources/list",
        change=lambda inbound, result: {**result, "resources": [
            {"uri": "test://static-text", "name": "again"}, *_resources(result)]}
        if "cursor" in inbound.params else result)  # fmt: skip


@fault("any-cursor", "pagination.invalid-cursor")
class _AnyCursor(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if inbound.request["method"] == "tools/list" and isinstance(inbound.params.get("cursor"), str):
            return {"tools": []}
        raise error


@fault("any-cursor-of-templates", "pagination.invalid-cursor")
class _AnyCursorOfTemplates(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if inbound.request["method"] == "resources/templates/list" and isinstance(inbound.params.get("cursor"), str):
            return {"resourceTemplates": []}
        raise error


@fault("cursor-below-zero", "pagination.invalid-cursor")
class _BelowZero(Fault):
    """A server with offsets as cursors."""

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if inbound.request["method"] == "resources/list" and inbound.params.get("cursor") == "-1":
            return {"resources": []}
        raise error


# The cursor is for a page that is longer than the one that the server sends.
changed("cursor-too-far", "pagination.no-gaps", method="resources/list",
        change=lambda inbound, result: result if "cursor" in inbound.params else
        {**result, "resources": _resources(result)[:2]})  # fmt: skip


class _OwnCursors(Fault):
    """A server with other cursors than the raw server, or other pages."""

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or message.get("method") != "resources/list":
            return message
        if not isinstance(params.get("cursor", ""), str):
            return message
        cursor = self.cursor(params["cursor"]) if "cursor" in params else None
        rest = {name: each for name, each in params.items() if name != "cursor"}
        return {**message, "params": rest if cursor is None else {**rest, "cursor": cursor}}

    def cursor(self, cursor: JsonValue) -> JsonValue:
        """Return the cursor of the raw server; `None` for the first page."""
        return cursor


@fault("cursor-beside-metadata-unread", "pagination.walk", revisions=LEGACY)
class _CursorUnread(Fault):
    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or "_meta" not in params:
            return message
        return {**message, "params": {name: each for name, each in params.items() if name != "cursor"}}


@fault("empty-cursor-at-end", "pagination.walk", "skills.directory")
class _EmptyCursorAtEnd(_OwnCursors):
    def cursor(self, cursor: JsonValue) -> JsonValue:
        return cursor or None

    def result(self, _: InboundRequest, result: JsonObject) -> JsonObject:
        return {"nextCursor": "", **result} if "resources" in result else result


@fault(
    "cursor-of-last-listing", "pagination.walk", "pagination.stable-cursor", "skills.directory", transports=("stdio",)
)
class _CursorOfLastListing(_OwnCursors):
    def __init__(self) -> None:
        self._listings = 0

    def cursor(self, cursor: JsonValue) -> JsonValue:
        return str(cursor).removeprefix(f"{self._listings} ")

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if "resources" not in result or "cursor" in inbound.params:
            return result
        self._listings += 1
        return {**result, "nextCursor": f"{self._listings} {result['nextCursor']}"}


@fault("first-cursor-empty")
class _FirstCursorEmpty(_OwnCursors):
    """A correct server: the empty string is a cursor."""

    def cursor(self, cursor: JsonValue) -> JsonValue:
        return "from-4" if cursor == "" else cursor

    def result(self, _: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "nextCursor": ""} if "nextCursor" in result and "resources" in result else result


changed("cursor-as-number", "pagination.cursor-is-a-string", "caching.scope-of-pages", "pagination.stable-cursor", "pagination.cursor-elsewhere", "pagination.walk", "resources.list-schema", "resources.same-everywhere", "resources.unique", "schema.paginated", method="resources/list", revisions=MODERN,
        change=lambda _, result: {**result, "nextCursor": 4} if "nextCursor" in result else result)  # fmt: skip


@fault(
    *("templates-cursor-as-number", "pagination.cursor-is-a-string", "schema.paginated"),
    "resources.templates-list-schema",
    revisions=MODERN,
    transports=("stdio",),
)
class _TemplatesCursor(Fault):
    """A server whose list of templates has an offset as its cursor."""

    def result(self, _: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "nextCursor": 1} if "resourceTemplates" in result else result

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if inbound.request["method"] == "resources/templates/list" and inbound.params.get("cursor") in (1, "1"):
            return {"resourceTemplates": []}
        raise error


_SCHEMAS: Final = {
    "server/discover": ("discover.result", "schema.server-messages"),
    "tools/list": ("tools.list-schema", "schema.list-tools-result"),
    "prompts/list": ("prompts.list-schema", "schema.list-prompts-result"),
    "resources/list": ("resources.list-schema", "schema.list-resources-result"),
    "resources/templates/list": ("resources.templates-list-schema", "schema.list-templates-result"),
    "resources/read": ("resources.text", "schema.read-resource-result"),
}

for _method, _words in {
    "server/discover": "discover",
    "tools/list": "tools-list",
    "prompts/list": "prompts-list",
    "resources/list": "resources-list",
    "resources/templates/list": "resources-templates-list",
    "resources/read": "resources-read",
}.items():
    # The schema also requires the cache hints.
    _seen = (f"caching.{_words}", *_SCHEMAS.get(_method, ()))
    changed(f"no-ttl-{_words}", *_seen, method=_method, change=_without("ttlMs"), modern=True)

changed(
    "ttl-negative",
    "caching.ttl",
    "schema.list-prompts-result",
    "prompts.list-schema",
    method="prompts/list",
    change=_with(ttlMs=-1),
    modern=True,
)
changed(
    "scope-odd",
    "caching.scope",
    "schema.list-prompts-result",
    "prompts.list-schema",
    method="prompts/list",
    change=_with(cacheScope="everybody"),
    modern=True,
)
changed("scope-by-page", "caching.scope-of-pages", method="resources/list", modern=True,
        change=lambda inbound, result: {**result, "cacheScope": "public"} if "cursor" in inbound.params else result)  # fmt: skip
changed("no-ttl-of-later-pages", "schema.list-resources-result", method="resources/list", modern=True,
        change=lambda inbound, result: _without("ttlMs")(inbound, result) if "cursor" in inbound.params else result)  # fmt: skip
changed("no-hints-after-retry", "caching.resources-read", "schema.read-resource-result",
        method="resources/read", modern=True,
        change=lambda inbound, result: _without("ttlMs")(inbound, result) if "inputResponses" in inbound.params else result)  # fmt: skip
changed("no-hints-of-template", "caching.resources-read", "schema.read-resource-result",
        method="resources/read", modern=True, of="test://template/123/data", change=_without("cacheScope"))  # fmt: skip
changed("hints-with-questions", "caching.not-when-input-is-required", method="resources/read", modern=True,
        of="test://conformance/asking", change=_with(ttlMs=0, cacheScope="private"))  # fmt: skip

# --- _meta -----------------------------------------------------------------------------------------------------------


def _meta(**members: JsonValue) -> Change:
    def change(_: InboundRequest, result: JsonObject) -> JsonObject:
        meta = result["_meta"]
        return {**result, "_meta": {**(meta if isinstance(meta, dict) else {}), **members}}

    return change


for _name, _checks, _key in (
    ("meta-prefix", ("meta.key-prefix", "meta.key-label"), "com.example/a/b"),
    ("meta-label", ("meta.key-label",), "com.1example/name"),
    ("meta-name", ("meta.key-name",), "com.example/-name"),
    ("meta-reserved", ("meta.key-reserved-second",), "com.mcp/name"),
    ("meta-order", ("meta.key-reverse-dns",), "example.com/name"),
):
    changed(_name, *_checks, method="tools/list", change=_meta(**{_key: 1}), modern=True)

_NAMELESS: Final[JsonObject] = {f"{META}serverInfo": {"name": "raw"}}

changed("info-without-version", "meta.server-info-shape", "schema.implementation", method="prompts/list", modern=True,
        change=_meta(**_NAMELESS))  # fmt: skip
changed("info-left-out", "meta.server-info", method="prompts/list", modern=True, change=_with(_meta={}))
changed("metadata-of-request", "meta.keys-of-requests", method="prompts/list", modern=True,
        change=lambda inbound, result: _meta(**inbound.meta)(inbound, result))  # fmt: skip
changed("odd-traceparent", "meta.trace-context-format", method="prompts/list", modern=True,
        change=_meta(traceparent="no trace"))  # fmt: skip
changed("odd-baggage", "meta.baggage-format", method="prompts/list", modern=True, change=_meta(baggage="no baggage"))
