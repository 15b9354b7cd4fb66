"""Shows that the suite sees each fault, with the checks that are meant for it: `python -m mutants`.

Each broken peer is put to the test in one revision, and the checks that are meant for its fault have to fail. With `--whole`
it is tried over each transport in which the fault shows, and all checks judge: no other one may fail. That takes an hour,
and a few minutes without.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import attrs
import trio

from mutants.auth.authorization_server import ISSUER_FAULTS, try_issuer_fault
from mutants.auth.client_faults import CLIENT_FAULTS_AUTH, try_login_fault
from mutants.auth.protected_server_faults import PROTECTED_FAULTS, try_protected_fault
from mutants.client_faults.table import CLIENT_FAULTS
from mutants.runs.clients import try_client_fault
from mutants.runs.servers import TRANSPORTS, try_fault
from mutants.server_faults.table import FAULTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence

    from mutants.runs.verdict import Trial

__all__ = ["main"]


class _Fault(Protocol):
    """What the tables have in common."""

    @property
    def name(self) -> str:
        """The switch."""
        ...

    @property
    def caught_by(self) -> tuple[str, ...]:
        """The checks that are meant to see it."""
        ...


F_contra = TypeVar("F_contra", contravariant=True)
F = TypeVar("F", bound=_Fault)


class _Run(Protocol):
    """Tries one fault."""

    def __call__(self, *, own: bool) -> Awaitable[Trial]:
        """`own` says whether only the checks judge that are meant to see it."""
        ...


class _Try(Protocol[F_contra]):
    """Tries a fault of one table."""

    def __call__(self, fault: F_contra, /, *, own: bool) -> Awaitable[Trial]:
        """As `_Run`."""
        ...


class _Attempts(Protocol):
    """The attempts of a table."""

    def __call__(self, *, whole: bool) -> Iterator[_Attempt]:
        """`whole` says whether each fault is tried over each transport."""
        ...


@attrs.frozen(kw_only=True)
class _Attempt:
    """One fault, in one place."""

    fault: str
    """Its name; empty: there is none."""
    areas: frozenset[str]
    """The areas of the checks that are meant to see it."""
    run: _Run
    """Tries it."""


def _areas(caught_by: Sequence[str]) -> frozenset[str]:
    return frozenset(id.partition(".")[0] for id in caught_by)


def _servers(*, whole: bool) -> Iterator[_Attempt]:
    for transport in TRANSPORTS:
        yield _Attempt(fault="", areas=frozenset(), run=partial(try_fault, "", transport))
    for name, row in FAULTS.items():
        # Over HTTP no process is started for each connection.
        quickest = "http" if "http" in row.transports else row.transports[0]
        for transport in row.transports if whole else (quickest,):
            yield _Attempt(fault=name, areas=_areas(row.caught_by), run=partial(try_fault, name, transport))


def _table(faults: Sequence[F], run: _Try[F], *, whole: bool) -> Iterator[_Attempt]:  # noqa: ARG001  one place each
    for fault in faults:
        yield _Attempt(fault=fault.name, areas=_areas(fault.caught_by), run=partial(run, fault))


_TABLES: Final[Mapping[str, _Attempts]] = {
    "servers": _servers,
    "protected": partial(_table, PROTECTED_FAULTS, try_protected_fault),
    "issuers": partial(_table, ISSUER_FAULTS, try_issuer_fault),
    "clients": partial(_table, CLIENT_FAULTS, try_client_fault),
    "logins": partial(_table, CLIENT_FAULTS_AUTH, try_login_fault),
}
"""What is broken on purpose: servers, servers that want a token, authorization servers, clients, and clients that log in."""


async def _tried(attempts: Sequence[_Attempt], jobs: int, *, own: bool) -> list[tuple[_Attempt, Trial]]:
    found: list[tuple[_Attempt, Trial]] = []
    places = trio.CapacityLimiter(jobs)

    async def one(attempt: _Attempt) -> None:
        async with places:
            trial = await attempt.run(own=own)
        found.append((attempt, trial))
        if trial.killed:
            print(".", end="\n" if len(found) % 100 == 0 else "", file=sys.stderr, flush=True)
        else:
            print(file=sys.stderr, flush=True)
            print("\n".join(_survival(trial)), flush=True)

    async with trio.open_nursery() as nursery:
        for attempt in attempts:
            nursery.start_soon(one, attempt)
    print(file=sys.stderr)
    return found


def _survival(trial: Trial) -> Iterator[str]:
    """Says what was wrong, a line each."""
    where = f"{trial.fault or 'no fault'} ({trial.revision} over {trial.transport})"
    for what, checks in (("not seen by", trial.missed), ("seen by others", trial.collateral)):
        if checks:
            yield f"  SURVIVES  {where}  {what}: {', '.join(checks)}"


def _told(table: str, trials: Sequence[tuple[_Attempt, Trial]]) -> int:
    """Prints what came of a table. How many survived."""
    by_area: dict[str, dict[str, bool]] = defaultdict(dict)
    for attempt, trial in trials:
        for area in attempt.areas or {"(no fault)"}:
            killed = by_area[area].get(attempt.fault, True)
            by_area[area][attempt.fault] = killed and trial.killed
    names = {attempt.fault: True for attempt, _ in trials if attempt.fault}
    for attempt, trial in trials:
        names[attempt.fault] = names.get(attempt.fault, True) and trial.killed
    print(f"{table}: {sum(names.values())} / {len(names)}")
    for area, faults in sorted(by_area.items()):
        print(f"  {area:20}{sum(faults.values()):>4} / {len(faults)}")
    return sum(not killed for killed in names.values())


def main() -> int:
    """Returns the exit status: 0 when every fault was seen."""
    parser = argparse.ArgumentParser(prog="mutants", description="Shows that the suite sees each fault.")
    parser.add_argument("table", nargs="*", metavar="TABLE", help=f"{', '.join(_TABLES)}; all, if none is named")
    parser.add_argument("--fault", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--area", action="append", metavar="NAME", help="only what is meant for checks of this area")
    parser.add_argument("--whole", action="store_true", help="over all transports, and let all checks judge")
    parser.add_argument(
        "--jobs", type=int, default=6, metavar="N", help="how many are tried at a time (default: 6; they wait a lot)"
    )
    given = parser.parse_args()
    unknown = sorted(set(given.table) - set(_TABLES))
    if unknown:
        parser.error(f"there is no table {unknown[0]!r}: {', '.join(_TABLES)}")
    survivors, tried = 0, 0
    for table in given.table or _TABLES:
        attempts = [
            each
            for each in _TABLES[table](whole=given.whole)
            if (not given.fault or each.fault in given.fault) and (not given.area or each.areas & set(given.area))
        ]
        if not attempts:
            continue
        started = time.monotonic()
        trials = trio.run(partial(_tried, attempts, given.jobs, own=not given.whole))
        survivors += _told(table, trials)
        tried += len(attempts)
        print(f"  {len(attempts)} trials in {time.monotonic() - started:.0f} s", flush=True)
    if not tried:
        parser.error("no fault is left by these options")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
