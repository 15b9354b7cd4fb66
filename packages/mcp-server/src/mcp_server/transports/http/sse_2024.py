"""HTTP+SSE, the transport of 2024-11-05, for clients that support no other: two endpoints beside the main one.

A GET of the first endpoint opens a stream, on which the server sends all its messages. The stream is the session: the
session and its handlers end with it, because their responses could not be delivered. The first event of the stream
names the second endpoint. This endpoint accepts a POST of a message with 202 and forwards it to the session in its URI.

If there are several workers, a POST may arrive at another one than the stream. The store then states which worker serves
the stream, and the message is sent there. The handlers have the identity of the GET request, whose principal is the same.

A client can negotiate any legacy revision. Modern requests need no session. They are rejected by the engine, which
supports none of their revisions.

Spec: basic/transports#http-with-sse (2024-11-05)
"""

from __future__ import annotations

import logging
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from mcp_core.codec import Batch, encode
from mcp_core.errors import LimitExceeded, MalformedMessage
from mcp_core.excerpts import shown
from mcp_core.framing.sse import encode_comment
from mcp_core.http.server import Rejection, Responses
from mcp_core.http.sse_2024 import admit, endpoint_event, message_event, read_post, session_of
from mcp_core.limits.memory_budget import parsed_size
from mcp_core.trio.writer import CoalescingWriter
from mcp_server.cluster.messages import ClientMessageReceived, message_of, wire_of
from mcp_server.connection.authenticator import ANONYMOUS, UNREADABLE, Identity
from mcp_server.connection.stream_channel import CallMemory, StreamChannel
from mcp_server.stores.sessions import SessionRecord, StoreError
from mcp_server.transports.http.request import AsgiResponse, memory_owner, receive_body

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import Message, RequestId
    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_server.asgi import Receive, Send
    from mcp_server.cluster.messages import ClusterMessage
    from mcp_server.service import ServerService

__all__ = ["POST_PATH", "STREAM_PATH", "SsePair"]

_log: Final = logging.getLogger("mcp_server")

Check: TypeAlias = "Callable[[Identity, Responses, Message | Batch], Rejection | None]"
"""Returns the rejection of a message that the sender is not authorized to send, or `None`."""

STREAM_PATH: Final = "/sse"
"""The default path of the stream, which most servers of 2024 have and most clients expect."""

POST_PATH: Final = "/messages"
"""The default path for messages. The stream sends it to clients."""

_SESSION_BYTES: Final = 64 * 1024
"""Memory of a session, in bytes: five tasks, an engine and a queue."""

_UNREAD: Final = 64 * 1024
"""Largest unread output without a charge of its own, in bytes. A client that reads stays below this size."""

_RENEWED_TIMES: Final = 8
"""Number of times that the record of an open stream is renewed within `EndpointPolicy.session_idle`."""

_NOT_CONFIRMED: Final = (
    "the worker that serves the stream of this session does not confirm the message: try again later"
)

_LAST_COMMAND: Final = 1.0
"""Time to delete the record of a stream that has ended, in seconds."""

_LAST_WRITE: Final = 1.0
"""Time for a client to read pending output when the server stops, in seconds."""


class _Session:
    """The stream of one client, and the sink of its channel."""

    def __init__(
        self,
        connection: ServerConnection,
        response: AsgiResponse,
        keep_alive: float,
        identity: Identity,
        charge: MemoryCharge,
    ) -> None:
        self.connection: Final = connection
        self.identity: Final = identity
        self.charge: Final = charge
        self.over: Final = trio.Event()
        self.grace: float | None = None
        self._response: Final = response
        self._keep_alive: Final = keep_alive
        self._until = identity.until
        self._writer: Final = CoalescingWriter(self._write, connection.limits.outgoing_bytes, on_broken=self._end_now)
        self._stop: Callable[[], None] | None = None
        self._posts: Final[set[trio.CancelScope]] = set()

    # --- outbound --------------------------------------------------------------------------------------------------

    async def send(self, message: Message | Batch, for_request: RequestId | None, *, more: bool) -> None:  # noqa: ARG002  # one stream for all
        event = self._event(message)
        if self._charge_output(len(event)):
            await self._writer.put(event, more=more)

    def send_nowait(self, message: Message | Batch, for_request: RequestId | None) -> None:  # noqa: ARG002
        event = self._event(message)
        if self._charge_output(len(event)):
            self._writer.put_nowait(event)

    def _charge_output(self, size: int) -> bool:
        """Charge the unread output. End the session and return `False` if the memory budget is exhausted."""
        waiting = self._writer.waiting_bytes + size
        try:
            self.charge.resize(_SESSION_BYTES + self.connection.watched_bytes + (waiting if waiting > _UNREAD else 0))
        except LimitExceeded as excess:
            _log.warning("HTTP+SSE session ended, client does not read: %s", excess)
            self.over.set()
            return False
        return True

    def _event(self, message: Message | Batch) -> bytes:
        return message_event(encode(message, null_id=self.connection.error_ids_are_null))

    async def _write(self, data: bytes | memoryview) -> None:
        await self._response.write(bytes(data))
        if self._response.lost:
            raise trio.BrokenResourceError

    # --- inbound ---------------------------------------------------------------------------------------------------

    async def deliver(
        self,
        channel: StreamChannel,
        message: Message | Batch,
        size: int,
        http: HttpRequest,
        identity: Identity,
        *,
        memory: int,
    ) -> bool:
        """Handle a message, and wait while the client does not read. Return `False` if the session ends meanwhile."""
        with trio.CancelScope() as scope:
            self._posts.add(scope)
            try:
                channel.deliver(message, size, http.without_credentials(), identity, memory)
                await self._writer.wait_while_overdue()
            finally:
                self._posts.remove(scope)
        return not scope.cancelled_caught

    # --- lifetime --------------------------------------------------------------------------------------------------

    async def run(self, channel: StreamChannel, nursery: trio.Nursery, receive: Receive) -> None:
        """Serve until the client disconnects, or `over` is set."""

        def stop() -> None:
            channel.end()
            nursery.cancel_scope.cancel()

        self._stop = stop
        try:
            nursery.start_soon(self._writer.run)
            nursery.start_soon(self._stay_alive)
            nursery.start_soon(self._expire)
            nursery.start_soon(self._watch, receive)
            await self.over.wait()
            if self.grace is not None:
                await channel.drain(self.grace)
        finally:
            self.over.set()
            channel.end()
            for scope in self._posts:
                scope.cancel()
        if self.grace is not None:
            self._writer.close()
            with trio.move_on_after(_LAST_WRITE):
                await self._writer.wait_over()
            await self._response.end()
        nursery.cancel_scope.cancel()

    def _end_now(self) -> None:
        """Cancel the running handlers and start no further one, because their responses cannot be written."""
        self.over.set()
        if self._stop is not None:
            self._stop()

    def prolong(self, until: float) -> None:
        """Extend the session to the expiration time of a newer token."""
        self._until = max(self._until, until)

    async def _expire(self) -> None:
        # The stream is the session. Without this task, it would outlive the token.
        while trio.current_time() < self._until:  # noqa: ASYNC110  # newer tokens extend the time
            await trio.sleep_until(self._until)
        self.grace = 0.0
        self.over.set()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._response.lost = True
        # The stream may wait for the client to read.
        self._response.abort()
        self.over.set()

    async def _stay_alive(self) -> None:
        while True:
            due = self._response.written_at + self._keep_alive
            if trio.current_time() >= due:
                self._writer.put_nowait(encode_comment("still here"))
                due = trio.current_time() + self._keep_alive
            await trio.sleep_until(due)


class SsePair:
    """The two endpoints of one server, and their open sessions.

    Args:
        service: Responds to requests.
        connection: Creates an engine for a session. The engine supports only legacy revisions.
        policy: The settings of the endpoints.
        limits: The limits: `sessions`, `message_bytes`, `outgoing_bytes`, and the limits of channels.
        stream_path: The path of the stream, relative to the mount point of the application.
        post_path: The path for messages, relative to the mount point of the application.
    """

    def __init__(
        self,
        service: ServerService,
        connection: Callable[[], ServerConnection],
        policy: EndpointPolicy,
        limits: Limits,
        *,
        stream_path: str = STREAM_PATH,
        post_path: str = POST_PATH,
    ) -> None:
        self._budget: Final = service.budget
        self._cluster: Final = service.cluster
        self._barrier: Final = service.barrier
        self.stream_path: Final = stream_path
        self.post_path: Final = post_path
        self._service: Final = service
        self._connection: Final = connection
        self._policy: Final = policy
        self._limits: Final = limits
        self._sessions: Final[dict[str, tuple[_Session, StreamChannel]]] = {}
        self._ended = trio.Event()
        self._draining: float | None = None

    def __len__(self) -> int:
        """Return the number of open sessions."""
        return len(self._sessions)

    # --- the endpoints ---------------------------------------------------------------------------------------------

    async def serve_stream(
        self, request: HttpRequest, receive: Receive, send: Send, *, identity: Identity = ANONYMOUS, root_path: str = ""
    ) -> None:
        """Respond to a request to `stream_path`. For a GET, return when the session has ended.

        Args:
            request: The request.
            receive: The ASGI `receive`, for the body and the disconnect.
            send: The ASGI `send`.
            identity: The identity of the sender.
            root_path: The mount point of the application, which clients must prepend to `post_path`.

        *Closing.* If cancelled, it ends the session immediately.
        """
        responses = Responses(request, self._policy, self._limits)
        rejection = (
            admit(request, self._policy, self._limits) or _only("GET", request, responses) or self._full(responses)
        )
        response = AsgiResponse(send)
        if rejection is not None:
            await _refuse(response, request, rejection)
            return
        id = secrets.token_urlsafe(32)
        owner = memory_owner(identity.key, id, {})
        try:
            charge = self._budget.charge(owner, _SESSION_BYTES)
        except LimitExceeded as excess:
            await _refuse(response, request, responses.busy(excess, own=identity.key is not None))
            return
        connection = self._connection()
        session = _Session(connection, response, self._policy.keep_alive, identity, charge)
        try:
            await self._record(id, identity.key)
        except StoreError:
            charge.release()
            raise
        async with trio.open_nursery() as nursery:
            memory = CallMemory(self._budget, owner)
            channel = StreamChannel(self._service, connection, session, nursery, identity.key, memory=memory)
            # Register the session before the client receives its id, because it may post immediately.
            self._sessions[id] = session, channel
            self._service.connected(channel)
            try:
                await response.begin(responses.stream_head(), endpoint_event(root_path + self.post_path, id))
                await session.run(channel, nursery, receive)
            finally:
                charge.release()
                self._service.disconnected(channel)
                del self._sessions[id]
                self._ended.set()
                await self._forget(id)

    async def serve_post(
        self,
        request: HttpRequest,
        receive: Receive,
        send: Send,
        *,
        identity: Identity = ANONYMOUS,
        check: Check | None = None,
    ) -> None:
        """Respond to a request to `post_path`: forward the message of a POST to its session.

        Args:
            request: The request.
            receive: The ASGI `receive`, for the body.
            send: The ASGI `send`.
            identity: The identity of the sender, which must own the session.
            check: Returns the rejection of a message that the sender is not authorized to send, or `None`.
        """
        responses = Responses(request, self._policy, self._limits)
        rejection = admit(request, self._policy, self._limits) or _only("POST", request, responses)
        if rejection is None:
            rejection = await self._post(request, receive, responses, identity, check)
        response = AsgiResponse(send)
        if rejection is not None:
            await _refuse(response, request, rejection)
        else:
            await response.complete(responses.empty_head())

    async def drain(self, seconds: float) -> None:
        """End all sessions and open no new one.

        Args:
            seconds: Time for running requests, in seconds.
        """
        self._draining = seconds
        for session, _ in self._sessions.values():
            session.grace = seconds
            session.over.set()
        while self._sessions:
            self._ended = trio.Event()
            await self._ended.wait()

    # --- other workers ---------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: ClusterMessage) -> None:  # noqa: ARG002  # all workers are equal
        """Receive a message of another worker: a message of a client whose stream is here. Does not block."""
        session, channel = self._sessions.get(getattr(message, "session", ""), (None, None))
        if session is None or channel is None or not isinstance(message, ClientMessageReceived):
            return
        received = message_of(message.message, self._limits)
        if received is not None and not session.over.is_set():
            size = len(encode(received, null_id=False))
            channel.deliver(received, size, None, session.identity, size)

    def missed(self) -> None:
        """Do nothing: a message of a client that was lost cannot be restored."""

    def lost(self, worker: str) -> None:
        """Do nothing: a client of another worker has lost its stream, which is its session."""

    def keys_changed(self, keys: Sequence[bytes]) -> None:
        """Do nothing: sessions have no keys."""

    async def run(self) -> None:
        """Renew the records of the open streams until cancelled, so that other workers find them."""
        while True:
            await trio.sleep(self._policy.session_idle / _RENEWED_TIMES)
            for id in tuple(self._sessions):
                try:
                    await self._cluster.sessions.touch(id, time.time())
                except StoreError as error:
                    _log.debug("record of HTTP+SSE session not renewed: %s", error)

    async def _record(self, id: str, principal: str | None) -> None:
        """Store which worker serves the stream of a new session. Raises `StoreError`."""
        if self._cluster.is_shared:
            store = self._cluster.sessions
            # Without the parameters of `initialize`, it is no session of Streamable HTTP.
            record = SessionRecord(id=id, principal=principal, revision="", client={}, used_at=time.time())
            await store.save(record)
            await store.begin(id, (), worker=self._cluster.worker)

    async def _forget(self, id: str) -> None:
        if self._cluster.is_shared:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _LAST_COMMAND):
                try:
                    await self._cluster.sessions.delete(id)
                except StoreError as error:
                    _log.debug("record of HTTP+SSE session not deleted: %s", error)

    async def _worker_of(self, id: str, principal: str | None) -> str:
        """Return the worker that serves the stream of a session; empty if it has ended. Raises `StoreError`."""
        record = await self._cluster.sessions.load(id)
        if record is None or record.principal != principal or record.client:
            return ""
        streams = await self._cluster.sessions.streams(id)
        worker = streams[-1].worker if streams else ""
        return worker if self._cluster.is_alive(worker) else ""

    async def _deliver(self, worker: str, id: str, content: Message | Batch) -> bool:
        """Send the messages of a body to the worker with the stream, and return whether it has confirmed them.

        They can be lost with the connection to the cluster, and no response would ever follow.
        """
        for message in content.members if isinstance(content, Batch) else (content,):
            if isinstance(message, MalformedMessage):
                continue
            if not await self._barrier.deliver(worker, partial(ClientMessageReceived, id, wire_of(message))):
                return False
        return True

    # --- internal --------------------------------------------------------------------------------------------------

    def _full(self, responses: Responses) -> Rejection | None:
        if self._draining is not None:
            return responses.reject(503, "the server is stopping")
        if len(self._sessions) < self._limits.sessions:
            return None
        # Each session has a connected client, so none can be evicted.
        excess = LimitExceeded(
            "concurrent sessions",
            observed=len(self._sessions) + 1,
            allowed=self._limits.sessions,
            setting="Limits.sessions",
        )
        return responses.busy(excess)

    async def _post(
        self,
        request: HttpRequest,
        receive: Receive,
        responses: Responses,
        identity: Identity,
        check: Check | None,
    ) -> Rejection | None:
        # A session of another principal looks like an unknown one. Neither reads the body.
        id = session_of(request)
        session, channel = self._sessions.get(id or "", (None, None))
        worker = ""
        if session is None and id and self._cluster.is_shared:
            worker = await self._worker_of(id, identity.key)
        if not worker and (session is None or channel is None or channel.principal != identity.key):
            return responses.unknown_session()
        incoming = self._budget.droppable(memory_owner(identity.key, id, {}))
        try:
            body = await receive_body(receive, incoming, responses, self._limits)
            if body is None:
                return responses.reject(400, "the client disconnected before the end of the message")
            if isinstance(body, Rejection):
                return body
            size = parsed_size(body)
            incoming.keep(size)
        except LimitExceeded as excess:
            return responses.busy(excess, own=identity.key is not None)
        finally:
            # The channel charges a queued request to the session.
            incoming.release()
        content = read_post(body, self._limits)
        message = UNREADABLE if isinstance(content, Rejection) else content
        forbidden = None if check is None else check(identity, responses, message)
        if forbidden is not None:
            return forbidden
        if isinstance(content, Rejection):
            if content.answers is not None and channel is not None:
                channel.deliver(content.answers)
            elif content.answers is not None:
                await self._deliver(worker, id or "", content.answers)
            null_id = channel is not None and channel.connection.error_ids_are_null
            return attrs.evolve(content, null_id=content.null_id and null_id)
        if session is None or channel is None:
            has_arrived = await self._deliver(worker, id or "", content)
            return None if has_arrived else responses.unavailable(_NOT_CONFIRMED)
        session.prolong(identity.until)
        if session.over.is_set() or not await session.deliver(
            channel, content, len(body), request, identity, memory=size
        ):
            return responses.unknown_session()
        return None


def _only(method: str, request: HttpRequest, responses: Responses) -> Rejection | None:
    if request.method == method:
        return None
    return responses.reject(
        405, f"method {request.method[:20]!a} is not allowed; use {method}", headers=(("allow", method),)
    )


async def _refuse(response: AsgiResponse, request: HttpRequest, rejection: Rejection) -> None:
    _log.debug("request rejected: %s %s: %s", shown(request.method), shown(request.path), rejection.reason)
    await response.reject(rejection)
