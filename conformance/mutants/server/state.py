"""The state of one raw server beyond its sessions. Each server has its own: many run in one process."""

from __future__ import annotations

import threading
from typing import Final

__all__ = ["ServerState"]


class ServerState:
    """The state of one server, for all its clients."""

    def __init__(self) -> None:
        self.released: Final[dict[str, threading.Event]] = {}
        """By the key of a waiting call, what releases it."""
        self.outcomes: Final[dict[str, str]] = {}
        """By the key of a waiting call, its outcome."""
        self.redeemed: Final[set[str]] = set()
        """The request states that were used, each of which is accepted once."""
        self.redeeming: Final = threading.Lock()
        self.pending_accounts: Final[dict[str, tuple[str, str]]] = {}
        """By id of an elicitation, its user and the third party."""
        self.accounts: Final[dict[str, tuple[str, str]]] = {}
        """By user, the third party and the access token for it."""
