"""The command `mcp-server auth-server`: its options, their error messages, and how it stops."""

from __future__ import annotations

import getpass
import io
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from mcp_server.auth.authorization_server import SqliteStore, StoredUsers
from mcp_server.cli import auth_server
from mcp_server.cli.main import main

NEEDED = ("auth-server", "--issuer", "http://127.0.0.1:9000", "--resource", "https://mcp.example/mcp")


def test_auth_server_serves_users_until_sigterm(tmp_path: Path) -> None:
    arguments = [
        "--issuer",
        "http://127.0.0.1:0/auth",
        *NEEDED[3:],
        "--scope",
        "notes:read=Read your notes",
        "--scope",
        "plain",
    ]
    arguments += ["--user", "ada", "--store", str(tmp_path / "as.sqlite"), "--no-registration"]
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_server", "auth-server", *arguments],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("lovelace\n")
        process.stdin.close()
        prefix, _, issuer = process.stderr.readline().strip().rpartition(" ")
        assert prefix == "the authorization server is at"
        with urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration", timeout=30) as answer:
            document = json.load(answer)
        assert document["issuer"] == issuer
        assert document["scopes_supported"] == ["notes:read", "plain"]
        assert "registration_endpoint" not in document
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert not process.stderr.read()

    async def verify_users() -> tuple[str | None, str | None]:
        store = SqliteStore(tmp_path / "as.sqlite")
        users = StoredUsers(store)
        found = await users.verify("ada", "lovelace"), await users.verify("ada", "byron")
        await store.aclose()
        return found

    assert trio.run(verify_users) == ("ada", None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "no user can log in: give --user NAME"),
        (("--user", "ada"), "no password for user ada"),
        (("--issuer", "http://as.example"), "https"),
        (("--issuer", "https://as.example#x"), "fragment"),
        (("--resource", "nonsense"), "resource"),
        (("--scope", "a b=Two"), "a character that RFC 6749 does not allow in a scope"),
        (("--bind", "nowhere"), "is not an address to bind to"),
        (("--tls-key", "key.pem"), "tls_key needs tls_cert"),
        (("--tls-cert", "nothing.pem"), "cannot load the certificate"),
        (("--store", "/nowhere/x"), "cannot be opened"),
    ],
)
def test_invalid_option_named_in_error(
    options: Sequence[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    store = () if "--store" in options or not options else ("--store", str(tmp_path / "as.sqlite"))
    assert main([*NEEDED, *store, *options]) == 2
    output = capsys.readouterr().err
    assert output.startswith("mcp-server: ")
    assert expected in output


def test_issuer_decides_default_bind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("x\n"))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"http://127.0.0.1:{other.getsockname()[1]}"
        assert main(["auth-server", "--issuer", taken, *NEEDED[3:], "--user", "ada"]) == 2
    assert "the address is in use" in capsys.readouterr().err
    assert auth_server._bind("https://[::1]:8443/auth") == "[::1]:8443"
    assert auth_server._bind("https://as.example") == "as.example:443"
    assert auth_server._bind("https://as.example:0/x") == "as.example:0"


def test_password_prompt_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", lambda prompt: f"<{prompt}>")
    assert auth_server._password("ada") == "<password of ada: >"


def test_missing_extra_named_in_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in sys.modules if name.startswith("mcp_server.auth.authorization_server")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "authlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "authlib", None)
    assert main(NEEDED) == 2
    assert "pip install 'trio-mcp-server[authorization-server]'" in capsys.readouterr().err
