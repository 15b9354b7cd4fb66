"""Legs and scenarios that hang overlap with others, unless one at a time is asked for."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import pytest
import trio
import trio.testing

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.drivers.client.fake_server import FakeServer
from mcp_conformance.drivers.server.suite_connection import SuiteConnection
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.protocol.response import JsonRpcResponse
from mcp_conformance.runners import client
from mcp_conformance.runners.adaptive_limiter import AdaptiveLimiter
from mcp_conformance.runners.client import ClientCommand, run_client
from mcp_conformance.runners.server import run_server
from mcp_conformance.scenarios.evidence import Evidence
from mcp_conformance.wire.timeouts import WaitKind
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from mcp_conformance.drivers.server.suite_connection import HeaderLines
    from mcp_conformance.model.verdict import Run
    from mcp_conformance.scenarios.scenario import Scenario
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision


async def _most_at_a_time(limiter: AdaptiveLimiter) -> int:
    """Return how many of 30 tasks run at the same time."""
    held = 0

    async def hold() -> None:
        nonlocal held
        async with limiter.limited():
            held += 1
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for _ in range(30):
            nursery.start_soon(hold)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return held


async def test_hanging_legs_raise_limit() -> None:
    limiter = AdaptiveLimiter(2)
    assert await _most_at_a_time(limiter) == 2
    for _ in range(3):
        limiter.count(hangs=True)
    assert await _most_at_a_time(limiter) == 5


async def test_limit_is_raised_for_last_16_only() -> None:
    limiter = AdaptiveLimiter(2)
    for _ in range(40):
        limiter.count(hangs=True)
    assert await _most_at_a_time(limiter) == 18
    for _ in range(15):
        limiter.count(hangs=False)
    assert await _most_at_a_time(limiter) == 3
    limiter.count(hangs=False)
    assert await _most_at_a_time(limiter) == 2


async def test_limit_of_one_is_never_raised() -> None:
    limiter = AdaptiveLimiter(1)
    limiter.count(hangs=True)
    assert await _most_at_a_time(limiter) == 1


# --- servers ---------------------------------------------------------------------------------------------------------

_TOOL: Final[JsonObject] = {"name": "test_simple_text", "inputSchema": {"type": "object"}}
_RESULTS: Final[Mapping[str, JsonObject]] = {
    "server/discover": {"supportedVersions": list(REVISIONS), "capabilities": {"tools": {}}},
    "tools/list": {"tools": [_TOOL]},
    "ping": {},
}


@attrs.define(kw_only=True, eq=False)
class _Target:
    """A server that answers or hangs in `tools/call`."""

    transport: Transport
    hangs: bool
    settings: Settings = attrs.field(factory=partial(Settings, timeout=10.0))
    waiting: list[Revision] = attrs.field(factory=list)
    """The revisions of the requests in progress."""
    most: int = 0
    """The largest number of requests in progress at a time."""
    most_in_revision: int = 0
    """The largest number of them in one revision."""

    @property
    def transports(self) -> frozenset[Transport]:
        return frozenset({self.transport})

    @asynccontextmanager
    async def open(
        self,
        revision: Revision,
        transport: Transport,
        *,
        capabilities: JsonObject | None = None,
        handshake: bool = True,
        by_tool: Mapping[str, Mapping[str, str]] | None = None,
        transcript: Transcript | None = None,
    ) -> AsyncIterator[SuiteConnection]:
        peer = _Peer(revision, transport, transcript or Transcript(), self.settings, capabilities)
        peer.target = self
        if handshake:
            await peer.shake_hands()
        yield peer

    @asynccontextmanager
    async def progress(self, revision: Revision) -> AsyncIterator[None]:
        self.waiting.append(revision)
        self.most = max(self.most, len(self.waiting))
        self.most_in_revision = max(self.most_in_revision, self.waiting.count(revision))
        try:
            yield
        finally:
            self.waiting.remove(revision)


class _Peer(SuiteConnection):
    """A connection to such a server."""

    target: _Target

    async def exchange(
        self, message: JsonObject, *, deviant: str = "", headers: HeaderLines | None = None
    ) -> JsonRpcResponse:
        method = str(message["method"])
        async with self.target.progress(self.revision), self.within(f"a response to {method}", kind=WaitKind.RESPONSE):
            await trio.sleep(0.01)
            if method == "tools/call" and self.target.hangs:
                await trio.sleep_forever()
        result = {"resultType": "complete", "content": [], **_RESULTS.get(method, {})}
        if method == "initialize":
            result |= {"protocolVersion": self.revision.name, "capabilities": {"tools": {}}}
        return JsonRpcResponse(method=method, message={"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def post(self, message: JsonValue, *, deviant: str = "") -> None:
        await trio.lowlevel.checkpoint()

    async def malformed(self, data: bytes, *, deviant: str) -> JsonRpcResponse | None:
        raise AssertionError((data, deviant))


async def _run(target: _Target, jobs: int) -> Run:
    chosen = [each.id for each in SERVER_CHECKS if each.scope is CheckScope.SHARED and each.area == "tools"]
    settings = Settings(timeout=10.0, jobs=jobs)
    return await run_server(target, settings, Manifest(), chosen=chosen)


@pytest.mark.parametrize(
    ("transport", "hangs", "jobs", "more_than_jobs", "most_in_revision"),
    [
        (Transport.STDIO, False, 2, False, 1),
        (Transport.STDIO, True, 1, False, 1),
        (Transport.STDIO, True, 2, True, 2),
        (Transport.HTTP, False, 2, False, 1),
        (Transport.HTTP, True, 1, False, 1),
        (Transport.HTTP, True, 2, True, 1),
    ],
)
async def test_checks_of_hanging_server_overlap(
    autojump_clock: trio.testing.MockClock,
    transport: Transport,
    jobs: int,
    most_in_revision: int,
    *,
    hangs: bool,
    more_than_jobs: bool,
) -> None:
    target = _Target(transport=transport, hangs=hangs)
    run = await _run(target, jobs)
    assert (target.most > jobs, target.most_in_revision) == (more_than_jobs, most_in_revision)
    assert len({(each.revision, each.check) for each in run.verdicts}) == len(run.verdicts) > 50


# --- clients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "jobs", "most"), [(0, 2, 2), (None, 1, 1), (None, 2, 4)])
async def test_hanging_clients_overlap(
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    status: int | None,
    jobs: int,
    most: int,
) -> None:
    running: list[Revision] = []
    seen: list[int] = []

    async def play(
        _command: ClientCommand, settings: Settings, scenario: Scenario, revision: Revision, transport: Transport
    ) -> Evidence:
        running.append(revision)
        seen.append(len(running))
        await trio.sleep(1.0)
        running.remove(revision)
        return Evidence(
            scenario=scenario,
            revision=revision,
            transport=transport,
            transcript=Transcript(),
            server=FakeServer((revision,), settings.timeout),
            status=status,
            log="",
        )

    monkeypatch.setattr(client, "play", play)
    await run_client(ClientCommand(http="client", stdio="client"), Settings(timeout=10.0, jobs=jobs))
    assert max(seen) == most
