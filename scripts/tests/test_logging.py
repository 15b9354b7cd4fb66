"""Importing and using the packages leaves the logging of an application unchanged, and prints nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]

SOURCES: Final = {
    path.name: path
    for pattern in ("packages/*/src/mcp_*", "conformance/src/mcp_*")
    for path in ROOT.glob(pattern)
    if path.is_dir()
}
"""The folders of the packages, by the names of the packages."""

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


def loggers_of(package: str) -> set[str]:
    """Return the names of the top loggers that the modules of a package use."""
    texts = (path.read_text() for path in SOURCES[package].rglob("*.py"))
    return {name for text in texts for name in re.findall(r'getLogger\("(\w+)', text)}


def test_sources_contain_packages_that_log() -> None:
    assert set(SOURCES) == {"mcp_core", "mcp_client", "mcp_server", "mcp_conformance"}
    assert loggers_of("mcp_client") >= {"mcp_client"}


@pytest.mark.parametrize("package", SOURCES)
def test_logger_of_package_that_logs_has_null_handler(package: str) -> None:
    program = f"""
import logging
import {package}

handlers = logging.getLogger({package!r}).handlers
assert [type(each) for each in handlers] == [logging.NullHandler] * {int(package in loggers_of(package))}, handlers
logging.getLogger({package!r}).warning("not printed")
"""
    if package not in loggers_of(package):
        program = program.rpartition("logging.getLogger")[0]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
