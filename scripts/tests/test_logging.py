"""Importing and using the packages leaves the logging of an application unchanged."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import logging

before = (list(logging.root.handlers), logging.root.level, logging.getLoggerClass())

import trio

import mcp_conformance
from mcp_client.testing import open_in_memory
from mcp_server import Server, serve_stream

server = Server("logs", version="1")


@server.tool
def echo(text: str) -> str:
    return text


async def main() -> None:
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        await client.call_tool("echo", {"text": "a"})


trio.run(main)
assert (logging.root.handlers, logging.root.level, logging.getLoggerClass()) == before
levels = {name: logging.getLogger(name).level for name in ("mcp_core", "mcp_client", "mcp_server", "mcp_conformance")}
assert set(levels.values()) == {logging.NOTSET}, levels
"""


def test_packages_do_not_configure_logging() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
