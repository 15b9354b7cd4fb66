"""The sessions of one HTTP endpoint: how they are opened, found, stored and closed.

The table contains the sessions in use. The store contains the data that other processes need. If a session is not in
the table, for example after a restart of the server, it is restored from the store and continues.

There is no timer: expired sessions are closed when another session is used.

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

from mcp_core.codec import Batch
from mcp_core.engine.events import MessageIgnored
from mcp_core.errors import InvalidValue, LimitExceeded
from mcp_core.http.sessions import EvictedSession, SessionTable
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
    from mcp_core.http.server import Post, Rejection
    from mcp_core.jsonrpc.messages import Request
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryBudget
    from mcp_core.methods import NotificationMethod
    from mcp_server.connection.channel import Service
    from mcp_server.stores.sessions import PendingNotification, SessionStore
    from mcp_server.transports.http.request import HttpContext

__all__ = ["SessionRegistry"]

_log: Final = logging.getLogger("mcp_server")

_ID_BYTES: Final = 32
"""Random bytes of a session id. 256 bits cannot be guessed and do not repeat."""

_SAVED_TIMES: Final = 8
"""Number of times that the record of a session in use is stored within `EndpointPolicy.session_idle`, so that other
processes know that the session has not expired."""


class SessionRegistry:
    """The sessions of one endpoint.

    Args:
        service: Responds to their requests.
        engine: Creates an engine.
        store: Stores the data that other processes need.
        policy: The settings of the endpoint.
        limits: The limits. The registry uses `sessions`.
        budget: The memory budget that the sessions are charged to.
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
        self._worker: Final = secrets.token_urlsafe(16)
        self._policy: Final = policy
        self._table: Final = SessionTable[Session](limits, idle=policy.session_idle)
        self._loading: Final = dict[str, trio.Event]()
        self._purged_at = -math.inf
        self._clock: Final = StampClock()
        self.failures: Final = StoreFailures()
        """Logs failures of the store."""

    def __len__(self) -> int:
        """Return the number of sessions in use."""
        return len(self._table)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._table)

    # --- requests --------------------------------------------------------------------------------------------------

    async def open(self, message: Request, context: HttpContext) -> Rejection | None:
        """Respond to `initialize`, and open a session if the request is valid."""
        exchange, response = context.exchange, context.response
        connection = self._engine()
        reaction = connection.receive(message)
        answer = cast("Answer", reaction.reply and reaction.reply.message)  # the engine responds to `initialize` itself
        id = None
        if connection.session is not None:
            id = secrets.token_urlsafe(_ID_BYTES)
            now = trio.current_time()
            await self._sweep(self._table.expire(now), now)
            session = None
            try:
                session = self._session(connection, context.identity.key, id)
                await self._add(session)
            except LimitExceeded as excess:
                if session is not None:
                    session.charge.release()
                _log.warning("session not opened: %s", excess)
                return exchange.busy(excess)
            await self.save(session)
        stream = EventStream(exchange, response, Era.LEGACY, session_id=id)
        await stream.give((answer,), refused=isinstance(reaction.event, MessageIgnored))
        return None

    async def post(self, post: Post, context: HttpContext) -> Rejection | None:
        """Respond to a POST of a session."""
        exchange = context.exchange
        session = await self._find(exchange.session_id or "", context.identity.key)
        if session is None:
            return exchange.unknown_session(post)
        rejection = exchange.check(post, session.revision) if type(post.message) is Batch else None
        if rejection is None:
            # As in `_busy`: a context manager would cost as much as the rest of this method.
            self._table.busy(session.id)
            try:
                rejection = await session.post(post, context)
            finally:
                self._table.idle(session.id, trio.current_time())
        return rejection

    async def reject(self, unreadable: Answer, context: HttpContext) -> None:
        """Handle a substitute for a posted response that cannot be parsed, if its session exists."""
        id = context.exchange.session_id
        session = None if id is None else await self._find(id, context.identity.key)
        if session is not None:
            session.reject(unreadable)

    async def get(self, context: HttpContext) -> Rejection | None:
        """Serve a stream of a session: the standalone stream, or a resumed one."""
        exchange = context.exchange
        session = await self._find(exchange.session_id or "", context.identity.key)
        if session is None:
            return exchange.unknown_session()
        with self._busy(session):
            if exchange.last_event_id is None:
                await session.standalone.serve(context)
                return None
            return await session.standalone.resume(exchange.last_event_id, context)

    async def delete(self, context: HttpContext) -> Rejection | None:
        """Close a session."""
        exchange = context.exchange
        session = await self._find(exchange.session_id or "", context.identity.key)
        if session is None:
            return exchange.unknown_session()
        self._table.remove(session.id)
        await self._end(session)
        await context.response.complete(exchange.empty_head(200))
        return None

    @contextmanager
    def _busy(self, session: Session) -> Iterator[None]:
        """Prevent a session from expiring within the block."""
        self._table.busy(session.id)
        try:
            yield
        finally:
            self._table.idle(session.id, trio.current_time())

    # --- finding ---------------------------------------------------------------------------------------------------

    async def _find(self, id: str, principal: str | None) -> Session | None:
        """Return the session with this id if it belongs to the principal."""
        now = trio.current_time()
        departed = self._table.expire(now)
        if departed or now - self._purged_at > self._policy.session_idle:
            await self._sweep(departed, now)
        session = self._table.find(id, principal, now)
        if session is None:
            session = await self._load(id, principal)
            if session is None:
                return None
            now = trio.current_time()
        if now >= session.save_due:
            await (self._renew(session) if session.is_stored else self.save(session))
        return None if session.ended else session

    async def _load(self, id: str, principal: str | None) -> Session | None:
        """Restore a session that another process opened."""
        # Two requests of a client that reconnects must not restore the session twice.
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
            # The session may have been used after its record was stored.
            grace = self._policy.session_idle * (1 + 1 / _SAVED_TIMES)
            return None if self._clock.age(record.used_at) > grace else await self._reopen(record)
        finally:
            del self._loading[id]
            loading.set()

    async def _reopen(self, record: SessionRecord) -> Session | None:
        connection = self._engine()
        revision = REVISIONS.get(record.revision)
        level = next((level for level in LOGGING_LEVELS if level == record.log_level), None)
        try:
            if revision is None or revision not in connection.revisions:
                raise InvalidValue(f"the server no longer supports revision {record.revision}")
            connection.reopen(
                record.client,
                revision,
                log_level=level,
                subscriptions=await self._store.subscriptions(record.id),
                # Unused ids: a process does not send more than one client request per microsecond.
                last_id=time.time_ns() // 1000,
            )
            session = self._session(connection, record.principal, record.id)
            await self._take_up(session)
        except (InvalidValue, LimitExceeded) as bad:
            _log.warning("stored session cannot be restored: %s", bad)
            return None
        # Its record will be stored again with the first request, with the time of this clock.
        session.stored(trio.current_time())
        _log.debug("session of another process restored")
        return session

    async def _take_up(self, session: Session) -> None:
        """Restore a session. Raises `StoreError` and `LimitExceeded`, and then leaves no trace of the session."""
        # First listen for new changes, then read the recorded ones, so that no change is lost. The session is added to
        # the table only after both, so that no request runs in between and no change is delivered twice.
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

    def record(self, definition: NotificationMethod[object], params: object) -> None:
        """Record a change for the sessions that are not in use here or have no stream. Does not block."""
        notification = pending_notification(definition, params)
        if notification is not None:
            self._store.record_notification(notification)

    async def remove_notifications(self, id: str, notifications: Sequence[PendingNotification]) -> None:
        """Remove the records of changes. A failure is logged, and a change may then be notified twice."""
        with self._survived("a change may be notified twice"):
            await self._store.remove_notifications(id, notifications)

    # --- keeping ---------------------------------------------------------------------------------------------------

    def _session(self, connection: ServerConnection, principal: str | None, id: str) -> Session:
        """Create a session for an engine with an open session. Raises `LimitExceeded`."""
        revision = cast("ClientPeer", connection.session).revision  # the session is open
        log: Log[EventStream] | None = (
            Log(self._store, self.failures, id, worker=self._worker, priming=revision.priming_event)
            if revision.resumable
            else None
        )
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
            _log.info("session ended: reason=%s", departed.reason.value)
            await self._end(departed.value)

    async def save(self, session: Session) -> None:
        """Store the record of a session and the subscriptions that are missing in the store."""
        peer = session.peer
        record = SessionRecord(
            id=session.id,
            principal=session.principal,
            revision=peer.revision.name,
            client=session.connection.handshake,
            log_level=peer.log_level,
            used_at=time.time(),
        )
        # Other requests do not need to store it, too.
        session.stored(trio.current_time() + self._policy.session_idle / _SAVED_TIMES)
        try:
            await self._store.save(record)
            # The store may lack subscriptions: an earlier call failed, or the store evicted the session.
            stored = await self._store.subscriptions(session.id)
        except StoreError as error:
            session.not_stored()
            self.failures.failed("a session is not stored", error)
            return
        if self.failures.count:
            self.failures.worked()
        for uri in stored.symmetric_difference(session.connection.watched):
            await self.keep_subscription(session, uri)

    async def _renew(self, session: Session) -> None:
        """Renew the time of last use of a session in the store. End the session if the store does not have it any more."""
        # Other requests do not need to do it, too.
        session.stored(trio.current_time() + self._policy.session_idle / _SAVED_TIMES)
        with self._survived("the use of a session is not stored"):
            if not await self._store.touch(session.id, time.time()) and not session.ended:
                _log.info("session ended: reason=it was removed from the store")
                self._table.remove(session.id)
                await self._end(session)

    async def keep_subscription(self, session: Session, uri: str) -> None:
        """Store whether a session is subscribed to a resource."""
        # Decided in the same step in which the store is called: the later of two calls stores the latest state.
        keep = self._store.subscribe if uri in session.connection.watched else self._store.unsubscribe
        try:
            await keep(session.id, uri)
        except StoreError as error:
            session.not_stored()
            self.failures.failed("a subscription is not stored", error)

    async def _sweep(self, expired: Sequence[EvictedSession[Session]], now: float) -> None:
        """Close the expired sessions, and from time to time delete those in the store.

        Args:
            expired: The sessions that the table removed.
            now: The time, by trio's clock.
        """
        for departed in expired:
            _log.info("session ended: reason=%s", departed.reason.value)
            await self._end(departed.value)
        idle = self._policy.session_idle
        if now - self._purged_at > idle:
            self._purged_at = now
            # A stream of a session may have been open since the session was last found.
            for session in tuple(self._table.in_progress()):
                if now >= session.save_due and session.is_stored:
                    await self._renew(session)
            with self._survived("expired sessions are not deleted"):
                await self._store.purge(self._clock.earliest() - 2 * idle, time.time())

    async def _end(self, session: Session) -> None:
        await session.end()
        with self._survived("the end of a session is not stored"):
            await self._store.delete(session.id)

    @contextmanager
    def _survived(self, what: str) -> Iterator[None]:
        """Log a failure of the store within the block, without failing the request."""
        try:
            yield
        except StoreError as error:
            self.failures.failed(what, error)
