"""Who asks: three things that make one identity, and never two."""

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
def test_keys_are_equal_for_equal_principals_only(one: Principal, other: Principal) -> None:
    assert (one.key == other.key) is (one == other)


@pytest.mark.property
@given(principals)
def test_a_principal_is_found_again_by_its_key(principal: Principal) -> None:
    assert Principal.of_key(principal.key) == principal
    assert principal.key.isascii()


@pytest.mark.parametrize("key", ["anna", "[]", '["a","b"]', '["a",null,"c"]', '{"a":1}', '[1,"b",null]'])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Principal.of_key(key)
