"""The tables of the reference about the protocol, from the tables that the code uses."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, get_args

import attrs
from sphinx.pycode import ModuleAnalyzer

from documentation.markdown import markdown_table
from mcp_core import types
from mcp_core.conversion.repairs import REPAIRS
from mcp_core.engine.lifecycle import RULES, Strength
from mcp_core.errors import ErrorCode
from mcp_core.limits import CLIENT_LIMITS, SERVER_LIMITS, Limits
from mcp_core.methods import ALIASES, METHODS, NOTIFICATIONS, NotificationMethod, RequestMethod
from mcp_core.revisions import REVISIONS, Revision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["PROTOCOL_TABLES"]

_REVISIONS: Final = tuple(REVISIONS.values())
_YES: Final = "yes"
_NO: Final = "—"


def _class_link(kind: object) -> str:
    if (members := get_args(kind)) != ():
        return ", ".join(_class_link(member) for member in members)
    name = getattr(kind, "__name__", str(kind))
    return f"{{py:class}}`~{kind.__module__}.{name}`" if hasattr(types, name) else f"`{name}`"


def _field_texts(cls: type) -> dict[str, str]:
    """Return the docstrings of the fields or members of a class."""
    found = ModuleAnalyzer.for_module(cls.__module__).find_attr_docs()
    return {name: " ".join(lines).strip() for (owner, name), lines in found.items() if owner == cls.__name__}


def _path(path: tuple[str, ...] | None) -> str:
    return f"`{'.'.join(path)}`" if path else ""


def _methods() -> list[str]:
    def cell(row: RequestMethod[object, object], revision: Revision) -> str:
        if revision in row.revisions:
            return _YES
        return "in a result" if revision in row.input_request else _NO

    rows = [
        [
            f"`{row.name}`",
            row.sender.value,
            *(cell(row, revision) for revision in _REVISIONS),
            _path(row.server_capability) or _path(row.client_capability),
            _class_link(row.params),
            _class_link(row.result),
        ]
        for row in METHODS
    ]
    names = [revision.name for revision in _REVISIONS]
    return markdown_table(["method", "sender", *names, "capability", "parameters", "result"], rows)


def _notifications() -> list[str]:
    rows = [
        [
            f"`{row.name}`",
            *(row.sender_in(revision).value if revision in row.revisions else _NO for revision in _REVISIONS),
            _path(row.server_capability) or _path(row.client_capability),
            _class_link(row.params),
        ]
        for row in NOTIFICATIONS
    ]
    names = [revision.name for revision in _REVISIONS]
    return markdown_table(["notification", *names, "capability", "parameters"], rows)


def _aliases() -> list[str]:
    rows = [[f"`{name}`", f"`{alias.definition.name}`"] for name, alias in ALIASES.items()]
    return markdown_table(["name", "read as"], rows)


def _revisions() -> list[str]:
    texts = _field_texts(Revision)
    traits = [each.name for each in attrs.fields(Revision) if each.name != "name"]
    rows = [
        [f"`{trait}`", *(_value(getattr(revision, trait)) for revision in _REVISIONS), texts.get(trait, "")]
        for trait in traits
    ]
    return markdown_table(["trait", *(revision.name for revision in _REVISIONS), "meaning"], rows)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return _YES if value else _NO
    if isinstance(value, enum.Enum) and not isinstance(value, int):
        return str(value.value)
    if value is None:
        return _NO
    # An error code is an `IntEnum`: its number is shown.
    return str(int(value)) if isinstance(value, int) else str(value)


def _capabilities() -> list[str]:
    needed: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    rows_with_capabilities: list[RequestMethod[object, object] | NotificationMethod[object]] = [
        *METHODS,
        *NOTIFICATIONS,
    ]
    for row in rows_with_capabilities:
        for side, path in (("server", row.server_capability), ("client", row.client_capability)):
            if path is not None:
                needed.setdefault((side, path), []).append(f"`{row.name}`")
    rows = [[_path(path), side, ", ".join(names)] for (side, path), names in sorted(needed.items())]
    return markdown_table(["capability", "declared by", "needed for"], rows)


def _error_codes() -> list[str]:
    texts = _field_texts(ErrorCode)
    rows = [[str(int(code)), f"`{code.name}`", texts.get(code.name, "")] for code in ErrorCode]
    return markdown_table(["code", "name", "meaning"], rows)


_SEVERAL_WORKERS: Final[Mapping[str, str]] = {
    "sessions": "all together",
    "handshake_bytes": "all together",
    "watched_resources": "all together",
    "replay_events": "all together",
    "replay_bytes": "all together",
    "tasks": "all together",
    "running_tasks": "all together",
    "task_bytes": "all together",
    "running_requests": "each",
    "waiting_requests": "each",
    "waiting_bytes": "each",
    "log_messages_per_second": "each",
    "connections": "each",
    "stored_bytes": "each",
    "total_bytes": "each",
}
"""Whether a limit holds for the workers of a cluster together, or for each. The other limits are about one message,
request, list or file, which a single worker processes."""


def _limits() -> list[str]:
    texts = _field_texts(Limits)
    if unknown := _SEVERAL_WORKERS.keys() - texts.keys():
        raise ValueError(f"limits that do not exist: {', '.join(sorted(unknown))}")
    rows = [
        [
            f"`{each.name}`",
            f"{getattr(SERVER_LIMITS, each.name):,}",
            f"{getattr(CLIENT_LIMITS, each.name):,}",
            _SEVERAL_WORKERS.get(each.name, ""),
            texts.get(each.name, ""),
        ]
        for each in attrs.fields(Limits)
    ]
    return markdown_table(["setting", "server", "client", "several workers", "bounds"], rows)


def _repairs() -> list[str]:
    rows = [
        [_class_link(repair.cls), "any" if repair.member == "*" else f"`{repair.member}`", repair.note]
        for repair in REPAIRS
    ]
    return markdown_table(["class", "member", "what is repaired"], rows)


def _lifecycle() -> list[str]:
    rows = [
        [
            state.value,
            kind.value,
            rule.then.value,
            "tolerated, never sent" if rule.strength is Strength.SHOULD_NOT else "allowed",
        ]
        for state, rules in RULES.items()
        for kind, rule in rules.items()
    ]
    return markdown_table(["state", "message", "state after it", ""], rows)


PROTOCOL_TABLES: Final[Mapping[str, Callable[[], list[str]]]] = {
    "methods": _methods,
    "notifications": _notifications,
    "notification-aliases": _aliases,
    "revisions": _revisions,
    "capabilities": _capabilities,
    "error-codes": _error_codes,
    "limits": _limits,
    "lifecycle": _lifecycle,
    "repairs": _repairs,
}
"""By name: the function that returns the lines of the table."""
