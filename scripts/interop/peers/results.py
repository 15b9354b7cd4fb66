"""The pages about the results of other SDKs, made from the reports of runs: the figures, and a draft of a report for each finding.

A finding is what `known.toml` says in one sentence. It may be observed by several checks; the draft has the messages of the first
one, and the command that repeats it.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final

from documentation.markdown import markdown_table
from mcp_conformance.runners.judged_messages import JUDGED_NOTE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["drafts", "figures", "with_figures"]

_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
_COUNTS: Final = ("passed", "failed", "warning", "not testable")
_FULL: Final[Mapping[str, str]] = {
    "python": "the Python SDK",
    "typescript": "the TypeScript SDK",
    "fastmcp": "FastMCP",
}
"""The names of SDKs in a sentence."""
_WIDTH: Final = 140
_MOST: Final = 240
"""The most characters of a message in a draft."""
_LINES: Final = 6
"""The most messages in a draft."""
_AFTER: Final = 2
"""The most of them that come after the judged line."""
_MESSAGE: Final = re.compile(r"(-->|<--) [\[{]")


def _list(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


def figures(documents: Mapping[tuple[str, str], Sequence[Mapping[str, object]]]) -> list[str]:
    """Return the table of the counts.

    Args:
        documents: The reports by peer and role.
    """
    rows: list[list[str]] = []
    for (peer, role), reports in documents.items():
        cells: dict[str, dict[str, str]] = {}
        for report in reports:
            for leg in _list(report["lanes"]):
                counts = leg["counts"]
                assert isinstance(counts, dict)
                if not leg["refusal"]:
                    # An error of the suite is a failure too.
                    counts = {**counts, "failed": counts["failed"] + counts["broken"]}
                    cells.setdefault(str(leg["transport"]), {})[str(leg["revision"])] = " / ".join(
                        str(counts[name]) for name in _COUNTS
                    )
        rows += [
            [peer, role, transport, *(row.get(name, "") for name in _REVISIONS)] for transport, row in cells.items()
        ]
    return markdown_table(["peer", "role", "transport", *_REVISIONS], rows)


def with_figures(page: str, table: Sequence[str], day: str) -> str:
    """Return a page with other figures.

    Args:
        page: The text of the page.
        table: The lines of the table.
        day: The day of the runs.
    """
    page = re.sub(r"of a run on \d{4}-\d{2}-\d{2}", f"of a run on {day}", page)
    return re.sub(r"\| peer \| role \|.*?\n\n", lambda _: "\n".join(table) + "\n\n", page, count=1, flags=re.DOTALL)


def drafts(
    documents: Mapping[tuple[str, str], Sequence[Mapping[str, object]]],
    known: Mapping[str, Mapping[str, str]],
    names: Mapping[str, str],
    root: Path,
) -> Iterator[str]:
    """Yield the lines of the page with the drafts.

    Args:
        documents: The reports by peer and role.
        known: The sentence of each finding, by peer and role, and by check.
        names: The name and version of each peer.
        root: The checkout, which is removed from commands.
    """
    for (peer, role), reports in documents.items():
        found: dict[str, list[dict[str, object]]] = {}
        reasons = known.get(f"{peer} {role}", {})
        for report in reports:
            for verdict in _list(report["verdicts"]):
                if verdict["outcome"] == "failed" and verdict["check"] in reasons:
                    found.setdefault(reasons[str(verdict["check"])], []).append(verdict)
        if found:
            yield from ["", f"## {names[peer]}, as a {role}", ""]
        for reason, verdicts in found.items():
            yield from _draft(names[peer], role, reason, verdicts, root)


def _draft(name: str, role: str, reason: str, verdicts: Sequence[dict[str, object]], root: Path) -> Iterator[str]:
    # Of the newest revision, which is of most use to the maintainers.
    first = max(verdicts, key=lambda each: str(each["revision"]))
    checks = ", ".join(f"`{check}`" for check in dict.fromkeys(str(each["check"]) for each in verdicts))
    where = ", ".join(dict.fromkeys(str(each["revision"]) for each in verdicts))
    over = " and ".join(dict.fromkeys(str(each["transport"]) for each in verdicts))
    yield from [f"### {first['title']}", ""]
    yield from textwrap.wrap(f"{reason} Checks: {checks}.", _WIDTH)
    yield ""
    sdk, _, version = name.partition("@")
    text = [
        f"Hello, and thank you for your work on {_FULL.get(sdk, sdk)}. We tested version {version} as a "
        f"{role} with a conformance suite, and would like to report a difference from the specification, in {where} over {over}.",
        *_required(first),
        f"Expected: {first['expected']}. Observed: {str(first['observed'])[:_MOST]}",
    ]
    for paragraph in text:
        yield from (f"    {line}" for line in textwrap.wrap(paragraph, _WIDTH))
        yield ""
    yield from (f"    {line}" for line in _messages(first))
    yield from ["", "    To reproduce it:", "", f"    $ {str(first['again']).replace(f'{root}/', '')}", ""]


def _required(verdict: Mapping[str, object]) -> Iterator[str]:
    for each in _list(verdict["requirements"])[:1]:
        yield f"The requirement ({verdict['revision']}, {each['place']}; {each['level']}): {each['text']}"


def _messages(verdict: Mapping[str, object]) -> list[str]:
    """Return the messages around the judged one, or the last ones, without HTTP heads and notes."""
    lines = verdict.get("transcript", [])
    assert isinstance(lines, list)
    judged = lines.index(JUDGED_NOTE) if JUDGED_NOTE in lines else len(lines)
    before, after = ([line for line in part if _MESSAGE.match(line)] for part in (lines[:judged], lines[judged:]))
    # The line of a judged HTTP request is its head: the message comes after it.
    near = after[:_AFTER]
    return [line if len(line) <= _MOST else f"{line[:_MOST]} ..." for line in [*before[-(_LINES - len(near)) :], *near]]
