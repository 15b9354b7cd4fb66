"""The run of generated faults in several processes, and their score."""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import trio

from mutants.generated import client_process
from mutants.generated.fault import GeneratedFault, Target
from mutants.generated.operators import OPERATORS, generate
from mutants.generated.recording import CLIENT_LEGS, SERVER_LEGS, record_client, record_server
from mutants.generated.schemas import schema_folder
from mutants.generated.trial import Score, TrialResult, try_generated
from mutants.runs.fork_server import fork_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from mutants.generated.fault import Leg, Recording

__all__ = ["Selection", "default_processes", "report", "run_generated"]

_Item = TypeVar("_Item")

_BATCH: Final = 96
"""The number of faults in one order to a process."""
_EXPLAINED: Final = 20
"""The number of faults up to which each result is shown, not only those that are wrong."""
_AT_A_TIME: Final = 12
"""The number of faults that a process tries concurrently; most of their time is waiting."""
_RECORDED_AT_A_TIME: Final = 4
"""The number of legs that a process records concurrently: all checks of each run."""


@attrs.frozen(kw_only=True)
class Selection:
    """The faults to try."""

    only: tuple[str, ...] = ()
    """Beginnings of their names, `OPERATOR:TARGET`; empty: all."""
    legs: tuple[str, ...] = ()
    """Parts of the names of legs, such as `2025-11-25 stdio`; empty: all."""
    sample: int | None = None
    """How many of them are drawn; `None`: all."""
    seed: int = 1
    """The seed of the draw."""
    at_least: float = 100.0
    """The percentage of visible faults that the suite must name."""
    whole: bool = False
    """Whether every check that sees the target runs, also after one has failed."""

    def of(self, recordings: Sequence[Recording]) -> list[GeneratedFault]:
        """Return the selected faults of recordings."""
        ordered = sorted(recordings, key=lambda each: str(each.leg))
        found = [
            each
            for recording in ordered
            for each in generate(recording)
            if not self.only or any(each.name.startswith(name) for name in self.only)
        ]
        if self.sample is None or self.sample >= len(found):
            return found
        return random.Random(self.seed).sample(found, self.sample)  # noqa: S311  a draw that can be repeated


def _recorded(legs: Sequence[Leg]) -> list[Recording]:
    """Record legs, in a process."""
    found: list[Recording] = []
    limiter = trio.CapacityLimiter(_RECORDED_AT_A_TIME)

    async def one(leg: Leg) -> None:
        record = record_server if leg.role == "server" else record_client
        async with limiter:
            recording = await record(leg)
            # On a machine under load a check may fail because it had to wait: only a failure that is repeated is false.
            found.append(await record(leg) if recording.failed else recording)

    _run_all(one, legs)
    return found


def _run_all(one: Callable[[_Item], Awaitable[None]], items: Iterable[_Item]) -> None:
    """Run a function for each item, all at once."""

    async def all_of_them() -> None:
        async with trio.open_nursery() as nursery:
            for item in items:
                nursery.start_soon(one, item)

    trio.run(all_of_them)


def _tried(names: Sequence[tuple[str, Target]], recording: Recording, *, whole: bool) -> list[TrialResult]:
    """Try faults of one leg, in a process."""
    faults = [GeneratedFault(operator=OPERATORS[name], target=target, leg=recording.leg) for name, target in names]
    found: list[TrialResult] = []
    limiter = trio.CapacityLimiter(_AT_A_TIME)

    async def one(fault: GeneratedFault) -> None:
        async with limiter:
            result = await try_generated(fault, recording, whole=whole)
            if result.score is Score.FALSE:
                # On a machine under load a check may fail because it had to wait: only a failure that is repeated is false.
                result = await try_generated(fault, recording, whole=whole)
            found.append(result)

    _run_all(one, faults)
    return found


def _batches(faults: Sequence[GeneratedFault]) -> Iterator[tuple[Leg, list[tuple[str, Target]]]]:
    by_leg: dict[Leg, list[tuple[str, Target]]] = defaultdict(list)
    for fault in faults:
        by_leg[fault.leg].append((fault.operator.name, fault.target))
    for leg, names in by_leg.items():
        for start in range(0, len(names), _BATCH):
            yield leg, names[start : start + _BATCH]


def run_generated(selection: Selection, *, processes: int) -> int:
    """Try generated faults, print the score, and return the exit status.

    It is 0 if enough visible faults were named, and no check failed for a fault that the specification permits, or
    without a fault.

    Args:
        selection: The faults.
        processes: The number of processes.
    """
    if schema_folder() is None:
        print("generated faults need the official schemas: set MCP_SCHEMA_DIR to their folder", file=sys.stderr)
        return 2
    started = time.monotonic()
    legs = [
        each
        for each in (*SERVER_LEGS, *CLIENT_LEGS)
        if not selection.legs or any(part in str(each) for part in selection.legs)
    ]
    results: list[TrialResult] = []
    with fork_server(client_process.__name__), ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        parts = [legs[number::processes] for number in range(processes)]
        recordings = {each.leg: each for part in pool.map(_recorded, parts) for each in part}
        faults = selection.of(list(recordings.values()))
        wrong = [f"  without a fault  {leg}  {check}" for leg, each in recordings.items() for check in each.failed]
        for line in wrong:
            print(line, file=sys.stderr, flush=True)
        print(f"{len(faults)} faults; recorded in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        running = [
            pool.submit(partial(_tried, names, recordings[leg], whole=selection.whole))
            for leg, names in _batches(faults)
        ]
        for number, batch in enumerate(as_completed(running), 1):
            found = batch.result()
            results += found
            for each in sorted(found, key=lambda each: each.fault):
                if _is_wrong(each):
                    print(_explanation(each), file=sys.stderr, flush=True)
            print(f"{number} / {len(running)} batches", file=sys.stderr, flush=True)
    print("\n".join([*report(results), *wrong]))
    print(f"{len(results)} faults in {time.monotonic() - started:.0f} s")
    counts = Counter(each.score for each in results)
    return 1 if wrong or counts[Score.FALSE] or _percent(counts) < selection.at_least else 0


def _explanation(result: TrialResult) -> str:
    """Return the line on a result: the arguments that repeat it, and the checks."""
    checks = " ".join(result.checks)[:200]
    return f"  {result.score.value:10}{result.leg}  --only {result.fault!r}  {checks}".rstrip()


def _is_wrong(result: TrialResult) -> bool:
    """Return whether a result needs a look: a survivor, a false failure, or a failure of an unrelated check."""
    return not (result.score.is_right or result.score is Score.UNREACHED)


def report(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield the lines of the score by each property of the faults, and those of the results that need a look."""
    groups: tuple[tuple[str, Callable[[TrialResult], str]], ...] = (
        ("operator", lambda each: each.operator),
        ("area", lambda each: each.area),
        ("revision", lambda each: each.leg.revision),
        ("transport", lambda each: each.leg.transport),
        ("role", lambda each: each.leg.role),
        ("role and transport", lambda each: f"{each.leg.role} {each.leg.transport}"),
    )
    width = max((len(each.operator) for each in results), default=0)
    for title, of in groups:
        yield f"by {title}:"
        found: dict[str, Counter[Score]] = defaultdict(Counter)
        for each in results:
            found[of(each)][each.score] += 1
        for name, counts in sorted(found.items()):
            yield f"  {name:{width}}  {_line(counts)}"
    listed = [each for each in results if len(results) <= _EXPLAINED or _is_wrong(each)]
    if listed:
        yield "these need a look:"
    yield from map(_explanation, sorted(listed, key=lambda each: (each.score.value, each.fault, str(each.leg))))
    yield f"all{'':{width}} {_line(Counter(each.score for each in results))}"


def _percent(counts: Counter[Score]) -> float:
    """Return the percentage of the visible faults that were named; 100 if no fault is visible."""
    visible = sum(count for score, count in counts.items() if score.is_visible)
    return 100 * (counts[Score.NAMED] + counts[Score.REFUSED]) / visible if visible else 100.0


def _line(counts: Counter[Score]) -> str:
    named = counts[Score.NAMED] + counts[Score.REFUSED]
    visible = sum(count for score, count in counts.items() if score.is_visible)
    percent = f"{_percent(counts):5.1f} %" if visible else "      -"
    rest = "".join(
        f", {counts[score]} {score.value}"
        for score in (Score.REFUSED, Score.UNRELATED, Score.INVISIBLE, Score.FALSE, Score.UNREACHED)
        if counts[score]
    )
    return f"{named:>5} / {visible:<5}{percent}{rest}"


def default_processes() -> int:
    """Return the number of processes: one for each core, at most four."""
    return min(os.cpu_count() or 1, 4)
