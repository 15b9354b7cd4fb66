"""The protected resource: challenges and metadata."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import UnsafeUrl
from mcp_core.oauth.access_token import InvalidToken
from mcp_core.oauth.challenge import Challenge, choose_challenge, read_challenges
from mcp_core.oauth.dpop_verification import InvalidProof, NonceRequired
from mcp_core.oauth.metadata import ResourceMatch, match_resource, read_protected_resource
from mcp_core.oauth.protected_resource import AccessDenial, Credentials, DpopUse, ProtectedResource, bearer_token
from mcp_core.oauth.urls import parse_url

AS = "https://as.example"
MCP = "https://mcp.example/mcp"
DOCUMENT = "https://mcp.example/.well-known/oauth-protected-resource/mcp"


def make_resource(
    dpop: DpopUse = "accepted", scopes: tuple[str, ...] = ("notes:read",), resource: str = MCP
) -> ProtectedResource:
    return ProtectedResource(
        resource, authorization_servers=[AS], scopes=scopes, dpop=dpop, algorithms=["ES256", "RS256"]
    )


def challenges(denial: AccessDenial) -> tuple[Challenge, ...]:
    return read_challenges(value for name, value in denial.headers if name == "www-authenticate")


@pytest.mark.spec("auth.server-401-www-authenticate")
@pytest.mark.spec(
    "auth.www-authenticate-resource-metadata",
    "auth.prm-discovery-one-of",
    "auth.prm-mechanism",
    "auth.challenge-scope",
    "auth.missing-token-401",
)
def test_missing_token_returns_challenge_with_metadata_url() -> None:
    denial = make_resource("off").token_missing()
    assert denial.status == 401
    assert denial.headers == (("www-authenticate", f'Bearer scope="notes:read", resource_metadata="{DOCUMENT}"'),)


def test_challenge_without_scopes_omits_scope() -> None:
    denial = make_resource("off", ()).token_missing()
    assert denial.headers == (("www-authenticate", f'Bearer resource_metadata="{DOCUMENT}"'),)


@pytest.mark.parametrize(
    ("dpop", "schemes"), [("accepted", ["Bearer", "DPoP"]), ("required", ["DPoP"]), ("off", ["Bearer"])]
)
def test_challenge_for_each_accepted_scheme(dpop: DpopUse, schemes: list[str]) -> None:
    offered = challenges(make_resource(dpop).token_missing())
    assert [each.scheme for each in offered] == schemes
    for each in offered:
        assert each.error is None
        assert each.resource_metadata == DOCUMENT
        assert each.parameters.get("algs") == ("ES256 RS256" if each.scheme == "DPoP" else None)


@pytest.mark.spec("auth.validation-failure", "auth.status-codes")
def test_invalid_token_returns_challenge_of_used_scheme() -> None:
    denial = make_resource().token_invalid("Bearer", InvalidToken("the access token has expired"))
    (challenge,) = challenges(denial)
    assert (denial.status, challenge.scheme, challenge.error) == (401, "Bearer", "invalid_token")
    assert challenge.parameters["error_description"] == "the access token has expired"
    assert challenge.scopes == ("notes:read",)
    bound = make_resource("off").token_invalid("DPoP", InvalidToken('it is "bound" \\ to a key'))
    (challenge,) = challenges(bound)
    assert (challenge.scheme, challenge.parameters["error_description"]) == ("Bearer", "it is 'bound' / to a key")


@pytest.mark.spec("dpop.server-reject-401", "dpop.server-nonce")
def test_invalid_proof_returns_challenge_and_nonce() -> None:
    (challenge,) = challenges(make_resource().proof_invalid(InvalidProof("the DPoP proof was used before")))
    assert (challenge.scheme, challenge.error, challenge.wants_nonce) == ("DPoP", "invalid_dpop_proof", False)
    denial = make_resource().proof_invalid(NonceRequired("n1"))
    (challenge,) = challenges(denial)
    assert (denial.status, challenge.wants_nonce) == (401, True)
    assert ("dpop-nonce", "n1") in denial.headers


@pytest.mark.spec(
    "auth.insufficient-scope-scope",
    "auth.insufficient-scope-resource-metadata",
    "auth.insufficient-scope-description",
    "auth.insufficient-scope-all-at-once",
)
@pytest.mark.spec(
    "auth.insufficient-scope-403",
    "auth.insufficient-scope-lists-scopes",
    "auth.scope-strategy-consistent",
    "auth.scope-sets-consistent",
    "auth.scope-consistency",
)
def test_insufficient_scope_returns_all_required_scopes() -> None:
    denial = make_resource().scope_insufficient("Bearer", ["notes:write", "notes:read"])
    assert denial.status == 403
    assert denial.headers == (
        (
            "www-authenticate",
            'Bearer error="insufficient_scope",'
            ' error_description="the access token has insufficient scope: notes:read notes:write is required",'
            f' scope="notes:read notes:write", resource_metadata="{DOCUMENT}"',
        ),
    )
    chosen = choose_challenge(challenges(denial))
    assert chosen is not None
    assert chosen.wants_more_scope


def test_ambiguous_credentials_return_400() -> None:
    denial = make_resource("off").request_invalid("the Authorization header came more than once")
    (challenge,) = challenges(denial)
    assert (denial.status, challenge.error, challenge.scopes) == (400, "invalid_request", ())


def test_authentication_unavailable_returns_503() -> None:
    denial = make_resource().unavailable()
    assert (denial.status, denial.headers) == (503, (("retry-after", "5"),))


@pytest.mark.spec(
    "auth.prm-server",
    "auth.prm-implemented",
    "auth.prm-authorization-servers",
    "auth.prm-resource-matches",
    "auth.prm-wellknown-path",
)
@pytest.mark.parametrize(
    ("resource", "url", "paths"),
    [
        (MCP, DOCUMENT, ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource")),
        (
            "https://mcp.example:8443/a/b",
            "https://mcp.example:8443/.well-known/oauth-protected-resource/a/b",
            ("/.well-known/oauth-protected-resource/a/b", "/.well-known/oauth-protected-resource"),
        ),
        (
            "https://mcp.example",
            "https://mcp.example/.well-known/oauth-protected-resource",
            ("/.well-known/oauth-protected-resource",),
        ),
        (
            "http://127.0.0.1:8000/",
            "http://127.0.0.1:8000/.well-known/oauth-protected-resource",
            ("/.well-known/oauth-protected-resource",),
        ),
    ],
)
def test_metadata_published_at_well_known_url(resource: str, url: str, paths: tuple[str, ...]) -> None:
    protected = make_resource(resource=resource)
    assert (protected.metadata_url, protected.metadata_paths) == (url, paths)
    read = read_protected_resource(protected.metadata.to_json())
    assert read == protected.metadata
    assert read.notes == ()
    assert match_resource(read.resource, parse_url(resource, what="server")) is ResourceMatch.SAME


@pytest.mark.parametrize(
    ("dpop", "members"),
    [
        ("off", {}),
        ("accepted", {"dpop_signing_alg_values_supported": ["ES256", "RS256"]}),
        (
            "required",
            {"dpop_signing_alg_values_supported": ["ES256", "RS256"], "dpop_bound_access_tokens_required": True},
        ),
    ],
)
@pytest.mark.spec("dpop.as-no-none")
def test_metadata_describes_resource(dpop: DpopUse, members: dict[str, object]) -> None:
    protected = ProtectedResource(
        MCP,
        authorization_servers=[AS],
        dpop=dpop,
        algorithms=["ES256", "RS256"],
        name="Notes",
        documentation="https://x.example/",
    )
    assert protected.metadata.to_json() == {
        "resource": MCP,
        "authorization_servers": [AS],
        "bearer_methods_supported": ["header"],
        "resource_name": "Notes",
        "resource_documentation": "https://x.example/",
        **members,
    }
    assert make_resource().metadata.scopes_supported == ("notes:read",)


@pytest.mark.spec("auth.server-no-offline-access")
def test_invalid_configuration_raises() -> None:
    assert make_resource(scopes=("a b", "b")).scopes == ("a", "b")
    for scopes in (("ü",), ('"',), ("offline_access",)):
        with pytest.raises(ValueError, match="scope"):
            make_resource(scopes=scopes)
    with pytest.raises(ValueError, match="at least one authorization server"):
        ProtectedResource(MCP, authorization_servers=[])
    with pytest.raises(ValueError, match="not have a fragment"):
        make_resource(resource=f"{MCP}#x")
    for url in ("http://mcp.example/mcp", "mcp.example", "/mcp", "https://u@mcp.example/"):
        with pytest.raises(UnsafeUrl):
            make_resource(resource=url)
        with pytest.raises(UnsafeUrl):
            ProtectedResource(MCP, authorization_servers=[url])


@pytest.mark.parametrize(
    ("values", "scheme", "token"),
    [
        (["Bearer t1"], "Bearer", "t1"),
        (["bearer  t1 "], "Bearer", "t1"),
        (["BEARER a.b_c~d+e/f=="], "Bearer", "a.b_c~d+e/f=="),
        (["dpop t1"], "DPoP", "t1"),
    ],
)
def test_token_read_from_header(values: list[str], scheme: str, token: str) -> None:
    credentials = bearer_token(values)
    assert credentials == Credentials(scheme=scheme, token=token)
    assert token not in repr(credentials)


@pytest.mark.parametrize("values", [[], ["Basic dTpw"], ["Bearerish t1"], [""], ["t1"]])
def test_credentials_of_other_scheme_ignored(values: list[str]) -> None:
    assert bearer_token(values) is None


@pytest.mark.parametrize(
    "values",
    [
        ["Bearer"],
        ["Bearer "],
        ["DPoP"],
        ["Bearer t1 t2"],
        ["Bearer t1, Bearer t2"],
        ["Bearer \u00fc"],
        ["Bearer t1", "Bearer t1"],
        ["Bearer t1", ""],
    ],
)
def test_ambiguous_authorization_header_raises(values: list[str]) -> None:
    with pytest.raises(ValueError, match="Authorization header"):
        bearer_token(values)


@pytest.mark.property
@given(st.lists(st.text(max_size=20), max_size=2))
def test_arbitrary_authorization_header_read_or_rejected(values: list[str]) -> None:
    try:
        credentials = bearer_token(values)
    except ValueError:
        return
    assert credentials is None or credentials.token.isascii()
