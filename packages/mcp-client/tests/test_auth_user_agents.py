"""User agents: the browser of the system, and a terminal."""

from __future__ import annotations

import shlex
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
from auth_testbed import AuthTestbed, protected

from mcp_client import open_http
from mcp_client.auth import OAuth, Paste, SystemBrowser
from mcp_client.auth.user_agents import _browser_command
from mcp_core.errors import AuthorizationRefused, UnsafeUrl

URL = "https://as.example/authorize?a=1&b=%25VAR%25&c=$(id)&d='x'&e=;f"


def argument_recorder(folder: Path, name: str = "browser") -> Path:
    """Return a program that records its arguments, one a line. The file appears when all are written."""
    path = folder / name
    place, part = (shlex.quote(str(folder / each)) for each in ("asked", "asked.part"))
    path.write_text(f'#!/bin/sh\nfor each in "$@"; do printf "%s\\n" "$each" >> {part}; done\nmv {part} {place}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


async def recorded_arguments(folder: Path) -> list[str]:
    path = trio.Path(folder / "asked")
    with trio.fail_after(10):
        while not await path.exists():  # noqa: ASYNC110  # a process
            await trio.sleep(0.01)
    return (await path.read_text()).splitlines()


@pytest.mark.spec("security.no-shell-open")
@pytest.mark.parametrize("how", ["{}", "{} --new-window", "{} --url=%s --other", '"{}" "two words"'])
async def test_browser_url_is_one_argument(how: str, tmp_path: Path) -> None:
    folder = tmp_path / "a folder" if how.startswith('"') else tmp_path
    folder.mkdir(exist_ok=True)
    shown: list[str] = []
    agent = SystemBrowser(
        show_message=shown.append, environment={"BROWSER": how.format(argument_recorder(folder)) + ":other"}
    )
    async with agent.receive() as receiver:
        await receiver.open(URL)
        expected = {
            "{}": [URL],
            "{} --new-window": ["--new-window", URL],
            "{} --url=%s --other": [f"--url={URL}", "--other"],
            '"{}" "two words"': ["two words", URL],
        }
        assert await recorded_arguments(folder) == expected[how]
    assert shown == [f"To log in, use the window that your browser opens. If no window opens, open this URL:\n{URL}"]


@pytest.mark.parametrize(
    "environment", [{}, {"BROWSER": "/nowhere/at/all"}, {"BROWSER": '"'}, {"DISPLAY": ":0", "PATH": "/nowhere"}]
)
async def test_browser_missing_shows_url(environment: dict[str, str]) -> None:
    shown: list[str] = []
    agent = SystemBrowser(show_message=shown.append, environment=environment)
    async with agent.receive() as receiver:
        await receiver.open(URL)
    assert shown == [f"No browser could be started. To log in, open this URL in a browser on this machine:\n{URL}"]


@pytest.mark.spec("security.authorization-url-schemes")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "ms-settings:",
        "-option",
        "--new-window",
        "http://as.example/authorize",
        'https://x" & calc',
        "https://as.example/\n",
        "https://as.example/\x1b]0;x\x07",
        "https://user@as.example/",
        "/bin/sh",
        "",
    ],
)
async def test_browser_unsafe_url_raises(url: str, tmp_path: Path) -> None:
    shown: list[str] = []
    browser = SystemBrowser(show_message=shown.append, environment={"BROWSER": str(argument_recorder(tmp_path))})
    async with browser.receive() as receiver:
        with pytest.raises(UnsafeUrl):
            await receiver.open(url)
    async with Paste(show_message=shown.append).receive() as receiver:
        with pytest.raises(UnsafeUrl):
            await receiver.open(url)
    assert shown == []
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("platform", "environment", "programs", "expected"),
    [
        ("darwin", {}, ["open"], ("open",)),
        ("win32", {}, ["rundll32"], ("rundll32", "url.dll,FileProtocolHandler")),
        ("linux", {"DISPLAY": ":0"}, ["xdg-open", "wslview"], ("xdg-open",)),
        ("linux", {"WAYLAND_DISPLAY": "w"}, ["xdg-open"], ("xdg-open",)),
        ("linux", {"WSL_DISTRO_NAME": "x"}, ["wslview"], ("wslview",)),
        ("linux", {}, ["xdg-open"], None),
        ("linux", {"DISPLAY": ""}, ["xdg-open"], None),
        ("linux", {"DISPLAY": ":0"}, [], None),
        ("freebsd14", {"DISPLAY": ":0"}, ["xdg-open"], ("xdg-open",)),
    ],
)
def test_browser_command_of_platform(
    platform: str,
    environment: dict[str, str],
    programs: list[str],
    expected: tuple[str, ...] | None,
    tmp_path: Path,
) -> None:
    for name in programs:
        argument_recorder(tmp_path, name)
    found = _browser_command(platform, {"PATH": str(tmp_path), **environment})
    assert found == (None if expected is None else (str(tmp_path / expected[0]), *expected[1:]))


async def test_login_with_system_browser() -> None:
    # The browser is a program that follows redirects.
    testbed = AuthTestbed()
    follows = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"
    shown: list[str] = []
    browser = f"{shlex.quote(sys.executable)} -c {shlex.quote(follows)}"
    agent = SystemBrowser(show_message=shown.append, environment={"BROWSER": browser})
    async with protected(testbed) as server:
        auth = OAuth("Tester", user_agent=agent)
        auth._clock = lambda: testbed.now
        with trio.fail_after(30):
            async with open_http(server.url, auth=auth) as client:
                assert not (await client.call_tool("echo")).is_error
    assert testbed.grants_made == ["authorization_code"]


async def test_browser_ask_client_returns_none() -> None:
    assert await SystemBrowser().ask_client("https://as.example", "why") is None


# --- the terminal ----------------------------------------------------------------------------------------------------


class Terminal:
    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.shown: list[str] = []

    def ask(self, prompt: str) -> str:
        self.shown.append(prompt)
        return self.lines.pop(0)

    @property
    def agent(self) -> Paste:
        return Paste(show_message=self.shown.append, ask=self.ask)


async def test_paste_returns_pasted_url() -> None:
    terminal = Terminal("  http://127.0.0.1:5000/callback?code=x \n")
    async with terminal.agent.receive(5000) as receiver:
        assert receiver.redirect_uri == "http://127.0.0.1:5000/callback"
        await receiver.open(URL)
        assert await receiver.redirected() == "http://127.0.0.1:5000/callback?code=x"
    assert URL in terminal.shown[0].splitlines()
    assert terminal.shown[1] == "The address: "


async def test_paste_wrong_url_prompts_again() -> None:
    terminal = Terminal("x\n", "?code=1\n")
    async with terminal.agent.receive() as receiver:
        assert receiver.redirect_uri == "http://127.0.0.1:49152/callback"
        assert await receiver.redirected() == "x"
        assert await receiver.redirected() == "?code=1"
    assert "does not belong to this login" in terminal.shown[1]


async def test_paste_empty_line_refuses() -> None:
    async with Terminal("\n").agent.receive() as receiver:
        with pytest.raises(AuthorizationRefused, match="no address was pasted"):
            await receiver.redirected()


async def test_paste_ask_client_returns_typed_id() -> None:
    terminal = Terminal("c1\n", "\n")
    client = await terminal.agent.ask_client("https://as.example", "because\x1b[2J\x07 of \u202e it")
    assert client is not None
    assert (client.client_id, client.client_secret, client.issuer) == ("c1", None, "https://as.example")
    assert terminal.shown[0].splitlines()[0] == "because\ufffd[2J\ufffd of \ufffd it"
    secret = await Terminal("c1\n", "s\n").agent.ask_client("https://as.example", "why")
    assert secret is not None
    assert secret.client_secret == "s"
    assert await Terminal("\n").agent.ask_client("https://as.example", "why") is None


async def test_paste_defaults_to_stderr_and_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(readline=lambda: "?code=1\n"))
    async with Paste().receive() as receiver:
        await receiver.open(URL)
        assert await receiver.redirected() == "?code=1"
    captured = capsys.readouterr()
    assert URL in captured.err
    assert captured.err.endswith("The address: ")
    assert captured.out == ""
