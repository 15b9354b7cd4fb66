"""The sealer of states: a seal opens only with the same keys and for the same purpose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded, RequestFailed
from mcp_server import Server
from mcp_server.connection.sealer import MAX_STATE_CHARS, InputPolicy, KeyRing

RING = KeyRing([b"k" * 32])


@pytest.mark.property
@given(plain=st.binary(max_size=300), bound_to=st.binary(max_size=64))
def test_sealed_data_can_be_unsealed(plain: bytes, bound_to: bytes) -> None:
    assert RING.unseal(RING.seal(plain, bound_to), bound_to) == plain


@pytest.mark.property
@given(plain=st.binary(max_size=50), bound_to=st.binary(max_size=8), other=st.binary(max_size=8))
def test_unseal_with_other_binding_fails(plain: bytes, bound_to: bytes, other: bytes) -> None:
    unsealed = RING.unseal(RING.seal(plain, bound_to), other)
    assert unsealed == (plain if other == bound_to else None)


@pytest.mark.property
@given(text=st.text(max_size=200))
def test_generated_text_is_not_unsealed(text: str) -> None:
    assert RING.unseal(text, b"") is None


@pytest.mark.property
@given(plain=st.binary(max_size=50), position=st.integers(min_value=0), bit=st.integers(0, 5))
def test_changed_character_makes_seal_invalid(plain: bytes, position: int, bit: int) -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    sealed = RING.seal(plain, b"x")
    body = sealed.rstrip("=")
    position %= len(body) - 1  # the last character has unused bits
    changed = alphabet[alphabet.index(body[position]) ^ (1 << bit)]
    assert RING.unseal(sealed[:position] + changed + sealed[position + 1 :], b"x") is None


def test_seals_of_same_data_differ() -> None:
    assert RING.seal(b"plain", b"") != RING.seal(b"plain", b"")


def test_key_rotation_with_new_key_first() -> None:
    old, new = b"o" * 32, b"n" * 32
    sealed = KeyRing([old]).seal(b"x", b"")
    assert KeyRing([new, old]).unseal(sealed, b"") == b"x"
    assert KeyRing([new]).unseal(sealed, b"") is None
    assert KeyRing([old]).unseal(KeyRing([new, old]).seal(b"x", b""), b"") is None


def test_default_keys_are_random() -> None:
    assert KeyRing().unseal(KeyRing().seal(b"x", b""), b"") is None


def test_seal_size_is_limited() -> None:
    with pytest.raises(LimitExceeded):
        RING.seal(b"x" * MAX_STATE_CHARS, b"")
    with pytest.raises(RequestFailed, match="at most"):
        RING.unseal("A" * (MAX_STATE_CHARS + 1), b"")


def test_input_policy_invalid_raises() -> None:
    with pytest.raises(ValueError, match=r"keys\[1\] has 5 bytes: it needs at least 32 random bytes"):
        InputPolicy(keys=[b"k" * 32, b"short"])
    with pytest.raises(ValueError, match=r"InputPolicy\.seconds must be greater than 0"):
        InputPolicy(seconds=0)
    with pytest.raises(ValueError, match=r"InputPolicy\.round_trips must be greater than 0"):
        InputPolicy(round_trips=-1)
    assert "kkk" not in repr(InputPolicy(keys=[b"k" * 32]))


def test_state_keys_reach_mounted_servers() -> None:
    outer, early, late = (Server(name, version="1") for name in ("outer", "early", "late"))
    outer.mount(early, prefix="early")
    assert not any(each.has_state_keys for each in (outer, early))
    outer.use_state_keys([b"k" * 32])
    outer.mount(late, prefix="late")
    assert all(each.has_state_keys for each in (outer, early, late))
    sealed = KeyRing([b"k" * 32]).seal(b"state", b"here")
    for server in (outer, early, late):
        assert server._service.environment.keys.unseal(sealed, b"here") == b"state"


def test_short_state_key_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"InputPolicy.keys\[0\] has 3 bytes"):
        Server("x", version="1").use_state_keys([b"abc"])


def test_replaced_keys_do_not_unseal() -> None:
    ring = KeyRing([b"a" * 32])
    sealed = ring.seal(b"state", b"here")
    ring.use([b"b" * 32, b"a" * 32])
    assert ring.unseal(sealed, b"here") == b"state"
    ring.use([b"b" * 32])
    assert ring.unseal(sealed, b"here") is None
