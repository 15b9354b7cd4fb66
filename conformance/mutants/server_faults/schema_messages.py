"""Faults of the schema of client requests, notifications and errors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, MODERN
from mutants.server_faults.lists import changed, name_of
from mutants.server_faults.notifications import notification_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__: list[str] = []

_NEW: Final = LEGACY[-1:]
_SIMPLE: Final = "test_simple_text"
_NEXT: Final = "json_schema_2020_12_tool"

# --- client requests -------------------------------------------------------------------------------------------------


class _OtherToolResult(Fault):
    """A server whose tool results for the model have another content."""

    def __init__(self, content: JsonValue) -> None:
        self._content: Final = content

    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        messages = params.get("messages")
        if method != "sampling/createMessage" or not isinstance(messages, list):
            return params
        return {**params, "messages": [self._changed(each) if isinstance(each, dict) else each for each in messages]}

    def _changed(self, message: JsonObject) -> JsonObject:
        blocks = message.get("content")
        if not isinstance(blocks, list):
            return message
        converted = [
            {**each, "content": self._content} if isinstance(each, dict) and each.get("type") == "tool_result" else each
            for each in blocks
        ]
        return {**message, "content": converted}


fault("tool-result-as-text", "schema.tool-result-content")(partial(_OtherToolResult, "42"))
fault("tool-result-of-json", "schema.tool-result-content")(
    partial(_OtherToolResult, [{"type": "json", "json": {"number": 42}}])
)


@fault("url-message-number", "schema.elicit-url", "elicitation.url-params")
class _MessageNumber(Fault):
    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        return {**params, "message": 5} if "url" in params else params


@fault(
    "page-data-empty",
    "schema.url-elicitation-required",
    "elicitation.required-only-then",
    "elicitation.required",
    revisions=_NEW,
)
class _PageDataEmpty(Fault):
    def error(self, error: JsonObject) -> JsonObject:
        return {**error, "data": {"elicitations": []}} if error["code"] == -32042 else error


# --- notifications ---------------------------------------------------------------------------------------------------

notification_fault("complete-number", "schema.elicitation-complete", "elicitation.complete-id",
     method="notifications/elicitation/complete", revisions=_NEW, change=lambda _: {"elicitationId": 5})  # fmt: skip


def _sending(name: str, *caught_by: str, message: JsonObject, revisions: tuple[str, ...] | None = None) -> None:
    """Add a fault that sends a message before the response of one tool."""

    class _Sends(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            if name_of(inbound) == _SIMPLE:
                id: JsonObject = {"id": f"asked{next(inbound.session.numbers)}"} if message.get("id") else {}
                inbound.send({"jsonrpc": "2.0", **message, **id})
            return result

    fault(name, *caught_by, revisions=revisions)(_Sends)


_sending("params-list", "schema.params-object",
        message={"method": "notifications/prompts/list_changed", "params": []}, revisions=LEGACY)  # fmt: skip
_sending("asks-for-tools", "schema.server-requests", message={"id": "asked", "method": "tools/list"}, revisions=LEGACY)
_sending("tells-news", "schema.server-notifications", message={"method": "notifications/news"}, revisions=LEGACY)
_sending("cancels-no-id", "schema.cancelled", "cancellation.of-own-requests",
        message={"method": "notifications/cancelled", "params": {"requestId": 1.5}}, revisions=LEGACY)  # fmt: skip
_sending("error-of-nobody", "schema.error-id",
        message={"id": None, "error": {"code": -32603, "message": "by the way"}}, revisions=LEGACY)  # fmt: skip


@fault("update-of-number", "schema.resource-updated", "resources.updated", revisions=LEGACY)
class _UpdateOfNumber(Fault):
    def change_notification(self, message: JsonObject) -> JsonObject | None:
        return {**message, "params": {"uri": 5}} if message["method"] == "notifications/resources/updated" else message


# --- tools -----------------------------------------------------------------------------------------------------------


@fault("support-perhaps", "schema.tool-execution", "tools.list-schema", revisions=_NEW)
class _SupportPerhaps(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        tools = result.get("tools")
        if inbound.request["method"] != "tools/list" or not isinstance(tools, list):
            return result
        changed: list[JsonValue] = [
            {**each, "execution": {"taskSupport": "perhaps"}}
            if isinstance(each, dict) and each["name"] == _SIMPLE
            else each
            for each in tools
        ]
        return {**result, "tools": changed}


changed("address-unchecked", "schema.validates-2020-12", method="tools/call", of=_NEXT,
        revisions=(*_NEW, *MODERN),
        change=lambda _, __: {"content": [{"type": "text", "text": "taken"}]})  # fmt: skip


def _address_lax(name: str, accepts: Callable[[JsonObject], bool]) -> None:
    """Add a server that ignores one keyword of the schema of an address."""

    def change(inbound: InboundRequest, result: JsonObject) -> JsonObject:
        arguments = inbound.params.get("arguments")
        taken: JsonObject = {"content": [{"type": "text", "text": "taken"}]}
        return taken if isinstance(arguments, dict) and accepts(arguments) else result

    changed(name, "schema.validates-2020-12", method="tools/call", of=_NEXT, revisions=(*_NEW, *MODERN), change=change)


_address_lax("address-with-more", lambda arguments: "conformanceUnknown" in arguments)
_address_lax("address-of-any-method", lambda arguments: arguments.get("contactMethod") == "letter")


@fault("tour-unanswered", "schema.tour")
class _TourUnanswered(Fault):
    """A server that does not answer one call: that of clients that use every tool."""

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        unanswered = inbound.meta.get("progressToken") == "tour" and name_of(inbound) == "test_error_handling"
        return None if unanswered else response
