"""JSON-RPC: rules for the requests, results and errors of a server, over all recorded messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.message_pairs import answered
from mcp_conformance.checks.probes.recorded_values import RecordedMessages, member
from mcp_conformance.checks.probes.schema_check import look
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import REVISIONS, Era
from mcp_core.types.meta import CLIENT_CAPABILITIES, TASKS_EXTENSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.checks.probes.schema_check import Flaw
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

_LEGACY: Final = tuple(revision.name for revision in REVISIONS.values() if revision.era is Era.LEGACY)
_CONCISE: Final = 300
"""Maximum length of a concise message, in characters."""


def _requests(recorded: RecordedMessages) -> Iterator[JsonValue]:
    # A separate check covers notifications with an id.
    return (each for each in recorded.spoken if "id" in each and not _is_notification(each))


look(
    "jsonrpc.request-id-type",
    "A request of the server has an id that is a string or an integer.",
    "jsonrpc.request-id-type",
    "jsonrpc.request-id-not-null",
    at=lambda recorded: (member(each, "id") for each in _requests(recorded)),
    by=lambda value, _: (
        None
        if isinstance(value, str | int) and not isinstance(value, bool)
        else "it is neither a string nor an integer"
    ),
    what="request",
    revisions=_LEGACY,
)


def _is_notification(message: JsonValue) -> bool:
    return str(member(message, "method")).startswith("notifications/")


look(
    "jsonrpc.notification-no-id",
    "A notification of the server has no id.",
    "jsonrpc.notification-no-id",
    at=lambda recorded: (each for each in recorded.spoken if _is_notification(each)),
    by=lambda value, _: "it has an id" if isinstance(value, dict) and "id" in value else None,
    what="notification",
)
look(
    "jsonrpc.error-message-concise",
    "The message of an error is one short sentence.",
    "jsonrpc.error-message-concise",
    at=lambda recorded: (member(each, "message") for each in recorded.errors()),
    by=lambda value, _: "it is long" if isinstance(value, str) and ("\n" in value or len(value) > _CONCISE) else None,
    what="error",
)


@check(
    "jsonrpc.request-id-unique", proves=("jsonrpc.request-id-unique",), revisions=_LEGACY, subject=CheckScope.EVIDENCE
)
async def request_id_unique(server: ServerUnderTest) -> None:
    """The server does not use a request id twice on a connection."""
    for transcript in server.evidence:
        used: set[bytes] = set()
        for request in _requests(RecordedMessages([transcript])):
            id = encoded(member(request, "id"))
            if id in used:
                raise Deviation("an unused id", brief(request))
            used.add(id)


@check(
    "jsonrpc.server-no-requests",
    proves=("jsonrpc.server-no-requests", "stdio.server-no-requests"),
    subject=CheckScope.EVIDENCE,
)
async def server_no_requests(server: ServerUnderTest) -> None:
    """The server sends no requests: client requests are in results."""
    for request in _requests(RecordedMessages(server.evidence)):
        raise Deviation("no request of the server", brief(request))


look(
    "jsonrpc.result-type",
    "Every result has a resultType that is a string.",
    "jsonrpc.result-type-present",
    at=lambda recorded: (each.result for each in recorded.exchanges if isinstance(each.result, dict)),
    by=lambda value, _: (
        None if isinstance(member(value, "resultType"), str) else "resultType is missing or not a string"
    ),
    what="result",
)


def _unknown_kind(value: JsonValue, _: Revision) -> str | None:
    known = ("complete", "input_required", "task")
    kind = member(value, "resultType")
    return None if kind in known or not isinstance(kind, str) else f"{brief(kind)} is not one of {', '.join(known)}"


look(
    "jsonrpc.result-type-complete",
    "The resultType of a result is complete, unless it requires input or belongs to an extension.",
    "jsonrpc.result-type-complete",
    at=lambda recorded: (each.result for each in recorded.exchanges if isinstance(each.result, dict)),
    by=_unknown_kind,
    what="result",
)


@check(
    "jsonrpc.result-type-not-unadvertised",
    proves=(
        "jsonrpc.result-type-not-unadvertised",
        "tasks.not-to-undeclaring",
        "capability.extension-not-active-by-default",
    ),
    subject=CheckScope.EVIDENCE,
)
async def result_type_not_unadvertised(server: ServerUnderTest) -> None:
    """A client that did not declare the tasks extension in a request gets no task for it."""
    for each in RecordedMessages(server.evidence).exchanges:
        declared = member(each.request, "params", "_meta", CLIENT_CAPABILITIES, "extensions", TASKS_EXTENSION)
        if declared is None and member(each.result, "resultType") == "task":
            raise Deviation("no task for a client that did not declare the extension", brief(each.response))


# --- error codes -----------------------------------------------------------------------------------------------------


def _codes(recorded: RecordedMessages) -> Iterator[JsonValue]:
    return (member(each, "code") for each in recorded.errors())


def _outside(lowest: int, highest: int, *allowed: int) -> Flaw:
    """Return a validator that rejects the codes of a range, with exceptions."""

    def wrong(value: JsonValue, _: Revision) -> str | None:
        code = value if isinstance(value, int) else 0
        return f"{code} is reserved" if lowest <= code <= highest and code not in allowed else None

    return wrong


look(
    "error.reserved-range",
    "Of the codes from -32099 to -32020 the server uses only the three that are defined.",
    "error.reserved-range-only-defined",
    "error.no-32042",
    at=_codes,
    by=_outside(-32099, -32020, -32020, -32021, -32022),
    what="error",
)
look(
    "error.legacy-range",
    "The server does not use the codes from -32019 to -32000, which include -32002.",
    "error.legacy-range-avoid",
    "error.no-32002",
    at=_codes,
    by=_outside(-32019, -32000),
    what="error",
)
look(
    "error.application-codes",
    "Codes of the application are outside of -32768 to -32000.",
    "error.app-codes-outside-reserved",
    at=_codes,
    by=_outside(-32768, -32100, -32700, -32600, -32601, -32602, -32603),
    what="error",
)


def _meant(error: JsonValue) -> str | None:
    code, data = member(error, "code"), member(error, "data")
    if code == -32021 and not isinstance(member(data, "requiredCapabilities"), dict):
        return "-32021 without requiredCapabilities"
    if code == -32022 and not isinstance(member(data, "supported"), list):
        return "-32022 without the supported versions"
    return None


def _unfounded(request: JsonObject, error: JsonValue, transport: Transport) -> str | None:
    """Return what is wrong with the code of an error for a correct request."""
    code = member(error, "code")
    # Over HTTP, the checks of headers cover the rejection of those that match.
    if code == -32020 and transport is not Transport.HTTP:
        return "-32020 for a request without headers"
    if code == -32022:
        return "-32022 for a request of a version that the server supports"
    if code == -32021:
        required = member(error, "data", "requiredCapabilities")
        named = required.items() if isinstance(required, dict) else ()
        declared = member(request, "params", "_meta", CLIENT_CAPABILITIES)
        # A mode of elicitation may be lacking although the client declares another one.
        if all(name != "elicitation" and member(declared, name) == value for name, value in named):
            return "-32021 for capabilities that the client declares"
    return None


@check("error.reserved-codes-meaning", proves=("error.reserved-codes-meaning",), subject=CheckScope.EVIDENCE)
async def reserved_codes_meaning(server: ServerUnderTest) -> None:
    """-32020 is used only for headers that differ, -32021 only for a missing capability, -32022 only for an unsupported version."""
    for error in RecordedMessages(server.evidence).errors():
        if (wrong := _meant(error)) is not None:
            raise Deviation("a reserved code only for its error, with its data", f"{wrong}: {brief(error)}")
    for request, response in answered(server):
        if (wrong := _unfounded(request, response.get("error"), server.transport)) is not None:
            raise Deviation("a reserved code only for its error", f"{wrong}: {brief(response)}, for {brief(request)}")
