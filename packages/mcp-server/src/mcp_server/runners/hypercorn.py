"""Serving a server by hypercorn: for HTTP/2, at two to three times the cost of a request."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Unpack, cast

import trio

from mcp_server.host.listeners import BACKLOG
from mcp_server.host.request_guard import RequestGuard
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.host.tls import tls_context
from mcp_server.runners.http import Site, gracefully

if TYPE_CHECKING:
    import ssl

    import hypercorn
    from hypercorn.typing import Framework

    from mcp_server.runners.http import HttpOptions
    from mcp_server.server import Server

__all__ = ["serve_hypercorn"]

_log: Final = logging.getLogger("mcp_server")

_REQUESTS: Final = 1 << 60
"""Requests on one connection: hypercorn ends it after a thousand, in the middle of what a client has under way."""

_MARGIN: Final = 1.0
"""Seconds that the last answers have beyond the grace."""


async def serve_hypercorn(
    server: Server,
    bind: str = "127.0.0.1:8000",
    *,
    timeouts: HostTimeouts | None = None,
    task_status: trio.TaskStatus[tuple[str, ...]] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[HttpOptions],
) -> None:
    """Serves clients over HTTP/1.1 and HTTP/2, as `serve_http` does over HTTP/1.1. It needs `mcp-server[hypercorn]`.

    To have all settings of hypercorn, or several processes, give `Server.asgi()` to it yourself.

    Args:
        server: What to serve.
        bind: Where: `HOST:PORT`. With port 0 the system chooses one.
        timeouts: How long it waits for clients. `head` bounds the TLS handshake only, and hypercorn has no setting for
            `stall` and `linger`.
        task_status: Told the URLs of the endpoint, one for each address of the host, once it can be reached.
        **options: See `HttpOptions`.

    Raises:
        ModuleNotFoundError: hypercorn is not installed.
        ValueError: See `serve_http`.
        OSError: Likewise.

    *Closing.* Cancel it. See `serve_http`.
    """
    try:
        import hypercorn.trio  # lazy: an extra
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'serve_hypercorn needs hypercorn: install the extra, "mcp-server[hypercorn]"', name=error.name
        ) from error

    async with server.running():
        site = await Site.open(server, bind, options)
        stopping = trio.Event()
        timeouts = timeouts or HostTimeouts()
        app = RequestGuard(site.app, limits=server.limits, timeouts=timeouts)
        serve = partial(
            hypercorn.trio.serve,
            cast("Framework", app),  # it is an ASGI application, with types that say less than theirs
            _config(site, server, timeouts, options),
            shutdown_trigger=stopping.wait,
            mode="asgi",
        )

        async def run(task_status: trio.TaskStatus[object]) -> None:
            await serve(task_status=task_status)

        await gracefully(run, site, stopping.set, task_status)


def _config(site: Site, server: Server, timeouts: HostTimeouts, options: HttpOptions) -> hypercorn.Config:
    import hypercorn  # lazy: an extra

    class Config(hypercorn.Config):
        def create_ssl_context(self) -> ssl.SSLContext | None:
            # Its own reads the certificate once.
            return tls_context(self.certfile, self.keyfile, alpn=self.alpn_protocols, ciphers=self.ciphers)

    config = Config()
    # It closes them. They are open, so that port 0 and the errors are ours.
    config.bind = [f"fd://{listener.socket.detach()}" for listener in site.listeners]
    if site.tls is not None:
        config.certfile = str(options["tls_cert"])
        config.keyfile = str(options.get("tls_key") or options["tls_cert"])
    config.backlog = BACKLOG
    config.keep_alive_max_requests = _REQUESTS
    # Also until the head of the first request is complete.
    config.keep_alive_timeout = timeouts.idle
    config.ssl_handshake_timeout = timeouts.head
    config.h11_max_incomplete_size = config.h2_max_header_list_size = server.limits.header_bytes
    config.include_server_header = False
    # What is still there when calls have had their time has been cancelled.
    config.graceful_timeout = site.grace + _MARGIN
    config.errorlog = _log
    return config
