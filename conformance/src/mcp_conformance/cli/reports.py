"""The output of a run: the summary, the report files and the exit status."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.cli.options import CommandLineError, known_baseline
from mcp_conformance.reports.badge import badge, badge_svg
from mcp_conformance.reports.html.page import html
from mcp_conformance.reports.json_document import document
from mcp_conformance.reports.junit import junit
from mcp_conformance.reports.markdown import markdown
from mcp_conformance.reports.sarif import sarif
from mcp_conformance.reports.text import Progress, summary_lines
from mcp_conformance.scoring.baseline import read_baseline, written
from mcp_conformance.scoring.score import score

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from mcp_conformance.cli.options import Choice
    from mcp_conformance.model.check import Role
    from mcp_conformance.model.verdict import Run
    from mcp_conformance.scoring.score import ScoredRun
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["add_reports", "finish", "progress", "require_writable"]


def _json(value: JsonObject) -> bytes:
    return f"{json.dumps(value, indent=1)}\n".encode()


_REPORTS: Final[Mapping[str, tuple[str, Callable[[ScoredRun], bytes]]]] = {
    "json": ("all results, for programs", lambda scored: _json(document(scored))),
    "junit": ("JUnit XML, for CI services", junit),
    "markdown": ("summary of a CI job", lambda scored: markdown(scored).encode()),
    "sarif": ("SARIF 2.1.0, for services that show findings", lambda scored: _json(sarif(scored))),
    "html": ("one page, for readers", lambda scored: html(scored).encode()),
    "badge": ("badge: a picture if FILE ends in .svg, otherwise JSON", lambda scored: _json(badge(scored))),
}
"""The kinds of reports: the description and the function that makes them."""


def add_reports(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("reports")
    for name, (help_, _) in _REPORTS.items():
        group.add_argument(f"--{name}", type=Path, metavar="FILE", help=help_)


def require_writable(given: argparse.Namespace) -> None:
    """Check before a run that the reports can be written.

    Raises:
        CommandLineError: A report cannot be written.
    """
    for name in (*_REPORTS, "write_baseline"):
        path: Path | None = getattr(given, name)
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise CommandLineError(f"--{name.replace('_', '-')}: {path} cannot be written: its folder must exist")


def progress(chosen: Choice, role: Role) -> Progress:
    """Return a progress display on standard error."""
    return Progress(sys.stderr, lambda verdict: chosen.rules.score_of(verdict, role))


def finish(given: argparse.Namespace, chosen: Choice, run: Run) -> int:
    """Write the requested reports, and the summary to standard output.

    Returns:
        The exit status.
    """
    scored = score(attrs.evolve(run, source=_source(given)), chosen.rules)
    if given.write_baseline is not None:
        scored = _with_new_baseline(given.write_baseline, scored)
    for name, (_, make) in _REPORTS.items():
        path: Path | None = getattr(given, name)
        if path is not None:
            picture = name == "badge" and path.suffix == ".svg"
            path.write_bytes(badge_svg(scored).encode() if picture else make(scored))
    # The encoding of a terminal may lack characters of a server's texts, or of the summary.
    encoding = sys.stdout.encoding or "utf-8"
    for line in summary_lines(scored):
        print(line.encode(encoding, "backslashreplace").decode(encoding))
    return scored.status


def _source(given: argparse.Namespace) -> str | None:
    """Return the file to which findings refer: one that the command names, the baseline, or the workflow of the job."""
    commands = [getattr(given, name, None) for name in ("command_line", "start", "stdio_command")]
    names = [word for command in commands if command is not None for word in shlex.split(command)]
    names += [str(each) for each in (given.baseline, getattr(given, "fixtures", None)) if each is not None]
    # OWNER/REPOSITORY/.github/workflows/NAME@REF
    workflow = os.environ.get("GITHUB_WORKFLOW_REF", "").partition("@")[0].split("/", 2)
    here = Path.cwd()
    for name in (*names, *workflow[2:]):
        path = here / name
        if path.is_file() and path.resolve().is_relative_to(here.resolve()):
            return path.resolve().relative_to(here.resolve()).as_posix()
    return None


def _with_new_baseline(path: Path, scored: ScoredRun) -> ScoredRun:
    """Write a baseline, and score the run with it."""
    rules = scored.rules
    old = rules.baseline if rules.baseline.known or not path.exists() else known_baseline(path)
    text = written(scored.counted, old, lambda verdict: rules.is_required(verdict, scored.run.role))
    path.write_text(text, encoding="utf-8")
    return score(scored.run, attrs.evolve(rules, baseline=read_baseline(path)))
