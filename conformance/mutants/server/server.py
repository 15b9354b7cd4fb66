"""The server to which faults are added, in all five revisions: it answers messages of every transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server import features
from mutants.server.client_requests import InputRequired
from mutants.server.fault import Fault, InboundRequest
from mutants.server.private_features import private, with_private
from mutants.server.protocol import LEGACY, LEVELS, META, MODERN, REVISIONS, RpcError
from mutants.server.skills import SKILLS_EXTENSION, SKILLS_METHODS, serve_skills
from mutants.server.state import ServerState
from mutants.server.subscriptions import SubscriptionRegistry, subscribe
from mutants.server.tasks import TASK_TOOLS, Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.session import Session

__all__ = ["RawServer"]

INFO: Final[JsonObject] = {"name": "raw", "version": "1.0"}
_PAGE: Final = 4
"""The number of resources on one page."""
_MOST_VALUES: Final = 100
_LISTS: Final[Mapping[str, tuple[str, list[JsonObject]]]] = {
    "tools/list": ("tools", [*features.TOOLS, *TASK_TOOLS]),
    "resources/list": ("resources", features.RESOURCES),
    "resources/templates/list": ("resourceTemplates", features.TEMPLATES),
    "prompts/list": ("prompts", features.PROMPTS),
}
_CACHEABLE: Final = frozenset({*_LISTS, *SKILLS_METHODS, "server/discover", "resources/read"})


class RawServer:
    """A server that answers messages.

    Args:
        fault: The fault, or `None`.
    """

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault: Final = fault or Fault()
        self.listeners: Final = SubscriptionRegistry(self.fault)
        self.tasks: Final = Tasks()
        self.state: Final = ServerState()

    def changed(self, inbound: InboundRequest, kind: str) -> None:
        """Notify about a changed list."""
        self.listeners.changed(inbound, kind)

    def touched(self, inbound: InboundRequest, uri: str) -> None:
        """Notify about a changed resource."""
        self.listeners.touched(inbound, uri)

    def receive(self, message: JsonValue, session: Session, send: Callable[[JsonValue], None]) -> tuple[JsonValue, int]:
        """Receive a message or a batch.

        Returns:
            The answer, or `None` for none, and the HTTP status.
        """
        if isinstance(message, list):
            if not message or session.revision != "2025-03-26":
                refused = self._error(None, RpcError(-32600, "batches are not supported"), session)
                return self.fault.batch(message, refused, 400)
            said = [self._one(each, session, send)[0] for each in self.fault.elements(message)]
            answers: JsonValue = [answer for answer in said if answer is not None]
            return self.fault.batch(message, answers or None, 200 if answers else 202)
        return self._one(message, session, send)

    def _one(self, message: JsonValue, session: Session, send: Callable[[JsonValue], None]) -> tuple[JsonValue, int]:
        message = self.fault.reads(message)
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            refused = self._error(None, RpcError(-32600, "not JSON-RPC 2.0"), session)
            return refused, self.fault.invalid_status(message)
        method, id = message.get("method"), message.get("id")
        if "method" not in message:
            waiting = self.fault.answers(session.answers).pop(str(id), None)
            if waiting is not None:
                waiting[1].append(message)
                waiting[0].set()
            return None, 202
        if "id" not in message:
            session.initialized = session.initialized or method == "notifications/initialized"
            self._cancel(message, session)
            return self.fault.notified(message, None), 202
        if not isinstance(method, str) or isinstance(id, bool) or not isinstance(id, str | int):
            return self._error(self.fault.invalid_id(id), RpcError(-32600, "invalid request"), session), 400
        return self._answer(InboundRequest(self, session, message, lambda value: send(self.fault.before(value))), id)

    def _cancel(self, message: JsonObject, session: Session) -> None:
        params = message.get("params")
        id = params.get("requestId") if isinstance(params, dict) else None
        if message.get("method") == "notifications/cancelled" and not self.listeners.close(session, id):
            with session.cancelling:
                session.cancelled.append(id)

    def _answer(self, inbound: InboundRequest, id: str | int) -> tuple[JsonValue, int]:
        try:
            result = self.fault.result(inbound, self._tried(inbound))
        except InputRequired as required:
            result = {
                "resultType": "input_required",
                "inputRequests": required.requests,
                "requestState": required.state,
            }
        except RpcError as error:
            return self.fault.response(inbound, self._error(id, error, inbound.session)), error.status
        if inbound.request["method"] == "subscriptions/listen" or inbound.cancelled:
            return None, 202
        if inbound.modern:
            result = self._modern(inbound, result)
        return self.fault.response(inbound, {"jsonrpc": "2.0", "id": id, "result": result}), 200

    def _modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        meta: JsonObject = {f"{META}serverInfo": INFO}
        full: JsonObject = {"resultType": "complete", **result, "_meta": meta}
        if inbound.request["method"] in _CACHEABLE and full["resultType"] == "complete":
            full |= {"ttlMs": 0, "cacheScope": "private"}
        return self.fault.modern(inbound, full)

    def _error(self, id: JsonValue, error: RpcError, session: Session) -> JsonObject:
        response: JsonObject = {"jsonrpc": "2.0", "error": self.fault.error(error.body())}
        if id is not None or session.revision in LEGACY[:3]:
            response["id"] = id
        return response

    def _tried(self, inbound: InboundRequest) -> JsonObject:
        try:
            return self._result(inbound)
        except RpcError as error:
            return self.fault.refused(inbound, error)

    def _result(self, inbound: InboundRequest) -> JsonObject:
        method = str(inbound.request["method"])
        if not isinstance(inbound.request.get("params", {}), dict):
            raise RpcError(-32602, "params is not an object", status=400 if inbound.modern else 200)
        if method == "initialize" and f"{META}protocolVersion" not in inbound.meta:
            return self._initialize(inbound)
        if inbound.modern:
            _check_meta(inbound)
        name, uri, arguments = inbound.params.get("name"), inbound.params.get("uri"), inbound.params.get("arguments")
        given = arguments if isinstance(arguments, dict) else {}
        if method in _LISTS:
            page = with_private(inbound, _listed(method, inbound.params.get("cursor")))
            return features.known_by(inbound.revision, page)
        if method in ("tools/call", "prompts/get") and not isinstance(name, str):
            raise RpcError(-32602, "params.name is not a string")
        if arguments is not None and not isinstance(arguments, dict):
            raise RpcError(-32602, "params.arguments is not an object")
        if method in ("resources/read", "resources/subscribe", "resources/unsubscribe") and not isinstance(uri, str):
            raise RpcError(-32602, "params.uri is not a string")
        own = private(inbound)
        if own is not None:
            return own
        if method == "tools/call":
            made = self.tasks.call(inbound, str(name), given)
            return features.call_tool(inbound, str(name), given) if made is None else made
        if method == "prompts/get":
            return features.get_prompt(str(name), given)
        if method == "resources/read":
            return features.read_resource(inbound, str(uri))
        if method == "completion/complete":
            return _complete(inbound)
        return self._of_era(inbound, method)

    def _of_era(self, inbound: InboundRequest, method: str) -> JsonObject:
        for serve in (self.tasks.serve, serve_skills):
            about = serve(inbound, method)
            if about is not None:
                return about
        if inbound.modern and method == "subscriptions/listen":
            declared = self.fault.capabilities(_capabilities(inbound.revision))
            self.listeners.open(inbound, declared, self.tasks.reported(inbound))
            return {}
        if inbound.modern and method == "server/discover":
            return {
                "supportedVersions": list(MODERN),
                "capabilities": self.fault.capabilities(_capabilities(inbound.revision)),
            }
        if not inbound.modern and method == "ping":
            return {}
        if not inbound.modern and method == "logging/setLevel":
            level = inbound.params.get("level")
            if level not in LEVELS:
                raise RpcError(-32602, "unknown level")
            inbound.session.level = str(level)
            return {}
        if not inbound.modern and method in ("resources/subscribe", "resources/unsubscribe"):
            subscribe(inbound.session, method, str(inbound.params["uri"]))
            return {}
        raise RpcError(-32601, f"unknown method {method!r}", status=404 if inbound.modern else 200)

    def _initialize(self, inbound: InboundRequest) -> JsonObject:
        version, capabilities = inbound.params.get("protocolVersion"), inbound.params.get("capabilities")
        if not isinstance(version, str) or not isinstance(capabilities, dict):
            raise RpcError(-32602, "protocolVersion or capabilities is missing")
        inbound.session.revision = self.fault.agreed(version, version if version in LEGACY else LEGACY[-1])
        inbound.session.capabilities = capabilities
        return {
            "protocolVersion": inbound.session.revision,
            "capabilities": self.fault.capabilities(_capabilities(inbound.session.revision)),
            "serverInfo": dict(INFO),
        }


def _capabilities(revision: str) -> JsonObject:
    changes: JsonObject = {"listChanged": True}
    watched: JsonObject = {"listChanged": True, "subscribe": True}
    found: JsonObject = {"tools": changes, "resources": watched, "prompts": dict(changes), "logging": {}}
    if revision not in REVISIONS[:1]:
        found["completions"] = {}
    if revision == LEGACY[3]:
        found["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    if revision in MODERN:
        found["extensions"] = {f"{META}tasks": {}, SKILLS_EXTENSION: {"directoryRead": True}}
    return found


def _check_meta(inbound: InboundRequest) -> None:
    version, declared = inbound.meta.get(f"{META}protocolVersion"), inbound.meta.get(f"{META}clientCapabilities")
    if not isinstance(version, str) or not isinstance(declared, dict):
        raise RpcError(-32602, f"_meta lacks protocolVersion, {MODERN[0]}, or clientCapabilities", status=400)
    level = inbound.meta.get(f"{META}logLevel", "debug")
    if level not in LEVELS:
        raise RpcError(-32602, "unknown level")
    if version not in MODERN:
        raise RpcError(-32022, "unsupported protocol version", {"supported": list(MODERN), "requested": version}, 400)


def _complete(inbound: InboundRequest) -> JsonObject:
    ref, argument = inbound.params.get("ref"), inbound.params.get("argument")
    if not isinstance(ref, dict) or not isinstance(argument, dict):
        raise RpcError(-32602, "ref or argument is missing")
    for name in ("name", "value"):
        given = argument.get(name)
        if not inbound.server.fault.validates_argument(name, given, good=isinstance(given, str)):
            raise RpcError(-32602, f"argument.{name} is not a string")
    known = {"ref/prompt": ("name", features.PROMPTS), "ref/resource": ("uri", features.TEMPLATES)}.get(
        str(ref.get("type"))
    )
    key = {"name": "name", "uri": "uriTemplate"}
    if known is None or not any(row[key[known[0]]] == ref.get(known[0]) for row in known[1]):
        raise RpcError(-32602, "unknown prompt or template")
    if ref.get("name") == "conformance_failing_prompt":
        raise RpcError(-32603, "completion fails on purpose")
    words: list[JsonValue] = []
    if ref.get("name") == "conformance_prompt_with_many_completions":
        words = [f"word{number:03}" for number in range(150)]
    return {"completion": {"values": words[:_MOST_VALUES], "hasMore": len(words) > _MOST_VALUES}}


def _listed(method: str, cursor: JsonValue) -> JsonObject:
    member, rows = _LISTS[method]
    if method != "resources/list" and cursor is None:
        return {member: [dict(row) for row in rows]}
    if cursor is not None and (method != "resources/list" or cursor != f"from-{_PAGE}"):
        raise RpcError(-32602, "unknown cursor")
    if cursor is None:
        return {member: [dict(row) for row in rows[:_PAGE]], "nextCursor": f"from-{_PAGE}"}
    return {member: [dict(row) for row in rows[_PAGE:]]}
