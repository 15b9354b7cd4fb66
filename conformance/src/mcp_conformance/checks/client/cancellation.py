"""Cancellation by the client and by the server, progress that the client reports, and batches that it receives.

Spec: basic/utilities/cancellation, basic/utilities/progress
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.checks.probes.subscription_stream import LISTEN
from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.http_exchange import CUT_OFF
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.drivers.client.stdio_host import STARTED
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw_of_params
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.cancellation import (
    BATCHED,
    BATCHED_RESPONSES,
    CANCELLED,
    CANCELLED_IDS,
    CANCELLED_NAMESAKE,
    CANCELLED_TOKEN,
    EMPTY,
    GOES_ON,
    LATE,
    NAMESAKE,
    WAITING,
    WAITING_RESOURCE,
)
from mcp_conformance.wire.transcript import Kind
from mcp_core.revisions import LEGACY, MODERN
from mcp_core.types.meta import PROGRESS_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_conformance.wire.transcript import Entry
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_CANCEL: Final = "conformance_cancel"
_SERVER: Final = "conformance_server_cancels"
_BATCHES: Final = "conformance_batches"
_NEEDS: Final = (f"scenario:{_CANCEL}",)
_LEGACY: Final = [each.name for each in LEGACY]
_MODERN: Final = [each.name for each in MODERN]
_CANCELLED: Final = "notifications/cancelled"
_REJECTED: Final = 400
"""The lowest HTTP status of a rejection."""


def _starts(entry: Entry) -> bool:
    """Return whether the client starts a server process, or the server breaks a connection: requests before are over."""
    return entry.kind is Kind.NOTE and entry.text.startswith((STARTED, CUT_OFF))


def _key(value: JsonValue) -> bytes:
    """Return a key for an id, under which 1 and "1" differ."""
    return encoded(value)


def _waiting(client: ClientUnderTest) -> JsonObject:
    """Return the call that the client has to cancel.

    Raises:
        NotTestable: The client did not send it, or did not finish after it.
    """
    evidence = client.run(_CANCEL)
    calls = [each for each in evidence.taken("tools/call") if params_of(each).get("name") == WAITING]
    if not calls:
        raise NotTestable(f"the client sent no valid call of {WAITING}: {evidence.ending}")
    return calls[0]


async def _notifies(client: ClientUnderTest) -> None:
    call = _waiting(client)
    evidence = client.run(_CANCEL)
    named = [params_of(each).get("requestId") for each in evidence.sent(_CANCELLED)]
    # A client that reads the resource cancels this request too; others are judged by the call.
    reads = [each for each in evidence.taken("resources/read") if params_of(each).get("uri") == WAITING_RESOURCE]
    for request in (call, *reads):
        if _key(request["id"]) not in map(_key, named):
            expected = f"notifications/cancelled with the requestId {brief(request['id'])} of {request['method']}"
            raise Deviation(expected, brief(named))


@check(
    "cancellation.client-notifies",
    proves=("lifecycle.timeout-cancel", "sse.cancel-explicitly"),
    revisions=_LEGACY,
    transports=frozenset(Transport),
    needs=_NEEDS,
)
async def notifies(client: ClientUnderTest) -> None:
    """A cancelled request is announced by a notification."""
    await _notifies(client)


@check(
    "cancellation.client-notifies-stdio",
    proves=("stdio.cancel-notification", "cancellation.client-should-notify"),
    revisions=_MODERN,
    transports=frozenset({Transport.STDIO}),
    needs=_NEEDS,
)
async def notifies_stdio(client: ClientUnderTest) -> None:
    """A cancelled request over stdio is announced by a notification with its id."""
    await _notifies(client)


@check("http.client-cancels-by-closing", proves=("http.client-cancel-closes-stream",), needs=_NEEDS)
async def cancels_by_closing(client: ClientUnderTest) -> None:
    """A request over HTTP is cancelled by closing its connection."""
    call = _waiting(client)
    evidence = client.run(_CANCEL)
    received = evidence.notes.get("received")
    if evidence.requests[-1]["id"] == call["id"]:
        raise NotTestable("the client sent no further request after the call that it had to cancel")
    if not isinstance(received, int) or received >= len(evidence.server.received):
        raise Deviation("the client to close the connection and to continue", evidence.ending)
    if evidence.sent(_CANCELLED):
        raise Deviation("no notifications/cancelled over HTTP", brief(evidence.sent(_CANCELLED)[0]))


@check(
    "http.client-cancels-one",
    proves=("http.client-cancel-closes-stream",),
    revisions=_MODERN,
    transports=frozenset({Transport.HTTP}),
    needs=_NEEDS,
)
async def cancels_one(client: ClientUnderTest) -> None:
    """The cancellation of a request over HTTP does not close the connection of another one."""
    _waiting(client)
    outcome = client.run(_CANCEL).notes.get(GOES_ON)
    if outcome is None:
        raise NotTestable(f"the client did not call {GOES_ON} beside {WAITING}, or did not cancel the latter")
    if outcome != "has ended":
        raise Deviation(f"the client to wait for the result of {GOES_ON}", "its connection was closed")


@check(
    "cancellation.client-late-response",
    proves=(
        "cancellation.races",
        "cancellation.late-response-ignored",
        "cancellation.may-ignore",
        "cancellation.race-tolerated",
    ),
    needs=(*_NEEDS, "scenario:tools_call"),
)
async def late_response(client: ClientUnderTest) -> None:
    """A response to a cancelled request is ignored."""
    client.control()
    call = _waiting(client)
    evidence = client.run(_CANCEL)
    requests = [_key(each["id"]) for each in evidence.requests]
    if evidence.status != 0 or requests.index(_key(call["id"])) == len(requests) - 1:
        raise Deviation("further requests after the cancelled one, and a successful exit", evidence.ending)


@check(
    "cancellation.client-params",
    proves=(
        "cancellation.request-id-given",
        "cancellation.request-id-required",
        "schema.cancelled-params",
        "schema.cancelled-params-optional-id",
        "cancellation.reason-optional",
    ),
    needs=_NEEDS,
)
async def cancelled_params(client: ClientUnderTest) -> None:
    """A cancellation names a request, and optionally a reason."""
    if not isinstance(id := _waiting(client)["id"], int | str):
        raise NotTestable(f"the cancelled request has no valid id: {brief(id)}")
    for message in _cancellations(client):
        wrong = flaw_of_params(_CANCELLED, message.get("params"), client.revision)
        if wrong is not None or "requestId" not in params_of(message):
            raise Deviation("notifications/cancelled with a requestId", wrong or brief(message))


def _cancellations(client: ClientUnderTest) -> list[JsonObject]:
    _waiting(client)
    found = client.run(_CANCEL).sent(_CANCELLED)
    if not found and client.revision.name in _MODERN and client.transport is Transport.HTTP:
        raise NotApplicable("over HTTP a request is cancelled by closing its connection")
    if not found:
        raise NotTestable("the client sent no notifications/cancelled")
    return found


@check(
    "cancellation.client-own",
    proves=("cancellation.same-direction", "cancellation.only-own-requests"),
    needs=(
        *_NEEDS,
        *(f"scenario:conformance_{each}" for each in ("asks", "declines", "server_cancels")),
        "scenario:session-lost",
    ),
)
async def own_requests(client: ClientUnderTest) -> None:
    """The client cancels only requests of its own, not those of the server."""
    found = 0
    for evidence in client.all():
        known = _known_ids(evidence)
        for messages in _connections(evidence):
            own = {_key(each["id"]) for each in messages if "method" in each and "id" in each}
            for message in messages:
                # A separate check requires the requestId.
                if message.get("method") != _CANCELLED or "requestId" not in params_of(message):
                    continue
                found += 1
                key = _key(params_of(message)["requestId"])
                if key not in own and (evidence.transport is Transport.STDIO or key in known):
                    raise Deviation("the requestId of a request of the client in the session", brief(message))
    if not found:
        _cancellations(client)
        raise NotTestable("no notifications/cancelled has a requestId")


def _known_ids(evidence: Evidence) -> set[bytes]:
    """Return the ids of all messages in both directions.

    Over HTTP, a request that the client cancels while it sends it may not have been received: its id is unknown.
    """
    everything = [*evidence.transcript.messages(sent=True), *evidence.transcript.messages(sent=False)]
    return {_key(each["id"]) for each in everything if isinstance(each, dict) and "id" in each}


def _connections(evidence: Evidence) -> list[list[JsonObject]]:
    """Return the messages by connection: by session over Streamable HTTP, by start over stdio.

    Probes count too, and so do the requests of a client that loses its session id, which another check covers.
    """
    if evidence.launches:
        return [[each for each in _flat(launch.values) if isinstance(each, dict)] for launch in evidence.launches]
    found: dict[int, list[JsonObject]] = {}
    newest = -1
    for exchange in evidence.exchanges:
        newest = newest if exchange.known is None else exchange.known.number
        found.setdefault(newest, []).extend(each for each in _flat([exchange.value]) if isinstance(each, dict))
    return [*found.values()]


def _flat(values: Sequence[JsonValue]) -> Iterator[JsonValue]:
    for value in values:
        yield from value if isinstance(value, list) else [value]


@check(
    "cancellation.client-in-progress",
    proves=("cancellation.in-progress", "cancellation.only-in-progress"),
)
async def in_progress(client: ClientUnderTest) -> None:
    """The client does not cancel requests whose response it has received."""
    for evidence in client.all():
        _not_answered(evidence)


_LATER_REQUESTS: Final = 2
"""The number of later requests of an idle client, with their responses, that show that it has received a response."""


def _not_answered(evidence: Evidence) -> None:
    """Check that the client cancels no request with a known response.

    A cancellation may cross the response, and so may the requests of other tasks of the client. But a client that sends a
    request while no other is open has received a response before. A response counts as known after two such requests with
    their responses: also the first one may cross it.
    """
    waiting: set[bytes] = set()
    """The ids of the requests without a response or a cancellation."""
    alone: dict[bytes, int] = {}
    """The position of the newest request with an id, if no other request was open then."""
    responses: dict[bytes, int] = {}
    """The position of the response to the newest request with an id."""
    newest = [-1] * _LATER_REQUESTS
    """The positions of the newest such requests with a response, increasing: the responses before all of them are known."""
    rejected = [each.value for each in evidence.exchanges if each.status >= _REJECTED]
    for position, entry in enumerate(evidence.transcript):
        message = entry.value
        if _starts(entry):
            waiting.clear()
            alone.clear()
            responses.clear()
        if not isinstance(message, dict):
            continue
        key = _key(message.get("id"))
        if entry.sent and "method" not in message:
            responses[key] = position
            newest = sorted((*newest, alone.pop(key, -1)))[1:]
            waiting.discard(key)
        elif not entry.sent and "method" in message and "id" in message:
            if not waiting:
                alone[key] = position
            # A subscription stays open. A request that is rejected by its HTTP status alone may have no other response.
            if message["method"] != LISTEN and not any(each is message for each in rejected):
                waiting.add(key)
            # A reused id, which another check covers, refers to the new request.
            responses.pop(key, None)
        elif not entry.sent and message.get("method") == _CANCELLED:
            cancelled = _key(params_of(message).get("requestId"))
            if responses.get(cancelled, newest[0]) < newest[0]:
                raise Deviation("no cancellation of a request with a response", brief(message))
            waiting.discard(cancelled)


@check("cancellation.client-not-initialize", proves=("cancellation.not-initialize",))
async def not_initialize(client: ClientUnderTest) -> None:
    """`initialize` is never cancelled, even if the stream ends before its response."""
    for evidence in client.all():
        for messages in evidence.conversations:
            # A request without a valid id cannot be cancelled.
            opening = {
                _key(each["id"])
                for each in messages
                if each.get("method") == "initialize" and isinstance(each.get("id"), int | str)
            }
            for message in messages:
                if message.get("method") == _CANCELLED and _key(params_of(message).get("requestId")) in opening:
                    raise Deviation("no cancellation of initialize", brief(message))


# --- cancellation by the server
# -----------------------------------------------------------------------------------------


def _server_cancellation(client: ClientUnderTest) -> Evidence:
    """Return the recorded messages of the scenario in which the server cancels its client requests.

    Raises:
        NotApplicable: The client does not declare a capability for a client request.
        NotTestable: The client did not call the tool, responded before the cancellation, or sent an unreadable message.
    """
    evidence = client.run(_SERVER)
    called = [each for each in evidence.sent("tools/call") if params_of(each).get("name") == CANCELLED]
    if not called:
        raise NotTestable(f"the client did not call {CANCELLED}: {evidence.ending}")
    pings = [each for each in evidence.server.client_requests if each.name]
    if not pings:
        raise NotApplicable("the client declares neither elicitation nor sampling")
    if pings[0].response is None:
        raise NotTestable("the control request failed: the client did not respond to a ping while the form was open")
    if evidence.unread is not None:
        raise NotTestable(f"the client sent an unreadable message: {brief(evidence.unread)}")
    return evidence


@check(
    "cancellation.client-no-response",
    proves=("cancellation.no-response", "cancellation.stop-processing"),
    revisions=_LEGACY,
    needs=(f"scenario:{_SERVER}",),
)
async def no_response(client: ClientUnderTest) -> None:
    """A request that the server cancelled gets no response, and no progress is reported for it."""
    evidence = _server_cancellation(client)
    cancelled: set[bytes] = set()
    fences = {_key(each.request["id"]) for each in evidence.server.client_requests if each.name == LATE}
    early = 0
    is_known = False
    for entry in evidence.transcript:
        message = entry.value
        if not isinstance(message, dict):
            continue
        if entry.sent and message.get("method") == _CANCELLED:
            cancelled.add(_key(params_of(message).get("requestId")))
        if not entry.sent and "method" not in message and _key(message.get("id")) in map(_key, CANCELLED_IDS):
            if _key(message["id"]) in cancelled:
                raise Deviation("no response to a cancelled request", brief(message))
            early += 1
        if not entry.sent and "method" not in message:
            is_known = is_known or _key(message.get("id")) in fences
        if not entry.sent and is_known and params_of(message).get("progressToken") == CANCELLED_TOKEN:
            raise Deviation("no progress of a cancelled request", brief(message))
    if early == len(CANCELLED_IDS):
        raise NotTestable("the client responded before the cancellation")


@check(
    "cancellation.client-bears-late",
    proves=("cancellation.races",),
    revisions=_LEGACY,
    needs=(f"scenario:{_SERVER}",),
)
async def late_cancellation(client: ClientUnderTest) -> None:
    """A cancellation of a request with a response does no harm."""
    evidence = _server_cancellation(client)
    responses = {each.name: each.response for each in evidence.server.client_requests}
    if responses.get("behind") is None:
        raise NotTestable("the control request failed: the client did not respond to a ping before the cancellation")
    if responses.get(LATE) is None:
        raise Deviation("a response to the ping after the cancellation", evidence.ending)


@check(
    "cancellation.client-bears-same-id",
    proves=("cancellation.same-direction",),
    revisions=_LEGACY,
    needs=(f"scenario:{_SERVER}",),
)
async def same_id(client: ClientUnderTest) -> None:
    """A cancellation by the server concerns its own request, not a request of the client with the same id."""
    evidence = _server_cancellation(client)
    calls = [each for each in evidence.taken("tools/call") if params_of(each).get("name") == CANCELLED_NAMESAKE]
    pinged = [each.response for each in evidence.server.client_requests if each.name == NAMESAKE]
    if not calls or not pinged or pinged[-1] is None:
        raise NotTestable(f"the client did not call {CANCELLED_NAMESAKE}, or did not respond to a ping in it")
    if evidence.status != 0 and evidence.requests[-1]["id"] == calls[-1]["id"]:
        raise Deviation("the client to receive the result of its own request", evidence.ending)


@check(
    "cancellation.client-invalid-ignored",
    proves=("cancellation.invalid-ignored",),
    revisions=_LEGACY,
    needs=(f"scenario:{_SERVER}",),
)
async def invalid_ignored(client: ClientUnderTest) -> None:
    """A cancellation with an unknown or missing request id is ignored."""
    evidence = _server_cancellation(client)
    responses = {each.name: each.response for each in evidence.server.client_requests}
    if responses.get(LATE) is None:
        raise NotTestable("the control request failed: the client did not respond to a ping before these cancellations")
    # A response in the tool after it shows that the client continued. Another check covers that tool.
    if responses.get("fence") is None or (evidence.status != 0 and responses.get(NAMESAKE) is None):
        raise Deviation("the client to continue", evidence.ending)


# --- progress ----------------------------------------------------------------------------------------------------------


@check("progress.client-unique", proves=("progress.token-unique",))
async def token_unique(client: ClientUnderTest) -> None:
    """No two active requests have the same progress token."""
    tokens = 0
    for evidence in client.all():
        active: dict[bytes, bytes] = {}
        rejected = [each.value for each in evidence.exchanges if each.status >= _REJECTED]
        for entry in evidence.transcript:
            message = entry.value
            if _starts(entry):
                active.clear()
            if not isinstance(message, dict) or "id" not in message or any(each is message for each in rejected):
                continue
            if entry.sent and "method" not in message:
                active.pop(_key(message["id"]), None)
            elif not entry.sent and "method" in message:
                meta = params_of(message).get("_meta")
                if isinstance(meta, dict) and PROGRESS_TOKEN in meta:
                    tokens += 1
                    token = _key(meta[PROGRESS_TOKEN])
                    if token in active.values():
                        raise Deviation("a progress token that no other active request has", brief(message))
                    active[_key(message["id"])] = token
    if not tokens:
        raise NotApplicable("the client requests no progress")


@check(
    "progress.client-known",
    proves=("progress.known-token", "schema.progress-params", "progress.in-progress"),
    revisions=_LEGACY,
)
async def known_token(client: ClientUnderTest) -> None:
    """The client reports progress only with tokens from requests of the server."""
    for evidence in client.all():
        given: set[bytes] = set()
        for entry in evidence.transcript:
            message = entry.value
            if entry.kind is Kind.NOTE and entry.text.startswith(STARTED):
                given.clear()
            if not isinstance(message, dict):
                continue
            params = params_of(message)
            meta = params.get("_meta")
            if entry.sent and "method" in message and isinstance(meta, dict) and PROGRESS_TOKEN in meta:
                given.add(_key(meta[PROGRESS_TOKEN]))
            reported = not entry.sent and message.get("method") == "notifications/progress"
            if reported and _key(params.get("progressToken")) not in given:
                raise Deviation("progress with the token of a request", brief(message))
            wrong = flaw_of_params("notifications/progress", params, client.revision) if reported else None
            if wrong is not None:
                raise Deviation("progress according to the schema", wrong)


# --- batches -----------------------------------------------------------------------------------------------------------


_IN_BATCH: Final = {"ping 1": "result", "ping 2": "result", "unknown": "error"}
"""The ids of the requests in the batch, and the member of their responses."""


def _batched(client: ClientUnderTest) -> Evidence:
    evidence = client.run(_BATCHES)
    if not [each for each in evidence.sent("tools/call") if params_of(each).get("name") == BATCHED]:
        raise NotTestable(f"the client did not call {BATCHED}: {evidence.ending}")
    return evidence


@check(
    "batch.client-receives",
    proves=("batch.receive", "batch.responses-match-requests"),
    needs=(f"scenario:{_BATCHES}",),
)
async def receives(client: ClientUnderTest) -> None:
    """Each request of a batch gets one response, and a notification gets none; a response may be in an array."""
    _continues(client.run(_BATCHES))
    evidence = _batched(client)
    for id, member in _IN_BATCH.items():
        found = [each for each in evidence.responses if each.get("id") == id]
        if len(found) != 1 or member not in found[0]:
            raise Deviation(f"one {member} for the request {id!r} of the batch", brief(list(found)))


def _continues(evidence: Evidence) -> None:
    """Check that the client continues after each call whose response is in an array, and does not cancel the call."""
    for name in BATCHED_RESPONSES:
        calls = [each for each in evidence.sent("tools/call") if params_of(each).get("name") == name]
        if not calls:
            continue
        id = calls[-1]["id"]
        cancelled = [each for each in evidence.sent(_CANCELLED) if params_of(each).get("requestId") == id]
        if cancelled:
            raise Deviation("the response in an array to be received", brief(cancelled[0]))
        if evidence.requests[-1] is calls[-1] and evidence.status != 0:
            raise Deviation("the client to continue after a response in an array", evidence.ending)


@check(
    "batch.client-bad-member",
    proves=("batch.receive", "batch.responses-match-requests"),
    needs=(f"scenario:{_BATCHES}",),
)
async def bad_member(client: ClientUnderTest) -> None:
    """A request beside a member of a batch that is no message gets its response."""
    evidence = _batched(client)
    if not any(each.get("id") == "ping 1" for each in evidence.responses):
        raise NotTestable("the control request failed: a request of a batch without such a member gets no response")
    found = [each for each in evidence.responses if each.get("id") == "beside"]
    if len(found) != 1 or "result" not in found[0]:
        raise Deviation("one result for the request 'beside' of the batch", brief(list(found)))


@check("batch.client-empty", proves=("batch.empty-array",), needs=(f"scenario:{_BATCHES}",))
async def empty_batch(client: ClientUnderTest) -> None:
    """An empty array is an invalid request, after which the client continues."""
    evidence = _batched(client)
    responses = {each.name: each.response for each in evidence.server.client_requests}
    if responses.get("last") is None:
        raise NotTestable("the control request failed: the client did not respond to a ping before the empty array")
    if responses.get(EMPTY) is None:
        raise Deviation("a response to the ping after an empty array", evidence.ending)


@check(
    "batch.client-receives-stdio",
    proves=("batch.stdio",),
    transports=frozenset({Transport.STDIO}),
    needs=(f"scenario:{_BATCHES}",),
)
async def receives_stdio(client: ClientUnderTest) -> None:
    """A line may contain a batch."""
    evidence = _batched(client)
    # Another check covers whether all responses are correct.
    if not any(each.get("id") == id for each in evidence.responses for id in _IN_BATCH):
        raise Deviation("a response to a request of the batch", brief([*evidence.responses]))


@check("batch.client-kinds", proves=("batch.element-kinds",))
async def kinds(client: ClientUnderTest) -> None:
    """An array of the client contains responses only, or requests and notifications only."""
    for evidence in client.all():
        for entry in evidence.transcript:
            if entry.sent or not isinstance(entry.value, list):
                continue
            kinds = {isinstance(each, dict) and "method" in each for each in entry.value}
            if len(kinds) != 1:
                raise Deviation("an array of messages of one kind", brief(entry.value))
