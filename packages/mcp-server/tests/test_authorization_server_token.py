"""The token endpoint: codes, refresh tokens, and what a thief of one of them can do."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest
from authorization_testbed import LOOPBACK, OTHER, RESOURCE, SECRET, VERIFIER, WEB, Key, Reply, World, world
from joserfc import jwt
from joserfc.jwk import KeySet

from mcp_core.jsonrpc.messages import JsonObject
from mcp_server.auth.authorization_server import Client, Lifetimes


async def claims_of(it: World, token: str) -> JsonObject:
    """The claims of an access token, verified with the keys that the server shows."""
    keys = KeySet.import_key_set((await it.get(f"{it.server.prefix}/jwks")).json)  # type: ignore[arg-type]  # JSON
    opened = jwt.decode(token, keys, algorithms=["ES256"])
    assert opened.header["typ"] == "at+jwt"
    claims: JsonObject = opened.claims
    return claims


def is_refused(reply: Reply, error: str, status: int = 400) -> bool:
    assert reply.header("cache-control") == "no-store"
    assert reply.header("pragma") == "no-cache"
    assert reply.header("content-type") == "application/json"
    assert set(reply.json) == {"error", "error_description"}
    return (reply.status, reply.error) == (status, error)


# --- codes -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.as-short-lived", "auth.short-lived-tokens", "auth.as-own-resources")
async def test_a_code_gives_a_short_lived_token_for_exactly_the_resource() -> None:
    async with world() as it:
        reply = await it.tokens()
        assert reply.header("cache-control") == "no-store"
        assert reply.json.keys() == {"access_token", "token_type", "expires_in", "scope", "refresh_token"}
        assert (reply.json["token_type"], reply.json["expires_in"]) == ("Bearer", 600)
        claims = await claims_of(it, reply.text("access_token"))
        now = int(it.clock())
        id = claims.pop("jti")
        assert isinstance(id, str)
        assert len(id) >= 22
        assert claims == {
            "iss": it.url, "sub": "ada", "aud": RESOURCE, "client_id": "app", "iat": now, "exp": now + 600,
            "scope": "notes:read notes:write", "auth_time": now - 5,
        }  # fmt: skip


async def test_a_client_that_did_not_register_for_refresh_tokens_gets_none() -> None:
    async with world(clients=[Client.configured("app", redirect_uris=[WEB], grant_types=["authorization_code"])]) as it:
        assert "refresh_token" not in (await it.tokens()).json


async def test_a_code_is_good_once_and_a_second_use_ends_what_the_first_gave() -> None:
    async with world() as it:
        code = await it.code()
        first = await it.redeem(code)
        assert await it.is_active(first.text("access_token"))
        assert is_refused(await it.redeem(code), "invalid_grant")
        assert not await it.is_active(first.text("access_token"))
        assert is_refused(await it.refresh(first.text("refresh_token")), "invalid_grant")


async def test_another_client_can_neither_use_a_code_nor_end_what_it_gave() -> None:
    async with world() as it:
        code = await it.code()
        assert is_refused(await it.redeem(code, client_id="local"), "invalid_grant")
        first = await it.redeem(code)
        assert first.status == 200
        assert is_refused(await it.redeem(code, client_id="local"), "invalid_grant")
        assert await it.is_active(first.text("access_token"))


async def test_a_code_is_good_for_a_minute() -> None:
    async with world() as it:
        early, late = await it.code(), await it.code()
        it.clock.now += 59
        assert (await it.redeem(early)).status == 200
        it.clock.now += 1
        assert is_refused(await it.redeem(late), "invalid_grant")


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
async def test_a_wrong_request_is_refused_and_leaves_the_code_good(
    changes: Mapping[str, str | None], error: str
) -> None:
    async with world() as it:
        code = await it.code()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": WEB,
            "client_id": "app",
            "code_verifier": VERIFIER,
        }
        reply = await it.post("/token", {**form, **changes})
        assert is_refused(reply, error, 401 if error == "invalid_client" else 400)
        assert (await it.redeem(code)).status == 200


async def test_the_redirect_uri_of_a_code_is_compared_octet_by_octet_with_its_port() -> None:
    async with world() as it:
        code = await it.code(client_id="local", redirect_uri="http://127.0.0.1:5000/callback")
        wrong = await it.redeem(code, client_id="local", redirect_uri="http://127.0.0.1:5001/callback")
        assert is_refused(wrong, "invalid_grant")
        right = await it.redeem(code, client_id="local", redirect_uri="http://127.0.0.1:5000/callback")
        assert right.status == 200


async def test_the_resource_need_not_be_repeated_since_the_code_has_it() -> None:
    async with world(resources=[RESOURCE, OTHER]) as it:
        code = await it.code(resource=OTHER)
        reply = await it.redeem(code, resource=None)
        assert (await claims_of(it, reply.text("access_token")))["aud"] == OTHER


async def test_a_parameter_that_comes_twice_is_refused() -> None:
    async with world() as it:
        code = await it.code()
        form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", WEB),
            ("client_id", "app"),
            ("code_verifier", VERIFIER),
        ]
        for pair in form:
            assert is_refused(await it.post("/token", [*form, pair]), "invalid_request")
        twice = [*form, ("resource", RESOURCE), ("resource", OTHER)]
        assert is_refused(await it.post("/token", twice), "invalid_target")
        assert (await it.post("/token", form)).status == 200


async def test_a_confidential_client_needs_pkce_too() -> None:
    async with world() as it:
        reply = await it.authorize(client_id="secret", code_challenge=None, code_challenge_method=None)
        assert reply.query["error"] == "invalid_request"
        code = await it.code(client_id="secret")
        given = {"client_id": "secret", "client_secret": SECRET}
        assert is_refused(await it.redeem(code, given, code_verifier=None), "invalid_request")
        assert is_refused(await it.redeem(code, given, code_verifier="w" * 43), "invalid_grant")
        assert (await it.redeem(code, given)).status == 200


# --- refresh tokens --------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.as-rotate-refresh", "auth.rotate-refresh-tokens")
async def test_each_refresh_gives_another_refresh_token_and_the_same_scope() -> None:
    async with world() as it:
        first = await it.tokens()
        second = await it.refresh(first.text("refresh_token"))
        assert second.status == 200
        assert second.text("refresh_token") != first.text("refresh_token")
        assert second.text("access_token") != first.text("access_token")
        assert second.text("scope") == "notes:read notes:write"
        assert (await it.refresh(second.text("refresh_token"))).status == 200


async def test_a_refresh_token_that_comes_again_ends_all_that_came_of_it() -> None:
    async with world() as it:
        first = await it.tokens()
        second = await it.refresh(first.text("refresh_token"))
        third = await it.refresh(second.text("refresh_token"))
        assert is_refused(await it.refresh(first.text("refresh_token")), "invalid_grant")
        assert is_refused(await it.refresh(third.text("refresh_token")), "invalid_grant")
        for reply in (first, second, third):
            assert not await it.is_active(reply.text("access_token"))


async def test_one_grant_that_ends_leaves_the_others() -> None:
    async with world() as it:
        one, other = await it.tokens(), await it.tokens()
        await it.refresh(one.text("refresh_token"))
        await it.refresh(one.text("refresh_token"))
        assert await it.is_active(other.text("access_token"))
        assert (await it.refresh(other.text("refresh_token"))).status == 200


async def test_another_client_can_neither_use_a_refresh_token_nor_end_its_grant() -> None:
    async with world() as it:
        first = await it.tokens()
        second = await it.refresh(first.text("refresh_token"))
        for token in (first, second):
            assert is_refused(await it.refresh(token.text("refresh_token"), client_id="local"), "invalid_grant")
        assert (await it.refresh(second.text("refresh_token"))).status == 200


async def test_a_refresh_may_narrow_the_scope_of_one_token_and_never_widen_it() -> None:
    async with world() as it:
        first = await it.redeem(await it.code(scopes=("notes:read",)))
        wide = await it.refresh(first.text("refresh_token"), scope="notes:read notes:write")
        assert is_refused(wide, "invalid_scope")
        both = await it.tokens()
        narrow = await it.refresh(both.text("refresh_token"), scope="notes:read")
        assert narrow.text("scope") == "notes:read"
        assert (await claims_of(it, narrow.text("access_token")))["scope"] == "notes:read"
        assert (await it.refresh(narrow.text("refresh_token"))).text("scope") == "notes:read notes:write"


async def test_a_refresh_token_is_for_the_resource_of_its_grant() -> None:
    async with world(resources=[RESOURCE, OTHER]) as it:
        first = await it.tokens()
        assert is_refused(await it.refresh(first.text("refresh_token"), resource=OTHER), "invalid_target")
        second = await it.refresh(first.text("refresh_token"), resource=RESOURCE)
        assert (await claims_of(it, second.text("access_token")))["aud"] == RESOURCE


async def test_a_refresh_token_ends_when_it_is_not_used() -> None:
    async with world(lifetimes=Lifetimes(refresh=1000)) as it:
        used, unused = await it.tokens(), await it.tokens()
        it.clock.now += 999
        second = await it.refresh(used.text("refresh_token"))
        assert second.status == 200
        it.clock.now += 1
        assert is_refused(await it.refresh(unused.text("refresh_token")), "invalid_grant")
        it.clock.now += 998
        assert (await it.refresh(second.text("refresh_token"))).status == 200


async def test_a_refresh_needs_a_token_and_the_right_to_it() -> None:
    async with world(clients=[Client.configured("app", redirect_uris=[WEB], grant_types=["authorization_code"])]) as it:
        assert is_refused(await it.refresh("any"), "unauthorized_client")
    async with world() as it:
        assert is_refused(
            await it.post("/token", {"grant_type": "refresh_token", "client_id": "app"}), "invalid_request"
        )


# --- clients that act for themselves ---------------------------------------------------------------------------------


async def test_a_confidential_client_gets_a_token_for_itself() -> None:
    async with world() as it:
        form = {
            "grant_type": "client_credentials",
            "client_id": "worker",
            "client_secret": SECRET,
            "resource": RESOURCE,
        }
        reply = await it.post("/token", form)
        assert reply.status == 200
        assert "refresh_token" not in reply.json
        claims = await claims_of(it, reply.text("access_token"))
        assert (claims["sub"], claims["client_id"], claims["scope"], claims["aud"]) == (
            "worker",
            "worker",
            "notes:read",
            RESOURCE,
        )
        assert "auth_time" not in claims
        assert (await it.post("/token", {**form, "scope": "notes:read"})).text("scope") == "notes:read"
        for scope in ("notes:write", "unknown"):
            assert is_refused(await it.post("/token", {**form, "scope": scope}), "invalid_scope")
        assert is_refused(await it.post("/token", {**form, "resource": OTHER}), "invalid_target")


async def test_a_client_that_acts_for_itself_may_have_all_scopes_unless_it_is_told_otherwise() -> None:
    async with world(clients=[Client.configured("worker", secret=SECRET)]) as it:
        form = {"grant_type": "client_credentials", "client_id": "worker", "client_secret": SECRET}
        assert (await it.post("/token", form)).text("scope") == "notes:read notes:write"


async def test_only_clients_that_may_get_tokens_for_themselves() -> None:
    async with world() as it:
        form = {"grant_type": "client_credentials", "client_id": "secret", "client_secret": SECRET}
        assert is_refused(await it.post("/token", form), "unauthorized_client")
        assert is_refused(
            await it.post("/token", {"grant_type": "client_credentials", "client_id": "app"}), "invalid_client", 401
        )


# --- DPoP ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("dpop.as-token-binding")
async def test_a_token_is_bound_to_the_key_of_the_proof() -> None:
    async with world() as it:
        dpop = Key().dpop()
        proof = dpop.headers("POST", f"{it.url}/token", now=it.clock())
        reply = await it.redeem(await it.code(), headers=proof)
        assert reply.json["token_type"] == "DPoP"
        assert (await claims_of(it, reply.text("access_token")))["cnf"] == {"jkt": dpop.key_id}
        assert (await it.introspect(reply.text("access_token")))["token_type"] == "DPoP"


async def test_the_refresh_tokens_of_a_public_client_are_bound_too() -> None:
    async with world() as it:
        mine, foreign = Key().dpop(), Key().dpop()
        url = f"{it.url}/token"
        first = await it.redeem(await it.code(), headers=mine.headers("POST", url, now=it.clock()))
        token = first.text("refresh_token")
        assert is_refused(await it.refresh(token), "invalid_dpop_proof")
        assert is_refused(
            await it.refresh(token, headers=foreign.headers("POST", url, now=it.clock())), "invalid_dpop_proof"
        )
        second = await it.refresh(token, headers=mine.headers("POST", url, now=it.clock()))
        assert second.json["token_type"] == "DPoP"
        assert is_refused(await it.refresh(second.text("refresh_token")), "invalid_dpop_proof")


async def test_a_confidential_client_may_change_its_key() -> None:
    async with world() as it:
        url = f"{it.url}/token"
        given = {"client_id": "secret", "client_secret": SECRET}
        first = await it.redeem(
            await it.code(client_id="secret"), given, headers=Key().dpop().headers("POST", url, now=it.clock())
        )
        later = Key().dpop()
        second = await it.refresh(
            first.text("refresh_token"), given, headers=later.headers("POST", url, now=it.clock())
        )
        assert (await claims_of(it, second.text("access_token")))["cnf"] == {"jkt": later.key_id}


async def test_a_code_that_is_bound_to_a_key_needs_its_proof() -> None:
    async with world() as it:
        url = f"{it.url}/token"
        mine, foreign = Key().dpop(), Key().dpop()
        code = await it.code(dpop_jkt=mine.key_id)
        assert is_refused(await it.redeem(code), "invalid_dpop_proof")
        assert is_refused(
            await it.redeem(code, headers=foreign.headers("POST", url, now=it.clock())), "invalid_dpop_proof"
        )
        assert (await it.redeem(code, headers=mine.headers("POST", url, now=it.clock()))).status == 200


@pytest.mark.spec("dpop.as-bound-enforced")
async def test_a_client_that_said_that_it_uses_dpop_gets_no_other_tokens() -> None:
    async with world() as it:
        code = await it.code(client_id="bound")
        assert is_refused(await it.redeem(code, client_id="bound"), "invalid_dpop_proof")
        proof = Key().dpop().headers("POST", f"{it.url}/token", now=it.clock())
        assert (await it.redeem(code, client_id="bound", headers=proof)).status == 200


async def test_a_proof_is_good_for_one_request_to_this_endpoint_at_this_time() -> None:
    async with world() as it:
        dpop, url = Key().dpop(), f"{it.url}/token"
        once = dpop.headers("POST", url, now=it.clock())
        assert (await it.redeem(await it.code(), headers=once)).status == 200
        for proof in (
            once,
            dpop.headers("GET", url, now=it.clock()),
            dpop.headers("POST", f"{it.url}/revoke", now=it.clock()),
            dpop.headers("POST", "https://other.example/token", now=it.clock()),
            dpop.headers("POST", url, now=it.clock() - 3600),
            dpop.headers("POST", url, now=it.clock() + 3600),
            (*dpop.headers("POST", url, now=it.clock()), *dpop.headers("POST", url, now=it.clock())),
            (("DPoP", "nonsense"),),
        ):
            assert is_refused(await it.redeem(await it.code(), headers=proof), "invalid_dpop_proof")


async def test_a_server_may_want_nonces() -> None:
    async with world(dpop_nonces=b"k" * 32) as it:
        dpop, url, code = Key().dpop(), f"{it.url}/token", await it.code()
        first = await it.redeem(code, headers=dpop.headers("POST", url, now=it.clock()))
        assert is_refused(first, "use_dpop_nonce")
        assert dpop.learn(url, tuple(first.headers))
        assert (await it.redeem(code, headers=dpop.headers("POST", url, now=it.clock()))).status == 200
        assert (await it.tokens()).json["token_type"] == "Bearer"


# --- client authentication -------------------------------------------------------------------------------------------


def basic(client_id: str, secret: str) -> tuple[str, str]:
    return ("Authorization", "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode())


async def test_a_configured_secret_may_come_in_the_header_or_in_the_form() -> None:
    async with world() as it:
        form = {"grant_type": "client_credentials"}
        assert (await it.post("/token", form, headers=[basic("worker", "a+secret+that+nobody+guesses")])).status == 200
        assert (
            await it.post(
                "/token",
                {**form, "client_id": "worker"},
                headers=[basic("worker", "a%20secret%20that%20nobody%20guesses")],
            )
        ).status == 200
        assert (await it.post("/token", {**form, "client_id": "worker", "client_secret": SECRET})).status == 200


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
async def test_a_client_that_does_not_prove_who_it_is_gets_nothing(
    form: dict[str, str], header: tuple[str, str] | None, error: str
) -> None:
    async with world() as it:
        reply = await it.post(
            "/token", {"grant_type": "client_credentials", **form}, headers=[header] if header else []
        )
        assert is_refused(reply, error, 401 if error == "invalid_client" else 400)
        challenged = (reply.header("www-authenticate") or "").startswith("Basic ")
        assert challenged == (header is not None and error == "invalid_client")


async def test_a_confidential_client_cannot_pass_for_a_public_one_with_a_stolen_code() -> None:
    async with world() as it:
        code = await it.code(client_id="secret")
        assert is_refused(await it.redeem(code, client_id="secret"), "invalid_client", 401)


async def test_two_authorization_headers_are_refused() -> None:
    async with world() as it:
        reply = await it.post("/token", {"grant_type": "client_credentials"}, headers=[basic("worker", SECRET)] * 2)
        assert reply.status in (400, 401)
        assert reply.error in ("invalid_request", "invalid_client")


async def test_an_unknown_client_and_a_wrong_secret_get_the_same_answer() -> None:
    async with world() as it:
        form = {"grant_type": "client_credentials", "client_secret": "wrong"}
        known, unknown = [await it.post("/token", {**form, "client_id": each}) for each in ("worker", "nobody")]
        assert (known.status, known.body) == (unknown.status, unknown.body)
