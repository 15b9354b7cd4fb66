"""Token endpoint: the form of each grant, the authentication of the client, and the response.

Spec: basic/authorization; RFC 6749 sections 2.3, 4.1.3, 4.4, 5 and 6, RFC 7523, RFC 8693, RFC 8707 section 2.2; the
extensions for client credentials, workload identity federation and enterprise-managed authorization
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote_plus

import attrs

from mcp_core.errors import InvalidValue, TokenRefused
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.assertions import ASSERTION_TYPE, client_assertion
from mcp_core.oauth.challenge import split_scope
from mcp_core.oauth.documents import DOCUMENT_BYTES, Members, one_line, read_json
from mcp_core.oauth.records import AuthMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.metadata import AuthorizationServerMetadata
    from mcp_core.oauth.records import ClientRecord
    from mcp_core.oauth.steps import FetchedResponse, Pairs

__all__ = [
    "ID_JAG",
    "ID_TOKEN",
    "JWT_BEARER",
    "TOKEN_EXCHANGE",
    "TokenResponse",
    "authenticate",
    "can_authenticate",
    "choose_auth_method",
    "client_credentials_form",
    "code_form",
    "jwt_bearer_form",
    "read_token_response",
    "refresh_form",
    "secrets_of",
    "token_exchange_form",
]

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""The grant of RFC 7523, which exchanges a JWT for a token."""
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
"""The grant of RFC 8693, which exchanges a token for another token."""
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
"""The type of an identity assertion authorization grant."""
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
"""The type of an OpenID Connect ID token."""

_TOKEN: Final = re.compile(r"[!-~]{1,65536}")
"""Characters that a header can carry. RFC 6750 allows fewer, but some servers issue tokens with other characters."""

_TYPES: Final = {"bearer": "Bearer", "dpop": "DPoP"}
_SECRET_FIELDS: Final = frozenset(
    {"code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "assertion", "subject_token"}
)
_SHORTEST_SECRET: Final = 4
"""Shorter secrets are not masked in errors, because they would match ordinary words."""


def _with_scope(pairs: Pairs, scopes: Sequence[str]) -> Pairs:
    return (*pairs, ("scope", " ".join(scopes))) if scopes else pairs


def code_form(code: str, *, verifier: str, redirect_uri: str, resource: str) -> Pairs:
    """Return the form that exchanges a code for a token. Spec: RFC 6749 section 4.1.3, RFC 7636 section 4.5"""
    return (
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", redirect_uri),
        ("code_verifier", verifier),
        ("resource", resource),
    )


def refresh_form(refresh_token: str, *, resource: str) -> Pairs:
    """Return the form that exchanges a refresh token for a token with the same scopes. Spec: RFC 6749 section 6"""
    return (("grant_type", "refresh_token"), ("refresh_token", refresh_token), ("resource", resource))


def client_credentials_form(*, scopes: Sequence[str], resource: str) -> Pairs:
    """Return the form that requests a token for the client itself. Spec: RFC 6749 section 4.4"""
    return _with_scope((("grant_type", "client_credentials"), ("resource", resource)), scopes)


def jwt_bearer_form(assertion: str, *, scopes: Sequence[str], resource: str) -> Pairs:
    """Return the form that exchanges the JWT of a trusted issuer for a token. Spec: RFC 7523 section 2.1"""
    return _with_scope((("grant_type", JWT_BEARER), ("assertion", assertion), ("resource", resource)), scopes)


def token_exchange_form(
    subject_token: str, *, subject_token_type: str, audience: str, resource: str, scopes: Sequence[str]
) -> Pairs:
    """Return the form that exchanges a user's identity for an ID-JAG, at the user's identity provider.

    Args:
        subject_token: The token that the identity provider issued when the user logged in.
        subject_token_type: The type of that token, for example `ID_TOKEN`.
        audience: The issuer of the authorization server of the MCP server.
        resource: The MCP server.
        scopes: The scopes to request from the authorization server.

    Spec: RFC 8693 section 2.1, draft-ietf-oauth-identity-assertion-authz-grant section 4.3
    """
    pairs = (
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("audience", audience),
        ("resource", resource),
        ("subject_token", subject_token),
        ("subject_token_type", subject_token_type),
    )
    return _with_scope(pairs, scopes)


def choose_auth_method(
    client: ClientRecord, server: AuthorizationServerMetadata | None, *, has_key: bool
) -> AuthMethod:
    """Return the authentication method of a client: the registered method, or the best that both sides support.

    Args:
        client: The client.
        server: The metadata of the authorization server; `None` if it is known only by configuration.
        has_key: Whether the client can sign.

    Raises:
        TokenRefused: The client and the server have no method in common.
    """
    if client.auth_method is not None:
        return client.auth_method
    ours = [AuthMethod.PRIVATE_KEY_JWT] if has_key else []
    ours += [AuthMethod.NONE] if client.client_secret is None else [AuthMethod.SECRET_BASIC, AuthMethod.SECRET_POST]
    theirs = None if server is None else server.token_endpoint_auth_methods_supported
    for method in ours:
        if theirs is None or method.value in theirs:
            return method
    raise TokenRefused(
        f"{client.issuer} supports the client authentication methods {', '.join(theirs or ())[:200]!a}; "
        f"client {client.client_id[:200]!a} is configured for {', '.join(method.value for method in ours)}"
    )


def can_authenticate(client: ClientRecord, *, has_key: bool) -> bool:
    """Return whether the client has the key or secret of its method. Stored clients can be outdated."""
    if client.auth_method is AuthMethod.PRIVATE_KEY_JWT:
        return has_key
    return client.auth_method in (AuthMethod.NONE, None) or client.client_secret is not None


def authenticate(
    form: Pairs,
    client: ClientRecord,
    method: AuthMethod,
    *,
    audience: str,
    signer: Signer | None,
    now: float,
    random_bytes: Callable[[int], bytes],
) -> tuple[Pairs, Pairs]:
    """Add the authentication of the client to a request.

    Args:
        form: The fields of the grant.
        client: The client.
        method: The authentication method; see `choose_auth_method`.
        audience: The issuer of the authorization server, the only audience of an assertion.
        signer: The client's key.
        now: Seconds since the epoch.
        random_bytes: Returns the given number of unpredictable bytes.

    Returns:
        Headers and fields.

    Raises:
        TokenRefused: The client lacks the secret or the key for the method.
    """
    named = (*form, ("client_id", client.client_id))
    if method is AuthMethod.NONE:
        return (), named
    if method is AuthMethod.PRIVATE_KEY_JWT:
        if signer is None:
            raise TokenRefused(f"client {client.client_id[:200]!a} must sign, but has no key")
        assertion = client_assertion(
            client.client_id, audience=audience, signer=signer, now=now, random_bytes=random_bytes
        )
        return (), (*named, ("client_assertion_type", ASSERTION_TYPE), ("client_assertion", assertion))
    if client.client_secret is None:
        raise TokenRefused(f"client {client.client_id[:200]!a} must send its secret, but has none")
    if method is AuthMethod.SECRET_POST:
        return (), (*named, ("client_secret", client.client_secret))
    # RFC 6749 section 2.3.1: both are form-encoded first, so that a colon in the id is not a separator.
    credentials = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    return (("Authorization", f"Basic {b64encode(credentials.encode('ascii')).decode('ascii')}"),), form


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TokenResponse(FieldValue):
    """A token response."""

    access_token: str = attrs.field(repr=False)
    """The token."""
    token_type: str
    """`Bearer`, `DPoP`, or another type as received, for example `N_A`."""
    expires_in: float | None
    """The lifetime of the token, in seconds; `None` if unknown."""
    refresh_token: str | None = attrs.field(default=None, repr=False)
    """The token that renews the access token."""
    scopes: tuple[str, ...] | None = None
    """The granted scopes; `None` if the response names none, which means the requested scopes."""
    issued_token_type: str | None = None
    """The type of a token from a token exchange (RFC 8693)."""
    notes: tuple[str, ...] = ()
    """The deviations that the reader tolerated."""


def read_token_response(answer: FetchedResponse, *, issuer: str, secrets: Sequence[str] = ()) -> TokenResponse:
    """Read the response of a token endpoint.

    Args:
        answer: The response.
        issuer: The authorization server, for the error.
        secrets: The secrets to mask in the error, see `secrets_of`.

    Raises:
        TokenRefused: The response is an error, or has no usable token.
    """
    try:
        members = Members(_document(answer))
    except InvalidValue as bad:
        sentence = (
            f"the token endpoint of {issuer} returned status {answer.status} without a valid document: {bad.message}"
        )
        raise TokenRefused(sentence, status=answer.status) from None
    error = members.text("error")
    if error is not None or not 200 <= answer.status < 300:
        raise _refusal(members, answer.status, issuer, secrets)
    token = members.text("access_token")
    if token is None or not _TOKEN.fullmatch(token):
        said = "no access_token" if token is None else "an access_token that a header cannot carry"
        raise TokenRefused(f"the token endpoint of {issuer} returned {said}", status=answer.status)
    kind = members.text("token_type")
    if kind is None:
        members.notes.append("token_type is missing; Bearer is assumed")
        kind = "Bearer"
    listed = isinstance(members.document.get("scope"), list)
    scopes = members.texts("scope") if listed else split_scope(members.text("scope") or "") or None
    return TokenResponse(
        access_token=token,
        token_type=_TYPES.get(kind.lower(), one_line(kind)),
        expires_in=members.seconds("expires_in"),
        refresh_token=members.text("refresh_token"),
        scopes=scopes,
        issued_token_type=members.text("issued_token_type"),
        notes=tuple(members.notes),
    )


def _document(answer: FetchedResponse) -> JsonObject:
    """Return the document. Some servers send it as a form."""
    content_type = answer.header("content-type") or ""
    if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        return read_json(answer.body)
    if len(answer.body) > DOCUMENT_BYTES:
        raise InvalidValue(f"the form has {len(answer.body)} bytes, more than the limit of {DOCUMENT_BYTES}")
    try:
        return dict(parse_qsl(answer.body.decode("utf-8", "replace"), max_num_fields=100))
    except ValueError:
        raise InvalidValue("the form has more than 100 fields") from None


def secrets_of(form: Pairs, client: ClientRecord | None) -> tuple[str, ...]:
    """Return the secrets of a request: those in the form, and that of the client."""
    fields = [value for name, value in form if name in _SECRET_FIELDS]
    known = [] if client is None or client.client_secret is None else [client.client_secret]
    return tuple(secret for secret in [*fields, *known] if len(secret) >= _SHORTEST_SECRET)


def _refusal(members: Members, status: int, issuer: str, secrets: Sequence[str]) -> TokenRefused:
    error, description = members.text("error"), members.text("error_description")
    for secret in secrets:
        error = error and error.replace(secret, "<secret>")
        description = description and description.replace(secret, "<secret>")
    detail = "" if description is None else f" ({one_line(description)})"
    sentence = f"{issuer} issued no token: {one_line(error or 'no error was named')}{detail}, status {status}"
    return TokenRefused(
        sentence,
        error=None if error is None else one_line(error),
        description=None if description is None else one_line(description),
        status=status,
    )
