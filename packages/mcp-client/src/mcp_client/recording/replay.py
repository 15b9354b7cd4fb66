"""The replay of a recording: a server that sends the recorded messages.

*How a recording becomes a server.* Each message of the client has a script: the messages of the server that follow from it,
in their recorded order. A response belongs to its request, a progress notification to the request with its token, and
any other message of the server to the last message of the client before it. Where the client responded to a request
of the server, the script of that request waits.

A request of the client selects the first unused script with the same method and parameters, so requests may arrive in
another order than recorded. Ids and progress tokens are those of the actual request. The parameters are compared without
`_meta`, except for the revision; those of `initialize` have only the revision. Secrets are compared as recorded: not at all.

One task reads, runs scripts until they wait, and writes. A script waits for a response of the client, or for the other
requests of a batch.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_client.recording.format import MESSAGE_BYTES, dump, redact
from mcp_core.errors import ErrorCode, LimitExceeded
from mcp_core.field_methods import FieldRepr, FieldValue
from mcp_core.framing.lines import LineFramer
from mcp_core.limits import Limits
from mcp_core.methods import INITIALIZE, NOTIFICATIONS_CANCELLED, NOTIFICATIONS_PROGRESS, SUBSCRIPTIONS_LISTEN
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.types.meta import PROTOCOL_VERSION, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_client.recording.format import RecordedMessage, Recording
    from mcp_client.recording.stream import ServedStream
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Replay"]

_EXCERPT: Final = 200
"""Characters of parameters that a message about an unrecorded request shows."""


@attrs.frozen(eq=False, repr=False)
class _Send(FieldValue):
    """A step that sends a message, or a batch."""

    message: RecordedMessage


@attrs.frozen(eq=False, repr=False)
class _Await(FieldValue):
    """A step that waits for the response of the client to a request of the server."""

    key: str
    method: str
    response: JsonValue


@attrs.define(eq=False, repr=False)
class _Script(FieldRepr):
    """The messages of the server that follow from one message of the client."""

    line: int
    method: str
    is_request: bool
    steps: deque[_Send | _Await] = attrs.field(factory=deque)
    is_answered: bool = False
    is_cancelled: bool = False
    recorded_id: str = ""
    """The recorded id of the request, as a key."""
    recorded_token: str | None = None
    """The recorded progress token of the request, as a key."""
    id: JsonValue = None
    """The id of the actual request."""


def _key(value: JsonValue) -> str:
    return json.dumps(value, sort_keys=True)


def _member(value: JsonValue, *names: str) -> JsonValue:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _request_key(message: JsonObject) -> str:
    """Return the part of a request that selects its script."""
    method, params = message["method"], message.get("params")
    version = _member(params, "_meta", PROTOCOL_VERSION)
    if method == INITIALIZE.name:
        return _key([method, _member(params, "protocolVersion")])
    compared = {name: value for name, value in params.items() if name != "_meta"} if isinstance(params, dict) else {}
    return _key([method, version, redact(compared)])


class _Scripts:
    """The scripts of a recording."""

    def __init__(self, recording: Recording) -> None:
        self.initial: Final = _Script(1, "", is_request=False)
        """The messages that the server sent before the first message of the client."""
        self.requests: Final[dict[str, deque[_Script]]] = defaultdict(deque)
        """The unused scripts of requests, by `_request_key`."""
        self.notifications: Final[dict[str, deque[_Script]]] = defaultdict(deque)
        """The unused scripts of notifications, by method."""
        self._last = self.initial
        self._ids: Final[dict[str, _Script]] = {}
        self._tokens: Final[dict[str, _Script]] = {}
        self._awaited: Final[dict[str, tuple[_Script, str]]] = {}
        for entry in recording.messages:
            if entry.sender == "server":
                self._add_to_owner(entry)
            else:
                for message in entry.messages:
                    self._add_script(entry.line, message)

    def _add_to_owner(self, entry: RecordedMessage) -> None:
        """Add a message of the server to the script that it belongs to."""
        first = entry.messages[0]
        owner: _Script | None = self._last
        if "method" not in first:
            owner = self._ids.get(_key(first.get("id")))
        elif first["method"] == NOTIFICATIONS_PROGRESS.name:
            owner = self._tokens.get(_key(_member(first, "params", "progressToken")))
        owner = owner or self._last
        owner.steps.append(_Send(entry))
        for message in entry.messages:
            if "method" not in message and (answered := self._ids.get(_key(message.get("id")))) is not None:
                answered.is_answered = True
            elif "method" in message and "id" in message:
                self._awaited[_key(message["id"])] = owner, str(message["method"])

    def _add_script(self, line: int, message: JsonObject) -> None:
        """Begin a script with a message of the client; or add its response to the script that waits for it."""
        method = str(message.get("method", ""))
        if "method" not in message:
            key = _key(message.get("id"))
            if key in self._awaited:
                self._last, awaited = self._awaited.pop(key)
                self._last.steps.append(_Await(key, awaited, _response(message)))
            return
        self._last = script = _Script(line, method, is_request="id" in message)
        if not script.is_request:
            self.notifications[method].append(script)
            cancelled = self._ids.get(_key(_member(message, "params", "requestId")))
            if method == NOTIFICATIONS_CANCELLED.name and cancelled is not None:
                cancelled.is_cancelled = True
            return
        self.requests[_request_key(message)].append(script)
        script.recorded_id = _key(message["id"])
        self._ids[script.recorded_id] = script
        token = _member(message, "params", "_meta", "progressToken")
        if token is not None:
            script.recorded_token = _key(token)
            self._tokens[script.recorded_token] = script


def _response(message: JsonObject) -> JsonValue:
    """Return the content of a response that is compared."""
    return redact({name: message[name] for name in ("result", "error") if name in message})


class Replay:
    """A server that replays a recording to one client.

        async with open_in_memory(Replay(read_recording("session.jsonl"), print).serve) as client: ...

    Args:
        recording: The recording.
        warn: Called with a sentence about each request that is not recorded. The client receives it as an error, too.
    """

    def __init__(self, recording: Recording, warn: Callable[[str], None]) -> None:
        self._recording: Final = recording
        self._warn: Final = warn
        self._scripts: Final = _Scripts(recording)
        self._waiting: Final[list[_Script]] = []
        self._ids: Final[dict[str, JsonValue]] = {}
        self._tokens: Final[dict[str, JsonValue]] = {}
        self._responses: Final[dict[str, JsonValue]] = {}

    @allow_asyncio
    async def serve(self, stream: ServedStream) -> None:
        """Serve one client, until it closes its output. The scripts of a recording can be used once."""
        framer = LineFramer(Limits(message_bytes=MESSAGE_BYTES))
        try:
            await self._send(stream, self._advance(self._scripts.initial))
            while data := bytes(await stream.receive_some()):
                for line in framer.receive_data(data):
                    await self._send(stream, self._receive(line))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # The client has closed both directions.
            return

    async def _send(self, stream: ServedStream, messages: Iterator[JsonValue]) -> None:
        data = b"".join(dump(message) + b"\n" for message in messages)
        if data:
            await stream.send_all(data)

    def _receive(self, line: bytes | LimitExceeded) -> Iterator[JsonValue]:
        """Yield the messages to send after a line of the client."""
        try:
            received: JsonValue = None if isinstance(line, LimitExceeded) else json.loads(line)
        except (ValueError, RecursionError):
            received = None
        for message in received if isinstance(received, list) else [received]:
            if not isinstance(message, dict):
                yield self._error(None, ErrorCode.PARSE_ERROR, "not a JSON-RPC message")
            elif "method" not in message:
                self._responses[_key(message.get("id"))] = _response(message)
            elif "id" in message:
                yield from self._request(message)
            else:
                yield from self._notification(message)
        for script in list(self._waiting):
            self._waiting.remove(script)
            yield from self._advance(script)

    def _request(self, message: JsonObject) -> Iterator[JsonValue]:
        found = self._scripts.requests.get(_request_key(message))
        if not found:
            params = message.get("params")
            shown = (
                {name: value for name, value in params.items() if name != "_meta"} if isinstance(params, dict) else {}
            )
            why = "is not recorded" if found is None else "is not recorded as often"
            text = f"{message['method']} {why} with {_key(redact(shown))[:_EXCERPT]}"
            yield self._error(message["id"], ErrorCode.INTERNAL_ERROR, text)
            return
        script = found.popleft()
        script.id = message["id"]
        self._ids[script.recorded_id] = message["id"]
        token = _member(message, "params", "_meta", "progressToken")
        if token is not None and script.recorded_token is not None:
            self._tokens[script.recorded_token] = token
        # A request of the same batch may complete the script of an earlier one.
        self._waiting.append(script)

    def _notification(self, message: JsonObject) -> Iterator[JsonValue]:
        if message["method"] == NOTIFICATIONS_CANCELLED.name:
            cancelled = _member(message, "params", "requestId")
            self._waiting[:] = [each for each in self._waiting if not each.is_request or each.id != cancelled]
        found = self._scripts.notifications.get(str(message["method"]))
        if found:
            yield from self._advance(found.popleft())

    def _advance(self, script: _Script) -> Iterator[JsonValue]:
        """Yield the messages of a script, until it waits."""
        while script.steps:
            step = script.steps[0]
            if isinstance(step, _Await):
                if step.key not in self._responses:
                    self._waiting.append(script)
                    return
                script.steps.popleft()
                if self._responses.pop(step.key) != step.response:
                    text = f"the response of the client to {step.method} differs from the recorded one"
                    script.steps.clear()
                    yield self._error(script.id, ErrorCode.INTERNAL_ERROR, text)
                    return
                continue
            parts = step.message.messages
            if any("method" not in part and _key(part.get("id")) not in self._ids for part in parts):
                self._waiting.append(script)
                return
            script.steps.popleft()
            mapped = [part for part in map(self._mapped, parts) if part is not None]
            if mapped:
                yield list(mapped) if step.message.is_batch else mapped[0]
        unanswered = script.is_request and not script.is_answered and not script.is_cancelled
        if unanswered and script.method != SUBSCRIPTIONS_LISTEN.name:
            text = f"the recording ended before the response to {script.method}"
            yield self._error(script.id, ErrorCode.INTERNAL_ERROR, text, line=script.line)

    def _mapped(self, message: JsonObject) -> JsonObject | None:
        """Return a message with the actual ids and tokens; `None` if the client has no use for it."""
        if "method" not in message:
            return {**message, "id": self._ids[_key(message.get("id"))]}
        params = message.get("params")
        if not isinstance(params, dict):
            return message
        if message["method"] == NOTIFICATIONS_PROGRESS.name:
            token = self._tokens.get(_key(params.get("progressToken")))
            return None if token is None else {**message, "params": {**params, "progressToken": token}}
        subscription = _member(params, "_meta", SUBSCRIPTION_ID)
        if subscription is not None:
            actual = self._ids.get(_key(subscription))
            meta = params["_meta"]
            if actual is None or not isinstance(meta, dict):
                return None
            return {**message, "params": {**params, "_meta": {**meta, SUBSCRIPTION_ID: actual}}}
        return message

    def _error(self, id: JsonValue, code: int, text: str, line: int | None = None) -> JsonObject:
        place = self._recording.name if line is None else f"{self._recording.name}, line {line}"
        message = f"replay of {place}: {text}"
        self._warn(message)
        return {"jsonrpc": "2.0", "id": id, "error": {"code": int(code), "message": message}}
