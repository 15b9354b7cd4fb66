"""Rules of the specification for the messages on a stdio connection, to test the state machines of the engines.

The rules are written from the text of the specification and read the wire. They do not use the tables of `mcp_core`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, TypeAlias

import attrs
import jsonschema_rs

from checks.official_schemas import folder, load
from mcp_core.jsonrpc.messages import JsonObject, JsonValue

SideName: TypeAlias = Literal["client", "server"]
Key: TypeAlias = tuple[str, JsonValue]

MODERN: Final = "2026-07-28"
_META: Final = "io.modelcontextprotocol/"
_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_SERVER_CAPABILITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "tools/list": ("tools",),
    "tools/call": ("tools",),
    "resources/list": ("resources",),
    "resources/templates/list": ("resources",),
    "resources/read": ("resources",),
    "resources/subscribe": ("resources", "subscribe"),
    "resources/unsubscribe": ("resources", "subscribe"),
    "prompts/list": ("prompts",),
    "prompts/get": ("prompts",),
    "completion/complete": ("completions",),
    "skills/list": ("extensions", "io.modelcontextprotocol/skills"),
    "skills/get": ("extensions", "io.modelcontextprotocol/skills"),
    "resources/directory/read": ("extensions", "io.modelcontextprotocol/skills", "directoryRead"),
    "logging/setLevel": ("logging",),
    "notifications/message": ("logging",),
    "notifications/tools/list_changed": ("tools", "listChanged"),
    "notifications/prompts/list_changed": ("prompts", "listChanged"),
    "notifications/resources/list_changed": ("resources", "listChanged"),
    "notifications/resources/updated": ("resources", "subscribe"),
}
_CLIENT_CAPABILITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "roots/list": ("roots",),
    "sampling/createMessage": ("sampling",),
    "elicitation/create": ("elicitation",),
    "notifications/roots/list_changed": ("roots", "listChanged"),
    "notifications/elicitation/complete": ("elicitation", "url"),
}
_TASK_CAPABILITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "tasks/get": ("tasks",),
    "tasks/result": ("tasks",),
    "tasks/list": ("tasks", "list"),
    "tasks/cancel": ("tasks", "cancel"),
}
_EXTENSION: Final = ("extensions", "io.modelcontextprotocol/tasks")
_EXTENSION_METHODS: Final = ("tasks/", "skills/", "resources/directory/")
"""Beginnings of the methods that the official schema does not define."""
_FILTER: Final[Mapping[str, str]] = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions",
    "notifications/tasks": "taskIds",
}
_CLIENT_ONLY: Final = frozenset({"notifications/initialized", "notifications/roots/list_changed"})
_MRTR_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})


@cache
def _definitions(revision: str) -> Mapping[str, JsonObject]:
    return load(revision) if folder() is not None else {}


@cache
def _definition_names(revision: str) -> Mapping[str, str]:
    """Return the name of the definition of each method."""
    found: dict[str, str] = {}
    for name, definition in _definitions(revision).items():
        properties = definition.get("properties")
        method = properties.get("method") if isinstance(properties, dict) else None
        if isinstance(method, dict) and isinstance(const := method.get("const"), str) and name != "ClientNotification":
            found[const] = name
    return found


@cache
def _validator(revision: str, definition: str) -> jsonschema_rs.Validator:
    definitions = dict(_definitions(revision))
    where = "$defs" if revision >= "2025-11-25" else "definitions"
    return jsonschema_rs.validator_for({where: definitions, "$ref": f"#/{where}/{definition}"})


def assert_valid(revision: str, definition: str, value: JsonValue) -> None:
    """Check a value with the official schema of the revision, if the official schemas are installed."""
    if definition in _definitions(revision):
        errors = [str(error) for error in _validator(revision, definition).iter_errors(value)]
        assert not errors, (definition, value, errors[:2])


def has(capabilities: JsonValue, path: tuple[str, ...]) -> bool:
    """Return whether a capability is declared."""
    value = capabilities
    for name in path:
        if name == "form" and isinstance(value, dict) and "url" not in value and "form" not in value:
            return True
        if not isinstance(value, dict) or value.get(name) in (None, False):
            return False
        value = value[name]
    return True


def obj(value: JsonValue) -> JsonObject:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def items(value: JsonValue) -> list[JsonValue]:
    """Return the value if it is an array, else an empty list."""
    return value if isinstance(value, list) else []


def key(value: JsonValue) -> Key:
    """Return a key that distinguishes ids or tokens by type and value."""
    return type(value).__name__, value


@attrs.define(eq=False)
class PendingRequest:
    """A request on the wire without a response."""

    message: JsonObject
    method: str
    revision: str
    token: Key | None
    progress: float | None = None
    cancel_received: bool = False
    """Whether the receiver of the request has received the cancellation."""
    granted: JsonObject | None = None
    """The acknowledged filter of a subscription."""


@attrs.define(eq=False)
class Oracle:
    """A checker of each message that is sent. It also records received cancellations."""

    open: dict[SideName, dict[Key, PendingRequest]] = attrs.field(factory=lambda: {"client": {}, "server": {}})
    """Pending requests by their sender."""
    withdrawn: dict[SideName, dict[Key, PendingRequest]] = attrs.field(factory=lambda: {"client": {}, "server": {}})
    """Requests that their sender has cancelled; a response may still be in transit."""
    answered: dict[SideName, set[Key]] = attrs.field(factory=lambda: {"client": set(), "server": set()})
    """Requests whose response is in transit, by the sender of the request."""
    used: dict[SideName, set[Key]] = attrs.field(factory=lambda: {"client": set(), "server": set()})
    revision: str | None = None
    """The revision of the legacy session."""
    client: JsonObject = attrs.field(factory=dict)
    server: JsonObject = attrs.field(factory=dict)
    """The server capabilities of the legacy session."""
    discovered: JsonObject | None = None
    initialized: bool = False
    """Whether the server has received `notifications/initialized`."""
    level: int | None = None
    """The index of the level that `logging/setLevel` set."""
    subscribed: set[str] = attrs.field(factory=set)
    _just_ended: Key | None = None

    # --- sending ---------------------------------------------------------------------------------------------------

    def check_sent(self, side: SideName, message: JsonObject, for_request: JsonValue = None) -> None:
        """Check a message that is sent."""
        assert message.get("jsonrpc") == "2.0"
        if message.get("method") != "notifications/cancelled":
            self._just_ended = None
        if "method" in message and "id" in message:
            self._request(side, message)
        elif "method" in message:
            self._notification(side, message, for_request)
        else:
            self._response(side, message)

    def _request(self, side: SideName, message: JsonObject) -> None:
        method, params = str(message["method"]), obj(message.get("params"))
        meta = obj(params.get("_meta"))
        modern = _META + "protocolVersion" in meta
        revision = MODERN if modern else self.revision or str(params.get("protocolVersion", "2025-11-25"))
        assert_valid(revision, "JSONRPCMessage", message)
        assert_valid(revision, "JSONRPCRequest", message)
        if method in _definition_names(revision):
            assert_valid(revision, _definition_names(revision)[method], message)
        else:
            is_extension = revision == MODERN and method.startswith(_EXTENSION_METHODS)
            assert is_extension or not _definition_names(revision), (revision, method)
        this = key(message["id"])
        assert this not in self.used[side], "an id is used twice"
        self.used[side].add(this)
        if modern:
            self._modern_request(side, method, params, meta)
        else:
            self._legacy_request(side, method, params, revision)
        token = meta.get("progressToken")
        tokens = [pending.token for pending in self.open[side].values()]
        assert token is None or key(token) not in tokens, "a progress token is used twice"
        self.open[side][this] = PendingRequest(message, method, revision, None if token is None else key(token))

    def _modern_request(self, side: SideName, method: str, params: JsonObject, meta: JsonObject) -> None:
        assert side == "client", "a modern server sends no requests"
        assert meta[_META + "protocolVersion"] == MODERN
        assert isinstance(meta[_META + "clientCapabilities"], dict)
        assert method == "server/discover" or self.discovered is not None
        if method != "server/discover":
            capabilities = obj(obj(self.discovered).get("capabilities"))
            needed = _EXTENSION if method.startswith("tasks/") else _SERVER_CAPABILITIES.get(method)
            assert needed is None or has(capabilities, needed), (method, capabilities)
        if method.startswith("tasks/"):
            assert has(meta[_META + "clientCapabilities"], _EXTENSION)
        assert "task" not in params

    def _legacy_request(self, side: SideName, method: str, params: JsonObject, revision: str) -> None:
        if method == "initialize":
            assert side == "client"
            assert self.revision is None
            assert not [each for each in self.open["client"].values() if each.method == "initialize"]
            return
        if method == "ping":
            return
        assert self.revision is not None, "only ping is allowed before the response to initialize"
        if side == "server":
            assert self.initialized, "the server may send only ping before notifications/initialized"
        receiver = self.server if side == "client" else self.client
        needed = (_SERVER_CAPABILITIES if side == "client" else _CLIENT_CAPABILITIES).get(method)
        if method in _TASK_CAPABILITIES:
            needed = _TASK_CAPABILITIES[method]
        elif needed is None:
            raise AssertionError(f"the {side} sends {method}")
        if method == "completion/complete" and revision == "2024-11-05":
            return
        assert has(receiver, needed), (method, receiver)
        if "task" in params:
            assert has(receiver, ("tasks", "requests", *method.split("/")))
        if method == "elicitation/create" and revision == "2025-11-25":
            assert has(receiver, ("elicitation", str(params.get("mode", "form"))))
        if method == "sampling/createMessage" and ("tools" in params or "toolChoice" in params):
            assert has(receiver, ("sampling", "tools"))

    def _response(self, side: SideName, message: JsonObject) -> None:
        other: SideName = "server" if side == "client" else "client"
        this = key(message.get("id"))
        pending = self.open[other].pop(this, None) or self.withdrawn[other].pop(this, None)
        assert pending is not None, f"the {side} responds to a request that is not pending: {message}"
        assert not pending.cancel_received, "a response was sent after the cancellation was received"
        assert side == "server" or pending.revision != MODERN, "a modern client sends no responses"
        assert_valid(pending.revision, "JSONRPCMessage", message)
        assert ("result" in message) != ("error" in message)
        self.answered[other].add(this)
        if "error" in message:
            self._error(pending, obj(message["error"]))
        else:
            self._result(pending, obj(message["result"]))

    def _error(self, pending: PendingRequest, error: JsonObject) -> None:
        code = error["code"]
        assert isinstance(code, int)
        assert isinstance(error["message"], str)
        if pending.revision == MODERN:
            assert code not in (-32002, -32042)
            assert not -32099 <= code <= -32020 or code in (-32020, -32021, -32022)
        elif pending.method != "initialize":
            assert code not in (-32020, -32021, -32022)

    def _result(self, pending: PendingRequest, result: JsonObject) -> None:
        revision, method, params = pending.revision, pending.method, obj(pending.message.get("params"))
        kind = result.get("resultType")
        name = _definition_names(revision).get(method, "").replace("Request", "Result")
        if kind == "input_required":
            assert method in _MRTR_METHODS
            name = "InputRequiredResult"
            self._input_required(params, result)
        elif "task" in params:
            name = "CreateTaskResult"
        if revision == MODERN:
            assert kind in ("complete", "input_required")
            assert obj(result["_meta"])[_META + "serverInfo"] == {"name": "server", "version": "2"}
        else:
            assert kind is None
        assert_valid(revision, name if name in _definitions(revision) else "EmptyResult", result)
        if method == "initialize":
            self.revision = str(result["protocolVersion"])
            self.client, self.server = obj(params["capabilities"]), obj(result["capabilities"])
        elif method == "server/discover":
            self.discovered = result
        elif method == "logging/setLevel":
            self.level = _LEVELS.index(str(params["level"]))
        elif method == "resources/subscribe":
            self.subscribed.add(str(params["uri"]))
        elif method == "resources/unsubscribe":
            self.subscribed.discard(str(params["uri"]))
        elif method == "subscriptions/listen":
            assert pending.granted is not None, "the subscription ends before its acknowledgment"
            assert key(obj(result["_meta"])[_META + "subscriptionId"]) == key(pending.message["id"])
            self._just_ended = key(pending.message["id"])

    def _input_required(self, params: JsonObject, result: JsonObject) -> None:
        declared = obj(params["_meta"])[_META + "clientCapabilities"]
        assert result.get("inputRequests") or "requestState" in result
        for input_request in obj(result.get("inputRequests")).values():
            method, inner = str(obj(input_request)["method"]), obj(obj(input_request).get("params"))
            assert "id" not in obj(input_request)
            assert has(declared, _CLIENT_CAPABILITIES[method])
            if method == "elicitation/create":
                assert has(declared, ("elicitation", str(inner.get("mode", "form"))))

    def _notification(self, side: SideName, message: JsonObject, for_request: JsonValue) -> None:
        method, params = str(message["method"]), obj(message.get("params"))
        meta = obj(params.get("_meta"))
        modern = for_request is not None and self._is_modern(for_request)
        if self.revision is None:
            modern = True
        revision = MODERN if modern else str(self.revision)
        if method == "notifications/cancelled":
            self._cancellation(side, params)
            return
        if method == "notifications/progress":
            self._progress(side, params, for_request)
            return
        assert_valid(revision, "JSONRPCNotification", message)
        if method != "notifications/tasks":
            assert method in _definition_names(revision) or not _definition_names(revision), (revision, method)
            assert_valid(revision, _definition_names(revision).get(method, ""), message)
        assert (method in _CLIENT_ONLY) == (side == "client") or method == "notifications/tasks/status"
        if modern:
            self._modern_notification(method, params, meta, for_request)
        else:
            self._legacy_notification(method, params)

    def _is_modern(self, request: JsonValue) -> bool:
        this = key(request)
        pending = self.open["client"].get(this) or self.withdrawn["client"].get(this)
        return pending is not None and pending.revision == MODERN

    def _modern_notification(self, method: str, params: JsonObject, meta: JsonObject, for_request: JsonValue) -> None:
        pending = self._live(key(for_request))
        if method == "notifications/message":
            assert has(obj(obj(self.discovered).get("capabilities")), ("logging",))
            requested = obj(obj(pending.message["params"])["_meta"]).get(_META + "logLevel")
            assert requested is not None, "the request did not ask for log messages"
            assert _LEVELS.index(str(params["level"])) >= _LEVELS.index(str(requested))
            assert pending.method != "subscriptions/listen"
            return
        assert pending.method == "subscriptions/listen", f"{method} outside of a subscription"
        assert key(meta[_META + "subscriptionId"]) == key(for_request)
        if method == "notifications/subscriptions/acknowledged":
            assert pending.granted is None
            self._acknowledged(pending, obj(params["notifications"]))
            return
        assert pending.granted is not None, "a notification was sent before the acknowledgment"
        requested = pending.granted.get(_FILTER[method])
        if isinstance(requested, list):
            about = str(params.get("uri", params.get("taskId")))
            assert any(about == each or about.startswith(f"{str(each).rstrip('/')}/") for each in requested)
        else:
            assert requested is True, f"{method} was not granted"

    def _acknowledged(self, pending: PendingRequest, granted: JsonObject) -> None:
        requested = obj(obj(pending.message["params"])["notifications"])
        capabilities = obj(obj(self.discovered).get("capabilities"))
        for name, value in granted.items():
            assert name in requested
            if isinstance(value, list):
                assert set(map(str, value)) <= {str(each) for each in items(requested[name])}
            else:
                assert value is not True or requested[name] is True
            if value:
                method = next(each for each, member in _FILTER.items() if member == name)
                assert has(capabilities, _SERVER_CAPABILITIES.get(method, _EXTENSION))
        pending.granted = granted

    def _legacy_notification(self, method: str, params: JsonObject) -> None:
        needed = _SERVER_CAPABILITIES.get(method)
        assert needed is None or has(self.server, needed), method
        needed = _CLIENT_CAPABILITIES.get(method)
        assert needed is None or has(self.client, needed), method
        if method == "notifications/message" and self.level is not None:
            assert _LEVELS.index(str(params["level"])) >= self.level
        if method == "notifications/resources/updated":
            assert any(str(params["uri"]) == each or str(params["uri"]).startswith(each) for each in self.subscribed)

    def _live(self, this: Key) -> PendingRequest:
        pending = self.open["client"].get(this) or self.withdrawn["client"].get(this)
        assert pending is not None, "the notification concerns a request that has ended"
        assert not pending.cancel_received, "the notification concerns a cancelled request"
        return pending

    def _progress(self, side: SideName, params: JsonObject, for_request: JsonValue) -> None:
        other: SideName = "server" if side == "client" else "client"
        token = key(params["progressToken"])
        running = [*self.open[other].values(), *self.withdrawn[other].values()]
        pending = next((each for each in running if each.token == token), None)
        assert pending is not None, "the progress token belongs to no pending request"
        assert key(pending.message["id"]) == key(for_request)
        assert not pending.cancel_received
        assert pending.method != "subscriptions/listen"
        assert side == "server" or pending.revision != MODERN
        assert_valid(
            pending.revision,
            "ProgressNotification",
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": params},
        )
        value = params["progress"]
        assert isinstance(value, (int, float))
        assert pending.progress is None or value > pending.progress, "progress has to increase"
        pending.progress = value

    def _cancellation(self, side: SideName, params: JsonObject) -> None:
        this = key(params["requestId"])
        pending = self.open[side].pop(this, None)
        if pending is None and side == "server" and self._just_ended == this:
            # A server names a request of the client only here: a subscription that it has just ended.
            return
        if pending is None:
            assert this in self.answered[side], "a cancellation of a request that was not sent or has ended"
            return
        assert pending.method != "initialize"
        assert "task" not in obj(pending.message.get("params")), "a task is cancelled by tasks/cancel"
        self.withdrawn[side][this] = pending

    # --- receiving -------------------------------------------------------------------------------------------------

    def record_received(self, side: SideName, message: JsonObject) -> None:
        """Record that `side` received a message."""
        other: SideName = "server" if side == "client" else "client"
        method = message.get("method")
        if method is None:
            self.answered[side].discard(key(message.get("id")))
        if method == "notifications/initialized":
            self.initialized = True
        if method == "notifications/cancelled":
            pending = self.withdrawn[other].get(key(obj(message["params"])["requestId"]))
            if pending is not None:
                pending.cancel_received = True
