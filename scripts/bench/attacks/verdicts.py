"""The allowed cost of an attack, and the check of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.attacks.measure import Latency, Usage

__all__ = ["GOALS", "AttackResult", "Goals", "SoakResult", "growth", "keeps_too_much", "may_be_scattered", "problems"]

_LATENCY_GROWTH: Final = 2.0
_LATENCY_NOISE: Final = 0.01
"""Seconds that other programs on the machine may add to a median."""


@attrs.frozen(kw_only=True)
class Goals:
    """The allowed cost of each attack."""

    rise_mib: float = 256.0
    """MiB of resident memory above the idle server, at any moment."""
    answer_seconds: float = 1.0
    """Seconds within which each call of a well-behaved client is answered."""
    kept_mib: float = 32.0
    """MiB above the idle server that may be referred to when the attack has ended and the time to settle has passed.
    Measured after a garbage collection and `malloc_trim`: without them the C library keeps free memory for the next
    allocations, in an amount that depends on where in its heap the last live objects lie."""
    kept_again_mib: float = 16.0
    """MiB that a second run of an attack on the same server may add, if more was kept after the first: Python keeps arenas
    of 1 MiB in which one object lives on. The second run uses these again, while a leak grows."""
    scattered_mib: float = 96.0
    """MiB that may be kept if a second run adds next to nothing. More than that is kept on purpose, up to some bound."""
    descriptors: int = 16
    """Descriptors above the idle server that may be left: connections of the well-behaved clients come and go."""


GOALS: Final = Goals()


@attrs.frozen(kw_only=True)
class AttackResult:
    """The cost of an attack."""

    attack: str
    idle: Usage
    peak_mib: float
    peak_descriptors: int
    after: Usage
    """After the time to settle."""
    kept: Usage
    """Then, after a garbage collection and the return of free memory to the system."""
    kept_again: Usage | None = None
    """The same after a second run of the attack, if the first kept too much; otherwise `None`."""
    attack_seconds: float
    settle_seconds: float
    cpu_seconds: float
    """Processor time of the server during the attack."""
    latency_idle: Latency
    latency: Latency
    """The latency of calls that ran during the attack."""
    lag: float
    """The greatest delay of the clients' wakeups in seconds: the share of the machine in the worst latency."""
    sessions_lost: int
    statuses: Mapping[str, int]
    figures: Mapping[str, float]
    figures_below: float | None = None
    """The limit below which each figure must be."""
    stopped: str = ""
    """Why the attack was aborted, or the empty string."""
    kept_mib: float = 0.0
    """MiB that the server may keep after this attack."""


def keeps_too_much(idle: Usage, kept: Usage, kept_mib: float, goals: Goals = GOALS) -> bool:
    """Return whether a server keeps more after an attack than allowed, by the usage after the first run.

    Args:
        idle: The usage before the attack.
        kept: The usage after it.
        kept_mib: MiB that it may keep after this attack.
        goals: The allowed cost of each attack.
    """
    return kept.rss_mib - idle.rss_mib > goals.kept_mib + kept_mib


def may_be_scattered(idle: Usage, peak_mib: float, kept: Usage, kept_mib: float, goals: Goals = GOALS) -> bool:
    """Return whether only a second run shows if a server keeps too much: not if the attack has failed already.

    Args:
        idle: The usage before the attack.
        peak_mib: The greatest resident memory during the attack.
        kept: The usage after it.
        kept_mib: MiB that the server may keep after this attack.
        goals: The allowed cost of each attack.
    """
    over = kept.rss_mib - idle.rss_mib - kept_mib
    return peak_mib - idle.rss_mib <= goals.rise_mib and goals.kept_mib < over <= goals.scattered_mib


def problems(measured: AttackResult, goals: Goals = GOALS) -> tuple[str, ...]:
    """Return the goals that an attack missed."""
    idle, latency = measured.idle, measured.latency
    rise = measured.peak_mib - idle.rss_mib
    kept = measured.kept.rss_mib - idle.rss_mib
    added = None if measured.kept_again is None else measured.kept_again.rss_mib - measured.kept.rss_mib
    descriptors_left = measured.after.descriptors - idle.descriptors
    found: list[str] = []
    if measured.stopped:
        found.append(measured.stopped)
    if rise > goals.rise_mib:
        found.append(f"memory rose by {rise:.0f} MiB, more than {goals.rise_mib:.0f}")
    if keeps_too_much(idle, measured.kept, measured.kept_mib, goals) and (
        added is None or added > goals.kept_again_mib
    ):
        may_be_kept = goals.kept_mib + measured.kept_mib
        again = "" if added is None else f", and {added:.0f} MiB after a second run"
        found.append(
            f"{kept:.0f} MiB were kept after {measured.settle_seconds:.0f} s, more than {may_be_kept:.0f}{again}"
        )
    if descriptors_left > goals.descriptors:
        found.append(f"{descriptors_left} descriptors were left, more than {goals.descriptors}")
    if measured.figures_below is not None:
        found += [
            f"{name} was {figure:g}, not less than {measured.figures_below:g}"
            for name, figure in measured.figures.items()
            if figure >= measured.figures_below
        ]
    if not latency.calls:
        found.append("the well-behaved clients made no call")
    elif latency.worst > goals.answer_seconds:
        found.append(
            f"a well-behaved client ({latency.slowest}) waited {latency.worst:.1f} s, more than {goals.answer_seconds:g}"
        )
    if latency.failed:
        found.append(f"{latency.failed} of {latency.calls} well-behaved calls failed, the first: {latency.failure}")
    return tuple(found)


@attrs.frozen(kw_only=True)
class SoakResult:
    """The result of a soak."""

    first: Usage
    """The usage when the server came to rest for the first time: idle sessions and tasks had expired, garbage was collected,
    and free memory was returned to the system."""
    last: Usage
    """The same at the end."""
    first_latency: Latency
    """The latency when the server came to rest for the first time."""
    last_latency: Latency
    """The same at the end."""
    failed: int
    """Calls of well-behaved clients that failed for another reason than capacity."""
    stopped: str = ""
    """Why the soak was aborted, or the empty string."""


def growth(soaked: SoakResult, goals: Goals = GOALS) -> tuple[str, ...]:
    """Return what grew in a soak."""
    memory = soaked.last.rss_mib - soaked.first.rss_mib
    descriptors = soaked.last.descriptors - soaked.first.descriptors
    first, last = soaked.first_latency.median, soaked.last_latency.median
    found: list[str] = []
    if soaked.stopped:
        found.append(soaked.stopped)
    if memory > goals.kept_mib:
        found.append(f"memory grew by {memory:.0f} MiB, more than {goals.kept_mib:.0f}")
    if descriptors > goals.descriptors:
        found.append(f"descriptors grew by {descriptors}, more than {goals.descriptors}")
    if not soaked.last_latency.calls:
        found.append("the well-behaved clients made no call in the end")
    elif last > _LATENCY_GROWTH * first + _LATENCY_NOISE:
        found.append(f"the median latency grew from {first:.3f} to {last:.3f} s")
    if soaked.failed:
        found.append(f"{soaked.failed} calls of well-behaved clients failed")
    return tuple(found)
