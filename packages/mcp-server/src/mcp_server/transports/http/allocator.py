"""Return of freed memory to the operating system.

Without this function, a server would keep the memory of an attack or of a burst of large messages permanently. The C
library of Linux (glibc) returns only the end of its heap, which a small block in use can occupy. Python has no function
for this purpose, but glibc has. On other systems nothing is done.
"""

from __future__ import annotations

import sys

__all__ = ["return_free_memory"]


def return_free_memory() -> None:
    """Return free memory of the C library to the system. This takes about 15 ms per 100 MiB."""
    if sys.platform != "linux":
        return
    import ctypes  # lazy: 10 ms, needed only after a burst over HTTP

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if callable(trim):  # not available in musl
        trim(0)
