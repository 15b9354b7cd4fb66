"""Listening sockets from a service manager, and notifications to it: systemd, or the supervisor of this package.

The service manager opens the sockets before it starts the program and keeps them while the program restarts, so that
no connection is refused meanwhile. The program notifies it when it is ready and when it stops.

Spec: sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3)
"""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import MutableMapping

__all__ = ["FIRST_SOCKET", "HTTP", "WORKER", "ServiceManager", "take_sockets"]

_log: Final = logging.getLogger("mcp_server")

FIRST_SOCKET: Final = 3
"""The descriptor of the first socket. Spec: sd_listen_fds(3), `SD_LISTEN_FDS_START`"""

WORKER: Final = "MCP_SERVER_WORKER"
"""The environment variable of a worker process of `run_workers`: its place, a small number that a later worker reuses."""

HTTP: Final = "http"
"""The name of a socket for clients. Sockets of systemd have the name of their unit, which is not compared."""


def take_sockets(environment: MutableMapping[str, str] = os.environ) -> list[tuple[str, socket.socket]]:
    """Take the listening sockets that the service manager passed to this process. A second call returns none.

    Args:
        environment: The environment of the process. The variables are removed, so that no child process uses them.

    Returns:
        The sockets with their names (`LISTEN_FDNAMES`, or `http`).

    Raises:
        OSError: A descriptor is not a socket.
        ValueError: A socket does not listen at a TCP address.
    """
    pid, count, names = (environment.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    if pid != str(os.getpid()) or not count.isdigit():
        return []
    named = names.split(":") if names else []
    sockets: list[tuple[str, socket.socket]] = []
    for place in range(int(count)):
        os.set_inheritable(FIRST_SOCKET + place, False)  # noqa: FBT003  # the only form
        sock = socket.socket(fileno=FIRST_SOCKET + place)
        sockets.append((named[place] if place < len(named) else HTTP, sock))
        listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if sock.family not in {socket.AF_INET, socket.AF_INET6} or not listens:
            raise ValueError(
                f"the service manager passed a socket that does not listen at a TCP address: descriptor"
                f" {FIRST_SOCKET + place}; in a systemd socket unit, set ListenStream= to an address with a port"
            )
        sock.setblocking(False)  # noqa: FBT003  # the only parameter
    return sockets


@attrs.frozen(eq=False, repr=False)
class ServiceManager(FieldValue):
    """The service manager that started this process, or a null object if there is no service manager."""

    address: str | None = None
    """The address of its datagram socket; `None`: notifications are not sent."""
    watchdog: float | None = None
    """Time within which it requires a sign of life, in seconds; `None`: it requires none."""

    @classmethod
    def take(cls, environment: MutableMapping[str, str] = os.environ) -> ServiceManager:
        """Return the service manager of this process. A second call returns the null object.

        Args:
            environment: The environment of the process. The variables are removed, so that no child process uses them.
        """
        address, pid, period = (
            environment.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")
        )
        required = period.isdigit() and pid in {"", str(os.getpid())}
        return cls(address or None, int(period) / 1e6 if required else None)

    def notify(self, **state: str | int) -> None:
        """Send a notification. It never waits: it is dropped if the service manager does not receive it.

        Args:
            **state: The variables, for example `READY=1`.
        """
        if self.address is None:
            return
        # Spec: sd_notify(3): a leading @ stands for the zero byte of an abstract address.
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        lines = "\n".join(f"{name}={value}" for name, value in state.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)  # noqa: FBT003  # the only parameter
                sock.sendto(lines.encode(), address)
        except OSError as error:
            _log.debug("service manager not notified: state=%r error=%s", lines, error)

    async def keep_alive(self) -> None:
        """Send a sign of life twice in each period, until cancelled. Returns at once if none is required."""
        if self.address is None or self.watchdog is None:
            return
        while True:
            self.notify(WATCHDOG=1)
            await trio.sleep(self.watchdog / 2)
