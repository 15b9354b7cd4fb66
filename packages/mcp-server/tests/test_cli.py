"""The command line: loading a server, and its error messages."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_server
from mcp_server.cli import main as cli
from mcp_server.cli.main import main

SOURCE = '''
from mcp_server import Server

server = Server("one", version="1.5")

@server.tool
async def echo(text: str) -> str:
    """Return the text.

    Details.
    """
    return text

@server.resource("x://{name}")
async def thing(name: str) -> str:
    return name

def make():
    return Server("made", version="2")

def broken():
    raise ValueError("no luck")

number = 5

class Space:
    inner = Server("inner", version="3")
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sample_server.py").write_text(SOURCE)
    (tmp_path / "other_name.py").write_text(
        "from mcp_server import Server\nthing = Server('t', version='1')\nprint('hello')\n"
    )
    (tmp_path / "needs_more.py").write_text("import no_such_package_here\n")
    (tmp_path / "invalid.py").write_text("server = (\n")
    (tmp_path / "crashes.py").write_text("1 / 0\n")
    (tmp_path / "refused.py").write_text(
        "from mcp_server import Server\nserver = Server('s', version='1')\nserver.add_tool(lambda: 1, name='')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("sample_server", "one"),
        ("sample_server:server", "one"),
        ("sample_server:", "one"),
        ("sample_server.py", "one"),
        ("./sample_server.py:make", "made"),
        ("sample_server:Space.inner", "inner"),
    ],
)
def test_target_is_loaded(folder: Path, target: str, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", target]) == 0
    assert capfd.readouterr().out.startswith(f"{name} ")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module", "no module 'no_such_module'"),
        ("nowhere.py", "no file nowhere.py"),
        ("other_name", "other_name has no 'server'; use the server 'thing': other_name:thing"),
        ("sample_server:missing", "sample_server has no 'missing'; use the server 'server'"),
        ("sample_server:number", "is of type int; it must be a Server"),
    ],
)
def test_invalid_target_is_reported(folder: Path, target: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", target]) == 2
    captured = capfd.readouterr()
    assert message in captured.err
    assert captured.out == ""


LOAD_FAILURES = [
    (["run", "crashes:server"], "crashes cannot be imported", "    1 / 0\n", "ZeroDivisionError: division by zero"),
    (["run", "crashes.py"], "crashes.py cannot be loaded", "    1 / 0\n", "ZeroDivisionError: division by zero"),
    (["inspect", "crashes.py"], "crashes.py cannot be loaded", "    1 / 0\n", "ZeroDivisionError: division by zero"),
    (
        ["install", "crashes.py", "--to", "cursor", "--yes"],
        "crashes.py cannot be loaded",
        "    1 / 0\n",
        "ZeroDivisionError: division by zero",
    ),
    (
        ["run", "needs_more"],
        "needs_more cannot be imported",
        "    import no_such_package_here\n",
        "ModuleNotFoundError: No module named 'no_such_package_here'",
    ),
    (
        ["run", "sample_server:broken"],
        "sample_server:broken failed to create a server",
        '    raise ValueError("no luck")\n',
        "ValueError: no luck",
    ),
    (["run", "invalid.py"], "invalid.py cannot be loaded", "    server = (\n             ^\n", "SyntaxError: '(' was"),
    (
        ["run", "refused"],
        "refused cannot be imported",
        "    server.add_tool(lambda",
        "mcp_server.errors.RegistrationError",
    ),
]
"""Commands, and what they show of the exception in the file: a summary, the line, and the exception."""


@pytest.mark.parametrize(("arguments", "summary", "line", "last"), LOAD_FAILURES)
def test_target_with_exception_shows_line_in_file(
    folder: Path, arguments: list[str], summary: str, line: str, last: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"mcp-server: {summary}:\nTraceback (most recent call last):\n  … ")
    assert line in captured.err
    assert captured.err.splitlines()[-1].startswith(last)
    # The frames of the command and of the import system are one line.
    assert "importlib._bootstrap" not in captured.err


def test_file_without_loader_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.spec_from_file_location", lambda *_: None)
    assert main(["run", "sample_server.py"]) == 2
    assert "sample_server.py is not a Python file" in capfd.readouterr().err


def test_output_of_module_goes_to_stderr(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "other_name:thing"]) == 0
    captured = capfd.readouterr()
    assert "hello" in captured.err
    assert captured.out == "t 1\n"


def test_inspect_shows_features(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "sample_server"]) == 0
    assert capfd.readouterr().out == (
        "one 1.5\n\ntools\n  echo  Return the text.\n\nresource_templates\n  x://{name}\n"
    )
    assert main(["inspect", "--json", "sample_server"]) == 0
    output = json.loads(capfd.readouterr().out)
    assert output["server"] == {"name": "one", "version": "1.5"}
    assert output["tools"][0]["inputSchema"]["required"] == ["text"]
    assert output["resource_templates"][0]["uriTemplate"] == "x://{name}"


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, expected in (
        (["--help"], "path/to/file.py:name"),
        (["run", "--help"], "--log-level"),
        (["--version"], mcp_server.__version__),
    ):
        with pytest.raises(SystemExit) as exit_info:
            main(arguments)
        assert exit_info.value.code == 0
        assert expected in capsys.readouterr().out
    for arguments in ([], ["run"], ["run", "x", "--log-level", "loud"], ["fly"]):
        with pytest.raises(SystemExit) as exit_info:
            main(arguments)
        assert exit_info.value.code == 2


@pytest.mark.parametrize(
    ("exception", "status"),
    [
        (None, 0),
        (KeyboardInterrupt(), 130),
        (BaseExceptionGroup("tasks", [BaseExceptionGroup("more", [KeyboardInterrupt()])]), 130),
        (RuntimeError("broken"), 1),
        (ExceptionGroup("tasks", [RuntimeError("broken")]), 1),
    ],
    ids=["end", "^C", "^C in a task", "failure", "failure in a task"],
)
def test_exit_status_of_run(
    folder: Path,
    exception: BaseException | None,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def serve(server: object) -> None:
        if exception is not None:
            raise exception

    monkeypatch.setattr(cli, "serve_stdio", serve)
    assert main(["run", "sample_server"]) == status
    assert ("server failed" in caplog.text) == (status == 1)


def test_package_is_runnable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["mcp-server", "--version"])
    with pytest.raises(SystemExit) as exit_info:
        runpy.run_module("mcp_server", run_name="__main__")
    assert exit_info.value.code == 0
    assert "mcp-server" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--help"], ["inspect", "weather.py"], ["inspect", "weather.py", "--json"]], ids=" ".join
)
def test_closed_pipe_exits_141_without_traceback(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "weather.py").write_text("from mcp_server import Server\n\nserver = Server('weather', version='1')\n")
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "mcp_server", *words],
        stdin=subprocess.DEVNULL,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
        # Without a buffer, argparse itself ignores that its help cannot be written.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["rn", "x"], "mcp-server: error: argument COMMAND: unknown value 'rn'; did you mean run?"),
        (["stop"], "unknown value 'stop'; known: run, dev, inspect, install, pack, auth-server"),
        (["run", "x", "--htp", "0"], "mcp-server run: error: unknown option --htp; did you mean --http?"),
        (["inspect", "x", "--quiet"], "mcp-server inspect: error: unknown option --quiet"),
        (["inspect", "x", "y"], "mcp-server inspect: error: unexpected word 'y'"),
    ],
)
def test_unknown_word_explained_with_nearest_name(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err
