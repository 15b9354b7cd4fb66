"""Records of the HTTP requests of an endpoint, and the access log.

    access_log = AccessLog("json")
    trio.run(partial(serve_http, server, observers=[access_log]))

`mcp_server.prometheus` counts the same records.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, Protocol

import attrs

from mcp_core.excerpts import shown

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["AccessLog", "RequestObserver", "RequestRecord"]

_LONGEST: Final = 256
"""Largest number of characters of a text of a client in the access log."""


@attrs.define(kw_only=True)
class RequestRecord:
    """An HTTP request at an endpoint. Its members are set while it is processed."""

    began_at: float
    """The time of its arrival, in seconds since the epoch."""
    http_method: str
    """The method of HTTP."""
    path: str
    """The path."""
    principal: str | None = None
    """The subject of the authenticated party; `None` if there is no such party."""
    method: str | None = None
    """The method of its message, or `batch`; `None` if it has no message, or was rejected before the message was read."""
    name: str | None = None
    """The name or URI of the tool, prompt or resource that it uses."""
    is_registered: bool = False
    """Whether the server has the method, and the tool or prompt. Otherwise the client may have invented the names."""
    status: int | None = None
    """The HTTP status; `None` if the client disconnected before."""
    seconds: float = 0.0
    """The time until the end of the response, in seconds. It is set at the end."""
    size: int = 0
    """The size of the body of the response, in bytes."""


class RequestObserver(Protocol):
    """An object that is informed of each HTTP request of an endpoint. Its methods must not block."""

    def began(self, record: RequestRecord) -> None:
        """Note that a request has arrived."""

    def ended(self, record: RequestRecord) -> None:
        """Note that the response to a request is complete, or that the client has disconnected."""


class AccessLog:
    """An access log: one line for each request, in the logger `mcp_server.access` at the level `INFO`.

    Args:
        format: `text` for `2026-07-28T12:00:00.000Z principal=... method=...`, or `json` for an object in each line.
    """

    def __init__(self, format: Literal["text", "json"] = "text") -> None:
        if format not in {"text", "json"}:
            raise ValueError(f"the format of an access log is 'text' or 'json', not {format!r}")
        self._json: Final = format == "json"
        self._log: Final = logging.getLogger("mcp_server.access")

    def began(self, record: RequestRecord) -> None:
        """Do nothing: a request is logged at its end."""

    def ended(self, record: RequestRecord) -> None:
        """Write a line."""
        time = datetime.fromtimestamp(record.began_at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        values: JsonObject = {
            "principal": _excerpt(record.principal),
            # Requests without a message open and end streams and sessions.
            "method": _excerpt(record.method) or record.http_method,
            "name": _excerpt(record.name),
            "status": record.status,
            "ms": round(record.seconds * 1000, 1),
            "bytes": record.size,
        }
        if self._json:
            self._log.info("%s", json.dumps({"time": time, **values}, ensure_ascii=False))
        else:
            self._log.info("%s %s", time, " ".join(f"{name}={_as_word(value)}" for name, value in values.items()))


def _excerpt(text: str | None) -> str | None:
    return text and shown(text, _LONGEST)


def _as_word(value: object) -> str:
    """Return a value without blanks, so that a client cannot add other values to a line."""
    if value is None:
        return "-"
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if set(text) & set(' "=') or not text else text
