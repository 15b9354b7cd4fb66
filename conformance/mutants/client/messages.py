"""The messages of the raw client over every transport, and its responses to the server's messages."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Protocol

from mutants.client.client_request_answers import Answers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "LATEST_LEGACY",
    "MODERN",
    "SPOKEN",
    "ClientError",
    "MessageFactory",
    "SessionLost",
    "UnsupportedRevision",
    "Wire",
    "answers",
    "dumped",
    "in_scenario",
    "late_notifications",
    "progress_before",
    "reply",
    "require_order",
    "result_of",
    "usable",
    "wrong",
]

MODERN = "2026-07-28"
LATEST_LEGACY = "2025-11-25"
SPOKEN = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

_DEADLY = {
    "dies-of-unknown-progress": "nobody-asked",
    "dies-of-rich-progress": "A third is done",
    "dies-of-unknown-completion": "notifications/elicitation/complete",
    "dies-of-unheard-of": "com.example/unheard-of",
    "knows-few-log-levels": "'level': 'notice'",
    "needs-log-data": "'data': None",
}
"""By fault, the text of a notification that ends the client."""
_PREFIX = "io.modelcontextprotocol/"
_SAMPLING = "sampling/createMessage"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class ClientError(Exception):
    """A reason why the client cannot continue; the only argument."""


class UnsupportedRevision(ClientError):
    """The server does not support the modern revision, or not this one."""

    def __init__(self, why: str, *, modern: bool) -> None:
        super().__init__(why)
        self.modern = modern


class SessionLost(ClientError):
    """The server lost the session to which a cursor belongs; another one is open."""


class Wire(Protocol):
    """A connection to a server."""

    def open(self) -> JsonObject:
        """Open the connection and return the server capabilities."""
        ...

    def call(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request and return the result, or an object with the `error`."""
        ...

    def call_at_once(self, method: str, each_params: list[JsonObject]) -> list[JsonObject]:
        """Send several requests before the first response, and return the results."""
        ...

    def abandon(self, method: str, params: JsonObject) -> None:
        """Send a request and abandon it."""
        ...

    def notify(self, method: str) -> None:
        """Send a notification."""
        ...

    def cancel_last(self) -> None:
        """Cancel the last request by a notification, although it has its response."""
        ...

    def fetch(self, tools: list[JsonObject]) -> None:
        """Fetch what the tools name, and what a client must not fetch."""
        ...

    def learn(self, tools: list[JsonObject]) -> None:
        """Record the header annotations of the tools."""
        ...

    def usable(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Return the tools that may be called."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def in_scenario(name: str) -> bool:
    """Return whether this is the scenario of the run."""
    return os.environ.get("MCP_CONFORMANCE_SCENARIO") == name


def wrong(name: str) -> bool:
    """Return whether this fault is set."""
    return "--fault" in sys.argv and sys.argv[sys.argv.index("--fault") + 1] == name


def dumped(value: JsonValue) -> bytes:
    """Serialize a value. Faults begin with calls; with a fault before them, the connection would fail."""
    text = json.dumps(_batched(value))
    if "tools/call" in text and wrong("latin-1"):
        return text.replace("{", '{"\xe4": 1, ', 1).encode("latin-1")
    if "tools/call" in text and wrong("pretty"):
        return json.dumps(value, indent=2).encode()
    return text.encode()


def _batched(value: JsonValue) -> JsonValue:
    """Return a message in an array, if that is the fault."""
    method = value.get("method") if isinstance(value, dict) else None
    if method == "initialize" and wrong("batches-initialize"):
        return [value]
    if method is not None and method != "initialize" and in_scenario("version-older") and wrong("batches-in-older"):
        return [value]
    if method is None and in_scenario("server-asks") and wrong("mixes-batches"):
        return [value, {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}]
    return value


class MessageFactory:
    """A factory of messages with unused ids."""

    made: ClassVar[list[MessageFactory]] = []
    """One for each connection, for faults that confuse them."""

    def __init__(self, version: str, *, used: int = 0) -> None:
        self.made.append(self)
        self.version = version
        self.agreed = version
        """The version that was negotiated; until then the one that is offered."""
        self._id = used
        self._said = 0
        self._declared = version

    def request(self, method: str, params: JsonObject) -> JsonObject:
        """Return a request."""
        retried = wrong("same-id-again") and "inputResponses" in params
        retried = retried or (wrong("same-id-of-prompt") and method == "prompts/get" and "inputResponses" in params)
        if not retried and (not wrong("same-id") or self._id < 2):
            self._id += 1
        id: JsonValue = {"null-id": None, "float-id": self._id + 0.5}.get(_fault(), self._id)
        is_null = method == "tools/list" and not params and wrong("null-params")
        message: JsonObject = {"jsonrpc": "2.0", "id": id, "method": method, "params": None if is_null else params}
        self._said += 1
        if method == "tools/call":
            message["params"] = params = self._call_params(params)
        if method == "prompts/get" and wrong("number-arguments"):
            message["params"] = params = {**params, "arguments": {"arg1": 7}}
        if method == "tools/call" and wrong("no-jsonrpc"):
            del message["jsonrpc"]
        if method == "tools/call" and wrong("array-params"):
            message["params"] = [params]
        if self.version == MODERN:
            replaced = method == "tools/call" and in_scenario("tools_call") and wrong("token-replaces-meta")
            meta: JsonObject = {"progressToken": self._id} if replaced else self.meta()
            if "cursor" in params and wrong("pages-without-capabilities"):
                del meta[f"{_PREFIX}clientCapabilities"]
            if method in ("prompts/get", "resources/read") and wrong("declares-for-tools"):
                meta[f"{_PREFIX}clientCapabilities"] = {}
            if wrong("declares-nothing-again") and "inputResponses" in params and method != "tasks/update":
                meta[f"{_PREFIX}clientCapabilities"] = {}
            message["params"] = {**params, "_meta": meta}
            if wrong("no-meta-again") and "inputResponses" in params and method != "tasks/update":
                message["params"] = {**params, "_meta": {}}
            if wrong("no-meta") and method != "server/discover":
                message["params"] = params
        elif in_scenario("meets-legacy") and method != "initialize" and wrong("modern-behind-initialize"):
            message["params"] = {**params, "_meta": self.meta()}
        return message

    def _call_params(self, params: JsonObject) -> JsonObject:
        """Return the params of a call, with a fault if it is set."""
        if wrong("token-in-arguments"):
            given = params.get("arguments")
            arguments: JsonObject = given if isinstance(given, dict) else {}
            return {**params, "arguments": {**arguments, "_meta": {"progressToken": self._id}}}
        if wrong("list-arguments"):
            return {**params, "arguments": [1, 2]}
        if wrong("null-token"):
            return {**params, "_meta": {"progressToken": None}}
        if wrong("float-token"):
            return {**params, "_meta": {"progressToken": self._id + 0.5}}
        if wrong("token-of-tool"):
            return {**params, "_meta": {"progressToken": params["name"]}}
        if wrong("same-token"):
            return {**params, "_meta": {"progressToken": "one"}}
        if self.agreed == "2025-06-18" and wrong("reserved-key-of-june"):
            return {**params, "_meta": {"mcp.com/mine": 1}}
        if self.agreed == "2025-06-18" and wrong("free-key-of-june"):
            return {**params, "_meta": {"com.mcp/mine": 1}}
        other = self.made[0].agreed == LATEST_LEGACY and wrong("first-version-for-all")
        if self.agreed == "2025-06-18" and (other or wrong("task-in-older")):
            return {**params, "task": {"ttl": 60_000}}
        return params

    def take_version(self, listed: JsonValue) -> None:
        """Use the first version of a list, if that is the fault."""
        if isinstance(listed, list) and listed and wrong("takes-first-version"):
            self._declared = str(listed[0])

    def forget(self) -> None:
        """Use the id of the last request again."""
        self._id -= 1

    def meta(self) -> JsonObject:
        """Return the request metadata of a modern request."""
        meta: JsonObject = {
            f"{_PREFIX}protocolVersion": self._declared,
            f"{_PREFIX}clientCapabilities": answers().declared(),
            f"{_PREFIX}clientInfo": {"name": "raw", "version": "1"},
        }
        if wrong("no-capabilities") and "MCP_CONFORMANCE_PROTOCOL_VERSION" in os.environ:
            del meta[f"{_PREFIX}clientCapabilities"]
        if wrong("no-client-info"):
            del meta[f"{_PREFIX}clientInfo"]
        if wrong("info-without-version"):
            meta[f"{_PREFIX}clientInfo"] = {"name": "raw"}
        if wrong("odd-log-level"):
            meta[f"{_PREFIX}logLevel"] = "verbose"
        if wrong("bad-traceparent"):
            meta["traceparent"] = "00-0-0-00"
        if wrong("bad-baggage"):
            meta["baggage"] = "no pairs at all"
        if wrong("forward-dns"):
            meta["www.example.com/mine"] = 1
        if wrong("bad-website"):
            meta[f"{_PREFIX}clientInfo"] = {"name": "raw", "version": "1", "websiteUrl": "see below"}
        if wrong("other-version-later") and in_scenario("meets-modern") and self._said > 1:
            meta[f"{_PREFIX}protocolVersion"] = "2026-01-01"
        if wrong("reserved-key"):
            meta["com.mcp.tools/mine"] = 1
        if wrong("bad-meta-key"):
            meta["-bad key-"] = 1
        return meta

    def cancellation_of_last(self) -> JsonObject:
        """Return a notification that cancels the last request."""
        id: JsonValue = str(self._id) if wrong("cancels-by-text") else self._id
        named: JsonObject = {"requestId": id, "reason": "no longer needed"}
        return {**self.notification("notifications/cancelled"), "params": named}

    def notification(self, method: str) -> JsonObject:
        """Return a notification."""
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if wrong("notification-with-id"):
            message["id"] = 4711
        return message

    def initialize(self) -> JsonObject:
        """Return the request that opens a legacy connection."""
        info: JsonObject = {"name": "raw"} if wrong("info-without-version") else {"name": "raw", "version": "1"}
        params: JsonObject = {
            "protocolVersion": self.version,
            "capabilities": answers().declared(),
            "clientInfo": info,
        }
        return self.request("initialize", params)


@cache
def answers() -> Answers:
    """Return the answers to client requests."""
    return Answers(wrong)


def _fault() -> str:
    return sys.argv[sys.argv.index("--fault") + 1] if "--fault" in sys.argv else ""


def progress_before(request: JsonObject) -> list[JsonObject]:
    """Return the progress notifications before the response to a request."""
    if request["method"] == "ping" and _GIVEN_UP and wrong("progress-of-cancelled"):
        _GIVEN_UP.append(request["id"])
        late: JsonObject = {"progressToken": "conformance/given up", "progress": len(_GIVEN_UP)}
        return [{"jsonrpc": "2.0", "method": "notifications/progress", "params": late}]
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not in_scenario("conformance_progress") or not isinstance(meta, dict) or "progressToken" not in meta:
        return []
    token = meta["progressToken"]
    if wrong("narrows-token") and isinstance(token, int):
        token = (token + 2**31) % 2**32 - 2**31
    more: JsonObject = {"total": "one"} if wrong("total-as-text") else {}
    steps: list[JsonValue] = [0.5, 0.25] if wrong("progress-falls") else [0.25, 0.5]
    notifications: list[JsonObject] = [
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": token, "progress": step, **more},
        }
        for step in [*steps, 0.75]
    ]
    if wrong("progress-behind"):
        answers().tasks.aside.append(notifications.pop())
    return notifications


_PENDING: list[str] = []
"""The requests that the server sends at once."""
_HELD: list[JsonObject] = []
"""The responses to the requests that the server sends at once."""
_GIVEN_UP: list[JsonValue] = []
"""The first id of a request that the server cancelled, and of each ping after that."""
_COMPLETED: list[str] = []
"""The notifications of completed elicitations."""
_UNANSWERED: list[JsonValue] = []
"""The ids of the requests that wait for the user."""
_ANSWERED: list[JsonValue] = []
"""The ids of the requests with a response."""


def late_notifications() -> list[JsonObject]:
    """Return the notifications after a response, once."""
    waiting = [*answers().tasks.aside]
    answers().tasks.aside.clear()
    return waiting


def reply(request: JsonObject) -> JsonObject | None:
    """Return the response to a message of the server, or `None` for a notification, and for a request of a modern server."""
    if "id" in request and answers().modern and not _answers_modern(request):
        return None
    if isinstance(request.get("id"), str) and in_scenario("server-asks") and wrong("ids-are-numbers"):
        return None
    if len(MessageFactory.made) > 1 and "does-not-exist" in str(request["method"]) and wrong("rejects-unknown-once"):
        return None
    if isinstance(request["method"], str):
        answer = _reply({**request, "id": _id_of_answer(request["id"])} if request.get("id") is not None else request)
        if wrong("falsy-id-is-none") and not request.get("id"):
            return None
        answers().tasks.aside.extend(_late_answers(request, answer))
        if _HELD and answer is _HELD[0]:
            return None
        if answer is not None:
            _ANSWERED.append(answer["id"])
        return answer
    error: JsonObject = {"code": -32601 if wrong("takes-any-method") else -32600, "message": "invalid request"}
    return {"jsonrpc": "2.0", "id": request.get("id"), "error": error}


def _answers_modern(request: JsonObject) -> bool:
    """Return whether a faulty client responds to a request of a modern server."""
    return wrong("pongs-to-modern" if request["method"] == "ping" else "rejects-modern-requests")


def _id_of_answer(id: JsonValue) -> JsonValue:
    """Return the id of the response to a request."""
    return int(id) if isinstance(id, str) and id.isdecimal() and wrong("ids-of-digits-as-numbers") else id


def _late_answers(request: JsonObject, answer: JsonObject | None) -> list[JsonObject]:
    """Return the responses to earlier requests, with the id of the newest one if that is the fault."""
    late: list[JsonObject] = []
    if str(request.get("id")).startswith("ask_at_once") and wrong("one-request-at-a-time") and answer is not None:
        _HELD.append(answer)
        if len(_HELD) == 2:
            late.append({**_HELD[0], "id": answer["id"]})
    return late


def _cancelled(params: JsonValue) -> JsonObject | None:
    """Return what a faulty client responds to a cancellation."""
    given_up = params.get("requestId") if isinstance(params, dict) else None
    if given_up in _UNANSWERED and not _GIVEN_UP:
        _GIVEN_UP.append(given_up)
    if given_up in _UNANSWERED and wrong("cancels-in-return"):
        named: JsonObject = {"requestId": given_up, "reason": "cancelled by the server"}
        back: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": named}
        answers().tasks.aside.append(back)
    if given_up == "never was" and wrong("dies-of-odd-cancellation"):
        raise ClientError("unknown request id")
    if given_up in _ANSWERED and wrong("dies-of-late-cancellation"):
        raise ClientError("the response was sent already")
    if given_up is None and wrong("answers-odd-cancellation"):
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "invalid params"}}
    late = given_up == "to be given up" and wrong("answers-cancelled")
    late = late or (given_up == 0 and wrong("ignores-cancel-of-zero"))
    return {"jsonrpc": "2.0", "id": given_up, "result": {"action": "cancel"}} if late else None


def _reply(request: JsonObject) -> JsonObject | None:
    if "does-not-exist" in str(request["method"]) and wrong("ignores-unknown-methods"):
        return None
    if "id" not in request and request["method"] == "notifications/cancelled":
        return _cancelled(request.get("params"))
    if in_scenario("conformance_server_cancels") and request["method"] in ("elicitation/create", _SAMPLING):
        # The user never answers.
        _UNANSWERED.append(request.get("id"))
        return None
    if _forgets(request):
        return None
    if "id" not in request:
        if "params" not in request and wrong("needs-params"):
            raise ClientError("params are missing")
        text = f"{request['method']} {request.get('params')}"
        _die_of(text)
        return _said_back(text)
    answer: JsonObject = {"jsonrpc": "2.0", "id": f"{request['id']}" if wrong("id-as-string") else request["id"]}
    if request["method"] == "ping" and in_scenario("meets-legacy") and wrong("deaf-after-fallback"):
        return None
    if request["method"] == "ping":
        answer |= _pong(request)
    elif request["method"] == "roots/list" and wrong("roots-undeclared") and in_scenario("server-asks"):
        answer["result"] = {"roots": []}
    elif answers().active:
        request_params = request.get("params")
        answer |= answers().answer(str(request["method"]), request_params if isinstance(request_params, dict) else {})
    else:
        code = -32600 if wrong("wrong-code") and request["method"] != "roots/list" else -32601
        answer["error"] = {"code": code, "message": 7 if wrong("message-as-number") else "unknown method"}
    if "error" in answer and not answer["id"] and wrong("no-falsy-id-in-errors"):
        answer["id"] = None
    return answer


def _said_back(notification: str) -> JsonObject | None:
    """Return what a faulty client responds to a notification."""
    is_odd = notification.startswith("notifications/progress") and "'progress':" not in notification
    if is_odd and wrong("answers-odd-progress"):
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "progress is missing"}}
    responds = wrong("answers-notifications") and "unheard-of" in notification.partition(" ")[0]
    return {"jsonrpc": "2.0", "id": 4712, "result": {}} if responds else None


def _pong(request: JsonObject) -> JsonObject:
    """Return the members of the response to a ping."""
    if wrong("rejects-ping"):
        return {"error": {"code": -32601, "message": "unknown method"}}
    later = wrong("full-pong-later") and in_scenario("conformance_progress")
    full = wrong("full-pong") or later
    pong: JsonObject = {"result": {"pong": 1} if full else {"_meta": []} if wrong("meta-as-list") else {}}
    if wrong("both"):
        pong["error"] = {"code": -32603, "message": "both"}
    if wrong("task-of-ping") and "task" in str(request.get("params")):
        pong |= answers().tasks.begin({"task": {}}, {"result": {}})
    return pong


def _forgets(request: JsonObject) -> bool:
    """Return whether a request among several pending ones gets no response."""
    if request["method"] == "ping" and _UNANSWERED and wrong("no-pongs-while-asked"):
        return True
    if str(request.get("id")).startswith("ask_at_once") and wrong("answers-newest-only"):
        # Others follow the first one before its response.
        _PENDING.append("first")
        return len(_PENDING) == 1
    if str(request.get("id")) == "471147" and wrong("ids-by-text"):
        # Another one with the same text follows the first one before its response.
        _PENDING.append("first")
        return len(_PENDING) == 1
    if request["method"] == "tasks/result" and wrong("task-result-to-one"):
        waiter = str(request.get("params"))
        _PENDING.append(waiter)
        return _PENDING.count(waiter) == 2
    return False


def _die_of(notification: str) -> None:
    """Raise `ClientError` if the client does not survive a notification, or not the second one of a known elicitation."""
    if any(wrong(fault) and word in notification for fault, word in _DEADLY.items()):
        raise ClientError("unknown message")
    if wrong("completes-once") and notification in _COMPLETED and "unknown" not in notification:
        raise ClientError("the elicitation is complete already")
    if "elicitation/complete" in notification:
        _COMPLETED.append(notification)


def result_of(response: JsonObject) -> JsonObject:
    """Return the result of a response, or an object with its `error`."""
    result = response.get("result")
    return result if isinstance(result, dict) else {"error": response.get("error")}


def require_order(message: JsonValue) -> None:
    """Raise an error for a message whose members are in another order than usual, as a faulty client does."""
    if isinstance(message, dict) and next(iter(message), "jsonrpc") != "jsonrpc" and wrong("needs-order"):
        raise ClientError("the first member of a message is not jsonrpc")


def usable(tools: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the tools with valid header annotations. Spec: basic/transports/streamable-http (2026-07-28)"""
    return [
        tool
        for tool in tools
        if not any(not wrong(f"takes-{flaw}") for flaw in _flaws(tool.get("inputSchema")))
        or (wrong("takes-nested") and not {"x-mcp-header"} & _top_level(tool.get("inputSchema")))
    ]


def _top_level(schema: JsonValue) -> set[str]:
    """Return the keywords of the top-level properties."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    parts = properties.values() if isinstance(properties, dict) else ()
    return {keyword for part in parts if isinstance(part, dict) for keyword in part}


def _flaws(schema: JsonValue) -> Iterator[str]:
    """Yield what is wrong with the annotations in a schema."""
    seen: set[str] = set()
    for header, kind in _annotations(schema, reachable=True, annotated=False):
        if kind is None:
            yield "unreachable"
        elif not isinstance(header, str):
            yield "non-string"
        elif not _TOKEN.fullmatch(header.removesuffix("\n") if wrong("takes-line-feed") else header):
            yield "bad-token" if header else "empty"
        elif kind not in ("string", "integer", "boolean"):
            yield "number" if kind == "number" else "non-primitive"
        elif header.lower() in seen and not (wrong("duplicates-by-level") and _is_unique_by_level(schema)):
            yield "duplicate"
        else:
            seen.add(header.lower())


def _is_unique_by_level(schema: JsonValue) -> bool:
    """Return whether no two properties of the same object have the same annotation."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    parts = [each for each in properties.values() if isinstance(each, dict)] if isinstance(properties, dict) else []
    names = [str(each["x-mcp-header"]).lower() for each in parts if "x-mcp-header" in each]
    return len(names) == len(set(names)) and all(map(_is_unique_by_level, parts))


def _annotations(value: JsonValue, *, reachable: bool, annotated: bool) -> Iterator[tuple[JsonValue, JsonValue]]:
    """Yield the annotations in a part of a schema, each with the type of its property, or `None` where none is allowed.

    Args:
        value: The part.
        reachable: Whether only `properties` lead to it.
        annotated: Whether it is a property, which may have an annotation.
    """
    if isinstance(value, list):
        for each in value:
            yield from _annotations(each, reachable=False, annotated=False)
    if not isinstance(value, dict):
        return
    if "x-mcp-header" in value:
        yield value["x-mcp-header"], value.get("type", "") if annotated else None
    for name, part in value.items():
        if name == "properties" and isinstance(part, dict):
            for property_name, each in part.items():
                right = reachable and not (property_name == "items" and wrong("items-is-a-keyword"))
                yield from _annotations(each, reachable=right, annotated=right)
        else:
            yield from _annotations(part, reachable=False, annotated=False)
