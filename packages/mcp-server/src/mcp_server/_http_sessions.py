"""The sessions of one HTTP endpoint: how they are opened, found, kept and ended.

Those that are in use are in a table; what is to be known of them by another process, in a store. A session that the table
does not have may still be in the store, when the process is a new one; then it goes on as if nothing had happened.

Nobody watches the clock: sessions whose time is over go when another one is used.

Spec: basic/transports#session-management (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

import trio

from mcp_core.engine.events import Ignored
from mcp_core.errors import InvalidValue, LimitExceeded
from mcp_core.http.sessions import SessionTable
from mcp_core.revisions import REVISIONS, Era
from mcp_core.types.logging import LOGGING_LEVELS
from mcp_server._http_log import Log
from mcp_server._http_session import Session
from mcp_server._http_stream import EventStream
from mcp_server._stores import SessionRecord, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_core.engine.events import ClientPeer
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.policy import EndpointPolicy
    from mcp_core.http.responses import Post, Refusal
    from mcp_core.jsonrpc.messages import JsonObject, Request
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.limits import Limits
    from mcp_server._answering import Service
    from mcp_server._http_response import Exchanged
    from mcp_server._stores import SessionStore

__all__ = ["Sessions"]

_log: Final = logging.getLogger("mcp_server")

_ID_BYTES: Final = 32
"""Random bytes of a session id: 256 bits cannot be guessed, and are never drawn twice."""

_SAVED_TIMES: Final = 8
"""How often within `EndpointPolicy.session_idle` the record of a session in use is kept anew, so that another process
knows that its time is not over."""


class Sessions:
    """The sessions of one endpoint.

    Args:
        service: Answers their requests.
        engine: Makes an engine.
        store: Keeps what another process shall know of them.
        policy: The settings of the endpoint.
        limits: The bounds: `sessions`.
    """

    def __init__(
        self,
        service: Service,
        engine: Callable[[], ServerConnection],
        store: SessionStore,
        policy: EndpointPolicy,
        limits: Limits,
    ) -> None:
        self._service: Final = service
        self._engine: Final = engine
        self._store: Final = store
        self._policy: Final = policy
        self._table: Final = SessionTable[Session](limits, idle=policy.session_idle)
        self._loading: Final = dict[str, trio.Event]()
        self._purged_at = 0.0

    def __len__(self) -> int:
        """How many are in use here."""
        return len(self._table)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._table)

    # --- requests --------------------------------------------------------------------------------------------------

    async def open(self, message: Request, exchanged: Exchanged) -> Refusal | None:
        """Answers `initialize`, which opens a session if nothing is wrong with it."""
        exchange, response = exchanged.exchange, exchanged.response
        connection = self._engine()
        reaction = connection.receive(message)
        answer = cast("Answer", reaction.reply and reaction.reply.message)  # the engine answers `initialize` by itself
        id = None
        if connection.session is not None:
            id = secrets.token_urlsafe(_ID_BYTES)
            session = self._session(connection, exchanged.identity.key, id, message.params or {})
            await self._sweep()
            try:
                await self._add(session)
            except LimitExceeded as excess:
                _log.warning("no session is opened: %s", excess)
                return exchange.busy(excess)
            await self._save(session)
        stream = EventStream(exchange, response, Era.LEGACY, session_id=id)
        await stream.give((answer,), refused=isinstance(reaction.event, Ignored))
        return None

    async def post(self, post: Post, exchanged: Exchanged) -> Refusal | None:
        """Answers what was posted to a session."""
        exchange = exchanged.exchange
        session = await self._find(exchange.session_id or "", exchanged.identity.key)
        if session is None:
            return exchange.unknown_session(post)
        refusal = exchange.check(post, session.revision)
        if refusal is None:
            with self._busy(session):
                refusal = await session.post(post, exchanged)
        return refusal

    async def refuse(self, unreadable: Answer, exchanged: Exchanged) -> None:
        """An answer was posted to a session that cannot be read: takes what stands for it, if there is such a session."""
        id = exchanged.exchange.session_id
        session = None if id is None else await self._find(id, exchanged.identity.key)
        if session is not None:
            session.refuse(unreadable)

    async def get(self, exchanged: Exchanged) -> Refusal | None:
        """Serves a stream of a session: the standalone one, or the rest of one that broke."""
        exchange = exchanged.exchange
        session = await self._find(exchange.session_id or "", exchanged.identity.key)
        if session is None:
            return exchange.unknown_session()
        with self._busy(session):
            if exchange.last_event_id is None:
                await session.standing.serve(exchanged)
                return None
            return await session.standing.resume(exchange.last_event_id, exchanged)

    async def delete(self, exchanged: Exchanged) -> Refusal | None:
        """Ends a session."""
        exchange = exchanged.exchange
        session = await self._find(exchange.session_id or "", exchanged.identity.key)
        if session is None:
            return exchange.unknown_session()
        self._table.remove(session.id)
        await self._end(session)
        await exchanged.response.complete(exchange.empty_head(200))
        return None

    @contextmanager
    def _busy(self, session: Session) -> Iterator[None]:
        """Its time stands still in the block."""
        self._table.busy(session.id)
        try:
            yield
        finally:
            self._table.idle(session.id, trio.current_time())

    # --- finding ---------------------------------------------------------------------------------------------------

    async def _find(self, id: str, principal: str | None) -> Session | None:
        """The session of that id, if it is the principal's."""
        await self._sweep()
        session = self._table.find(id, principal, trio.current_time()) or await self._load(id, principal)
        if session is not None and time.time() - session.saved_at > self._policy.session_idle / _SAVED_TIMES:
            await self._save(session)
        return None if session is None or session.ended else session

    async def _load(self, id: str, principal: str | None) -> Session | None:
        """Takes up a session that another process had."""
        # Two requests of a client that comes back must not make two sessions.
        while (loading := self._loading.get(id)) is not None:
            await loading.wait()
        session = self._table.find(id, principal, trio.current_time())
        if session is not None:
            return session
        loading = self._loading[id] = trio.Event()
        try:
            record = await self._store.load(id)
            if record is None or record.principal != principal:
                return None
            # It may have been used after its record was kept.
            patience = self._policy.session_idle * (1 + 1 / _SAVED_TIMES)
            return None if record.used_at + patience < time.time() else await self._reopen(record)
        finally:
            del self._loading[id]
            loading.set()

    async def _reopen(self, record: SessionRecord) -> Session | None:
        connection = self._engine()
        revision = REVISIONS.get(record.revision)
        level = next((level for level in LOGGING_LEVELS if level == record.log_level), None)
        try:
            if revision is None or revision not in connection.revisions:
                raise InvalidValue(f"the server does not speak {record.revision} any more")
            connection.reopen(
                record.client,
                revision,
                log_level=level,
                subscriptions=record.subscriptions,
                # Any number that was not used: a process does not ask a client more than once in a microsecond.
                last_id=time.time_ns() // 1000,
            )
            session = self._session(connection, record.principal, record.id, record.client)
            await session.recover()
            await self._add(session)
        except (InvalidValue, LimitExceeded) as bad:
            _log.warning("a stored session cannot go on: %s", bad)
            return None
        session.saved_at = record.used_at
        _log.debug("a session goes on that another process had")
        return session

    # --- keeping ---------------------------------------------------------------------------------------------------

    def _session(self, connection: ServerConnection, principal: str | None, id: str, client: JsonObject) -> Session:
        revision = cast("ClientPeer", connection.session).revision  # of a server; it is open
        log = Log(self._store, id, priming=revision.priming_event) if revision.resumable else None
        return Session(
            self._service,
            connection,
            principal=principal,
            id=id,
            client=client,
            log=log,
            policy=self._policy,
            save=self._save,
        )

    async def _add(self, session: Session) -> None:
        departed = self._table.add(session.id, session.principal, session, trio.current_time())
        self._service.connected(session)
        if departed is not None:
            _log.info("a session was ended: %s", departed.reason.value)
            await self._end(departed.value)

    async def _save(self, session: Session) -> None:
        """Keeps the record of a session."""
        session.saved_at = time.time()
        peer = session.peer
        record = SessionRecord(
            id=session.id,
            principal=session.principal,
            revision=peer.revision.name,
            client=session.client,
            log_level=peer.log_level,
            subscriptions=session.connection.watched,
            used_at=session.saved_at,
        )
        with _survived("a session is not kept"):
            await self._store.save(record)

    async def _sweep(self) -> None:
        """Ends the sessions whose time is over."""
        for departed in self._table.expire(trio.current_time()):
            _log.info("a session was ended: %s", departed.reason.value)
            await self._end(departed.value)
        idle = self._policy.session_idle
        now = time.time()
        if now - self._purged_at > idle:
            self._purged_at = now
            with _survived("old sessions are not forgotten"):
                await self._store.purge(now - 2 * idle)

    async def _end(self, session: Session) -> None:
        await session.end()
        with _survived("the end of a session is not kept"):
            await self._store.delete(session.id)


@contextmanager
def _survived(what: str) -> Iterator[None]:
    """A store that fails must not fail the request."""
    try:
        yield
    except StoreError:
        _log.exception("%s: the store fails", what)
