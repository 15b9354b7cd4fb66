"""Faults of log messages, progress, cancellation and subscriptions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, LEVELS, META, MODERN, RpcError
from mutants.server_faults.lists import changed, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest
    from mutants.server.streams import HttpSession

__all__ = ["notification_fault"]


def _params(message: JsonObject) -> JsonObject:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def notification_fault(
    name: str,
    *caught_by: str,
    method: str,
    change: Callable[[JsonObject], JsonObject],
    revisions: tuple[str, ...] | None = None,
    transports: tuple[str, ...] = ("stdio", "http"),
) -> None:
    """Add a fault of the params of notifications before a response.

    Args:
        name: The name of the fault.
        caught_by: The checks that must detect it.
        method: The method of the notification.
        change: The change of the params.
        revisions: The revisions in which it is observable.
        transports: The transports over which it is observable.
    """

    class _NotificationFault(Fault):
        def before(self, message: JsonValue) -> JsonValue:
            if isinstance(message, dict) and message.get("method") == method:
                return {**message, "params": change(_params(message))}
            return message

    fault(name, *caught_by, revisions=revisions, transports=transports)(_NotificationFault)


# --- ping, log messages, progress ------------------------------------------------------------------------------------

changed(
    "ping-with-more",
    "ping.empty-result",
    "ping.before-initialized",
    "ping.during-a-call",
    "schema.empty-result",
    method="ping",
    change=lambda _, __: {"pong": True},
    revisions=LEGACY,
)


@fault("logging-undeclared", "logging.declared", "logging.not-without-level")
class _LoggingUndeclared(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {key: value for key, value in declared.items() if key != "logging"}

    def level(self, wanted: str | None) -> str | None:
        return wanted or "debug"


@fault("every-level", "logging.level")
class _EveryLevel(Fault):
    def level(self, wanted: str | None) -> str | None:
        return wanted and "debug"


def _leveling(name: str, check: str, levels: dict[str, str], revisions: tuple[str, ...] | None = None) -> None:
    """Add a server that takes one level for another."""

    class _Levels(Fault):
        def level(self, wanted: str | None) -> str | None:
            return None if wanted is None else levels.get(wanted, wanted)

    fault(name, check, revisions=revisions)(_Levels)


_leveling("notice-as-info", "logging.level", {"notice": "info"})
_leveling("critical-as-error", "logging.level", {"critical": "error"})
_leveling("alert-as-emergency", "logging.level-is-served", {"alert": "emergency"}, LEGACY)


@fault("levels-in-alphabetical-order", "logging.level")
class _Alphabetical(Fault):
    """A server that compares the names of levels."""

    def enables(self, level: str, wanted: str, *, enabled: bool) -> bool:  # noqa: ARG002
        return level >= wanted


@fault("level-only-raised", "logging.level-is-served", revisions=LEGACY)
class _OnlyRaised(Fault):
    def __init__(self) -> None:
        self._highest = "debug"

    def level(self, wanted: str | None) -> str | None:
        if wanted is not None and LEVELS.index(wanted) > LEVELS.index(self._highest):
            self._highest = wanted
        return self._highest


@fault("logs-unasked", "logging.not-without-level", "logging.level-is-forgotten", revisions=MODERN)
class _LogsUnasked(Fault):
    def level(self, wanted: str | None) -> str | None:
        return wanted or "debug"


@fault("level-remembered", "logging.level-is-forgotten", "logging.not-without-level", revisions=MODERN)
class _LevelRemembered(Fault):
    def __init__(self) -> None:
        self.last: str | None = None

    def level(self, wanted: str | None) -> str | None:
        self.last = wanted or self.last
        return self.last


@fault("level-of-another", "logging.level-is-forgotten", revisions=MODERN)
class _LevelOfAnother(Fault):
    """A server that uses the level of a request for all that run at the same time."""

    def __init__(self) -> None:
        self._level: str | None = None

    def reads(self, message: JsonValue) -> JsonValue:
        params = _params(message) if isinstance(message, dict) else {}
        meta = params.get("_meta")
        if isinstance(meta, dict) and params.get("name") == "conformance_wait":
            level = meta.get(f"{META}logLevel")
            self._level = level if isinstance(level, str) else None
        return message

    def level(self, wanted: str | None) -> str | None:
        return wanted or self._level

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        if name_of(inbound) == "conformance_wait":
            self._level = None
        return response


@fault("errors-unasked", "logging.level-is-forgotten", "logging.not-without-level", revisions=MODERN)
class _ErrorsUnasked(Fault):
    def level(self, wanted: str | None) -> str | None:
        return wanted or "error"


@fault("errors-on-subscriptions", "logging.on-own-stream", "http.listen-apart", revisions=MODERN, transports=("http",))
class _ErrorsOnSubscriptions(Fault):
    def overheard(self, value: JsonValue, *, gone: bool) -> bool:  # noqa: ARG002
        is_log = isinstance(value, dict) and value.get("method") == "notifications/message"
        return is_log and isinstance(value, dict) and _params(value).get("level") in LEVELS[LEVELS.index("error") :]


@fault("logs-late", "logging.before-answer", revisions=MODERN, transports=("stdio",))
@fault("logs-late-over-http", "logging.before-answer", revisions=MODERN, transports=("http",))
class _LogsLate(Fault):
    def __init__(self) -> None:
        self.late = False

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] == "server/discover" and self.late:
            inbound.notify("notifications/message", {"level": "info", "data": "late"})
        self.late = name_of(inbound) == "test_logging_tool" and f"{META}logLevel" in inbound.meta
        return result


@fault("logs-behind-answer", "logging.before-answer", revisions=MODERN, transports=("stdio",))
@fault("logs-behind-answer-over-http", "logging.before-answer", revisions=MODERN, transports=("http",))
class _LogsBehind(Fault):
    tool = "test_logging_tool"

    def following(self, request: JsonObject) -> list[JsonValue]:
        params = _params(request)
        meta = params.get("_meta")
        if params.get("name") != self.tool or not isinstance(meta, dict) or f"{META}logLevel" not in meta:
            return []
        late: JsonObject = {"level": "emergency", "data": "late"}
        return [{"jsonrpc": "2.0", "method": "notifications/message", "params": late}]


@fault("errors-late", "logging.before-answer", revisions=MODERN, transports=("stdio",))
class _ErrorsBehind(_LogsBehind):
    tool = "conformance_logging"


@fault("logs-on-subscriptions", "logging.on-own-stream", "http.listen-apart", revisions=MODERN, transports=("http",))
class _LogsOnSubscriptions(Fault):
    def overheard(self, value: JsonValue, *, gone: bool) -> bool:  # noqa: ARG002
        return isinstance(value, dict) and value.get("method") == "notifications/message"


notification_fault("log-says-nothing", "logging.shape", "schema.log-message", method="notifications/message",
      change=lambda params: {"level": params["level"]})  # fmt: skip


def _log_with_secret(name: str, before: str) -> None:
    """Add a server that logs the arguments of a call behind a text."""

    class _LogWithSecret(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            arguments = inbound.params.get("arguments")
            if name_of(inbound) == "conformance_logging" and isinstance(arguments, dict):
                inbound.log("emergency", f"{before}{arguments}")
            return result

    fault(name, "logging.no-secrets")(_LogWithSecret)


_log_with_secret("log-with-secret", "called with ")
_log_with_secret("log-with-secret-at-its-end", f"called {'again and ' * 50}with ")


@fault("log-with-secret-as-logger", "logging.no-secrets")
class _LogWithSecretAsLogger(Fault):
    """A server that logs each call under the name of a logger for its arguments."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        arguments = inbound.params.get("arguments")
        secret = arguments.get("secret") if isinstance(arguments, dict) else None
        if name_of(inbound) == "conformance_logging" and (not inbound.modern or f"{META}logLevel" in inbound.meta):
            params: JsonObject = {"level": "emergency", "data": "called", "logger": f"call of {secret}"}
            inbound.notify("notifications/message", params)
        return result


def _logging_of(name: str, check: str, *methods: str, revisions: tuple[str, ...] = MODERN) -> None:
    """Add a server that logs requests of some methods, whether the client wants log messages or not."""

    class _LogsRequests(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            if inbound.request["method"] in methods:
                inbound.notify("notifications/message", {"level": "info", "data": f"served {methods[0]}"})
            return result

    fault(name, check, revisions=revisions)(_LogsRequests)


_logging_of("resources-logged-unasked", "logging.in-progress", "resources/read")
_logging_of("prompts-logged-unasked", "logging.in-progress", "prompts/get", "completion/complete")
_logging_of("lists-logged-unasked", "logging.in-progress", "tools/list", "resources/list", "prompts/list")
_logging_of("prompts-logged-at-any-level", "logging.level", "prompts/get", revisions=LEGACY)


@fault("level-of-last-client", "logging.level", "logging.level-is-served", revisions=LEGACY, transports=("http",))
class _LevelOfLastClient(Fault):
    """A server with one level for all its clients."""

    def __init__(self) -> None:
        self._level: str | None = None

    def reads(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and message.get("method") == "logging/setLevel":
            level = _params(message).get("level")
            self._level = level if level in LEVELS and isinstance(level, str) else self._level
        return message

    def level(self, wanted: str | None) -> str | None:
        return self._level or wanted


@fault("level-reset-by-rejected-one", "logging.unknown-level", revisions=LEGACY)
class _LevelReset(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if inbound.request["method"] == "logging/setLevel":
            inbound.session.level = "error"
        raise error


@fault("level-unread-by-a-tool", "logging.level", revisions=LEGACY)
class _UnreadByTool(Fault):
    """A server with a tool that logs without its help."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_logging_tool":
            inbound.notify("notifications/message", {"level": "info", "data": "logged"})
        return result


def _reading_levels(name: str, read: Callable[[str], str]) -> None:
    """Add a server that takes some invalid levels for others."""

    class _Reads(Fault):
        def reads(self, message: JsonValue) -> JsonValue:
            params = _params(message) if isinstance(message, dict) else {}
            if not isinstance(message, dict):
                return message
            if message.get("method") == "logging/setLevel" and isinstance(params.get("level"), str):
                return {**message, "params": {**params, "level": read(str(params["level"]))}}
            meta = params.get("_meta")
            level = meta.get(f"{META}logLevel") if isinstance(meta, dict) else None
            if not isinstance(meta, dict) or not isinstance(level, str):
                return message
            return {**message, "params": {**params, "_meta": {**meta, f"{META}logLevel": read(level)}}}

    fault(name, "logging.unknown-level")(_Reads)


_reading_levels("levels-of-any-case", str.lower)
_reading_levels("level-warn-for-warning", lambda level: "warning" if level == "warn" else level)
_reading_levels("level-empty-for-default", lambda level: level or "info")


@fault("levels-unread-by-calls", "logging.unknown-level", revisions=MODERN)
class _LevelsUnread(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if name_of(inbound) == "test_simple_text" and str(error) == "unknown level":
            return {"content": [{"type": "text", "text": "a simple text"}]}
        raise error


@fault("log-of-subscription", "logging.on-own-stream", revisions=MODERN)
class _LogOfSubscription(Fault):
    def __init__(self) -> None:
        self.listening: JsonValue = None

    def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
        self.listening = _params(acknowledgement).get("_meta")
        return [acknowledgement]

    def before(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and message.get("method") == "notifications/message":
            return {**message, "params": {**_params(message), "_meta": self.listening or {}}}
        return message


_READING: Final = ("prompts/get", "resources/read")
_PROGRESS: Final = "notifications/progress"
_FIXTURE: Final = "test_tool_with_progress"
notification_fault(
    "progress-stands-still", "progress.increasing", method=_PROGRESS, change=lambda params: {**params, "progress": 1}
)
notification_fault("progress-as-text", "progress.shape", "schema.progress", "progress.increasing", method=_PROGRESS,
      change=lambda params: {**params, "progress": "half"})  # fmt: skip
notification_fault("token-as-text", "progress.token", method=_PROGRESS,
      change=lambda params: {**params, "progressToken": str(params["progressToken"])})  # fmt: skip


@fault("progress-unasked", "progress.only-with-token", "progress.none-after-answers")
class _ProgressUnasked(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_tool_with_progress" and "progressToken" not in inbound.meta:
            inbound.notify(_PROGRESS, {"progressToken": 0, "progress": 1})
        return result


notification_fault("slow-progress-rounded", "progress.increasing", method=_PROGRESS, transports=("stdio",),
      change=lambda params: {**params, "progress": _tens(params["progress"])
                             if str(params["progressToken"]).startswith("conformance-slow") else params["progress"]})  # fmt: skip


def _tens(value: JsonValue) -> JsonValue:
    return value // 10 * 10 if isinstance(value, int) else value


@fault("token-zero-as-none", "progress.token", "tasks.progress-token", revisions=LEGACY)
class _ZeroAsNone(Fault):
    """A server that reports the progress of a request whose token is false with the id of the request."""

    def reads(self, message: JsonValue) -> JsonValue:
        params = _params(message) if isinstance(message, dict) else {}
        meta = params.get("_meta")
        if not isinstance(message, dict) or not isinstance(meta, dict) or "progressToken" not in meta:
            return message
        token = meta["progressToken"] or message.get("id")
        return {**message, "params": {**params, "_meta": {**meta, "progressToken": token}}}


class _LatestToken(Fault):
    """A server that reports the progress of all calls with the token of the latest."""

    def __init__(self) -> None:
        self._tokens: list[JsonValue] = []

    def reads(self, message: JsonValue) -> JsonValue:
        params = _params(message) if isinstance(message, dict) else {}
        meta = params.get("_meta")
        if isinstance(meta, dict) and "progressToken" in meta and params.get("name") == _FIXTURE:
            self._tokens.append(meta["progressToken"])
        return message

    def before(self, message: JsonValue) -> JsonValue:
        if not isinstance(message, dict) or message.get("method") != _PROGRESS:
            return message
        params = _params(message)
        # The first notification of each call is right, and so are those of other tools.
        if not params["progress"] or params["progressToken"] not in self._tokens:
            return message
        return {**message, "params": {**params, "progressToken": self._tokens[-1]}}


fault("progress-of-latest-call", "progress.token", "progress.increasing", transports=("stdio",))(_LatestToken)
fault("progress-of-latest-call-over-http", "progress.token", "sse.related", transports=("http",))(_LatestToken)


@fault("progress-behind-errors", "progress.not-after-answer", "progress.none-after-answers", transports=("stdio",))
class _ProgressBehindErrors(Fault):
    def following(self, request: JsonObject) -> list[JsonValue]:
        params = _params(request)
        meta = params.get("_meta")
        if params.get("name") != "test_error_handling" or not isinstance(meta, dict) or "progressToken" not in meta:
            return []
        late: JsonObject = {"progressToken": meta["progressToken"], "progress": 1000}
        return [{"jsonrpc": "2.0", "method": _PROGRESS, "params": late}]


@fault("progress-late", "progress.not-after-answer", "progress.none-after-answers")
class _ProgressLate(Fault):
    def __init__(self) -> None:
        self.late: JsonValue = None

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] in ("ping", "server/discover") and self.late is not None:
            inbound.notify(_PROGRESS, {"progressToken": self.late, "progress": 1000})
            self.late = None
        token = inbound.meta.get("progressToken")
        if token == "conformance-late":
            self.late = token
        return result


@fault("progress-behind-other-answers", "progress.not-after-answer", "progress.none-after-answers")
class _BehindOtherAnswers(Fault):
    """A server that reports the end of a request other than a call behind its response."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] in _READING:
            inbound.progress(1, 2)
        return result

    def following(self, request: JsonObject) -> list[JsonValue]:
        params = request.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if token is None or request["method"] not in _READING:
            return []
        return [{"jsonrpc": "2.0", "method": _PROGRESS, "params": {"progressToken": token, "progress": 2, "total": 2}}]


@fault("progress-behind-answer", "progress.not-after-answer", "progress.none-after-answers")
class _ProgressBehind(Fault):
    def following(self, request: JsonObject) -> list[JsonValue]:
        meta = _params(request).get("_meta")
        if not isinstance(meta, dict) or meta.get("progressToken") != "conformance-late":
            return []
        late: JsonObject = {"progressToken": meta["progressToken"], "progress": 1000}
        return [{"jsonrpc": "2.0", "method": _PROGRESS, "params": late}]


@fault("logger-of-each-call", "logging.logger", revisions=LEGACY)
class _LoggerOfCall(Fault):
    def __init__(self) -> None:
        self._number = 0

    def reads(self, message: JsonValue) -> JsonValue:
        self._number += 1
        return message

    def before(self, message: JsonValue) -> JsonValue:
        if not isinstance(message, dict) or message.get("method") != "notifications/message":
            return message
        return {**message, "params": {**_params(message), "logger": f"call-{self._number}"}}


@fault("log-limited", revisions=LEGACY[3:])
class _LogLimited(Fault):
    """A correct server that sends a message about others that it drops, under the name of another logger."""

    def __init__(self) -> None:
        self._sent = 0

    def before(self, message: JsonValue) -> JsonValue:
        if not isinstance(message, dict) or _params(message).get("level") != "emergency":
            return message
        self._sent += 1
        more: JsonObject = {"logger": "limiter"} if self._sent % 2 == 0 else {}
        return {**message, "params": {**_params(message), **more}}


# --- cancellation ----------------------------------------------------------------------------------------------------


@fault("goes-on", "cancellation.stops", "stdio.cancelled-silent", transports=("stdio",))
class _GoesOn(Fault):
    def cancels(self, id: JsonValue) -> bool:  # noqa: ARG002
        return False


@fault("cancels-what-is-answered", "cancellation.in-progress", revisions=LEGACY)
class _CancelsAnswered(Fault):
    def __init__(self) -> None:
        self._last: JsonValue = None

    def client_request_id(self, id: str) -> JsonValue:
        self._last = id
        return id

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        if self._last is not None and "result" in response and inbound.params.get("name") == "test_sampling":
            inbound.notify("notifications/cancelled", {"requestId": self._last})
        return response


@fault("cancels-what-failed", "cancellation.in-progress", revisions=LEGACY)
class _CancelsFailed(Fault):
    """A server that cancels a client request after the client has answered with an error."""

    def __init__(self) -> None:
        self._last: JsonValue = None

    def client_request_id(self, id: str) -> JsonValue:
        self._last = id
        return id

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        result = response.get("result")
        failed = not isinstance(result, dict) or result.get("isError") is True
        if self._last is not None and failed and inbound.params.get("name") == "test_sampling":
            inbound.notify("notifications/cancelled", {"requestId": self._last})
        return response


@fault("cancelled-answered", "cancellation.no-answer", transports=("stdio",))
class _CancelledAnswered(Fault):
    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        id = _params(message).get("requestId")
        if message["method"] == "notifications/cancelled" and isinstance(id, int) and "a check" in str(message):
            return {"jsonrpc": "2.0", "id": id, "error": {"code": -32800, "message": "cancelled"}}
        return answer


@fault("complains-of-unknown", "cancellation.of-the-unknown", transports=("stdio",))
class _Complains(Fault):
    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        if _params(message).get("requestId") == "conformance-never-sent":
            return {"jsonrpc": "2.0", "id": 0, "error": {"code": -32602, "message": "unknown request"}}
        return answer


@fault("complains-of-malformed", "cancellation.malformed", "jsonrpc.notification-not-answered", transports=("stdio",))
@fault("complains-of-missing-id", "cancellation.without-id", "cancellation.malformed",
       "jsonrpc.notification-not-answered", "jsonrpc.response-ids",
       revisions=LEGACY[3:], transports=("stdio",))  # fmt: skip
class _ComplainsOfMalformed(Fault):
    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        if message["method"] == "notifications/cancelled" and "requestId" not in _params(message):
            return {"jsonrpc": "2.0", "id": 0, "error": {"code": -32602, "message": "requestId is missing"}}
        return answer


@fault(
    "complains-of-missing-params", "cancellation.malformed", "jsonrpc.notification-not-answered", transports=("stdio",)
)
class _ComplainsOfParams(Fault):
    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        if message["method"] == "notifications/cancelled" and "params" not in message:
            return {"jsonrpc": "2.0", "id": 0, "error": {"code": -32603, "message": "params is undefined"}}
        return answer


@fault("waiting-call-answered", "cancellation.while-it-waits", revisions=LEGACY)
class _WaitingAnswered(Fault):
    """A server that does not cancel a call while it waits for the client."""

    def __init__(self) -> None:
        self._calls: list[JsonValue] = []

    def reads(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and _params(message).get("name") in ("test_sampling", "test_elicitation"):
            self._calls.append(message.get("id"))
        return message

    def cancels(self, id: JsonValue) -> bool:
        return id not in self._calls


@fault("waiting-call-zero-answered", "cancellation.while-it-waits", revisions=LEGACY)
class _WaitingZeroAnswered(Fault):
    """A server that takes a cancellation of the request with the id 0 for one without an id."""

    def cancels(self, id: JsonValue) -> bool:
        return id != 0


class _CancelsOthers(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_simple_text":
            inbound.notify("notifications/cancelled", {"requestId": "never-asked"})
        return result


fault("cancels-others", "cancellation.of-own-requests", revisions=LEGACY)(_CancelsOthers)
fault("cancels-no-subscription", "cancellation.by-server", revisions=MODERN)(type("_Modern", (_CancelsOthers,), {}))


# --- subscriptions ---------------------------------------------------------------------------------------------------


@fault("no-acknowledged-filter", "subscription.acknowledged-filter", "tasks.listen")
class _NoFilter(Fault):
    def acknowledged(self, wanted: JsonObject, granted: JsonObject) -> JsonObject:  # noqa: ARG002
        return {}


@fault(
    "heard-before-acknowledged", "subscription.acknowledged-first", "tasks.listen", "subscription.only-what-was-asked"
)
class _BeforeAcknowledged(Fault):
    def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
        early: JsonObject = {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": _params(acknowledgement)["_meta"]},
        }
        return [early, acknowledgement]


@fault("empty-filter-refused", "subscription.acknowledged-filter", revisions=MODERN)
class _EmptyFilterRefused(Fault):
    def filtered(self, user: str, id: JsonValue, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        if not wanted:
            raise RpcError(-32602, "notifications is empty", status=400)
        return wanted


@fault("empty-filter-omitted", "subscription.acknowledged-filter", "schema.server-messages", revisions=MODERN)
class _EmptyFilterOmitted(Fault):
    """A server that omits an empty object from its acknowledgment."""

    def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
        params = acknowledgement["params"]
        if not isinstance(params, dict) or params["notifications"]:
            return [acknowledgement]
        return [{**acknowledgement, "params": {key: each for key, each in params.items() if key != "notifications"}}]


@fault("filters-joined", "subscription.only-what-was-asked", revisions=MODERN, transports=("stdio",))
class _FiltersJoined(Fault):
    """A server with one filter for all subscriptions of a connection."""

    def __init__(self) -> None:
        self._filter: JsonObject = {}
        self._number = 0

    def filtered(self, user: str, id: JsonValue, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        self._number += 1
        self._filter.update(wanted)
        return self._filter

    def after_end(self, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        self._number -= 1
        if not self._number:
            self._filter = {}
        return {}


class _EarlierFilters(Fault):
    """A server with the filters of its active subscriptions in one list."""

    def __init__(self) -> None:
        self._filters: Final[list[JsonObject]] = []

    def after_end(self, wanted: JsonObject) -> JsonObject:
        self._filters[:] = [each for each in self._filters if each is not wanted]
        return {}


@fault("subscriptions-kept-by-text", "subscription.cancelled", revisions=MODERN, transports=("stdio",))
class _KeptByText(Fault):
    """A server that keeps its subscriptions by the text of their ids, so that a later one replaces an earlier one."""

    def __init__(self) -> None:
        self._filters: Final[dict[str, JsonObject]] = {}

    def filtered(self, user: str, id: JsonValue, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        self._filters.get(str(id), {}).clear()
        self._filters[str(id)] = dict(wanted)
        return self._filters[str(id)]


@fault("resources-acknowledged-together", "subscription.acknowledged-filter", revisions=MODERN, transports=("stdio",))
class _AcknowledgedTogether(_EarlierFilters):
    """A server that acknowledges the resources of all active subscriptions with those of the last one."""

    def filtered(self, user: str, id: JsonValue, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        self._filters.append(wanted)
        return wanted

    def acknowledged(self, wanted: JsonObject, granted: JsonObject) -> JsonObject:  # noqa: ARG002
        uris = granted.get("resourceSubscriptions")
        if not isinstance(uris, list):
            return granted
        earlier = [each.get("resourceSubscriptions") for each in self._filters]
        known = [uri for each in earlier if isinstance(each, list) for uri in each if uri not in uris]
        return {**granted, "resourceSubscriptions": [*uris, *known]}


@fault(
    *("changes-for-the-newest", "subscription.several", "subscription.cancelled"),
    *("subscription.only-these-resources", "subscription.clients-apart"),
    revisions=MODERN,
    transports=("http",),
)
class _ForTheNewest(_EarlierFilters):
    """A server that sends a notification of a type to the last of the subscriptions that ask for the type."""

    def filtered(self, user: str, id: JsonValue, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        for each in self._filters:
            for name in wanted:
                each.pop(name, None)
        self._filters.append(dict(wanted))
        return self._filters[-1]


@fault("false-as-requested", "subscription.only-what-was-asked", revisions=MODERN)
class _FalseAsRequested(Fault):
    """A server that looks whether a filter has a member, but not at its value."""

    def filtered(self, user: str, id: JsonValue, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        return {name: True if value is False else value for name, value in wanted.items()}


@fault("cancelled-subscription-answered", "subscription.cancelled", revisions=MODERN, transports=("stdio",))
class _CancelledSubscriptionAnswered(Fault):
    """A server that ends a subscription with its result when the client cancels it."""

    def __init__(self) -> None:
        self._open: list[JsonValue] = []

    def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
        meta = _params(acknowledgement)["_meta"]
        self._open.append(meta[_SUBSCRIPTION] if isinstance(meta, dict) else None)
        return [acknowledgement]

    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        id = _params(message).get("requestId")
        if message["method"] != "notifications/cancelled" or id not in self._open:
            return answer
        info: JsonObject = {"name": "raw", "version": "1.0"}
        meta: JsonObject = {_SUBSCRIPTION: id, f"{META}serverInfo": info}
        return {"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta": meta}}


@fault("second-cancellation-rejected", "subscription.cancelled", revisions=MODERN, transports=("stdio",))
class _SecondCancellationRejected(Fault):
    """A server that removes the subscription of a cancellation without a look whether it is still there."""

    def __init__(self) -> None:
        self._last: JsonValue = None

    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        id = _params(message).get("requestId")
        if message["method"] != "notifications/cancelled" or id not in ("471149", ""):
            return answer
        is_second, self._last = id == self._last, id
        error: JsonObject = {"code": -32603, "message": f"KeyError: {id}"}
        return {"jsonrpc": "2.0", "id": id, "error": error} if is_second else answer


@fault("any-subscriber", "subscription.only-what-was-asked", "subscription.only-these-resources", transports=("stdio",))
@fault(
    *("any-subscriber-over-http", "subscription.only-what-was-asked", "subscription.only-these-resources"),
    "subscription.clients-apart",
    revisions=MODERN,
    transports=("http",),
)
class _AnySubscriber(Fault):
    def wanted(self, method: str, *, wanted: bool) -> bool:  # noqa: ARG002
        return True


@fault("updates-of-longer-uris", "subscription.only-these-resources", revisions=MODERN)
class _LongerUri(Fault):
    def change_notification(self, message: JsonObject) -> JsonObject | None:
        params = message.get("params")
        if message["method"] != "notifications/resources/updated" or not isinstance(params, dict):
            return message
        return {**message, "params": {**params, "uri": f"{params['uri']}-other"}}


def _watching(
    name: str, check: str, watches: Callable[[list[JsonValue], str], bool], revisions: tuple[str, ...] = MODERN
) -> None:
    """Add a server that takes other resources for those of a subscription."""

    class _Watches(Fault):
        def watches(self, uris: list[JsonValue] | None, uri: str) -> bool:
            return super().watches(uris, uri) or (uris is not None and watches(uris, uri))

    fault(name, check, revisions=revisions)(_Watches)


for _name, _watches in {
    "by-beginning": lambda uris, uri: any(uri.startswith(str(each)) for each in uris),
    "by-longer-uri": lambda uris, uri: any(str(each).startswith(uri) for each in uris),
    "by-end": lambda uris, uri: any(
        uri.endswith(str(each).partition("://")[2]) or str(each).endswith(uri.partition("://")[2]) for each in uris
    ),
}.items():
    _watching(f"updates-{_name}", "subscription.only-these-resources", _watches)
    _watching(f"legacy-updates-{_name}", "resources.updated-only-if-subscribed", _watches, LEGACY)
_watching("updates-of-all-for-none", "subscription.only-these-resources", lambda uris, _: not uris)


@fault(
    *("updates-without-filter", "subscription.only-these-resources", "subscription.only-what-was-asked"),
    revisions=MODERN,
)
class _UpdatesWithoutFilter(Fault):
    def watches(self, uris: list[JsonValue] | None, uri: str) -> bool:
        return uris is None or super().watches(uris, uri)


@fault("updates-of-all-beside-list-changes", "subscription.only-these-resources", revisions=MODERN)
class _UpdatesBesideListChanges(Fault):
    """A server that sends updates of all resources to a subscription to changes of their list."""

    def filtered(self, user: str, id: JsonValue, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        uris = wanted.get("resourceSubscriptions")
        every = wanted.get("resourcesListChanged") is True and isinstance(uris, list)
        return {**wanted, "resourceSubscriptions": [*uris, "*"]} if every and isinstance(uris, list) else wanted

    def watches(self, uris: list[JsonValue] | None, uri: str) -> bool:
        return "*" in (uris or []) or super().watches(uris, uri)


@fault("filter-kept-by-id", "subscription.clients-apart", revisions=MODERN, transports=("http",))
class _FilterKept(Fault):
    """A server that adds the filter of an earlier subscription with the same id, if it is a string."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], JsonObject] = {}

    def filtered(self, user: str, id: JsonValue, wanted: JsonObject) -> JsonObject:
        known = self._known.get((user, str(id)), {})
        self._known[user, str(id)] = wanted
        return {**known, **wanted} if isinstance(id, str) else wanted


def _tagging(name: str, *checks: str, tag: Callable[[JsonValue], JsonValue], acknowledgment: bool) -> None:
    """Add a server that sends another subscription id in notifications, or also in the acknowledgment."""

    class _Tags(Fault):
        def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
            return [self._tagged(acknowledgement) if acknowledgment else acknowledgement]

        def change_notification(self, message: JsonObject) -> JsonObject | None:
            return self._tagged(message)

        def _tagged(self, message: JsonObject) -> JsonObject:
            params = _params(message)
            meta = params.get("_meta")
            id = meta.get(_SUBSCRIPTION) if isinstance(meta, dict) else None
            if id is None:
                return message
            found = tag(id)
            tagged: JsonObject = {} if found is None else {_SUBSCRIPTION: found}
            return {**message, "params": {**params, "_meta": tagged}}

    fault(name, *checks, revisions=MODERN)(_Tags)


_SUBSCRIPTION: Final = f"{META}subscriptionId"
_tagging(
    "falsy-subscription-renamed",
    "subscription.id",
    "subscription.cancelled",
    tag=lambda id: id or "subscription",
    acknowledgment=True,
)
_tagging(
    "zero-untagged",
    "subscription.id",
    "subscription.cancelled",
    tag=lambda id: id or None,
    acknowledgment=True,
)
_tagging("changes-of-zero-untagged", "subscription.id", tag=lambda id: id or None, acknowledgment=False)
_tagging(
    "subscription-of-digits-as-number",
    "subscription.id",
    "subscription.cancelled",
    tag=lambda id: int(id) if isinstance(id, str) and id.isdecimal() else id,
    acknowledgment=True,
)


def _by_id(name: str, event: str) -> None:
    """Add a server for which subscriptions of all clients with the same id are one when an event happens."""

    class _ById(Fault):
        def same_client(self, event: str, *, same: bool) -> bool:
            return same or event == happened

    happened = event
    fault(name, "subscription.clients-apart", revisions=MODERN, transports=("http",))(_ById)


_by_id("replaced-by-id", "open")
_by_id("cancelled-by-id", "cancel")
_by_id("disconnected-by-id", "disconnect")


@fault("changes-replayed", "subscription.clients-apart", revisions=MODERN, transports=("http",))
class _ChangesReplayed(Fault):
    """A server that keeps a change for the next subscription of a user whose subscription has ended."""

    def __init__(self) -> None:
        self._has_changed = False

    def change_notification(self, message: JsonObject) -> JsonObject | None:
        self._has_changed = self._has_changed or message["method"] == "notifications/tools/list_changed"
        return message

    def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
        params = _params(acknowledgement)
        granted = params["notifications"]
        if not self._has_changed or not isinstance(granted, dict) or "toolsListChanged" not in granted:
            return [acknowledgement]
        self._has_changed = False
        method = "notifications/tools/list_changed"
        return [acknowledgement, {"jsonrpc": "2.0", "method": method, "params": {"_meta": params["_meta"]}}]


@fault("acknowledges-unknown", "subscription.not-offered", revisions=MODERN)
class _AcknowledgesUnknown(Fault):
    def acknowledged(self, wanted: JsonObject, granted: JsonObject) -> JsonObject:
        return {**granted, **{name: value for name, value in wanted.items() if name.startswith("conformance")}}


@fault("acknowledges-false", "subscription.acknowledged-filter", revisions=MODERN)
class _AcknowledgesFalse(Fault):
    def acknowledged(self, wanted: JsonObject, granted: JsonObject) -> JsonObject:
        return {**granted, **{name: True for name, value in wanted.items() if value is False}}


@fault("one-uri-of-two", "subscription.only-these-resources", revisions=MODERN)
class _OneUri(Fault):
    def watched_uris(self, uris: list[JsonValue]) -> list[JsonValue]:
        return uris[:1]


@fault("one-change-of-two", *(f"subscription.{each}" for each in (
    "tools-changed", "prompts-changed", "resources-changed", "resource-updated", "only-these-resources"
)), revisions=MODERN, transports=("stdio",))  # fmt: skip
@fault("one-change-of-two-over-http", *(f"subscription.{each}" for each in (
    "tools-changed", "prompts-changed", "resources-changed", "resource-updated", "only-these-resources", "clients-apart"
)), revisions=MODERN, transports=("http",))  # fmt: skip
class _OneChange(Fault):
    def announces(self, number: int) -> bool:
        return number == 1


@fault("level-of-subscription", "logging.on-own-stream", "http.listen-apart", revisions=MODERN, transports=("http",))
class _LevelOfSubscription(Fault):
    """A server that sends all log messages to a subscription with a log level."""

    def __init__(self) -> None:
        self._has_level = False

    def reads(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and message.get("method") == "subscriptions/listen":
            meta = _params(message).get("_meta")
            self._has_level = isinstance(meta, dict) and f"{META}logLevel" in meta
        return message

    def overheard(self, value: JsonValue, *, gone: bool) -> bool:  # noqa: ARG002
        return self._has_level and isinstance(value, dict) and value.get("method") == "notifications/message"


@fault("change-on-stream-of-call", "subscription.not-unasked", revisions=MODERN)
class _ChangeOnCall(Fault):
    """A server that announces a change on the stream of the call that causes it, if the call has such a stream."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_trigger_tool_change" and "progressToken" in inbound.meta:
            inbound.notify("notifications/tools/list_changed", {})
        return result


@fault("not-forgotten", "subscription.cancelled", transports=("stdio",))
class _NotForgotten(Fault):
    def after_end(self, wanted: JsonObject) -> JsonObject:
        return wanted


@fault("prompts-not-forgotten", "subscription.cancelled", transports=("stdio",))
class _PromptsNotForgotten(Fault):
    def after_end(self, wanted: JsonObject) -> JsonObject:
        return {name: value for name, value in wanted.items() if name == "promptsListChanged"}


def _ending_others(
    name: str, change: Callable[[JsonValue, JsonValue, JsonObject], JsonObject], *transports: str
) -> None:
    """Add a server that changes a subscription when another one of its user ends."""

    class _EndsOthers(Fault):
        def after_end_of_another(self, ended: JsonValue, id: JsonValue, wanted: JsonObject) -> JsonObject:
            return change(ended, id, wanted)

    fault(name, "subscription.cancelled", revisions=MODERN, transports=transports)(_EndsOthers)


_ending_others(
    "watch-ends-for-all",
    lambda _, __, wanted: {name: value for name, value in wanted.items() if name != "resourceSubscriptions"},
    "stdio",
)
# Over HTTP the raw server may notice the end of other subscriptions in a later check.
_ending_others("all-streams-end", lambda ended, _, wanted: {} if ended == "471149" else wanted, "http")
_ending_others("subscriptions-end-by-text", lambda ended, id, wanted: {} if str(ended) == str(id) else wanted, "stdio")


@fault("change-without-tag", "subscription.tagged", "subscription.tools-changed", "subscription.prompts-changed",
       "subscription.resources-changed", "subscription.only-what-was-asked", "subscription.several",
       "subscription.cancelled", "subscription.id", transports=("stdio",))  # fmt: skip
class _WithoutTag(Fault):
    def change_notification(self, message: JsonObject) -> JsonObject | None:
        method = str(message["method"])
        return {**message, "params": {}} if method.endswith("list_changed") else message


@fault("no-end-of-subscription", "subscription.ends-with-a-result", transports=("stdio",))
class _NoEnd(Fault):
    def ending(self, messages: list[JsonObject]) -> list[JsonObject]:
        return messages[:1]


@fault("not-cancelled-at-end", "subscription.ends-with-cancelled", transports=("stdio",))
class _NotCancelled(Fault):
    def ending(self, messages: list[JsonObject]) -> list[JsonObject]:
        return messages[1:]


@fault(
    "falsy-subscriptions-not-ended",
    "subscription.ends-with-a-result",
    "subscription.ends-with-cancelled",
    transports=("stdio",),
)
class _FalsyNotEnded(Fault):
    def ending(self, messages: list[JsonObject]) -> list[JsonObject]:
        return messages if messages[1]["id"] else []


@fault("result-without-id", "subscription.result-shape", transports=("stdio",))
class _WithoutId(Fault):
    def ending(self, messages: list[JsonObject]) -> list[JsonObject]:
        return [messages[0], {**messages[1], "result": {"resultType": "complete", "_meta": {}}}]


@fault("result-with-id-of-first", "subscription.result-shape", transports=("stdio",))
class _IdOfFirst(Fault):
    """A server that makes the `_meta` of the results once, when it stops."""

    def __init__(self) -> None:
        self._meta: JsonValue = None

    def ending(self, messages: list[JsonObject]) -> list[JsonObject]:
        result = messages[1]["result"]
        self._meta = self._meta or (result["_meta"] if isinstance(result, dict) else None)
        return [messages[0], {**messages[1], "result": {"resultType": "complete", "_meta": self._meta}}]


@fault("version-of-server-as-number", "subscription.result-shape", transports=("stdio",))
class _NumberedEnd(Fault):
    def ending(self, messages: list[JsonObject]) -> list[JsonObject]:
        result = messages[1]["result"]
        meta = result["_meta"] if isinstance(result, dict) else None
        info: JsonObject = {"name": "raw", "version": 7}
        named: JsonObject = {**(meta if isinstance(meta, dict) else {}), "io.modelcontextprotocol/serverInfo": info}
        return [messages[0], {**messages[1], "result": {"resultType": "complete", "_meta": named}}]


@fault("result-anonymous", "subscription.result-server-info", transports=("stdio",))
class _AnonymousEnd(Fault):
    """A server that does not name itself in the results that it sends when it stops."""

    def ending(self, messages: list[JsonObject]) -> list[JsonObject]:
        id: JsonObject = {"io.modelcontextprotocol/subscriptionId": messages[1]["id"]}
        return [messages[0], {**messages[1], "result": {"resultType": "complete", "_meta": id}}]


@fault("tells-unasked", "subscription.not-unasked", "subscription.not-on-another-connection",
       "subscription.only-what-was-asked", "subscription.tagged")  # fmt: skip
class _UnrequestedNotification(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_trigger_tool_change":
            inbound.notify("notifications/tools/list_changed", {})
        return result


@fault("updates-also-untagged", "subscription.not-unasked", revisions=MODERN)
class _UpdatesUntagged(Fault):
    """A server that sends updates of resources as in the legacy revisions too."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        arguments = inbound.params.get("arguments")
        uri = arguments.get("uri") if isinstance(arguments, dict) else None
        if name_of(inbound) == "conformance_touch_resource" and inbound.modern and isinstance(uri, str):
            inbound.notify("notifications/resources/updated", {"uri": uri})
        return result


@fault("prompts-told-unasked", "subscription.not-unasked", revisions=MODERN)
class _PromptsUnasked(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_trigger_prompt_change":
            inbound.notify("notifications/prompts/list_changed", {})
        return result


@fault("every-other-change", "tools.list-changed", "prompts.list-changed", "resources.list-changed",
       "resources.updated", revisions=LEGACY)  # fmt: skip
class _EveryOtherChange(Fault):
    """A server that sends only the first notification of two of a type."""

    def __init__(self) -> None:
        self._sent: dict[JsonValue, bool] = {}

    def change_notification(self, message: JsonObject) -> JsonObject | None:
        is_second = self._sent.get(str(message["method"]), False)
        self._sent[str(message["method"])] = not is_second
        return None if is_second else message


@fault("unsubscribes-all", "resources.updated", revisions=LEGACY)
class _UnsubscribesAll(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] == "resources/unsubscribe":
            inbound.session.subscribed.clear()
        return result


@fault("subscriptions-counted", "resources.updated-only-if-subscribed", revisions=LEGACY)
class _SubscriptionCounter(Fault):
    """A server that ends a subscription after as many requests as began it."""

    def __init__(self) -> None:
        self._open: Final[Counter[tuple[int, str]]] = Counter()

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        method, uri = inbound.request["method"], str(inbound.params.get("uri"))
        key = (id(inbound.session), uri)
        if method == "resources/subscribe":
            self._open[key] += 1
        if method == "resources/unsubscribe" and self._open[key]:
            self._open[key] -= 1
            if self._open[key]:
                inbound.session.subscribed.add(uri)
        return result


@fault("never-subscribed-again", "resources.updated", revisions=LEGACY)
class _NeverAgain(Fault):
    """A server that ignores a subscription to a resource from which the client has unsubscribed."""

    def __init__(self) -> None:
        self._ended: list[JsonValue] = []

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        method, uri = inbound.request["method"], str(inbound.params.get("uri"))
        key: JsonValue = [id(inbound.session), uri]
        if method == "resources/unsubscribe":
            self._ended.append(key)
        if method == "resources/subscribe" and key in self._ended:
            inbound.session.subscribed.discard(uri)
        return result


def _sessions(inbound: InboundRequest) -> list[HttpSession]:
    """Return the sessions of the server other than that of a request."""
    every: dict[str, HttpSession] = getattr(getattr(inbound.session, "server", None), "sessions", {})
    return [each for each in every.values() if each is not inbound.session]


@fault("updates-of-other-sessions", "resources.updated-only-if-subscribed", revisions=LEGACY, transports=("http",))
class _OtherSessions(Fault):
    """A server that sends the updates of a resource to all sessions when one has subscribed."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "conformance_touch_resource":
            for uri in inbound.session.subscribed:
                params: JsonObject = {"uri": uri}
                for each in _sessions(inbound):
                    each.announce({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
        return result


@fault("unsubscribes-all-sessions", "resources.updated-only-if-subscribed", revisions=LEGACY, transports=("http",))
class _UnsubscribesSessions(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] == "resources/unsubscribe":
            for each in _sessions(inbound):
                each.subscribed.discard(str(inbound.params["uri"]))
        return result


@fault("changes-not-told", "tools.list-changed", "prompts.list-changed", "resources.list-changed",
       "resources.updated", "resources.updated-only-if-subscribed", revisions=LEGACY)  # fmt: skip
class _NoNotification(Fault):
    def change_notification(self, message: JsonObject) -> JsonObject | None:  # noqa: ARG002
        return None


@fault("updates-unasked", "resources.updated-only-if-subscribed", revisions=LEGACY)
class _UpdatesUnasked(Fault):
    def wanted(self, method: str, *, wanted: bool) -> bool:  # noqa: ARG002
        return True
