"""What a client bears: what is allowed and rarely seen, streams that break, servers that die, answers in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.reported_results import reports
from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.evidence import STREAMS
from mcp_conformance.scenarios.robustness import BREAKS, CASES, CRASHES, PATH, QUERY, TOKEN, TWO
from mcp_core.revisions import LEGACY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject

_HTTP: Final = frozenset({Transport.HTTP})
_LEGACY: Final = [each.name for each in LEGACY]
_LISTEN: Final = "subscriptions/listen"


def _params(message: JsonObject) -> JsonObject:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _called(evidence: Evidence) -> list[str]:
    """The tools that were called, in order."""
    return [str(_params(each).get("name")) for each in evidence.sent("tools/call")]


# --- what is allowed and rarely seen ------------------------------------------------------------------------------------


@check(
    "schema.client-bears-rich",
    proves=(
        "schema.implementation-title",
        "schema.implementation-details",
        "schema.progress-message",
        "meta.more-types",
        "schema.number-fields-not-integer-only",
    ),
    needs=("scenario:conformance_rich", "scenario:tools_call", f"scenario:{STREAMS}"),
)
async def bears_rich(client: ClientUnderTest) -> None:
    """Titles, icons, annotations, `_meta` everywhere and progress with a message do not disturb the client."""
    client.control()
    client.control_streams()
    evidence = client.run("conformance_rich")
    if evidence.status != 0 or not evidence.sent("tools/call"):
        raise Deviation("the client to do as in tools_call", evidence.ending)


@check(
    "tools.client-name-case",
    proves=("tools.name-case-sensitive",),
    revisions=("2025-11-25",),
    needs=("scenario:conformance_rich",),
)
async def name_case(client: ClientUnderTest) -> None:
    """Two tools whose names differ in case are two."""
    evidence = client.run("conformance_rich")
    called = set(_called(evidence)) & set(CASES)
    if not called:
        raise NotTestable(f"the client called none of {', '.join(CASES)}: {evidence.ending}")
    if called != set(CASES):
        raise Deviation(f"calls of {' and '.join(CASES)}", f"calls of {called.pop()} alone")


# --- connections and streams that break -------------------------------------------------------------------------------


def _broken(client: ClientUnderTest) -> Evidence:
    """What the client did when its stream was broken.

    Raises:
        NotTestable: It did not make the call.
    """
    evidence = client.run("conformance_broken_stream")
    if "broken" not in evidence.notes:
        raise NotTestable(f"the client did not call {BREAKS}: {evidence.ending}")
    return evidence


@check(
    "http.client-bears-broken-stream",
    proves=("sse.disconnect-any-time",),
    transports=_HTTP,
    needs=("scenario:conformance_broken_stream",),
)
async def bears_broken(client: ClientUnderTest) -> None:
    """A connection that breaks in the midst of an answer is the end of that, and not of all."""
    evidence = _broken(client)
    if "test_behind" not in _called(evidence):
        raise Deviation("a call of test_behind", evidence.ending)


@check(
    "http.client-reissues",
    proves=("http.reissue-after-broken-stream",),
    needs=("scenario:conformance_broken_stream",),
)
async def reissues(client: ClientUnderTest) -> None:
    """A request that was lost with its stream is made again under a new id, if at all."""
    evidence = _broken(client)
    lost = encoded(evidence.notes["broken"])
    same = [each for each in evidence.sent("tools/call") if encoded(each["id"]) == lost]
    if len(same) > 1:
        raise Deviation("a new id for the second request", brief(same[1]))


@check(
    "sse.client-bears-end-of-stream",
    proves=("sse.get-close-any-time",),
    needs=("scenario:conformance_standing_ends", "scenario:tools_call"),
)
async def bears_end_of_stream(client: ClientUnderTest) -> None:
    """The end of the stream that was opened by GET is not the end of the session."""
    client.control()
    evidence = client.run("conformance_standing_ends")
    if "ended" not in evidence.notes:
        raise NotApplicable("the client opens no stream by GET")
    if evidence.status != 0 or not evidence.sent("tools/call"):
        raise Deviation("the client to go on", evidence.ending)


@check(
    "http.client-endpoint-path",
    proves=("http.custom-endpoint-path",),
    needs=("scenario:conformance_elsewhere",),
)
async def endpoint_path(client: ClientUnderTest) -> None:
    """The URL of the endpoint is used as it is given, with its path and its query."""
    for exchange in client.run("conformance_elsewhere").exchanges:
        if exchange.method == "POST" and exchange.target != PATH + QUERY:
            raise Deviation(f"POST {PATH}{QUERY}", str(exchange))


# --- a server that dies ------------------------------------------------------------------------------------------------


def _crashed(client: ClientUnderTest) -> Evidence:
    """What the client did when its server died.

    Raises:
        NotTestable: It did not die.
    """
    evidence = client.run("conformance_crash")
    if CRASHES not in _called(evidence):
        raise NotTestable(f"the client did not call {CRASHES}: {evidence.ending}")
    return evidence


@check("stdio.client-restarts", proves=("stdio.restart-after-crash",), needs=("scenario:conformance_crash",))
async def restarts(client: ClientUnderTest) -> None:
    """A server that ends unexpectedly is started again."""
    evidence = _crashed(client)
    # A client may have started one before, to find out what the server is.
    died = [CRASHES in (_params(each).get("name") for each in messages) for messages in evidence.conversations]
    if died.index(True) == len(died) - 1:
        raise Deviation("the server to be started again", evidence.ending)


@check(
    "stdio.client-resubscribes",
    proves=("stdio.resubscribe-after-restart", "subscription.resubscribe-new-connection"),
    needs=("scenario:conformance_crash",),
)
async def resubscribes(client: ClientUnderTest) -> None:
    """Who listened for changes when the server died says so again to the one that is started anew."""
    evidence = _crashed(client)
    before, *others = evidence.conversations
    if not others:
        raise NotApplicable("the client does not start its server again")
    if not any(each.get("method") == _LISTEN for each in before):
        raise NotApplicable("the client listened to nothing")
    if not any(each.get("method") == _LISTEN for messages in others for each in messages):
        raise Deviation(f"{_LISTEN} to the server that was started again", evidence.ending)


# --- answers in another order -----------------------------------------------------------------------------------------


@check("stdio.client-correlates", proves=("stdio.correlate-by-id",), needs=("scenario:conformance_crossed",))
async def correlates(client: ClientUnderTest) -> None:
    """An answer belongs to the request whose id it has, in whatever order answers come."""
    evidence = client.run("conformance_crossed")
    if evidence.notes.get("crossed") is not True:
        raise NotTestable(f"the client did not call {' and '.join(TWO)} at once")
    found = reports(client, "conformance_crossed")
    if not found:
        raise NotTestable("the client does not tell by the tool `report` what it made of anything")
    for name in TWO:
        wanted = f"of the {name.removeprefix('test_')}"
        if name not in found:
            raise Deviation(f"{name} with {wanted!r}", evidence.ending)
        if found[name].get("text") != wanted:
            raise Deviation(f"{name} with {wanted!r}", brief(found[name]))


# --- subscriptions ----------------------------------------------------------------------------------------------------


@check(
    "subscription.client-demux",
    proves=("subscription.client-demux-stdio", "stdio.correlate-subscription-id"),
    needs=("scenario:conformance_two_subscriptions",),
)
async def demux(client: ClientUnderTest) -> None:
    """A change is told to the subscription that it names, and to no other."""
    evidence = client.run("conformance_two_subscriptions")
    found = reports(client, "conformance_two_subscriptions")
    if "told" not in evidence.notes or not found:
        raise NotTestable("the client does not listen twice, or does not say what it hears")
    heard = {name: found.get(name, {}).get("heard") for name in ("first", "second")}
    if heard != {"first": False, "second": True}:
        raise Deviation("a change that the second subscription hears alone", brief(dict(heard)))


def _listened(client: ClientUnderTest, name: str) -> Evidence:
    """What the client did where it listened.

    Raises:
        NotApplicable: It does not.
    """
    client.control()
    evidence = client.run(name)
    if not evidence.sent(_LISTEN):
        raise NotApplicable("the client listens to nothing")
    return evidence


@check(
    "subscription.client-bears-less",
    proves=("subscription.client-check-ack",),
    needs=("scenario:conformance_grants_nothing", "scenario:tools_call"),
)
async def bears_less(client: ClientUnderTest) -> None:
    """A client that is granted less than it wants goes on."""
    evidence = _listened(client, "conformance_grants_nothing")
    if evidence.status != 0:
        raise Deviation("the client to do as where all is granted", evidence.ending)


@check(
    "subscription.client-clean-end",
    proves=("subscription.clean-close-no-error",),
    needs=("scenario:conformance_ends_subscriptions", "scenario:tools_call", f"scenario:{STREAMS}"),
)
async def clean_end(client: ClientUnderTest) -> None:
    """A subscription that the server ends by a result has ended well."""
    client.control_streams()
    evidence = _listened(client, "conformance_ends_subscriptions")
    if evidence.status != 0:
        raise Deviation("the client to end as where no subscription ends", evidence.ending)


# --- requests of the server that want progress, or are none ------------------------------------------------------------


def _reported(client: ClientUnderTest) -> Iterator[tuple[bool, JsonObject]]:
    """Each report of progress, and whether the request was answered before.

    Raises:
        NotApplicable: The client was asked for none, or reports none.
    """
    evidence = client.run("conformance_progress")
    answered, found = False, 0
    asked = {encoded(each.request["id"]) for each in evidence.server.client_requests if each.name == "with progress"}
    for entry in evidence.transcript:
        message = entry.value
        if entry.sent or not isinstance(message, dict):
            continue
        if "method" not in message and encoded(message.get("id")) in asked:
            answered = True
        if message.get("method") == "notifications/progress" and _params(message).get("progressToken") == TOKEN:
            found += 1
            yield answered, message
    if not found:
        raise NotApplicable("the client reports no progress")


@check(
    "progress.client-increases",
    proves=("progress.increasing",),
    revisions=_LEGACY,
    needs=("scenario:conformance_progress",),
)
async def increases(client: ClientUnderTest) -> None:
    """What a client reports of its progress grows each time."""
    last: float | None = None
    for _, message in _reported(client):
        value = _params(message).get("progress")
        if not isinstance(value, int | float) or isinstance(value, bool) or (last is not None and value <= last):
            raise Deviation("a number" if last is None else f"progress beyond {last:g}", brief(message))
        last = value


@check(
    "progress.client-stops",
    proves=("progress.stop-after-completion",),
    revisions=_LEGACY,
    needs=("scenario:conformance_progress",),
)
async def stops(client: ClientUnderTest) -> None:
    """Behind its response to a request a client reports no more progress of it."""
    for answered, message in _reported(client):
        if answered:
            raise Deviation("no progress behind the response", brief(message))


@check(
    "jsonrpc.client-invalid-request",
    proves=("jsonrpc.invalid-request-error",),
    revisions=_LEGACY,
    needs=("scenario:conformance_no_request",),
)
async def invalid_request(client: ClientUnderTest) -> None:
    """What has an id, and a method that is a number, is answered by -32600."""
    evidence = _no_request(client)
    found = [each for each in evidence.responses if each.get("id") == "odd"]
    error = found[0].get("error") if found else None
    if not isinstance(error, dict) or error.get("code") != -32600:
        raise Deviation('error -32600 with the id "odd"', brief(list(found)) if found else evidence.ending)


def _no_request(client: ClientUnderTest) -> Evidence:
    evidence = client.run("conformance_no_request")
    before = next((each for each in evidence.server.client_requests if each.name == "before"), None)
    if before is None or before.response is None:
        raise NotTestable("the control failed: the client did not call test_no_request, or answers no ping")
    return evidence


@check(
    "schema.client-bears-error-without-id",
    proves=("schema.error-id-optional",),
    needs=("scenario:conformance_no_request",),
)
async def bears_error_without_id(client: ClientUnderTest) -> None:
    """An error without an id does no harm."""
    evidence = _no_request(client)
    answers = {each.name: each.response for each in evidence.server.client_requests}
    if answers.get("behind") is None:
        raise NotTestable("the control failed: the client answers no ping before the error comes")
    # It may be taken for the answer to the only call that waits for one: then the client is done.
    if evidence.status is None or (answers.get("last") is None and evidence.status != 0):
        raise Deviation("an answer to the ping behind it, or an orderly end", evidence.ending)
