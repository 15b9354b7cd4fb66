"""Makes the pages of the reference that are tables: from the tables that the code itself walks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

import attrs

from mcp_core import types
from mcp_core.engine.lifecycle import RULES, State, Strength
from mcp_core.errors import ErrorCode
from mcp_core.limits import CLIENT_LIMITS, SERVER_LIMITS, Limits
from mcp_core.methods import ALIASES, METHODS, NOTIFICATIONS, Method
from mcp_core.revisions import REVISIONS, Revision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reference_pages import Source

__all__ = ["tables"]

_REVISIONS: Final = tuple(REVISIONS.values())
_YES: Final = "yes"
_NO: Final = "—"


def tables(sources: Mapping[str, Source]) -> dict[str, str]:
    """The pages, by file name.

    Args:
        sources: All modules, for the texts that stand under fields and members.
    """
    return {
        "methods.md": _methods(),
        "notifications.md": _notifications(),
        "revisions.md": _revisions(sources),
        "capabilities.md": _capabilities(),
        "error-codes.md": _error_codes(sources),
        "limits.md": _limits(sources),
        "lifecycle.md": _lifecycle(),
    }


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]


def _page(title: str, text: str, *parts: Sequence[str]) -> str:
    lines = [f"# {title}", "", text]
    for part in parts:
        lines += ["", *part]
    return "\n".join(lines) + "\n"


def _class_link(kind: object) -> str:
    if (members := get_args(kind)) != ():
        return ", ".join(_class_link(member) for member in members)
    name = getattr(kind, "__name__", str(kind))
    module = getattr(kind, "__module__", "")
    # What is defined in a private module has its place on the page of the package.
    page = "mcp_core.types" if "._" in module else module
    return f"[`{name}`]({page}.md#{name.lower()})" if hasattr(types, name) else f"`{name}`"


def _path(path: tuple[str, ...] | None) -> str:
    return f"`{'.'.join(path)}`" if path else ""


def _methods() -> str:
    def cell(row: Method[object, object], revision: Revision) -> str:
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
    return _page(
        "Methods by revision",
        "Requests: who sends them, in which revisions, and what the receiver has to have declared for it. *In a result*: the\n"
        "server asks in an `InputRequiredResult`, and the client answers by sending its request again. From\n"
        "`mcp_core.methods.METHODS`.",
        _table(["method", "sender", *names, "capability", "parameters", "result"], rows),
    )


def _notifications() -> str:
    rows = [
        [
            f"`{row.name}`",
            *(row.sender_in(revision).value if revision in row.revisions else _NO for revision in _REVISIONS),
            _path(row.server_capability) or _path(row.client_capability),
            _class_link(row.params),
        ]
        for row in NOTIFICATIONS
    ]
    old = [[f"`{name}`", f"`{row.name}`"] for name, row in ALIASES.items()]
    names = [revision.name for revision in _REVISIONS]
    return _page(
        "Notifications by revision",
        "Who may send them in which revision, and what has to have been declared for it. From `mcp_core.methods.NOTIFICATIONS`.",
        _table(["notification", *names, "capability", "parameters"], rows),
        ["A client also takes these names from before the specification; nothing of ours sends them.", ""],
        _table(["name", "taken for"], old),
    )


def _texts(source: Source, name: str) -> dict[str, str]:
    """The texts that stand under the fields or members of a class."""
    import ast  # noqa: PLC0415  # lazy: replaced below

    raise NotImplementedError(ast, source, name)
