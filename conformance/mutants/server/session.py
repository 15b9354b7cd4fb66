"""The state of a legacy client in a raw server."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Answers", "Session"]

Answers: TypeAlias = "dict[str, tuple[threading.Event, list[JsonObject]]]"
"""The client requests that have no response yet, by id."""


class Session:
    """The state of a legacy client."""

    def __init__(self, send: Callable[[JsonValue], None]) -> None:
        self.revision: str | None = None
        self.initialized = False
        self.capabilities: JsonObject = {}
        self.level = "debug"
        self.subscribed: set[str] = set()
        self.user = ""
        self.host = ""
        self.cancelled: list[JsonValue] = []
        self.cancelling: Final = threading.Lock()
        self.send: Final = send
        self.answers: Final[Answers] = {}
        self.numbers: Final = itertools.count(1)

    def forget_cancellation(self, id: JsonValue) -> None:
        """Forget the cancellation of an earlier request, whose id a new request has."""
        with self.cancelling:
            self.cancelled[:] = [each for each in self.cancelled if each != id]

    def announce(self, message: JsonValue) -> bool:  # noqa: ARG002
        """Send a message without a request on a stream for it, and return whether there is one; not over stdio."""
        return False
