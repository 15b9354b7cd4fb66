"""Listening sockets of an HTTP server, from `HOST:PORT`."""

from __future__ import annotations

import errno
import ipaddress
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["BACKLOG", "are_loopback", "listen", "split_bind", "urls"]

BACKLOG: Final = 65_535
"""Number of connections that can wait to be accepted: as many as the system permits (Linux: `net.core.somaxconn`).

A client whose connection does not fit tries again after a second at the earliest (RFC 6298 section 2.1). With 1,024, a
well-behaved client waited that long while 3,600 connections were opened."""

_ABSENT: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
"""Errors for an address family that the system does not have: `localhost` often has an unusable address."""

_ATTEMPTS: Final = 5
"""Attempts to find a port that is free at all addresses of a host name."""


def split_bind(bind: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`. An IPv6 address is written in brackets.

    Raises:
        ValueError: `bind` does not have this form.
    """
    host, colon, port = bind.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise ValueError(f"{bind!r} is not an address to bind to: write HOST:PORT, as in 127.0.0.1:8000 or [::1]:8000")
    # int() also accepts blanks, signs and underscores.
    if not (port.isascii() and port.isdigit() and int(port) <= 0xFFFF):
        raise ValueError(f"{port!r} is not a port: write a number from 0 to 65535")
    return host[1:-1] if bracketed else host, int(port)


async def listen(bind: str) -> list[trio.SocketListener]:
    """Listen on all addresses of a host, at the same port.

    Args:
        bind: `HOST:PORT`. For port 0 the system chooses a port.

    Returns:
        The listening sockets, one for each address.

    Raises:
        ValueError: `bind` is not of the form `HOST:PORT`.
        OSError: An address cannot be used; the message names the cause.
    """
    host, port = split_bind(bind)
    try:
        found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
        addresses = dict.fromkeys(str(entry[4][0]) for entry in found)
        for _ in range(_ATTEMPTS):
            listeners = await _listen_at(addresses, port)
            if listeners is not None:
                return listeners
    except OSError as error:
        raise OSError(error.errno, f"cannot listen at {bind}: {_why(error)}") from error
    raise OSError(errno.EADDRINUSE, f"cannot listen at {bind}: no port is free at all addresses of {host}")


async def _listen_at(addresses: Iterable[str], port: int) -> list[trio.SocketListener] | None:
    """Return `None` if the port that the system chose for one address is in use at another."""
    listeners: list[trio.SocketListener] = []
    chosen = port
    absent: OSError | None = None
    for address in addresses:
        try:
            listeners += await trio.open_tcp_listeners(chosen, host=address, backlog=BACKLOG)
        except BaseException as error:
            if isinstance(error, OSError) and error.errno in _ABSENT:
                absent = error
                continue
            # Also if the caller is cancelled.
            for listener in listeners:
                listener.socket.close()
            if listeners and not port and isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                return None
            raise
        chosen = int(listeners[0].socket.getsockname()[1])
    if not listeners and absent is not None:
        raise absent
    return listeners


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use; choose another port, or 0 for any free port"
    if error.errno == errno.EACCES:
        return "permission denied; ports below 1024 are often reserved"
    return error.strerror or str(error)


def are_loopback(listeners: Sequence[trio.SocketListener]) -> bool:
    """Return whether only programs on this machine can connect to the listeners."""
    return all(ipaddress.ip_address(listener.socket.getsockname()[0]).is_loopback for listener in listeners)


def urls(listeners: Sequence[trio.SocketListener], scheme: str, path: str) -> tuple[str, ...]:
    """Return the URLs of `path` at the listeners."""
    names = [listener.socket.getsockname()[:2] for listener in listeners]
    return tuple(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}" for host, port in names)
