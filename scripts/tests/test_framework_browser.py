from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode

import pytest

from interop.framework.browser import Stuck, consent, main

LOGIN = """
<form class="inline" method="post" action="/switch"><input type="hidden" name="t" value="0"><button>Another account</button></form>
<form method="POST" action="login?next=1"><input type="hidden" name="t" value="1&amp;2">
<input name="user"><input type="password" name="secret"><button class="main">Log in</button></form>
"""
ALLOW = """
<form method="get" action="/search"><input name="q"></form>
<form method="post" action="/decide"><input type="checkbox" name="scope" value="read" checked>
<input type="checkbox" name="remember" value="yes"><button name="decision" value="refuse">No</button>
<button name="decision" value="allow">Yes</button></form>
"""


class LoginSite(ThreadingHTTPServer):
    """A site with a login page and a consent page, which redirects the browser to `/callback`."""

    def __init__(self, first: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.first = first
        self.sent: list[tuple[str, dict[str, list[str]], str | None, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    server: LoginSite

    def do_GET(self) -> None:
        self._answer("OK" if self.path.startswith("/callback") else self.server.first, {"Set-Cookie": "s=1"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.sent.append((self.path, parse_qs(body), self.headers["Origin"], self.headers["Cookie"]))
        if self.path == "/decide":
            self._answer("", {"Location": "/callback?code=1"}, 303)
        else:
            self._answer(ALLOW)

    def _answer(self, text: str, headers: dict[str, str] | None = None, status: int = 200) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve_site(first: str) -> Iterator[LoginSite]:
    with LoginSite(first) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_browser_logs_in_and_consents() -> None:
    with serve_site(LOGIN) as server:
        consent(f"{server.url}/authorize?x=1", username="ada", password="p", back_to=f"{server.url}/callback")
    assert server.sent == [
        ("/login?next=1", {"t": ["1&2"], "user": ["ada"], "secret": ["p"]}, server.url, "s=1"),
        ("/decide", {"scope": ["read"], "decision": ["allow"]}, server.url, "s=1"),
    ]


def test_page_without_form_reported() -> None:
    with serve_site("<h1>There is\n a problem</h1>") as server, pytest.raises(Stuck, match="There is a problem"):
        consent(f"{server.url}/authorize", username="ada", password="p", back_to=f"{server.url}/callback")


def test_error_status_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "do_GET", lambda self: self._answer("<h1>No.</h1>", status=403))
    with serve_site("") as server, pytest.raises(Stuck, match="/authorize has the status 403: <h1>No"):
        consent(f"{server.url}/authorize", username="ada", password="p", back_to=f"{server.url}/callback")


def test_page_limit_ends_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "do_POST", Handler.do_GET)
    with serve_site(LOGIN) as server, pytest.raises(Stuck, match="after 5 pages"):
        consent(f"{server.url}/authorize", username="ada", password="p", back_to=f"{server.url}/callback")


def test_browser_runs_as_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_site(LOGIN) as server:
        url = f"{server.url}/authorize?{urlencode({'redirect_uri': f'{server.url}/callback'})}"
        monkeypatch.setattr("sys.argv", ["official_browser", "ada", "p", url])
        assert main() == 0
        assert [path for path, *_ in server.sent] == ["/login?next=1", "/decide"]
        server.first = "<h1>There is a problem</h1>"
        assert main() == 1
    assert "There is a problem" in capsys.readouterr().err
