"""A correct server in plain Python that leaves some requests without a response: the target of `hanging_targets`.

python -m bench.programs.hanging_server tools-call              over stdio
python -m bench.programs.hanging_server tools-call --port 8000  over HTTP, at /mcp
"""

from __future__ import annotations

import argparse
import itertools
import threading
from typing import TYPE_CHECKING, Final

from mutants.server.http import serve_http
from mutants.server.server import RawServer
from mutants.server.stdio import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonValue
    from mutants.server.session import Session

__all__ = ["HANGS"]

_FIRST: Final = ("initialize", "server/discover")
"""The methods that open a connection."""


def _every(number: int) -> Callable[[str], bool]:
    """Return a condition that is true for every nth request, except for those without which a revision is not tested."""
    counted = itertools.count(1)
    return lambda method: method not in _FIRST and not method.endswith("/list") and next(counted) % number == 0


HANGS: Final[Mapping[str, Callable[[str], bool]]] = {
    "healthy": lambda _: False,
    "all": lambda _: True,
    "all-but-first": lambda method: method not in _FIRST,
    "tools-call": lambda method: method == "tools/call",
    "lists": lambda method: method.endswith("/list"),
    "ping": lambda method: method == "ping",
    "every-second": _every(2),
    "every-fifth": _every(5),
    "exit": lambda _: False,
}
"""By name: whether a request of a method hangs. The server `exit` answers, and does not exit at the end of its input."""


class _HangingServer(RawServer):
    """A server that never answers some requests.

    Args:
        hangs: Whether a request of a method hangs.
        blocks: Whether the thread of such a request waits forever, so that an HTTP exchange stays open.
    """

    def __init__(self, hangs: Callable[[str], bool], *, blocks: bool) -> None:
        super().__init__()
        self._hangs: Final = hangs
        self._blocks: Final = blocks

    def receive(self, message: JsonValue, session: Session, send: Callable[[JsonValue], None]) -> tuple[JsonValue, int]:
        """Receive a message, and answer it unless it hangs."""
        if isinstance(message, dict) and "id" in message and self._hangs(str(message.get("method"))):
            if self._blocks:
                threading.Event().wait()
            return None, 202
        return super().receive(message, session, send)


def main() -> None:
    """Serve until the input ends, or over HTTP until the process is ended."""
    parser = argparse.ArgumentParser(prog="hanging_server", description="A server that hangs.")
    parser.add_argument("hang", choices=HANGS)
    parser.add_argument("--port", type=int)
    given = parser.parse_args()
    server = _HangingServer(HANGS[given.hang], blocks=given.port is not None)
    if given.port is not None:
        serve_http(server, given.port)
    else:
        serve(server)
        if given.hang == "exit":
            threading.Event().wait()


if __name__ == "__main__":
    main()
