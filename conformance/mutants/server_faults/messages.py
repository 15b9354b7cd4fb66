"""Faults of messages, of the handshake, and of stdio."""

from __future__ import annotations

import codecs
import json
import re
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault, ids_of
from mutants.server.protocol import LEGACY, META, MODERN, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedIOBase
    from typing import BinaryIO

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import Checks, InboundRequest

__all__: list[str] = []

_PIPES: Final = ("stdio",)
_VERSION: Final = f"{META}protocolVersion"
_MODERN_ONLY: Final = ("--modern-only",)


def _is(inbound: InboundRequest, *methods: str) -> bool:
    return inbound.request["method"] in methods


def _identified(
    name: str,
    change: Callable[[JsonValue], JsonValue],
    *checks: str,
    revisions: tuple[str, ...] | None = None,
    transports: tuple[str, ...] = ("stdio", "http"),
) -> None:
    """Add a server that sends another id in its responses."""

    class _OtherId(Fault):
        def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:  # noqa: ARG002
            return {**response, "id": change(response["id"])} if "id" in response else response

    fault(name, "jsonrpc.id-echo", *checks, revisions=revisions, transports=transports)(_OtherId)


_identified("id-in-lower-case", lambda id: id.lower() if isinstance(id, str) else id, "jsonrpc.response-ids")
_identified(
    "id-of-32-bits", lambda id: id & 0xFFFF_FFFF if isinstance(id, int) and id > 0 else id, "jsonrpc.response-ids"
)
_identified("id-without-sign", lambda id: abs(id) if isinstance(id, int) else id, "sse.own-responses")
_identified("id-zero-dropped", lambda id: None if id == 0 else id, transports=_PIPES)
_identified(
    "id-zero-dropped-over-http",
    lambda id: None if id == 0 else id,
    "jsonrpc.response-ids",
    revisions=MODERN,
    transports=("http",),
)
_identified("id-empty-dropped", lambda id: None if id == "" else id)
_identified("id-cut", lambda id: id[:64] if isinstance(id, str) else id, "jsonrpc.response-ids")
_identified(
    "id-ascii-only",
    lambda id: id.encode("ascii", "replace").decode() if isinstance(id, str) else id,
    "jsonrpc.response-ids",
)
_identified(
    "id-without-quotation-marks",
    lambda id: id.replace('"', "") if isinstance(id, str) else id,
    "jsonrpc.response-ids",
)
_identified(
    "id-without-backslashes",
    lambda id: id.replace("\\", "") if isinstance(id, str) else id,
    "jsonrpc.response-ids",
)
_identified("id-stripped", lambda id: id.strip() if isinstance(id, str) else id, "jsonrpc.response-ids")
_identified(
    "id-of-digits-as-number",
    lambda id: int(id) if isinstance(id, str) and id.isdecimal() else id,
    "jsonrpc.response-ids",
)


class _IdOfLatestTwin(Fault):
    """A server that keeps the requests in progress by the text of their ids."""

    def __init__(self) -> None:
        self._latest: dict[str, JsonValue] = {}

    def reads(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and "method" in message and "id" in message:
            self._latest[str(message["id"])] = message["id"]
        return message

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:  # noqa: ARG002
        return {**response, "id": self._latest.get(str(response["id"]))} if "id" in response else response


fault("ids-kept-as-text", "jsonrpc.id-echo", transports=("http",))(_IdOfLatestTwin)
fault("ids-kept-as-text-over-stdio", "jsonrpc.id-echo", transports=_PIPES)(_IdOfLatestTwin)


def _other_id(id: JsonValue) -> JsonValue:
    return id + 1000 if isinstance(id, int) else f"{id}-other"


class _RejectedById(Fault):
    """A server whose rejections of params have the id of no request."""

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        wrong = "error" in response and _is(inbound, "tools/list") and "id" in response
        return {**response, "id": _other_id(response["id"])} if wrong else response


# Over stdio the suite would wait for the response up to the timeout.
fault("other-id-in-rejections", "jsonrpc.response-ids", revisions=LEGACY, transports=("http",))(_RejectedById)


class _FalsyRejectedWithoutId(Fault):
    """A server whose validation of params loses the ids that are false."""

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        wrong = "error" in response and _is(inbound, "tools/call") and "name" not in inbound.params
        return {**response, "id": response.get("id") or None} if wrong else response


# Over stdio the suite would wait for the responses up to the timeout.
fault("falsy-id-lost-in-rejections", "jsonrpc.id-echo", "jsonrpc.response-ids", revisions=LEGACY, transports=("http",))(
    _FalsyRejectedWithoutId
)


def _identified_errors(
    name: str, change: Callable[[JsonValue], JsonValue], *checks: str, revisions: tuple[str, ...], with_headers: bool
) -> None:
    """Add a server that sends another id in its errors: in all of them, or only for headers that differ."""

    class _OtherId(Fault):
        def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:  # noqa: ARG002
            return response if with_headers else self._changed(response)

        def refusal_body(self, why: str, error: JsonObject) -> JsonObject:
            return self._changed(error) if why == "mismatch" and with_headers else error

        def _changed(self, response: JsonObject) -> JsonObject:
            found = change(response["id"]) if "error" in response and "id" in response else None
            rest = _without("id")(response)
            return {**rest, "id": found} if found is not None else rest if "error" in response else response

    # Over stdio the suite would wait for the response up to the timeout.
    fault(name, *checks, revisions=revisions, transports=("http",))(_OtherId)


class _NoObjectRejectedWithoutId(Fault):
    """A server that does not know the id of a request whose params are no object."""

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        wrong = not isinstance(inbound.request.get("params", {}), dict)
        return {**response, "id": None} if wrong and "error" in response else response


fault("params-as-text-without-id", "jsonrpc.response-ids", transports=("http",))(_NoObjectRejectedWithoutId)


@fault("parse-error-with-id-zero", "jsonrpc.parse-error", "jsonrpc.no-json-bad-utf8", "jsonrpc.no-json-nan",
       "jsonrpc.no-json-two-values", "jsonrpc.no-json-cut", transports=_PIPES)  # fmt: skip
class _ParseErrorWithIdZero(Fault):
    """A server that has zero as the id of a message that it could not read."""

    def __init__(self) -> None:
        self._line = b""

    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        for self._line in pipe:
            yield self._line

    def unreadable(self, answer: JsonValue) -> JsonValue:
        return {**answer, "id": 0} if isinstance(answer, dict) and b"jsonrpc" in self._line else answer


# Over stdio the suite would wait for the responses up to the timeout.
@fault("version-error-without-id", "jsonrpc.id-echo", "jsonrpc.response-ids", revisions=MODERN, transports=("http",))
class _VersionErrorWithoutId(Fault):
    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:  # noqa: ARG002
        error = response.get("error")
        return _without("id")(response) if isinstance(error, dict) and error.get("code") == -32022 else response


def _as_number(id: JsonValue) -> JsonValue:
    return int(id) if isinstance(id, str) and id.isdecimal() else id


for _revisions, _era in ((LEGACY, "legacy"), (MODERN, "modern")):
    _identified_errors(
        f"{_era}-error-id-of-digits", _as_number, "jsonrpc.id-echo", revisions=_revisions, with_headers=False
    )
    _identified_errors(
        f"{_era}-error-id-falsy",
        lambda id: id or None,
        "jsonrpc.id-echo",
        "jsonrpc.response-ids",
        revisions=_revisions,
        with_headers=False,
    )
_identified_errors("header-error-id-of-digits", _as_number, "header.error-id", revisions=MODERN, with_headers=True)
_identified_errors(
    "header-error-id-falsy",
    lambda id: id or None,
    "header.error-id",
    "jsonrpc.response-ids",
    revisions=MODERN,
    with_headers=True,
)


# --- framing, on which every check depends ---------------------------------------------------------------------------


def _answering(
    name: str,
    checks: Checks,
    change: Callable[[JsonObject], JsonObject],
    *methods: str,
    revisions: tuple[str, ...] | None = None,
    transports: tuple[str, ...] = ("stdio", "http"),
) -> None:
    """Add a server that changes the responses of some methods."""

    class _Answers(Fault):
        def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
            return change(response) if _is(inbound, *methods) else response

    fault(name, *ids_of(checks), revisions=revisions, transports=transports)(_Answers)


def _without(name: str) -> Callable[[JsonObject], JsonObject]:
    return lambda response: {key: value for key, value in response.items() if key != name}


for _revisions, _era in ((LEGACY, "legacy"), (MODERN, "modern")):
    _answering(
        f"no-jsonrpc-in-{_era}-calls", "jsonrpc.version-member", _without("jsonrpc"), "tools/call", revisions=_revisions
    )
    _answering(
        f"both-in-{_era}-prompts",
        "jsonrpc.response-shape",
        lambda response: {**response, "result": {}, "error": {"code": 0, "message": ""}},
        "prompts/get",
        revisions=_revisions,
    )
    _answering(
        f"no-id-in-{_era}-errors",
        ("schema.error-id", "jsonrpc.response-ids") if _era == "legacy" else "jsonrpc.response-ids",
        lambda response: _without("id")(response) if "error" in response else response,
        "tools/call",
        "prompts/get",
        "resources/read",
        "completion/complete",
        revisions=_revisions,
        # Over stdio the suite would wait for each response up to the timeout.
        transports=("http",),
    )
    _answering(
        f"text-in-{_era}-errors",
        "jsonrpc.error-shape",
        lambda response: {**response, "error": "no"} if "error" in response else response,
        "tools/call",
        "prompts/get",
        "resources/read",
        "completion/complete",
        revisions=_revisions,
    )


def _without_type(response: JsonObject) -> JsonObject:
    result = response.get("result")
    return {**response, "result": _without("resultType")(result)} if isinstance(result, dict) else response


_answering("no-type-of-calls", "jsonrpc.result-type", _without_type, "tools/call", revisions=MODERN)


# --- invalid requests ------------------------------------------------------------------------------------------------


def _reading(
    name: str,
    *checks: str,
    read: Callable[[JsonObject], JsonObject],
    revisions: tuple[str, ...] = LEGACY,
    transports: tuple[str, ...] = ("stdio", "http"),
    words: tuple[str, ...] = (),
) -> None:
    """Add a server that takes an invalid request for a valid one."""

    class _Reads(Fault):
        def reads(self, message: JsonValue) -> JsonValue:
            return read(message) if isinstance(message, dict) else message

    fault(name, *checks, revisions=revisions, transports=transports, words=words)(_Reads)


_reading(
    "jsonrpc-missing-code",
    "jsonrpc.no-request-without-version",
    read=lambda m: {**m, "jsonrpc": "2.0", "method": "none"} if "method" in m and "jsonrpc" not in m else m,
)
_reading(
    "jsonrpc-of-any-version",
    "jsonrpc.no-request-old-version",
    read=lambda m: {**m, "jsonrpc": "2.0"} if m.get("jsonrpc") == "1.0" else m,
)
_reading(
    "jsonrpc-of-any-modern-version",
    "jsonrpc.other-version",
    read=lambda m: {**m, "jsonrpc": "2.0"} if m.get("jsonrpc") == "1.0" else m,
    revisions=MODERN,
    transports=("http",),
)
_reading(
    "method-as-text",
    "jsonrpc.no-request-method",
    read=lambda m: {**m, "method": str(m["method"])} if "method" in m else m,
)
_reading(
    "id-of-any-type",
    "jsonrpc.no-request-id",
    "jsonrpc.response-ids",
    read=lambda m: {**m, "id": "any"} if isinstance(m.get("id"), dict) else m,
)


_reading(
    "id-empty-as-none",
    "jsonrpc.id-echo",
    read=lambda m: _without("id")(m) if m.get("id") == "" else m,
    # Over stdio the suite would wait for the response up to the timeout.
    transports=("http",),
)
_reading(
    "id-boolean-as-number",
    "jsonrpc.no-request-id-boolean",
    read=lambda m: {**m, "id": 1} if m.get("id") is True else m,
)


class _InvalidIdRepeated(Fault):
    def invalid_id(self, id: JsonValue) -> JsonValue:
        return id


for _revisions, _era, _checks in (
    (LEGACY, "legacy", ("jsonrpc.no-request-id", "jsonrpc.no-request-id-boolean")),
    (MODERN, "modern", ("jsonrpc.invalid-id",)),
):
    fault(f"invalid-id-repeated-in-{_era}-era", *_checks, revisions=_revisions)(_InvalidIdRepeated)


_reading(
    "params-array-ignored",
    "jsonrpc.invalid-params",
    read=lambda m: _without("params")(m) if isinstance(m.get("params"), list) else m,
)
_reading(
    "params-text-ignored",
    "jsonrpc.invalid-params",
    read=lambda m: _without("params")(m) if isinstance(m.get("params"), str) else m,
)
_reading(
    "initialized-with-id",
    "jsonrpc.unknown-method",
    read=lambda m: _without("id")(m) if m.get("method") == "notifications/initialized" else m,
    # Over stdio the suite would wait for the response up to the timeout.
    transports=("http",),
)


for _revisions, _era, _transports in ((LEGACY, "legacy", ("http",)), (MODERN, "modern", _PIPES)):
    # A server that takes a request with an empty method for a response.
    _reading(
        f"empty-method-as-none-in-{_era}-era",
        "jsonrpc.unknown-method",
        read=lambda m: _without("method")(m) if m.get("method") == "" else m,
        revisions=_revisions,
        transports=_transports,
    )

_METHODS: Final = ("ping", "tools/list", "server/discover")

for _revisions, _era, _checks in (
    (LEGACY, "legacy", ("jsonrpc.unknown-method",)),
    (MODERN, "modern", ("jsonrpc.unknown-method", "http.method-not-found")),
):
    _reading(
        f"{_era}-methods-of-any-case",
        *_checks,
        read=lambda m: {**m, "method": str(m["method"]).lower()} if str(m.get("method")).lower() in _METHODS else m,
        revisions=_revisions,
    )
    _reading(
        f"{_era}-requests-as-notifications",
        *_checks,
        read=lambda m: _without("id")(m) if str(m.get("method")).startswith("notifications/") else m,
        revisions=_revisions,
        # Over stdio the suite would wait for the response up to the timeout.
        transports=("http",),
    )
_reading(
    "cancellation-with-id",
    "http.method-not-found",
    read=lambda m: _without("id")(m) if m.get("method") == "notifications/cancelled" else m,
    revisions=MODERN,
    transports=("http",),
)


def _unvalidated(method: str, wrong: Callable[[JsonObject], bool], *checks: str) -> None:
    """Add a server that fails internally at invalid params of a method."""

    class _Fails(Fault):
        def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
            if _is(inbound, method) and wrong(inbound.params) and error.code == -32602:
                raise RpcError(-32603, "internal error")
            raise error

    fault(f"{method}-unvalidated", "jsonrpc.invalid-params", *checks, revisions=LEGACY)(_Fails)


_unvalidated("tools/call", lambda params: "name" not in params)
_unvalidated("prompts/get", lambda params: "name" not in params)
_unvalidated("resources/read", lambda params: "uri" not in params)
_unvalidated("resources/subscribe", lambda params: "uri" not in params)
_unvalidated("completion/complete", lambda params: "ref" not in params, "completion.missing-argument")
_unvalidated("logging/setLevel", lambda params: "level" not in params)


def _serving_instead(
    name: str,
    *checks: str,
    when: Callable[[InboundRequest], bool],
    result: JsonObject,
    revisions: tuple[str, ...],
    transports: tuple[str, ...] = ("stdio", "http"),
) -> None:
    """Add a server that serves a request that it must reject."""

    class _Serves(Fault):
        def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
            if when(inbound):
                return dict(result)
            raise error

    fault(name, *checks, revisions=revisions, transports=transports)(_Serves)


def _has_number_as_cursor(method: str, inbound: InboundRequest) -> bool:
    return _is(inbound, method) and inbound.params.get("cursor") == 5


for _member, _method in (
    ("resources", "resources/list"),
    ("resourceTemplates", "resources/templates/list"),
    ("prompts", "prompts/list"),
):
    _serving_instead(
        f"cursor-number-taken-by-{_method}",
        "jsonrpc.invalid-params",
        when=partial(_has_number_as_cursor, _method),
        result={_member: []},
        revisions=LEGACY,
    )
_serving_instead(
    "cursor-object-taken",
    "jsonrpc.invalid-params",
    when=lambda inbound: _is(inbound, "tools/list") and inbound.params.get("cursor") == {},
    result={"tools": []},
    revisions=LEGACY,
)
for _revisions, _era, _checks in (
    (LEGACY, "legacy", ("jsonrpc.invalid-params",)),
    (MODERN, "modern", ("jsonrpc.invalid-params", "tools.malformed-call")),
):
    _serving_instead(
        f"text-as-arguments-of-{_era}-calls",
        *_checks,
        when=lambda inbound: _is(inbound, "tools/call") and isinstance(inbound.params.get("arguments"), str),
        result={"content": []},
        revisions=_revisions,
    )
_serving_instead(
    "prompts-without-a-name-in-modern-era",
    "jsonrpc.invalid-params",
    when=lambda inbound: _is(inbound, "prompts/get") and "name" not in inbound.params,
    result={"messages": []},
    revisions=MODERN,
    transports=_PIPES,
)
_serving_instead(
    "tasks-listed-before-their-revision",
    "jsonrpc.unknown-method",
    when=lambda inbound: _is(inbound, "tasks/list") and inbound.revision == LEGACY[2],
    result={"tasks": []},
    revisions=LEGACY[:3],
)
_serving_instead(
    "discover-in-sessions",
    "jsonrpc.unknown-method",
    when=lambda inbound: _is(inbound, "server/discover") and not inbound.modern,
    result={"supportedVersions": [*LEGACY], "capabilities": {}},
    revisions=LEGACY,
)
_serving_instead(
    "ping-in-modern-era",
    "jsonrpc.unknown-method",
    when=lambda inbound: _is(inbound, "ping") and inbound.modern,
    result={},
    revisions=MODERN,
    transports=_PIPES,
)
_serving_instead(
    "version-optional-in-initialize",
    "lifecycle.invalid-initialize",
    when=lambda inbound: _is(inbound, "initialize") and "protocolVersion" not in inbound.params,
    result={"protocolVersion": LEGACY[-1], "capabilities": {}, "serverInfo": {"name": "raw", "version": "1.0"}},
    revisions=LEGACY,
)
for _revisions, _era, _checks in (
    (LEGACY, "legacy", ("jsonrpc.unknown-method",)),
    (MODERN, "modern", ("jsonrpc.unknown-method", "http.method-not-found")),
):
    _serving_instead(
        f"inherited-methods-of-{_era}-objects",
        *_checks,
        when=lambda inbound: _is(inbound, "constructor", "toString", "__proto__"),
        result={},
        revisions=_revisions,
    )


@fault("arguments-of-any-type", "jsonrpc.invalid-params", revisions=LEGACY)
class _AnyArguments(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if _is(inbound, "tools/call") and isinstance(inbound.params.get("arguments"), list):
            return {"content": []}
        raise error


@fault("ping-after-initialized-only", "ping.before-initialized", revisions=LEGACY)
class _LatePing(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "ping") and not inbound.session.initialized:
            raise RpcError(-32600, "not initialized")
        return result


@fault("ping-refused-during-client-requests", "ping.during-a-call", revisions=LEGACY)
class _PingRefused(Fault):
    """A server that waits for a response of the client, and for nothing else."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()

    def before(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and message.get("method") == "sampling/createMessage":
            self._waiting.add(str(message["id"]))
        return message

    def reads(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and "method" not in message:
            self._waiting.discard(str(message.get("id")))
        return message

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "ping") and self._waiting:
            raise RpcError(-32600, "a response is expected")
        return result


@fault("task-before-its-revision", "version.respect-negotiated", revisions=LEGACY[:3])
class _EarlyTask(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.params.get("name") != "slow_compute" or "task" not in inbound.params:
            return result
        times: JsonObject = {"createdAt": "2025-06-18T00:00:00Z", "lastUpdatedAt": "2025-06-18T00:00:00Z", "ttl": 60000}
        return {"task": {"taskId": "early", "status": "working", **times}}


@fault("invalid-notifications-answered", "jsonrpc.notification-not-answered", transports=_PIPES)
class _InvalidNotificationsAnswered(Fault):
    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        params = message.get("params")
        request = params.get("requestId") if isinstance(params, dict) else None
        if message["method"] != "notifications/cancelled" or isinstance(request, str | int):
            return answer
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "requestId is missing"}}


@fault("lists-without-id-served", "jsonrpc.notification-not-answered", transports=("http",))
class _ListsWithoutIdServed(Fault):
    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        served = message["method"] == "tools/list"
        return {"jsonrpc": "2.0", "id": None, "result": {"tools": []}} if served else answer

    def error_status(self, code: JsonValue, status: int) -> int:  # noqa: ARG002
        return 200 if status == 202 else status


@fault("batch-without-falsy-ids", "batch.requests", revisions=LEGACY[1:2])
class _BatchWithoutFalsyIds(Fault):
    def elements(self, batch: list[JsonValue]) -> list[JsonValue]:
        return [each for each in batch if not isinstance(each, dict) or each.get("id") != 0]


@fault("batch-ids-as-text", "batch.requests", "jsonrpc.response-ids", revisions=LEGACY[1:2])
class _BatchIdsAsText(Fault):
    def batch(self, batch: list[JsonValue], answer: JsonValue, status: int) -> tuple[JsonValue, int]:  # noqa: ARG002
        answers = answer if isinstance(answer, list) else []
        named = [{**each, "id": str(each.get("id"))} for each in answers if isinstance(each, dict)]
        return (list(named) if answers else answer), status


@fault("arguments-of-another-call", "jsonrpc.concurrent-requests", revisions=MODERN, transports=("http",))
class _ArgumentsOfAnother(Fault):
    """A server that keeps the value of the latest call in one place for all."""

    def __init__(self) -> None:
        self._value: JsonValue = None

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        if isinstance(params, dict) and params.get("name") == "conformance_structured":
            arguments = params.get("arguments")
            self._value = arguments.get("value") if isinstance(arguments, dict) else None
        return message

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.params.get("name") != "conformance_structured":
            return result
        time.sleep(0.05)  # meanwhile others arrive
        return {**result, "structuredContent": {"value": self._value}}


@fault("result-of-the-same-tool", "jsonrpc.concurrent-requests", revisions=LEGACY[3:])
class _ResultOfSameTool(Fault):
    """A server that gives all concurrent calls of a tool the first result, whatever their arguments are."""

    def __init__(self) -> None:
        self._running = 0
        self._first: JsonObject = {}
        self._lock: Final = threading.Lock()

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        if isinstance(params, dict) and params.get("name") == "conformance_structured":
            with self._lock:
                self._running += 1
        return message

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.params.get("name") != "conformance_structured":
            return result
        time.sleep(0.05)  # meanwhile others arrive
        with self._lock:
            self._first = self._first or result
            return dict(self._first)

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        if inbound.params.get("name") == "conformance_structured":
            with self._lock:
                self._running -= 1
                self._first = self._first if self._running else {}
        return response


@fault("batch-refused-for-one-member", "batch.bad-member", revisions=LEGACY[1:2])
class _RefusedForOne(Fault):
    def batch(self, batch: list[JsonValue], answer: JsonValue, status: int) -> tuple[JsonValue, int]:
        if all(isinstance(each, dict) for each in batch):
            return answer, status
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "invalid"}}, 400


@fault("batch-stops-at-error", "batch.bad-member", revisions=LEGACY[1:2])
class _StopsAtError(Fault):
    def batch(self, batch: list[JsonValue], answer: JsonValue, status: int) -> tuple[JsonValue, int]:  # noqa: ARG002
        answers = answer if isinstance(answer, list) else []
        errors = [number for number, each in enumerate(answers) if isinstance(each, dict) and "error" in each]
        return ([*answers[: errors[0] + 1]] if errors else answer), status


@fault("older-versions-refused", "version.alternative", revisions=LEGACY)
class _OlderRefused(Fault):
    """A server that offers another version only in place of a newer one."""

    def agreed(self, requested: str, agreed: str) -> str:
        if requested < LEGACY[0]:
            raise RpcError(-32602, "the version is not supported any more")
        return agreed


def _agreeing(name: str, agrees: Callable[[str], bool]) -> None:
    """Add a server that agrees to a version that it does not support."""

    class _Agrees(Fault):
        def agreed(self, requested: str, agreed: str) -> str:
            return requested if agrees(requested) else agreed

    fault(name, "version.alternative", revisions=LEGACY)(_Agrees)


_agreeing("version-of-any-date", lambda version: "2024-11-05" <= version <= "2025-11-30" and len(version) == 10)
_agreeing("version-by-prefix", lambda version: version[:10] in LEGACY)


@fault("first-version-for-all", "version.echo", revisions=LEGACY[2:3], transports=("http",))
class _FirstVersionForAll(Fault):
    """A server that negotiates the version of its first client with all others."""

    def __init__(self) -> None:
        self._first = ""

    def agreed(self, requested: str, agreed: str) -> str:  # noqa: ARG002
        self._first = self._first or agreed
        return self._first


@fault("last-version-for-all", "batch.requests", revisions=LEGACY[1:2], transports=("http",))
class _LastVersionForAll(Fault):
    """A server that ignores batches of all its clients after one of a revision without batches."""

    def __init__(self) -> None:
        self._last = ""

    def agreed(self, requested: str, agreed: str) -> str:  # noqa: ARG002
        self._last = agreed
        return agreed

    def batch(self, batch: list[JsonValue], answer: JsonValue, status: int) -> tuple[JsonValue, int]:  # noqa: ARG002
        return (answer, status) if self._last == LEGACY[1] else (None, 202)


@fault("alternative-version-lost", "version.alternative", revisions=LEGACY)
class _AlternativeLost(Fault):
    """A server that forgets a session that it opened in another version than the requested one."""

    def __init__(self) -> None:
        self._lost: set[int] = set()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "initialize") and inbound.params["protocolVersion"] not in LEGACY:
            self._lost.add(id(inbound.session))
        elif id(inbound.session) in self._lost:
            raise RpcError(-32600, "initialize first")
        return result


_agreeing("modern-version-negotiated", lambda version: version in MODERN)


@fault("modern-version-without-initialize", "version.alternative", revisions=LEGACY)
class _NoInitialize(Fault):
    """A server of both eras that has no `initialize` for a modern version, as if the request belonged to that era."""

    def agreed(self, requested: str, agreed: str) -> str:
        if requested in MODERN:
            raise RpcError(-32601, "initialize is not a method of this version")
        return agreed


_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})


@fault("members-in-any-case", "jsonrpc.member-names")
class _MembersInAnyCase(Fault):
    def posted_body(self, source: BufferedIOBase, length: int) -> bytes:
        body = source.read(length)
        try:
            return json.dumps(self.reads(json.loads(body))).encode()
        except (ValueError, RecursionError):
            return body

    def reads(self, message: JsonValue) -> JsonValue:
        if not isinstance(message, dict):
            return message
        return {name.lower() if name.lower() in _MEMBERS else name: each for name, each in message.items()}


def _version_of(message: JsonObject) -> str:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return str(meta.get(_VERSION, "none")) if isinstance(meta, dict) else "none"


def _in_its_version(message: JsonObject) -> JsonObject:
    """Return a modern request in the version that the server supports."""
    params = message["params"]
    meta = params["_meta"] if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(meta, dict):
        return message
    return {**message, "params": {**params, "_meta": {**meta, _VERSION: MODERN[0]}}}


def _serving_versions(
    name: str, *checks: str, when: Callable[[str], bool] = lambda _: True, methods: tuple[str, ...] = ()
) -> None:
    """Add a server that serves requests of other versions, of all methods or of some."""

    def read(message: JsonObject) -> JsonObject:
        version = _version_of(message)
        served = when(version) and (not methods or message.get("method") in methods)
        return _in_its_version(message) if served and version not in ("none", *LEGACY, *MODERN) else message

    _reading(name, *checks, read=read, revisions=MODERN)


_serving_versions("modern-versions-by-order", "version.unsupported", when=lambda version: version > MODERN[0])
_serving_versions("modern-version-by-prefix", "version.unsupported", when=lambda version: version[:10] in MODERN)
_serving_versions("modern-version-cut", "version.unsupported", when=MODERN[0].startswith)
_serving_versions("empty-version-served", "version.unsupported", when=lambda version: not version)
_serving_versions("versions-unread-by-listen", "version.unsupported-every-method", methods=("subscriptions/listen",))
for _methods in (("tools/call",), ("resources/read", "prompts/get"), ("completion/complete",), ("skills/list",)):
    _serving_versions(f"versions-unread-by-{_methods[0]}", "version.unsupported-every-method", methods=_methods)


@fault("version-requested-unnamed-but-by-discover", "version.unsupported-every-method", revisions=MODERN)
class _RequestedUnnamed(Fault):
    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        error = response.get("error")
        data = error.get("data") if isinstance(error, dict) else None
        if _is(inbound, "server/discover") or not isinstance(error, dict) or error["code"] != -32022:
            return response
        named = {key: each for key, each in data.items() if key != "requested"} if isinstance(data, dict) else {}
        return {**response, "error": {**error, "data": named}}


_reading(
    "legacy-versions-served-as-modern",
    "version.unsupported-legacy",
    read=lambda m: _in_its_version(m) if _version_of(m) in LEGACY else m,
    revisions=MODERN,
    transports=("http",),
    words=_MODERN_ONLY,
)


@fault(
    "legacy-version-listed",
    "version.unsupported-legacy",
    "discover.consistent",
    revisions=MODERN,
    transports=("http",),
    words=_MODERN_ONLY,
)
class _LegacyListed(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        versions: JsonObject = {"supportedVersions": [*MODERN, LEGACY[-1]]}
        return {**result, **versions} if _is(inbound, "server/discover") else result


@fault("first-version-named", "version.unsupported", revisions=MODERN)
class _FirstVersionNamed(Fault):
    """A server that names the first unsupported version in the errors for all others."""

    def __init__(self) -> None:
        self._first: JsonValue = None

    def error(self, error: JsonObject) -> JsonObject:
        data = error.get("data")
        if error["code"] != -32022 or not isinstance(data, dict):
            return error
        self._first = self._first or data["requested"]
        return {**error, "data": {**data, "requested": self._first}}


@fault("cursor-number-taken", "jsonrpc.invalid-params")
class _CursorTaken(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if inbound.params.get("cursor") == 5:
            return {"tools": []}
        raise error


@fault("result-of-no-kind", "jsonrpc.result-type", "prompts.get", "schema.get-prompt-result", revisions=MODERN)
class _NoKind(Fault):
    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "prompts/get"):
            return {key: each for key, each in result.items() if key != "resultType"}
        return result


@fault("result-of-odd-kind", "jsonrpc.result-type-complete", revisions=MODERN)
class _OddKind(Fault):
    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "resultType": "done"} if _is(inbound, "resources/read") else result


@fault("error-in-pages", "jsonrpc.error-message-concise")
class _LongError(Fault):
    def error(self, error: JsonObject) -> JsonObject:
        return {**error, "message": f"{error['message']}\nTraceback"}


@fault("version-code", "version.unsupported", "version.unsupported-every-method", revisions=MODERN)
class _VersionCode(Fault):
    def error(self, error: JsonObject) -> JsonObject:
        return {**error, "code": -32600} if error["code"] == -32022 else error


@fault("version-unlisted", "discover.supported-versions", "discover.consistent", revisions=MODERN)
class _MissingRow(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "supportedVersions": ["1.0"]} if _is(inbound, "server/discover") else result


@fault("discover-without-scope", "discover.result", "caching.discover", "schema.server-messages", revisions=MODERN)
class _NoScope(Fault):
    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "server/discover"):
            return {key: each for key, each in result.items() if key != "cacheScope"}
        return result


@fault("discover-anonymous", "discover.server-info", "meta.server-info", revisions=MODERN)
class _Anonymous(Fault):
    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "_meta": {}} if _is(inbound, "server/discover") else result


@fault("initialize-without-info", "lifecycle.initialize-result", "schema.server-messages", revisions=LEGACY)
class _WithoutInfo(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        return {key: each for key, each in result.items() if key != "serverInfo"}


@fault("oldest-offered", "version.latest", revisions=LEGACY[:1])
class _OldestOffered(Fault):
    def agreed(self, requested: str, agreed: str) -> str:
        return agreed if requested in LEGACY else LEGACY[0]


@fault("legacy-with-kind", "compat.legacy-results", revisions=MODERN)
class _LegacyKind(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return result if inbound.modern else {**result, "resultType": "complete"}


@fault("legacy-calls-with-kind", "compat.legacy-results", revisions=MODERN)
class _LegacyCallKind(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return result if inbound.modern or not _is(inbound, "tools/call") else {**result, "resultType": "complete"}


@fault("legacy-lists-with-age", "compat.legacy-results", revisions=MODERN)
class _LegacyAge(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        is_cacheable = _is(inbound, "tools/list", "prompts/list", "resources/list", "resources/read")
        return {**result, "ttlMs": 0, "cacheScope": "private"} if is_cacheable and not inbound.modern else result


@fault("legacy-ping-refused", "compat.legacy-session", "compat.modern-beside-legacy", revisions=MODERN)
class _NoPing(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _is(inbound, "ping"):
            raise RpcError(-32601, "unknown method")
        return result


class _EraOfConnection(Fault):
    """A server that serves messages of one era on a connection after a message of the era."""

    def __init__(self, era: str) -> None:
        self._era = era

    def serves_era(self, kept: JsonObject, *, modern: bool) -> bool:
        era = "modern" if modern else "legacy"
        if era == self._era:
            kept["era"] = era
        return kept.get("era", era) == era


fault("legacy-connections", "compat.modern-beside-legacy", revisions=MODERN, transports=("http",))(
    partial(_EraOfConnection, "legacy")
)
fault("modern-connections", "compat.modern-beside-legacy", revisions=MODERN, transports=("http",))(
    partial(_EraOfConnection, "modern")
)


@fault("capability-list", "capability.missing-required", revisions=MODERN)
class _CapabilityList(Fault):
    def error(self, error: JsonObject) -> JsonObject:
        data = error.get("data")
        required = data.get("requiredCapabilities") if isinstance(data, dict) else None
        if isinstance(required, dict) and "sampling" in required:
            return {**error, "data": {"requiredCapabilities": {"names": {}}}}
        return error


@fault("code-of-old", "error.legacy-range", "resources.not-found-code", "skills.file-unknown", revisions=MODERN)
class _OldCode(Fault):
    def error(self, error: JsonObject) -> JsonObject:
        return {**error, "code": -32002} if "uri" in str(error.get("data")) else error


# --- stdio -----------------------------------------------------------------------------------------------------------


@fault("banner-on-stdout", "stdio.stdout-only-messages", transports=_PIPES)
class _Banner(Fault):
    def line(self, line: bytes) -> bytes:
        return b"serving\n" + line


@fault("log-of-calls-on-stdout", "stdio.stdout-only-messages", transports=_PIPES)
class _LogOfCalls(Fault):
    """A server that logs to standard output, but only calls."""

    def line(self, line: bytes) -> bytes:
        return b"called\n" + line if b'"content":' in line else line


@fault("byte-order-mark", "stdio.stdout-only-messages", transports=_PIPES)
class _ByteOrderMark(Fault):
    """A server whose output has the encoding that begins with a byte order mark."""

    def __init__(self) -> None:
        self._began = False

    def line(self, line: bytes) -> bytes:
        began, self._began = self._began, True
        return line if began else codecs.BOM_UTF8 + line


@fault("carriage-returns", "stdio.line-feed", transports=_PIPES)
class _CarriageReturns(Fault):
    def line(self, line: bytes) -> bytes:
        return line[:-1] + b"\r\n"


@fault("arrays-on-stdout", "stdio.no-batch", "jsonrpc.version-member", transports=_PIPES)
class _Arrays(Fault):
    def line(self, line: bytes) -> bytes:
        return b"[" + line[:-1] + b"]\n"


@fault("latin-1", "stdio.unicode", "stdio.stdout-only-messages", "jsonrpc.utf8", transports=_PIPES)
class _Latin(Fault):
    def line(self, line: bytes) -> bytes:
        return line.replace(b"\\u00fc", b"\xfc")


@fault("latin-1-where-it-fits", "jsonrpc.id-echo", "jsonrpc.utf8")
class _LatinWhereItFits(Fault):
    def body(self, body: bytes) -> bytes:
        try:
            return json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":")).encode("latin-1")
        except UnicodeEncodeError:
            return body

    def line(self, line: bytes) -> bytes:
        return self.body(line[:-1]) + b"\n"


def _reading_text(name: str, read: Callable[[bytes], bytes]) -> None:
    """Add a server that changes the text of a message before it parses it."""

    class _ReadsText(Fault):
        def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
            for line in pipe:
                yield read(line)

        def posted_body(self, source: BufferedIOBase, length: int) -> bytes:
            return read(source.read(length))

    fault(name, "jsonrpc.json-forms")(_ReadsText)


# A server that takes what begins with a space for no message.
_reading_text("messages-begin-with-brace", lambda text: b"null\n" if text[:1] in (b" ", b"\t") else text)
# A server whose parser knows no escapes of letters.
_reading_text("escapes-kept", lambda text: re.sub(rb"\\u(00[4-7].)", rb"\\\\u\1", text))


@fault("content-by-first-member", "jsonrpc.json-forms", revisions=LEGACY)
class _ContentByFirstMember(Fault):
    """A server that finds out what a content is by its first member."""

    def reads(self, message: JsonValue) -> JsonValue:
        result = message.get("result") if isinstance(message, dict) else None
        content = result.get("content") if isinstance(result, dict) and "role" in result else None
        if isinstance(message, dict) and isinstance(content, dict) and next(iter(content), "type") != "type":
            return {
                **{name: each for name, each in message.items() if name != "result"},
                "error": {"code": -32603, "message": "?"},
            }
        return message


@fault("params-after-method", "jsonrpc.json-forms", revisions=MODERN)
class _ParamsAfterMethod(Fault):
    """A server that decides how to read the params by a method that it must know before."""

    def reads(self, message: JsonValue) -> JsonValue:
        names = list(message) if isinstance(message, dict) else []
        return {} if "params" in names and names.index("params") < names.index("method") else message


@fault("no-json-ignored", "jsonrpc.parse-error", "jsonrpc.no-json-bad-utf8", "jsonrpc.no-json-nan",
       "jsonrpc.no-json-two-values", "jsonrpc.no-json-deep", "jsonrpc.no-json-cut")  # fmt: skip
class _NoJsonCode(Fault):
    def unreadable(self, answer: JsonValue) -> JsonValue:
        return {**answer, "error": {"code": -32600, "message": "no"}} if isinstance(answer, dict) else answer


@fault("no-request-code", "jsonrpc.no-request-string", "jsonrpc.no-request-number", "jsonrpc.no-request-object",
       "batch.refused", transports=_PIPES)  # fmt: skip
class _NoRequestCode(Fault):
    def error(self, error: JsonObject) -> JsonObject:
        return (
            {**error, "code": -32603}
            if "JSON-RPC" in str(error["message"]) or "batch" in str(error["message"])
            else error
        )


@fault("batch-answered-once", "batch.requests", "jsonrpc.response-ids", revisions=LEGACY[1:2])
class _BatchOnce(Fault):
    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:  # noqa: ARG002
        return {**response, "id": "first"} if response.get("id") == "second" else response
