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

from mcp_conformance.verdicts import Outcome
from mcp_core.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from mcp_conformance.verdicts import Run, Verdict

__all__ = ["Baseline", "Judgement", "Known", "judge", "read_baseline", "written"]

_RED: Final = frozenset({Outcome.FAILED, Outcome.NOT_TESTABLE})
"""What a baseline can excuse. That the suite itself went wrong is nobody's known failure."""

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

    def __str__(self) -> str:
        return " ".join([self.check, *(each for each in (self.revision, self.transport) if each is not None)])


@attrs.frozen
class Baseline:
    """All entries."""

    known: tuple[Known, ...] = ()


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


def judge(run: Run, baseline: Baseline, today: datetime.date) -> Judgement:
    """Holds a run against a baseline.

    Args:
        run: The run.
        baseline: What is known.
        today: The date.
    """
    valid = [entry for entry in baseline.known if entry.expires is None or today < entry.expires]
    red = [verdict for verdict in run.verdicts if verdict.outcome in _RED]
    told = {id(verdict) for verdict in red if any(entry.covers(verdict) for entry in valid)}
    return Judgement(
        new=tuple(verdict for verdict in red if id(verdict) not in told),
        known=tuple(verdict for verdict in red if id(verdict) in told),
        stale=tuple(entry for entry in valid if _is_stale(entry, run)),
        expired=tuple(
            entry for entry in baseline.known if entry not in valid and any(entry.covers(verdict) for verdict in red)
        ),
    )


def _is_stale(entry: Known, run: Run) -> bool:
    """Whether the check ran where the entry is about, and is not red anywhere there."""
    mine = [verdict for verdict in run.verdicts if entry.covers(verdict)]
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


def written(run: Run, old: Baseline) -> str:
    """A baseline that excuses what is red in a run; the reasons of the old one are kept."""
    return "\n".join(_written(_wanted(run, old))) + "\n"


def _wanted(run: Run, old: Baseline) -> Iterator[Known]:
    for verdict in run.verdicts:
        if verdict.outcome in _RED:
            kept = next((entry for entry in old.known if entry.covers(verdict)), None)
            reason = verdict.reason or f"expected {verdict.expected}; observed {verdict.observed}"
            yield Known(
                check=verdict.check,
                reason=reason[:300] if kept is None else kept.reason,
                expires=None if kept is None else kept.expires,
                revision=verdict.revision,
                transport=verdict.transport,
                flaky=kept is not None and kept.flaky,
            )


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
