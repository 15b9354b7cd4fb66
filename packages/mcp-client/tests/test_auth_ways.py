"""Other grants and other ways to a person; several users and servers."""

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
from auth_world import Person, World, call, connected, oauth, protected, shown
from zoo import Answer, Asked, Reply, modern

from mcp_client import Client, Restart, ServerConfig, configured, open_group, open_http, read_config
from mcp_client.auth import MemoryStore, Receiver, configured_auth
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

# --- other grants, other agents ----------------------------------------------------------------------------------------


async def test_a_client_of_its_own_needs_no_person_and_gets_the_next_token_by_itself() -> None:
    world = World(registers=False)
    auth = oauth(
        world,
        Person(world),
        grant=ClientCredentials(),
        credentials=[ClientRecord(client_id="machine", issuer=None, client_secret="s")],
    )
    async with connected(world, auth) as (_, client):
        world.now += 3600 - 29
        await call(client)
    assert world.grants_made == ["client_credentials"] * 2
    assert shown(world).count(None) == 1
    assert world.authorized == []


async def test_a_grant_can_be_made_anew_for_each_token() -> None:
    world = World()
    made: list[str] = []

    async def grant() -> Grant:
        made.append("one")
        await trio.lowlevel.checkpoint()
        return ClientCredentials()

    auth = oauth(world, grant=grant, credentials=[ClientRecord(client_id="m", issuer=None, client_secret="s")])
    async with connected(world, auth) as (_, client):
        world.revoke()
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
async def test_the_extension_of_a_grant_is_declared_to_the_server(grant: Grant | None, declared: str | None) -> None:
    world = World(protects=lambda _: False)
    async with connected(world, oauth(world, grant=grant)) as (_, client):
        await call(client)
    (request,) = [json.loads(asked.body) for asked in world.asked if asked.rpc == "tools/call"]
    capabilities = request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert capabilities["extensions"] == {TASKS_EXTENSION: {}, **({} if declared is None else {declared: {}})}


async def test_a_grant_that_cannot_be_made_is_an_error_of_its_own() -> None:
    async def grant() -> Grant:
        raise OSError("no such file")

    world = World()
    async with protected(world) as server:
        with pytest.raises(AuthorizationError, match="no such file") as caught:
            async with open_http(server.url, auth=oauth(world, grant=grant)):
                pass
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [(RuntimeError("boom"), r"the user agent failed: RuntimeError\('boom'\)"), (AuthorizationRefused("gone"), "gone")],
)
async def test_what_a_user_agent_raises_ends_the_login_and_is_the_cause(failure: Exception, sentence: str) -> None:
    world = World()
    person = Person(world)
    person.failure = failure
    async with protected(world) as server:
        with pytest.raises(AuthorizationRefused, match=sentence) as caught:
            async with open_http(server.url, auth=oauth(world, person)):
                pass
    assert caught.value.__cause__ is failure
    assert [attempt.why for attempt in caught.value.attempts] == [
        "resource_metadata",
        "authorization server metadata",
        "dynamic registration",
    ]


async def test_a_user_agent_with_a_nursery_around_its_block_wraps_no_error() -> None:
    class Busy(Person):
        @asynccontextmanager
        async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
            async with trio.open_nursery(), super().receive(port) as receiver:
                yield receiver

    world = World()
    person = Busy(world)
    person.failure = AuthorizationRefused("no")
    async with protected(world) as server:
        with pytest.raises(AuthorizationRefused, match="no"):
            async with open_http(server.url, auth=oauth(world, person)):
                pass


async def test_a_user_agent_that_cannot_listen_is_told_as_such() -> None:
    class Deaf(Person):
        @asynccontextmanager
        async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
            if port is not None:
                raise OSError("no port")
            async with super().receive() as receiver:
                yield receiver

    world = World()
    async with protected(world) as server:
        with pytest.raises(AuthorizationError, match="cannot listen for the redirect of the browser: no port"):
            async with open_http(server.url, auth=oauth(world, Deaf(world))):
                pass


# --- one connection among others ---------------------------------------------------------------------------------------


def private_tools(world: World) -> Answer:
    """A list that is another one for each user, and may be kept."""

    async def listed(asked: Asked, reply: Reply) -> None:
        if asked.rpc != "tools/list":
            await modern()(asked, reply)
            return
        user = world.tokens[asked.headers["authorization"].split(" ")[1]].user
        tools: JsonValue = [{"name": f"of_{user}", "inputSchema": {"type": "object"}}]
        await reply.result({"resultType": "complete", "ttlMs": 600_000, "cacheScope": "private", "tools": tools})

    return modern(listed)


async def names(client: Client) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


async def test_what_one_user_was_given_is_not_given_to_the_next() -> None:
    world = World()
    world.inner = private_tools(world)
    async with connected(world, oauth(world)) as (_, client):
        assert await names(client) == ["of_ada"]
        world.revoke()
        await call(client)
        asked = len(world.mcp())
        assert await names(client) == ["of_ada"], "a refresh is no other user"
        assert len(world.mcp()) == asked
        world.forget()
        world.user = "bob"
        await call(client)
        assert await names(client) == ["of_bob"]


async def test_what_came_with_a_login_is_not_kept_for_those_who_did_not_log_in() -> None:
    world = World(protects=lambda asked: asked.rpc == "tools/list")
    world.inner = private_tools(world)
    auth = oauth(world)
    async with connected(world, auth) as (server, client):
        assert await names(client) == ["of_ada"]
        await auth.log_out(server.url)
        world.forget()
        world.user = "bob"
        assert await names(client) == ["of_bob"]


async def test_servers_of_a_group_log_in_each_for_itself() -> None:
    one, two = World(), World()
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


async def test_tokens_of_one_server_are_not_shown_to_another_by_the_same_oauth() -> None:
    one, two = World(), World(prefix="twos")
    person = Person(one)
    auth = oauth(one, person)
    async with protected(one) as first, protected(two) as second:
        async with open_http(first.url, auth=auth) as client:
            await call(client)
        person.world = two
        async with open_http(second.url, auth=auth) as client:
            await call(client)
    assert shown(two) == [None, "Bearer twos3", "Bearer twos3"]


async def test_a_grant_that_needs_a_browser_has_to_say_where_it_comes_back() -> None:
    @attrs.frozen
    class Lost(ClientCredentials):
        def form(self, context: GrantContext) -> Running[Pairs]:
            yield OpenBrowser(url="https://as.example/authorize")
            return ()

    world = World()
    client = ClientRecord(client_id="m", issuer=None, client_secret="s")
    async with protected(world) as server:
        with pytest.raises(AuthorizationRefused, match="has no redirect URI"):
            async with open_http(server.url, auth=oauth(world, grant=Lost(), credentials=[client])):
                pass


async def test_what_the_user_says_of_networks_and_of_the_authorization_server_holds() -> None:
    world = World(issuer_path="/two")
    async with protected(world) as server:
        # Neither this machine ...
        with pytest.raises(UnsafeUrl, match="leads to this machine, but the server is not on this machine"):
            async with open_http(server.url, auth=oauth(world, networks=frozenset({AddressClass.PUBLIC}))):
                pass
        # ... nor another authorization server than that one.
        with pytest.raises(IssuerMismatch):
            async with open_http(server.url, auth=oauth(world, authorization_server=f"{world.origin}/two/")):
                pass
        async with open_http(server.url, auth=oauth(world, authorization_server=world.issuer)) as client:
            await call(client)


async def test_each_server_of_a_configuration_logs_in_with_what_is_written_down_of_it() -> None:
    one, two = World(registers=False), World()
    person = Person(one)
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
        auth = configured_auth("Tester", store=MemoryStore(), user_agent=person)
        one.default_scopes = ""
        openings = configured(servers, auth=auth)
        del openings["three"]
        async with open_group(openings, restart=Restart(times=0)) as group:
            assert list(group.failed) == ["two"]
            assert isinstance(group.failed["two"], AccessDenied)
            await call(await group["one"].connected())
    assert one.authorized[0]["client_id"] == "by-hand"
    assert one.authorized[0]["scope"] == "a b"
    assert shown(two) == ["Bearer own"]
    assert configured_auth("Tester")(ServerConfig(name="x", url="https://mcp.example/mcp")) is not None


async def test_the_whole_way_over_tls() -> None:
    world = World()
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trusting)
    async with protected(world, tls=context) as server:
        assert server.url.startswith("https://localhost:")
        async with open_http(server.url, auth=oauth(world), tls=trusting) as client:
            await call(client)
    assert world.issuer.startswith("https://")


async def test_a_user_agent_may_have_a_deadline_of_its_own(autojump_clock: trio.testing.MockClock) -> None:
    class Impatient(Person):
        @asynccontextmanager
        async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
            with trio.move_on_after(60):
                async with super().receive(port) as receiver:
                    yield receiver

    world = World()
    person = Impatient(world)
    person.waits = trio.Event()
    async with protected(world) as server:
        with pytest.raises(AuthorizationRefused, match="the user agent cancelled the login"):
            async with open_http(server.url, auth=oauth(world, person)):
                pass
    assert person.logins == 1
