"""Parsing of `WWW-Authenticate` as servers write it, and the choice of a challenge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.oauth.challenge import Challenge, choose_challenge, read_challenges, split_scope, write_challenge

PRM = "https://mcp.example/.well-known/oauth-protected-resource/mcp"


def _read_one(value: str) -> Challenge:
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
def test_challenge_written_differently_parsed(value: str) -> None:
    challenge = _read_one(value)
    assert challenge.is_scheme("Bearer")
    assert challenge.parameters["realm"] == "mcp"
    assert challenge.resource_metadata == PRM
    assert challenge.scopes == ("a", "b")


@pytest.mark.spec("auth.client-parses-www-authenticate")
def test_challenges_in_one_or_several_headers_separated() -> None:
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


def test_challenge_missing_parameters_absent() -> None:
    challenge = _read_one('Bearer resource_metadata=""')
    assert challenge.resource_metadata is None
    assert challenge.error is None
    assert challenge.scopes == ()
    assert not challenge.wants_more_scope
    assert not challenge.wants_nonce
    assert Challenge(scheme="Bearer").parameters == {}


@pytest.mark.parametrize("value", ["", " ", ",,,", '="x"', "=", '"', "\x00", "\xe4\xf6"])
def test_challenge_malformed_ignored(value: str) -> None:
    assert read_challenges([value]) == ()


def test_challenge_malformed_parameter_skipped() -> None:
    assert _read_one('Bearer ??, "x", scope=a').scopes == ("a",)


def test_challenge_errors_recognized() -> None:
    assert _read_one('Bearer error="insufficient_scope", scope="files:write"').wants_more_scope
    assert _read_one("DPoP error=use_dpop_nonce").wants_nonce


def test_challenge_with_preferred_scheme_and_metadata_chosen() -> None:
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


def test_scope_value_split_without_duplicates() -> None:
    assert split_scope(" b a  b ") == ("b", "a")


def test_challenge_written_with_quoted_parameters() -> None:
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
def test_challenge_invalid_parameter_not_written(scheme: str, parameters: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"name|character|scope"):
        write_challenge(scheme, parameters)


_NAMES = st.text("abcdefgh-_", min_size=1, max_size=8)
_VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)


@pytest.mark.property
@given(
    st.lists(st.tuples(st.sampled_from(["Bearer", "DPoP", "Basic"]), st.dictionaries(_NAMES, _VALUES)), max_size=4),
    st.booleans(),
)
def test_challenges_round_trip(challenges: list[tuple[str, dict[str, str]]], joined: bool) -> None:
    written = [
        write_challenge(scheme, {name: value for name, value in parameters.items() if name != "scope"})
        for scheme, parameters in challenges
    ]
    found = read_challenges([", ".join(written)] if joined else written)
    expected = [(scheme, {k: v for k, v in given.items() if k != "scope"}) for scheme, given in challenges]
    assert [(each.scheme, dict(each.parameters)) for each in found] == expected


@pytest.mark.property
@given(st.lists(st.text(alphabet=st.sampled_from(' ,="\\abB;/\t\xe4'), max_size=60), max_size=3))
def test_arbitrary_challenge_parsed_without_error(values: list[str]) -> None:
    for challenge in read_challenges(values):
        assert challenge.scheme
        assert all(name == name.lower() for name in challenge.parameters)


def test_challenges_parsed_up_to_limit() -> None:
    assert len(read_challenges(["a, " * 10_000, "b, " * 10_000])) == 32
    (challenge,) = read_challenges(["Bearer " + ", ".join(f'p{number}="v"' for number in range(5_000))])
    assert 100 < len(challenge.parameters) < 1_000
