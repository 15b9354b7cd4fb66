"""One row for each request and each notification of the protocol, with all that the rest has to know of it.

Who may send it, in which revisions, with which params, answered by what, and under which declared capability. Nobody
else compares method names. An extension is rows of the same kind.

    methods(revision)["tools/call"] is TOOLS_CALL
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from mcp_core.methods.definition import Alias, CapabilityPath, Method, NotificationRow, Role
from mcp_core.methods.notification_methods import (
    NOTIFICATIONS_CANCELLED,
    NOTIFICATIONS_ELICITATION_COMPLETE,
    NOTIFICATIONS_INITIALIZED,
    NOTIFICATIONS_MESSAGE,
    NOTIFICATIONS_PROGRESS,
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_UPDATED,
    NOTIFICATIONS_ROOTS_LIST_CHANGED,
    NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
    NOTIFICATIONS_TASKS,
    NOTIFICATIONS_TASKS_STATUS,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
)
from mcp_core.methods.request_methods import (
    COMPLETION_COMPLETE,
    ELICITATION_CREATE,
    EXTENSION_TASKS_CANCEL,
    EXTENSION_TASKS_GET,
    EXTENSION_TASKS_UPDATE,
    INITIALIZE,
    LOGGING_SET_LEVEL,
    PING,
    PROMPTS_GET,
    PROMPTS_LIST,
    RESOURCES_LIST,
    RESOURCES_READ,
    RESOURCES_SUBSCRIBE,
    RESOURCES_TEMPLATES_LIST,
    RESOURCES_UNSUBSCRIBE,
    ROOTS_LIST,
    SAMPLING_CREATE_MESSAGE,
    SERVER_DISCOVER,
    SUBSCRIPTIONS_LISTEN,
    TASKS_CANCEL,
    TASKS_GET,
    TASKS_LIST,
    TASKS_RESULT,
    TOOLS_CALL,
    TOOLS_LIST,
)
from mcp_core.methods.skill_methods import RESOURCES_DIRECTORY_READ, SKILLS_GET, SKILLS_LIST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

__all__ = [
    "ALIASES",
    "COMPLETION_COMPLETE",
    "ELICITATION_CREATE",
    "EXTENSION_TASKS_CANCEL",
    "EXTENSION_TASKS_GET",
    "EXTENSION_TASKS_UPDATE",
    "INITIALIZE",
    "LOGGING_SET_LEVEL",
    "METHODS",
    "NOTIFICATIONS",
    "NOTIFICATIONS_CANCELLED",
    "NOTIFICATIONS_ELICITATION_COMPLETE",
    "NOTIFICATIONS_INITIALIZED",
    "NOTIFICATIONS_MESSAGE",
    "NOTIFICATIONS_PROGRESS",
    "NOTIFICATIONS_PROMPTS_LIST_CHANGED",
    "NOTIFICATIONS_RESOURCES_LIST_CHANGED",
    "NOTIFICATIONS_RESOURCES_UPDATED",
    "NOTIFICATIONS_ROOTS_LIST_CHANGED",
    "NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED",
    "NOTIFICATIONS_TASKS",
    "NOTIFICATIONS_TASKS_STATUS",
    "NOTIFICATIONS_TOOLS_LIST_CHANGED",
    "PING",
    "PROMPTS_GET",
    "PROMPTS_LIST",
    "RESOURCES_DIRECTORY_READ",
    "RESOURCES_LIST",
    "RESOURCES_READ",
    "RESOURCES_SUBSCRIBE",
    "RESOURCES_TEMPLATES_LIST",
    "RESOURCES_UNSUBSCRIBE",
    "ROOTS_LIST",
    "SAMPLING_CREATE_MESSAGE",
    "SERVER_DISCOVER",
    "SKILLS_GET",
    "SKILLS_LIST",
    "SUBSCRIPTIONS_LISTEN",
    "TASKS_CANCEL",
    "TASKS_GET",
    "TASKS_LIST",
    "TASKS_RESULT",
    "TOOLS_CALL",
    "TOOLS_LIST",
    "Alias",
    "AnyMethod",
    "AnyNotification",
    "CapabilityPath",
    "Method",
    "NotificationRow",
    "Role",
    "input_requests",
    "method_for",
    "methods",
    "notification_for",
    "notifications",
]

AnyMethod: TypeAlias = Method[object, object]
"""A row whose params and result are not known statically."""

AnyNotification: TypeAlias = NotificationRow[object]
"""A row whose params are not known statically."""

METHODS: Final[tuple[AnyMethod, ...]] = (
    INITIALIZE,
    PING,
    SERVER_DISCOVER,
    TOOLS_LIST,
    TOOLS_CALL,
    RESOURCES_LIST,
    RESOURCES_TEMPLATES_LIST,
    RESOURCES_READ,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
    PROMPTS_LIST,
    PROMPTS_GET,
    COMPLETION_COMPLETE,
    LOGGING_SET_LEVEL,
    SUBSCRIPTIONS_LISTEN,
    ROOTS_LIST,
    SAMPLING_CREATE_MESSAGE,
    ELICITATION_CREATE,
    TASKS_GET,
    TASKS_RESULT,
    TASKS_LIST,
    TASKS_CANCEL,
    EXTENSION_TASKS_GET,
    EXTENSION_TASKS_UPDATE,
    EXTENSION_TASKS_CANCEL,
    SKILLS_LIST,
    SKILLS_GET,
    RESOURCES_DIRECTORY_READ,
)
"""All requests."""

NOTIFICATIONS: Final[tuple[AnyNotification, ...]] = (
    NOTIFICATIONS_INITIALIZED,
    NOTIFICATIONS_CANCELLED,
    NOTIFICATIONS_PROGRESS,
    NOTIFICATIONS_MESSAGE,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
    NOTIFICATIONS_PROMPTS_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_LIST_CHANGED,
    NOTIFICATIONS_RESOURCES_UPDATED,
    NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
    NOTIFICATIONS_ROOTS_LIST_CHANGED,
    NOTIFICATIONS_ELICITATION_COMPLETE,
    NOTIFICATIONS_TASKS_STATUS,
    NOTIFICATIONS_TASKS,
)
"""All notifications."""


def _trace_as_log_message(params: JsonObject) -> JsonObject:
    """Return the params of `notifications/message` for `{"message": "...", "verbose": false}`, those of `$/logTrace`."""
    if "message" not in params:
        return params
    kept = {name: value for name, value in params.items() if name not in ("message", "verbose")}
    return {**kept, "level": "debug" if params.get("verbose") is True else "info", "data": params["message"]}


ALIASES: Final[Mapping[str, Alias]] = MappingProxyType(
    {
        "$/logTrace": Alias(row=NOTIFICATIONS_MESSAGE, params=_trace_as_log_message),
        "notifications/resources/changed": Alias(row=NOTIFICATIONS_RESOURCES_UPDATED),
    }
)
"""Names from before the specification, which old servers use. A client takes them; nothing of ours sends them."""


@cache
def methods(revision: Revision) -> Mapping[str, AnyMethod]:
    """The requests that `revision` has, by name."""
    return MappingProxyType({row.name: row for row in METHODS if revision in row.revisions})


@cache
def input_requests(revision: Revision) -> Mapping[str, AnyMethod]:
    """The requests that a server makes within a result in `revision`, by name."""
    return MappingProxyType({row.name: row for row in METHODS if revision in row.input_request})


@cache
def notifications(revision: Revision) -> Mapping[str, AnyNotification]:
    """The notifications that `revision` has, by name."""
    return MappingProxyType({row.name: row for row in NOTIFICATIONS if revision in row.revisions})


@cache
def _by_params(revision: Revision) -> Mapping[object, AnyMethod]:
    return {
        params: row
        for row in METHODS
        if revision in row.revisions or revision in row.input_request
        for params in get_args(row.params) or (row.params,)
    }


def method_for(params: object, revision: Revision) -> AnyMethod | None:
    """The request of `revision` whose params are of the class of `params`, those within a result included."""
    return _by_params(revision).get(type(params))


@cache
def _notification_by_params(revision: Revision) -> Mapping[object, AnyNotification]:
    return {row.params: row for row in notifications(revision).values()}


def notification_for(params: object, revision: Revision) -> AnyNotification | None:
    """The notification of `revision` whose params are of the class of `params`."""
    return _notification_by_params(revision).get(type(params))
