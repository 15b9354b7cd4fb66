"""The measurement of one attack, on its own server with well-behaved clients."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import math
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Final

import attrs
import trio

from bench.attacks.attacks import ATTACKS
from bench.attacks.measure import Calls, Usage, peak_mib, reset_peak, usage
from bench.attacks.processes import Child, ChildFailed, start
from bench.attacks.verdicts import AttackResult, may_be_scattered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from bench.attacks.catalogue import Attack

__all__ = [
    "CLIENTS",
    "Certificate",
    "MonitoredServer",
    "Running",
    "Setting",
    "attended_server",
    "chosen",
    "raise_descriptor_limit",
    "run_attackers",
    "server_arguments",
    "try_attack",
    "until_stopped",
]

CLIENTS: Final = ("legacy", "modern", "new legacy", "new modern")
"""The kinds of well-behaved clients during an attack."""
_SAMPLE_PAUSE: Final = 0.05
_START_SECONDS: Final = 60.0
_FREE_SECONDS: Final = 20.0
_LATE: Final = 5.0
"""Seconds beyond its time after which the process of the attackers is terminated."""


@attrs.frozen
class Certificate:
    """Files for TLS."""

    cert: str
    key: str
    ca: str

    @classmethod
    def make(cls, folder: Path) -> Certificate:
        """Write a certificate for 127.0.0.1 into a folder."""
        import trustme  # lazy: only for --tls

        authority = trustme.CA()
        made = authority.issue_cert("127.0.0.1")
        cert, key, ca = (folder / name for name in ("cert.pem", "key.pem", "ca.pem"))
        cert.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        made.private_key_pem.write_to_path(key)
        authority.cert_pem.write_to_path(ca)
        return cls(str(cert), str(key), str(ca))


@attrs.frozen(kw_only=True)
class Setting:
    """The settings of all attacks of a run."""

    host: str = "embedded"
    certificate: Certificate | None = None
    idle_seconds: float = 1.0
    settle_seconds: float = 4.0
    stop_mib: float = 3_072.0
    """MiB of resident memory of the server at which an attack is aborted."""


@attrs.define
class MonitoredServer:
    """A monitored server, and its peaks."""

    pid: int
    now: Usage
    peak_mib: float = 0.0
    peak_descriptors: int = 0
    ended: trio.Event = attrs.field(factory=trio.Event)
    _peak_is_exact: bool = False

    def forget_peaks(self) -> None:
        """Reset the peaks."""
        self._peak_is_exact = reset_peak(self.pid)
        self.peak_mib, self.peak_descriptors = self.now.rss_mib, self.now.descriptors

    def sample(self) -> None:
        """Sample the process."""
        try:
            self.now = usage(self.pid)
            peak = peak_mib(self.pid) if self._peak_is_exact else self.now.rss_mib
        except OSError:
            self.ended.set()
            return
        self.peak_mib = max(self.peak_mib, peak)
        self.peak_descriptors = max(self.peak_descriptors, self.now.descriptors)


async def watch(watched: MonitoredServer) -> None:
    """Sample a process until it ends."""
    while not watched.ended.is_set():
        watched.sample()
        await trio.sleep(_SAMPLE_PAUSE)


def server_arguments(setting: Setting, nofile: tuple[int, int] | None = None) -> tuple[str, ...]:
    """Return the arguments of the server."""
    words = ["--host", setting.host]
    if nofile is not None:
        words += ["--nofile", f"{nofile[0]}:{nofile[1]}"]
    if setting.certificate is not None:
        words += ["--tls-cert", setting.certificate.cert, "--tls-key", setting.certificate.key]
    return tuple(words)


def chosen(patterns: Sequence[str]) -> list[Attack]:
    """Return the attacks whose names match one of the patterns; without patterns, all that do not need a name.

    Raises:
        ValueError: A pattern matches nothing.
    """
    for pattern in patterns:
        if not fnmatch.filter(ATTACKS, pattern):
            raise ValueError(f"unknown attack {pattern!r}; --list prints the names")
    return [
        each
        for each in ATTACKS.values()
        if (any(fnmatch.fnmatch(each.name, one) for one in patterns) if patterns else not each.only_by_name)
    ]


async def serving(server: Child) -> int:
    """Return the port of a started server. Raise `ChildFailed` if it does not start."""
    with trio.move_on_after(_START_SECONDS):
        line = await server.line()
        if line:
            return int(line)
    raise ChildFailed(f"the server did not start; its output:\n{server.said()}")


def client_arguments(setting: Setting, port: int, kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of the well-behaved clients."""
    certificate = setting.certificate
    scheme, trust = ("http", ()) if certificate is None else ("https", ("--ca", certificate.ca))
    return (f"{scheme}://127.0.0.1:{port}/mcp", *kinds, *trust)


@attrs.define
class Attackers:
    """The last report of the attackers' process."""

    statuses: dict[str, int] = attrs.field(factory=dict)
    figures: dict[str, float] = attrs.field(factory=dict)
    held: int = 0

    def read(self, line: str) -> None:
        """Read a line of `bench.attacks.attacker`."""
        fields = json.loads(line)
        self.statuses, self.figures, self.held = fields["statuses"], fields["figures"], fields["held"]


async def read_calls(client: Child, calls: Calls) -> None:
    """Read the lines of the well-behaved clients, until cancelled. Raise `ChildFailed` if they end."""
    async for line in client.lines():
        calls.read(line)
    raise ChildFailed(f"the well-behaved clients ended; their output:\n{client.said()}")


@attrs.frozen(kw_only=True)
class Running:
    """A running server, with well-behaved clients that use it."""

    server: Child
    port: int
    calls: Calls
    watched: MonitoredServer

    async def free(self) -> None:
        """Make the server collect its garbage and return free memory to the system."""
        with contextlib.suppress(ProcessLookupError), trio.move_on_after(_FREE_SECONDS):
            self.server.process.send_signal(signal.SIGUSR1)
            await self.server.line()
        self.watched.sample()

    def obituary(self) -> str:
        """Return the output of a server that has ended, or the empty string while it runs."""
        return f"the server ended; its output:\n{self.server.said()}" if self.watched.ended.is_set() else ""


@contextlib.asynccontextmanager
async def attended_server(setting: Setting, kinds: Sequence[str], arguments: Sequence[str]) -> AsyncIterator[Running]:
    """Run a server and well-behaved clients for the duration of the block, after each client had a response.

    Args:
        setting: The settings of all attacks.
        kinds: The kinds of clients.
        arguments: The arguments of the server.

    Raises:
        ChildFailed: One of them did not start, or the clients ended; in a group.
    """
    async with start("server", *arguments) as server:
        port = await serving(server)
        async with start("client", *client_arguments(setting, port, kinds)) as client, trio.open_nursery() as nursery:
            calls, watched = Calls(), MonitoredServer(server.pid, usage(server.pid))
            nursery.start_soon(read_calls, client, calls)
            nursery.start_soon(watch, watched)
            with trio.move_on_after(_START_SECONDS):
                while not calls.answered(kinds):  # noqa: ASYNC110  # the answers come from another process
                    await trio.sleep(_SAMPLE_PAUSE)
            if not calls.answered(kinds):
                raise ChildFailed(f"the well-behaved clients get no responses; their output:\n{client.said()}")
            yield Running(server=server, port=port, calls=calls, watched=watched)
            nursery.cancel_scope.cancel()


async def try_attack(attack: Attack, setting: Setting, show: Callable[[str], None]) -> AttackResult:
    """Run one attack.

    Args:
        attack: The attack.
        setting: The settings of all attacks.
        show: Shows a line about the progress.

    Raises:
        ChildFailed: A process did not start, or the one of the attackers failed.
    """
    try:
        return await _try_attack(attack, setting, show)
    except ExceptionGroup as group:
        raise _only_failure(group) from None


def _only_failure(group: ExceptionGroup[Exception]) -> ChildFailed:
    """Return the only failure of a group. Raise the group if it contains anything else."""
    failed, rest = group.split(ChildFailed)
    if failed is None or rest is not None:
        raise group
    failure: Exception = failed
    while isinstance(failure, ExceptionGroup):
        failure = failure.exceptions[0]
    assert isinstance(failure, ChildFailed)
    return failure


async def _try_attack(attack: Attack, setting: Setting, show: Callable[[str], None]) -> AttackResult:
    show("starting")
    async with attended_server(setting, CLIENTS, server_arguments(setting, attack.nofile)) as running:
        calls, watched = running.calls, running.watched
        settle = setting.settle_seconds if attack.settle is None else attack.settle
        before = time.monotonic()
        await trio.sleep(setting.idle_seconds)
        idle, began = watched.now, time.monotonic()
        latency_idle = calls.between(before, began)
        watched.forget_peaks()
        attackers, stopped = await run_attackers(attack, setting, running, show)
        over = time.monotonic()
        cpu_seconds = watched.now.cpu_seconds - idle.cpu_seconds
        for second in range(math.ceil(settle)):
            show(f"settles: {watched.now.rss_mib:.0f} MiB, {settle - second:.0f} s left")
            await trio.sleep(min(1.0, settle - second))
        after, peak, peak_descriptors = watched.now, watched.peak_mib, watched.peak_descriptors
        await running.free()
        kept, kept_again = watched.now, None
        if not stopped and may_be_scattered(idle, peak, kept, attack.kept_mib):
            await run_attackers(attack, setting, running, lambda text: show(f"again: {text}"))
            await trio.sleep(settle)
            await running.free()
            kept_again = watched.now
        stopped = running.obituary() or stopped
    return AttackResult(
        attack=attack.name,
        idle=idle,
        peak_mib=peak,
        peak_descriptors=peak_descriptors,
        after=after,
        kept=kept,
        kept_again=kept_again,
        attack_seconds=over - began,
        settle_seconds=settle,
        cpu_seconds=cpu_seconds,
        latency_idle=latency_idle,
        latency=calls.between(began, over),
        lag=calls.lag_between(began, over),
        sessions_lost=calls.sessions_lost,
        statuses=attackers.statuses,
        figures=attackers.figures,
        figures_below=attack.figures_below,
        stopped=stopped,
        kept_mib=attack.kept_mib,
    )


async def run_attackers(
    attack: Attack, setting: Setting, running: Running, show: Callable[[str], None]
) -> tuple[Attackers, str]:
    """Run the attackers. Return their report, and why they were stopped, or the empty string for a normal end."""
    stopped = ""
    attackers, watched = Attackers(), running.watched
    words = (attack.name, str(running.port), str(attack.seconds), *(() if setting.certificate is None else ("--tls",)))
    async with start("attacker", *words) as child, trio.open_nursery() as nursery:
        began = trio.current_time()

        async def guard() -> None:
            nonlocal stopped
            while True:
                if watched.ended.is_set():
                    stopped = "the server ended"
                elif watched.now.rss_mib > setting.stop_mib:
                    stopped = f"broken off at {setting.stop_mib:.0f} MiB"
                elif trio.current_time() > began + attack.seconds + _LATE:
                    stopped = "the attackers did not end in time"
                if stopped:
                    nursery.cancel_scope.cancel()
                show(
                    f"{trio.current_time() - began:.0f} of {attack.seconds:.0f} s, {watched.now.rss_mib:.0f} MiB,"
                    f" {watched.now.descriptors} descriptors, {attackers.statuses}"
                )
                await trio.sleep(_SAMPLE_PAUSE)

        nursery.start_soon(guard)
        async for line in child.lines():
            attackers.read(line)
        nursery.cancel_scope.cancel()
        if not stopped and await child.process.wait():
            raise ChildFailed(f"the attackers of {attack.name} failed; their output:\n{child.said()}")
    return attackers, stopped


async def until_stopped(run: Callable[[], Awaitable[int]]) -> int:
    """Run a program until it is done, or until SIGINT or SIGTERM, so that its children end first.

    Returns:
        The exit status: 2, with a message, for `ChildFailed`; 130 after a signal.
    """
    status = 130
    failure: ChildFailed | None = None
    async with trio.open_nursery() as nursery:

        async def stop_by_signal() -> None:
            with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

        nursery.start_soon(stop_by_signal)
        try:
            status = await run()
        except ExceptionGroup as group:
            failure = _only_failure(group)
        except ChildFailed as failed:
            failure = failed
        nursery.cancel_scope.cancel()
    if failure is not None:
        print(failure, file=sys.stderr)
        return 2
    return status


def raise_descriptor_limit() -> None:
    """Allow the children to open as many files as the system permits: attackers need thousands of connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
