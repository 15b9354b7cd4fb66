"""What the specification allows on one pipe, written from its text: the judge of the engines' state machines.

It knows nothing of the tables of `mcp_core`: it reads the wire as a third party would, and has rules of its own.
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

_NEEDS_OF_SERVER: Final[Mapping[str, tuple[str, ...]]] = {
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
_NEEDS_OF_CLIENT: Final[Mapping[str, tuple[str, ...]]] = {
    "roots/list": ("roots",),
    "sampling/createMessage": ("sampling",),
    "elicitation/create": ("elicitation",),
    "notifications/roots/list_changed": ("roots", "listChanged"),
    "notifications/elicitation/complete": ("elicitation", "url"),
}
_TASK_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "tasks/get": ("tasks",),
    "tasks/result": ("tasks",),
    "tasks/list": ("tasks", "list"),
    "tasks/cancel": ("tasks", "cancel"),
}
_EXTENSION: Final = ("extensions", "io.modelcontextprotocol/tasks")
_FILTER: Final[Mapping[str, str]] = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions",
    "notifications/tasks": "taskIds",
}
_CLIENT_ONLY: Final = frozenset({"notifications/initialized", "notifications/roots/list_changed"})
_CALLS_WITH_INPUT: Final = frozenset({"tools/call", "prompts/get", "resources/read"})


@cache
def _definitions(revision: str) -> Mapping[str, JsonObject]:
    return load(revision) if folder() is not None else {}


@cache
def _named(revision: str) -> Mapping[str, str]:
    """The definition of each method."""
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
    """The official schema of the revision accepts it; without the schemas there is nothing to ask."""
    if definition in _definitions(revision):
        errors = [str(error) for error in _validator(revision, definition).iter_errors(value)]
        assert not errors, (definition, value, errors[:2])


def has(capabilities: JsonValue, path: tuple[str, ...]) -> bool:
    """Whether a capability is declared."""
    value = capabilities
    for name in path:
        if name == "form" and isinstance(value, dict) and "url" not in value and "form" not in value:
            return True
        if not isinstance(value, dict) or value.get(name) in (None, False):
            return False
        value = value[name]
    return True


def obj(value: JsonValue) -> JsonObject:
    """The value, if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: JsonValue) -> list[JsonValue]:
    """The value, if it is an array; else an empty one."""
    return value if isinstance(value, list) else []


def key(value: JsonValue) -> Key:
    """An id or token by type and value."""
    return type(value).__name__, value


@attrs.define(eq=False)
class Asked:
    """A request on the wire that has no answer yet."""

    message: JsonObject
    method: str
    revision: str
    token: Key | None
    progress: float | None = None
    cancelled: bool = False
    """The side that owes the answer has received the cancellation."""
    granted: JsonObject | None = None
    """A subscription: what was acknowledged."""


@attrs.define(eq=False)
class Oracle:
    """Judges each message when it is sent, and takes note of cancellations when they arrive."""

    open: dict[SideName, dict[Key, Asked]] = attrs.field(factory=lambda: {"client": {}, "server": {}})
    """By the side that asked."""
    given_up: dict[SideName, dict[Key, Asked]] = attrs.field(factory=lambda: {"client": {}, "server": {}})
    """What its own side has cancelled; an answer may still be on the way."""
    answered: dict[SideName, set[Key]] = attrs.field(factory=lambda: {"client": set(), "server": set()})
    """Whose answer is on the way."""
    used: dict[SideName, set[Key]] = attrs.field(factory=lambda: {"client": set(), "server": set()})
    revision: str | None = None
    """Of the legacy session."""
    client: JsonObject = attrs.field(factory=dict)
    server: JsonObject = attrs.field(factory=dict)
    """The capabilities of the legacy session."""
    discovered: JsonObject | None = None
    initialized: bool = False
    """The server has received `notifications/initialized`."""
    level: int | None = None
    """What `logging/setLevel` set."""
    subscribed: set[str] = attrs.field(factory=set)
    _just_ended: Key | None = None

    # --- sending ---------------------------------------------------------------------------------------------------

    def sent(self, side: SideName, message: JsonObject, for_request: JsonValue = None) -> None:
        """A message goes on the wire."""
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
        if method in _named(revision):
            assert_valid(revision, _named(revision)[method], message)
        else:
            assert (method.startswith("tasks/") and revision == MODERN) or not _named(revision), (revision, method)
        this = key(message["id"])
        assert this not in self.used[side], "an id is used twice"
        self.used[side].add(this)
        if modern:
            self._modern_request(side, method, params, meta)
        else:
            self._legacy_request(side, method, params, revision)
        token = meta.get("progressToken")
        tokens = [asked.token for asked in self.open[side].values()]
        assert token is None or key(token) not in tokens, "a progress token is used twice"
        self.open[side][this] = Asked(message, method, revision, None if token is None else key(token))

    def _modern_request(self, side: SideName, method: str, params: JsonObject, meta: JsonObject) -> None:
        assert side == "client", "a modern server sends no requests"
        assert meta[_META + "protocolVersion"] == MODERN
        assert isinstance(meta[_META + "clientCapabilities"], dict)
        assert method == "server/discover" or self.discovered is not None
        if method != "server/discover":
            capabilities = obj(obj(self.discovered).get("capabilities"))
            needed = _EXTENSION if method.startswith("tasks/") else _NEEDS_OF_SERVER.get(method)
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
        assert self.revision is not None, "before the answer to initialize there is nothing but ping"
        if side == "server":
            assert self.initialized, "before initialized the server asks nothing but ping"
        receiver = self.server if side == "client" else self.client
        needed = (_NEEDS_OF_SERVER if side == "client" else _NEEDS_OF_CLIENT).get(method)
        if method in _TASK_NEEDS:
            needed = _TASK_NEEDS[method]
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
        asked = self.open[other].pop(this, None) or self.given_up[other].pop(this, None)
        assert asked is not None, f"{side} answers {message} which is not owed"
        assert not asked.cancelled, "an answer after the cancellation came"
        assert side == "server" or asked.revision != MODERN, "a modern client answers nothing"
        assert_valid(asked.revision, "JSONRPCMessage", message)
        assert ("result" in message) != ("error" in message)
        self.answered[other].add(this)
        if "error" in message:
            self._error(asked, obj(message["error"]))
        else:
            self._result(asked, obj(message["result"]))

    def _error(self, asked: Asked, error: JsonObject) -> None:
        code = error["code"]
        assert isinstance(code, int)
        assert isinstance(error["message"], str)
        if asked.revision == MODERN:
            assert code not in (-32002, -32042)
            assert not -32099 <= code <= -32020 or code in (-32020, -32021, -32022)
        elif asked.method != "initialize":
            assert code not in (-32020, -32021, -32022)

    def _result(self, asked: Asked, result: JsonObject) -> None:
        revision, method, params = asked.revision, asked.method, obj(asked.message.get("params"))
        kind = result.get("resultType")
        name = _named(revision).get(method, "").replace("Request", "Result")
        if kind == "input_required":
            assert method in _CALLS_WITH_INPUT
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
            assert asked.granted is not None, "a subscription ends before it was acknowledged"
            assert key(obj(result["_meta"])[_META + "subscriptionId"]) == key(asked.message["id"])
            self._just_ended = key(asked.message["id"])

    def _input_required(self, params: JsonObject, result: JsonObject) -> None:
        declared = obj(params["_meta"])[_META + "clientCapabilities"]
        assert result.get("inputRequests") or "requestState" in result
        for question in obj(result.get("inputRequests")).values():
            method, inner = str(obj(question)["method"]), obj(obj(question).get("params"))
            assert "id" not in obj(question)
            assert has(declared, _NEEDS_OF_CLIENT[method])
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
            assert method in _named(revision) or not _named(revision), (revision, method)
            assert_valid(revision, _named(revision).get(method, ""), message)
        assert (method in _CLIENT_ONLY) == (side == "client") or method == "notifications/tasks/status"
        if modern:
            self._modern_notification(method, params, meta, for_request)
        else:
            self._legacy_notification(method, params)

    def _is_modern(self, request: JsonValue) -> bool:
        this = key(request)
        asked = self.open["client"].get(this) or self.given_up["client"].get(this)
        return asked is not None and asked.revision == MODERN

    def _modern_notification(self, method: str, params: JsonObject, meta: JsonObject, for_request: JsonValue) -> None:
        asked = self._live(key(for_request))
        if method == "notifications/message":
            assert has(obj(obj(self.discovered).get("capabilities")), ("logging",))
            wanted = obj(obj(asked.message["params"])["_meta"]).get(_META + "logLevel")
            assert wanted is not None, "a log message that was not asked for"
            assert _LEVELS.index(str(params["level"])) >= _LEVELS.index(str(wanted))
            assert asked.method != "subscriptions/listen"
            return
        assert asked.method == "subscriptions/listen", f"{method} outside of a subscription"
        assert key(meta[_META + "subscriptionId"]) == key(for_request)
        if method == "notifications/subscriptions/acknowledged":
            assert asked.granted is None
            self._acknowledged(asked, obj(params["notifications"]))
            return
        assert asked.granted is not None, "a notice before the acknowledgment"
        wanted = asked.granted.get(_FILTER[method])
        if isinstance(wanted, list):
            about = str(params.get("uri", params.get("taskId")))
            assert any(about == each or about.startswith(f"{str(each).rstrip('/')}/") for each in wanted)
        else:
            assert wanted is True, f"{method} was not granted"

    def _acknowledged(self, asked: Asked, granted: JsonObject) -> None:
        wanted = obj(obj(asked.message["params"])["notifications"])
        capabilities = obj(obj(self.discovered).get("capabilities"))
        for name, value in granted.items():
            assert name in wanted
            if isinstance(value, list):
                assert set(map(str, value)) <= {str(each) for each in items(wanted[name])}
            else:
                assert value is not True or wanted[name] is True
            if value:
                method = next(each for each, member in _FILTER.items() if member == name)
                assert has(capabilities, _NEEDS_OF_SERVER.get(method, _EXTENSION))
        asked.granted = granted

    def _legacy_notification(self, method: str, params: JsonObject) -> None:
        needed = _NEEDS_OF_SERVER.get(method)
        assert needed is None or has(self.server, needed), method
        needed = _NEEDS_OF_CLIENT.get(method)
        assert needed is None or has(self.client, needed), method
        if method == "notifications/message" and self.level is not None:
            assert _LEVELS.index(str(params["level"])) >= self.level
        if method == "notifications/resources/updated":
            assert any(str(params["uri"]) == each or str(params["uri"]).startswith(each) for each in self.subscribed)

    def _live(self, this: Key) -> Asked:
        asked = self.open["client"].get(this) or self.given_up["client"].get(this)
        assert asked is not None, "about a request that is over"
        assert not asked.cancelled, "about a cancelled request"
        return asked

    def _progress(self, side: SideName, params: JsonObject, for_request: JsonValue) -> None:
        other: SideName = "server" if side == "client" else "client"
        token = key(params["progressToken"])
        running = [*self.open[other].values(), *self.given_up[other].values()]
        asked = next((each for each in running if each.token == token), None)
        assert asked is not None, "progress for a token that nobody waits for"
        assert key(asked.message["id"]) == key(for_request)
        assert not asked.cancelled
        assert asked.method != "subscriptions/listen"
        assert side == "server" or asked.revision != MODERN
        assert_valid(
            asked.revision,
            "ProgressNotification",
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": params},
        )
        value = params["progress"]
        assert isinstance(value, (int, float))
        assert asked.progress is None or value > asked.progress, "progress has to increase"
        asked.progress = value

    def _cancellation(self, side: SideName, params: JsonObject) -> None:
        this = key(params["requestId"])
        asked = self.open[side].pop(this, None)
        if asked is None and side == "server" and self._just_ended == this:
            # The one thing of the other side that a server may name: a subscription, right after it has ended it.
            return
        if asked is None:
            assert this in self.answered[side], "cancels what is answered, or was never asked"
            return
        assert asked.method != "initialize"
        assert "task" not in obj(asked.message.get("params")), "a task is cancelled by tasks/cancel"
        self.given_up[side][this] = asked

    # --- arriving --------------------------------------------------------------------------------------------------

    def arrived(self, side: SideName, message: JsonObject) -> None:
        """A message reaches `side`."""
        other: SideName = "server" if side == "client" else "client"
        method = message.get("method")
        if method is None:
            self.answered[side].discard(key(message.get("id")))
        if method == "notifications/initialized":
            self.initialized = True
        if method == "notifications/cancelled":
            asked = self.given_up[other].get(key(obj(message["params"])["requestId"]))
            if asked is not None:
                asked.cancelled = True
