"""HTTP+SSE, the transport of 2024-11-05, for clients that know no other: two endpoints beside the main one.

A GET of the first opens a stream, on which the server says all it has to say, and is the session: it ends with it, and
so do the handlers that still run, for what they would answer could never be fetched. The stream begins by telling where
to POST: to the second endpoint, which accepts a message with 202 and hands it to the session that the URI names.

A client may agree on any legacy revision here. Modern requests need no session, and are refused by an engine that
speaks none of their revisions.

Spec: basic/transports#http-with-sse (2024-11-05)
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from mcp_core.errors import LimitExceeded
from mcp_core.excerpts import shown
from mcp_core.framing.sse import encode_comment
from mcp_core.http.responses import Refusal, Responses
from mcp_core.http.sse_2024 import admit, endpoint_event, message_event, read_post, session_of
from mcp_core.jsonrpc.codec import encode
from mcp_core.limits.memory_budget import parsed_size
from mcp_server.connection.authenticator import NOBODY, Identity, without_credentials
from mcp_server.connection.stream_channel import CallMemory, Link
from mcp_server.connection.writer import JoiningWriter
from mcp_server.transports.http.body import memory_owner, receive_body
from mcp_server.transports.http.response import Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import Batch, Message, RequestId
    from mcp_core.limits import Limits
    from mcp_core.limits.memory_budget import MemoryCharge
    from mcp_server.asgi import Receive, Send
    from mcp_server.service import ServerService

__all__ = ["POST_PATH", "STREAM_PATH", "SsePair"]

_log: Final = logging.getLogger("mcp_server")

Check: TypeAlias = "Callable[[Identity, Responses, Message | Batch], Refusal | None]"
"""Refuses a message that must not be sent by whom sent it."""

STREAM_PATH: Final = "/sse"
"""Where the stream is opened: what most servers of 2024 have, and so what clients are set to."""

POST_PATH: Final = "/messages"
"""Where messages are posted to; clients learn it from the stream."""

_SESSION_BYTES: Final = 64 * 1024
"""Memory of a session: five tasks, an engine and a queue, in bytes."""

_UNREAD: Final = 64 * 1024
"""Bytes of output up to which nothing is charged beside the session: a client that reads has less than that to read."""

_LAST_WRITE: Final = 1.0
"""Seconds that a client has to take what was still to be written when the server stops."""


class _Session:
    """One client: its stream, and the link behind it. It is an `Outlet`."""

    def __init__(
        self,
        connection: ServerConnection,
        response: Response,
        keep_alive: float,
        until: float,
        charge: MemoryCharge,
    ) -> None:
        self.connection: Final = connection
        self.charge: Final = charge
        self.over: Final = trio.Event()
        self.grace: float | None = None
        self._response: Final = response
        self._keep_alive: Final = keep_alive
        self._until = until
        self._writer: Final = JoiningWriter(self._write, connection.limits.outgoing_bytes, on_broken=self._end_now)
        self._stop: Callable[[], None] | None = None
        self._posts: Final[set[trio.CancelScope]] = set()

    # --- out -------------------------------------------------------------------------------------------------------

    async def send(self, message: Message | Batch, for_request: RequestId | None, *, more: bool) -> None:  # noqa: ARG002  # one stream for all
        event = self._event(message)
        if self._charge_output(len(event)):
            await self._writer.put(event, more=more)

    def send_nowait(self, message: Message | Batch, for_request: RequestId | None) -> None:  # noqa: ARG002
        event = self._event(message)
        if self._charge_output(len(event)):
            self._writer.put_nowait(event)

    def _charge_output(self, size: int) -> bool:
        """Charge what waits for the client to read. False ends the session: there is no memory for more."""
        waiting = self._writer.waiting_bytes + size
        try:
            self.charge.resize(_SESSION_BYTES + self.connection.watched_bytes + (waiting if waiting > _UNREAD else 0))
        except LimitExceeded as excess:
            _log.warning("HTTP+SSE session ended, since its client does not read: %s", excess)
            self.over.set()
            return False
        return True

    def _event(self, message: Message | Batch) -> bytes:
        return message_event(encode(message, null_id=self.connection.error_ids_are_null))

    async def _write(self, data: bytes | memoryview) -> None:
        await self._response.write(bytes(data))
        if self._response.lost:
            raise trio.BrokenResourceError

    # --- in --------------------------------------------------------------------------------------------------------

    async def deliver(
        self, link: Link, message: Message | Batch, size: int, http: HttpRequest, identity: Identity, *, memory: int
    ) -> bool:
        """Takes a message, and waits while the client does not read. False when the session ends meanwhile."""
        with trio.CancelScope() as scope:
            self._posts.add(scope)
            try:
                link.deliver(message, size, without_credentials(http), identity, memory)
                await self._writer.wait_while_overdue()
            finally:
                self._posts.remove(scope)
        return not scope.cancelled_caught

    # --- life ------------------------------------------------------------------------------------------------------

    async def run(self, link: Link, nursery: trio.Nursery, receive: Receive) -> None:
        """Serves until the client leaves, or until `over` is set."""

        def stop() -> None:
            link.end()
            nursery.cancel_scope.cancel()

        self._stop = stop
        try:
            nursery.start_soon(self._writer.run)
            nursery.start_soon(self._stay_alive)
            nursery.start_soon(self._expire)
            nursery.start_soon(self._watch, receive)
            await self.over.wait()
            if self.grace is not None:
                await link.drain(self.grace)
        finally:
            self.over.set()
            link.end()
            for scope in self._posts:
                scope.cancel()
        if self.grace is not None:
            self._writer.close()
            with trio.move_on_after(_LAST_WRITE):
                await self._writer.wait_over()
            await self._response.end()
        nursery.cancel_scope.cancel()

    def _end_now(self) -> None:
        """Cancel the handlers and begin no further one: what they answer cannot be written."""
        self.over.set()
        if self._stop is not None:
            self._stop()

    def prolong(self, until: float) -> None:
        """Its client has shown that it may use it for longer."""
        self._until = max(self._until, until)

    async def _expire(self) -> None:
        # The stream is the session: without this it would outlive any token.
        while trio.current_time() < self._until:  # noqa: ASYNC110  # the end moves with each newer token
            await trio.sleep_until(self._until)
        self.grace = 0.0
        self.over.set()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._response.lost = True
        # It may be waiting for the client to read.
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
    """The two endpoints of one server, and the sessions that are open there.

    Args:
        service: Answers the requests.
        connection: Makes an engine for a session; of one that speaks legacy revisions only.
        policy: What the endpoints allow.
        limits: The bounds: `sessions` at a time, `message_bytes`, `outgoing_bytes`, and those of links.
        stream_path: Where the stream is opened, relative to where the application is mounted.
        post_path: Where messages are posted to.
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
        self.stream_path: Final = stream_path
        self.post_path: Final = post_path
        self._service: Final = service
        self._connection: Final = connection
        self._policy: Final = policy
        self._limits: Final = limits
        self._sessions: Final[dict[str, tuple[_Session, Link]]] = {}
        self._ended = trio.Event()
        self._draining: float | None = None

    def __len__(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    # --- the endpoints ---------------------------------------------------------------------------------------------

    async def serve_stream(
        self, request: HttpRequest, receive: Receive, send: Send, *, identity: Identity = NOBODY, root_path: str = ""
    ) -> None:
        """Answers a request to `stream_path`; of a GET, returns when the session is over.

        Args:
            request: The request.
            receive: Its body, and then the client's leaving.
            send: The response.
            identity: Who sent it.
            root_path: Where the application is mounted: what the client has to put before `post_path`.

        *Closing.* Cancelled, it ends the session at once.
        """
        responses = Responses(request, self._policy, self._limits)
        refusal = (
            admit(request, self._policy, self._limits) or _only("GET", request, responses) or self._full(responses)
        )
        response = Response(send)
        if refusal is not None:
            await _refuse(response, request, refusal)
            return
        id = secrets.token_urlsafe(32)
        owner = memory_owner(identity.key, id, {})
        try:
            charge = self._budget.charge(owner, _SESSION_BYTES)
        except LimitExceeded as excess:
            await _refuse(response, request, responses.busy(excess, own=identity.key is not None))
            return
        connection = self._connection()
        session = _Session(connection, response, self._policy.keep_alive, identity.until, charge)
        async with trio.open_nursery() as nursery:
            memory = CallMemory(self._budget, owner)
            link = Link(self._service, connection, session, nursery, identity.key, memory=memory)
            # Before the client is told of it: it may post at once.
            self._sessions[id] = session, link
            self._service.connected(link)
            try:
                await response.begin(responses.stream_head(), endpoint_event(root_path + self.post_path, id))
                await session.run(link, nursery, receive)
            finally:
                charge.release()
                self._service.disconnected(link)
                del self._sessions[id]
                self._ended.set()

    async def serve_post(
        self,
        request: HttpRequest,
        receive: Receive,
        send: Send,
        *,
        identity: Identity = NOBODY,
        check: Check | None = None,
    ) -> None:
        """Answers a request to `post_path`: hands the message of a POST to its session.

        Args:
            request: The request.
            receive: Its body.
            send: The response.
            identity: Who sent it: the session has to belong to the same.
            check: Refuses a message that must not be sent by whom sent it.
        """
        responses = Responses(request, self._policy, self._limits)
        refusal = admit(request, self._policy, self._limits) or _only("POST", request, responses)
        if refusal is None:
            refusal = await self._post(request, receive, responses, identity, check)
        response = Response(send)
        if refusal is not None:
            await _refuse(response, request, refusal)
        else:
            await response.complete(responses.empty_head())

    async def drain(self, seconds: float) -> None:
        """Ends all sessions: requests that run may finish within `seconds`. No new session begins."""
        self._draining = seconds
        for session, _ in self._sessions.values():
            session.grace = seconds
            session.over.set()
        while self._sessions:
            self._ended = trio.Event()
            await self._ended.wait()

    # --- details ---------------------------------------------------------------------------------------------------

    def _full(self, responses: Responses) -> Refusal | None:
        if self._draining is not None:
            return responses.refuse(503, "the server stops")
        if len(self._sessions) < self._limits.sessions:
            return None
        # Each of them has a client at the other end, so none can make room.
        excess = LimitExceeded(
            "sessions at a time",
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
    ) -> Refusal | None:
        # A session of somebody else looks like none, and neither costs the reading of a body.
        id = session_of(request)
        session, link = self._sessions.get(id or "", (None, None))
        if session is None or link is None or link.principal != identity.key:
            return responses.unknown_session()
        incoming = self._budget.droppable(memory_owner(identity.key, id, {}))
        try:
            body = await receive_body(receive, incoming, responses, self._limits)
            if body is None:
                return responses.refuse(400, "the client left before the end of its message")
            if isinstance(body, Refusal):
                return body
            size = parsed_size(body)
            incoming.keep(size)
        except LimitExceeded as excess:
            return responses.busy(excess, own=identity.key is not None)
        finally:
            # A request that it holds is charged to the session, by the link.
            incoming.release()
        content = read_post(body, self._limits)
        if isinstance(content, Refusal):
            if content.answers is not None:
                link.deliver(content.answers)
            return attrs.evolve(content, null_id=content.null_id and link.connection.error_ids_are_null)
        forbidden = None if check is None else check(identity, responses, content)
        if forbidden is not None:
            return forbidden
        session.prolong(identity.until)
        if session.over.is_set() or not await session.deliver(link, content, len(body), request, identity, memory=size):
            return responses.unknown_session()
        return None


def _only(method: str, request: HttpRequest, responses: Responses) -> Refusal | None:
    if request.method == method:
        return None
    return responses.refuse(
        405, f"{request.method[:20]!a} is not allowed here, but {method}", headers=(("allow", method),)
    )


async def _refuse(response: Response, request: HttpRequest, refusal: Refusal) -> None:
    _log.debug("refused %s %s: %s", shown(request.method), shown(request.path), refusal.reason)
    await response.refuse(refusal)
