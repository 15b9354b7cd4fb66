"""An HTTP request whose response is measured, for the observers of an endpoint."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from mcp_server.asgi import WRITE_NOW
from mcp_server.observation import RequestRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_server.asgi import Message, Scope, Send
    from mcp_server.connection.authenticator import Identity
    from mcp_server.observation import RequestObserver

__all__ = ["ObservedRequest", "note_principal", "observed"]

_log: Final = logging.getLogger("mcp_server")

_RECORD: Final = "mcp_server.record"
"""The key of the scope that has the record."""


def observed(scope: Scope) -> RequestRecord | None:
    """Return the record of a request; `None` if it is not observed."""
    record = scope.get(_RECORD)
    return record if isinstance(record, RequestRecord) else None


def note_principal(scope: Scope, identity: Identity) -> None:
    """Record the principal of a request, if the request is observed."""
    record = observed(scope)
    if record is not None and identity.principal is not None:
        record.principal = identity.principal.subject


class ObservedRequest:
    """A request whose response is measured before the host receives it.

    Args:
        scope: The ASGI scope.
        send: The ASGI `send` of the host.
        observers: Are informed of the begin and the end.
    """

    __slots__ = ("_began", "_observers", "_record", "_send", "scope")

    def __init__(self, scope: Scope, send: Send, observers: Sequence[RequestObserver]) -> None:
        self._send: Final = send
        self._observers: Final = observers
        self._began: Final = time.perf_counter()
        record = self._record = RequestRecord(
            began_at=time.time(), http_method=str(scope["method"]), path=str(scope["path"])
        )
        extensions = scope.get("extensions")
        if isinstance(extensions, dict) and WRITE_NOW in extensions:
            write_now = extensions[WRITE_NOW]

            def counted(data: bytes) -> bool:
                record.size += len(data)
                return bool(write_now(data))

            scope = {**scope, "extensions": {**extensions, WRITE_NOW: counted}}
        self.scope: Final = {**scope, _RECORD: record}
        """The scope for the application. It has the record."""
        self._inform([each.began for each in observers])

    async def send(self, message: Message) -> None:
        """Send a part of the response, and measure it."""
        if message["type"] == "http.response.start":
            self._record.status = message["status"]  # type: ignore[assignment]  # as ASGI specifies
        else:
            self._record.size += len(message.get("body", b""))  # type: ignore[arg-type]  # likewise
        await self._send(message)

    def end(self) -> None:
        """Inform the observers that the request has ended."""
        self._record.seconds = time.perf_counter() - self._began
        self._inform([each.ended for each in self._observers])

    def _inform(self, methods: Sequence[Callable[[RequestRecord], None]]) -> None:
        for method in methods:
            try:
                method(self._record)
            except Exception:  # noqa: BLE001  # the author's function can raise anything; the request continues
                _log.exception("observer failed: method=%s", method)
