"""The command that shows that the suite detects each fault, with the expected checks: `python -m mutants`.

Each broken peer is tested in one revision, and the checks that are meant for its fault must fail. With `--whole` it is
tested over each transport in which the fault is observable, with all checks, and no other check may fail. That takes
two hours; without `--whole` the command takes several minutes, and CI tries a sample.

With `--generated`, faults are not taken from the tables but generated from the official schemas: `mutants.generated`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import attrs
import trio

from mutants.auth.authorization_server import ISSUER_FAULTS, ISSUER_VARIANTS, try_issuer_fault
from mutants.auth.client_faults import CLIENT_FAULTS_AUTH, CLIENT_WITH_LOGIN, try_login_fault
from mutants.auth.protected_server_faults import PROTECTED_FAULTS, PROTECTED_SERVER, try_protected_fault
from mutants.client_faults.table import CLIENT_FAULTS
from mutants.client_faults.variants import CLIENT_VARIANTS
from mutants.generated.command import Selection, default_processes, run_generated
from mutants.runs.clients import CLIENT, try_client_fault
from mutants.runs.fork_server import fork_server
from mutants.runs.servers import SERVER, TRANSPORTS, try_fault
from mutants.server_faults.table import FAULTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence

    from mutants.runs.verdict import FaultResult

__all__ = ["main"]


class _Fault(Protocol):
    """The common attributes of the rows of all fault tables."""

    @property
    def name(self) -> str:
        """The name of the fault."""
        ...

    @property
    def caught_by(self) -> tuple[str, ...]:
        """The checks that must detect it."""
        ...


F_contra = TypeVar("F_contra", contravariant=True)
F = TypeVar("F", bound=_Fault)


class _Run(Protocol):
    """A function that tests the peer with one fault."""

    def __call__(self, *, own: bool) -> Awaitable[FaultResult]:
        """Test it; `own` limits the run to the checks that must detect the fault."""
        ...


class _Try(Protocol[F_contra]):
    """A function that tests a peer with a fault of one table."""

    def __call__(self, fault: F_contra, /, *, own: bool) -> Awaitable[FaultResult]:
        """Test it; `own` limits the run to the checks that must detect the fault."""
        ...


class _Attempts(Protocol):
    """The attempts of a table."""

    def __call__(self, *, whole: bool) -> Iterator[_Attempt]:
        """Yield them; `whole` selects each transport instead of one."""
        ...


@attrs.frozen(kw_only=True)
class _Attempt:
    """A fault in one leg."""

    fault: str
    """The name of the fault, or the empty string."""
    areas: frozenset[str]
    """The areas of the checks that must detect it."""
    run: _Run
    """The function that tests it."""


def _areas(caught_by: Sequence[str]) -> frozenset[str]:
    return frozenset(id.partition(".")[0] for id in caught_by)


def _servers(*, whole: bool) -> Iterator[_Attempt]:
    for transport in TRANSPORTS:
        yield _Attempt(fault="", areas=frozenset(), run=partial(try_fault, "", transport))
    for name, row in FAULTS.items():
        # Over HTTP, one process serves all connections.
        quickest = "http" if "http" in row.transports else row.transports[0]
        for transport in row.transports if whole else (quickest,):
            yield _Attempt(fault=name, areas=_areas(row.caught_by), run=partial(try_fault, name, transport))


def _table(faults: Sequence[F], run: _Try[F], *, whole: bool) -> Iterator[_Attempt]:  # noqa: ARG001  one place each
    for fault in faults:
        yield _Attempt(fault=fault.name, areas=_areas(fault.caught_by), run=partial(run, fault))


_TABLES: Final[Mapping[str, _Attempts]] = {
    "servers": _servers,
    "protected": partial(_table, PROTECTED_FAULTS, try_protected_fault),
    "issuers": partial(_table, (*ISSUER_FAULTS, *ISSUER_VARIANTS), try_issuer_fault),
    "clients": partial(_table, CLIENT_FAULTS, try_client_fault),
    "variants": partial(_table, CLIENT_VARIANTS, try_client_fault),
    "logins": partial(_table, CLIENT_FAULTS_AUTH, try_login_fault),
}
"""The fault tables: servers, protected servers, authorization servers, clients, correct clients, and clients with a login."""


async def _run_all(attempts: Sequence[_Attempt], jobs: int, *, own: bool) -> list[tuple[_Attempt, FaultResult]]:
    found: list[tuple[_Attempt, FaultResult]] = []
    limiter = trio.CapacityLimiter(jobs)

    async def one(attempt: _Attempt) -> None:
        async with limiter:
            result = await attempt.run(own=own)
        found.append((attempt, result))
        if result.killed:
            print(".", end="\n" if len(found) % 100 == 0 else "", file=sys.stderr, flush=True)
        else:
            print(file=sys.stderr, flush=True)
            print("\n".join(_unexpected(result)), flush=True)

    async with trio.open_nursery() as nursery:
        for attempt in attempts:
            nursery.start_soon(one, attempt)
    print(file=sys.stderr)
    return found


def _unexpected(result: FaultResult) -> Iterator[str]:
    """Yield a line for each check with an unexpected result."""
    where = f"{result.fault or 'no fault'} ({result.revision} over {result.transport})"
    for what, checks in (("not detected by", result.missed), ("also failed", result.collateral)):
        if checks:
            yield f"  SURVIVES  {where}  {what}: {', '.join(checks)}"


def _print_results(table: str, results: Sequence[tuple[_Attempt, FaultResult]]) -> int:
    """Print the results of a table and return the number of survivors."""
    by_area: dict[str, dict[str, bool]] = defaultdict(dict)
    for attempt, result in results:
        for area in attempt.areas or {"(no fault)"}:
            killed = by_area[area].get(attempt.fault, True)
            by_area[area][attempt.fault] = killed and result.killed
    names = {attempt.fault: True for attempt, _ in results if attempt.fault}
    for attempt, result in results:
        names[attempt.fault] = names.get(attempt.fault, True) and result.killed
    print(f"{table}: {sum(names.values())} / {len(names)}")
    detected = [result for _, result in results if result.failures]
    if detected:
        further = [sum(each.failures - 1 for each in detected), sum(each.findings - 1 for each in detected)]
        before, after = (number / len(detected) for number in further)
        print(f"  further failures per fault: {before:.2f}, of which {after:.2f} are findings")
    for area, faults in sorted(by_area.items()):
        print(f"  {area:20}{sum(faults.values()):>4} / {len(faults)}")
    return sum(not killed for killed in names.values())


def main() -> int:
    """Run the command and return the exit status: 0 when every fault was detected."""
    parser = argparse.ArgumentParser(prog="mutants", description="Show that the suite detects each fault.")
    parser.add_argument("table", nargs="*", metavar="TABLE", help=f"{', '.join(_TABLES)}; default: all")
    parser.add_argument("--fault", action="append", metavar="NAME", help="only this fault; may be repeated")
    parser.add_argument(
        "--area", action="append", metavar="NAME", help="only faults for checks of this area; may be repeated"
    )
    parser.add_argument("--whole", action="store_true", help="test over all transports, with all checks")
    parser.add_argument(
        "--jobs",
        type=int,
        default=6,
        metavar="N",
        help="number of concurrent runs (default: 6; most of their time is waiting)",
    )
    parser.add_argument("--sample", type=int, metavar="N", help="only so many of each table, drawn at random")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the seed of the draw (default: 1)")
    generated = parser.add_argument_group("generated faults")
    generated.add_argument("--generated", action="store_true", help="try generated faults instead of the tables")
    generated.add_argument(
        "--only", action="append", default=[], metavar="OPERATOR:TARGET", help="only these, or all that begin so"
    )
    generated.add_argument(
        "--leg", action="append", default=[], metavar="TEXT", help="only legs such as 'server 2025-11-25 stdio'"
    )
    generated.add_argument(
        "--at-least", type=float, default=100.0, metavar="PERCENT", help="fail below this score (default: 100)"
    )
    generated.add_argument(
        "--processes", type=int, default=default_processes(), metavar="N", help="the number of processes"
    )
    given = parser.parse_args()
    if given.generated:
        selection = Selection(
            only=tuple(given.only),
            legs=tuple(given.leg),
            sample=given.sample,
            seed=given.seed,
            at_least=given.at_least,
            whole=given.whole,
        )
        return run_generated(selection, processes=given.processes)
    unknown = sorted(set(given.table) - set(_TABLES))
    if unknown:
        parser.error(f"unknown table {unknown[0]!r}: {', '.join(_TABLES)}")
    survivors, tried = 0, 0
    with fork_server(CLIENT, CLIENT_WITH_LOGIN, PROTECTED_SERVER, SERVER):
        for table in given.table or _TABLES:
            attempts = [
                each
                for each in _TABLES[table](whole=given.whole)
                if (not given.fault or each.fault in given.fault) and (not given.area or each.areas & set(given.area))
            ]
            if given.sample is not None and given.sample < len(attempts):
                attempts = random.Random(given.seed).sample(attempts, given.sample)  # noqa: S311  a repeatable draw
            if not attempts:
                continue
            started = time.monotonic()
            results = trio.run(partial(_run_all, attempts, given.jobs, own=not given.whole))
            survivors += _print_results(table, results)
            tried += len(attempts)
            print(f"  {len(attempts)} runs in {time.monotonic() - started:.0f} s", flush=True)
    if not tried:
        parser.error("the options select no fault")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
