"""Table of compatibility repairs: known mistakes of deployed peers, for `mcp_core.conversion.converter`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mcp_core import types as t
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.types import ABSENT, Absent

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DESCRIPTIVE", "LISTS", "MAPS", "REPAIRS", "Given", "Repair"]

Given: TypeAlias = JsonValue | Absent
"""The value of a member as received; `ABSENT` if the member is absent."""


class Repair(NamedTuple):
    """A row of the table: one kind of mistake, and its correction."""

    cls: type[t.WireObject]
    """The class that has the member, or a base of it."""
    member: str
    """The wire name of the member."""
    wrong: Callable[[Given], bool]
    """Returns whether a value is this mistake."""
    repaired: Callable[[Given], Given]
    """Returns the repaired value; `ABSENT` to omit the member."""
    note: str
    """The deviation: the mistake of the peer."""


def _no_object(value: Given) -> bool:
    return not isinstance(value, dict)


def _loose_blocks(value: Given) -> bool:
    return value is ABSENT or value is None or isinstance(value, str | dict)


def _no_string(value: Given) -> bool:
    return not isinstance(value, str)


def _missing(value: Given) -> bool:
    return value is ABSENT or value is None


def _is_flag(value: Given) -> bool:
    return isinstance(value, bool)


def _not_one_of(*allowed: str) -> Callable[[Given], bool]:
    return lambda value: not _missing(value) and value not in allowed


def _always(value: JsonValue) -> Callable[[Given], Given]:
    return lambda _: value


def _true(_: Given) -> Given:
    return True


def _flag_to_object(value: Given) -> Given:
    return {} if value is True else ABSENT


def _bad_schema(value: Given) -> bool:
    return not isinstance(value, dict) or "type" not in value or any(value.get(k, k) is None for k in _SCHEMA_KEYS)


_SCHEMA_KEYS: Final = ("type", "properties", "required")


def _schema(value: Given) -> Given:
    kept = {k: v for k, v in value.items() if k not in _SCHEMA_KEYS or v is not None} if isinstance(value, dict) else {}
    return {"type": "object", **kept}


def _bad_output_schema(value: Given) -> bool:
    return not _missing(value) and _bad_schema(value)


def _output_schema(value: Given) -> Given:
    return _schema(value) if isinstance(value, dict) and value else ABSENT


def _blocks(value: Given) -> Given:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [value] if isinstance(value, dict) else []


def _text(value: Given) -> Given:
    return {"type": "text", "text": value} if isinstance(value, str) else value


_LEVELS: Final[dict[str, JsonValue]] = {
    **{level: level for level in t.LOGGING_LEVELS},
    "trace": "debug",
    "log": "info",
    "information": "info",
    "warn": "warning",
    "err": "error",
    "fatal": "critical",
    "panic": "emergency",
}


def _level(value: Given) -> Given:
    return _LEVELS.get(value.lower(), "info") if isinstance(value, str) else "info"


def _bad_lifetime(value: Given) -> bool:
    return isinstance(value, bool) or not isinstance(value, int) or value < 0


def _lifetime(value: Given) -> Given:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return max(0, math.floor(value))


def _bad_share(value: Given) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not 0 <= value <= 1


def _share(value: Given) -> Given:
    return min(1, max(0, value)) if isinstance(value, int | float) else ABSENT


_ROLES: Final = ("user", "assistant")


def _roles(value: Given) -> Given:
    return [each for each in value if each in _ROLES] if isinstance(value, list) else ABSENT


def _bad_roles(value: Given) -> bool:
    return isinstance(value, list) and _roles(value) != value


def _strings(value: Given) -> Given:
    return list[JsonValue](value.split()) if isinstance(value, str) else value


def _is_string(value: Given) -> bool:
    return isinstance(value, str)


_CAPABILITIES: Final = (
    t.ClientCapabilities,
    t.ServerCapabilities,
    t.SamplingCapability,
    t.ElicitationCapability,
    t.ClientTasksCapability,
    t.ServerTasksCapability,
    t.ClientTaskRequests,
    t.ServerTaskRequests,
    t.SamplingTaskRequests,
    t.ElicitationTaskRequests,
    t.ToolTaskRequests,
)
_SWITCHES: Final = (t.RootsCapability, t.PromptsCapability, t.ResourcesCapability, t.ToolsCapability)
_FLAG_NOTE: Final = "a capability is an object, not true or false"
_SCHEMA_NOTE: Final = "an input schema is an object with the type object, and its keywords are not null"
_ROLE: Final = _not_one_of(*_ROLES)
_ROLE_NOTE: Final = "the role is unknown; read as assistant"

REPAIRS: Final[tuple[Repair, ...]] = (
    *(Repair(cls, "*", _is_flag, _flag_to_object, _FLAG_NOTE) for cls in _CAPABILITIES),
    *(
        Repair(
            cls,
            member,
            lambda value: isinstance(value, dict),
            _true,
            "a switch is true or false, not an object",
        )
        for cls in _SWITCHES
        for member in ("listChanged", "subscribe")
    ),
    Repair(t.Implementation, "name", _no_string, _always(""), "a program has a name; read as empty"),
    Repair(t.Implementation, "version", _no_string, _always(""), "a program has a version; read as empty"),
    Repair(t.InitializeResult, "capabilities", _no_object, _always({}), "the capabilities are missing; read as none"),
    Repair(t.InitializeResult, "serverInfo", _no_object, _always({}), "the server information is missing"),
    Repair(t.DiscoverResult, "capabilities", _no_object, _always({}), "the capabilities are missing; read as none"),
    Repair(t.Result, "resultType", _missing, _always("complete"), "the result type is missing; read as complete"),
    Repair(t.GetExtensionTaskResult, "resultType", _missing, _always("complete"), "the result type is missing"),
    Repair(t.CacheableResult, "ttlMs", _bad_lifetime, _lifetime, "ttlMs is a whole number of at least 0"),
    Repair(
        t.CacheableResult,
        "cacheScope",
        lambda value: value not in {"public", "private"} if isinstance(value, str) else True,
        _always("private"),
        "the cache scope is missing or unknown; read as private",
    ),
    Repair(t.Tool, "inputSchema", _bad_schema, _schema, _SCHEMA_NOTE),
    Repair(t.Tool, "outputSchema", _bad_output_schema, _output_schema, "an output schema is an object with a type"),
    Repair(t.CallToolResult, "content", _loose_blocks, _blocks, "the content is an array of blocks"),
    Repair(t.PromptMessage, "content", _is_string, _text, "the content is a block, not a string"),
    Repair(t.SamplingMessage, "content", _is_string, _text, "the content is a block, not a string"),
    Repair(t.CreateMessageResult, "content", _is_string, _text, "the content is a block, not a string"),
    Repair(t.PromptMessage, "role", _ROLE, _always("assistant"), _ROLE_NOTE),
    Repair(t.CreateMessageResult, "role", _ROLE, _always("assistant"), _ROLE_NOTE),
    Repair(t.GetPromptResult, "messages", _missing, _always([]), "the messages are missing; read as none"),
    Repair(t.Completion, "values", _missing, _always([]), "the values are missing; read as none"),
    Repair(
        t.LoggingMessageNotificationParams,
        "level",
        _not_one_of(*t.LOGGING_LEVELS),
        _level,
        "the log level is unknown; read as the nearest one, or as info",
    ),
    Repair(t.LoggingMessageNotificationParams, "level", _missing, _level, "the log level is missing; read as info"),
    Repair(
        t.LoggingMessageNotificationParams,
        "data",
        lambda value: value is ABSENT,
        _always(None),
        "the data is missing; read as null",
    ),
    Repair(t.Annotations, "priority", _bad_share, _share, "a priority is from 0 to 1"),
    Repair(t.Annotations, "audience", _bad_roles, _roles, "a role is unknown; left out"),
    Repair(t.Icon, "sizes", _is_string, _strings, "the sizes are an array"),
    Repair(
        t.ElicitResult,
        "action",
        _not_one_of("accept", "decline", "cancel"),
        _always("cancel"),
        "the action is unknown; read as cancel",
    ),
)
"""The known mistakes. `*` means every member."""

DESCRIPTIVE: Final = frozenset(
    {
        "annotations",
        "audience",
        "description",
        "destructiveHint",
        "execution",
        "format",
        "hasMore",
        "icons",
        "idempotentHint",
        "instructions",
        "lastModified",
        "logger",
        "message",
        "mimeType",
        "openWorldHint",
        "priority",
        "readOnlyHint",
        "size",
        "sizes",
        "statusMessage",
        "stopReason",
        "structuredContent",
        "taskSupport",
        "theme",
        "title",
        "total",
        "websiteUrl",
    }
)
"""The wire names of optional members that are omitted if they are invalid."""

LISTS: Final = frozenset(
    {
        (t.ListToolsResult, "tools"),
        (t.ListPromptsResult, "prompts"),
        (t.ListResourcesResult, "resources"),
        (t.ListResourceTemplatesResult, "resourceTemplates"),
        (t.ListRootsResult, "roots"),
        (t.ListTasksResult, "tasks"),
    }
)
"""The classes and members, by their wire names, of lists whose invalid items are omitted."""

MAPS: Final = frozenset({(t.UpdateTaskRequestParams, "inputResponses")})
"""The classes and members of objects with arbitrary names whose invalid members are omitted. An input response that a
task did not request is ignored, valid or not. One that it did request must be read from the parameters as received."""
