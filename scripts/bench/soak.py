"""Serve well-behaved and hostile clients together for half an hour, and look for growth.

        python scripts/bench/soak.py                             thirty minutes, and three with the server at rest
    python scripts/bench/soak.py --minutes 5 --only 'left-*' sessions

One server runs all the time, with default limits, except that idle sessions and tasks are kept for only a minute, so that many
of them expire. Well-behaved clients of ten kinds use it: sessions, modern clients, new connections, HTTP+SSE, subscriptions,
cancelled calls, resumed streams. Meanwhile the attacks of scripts/bench/attack_server.py run, one after the other in a random
order, with a pause after each.

A line is printed each minute: resident memory at its end and at its lowest, descriptors, and the latency of the
well-behaved clients. Twice the server comes to rest: without attacks, until idle sessions and tasks have expired; then a garbage
collection and malloc_trim. The first time is after each attack has run once, or after a third of the time: by then the
caches are full, and memory is fragmented. The second time is at the end. The difference is growth.

The exit status is 0 if memory grew by 32 MiB at most and descriptors by 16, the median latency did not double, and no call of
a well-behaved client failed; 1 if not; 2 if it could not be run. Calls that are rejected with the name of a limit, because
hostile clients have used the capacity, are counted separately and do not fail the run. Needs Linux, for /proc.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.attacks.progress import Progress
from bench.attacks.trial import (
    Running,
    Setting,
    attended_server,
    chosen,
    raise_descriptor_limit,
    run_attackers,
    server_arguments,
    until_stopped,
)
from bench.attacks.verdicts import SoakResult, growth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.attacks.catalogue import Attack
    from bench.attacks.measure import Calls, Latency, Usage
    from bench.attacks.trial import MonitoredServer

_KINDS: Final = (
    "legacy",
    "modern",
    "new legacy",
    "new modern",
    "http+sse",
    "listening legacy",
    "listening modern",
    "cancelling legacy",
    "cancelling modern",
    "resuming",
)
_SECONDS_KEPT: Final = 60.0
_QUIET: Final = 10.0
"""Seconds before the first attack in which only the well-behaved clients run."""
_LONGEST_ATTACK: Final = 15.0
_PAUSE: Final = 2.0
"""Seconds between attacks."""
_MINUTE: Final = 60.0
_ROW: Final = "{:>7} {:>6} {:>6} {:>11} {:>7} {:>7} {:>7} {:>7} {:>6}  {}"


def fit_for_soak(patterns: Sequence[str]) -> list[Attack]:
    """Return the attacks that a soak can run: those that need no server of their own. Raise `ValueError` if none is left."""
    found = [each for each in chosen(patterns) if each.nofile is None]
    if not found:
        raise ValueError("these attacks need a server with few descriptors: none can be part of a soak")
    return [attrs.evolve(each, seconds=min(each.seconds, _LONGEST_ATTACK)) for each in found]


class Minutes:
    """The lines that are printed each minute."""

    def __init__(self, watched: MonitoredServer, calls: Calls) -> None:
        self._watched: Final = watched
        self._calls: Final = calls
        self._begins = time.monotonic()
        self._lowest = math.inf
        self._attacks: list[str] = []
        self.latencies: Final[list[Latency]] = []

    def attack(self, name: str) -> None:
        """Note that an attack runs."""
        self._attacks.append(name)

    async def run(self) -> None:
        """Print a line each minute, without end."""
        while True:
            for _ in range(int(_MINUTE * 4)):
                await trio.sleep(0.25)
                self._lowest = min(self._lowest, self._watched.now.rss_mib)
            self.print(f"{len(self.latencies)} min")

    def print(self, title: str) -> None:
        """Print a line about the time since the last line."""
        now = time.monotonic()
        latency = self._calls.between(self._begins, now)
        self.latencies.append(latency)
        print(
            _ROW.format(
                title,
                f"{self._watched.now.rss_mib:.0f}",
                f"{min(self._lowest, self._watched.now.rss_mib):.0f}",
                self._watched.now.descriptors,
                latency.calls,
                f"{latency.median:.3f}",
                f"{latency.worst:.2f}",
                latency.refused,
                latency.failed - latency.refused,
                " ".join(self._attacks),
            ),
            flush=True,
        )
        if latency.failed:
            print(f"        the first error: {latency.failure}", flush=True)
        self._calls.forget_before(self._begins)
        self._begins, self._lowest = now, math.inf
        self._attacks = self._attacks[-1:]


@attrs.define(kw_only=True)
class Soak:
    """A running soak."""

    attacks: Sequence[Attack]
    chance: random.Random
    running: Running
    lines: Minutes
    progress: Progress
    stopped: str = ""
    """Why the soak was aborted, or the empty string."""

    async def attack_until(self, when: float) -> bool:
        """Run each attack once, as long as there is time. Return whether time is left."""
        for attack in self.chance.sample(self.attacks, len(self.attacks)):
            if self.stopped or trio.current_time() >= when:
                break
            self.lines.attack(attack.name)
            show = self.progress.after(f"{attack.name}: ")
            _, self.stopped = await run_attackers(attack, Setting(), self.running, show)
            await trio.sleep(_PAUSE)
        return not self.stopped and trio.current_time() < when

    async def rest(self) -> tuple[Usage, Latency]:
        """Let the server come to rest. Return its usage then, and the latency of the well-behaved clients."""
        self.lines.attack("(rest)")
        self.progress.show("waiting until idle sessions and tasks have expired")
        await trio.sleep(_SECONDS_KEPT + _QUIET)
        quiet = time.monotonic()
        await trio.sleep(_QUIET)
        latency = self.running.calls.between(quiet, time.monotonic())
        await self.running.free()
        return self.running.watched.now, latency


async def soak(attacks: Sequence[Attack], minutes: float, seed: int) -> int:
    """Run the soak and return the exit status."""
    setting, progress = Setting(), Progress()
    words = (*server_arguments(setting), "--seconds-kept", str(_SECONDS_KEPT))
    async with attended_server(setting, _KINDS, words) as running, trio.open_nursery() as nursery:
        lines = Minutes(running.watched, running.calls)
        print(
            _ROW.format("", "RSS", "lowest", "descriptors", "calls", "median", "worst", "refused", "failed", "attacks")
        )
        await trio.sleep(_QUIET)
        lines.print("start")
        nursery.start_soon(lines.run)
        chance = random.Random(seed)
        soaking = Soak(attacks=attacks, chance=chance, running=running, lines=lines, progress=progress)
        seconds = minutes * _MINUTE
        await soaking.attack_until(trio.current_time() + seconds / 3)
        first, first_latency = await soaking.rest()
        ends = trio.current_time() + seconds * 2 / 3
        while await soaking.attack_until(ends):
            pass
        last, last_latency = await soaking.rest()
        progress.clear()
        lines.print("end")
        stopped = running.obituary() or soaking.stopped
        nursery.cancel_scope.cancel()
    soaked = SoakResult(
        first=first,
        last=last,
        first_latency=first_latency,
        last_latency=last_latency,
        failed=sum(each.failed - each.refused for each in lines.latencies),
        stopped=stopped,
    )
    return _conclude(soaked, max((each.worst for each in lines.latencies if each.calls), default=math.nan))


def _conclude(soaked: SoakResult, worst: float) -> int:
    """Print the result. Return the exit status."""
    first, last = soaked.first, soaked.last
    print(
        f"\nat rest: {first.rss_mib:.0f} MiB and {first.descriptors} descriptors the first time,"
        f" {last.rss_mib:.0f} MiB and {last.descriptors} in the end"
    )
    print(
        f"median latency at rest: {soaked.first_latency.median:.4f} s the first time,"
        f" {soaked.last_latency.median:.4f} s in the end; the worst of all was {worst:.2f} s"
    )
    found = growth(soaked)
    for problem in found:
        print(f"problem: {problem}")
    print("FAIL" if found else "PASS", flush=True)
    return 1 if found else 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    lead, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(
        description=lead, epilog=textwrap.dedent(rest), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--minutes",
        type=float,
        default=30.0,
        metavar="M",
        help="minutes of attacks (%(default)g), besides three of rest",
    )
    made.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="attacks of scripts/bench/attack_server.py, as there"
    )
    made.add_argument("--seed", type=int, default=None, help="repeats the order of an earlier run")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status."""
    made = parser()
    given = made.parse_args(arguments)
    if not given.minutes > 0:
        made.error(f"--minutes must be more than 0, not {given.minutes:g}")
    try:
        attacks = fit_for_soak(given.only)
    except ValueError as unknown:
        made.error(str(unknown))
    if not Path("/proc/self/status").exists():
        made.error("needs Linux: memory and descriptors of the server are read from /proc")
    seed: int = random.SystemRandom().randrange(2**32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    raise_descriptor_limit()
    return trio.run(until_stopped, lambda: soak(attacks, given.minutes, seed))


if __name__ == "__main__":
    sys.exit(main())
