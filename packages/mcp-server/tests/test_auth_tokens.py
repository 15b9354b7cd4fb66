"""Verification of access tokens: by the keys of the authorization server, and by introspection."""

from __future__ import annotations

import base64
import hmac
from typing import cast
from urllib.parse import parse_qs

import orjson
import pytest
import trio
import trio.testing
from auth_keys import EC, EC_384, ISSUER, OKP, OTHER, RESOURCE, RSA, Key, claims, compact, public, token
from http_hosts import served
from test_auth_fetch import DocumentSite

from mcp_core.errors import UnsafeUrl
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.oauth.jws import base64url
from mcp_server.auth import Introspection, InvalidToken, JwtTokens, TokensUnavailable
from mcp_server.auth import introspection as introspection_module
from mcp_server.auth import jwt as jwt_module
from mcp_server.auth.fetch import FetchRefused
from mcp_server.auth.keys import JoseVerifier, public_keys
from mcp_server.auth.tokens import KnownTokens, digest_of

JWKS = "https://as.example/jwks"


class Documents:
    """A network that returns documents by URL and records the requests."""

    def __init__(self, **_: object) -> None:
        self.documents: dict[str, JsonObject] = {}
        self.requests: list[str] = []
        self.forms: list[dict[str, list[str]]] = []
        self.release: trio.Event | None = None

    async def __call__(
        self, url: str, *, method: str = "GET", headers: object = (), body: bytes = b"", networks: object
    ) -> JsonObject:
        self.requests.append(url)
        self.forms.append(parse_qs(body.decode()))
        await trio.lowlevel.checkpoint()
        if self.release is not None:
            await self.release.wait()
        if url not in self.documents:
            raise FetchRefused(url, "connection refused at 10.0.0.1")
        return self.documents[url]


@pytest.fixture
def documents(monkeypatch: pytest.MonkeyPatch) -> Documents:
    found = Documents()
    monkeypatch.setattr(jwt_module, "fetch_json", found)
    monkeypatch.setattr(introspection_module, "fetch_json", found)
    return found


def with_keys(*keys: Key, kinds: tuple[str, ...] = ("at+jwt",)) -> JwtTokens:
    return JwtTokens(ISSUER, keys=public(*keys), kinds=kinds)


# --- JWT -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.validate-token", "auth.server-validates-token")
@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (EC, "ES256"),
        (EC_384, "ES384"),
        (OKP, "EdDSA"),
        (OKP, "Ed25519"),
        *((RSA, algorithm) for algorithm in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
    ],
)
async def test_token_verified_with_key_of_issuer(key: Key, algorithm: str) -> None:
    tokens = with_keys(EC, EC_384, OKP, RSA)
    read = await tokens.verify(token(key, alg=algorithm))
    assert (read.issuer, read.subject, read.client_id, read.audience) == (ISSUER, "anna", "c1", (RESOURCE,))
    assert read.scopes == {"notes:read"}


_PEM = RSA.as_pem(private=False)
_N = base64.urlsafe_b64decode(str(RSA.as_dict()["n"]) + "==")


def by_secret(secret: bytes) -> str:
    """Return a token signed with a public key as the secret."""
    signed = compact({"alg": "HS256", "typ": "at+jwt", "kid": "rsa"}, claims(), None).removesuffix(".")
    return f"{signed}.{base64url(hmac.digest(secret, signed.encode(), 'sha256'))}"


_FORGED = [
    ("none", compact({"alg": "none", "typ": "at+jwt", "kid": "rsa"}, claims(), None)),
    ("none with a signature", compact({"alg": "none", "typ": "at+jwt"}, claims(), EC, by="ES256")),
    ("the public key in PEM as a secret", by_secret(_PEM)),
    ("the modulus as a secret", by_secret(_N)),
    ("another key with the same id", token(OTHER, header={"kid": "ec"})),
    (
        "another key in the header",
        token(OTHER, header={"kid": "ec", "jwk": cast("JsonObject", OTHER.as_dict(private=False))}),
    ),
    ("another key at a URL", token(OTHER, header={"jku": "https://evil.example/jwks", "x5u": "https://evil.example/"})),
    ("a key of another kind", compact({"alg": "RS256", "typ": "at+jwt", "kid": "ec"}, claims(), EC, by="ES256")),
    (
        "a key of another curve",
        compact({"alg": "ES256", "typ": "at+jwt", "kid": "ec384"}, claims(), EC_384, by="ES384"),
    ),
    (
        "another algorithm of the kind",
        compact({"alg": "PS256", "typ": "at+jwt", "kid": "rsa"}, claims(), RSA, by="RS256"),
    ),
    ("an unknown key", token(OTHER)),
    ("a path as the key id", token(EC, header={"kid": "../../../../dev/null"})),
    ("an SQL injection as the key id", token(EC, header={"kid": "x' UNION SELECT 'key' --"})),
    ("no key id, and two keys", token(EC_384, alg="ES384", header={"kid": None})),
    ("an extension", token(EC, header={"crit": ["exp"]})),
    ("a part that is not encoded", token(EC, header={"crit": ["b64"], "b64": False})),
    ("another kind", token(EC, header={"typ": "JWT"})),
    ("an ID token", compact({"alg": "ES256", "kid": "ec"}, claims(), EC)),
    ("a proof", token(EC, header={"typ": "dpop+jwt"})),
    ("a logout token", token(EC, header={"typ": "logout+jwt"})),
    ("another issuer", token(EC, iss="https://evil.example")),
    ("an issuer with a slash", token(EC, iss=f"{ISSUER}/")),
    ("no issuer", token(EC, iss=None)),
    ("no expiry", token(EC, exp=None)),
    ("a string as expiry", token(EC, exp="never")),
    ("no subject", token(EC, sub=None, client_id=None)),
    ("an empty string", ""),
    ("a word", "token"),
    ("five parts", "a.b.c.d.e"),
]


@pytest.mark.spec("auth.validate-token", "auth.server-validates-token", "auth.invalid-token-401")
@pytest.mark.parametrize("forged", [pytest.param(text, id=name) for name, text in _FORGED])
async def test_forged_token_raises(forged: str) -> None:
    tokens = with_keys(EC, EC_384, RSA)
    with pytest.raises(InvalidToken) as caught:
        await tokens.verify(forged)
    assert forged == "" or forged not in caught.value.message or len(forged) < 6


async def test_changed_token_raises() -> None:
    good = token(EC)
    header, payload, signature = good.split(".")
    tokens = with_keys(EC)
    await tokens.verify(good)
    other = token(EC, sub="bert").split(".")[1]
    for changed in (
        f"{header}.{other}.{signature}",
        f"{header}.{payload}.{'A' * len(signature)}",
        f"{header}.{payload}.AA",
    ):
        with pytest.raises(InvalidToken, match="signature"):
            await tokens.verify(changed)


async def test_token_without_kid_uses_only_matching_key() -> None:
    nameless = token(EC, header={"kid": None})
    header: JsonObject = {"alg": "ES256", "typ": "at+jwt"}
    tokens = with_keys(EC, RSA)
    assert (await tokens.verify(compact(header, claims(), EC))).subject == "anna"
    with pytest.raises(InvalidToken, match="kid"):
        await tokens.verify(nameless)
    with pytest.raises(InvalidToken, match="key that its authorization server does not publish"):
        await with_keys(EC, OTHER).verify(compact(header, claims(), EC))


async def test_listed_token_types_accepted() -> None:
    tokens = with_keys(EC, kinds=("at+jwt", "JWT"))
    for header in ({"typ": "JWT"}, {"typ": "application/AT+JWT"}):
        assert (await tokens.verify(token(EC, header=cast("JsonObject", header)))).subject == "anna"
    assert (await tokens.verify(compact({"alg": "ES256"}, claims(), EC))).subject == "anna"


async def test_known_token_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    verify = JoseVerifier.verify

    def counted(self: JoseVerifier, jwk: JsonObject, algorithm: str, data: bytes, signature: bytes) -> bool:
        nonlocal count
        count += 1
        return verify(self, jwk, algorithm, data, signature)

    monkeypatch.setattr(JoseVerifier, "verify", counted)
    tokens = with_keys(EC)
    good = token(EC)
    assert await tokens.verify(good) is await tokens.verify(good)
    assert count == 1


def test_usable_keys_selected_from_jwk_set() -> None:
    ec, rsa = cast("list[JsonObject]", public(EC, RSA)["keys"])
    secret: JsonObject = {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}
    weak: JsonObject = {**rsa, "n": "AQAB" * 50}
    found = public_keys(
        {
            "keys": [
                {**ec, "use": "enc"},
                {**ec, "key_ops": ["sign"]},
                {**ec, "key_ops": "verify"},
                {**ec, "crv": "secp256k1"},
                {"kty": "EC", "crv": "P-256"},
                secret,
                weak,
                "key",
                {**ec, "d": "private", "kid": 7, "alg": "ES256", "use": "sig", "key_ops": ["verify"]},
                rsa,
            ]
        }
    )
    assert [(key.id, key.algorithm, "d" in key.jwk) for key in found] == [(None, "ES256", False), ("rsa", None, False)]
    assert found[0].fits("ES256")
    assert not found[0].fits("ES384")
    assert not found[1].fits("HS256")
    assert public_keys({}) == public_keys({"keys": {}}) == ()


def test_invalid_key_verifies_nothing() -> None:
    (ec,) = cast("list[JsonObject]", public(EC)["keys"])
    verifier = JoseVerifier()
    for jwk in ({**ec, "x": "AAAA"}, {**ec, "x": "!"}, {**ec, "crv": "P-384"}, {"kty": "EC", "crv": "P-256"}):
        assert not verifier.verify(jwk, "ES256", b"data", b"x" * 64)
    assert not verifier.verify(ec, "none", b"data", b"")


def test_invalid_configuration_raises() -> None:
    for algorithms in ([], ["none"], ["HS256"], ["ES256", "hs256"]):
        with pytest.raises(ValueError, match="algorithms"):
            JwtTokens(ISSUER, algorithms=algorithms)
    with pytest.raises(ValueError, match="no public key"):
        JwtTokens(ISSUER, keys={"keys": [{"kty": "oct", "k": "c2VjcmV0"}]})
    with pytest.raises(UnsafeUrl):
        JwtTokens("http://as.example")
    with pytest.raises(UnsafeUrl):
        JwtTokens(ISSUER, jwks_uri="http://as.example/jwks")
    with pytest.raises(UnsafeUrl):
        Introspection("http://as.example/i", issuer=ISSUER, client_id="a", client_secret="b")


# --- the keys of the authorization server --------------------------------------------------------------------------


def at(documents: Documents, *keys: Key) -> JwtTokens:
    documents.documents[JWKS] = public(*keys)
    return JwtTokens(ISSUER, jwks_uri=JWKS)


async def test_keys_found_by_metadata_of_issuer(documents: Documents) -> None:
    metadata: JsonObject = {"issuer": ISSUER, "jwks_uri": JWKS}
    documents.documents[f"{ISSUER}/.well-known/openid-configuration"] = metadata
    documents.documents[JWKS] = public(EC)
    tokens = JwtTokens(ISSUER)
    assert (await tokens.verify(token(EC))).subject == "anna"
    assert documents.requests == [
        f"{ISSUER}/.well-known/oauth-authorization-server",
        f"{ISSUER}/.well-known/openid-configuration",
        JWKS,
    ]


@pytest.mark.parametrize(
    "metadata", [{"issuer": "https://evil.example", "jwks_uri": JWKS}, {"jwks_uri": JWKS}, {"issuer": ISSUER}]
)
async def test_metadata_of_other_issuer_ignored(documents: Documents, metadata: JsonObject) -> None:
    documents.documents[f"{ISSUER}/.well-known/oauth-authorization-server"] = metadata
    documents.documents[f"{ISSUER}/.well-known/openid-configuration"] = metadata
    documents.documents[JWKS] = public(EC)
    with pytest.raises(TokensUnavailable):
        await JwtTokens(ISSUER).verify(token(EC))
    assert JWKS not in documents.requests


async def test_unknown_key_refetched_after_interval(
    documents: Documents, autojump_clock: trio.testing.MockClock
) -> None:
    tokens = at(documents, EC)
    await tokens.verify(token(EC))
    documents.documents[JWKS] = public(EC, OTHER)
    # Keys are not refetched immediately: made-up key ids would cause a fetch each.
    for _ in range(20):
        with pytest.raises(InvalidToken, match="key that its authorization server does not publish"):
            await tokens.verify(token(OTHER))
    assert len(documents.requests) == 1
    await trio.sleep(10)
    assert (await tokens.verify(token(OTHER))).subject == "anna"
    assert len(documents.requests) == 2
    for _ in range(20):
        await trio.sleep(1)
        with pytest.raises(InvalidToken):
            await tokens.verify(token(EC_384, alg="ES384"))
    assert len(documents.requests) == 4


async def test_keys_fetched_once_under_load(documents: Documents, autojump_clock: trio.testing.MockClock) -> None:
    tokens = at(documents, EC)
    documents.release = trio.Event()
    done: list[str] = []

    async def one(key: Key) -> None:
        done.append((await tokens.verify(token(key))).subject)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(one, EC)
        await trio.testing.wait_all_tasks_blocked()
        assert not done
        assert len(documents.requests) == 1
        documents.release.set()
    assert len(done) == 50
    assert len(documents.requests) == 1
    await trio.sleep(10)
    documents.documents[JWKS] = public(EC, OTHER)
    documents.release = trio.Event()
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(one, OTHER)
            nursery.start_soon(one, EC)
        await trio.testing.wait_all_tasks_blocked()
        # Tokens with a known key do not wait for the others.
        assert len(done) == 100
        documents.release.set()
    assert len(done) == 150
    assert len(documents.requests) == 2


async def test_cancelled_fetch_repeated_by_next_request(documents: Documents) -> None:
    tokens = at(documents, EC)
    documents.release = trio.Event()
    done: list[str] = []

    async def one(scope: trio.CancelScope) -> None:
        with scope:
            done.append((await tokens.verify(token(EC))).subject)

    first, second = trio.CancelScope(), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(one, second)
        await trio.testing.wait_all_tasks_blocked()
        first.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert len(documents.requests) == 2
        documents.release.set()
    assert done == ["anna"]


async def test_revoked_key_rejected_after_refetch(documents: Documents, autojump_clock: trio.testing.MockClock) -> None:
    tokens = at(documents, EC, OTHER)
    good, stolen = token(EC), token(OTHER)
    await tokens.verify(good)
    await tokens.verify(stolen)
    documents.documents[JWKS] = public(EC)
    await trio.sleep(800)
    await tokens.verify(stolen)
    await trio.sleep(100)
    # The first verification after the interval refetches the keys, which also applies to tokens verified before.
    await tokens.verify(good)
    with pytest.raises(InvalidToken):
        await tokens.verify(stolen)
    assert len(documents.requests) == 2


async def test_failed_refetch_keeps_known_keys(
    documents: Documents, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = at(documents, EC)
    await tokens.verify(token(EC))
    several: list[JsonObject | None] = [{}, {"keys": []}, {"keys": [{"kty": "oct", "k": "AAAA"}]}, None]
    for broken in several:
        if broken is None:
            del documents.documents[JWKS]
        else:
            documents.documents[JWKS] = broken
        await trio.sleep(900)
        assert (await tokens.verify(token(EC))).subject == "anna"
    assert "fetch of the keys for access tokens failed" in caplog.text
    assert len(documents.requests) == 5
    documents.documents[JWKS] = public(OTHER)
    await trio.sleep(900)
    assert (await tokens.verify(token(OTHER))).subject == "anna"


async def test_slow_refetch_does_not_delay_known_keys(
    documents: Documents, autojump_clock: trio.testing.MockClock
) -> None:
    tokens = at(documents, EC)
    await tokens.verify(token(EC))
    await trio.sleep(900)
    documents.release = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tokens.verify, token(EC))
        await trio.testing.wait_all_tasks_blocked()
        assert (await tokens.verify(token(EC))).subject == "anna"
        documents.release.set()


async def test_token_verification_without_keys_unavailable(
    documents: Documents, autojump_clock: trio.testing.MockClock
) -> None:
    tokens = JwtTokens(ISSUER, jwks_uri=JWKS)
    for _ in range(3):
        with pytest.raises(TokensUnavailable):
            await tokens.verify(token(EC))
    assert len(documents.requests) == 1
    documents.documents[JWKS] = public(EC)
    await trio.sleep(10)
    assert (await tokens.verify(token(EC))).subject == "anna"


async def test_key_set_over_size_limit_rejected(caplog: pytest.LogCaptureFixture) -> None:
    keys = cast("list[JsonValue]", public(EC)["keys"])
    site = DocumentSite(
        huge=(200, {}, orjson.dumps({"keys": keys, "more": "x" * 262_144})),
        jwks=(200, {}, orjson.dumps({"keys": keys})),
    )
    async with served(site, "embedded") as url:
        with pytest.raises(TokensUnavailable):
            await JwtTokens(ISSUER, jwks_uri=f"{url}/huge").verify(token(EC))
        assert "exceeds 262144 bytes" in caplog.text
        assert (await JwtTokens(ISSUER, jwks_uri=f"{url}/jwks").verify(token(EC))).subject == "anna"


# --- introspection -------------------------------------------------------------------------------------------------

ENDPOINT = "https://as.example/introspect"
ACTIVE: JsonObject = {"active": True, "sub": "anna", "client_id": "c1", "aud": RESOURCE, "scope": "a b", "exp": 2e9}


@pytest.fixture
def introspection(documents: Documents) -> Introspection:
    documents.documents[ENDPOINT] = ACTIVE
    return Introspection(ENDPOINT, issuer=ISSUER, client_id="us", client_secret="swordfish")


async def test_introspection_request_and_response() -> None:
    site = DocumentSite(introspect=(200, {}, orjson.dumps(ACTIVE)))
    async with served(site, "embedded") as url:
        tokens = Introspection(f"{url}/introspect", issuer=ISSUER, client_id="u:s", client_secret="sword fish")
        assert "sword" not in repr(tokens)
        read = await tokens.verify("opaque+1")
    assert (read.issuer, read.subject, read.scopes) == (ISSUER, "anna", frozenset({"a", "b"}))
    ((method, _, headers, body),) = site.requests
    assert method == "POST"
    assert parse_qs(body.decode()) == {"token": ["opaque+1"], "token_type_hint": ["access_token"]}
    # The client id and the secret are encoded before they are joined (RFC 6749 section 2.3.1).
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"u%3As:sword+fish"


@pytest.mark.parametrize(
    "answer", [{"active": False}, {}, {**ACTIVE, "active": "true"}, {**ACTIVE, "active": 1}, {**ACTIVE, "sub": 7}]
)
async def test_inactive_token_raises_and_is_cached(
    documents: Documents, introspection: Introspection, autojump_clock: trio.testing.MockClock, answer: JsonObject
) -> None:
    documents.documents[ENDPOINT] = answer
    for _ in range(3):
        with pytest.raises(InvalidToken):
            await introspection.verify("t1")
    # A negative result is cached as well, which bounds the requests to the authorization server.
    assert len(documents.requests) == 1
    await trio.sleep(5)
    documents.documents[ENDPOINT] = ACTIVE
    assert (await introspection.verify("t1")).subject == "anna"


async def test_introspection_result_cached_for_30_seconds(
    documents: Documents, introspection: Introspection, autojump_clock: trio.testing.MockClock
) -> None:
    await introspection.verify("t1")
    documents.documents[ENDPOINT] = {"active": False}
    await trio.sleep(29)
    await introspection.verify("t1")
    assert len(documents.requests) == 1
    await trio.sleep(1)
    with pytest.raises(InvalidToken, match="not active"):
        await introspection.verify("t1")


async def test_concurrent_introspections_of_one_token_send_one_request(
    documents: Documents, introspection: Introspection
) -> None:
    documents.release = trio.Event()
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(introspection.verify, "t1")
        await trio.testing.wait_all_tasks_blocked()
        documents.release.set()
    assert len(documents.requests) == 1


async def test_cancelled_introspection_repeated_by_next_request(
    documents: Documents, introspection: Introspection
) -> None:
    documents.release = trio.Event()
    scope = trio.CancelScope()
    done: list[str] = []

    async def first() -> None:
        with scope:
            await introspection.verify("t1")

    async def second() -> None:
        done.append((await introspection.verify("t1")).subject)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(second)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        documents.release.set()
    assert done == ["anna"]
    assert len(documents.requests) == 2


async def test_concurrent_introspections_are_limited(documents: Documents, introspection: Introspection) -> None:
    documents.release = trio.Event()
    async with trio.open_nursery() as nursery:
        for each in range(100):
            nursery.start_soon(introspection.verify, f"t{each}")
        await trio.testing.wait_all_tasks_blocked()
        assert len(documents.requests) == 16
        nursery.cancel_scope.cancel()


async def test_unreachable_introspection_endpoint_raises_unavailable(
    documents: Documents,
    introspection: Introspection,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    del documents.documents[ENDPOINT]
    documents.release = trio.Event()
    refused: list[str] = []

    async def one() -> None:
        with pytest.raises(TokensUnavailable) as caught:
            await introspection.verify("t1")
        refused.append(caught.value.message)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(one)
        await trio.testing.wait_all_tasks_blocked()
        documents.release.set()
    # The other tasks do not repeat the failed request one after the other.
    assert len(documents.requests) == 1
    assert len(refused) == 5
    assert not any("10.0.0.1" in each for each in refused)
    documents.release = trio.Event()
    with pytest.raises(TokensUnavailable):
        await introspection.verify("t1")
    assert all(secret not in caplog.text for secret in ("swordfish", "t1"))


# --- caches -----------------------------------------------------------------------------------------------------------


async def test_known_tokens_are_bounded_and_expire(autojump_clock: trio.testing.MockClock) -> None:
    known = KnownTokens(10.0, limit=2)
    for name in ("a", "b", "c", "b"):
        known.learn(digest_of(name), None)
    assert len(known) == 2
    assert known.find(digest_of("a")) is None
    assert known.find(digest_of("c")) == (None,)
    await trio.sleep(10)
    assert known.find(digest_of("c")) is None
    assert len(known) == 1
    known.clear()
    assert len(known) == 0


def test_token_digest_does_not_contain_token() -> None:
    assert b"secret" not in digest_of("secret")
    assert len({digest_of(each) for each in ("a", "b", "\ud800", "")}) == 4
