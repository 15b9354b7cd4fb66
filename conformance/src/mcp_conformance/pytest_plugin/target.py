"""The targets of the pytest plugin, independent of pytest."""

from __future__ import annotations

import datetime
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.cli.options import CommandLineError, known_baseline, require_words
from mcp_conformance.drivers.server.targets import CommandTarget, UrlTarget
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Role, Transport
from mcp_conformance.model.fixtures_manifest import Manifest, read_manifest
from mcp_conformance.reports.findings import findings
from mcp_conformance.reports.text import finding_lines
from mcp_conformance.runners.client import ClientCommand, legs_of, run_client
from mcp_conformance.runners.server import run_server
from mcp_conformance.scoring.score import FAILING, Rules, Score, score
from mcp_conformance.suite.checks import CHECKS
from mcp_core.errors import McpError
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

    from mcp_conformance.drivers.server.targets import ServerTarget
    from mcp_conformance.model.check import CheckInfo
    from mcp_conformance.model.verdict import Run
    from mcp_conformance.scoring.score import ScoredRun
    from mcp_core.revisions import Revision

    Start = Callable[[Sequence[Revision], Collection[str]], Awaitable[Run]]

__all__ = ["Case", "Ending", "Target", "targets"]


@attrs.frozen(kw_only=True)
class Case:
    """A check in one revision over one transport."""

    check: CheckInfo
    """The check."""
    revision: Revision
    """Revision of the case."""
    transport: Transport
    """Transport of the case."""

    @property
    def name(self) -> str:
        """Name of the test."""
        return f"{self.revision.name}::{self.transport.value}::{self.check.id}"

    @property
    def info(self) -> dict[str, str]:
        """The attributes by which the test can be selected."""
        return {
            "role": self.check.role.value,
            "revision": self.revision.name,
            "transport": self.transport.value,
            "area": self.check.area,
            "level": self.check.level(self.revision.name).value.lower(),
        }


@attrs.frozen(kw_only=True)
class Ending:
    """The result of a case."""

    text: str = ""
    """Text of the result; empty when the check passed."""
    skipped: bool = False
    """Whether the check does not apply."""
    known: bool = False
    """Whether the baseline expects the failure."""
    warning: bool = False
    """Whether the failure is against a recommendation."""


class Target:
    """A server or client under test.

    Args:
        name: Name of the group of tests.
        role: The side.
        legs: The legs in which it is tested.
        rules: The rules of the score.
        invocation: The equivalent command line.
        start: Runs checks, by their ids, in some revisions.
    """

    def __init__(
        self,
        name: str,
        *,
        role: Role,
        legs: Sequence[tuple[Revision, Transport]],
        rules: Rules,
        invocation: Sequence[str],
        start: Start,
    ) -> None:
        self.name: Final = name
        self._role: Final = role
        self._legs: Final = tuple(legs)
        self._rules: Final = rules
        self._invocation: Final = shlex.join(["mcp-conformance", role.value, *invocation])
        self._start: Final = start
        self._scored: ScoredRun | None = None
        self._trouble = ""

    @property
    def cases(self) -> Iterator[Case]:
        """All cases of the target."""
        for revision, transport in self._legs:
            for check in CHECKS[self._role]:
                if revision.name in check.revisions and transport in check.transports:
                    yield Case(check=check, revision=revision, transport=transport)

    @property
    def ran(self) -> bool:
        """Whether the target was tested."""
        return self._scored is not None or self._trouble != ""

    def run(self, cases: Sequence[Case]) -> None:
        """Test the target with some cases, and possibly more."""
        revisions = list(dict.fromkeys(case.revision for case in cases))
        try:
            run = trio.run(self._start, revisions, frozenset(case.check.id for case in cases))
        except OSError as error:
            self._trouble = f"the target cannot be started: {error}"
        else:
            self._scored = score(attrs.evolve(run, invocation=self._invocation), self._rules)

    def ending(self, case: Case) -> Ending:
        """Return the result of a case after the run."""
        if self._scored is None:
            return Ending(text=self._trouble)
        scored = self._scored
        place = (case.revision.name, case.transport.value)
        leg = next(leg for leg in scored.run.legs if (leg.revision, leg.transport) == place)
        if leg.refusal is not None:
            # A single revision that is not supported is not a failure. If none is supported, the run must not pass.
            return Ending(text=f"not supported: {leg.refusal}", skipped=bool(scored.run.verdicts))
        verdict = next(each for each in scored.run.of(leg) if each.check == case.check.id)
        verdict_score = scored.score_of(verdict)
        if verdict_score is Score.NOT_APPLICABLE or (
            verdict_score in FAILING and not scored.rules.makes_run_fail(verdict, self._role)
        ):
            return Ending(text=verdict.reason, skipped=True)
        entry = scored.known(verdict)
        if entry is not None:
            return Ending(text=entry.reason, known=True)
        if verdict_score in FAILING or verdict_score is Score.WARNING:
            (finding,) = findings(scored, [verdict])
            text = "\n".join(finding_lines(finding, verdict_score.value))
            return Ending(text=text, warning=verdict_score is Score.WARNING)
        stale = next((each for each in scored.comparison.stale if each.covers(verdict)), None)
        return Ending() if stale is None else Ending(text=f"the baseline has {stale}, which does not fail")


def targets(
    *,
    server: str | None,
    url: str | None,
    client: str | None,
    client_stdio: str | None,
    fixtures: str | None,
    baseline: str | None,
    allow_untested: bool,
    strict: bool,
) -> Iterator[Target]:
    """Yield the targets of the options.

    Args:
        server: The command that starts a server over stdio.
        url: The URL of a server.
        client: The command that starts a client, which connects to `{url}`.
        client_stdio: The command that starts a client, which starts `{command}`.
        fixtures: The file of the fixtures manifest.
        baseline: The file of the baseline.
        allow_untested: Whether checks that cannot test are skipped.
        strict: Whether checks of a level below MUST fail.

    Raises:
        CommandLineError: A file cannot be read.
    """
    settings = Settings()
    require_words(server, client, client_stdio)
    try:
        manifest = Manifest() if fixtures is None else read_manifest(Path(fixtures))
    except (McpError, OSError) as error:
        raise CommandLineError(f"{fixtures}: {error}") from error

    def rules(role: Role) -> Rules:
        return Rules(
            today=datetime.datetime.now(datetime.UTC).date(),
            allow_untested=allow_untested,
            strict=strict,
            baseline=known_baseline(() if baseline is None else (baseline,), role),
        )

    more = () if fixtures is None else ("--fixtures", fixtures)
    if server is not None:
        yield Target(
            "mcp-server",
            role=Role.SERVER,
            legs=[(revision, Transport.STDIO) for revision in REVISIONS.values()],
            rules=rules(Role.SERVER),
            invocation=("--command", server, *more),
            start=_starting(CommandTarget(server, settings), settings, manifest),
        )
    if url is not None:
        yield Target(
            "mcp-server-url",
            role=Role.SERVER,
            legs=[(revision, Transport.HTTP) for revision in REVISIONS.values()],
            rules=rules(Role.SERVER),
            invocation=("--url", url, *more),
            start=_starting(UrlTarget(url, settings), settings, manifest),
        )
    if client is not None or client_stdio is not None:
        yield _client(ClientCommand(http=client, stdio=client_stdio), rules(Role.CLIENT), settings)


def _starting(target: ServerTarget, settings: Settings, manifest: Manifest) -> Start:
    async def start(revisions: Sequence[Revision], chosen: Collection[str]) -> Run:
        return await run_server(target, settings, manifest, revisions=revisions, chosen=chosen)

    return start


def _client(command: ClientCommand, rules: Rules, settings: Settings) -> Target:
    async def start(revisions: Sequence[Revision], chosen: Collection[str]) -> Run:
        return await run_client(command, settings, revisions=revisions, chosen=chosen)

    words = (("--command", command.http), ("--stdio-command", command.stdio))
    return Target(
        "mcp-client",
        role=Role.CLIENT,
        legs=legs_of(command, list(REVISIONS.values())),
        rules=rules,
        invocation=[word for option, value in words if value is not None for word in (option, value)],
        start=start,
    )
