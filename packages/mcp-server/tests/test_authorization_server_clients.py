"""How clients become known: registration, documents under their ids, and assertions that they sign."""

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
from authorization_testbed import LOOPBACK, SECRET, START, WEB, Key, Reply, World, query_of, world
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
async def test_a_public_client_registers_and_gets_tokens() -> None:
    async with world() as it:
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
        reply = await it.register(document)
        assert (reply.status, reply.header("cache-control")) == (201, "no-store")
        told = dict(reply.json)
        client_id = told.pop("client_id")
        assert isinstance(client_id, str)
        assert told == {
            "client_id_issued_at": int(START), "client_name": "Notebook reader", "redirect_uris": [LOOPBACK],
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
            "token_endpoint_auth_method": "none", "application_type": "native", "client_uri": "https://reader.example",
        }  # fmt: skip
        uri = "http://127.0.0.1:4444/callback"
        id = await it.pending(client_id=client_id, redirect_uri=uri)
        pending = await it.server.interactions.get(id)
        assert pending is not None
        assert pending.client.kind is RegistrationKind.DYNAMIC
        assert pending.client.local_only
        assert pending.client.client_uri == "https://reader.example"
        tokens = await it.redeem((await it.agree(id))["code"], client_id=client_id, redirect_uri=uri)
        assert (await it.refresh(tokens.text("refresh_token"), client_id=client_id)).status == 200


async def test_a_client_that_says_nothing_gets_what_the_standard_says() -> None:
    async with world() as it:
        told = (await it.register({"redirect_uris": [WEB]})).json
        assert told["token_endpoint_auth_method"] == "client_secret_basic"
        assert told["grant_types"] == ["authorization_code"]
        assert told["client_secret_expires_at"] == 0
        assert told["client_name"] == "An application without a name"
        assert isinstance(told["client_secret"], str)
        assert len(told["client_secret"]) == 43
        assert "application_type" not in told


async def test_a_secret_is_good_in_the_way_that_was_registered_only() -> None:
    async with world() as it:
        reply = await it.register({"redirect_uris": [WEB], "token_endpoint_auth_method": "client_secret_post"})
        client, secret = reply.text("client_id"), reply.text("client_secret")
        code = await it.code(client_id=client)
        header = ("Authorization", f"Basic {base64.b64encode(f'{client}:{secret}'.encode()).decode()}")
        for refused in (
            await it.redeem(code, client_id=client),
            await it.redeem(code, client_id=client, headers=[header]),
            await it.redeem(code, client_id=client, client_secret=secret[:-1]),
        ):
            assert (refused.status, refused.error) == (401, "invalid_client")
        assert (await it.redeem(code, client_id=client, client_secret=secret)).status == 200


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
async def test_a_client_that_must_not_be_is_not_registered(document: JsonObject, error: str) -> None:
    async with world() as it:
        reply = await it.register(document)
        assert (reply.status, reply.error) == (400, error), reply
        assert reply.text("error_description").isascii()


@pytest.mark.spec("auth.redirect-uri-validate-server")
@pytest.mark.parametrize("uri", SCHEMES)
def test_a_configured_client_with_a_redirect_uri_that_none_may_register_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match=r"client 'app' .*redirect URI") as caught:
        Client.configured("app", redirect_uris=[WEB, uri])
    assert f"{uri[:200]!a}" in str(caught.value)
    with pytest.raises(ValueError, match="redirect URI"):
        attrs.evolve(Client.configured("app", redirect_uris=[WEB]), redirect_uris=(uri,))


def test_the_redirect_uris_of_a_configured_client_are_a_list() -> None:
    with pytest.raises(TypeError, match=r"client 'app'.*redirect_uris.*\['https://app.example/cb'\]"):
        Client.configured("app", redirect_uris="https://app.example/cb")


@pytest.mark.parametrize(
    "uri", [WEB, LOOPBACK, "http://localhost:8080/cb?tenant=a", "http://[::1]/cb", "https://127.0.0.1/"]
)
async def test_a_redirect_uri_is_good_for_a_configured_client_as_for_a_registered_one(uri: str) -> None:
    assert Client.configured("app", redirect_uris=[uri]).redirect_uris == (uri,)
    async with world() as it:
        assert (await it.register({"redirect_uris": [uri]})).status == 201


async def test_unknown_grants_are_left_out_of_what_is_registered() -> None:
    async with world() as it:
        grants: list[JsonValue] = [
            "authorization_code",
            "urn:ietf:params:oauth:grant-type:device_code",
            "client_credentials",
        ]
        reply = await it.register({"redirect_uris": [WEB], "grant_types": grants, "token_endpoint_auth_method": "none"})
        assert reply.json["grant_types"] == ["authorization_code"]
        id = reply.text("client_id")
        assert (await it.redeem(await it.code(client_id=id), client_id=id)).status == 200


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
async def test_a_name_is_one_line_that_can_be_seen(name: str, kept: str) -> None:
    async with world() as it:
        reply = await it.register({"redirect_uris": [WEB], "client_name": name.encode("utf-8", "replace").decode()})
        expected = kept if "\ud800" not in name else "?x"
        assert reply.json["client_name"] == expected
    assert shown("\ud800x") == "x"


async def test_registration_may_need_a_token_of_its_own() -> None:
    policy = RegistrationPolicy(dynamic=DynamicRegistration.TOKEN, initial_token=SECRET)
    async with world(policy=policy) as it:
        for headers in (
            [],
            [("Authorization", "Bearer wrong")],
            [("Authorization", f"Basic {SECRET}")],
            [("Authorization", f"Bearer {SECRET}")] * 2,
        ):
            reply = await it.register({"redirect_uris": [WEB]}, headers=headers)
            assert (reply.status, reply.error) == (401, "invalid_token")
            assert reply.header("www-authenticate") == "Bearer"
        assert (
            await it.register({"redirect_uris": [WEB]}, headers=[("Authorization", f"bearer {SECRET}")])
        ).status == 201


async def test_registrations_are_bounded_for_one_address_and_in_all() -> None:
    async with world(policy=RegistrationPolicy(rate=Rate(2))) as it:
        replies = [await it.register({"redirect_uris": [WEB]}) for _ in range(3)]
        assert [reply.status for reply in replies] == [201, 201, 429]
        assert int(replies[2].header("retry-after") or 0) > 0
    async with world(policy=RegistrationPolicy(clients=2), lifetimes=Lifetimes(unused_client=100)) as it:
        replies = [await it.register({"redirect_uris": [WEB]}) for _ in range(3)]
        assert [reply.status for reply in replies] == [201, 201, 503]
        it.clock.now += 100
        assert (await it.register({"redirect_uris": [WEB]})).status == 201
        assert (await it.authorize(client_id=replies[0].text("client_id"))).status == 400


async def test_a_client_that_is_used_stays() -> None:
    async with world(lifetimes=Lifetimes(unused_client=100, client=1000)) as it:
        id = (await it.register({"redirect_uris": [WEB], "token_endpoint_auth_method": "none"})).text("client_id")
        assert (await it.redeem(await it.code(client_id=id), client_id=id)).status == 200
        it.clock.now += 999
        assert (await it.authorize(client_id=id)).status == 303
        it.clock.now += 1
        assert (await it.authorize(client_id=id)).status == 400


# --- a web server of clients -----------------------------------------------------------------------------------------


@attrs.define
class Page:
    """What is served at a path."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = attrs.Factory(dict)
    gate: trio.Event | None = None


class Web:
    """A web server, over TLS."""

    def __init__(self, origin: str) -> None:
        self.origin: Final = origin
        self.pages: Final[dict[str, Page]] = {}
        self.asked: Final[list[str]] = []

    def client(
        self,
        path: str = "/client.json",
        *,
        headers: Mapping[str, str] | None = None,
        changes: JsonObject | None = None,
        **more: JsonValue,
    ) -> str:
        """Puts a right document there, with changes; returns its URL, the client id."""
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
        self.asked.append(path)
        page = self.pages.get(path, Page(b"not here", 404))
        if page.gate is not None:
            await page.gate.wait()
        headers = [
            (b"content-type", b"application/json"),
            *((name.encode(), value.encode()) for name, value in page.headers.items()),
        ]
        await send({"type": "http.response.start", "status": page.status, "headers": headers})
        await send({"type": "http.response.body", "body": page.body})


HERE: Final = RegistrationPolicy(networks=frozenset({AddressClass.LOOPBACK}), fetches=Rate(1000))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def web(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Web]:
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    monkeypatch.setattr("mcp_server.auth.fetch._tls", lambda: trusting)
    async with served(authority) as it:
        yield it


@asynccontextmanager
async def served(authority: trustme.CA) -> AsyncIterator[Web]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    listeners = await listen("127.0.0.1:0")
    it = Web(f"https://localhost:{listeners[0].socket.getsockname()[1]}")
    async with trio.open_nursery() as nursery:
        await nursery.start(HttpHost(it.app, tls=context).run, listeners)
        yield it
        nursery.cancel_scope.cancel()


# --- documents -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.cimd-server", "auth.cimd-as-fetch", "auth.cimd-as-fetches", "auth.cimd-should")
async def test_a_client_with_a_document_gets_tokens(web: Web) -> None:
    async with world(policy=HERE) as it:
        client = web.client()
        id = await it.pending(client_id=client)
        pending = await it.server.interactions.get(id)
        assert pending is not None
        assert pending.client.kind is RegistrationKind.METADATA_DOCUMENT
        assert (pending.client.client_id, pending.client.name) == (client, "Reader")
        assert not pending.client.local_only
        tokens = await it.redeem((await it.agree(id))["code"], client_id=client)
        assert tokens.status == 200
        assert (await it.refresh(tokens.text("refresh_token"), client_id=client)).status == 200
        assert web.asked == ["/client.json"]


@pytest.mark.spec("auth.cimd-as-localhost-warning")
async def test_a_client_whose_redirect_uris_are_all_local_is_marked(web: Web) -> None:
    async with world(policy=HERE) as it:
        client = web.client(redirect_uris=[LOOPBACK, "http://localhost/cb"])
        pending = await it.server.interactions.get(
            await it.pending(client_id=client, redirect_uri="http://127.0.0.1:99/callback")
        )
        assert pending is not None
        assert pending.client.local_only


@pytest.mark.spec("auth.cimd-as-validate-redirect", "auth.cimd-as-validates-redirect")
async def test_a_redirect_uri_has_to_be_in_the_document(web: Web) -> None:
    async with world(policy=HERE) as it:
        reply = await it.authorize(client_id=web.client(), redirect_uri="https://evil.example/callback")
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
async def test_a_document_that_is_not_right_makes_no_client(changes: JsonObject, web: Web) -> None:
    async with world(policy=HERE) as it:
        reply = await it.authorize(client_id=web.client(changes=changes))
        assert (reply.status, reply.header("location")) == (400, None)
        assert web.asked == ["/client.json"]


async def test_two_spellings_of_a_url_are_two_clients(web: Web) -> None:
    async with world(policy=HERE) as it:
        client = web.client()
        for spelling in (
            client.replace("localhost", "LOCALHOST"),
            client.replace("https", "HTTPS"),
            f"{client}?",
            client.replace("client", "%63lient"),
        ):
            reply = await it.authorize(client_id=spelling)
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
async def test_what_is_no_document_makes_no_client(page: Page, web: Web) -> None:
    web.pages["/client.json"] = page
    async with world(policy=HERE) as it:
        reply = await it.authorize(client_id=f"{web.origin}/client.json")
        assert (reply.status, reply.header("location")) == (400, None)


@pytest.mark.spec("auth.cimd-as-ssrf", "auth.cimd-ssrf")
async def test_a_document_is_not_fetched_by_way_of_a_redirect(web: Web) -> None:
    web.client("/real.json")
    for status in (301, 302, 303, 307, 308):
        web.pages["/client.json"] = Page(b"", status, {"location": "/real.json"})
        async with world(policy=HERE) as it:
            assert (await it.authorize(client_id=f"{web.origin}/client.json")).status == 400
    assert set(web.asked) == {"/client.json"}


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
async def test_a_url_that_must_not_be_requested_is_no_client(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[object] = []

    class Recording:
        async def connect_tcp(self, host: str, *_: object, **__: object) -> None:
            connected.append(host)

    monkeypatch.setattr("httpcore2.TrioBackend", Recording)
    async with world() as it:
        reply = await it.authorize(client_id=client)
        assert (reply.status, reply.header("location")) == (400, None)
        assert (await it.redeem("x", client_id=client)).error == "invalid_client"
    assert connected == []


@pytest.mark.spec("auth.cimd-client-id-url", "auth.cimd-client-id-form")
@pytest.mark.parametrize(
    ("client", "right"),
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
def test_a_client_id_that_is_a_url_has_to_be_https_with_a_path(client: str, right: bool) -> None:
    if right:
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
async def test_a_document_is_kept_as_long_as_it_says_within_reason(
    headers: Mapping[str, str], seconds: int, web: Web
) -> None:
    async with world(policy=HERE) as it:
        client = web.client(headers=headers)
        await it.pending(client_id=client)
        it.clock.now += seconds - 1
        await it.pending(client_id=client)
        assert len(web.asked) == 1
        it.clock.now += 1
        web.client(redirect_uris=[LOOPBACK])
        assert (await it.authorize(client_id=client)).status == 400
        assert len(web.asked) == 2


async def test_a_client_stays_known_for_a_day_when_its_document_cannot_be_had(web: Web) -> None:
    async with world(policy=HERE) as it:
        client = web.client()
        await it.pending(client_id=client)
        web.pages.clear()
        it.clock.now += 86_399
        await it.pending(client_id=client)
        it.clock.now += 1
        assert (await it.authorize(client_id=client)).status == 400


async def test_a_document_is_fetched_once_for_all_who_wait_for_it(web: Web) -> None:
    async with world(policy=HERE) as it:
        client = web.client()
        gate = web.pages["/client.json"].gate = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(lambda: it.authorize(client_id=client))
            while not web.asked:
                await trio.lowlevel.checkpoint()
            gate.set()
        assert web.asked == ["/client.json"]


async def test_nobody_can_make_the_server_fetch_as_often_as_he_likes(web: Web) -> None:
    policy = attrs.evolve(HERE, fetches=Rate(3))
    async with world(policy=policy) as it:
        replies = [await it.authorize(client_id=f"{web.origin}/{n}") for n in range(5)]
        assert [reply.status for reply in replies] == [400, 400, 400, 429, 429]
        assert len(web.asked) == 3
        limited = await it.redeem("x", client_id=f"{web.origin}/9")
        assert limited.status == 429


async def test_documents_can_be_switched_off(web: Web) -> None:
    async with world(policy=attrs.evolve(HERE, metadata_documents=False)) as it:
        assert (await it.authorize(client_id=web.client())).status == 400
        assert web.asked == []


async def test_a_page_that_is_gone_is_told_to_the_client_at_the_token_endpoint(web: Web) -> None:
    async with world(policy=HERE) as it:
        reply = await it.redeem("x", client_id=f"{web.origin}/gone.json")
        assert (reply.status, reply.error) == (401, "invalid_client")


# --- assertions ------------------------------------------------------------------------------------------------------


def signing(key: Key, *, grants: list[str] | None = None) -> Client:
    return Client.configured("signer", jwks=key.jwks, redirect_uris=[WEB], grant_types=grants or ["client_credentials"])


def public_of(key: ECKey | RSAKey) -> JsonObject:
    jwk: JsonObject = json.loads(json.dumps(key.as_dict(private=False)))
    return jwk


async def assert_with(it: World, assertion: str, **changes: str) -> Reply:
    form = {"grant_type": "client_credentials", "client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
    return await it.post("/token", form | changes)


async def test_a_client_may_sign_who_it_is_once() -> None:
    key = Key()
    async with world(clients=[signing(key)]) as it:
        assertion = client_assertion(
            "signer", audience=it.url, signer=key, now=it.clock(), random_bytes=secrets.token_bytes
        )
        assert (await assert_with(it, assertion)).status == 200
        replayed = await assert_with(it, assertion)
        assert (replayed.status, replayed.error) == (401, "invalid_client")
        another = client_assertion(
            "signer", audience=it.url, signer=key, now=it.clock(), random_bytes=secrets.token_bytes
        )
        assert (await assert_with(it, another, client_id="signer")).status == 200


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


def claims_for(it: World, changes: JsonObject) -> dict[str, object]:
    good: JsonObject = {"iss": "signer", "sub": "signer", "aud": "ISSUER", "exp": START + 60, "jti": "1"}
    text = json.dumps({name: value for name, value in (good | changes).items() if value is not None})
    claims: dict[str, object] = json.loads(text.replace("ISSUER", it.url))
    return claims


@pytest.mark.parametrize(("changes", "status"), CLAIMS)
async def test_an_assertion_is_for_this_server_by_this_client_and_now(changes: JsonObject, status: int) -> None:
    key = ECKey.generate_key("P-256")
    public: JsonObject = {"keys": [public_of(key)]}
    async with world(clients=[Client.configured("signer", jwks=public)]) as it:
        assertion = jwt.encode({"alg": "ES256"}, claims_for(it, changes), key)
        assert (await assert_with(it, assertion)).status == status


async def test_an_assertion_has_to_be_signed_with_a_key_of_the_client() -> None:
    key, foreign, rsa, weak = (
        ECKey.generate_key("P-256"),
        ECKey.generate_key("P-256"),
        RSAKey.generate_key(2048),
        RSAKey.generate_key(2048),
    )
    public = public_of(key)
    weak_jwk: JsonObject = {**public_of(weak), "n": base64url(b"\x81" * 128)}
    async with world(
        clients=[
            Client.configured("signer", jwks={"keys": [public, public_of(rsa)]}),
            Client.configured("weak", jwks={"keys": [weak_jwk]}),
        ]
    ) as it:
        claims = claims_for(it, {})
        head = base64url(b'{"alg":"none"}')
        body = base64url(json.dumps(claims).encode())
        secret = OctKey.import_key(json.dumps(public).encode())
        tried = [
            jwt.encode({"alg": "ES256"}, claims, foreign),
            jwt.encode({"alg": "ES256", "jwk": foreign.as_dict(private=False)}, claims, foreign),
            jwt.encode({"alg": "ES256", "kid": "unknown"}, claims, key),
            jwt.encode({"alg": "HS256"}, claims, secret),
            jwt.encode({"alg": "RS256"}, claims_for(it, {"iss": "weak", "sub": "weak"}), weak),
            f"{head}.{body}.",
            f"{head}.{body}.AAAA",
            "a.b.c",
            "nonsense",
        ]
        assert [(await assert_with(it, each)).status for each in tried] == [401] * len(tried)
        assert (await assert_with(it, jwt.encode({"alg": "ES256"}, claims, key))).status == 200
        assert (
            await assert_with(it, jwt.encode({"alg": "PS256"}, claims_for(it, {"jti": "2"}), rsa, algorithms=["PS256"]))
        ).status == 200


async def test_a_client_with_keys_cannot_do_without_them() -> None:
    key = Key()
    async with world(clients=[signing(key, grants=["authorization_code"])]) as it:
        code = await it.code(client_id="signer")
        for form in ({}, {"client_secret": ""}, {"client_secret": "x"}):
            assert (await it.redeem(code, form, client_id="signer")).status == 401
        assertion = client_assertion(
            "signer", audience=it.url, signer=key, now=it.clock(), random_bytes=secrets.token_bytes
        )
        proved = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
        assert (await it.redeem(code, proved, client_id="app")).error == "invalid_request"
        assert (await it.redeem(code, proved, client_id="signer")).status == 200


@pytest.mark.spec("auth.cimd-private-key-jwt")
async def test_the_keys_of_a_client_may_be_in_its_document_or_beside_it(web: Web) -> None:
    key = Key()
    async with world(policy=HERE) as it:
        web.pages["/jwks"] = Page(json.dumps(key.jwks).encode())
        inside = web.client("/inside.json", token_endpoint_auth_method=None, jwks=key.jwks)
        beside = web.client("/beside.json", token_endpoint_auth_method="private_key_jwt", jwks_uri=f"{web.origin}/jwks")
        for client in (inside, beside):
            code = await it.code(client_id=client)
            assert (await it.redeem(code, client_id=client)).status == 401
            assertion = client_assertion(
                client, audience=it.url, signer=key, now=it.clock(), random_bytes=secrets.token_bytes
            )
            given = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
            assert (await it.redeem(code, given, client_id=client)).status == 200


async def test_keys_are_fetched_anew_when_one_is_named_that_is_not_there_but_not_at_once(web: Web) -> None:
    old, new = Key(), Key()
    async with world(policy=HERE) as it:
        web.pages["/jwks"] = Page(json.dumps(old.jwks).encode())
        client = web.client(token_endpoint_auth_method="private_key_jwt", jwks_uri=f"{web.origin}/jwks")

        async def status(key: Key) -> int:
            assertion = client_assertion(
                client, audience=it.url, signer=key, now=it.clock(), random_bytes=secrets.token_bytes
            )
            given = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
            return (await it.redeem(await it.code(client_id=client), given, client_id=client)).status

        def fetched() -> int:
            return web.asked.count("/jwks")

        assert await status(old) == 200
        web.pages["/jwks"] = Page(json.dumps(new.jwks).encode())
        assert (await status(new), fetched()) == (401, 1)
        it.clock.now += 30
        assert (await status(new), fetched()) == (200, 2)
        web.pages["/jwks"] = Page(b"gone", 404)
        it.clock.now += 250
        assert (await status(new), fetched()) == (200, 2)
        it.clock.now += 50
        assert (await status(new), fetched()) == (200, 3)


async def test_keys_that_cannot_be_fetched_prove_nothing(web: Web) -> None:
    key = Key()
    async with world(policy=HERE) as it:
        client = web.client(token_endpoint_auth_method="private_key_jwt", jwks_uri=f"{web.origin}/jwks")
        assertion = client_assertion(
            client, audience=it.url, signer=key, now=it.clock(), random_bytes=secrets.token_bytes
        )
        given = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
        reply = await it.redeem(await it.code(client_id=client), given, client_id=client)
        assert (reply.status, reply.error) == (401, "invalid_client")


async def test_the_redirect_of_an_error_to_a_client_with_a_document_stays_with_its_maker(web: Web) -> None:
    async with world(policy=HERE) as it:
        own = f"{web.origin}/callback"
        client = web.client(redirect_uris=[own, WEB])
        assert (await it.authorize(client_id=client, redirect_uri=WEB, scope="unknown")).status == 400
        web.client("/native.json", redirect_uris=[LOOPBACK])
        reply = await it.authorize(client_id=f"{web.origin}/native.json", redirect_uri=LOOPBACK, scope="unknown")
        assert query_of(reply.location)["error"] == "invalid_scope"


async def test_what_was_registered_is_told_with_the_keys_and_without_what_is_no_page() -> None:
    key = Key()
    async with world() as it:
        document: JsonObject = {
            "redirect_uris": [WEB],
            "token_endpoint_auth_method": "private_key_jwt",
            "dpop_bound_access_tokens": True,
        }
        told = (await it.register({**document, "jwks": key.jwks, "client_uri": "javascript:alert(1)"})).json
        assert (told["jwks"], told["dpop_bound_access_tokens"]) == (key.jwks, True)
        assert "client_uri" not in told
        assert "client_secret" not in told
        told = (
            await it.register({**document, "jwks_uri": "https://app.example/jwks", "client_uri": "http://app.example"})
        ).json
        assert told["jwks_uri"] == "https://app.example/jwks"
        assert "client_uri" not in told


async def test_the_keys_that_are_kept_are_bounded(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_server.auth.authorization_server.clients.documents._KEYS_KEPT", 1)
    key = Key()
    async with world(policy=HERE) as it:

        async def redeem(name: str) -> int:
            web.pages[f"/{name}-keys"] = Page(json.dumps(key.jwks).encode())
            keys = f"{web.origin}/{name}-keys"
            client = web.client(f"/{name}.json", token_endpoint_auth_method="private_key_jwt", jwks_uri=keys)
            assertion = client_assertion(
                client, audience=it.url, signer=key, now=it.clock(), random_bytes=secrets.token_bytes
            )
            given = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
            return (await it.redeem(await it.code(client_id=client), given, client_id=client)).status

        assert [await redeem(name) for name in ("a", "b", "a")] == [200, 200, 200]
        assert [path for path in web.asked if path.endswith("keys")] == ["/a-keys", "/b-keys", "/a-keys"]


async def test_documents_that_are_kept_are_bounded_and_leave_room_for_registrations(web: Web) -> None:
    async with world(policy=attrs.evolve(HERE, clients=2)) as it:
        clients = [web.client(f"/{name}.json") for name in "abc"]
        for client in clients:
            await it.pending(client_id=client)
            it.clock.now += 1
        assert len(web.asked) == 3
        await it.pending(client_id=clients[2])
        assert len(web.asked) == 3
        await it.pending(client_id=clients[0])
        assert len(web.asked) == 4
        assert (await it.register({"redirect_uris": [WEB]})).status == 201
