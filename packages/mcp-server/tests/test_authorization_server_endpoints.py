"""What surrounds the grants: metadata, keys, revocation, introspection, and what endpoints do with odd requests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import trio
from authorization_testbed import OTHER, RESOURCE, SCOPES, SECRET, WEB, Nobody, World, world
from joserfc import jwt
from joserfc.jwk import ECKey

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.oauth.access_token import InvalidToken
from mcp_core.oauth.metadata import check_pkce, read_authorization_server
from mcp_core.oauth.signatures import read_signed_jwt
from mcp_server.auth.authorization_server import (
    AuthorizationServer,
    Client,
    DynamicRegistration,
    Lifetimes,
    RegistrationPolicy,
    SqliteStore,
)

# --- metadata --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.cimd-advertised", "auth.pkce-as-oidc-advertises", "auth.server-rfc8414", "auth.grant-types")
@pytest.mark.spec(
    "auth.as-rfc8414", "auth.as-metadata-one-of", "auth.as-iss-advertised", "auth.oidc-code-challenge-methods",
    "dpop.as-alg-values", "dpop.as-no-none", "client-credentials.as-metadata-methods", "client-credentials.as-metadata-algs",
)  # fmt: skip
async def test_the_metadata_say_what_there_is() -> None:
    async with world() as it:
        reply = await it.get("/.well-known/oauth-authorization-server")
        assert reply.status == 200
        assert reply.header("content-type") == "application/json"
        found = read_authorization_server(reply.json)
        assert not found.notes
        assert found.issuer == it.url
        check_pkce(found)
        assert found.authorization_response_iss_parameter_supported
        assert found.client_id_metadata_document_supported
        assert found.scopes_supported == tuple(SCOPES)
        assert found.token_endpoint_auth_methods_supported == (
            "none",
            "client_secret_basic",
            "client_secret_post",
            "private_key_jwt",
        )
        assert "none" not in (found.dpop_signing_alg_values_supported or ())
        assert "ES256" in (found.token_endpoint_auth_signing_alg_values_supported or ())
        assert (await it.get("/.well-known/openid-configuration")).body == reply.body
        for endpoint in (
            found.token_endpoint,
            found.revocation_endpoint,
            found.introspection_endpoint,
            found.registration_endpoint,
        ):
            assert endpoint is not None
            assert (await it.request("POST", endpoint.removeprefix(it.url))).status in (400, 401)


async def test_an_issuer_with_a_path_is_found_in_all_three_places() -> None:
    async with world(path="/tenant") as it:
        places = (
            "/.well-known/oauth-authorization-server/tenant",
            "/.well-known/openid-configuration/tenant",
            "/tenant/.well-known/openid-configuration",
        )
        for place in places:
            assert (await it.get(place)).text("issuer") == it.url
        assert (await it.get("/.well-known/oauth-authorization-server")).status == 404
        assert (await it.get(places[0])).text("token_endpoint") == f"{it.url}/token"
        assert (await it.tokens()).status == 200


async def test_the_metadata_do_not_promise_what_the_policy_denies() -> None:
    async with world(policy=RegistrationPolicy(dynamic=DynamicRegistration.OFF, metadata_documents=False)) as it:
        document = (await it.get("/.well-known/oauth-authorization-server")).json
        assert "registration_endpoint" not in document
        assert "client_id_metadata_document_supported" not in document
        assert (await it.register({"redirect_uris": [WEB]})).status == 404


# --- keys ------------------------------------------------------------------------------------------------------------


def key_of(token: str) -> str | None:
    return read_signed_jwt(token, algorithms=["ES256"]).key_id


async def shown_keys(it: World) -> list[object]:
    keys = (await it.get("/jwks")).json["keys"]
    assert isinstance(keys, list)
    assert all(isinstance(key, dict) and set(key) == {"kty", "crv", "x", "y", "kid", "use", "alg"} for key in keys)
    return [key["kid"] for key in keys if isinstance(key, dict)]


async def test_a_key_signs_for_a_while_and_is_shown_until_its_last_token_has_ended() -> None:
    async with world(lifetimes=Lifetimes(signing_key=1000, access=100)) as it:
        first = (await it.tokens()).text("access_token")
        assert await shown_keys(it) == [key_of(first)]
        it.clock.now += 999
        last = (await it.tokens()).text("access_token")
        assert key_of(last) == key_of(first)
        it.clock.now += 1
        second = (await it.tokens()).text("access_token")
        assert key_of(second) != key_of(first)
        assert await shown_keys(it) == [key_of(second), key_of(first)]
        assert await it.is_active(last)
        it.clock.now += 100 + 3600
        third = (await it.tokens()).text("access_token")
        assert await shown_keys(it) == [key_of(third), key_of(second)]
        it.clock.now += 10_000
        assert len(await shown_keys(it)) == 1


# --- revocation ------------------------------------------------------------------------------------------------------


async def revoke(it: World, token: str, **form: str) -> int:
    return (await it.post("/revoke", {"token": token, "client_id": "app", **form})).status


async def test_to_revoke_an_access_token_ends_that_one() -> None:
    async with world() as it:
        reply = await it.tokens()
        other = await it.refresh(reply.text("refresh_token"))
        assert await revoke(it, reply.text("access_token"), token_type_hint="refresh_token") == 200
        assert not await it.is_active(reply.text("access_token"))
        assert await it.is_active(other.text("access_token"))
        assert (await it.refresh(other.text("refresh_token"))).status == 200


async def test_to_revoke_a_refresh_token_ends_all_of_its_grant() -> None:
    async with world() as it:
        reply = await it.tokens()
        assert await revoke(it, reply.text("refresh_token"), token_type_hint="whatever") == 200
        assert not await it.is_active(reply.text("access_token"))
        assert (await it.refresh(reply.text("refresh_token"))).error == "invalid_grant"


async def test_to_revoke_what_is_none_or_over_is_no_error() -> None:
    async with world() as it:
        reply = await it.tokens()
        for _ in range(2):
            assert await revoke(it, reply.text("refresh_token")) == 200
        for token in ("unknown", "a.b.c", "\xff"):
            assert await revoke(it, token) == 200
        assert (await it.post("/revoke", {"client_id": "app"})).error == "invalid_request"


async def test_nobody_revokes_tokens_of_others() -> None:
    async with world() as it:
        reply = await it.tokens()
        for token in (reply.text("access_token"), reply.text("refresh_token")):
            assert await revoke(it, token, client_id="local") == 400
            assert await revoke(it, token, client_id="secret") == 401
        assert await it.is_active(reply.text("access_token"))
        assert (await it.refresh(reply.text("refresh_token"))).status == 200


# --- introspection ---------------------------------------------------------------------------------------------------


async def test_a_resource_server_learns_what_a_token_for_it_is() -> None:
    async with world() as it:
        reply = await it.tokens()
        told = await it.introspect(reply.text("access_token"))
        assert told["active"] is True
        assert (told["sub"], told["client_id"], told["aud"], told["iss"]) == ("ada", "app", RESOURCE, it.url)
        assert (told["scope"], told["token_type"]) == ("notes:read notes:write", "Bearer")
        it.clock.now += 600
        assert await it.introspect(reply.text("access_token")) == {"active": False}


async def test_what_does_not_concern_the_one_who_asks_is_not_active() -> None:
    clients = [
        Client.configured("app", redirect_uris=[WEB], secret=SECRET),
        Client.configured("server", secret=SECRET, introspects=[RESOURCE]),
        Client.configured("other", secret=SECRET, introspects=[OTHER]),
    ]
    async with world(clients=clients, resources=[RESOURCE, OTHER]) as it:
        reply = await it.redeem(await it.code(), client_secret=SECRET)
        asked: dict[tuple[str, str], object] = {}
        for client in ("app", "server", "other"):
            for token in ("access_token", "refresh_token"):
                form = {"token": reply.text(token), "client_id": client, "client_secret": SECRET}
                asked[client, token] = (await it.post("/introspect", form)).json["active"]
        assert asked == {
            ("app", "access_token"): True, ("app", "refresh_token"): True,
            ("server", "access_token"): True, ("server", "refresh_token"): False,
            ("other", "access_token"): False, ("other", "refresh_token"): False,
        }  # fmt: skip
        form = {"token": reply.text("refresh_token"), "client_id": "app", "client_secret": SECRET}
        told = (await it.post("/introspect", form)).json
        assert told == {
            "active": True,
            "client_id": "app",
            "sub": "ada",
            "scope": "notes:read notes:write",
            "token_type": "refresh_token",
        }


async def test_a_public_client_cannot_ask_what_a_token_is() -> None:
    async with world() as it:
        reply = await it.tokens()
        refused = await it.post("/introspect", {"token": reply.text("access_token"), "client_id": "app"})
        assert (refused.status, refused.error) == (401, "invalid_client")
        form = {"client_id": "server", "client_secret": SECRET}
        assert (await it.post("/introspect", form)).error == "invalid_request"


async def test_a_token_that_somebody_else_signed_is_not_active() -> None:
    async with world() as it:
        token = (await it.tokens()).text("access_token")
        signed = read_signed_jwt(token, algorithms=["ES256"])
        forged = ECKey.generate_key("P-256")
        for header in ({"kid": signed.key_id}, {"kid": "another"}, {}):
            text = jwt.encode({"alg": "ES256", "typ": "at+jwt", **header}, dict(signed.claims), forged)
            assert not await it.is_active(text)
        row: list[str] = await it.server.store.run(
            lambda store: store.execute("SELECT jwk FROM signing_keys").fetchone()
        )
        ours = ECKey.import_key(json.loads(row[0]))
        for kind, active in (("JWT", False), ("at+jwt", True)):
            header = {"alg": "ES256", "typ": kind, "kid": signed.key_id}
            assert await it.is_active(jwt.encode(header, dict(signed.claims), ours)) == active
        head, _, tail = token.rpartition(".")
        assert not await it.is_active(f"{head}.{tail[::-1]}")
        assert not await it.is_active("a.b.c")


@pytest.mark.parametrize("remembered", [10, 0])
async def test_the_server_verifies_its_own_tokens_in_the_same_process(
    remembered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_server.auth.authorization_server.protocol.token_verifier._KNOWN", remembered)
    async with world() as it:
        reply = await it.tokens()
        token = await it.server.tokens.verify(reply.text("access_token"))
        assert await it.server.tokens.verify(reply.text("access_token")) == token
        assert (token.issuer, token.subject, token.client_id, token.audience) == (it.url, "ada", "app", (RESOURCE,))
        assert token.scopes == set(SCOPES)
        await revoke(it, reply.text("access_token"))
        for text in (reply.text("access_token"), reply.text("refresh_token"), "nonsense"):
            with pytest.raises(InvalidToken):
                await it.server.tokens.verify(text)


# --- manners ---------------------------------------------------------------------------------------------------------

POSTED = ("/token", "/revoke", "/introspect", "/register")
SHOWN = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/jwks", "/authorize")


@pytest.mark.parametrize("path", [*POSTED, *SHOWN])
async def test_other_methods_are_refused_by_name(path: str) -> None:
    async with world() as it:
        allowed = {"POST"} if path in POSTED else {"GET", "HEAD"}
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - allowed:
            reply = await it.request(method, path)
            assert reply.status == 405
            assert allowed <= {each.strip() for each in (reply.header("allow") or "").split(",")}
            assert reply.json == {"error": "invalid_request"}


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/token/", "/token/x", "/TOKEN", "/jwks/../token", "/.well-known/", "/%2e"]
)
async def test_there_is_nothing_elsewhere(path: str) -> None:
    async with world() as it:
        for method in ("GET", "POST"):
            reply = await it.request(method, path)
            assert reply.status == 404
            assert path == "/" or path.encode() not in reply.body


async def test_scripts_of_foreign_pages_may_do_what_any_program_can_and_no_more() -> None:
    async with world() as it:
        origin = ("Origin", "https://evil.example")
        for path in ("/jwks", "/.well-known/oauth-authorization-server", "/token", "/revoke", "/register"):
            reply = await it.request("OPTIONS", path, headers=[origin, ("Access-Control-Request-Method", "POST")])
            assert (reply.status, reply.body) == (204, b"")
            assert reply.header("access-control-allow-origin") == "*"
            assert reply.header("access-control-allow-credentials") is None
        for path in ("/introspect", "/authorize"):
            reply = await it.request("OPTIONS", path, headers=[origin])
            assert (reply.status, reply.header("access-control-allow-origin")) == (405, None)
        refused = await it.post("/token", {}, headers=[origin])
        assert refused.header("access-control-allow-origin") == "*"
        assert (await it.post("/introspect", {}, headers=[origin])).header("access-control-allow-origin") is None


async def test_a_request_for_another_host_is_misdirected() -> None:
    async with world() as it:
        port = it.url.rpartition(":")[2]
        for host in (
            "evil.example",
            f"evil.example:{port}",
            f"localhost:{port}",
            "127.0.0.1",
            f"127.0.0.1:{port}.evil.example",
            f"x@127.0.0.1:{port}",
            f"127.0.0.1:{port}/x",
        ):
            for path in ("/.well-known/oauth-authorization-server", "/authorize", "/nothing"):
                reply = await it.request("GET", path, headers=[("Host", host)])
                assert reply.status in (400, 421), host
        assert (await it.request("GET", "/jwks", headers=[("Host", f"127.0.0.1:{port}")])).status == 200


async def test_a_body_of_another_kind_or_size_is_refused() -> None:
    async with world() as it:
        form = "application/x-www-form-urlencoded"
        for path in ("/token", "/revoke", "/introspect"):
            for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain", ""):
                reply = await it.request("POST", path, headers=[("Content-Type", kind)], body="client_id=app&token=x")
                assert (reply.status, reply.error) == (400, "invalid_request")
            large = await it.request("POST", path, headers=[("Content-Type", form)], body="a=" + "b" * 70_000)
            assert large.status == 413
            many = await it.request(
                "POST", path, headers=[("Content-Type", form)], body="&".join(f"a{n}=1" for n in range(100))
            )
            assert (many.status, many.error) == (400, "invalid_request")
            odd = await it.request(
                "POST", path, headers=[("Content-Type", f"{form}; charset=UTF-8")], body=b"client_id=%ff&token=%00"
            )
            assert odd.status in (400, 401)
        for body in (b"\xff", b"[]", b"", b"{", b'"x"', b"null"):
            reply = await it.request("POST", "/register", headers=[("Content-Type", "application/json")], body=body)
            assert (reply.status, reply.error) == (400, "invalid_client_metadata")
        reply = await it.request("POST", "/register", headers=[("Content-Type", form)], body="{}")
        assert reply.status == 400
        large = await it.request(
            "POST",
            "/register",
            headers=[("Content-Type", "application/json")],
            body=json.dumps({"client_name": "x" * 70_000}),
        )
        assert large.status == 413


async def test_all_answers_forbid_to_be_framed_sniffed_and_referred_to() -> None:
    async with world() as it:
        replies = [await it.get(path) for path in (*SHOWN, "/nothing")] + [await it.post(path, {}) for path in POSTED]
        replies += [await it.authorize(), await it.authorize(scope="unknown"), await it.tokens()]
        for reply in replies:
            assert reply.header("x-content-type-options") == "nosniff"
            assert "frame-ancestors 'none'" in (reply.header("content-security-policy") or "")
            assert reply.header("referrer-policy") in ("no-referrer", "same-origin")
            assert reply.header("server") is None
            assert reply.header("set-cookie") is None


async def test_what_breaks_inside_is_logged_and_not_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the inside")

    monkeypatch.setattr("mcp_server.auth.authorization_server.protocol.endpoints.public_keys", broken)
    async with world() as it:
        reply = await it.get("/jwks")
        assert (reply.status, reply.json) == (500, {"error": "server_error"})
        assert [record.message for record in caplog.records if record.name == "mcp_server"] == [
            "authorization server failed: path=/jwks"
        ]
        monkeypatch.setattr("mcp_server.auth.authorization_server.protocol.authorization.Requests.get", broken)
        page = await it.get("/interaction/x")
        assert page.status == 500
        assert b"the inside" not in page.body


async def test_no_secret_is_shown_by_a_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [
        repr(Client.configured("worker", secret=SECRET)),
        repr(RegistrationPolicy(dynamic=DynamicRegistration.TOKEN, initial_token=SECRET)),
    ]
    assert all(SECRET not in each for each in shown)


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.https-endpoints", "auth.communication-security")
@pytest.mark.spec("auth.as-https")
@pytest.mark.parametrize(
    "issuer", ["http://as.example", "https://as.example?x", "https://as.example#x", "as.example", "ftp://x"]
)
def test_an_issuer_has_to_be_https_or_here(issuer: str) -> None:
    with pytest.raises(ValueError, match="issuer"):
        AuthorizationServer(issuer, users=Nobody(), resources=[RESOURCE])


def test_settings_that_cannot_be_meant_are_refused_by_name() -> None:
    def make(**changes: object) -> AuthorizationServer:
        given = {"users": Nobody(), "resources": [RESOURCE], **changes}
        return AuthorizationServer("https://as.example", **given)  # type: ignore[arg-type]  # wrong ones are tried

    with pytest.raises(TypeError, match="resources"):
        make(resources=RESOURCE)
    for resources in ([], ["x"], [f"{RESOURCE}#x"]):
        with pytest.raises(ValueError, match="resource"):
            make(resources=resources)
    with pytest.raises(ValueError, match="scope 'a b'"):
        make(scopes={"a b": "Two"})
    with pytest.raises(ValueError, match="two clients have the client_id 'app'"):
        make(clients=[Client.configured("app", redirect_uris=[WEB])] * 2)
    with pytest.raises(ValueError, match="initial_token"):
        RegistrationPolicy(initial_token="x")
    with pytest.raises(ValueError, match="initial_token"):
        RegistrationPolicy(dynamic=DynamicRegistration.TOKEN)
    with pytest.raises(ValueError, match="a secret and keys"):
        Client.configured("x", secret="s", jwks={"keys": []})
    with pytest.raises(ValueError, match="unknown grant types: implicit"):
        Client.configured("x", grant_types=["implicit"])
    with pytest.raises(ValueError, match="no secret and no keys"):
        Client.configured("x", grant_types=["client_credentials"])


def test_the_default_is_https_with_everything_in_memory() -> None:
    server = AuthorizationServer("https://as.example/", users=Nobody(), resources=[RESOURCE])
    assert (server.prefix, server.secure) == ("", True)
    assert repr(server) == "<AuthorizationServer https://as.example/>"


# --- beside another application --------------------------------------------------------------------------------------


@pytest.mark.spec("auth.metadata-at-root")
async def test_it_takes_its_own_paths_beside_another_application() -> None:
    server = AuthorizationServer("https://as.example/auth", users=Nobody(), resources=[RESOURCE])
    mine = (
        "/auth/token",
        "/auth/authorize",
        "/auth/interaction/x",
        "/auth/interaction/x/login",
        "/.well-known/oauth-authorization-server/auth",
        "/auth/.well-known/openid-configuration",
        "/auth/logout",
    )
    assert [path for path in mine if not server.takes(path)] == []
    for path in (
        "/mcp",
        "/token",
        "/auth",
        "/auth/",
        "/auth/mcp",
        "/auth/tokens",
        "/authorize",
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource/mcp",
    ):
        assert not server.takes(path)
    seen: list[object] = []

    async def other(scope: object, receive: object, send: object) -> None:
        seen.append(scope)

    async def nothing(*_: object) -> dict[str, object]:
        return {"type": "http.disconnect"}

    app = server.combine(other)
    scopes = [{"type": "http", "path": "/mcp"}, {"type": "lifespan"}]
    for scope in scopes:
        await app(scope, nothing, nothing)  # type: ignore[arg-type]  # a narrower one
    assert seen == scopes


async def test_it_serves_alone_until_it_is_cancelled() -> None:
    server = AuthorizationServer("http://127.0.0.1:9", users=Nobody(), resources=[RESOURCE])
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, "127.0.0.1:0")
        nursery.cancel_scope.cancel()
    await server.store.aclose()


# --- the store -------------------------------------------------------------------------------------------------------


async def test_all_is_there_after_a_restart_and_nothing_that_authorizes_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "as.sqlite"
    async with world(store=SqliteStore(path)) as it:
        document: JsonObject = {
            "redirect_uris": [WEB],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "client_secret_post",
        }
        registered = await it.register(document)
        client, secret = registered.text("client_id"), registered.text("client_secret")
        id, code = await it.pending(client_id=client), await it.code(client_id=client)
        first = await it.redeem(await it.code(client_id=client), client_id=client, client_secret=secret)
        assert first.status == 200
        secrets = [id, code, secret, first.text("access_token"), first.text("refresh_token")]
        with open(path, "rb") as file, open(f"{path}-wal", "rb") as log:
            kept = file.read() + log.read()
        assert client.encode() in kept
        assert all(each.encode() not in kept for each in secrets)
        assert os.stat(path).st_mode & 0o777 == 0o600
    async with world(store=SqliteStore(path)) as it:
        assert (await it.agree(id)).keys() == {"code", "state", "iss"}
        again = await it.refresh(first.text("refresh_token"), client_id=client, client_secret=secret)
        assert again.status == 200
        assert key_of(again.text("access_token")) == key_of(first.text("access_token"))
