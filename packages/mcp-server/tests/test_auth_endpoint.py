"""An endpoint that wants access tokens: every route, every revision, and what it tells whom."""

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
from http_gate import Gate, text_of
from http_hosts import HOSTS, RawHttp, served
from resource_world import ISSUER, METADATA, RESOURCE, Table, access, challenge_of, guard, protected, telling

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


# --- who comes in ----------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.http-conform", "auth.http-should-conform", "auth.token-resource-requests", "elicitation.user-from-credentials"
)
@EVERY
@pytest.mark.spec("auth.bearer-header", "auth.every-request", "auth.bearer-every-request")
async def test_who_has_a_token_is_let_in_and_known_to_handlers(revision: Revision) -> None:
    gate = Gate()
    seen = telling(gate.server)
    app = protected(Table(t1=access(scopes="a b")), server=gate.server)
    async with hosted(app, revision) as client:
        client.headers["authorization"] = "Bearer t1"
        await begin(client)
        assert text_of(await client.post(client.call("tell")).answer()) == "told"
    ((principal, scopes, _),) = seen
    assert principal == Principal(issuer=ISSUER, subject="anna", client_id="c1")
    assert scopes == {"a", "b"}


WRONG = {
    "nothing": (None, 401, None),
    "another scheme": ("Basic YTpi", 401, None),
    "an unknown token": ("Bearer unknown-1", 401, "invalid_token"),
    "a token for somebody else": ("Bearer foreign-1", 401, "invalid_token"),
    "a token of somebody else": ("Bearer strange-1", 401, "invalid_token"),
    "an old token": ("Bearer old-1", 401, "invalid_token"),
    "a bound token": ("Bearer tied-1", 401, "invalid_token"),
    "too few scopes": ("Bearer few-1", 403, "insufficient_scope"),
    "no token": ("Bearer", 400, "invalid_request"),
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
async def test_nobody_else_is_let_in_by_any_route(
    method: str, path: str, kind: str, wrong: tuple[str | None, int, str | None]
) -> None:
    authorization, status, error = wrong
    gate = Gate()
    seen = telling(gate.server)
    app = gate.server.asgi(
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
        message = client.request("initialize", params) if kind == "initialize" else client.call("tell")
        more = {"last_event_id": "1-0"} if kind == "resumed" else {}
        if method == "GET":
            reply = client.get(**more)
        else:
            # What is not there cannot be waited for: the body is not read.
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
    assert not seen


async def test_health_and_metadata_are_for_everybody() -> None:
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
    assert table.asked == []


@pytest.mark.spec("auth.token-not-in-query", "auth.no-query-token")
async def test_a_token_in_the_url_is_none() -> None:
    table = Table(t1=access())
    async with hosted(protected(table)) as client:
        client.query = "access_token=t1"
        reply = client.post(client.call("echo", text="x"))
        await reply.body()
    assert (reply.status, table.asked) == (401, [])


async def test_who_is_refused_in_any_case_makes_nobody_look_at_tokens() -> None:
    table = Table(t1=access())
    async with hosted(protected(table)) as client:
        client.headers["authorization"] = "Bearer t1"
        for path in ("/mcp", "/sse", "/messages"):
            client.path = path
            for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
                reply = client.start("POST", client.call("echo", text="x"), more=headers)
                await reply.body()
                assert reply.status == 403
    assert table.asked == []


async def test_nobody_can_say_at_present_is_no_verdict(caplog: pytest.LogCaptureFixture) -> None:
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


# --- what is told ----------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.prm-server",
    "auth.prm-implemented",
    "auth.prm-discovery-one-of",
    "auth.prm-wellknown-path",
    "auth.prm-mechanism",
)
@pytest.mark.parametrize("path", [METADATA, "/.well-known/oauth-protected-resource", f"{METADATA}/"])
async def test_the_metadata_are_where_clients_look(path: str) -> None:
    app = protected(Table(), scopes=Scopes(base="base", tools={"echo": "more"}))
    async with hosted(app) as client:
        client.path = path
        # Web pages may read it: it is for everybody.
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
        asked = client.start(
            "OPTIONS", origin="https://page.example", access_control_request_headers="mcp-protocol-version"
        )
        await asked.body()
        assert (asked.status, asked.headers["access-control-allow-headers"]) == (204, "*")
        for method in ("POST", "PUT", "DELETE"):
            refused = client.start(method)
            await refused.body()
            assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        foreign = client.start("GET", host="evil.example")
        await foreign.body()
        assert foreign.status == 403


async def test_a_page_of_a_listed_origin_can_read_the_challenge() -> None:
    server = Server("pages", version="0")
    app = server.asgi(auth=guard(Table()), policy=EndpointPolicy(allowed_origins=("https://app.example",)))
    async with hosted(app) as client:
        reply = client.post(client.call("x"), origin="https://app.example")
        await reply.body()
        assert reply.status == 401
        assert "WWW-Authenticate" in reply.headers["access-control-expose-headers"]
        assert reply.headers["access-control-allow-origin"] == "https://app.example"


def test_the_two_ways_to_know_who_asks_exclude_each_other() -> None:
    async def identify(_: HttpRequest) -> str | None:
        return None

    with pytest.raises(ValueError, match="auth and identify both authenticate"):
        Server("both", version="0").asgi(auth=guard(Table()), authenticate=identify)


def test_what_cannot_be_meant_is_found_at_once() -> None:
    with pytest.raises(TypeError, match=r"must be a list, not a string: \['https://as.example'\]"):
        ResourceServer(RESOURCE, authorization_servers=ISSUER, tokens=Table())
    for scopes in (Scopes(base="offline_access"), Scopes(tools={"a": "offline_access"}), Scopes(includes={"ü": "a"})):
        with pytest.raises(ValueError, match="scope"):
            ResourceServer(RESOURCE, authorization_servers=[ISSUER], tokens=Table(), scopes=scopes)
    assert repr(guard(Table())) == f"<ResourceServer {RESOURCE}>"


@pytest.mark.spec("auth.no-token-passthrough", "auth.no-passthrough", "auth.server-token-storage", "auth.token-storage")
@EVERY
async def test_what_lets_a_client_in_reaches_no_handler_and_no_log(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    gate = Gate()
    seen = telling(gate.server)
    app = protected(Table(swordfish=access()), server=gate.server)
    async with hosted(app, revision) as client:
        client.headers |= {
            "authorization": "Bearer swordfish",
            "cookie": "a=swordfish",
            "proxy-authorization": "Basic swordfish",
            "dpop": "swordfish",
            "x-other": "kept",
        }
        await begin(client)
        await client.post(client.call("tell")).answer()
        await client.post(client.call("fail")).answer()
        client.headers["authorization"] = "Bearer swordfish-2"
        await client.post(client.call("tell")).body()
    ((_, _, headers),) = seen
    assert headers["x-other"] == "kept"
    assert "swordfish" not in str(headers)
    assert "swordfish" not in caplog.text


# --- scopes ----------------------------------------------------------------------------------------------------------


def shelf() -> Server:
    server = Server("shelf", version="0")

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

ASKED: list[tuple[str, JsonObject, str]] = [
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
async def test_each_request_needs_the_scopes_of_what_it_is_about(revision: Revision) -> None:
    table = Table(few=access(scopes="use"), all=access(scopes="use everything"))
    app = protected(table, server=shelf(), scopes=SCOPES)
    async with hosted(app, revision) as client:
        client.headers["authorization"] = "Bearer few"
        await begin(client)
        for method, params, needed in ASKED:
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


async def test_a_watch_needs_the_scopes_of_what_is_watched() -> None:
    table = Table(few=access(scopes="use"))
    app = protected(table, server=shelf(), scopes=SCOPES)
    async with hosted(app, R2026_07_28) as client:
        client.headers["authorization"] = "Bearer few"
        asked: list[tuple[JsonValue, int]] = [
            (["open://one"], 200),
            (["open://one", "notes://a"], 403),
            ("notes://a", 400),
            ([7], 400),
        ]
        for uris, status in asked:
            wanted: JsonObject = {"notifications": {"resourceSubscriptions": uris}}
            reply = client.post(client.request("subscriptions/listen", wanted))
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


async def test_a_watch_of_more_resources_than_allowed_is_refused_before_each_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table(few=access(scopes="use"))
    server = shelf()
    looked_up: list[str] = []

    def look_up(uri: str) -> list[str]:
        looked_up.append(uri)
        return []

    monkeypatch.setattr(server._service, "standing_for", look_up)
    app = protected(table, server=server, scopes=SCOPES)
    async with hosted(app, R2026_07_28) as client:
        client.headers["authorization"] = "Bearer few"
        uris: list[JsonValue] = [f"notes://{number}" for number in range(1_001)]
        wanted: JsonObject = {"notifications": {"resourceSubscriptions": uris}}
        reply = client.post(client.request("subscriptions/listen", wanted))
        error = as_object((await reply.json())["error"])
        assert "Limits.watched_resources" in str(error["message"])
    assert not looked_up


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_a_uri_over_the_bound_is_no_internal_error_where_scopes_are_asked_for(revision: Revision) -> None:
    table = Table(few=access(scopes="use"))
    async with hosted(protected(table, server=shelf(), scopes=SCOPES), revision) as client:
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
def test_what_is_about_nothing_needs_what_its_method_needs(method: str, params: JsonObject) -> None:
    scopes = Scopes(methods={method: "m"}, tools={"write": "w"}, resources={"x:": "r"}, prompts={"p": "p"})
    assert scopes.needed(Request(1, method, params), lambda _: []) == ("m",)


async def test_a_batch_needs_what_all_of_its_messages_need() -> None:
    table = Table(few=access(scopes="use"), all=access(scopes="use everything"))
    server = shelf()
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


async def test_messages_of_the_pair_of_2024_need_their_scopes_too() -> None:
    table = Table(few=access(scopes="use"), all=access(scopes="use everything"))
    app = protected(table, server=shelf(), scopes=SCOPES)
    async with hosted(app, R2024_11_05) as client:
        client.headers["authorization"] = "Bearer few"
        client.path = "/sse"
        stream = client.get()
        client.path, _, client.query = (await stream.event()).data.decode().partition("?")
        reply = client.post(client.call("write"))
        await reply.body()
        assert (reply.status, challenge_of(reply.headers).error) == (403, "insufficient_scope")
        client.headers["authorization"] = "Bearer all"
        reply = client.post(client.call("write"))
        await reply.body()
        assert reply.status == 202


@asynccontextmanager
async def session_of(app: HttpEndpoint, token: str) -> AsyncIterator[Client]:
    """A legacy client with a session of its own."""
    async with hosted(app, R2025_11_25) as client:
        client.headers["authorization"] = f"Bearer {token}"
        await client.open()
        yield client


# --- the end of a token ----------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.token-expiration", "auth.server-401-invalid")
async def test_streams_that_only_listen_end_with_the_token(autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    table = Table(t1=access(expires_at=start + 100), t2=access(expires_at=start + 10_000))
    app = protected(table)
    async with session_of(app, "t1") as client, hosted(app, R2026_07_28) as modern, hosted(app, R2024_11_05) as old:
        standing = client.get()
        modern.headers["authorization"] = old.headers["authorization"] = "Bearer t1"
        listening = modern.post(modern.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        await listening.event()
        old.path = "/sse"
        pair = old.get()
        await pair.event()
        await trio.sleep(125)
        assert not any(reply.complete for reply in (standing, listening, pair))
        for reply in (standing, listening, pair):
            await reply.rest()
        # 30 seconds is what clocks may differ.
        assert trio.current_time() == pytest.approx(start + 130, abs=1)
        refused = client.post(client.request("ping"))
        await refused.body()
        assert (refused.status, challenge_of(refused.headers).error) == (401, "invalid_token")
        # The session is there still, for a newer token of the same principal.
        client.headers["authorization"] = "Bearer t2"
        assert (await client.ask("ping"))["result"] == {}
        again = client.get()
        await again.event()
        assert again.status == 200


async def test_a_newer_token_prolongs_the_session_of_2024(autojump_clock: trio.testing.MockClock) -> None:
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


async def test_a_call_that_runs_goes_on_when_its_token_ends(autojump_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    table = Table(t1=access(expires_at=trio.current_time() + 10))
    for revision in (R2025_11_25, R2026_07_28):
        async with hosted(protected(table, server=gate.server), revision) as client:
            client.headers["authorization"] = "Bearer t1"
            table.known["t1"] = access(expires_at=trio.current_time() + 10)
            await begin(client)
            reply = client.post(client.call("hold", name=revision.name))
            await trio.sleep(100)
            gate.let(revision.name)
            assert text_of(await reply.answer()) == revision.name


# --- DPoP ------------------------------------------------------------------------------------------------------------


def bound(dpop: DpopUse = "accepted", *, nonces: bytes | None = None) -> ResourceServer:
    return ResourceServer(
        RESOURCE,
        authorization_servers=[JWT_ISSUER],
        tokens=JwtTokens(JWT_ISSUER, keys=public(EC)),
        dpop=dpop,
        dpop_nonces=nonces,
    )


async def answered(client: Client, authorization: str, *proofs: str) -> tuple[int, str | None, dict[str, str]]:
    """The status, the error and the headers."""
    reply = client.start(
        "POST", client.call("echo", text="x"), authorization=authorization, dpop=proofs[0] if proofs else None
    )
    await reply.body()
    error = None if reply.status == 200 else challenge_of(reply.headers).error
    return reply.status, error, reply.headers


@pytest.mark.spec("dpop.server-validates-proof", "dpop.server-reject-401", "dpop.server-audience", "dpop.client-scheme")
async def test_a_bound_token_needs_a_proof_with_each_request() -> None:
    app = Gate().server.asgi(auth=bound())
    token = jwt(cnf={"jkt": JKT})
    plain = jwt()
    async with hosted(app) as client:
        first = proof(token)
        assert (await answered(client, f"DPoP {token}", first))[0] == 200
        assert (await answered(client, f"Bearer {plain}"))[0] == 200
        assert (await answered(client, f"dpop {token}", proof(token, url="HTTP://127.0.0.1:8000/mcp?x=1")))[0] == 200
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
            status, told, headers = await answered(client, authorization, *proofs)
            assert (status, told) == (401, error)
            assert challenge_of(headers).scheme == "DPoP"
            assert "ES256" in challenge_of(headers).parameters["algs"].split()


async def test_two_proofs_are_none() -> None:
    statuses: list[object] = []
    told: list[str] = []

    async def receive() -> Message:
        raise AssertionError("the body is not read")

    async def send(message: Message) -> None:
        if "status" in message:
            statuses.append(message["status"])
            headers = message["headers"]
            assert isinstance(headers, list)
            told.extend(value.decode() for name, value in headers if name == b"www-authenticate")

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
    app = Gate().server.asgi(auth=bound())
    for given in credentials.values():
        pairs = [("host", "127.0.0.1"), ("accept", "application/json"), ("content-type", "application/json"), *given]
        headers = [(name.encode(), value.encode()) for name, value in pairs]
        await app({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, send)
    assert statuses == [401, 401, 400]
    challenges = read_challenges(told)
    assert [(each.scheme, each.error) for each in challenges] == [
        ("DPoP", "invalid_dpop_proof"),
        ("Bearer", None),
        ("DPoP", None),
        ("Bearer", "invalid_request"),
        ("DPoP", "invalid_request"),
    ]


@pytest.mark.spec("dpop.server-nonce", "dpop.client-rs-nonce")
async def test_a_nonce_is_asked_for_where_there_is_a_key_for_them() -> None:
    app = Gate().server.asgi(auth=bound("required", nonces=b"k" * 32))
    token = jwt(cnf={"jkt": JKT})
    async with hosted(app) as client:
        status, error, headers = await answered(client, f"DPoP {token}", proof(token))
        assert (status, error) == (401, "use_dpop_nonce")
        nonce = headers["dpop-nonce"]
        assert (await answered(client, f"DPoP {token}", proof(token, nonce=nonce)))[0] == 200
        assert (await answered(client, f"DPoP {token}", proof(token, nonce=nonce[:-2])))[1] == "use_dpop_nonce"


@pytest.mark.spec("dpop.optional", "dpop.server-no-bearer-downgrade")
async def test_tokens_are_bound_or_not_as_the_server_wants() -> None:
    free, tied = jwt(), jwt(cnf={"jkt": JKT})
    async with hosted(Gate().server.asgi(auth=bound("required"))) as client:
        status, error, headers = await answered(client, f"Bearer {free}")
        assert (status, error, challenge_of(headers).scheme) == (401, None, "DPoP")
        assert (await answered(client, f"DPoP {tied}", proof(tied)))[0] == 200
    async with hosted(Gate().server.asgi(auth=bound("off"))) as client:
        assert (await answered(client, f"Bearer {free}"))[0] == 200
        for authorization, error in ((f"DPoP {tied}", None), (f"Bearer {tied}", "invalid_token")):
            status, told, headers = await answered(client, authorization, proof(tied))
            assert (status, told, challenge_of(headers).scheme) == (401, error, "Bearer")


# --- over sockets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_every_host_serves_a_protected_endpoint(host: str, revision: Revision) -> None:
    server = Server("hosted", version="0")
    seen = telling(server)
    app = server.asgi(auth=bound())
    token = jwt()
    async with served(app, host) as url:
        client = await RawHttp.to(url)
        given = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
        params: JsonObject
        if revision.era is Era.MODERN:
            given |= {"Mcp_Protocol_Version": revision.name, "Mcp_Method": "tools/call", "Mcp_Name": "tell"}
            meta: JsonObject = {
                "io.modelcontextprotocol/protocolVersion": revision.name,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"name": "tell", "arguments": {}, "_meta": meta}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        else:
            params = {"protocolVersion": revision.name, "capabilities": {}, "clientInfo": {"name": "a", "version": "0"}}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
        refused = await client.ask("POST", "/mcp", body, **given)
        assert refused.status == 401
        assert challenge_of(refused.headers).resource_metadata == f"http://127.0.0.1:8000{METADATA}"
        document = await client.ask("GET", METADATA)
        assert (document.status, json.loads(document.body)["resource"]) == (200, RESOURCE)
        answered = await client.ask("POST", "/mcp", body, Authorization=f"Bearer {token}", **given)
        assert (answered.status, "result" in json.loads(answered.body)) == (200, True)
        await client.aclose()
    assert len(seen) == (1 if revision.era is Era.MODERN else 0)
