"""Scenarios of the authorization extensions: other grants, and tokens that are bound to a key.

The client receives the necessary data in the context. A client without the extension may do nothing.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from joserfc import jws
from joserfc.jwk import ECKey

from mcp_conformance.oauth_testbed.quirks import Part, Quirks
from mcp_conformance.oauth_testbed.registered_clients import ANY_SECRET_METHOD
from mcp_conformance.scenarios.oauth_scenario import OAuthSetup, expire_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.oauth_testbed.http_messages import Request, Response
    from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["GRANTS"]

_SECRET: Final = "machine:secret with space + 100%"
_IDP_SECRET: Final = "secret-at-the-identity-provider"
_HOUR: Final = 3600
_KEYS: Final = frozenset({Part.TOKEN, Part.MCP})


def _stop_trusting(testbed: OAuthTestbed) -> None:
    """Expire the access token as soon as it is used, and trust no assertion any more."""

    def watch(_request: Request, _answer: Response | None) -> None:
        if testbed.resource.accepted == 1:
            testbed.server.tokens.expire()
            testbed.server.tokens.assertions = {}

    testbed.watch = watch


def _by_secret(testbed: OAuthTestbed) -> JsonObject:
    expire_tokens(testbed)
    testbed.register(
        {"client_id": "machine", "client_secret": _SECRET, "token_endpoint_auth_method": ANY_SECRET_METHOD}
    )
    return {"client_id": "machine", "client_secret": _SECRET}


def _by_key(testbed: OAuthTestbed) -> JsonObject:
    expire_tokens(testbed)
    key = ECKey.generate_key("P-256")
    public: JsonObject = {name: str(value) for name, value in key.as_dict(private=False).items()}
    testbed.register(
        {"client_id": "machine", "jwks": {"keys": [public]}, "token_endpoint_auth_method": "private_key_jwt"}
    )
    pem = key.as_pem(private=True).decode("ascii")
    return {"client_id": "machine", "private_key_pem": pem, "signing_algorithm": "ES256"}


def _by_employee(testbed: OAuthTestbed) -> JsonObject:
    _stop_trusting(testbed)
    testbed.register({"client_id": "app", "client_secret": _SECRET, "token_endpoint_auth_method": ANY_SECRET_METHOD})
    testbed.register({"client_id": "app-at-idp"}, at_idp=True)
    origin = testbed.idp.clients.issuer
    return {
        "client_id": "app",
        "client_secret": _SECRET,
        "idp_client_id": "app-at-idp",
        "idp_id_token": testbed.id_token,
        "idp_issuer": origin,
        "idp_token_endpoint": f"{origin}/token",
    }


def _by_employee_with_secret(testbed: OAuthTestbed) -> JsonObject:
    """Give the client a secret at the identity provider, too."""
    context = _by_employee(testbed)
    known: JsonObject = {"client_id": "app-at-idp", "client_secret": _IDP_SECRET}
    testbed.register({**known, "token_endpoint_auth_method": ANY_SECRET_METHOD}, at_idp=True)
    return {**context, "idp_client_secret": _IDP_SECRET}


def _signed_workload(testbed: OAuthTestbed) -> JsonObject:
    """Sign the JWT of a workload, as its platform does. The client may read the claims of the JWT, and sends it unchanged."""
    now = int(time.time())
    claims: JsonObject = {
        "iss": "https://platform.example",
        "sub": "workload",
        "aud": testbed.places.issuer,
        "iat": now,
        "exp": now + _HOUR,
        "jti": "workload-1",
    }
    key = ECKey.generate_key("P-256")
    testbed.workload = jws.serialize_compact({"alg": "ES256", "typ": "JWT"}, json.dumps(claims), key)
    testbed.recorder.secrets[testbed.workload] = testbed.places.server
    return {"client_id": "workload", "valid_jwt": testbed.workload}


def _by_workload(testbed: OAuthTestbed) -> JsonObject:
    expire_tokens(testbed)
    context = _signed_workload(testbed)
    testbed.server.assertions[testbed.workload] = "wif.client-assertion"
    return context


def _by_workload_refused(testbed: OAuthTestbed) -> JsonObject:
    """Issue a JWT of a platform that the authorization server does not trust."""
    return _signed_workload(testbed)


_TENANT: Final = "{server}/tenant1"
"""An issuer that is neither an origin nor the URL of an endpoint."""

GRANTS: Final[Mapping[str, tuple[str, OAuthSetup]]] = {
    "client-credentials-basic": (
        "A client that acts on its own behalf, with a secret. Access tokens expire early.",
        OAuthSetup(begin=_by_secret),
    ),
    "client-credentials-jwt": (
        "A client that acts on its own behalf, with a key. Access tokens expire early.",
        OAuthSetup(quirks=Quirks(issuer=_TENANT), begin=_by_key),
    ),
    "enterprise-managed-authorization": (
        "A client of an employee who has an ID token of the enterprise. The access token expires early, and then the "
        "authorization server does not trust the enterprise any more.",
        OAuthSetup(quirks=Quirks(registers=False, issuer=_TENANT), begin=_by_employee),
    ),
    "enterprise-managed-authorization-secret": (
        "The same; the identity provider requires a secret of the client, which is `idp_client_secret` in the context.",
        OAuthSetup(quirks=Quirks(registers=False, issuer=_TENANT), begin=_by_employee_with_secret),
    ),
    "wif-jwt-bearer": (
        "A workload with a JWT of its platform, which the authorization server trusts. Access tokens expire early.",
        OAuthSetup(begin=_by_workload),
    ),
    "wif-refused": (
        "A workload with a JWT of its platform, which the authorization server does not trust.",
        OAuthSetup(begin=_by_workload_refused),
    ),
    "dpop": (
        "Access tokens are bound to keys (DPoP), and expire early.",
        OAuthSetup(quirks=Quirks(dpop="required"), begin=expire_tokens),
    ),
    "dpop-nonce": (
        "Access tokens are bound to keys, and proofs need a nonce of each server. The URL of the MCP server has a query.",
        OAuthSetup(quirks=Quirks(dpop="required", nonce_at=_KEYS, nonces="renewed"), path="/mcp?tenant=notes"),
    ),
}
"""The description and the setup of each scenario, by name."""
