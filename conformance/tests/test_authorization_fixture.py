"""Tests of the program `authorization` with a user and a browser."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from program_path import PROGRAM_PATH

from authorization import PASSWORD, RESOURCE, USERNAME
from interop.framework import run as official
from interop.framework.browser import Stuck, consent, register


class RedirectHandler(BaseHTTPRequestHandler):
    """The redirect endpoint of the client."""

    received: str | None = None

    def do_GET(self) -> None:
        type(self).received = self.path
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def program() -> Iterator[str]:
    """Run the program and yield its issuer."""
    command = [sys.executable, "-m", "authorization", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": PROGRAM_PATH}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child.stdout.readline().removeprefix("Serving at ").strip()
        finally:
            child.terminate()
            assert child.wait() == 0


def test_registered_client_gets_code_after_consent() -> None:
    with program() as issuer, HTTPServer(("127.0.0.1", 0), RedirectHandler) as listening:
        redirect_uri = f"http://127.0.0.1:{listening.server_address[1]}/callback"
        params = {
            "response_type": "code",
            "client_id": register(issuer, redirect_uri),
            "redirect_uri": redirect_uri,
            "state": "state-of-this-test",
            "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
            "code_challenge_method": "S256",
        }
        url = f"{issuer}/authorize?{urlencode(params)}"
        with pytest.raises(Stuck, match=r"the status 4.*There is a problem"):
            consent(url, username=USERNAME, password="wrong", back_to=redirect_uri)
        thread = threading.Thread(target=listening.handle_request)
        thread.start()
        consent(url, username=USERNAME, password=PASSWORD, back_to=redirect_uri)
        thread.join()
    received = urlsplit(RedirectHandler.received or "")
    response = parse_qs(received.query)
    assert received.path == "/callback"
    assert response["state"] == ["state-of-this-test"]
    assert response["iss"] == [issuer]
    assert len(response["code"]) == 1


def test_official_framework_has_credentials_of_the_fixture() -> None:
    assert (official.USERNAME, official.PASSWORD, official.RESOURCE) == (USERNAME, PASSWORD, RESOURCE)
