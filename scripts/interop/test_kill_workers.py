"""Workers of a cluster that are killed while clients use them, for a minute.

The complete run takes ten minutes, also with the official SDKs: `python scripts/bench/kill_workers.py --peers`.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.kill_workers import Counts, check_effects, check_log

SCRIPT = Path(__file__).resolve().parents[1] / "bench" / "kill_workers.py"


@pytest.mark.timeout(260)
def test_killed_workers_lose_and_repeat_nothing() -> None:
    command = [sys.executable, str(SCRIPT), "--seconds", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "violations: none" in done.stdout
    assert "Redis restarted" in done.stdout


@pytest.mark.parametrize(
    ("payments", "works", "kind"),
    [
        ("p1 1 5\np2 1 5\n", "w1 1 5\n", None),
        ("p1 1 5\np1 1 6\np2 1 5\n", "w1 1 5\n", "twice"),
        ("p1 1 5\np2 1 5\n", "w1 1 5\nw1 2 6\n", "twice"),
        # Process 7 is killed at 10.1.
        ("p1 1 5\np2 1 5\n", "w1 7 9\nw1 2 11\n", "twice"),
        ("p1 1 5\np2 1 5\n", "w1 2 11\nw1 7 10\n", None),
        ("p1 1 5\np2 1 5\n", "w1 7 10\nw1 2 11\nw1 3 12\n", "twice"),
        ("p2 1 5\n", "w1 1 5\n", "missing"),
        ("p1 1 5\np2 1 5\n", "", "missing"),
    ],
)
def test_effects_that_are_lost_or_repeated_are_violations(
    tmp_path: Path, payments: str, works: str, kind: str | None
) -> None:
    (tmp_path / "payments").write_text(payments)
    (tmp_path / "works").write_text(works)
    # The effect of a request that failed may have happened or not.
    counts = Counts(paid={"p1": True, "p2": False, "p3": False}, worked={"w1"}, killed={7: 10.1})
    check_effects(tmp_path, counts)
    assert counts.violations == Counter({kind: 1} if kind else {})


@pytest.mark.parametrize(
    ("lines", "violations"),
    [
        (["1.0 0.1 GET 404 0123456789 agent"], 1),
        (["1.0 0.1 GET 404 - agent"], 0),
        # The session ended while the GET was being sent, whatever was logged first.
        (["1.0 0.5 DELETE 200 0123456789 agent", "1.2 0.1 GET 404 0123456789 agent"], 0),
        (["0.6 0.1 GET 404 0123456789 agent", "1.0 0.5 DELETE 200 0123456789 agent"], 0),
        # It was unknown before its client ended it.
        (["0.4 0.1 GET 404 0123456789 agent", "1.0 0.5 DELETE 200 0123456789 agent"], 1),
        (["1.0 0.5 DELETE 200 other agent", "1.2 0.1 GET 404 0123456789 agent"], 1),
        (["1.0 0.5 DELETE 404 0123456789 agent"], 1),
    ],
)
def test_status_404_for_session_that_did_not_end_is_violation(
    tmp_path: Path, lines: list[str], violations: int
) -> None:
    log = tmp_path / "access.log"
    log.write_text("\n".join(lines))
    counts = Counts()
    assert check_log(log, counts).total() == len(lines)
    assert counts.violations.total() == violations
