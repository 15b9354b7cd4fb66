"""Faults of the JSON-RPC envelope, and of the version that is agreed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mutants.server.fault import Fault, fault

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import Turn


@fault("no-jsonrpc", "jsonrpc.version-member")
class _NoJsonrpc(Fault):
    def response(self, turn: Turn, response: JsonObject) -> JsonValue:
        return {key: value for key, value in response.items() if key != "jsonrpc"} if _late(turn) else response


@fault("result-and-error", "jsonrpc.response-shape")
class _ResultAndError(Fault):
    def response(self, turn: Turn, response: JsonObject) -> JsonValue:
        both: JsonObject = {"error": {"code": -32603, "message": "both"}}
        return {**response, **both} if turn.params.get("name") == "test_image_content" else response


@fault("id-as-string", "jsonrpc.id-echo")
class _IdAsString(Fault):
    def response(self, turn: Turn, response: JsonObject) -> JsonValue:  # noqa: ARG002
        return {**response, "id": 4711.0 if response["id"] == 4711 else response["id"]}


@fault("code-as-string", "jsonrpc.error-shape")
class _CodeAsString(Fault):
    def error(self, error: JsonObject) -> JsonObject:
        # Those of HTTP say more than a code: they are not read as one that is written as a text.
        return {**error, "code": str(error["code"])} if error["code"] in (-32602, -32603) else error


@fault("notification-answered", "jsonrpc.notification-not-answered")
class _NotificationAnswered(Fault):
    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        if "conformance" not in str(message["method"]):
            return answer
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "there is no such notification"}}


@fault("other-version", "version.alternative", revisions=("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"))
class _AnyVersion(Fault):
    def agreed(self, asked: str, agreed: str) -> str:  # noqa: ARG002
        return asked


def _late(turn: Turn) -> bool:
    """Whether it is a call: what every connection begins with stays as it is, or nothing at all could be tried."""
    return turn.request["method"] == "tools/call"
