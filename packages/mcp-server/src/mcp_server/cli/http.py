"""The options of `mcp-server run`, and serving over HTTP with them until a signal."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from mcp_core.errors import MissingExtra
from mcp_core.trio.signals import end_interrupted, stop_signal
from mcp_server.cli import observability
from mcp_server.cli.options import CommandOption
from mcp_server.host.service_manager import WORKER
from mcp_server.runners.http import ServeHttpOptions, UnknownNames, serve_http

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from mcp_server.cluster.redis import RedisCluster
    from mcp_server.server import Server

__all__ = ["LEVELS", "OPTIONS", "OptionError", "is_worker", "problem", "run_workers", "serve"]

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
"""The levels of the log."""

_HEALTHZ: Final = "/healthz"
_READYZ: Final = "/readyz"

_KEY_CHARS: Final = 32
"""Shortest key of request states, in characters."""

_NAME_CHARS: Final = 40
"""Characters of the name of the server in the keys of a cluster."""

_HTTP: Final = "over HTTP"
_OPERATION: Final = "operation over HTTP"
_WORKERS: Final = "several processes"

OPTIONS: Final = (
    CommandOption(name="log-level", choices=LEVELS, help="the lowest level to log to stderr (default: warning)"),
    CommandOption(name="log-json", kind=bool, help="log to stderr in JSON, one object per line"),
    CommandOption(
        name="telemetry",
        kind=bool,
        help="report requests to OpenTelemetry, which the variables OTEL_* configure; by default by OTLP over HTTP",
    ),
    CommandOption(
        name="http",
        metavar="HOST:PORT",
        group=_HTTP,
        help="serve over HTTP at this address; port 0: any free port",
    ),
    CommandOption(
        name="path", metavar="PATH", group=_HTTP, needs="http", help="the path of the endpoint (default: /mcp)"
    ),
    CommandOption(
        name="allowed-host",
        metavar="NAME",
        repeated=True,
        group=_HTTP,
        needs="http",
        help="a host name that clients use for the server, for example mcp.example or mcp.example:8443; may be given"
        " several times (default: the loopback names of this machine)",
    ),
    CommandOption(
        name="allow-any-host",
        kind=bool,
        group=_HTTP,
        needs="http",
        help="do not check the host name in requests; a proxy must check it",
    ),
    CommandOption(name="tls-cert", metavar="FILE", group=_HTTP, needs="http", help="serve HTTPS with this certificate"),
    CommandOption(
        name="tls-key",
        metavar="FILE",
        group=_HTTP,
        needs="tls-cert",
        help="the private key, if it is in another file",
    ),
    CommandOption(
        name="store",
        metavar="FILE",
        group=_HTTP,
        needs="http",
        help="store sessions in this SQLite file, so that they survive a restart",
    ),
    CommandOption(
        name="legacy-sse",
        kind=bool,
        group=_HTTP,
        needs="http",
        help="also serve clients of 2024-11-05 (HTTP+SSE), at /sse",
    ),
    CommandOption(
        name="healthz",
        kind=bool,
        group=_HTTP,
        needs="http",
        help=f"return 200 at {_HEALTHZ} while the process is alive",
    ),
    CommandOption(
        name="readyz",
        kind=bool,
        group=_HTTP,
        needs="http",
        help=f"return 200 at {_READYZ} while requests are accepted and the stores respond, otherwise 503",
    ),
    CommandOption(
        name="access-log",
        choices=("off", "text", "json"),
        group=_OPERATION,
        needs="http",
        help="write a line for each request to stdout (default: off)",
    ),
    CommandOption(
        name="metrics",
        metavar="PATH|HOST:PORT",
        group=_OPERATION,
        needs="http",
        help="show metrics for Prometheus at this path of the server, or at /metrics of another address",
    ),
    CommandOption(
        name="workers",
        metavar="N",
        kind=int,
        group=_WORKERS,
        needs="http",
        help="serve with N processes; SIGHUP replaces them one by one, without a failed request",
    ),
    CommandOption(
        name="cluster",
        metavar="URL",
        group=_WORKERS,
        needs="http",
        help="share sessions, tasks and notifications with the other processes in Redis or Valkey, for example"
        " redis://127.0.0.1:6379/0",
    ),
    CommandOption(
        name="state-key",
        metavar="FILE",
        group=_WORKERS,
        needs="http",
        help="a file with the keys of request states, which all processes need: one per line, at least 32 random"
        " characters, the current one first",
    ),
)
"""The options of `mcp-server run`, on the command line and in a configuration file."""


class OptionError(Exception):
    """An option cannot be used. The message names the problem and the remedy."""


def problem(given: argparse.Namespace) -> str | None:
    """Return the problem with the combination of options, or `None`."""
    if given.allowed_host and given.allow_any_host:
        return "--allowed-host and --allow-any-host cannot be used together"
    if given.store and given.cluster:
        return "--store and --cluster cannot be used together: the cluster stores the sessions"
    for option in OPTIONS:
        value = getattr(given, option.attribute)
        if option.needs is None or value is None or value is False:
            continue
        if getattr(given, option.needs.replace("-", "_")) is None:
            needed = next(each for each in OPTIONS if each.name == option.needs)
            return f"--{option.name} needs --{needed.name}" + (f" {needed.metavar}" if needed.name == "http" else "")
    if given.workers is not None and given.workers < 1:
        return f"--workers must be at least 1, not {given.workers}"
    return None


def run_workers(given: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the command in several processes until a signal, and return the exit status.

    Args:
        given: The parsed options.
        command: The command of a worker: that of this process.

    Raises:
        OptionError: An option cannot be used.
    """
    from mcp_server.prometheus import METRICS_FOLDER  # lazy: likewise
    from mcp_server.runners.workers import run_workers  # lazy: one process needs no supervisor

    def announce(state: str) -> None:
        sys.stderr.write(f"{state} ({given.workers} workers)\n")

    try:
        with tempfile.TemporaryDirectory(prefix="mcp-server-") as folder:
            variables = {METRICS_FOLDER: folder} if given.metrics else {}
            return run_workers(command, given.http, workers=given.workers, environment=variables, announce=announce)
    except (OSError, ValueError) as error:
        raise OptionError((isinstance(error, OSError) and error.strerror) or str(error)) from error


def is_worker() -> bool:
    """Return whether a supervisor started this process."""
    return WORKER in os.environ


async def serve(server: Server, given: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM. Running calls may then finish; a second signal ends the process.

    Args:
        server: The server.
        given: The parsed options.

    Returns:
        The exit status.

    Raises:
        OptionError: An option cannot be used.
    """
    from mcp_server.stores.sessions import StoreError  # lazy: likewise
    from mcp_server.stores.sqlite.sessions import SqliteStore  # lazy: a server over stdio needs no store

    _use_state_keys(server, given)
    if given.telemetry:
        observability.use_telemetry(server)
    options = _options(given)
    page = observability.observe(options, access_log=given.access_log or "off", metrics=given.metrics)
    if (given.workers or 1) > 1:
        _check_workers(server, given)
        options["notify_changes"] = given.cluster is not None
    try:
        store = None if given.store is None else SqliteStore(given.store, limits=server.limits)
        cluster = None if given.cluster is None else _cluster(server, given.cluster)
    except (StoreError, MissingExtra) as error:
        raise OptionError(str(error)) from error
    options["store"] = store
    options["cluster"] = cluster
    reachable = _Announcement(server, silent=given.workers is not None)
    try:
        with stop_signal(interrupted_again=end_interrupted) as stopped, observability.observe_event_loop():
            async with observability.serve_page(page, given.metrics):
                await serve_http(server, given.http, task_status=reachable, **options)
    except UnknownNames as error:
        remedy = "give --allowed-host NAME for each name that clients use, or --allow-any-host to accept any name"
        raise OptionError(str(UnknownNames(error.bind, remedy))) from error
    except (OSError, ValueError) as error:
        if reachable.announced:
            raise
        raise OptionError((isinstance(error, OSError) and error.strerror) or str(error)) from error
    except StoreError as error:
        # The configuration of the cluster is wrong. If it only cannot be reached, the server waits for it.
        raise OptionError(str(error)) from error
    else:
        return stopped.exit_status
    finally:
        with trio.CancelScope(shield=True):
            for each in (store, cluster):
                if each is not None:
                    await each.aclose()


def _cluster(server: Server, url: str) -> RedisCluster:
    """Return the cluster. The keys of servers with different names are separate, so that they can share one Redis."""
    from mcp_server.cluster.redis import RedisCluster  # lazy: an extra

    name = re.sub(r"[^A-Za-z0-9_.-]", "-", server.info.name)[:_NAME_CHARS]
    return RedisCluster(url, prefix=f"mcp:{name}", limits=server.limits)


def _use_state_keys(server: Server, given: argparse.Namespace) -> None:
    if given.state_key is None:
        return
    try:
        lines = Path(given.state_key).read_bytes().splitlines()
    except OSError as error:
        raise OptionError(f"cannot read the keys from {given.state_key}: {error.strerror}") from error
    keys = [line.strip() for line in lines if line.strip()]
    short = [place for place, key in enumerate(keys, 1) if len(key) < _KEY_CHARS]
    if short or not keys:
        where = f"key {short[0]} is shorter" if short else "it is empty"
        raise OptionError(
            f"{given.state_key} must have one key per line, each at least {_KEY_CHARS} random characters, but {where};"
            " create one with: openssl rand -base64 32"
        )
    server.use_state_keys(keys)


def _check_workers(server: Server, given: argparse.Namespace) -> None:
    """Raise `OptionError` if several workers cannot serve the server."""
    from mcp_server.runners.workers.shared_state import unshared_state  # lazy: one process shares nothing

    if given.store is not None:
        raise OptionError("--store is for one process: with --workers, only one of them could open the file")
    missing = unshared_state(server) if given.cluster is None else None
    if missing is not None:
        raise OptionError(missing)


def _options(given: argparse.Namespace) -> ServeHttpOptions:
    from mcp_core.http.endpoint_policy import EndpointPolicy  # lazy: a server over stdio needs none of it

    options = ServeHttpOptions(
        path=given.path or "/mcp",
        healthz=_HEALTHZ if given.healthz else None,
        readyz=_READYZ if given.readyz else None,
        legacy_sse=bool(given.legacy_sse),
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

    def __init__(self, server: Server, *, silent: bool) -> None:
        self._server: Final = server
        self._silent: Final = silent
        self.announced = False

    def started(self, value: tuple[str, ...] = ()) -> None:
        self.announced = True
        if not self._silent:
            # The supervisor of workers shows the URLs once.
            sys.stderr.write(f"{self._server.info.name} is served at {' and '.join(value)}\n")
