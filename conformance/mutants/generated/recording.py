"""The recording of a correct peer in a leg: what it sends, and which check sees it."""

from __future__ import annotations

import json
import shlex
import time
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks import CLIENT_CHECKS, SERVER_CHECKS
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Transport
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.runners.client import ClientCommand, run_client
from mcp_conformance.runners.server import run_server
from mcp_conformance.scenarios.oauth import OAUTH_SCENARIOS
from mcp_conformance.wire.timeouts import AdaptiveTimeouts
from mcp_core.revisions import REVISIONS
from mutants.generated import client_process
from mutants.generated.client_process import OBSERVED
from mutants.generated.fault import Leg, Recording
from mutants.generated.http_peer import http_target, protected_target
from mutants.generated.logins.operator import LOGIN
from mutants.generated.protected import PROTECTED
from mutants.generated.proxy import Conversation, Mutation, Observer
from mutants.generated.stdio_peer import StdioTarget
from mutants.runs.fork_server import peer_command

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractContextManager

    from mcp_conformance.drivers.server.targets import ServerTarget
    from mcp_conformance.model.verdict import Run, Verdict
    from mcp_core.jsonrpc.messages import JsonValue

__all__ = [
    "CLIENT_LEGS",
    "SERVER_LEGS",
    "SETTINGS",
    "ClientRun",
    "record_client",
    "record_server",
    "run_faulty_client",
    "run_faulty_server",
]

_KEY: Final = "raw"
_SAMPLES: Final = 40
"""The number of different values of a key that are kept."""
SETTINGS: Final = Settings(
    timeout=5.0,
    headers=(("Authorization", f"Bearer {_KEY}"),),
    other_headers=(("Authorization", f"Bearer other-{_KEY}"),),
)
"""The settings. The peers are in this process, so that a response needs no start of a program."""
CLIENT_SETTINGS: Final = Settings(timeout=10.0, jobs=4)
"""The settings for clients, which are programs."""
_PROTECTED_AREAS: Final = ("auth", "dpop")
_PROTECTED_CHECKS: Final = frozenset(
    each.id
    for each in SERVER_CHECKS
    if each.area in _PROTECTED_AREAS or each.id in ("security.session-is-no-token", "security.session-of-another")
)
SERVER_LEGS: Final = (
    *(
        Leg(role="server", revision=revision, transport=transport.value)
        for revision in REVISIONS
        for transport in Transport
        if transport is not Transport.HTTP_SSE or REVISIONS[revision].http_sse
    ),
    # Authorization is defined since 2025-03-26.
    *(Leg(role="server", revision=revision, transport=PROTECTED) for revision in list(REVISIONS)[1:]),
)
"""The legs of servers."""


CLIENT_LEGS: Final = (
    *(
        Leg(role="client", revision=revision, transport=transport)
        for revision in REVISIONS
        for transport in ("stdio", "http")
    ),
    *(Leg(role="client", revision=revision, transport=LOGIN) for revision in list(REVISIONS)[1:]),
)
"""The legs of clients. In 2024-11-05, `http` is HTTP+SSE."""
_LOGINS: Final = frozenset(f"scenario:{each.name}" for each in OAUTH_SCENARIOS)
_LOGIN_CHECKS: Final = frozenset(each.id for each in CLIENT_CHECKS if not _LOGINS.isdisjoint(each.needs))


class _Recorder(Observer):
    """The samples of what the peer sends."""

    def __init__(self) -> None:
        self.samples: Final[dict[str, dict[str, JsonValue]]] = {}
        self.current: Final[set[str]] = set()

    def noted(self, name: str, value: JsonValue) -> None:
        """Keep a value, if it is unlike the others of its name."""
        self.current.add(name)
        held = self.samples.setdefault(name, {})
        if len(held) < _SAMPLES:
            held.setdefault(json.dumps(_shape(value)), value)


def _shape(value: JsonValue) -> JsonValue:
    """Return the value without what does not distinguish it: texts and numbers, except those of unions."""
    if isinstance(value, dict):
        return {
            name: each if name in ("type", "method", "status", "resultType", "code") else _shape(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        shapes = {json.dumps(_shape(each)) for each in value}
        return [*sorted(shapes)]
    return type(value).__name__


async def run_faulty_server(
    leg: Leg,
    mutation: Mutation,
    observer: Observer,
    *,
    chosen: Collection[str] | None = None,
    show: Callable[[Verdict], None] = lambda _: None,
) -> Run:
    """Test a raw server behind a proxy in one leg.

    Args:
        leg: The leg.
        mutation: The mutation.
        observer: Receives what the proxy sees.
        chosen: The checks; `None`: all.
        show: Receives each verdict.
    """
    # The waits in vain for one faulty server shorten none for another one.
    settings = attrs.evolve(SETTINGS, timeouts=AdaptiveTimeouts())
    if leg.transport == PROTECTED:
        with protected_target(Conversation(mutation, observer), settings) as (protected, with_token):
            return await run_server(
                protected,
                with_token,
                Manifest(),
                revisions=[REVISIONS[leg.revision]],
                chosen=_PROTECTED_CHECKS if chosen is None else chosen,
                show=show,
            )
    transport = Transport(leg.transport)
    target: AbstractContextManager[ServerTarget]
    if transport is Transport.STDIO:
        target = nullcontext(StdioTarget(lambda: Conversation(mutation, observer), settings))
    else:
        target = http_target(Conversation(mutation, observer), settings, _KEY, transport)
    with target as server:
        return await run_server(
            server, settings, Manifest(), revisions=[REVISIONS[leg.revision]], chosen=chosen, show=show
        )


async def record_server(leg: Leg, *, chosen: Collection[str] | None = None) -> Recording:
    """Record a correct raw server while checks run.

    Args:
        leg: The leg.
        chosen: The checks; `None`: all.
    """
    recorder = _Recorder()
    seen_by: dict[str, frozenset[str]] = {}
    seconds: dict[str, float] = {}
    outcomes: dict[str, str] = {}
    since = time.monotonic()

    def show(verdict: Verdict) -> None:
        nonlocal since
        now = time.monotonic()
        seen_by[verdict.check] = frozenset(recorder.current)
        seconds[verdict.check] = now - since
        outcomes[verdict.check] = verdict.outcome.value
        recorder.current.clear()
        since = now

    await run_faulty_server(leg, Mutation(), recorder, chosen=chosen, show=show)
    return Recording(
        leg=leg,
        samples={key: tuple(held.values()) for key, held in recorder.samples.items()},
        seen_by=seen_by,
        seconds=seconds,
        outcomes=outcomes,
    )


@attrs.frozen(kw_only=True)
class ClientRun:
    """A run of the suite against a raw client behind a proxy."""

    run: Run
    """The run."""
    noted: Mapping[str, tuple[tuple[str, JsonValue], ...]]
    """By scenario, the names and values of what the client sent."""
    hits: int
    """The number of changes."""


async def run_faulty_client(
    leg: Leg,
    fault: tuple[str, str, str] | None,
    *,
    chosen: Collection[str] | None = None,
    looked_at: Collection[str] | None = None,
    within: Collection[str] | None = None,
) -> ClientRun:
    """Test a raw client behind a proxy in one leg.

    Args:
        leg: The leg.
        fault: The operator, the key and the detail of the fault; `None`: no fault.
        chosen: The checks; `None`: all.
        looked_at: The scenarios for checks that judge all messages; `None`: all.
        within: The scenarios to which the run is limited; `None`: all.
    """
    if leg.transport == LOGIN:
        chosen = _LOGIN_CHECKS if chosen is None else _LOGIN_CHECKS.intersection(chosen)
    words = peer_command(client_process.__name__)
    words += [] if fault is None else ["--generated", json.dumps(fault)]
    words += ["--leg", leg.role, leg.revision, leg.transport]
    with TemporaryDirectory() as folder:
        # An environment is part of a command line only through a program; `env` is everywhere where this runs.
        line = shlex.join(["env", f"{OBSERVED}={folder}", *words])
        command = ClientCommand(
            http=f"{line} --url {{url}}" if leg.transport != "stdio" else None,
            stdio=f"{line} --start {{command}}" if leg.transport == "stdio" else None,
        )
        run = await run_client(
            command,
            CLIENT_SETTINGS,
            revisions=[REVISIONS[leg.revision]],
            chosen=chosen,
            looked_at=looked_at,
            within=within,
        )
        files = {path.stem.replace("+", "/"): path.read_text("utf-8").splitlines() for path in Path(folder).iterdir()}  # noqa: ASYNC240  small files of this process's own
    return ClientRun(
        run=run,
        noted={
            scenario: tuple((each[0], each[1]) for each in map(json.loads, lines) if each != "hit")
            for scenario, lines in ((name, [line for line in held if line != "hit"]) for name, held in files.items())
        },
        hits=sum(held.count("hit") for held in files.values()),
    )


async def record_client(leg: Leg) -> Recording:
    """Record a correct raw client in all scenarios."""
    found = await run_faulty_client(leg, None)
    recorder = _Recorder()
    for noted in found.noted.values():
        for name, value in noted:
            recorder.noted(name, value)
    keys = {scenario: frozenset(name for name, _ in noted) for scenario, noted in found.noted.items()}
    everything = frozenset().union(*keys.values())
    known = {each.id: each for each in CLIENT_CHECKS}
    seen_by: dict[str, frozenset[str]] = {}
    for verdict in found.run.verdicts:
        needs = [each.removeprefix("scenario:") for each in known[verdict.check].needs]
        seen_by[verdict.check] = (
            frozenset().union(*(keys.get(each, frozenset()) for each in needs)) if needs else everything
        )
    return Recording(
        leg=leg,
        samples={key: tuple(held.values()) for key, held in recorder.samples.items()},
        seen_by=seen_by,
        seconds={},
        outcomes={each.check: each.outcome.value for each in found.run.verdicts},
        scenarios=keys,
    )
