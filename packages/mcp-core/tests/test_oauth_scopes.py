"""Selection of scopes, and the limit of step-up requests."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oauth_network import ISSUER, MCP

from mcp_core.errors import InsufficientScope
from mcp_core.oauth.challenge import Challenge
from mcp_core.oauth.discovery import DiscoveryResult
from mcp_core.oauth.metadata import AuthorizationServerMetadata, ProtectedResourceMetadata
from mcp_core.oauth.records import TokenRecord
from mcp_core.oauth.scopes import STEP_UPS, StepUps, select_scopes, union

TOKENS = TokenRecord(
    access_token="a",
    token_type="Bearer",
    expires_at=None,
    scopes=("granted",),
    requested_scopes=("requested", "granted"),
    resource=MCP,
    server_url=MCP,
    token_endpoint="https://as.example/token",
    issuer=ISSUER,
)


def _found(resource: tuple[str, ...] | None = None, server: tuple[str, ...] | None = None) -> DiscoveryResult:
    return DiscoveryResult(
        resource=MCP,
        server=AuthorizationServerMetadata(issuer=ISSUER, scopes_supported=server),
        protected_resource=ProtectedResourceMetadata(resource=MCP, scopes_supported=resource),
    )


def _select(
    found: DiscoveryResult,
    challenged: str | None = None,
    *,
    configured: tuple[str, ...] | None = None,
    previous: TokenRecord | None = None,
    refreshable: bool = True,
) -> tuple[str, ...]:
    challenge = None if challenged is None else Challenge(scheme="Bearer", parameters={"scope": challenged})
    return select_scopes(found, challenge=challenge, configured=configured, previous=previous, refreshable=refreshable)


@pytest.mark.spec(
    "auth.scope-selection-order", "auth.scope-priority-challenge", "auth.scope-priority-supported", "auth.scope-omitted",
    "auth.challenge-authoritative", "auth.challenge-scope-authoritative", "auth.challenge-no-set-assumption",
    "auth.challenge-scope-no-relation", "auth.least-privilege", "auth.scope-least-privilege", "auth.scope-absent-fallback",
)  # fmt: skip
def test_scopes_of_challenge_before_configured_before_supported() -> None:
    found = _found(("a", "b"))
    assert _select(found, "x") == ("x",)
    assert _select(found, "x", configured=("c",)) == ("x",)
    assert _select(found, "", configured=("c",)) == ("c",)
    assert _select(found, configured=()) == ()
    assert _select(found) == ("a", "b")
    assert _select(found, "") == ("a", "b")
    assert _select(_found()) == ()
    assert _select(attrs.evolve(found, protected_resource=None)) == ()


@pytest.mark.spec("auth.reauth-keeps-scopes", "auth.step-up-union", "auth.step-up")
def test_earlier_scopes_requested_again() -> None:
    assert _select(_found(("a",)), "x", previous=TOKENS) == ("requested", "granted", "x")


@pytest.mark.spec("auth.refresh-offline-access", "auth.refresh-offline-access-not-otherwise")
def test_offline_access_requested_if_listed() -> None:
    listed = ("a", "offline_access")
    assert _select(_found(("a",), listed)) == ("a", "offline_access")
    assert _select(_found(("a",), listed), refreshable=False) == ("a",)
    assert _select(_found(("a",), ("a",))) == ("a",)
    assert _select(_found(("a", "offline_access"), ("a",))) == ("a",)
    assert _select(_found(("offline_access", "a"), listed)) == ("offline_access", "a")
    # Requested alone, it would replace the default scopes.
    assert _select(_found(None, listed)) == ()


@pytest.mark.spec("auth.step-up-retry-limit", "auth.step-up-track")
def test_step_ups_limited_per_operation() -> None:
    steps = StepUps()
    for number in range(STEP_UPS):
        steps.take(TOKENS, "tools/call x", [f"s{number}"])
    with pytest.raises(
        InsufficientScope, match="tools/call x requires s9; authorization requests without success: 2"
    ) as caught:
        steps.take(TOKENS, "tools/call x", ["s9"])
    assert (caught.value.required, caught.value.granted) == (("s9",), ("granted",))
    steps.take(TOKENS, "tools/call y", ["s9"])
    steps.take(attrs.evolve(TOKENS, server_url="https://other.example"), "tools/call x", ["s9"])
    steps.succeeded(MCP, "tools/call x")
    steps.succeeded(MCP, "tools/call x")
    steps.take(TOKENS, "tools/call x", ["s9"])


@pytest.mark.spec("auth.step-up-retry-limit")
def test_granted_scopes_not_requested_again() -> None:
    with pytest.raises(
        InsufficientScope, match="the request requires granted, and the token has them: granted scopes: granted"
    ):
        StepUps().take(TOKENS, "", ["granted"])
    bare = attrs.evolve(TOKENS, scopes=())
    steps = StepUps(limit=1)
    steps.take(bare, "", [])
    with pytest.raises(InsufficientScope, match=r"requires more scopes; .*; granted scopes: none by name"):
        steps.take(bare, "", [])


def test_step_ups_remembered_up_to_limit() -> None:
    steps = StepUps(limit=1)
    for number in range(1_001):
        steps.take(TOKENS, f"tools/call {number}", ["x"])
    steps.take(TOKENS, "tools/call 0", ["x"])
    with pytest.raises(InsufficientScope):
        steps.take(TOKENS, "tools/call 1000", ["x"])


_SCOPES = st.lists(st.sampled_from(["a", "b", "c", "offline_access"]), max_size=4).map(tuple)


@pytest.mark.property
@given(_SCOPES, st.none() | _SCOPES, st.none() | _SCOPES, _SCOPES, st.none() | _SCOPES, st.booleans())
def test_selected_scopes_contain_required_and_granted(
    challenged: tuple[str, ...],
    resource: tuple[str, ...] | None,
    server: tuple[str, ...] | None,
    granted: tuple[str, ...],
    configured: tuple[str, ...] | None,
    refreshable: bool,
) -> None:
    previous = attrs.evolve(TOKENS, scopes=granted, requested_scopes=())
    selected = _select(
        _found(resource, server),
        " ".join(challenged),
        configured=configured,
        previous=previous,
        refreshable=refreshable,
    )
    assert set(granted) <= set(selected)
    assert set(challenged) <= set(selected)
    assert len(set(selected)) == len(selected)
    known = {*challenged, *granted, *(configured or ()), *(resource or ()), "offline_access"}
    assert set(selected) <= known
    assert union(selected, selected) == selected
