"""`WWW-Authenticate` as servers really write it: nothing fails, and the challenge that counts is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.oauth.challenge import Challenge, choose_challenge, read_challenges, split_scope, write_challenge

PRM = "https://mcp.example/.well-known/oauth-protected-resource/mcp"


def _one(value: str) -> Challenge:
    (challenge,) = read_challenges([value])
    return challenge


@pytest.mark.spec("auth.client-parse-www-authenticate", "auth.client-parses-www-authenticate")
@pytest.mark.parametrize(
    "value",
    [
        f'Bearer realm="mcp", resource_metadata="{PRM}", scope="a b"',
        f'bearer Realm=mcp,RESOURCE_METADATA={PRM},scope="a b"',
        f'BEARER   realm = "mcp" ,  resource_metadata  =  "{PRM}"  ,, scope="a  b"',
        f'Bearer realm="mcp" resource_metadata="{PRM}" scope="a b"',
        f'Bearer realm="mcp", resource_metadata="{PRM}", scope="a b',
        f'Bearer realm="m\\cp",\tscope="a b",\tresource_metadata={PRM}',
        f', , Bearer realm="mcp", resource_metadata="{PRM}", scope="a b", resource_metadata="https://evil.example/"',
    ],
)
def test_a_challenge_is_read_however_it_is_written(value: str) -> None:
    challenge = _one(value)
    assert challenge.is_scheme("Bearer")
    assert challenge.parameters["realm"] == "mcp"
    assert challenge.resource_metadata == PRM
    assert challenge.scopes == ("a", "b")


@pytest.mark.spec("auth.client-parses-www-authenticate")
def test_several_challenges_in_one_line_and_in_several_are_told_apart() -> None:
    found = read_challenges(
        [
            'Basic realm="a, Bearer scope=\\"x\\"", Negotiate, NTLM TlRMTVNTUAAB==, DPoP algs="ES256 RS256"',
            'Bearer error="invalid_token", error_description="it \\"ended\\""',
        ]
    )
    assert [each.scheme for each in found] == ["Basic", "Negotiate", "NTLM", "DPoP", "Bearer"]
    assert found[0].parameters == {"realm": 'a, Bearer scope="x"'}
    assert found[1].parameters == {}
    assert found[1].token68 is None
    assert found[2].token68 == "TlRMTVNTUAAB=="
    assert found[3].parameters == {"algs": "ES256 RS256"}
    assert found[4].error == "invalid_token"
    assert found[4].parameters["error_description"] == 'it "ended"'


def test_what_a_challenge_lacks_is_absent() -> None:
    challenge = _one('Bearer resource_metadata=""')
    assert challenge.resource_metadata is None
    assert challenge.error is None
    assert challenge.scopes == ()
    assert not challenge.wants_more_scope
    assert not challenge.wants_nonce
    assert Challenge(scheme="Bearer").parameters == {}


@pytest.mark.parametrize("value", ["", " ", ",,,", '="x"', "=", '"', "\x00", "\xe4\xf6"])
def test_what_is_no_challenge_is_none(value: str) -> None:
    assert read_challenges([value]) == ()


def test_what_makes_no_sense_is_skipped() -> None:
    assert _one('Bearer ??, "x", scope=a').scopes == ("a",)


def test_the_errors_that_matter_are_known() -> None:
    assert _one('Bearer error="insufficient_scope", scope="files:write"').wants_more_scope
    assert _one("DPoP error=use_dpop_nonce").wants_nonce


def test_the_best_scheme_is_chosen_and_in_it_the_challenge_that_names_the_metadata() -> None:
    found = read_challenges([f'Basic realm=x, Bearer scope=a, Bearer resource_metadata="{PRM}", DPoP algs=ES256'])
    bearer = choose_challenge(found)
    assert bearer is not None
    assert bearer.resource_metadata == PRM
    dpop = choose_challenge(found, schemes=("DPoP", "Bearer"))
    assert dpop is not None
    assert dpop.is_scheme("dpop")
    assert choose_challenge(found, schemes=("Digest",)) is None
    first = choose_challenge(read_challenges(["Bearer scope=a, Bearer scope=b"]))
    assert first is not None
    assert first.scopes == ("a",)


def test_a_scope_value_is_split_at_spaces_and_each_scope_counts_once() -> None:
    assert split_scope(" b a  b ") == ("b", "a")


def test_a_challenge_is_written_exactly() -> None:
    written = write_challenge(
        "Bearer", {"error": "insufficient_scope", "scope": "a b", "error_description": 'a "b" \\'}
    )
    assert written == 'Bearer error="insufficient_scope", scope="a b", error_description="a \\"b\\" \\\\"'
    assert write_challenge("Bearer", {}) == "Bearer"


@pytest.mark.parametrize(
    ("scheme", "parameters"),
    [
        ("Bea rer", {}),
        ("Bearer", {"na me": "x"}),
        ("Bearer", {"realm": "a\r\nSet-Cookie: x"}),
        ("Bearer", {"realm": "\xe4"}),
        ("Bearer", {"scope": "a  b"}),
        ("Bearer", {"scope": 'a"b'}),
        ("Bearer", {"scope": ""}),
    ],
)
def test_what_must_not_stand_in_a_header_is_not_written(scheme: str, parameters: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"name|character|scope"):
        write_challenge(scheme, parameters)


_NAMES = st.text("abcdefgh-_", min_size=1, max_size=8)
_VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)


@pytest.mark.property
@given(
    st.lists(st.tuples(st.sampled_from(["Bearer", "DPoP", "Basic"]), st.dictionaries(_NAMES, _VALUES)), max_size=4),
    st.booleans(),
)
def test_what_is_written_is_read(challenges: list[tuple[str, dict[str, str]]], joined: bool) -> None:
    written = [
        write_challenge(scheme, {name: value for name, value in parameters.items() if name != "scope"})
        for scheme, parameters in challenges
    ]
    found = read_challenges([", ".join(written)] if joined else written)
    expected = [(scheme, {k: v for k, v in given.items() if k != "scope"}) for scheme, given in challenges]
    assert [(each.scheme, dict(each.parameters)) for each in found] == expected


@pytest.mark.property
@given(st.lists(st.text(alphabet=st.sampled_from(' ,="\\abB;/\t\xe4'), max_size=60), max_size=3))
def test_any_text_is_read_without_failure(values: list[str]) -> None:
    for challenge in read_challenges(values):
        assert challenge.scheme
        assert all(name == name.lower() for name in challenge.parameters)


def test_very_many_challenges_are_read_up_to_a_bound() -> None:
    assert len(read_challenges(["a, " * 10_000, "b, " * 10_000])) == 32
    (challenge,) = read_challenges(["Bearer " + ", ".join(f'p{number}="v"' for number in range(5_000))])
    assert 100 < len(challenge.parameters) < 1_000
