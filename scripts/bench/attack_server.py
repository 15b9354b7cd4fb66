"""Attack a local HTTP server of this project, and measure the cost of each attack.

    python scripts/bench/attack_server.py                          all attacks, in about ten minutes
    python scripts/bench/attack_server.py --list                   their names
    python scripts/bench/attack_server.py --only initialize listen-long
    python scripts/bench/attack_server.py --host hypercorn --json > attacks.json

Each attack has its own server with default limits, which listens on a free port of 127.0.0.1. Hostile clients, in
another process and without credentials, attack it for a bounded time. Four well-behaved clients call an echo all the
time: a legacy session, a modern client, and two that connect for each call. The output is memory and descriptors of the
server before, during and after the attack, and the latency of the well-behaved clients.

An attack passes if memory rises by no more than 256 MiB, each call of a well-behaved client is answered within a second,
and memory (within 32 MiB) and descriptors are back some seconds after the connections of the attackers were closed. The
column "after" is resident memory at that time. "kept", which decides, is resident memory after a garbage collection and
malloc_trim: the difference is free, but the C library keeps it for the next allocations. Python also keeps arenas that
contain a single object. So an attack that keeps more, but 96 MiB at most and with a peak within the goal, runs a second
time on the same server, and passes if that adds 16 MiB at most. Some attacks may leave what a limit permits a server to
keep; the list says what.

The exit status is 0 if all attacks passed, 1 if one did not, 2 if an attack could not be run. Needs Linux, for /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.attacks.attacks import ATTACKS
from bench.attacks.processes import ChildFailed
from bench.attacks.progress import Progress
from bench.attacks.trial import Certificate, Setting, chosen, raise_descriptor_limit, try_attack, until_stopped
from bench.attacks.verdicts import problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.attacks.catalogue import Attack
    from bench.attacks.verdicts import AttackResult

_ROW: Final = "{:<20} {:>5} {:>6} {:>6} {:>6}  {:>16}  {:>7} {:>7} {:>6}  {}"
_TITLES: Final = ("attack", "idle", "peak", "after", "kept", "descriptors", "median", "worst", "cpu", "verdict")
_UNITS: Final = ("", "MiB", "MiB", "MiB", "MiB", "idle/peak/after", "s", "s", "s", "")


def row(measured: AttackResult) -> str:
    """Return the line of an attack in the table."""
    idle, after, latency = measured.idle, measured.after, measured.latency
    return _ROW.format(
        measured.attack,
        f"{idle.rss_mib:.0f}",
        f"{measured.peak_mib:.0f}",
        f"{after.rss_mib:.0f}",
        f"{measured.kept.rss_mib:.0f}",
        f"{idle.descriptors}/{measured.peak_descriptors}/{after.descriptors}",
        f"{latency.median:.3f}",
        f"{latency.worst:.2f}",
        f"{measured.cpu_seconds:.1f}",
        "FAIL" if problems(measured) else "PASS",
    )


def details(measured: AttackResult) -> list[str]:
    """Return the details without a column in the table."""
    lines = [f"problem: {problem}" for problem in problems(measured)]
    statuses = ", ".join(f"{times} x {status}" for status, times in sorted(measured.statuses.items()))
    lines.append(f"the attackers got: {statuses or 'nothing'}")
    if measured.figures:
        lines.append(", ".join(f"{name}: {figure:g}" for name, figure in measured.figures.items()))
    if measured.kept_again is not None:
        lines.append(f"kept after a second run on the same server: {measured.kept_again.rss_mib:.0f} MiB")
    if measured.sessions_lost:
        lines.append(f"the well-behaved clients lost {measured.sessions_lost} sessions, and opened new ones")
    if measured.lag > 0.25:
        lines.append(f"this machine was busy: the well-behaved clients woke up {measured.lag:.1f} s late at worst")
    return [f"    {line}" for line in lines]


def as_json(measured: AttackResult) -> dict[str, object]:
    """Return the figures of an attack as a JSON object."""
    found = problems(measured)
    whole: dict[str, object] = attrs.asdict(measured)
    return _without_nan({**whole, "verdict": "FAIL" if found else "PASS", "problems": list(found)})


def _without_nan(value: dict[str, object]) -> dict[str, object]:
    return {
        name: _without_nan(each) if isinstance(each, dict) else None if each != each else each  # noqa: PLR0124  # NaN
        for name, each in value.items()
    }


def listing() -> str:
    """Return the text of `--list`."""
    lines: list[str] = []
    for each in ATTACKS.values():
        named = "; only with --only" if each.only_by_name else ""
        lines.append(f"{each.name:<20} {each.summary} (at most {each.seconds:.0f} s{named})")
        if each.kept_mib:
            lines.append(f"{'':<20} may leave {each.kept_mib:.0f} MiB: {each.kept_why}")
    usual = chosen([])
    total = sum(each.seconds + (4.0 if each.settle is None else each.settle) + 3.0 for each in usual)
    return "\n".join([*lines, "", f"{len(usual)} attacks without --only, {math.ceil(total / 60)} minutes at most"])


async def run(attacks: Sequence[Attack], setting: Setting, *, as_json_document: bool) -> int:
    """Run attacks one after the other, and print the table or the JSON document. Return the exit status."""
    progress = Progress()
    out = sys.stderr if as_json_document else sys.stdout
    done: list[AttackResult] = []
    failed = False
    print(_ROW.format(*_TITLES), _ROW.format(*_UNITS), sep="\n", file=out, flush=True)
    try:
        for number, attack in enumerate(attacks, 1):
            try:
                measured = await try_attack(
                    attack, setting, progress.after(f"{number} of {len(attacks)}: {attack.name}: ")
                )
            except ChildFailed as failure:
                progress.clear()
                print(f"{attack.name}: {failure}", file=out, flush=True)
                failed = True
                continue
            progress.clear()
            print(row(measured), *details(measured), sep="\n", file=out, flush=True)
            done.append(measured)
    finally:
        # Also after a signal: the measurements so far are printed.
        progress.clear()
        bad = [each.attack for each in done if problems(each)]
        print(f"\n{len(done) - len(bad)} of {len(attacks)} attacks passed", file=out)
        if as_json_document:
            print(json.dumps([as_json(each) for each in done], indent=2))
    return 2 if failed else 1 if bad else 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    lead, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(
        description=lead, epilog=textwrap.dedent(rest), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="run these attacks; a name may have * in it"
    )
    made.add_argument("--list", action="store_true", help="print the attacks and exit")
    made.add_argument("--json", action="store_true", help="print a JSON document; the table goes to standard error")
    made.add_argument(
        "--host", choices=("embedded", "hypercorn"), default="embedded", help="the HTTP host (%(default)s)"
    )
    made.add_argument("--tls", action="store_true", help="over HTTPS (needs trustme)")
    made.add_argument("--idle", type=float, default=1.0, metavar="S", help="seconds before an attack (%(default)g)")
    made.add_argument("--settle", type=float, default=4.0, metavar="S", help="seconds after an attack (%(default)g)")
    made.add_argument(
        "--stop-mib", type=float, default=3_072.0, metavar="MIB", help="abort at this memory (%(default)g)"
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status."""
    made = parser()
    given = made.parse_args(arguments)
    if given.list:
        print(listing())
        return 0
    try:
        attacks = chosen(given.only)
    except ValueError as unknown:
        made.error(str(unknown))
    if not Path("/proc/self/status").exists():
        made.error("needs Linux: memory and descriptors of the server are read from /proc")
    raise_descriptor_limit()
    with contextlib.ExitStack() as stack:
        certificate = None
        if given.tls:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            certificate = Certificate.make(Path(folder))
        setting = Setting(
            host=given.host,
            certificate=certificate,
            idle_seconds=given.idle,
            settle_seconds=given.settle,
            stop_mib=given.stop_mib,
        )
        return trio.run(until_stopped, lambda: run(attacks, setting, as_json_document=given.json))


if __name__ == "__main__":
    sys.exit(main())
