"""Endpoints of the authorization server: metadata, keys, revocation, introspection, and invalid requests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import trio
from authorization_testbed import OTHER, RESOURCE, SCOPES, SECRET, WEB, AuthorizationTestbed, NoUsers, open_testbed
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
async def test_metadata_describe_server() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.get("/.well-known/oauth-authorization-server")
        assert reply.status == 200
        assert reply.header("content-type") == "application/json"
        found = read_authorization_server(reply.json)
        assert not found.notes
        assert found.issuer == testbed.url
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
        assert (await testbed.get("/.well-known/openid-configuration")).body == reply.body
        for endpoint in (
            found.token_endpoint,
            found.revocation_endpoint,
            found.introspection_endpoint,
            found.registration_endpoint,
        ):
            assert endpoint is not None
            assert (await testbed.request("POST", endpoint.removeprefix(testbed.url))).status in (400, 401)


async def test_metadata_of_issuer_with_path_at_three_urls() -> None:
    async with open_testbed(path="/tenant") as testbed:
        well_known_paths = (
            "/.well-known/oauth-authorization-server/tenant",
            "/.well-known/openid-configuration/tenant",
            "/tenant/.well-known/openid-configuration",
        )
        for well_known in well_known_paths:
            assert (await testbed.get(well_known)).text("issuer") == testbed.url
        assert (await testbed.get("/.well-known/oauth-authorization-server")).status == 404
        assert (await testbed.get(well_known_paths[0])).text("token_endpoint") == f"{testbed.url}/token"
        assert (await testbed.tokens()).status == 200


async def test_metadata_omit_disabled_registration() -> None:
    async with open_testbed(
        policy=RegistrationPolicy(dynamic=DynamicRegistration.OFF, metadata_documents=False)
    ) as testbed:
        document = (await testbed.get("/.well-known/oauth-authorization-server")).json
        assert "registration_endpoint" not in document
        assert "client_id_metadata_document_supported" not in document
        assert (await testbed.register({"redirect_uris": [WEB]})).status == 404


# --- keys ------------------------------------------------------------------------------------------------------------


def key_of(token: str) -> str | None:
    return read_signed_jwt(token, algorithms=["ES256"]).key_id


async def published_keys(testbed: AuthorizationTestbed) -> list[object]:
    keys = (await testbed.get("/jwks")).json["keys"]
    assert isinstance(keys, list)
    assert all(isinstance(key, dict) and set(key) == {"kty", "crv", "x", "y", "kid", "use", "alg"} for key in keys)
    return [key["kid"] for key in keys if isinstance(key, dict)]


async def test_signing_key_rotated_and_published_until_last_token_expires() -> None:
    async with open_testbed(lifetimes=Lifetimes(signing_key=1000, access=100)) as testbed:
        first = (await testbed.tokens()).text("access_token")
        assert await published_keys(testbed) == [key_of(first)]
        testbed.clock.now += 999
        last = (await testbed.tokens()).text("access_token")
        assert key_of(last) == key_of(first)
        testbed.clock.now += 1
        second = (await testbed.tokens()).text("access_token")
        assert key_of(second) != key_of(first)
        assert await published_keys(testbed) == [key_of(second), key_of(first)]
        assert await testbed.is_active(last)
        testbed.clock.now += 100 + 3600
        third = (await testbed.tokens()).text("access_token")
        assert await published_keys(testbed) == [key_of(third), key_of(second)]
        testbed.clock.now += 10_000
        assert len(await published_keys(testbed)) == 1


# --- revocation ------------------------------------------------------------------------------------------------------


async def revoke(testbed: AuthorizationTestbed, token: str, **form: str) -> int:
    return (await testbed.post("/revoke", {"token": token, "client_id": "app", **form})).status


async def test_revoked_access_token_leaves_other_tokens_active() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.tokens()
        other = await testbed.refresh(reply.text("refresh_token"))
        assert await revoke(testbed, reply.text("access_token"), token_type_hint="refresh_token") == 200
        assert not await testbed.is_active(reply.text("access_token"))
        assert await testbed.is_active(other.text("access_token"))
        assert (await testbed.refresh(other.text("refresh_token"))).status == 200


async def test_revoked_refresh_token_ends_grant() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.tokens()
        assert await revoke(testbed, reply.text("refresh_token"), token_type_hint="unknown") == 200
        assert not await testbed.is_active(reply.text("access_token"))
        assert (await testbed.refresh(reply.text("refresh_token"))).error == "invalid_grant"


async def test_revocation_of_unknown_token_returns_200() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.tokens()
        for _ in range(2):
            assert await revoke(testbed, reply.text("refresh_token")) == 200
        for token in ("unknown", "a.b.c", "\xff"):
            assert await revoke(testbed, token) == 200
        assert (await testbed.post("/revoke", {"client_id": "app"})).error == "invalid_request"


async def test_revocation_of_tokens_of_other_client_rejected() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.tokens()
        for token in (reply.text("access_token"), reply.text("refresh_token")):
            assert await revoke(testbed, token, client_id="local") == 400
            assert await revoke(testbed, token, client_id="secret") == 401
        assert await testbed.is_active(reply.text("access_token"))
        assert (await testbed.refresh(reply.text("refresh_token"))).status == 200


# --- introspection ---------------------------------------------------------------------------------------------------


async def test_introspection_by_resource_server_returns_claims() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.tokens()
        introspection = await testbed.introspect(reply.text("access_token"))
        assert introspection["active"] is True
        assert (introspection["sub"], introspection["client_id"], introspection["aud"], introspection["iss"]) == (
            "ada",
            "app",
            RESOURCE,
            testbed.url,
        )
        assert (introspection["scope"], introspection["token_type"]) == ("notes:read notes:write", "Bearer")
        testbed.clock.now += 600
        assert await testbed.introspect(reply.text("access_token")) == {"active": False}


async def test_introspection_limited_to_own_clients_and_resources() -> None:
    clients = [
        Client.configured("app", redirect_uris=[WEB], secret=SECRET),
        Client.configured("server", secret=SECRET, introspects=[RESOURCE]),
        Client.configured("other", secret=SECRET, introspects=[OTHER]),
    ]
    async with open_testbed(clients=clients, resources=[RESOURCE, OTHER]) as testbed:
        reply = await testbed.redeem(await testbed.code(), client_secret=SECRET)
        active_tokens: dict[tuple[str, str], object] = {}
        for client in ("app", "server", "other"):
            for token in ("access_token", "refresh_token"):
                form = {"token": reply.text(token), "client_id": client, "client_secret": SECRET}
                active_tokens[client, token] = (await testbed.post("/introspect", form)).json["active"]
        assert active_tokens == {
            ("app", "access_token"): True, ("app", "refresh_token"): True,
            ("server", "access_token"): True, ("server", "refresh_token"): False,
            ("other", "access_token"): False, ("other", "refresh_token"): False,
        }  # fmt: skip
        form = {"token": reply.text("refresh_token"), "client_id": "app", "client_secret": SECRET}
        introspection = (await testbed.post("/introspect", form)).json
        assert introspection == {
            "active": True,
            "client_id": "app",
            "sub": "ada",
            "scope": "notes:read notes:write",
            "token_type": "refresh_token",
        }


async def test_introspection_by_public_client_returns_401() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.tokens()
        refused = await testbed.post("/introspect", {"token": reply.text("access_token"), "client_id": "app"})
        assert (refused.status, refused.error) == (401, "invalid_client")
        form = {"client_id": "server", "client_secret": SECRET}
        assert (await testbed.post("/introspect", form)).error == "invalid_request"


async def test_introspection_of_forged_token_is_inactive() -> None:
    async with open_testbed() as testbed:
        token = (await testbed.tokens()).text("access_token")
        signed = read_signed_jwt(token, algorithms=["ES256"])
        forged = ECKey.generate_key("P-256")
        for header in ({"kid": signed.key_id}, {"kid": "another"}, {}):
            text = jwt.encode({"alg": "ES256", "typ": "at+jwt", **header}, dict(signed.claims), forged)
            assert not await testbed.is_active(text)
        row: list[str] = await testbed.server.store.run(
            lambda store: store.execute("SELECT jwk FROM signing_keys").fetchone()
        )
        own_key = ECKey.import_key(json.loads(row[0]))
        for kind, active in (("JWT", False), ("at+jwt", True)):
            header = {"alg": "ES256", "typ": kind, "kid": signed.key_id}
            assert await testbed.is_active(jwt.encode(header, dict(signed.claims), own_key)) == active
        head, _, tail = token.rpartition(".")
        assert not await testbed.is_active(f"{head}.{tail[::-1]}")
        assert not await testbed.is_active("a.b.c")


@pytest.mark.parametrize("cache_size", [10, 0])
async def test_token_verifier_of_server_in_same_process(cache_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_server.auth.authorization_server.protocol.token_verifier._KNOWN", cache_size)
    async with open_testbed() as testbed:
        reply = await testbed.tokens()
        token = await testbed.server.tokens.verify(reply.text("access_token"))
        assert await testbed.server.tokens.verify(reply.text("access_token")) == token
        assert (token.issuer, token.subject, token.client_id, token.audience) == (
            testbed.url,
            "ada",
            "app",
            (RESOURCE,),
        )
        assert token.scopes == set(SCOPES)
        await revoke(testbed, reply.text("access_token"))
        for text in (reply.text("access_token"), reply.text("refresh_token"), "nonsense"):
            with pytest.raises(InvalidToken):
                await testbed.server.tokens.verify(text)


# --- HTTP -------------------------------------------------------------------------------------------------------------

POSTED = ("/token", "/revoke", "/introspect", "/register")
SHOWN = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/jwks", "/authorize")


@pytest.mark.parametrize("path", [*POSTED, *SHOWN])
async def test_unsupported_method_returns_405(path: str) -> None:
    async with open_testbed() as testbed:
        allowed = {"POST"} if path in POSTED else {"GET", "HEAD"}
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - allowed:
            reply = await testbed.request(method, path)
            assert reply.status == 405
            assert allowed <= {each.strip() for each in (reply.header("allow") or "").split(",")}
            assert reply.json == {"error": "invalid_request"}


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/token/", "/token/x", "/TOKEN", "/jwks/../token", "/.well-known/", "/%2e"]
)
async def test_unknown_path_returns_404(path: str) -> None:
    async with open_testbed() as testbed:
        for method in ("GET", "POST"):
            reply = await testbed.request(method, path)
            assert reply.status == 404
            assert path == "/" or path.encode() not in reply.body


async def test_cors_only_for_public_endpoints() -> None:
    async with open_testbed() as testbed:
        origin = ("Origin", "https://evil.example")
        for path in ("/jwks", "/.well-known/oauth-authorization-server", "/token", "/revoke", "/register"):
            reply = await testbed.request("OPTIONS", path, headers=[origin, ("Access-Control-Request-Method", "POST")])
            assert (reply.status, reply.body) == (204, b"")
            assert reply.header("access-control-allow-origin") == "*"
            assert reply.header("access-control-allow-credentials") is None
        for path in ("/introspect", "/authorize"):
            reply = await testbed.request("OPTIONS", path, headers=[origin])
            assert (reply.status, reply.header("access-control-allow-origin")) == (405, None)
        refused = await testbed.post("/token", {}, headers=[origin])
        assert refused.header("access-control-allow-origin") == "*"
        assert (await testbed.post("/introspect", {}, headers=[origin])).header("access-control-allow-origin") is None


async def test_foreign_host_returns_421() -> None:
    async with open_testbed() as testbed:
        port = testbed.url.rpartition(":")[2]
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
                reply = await testbed.request("GET", path, headers=[("Host", host)])
                assert reply.status in (400, 421), host
        assert (await testbed.request("GET", "/jwks", headers=[("Host", f"127.0.0.1:{port}")])).status == 200


async def test_unsupported_or_large_body_rejected() -> None:
    async with open_testbed() as testbed:
        form = "application/x-www-form-urlencoded"
        for path in ("/token", "/revoke", "/introspect"):
            for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain", ""):
                reply = await testbed.request(
                    "POST", path, headers=[("Content-Type", kind)], body="client_id=app&token=x"
                )
                assert (reply.status, reply.error) == (400, "invalid_request")
            large = await testbed.request("POST", path, headers=[("Content-Type", form)], body="a=" + "b" * 70_000)
            assert large.status == 413
            many = await testbed.request(
                "POST", path, headers=[("Content-Type", form)], body="&".join(f"a{n}=1" for n in range(100))
            )
            assert (many.status, many.error) == (400, "invalid_request")
            odd = await testbed.request(
                "POST", path, headers=[("Content-Type", f"{form}; charset=UTF-8")], body=b"client_id=%ff&token=%00"
            )
            assert odd.status in (400, 401)
        for body in (b"\xff", b"[]", b"", b"{", b'"x"', b"null"):
            reply = await testbed.request(
                "POST", "/register", headers=[("Content-Type", "application/json")], body=body
            )
            assert (reply.status, reply.error) == (400, "invalid_client_metadata")
        reply = await testbed.request("POST", "/register", headers=[("Content-Type", form)], body="{}")
        assert reply.status == 400
        large = await testbed.request(
            "POST",
            "/register",
            headers=[("Content-Type", "application/json")],
            body=json.dumps({"client_name": "x" * 70_000}),
        )
        assert large.status == 413


async def test_security_headers_on_every_response() -> None:
    async with open_testbed() as testbed:
        replies = [await testbed.get(path) for path in (*SHOWN, "/nothing")] + [
            await testbed.post(path, {}) for path in POSTED
        ]
        replies += [await testbed.authorize(), await testbed.authorize(scope="unknown"), await testbed.tokens()]
        for reply in replies:
            assert reply.header("x-content-type-options") == "nosniff"
            assert "frame-ancestors 'none'" in (reply.header("content-security-policy") or "")
            assert reply.header("referrer-policy") in ("no-referrer", "same-origin")
            assert reply.header("server") is None
            assert reply.header("set-cookie") is None


async def test_internal_failure_logged_and_returned_as_server_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("an internal detail")

    monkeypatch.setattr("mcp_server.auth.authorization_server.protocol.endpoints.public_keys", broken)
    async with open_testbed() as testbed:
        reply = await testbed.get("/jwks")
        assert (reply.status, reply.json) == (500, {"error": "server_error"})
        assert [record.message for record in caplog.records if record.name == "mcp_server"] == [
            "authorization server failed: path=/jwks"
        ]
        monkeypatch.setattr("mcp_server.auth.authorization_server.protocol.authorization.Requests.get", broken)
        page = await testbed.get("/interaction/x")
        assert page.status == 500
        assert b"an internal detail" not in page.body


async def test_repr_of_client_and_policy_hides_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_issuer_without_https_raises(issuer: str) -> None:
    with pytest.raises(ValueError, match="issuer"):
        AuthorizationServer(issuer, users=NoUsers(), resources=[RESOURCE])


def test_invalid_settings_raise() -> None:
    def make(**changes: object) -> AuthorizationServer:
        given = {"users": NoUsers(), "resources": [RESOURCE], **changes}
        return AuthorizationServer("https://as.example", **given)  # type: ignore[arg-type]  # invalid values

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


def test_default_settings_use_https_and_memory_store() -> None:
    server = AuthorizationServer("https://as.example/", users=NoUsers(), resources=[RESOURCE])
    assert (server.prefix, server.secure) == ("", True)
    assert repr(server) == "<AuthorizationServer https://as.example/>"


# --- beside another application ---------------------------------------------------------------------------------------


@pytest.mark.spec("auth.metadata-at-root")
async def test_companion_application_takes_its_own_paths_only() -> None:
    server = AuthorizationServer("https://as.example/auth", users=NoUsers(), resources=[RESOURCE])
    own_paths = (
        "/auth/token",
        "/auth/authorize",
        "/auth/interaction/x",
        "/auth/interaction/x/login",
        "/.well-known/oauth-authorization-server/auth",
        "/auth/.well-known/openid-configuration",
        "/auth/logout",
    )
    assert [path for path in own_paths if not server.takes(path)] == []
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
    scopes_of_other: list[object] = []

    async def other(scope: object, receive: object, send: object) -> None:
        scopes_of_other.append(scope)

    async def nothing(*_: object) -> dict[str, object]:
        return {"type": "http.disconnect"}

    app = server.combine(other)
    scopes = [{"type": "http", "path": "/mcp"}, {"type": "lifespan"}]
    for scope in scopes:
        await app(scope, nothing, nothing)  # type: ignore[arg-type]  # narrower types
    assert scopes_of_other == scopes


async def test_server_runs_alone_until_cancelled() -> None:
    server = AuthorizationServer("http://127.0.0.1:9", users=NoUsers(), resources=[RESOURCE])
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, "127.0.0.1:0")
        nursery.cancel_scope.cancel()
    await server.store.aclose()


# --- the store -------------------------------------------------------------------------------------------------------


async def test_restart_keeps_state_and_stores_no_secrets(tmp_path: Path) -> None:
    path = tmp_path / "as.sqlite"
    async with open_testbed(store=SqliteStore(path)) as testbed:
        document: JsonObject = {
            "redirect_uris": [WEB],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "client_secret_post",
        }
        registered = await testbed.register(document)
        client, secret = registered.text("client_id"), registered.text("client_secret")
        id, code = await testbed.pending(client_id=client), await testbed.code(client_id=client)
        first = await testbed.redeem(await testbed.code(client_id=client), client_id=client, client_secret=secret)
        assert first.status == 200
        secrets = [id, code, secret, first.text("access_token"), first.text("refresh_token")]
        with open(path, "rb") as file, open(f"{path}-wal", "rb") as log:
            kept = file.read() + log.read()
        assert client.encode() in kept
        assert all(each.encode() not in kept for each in secrets)
        assert os.stat(path).st_mode & 0o777 == 0o600
    async with open_testbed(store=SqliteStore(path)) as testbed:
        assert (await testbed.agree(id)).keys() == {"code", "state", "iss"}
        again = await testbed.refresh(first.text("refresh_token"), client_id=client, client_secret=secret)
        assert again.status == 200
        assert key_of(again.text("access_token")) == key_of(first.text("access_token"))
