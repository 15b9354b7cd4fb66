"""Faults of tasks: each changes a result or a rejection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, MODERN, RpcError

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.server.fault import InboundRequest

__all__: list[str] = []

_CORE: Final = LEGACY[3:]
_INTERNAL_ERROR: Final = -32603
_INVALID_PARAMS: Final = -32602
_ABOUT: Final = ("tasks/get", "tasks/cancel")


def _is(inbound: InboundRequest, *methods: str) -> bool:
    return inbound.request["method"] in methods


def _shows(inbound: InboundRequest, result: JsonObject) -> bool:
    """Return whether a result contains a task in the modern form."""
    return result.get("resultType") == "task" or (_is(inbound, "tasks/get") and "taskId" in result)


@fault("task-id-number", "tasks.fields", revisions=_CORE)
class _TtlMissing(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "pollInterval": "soon"} if _is(inbound, "tasks/get") else result


@fault("task-without-times", "tasks.timestamps", revisions=MODERN)
class _NoTimes(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "createdAt": "now"} if _shows(inbound, result) else result


@fault("task-starts-completed", "tasks.starts-working", revisions=_CORE)
class _StartsCompleted(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        task = result.get("task")
        return {**result, "task": {**task, "status": "completed"}} if isinstance(task, dict) else result


@fault("task-with-result", "tasks.create", revisions=MODERN)
class _WithContent(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        return {**result, "content": []} if result.get("resultType") == "task" else result


@fault("task-with-state", "tasks.no-request-state", revisions=MODERN)
class _WithState(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "requestState": "x"} if _shows(inbound, result) else result


@fault("task-result-related", "tasks.no-related-task", revisions=MODERN)
class _InnerRelated(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        inner = result.get("result")
        if not isinstance(inner, dict):
            return result
        return {**result, "result": {**inner, "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "x"}}}}


@fault("task-cancel-shows", "tasks.cancelled", "tasks.cancel-ended", revisions=MODERN)
class _CancelShows(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "status": "cancelled"} if _is(inbound, "tasks/cancel") else result


@fault("task-update-shows", "tasks.input-required", revisions=MODERN)
class _UpdateShows(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "status": "working"} if _is(inbound, "tasks/update") else result


@fault("task-related-missing", "tasks.related", revisions=_CORE)
class _NotRelated(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {key: each for key, each in result.items() if key != "_meta"} if _is(inbound, "tasks/result") else result


@fault("task-related-in-get", "tasks.no-related", revisions=_CORE)
class _RelatedInGet(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        related: JsonObject = {"io.modelcontextprotocol/related-task": {"taskId": "x"}}
        return {**result, "_meta": related} if _is(inbound, *_ABOUT) else result


@fault("task-input-unrelated", "tasks.input", revisions=_CORE)
class _InputUnrelated(Fault):
    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        return {key: each for key, each in params.items() if key != "_meta"} if _is(inbound, "tasks/result") else params


@fault("task-unknown-code", "tasks.unknown", revisions=MODERN)
class _UnknownCode(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if error.code == -32602 and _is(inbound, *_ABOUT, "tasks/update"):
            raise RpcError(-32600, "unknown task")
        raise error


@fault("task-undeclared-served", "tasks.methods-undeclared", "tasks.legacy-declaration", revisions=MODERN)
class _UndeclaredServed(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if error.code == -32021 and _is(inbound, *_ABOUT, "tasks/update"):
            raise RpcError(-32602, "unknown task")
        raise error


@fault("task-required-served", "tasks.required", revisions=MODERN)
class _RequiredServed(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if error.code == -32021 and inbound.params.get("name") == "failing_job":
            return {"content": []}
        raise error


@fault("task-required-plain", "tasks.required-tool", revisions=_CORE)
class _RequiredPlain(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if error.code == -32601 and inbound.params.get("name") == "failing_job":
            return {"content": []}
        raise error


@fault("task-forbidden-run", "tasks.forbidden-tool", revisions=_CORE)
class _ForbiddenRun(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if error.code == -32601 and inbound.params.get("name") == "test_simple_text":
            return {"content": []}
        raise error


@fault("task-cursor-any", "tasks.list-cursor", revisions=_CORE)
class _CursorAny(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if _is(inbound, "tasks/list"):
            return {"tasks": []}
        raise error


@fault("task-cursor-below-zero", "tasks.list-cursor", revisions=_CORE)
class _CursorBelowZero(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if _is(inbound, "tasks/list") and inbound.params.get("cursor") == "-1":
            return {"tasks": []}
        raise error


@fault("task-list-empty", "tasks.list", "tasks.input-status", revisions=_CORE)
class _ListEmpty(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {"tasks": []} if _is(inbound, "tasks/list") else result


@fault("task-cancel-working", "tasks.cancelled", revisions=_CORE)
class _CancelWorking(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "status": "working"} if _is(inbound, "tasks/cancel") else result


@fault("task-cancel-ended", "tasks.cancel-ended", "tasks.transitions", revisions=_CORE)
class _CancelEnded(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if _is(inbound, "tasks/cancel") and "ended" in str(error):
            return {
                "taskId": str(inbound.params["taskId"]),
                "status": "cancelled",
                "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z",
                "ttl": None,
            }
        raise error


@fault("task-list-revived", "tasks.removed", revisions=MODERN, transports=("http",))
@fault(
    "task-list-revived-over-stdio",
    "tasks.removed",
    "jsonrpc.unknown-method",
    revisions=MODERN,
    transports=("stdio",),
)
class _ListRevived(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if _is(inbound, "tasks/list"):
            return {"tasks": []}
        raise error


@fault("task-failed-without-error", "tasks.failed", "schema.server-messages", revisions=MODERN)
class _FailedWithoutError(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {name: each for name, each in result.items() if name != "error"} if _is(inbound, "tasks/get") else result


@fault("task-failed-nameless", "tasks.failed", "schema.server-messages", revisions=MODERN)
class _FailedNameless(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return {**result, "error": {}} if _is(inbound, "tasks/get") and "error" in result else result


@fault("task-failed-otherwise", "tasks.failed", revisions=_CORE)
class _FailedOtherwise(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if _is(inbound, "tasks/result") and error.code == _INTERNAL_ERROR:
            raise RpcError(_INVALID_PARAMS, str(error))
        raise error


@fault("task-silent-failure", "tasks.failed-message", revisions=MODERN)
class _SilentFailure(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        return {key: each for key, each in result.items() if key != "statusMessage"}


@fault("task-empty-result", "tasks.completed", "schema.call-tool-result", revisions=MODERN)
class _EmptyResult(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        inner = result.get("result")
        is_error = isinstance(inner, dict) and "isError" in inner
        return {**result, "result": {}} if _is(inbound, "tasks/get") and inner is not None and not is_error else result


@fault(
    "task-status-done",
    "tasks.status",
    "tasks.other-user-extension",
    "tasks.transitions",
    "tasks.get-at-once",
    revisions=MODERN,
)
class _StatusDone(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        return (
            {**result, "status": "busy"} if _is(inbound, "tasks/get") and result.get("status") == "working" else result
        )
