"""Serving a server over HTTP until it is cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypedDict, Unpack

import attrs
import trio

from mcp_core.field_methods import FieldValue
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.host.connection_counts import ConnectionCounts
from mcp_server.host.listeners import are_loopback, listen, urls
from mcp_server.host.open_files import connections_allowed
from mcp_server.host.service_manager import ServiceManager, take_sockets
from mcp_server.host.tls import tls_context
from mcp_server.runners.garbage_collection import startup_objects_frozen

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.limits import Limits
    from mcp_server.asgi import Application
    from mcp_server.auth import ResourceServer
    from mcp_server.cluster import Cluster
    from mcp_server.connection.authenticator import Authenticate
    from mcp_server.host.timeouts import HostTimeouts
    from mcp_server.observation import RequestObserver
    from mcp_server.server import Server
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.transports.http.endpoint import HttpEndpoint

__all__ = ["CompanionApp", "ListenPlan", "ServeHttpOptions", "UnknownNames", "gracefully", "serve_http"]

_DEFAULT_BIND: Final = "127.0.0.1:8000"

_GRACE: Final = 10.0
"""In seconds. Container platforms usually wait at least as long between the stop signal and the kill signal."""

_LEAVE: Final = 2.0
"""Time in which clients move to other processes when this one stops, in seconds: that of their next request."""

_MARGIN: Final = 2.0
"""Additional time for cancelled requests and the last responses after the grace period, in seconds."""


class UnknownNames(ValueError):
    """Other machines can connect, but `allowed_hosts` is missing."""

    def __init__(self, bind: str, remedy: str) -> None:
        super().__init__(f"other machines can connect to {bind}, but the allowed host names are not set: {remedy}")
        self.bind = bind


class CompanionApp(Protocol):
    """A companion application, with its own paths at the address of an MCP endpoint."""

    def combine(self, other: Application) -> Application:
        """Return one application of both. Requests for other paths go to `other`."""
        ...


class ServeHttpOptions(TypedDict, total=False):
    """Options of a server over HTTP. All of them are optional."""

    path: str
    """Path of the endpoint; `/mcp` by default."""
    policy: EndpointPolicy | None
    """Policy of the endpoint: what it allows and prefers."""
    allowed_hosts: Iterable[str]
    """Host names that clients use for the server, for example `mcp.example`. They replace those of the policy. Required
    if other machines can connect. To disable the check, use the policy `EndpointPolicy(allowed_hosts=None)`."""
    auth: ResourceServer | None
    """Authenticates clients by access tokens for this server, as in `Server.asgi`."""
    authenticate: Authenticate | None
    """Function that authenticates clients by other means, as in `Server.asgi`."""
    companion: CompanionApp | None
    """Companion application at the same address, for example an `AuthorizationServer`."""
    store: SessionStore | None
    """Stores the sessions of legacy clients. The caller closes it."""
    cluster: Cluster | None
    """Connects this process to the other workers of the deployment, as in `Server.asgi`. The caller closes it."""
    healthz: str | None
    """Path that responds with status 200 while the process is alive."""
    readyz: str | None
    """Path that responds with status 200 while the server accepts requests and its stores respond, otherwise with 503."""
    notify_changes: bool
    """Whether the server declares that it notifies clients of changes, which is the default. `False` is for several
    processes that serve the same clients and share no state."""
    observers: Iterable[RequestObserver]
    """Objects that are informed of each request, for example an `AccessLog`."""
    legacy_sse: bool
    """Whether to serve clients of revision 2024-11-05 too."""
    tls_cert: str | Path | None
    """PEM file with the certificate and the intermediate certificates. It enables HTTPS. If the file changes, new
    connections use the new certificate."""
    tls_key: str | Path | None
    """PEM file with the private key, if it is not in `tls_cert`."""
    grace: float
    """Time for running requests to finish when the server stops, in seconds; 10 by default."""


@allow_asyncio
async def serve_http(
    server: Server,
    bind: str = _DEFAULT_BIND,
    *,
    timeouts: HostTimeouts | None = None,
    task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[ServeHttpOptions],
) -> None:
    """Serve clients over HTTP, in all revisions that the server supports.

    By default, only this machine can connect. The limits are the server's `limits`.

    A service manager, for example systemd or `run_workers`, can pass listening sockets to this process (`LISTEN_FDS`).
    They replace `bind`. It is notified when the server is ready and when it stops (`NOTIFY_SOCKET`).

    While the server runs, objects that existed when it started are excluded from garbage collection (`gc.freeze`): a full
    collection of them would stop all requests for tens of milliseconds.

    Args:
        server: The server.
        bind: The address, as `HOST:PORT`. For port 0 the system chooses a port.
        timeouts: Time limits for clients.
        task_status: Receives the URLs of the endpoint, one per address of the host, when the server accepts
            connections.
        **options: The options, as in `ServeHttpOptions`.

    Raises:
        TypeError: `allowed_hosts` is a string.
        ValueError: An option is invalid, or other machines can connect and `allowed_hosts` is missing.
        RegistrationError: An option has the wrong type.
        OSError: The server cannot listen at the address, or cannot read a file. The message contains the reason.

    *Closing.* Cancel it. The server then accepts no more requests, closes idle connections and streams that only
    listen, and waits at most `grace` seconds for running requests. If a service manager passed the sockets, other
    processes continue to accept: the server first answers requests on its open connections for 2 seconds, and asks
    these clients to open a new connection.
    """
    from mcp_server.host.embedded import HttpHost  # lazy: a server over stdio needs no h11

    server.join(options.get("cluster"))
    async with server.running():
        plan = await ListenPlan.open(server, bind, options)
        host = HttpHost(
            plan.app,
            limits=plan.limits,
            timeouts=timeouts,
            tls=plan.tls,
            budget=plan.endpoint.budget,
            counts=ConnectionCounts.take(),
        )

        async def run(task_status: trio.TaskStatus[object]) -> None:
            await host.run(plan.listeners, task_status=task_status)

        await gracefully(run, plan, host.stop, task_status, leave=host.leave)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ListenPlan(FieldValue):
    """The applications and sockets of a server, after all options were checked."""

    endpoint: HttpEndpoint
    """The MCP endpoint."""
    app: Application
    """The application: the endpoint and its companion application."""
    listeners: Sequence[trio.SocketListener]
    """The open sockets."""
    urls: tuple[str, ...]
    """The URLs of the endpoint."""
    limits: Limits
    """The limits of the server, with the number of connections reduced to the available file descriptors."""
    tls: ssl.SSLContext | None
    """The TLS context for HTTPS; `None` for HTTP."""
    grace: float
    """Time for running requests to finish when the server stops, in seconds."""
    name: str
    """The name of the server."""
    inherited: bool
    """Whether a service manager passed the sockets."""

    @classmethod
    async def open(cls, server: Server, bind: str, options: ServeHttpOptions) -> ListenPlan:
        """Check the options and open the sockets. Raises the errors of `serve_http`."""
        grace = options.get("grace", _GRACE)
        if not grace >= 0:
            raise ValueError(f"grace must be a number of seconds from 0, not {grace!r}")
        tls = tls_context(options.get("tls_cert"), options.get("tls_key"))
        policy, has_hosts = _policy(options)
        path = options.get("path", "/mcp")
        if not path.startswith("/"):
            raise ValueError(f"the path of the endpoint must begin with a slash: {path!r}")
        endpoint = server.asgi(
            path=path,
            policy=policy,
            store=options.get("store"),
            cluster=options.get("cluster"),
            auth=options.get("auth"),
            authenticate=options.get("authenticate"),
            healthz=options.get("healthz"),
            readyz=options.get("readyz"),
            notify_changes=options.get("notify_changes", True),
            observers=options.get("observers", ()),
            legacy_sse=options.get("legacy_sse", False),
        )
        companion = options.get("companion")
        app: Application = endpoint if companion is None else companion.combine(endpoint)
        passed = [sock for _, sock in take_sockets()]
        listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(sock)) for sock in passed]
        listeners = listeners or await listen(bind)
        if not has_hosts and not are_loopback(listeners):
            for listener in listeners:
                await listener.aclose()
            raise UnknownNames(
                bind,
                'set allowed_hosts=["mcp.example"] to the names that clients use, or'
                " policy=EndpointPolicy(allowed_hosts=None) to allow all names",
            )
        scheme = "http" if tls is None else "https"
        connections = connections_allowed(server.limits.connections)
        endpoint.bound_streams(connections)
        return cls(
            endpoint=endpoint,
            app=app,
            listeners=listeners,
            urls=urls(listeners, scheme, path),
            limits=attrs.evolve(server.limits, connections=connections),
            tls=tls,
            grace=grace,
            name=server.info.name,
            inherited=bool(passed),
        )


def _policy(options: ServeHttpOptions) -> tuple[EndpointPolicy, bool]:
    """Return the policy, and whether the options or the policy set the allowed host names."""
    from mcp_core.http.endpoint_policy import EndpointPolicy  # lazy: likewise
    from mcp_core.http.origin import LOOPBACK_HOSTS  # lazy: a server over stdio needs none of it

    policy = options.get("policy") or EndpointPolicy()
    if "allowed_hosts" not in options:
        return policy, policy.allowed_hosts != LOOPBACK_HOSTS
    hosts = options["allowed_hosts"]
    if isinstance(hosts, str):
        raise TypeError(f"allowed_hosts must be a list of names, not a string: [{hosts!r}]")
    return attrs.evolve(policy, allowed_hosts=tuple(hosts)), True


async def gracefully(
    run: Callable[[trio.TaskStatus[object]], Awaitable[None]],
    plan: ListenPlan,
    stop: Callable[[], None],
    task_status: trio.TaskStatus[tuple[str, ...]],
    *,
    leave: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run a host until this task is cancelled, then shut it down gracefully. Notify the service manager of both.

    Args:
        run: Runs the host until it has stopped.
        plan: The applications and sockets of the host.
        stop: Makes the host refuse new connections, and stop when the last connection closes.
        task_status: Receives the URLs when the host runs.
        leave: Stops accepting connections, and waits until the clients have closed all of them; `None`: the host
            cannot do this.
    """
    manager = ServiceManager.take()
    running, ended = _Running(), trio.Event()
    failure: Exception | None = None
    # The cancellation of this task must not cancel running requests.
    hosting = trio.CancelScope(shield=True)

    async def host() -> None:
        nonlocal failure
        try:
            with hosting:
                await run(running)
        except Exception as error:  # noqa: BLE001  # raised below, where no nursery wraps it
            failure = error
        finally:
            # Also after ^C, which raises `KeyboardInterrupt` in the current task.
            ended.set()
            running.event.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(host)
        nursery.start_soon(manager.keep_alive)
        try:
            await running.event.wait()
            if failure is None:
                task_status.started(plan.urls)
                manager.notify(READY=1, STATUS=f"{plan.name} is served at {' and '.join(plan.urls)}")
                with startup_objects_frozen():
                    await ended.wait()
        finally:
            try:
                manager.notify(STOPPING=1)
                if plan.inherited and leave is not None:
                    plan.endpoint.leaving = True
                    with trio.move_on_after(_LEAVE, shield=True):
                        await leave()
                stop()
                with trio.move_on_after(plan.grace + _MARGIN, shield=True):
                    await plan.endpoint.drain(plan.grace)
                    await ended.wait()
            finally:
                # Also reached by a second ^C.
                hosting.cancel()
                nursery.cancel_scope.cancel()
                for listener in plan.listeners:
                    listener.socket.close()  # if the host did not close it
    while isinstance(failure, ExceptionGroup) and len(failure.exceptions) == 1:
        # The nurseries of hosts are an implementation detail.
        failure = failure.exceptions[0]
    if failure is not None:
        raise failure


class _Running:
    """A task status that records that the host runs."""

    def __init__(self) -> None:
        self.event: Final = trio.Event()

    def started(self, value: object = None) -> None:  # noqa: ARG002  # hypercorn passes its URLs
        self.event.set()
