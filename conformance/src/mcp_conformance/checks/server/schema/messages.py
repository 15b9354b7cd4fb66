"""All messages, and the server's information about itself, validated against the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcp_conformance.checks.probes.message_pairs import rejected_without_message
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.probes.schema_check import VALID, conforms, look, one_of, without
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.protocol.message_schema import flaw_of_params, flaw_of_result
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.transcript import Kind
from mcp_core.revisions import R2025_06_18, between

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.checks.probes.recorded_values import RecordedMessages
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.revisions import Revision

_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

look(
    "schema.params-object",
    "The params of each message of the server are an object.",
    "schema.params-object",
    VALID,
    at=lambda recorded: recorded.having(recorded.spoken, "params"),
    by=lambda value, _: None if isinstance(value, dict) else "it is not an object",
    what="params",
)
look(
    "schema.empty-result",
    "An empty result is an object without data.",
    "schema.empty-result",
    at=lambda recorded: recorded.results("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"),
    by=lambda value, _: (
        None if isinstance(value, dict) and not without(value, "_meta") else "it is not an empty object"
    ),
    what="empty result",
)


_REQUESTS: Final = frozenset({"ping", "sampling/createMessage", "roots/list"})
_TASKS: Final = frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"})
_NOTIFICATIONS: Final = frozenset({"cancelled", "progress", "message", "resources/updated"}) | frozenset(
    f"{feature}/list_changed" for feature in ("resources", "tools", "prompts")
)


def _request(value: JsonValue, revision: Revision) -> str | None:
    known = _REQUESTS
    if revision in between(R2025_06_18):
        known |= {"elicitation/create"}
    if revision.core_tasks:
        known |= _TASKS
    return None if value in known else f"{brief(value)} is not one of {', '.join(sorted(known))}"


look(
    "schema.server-requests",
    "The server sends only requests that the revision defines for servers.",
    "schema.request-methods-server",
    "schema.request-methods-server-elicitation",
    "schema.request-methods-server-tasks",
    # A separate check covers notifications with an id.
    at=lambda recorded: (
        each["method"]
        for each in recorded.spoken
        if "id" in each and not str(each["method"]).startswith("notifications/")
    ),
    by=_request,
    what="request",
)


def _notification(value: JsonValue, revision: Revision) -> str | None:
    known = _NOTIFICATIONS | ({"elicitation/complete", "tasks/status"} if revision.core_tasks else frozenset())
    begins, _, name = str(value).partition("/")
    return None if begins == "notifications" and name in known else f"{brief(value)} is not defined by the revision"


look(
    "schema.server-notifications",
    "The server sends only notifications that the revision defines for servers.",
    "schema.notification-methods-server",
    "schema.notification-methods-server-elicitation-tasks",
    at=lambda recorded: (each["method"] for each in recorded.spoken if "id" not in each),
    by=_notification,
    what="notification",
)


def _implementation(value: JsonValue, revision: Revision) -> str | None:
    found = conforms("Implementation", "icons")(value, revision)
    site = member(value, "websiteUrl")
    return found or (None if site is None or urlsplit(str(site)).scheme else "its websiteUrl is not a URI")


look(
    "schema.implementation",
    "serverInfo has a name and a version; title and description are strings, websiteUrl is a URI.",
    "schema.implementation",
    "schema.implementation-title",
    "schema.implementation-details",
    "schema.implementation-website-url",
    VALID,
    at=lambda recorded: recorded.implementations(),
    by=_implementation,
    what="serverInfo",
)
look(
    "schema.server-capabilities",
    "The capabilities of the server are objects, and their flags are booleans.",
    "schema.server-capabilities",
    "schema.server-capability-completions",
    "schema.server-capability-tasks",
    VALID,
    at=lambda recorded: recorded.capabilities(),
    by=conforms("ServerCapabilities", "experimental", "extensions"),
    what="capabilities",
)


def _whole_messages(recorded: RecordedMessages) -> Iterator[JsonValue]:
    yield from ({"method": each.method, "result": each.result} for each in recorded.exchanges if each.complete)
    yield from ({"method": each["method"], "params": each.get("params")} for each in recorded.spoken)


def _message(value: JsonValue, revision: Revision) -> str | None:
    method = str(member(value, "method"))
    if isinstance(value, dict) and "result" in value:
        return flaw_of_result(method, value["result"], revision)
    return flaw_of_params(method, member(value, "params"), revision)


look(
    "schema.server-messages",
    "Every result, and the params of every request and notification of the server, conform to the schema.",
    "schema.initialize-result",
    "schema.call-tool-result",
    "schema.list-tools-result",
    "schema.list-resources-result",
    "schema.list-prompts-result",
    "schema.get-prompt-result",
    "schema.resource-contents",
    "schema.complete-result",
    "schema.create-message-params",
    VALID,
    at=_whole_messages,
    by=_message,
    what="message",
)
look(
    "schema.cancelled",
    "A notifications/cancelled of the server has a requestId that is a string or an integer.",
    "schema.cancelled-params",
    "schema.cancelled-params-optional-id",
    VALID,
    at=lambda recorded: recorded.notified("notifications/cancelled"),
    by=conforms("CancelledNotificationParams"),
    what="notifications/cancelled",
)
look(
    "schema.progress",
    "notifications/progress has a token and a progress number, and optionally a total and a message.",
    "schema.progress-params",
    "schema.progress-message",
    VALID,
    at=lambda recorded: recorded.notified("notifications/progress"),
    by=conforms("ProgressNotificationParams"),
    what="notifications/progress",
)
look(
    "schema.log-message",
    "notifications/message has a level and data.",
    "schema.log-message-params",
    VALID,
    at=lambda recorded: recorded.notified("notifications/message"),
    by=lambda value, revision: (
        conforms("LoggingMessageNotificationParams")({**value, "level": "info"}, revision)
        if isinstance(value, dict) and isinstance(value.get("level"), str)
        else "it has no level"
    ),
    what="notifications/message",
)
look(
    "schema.logging-level",
    "The level of a log message is one of the eight levels.",
    "schema.logging-level",
    VALID,
    at=lambda recorded: (member(each, "level") for each in recorded.notified("notifications/message")),
    by=one_of(*_LEVELS),
    what="log level",
)


@check("schema.error-id", proves=("schema.error-id-required", "schema.error-id-optional"), subject=CheckScope.EVIDENCE)
async def error_id(server: ServerUnderTest) -> None:
    """An error has the id of a request, except for input that could not be read."""
    for transcript in server.evidence:
        # Over HTTP the response to a message comes in the exchange of the message, over other transports at any time.
        is_http = server.transport is Transport.HTTP
        unreadable = rejected_without_message(transcript) if is_http else set[int | None]()
        for entry in transcript:
            exchange = entry.exchange if is_http else None
            if entry.sent and entry.deviant:
                unreadable.add(exchange)
            if entry.sent or entry.kind is not Kind.MESSAGE or exchange in unreadable:
                continue
            for each in entry.value if isinstance(entry.value, list) else [entry.value]:
                id = member(each, "id")
                if (
                    isinstance(each, dict)
                    and "error" in each
                    and (isinstance(id, bool) or not isinstance(id, str | int))
                ):
                    raise Deviation("an id that is a string or an integer", brief(each))
