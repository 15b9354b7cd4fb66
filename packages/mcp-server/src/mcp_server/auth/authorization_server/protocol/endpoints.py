"""The endpoints of the protocol: what arrived goes in, what is answered comes out. No web framework here."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import orjson
import trio

from mcp_core.limits.rates import Rates
from mcp_core.oauth.dpop_verification import InvalidProof, NonceWanted
from mcp_server.auth.authorization_server.clients.authentication import fits_a_key, read_credentials
from mcp_server.auth.authorization_server.clients.documents import TooMany
from mcp_server.auth.authorization_server.clients.metadata import Unacceptable
from mcp_server.auth.authorization_server.clients.registration import register
from mcp_server.auth.authorization_server.model.messages import NO_STORE, Answer, Refused, read_form, refusal
from mcp_server.auth.authorization_server.model.tables import sweep
from mcp_server.auth.authorization_server.model.transaction import Session
from mcp_server.auth.authorization_server.protocol.engine import Engine, Request
from mcp_server.auth.authorization_server.protocol.keys import public_keys
from mcp_server.auth.authorization_server.protocol.metadata import metadata

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

__all__ = ["READABLE", "Arrived", "Endpoints"]

_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/json"

READABLE: Final[Pairs] = (("Access-Control-Allow-Origin", "*"),)
"""Scripts of any page may read it."""
_CACHED: Final[Pairs] = (("Cache-Control", "public, max-age=300"),)
"""Metadata and keys: seconds after which a change is seen."""


@attrs.frozen(kw_only=True)
class Arrived:
    """A request to an endpoint of clients."""

    body: bytes = attrs.field(repr=False)
    """Its body, whole."""
    kind: str
    """Its media type, in lower case."""
    authorization: Sequence[str] = attrs.field(repr=False)
    """All Authorization headers."""
    proofs: Sequence[str] = attrs.field(repr=False)
    """All DPoP headers."""
    address: str
    """Where it came from."""

    def form(self) -> dict[str, str]:
        """The parameters. Raises `Refused`."""
        if self.kind != _FORM:
            raise Refused("invalid_request", f"The body has to be {_FORM}.")
        parameters, repeated = read_form(self.body.decode("latin-1"))
        if repeated == {"resource"}:
            raise Refused("invalid_target", "A token is for one resource.")
        if repeated:
            raise Refused("invalid_request", "The request has a parameter more than once.")
        return parameters

    def json(self) -> JsonObject | None:
        """The JSON object that it has; `None`: it has none."""
        try:
            value: JsonValue = orjson.loads(self.body) if self.kind == _JSON else None
        except orjson.JSONDecodeError:
            return None
        return value if isinstance(value, dict) else None


class Endpoints:
    """The endpoints.

    Args:
        settings: What is fixed.
        store: Where everything is kept.
        policy: Who may become a client.
        documents: Finds clients.
        requests: Those that wait for people.
        proofs: Checks DPoP proofs.
        rate: Requests of one address.
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
        """What is fixed."""
        self.policy: Final = policy
        """Who may become a client."""
        self._store: Final = store
        self._documents: Final = documents
        self._requests: Final = requests
        self._proofs: Final = proofs
        self._rates: Final = Rates(rate)
        self._registrations: Final = Rates(policy.rate)

    # --- documents -------------------------------------------------------------------------------------------------

    async def metadata(self) -> Answer:
        """What this server says of itself."""
        return Answer(status=200, body=metadata(self.settings, self.policy), headers=(*_CACHED, *READABLE))

    async def jwks(self) -> Answer:
        """The keys that access tokens are verified with."""
        keys = await self._store.run(self._keys)
        return Answer(status=200, body=keys, headers=(*_CACHED, *READABLE))

    def _keys(self, connection: sqlite3.Connection) -> JsonObject:
        return public_keys(connection, now=self.settings.clock(), lifetimes=self.settings.lifetimes)

    # --- the authorization endpoint --------------------------------------------------------------------------------

    async def authorize(self, query: str, *, address: str) -> str:
        """Where the browser goes: to the pages, or back to the client with an error.

        Raises:
            Refused: Nobody but the person may be told; the sentence is for them.
            TooMany: Not now.
        """
        self._take(address)
        parameters, repeated = read_form(query)
        client_id = parameters.get("client_id", "")
        try:
            known = await self._documents.find(client_id, address=address)
        except Unacceptable as unacceptable:
            raise Refused("invalid_client", unacceptable.sentence) from None
        if known is None:
            raise Refused("invalid_client", "The application is not known here.")
        try:
            id = await self._requests.begin(parameters, repeated)
        except Refused as refused:
            if not refused.redirect_uri:
                raise
            return self._requests.refusal_url(refused, parameters, refused.redirect_uri)
        return f"{self.settings.prefix}/interaction/{id}"

    def _take(self, address: str) -> None:
        wait = self._rates.take(address, trio.current_time())
        if wait:
            raise TooMany(wait)

    # --- the endpoints of clients ----------------------------------------------------------------------------------

    async def token(self, arrived: Arrived) -> Answer:
        """The token endpoint."""
        return await self._for_client(arrived, Engine.token, self.settings.endpoint("/token"))

    async def revoke(self, arrived: Arrived) -> Answer:
        """The revocation endpoint."""
        return await self._for_client(arrived, Engine.revocation)

    async def introspect(self, arrived: Arrived) -> Answer:
        """The introspection endpoint."""
        return await self._for_client(arrived, Engine.introspection)

    async def _for_client(self, arrived: Arrived, act: Callable[[Engine], Answer], proven: str | None = None) -> Answer:
        try:
            self._take(arrived.address)
            form = arrived.form()
            key_id = None
            if proven is not None and arrived.proofs:
                key_id = self._proofs.check(arrived.proofs, method="POST", urls=[proven], now=self.settings.clock())
            credentials = read_credentials(arrived.authorization, form)
            keys = await self._client_keys(credentials, arrived.address)

            def transaction(connection: sqlite3.Connection) -> Answer:
                session = self._session(connection, keys)
                sweep(connection, session.now)
                return act(Engine(Request(session, form, credentials=credentials, key_id=key_id)))

            return await self._store.run(transaction)
        except Refused as refused:
            return refusal(refused, basic=bool(arrived.authorization))
        except NonceWanted as wanted:
            answer = refusal(Refused("use_dpop_nonce"), basic=False)
            return Answer(status=400, body=answer.body, headers=(*answer.headers, ("DPoP-Nonce", wanted.nonce)))
        except InvalidProof as invalid:
            return refusal(Refused("invalid_dpop_proof", invalid.message), basic=False)
        except TooMany as many:
            return _too_many(many)

    async def _client_keys(self, credentials: Credentials, address: str) -> JsonObject | None:
        """What has to be on hand of a client before its request is dealt with: its description, its keys."""
        try:
            client = await self._documents.find(credentials.client_id, address=address)
        except Unacceptable as unacceptable:
            raise Refused("invalid_client", unacceptable.sentence) from None
        if client is None or client.jwks_uri is None or not client.takes(credentials.method):
            return None
        kept = self._documents.kept_keys(client.jwks_uri)
        fitting = kept is not None and fits_a_key(credentials, kept)
        return await self._documents.keys(client.jwks_uri, address=address, fitting=fitting)

    def _session(self, connection: sqlite3.Connection, keys: JsonObject | None = None) -> Session:
        return Session(connection=connection, settings=self.settings, now=self.settings.clock(), client_keys=keys)

    # --- registration ----------------------------------------------------------------------------------------------

    async def register(self, arrived: Arrived) -> Answer:
        """The registration endpoint."""
        if not self.policy.admits(arrived.authorization):
            challenge = ("WWW-Authenticate", "Bearer")
            return Answer(status=401, body={"error": "invalid_token"}, headers=(*NO_STORE, challenge))
        wait = self._registrations.take(arrived.address, trio.current_time())
        if wait:
            return _too_many(TooMany(wait))
        document = arrived.json()
        if document is None:
            body: JsonObject = {"error": "invalid_client_metadata", "error_description": "A JSON object is needed."}
            return Answer(status=400, body=body, headers=NO_STORE)
        return await self._store.run(partial(self._register, document))

    def _register(self, document: JsonObject, connection: sqlite3.Connection) -> Answer:
        return register(self._session(connection), document, limit=self.policy.clients)


def _too_many(many: TooMany) -> Answer:
    body: JsonObject = {"error": "temporarily_unavailable", "error_description": "There are too many requests."}
    return Answer(status=429, body=body, headers=(*NO_STORE, ("Retry-After", str(math.ceil(many.seconds)))))
