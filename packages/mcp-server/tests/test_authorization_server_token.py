"""The token endpoint: codes, refresh tokens, DPoP and client authentication."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest
from authorization_testbed import (
    LOOPBACK,
    OTHER,
    RESOURCE,
    SECRET,
    VERIFIER,
    WEB,
    AuthorizationTestbed,
    Key,
    Reply,
    open_testbed,
)
from joserfc import jwt
from joserfc.jwk import KeySet

from mcp_core.jsonrpc.messages import JsonObject
from mcp_server.auth.authorization_server import Client, Lifetimes


async def claims_of(testbed: AuthorizationTestbed, token: str) -> JsonObject:
    """Return the claims of an access token, verified with the published keys."""
    keys = KeySet.import_key_set((await testbed.get(f"{testbed.server.prefix}/jwks")).json)  # type: ignore[arg-type]  # JSON
    decoded = jwt.decode(token, keys, algorithms=["ES256"])
    assert decoded.header["typ"] == "at+jwt"
    claims: JsonObject = decoded.claims
    return claims


def is_rejected(reply: Reply, error: str, status: int = 400) -> bool:
    assert reply.header("cache-control") == "no-store"
    assert reply.header("pragma") == "no-cache"
    assert reply.header("content-type") == "application/json"
    assert set(reply.json) == {"error", "error_description"}
    return (reply.status, reply.error) == (status, error)


# --- codes -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.as-short-lived", "auth.short-lived-tokens", "auth.as-own-resources")
async def test_code_redeemed_for_short_lived_token_of_resource() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.tokens()
        assert reply.header("cache-control") == "no-store"
        assert reply.json.keys() == {"access_token", "token_type", "expires_in", "scope", "refresh_token"}
        assert (reply.json["token_type"], reply.json["expires_in"]) == ("Bearer", 600)
        claims = await claims_of(testbed, reply.text("access_token"))
        now = int(testbed.clock())
        id = claims.pop("jti")
        assert isinstance(id, str)
        assert len(id) >= 22
        assert claims == {
            "iss": testbed.url, "sub": "ada", "aud": RESOURCE, "client_id": "app", "iat": now, "exp": now + 600,
            "scope": "notes:read notes:write", "auth_time": now - 5,
        }  # fmt: skip


async def test_client_without_refresh_grant_gets_no_refresh_token() -> None:
    async with open_testbed(
        clients=[Client.configured("app", redirect_uris=[WEB], grant_types=["authorization_code"])]
    ) as testbed:
        assert "refresh_token" not in (await testbed.tokens()).json


async def test_code_used_twice_revokes_its_tokens() -> None:
    async with open_testbed() as testbed:
        code = await testbed.code()
        first = await testbed.redeem(code)
        assert await testbed.is_active(first.text("access_token"))
        assert is_rejected(await testbed.redeem(code), "invalid_grant")
        assert not await testbed.is_active(first.text("access_token"))
        assert is_rejected(await testbed.refresh(first.text("refresh_token")), "invalid_grant")


async def test_code_used_by_other_client_is_rejected_and_stays_valid() -> None:
    async with open_testbed() as testbed:
        code = await testbed.code()
        assert is_rejected(await testbed.redeem(code, client_id="local"), "invalid_grant")
        first = await testbed.redeem(code)
        assert first.status == 200
        assert is_rejected(await testbed.redeem(code, client_id="local"), "invalid_grant")
        assert await testbed.is_active(first.text("access_token"))


async def test_code_expires_after_one_minute() -> None:
    async with open_testbed() as testbed:
        early, late = await testbed.code(), await testbed.code()
        testbed.clock.now += 59
        assert (await testbed.redeem(early)).status == 200
        testbed.clock.now += 1
        assert is_rejected(await testbed.redeem(late), "invalid_grant")


WRONG: list[tuple[Mapping[str, str | None], str]] = [
    ({"code_verifier": None}, "invalid_request"),
    ({"code_verifier": "w" * 43}, "invalid_grant"),
    ({"code_verifier": "v" * 42}, "invalid_request"),
    ({"code_verifier": "v" * 44}, "invalid_grant"),
    ({"code_verifier": "ä" * 43}, "invalid_request"),
    ({"redirect_uri": None}, "invalid_grant"),
    ({"redirect_uri": f"{WEB}/"}, "invalid_grant"),
    ({"redirect_uri": LOOPBACK}, "invalid_grant"),
    ({"resource": OTHER}, "invalid_target"),
    ({"resource": f"{RESOURCE}/x"}, "invalid_target"),
    ({"code": None}, "invalid_request"),
    ({"code": "unknown"}, "invalid_grant"),
    ({"code": "\x00\xff"}, "invalid_grant"),
    ({"grant_type": None}, "unsupported_grant_type"),
    ({"grant_type": "password"}, "unsupported_grant_type"),
    ({"grant_type": 'a"\\ä'}, "unsupported_grant_type"),
    ({"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange"}, "unsupported_grant_type"),
    ({"grant_type": "client_credentials"}, "invalid_client"),
]


@pytest.mark.spec("auth.as-oauth21")
@pytest.mark.parametrize(("changes", "error"), WRONG)
async def test_invalid_token_request_leaves_code_valid(changes: Mapping[str, str | None], error: str) -> None:
    async with open_testbed() as testbed:
        code = await testbed.code()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": WEB,
            "client_id": "app",
            "code_verifier": VERIFIER,
        }
        reply = await testbed.post("/token", {**form, **changes})
        assert is_rejected(reply, error, 401 if error == "invalid_client" else 400)
        assert (await testbed.redeem(code)).status == 200


async def test_redirect_uri_of_code_compared_exactly() -> None:
    async with open_testbed() as testbed:
        code = await testbed.code(client_id="local", redirect_uri="http://127.0.0.1:5000/callback")
        wrong = await testbed.redeem(code, client_id="local", redirect_uri="http://127.0.0.1:5001/callback")
        assert is_rejected(wrong, "invalid_grant")
        right = await testbed.redeem(code, client_id="local", redirect_uri="http://127.0.0.1:5000/callback")
        assert right.status == 200


async def test_token_request_without_resource_uses_resource_of_code() -> None:
    async with open_testbed(resources=[RESOURCE, OTHER]) as testbed:
        code = await testbed.code(resource=OTHER)
        reply = await testbed.redeem(code, resource=None)
        assert (await claims_of(testbed, reply.text("access_token")))["aud"] == OTHER


async def test_repeated_parameter_rejected() -> None:
    async with open_testbed() as testbed:
        code = await testbed.code()
        form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", WEB),
            ("client_id", "app"),
            ("code_verifier", VERIFIER),
        ]
        for pair in form:
            assert is_rejected(await testbed.post("/token", [*form, pair]), "invalid_request")
        repeated = [*form, ("resource", RESOURCE), ("resource", OTHER)]
        assert is_rejected(await testbed.post("/token", repeated), "invalid_target")
        assert (await testbed.post("/token", form)).status == 200


async def test_confidential_client_requires_pkce() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.authorize(client_id="secret", code_challenge=None, code_challenge_method=None)
        assert reply.query["error"] == "invalid_request"
        code = await testbed.code(client_id="secret")
        given = {"client_id": "secret", "client_secret": SECRET}
        assert is_rejected(await testbed.redeem(code, given, code_verifier=None), "invalid_request")
        assert is_rejected(await testbed.redeem(code, given, code_verifier="w" * 43), "invalid_grant")
        assert (await testbed.redeem(code, given)).status == 200


# --- refresh tokens --------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.as-rotate-refresh", "auth.rotate-refresh-tokens")
async def test_refresh_rotates_refresh_token_and_keeps_scope() -> None:
    async with open_testbed() as testbed:
        first = await testbed.tokens()
        second = await testbed.refresh(first.text("refresh_token"))
        assert second.status == 200
        assert second.text("refresh_token") != first.text("refresh_token")
        assert second.text("access_token") != first.text("access_token")
        assert second.text("scope") == "notes:read notes:write"
        assert (await testbed.refresh(second.text("refresh_token"))).status == 200


async def test_refresh_token_reused_revokes_grant() -> None:
    async with open_testbed() as testbed:
        first = await testbed.tokens()
        second = await testbed.refresh(first.text("refresh_token"))
        third = await testbed.refresh(second.text("refresh_token"))
        assert is_rejected(await testbed.refresh(first.text("refresh_token")), "invalid_grant")
        assert is_rejected(await testbed.refresh(third.text("refresh_token")), "invalid_grant")
        for reply in (first, second, third):
            assert not await testbed.is_active(reply.text("access_token"))


async def test_revoked_grant_leaves_other_grants_valid() -> None:
    async with open_testbed() as testbed:
        one, other = await testbed.tokens(), await testbed.tokens()
        await testbed.refresh(one.text("refresh_token"))
        await testbed.refresh(one.text("refresh_token"))
        assert await testbed.is_active(other.text("access_token"))
        assert (await testbed.refresh(other.text("refresh_token"))).status == 200


async def test_refresh_token_of_other_client_rejected_and_grant_kept() -> None:
    async with open_testbed() as testbed:
        first = await testbed.tokens()
        second = await testbed.refresh(first.text("refresh_token"))
        for token in (first, second):
            assert is_rejected(await testbed.refresh(token.text("refresh_token"), client_id="local"), "invalid_grant")
        assert (await testbed.refresh(second.text("refresh_token"))).status == 200


async def test_refresh_can_narrow_but_not_widen_scope() -> None:
    async with open_testbed() as testbed:
        first = await testbed.redeem(await testbed.code(scopes=("notes:read",)))
        wide = await testbed.refresh(first.text("refresh_token"), scope="notes:read notes:write")
        assert is_rejected(wide, "invalid_scope")
        both = await testbed.tokens()
        narrow = await testbed.refresh(both.text("refresh_token"), scope="notes:read")
        assert narrow.text("scope") == "notes:read"
        assert (await claims_of(testbed, narrow.text("access_token")))["scope"] == "notes:read"
        assert (await testbed.refresh(narrow.text("refresh_token"))).text("scope") == "notes:read notes:write"


async def test_refresh_for_other_resource_rejected() -> None:
    async with open_testbed(resources=[RESOURCE, OTHER]) as testbed:
        first = await testbed.tokens()
        assert is_rejected(await testbed.refresh(first.text("refresh_token"), resource=OTHER), "invalid_target")
        second = await testbed.refresh(first.text("refresh_token"), resource=RESOURCE)
        assert (await claims_of(testbed, second.text("access_token")))["aud"] == RESOURCE


async def test_unused_refresh_token_expires() -> None:
    async with open_testbed(lifetimes=Lifetimes(refresh=1000)) as testbed:
        used, unused = await testbed.tokens(), await testbed.tokens()
        testbed.clock.now += 999
        second = await testbed.refresh(used.text("refresh_token"))
        assert second.status == 200
        testbed.clock.now += 1
        assert is_rejected(await testbed.refresh(unused.text("refresh_token")), "invalid_grant")
        testbed.clock.now += 998
        assert (await testbed.refresh(second.text("refresh_token"))).status == 200


async def test_refresh_without_grant_type_or_token_rejected() -> None:
    async with open_testbed(
        clients=[Client.configured("app", redirect_uris=[WEB], grant_types=["authorization_code"])]
    ) as testbed:
        assert is_rejected(await testbed.refresh("any"), "unauthorized_client")
    async with open_testbed() as testbed:
        assert is_rejected(
            await testbed.post("/token", {"grant_type": "refresh_token", "client_id": "app"}), "invalid_request"
        )


# --- client credentials -----------------------------------------------------------------------------------------------


async def test_client_credentials_grant_issues_token() -> None:
    async with open_testbed() as testbed:
        form = {
            "grant_type": "client_credentials",
            "client_id": "worker",
            "client_secret": SECRET,
            "resource": RESOURCE,
        }
        reply = await testbed.post("/token", form)
        assert reply.status == 200
        assert "refresh_token" not in reply.json
        claims = await claims_of(testbed, reply.text("access_token"))
        assert (claims["sub"], claims["client_id"], claims["scope"], claims["aud"]) == (
            "worker",
            "worker",
            "notes:read",
            RESOURCE,
        )
        assert "auth_time" not in claims
        assert (await testbed.post("/token", {**form, "scope": "notes:read"})).text("scope") == "notes:read"
        for scope in ("notes:write", "unknown"):
            assert is_rejected(await testbed.post("/token", {**form, "scope": scope}), "invalid_scope")
        assert is_rejected(await testbed.post("/token", {**form, "resource": OTHER}), "invalid_target")


async def test_client_credentials_without_configured_scopes_get_all_scopes() -> None:
    async with open_testbed(clients=[Client.configured("worker", secret=SECRET)]) as testbed:
        form = {"grant_type": "client_credentials", "client_id": "worker", "client_secret": SECRET}
        assert (await testbed.post("/token", form)).text("scope") == "notes:read notes:write"


async def test_client_credentials_require_grant_type() -> None:
    async with open_testbed() as testbed:
        form = {"grant_type": "client_credentials", "client_id": "secret", "client_secret": SECRET}
        assert is_rejected(await testbed.post("/token", form), "unauthorized_client")
        assert is_rejected(
            await testbed.post("/token", {"grant_type": "client_credentials", "client_id": "app"}),
            "invalid_client",
            401,
        )


# --- DPoP ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("dpop.as-token-binding")
async def test_dpop_proof_binds_token_to_key() -> None:
    async with open_testbed() as testbed:
        dpop = Key().dpop()
        proof = dpop.headers("POST", f"{testbed.url}/token", now=testbed.clock())
        reply = await testbed.redeem(await testbed.code(), headers=proof)
        assert reply.json["token_type"] == "DPoP"
        assert (await claims_of(testbed, reply.text("access_token")))["cnf"] == {"jkt": dpop.key_id}
        assert (await testbed.introspect(reply.text("access_token")))["token_type"] == "DPoP"


async def test_dpop_binds_refresh_token_of_public_client() -> None:
    async with open_testbed() as testbed:
        own, foreign = Key().dpop(), Key().dpop()
        url = f"{testbed.url}/token"
        first = await testbed.redeem(await testbed.code(), headers=own.headers("POST", url, now=testbed.clock()))
        token = first.text("refresh_token")
        assert is_rejected(await testbed.refresh(token), "invalid_dpop_proof")
        assert is_rejected(
            await testbed.refresh(token, headers=foreign.headers("POST", url, now=testbed.clock())),
            "invalid_dpop_proof",
        )
        second = await testbed.refresh(token, headers=own.headers("POST", url, now=testbed.clock()))
        assert second.json["token_type"] == "DPoP"
        assert is_rejected(await testbed.refresh(second.text("refresh_token")), "invalid_dpop_proof")


async def test_confidential_client_may_change_dpop_key() -> None:
    async with open_testbed() as testbed:
        url = f"{testbed.url}/token"
        given = {"client_id": "secret", "client_secret": SECRET}
        first = await testbed.redeem(
            await testbed.code(client_id="secret"),
            given,
            headers=Key().dpop().headers("POST", url, now=testbed.clock()),
        )
        later = Key().dpop()
        second = await testbed.refresh(
            first.text("refresh_token"), given, headers=later.headers("POST", url, now=testbed.clock())
        )
        assert (await claims_of(testbed, second.text("access_token")))["cnf"] == {"jkt": later.key_id}


async def test_code_bound_to_key_requires_proof() -> None:
    async with open_testbed() as testbed:
        url = f"{testbed.url}/token"
        own, foreign = Key().dpop(), Key().dpop()
        code = await testbed.code(dpop_jkt=own.key_id)
        assert is_rejected(await testbed.redeem(code), "invalid_dpop_proof")
        assert is_rejected(
            await testbed.redeem(code, headers=foreign.headers("POST", url, now=testbed.clock())), "invalid_dpop_proof"
        )
        assert (await testbed.redeem(code, headers=own.headers("POST", url, now=testbed.clock()))).status == 200


@pytest.mark.spec("dpop.as-bound-enforced")
async def test_client_registered_for_dpop_requires_proof() -> None:
    async with open_testbed() as testbed:
        code = await testbed.code(client_id="bound")
        assert is_rejected(await testbed.redeem(code, client_id="bound"), "invalid_dpop_proof")
        proof = Key().dpop().headers("POST", f"{testbed.url}/token", now=testbed.clock())
        assert (await testbed.redeem(code, client_id="bound", headers=proof)).status == 200


async def test_invalid_or_reused_dpop_proof_rejected() -> None:
    async with open_testbed() as testbed:
        dpop, url = Key().dpop(), f"{testbed.url}/token"
        first_proof = dpop.headers("POST", url, now=testbed.clock())
        assert (await testbed.redeem(await testbed.code(), headers=first_proof)).status == 200
        for proof in (
            first_proof,
            dpop.headers("GET", url, now=testbed.clock()),
            dpop.headers("POST", f"{testbed.url}/revoke", now=testbed.clock()),
            dpop.headers("POST", "https://other.example/token", now=testbed.clock()),
            dpop.headers("POST", url, now=testbed.clock() - 3600),
            dpop.headers("POST", url, now=testbed.clock() + 3600),
            (*dpop.headers("POST", url, now=testbed.clock()), *dpop.headers("POST", url, now=testbed.clock())),
            (("DPoP", "nonsense"),),
        ):
            assert is_rejected(await testbed.redeem(await testbed.code(), headers=proof), "invalid_dpop_proof")


async def test_dpop_nonce_required_when_configured() -> None:
    async with open_testbed(dpop_nonces=b"k" * 32) as testbed:
        dpop, url, code = Key().dpop(), f"{testbed.url}/token", await testbed.code()
        first = await testbed.redeem(code, headers=dpop.headers("POST", url, now=testbed.clock()))
        assert is_rejected(first, "use_dpop_nonce")
        assert dpop.learn(url, tuple(first.headers))
        assert (await testbed.redeem(code, headers=dpop.headers("POST", url, now=testbed.clock()))).status == 200
        assert (await testbed.tokens()).json["token_type"] == "Bearer"


# --- client authentication -------------------------------------------------------------------------------------------


def basic(client_id: str, secret: str) -> tuple[str, str]:
    return ("Authorization", "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode())


async def test_configured_secret_accepted_in_header_or_form() -> None:
    async with open_testbed() as testbed:
        form = {"grant_type": "client_credentials"}
        assert (
            await testbed.post("/token", form, headers=[basic("worker", "a+secret+that+is+hard+to+guess")])
        ).status == 200
        assert (
            await testbed.post(
                "/token",
                {**form, "client_id": "worker"},
                headers=[basic("worker", "a%20secret%20that%20is%20hard%20to%20guess")],
            )
        ).status == 200
        assert (await testbed.post("/token", {**form, "client_id": "worker", "client_secret": SECRET})).status == 200


@pytest.mark.parametrize(
    ("form", "header", "error"),
    [
        ({"client_id": "worker"}, None, "invalid_client"),
        ({"client_id": "worker", "client_secret": "wrong"}, None, "invalid_client"),
        ({"client_id": "worker", "client_secret": ""}, None, "invalid_client"),
        ({"client_id": "unknown", "client_secret": SECRET}, None, "invalid_client"),
        ({"client_secret": SECRET}, None, "invalid_client"),
        ({}, None, "invalid_client"),
        ({}, basic("worker", "wrong"), "invalid_client"),
        ({}, basic("", SECRET), "invalid_client"),
        ({}, basic("worker", ""), "invalid_client"),
        ({}, ("Authorization", "Basic !"), "invalid_client"),
        ({}, ("Authorization", "Basic " + base64.b64encode(b"\xff:\xff").decode()), "invalid_client"),
        ({}, ("Authorization", "Basic " + base64.b64encode(b"worker").decode()), "invalid_client"),
        ({}, ("Authorization", "Bearer " + SECRET), "invalid_client"),
        ({"client_id": "app"}, basic("worker", SECRET), "invalid_request"),
        ({"client_id": "worker", "client_secret": SECRET}, basic("worker", SECRET), "invalid_request"),
        ({"client_id": "worker", "client_secret": SECRET, "client_assertion": "x"}, None, "invalid_request"),
        ({"client_id": "worker", "client_assertion": "x"}, None, "invalid_request"),
        ({"client_id": "worker", "client_assertion": "x", "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, None, "invalid_client"),
    ],
)  # fmt: skip
async def test_invalid_client_authentication_rejected(
    form: dict[str, str], header: tuple[str, str] | None, error: str
) -> None:
    async with open_testbed() as testbed:
        reply = await testbed.post(
            "/token", {"grant_type": "client_credentials", **form}, headers=[header] if header else []
        )
        assert is_rejected(reply, error, 401 if error == "invalid_client" else 400)
        challenged = (reply.header("www-authenticate") or "").startswith("Basic ")
        assert challenged == (header is not None and error == "invalid_client")


async def test_confidential_client_without_secret_rejected_with_valid_code() -> None:
    async with open_testbed() as testbed:
        code = await testbed.code(client_id="secret")
        assert is_rejected(await testbed.redeem(code, client_id="secret"), "invalid_client", 401)


async def test_repeated_authorization_header_rejected() -> None:
    async with open_testbed() as testbed:
        reply = await testbed.post(
            "/token", {"grant_type": "client_credentials"}, headers=[basic("worker", SECRET)] * 2
        )
        assert reply.status in (400, 401)
        assert reply.error in ("invalid_request", "invalid_client")


async def test_unknown_client_and_wrong_secret_get_same_response() -> None:
    async with open_testbed() as testbed:
        form = {"grant_type": "client_credentials", "client_secret": "wrong"}
        known, unknown = [await testbed.post("/token", {**form, "client_id": each}) for each in ("worker", "unknown")]
        assert (known.status, known.body) == (unknown.status, unknown.body)
