"""Client caches: what is cached, and what invalidates it (2026-07-28).

Spec: server/utilities/caching
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.cache_scope import TWO_USERS, USERS, own_names, own_text, user_of
from mcp_conformance.scenarios.caching import CHANGES, CURSORS, FRESHNESS, IDLE, MORE_TOOLS, MRTR_RESOURCE, UPDATED
from mcp_conformance.scenarios.pagination import LISTS

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_TIMES: Final = 3
"""The number of times that the scenario lists prompts and templates."""
_BACKGROUND: Final = 5
"""The number of requests after which a list that a client reads in the background is complete."""
_NEEDS: Final = (f"scenario:{FRESHNESS}",)


def _param(message: JsonObject, name: str) -> JsonValue:
    params = message.get("params")
    return params.get(name) if isinstance(params, dict) else None


def _requests(client: ClientUnderTest) -> list[JsonObject]:
    """Return the requests of the client, in order."""
    return client.run(FRESHNESS).requests


def _is_call(message: JsonObject, tool: str) -> bool:
    return message["method"] == "tools/call" and _param(message, "name") == tool


@check("caching.client-hears-changes", proves=("caching.notification-invalidates",), needs=_NEEDS)
async def hears_changes(client: ClientUnderTest) -> None:
    """A cached list is fetched again after its list_changed notification."""
    requests = _requests(client)
    at = next((index for index, each in enumerate(requests) if _is_call(each, CHANGES)), None)
    if at is None or "changed tools" not in client.run(FRESHNESS).notes:
        raise NotTestable(f"the client did not call {CHANGES} during its subscription: {client.run(FRESHNESS).ending}")
    if not any(each["method"] == "tools/list" for each in requests[:at]):
        raise NotTestable("the client did not list the tools before")
    if not any(each["method"] == "tools/list" for each in requests[at:]):
        raise Deviation("another tools/list after notifications/tools/list_changed", "no further tools/list")


@check("caching.client-hears-pages", proves=("caching.notification-invalidates",), needs=_NEEDS)
async def hears_changed_pages(client: ClientUnderTest) -> None:
    """All cached pages of a list are fetched again after its list_changed notification, not only the first one."""
    requests, at = _changed(client, "changed tools", "changes of the tools")
    listed = [(index, _param(each, "cursor")) for index, each in enumerate(requests) if each["method"] == "tools/list"]
    if not any(cursor == MORE_TOOLS for index, cursor in listed if index < at):
        raise NotApplicable("the client did not read the second page of the tools before")
    later = [(index, cursor) for index, cursor in listed if index > at]
    if not later or len(requests) - later[-1][0] <= _BACKGROUND:
        raise NotTestable("the client did not list the tools again, or ended then")
    if all(cursor != MORE_TOOLS for _, cursor in later):
        raise Deviation(f"tools/list with the cursor {MORE_TOOLS!r} again", brief([cursor for _, cursor in later]))


@check("caching.client-hears-prompts", proves=("caching.notification-invalidates",), needs=_NEEDS)
async def hears_changed_prompts(client: ClientUnderTest) -> None:
    """A change of the prompts makes the cached list of prompts stale, and not only that of the tools."""
    requests, at = _changed(client, "changed prompts", "changes of the prompts")
    if not any(each["method"] == "prompts/list" for each in requests[:at]):
        raise NotTestable("the client did not list the prompts before")
    if not any(each["method"] == "prompts/list" for each in requests[at:]):
        raise Deviation("another prompts/list after notifications/prompts/list_changed", "no further prompts/list")


def _changed(client: ClientUnderTest, note: str, what: str) -> tuple[list[JsonObject], int]:
    """Return the requests of the client, and the index of the call that notified of a change.

    Raises:
        NotTestable: The client was not subscribed to `what`.
    """
    notes = client.run(FRESHNESS).notes
    if note not in notes:
        raise NotTestable(f"the client did not call {CHANGES} while it was subscribed to {what}")
    requests = _requests(client)
    return requests, next(at for at, each in enumerate(requests) if encoded(each["id"]) == encoded(notes[note]))


@check("caching.client-hears-updates", proves=("caching.notification-invalidates",), needs=_NEEDS)
async def hears_updates(client: ClientUnderTest) -> None:
    """A cached resource is read again after the notification that it was updated."""
    requests, at = _changed(client, UPDATED, UPDATED)
    reads = [each["method"] == "resources/read" and _param(each, "uri") == UPDATED for each in requests]
    if not any(reads[:at]):
        raise NotTestable(f"the client did not read {UPDATED} before")
    if not any(reads[at:]):
        raise Deviation(f"another resources/read of {UPDATED} after notifications/resources/updated", "no further one")


@check("caching.client-no-rounds", proves=("caching.no-cache-of-mrtr-results",), needs=_NEEDS)
async def no_cached_retries(client: ClientUnderTest) -> None:
    """The result of a multi round-trip request is not cached."""
    reads = [
        each
        for each in _requests(client)
        if each["method"] == "resources/read" and _param(each, "uri") == MRTR_RESOURCE
    ]
    firsts = [each for each in reads if _param(each, "requestState") is None]
    if len(firsts) == len(reads):
        raise NotTestable(f"the client did not read {MRTR_RESOURCE} with a retry: {client.run(FRESHNESS).ending}")
    if len(firsts) < 2:
        _prompts(client)
        raise Deviation(f"{MRTR_RESOURCE} to be read twice", f"{len(reads)} requests for it")


def _prompts(client: ClientUnderTest) -> list[JsonValue]:
    """Return the cursors with which the client listed the prompts.

    Raises:
        NotTestable: The client did not list them three times.
    """
    # Templates are not cacheable, and are listed as often.
    if len([each for each in _requests(client) if each["method"] == "resources/templates/list"]) < _TIMES:
        raise NotTestable("the control request failed: the client did not list the templates three times")
    calls = [index for index, each in enumerate(_requests(client)) if _is_call(each, CHANGES)]
    # The prompts change with the second call.
    before = _requests(client)[: calls[1] if len(calls) > 1 else None]
    cursors = [_param(each, "cursor") for each in before if each["method"] == "prompts/list"]
    if not cursors:
        raise NotTestable(f"the client did not list the prompts: {client.run(FRESHNESS).ending}")
    if not any(each is not None for each in cursors):
        raise NotTestable("the client requested no second page")
    return cursors


@check("caching.client-page-by-cursor", proves=("caching.page-refetch-by-cursor",), needs=_NEEDS)
async def page_by_cursor(client: ClientUnderTest) -> None:
    """A stale page is fetched again by its cursor."""
    cursors = _prompts(client)
    if cursors.count(CURSORS[0]) < 2:
        if client.run(FRESHNESS).status != 0:
            raise NotTestable(f"the client did not list the prompts again: {client.run(FRESHNESS).ending}")
        raise Deviation(f"prompts/list with the cursor {CURSORS[0]!r} again", brief(cursors))


@check("caching.client-invalid-cursor", proves=("caching.invalid-cursor-discard",), needs=_NEEDS)
async def invalid_cursor(client: ClientUnderTest) -> None:
    """When a cursor is rejected, the client drops its cached pages and lists from the start."""
    cursors = _prompts(client)
    places = [index for index, cursor in enumerate(cursors) if cursor == CURSORS[0]]
    if len(places) < 3:
        raise NotTestable("the client did not list the prompts three times")
    if cursors[: places[2]].count(None) > 1:
        raise NotApplicable("the client does not cache pages")
    if None not in cursors[places[2] :]:
        raise Deviation("prompts/list without a cursor after the rejection of one", brief(cursors))


@check("caching.client-no-polling", proves=("caching.no-polling",), needs=_NEEDS)
async def no_polling(client: ClientUnderTest) -> None:
    """An idle client does not poll stale results."""
    if not any(_is_call(each, IDLE) for each in _requests(client)):
        raise NotTestable(f"the client did not call {IDLE}: {client.run(FRESHNESS).ending}")
    waiting: bytes | None = None
    for entry in client.run(FRESHNESS).transcript:
        message = entry.value
        if not isinstance(message, dict) or "id" not in message:
            continue
        if entry.sent and encoded(message["id"]) == waiting:
            return
        if not entry.sent and message.get("method") == "tools/call" and _is_call(message, IDLE):
            waiting = encoded(message["id"])
        elif not entry.sent and waiting is not None and message.get("method") in LISTS:
            raise Deviation(f"no request while {IDLE} is in progress", brief(message))


@check("caching.client-expires", proves=("caching.stale-refetch",), needs=_NEEDS)
async def expires(client: ClientUnderTest) -> None:
    """A result is fetched again after its ttlMs, which is a number of milliseconds."""
    requests = _requests(client)
    at = next((index for index, each in enumerate(requests) if _is_call(each, IDLE)), None)
    before, after = [[each["method"] for each in part] for part in (requests[: at or 0], requests[at or 0 :])]
    if at is None or "resources/list" not in before:
        raise NotTestable(
            f"the client did not list the resources, or did not call {IDLE}: {client.run(FRESHNESS).ending}"
        )
    # Templates are not cacheable, and are listed before the resources.
    if "resources/templates/list" not in after:
        raise NotTestable(
            f"the client did not list templates and resources after {IDLE}: {client.run(FRESHNESS).ending}"
        )
    if "resources/list" not in after:
        raise Deviation("another resources/list after its ttlMs has passed", "no further resources/list")


@check("caching.client-private", proves=("caching.private-not-shared",), needs=(f"scenario:{TWO_USERS}",))
async def private(client: ClientUnderTest) -> None:
    """A private result of one user is not served to another user of the client."""
    evidence = client.run(TWO_USERS)
    informed: set[str] = set()
    for exchange in evidence.exchanges:
        user = user_of(exchange.header("authorization"))
        if user is None or exchange.message.get("method") not in ("tools/call", "resources/read"):
            continue
        arguments = _param(exchange.message, "arguments")
        reported = str(arguments.get("text")) if isinstance(arguments, dict) else ""
        named = {_param(exchange.message, "name"), _param(exchange.message, "uri")}
        for other in USERS.keys() - {user}:
            # The lists of a user are known by the entries that the client uses, the contents by its reports.
            if named & own_names(other) or reported == own_text(other):
                raise Deviation(f"nothing that only {other} received, for {user}", brief(exchange.message))
        if reported == own_text(user):
            informed.add(user)
    missing = sorted(USERS.keys() - informed)
    if missing:
        raise NotTestable(f"the client reported no result of {' and '.join(missing)}: {evidence.ending}")
