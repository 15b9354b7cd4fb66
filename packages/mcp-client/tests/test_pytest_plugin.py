from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

SERVER: Final = '''
from mcp_server import Context, Server

server = Server("greeter", version="1.0")


@server.tool
def greet(name: str) -> str:
    """Return a greeting."""
    assert name.istitle(), "no title"
    return f"Hello, {name}"
'''

RUNNERS: Final = '''
import os
import sys

import pytest
from greeter import server


def runner():
    """Return who runs this test, from the frames of the interpreter."""
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_qualname.startswith("_on_trio."):
            return "mcp"
        for path in ("pytest_trio", "pytest_asyncio", "anyio/pytest_plugin", "unittest/async_case"):
            if path in code.co_filename.replace(os.sep, "/"):
                return path.partition("/")[0]
        frame = frame.f_back
    return "no runner"


async def check(name, connect):
    client = await connect(server)
    assert (await client.call_tool("greet", {"name": "Ada"})).text == "Hello, Ada"
    with open("runners", "a") as file:
        print(name, runner(), file=file)
'''

MARKED: Final = {
    "plain": "",
    "trio": "@pytest.mark.trio\n",
    "asyncio": "@pytest.mark.asyncio\n",
    "anyio": '@pytest.mark.anyio\n@pytest.mark.parametrize("anyio_backend", ["asyncio"])\n',
}

COMBINATIONS: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    "no other plugin": ("", "", {"plain": "mcp", "trio": "mcp"}),
    "pytest-trio, strict": ("trio", "", {"plain": "mcp", "trio": "pytest_trio"}),
    "pytest-trio, trio mode": ("trio", "trio_mode = true", {"plain": "pytest_trio", "trio": "pytest_trio"}),
    "pytest-asyncio, strict": (
        "asyncio",
        "asyncio_mode = strict",
        {"plain": "mcp", "trio": "mcp", "asyncio": "pytest_asyncio"},
    ),
    "pytest-asyncio, auto": (
        "asyncio",
        "asyncio_mode = auto",
        {"plain": "pytest_asyncio", "asyncio": "pytest_asyncio"},
    ),
    "anyio, strict": ("anyio", "", {"plain": "mcp", "trio": "mcp", "anyio": "anyio"}),
    "anyio, auto": ("anyio", "anyio_mode = auto", {"plain": "anyio", "anyio": "anyio"}),
    "all, strict": (
        "trio asyncio anyio",
        "",
        {"plain": "mcp", "trio": "pytest_trio", "asyncio": "pytest_asyncio", "anyio": "anyio"},
    ),
    "all, trio mode": ("trio asyncio anyio", "trio_mode = true", {"plain": "pytest_trio", "trio": "pytest_trio"}),
    "all, pytest-asyncio auto": (
        "trio asyncio anyio",
        "asyncio_mode = auto",
        {"plain": "pytest_asyncio", "asyncio": "pytest_asyncio"},
    ),
}
"""The other plugins that are loaded, their settings, and who runs each test."""


def run_pytest(
    folder: Path, *arguments: str, plugins: str = "", settings: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, with warnings as errors, and with these of the other plugins for asynchronous tests."""
    if "asyncio" in plugins.split():
        settings += "\nasyncio_default_fixture_loop_scope = function"  # without it, pytest-asyncio warns
    (folder / "pytest.ini").write_text(f"[pytest]\nfilterwarnings = error\naddopts = --strict-markers\n{settings}\n")
    (folder / "greeter.py").write_text(SERVER)
    off = [f"-pno:{name}" for name in ("trio", "asyncio", "anyio") if name not in plugins.split()]
    command = [sys.executable, "-m", "pytest", "-pno:cacheprovider", *off, *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_"))}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("name", COMBINATIONS)
def test_async_test_run_by_plugin_that_claims_it(tmp_path: Path, name: str) -> None:
    plugins, settings, expected = COMBINATIONS[name]
    tests = [
        f"{MARKED[kind]}async def test_{kind}(connect{', anyio_backend' * (kind == 'anyio')}):\n"
        f"    await check({kind!r}, connect)\n"
        for kind in expected
    ]
    (tmp_path / "test_runners.py").write_text("\n\n".join([RUNNERS, *tests]))
    done = run_pytest(tmp_path, plugins=plugins, settings=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [line.split() for line in (tmp_path / "runners").read_text().splitlines()]
    assert dict(found) == dict(expected)


def test_test_marked_for_missing_plugin_not_run_on_trio(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_marked.py").write_text(
        "import pytest\n\n@pytest.mark.asyncio\nasync def test_marked():\n    pass\n"
    )
    done = run_pytest(tmp_path, settings="markers = asyncio: of a plugin")
    assert done.returncode == 1
    assert "async def functions are not natively supported" in done.stdout


def test_unittest_and_hypothesis_tests_run(tmp_path: Path) -> None:
    (tmp_path / "test_kinds.py").write_text(
        RUNNERS
        + """
import unittest

from hypothesis import given, settings, strategies, HealthCheck


class TestCase(unittest.IsolatedAsyncioTestCase):
    async def test_unittest(self):
        assert runner() == "unittest"


examples = []


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=strategies.sampled_from(["Ada", "Bob", "Eve"]))
async def test_hypothesis(name, connect):
    examples.append(name)
    await check("hypothesis", connect)


class TestMethods:
    async def test_method(self, connect):
        await check("method", connect)


def test_examples():
    assert len(examples) == 3
"""
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set((tmp_path / "runners").read_text().splitlines()) == {"hypothesis mcp", "method mcp"}


def test_loading_plugin_imports_no_trio_and_no_client(tmp_path: Path) -> None:
    (tmp_path / "test_imports.py").write_text(
        "import sys\n\n"
        "def test_imports(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.has_plugin('mcp_client')\n"
        "    assert not {'trio', 'mcp_client', 'mcp_core', 'mcp_server', 'orjson'} & set(sys.modules)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_import_of_client_imports_no_pytest() -> None:
    # `trio.testing` imports pytest where it is installed.
    code = "import sys, mcp_client; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


FAILURES: Final = {
    "body": "    assert 1 == 2\n",
    "handler": '    client = await connect(server)\n    await client.call_tool("greet", {"name": "ada"})\n',
    "nursery": (
        "    async def later():\n        assert 1 == 2\n\n"
        "    async with trio.open_nursery() as nursery:\n"
        "        await connect(server)\n"
        "        nursery.start_soon(later)\n"
        "        nursery.start_soon(trio.sleep_forever)\n"
    ),
    "nested nursery": (
        "    async with trio.open_nursery():\n        async with trio.open_nursery():\n            assert 1 == 2\n"
    ),
}


@pytest.mark.parametrize("plugins", ["", "trio"])
@pytest.mark.parametrize("place", FAILURES)
def test_failed_assertion_shown_without_exception_group(tmp_path: Path, place: str, plugins: str) -> None:
    (tmp_path / "test_failure.py").write_text(
        f"import trio\nfrom greeter import server\n\nasync def test_failure(connect):\n{FAILURES[place]}"
    )
    done = run_pytest(tmp_path, plugins=plugins, settings="trio_mode = true" if plugins else "")
    assert done.returncode == 1
    what = "no title" if place == "handler" else "assert 1 == 2"
    assert re.search(rf"^FAILED .* (AssertionError: )?{what}", done.stdout, re.MULTILINE), done.stdout
    assert "ExceptionGroup" not in done.stdout
    assert "connections.py" not in done.stdout
    assert "mcp_client_pytest.py" not in done.stdout


def test_group_of_two_failures_kept(tmp_path: Path) -> None:
    (tmp_path / "test_failure.py").write_text(
        "import trio\n\nasync def fail():\n    raise OSError('first')\n\n"
        "async def test_failure():\n"
        "    async with trio.open_nursery() as nursery:\n"
        "        nursery.start_soon(fail)\n        nursery.start_soon(fail)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 1
    assert "ExceptionGroup: Exceptions from Trio nursery (2 sub-exceptions)" in done.stdout


def test_expected_failure_of_handler_passes(tmp_path: Path) -> None:
    (tmp_path / "test_expected.py").write_text(
        "import pytest\nfrom greeter import server\nfrom mcp_client import ToolFailed\n\n"
        "async def test_expected(connect):\n"
        "    client = await connect(server)\n"
        "    with pytest.raises(ToolFailed):\n"
        '        await client.call_tool("greet", {"name": "ada"})\n'
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout


STDIO: Final = """
import sys
import trio
from greeter import server
from mcp_server import serve_stdio

print("the database is missing", file=sys.stderr)
trio.run(serve_stdio, server)
"""


def test_stderr_of_server_shown_for_failed_test_only(tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(STDIO)
    (tmp_path / "test_stderr.py").write_text(
        "import sys\n\n"
        "async def test_passed(connect):\n"
        '    client = await connect([sys.executable, "served.py"])\n'
        "    assert await client.list_tools()\n\n"
        "async def test_failed(connect):\n"
        '    client = await connect([sys.executable, "served.py"])\n'
        "    assert not await client.list_tools()\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 1, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert done.stdout.count("the database is missing") == 1
    assert "stderr of" in done.stdout


def test_connections_closed_in_reverse_order_without_leaks(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        """
import pytest
import trio
import mcp_client.testing.connections as connections

events = []


@pytest.fixture
def events_of_test():
    del events[:]
    return events


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    yield
    if "connect" in item.funcargs:
        assert events == ["open first", "open second", "close second", "close first"]
"""
    )
    (tmp_path / "test_order.py").write_text(
        """
from contextlib import asynccontextmanager

import pytest
import trio
from conftest import events
from mcp_server import Server


def named(name):
    @asynccontextmanager
    async def lifespan(server):
        events.append(f"open {name}")
        yield
        events.append(f"close {name}")

    return Server(name, version="1.0", lifespan=lifespan)


async def test_passes(connect, events_of_test):
    await connect(named("first"))
    await connect(named("second"))


@pytest.mark.xfail(strict=True, raises=ZeroDivisionError)
async def test_fails(connect, events_of_test):
    await connect(named("first"))
    async with trio.open_nursery():
        await connect(named("second"))
        raise ZeroDivisionError
"""
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_snapshot_missing_written_matched_and_differs(tmp_path: Path) -> None:
    (tmp_path / "test_snapshot.py").write_text(
        "from greeter import server\n\n"
        "async def test_tools(connect, assert_tools_match_snapshot):\n"
        "    await assert_tools_match_snapshot(await connect(server))\n"
    )
    missing = run_pytest(tmp_path)
    assert missing.returncode == 1
    assert "test_tools.tools.json does not exist; pytest --mcp-update-snapshots writes it" in missing.stdout
    assert run_pytest(tmp_path, "--mcp-update-snapshots").returncode == 0
    file = tmp_path / "snapshots" / "test_snapshot" / "test_tools.tools.json"
    written = file.read_text()
    assert '"name": "greet"' in written
    assert run_pytest(tmp_path).returncode == 0
    file.write_text(written.replace("Return a greeting.", "Return a farewell."))
    differing = run_pytest(tmp_path)
    assert differing.returncode == 1
    assert re.search(r'-    "description": "Return a farewell\."', differing.stdout)
    assert re.search(r'\+    "description": "Return a greeting\."', differing.stdout)
    file.write_bytes(b"\xff")
    assert "is not text in UTF-8" in run_pytest(tmp_path).stdout


def test_invalid_arguments_of_connect_named(tmp_path: Path) -> None:
    (tmp_path / "test_arguments.py").write_text(
        """
import pytest
from greeter import server
from mcp_client import LocalProtocolError


async def test_arguments(connect):
    with pytest.raises(LocalProtocolError, match="env requires a command"):
        await connect(server, env={})
    with pytest.raises(LocalProtocolError, match="headers require a URL"):
        await connect(["x"], headers={})


async def test_http(connect):
    from mcp_client import ConnectionEnded

    with pytest.raises(ConnectionEnded):
        await connect("http://127.0.0.1:9/mcp", headers={"X": "1"})
"""
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout


RECORDED: Final = """
import sys

import pytest


async def test_recorded(connect_recorded):
    first = await connect_recorded([sys.executable, "served.py"])
    assert (await first.call_tool("greet", {"name": NAME})).text == "Hello, " + NAME
    from greeter import server

    second = await connect_recorded(server)
    assert (await second.call_tool("greet", {"name": "Bob"})).text == "Hello, Bob"


async def test_url_rejected(connect_recorded):
    from mcp_client import LocalProtocolError

    with pytest.raises(LocalProtocolError, match="HTTP is not recorded"):
        await connect_recorded("http://127.0.0.1:9/mcp")


NAME = "Ada"
"""


def test_connections_recorded_by_first_run_and_replayed(tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(STDIO)
    test = tmp_path / "test_recorded.py"
    test.write_text(RECORDED)
    folder = tmp_path / "recordings" / "test_recorded"
    # A failed test leaves no recording.
    test.write_text(RECORDED.replace('"Hello, " + NAME', '"Goodbye"'))
    assert run_pytest(tmp_path).returncode == 1
    assert list(folder.iterdir()) == []
    test.write_text(RECORDED)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["test_recorded.1.jsonl", "test_recorded.2.jsonl"]
    # The server is gone, so only the recording can respond.
    (tmp_path / "served.py").unlink()
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    test.write_text(RECORDED.replace('NAME = "Ada"', 'NAME = "Eve"'))
    done = run_pytest(tmp_path)
    assert done.returncode == 1
    assert 'tools/call is not recorded with {"arguments": {"name": "Eve"}, "name": "greet"}' in done.stdout
    (tmp_path / "served.py").write_text(STDIO)
    done = run_pytest(tmp_path, "--mcp-update-recordings")
    assert done.returncode == 0, done.stdout
    (folder / "test_recorded.1.jsonl").write_text('{"mcpRecording": 1}\n{')
    done = run_pytest(tmp_path)
    assert "test_recorded.1.jsonl, line 2: not JSON" in done.stdout
    (tmp_path / "test_both.py").write_text("async def test_both(connect, connect_recorded):\n    pass\n")
    done = run_pytest(tmp_path, "test_both.py")
    assert "a test can use `connect` or `connect_recorded`, but not both" in done.stdout
