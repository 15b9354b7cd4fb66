"""The runner of the checks of servers.

A *leg* is one revision over one transport. Legs run concurrently. Within a leg the checks run one after another: first
those that share a connection, last those that only judge recorded messages. Each check has exactly one verdict in each
leg in which it can run.

A leg whose server leaves a request without a response mostly waits. From then on another leg may run beside it, and over
stdio, where each connection has its own process, two checks of the leg run at a time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.drivers.server.connection_pool import ConnectionPool
from mcp_conformance.drivers.server.inventory import ServerInventory, read_inventory
from mcp_conformance.drivers.server.under_test import NotConnected, ServerUnderTest
from mcp_conformance.model.check import CheckScope, Role, Transport
from mcp_conformance.model.verdict import Deviation, ExpiredWait, Leg, NotApplicable, NotTestable, Run
from mcp_conformance.runners.adaptive_limiter import AdaptiveLimiter
from mcp_conformance.runners.check_run import FAILING, server_judged
from mcp_conformance.runners.server_exit import ServerMonitor
from mcp_conformance.wire.nursery import open_nursery
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

    from mcp_conformance.drivers.server.targets import ServerTarget
    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.model.check import Check
    from mcp_conformance.model.fixtures_manifest import Manifest
    from mcp_conformance.model.verdict import Verdict
    from mcp_conformance.runners.check_run import Observe
    from mcp_core.revisions import Revision

__all__ = ["run_server"]

_ORDER: Final = (
    CheckScope.SHARED,
    CheckScope.RECOVERING,
    CheckScope.CONNECTION,
    CheckScope.LEAVING,
    CheckScope.PROCESS,
    CheckScope.EVIDENCE,
)
_HTTP_SSE: Final = frozenset({"2024-11-05"})


async def run_server(
    target: ServerTarget,
    settings: Settings,
    manifest: Manifest,
    *,
    revisions: Sequence[Revision] = tuple(REVISIONS.values()),
    chosen: Collection[str] | None = None,
    show: Callable[[Verdict], None] = lambda _: None,
    observe: Observe | None = None,
) -> Run:
    """Test a server.

    Args:
        target: The server.
        settings: The limits.
        manifest: The mapping of the fixtures.
        revisions: The revisions to test.
        chosen: The ids of the checks that run; `None`: all.
        show: Receives each verdict.
        observe: Receives each verdict with the entries of each connection of the check.
    """
    legs = [
        (revision, each)
        for revision in revisions
        for each in sorted(target.transports, key=lambda t: t.value)
        # HTTP+SSE is the transport of one revision.
        if each is not Transport.HTTP_SSE or revision.name in _HTTP_SSE
    ]
    verdicts: dict[int, list[Verdict]] = {}
    found: dict[int, Leg] = {}
    names: dict[int, str] = {}
    limiter = AdaptiveLimiter(settings.jobs)
    monitor = ServerMonitor(target)

    async def run(number: int, revision: Revision, transport: Transport) -> None:
        async with limiter.limited():
            leg = _ServerLeg(
                target,
                settings,
                manifest,
                monitor,
                limiter,
                revision=revision,
                transport=transport,
                show=show,
                observe=observe,
            )
            found[number] = await leg.run([check for check in SERVER_CHECKS if chosen is None or check.id in chosen])
            verdicts[number] = leg.verdicts
            names[number] = leg.implementation

    async with open_nursery() as nursery:
        for number, (revision, transport) in enumerate(legs):
            nursery.start_soon(run, number, revision, transport)
    order = range(len(legs))
    return Run(
        role=Role.SERVER,
        target=str(target),
        implementation=", ".join(dict.fromkeys(names[number] for number in order if names[number])),
        legs=tuple(found[number] for number in order),
        verdicts=tuple(verdict for number in order for verdict in verdicts[number]),
    )


class _ServerLeg:
    """A leg of a server."""

    def __init__(
        self,
        target: ServerTarget,
        settings: Settings,
        manifest: Manifest,
        monitor: ServerMonitor,
        limiter: AdaptiveLimiter,
        *,
        revision: Revision,
        transport: Transport,
        show: Callable[[Verdict], None],
        observe: Observe | None,
    ) -> None:
        self._target: Final = target
        self._settings: Final = settings
        self._manifest: Final = manifest
        self._monitor: Final = monitor
        self._limiter: Final = limiter
        self._revision: Final = revision
        self._transport: Final = transport
        self._show: Final = show
        self._observe: Final = observe
        self._evidence: Final[list[Transcript]] = []
        self._found: Final[dict[str, Verdict]] = {}
        self._expired = False
        self._hangs = False
        self.verdicts: Final[list[Verdict]] = []
        self.implementation = ""

    async def run(self, checks: Sequence[Check[ServerUnderTest]]) -> Leg:
        """Run all checks of the leg."""
        matching = [
            check
            for subject in _ORDER
            for check in checks
            if check.scope is subject and self._revision.name in check.revisions and self._transport in check.transports
        ]
        leg = Leg(revision=self._revision.name, transport=self._transport.value, refusal=None)
        try:
            inventory = await self._monitor.reached(self._read_inventory)
        except (Deviation, NotTestable) as why:
            return attrs.evolve(leg, refusal=str(why), log=self._evidence[-1].log() if self._evidence else "")
        async with open_nursery() as nursery:
            connections = ConnectionPool(nursery)
            self.implementation = inventory.implementation
            watch = self._monitor.watch(f"{self._revision} over {self._transport.value}", connections.close)
            subject = ServerUnderTest(
                target=self._target,
                revision=self._revision,
                transport=self._transport,
                inventory=inventory,
                manifest=self._manifest,
                settings=self._settings,
                evidence=self._evidence,
                connections=connections,
            )
            for is_evidence in (False, True):
                # Recorded messages are judged when all are recorded.
                part = iter([check for check in matching if (check.scope is CheckScope.EVIDENCE) is is_evidence])
                async with open_nursery() as workers:
                    workers.start_soon(self._work, part, subject, partial(watch.run, attempt=self._run), workers)
            self.verdicts.extend(self._found[check.id] for check in matching)
            await connections.close()
        return leg

    async def _work(
        self,
        checks: Iterator[Check[ServerUnderTest]],
        subject: ServerUnderTest,
        run: Callable[[Check[ServerUnderTest], ServerUnderTest], Awaitable[None]],
        workers: trio.Nursery,
    ) -> None:
        """Run the checks that no other worker has begun. From the first wait in vain there are two workers over stdio."""
        for check in checks:
            verdict = await server_judged(check, subject, run, self._observe)
            if verdict.outcome in FAILING:
                # The next check must not suffer from a connection that this one left behind.
                await subject.connections.close()
            self._found[check.id] = verdict
            self._show(verdict)
            if (subject.connections.hangs or self._expired) and not self._hangs:
                self._hangs = True
                self._limiter.count(hangs=True)
                if self._transport is Transport.STDIO and self._settings.jobs > 1:
                    # Each connection has its own process, so that checks do not disturb each other.
                    workers.start_soon(self._work, checks, subject, run, workers)

    async def _read_inventory(self) -> ServerInventory:
        transcript = Transcript()
        self._evidence.append(transcript)
        async with self._target.open(self._revision, self._transport, transcript=transcript) as peer:
            return await read_inventory(peer)
        raise AssertionError("the block returns")

    async def _run(self, check: Check[ServerUnderTest], subject: ServerUnderTest) -> None:
        """Run one check, with a connection if it needs one."""
        _require(check, subject.inventory)
        with trio.fail_after(self._settings.timeout * 6 + self._settings.starting):
            try:
                try:
                    await check.run(subject)
                except NotConnected:
                    await self._connected(check, subject)
            except ExpiredWait:
                self._expired = True
                raise

    async def _connected(self, check: Check[ServerUnderTest], subject: ServerUnderTest) -> None:
        if check.scope in (CheckScope.PROCESS, CheckScope.EVIDENCE):
            raise AssertionError(f"{check.id} must open its own connections, or use none")
        if check.scope is CheckScope.CONNECTION:
            async with subject.open() as peer:
                self._evidence.append(peer.transcript)
                await check.run(attrs.evolve(subject, connected=peer))
        else:
            async with subject.share(subject=check.scope, evident=True) as peer:
                await check.run(attrs.evolve(subject, connected=peer))


def _require(check: Check[ServerUnderTest], inventory: ServerInventory) -> None:
    """Require that the server offers what a check needs.

    Raises:
        NotApplicable: The server does not offer it.
    """
    for need in check.needs:
        kind, _, name = need.partition(":")
        if kind == "capability" and not inventory.has(name):
            raise NotApplicable(f"the server does not declare {name}")
        if kind == "any" and not inventory.lists.get(name):
            raise NotApplicable(f"the server lists no {name}")
