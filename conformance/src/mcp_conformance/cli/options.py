"""The options that all roles have: which checks run, and which of them count."""

from __future__ import annotations

import datetime
import shlex
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.catalogue.requirements import Level
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.scoring.baseline import Baseline, read_baseline
from mcp_conformance.scoring.known_sdks import known_sdk, sdk_names
from mcp_conformance.scoring.score import Rules, meets
from mcp_conformance.suite.checks import CHECKS
from mcp_conformance.suite.profile import load, names
from mcp_core.errors import InvalidValue
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from mcp_conformance.model.check import CheckInfo, Role
    from mcp_conformance.scoring.baseline import ExpectedFailure
    from mcp_core.revisions import Revision

__all__ = [
    "SDK_PREFIX",
    "Choice",
    "CommandLineError",
    "add_checks",
    "add_choices",
    "add_limits",
    "choice",
    "choice_words",
    "known_baseline",
    "near",
    "require_words",
    "selection",
]

_LEVELS: Final[Mapping[str, Level]] = {"must": Level.MUST, "should": Level.SHOULD}
_TIMEOUT: Final = 10.0
SDK_PREFIX: Final = "sdk:"
"""What precedes the name of an SDK as a baseline."""


class CommandLineError(Exception):
    """An invalid command line. The argument is the reason."""


@attrs.frozen(kw_only=True)
class Choice:
    """The choice of checks, with the rules and limits of the run."""

    revisions: tuple[Revision, ...]
    """The revisions to test."""
    checks: tuple[CheckInfo, ...]
    """The checks that run."""
    rules: Rules
    """The rules of the score."""
    settings: Settings
    """The limits."""

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the checks."""
        return frozenset(check.id for check in self.checks)


def add_choices(parser: argparse.ArgumentParser, role: Role, *, jobs: int = 2) -> None:
    """Add the options of a run that is scored.

    Args:
        parser: The parser.
        role: The side under test.
        jobs: The default of `--jobs`.
    """
    what = add_checks(parser)
    what.add_argument("--list", action="store_true", help="list the checks instead of running them")
    how = parser.add_argument_group("score and time limits")
    how.add_argument(
        "--strict",
        action="store_true",
        help="failures of checks below the level MUST, which are warnings, fail the run",
    )
    how.add_argument(
        "--profile",
        metavar="NAME",
        help=(
            "what is asked for: of a library everything (library, the default), of an author's program only what can "
            "be tested without fixtures (author). With a frozen set of checks (author@SET, library@SET), later checks "
            f"do not count; SET alone is library@SET; available: {', '.join(names())}"
        ),
    )
    how.add_argument(
        "--allow-untested",
        action="store_true",
        help="report checks that cannot test, for instance without a fixture, but let the run pass",
    )
    how.add_argument(
        "--baseline",
        action="append",
        default=[],
        metavar="FILE",
        help=(
            "expected failures (TOML), or those of an SDK: sdk:NAME@VERSION; may be repeated; available: "
            f"{', '.join(sdk_names(role))}"
        ),
    )
    how.add_argument(
        "--sdk",
        metavar="NAME@VERSION",
        help=f"the SDK of the {role.value}, whose failures are labeled; by default it is recognized by its failures",
    )
    how.add_argument("--write-baseline", type=Path, metavar="FILE", help="write the present failures as a new baseline")
    add_limits(how, jobs=jobs)


def add_checks(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options that choose checks, and return their group."""
    what = parser.add_argument_group("checks to run")
    what.add_argument(
        "--revision", action="append", choices=list(REVISIONS), help="only this revision; may be repeated"
    )
    what.add_argument("--area", action="append", metavar="NAME", help="only the checks of this area; may be repeated")
    what.add_argument("--check", action="append", metavar="ID", help="only this check; may be repeated")
    what.add_argument(
        "--level",
        choices=list(_LEVELS),
        help="run only checks of the level MUST (must), or also SHOULD (should); by default all",
    )
    return what


def add_limits(how: argparse._ArgumentGroup, *, jobs: int = 2) -> None:
    """Add the options of the limits of a run to a group.

    Args:
        how: The group.
        jobs: The default of `--jobs`.
    """
    how.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT,
        metavar="SECONDS",
        help="timeout of a response (default: %(default)g)",
    )
    how.add_argument(
        "--jobs",
        type=int,
        default=jobs,
        metavar="N",
        help="number of concurrent legs or scenarios (default: %(default)s); unless it is 1, one that hangs does not count",
    )


def choice(
    given: argparse.Namespace,
    role: Role,
    headers: Iterable[tuple[str, str]] = (),
    other_headers: Iterable[tuple[str, str]] = (),
) -> Choice:
    """Return the choice.

    Args:
        given: The options.
        role: The side under test.
        headers: HTTP headers for every request.
        other_headers: HTTP headers of another user.

    Raises:
        CommandLineError: An option is invalid.
    """
    revisions, checks, settings = selection(given, role)
    level = _level(given)
    try:
        profile = None if given.profile is None else load(given.profile)
        sdk = None if given.sdk is None else known_sdk(given.sdk, role)
    except InvalidValue as error:
        raise CommandLineError(str(error)) from error
    return Choice(
        revisions=revisions,
        checks=checks,
        rules=Rules(
            today=datetime.datetime.now(datetime.UTC).date(),
            level=level,
            profile=profile,
            baseline=known_baseline(given.baseline, role),
            sdk=sdk,
            strict=given.strict,
            allow_untested=given.allow_untested,
            demanded=frozenset(given.revision or ()),
            requested=frozenset(given.check or ()),
        ),
        settings=attrs.evolve(settings, headers=tuple(headers), other_headers=tuple(other_headers)),
    )


def selection(given: argparse.Namespace, role: Role) -> tuple[tuple[Revision, ...], tuple[CheckInfo, ...], Settings]:
    """Return the revisions, the checks and the limits that the options choose.

    Args:
        given: The options.
        role: The side under test.

    Raises:
        CommandLineError: An option is invalid.
    """
    if given.timeout <= 0 or given.jobs < 1:
        raise CommandLineError("--timeout and --jobs must be positive")
    all_ = list(CHECKS[role])
    _require("--area", given.area, {check.area for check in all_})
    _require("--check", given.check, {check.id for check in all_})
    revisions = tuple(REVISIONS[name] for name in given.revision or REVISIONS)
    level = _level(given)
    checks = tuple(
        check
        for check in all_
        if (not given.area or check.area in given.area)
        and (not given.check or check.id in given.check)
        and any(revision.name in check.revisions and meets(check.level(revision.name), level) for revision in revisions)
    )
    if not checks:
        raise CommandLineError("the options select no check")
    return revisions, checks, Settings(timeout=given.timeout, jobs=given.jobs)


def _level(given: argparse.Namespace) -> Level:
    return Level.MAY if given.level is None else _LEVELS[given.level]


def _require(option: str, chosen: Iterable[str] | None, known: Iterable[str]) -> None:
    for name in chosen or ():
        if name not in set(known):
            raise CommandLineError(f"{option}: there is no {name!r}{near(name, known)}")


def require_words(*lines: str | None) -> None:
    """Check before a run that command lines can be split into words.

    Raises:
        CommandLineError: A quotation is not closed, or there is no word.
    """
    for line in lines:
        if line is None:
            continue
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise CommandLineError(f"{line}: {error}") from error
        if not words:
            raise CommandLineError("a command line is empty")


def near(name: str, known: Iterable[str]) -> str:
    """Return similar names as the end of a message; empty when no name is similar."""
    found = get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def known_baseline(sources: Iterable[str], role: Role) -> Baseline:
    """Return the entries of some baselines. The first entry that matches a failure applies.

    Args:
        sources: Paths of files, or `sdk:NAME@VERSION`.
        role: The side under test.

    Raises:
        CommandLineError: A file does not exist, or is not a valid baseline; or there is no such SDK.
    """
    return Baseline(tuple(entry for source in sources for entry in _entries(source, role)))


def _entries(path: str, role: Role) -> tuple[ExpectedFailure, ...]:
    try:
        if path.startswith(SDK_PREFIX):
            return known_sdk(path.removeprefix(SDK_PREFIX), role).baseline.known
        baseline = read_baseline(Path(path))
    except (InvalidValue, OSError) as error:
        raise CommandLineError(f"{path}: {error}") from error
    ids = {check.id for checks in CHECKS.values() for check in checks}
    for entry in baseline.known:
        if entry.check not in ids:
            raise CommandLineError(f"{path}: there is no check {entry.check!r}{near(entry.check, ids)}")
    return baseline.known


def choice_words(given: argparse.Namespace) -> list[str]:
    """Return the options that affect every check, for the command line that repeats one."""
    return [] if given.timeout == _TIMEOUT else ["--timeout", f"{given.timeout:g}"]
