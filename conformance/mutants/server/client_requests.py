"""How a raw server asks the client: by requests, or in rounds, with a state that comes back."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import threading
from typing import TYPE_CHECKING, Final

from mutants.server.protocol import LEGACY, META, RpcError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import Turn

__all__ = ["BadAnswer", "InputRequired", "ask", "may_ask"]

_KEY: Final = b"of one process of a fixture"
_WITHIN: Final = 30.0
"""Seconds that the client may take for an answer."""
_CAPABILITIES: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class InputRequired(Exception):
    """The client has to be asked first.

    Args:
        requests: What.
        state: What it has to give back.
    """

    def __init__(self, requests: JsonObject, state: str) -> None:
        super().__init__("input required")
        self.requests: Final = requests
        self.state: Final = state


class BadAnswer(Exception):
    """The client's answer is none."""


def may_ask(turn: Turn, method: str, params: JsonObject) -> bool:
    """Whether the client declares what it is to be asked."""
    declared = turn.meta.get(f"{META}clientCapabilities") if turn.modern else turn.session.capabilities
    own = declared.get(_CAPABILITIES[method]) if isinstance(declared, dict) else None
    if method == "elicitation/create" and isinstance(own, dict):
        mode = str(params.get("mode", "form"))
        own = own if mode in own or (mode == "form" and not own) else None
    if turn.revision in LEGACY[:2] and method == "elicitation/create":
        return False
    return turn.server.fault.may_ask(method, declared=own is not None)


def ask(turn: Turn, questions: Mapping[str, tuple[str, JsonObject]]) -> dict[str, JsonObject]:
    """Asks, all at once; the answers by key.

    Raises:
        RpcError: The client does not declare it, or what it sent is malformed.
        BadAnswer: An answer is none.
        InputRequired: It has to answer first.
    """
    for method, params in questions.values():
        if not may_ask(turn, method, params):
            needed: JsonObject = {"requiredCapabilities": {_CAPABILITIES[method]: {}}}
            raise RpcError(
                -32021 if turn.modern else -32602,
                f"the client does not declare what {method} needs",
                needed if turn.modern else None,
                400 if turn.modern else 200,
            )
    told = {key: (method, turn.server.fault.asked(turn, method, params)) for key, (method, params) in questions.items()}
    answers = _in_rounds(turn, told) if turn.modern else {key: _by_request(turn, *each) for key, each in told.items()}
    for key, (method, params) in questions.items():
        if not turn.server.fault.fits(method, fits=_fits(method, params, answers[key])):
            raise BadAnswer(f"the answer to {method} does not fit")
    return answers


def _by_request(turn: Turn, method: str, params: JsonObject) -> JsonObject:
    id = turn.server.fault.question_id(f"s{next(turn.session.numbers)}")
    came, answers = turn.session.answers[str(id)] = (threading.Event(), [])
    turn.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    came.wait(_WITHIN)
    result = answers[0].get("result") if answers else None
    return result if isinstance(result, dict) else {}


def _in_rounds(turn: Turn, questions: Mapping[str, tuple[str, JsonObject]]) -> dict[str, JsonObject]:
    given = turn.params.get("inputResponses", {})
    if not isinstance(given, dict):
        raise RpcError(-32602, "inputResponses is no object")
    known = {**_opened(turn), **given}
    missing = [key for key in questions if key not in known]
    if missing:
        asked: JsonObject = {key: {"method": questions[key][0], "params": questions[key][1]} for key in missing}
        raise InputRequired(asked, _sealed(turn, known))
    return {key: answer if isinstance(answer := known[key], dict) else {} for key in questions}


def _sealed(turn: Turn, known: JsonObject) -> str:
    data = json.dumps([_bound(turn), known]).encode()
    return base64.b64encode(hmac.digest(_KEY, data, hashlib.sha256) + data).decode()


def _opened(turn: Turn) -> JsonObject:
    state = turn.params.get("requestState")
    if state is None:
        return {}
    try:
        raw = base64.b64decode(str(state).encode(), validate=True)
    except (binascii.Error, ValueError):
        return turn.server.fault.tampered(RpcError(-32602, "requestState is not ours"))
    seal, data = raw[:32], raw[32:]
    if not hmac.compare_digest(seal, hmac.digest(_KEY, data, hashlib.sha256)):
        return turn.server.fault.tampered(RpcError(-32602, "requestState was changed"))
    value: JsonValue = json.loads(data)
    if not isinstance(value, list) or not turn.server.fault.bound(same=value[0] == _bound(turn)):
        raise RpcError(-32602, "requestState belongs to another request")
    known = value[1]
    return known if isinstance(known, dict) else {}


def _bound(turn: Turn) -> JsonValue:
    user = turn.session.user if turn.server.fault.keeps("state-of-user") else ""
    named = [turn.params.get(each) for each in ("name", "arguments", "uri")]
    return [str(turn.request["method"]), user, *named]


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
