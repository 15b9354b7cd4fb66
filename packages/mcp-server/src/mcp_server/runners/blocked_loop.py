"""A watch over the event loop: finds the lines of the author that block it.

Handlers that block are found by `mcp_server.handlers.step_timer`, but only when they have ended, and without the line. Here
a thread asks the loop for a sign of life twenty times per second. If none comes, the thread reads the stack of the loop's
thread, which shows the line that blocks at this moment. The loop wakes up for each sign, so this is for development.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

from mcp_server.tracebacks import is_library_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["watch_event_loop"]

_log: Final = logging.getLogger("mcp_server")

_PAUSE: Final = 0.05
"""Time between two signs of life, in seconds."""

_LIMIT: Final = 0.1
"""Time without a sign of life after which the loop counts as blocked, in seconds. asyncio has the same limit."""

_MOST_PLACES: Final = 100
"""Most places that are logged."""


@contextmanager
def watch_event_loop() -> Iterator[None]:
    """Log each line of the author that blocks the event loop for more than 0.1 seconds, once, during the block.

    Use it within `trio.run`.
    """
    token = trio.lowlevel.current_trio_token()
    ended = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(token, threading.get_ident(), ended), name="watch of the event loop", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _watch(token: trio.lowlevel.TrioToken, loop: int, ended: threading.Event) -> None:
    places: set[tuple[str, int]] = set()
    while not ended.wait(_PAUSE):
        alive = threading.Event()
        try:
            token.run_sync_soon(alive.set)
        except trio.RunFinishedError:
            return
        before: FrameType | None = None
        while not alive.wait(_LIMIT):
            if ended.is_set():
                return
            frame, function = _author_frames(sys._current_frames().get(loop))  # noqa: SLF001  # documented
            # A machine that is too busy to run the loop shows other frames every time.
            if frame is None or frame is not before:
                before = frame
                continue
            place = (frame.f_code.co_filename, frame.f_lineno)
            if place not in places and len(places) < _MOST_PLACES:
                places.add(place)
                _log.warning(
                    "event loop is blocked for more than %g s by %s at %s:%d; all other requests wait",
                    _LIMIT,
                    function,
                    *place,
                )


def _author_frames(frame: FrameType | None) -> tuple[FrameType | None, str]:
    """Return the innermost frame of the author, and the name of the outermost function of the author."""
    innermost: FrameType | None = None
    name = ""
    while frame is not None and frame.f_code.co_name != "<module>":
        if not is_library_file(frame.f_code.co_filename):
            innermost = innermost or frame
            name = frame.f_code.co_qualname
        frame = frame.f_back
    return innermost, name
