"""Serving a server with hypercorn, for HTTP/2. A request costs two to three times as much as with `serve_http`."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Unpack, cast

import trio

from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.extras import extra
from mcp_server.host.listeners import BACKLOG
from mcp_server.host.request_guard import RequestGuard
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.host.tls import tls_context
from mcp_server.runners.http import ListenPlan, gracefully

if TYPE_CHECKING:
    import ssl

    import hypercorn
    from hypercorn.typing import Framework

    from mcp_server.runners.http import ServeHttpOptions
    from mcp_server.server import Server

__all__ = ["serve_hypercorn"]

_log: Final = logging.getLogger("mcp_server")

_REQUESTS: Final = 1 << 60
"""Maximum requests per connection. After 1000, the default, hypercorn closes it even if requests are pending."""

_MARGIN: Final = 1.0
"""Additional time for the last responses after the grace period, in seconds."""


@allow_asyncio
async def serve_hypercorn(
    server: Server,
    bind: str = "127.0.0.1:8000",
    *,
    timeouts: HostTimeouts | None = None,
    task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[ServeHttpOptions],
) -> None:
    """Serve clients over HTTP/1.1 and HTTP/2, as `serve_http` does over HTTP/1.1. Requires `trio-mcp-server[hypercorn]`.

    For all settings of hypercorn, or for several processes, pass `Server.asgi()` to hypercorn.

    Args:
        server: The server.
        bind: The address, as `HOST:PORT`. For port 0 the system chooses a port.
        timeouts: Time limits for clients. `head` limits only the TLS handshake. hypercorn has no setting for `stall`
            and `linger`.
        task_status: Receives the URLs of the endpoint, one per address of the host, when the server accepts
            connections.
        **options: The options, as in `ServeHttpOptions`.

    Raises:
        MissingExtra: hypercorn is not installed.
        TypeError: `allowed_hosts` is a string.
        ValueError: An option is invalid, or other machines can connect and `allowed_hosts` is missing.
        RegistrationError: An option has the wrong type.
        OSError: The server cannot listen at the address, or cannot read a file.

    *Closing.* Cancel it. It then closes as `serve_http` does.
    """
    with extra("trio-mcp-server", "hypercorn"):
        import hypercorn.trio  # lazy: an extra

    server.join(options.get("cluster"))
    async with server.running():
        plan = await ListenPlan.open(server, bind, options)
        stopping = trio.Event()
        timeouts = timeouts or HostTimeouts()
        app = RequestGuard(plan.app, limits=server.limits, timeouts=timeouts)
        serve = partial(
            hypercorn.trio.serve,
            cast("Framework", app),  # an ASGI application, but with less specific types
            _config(plan, server, timeouts, options),
            shutdown_trigger=stopping.wait,
            mode="asgi",
        )

        async def run(task_status: trio.TaskStatus[object]) -> None:
            await serve(task_status=task_status)

        await gracefully(run, plan, stopping.set, task_status)


def _config(plan: ListenPlan, server: Server, timeouts: HostTimeouts, options: ServeHttpOptions) -> hypercorn.Config:
    import hypercorn  # lazy: an extra

    class Config(hypercorn.Config):
        def create_ssl_context(self) -> ssl.SSLContext | None:
            # The base class reads the certificate only once.
            return tls_context(self.certfile, self.keyfile, alpn=self.alpn_protocols, ciphers=self.ciphers)

    config = Config()
    # hypercorn closes the sockets. They are open already, so that this module handles port 0 and errors.
    config.bind = [f"fd://{listener.socket.detach()}" for listener in plan.listeners]
    if plan.tls is not None:
        config.certfile = str(options["tls_cert"])
        config.keyfile = str(options.get("tls_key") or options["tls_cert"])
    config.backlog = BACKLOG
    config.keep_alive_max_requests = _REQUESTS
    # Also limits the time until the head of the first request is complete.
    config.keep_alive_timeout = timeouts.idle
    config.ssl_handshake_timeout = timeouts.head
    config.h11_max_incomplete_size = config.h2_max_header_list_size = server.limits.header_bytes
    config.include_server_header = False
    # Requests that still run after the grace period have been cancelled.
    config.graceful_timeout = plan.grace + _MARGIN
    config.errorlog = _log
    return config
