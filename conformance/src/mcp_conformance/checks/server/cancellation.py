"""Cancellation and pings."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.checks.probes.cancelled_calls import cancelled_calls
from mcp_conformance.checks.probes.interactive_calls import REPLIES, converse
from mcp_conformance.checks.probes.message_pairs import key_of, notified, objects
from mcp_conformance.checks.probes.recorded_values import member, params_of
from mcp_conformance.checks.probes.repetition import each_time
from mcp_conformance.checks.probes.waiting_call import calls_in_progress, waiting_call
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import R2025_11_25, REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from mcp_conformance.checks.probes.interactive_calls import Conversation
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_CANCELLED: Final = "notifications/cancelled"
_PROGRESS: Final = "notifications/progress"
_SLOW: Final = "conformance_slow"
_SIMPLE: Final = "test_simple_text"
_SAMPLES: Final = "test_sampling"
_SAMPLING: Final = "sampling/createMessage"
_BETWEEN: Final = "test_tool_with_progress"
_REQUEST_TOOLS: Final[Mapping[str, JsonObject]] = {
    "test_sampling": {"prompt": "Say yes."},
    "test_elicitation": {"message": "Who are you?"},
}
"""Tools that send a client request, with their arguments."""
_NEEDS: Final = ("capability:tools",)
_REPORTS: Final = 3
_LATER_REQUESTS: Final = 2
_MORE: Final = 0.3
"""The time in seconds for more progress notifications, several times the interval of the fixture."""
_PING_PARAMS: Final[tuple[JsonObject | None, ...]] = (
    None,
    {},
    {"_meta": {}},
    {"_meta": {"progressToken": "conformance-ping", "com.example/anything": [1]}},
)
_LEGACY: Final = tuple(name for name, revision in REVISIONS.items() if revision.era is Era.LEGACY)
_MODERN: Final = tuple(name for name, revision in REVISIONS.items() if revision.era is Era.MODERN)


@check("ping.empty-result", proves=("ping.respond",))
async def ping(server: ServerUnderTest) -> None:
    """A ping gets an empty result, also with params and request metadata."""
    for params in _PING_PARAMS:
        result = (await server.peer.request("ping", params)).result()
        if set(result) - {"_meta"}:
            raise Deviation("an empty result", brief(result))


@check("ping.before-initialized", proves=("ping.respond",), subject=CheckScope.PROCESS)
async def ping_early(server: ServerUnderTest) -> None:
    """A ping after the result of `initialize`, and before notifications/initialized, gets an empty result."""
    async with server.share(initialized=False) as peer:
        result = (await peer.request("ping")).result()
        if set(result) - {"_meta"}:
            raise Deviation("an empty result", brief(result))


@check("ping.during-a-call", proves=("ping.respond",), needs=_NEEDS, subject=CheckScope.LEAVING)
async def ping_during_a_call(server: ServerUnderTest) -> None:
    """A ping gets its result while a call is in progress, whatever the tool does."""
    peer = server.peer

    async def after_the_call() -> str | None:
        async with _slow_call(server) as call:
            (await peer.request("ping")).result()
            ended = _answers(peer, call["id"])
            await peer.notify(_CANCELLED, {"requestId": call["id"], "reason": "the ping has its result"})
        return f"the response of {_SLOW} first" if ended else None

    with suppress(NotTestable):  # a server without this tool may have the other one
        if (observed := await each_time(after_the_call)) is not None:
            raise Deviation("the result of a ping before the response to a slow call", observed)
    with suppress(NotTestable):
        await _ping_during_a_client_request(server)
    async with waiting_call(server):
        (await peer.request("ping")).result()


async def _ping_during_a_client_request(server: ServerUnderTest) -> None:
    """Require the result of a ping while the server waits for the response to a client request.

    Raises:
        NotTestable: The server lacks the tool, or sends no client request.
    """
    peer = server.peer
    name, arguments = server.tool(_SAMPLES, _REQUEST_TOOLS[_SAMPLES])
    known, ended = len(peer.inbox), False
    peer.unanswered.add(_SAMPLING)

    async def call() -> None:
        nonlocal ended
        with suppress(Deviation):  # other checks cover the response
            await peer.request("tools/call", {"name": name, "arguments": arguments})
        ended = True
        peer.wake()

    def waiting() -> list[JsonValue]:
        return [each["id"] for each in peer.inbox[known:] if each.get("method") == _SAMPLING and "id" in each]

    async with open_nursery() as nursery:
        nursery.start_soon(call)
        await peer.until(lambda: bool(waiting()) or ended, f"a request {_SAMPLING}")
        if ended:
            raise NotTestable(f"the control condition failed: {name} sends no {_SAMPLING}")
        result = (await peer.request("ping")).result()
        if set(result) - {"_meta"}:
            raise Deviation("an empty result", brief(result))
        for id in waiting():
            await peer.post({"jsonrpc": "2.0", "id": id, "result": REPLIES[_SAMPLING]({})})


# --- cancellation of a call in progress
# ---------------------------------------------------------------------------------


async def _cancelled(server: ServerUnderTest) -> tuple[int, int, int]:
    """Cancel a slow call.

    Returns:
        The number of progress notifications after the cancellation was processed, their number after some other calls,
        and the number of responses to the call.
    """
    if server.revision.era is Era.MODERN and server.transport is Transport.HTTP:
        raise NotApplicable("closing the stream cancels the call, so that no message can follow on it")
    peer = server.peer
    # Several notifications also show whether their values increase.
    async with _slow_call(server, reports=_REPORTS) as call:
        token = member(call, "params", "_meta", "progressToken")
        await peer.notify(_CANCELLED, {"requestId": call["id"], "reason": "a check"})
        await peer.fence()
        at_once = _progress(peer, token)
        other, given = server.tool(_BETWEEN)
        for _ in range(2):
            await peer.request("tools/call", {"name": other, "arguments": given})
        later = _progress(peer, token)
    return at_once, later, _answers(peer, call["id"])


@asynccontextmanager
async def _slow_call(server: ServerUnderTest, reports: int = 1) -> AsyncIterator[JsonObject]:
    """Keep a call that takes two seconds in progress while the block runs.

    Args:
        server: The server.
        reports: The number of progress notifications before the block, if they arrive soon.

    Raises:
        NotTestable: The server lacks the tool, or the call reports no progress, so that it is unknown when it runs.
    """
    name, arguments = server.tool(_SLOW)
    peer = server.peer
    token = f"conformance-slow-{peer.next_id()}"
    params: JsonObject = {"name": name, "arguments": arguments, "_meta": {"progressToken": token}}
    message = peer.message("tools/call", params)

    async def call() -> None:
        with suppress(Deviation):  # a cancelled call has no response
            await peer.exchange(message)

    async with calls_in_progress(peer, {token: call}, _SLOW) as nursery:
        with trio.move_on_after(_MORE):  # a server may report less often
            await peer.until(lambda: _progress(peer, token) >= reports, f"more progress of {_SLOW}")
        yield message
        nursery.cancel_scope.cancel()


def _progress(peer: SuiteConnection, token: JsonValue) -> int:
    """Return the number of progress notifications with a token."""
    return sum(1 for each in peer.inbox if each.get("method") == _PROGRESS and _token(each) == token)


def _answers(peer: SuiteConnection, id: JsonValue) -> int:
    """Return the number of recorded responses to a request."""
    return sum(
        1
        for entry in peer.transcript
        for each in objects(entry)
        if not entry.sent and "method" not in each and key_of(each.get("id")) == key_of(id)
    )


def _token(message: JsonObject) -> object:
    params = message.get("params")
    return params.get("progressToken") if isinstance(params, dict) else None


@check("cancellation.stops", proves=("cancellation.stop-processing",), needs=_NEEDS, subject=CheckScope.LEAVING)
async def stops(server: ServerUnderTest) -> None:
    """A cancelled call stops."""

    async def more() -> str | None:
        at_once, later, _ = await _cancelled(server)
        return f"{later - at_once} further progress notifications" if later > at_once else None

    if (observed := await each_time(more)) is not None:
        raise Deviation("no further progress of a cancelled call", observed)


@check("cancellation.no-answer", proves=("cancellation.no-response",), needs=_NEEDS, subject=CheckScope.LEAVING)
async def no_answer(server: ServerUnderTest) -> None:
    """A cancelled call gets no response."""

    async def answered() -> str | None:
        _, _, answers = await _cancelled(server)
        return f"{answers} responses" if answers else None

    if (observed := await each_time(answered)) is not None:
        raise Deviation("no response to a cancelled call", observed)


@check(
    "cancellation.while-it-waits",
    proves=("cancellation.no-response", "cancellation.stop-processing"),
    needs=_NEEDS,
    revisions=_LEGACY,
    subject=CheckScope.LEAVING,
)
async def while_it_waits(server: ServerUnderTest) -> None:
    """A call that waits for the client can be cancelled: it gets no response, also after the late response of the client."""
    tools: list[tuple[str, JsonObject]] = []
    for fixture, given in _REQUEST_TOOLS.items():
        if server.inventory.find("tools", server.manifest.find("tools", fixture).name) is None:
            continue
        name, arguments = server.tool(fixture, given)
        params: JsonObject = {"name": name, "arguments": arguments}
        if await _cancels_waiting_call(server, server.peer.message("tools/call", params)):
            tools.append((name, arguments))
    if not tools:
        raise NotTestable(f"no call of {' or '.join(_REQUEST_TOOLS)} sends a client request")
    # A server may take the id 0 for none, and may lose the client request of a call with it.
    with suppress(NotTestable):
        name, arguments = tools[0]
        call = server.peer.message("tools/call", {"name": name, "arguments": arguments}, id=0)
        await _cancels_waiting_call(server, call)


async def _cancels_waiting_call(server: ServerUnderTest, call: JsonObject) -> bool:
    """Cancel a call while it waits for the client, require that it gets no response, and return whether it waited."""
    peer = server.peer
    # An earlier request may have had the same id.
    earlier = _answers(peer, call["id"])
    async with _unanswered_call(peer, call) as request:
        if request is None:
            return False  # a server may have no such request in this revision
        await peer.notify(_CANCELLED, {"requestId": call["id"], "reason": "a check"})
        await peer.fence()
        # The response crosses the cancellation.
        result = REPLIES[str(request["method"])](params_of(request))
        await peer.post({"jsonrpc": "2.0", "id": request["id"], "result": result})
        for _ in range(_LATER_REQUESTS):
            await peer.fence()
    if number := _answers(peer, call["id"]) - earlier:
        named = "" if call["id"] else f" and has the id {brief(call['id'])}"
        raise Deviation(f"no response to a call that was cancelled while it waited{named}", f"{number} responses")
    return True


@asynccontextmanager
async def _unanswered_call(peer: SuiteConnection, call: JsonObject) -> AsyncIterator[JsonObject | None]:
    """Keep a call in progress while the block runs, and yield its client request, which gets no response.

    It is `None` if the call ends without one.
    """
    since = len(peer.inbox)
    has_ended = False

    def requests() -> list[JsonObject]:
        return [each for each in peer.inbox[since:] if "id" in each and each.get("method") in REPLIES]

    async def run() -> None:
        nonlocal has_ended
        with suppress(Deviation):  # a cancelled call has no response
            await peer.exchange(call)
        has_ended = True
        peer.wake()

    peer.unanswered.update(REPLIES)
    async with open_nursery() as nursery:
        nursery.start_soon(run)
        try:
            await peer.until(lambda: bool(requests()) or has_ended, "a client request, or the end of the call")
        except Deviation as deviation:
            raise NotTestable(f"the control request failed: {deviation}") from deviation
        yield next(iter(requests()), None)
        nursery.cancel_scope.cancel()


@check(
    "cancellation.silent-to-the-end",
    proves=("stdio.cancel-no-more-messages", "cancellation.no-response", "cancellation.stop-processing"),
    subject=CheckScope.EVIDENCE,
    transports=(Transport.STDIO,),
)
async def silent_to_the_end(server: ServerUnderTest) -> None:
    """After the cancellation of a call, and the responses to several later requests, no message follows for the call."""
    count = 0
    for transcript in server.evidence:
        for call in cancelled_calls(transcript):
            count += 1
            # One progress notification may have crossed the cancellation, however many responses precede it.
            if call.answered or call.progress > 1:
                late = f"{call.progress} progress notifications"
                raise Deviation(
                    f"no message for the cancelled call {brief(call.id)}", "a response" if call.answered else late
                )
    if not count:
        raise NotTestable("the suite cancelled no call")


# --- invalid cancellations
# ----------------------------------------------------------------------------------------------


@check(
    "cancellation.only-this-request",
    proves=("cancellation.races", "cancellation.race-tolerated", "jsonrpc.notification-no-response"),
    needs=_NEEDS,
    subject=CheckScope.RECOVERING,
    transports=(Transport.STDIO,),
)
async def only_this_request(server: ServerUnderTest) -> None:
    """A cancellation concerns only the request with the same id, and gets no response: calls with other ids are answered."""
    peer = server.peer
    name, arguments = server.tool(_BETWEEN)
    number, digits, text = peer.next_id(), str(peer.next_id()), f"Conformance-{peer.next_id()}"
    # The cancelled id begins with another one.
    kept, cancelled = (number, digits, text), f"{text}-cancelled"
    # Ids of answered requests, which are almost those of the calls. Their cancellations cross the responses.
    past: tuple[JsonValue, ...] = (str(number), int(digits), text.lower(), "Conformance")
    for id in past:
        await peer.request("server/discover" if server.revision.era is Era.MODERN else "ping", id=id)

    def answered(id: JsonValue) -> bool:
        return any(key_of(each.get("id")) == key_of(id) for each in peer.strays)

    def runs(id: JsonValue) -> bool:
        return answered(id) or any(each.get("method") == _PROGRESS and _token(each) == brief(id) for each in peer.inbox)

    for id in (*kept, cancelled):
        params: JsonObject = {"name": name, "arguments": arguments, "_meta": {"progressToken": brief(id)}}
        await peer.post(peer.message("tools/call", params, id=id))
    try:
        await peer.until(lambda: all(runs(id) for id in (*kept, cancelled)), f"progress of {_BETWEEN}")
    except Deviation as deviation:
        # A server may send no progress; then it is unknown when the calls run. Late responses would reach other checks.
        with suppress(Deviation):
            await peer.until(lambda: all(answered(id) for id in (*kept, cancelled)), "a response to each call")
        raise NotTestable(f"the control condition failed: {_BETWEEN} reports no progress") from deviation
    # A client may repeat a cancellation, as it does not learn whether it arrived.
    for id in (*past, cancelled, cancelled):
        await peer.notify(_CANCELLED, {"requestId": id})
    await peer.until(lambda: all(answered(id) for id in kept), "a response to each call that was not cancelled")
    own = [key_of(id) for id in (*kept, cancelled)]
    for each in peer.strays:
        if key_of(each.get("id")) not in own:
            raise Deviation("no response to a cancellation", brief(each))


async def _harmless(server: ServerUnderTest, params: JsonObject | None, deviant: str) -> None:
    peer = server.peer
    since = len(peer.strays)
    await peer.notify(_CANCELLED, params, deviant=deviant)
    await peer.fence()
    if len(peer.strays) > since:
        raise Deviation("no response to an invalid cancellation", brief(peer.strays[since]))


_MALFORMED: Final[tuple[JsonObject, ...]] = ({}, {"requestId": ["an array"]}, {"requestId": None, "reason": 7})
_WITHOUT_ID: Final[tuple[JsonObject, ...]] = ({}, {"reason": "a check"})


@check(
    "cancellation.of-the-past",
    proves=("cancellation.races", "cancellation.race-tolerated"),
    subject=CheckScope.RECOVERING,
    transports=(Transport.STDIO,),
)
async def of_the_past(server: ServerUnderTest) -> None:
    """A cancellation after the response is ignored, also when it is repeated and when its id is used again."""
    peer = server.peer
    modern = server.revision.era is Era.MODERN
    requests: list[tuple[str, JsonObject]] = [("server/discover" if modern else "ping", {})]
    if server.inventory.find("tools", server.manifest.find("tools", _SIMPLE).name) is not None:
        name, arguments = server.tool(_SIMPLE)
        requests.append(("tools/call", {"name": name, "arguments": arguments}))
    for method, params in requests:
        id = (await peer.request(method, params)).message.get("id")
        for _ in range(2):
            await _harmless(server, {"requestId": id}, "")
        if modern:
            # The id of an answered request is free again; in legacy revisions an id is used once.
            await peer.request(method, params, id=id)


@check(
    "cancellation.of-the-past-over-http",
    proves=("cancellation.races",),
    subject=CheckScope.RECOVERING,
    transports=(Transport.HTTP, Transport.HTTP_SSE),
)
async def of_the_past_over_http(server: ServerUnderTest) -> None:
    """A cancellation after the response is ignored, over HTTP."""
    await of_the_past(server)


@check(
    "cancellation.of-the-unknown",
    proves=("cancellation.invalid-ignored", "cancellation.unknown-id-ignored"),
    subject=CheckScope.RECOVERING,
    transports=(Transport.STDIO,),
)
async def of_the_unknown(server: ServerUnderTest) -> None:
    """A cancellation of an unknown request is ignored, also by a later request with that id."""
    peer = server.peer
    id = "conformance-never-sent"
    await _harmless(server, {"requestId": id}, "a cancellation of an unknown request")
    await peer.request("server/discover" if server.revision.era is Era.MODERN else "ping", id=id)


@check(
    "cancellation.malformed",
    proves=("cancellation.invalid-ignored", "cancellation.malformed-ignored"),
    subject=CheckScope.RECOVERING,
    transports=(Transport.STDIO,),
)
async def malformed(server: ServerUnderTest) -> None:
    """A malformed cancellation is ignored, also one without params."""
    wrong = [each for each in _MALFORMED if "requestId" in each or server.revision is not R2025_11_25]
    for params in (*wrong, None):
        await _harmless(server, params, "a malformed cancellation")


@check(
    "cancellation.without-id",
    proves=("schema.cancelled-params-optional-id", "jsonrpc.notification-no-response"),
    revisions=(R2025_11_25.name,),
    subject=CheckScope.RECOVERING,
)
async def without_id(server: ServerUnderTest) -> None:
    """A cancellation without a requestId, which the schema of 2025-11-25 permits, gets no response and harms nothing."""
    for params in _WITHOUT_ID:
        await _harmless(server, params, "")


# --- cancellations by the server
# ----------------------------------------------------------------------------------------


@check(
    "cancellation.of-own-requests",
    proves=("cancellation.same-direction", "cancellation.request-id-given"),
    subject=CheckScope.EVIDENCE,
    revisions=_LEGACY,
)
async def of_own_requests(server: ServerUnderTest) -> None:
    """The server cancels only requests of its own. It cannot know whether the response is already sent."""
    count = 0
    for transcript in server.evidence:
        own_ids: set[str] = set()
        for entry in transcript:
            for each in objects(entry):
                if not entry.sent and "method" in each and "id" in each:
                    own_ids.add(key_of(each["id"]))
                elif not entry.sent and each.get("method") == _CANCELLED:
                    count += 1
                    params = each.get("params")
                    id = params.get("requestId") if isinstance(params, dict) else None
                    if key_of(id) not in own_ids:
                        raise Deviation("the id of a request of the server", brief(each))
    if not count:
        raise NotTestable("the server cancelled nothing")


@check(
    "cancellation.by-server",
    proves=(
        "cancellation.server-only-for-listen",
        "cancellation.server-references-listen",
        "cancellation.request-id-required",
    ),
    subject=CheckScope.EVIDENCE,
    revisions=_MODERN,
)
async def by_server(server: ServerUnderTest) -> None:
    """The server cancels only subscriptions/listen requests."""
    listening = {
        key_of(each["id"])
        for transcript in server.evidence
        for entry in transcript
        for each in objects(entry)
        if entry.sent and each.get("method") == "subscriptions/listen"
    }
    for params in notified(server, _CANCELLED):
        if key_of(params.get("requestId")) not in listening:
            raise Deviation("the id of a subscriptions/listen request", brief(params))


@check("cancellation.in-progress", proves=("cancellation.in-progress",), needs=_NEEDS, revisions=_LEGACY)
async def in_progress(server: ServerUnderTest) -> None:
    """The server does not cancel a client request whose response it has used, be it a result or an error."""
    count = 0
    for fixture, arguments in _REQUEST_TOOLS.items():
        if server.inventory.find("tools", server.manifest.find("tools", fixture).name) is None:
            continue
        call = await converse(server, fixture, arguments)
        if call.answer.is_error or call.answer.result().get("isError") is True:
            continue
        count += len(call.client_requests)
        if cancelled := await _cancelled_after(server, call):
            raise Deviation("no cancellation of a request with a result, after the call that needed it", cancelled)

        async def after_error(fixture: str = fixture, arguments: JsonObject = arguments) -> str | None:
            # The server has used the error as well: it used the result of the same request.
            return await _cancelled_after(server, await converse(server, fixture, arguments, replies={}))

        # A server that gives up a failed call may cancel what it still waits for, and cross the error.
        if call.client_requests and (observed := await each_time(after_error)) is not None:
            raise Deviation("no cancellation of a request with an error, after the call that needed it", observed)
    if not count:
        raise NotTestable(f"no call of {' or '.join(_REQUEST_TOOLS)} succeeded after a client request")


async def _cancelled_after(server: ServerUnderTest, call: Conversation) -> str | None:
    """Return the cancellation of a client request that has a response, if the server sends one."""
    peer = server.peer
    await peer.fence()
    answered_ids = [each.whole["id"] for each in call.client_requests]
    for each in peer.inbox:
        if each.get("method") == _CANCELLED and member(each, "params", "requestId") in answered_ids:
            return brief(each)
    return None
