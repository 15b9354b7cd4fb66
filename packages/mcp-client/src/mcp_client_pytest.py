"""The pytest plugin of `mcp_client`: fixtures that connect to servers, and asynchronous tests on trio.

pytest loads this module in every project in which the distribution is installed. It imports neither trio nor the client
until a test uses them, which is why it is not a part of the package `mcp_client`.

The fixtures:

- `connect`: connects to a server until the end of the test (`mcp_client.testing.ConnectFixture`);
- `connect_recorded`: the same with a recording, which is made by the first run of the test, and replayed by later runs;
- `scripted_user`: a `mcp_client.testing.ScriptedUser` that is checked at the end of the test;
- `assert_tools_match_snapshot`: compares the tools of a server with a file (`mcp_client.testing.AssertToolsMatchSnapshot`).

`_RUNNERS` lists who runs an `async def` test. Its first row that applies decides.
"""

from __future__ import annotations

import functools
import inspect
import re
import unittest
from typing import TYPE_CHECKING, Final

import attrs
import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from mcp_client.client import Client
    from mcp_client.testing import AssertToolsMatchSnapshot, ConnectFixture, ConnectionsOfTest, ScriptedUser, Serve
    from mcp_client.testing.connections import RunnableServer

__all__ = [
    "assert_tools_match_snapshot",
    "connect",
    "connect_recorded",
    "pytest_addoption",
    "pytest_configure",
    "pytest_runtest_call",
    "scripted_user",
]

_SNAPSHOTS: Final = "snapshots"
"""The folder of snapshots, beside the test module."""

_RECORDINGS: Final = "recordings"
"""The folder of recordings, likewise."""


# --- who runs a test -------------------------------------------------------------------------------------------------


def _is_unittest(item: pytest.Function) -> bool:
    return item.cls is not None and issubclass(item.cls, unittest.TestCase)


def _is_asyncio(item: pytest.Function) -> bool:
    # The auto mode of pytest-asyncio adds the marker.
    return item.get_closest_marker("asyncio") is not None


def _is_anyio(item: pytest.Function) -> bool:
    # The marker and the auto mode of anyio add the fixture.
    return item.get_closest_marker("anyio") is not None or "anyio_backend" in item.fixturenames


def _is_pytest_trio(item: pytest.Function) -> bool:
    # The trio mode of pytest-trio adds the marker.
    return item.get_closest_marker("trio") is not None and _has_pytest_trio(item.config)


def _has_pytest_trio(config: pytest.Config) -> bool:
    return any(getattr(plugin, "__name__", "") == "pytest_trio.plugin" for plugin in config.pluginmanager.get_plugins())


_RUNNERS: Final[tuple[tuple[str, Callable[[pytest.Function], bool]], ...]] = (
    ("unittest", _is_unittest),
    ("pytest-asyncio", _is_asyncio),
    ("anyio", _is_anyio),
    ("pytest-trio", _is_pytest_trio),
)
"""The other runners, each with a function that returns whether it runs a test. This plugin runs the rest."""


# --- hooks -----------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("mcp-client", "tests of Model Context Protocol servers and clients")
    group.addoption(
        "--mcp-update-snapshots", action="store_true", help="write the snapshots of tools instead of comparing them"
    )
    group.addoption(
        "--mcp-update-recordings", action="store_true", help="record the servers again instead of replaying recordings"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of pytest-trio if it is not installed: a test that has the marker runs all the same."""
    if not _has_pytest_trio(config):
        config.addinivalue_line("markers", "trio: run the asynchronous test on trio")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of the plugins that replace the function of an item
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run an asynchronous test on trio, unless another plugin runs it. Close the connections of each asynchronous test."""
    __tracebackhide__ = True
    if not isinstance(item, pytest.Function):
        return (yield)
    body = _function_of(item)
    if not inspect.iscoroutinefunction(body):
        return (yield)
    runner = next((name for name, runs in _RUNNERS if runs(item)), None)
    resources = item.stash.get(_RESOURCES, None)
    if runner is not None and resources is None:
        return (yield)
    resources = resources or _Resources()
    wrapped = _with_resources(body, resources)
    _replace_function(item, _on_trio(wrapped) if runner is None else wrapped)
    try:
        return (yield)
    except BaseExceptionGroup as group:
        # pytest-trio puts a group around the failure of a test.
        failure = _cause_of(group)
        if failure is group:
            raise
    finally:
        _replace_function(item, body)
        for name, text in resources.stderr():
            item.add_report_section("call", f"stderr of {name}", text)
    # Raised outside of the `except` block, so that the group is not the context of its exception.
    raise failure


def _function_of(item: pytest.Function) -> Callable[..., object]:  # type: ignore[explicit-any]  # fixtures of any type
    """Return the function of a test; for a test of hypothesis, the function that runs for each example."""
    function: Callable[..., object] = item.obj  # type: ignore[explicit-any]  # likewise
    of_hypothesis = getattr(function, "hypothesis", None)
    return function if of_hypothesis is None else of_hypothesis.inner_test


def _replace_function(item: pytest.Function, function: Callable[..., object]) -> None:  # type: ignore[explicit-any]  # likewise
    of_hypothesis = getattr(item.obj, "hypothesis", None)
    if of_hypothesis is None:
        item.obj = function
    else:
        of_hypothesis.inner_test = function


def _cause_of(group: BaseExceptionGroup) -> BaseException:
    from mcp_client.testing.connections import single_cause  # lazy: pytest loads this module in every project

    return single_cause(group)


def _with_resources(body: Callable[..., Awaitable[object]], resources: _Resources) -> Callable[..., Awaitable[None]]:  # type: ignore[explicit-any]  # fixtures of any type
    from mcp_client.testing.connections import run_body  # lazy: pytest loads this module in every project

    @functools.wraps(body)
    async def run(**fixtures: object) -> None:
        __tracebackhide__ = True
        await run_body(functools.partial(body, **fixtures), resources.connections, resources.check)

    return run


def _on_trio(body: Callable[..., Awaitable[None]]) -> Callable[..., None]:  # type: ignore[explicit-any]  # likewise
    import trio  # lazy: likewise

    @functools.wraps(body)
    def run(**fixtures: object) -> None:
        __tracebackhide__ = True
        trio.run(functools.partial(body, **fixtures))

    return run


# --- fixtures --------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class _Resources:
    """The objects of one test that its end concerns."""

    connections: ConnectionsOfTest | None = None
    user: ScriptedUser | None = None

    def stderr(self) -> Iterator[tuple[str, str]]:
        """Yield the names of the servers that wrote to stderr, with the last lines."""
        for each in () if self.connections is None else self.connections.stderr:
            if each.lines:
                yield each.name, "\n".join(each.lines)

    def check(self) -> None:
        """Check the scripted user. Raises `AssertionError`."""
        __tracebackhide__ = True
        if self.user is not None:
            self.user.check()


_RESOURCES: Final = pytest.StashKey[_Resources]()


def _resources_of(item: pytest.Item) -> _Resources:
    return item.stash.setdefault(_RESOURCES, _Resources())


def _serve_in_memory(server: RunnableServer) -> Serve:
    """Return the function that serves a stream with a server of `mcp_server`."""
    from mcp_server import Server, serve_stream  # lazy: the distribution of the server is not a dependency

    if not isinstance(server, Server):
        raise TypeError(f"connect takes a Server of mcp_server, a function, a command or a URL, not {server!r}")
    return lambda stream: serve_stream(server, stream)


def _file_of(request: pytest.FixtureRequest, kind: str) -> Path:
    """Return the beginning of the names of the files of a test, which its name and its parameters determine."""
    return request.path.parent / kind / request.path.stem / re.sub(r"[^\w.-]+", "-", request.node.name)


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> ConnectFixture:
    """A function that connects to a server until the end of the test."""
    from mcp_client.testing import ConnectionsOfTest  # lazy: pytest loads this module in every project

    resources = _resources_of(request.node)
    if resources.connections is not None:
        raise pytest.UsageError("a test can use `connect` or `connect_recorded`, but not both")
    resources.connections = ConnectionsOfTest(_serve_in_memory)
    return resources.connections.connect


@pytest.fixture
def connect_recorded(request: pytest.FixtureRequest) -> ConnectFixture:
    """A function like `connect` that records each connection, or replays it from a file in `recordings`."""
    from mcp_client.testing import ConnectionsOfTest  # lazy: pytest loads this module in every project
    from mcp_client.testing.recordings import RecordingsOfTest  # lazy: likewise

    resources = _resources_of(request.node)
    if resources.connections is not None:
        raise pytest.UsageError("a test can use `connect` or `connect_recorded`, but not both")
    update = bool(request.config.getoption("--mcp-update-recordings"))
    recordings = RecordingsOfTest(_file_of(request, _RECORDINGS), update=update)
    resources.connections = ConnectionsOfTest(_serve_in_memory, recordings)
    return resources.connections.connect


@pytest.fixture
def scripted_user(request: pytest.FixtureRequest) -> ScriptedUser:
    """A scripted user. At the end of an asynchronous test, all expected requests must have arrived."""
    from mcp_client.testing import ScriptedUser  # lazy: likewise

    resources = _resources_of(request.node)
    resources.user = ScriptedUser()
    return resources.user


@pytest.fixture
def assert_tools_match_snapshot(request: pytest.FixtureRequest) -> AssertToolsMatchSnapshot:
    """A function that compares the tools of a server with a file in `snapshots`, beside the test module."""
    from mcp_client import testing  # lazy: likewise

    file = _file_of(request, _SNAPSHOTS)
    update = bool(request.config.getoption("--mcp-update-snapshots"))

    async def compare(client: Client, name: str = "tools") -> None:
        __tracebackhide__ = True
        await testing.assert_tools_match_snapshot(client, file.with_name(f"{file.name}.{name}.json"), update=update)

    return compare
