"""Pagination: how a client reads lists page by page.

Spec: server/utilities/pagination
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.pagination import ANNOUNCED, CACHED_CURSOR, CACHED_LIST, LISTS, cursors
from mcp_core.revisions import LEGACY, MODERN, Era

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_PAGES: Final = "conformance_pages"
_BACKGROUND: Final = 12
"""Requests after the last one for a list: twice as many as the list has pages."""
_NEEDS: Final = (f"scenario:{_PAGES}",)
_LEGACY: Final = [each.name for each in LEGACY]
_MODERN: Final = [each.name for each in MODERN]


def _cursor(message: JsonObject) -> JsonValue:
    params = message.get("params")
    return params.get("cursor") if isinstance(params, dict) else None


def _requested_cursors(client: ClientUnderTest, method: str) -> list[JsonValue]:
    """Return the cursors of the requests for a list, up to the point where the client lists it again."""
    found = [_cursor(each) for each in client.run(_PAGES).taken(method)]
    if not found:
        raise NotTestable(f"the client did not send {method}")
    again = [index for index, cursor in enumerate(found) if cursor is None and index > 0]
    return found[: again[0]] if again else found


def _check_taken(client: ClientUnderTest, method: str) -> None:
    """Raise `NotTestable` if a request for a further page was rejected for another reason than its cursor."""
    taken = client.run(_PAGES).taken(method)
    for message in client.run(_PAGES).sent(method):
        if _cursor(message) is not None and message not in taken:
            raise NotTestable(f"a request with a cursor was rejected: {brief(message)}")


def _lists(client: ClientUnderTest) -> dict[str, list[JsonValue]]:
    """Return the cursors by method, for the methods that the client uses.

    Raises:
        NotTestable: The client requested no list.
    """
    found: dict[str, list[JsonValue]] = {}
    for method in LISTS:
        if client.run(_PAGES).taken(method):
            found[method] = _requested_cursors(client, method)
    if not found:
        raise NotTestable("the client requested no list")
    return found


@check(
    "pagination.client-cursor",
    proves=("pagination.opaque-format", "pagination.opaque-unmodified", "pagination.cursor-opaque"),
    needs=_NEEDS,
)
async def cursor_unmodified(client: ClientUnderTest) -> None:
    """A cursor is sent back unchanged, and none is sent without one."""
    tried = 0
    for method, requested in _lists(client).items():
        known = cursors(method, client.revision.era)
        for cursor in requested:
            if cursor is None:
                continue
            tried += 1
            if cursor not in known:
                raise Deviation(f"a cursor of {method}: {brief(list(known))}", brief(cursor))
    if client.revision.era is Era.MODERN:
        _check_issued(client)
    if not tried:
        raise NotTestable("the client requested no second page")


def _check_issued(client: ClientUnderTest) -> None:
    """Check that each cursor is one of an earlier page of the same list. In legacy revisions, another check does so.

    The empty string is a cursor too: a request with it, when no page had it, is not one for the first page.
    """
    for evidence in client.all(instructed=True):
        issued: set[tuple[JsonValue, str]] = set()
        methods: dict[bytes, JsonValue] = {}
        for entry in evidence.transcript:
            message = entry.value
            if not isinstance(message, dict) or "id" not in message:
                continue
            method, cursor, key = message.get("method"), _cursor(message), encoded(message["id"])
            if not entry.sent:
                methods[key] = method
                if method in (*LISTS, "skills/list") and isinstance(cursor, str) and (method, cursor) not in issued:
                    raise Deviation(f"{method} without a cursor, or with one of an earlier page", brief(message))
            else:
                result = message.get("result")
                following = result.get("nextCursor") if isinstance(result, dict) else None
                if isinstance(following, str):
                    issued.add((methods.get(key), following))


@check("pagination.client-empty-cursor", proves=("pagination.empty-cursor-valid",), revisions=_MODERN, needs=_NEEDS)
async def empty_cursor(client: ClientUnderTest) -> None:
    """The empty cursor is valid: the client requests the next page."""
    for method, requested in _lists(client).items():
        if "" not in requested:
            _check_taken(client, method)
            raise Deviation(f'{method} with the cursor ""', brief(requested))


@check(
    "pagination.client-lengths",
    proves=("pagination.no-fixed-page-size", "pagination.no-page-size-assumption"),
    needs=_NEEDS,
)
async def lengths(client: ClientUnderTest) -> None:
    """Pages of any length are accepted; an empty or a short page is not the end."""
    modern = client.revision.era is Era.MODERN
    if client.run(_PAGES).status != 0:
        raise NotTestable(f"the client did not read the lists to the end: {client.run(_PAGES).ending}")
    unread = client.run(_PAGES).unread
    if unread is not None:
        raise NotTestable(f"a message of the client could not be read: {brief(unread)}")
    lists = _lists(client)
    if all(requested == [None] for requested in lists.values()):
        # The length of a page is not the reason: another check covers pagination as such.
        raise NotTestable("the client follows no cursor")
    for method, requested in lists.items():
        known = cursors(method, client.revision.era)
        if modern and method == CACHED_LIST and requested[-1] == known[CACHED_CURSOR]:
            # The page is a long one: another check covers its cache.
            continue
        # The second and the third page are empty, and the fifth is shorter than the first and than the fourth. Another
        # check covers the empty cursor.
        if (known[0] in requested or not modern) and known[-1] not in requested:
            raise Deviation(f"{method} up to the cursor {brief(known[-1])}", brief(requested))


@check(
    "pagination.client-whole",
    proves=("pagination.operations", "pagination.both-flows", "prompts.client-pagination"),
    needs=(*_NEEDS, "scenario:tools_call"),
)
async def whole(client: ClientUnderTest) -> None:
    """A list with several pages is read completely, like one with a single page."""
    client.control()
    evidence = client.run(_PAGES)
    if evidence.status != 0:
        for method in LISTS:
            _check_taken(client, method)
        raise Deviation("the client to behave as with lists of one page", evidence.ending)
    names = [params.get("name") for each in evidence.sent("tools/call") if isinstance(params := each["params"], dict)]
    if "add_numbers" in names and "tool_6" not in names:
        requested = _requested_cursors(client, "tools/list")
        _check_taken(client, "tools/list")
        if len(requested) > 1 and cursors("tools/list", client.revision.era)[-1] not in requested:
            # Other checks cover the reason: a cursor, or the length of a page.
            raise NotTestable(f"the client follows cursors, and stopped before the end: {brief(requested)}")
        raise Deviation("a call of tool_6, which is on the last page", brief(names))


@check("pagination.client-again", proves=("pagination.both-flows",), revisions=_LEGACY, needs=_NEEDS)
async def again(client: ClientUnderTest) -> None:
    """A list of tools that was read completely is also read completely when it has changed."""
    evidence = client.run(_PAGES)
    last = cursors("tools/list", client.revision.era)[-1]
    requests = evidence.requests
    changed = max((i for i, each in enumerate(requests) if each["id"] == evidence.notes.get(ANNOUNCED)), default=None)
    if changed is None:
        raise NotTestable("the client did not call tool_6, or has no stream for other messages of the server")
    listed = [(index, _cursor(each)) for index, each in enumerate(requests) if each["method"] == "tools/list"]
    later = [(index, cursor) for index, cursor in listed if index > changed]
    if not later or last not in [cursor for index, cursor in listed if index < changed]:
        raise NotApplicable("the client does not read a changed list again, or did not read it completely before")
    # A client may end, or use other features, while it reads the list in the background.
    if last not in [cursor for _, cursor in later] and len(requests) - later[-1][0] > _BACKGROUND:
        raise Deviation(f"tools/list up to the cursor {brief(last)}", brief([cursor for _, cursor in later]))


@check(
    "pagination.client-ends",
    proves=("pagination.missing-next-cursor-ends", "pagination.missing-cursor-ends"),
    needs=_NEEDS,
)
async def ends(client: ClientUnderTest) -> None:
    """A page without a cursor is the last one."""
    for method, requested in _lists(client).items():
        last = cursors(method, client.revision.era)[-1]
        further = requested[requested.index(last) + 1 :] if last in requested else []
        if further:
            raise Deviation(f"no further {method} after {brief(last)}", brief(further))


@check("pagination.client-session", proves=("pagination.not-across-sessions",), revisions=_LEGACY)
async def own_session(client: ClientUnderTest) -> None:
    """A cursor is used only in the session in which it was issued."""
    for evidence in client.all():
        given = {
            result["nextCursor"]
            for message in evidence.transcript.messages(sent=True)
            if isinstance(message, dict)
            and isinstance(result := message.get("result"), dict)
            and "nextCursor" in result
        }
        # The fake server issues the same cursors in each session: the check is whether it issued one in this session.
        for messages in evidence.conversations:
            first: dict[str, bool] = {}
            for message in messages:
                method = str(message.get("method"))
                if method not in LISTS:
                    continue
                if _cursor(message) is not None and (not first.get(method) or _cursor(message) not in given):
                    raise Deviation(f"{method} without a cursor at first", brief(message))
                first[method] = True
