"""Tests of the ports of started servers."""

from __future__ import annotations

import socket

import pytest

from mcp_conformance.drivers.server import targets
from mcp_conformance.drivers.server.targets import free_port


def test_free_port_is_below_ephemeral_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        assert free_port() < min(used.getsockname()[1], 32_768)


def test_free_port_is_returned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(targets, "_NEVER_GIVEN", range(port, port + 1))
    with pytest.raises(OSError, match="no free port"):
        free_port()


@pytest.mark.parametrize(("family", "address"), targets._LOOPBACK)
def test_port_with_listener_is_not_free(
    monkeypatch: pytest.MonkeyPatch, family: socket.AddressFamily, address: str
) -> None:
    try:
        listener = socket.create_server((address, free_port()), family=family)
    except OSError:
        pytest.skip(f"this machine has no {address}")  # no program can listen there
    with listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(targets, "_NEVER_GIVEN", range(port, port + 1))
        monkeypatch.setattr(targets, "_RETURNED", set())
        with pytest.raises(OSError, match=f"no free port between {port} and {port}"):
            free_port()
