"""The authorization endpoint: which requests are accepted, and where a browser is redirected."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

import pytest
import trio
from authorization_testbed import LOOPBACK, OTHER, RESOURCE, SCOPES, VERIFIER, WEB, open_testbed, query_of

from mcp_core.limits.rates import Rate
from mcp_core.oauth.pkce import challenge_of
from mcp_server.auth.authorization_server import Client, Lifetimes
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind


async def test_valid_request_becomes_pending() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.authorize(prompt="login consent")
        assert reply.status == 303
        assert reply.header("cache-control") == "no-store"
        pending = await testbed.server.interactions.get(reply.location.rpartition("/")[2])
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
async def test_granted_request_redirects_with_code_state_and_issuer() -> None:
    async with open_testbed() as testbed:
        answer = await testbed.agree(await testbed.pending())
        assert answer.keys() == {"code", "state", "iss"}
        assert answer["state"] == "s1"
        assert answer["iss"] == testbed.url


@pytest.mark.spec("auth.as-iss-should")
async def test_denied_request_redirects_with_error_state_and_issuer() -> None:
    async with open_testbed() as testbed:
        url = await testbed.server.interactions.deny(await testbed.pending())
        assert url is not None
        parameters = query_of(url)
        assert (parameters["error"], parameters["state"], parameters["iss"]) == ("access_denied", "s1", testbed.url)
        later = await testbed.server.interactions.deny(await testbed.pending(), error="server_error")
        assert query_of(later or "")["error"] == "server_error"


async def test_pending_request_answered_once_before_expiry() -> None:
    async with open_testbed() as testbed:
        interactions = testbed.server.interactions
        answered, denied, expired = [await testbed.pending() for _ in range(3)]
        await testbed.agree(answered)
        assert await interactions.deny(denied) is not None
        for id in (answered, denied):
            assert await interactions.get(id) is None
        testbed.clock.now += 599
        assert await interactions.get(expired) is not None
        testbed.clock.now += 1
        for id in (answered, denied, expired, "never-was"):
            assert await interactions.get(id) is None
            assert await interactions.grant(id, subject="ada", scopes=SCOPES, auth_time=0) is None
            assert await interactions.deny(id) is None


async def test_state_returned_unchanged_or_absent() -> None:
    async with open_testbed() as testbed:
        assert "state" not in await testbed.agree(await testbed.pending(state=None))
        odd = "ä&=%20#?\U0001f4d3 +"
        assert (await testbed.agree(await testbed.pending(state=odd)))["state"] == odd


async def test_redirect_uri_keeps_its_query() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.register(
            {"redirect_uris": ["https://app.example/cb?tenant=a"], "token_endpoint_auth_method": "none"}
        )
        id = await testbed.pending(client_id=reply.text("client_id"), redirect_uri="https://app.example/cb?tenant=a")
        assert (await testbed.agree(id))["tenant"] == "a"


# --- errors shown to the user only ------------------------------------------------------------------------------------

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
async def test_unregistered_redirect_uri_returns_400_without_redirect(uri: str) -> None:
    async with open_testbed() as testbed:
        reply = await testbed.authorize(redirect_uri=uri)
        assert reply.status == 400
        assert reply.header("location") is None
        assert uri.encode() not in reply.body
        assert b"evil" not in reply.body


@pytest.mark.parametrize(
    ("uri", "valid"),
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
async def test_loopback_redirect_uri_may_differ_in_port_only(uri: str, valid: bool) -> None:
    async with open_testbed() as testbed:
        reply = await testbed.authorize(client_id="local", redirect_uri=uri)
        assert reply.status == (303 if valid else 400)
        if valid:
            url = await testbed.server.interactions.deny(reply.location.rpartition("/")[2])
            assert (url or "").startswith(f"{uri}?")


async def test_single_redirect_uri_optional_unless_port_varies() -> None:
    async with open_testbed() as testbed:
        code = await testbed.code(redirect_uri=None)
        assert (await testbed.redeem(code, redirect_uri=None)).status == 200
        assert (await testbed.authorize(client_id="local", redirect_uri=None)).status == 400


@pytest.mark.parametrize(
    "client", [None, "unknown", "", "app\0", "\udcff", "http://client.example/metadata", "x" * 5000]
)
async def test_unknown_client_returns_400_without_redirect(client: str | None) -> None:
    async with open_testbed() as testbed:
        query = urlencode(
            {"redirect_uri": WEB, "response_type": "code"} | ({} if client is None else {"client_id": client}),
            errors="surrogateescape",
        )
        reply = await testbed.request("GET", f"/authorize?{query}")
        assert reply.status == 400
        assert reply.header("location") is None


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
async def test_repeated_client_id_or_redirect_uri_returns_400_without_redirect(name: str) -> None:
    async with open_testbed() as testbed:
        good = {"client_id": "app", "redirect_uri": WEB}
        for order in ([good[name], "evil"], ["evil", good[name]], [good[name], good[name]]):
            query = urlencode([*good.items(), *((name, value) for value in order[1:])])
            reply = await testbed.request("GET", f"/authorize?{query}")
            assert (reply.status, reply.header("location")) == (400, None)


# --- errors sent to the client ----------------------------------------------------------------------------------------

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
    ({"prompt": "unknown"}, "invalid_request"),
    ({"request": "eyJ"}, "request_not_supported"),
    ({"request_uri": "https://evil.example"}, "request_uri_not_supported"),
    ({"dpop_jkt": "short"}, "invalid_request"),
    ({"state": "x" * 2001}, "invalid_request"),
]


@pytest.mark.spec("auth.as-oauth21", "auth.as-iss-should")
@pytest.mark.parametrize(("changes", "error"), REFUSED)
async def test_invalid_request_redirects_with_error_and_issuer(changes: Mapping[str, str | None], error: str) -> None:
    async with open_testbed() as testbed:
        reply = await testbed.authorize(**changes)
        assert reply.status == 303
        assert reply.location.startswith(f"{WEB}?")
        parameters = reply.query
        assert (parameters["error"], parameters["iss"]) == (error, testbed.url)
        assert parameters["state"] == changes.get("state", "s1")
        assert "code" not in parameters
        assert all(" " <= each <= "~" and each not in '"\\' for each in parameters["error_description"])


@pytest.mark.parametrize(
    "name", ["state", "scope", "code_challenge", "code_challenge_method", "resource", "response_type"]
)
async def test_repeated_parameter_redirects_with_error(name: str) -> None:
    async with open_testbed() as testbed:
        good = {
            "response_type": "code", "client_id": "app", "redirect_uri": WEB, "scope": "notes:read", "state": "s1",
            "resource": RESOURCE, "code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256",
        }  # fmt: skip
        reply = await testbed.request("GET", f"/authorize?{urlencode([*good.items(), (name, good[name])])}")
        assert reply.query["error"] == ("invalid_target" if name == "resource" else "invalid_request")


@pytest.mark.spec("auth.as-auto-redirect-trusted", "auth.as-automatic-redirect", "auth.as-no-untrusted-redirect")
async def test_error_of_unverified_client_shown_without_redirect() -> None:
    async with open_testbed() as testbed:
        foreign_client = (
            await testbed.register({"redirect_uris": ["https://evil.example/"], "token_endpoint_auth_method": "none"})
        ).text("client_id")
        reply = await testbed.authorize(client_id=foreign_client, redirect_uri="https://evil.example/", scope="unknown")
        assert (reply.status, reply.header("location")) == (400, None)
        native = (await testbed.register({"redirect_uris": [LOOPBACK], "token_endpoint_auth_method": "none"})).text(
            "client_id"
        )
        reply = await testbed.authorize(client_id=native, redirect_uri=LOOPBACK, scope="unknown")
        assert reply.query["error"] == "invalid_scope"


# --- scopes and resources ---------------------------------------------------------------------------------------------


async def test_request_without_scope_requests_all_scopes() -> None:
    async with open_testbed() as testbed:
        id = await testbed.pending(scope=None)
        pending = await testbed.server.interactions.get(id)
        assert pending is not None
        assert pending.scopes == tuple(SCOPES)
        answer = await testbed.agree(id, ["notes:read"])
        assert (await testbed.redeem(answer["code"])).text("scope") == "notes:read"


async def test_scope_not_requested_is_not_granted() -> None:
    async with open_testbed() as testbed:
        code = await testbed.code(scope="notes:read", scopes=("notes:read", "notes:write", "admin"))
        assert (await testbed.redeem(code)).text("scope") == "notes:read"


async def test_resource_optional_if_server_has_one() -> None:
    async with open_testbed() as testbed:
        id = await testbed.pending(resource=None)
        pending = await testbed.server.interactions.get(id)
        assert pending is not None
        assert pending.resources == (RESOURCE,)
    async with open_testbed(resources=[RESOURCE, OTHER]) as testbed:
        assert (await testbed.authorize(resource=None)).query["error"] == "invalid_target"
        assert (await testbed.authorize(resource=OTHER)).status == 303


@pytest.mark.spec("auth.resource-uppercase-accepted", "auth.resource-accept-uppercase")
async def test_resource_in_uppercase_accepted_and_normalized() -> None:
    async with open_testbed() as testbed:
        id = await testbed.pending(resource="HTTPS://MCP.EXAMPLE:443/mcp")
        pending = await testbed.server.interactions.get(id)
        assert pending is not None
        assert pending.resources == (RESOURCE,)


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_requests_of_one_address_are_rate_limited() -> None:
    async with open_testbed(rate=Rate(2)) as testbed:
        assert [(await testbed.authorize()).status for _ in range(3)] == [303, 303, 429]
        reply = await testbed.authorize()
        assert int(reply.header("retry-after") or 0) > 0
        limited = await testbed.redeem("x")
        assert (limited.status, limited.error) == (429, "temporarily_unavailable")


async def test_pending_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_server.auth.authorization_server.protocol.authorization._PENDING", 2)
    async with open_testbed(lifetimes=Lifetimes(pending=10)) as testbed:
        for _ in range(2):
            await testbed.pending()
        assert (await testbed.authorize()).query["error"] == "temporarily_unavailable"
        testbed.clock.now += 11
        await testbed.pending()


async def test_issuer_with_path_has_all_endpoints_below() -> None:
    async with open_testbed(path="/tenant") as testbed:
        reply = await testbed.authorize()
        assert urlsplit(reply.location).path.startswith("/tenant/interaction/")
        assert (await testbed.request("GET", "/authorize")).status == 404
        assert (await testbed.agree(await testbed.pending()))["iss"] == testbed.url


async def test_configured_client_limited_to_its_scopes() -> None:
    reader = Client.configured("reader", redirect_uris=[WEB], scopes=["notes:read"])
    async with open_testbed(clients=[reader]) as testbed:
        assert (await testbed.authorize(client_id="reader")).query["error"] == "invalid_scope"
        pending = await testbed.server.interactions.get(await testbed.pending(client_id="reader", scope=None))
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
async def test_ipv6_network_counts_as_one_address(
    address: str, counted_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[str] = []

    async def authorize(_: object, query: str, *, address: str) -> str:
        addresses.append(address)
        return "/"

    monkeypatch.setattr("mcp_server.auth.authorization_server.protocol.endpoints.Endpoints.authorize", authorize)
    async with open_testbed() as testbed:
        sent: list[object] = []

        arriving, arrives = trio.open_memory_channel[dict[str, object]](1)
        await arriving.send({"type": "http.request", "body": b"", "more_body": False})

        async def send(message: object) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "GET", "path": "/authorize", "raw_path": b"/authorize", "query_string": b"", "root_path": "",
            "scheme": "http", "http_version": "1.1", "client": (address, 1), "asgi": {"version": "3.0"}, "extensions": {},
            "headers": [(b"host", testbed.url.removeprefix("http://").encode())],
        }  # fmt: skip
        await testbed.server.app(scope, arrives.receive, send)  # type: ignore[arg-type]  # the types of Quart are narrower
    assert addresses == [counted_as]
