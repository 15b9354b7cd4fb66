"""The options of `mcp-server run` for HTTP, and serving with them until a signal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import trio

from mcp_server.runners.http import ServeHttpOptions, UnknownNames, serve_http
from mcp_server.runners.signals import stopped_by_signals

if TYPE_CHECKING:
    import argparse

    from mcp_server.server import Server

__all__ = ["OptionError", "add_options", "problem", "serve"]

_HEALTHZ: Final = "/healthz"


class OptionError(Exception):
    """An option cannot be used. The message names the problem and the remedy."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options for HTTP to `mcp-server run`."""
    group = command.add_argument_group("over HTTP")
    group.add_argument("--http", metavar="HOST:PORT", help="serve over HTTP at this address; port 0: any free port")
    group.add_argument("--path", help="the path of the endpoint (default: /mcp)")
    group.add_argument(
        "--allowed-host",
        metavar="NAME",
        action="append",
        help="a host name that clients use for the server, for example mcp.example or mcp.example:8443; may be given"
        " several times (default: the loopback names of this machine)",
    )
    group.add_argument(
        "--allow-any-host", action="store_true", help="do not check the host name in requests; a proxy must check it"
    )
    group.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate")
    group.add_argument("--tls-key", metavar="FILE", help="the private key, if it is in another file")
    group.add_argument(
        "--store", metavar="FILE", help="store sessions in this SQLite file, so that they survive a restart"
    )
    group.add_argument("--legacy-sse", action="store_true", help="also serve clients of 2024-11-05 (HTTP+SSE), at /sse")
    group.add_argument("--healthz", action="store_true", help=f"return 200 at {_HEALTHZ} while requests are accepted")


def problem(given: argparse.Namespace) -> str | None:
    """Return the problem with the combination of options, or `None`."""
    if given.allowed_host and given.allow_any_host:
        return "--allowed-host and --allow-any-host cannot be used together"
    if given.tls_key and not given.tls_cert:
        return "--tls-key needs --tls-cert"
    if given.http is not None:
        return None
    needing = ("path", "allowed_host", "allow_any_host", "tls_cert", "tls_key", "store", "legacy_sse", "healthz")
    for name in needing:
        if getattr(given, name):
            return f"--{name.replace('_', '-')} needs --http HOST:PORT"
    return None


async def serve(server: Server, given: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM. Running calls may then finish; a second signal cancels them.

    Args:
        server: The server.
        given: The parsed options.

    Raises:
        OptionError: An option cannot be used.
    """
    from mcp_server.stores.sessions import StoreError  # lazy: likewise
    from mcp_server.stores.sqlite.sessions import SqliteStore  # lazy: a server over stdio needs no store

    try:
        store = None if given.store is None else SqliteStore(given.store, limits=server.limits)
    except StoreError as error:
        raise OptionError(str(error)) from error
    options = _options(given)
    options["store"] = store
    reachable = _Announcement(server)
    try:
        with stopped_by_signals():
            await serve_http(server, given.http, task_status=reachable, **options)
    except UnknownNames as error:
        remedy = "give --allowed-host NAME for each name that clients use, or --allow-any-host to accept any name"
        raise OptionError(str(UnknownNames(error.bind, remedy))) from error
    except (OSError, ValueError) as error:
        if reachable.announced:
            raise
        raise OptionError((isinstance(error, OSError) and error.strerror) or str(error)) from error
    finally:
        if store is not None:
            with trio.CancelScope(shield=True):
                await store.aclose()


def _options(given: argparse.Namespace) -> ServeHttpOptions:
    from mcp_core.http.endpoint_policy import EndpointPolicy  # lazy: a server over stdio needs none of it

    options = ServeHttpOptions(
        path=given.path or "/mcp",
        healthz=_HEALTHZ if given.healthz else None,
        legacy_sse=given.legacy_sse,
        tls_cert=given.tls_cert,
        tls_key=given.tls_key,
    )
    if given.allow_any_host:
        options["policy"] = EndpointPolicy(allowed_hosts=None)
    if given.allowed_host:
        options["allowed_hosts"] = given.allowed_host
    return options


class _Announcement:
    """A task status that shows the URLs of the server to the user once it accepts requests."""

    def __init__(self, server: Server) -> None:
        self._server: Final = server
        self.announced = False

    def started(self, value: tuple[str, ...] = ()) -> None:
        self.announced = True
        sys.stderr.write(f"{self._server.info.name} is served at {' and '.join(value)}\n")
