"""The addresses that a client's connections reached, for deciding which addresses its server may refer to."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.oauth.addresses import classify

if TYPE_CHECKING:
    from mcp_core.oauth.addresses import Address, AddressClass

__all__ = ["AddressRecorder"]


class AddressRecorder:
    """A TCP connector that records one address of each class that it reached."""

    def __init__(self) -> None:
        self._found: Final[dict[AddressClass, Address]] = {}

    async def connect(self, host: str, port: int) -> trio.SocketStream:
        """Connect as `trio.open_tcp_stream` does, and record the address of the peer. Raises `OSError`."""
        stream = await trio.open_tcp_stream(host, port)
        try:
            address = ipaddress.ip_address(str(stream.socket.getpeername()[0]).partition("%")[0])
        except OSError:
            stream.socket.close()
            raise
        self._found[classify(address)] = address
        return stream

    def addresses(self) -> tuple[Address, ...]:
        """Return one address of each class that a connection reached."""
        return tuple(self._found.values())
