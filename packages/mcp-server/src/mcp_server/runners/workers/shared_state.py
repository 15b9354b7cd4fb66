"""The state that several processes of one server must share, and what to do if it is not shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_server.server import Server

__all__ = ["unshared_state"]

_NEEDS: Final[Mapping[str, tuple[Callable[[Server], bool], str]]] = {
    "sessions of legacy clients": (
        lambda server: any(revision.era is Era.LEGACY for revision in server.revisions),
        "serve only revisions without sessions, Server(revisions=MODERN)",
    ),
    "tasks": (
        lambda server: server.capabilities.tasks is not None,
        "register no tool that can run as a task",
    ),
    "request states and cursors": (
        lambda server: not server.has_state_keys,
        "give all processes the same keys, --state-key FILE or InputPolicy(keys=...)",
    ),
}
"""The kinds of state, whether a server has it, and how to do without."""


def unshared_state(server: Server) -> str | None:
    """Return why a server cannot run in several processes that share no state, and what to do; `None` if it can."""
    needed = [(kind, remedy) for kind, (has, remedy) in _NEEDS.items() if has(server)]
    if not needed:
        return None
    listed = "; ".join(f"{kind} ({remedy})" for kind, remedy in needed)
    return f"several workers need shared state for {listed}. Share it with --cluster URL, or run one worker"
