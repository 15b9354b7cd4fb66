"""What is known to fail, with a reason and an end: so that CI is green until something gets worse, and red when it does.

    [[known]]
    check = "tools.unknown-name"
    reason = "answers by isError; see the tracker, 123"
    expires = 2027-01-31      # optional: from that day on it counts as a failure again
    revision = "2025-06-18"   # optional: everywhere without it
    transport = "http"        # optional: likewise
    flaky = true              # optional: it may pass too

An entry that passes and is not flaky is stale, and stale entries fail: a baseline can only shrink by itself.
"""

from __future__ import annotations

import datetime
import tomllib
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.verdict import Outcome
from mcp_core.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from mcp_conformance.model.verdict import Verdict

__all__ = ["Baseline", "Judgement", "Known", "judge", "read_baseline", "written"]

_RED: Final = frozenset({Outcome.FAILED, Outcome.NOT_TESTABLE})
"""What a baseline can excuse. That the suite itself went wrong is nobody's known failure."""

_LONGEST: Final = 300
"""Characters of a reason that the suite writes."""

_MEMBERS: Final = frozenset({"check", "reason", "expires", "revision", "transport", "flaky"})


@attrs.frozen(kw_only=True)
class Known:
    """One entry."""

    check: str
    """The check's id."""
    reason: str
    """Why it is borne with."""
    expires: datetime.date | None = None
    """From when on it is not."""
    revision: str | None = None
    """Where; `None`: in every revision."""
    transport: str | None = None
    """Over what; `None`: over every transport."""
    flaky: bool = False
    """Whether it passes sometimes."""

    def covers(self, verdict: Verdict) -> bool:
        """Whether a verdict is what the entry is about."""
        return (
            self.check == verdict.check
            and self.revision in (None, verdict.revision)
            and self.transport in (None, verdict.transport)
        )

    def over(self, today: datetime.date) -> bool:
        """Whether its time has passed."""
        return self.expires is not None and today >= self.expires

    def __str__(self) -> str:
        return " ".join([self.check, *(each for each in (self.revision, self.transport) if each is not None)])


@attrs.frozen
class Baseline:
    """All entries."""

    known: tuple[Known, ...] = ()

    def find(self, verdict: Verdict, today: datetime.date) -> Known | None:
        """The entry that bears with a verdict; `None` when none does."""
        if verdict.outcome not in _RED:
            return None
        return next((entry for entry in self.known if entry.covers(verdict) and not entry.over(today)), None)


@attrs.frozen(kw_only=True)
class Judgement:
    """A run, held against a baseline."""

    new: tuple[Verdict, ...]
    """What is red, and nobody knew."""
    known: tuple[Verdict, ...]
    """What is red, and known to be."""
    stale: tuple[Known, ...]
    """Entries that nothing is red for any more."""
    expired: tuple[Known, ...]
    """Entries whose time has passed, and for which something is red."""

    @property
    def good(self) -> bool:
        """Whether nothing is worse than known."""
        return not self.new and not self.stale


def judge(verdicts: Iterable[Verdict], baseline: Baseline, today: datetime.date) -> Judgement:
    """Holds verdicts against a baseline.

    Args:
        verdicts: Those of a run that count.
        baseline: What is known.
        today: The date.
    """
    all_ = tuple(verdicts)
    red = [verdict for verdict in all_ if verdict.outcome in _RED]
    return Judgement(
        new=tuple(verdict for verdict in red if baseline.find(verdict, today) is None),
        known=tuple(verdict for verdict in red if baseline.find(verdict, today) is not None),
        stale=tuple(entry for entry in baseline.known if not entry.over(today) and _is_stale(entry, all_)),
        expired=tuple(
            entry for entry in baseline.known if entry.over(today) and any(entry.covers(verdict) for verdict in red)
        ),
    )


def _is_stale(entry: Known, verdicts: Iterable[Verdict]) -> bool:
    """Whether the check ran where the entry is about, and is not red anywhere there."""
    mine = [verdict for verdict in verdicts if entry.covers(verdict)]
    return bool(mine) and not entry.flaky and not any(verdict.outcome in _RED for verdict in mine)


def read_baseline(path: Path) -> Baseline:
    """Reads a baseline.

    Raises:
        InvalidValue: It is none; the sentence says where it is wrong.
        OSError: It cannot be read.
    """
    try:
        document: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"is no TOML: {error}", path=str(path)) from error
    entries = document.get("known", [])
    if not isinstance(entries, list) or set(document) - {"known"}:
        raise InvalidValue("has something else than [[known]] in it", path=str(path))
    return Baseline(tuple(_entry(entry, f"known[{number}]") for number, entry in enumerate(entries)))


def _entry(entry: object, place: str) -> Known:
    if not isinstance(entry, dict):
        raise InvalidValue("is no table", path=place)
    unknown = sorted(set(entry) - _MEMBERS)
    if unknown:
        raise InvalidValue(f"is none of {', '.join(sorted(_MEMBERS))}", path=f"{place}.{unknown[0]}")
    for name, kind in (("check", str), ("reason", str)):
        if not isinstance(entry.get(name), kind) or not entry[name]:
            raise InvalidValue("missing, or no text", path=f"{place}.{name}")
    for name, kinds in (("revision", str), ("transport", str), ("flaky", bool), ("expires", datetime.date)):
        if name in entry and not isinstance(entry[name], kinds):
            raise InvalidValue(f"is no {kinds.__name__}", path=f"{place}.{name}")
    expires = entry.get("expires")
    return Known(
        check=str(entry["check"]),
        reason=str(entry["reason"]),
        expires=expires.date() if isinstance(expires, datetime.datetime) else expires,
        revision=entry.get("revision"),
        transport=entry.get("transport"),
        flaky=bool(entry.get("flaky", False)),
    )


def written(verdicts: Iterable[Verdict], old: Baseline) -> str:
    """A baseline that bears with what is red.

    Entries of the old one are kept as they are, with their reasons and their ends, unless nothing is red for them any
    more. A check that is red wherever it ran gets one entry; one that is red in some places only, one for each.

    Args:
        verdicts: Those of a run that count.
        old: What was known before.
    """
    all_ = tuple(verdicts)
    kept = [entry for entry in old.known if not _is_stale(entry, all_)]
    return "\n".join(_written([*kept, *_new(all_, kept)])) + "\n"


def _new(verdicts: Sequence[Verdict], kept: Sequence[Known]) -> Iterator[Known]:
    """Entries for what is red and not known."""
    ran: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        ran.setdefault(verdict.check, []).append(verdict)
    for check, mine in ran.items():
        red = [verdict for verdict in mine if verdict.outcome in _RED]
        if len(red) == len(mine) and not any(entry.covers(verdict) for entry in kept for verdict in red):
            yield Known(check=check, reason=_reason(red[0]))
            continue
        for verdict in red:
            if not any(entry.covers(verdict) for entry in kept):
                yield Known(
                    check=check, reason=_reason(verdict), revision=verdict.revision, transport=verdict.transport
                )


def _reason(verdict: Verdict) -> str:
    told = verdict.reason or f"expected {verdict.expected}; observed {verdict.observed}"
    return told[:_LONGEST]


def _written(entries: Iterable[Known]) -> Iterator[str]:
    yield "# What is known to fail. An entry that passes has to go."
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
    """A basic string of TOML."""
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
