"""Principals and their keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.oauth.principal import Principal

names = st.text(max_size=8) | st.sampled_from(['"', ",", "null", '","', "\ud800"])
principals = st.builds(Principal, issuer=st.none() | names, subject=names, client_id=st.none() | names)


@pytest.mark.property
@pytest.mark.spec("security.session-bound-to-user", "security.handle-bound-to-user")
@given(principals, principals)
def test_principal_keys_equal_only_for_equal_principals(one: Principal, other: Principal) -> None:
    assert (one.key == other.key) is (one == other)


@pytest.mark.property
@given(principals)
def test_principal_restored_from_key(principal: Principal) -> None:
    assert Principal.of_key(principal.key) == principal
    assert principal.key.isascii()


@pytest.mark.parametrize("key", ["anna", "[]", '["a","b"]', '["a",null,"c"]', '{"a":1}', '[1,"b",null]'])
def test_principal_key_malformed_raises(key: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Principal.of_key(key)
