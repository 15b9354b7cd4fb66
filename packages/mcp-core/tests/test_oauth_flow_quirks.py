"""A flow among peers with every oddity that there is: what is odd is survived, what is hostile gets nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oauth_client import DOCUMENT, SESSION, GaveUp, Walker
from oauth_keys import EcKey
from oauth_network import random_bytes

from mcp_conformance.oauth_testbed.http_messages import Request
from mcp_conformance.oauth_testbed.metadata_documents import is_published
from mcp_conformance.oauth_testbed.quirk_table import Row
from mcp_conformance.oauth_testbed.quirks import Part, Quirks
from mcp_conformance.oauth_testbed.refused_quirks import REFUSED
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
from mcp_conformance.oauth_testbed.tolerated_quirks import TOLERATED
from mcp_core.errors import (
    AuthorizationError,
    AuthorizationRefused,
    DiscoveryFailed,
    InsufficientScope,
    IssuerMismatch,
    RegistrationFailed,
    TokenRefused,
    UnsafeUrl,
)
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.oauth.dpop import Dpop
from mcp_core.oauth.grants import ClientCredentials, EnterpriseManaged, Grant, WorkloadIdentity
from mcp_core.oauth.records import AuthMethod, ClientRecord

ERRORS: Final[Mapping[str, type[Exception]]] = {
    "resource-metadata-(page|huge)": RegistrationFailed,
    "(resource|server)-.*": DiscoveryFailed,
    "issuer-(missing|empty)": DiscoveryFailed,
    "issuer-.*": IssuerMismatch,
    "no-(authorization-server|pkce.*|(token|authorization)-endpoint)|plain-pkce|keys-required": DiscoveryFailed,
    "no-way-to-register|registration.*": RegistrationFailed,
    "(authorization|token)_endpoint-empty": DiscoveryFailed,
    "(authorization|token)_endpoint-.*|authorization-endpoint-.*": UnsafeUrl,
    "authorization_servers-.*": DiscoveryFailed,
    "client-forgotten-for-ever": TokenRefused,
    "access-denied.*|state-.*|neither-.*": AuthorizationRefused,
    "error-of-another-issuer|iss-.*|mix-up-.*": IssuerMismatch,
    "token-.*": TokenRefused,
    "scope-.*": InsufficientScope,
    "forbidden-.*": GaveUp,
}
"""How a client fails, by the names of the rows; the first that fits."""

MARKUP: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]")
LONGEST: Final = 40
"""Steps of one flow, browser and store included."""

READ: Final = Quirks(scopes_of={"tools/call": ("notes:write",)})
CLIENT: Final[JsonObject] = {"client_id": "given", "client_secret": "the-secret-of-given"}
GIVEN: Final = ClientRecord(client_id="given", issuer="https://as.example", client_secret="the-secret-of-given")


def refused(row: Row) -> type[Exception]:
    return next(error for pattern, error in ERRORS.items() if re.fullmatch(pattern, row.name))


def leaks(walker: Walker, world: OAuthTestbed) -> list[str]:
    return [secret for secret in world.secrets if any(secret in text for text in walker.shown)]


def names(rows: tuple[Row, ...]) -> list[str]:
    return [row.name for row in rows]


@pytest.mark.spec(
    "auth.as-wellknown-path-order", "auth.cimd-client-checks", "auth.client-both-as-metadata",
    "auth.client-both-prm-mechanisms", "auth.client-default-endpoints", "auth.client-metadata-first",
    "auth.client-parses-www-authenticate", "auth.client-prm-fallback-order", "auth.client-prm-header-preferred",
    "auth.dcr-client", "auth.iss-no-normalization", "auth.iss-unadvertised-absent", "auth.iss-unadvertised-present",
    "auth.refresh-not-assumed", "auth.refresh-offline-access", "auth.registration-obtained",
    "auth.resource-no-trailing-slash", "auth.scope-omitted", "auth.scope-priority-supported", "auth.state",
    "dpop.optional",
)  # fmt: skip
@pytest.mark.parametrize("row", TOLERATED, ids=names(TOLERATED))
def test_what_is_odd_is_survived(row: Row) -> None:
    world = OAuthTestbed(row.quirks)
    walker = Walker(world=world)
    walker.session()
    assert world.violations == []
    assert leaks(walker, world) == []
    assert walker.steps <= LONGEST
    assert world.resource.accepted or row.quirks.guarded


@pytest.mark.spec(
    "auth.as-metadata-issuer-validated", "auth.as-metadata-mismatch-not-used", "auth.dcr-failure-handled",
    "auth.dcr-failure-surfaced", "auth.iss-advertised-absent", "auth.iss-advertised-present",
    "auth.iss-error-response", "auth.iss-no-normalization", "auth.iss-unadvertised-present", "auth.pkce-refuse-oidc",
    "auth.pkce-refuse-rfc8414", "auth.pkce-s256", "auth.prm-client-uses", "auth.prm-resource-mismatch-rejected",
    "auth.redirect-registered", "auth.registration-priority", "auth.state", "auth.step-up-retry-limit",
    "dpop.optional", "security.redirect-targets-validated", "security.sanitize-urls",
)  # fmt: skip
@pytest.mark.parametrize("row", REFUSED, ids=names(REFUSED))
def test_what_is_hostile_gets_nothing_and_is_told(row: Row) -> None:
    world = OAuthTestbed(row.quirks)
    walker = Walker(world=world)
    with pytest.raises(refused(row)) as caught:
        walker.session()
    assert world.violations == []
    assert leaks(walker, world) == []
    assert walker.steps <= LONGEST
    assert MARKUP.search(str(caught.value)) is None
    assert all(text not in str(caught.value) for text in ("shown_to_nobody", "a" * 1_000))


def test_an_error_names_what_was_tried() -> None:
    world = OAuthTestbed(next(row.quirks for row in REFUSED if row.name == "server-metadata-nowhere"))
    with pytest.raises(DiscoveryFailed) as caught:
        Walker(world=world).session()
    tried = [attempt.url for attempt in caught.value.attempts]
    assert tried == [request.url for request in world.requests if request.method == "GET"]
    assert "status 404" in str(caught.value)


@pytest.mark.spec("auth.step-up-union", "auth.step-up-user", "auth.reauth-keeps-scopes")
def test_more_scopes_are_asked_for_together_with_those_of_before() -> None:
    world = OAuthTestbed(READ)
    walker = Walker(world=world)
    walker.session()
    assert world.violations == []
    assert walker.tokens is not None
    assert set(walker.tokens.scopes) == {"notes:read", "notes:write"}
    assert len(walker.opened) == 2


@pytest.mark.parametrize("kind", ["rotates", "stays"])
def test_a_token_that_ends_is_refreshed_each_time_with_the_newest(kind: str) -> None:
    world = OAuthTestbed(Quirks(refresh="rotates" if kind == "rotates" else "stays"))
    walker = Walker(world=world)
    walker.session()
    for _ in range(3):
        walker.now += 4_000
        walker.refresh()
        walker.call("tools/call")
    assert world.violations == []
    assert len(walker.opened) == 1


def test_a_refresh_token_that_was_used_up_is_void_and_leads_to_the_person() -> None:
    world = OAuthTestbed()
    walker = Walker(world=world)
    walker.session()
    stale = walker.tokens
    walker.refresh()
    walker.tokens = stale
    walker.refresh()
    walker.call("tools/call")
    assert [each.requirement for each in world.violations] == ["auth.oauth21-security"]
    assert len(walker.opened) == 2


@pytest.mark.spec("auth.as-change-reregister", "auth.as-change-no-reuse", "auth.no-cross-as-credentials")
def test_a_server_that_goes_over_to_another_authorization_server_takes_nothing_with_it() -> None:
    world = OAuthTestbed(
        Quirks(registration={"token_endpoint_auth_method": "client_secret_post", "client_secret": "old-secret"})
    )
    walker = Walker(world=world)
    walker.session()
    world.migrate()
    walker.call("tools/call")
    assert world.violations == []
    assert walker.tokens is not None
    assert walker.tokens.issuer == world.places.other


def test_an_authorization_server_without_memory_is_registered_at_anew() -> None:
    world = OAuthTestbed()
    walker = Walker(world=world)
    walker.session()
    world.restart()
    walker.call("tools/call")
    assert world.violations == []
    registrations = [request for request in world.requests if request.path == "/register"]
    assert len(registrations) == 2


@pytest.mark.spec("auth.cimd-client-id-form", "auth.cimd-client-checks", "auth.registration-priority")
def test_a_client_with_a_document_does_not_register() -> None:
    world = OAuthTestbed(Quirks(documents=True))
    walker = Walker(world=world)
    walker.session()
    assert world.violations == []
    assert all(request.path != "/register" for request in world.requests)
    assert {client.client_id for client in walker.kept.values()} == {DOCUMENT}


@pytest.mark.parametrize(
    "quirks",
    [
        Quirks(resource_metadata={"authorization_servers": ["{issuer}/"]}),
        Quirks(resource_metadata={"authorization_servers": []}),
        Quirks(resource_metadata_at="nowhere", challenge=()),
    ],
    ids=["spelt otherwise", "not named", "no metadata"],
)
def test_who_knows_the_authorization_server_can_name_it(quirks: Quirks) -> None:
    issuer = "https://as.example"
    world = OAuthTestbed(quirks, configured_issuers=[issuer])
    walker = Walker(world=world, authorization_server=issuer)
    walker.session()
    assert world.violations == []
    assert walker.tokens is not None
    assert walker.tokens.issuer == issuer


@pytest.mark.spec("auth.preregistration", "auth.credentials-keyed-by-issuer")
def test_where_nobody_can_register_a_client_that_is_known_gets_its_token() -> None:
    world = OAuthTestbed(
        Quirks(registers=False), clients=[{**CLIENT, "token_endpoint_auth_method": "client_secret_post"}]
    )
    walker = Walker(world=world, credentials=(attrs.evolve(GIVEN, auth_method=AuthMethod.SECRET_POST),))
    walker.session()
    assert world.violations == []


def grants(world: OAuthTestbed) -> list[tuple[Grant, tuple[ClientRecord, ...]]]:
    idp = ClientRecord(client_id="at-idp", issuer="https://idp.example", client_secret="the-secret-of-at-idp")
    world.register({"client_id": "at-idp", "client_secret": "the-secret-of-at-idp",
                    "token_endpoint_auth_method": "client_secret_basic"}, at_idp=True)  # fmt: skip
    managed = EnterpriseManaged(
        identity_provider=idp, token_endpoint="https://idp.example/token", subject_token=world.id_token
    )
    return [(ClientCredentials(), (GIVEN,)), (WorkloadIdentity(assertion=world.workload), ()), (managed, (GIVEN,))]


@pytest.mark.spec(
    "client-credentials.no-user-interaction", "client-credentials.no-dcr", "client-credentials.grant-type",
    "wif.client-grant-type", "wif.client-assertion", "wif.client-no-registration",
    "ema.no-interactive-redirect", "ema.token-exchange", "ema.audience", "ema.access-token-grant",
)  # fmt: skip
@pytest.mark.parametrize("number", [0, 1, 2], ids=["client credentials", "workload identity", "enterprise managed"])
@pytest.mark.parametrize("nonces", ["kept", "renewed"])
@pytest.mark.parametrize("dpop", ["off", "required"])
def test_other_grants_need_no_person_and_no_registration(number: int, nonces: str, dpop: str) -> None:
    quirks = Quirks(
        dpop="off" if dpop == "off" else "required",
        nonce_at=frozenset({Part.TOKEN, Part.MCP}),
        nonces="kept" if nonces == "kept" else "renewed",
    )
    world = OAuthTestbed(quirks, clients=[{**CLIENT, "token_endpoint_auth_method": "client_secret_basic"}])
    grant, credentials = grants(world)[number]
    proof = None if dpop == "off" else Dpop(EcKey(), random_bytes())
    walker = Walker(world=world, grant=grant, credentials=credentials, proof=proof)
    walker.session()
    assert world.violations == []
    assert leaks(walker, world) == []
    assert walker.opened == []
    assert all(request.path != "/register" for request in world.requests)


@pytest.mark.spec("client-credentials.jwt-claims", "client-credentials.jwt-assertion-type")
def test_a_client_that_signs_is_known_by_its_key() -> None:
    key = EcKey()
    jwks: JsonObject = {"keys": [{**key.jwk}]}
    world = OAuthTestbed(
        clients=[{"client_id": "signs", "token_endpoint_auth_method": "private_key_jwt", "jwks": jwks}]
    )
    credentials = ClientRecord(client_id="signs", issuer="https://as.example")
    walker = Walker(world=world, grant=ClientCredentials(), credentials=(credentials,), signer=key)
    walker.session()
    assert world.violations == []


@pytest.mark.spec("dpop.client-scheme", "dpop.client-fresh-proof", "dpop.client-proof-header", "dpop.client-proof-claims",
                  "dpop.client-token-request-proof", "dpop.client-as-nonce", "dpop.client-rs-nonce")  # fmt: skip
@pytest.mark.parametrize("nonces", ["kept", "renewed"])
@pytest.mark.parametrize("at", [set(), {Part.TOKEN}, {Part.MCP}, {Part.TOKEN, Part.MCP}], ids=len)
@pytest.mark.parametrize("dpop", ["accepted", "required"])
def test_a_key_is_proved_at_both_servers_with_their_nonces(dpop: str, at: set[Part], nonces: str) -> None:
    quirks = Quirks(
        dpop="accepted" if dpop == "accepted" else "required",
        nonce_at=frozenset(at),
        nonces="kept" if nonces == "kept" else "renewed",
    )
    world = OAuthTestbed(quirks)
    walker = Walker(world=world, proof=Dpop(EcKey(), random_bytes()))
    walker.session()
    walker.refresh()
    walker.call("tools/call")
    assert world.violations == []
    assert walker.tokens is not None
    assert walker.tokens.token_type == "DPoP"
    assert len(walker.opened) == 1


@pytest.mark.parametrize("at", [Part.TOKEN, Part.MCP])
def test_a_server_that_no_nonce_is_right_for_is_given_up(at: Part) -> None:
    world = OAuthTestbed(Quirks(dpop="required", nonce_at=frozenset({at}), nonces="never right"))
    walker = Walker(world=world, proof=Dpop(EcKey(), random_bytes()))
    with pytest.raises((TokenRefused, GaveUp)):
        walker.session()
    assert world.violations == []
    assert len(world.requests) < 60


COMBINED: Final = [row for row in (*TOLERATED, *TOLERATED, *REFUSED) if not row.quirks.same_origin]
"""Tolerated ones come more often, so that some get through. Servers of 2025-03-26 have no metadata that others could spoil."""


def merged(several: list[Quirks]) -> Quirks:
    """All oddities at once: of a table the members of all, of the rest the last."""
    whole = Quirks()
    for quirks in several:
        changes: dict[str, object] = {}
        for field in attrs.fields(Quirks):
            value, before = getattr(quirks, field.name), getattr(whole, field.name)
            if value != field.default:
                changes[field.name] = {**before, **value} if isinstance(value, Mapping) else value
        whole = attrs.evolve(whole, **changes)  # type: ignore[arg-type]  # values of the same fields
    return whole


@pytest.mark.property
@settings(max_examples=150)
@given(
    rows=st.lists(st.sampled_from(COMBINED), max_size=4),
    doings=st.lists(st.sampled_from(["call", "refresh", "expire", "migrate", "restart", "wait"]), max_size=6),
    proof=st.booleans(),
)
def test_whatever_comes_together_a_flow_ends_and_breaks_no_rule(
    rows: list[Row], doings: list[str], proof: bool
) -> None:
    world = OAuthTestbed(merged([row.quirks for row in rows]))
    walker = Walker(world=world, proof=Dpop(EcKey(), random_bytes()) if proof else None)
    for doing in ["session", *doings]:
        try:
            match doing:
                case "session":
                    walker.session()
                case "call":
                    walker.call("tools/call")
                case "refresh" if walker.tokens is not None:
                    walker.refresh()
                case "expire":
                    world.server.tokens.expire()
                case "migrate" if is_published(world.quirks):
                    world.migrate()
                case "restart":
                    world.restart()
                case "wait":
                    walker.now += 4_000
        except (AuthorizationError, GaveUp) as error:
            walker.shown.append(str(error))
    assert world.violations == []
    assert leaks(walker, world) == []
    assert walker.steps <= LONGEST * (len(SESSION) + len(doings)) * 3
    assert len(world.requests) <= 400


def test_a_client_that_breaks_a_rule_is_found_out() -> None:
    """The control: what the tests above rely on does go red."""
    world = OAuthTestbed()
    walker = Walker(world=world)
    walker.session()
    assert walker.tokens is not None
    headers = (("Authorization", f"Bearer {walker.tokens.access_token}"),)
    world.answer(Request(method="GET", url=f"{world.places.other}/register", headers=headers), walker.now)
    walker.shown.append(walker.tokens.access_token)
    assert "auth.no-cross-as-credentials" in [each.requirement for each in world.violations]
    assert leaks(walker, world) == [walker.tokens.access_token]
