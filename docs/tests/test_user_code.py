"""The types of the public interfaces: mypy accepts right code of users, and finds the mistakes in wrong code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]

MISTAKES: Final = (
    ("wrong_1 = (await client.call_tool('search', returns=AttrsHit)).data.name", "attr-defined"),
    ("wrong_2 = (await client.call_tool('search', returns=list[AttrsHit])).data.title", "attr-defined"),
    ("wrong_3 = (await client.call_tool('search')).data['title']", "index|call-overload"),
    ("wrong_4: int = (await client.call_tool('search', returns=str)).data", "assignment"),
    ("wrong_5 = (await client.call_tool('search')).structured", "attr-defined"),
    ("await client.call_tool('search', ['x'])", "call-overload"),
    (
        "await client.call_tool('search', on_progress=lambda report: print(report.progress))",
        "misc|call-overload|arg-type",
    ),
    ("wrong_6 = client.call_tool('search').text", "attr-defined"),
    ("Handlers(elicit=use_client)", "arg-type"),
    ("open_stdio(['shop'], limits=None)", "call-arg"),
    ("open_stdio(['shop'], options=HttpOptions())", "arg-type"),
    ("HttpOptions(proxies=True)", "arg-type"),
    ("ClientOptions(validate_output='loud')", "arg-type"),
    ("ToolFailed('x').result", "call-arg"),
    ("await SyncContext.info(sync, 'x')", "misc|func-returns-value"),
    ("wrong_7 = sync.elicit(Booking, 'x').value", "union-attr"),
    ("Param(minimum='1')", "arg-type"),
)
"""Lines of wrong code, each with the error codes of mypy that may report it."""


def run_mypy(path: Path) -> str:
    """Return the output of a strict run of mypy."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout


@pytest.mark.timeout(300)
def test_mistakes_of_users_are_found(tmp_path: Path) -> None:
    right = (HERE / "user_code.py").read_text()
    head = "\n\nasync def use_wrongly(client: Client, sync: SyncContext) -> None:\n"
    body = [f"    {line}" for line, _ in MISTAKES]
    text = right.replace("    ClientOptions,\n", "    Client,\n    ClientOptions,\n", 1) + head + "\n".join(body) + "\n"
    begin = text[: text.index(head)].count("\n") + head.count("\n") + 1
    wrong = tmp_path / "wrong_user_code.py"
    wrong.write_text(text)
    found: dict[int, set[str]] = {}
    for line, code in re.findall(r"wrong_user_code\.py:(\d+): error: .*\[([a-z-]+)\]$", run_mypy(wrong), re.MULTILINE):
        found.setdefault(int(line), set()).add(code)
    for number, (line, codes) in enumerate(MISTAKES, begin):
        assert found.pop(number, set()) & set(codes.split("|")), f"mypy accepts: {line}"
    assert not found, "mypy finds mistakes in right code"
