"""The output of a run: the summary, the report files and the exit status."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.cli.options import SDK_PREFIX, CommandLineError, known_baseline
from mcp_conformance.reports.badge import badge, badge_svg
from mcp_conformance.reports.html.page import html
from mcp_conformance.reports.json_document import document
from mcp_conformance.reports.junit import junit
from mcp_conformance.reports.markdown import markdown
from mcp_conformance.reports.sarif import sarif, sarif_location
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


_REPORTS: Final[Mapping[str, tuple[str, Callable[[ScoredRun, argparse.Namespace], bytes]]]] = {
    "json": ("all results, for programs", lambda scored, _: _json(document(scored))),
    "junit": ("JUnit XML, for CI services", lambda scored, _: junit(scored)),
    "markdown": ("summary of a CI job", lambda scored, _: markdown(scored).encode()),
    "sarif": (
        "SARIF 2.1.0, for services that show findings, such as GitHub code scanning",
        lambda scored, given: _json(sarif(scored, _location(given))),
    ),
    "html": ("one page, for readers", lambda scored, _: html(scored).encode()),
    "badge": (
        "badge: a picture if FILE ends in .svg, otherwise JSON",
        lambda scored, given: badge_svg(scored).encode() if given.badge.suffix == ".svg" else _json(badge(scored)),
    ),
}
"""The kinds of reports: the description and the function that makes them."""


def add_reports(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("reports")
    for name, (help_, _) in _REPORTS.items():
        group.add_argument(f"--{name}", type=Path, metavar="FILE", help=help_)
    group.add_argument(
        "--sarif-location",
        type=Path,
        metavar="FILE",
        help=(
            "the file of your repository in which the findings of --sarif are shown; by default one that the command "
            "names, that of --baseline, --write-baseline or --fixtures, or the GitHub workflow"
        ),
    )


_INSTALLED: Final = frozenset({".venv", "venv", ".tox", ".nox", "node_modules"})
"""Folders of a repository with programs that are not its own."""


def _location(given: argparse.Namespace) -> str | None:
    """Return the file in which the results of SARIF are shown, as a URI."""
    commands = [getattr(given, name, None) for name in ("command_line", "start", "stdio_command")]
    words = [Path(word) for command in commands if command is not None for word in shlex.split(command)]
    baselines = [Path(each) for each in given.baseline if not each.startswith(SDK_PREFIX)]
    manifest: Path | None = getattr(given, "fixtures", None)
    programs = [word for word in words if word.is_file() and not _INSTALLED.intersection(word.parts)]
    return sarif_location([given.sarif_location, *programs, *baselines, given.write_baseline, manifest], os.environ)


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
    scored = score(run, chosen.rules)
    if given.write_baseline is not None:
        scored = _with_new_baseline(given.write_baseline, scored)
    for name, (_, make) in _REPORTS.items():
        path: Path | None = getattr(given, name)
        if path is not None:
            path.write_bytes(make(scored, given))
    # The encoding of a terminal may lack characters of a server's texts, or of the summary.
    encoding = sys.stdout.encoding or "utf-8"
    for line in summary_lines(scored):
        print(line.encode(encoding, "backslashreplace").decode(encoding))
    return scored.status


def _with_new_baseline(path: Path, scored: ScoredRun) -> ScoredRun:
    """Write a baseline, and score the run with it."""
    rules = scored.rules
    old = rules.baseline if rules.baseline.known or not path.exists() else known_baseline([str(path)], scored.run.role)
    text = written(scored.counted, old, lambda verdict: rules.is_required(verdict, scored.run.role))
    path.write_text(text, encoding="utf-8")
    return score(scored.run, attrs.evolve(rules, baseline=read_baseline(path)))
