"""HTTP services of the suite on the loopback interface, which a server under test may call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.server.targets import UrlTarget
from mcp_conformance.model.verdict import NotTestable

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

__all__ = ["require_local"]

_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


def require_local(server: ServerUnderTest) -> None:
    """Require that the server can reach the loopback interface of the suite.

    Raises:
        NotTestable: The server is on another host.
    """
    if isinstance(server.target, UrlTarget) and server.target.endpoint.host not in _LOCAL:
        raise NotTestable("the server is on another host, and cannot reach the services of the suite")
