"""JSON-RPC batches, in 2025-03-26 only."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.batches import send_batch
from mcp_conformance.checks.probes.http_requests import session
from mcp_conformance.checks.probes.interactive_calls import REPLIES, converse
from mcp_conformance.checks.probes.message_pairs import key_of
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.probes.unknown_methods import UNKNOWN_NOTIFICATION
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import HttpConnection, messages_of
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.transcript import Kind
from mcp_core.revisions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

# Legacy revisions restrict clients only. They do not forbid a server to accept batches, which JSON-RPC has.
_WITHOUT: Final = tuple(revision.name for revision in REVISIONS.values() if revision.era is Era.MODERN)
_LATER: Final = ("2025-11-25", "2025-06-18")
"""Revisions with sessions and without batches."""
_NOTIFICATION: Final[JsonObject] = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
_UNKNOWN: Final[JsonObject] = {"jsonrpc": "2.0", "method": UNKNOWN_NOTIFICATION}
_SAMPLING: Final = "sampling/createMessage"
_REPLY: Final[JsonObject] = {"jsonrpc": "2.0", "id": "never sent", "result": {}}


def _ping(peer: SuiteConnection, id: JsonValue) -> JsonObject:
    return peer.message("ping", id=id)


@check(
    "batch.requests",
    proves=("batch.receive", "batch.responses-match-requests", "batch.stdio", "batch.http-requests-response"),
    subject=CheckScope.RECOVERING,
)
async def requests(server: ServerUnderTest) -> None:
    """Each request of a batch gets one response, and a notification in it gets none, even when its method is unknown."""
    peer = server.peer
    await peer.fence()
    number = peer.next_id()
    ids: tuple[JsonValue, ...] = ("first", 0, number, str(number), "second")
    pings: list[JsonValue] = [_ping(peer, id) for id in ids]
    batch: list[JsonValue] = [pings[0], _NOTIFICATION, _UNKNOWN, *pings[1:]]
    async with AsyncExitStack() as stack:
        if server.transport is Transport.HTTP:
            # The version of another session, which has no batches, must not matter in this one.
            for other in _LATER:
                with suppress(Deviation):  # the server does not support it
                    await stack.enter_async_context(session(server, revision=other))
                    break
        answers = await send_batch(peer, batch, len(ids))
    _require_results(answers, ids, "")
    if server.transport is Transport.HTTP:
        # Another client may use the same ids.
        async with session(server) as second:
            _require_results(await send_batch(second, batch, len(ids)), ids, ", which another session has used too")
    try:
        name, arguments = server.tool("test_tool_with_progress")
    except NotTestable:
        return
    # Over HTTP a call with progress makes a server respond with a stream.
    params: JsonObject = {"name": name, "arguments": arguments, "_meta": {"progressToken": "conformance-batch"}}
    call = peer.message("tools/call", params, id="with progress")
    answers = await send_batch(peer, [_ping(peer, "before"), call, _ping(peer, "after")], 3)
    if sorted(str(each.get("id")) for each in answers) != ["after", "before", "with progress"]:
        raise Deviation("one response for each of 'before', 'with progress' and 'after'", brief(list(answers)))


def _require_results(answers: Sequence[JsonObject], ids: Sequence[JsonValue], where: str) -> None:
    """Require one response for each id of a batch, and that it is a result."""
    if sorted(key_of(each.get("id")) for each in answers) != sorted(map(key_of, ids)):
        raise Deviation(f"one response for each of {', '.join(map(key_of, ids))}{where}", brief([*answers]))
    for each in answers:
        if "result" not in each:
            raise Deviation(f"a result for each request{where}", brief(each))


@check("batch.one", proves=("batch.receive",), subject=CheckScope.RECOVERING)
async def one(server: ServerUnderTest) -> None:
    """A batch may contain a single request."""
    answers = await send_batch(server.peer, [_ping(server.peer, "alone")], 1)
    if [each.get("id") for each in answers] != ["alone"]:
        raise Deviation("one response for 'alone'", brief(list(answers)))


@check("batch.bad-member", proves=("batch.receive", "batch.responses-match-requests"), subject=CheckScope.RECOVERING)
async def bad_member(server: ServerUnderTest) -> None:
    """A batch with an unknown method and a member that is no message: the other requests get their results."""
    peer = server.peer
    await peer.fence()
    unknown = peer.message("conformance/does-not-exist", id="unknown")
    batch: list[JsonValue] = [_ping(peer, "before 7"), unknown, 7, _ping(peer, "behind 7")]
    answers = await send_batch(peer, batch, 3, deviant="a member that is a number")
    for id, name in (("before 7", "result"), ("unknown", "error"), ("behind 7", "result")):
        found = [each for each in answers if each.get("id") == id]
        if len(found) != 1 or name not in found[0]:
            raise Deviation(f"one {name} for the request {id!r} of the batch", brief(list(answers)))


@check("batch.responses", proves=("batch.receive", "batch.http-202"), subject=CheckScope.RECOVERING)
async def responses(server: ServerUnderTest) -> None:
    """A response in a batch reaches the call that waits for it."""
    peer = server.peer
    arguments: JsonObject = {"prompt": "Say yes."}
    control = await converse(server, "test_sampling", arguments)
    if control.answer.is_error or not control.client_requests or control.answer.result().get("isError") is True:
        raise NotTestable(f"the control request failed: {control.answer}")
    name, given = server.tool("test_sampling", arguments)
    known = len(peer.inbox)
    peer.unanswered.add(_SAMPLING)
    answers: list[JsonRpcResponse] = []

    async def call() -> None:
        answers.append(await peer.request("tools/call", {"name": name, "arguments": given}))

    def waiting() -> list[JsonValue]:
        return [each["id"] for each in peer.inbox[known:] if each.get("method") == _SAMPLING and "id" in each]

    async with open_nursery() as nursery:
        nursery.start_soon(call)
        await peer.until(lambda: bool(waiting()), f"a request {_SAMPLING}")
        await peer.post([{"jsonrpc": "2.0", "id": id, "result": REPLIES[_SAMPLING]({})} for id in waiting()])
    if answers[0].is_error or answers[0].result().get("isError") is True:
        raise Deviation("the result of the call, whose client request is answered in a batch", str(answers[0]))


@check("batch.element-kinds", proves=("batch.element-kinds",), subject=CheckScope.EVIDENCE)
async def element_kinds(server: ServerUnderTest) -> None:
    """An array of the server contains responses only, or requests and notifications only."""
    for transcript in server.evidence:
        for entry in transcript:
            if not entry.sent and entry.kind is Kind.MESSAGE and isinstance(entry.value, list):
                kinds = {isinstance(each, dict) and "method" in each for each in entry.value}
                if len(kinds) != 1:
                    raise Deviation("an array of messages of one kind", brief(entry.value))


@check("batch.empty", proves=("batch.empty-array",), subject=CheckScope.LEAVING)
async def empty(server: ServerUnderTest) -> None:
    """An empty array gets one error -32600, not in an array; over HTTP a 4xx status."""
    peer = server.peer
    await peer.fence()
    mark = len(peer.transcript.entries)
    if isinstance(peer, HttpConnection):
        answer = await peer.send(b"[]", headers=peer.headers([]), deviant="an empty array")
        if not 400 <= answer.status < 500:
            raise Deviation("HTTP 4xx for an empty array", f"HTTP {answer.status}: {answer.body[:200]!r}")
        return
    refused = await peer.malformed(b"[]", deviant="an empty array")
    if refused is None:
        await peer.fence()
        raise NotApplicable("no response, and this revision has no error for it: each error has a request id")
    refused.error(-32600, what="an empty array")
    if arrays := _arrays_since(peer, mark):
        raise Deviation("one error, not an array", arrays[0])


@check("batch.http-202", proves=("batch.http-202",), subject=CheckScope.RECOVERING)
async def http_202(server: ServerUnderTest) -> None:
    """A batch without requests gets HTTP 202 without a body."""
    peer = server.peer
    if not isinstance(peer, HttpConnection):
        raise TypeError("the requirement is about HTTP")
    for batch, deviant in (([_NOTIFICATION, _NOTIFICATION], ""), ([_REPLY], "a response without a request")):
        answer = await peer.send(encoded(list(batch)), headers=peer.headers(list(batch)), deviant=deviant)
        if answer.status != 202 or answer.body:
            raise Deviation("HTTP 202 without a body", f"HTTP {answer.status}: {answer.body[:200]!r}")


@check(
    "batch.not-answered",
    proves=("batch.responses-match-requests", "jsonrpc.notification-no-response"),
    revisions=("2025-03-26",),
    transports=(Transport.STDIO,),
    subject=CheckScope.RECOVERING,
)
async def not_answered(server: ServerUnderTest) -> None:
    """A batch of notifications gets no response, not even an empty array, and not for a method that is unknown."""
    peer = server.peer
    await peer.fence()
    mark = len(peer.transcript.entries)
    await peer.post([_NOTIFICATION, _UNKNOWN])
    await peer.fence()
    arrays = _arrays_since(peer, mark)
    if arrays or peer.strays:
        raise Deviation("no response to a batch of notifications", arrays[0] if arrays else brief(peer.strays[0]))


@check(
    "batch.no-array",
    proves=("stdio.individual-messages",),
    # An error for the array may be late.
    subject=CheckScope.LEAVING,
)
async def no_array(server: ServerUnderTest) -> None:
    """An array of requests is not answered with an array."""
    peer = server.peer
    mark = len(peer.transcript.entries)
    await peer.post([_ping(peer, "in a batch"), _ping(peer, "in the same batch")], deviant="a batch")
    # The server may reject the array, ignore it, or answer each request.
    await peer.fence()
    if arrays := _arrays_since(peer, mark):
        raise Deviation("each message on a line of its own", arrays[0])


def _arrays_since(peer: SuiteConnection, mark: int) -> list[str]:
    return [str(entry) for entry in peer.transcript.entries[mark:] if not entry.sent and isinstance(entry.value, list)]


@check(
    "batch.refused",
    proves=("jsonrpc.invalid-request-code",),
    revisions=_WITHOUT,
    transports=(Transport.STDIO, Transport.HTTP),
    subject=CheckScope.RECOVERING,
)
async def refused(server: ServerUnderTest) -> None:
    """An array of messages is rejected, and no request in it gets a result."""
    peer = server.peer
    await peer.fence()
    batch: list[JsonValue] = [peer.message("tools/list", id="in a batch")]
    if isinstance(peer, HttpConnection):
        answer = await peer.send(encoded(batch), headers=peer.headers(batch[0]), deviant="a batch")
        answers = messages_of(answer)
        if not 400 <= answer.status < 500:
            raise Deviation("HTTP 4xx for a batch", f"HTTP {answer.status}: {answer.body[:200]!r}")
    else:
        refusal = await peer.malformed(encoded(batch), deviant="a batch")
        if refusal is None:
            raise Deviation("error -32600 for a batch", "no error")
        refusal.error(-32600, what="a batch")
        answers = peer.strays
    for each in answers:
        if member(each, "result") is not None:
            raise Deviation("no result for a request in a batch", brief(each))
    await peer.fence()


@check(
    "batch.error-id",
    proves=("jsonrpc.error-response-id", "jsonrpc.error-id-echo"),
    revisions=(*_LATER, *_WITHOUT),
    transports=(Transport.HTTP,),
    subject=CheckScope.RECOVERING,
)
async def error_id(server: ServerUnderTest) -> None:
    """An error in the response to an array has the id of a request in it, null, or none."""
    peer = server.peer
    if not isinstance(peer, HttpConnection):
        raise TypeError("the check is about HTTP")
    method = "ping" if server.revision.era is Era.LEGACY else "server/discover"
    batch: list[JsonValue] = [peer.message(method, id=id) for id in ("in a batch", 7)]
    answer = await peer.send(encoded(batch), headers=peer.headers(batch[0]), deviant="a batch")
    known: tuple[JsonValue, ...] = ("in a batch", 7, None)
    for each in messages_of(answer):
        if "error" in each and each.get("id") not in known:
            raise Deviation("the id of a request in the array, null, or no id, in the error", brief(each))


@check(
    "stdio.no-batch",
    proves=("stdio.no-batch", "stdio.individual-messages"),
    subject=CheckScope.EVIDENCE,
)
async def no_batch(server: ServerUnderTest) -> None:
    """No line of the server is an array."""
    for transcript in server.evidence:
        for entry in transcript:
            if not entry.sent and isinstance(entry.value, list):
                raise Deviation("one message per line", str(entry))
