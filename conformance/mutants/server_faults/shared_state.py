"""Faults of servers in which one request reaches another: by what it leaves behind, or while it is in progress."""

from __future__ import annotations

import json
import re
import threading
import time
from typing import TYPE_CHECKING, Final

from mutants.server.client_requests import InputRequired
from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, META, MODERN, RpcError

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__: list[str] = []

_PIPES: Final = ("stdio",)
_HTTP: Final = ("http",)
_CAPABILITIES: Final = f"{META}clientCapabilities"
_EMBEDDED: Final = "test://template/1/data"
_AGAIN: Final = "the form is sent again"
_STEP: Final = 0.005
_ESCAPED: Final = re.compile(rb"\\u00([89a-f][0-9a-f])")


def _params(message: JsonValue) -> JsonObject:
    params = message.get("params") if isinstance(message, dict) else None
    return params if isinstance(params, dict) else {}


def _meta(message: JsonValue) -> JsonObject:
    meta = _params(message).get("_meta")
    return meta if isinstance(meta, dict) else {}


def _is_request(message: JsonValue) -> bool:
    return isinstance(message, dict) and "method" in message and "id" in message


# --- what a request leaves behind ------------------------------------------------------------------------------------


@fault("batch-ids-of-all-sessions", "batch.requests", revisions=LEGACY[1:2], transports=_HTTP)
class _BatchIdsOfAllSessions(Fault):
    """A server that answers each id once in batches, whichever session the batch belongs to."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def elements(self, batch: list[JsonValue]) -> list[JsonValue]:
        new = [each for each in batch if not _is_request(each) or self._key(each) not in self._known]
        self._known |= {self._key(each) for each in batch if _is_request(each)}
        return new

    @staticmethod
    def _key(message: JsonValue) -> str:
        return json.dumps(message["id"]) if isinstance(message, dict) else ""


@fault(
    "completions-kept-whole",
    "completion.at-most-100",
    revisions=LEGACY[1:],
    transports=_HTTP,
)
class _CompletionsKeptWhole(Fault):
    """A server that keeps all completions, and sends no more than 100 to the first session only."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        completion = result.get("completion")
        if not isinstance(completion, dict) or completion.get("hasMore") is not True:
            return result
        key = json.dumps([inbound.params["ref"], inbound.params["argument"]], sort_keys=True)
        session = str(getattr(inbound.session, "id", ""))
        if self._first.setdefault(key, session) == session:
            return result
        return {"completion": {"values": [f"word{number:03}" for number in range(150)], "hasMore": False}}


@fault("embedded-resource-listed", "resources.same-everywhere", revisions=MODERN, transports=_PIPES)
class _EmbeddedListed(Fault):
    """A server that lists a resource after a prompt has embedded one."""

    def __init__(self) -> None:
        self._has_embedded = False

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        listed = result.get("resources")
        method = inbound.request["method"]
        if method == "prompts/get":
            self._has_embedded = self._has_embedded or "'type': 'resource'" in str(result)
        last = method == "resources/list" and "nextCursor" not in result
        if last and isinstance(listed, list) and self._has_embedded:
            return {**result, "resources": [*listed, {"uri": _EMBEDDED, "name": "embedded"}]}
        return result


@fault("metadata-of-failed-request", "meta.missing", revisions=MODERN, transports=_PIPES)
class _MetadataOfFailed(Fault):
    """A server that takes the metadata of a request that failed for one that has none."""

    def __init__(self) -> None:
        self._left: JsonObject | None = None

    def reads(self, message: JsonValue) -> JsonValue:
        bare = isinstance(message, dict) and isinstance(message.get("params", {}), dict) and not _meta(message)
        if not isinstance(message, dict) or not bare or not _is_request(message) or self._left is None:
            return message
        return {**message, "params": {**_params(message), "_meta": self._left}}

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        error = response.get("error")
        if not isinstance(error, dict):
            self._left = None
        elif error["code"] == -32602 and inbound.meta:
            self._left = inbound.meta
        return response


class _SentAgain(Fault):
    """A server that sends a form again, if its content is invalid."""

    def __init__(self) -> None:
        self._forms: dict[str, JsonObject] = {}
        self._again: set[str] = set()

    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:
        if method == "elicitation/create":
            self._forms[str(inbound.params.get("name"))] = params
        return params

    def reads(self, message: JsonValue) -> JsonValue:
        params = _params(message)
        if not isinstance(message, dict) or params.get("requestState") != _AGAIN:
            return message
        self._again.add(str(message["id"]))
        return {**message, "params": {key: each for key, each in params.items() if key != "requestState"}}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        given = inbound.params.get("inputResponses")
        answers = [each for each in given.values() if isinstance(each, dict)] if isinstance(given, dict) else []
        form = self._forms.get(str(inbound.params.get("name")))
        if isinstance(given, dict) and form is not None and result.get("isError") is True:
            if any(each.get("action") == "accept" for each in answers):
                raise InputRequired({key: {"method": "elicitation/create", "params": form} for key in given}, _AGAIN)
        elif str(inbound.request["id"]) in self._again:
            return self.ended(answers, result)
        return result

    def ended(self, answers: list[JsonObject], result: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return the result after the responses to a form that was sent again."""
        return result


fault("form-sent-again", revisions=MODERN)(_SentAgain)


@fault("form-sent-again-to-be-filled-in", "elicitation.validates", revisions=MODERN)
class _ToBeFilledIn(_SentAgain):
    """A server that expects content for a form that it has sent again, whatever the user did."""

    def ended(self, answers: list[JsonObject], result: JsonObject) -> JsonObject:
        if any(each.get("action") != "accept" for each in answers):
            raise RpcError(-32603, "KeyError: content")
        return result


@fault("filter-of-malformed-request", "subscription.acknowledged-filter", revisions=MODERN, transports=_HTTP)
class _FilterOfMalformed(Fault):
    """A server that collects the members of a filter in one place, in which they stay if it rejects another member."""

    def __init__(self) -> None:
        self._left: JsonObject = {}

    def reads(self, message: JsonValue) -> JsonValue:
        wanted = _params(message).get("notifications")
        if not isinstance(message, dict) or not isinstance(wanted, dict):
            return message
        if isinstance(wanted.get("resourceSubscriptions", []), list):
            return message
        self._left = {name: value for name, value in wanted.items() if value is True}
        return {**message, "params": {**_params(message), "notifications": None}}

    def acknowledged(self, wanted: JsonObject, granted: JsonObject) -> JsonObject:  # noqa: ARG002
        left, self._left = self._left, {}
        return {**left, **granted}


@fault("latin-1-at-second-time", "jsonrpc.utf8", "stdio.unicode", revisions=LEGACY[2:3], transports=_HTTP)
class _LatinAtSecondTime(Fault):
    """A server that keeps the responses to calls and prompts, in Latin-1."""

    def __init__(self) -> None:
        self._kept: set[str] = set()
        self._current = threading.local()

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        key = json.dumps({**inbound.params, "_meta": {}}, sort_keys=True)
        kept = inbound.request["method"] in ("tools/call", "prompts/get") and "\\u" in key
        self._current.is_kept = kept and key in self._kept
        if kept:
            self._kept.add(key)
        return response

    def body(self, body: bytes) -> bytes:
        if not getattr(self._current, "is_kept", False):
            return body
        return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), body)


@fault(
    *("sampled-array-at-second-time", "schema.sampling-content", "schema.server-messages"),
    revisions=LEGACY[:1],
    transports=("http-sse",),
)
class _SampledArray(Fault):
    """A server whose sampling requests have arrays of content, after the first one in a session."""

    def __init__(self) -> None:
        self._sessions: set[str] = set()

    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:
        messages = params.get("messages")
        if method != "sampling/createMessage" or not isinstance(messages, list):
            return params
        session = str(getattr(inbound.session, "id", ""))
        if session not in self._sessions:
            self._sessions.add(session)
            return params
        rows = [each for each in messages if isinstance(each, dict)]
        return {**params, "messages": [{**each, "content": [each["content"]]} for each in rows]}


# --- what a request does while it is in progress ---------------------------------------------------------------------


class _InProgress(Fault):
    """A server that knows the calls in progress."""

    def __init__(self) -> None:
        self.calls: dict[int, JsonObject] = {}

    def counts(self, message: JsonObject) -> bool:
        """Return whether a call is one of them."""
        return message["method"] == "tools/call"

    def reads(self, message: JsonValue) -> JsonValue:
        if not isinstance(message, dict):
            return message
        if message.get("method") == "notifications/cancelled":
            # A cancelled call has no response.
            ended = _params(message).get("requestId")
            self.calls = {key: each for key, each in self.calls.items() if each["id"] != ended}
        elif _is_request(message) and self.counts(message):
            self.calls[id(message)] = message
        return message

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        self.calls.pop(id(inbound.request), None)
        return response


@fault("logger-lost-beside-others", "logging.shape", "schema.log-message", revisions=MODERN, transports=_HTTP)
class _LoggerLost(_InProgress):
    """A server with one place for the name of the logger, which the calls that log share."""

    def counts(self, message: JsonObject) -> bool:
        return super().counts(message) and "logging" in str(_params(message).get("name"))

    def before(self, message: JsonValue) -> JsonValue:
        # The other calls begin meanwhile.
        time.sleep(_STEP)
        lost = isinstance(message, dict) and message.get("method") == "notifications/message" and len(self.calls) > 1
        return (
            {**message, "params": {**_params(message), "logger": None}}
            if lost and isinstance(message, dict)
            else message
        )


@fault("error-id-of-call-in-progress", "jsonrpc.id-echo", revisions=LEGACY, transports=_PIPES)
class _IdOfCallInProgress(_InProgress):
    """A server whose errors have the id of the latest call in progress."""

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        super().response(inbound, response)
        calls = list(self.calls.values())
        wrong = "error" in response and inbound.request["method"] != "tools/call" and calls
        return {**response, "id": calls[-1]["id"]} if wrong else response


@fault("capabilities-of-call-in-progress", "meta.missing-capabilities", revisions=MODERN, transports=_PIPES)
class _CapabilitiesOfCall(_InProgress):
    """A server that takes the capabilities of a call in progress for a request that has none."""

    def reads(self, message: JsonValue) -> JsonValue:
        known = [_meta(each) for each in self.calls.values() if _CAPABILITIES in _meta(each)]
        if isinstance(message, dict) and _is_request(message) and _meta(message) and known:
            meta: JsonObject = {_CAPABILITIES: known[-1][_CAPABILITIES], **_meta(message)}
            message = {**message, "params": {**_params(message), "_meta": meta}}
        return super().reads(message)


@fault("required-without-data-beside-task", "tasks.required", revisions=MODERN, transports=_HTTP)
class _WithoutDataBesideTask(Fault):
    """A server that does not name the extension in an error, while a task is in progress."""

    def __init__(self) -> None:
        self._status: dict[JsonValue, JsonValue] = {}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        if "taskId" in result:
            self._status[result["taskId"]] = result["status"]
        return result

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if error.code == -32021 and inbound.params.get("name") == "failing_job" and "working" in self._status.values():
            raise RpcError(error.code, str(error), None, error.status)
        raise error


@fault("arguments-unvalidated-beside-others", "tools.validates", revisions=MODERN, transports=_PIPES)
class _UnvalidatedBesideOthers(_InProgress):
    """A server whose validator serves one call at a time, and which does without it while it is in use."""

    def validates(self, count: JsonValue, *, good: bool) -> bool:  # noqa: ARG002
        return good or len(self.calls) > 1


@fault("name-undecoded-beside-call", "header.name-base64", revisions=MODERN, transports=_HTTP)
class _NameUndecodedBesideCall(_InProgress):
    """A server that compares the names of requests as they are written, while a call is in progress."""

    def read(self, name: str, value: str) -> str:
        return f"{value} " if name == "Mcp-Name" and value.startswith("=?base64?") and self.calls else value


@fault("task-cancel-beside-another", "tasks.cancel-ended", revisions=MODERN)
class _CancelBesideAnother(Fault):
    """A server that looks for the task of a cancellation among those in progress, if there are any."""

    def __init__(self) -> None:
        self._status: dict[JsonValue, JsonValue] = {}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        id = inbound.params.get("taskId")
        if "taskId" in result:
            self._status[result["taskId"]] = result["status"]
        elif inbound.request["method"] == "tasks/cancel":
            if self._status.get(id) == "completed" and "working" in self._status.values():
                raise RpcError(-32602, "the task is not in progress")
            self._status[id] = "cancelled"
        return result
