"""Serving a server over HTTP, until it is told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypedDict, Unpack

import attrs
import trio

from mcp_server.host.listeners import are_loopback, listen, urls
from mcp_server.host.open_files import connections_allowed
from mcp_server.host.tls import tls_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.limits import Limits
    from mcp_server.asgi import Application
    from mcp_server.auth import ResourceServer
    from mcp_server.connection.authenticator import Identify
    from mcp_server.host.timeouts import HostTimeouts
    from mcp_server.server import Server
    from mcp_server.stores.sessions import SessionStore
    from mcp_server.transports.http.endpoint import HttpEndpoint

__all__ = ["Beside", "HttpOptions", "Site", "UnknownNames", "gracefully", "serve_http"]

_DEFAULT_BIND: Final = "127.0.0.1:8000"

_GRACE: Final = 10.0
"""Seconds; what a container gets between being told to stop and being killed is usually as long or longer."""

_MARGIN: Final = 2.0
"""Seconds that cancelled calls and the last answers have beyond the grace."""


class UnknownNames(ValueError):
    """Other machines can connect, and nobody said by which names."""

    def __init__(self, bind: str, remedy: str) -> None:
        super().__init__(f"other machines can connect to {bind}, by names that are not known here: {remedy}")
        self.bind = bind


class Beside(Protocol):
    """Something that has paths of its own at the address of an MCP endpoint."""

    def beside(self, other: Application) -> Application:
        """One application of both: what is not for this one is for the other."""
        ...


class HttpOptions(TypedDict, total=False):
    """How a server is served over HTTP. Everything may be left out."""

    path: str
    """Where the endpoint is; `/mcp` by default."""
    policy: EndpointPolicy | None
    """What the endpoint allows and prefers."""
    allowed_hosts: Iterable[str]
    """The names by which clients call the server, as `mcp.example`: instead of those of the policy. They have to be
    given when other machines can connect. For no check at all give `EndpointPolicy(allowed_hosts=None)` as the policy."""
    auth: ResourceServer | None
    """Lets in who has an access token for this server. See `Server.asgi`."""
    identify: Identify | None
    """Says who sends a request, by other means. See `Server.asgi`."""
    beside: Beside | None
    """What is served at the same address for the paths that are its own, as an `AuthorizationServer`."""
    store: SessionStore | None
    """Keeps the sessions of legacy clients. It is not closed here."""
    healthz: str | None
    """A path that answers 200 while requests are taken."""
    legacy_sse: bool
    """Serve clients of 2024-11-05 too."""
    tls_cert: str | Path | None
    """A file with the certificate, and those between it and the root, in PEM. It makes the server HTTPS. When the file
    changes, new connections get the new certificate."""
    tls_key: str | Path | None
    """A file with its key, if that is another one."""
    grace: float
    """Seconds that calls have to finish when the server is told to stop; 10 by default."""


async def serve_http(
    server: Server,
    bind: str = _DEFAULT_BIND,
    *,
    timeouts: HostTimeouts | None = None,
    task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[HttpOptions],
) -> None:
    """Serves clients over HTTP, in all revisions that the server speaks.

    By default it can be reached from this machine only. The bounds are the server's `limits`.

    Args:
        server: What to serve.
        bind: Where: `HOST:PORT`. With port 0 the system chooses one.
        timeouts: How long it waits for clients.
        task_status: Told the URLs of the endpoint, one for each address of the host, once it can be reached.
        **options: See `HttpOptions`.

    Raises:
        ValueError: An option cannot be used, or other machines can connect and `allowed_hosts` is missing.
        OSError: It cannot listen there, or a file cannot be read; the error says why.

    *Closing.* Cancel it: it takes no more requests, ends the connections that are idle and the streams that only
    listen, and waits for the calls that run, `grace` seconds at most.
    """
    from mcp_server.host.embedded import Host  # lazy: a server over stdio needs no h11

    async with server.running():
        site = await Site.open(server, bind, options)
        host = Host(site.app, limits=site.limits, timeouts=timeouts, tls=site.tls, budget=site.endpoint.budget)

        async def run(task_status: trio.TaskStatus[object]) -> None:
            await host.run(site.listeners, task_status=task_status)

        await gracefully(run, site, host.stop, task_status)


@attrs.frozen(kw_only=True)
class Site:
    """What is served, and where: everything that was asked for has been found to be possible."""

    endpoint: HttpEndpoint
    """The MCP endpoint."""
    app: Application
    """The application: the endpoint, and what is beside it."""
    listeners: Sequence[trio.SocketListener]
    """The sockets, open."""
    urls: tuple[str, ...]
    """The URLs of the endpoint."""
    limits: Limits
    """The bounds of the server, with as many connections as there is room for."""
    tls: ssl.SSLContext | None
    """For HTTPS."""
    grace: float
    """Seconds that calls have to finish at the end."""

    @classmethod
    async def open(cls, server: Server, bind: str, options: HttpOptions) -> Site:
        """Checks the options and listens. Raises what `serve_http` says."""
        grace = options.get("grace", _GRACE)
        if not grace >= 0:
            raise ValueError(f"grace must be a number of seconds, not {grace!r}")
        tls = tls_context(options.get("tls_cert"), options.get("tls_key"))
        policy, told_hosts = _policy(options)
        path = options.get("path", "/mcp")
        if not path.startswith("/"):
            raise ValueError(f"the path of the endpoint has to begin with a slash: {path!r}")
        endpoint = server.asgi(
            path=path,
            policy=policy,
            store=options.get("store"),
            auth=options.get("auth"),
            identify=options.get("identify"),
            healthz=options.get("healthz"),
            legacy_sse=options.get("legacy_sse", False),
        )
        beside = options.get("beside")
        app: Application = endpoint if beside is None else beside.beside(endpoint)
        listeners = await listen(bind)
        if not told_hosts and not are_loopback(listeners):
            for listener in listeners:
                await listener.aclose()
            raise UnknownNames(
                bind,
                'pass allowed_hosts=["mcp.example"] with the names that clients use, or'
                " policy=EndpointPolicy(allowed_hosts=None) to take any",
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
        )


def _policy(options: HttpOptions) -> tuple[EndpointPolicy, bool]:
    """The policy, and whether somebody said which names are allowed."""
    from mcp_core.http.endpoint_policy import EndpointPolicy  # lazy: likewise
    from mcp_core.http.origin import LOOPBACK_HOSTS  # lazy: a server over stdio needs none of it

    policy = options.get("policy") or EndpointPolicy()
    if "allowed_hosts" not in options:
        return policy, policy.allowed_hosts != LOOPBACK_HOSTS
    hosts = options["allowed_hosts"]
    if isinstance(hosts, str):
        raise TypeError(f"allowed_hosts has to be several names, or one in a list: [{hosts!r}]")
    return attrs.evolve(policy, allowed_hosts=tuple(hosts)), True


async def gracefully(
    run: Callable[[trio.TaskStatus[object]], Awaitable[None]],
    site: Site,
    stop: Callable[[], None],
    task_status: trio.TaskStatus[tuple[str, ...]],
) -> None:
    """Runs a host until this is cancelled, and then to its proper end.

    Args:
        run: Runs the host until it has stopped.
        site: What it serves.
        stop: Tells it to take no more connections, and to end when the last one does.
        task_status: Told the URLs when it runs.
    """
    running, ended = _Running(), trio.Event()
    failure: Exception | None = None
    # What cancels us must not break off the calls that run.
    hosting = trio.CancelScope(shield=True)

    async def host() -> None:
        nonlocal failure
        try:
            with hosting:
                await run(running)
        except Exception as error:  # noqa: BLE001  # raised below, where no nursery wraps it
            failure = error
        finally:
            # Also when it is broken off by ^C, which comes up in whichever task runs.
            ended.set()
            running.event.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(host)
        try:
            await running.event.wait()
            if failure is None:
                task_status.started(site.urls)
                await ended.wait()
        finally:
            try:
                stop()
                with trio.move_on_after(site.grace + _MARGIN, shield=True):
                    await site.endpoint.drain(site.grace)
                    await ended.wait()
            finally:
                # A second ^C comes here as well.
                hosting.cancel()
                for listener in site.listeners:
                    listener.socket.close()  # if the host had no time to
    while isinstance(failure, ExceptionGroup) and len(failure.exceptions) == 1:
        # That hosts have nurseries is a detail of theirs.
        failure = failure.exceptions[0]
    if failure is not None:
        raise failure


class _Running:
    """Is told that the host runs."""

    def __init__(self) -> None:
        self.event: Final = trio.Event()

    def started(self, value: object = None) -> None:  # noqa: ARG002  # hypercorn tells its URLs
        self.event.set()
