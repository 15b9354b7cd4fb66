"""Scenarios with a protected MCP server and an authorization server: correct, unusual or hostile.

Names shared with the official framework have the same meaning there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.check import Transport
from mcp_conformance.oauth_testbed.quirks import ABSENT, CHALLENGE, INVALID, SCOPE, Changes, Part, Quirks, Reply, Well
from mcp_conformance.oauth_testbed.registered_clients import ANY_SECRET_METHOD, Client
from mcp_conformance.scenarios.oauth_grants import GRANTS
from mcp_conformance.scenarios.oauth_scenario import OAuthSetup, expire_first_token, expire_tokens
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LATEST, R2025_03_26, R2025_06_18, R2025_11_25, between

if TYPE_CHECKING:
    from mcp_conformance.oauth_testbed.http_messages import Request, Response
    from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

__all__ = ["FOREIGN_ERROR", "OAUTH_SCENARIOS", "UNASKED"]

FOREIGN_ERROR: Final = "shown_to_nobody"
"""The text in an authorization response that is not from the authorization server: error, description and page."""
UNASKED: Final = "notes:unasked"
"""A scope that a challenge contains, but not as its scope."""

_FIRST: Final = frozenset({R2025_03_26})
_NOW: Final = frozenset({LATEST})
_RESOURCES: Final = between(R2025_06_18)
_LATE: Final = between(R2025_11_25)
_HTTP: Final = frozenset({Transport.HTTP})

_METHODS: Final = "code_challenge_methods_supported"
_ADVERTISED: Final = "authorization_response_iss_parameter_supported"
_UNNAMED: Final = ('Bearer realm="notes"',)
_OWN: Final = Quirks(same_origin=True, resource_metadata_at="nowhere", challenge=(), scopes=())
"""A server that is its own authorization server. In 2025-03-26 no document states the required scopes."""
_MOVED: Final[Changes] = {
    "authorization_endpoint": "{server}/oauth2/v1/authorize?tenant=1",
    "token_endpoint": "{server}/oauth2/v1/token",
    "registration_endpoint": "{server}/oauth2/v1/register",
}
"""Endpoints at other URLs than the default ones of 2025-03-26."""
_UNKNOWN: Final[Changes] = {"example_parameter": {"of": [None, 1.5]}}
"""A member that no specification defines, and that clients ignore (RFC 6749, 7591, 8414, 9728)."""
_OTHER_SCOPES: Final[Changes] = {"scopes_supported": ["openid", "profile", "notes:read"]}
"""Scopes of an authorization server that also serves others. Its list may be incomplete (RFC 8414, section 2)."""
_DEEP: Final = "/v1/mcp"
_WRITE: Final = {"tools/call": ("notes:write",)}
_EVERYTHING: Final = dict.fromkeys(("initialize", "server/discover", "tools/list", "tools/call"), ("notes:admin",))
_GIVEN: Final[JsonObject] = {
    "client_id": "given-client",
    "client_secret": "given-client-secret",
    "token_endpoint_auth_method": "client_secret_basic",
}
_AWAY: Final = Reply(status=307, headers=(("Location", "{evil}/collect"),))
_ERROR: Final[Changes] = {
    "code": ABSENT,
    "error": FOREIGN_ERROR,
    "error_description": FOREIGN_ERROR,
    "error_uri": f"{{evil}}/{FOREIGN_ERROR}",
    "iss": "{evil}",
}
_NOT_SHOWN: Final = Reply(status=403, times=1)
"""The response of some file servers, as of object stores, to a URL at which there is nothing."""
_NO_URIS: Final = Reply(
    status=400, body=b'{"error": "invalid_redirect_uri", "error_description": "only our own applications"}'
)


def _assigned(method: str) -> Changes:
    """Return the changes of a registration by which the authorization server assigns a method and a secret (RFC 7591).

    The id and the secret have characters that must be encoded in a URL and in a form. No scope is registered.
    """
    return {
        "token_endpoint_auth_method": method,
        "client_id": "assigned client/1+%26&=",
        "client_secret": "assigned/secret+%26&=",
        "client_secret_expires_at": 0,
        "scope": ABSENT,
    }


def _preregistered(testbed: OAuthTestbed) -> JsonObject:
    """Give the client an id, a secret and their issuer."""
    testbed.register({**_GIVEN, "token_endpoint_auth_method": ANY_SECRET_METHOD})
    return {"client_id": "given-client", "client_secret": "given-client-secret", "issuer": testbed.places.issuer}


def _preregistered_elsewhere(testbed: OAuthTestbed) -> JsonObject:
    """Give the client an id and a secret of another authorization server."""
    client = Client.of(_GIVEN)
    testbed.other.clients.registered[client.client_id] = client
    return {**_GIVEN, "issuer": testbed.places.other}


def _migrating(testbed: OAuthTestbed) -> None:
    """Move the server to another authorization server after the first request with a token."""

    def watch(_request: Request, _answer: Response | None) -> None:
        if testbed.resource.accepted and not testbed.server.retired:
            testbed.migrate()

    testbed.watch = watch


def _revoking(testbed: OAuthTestbed) -> None:
    """Revoke all tokens, also the refresh token, after the first request with a token."""
    revoked: list[bool] = []

    def watch(_request: Request, _answer: Response | None) -> None:
        if testbed.resource.accepted and not revoked:
            revoked.append(True)
            testbed.server.tokens.revoke()

    testbed.watch = watch


def _preregistered_expiring(testbed: OAuthTestbed) -> JsonObject:
    """Give the client an id and a secret, and expire its access tokens."""
    expire_tokens(testbed)
    return _preregistered(testbed)


def _nothing(_: ScenarioSetup) -> None:
    """Change nothing: the scenario has no fake server."""


def _of(
    name: str, title: str, revisions: frozenset[Revision], oauth_setup: Quirks | OAuthSetup, *, prefix: str = "auth/"
) -> Scenario:
    return Scenario(
        name=prefix + name,
        title=title,
        prepare=_nothing,
        revisions=revisions,
        transports=_HTTP,
        oauth_setup=OAuthSetup(quirks=oauth_setup) if isinstance(oauth_setup, Quirks) else oauth_setup,
    )


_DISCOVERY: Final = (
    _of("metadata-default", "A correct server that requires a token.", _RESOURCES, Quirks()),
    _of(
        "metadata-var1",
        "The URL of the server has a path with an encoded slash. Its metadata are at the well-known path, without a hint in "
        "the challenge; those of the authorization server are at the OpenID Connect path, and the first request for them "
        "gets 403.",
        _LATE,
        OAuthSetup(
            quirks=Quirks(
                challenge=_UNNAMED,
                server_metadata_at=(Well.OPENID_APPENDED,),
                replies={Part.SERVER_METADATA: _NOT_SHOWN},
            ),
            path="/v1/team%2Fa/mcp",
        ),
    ),
    _of(
        "metadata-var2",
        "The metadata of the server are at the root, the first request for them gets 403, and there is no challenge; the "
        "issuer has a path of two segments. A call needs an additional scope, and the token with it has an unknown type.",
        _LATE,
        Quirks(
            challenge=(),
            replies={Part.RESOURCE_METADATA: _NOT_SHOWN},
            resource_metadata_at="root",
            resource_metadata={"resource": "{origin}", "scopes_supported": ["notes:read"]},
            issuer="{server}/realms/tenant1",
            scopes_of=_WRITE,
            token_later={"token_type": "mac"},
        ),
    ),
    _of(
        "metadata-var3",
        "The metadata of the server are at a URL that only the challenge states; the issuer has a path, and its metadata "
        "are at the OpenID Connect path. In 2025-11-25 the stream of a call ends before the response, and the client must "
        "resume it. In 2026-07-28 the server declares changes of its tools, and ends each subscription at once.",
        _LATE,
        Quirks(
            resource_metadata_at="elsewhere",
            issuer="{server}/tenant1",
            server_metadata_at=(Well.OPENID_APPENDED,),
            resumes=True,
            listens=True,
        ),
    ),
    _of(
        "challenge-among-others",
        "The challenge is one of several in the second of two headers. Its scheme is in lower case, and quoted strings "
        "contain commas, escaped quotation marks and what looks like its parameters. A parameter has a name that ends with "
        "that of another one. The issuer has a path, and the endpoints of the authorization server have other paths than "
        "usual, the first with a query.",
        _RESOURCES,
        Quirks(
            resource_metadata_at="elsewhere",
            issuer="{server}/tenant1",
            server_metadata=_MOVED,
            challenge=(
                "Negotiate",
                'Basic realm="a, Bearer b", '
                rf'bearer realm="say \"resource_metadata={{evil}}/prm\", scope={UNASKED}", example_scope="{UNASKED}", '
                f"{CHALLENGE.removeprefix('Bearer ')}, "
                r'error_description="say \"resource_metadata={evil}/prm\" again", Negotiate YII=',
            ),
        ),
    ),
    _of(
        "challenge-unquoted",
        "Only calls need a token. The challenge is in the first of two headers. Its scope is not quoted, and has a name in "
        "upper case. There are blanks around an equals sign.",
        _RESOURCES,
        Quirks(
            guarded=("tools/call",),
            resource_metadata_at="elsewhere",
            resource_metadata={"scopes_supported": ["profile"]},
            scopes=("read",),
            # A recipient has to remove such blanks (RFC 9110, sections 5.6.3 and 11.2).
            challenge=('Bearer SCOPE=read, resource_metadata = "{prm}"', 'Basic realm="notes"'),
        ),
    ),
    _of(
        "resource-in-upper-case",
        "The metadata name the server with its scheme and host in upper case. Later all tokens are revoked, and the "
        "response to the second authorization request has a wrong state.",
        _RESOURCES,
        OAuthSetup(
            quirks=Quirks(resource_metadata={"resource": "{shouted}"}, authorization_later={"state": "guessed"}),
            begin=_revoking,
        ),
    ),
    _of(
        "resource-mismatch",
        "The metadata are those of another server on the same host, with whose URL that of the server begins.",
        _NOW,
        Quirks(resource_metadata={"resource": "{origin}/mc"}),
    ),
    _of(
        "resource-sibling",
        "The metadata are those of another server on the same host, whose URL begins as that of the server.",
        _NOW,
        Quirks(resource_metadata={"resource": "{resource}-other"}),
    ),
    _of(
        "metadata-issuer-mismatch",
        "The metadata of the authorization server name another issuer.",
        _NOW,
        Quirks(server_metadata={"issuer": "{evil}"}),
    ),
    _of(
        "metadata-issuer-slash",
        "The metadata of the authorization server name its issuer with a trailing slash.",
        _NOW,
        Quirks(server_metadata={"issuer": "{server}/"}),
    ),
    _of(
        "metadata-issuer-upper-case",
        "The OpenID Connect metadata of the authorization server name its issuer with its scheme and host in upper case.",
        _NOW,
        Quirks(server_metadata_at=(Well.OPENID_APPENDED,), server_metadata={"issuer": "{shouted_issuer}"}),
    ),
    _of(
        "2025-03-26-oauth-metadata-backcompat",
        "A server that is its own authorization server, with metadata.",
        _FIRST,
        _OWN,
    ),
    _of(
        "2025-03-26-oauth-endpoint-fallback",
        "A server that is its own authorization server, without metadata. Its URL has a path of two segments.",
        _FIRST,
        OAuthSetup(quirks=attrs.evolve(_OWN, server_metadata_at=(), authorization={"iss": ABSENT}), path=_DEEP),
    ),
    _of(
        "2025-03-26-pre-registration",
        "A server that is its own authorization server, without client registration.",
        _FIRST,
        OAuthSetup(quirks=attrs.evolve(_OWN, registers=False), begin=_preregistered),
    ),
)

_REGISTRATION: Final = (
    _of(
        "basic-cimd",
        "The authorization server accepts the URL of a metadata document as client id, and also registers clients. A call "
        "needs an additional scope, and the response to the request for it is an error of another issuer.",
        _LATE,
        Quirks(documents=True, scopes_of=_WRITE, authorization_later=_ERROR),
    ),
    _of(
        "pre-registration",
        "The client has an id and a secret; there is no client registration. After the first request with a token the "
        "server redirects to another one.",
        _RESOURCES,
        OAuthSetup(quirks=Quirks(registers=False, replies_later={Part.MCP: _AWAY}), begin=_preregistered),
    ),
    _of(
        "pre-registration-first",
        "The client has an id and a secret, although other ways are available. Later the access token expires, and the "
        "token endpoint redirects to another server.",
        _LATE,
        OAuthSetup(quirks=Quirks(documents=True, replies_later={Part.TOKEN: _AWAY}), begin=_preregistered_expiring),
    ),
    _of(
        "pre-registration-elsewhere",
        "The client has an id and a secret of another authorization server on the same host; there is no client "
        "registration.",
        _NOW,
        OAuthSetup(quirks=Quirks(registers=False, one_host=True), begin=_preregistered_elsewhere),
    ),
    _of(
        "registration-refused",
        "The authorization server does not register clients with these redirect URIs.",
        _NOW,
        Quirks(replies={Part.REGISTRATION: _NO_URIS}),
    ),
    _of(
        "authorization-server-migration",
        "After the first request with a token the server names another authorization server on the same host, which has "
        "forgotten the client when it gets the first code from it.",
        _NOW,
        OAuthSetup(quirks=Quirks(one_host=True, other=Quirks(forgets=1)), begin=_migrating),
    ),
)

_SCOPES: Final = (
    _of(
        "scope-from-www-authenticate",
        "The challenge names one of the supported scopes, and the registration assigns a secret for the body. Later the "
        "server names another authorization server, whose OpenID Connect metadata have `null` in place of the PKCE methods.",
        _LATE,
        OAuthSetup(
            quirks=Quirks(
                resource_metadata={"scopes_supported": ["notes:read", "notes:write", "notes:admin"]},
                registration=_assigned("client_secret_post"),
                other=Quirks(server_metadata_at=(Well.OPENID_APPENDED,), server_metadata={_METHODS: None}),
            ),
            begin=_migrating,
        ),
    ),
    _of(
        "scope-outside-supported",
        "The challenge names a scope that is not in the metadata, and the registration assigns a secret for the header. "
        "Later the challenge names another URL of the metadata, which name another authorization server, whose metadata do "
        "not announce PKCE.",
        _LATE,
        OAuthSetup(
            quirks=Quirks(
                resource_metadata_moves=True,
                resource_metadata={"scopes_supported": ["notes:write"]},
                registration=_assigned("client_secret_basic"),
                other=Quirks(server_metadata={_METHODS: ABSENT}),
            ),
            begin=_migrating,
        ),
    ),
    _of(
        "scope-from-scopes-supported",
        "The challenge names no scope, the metadata name three, and those of the authorization server name others. Codes and "
        "tokens have all permitted characters. Later the metadata are those of another server, with another authorization "
        "server.",
        _LATE,
        OAuthSetup(
            quirks=Quirks(
                challenge=('Bearer resource_metadata="{prm}"',),
                resource_metadata={"scopes_supported": ["notes:read", "notes:write", "notes:admin"]},
                server_metadata=_OTHER_SCOPES,
                strange_texts=True,
                other=Quirks(resource_metadata={"resource": "{evil}/mcp"}),
            ),
            begin=_migrating,
        ),
    ),
    _of(
        "scope-omitted-when-undefined",
        "The server names no scope, and the only challenge is of another scheme. The authorization response contains no "
        "issuer, and the metadata announce none by `false`. Later the server names another authorization server, whose "
        "metadata name no issuer.",
        _LATE,
        OAuthSetup(
            quirks=Quirks(
                challenge=("Negotiate",),
                scopes=(),
                resource_metadata={"scopes_supported": ABSENT},
                server_metadata={_ADVERTISED: False, **_OTHER_SCOPES},
                authorization={"iss": ABSENT},
                other=Quirks(server_metadata={"issuer": ABSENT}),
            ),
            begin=_migrating,
        ),
    ),
    _of(
        "scope-step-up",
        "Each list and each call needs an additional scope of its own, and the error names only that one. Its challenge is "
        "the second of two, with values that are not quoted, and names in upper case.",
        _LATE,
        Quirks(
            resource_metadata={"scopes_supported": ["profile"]},
            scopes_of={"tools/list": ("notes:list",), **_WRITE},
            challenge_scope=(
                'Basic realm="a, Bearer", bearer ERROR=insufficient_scope, SCOPE="{more}", resource_metadata="{prm}"',
            ),
        ),
    ),
    _of(
        "scope-retry-limit",
        "No scopes are ever sufficient.",
        _LATE,
        Quirks(scopes_of=_EVERYTHING, insatiable=True),
    ),
    _of(
        "offline-access-not-supported",
        "The issuer ends with a slash. The authorization server has no scope `offline_access`. The first access token expires "
        "early, and no token response has a scope. A call needs an additional scope, the error names only that one, and the "
        "response to the request for it names another issuer.",
        _NOW,
        OAuthSetup(
            quirks=Quirks(
                issuer="{server}/",
                server_metadata={"scopes_supported": ["notes:read", "notes:write"]},
                resource_metadata={"scopes_supported": ["notes:read"]},
                token={"scope": ABSENT},
                scopes_of=_WRITE,
                challenge_scope=(SCOPE.replace("{scope}", "notes:write"),),
                authorization_later={"iss": "{evil}"},
            ),
            begin=expire_first_token,
        ),
    ),
    _of(
        "no-refresh-token",
        "The authorization server issues no refresh tokens. Later the access token expires, the challenge names another scope, "
        "and the response to the second authorization request names no issuer: `iss` is empty.",
        _NOW,
        OAuthSetup(
            quirks=Quirks(
                refresh="never",
                challenge_invalid=(INVALID.replace("error=", 'scope="notes:write", error='),),
                authorization_later={"iss": ""},
            ),
            begin=expire_tokens,
        ),
    ),
)

_EXPIRY: Final = (
    _of(
        "token-expiry",
        "Access tokens expire early, and refresh tokens are rotated. The metadata name two authorization servers. Those of "
        "the first deny the support of metadata documents, and also name the PKCE method `plain`. All its responses have "
        "unknown members and a charset, and the token response has only the required members besides.",
        _RESOURCES,
        OAuthSetup(
            quirks=Quirks(
                resource_metadata={"authorization_servers": ["{issuer}", "{other}"], **_UNKNOWN},
                server_metadata={
                    "client_id_metadata_document_supported": False,
                    _METHODS: ["plain", "S256"],
                    **_UNKNOWN,
                },
                registration=_UNKNOWN,
                json_type="application/json; charset=utf-8",
                token={"token_type": "bearer", "expires_in": ABSENT, "scope": ABSENT, **_UNKNOWN},
            ),
            begin=expire_tokens,
        ),
    ),
    _of(
        "token-expiry-preregistered",
        "The client has an id and a secret; access tokens expire early, and the refresh token is issued only once. The "
        "challenge names two scopes. The authorization server grants one of them, which is sufficient.",
        _RESOURCES,
        OAuthSetup(
            quirks=Quirks(
                registers=False,
                refresh="issued once",
                challenge=('Bearer resource_metadata="{prm}", scope="{scope} notes:write"',),
                token={"scope": "notes:read"},
            ),
            begin=_preregistered_expiring,
        ),
    ),
    _of(
        "2025-03-26-token-expiry",
        "A server that is its own authorization server. Its URL has a path of two segments, its endpoints have other paths "
        "than usual, and the first a query. Access tokens expire early, and refresh tokens are rotated.",
        _FIRST,
        OAuthSetup(quirks=attrs.evolve(_OWN, server_metadata=_MOVED), path=_DEEP, begin=expire_tokens),
    ),
)

_ANSWERS: Final = (
    _of(
        "iss-not-advertised",
        "The authorization response contains no issuer, and the metadata announce none. A call needs an additional scope, "
        "and the response to the request for it names another issuer.",
        _NOW,
        Quirks(
            server_metadata={_ADVERTISED: ABSENT},
            authorization={"iss": ABSENT},
            scopes_of=_WRITE,
            authorization_later={"iss": "{evil}"},
        ),
    ),
    _of(
        "iss-supported-missing",
        "The metadata announce an issuer, but the authorization response contains none.",
        _NOW,
        Quirks(authorization={"iss": ABSENT}),
    ),
    _of(
        "iss-wrong-issuer",
        "The authorization response names another issuer.",
        _NOW,
        Quirks(authorization={"iss": "{evil}"}),
    ),
    _of(
        "iss-unexpected",
        "The metadata announce no issuer, and the authorization response names another issuer.",
        _NOW,
        Quirks(server_metadata={_ADVERTISED: ABSENT}, authorization={"iss": "{evil}"}),
    ),
    _of(
        "iss-normalized",
        "The authorization response names the issuer with a trailing slash.",
        _NOW,
        Quirks(authorization={"iss": "{issuer}/"}),
    ),
    _of(
        "iss-upper-case",
        "The authorization response names the issuer with its scheme and host in upper case.",
        _NOW,
        Quirks(authorization={"iss": "{shouted_issuer}"}),
    ),
    _of(
        "iss-percent-encoded",
        "The authorization response names the issuer with a letter of its path percent-encoded.",
        _NOW,
        Quirks(issuer="{server}/tenant1", authorization={"iss": "{server}/%74enant1"}),
    ),
    _of(
        "iss-error",
        "The authorization response is an error and names another issuer.",
        _NOW,
        Quirks(
            authorization=_ERROR,
        ),
    ),
    _of(
        "iss-error-scope",
        "The authorization response is the error `invalid_scope` and names another issuer.",
        _NOW,
        Quirks(authorization={**_ERROR, "error": "invalid_scope"}),
    ),
    _of(
        "state-wrong",
        "The authorization response has a wrong state.",
        _RESOURCES,
        Quirks(authorization={"state": "guessed"}),
    ),
    _of(
        "state-missing",
        "The authorization response has no state. The URL that the client receives has a fragment.",
        _RESOURCES,
        OAuthSetup(quirks=Quirks(authorization={"state": ABSENT}), fragment="#notes"),
    ),
    _of(
        "pkce-missing",
        "The metadata of the authorization server do not announce PKCE.",
        _LATE,
        Quirks(server_metadata={_METHODS: ABSENT}),
    ),
    _of(
        "pkce-plain",
        "The metadata of the authorization server announce only the PKCE method `plain`.",
        _LATE,
        Quirks(server_metadata={_METHODS: ["plain"]}),
    ),
    _of(
        "pkce-empty",
        "The issuer has a path that ends with a slash, and the list of PKCE methods in its metadata is empty.",
        _LATE,
        Quirks(issuer="{server}/tenant1/", server_metadata={_METHODS: []}),
    ),
    _of(
        "pkce-missing-openid",
        "The OpenID Connect metadata do not announce PKCE.",
        _LATE,
        Quirks(server_metadata_at=(Well.OPENID_APPENDED,), server_metadata={_METHODS: ABSENT}),
    ),
    _of(
        "url-with-line-break",
        "The URL of the token endpoint contains a line break followed by another header.",
        _NOW,
        Quirks(server_metadata={"token_endpoint": "{server}/token HTTP/1.1\r\nX-Smuggled: yes\r\nX-Rest: "}),
    ),
)

OAUTH_SCENARIOS: Final = (
    *_DISCOVERY,
    *_REGISTRATION,
    *_SCOPES,
    *_EXPIRY,
    *_ANSWERS,
    *(_of(name, title, _NOW, oauth_setup) for name, (title, oauth_setup) in GRANTS.items()),
)
"""All OAuth scenarios. The last ones are for extensions."""
