"""The program of the child process of `mcp-server dev`: loads the target and serves it until it is stopped.

    python -P -B -m mcp_server.cli.dev.child TARGET HOST:PORT ORIGIN LEVEL

ORIGIN is the origin of the inspector page, which may use the endpoint from a browser. LEVEL is the level of the log.

The parent reads reports from stdout, and holds stdin open. Both are moved to other descriptors before the author's code
runs: what that code prints goes to stderr, and it finds no input. The end of stdin means that the parent has ended, for
whatever reason. The process then ends too, also while the author's code blocks the event loop.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, BinaryIO, Final

import trio

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_server.cli import observability
from mcp_server.cli.dev.load_failure import LoadFailure
from mcp_server.cli.dev.reports import Report, ServerReady, write_report
from mcp_server.cli.target import load
from mcp_server.runners.http import serve_http
from mcp_server.runners.signals import stopped_by_signals

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from mcp_server.server import Server

    _Reporter: TypeAlias = Callable[[Report], None]

__all__ = ["main"]

_GRACE: Final = 1.0
"""Time for running calls to finish before a reload, in seconds."""


def main() -> int:
    """Run the program and return the exit status."""
    target, bind, origin, level = sys.argv[1:]
    source, sink = _take_streams()
    threading.Thread(target=_end_with_parent, args=(source,), daemon=True, name="parent").start()

    def report(what: Report) -> None:
        sink.write(write_report(what))
        sink.flush()

    observability.configure_log(level, as_json=False)
    with sink:
        try:
            trio.run(_serve, load(target), bind, origin, report)
        except Exception as error:  # noqa: BLE001  # the author's code can raise anything; it is reported to the author
            report(LoadFailure.of(error))
            return 1
    return 0


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # It was opened as a pipe, whose output waits for a full buffer.
        reconfigure(line_buffering=True)
    return source, sink


def _end_with_parent(source: BinaryIO) -> None:
    source.read()
    os._exit(1)


async def _serve(server: Server, bind: str, origin: str, report: _Reporter) -> None:
    ready = _Ready(server, report)
    policy = EndpointPolicy(allowed_origins=(origin,))
    with stopped_by_signals():
        await serve_http(server, bind, policy=policy, grace=_GRACE, task_status=ready)


class _Ready:
    """A task status that reports that the server accepts requests."""

    def __init__(self, server: Server, report: _Reporter) -> None:
        self._server: Final = server
        self._report: Final = report

    def started(self, value: tuple[str, ...] = ()) -> None:  # noqa: ARG002  # the parent chose the address
        self._report(ServerReady(name=self._server.info.name, version=self._server.info.version))


if __name__ == "__main__":
    sys.exit(main())
