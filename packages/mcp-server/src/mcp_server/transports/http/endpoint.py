"""The MCP endpoint as an ASGI application: Streamable HTTP, in all revisions.

What one request may do, and what is answered, is decided by `mcp_core.http.server`; a modern request is an `Exchange`, a
legacy one belongs to a `Session`. Here they are told apart, and whoever asks is identified.

Nothing is needed of the host but the requests: no task that runs beside them, no start-up. It can be mounted anywhere.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28); ASGI 3.0
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs
import trio

from mcp_core.errors import ErrorCode, LimitExceeded
from mcp_core.excerpts import shown
from mcp_core.http.messages import Headers, HttpHead
from mcp_core.http.responses import Refusal, Responses, id_of
from mcp_core.http.server import ServerExchange
from mcp_core.http.sse_2024 import admit
from mcp_core.jsonrpc.messages import Request
from mcp_core.limits.memory_budget import parsed_size
from mcp_core.methods import INITIALIZE, SUBSCRIPTIONS_LISTEN
from mcp_core.revisions import Era
from mcp_server.connection.authenticator import NOBODY, Identity, refused, without_credentials
from mcp_server.connection.request_queue import Peers
from mcp_server.errors import NotRunning
from mcp_server.stores.sessions import StoreError
from mcp_server.transports.http.allocator import return_free_memory
from mcp_server.transports.http.body import memory_owner, receive_body
from mcp_server.transports.http.modern import Exchange
from mcp_server.transports.http.response import Exchanged, Response
from mcp_server.transports.http.scope import normal, not_found, request_of, serve_document
from mcp_server.transports.http.session_registry import Sessions
from mcp_server.transports.http.subscription import Herald, Subscription

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import Batch, Message, Notification
    from mcp_core.limits import Limits
    from mcp_core.revisions import Revision
    from mcp_server.asgi import Receive, Scope, Send
    from mcp_server.connection.authenticator import Gate
    from mcp_server.service import ServerService
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.transports.http.sse_2024 import SsePair

__all__ = ["HttpEndpoint", "Template"]

_log: Final = logging.getLogger("mcp_server")

_Route: TypeAlias = "Callable[[Scope, Receive, Send], Awaitable[Subscription | None]]"
"""Answers a request, but for what is returned, which goes on."""

_TOTAL: Final = "Limits.total_bytes"

_TURNS: Final = 3
"""Turns of the event loop in which a cancelled request ends: its handler, its stream, its connection."""

_GRACE: Final = 10.0
"""Seconds that calls have to finish when a host ends that does not say how long."""

_LAST: Final = 1.0
"""Seconds that cancelled handlers have to end."""


@attrs.frozen(kw_only=True, eq=False)
class Template:
    """What the engines of one server have in common."""

    connection: ServerConnection
    """Others are made from it; see `ServerConnection.exchange`."""
    names: Mapping[str, str]
    """The member of the params that `Mcp-Name` repeats, by the method."""


class HttpEndpoint:
    """An ASGI application that serves a server: made by `Server.asgi`.

    Args:
        service: Answers requests.
        template: What engines are made from; another one after something was registered.
        revisions: What the server speaks.
        path: Where the endpoint is, relative to where the application is mounted.
        policy: What it allows and prefers.
        limits: The bounds that hold.
        store: Keeps the sessions of legacy clients.
        gate: Says who sends a request, and what he may; `None`: nobody is told apart.
        healthz: A path that answers 200 while the server takes requests, and 503 when it stops; `None`: there is none.
        pair: The two endpoints of 2024-11-05; `None`: they are not there.
    """

    def __init__(
        self,
        service: ServerService,
        template: Callable[[], Template],
        revisions: Iterable[Revision],
        *,
        path: str,
        policy: EndpointPolicy,
        limits: Limits,
        store: SessionStore,
        gate: Gate | None = None,
        healthz: str | None = None,
        pair: SsePair | None = None,
    ) -> None:
        self.policy: Final = policy
        """What it allows and prefers."""
        self.budget: Final = service.budget
        """The memory that clients occupy."""
        self._service: Final = service
        self._template: Final = template
        self._revisions: Final = frozenset(revisions)
        self._limits: Final = limits
        self._gate: Final = gate
        self._sessions: Final = Sessions(service, self._engine, store, policy, limits, budget=service.budget)
        service.recorders.add(self._sessions)
        self._exchanges: Final[set[Exchange | Subscription]] = set()
        self._peers: Final = Peers(limits)
        self._herald: Final = Herald()
        self._running = 0
        self._streams = 0
        self._streams_allowed = 0
        self.bound_streams(limits.connections)
        self._draining = False
        self._idle = trio.Event()
        self._pair: Final = pair
        self._routes: Final[dict[str, _Route]] = {normal(path): self._serve}
        for place, document in () if gate is None else gate.documents.items():
            self._routes[normal(place)] = partial(self._serve_document, document)
        if healthz is not None:
            self._routes[normal(healthz)] = self._answer_health
        if pair is not None:
            self._routes[normal(pair.stream_path)] = partial(self._serve_stream, pair)
            self._routes[normal(pair.post_path)] = partial(self._serve_post, pair)

    def _engine(self) -> ServerConnection:
        return self._template().connection.exchange()

    def __repr__(self) -> str:
        return f"<HttpEndpoint at {', '.join(self._routes)}: {self._running} requests, {len(self._sessions)} sessions>"

    @property
    def sessions(self) -> int:
        """How many sessions of legacy clients are in use."""
        return len(self._sessions) + (0 if self._pair is None else len(self._pair))

    @property
    def running(self) -> int:
        """How many requests are being answered."""
        return self._running

    def bound_streams(self, connections: int) -> None:
        """Set how many streams may be open that only wait for notifications: three of four connections.

        The others are left for requests, which end. Otherwise the clients that wait could lock out those that ask.

        Args:
            connections: How many connections the host allows.
        """
        self._streams_allowed = max(1, connections * 3 // 4)

    @contextmanager
    def _streaming(self) -> Iterator[None]:
        """Count a stream that only waits for notifications. Raises `LimitExceeded` when there are as many as may be."""
        if self._streams >= self._streams_allowed:
            raise LimitExceeded(
                "streams that wait for notifications",
                observed=self._streams + 1,
                allowed=self._streams_allowed,
                setting="Limits.connections",
            )
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request. See ASGI 3.0."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"an MCP endpoint serves http, not {scope['type']}")
        route = self._route(scope)
        self._running += 1
        try:
            subscription = await route(scope, receive, send)
            if subscription is not None:
                # It may go on for days: nothing is held on to but what it needs.
                del scope, receive, send, route
                try:
                    await subscription.run()
                finally:
                    self._streams -= 1
                    self._exchanges.discard(subscription)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()
            if self.budget.has_receded():
                return_free_memory()

    def _route(self, scope: Scope) -> _Route:
        path = str(scope["path"])
        if not path.startswith("/"):
            # RFC 9112 section 3.2.2: a server takes a whole URL too. That its host is the one of `Host` is seen to later.
            path = f"/{path.partition('://')[2].partition('/')[2]}"
        route = self._routes.get(path) or self._routes.get(normal(path))
        if route is not None:
            return route
        # Some hosts take the place where an application is mounted off its path, and others do not.
        root = str(scope.get("root_path") or "").rstrip("/")
        if root and path.startswith(root):
            route = self._routes.get(normal(path[len(root) :]))
        return route or not_found

    # --- one request -----------------------------------------------------------------------------------------------

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> Subscription | None:
        """Answers a request. What is returned goes on."""
        http = request_of(scope)
        exchange = ServerExchange(http, self.policy, self._limits, self._revisions)
        response = Response(send)
        refusal = exchange.admit()
        if refusal is None and self._draining:
            refusal = _stopping(exchange)
        if refusal is None and self._service.life.needed and not self._service.life.running:
            refusal = self._not_running(exchange)
        identity = await self._admitted(http, exchange) if refusal is None else NOBODY
        if isinstance(identity, Refusal):
            refusal = identity
        elif refusal is None:
            charge = self.budget.droppable(memory_owner(identity.key, exchange.session_id, scope))
            exchanged = Exchanged(exchange, without_credentials(http), response, receive, scope, charge, identity)
            try:
                # Nothing else is admitted.
                if http.method == "POST":
                    outcome = await self._post(exchanged)
                    if isinstance(outcome, Subscription):
                        return outcome
                    refusal = outcome
                elif http.method == "GET":
                    with self._streaming():
                        refusal = await self._sessions.get(exchanged)
                else:
                    refusal = await self._sessions.delete(exchanged)
            except LimitExceeded as excess:
                refusal = exchange.busy(excess, own=excess.setting == _TOTAL and identity.key is not None)
            except StoreError as error:
                self._sessions.failures.failed(f"{http.method} {shown(http.path)} is refused", error)
                refusal = exchange.refuse(503, "sessions are not to be had at present", code=ErrorCode.INTERNAL_ERROR)
        if refusal is not None and not (response.begun or response.lost):
            _log.debug("refused %s %s: %s", shown(http.method), shown(http.path), refusal.reason)
            await response.refuse(refusal)
        return None

    def _not_running(self, responses: Responses) -> Refusal:
        _log.error("refused: %s", NotRunning(self._service.name))
        return responses.refuse(503, "the server has not been started", code=ErrorCode.INTERNAL_ERROR)

    async def _admitted(self, http: HttpRequest, responses: Responses) -> Identity | Refusal:
        """Who sends a request, if he is let in."""
        if self._gate is None:
            return NOBODY
        identity = await self._gate.identify(http)
        return identity if isinstance(identity, Identity) else refused(identity, responses)

    def _checked(self, identity: Identity, responses: Responses, message: Message | Batch) -> Refusal | None:
        """Refuses a message that must not be sent by whom sent it."""
        if self._gate is not None and (excess := self._too_many_named(message)) is not None:
            # The engine would refuse it too, but only after the gate has looked at each of them.
            return responses.refuse(400, excess.message, id=id_of(message))
        denial = None if self._gate is None else self._gate.check(identity, message, self._service.standing_for)
        return None if denial is None else refused(denial, responses, message)

    def _too_many_named(self, message: Message | Batch) -> LimitExceeded | None:
        """The excess of a subscription that names more resources than may be watched."""
        if not isinstance(message, Request) or message.method != SUBSCRIPTIONS_LISTEN.name:
            return None
        wanted = (message.params or {}).get("notifications")
        named = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
        allowed = self._limits.watched_resources
        if not isinstance(named, list) or len(named) <= allowed:
            return None
        return LimitExceeded(
            "watched resources of a connection",
            observed=len(named),
            allowed=allowed,
            setting="Limits.watched_resources",
        )

    async def _post(self, exchanged: Exchanged) -> Refusal | Subscription | None:
        """Receive a message, and answer it. Whatever it makes this server keep is charged until it was answered."""
        outcome: Refusal | Subscription | None = None
        try:
            outcome = await self._receive(exchanged)
        finally:
            if isinstance(outcome, Subscription):
                outcome.charge = exchanged.charge
            else:
                exchanged.charge.release()
        return outcome

    async def _receive(self, exchanged: Exchanged) -> Refusal | Subscription | None:
        exchange, charge = exchanged.exchange, exchanged.charge
        body = await receive_body(exchanged.receive, charge, exchange, self._limits)
        if body is None:
            exchanged.response.lost = True
        if not isinstance(body, bytes):
            return body
        if self._draining:
            return _stopping(exchange)
        if charge.keep(parsed_size(body)):
            # What was dropped for it is freed by its own tasks, before this message is parsed.
            for _ in range(_TURNS):
                await trio.lowlevel.checkpoint()
        post = exchange.read(body, self._service.designated, names=self._template().names)
        # Most of the memory of a large message is in its objects.
        del body
        if isinstance(post, Refusal):
            if post.answers is not None:
                await self._sessions.refuse(post.answers, exchanged)
            return post
        forbidden = self._checked(exchanged.identity, exchange, post.message)
        if forbidden is not None:
            return forbidden
        for note in post.notes:
            _log.debug("survived: %s", note)
        message = post.message
        if post.era is Era.LEGACY:
            if isinstance(message, Request) and message.method == INITIALIZE.name:
                return await self._sessions.open(message, exchanged)
            return await self._sessions.post(post, exchanged)
        return await self._answer_modern(message, post.size, exchanged)

    async def _answer_modern(self, message: Message | Batch, size: int, exchanged: Exchanged) -> Subscription | None:
        principal = exchanged.identity.key
        places = self._peers.places(principal) if isinstance(message, Request) else None
        line = Exchange(
            self._service, self._engine(), exchanged, policy=self.policy, herald=self._herald, places=places
        )
        if not isinstance(message, Request):
            line.notify(cast("Notification", message))  # nothing else is modern
            await exchanged.response.complete(exchanged.exchange.empty_head())
            return None
        self._exchanges.add(line)
        try:
            with self._streaming() if message.method == SUBSCRIPTIONS_LISTEN.name else nullcontext():
                subscription = await line.serve(message, size)
                if subscription is not None:
                    # Until its end.
                    self._streams += 1
        finally:
            self._exchanges.discard(line)
            self._peers.forget(principal)
        if subscription is not None:
            self._exchanges.add(subscription)
        return subscription

    # --- the other routes ------------------------------------------------------------------------------------------

    async def _serve_stream(self, pair: SsePair, scope: Scope, receive: Receive, send: Send) -> None:
        http = request_of(scope)
        identity = await self._who(http)
        if isinstance(identity, Refusal):
            await Response(send).refuse(identity)
        else:
            root = str(scope.get("root_path") or "").rstrip("/")
            try:
                with self._streaming():
                    await pair.serve_stream(http, receive, send, identity=identity, root_path=root)
            except LimitExceeded as excess:
                await Response(send).refuse(Responses(http, self.policy, self._limits).busy(excess))

    async def _serve_post(self, pair: SsePair, scope: Scope, receive: Receive, send: Send) -> None:
        http = request_of(scope)
        identity = await self._who(http)
        if isinstance(identity, Refusal):
            await Response(send).refuse(identity)
        else:
            await pair.serve_post(http, receive, send, identity=identity, check=self._checked)

    async def _who(self, http: HttpRequest) -> Identity | Refusal:
        if self._gate is None:
            return NOBODY
        # What is refused whoever sends it must not make the gate work, and a preflight has no credentials.
        refusal = admit(http, self.policy, self._limits)
        return refusal or await self._admitted(http, Responses(http, self.policy, self._limits))

    async def _serve_document(self, document: bytes, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # as all routes
        await serve_document(document, self.policy, self._limits, scope, send)

    async def _answer_health(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # all say the same
        # Whoever asks comes by an address, so that `Host` says nothing; and nothing is told.
        status, text = (503, b"stopping\n") if self._draining else (200, b"ok\n")
        headers = Headers((("content-type", "text/plain; charset=utf-8"), ("cache-control", "no-store")))
        await Response(send).complete(HttpHead(status=status, headers=headers), text)

    # --- the end ---------------------------------------------------------------------------------------------------

    async def drain(self, grace: float) -> None:
        """Stops serving: new requests are refused with 503, streams that only listen end, calls may finish.

        Args:
            grace: Seconds that running calls have. What runs longer is cancelled.
        """
        self._draining = True
        async with trio.open_nursery() as nursery:
            if self._pair is not None:
                nursery.start_soon(self._pair.drain, grace)
            for exchange in tuple(self._exchanges):
                exchange.finish()
            for session in tuple(self._sessions):
                nursery.start_soon(session.release)
            await self._wait_idle(grace)
        for exchange in tuple(self._exchanges):
            exchange.stop()
        for session in tuple(self._sessions):
            session.stop()
        await self._wait_idle(_LAST)

    async def _wait_idle(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            while self._running:
                self._idle = trio.Event()
                await self._idle.wait()

    async def _live(self, receive: Receive, send: Send) -> None:
        """The life of the host's application is that of the server; at its end calls may finish."""
        await receive()  # lifespan.startup
        phase = "startup"
        try:
            async with self._service.life.run():
                await send({"type": "lifespan.startup.complete"})
                phase = "shutdown"
                await receive()  # lifespan.shutdown
                await self.drain(_GRACE)
        except Exception:  # noqa: BLE001 -- whatever the author's function raises: logged, and told in general
            _log.exception("the %s of the server failed", phase)
            await send({"type": f"lifespan.{phase}.failed", "message": "why is in the log"})
        else:
            await send({"type": "lifespan.shutdown.complete"})


def _stopping(responses: Responses) -> Refusal:
    return responses.refuse(
        503, "the server is being stopped", code=ErrorCode.INTERNAL_ERROR, headers=(("retry-after", "5"),)
    )
