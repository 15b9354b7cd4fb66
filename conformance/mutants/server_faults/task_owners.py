"""Faults of the access control and the progress of tasks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, META, MODERN

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__: list[str] = []


def _public(name: str, caught_by: str, *methods: str) -> None:
    """Add a fault that gives private features to all users by some methods."""

    class _Public(Fault):
        def private(self, inbound: InboundRequest, *, theirs: bool) -> bool:
            return theirs or inbound.request["method"] in methods

    fault(name, caught_by, revisions=MODERN, transports=_HTTP)(_Public)


_CORE: Final = LEGACY[3:]
_HTTP: Final = ("http",)
_AFTER_FAILURE: Final = 0.25
"""Seconds from the start of a task that fails, after 0.1 seconds, to its last progress."""


@fault("task-of-everybody", "tasks.other-user", revisions=_CORE, transports=_HTTP)
class _TasksOfAllUsers(Fault):
    def owns(self, inbound: InboundRequest, *, mine: bool) -> bool:
        return mine or inbound.request["method"] != "tasks/list"


@fault("task-ended-by-anybody", "tasks.other-user", revisions=_CORE, transports=_HTTP)
class _CancelledByAllUsers(Fault):
    def owns(self, inbound: InboundRequest, *, mine: bool) -> bool:
        return mine or inbound.request["method"] == "tasks/cancel"


@fault("task-listed-to-all", "tasks.other-user-list", revisions=_CORE, transports=_HTTP)
class _ListedToAll(Fault):
    def owns(self, inbound: InboundRequest, *, mine: bool) -> bool:
        return mine or inbound.request["method"] == "tasks/list"


@fault("task-updated-by-anybody", "tasks.other-user-extension", revisions=MODERN, transports=_HTTP)
class _UpdatedByAllUsers(Fault):
    def owns(self, inbound: InboundRequest, *, mine: bool) -> bool:
        return mine or inbound.request["method"] == "tasks/update"


@fault("task-heard-by-anybody", "tasks.other-user-extension", revisions=MODERN, transports=_HTTP)
class _HeardByAllUsers(Fault):
    def owns(self, inbound: InboundRequest, *, mine: bool) -> bool:
        return mine or inbound.request["method"] == "subscriptions/listen"


@fault("task-progress-token", "tasks.progress-token", revisions=_CORE)
class _OtherToken(Fault):
    def task_token(self, token: JsonValue) -> JsonValue:
        return token and f"of {token}"


@fault("task-waits-working", "tasks.input-status", revisions=_CORE)
class _WaitsWorking(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        return {**result, "status": "working"} if result.get("status") == "input_required" else result


@fault("task-progress-goes-on", "tasks.progress-ends", revisions=_CORE)
class _GoesOn(Fault):
    def keeps(self, rule: str) -> bool:
        return rule != "task-progress-ends"


@fault("task-progress-after-failure", "tasks.progress-ends", revisions=_CORE)
class _ProgressAfterFailure(Fault):
    """A server that reports the progress of a task to its end, some time after it has failed."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        task, token = result.get("task"), inbound.meta.get("progressToken")
        if isinstance(task, dict) and inbound.params.get("name") == "failing_job" and token is not None:
            related: JsonObject = {f"{META}related-task": {"taskId": task["taskId"]}}
            params: JsonObject = {"progressToken": token, "progress": 5, "total": 5, "_meta": related}
            late: JsonObject = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            threading.Timer(_AFTER_FAILURE, inbound.session.send, [late]).start()
        return result


# --- private features ------------------------------------------------------------------------------------------------

_public("private-tool-called", "tools.of-one-user", "tools/call")
_public("private-resource-read", "resources.of-one-user", "resources/read")
_public("private-completed", "completion.of-one-user", "completion/complete")


@fault("private-template-completed", "completion.of-one-user", revisions=MODERN, transports=_HTTP)
class _TemplateCompleted(Fault):
    def private(self, inbound: InboundRequest, *, theirs: bool) -> bool:
        ref = inbound.params.get("ref")
        return theirs or (isinstance(ref, dict) and ref.get("type") == "ref/resource")


def _shared(name: str, method: str) -> None:
    """Add a fault: the results of a method are declared as those of all users."""

    class _PublicResult(Fault):
        def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            is_final = result.get("resultType") != "input_required"
            return {**result, "cacheScope": "public"} if inbound.request["method"] == method and is_final else result

    fault(name, "caching.of-one-user", revisions=MODERN, transports=_HTTP)(_PublicResult)


_shared("list-by-user-public", "tools/list")
_shared("prompts-by-user-public", "prompts/list")
_shared("resources-by-user-public", "resources/list")
_shared("private-content-public", "resources/read")


@fault("state-of-everybody", "mrtr.state-of-another-user", revisions=MODERN, transports=_HTTP)
class _StateOfAllUsers(Fault):
    def keeps(self, rule: str) -> bool:
        return rule != "state-of-user"
