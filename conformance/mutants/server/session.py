"""What a raw server remembers of a legacy client."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Session"]


class Session:
    """What is remembered of a legacy client."""

    def __init__(self, send: Callable[[JsonValue], None]) -> None:
        self.revision: str | None = None
        self.capabilities: JsonObject = {}
        self.level = "debug"
        self.subscribed: set[str] = set()
        self.user = ""
        self.cancelled: list[JsonValue] = []
        self.cancelling: Final = threading.Lock()
        self.send: Final = send
        self.answers: Final[dict[str, tuple[threading.Event, list[JsonObject]]]] = {}
        self.numbers: Final = itertools.count(1)

    def announce(self, message: JsonValue) -> bool:  # noqa: ARG002
        """Sends what belongs to no request on a stream for that. Whether there is one: over pipes there is not."""
        return False
