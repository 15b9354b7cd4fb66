"""Logins on the command line: real processes, a protected server, a browser that goes where it is sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs

import attrs
import keyring
import keyring.backends.null
import pytest
import trio
from auth_world import World, protected
from file_ring import Ring
from zoo import Asked, Reply, legacy

from mcp_client.auth import MemoryStore, OAuth, Paste, SystemBrowser
from mcp_client.cli.auth_diagnosis import Diagnosis
from mcp_client.cli.auth_diagnosis_report import _setting
from mcp_client.cli.login import Keeping, authorization
from mcp_client.cli.main import main
from mcp_client.cli.output import Screen
from mcp_client.transports.http.authorizer import ConnectionTarget
from mcp_core.errors import UnsafeUrl
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import CLIENT_LIMITS
from mcp_core.oauth.records import ClientRecord

TESTS = Path(__file__).resolve().parent
# Goes where it is sent, without a proxy.
BROWSER_PROGRAM = """
import sys, urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1]).read()
"""


@attrs.define
class Town(World):
    """A world whose authorization server has pages, and can revoke."""

    revocations: list[dict[str, str]] = attrs.field(factory=list)
    revokes: bool = True
    metadata: JsonObject = attrs.field(factory=dict)
    """What is different in its metadata."""
    resource: JsonObject = attrs.field(factory=dict)
    """What is different in the metadata of the server."""

    async def answer(self, asked: Asked, reply: Reply) -> None:
        path = asked.target.partition("?")[0]
        if path.endswith("/authorize"):
            self.asked.append(asked)
            await reply.body(302, b"", "text/plain", {"Location": self.authorize(f"{self.origin}{asked.target}")})
        elif path.endswith("/revoke"):
            self.asked.append(asked)
            self.revocations.append({name: values[0] for name, values in parse_qs(asked.body.decode()).items()})
            await reply.body(200 if self.revokes else 503)
        else:
            await super().answer(asked, reply)

    async def _document(self, path: str, reply: Reply) -> None:
        resource: JsonObject = {
            "resource": self.url,
            "authorization_servers": [self.issuer],
            "scopes_supported": ["notes:read", "notes:write"],
            **self.resource,
        }
        metadata: JsonObject = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "code_challenge_methods_supported": ["S256"],
            **self.metadata,
        }
        documents = {
            "/.well-known/oauth-protected-resource/mcp": resource,
            "/.well-known/oauth-authorization-server": metadata,
        }
        if path in documents and documents[path].get("absent") is None:
            await reply.json({name: value for name, value in documents[path].items() if value is not None})
        else:
            await reply.body(404)


@attrs.define
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> JsonObject:
        found: JsonObject = json.loads(self.out)
        return found


class Run(Protocol):
    """Runs a command line: in this process, in a thread."""

    async def __call__(self, *words: str) -> Done: ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somebody's home: with a keyring, and a browser."""
    browser = tmp_path / "browser.py"
    browser.write_text(BROWSER_PROGRAM)
    for name, value in {
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TEST_RING": str(tmp_path / "ring"),
        "BROWSER": f"{sys.executable} {browser}",
    }.items():
        monkeypatch.setenv(name, value)
    before = keyring.get_keyring()
    keyring.set_keyring(Ring())
    yield tmp_path
    keyring.set_keyring(before)


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    async def run(*words: str) -> Done:
        def call() -> int:
            try:
                return main(words)
            except SystemExit as stop:
                return int(str(stop.code))

        code = await trio.to_thread.run_sync(call)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


def without_keyring() -> None:
    keyring.set_keyring(keyring.backends.null.Keyring())  # type: ignore[no-untyped-call]  # keyring has no types there


# --- diagnose-auth ---------------------------------------------------------------------------------------------------


async def test_a_diagnosis_tells_what_a_login_would_do_and_does_nothing(run: Run) -> None:
    town = Town()
    async with protected(town) as server:
        done = await run("diagnose-auth", server.url)
    assert (done.code, done.err) == (0, "")
    resource, metadata = (
        f"{town.origin}/.well-known/{name}" for name in ("oauth-protected-resource/mcp", "oauth-authorization-server")
    )
    assert done.out.splitlines() == [
        f"server        {town.url}",
        "asked         server/discover: 401",
        "authorization wanted",
        f"challenge     Bearer, resource_metadata {resource}, scope notes:read",
        f"tried         200 {resource} (resource_metadata): metadata of {town.url}",
        f"tried         200 {metadata} (authorization server metadata): metadata of {town.issuer}",
        f"issuer        {town.issuer}, as named by the server",
        f"registration  dynamic, at {town.origin}/register; not performed",
        f"browser       would open {town.origin}/authorize",
        "scope         notes:read",
        f"resource      {town.url}",
        "PKCE          S256",
        "verdict       login would reach the browser; user consent is required from there",
    ]
    assert [asked.target for asked in town.asked] == [
        "/mcp",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
    ]


async def test_a_diagnosis_for_machines_has_the_whole_metadata_and_no_secret(run: Run) -> None:
    town = Town(metadata={"service_documentation": "https://as.example/?key=swordfish&mackerel"})
    async with protected(town) as server:
        done = await run("diagnose-auth", f"{server.url}?key=swordfish", "--header", "X-Key: mackerel", "--json")
    assert (done.code, done.err) == (0, "")
    report = done.data
    assert report["server"] == f"{town.url}?***"
    assert report["could_log_in"] is True
    assert report["asked"] == [{"operation": "server/discover", "status": 401}]
    assert report["resource"]["scopes_supported"] == ["notes:read", "notes:write"]  # type: ignore[index,call-overload]  # it is a document
    assert report["authorization_server"]["service_documentation"] == "https://as.example/?***&***"  # type: ignore[index,call-overload]  # likewise
    assert report["request"] == {
        "endpoint": f"{town.origin}/authorize",
        "scope": "notes:read",
        "resource": f"{town.url}",
        "pkce": "S256",
    }
    assert [asked.headers.get("x-key") for asked in town.asked] == ["mackerel", None, None]
    assert "swordfish" not in done.out
    assert "mackerel" not in done.out


FAULTS: list[tuple[JsonObject, JsonObject, str, str, str]] = [
    (
        {"issuer": "https://as.example"},
        {},
        "IssuerMismatch",
        "the metadata has the issuer 'https://as.example'",
        "authorization_server=",
    ),
    ({"absent": True}, {}, "DiscoveryFailed", "no metadata of", "authorization_server="),
    ({"code_challenge_methods_supported": None}, {}, "DiscoveryFailed", "PKCE", "No client setting can prevent this"),
    ({"token_endpoint": None}, {}, "DiscoveryFailed", "no token_endpoint", "No client setting can prevent this"),
    ({"registration_endpoint": None}, {}, "RegistrationFailed", "no client id", "OAuth(credentials="),
    ({"authorization_endpoint": "javascript:alert(1)"}, {}, "UnsafeUrl", "authorization_endpoint", "OAuth(networks="),
    ({}, {"resource": "https://mcp.example/mcp"}, "DiscoveryFailed", "describes 'https://mcp.example/mcp'", "="),
    ({}, {"authorization_servers": ["http://169.254.169.254/"]}, "DiscoveryFailed", "no metadata of", "="),
    ({}, {"dpop_bound_access_tokens_required": True}, "DiscoveryFailed", "there is no key", "OAuth(proof="),
]


@pytest.mark.parametrize(("metadata", "resource", "kind", "why", "setting"), FAULTS)
async def test_what_a_login_would_fail_with_is_told_with_the_setting_that_governs_it(
    metadata: JsonObject, resource: JsonObject, kind: str, why: str, setting: str, run: Run
) -> None:
    town = Town(metadata=metadata, resource=resource)
    async with protected(town) as server:
        told, done = await run("diagnose-auth", server.url), await run("diagnose-auth", server.url, "--json")
    assert (told.code, done.code) == (1, 1)
    problem = done.data["problem"]
    assert isinstance(problem, dict)
    assert problem["type"] == kind
    assert why in str(problem["message"])
    assert setting in str(problem["setting"])
    assert done.data["could_log_in"] is False
    assert "verdict       a login would fail: " in told.out
    assert setting in told.out.splitlines()[-1]
    assert not town.clients
    assert not town.authorized
    assert not [asked for asked in town.asked if "169.254" in asked.headers.get("host", "")]


async def test_a_url_that_is_not_even_asked_is_told_with_the_reason(run: Run) -> None:
    town = Town(resource={"authorization_servers": ["http://169.254.169.254/"]})
    async with protected(town) as server:
        done = await run("diagnose-auth", server.url)
    (line,) = [line for line in done.out.splitlines() if "169.254.169.254/ (" in line]
    assert line.startswith("tried         --- http://169.254.169.254/ (issuer): ")


async def test_a_server_that_answers_without_a_token_needs_no_login(run: Run) -> None:
    town = Town(protects=lambda asked: False, resource={"absent": True})
    async with protected(town) as server:
        done = await run("diagnose-auth", server.url)
        town.resource = {}
        known = await run("diagnose-auth", server.url)
    assert (done.code, known.code) == (0, 0)
    assert "authorization not wanted" in done.out
    assert done.out.splitlines()[-1] == "verdict       the server does not require a token"
    # Neither default paths are taken for a sign, nor what is missing for a fault.
    assert "issuer" not in done.out
    assert "asked         tools/list: " in done.out
    # Who has metadata all the same is shown with them.
    assert f"issuer        {town.issuer}, as named by the server" in known.out
    assert known.out.splitlines()[-1] == "verdict       the server does not require a token"


async def test_a_server_that_wants_a_token_for_its_tools_only_is_found_out(run: Run) -> None:
    town = Town(protects=lambda asked: b"tools/list" in asked.body)
    async with protected(town) as server:
        done = await run("diagnose-auth", server.url)
    assert done.code == 0
    assert "asked         server/discover: 200\nasked         tools/list: 401\nauthorization wanted" in done.out


async def test_a_legacy_server_is_diagnosed_too(run: Run) -> None:
    town = Town(inner=legacy())
    async with protected(town) as server:
        done = await run("diagnose-auth", server.url, "--revision", "2025-06-18")
    assert done.code == 0
    assert "asked         initialize: 401" in done.out


async def test_a_server_that_is_not_there_cannot_be_diagnosed(run: Run) -> None:
    done = await run("diagnose-auth", "http://127.0.0.1:1/mcp", "--json")
    assert done.code == 1
    assert done.data["authorization"] == "unknown"
    problem = done.data["problem"]
    assert isinstance(problem, dict)
    assert problem["setting"] == "The server did not respond, so a login is unknown."


async def test_a_server_in_clear_text_is_told_to_be_the_fault() -> None:
    diagnosis = Diagnosis(MemoryStore())
    async with trio.open_nursery() as nursery:
        site = ConnectionTarget(
            url="http://192.0.2.1/mcp", nursery=nursery, waiting=nullcontext, revisions=(), limits=CLIENT_LIMITS
        )
        await diagnosis.authorizer(site).run()
    assert isinstance(diagnosis.error, UnsafeUrl)
    assert "it is not https" in diagnosis.error.message
    assert (
        _setting(diagnosis.error, None) == "Tokens require https or a server on this machine; no setting changes that."
    )


async def test_an_authorization_server_that_does_not_answer_is_told(run: Run) -> None:
    town = Town(resource={"authorization_servers": ["http://127.0.0.1:1"]})
    async with protected(town) as server:
        done = await run("diagnose-auth", server.url)
    assert done.code == 1
    assert "tried         --- http://127.0.0.1:1/.well-known/oauth-authorization-server " in done.out
    assert "no response: " in done.out


# --- logging in ------------------------------------------------------------------------------------------------------


async def test_a_login_is_kept_for_the_next_command_and_renewed_without_anybody(run: Run, home: Path) -> None:
    town = Town()
    async with protected(town) as server:
        first = await run("probe", server.url, "--login", "auto")
        second = await run("probe", server.url)
        # The token ends, the login does not.
        town.revoke()
        third = await run("probe", server.url, "--login", "never")
        diagnosis = await run("diagnose-auth", server.url)
        # Now the login ends, too.
        town.forget()
        fourth = await run("probe", server.url)
    assert [done.code for done in (first, second, third, fourth)] == [0, 0, 0, 3], (first, second, third, fourth)
    assert "To log in, use the window that your browser opens." in first.err
    assert (second.err, third.err) == ("", "")
    assert town.grants_made == ["authorization_code", "refresh_token", "refresh_token"]
    assert town.clients == ["c1"]
    assert "registration  stored earlier (dynamic)" in diagnosis.out
    assert "there is no terminal" in fourth.err
    assert "--login auto" in fourth.err
    assert {name.partition(" http")[0] for name in json.loads((home / "ring").read_text())} == {"mcp clients"}


@pytest.mark.parametrize("how", [(), ("--login", "never")])
async def test_without_anybody_there_a_login_fails_with_what_to_do(how: tuple[str, ...], run: Run) -> None:
    town = Town()
    async with protected(town) as server:
        done = await run("probe", server.url, *how, "--json")
    assert done.code == 3
    error = done.data["error"]
    assert isinstance(error, dict)
    assert error["type"] == "AuthorizationRefused"
    assert "diagnose-auth" in done.err
    # Not even a client was registered for it.
    assert not town.clients


async def test_without_a_safe_keyring_the_login_is_for_one_command_and_that_is_said(run: Run) -> None:
    town = Town()
    without_keyring()
    async with protected(town) as server:
        first = await run("probe", server.url, "--login", "auto")
        second = await run("probe", server.url)
    assert (first.code, second.code) == (0, 3)
    assert "The next command must log in again: no secure keyring: found keyring.backends.null" in first.err


async def test_a_query_that_may_be_a_key_is_not_shown_in_an_error(run: Run) -> None:
    town = Town(metadata={"absent": True})
    async with protected(town) as server:
        done = await run("probe", f"{server.url}?key=swordfish", "--login", "auto", "--json")
    assert done.code == 3
    assert "DiscoveryFailed" in done.out
    assert "swordfish" not in done.out + done.err


async def test_credentials_of_ones_own_take_the_place_of_a_login(run: Run) -> None:
    town = Town()
    async with protected(town) as server:
        done = await run("probe", server.url, "--login", "auto", "--header", "authorization: Bearer guess")
    assert done.code == 3
    assert "Log in with --login auto" in done.err
    assert len(town.asked) == 1


def test_who_is_asked_depends_on_the_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(how: str | None, url: str = "https://mcp.example/mcp", *headers: str) -> object:
        auth = authorization(url, how, headers, Screen())
        return auth._options.user_agent if isinstance(auth, OAuth) else auth

    assert type(chosen(None)).__name__ == "_Nobody"
    assert isinstance(chosen("auto"), SystemBrowser)
    assert isinstance(chosen("paste"), Paste)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert isinstance(chosen(None), SystemBrowser)
    assert type(chosen("never")).__name__ == "_Nobody"
    # Tokens are not sent in clear text, so there is nothing to log in for.
    assert chosen("auto", "http://mcp.example/mcp") is None
    assert chosen("auto", "https://mcp.example/mcp", "X-Key", "AUTHORIZATION") is None


async def test_a_client_id_is_asked_for_where_there_is_a_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["c7"]

    class Terminal(Screen):
        interactive = True

        def ask(self, question: str) -> str:
            if not answers:
                raise EOFError
            return answers.pop()

    async def asked(screen: Screen, how: str) -> ClientRecord | None:
        auth = authorization("https://mcp.example/mcp", how, (), screen)
        assert isinstance(auth, OAuth)
        return await auth._options.user_agent.ask_client("https://as.example", "there is none")

    client = await asked(Terminal(), "auto")
    assert client is not None
    assert (client.client_id, client.client_secret) == ("c7", None)
    assert await asked(Screen(), "auto") is None
    assert await asked(Terminal(), "never") is None


async def test_what_is_kept_is_in_one_place_for_the_whole_command(home: Path) -> None:
    keeping = Keeping(Screen())
    client = ClientRecord(client_id="c", issuer="https://as.example")
    async with keeping.lock("https://mcp.example/mcp"):
        await keeping.save_client("https://as.example", client)
    assert await keeping.load_client("https://as.example") == client
    assert await Keeping(Screen()).load_client("https://as.example") == client
    without_keyring()
    keeping = Keeping(Screen())
    await keeping.save_client("https://as.example", client)
    assert await keeping.load_client("https://as.example") == client
    assert await Keeping(Screen()).load_client("https://as.example") is None


# --- logging out -----------------------------------------------------------------------------------------------------


async def test_a_logout_deletes_what_is_kept_and_has_it_revoked(run: Run, home: Path) -> None:
    town = Town()
    async with protected(town) as server:
        await run("probe", server.url, "--login", "auto")
        first, second = await run("logout", server.url, "--json"), await run("logout", server.url, "--json")
    assert (first.code, second.code) == (0, 0)
    assert first.data == {"deleted": True, "revoked": True}
    assert second.data == {"deleted": False, "revoked": False}
    assert f"Logged out of {town.url}: the stored credentials are deleted, and the tokens are revoked." in first.err
    assert f"No credentials were stored for {town.url}." in second.err
    ((refresh_token, _),) = town.refresh_tokens.items()
    assert town.revocations == [{"token": refresh_token, "token_type_hint": "refresh_token", "client_id": "c1"}]
    assert json.loads((home / "ring").read_text()) == {}


@pytest.mark.parametrize(
    ("metadata", "revokes", "why"),
    [
        ({"revocation_endpoint": None}, True, "has no revocation_endpoint"),
        ({}, False, "/revoke responded to the revocation with status 503"),
        ({"absent": True}, True, "no metadata of"),
        ({"revocation_endpoint": "http://127.0.0.1:1/revoke"}, True, "no response from http://127.0.0.1:1/revoke: "),
        (
            {"revocation_endpoint": "http://10.0.0.1/revoke"},
            True,
            "revocation_endpoint 'http://10.0.0.1/revoke' is not used",
        ),
    ],
)
async def test_what_cannot_be_revoked_is_deleted_all_the_same(
    metadata: JsonObject, revokes: bool, why: str, run: Run, home: Path
) -> None:
    town = Town(refreshes=False)
    async with protected(town) as server:
        await run("probe", server.url, "--login", "auto")
        town.metadata, town.revokes = metadata, revokes
        done = await run("logout", server.url)
    assert done.code == 0
    assert "the stored credentials are deleted, but not revoked: " in done.err
    assert why in done.err
    assert json.loads((home / "ring").read_text()) == {}
    assert [form["token_type_hint"] for form in town.revocations] == ["access_token"] * (not revokes)


async def test_a_logout_without_a_keyring_has_nothing_to_do_and_one_that_fails_says_so(run: Run, home: Path) -> None:
    (home / "ring").mkdir()
    failed = await run("logout", "https://mcp.example/mcp?key=swordfish")
    without_keyring()
    done = await run("logout", "https://mcp.example/mcp?key=swordfish")
    assert (failed.code, done.code) == (1, 0)
    assert "the system keyring failed with IsADirectoryError" in failed.err
    assert done.err == "No credentials were stored for https://mcp.example/mcp.\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("diagnose-auth", "--", "my-server"), "credentials of a command are in its environment"),
        (("logout", "--", "my-server"), "credentials of a command are in its environment"),
        (("probe", "--login", "auto", "--", "my-server"), "--login requires a server with a URL"),
        (("diagnose-auth", "https://mcp.example/mcp", "--header", "Authorization: Bearer swordfish"), "auth"),
        (("logout", "https://user:swordfish@mcp.example/mcp"), "user or password"),
        (("diagnose-auth",), "no server: pass its URL"),
    ],
)
async def test_what_makes_no_sense_is_said(words: tuple[str, ...], why: str, run: Run) -> None:
    done = await run(*words)
    assert done.code == 2
    assert why in done.err
    assert "swordfish" not in done.err


# --- real processes --------------------------------------------------------------------------------------------------


def started(*words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHON_KEYRING_BACKEND": "file_ring.Ring"}
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "mcp_client", *words]
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


async def test_a_person_without_a_browser_pastes_where_theirs_was_sent(home: Path) -> None:
    town = Town()

    def talk() -> tuple[int, str, str]:
        with started("probe", town.url, "--login", "paste") as process:
            assert process.stdin is not None
            assert process.stderr is not None
            said = ""
            for line in process.stderr:
                said += line
                if line.startswith(f"{town.origin}/authorize?"):
                    process.stdin.write(f"{town.authorize(line.strip())}\n")
                    process.stdin.flush()
                    break
            out, err = process.communicate(timeout=60)
            return process.returncode, out, said + err

    async with protected(town):
        code, out, err = await trio.to_thread.run_sync(talk)
        assert code == 0, err
        assert "server        zoo 1" in out
        assert "To log in, open this URL in a browser on any machine" in err
        # The next process finds what this one kept.
        with started("diagnose-auth", town.url) as process:
            out, err = await trio.to_thread.run_sync(process.communicate)
        assert "stored earlier" in out
        with started("probe", town.url) as process:
            out, err = await trio.to_thread.run_sync(process.communicate)
        assert (process.returncode, err) == (0, "")
    assert len(town.authorized) == 1
