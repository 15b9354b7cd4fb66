"""Grants, user agents, several users and several servers."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio
import trio.testing
import trustme
from auth_testbed import AuthTestbed, FakeUserAgent, authorization_headers, call, connected, oauth, protected
from fake_http_server import ReceivedRequest, Reply, Responder, modern

from mcp_client import Client, HttpOptions, open_http
from mcp_client.auth import MemoryStore, Receiver, configured_auth
from mcp_client.group import Restart, ServerConfig, configured, open_group, read_config
from mcp_client.group.member import MakeConnector
from mcp_core.errors import (
    AccessDenied,
    AuthorizationError,
    AuthorizationRefused,
    IssuerMismatch,
    UnsafeUrl,
)
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.oauth.addresses import AddressClass
from mcp_core.oauth.grants import ClientCredentials, EnterpriseManaged, Grant, GrantContext, WorkloadIdentity
from mcp_core.oauth.records import ClientRecord
from mcp_core.oauth.steps import OpenBrowser, Pairs, Running
from mcp_core.types.meta import TASKS_EXTENSION

# --- grants and user agents -------------------------------------------------------------------------------------------


async def test_client_credentials_grant_needs_no_login() -> None:
    testbed = AuthTestbed(registers=False)
    auth = oauth(
        testbed,
        FakeUserAgent(testbed),
        grant=ClientCredentials(),
        credentials=[ClientRecord(client_id="machine", issuer=None, client_secret="s")],
    )
    async with connected(testbed, auth) as (_, client):
        testbed.now += 3600 - 29
        await call(client)
    assert testbed.grants_made == ["client_credentials"] * 2
    assert authorization_headers(testbed).count(None) == 1
    assert testbed.authorized == []


async def test_grant_function_called_for_each_token() -> None:
    testbed = AuthTestbed()
    made: list[str] = []

    async def grant() -> Grant:
        made.append("one")
        await trio.lowlevel.checkpoint()
        return ClientCredentials()

    auth = oauth(testbed, grant=grant, credentials=[ClientRecord(client_id="m", issuer=None, client_secret="s")])
    async with connected(testbed, auth) as (_, client):
        testbed.revoke()
        await call(client)
    assert len(made) == 2


@pytest.mark.spec("ema.declared")
@pytest.mark.parametrize(
    ("grant", "declared"),
    [
        (
            EnterpriseManaged(
                identity_provider=ClientRecord(client_id="idp", issuer="https://idp.example"),
                token_endpoint="https://idp.example/token",
                subject_token="id-token",
            ),
            "io.modelcontextprotocol/enterprise-managed-authorization",
        ),
        (WorkloadIdentity(assertion="jwt"), None),
        (ClientCredentials(), "io.modelcontextprotocol/oauth-client-credentials"),
        (None, None),
    ],
)
async def test_grant_extension_declared(grant: Grant | None, declared: str | None) -> None:
    testbed = AuthTestbed(protects=lambda _: False)
    async with connected(testbed, oauth(testbed, grant=grant)) as (_, client):
        await call(client)
    (message,) = [json.loads(request.body) for request in testbed.requests if request.rpc == "tools/call"]
    capabilities = message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert capabilities["extensions"] == {TASKS_EXTENSION: {}, **({} if declared is None else {declared: {}})}


async def test_grant_function_failure_raises_authorization_error() -> None:
    async def grant() -> Grant:
        raise OSError("no such file")

    testbed = AuthTestbed()
    async with protected(testbed) as server:
        with pytest.raises(AuthorizationError, match="no such file") as caught:
            async with open_http(server.url, auth=oauth(testbed, grant=grant)):
                pass
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [(RuntimeError("boom"), r"the user agent failed: RuntimeError\('boom'\)"), (AuthorizationRefused("gone"), "gone")],
)
async def test_user_agent_failure_is_cause_of_refused_login(failure: Exception, sentence: str) -> None:
    testbed = AuthTestbed()
    user_agent = FakeUserAgent(testbed)
    user_agent.failure = failure
    async with protected(testbed) as server:
        with pytest.raises(AuthorizationRefused, match=sentence) as caught:
            async with open_http(server.url, auth=oauth(testbed, user_agent)):
                pass
    assert caught.value.__cause__ is failure
    assert [attempt.why for attempt in caught.value.attempts] == [
        "resource_metadata",
        "authorization server metadata",
        "dynamic registration",
    ]


async def test_user_agent_with_nursery_wraps_no_error() -> None:
    class NurseryUserAgent(FakeUserAgent):
        @asynccontextmanager
        async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
            async with trio.open_nursery(), super().receive(port) as receiver:
                yield receiver

    testbed = AuthTestbed()
    user_agent = NurseryUserAgent(testbed)
    user_agent.failure = AuthorizationRefused("no")
    async with protected(testbed) as server:
        with pytest.raises(AuthorizationRefused, match="no"):
            async with open_http(server.url, auth=oauth(testbed, user_agent)):
                pass


async def test_user_agent_cannot_listen_raises() -> None:
    class NoPortUserAgent(FakeUserAgent):
        @asynccontextmanager
        async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
            if port is not None:
                raise OSError("no port")
            async with super().receive() as receiver:
                yield receiver

    testbed = AuthTestbed()
    async with protected(testbed) as server:
        with pytest.raises(AuthorizationError, match="cannot listen for the redirect of the browser: no port"):
            async with open_http(server.url, auth=oauth(testbed, NoPortUserAgent(testbed))):
                pass


# --- several users and servers ----------------------------------------------------------------------------------------


def private_tools(testbed: AuthTestbed) -> Responder:
    """Return a server whose cacheable tool list depends on the user."""

    async def list_tools(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc != "tools/list":
            await modern()(request, reply)
            return
        user = testbed.tokens[request.headers["authorization"].split(" ")[1]].user
        tools: JsonValue = [{"name": f"of_{user}", "inputSchema": {"type": "object"}}]
        await reply.result({"resultType": "complete", "ttlMs": 600_000, "cacheScope": "private", "tools": tools})

    return modern(list_tools)


async def names(client: Client) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


async def test_cached_list_of_one_user_not_given_to_next() -> None:
    testbed = AuthTestbed()
    testbed.inner = private_tools(testbed)
    async with connected(testbed, oauth(testbed)) as (_, client):
        assert await names(client) == ["of_ada"]
        testbed.revoke()
        await call(client)
        request_count = len(testbed.mcp())
        assert await names(client) == ["of_ada"], "a refresh keeps the user"
        assert len(testbed.mcp()) == request_count
        testbed.revoke_all()
        testbed.user = "bob"
        await call(client)
        assert await names(client) == ["of_bob"]


async def test_cached_list_with_token_not_used_after_logout() -> None:
    testbed = AuthTestbed(protects=lambda request: request.rpc == "tools/list")
    testbed.inner = private_tools(testbed)
    auth = oauth(testbed)
    async with connected(testbed, auth) as (server, client):
        assert await names(client) == ["of_ada"]
        await auth.log_out(server.url)
        testbed.revoke_all()
        testbed.user = "bob"
        assert await names(client) == ["of_bob"]


async def test_group_servers_log_in_separately() -> None:
    one, two = AuthTestbed(), AuthTestbed()
    async with protected(one) as first, protected(two) as second:
        openings: dict[str, MakeConnector] = {
            "one": partial(open_http, first.url, auth=oauth(one)),
            "two": partial(open_http, second.url, auth=oauth(two)),
        }
        async with open_group(openings) as group:
            assert group.failed == {}
            for name in group:
                await call(await group[name].connected())
    assert one.grants_made == two.grants_made == ["authorization_code"]


async def test_oauth_shared_by_servers_keeps_tokens_apart() -> None:
    one, two = AuthTestbed(), AuthTestbed(prefix="twos")
    user_agent = FakeUserAgent(one)
    auth = oauth(one, user_agent)
    async with protected(one) as first, protected(two) as second:
        async with open_http(first.url, auth=auth) as client:
            await call(client)
        user_agent.testbed = two
        async with open_http(second.url, auth=auth) as client:
            await call(client)
    assert authorization_headers(two) == [None, "Bearer twos3", "Bearer twos3"]


async def test_browser_grant_without_redirect_uri_raises() -> None:
    @attrs.frozen
    class BrowserWithoutRedirect(ClientCredentials):
        def form(self, context: GrantContext) -> Running[Pairs]:
            yield OpenBrowser(url="https://as.example/authorize")
            return ()

    testbed = AuthTestbed()
    client = ClientRecord(client_id="m", issuer=None, client_secret="s")
    async with protected(testbed) as server:
        with pytest.raises(AuthorizationRefused, match="has no redirect URI"):
            async with open_http(server.url, auth=oauth(testbed, grant=BrowserWithoutRedirect(), credentials=[client])):
                pass


async def test_networks_and_authorization_server_settings_enforced() -> None:
    testbed = AuthTestbed(issuer_path="/two")
    async with protected(testbed) as server:
        # The settings exclude this machine ...
        with pytest.raises(UnsafeUrl, match="leads to this machine, but the server is not on this machine"):
            async with open_http(server.url, auth=oauth(testbed, networks=frozenset({AddressClass.PUBLIC}))):
                pass
        # ... and any authorization server other than the configured one.
        with pytest.raises(IssuerMismatch):
            async with open_http(server.url, auth=oauth(testbed, authorization_server=f"{testbed.origin}/two/")):
                pass
        async with open_http(server.url, auth=oauth(testbed, authorization_server=testbed.issuer)) as client:
            await call(client)


async def test_configured_servers_use_their_auth_entries() -> None:
    one, two = AuthTestbed(registers=False), AuthTestbed()
    user_agent = FakeUserAgent(one)
    async with protected(one) as first, protected(two) as second:
        servers = read_config(
            {
                "mcpServers": {
                    "one": {"url": first.url, "auth": {"CLIENT_ID": "by-hand", "scopes": ["a", "b"]}},
                    "two": {"url": second.url, "headers": {"authorization": "Bearer own"}},
                    "three": {"command": "true"},
                }
            }
        )
        auth = configured_auth("Tester", store=MemoryStore(), user_agent=user_agent)
        one.default_scopes = ""
        openings = configured(servers, auth=auth)
        del openings["three"]
        async with open_group(openings, restart=Restart(times=0)) as group:
            assert list(group.failed) == ["two"]
            assert isinstance(group.failed["two"], AccessDenied)
            await call(await group["one"].connected())
    assert one.authorized[0]["client_id"] == "by-hand"
    assert one.authorized[0]["scope"] == "a b"
    assert authorization_headers(two) == ["Bearer own"]
    assert configured_auth("Tester")(ServerConfig(name="x", url="https://mcp.example/mcp")) is not None


async def test_login_over_tls() -> None:
    testbed = AuthTestbed()
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trusting)
    async with protected(testbed, tls=context) as server:
        assert server.url.startswith("https://localhost:")
        async with open_http(server.url, auth=oauth(testbed), http=HttpOptions(tls=trusting)) as client:
            await call(client)
    assert testbed.issuer.startswith("https://")


async def test_user_agent_own_deadline_refuses_login(autojump_clock: trio.testing.MockClock) -> None:
    class DeadlineUserAgent(FakeUserAgent):
        @asynccontextmanager
        async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
            with trio.move_on_after(60):
                async with super().receive(port) as receiver:
                    yield receiver

    testbed = AuthTestbed()
    user_agent = DeadlineUserAgent(testbed)
    user_agent.blocker = trio.Event()
    async with protected(testbed) as server:
        with pytest.raises(AuthorizationRefused, match="the user agent cancelled the login"):
            async with open_http(server.url, auth=oauth(testbed, user_agent)):
                pass
    assert user_agent.logins == 1
