"""Faults of how requests are taken: what must stand in them, what may, and the codes that refuse them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, META, MODERN, RpcError
from mutants.server_faults.lists import changed, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import Turn

__all__: list[str] = []

_PIPES: Final = ("stdio",)
_HTTP: Final = ("http",)
_DISCOVERED: Final[JsonObject] = {"supportedVersions": [*MODERN], "capabilities": {}}
_VERSION: Final = f"{META}protocolVersion"
_DECLARED: Final = f"{META}clientCapabilities"
_SAMPLING: Final = "test_sampling"
_CHANGED: Final = "notifications/prompts/list_changed"


def _method(turn: Turn) -> str:
    return str(turn.request["method"])


def _declared(turn: Turn) -> JsonObject:
    declared = turn.meta.get(_DECLARED) if turn.modern else turn.session.capabilities
    return declared if isinstance(declared, dict) else {}


def _refusing(
    name: str,
    *caught_by: str,
    when: Callable[[Turn], bool],
    code: int = -32602,
    revisions: tuple[str, ...] | None = None,
) -> None:
    """Enters a fault that refuses what has to be served."""

    class _Refuses(Fault):
        def result(self, turn: Turn, result: JsonObject) -> JsonObject:
            if when(turn):
                raise RpcError(code, "it is not liked")
            return result

    fault(name, *caught_by, revisions=revisions)(_Refuses)


def _serving(name: str, *caught_by: str, when: Callable[[Turn], bool]) -> None:
    """Enters a fault that answers `server/discover` where it has to be refused."""

    class _Serves(Fault):
        def refused(self, turn: Turn, error: RpcError) -> JsonObject:
            if _method(turn) == "server/discover" and when(turn):
                return dict(_DISCOVERED)
            raise error

    fault(name, *caught_by, revisions=MODERN)(_Serves)


# --- what has to stand in a request, and what may --------------------------------------------------------------------

_serving("meta-optional", "meta.missing", "jsonrpc.stateless", when=lambda turn: "_meta" not in turn.params)
_serving(
    "version-optional",
    "meta.missing-version",
    "http.meta-missing",
    when=lambda turn: "_meta" in turn.params and _VERSION not in turn.meta,
)
_serving(
    "capabilities-optional",
    "meta.missing-capabilities",
    "meta.missing-status",
    "http.meta-missing",
    when=lambda turn: "_meta" in turn.params and _DECLARED not in turn.meta,
)
_refusing(
    "client-info-demanded",
    "meta.without-client-info",
    when=lambda turn: turn.modern and f"{META}clientInfo" not in turn.meta,
    revisions=MODERN,
)
_refusing("unknown-meta-refused", "meta.unknown-keys", when=lambda turn: "com.example/anything" in turn.meta)
_refusing(
    "unknown-capability-refused",
    "capability.unknown",
    when=lambda turn: "conformanceUnknown" in _declared(turn) and _method(turn) in ("ping", "server/discover"),
)
_refusing(
    "bare-client-refused",
    "capability.bare-client",
    when=lambda turn: not _declared(turn) and _method(turn) == "prompts/list",
)


@fault("client-gone-by-lack", "lifecycle.missing-capability")
class _LackForgotten(Fault):
    """Does not answer any more, when a client was refused for what it lacks."""

    def __init__(self) -> None:
        self._gone = False

    def refused(self, turn: Turn, error: RpcError) -> JsonObject:
        self._gone = name_of(turn) == _SAMPLING and not _declared(turn)
        raise error

    def response(self, turn: Turn, response: JsonObject) -> JsonValue:
        if self._gone and _method(turn) in ("ping", "server/discover"):
            self._gone = False
            return None
        return response


@fault("capabilities-remembered", "jsonrpc.stateless-capabilities", "capability.missing-required",
       "http.missing-capability", revisions=MODERN)  # fmt: skip
class _Remembered(Fault):
    def refused(self, turn: Turn, error: RpcError) -> JsonObject:
        if name_of(turn) == "test_missing_capability":
            return {"content": []}
        raise error


# --- codes -----------------------------------------------------------------------------------------------------------


@fault("unknown-method-code", "jsonrpc.unknown-method", "http.method-not-found")
class _UnknownMethod(Fault):
    def refused(self, turn: Turn, error: RpcError) -> JsonObject:
        if _method(turn) == "conformance/does-not-exist":
            raise RpcError(-32600, str(error), error.data, error.status)
        raise error


@fault("missing-field-200", "meta.missing-status", "http.meta-missing", revisions=MODERN, transports=_HTTP)
class _MissingField(Fault):
    def error_status(self, code: JsonValue, status: int) -> int:
        return 200 if code == -32602 else status


def _no_reference(turn: Turn) -> bool:
    ref = turn.params.get("ref")
    return isinstance(ref, dict) and ref.get("name") == "none"


def _coded(name: str, check: str, code: int, revisions: tuple[str, ...] | None = None) -> None:
    """Enters a fault that refuses a completion of no prompt by another code: nobody asks for that one but all see it."""

    class _Coded(Fault):
        def refused(self, turn: Turn, error: RpcError) -> JsonObject:
            if _no_reference(turn):
                raise RpcError(code, str(error), error.data)
            raise error

    fault(name, check, revisions=revisions)(_Coded)


_coded("completion-unserved", "capability.declared-served", -32601)
_coded("code-reserved", "error.reserved-range", -32050, MODERN)
_coded("code-of-missing-capability", "error.reserved-codes-meaning", -32021, MODERN)


# --- what comes unasked ----------------------------------------------------------------------------------------------


@fault("greets-first", "lifecycle.initialize-first", revisions=LEGACY, transports=_PIPES)
class _GreetsFirst(Fault):
    def result(self, turn: Turn, result: JsonObject) -> JsonObject:
        if _method(turn) == "initialize":
            turn.notify("notifications/message", {"level": "emergency", "data": "hello"})
        return result


def _saying(
    name: str,
    *caught_by: str,
    said: JsonObject,
    revisions: tuple[str, ...],
    transports: tuple[str, ...] = (*_PIPES, *_HTTP),
) -> None:
    """Enters a fault that says something before the answer of one tool."""

    class _Says(Fault):
        def result(self, turn: Turn, result: JsonObject) -> JsonObject:
            if name_of(turn) == "test_simple_text":
                turn.send({"jsonrpc": "2.0", **said})
            return result

    fault(name, *caught_by, revisions=revisions, transports=transports)(_Says)


_LOG: Final[JsonObject] = {"level": "emergency", "data": "help"}
_saying(
    "notification-with-id",
    "jsonrpc.notification-no-id",
    said={"id": "told", "method": "notifications/message", "params": _LOG},
    revisions=LEGACY,
)
_saying(
    "asks-by-request",
    "jsonrpc.server-no-requests",
    "mrtr.no-requests",
    said={"id": "asked", "method": "ping"},
    revisions=MODERN,
    # Over HTTP there is nowhere to post the answer to, so that the call itself comes to nothing.
    transports=_PIPES,
)


@fault("changes-undeclared", "capability.list-changed-declared", revisions=LEGACY)
class _ChangesUndeclared(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {**declared, "prompts": {}}

    def result(self, turn: Turn, result: JsonObject) -> JsonObject:
        if name_of(turn) == "test_simple_text":
            turn.send({"jsonrpc": "2.0", "method": _CHANGED})
        return result


@fault("updates-undeclared", "resources.updated-needs-capability", revisions=LEGACY)
class _UpdatesUndeclared(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {**declared, "resources": {"listChanged": True}}

    def result(self, turn: Turn, result: JsonObject) -> JsonObject:
        if name_of(turn) == "test_simple_text":
            turn.notify("notifications/resources/updated", {"uri": "test://watched-resource"})
        return result


@fault("ids-as-fractions", "jsonrpc.request-id-type", revisions=LEGACY)
class _Fractions(Fault):
    def question_id(self, id: str) -> JsonValue:
        return int(id[1:]) + 0.5


@fault("ids-all-the-same", "jsonrpc.request-id-unique", revisions=LEGACY)
class _Same(Fault):
    def question_id(self, id: str) -> JsonValue:  # noqa: ARG002
        return "same"


# --- the two eras, and keys of `_meta` -------------------------------------------------------------------------------

changed("text-without-content", "tools.text", method="tools/call", of="test_simple_text",
        change=lambda _, result: {**result, "content": []})  # fmt: skip
changed("reserved-meta-key", "meta.key-reserved-before-last", method="tools/call", of="test_simple_text",
        change=lambda _, result: {**result, "_meta": {"com.mcp.tools/odd": 1}}, revisions=LEGACY[2:3])  # fmt: skip
