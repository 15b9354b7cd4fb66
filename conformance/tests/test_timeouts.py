"""Waits for a server that leaves requests without a response become shorter."""

from __future__ import annotations

import json
import math
import shlex
import sys
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
import trio

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.drivers.server.connection_pool import ConnectionPool
from mcp_conformance.drivers.server.inventory import ServerInventory
from mcp_conformance.drivers.server.stdio_connection import open_stdio
from mcp_conformance.drivers.server.targets import CommandTarget, UrlTarget
from mcp_conformance.drivers.server.under_test import ServerUnderTest
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Transport
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.model.verdict import Deviation, ExpiredWait, Outcome
from mcp_conformance.runners.client import ClientCommand, play
from mcp_conformance.runners.server import run_server
from mcp_conformance.scenarios.table import SCENARIOS
from mcp_conformance.wire.http_server import open_http_server
from mcp_conformance.wire.inactivity import is_inactive
from mcp_conformance.wire.timeouts import AdaptiveTimeouts, WaitKind
from mcp_conformance.wire.transcript import strict_json
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.model.verdict import Run
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_conformance.wire.timeouts import Wait
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

_SETTINGS: Final = Settings(timeout=10.0)
_KEY: Final = ("run", "run tools/call")


async def _wait(timeouts: AdaptiveTimeouts, seconds: float, subjects: tuple[str, ...] = _KEY) -> float:
    """Wait for a response after some seconds, and return the limit."""
    with timeouts.wait(10.0, subjects) as wait:
        await trio.sleep(seconds)
    return wait.seconds


async def test_third_wait_in_vain_is_shorter(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    assert [await _wait(timeouts, math.inf) for _ in range(4)] == [10.0, 10.0, 2.5, 2.5]


async def test_short_wait_is_several_times_slowest_response(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    await _wait(timeouts, 0.5, ("run", "run ping"))
    assert [await _wait(timeouts, math.inf) for _ in range(3)] == [10.0, 10.0, 1.0]


async def test_slow_response_counts_less_after_fast_ones(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    await _wait(timeouts, 2.0)
    for _ in range(10):
        await _wait(timeouts, 0.1)
    *_, limit = [await _wait(timeouts, math.inf) for _ in range(3)]
    assert limit == pytest.approx(2 * 2.0 * 0.9**10)


async def test_short_wait_is_not_longer_than_timeout(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    await _wait(timeouts, 9.0)
    assert [await _wait(timeouts, math.inf) for _ in range(3)] == [10.0, 10.0, 10.0]


async def test_slowest_response_of_kind_limits_its_waits(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    with timeouts.wait(30.0, _KEY, WaitKind.START):
        await trio.sleep(3.0)
    await _wait(timeouts, 0.001)
    assert [await _wait(timeouts, math.inf) for _ in range(3)] == [10.0, 10.0, 0.15]


async def test_first_message_of_later_process_has_the_time_of_earlier_ones(
    autojump_clock: trio.testing.MockClock,
) -> None:
    timeouts = AdaptiveTimeouts()
    assert timeouts.longest_start(10.0, 30.0) == 30.0
    for seconds, longest in ((0.2, 10.0), (2.0, 20.0), (5.0, 30.0)):
        with timeouts.wait(30.0, _KEY, WaitKind.START):
            await trio.sleep(seconds)
        assert timeouts.longest_start(10.0, 30.0) == longest


async def test_condition_without_response_is_limited_by_responses(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    await _wait(timeouts, 0.5)
    for _ in range(2):
        with timeouts.wait(10.0, _KEY, WaitKind.CONDITION):
            await trio.sleep_forever()
    assert timeouts.limit(10.0, _KEY, WaitKind.CONDITION) == 2.0
    assert timeouts.limit(10.0, _KEY, WaitKind.EXIT) == 1.0


async def test_response_ends_short_waits_of_its_subject_only(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    # The budget leaves 6.8 seconds of the timeout after two waits in vain.
    for _ in range(2):
        await _wait(timeouts, math.inf)
    assert timeouts.limit(10.0, ("run", "run ping")) == 2.5
    await _wait(timeouts, 0.1, ("run", "run ping"))
    assert timeouts.limit(10.0, ("run", "run ping")) == pytest.approx(6.8)
    assert timeouts.limit(10.0, ("run", "run resources/list")) == pytest.approx(6.8)
    assert timeouts.limit(10.0, _KEY) == pytest.approx(0.2)
    await _wait(timeouts, 0.1)
    assert timeouts.limit(10.0, _KEY) == pytest.approx(6.8)


async def test_wait_ended_by_another_error_is_not_counted(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    for _ in range(5):
        with pytest.raises(ConnectionError), timeouts.wait(10.0, _KEY):
            raise ConnectionError
    assert timeouts.limit(10.0, _KEY) == 10.0


async def test_implementation_that_sometimes_responds_has_a_budget(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    limits: list[float] = []
    for _ in range(40):
        limits.append(await _wait(timeouts, math.inf))
        await _wait(timeouts, 0.01)
    assert limits[:4] == pytest.approx([10.0, 10.0, 6.8, 4.488])
    assert limits[-1] == 0.15
    assert sum(limits) < 90.0


async def test_known_response_may_be_late_a_few_times_after_budget(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    await _wait(timeouts, 0.01, ("run", "run tools/list"))
    for method in range(40):
        await _wait(timeouts, math.inf, ("run", f"run {method}"))
        await _wait(timeouts, 0.01, ("run", "run ping"))
    # The waits for other methods were in vain, and none of them ever responded.
    assert [await _wait(timeouts, 2.4, ("run", "run tools/list"))] == [2.5]
    for _ in range(60):
        await _wait(timeouts, 0.01, ("run", "run tools/list"))
    limits: list[float] = []
    for _ in range(22):
        limits.append(await _wait(timeouts, math.inf, ("run", "run tools/list")))
        await _wait(timeouts, 0.01, ("run", "run tools/list"))
    assert limits == [*[2.5] * 20, 0.15, 0.15]


async def test_conditions_use_budget_of_responses(autojump_clock: trio.testing.MockClock) -> None:
    timeouts = AdaptiveTimeouts()
    for _ in range(40):
        await _wait(timeouts, math.inf)
        await _wait(timeouts, 0.01)
    assert timeouts.limit(10.0, ("run", "run progress"), WaitKind.CONDITION) == 1.0
    assert timeouts.limit(10.0, ("run", "run exit"), WaitKind.EXIT) == 10.0


async def test_short_wait_of_budget_respects_slowest_response_of_its_subject(
    autojump_clock: trio.testing.MockClock,
) -> None:
    timeouts = AdaptiveTimeouts()
    for _ in range(40):
        await _wait(timeouts, math.inf)
        await _wait(timeouts, 0.01)
    assert timeouts.limit(10.0, ("run", "run tools/list")) == 1.0
    await _wait(timeouts, 0.9, ("run", "run tools/list"))
    for _ in range(40):
        await _wait(timeouts, 0.01)
    assert timeouts.limit(10.0, ("run", "run tools/list")) == pytest.approx(1.8)
    assert timeouts.limit(10.0, _KEY) < 1.0


@pytest.mark.parametrize(
    ("kind", "limits"), [(WaitKind.RESPONSE, [10.0, 10.0, 10.0]), (WaitKind.RUN, [10.0, 6.8, 4.488])]
)
async def test_runs_in_progress_use_budget_after_one_in_vain(
    autojump_clock: trio.testing.MockClock, kind: WaitKind, limits: list[float]
) -> None:
    timeouts = AdaptiveTimeouts()
    for expected in ([10.0, 10.0, 10.0], limits):
        with ExitStack() as stack:
            found = [stack.enter_context(timeouts.wait(10.0, _KEY, kind)).seconds for _ in range(3)]
        assert found == pytest.approx(expected)
        with timeouts.wait(10.0, _KEY, kind):
            await trio.sleep(11.0)


async def test_client_that_hangs_is_killed_without_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[tuple[WaitKind, float]] = []
    timeouts = AdaptiveTimeouts()
    wait = timeouts.wait

    def recorded(
        longest: float, subjects: Sequence[str], kind: WaitKind = WaitKind.RESPONSE
    ) -> AbstractContextManager[Wait]:
        waits.append((kind, longest))
        return wait(longest, subjects, kind)

    monkeypatch.setattr(AdaptiveTimeouts, "wait", lambda _, *args: recorded(*args))
    command = ClientCommand(http=shlex.join([sys.executable, "-c", "import signal; signal.pause()"]))
    settings = Settings(timeout=0.05, timeouts=timeouts)
    evidence = await play(command, settings, SCENARIOS["initialize"], REVISIONS["2025-11-25"], Transport.HTTP)
    assert evidence.status is None
    assert waits == [(WaitKind.RUN, pytest.approx(0.15)), (WaitKind.EXIT, 0.2)]


@pytest.mark.parametrize("wait", ["request", "until"])
async def test_first_message_of_process_has_time_to_start(wait: str) -> None:
    settings = Settings(timeout=0.05, starting=0.1)
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    async with open_stdio(command, REVISIONS["2026-07-28"], settings) as peer:
        first: dict[str, Callable[[], Awaitable[object]]] = {
            "request": partial(peer.request, "tools/list"),
            "until": partial(peer.until, lambda: False, "progress"),
        }
        with pytest.raises(Deviation, match=r"nothing within 0\.1 seconds"):
            await first[wait]()


# --- whole runs, with a server in this process -----------------------------------------------------------------------


class _Server:
    """A server that does not answer some methods."""

    def __init__(self, hangs: Callable[[str], bool]) -> None:
        self._hangs: Final = hangs

    async def handle(self, exchange: ServerExchange) -> None:
        message = _read(exchange.body)
        method = str(message.get("method"))
        if self._hangs(method):
            await exchange.gone.wait()
        elif exchange.method != "POST":
            await exchange.respond(405)
        elif "id" not in message:
            await exchange.respond(202 if "method" in message else 400)
        else:
            body: JsonObject = {"jsonrpc": "2.0", "id": message["id"]}
            params = message.get("params")
            if method == "initialize" and isinstance(params, dict):
                body["result"] = {**_INITIALIZED, "protocolVersion": params.get("protocolVersion")}
            elif method in _RESULTS:
                body["result"] = _RESULTS[method]
            else:
                body["error"] = {"code": -32601, "message": "unknown method"}
            await exchange.respond(200, [("Content-Type", "application/json")], json.dumps(body).encode())


def _read(body: bytes) -> JsonObject:
    try:
        message = strict_json(body)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


_INITIALIZED: Final[JsonObject] = {"capabilities": {"tools": {}}, "serverInfo": {"name": "mute", "version": "1"}}
_TOOL: Final[JsonObject] = {"name": "test_simple_text", "inputSchema": {"type": "object"}}
_RESULTS: Final[JsonObject] = {"tools/list": {"tools": [_TOOL]}, "tools/call": {"content": []}, "ping": {}}


async def _run(hangs: Callable[[str], bool], revisions: Collection[str] = ("2025-11-25",)) -> tuple[Run, float]:
    """Return a run with a server, and its seconds on the mock clock."""
    since = trio.current_time()
    async with open_http_server(_Server(hangs).handle) as port:
        target = UrlTarget(f"http://127.0.0.1:{port}/mcp", _SETTINGS)
        run = await run_server(target, _SETTINGS, Manifest(), revisions=[REVISIONS[each] for each in revisions])
    return run, trio.current_time() - since


async def test_second_user_of_server_shares_limits(autojump_clock: trio.testing.MockClock) -> None:
    async with open_http_server(_Server(lambda method: method == "ping").handle) as port:
        target = UrlTarget(f"http://127.0.0.1:{port}/mcp", _SETTINGS)
        seen: list[str] = []
        for each in (target, target, target.for_user((("Authorization", "Bearer other"),))):
            async with each.open(REVISIONS["2025-11-25"], Transport.HTTP) as peer:
                with pytest.raises(Deviation) as raised:
                    await peer.request("ping")
                seen.append(raised.value.observed)
    assert seen[:2] == ["nothing within 10 seconds"] * 2
    assert "shortened from 10 seconds" in seen[2]
    assert "--timeout" in seen[2]


def _waits(run: Run) -> list[str]:
    """Return the observations of the checks that waited in vain."""
    failed = [each.observed for each in run.verdicts if each.outcome is Outcome.FAILED]
    return [each for each in failed if each.startswith("nothing within")]


async def test_server_without_any_response_costs_two_timeouts(autojump_clock: trio.testing.MockClock) -> None:
    run, seconds = await _run(lambda _: True, list(REVISIONS))

    assert all("nothing within" in (leg.refusal or "") for leg in run.legs)
    # Two revisions at a time. The third begins when the first has ended, which is before or after the second has.
    assert 15.0 <= seconds <= 20.0


@pytest.mark.parametrize("method", ["tools/call", "ping"])
async def test_server_that_hangs_in_one_method_costs_few_timeouts(
    autojump_clock: trio.testing.MockClock, method: str
) -> None:
    healthy, shortest = await _run(lambda _: False)
    hanging, seconds = await _run(lambda called: called == method)

    assert not _waits(healthy)
    waits = _waits(hanging)
    assert len(waits) > 2
    # The whole timeout twice at most, since a wait that is not that of a check counts too.
    assert sum(each == "nothing within 10 seconds" for each in waits) <= 2
    assert all("(shortened from 10 seconds after " in each for each in waits if each != "nothing within 10 seconds")
    assert seconds < shortest + 60.0


async def test_server_that_only_initializes_costs_few_timeouts(autojump_clock: trio.testing.MockClock) -> None:
    run, seconds = await _run(lambda method: method not in ("initialize", "notifications/initialized"))

    (leg,) = run.legs
    assert leg.refusal == "expected a response to tools/list; observed nothing within 10 seconds"
    assert seconds < 30.0


class _StayingServer(CommandTarget):
    """A server that stays after the end of its input. It left four requests without a response before another one."""

    def __init__(self) -> None:
        super().__init__([sys.executable, "-c", "import signal; print({}, flush=True); signal.pause()"], _SETTINGS)

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
        async with super().open(revision, transport, handshake=handshake) as peer:
            while not peer.has_spoken:
                # The mock clock does not advance while a task runs.
                await trio.lowlevel.checkpoint()
            for number in range(4):
                with peer.limited(f"a response to request {number}", kind=WaitKind.RESPONSE):
                    await trio.sleep_forever()
            with peer.limited("a response to initialize", kind=WaitKind.RESPONSE):
                pass
            yield peer


async def test_responses_awaited_in_vain_do_not_shorten_the_wait_for_an_exit(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = ServerUnderTest(
        target=_StayingServer(),
        revision=REVISIONS["2025-06-18"],
        transport=Transport.STDIO,
        inventory=ServerInventory(capabilities={}, lists={}),
        manifest=Manifest(),
        settings=_SETTINGS,
        evidence=[],
        connections=ConnectionPool(nursery),
    )

    with pytest.raises(ExpiredWait) as raised:
        await SERVER_CHECKS["stdio.exit-early"].run(server)

    assert raised.value.observed == "nothing within 10 seconds"


async def _inactivity(entries: Sequence[float], end: float, before: int = 0) -> tuple[bool, float]:
    """Return whether inactivity of 10 seconds is found, and when, if entries are made at these times."""
    known = [*range(before)]

    async def enter() -> None:
        for number, time in enumerate(entries):
            await trio.sleep(time - (entries[number - 1] if number else 0.0))
            known.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(enter)
        since = trio.current_time()
        found = await is_inactive(partial(trio.sleep_until, since + end), lambda: len(known), 10.0)
        taken = round(trio.current_time() - since, 3)
        nursery.cancel_scope.cancel()
    return found, taken


async def test_client_is_inactive_after_timeout_without_message(autojump_clock: trio.testing.MockClock) -> None:
    assert await _inactivity([1.0, 5.0], math.inf) == (True, 16.0)
    # The last entry is found at the next look.
    assert await _inactivity([], math.inf, before=1) == (True, 10.0)


async def test_client_that_sent_nothing_or_still_sends_is_not_inactive(autojump_clock: trio.testing.MockClock) -> None:
    assert await _inactivity([], 29.0) == (False, 29.0)
    assert await _inactivity([9.0, 18.0, 27.0, 36.0], 40.0) == (False, 40.0)
