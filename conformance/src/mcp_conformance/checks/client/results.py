"""Handling of results by a client, which reports it with the tool `report`."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.reported_results import report
from mcp_conformance.checks.probes.recorded_values import member, params_of
from mcp_conformance.checks.registry.client import CLIENT_CHECKS, check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.evidence import STREAMS
from mcp_conformance.scenarios.results import (
    ANONYMOUS_CODE,
    EMPTY,
    EMPTY_TYPE,
    ERROR_CODES,
    FAILURE_OF_SCHEMA,
    LARGE,
    ODD_RESOURCE,
    POSITIVE_CODE,
    POSITIVE_ERROR,
    RESULTS,
    STREAMED,
    STRUCTURED,
    UNDECLARED_TASK,
    UNFIT_LATER,
    UNICODE,
)
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_NEEDS: Final = (f"scenario:{RESULTS}",)
_STDIO: Final = frozenset({Transport.STDIO})
_HTTP: Final = frozenset({Transport.HTTP})
_METHOD_NOT_FOUND: Final = -32601
_STREAM_PARSING: Final = (
    "Event streams are parsed by the standard: comments, unknown fields, all line ends, data in pieces."
)


def _report(client: ClientUnderTest, name: str) -> JsonObject:
    """Return what the client reported about a result of this scenario."""
    return report(client, RESULTS, name, control="gives_plain")


def _add(
    id: str,
    requirements: tuple[str, ...],
    title: str,
    name: str,
    outcomes: Collection[str],
    *,
    transports: frozenset[Transport] | None = None,
    revisions: Collection[str] | None = None,
    streamed: bool = False,
    **members: str | int,
) -> None:
    """Add a check that a result is interpreted correctly."""

    async def interpreted(client: ClientUnderTest) -> None:
        if streamed:
            client.control_streams()
        reported = _report(client, name)
        if reported.get("outcome") not in outcomes:
            raise Deviation(f"{name} to be interpreted as: {' or '.join(outcomes)}", brief(reported))
        for name_of_member, value in members.items():
            if reported.get(name_of_member) != value:
                raise Deviation(f"{name_of_member} {brief(value)} of {name}", brief(reported.get(name_of_member)))

    CLIENT_CHECKS.add(
        id,
        interpreted,
        title=title,
        proves=requirements,
        needs=(*_NEEDS, f"scenario:{STREAMS}") if streamed else _NEEDS,
        transports=transports,
        revisions=revisions,
        subject=CheckScope.EVIDENCE,
    )


@check("tools.client-is-error-default", proves=("tools.is-error-default-false",), needs=_NEEDS)
async def is_error_default(client: ClientUnderTest) -> None:
    """A result without isError is not a failure, also without any content."""
    for name in ("gives_plain", EMPTY):
        reported = _report(client, name)
        if reported.get("outcome") != "result":
            raise Deviation(f"{name} to be interpreted as: result", brief(reported))


@check(
    "tools.client-is-error",
    proves=("tools.client-shows-execution-errors", "tools.client-execution-errors-to-model"),
    needs=_NEEDS,
)
async def is_error(client: ClientUnderTest) -> None:
    """A result with isError is a failure, also of a tool with an output schema, and without structured content."""
    for name in ("gives_failure", FAILURE_OF_SCHEMA):
        reported = _report(client, name)
        if reported.get("outcome") != "failed":
            raise Deviation(f"{name} to be interpreted as: failed", brief(reported))


def _is_retry(message: JsonObject) -> bool:
    params = params_of(message)
    return params.get("name") == UNFIT_LATER and "requestState" in params


@check(
    "tools.client-validates-output",
    proves=("tools.output-schema-client-validates", "tools.client-validates-results"),
    needs=_NEEDS,
)
async def validates_output(client: ClientUnderTest) -> None:
    """Structured content that violates the output schema is rejected, also after a retry, and other content is not."""
    outcomes = {"gives_unfit": "invalid", "gives_structured": "result"}
    if any(_is_retry(each) for each in client.run(RESULTS).sent("tools/call")):
        outcomes[UNFIT_LATER] = "invalid"
    for name, outcome in outcomes.items():
        reported = _report(client, name)
        if reported.get("outcome") != outcome:
            raise Deviation(f"{name} to be interpreted as: {outcome}", brief(reported))


@check(
    "jsonrpc.client-unknown-result-type",
    proves=("jsonrpc.result-type-unrecognized-invalid", "jsonrpc.result-type-accepted-set"),
    needs=_NEEDS,
)
async def unknown_result_type(client: ClientUnderTest) -> None:
    """A result with an unknown or empty resultType is invalid, and so is that of an extension that is not declared.

    A task of an undeclared extension is not polled either.
    """
    evidence = client.run(RESULTS)
    called = [member(each, "params", "name") for each in evidence.sent("tools/call")]
    undeclared = evidence.notes.get(UNDECLARED_TASK) is True
    read = [member(each, "params", "uri") for each in evidence.sent("resources/read")]
    polls = evidence.sent("tasks/get")
    if undeclared and polls:
        raise Deviation(f"{UNDECLARED_TASK} not to be followed as a task: tasks are not declared", brief(polls[0]))
    # A client that stops after a result of another kind, or reads no resource, is judged by its calls.
    others = {EMPTY_TYPE: EMPTY_TYPE in called, UNDECLARED_TASK: undeclared, ODD_RESOURCE: ODD_RESOURCE in read}
    for name in ("gives_odd_type", *(name for name, used in others.items() if used)):
        reported = _report(client, name)
        if reported.get("outcome") not in ("invalid", "error"):
            raise Deviation(f"{name} to be interpreted as: invalid or error", brief(reported))


_add(
    "jsonrpc.client-absent-result-type",
    ("jsonrpc.result-type-absent-is-complete",),
    "A result without a resultType is complete.",
    "gives_no_type",
    ("result",),
    text="untyped",
)


@check(
    "jsonrpc.client-absent-result-type-list",
    proves=("jsonrpc.result-type-absent-is-complete",),
    needs=(*_NEEDS, "scenario:tools_call"),
)
async def untyped_list(client: ClientUnderTest) -> None:
    """A list without a resultType is complete: the client uses its entries."""
    if not client.control().sent("resources/read"):
        raise NotTestable("the client reads no resource that it finds in a list")
    evidence = client.run(RESULTS)
    if not evidence.taken("resources/list"):
        raise NotTestable(f"the client did not list the resources: {evidence.ending}")
    if not evidence.sent("resources/read"):
        if evidence.status != 0 and evidence.requests[-1].get("method") != "resources/list":
            raise NotTestable(f"the client went on after the list, and ended before it read: {evidence.ending}")
        raise Deviation("the resources of a list without a resultType to be read", evidence.ending)


_add(
    "jsonrpc.client-unknown-response",
    ("jsonrpc.unknown-response-ignored",),
    "A response with an unknown request id is ignored.",
    "gives_stray",
    ("result",),
    streamed=True,
    text="stray",
)


@check(
    "jsonrpc.client-error-response",
    proves=("jsonrpc.base-and-lifecycle-support", "jsonrpc.error-data-any"),
    needs=_NEEDS,
)
async def error_response(client: ClientUnderTest) -> None:
    """An error response is an error with its code, also in a stream, with a positive code, and with data of any kind."""
    codes = {POSITIVE_ERROR: POSITIVE_CODE}
    if client.revision.era is Era.LEGACY:
        # On 2026-07-28, another check covers it.
        codes["gives_error"] = ERROR_CODES["gives_error"]
    for name, code in codes.items():
        reported = _report(client, name)
        if reported.get("outcome") != "error" or reported.get("code") != code:
            raise Deviation(f"{name} to be interpreted as: error {code}", brief(reported))


@check("error.client-legacy-range", proves=("error.legacy-range-no-meaning",), needs=_NEEDS)
async def legacy_range(client: ClientUnderTest) -> None:
    """An error from -32000 to -32019 is only an error."""
    for name, code in ERROR_CODES.items():
        reported = _report(client, name)
        if reported.get("outcome") != "error" or reported.get("code") != code:
            raise Deviation(f"{name} to be interpreted as: error {code}", brief(reported))


_add(
    "resources.client-accepts-32002",
    ("resources.client-accept-32002", "error.accept-32002"),
    "The error -32002 means that a resource is not found.",
    "test://static-text",
    ("not found",),
)
_add(
    "logging.client-bears-notifications",
    ("logging.client-tolerates-notifications", "progress.client-tracks", "schema.number-fields-not-integer-only"),
    "Unrequested log messages and progress before a result are ignored.",
    "gives_noise",
    ("result",),
    streamed=True,
    text="noisy",
)
_add(
    "progress.client-bears",
    ("progress.float", "progress.optional"),
    "Progress with fractions, without a total, or with an unknown token is accepted.",
    "gives_noise",
    ("result",),
    streamed=True,
    text="noisy",
    revisions=("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"),
)
_add(
    "stdio.client-unicode",
    ("stdio.unicode", "jsonrpc.utf8"),
    "Characters of all kinds are received unchanged.",
    "gives_unicode",
    ("result",),
    transports=_STDIO,
    text=UNICODE,
)
_add(
    "stdio.client-large",
    ("stdio.large-message", "stdio.newline-delimited"),
    "A message larger than a pipe buffer is received completely.",
    "gives_large",
    ("result",),
    transports=_STDIO,
    length=LARGE,
)
_add(
    "stdio.client-crlf",
    ("stdio.crlf-tolerated",),
    "A line may end with CR LF.",
    "gives_crlf",
    ("result",),
    transports=_STDIO,
    text="crlf",
)
_add(
    "stdio.client-splits-lines",
    ("stdio.newline-delimited", "stdio.one-message-per-line"),
    "Two messages that arrive at once are two messages.",
    "gives_together",
    ("result",),
    transports=_STDIO,
    text="together",
)
_add(
    "http.client-parses-streams",
    ("http.sse-client-ignores-comments", "http.sse-parse-standard", "http.client-both-response-types"),
    _STREAM_PARSING,
    "gives_stream",
    ("result",),
    transports=_HTTP,
    text=STREAMED,
)
_add(
    "http.client-byte-order-mark",
    ("http.sse-parse-standard", "http.client-both-response-types"),
    "A byte order mark at the beginning of a stream is no part of its first field.",
    "gives_marked_stream",
    ("result",),
    transports=_HTTP,
    text="marked",
)
_add(
    "http.client-event-types",
    ("http.sse-parse-standard", "http.client-both-response-types"),
    "An event of another type than `message` is ignored.",
    "gives_other_event",
    ("result",),
    transports=_HTTP,
    text="behind another event",
)
_add(
    "http-sse.client-parses-stream",
    ("jsonrpc.base-and-lifecycle-support",),
    _STREAM_PARSING,
    "gives_stream",
    ("result",),
    transports=frozenset({Transport.HTTP_SSE}),
    revisions=("2024-11-05",),
    text=STREAMED,
)
_add(
    "http.client-unicode",
    ("jsonrpc.utf8",),
    "Characters of all kinds in a JSON response are received unchanged.",
    "gives_unicode",
    ("result",),
    transports=_HTTP,
    text=UNICODE,
)
_add(
    "http.client-large-event",
    ("http.client-both-response-types", "http.client-supports-sse"),
    "A response in an event of any length is received completely.",
    "gives_large_event",
    ("result",),
    transports=_HTTP,
    streamed=True,
    length=LARGE,
)


@check("http.client-reads-error-body", proves=("http.client-reads-error-body",), needs=_NEEDS)
async def reads_error_body(client: ClientUnderTest) -> None:
    """The error in the body of a response with status 400 is reported, with an id or without one."""
    for name, code in (("gives_bad_request", -32602), ("gives_anonymous_error", ANONYMOUS_CODE)):
        reported = _report(client, name)
        if reported.get("outcome") != "error" or reported.get("code") != code:
            raise Deviation(f"{name} to be interpreted as: error {code}", brief(reported))


_add(
    "http.client-header-case",
    ("header.name-case-insensitive",),
    "The names of headers are not case-sensitive.",
    "gives_upper_headers",
    ("result",),
    transports=_HTTP,
    text="upper",
)


@check(
    "compat.client-http-404",
    proves=("compat.client-http-404-with-body",),
    transports=_HTTP,
    needs=_NEEDS,
)
async def unknown_method(client: ClientUnderTest) -> None:
    """Status 404 with the error -32601 means an unknown method, not a missing endpoint or a server of another era."""
    reported = _report(client, "gives_unknown_method")
    if reported.get("outcome") != "error" or reported.get("code") != _METHOD_NOT_FOUND:
        raise Deviation(f"gives_unknown_method to be interpreted as: error {_METHOD_NOT_FOUND}", brief(reported))
    exchanges = client.run(RESULTS).exchanges
    refused = next((each for each in exchanges if each.status == HTTPStatus.NOT_FOUND), None)
    for exchange in exchanges:
        if refused is not None and exchange.number > refused.number and exchange.message.get("method") == "initialize":
            raise Deviation("no initialize after status 404 with the error -32601", str(exchange))


@check(
    "http.client-media-type",
    proves=("http.content-type-charset", "http.client-both-response-types"),
    transports=_HTTP,
    needs=(*_NEEDS, f"scenario:{STREAMS}"),
)
async def media_type(client: ClientUnderTest) -> None:
    """A media type is not case-sensitive and may have parameters, of a JSON response and of a stream."""
    client.control_streams()
    for name, text in (("gives_media_type", "typed"), ("gives_stream_type", "typed stream")):
        reported = _report(client, name)
        if reported.get("outcome") != "result" or reported.get("text") != text:
            raise Deviation(f"{name} to be interpreted as: result with the text {text!r}", brief(reported))


@check("tools.client-structured-any", proves=("tools.structured-client-any-json",), needs=_NEEDS)
async def structured_any(client: ClientUnderTest) -> None:
    """Structured content may be any JSON: an array, a string, a number or null."""
    for name, value in STRUCTURED.items():
        reported = _report(client, name)
        if reported.get("outcome") != "result" or "structured" not in reported or reported["structured"] != value:
            raise Deviation(f"the structured content {brief(value)}", brief(reported))
