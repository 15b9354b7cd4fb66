"""Tests of the authorization server checks with a user login."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
import trio
from program_path import PROGRAM_PATH

from authorization import PASSWORD, RESOURCE, USERNAME, make_authorization_server
from interop.framework import browser as official_browser
from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.checks.auth.authorization_servers.grants import LOGIN
from mcp_conformance.cli.main import main
from mcp_conformance.drivers.server.targets import free_port
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.verdict import Outcome, Verdict
from mcp_conformance.oauth_testbed.user_login import Login, RedirectMissing, command_browser, open_login
from mcp_conformance.runners.authorization_server import run_authorization_server
from mcp_conformance.wire.http_client import Endpoint
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import LATEST, REVISIONS
from mcp_server.auth.authorization_server import AuthorizationServer, Client, PasswordUsers, hash_password
from mutants.auth.authorization_server import open_raw_issuer

SETTINGS = Settings(timeout=10.0)
BROWSER = official_browser.__file__
BROWSER_COMMAND = (sys.executable, BROWSER, USERNAME, PASSWORD, "{url}")
IDS = frozenset(check.id for check in SERVER_CHECKS if LOGIN in check.needs)


@asynccontextmanager
async def serve_issuer(make: Callable[[str], AuthorizationServer]) -> AsyncIterator[str]:
    """Serve an authorization server for a block and yield its issuer."""
    bind = f"127.0.0.1:{free_port()}"
    async with trio.open_nursery() as nursery:
        await nursery.start(make(f"http://{bind}").serve, bind)
        yield f"http://{bind}"
        nursery.cancel_scope.cancel()


async def run_checks(
    issuer: str, login: Login | None, *, ids: frozenset[str] = IDS, revisions: tuple[str, ...] = (LATEST.name,)
) -> list[Verdict]:
    """Run the checks that need a login and return their verdicts."""
    run = await run_authorization_server(
        issuer,
        SETTINGS,
        revisions=[REVISIONS[name] for name in revisions],
        chosen=ids,
        show=lambda _: None,
        login=login,
    )
    return list(run.verdicts)


async def log_in(url: str) -> None:
    """Log in and consent in a browser, in a thread."""
    back_to = dict(parse_qsl(urlsplit(url).query))["redirect_uri"]
    await trio.to_thread.run_sync(
        partial(official_browser.consent, url, username=USERNAME, password=PASSWORD, back_to=back_to)
    )


def failures(verdicts: list[Verdict]) -> list[str]:
    """Return what did not pass."""
    return [
        f"{each.check} {each.revision} {each.outcome.value}: {each.reason}{each.expected}; {each.observed}"
        for each in verdicts
        if each.outcome is not Outcome.PASSED
    ]


async def test_own_authorization_server_passes_with_shared_logins() -> None:
    login = Login(command_browser(BROWSER_COMMAND), timeout=60.0)
    async with serve_issuer(make_authorization_server) as issuer:
        verdicts = await run_checks(issuer, login, revisions=tuple(REVISIONS))
    assert failures(verdicts) == []
    assert {each.check for each in verdicts} == IDS
    confidential = ["confidential client_secret_basic", "confidential client_secret_post"]
    assert sorted(login.registered) == ["another", "bound", *confidential, "own", "with a query"]


async def test_preregistered_client_is_not_registered_again() -> None:
    def make(issuer: str) -> AuthorizationServer:
        return AuthorizationServer(
            issuer,
            users=PasswordUsers({USERNAME: hash_password(PASSWORD)}),
            resources=[RESOURCE, "http://localhost:3001/mcp"],
            # The port differs in each run, as allowed for loopback redirects.
            clients=[Client.configured("suite", redirect_uris=["http://127.0.0.1/callback"])],
            dpop_nonces=bytes(32),
        )

    login = Login(log_in, timeout=60.0, client_id="suite", resource="http://localhost:3001/mcp")
    async with serve_issuer(make) as issuer:
        ids = frozenset({"auth.as-state", "auth.as-code-owner", "dpop.as-binds", "dpop.as-bound-refused"})
        verdicts = {each.check: each for each in await run_checks(issuer, login, ids=ids)}
    assert verdicts["auth.as-state"].outcome is Outcome.PASSED
    # The proofs need a nonce, which the server sends first.
    assert verdicts["dpop.as-binds"].outcome is Outcome.PASSED
    for id in ("auth.as-code-owner", "dpop.as-bound-refused"):
        assert verdicts[id].outcome is Outcome.NOT_APPLICABLE
        assert "does not register clients" in verdicts[id].reason
    assert login.registered == {}


async def test_login_checks_without_browser_are_not_applicable() -> None:
    async with open_raw_issuer(None) as issuer:
        verdicts = await run_checks(issuer, None)
    assert {each.check for each in verdicts} == IDS
    assert {each.outcome for each in verdicts} == {Outcome.NOT_APPLICABLE}
    assert all("--browser" in each.reason for each in verdicts)


async def no_redirect(_: str) -> None:
    """Do not redirect."""


NO_FORM = [sys.executable, "-c", "import sys; sys.exit('there is no form')", "{url}"]


@pytest.mark.parametrize(
    ("login", "why"),
    [
        (lambda: Login(no_redirect, timeout=0.05), "no request to http://127.0.0.1:"),
        (lambda: Login(command_browser(NO_FORM), timeout=60.0), "ended with the status 1: there is no form"),
        (lambda: Login(command_browser(["/no/such/browser", "{url}"]), timeout=60.0), "cannot be started"),
    ],
)
async def test_browser_without_redirect_makes_checks_not_testable(login: Callable[[], Login], why: str) -> None:
    async with open_raw_issuer(None) as issuer:
        verdicts = await run_checks(issuer, login())
    assert {each.outcome for each in verdicts} == {Outcome.NOT_TESTABLE}
    assert all("the browser did not return" in each.reason and why in each.reason for each in verdicts)


async def test_failed_browser_is_not_opened_again() -> None:
    sent: list[str] = []

    async def browser(url: str) -> None:
        sent.append(url)
        raise RedirectMissing("no")

    async with open_raw_issuer(None) as issuer:
        await run_checks(issuer, Login(browser, timeout=60.0))
    assert len(sent) == 1


async def fetch(url: str) -> int:
    async with Endpoint(url).exchange(Transcript(), "GET") as exchange:
        return exchange.status
    raise AssertionError("the block returns")


async def test_denied_consent_is_not_testable() -> None:
    async def browser(url: str) -> None:
        await fetch(f"{login.redirect_uri}?error=access_denied&error_description=No")

    login = Login(browser, timeout=60.0)
    async with open_raw_issuer(None) as issuer:
        (verdict,) = await run_checks(issuer, login, ids=frozenset({"auth.as-state"}))
    assert verdict.outcome is Outcome.NOT_TESTABLE
    assert verdict.reason == "the control request failed: the authorization response has access_denied: No"


async def test_late_redirect_is_matched_by_state() -> None:
    urls: list[str] = []

    async def browser(url: str) -> None:
        urls.append(url)
        if len(urls) == 1:
            raise RedirectMissing("the window was closed")
        assert await fetch(login.redirect_uri.replace("/callback", "/favicon.ico")) == 404
        assert await fetch(f"{login.redirect_uri}?state=first&code=1") == 200
        assert await fetch(f"{login.redirect_uri}?state=second&code=2") == 200
        raise RedirectMissing("how it ends is of no interest any more")

    async with open_login(Login(browser, timeout=60.0)) as login:
        with pytest.raises(RedirectMissing, match="the window was closed"):
            await login.visit("http://as.example/1", "first")
        assert await login.visit("http://as.example/2", "second") == {"state": "second", "code": "2"}


async def test_pages_of_rejected_requests_are_awaited_once() -> None:
    urls: list[str] = []

    async def browser(url: str) -> None:
        urls.append(url)

    async with open_login(Login(browser, timeout=0.05)) as login:
        assert await login.visit_rejected("http://as.example/1", "first") == {}
        assert await login.visit_rejected("http://as.example/2", "second") == {}
    assert urls == ["http://as.example/1"]


async def test_code_at_another_redirect_uri_is_received() -> None:
    async def browser(_: str) -> None:
        elsewhere = login.redirect_uri.replace("/callback", "/elsewhere")
        assert await fetch(f"{elsewhere}?state=other&code=1") == 404
        assert await fetch(f"{elsewhere}?state=first&code=2") == 200

    async with open_login(Login(browser, timeout=60.0)) as login:
        assert await login.visit_rejected("http://as.example/1", "first") == {"state": "first", "code": "2"}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--browser", "firefox"), "has no {url}"),
        (("--browser", "firefox '{url}"), "No closing quotation"),
        (("--client-id", "x"), "it needs --browser"),
        (("--resource", "http://localhost/mcp"), "it needs --browser or --https-cert"),
    ],
)
def test_invalid_login_options_return_usage_error(
    arguments: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["authorization-server", "--issuer", "http://127.0.0.1:1", *arguments]) == 2
    assert why in capsys.readouterr().err


def test_browser_command_is_left_out_of_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    program = [sys.executable, "-m", "authorization", "--port", "0"]
    with subprocess.Popen(
        program, env={**os.environ, "PYTHONPATH": PROGRAM_PATH}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        issuer = process.stdout.readline().removeprefix("Serving at ").strip()
        arguments = ["--issuer", issuer, "--resource", RESOURCE, "--browser", shlex.join(BROWSER_COMMAND)]
        only = ["--check", "auth.as-state", "--revision", LATEST.name]
        status = main(["authorization-server", *arguments, *only, "--json", str(report)])
        process.terminate()
    assert f"server {issuer}: passed" in capsys.readouterr().out
    assert status == 0
    assert f"--browser '<command> {{url}}' --resource {RESOURCE}" in report.read_text()
    assert PASSWORD not in report.read_text()


@pytest.mark.parametrize(
    ("check", "arguments"),
    [
        ("auth.as-metadata", "authorization-server --issuer URL --check auth.as-metadata"),
        ("auth.as-state", 'authorization-server --issuer URL --browser "... {url}" --check auth.as-state'),
    ],
)
def test_explanation_names_command_of_check(check: str, arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", check]) == 0
    assert f"mcp-conformance {arguments}" in capsys.readouterr().out
