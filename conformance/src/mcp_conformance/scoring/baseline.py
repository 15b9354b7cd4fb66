"""The baseline: expected failures with a reason and an expiry, so that CI passes until something gets worse.

    [[known]]
    check = "tools.unknown-name"
    reason = "returns isError; see the tracker, 123"
    expires = 2027-01-31      # optional: from that day on it counts as a failure again
    revision = "2025-06-18"   # optional: all revisions by default
    transport = "http"        # optional: all transports by default
    flaky = true              # optional: it may also pass

An entry that passes and is not flaky is stale, and stale entries fail: a baseline can only shrink automatically.
"""

from __future__ import annotations

import datetime
import tomllib
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.verdict import Outcome
from mcp_core.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mcp_conformance.model.verdict import Verdict

__all__ = [
    "Baseline",
    "BaselineComparison",
    "ExpectedFailure",
    "baseline_lines",
    "judge",
    "new_entries",
    "parse_baseline",
    "read_baseline",
    "written",
]

_FAILING: Final = frozenset({Outcome.FAILED, Outcome.NOT_TESTABLE})
"""The outcomes that a baseline can excuse. An error of the suite is never an expected failure."""

_LONGEST: Final = 300
"""Maximum length of a reason that the suite writes, in characters."""

_MEMBERS: Final = frozenset({"check", "reason", "expires", "revision", "transport", "flaky"})


@attrs.frozen(kw_only=True)
class ExpectedFailure:
    """An expected failure."""

    check: str
    """Id of the check."""
    reason: str
    """Reason why the failure is expected."""
    expires: datetime.date | None = None
    """First day on which the entry is invalid."""
    revision: str | None = None
    """Revision; `None`: all."""
    transport: str | None = None
    """Transport; `None`: all."""
    flaky: bool = False
    """Whether the check may also pass."""

    def covers(self, verdict: Verdict) -> bool:
        """Return whether the entry matches a verdict."""
        return (
            self.check == verdict.check
            and self.revision in (None, verdict.revision)
            and self.transport in (None, verdict.transport)
        )

    def over(self, today: datetime.date) -> bool:
        """Return whether the entry is expired."""
        return self.expires is not None and today >= self.expires

    def __str__(self) -> str:
        return " ".join([self.check, *(each for each in (self.revision, self.transport) if each is not None)])


@attrs.frozen
class Baseline:
    """All entries of a baseline."""

    known: tuple[ExpectedFailure, ...] = ()

    def find(self, verdict: Verdict, today: datetime.date) -> ExpectedFailure | None:
        """Return the entry that excuses a verdict; `None` when no entry matches."""
        if verdict.outcome not in _FAILING:
            return None
        return next((entry for entry in self.known if entry.covers(verdict) and not entry.over(today)), None)


@attrs.frozen(kw_only=True)
class BaselineComparison:
    """The comparison of a run with a baseline."""

    new: tuple[Verdict, ...]
    """Unexpected failures."""
    known: tuple[Verdict, ...]
    """Expected failures."""
    stale: tuple[ExpectedFailure, ...]
    """Entries without a failure."""
    expired: tuple[ExpectedFailure, ...]
    """Expired entries with a failure."""

    @property
    def good(self) -> bool:
        """Whether there are no unexpected failures and no stale entries."""
        return not self.new and not self.stale


def judge(verdicts: Iterable[Verdict], baseline: Baseline, today: datetime.date) -> BaselineComparison:
    """Compare verdicts with a baseline.

    Args:
        verdicts: The verdicts of a run that count.
        baseline: The expected failures.
        today: The date.
    """
    all_ = tuple(verdicts)
    failed = [verdict for verdict in all_ if verdict.outcome in _FAILING]
    return BaselineComparison(
        new=tuple(verdict for verdict in failed if baseline.find(verdict, today) is None),
        known=tuple(verdict for verdict in failed if baseline.find(verdict, today) is not None),
        stale=tuple(entry for entry in baseline.known if not entry.over(today) and _is_stale(entry, all_)),
        expired=tuple(
            entry for entry in baseline.known if entry.over(today) and any(entry.covers(verdict) for verdict in failed)
        ),
    )


def _is_stale(entry: ExpectedFailure, verdicts: Iterable[Verdict]) -> bool:
    """Return whether the check of an entry ran and did not fail anywhere."""
    matching = [verdict for verdict in verdicts if entry.covers(verdict)]
    return bool(matching) and not entry.flaky and not any(verdict.outcome in _FAILING for verdict in matching)


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        InvalidValue: The file is not a valid baseline; the message names the place.
        OSError: The file cannot be read.
    """
    try:
        document: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"is not TOML: {error}", path=str(path)) from error
    return parse_baseline(document, str(path))


def parse_baseline(document: Mapping[str, object], path: str) -> Baseline:
    """Return the baseline in a TOML document.

    Args:
        document: The document.
        path: The name of its file, for messages.

    Raises:
        InvalidValue: The document is not a valid baseline; the message names the place.
    """
    entries = document.get("known", [])
    if not isinstance(entries, list) or set(document) - {"known"}:
        raise InvalidValue("contains something other than [[known]]", path=path)
    return Baseline(tuple(_entry(entry, f"known[{number}]") for number, entry in enumerate(entries)))


def _entry(entry: object, place: str) -> ExpectedFailure:
    if not isinstance(entry, dict):
        raise InvalidValue("is not a table", path=place)
    unknown = sorted(set(entry) - _MEMBERS)
    if unknown:
        raise InvalidValue(f"is not one of {', '.join(sorted(_MEMBERS))}", path=f"{place}.{unknown[0]}")
    for name, kind in (("check", str), ("reason", str)):
        if not isinstance(entry.get(name), kind) or not entry[name]:
            raise InvalidValue("missing, or not a string", path=f"{place}.{name}")
    for name, kinds in (("revision", str), ("transport", str), ("flaky", bool), ("expires", datetime.date)):
        if name in entry and not isinstance(entry[name], kinds):
            raise InvalidValue(f"is not of type {kinds.__name__}", path=f"{place}.{name}")
    expires = entry.get("expires")
    return ExpectedFailure(
        check=str(entry["check"]),
        reason=str(entry["reason"]),
        expires=expires.date() if isinstance(expires, datetime.datetime) else expires,
        revision=entry.get("revision"),
        transport=entry.get("transport"),
        flaky=bool(entry.get("flaky", False)),
    )


def written(verdicts: Iterable[Verdict], old: Baseline, fails: Callable[[Verdict], bool] = lambda _: True) -> str:
    """Return a baseline that excuses the failures of a run.

    Entries of the old baseline remain unchanged unless they are stale. A check that failed in all legs gets one entry;
    a check that failed only in some legs gets one entry for each.

    Args:
        verdicts: The verdicts of a run that count.
        old: The earlier baseline.
        fails: Returns whether a failure needs an entry.
    """
    all_ = tuple(verdicts)
    kept = [entry for entry in old.known if not _is_stale(entry, all_)]
    return "\n".join(baseline_lines([*kept, *new_entries([each for each in all_ if fails(each)], kept)])) + "\n"


def new_entries(verdicts: Sequence[Verdict], kept: Sequence[ExpectedFailure]) -> Iterator[ExpectedFailure]:
    """Yield entries for unexpected failures.

    Args:
        verdicts: The verdicts of a run.
        kept: The entries that exist.
    """
    ran: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        ran.setdefault(verdict.check, []).append(verdict)
    for check, matching in ran.items():
        failed = [verdict for verdict in matching if verdict.outcome in _FAILING]
        if len(failed) == len(matching) and not any(entry.covers(verdict) for entry in kept for verdict in failed):
            yield ExpectedFailure(check=check, reason=_reason(failed[0]))
            continue
        for verdict in failed:
            if not any(entry.covers(verdict) for entry in kept):
                yield ExpectedFailure(
                    check=check, reason=_reason(verdict), revision=verdict.revision, transport=verdict.transport
                )


def _reason(verdict: Verdict) -> str:
    reason = verdict.reason or f"expected {verdict.expected}; observed {verdict.observed}"
    return reason[:_LONGEST]


def baseline_lines(entries: Iterable[ExpectedFailure]) -> Iterator[str]:
    """Yield the lines of a baseline."""
    yield "# Expected failures. Remove entries that pass."
    for entry in entries:
        yield ""
        yield "[[known]]"
        for name in ("check", "reason", "revision", "transport"):
            value = getattr(entry, name)
            if value is not None:
                yield f"{name} = {_text(value)}"
        if entry.expires is not None:
            yield f"expires = {entry.expires.isoformat()}"
        if entry.flaky:
            yield "flaky = true"


def _text(value: str) -> str:
    """Return a TOML basic string."""
    escaped = "".join(
        f"\\{each}"
        if each in '"\\'
        else each
        if each.isprintable()
        else f"\\u{ord(each):04x}"
        if ord(each) < 65536
        else f"\\U{ord(each):08x}"
        for each in value
    )
    return f'"{escaped}"'
