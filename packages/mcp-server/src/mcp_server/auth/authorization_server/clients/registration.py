"""Registration of clients: the policy, and dynamic client registration.

Spec: RFC 7591; basic/authorization#dynamic-client-registration
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.limits.rates import Rate
from mcp_core.oauth.addresses import AddressClass
from mcp_core.oauth.jws import base64url
from mcp_core.oauth.records import AuthMethod
from mcp_server.auth.authorization_server.clients.metadata import Unacceptable, read_description
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind
from mcp_server.auth.authorization_server.model.messages import NO_STORE, Answer
from mcp_server.auth.authorization_server.model.secrets import digest, is_it, new_secret
from mcp_server.auth.authorization_server.model.tables import sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.auth.authorization_server.model.client import Client
    from mcp_server.auth.authorization_server.model.transaction import Session

__all__ = ["DynamicRegistration", "RegistrationPolicy", "register", "save_client"]

_ID_BYTES: Final = 16
_REGISTRATIONS: Final = Rate(20, 3_600.0)
_FETCHES: Final = Rate(30, 60.0)


class DynamicRegistration(enum.Enum):
    """The policy for dynamic client registration."""

    OPEN = "open"
    """Every client may register."""
    TOKEN = "token"
    """A client with the initial access token may register."""
    OFF = "off"
    """No client may register."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RegistrationPolicy(FieldValue):
    """The policy for clients that are not configured.

    Raises:
        ValueError: `initial_token` is set although `dynamic` is not `token`, or missing although it is.
    """

    dynamic: DynamicRegistration = DynamicRegistration.OPEN
    """Whether clients may register themselves."""
    initial_token: str | None = attrs.field(default=None, repr=False)
    """The initial access token, required for `dynamic` = `token`."""
    metadata_documents: bool = True
    """Whether a client id may be the URL of a metadata document."""
    networks: frozenset[AddressClass] = frozenset({AddressClass.PUBLIC})
    """The networks that metadata documents and keys of clients may be fetched from."""
    rate: Rate = _REGISTRATIONS
    """The rate limit of registrations, for each address."""
    fetches: Rate = _FETCHES
    """The rate limit of fetched documents, for each address that causes them."""
    clients: int = 10_000
    """The maximum number of dynamically registered clients. At the maximum, no client can register until others have
    expired. It is also the maximum number of stored clients with metadata documents. Above it, the client whose
    document was fetched first is removed and fetched again when needed."""

    def __attrs_post_init__(self) -> None:
        if (self.dynamic is DynamicRegistration.TOKEN) != bool(self.initial_token):
            raise ValueError('initial_token is required with dynamic="token", and not allowed otherwise')

    def admits(self, authorization: Sequence[str]) -> bool:
        """Return whether a request with these Authorization headers may register a client."""
        if self.initial_token is None:
            return self.dynamic is DynamicRegistration.OPEN
        scheme, _, token = authorization[0].partition(" ") if len(authorization) == 1 else ("", "", "")
        return scheme.lower() == "bearer" and is_it(token.strip(), digest(self.initial_token))


def register(session: Session, document: JsonObject, *, limit: int) -> Answer:
    """Register a client, and return the response.

    Args:
        session: The transaction.
        document: The metadata of the client.
        limit: The maximum number of dynamically registered clients.
    """
    sweep(session.connection, session.now)
    random_bytes = session.settings.random_bytes
    try:
        client = read_description(
            document,
            client_id=base64url(random_bytes(_ID_BYTES)),
            kind=RegistrationKind.DYNAMIC,
            # Spec: RFC 7591 section 2
            default=AuthMethod.SECRET_BASIC,
            issued_at=session.now,
        )
    except Unacceptable as unacceptable:
        return Answer(
            status=400,
            body={"error": unacceptable.error, "error_description": unacceptable.message},
            headers=NO_STORE,
        )
    (count,) = session.connection.execute("SELECT count(*) FROM clients WHERE NOT by_document").fetchone()
    if count >= limit:
        return Answer(
            status=503,
            body={"error": "temporarily_unavailable", "error_description": "Too many clients are registered."},
            headers=(*NO_STORE, ("Retry-After", "3600")),
        )
    secret = None
    if client.method in (AuthMethod.SECRET_BASIC, AuthMethod.SECRET_POST):
        secret = new_secret(random_bytes)
        client = attrs.evolve(client, secret_digest=digest(secret))
    until = session.now + session.settings.lifetimes.unused_client
    save_client(session, client, fresh_until=until, expires_at=until)
    return Answer(status=201, body=_registered(client, document, secret), headers=NO_STORE)


def save_client(session: Session, client: Client, *, fresh_until: float, expires_at: float) -> None:
    """Store a client. It replaces a client with the same id."""
    by_document = client.kind is RegistrationKind.METADATA_DOCUMENT
    session.connection.execute(
        "INSERT OR REPLACE INTO clients VALUES (?, ?, ?, ?, ?, ?)",
        (client.client_id, client.to_json(), by_document, session.now, fresh_until, expires_at),
    )


def _registered(client: Client, document: JsonObject, secret: str | None) -> JsonObject:
    """Return the registered metadata, which may differ from the requested metadata. Spec: RFC 7591 section 3.2.1"""
    answer: JsonObject = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.issued_at),
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": list(client.grant_types),
        "response_types": ["code"],
        "token_endpoint_auth_method": client.method.value,
    }
    if client.client_uri is not None:
        answer["client_uri"] = client.client_uri
    if document.get("application_type") in ("native", "web"):
        answer["application_type"] = document["application_type"]
    if client.jwks is not None:
        answer["jwks"] = client.jwks
    if client.jwks_uri is not None:
        answer["jwks_uri"] = client.jwks_uri
    if client.bound:
        answer["dpop_bound_access_tokens"] = True
    if secret is not None:
        answer |= {"client_secret": secret, "client_secret_expires_at": 0}
    return answer
