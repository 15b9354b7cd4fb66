"""The pages of the reference with the tables that the code uses."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, get_args

import attrs

from documentation.reference_pages import field_texts, link
from mcp_core import types
from mcp_core.conversion.repairs import REPAIRS
from mcp_core.engine.lifecycle import RULES, State, Strength
from mcp_core.errors import ErrorCode
from mcp_core.limits import CLIENT_LIMITS, SERVER_LIMITS, Limits
from mcp_core.methods import ALIASES, METHODS, NOTIFICATIONS, NotificationMethod, RequestMethod
from mcp_core.revisions import REVISIONS, Revision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from documentation.reference_pages import Source

__all__ = ["markdown_page", "markdown_table", "tables"]

_REVISIONS: Final = tuple(REVISIONS.values())
_YES: Final = "yes"
_NO: Final = "—"


def tables(sources: Mapping[str, Source]) -> dict[str, str]:
    """Return the pages, by file name.

    Args:
        sources: All modules, for the docstrings of fields and members.
    """
    return {
        "methods.md": _methods(sources),
        "notifications.md": _notifications(sources),
        "revisions.md": _revisions(sources),
        "capabilities.md": _capabilities(),
        "error-codes.md": _error_codes(sources),
        "limits.md": _limits(sources),
        "lifecycle.md": _lifecycle(),
        "repairs.md": _repairs(sources),
    }


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]


def markdown_page(title: str, text: str, *parts: Sequence[str]) -> str:
    """Return a page: its title, its first paragraph, and parts of lines."""
    lines = [f"# {title}", "", text]
    for part in parts:
        lines += ["", *part]
    return "\n".join(lines) + "\n"


def _class_link(kind: object, sources: Mapping[str, Source]) -> str:
    if (members := get_args(kind)) != ():
        return ", ".join(_class_link(member, sources) for member in members)
    name = getattr(kind, "__name__", str(kind))
    return link(sources["mcp_core.types"], name, sources) if hasattr(types, name) else f"`{name}`"


def _path(path: tuple[str, ...] | None) -> str:
    return f"`{'.'.join(path)}`" if path else ""


def _methods(sources: Mapping[str, Source]) -> str:
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
            _class_link(row.params, sources),
            _class_link(row.result, sources),
        ]
        for row in METHODS
    ]
    names = [revision.name for revision in _REVISIONS]
    return markdown_page(
        "Methods by revision",
        "Requests with their senders, revisions, and the capability that the receiver must declare. *In a result*: the server\n"
        "sends the request in an `InputRequiredResult`, and the client retries its request with the response. From\n"
        "`mcp_core.methods.METHODS`.",
        markdown_table(["method", "sender", *names, "capability", "parameters", "result"], rows),
    )


def _notifications(sources: Mapping[str, Source]) -> str:
    rows = [
        [
            f"`{row.name}`",
            *(row.sender_in(revision).value if revision in row.revisions else _NO for revision in _REVISIONS),
            _path(row.server_capability) or _path(row.client_capability),
            _class_link(row.params, sources),
        ]
        for row in NOTIFICATIONS
    ]
    old = [[f"`{name}`", f"`{alias.definition.name}`"] for name, alias in ALIASES.items()]
    names = [revision.name for revision in _REVISIONS]
    return markdown_page(
        "Notifications by revision",
        "Notifications with their senders, revisions and capabilities. From `mcp_core.methods.NOTIFICATIONS`.",
        markdown_table(["notification", *names, "capability", "parameters"], rows),
        [
            "A client also accepts these names from drafts before the specification. No side of this project sends them.",
            "",
        ],
        markdown_table(["name", "read as"], old),
    )


def _revisions(sources: Mapping[str, Source]) -> str:
    texts = field_texts(sources["mcp_core.revisions"], "Revision")
    traits = [each.name for each in attrs.fields(Revision) if each.name != "name"]
    rows = [
        [f"`{trait}`", *(_value(getattr(revision, trait)) for revision in _REVISIONS), texts.get(trait, "")]
        for trait in traits
    ]
    return markdown_page(
        "Revisions and their traits",
        "The traits of each revision. Code asks these traits, and never compares names of revisions. From\n"
        "`mcp_core.revisions`.",
        markdown_table(["trait", *(revision.name for revision in _REVISIONS), "meaning"], rows),
    )


def _value(value: object) -> str:
    if isinstance(value, bool):
        return _YES if value else _NO
    if isinstance(value, enum.Enum) and not isinstance(value, int):
        return str(value.value)
    return _NO if value is None else str(int(value)) if isinstance(value, int) else str(value)


def _capabilities() -> str:
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
    return markdown_page(
        "Capabilities",
        "Capabilities with the sides that declare them and the messages that need them. The capabilities of a server follow from\n"
        "its registered features, those of a client from its handlers. From `mcp_core.methods`.",
        markdown_table(["capability", "declared by", "needed for"], rows),
    )


def _error_codes(sources: Mapping[str, Source]) -> str:
    texts = field_texts(sources["mcp_core.errors"], "ErrorCode")
    rows = [[str(int(code)), f"`{code.name}`", texts.get(code.name, "")] for code in ErrorCode]
    return markdown_page(
        "Error codes",
        "The codes of JSON-RPC errors. The exceptions of the codes: [mcp_core.errors](mcp_core.errors.md). From\n"
        "`mcp_core.errors.ErrorCode`.",
        markdown_table(["code", "name", "meaning"], rows),
    )


def _limits(sources: Mapping[str, Source]) -> str:
    texts = field_texts(sources["mcp_core.limits"], "Limits")
    rows = [
        [
            f"`{each.name}`",
            f"{getattr(SERVER_LIMITS, each.name):,}",
            f"{getattr(CLIENT_LIMITS, each.name):,}",
            texts.get(each.name, ""),
        ]
        for each in attrs.fields(Limits)
    ]
    return markdown_page(
        "Limits",
        "The limits on the memory and work that a peer can cause. Pass `limits=Limits(...)` to `Server`, `open_stdio` or `open_http`.\n"
        "An error about a limit names the setting. From `mcp_core.limits`.",
        markdown_table(["setting", "server", "client", "bounds"], rows),
    )


def _repairs(sources: Mapping[str, Source]) -> str:
    rows = [
        [_class_link(repair.cls, sources), "any" if repair.member == "*" else f"`{repair.member}`", repair.note]
        for repair in REPAIRS
    ]
    return markdown_page(
        "Repairs",
        "Known deviations of deployed peers, and their repairs. A value is read strictly first; repairs apply only to values that\n"
        "fail. No side of this project sends a deviation. From `mcp_core.conversion.compatibility.REPAIRS`.",
        markdown_table(["class", "member", "what is repaired"], rows),
    )


def _lifecycle() -> str:
    ids = {state: state.name.lower() for state in State}
    drawing = ["```mermaid", "stateDiagram-v2", f"    [*] --> {ids[State.AWAITING]}"]
    drawing += [f"    {ids[state]}: {state.value}" for state in State]
    rows = []
    for state, rules in RULES.items():
        moves: dict[State, list[str]] = {}
        for kind, rule in rules.items():
            tolerated = rule.strength is Strength.SHOULD_NOT
            rows.append([state.value, kind.value, rule.then.value, "tolerated, never sent" if tolerated else "allowed"])
            if not tolerated:
                moves.setdefault(rule.then, []).append(kind.value)
        drawing += [
            f"    {ids[state]} --> {ids[then]}: {', '.join(kinds)}"
            for then, kinds in moves.items()
            if then is not state
        ]
        if state is not State.CLOSED:
            drawing.append(f"    {ids[state]} --> {ids[State.CLOSED]}: the connection ends")
    drawing += [f"    {ids[State.CLOSED]} --> [*]", "```"]
    return markdown_page(
        "The legacy session",
        "Revisions up to 2025-11-25 open a session with `initialize`. These are the allowed messages in each state; others are\n"
        "rejected. Requests of 2026-07-28 carry their metadata and have no states. From `mcp_core.engine.lifecycle.RULES`.",
        drawing,
        markdown_table(["state", "message", "state after it", ""], rows),
    )
