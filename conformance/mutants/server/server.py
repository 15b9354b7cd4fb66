"""A server in all five revisions, in plain Python: right as it stands, and wrong by one fault at a time.

    python -m mutants.server.server                     over its pipes
    python -m mutants.server.server --port 8000         over HTTP
    python -m mutants.server.server --fault no-jsonrpc  broken

What is broken is said in `mutants.server_faults.fault`, in one place each; this is the server that it is done to.
"""

from __future__ import annotations

import argparse
import itertools
import threading
from typing import TYPE_CHECKING, Final

from mutants.server import features
from mutants.server.client_requests import InputRequired
from mutants.server.private_features import private, with_private
from mutants.server.protocol import LEGACY, META, MODERN, REVISIONS, RpcError
from mutants.server.subscriptions import Listeners, subscribe
from mutants.server.tasks import TASK_TOOLS, Tasks
from mutants.server_faults.fault import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["RawServer", "Session", "Turn", "main"]

INFO: Final[JsonObject] = {"name": "raw", "version": "1.0"}
_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_PAGE: Final = 4
"""How many resources there are on one page."""
_MOST_VALUES: Final = 100
_LISTS: Final[Mapping[str, tuple[str, list[JsonObject]]]] = {
    "tools/list": ("tools", [*features.TOOLS, *TASK_TOOLS]),
    "resources/list": ("resources", features.RESOURCES),
    "resources/templates/list": ("resourceTemplates", features.TEMPLATES),
    "prompts/list": ("prompts", features.PROMPTS),
}
_CACHEABLE: Final = frozenset({*_LISTS, "server/discover", "resources/read"})


class Session:
    """What is remembered of a legacy client."""

    def __init__(self, send: Callable[[JsonValue], None]) -> None:
        self.revision: str | None = None
        self.capabilities: JsonObject = {}
        self.level = "debug"
        self.subscribed: set[str] = set()
        self.user = ""
        self.cancelled: list[JsonValue] = []
        self.cancelling: Final = threading.Lock()
        self.send: Final = send
        self.answers: Final[dict[str, tuple[threading.Event, list[JsonObject]]]] = {}
        self.numbers: Final = itertools.count(1)

    def announce(self, message: JsonValue) -> bool:  # noqa: ARG002
        """Sends what belongs to no request on a stream for that. Whether there is one: over pipes there is not."""
        return False


class Turn:
    """One request that is being answered."""

    def __init__(
        self, server: RawServer, session: Session, request: JsonObject, send: Callable[[JsonValue], None]
    ) -> None:
        self.server: Final = server
        self.session: Final = session
        self.request: Final = request
        self.send: Final = send
        """Sends what belongs to the request, before its answer."""
        params = request.get("params")
        self.params: Final[JsonObject] = params if isinstance(params, dict) else {}
        meta = self.params.get("_meta")
        self.meta: Final[JsonObject] = meta if isinstance(meta, dict) else {}
        fresh = session.revision is None and request.get("method") != "initialize"
        self.modern: Final = f"{META}protocolVersion" in self.meta or fresh
        version = self.meta.get(f"{META}protocolVersion")
        self.revision: Final = str(version) if self.modern else str(session.revision)

    @property
    def knows_structured_content(self) -> bool:
        """Whether the revision has it."""
        return self.revision not in LEGACY[:2]

    def notify(self, method: str, params: JsonObject) -> None:
        """Sends a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def log(self, level: str, text: str) -> None:
        """Sends a log message, if it is wanted."""
        wanted = self.meta.get(f"{META}logLevel") if self.modern else self.session.level
        wanted = self.server.fault.level(wanted if isinstance(wanted, str) else None)
        if wanted is not None and _LEVELS.index(level) >= _LEVELS.index(wanted):
            self.notify("notifications/message", {"level": level, "data": text})

    def progress(self, done: int, total: int) -> None:
        """Tells the progress, if it is wanted."""
        token = self.meta.get("progressToken")
        with self.session.cancelling:
            # Once a cancellation was read nothing more is said.
            if token is not None and not self.cancelled:
                self.notify("notifications/progress", {"progressToken": token, "progress": done, "total": total})

    def declares(self, *path: str) -> bool:
        """Whether the client declares a capability, as `sampling`, `tools`."""
        here: JsonValue = self.meta.get(f"{META}clientCapabilities") if self.modern else self.session.capabilities
        for name in path:
            if not isinstance(here, dict) or name not in here:
                return False
            here = here[name]
        return True

    @property
    def cancelled(self) -> bool:
        """Whether the client wants it no more."""
        id = self.request["id"]
        return id in self.session.cancelled and self.server.fault.cancels(id)


class RawServer:
    """Answers messages.

    Args:
        fault: What is wrong with it; `None`: nothing.
    """

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault: Final = fault or Fault()
        self.listeners: Final = Listeners(self.fault)
        self.tasks: Final = Tasks()

    def changed(self, turn: Turn, kind: str) -> None:
        """A list has changed."""
        self.listeners.changed(turn, kind)

    def touched(self, turn: Turn, uri: str) -> None:
        """A resource has changed."""
        self.listeners.touched(turn, uri)

    def receive(self, message: JsonValue, session: Session, send: Callable[[JsonValue], None]) -> tuple[JsonValue, int]:
        """Takes a message, or an array of them.

        Returns:
            What is to be said to it, `None` for nothing, and the HTTP status.
        """
        if isinstance(message, list):
            if not message or session.revision != "2025-03-26":
                refused = self._error(None, RpcError(-32600, "no batches here"), session)
                return self.fault.batch(message, refused, 400)
            said = [self._one(each, session, send)[0] for each in message]
            answers: JsonValue = [answer for answer in said if answer is not None]
            return self.fault.batch(message, answers or None, 200 if answers else 202)
        return self._one(message, session, send)

    def _one(self, message: JsonValue, session: Session, send: Callable[[JsonValue], None]) -> tuple[JsonValue, int]:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return self._error(None, RpcError(-32600, "no JSON-RPC 2.0"), session), 400
        method, id = message.get("method"), message.get("id")
        if "method" not in message:
            waiting = session.answers.pop(str(id), None)
            if waiting is not None:
                waiting[1].append(message)
                waiting[0].set()
            return None, 202
        if "id" not in message:
            self._cancel(message, session)
            return self.fault.notified(message, None), 202
        if not isinstance(method, str) or isinstance(id, bool) or not isinstance(id, str | int):
            return self._error(None, RpcError(-32600, "no request"), session), 400
        return self._answer(Turn(self, session, message, lambda value: send(self.fault.before(value))), id)

    def _cancel(self, message: JsonObject, session: Session) -> None:
        params = message.get("params")
        id = params.get("requestId") if isinstance(params, dict) else None
        if message.get("method") == "notifications/cancelled" and not self.listeners.close(id):
            with session.cancelling:
                session.cancelled.append(id)

    def _answer(self, turn: Turn, id: str | int) -> tuple[JsonValue, int]:
        try:
            result = self.fault.result(turn, self._tried(turn))
        except InputRequired as required:
            result = {
                "resultType": "input_required",
                "inputRequests": required.requests,
                "requestState": required.state,
            }
        except RpcError as error:
            return self.fault.response(turn, self._error(id, error, turn.session)), error.status
        if turn.request["method"] == "subscriptions/listen" or turn.cancelled:
            return None, 202
        if turn.modern:
            result = self._modern(turn, result)
        return self.fault.response(turn, {"jsonrpc": "2.0", "id": id, "result": result}), 200

    def _modern(self, turn: Turn, result: JsonObject) -> JsonObject:
        meta: JsonObject = {f"{META}serverInfo": INFO}
        full: JsonObject = {"resultType": "complete", **result, "_meta": meta}
        if turn.request["method"] in _CACHEABLE and full["resultType"] == "complete":
            full |= {"ttlMs": 0, "cacheScope": "private"}
        return self.fault.modern(turn, full)

    def _error(self, id: str | int | None, error: RpcError, session: Session) -> JsonObject:
        response: JsonObject = {"jsonrpc": "2.0", "error": self.fault.error(error.body())}
        if id is not None or session.revision in LEGACY[:3]:
            response["id"] = id
        return response

    def _tried(self, turn: Turn) -> JsonObject:
        try:
            return self._result(turn)
        except RpcError as error:
            return self.fault.refused(turn, error)

    def _result(self, turn: Turn) -> JsonObject:
        method = str(turn.request["method"])
        if method == "initialize" and f"{META}protocolVersion" not in turn.meta:
            return self._initialize(turn)
        if turn.modern:
            _check_meta(turn)
        name, uri, arguments = turn.params.get("name"), turn.params.get("uri"), turn.params.get("arguments")
        given = arguments if isinstance(arguments, dict) else {}
        if method in _LISTS:
            page = with_private(turn, _listed(method, turn.params.get("cursor")))
            return features.known_by(turn.revision, page)
        if method in ("tools/call", "prompts/get") and not isinstance(name, str):
            raise RpcError(-32602, "params.name is no string")
        if arguments is not None and not isinstance(arguments, dict):
            raise RpcError(-32602, "params.arguments is no object")
        if method in ("resources/read", "resources/subscribe", "resources/unsubscribe") and not isinstance(uri, str):
            raise RpcError(-32602, "params.uri is no string")
        own = private(turn)
        if own is not None:
            return own
        if method == "tools/call":
            made = self.tasks.call(turn, str(name), given)
            return features.call_tool(turn, str(name), given) if made is None else made
        if method == "prompts/get":
            return features.get_prompt(str(name), given)
        if method == "resources/read":
            return features.read_resource(turn, str(uri))
        if method == "completion/complete":
            return _complete(turn)
        return self._of_era(turn, method)

    def _of_era(self, turn: Turn, method: str) -> JsonObject:
        about = self.tasks.serve(turn, method)
        if about is not None:
            return about
        if turn.modern and method == "subscriptions/listen":
            self.listeners.open(turn, self.fault.capabilities(_capabilities(turn.revision)))
            return {}
        if turn.modern and method == "server/discover":
            return {
                "supportedVersions": list(MODERN),
                "capabilities": self.fault.capabilities(_capabilities(turn.revision)),
            }
        if not turn.modern and method == "ping":
            return {}
        if not turn.modern and method == "logging/setLevel":
            level = turn.params.get("level")
            if level not in _LEVELS:
                raise RpcError(-32602, "there is no such level")
            turn.session.level = str(level)
            return {}
        if not turn.modern and method in ("resources/subscribe", "resources/unsubscribe"):
            subscribe(turn.session, method, str(turn.params["uri"]))
            return {}
        raise RpcError(-32601, f"there is no method {method!r}", status=404 if turn.modern else 200)

    def _initialize(self, turn: Turn) -> JsonObject:
        version, capabilities = turn.params.get("protocolVersion"), turn.params.get("capabilities")
        if not isinstance(version, str) or not isinstance(capabilities, dict):
            raise RpcError(-32602, "protocolVersion or capabilities is missing")
        turn.session.revision = self.fault.agreed(version, version if version in LEGACY else LEGACY[-1])
        turn.session.capabilities = capabilities
        return {
            "protocolVersion": turn.session.revision,
            "capabilities": self.fault.capabilities(_capabilities(turn.session.revision)),
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
        found["extensions"] = {f"{META}tasks": {}}
    return found


def _check_meta(turn: Turn) -> None:
    version, declared = turn.meta.get(f"{META}protocolVersion"), turn.meta.get(f"{META}clientCapabilities")
    if not isinstance(version, str) or not isinstance(declared, dict):
        raise RpcError(-32602, f"_meta lacks protocolVersion, {MODERN[0]}, or clientCapabilities", status=400)
    level = turn.meta.get(f"{META}logLevel", "debug")
    if level not in _LEVELS:
        raise RpcError(-32602, "there is no such level")
    if version not in MODERN:
        raise RpcError(-32022, "that version is not spoken", {"supported": list(MODERN), "requested": version}, 400)


def _complete(turn: Turn) -> JsonObject:
    ref, argument = turn.params.get("ref"), turn.params.get("argument")
    if not isinstance(ref, dict) or not isinstance(argument, dict) or not isinstance(argument.get("value"), str):
        raise RpcError(-32602, "ref or argument is missing")
    known = {"ref/prompt": ("name", features.PROMPTS), "ref/resource": ("uri", features.TEMPLATES)}.get(
        str(ref.get("type"))
    )
    key = {"name": "name", "uri": "uriTemplate"}
    if known is None or not any(row[key[known[0]]] == ref.get(known[0]) for row in known[1]):
        raise RpcError(-32602, "there is no such prompt or template")
    if ref.get("name") == "conformance_failing_prompt":
        raise RpcError(-32603, "it cannot be completed")
    words: list[JsonValue] = []
    if ref.get("name") == "conformance_prompt_with_many_completions":
        words = [f"word{number:03}" for number in range(150)]
    return {"completion": {"values": words[:_MOST_VALUES], "hasMore": len(words) > _MOST_VALUES}}


def _listed(method: str, cursor: JsonValue) -> JsonObject:
    member, rows = _LISTS[method]
    if method != "resources/list" and cursor is None:
        return {member: [dict(row) for row in rows]}
    if cursor is not None and (method != "resources/list" or cursor != f"from-{_PAGE}"):
        raise RpcError(-32602, "there is no such cursor")
    if cursor is None:
        return {member: [dict(row) for row in rows[:_PAGE]], "nextCursor": f"from-{_PAGE}"}
    return {member: [dict(row) for row in rows[_PAGE:]]}


def main() -> None:
    """Serves until the input ends, or for ever."""
    from mutants.server_faults.table import FAULTS  # lazy: the faults know the server, which is still being read

    parser = argparse.ArgumentParser(
        prog="raw_server", description="A server in plain Python, for the tests of the suite."
    )
    parser.add_argument("--port", type=int, help="serve HTTP there; without it, standard input and output")
    parser.add_argument("--fault", choices=sorted(FAULTS), help="what is wrong with it")
    parser.add_argument("--key", help="a bearer token without which nothing is to be had over HTTP")
    parser.add_argument("--modern-only", action="store_true", help="speak no older revision over HTTP")
    given = parser.parse_args()
    server = RawServer(FAULTS[given.fault].make() if given.fault else None)
    if given.port is None:
        from mutants.server.stdio import serve  # lazy: one of two

        serve(server)
    else:
        from mutants.server.http import serve_http  # lazy: the other

        serve_http(server, given.port, given.key, modern_only=given.modern_only)


if __name__ == "__main__":
    main()
