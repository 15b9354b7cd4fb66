"""The checks of an authorization server with somebody who logs in: ours passes, and who does not come back is told of."""

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
WORDS = (sys.executable, BROWSER, USERNAME, PASSWORD, "{url}")
IDS = frozenset(check.id for check in SERVER_CHECKS if LOGIN in check.needs)


@asynccontextmanager
async def served(make: Callable[[str], AuthorizationServer]) -> AsyncIterator[str]:
    """Serves an authorization server of ours, for a block; gives its issuer."""
    bind = f"127.0.0.1:{free_port()}"
    async with trio.open_nursery() as nursery:
        await nursery.start(make(f"http://{bind}").serve, bind)
        yield f"http://{bind}"
        nursery.cancel_scope.cancel()


async def judged(
    issuer: str, login: Login | None, *, ids: frozenset[str] = IDS, revisions: tuple[str, ...] = (LATEST.name,)
) -> list[Verdict]:
    """What the checks come to that take a login."""
    run = await run_authorization_server(
        issuer,
        SETTINGS,
        revisions=[REVISIONS[name] for name in revisions],
        chosen=ids,
        show=lambda _: None,
        login=login,
    )
    return list(run.verdicts)


async def consenting(url: str) -> None:
    """Ada at her browser, in a thread."""
    back_to = dict(parse_qsl(urlsplit(url).query))["redirect_uri"]
    await trio.to_thread.run_sync(
        partial(official_browser.consent, url, username=USERNAME, password=PASSWORD, back_to=back_to)
    )


def told(verdicts: list[Verdict]) -> list[str]:
    """What did not pass."""
    return [
        f"{each.check} {each.revision} {each.outcome.value}: {each.reason}{each.expected}; {each.observed}"
        for each in verdicts
        if each.outcome is not Outcome.PASSED
    ]


async def test_our_authorization_server_passes_and_the_revisions_share_the_logins() -> None:
    login = Login(command_browser(WORDS), timeout=60.0)
    async with served(make_authorization_server) as issuer:
        verdicts = await judged(issuer, login, revisions=tuple(REVISIONS))
    assert told(verdicts) == []
    assert {each.check for each in verdicts} == IDS
    assert sorted(login.registered) == ["another", "bound", "own"]


async def test_a_client_that_is_known_already_needs_no_registration() -> None:
    def make(issuer: str) -> AuthorizationServer:
        return AuthorizationServer(
            issuer,
            users=PasswordUsers({USERNAME: hash_password(PASSWORD)}),
            resources=[RESOURCE, "http://localhost:3001/mcp"],
            # Its port is another one on each run, and may be.
            clients=[Client.configured("suite", redirect_uris=["http://127.0.0.1/callback"])],
            dpop_nonces=bytes(32),
        )

    login = Login(consenting, timeout=60.0, client_id="suite", resource="http://localhost:3001/mcp")
    async with served(make) as issuer:
        ids = frozenset({"auth.as-state", "auth.as-code-owner", "dpop.as-binds", "dpop.as-bound-refused"})
        verdicts = {each.check: each for each in await judged(issuer, login, ids=ids)}
    assert verdicts["auth.as-state"].outcome is Outcome.PASSED
    # Its proofs need a nonce, which is told first.
    assert verdicts["dpop.as-binds"].outcome is Outcome.PASSED
    for id in ("auth.as-code-owner", "dpop.as-bound-refused"):
        assert verdicts[id].outcome is Outcome.NOT_APPLICABLE
        assert "does not register clients" in verdicts[id].reason
    assert login.registered == {}


async def test_without_somebody_who_logs_in_nothing_applies_that_takes_a_login() -> None:
    async with open_raw_issuer(None) as issuer:
        verdicts = await judged(issuer, None)
    assert {each.check for each in verdicts} == IDS
    assert {each.outcome for each in verdicts} == {Outcome.NOT_APPLICABLE}
    assert all("--browser" in each.reason for each in verdicts)


async def nowhere(_: str) -> None:
    """A browser that opens a window at which there is nobody."""


STUCK = [sys.executable, "-c", "import sys; sys.exit('there is no form')", "{url}"]


@pytest.mark.parametrize(
    ("login", "why"),
    [
        (lambda: Login(nowhere, timeout=0.05), "nobody came to http://127.0.0.1:"),
        (lambda: Login(command_browser(STUCK), timeout=60.0), "ended with the status 1: there is no form"),
        (lambda: Login(command_browser(["/no/such/browser", "{url}"]), timeout=60.0), "cannot be started"),
    ],
)
async def test_a_browser_that_does_not_come_back_leaves_nothing_to_judge(login: Callable[[], Login], why: str) -> None:
    async with open_raw_issuer(None) as issuer:
        verdicts = await judged(issuer, login())
    assert {each.outcome for each in verdicts} == {Outcome.NOT_TESTABLE}
    assert all("the browser did not return" in each.reason and why in each.reason for each in verdicts)


async def test_nobody_is_sent_to_a_browser_again_that_did_not_come_back() -> None:
    sent: list[str] = []

    async def browser(url: str) -> None:
        sent.append(url)
        raise RedirectMissing("no")

    async with open_raw_issuer(None) as issuer:
        await judged(issuer, Login(browser, timeout=60.0))
    assert len(sent) == 1


async def get(url: str) -> int:
    async with Endpoint(url).exchange(Transcript(), "GET") as exchange:
        return exchange.status
    raise AssertionError("the block returns")


async def test_who_does_not_agree_is_no_fault_of_the_server() -> None:
    async def browser(url: str) -> None:
        await get(f"{login.redirect_uri}?error=access_denied&error_description=No")

    login = Login(browser, timeout=60.0)
    async with open_raw_issuer(None) as issuer:
        (verdict,) = await judged(issuer, login, ids=frozenset({"auth.as-state"}))
    assert verdict.outcome is Outcome.NOT_TESTABLE
    assert verdict.reason == "the control request failed: the authorization response has access_denied: No"


async def test_who_comes_late_is_not_taken_for_who_was_sent_last() -> None:
    urls: list[str] = []

    async def browser(url: str) -> None:
        urls.append(url)
        if len(urls) == 1:
            raise RedirectMissing("the window was closed")
        assert await get(login.redirect_uri.replace("/callback", "/favicon.ico")) == 404
        assert await get(f"{login.redirect_uri}?state=first&code=1") == 200
        assert await get(f"{login.redirect_uri}?state=second&code=2") == 200
        raise RedirectMissing("how it ends is of no interest any more")

    async with open_login(Login(browser, timeout=60.0)) as login:
        with pytest.raises(RedirectMissing, match="the window was closed"):
            await login.visit("http://as.example/1", "first")
        assert await login.visit("http://as.example/2", "second") == {"state": "second", "code": "2"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--browser", "firefox"), "has no {url}"),
        (("--browser", "firefox '{url}"), "No closing quotation"),
        (("--client-id", "x"), "they need --browser"),
        (("--resource", "http://localhost/mcp"), "they need --browser"),
    ],
)
def test_options_of_a_login_have_to_make_sense(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["authorization-server", "--issuer", "http://127.0.0.1:1", *words]) == 2
    assert why in capsys.readouterr().err


def test_the_command_logs_in_and_keeps_the_words_of_the_browser_to_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    program = [sys.executable, "-m", "authorization", "--port", "0"]
    with subprocess.Popen(
        program, env={**os.environ, "PYTHONPATH": PROGRAM_PATH}, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        issuer = child.stdout.readline().removeprefix("Serving at ").strip()
        words = ["--issuer", issuer, "--resource", RESOURCE, "--browser", shlex.join(WORDS)]
        only = ["--check", "auth.as-state", "--revision", LATEST.name]
        status = main(["authorization-server", *words, *only, "--json", str(report)])
        child.terminate()
    assert f"server {issuer}: passed" in capsys.readouterr().out
    assert status == 0
    assert f"--browser '<command> {{url}}' --resource {RESOURCE}" in report.read_text()
    assert PASSWORD not in report.read_text()


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("auth.as-metadata", "authorization-server --issuer URL --check auth.as-metadata"),
        ("auth.as-state", 'authorization-server --issuer URL --browser "... {url}" --check auth.as-state'),
    ],
)
def test_a_check_says_by_which_command_it_is_run(check: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", check]) == 0
    assert f"mcp-conformance {words}" in capsys.readouterr().out
