"""Client authentication: with a secret, an assertion signed by the client, or as a public client.

Spec: RFC 6749 section 2.3, RFC 7523 sections 2.2 and 3; MCP extension io.modelcontextprotocol/oauth-client-credentials
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_plus

import attrs

from mcp_core.errors import InvalidValue
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.assertions import ASSERTION_TYPE
from mcp_core.oauth.records import AuthMethod
from mcp_core.oauth.signatures import VERIFIED_ALGORITHMS, read_signed_jwt
from mcp_server.auth.authorization_server.model.messages import OAuthRequestRejected
from mcp_server.auth.keys import JoseVerifier, choose, public_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeGuard

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.signatures import SignedJwt
    from mcp_server.auth.authorization_server.model.client import Client
    from mcp_server.auth.authorization_server.model.transaction import Session

__all__ = ["Credentials", "authenticate", "fits_a_key", "read_credentials"]

_LEEWAY: Final = 60.0
"""The allowed clock difference, in seconds."""
_LONGEST: Final = 3_600.0
"""The maximum lifetime of an assertion, in seconds. The id of an assertion is remembered for this time."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Credentials(FieldValue):
    """The client id in a request, and the credentials that authenticate the client."""

    client_id: str
    """The client id."""
    method: AuthMethod
    """The authentication method."""
    secret: str = attrs.field(default="", repr=False)
    """The client secret or the assertion."""


def read_credentials(authorization: Sequence[str], form: Mapping[str, str]) -> Credentials:
    """Read the credentials from a request.

    Args:
        authorization: The values of the Authorization header.
        form: The parameters.

    Raises:
        Refused: The request has no credentials, more than one authentication method, or contradictory client ids.
    """
    named = form.get("client_id")
    shown = [name for name in ("client_secret", "client_assertion") if name in form]
    if len(authorization) + len(shown) > 1:
        raise OAuthRequestRejected("invalid_request", "The request uses more than one client authentication method.")
    if authorization:
        found = _basic(authorization[0])
    elif shown == ["client_assertion"]:
        if form.get("client_assertion_type") != ASSERTION_TYPE:
            raise OAuthRequestRejected("invalid_request", "The client_assertion_type must be that of a JWT (RFC 7523).")
        assertion = form["client_assertion"]
        subject = _read(assertion).claims.get("sub")
        if not isinstance(subject, str):
            raise OAuthRequestRejected("invalid_client")
        found = Credentials(client_id=subject, method=AuthMethod.PRIVATE_KEY_JWT, secret=assertion)
    elif named is None:
        raise OAuthRequestRejected("invalid_client")
    elif shown:
        found = Credentials(client_id=named, method=AuthMethod.SECRET_POST, secret=form["client_secret"])
    else:
        found = Credentials(client_id=named, method=AuthMethod.NONE)
    if named is not None and named != found.client_id:
        raise OAuthRequestRejected("invalid_request", "The client_id does not match the client that authenticates.")
    return found


def _basic(value: str) -> Credentials:
    scheme, _, encoded = value.partition(" ")
    try:
        pair = base64.b64decode(encoded.strip().encode("ascii"), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise OAuthRequestRejected("invalid_client") from None
    client_id, colon, secret = pair.partition(":")
    if scheme.lower() != "basic" or not colon or not client_id:
        raise OAuthRequestRejected("invalid_client")
    # Both are form-encoded. Spec: RFC 6749 section 2.3.1
    return Credentials(client_id=unquote_plus(client_id), method=AuthMethod.SECRET_BASIC, secret=unquote_plus(secret))


def authenticate(session: Session, credentials: Credentials) -> Client:
    """Authenticate a client.

    Raises:
        Refused: The authentication failed. The error does not reveal whether the client exists.
    """
    client = session.client(credentials.client_id)
    if client is None or not client.takes(credentials.method):
        raise OAuthRequestRejected("invalid_client")
    if credentials.method is AuthMethod.NONE:
        return client
    shows = _asserted if credentials.method is AuthMethod.PRIVATE_KEY_JWT else _knows_secret
    if not shows(session, client, credentials.secret):
        raise OAuthRequestRejected("invalid_client")
    return client


def _knows_secret(_: Session, client: Client, secret: str) -> bool:
    return client.check_client_secret(secret)


# --- assertions ------------------------------------------------------------------------------------------------------


def _read(assertion: str) -> SignedJwt:
    try:
        return read_signed_jwt(assertion, algorithms=VERIFIED_ALGORITHMS)
    except InvalidValue:
        raise OAuthRequestRejected("invalid_client") from None


def fits_a_key(credentials: Credentials, keys: JsonObject) -> bool:
    """Return whether one of these keys may verify an assertion. If not, the client may have published new keys."""
    return choose(public_keys(keys), _read(credentials.secret)) is not None


def _asserted(session: Session, client: Client, assertion: str) -> bool:
    signed = _read(assertion)
    key = choose(public_keys(client.jwks or session.client_keys or {}), signed)
    if key is None or not JoseVerifier().verify(key.jwk, signed.algorithm, signed.data, signed.signature):
        return False
    claims, now = signed.claims, session.now
    ends, id = claims.get("exp"), claims.get("jti")
    # An assertion with additional audiences could be replayed by them.
    addressed = claims.get("aud") in (session.settings.issuer, [session.settings.issuer])
    named = claims.get("iss") == claims.get("sub") == client.client_id
    timely = _is_time(ends) and now - _LEEWAY < ends <= now + _LONGEST + _LEEWAY
    begun = all(each is None or (_is_time(each) and each <= now + _LEEWAY) for each in map(claims.get, ("nbf", "iat")))
    if not (addressed and named and timely and begun and isinstance(id, str) and id):
        return False
    return session.first_time(f"assertion\n{client.client_id}\n{id}", until=now + _LONGEST + 2 * _LEEWAY)


def _is_time(value: JsonValue) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
