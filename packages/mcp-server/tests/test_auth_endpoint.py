"""A protected endpoint: each route and revision, challenges, scopes, expiry and DPoP."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from asgi_host import Client, as_object, hosted
from auth_keys import EC, JKT, proof, public
from auth_keys import ISSUER as JWT_ISSUER
from auth_keys import token as jwt
from controlled_server import ControlledServer, text_of
from http_hosts import HOSTS, RawHttp, served
from resource_world import ISSUER, METADATA, RESOURCE, Table, access, challenge_of, guard, protected, register_recorder

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.messages import HttpRequest
from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Request
from mcp_core.oauth.challenge import read_challenges
from mcp_core.oauth.principal import Principal
from mcp_core.oauth.protected_resource import DpopUse
from mcp_core.revisions import R2024_11_05, R2025_03_26, R2025_11_25, R2026_07_28, REVISIONS, Era, Revision
from mcp_server import Server
from mcp_server.asgi import Message
from mcp_server.auth import JwtTokens, ResourceServer, Scopes
from mcp_server.transports.http.endpoint import HttpEndpoint

EVERY = pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)


async def begin(client: Client) -> None:
    if client.revision.era is Era.LEGACY:
        await client.open()


# --- authentication ---------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.http-conform", "auth.http-should-conform", "auth.token-resource-requests", "elicitation.user-from-credentials"
)
@EVERY
@pytest.mark.spec("auth.bearer-header", "auth.every-request", "auth.bearer-every-request")
async def test_valid_token_identifies_principal_for_handlers(revision: Revision) -> None:
    tools = ControlledServer()
    calls = register_recorder(tools.server)
    app = protected(Table(t1=access(scopes="a b")), server=tools.server)
    async with hosted(app, revision) as client:
        client.headers["authorization"] = "Bearer t1"
        await begin(client)
        assert text_of(await client.post(client.call("record")).answer()) == "recorded"
    ((principal, scopes, _),) = calls
    assert principal == Principal(issuer=ISSUER, subject="anna", client_id="c1")
    assert scopes == {"a", "b"}


WRONG = {
    "no credentials": (None, 401, None),
    "another scheme": ("Basic YTpi", 401, None),
    "an unknown token": ("Bearer unknown-1", 401, "invalid_token"),
    "a token for another resource": ("Bearer foreign-1", 401, "invalid_token"),
    "a token of another issuer": ("Bearer strange-1", 401, "invalid_token"),
    "an old token": ("Bearer old-1", 401, "invalid_token"),
    "a bound token": ("Bearer tied-1", 401, "invalid_token"),
    "too few scopes": ("Bearer few-1", 403, "insufficient_scope"),
    "a scheme without a token": ("Bearer", 400, "invalid_request"),
    "two tokens": ("Bearer t1 t1", 400, "invalid_request"),
}
TABLE = Table(
    **{
        "t1": access(scopes="base"),
        "foreign-1": access(scopes="base", audience="https://other.example/mcp"),
        "strange-1": access(scopes="base", issuer="https://evil.example"),
        "old-1": access(scopes="base", expires_at=0),
        "tied-1": access(scopes="base", confirmation="abc"),
        "few-1": access(scopes="more"),
    }
)

ROUTES = [
    ("POST", "/mcp", "modern"),
    ("POST", "/mcp", "initialize"),
    ("POST", "/mcp", "session"),
    ("GET", "/mcp", "session"),
    ("GET", "/mcp", "resumed"),
    ("DELETE", "/mcp", "session"),
    ("GET", "/sse", "stream"),
    ("POST", "/messages", "message"),
    ("POST", "/mcp/", "modern"),
]


@pytest.mark.spec("auth.server-validates-before-processing", "auth.error-statuses", "wif.server-validates-token")
@pytest.mark.spec(
    "auth.missing-token-401",
    "auth.every-request-authenticated",
    "auth.invalid-token-401",
    "auth.server-401-invalid",
    "auth.validate-token",
    "auth.status-codes",
    "auth.no-data-to-unauthorized",
    "security.verify-all-requests",
    "security.no-session-authentication",
    "security.handle-not-authentication",
    "dpop.server-no-bearer-downgrade",
)
@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
@pytest.mark.parametrize(("method", "path", "kind"), ROUTES)
async def test_invalid_credentials_rejected_on_every_route(
    method: str, path: str, kind: str, wrong: tuple[str | None, int, str | None]
) -> None:
    authorization, status, error = wrong
    tools = ControlledServer()
    calls = register_recorder(tools.server)
    app = tools.server.asgi(
        auth=guard(TABLE, scopes=Scopes(base="base"), clock=lambda: 1000.0), legacy_sse=True, healthz="/healthz"
    )
    async with hosted(app, R2025_11_25) as legacy, hosted(app, R2026_07_28) as modern:
        legacy.headers["authorization"] = "Bearer t1"
        await legacy.open()
        before = app.sessions
        client = modern if kind == "modern" else legacy
        client.headers["authorization"] = authorization
        client.path = path
        if kind in ("initialize", "stream", "message"):
            client.session = None
        params: JsonObject = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "", "version": ""},
        }
        message = client.request("initialize", params) if kind == "initialize" else client.call("record")
        more = {"last_event_id": "1-0"} if kind == "resumed" else {}
        if method == "GET":
            reply = client.get(**more)
        else:
            # The endpoint rejects the request before it reads the body.
            reply = client.start(method, message if method == "POST" else b"", whole=False)
        body = await reply.body()
        assert reply.status == status
        challenge = challenge_of(reply.headers)
        assert (challenge.scheme, challenge.error) == ("Bearer", error)
        assert challenge.resource_metadata == f"http://127.0.0.1:8000{METADATA}"
        assert challenge.scopes == (() if status == 400 else ("base",))
        refused = as_object(json.loads(body))
        assert set(refused) == {"jsonrpc", "error"}
        assert (
            authorization is None or "-1" not in authorization or authorization.rpartition(" ")[2] not in body.decode()
        )
        await trio.testing.wait_all_tasks_blocked()
        assert app.sessions == before
    assert not calls


async def test_healthz_and_metadata_are_public() -> None:
    table = Table()
    app = protected(table)
    async with hosted(app) as client:
        for path in ("/healthz", METADATA, "/.well-known/oauth-protected-resource"):
            client.path = path
            reply = client.start("GET")
            await reply.body()
            assert reply.status == 200
        client.path = "/elsewhere"
        reply = client.start("GET")
        await reply.body()
        assert reply.status == 404
    assert table.verified == []


@pytest.mark.spec("auth.token-not-in-query", "auth.no-query-token")
async def test_token_in_query_ignored() -> None:
    table = Table(t1=access())
    async with hosted(protected(table)) as client:
        client.query = "access_token=t1"
        reply = client.post(client.call("echo", text="x"))
        await reply.body()
    assert (reply.status, table.verified) == (401, [])


async def test_foreign_host_or_origin_rejected_before_token_verification() -> None:
    table = Table(t1=access())
    async with hosted(protected(table)) as client:
        client.headers["authorization"] = "Bearer t1"
        for path in ("/mcp", "/sse", "/messages"):
            client.path = path
            for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
                reply = client.start("POST", client.call("echo", text="x"), more=headers)
                await reply.body()
                assert reply.status == 403
    assert table.verified == []


async def test_unavailable_token_verification_returns_503(caplog: pytest.LogCaptureFixture) -> None:
    table = Table(t1=access())
    table.fail()
    async with hosted(protected(table)) as client:
        client.headers["authorization"] = "Bearer t1"
        reply = client.post(client.call("echo", text="x"))
        refused = await reply.json()
        assert (reply.status, reply.headers["retry-after"]) == (503, "5")
        assert "www-authenticate" not in reply.headers
        assert as_object(refused["error"])["message"] == "access tokens cannot be verified at present: try again later"
        table.failure = ZeroDivisionError("at 10.0.0.1")
        reply = client.post(client.call("echo", text="x"))
        refused = await reply.json()
        assert (reply.status, as_object(refused["error"])["message"]) == (500, "Internal error")
    assert "ZeroDivisionError" in caplog.text
    assert "t1" not in caplog.text


# --- metadata and challenges ------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.prm-server",
    "auth.prm-implemented",
    "auth.prm-discovery-one-of",
    "auth.prm-wellknown-path",
    "auth.prm-mechanism",
)
@pytest.mark.parametrize("path", [METADATA, "/.well-known/oauth-protected-resource", f"{METADATA}/"])
async def test_protected_resource_metadata_at_well_known_urls(path: str) -> None:
    app = protected(Table(), scopes=Scopes(base="base", tools={"echo": "more"}))
    async with hosted(app) as client:
        client.path = path
        # Web pages of any origin may read the public metadata.
        reply = client.start("GET", origin="https://page.example", sec_fetch_site="cross-site")
        document = await reply.json()
        assert document == {
            "resource": RESOURCE,
            "authorization_servers": [ISSUER, "https://other-as.example"],
            "scopes_supported": ["base"],
            "bearer_methods_supported": ["header"],
        }
        assert reply.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in reply.headers
        head = client.start("HEAD")
        assert await head.body() == b""
        assert (head.status, head.headers["content-length"]) == (200, reply.headers["content-length"])
        subscriptions = client.start(
            "OPTIONS", origin="https://page.example", access_control_request_headers="mcp-protocol-version"
        )
        await subscriptions.body()
        assert (subscriptions.status, subscriptions.headers["access-control-allow-headers"]) == (204, "*")
        for method in ("POST", "PUT", "DELETE"):
            refused = client.start(method)
            await refused.body()
            assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        foreign = client.start("GET", host="evil.example")
        await foreign.body()
        assert foreign.status == 403


async def test_challenge_readable_by_listed_origin() -> None:
    server = Server("pages", version="0")
    app = server.asgi(auth=guard(Table()), policy=EndpointPolicy(allowed_origins=("https://app.example",)))
    async with hosted(app) as client:
        reply = client.post(client.call("x"), origin="https://app.example")
        await reply.body()
        assert reply.status == 401
        assert "WWW-Authenticate" in reply.headers["access-control-expose-headers"]
        assert reply.headers["access-control-allow-origin"] == "https://app.example"


def test_auth_with_identify_raises() -> None:
    async def identify(_: HttpRequest) -> str | None:
        return None

    with pytest.raises(ValueError, match="auth and authenticate are both set"):
        Server("both", version="0").asgi(auth=guard(Table()), authenticate=identify)


def test_invalid_configuration_raises() -> None:
    with pytest.raises(TypeError, match=r"must be a list, not a string: \['https://as.example'\]"):
        ResourceServer(RESOURCE, authorization_servers=ISSUER, tokens=Table())
    for scopes in (Scopes(base="offline_access"), Scopes(tools={"a": "offline_access"}), Scopes(includes={"ü": "a"})):
        with pytest.raises(ValueError, match="scope"):
            ResourceServer(RESOURCE, authorization_servers=[ISSUER], tokens=Table(), scopes=scopes)
    assert repr(guard(Table())) == f"<ResourceServer {RESOURCE}>"


@pytest.mark.spec("auth.no-token-passthrough", "auth.no-passthrough", "auth.server-token-storage", "auth.token-storage")
@EVERY
async def test_credentials_reach_neither_handler_nor_log(revision: Revision, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tools = ControlledServer()
    calls = register_recorder(tools.server)
    app = protected(Table(swordfish=access()), server=tools.server)
    async with hosted(app, revision) as client:
        client.headers |= {
            "authorization": "Bearer swordfish",
            "cookie": "a=swordfish",
            "proxy-authorization": "Basic swordfish",
            "dpop": "swordfish",
            "x-other": "kept",
        }
        await begin(client)
        await client.post(client.call("record")).answer()
        await client.post(client.call("fail")).answer()
        client.headers["authorization"] = "Bearer swordfish-2"
        await client.post(client.call("record")).body()
    ((_, _, headers),) = calls
    assert headers["x-other"] == "kept"
    assert "swordfish" not in str(headers)
    assert "swordfish" not in caplog.text


# --- scopes ----------------------------------------------------------------------------------------------------------


def scoped_server() -> Server:
    server = Server("scoped", version="0")

    @server.tool
    async def read() -> str:
        return "read"

    @server.tool
    async def write() -> str:
        return "written"

    @server.resource("notes://{name}")
    async def note(name: str) -> str:
        return name

    @server.resource("open://one")
    async def one() -> str:
        return "one"

    @server.prompt
    async def ask(word: str) -> str:
        return word

    inner = Server("inner", version="0")

    @inner.tool
    async def deep() -> str:
        return "deep"

    @inner.resource("deep://{name}")
    async def deep_note(name: str) -> str:
        return name

    server.mount(inner, prefix="in_")
    return server


SCOPES = Scopes(
    base="use",
    methods={"prompts/list": ["list"], "notifications/initialized": ""},
    tools={"write": "notes:write notes:read", "in_deep": "deep"},
    resources={"notes://{name}": "notes:read", "deep://{name}": "deep"},
    prompts={"ask": "asking"},
    includes={"everything": ["notes:write", "deep", "asking", "list"], "notes:write": "notes:read"},
)

SCOPED_REQUESTS: list[tuple[str, JsonObject, str]] = [
    ("tools/list", {}, ""),
    ("tools/call", {"name": "read"}, ""),
    ("tools/call", {"name": "nothing"}, ""),
    ("tools/call", {"name": "write"}, "notes:write notes:read"),
    ("tools/call", {"name": "in_deep"}, "deep"),
    ("prompts/list", {}, "list"),
    ("prompts/get", {"name": "ask", "arguments": {"word": "x"}}, "asking"),
    ("resources/read", {"uri": "open://one"}, ""),
    ("resources/read", {"uri": "notes://a"}, "notes:read"),
    ("resources/read", {"uri": "notes://%61"}, "notes:read"),
    ("resources/read", {"uri": "deep://a"}, "deep"),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "word", "value": ""}},
        "asking",
    ),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "notes://{name}"}, "argument": {"name": "name", "value": ""}},
        "notes:read",
    ),
]


@pytest.mark.spec(
    "auth.insufficient-scope-403",
    "auth.insufficient-scope-lists-scopes",
    "auth.scope-hierarchy",
    "auth.scope-strategy-consistent",
    "auth.scope-consistency",
)
@EVERY
async def test_request_requires_scopes_of_its_target(revision: Revision) -> None:
    table = Table(few=access(scopes="use"), all=access(scopes="use everything"))
    app = protected(table, server=scoped_server(), scopes=SCOPES)
    async with hosted(app, revision) as client:
        client.headers["authorization"] = "Bearer few"
        await begin(client)
        for method, params, needed in SCOPED_REQUESTS:
            message = client.request(method, params)
            client.headers["authorization"] = "Bearer few"
            reply = client.post(message)
            answer = await reply.answer()
            if not needed:
                assert reply.status != 403, method
            else:
                assert reply.status == 403, method
                assert answer["id"] == message["id"]
                challenge = challenge_of(reply.headers)
                assert challenge.wants_more_scope
                assert challenge.scopes == ("use", *needed.split())
            client.headers["authorization"] = "Bearer all"
            reply = client.post(client.request(method, params))
            await reply.answer()
            assert reply.status != 403, method


@pytest.mark.spec("auth.insufficient-scope-all-at-once")
@EVERY
async def test_request_without_base_scope_gets_all_scopes_in_one_challenge(revision: Revision) -> None:
    table = Table(other=access(scopes="other"), all=access(scopes="use everything"))
    app = protected(table, server=scoped_server(), scopes=SCOPES)
    async with hosted(app, revision) as client:
        client.headers["authorization"] = "Bearer all"
        await begin(client)
        client.headers["authorization"] = "Bearer other"
        for method, params, needed in SCOPED_REQUESTS:
            reply = client.post(client.request(method, params))
            await reply.answer()
            assert (reply.status, challenge_of(reply.headers).scopes) == (403, ("use", *needed.split())), method
        reply = client.post({"id": 7})
        await reply.body()
        assert (reply.status, challenge_of(reply.headers).scopes) == (403, ("use",))


@pytest.mark.parametrize(("method", "path"), [("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse")])
async def test_request_without_message_requires_base_scope(method: str, path: str) -> None:
    table = Table(other=access(scopes="other"), all=access(scopes="use everything"))
    app = protected(table, server=scoped_server(), scopes=SCOPES)
    async with hosted(app, R2025_11_25) as client:
        client.headers["authorization"] = "Bearer all"
        await client.open()
        client.headers["authorization"], client.path = "Bearer other", path
        reply = client.start(method, more={"accept": "text/event-stream"})
        await reply.body()
        assert (reply.status, challenge_of(reply.headers).scopes) == (403, ("use",))


async def test_subscription_requires_scopes_of_its_resources() -> None:
    table = Table(few=access(scopes="use"))
    app = protected(table, server=scoped_server(), scopes=SCOPES)
    async with hosted(app, R2026_07_28) as client:
        client.headers["authorization"] = "Bearer few"
        subscriptions: list[tuple[JsonValue, int]] = [
            (["open://one"], 200),
            (["open://one", "notes://a"], 403),
            ("notes://a", 400),
            ([7], 400),
        ]
        for uris, status in subscriptions:
            subscription: JsonObject = {"notifications": {"resourceSubscriptions": uris}}
            reply = client.post(client.request("subscriptions/listen", subscription))
            if status == 200:
                await reply.event()
            else:
                await reply.body()
            assert reply.status == status
    async with hosted(app, R2025_11_25) as client:
        client.headers["authorization"] = "Bearer few"
        await client.open()
        for method in ("resources/subscribe", "resources/unsubscribe"):
            reply = client.post(client.request(method, {"uri": "notes://a"}))
            await reply.body()
            assert reply.status == 403


async def test_subscription_over_limit_rejected_before_resource_lookup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table(few=access(scopes="use"))
    server = scoped_server()
    looked_up: list[str] = []

    def look_up(uri: str) -> list[str]:
        looked_up.append(uri)
        return []

    monkeypatch.setattr(server._service, "standing_for", look_up)
    app = protected(table, server=server, scopes=SCOPES)
    async with hosted(app, R2026_07_28) as client:
        client.headers["authorization"] = "Bearer few"
        uris: list[JsonValue] = [f"notes://{number}" for number in range(1_001)]
        subscription: JsonObject = {"notifications": {"resourceSubscriptions": uris}}
        reply = client.post(client.request("subscriptions/listen", subscription))
        error = as_object((await reply.json())["error"])
        assert "Limits.watched_resources" in str(error["message"])
    assert not looked_up


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_uri_over_limit_with_scopes_returns_invalid_params(revision: Revision) -> None:
    table = Table(few=access(scopes="use"))
    async with hosted(protected(table, server=scoped_server(), scopes=SCOPES), revision) as client:
        client.headers["authorization"] = "Bearer few"
        await begin(client)
        params: JsonObject = {"notifications": {"resourceSubscriptions": ["notes://" + "x" * 65_536]}}
        method = "subscriptions/listen"
        if revision is R2025_11_25:
            method, params = "resources/subscribe", {"uri": "notes://" + "x" * 65_536}
        error = as_object((await client.post(client.request(method, params)).answer())["error"])
        assert error["code"] == -32602


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": 7},
        {"name": ["write"]},
        {"uri": 7},
        {"ref": 7},
        {"ref": {"name": {}, "uri": []}},
        {"notifications": 7},
    ],
)
@pytest.mark.parametrize(
    "method", ["tools/call", "prompts/get", "resources/read", "completion/complete", "subscriptions/listen"]
)
def test_request_without_target_requires_scopes_of_method(method: str, params: JsonObject) -> None:
    scopes = Scopes(methods={method: "m"}, tools={"write": "w"}, resources={"x:": "r"}, prompts={"p": "p"})
    assert scopes.needed(Request(1, method, params), lambda _: []) == ("m",)


async def test_batch_requires_scopes_of_all_messages() -> None:
    table = Table(few=access(scopes="use"), all=access(scopes="use everything"))
    server = scoped_server()
    app = protected(table, server=server, scopes=SCOPES)
    async with hosted(app, R2025_03_26) as client:
        client.headers["authorization"] = "Bearer few"
        await client.open()
        batch: list[JsonValue] = [client.call("read"), client.call("write"), client.call("in_deep")]
        reply = client.post(batch)
        await reply.body()
        assert reply.status == 403
        assert challenge_of(reply.headers).scopes == ("use", "notes:write", "notes:read", "deep")
        client.headers["authorization"] = "Bearer all"
        reply = client.post(batch)
        assert len(json.loads(await reply.body())) == 3


async def test_http_sse_message_requires_scopes() -> None:
    table = Table(few=access(scopes="use"), all=access(scopes="use everything"), other=access(scopes="other"))
    app = protected(table, server=scoped_server(), scopes=SCOPES)
    async with hosted(app, R2024_11_05) as client:
        client.headers["authorization"] = "Bearer few"
        client.path = "/sse"
        stream = client.get()
        client.path, _, client.query = (await stream.event()).data.decode().partition("?")
        reply = client.post(client.call("write"))
        await reply.body()
        assert (reply.status, challenge_of(reply.headers).error) == (403, "insufficient_scope")
        client.headers["authorization"] = "Bearer other"
        unreadable: JsonObject = {"id": 7}
        for message, scopes in (
            (client.call("write"), ("use", "notes:write", "notes:read")),
            (unreadable, ("use",)),
        ):
            reply = client.post(message)
            await reply.body()
            assert (reply.status, challenge_of(reply.headers).scopes) == (403, scopes)
        client.headers["authorization"] = "Bearer all"
        reply = client.post(client.call("write"))
        await reply.body()
        assert reply.status == 202


@asynccontextmanager
async def session_of(app: HttpEndpoint, token: str) -> AsyncIterator[Client]:
    """Open a legacy client with its session."""
    async with hosted(app, R2025_11_25) as client:
        client.headers["authorization"] = f"Bearer {token}"
        await client.open()
        yield client


# --- expiry of tokens -------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.token-expiration", "auth.server-401-invalid")
async def test_streams_without_requests_end_when_token_expires(autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    table = Table(t1=access(expires_at=start + 100), t2=access(expires_at=start + 10_000))
    app = protected(table)
    async with session_of(app, "t1") as client, hosted(app, R2026_07_28) as modern, hosted(app, R2024_11_05) as old:
        standalone = client.get()
        modern.headers["authorization"] = old.headers["authorization"] = "Bearer t1"
        listening = modern.post(modern.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        await listening.event()
        old.path = "/sse"
        pair = old.get()
        await pair.event()
        await trio.sleep(125)
        assert not any(reply.complete for reply in (standalone, listening, pair))
        for reply in (standalone, listening, pair):
            await reply.rest()
        # Clocks may differ by 30 seconds.
        assert trio.current_time() == pytest.approx(start + 130, abs=1)
        refused = client.post(client.request("ping"))
        await refused.body()
        assert (refused.status, challenge_of(refused.headers).error) == (401, "invalid_token")
        # The session continues with a newer token of the same principal.
        client.headers["authorization"] = "Bearer t2"
        assert (await client.ask("ping"))["result"] == {}
        again = client.get()
        await again.event()
        assert again.status == 200


async def test_newer_token_extends_http_sse_session(autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    table = Table(t1=access(expires_at=start + 100), t2=access(expires_at=start + 1_000))
    async with hosted(protected(table), R2024_11_05) as client:
        client.headers["authorization"] = "Bearer t1"
        client.path = "/sse"
        stream = client.get()
        client.path, _, client.query = (await stream.event()).data.decode().partition("?")
        client.headers["authorization"] = "Bearer t2"
        assert await client.post(client.request("ping")).body() == b""
        await trio.sleep(900)
        assert not stream.complete
        await stream.rest()
        assert trio.current_time() == pytest.approx(start + 1_030, abs=1)


async def test_running_call_continues_when_token_expires(autojump_clock: trio.testing.MockClock) -> None:
    tools = ControlledServer()
    table = Table(t1=access(expires_at=trio.current_time() + 10))
    for revision in (R2025_11_25, R2026_07_28):
        async with hosted(protected(table, server=tools.server), revision) as client:
            client.headers["authorization"] = "Bearer t1"
            table.known["t1"] = access(expires_at=trio.current_time() + 10)
            await begin(client)
            reply = client.post(client.call("hold", name=revision.name))
            await trio.sleep(100)
            tools.let(revision.name)
            assert text_of(await reply.answer()) == revision.name


# --- DPoP ------------------------------------------------------------------------------------------------------------


def dpop_resource_server(dpop: DpopUse = "accepted", *, nonces: bytes | None = None) -> ResourceServer:
    return ResourceServer(
        RESOURCE,
        authorization_servers=[JWT_ISSUER],
        tokens=JwtTokens(JWT_ISSUER, keys=public(EC)),
        dpop=dpop,
        dpop_nonces=nonces,
    )


async def send_call(client: Client, authorization: str, *proofs: str) -> tuple[int, str | None, dict[str, str]]:
    """Return the status, the error and the headers of the response to a call."""
    reply = client.start(
        "POST", client.call("echo", text="x"), authorization=authorization, dpop=proofs[0] if proofs else None
    )
    await reply.body()
    error = None if reply.status == 200 else challenge_of(reply.headers).error
    return reply.status, error, reply.headers


@pytest.mark.spec("dpop.server-validates-proof", "dpop.server-reject-401", "dpop.server-audience", "dpop.client-scheme")
async def test_dpop_bound_token_requires_proof_for_each_request() -> None:
    app = ControlledServer().server.asgi(auth=dpop_resource_server())
    token = jwt(cnf={"jkt": JKT})
    plain = jwt()
    async with hosted(app) as client:
        first = proof(token)
        assert (await send_call(client, f"DPoP {token}", first))[0] == 200
        assert (await send_call(client, f"Bearer {plain}"))[0] == 200
        assert (await send_call(client, f"dpop {token}", proof(token, url="HTTP://127.0.0.1:8000/mcp?x=1")))[0] == 200
        table: list[tuple[str, tuple[str, ...], str]] = [
            (f"DPoP {token}", (), "invalid_dpop_proof"),
            (f"DPoP {token}", (first,), "invalid_dpop_proof"),
            (f"DPoP {token}", (proof(token, "GET"),), "invalid_dpop_proof"),
            (f"DPoP {token}", (proof(token, url="http://127.0.0.1:8000/other"),), "invalid_dpop_proof"),
            (f"DPoP {token}", (proof(plain),), "invalid_dpop_proof"),
            (f"DPoP {token}", (proof(token, iat=0),), "invalid_dpop_proof"),
            (f"DPoP {token}", (proof(token, key=EC),), "invalid_token"),
            (f"DPoP {plain}", (proof(plain),), "invalid_token"),
            (f"Bearer {token}", (proof(token),), "invalid_token"),
            (f"DPoP {jwt(cnf={'jkt': JKT}, aud='https://other.example')}", (proof(token),), "invalid_token"),
        ]
        for authorization, proofs, error in table:
            status, found, headers = await send_call(client, authorization, *proofs)
            assert (status, found) == (401, error)
            assert challenge_of(headers).scheme == "DPoP"
            assert "ES256" in challenge_of(headers).parameters["algs"].split()


async def test_repeated_dpop_proof_or_token_rejected() -> None:
    statuses: list[object] = []
    challenge_headers: list[str] = []

    async def receive() -> Message:
        raise AssertionError("the body is not read")

    async def send(message: Message) -> None:
        if "status" in message:
            statuses.append(message["status"])
            headers = message["headers"]
            assert isinstance(headers, list)
            challenge_headers.extend(value.decode() for name, value in headers if name == b"www-authenticate")

    token = jwt(cnf={"jkt": JKT})
    credentials = {
        "two proofs": [("authorization", f"DPoP {token}"), ("dpop", proof(token)), ("dpop", proof(token))],
        "nothing": [],
        "two tokens": [
            ("authorization", f"DPoP {token}"),
            ("authorization", f"Bearer {token}"),
            ("dpop", proof(token)),
        ],
    }
    app = ControlledServer().server.asgi(auth=dpop_resource_server())
    for given in credentials.values():
        pairs = [("host", "127.0.0.1"), ("accept", "application/json"), ("content-type", "application/json"), *given]
        headers = [(name.encode(), value.encode()) for name, value in pairs]
        await app({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, send)
    assert statuses == [401, 401, 400]
    challenges = read_challenges(challenge_headers)
    assert [(each.scheme, each.error) for each in challenges] == [
        ("DPoP", "invalid_dpop_proof"),
        ("Bearer", None),
        ("DPoP", None),
        ("Bearer", "invalid_request"),
        ("DPoP", "invalid_request"),
    ]


@pytest.mark.spec("dpop.server-nonce", "dpop.client-rs-nonce")
async def test_dpop_nonce_required_when_configured() -> None:
    app = ControlledServer().server.asgi(auth=dpop_resource_server("required", nonces=b"k" * 32))
    token = jwt(cnf={"jkt": JKT})
    async with hosted(app) as client:
        status, error, headers = await send_call(client, f"DPoP {token}", proof(token))
        assert (status, error) == (401, "use_dpop_nonce")
        nonce = headers["dpop-nonce"]
        assert (await send_call(client, f"DPoP {token}", proof(token, nonce=nonce)))[0] == 200
        assert (await send_call(client, f"DPoP {token}", proof(token, nonce=nonce[:-2])))[1] == "use_dpop_nonce"


@pytest.mark.spec("dpop.optional", "dpop.server-no-bearer-downgrade")
async def test_dpop_use_decides_accepted_tokens() -> None:
    free, tied = jwt(), jwt(cnf={"jkt": JKT})
    async with hosted(ControlledServer().server.asgi(auth=dpop_resource_server("required"))) as client:
        status, error, headers = await send_call(client, f"Bearer {free}")
        assert (status, error, challenge_of(headers).scheme) == (401, None, "DPoP")
        assert (await send_call(client, f"DPoP {tied}", proof(tied)))[0] == 200
    async with hosted(ControlledServer().server.asgi(auth=dpop_resource_server("off"))) as client:
        assert (await send_call(client, f"Bearer {free}"))[0] == 200
        for authorization, error in ((f"DPoP {tied}", None), (f"Bearer {tied}", "invalid_token")):
            status, found, headers = await send_call(client, authorization, proof(tied))
            assert (status, found, challenge_of(headers).scheme) == (401, error, "Bearer")


# --- over sockets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_host_of_each_kind_serves_protected_endpoint(host: str, revision: Revision) -> None:
    server = Server("hosted", version="0", async_library="trio")
    calls = register_recorder(server)
    app = server.asgi(auth=dpop_resource_server())
    token = jwt()
    async with served(app, host) as url:
        client = await RawHttp.to(url)
        given = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
        params: JsonObject
        if revision.era is Era.MODERN:
            given |= {"Mcp_Protocol_Version": revision.name, "Mcp_Method": "tools/call", "Mcp_Name": "record"}
            meta: JsonObject = {
                "io.modelcontextprotocol/protocolVersion": revision.name,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"name": "record", "arguments": {}, "_meta": meta}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        else:
            params = {"protocolVersion": revision.name, "capabilities": {}, "clientInfo": {"name": "a", "version": "0"}}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
        refused = await client.exchange("POST", "/mcp", body, **given)
        assert refused.status == 401
        assert challenge_of(refused.headers).resource_metadata == f"http://127.0.0.1:8000{METADATA}"
        document = await client.exchange("GET", METADATA)
        assert (document.status, json.loads(document.body)["resource"]) == (200, RESOURCE)
        send_call = await client.exchange("POST", "/mcp", body, Authorization=f"Bearer {token}", **given)
        assert (send_call.status, "result" in json.loads(send_call.body)) == (200, True)
        await client.aclose()
    assert len(calls) == (1 if revision.era is Era.MODERN else 0)
