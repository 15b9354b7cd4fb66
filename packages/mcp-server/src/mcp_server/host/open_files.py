"""The number of connections that the limit on open files permits.

A process that runs out of descriptors can accept no connection, open no file and start no process. Therefore the limit
is raised as far as the system allows, and the number of connections is bounded below it.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import resource

__all__ = ["connections_allowed"]

_log: Final = logging.getLogger("mcp_server")
"""Descriptors that are reserved for other purposes: databases, files, outbound connections."""
_RESERVE: Final = 64
"""Descriptors that are left for everything but connections from clients: databases, files, connections to others."""

_DESCRIPTORS: Final = Path("/dev/fd")


def connections_allowed(wanted: int) -> int:
    """Raise the soft limit on open files to the hard limit, and return the number of connections that it permits.

    Args:
        wanted: `Limits.connections`.

    Returns:
        `wanted`, or less if the limit minus the open files and a reserve is smaller; at least 1.
    """
    if sys.platform == "win32":
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as error:
            # macOS reports a hard limit that it does not grant.
            _log.debug("limit on open files not raised from %d to %d: %s", soft, hard, error)
        else:
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return wanted
    try:
        used = sum(1 for _ in _DESCRIPTORS.iterdir())
    except OSError:
        used = _RESERVE
    allowed = max(1, min(wanted, soft - used - _RESERVE))
    if allowed < wanted:
        _log.warning(
            "connections bounded to %d instead of Limits.connections (%d): the limit on open files is %d (ulimit -n)",
            allowed,
            wanted,
            soft,
        )
    return allowed
