"""The authorization of requests: when a client gets its first token, another token, or more scopes."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing
from auth_testbed import AuthTestbed, FakeUserAgent, authorization_headers, call, connected, oauth, proof, protected
from fake_http_server import HttpSseServer, ReceivedRequest, Reply, legacy, modern, silent_stream

from mcp_client import open_http
from mcp_client.auth import OAuth
from mcp_core.errors import (
    AccessDenied,
    InsufficientScope,
    LocalProtocolError,
    TokenRefused,
    UnsafeUrl,
)
from mcp_core.oauth.client_metadata import ClientSettings
from mcp_core.revisions import REVISIONS

# --- the first token ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.bearer-header", "auth.bearer-every-request")
async def test_token_required_logs_in_and_call_succeeds() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    async with protected(testbed) as server, open_http(server.url, auth=oauth(testbed, user_agent)) as client:
        await call(client)
        await call(client)
    assert user_agent.logins == 1
    assert testbed.grants_made == ["authorization_code"]
    assert authorization_headers(testbed) == [None, "Bearer t3", "Bearer t3", "Bearer t3"]
    assert testbed.authorized[0]["scope"] == "notes:read"


async def test_token_not_required_sends_none() -> None:
    testbed = AuthTestbed(protects=lambda request: False)
    user_agent = FakeUserAgent(testbed)
    async with protected(testbed) as server, open_http(server.url, auth=oauth(testbed, user_agent)) as client:
        await call(client)
    assert user_agent.logins == 0
    assert authorization_headers(testbed) == [None, None]


@pytest.mark.spec("auth.every-request")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_legacy_session_every_request_carries_token(version: str) -> None:
    revision = REVISIONS[version]
    testbed = AuthTestbed(inner=legacy(version=version, get=silent_stream))
    async with (
        protected(testbed) as server,
        open_http(server.url, auth=oauth(testbed), revisions=[revision]) as client,
    ):
        await call(client)
        assert client.revision is revision
    kinds = [(request.method, request.rpc) for request in testbed.mcp()]
    assert kinds[:3] == [("POST", "initialize"), ("POST", "initialize"), ("POST", "notifications/initialized")]
    assert ("DELETE", "DELETE") in kinds
    assert ("GET", "GET") in kinds
    assert authorization_headers(testbed)[1:] == ["Bearer t3"] * (len(kinds) - 1)


async def test_http_sse_get_and_posts_carry_token() -> None:
    sse_server = HttpSseServer()
    testbed = AuthTestbed(inner=sse_server.answer)
    async with protected(testbed) as server, open_http(server.url, auth=oauth(testbed)) as client:
        await call(client)
        assert client.revision.http_sse
    assert [request for request in testbed.mcp() if request.target.startswith("/messages")]
    assert set(authorization_headers(testbed)[1:]) == {"Bearer t3"}


@pytest.mark.parametrize("rpc", ["notifications/initialized", "initialize", "server/discover", "tools/call"])
async def test_first_401_on_any_request_logs_in(rpc: str) -> None:
    testbed = AuthTestbed(
        inner=legacy() if rpc != "server/discover" else modern(), protects=lambda request: request.rpc == rpc
    )
    user_agent = FakeUserAgent(testbed)
    async with protected(testbed) as server, open_http(server.url, auth=oauth(testbed, user_agent)) as client:
        await call(client)
    assert user_agent.logins == 1


async def test_first_401_on_http_sse_get_logs_in() -> None:
    sse_server = HttpSseServer()
    testbed = AuthTestbed(inner=sse_server.answer, protects=lambda request: request.method == "GET")
    user_agent = FakeUserAgent(testbed)
    async with protected(testbed) as server, open_http(server.url, auth=oauth(testbed, user_agent)) as client:
        await call(client)
    assert user_agent.logins == 1


async def test_background_stream_401_starts_no_login(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_client")
    testbed = AuthTestbed(inner=legacy(get=silent_stream), protects=lambda request: request.method == "GET")
    user_agent = FakeUserAgent(testbed)
    async with protected(testbed) as server, open_http(server.url, auth=oauth(testbed, user_agent)) as client:
        await call(client)
        await trio.testing.wait_all_tasks_blocked(0.05)
    assert user_agent.logins == 0
    assert "only a background stream waits for the login" in caplog.text


async def test_session_delete_401_starts_no_login() -> None:
    testbed = AuthTestbed(inner=legacy(), protects=lambda request: request.method == "DELETE")
    user_agent = FakeUserAgent(testbed)
    async with protected(testbed) as server, open_http(server.url, auth=oauth(testbed, user_agent)) as client:
        await call(client)
    assert user_agent.logins == 0
    assert [request.method for request in testbed.mcp()][-1] == "DELETE"


async def test_401_without_auth_names_setting() -> None:
    testbed = AuthTestbed()
    async with protected(testbed) as server:
        with pytest.raises(AccessDenied, match=r"auth=OAuth\(\.\.\.\)") as caught:
            async with open_http(server.url):
                pass
    assert caught.value.challenges[0].startswith("Bearer resource_metadata=")


@pytest.mark.parametrize("given", [{"Authorization": "Bearer x"}, {"DPoP": "x"}])
async def test_credentials_in_headers_and_auth_rejected(given: dict[str, str]) -> None:
    testbed = AuthTestbed()
    both = r"headers=.*auth="
    with pytest.raises(LocalProtocolError, match=both):
        open_http("https://mcp.example/mcp", auth=oauth(testbed), headers=given)
    async with protected(testbed) as server:
        with pytest.raises(LocalProtocolError, match=both):
            async with open_http(server.url, auth=oauth(testbed), headers=lambda: given):
                pass
        async with open_http(server.url, auth=oauth(testbed)) as client:
            await call(client.with_headers({"X-Trace": "1"}))
            with pytest.raises(LocalProtocolError, match=both):
                await call(client.with_headers(given))


@pytest.mark.parametrize("settings", [None, ClientSettings(client_name="Tester")])
def test_client_name_and_settings_exclusive(settings: ClientSettings | None) -> None:
    with pytest.raises(LocalProtocolError, match="client_name or settings"):
        OAuth(None if settings is None else "Tester", settings=settings)


@pytest.mark.spec("security.oauth-https")
async def test_remote_server_without_tls_raises_unsafe_url() -> None:
    with pytest.raises(UnsafeUrl, match="https"):
        async with open_http("http://mcp.example/mcp", auth=OAuth("Tester")):
            pass


# --- more scopes -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.step-up", "auth.step-up-union", "auth.step-up-user", "auth.reauth-keeps-scopes")
async def test_step_up_requests_previous_and_new_scopes() -> None:
    testbed = AuthTestbed(required_scopes={"tools/call write": "notes:write"})
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        await call(client)
        await call(client, "write")
        await call(client)
    assert user_agent.logins == 2
    assert [request["scope"] for request in testbed.authorized] == ["notes:read", "notes:read notes:write"]
    assert testbed.grants_made == ["authorization_code"] * 2, "a refresh cannot add scopes"


@pytest.mark.spec("auth.step-up-retry-limit", "auth.step-up-track")
async def test_step_up_never_granted_raises_insufficient_scope() -> None:
    testbed = AuthTestbed(required_scopes={"tools/call write": "notes:write"}, grants=lambda request: "notes:read")
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        with pytest.raises(InsufficientScope, match="tools/call write requires notes:write") as caught:
            await client.call_tool("write")
        assert caught.value.required == ("notes:write",)
        assert caught.value.authorization_url == f"{testbed.issuer}/authorize"
        assert user_agent.logins == 3
        await call(client)
        with pytest.raises(InsufficientScope):
            await client.call_tool("write")
    assert user_agent.logins == 3, "the second call started another login"


async def test_step_up_repeated_after_success() -> None:
    testbed = AuthTestbed(required_scopes={"tools/call write": "a"})
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        for scope in ("a", "b", "c", "d"):
            testbed.required_scopes["tools/call write"] = scope
            await call(client, "write")
    assert user_agent.logins == 5


async def test_403_other_error_raises_access_denied() -> None:
    async def forbidden(request: ReceivedRequest, reply: Reply) -> None:
        await reply.body(403, b"never", "text/plain", {"WWW-Authenticate": 'Bearer error="access_denied"'})

    testbed = AuthTestbed(inner=modern(forbidden))
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        with pytest.raises(AccessDenied, match="never"):
            await client.call_tool("echo")
    assert user_agent.logins == 1


# --- loops --------------------------------------------------------------------------------------------------------------


async def test_new_token_rejected_is_not_requested_again() -> None:
    testbed = AuthTestbed(accepts_new=False)
    user_agent = FakeUserAgent(testbed)
    async with protected(testbed) as server:
        auth = oauth(testbed, user_agent)
        for _attempt in range(3):
            with pytest.raises(TokenRefused, match=r"rejects the token that .* has just issued") as caught:
                async with open_http(server.url, auth=auth):
                    pass
            assert caught.value.error == "invalid_token"
        assert user_agent.logins == 1
        testbed.now += 61
        testbed.accepts_new = True
        async with open_http(server.url, auth=auth) as client:
            await call(client)
    assert user_agent.logins == 1


async def test_refreshed_token_rejected_logs_in_once() -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent)) as (_, client):
        testbed.accepts_new = False
        with pytest.raises(TokenRefused):
            await client.call_tool("echo")
    assert user_agent.logins == 2
    assert testbed.grants_made == ["authorization_code", "refresh_token", "authorization_code"]


async def test_nonce_required_again_stops_after_limit() -> None:
    numbers = iter(range(1_000))

    class ChangingNonce(AuthTestbed):
        async def answer(self, request: ReceivedRequest, reply: Reply) -> None:
            if request.target == "/mcp" and "dpop" in request.headers:
                nonce = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": f"n{next(numbers)}"}
                await reply.body(401, b"", None, nonce)
            else:
                await super().answer(request, reply)

    testbed = ChangingNonce()
    async with protected(testbed) as server:
        with pytest.raises(TokenRefused):
            async with open_http(server.url, auth=oauth(testbed, proof=proof())):
                pass
    assert 3 <= next(numbers) < 10


@pytest.mark.spec("dpop.client-fresh-proof", "dpop.client-as-nonce", "dpop.client-rs-nonce", "dpop.client-scheme")
async def test_dpop_proof_fresh_with_current_nonce() -> None:
    testbed = AuthTestbed(nonce="one")
    user_agent = FakeUserAgent(testbed)
    async with connected(testbed, oauth(testbed, user_agent, proof=proof())) as (_, client):
        await call(client)
        testbed.nonce = "two"
        async with trio.open_nursery() as nursery:
            for _number in range(8):
                nursery.start_soon(call, client)
    assert user_agent.logins == 1
    with_token = [request for request in testbed.mcp() if "authorization" in request.headers]
    assert {request.headers["authorization"].split(" ")[0] for request in with_token} == {"DPoP"}
    proofs = [request.headers["dpop"] for request in testbed.requests if "dpop" in request.headers]
    assert len(set(proofs)) == len(proofs)
