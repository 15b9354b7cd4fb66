"""Verification of DPoP proofs by a server."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from oauth_keys import EcKey

from mcp_core.errors import LocalProtocolError
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.oauth.dpop import Dpop, token_hash
from mcp_core.oauth.dpop_verification import InvalidProof, NonceIssuer, NonceRequired, ProofCheck, ReplayCache
from mcp_core.oauth.jws import sign, thumbprint

NOW = 1_800_000_000.0
URL = "https://mcp.example/mcp"
KEY = EcKey()
JKT = thumbprint(KEY.jwk)


class EcVerifier:
    """A verifier of the signatures of `EcKey`."""

    def verify(self, jwk: Mapping[str, JsonValue], algorithm: str, data: bytes, signature: bytes) -> bool:
        assert (algorithm, jwk) == ("ES256", KEY.jwk)
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        try:
            KEY._key.public_key().verify(encode_dss_signature(r, s), data, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


def claims(**changed: JsonValue) -> JsonObject:
    whole: JsonObject = {"jti": "j1", "htm": "POST", "htu": URL, "iat": NOW, "ath": token_hash("t1"), **changed}
    return {name: value for name, value in whole.items() if value is not None}


def proof(header: JsonObject | None = None, **changed: JsonValue) -> str:
    return sign(claims(**changed), KEY, header={"typ": "dpop+jwt", "jwk": KEY.jwk, **(header or {})})


def check_proof(
    received: str | Sequence[str],
    *,
    checker: ProofCheck | None = None,
    now: float = NOW,
    method: str = "POST",
    urls: Sequence[str] = (URL,),
    token: str | None = "t1",
) -> str:
    proofs = [received] if isinstance(received, str) else received
    checker = checker or ProofCheck(EcVerifier())
    return checker.check(proofs, method=method, urls=urls, now=now, access_token=token).key


@pytest.mark.spec("dpop.server-validates-proof", "dpop.modern-algorithms")
def test_client_proof_accepted() -> None:
    counter = itertools.count()
    client = Dpop(KEY, lambda size: next(counter).to_bytes(size, "big"))
    checker = ProofCheck(EcVerifier())
    for _ in range(3):
        ((name, proof_jwt),) = client.headers("POST", f"{URL}?x=1", now=NOW, access_token="t1")
        assert name == "DPoP"
        assert check_proof(proof_jwt, checker=checker) == JKT == client.key_id
    ((_, proof_jwt),) = client.headers("POST", URL, now=NOW)
    assert check_proof(proof_jwt, token=None) == JKT


@pytest.mark.spec("dpop.server-validates-proof", "dpop.server-reject-401")
@pytest.mark.parametrize(
    ("received", "reason"),
    [
        ([], "missing"),
        ([proof(), proof(jti="j2")], "received 2"),
        ("nothing", "compact"),
        (proof({"alg": "none"}), "algorithm"),
        (proof({"alg": "HS256"}), "algorithm"),
        (proof({"typ": "JWT"}), "typ of the DPoP proof is not dpop"),
        (proof({"typ": "at+jwt"}), "typ of the DPoP proof is not dpop"),
        (proof({"typ": None}), "typ of the DPoP proof is not dpop"),
        (proof({"jwk": None}), "no public key"),
        (proof({"jwk": "key"}), "no public key"),
        (proof({"jwk": {**KEY.jwk, "d": "secret"}}), "no public key"),
        (proof({"jwk": {"kty": "oct", "k": "secret"}}), "no public key"),
        (proof({"jwk": {"kty": "oct"}}), "not an EC"),
        (proof({"jwk": {"kty": "EC", "crv": "P-256", "x": "eA"}}), "not an EC"),
        (proof({"crit": ["x"]}), "crit"),
        (proof()[:-4] + "AAAA", "signature"),
        (proof(htm="GET"), "another method"),
        (proof(htm="post"), "another method"),
        (proof(htm=None), "another method"),
        (proof(htu=None), "another URL"),
        (proof(htu=7), "another URL"),
        (proof(htu=""), "another URL"),
        (proof(htu="/mcp"), "another URL"),
        (proof(htu="https://mcp.example/"), "another URL"),
        (proof(htu="https://mcp.example/mcp/"), "another URL"),
        (proof(htu="https://mcp.example/mcp/x"), "another URL"),
        (proof(htu="http://mcp.example/mcp"), "another URL"),
        (proof(htu="https://evil.example/mcp"), "another URL"),
        (proof(ath=None), "another access token"),
        (proof(ath="t1"), "another access token"),
        (proof(ath=token_hash("t2")), "another access token"),
        (proof(iat=None), "no valid iat"),
        (proof(iat="now"), "no valid iat"),
        (proof(iat=True), "no valid iat"),
        (proof(iat=NOW - 301), "too old"),
        (proof(iat=NOW + 301), "too old, or its iat is in the future"),
        (proof(iat=2**62), "too old, or its iat is in the future"),
        (proof(jti=None), "jti"),
        (proof(jti=""), "jti"),
        (proof(jti=7), "jti"),
        (proof(jti="j" * 1_001), "jti"),
    ],
)
def test_invalid_proof_rejected(received: str | list[str], reason: str) -> None:
    with pytest.raises(InvalidProof, match=reason) as caught:
        check_proof(received)
    assert type(caught.value) is InvalidProof


@pytest.mark.parametrize("htu", ["HTTPS://MCP.example:443/mcp", f"{URL}?x=1", f"{URL}#x", "https://mcp.example/%6dcp"])
def test_proof_url_compared_normalized_without_query(htu: str) -> None:
    assert check_proof(proof(htu=htu)) == JKT


def test_proof_url_may_be_any_of_several() -> None:
    assert check_proof(proof(), urls=["https://mcp.example/inner", URL]) == JKT
    assert check_proof(proof(htu="https://mcp.example/"), urls=["https://mcp.example"]) == JKT
    assert check_proof(proof(htu="https://mcp.example/a/"), urls=["https://mcp.example/a/"]) == JKT


@pytest.mark.spec("dpop.server-iat-window")
@pytest.mark.parametrize("seconds", [-300, -299.5, 0, 300])
def test_proof_time_within_five_minutes_accepted(seconds: float) -> None:
    assert check_proof(proof(iat=NOW + seconds)) == JKT


@pytest.mark.spec("dpop.server-jti-tracking-optional", "dpop.server-replay-protection")
def test_proof_used_twice_rejected() -> None:
    checker = ProofCheck(EcVerifier())
    proof_jwt = proof()
    assert check_proof(proof_jwt, checker=checker) == JKT
    for later in (0, 1, 300):
        with pytest.raises(InvalidProof, match="used before"):
            check_proof(proof_jwt, checker=checker, now=NOW + later)
    with pytest.raises(InvalidProof, match="too old"):
        check_proof(proof_jwt, checker=checker, now=NOW + 301)
    assert check_proof(proof(jti="j2"), checker=checker) == JKT


def test_rejected_proof_not_recorded_as_used() -> None:
    checker = ProofCheck(EcVerifier())
    proof_jwt = proof()
    with pytest.raises(InvalidProof, match="another URL"):
        check_proof(proof_jwt, checker=checker, urls=["https://mcp.example/other"])
    assert check_proof(proof_jwt, checker=checker) == JKT


@pytest.mark.spec("dpop.server-nonce")
def test_nonce_required_and_returned() -> None:
    nonces = NonceIssuer(b"k" * 32)
    checker = ProofCheck(EcVerifier(), nonces=nonces)
    for wrong in (
        None,
        "x",
        7,
        nonces.current(NOW - 600),
        nonces.current(NOW + 300),
        NonceIssuer(b"j" * 32).current(NOW),
    ):
        with pytest.raises(NonceRequired) as caught:
            check_proof(proof(nonce=wrong), checker=checker)
        assert caught.value.nonce == nonces.current(NOW)
    assert check_proof(proof(nonce=nonces.current(NOW)), checker=checker) == JKT
    assert check_proof(proof(nonce=nonces.current(NOW - 300), jti="j2"), checker=checker) == JKT


def test_nonce_valid_in_every_process_with_key() -> None:
    nonce = NonceIssuer(b"k" * 32).current(NOW)
    assert NonceIssuer(b"k" * 32).is_current(nonce, NOW)
    assert not NonceIssuer(b"k" * 33).is_current(nonce, NOW)
    assert not NonceIssuer(b"k" * 32).is_current("ü\ud800", NOW)
    with pytest.raises(LocalProtocolError, match="31 bytes: at least 32 are required"):
        NonceIssuer(b"k" * 31)


@pytest.mark.property
@given(st.floats(min_value=0, max_value=4e9), st.floats(min_value=0, max_value=299))
def test_nonce_valid_for_five_minutes(issued: float, later: float) -> None:
    nonces = NonceIssuer(b"k" * 32)
    assert nonces.is_current(nonces.current(issued), issued + later)
    assert not nonces.is_current(nonces.current(issued), issued + 600)


@pytest.mark.spec("dpop.as-no-none")
def test_supported_algorithms_listed() -> None:
    assert ProofCheck(EcVerifier(), algorithms=["ES256"]).algorithms == ("ES256",)
    assert "none" not in ProofCheck(EcVerifier()).algorithms


def test_replay_cache_full_shortens_window() -> None:
    replays = ReplayCache(limit=3)
    assert [replays.take(bytes([each]), NOW + each, since=NOW) for each in range(3)] == [True] * 3
    assert len(replays) == 3
    assert replays.take(b"new", NOW + 3, since=NOW)
    assert len(replays) == 3
    # The oldest second was removed. Proofs of that second or earlier are rejected.
    assert not replays.take(bytes([0]), NOW, since=NOW)
    assert not replays.take(b"other", NOW, since=NOW)
    assert not replays.take(bytes([1]), NOW + 1, since=NOW)
    assert replays.take(b"other", NOW + 4, since=NOW + 2)


def test_proof_replayed_after_clock_change_rejected() -> None:
    replays = ReplayCache()
    assert replays.take(b"a", NOW, since=NOW - 300)
    assert replays.take(b"b", NOW + 3_600, since=NOW + 3_600 - 300)
    assert not replays.take(b"a", NOW, since=NOW - 300)
    # Later proofs are accepted as usual.
    assert replays.take(b"c", NOW + 1, since=NOW - 300)
    assert replays.take(b"a", NOW + 1, since=NOW - 300)


class ReplayMachine(RuleBasedStateMachine):
    """Random sequences: no proof is accepted twice, and the cache is bounded."""

    def __init__(self) -> None:
        super().__init__()
        self.replays = ReplayCache(limit=5)
        self.taken: set[tuple[int, int]] = set()
        self.now = 100

    @rule(seconds=st.integers(0, 7))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(seconds=st.integers(-30, 30))
    def step(self, seconds: int) -> None:
        """Set the clock."""
        self.now = max(100, self.now + seconds)

    @rule(id=st.integers(0, 3), age=st.integers(-10, 10))
    def take(self, id: int, age: int) -> None:
        proof_jwt = self.now - age
        taken = self.replays.take(bytes([id]), proof_jwt, since=self.now - 10)
        assert not (taken and (id, proof_jwt) in self.taken)
        if taken:
            self.taken.add((id, proof_jwt))

    @invariant()
    def bounded(self) -> None:
        assert len(self.replays) <= 5


TestReplays = pytest.mark.property(ReplayMachine.TestCase)


@pytest.mark.property
@given(
    st.dictionaries(
        st.sampled_from(["jti", "htm", "htu", "iat", "ath", "nonce"]),
        st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(st.characters(codec="utf-8")),
    )
)
def test_arbitrary_claims_accepted_or_rejected(changed: JsonObject) -> None:
    with suppress(InvalidProof):
        assert check_proof(sign(claims(**changed), KEY, header={"typ": "dpop+jwt", "jwk": KEY.jwk})) == JKT


@pytest.mark.spec("dpop.server-validates-proof")
def test_accepted_proof_states_until_when_another_process_would_accept_it() -> None:
    checker = ProofCheck(EcVerifier())
    proofs = [proof(iat=NOW - 100), proof(jti="other", iat=NOW + 200)]
    accepted = [checker.check([each], method="POST", urls=[URL], now=NOW, access_token="t1") for each in proofs]
    assert [each.seconds for each in accepted] == [200, 500]
    assert len({each.id for each in accepted}) == 2
    again = ProofCheck(EcVerifier()).check([proofs[0]], method="POST", urls=[URL], now=NOW, access_token="t1")
    assert again.id == accepted[0].id
