from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Protocol

import pytest

from mcp_client.cli.arguments import UsageError, headers_of, server_among
from mcp_client.cli.main import main
from mcp_core.jsonrpc.messages import JsonObject, JsonValue

FIELDS: JsonObject = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
SCHEMA: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
RESULTS: dict[str, JsonObject] = {
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "resources": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "far away", "version": "3"}},
        **FIELDS,
    },
    "tools/list": {"tools": [{"name": "forecast", "inputSchema": SCHEMA}], **FIELDS},
    "tools/call": {"content": [{"type": "text", "text": "dry"}], "resultType": "complete"},
    "resources/read": {"contents": [{"uri": "http://a/b", "text": "words"}], **FIELDS},
}


class Server(BaseHTTPRequestHandler):
    """A modern server that requires a token when `token` is set."""

    protocol_version = "HTTP/1.1"
    token: ClassVar[str | None] = None
    status: ClassVar[int] = 200

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.token is not None and self.headers.get("Authorization") != f"Bearer {self.token}":
            self._respond(401, {"error": "who are you?"})
        elif self.status != 200:
            self._respond(self.status, {"error": "broken"})
        else:
            self._respond(200, {"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]})

    def _respond(self, status: int, value: JsonValue) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Suppress the log."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


class Run(Protocol):
    """A run of the command line in this process, which returns exit code, stdout and stderr."""

    def __call__(self, *words: str) -> tuple[int, str, str]: ...


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setitem(sys.modules, "rich.console", None)

    def run(*words: str) -> tuple[int, str, str]:
        try:
            code: object = main(words)
        except SystemExit as stop:
            code = stop.code
        assert isinstance(code, int)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_probe_url_shows_server_without_secrets(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "token", "swordfish")
    code, out, err = run("probe", url, "--header", "Authorization: Bearer swordfish")
    assert (code, err) == (0, "")
    assert "far away 3" in out
    assert "2026-07-28 (modern)" in out
    assert "Authorization=***" in out
    assert "swordfish" not in out
    code, out, _ = run("probe", "--json", "--header", "Authorization:Bearer swordfish", "--", url)
    assert json.loads(out)["header"] == {"Authorization": "***"}
    assert "swordfish" not in out


def test_commands_accept_url(run: Run, url: str) -> None:
    assert run("list", "tools", url)[0] == 0
    code, out, _ = run("call", "forecast", "city=Ghent", url)
    assert (code, out) == (0, "dry\n")
    # The last URL is the server.
    code, out, _ = run("read", "http://a/b", url)
    assert (code, out) == (0, "words\n")


def test_probe_401_names_header_option(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "token", "swordfish")
    code, out, err = run("probe", url, "--header", "Authorization: Bearer guess", "--json")
    assert code == 3
    assert json.loads(out)["error"]["type"] == "AccessDenied"
    assert json.loads(out)["error"]["status"] == 401
    assert "--header 'Authorization" in err
    assert "guess" not in err


def test_probe_status_500_advises_to_check_url(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "status", 500)
    code, _, err = run("probe", url)
    assert code == 3
    assert "status 500" in err
    assert "Check the URL" in err


def test_probe_unreachable_server_exits_3(run: Run) -> None:
    code, _, err = run("probe", "http://127.0.0.1:1/mcp")
    assert code == 3
    assert "Check that the server runs" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("probe", "--", "http://127.0.0.1:1/mcp", "more"), "unexpected word 'more'"),
        (("probe", "--env", "A=b", "http://127.0.0.1:1/mcp"), "--env requires a command"),
        (("probe", "--header", "secret", "http://127.0.0.1:1/mcp"), "'NAME: VALUE'"),
        (("probe", "--header", "Accept: x", "http://127.0.0.1:1/mcp"), "set by the protocol itself"),
        (("probe", "--header", "A: b", "--", "my-server"), "a command does not have headers"),
        (("probe", "http://user:secret@127.0.0.1/mcp"), "user or password"),
    ],
)
def test_url_usage_error_exits_2(run: Run, words: tuple[str, ...], complaint: str) -> None:
    code, _, err = run(*words)
    assert code == 2
    assert complaint in err
    assert "secret" not in err


@pytest.mark.parametrize(
    ("words", "others", "server"),
    [
        (["probe", "https://a/b"], ["probe"], ["https://a/b"]),
        (["probe", "HTTPS://a/b", "--json"], ["probe", "--json"], ["HTTPS://a/b"]),
        (["--json", "https://a/b"], ["--json"], ["https://a/b"]),
        (["listen", "https://a/b", "--uri", "https://c"], ["listen", "--uri", "https://c"], ["https://a/b"]),
        (["read", "https://c", "--", "x", "https://a"], ["read", "https://c"], ["x", "https://a"]),
        (["probe"], ["probe"], []),
        (["https://a"], [], ["https://a"]),
    ],
)
def test_server_split_from_other_arguments(words: list[str], others: list[str], server: list[str]) -> None:
    assert server_among(words) == (others, server)


def test_header_options_parsed() -> None:
    assert headers_of(["A: b", "C:d:e", " X : "]) == {"A": "b", "C": "d:e", "X": ""}
    with pytest.raises(UsageError, match="duplicate header"):
        headers_of(["A: b", "a: c"])


def test_config_headers_sent_and_overridden_by_options(
    url: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "token", "good")
    config = tmp_path / "mcp.json"
    config.write_text(
        json.dumps({"mcpServers": {"far": {"httpUrl": url, "headers": {"Authorization": "Bearer good"}}}})
    )
    assert run("probe", "--config", str(config), "--login", "never")[0] == 0
    code, _, err = run("probe", "--config", str(config), "--login", "never", "--header", "authorization: Bearer bad")
    assert code == 3
    assert "401" in err
    code, _, err = run("probe", "--config", str(config), "--cwd", "/")
    assert (code, "--cwd requires a command" in err) == (2, True)
