"""Garbage collection in a process that serves a server over HTTP.

A full collection examines all objects of the process: after the imports, tens of thousands of modules, classes and functions.
All requests wait meanwhile, up to 25 ms. These objects live as long as the process: to examine them finds nothing.
"""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["startup_objects_frozen"]

_lock = threading.Lock()
# The number of servers that run in this process, in all threads.
_running = 0


@contextmanager
def startup_objects_frozen() -> Iterator[None]:
    """Exclude the objects that exist now from garbage collection (`gc.freeze`), until the last such block of the process ends.

    Garbage is not collected first: that would take as long as the pause that it avoids, and imports leave little garbage.
    """
    global _running  # noqa: PLW0603  # the garbage collector is global, too
    with _lock:
        _running += 1
        gc.freeze()
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                gc.unfreeze()
