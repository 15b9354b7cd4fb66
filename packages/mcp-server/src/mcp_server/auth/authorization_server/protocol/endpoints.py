"""The endpoints of the protocol, independent of the web framework."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import orjson
import trio

from mcp_core.field_methods import FieldValue
from mcp_core.limits.rates import Rates
from mcp_core.oauth.dpop_verification import InvalidProof, NonceRequired
from mcp_server.auth.authorization_server.clients.authentication import fits_a_key, read_credentials
from mcp_server.auth.authorization_server.clients.documents import TooMany
from mcp_server.auth.authorization_server.clients.metadata import Unacceptable
from mcp_server.auth.authorization_server.clients.registration import register
from mcp_server.auth.authorization_server.model.messages import (
    NO_STORE,
    Answer,
    OAuthRequestRejected,
    read_form,
    refusal,
)
from mcp_server.auth.authorization_server.model.tables import sweep
from mcp_server.auth.authorization_server.model.transaction import Session
from mcp_server.auth.authorization_server.protocol.engine import Engine
from mcp_server.auth.authorization_server.protocol.keys import public_keys
from mcp_server.auth.authorization_server.protocol.metadata import metadata
from mcp_server.auth.authorization_server.protocol.request import Request

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.limits.rates import Rate
    from mcp_core.oauth.dpop_verification import ProofCheck
    from mcp_core.oauth.steps import Pairs
    from mcp_server.auth.authorization_server.clients.authentication import Credentials
    from mcp_server.auth.authorization_server.clients.documents import Documents
    from mcp_server.auth.authorization_server.clients.registration import RegistrationPolicy
    from mcp_server.auth.authorization_server.model.settings import Settings
    from mcp_server.auth.authorization_server.model.store import SqliteStore
    from mcp_server.auth.authorization_server.protocol.authorization import Requests

__all__ = ["READABLE", "ClientRequest", "Endpoints"]

_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/json"

READABLE: Final[Pairs] = (("Access-Control-Allow-Origin", "*"),)
"""Header fields of responses that scripts of any web page may read."""
_CACHED: Final[Pairs] = (("Cache-Control", "public, max-age=300"),)
"""Header fields of metadata and keys: clients see a change after at most this number of seconds."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientRequest(FieldValue):
    """A request to an endpoint for clients."""

    body: bytes = attrs.field(repr=False)
    """The complete body."""
    kind: str
    """The media type, in lower case."""
    authorization: Sequence[str] = attrs.field(repr=False)
    """All values of the Authorization header."""
    proofs: Sequence[str] = attrs.field(repr=False)
    """All values of the DPoP header."""
    address: str
    """The address that the request came from."""

    def form(self) -> dict[str, str]:
        """Return the parameters of the form. Raises `RequestHeadRejected`."""
        if self.kind != _FORM:
            raise OAuthRequestRejected("invalid_request", f"The content type must be {_FORM}.")
        parameters, repeated = read_form(self.body.decode("latin-1"))
        if repeated == {"resource"}:
            raise OAuthRequestRejected("invalid_target", "The request names more than one resource.")
        if repeated:
            raise OAuthRequestRejected("invalid_request", "The request repeats a parameter.")
        return parameters

    def json(self) -> JsonObject | None:
        """Return the JSON object in the body, or `None` if the body is not a JSON object."""
        try:
            value: JsonValue = orjson.loads(self.body) if self.kind == _JSON else None
        except orjson.JSONDecodeError:
            return None
        return value if isinstance(value, dict) else None


class Endpoints:
    """The endpoints of one authorization server.

    Args:
        settings: The settings of the authorization server.
        store: The store of all data.
        policy: The policy for clients.
        documents: Finds clients.
        requests: The authorization requests.
        proofs: Verifies DPoP proofs.
        rate: The rate limit for each address.
    """

    def __init__(
        self,
        settings: Settings,
        store: SqliteStore,
        *,
        policy: RegistrationPolicy,
        documents: Documents,
        requests: Requests,
        proofs: ProofCheck,
        rate: Rate,
    ) -> None:
        self.settings: Final = settings
        """The settings of the authorization server."""
        self.policy: Final = policy
        """The policy for clients."""
        self._store: Final = store
        self._documents: Final = documents
        self._requests: Final = requests
        self._proofs: Final = proofs
        self._rates: Final = Rates(rate)
        self._registrations: Final = Rates(policy.rate)

    # --- documents -------------------------------------------------------------------------------------------------

    async def metadata(self) -> Answer:
        """Return the response with the metadata of the authorization server."""
        return Answer(status=200, body=metadata(self.settings, self.policy), headers=(*_CACHED, *READABLE))

    async def jwks(self) -> Answer:
        """Return the response with the keys that verify access tokens."""
        keys = await self._store.run(self._keys)
        return Answer(status=200, body=keys, headers=(*_CACHED, *READABLE))

    def _keys(self, connection: sqlite3.Connection) -> JsonObject:
        return public_keys(connection, now=self.settings.clock(), lifetimes=self.settings.lifetimes)

    # --- the authorization endpoint --------------------------------------------------------------------------------

    async def authorize(self, query: str, *, address: str) -> str:
        """Return the URL that the browser is redirected to: a page, or the client's redirect URI with an error.

        Raises:
            Refused: The error must be shown to the user only. Its sentence is written for users.
            TooMany: The address has sent too many requests.
        """
        self._take(address)
        parameters, repeated = read_form(query)
        client_id = parameters.get("client_id", "")
        try:
            known = await self._documents.find(client_id, address=address)
        except Unacceptable as unacceptable:
            raise OAuthRequestRejected("invalid_client", unacceptable.sentence) from None
        if known is None:
            raise OAuthRequestRejected("invalid_client", "This server does not know the application.")
        try:
            id = await self._requests.begin(parameters, repeated)
        except OAuthRequestRejected as refused:
            if not refused.redirect_uri:
                raise
            return self._requests.refusal_url(refused, parameters, refused.redirect_uri)
        return f"{self.settings.prefix}/interaction/{id}"

    def _take(self, address: str) -> None:
        wait = self._rates.take(address, trio.current_time())
        if wait:
            raise TooMany(wait)

    # --- the endpoints of clients ----------------------------------------------------------------------------------

    async def token(self, client_request: ClientRequest) -> Answer:
        """Handle a request to the token endpoint."""
        return await self._for_client(client_request, Engine.token, self.settings.endpoint("/token"))

    async def revoke(self, client_request: ClientRequest) -> Answer:
        """Handle a request to the revocation endpoint."""
        return await self._for_client(client_request, Engine.revocation)

    async def introspect(self, client_request: ClientRequest) -> Answer:
        """Handle a request to the introspection endpoint."""
        return await self._for_client(client_request, Engine.introspection)

    async def _for_client(
        self, client_request: ClientRequest, act: Callable[[Engine], Answer], proven: str | None = None
    ) -> Answer:
        try:
            self._take(client_request.address)
            form = client_request.form()
            key_id = None
            if proven is not None and client_request.proofs:
                proof = self._proofs.check(
                    client_request.proofs, method="POST", urls=[proven], now=self.settings.clock()
                )
                key_id = proof.key
            credentials = read_credentials(client_request.authorization, form)
            keys = await self._client_keys(credentials, client_request.address)

            def transaction(connection: sqlite3.Connection) -> Answer:
                session = self._session(connection, keys)
                sweep(connection, session.now)
                return act(Engine(Request(session, form, credentials=credentials, key_id=key_id)))

            return await self._store.run(transaction)
        except OAuthRequestRejected as refused:
            return refusal(refused, basic=bool(client_request.authorization))
        except NonceRequired as wanted:
            answer = refusal(OAuthRequestRejected("use_dpop_nonce"), basic=False)
            return Answer(status=400, body=answer.body, headers=(*answer.headers, ("DPoP-Nonce", wanted.nonce)))
        except InvalidProof as invalid:
            return refusal(OAuthRequestRejected("invalid_dpop_proof", invalid.message), basic=False)
        except TooMany as many:
            return _too_many(many)

    async def _client_keys(self, credentials: Credentials, address: str) -> JsonObject | None:
        """Fetch the description and keys of a client before its transaction starts, and return the keys."""
        try:
            client = await self._documents.find(credentials.client_id, address=address)
        except Unacceptable as unacceptable:
            raise OAuthRequestRejected("invalid_client", unacceptable.sentence) from None
        if client is None or client.jwks_uri is None or not client.takes(credentials.method):
            return None
        kept = self._documents.kept_keys(client.jwks_uri)
        fitting = kept is not None and fits_a_key(credentials, kept)
        return await self._documents.keys(client.jwks_uri, address=address, key_fits=fitting)

    def _session(self, connection: sqlite3.Connection, keys: JsonObject | None = None) -> Session:
        return Session(connection=connection, settings=self.settings, now=self.settings.clock(), client_keys=keys)

    # --- registration ----------------------------------------------------------------------------------------------

    async def register(self, client_request: ClientRequest) -> Answer:
        """Handle a request to the registration endpoint."""
        if not self.policy.admits(client_request.authorization):
            challenge = ("WWW-Authenticate", "Bearer")
            return Answer(status=401, body={"error": "invalid_token"}, headers=(*NO_STORE, challenge))
        wait = self._registrations.take(client_request.address, trio.current_time())
        if wait:
            return _too_many(TooMany(wait))
        document = client_request.json()
        if document is None:
            body: JsonObject = {
                "error": "invalid_client_metadata",
                "error_description": "The body is not a JSON object.",
            }
            return Answer(status=400, body=body, headers=NO_STORE)
        return await self._store.run(partial(self._register, document))

    def _register(self, document: JsonObject, connection: sqlite3.Connection) -> Answer:
        return register(self._session(connection), document, limit=self.policy.clients)


def _too_many(many: TooMany) -> Answer:
    body: JsonObject = {"error": "temporarily_unavailable", "error_description": "Too many requests. Try again later."}
    return Answer(status=429, body=body, headers=(*NO_STORE, ("Retry-After", str(math.ceil(many.seconds)))))
