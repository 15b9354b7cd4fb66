"""The MCP endpoint as an ASGI application: Streamable HTTP, in all revisions.

`mcp_core.http.server` decides what a request may do and how it is rejected. A modern request is an `ModernRequest`, a legacy
request belongs to a `Session`. This module authenticates the principal and distinguishes modern and legacy requests.

The endpoint requires only requests from its host: no background task and no startup. It can be mounted in any ASGI
application.

Spec: basic/transports#streamable-http (legacy), basic/transports/streamable-http (2026-07-28); ASGI 3.0
"""

from __future__ import annotations

import logging
import math
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs
import trio

from mcp_core.errors import ErrorCode, LimitExceeded
from mcp_core.excerpts import shown
from mcp_core.field_methods import FieldRepr
from mcp_core.http.messages import Headers, HttpHead
from mcp_core.http.routing_headers import name_params
from mcp_core.http.server import Rejection, Responses, ServerExchange, id_of
from mcp_core.http.sse_2024 import admit
from mcp_core.jsonrpc.messages import Notification, Request, Response
from mcp_core.limits.memory_budget import MemoryCharge, parsed_size
from mcp_core.methods import INITIALIZE, METHODS, PROMPTS_GET, SUBSCRIPTIONS_LISTEN, TOOLS_CALL
from mcp_core.revisions import Era
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.host_loop import host_of_trio
from mcp_server.connection.authenticator import ANONYMOUS, UNREADABLE, Identity, rejected
from mcp_server.connection.request_queue import PrincipalQueues
from mcp_server.errors import NotRunning
from mcp_server.stores.sessions import StoreError
from mcp_server.transports.http.allocator import return_free_memory
from mcp_server.transports.http.modern import ModernRequest
from mcp_server.transports.http.observed_request import ObservedRequest, note_principal, observed
from mcp_server.transports.http.readiness import Readiness
from mcp_server.transports.http.request import (
    AsgiResponse,
    HttpContext,
    memory_owner,
    normal,
    not_found,
    receive_body,
    request_of,
    serve_document,
)
from mcp_server.transports.http.session_registry import SessionRegistry
from mcp_server.transports.http.subscription import Subscription, SubscriptionNotifier

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from mcp_core.codec import Batch
    from mcp_core.engine.server import ServerConnection
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import Message
    from mcp_core.limits import Limits
    from mcp_core.revisions import Revision
    from mcp_server.asgi import Receive, Scope, Send
    from mcp_server.connection.authenticator import Authenticator
    from mcp_server.observation import RequestObserver, RequestRecord
    from mcp_server.service import ServerService
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.transports.http.sse_2024 import SsePair

__all__ = ["HttpEndpoint"]

_log: Final = logging.getLogger("mcp_server")

_Route: TypeAlias = "Callable[[Scope, Receive, Send], Awaitable[Subscription | None]]"
"""A handler of requests to one path. If it returns a subscription, the endpoint runs the subscription."""

_TOTAL: Final = "Limits.total_bytes"

_NAMED: Final = {TOOLS_CALL.name: "tool", PROMPTS_GET.name: "prompt"}
"""The kind of the functions that a method calls by their names."""

_TURNS: Final = 3
"""Iterations of the event loop until a cancelled request has ended: its handler, its stream, its connection."""

_GRACE: Final = 10.0
"""Time for running calls if a host stops and specifies no grace period, in seconds."""

_NO_ID: Final = "readyz"
"""An id that no session and no task has: ids are random and longer."""

_LAST: Final = 1.0
"""Time for cancelled handlers to end, in seconds."""

_HOST_POLL: Final = 0.2
"""Seconds between two looks whether an asyncio host stops, while streams are open. uvicorn itself looks each 0.1 s."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Template(FieldRepr):
    """The common parts of all engines of one server."""

    registered: int
    """The number of registrations of the server when the template was created."""
    connection: ServerConnection
    """An engine from which the engines of connections are created with `ServerConnection.exchange`."""
    names: Mapping[str, str]
    """The parameter that the header `Mcp-Name` repeats, by method."""


class HttpEndpoint:
    """An ASGI application that serves a server, created by `Server.asgi`.

    Args:
        service: Responds to requests.
        open_engine: Returns an engine with the present features of the server.
        revisions: The revisions that the server supports.
        path: The path of the endpoint, relative to the mount point of the application.
        policy: The settings of the endpoint.
        limits: The limits.
        store: Stores the sessions of legacy clients.
        authenticator: Authenticates requests; `None`: all clients are anonymous.
        healthz: A path that returns 200 while the process is alive; `None`: no such path.
        readyz: A path that returns 200 while requests are accepted and the stores respond, and 503 otherwise; `None`: no
            such path.
        pair: The two endpoints of HTTP+SSE (2024-11-05); `None`: not served.
        observers: Are informed of each request, except for those of health checks.
    """

    def __init__(
        self,
        service: ServerService,
        open_engine: Callable[[], ServerConnection],
        revisions: Iterable[Revision],
        *,
        path: str,
        policy: EndpointPolicy,
        limits: Limits,
        store: SessionStore,
        authenticator: Authenticator | None = None,
        healthz: str | None = None,
        readyz: str | None = None,
        pair: SsePair | None = None,
        observers: Iterable[RequestObserver] = (),
    ) -> None:
        self.policy: Final = policy
        """The settings of the endpoint."""
        self.budget: Final = service.budget
        """The memory budget of the server."""
        self.leaving: bool = False
        """Whether this process stops soon, and is not ready for new clients. Requests are still served."""
        self._service: Final = service
        self._open_engine: Final = open_engine
        self._template = self._create_template()
        self._revisions: Final = frozenset(revisions)
        self._limits: Final = limits
        self._authenticator: Final = authenticator
        self._sessions: Final = SessionRegistry(
            service,
            self._engine,
            store,
            policy,
            limits,
            budget=service.budget,
            cluster=service.cluster,
            barrier=service.barrier,
            joined=service.wait_joined,
            start=self._start_job,
        )
        service.recorders.add(self._sessions)
        service.session_receivers.add(self._sessions)
        if service.cluster.is_shared:
            service.life.work(self._sessions.run)
            if pair is not None:
                service.session_receivers.add(pair)
                service.life.work(pair.run)
        self._modern_requests: Final[set[ModernRequest | Subscription]] = set()
        self._queues: Final = PrincipalQueues(limits)
        self._notifier: Final = SubscriptionNotifier()
        self._observers: Final = tuple(observers)
        self._store: Final = store
        self._readiness: Final = Readiness(self._check_stores)
        self._running = 0
        self._streams = 0
        self._streams_allowed = 0
        self.bound_streams(limits.connections)
        self._starting: trio.Event | None = None
        self._draining = False
        self._is_watching_host = False
        self._idle = trio.Event()
        self._pair: Final = pair
        self._routes: Final[dict[str, _Route]] = {normal(path): self._serve}
        for place, document in () if authenticator is None else authenticator.documents.items():
            self._routes[normal(place)] = partial(self._serve_document, document)
        self._unobserved: Final[tuple[_Route, ...]] = (self._answer_health, self._answer_readiness)
        if healthz is not None:
            self._routes[normal(healthz)] = self._answer_health
        if readyz is not None:
            self._routes[normal(readyz)] = self._answer_readiness
        if pair is not None:
            self._routes[normal(pair.stream_path)] = partial(self._serve_stream, pair)
            self._routes[normal(pair.post_path)] = partial(self._serve_post, pair)

    def _start_job(self, job: Callable[[], Awaitable[None]]) -> None:
        # The nursery exists while the lifespan runs, as does the cluster.
        self._service.life.nursery.start_soon(job)

    def _create_template(self) -> _Template:
        methods = self._service.methods.requests.values()
        return _Template(
            registered=self._service.registered,
            connection=self._open_engine(),
            names=name_params([*METHODS, *methods]),
        )

    def _current_template(self) -> _Template:
        """Return the template. It is created again after a registration."""
        if self._template.registered != self._service.registered:
            self._template = self._create_template()
        return self._template

    def _engine(self) -> ServerConnection:
        return self._current_template().connection.exchange()

    def __repr__(self) -> str:
        return f"<HttpEndpoint at {', '.join(self._routes)}: {self._running} requests, {len(self._sessions)} sessions>"

    @property
    def sessions(self) -> int:
        """Number of sessions of legacy clients in use."""
        return len(self._sessions) + (0 if self._pair is None else len(self._pair))

    @property
    def running(self) -> int:
        """Number of requests in progress."""
        return self._running

    def bound_streams(self, connections: int) -> None:
        """Limit the number of open streams that only wait for notifications to 3/4 of all connections.

        The other connections are reserved for requests, which end. Without this limit, waiting clients could prevent
        other clients from sending requests.

        Args:
            connections: Number of connections that the host allows.
        """
        self._streams_allowed = max(1, connections * 3 // 4)

    @contextmanager
    def _streaming(self) -> Iterator[None]:
        """Count a stream that only waits for notifications. Raises `LimitExceeded` if the limit is reached."""
        if self._streams >= self._streams_allowed:
            raise LimitExceeded(
                "streams that wait for notifications",
                observed=self._streams + 1,
                allowed=self._streams_allowed,
                setting="Limits.connections",
            )
        self._streams += 1
        self._watch_host()
        try:
            yield
        finally:
            self._streams -= 1

    def _watch_host(self) -> None:
        """Begin to drain when a signal stops an asyncio host: uvicorn sends no event before all streams have ended."""
        host = host_of_trio()
        if host is None or self._is_watching_host or self._draining:
            return
        from mcp_server.transports.http.asyncio_host import stop_flag  # lazy: for hosts on asyncio only

        is_stopping = stop_flag()
        if is_stopping is not None:
            self._is_watching_host = True
            host.start_soon(partial(self._drain_when, is_stopping))

    async def _drain_when(self, is_stopping: Callable[[], bool]) -> None:
        try:
            while not is_stopping():
                if not self._streams:
                    return
                await trio.sleep(_HOST_POLL)
        finally:
            self._is_watching_host = False
        # The host limits the time for running calls, or the lifespan does.
        await self.drain(math.inf)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, as an ASGI 3.0 application. The host can run on trio or on asyncio.

        Raises:
            ValueError: The type of the scope is not `http` or `lifespan`.
        """
        if not trio.lowlevel.in_trio_task():
            from mcp_server.transports.http.asyncio_host import serve_from_asyncio  # lazy: for hosts on asyncio only

            await serve_from_asyncio(self, scope, receive, send)
            return
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"an MCP endpoint serves ASGI scopes of type http and lifespan, not {scope['type']}")
        route = self._routes.get(str(scope["path"])) or self._route(scope)
        watched = None
        if self._observers and route not in self._unobserved:
            watched = ObservedRequest(scope, send, self._observers)
            scope, send = watched.scope, watched.send
        self._running += 1
        try:
            subscription = await route(scope, receive, send)
            if subscription is not None:
                # A subscription can last for days: keep only what it needs.
                del scope, receive, send, route
                try:
                    await subscription.run()
                finally:
                    self._streams -= 1
                    self._modern_requests.discard(subscription)
        finally:
            self._running -= 1
            if watched is not None:
                watched.end()
            if not self._running:
                self._idle.set()
            if self.budget.has_receded():
                return_free_memory()

    def _route(self, scope: Scope) -> _Route:
        path = str(scope["path"])
        if not path.startswith("/"):
            # RFC 9112 section 3.2.2: a server accepts an absolute URL. The host is compared with `Host` later.
            path = f"/{path.partition('://')[2].partition('/')[2]}"
        route = self._routes.get(normal(path))
        if route is not None:
            return route
        # Some hosts remove the mount point from the path, and others do not.
        root = str(scope.get("root_path") or "").rstrip("/")
        if root and path.startswith(root):
            route = self._routes.get(normal(path[len(root) :]))
        return route or not_found

    # --- one request -----------------------------------------------------------------------------------------------

    async def _serve(  # noqa: PLR0912  # a sequence of rejections
        self, scope: Scope, receive: Receive, send: Send
    ) -> Subscription | None:
        """Respond to a request. Return the subscription that it opened, if any."""
        http = request_of(scope)
        exchange = ServerExchange(http, self.policy, self._limits, self._revisions)
        response = AsgiResponse(send)
        rejection = exchange.admit()
        if rejection is None and self._draining:
            rejection = _stopping(exchange)
        life = self._service.life
        if rejection is None and not life.running and life.needed and not await self._start():
            rejection = self._not_running(exchange)
        identity: Identity | Rejection = ANONYMOUS
        if rejection is None and self._authenticator is not None:
            identity = await self._admitted(self._authenticator, http, exchange)
        if isinstance(identity, Rejection):
            rejection = identity
        elif rejection is None:
            charge = MemoryCharge(self.budget, memory_owner(identity.key, exchange.session_id, scope), kept=False)
            response.charge = charge
            if self._observers:
                note_principal(scope, identity)
            context = HttpContext(exchange, http.without_credentials(), response, receive, scope, charge, identity)
            try:
                # `admit` rejects all other methods.
                if http.method == "POST":
                    outcome = await self._post(context)
                    if isinstance(outcome, Subscription):
                        return outcome
                    rejection = outcome
                elif http.method == "GET":
                    with self._streaming():
                        rejection = await self._sessions.get(context)
                else:
                    rejection = await self._sessions.delete(context)
            except LimitExceeded as excess:
                rejection = exchange.busy(excess, own=excess.setting == _TOTAL and identity.key is not None)
            except StoreError as error:
                rejection = self._unavailable(http, error, exchange)
        if rejection is not None and not (response.begun or response.lost):
            _log.debug("request rejected: %s %s: %s", shown(http.method), shown(http.path), rejection.reason)
            await response.reject(rejection)
        return None

    def _unavailable(self, http: HttpRequest, error: StoreError, responses: Responses | None = None) -> Rejection:
        """Return the rejection of a request that needs the session store, which has failed."""
        self._sessions.failures.failed(f"the request is rejected: {http.method} {shown(http.path)}", error)
        responses = responses or Responses(http, self.policy, self._limits)
        return responses.unavailable("session store unavailable: try again later")

    async def _start(self) -> bool:
        """Start the lifespan of the server, if the host runs on asyncio. It then runs as long as the loop.

        Hosts that send no lifespan events, and web frameworks that do not pass them on, are common on asyncio.

        Returns:
            Whether it is running.
        """
        host = host_of_trio()
        if host is None:
            return False
        if self._starting is None:
            self._starting = trio.Event()
            host.start_soon(partial(self._run_lifespan, self._starting))
        await self._starting.wait()
        return self._service.life.running

    async def _run_lifespan(self, started: trio.Event) -> None:
        try:
            async with self._service.life.run():
                started.set()
                await trio.sleep_forever()
        except Exception:  # noqa: BLE001 -- the author's function can raise anything; the client gets no details
            _log.exception("server lifespan failed: phase=startup")
        finally:
            self._starting = None
            started.set()

    def _not_running(self, responses: Responses) -> Rejection:
        _log.error("request rejected: %s", NotRunning(self._service.name))
        return responses.reject(503, "the server is not started", code=ErrorCode.INTERNAL_ERROR)

    async def _admitted(
        self, authenticator: Authenticator, http: HttpRequest, responses: Responses
    ) -> Identity | Rejection:
        """Return the identity of the sender of a request, or the rejection of the request."""
        identity = await authenticator.authenticate(http, before_message=http.method == "POST")
        return identity if isinstance(identity, Identity) else rejected(identity, responses)

    def _checked(self, identity: Identity, responses: Responses, message: Message | Batch) -> Rejection | None:
        """Return the rejection of a message that the sender is not authorized to send, or `None`."""
        if self._authenticator is None:
            return None
        excess = self._too_many_named(message)
        if excess is not None:
            # The engine would reject the message, too, but only after the authenticator has checked each resource.
            return responses.reject(400, excess.message, id=id_of(message))
        denial = self._authenticator.check(identity, message, self._service.standing_for)
        return None if denial is None else rejected(denial, responses, message)

    def _too_many_named(self, message: Message | Batch) -> LimitExceeded | None:
        """Return the excess of a subscription to more resources than the limit, or `None`."""
        if not isinstance(message, Request) or message.method != SUBSCRIPTIONS_LISTEN.name:
            return None
        wanted = (message.params or {}).get("notifications")
        named = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
        allowed = self._limits.watched_resources
        if not isinstance(named, list) or len(named) <= allowed:
            return None
        return LimitExceeded(
            "subscribed resources of a connection",
            observed=len(named),
            allowed=allowed,
            setting="Limits.watched_resources",
        )

    async def _post(self, context: HttpContext) -> Rejection | Subscription | None:
        """Receive a message and respond to it. Its memory stays charged until the response is complete."""
        outcome: Rejection | Subscription | None = None
        try:
            outcome = await self._receive(context)
        finally:
            if isinstance(outcome, Subscription):
                outcome.charge = context.charge
            else:
                context.charge.release()
        return outcome

    async def _receive(  # noqa: PLR0912  # a sequence of rejections
        self, context: HttpContext
    ) -> Rejection | Subscription | None:
        exchange, charge = context.exchange, context.charge
        body = await receive_body(context.receive, charge, exchange, self._limits)
        if body is None:
            context.response.lost = True
        if not isinstance(body, bytes):
            return body
        if self._draining:
            return _stopping(exchange)
        if charge.keep(parsed_size(body)):
            # Let the tasks of dropped requests free their memory before this message is parsed.
            for _ in range(_TURNS):
                await trio.lowlevel.checkpoint()
        template = self._current_template()
        post = exchange.read(body, self._service.header_params, names=template.names)
        # Most of the memory of a large message is in the parsed objects.
        del body
        if isinstance(post, Rejection):
            forbidden = self._checked(context.identity, exchange, UNREADABLE)
            if forbidden is not None:
                return forbidden
            if post.answers is not None:
                await self._sessions.reject(post.answers, context)
            return post
        if self._authenticator is not None:
            forbidden = self._checked(context.identity, exchange, post.message)
            if forbidden is not None:
                return forbidden
        for note in post.notes:
            _log.debug("tolerated deviation: %s", note)
        message = post.message
        if self._observers:
            self._describe(message, template, observed(context.scope))
        if post.era is Era.LEGACY:
            if isinstance(message, Request) and message.method == INITIALIZE.name:
                return await self._sessions.open(message, context)
            return await self._sessions.post(post, context)
        return await self._answer_modern(message, post.size, template, context)

    def _describe(self, message: Message | Batch, template: _Template, record: RequestRecord | None) -> None:
        """Record the method of a message, and the name that it uses, if the request is observed."""
        if record is None:
            return
        if not isinstance(message, Request | Notification):
            record.method, record.is_registered = "response" if isinstance(message, Response) else "batch", True
            return
        method = record.method = message.method
        record.is_registered = self._service.has_method(method)
        parameter = template.names.get(method)
        name = None if parameter is None or message.params is None else message.params.get(parameter)
        if isinstance(name, str):
            record.name = name
            kind = _NAMED.get(method)
            record.is_registered = record.is_registered and (kind is None or self._service.has(kind, name))

    async def _answer_modern(
        self, message: Message | Batch, size: int, template: _Template, context: HttpContext
    ) -> Subscription | None:
        principal = context.identity.key
        queue = self._queues.queue(principal) if principal is not None and isinstance(message, Request) else None
        line = ModernRequest(
            self._service,
            template.connection.exchange(),
            context,
            policy=self.policy,
            notifier=self._notifier,
            queue=queue,
        )
        if not isinstance(message, Request):
            line.notify(cast("Notification", message))  # modern messages are requests or notifications
            await context.response.complete(context.exchange.empty_head())
            return None
        self._modern_requests.add(line)
        try:
            with self._streaming() if message.method == SUBSCRIPTIONS_LISTEN.name else nullcontext():
                subscription = await line.serve(message, size)
                if subscription is not None:
                    # Counted until the subscription ends.
                    self._streams += 1
        finally:
            self._modern_requests.discard(line)
            if principal is not None:
                self._queues.forget(principal)
        if subscription is not None:
            self._modern_requests.add(subscription)
        return subscription

    # --- the other routes ------------------------------------------------------------------------------------------

    async def _serve_stream(self, pair: SsePair, scope: Scope, receive: Receive, send: Send) -> None:
        http = request_of(scope)
        identity = await self._who(http)
        if isinstance(identity, Rejection):
            await AsgiResponse(send).reject(identity)
        else:
            root = str(scope.get("root_path") or "").rstrip("/")
            try:
                with self._streaming():
                    await pair.serve_stream(http, receive, send, identity=identity, root_path=root)
            except LimitExceeded as excess:
                await AsgiResponse(send).reject(Responses(http, self.policy, self._limits).busy(excess))
            except StoreError as error:
                await AsgiResponse(send).reject(self._unavailable(http, error))

    async def _serve_post(self, pair: SsePair, scope: Scope, receive: Receive, send: Send) -> None:
        http = request_of(scope)
        identity = await self._who(http)
        if isinstance(identity, Rejection):
            await AsgiResponse(send).reject(identity)
        else:
            try:
                await pair.serve_post(http, receive, send, identity=identity, check=self._checked)
            except StoreError as error:
                await AsgiResponse(send).reject(self._unavailable(http, error))

    async def _who(self, http: HttpRequest) -> Identity | Rejection:
        if self._authenticator is None:
            return ANONYMOUS
        # Check first what does not depend on the sender: it needs no authentication, and a preflight has no
        # credentials.
        rejection = admit(http, self.policy, self._limits)
        return rejection or await self._admitted(self._authenticator, http, Responses(http, self.policy, self._limits))

    async def _serve_document(self, document: bytes, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # a route
        await serve_document(document, self.policy, self._limits, scope, send)

    async def _answer_health(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # a route
        await _answer_check(send, fine=True)

    async def _answer_readiness(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # a route
        fine = not (self._draining or self.leaving) and await self._readiness.stores_respond()
        await _answer_check(send, fine=fine)

    async def _check_stores(self) -> None:
        """Read from each store. Raises `StoreError`."""
        await self._store.load(_NO_ID)
        tasks = self._service.tasks
        if tasks is not None:
            await tasks.store.load(_NO_ID)

    # --- shutdown --------------------------------------------------------------------------------------------------

    @allow_asyncio
    async def drain(self, grace: float) -> None:
        """Stop serving: reject new requests with 503, end notification streams, and let running calls finish.

        Args:
            grace: Time for running calls, in seconds. Calls that run longer are cancelled.
        """
        self._draining = True
        async with trio.open_nursery() as nursery:
            if self._pair is not None:
                nursery.start_soon(self._pair.drain, grace)
            for exchange in tuple(self._modern_requests):
                exchange.finish()
            for session in tuple(self._sessions):
                nursery.start_soon(session.release)
            await self._wait_idle(grace)
        for exchange in tuple(self._modern_requests):
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
        """Run the lifespan of the server within the lifespan of the host's application, then let calls finish."""
        await receive()  # lifespan.startup
        phase = "startup"
        try:
            async with self._service.life.run():
                await send({"type": "lifespan.startup.complete"})
                phase = "shutdown"
                await receive()  # lifespan.shutdown
                await self.drain(_GRACE)
        except Exception:  # noqa: BLE001 -- the author's function can raise anything; the host gets no details
            _log.exception("server lifespan failed: phase=%s", phase)
            await send({"type": f"lifespan.{phase}.failed", "message": "see the log of the server for the cause"})
        else:
            await send({"type": "lifespan.shutdown.complete"})


async def _answer_check(send: Send, *, fine: bool) -> None:
    # Health checks use an address, so `Host` is not checked. The response reveals nothing.
    status, text = (200, b"ok\n") if fine else (503, b"not ready\n")
    headers = Headers((("content-type", "text/plain; charset=utf-8"), ("cache-control", "no-store")))
    await AsgiResponse(send).complete(HttpHead(status=status, headers=headers), text)


def _stopping(responses: Responses) -> Rejection:
    return responses.reject(
        503, "the server is stopping", code=ErrorCode.INTERNAL_ERROR, headers=(("retry-after", "5"),)
    )
