"""What a client makes of results of every kind. It says so itself, by calling the tool `report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.reported_results import report
from mcp_conformance.checks.registry.client import CLIENT_CHECKS, check
from mcp_conformance.model.check import Subject, Transport
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.evidence import STREAMS
from mcp_conformance.scenarios.results import LARGE, RESULTS, STRUCTURED, UNICODE

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_NEEDS: Final = (f"scenario:{RESULTS}",)
_STDIO: Final = frozenset({Transport.STDIO})
_HTTP: Final = frozenset({Transport.HTTP})


def _report(client: ClientUnderTest, name: str) -> JsonObject:
    """What the client made of something in this scenario. See `report`."""
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
    """A check that something was taken for what it is."""

    async def taken(client: ClientUnderTest) -> None:
        if streamed:
            client.control_streams()
        told = _report(client, name)
        if told.get("outcome") not in outcomes:
            raise Deviation(f"{name} to be taken for: {' or '.join(outcomes)}", brief(told))
        for member, value in members.items():
            if told.get(member) != value:
                raise Deviation(f"{member} {brief(value)} of {name}", brief(told.get(member)))

    CLIENT_CHECKS.add(
        id,
        taken,
        title=title,
        proves=requirements,
        needs=(*_NEEDS, f"scenario:{STREAMS}") if streamed else _NEEDS,
        transports=transports,
        revisions=revisions,
        subject=Subject.EVIDENCE,
    )


_add(
    "tools.client-is-error-default",
    ("tools.is-error-default-false",),
    "A result without isError is no failure.",
    "gives_plain",
    ("result",),
)
_add(
    "tools.client-validates-output",
    ("tools.output-schema-client-validates", "tools.client-validates-results"),
    "Structured content that breaks the output schema is not taken.",
    "gives_unfit",
    ("invalid",),
)
_add(
    "jsonrpc.client-unknown-result-type",
    ("jsonrpc.result-type-unrecognized-invalid", "jsonrpc.result-type-accepted-set"),
    "A result of a type that nobody knows is no result.",
    "gives_odd_type",
    ("invalid", "error"),
)
_add(
    "jsonrpc.client-absent-result-type",
    ("jsonrpc.result-type-absent-is-complete",),
    "A result of no type is complete.",
    "gives_no_type",
    ("result",),
)
_add(
    "jsonrpc.client-unknown-response",
    ("jsonrpc.unknown-response-ignored",),
    "A response to what was never asked does no harm.",
    "gives_stray",
    ("result",),
    streamed=True,
)
_add(
    "error.client-legacy-range",
    ("error.legacy-range-no-meaning",),
    "An error from -32000 to -32019 is an error and nothing more.",
    "gives_error",
    ("error",),
    code=-32010,
)
_add(
    "resources.client-accepts-32002",
    ("resources.client-accept-32002", "error.accept-32002"),
    "Error -32002 says that a resource is not found.",
    "test://static-text",
    ("not found",),
)
_add(
    "logging.client-bears-notifications",
    ("logging.client-tolerates-notifications", "progress.client-tracks", "schema.number-fields-not-integer-only"),
    "Log messages and progress before a result do no harm, though nobody asked for them.",
    "gives_noise",
    ("result",),
    streamed=True,
)
_add(
    "progress.client-bears",
    ("progress.float", "progress.optional"),
    "Progress in fractions, without a total, and for nobody does no harm.",
    "gives_noise",
    ("result",),
    streamed=True,
    revisions=("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"),
)
_add(
    "stdio.client-unicode",
    ("stdio.unicode",),
    "Characters of every kind come unharmed.",
    "gives_unicode",
    ("result",),
    transports=_STDIO,
    text=UNICODE,
)
_add(
    "stdio.client-large",
    ("stdio.large-message",),
    "A message larger than any pipe comes whole.",
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
)
_add(
    "http.client-parses-streams",
    ("http.sse-client-ignores-comments", "http.sse-parse-standard"),
    "Event streams are read as they are standardized: comments, unknown fields, every line end, several lines of data.",
    "gives_stream",
    ("result",),
    transports=_HTTP,
    text="streamed",
)
_add(
    "http.client-reads-error-body",
    ("http.client-reads-error-body",),
    "The error in the body of status 400 is what is reported.",
    "gives_bad_request",
    ("error",),
    transports=_HTTP,
    code=-32602,
)
_add(
    "http.client-header-case",
    ("header.name-case-insensitive",),
    "The names of headers may be in any case.",
    "gives_upper_headers",
    ("result",),
    transports=_HTTP,
    text="upper",
)
_add(
    "compat.client-http-404",
    ("compat.client-http-404-with-body",),
    "Status 404 with error -32601 in its body says that a method is unknown, and not that nobody is there.",
    "gives_unknown_method",
    ("error",),
    transports=_HTTP,
    code=-32601,
)
_add(
    "http.client-media-type",
    ("http.content-type-charset",),
    "A media type may be in any case, and have parameters.",
    "gives_media_type",
    ("result",),
    transports=_HTTP,
)


@check("tools.client-structured-any", proves=("tools.structured-client-any-json",), needs=_NEEDS)
async def structured_any(client: ClientUnderTest) -> None:
    """Structured content may be any JSON, an array, a text, a number or null."""
    for name, value in STRUCTURED.items():
        told = _report(client, name)
        if told.get("outcome") != "result" or "structured" not in told or told["structured"] != value:
            raise Deviation(f"the structured content {brief(value)}", brief(told))
