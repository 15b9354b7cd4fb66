"""Tests of connections that checks share: which connections are kept, and which are closed."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from program_path import PROGRAM_PATH

from mcp_conformance.checks.probes.waiting_call import calls_in_progress
from mcp_conformance.drivers.server.connection_pool import ConnectionPool, kind_of
from mcp_conformance.drivers.server.inventory import read_inventory
from mcp_conformance.drivers.server.stdio_connection import StdioConnection
from mcp_conformance.drivers.server.suite_connection import SuiteConnection
from mcp_conformance.drivers.server.targets import CommandTarget
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.fixtures_manifest import Fixture, Manifest
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable, Outcome
from mcp_conformance.protocol.response import JsonRpcResponse
from mcp_conformance.runners.server import run_server
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.drivers.server.suite_connection import HeaderLines
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

_SETTINGS = Settings(timeout=5.0)
_KIND = kind_of(CheckScope.SHARED, None)


class _Peer(SuiteConnection):
    """A server that answers until the test sets another behavior."""

    def __init__(self, revision: str = "2025-11-25") -> None:
        super().__init__(REVISIONS[revision], Transport.STDIO, Transcript(), _SETTINGS)
        self.deaf = False
        self.chatty = False
        self.code: int | None = None
        self.end_reason = ""

    @property
    def ending(self) -> str:
        return self.end_reason

    async def exchange(
        self,
        message: JsonObject,
        *,
        deviant: str = "",
        headers: HeaderLines | None = None,
    ) -> JsonRpcResponse:
        await trio.lowlevel.checkpoint()
        if self.deaf:
            raise Deviation("an answer", "none")
        if self.chatty:
            await self.take({"jsonrpc": "2.0", "id": "long ago", "result": {}})
        outcome: JsonObject = {"result": {}}
        if self.code is not None:
            outcome = {"error": {"code": self.code, "message": "no"}}
        return JsonRpcResponse(method="ping", message={"jsonrpc": "2.0", "id": message["id"], **outcome})

    async def post(self, message: JsonValue, *, deviant: str = "") -> None:
        raise AssertionError((message, deviant))

    async def malformed(self, data: bytes, *, deviant: str) -> JsonRpcResponse | None:
        raise AssertionError((data, deviant))


class _PeerFactory:
    def __init__(self) -> None:
        self.opened: list[_Peer] = []
        self.closed: list[_Peer] = []

    @asynccontextmanager
    async def open_peer(self) -> AsyncIterator[SuiteConnection]:
        peer = _Peer()
        self.opened.append(peer)
        try:
            yield peer
        finally:
            self.closed.append(peer)


@asynccontextmanager
async def _open_connections() -> AsyncIterator[tuple[ConnectionPool, _PeerFactory]]:
    async with open_nursery() as nursery:
        connections = ConnectionPool(nursery)
        yield connections, _PeerFactory()
        await connections.close()


async def test_reused_connection_is_reset() -> None:
    async with _open_connections() as (connections, factory):
        async with connections.borrow(_KIND, factory.open_peer) as first:
            first.inbox.append({"method": "notifications/message"})
            first.replies["ping"] = lambda _: {"odd": True}
            first.deviance = "odd replies"
        async with connections.borrow(_KIND, factory.open_peer) as second:
            assert second is first
            assert second.inbox == []
            assert second.replies["ping"]({}) == {}
            assert second.deviance == ""
        assert factory.closed == []

    assert factory.closed == factory.opened


@pytest.mark.parametrize("spoil", ["deaf", "chatty"])
async def test_unresponsive_or_noisy_connection_is_closed(spoil: str) -> None:
    async with _open_connections() as (connections, factory):
        async with connections.borrow(_KIND, factory.open_peer):
            setattr(factory.opened[0], spoil, True)
        assert factory.closed == factory.opened
        async with connections.borrow(_KIND, factory.open_peer):
            assert len(factory.opened) == 2


@pytest.mark.parametrize(("code", "kept"), [(-32603, False), (-32601, True)])
async def test_connection_with_ping_error_is_closed_unless_method_unknown(code: int, *, kept: bool) -> None:
    async with _open_connections() as (connections, factory):
        async with connections.borrow(_KIND, factory.open_peer):
            factory.opened[0].code = code
        assert (factory.closed == []) is kept


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [(NotTestable("no fixture"), True), (NotApplicable("no tools"), True), (Deviation("a", "b"), False)],
)
async def test_connection_is_closed_after_deviation_only(outcome: Exception, *, kept: bool) -> None:
    async with _open_connections() as (connections, factory):
        with pytest.raises(type(outcome)):
            async with connections.borrow(_KIND, factory.open_peer):
                raise outcome
        assert (factory.closed == []) is kept


@pytest.mark.parametrize("outcome", [None, NotTestable("no fixture"), NotApplicable("no tools")])
async def test_server_exit_is_deviation_for_any_outcome(outcome: Exception | None) -> None:
    async def use(connections: ConnectionPool, factory: _PeerFactory) -> None:
        async with connections.borrow(_KIND, factory.open_peer):
            factory.opened[0].deaf = True
            factory.opened[0].end_reason = "the end of the process"
            if outcome is not None:
                raise outcome

    async with _open_connections() as (connections, factory):
        with pytest.raises(Deviation, match="the server to go on; observed the end of the process"):
            await use(connections, factory)
        assert factory.closed == factory.opened


async def test_connection_is_exclusive_per_kind() -> None:
    async with (
        _open_connections() as (connections, factory),
        connections.borrow(_KIND, factory.open_peer) as first,
        connections.borrow(_KIND, factory.open_peer) as second,
        connections.borrow(kind_of(CheckScope.SHARED, {}), factory.open_peer) as third,
        connections.borrow(kind_of(CheckScope.RECOVERING, None), factory.open_peer) as fourth,
    ):
        assert len({id(each) for each in (first, second, third, fourth)}) == 4


async def test_connection_of_another_kind_is_used_instead() -> None:
    other = kind_of(CheckScope.LEAVING, None)
    async with _open_connections() as (connections, factory):
        async with connections.borrow(_KIND, factory.open_peer) as first:
            pass
        async with connections.borrow(other, factory.open_peer, instead=_KIND) as second:
            assert second is first
        async with connections.borrow(_KIND, factory.open_peer) as third:
            assert third is not first
        async with connections.borrow(other, factory.open_peer, instead=_KIND) as fourth:
            assert fourth is first


async def test_failed_opening_raises_in_borrower() -> None:
    factory = _PeerFactory()

    @asynccontextmanager
    async def open_failing() -> AsyncIterator[SuiteConnection]:
        if factory.opened == []:
            raise Deviation("an answer to initialize", "nothing")
        yield factory.opened[0]

    async with _open_connections() as (connections, _):
        with pytest.raises(Deviation, match="initialize"):
            async with connections.borrow(_KIND, open_failing):
                raise AssertionError


async def test_suite_error_raises_in_borrower_only() -> None:
    factory = _PeerFactory()

    @asynccontextmanager
    async def open_breaking() -> AsyncIterator[SuiteConnection]:
        async with factory.open_peer() as peer:
            yield peer
            raise ZeroDivisionError

    async with _open_connections() as (connections, _):
        with pytest.raises(ZeroDivisionError):
            async with connections.borrow(_KIND, open_breaking):
                factory.opened[0].deaf = True
        async with connections.borrow(_KIND, factory.open_peer) as another:
            assert another is factory.opened[1]


# --- a whole leg -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "processes", "outcomes"),
    [
        (["jsonrpc.no-json-cut", "jsonrpc.no-json-nan", "jsonrpc.no-json-deep"], 1, {Outcome.PASSED}),
        (["tools.unknown-name", "version.echo"], 1, {Outcome.PASSED}),
        (["tools.unknown-name", "stdio.exit"], 2, {Outcome.PASSED}),
        (["elicitation.url-params", "elicitation.url-valid"], 0, {Outcome.NOT_TESTABLE}),
    ],
)
async def test_processes_start_only_for_checks_that_need_them(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    ids: list[str],
    processes: int,
    outcomes: set[Outcome],
) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)
    target = CommandTarget([sys.executable, "-m", "mutants.raw_server"], _SETTINGS)
    started: list[Revision] = []
    open_peer = target.open

    @asynccontextmanager
    async def open_counted(*given: Revision, **more: JsonObject | None) -> AsyncIterator[SuiteConnection]:
        started.append(given[0])
        async with open_peer(*given, **more) as peer:  # type: ignore[arg-type]  # the arguments of `open`
            yield peer

    monkeypatch.setattr(target, "open", open_counted)
    manifest = Manifest(entries={("tools", "conformance_elicit_url"): Fixture(name="of no tool")})

    run = await run_server(target, _SETTINGS, manifest, revisions=[REVISIONS["2025-11-25"]], chosen=ids)

    assert {verdict.outcome for verdict in run.verdicts} == outcomes
    assert len(run.verdicts) == len(ids)
    inventory = 1
    assert len(started) == inventory + processes


async def test_silence_after_invalid_json_fails_without_timeout(
    request: pytest.FixtureRequest,
) -> None:
    # The test ends because the response to the ping behind the invalid line ends the wait.
    settings = Settings(timeout=1e9)
    target = CommandTarget([sys.executable, str(request.path.parent / "silent_server.py")], settings)

    run = await run_server(
        target, settings, Manifest(), revisions=[REVISIONS["2025-11-25"]], chosen=["jsonrpc.parse-error"]
    )

    assert [verdict.observed for verdict in run.verdicts] == ["no response"]


async def test_modern_stdio_connection_opens_with_request(request: pytest.FixtureRequest) -> None:
    target = CommandTarget([sys.executable, str(request.path.parent / "first_message_server.py")], _SETTINGS)
    modern = REVISIONS["2026-07-28"]

    async with target.open(modern, Transport.STDIO) as peer:
        await peer.notify("notifications/conformance-unknown", deviant="an unknown notification")
        assert (await peer.fence()).result()["supportedVersions"] == ["2026-07-28"]


async def test_fence_error_in_modern_era_is_deviation(request: pytest.FixtureRequest) -> None:
    target = CommandTarget([sys.executable, str(request.path.parent / "first_message_server.py")], _SETTINGS)

    async with target.open(REVISIONS["2026-07-28"], Transport.STDIO) as peer:
        assert isinstance(peer, StdioConnection)
        await peer.send_line(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        with pytest.raises(Deviation, match="a result of server/discover"):
            await peer.fence()


async def test_call_that_fails_before_its_progress_is_not_testable(autojump_clock: trio.testing.MockClock) -> None:
    peer = _Peer()

    async def call() -> None:
        async with peer.within("a response"):
            await trio.sleep_forever()

    # The call and the wait for its progress have the same deadline, and run in a random order.
    for _ in range(20):
        with pytest.raises(NotTestable, match="tool reports no progress"):
            async with calls_in_progress(peer, {"token": call}, "tool"):
                raise AssertionError


async def test_failure_after_the_progress_of_a_call_remains_one() -> None:
    peer = _Peer()
    await peer.take({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "token"}})
    with pytest.raises(Deviation, match="an answer"):
        async with calls_in_progress(peer, {"token": trio.sleep_forever}, "tool"):
            raise Deviation("an answer", "none")


async def _wait_in_vain(peer: _Peer) -> None:
    for _ in range(3):
        with peer.limited("a response to ping"):
            await trio.sleep_forever()


async def test_inventory_is_not_read_in_a_shortened_wait(autojump_clock: trio.testing.MockClock) -> None:
    peer = _Peer()
    await _wait_in_vain(peer)
    with peer.limited("a response to tools/list") as wait:
        assert wait.seconds < _SETTINGS.timeout
    peer.handshake = JsonRpcResponse(method="initialize", message={"result": {"capabilities": {}}})
    await read_inventory(peer)
    with peer.limited("a response to tools/list") as wait:
        assert wait.seconds == _SETTINGS.timeout


async def test_first_response_of_a_revision_is_awaited_in_a_shortened_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    peer = _Peer("2026-07-28")
    await _wait_in_vain(peer)
    peer.deaf = True
    with pytest.raises(Deviation):
        await read_inventory(peer)
    with peer.limited("a response to server/discover") as wait:
        assert wait.seconds < _SETTINGS.timeout
