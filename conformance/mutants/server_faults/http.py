"""Faults over HTTP: access control, statuses, sessions, streams, and HTTP+SSE."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault, ids_of
from mutants.server.protocol import LEGACY, MODERN, RpcError
from mutants.server.streams import HttpSession

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BufferedIOBase

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import Checks, InboundRequest
    from mutants.server.session import Answers, Session
    from mutants.server.streams import AccessInfo

__all__ = ["breaking"]

_HTTP: Final = ("http",)
_SSE: Final = ("http-sse",)
_STREAMS: Final = LEGACY[1:]
_OLD: Final = LEGACY[:1]


# --- access control ---------------------------------------------------------------------------------------------------


def _admitting(
    name: str,
    checks: Checks,
    lets: Callable[[AccessInfo], bool],
    revisions: tuple[str, ...] = MODERN,
    transport: str = "http",
) -> None:
    """Add a server that admits a request that it must reject."""

    class _Admits(Fault):
        def admits(self, info: AccessInfo, *, admitted: bool) -> bool:
            return admitted or lets(info)

        def keeps(self, rule: str) -> bool:
            return not (rule == "content-type" and checks == "http.origin-simple-post")

    fault(name, *ids_of(checks), revisions=revisions, transports=(transport,))(_Admits)


def _is_evil(info: AccessInfo, kind: str) -> bool:
    return info.kind == kind and info.origin == "https://evil.example"


def _host(info: AccessInfo) -> str:
    """Return the host of an Origin, as a parser without care reads it."""
    return (info.origin or "").partition("://")[2].rpartition(":")[0]


def _port(info: AccessInfo) -> str:
    return (info.origin or "").rpartition(":")[2]


_admitting(
    "origin-foreign", "http.origin-foreign", lambda a: _is_evil(a, "request") and a.content_type == "application/json"
)
_admitting("origin-by-prefix", "http.origin-lookalike", lambda a: (a.origin or "").startswith("http://127.0.0.1."))
_admitting(
    "origin-begins-with-localhost", "http.origin-lookalike", lambda a: (a.origin or "").startswith("http://localhost")
)
_admitting(
    "sse-origin-begins-with-localhost",
    "http-sse.origin-post",
    lambda a: (a.origin or "").startswith("http://localhost"),
    _OLD,
    "http-sse",
)
_admitting("origin-by-suffix", "http.origin-lookalike", lambda a: _host(a).endswith("127.0.0.1"))
_admitting("origin-by-suffix-of-name", "http.origin-lookalike", lambda a: _host(a).endswith("localhost"))
_admitting(
    "origin-contains-host", ("http.origin-lookalike", "http.dns-rebinding"), lambda a: f"//{a.host}" in (a.origin or "")
)
_admitting(
    "origin-by-port", ("http.origin-lookalike", "http.dns-rebinding"), lambda a: _port(a) == a.host.rpartition(":")[2]
)
_admitting("origin-of-user", "http.origin-lookalike", lambda a: "://127.0.0.1:" in (a.origin or "") and "@" in _host(a))
_admitting(
    "origin-with-dot",
    "http.origin-lookalike",
    lambda a: _host(a).rstrip(".").endswith("127.0.0.1.evil.example") and _host(a).endswith("."),
)
_admitting("origin-of-any-scheme", "http.origin-lookalike", lambda a: (a.origin or "").startswith("https://127.0.0.1."))
_admitting("origin-in-punycode", "http.origin-lookalike", lambda a: _host(a).startswith("xn--"))
_admitting("origin-null", "http.origin-null", lambda a: a.origin == "null")
_admitting("origin-as-host", "http.dns-rebinding", lambda a: a.origin == f"http://{a.host}")


def _rebound(name: str, check: str, kind: str, revisions: tuple[str, ...] = MODERN, transport: str = "http") -> None:
    """Add a server that takes the Origin of some messages for its own when it is equal to the Host."""
    _admitting(name, check, lambda a: a.kind == kind and a.origin == f"http://{a.host}", revisions, transport)


_rebound("rebound-notification-unchecked", "http.dns-rebinding", "notification")
_rebound("rebound-get-unchecked", "http.origin-stream", "GET", _STREAMS)
_rebound("rebound-delete-unchecked", "http.origin-delete", "DELETE", _STREAMS)
_rebound("sse-rebound-get-unchecked", "http-sse.origin-stream", "GET", _OLD, "http-sse")
_admitting(
    "simple-post-unchecked",
    "http.origin-simple-post",
    lambda a: _is_evil(a, "request") and a.content_type == "text/plain",
)
_admitting("notification-unchecked", "http.origin-notification", lambda a: _is_evil(a, "notification"))
_admitting("get-unchecked", "http.origin-stream", lambda a: _is_evil(a, "GET"), _STREAMS)
_admitting("resumption-unchecked", "http.origin-stream", lambda a: _is_evil(a, "resumption"), _STREAMS)
_admitting("response-unchecked", "http.origin-notification", lambda a: _is_evil(a, "response"), _STREAMS)
_admitting("delete-unchecked", "http.origin-delete", lambda a: _is_evil(a, "DELETE"), _STREAMS)
_admitting("sse-get-unchecked", "http-sse.origin-stream", lambda a: _is_evil(a, "GET"), _OLD, "http-sse")
_admitting("sse-post-unchecked", "http-sse.origin-post", lambda a: a.kind == "request", _OLD, "http-sse")
_admitting(
    "sse-notification-unchecked", "http-sse.origin-post", lambda a: _is_evil(a, "notification"), _OLD, "http-sse"
)
_admitting("sse-response-unchecked", "http-sse.origin-post", lambda a: _is_evil(a, "response"), _OLD, "http-sse")


@fault(
    "initialize-unchecked",
    "http.origin-foreign",
    "http.dns-rebinding",
    "http.authentication",
    revisions=_STREAMS,
    transports=_HTTP,
)
class _InitializeUnchecked(Fault):
    def exempts(self, message: JsonValue) -> bool:
        return isinstance(message, dict) and message.get("method") == "initialize"


def _exempting(method: str, revisions: tuple[str, ...]) -> None:
    """Add a server that admits requests of a method from every page."""

    class _Exempts(Fault):
        def exempts(self, message: JsonValue) -> bool:
            return isinstance(message, dict) and message.get("method") == method

    era = "modern" if revisions is MODERN else "legacy"
    name = f"origin-unread-of-{era}-{method.replace('/', '-')}"
    # Such a server does not read the credentials of these requests either.
    others = ("http.authentication", "http.dns-rebinding", "http.origin-foreign") if method == "initialize" else ()
    fault(name, "http.origin-every-method", *others, revisions=revisions, transports=_HTTP)(_Exempts)


for _method in ("subscriptions/listen", "tools/call", "resources/read", "prompts/list", "completion/complete"):
    _exempting(_method, MODERN)
for _method in ("initialize", "tools/call", "resources/read"):
    _exempting(_method, _STREAMS)


@fault("foreign-get-streams", "http.origin-every-method", "http.no-resumption", revisions=MODERN, transports=_HTTP)
class _ForeignGet(Fault):
    """A server that answers GET with a stream, also of a foreign page."""

    def admits(self, info: AccessInfo, *, admitted: bool) -> bool:
        return admitted or info.kind == "GET"

    def keeps(self, rule: str) -> bool:
        return rule != "no-resumption"


@fault("origin-400", *(f"http.{each}" for each in (
    "origin-foreign", "origin-lookalike", "origin-null", "origin-notification", "origin-every-method"
)), revisions=MODERN, transports=_HTTP)  # fmt: skip
class _Origin400(Fault):
    def refusal(self, why: str, status: int) -> int:
        return 400 if why == "origin" else status


@fault("preflight-granted", "http.origin-preflight", transports=_HTTP)
class _Preflight(Fault):
    def head(self, method: str, status: int, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
        if method != "OPTIONS":
            return status, headers
        return 204, {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "POST"}


@fault("all-addresses", "http.bind-localhost", transports=_HTTP)
class _AllAddresses(Fault):
    def address(self, address: str) -> str:  # noqa: ARG002
        return "0.0.0.0"  # noqa: S104  this is the fault


@fault("sse-all-addresses", "http-sse.bind-localhost", revisions=_OLD, transports=_SSE)
class _SseAllAddresses(_AllAddresses):
    """The same fault over HTTP+SSE."""


@fault("no-credentials", "http.authentication", revisions=MODERN, transports=_HTTP)
class _NoCredentials(Fault):
    def knows(self, session: str | None, *, known: bool) -> bool:  # noqa: ARG002
        return True


@fault("sse-no-credentials", "http-sse.authentication", revisions=_OLD, transports=_SSE)
class _SseNoCredentials(_NoCredentials):
    """The same fault over HTTP+SSE."""


@fault("session-as-credentials", "http.session-no-credentials", revisions=LEGACY[2:], transports=_HTTP)
class _SessionAsCredentials(Fault):
    def knows(self, session: str | None, *, known: bool) -> bool:
        return known or session is not None


@fault("origin-read-once", "http.origin-foreign", transports=_HTTP)
class _OriginReadOnce(Fault):
    """A server that reads the Origin of the first request of each HTTP connection."""

    def admits(self, info: AccessInfo, *, admitted: bool) -> bool:
        admitted = admitted or info.kept.get("admitted") is True
        info.kept["admitted"] = admitted
        return admitted


@fault("subscription-answered", "http.removed-methods", revisions=MODERN, transports=_HTTP)
class _SubscriptionAnswered(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if inbound.modern and inbound.request["method"] == "resources/subscribe":
            return {}
        raise error


# --- sessions ---------------------------------------------------------------------------------------------------------


@fault("version-of-header", "version.echo", revisions=LEGACY[2:], transports=_HTTP)
class _VersionOfHeader(Fault):
    """A server that negotiates the version in the header of `initialize`, if there is one."""

    def opens_with(self, message: JsonObject, version: str | None) -> JsonObject:
        params = message.get("params")
        if version not in LEGACY or not isinstance(params, dict) or "protocolVersion" not in params:
            return message
        return {**message, "params": {**params, "protocolVersion": version}}


@fault("requested-version-kept", "version.alternative", revisions=LEGACY[3:], transports=_HTTP)
class _RequestedVersionKept(Fault):
    """A server that compares the header of later requests with the requested version, not with the negotiated one."""

    def __init__(self) -> None:
        self._requested: dict[int, JsonValue] = {}

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] == "initialize":
            self._requested[id(inbound.session)] = inbound.params["protocolVersion"]
        elif self._requested.get(id(inbound.session)) not in (None, inbound.session.revision):
            raise RpcError(-32600, "the version differs from that of the session", status=400)
        return result


@fault("ended-without-an-error", "session.ended", revisions=_STREAMS, transports=_HTTP)
class _EndedWithoutError(Fault):
    """A server that responds to requests in a terminated session without an error, and without a result."""

    def refusal_body(self, why: str, error: JsonObject) -> JsonObject:
        return {"jsonrpc": "2.0", "id": 1} if why == "ended" else error


# --- statuses ---------------------------------------------------------------------------------------------------------


def _status(
    name: str,
    checks: Checks,
    why: str,
    wrong: int,
    *,
    revisions: tuple[str, ...] = MODERN,
    words: tuple[str, ...] = (),
) -> None:
    """Add a server that rejects with another status."""

    class _Refuses(Fault):
        def refusal(self, why: str, status: int) -> int:
            return wrong if why == reason else status

    reason = why
    fault(name, *ids_of(checks), revisions=revisions, transports=_HTTP, words=words)(_Refuses)


def breaking(
    name: str,
    checks: Checks,
    *rules: str,
    revisions: tuple[str, ...] = MODERN,
    words: tuple[str, ...] = (),
) -> None:
    """Add a server that does not apply some rules."""

    class _Breaks(Fault):
        def keeps(self, rule: str) -> bool:
            return rule not in rules

    fault(name, *ids_of(checks), revisions=revisions, transports=_HTTP, words=words)(_Breaks)


_status("capability-200", "http.missing-capability", "capability", 200)
_status("version-404", "http.version-unknown", "version", 404, revisions=LEGACY[2:])
_status("no-session-404", "session.missing", "no-session", 404, revisions=_STREAMS)
_status("ended-400", "session.ended", "ended", 400, revisions=_STREAMS)
for _revisions, _era in ((_STREAMS, "legacy"), (MODERN, "modern")):
    breaking(f"{_era}-foreign-calls-run", "http.origin-without-effect", "foreign-without-effect", revisions=_revisions)
breaking("version-unchecked", "http.version-unknown", "version-unknown", revisions=LEGACY[2:])
for _kind in ("notification", "response", "GET", "resumption", "DELETE"):
    breaking(
        f"version-of-{_kind.lower()}-unchecked", "http.version-unknown", f"version of {_kind}", revisions=LEGACY[2:]
    )


@fault("version-by-order", "http.version-unknown", revisions=LEGACY[2:], transports=_HTTP)
class _VersionByOrder(Fault):
    def speaks(self, version: str | None, *, speaks: bool) -> bool:
        return speaks or (version is not None and len(version) == len(LEGACY[0]) and version > LEGACY[0])


@fault("version-before-latest", "http.version-unknown", revisions=LEGACY[2:], transports=_HTTP)
class _VersionBeforeLatest(Fault):
    def speaks(self, version: str | None, *, speaks: bool) -> bool:
        between = version is not None and LEGACY[0] < version < MODERN[0]
        return speaks or (between and len(str(version)) == len(LEGACY[0]))


breaking("version-name-exact", "http.version-unknown", "names-any-case MCP-Protocol-Version", revisions=LEGACY[2:])
breaking("session-name-exact", "http.post", "names-any-case Mcp-Session-Id", revisions=_STREAMS)
breaking("origin-name-exact", "http.origin-foreign", "names-any-case Origin", revisions=(*_STREAMS, *MODERN))
breaking("version-demanded", "http.version-absent", "version-absent", revisions=LEGACY[2:])
for _kind in ("notification", "GET"):
    breaking(
        f"version-of-{_kind.lower()}-demanded", "http.version-absent", f"version-absent {_kind}", revisions=LEGACY[2:]
    )
breaking("array-taken", ("http.array", "batch.refused"), "array")
breaking("response-taken", "http.response-posted", "response")
breaking("session-id-heeded", "http.session-ignored", "ignores Mcp-Session-Id")
breaking("event-id-heeded", "http.last-event-id-ignored", "ignores Last-Event-ID")
breaking("modern-resumption", "http.no-resumption", "no-resumption")
breaking("modern-resumption-from-zero", "http.no-resumption", "no-resumption 0")
for _kind in ("request", "notification", "response", "GET", "resumption", "DELETE"):
    breaking(f"{_kind.lower()}-after-end", "session.ended", f"ended {_kind}", revisions=_STREAMS)
breaking("alive-with-stream", "session.ended", "ended-with-stream", revisions=_STREAMS)
breaking("ended-until-next-end", "session.ended", "ended-by-next-end", revisions=_STREAMS)
breaking("ended-until-next-session", "session.ended", "ended-by-next-session", revisions=_STREAMS)
for _kind in ("response", "resumption"):
    breaking(f"{_kind}-without-session", "session.missing", f"session of {_kind}", revisions=_STREAMS)
breaking(
    "notification-with-empty-session", "http.notification-invalid", "empty session of notification", revisions=_STREAMS
)
breaking("ended-until-the-end-of-a-call", "session.ended-during-a-call", "ended-by-late-response", revisions=_STREAMS)
breaking("ends-all", "session.kept-apart", "ends-one", revisions=_STREAMS)
breaking("chunks-unread", "http.chunked-body", "chunks", revisions=(*LEGACY[1:], *MODERN))
# HTTP permits it (RFC 9110 section 15.5.12), so no check may fail.
breaking("length-demanded", (), "length-optional", revisions=(*LEGACY[1:], *MODERN))
breaking("no-end-of-stream", "sse.end", "end-of-stream")
breaking("progress-on-get", "sse.get-no-response", "get-unrelated", revisions=_STREAMS)
breaking("lost-response-on-get", "sse.own-responses", "no-orphan-on-get", revisions=_STREAMS)
breaking(
    "resumes-without-credentials",
    "http.session-no-credentials",
    "credentials-of-resumption",
    revisions=LEGACY[2:],
)
breaking("calls-end-with-get", "sse.get-dropped", "calls-after-get", revisions=_STREAMS)
breaking("errors-keep-their-stream", "sse.end", "end-of-error-stream", revisions=_STREAMS)
breaking("second-stream-409", "sse.second-stream", "several-streams", revisions=_STREAMS)
breaking("stream-of-second-session-409", "http.get", "streams-of-several-sessions", revisions=_STREAMS)
breaking("next-stream-400", "sse.second-stream", "next-stream", revisions=_STREAMS)
breaking(
    "request-on-two-streams",
    # A client takes the second one for another request with the same id.
    ("sse.no-broadcast", "jsonrpc.request-id-unique"),
    "request-once",
    revisions=_STREAMS,
)
breaking("logs-on-two-streams", "sse.no-broadcast", "log-once", revisions=_STREAMS)
breaking("response-on-get", "sse.get-no-response", "get-no-response", revisions=_STREAMS)


@fault("responses-on-get", "sse.get-no-response", "sse.own-responses", revisions=_STREAMS, transports=_HTTP)
class _ResponsesOnGet(Fault):
    """A server that sends all responses on the standalone stream of the session, if it is open."""

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        session = inbound.session
        if not isinstance(session, HttpSession) or not session.listen_streams:
            return response
        session.announce(response)
        return None


breaking("bare-initialize-refused", "compat.legacy-session", "bare initialize", revisions=MODERN)
breaking("requests-in-stream", "http.stream-no-requests", "no-requests")


def _shaping(
    name: str,
    checks: Checks,
    shape: Callable[[str, int, dict[str, str]], tuple[int, dict[str, str]]],
    *,
    revisions: tuple[str, ...] = MODERN,
    words: tuple[str, ...] = (),
) -> None:
    """Add a server whose responses have another status or other headers."""

    class _Shapes(Fault):
        def head(self, method: str, status: int, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
            return shape(method, status, headers)

    fault(name, *ids_of(checks), revisions=revisions, transports=_HTTP, words=words)(_Shapes)


_JSON: Final = "application/json"


def _is_json(headers: dict[str, str]) -> bool:
    return headers.get("Content-Type") == _JSON


_ALONE: Final = ("--modern-only",)
_shaping("created", ("http.post", "http.result-status"), lambda _, s, h: (201 if s == 200 and _is_json(h) else s, h))
_shaping(
    "stream-created",
    "http.result-status",
    lambda method, s, h: (201 if method == "POST" and s == 200 and not _is_json(h) else s, h),
)
_shaping(
    "notification-200",
    ("http.notification", "http.notification-invalid", "http.accepted-status"),
    lambda _, s, h: (200 if s == 202 else s, h),
    revisions=_STREAMS,
)
_shaping(
    "notification-204",
    ("http.notification-accepted", "http.notification-invalid", "http.accepted-status"),
    lambda _, s, h: (204 if s == 202 else s, h),
)


@fault(
    "cancellation-with-body", "http.notification-accepted", "http.accepted-status", revisions=MODERN, transports=_HTTP
)
class _CancellationWithBody(Fault):
    """A server that answers a cancellation with 202 and JSON."""

    def __init__(self) -> None:
        self._body = b""

    def accepted_status(self, message: JsonValue) -> int:
        is_cancelled = isinstance(message, dict) and message.get("method") == "notifications/cancelled"
        self._body = b"null" if is_cancelled else b""
        return super().accepted_status(message)

    def accepted(self) -> bytes:
        return self._body

    def head(self, method: str, status: int, headers: dict[str, str]) -> tuple[int, dict[str, str]]:  # noqa: ARG002
        return status, {**headers, "Content-Type": _JSON} if status == 202 else headers


for _revisions, _era in ((_STREAMS, "legacy"), (MODERN, "modern")):

    @fault(f"{_era}-unknown-notification-204", "http.accepted-status", revisions=_revisions, transports=_HTTP)
    class _UnknownNotification204(Fault):
        def accepted_status(self, message: JsonValue) -> int:
            is_unknown = isinstance(message, dict) and message.get("method") == "notifications/conformance-unknown"
            return 204 if is_unknown else 202


def _answering(name: str, member: str, *checks: str) -> None:
    """Add a server that answers a posted response with 200."""

    class _Answers(Fault):
        def accepted_status(self, message: JsonValue) -> int:
            is_response = isinstance(message, dict) and "method" not in message and member in message
            return 200 if is_response else 202

    fault(name, *checks, revisions=_STREAMS, transports=_HTTP)(_Answers)


for _revisions, _era in ((LEGACY[3:], "legacy"), (MODERN, "modern")):

    @fault(f"{_era}-notification-error-200", "http.notification-invalid", revisions=_revisions, transports=_HTTP)
    class _NotificationError200(Fault):
        """A server that answers an invalid notification with an error and the status 200."""

        def invalid_status(self, message: JsonValue) -> int:
            return 200 if isinstance(message, dict) and "id" not in message else 400


@fault("initialize-without-id", "http.notification-invalid", revisions=_STREAMS, transports=_HTTP)
class _InitializeWithoutId(Fault):
    """A server that opens a session for an `initialize` without an id."""

    def opens_with(self, message: JsonObject, version: str | None) -> JsonObject:  # noqa: ARG002
        return {"id": 0, **message}


_answering("result-200", "result", "http.notification", "http.accepted-status")
_answering("error-200", "error", "http.notification")
_shaping(
    "text-plain",
    ("http.response-type", "http.content-type"),
    lambda _, s, h: (s, {**h, "Content-Type": "text/plain"} if _is_json(h) else h),
)
for _revisions, _era in ((LEGACY[3:], "legacy"), (MODERN, "modern")):
    _shaping(
        f"{_era}-streams-as-text",
        "http.content-type",
        lambda m, s, h: (
            s,
            {**h, "Content-Type": "text/plain"} if m == "POST" and "stream" in h.get("Content-Type", "") else h,
        ),
        revisions=_revisions,
    )


def _understanding(name: str, understands: Callable[[str, str], bool]) -> None:
    """Add a server that rejects some forms of the headers Accept and Content-Type."""

    class _Understands(Fault):
        def understands(self, accept: str, content_type: str) -> bool:
            return understands(accept, content_type)

    fault(name, "http.response-type", transports=_HTTP)(_Understands)


_understanding("accept-in-one-order", lambda accept, _: not accept.startswith("text/event-stream,"))
_understanding("accept-without-weights", lambda accept, _: ";q=0.9" not in accept)
_understanding("charset-refused", lambda _, content_type: ";" not in content_type)
_shaping("session-minted", "http.no-session", lambda _, s, h: (s, {"Mcp-Session-Id": "minted", **h}))
_shaping(
    "errors-as-html",
    "http.content-type",
    lambda _, s, h: (s, {**h, "Content-Type": "text/html"} if s >= 400 and _is_json(h) else h),
)
_shaping(
    "buffering",
    "http.accel-buffering",
    lambda _, s, h: (s, {name: value for name, value in h.items() if name != "X-Accel-Buffering"}),
)
breaking("listen-buffered", "http.accel-buffering", "listen-unbuffered")
_shaping(
    "session-minted-on-streams",
    "http.no-session",
    lambda _, s, h: (s, {"Mcp-Session-Id": "minted", **h} if "stream" in h.get("Content-Type", "") else h),
)
_shaping(
    "get-json",
    # No client receives notifications on that stream.
    (
        *("http.get", "resources.updated", "resources.updated-only-if-subscribed", "resume.by-get"),
        *("prompts.list-changed", "resources.list-changed", "tools.list-changed"),
    ),
    lambda m, s, h: (s, {**h, "Content-Type": _JSON} if m == "GET" and s == 200 else h),
    revisions=_STREAMS,
)
_shaping("get-404", "http.get-refused", lambda m, s, h: (404 if (m, s) == ("GET", 405) else s, h), words=_ALONE)
_shaping(
    "delete-200",
    ("http.delete-refused", "http.origin-every-method"),
    lambda m, s, h: (200 if m == "DELETE" else s, h),
    words=_ALONE,
)


_status(
    "legacy-initialize-404",
    ("http.legacy-initialize", "compat.initialize-refused"),
    "initialize",
    404,
    words=_ALONE,
)
breaking("reads-one-by-one", ("http.slow-client", "http.split-character"), "reads-apart")


@fault("bodies-in-portions", "http.split-character", transports=_HTTP)
class _BodiesInPortions(Fault):
    """A server that decodes each portion of a body, also one that ends within a character."""

    def posted_body(self, source: BufferedIOBase, length: int) -> bytes:
        text, left = "", length
        while left and (data := source.read1(left)):
            text, left = text + data.decode("utf-8", "replace"), left - len(data)
        return text.encode()


@fault("initialize-answered", "http.removed-initialize", revisions=MODERN, transports=_HTTP, words=_ALONE)
class _InitializeAnswered(Fault):
    def keeps(self, rule: str) -> bool:
        return rule != "removed-initialize"

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        if inbound.request["method"] != "initialize":
            return response
        return {"jsonrpc": "2.0", "id": response["id"], "result": {"resultType": "complete"}}


@fault("answers-by-id", "http.same-ids", "schema.server-messages", revisions=MODERN, transports=_HTTP)
class _AnswersById(Fault):
    """A server that gives one client the response to another client's request with the same id."""

    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        taken = (inbound.request["id"], inbound.request["method"]) == ("conformance-same", "server/discover")
        own = {key: each for key, each in result.items() if key not in ("supportedVersions", "capabilities")}
        return {**own, "tools": []} if taken else result


@fault("same-id-refused", "http.same-ids", revisions=MODERN, transports=_HTTP)
class _SameIdRefused(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["id"] == "conformance-same" and str(inbound.request["method"]).endswith("/list"):
            raise RpcError(-32603, "the id is in use")
        return result


class _IdsOfAll(Fault):
    """A server that keeps the ids of running calls for all its clients together."""

    def __init__(self) -> None:
        self._running: list[JsonValue] = []
        self._cancelled: list[JsonValue] = []

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        if isinstance(message, dict) and isinstance(params, dict) and params.get("name") == "conformance_wait":
            self._running.append(message.get("id"))
        return message

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        id = inbound.request["id"]
        if inbound.params.get("name") != "conformance_wait":
            return response
        self._running.remove(id)
        return None if id in self._cancelled else response


class _IdInUse(_IdsOfAll):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] in ("ping", "server/discover") and inbound.request["id"] in self._running:
            raise RpcError(-32600, "the id is in use")
        return result


class _CancelsOfAll(_IdsOfAll):
    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        params = message.get("params")
        id = params.get("requestId") if isinstance(params, dict) else None
        self._cancelled += [id] if id in self._running else []
        return answer


class _AnswersOfAll(Fault):
    """A server that keeps its client requests for all its clients together."""

    def __init__(self) -> None:
        self._answers: Answers = {}

    def answers(self, own: Answers) -> Answers:  # noqa: ARG002
        return self._answers


fault("answers-of-all-sessions", "session.same-ids", revisions=_STREAMS, transports=_HTTP)(_AnswersOfAll)
fault("id-in-use-by-another", "http.same-ids", revisions=MODERN, transports=_HTTP)(_IdInUse)
fault("id-in-use-by-session", "session.same-ids", revisions=_STREAMS, transports=_HTTP)(_IdInUse)
fault("cancels-of-all-sessions", "session.same-ids", revisions=_STREAMS, transports=_HTTP)(_CancelsOfAll)
fault("sse-id-in-use", "session.same-ids", revisions=_OLD, transports=_SSE)(_IdInUse)
fault("sse-cancels-of-all", "session.same-ids", revisions=_OLD, transports=_SSE)(_CancelsOfAll)


class _ErrorStatus(Fault):
    """A server that sends an error with status 200."""

    code: int

    def error_status(self, code: JsonValue, status: int) -> int:
        """Return the status of an error."""
        return 200 if code == self.code else status


@fault("unsupported-version-200", "http.unsupported-version", revisions=MODERN, transports=_HTTP)
class _Unsupported200(_ErrorStatus):
    code = -32022


@fault("meta-missing-200", "http.meta-missing", "meta.missing-status", revisions=MODERN, transports=_HTTP)
class _MetaMissing200(_ErrorStatus):
    code = -32602


@fault("method-not-found-200", "http.method-not-found", "http.removed-methods", revisions=MODERN, transports=_HTTP)
class _NotFound200(_ErrorStatus):
    code = -32601


@fault("versions-of-calls-200", "http.error-status", revisions=MODERN, transports=_HTTP)
class _VersionsOfCalls200(Fault):
    """A server that sends the error for an unsupported version with the status 400 only for `server/discover`."""

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if error.code == -32022 and inbound.request["method"] != "server/discover":
            raise RpcError(error.code, str(error), error.data)
        return super().refused(inbound, error)


@fault("ping-answered", "http.removed-methods", revisions=MODERN, transports=_HTTP)
class _PingAnswered(Fault):
    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        if inbound.modern and inbound.request["method"] == "ping":
            return {"jsonrpc": "2.0", "id": response["id"], "result": {"resultType": "complete"}}
        return response


# --- sessions ---------------------------------------------------------------------------------------------------------


@fault("last-revision-for-all", "session.own-revision", revisions=LEGACY[2:], transports=_HTTP)
class _LastRevision(Fault):
    """A server that speaks the revision of the latest session in every session."""

    def __init__(self) -> None:
        self._sessions: list[Session] = []

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] == "initialize":
            self._sessions.append(inbound.session)
            for each in self._sessions:
                each.revision = inbound.session.revision
        return result


@fault("session-counted", "session.id-random", "security.session-ids", revisions=_STREAMS, transports=_HTTP)
class _CountedIds(Fault):
    def __init__(self) -> None:
        self._last = 0

    def session_id(self, id: str, number: int) -> str:  # noqa: ARG002
        self._last += 1
        return f"session-{self._last:012}"


@fault("session-by-time", "session.id-random", "security.session-ids", revisions=_STREAMS, transports=_HTTP)
class _IdsByTime(Fault):
    def session_id(self, id: str, number: int) -> str:  # noqa: ARG002
        return str(uuid.uuid1(node=0x5E0000000001, clock_seq=77))


@fault("session-with-space", "session.id-ascii", revisions=_STREAMS, transports=_HTTP)
class _WithSpace(Fault):
    def session_id(self, id: str, number: int) -> str:  # noqa: ARG002
        return f"{id[:16]} {id[16:]}"
