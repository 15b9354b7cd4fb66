"""The runner of the checks of clients.

The client runs once per scenario, revision and transport. Then the checks judge the recorded messages. The client gets its task as in the official framework: in the environment, and by the URL on its command line.
"""

from __future__ import annotations

import json
import shlex
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.checks import CLIENT_CHECKS
from mcp_conformance.drivers.client.fake_server import FakeServer
from mcp_conformance.drivers.client.http_host import HttpHost, open_http_host
from mcp_conformance.drivers.client.sse_host import SseHost, open_sse_host
from mcp_conformance.drivers.client.stdio_host import StdioHost, open_stdio_host
from mcp_conformance.model.check import Role, Transport
from mcp_conformance.model.verdict import Leg, Run, Verdict
from mcp_conformance.oauth_testbed.loopback import open_testbed
from mcp_conformance.runners.adaptive_limiter import AdaptiveLimiter
from mcp_conformance.runners.check_run import judged
from mcp_conformance.runners.judged_messages import judged_lines
from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
from mcp_conformance.scenarios.scenario import ScenarioSetup
from mcp_conformance.scenarios.table import SCENARIOS
from mcp_conformance.wire.excerpt import last_lines
from mcp_conformance.wire.inactivity import is_inactive
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.process import HANGING_GRACE, run_process
from mcp_conformance.wire.timeouts import AdaptiveTimeouts, WaitKind
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import REVISIONS, Era
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.model.check import Check
    from mcp_conformance.runners.check_run import Observe
    from mcp_conformance.scenarios.oauth_scenario import OAuthSetup
    from mcp_conformance.scenarios.scenario import Host, Scenario
    from mcp_conformance.wire.process import LineProcess
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["ClientCommand", "legs_of", "play", "run_client"]

_FIRST: Final = "initialize"
"""The scenario that shows whether the client supports a revision."""
_SCENARIO: Final = "scenario:"
"""What precedes the name of a scenario among the needs of a check."""
_RUNS: Final = 3.0
"""Time limit of a client in one scenario, as a multiple of the timeout."""
_RUN: Final = (("run",), WaitKind.RUN)
"""The subjects and the kind of the wait for a client in one scenario."""


@attrs.frozen(kw_only=True)
class ClientCommand:
    """The command lines that start a client."""

    http: str | None = None
    """The command line to connect to a server at `{url}`, which is appended if it is missing. `None`: not supported."""
    stdio: str | None = None
    """The command line to start a server by `{command}`, which is appended if it is missing. `None`: not supported."""

    def __str__(self) -> str:
        return " | ".join(words for words in (self.http, self.stdio) if words is not None)

    def words(self, url: str) -> list[str]:
        """Return the command line for a URL."""
        words = shlex.split(self.http or "")
        return [word.replace("{url}", url) for word in words] if "{url}" in (self.http or "") else [*words, url]

    def launching(self, command: Sequence[str]) -> list[str]:
        """Return the command line for a server process. A word `{command}` is replaced by several words."""
        words = shlex.split(self.stdio or "")
        if "{command}" not in (self.stdio or ""):
            return [*words, *command]
        found: list[str] = []
        for word in words:
            found += command if word == "{command}" else [word.replace("{command}", shlex.join(command))]
        return found


def legs_of(command: ClientCommand, revisions: Sequence[Revision]) -> list[tuple[Revision, Transport]]:
    """Return the legs in which a client can be tested."""
    legs: list[tuple[Revision, Transport]] = []
    for revision in revisions:
        if command.http is not None:
            legs.append((revision, Transport.HTTP_SSE if revision.http_sse else Transport.HTTP))
        if command.stdio is not None:
            legs.append((revision, Transport.STDIO))
    return legs


async def run_client(
    command: ClientCommand,
    settings: Settings,
    *,
    revisions: Sequence[Revision] = tuple(REVISIONS.values()),
    chosen: Collection[str] | None = None,
    show: Callable[[Verdict], None] = lambda _: None,
    played: Callable[[str], None] = lambda _: None,
    looked_at: Collection[str] | None = None,
    within: Collection[str] | None = None,
    observe: Observe | None = None,
) -> Run:
    """Test a client.

    Args:
        command: The command lines of the client.
        settings: The limits.
        revisions: The revisions to test.
        chosen: The ids of the checks that run; `None`: all.
        show: Receives each verdict.
        played: Receives each finished scenario, with revision and transport.
        looked_at: The scenarios for checks that judge all messages; `None`: all scenarios.
        within: The scenarios to which the run is limited; checks judge only these. `None`: all that the checks need.
        observe: Receives each verdict with the entries of each scenario that the check names.
    """
    checks = [check for check in CLIENT_CHECKS if chosen is None or check.id in chosen]
    settings = attrs.evolve(settings, timeouts=AdaptiveTimeouts())
    legs = legs_of(command, revisions)
    limiter = AdaptiveLimiter(settings.jobs)
    found: dict[int, tuple[Leg, list[Verdict]]] = {}

    async def run(number: int, revision: Revision, transport: Transport) -> None:
        client_leg = _ClientLeg(
            command=command,
            settings=settings,
            limiter=limiter,
            revision=revision,
            transport=transport,
            played=played,
            looked_at=looked_at,
            within=within,
            observe=observe,
        )
        found[number] = await client_leg.run(checks, show)

    async with open_nursery() as nursery:
        for number, (revision, transport) in enumerate(legs):
            nursery.start_soon(run, number, revision, transport)
    results = [found[number] for number in range(len(legs))]
    return Run(
        role=Role.CLIENT,
        target=str(command),
        legs=tuple(leg for leg, _ in results),
        verdicts=tuple(verdict for _, verdicts in results for verdict in verdicts),
    )


@attrs.define(kw_only=True, eq=False)
class _ClientLeg:
    """A leg of a client: first whether the revision is supported, then all scenarios, then all checks."""

    command: ClientCommand
    settings: Settings
    limiter: AdaptiveLimiter
    revision: Revision
    transport: Transport
    played: Callable[[str], None]
    looked_at: Collection[str] | None
    within: Collection[str] | None
    observe: Observe | None
    runs: dict[str, Evidence] = attrs.field(factory=dict)

    async def run(
        self, checks: Sequence[Check[ClientUnderTest]], show: Callable[[Verdict], None]
    ) -> tuple[Leg, list[Verdict]]:
        """Run the leg."""
        matching = [
            each for each in checks if self.revision.name in each.revisions and self.transport in each.transports
        ]
        await self._play(SCENARIOS[_FIRST])
        refusal = _refusal(self.runs[_FIRST])
        leg = Leg(revision=self.revision.name, transport=self.transport.value, refusal=refusal)
        if refusal is not None:
            return attrs.evolve(leg, log=last_lines(self.runs[_FIRST].log)), []
        needed = [each for each in _needed(matching, self.looked_at) if each.name != _FIRST]
        async with open_nursery() as nursery:
            for scenario in needed:
                limited = self.within is not None and scenario.name not in self.within
                if scenario.belongs(self.revision, self.transport) and not limited:
                    nursery.start_soon(self._play, scenario)
        # In the order of the table, so that two runs of the suite judge the same messages first.
        ordered = {name: self.runs[name] for name in SCENARIOS if name in self.runs}
        verdicts = []
        for each in matching:
            client = ClientUnderTest(
                revision=self.revision, transport=self.transport, settings=self.settings, runs=ordered
            )
            verdict = await _verdict(each, client)
            verdicts.append(verdict)
            show(verdict)
            if self.observe is not None:
                named = [ordered.get(need.removeprefix(_SCENARIO)) for need in each.needs]
                self.observe(verdict, [run.transcript.entries for run in named if run is not None])
        return leg, verdicts

    async def _play(self, scenario: Scenario) -> None:
        async with self.limiter.limited():
            evidence = await play(self.command, self.settings, scenario, self.revision, self.transport)
            self.runs[scenario.name] = evidence
            self.limiter.count(hangs=evidence.status is None)
        self.played(f"{self.revision} {self.transport.value} {scenario.name}")


def _needed(checks: Sequence[Check[ClientUnderTest]], looked_at: Collection[str] | None) -> list[Scenario]:
    """Return the scenarios that the checks need; all if a check needs all, or those that are enough for it."""
    named = [need.removeprefix(_SCENARIO) for each in checks for need in each.needs]
    passive = any(not each.needs for each in checks)
    # All means scenarios about messages. A login adds nothing to them.
    return [
        scenario
        for name, scenario in SCENARIOS.items()
        if name in named
        or (passive and scenario.oauth_setup is None if looked_at is None else passive and name in looked_at)
    ]


def _refusal(evidence: Evidence) -> str | None:
    """Return the reason why a client does not support a revision; `None` when it does."""
    if not evidence.messages:
        seen = evidence.transcript.unframed_since(0)
        return f"the client sent no message{f', but {seen}' if seen else ''}: {evidence.ending}"
    if evidence.revision.era is Era.LEGACY:
        return _refusal_of_legacy(evidence)
    name = evidence.revision.name
    metas = [_param(each, "_meta") for each in evidence.requests]
    spoken = {str(meta.get(PROTOCOL_VERSION)) for meta in metas if isinstance(meta, dict)}
    return None if name in spoken else f"the client used {', '.join(sorted(spoken)) or 'an older revision'}"


def _refusal_of_legacy(evidence: Evidence) -> str | None:
    """Return the reason in a legacy revision, which a client with another offer supports if it continues with it."""
    name = evidence.revision.name
    offered = [_param(each, "protocolVersion") for each in evidence.sent("initialize")]
    if evidence.transport is Transport.HTTP_SSE and all(each.known is None for each in evidence.exchanges):
        # The URL is that of the stream, and a POST to it has the status 405.
        return f"the client does not open the stream of HTTP+SSE: {evidence.ending}"
    if name in offered:
        return None
    if not offered:
        return "the client offered no version"
    reason = f"the client offered {', '.join(map(str, offered))}, and does not continue with {name}"
    if not evidence.sent("notifications/initialized"):
        return f"{reason}: {evidence.ending}"
    later = [
        each
        for each in evidence.exchanges
        if each.message.get("method") != "initialize" and id(each.value) not in evidence.probes
    ]
    versions = {version for each in later if (version := each.header("mcp-protocol-version")) is not None}
    return f"{reason}, but with {', '.join(sorted(versions))}" if versions - {name} else None


def _param(message: object, name: str) -> object:
    params = message.get("params") if isinstance(message, dict) else None
    return params.get(name) if isinstance(params, dict) else None


async def play(
    command: ClientCommand, settings: Settings, scenario: Scenario, revision: Revision, transport: Transport
) -> Evidence:
    """Run the client once.

    Args:
        command: The command lines of the client.
        settings: The limits.
        scenario: The scenario.
        revision: The revision that the client must use.
        transport: The transport.
    """
    if scenario.oauth_setup is not None:
        return await _play_oauth(command, settings, scenario, scenario.oauth_setup, revision)
    transcript = Transcript()
    # A part of the run, also of one that is shorter after waits in vain: otherwise the run ends before the server knows
    # that the client does not respond.
    timeout = settings.timeouts.limit(settings.timeout * _RUNS, *_RUN) / _RUNS
    server = FakeServer(scenario.speaks or (revision,), timeout)
    notes: dict[str, JsonValue] = {}

    def prepare(host: Host) -> None:
        scenario.prepare(
            ScenarioSetup(
                revision=revision,
                transport=transport,
                server=server,
                host=host,
                timeout=timeout,
                notes=notes,
            )
        )

    async with AsyncExitStack() as stack:
        host: Host
        if transport is Transport.STDIO:
            host, launcher = await stack.enter_async_context(open_stdio_host(server, transcript, prepare=prepare))
            words = command.launching(launcher)
        elif transport is Transport.HTTP_SSE:
            host, url = await stack.enter_async_context(open_sse_host(server, transcript, prepare=prepare))
            words = command.words(url)
        else:
            host, url = await stack.enter_async_context(open_http_host(server, transcript, prepare=prepare))
            words = command.words(url)
        environment = _environment(scenario, revision, scenario.context)
        status, log = await _run(words, environment, settings, transcript, host)
    return Evidence(
        scenario=scenario,
        revision=revision,
        transport=transport,
        transcript=transcript,
        server=server,
        exchanges=tuple(host.exchanges) if isinstance(host, HttpHost | SseHost) else (),
        launches=tuple(host.launches) if isinstance(host, StdioHost) else (),
        notes=notes,
        status=status,
        log=log,
    )


async def _play_oauth(
    command: ClientCommand, settings: Settings, scenario: Scenario, setup: OAuthSetup, revision: Revision
) -> Evidence:
    """Run the client once in the OAuth testbed, whose MCP server requires a token."""
    transcript = Transcript()
    async with open_testbed(setup.quirks, path=setup.path) as testbed:
        context = setup.enter(testbed, transcript)
        environment = _environment(scenario, revision, context)
        words = command.words(f"{testbed.places.resource}{setup.fragment}")
        status, log = await _run(words, environment, settings, transcript)
    return Evidence(
        scenario=scenario,
        revision=revision,
        transport=Transport.HTTP,
        transcript=transcript,
        server=FakeServer((revision,), settings.timeout),
        testbed=testbed,
        status=status,
        log=log,
    )


def _environment(scenario: Scenario, revision: Revision, context: JsonObject | None) -> dict[str, str]:
    """Return the environment variables of the client."""
    variables = {"MCP_CONFORMANCE_SCENARIO": scenario.name}
    if not scenario.free:
        variables["MCP_CONFORMANCE_PROTOCOL_VERSION"] = revision.name
    if context is not None:
        variables["MCP_CONFORMANCE_CONTEXT"] = json.dumps({"name": scenario.name, **context})
    return variables


async def _run(
    words: Sequence[str],
    environment: dict[str, str],
    settings: Settings,
    transcript: Transcript,
    host: Host | None = None,
) -> tuple[int | None, str]:
    """Run a command to its end, and return the exit status, if it exited, and the end of its standard error."""
    async with run_process(words, environment=environment, timeouts=settings.timeouts) as process:
        with settings.timeouts.wait(settings.timeout * _RUNS, *_RUN) as wait:
            end = partial(_end_of_run, process, transcript)
            if await is_inactive(end, lambda: len(transcript.entries), settings.timeout):
                wait.scope.cancel()
                await trio.lowlevel.checkpoint()
        status = process.status
        if status is None:
            process.grace = HANGING_GRACE
            if transcript.full.is_set():
                transcript.note("the client is ended")
            elif wait.scope.deadline > trio.current_time():
                transcript.note(
                    f"the client did not exit within {settings.timeout:g} seconds after its last message (--timeout)"
                )
            else:
                note = f" ({wait.note})" if wait.note else ""
                transcript.note(f"the client did not exit within {wait.seconds:g} seconds{note}")
        else:
            transcript.note(f"the client exited with status {status}")
        if isinstance(host, StdioHost) and status is not None:
            # Before the remaining processes are stopped.
            await host.settled(settings.timeout)
    return status, process.log


async def _end_of_run(process: LineProcess, transcript: Transcript) -> None:
    """Wait until the client has exited, or has sent more than is kept of it."""
    async with open_nursery() as nursery:

        async def until(event: Callable[[], Awaitable[object]]) -> None:
            await event()
            nursery.cancel_scope.cancel()

        nursery.start_soon(until, process.wait)
        nursery.start_soon(until, transcript.full.wait)


async def _verdict(check: Check[ClientUnderTest], client: ClientUnderTest) -> Verdict:
    """Judge the runs by one check."""

    def evidence(failure: Exception) -> tuple[list[str], str]:
        log = "" if client.looked_at is None else last_lines(client.looked_at.log)
        return list(judged_lines(client, failure)), log

    return await judged(check.id, client, partial(check.run, client), evidence)
