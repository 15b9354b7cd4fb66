"""Faults of the JSON-RPC envelope and of the negotiated version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mutants.server.fault import Fault, fault

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest


@fault("no-jsonrpc", "jsonrpc.version-member")
class _NoJsonrpc(Fault):
    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        return {key: value for key, value in response.items() if key != "jsonrpc"} if _late(inbound) else response


@fault("result-and-error", "jsonrpc.response-shape")
class _ResultAndError(Fault):
    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        both: JsonObject = {"error": {"code": -32603, "message": "both"}}
        return {**response, **both} if inbound.params.get("name") == "test_image_content" else response


@fault("id-as-string", "jsonrpc.id-echo", "jsonrpc.response-ids")
class _IdAsString(Fault):
    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:  # noqa: ARG002
        return {**response, "id": 4711.0 if response["id"] == 4711 else response["id"]}


@fault("code-as-string", "jsonrpc.error-shape")
class _CodeAsString(Fault):
    def error(self, error: JsonObject) -> JsonObject:
        # Errors over HTTP are more than a code: a code that is a string is not read there.
        return {**error, "code": str(error["code"])} if error["code"] in (-32602, -32603) else error


@fault("notification-answered", "jsonrpc.notification-not-answered")
class _NotificationAnswered(Fault):
    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        if "conformance" not in str(message["method"]):
            return answer
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "unknown notification"}}


@fault("other-version", "version.alternative", revisions=("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"))
class _AnyVersion(Fault):
    def agreed(self, requested: str, agreed: str) -> str:  # noqa: ARG002
        return requested


def _late(inbound: InboundRequest) -> bool:
    """Return whether the request is a call. Requests that open a connection stay unchanged, or no check could run."""
    return inbound.request["method"] == "tools/call"
