"""Deviations of well-meaning servers, with which a conforming client still gets its token."""

from __future__ import annotations

from typing import Final

import attrs

from mcp_conformance.oauth_testbed.quirk_table import WEB_PAGE, rows
from mcp_conformance.oauth_testbed.quirks import ABSENT, CHALLENGE, Part, Quirks, Reply, Well

__all__ = ["TOLERATED"]

_RESOURCE: Final = Part.RESOURCE_METADATA
_SERVER: Final = Part.SERVER_METADATA
_METHOD: Final = "token_endpoint_auth_method"
_ADVERTISED: Final = "authorization_response_iss_parameter_supported"

TOLERATED: Final = rows(
    {
        "nothing-odd": (Quirks(), None),
        # The challenge.
        "challenge-unquoted": (
            Quirks(challenge=("Bearer resource_metadata={prm}, scope=notes:read",)),
            "auth.client-parses-www-authenticate",
        ),
        "challenge-lower-case": (
            Quirks(challenge=(CHALLENGE.replace("Bearer", "bearer"),)),
            "auth.client-parses-www-authenticate",
        ),
        "challenge-among-others-in-one-line": (
            Quirks(challenge=(f'Basic realm="a, b", {CHALLENGE}, Negotiate YII=',)),
            "auth.client-parses-www-authenticate",
        ),
        "challenge-in-its-own-line": (
            Quirks(challenge=("Negotiate", 'Basic realm="x"', CHALLENGE)),
            "auth.client-parses-www-authenticate",
        ),
        "challenge-without-metadata": (Quirks(challenge=('Bearer realm="x"',)), "auth.client-prm-fallback-order"),
        "challenge-without-metadata-at-root": (
            Quirks(challenge=("Bearer",), resource_metadata_at="root"),
            "auth.client-prm-fallback-order",
        ),
        "no-challenge": (Quirks(challenge=()), "auth.client-both-prm-mechanisms"),
        "no-scope-anywhere": (Quirks(scopes=(), resource_metadata={"scopes_supported": ABSENT}), "auth.scope-omitted"),
        "no-scope-in-the-challenge": (
            Quirks(challenge=('Bearer resource_metadata="{prm}"',)),
            "auth.scope-priority-supported",
        ),
        "only-initialized-is-refused": (Quirks(guarded=("notifications/initialized",)), None),
        "only-calls-are-refused": (Quirks(guarded=("tools/call",)), None),
        # The location and the content of the metadata.
        "metadata-elsewhere": (Quirks(resource_metadata_at="elsewhere"), "auth.client-prm-header-preferred"),
        "metadata-at-root": (Quirks(resource_metadata_at="root"), "auth.client-prm-header-preferred"),
        "resource-with-slash": (
            Quirks(resource_metadata={"resource": "{resource}/"}),
            "auth.resource-no-trailing-slash",
        ),
        "resource-is-the-origin": (
            Quirks(resource_metadata_at="root", resource_metadata={"resource": "{origin}"}),
            None,
        ),
        "resource-is-the-origin-with-slash": (
            Quirks(resource_metadata_at="root", resource_metadata={"resource": "{origin}/"}),
            None,
        ),
        "metadata-page-at-openid-place": (
            Quirks(server_metadata_at=(Well.OPENID_APPENDED,)),
            "auth.client-both-as-metadata",
        ),
        "page-in-place-of-metadata": (
            Quirks(server_metadata_at=(Well.OPENID_APPENDED,), replies={_SERVER: attrs.evolve(WEB_PAGE, times=1)}),
            "auth.as-wellknown-multiple",
        ),
        "page-in-place-of-resource-metadata": (
            Quirks(challenge=(), resource_metadata_at="root", replies={_RESOURCE: attrs.evolve(WEB_PAGE, times=1)}),
            "auth.client-prm-fallback-order",
        ),
        "issuer-with-path": (Quirks(issuer="{server}/tenant"), "auth.as-wellknown-path-order"),
        "issuer-with-path-openid-inserted": (
            Quirks(issuer="{server}/tenant", server_metadata_at=(Well.OPENID_INSERTED,)),
            "auth.as-wellknown-path-order",
        ),
        "issuer-with-path-openid-appended": (
            Quirks(issuer="{server}/tenant", server_metadata_at=(Well.OPENID_APPENDED,)),
            "auth.as-wellknown-path-order",
        ),
        "issuer-with-path-oauth-appended": (
            Quirks(issuer="{server}/tenant", server_metadata_at=(Well.OAUTH_APPENDED,)),
            None,
        ),
        "issuer-with-slash": (Quirks(issuer="{server}/"), "auth.iss-no-normalization"),
        "several-authorization-servers": (
            Quirks(resource_metadata={"authorization_servers": ["{issuer}", "{other}"]}),
            None,
        ),
        "authorization-servers-as-text": (Quirks(resource_metadata={"authorization_servers": "{issuer}"}), None),
        "scopes-as-text": (Quirks(resource_metadata={"scopes_supported": "notes:read other"}), None),
        "iss-not-advertised-and-absent": (
            Quirks(
                server_metadata={_ADVERTISED: ABSENT},
                authorization={"iss": ABSENT},
            ),
            "auth.iss-unadvertised-absent",
        ),
        "iss-not-advertised-and-right": (
            Quirks(server_metadata={_ADVERTISED: ABSENT}),
            "auth.iss-unadvertised-present",
        ),
        "offline-access-listed": (
            Quirks(server_metadata={"scopes_supported": ["notes:read", "offline_access"]}),
            "auth.refresh-offline-access",
        ),
        "endpoints-elsewhere": (
            Quirks(
                server_metadata={
                    "authorization_endpoint": "{server}/oauth2/v1/authorize?tenant=1",
                    "token_endpoint": "{server}/oauth2/v1/token",
                    "registration_endpoint": "{server}/oauth2/v1/register",
                }
            ),
            "auth.client-both-as-metadata",
        ),
        "media-type-with-charset": (Quirks(json_type="application/json; charset=utf-8"), None),
        "members-of-another-kind": (
            Quirks(
                server_metadata={
                    "jwks_uri": 7,
                    "op_policy_uri": None,
                    "scopes_supported": {},
                    "ui_locales_supported": True,
                }
            ),
            None,
        ),
        # A server of 2025-03-26.
        "own-authorization-server": (
            Quirks(same_origin=True, resource_metadata_at="nowhere", challenge=()),
            "auth.client-metadata-first",
        ),
        "own-authorization-server-with-slash": (
            Quirks(same_origin=True, resource_metadata_at="nowhere", challenge=(), issuer="{server}/"),
            "auth.client-metadata-first",
        ),
        "default-paths": (
            Quirks(
                same_origin=True,
                resource_metadata_at="nowhere",
                challenge=(),
                server_metadata_at=(),
                authorization={"iss": ABSENT},
            ),
            "auth.client-default-endpoints",
        ),
        # Client registration.
        "registration-gives-a-secret": (
            Quirks(registration={_METHOD: "client_secret_post", "client_secret": "given-secret-text"}),
            "auth.dcr-client",
        ),
        "registration-gives-a-basic-secret": (
            Quirks(registration={_METHOD: "client_secret_basic", "client_secret": "given:secret text"}),
            "auth.dcr-client",
        ),
        "registration-wants-a-secret": (
            Quirks(server_metadata={"token_endpoint_auth_methods_supported": ["client_secret_basic"]}),
            "auth.dcr-client",
        ),
        "registration-lists-more-redirect-uris": (
            Quirks(registration={"redirect_uris": ["http://127.0.0.1/callback", "https://web.example/back"]}),
            None,
        ),
        "registration-leaves-out-redirect-uris": (Quirks(registration={"redirect_uris": ABSENT}), None),
        "client-documents": (Quirks(documents=True), "auth.cimd-client-checks"),
        "client-documents-but-no-public-clients": (
            Quirks(documents=True, server_metadata={"token_endpoint_auth_methods_supported": ["client_secret_post"]}),
            None,
        ),
        "client-forgotten-once": (Quirks(forgets=1), "auth.registration-obtained"),
        # The authorization response and the token response.
        "stray-answers-first": (
            Quirks(strays=({"code": "{code}", "state": "guessed"}, {"error": "access_denied"}, {"code": "{code}"})),
            "auth.state",
        ),
        "token-type-in-lower-case": (Quirks(token={"token_type": "bearer"}), None),
        "token-type-missing": (Quirks(token={"token_type": ABSENT}), None),
        "expires-in-as-text": (Quirks(token={"expires_in": "3600"}), None),
        "expires-in-as-fraction": (Quirks(token={"expires_in": 3599.5}), None),
        "expires-in-missing": (Quirks(token={"expires_in": ABSENT}), None),
        "expires-in-null": (Quirks(token={"expires_in": None}), None),
        "expires-in-negative": (Quirks(token={"expires_in": -1}), None),
        "scope-as-list": (Quirks(token={"scope": ["notes:read"]}), None),
        "scope-missing": (Quirks(token={"scope": ABSENT}), None),
        "no-refresh-token": (Quirks(refresh="never"), "auth.refresh-not-assumed"),
        "refresh-token-null": (Quirks(token={"refresh_token": None}), "auth.refresh-not-assumed"),
        "refresh-token-stays": (Quirks(refresh="stays"), None),
        "refresh-token-issued-once": (Quirks(refresh="issued once"), None),
        "codes-and-tokens-with-all-characters": (Quirks(strange_texts=True), None),
        "token-as-form": (Quirks(token_as_form=True), None),
        "token-answer-with-more": (Quirks(token={"id_token": "x.y.z", "error": None, "example_parameter": [1]}), None),
        "token-member-twice": (Quirks(appended={Part.TOKEN: '"expires_in": 3600'}), None),
        # Tokens bound to keys. A client without a key is not required to have one.
        "keys-accepted": (Quirks(dpop="accepted"), "dpop.optional"),
        # Slow responses.
        "slow-answers": (
            Quirks(replies=dict.fromkeys((_RESOURCE, _SERVER, Part.REGISTRATION, Part.TOKEN), Reply(delay=2.0))),
            None,
        ),
        "metadata-redirected-within-the-origin": (
            Quirks(replies={_RESOURCE: Reply(status=302, headers=(("Location", "{prm}"),), times=1)}),
            None,
        ),
    }
)
"""The deviations with which a client still gets its token."""
