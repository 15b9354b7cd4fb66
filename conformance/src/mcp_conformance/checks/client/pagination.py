"""How a client goes through lists in pages.

Spec: server/utilities/pagination
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.pagination import LISTS, cursors
from mcp_core.revisions import LEGACY, MODERN, Era

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_PAGES: Final = "conformance_pages"
_NEEDS: Final = (f"scenario:{_PAGES}",)
_LEGACY: Final = [each.name for each in LEGACY]
_MODERN: Final = [each.name for each in MODERN]


def _cursor(message: JsonObject) -> JsonValue:
    params = message.get("params")
    return params.get("cursor") if isinstance(params, dict) else None


def _asked(client: ClientUnderTest, method: str) -> list[JsonValue]:
    """The cursors that a list was asked for with, from its beginning to where it begins again."""
    found = [_cursor(each) for each in client.run(_PAGES).taken(method)]
    if not found:
        raise NotTestable(f"the client did not ask for {method}")
    again = [index for index, cursor in enumerate(found) if cursor is None and index > 0]
    return found[: again[0]] if again else found


def _lists(client: ClientUnderTest) -> dict[str, list[JsonValue]]:
    """What was asked, by method; those that the client does not care for are left out.

    Raises:
        NotTestable: It asked for no list.
    """
    found: dict[str, list[JsonValue]] = {}
    for method in LISTS:
        if client.run(_PAGES).taken(method):
            found[method] = _asked(client, method)
    if not found:
        raise NotTestable("the client asked for no list")
    return found


@check(
    "pagination.client-cursor",
    proves=("pagination.opaque-format", "pagination.opaque-unmodified", "pagination.cursor-opaque"),
    needs=_NEEDS,
)
async def cursor_unmodified(client: ClientUnderTest) -> None:
    """A cursor comes back exactly as it was given."""
    tried = 0
    for method, asked in _lists(client).items():
        known = cursors(method, client.revision.era)
        for cursor in asked:
            if cursor is None:
                continue
            tried += 1
            if cursor not in known:
                raise Deviation(f"a cursor that {method} gave: {brief(list(known))}", brief(cursor))
    if not tried:
        raise NotTestable("the client asked for no second page")


@check("pagination.client-empty-cursor", proves=("pagination.empty-cursor-valid",), revisions=_MODERN, needs=_NEEDS)
async def empty_cursor(client: ClientUnderTest) -> None:
    """The empty cursor is one as others: the list goes on."""
    for method, asked in _lists(client).items():
        if "" not in asked:
            raise Deviation(f'{method} with the cursor ""', brief(asked))


@check(
    "pagination.client-lengths",
    proves=("pagination.no-fixed-page-size", "pagination.no-page-size-assumption"),
    needs=_NEEDS,
)
async def lengths(client: ClientUnderTest) -> None:
    """Pages of any length are taken; an empty one, and one shorter than others, are not the end."""
    modern = client.revision.era is Era.MODERN
    if client.run(_PAGES).status != 0:
        raise NotTestable(f"the client did not come to the end of the lists: {client.run(_PAGES).ending}")
    unread = client.run(_PAGES).unread
    if unread is not None:
        raise NotTestable(f"what the client sent could not be read: {brief(unread)}")
    lists = _lists(client)
    if all(asked == [None] for asked in lists.values()):
        # The length of a page is no reason for that: pages are for another check.
        raise NotTestable("the client follows no cursor at all")
    for method, asked in lists.items():
        known = cursors(method, client.revision.era)
        # The second page is empty, and the fourth shorter than the third. The empty cursor is for another check.
        if (known[0] in asked or not modern) and known[-1] not in asked:
            raise Deviation(f"{method} up to the cursor {brief(known[-1])}", brief(asked))


@check(
    "pagination.client-whole",
    proves=("pagination.operations", "pagination.both-flows", "prompts.client-pagination"),
    needs=(*_NEEDS, "scenario:tools_call"),
)
async def whole(client: ClientUnderTest) -> None:
    """A list in pages is read whole, as one that comes at once."""
    client.control()
    evidence = client.run(_PAGES)
    if evidence.status != 0:
        raise Deviation("the client to do as with whole lists", evidence.ending)
    names = [params.get("name") for each in evidence.sent("tools/call") if isinstance(params := each["params"], dict)]
    if "add_numbers" in names and "tool_6" not in names:
        asked = _asked(client, "tools/list")
        if len(asked) > 1 and cursors("tools/list", client.revision.era)[-1] not in asked:
            # What it stopped at is for other checks: a cursor, or the length of a page.
            raise NotTestable(f"the client goes from page to page, and stopped in the midst: {brief(asked)}")
        raise Deviation("a call of tool_6, which stands on the last page", brief(names))


@check(
    "pagination.client-ends",
    proves=("pagination.missing-next-cursor-ends", "pagination.missing-cursor-ends"),
    needs=_NEEDS,
)
async def ends(client: ClientUnderTest) -> None:
    """A page without a cursor is the last one."""
    for method, asked in _lists(client).items():
        last = cursors(method, client.revision.era)[-1]
        behind = asked[asked.index(last) + 1 :] if last in asked else []
        if behind:
            raise Deviation(f"no more {method} behind {brief(last)}", brief(behind))


@check("pagination.client-session", proves=("pagination.not-across-sessions",), revisions=_LEGACY)
async def own_session(client: ClientUnderTest) -> None:
    """A cursor is used only in the session that it was given in."""
    for evidence in client.all():
        given = {
            result["nextCursor"]
            for message in evidence.transcript.messages(sent=True)
            if isinstance(message, dict)
            and isinstance(result := message.get("result"), dict)
            and "nextCursor" in result
        }
        # The fake server gives the same cursors in each session: what counts is whether it gave any in this one.
        for messages in evidence.conversations:
            first: dict[str, bool] = {}
            for message in messages:
                method = str(message.get("method"))
                if method not in LISTS:
                    continue
                if _cursor(message) is not None and (not first.get(method) or _cursor(message) not in given):
                    raise Deviation(f"{method} without a cursor at first", brief(message))
                first[method] = True
