"""The authorization endpoint: which requests come before a person, and where a browser is sent."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

import pytest
import trio
from authorization_testbed import LOOPBACK, OTHER, RESOURCE, SCOPES, VERIFIER, WEB, query_of, world

from mcp_core.limits.rates import Rate
from mcp_core.oauth.pkce import challenge_of
from mcp_server.auth.authorization_server import Client, Lifetimes
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind


async def test_a_right_request_waits_for_a_person() -> None:
    async with world() as it:
        reply = await it.authorize(prompt="login consent")
        assert reply.status == 303
        assert reply.header("cache-control") == "no-store"
        pending = await it.server.interactions.get(reply.location.rpartition("/")[2])
        assert pending is not None
        assert pending.client.client_id == "app"
        assert pending.client.name == "The app"
        assert pending.client.kind is RegistrationKind.CONFIGURED
        assert pending.client.redirect_uri == WEB
        assert not pending.client.local_only
        assert pending.scopes == tuple(SCOPES)
        assert pending.resources == (RESOURCE,)
        assert pending.prompts == {"login", "consent"}
        assert pending.expires_at == pending.created_at + 600


@pytest.mark.spec("auth.as-iss-should")
async def test_who_agrees_sends_the_browser_back_with_a_code_the_state_and_the_issuer() -> None:
    async with world() as it:
        answer = await it.agree(await it.pending())
        assert answer.keys() == {"code", "state", "iss"}
        assert answer["state"] == "s1"
        assert answer["iss"] == it.url


@pytest.mark.spec("auth.as-iss-should")
async def test_who_refuses_sends_the_browser_back_with_an_error_the_state_and_the_issuer() -> None:
    async with world() as it:
        url = await it.server.interactions.deny(await it.pending())
        assert url is not None
        told = query_of(url)
        assert (told["error"], told["state"], told["iss"]) == ("access_denied", "s1", it.url)
        later = await it.server.interactions.deny(await it.pending(), error="server_error")
        assert query_of(later or "")["error"] == "server_error"


async def test_a_request_is_answered_once_and_in_time() -> None:
    async with world() as it:
        interactions = it.server.interactions
        answered, denied, expired = [await it.pending() for _ in range(3)]
        await it.agree(answered)
        assert await interactions.deny(denied) is not None
        for id in (answered, denied):
            assert await interactions.get(id) is None
        it.clock.now += 599
        assert await interactions.get(expired) is not None
        it.clock.now += 1
        for id in (answered, denied, expired, "never-was"):
            assert await interactions.get(id) is None
            assert await interactions.grant(id, subject="ada", scopes=SCOPES, auth_time=0) is None
            assert await interactions.deny(id) is None


async def test_a_state_that_is_absent_stays_absent_and_one_that_is_there_comes_back_as_it_was() -> None:
    async with world() as it:
        assert "state" not in await it.agree(await it.pending(state=None))
        odd = "ä&=%20#?\U0001f4d3 +"
        assert (await it.agree(await it.pending(state=odd)))["state"] == odd


async def test_a_redirect_uri_keeps_its_own_parameters() -> None:
    async with world() as it:
        reply = await it.register(
            {"redirect_uris": ["https://app.example/cb?tenant=a"], "token_endpoint_auth_method": "none"}
        )
        id = await it.pending(client_id=reply.text("client_id"), redirect_uri="https://app.example/cb?tenant=a")
        assert (await it.agree(id))["tenant"] == "a"


# --- what only the person is told ------------------------------------------------------------------------------------

BAD_REDIRECTS = [
    "https://app.example/callback/",
    "https://app.example/callback/../callback",
    "https://app.example/callback%2f..%2fevil",
    "https://app.example/callbac%6b",
    "https://app.example/Callback",
    "https://app.example/callback?x=1",
    "https://app.example/callback?",
    "https://app.example/callback#",
    "https://app.example/callback#fragment",
    "https://app.example:8443/callback",
    "https://app.example:443@evil.example/callback",
    "https://evil.example/callback",
    "https://user@app.example/callback",
    "https://app.example@evil.example/callback",
    "https://app.example.evil.example/callback",
    "https://app.example\\@evil.example/callback",
    "https://app.example%2eevil.example/callback",
    "http://app.example/callback",
    "//app.example/callback",
    "javascript:alert(1)",
    "data:text/html,hello",
    'https://app.example/callback"><script>',
    "https://app.example/callback\r\nLocation: https://evil.example",
    "https://äpp.example/callback",
    "http://127.0.0.1/callback",
    "urn:ietf:wg:oauth:2.0:oob",
    "*",
]


@pytest.mark.spec("auth.redirect-exact-match", "auth.as-redirect-exact", "auth.redirect-uri-validate-server")
@pytest.mark.parametrize("uri", BAD_REDIRECTS)
async def test_a_redirect_uri_that_is_not_registered_leads_nowhere(uri: str) -> None:
    async with world() as it:
        reply = await it.authorize(redirect_uri=uri)
        assert reply.status == 400
        assert reply.header("location") is None
        assert uri.encode() not in reply.body
        assert b"evil" not in reply.body


@pytest.mark.parametrize(
    ("uri", "right"),
    [
        ("http://127.0.0.1:49152/callback", True),
        ("http://127.0.0.1/callback", True),
        ("http://localhost:49152/callback", False),
        ("http://[::1]:49152/callback", False),
        ("http://127.0.0.2/callback", False),
        ("https://127.0.0.1/callback", False),
        ("http://127.0.0.1:49152/callback/", False),
        ("http://127.0.0.1:49152/callback?x=1", False),
        ("http://127.0.0.1:49152/callback#x", False),
        ("http://127.0.0.1:99999/callback", False),
        ("http://127.0.0.1:80@evil.example/callback", False),
        ("http://127.0.0.1.evil.example/callback", False),
        ("http://2130706433/callback", False),
    ],
)
async def test_on_loopback_only_the_port_may_differ(uri: str, right: bool) -> None:
    async with world() as it:
        reply = await it.authorize(client_id="local", redirect_uri=uri)
        assert reply.status == (303 if right else 400)
        if right:
            url = await it.server.interactions.deny(reply.location.rpartition("/")[2])
            assert (url or "").startswith(f"{uri}?")


async def test_the_only_redirect_uri_need_not_be_sent_unless_its_port_is_open() -> None:
    async with world() as it:
        code = await it.code(redirect_uri=None)
        assert (await it.redeem(code, redirect_uri=None)).status == 200
        assert (await it.authorize(client_id="local", redirect_uri=None)).status == 400


@pytest.mark.parametrize(
    "client", [None, "unknown", "", "app\0", "\udcff", "http://client.example/metadata", "x" * 5000]
)
async def test_an_unknown_client_leads_nowhere(client: str | None) -> None:
    async with world() as it:
        query = urlencode(
            {"redirect_uri": WEB, "response_type": "code"} | ({} if client is None else {"client_id": client}),
            errors="surrogateescape",
        )
        reply = await it.request("GET", f"/authorize?{query}")
        assert reply.status == 400
        assert reply.header("location") is None


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
async def test_a_request_that_names_its_client_or_redirect_uri_twice_leads_nowhere(name: str) -> None:
    async with world() as it:
        good = {"client_id": "app", "redirect_uri": WEB}
        for order in ([good[name], "evil"], ["evil", good[name]], [good[name], good[name]]):
            query = urlencode([*good.items(), *((name, value) for value in order[1:])])
            reply = await it.request("GET", f"/authorize?{query}")
            assert (reply.status, reply.header("location")) == (400, None)


# --- what the client is told -----------------------------------------------------------------------------------------

REFUSED: list[tuple[Mapping[str, str | None], str]] = [
    ({"response_type": None}, "invalid_request"),
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_type": "code token"}, "unsupported_response_type"),
    ({"response_type": "code id_token"}, "unsupported_response_type"),
    ({"response_type": 'co"de\\ä'}, "unsupported_response_type"),
    ({"response_mode": "fragment"}, "invalid_request"),
    ({"response_mode": "form_post"}, "invalid_request"),
    ({"code_challenge": None}, "invalid_request"),
    ({"code_challenge_method": None}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge_method": "s256"}, "invalid_request"),
    ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
    ({"code_challenge": "short"}, "invalid_request"),
    ({"code_challenge": "ä" * 43}, "invalid_request"),
    ({"scope": "notes:read unknown"}, "invalid_scope"),
    ({"scope": 'a"b'}, "invalid_scope"),
    ({"resource": OTHER}, "invalid_target"),
    ({"resource": f"{RESOURCE}/below"}, "invalid_target"),
    ({"resource": f"{RESOURCE}/"}, "invalid_target"),
    ({"resource": "https://mcp.example"}, "invalid_target"),
    ({"resource": "https://mcp.example/mcpx"}, "invalid_target"),
    ({"resource": f"{RESOURCE}#f"}, "invalid_target"),
    ({"prompt": "none"}, "login_required"),
    ({"prompt": "dance"}, "invalid_request"),
    ({"request": "eyJ"}, "request_not_supported"),
    ({"request_uri": "https://evil.example"}, "request_uri_not_supported"),
    ({"dpop_jkt": "short"}, "invalid_request"),
    ({"state": "x" * 2001}, "invalid_request"),
]


@pytest.mark.spec("auth.as-oauth21", "auth.as-iss-should")
@pytest.mark.parametrize(("changes", "error"), REFUSED)
async def test_a_wrong_request_is_told_to_the_client_with_the_issuer(
    changes: Mapping[str, str | None], error: str
) -> None:
    async with world() as it:
        reply = await it.authorize(**changes)
        assert reply.status == 303
        assert reply.location.startswith(f"{WEB}?")
        told = reply.query
        assert (told["error"], told["iss"]) == (error, it.url)
        assert told["state"] == changes.get("state", "s1")
        assert "code" not in told
        assert all(" " <= each <= "~" and each not in '"\\' for each in told["error_description"])


@pytest.mark.parametrize(
    "name", ["state", "scope", "code_challenge", "code_challenge_method", "resource", "response_type"]
)
async def test_a_parameter_that_comes_twice_is_refused(name: str) -> None:
    async with world() as it:
        good = {
            "response_type": "code", "client_id": "app", "redirect_uri": WEB, "scope": "notes:read", "state": "s1",
            "resource": RESOURCE, "code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256",
        }  # fmt: skip
        reply = await it.request("GET", f"/authorize?{urlencode([*good.items(), (name, good[name])])}")
        assert reply.query["error"] == ("invalid_target" if name == "resource" else "invalid_request")


@pytest.mark.spec("auth.as-auto-redirect-trusted", "auth.as-automatic-redirect", "auth.as-no-untrusted-redirect")
async def test_a_browser_is_not_sent_to_a_stranger_with_an_error_that_nobody_asked_for() -> None:
    async with world() as it:
        stranger = (
            await it.register({"redirect_uris": ["https://evil.example/"], "token_endpoint_auth_method": "none"})
        ).text("client_id")
        reply = await it.authorize(client_id=stranger, redirect_uri="https://evil.example/", scope="unknown")
        assert (reply.status, reply.header("location")) == (400, None)
        native = (await it.register({"redirect_uris": [LOOPBACK], "token_endpoint_auth_method": "none"})).text(
            "client_id"
        )
        reply = await it.authorize(client_id=native, redirect_uri=LOOPBACK, scope="unknown")
        assert reply.query["error"] == "invalid_scope"


# --- scopes and resources --------------------------------------------------------------------------------------------


async def test_who_asks_for_no_scope_asks_for_all_and_the_person_decides() -> None:
    async with world() as it:
        id = await it.pending(scope=None)
        pending = await it.server.interactions.get(id)
        assert pending is not None
        assert pending.scopes == tuple(SCOPES)
        answer = await it.agree(id, ["notes:read"])
        assert (await it.redeem(answer["code"])).text("scope") == "notes:read"


async def test_what_was_not_asked_for_cannot_be_granted() -> None:
    async with world() as it:
        code = await it.code(scope="notes:read", scopes=("notes:read", "notes:write", "admin"))
        assert (await it.redeem(code)).text("scope") == "notes:read"


async def test_the_resource_may_be_left_out_where_there_is_only_one() -> None:
    async with world() as it:
        id = await it.pending(resource=None)
        pending = await it.server.interactions.get(id)
        assert pending is not None
        assert pending.resources == (RESOURCE,)
    async with world(resources=[RESOURCE, OTHER]) as it:
        assert (await it.authorize(resource=None)).query["error"] == "invalid_target"
        assert (await it.authorize(resource=OTHER)).status == 303


@pytest.mark.spec("auth.resource-uppercase-accepted", "auth.resource-accept-uppercase")
async def test_a_resource_may_be_spelt_in_capitals_and_is_granted_as_it_is_configured() -> None:
    async with world() as it:
        id = await it.pending(resource="HTTPS://MCP.EXAMPLE:443/mcp")
        pending = await it.server.interactions.get(id)
        assert pending is not None
        assert pending.resources == (RESOURCE,)


# --- bounds ----------------------------------------------------------------------------------------------------------


async def test_requests_of_one_address_are_bounded() -> None:
    async with world(rate=Rate(2)) as it:
        assert [(await it.authorize()).status for _ in range(3)] == [303, 303, 429]
        reply = await it.authorize()
        assert int(reply.header("retry-after") or 0) > 0
        limited = await it.redeem("x")
        assert (limited.status, limited.error) == (429, "temporarily_unavailable")


async def test_the_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_server.auth.authorization_server.protocol.authorization._PENDING", 2)
    async with world(lifetimes=Lifetimes(pending=10)) as it:
        for _ in range(2):
            await it.pending()
        assert (await it.authorize()).query["error"] == "temporarily_unavailable"
        it.clock.now += 11
        await it.pending()


async def test_an_issuer_with_a_path_has_all_below_it() -> None:
    async with world(path="/tenant") as it:
        reply = await it.authorize()
        assert urlsplit(reply.location).path.startswith("/tenant/interaction/")
        assert (await it.request("GET", "/authorize")).status == 404
        assert (await it.agree(await it.pending()))["iss"] == it.url


async def test_a_configured_client_may_be_held_to_some_scopes() -> None:
    reader = Client.configured("reader", redirect_uris=[WEB], scopes=["notes:read"])
    async with world(clients=[reader]) as it:
        assert (await it.authorize(client_id="reader")).query["error"] == "invalid_scope"
        pending = await it.server.interactions.get(await it.pending(client_id="reader", scope=None))
        assert pending is not None
        assert pending.scopes == ("notes:read",)


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
    ],
)
async def test_a_network_of_ipv6_counts_as_one_address(
    address: str, counted_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    async def authorize(_: object, query: str, *, address: str) -> str:
        counted.append(address)
        return "/"

    monkeypatch.setattr("mcp_server.auth.authorization_server.protocol.endpoints.Endpoints.authorize", authorize)
    async with world() as it:
        sent: list[object] = []

        arriving, arrives = trio.open_memory_channel[dict[str, object]](1)
        await arriving.send({"type": "http.request", "body": b"", "more_body": False})

        async def send(message: object) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "GET", "path": "/authorize", "raw_path": b"/authorize", "query_string": b"", "root_path": "",
            "scheme": "http", "http_version": "1.1", "client": (address, 1), "asgi": {"version": "3.0"}, "extensions": {},
            "headers": [(b"host", it.url.removeprefix("http://").encode())],
        }  # fmt: skip
        await it.server.app(scope, arrives.receive, send)  # type: ignore[arg-type]  # its types are of another kind
    assert counted == [counted_as]
