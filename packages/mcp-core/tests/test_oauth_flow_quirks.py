"""Flows with quirks of peers: deviations are tolerated, and hostile servers receive no credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oauth_client import DOCUMENT, SESSION, FlowClient, RequestRejected
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
    "forbidden-.*": RequestRejected,
}
"""Errors of a client by the name of the row; the first matching pattern applies."""

MARKUP: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]")
MAX_STEPS: Final = 40
"""Maximum number of steps in one flow, including browser and store."""

READ_QUIRKS: Final = Quirks(scopes_of={"tools/call": ("notes:write",)})
CLIENT: Final[JsonObject] = {"client_id": "given", "client_secret": "the-secret-of-given"}
GIVEN: Final = ClientRecord(client_id="given", issuer="https://as.example", client_secret="the-secret-of-given")


def get_expected_error(row: Row) -> type[Exception]:
    return next(error for pattern, error in ERRORS.items() if re.fullmatch(pattern, row.name))


def leaks(client: FlowClient, testbed: OAuthTestbed) -> list[str]:
    return [secret for secret in testbed.secrets if any(secret in text for text in client.logged)]


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
def test_deviation_tolerated(row: Row) -> None:
    testbed = OAuthTestbed(row.quirks)
    client = FlowClient(testbed=testbed)
    client.session()
    assert testbed.violations == []
    assert leaks(client, testbed) == []
    assert client.steps <= MAX_STEPS
    assert testbed.resource.accepted or row.quirks.guarded


@pytest.mark.spec(
    "auth.as-metadata-issuer-validated", "auth.as-metadata-mismatch-not-used", "auth.dcr-failure-handled",
    "auth.dcr-failure-surfaced", "auth.iss-advertised-absent", "auth.iss-advertised-present",
    "auth.iss-error-response", "auth.iss-no-normalization", "auth.iss-unadvertised-present", "auth.pkce-refuse-oidc",
    "auth.pkce-refuse-rfc8414", "auth.pkce-s256", "auth.prm-client-uses", "auth.prm-resource-mismatch-rejected",
    "auth.redirect-registered", "auth.registration-priority", "auth.state", "auth.step-up-retry-limit",
    "dpop.optional", "security.redirect-targets-validated", "security.sanitize-urls",
)  # fmt: skip
@pytest.mark.parametrize("row", REFUSED, ids=names(REFUSED))
def test_hostile_server_receives_no_credentials_and_is_reported(row: Row) -> None:
    testbed = OAuthTestbed(row.quirks)
    client = FlowClient(testbed=testbed)
    with pytest.raises(get_expected_error(row)) as caught:
        client.session()
    assert testbed.violations == []
    assert leaks(client, testbed) == []
    assert client.steps <= MAX_STEPS
    assert MARKUP.search(str(caught.value)) is None
    assert all(text not in str(caught.value) for text in ("shown_to_nobody", "a" * 1_000))


def test_discovery_error_lists_requested_urls() -> None:
    testbed = OAuthTestbed(next(row.quirks for row in REFUSED if row.name == "server-metadata-nowhere"))
    with pytest.raises(DiscoveryFailed) as caught:
        FlowClient(testbed=testbed).session()
    tried = [attempt.url for attempt in caught.value.attempts]
    assert tried == [request.url for request in testbed.requests if request.method == "GET"]
    assert "status 404" in str(caught.value)


@pytest.mark.spec("auth.step-up-union", "auth.step-up-user", "auth.reauth-keeps-scopes")
def test_step_up_requests_old_and_new_scopes() -> None:
    testbed = OAuthTestbed(READ_QUIRKS)
    client = FlowClient(testbed=testbed)
    client.session()
    assert testbed.violations == []
    assert client.tokens is not None
    assert set(client.tokens.scopes) == {"notes:read", "notes:write"}
    assert len(client.opened_urls) == 2


@pytest.mark.parametrize("kind", ["rotates", "stays"])
def test_expired_token_refreshed_with_newest_refresh_token(kind: str) -> None:
    testbed = OAuthTestbed(Quirks(refresh="rotates" if kind == "rotates" else "stays"))
    client = FlowClient(testbed=testbed)
    client.session()
    for _ in range(3):
        client.now += 4_000
        client.refresh()
        client.call("tools/call")
    assert testbed.violations == []
    assert len(client.opened_urls) == 1


def test_used_refresh_token_rejected_and_leads_to_authorization() -> None:
    testbed = OAuthTestbed()
    client = FlowClient(testbed=testbed)
    client.session()
    stale = client.tokens
    client.refresh()
    client.tokens = stale
    client.refresh()
    client.call("tools/call")
    assert [each.requirement for each in testbed.violations] == ["auth.oauth21-security"]
    assert len(client.opened_urls) == 2


@pytest.mark.spec("auth.as-change-reregister", "auth.as-change-no-reuse", "auth.no-cross-as-credentials")
def test_changed_authorization_server_receives_no_credentials() -> None:
    testbed = OAuthTestbed(
        Quirks(registration={"token_endpoint_auth_method": "client_secret_post", "client_secret": "old-secret"})
    )
    client = FlowClient(testbed=testbed)
    client.session()
    testbed.migrate()
    client.call("tools/call")
    assert testbed.violations == []
    assert client.tokens is not None
    assert client.tokens.issuer == testbed.places.other


def test_restarted_authorization_server_registers_again() -> None:
    testbed = OAuthTestbed()
    client = FlowClient(testbed=testbed)
    client.session()
    testbed.restart()
    client.call("tools/call")
    assert testbed.violations == []
    registrations = [request for request in testbed.requests if request.path == "/register"]
    assert len(registrations) == 2


@pytest.mark.spec("auth.cimd-client-id-form", "auth.cimd-client-checks", "auth.registration-priority")
def test_client_with_metadata_document_does_not_register() -> None:
    testbed = OAuthTestbed(Quirks(documents=True))
    client = FlowClient(testbed=testbed)
    client.session()
    assert testbed.violations == []
    assert all(request.path != "/register" for request in testbed.requests)
    assert {record.client_id for record in client.registered.values()} == {DOCUMENT}


@pytest.mark.parametrize(
    "quirks",
    [
        Quirks(resource_metadata={"authorization_servers": ["{issuer}/"]}),
        Quirks(resource_metadata={"authorization_servers": []}),
        Quirks(resource_metadata_at="nowhere", challenge=()),
    ],
    ids=["other spelling", "not named", "no metadata"],
)
def test_configured_authorization_server_used(quirks: Quirks) -> None:
    issuer = "https://as.example"
    testbed = OAuthTestbed(quirks, configured_issuers=[issuer])
    client = FlowClient(testbed=testbed, authorization_server=issuer)
    client.session()
    assert testbed.violations == []
    assert client.tokens is not None
    assert client.tokens.issuer == issuer


@pytest.mark.spec("auth.preregistration", "auth.credentials-keyed-by-issuer")
def test_preregistered_client_gets_token_without_registration() -> None:
    testbed = OAuthTestbed(
        Quirks(registers=False), clients=[{**CLIENT, "token_endpoint_auth_method": "client_secret_post"}]
    )
    client = FlowClient(testbed=testbed, credentials=(attrs.evolve(GIVEN, auth_method=AuthMethod.SECRET_POST),))
    client.session()
    assert testbed.violations == []


def grants(testbed: OAuthTestbed) -> list[tuple[Grant, tuple[ClientRecord, ...]]]:
    idp = ClientRecord(client_id="at-idp", issuer="https://idp.example", client_secret="the-secret-of-at-idp")
    testbed.register({"client_id": "at-idp", "client_secret": "the-secret-of-at-idp",
                    "token_endpoint_auth_method": "client_secret_basic"}, at_idp=True)  # fmt: skip
    managed = EnterpriseManaged(
        identity_provider=idp, token_endpoint="https://idp.example/token", subject_token=testbed.id_token
    )
    return [(ClientCredentials(), (GIVEN,)), (WorkloadIdentity(assertion=testbed.workload), ()), (managed, (GIVEN,))]


@pytest.mark.spec(
    "client-credentials.no-user-interaction", "client-credentials.no-dcr", "client-credentials.grant-type",
    "wif.client-grant-type", "wif.client-assertion", "wif.client-no-registration",
    "ema.no-interactive-redirect", "ema.token-exchange", "ema.audience", "ema.access-token-grant",
)  # fmt: skip
@pytest.mark.parametrize("number", [0, 1, 2], ids=["client credentials", "workload identity", "enterprise managed"])
@pytest.mark.parametrize("nonces", ["kept", "renewed"])
@pytest.mark.parametrize("dpop", ["off", "required"])
def test_grants_without_user_and_registration(number: int, nonces: str, dpop: str) -> None:
    quirks = Quirks(
        dpop="off" if dpop == "off" else "required",
        nonce_at=frozenset({Part.TOKEN, Part.MCP}),
        nonces="kept" if nonces == "kept" else "renewed",
    )
    testbed = OAuthTestbed(quirks, clients=[{**CLIENT, "token_endpoint_auth_method": "client_secret_basic"}])
    grant, credentials = grants(testbed)[number]
    proof = None if dpop == "off" else Dpop(EcKey(), random_bytes())
    client = FlowClient(testbed=testbed, grant=grant, credentials=credentials, proof=proof)
    client.session()
    assert testbed.violations == []
    assert leaks(client, testbed) == []
    assert client.opened_urls == []
    assert all(request.path != "/register" for request in testbed.requests)


@pytest.mark.spec("client-credentials.jwt-claims", "client-credentials.jwt-assertion-type")
def test_client_with_signing_key_authenticated() -> None:
    key = EcKey()
    jwks: JsonObject = {"keys": [{**key.jwk}]}
    testbed = OAuthTestbed(
        clients=[{"client_id": "signs", "token_endpoint_auth_method": "private_key_jwt", "jwks": jwks}]
    )
    credentials = ClientRecord(client_id="signs", issuer="https://as.example")
    client = FlowClient(testbed=testbed, grant=ClientCredentials(), credentials=(credentials,), signer=key)
    client.session()
    assert testbed.violations == []


@pytest.mark.spec("dpop.client-scheme", "dpop.client-fresh-proof", "dpop.client-proof-header", "dpop.client-proof-claims",
                  "dpop.client-token-request-proof", "dpop.client-as-nonce", "dpop.client-rs-nonce")  # fmt: skip
@pytest.mark.parametrize("nonces", ["kept", "renewed"])
@pytest.mark.parametrize("at", [set(), {Part.TOKEN}, {Part.MCP}, {Part.TOKEN, Part.MCP}], ids=len)
@pytest.mark.parametrize("dpop", ["accepted", "required"])
def test_dpop_proofs_with_nonces_of_both_servers(dpop: str, at: set[Part], nonces: str) -> None:
    quirks = Quirks(
        dpop="accepted" if dpop == "accepted" else "required",
        nonce_at=frozenset(at),
        nonces="kept" if nonces == "kept" else "renewed",
    )
    testbed = OAuthTestbed(quirks)
    client = FlowClient(testbed=testbed, proof=Dpop(EcKey(), random_bytes()))
    client.session()
    client.refresh()
    client.call("tools/call")
    assert testbed.violations == []
    assert client.tokens is not None
    assert client.tokens.token_type == "DPoP"
    assert len(client.opened_urls) == 1


@pytest.mark.parametrize("at", [Part.TOKEN, Part.MCP])
def test_server_that_rejects_every_nonce_abandoned(at: Part) -> None:
    testbed = OAuthTestbed(Quirks(dpop="required", nonce_at=frozenset({at}), nonces="never right"))
    client = FlowClient(testbed=testbed, proof=Dpop(EcKey(), random_bytes()))
    with pytest.raises((TokenRefused, RequestRejected)):
        client.session()
    assert testbed.violations == []
    assert len(testbed.requests) < 60


COMBINED: Final = [row for row in (*TOLERATED, *TOLERATED, *REFUSED) if not row.quirks.same_origin]
"""Tolerated rows are more frequent, so that some flows succeed. Servers of 2025-03-26 have no metadata to modify."""


def merged(several: list[Quirks]) -> Quirks:
    """Return all quirks combined: tables are merged; for other fields the last value applies."""
    combined = Quirks()
    for quirks in several:
        changes: dict[str, object] = {}
        for field in attrs.fields(Quirks):
            value, before = getattr(quirks, field.name), getattr(combined, field.name)
            if value != field.default:
                changes[field.name] = {**before, **value} if isinstance(value, Mapping) else value
        combined = attrs.evolve(combined, **changes)  # type: ignore[arg-type]  # values of these fields
    return combined


@pytest.mark.property
@settings(max_examples=150)
@given(
    rows=st.lists(st.sampled_from(COMBINED), max_size=4),
    actions=st.lists(st.sampled_from(["call", "refresh", "expire", "migrate", "restart", "wait"]), max_size=6),
    proof=st.booleans(),
)
def test_combined_quirks_flow_ends_and_breaks_no_rule(rows: list[Row], actions: list[str], proof: bool) -> None:
    testbed = OAuthTestbed(merged([row.quirks for row in rows]))
    client = FlowClient(testbed=testbed, proof=Dpop(EcKey(), random_bytes()) if proof else None)
    for action in ["session", *actions]:
        try:
            match action:
                case "session":
                    client.session()
                case "call":
                    client.call("tools/call")
                case "refresh" if client.tokens is not None:
                    client.refresh()
                case "expire":
                    testbed.server.tokens.expire()
                case "migrate" if is_published(testbed.quirks):
                    testbed.migrate()
                case "restart":
                    testbed.restart()
                case "wait":
                    client.now += 4_000
        except (AuthorizationError, RequestRejected) as error:
            client.logged.append(str(error))
    assert testbed.violations == []
    assert leaks(client, testbed) == []
    assert client.steps <= MAX_STEPS * (len(SESSION) + len(actions)) * 3
    assert len(testbed.requests) <= 400


def test_testbed_detects_violations_of_client() -> None:
    """Break a rule, to prove that the checks of the tests above can fail."""
    testbed = OAuthTestbed()
    client = FlowClient(testbed=testbed)
    client.session()
    assert client.tokens is not None
    headers = (("Authorization", f"Bearer {client.tokens.access_token}"),)
    testbed.answer(Request(method="GET", url=f"{testbed.places.other}/register", headers=headers), client.now)
    client.logged.append(client.tokens.access_token)
    assert "auth.no-cross-as-credentials" in [each.requirement for each in testbed.violations]
    assert leaks(client, testbed) == [client.tokens.access_token]
