"""The command `mcp-server install`, run as a process on settings files like those of users."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_client import open_stdio
from mcp_server.cli.install import HOSTS, settings_file

SERVER = """\
import os
from mcp_server import Server

server = Server("weather", version="1.0")

@server.tool
def forecast(city: str) -> str:
    return f"{city}: {os.environ['API_KEY']}"
"""

SETTINGS = """\
{
  // the theme of the office
  "theme": "dark",
  "mcpServers": {
    "notes": {"url": "https://notes.example/mcp"},
  },
}
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "weather.py"
    path.write_text(SERVER)
    return path


def run(folder: Path, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder that is also the home directory."""
    variables = {key: value for key, value in os.environ.items() if key not in {"XDG_CONFIG_HOME", "API_KEY"}}
    return subprocess.run(
        [sys.executable, "-m", "mcp_server", "install", *arguments],
        cwd=folder,
        env={**variables, "HOME": str(folder)},
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def answer(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a terminal at which the user types a text."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, text.encode())
        return run(folder, *arguments, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.skipif(sys.platform != "linux", reason="the locations of Linux")
@pytest.mark.parametrize("to", HOSTS)
async def test_written_entry_starts_server(app: Path, to: str) -> None:
    done = run(app.parent, "weather.py", "--to", to, "--env", "API_KEY=a=b", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    path = settings_file(HOSTS[to], "linux", app.parent, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = json.loads(path.read_text())[HOSTS[to].section]["weather"]
    assert written == {
        **HOSTS[to].extra,
        "command": sys.executable,
        "args": ["-m", "mcp_server", "run", str(app)],
        "env": {"API_KEY": "a=b"},
    }
    if to == "claude-desktop":
        async with open_stdio([written["command"], *written["args"]], env=written["env"]) as client:
            assert [tool.name for tool in await client.list_tools()] == ["forecast"]


def test_entry_is_added_and_removed_with_backup_and_mode(app: Path) -> None:
    path = app.with_name("settings.json")
    path.write_text(SETTINGS)
    path.chmod(0o640)
    link = app.with_name("link.json")
    link.symlink_to(path)
    options = ["weather.py", "--to", "cursor", "--file", str(link), "--yes", "--env", "API_KEY=k"]
    done = run(app.parent, *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert '\n+    "weather": {\n' in done.stdout
    assert path.read_text().startswith(SETTINGS.removesuffix("  },\n}\n"))
    assert path.with_name("settings.json.bak").read_text() == SETTINGS
    assert stat.S_IMODE(path.with_name("settings.json.bak").stat().st_mode) == 0o640
    assert "has this entry already" in run(app.parent, *options).stdout
    app.unlink()
    done = run(app.parent, *options, "--undo")
    assert (done.returncode, done.stderr) == (0, "")
    assert path.read_text() == SETTINGS
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert "has no entry 'weather'" in run(app.parent, *options, "--undo").stdout
    # Python compiles the file of the server when it is loaded.
    left = {each.name for each in app.parent.iterdir()} - {"__pycache__"}
    assert left == {"link.json", "settings.json", "settings.json.bak"}


@pytest.mark.parametrize(("text", "status"), [("n\n", 1), ("\n", 1), ("\x04", 1), ("y\n", 0)])
def test_answer_decides(app: Path, text: str, status: int) -> None:
    path = app.with_name("settings.json")
    path.write_text(SETTINGS)
    done = answer(app.parent, text, "weather.py", "--to", "gemini", "--file", "settings.json", "--env", "API_KEY=k")
    assert (done.returncode, done.stderr) == (status, "")
    assert f"write {path}? [y/N]" in done.stdout
    assert (path.read_text() == SETTINGS) == (status == 1)


def test_file_changed_before_answer_is_kept(app: Path) -> None:
    path = app.with_name("settings.json")
    path.write_text(SETTINGS)
    ours, theirs = pty.openpty()
    arguments = ["weather.py", "--to", "gemini", "--file", "settings.json", "--env", "API_KEY=k"]
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "mcp_server", "install", *arguments],
            cwd=app.parent,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            shown = b""
            while b"[y/N]" not in shown:
                chunk = process.stdout.read(4096)
                assert chunk, shown
                shown += chunk
            path.write_text("{}")
            os.write(ours, b"y\n")
            assert process.wait(120) == 2
            assert b"was changed by another program in the meantime" in process.stderr.read()
    finally:
        os.close(ours)
        os.close(theirs)
    assert path.read_text() == "{}"
    assert not path.with_name("settings.json.bak").exists()


def test_install_without_terminal_changes_nothing(app: Path) -> None:
    path = app.with_name("settings.json")
    path.write_text(SETTINGS)
    done = run(app.parent, "weather.py", "--to", "gemini", "--file", "settings.json")
    assert done.returncode == 2
    assert done.stderr == f"mcp-server: no terminal to ask at, nothing was changed; give --yes to write {path}\n"
    assert path.read_text() == SETTINGS
    assert not path.with_name("settings.json.bak").exists()


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"not json", ["weather.py"], "settings.json is not JSON with comments that can be edited: line 1, column 1"),
        (b"{\xff}", ["weather.py"], "settings.json is not UTF-8 at byte 1"),
        (b"{}", ["weather.py", "--env", "SECRET"], "--env needs the form NAME=VALUE"),
        (b"{}", ["weather.py", "--name", "a b"], "'a b' cannot be the name of an entry"),
        (b"{}", ["weather"], "weather is not a Python file: install takes path/to/file.py"),
        (b"{}", ["missing.py"], "no file missing.py"),
        (b"{}", ["weather.py:other"], "weather.py has no 'other'"),
    ],
)
def test_unusable_input_is_reported(app: Path, content: bytes, arguments: list[str], message: str) -> None:
    path = app.with_name("settings.json")
    path.write_bytes(content)
    done = run(app.parent, *arguments, "--to", "cursor", "--file", "settings.json", "--yes")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("to", "platform", "expected"),
    [
        ("claude-desktop", "linux", "/xdg/Claude/claude_desktop_config.json"),
        ("claude-desktop", "darwin", "/home/u/Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", "/appdata/Claude/claude_desktop_config.json"),
        ("vscode", "linux", "/xdg/Code/User/mcp.json"),
        ("vscode", "win32", "/appdata/Code/User/mcp.json"),
        ("zed", "darwin", "/home/u/.config/zed/settings.json"),
        ("zed", "win32", "/appdata/Zed/settings.json"),
        ("claude-code", "win32", "/home/u/.claude.json"),
    ],
)
def test_settings_file_depends_on_system(to: str, platform: str, expected: str) -> None:
    variables = {"XDG_CONFIG_HOME": "/xdg", "APPDATA": "/appdata"}
    assert settings_file(HOSTS[to], platform, Path("/home/u"), variables).as_posix() == expected
