"""Faults of the validation of requests, and of the codes of rejections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, META, MODERN, RpcError
from mutants.server_faults.lists import changed, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest
    from mutants.server.streams import HttpSession

__all__: list[str] = []

_PIPES: Final = ("stdio",)
_HTTP: Final = ("http",)
_DISCOVERED: Final[JsonObject] = {"supportedVersions": [*MODERN], "capabilities": {}}
_VERSION: Final = f"{META}protocolVersion"
_DECLARED: Final = f"{META}clientCapabilities"
_SAMPLING: Final = "test_sampling"
_ROOTS: Final[JsonObject] = {"jsonrpc": "2.0", "id": "early", "method": "roots/list"}
_CHANGED: Final = "notifications/prompts/list_changed"


def _rows(result: JsonObject) -> list[JsonObject]:
    rows = result["tools"]
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _method(inbound: InboundRequest) -> str:
    return str(inbound.request["method"])


def _declared(inbound: InboundRequest) -> JsonObject:
    declared = inbound.meta.get(_DECLARED) if inbound.modern else inbound.session.capabilities
    return declared if isinstance(declared, dict) else {}


def _version_of_client(inbound: InboundRequest) -> JsonValue:
    """Return the version of a client that introduces itself with the request."""
    client = inbound.meta.get(f"{META}clientInfo", inbound.params.get("clientInfo"))
    return client.get("version") if isinstance(client, dict) else None


def _refusing(
    name: str,
    *caught_by: str,
    when: Callable[[InboundRequest], bool],
    code: int = -32602,
    revisions: tuple[str, ...] | None = None,
) -> None:
    """Add a fault that rejects a valid request."""

    class _Refuses(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            if when(inbound):
                raise RpcError(code, "rejected by the fault")
            return result

    fault(name, *caught_by, revisions=revisions)(_Refuses)


def _serving(
    name: str,
    *caught_by: str,
    when: Callable[[InboundRequest], bool],
    transports: tuple[str, ...] = (*_PIPES, *_HTTP),
) -> None:
    """Add a fault that answers an invalid `server/discover`."""

    class _Serves(Fault):
        def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
            if _method(inbound) == "server/discover" and when(inbound):
                return dict(_DISCOVERED)
            raise error

    fault(name, *caught_by, revisions=MODERN, transports=transports)(_Serves)


# --- required and optional members -----------------------------------------------------------------------------------

_serving("meta-optional", "meta.missing", "jsonrpc.stateless", when=lambda inbound: "_meta" not in inbound.params)
_serving(
    "version-optional",
    "meta.missing-version",
    "http.meta-missing",
    when=lambda inbound: "_meta" in inbound.params and _VERSION not in inbound.meta,
)
_serving(
    "capabilities-optional",
    "meta.missing-capabilities",
    "meta.missing-status",
    "http.meta-missing",
    when=lambda inbound: "_meta" in inbound.params and _DECLARED not in inbound.meta,
)
_serving("params-optional", "meta.missing", when=lambda inbound: "params" not in inbound.request)
_serving(
    "capabilities-null-served",
    "meta.wrong-type",
    when=lambda inbound: inbound.meta.get(_DECLARED, {}) is None,
)
_serving(
    "metadata-array-served",
    "meta.wrong-type",
    when=lambda inbound: inbound.params.get("_meta") == [],
)
_serving(
    "version-number-served",
    "meta.wrong-type",
    when=lambda inbound: isinstance(inbound.meta.get(_VERSION), int),
    transports=_PIPES,
)
_refusing(
    "trace-refused-by-calls",
    "meta.trace-context",
    when=lambda inbound: "traceparent" in inbound.meta and _method(inbound) == "tools/call",
    revisions=MODERN,
)
_refusing(
    "client-info-demanded",
    "meta.without-client-info",
    when=lambda inbound: inbound.modern and f"{META}clientInfo" not in inbound.meta,
    revisions=MODERN,
)
_refusing(
    "ping-with-params-refused",
    "ping.empty-result",
    when=lambda inbound: _method(inbound) == "ping" and "params" in inbound.request,
    revisions=LEGACY,
)
_refusing(
    "unknown-meta-refused-by-prompts",
    "meta.unknown-keys",
    when=lambda inbound: "com.example/anything" in inbound.meta and _method(inbound) == "prompts/get",
)
_refusing("unknown-meta-refused", "meta.unknown-keys", when=lambda inbound: "com.example/anything" in inbound.meta)
_refusing(
    "unknown-capability-refused",
    "capability.unknown",
    when=lambda inbound: "conformanceUnknown" in _declared(inbound) and _method(inbound) in ("ping", "server/discover"),
)
_refusing(
    "unknown-member-of-capability-refused",
    "capability.unknown",
    when=lambda inbound: "conformanceUnknown" in str(_declared(inbound).get("sampling")),
)
_refusing(
    "initialize-with-id-zero-refused",
    "capability.unknown",
    when=lambda inbound: _method(inbound) == "initialize" and not inbound.request["id"],
    code=-32600,
    revisions=LEGACY,
)
for _revisions, _era in ((LEGACY, "legacy"), (MODERN, "modern")):
    _refusing(
        f"version-zero-refused-in-{_era}-era",
        "capability.unknown",
        when=lambda inbound: _version_of_client(inbound) == "0",
        revisions=_revisions,
    )
_refusing(
    "metadata-of-initialize-refused",
    "capability.unknown",
    when=lambda inbound: _method(inbound) == "initialize" and "_meta" in inbound.params,
    revisions=LEGACY,
)
_refusing(
    "unknown-extension-refused",
    "capability.unknown",
    when=lambda inbound: "com.example/conformance" in str(_declared(inbound).get("extensions")),
)
_refusing(
    "unknown-capability-refused-by-lists",
    "capability.unknown",
    when=lambda inbound: "conformanceUnknown" in _declared(inbound) and _method(inbound) == "prompts/list",
)
_refusing(
    "bare-client-refused",
    "capability.bare-client",
    when=lambda inbound: not _declared(inbound) and _method(inbound) == "prompts/list",
)


@fault("nothing-declared-to-bare-client", "capability.declared-to-any-client", revisions=LEGACY)
@fault("nothing-discovered-by-bare-client", "capability.declared-to-any-client", revisions=MODERN)
class _NothingDeclared(Fault):
    """A server that takes the capabilities of the client for its own."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        is_declaration = _method(inbound) in ("initialize", "server/discover")
        return {**result, "capabilities": {}} if is_declaration and not _declared(inbound) else result


def _completed(message: JsonObject, defaults: JsonObject) -> JsonObject:
    """Return a modern request with defaults for the missing members of its metadata."""
    params = message.get("params")
    meta = params.get("_meta", {}) if isinstance(params, dict) else {}
    if not isinstance(params, dict) or not isinstance(meta, dict):
        return message
    return {**message, "params": {**params, "_meta": {**defaults, **meta}}}


def _defaulting(
    name: str, *checks: str, defaults: JsonObject, methods: tuple[str, ...], transports: tuple[str, ...] = _HTTP
) -> None:
    """Add a server that does not require some request metadata of some methods."""

    class _Defaults(Fault):
        def reads(self, message: JsonValue) -> JsonValue:
            known = isinstance(message, dict) and message.get("method") in methods and "id" in message
            return _completed(message, defaults) if known and isinstance(message, dict) else message

    fault(name, *checks, revisions=MODERN, transports=transports)(_Defaults)


for _methods in (("tools/call",), ("resources/read", "prompts/get"), ("tools/list",), ("subscriptions/listen",)):
    _defaulting(
        f"capabilities-optional-for-{_methods[0]}",
        "meta.missing-capabilities",
        "meta.missing-status",
        defaults={_DECLARED: {}},
        methods=_methods,
        transports=(*_PIPES, *_HTTP),
    )
_defaulting(
    "metadata-optional-for-prompts",
    *("meta.missing", "meta.missing-version", "meta.missing-capabilities", "meta.missing-status"),
    defaults={_VERSION: MODERN[0], _DECLARED: {}},
    methods=("prompts/get",),
)


@fault("capabilities-of-any-type-for-prompts", "meta.wrong-type", revisions=MODERN)
class _AnyCapabilities(Fault):
    def reads(self, message: JsonValue) -> JsonValue:
        prompts = isinstance(message, dict) and message.get("method") == "prompts/get"
        params = message.get("params") if prompts and isinstance(message, dict) else None
        meta = params.get("_meta") if isinstance(params, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or not isinstance(meta, dict):
            return message
        read: JsonObject = {_DECLARED: {}} if isinstance(meta.get(_DECLARED), list) else {}
        return {**message, "params": {**params, "_meta": {**meta, **read}}}


@fault("client-gone-by-lack", "lifecycle.missing-capability")
class _LackForgotten(Fault):
    """A server that stops answering after it rejected a client that lacks a capability."""

    def __init__(self) -> None:
        self._gone = False

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        self._gone = name_of(inbound) == _SAMPLING and not _declared(inbound)
        raise error

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        if self._gone and _method(inbound) in ("ping", "server/discover"):
            self._gone = False
            return None
        return response


@fault("capabilities-remembered", "jsonrpc.stateless-capabilities", "capability.missing-required",
       "http.missing-capability", revisions=MODERN)  # fmt: skip
class _RememberedCapabilities(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if name_of(inbound) == "test_missing_capability":
            return {"content": []}
        raise error


# --- codes -----------------------------------------------------------------------------------------------------------


@fault("unknown-method-code", "jsonrpc.unknown-method", "http.method-not-found")
class _UnknownMethod(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if _method(inbound) == "conformance/does-not-exist":
            raise RpcError(-32600, str(error), error.data, error.status)
        raise error


@fault("missing-field-200", "meta.missing-status", "http.meta-missing", revisions=MODERN, transports=_HTTP)
class _MissingField(Fault):
    def error_status(self, code: JsonValue, status: int) -> int:
        return 200 if code == -32602 else status


def _no_reference(inbound: InboundRequest) -> bool:
    ref = inbound.params.get("ref")
    return isinstance(ref, dict) and ref.get("name") == "none"


def _coded(
    name: str,
    check: str,
    code: int,
    revisions: tuple[str, ...] | None = None,
    transports: tuple[str, ...] = (*_PIPES, *_HTTP),
) -> None:
    """Add a fault that rejects a completion without a prompt with another code; the check is passive."""

    class _OtherCode(Fault):
        def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
            if _no_reference(inbound):
                # Another check covers the status.
                raise RpcError(code, str(error), error.data, {-32601: 404, -32021: 400}.get(code, 200))
            raise error

    fault(name, check, revisions=revisions, transports=transports)(_OtherCode)


_coded("completion-unserved", "capability.declared-served", -32601)
_coded("code-reserved", "error.reserved-range", -32050, MODERN)
_coded("code-of-headers", "error.reserved-codes-meaning", -32020, MODERN, _PIPES)
_coded("code-of-missing-capability", "error.reserved-codes-meaning", -32021, MODERN)


@fault("code-of-missing-capability-for-declared-ones", "error.reserved-codes-meaning", revisions=MODERN)
class _DeclaredMissing(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if _no_reference(inbound):
            raise RpcError(-32021, str(error), {"requiredCapabilities": {"sampling": {}}}, 400)
        raise error


@fault(
    "capabilities-of-last-client",
    "capability.undeclared-not-asked",
    "elicitation.only-declared-modes",
    revisions=LEGACY,
    transports=_HTTP,
)
class _CapabilitiesOfLast(Fault):
    """A server that keeps the capabilities of the last client for all its clients."""

    def __init__(self) -> None:
        self._last: JsonObject = {}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _method(inbound) == "initialize":
            self._last = _declared(inbound)
        return result

    def may_request_input(self, inbound: InboundRequest, method: str, *, declared: bool) -> bool:  # noqa: ARG002
        return method.partition("/")[0] in self._last


@fault(
    "capabilities-of-earlier-requests",
    "capability.undeclared-not-asked",
    "elicitation.only-declared-modes",
    revisions=MODERN,
    transports=_PIPES,
)
class _CapabilitiesOfEarlier(Fault):
    """A server that keeps what any request of a client has declared."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        meta = params.get("_meta") if isinstance(params, dict) else None
        declared = meta.get(_DECLARED) if isinstance(meta, dict) else None
        self._known |= set(declared) if isinstance(declared, dict) else set()
        return message

    def may_request_input(self, inbound: InboundRequest, method: str, *, declared: bool) -> bool:  # noqa: ARG002
        return method.partition("/")[0] in self._known


@fault(
    *("extension-of-earlier-requests", "jsonrpc.result-type-not-unadvertised", "tasks.required"),
    revisions=MODERN,
    transports=_PIPES,
)
class _ExtensionOfEarlier(Fault):
    """A server that creates a task for a call if any request of the client has declared the extension."""

    def __init__(self) -> None:
        self._extensions: JsonValue = None

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        meta = params.get("_meta") if isinstance(params, dict) else None
        declared = meta.get(_DECLARED) if isinstance(meta, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or not isinstance(declared, dict):
            return message
        self._extensions = declared.get("extensions", self._extensions)
        if self._extensions is None or message.get("method") != "tools/call":
            return message
        whole: JsonObject = {**declared, "extensions": self._extensions}
        known = meta if isinstance(meta, dict) else {}
        return {**message, "params": {**params, "_meta": {**known, _DECLARED: whole}}}


class _MetaOfConnection(Fault):
    """A server that completes a request with what the one before it on the connection declared."""

    key: str

    def completed(self, kept: JsonObject, message: JsonObject) -> JsonObject:
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        if isinstance(params, dict) and "id" in message:
            given = meta if isinstance(meta, dict) else {}
            whole = {**{key: kept[key] for key in kept if key == self.key or not given}, **given}
            kept.update(whole)
            return {**message, "params": {**params, "_meta": whole}}
        return message


for _name, _key in (("meta", ""), ("version", _VERSION), ("capabilities", _DECLARED)):
    fault(f"{_name}-of-connection", "jsonrpc.stateless", revisions=MODERN, transports=_HTTP)(
        type("_OfConnection", (_MetaOfConnection,), {"key": _key})
    )


@fault("capabilities-of-session", "jsonrpc.stateless", revisions=MODERN, transports=_HTTP)
class _CapabilitiesOfSession(Fault):
    def beside(self, session: HttpSession | None, message: JsonObject) -> JsonObject:
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        if session is None or not isinstance(params, dict) or not isinstance(meta, dict):
            return message
        return {**message, "params": {**params, "_meta": {_DECLARED: session.capabilities, **meta}}}


# --- unsolicited messages --------------------------------------------------------------------------------------------


@fault("greets-first", "lifecycle.initialize-first", revisions=LEGACY, transports=_PIPES)
class _GreetsFirst(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if _method(inbound) == "initialize":
            inbound.notify("notifications/message", {"level": "emergency", "data": "hello"})
        return result


@fault("asks-before-initialized", "lifecycle.no-early-requests", revisions=LEGACY)
class _EarlyRequest(Fault):
    """A server that requests the roots as soon as it knows that the client has them."""

    def following(self, request: JsonObject) -> list[JsonValue]:
        params = request.get("params")
        declared = params.get("capabilities") if isinstance(params, dict) else None
        known = request.get("method") == "initialize" and isinstance(declared, dict) and "roots" in declared
        return [dict(_ROOTS)] if known else []

    def greeting(self, session: HttpSession) -> list[JsonValue]:
        return [] if session.initialized or "roots" not in session.capabilities else [dict(_ROOTS)]


def _sending(
    name: str,
    *caught_by: str,
    message: JsonObject,
    revisions: tuple[str, ...],
    transports: tuple[str, ...] = (*_PIPES, *_HTTP),
) -> None:
    """Add a fault that sends a message before the response of one tool."""

    class _Sends(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            if name_of(inbound) == "test_simple_text":
                inbound.send({"jsonrpc": "2.0", **message})
            return result

    fault(name, *caught_by, revisions=revisions, transports=transports)(_Sends)


_LOG: Final[JsonObject] = {"level": "emergency", "data": "help"}
_sending(
    "notification-with-id",
    "jsonrpc.notification-no-id",
    message={"id": "told", "method": "notifications/message", "params": _LOG},
    revisions=LEGACY,
)
_sending(
    "asks-by-request",
    "jsonrpc.server-no-requests",
    "mrtr.no-requests",
    message={"id": "asked", "method": "ping"},
    revisions=MODERN,
    # Over HTTP there is no endpoint for the response, so the call itself fails.
    transports=_PIPES,
)


@fault("changes-undeclared", "capability.list-changed-declared", revisions=LEGACY)
class _ChangesUndeclared(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {**declared, "prompts": {}}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_simple_text":
            inbound.send({"jsonrpc": "2.0", "method": _CHANGED})
        return result


@fault("tool-changes-undeclared", "capability.list-changed-undeclared", "capability.list-changed-declared",
       revisions=LEGACY)  # fmt: skip
class _ToolChangesUndeclared(Fault):
    """A server that notifies of changed tools although it denies that."""

    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {**declared, "tools": {"listChanged": False}}


@fault("subscriptions-undeclared", "capability.undeclared-not-served", revisions=LEGACY)
class _SubscriptionsUndeclared(Fault):
    """A server that serves subscriptions to resources, and declares none."""

    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {**declared, "resources": {"listChanged": True}}


@fault("updates-undeclared", "resources.updated-needs-capability", revisions=LEGACY)
class _UpdatesUndeclared(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {**declared, "resources": {"listChanged": True}}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_simple_text":
            inbound.notify("notifications/resources/updated", {"uri": "test://watched-resource"})
        return result


@fault("ids-as-fractions", "jsonrpc.request-id-type", revisions=LEGACY)
class _Fractions(Fault):
    def client_request_id(self, id: str) -> JsonValue:
        return int(id[1:]) + 0.5


@fault("ids-all-the-same", "jsonrpc.request-id-unique", revisions=LEGACY)
class _Same(Fault):
    def client_request_id(self, id: str) -> JsonValue:  # noqa: ARG002
        return "same"


# --- the two eras, and keys of `_meta` -------------------------------------------------------------------------------

changed("text-without-content", "tools.text", method="tools/call", of="test_simple_text",
        change=lambda _, result: {**result, "content": []})  # fmt: skip
changed("meta-key-of-tools-with-underscore", "meta.key-name", method="tools/list", change=lambda _, result: {
        **result, "tools": [{**tool, "_meta": {"_framework": {}}} for tool in _rows(result)]}, revisions=LEGACY[2:])  # fmt: skip
changed("reserved-meta-key", "meta.key-reserved-before-last", method="tools/call", of="test_simple_text",
        change=lambda _, result: {**result, "_meta": {"com.mcp.tools/odd": 1}}, revisions=LEGACY[2:3])  # fmt: skip
