"""HTTP sessions: their ids and their end."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from itertools import combinations
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.http_requests import (
    ACCEPT_STREAM,
    control,
    http_peer,
    last_event,
    on_one_connection,
    probe,
    require,
    session,
    session_messages,
    shown,
    with_header,
    without,
)
from mcp_conformance.checks.probes.waiting_call import calls_in_progress, outcome_of
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import messages_of
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import REVISIONS, Era

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject

_FENCES: Final = 20
"""The requests until a released call has ended."""
_TO_END: Final = 3
"""The requests until the server has read that a client ends its session."""
_SESSIONS: Final = 4
_DIFFERENT: Final = 8
"""Minimum number of characters in which two session ids differ. Ids of 128 random bits differ in four times as many."""


@check("session.id-ascii", proves=("session.id-visible-ascii",))
async def id_ascii(server: ServerUnderTest) -> None:
    """A session id consists of visible ASCII characters."""
    id = http_peer(server).session_id
    if id is None:
        raise NotApplicable("the server has no sessions")
    if not id or not all("!" <= character <= "~" for character in id):
        raise Deviation("an id of visible ASCII characters", brief(id))


@check("session.id-random", proves=("session.id-secure", "security.session-id-nondeterministic"))
async def id_random(server: ServerUnderTest) -> None:
    """Session ids differ in many characters, and an id that was never issued opens no session."""
    ids: list[str] = []
    async with AsyncExitStack() as stack:
        for _ in range(_SESSIONS):
            peer = await stack.enter_async_context(session(server))
            if peer.session_id is None:
                raise NotApplicable("the server has no sessions")
            ids.append(peer.session_id)
    async with session(server) as peer:
        request = await control(peer)
        guess = (peer.session_id or "")[::-1]
        headers = with_header(peer.headers(request), "Mcp-Session-Id", guess)
        answer = await peer.look(headers=headers, body=encoded(request), deviant="a session id that was never issued")
        if answer.status == 200 and guess != peer.session_id:
            raise Deviation("the rejection of a session id that was never issued", shown(answer))
    for one, other in combinations(ids, 2):
        differing = sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))
        if differing < _DIFFERENT:
            raise Deviation(f"ids that differ in at least {_DIFFERENT} characters", f"{brief(one)} and {brief(other)}")


@check("session.missing", proves=("session.missing-400",))
async def missing(server: ServerUnderTest) -> None:
    """A POST of any message, a GET and a DELETE without a required session id are answered with 400."""
    peer = http_peer(server)
    if peer.session_id is None:
        raise NotApplicable("the server has no sessions")
    request = await control(peer)
    answer = await peer.look(
        headers=without(peer.headers(request), "Mcp-Session-Id"), body=encoded(request), deviant="no session id"
    )
    if answer.status == 200 and b'"error"' not in answer.body:
        raise NotApplicable("the server does not require a session id")
    require(answer, {400}, "a request without a session id")
    bare = {**request, "id": peer.next_id()}
    with suppress(NotApplicable):
        _, again = await on_one_connection(
            peer, request, bare, deviant="no session id", headers=without(peer.headers(bare), "Mcp-Session-Id")
        )
        require(again, {400}, "a request without a session id, after one with it on the same HTTP connection")
    for name, message in session_messages(request)[1:]:
        answer = await peer.look(
            headers=without(peer.headers(message), "Mcp-Session-Id"), body=encoded(message), deviant="no session id"
        )
        require(answer, {400}, f"{name} without a session id")
    last = await last_event(server, peer)
    headers = [*peer.settings.headers, *without(peer.session_headers(), "Mcp-Session-Id")]
    for method, lines in (("GET", [ACCEPT_STREAM]), ("GET", [ACCEPT_STREAM, *last]), ("DELETE", [])):
        answer = await peer.look(method, headers=[*headers, *lines], deviant="no session id")
        # A server without streams rejects every GET with 405, and one whose sessions clients cannot end every DELETE.
        require(answer, {400, 405}, f"a {method}{' with Last-Event-ID' if lines[1:] else ''} without a session id")


@check(
    "session.ended",
    proves=("session.terminated-404", "jsonrpc.response-result-or-error"),
    revisions=("2025-03-26", "2025-06-18", "2025-11-25"),
    transports=(Transport.HTTP,),
)
async def ended(server: ServerUnderTest) -> None:
    """A POST, a GET and a DELETE with the id of a terminated session are answered with 404, even if it has an open stream.

    A body that is a JSON-RPC message contains an error.
    """
    async with session(server) as peer, session(server) as other:
        if peer.session_id is None:
            raise NotApplicable("the server has no sessions")
        request = await control(peer)
        last = await last_event(server, peer)
        stream = [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()]
        gets = [last, []] if last else [[]]
        served = [lines for lines in gets if (await peer.look("GET", headers=[*stream, *lines])).status == 200]

        async def refused(when: str = "") -> None:
            for name, message in session_messages(request):
                headers = peer.headers(message)
                answer = await peer.look(headers=headers, body=encoded(message), deviant="a terminated session")
                require(answer, {404}, f"{name} in a terminated session{when}")
                if any(each.get("jsonrpc") == "2.0" and "error" not in each for each in messages_of(answer)):
                    raise Deviation(f"a body that is an error, or no message, for {name}", shown(answer))
            for method, lines in (*(("GET", lines) for lines in served), ("DELETE", [])):
                answer = await peer.look(method, headers=[*stream, *lines], deviant="a terminated session")
                require(
                    answer, {404}, f"{method}{' with Last-Event-ID' if lines else ''} in a terminated session{when}"
                )

        async with AsyncExitStack() as stack:
            if [] in served:
                # An open stream must not keep the session alive.
                await stack.enter_async_context(peer.open_exchange("GET", stream))
            deleted = await _delete(peer)
            if deleted.status == 405:
                raise NotApplicable("clients cannot end sessions")
            if not 200 <= deleted.status < 300:
                raise NotTestable(f"the session could not be terminated: {shown(deleted)}")
            await refused()
        if 200 <= (await _delete(other)).status < 300:
            await refused(" after the end of another one")
            answer = await other.look(
                headers=other.headers(request), body=encoded(request), deviant="a terminated session"
            )
            require(answer, {404}, f"{request['method']} in the session that was terminated last")
            other.session_id = None
        async with session(server):
            await refused(" after the begin of another one")
        peer.session_id = None


@check("session.ended-during-a-call", proves=("session.terminated-404",), needs=("capability:tools",))
async def ended_during_a_call(server: ServerUnderTest) -> None:
    """A session that is terminated during a call remains terminated when the call ends."""
    async with session(server) as peer:
        if peer.session_id is None:
            raise NotApplicable("the server has no sessions")
        key = f"ended-{server.revision}-{peer.session_id}"
        name, arguments = server.tool("conformance_wait", {"key": key})
        release, of_key = server.tool("conformance_release", {"key": key})
        call: JsonObject = {"name": name, "arguments": arguments, "_meta": {"progressToken": key}}

        async def run() -> None:
            # The server may end it without a response.
            with suppress(Deviation):
                await peer.request("tools/call", call)
            peer.wake()

        async def end() -> None:
            deleted.append(await _delete(peer))

        deleted: list[HttpResponse] = []
        async with calls_in_progress(peer, {key: run}, name) as nursery:
            # A server may respond when the call has ended.
            async with open_nursery() as ending:
                ending.start_soon(end)
                for _ in range(_TO_END):
                    await server.peer.fence()
                (await server.peer.request("tools/call", {"name": release, "arguments": of_key})).result()
            for _ in range(_FENCES):
                if await outcome_of(server, key) != "running":
                    break
            await server.peer.fence()
            nursery.cancel_scope.cancel()
        if deleted[0].status == 405:
            raise NotApplicable("clients cannot end sessions")
        if not 200 <= deleted[0].status < 300:
            raise NotTestable(f"the session could not be terminated: {shown(deleted[0])}")
        request = probe(peer)
        headers = peer.headers(request)
        answer = await peer.look(headers=headers, body=encoded(request), deviant="a terminated session")
        require(answer, {404}, f"{request['method']} in a session that was terminated during a call, after its end")
        peer.session_id = None


async def _delete(peer: HttpConnection) -> HttpResponse:
    return await peer.look("DELETE", headers=[*peer.settings.headers, *peer.session_headers()])


@check("session.kept-apart", proves=("session.terminated-404",))
async def kept_apart(server: ServerUnderTest) -> None:
    """The end of one session does not end those that began before and after it."""
    async with session(server) as before, session(server) as peer, session(server) as after:
        if peer.session_id is None:
            raise NotApplicable("the server has no sessions")
        stream = await peer.look("GET", headers=[*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()])
        if not 200 <= (await _delete(peer)).status < 300:
            raise NotApplicable("clients cannot end sessions")
        peer.session_id = None
        for other in (before, after):
            request = probe(other)
            answer = await other.look(headers=other.headers(request), body=encoded(request))
            require(answer, {200}, "a request in a session other than the terminated one")
            headers = [*other.settings.headers, ACCEPT_STREAM, *other.session_headers()]
            if stream.status == 200:
                require(
                    await other.look("GET", headers=headers), {200}, "a GET in a session other than the terminated one"
                )


@check(
    "session.own-revision",
    proves=("version.respect-negotiated",),
    transports=(Transport.HTTP,),
    needs=("capability:tools",),
)
async def own_revision(server: ServerUnderTest) -> None:
    """A session keeps its revision while another session negotiates another one: the members of its tools stay."""
    async with session(server) as peer:
        if peer.session_id is None:
            raise NotApplicable("the server has no sessions")
        before = await _members_of_tools(peer)
        for other in REVISIONS.values():
            if other.era is Era.LEGACY and other.version_header and other is not server.revision:
                async with AsyncExitStack() as stack:
                    try:
                        await stack.enter_async_context(session(server, revision=other.name))
                    except Deviation as deviation:
                        raise NotApplicable(f"the server does not support {other} too") from deviation
                    after = await _members_of_tools(peer)
                for name in before.keys() & after.keys():
                    if before[name] != after[name]:
                        changed = brief([*sorted(before[name] ^ after[name])])
                        raise Deviation(f"the tool {name} as before the session of {other}", f"{changed} differ")


async def _members_of_tools(peer: HttpConnection) -> dict[str, set[str]]:
    """Return the names of the members of each tool on the first page."""
    tools = (await peer.request("tools/list")).result().get("tools")
    found = [each for each in tools if isinstance(each, dict)] if isinstance(tools, list) else []
    return {str(each.get("name")): set(each) for each in found}
