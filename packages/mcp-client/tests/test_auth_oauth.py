"""The driver: what a client does when a server wants a token, or another one."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing
from auth_world import Person, World, call, connected, oauth, proof, protected, shown
from zoo import Asked, OldServer, Reply, legacy, modern, standing

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
async def test_a_server_that_wants_a_token_gets_one_and_the_call_goes_through() -> None:
    world = World()
    person = Person(world)
    async with protected(world) as server, open_http(server.url, auth=oauth(world, person)) as client:
        await call(client)
        await call(client)
    assert person.logins == 1
    assert world.grants_made == ["authorization_code"]
    assert shown(world) == [None, "Bearer t3", "Bearer t3", "Bearer t3"]
    assert world.authorized[0]["scope"] == "notes:read"


async def test_a_server_that_wants_no_token_is_asked_without_one() -> None:
    world = World(protects=lambda asked: False)
    person = Person(world)
    async with protected(world) as server, open_http(server.url, auth=oauth(world, person)) as client:
        await call(client)
    assert person.logins == 0
    assert shown(world) == [None, None]


@pytest.mark.spec("auth.every-request")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_each_request_of_a_legacy_session_carries_the_token(version: str) -> None:
    revision = REVISIONS[version]
    world = World(inner=legacy(version=version, get=standing))
    async with (
        protected(world) as server,
        open_http(server.url, auth=oauth(world), revisions=[revision]) as client,
    ):
        await call(client)
        assert client.revision is revision
    kinds = [(asked.method, asked.rpc) for asked in world.mcp()]
    assert kinds[:3] == [("POST", "initialize"), ("POST", "initialize"), ("POST", "notifications/initialized")]
    assert ("DELETE", "DELETE") in kinds
    assert ("GET", "GET") in kinds
    assert shown(world)[1:] == ["Bearer t3"] * (len(kinds) - 1)


async def test_a_connection_over_http_sse_carries_the_token_in_its_get_and_its_posts() -> None:
    old = OldServer()
    world = World(inner=old.answer)
    async with protected(world) as server, open_http(server.url, auth=oauth(world)) as client:
        await call(client)
        assert client.revision.http_sse
    assert [asked for asked in world.mcp() if asked.target.startswith("/messages")]
    assert set(shown(world)[1:]) == {"Bearer t3"}


@pytest.mark.parametrize("rpc", ["notifications/initialized", "initialize", "server/discover", "tools/call"])
async def test_it_does_not_matter_which_request_is_refused_first(rpc: str) -> None:
    world = World(inner=legacy() if rpc != "server/discover" else modern(), protects=lambda asked: asked.rpc == rpc)
    person = Person(world)
    async with protected(world) as server, open_http(server.url, auth=oauth(world, person)) as client:
        await call(client)
    assert person.logins == 1


async def test_the_get_of_http_sse_can_be_what_is_refused_first() -> None:
    old = OldServer()
    world = World(inner=old.answer, protects=lambda asked: asked.method == "GET")
    person = Person(world)
    async with protected(world) as server, open_http(server.url, auth=oauth(world, person)) as client:
        await call(client)
    assert person.logins == 1


async def test_a_stream_in_the_background_asks_nobody_to_log_in(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_client")
    world = World(inner=legacy(get=standing), protects=lambda asked: asked.method == "GET")
    person = Person(world)
    async with protected(world) as server, open_http(server.url, auth=oauth(world, person)) as client:
        await call(client)
        await trio.testing.wait_all_tasks_blocked(0.05)
    assert person.logins == 0
    assert "only a background stream waits for the login" in caplog.text


async def test_ending_a_session_asks_nobody_to_log_in() -> None:
    world = World(inner=legacy(), protects=lambda asked: asked.method == "DELETE")
    person = Person(world)
    async with protected(world) as server, open_http(server.url, auth=oauth(world, person)) as client:
        await call(client)
    assert person.logins == 0
    assert [asked.method for asked in world.mcp()][-1] == "DELETE"


async def test_without_auth_a_refusal_says_what_can_be_done() -> None:
    world = World()
    async with protected(world) as server:
        with pytest.raises(AccessDenied, match=r"auth=OAuth\(\.\.\.\)") as caught:
            async with open_http(server.url):
                pass
    assert caught.value.challenges[0].startswith("Bearer resource_metadata=")


@pytest.mark.parametrize("given", [{"Authorization": "Bearer x"}, {"DPoP": "x"}])
async def test_credentials_in_headers_and_by_auth_are_refused_with_both_names(given: dict[str, str]) -> None:
    world = World()
    both = r"headers=.*auth="
    with pytest.raises(LocalProtocolError, match=both):
        open_http("https://mcp.example/mcp", auth=oauth(world), headers=given)
    async with protected(world) as server:
        with pytest.raises(LocalProtocolError, match=both):
            async with open_http(server.url, auth=oauth(world), headers=lambda: given):
                pass
        async with open_http(server.url, auth=oauth(world)) as client:
            await call(client.with_headers({"X-Trace": "1"}))
            with pytest.raises(LocalProtocolError, match=both):
                await call(client.with_headers(given))


@pytest.mark.parametrize("settings", [None, ClientSettings(client_name="Tester")])
def test_a_client_has_a_name_or_settings_and_not_both(settings: ClientSettings | None) -> None:
    with pytest.raises(LocalProtocolError, match="client_name or settings"):
        OAuth(None if settings is None else "Tester", settings=settings)


@pytest.mark.spec("security.oauth-https")
async def test_a_server_without_tls_elsewhere_is_given_no_token() -> None:
    with pytest.raises(UnsafeUrl, match="https"):
        async with open_http("http://mcp.example/mcp", auth=OAuth("Tester")):
            pass


# --- more scopes -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.step-up", "auth.step-up-union", "auth.step-up-user", "auth.reauth-keeps-scopes")
async def test_a_call_that_needs_more_scopes_asks_for_those_of_before_and_the_new_ones() -> None:
    world = World(needed={"tools/call write": "notes:write"})
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        await call(client)
        await call(client, "write")
        await call(client)
    assert person.logins == 2
    assert [request["scope"] for request in world.authorized] == ["notes:read", "notes:read notes:write"]
    assert world.grants_made == ["authorization_code"] * 2, "a refresh cannot widen a token"


@pytest.mark.spec("auth.step-up-retry-limit", "auth.step-up-track")
async def test_a_call_whose_scopes_are_never_granted_ends_with_what_is_lacking() -> None:
    world = World(needed={"tools/call write": "notes:write"}, grants=lambda asked: "notes:read")
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        with pytest.raises(InsufficientScope, match="tools/call write requires notes:write") as caught:
            await client.call_tool("write")
        assert caught.value.required == ("notes:write",)
        assert caught.value.authorization_url == f"{world.issuer}/authorize"
        assert person.logins == 3
        await call(client)
        with pytest.raises(InsufficientScope):
            await client.call_tool("write")
    assert person.logins == 3, "asking again is of no use, and nobody is bothered"


async def test_an_operation_that_went_through_may_need_more_scopes_again_later() -> None:
    world = World(needed={"tools/call write": "a"})
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        for scope in ("a", "b", "c", "d"):
            world.needed["tools/call write"] = scope
            await call(client, "write")
    assert person.logins == 5


async def test_a_refusal_that_is_not_about_scopes_is_the_callers_affair() -> None:
    async def forbidden(asked: Asked, reply: Reply) -> None:
        await reply.body(403, b"never", "text/plain", {"WWW-Authenticate": 'Bearer error="access_denied"'})

    world = World(inner=modern(forbidden))
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        with pytest.raises(AccessDenied, match="never"):
            await client.call_tool("echo")
    assert person.logins == 1


# --- what goes in circles ----------------------------------------------------------------------------------------------


async def test_a_token_that_is_refused_as_soon_as_it_came_is_not_got_again() -> None:
    world = World(accepts_new=False)
    person = Person(world)
    async with protected(world) as server:
        auth = oauth(world, person)
        for _attempt in range(3):
            with pytest.raises(TokenRefused, match=r"rejects the token that .* has just issued") as caught:
                async with open_http(server.url, auth=auth):
                    pass
            assert caught.value.error == "invalid_token"
        assert person.logins == 1
        world.now += 61
        world.accepts_new = True
        async with open_http(server.url, auth=auth) as client:
            await call(client)
    assert person.logins == 1


async def test_a_refreshed_token_that_is_refused_leads_to_the_person_and_no_further() -> None:
    world = World()
    person = Person(world)
    async with connected(world, oauth(world, person)) as (_, client):
        world.accepts_new = False
        with pytest.raises(TokenRefused):
            await client.call_tool("echo")
    assert person.logins == 2
    assert world.grants_made == ["authorization_code", "refresh_token", "authorization_code"]


async def test_a_server_that_always_wants_another_nonce_is_not_asked_for_ever() -> None:
    numbers = iter(range(1_000))

    class Whimsical(World):
        async def answer(self, asked: Asked, reply: Reply) -> None:
            if asked.target == "/mcp" and "dpop" in asked.headers:
                nonce = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": f"n{next(numbers)}"}
                await reply.body(401, b"", None, nonce)
            else:
                await super().answer(asked, reply)

    world = Whimsical()
    async with protected(world) as server:
        with pytest.raises(TokenRefused):
            async with open_http(server.url, auth=oauth(world, proof=proof())):
                pass
    assert 3 <= next(numbers) < 10


@pytest.mark.spec("dpop.client-fresh-proof", "dpop.client-as-nonce", "dpop.client-rs-nonce", "dpop.client-scheme")
async def test_each_request_has_a_proof_of_its_own_with_the_nonce_of_its_server() -> None:
    world = World(nonce="one")
    person = Person(world)
    async with connected(world, oauth(world, person, proof=proof())) as (_, client):
        await call(client)
        world.nonce = "two"
        async with trio.open_nursery() as nursery:
            for _number in range(8):
                nursery.start_soon(call, client)
    assert person.logins == 1
    with_token = [asked for asked in world.mcp() if "authorization" in asked.headers]
    assert {asked.headers["authorization"].split(" ")[0] for asked in with_token} == {"DPoP"}
    proofs = [asked.headers["dpop"] for asked in world.asked if "dpop" in asked.headers]
    assert len(set(proofs)) == len(proofs)
