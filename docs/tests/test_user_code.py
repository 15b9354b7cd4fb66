"""The types of the public interfaces: type checkers accept right code of users, and find the mistakes in wrong code."""

from __future__ import annotations

import json
import os
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
    ("Server.from_openapi({}, client='https://shop.example')", "arg-type"),
    (
        "Server.from_openapi({}, client=httpx.AsyncClient(), expose=lambda op: op.verb == 'GET')",
        "attr-defined|arg-type",
    ),
    ("attrs.evolve(TextContent(text='a'), txt='b')", "call-arg"),
    ("attrs.evolve(TextContent(text='a'), text=1)", "arg-type"),
)
"""Lines of wrong code, each with the error codes of mypy that may report it."""


def lines_with_errors(checker: str, path: Path) -> dict[int, str]:
    """Return the errors of a strict run of a type checker by line."""
    if checker == "mypy":
        command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)]
    else:
        config = path.with_suffix(".json")
        config.write_text(json.dumps({"typeCheckingMode": "strict", "include": [path.name]}))
        command = [sys.executable, "-m", "basedpyright", "--project", str(config)]
    # pyright finds the packages through the first `python` of the path.
    environment = {**os.environ, "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    found: dict[int, str] = {}
    for line, message in re.findall(rf"{path.name}:(\d+)(?::\d+)?(?: -|:) error: (.*)$", run.stdout, re.MULTILINE):
        found[int(line)] = found.get(int(line), "") + message
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_mistakes_of_users_are_found(tmp_path: Path, checker: str) -> None:
    right = (HERE / "user_code.py").read_text()
    head = "\n\nasync def use_wrongly(client: Client, sync: SyncContext) -> None:\n"
    body = [f"    {line}" for line, _ in MISTAKES]
    text = right.replace("    ClientOptions,\n", "    Client,\n    ClientOptions,\n", 1) + head + "\n".join(body) + "\n"
    begin = text[: text.index(head)].count("\n") + head.count("\n") + 1
    wrong = tmp_path / "wrong_user_code.py"
    wrong.write_text(text)
    found = lines_with_errors(checker, wrong)
    for number, (line, codes) in enumerate(MISTAKES, begin):
        message = found.pop(number, "")
        if checker == "pyright" and line.startswith("attrs.evolve"):
            continue  # in the stubs of attrs, the changes have the type Any; mypy has a plugin
        assert message, f"{checker} accepts: {line}"
        assert checker != "mypy" or any(f"[{code}]" in message for code in codes.split("|")), message
    assert not found, f"{checker} finds mistakes in right code"
