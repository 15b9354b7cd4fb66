"""Sealing: only the same ring opens it, and only for the same use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded, RequestFailed
from mcp_server.connection.sealer import MAX_STATE_CHARS, InputPolicy, KeyRing

RING = KeyRing([b"k" * 32])


@pytest.mark.property
@given(plain=st.binary(max_size=300), bound_to=st.binary(max_size=64))
def test_what_is_sealed_can_be_opened(plain: bytes, bound_to: bytes) -> None:
    assert RING.unseal(RING.seal(plain, bound_to), bound_to) == plain


@pytest.mark.property
@given(plain=st.binary(max_size=50), bound_to=st.binary(max_size=8), other=st.binary(max_size=8))
def test_it_opens_only_for_the_same_use(plain: bytes, bound_to: bytes, other: bytes) -> None:
    opened = RING.unseal(RING.seal(plain, bound_to), other)
    assert opened == (plain if other == bound_to else None)


@pytest.mark.property
@given(text=st.text(max_size=200))
def test_any_text_is_refused_without_an_accident(text: str) -> None:
    assert RING.unseal(text, b"") is None


@pytest.mark.property
@given(plain=st.binary(max_size=50), place=st.integers(min_value=0), bit=st.integers(0, 5))
def test_no_character_can_be_changed(plain: bytes, place: int, bit: int) -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    sealed = RING.seal(plain, b"x")
    body = sealed.rstrip("=")
    place %= len(body) - 1  # the last character has bits that stand for nothing
    changed = alphabet[alphabet.index(body[place]) ^ (1 << bit)]
    assert RING.unseal(sealed[:place] + changed + sealed[place + 1 :], b"x") is None


def test_the_same_text_is_never_sealed_twice_the_same() -> None:
    assert RING.seal(b"plain", b"") != RING.seal(b"plain", b"")


def test_keys_are_changed_by_putting_the_new_one_first() -> None:
    old, new = b"o" * 32, b"n" * 32
    sealed = KeyRing([old]).seal(b"x", b"")
    assert KeyRing([new, old]).unseal(sealed, b"") == b"x"
    assert KeyRing([new]).unseal(sealed, b"") is None
    assert KeyRing([old]).unseal(KeyRing([new, old]).seal(b"x", b""), b"") is None


def test_without_keys_each_ring_has_its_own() -> None:
    assert KeyRing().unseal(KeyRing().seal(b"x", b""), b"") is None


def test_sizes_are_bounded() -> None:
    with pytest.raises(LimitExceeded):
        RING.seal(b"x" * MAX_STATE_CHARS, b"")
    with pytest.raises(RequestFailed, match="at most"):
        RING.unseal("A" * (MAX_STATE_CHARS + 1), b"")


def test_a_policy_is_checked() -> None:
    with pytest.raises(ValueError, match=r"keys\[1\] has 5 bytes: it needs at least 32 random bytes"):
        InputPolicy(keys=[b"k" * 32, b"short"])
    with pytest.raises(ValueError, match=r"InputPolicy\.seconds must be greater than 0"):
        InputPolicy(seconds=0)
    with pytest.raises(ValueError, match=r"InputPolicy\.rounds must be greater than 0"):
        InputPolicy(rounds=-1)
    assert "kkk" not in repr(InputPolicy(keys=[b"k" * 32]))
