"""The client requests of a raw server: as requests, or in MRTR with a sealed state."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import threading
from typing import TYPE_CHECKING, Final

from mutants.server.protocol import LEGACY, META, RpcError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__ = ["BadAnswer", "InputRequired", "may_request_input", "request_client", "request_input"]

_KEY: Final = b"of one process of a fixture"
_WITHIN: Final = 30.0
"""The timeout of a response of the client, in seconds."""
_CAPABILITIES: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class InputRequired(Exception):
    """A result that requires input from the client.

    Args:
        requests: The input requests.
        state: The `requestState`.
    """

    def __init__(self, requests: JsonObject, state: str) -> None:
        super().__init__("input required")
        self.requests: Final = requests
        self.state: Final = state


class BadAnswer(RpcError):
    """The client's answer is invalid for the request.

    Args:
        method: The method of the request.
    """

    def __init__(self, method: str) -> None:
        super().__init__(-32603, f"invalid result of {method}")


def may_request_input(inbound: InboundRequest, method: str, params: JsonObject) -> bool:
    """Return whether the client declares the capability that a client request needs."""
    declared = inbound.meta.get(f"{META}clientCapabilities") if inbound.modern else inbound.session.capabilities
    own = declared.get(_CAPABILITIES[method]) if isinstance(declared, dict) else None
    if method == "elicitation/create" and isinstance(own, dict):
        mode = str(params.get("mode", "form"))
        own = own if mode in own or (mode == "form" and not own) else None
    if inbound.revision in LEGACY[:2] and method == "elicitation/create":
        return False
    return inbound.server.fault.may_request_input(inbound, method, declared=own is not None)


def request_input(
    inbound: InboundRequest, client_requests: Mapping[str, tuple[str, JsonObject]]
) -> dict[str, JsonObject]:
    """Send client requests, all at once, and return the results by key.

    Raises:
        RpcError: The client does not declare the capability, or its message is malformed.
        BadAnswer: A result is invalid.
        InputRequired: The client must retry the request with input responses.
    """
    for method, params in client_requests.values():
        if not may_request_input(inbound, method, params):
            needed: JsonObject = {"requiredCapabilities": {_CAPABILITIES[method]: {}}}
            raise RpcError(
                -32021 if inbound.modern else -32602,
                f"the client does not declare what {method} needs",
                needed if inbound.modern else None,
                400 if inbound.modern else 200,
            )
    requests = {
        key: (method, inbound.server.fault.client_request_params(inbound, method, params))
        for key, (method, params) in client_requests.items()
    }
    answers = (
        _by_retry(inbound, requests)
        if inbound.modern
        else {key: request_client(inbound, *each) for key, each in requests.items()}
    )
    for key, (method, params) in client_requests.items():
        if not inbound.server.fault.fits(method, answers[key], fits=_fits(method, params, answers[key])):
            raise BadAnswer(method)
    return answers


def request_client(inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:
    """Send one client request as a request, and return its result; empty for an error, and without a response."""
    id = inbound.server.fault.client_request_id(f"s{next(inbound.session.numbers)}")
    known = inbound.server.fault.answers(inbound.session.answers)
    arrived, answers = known[str(id)] = (threading.Event(), [])
    inbound.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    arrived.wait(_WITHIN)
    result = answers[0].get("result") if answers else None
    return result if isinstance(result, dict) else {}


def _by_retry(inbound: InboundRequest, client_requests: Mapping[str, tuple[str, JsonObject]]) -> dict[str, JsonObject]:
    given = inbound.params.get("inputResponses", {})
    if not isinstance(given, dict):
        raise RpcError(-32602, "inputResponses is not an object")
    known = {**_opened(inbound), **given}
    missing = [key for key in client_requests if key not in known]
    if missing:
        input_requests: JsonObject = {
            key: {"method": client_requests[key][0], "params": client_requests[key][1]} for key in missing
        }
        raise InputRequired(input_requests, _sealed(inbound, known))
    return {key: answer if isinstance(answer := known[key], dict) else {} for key in client_requests}


def _sealed(inbound: InboundRequest, known: JsonObject) -> str:
    # Each state is unique, as it may be one that can be used once.
    data = json.dumps([_bound(inbound), known, secrets.token_hex(8)]).encode()
    return base64.b64encode(hmac.digest(_KEY, data, hashlib.sha256) + data).decode()


def _opened(inbound: InboundRequest) -> JsonObject:
    state = inbound.params.get("requestState")
    if state is None:
        return {}
    try:
        raw = base64.b64decode(str(state).encode(), validate=True)
    except (binascii.Error, ValueError):
        return inbound.server.fault.tampered(RpcError(-32602, "requestState is not from this server"))
    seal, data = raw[:32], raw[32:]
    if not hmac.compare_digest(seal, hmac.digest(_KEY, data, hashlib.sha256)):
        return inbound.server.fault.tampered(RpcError(-32602, "requestState was changed"))
    value: JsonValue = json.loads(data)
    if not isinstance(value, list) or not inbound.server.fault.bound(same=value[0] == _bound(inbound)):
        raise RpcError(-32602, "requestState belongs to another request")
    known = value[1]
    return known if isinstance(known, dict) else {}


def _bound(inbound: InboundRequest) -> JsonValue:
    user = inbound.session.user if inbound.server.fault.keeps("state-of-user") else ""
    named = [inbound.params.get(each) for each in ("name", "arguments", "uri")]
    return [str(inbound.request["method"]), user, *named]


def _fits(method: str, params: JsonObject, answer: JsonObject) -> bool:
    if method == "roots/list":
        return isinstance(answer.get("roots"), list)
    if method == "sampling/createMessage":
        return answer.get("role") in ("user", "assistant") and isinstance(answer.get("content"), dict | list)
    if answer.get("action") != "accept":
        return answer.get("action") in ("decline", "cancel")
    schema, content = params.get("requestedSchema"), answer.get("content")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return True
    kinds: dict[str, type | tuple[type, ...]] = {"string": str, "boolean": bool, "array": list}
    return isinstance(content, dict) and all(
        isinstance(content.get(name), kinds.get(str(field.get("type")), (int, float)))
        for name, field in properties.items()
        if isinstance(field, dict)
    )
