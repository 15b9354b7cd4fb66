"""Deviations of hostile, broken or denying servers, with which a client must not or cannot get a token or its result.

The client of these rows has no client id beforehand, no user who would enter one, and no key for DPoP.
"""

from __future__ import annotations

import math
from typing import Final

from mcp_conformance.oauth_testbed.quirk_table import STRANGE_URLS, WEB_PAGE, rows
from mcp_conformance.oauth_testbed.quirks import ABSENT, SCOPE, Part, Quirks, Reply, Well

__all__ = ["REFUSED"]

_HTML: Final = (("Content-Type", "text/html"),)
_RESOURCE: Final = Part.RESOURCE_METADATA
_SERVER: Final = Part.SERVER_METADATA
_METHODS: Final = "code_challenge_methods_supported"
_ADVERTISED: Final = "authorization_response_iss_parameter_supported"
_WRITE: Final = {"tools/call": ("notes:write",)}


def _redirected(part: Part, to: str, status: int = 302) -> Quirks:
    return Quirks(replies={part: Reply(status=status, headers=(("Location", to),))})


_WRONG_ISSUERS: Final = {
    "slash": "{server}/",
    "case": "{server}/A",
    "port": "{server}:443",
    "stranger": "{evil}",
    "http": "http://as.example",
    "empty": "",
}

REFUSED: Final = rows(
    {
        "resource-of-a-stranger": (
            Quirks(resource_metadata={"resource": "{evil}/mcp"}),
            "auth.prm-resource-mismatch-rejected",
        ),
        "resource-sibling": (
            Quirks(resource_metadata={"resource": "{resource}-evil"}),
            "auth.prm-resource-mismatch-rejected",
        ),
        "resource-climbs-out": (
            Quirks(resource_metadata={"resource": "{resource}/../admin"}),
            "auth.prm-resource-mismatch-rejected",
        ),
        "resource-climbs-out-encoded": (
            Quirks(resource_metadata={"resource": "{resource}/%2e%2e/admin"}),
            "auth.prm-resource-mismatch-rejected",
        ),
        "resource-other-port": (
            Quirks(resource_metadata={"resource": "{origin}:8443/mcp"}),
            "auth.prm-resource-mismatch-rejected",
        ),
        "no-authorization-server": (Quirks(resource_metadata={"authorization_servers": []}), "auth.prm-client-uses"),
        "resource-metadata-broken": (Quirks(replies={_RESOURCE: Reply(status=503)}), None),
        "resource-metadata-page": (Quirks(replies={_RESOURCE: WEB_PAGE}), None),
        "resource-metadata-huge": (
            Quirks(replies={_RESOURCE: Reply(status=200, body=b'{"resource": "' + b"a" * 300_000 + b'"}')}),
            None,
        ),
        "resource-metadata-redirected-away": (
            _redirected(_RESOURCE, "{evil}/prm"),
            "security.redirect-targets-validated",
        ),
        "server-metadata-redirected-away": (
            _redirected(_SERVER, "{evil}/metadata"),
            "security.redirect-targets-validated",
        ),
        "server-metadata-redirected-to-cloud": (
            _redirected(_SERVER, "http://169.254.169.254/"),
            "security.redirect-targets-validated",
        ),
        "server-metadata-page": (Quirks(replies={_SERVER: WEB_PAGE}), None),
        "server-metadata-null": (Quirks(replies={_SERVER: Reply(status=200, body=b"null")}), None),
        "server-metadata-deep": (Quirks(replies={_SERVER: Reply(status=200, body=b"[" * 100_000)}), None),
        "server-metadata-nowhere": (Quirks(server_metadata_at=()), None),
        "issuer-missing": (Quirks(server_metadata={"issuer": ABSENT}), "auth.as-metadata-issuer-validated"),
        **{
            f"issuer-{name}": (Quirks(server_metadata={"issuer": issuer}), "auth.as-metadata-mismatch-not-used")
            for name, issuer in _WRONG_ISSUERS.items()
        },
        "issuer-twice": (Quirks(appended={_SERVER: '"issuer": "{evil}"'}), "auth.as-metadata-mismatch-not-used"),
        "no-pkce": (Quirks(server_metadata={_METHODS: ABSENT}), "auth.pkce-refuse-rfc8414"),
        "no-pkce-openid": (
            Quirks(server_metadata_at=(Well.OPENID_APPENDED,), server_metadata={_METHODS: ABSENT}),
            "auth.pkce-refuse-oidc",
        ),
        "plain-pkce": (Quirks(server_metadata={_METHODS: ["plain"]}), "auth.pkce-s256"),
        "no-token-endpoint": (Quirks(server_metadata={"token_endpoint": ABSENT}), None),
        "no-authorization-endpoint": (Quirks(server_metadata={"authorization_endpoint": ABSENT}), None),
        "authorization-endpoint-fixes-the-state": (
            Quirks(server_metadata={"authorization_endpoint": "{server}/authorize?state=x"}),
            "auth.state",
        ),
        **{
            f"{name}-{kind}": (Quirks(server_metadata={name: url}), "security.sanitize-urls")
            for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint")
            for kind, url in STRANGE_URLS.items()
        },
        **{
            f"authorization_servers-{kind}": (
                Quirks(resource_metadata={"authorization_servers": [url]}),
                "security.sanitize-urls",
            )
            for kind, url in STRANGE_URLS.items()
        },
        "authorization_servers-well-known": (
            Quirks(resource_metadata={"authorization_servers": [Well.OAUTH.value.format(origin="{issuer}", path="")]}),
            "auth.as-metadata-issuer-validated",
        ),
        "issuer-listed-with-slash": (
            Quirks(resource_metadata={"authorization_servers": ["{issuer}/"]}),
            "auth.as-metadata-mismatch-not-used",
        ),
        "no-way-to-register": (Quirks(registers=False), "auth.registration-priority"),
        "registration-refused": (
            Quirks(replies={Part.REGISTRATION: Reply(status=403, body=b'{"error": "access_denied"}')}),
            "auth.dcr-failure-handled",
        ),
        "registration-refused-by-a-page": (
            Quirks(replies={Part.REGISTRATION: Reply(status=403, headers=_HTML, body=b"<html>no</html>")}),
            "auth.dcr-failure-surfaced",
        ),
        "registration-redirected": (
            _redirected(Part.REGISTRATION, "{evil}/register", 307),
            "security.redirect-targets-validated",
        ),
        "registration-changes-redirect-uris": (
            Quirks(registration={"redirect_uris": ["https://web.example/back"]}),
            "auth.redirect-registered",
        ),
        "registration-changes-the-method": (
            Quirks(registration={"token_endpoint_auth_method": "tls_client_auth"}),
            None,
        ),
        "registration-without-id": (Quirks(registration={"client_id": ABSENT}), None),
        "client-forgotten-for-ever": (Quirks(forgets=1_000), None),
        "access-denied": (Quirks(authorization={"code": ABSENT, "error": "access_denied"}), None),
        "access-denied-with-markup": (
            Quirks(
                authorization={
                    "code": ABSENT,
                    "error": "access_denied",
                    "error_description": "<script>alert(1)</script>\x1b[2J\r\n\u202e",
                }
            ),
            None,
        ),
        "error-of-another-issuer": (
            Quirks(authorization={"code": ABSENT, "error": "shown_to_nobody", "iss": "{evil}"}),
            "auth.iss-error-response",
        ),
        "iss-of-another-issuer": (Quirks(authorization={"iss": "{evil}"}), "auth.iss-advertised-present"),
        "iss-with-slash": (Quirks(authorization={"iss": "{issuer}/"}), "auth.iss-no-normalization"),
        "iss-advertised-and-absent": (Quirks(authorization={"iss": ABSENT}), "auth.iss-advertised-absent"),
        "iss-not-advertised-and-wrong": (
            Quirks(
                server_metadata={_ADVERTISED: ABSENT},
                authorization={"iss": "{evil}"},
            ),
            "auth.iss-unadvertised-present",
        ),
        "mix-up-before-the-right-answer": (
            Quirks(strays=({"code": "{code}", "state": "{state}", "iss": "{evil}"},)),
            "auth.iss-advertised-present",
        ),
        "state-of-somebody-else": (Quirks(authorization={"state": "guessed"}), "auth.state"),
        "state-missing": (Quirks(authorization={"state": ABSENT}), "auth.state"),
        "neither-code-nor-error": (Quirks(authorization={"code": ABSENT}), None),
        "token-endpoint-broken": (
            Quirks(replies={Part.TOKEN: Reply(status=503, headers=_HTML, body=b"<html>busy</html>")}),
            None,
        ),
        "token-endpoint-silent": (Quirks(replies={Part.TOKEN: Reply(delay=math.inf)}), None),
        "token-endpoint-redirected": (
            _redirected(Part.TOKEN, "{evil}/token", 307),
            "security.redirect-targets-validated",
        ),
        "token-endpoint-redirected-within": (_redirected(Part.TOKEN, "{server}/token2", 308), None),
        "token-answer-empty": (Quirks(replies={Part.TOKEN: Reply(status=200)}), None),
        "token-answer-huge": (
            Quirks(replies={Part.TOKEN: Reply(status=200, body=b'{"access_token": "' + b"a" * 300_000 + b'"}')}),
            None,
        ),
        "token-refused": (
            Quirks(
                replies={
                    Part.TOKEN: Reply(
                        status=400, body=b'{"error": "invalid_grant", "error_description": "<b>\\u001b[31m"}'
                    )
                }
            ),
            None,
        ),
        "token-refused-with-status-200": (Quirks(token={"error": "invalid_grant"}), None),
        "token-missing": (Quirks(token={"access_token": ABSENT}), None),
        "token-no-text": (Quirks(token={"access_token": 7}), None),
        "token-splits-headers": (Quirks(token={"access_token": "x\r\nX-Evil: 1"}), None),
        "token-type-unknown": (Quirks(token={"token_type": "mac"}), None),
        "keys-required": (Quirks(dpop="required"), "dpop.optional"),
        "scope-never-enough": (
            Quirks(insatiable=True, scopes_of=_WRITE),
            "auth.step-up-retry-limit",
        ),
        "scope-granted-never": (Quirks(token={"scope": "other"}), "auth.step-up-retry-limit"),
        "scope-demanded-and-there": (
            Quirks(
                insatiable=True,
                scopes_of=_WRITE,
                challenge_scope=(SCOPE.replace("{scope}", "notes:read"),),
            ),
            "auth.step-up-retry-limit",
        ),
        "scope-with-markup": (
            Quirks(
                insatiable=True,
                scopes_of=_WRITE,
                challenge_scope=(SCOPE.replace("{scope}", "{scope} \x9b31mred"),),
                token={"scope": "notes:read \x1b[31mred\u202e"},
            ),
            "auth.step-up-retry-limit",
        ),
        "forbidden-without-reason": (
            Quirks(insatiable=True, scopes_of=_WRITE, challenge_scope=()),
            None,
        ),
        "forbidden-with-a-bare-challenge": (
            Quirks(insatiable=True, scopes_of=_WRITE, challenge_scope=("Bearer",)),
            None,
        ),
    }
)
"""The deviations with which a client gets no token, or no result for it."""
