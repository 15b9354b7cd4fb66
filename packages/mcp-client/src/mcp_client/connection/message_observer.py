"""The observation of messages as they are on the wire, for a log of the conversation."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from mcp_core.codec import encode
from mcp_core.errors import MalformedMessage

if TYPE_CHECKING:
    from mcp_client.connection.channel import Deliver
    from mcp_core.codec import Batch
    from mcp_core.jsonrpc.messages import Message

__all__ = ["MessageDirection", "MessageObserver", "OnMessage"]

_log: Final = logging.getLogger("mcp_client")

MessageDirection: TypeAlias = Literal["sent", "received"]
"""Whether the client sent or received a message."""

OnMessage: TypeAlias = Callable[[MessageDirection, bytes], None]
"""A function that receives each message, as JSON."""


class MessageObserver:
    """The observer of the messages of one connection.

    Args:
        on_message: The function of the application.
    """

    def __init__(self, on_message: OnMessage) -> None:
        self._on_message: Final = on_message

    def observe(self, direction: MessageDirection, message: bytes) -> None:
        """Pass a message to the function of the application."""
        try:
            self._on_message(direction, message.rstrip(b"\r\n"))
        except Exception:  # noqa: BLE001  the user's function: its failure must not end a connection that works
            _log.exception("callback for messages failed")

    def observing(self, deliver: Deliver, sent: bytes | None) -> Deliver:
        """Observe a message that an HTTP request sends, and return a function that observes each message of the response.

        Args:
            deliver: Is called with each message of the response after its observation.
            sent: The body of the request; `None` for a request without a message.
        """
        if sent is not None:
            self.observe("sent", sent)

        def observe_and_deliver(message: Message | Batch | MalformedMessage) -> None:
            if not isinstance(message, MalformedMessage):
                self.observe("received", encode(message, null_id=True))
            deliver(message)

        return observe_and_deliver
