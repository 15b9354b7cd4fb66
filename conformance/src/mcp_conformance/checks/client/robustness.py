"""Robustness of a client: rare but valid messages, broken streams, servers that exit, and responses in any order."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.reported_results import reports
from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.evidence import STREAMS
from mcp_conformance.scenarios.http import QUERY, WITHOUT_STREAM
from mcp_conformance.scenarios.robustness import (
    BREAKS,
    CASES,
    CRASHES,
    NOTIFIES_FIRST,
    NOTIFIES_SECOND,
    PATH,
    STANDALONE_ENDS,
    TOKEN,
    TWO,
    UNFINISHED,
)
from mcp_core.revisions import LEGACY, MODERN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject

_HTTP: Final = frozenset({Transport.HTTP})
_LEGACY: Final = [each.name for each in LEGACY]
_LISTEN: Final = "subscriptions/listen"
_SAME_FILTERS: Final = 4
"""The number of subscriptions with one filter that a client may open while none of them has ended."""


def _called(evidence: Evidence) -> list[str]:
    """Return the tools that were called, in order."""
    return _named(evidence, "tools/call")


_USED: Final = {"tools/call": "tools", "resources/read": "resources", "prompts/get": "prompts"}
"""The method that uses the entries of a list, and the member of the result of that list."""


def _named(evidence: Evidence, method: str) -> list[str]:
    """Return the names or URIs in the requests of a method, in order."""
    found = [params_of(each) for each in evidence.sent(method)]
    return [str(each.get("uri", each.get("name"))) for each in found]


def _offered(evidence: Evidence, listed: str) -> set[str]:
    """Return the names or URIs of all entries of a list."""
    offers = evidence.server.offers
    entries = {"tools": offers.tools, "resources": offers.resources, "prompts": offers.prompts}[listed]
    return {str(each.get("uri", each["name"])) for each in entries}


# --- rare but valid messages
# --------------------------------------------------------------------------------------------


@check(
    "schema.client-bears-rich",
    proves=(
        "schema.implementation-title",
        "schema.implementation-details",
        "schema.progress-message",
        "meta.more-types",
        "schema.number-fields-not-integer-only",
        "schema.text-content",
        "schema.image-content",
        "schema.audio-content",
        "tools.output-schema-any",
        "tools.structured-client-any-json",
    ),
    needs=("scenario:conformance_rich", "scenario:tools_call", f"scenario:{STREAMS}"),
)
async def accepts_rich(client: ClientUnderTest) -> None:
    """Titles, icons, annotations, `_meta`, schemas of arrays, all content or none, and progress texts are accepted."""
    control = client.control()
    client.control_streams()
    evidence = client.run("conformance_rich")
    if evidence.status != 0 or not evidence.sent("tools/call"):
        raise Deviation("the client to behave as in tools_call", evidence.ending)
    for method, listed in _USED.items():
        before, after = _offered(control, listed), _offered(evidence, listed)
        # Another check covers names that differ only in case.
        missing = after - set(_named(evidence, method)) - set(CASES)
        # A client that uses some entries only may choose others here, and a single entry does not show whether it does.
        if before <= set(_named(control, method)) and missing and (len(before) > 1 or missing == after):
            raise Deviation(f"{method} for each entry, as in tools_call", f"nothing for {', '.join(sorted(missing))}")


@check(
    "tools.client-name-case",
    proves=("tools.name-case-sensitive",),
    revisions=("2025-11-25",),
    needs=("scenario:conformance_rich",),
)
async def name_case(client: ClientUnderTest) -> None:
    """Tool names are case-sensitive: two names that differ only in case are two tools."""
    evidence = client.run("conformance_rich")
    called = set(_called(evidence)) & set(CASES)
    if not called:
        raise NotTestable(f"the client called none of {', '.join(CASES)}: {evidence.ending}")
    if called != set(CASES):
        raise Deviation(f"calls of {' and '.join(CASES)}", f"calls of {called.pop()} only")


# --- broken connections and streams
# -------------------------------------------------------------------------------------


def _broken(client: ClientUnderTest) -> Evidence:
    """Return the recorded messages of the scenario with a broken stream.

    Raises:
        NotTestable: The client did not call the tool.
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
async def survives_broken_stream(client: ClientUnderTest) -> None:
    """A connection that breaks during a response does not stop the client."""
    evidence = _broken(client)
    if "test_behind" not in _called(evidence):
        raise Deviation("a call of test_behind", evidence.ending)


@check(
    "http.client-unfinished-event",
    proves=("http.client-both-response-types",),
    revisions=_LEGACY,
    transports=_HTTP,
    needs=("scenario:conformance_broken_stream",),
)
async def discards_unfinished_event(client: ClientUnderTest) -> None:
    """An event that a broken connection cuts off before the empty line at its end is discarded."""
    for message in _broken(client).responses:
        if message.get("id") == UNFINISHED:
            raise Deviation("no response to a request in an event without its end", brief(message))


@check(
    "http.client-reissues",
    proves=("http.reissue-after-broken-stream",),
    needs=("scenario:conformance_broken_stream",),
)
async def reissues(client: ClientUnderTest) -> None:
    """A request whose stream was lost is repeated with a new id, if at all."""
    evidence = _broken(client)
    lost = encoded(evidence.notes["broken"])
    same = [each for each in evidence.sent("tools/call") if encoded(each["id"]) == lost]
    if len(same) > 1:
        raise Deviation("a new id for the second request", brief(same[1]))


@check(
    "sse.client-bears-end-of-stream",
    proves=("sse.get-close-any-time",),
    needs=(f"scenario:{STANDALONE_ENDS}", "scenario:tools_call"),
)
async def survives_end_of_stream(client: ClientUnderTest) -> None:
    """The end of the stream that was opened by GET does not end the session."""
    client.control()
    evidence = client.run(STANDALONE_ENDS)
    if "ended" not in evidence.notes:
        raise NotApplicable("the client opens no stream by GET")
    if evidence.status != 0 or not evidence.sent("tools/call"):
        raise Deviation("the client to continue", evidence.ending)


@check(
    "http.client-endpoint-path",
    proves=("http.custom-endpoint-path", "http.post-per-message"),
    needs=("scenario:conformance_elsewhere", f"scenario:{WITHOUT_STREAM}"),
)
async def endpoint_path(client: ClientUnderTest) -> None:
    """The client uses the endpoint URL as given, with its path and its query, for POST, GET and DELETE."""
    is_modern = client.revision in MODERN
    for exchange in client.run("conformance_elsewhere" if is_modern else WITHOUT_STREAM).exchanges:
        if is_modern and exchange.method == "POST" and exchange.target != PATH + QUERY:
            raise Deviation(f"POST {PATH}{QUERY}", str(exchange))
        if not is_modern and not exchange.beside and exchange.target != exchange.path + QUERY:
            raise Deviation(f"{exchange.method} {exchange.path}{QUERY}", str(exchange))


# --- a server that exits
# ------------------------------------------------------------------------------------------------


def _crashed(client: ClientUnderTest) -> Evidence:
    """Return the recorded messages of the scenario in which the server exits.

    Raises:
        NotTestable: The server did not exit.
    """
    evidence = client.run("conformance_crash")
    if CRASHES not in _called(evidence):
        raise NotTestable(f"the client did not call {CRASHES}: {evidence.ending}")
    return evidence


@check("stdio.client-restarts", proves=("stdio.restart-after-crash",), needs=("scenario:conformance_crash",))
async def restarts(client: ClientUnderTest) -> None:
    """A server that exits unexpectedly is started again."""
    evidence = _crashed(client)
    # A client may have started a process before, to determine the era of the server.
    died = [CRASHES in (params_of(each).get("name") for each in messages) for messages in evidence.conversations]
    if died.index(True) == len(died) - 1:
        raise Deviation("a restart of the server", evidence.ending)


@check(
    "stdio.client-resubscribes",
    proves=("stdio.resubscribe-after-restart", "subscription.resubscribe-new-connection"),
    needs=("scenario:conformance_crash",),
)
async def resubscribes(client: ClientUnderTest) -> None:
    """A client with a subscription renews it after each restart of the server."""
    evidence = _crashed(client)
    before, *others = evidence.conversations
    if not others:
        raise NotApplicable("the client does not restart its server")
    if not any(each.get("method") == _LISTEN for each in before):
        raise NotApplicable("the client opened no subscription")
    if not any(each.get("method") == _LISTEN for messages in others for each in messages):
        raise Deviation(f"{_LISTEN} to the restarted server", evidence.ending)
    # A process without a call may have been started to determine the era of the server.
    used = [messages for messages in others if any(each.get("method") == "tools/call" for each in messages)]
    for messages in used[1:]:
        if not any(each.get("method") == _LISTEN for each in messages):
            raise Deviation(f"{_LISTEN} to the server after another restart", evidence.ending)


# --- responses in another order
# -----------------------------------------------------------------------------------------


@check("stdio.client-correlates", proves=("stdio.correlate-by-id",), needs=("scenario:conformance_crossed",))
async def correlates(client: ClientUnderTest) -> None:
    """A response belongs to the request with its id, in any order of responses."""
    evidence = client.run("conformance_crossed")
    if evidence.notes.get("crossed") is not True:
        raise NotTestable(f"the client did not call {' and '.join(TWO)} concurrently")
    found = reports(client, "conformance_crossed")
    if not found:
        raise NotTestable("the client does not report results with the tool `report`")
    for name in TWO:
        expected = f"of the {name.removeprefix('test_')}"
        if name not in found:
            raise Deviation(f"{name} with {expected!r}", evidence.ending)
        if found[name].get("text") != expected:
            raise Deviation(f"{name} with {expected!r}", brief(found[name]))


# --- subscriptions ----------------------------------------------------------------------------------------------------


@check(
    "subscription.client-demux",
    proves=("subscription.client-demux-stdio", "stdio.correlate-subscription-id"),
    needs=("scenario:conformance_two_subscriptions",),
)
async def demux(client: ClientUnderTest) -> None:
    """A notification belongs to the subscription with its id, and to no other."""
    evidence = client.run("conformance_two_subscriptions")
    found = reports(client, "conformance_two_subscriptions")
    if NOTIFIES_SECOND not in evidence.notes or not found:
        raise NotTestable("the client does not open two subscriptions, or does not report their notifications")
    notified = {name: found.get(name, {}).get("heard") for name in ("first", "second")}
    if notified != {"first": False, "second": True}:
        raise Deviation("a notification for the second subscription only", brief(dict(notified)))
    if NOTIFIES_FIRST not in evidence.notes or "first, later" not in found:
        # The newest subscription is the right one so far.
        raise NotTestable(f"the client does not call {NOTIFIES_FIRST}, or does not report its notification")
    notified = {name: found.get(f"{name}, later", {}).get("heard") for name in ("first", "second")}
    if notified != {"first": True, "second": False}:
        raise Deviation("a later notification for the first subscription only", brief(dict(notified)))


def _with_subscription(client: ClientUnderTest, name: str) -> Evidence:
    """Return the recorded messages of a scenario with a subscription.

    Raises:
        NotApplicable: The client opens none.
    """
    client.control()
    evidence = client.run(name)
    if not evidence.sent(_LISTEN):
        raise NotApplicable("the client opens no subscription")
    return evidence


@check(
    "subscription.client-bears-less",
    proves=("subscription.client-check-ack",),
    needs=("scenario:conformance_grants_nothing", "scenario:tools_call"),
)
async def accepts_partial_grant(client: ClientUnderTest) -> None:
    """A client whose filter is granted only in part continues, and does not request the same again and again."""
    evidence = _with_subscription(client, "conformance_grants_nothing")
    filters = [encoded(params_of(each).get("notifications")) for each in evidence.sent(_LISTEN)]
    for requested in filters:
        if filters.count(requested) > _SAME_FILTERS:
            raise Deviation(
                f"at most {_SAME_FILTERS} subscriptions with the filter {requested.decode()}, which the server does not grant",
                f"{filters.count(requested)} of them",
            )
    if evidence.status != 0:
        raise Deviation("the client to behave as with a fully granted filter", evidence.ending)


@check(
    "subscription.client-clean-end",
    proves=("subscription.clean-close-no-error",),
    needs=("scenario:conformance_ends_subscriptions", "scenario:tools_call", f"scenario:{STREAMS}"),
)
async def clean_end(client: ClientUnderTest) -> None:
    """A subscription that the server ends with a result is not an error, also with unknown members in the result."""
    client.control_streams()
    evidence = _with_subscription(client, "conformance_ends_subscriptions")
    if evidence.status != 0:
        raise Deviation("the client to exit as without the end of a subscription", evidence.ending)


# --- requests with a progress token, and invalid requests
# ---------------------------------------------------------------


def _reported(
    client: ClientUnderTest, scenario: str = "conformance_progress", name: str = "with progress"
) -> Iterator[tuple[bool, JsonObject]]:
    """Yield the client's progress notifications, and whether its response was sent before.

    Raises:
        NotApplicable: The client got no request with a token, or reports no progress.
    """
    evidence = client.run(scenario)
    answered, found = False, 0
    ids = {encoded(each.request["id"]) for each in evidence.server.client_requests if each.name == name}
    for entry in evidence.transcript:
        message = entry.value
        if entry.sent or not isinstance(message, dict):
            continue
        if "method" not in message and encoded(message.get("id")) in ids:
            answered = True
        if message.get("method") == "notifications/progress" and params_of(message).get("progressToken") == TOKEN:
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
    """The progress value of a client increases with each notification."""
    last: float | None = None
    for _, message in _reported(client):
        value = params_of(message).get("progress")
        if not isinstance(value, int | float) or isinstance(value, bool) or (last is not None and value <= last):
            raise Deviation("a number" if last is None else f"progress above {last:g}", brief(message))
        last = value


@check(
    "progress.client-stops",
    proves=("progress.stop-after-completion",),
    revisions=_LEGACY,
    needs=("scenario:conformance_progress", "scenario:conformance_declines"),
)
async def stops(client: ClientUnderTest) -> None:
    """After its response to a request a client reports no progress for it, also if the response is an error."""
    # A client may report progress in only one of the two scenarios.
    with suppress(NotApplicable, NotTestable):
        for answered, message in _reported(client, "conformance_declines", "ask_sample"):
            if answered:
                raise Deviation("no progress after the response to the declined request", brief(message))
    for answered, message in _reported(client):
        if answered:
            raise Deviation("no progress after the response", brief(message))


@check(
    "jsonrpc.client-invalid-request",
    proves=("jsonrpc.invalid-request-error",),
    revisions=_LEGACY,
    needs=("scenario:conformance_no_request",),
)
async def invalid_request(client: ClientUnderTest) -> None:
    """A message with an id and a method that is a number is answered with -32600."""
    evidence = _no_request(client)
    found = [each for each in evidence.responses if each.get("id") == "odd"]
    error = found[0].get("error") if found else None
    if not isinstance(error, dict) or error.get("code") != -32600:
        raise Deviation('error -32600 with the id "odd"', brief(list(found)) if found else evidence.ending)


def _no_request(client: ClientUnderTest) -> Evidence:
    evidence = client.run("conformance_no_request")
    before = next((each for each in evidence.server.client_requests if each.name == "before"), None)
    if before is None or before.response is None:
        raise NotTestable(
            "the control request failed: the client did not call test_no_request, or did not respond to a ping"
        )
    return evidence


@check(
    "schema.client-bears-error-without-id",
    proves=("schema.error-id-optional",),
    needs=("scenario:conformance_no_request",),
)
async def ignores_error_without_id(client: ClientUnderTest) -> None:
    """An error without an id is ignored."""
    evidence = _no_request(client)
    # The server may support another revision in a later connection, and send no such error.
    answers = {each.name: each.response for each in reversed(evidence.server.client_requests)}
    if answers.get("behind") is None:
        raise NotTestable("the control request failed: the client did not respond to a ping before the error")
    # The error may be taken for the response to the only pending call: then the client is finished.
    if evidence.status is None or (answers.get("last") is None and evidence.status != 0):
        raise Deviation("a response to the ping after it, or an orderly exit", evidence.ending)
