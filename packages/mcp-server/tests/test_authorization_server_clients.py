"""Clients of the authorization server: registration, metadata documents, and signed assertions."""

from __future__ import annotations

import base64
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import attrs
import pytest
import trio
import trustme
from authorization_testbed import LOOPBACK, SECRET, START, WEB, AuthorizationTestbed, Key, Reply, open_testbed, query_of
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits.rates import Rate
from mcp_core.oauth.addresses import AddressClass
from mcp_core.oauth.assertions import ASSERTION_TYPE, client_assertion
from mcp_core.oauth.jws import base64url
from mcp_server.asgi import Receive, Scope, Send
from mcp_server.auth.authorization_server import Client, DynamicRegistration, Lifetimes, RegistrationPolicy
from mcp_server.auth.authorization_server.clients.metadata import Unacceptable, check_document_id, shown
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind
from mcp_server.host.embedded import HttpHost
from mcp_server.host.listeners import listen

# --- dynamic registration --------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.dcr-server", "auth.dcr-may")
async def test_registered_public_client_gets_tokens() -> None:
    async with open_testbed() as testbed:
        document: JsonObject = {
            "client_name": "Notebook reader",
            "redirect_uris": [LOOPBACK],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            "client_uri": "https://reader.example",
            "logo_uri": "javascript:alert(1)",
            "scope": "notes:read",
            "software_id": "reader",
        }
        reply = await testbed.register(document)
        assert (reply.status, reply.header("cache-control")) == (201, "no-store")
        registered = dict(reply.json)
        client_id = registered.pop("client_id")
        assert isinstance(client_id, str)
        assert registered == {
            "client_id_issued_at": int(START), "client_name": "Notebook reader", "redirect_uris": [LOOPBACK],
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
            "token_endpoint_auth_method": "none", "application_type": "native", "client_uri": "https://reader.example",
        }  # fmt: skip
        uri = "http://127.0.0.1:4444/callback"
        id = await testbed.pending(client_id=client_id, redirect_uri=uri)
        pending = await testbed.server.interactions.get(id)
        assert pending is not None
        assert pending.client.kind is RegistrationKind.DYNAMIC
        assert pending.client.local_only
        assert pending.client.client_uri == "https://reader.example"
        tokens = await testbed.redeem((await testbed.agree(id))["code"], client_id=client_id, redirect_uri=uri)
        assert (await testbed.refresh(tokens.text("refresh_token"), client_id=client_id)).status == 200


async def test_registration_without_metadata_uses_defaults() -> None:
    async with open_testbed() as testbed:
        registered = (await testbed.register({"redirect_uris": [WEB]})).json
        assert registered["token_endpoint_auth_method"] == "client_secret_basic"
        assert registered["grant_types"] == ["authorization_code"]
        assert registered["client_secret_expires_at"] == 0
        assert registered["client_name"] == "An application without a name"
        assert isinstance(registered["client_secret"], str)
        assert len(registered["client_secret"]) == 43
        assert "application_type" not in registered


async def test_client_secret_only_with_registered_method() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.register({"redirect_uris": [WEB], "token_endpoint_auth_method": "client_secret_post"})
        client, secret = reply.text("client_id"), reply.text("client_secret")
        code = await testbed.code(client_id=client)
        header = ("Authorization", f"Basic {base64.b64encode(f'{client}:{secret}'.encode()).decode()}")
        for refused in (
            await testbed.redeem(code, client_id=client),
            await testbed.redeem(code, client_id=client, headers=[header]),
            await testbed.redeem(code, client_id=client, client_secret=secret[:-1]),
        ):
            assert (refused.status, refused.error) == (401, "invalid_client")
        assert (await testbed.redeem(code, client_id=client, client_secret=secret)).status == 200


SCHEMES: Final = (
    "http://app.example/cb", "http://10.0.0.1/cb", "http://localhost.evil.example/cb", "https://user@app.example/cb",
    "https://app.example/cb#f", "https://app.example/a/../cb", "https://app.example/a/%2e%2E/cb", "https://app.example/cb?code=1",
    "https://app.example/cb?x=1&state=2", "https://app.example/cb?iss=x", "javascript:alert(1)", "data:text/html,x",
    "file:///etc/passwd", "myapp://cb", "com.example.app:/cb", "urn:ietf:wg:oauth:2.0:oob", "/cb", "https://", "https://app.example/ä",
    "https://app.example/\ncb", "https://0x7f000001/cb", "x" * 3000,
)  # fmt: skip
KEYS: Final[tuple[JsonObject, ...]] = (
    {"jwks": {}}, {"jwks": {"keys": []}}, {"jwks": {"keys": ["x"]}}, {"jwks": []}, {"jwks_uri": "nonsense"}, {"jwks_uri": 1},
    {"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}}, {"jwks": {"keys": [{"kty": "EC", "d": "AAAA"}]}},
    {"jwks": {"keys": [{}] * 17}}, {"jwks": {"keys": [{"kty": "EC"}]}, "jwks_uri": "https://app.example/jwks"},
)  # fmt: skip


def refused_keys(keys: JsonObject) -> tuple[JsonObject, str]:
    document: JsonObject = {"redirect_uris": [WEB], "token_endpoint_auth_method": "private_key_jwt"}
    return document | keys, "invalid_client_metadata"


def refused_uri(uri: str) -> tuple[JsonObject, str]:
    return {"redirect_uris": [WEB, uri]}, "invalid_redirect_uri"


REFUSED: list[tuple[JsonObject, str]] = [
    ({}, "invalid_redirect_uri"),
    ({"redirect_uris": []}, "invalid_redirect_uri"),
    ({"redirect_uris": WEB}, "invalid_redirect_uri"),
    ({"redirect_uris": [1]}, "invalid_redirect_uri"),
    ({"redirect_uris": [WEB, ""]}, "invalid_redirect_uri"),
    ({"redirect_uris": [f"{WEB}{n}" for n in range(21)]}, "invalid_redirect_uri"),
    *map(refused_uri, SCHEMES),
    ({"redirect_uris": [LOOPBACK], "application_type": "web"}, "invalid_redirect_uri"),
    ({"redirect_uris": [WEB], "application_type": 1}, "invalid_client_metadata"),
    ({"redirect_uris": [WEB], "client_name": ["x"]}, "invalid_client_metadata"),
    ({"redirect_uris": [WEB], "client_name": "x" * 2001}, "invalid_client_metadata"),
    ({"redirect_uris": [WEB], "grant_types": "authorization_code"}, "invalid_client_metadata"),
    ({"redirect_uris": [WEB], "grant_types": ["client_credentials"]}, "invalid_client_metadata"),
    ({"redirect_uris": [WEB], "grant_types": ["implicit"]}, "invalid_client_metadata"),
    ({"redirect_uris": [WEB], "token_endpoint_auth_method": "client_secret_jwt"}, "invalid_client_metadata"),
    ({"redirect_uris": [WEB], "token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
    *map(refused_keys, KEYS),
]


@pytest.mark.spec("auth.redirect-uri-validate-server", "auth.as-untrusted-redirects")
@pytest.mark.parametrize(("document", "error"), REFUSED)
async def test_invalid_client_metadata_rejected(document: JsonObject, error: str) -> None:
    async with open_testbed() as testbed:
        reply = await testbed.register(document)
        assert (reply.status, reply.error) == (400, error), reply
        assert reply.text("error_description").isascii()


@pytest.mark.spec("auth.redirect-uri-validate-server")
@pytest.mark.parametrize("uri", SCHEMES)
def test_configured_client_with_invalid_redirect_uri_raises(uri: str) -> None:
    with pytest.raises(ValueError, match=r"client 'app' .*redirect URI") as caught:
        Client.configured("app", redirect_uris=[WEB, uri])
    assert f"{uri[:200]!a}" in str(caught.value)
    with pytest.raises(ValueError, match="redirect URI"):
        attrs.evolve(Client.configured("app", redirect_uris=[WEB]), redirect_uris=(uri,))


def test_configured_client_redirect_uris_as_string_raises() -> None:
    with pytest.raises(TypeError, match=r"client 'app'.*redirect_uris.*\['https://app.example/cb'\]"):
        Client.configured("app", redirect_uris="https://app.example/cb")


@pytest.mark.parametrize(
    "uri", [WEB, LOOPBACK, "http://localhost:8080/cb?tenant=a", "http://[::1]/cb", "https://127.0.0.1/"]
)
async def test_redirect_uri_valid_for_configured_and_registered_clients(uri: str) -> None:
    assert Client.configured("app", redirect_uris=[uri]).redirect_uris == (uri,)
    async with open_testbed() as testbed:
        assert (await testbed.register({"redirect_uris": [uri]})).status == 201


async def test_unknown_grant_types_omitted_from_registration() -> None:
    async with open_testbed() as testbed:
        grants: list[JsonValue] = [
            "authorization_code",
            "urn:ietf:params:oauth:grant-type:device_code",
            "client_credentials",
        ]
        reply = await testbed.register(
            {"redirect_uris": [WEB], "grant_types": grants, "token_endpoint_auth_method": "none"}
        )
        assert reply.json["grant_types"] == ["authorization_code"]
        id = reply.text("client_id")
        assert (await testbed.redeem(await testbed.code(client_id=id), client_id=id)).status == 200


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("Notebook", "Notebook"),
        ("  two\n\tlines\x00\x1b[31m ", "two lines[31m"),
        ("a\u202eb\u200bc\ufeffd", "abcd"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
        ("\ud800x", "x"),
        ("\u200b", "An application without a name"),
        ("x" * 200, "x" * 80),
    ],
)
async def test_client_name_is_one_printable_line(name: str, kept: str) -> None:
    async with open_testbed() as testbed:
        reply = await testbed.register(
            {"redirect_uris": [WEB], "client_name": name.encode("utf-8", "replace").decode()}
        )
        expected = kept if "\ud800" not in name else "?x"
        assert reply.json["client_name"] == expected
    assert shown("\ud800x") == "x"


async def test_registration_with_initial_token_required() -> None:
    policy = RegistrationPolicy(dynamic=DynamicRegistration.TOKEN, initial_token=SECRET)
    async with open_testbed(policy=policy) as testbed:
        for headers in (
            [],
            [("Authorization", "Bearer wrong")],
            [("Authorization", f"Basic {SECRET}")],
            [("Authorization", f"Bearer {SECRET}")] * 2,
        ):
            reply = await testbed.register({"redirect_uris": [WEB]}, headers=headers)
            assert (reply.status, reply.error) == (401, "invalid_token")
            assert reply.header("www-authenticate") == "Bearer"
        assert (
            await testbed.register({"redirect_uris": [WEB]}, headers=[("Authorization", f"bearer {SECRET}")])
        ).status == 201


async def test_registrations_limited_per_address_and_in_total() -> None:
    async with open_testbed(policy=RegistrationPolicy(rate=Rate(2))) as testbed:
        replies = [await testbed.register({"redirect_uris": [WEB]}) for _ in range(3)]
        assert [reply.status for reply in replies] == [201, 201, 429]
        assert int(replies[2].header("retry-after") or 0) > 0
    async with open_testbed(policy=RegistrationPolicy(clients=2), lifetimes=Lifetimes(unused_client=100)) as testbed:
        replies = [await testbed.register({"redirect_uris": [WEB]}) for _ in range(3)]
        assert [reply.status for reply in replies] == [201, 201, 503]
        testbed.clock.now += 100
        assert (await testbed.register({"redirect_uris": [WEB]})).status == 201
        assert (await testbed.authorize(client_id=replies[0].text("client_id"))).status == 400


async def test_used_client_is_kept() -> None:
    async with open_testbed(lifetimes=Lifetimes(unused_client=100, client=1000)) as testbed:
        id = (await testbed.register({"redirect_uris": [WEB], "token_endpoint_auth_method": "none"})).text("client_id")
        assert (await testbed.redeem(await testbed.code(client_id=id), client_id=id)).status == 200
        testbed.clock.now += 999
        assert (await testbed.authorize(client_id=id)).status == 303
        testbed.clock.now += 1
        assert (await testbed.authorize(client_id=id)).status == 400


# --- a web server for clients -----------------------------------------------------------------------------------------


@attrs.define
class Page:
    """A response to requests for one path."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = attrs.Factory(dict)
    release: trio.Event | None = None


class ClientSite:
    """A web server of clients, over TLS."""

    def __init__(self, origin: str) -> None:
        self.origin: Final = origin
        self.pages: Final[dict[str, Page]] = {}
        self.requests: Final[list[str]] = []

    def client(
        self,
        path: str = "/client.json",
        *,
        headers: Mapping[str, str] | None = None,
        changes: JsonObject | None = None,
        **more: JsonValue,
    ) -> str:
        """Publish a valid metadata document with changes, and return its URL, the client id."""
        url = f"{self.origin}{path}"
        document: JsonObject = {
            "client_id": url, "client_name": "Reader", "redirect_uris": [WEB, LOOPBACK],
            "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none",
        }  # fmt: skip
        text = json.dumps(
            {name: value for name, value in (document | (changes or {}) | more).items() if value is not None}
        )
        self.pages[path] = Page(text.encode(), headers=headers or {})
        return url

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope["path"])
        self.requests.append(path)
        page = self.pages.get(path, Page(b"not here", 404))
        if page.release is not None:
            await page.release.wait()
        headers = [
            (b"content-type", b"application/json"),
            *((name.encode(), value.encode()) for name, value in page.headers.items()),
        ]
        await send({"type": "http.response.start", "status": page.status, "headers": headers})
        await send({"type": "http.response.body", "body": page.body})


LOOPBACK_POLICY: Final = RegistrationPolicy(networks=frozenset({AddressClass.LOOPBACK}), fetches=Rate(1000))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def web(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClientSite]:
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    monkeypatch.setattr("mcp_server.auth.fetch._tls", lambda: trusting)
    async with served(authority) as testbed:
        yield testbed


@asynccontextmanager
async def served(authority: trustme.CA) -> AsyncIterator[ClientSite]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    listeners = await listen("127.0.0.1:0")
    testbed = ClientSite(f"https://localhost:{listeners[0].socket.getsockname()[1]}")
    async with trio.open_nursery() as nursery:
        await nursery.start(HttpHost(testbed.app, tls=context).run, listeners)
        yield testbed
        nursery.cancel_scope.cancel()


# --- metadata documents -----------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.cimd-server", "auth.cimd-as-fetch", "auth.cimd-as-fetches", "auth.cimd-should")
async def test_client_with_metadata_document_gets_tokens(web: ClientSite) -> None:
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        client = web.client()
        id = await testbed.pending(client_id=client)
        pending = await testbed.server.interactions.get(id)
        assert pending is not None
        assert pending.client.kind is RegistrationKind.METADATA_DOCUMENT
        assert (pending.client.client_id, pending.client.name) == (client, "Reader")
        assert not pending.client.local_only
        tokens = await testbed.redeem((await testbed.agree(id))["code"], client_id=client)
        assert tokens.status == 200
        assert (await testbed.refresh(tokens.text("refresh_token"), client_id=client)).status == 200
        assert web.requests == ["/client.json"]


@pytest.mark.spec("auth.cimd-as-localhost-warning")
async def test_client_with_local_redirect_uris_only_is_marked(web: ClientSite) -> None:
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        client = web.client(redirect_uris=[LOOPBACK, "http://localhost/cb"])
        pending = await testbed.server.interactions.get(
            await testbed.pending(client_id=client, redirect_uri="http://127.0.0.1:99/callback")
        )
        assert pending is not None
        assert pending.client.local_only


@pytest.mark.spec("auth.cimd-as-validate-redirect", "auth.cimd-as-validates-redirect")
async def test_redirect_uri_not_in_metadata_document_returns_400(web: ClientSite) -> None:
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        reply = await testbed.authorize(client_id=web.client(), redirect_uri="https://evil.example/callback")
        assert (reply.status, reply.header("location")) == (400, None)


BAD_DOCUMENTS: list[JsonObject] = [
    {"client_id": None},
    {"client_id": "https://localhost/client.json"},
    {"client_id": 1},
    {"client_name": None},
    {"client_name": ""},
    {"redirect_uris": None},
    {"redirect_uris": []},
    {"redirect_uris": ["myapp://cb"]},
    {"redirect_uris": ["http://app.example/cb"]},
    {"token_endpoint_auth_method": "client_secret_basic"},
    {"token_endpoint_auth_method": "client_secret_post"},
    {"client_secret": "x"},
    {"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}, "token_endpoint_auth_method": "private_key_jwt"},
]


@pytest.mark.spec(
    "auth.cimd-as-validate-client-id", "auth.cimd-as-validates-id", "auth.cimd-as-validate-document", "auth.cimd-as-validates-structure"
)  # fmt: skip
@pytest.mark.parametrize("changes", BAD_DOCUMENTS)
async def test_invalid_metadata_document_returns_400(changes: JsonObject, web: ClientSite) -> None:
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        reply = await testbed.authorize(client_id=web.client(changes=changes))
        assert (reply.status, reply.header("location")) == (400, None)
        assert web.requests == ["/client.json"]


async def test_client_id_in_other_spelling_is_another_client(web: ClientSite) -> None:
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        client = web.client()
        for spelling in (
            client.replace("localhost", "LOCALHOST"),
            client.replace("https", "HTTPS"),
            f"{client}?",
            client.replace("client", "%63lient"),
        ):
            reply = await testbed.authorize(client_id=spelling)
            assert (reply.status, reply.header("location")) == (400, None)


@pytest.mark.parametrize(
    "page",
    [
        Page(b"<html>"),
        Page(b"[]"),
        Page(b""),
        Page(b"\xff"),
        Page(b"{}", 404),
        Page(b"{}", 500),
        Page(b"{}", 204),
        Page(b'{"client_name": "' + b"x" * 70_000 + b'"}'),
    ],
    ids=["html", "list", "empty", "bytes", "404", "500", "204", "large"],
)
async def test_unreadable_metadata_document_returns_400(page: Page, web: ClientSite) -> None:
    web.pages["/client.json"] = page
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        reply = await testbed.authorize(client_id=f"{web.origin}/client.json")
        assert (reply.status, reply.header("location")) == (400, None)


@pytest.mark.spec("auth.cimd-as-ssrf", "auth.cimd-ssrf")
async def test_metadata_document_redirect_not_followed(web: ClientSite) -> None:
    web.client("/real.json")
    for status in (301, 302, 303, 307, 308):
        web.pages["/client.json"] = Page(b"", status, {"location": "/real.json"})
        async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
            assert (await testbed.authorize(client_id=f"{web.origin}/client.json")).status == 400
    assert set(web.requests) == {"/client.json"}


@pytest.mark.spec("auth.cimd-as-ssrf", "auth.cimd-ssrf", "auth.cimd-client-id-url")
@pytest.mark.parametrize(
    "client",
    [
        "https://127.0.0.1/client.json", "https://localhost/client.json", "https://[::1]/client.json", "https://10.0.0.1/c", "https://192.168.1.1/c",
        "https://169.254.169.254/latest/meta-data", "https://[fd00:ec2::254]/c", "https://[::ffff:169.254.169.254]/c", "https://0.0.0.0/c",
        "https://2130706433/c", "https://0x7f.1/c", "https://100.64.0.1/c", "https://metadata.localhost/c",
        "http://client.example/c", "http://localhost/c", "ftp://client.example/c", "file:///etc/passwd", "gopher://client.example/c",
        "https://client.example", "https://client.example/", "https://client.example/c#f", "https://client.example/a/../c",
        "https://client.example/a/%2e%2e/c", "https://user:pw@client.example/c", "https://client.example\\@evil/c", "https://clïent.example/c",
    ],
)  # fmt: skip
async def test_client_id_at_private_or_invalid_url_not_fetched(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []
    real = trio.open_tcp_stream

    async def connect(host: str, port: int, *, local_address: str | None = None) -> trio.SocketStream:
        if port in (80, 443):
            connected.append(host)
        return await real(host, port)

    monkeypatch.setattr("trio.open_tcp_stream", connect)
    async with open_testbed() as testbed:
        reply = await testbed.authorize(client_id=client)
        assert (reply.status, reply.header("location")) == (400, None)
        assert (await testbed.redeem("x", client_id=client)).error == "invalid_client"
    assert connected == []


@pytest.mark.spec("auth.cimd-client-id-url", "auth.cimd-client-id-form")
@pytest.mark.parametrize(
    ("client", "valid"),
    [
        ("https://client.example/c", True),
        ("https://client.example:8443/a/b?v=1", True),
        ("https://client.example", False),
        ("https://client.example/", False),
        ("https://client.example//", False),
        ("https://client.example/c#", False),
        ("https://client.example/./c", False),
        ("https://client.example/a/..", False),
        ("https://client.example/a/.%2E/c", False),
        ("http://client.example/c", False),
        ("https://user@client.example/c", False),
    ],
)
def test_client_id_url_requires_https_and_path(client: str, valid: bool) -> None:
    if valid:
        check_document_id(client)
    else:
        with pytest.raises(Unacceptable):
            check_document_id(client)


@pytest.mark.spec("auth.cimd-as-cache", "auth.cimd-as-caches")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 300),
        ({"cache-control": "max-age=1000"}, 1000),
        ({"cache-control": "public, Max-Age=1000, immutable"}, 1000),
        ({"cache-control": "max-age=1"}, 300),
        ({"cache-control": "max-age=999999999"}, 86_400),
        ({"cache-control": "no-store"}, 300),
        ({"cache-control": "no-cache, max-age=1000"}, 300),
        ({"cache-control": "s-maxage=nonsense"}, 300),
    ],
)
async def test_metadata_document_cached_within_bounds(
    headers: Mapping[str, str], seconds: int, web: ClientSite
) -> None:
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        client = web.client(headers=headers)
        await testbed.pending(client_id=client)
        testbed.clock.now += seconds - 1
        await testbed.pending(client_id=client)
        assert len(web.requests) == 1
        testbed.clock.now += 1
        web.client(redirect_uris=[LOOPBACK])
        assert (await testbed.authorize(client_id=client)).status == 400
        assert len(web.requests) == 2


async def test_client_known_for_one_day_without_metadata_document(web: ClientSite) -> None:
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        client = web.client()
        await testbed.pending(client_id=client)
        web.pages.clear()
        testbed.clock.now += 86_399
        await testbed.pending(client_id=client)
        testbed.clock.now += 1
        assert (await testbed.authorize(client_id=client)).status == 400


async def test_metadata_document_fetched_once_for_concurrent_requests(web: ClientSite) -> None:
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        client = web.client()
        release = web.pages["/client.json"].release = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(lambda: testbed.authorize(client_id=client))
            while not web.requests:
                await trio.lowlevel.checkpoint()
            release.set()
        assert web.requests == ["/client.json"]


async def test_metadata_document_fetches_are_rate_limited(web: ClientSite) -> None:
    policy = attrs.evolve(LOOPBACK_POLICY, fetches=Rate(3))
    async with open_testbed(policy=policy) as testbed:
        replies = [await testbed.authorize(client_id=f"{web.origin}/{n}") for n in range(5)]
        assert [reply.status for reply in replies] == [400, 400, 400, 429, 429]
        assert len(web.requests) == 3
        limited = await testbed.redeem("x", client_id=f"{web.origin}/9")
        assert limited.status == 429


async def test_metadata_documents_can_be_disabled(web: ClientSite) -> None:
    async with open_testbed(policy=attrs.evolve(LOOPBACK_POLICY, metadata_documents=False)) as testbed:
        assert (await testbed.authorize(client_id=web.client())).status == 400
        assert web.requests == []


async def test_missing_metadata_document_at_token_endpoint_returns_401(web: ClientSite) -> None:
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        reply = await testbed.redeem("x", client_id=f"{web.origin}/gone.json")
        assert (reply.status, reply.error) == (401, "invalid_client")


# --- assertions ------------------------------------------------------------------------------------------------------


def signing(key: Key, *, grants: list[str] | None = None) -> Client:
    return Client.configured("signer", jwks=key.jwks, redirect_uris=[WEB], grant_types=grants or ["client_credentials"])


def public_of(key: ECKey | RSAKey) -> JsonObject:
    jwk: JsonObject = json.loads(json.dumps(key.as_dict(private=False)))
    return jwk


async def assert_with(testbed: AuthorizationTestbed, assertion: str, **changes: str) -> Reply:
    form = {"grant_type": "client_credentials", "client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
    return await testbed.post("/token", form | changes)


async def test_client_assertion_accepted_once() -> None:
    key = Key()
    async with open_testbed(clients=[signing(key)]) as testbed:
        assertion = client_assertion(
            "signer", audience=testbed.url, signer=key, now=testbed.clock(), random_bytes=secrets.token_bytes
        )
        assert (await assert_with(testbed, assertion)).status == 200
        replayed = await assert_with(testbed, assertion)
        assert (replayed.status, replayed.error) == (401, "invalid_client")
        another = client_assertion(
            "signer", audience=testbed.url, signer=key, now=testbed.clock(), random_bytes=secrets.token_bytes
        )
        assert (await assert_with(testbed, another, client_id="signer")).status == 200


CLAIMS: list[tuple[JsonObject, int]] = [
    ({}, 200),
    ({"aud": ["ISSUER"]}, 200),
    ({"aud": ["ISSUER", "https://other.example"]}, 401),
    ({"aud": "ISSUER/"}, 401),
    ({"aud": "ISSUER/token"}, 401),
    ({"aud": "https://other.example"}, 401),
    ({"aud": None}, 401),
    ({"iss": "another"}, 401),
    ({"iss": None}, 401),
    ({"sub": "another"}, 401),
    ({"sub": None}, 401),
    ({"sub": 1, "iss": 1}, 401),
    ({"jti": None}, 401),
    ({"jti": ""}, 401),
    ({"jti": 1}, 401),
    ({"exp": None}, 401),
    ({"exp": "soon"}, 401),
    ({"exp": True}, 401),
    ({"exp": START - 61}, 401),
    ({"exp": START - 59}, 200),
    ({"exp": START + 3659}, 200),
    ({"exp": START + 3661}, 401),
    ({"nbf": START + 61}, 401),
    ({"nbf": START + 59}, 200),
    ({"iat": START + 61}, 401),
    ({"iat": "x"}, 401),
]


def claims_for(testbed: AuthorizationTestbed, changes: JsonObject) -> dict[str, object]:
    good: JsonObject = {"iss": "signer", "sub": "signer", "aud": "ISSUER", "exp": START + 60, "jti": "1"}
    text = json.dumps({name: value for name, value in (good | changes).items() if value is not None})
    claims: dict[str, object] = json.loads(text.replace("ISSUER", testbed.url))
    return claims


@pytest.mark.parametrize(("changes", "status"), CLAIMS)
async def test_client_assertion_claims_are_checked(changes: JsonObject, status: int) -> None:
    key = ECKey.generate_key("P-256")
    public: JsonObject = {"keys": [public_of(key)]}
    async with open_testbed(clients=[Client.configured("signer", jwks=public)]) as testbed:
        assertion = jwt.encode({"alg": "ES256"}, claims_for(testbed, changes), key)
        assert (await assert_with(testbed, assertion)).status == status


async def test_client_assertion_signature_is_checked() -> None:
    key, foreign, rsa, weak = (
        ECKey.generate_key("P-256"),
        ECKey.generate_key("P-256"),
        RSAKey.generate_key(2048),
        RSAKey.generate_key(2048),
    )
    public = public_of(key)
    weak_jwk: JsonObject = {**public_of(weak), "n": base64url(b"\x81" * 128)}
    async with open_testbed(
        clients=[
            Client.configured("signer", jwks={"keys": [public, public_of(rsa)]}),
            Client.configured("weak", jwks={"keys": [weak_jwk]}),
        ]
    ) as testbed:
        claims = claims_for(testbed, {})
        head = base64url(b'{"alg":"none"}')
        body = base64url(json.dumps(claims).encode())
        secret = OctKey.import_key(json.dumps(public).encode())
        assertions = [
            jwt.encode({"alg": "ES256"}, claims, foreign),
            jwt.encode({"alg": "ES256", "jwk": foreign.as_dict(private=False)}, claims, foreign),
            jwt.encode({"alg": "ES256", "kid": "unknown"}, claims, key),
            jwt.encode({"alg": "HS256"}, claims, secret),
            jwt.encode({"alg": "RS256"}, claims_for(testbed, {"iss": "weak", "sub": "weak"}), weak),
            f"{head}.{body}.",
            f"{head}.{body}.AAAA",
            "a.b.c",
            "nonsense",
        ]
        assert [(await assert_with(testbed, each)).status for each in assertions] == [401] * len(assertions)
        assert (await assert_with(testbed, jwt.encode({"alg": "ES256"}, claims, key))).status == 200
        assert (
            await assert_with(
                testbed, jwt.encode({"alg": "PS256"}, claims_for(testbed, {"jti": "2"}), rsa, algorithms=["PS256"])
            )
        ).status == 200


async def test_client_with_keys_must_authenticate() -> None:
    key = Key()
    async with open_testbed(clients=[signing(key, grants=["authorization_code"])]) as testbed:
        code = await testbed.code(client_id="signer")
        for form in ({}, {"client_secret": ""}, {"client_secret": "x"}):
            assert (await testbed.redeem(code, form, client_id="signer")).status == 401
        assertion = client_assertion(
            "signer", audience=testbed.url, signer=key, now=testbed.clock(), random_bytes=secrets.token_bytes
        )
        proved = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
        assert (await testbed.redeem(code, proved, client_id="app")).error == "invalid_request"
        assert (await testbed.redeem(code, proved, client_id="signer")).status == 200


@pytest.mark.spec("auth.cimd-private-key-jwt")
async def test_client_keys_in_document_or_at_jwks_uri(web: ClientSite) -> None:
    key = Key()
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        web.pages["/jwks"] = Page(json.dumps(key.jwks).encode())
        inside = web.client("/inside.json", token_endpoint_auth_method=None, jwks=key.jwks)
        beside = web.client("/beside.json", token_endpoint_auth_method="private_key_jwt", jwks_uri=f"{web.origin}/jwks")
        for client in (inside, beside):
            code = await testbed.code(client_id=client)
            assert (await testbed.redeem(code, client_id=client)).status == 401
            assertion = client_assertion(
                client, audience=testbed.url, signer=key, now=testbed.clock(), random_bytes=secrets.token_bytes
            )
            given = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
            assert (await testbed.redeem(code, given, client_id=client)).status == 200


async def test_unknown_key_refetches_jwks_after_interval(web: ClientSite) -> None:
    old, new = Key(), Key()
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        web.pages["/jwks"] = Page(json.dumps(old.jwks).encode())
        client = web.client(token_endpoint_auth_method="private_key_jwt", jwks_uri=f"{web.origin}/jwks")

        async def status(key: Key) -> int:
            assertion = client_assertion(
                client, audience=testbed.url, signer=key, now=testbed.clock(), random_bytes=secrets.token_bytes
            )
            given = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
            return (await testbed.redeem(await testbed.code(client_id=client), given, client_id=client)).status

        def fetched() -> int:
            return web.requests.count("/jwks")

        assert await status(old) == 200
        web.pages["/jwks"] = Page(json.dumps(new.jwks).encode())
        assert (await status(new), fetched()) == (401, 1)
        testbed.clock.now += 30
        assert (await status(new), fetched()) == (200, 2)
        web.pages["/jwks"] = Page(b"gone", 404)
        testbed.clock.now += 250
        assert (await status(new), fetched()) == (200, 2)
        testbed.clock.now += 50
        assert (await status(new), fetched()) == (200, 3)


async def test_unreachable_jwks_returns_401(web: ClientSite) -> None:
    key = Key()
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        client = web.client(token_endpoint_auth_method="private_key_jwt", jwks_uri=f"{web.origin}/jwks")
        assertion = client_assertion(
            client, audience=testbed.url, signer=key, now=testbed.clock(), random_bytes=secrets.token_bytes
        )
        given = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
        reply = await testbed.redeem(await testbed.code(client_id=client), given, client_id=client)
        assert (reply.status, reply.error) == (401, "invalid_client")


async def test_error_redirect_of_document_client_limited_to_own_origin(web: ClientSite) -> None:
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:
        own = f"{web.origin}/callback"
        client = web.client(redirect_uris=[own, WEB])
        assert (await testbed.authorize(client_id=client, redirect_uri=WEB, scope="unknown")).status == 400
        web.client("/native.json", redirect_uris=[LOOPBACK])
        reply = await testbed.authorize(client_id=f"{web.origin}/native.json", redirect_uri=LOOPBACK, scope="unknown")
        assert query_of(reply.location)["error"] == "invalid_scope"


async def test_registration_response_has_keys_and_omits_invalid_uri() -> None:
    key = Key()
    async with open_testbed() as testbed:
        document: JsonObject = {
            "redirect_uris": [WEB],
            "token_endpoint_auth_method": "private_key_jwt",
            "dpop_bound_access_tokens": True,
        }
        registered = (await testbed.register({**document, "jwks": key.jwks, "client_uri": "javascript:alert(1)"})).json
        assert (registered["jwks"], registered["dpop_bound_access_tokens"]) == (key.jwks, True)
        assert "client_uri" not in registered
        assert "client_secret" not in registered
        registered = (
            await testbed.register(
                {**document, "jwks_uri": "https://app.example/jwks", "client_uri": "http://app.example"}
            )
        ).json
        assert registered["jwks_uri"] == "https://app.example/jwks"
        assert "client_uri" not in registered


async def test_cached_keys_are_bounded(web: ClientSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_server.auth.authorization_server.clients.documents._KEYS_KEPT", 1)
    key = Key()
    async with open_testbed(policy=LOOPBACK_POLICY) as testbed:

        async def redeem(name: str) -> int:
            web.pages[f"/{name}-keys"] = Page(json.dumps(key.jwks).encode())
            keys = f"{web.origin}/{name}-keys"
            client = web.client(f"/{name}.json", token_endpoint_auth_method="private_key_jwt", jwks_uri=keys)
            assertion = client_assertion(
                client, audience=testbed.url, signer=key, now=testbed.clock(), random_bytes=secrets.token_bytes
            )
            given = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
            return (await testbed.redeem(await testbed.code(client_id=client), given, client_id=client)).status

        assert [await redeem(name) for name in ("a", "b", "a")] == [200, 200, 200]
        assert [path for path in web.requests if path.endswith("keys")] == ["/a-keys", "/b-keys", "/a-keys"]


async def test_cached_metadata_documents_are_bounded(web: ClientSite) -> None:
    async with open_testbed(policy=attrs.evolve(LOOPBACK_POLICY, clients=2)) as testbed:
        clients = [web.client(f"/{name}.json") for name in "abc"]
        for client in clients:
            await testbed.pending(client_id=client)
            testbed.clock.now += 1
        assert len(web.requests) == 3
        await testbed.pending(client_id=clients[2])
        assert len(web.requests) == 3
        await testbed.pending(client_id=clients[0])
        assert len(web.requests) == 4
        assert (await testbed.register({"redirect_uris": [WEB]})).status == 201
