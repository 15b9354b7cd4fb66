"""The sessions of one HTTP endpoint: how they are opened, found, kept and ended.

Those that are in use are in a table; what is to be known of them by another process, in a store. A session that the table
does not have may still be in the store, when the process is a new one; then it goes on as if nothing had happened.

Nobody watches the clock: sessions whose time is over go when another one is used.

Spec: basic/transports#session-management (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import logging
import math
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
from mcp_server.stores.clock import StampClock
from mcp_server.stores.failures import StoreFailures
from mcp_server.stores.sessions import SessionRecord, StoreError
from mcp_server.transports.http.event_stream import EventStream
from mcp_server.transports.http.replay import Log, pending_notification
from mcp_server.transports.http.session import Session, session_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mcp_core.engine.events import ClientPeer
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.responses import Post, Refusal
    from mcp_core.jsonrpc.messages import Request
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryBudget
    from mcp_core.methods import NotificationRow
    from mcp_server.connection.channel import Service
    from mcp_server.stores.sessions import PendingNotification, SessionStore
    from mcp_server.transports.http.response import Exchanged

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
        budget: The memory that the sessions are charged to.
    """

    def __init__(
        self,
        service: Service,
        engine: Callable[[], ServerConnection],
        store: SessionStore,
        policy: EndpointPolicy,
        limits: Limits,
        *,
        budget: MemoryBudget,
    ) -> None:
        self._budget: Final = budget
        self._service: Final = service
        self._engine: Final = engine
        self._store: Final = store
        self._policy: Final = policy
        self._table: Final = SessionTable[Session](limits, idle=policy.session_idle)
        self._loading: Final = dict[str, trio.Event]()
        self._purged_at = -math.inf
        self._clock: Final = StampClock()
        self.failures: Final = StoreFailures()
        """Logs that the store fails."""

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
            await self._sweep()
            session = None
            try:
                session = self._session(connection, exchanged.identity.key, id)
                await self._add(session)
            except LimitExceeded as excess:
                if session is not None:
                    session.charge.release()
                _log.warning("session not opened: %s", excess)
                return exchange.busy(excess)
            await self.save(session)
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
        if session is not None and trio.current_time() >= session.save_due:
            await self.save(session)
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
            return None if self._clock.age(record.used_at) > patience else await self._reopen(record)
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
                subscriptions=await self._store.subscriptions(record.id),
                # Any number that was not used: a process does not ask a client more than once in a microsecond.
                last_id=time.time_ns() // 1000,
            )
            session = self._session(connection, record.principal, record.id)
            await self._take_up(session)
        except (InvalidValue, LimitExceeded) as bad:
            _log.warning("a stored session cannot go on: %s", bad)
            return None
        # Its record is kept anew at once: by what the clock says now.
        session.stored(trio.current_time())
        _log.debug("a session goes on that another process had")
        return session

    async def _take_up(self, session: Session) -> None:
        """Continue a session. Raises `StoreError` and `LimitExceeded`; nothing of it is left then."""
        # First it is notified of changes, and then those are read that were announced before, so that none is missed. It
        # is in the table only then, so that no request can be served in between and none is delivered twice.
        self._service.connected(session)
        try:
            await session.recover()
            await session.take_up(await self._store.pending_notifications(session.id))
            await self._add(session)
        except BaseException:
            self._service.disconnected(session)
            session.charge.release()
            raise

    # --- changes ---------------------------------------------------------------------------------------------------

    def record(self, row: NotificationRow[object], params: object) -> None:
        """Record a change for the sessions that are not in use here, or have no stream. Never waits."""
        notification = pending_notification(row, params)
        if notification is not None:
            self._store.record_notification(notification)

    async def remove_notifications(self, id: str, notifications: Sequence[PendingNotification]) -> None:
        """See `Keeper.remove_notifications`."""
        with self._survived("a change may be notified twice"):
            await self._store.remove_notifications(id, notifications)

    # --- keeping ---------------------------------------------------------------------------------------------------

    def _session(self, connection: ServerConnection, principal: str | None, id: str) -> Session:
        """Make a session of an engine on which one is open. Raises `LimitExceeded`."""
        revision = cast("ClientPeer", connection.session).revision  # of a server; it is open
        log = Log(self._store, self.failures, id, priming=revision.priming_event) if revision.resumable else None
        return Session(
            self._service,
            connection,
            principal=principal,
            id=id,
            log=log,
            policy=self._policy,
            keeper=self,
            charge=self._budget.charge(
                ("session", id) if principal is None else ("principal", principal), session_bytes(connection)
            ),
        )

    async def _add(self, session: Session) -> None:
        departed = self._table.add(session.id, session.principal, session, trio.current_time())
        self._service.connected(session)
        if departed is not None:
            _log.info("a session was ended: %s", departed.reason.value)
            await self._end(departed.value)

    async def save(self, session: Session) -> None:
        """See `Keeper.save`."""
        peer = session.peer
        record = SessionRecord(
            id=session.id,
            principal=session.principal,
            revision=peer.revision.name,
            client=session.connection.handshake,
            log_level=peer.log_level,
            used_at=time.time(),
        )
        # Other requests need not keep it, too.
        session.stored(trio.current_time() + self._policy.session_idle / _SAVED_TIMES)
        try:
            await self._store.save(record)
            # What failed to be kept before, or what the store dropped with the session when it had too many.
            stored = await self._store.subscriptions(session.id)
        except StoreError as error:
            session.not_stored()
            self.failures.failed("a session is not kept", error)
            return
        if self.failures.count:
            self.failures.worked()
        for uri in stored.symmetric_difference(session.connection.watched):
            await self.keep_subscription(session, uri)

    async def keep_subscription(self, session: Session, uri: str) -> None:
        """See `Keeper.keep_subscription`."""
        # Decided in the same step in which the store is called: of two calls the later one knows the latest state.
        keep = self._store.subscribe if uri in session.connection.watched else self._store.unsubscribe
        try:
            await keep(session.id, uri)
        except StoreError as error:
            session.not_stored()
            self.failures.failed("a subscription is not kept", error)

    async def _sweep(self) -> None:
        """Ends the sessions whose time is over."""
        for departed in self._table.expire(trio.current_time()):
            _log.info("a session was ended: %s", departed.reason.value)
            await self._end(departed.value)
        idle = self._policy.session_idle
        now = trio.current_time()
        if now - self._purged_at > idle:
            self._purged_at = now
            with self._survived("old sessions are not forgotten"):
                await self._store.purge(self._clock.earliest() - 2 * idle, time.time())

    async def _end(self, session: Session) -> None:
        await session.end()
        with self._survived("the end of a session is not kept"):
            await self._store.delete(session.id)

    @contextmanager
    def _survived(self, what: str) -> Iterator[None]:
        """A store that fails must not fail the request."""
        try:
            yield
        except StoreError as error:
            self.failures.failed(what, error)
