"""Clients whose metadata or keys are published on the web: fetched with restrictions, and cached for a while.

A client id that is a URL makes this server send a request to a URL that an untrusted peer chose. For that reason, only
public addresses are allowed (see `mcp_server.auth.fetch`), a few times a minute for each requesting address. Concurrent
requests for the same document share one fetch. A document describes a client only if its `client_id` is identical to
its URL.

Spec: basic/authorization#client-id-metadata-documents; draft-ietf-oauth-client-id-metadata-document sections 4 and 6
"""

from __future__ import annotations

import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson
import trio

from mcp_core.errors import McpError
from mcp_core.limits.rates import Rates
from mcp_server.auth.authorization_server.clients.metadata import (
    Unacceptable,
    check_document_id,
    looks_like_document_id,
    read_document,
)
from mcp_server.auth.authorization_server.clients.registration import save_client
from mcp_server.auth.authorization_server.model.client import Client
from mcp_server.auth.authorization_server.model.tables import sweep
from mcp_server.auth.authorization_server.model.transaction import Session
from mcp_server.auth.fetch import FetchRefused, fetch

if TYPE_CHECKING:
    import sqlite3

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.steps import FetchedResponse
    from mcp_server.auth.authorization_server.clients.registration import RegistrationPolicy
    from mcp_server.auth.authorization_server.model.settings import Settings
    from mcp_server.auth.authorization_server.model.store import SqliteStore

__all__ = ["Documents", "TooMany"]

_log: Final = logging.getLogger("mcp_server")

_SHORTEST: Final = 300.0
"""The minimum time for which a document is fresh, in seconds: reloading a page must not fetch it again."""
_LONGEST: Final = 86_400.0
"""The maximum time for which a document is fresh, and for which it is used if fetching a newer one fails, in
seconds."""
_KEYS_KEPT: Final = 256
_KEYS_AGAIN: Final = 30.0
"""Minimum time between two fetches of a client's keys, whatever key ids its assertions contain, in seconds."""
_BYTES: Final = 64 * 1024
_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?([0-9]{1,9})")
_NOT_KEPT: Final = re.compile(r"(?:^|[,\s])(?:no-store|no-cache)(?:$|[,\s])")


class TooMany(McpError):
    """One address caused too many fetches of documents."""

    def __init__(self, seconds: float) -> None:
        super().__init__("too many requests from this address: try again later")
        self.seconds: float = seconds
        """Time until the next attempt is allowed, in seconds."""


class Documents:
    """A look-up of clients in the store and by their metadata documents.

    Args:
        settings: The settings of the authorization server.
        store: The store of clients.
        policy: The policy for clients.
    """

    def __init__(self, settings: Settings, store: SqliteStore, policy: RegistrationPolicy) -> None:
        self._settings: Final = settings
        self._store: Final = store
        self._policy: Final = policy
        self._rates: Final = Rates(policy.fetches)
        self._busy: Final[dict[str, trio.Lock]] = {}
        self._keys: Final[dict[str, tuple[float, JsonObject]]] = {}

    async def find(self, client_id: str, *, address: str) -> Client | None:
        """Return the client with an id, or `None` if it does not exist.

        Args:
            client_id: The client id.
            address: The address that the request came from, for the rate limit.

        Raises:
            Unacceptable: The metadata document of the client is invalid. Its sentence may be shown to users.
            TooMany: The address has caused too many fetches.
        """
        configured = self._settings.clients.get(client_id)
        if configured is not None:
            return configured
        if not looks_like_document_id(client_id):
            return await self._store.run(partial(self._known, client_id))
        if not self._policy.metadata_documents:
            return None
        check_document_id(client_id)
        async with self._alone(client_id):
            kept = await self._store.run(partial(self._kept, client_id))
            if kept is not None and kept[1] > self._settings.clock():
                return kept[0]
            try:
                return await self._fetch(client_id, address)
            except (Unacceptable, TooMany):
                # A known client stays usable for a while if its document cannot be fetched.
                if kept is None:
                    raise
                return kept[0]

    async def keys(self, uri: str, *, address: str, key_fits: bool) -> JsonObject | None:
        """Return the published keys of a client, or `None` if they cannot be fetched.

        Args:
            uri: The `jwks_uri` of the client.
            address: The address that the request came from, for the rate limit.
            key_fits: Whether the required key is among the cached keys.

        Raises:
            TooMany: The address has caused too many fetches.
        """
        async with self._alone(uri):
            kept, now = self._keys.get(uri), self._settings.clock()
            if kept is not None and now < kept[0] + (_SHORTEST if key_fits else _KEYS_AGAIN):
                return kept[1]
            try:
                keys = _object(await self._get(uri, address))
            except Unacceptable:
                return None if kept is None else kept[1]
            self._keys.pop(uri, None)
            self._keys[uri] = (now, keys)
            if len(self._keys) > _KEYS_KEPT:
                del self._keys[next(iter(self._keys))]
            return keys

    def kept_keys(self, uri: str) -> JsonObject | None:
        """Return the cached keys of a client, or `None`."""
        kept = self._keys.get(uri)
        return None if kept is None else kept[1]

    # --- in the store ----------------------------------------------------------------------------------------------

    def _session(self, connection: sqlite3.Connection) -> Session:
        return Session(connection=connection, settings=self._settings, now=self._settings.clock())

    def _known(self, client_id: str, connection: sqlite3.Connection) -> Client | None:
        return self._session(connection).client(client_id)

    def _kept(self, client_id: str, connection: sqlite3.Connection) -> tuple[Client, float] | None:
        """Return a client, and the time until which its document is fresh."""
        row = connection.execute(
            "SELECT description, fresh_until FROM clients WHERE client_id = ? AND expires_at > ?",
            (client_id, self._settings.clock()),
        ).fetchone()
        return None if row is None else (Client.from_json(row[0]), row[1])

    def _keep(self, client: Client, fresh: float, connection: sqlite3.Connection) -> None:
        session = self._session(connection)
        sweep(connection, session.now)
        connection.execute(
            "DELETE FROM clients WHERE client_id IN"
            " (SELECT client_id FROM clients WHERE by_document ORDER BY learned_at DESC LIMIT -1 OFFSET ?)",
            (self._policy.clients - 1,),
        )
        save_client(session, client, fresh_until=session.now + fresh, expires_at=session.now + _LONGEST)

    # --- on the web ------------------------------------------------------------------------------------------------

    async def _fetch(self, client_id: str, address: str) -> Client:
        answer = await self._get(client_id, address)
        client = read_document(_object(answer), client_id=client_id, issued_at=self._settings.clock())
        await self._store.run(partial(self._keep, client, _fresh(answer)))
        return client

    async def _get(self, url: str, address: str) -> FetchedResponse:
        wait = self._rates.take(address, trio.current_time())
        if wait:
            raise TooMany(wait)
        accept = (("Accept", "application/json"),)
        try:
            answer = await fetch(url, headers=accept, networks=self._policy.networks, limit=_BYTES, redirects=False)
        except FetchRefused as refused:
            _log.info("fetch of a client document failed: error=%s", refused)
            raise Unacceptable("the document at the client_id cannot be fetched") from None
        if answer.status != 200:
            raise Unacceptable("the document at the client_id cannot be fetched")
        return answer

    def _alone(self, url: str) -> _Alone:
        return _Alone(self._busy, url)


class _Alone:
    """A lock for each URL."""

    def __init__(self, busy: dict[str, trio.Lock], url: str) -> None:
        self._busy: Final = busy
        self._url: Final = url
        self._lock: Final = busy.setdefault(url, trio.Lock())

    async def __aenter__(self) -> None:
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
        if not self._lock.locked():
            self._busy.pop(self._url, None)


def _object(answer: FetchedResponse) -> JsonObject:
    try:
        document: JsonValue = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise Unacceptable("the document at the client_id is not a JSON object")
    return document


def _fresh(answer: FetchedResponse) -> float:
    """Return the time for which a document is fresh, in seconds."""
    said = (answer.header("cache-control") or "").lower()
    age = _MAX_AGE.search(said)
    if age is None or _NOT_KEPT.search(said):
        return _SHORTEST
    return min(max(float(age[1]), _SHORTEST), _LONGEST)
