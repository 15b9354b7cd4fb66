"""Run a server over stdio, a stream or HTTP, until it is cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_server.lazy_names import import_on_use

if TYPE_CHECKING:
    from mcp_server.runners.http import ServeHttpOptions

__all__ = [
    "ServeHttpOptions",
]

_LAZY: Final = {"ServeHttpOptions": "mcp_server.runners.http"}


def __getattr__(name: str) -> object:
    return import_on_use(__name__, name, _LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
