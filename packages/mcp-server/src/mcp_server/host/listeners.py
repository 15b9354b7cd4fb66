"""Where an HTTP server listens: from `HOST:PORT` to sockets."""

from __future__ import annotations

import errno
import ipaddress
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["BACKLOG", "are_loopback", "listen", "split_bind", "urls"]

BACKLOG: Final = 1_024
"""Connections that may wait to be accepted. With the usual hundred, several hundred clients that come at once wait for
seconds until they try again."""

_ABSENT: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
"""The system does not have this kind of address: `localhost` often has one that cannot be used."""

_ATTEMPTS: Final = 5
"""Times that a free port is looked for which all addresses of a name have free."""


def split_bind(bind: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 address stands in brackets.

    Raises:
        ValueError: It is of another form.
    """
    host, colon, port = bind.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise ValueError(f"{bind!r} does not say where to listen: write HOST:PORT, as 127.0.0.1:8000 or [::1]:8000")
    # int() would take blanks, signs and underscores too.
    if not (port.isascii() and port.isdigit() and int(port) <= 0xFFFF):
        raise ValueError(f"{port!r} is not a port: it has to be a number from 0 to 65535")
    return host[1:-1] if bracketed else host, int(port)


async def listen(bind: str) -> list[trio.SocketListener]:
    """Listens at all addresses of a host, at the same port.

    Args:
        bind: `HOST:PORT`; for port 0 the system chooses one.

    Raises:
        ValueError: It is of another form.
        OSError: That is not possible; the error says why.
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
    """`None` when the system chose a port that another address has not free."""
    listeners: list[trio.SocketListener] = []
    chosen = port
    absent: OSError | None = None
    for address in addresses:
        try:
            listeners += await trio.open_tcp_listeners(chosen, host=address, backlog=BACKLOG)
        except OSError as error:
            if error.errno in _ABSENT:
                absent = error
                continue
            for listener in listeners:
                await listener.aclose()
            if listeners and not port and error.errno == errno.EADDRINUSE:
                return None
            raise
        chosen = int(listeners[0].socket.getsockname()[1])
    if not listeners and absent is not None:
        raise absent
    return listeners


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program does already; choose another port, or 0 for any that is free"
    if error.errno == errno.EACCES:
        return "the system does not permit it; ports below 1024 are often reserved"
    return error.strerror or str(error)


def are_loopback(listeners: Sequence[trio.SocketListener]) -> bool:
    """Only this machine can connect to them."""
    return all(ipaddress.ip_address(listener.socket.getsockname()[0]).is_loopback for listener in listeners)


def urls(listeners: Sequence[trio.SocketListener], scheme: str, path: str) -> tuple[str, ...]:
    """The URLs that lead to `path` of them."""
    names = [listener.socket.getsockname()[:2] for listener in listeners]
    return tuple(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}" for host, port in names)
