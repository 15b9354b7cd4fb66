"""Logins on the command line: real processes, a protected server, and a browser that follows redirects."""

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
from auth_testbed import AuthTestbed, protected
from fake_http_server import ReceivedRequest, Reply, legacy
from file_keyring import FileKeyring

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
# Follows redirects, without a proxy.
BROWSER_PROGRAM = """
import sys, urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1]).read()
"""


@attrs.define
class CliTestbed(AuthTestbed):
    """A testbed whose authorization server has an authorization page and can revoke tokens."""

    revocations: list[dict[str, str]] = attrs.field(factory=list)
    revokes: bool = True
    metadata: JsonObject = attrs.field(factory=dict)
    """Changes to the metadata of the authorization server."""
    resource: JsonObject = attrs.field(factory=dict)
    """Changes to the metadata of the protected resource."""

    async def answer(self, request: ReceivedRequest, reply: Reply) -> None:
        path = request.target.partition("?")[0]
        if path.endswith("/authorize"):
            self.requests.append(request)
            await reply.body(302, b"", "text/plain", {"Location": self.authorize(f"{self.origin}{request.target}")})
        elif path.endswith("/revoke"):
            self.requests.append(request)
            self.revocations.append({name: values[0] for name, values in parse_qs(request.body.decode()).items()})
            await reply.body(200 if self.revokes else 503)
        else:
            await super().answer(request, reply)

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
class CommandResult:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> JsonObject:
        found: JsonObject = json.loads(self.out)
        return found


class Run(Protocol):
    """A run of a command line in this process, in a thread."""

    async def __call__(self, *words: str) -> CommandResult: ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder with a keyring and a browser."""
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
    keyring.set_keyring(FileKeyring())
    yield tmp_path
    keyring.set_keyring(before)


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    async def run(*words: str) -> CommandResult:
        def call() -> int:
            try:
                return main(words)
            except SystemExit as stop:
                return int(str(stop.code))

        code = await trio.to_thread.run_sync(call)
        captured = capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return run


def without_keyring() -> None:
    keyring.set_keyring(keyring.backends.null.Keyring())  # type: ignore[no-untyped-call]  # keyring has no types there


# --- diagnose-auth ---------------------------------------------------------------------------------------------------


async def test_diagnose_auth_reports_login_without_side_effects(run: Run) -> None:
    testbed = CliTestbed()
    async with protected(testbed) as server:
        done = await run("diagnose-auth", server.url)
    assert (done.code, done.err) == (0, "")
    resource, metadata = (
        f"{testbed.origin}/.well-known/{name}"
        for name in ("oauth-protected-resource/mcp", "oauth-authorization-server")
    )
    assert done.out.splitlines() == [
        f"server        {testbed.url}",
        "asked         server/discover: 401",
        "authorization wanted",
        f"challenge     Bearer, resource_metadata {resource}, scope notes:read",
        f"tried         200 {resource} (resource_metadata): metadata of {testbed.url}",
        f"tried         200 {metadata} (authorization server metadata): metadata of {testbed.issuer}",
        f"issuer        {testbed.issuer}, as named by the server",
        f"registration  dynamic, at {testbed.origin}/register; not performed",
        f"browser       would open {testbed.origin}/authorize",
        "scope         notes:read",
        f"resource      {testbed.url}",
        "PKCE          S256",
        "verdict       login would reach the browser; user consent is required from there",
    ]
    assert [request.target for request in testbed.requests] == [
        "/mcp",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
    ]


async def test_diagnose_auth_json_has_metadata_without_secrets(run: Run) -> None:
    testbed = CliTestbed(metadata={"service_documentation": "https://as.example/?key=swordfish&mackerel"})
    async with protected(testbed) as server:
        done = await run("diagnose-auth", f"{server.url}?key=swordfish", "--header", "X-Key: mackerel", "--json")
    assert (done.code, done.err) == (0, "")
    report = done.data
    assert report["server"] == f"{testbed.url}?***"
    assert report["could_log_in"] is True
    assert report["asked"] == [{"operation": "server/discover", "status": 401}]
    assert report["resource"]["scopes_supported"] == ["notes:read", "notes:write"]  # type: ignore[index,call-overload]  # a JSON object
    assert report["authorization_server"]["service_documentation"] == "https://as.example/?***&***"  # type: ignore[index,call-overload]  # likewise
    assert report["request"] == {
        "endpoint": f"{testbed.origin}/authorize",
        "scope": "notes:read",
        "resource": f"{testbed.url}",
        "pkce": "S256",
    }
    assert [request.headers.get("x-key") for request in testbed.requests] == ["mackerel", None, None]
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


@pytest.mark.parametrize(("metadata", "resource", "error_type", "reason", "setting"), FAULTS)
async def test_diagnose_auth_fault_reported_with_setting(
    metadata: JsonObject, resource: JsonObject, error_type: str, reason: str, setting: str, run: Run
) -> None:
    testbed = CliTestbed(metadata=metadata, resource=resource)
    async with protected(testbed) as server:
        text, done = await run("diagnose-auth", server.url), await run("diagnose-auth", server.url, "--json")
    assert (text.code, done.code) == (1, 1)
    problem = done.data["problem"]
    assert isinstance(problem, dict)
    assert problem["type"] == error_type
    assert reason in str(problem["message"])
    assert setting in str(problem["setting"])
    assert done.data["could_log_in"] is False
    assert "verdict       a login would fail: " in text.out
    assert setting in text.out.splitlines()[-1]
    assert not testbed.clients
    assert not testbed.authorized
    assert not [request for request in testbed.requests if "169.254" in request.headers.get("host", "")]


async def test_diagnose_auth_unsafe_url_reported_with_reason(run: Run) -> None:
    testbed = CliTestbed(resource={"authorization_servers": ["http://169.254.169.254/"]})
    async with protected(testbed) as server:
        done = await run("diagnose-auth", server.url)
    (line,) = [line for line in done.out.splitlines() if "169.254.169.254/ (" in line]
    assert line.startswith("tried         --- http://169.254.169.254/ (issuer): ")


async def test_diagnose_auth_server_without_protection(run: Run) -> None:
    testbed = CliTestbed(protects=lambda request: False, resource={"absent": True})
    async with protected(testbed) as server:
        done = await run("diagnose-auth", server.url)
        testbed.resource = {}
        known = await run("diagnose-auth", server.url)
    assert (done.code, known.code) == (0, 0)
    assert "authorization not wanted" in done.out
    assert done.out.splitlines()[-1] == "verdict       the server does not require a token"
    # Without a challenge, default paths are not tried, and missing metadata is no fault.
    assert "issuer" not in done.out
    assert "asked         tools/list: " in done.out
    # Metadata that the server has is shown.
    assert f"issuer        {testbed.issuer}, as named by the server" in known.out
    assert known.out.splitlines()[-1] == "verdict       the server does not require a token"


async def test_diagnose_auth_token_for_tools_only_detected(run: Run) -> None:
    testbed = CliTestbed(protects=lambda request: b"tools/list" in request.body)
    async with protected(testbed) as server:
        done = await run("diagnose-auth", server.url)
    assert done.code == 0
    assert "asked         server/discover: 200\nasked         tools/list: 401\nauthorization wanted" in done.out


async def test_diagnose_auth_legacy_server(run: Run) -> None:
    testbed = CliTestbed(inner=legacy())
    async with protected(testbed) as server:
        done = await run("diagnose-auth", server.url, "--revision", "2025-06-18")
    assert done.code == 0
    assert "asked         initialize: 401" in done.out


async def test_diagnose_auth_unreachable_server_exits_1(run: Run) -> None:
    done = await run("diagnose-auth", "http://127.0.0.1:1/mcp", "--json")
    assert done.code == 1
    assert done.data["authorization"] == "unknown"
    problem = done.data["problem"]
    assert isinstance(problem, dict)
    assert problem["setting"] == "The server did not respond, so a login is unknown."


async def test_diagnose_auth_http_server_reported() -> None:
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


async def test_diagnose_auth_unreachable_authorization_server_reported(run: Run) -> None:
    testbed = CliTestbed(resource={"authorization_servers": ["http://127.0.0.1:1"]})
    async with protected(testbed) as server:
        done = await run("diagnose-auth", server.url)
    assert done.code == 1
    assert "tried         --- http://127.0.0.1:1/.well-known/oauth-authorization-server " in done.out
    assert "no response: " in done.out


# --- logging in ------------------------------------------------------------------------------------------------------


async def test_login_stored_and_refreshed_by_next_command(run: Run, home: Path) -> None:
    testbed = CliTestbed()
    async with protected(testbed) as server:
        first = await run("probe", server.url, "--login", "auto")
        second = await run("probe", server.url)
        # The token becomes invalid, the refresh token does not.
        testbed.revoke()
        third = await run("probe", server.url, "--login", "never")
        diagnosis = await run("diagnose-auth", server.url)
        # The refresh token becomes invalid as well.
        testbed.revoke_all()
        fourth = await run("probe", server.url)
    assert [done.code for done in (first, second, third, fourth)] == [0, 0, 0, 3], (first, second, third, fourth)
    assert "To log in, use the window that your browser opens." in first.err
    assert (second.err, third.err) == ("", "")
    assert testbed.grants_made == ["authorization_code", "refresh_token", "refresh_token"]
    assert testbed.clients == ["c1"]
    assert "registration  stored earlier (dynamic)" in diagnosis.out
    assert "there is no terminal" in fourth.err
    assert "--login auto" in fourth.err
    assert {name.partition(" http")[0] for name in json.loads((home / "ring").read_text())} == {"mcp clients"}


@pytest.mark.parametrize("how", [(), ("--login", "never")])
async def test_login_without_terminal_fails_with_advice(how: tuple[str, ...], run: Run) -> None:
    testbed = CliTestbed()
    async with protected(testbed) as server:
        done = await run("probe", server.url, *how, "--json")
    assert done.code == 3
    error = done.data["error"]
    assert isinstance(error, dict)
    assert error["type"] == "AuthorizationRefused"
    assert "diagnose-auth" in done.err
    # No client was registered either.
    assert not testbed.clients


async def test_login_without_secure_keyring_lasts_one_command(run: Run) -> None:
    testbed = CliTestbed()
    without_keyring()
    async with protected(testbed) as server:
        first = await run("probe", server.url, "--login", "auto")
        second = await run("probe", server.url)
    assert (first.code, second.code) == (0, 3)
    assert "The next command must log in again: no secure keyring: found keyring.backends.null" in first.err


async def test_login_without_keyring_package_lasts_one_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = CliTestbed()
    monkeypatch.setitem(sys.modules, "keyring", None)
    async with protected(testbed) as server:
        first = await run("probe", server.url, "--login", "auto")
    assert first.code == 0
    assert "The next command must log in again: keyring is not installed; type: pip install" in first.err


async def test_login_error_hides_query_of_url(run: Run) -> None:
    testbed = CliTestbed(metadata={"absent": True})
    async with protected(testbed) as server:
        done = await run("probe", f"{server.url}?key=swordfish", "--login", "auto", "--json")
    assert done.code == 3
    assert "DiscoveryFailed" in done.out
    assert "swordfish" not in done.out + done.err


async def test_login_own_authorization_header_disables_login(run: Run) -> None:
    testbed = CliTestbed()
    async with protected(testbed) as server:
        done = await run("probe", server.url, "--login", "auto", "--header", "authorization: Bearer guess")
    assert done.code == 3
    assert "Log in with --login auto" in done.err
    assert len(testbed.requests) == 1


def test_user_agent_depends_on_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(how: str | None, url: str = "https://mcp.example/mcp", *headers: str) -> object:
        auth = authorization(url, how, headers, Screen())
        return auth._user_agent._user_agent if isinstance(auth, OAuth) else auth

    assert type(chosen(None)).__name__ == "_NoUser"
    assert isinstance(chosen("auto"), SystemBrowser)
    assert isinstance(chosen("paste"), Paste)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert isinstance(chosen(None), SystemBrowser)
    assert type(chosen("never")).__name__ == "_NoUser"
    # Tokens are not sent in clear text, so no login is possible.
    assert chosen("auto", "http://mcp.example/mcp") is None
    assert chosen("auto", "https://mcp.example/mcp", "X-Key", "AUTHORIZATION") is None


async def test_client_id_prompted_on_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["c7"]

    class Terminal(Screen):
        interactive = True

        def ask(self, prompt: str) -> str:
            if not answers:
                raise EOFError
            return answers.pop()

    async def ask_client(screen: Screen, how: str) -> ClientRecord | None:
        auth = authorization("https://mcp.example/mcp", how, (), screen)
        assert isinstance(auth, OAuth)
        return await auth._options.user_agent.ask_client("https://as.example", "no client is registered")

    client = await ask_client(Terminal(), "auto")
    assert client is not None
    assert (client.client_id, client.client_secret) == ("c7", None)
    assert await ask_client(Screen(), "auto") is None
    assert await ask_client(Terminal(), "never") is None


async def test_credentials_stored_in_one_place_per_command(home: Path) -> None:
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


async def test_logout_deletes_and_revokes_credentials(run: Run, home: Path) -> None:
    testbed = CliTestbed()
    async with protected(testbed) as server:
        await run("probe", server.url, "--login", "auto")
        first, second = await run("logout", server.url, "--json"), await run("logout", server.url, "--json")
    assert (first.code, second.code) == (0, 0)
    assert first.data == {"deleted": True, "revoked": True}
    assert second.data == {"deleted": False, "revoked": False}
    assert f"Logged out of {testbed.url}: the stored credentials are deleted, and the tokens are revoked." in first.err
    assert f"No credentials were stored for {testbed.url}." in second.err
    ((refresh_token, _),) = testbed.refresh_tokens.items()
    assert testbed.revocations == [{"token": refresh_token, "token_type_hint": "refresh_token", "client_id": "c1"}]
    assert json.loads((home / "ring").read_text()) == {}


@pytest.mark.parametrize(
    ("metadata", "revokes", "reason"),
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
async def test_logout_revocation_failure_deletes_credentials(
    metadata: JsonObject, revokes: bool, reason: str, run: Run, home: Path
) -> None:
    testbed = CliTestbed(refreshes=False)
    async with protected(testbed) as server:
        await run("probe", server.url, "--login", "auto")
        testbed.metadata, testbed.revokes = metadata, revokes
        done = await run("logout", server.url)
    assert done.code == 0
    assert "the stored credentials are deleted, but not revoked: " in done.err
    assert reason in done.err
    assert json.loads((home / "ring").read_text()) == {}
    assert [form["token_type_hint"] for form in testbed.revocations] == ["access_token"] * (not revokes)


async def test_logout_keyring_failure_exits_1(run: Run, home: Path) -> None:
    (home / "ring").mkdir()
    failed = await run("logout", "https://mcp.example/mcp?key=swordfish")
    without_keyring()
    done = await run("logout", "https://mcp.example/mcp?key=swordfish")
    assert (failed.code, done.code) == (1, 0)
    assert "the system keyring failed with IsADirectoryError" in failed.err
    assert done.err == "No credentials were stored for https://mcp.example/mcp.\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("diagnose-auth", "--", "my-server"), "credentials of a command are in its environment"),
        (("logout", "--", "my-server"), "credentials of a command are in its environment"),
        (("probe", "--login", "auto", "--", "my-server"), "--login requires a server with a URL"),
        (("diagnose-auth", "https://mcp.example/mcp", "--header", "Authorization: Bearer swordfish"), "auth"),
        (("logout", "https://user:swordfish@mcp.example/mcp"), "user or password"),
        (("diagnose-auth",), "no server: pass its URL"),
    ],
)
async def test_auth_command_usage_error_exits_2(words: tuple[str, ...], reason: str, run: Run) -> None:
    done = await run(*words)
    assert done.code == 2
    assert reason in done.err
    assert "swordfish" not in done.err


# --- real processes --------------------------------------------------------------------------------------------------


def started(*words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHON_KEYRING_BACKEND": "file_keyring.FileKeyring"}
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "mcp_client", *words]
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


async def test_login_paste_redirect_url(home: Path) -> None:
    testbed = CliTestbed()

    def paste_redirect() -> tuple[int, str, str]:
        with started("probe", testbed.url, "--login", "paste") as process:
            assert process.stdin is not None
            assert process.stderr is not None
            stderr = ""
            for line in process.stderr:
                stderr += line
                if line.startswith(f"{testbed.origin}/authorize?"):
                    process.stdin.write(f"{testbed.authorize(line.strip())}\n")
                    process.stdin.flush()
                    break
            out, err = process.communicate(timeout=60)
            return process.returncode, out, stderr + err

    async with protected(testbed):
        code, out, err = await trio.to_thread.run_sync(paste_redirect)
        assert code == 0, err
        assert "server        zoo 1" in out
        assert "To log in, open this URL in a browser on any machine" in err
        # The next process uses the stored login.
        with started("diagnose-auth", testbed.url) as process:
            out, err = await trio.to_thread.run_sync(process.communicate)
        assert "stored earlier" in out
        with started("probe", testbed.url) as process:
            out, err = await trio.to_thread.run_sync(process.communicate)
        assert (process.returncode, err) == (0, "")
    assert len(testbed.authorized) == 1
