"""Definitions of the requests and notifications of the protocol: one for each method, with all its properties.

A definition has the sender, the revisions, the params, the result and the required capabilities. No other module
compares method names. Extensions use definitions of the same classes.

    methods(revision)["tools/call"] is TOOLS_CALL
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from mcp_core.methods.definition import Alias, CapabilityPath, NotificationMethod, RequestMethod, Side
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
    "AnyNotificationMethod",
    "AnyRequestMethod",
    "CapabilityPath",
    "NotificationMethod",
    "RequestMethod",
    "Side",
    "input_requests",
    "method_for",
    "methods",
    "notification_for",
    "notifications",
]

AnyRequestMethod: TypeAlias = RequestMethod[object, object]
"""A definition of a request whose params and result are not statically known."""

AnyNotificationMethod: TypeAlias = NotificationMethod[object]
"""A definition of a notification whose params are not statically known."""

METHODS: Final[tuple[AnyRequestMethod, ...]] = (
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

NOTIFICATIONS: Final[tuple[AnyNotificationMethod, ...]] = (
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
    """Return the params of `notifications/message` for those of `$/logTrace`, `{"message": ..., "verbose": false}`."""
    if "message" not in params:
        return params
    kept = {name: value for name, value in params.items() if name not in ("message", "verbose")}
    return {**kept, "level": "debug" if params.get("verbose") is True else "info", "data": params["message"]}


ALIASES: Final[Mapping[str, Alias]] = MappingProxyType(
    {
        "$/logTrace": Alias(definition=NOTIFICATIONS_MESSAGE, params=_trace_as_log_message),
        "notifications/resources/changed": Alias(definition=NOTIFICATIONS_RESOURCES_UPDATED),
    }
)
"""Method names from before the specification, which old servers send. Clients accept them and never send them."""


@cache
def methods(revision: Revision) -> Mapping[str, AnyRequestMethod]:
    """Return the requests of `revision`, by method name."""
    return MappingProxyType({definition.name: definition for definition in METHODS if revision in definition.revisions})


@cache
def input_requests(revision: Revision) -> Mapping[str, AnyRequestMethod]:
    """Return the requests that a server can send as input requests in `revision`, by method name."""
    return MappingProxyType(
        {definition.name: definition for definition in METHODS if revision in definition.input_request}
    )


@cache
def notifications(revision: Revision) -> Mapping[str, AnyNotificationMethod]:
    """Return the notifications of `revision`, by method name."""
    return MappingProxyType(
        {definition.name: definition for definition in NOTIFICATIONS if revision in definition.revisions}
    )


@cache
def _by_params(revision: Revision) -> Mapping[object, AnyRequestMethod]:
    return {
        params: definition
        for definition in METHODS
        if revision in definition.revisions or revision in definition.input_request
        for params in get_args(definition.params) or (definition.params,)
    }


def method_for(params: object, revision: Revision) -> AnyRequestMethod | None:
    """Return the request of `revision` whose params class is that of `params`. Input requests are included."""
    return _by_params(revision).get(type(params))


@cache
def _notification_by_params(revision: Revision) -> Mapping[object, AnyNotificationMethod]:
    return {definition.params: definition for definition in notifications(revision).values()}


def notification_for(params: object, revision: Revision) -> AnyNotificationMethod | None:
    """Return the notification of `revision` whose params class is that of `params`."""
    return _notification_by_params(revision).get(type(params))
