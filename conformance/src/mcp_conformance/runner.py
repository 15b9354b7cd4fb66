"""Runs the checks of servers: which, where, in what order, and what became of each.

A *lane* is one revision over one transport. Lanes run side by side; in a lane the checks run one after another, those
that share a connection first, those that only look at the evidence last. Each check has exactly one verdict in each
lane in which it can run.
"""

from __future__ import annotations

import traceback
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.checks import Role, Subject, Transport
from mcp_conformance.server import SERVER_CHECKS
from mcp_conformance.survey import Survey, survey
from mcp_conformance.under_test import ServerUnderTest
from mcp_conformance.verdicts import Deviation, Lane, NotApplicable, NotTestable, Outcome, Run, Verdict
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Self

    from mcp_conformance.checks import Check
    from mcp_conformance.fixtures import Manifest
    from mcp_conformance.peer import ServerPeer
    from mcp_conformance.settings import Settings
    from mcp_conformance.targets import ServerTarget
    from mcp_conformance.transcript import Transcript
    from mcp_core.revisions import Revision

__all__ = ["run_server"]

_ORDER: Final = (Subject.SHARED, Subject.CONNECTION, Subject.PROCESS, Subject.EVIDENCE)


_HTTP_SSE: Final = frozenset({"2024-11-05"})


async def run_server(
    target: ServerTarget,
    settings: Settings,
    manifest: Manifest,
    *,
    revisions: Sequence[Revision] = tuple(REVISIONS.values()),
    chosen: Collection[str] | None = None,
    show: Callable[[Verdict], None] = lambda _: None,
) -> Run:
    """Puts a server to the test.

    Args:
        target: The server.
        settings: The bounds.
        manifest: What it has for the fixtures.
        revisions: What is spoken.
        chosen: The ids of the checks that run; `None`: all.
        show: Is told each verdict as it comes.
    """
    lanes = [
        (revision, each)
        for revision in revisions
        for each in sorted(target.transports, key=lambda t: t.value)
        # It was the transport of one revision.
        if each is not Transport.HTTP_SSE or revision.name in _HTTP_SSE
    ]
    verdicts: dict[int, list[Verdict]] = {}
    found: dict[int, Lane] = {}
    places = trio.CapacityLimiter(settings.jobs)

    async def run(number: int, revision: Revision, transport: Transport) -> None:
        async with places:
            lane = _Lane(target, settings, manifest, revision=revision, transport=transport, show=show)
            refusal = await lane.run([check for check in SERVER_CHECKS if chosen is None or check.id in chosen])
            log = "" if refusal is None else target.log
            found[number] = Lane(revision=revision.name, transport=transport.value, refusal=refusal, log=log)
            verdicts[number] = lane.verdicts

    async with open_nursery() as nursery:
        for number, (revision, transport) in enumerate(lanes):
            nursery.start_soon(run, number, revision, transport)
    order = range(len(lanes))
    return Run(
        role=Role.SERVER,
        target=str(target),
        lanes=tuple(found[number] for number in order),
        verdicts=tuple(verdict for number in order for verdict in verdicts[number]),
    )


class _Lane:
    """One revision over one transport."""

    def __init__(
        self,
        target: ServerTarget,
        settings: Settings,
        manifest: Manifest,
        *,
        revision: Revision,
        transport: Transport,
        show: Callable[[Verdict], None],
    ) -> None:
        self._target: Final = target
        self._settings: Final = settings
        self._manifest: Final = manifest
        self._revision: Final = revision
        self._transport: Final = transport
        self._show: Final = show
        self._evidence: Final[list[Transcript]] = []
        self.verdicts: Final[list[Verdict]] = []

    async def run(self, checks: Sequence[Check[ServerUnderTest]]) -> str | None:
        """Runs all checks that belong here. Why nothing could be tried, if so."""
        mine = [
            check
            for subject in _ORDER
            for check in checks
            if check.subject is subject
            and self._revision.name in check.revisions
            and self._transport in check.transports
        ]
        try:
            async with self._target.open(self._revision, self._transport) as peer:
                self._evidence.append(peer.transcript)
                surveyed = await survey(peer)
        except Deviation as deviation:
            return str(deviation)
        subject = ServerUnderTest(
            target=self._target,
            revision=self._revision,
            transport=self._transport,
            survey=surveyed,
            manifest=self._manifest,
            settings=self._settings,
            evidence=self._evidence,
        )
        async with _Shared(subject, self._evidence) as shared:
            for check in mine:
                verdict = await self._verdict(check, subject, shared)
                self.verdicts.append(verdict)
                self._show(verdict)
        return None

    async def _verdict(self, check: Check[ServerUnderTest], subject: ServerUnderTest, shared: _Shared) -> Verdict:
        """Runs one check."""
        outcome, reason, expected, observed = Outcome.PASSED, "", "", ""
        transcripts: list[Transcript] = []
        before = 0
        try:
            _require(check, subject.survey)
            async with AsyncExitStack() as stack:
                if check.subject is Subject.SHARED:
                    peer = await shared.peer()
                elif check.subject is Subject.CONNECTION:
                    peer = await stack.enter_async_context(subject.open())
                    self._evidence.append(peer.transcript)
                else:
                    peer = None
                if peer is not None:
                    before = len(peer.transcript.entries)
                    transcripts.append(peer.transcript)
                with trio.fail_after(self._settings.patience * 6 + self._settings.starting):
                    await check.run(attrs.evolve(subject, connected=peer, opened=transcripts))
        except Deviation as deviation:
            outcome, expected, observed = Outcome.FAILED, deviation.expected, deviation.observed
        except NotApplicable as why:
            outcome, reason = Outcome.NOT_APPLICABLE, str(why)
        except NotTestable as why:
            outcome, reason = Outcome.NOT_TESTABLE, str(why)
        except Exception:  # noqa: BLE001  a fault of a check is told as one, and the others go on
            outcome, reason = Outcome.BROKEN, traceback.format_exc()
        if outcome in (Outcome.FAILED, Outcome.BROKEN) and check.subject is Subject.SHARED:
            # Whatever it left behind must not become the fault of the next one.
            await shared.renew()
        told = outcome in (Outcome.FAILED, Outcome.BROKEN)
        # Only the first can have been used before.
        entries = [entry for transcript in transcripts for entry in transcript.entries][before:]
        return Verdict(
            check=check.id,
            revision=self._revision.name,
            transport=self._transport.value,
            outcome=outcome,
            reason=reason,
            expected=expected,
            observed=observed,
            transcript=tuple(map(str, entries)) if told else (),
            log=self._target.log if told else "",
        )


class _Shared:
    """The connection that well-behaved checks share; another one when it may have been spoiled."""

    def __init__(self, subject: ServerUnderTest, evidence: list[Transcript]) -> None:
        self._subject: Final = subject
        self._evidence: Final = evidence
        self._stack = AsyncExitStack()
        self._peer: ServerPeer | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def peer(self) -> ServerPeer:
        """The connection. Raises `Deviation` when there is none to be had."""
        if self._peer is None:
            self._peer = await self._stack.enter_async_context(self._subject.open())
            self._evidence.append(self._peer.transcript)
        return self._peer

    async def renew(self) -> None:
        """The next check gets another one."""
        self._peer = None
        await self._stack.aclose()
        self._stack = AsyncExitStack()


def _require(check: Check[ServerUnderTest], surveyed: Survey) -> None:
    """Whether the server offers what a check needs.

    Raises:
        NotApplicable: It does not.
    """
    for need in check.needs:
        kind, _, name = need.partition(":")
        if kind == "capability" and not surveyed.has(name):
            raise NotApplicable(f"the server does not declare {name}")
        if kind == "any" and not surveyed.lists.get(name):
            raise NotApplicable(f"the server lists no {name}")
