"""Tests with bridges that use one stdio server for all their clients, one after the other.

A bridge that forwards messages unchanged sends the `initialize` of each client over the same pipe.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from interop.framework.run import install
from mcp_client import open_http
from mcp_conformance.drivers.server.targets import free_port
from mcp_core.types import TextContent

HERE = Path(__file__).parent
PINNED = HERE / "bridges"
PLACE = HERE.parents[1] / ".peers"
NODE, PYTHON = PLACE / "bridges-node", PLACE / "bridges-python"
MCP_PROXY = "mcp-proxy==0.13.0"
"""The version, which is also in `python.txt` with all dependencies."""
TIMEOUT = 60
"""Timeout in seconds for the start of a bridge, and for each client."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def supergateway() -> list[str]:
    """The command of the bridge from npm, which is installed if missing."""
    install("bridge supergateway", PINNED, NODE)
    return ["node", str(NODE / "node_modules" / "supergateway" / "dist" / "index.js")]


@pytest.fixture(scope="module")
def mcp_proxy() -> list[str]:
    """The command of the bridge from PyPI, which is installed if missing."""
    versions = PINNED / "python.txt"
    stamp = PYTHON / "stamp"
    wanted = f"{MCP_PROXY}\n{versions.read_text()}"
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(PYTHON)], check=True)
        pip = [str(PYTHON / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--constraint", str(versions), MCP_PROXY], check=True)
        stamp.write_text(wanted)
    return [str(PYTHON / "bin" / "mcp-proxy")]


@contextmanager
def running(command: Sequence[str], ready: str) -> Iterator[None]:
    """Run a bridge for a block that begins when it has written `ready`."""
    said: list[str] = []
    is_ready = threading.Event()

    def read(process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            said.append(line)
            if ready in line:
                is_ready.set()

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        reader = threading.Thread(target=read, args=(process,))
        reader.start()
        try:
            assert is_ready.wait(TIMEOUT), "".join(said)[-3000:]
            yield
        finally:
            process.terminate()
            reader.join(TIMEOUT)


async def use(url: str, number: int) -> None:
    """List the tools and call one, as one client."""
    with trio.fail_after(TIMEOUT):
        async with open_http(url) as client:
            assert [tool.name for tool in await client.list_tools()] == ["echo"]
            result = await client.call_tool("echo", {"text": f"client {number}"})
            assert result.content[0] == TextContent(text=f"client {number}")


def started_with(log: Path) -> list[str]:
    return [sys.executable, str(HERE / "bridged_server.py"), str(log)]


async def test_bridge_forwarding_initialize_serves_successive_clients(supergateway: list[str], tmp_path: Path) -> None:
    log, port = tmp_path / "log.txt", free_port()
    command = [*supergateway, "--stdio", shlex.join(started_with(log)), "--port", str(port)]
    with running(command, "Listening on port"):
        for number in range(3):
            await use(f"http://127.0.0.1:{port}/sse", number)
    said = log.read_text()
    # One process serves all clients: the second and the third client took over the pipe.
    assert said.count("process started") == 1
    assert said.count("session replaced by a second initialize") == 2


async def test_bridge_with_own_session_serves_successive_clients(mcp_proxy: list[str], tmp_path: Path) -> None:
    log, port = tmp_path / "log.txt", free_port()
    command = [*mcp_proxy, "--port", str(port), *started_with(log)]
    with running(command, "Uvicorn running"):
        for number in range(3):
            await use(f"http://127.0.0.1:{port}/mcp", number)
    assert log.read_text().count("process started") == 1
