"""The sessions of one HTTP endpoint: how they are opened, found, stored and closed.

The table contains the sessions in use. The store contains the data that other workers need. If a session is not in the
table, because the server was restarted or because another worker opened it, it is restored from the store and
continues.

Several workers can serve one session at the same time. None owns it: each has a session of its own in its table, with an
engine of its own, which it may drop at any time. What they have in common is in the store. `receive` handles the
messages of other workers, which inform of changes there.

There is no timer: expired sessions are closed when another session is used.

Spec: basic/transports#session-management (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from mcp_core.codec import Batch
from mcp_core.engine.events import MessageIgnored
from mcp_core.errors import InvalidValue, LimitExceeded
from mcp_core.field_methods import FieldRepr
from mcp_core.http.sessions import EvictedSession, SessionTable
from mcp_core.revisions import REVISIONS, Era
from mcp_core.types.logging import LOGGING_LEVELS
from mcp_server.cluster.messages import (
    ClientMessageReceived,
    ServerMessageSent,
    SessionEnded,
    SessionUpdated,
    StandaloneStreamOpened,
    StreamAppended,
    StreamFollowed,
)
from mcp_server.connection.changes import pending_notification
from mcp_server.stores.clock import StampClock
from mcp_server.stores.failures import StoreFailures
from mcp_server.stores.sessions import SessionRecord, StoreError
from mcp_server.transports.http.event_stream import EventStream
from mcp_server.transports.http.replay import Log
from mcp_server.transports.http.session import Session, session_bytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from mcp_core.engine.events import ClientPeer
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.server import Post, Rejection
    from mcp_core.jsonrpc.messages import Request
    from mcp_core.jsonrpc.messages import Response as Answer
    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryBudget
    from mcp_core.methods import NotificationMethod
    from mcp_server.cluster.barrier import ClusterBarrier
    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.cluster.protocol import Cluster
    from mcp_server.connection.channel import Service
    from mcp_server.stores.sessions import PendingNotification, SessionStore
    from mcp_server.transports.http.request import HttpContext

__all__ = ["SessionRegistry"]

_log: Final = logging.getLogger("mcp_server")

_ID_BYTES: Final = 32
"""Random bytes of a session id. 256 bits cannot be guessed and do not repeat."""

_IDS: Final = 2**52
"""Client requests of a restored session have ids after a random number below this one, so that two workers never use the
same. Each number up to twice this one is exact in JavaScript."""

_JOBS: Final = 10_000
"""The largest number of sessions for which messages of other workers are handled at the same time."""

_SAVED_TIMES: Final = 8
"""Number of times that the record of a session in use is stored within `EndpointPolicy.session_idle`, so that other
processes know that the session has not expired."""


@attrs.define(eq=False, repr=False)
class _Job(FieldRepr):
    """A task that handles messages of other workers with the same effect."""

    following: Callable[[], Awaitable[None]] | None = None
    """Handles a message that arrived meanwhile."""
    is_over: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False, repr=False)
class _Load(FieldRepr):
    """A session that is being restored from the store."""

    is_over: trio.Event = attrs.field(factory=trio.Event)
    is_outdated: bool = False
    """Whether another worker changed or ended the session meanwhile: what was read may be the earlier state."""


class SessionRegistry:
    """The sessions of one endpoint.

    Args:
        service: Responds to their requests.
        engine: Creates an engine.
        store: Stores the data that other processes need.
        policy: The settings of the endpoint.
        limits: The limits. The registry uses `sessions`.
        budget: The memory budget that the sessions are charged to.
        cluster: Connects this worker to the others.
        barrier: Waits until the other workers know of a change.
        joined: Waits until this worker receives messages of others. Raises `StoreError`.
        start: Starts a task for a message of another worker.
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
        cluster: Cluster,
        barrier: ClusterBarrier,
        joined: Callable[[], Awaitable[None]],
        start: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self.cluster: Final = cluster
        """Connects this worker to the others."""
        self._barrier: Final = barrier
        self._joined: Final = joined
        self._start: Final = start
        self._jobs: Final[dict[tuple[str, str], _Job]] = {}
        barrier.settlers.add(self)
        self._budget: Final = budget
        self._service: Final = service
        self._engine: Final = engine
        self._store: Final = store
        self._policy: Final = policy
        self._table: Final = SessionTable[Session](limits, idle=policy.session_idle)
        self._loading: Final = dict[str, _Load]()
        self._ending: Final = dict[str, trio.Event]()
        self._reading: Final = dict[str, trio.Event]()
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
                if self.cluster.is_shared:
                    connection.share(secrets.randbelow(_IDS))
                await self._add(session)
            except LimitExceeded as excess:
                if session is not None:
                    session.charge.release()
                _log.warning("session not opened: %s", excess)
                return exchange.busy(excess)
            if not await self.save(session) and self.cluster.is_shared:
                # No other worker could serve it.
                self._table.remove(id)
                await session.end()
                raise StoreError("a new session cannot be stored: see the error before")
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
        if self.cluster.is_shared:
            # The events and the pending notifications are in the store.
            session.is_stale = True
            await self.refresh(session)
            if session.ended:
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
        if self.cluster.is_shared:
            await self._store.delete(session.id)
        await self._end(session)
        self.cluster.broadcast(SessionEnded(session.id))
        await self._barrier.wait()
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
        if session.is_stale:
            with self._survived("changes by other workers are not known"):
                await self.refresh(session)
        if session.ended and self.cluster.is_shared:
            # Perhaps it was dropped here only, to make space for others.
            session = await self._load(id, principal)
        return None if session is None or session.ended else session

    async def _load(self, id: str, principal: str | None) -> Session | None:
        """Restore a session that another process opened."""
        # Two requests of a client that reconnects must not restore the session twice, and no request one that is ending.
        while True:
            if (loading := self._loading.get(id)) is not None:
                await loading.is_over.wait()
            elif (ended := self._ending.get(id)) is not None:
                await ended.wait()
            else:
                break
        session = self._table.find(id, principal, trio.current_time())
        if session is not None:
            return session
        loading = self._loading[id] = _Load()
        try:
            # Before that, it does not know which workers have ended.
            await self._joined()
            record = await self._store.load(id)
            if record is None or record.principal != principal:
                return None
            # The session may have been used after its record was stored.
            grace = self._policy.session_idle * (1 + 1 / _SAVED_TIMES)
            if self._clock.age(record.used_at) > grace:
                return None
            session = await self._reopen(record)
            if session is not None and loading.is_outdated:
                session.is_stale = True
            return session
        finally:
            del self._loading[id]
            loading.is_over.set()

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
                last_id=secrets.randbelow(_IDS),
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
            if self.cluster.is_shared:
                await session.standalone.locate()
            else:
                await session.take_up(await self.pending_notifications(session.id))
            await self._add(session)
        except BaseException:
            self._service.disconnected(session)
            session.charge.release()
            raise

    # --- changes ---------------------------------------------------------------------------------------------------

    def record(self, definition: NotificationMethod[object], params: object) -> None:
        """Record a change for the sessions that are not in use here or have no stream. Does not block."""
        notification = pending_notification(definition, params)
        if notification is not None and not self.cluster.is_shared:
            self._store.record_notification(notification)

    async def remove_notifications(self, id: str, notifications: Sequence[PendingNotification]) -> None:
        """Remove the records of changes. A failure is logged, and a change may then be notified twice."""
        with self._survived("a change may be notified twice"):
            await self._store.remove_notifications(id, notifications)

    async def pending_notifications(self, id: str) -> Sequence[PendingNotification]:
        """Return the recorded changes of which the client has not been notified. Raises `StoreError`."""
        return await self._store.pending_notifications(id)

    # --- other workers ---------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: ClusterMessage) -> None:
        """Receive a message of another worker. Does not block."""
        id: str = getattr(message, "session", "")
        session = self._table.get(id)
        if session is None:
            if id in self._loading and isinstance(message, SessionUpdated | SessionEnded | StandaloneStreamOpened):
                self._loading[id].is_outdated = True
            self._return(sender, message)
            return
        match message:
            case ClientMessageReceived():
                session.deliver(message.message)
            case ServerMessageSent():
                if not session.send_from(sender, message.message):
                    self._return(sender, message)
            case SessionUpdated():
                self._outdate(session)
            case SessionEnded():
                # At once: the next request must not find it.
                self._table.remove(session.id)
                self._start(partial(self._ended, session))
            case StandaloneStreamOpened() | StreamAppended() | StreamFollowed():
                self._receive_of_stream(session, sender, message)
            case _:
                _log.debug("message of another worker ignored: class=%s", type(message).__name__)

    def _receive_of_stream(
        self, session: Session, sender: str, message: StandaloneStreamOpened | StreamAppended | StreamFollowed
    ) -> None:
        if isinstance(message, StandaloneStreamOpened):
            session.standalone.worker = sender
            self._dispatch((session.id, "standalone"), partial(session.standalone.replaced, message.stream))
        elif isinstance(message, StreamAppended):
            session.appended(message.stream, is_over=message.is_over)
        elif message.is_connected:
            follow = partial(self._follow, session, sender, message.stream)
            self._dispatch((session.id, f"follow {message.stream}"), follow)
        else:
            session.unfollow(sender, message.stream)

    def _return(self, sender: str, message: ClusterMessage) -> None:
        """Inform the sender of a message that the session or the stream is not in use here."""
        if isinstance(message, StreamFollowed) and message.is_connected:
            self.cluster.send(sender, StreamAppended(message.session, message.stream, is_over=True))
        elif isinstance(message, ServerMessageSent):
            self.cluster.send(sender, message)

    def missed(self) -> None:
        """Read again what other workers may have changed: their messages may have been lost. Does not block."""
        for session in self._table:
            # `Session.missed` does the rest.
            self._outdate(session)

    def _outdate(self, session: Session) -> None:
        session.outdate()
        if session.is_in_use:
            self._dispatch((session.id, "refresh"), partial(self.refresh, session))

    def lost(self, worker: str) -> None:
        """Learn that another worker has ended. Does not block."""
        for session in self._table:
            session.lost(worker)

    def keys_changed(self, keys: Sequence[bytes]) -> None:
        """Do nothing: sessions have no keys."""

    def _dispatch(self, key: tuple[str, str], job: Callable[[], Awaitable[None]]) -> None:
        """Handle a message in a task, after the one with the same key that is being handled. Does not block."""
        if key in self._jobs:
            # One that waits is not needed any more: this one does the same, later.
            self._jobs[key].following = job
        elif len(self._jobs) < _JOBS:
            self._jobs[key] = _Job()
            self._start(partial(self._work, key, job))
        else:
            _log.warning("message of another worker dropped: class=%s jobs=%d", key[1], len(self._jobs))

    async def _work(self, key: tuple[str, str], job: Callable[[], Awaitable[None]]) -> None:
        following: Callable[[], Awaitable[None]] | None = job
        state = self._jobs[key]
        try:
            while following is not None:
                with self._survived("a message of another worker has no effect"):
                    await following()
                following, state.following = state.following, None
        finally:
            del self._jobs[key]
            state.is_over.set()

    @property
    def is_unsettled(self) -> bool:
        """Whether a session is read again for its running requests."""
        return any(what == "refresh" for _, what in self._jobs)

    async def settle(self) -> None:
        """Wait until the sessions that other workers have changed are read again for their running requests."""
        for (_, what), job in tuple(self._jobs.items()):
            if what == "refresh":
                await job.is_over.wait()

    async def _follow(self, session: Session, worker: str, stream: int) -> None:
        if not await session.follow(worker, stream):
            self.cluster.send(worker, StreamAppended(session.id, stream, is_over=True))

    async def _ended(self, session: Session) -> None:
        """End a session that the store does not have any more."""
        self._table.remove(session.id)
        if not session.ended:
            _log.info("session ended: reason=it was removed from the store")
            await session.end()

    # --- keeping ---------------------------------------------------------------------------------------------------

    def _session(self, connection: ServerConnection, principal: str | None, id: str) -> Session:
        """Create a session for an engine with an open session. Raises `LimitExceeded`."""
        revision = cast("ClientPeer", connection.session).revision  # the session is open
        log: Log[EventStream] | None = (
            Log(self._store, self.failures, id, cluster=self.cluster, priming=revision.priming_event)
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
            await self._dismiss(departed)

    async def save(self, session: Session) -> bool:
        """Store the record of a session and the subscriptions that are missing in the store.

        Returns:
            Whether the record was stored.
        """
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
            removed = await self._store.save(record)
        except StoreError as error:
            self._not_stored(session)
            self.failures.failed("a session is not stored", error)
            return False
        if self.failures.count:
            self.failures.worked()
        if self.cluster.is_shared:
            for id in removed:
                self.cluster.broadcast(SessionEnded(id))
                evicted = self._table.get(id)
                if evicted is not None:
                    await self._ended(evicted)
            if session.updates:
                self.cluster.broadcast(SessionUpdated(session.id))
                await self._barrier.wait()
        for uri in session.unsaved:
            await self.keep_subscription(session, uri)
        return True

    def _not_stored(self, session: Session) -> None:
        """Handle a change of a session that could not be stored.

        A single worker keeps the change, and stores it with the next request. In a cluster the request is rejected, so
        the change must have no effect: what the store has is read again.
        """
        if self.cluster.is_shared:
            self._outdate(session)
        else:
            session.not_stored()

    async def _renew(self, session: Session) -> None:
        """Renew the time of last use of a session in the store.

        If the store does not have the session any more, another worker has ended it. A single worker has not: the store
        was full, or lost its data, and gets the session again.
        """
        # Other requests do not need to do it, too.
        session.stored(trio.current_time() + self._policy.session_idle / _SAVED_TIMES)
        with self._survived("the use of a session is not stored"):
            if await self._store.touch(session.id, time.time()) or session.ended:
                return
            if self.cluster.is_shared:
                await self._ended(session)
            else:
                session.unsaved = frozenset(session.connection.watched)
                await self.save(session)

    async def _renew_all(self) -> None:
        """Renew the sessions with a request in progress: a stream may be open for longer than `session_idle`."""
        for session in tuple(self._table.in_progress()):
            if trio.current_time() >= session.save_due and session.is_stored:
                await self._renew(session)

    async def run(self) -> None:
        """Renew the sessions in use until cancelled. A store of several workers forgets them otherwise."""
        while True:
            await trio.sleep(self._policy.session_idle / _SAVED_TIMES)
            await self._renew_all()

    async def keep_subscription(self, session: Session, uri: str) -> bool:
        """Store whether a session is subscribed to a resource.

        Returns:
            Whether it was stored.
        """
        # Decided in the same step in which the store is called: the later of two calls stores the latest state.
        keep = self._store.subscribe if uri in session.connection.watched else self._store.unsubscribe
        session.unsaved |= {uri}
        session.updates += 1
        try:
            await keep(session.id, uri)
        except StoreError as error:
            if self.cluster.is_shared:
                session.unsaved -= {uri}
            self._not_stored(session)
            self.failures.failed("a subscription is not stored", error)
            return False
        session.updates += 1
        if session.is_stored:
            session.unsaved -= {uri}
            self.cluster.broadcast(SessionUpdated(session.id))
            await self._barrier.wait()
        return True

    async def refresh(self, session: Session) -> None:
        """Read the log level and the subscriptions of a session again if they are stale. Raises `StoreError`."""
        while not session.ended:
            reading = self._reading.get(session.id)
            if reading is not None:
                await reading.wait()
                continue
            if not session.is_stale:
                return
            reading = self._reading[session.id] = trio.Event()
            session.is_stale = False
            updates = session.updates
            try:
                record = await self._store.load(session.id)
                stored = await self._store.subscriptions(session.id)
                await session.standalone.locate()
            except BaseException:
                session.is_stale = True
                raise
            finally:
                del self._reading[session.id]
                reading.set()
            if session.updates != updates:
                # What was read may be older than what a request at this worker has changed.
                session.is_stale = True
            elif record is None:
                if session.is_stored:
                    await self._ended(session)
                return
            else:
                connection = session.connection
                kept = (stored - session.unsaved) | session.unsaved.intersection(connection.watched)
                connection.update_session(
                    log_level=next((level for level in LOGGING_LEVELS if level == record.log_level), None),
                    subscriptions=sorted(kept),
                )
                session.standalone.unsubscribed(connection.watched)

    async def _sweep(self, expired: Sequence[EvictedSession[Session]], now: float) -> None:
        """Close the expired sessions, and from time to time delete those in the store.

        Args:
            expired: The sessions that the table removed.
            now: The time, by trio's clock.
        """
        for departed in expired:
            await self._dismiss(departed)
        idle = self._policy.session_idle
        if now - self._purged_at > idle:
            self._purged_at = now
            await self._renew_all()
            with self._survived("expired sessions are not deleted"):
                await self._store.purge(self._clock.earliest() - 2 * idle, time.time())

    async def _dismiss(self, departed: EvictedSession[Session]) -> None:
        """End a session that the table has removed. If other workers can serve it, the store keeps it."""
        if self.cluster.is_shared:
            _log.debug("session no longer in use here: reason=%s", departed.reason.value)
            await departed.value.end()
        else:
            _log.info("session ended: reason=%s", departed.reason.value)
            await self._end(departed.value)

    async def _end(self, session: Session) -> None:
        """End a session for all workers."""
        self._table.remove(session.id)
        if self.cluster.is_shared:
            await session.end()
            return
        ended = self._ending[session.id] = trio.Event()
        try:
            await session.end()
            with self._survived("the end of a session is not stored"):
                await self._store.delete(session.id)
        finally:
            del self._ending[session.id]
            ended.set()

    @contextmanager
    def _survived(self, what: str) -> Iterator[None]:
        """Log a failure of the store within the block, without failing the request."""
        try:
            yield
        except StoreError as error:
            self.failures.failed(what, error)
