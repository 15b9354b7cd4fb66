"""The connections that checks share: which goes on to the next one, and which does not."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from program_path import PROGRAM_PATH

from mcp_conformance.drivers.server.connection_pool import ConnectionPool, kind_of
from mcp_conformance.drivers.server.stdio_connection import StdioConnection
from mcp_conformance.drivers.server.suite_connection import SuiteConnection
from mcp_conformance.drivers.server.targets import CommandTarget
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Subject, Transport
from mcp_conformance.model.fixtures_manifest import Fixture, Manifest
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable, Outcome
from mcp_conformance.protocol.response import Answer
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
_KIND = kind_of(Subject.SHARED, None)


class _Peer(SuiteConnection):
    """A server that answers until it is told not to."""

    def __init__(self) -> None:
        super().__init__(REVISIONS["2025-11-25"], Transport.STDIO, Transcript(), _SETTINGS)
        self.deaf = False
        self.chatty = False
        self.code: int | None = None
        self.gone = ""

    @property
    def ending(self) -> str:
        return self.gone

    async def exchange(
        self,
        message: JsonObject,
        *,
        deviant: str = "",
        headers: HeaderLines | None = None,
    ) -> Answer:
        await trio.lowlevel.checkpoint()
        if self.deaf:
            raise Deviation("an answer", "none")
        if self.chatty:
            await self.take({"jsonrpc": "2.0", "id": "long ago", "result": {}})
        what: JsonObject = {"result": {}}
        if self.code is not None:
            what = {"error": {"code": self.code, "message": "no"}}
        return Answer(method="ping", message={"jsonrpc": "2.0", "id": message["id"], **what})

    async def post(self, message: JsonValue, *, deviant: str = "") -> None:
        raise AssertionError((message, deviant))

    async def malformed(self, data: bytes, *, deviant: str) -> Answer | None:
        raise AssertionError((data, deviant))


class _World:
    def __init__(self) -> None:
        self.opened: list[_Peer] = []
        self.closed: list[_Peer] = []

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[SuiteConnection]:
        peer = _Peer()
        self.opened.append(peer)
        try:
            yield peer
        finally:
            self.closed.append(peer)


@asynccontextmanager
async def _lane() -> AsyncIterator[tuple[ConnectionPool, _World]]:
    async with open_nursery() as nursery:
        connections = ConnectionPool(nursery)
        yield connections, _World()
        await connections.close()


async def test_a_sound_connection_goes_on_as_if_it_were_new() -> None:
    async with _lane() as (connections, world):
        async with connections.borrow(_KIND, world.opening) as first:
            first.inbox.append({"method": "notifications/message"})
            first.replies["ping"] = lambda _: {"odd": True}
            first.deviance = "odd replies"
        async with connections.borrow(_KIND, world.opening) as second:
            assert second is first
            assert second.inbox == []
            assert second.replies["ping"]({}) == {}
            assert second.deviance == ""
        assert world.closed == []

    assert world.closed == world.opened


@pytest.mark.parametrize("spoil", ["deaf", "chatty"])
async def test_a_connection_that_does_not_bear_what_was_done_on_it_is_closed(spoil: str) -> None:
    async with _lane() as (connections, world):
        async with connections.borrow(_KIND, world.opening):
            setattr(world.opened[0], spoil, True)
        assert world.closed == world.opened
        async with connections.borrow(_KIND, world.opening):
            assert len(world.opened) == 2


@pytest.mark.parametrize(("code", "kept"), [(-32603, False), (-32601, True)])
async def test_a_connection_that_comes_to_answer_by_errors_is_closed_unless_there_is_no_ping(
    code: int, *, kept: bool
) -> None:
    async with _lane() as (connections, world):
        async with connections.borrow(_KIND, world.opening):
            world.opened[0].code = code
        assert (world.closed == []) is kept


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [(NotTestable("no fixture"), True), (NotApplicable("no tools"), True), (Deviation("a", "b"), False)],
)
async def test_what_a_check_came_to_says_whether_its_connection_goes_on(outcome: Exception, *, kept: bool) -> None:
    async with _lane() as (connections, world):
        with pytest.raises(type(outcome)):
            async with connections.borrow(_KIND, world.opening):
                raise outcome
        assert (world.closed == []) is kept


@pytest.mark.parametrize("outcome", [None, NotTestable("no fixture"), NotApplicable("no tools")])
async def test_a_server_that_ended_is_red_whatever_the_check_came_to(outcome: Exception | None) -> None:
    async def use(connections: ConnectionPool, world: _World) -> None:
        async with connections.borrow(_KIND, world.opening):
            world.opened[0].deaf = True
            world.opened[0].gone = "the end of the process"
            if outcome is not None:
                raise outcome

    async with _lane() as (connections, world):
        with pytest.raises(Deviation, match="the server to go on; observed the end of the process"):
            await use(connections, world)
        assert world.closed == world.opened


async def test_a_connection_is_not_given_to_two_and_not_to_those_who_declare_otherwise() -> None:
    async with (
        _lane() as (connections, world),
        connections.borrow(_KIND, world.opening) as first,
        connections.borrow(_KIND, world.opening) as second,
        connections.borrow(kind_of(Subject.SHARED, {}), world.opening) as third,
        connections.borrow(kind_of(Subject.RECOVERING, None), world.opening) as fourth,
    ):
        assert len({id(each) for each in (first, second, third, fourth)}) == 4


async def test_one_that_cannot_be_opened_is_told_to_who_wants_it() -> None:
    world = _World()

    @asynccontextmanager
    async def refused() -> AsyncIterator[SuiteConnection]:
        if world.opened == []:
            raise Deviation("an answer to initialize", "nothing")
        yield world.opened[0]

    async with _lane() as (connections, _):
        with pytest.raises(Deviation, match="initialize"):
            async with connections.borrow(_KIND, refused):
                raise AssertionError


async def test_a_fault_of_the_suite_is_told_to_who_has_the_connection_and_to_nobody_else() -> None:
    world = _World()

    @asynccontextmanager
    async def breaking() -> AsyncIterator[SuiteConnection]:
        async with world.opening() as peer:
            yield peer
            raise ZeroDivisionError

    async with _lane() as (connections, _):
        with pytest.raises(ZeroDivisionError):
            async with connections.borrow(_KIND, breaking):
                world.opened[0].deaf = True
        async with connections.borrow(_KIND, world.opening) as another:
            assert another is world.opened[1]


# --- a whole lane ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "processes", "outcomes"),
    [
        (["jsonrpc.no-json-cut", "jsonrpc.no-json-nan", "jsonrpc.no-json-deep"], 1, {Outcome.PASSED}),
        (["tools.unknown-name", "version.echo"], 2, {Outcome.PASSED}),
        (["elicitation.url-params", "elicitation.url-valid"], 0, {Outcome.NOT_TESTABLE}),
    ],
)
async def test_processes_are_started_for_what_needs_them_alone(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    ids: list[str],
    processes: int,
    outcomes: set[Outcome],
) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)
    target = CommandTarget([sys.executable, "-m", "mutants.raw_server"], _SETTINGS)
    started: list[Revision] = []
    opening = target.open

    @asynccontextmanager
    async def counted(*given: Revision, **more: JsonObject | None) -> AsyncIterator[SuiteConnection]:
        started.append(given[0])
        async with opening(*given, **more) as peer:  # type: ignore[arg-type]  # they are those of `open`
            yield peer

    monkeypatch.setattr(target, "open", counted)
    manifest = Manifest(entries={("tools", "conformance_elicit_url"): Fixture(name="of no tool")})

    run = await run_server(target, _SETTINGS, manifest, revisions=[REVISIONS["2025-11-25"]], chosen=ids)

    assert {verdict.outcome for verdict in run.verdicts} == outcomes
    assert len(run.verdicts) == len(ids)
    surveyed = 1
    assert len(started) == surveyed + processes


async def test_a_server_that_is_silent_about_what_is_no_json_fails_without_a_long_wait(
    request: pytest.FixtureRequest,
) -> None:
    # The test ends because the answer to what came behind ends the wait.
    patient = Settings(timeout=1e9)
    target = CommandTarget([sys.executable, str(request.path.parent / "silent_server.py")], patient)

    run = await run_server(
        target, patient, Manifest(), revisions=[REVISIONS["2025-11-25"]], chosen=["jsonrpc.parse-error"]
    )

    assert [verdict.observed for verdict in run.verdicts] == ["no response"]


async def test_no_notification_opens_a_modern_connection_over_pipes(request: pytest.FixtureRequest) -> None:
    target = CommandTarget([sys.executable, str(request.path.parent / "first_message_server.py")], _SETTINGS)
    modern = REVISIONS["2026-07-28"]

    async with target.open(modern, Transport.STDIO) as peer:
        await peer.notify("notifications/conformance-unknown", deviant="a notification that nobody knows")
        assert (await peer.fence()).result()["supportedVersions"] == ["2026-07-28"]


async def test_an_error_is_no_fence_in_the_modern_era(request: pytest.FixtureRequest) -> None:
    target = CommandTarget([sys.executable, str(request.path.parent / "first_message_server.py")], _SETTINGS)

    async with target.open(REVISIONS["2026-07-28"], Transport.STDIO) as peer:
        assert isinstance(peer, StdioConnection)
        await peer.send_line(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        with pytest.raises(Deviation, match="a result of server/discover"):
            await peer.fence()
