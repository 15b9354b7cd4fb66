"""Serving over HTTP with the embedded host and with Hypercorn: addresses, host names, options, TLS, and the end."""

from __future__ import annotations

import errno
import gc
import json
import math
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Unpack

import hypercorn
import hypercorn.trio
import pytest
import trio
import trio.testing
import trustme
from http_hosts import RawHttp, RawResponse
from hypercorn.typing import Framework

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.messages import HttpRequest
from mcp_core.http.origin import LOOPBACK_HOSTS
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits import Limits
from mcp_server import Server
from mcp_server.host.embedded import HttpHost
from mcp_server.host.listeners import are_loopback, listen, split_bind
from mcp_server.host.listeners import urls as urls_of
from mcp_server.host.timeouts import HostTimeouts
from mcp_server.runners import http as http_runner
from mcp_server.runners.http import ServeHttpOptions, serve_http
from mcp_server.runners.hypercorn import serve_hypercorn

BOTH_SERVERS = pytest.mark.parametrize("serve", [serve_http, serve_hypercorn])


class Serve(Protocol):
    """The parameters that both functions have."""

    async def __call__(
        self,
        server: Server,
        bind: str = ...,
        *,
        task_status: trio.TaskStatus[tuple[str, ...]] = ...,
        **options: Unpack[ServeHttpOptions],
    ) -> None: ...


def make_server() -> tuple[Server, dict[str, trio.Event]]:
    """Return a server with a tool that waits for an event, and its events."""
    server = Server("sample", version="1", limits=Limits(header_bytes=2_048))
    events = {"running": trio.Event(), "release": trio.Event(), "cancelled": trio.Event()}

    @server.tool
    async def wait() -> str:
        events["running"].set()
        try:
            await events["release"].wait()
        except trio.Cancelled:
            events["cancelled"].set()
            raise
        return "done"

    return server, events


@asynccontextmanager
async def serving(
    serve: Serve, server: Server, bind: str = "127.0.0.1:0", **options: Unpack[ServeHttpOptions]
) -> AsyncIterator[tuple[trio.CancelScope, str]]:
    """Serve while the block runs; yield the cancel scope and the URL."""
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def run(task_status: trio.TaskStatus[tuple[str, ...]]) -> None:
                with scope:
                    await serve(server, bind, task_status=task_status, **options)

            (url,) = await nursery.start(run)
            yield scope, url
            scope.cancel()


def call(name: str) -> bytes:
    """Return the body of a tool call in 2026-07-28."""
    return request("tools/call", {"name": name, "arguments": {}})


def request(method: str, params: JsonObject) -> bytes:
    """Return the body of a request in 2026-07-28."""
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
    }
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}).encode()


def head_of(
    body: bytes, name: str = "wait", *, method: str = "tools/call", path: str = "/mcp", host: str = "127.0.0.1"
) -> bytes:
    lines = (
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        f"Mcp-Method: {method}",
        *([f"Mcp-Name: {name}"] if name else []),
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join([*lines, "", ""]).encode()


async def begin(url: str, *, host: str = "127.0.0.1") -> RawHttp:
    """Send a tool call and return the client."""
    client = await RawHttp.to(url.removesuffix("/mcp"))
    body = call("wait")
    await client.write(head_of(body, host=host) + body)
    return client


def text_of(answer: RawResponse) -> str:
    text = json.loads(answer.body)["result"]["content"][0]["text"]
    assert isinstance(text, str)
    return text


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bind", "parts"),
    [
        ("127.0.0.1:8000", ("127.0.0.1", 8000)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("mcp.example:80", ("mcp.example", 80)),
    ],
)
def test_split_bind_returns_host_and_port(bind: str, parts: tuple[str, int]) -> None:
    assert split_bind(bind) == parts


@pytest.mark.parametrize("bind", ["", "8000", ":8000", "localhost", "::1:8000", "[::1]", "[::1:8000", "::1]:8000"])
def test_bind_without_host_or_port_raises(bind: str) -> None:
    with pytest.raises(ValueError, match="write HOST:PORT"):
        split_bind(bind)


@pytest.mark.parametrize("port", ["", "http", "-1", "65536", "+80", " 80", "8_0", "\u0668"])
def test_bind_with_invalid_port_raises(port: str) -> None:
    with pytest.raises(ValueError, match="is not a port"):
        split_bind(f"localhost:{port}")


async def test_port_in_use_raises_oserror() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=rf"cannot listen at {bind}: the address is in use") as refused:
            await serve_http(make_server()[0], bind)
        assert refused.value.errno == errno.EADDRINUSE


async def test_foreign_address_raises_oserror() -> None:
    with pytest.raises(OSError, match=r"cannot listen at 192\.0\.2\.1:0: "):
        await listen("192.0.2.1:0")


async def test_unknown_host_name_raises_oserror() -> None:
    with pytest.raises(OSError, match=r"cannot listen at nowhere\.invalid:80: "):
        await listen("nowhere.invalid:80")


Opened = tuple[str, int]


class FakeListeners:
    """A machine with several addresses, in place of the system functions that `listen` calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, addresses: list[str], failures: dict[Opened, int]) -> None:
        self.failures = failures
        self.opened: list[Opened] = []

        async def getaddrinfo(host: str, port: int, **_: int) -> list[tuple[int, int, int, str, Opened]]:
            return [(0, 0, 0, "", (address, port)) for address in addresses]

        monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(trio, "open_tcp_listeners", self.open)

    async def open(self, port: int, *, host: str, backlog: int) -> list[trio.SocketListener]:
        self.opened.append((host, port))
        if (host, 0) in self.failures:
            raise OSError(self.failures[host, 0], "not available")
        if self.failures.pop((host, 1), None):
            raise OSError(errno.EADDRINUSE, "in use")
        sock = trio.socket.socket()
        await sock.bind(("127.0.0.1", 0))
        sock.listen(backlog)
        return [trio.SocketListener(sock)]


async def test_listeners_of_one_name_have_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    system = FakeListeners(monkeypatch, ["127.0.0.1", "127.0.0.2", "127.0.0.1"], {})
    listeners = await listen("several:0")
    first = listeners[0].socket.getsockname()[1]
    assert system.opened == [("127.0.0.1", 0), ("127.0.0.2", first)]
    for listener in listeners:
        await listener.aclose()


async def test_unavailable_address_family_is_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeListeners(monkeypatch, ["::1", "127.0.0.1"], {("::1", 0): errno.EADDRNOTAVAIL})
    (listener,) = await listen("localhost:0")
    await listener.aclose()
    FakeListeners(monkeypatch, ["::1"], {("::1", 0): errno.EAFNOSUPPORT})
    with pytest.raises(OSError, match="cannot listen at localhost:0: not available"):
        await listen("localhost:0")


async def test_port_in_use_at_second_address_tries_other_port(monkeypatch: pytest.MonkeyPatch) -> None:
    system = FakeListeners(monkeypatch, ["127.0.0.1", "127.0.0.2"], {("127.0.0.2", 1): 1})
    listeners = await listen("several:0")
    assert len(listeners) == 2
    assert len(system.opened) == 4
    for listener in listeners:
        await listener.aclose()


async def test_common_free_port_missing_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeListeners(monkeypatch, ["127.0.0.1", "127.0.0.2"], {("127.0.0.2", 0): errno.EADDRINUSE})
    with pytest.raises(OSError, match="no port is free at all addresses of several"):
        await listen("several:0")


async def test_port_without_permission_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeListeners(monkeypatch, ["127.0.0.1"], {("127.0.0.1", 0): errno.EACCES})
    with pytest.raises(OSError, match="permission denied; ports below 1024 are often reserved"):
        await listen("localhost:80")


async def test_urls_have_address_and_path() -> None:
    listeners = await listen("127.0.0.1:0")
    port = listeners[0].socket.getsockname()[1]
    assert urls_of(listeners, "https", "/mcp") == (f"https://127.0.0.1:{port}/mcp",)
    assert are_loopback(listeners)

    class Six:
        """A listener at ::1, which not every machine has."""

        socket = property(lambda self: self)

        def getsockname(self) -> tuple[str, int, int, int]:
            return ("::1", 8000, 0, 0)

    assert urls_of([Six()], "http", "/") == ("http://[::1]:8000/",)  # type: ignore[list-item]  # has the members that are used
    for listener in listeners:
        await listener.aclose()


# --- host names -------------------------------------------------------------------------------------------------------


@BOTH_SERVERS
async def test_public_bind_without_allowed_hosts_raises(serve: Serve) -> None:
    server, _ = make_server()
    for options in (ServeHttpOptions(), ServeHttpOptions(policy=EndpointPolicy()), ServeHttpOptions(policy=None)):
        with pytest.raises(
            ValueError, match=r"0\.0\.0\.0:0, but the allowed host names are not set: set allowed_hosts="
        ):
            await serve(server, "0.0.0.0:0", **options)


@BOTH_SERVERS
@pytest.mark.parametrize(
    ("options", "host", "status"),
    [
        (ServeHttpOptions(allowed_hosts=["mcp.example"]), "mcp.example", 200),
        (ServeHttpOptions(allowed_hosts=["mcp.example"]), "localhost", 403),
        (ServeHttpOptions(allowed_hosts=LOOPBACK_HOSTS), "localhost", 200),
        (ServeHttpOptions(policy=EndpointPolicy(allowed_hosts=("mcp.example",))), "mcp.example", 200),
        (ServeHttpOptions(policy=EndpointPolicy(allowed_hosts=None)), "anything.example", 200),
        (ServeHttpOptions(policy=EndpointPolicy(), allowed_hosts=("mcp.example",)), "mcp.example", 200),
    ],
)
async def test_allowed_hosts_decide_status(serve: Serve, options: ServeHttpOptions, host: str, status: int) -> None:
    server, events = make_server()
    events["release"].set()
    async with serving(serve, server, "0.0.0.0:0", **options) as (_, url):
        client = await begin(url.replace("0.0.0.0", "127.0.0.1"), host=host)
        assert (await client.answer("POST")).status == status
        await client.aclose()


@pytest.mark.spec("http.bind-localhost", "security.local-server-access", "security.local-server-hardening")
async def test_default_bind_is_loopback() -> None:
    server, _ = make_server()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]
    bound: list[str] = []

    async def listen_elsewhere(bind: str) -> list[trio.SocketListener]:
        bound.append(bind)
        return await listen(f"127.0.0.1:{free}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_runner, "listen", listen_elsewhere)
        async with trio.open_nursery() as nursery:
            assert await nursery.start(serve_http, server) == (f"http://127.0.0.1:{free}/mcp",)
            nursery.cancel_scope.cancel()
    assert bound == ["127.0.0.1:8000"]


async def test_allowed_hosts_as_string_raises() -> None:
    with pytest.raises(TypeError, match=r"not a string: \['mcp\.example'\]"):
        await serve_http(make_server()[0], "0.0.0.0:0", allowed_hosts="mcp.example")


# --- requests and options ---------------------------------------------------------------------------------------------


@BOTH_SERVERS
async def test_tool_call_answered(serve: Serve) -> None:
    server, events = make_server()
    async with serving(serve, server) as (_, url):
        assert url.endswith("/mcp")
        client = await begin(url)
        await events["running"].wait()
        events["release"].set()
        answer = await client.answer("POST")
        assert (answer.status, text_of(answer), "server" in answer.headers) == (200, "done", False)
        await client.aclose()


@BOTH_SERVERS
async def test_options_are_passed_to_endpoint(serve: Serve) -> None:
    server, _ = make_server()
    paths: list[str] = []

    async def identify(request: HttpRequest) -> str | None:
        paths.append(request.path)
        return "a-user"

    options = ServeHttpOptions(path="/here", healthz="/fine", legacy_sse=True, authenticate=identify)
    async with serving(serve, server, **options) as (_, url):
        assert url.endswith("/here")
        client = await RawHttp.to(url.removesuffix("/here"))
        statuses = {path: (await client.get(path)).status for path in ("/mcp", "/fine")}
        assert statuses == {"/mcp": 404, "/fine": 200}
        body = call("unknown")
        await client.write(head_of(body, "unknown", path="/here") + body)
        await client.answer("POST")
        await client.write(b"GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
        assert (await client.head()).status == 200
        assert b"event: endpoint" in await client.part()
        assert paths == ["/here", "/sse"]
        await client.aclose()


@BOTH_SERVERS
async def test_header_limit_of_server_applies(serve: Serve) -> None:
    async with serving(serve, make_server()[0]) as (_, url):
        client = await RawHttp.to(url)
        got = await client.get("", X="x" * 70_000)
        assert got.status in {400, 431}
        await client.aclose()


async def test_host_timeouts_apply() -> None:
    serve = partial(serve_http, timeouts=HostTimeouts(head=0.05))
    async with serving(serve, make_server()[0]) as (_, url):
        client = await RawHttp.to(url)
        assert await client.closed()
        await client.aclose()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ServeHttpOptions(path="mcp"), "must begin with a slash: 'mcp'"),
        (ServeHttpOptions(grace=-1), "grace must be a number of seconds from 0, not -1"),
        (ServeHttpOptions(grace=math.nan), "grace must be a number of seconds from 0, not nan"),
        (ServeHttpOptions(tls_key="key.pem"), "tls_key needs tls_cert"),
    ],
)
async def test_invalid_option_raises(options: ServeHttpOptions, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        await serve_http(make_server()[0], "127.0.0.1:0", **options)


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path, Path, Path]:
    """Return the authority, and three files: the certificate, its key, and both in one."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    folder = tmp_path_factory.mktemp("tls")
    cert, key, both = folder / "cert.pem", folder / "key.pem", folder / "both.pem"
    cert.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return authority, cert, key, both


@BOTH_SERVERS
@pytest.mark.parametrize("in_one", [False, True])
async def test_certificate_serves_https(
    serve: Serve, in_one: bool, certificate: tuple[trustme.CA, Path, Path, Path]
) -> None:
    authority, cert, key, both = certificate
    server, events = make_server()
    events["release"].set()
    options = ServeHttpOptions(tls_cert=both) if in_one else ServeHttpOptions(tls_cert=str(cert), tls_key=key)
    async with serving(serve, server, **options) as (_, url):
        assert url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context()
        authority.configure_trust(context)
        port = int(url.removesuffix("/mcp").rpartition(":")[2])
        stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, https_compatible=True, ssl_context=context)
        client = RawHttp(stream)
        body = call("wait")
        await client.write(head_of(body) + body)
        assert text_of(await client.answer("POST")) == "done"
        await client.aclose()


async def test_alpn_selects_supported_http_version(
    certificate: tuple[trustme.CA, Path, Path, Path],
) -> None:
    authority, _, _, both = certificate
    for serve, selected in ((serve_http, "http/1.1"), (serve_hypercorn, "h2")):
        async with serving(serve, make_server()[0], tls_cert=both) as (_, url):
            context = ssl.create_default_context()
            authority.configure_trust(context)
            context.set_alpn_protocols(["h2", "http/1.1"])
            port = int(url.removesuffix("/mcp").rpartition(":")[2])
            stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, https_compatible=True, ssl_context=context)
            await stream.do_handshake()
            assert stream.selected_alpn_protocol() == selected
            await stream.aclose()


async def test_unusable_certificate_raises_oserror(certificate: tuple[trustme.CA, Path, Path, Path]) -> None:
    _, cert, key, _ = certificate
    with pytest.raises(OSError, match=r"cannot load the certificate from nowhere\.pem: No such file"):
        await serve_http(make_server()[0], "127.0.0.1:0", tls_cert="nowhere.pem")
    with pytest.raises(OSError, match=r"cannot load the certificate from .*key\.pem and .*cert\.pem: "):
        await serve_http(make_server()[0], "127.0.0.1:0", tls_cert=key, tls_key=cert)


# --- the end ---------------------------------------------------------------------------------------------------------


@BOTH_SERVERS
async def test_running_call_completes_before_shutdown(serve: Serve) -> None:
    server, events = make_server()
    async with serving(serve, server) as (scope, url):
        idle = await RawHttp.to(url)
        await idle.get("")
        client = await begin(url)
        await events["running"].wait()
        scope.cancel()
        # Idle connections end immediately, and new ones are refused.
        assert await idle.closed()
        with pytest.raises(OSError, match="connect"):
            await RawHttp.to(url)
        assert not events["cancelled"].is_set()
        events["release"].set()
        answer = await client.answer("POST")
        assert (answer.status, text_of(answer)) == (200, "done")
        assert await client.closed()
        for each in (idle, client):
            await each.aclose()


@BOTH_SERVERS
async def test_running_call_cancelled_after_grace_period(serve: Serve) -> None:
    server, events = make_server()
    async with serving(serve, server, grace=0) as (scope, url):
        client = await begin(url)
        await events["running"].wait()
        scope.cancel()
        await events["cancelled"].wait()
        await client.aclose()


@BOTH_SERVERS
async def test_subscription_stream_ends_with_result_at_shutdown(serve: Serve) -> None:
    server, _ = make_server()
    async with serving(serve, server) as (scope, url):
        client = await RawHttp.to(url.removesuffix("/mcp"))
        body = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await client.write(head_of(body, "", method="subscriptions/listen") + body)
        assert (await client.head("POST")).headers["content-type"] == "text/event-stream"
        received = await client.part()
        scope.cancel()
        while part := await client.part():
            received += part
        assert b'"result"' in received
        await client.aclose()


async def test_hypercorn_graceful_timeout_exceeds_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[hypercorn.Config] = []
    serve = hypercorn.trio.serve

    async def record_config(app: Framework, config: hypercorn.Config, **more: Any) -> None:  # type: ignore[explicit-any]  # noqa: ANN401  # passed on
        configs.append(config)
        await serve(app, config, **more)

    monkeypatch.setattr("hypercorn.trio.serve", record_config)
    async with serving(serve_hypercorn, make_server()[0], grace=77):
        assert configs[0].graceful_timeout > 77
        assert configs[0].backlog >= 1_000


async def test_hypercorn_connection_has_no_request_limit() -> None:
    async with serving(serve_hypercorn, make_server()[0], healthz="/healthz") as (_, url):
        client = await RawHttp.to(url.removesuffix("/mcp"))
        for _ in range(1_100):
            assert (await client.get("/healthz")).status == 200
        await client.aclose()


@BOTH_SERVERS
async def test_objects_of_start_not_examined_by_garbage_collector_until_last_server_stops(serve: Serve) -> None:
    before = gc.get_freeze_count()
    async with serving(serve, make_server()[0]) as (first, _):
        frozen = gc.get_freeze_count()
        assert frozen > before + 10_000
        async with serving(serve, make_server()[0]):
            assert gc.get_freeze_count() > frozen
        assert gc.get_freeze_count() > frozen
        first.cancel()
    # Some versions of Python keep a few objects frozen from their start.
    assert gc.get_freeze_count() <= max(before, 1_000)


@BOTH_SERVERS
async def test_server_served_again_on_same_port(serve: Serve) -> None:
    server, events = make_server()
    events["release"].set()
    port = 0
    for _ in range(2):
        async with serving(serve, server, f"127.0.0.1:{port}") as (_, url):
            client = await begin(url)
            assert text_of(await client.answer("POST")) == "done"
            await client.aclose()
            port = int(url.removesuffix("/mcp").rpartition(":")[2])


async def test_host_failure_raised_without_exception_group(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: HttpHost, listeners: object, *, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        raise ExceptionGroup("nurseries", [ExceptionGroup("of the host", [ZeroDivisionError("broken")])])

    monkeypatch.setattr(HttpHost, "run", fail)
    with pytest.raises(ZeroDivisionError, match="broken"):
        await serve_http(make_server()[0], "127.0.0.1:0")


async def test_host_start_failure_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: HttpHost, listeners: object, *, task_status: trio.TaskStatus[None]) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(HttpHost, "run", fail)
    with pytest.raises(ZeroDivisionError, match="broken"):
        await serve_http(make_server()[0], "127.0.0.1:0")


async def test_keyboard_interrupt_in_host_ends_immediately(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async def interrupted(self: HttpHost, listeners: object, *, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(HttpHost, "run", interrupted)
    start = trio.current_time()
    with pytest.raises(BaseExceptionGroup) as raised:
        await serve_http(make_server()[0], "127.0.0.1:0")
    assert raised.group_contains(KeyboardInterrupt)
    assert trio.current_time() - start == 1


# --- imports ----------------------------------------------------------------------------------------------------------


def test_hypercorn_missing_raises_with_extra_name() -> None:
    program = """
import sys
sys.modules["hypercorn"] = None
import trio
from mcp_server import Server
from mcp_server.runners.hypercorn import serve_hypercorn
trio.run(serve_hypercorn, Server("x", version="1"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    last = done.stderr.splitlines()[-1]
    command = "pip install 'trio-mcp-server[hypercorn]'"
    assert last == f"mcp_core.errors.MissingExtra: hypercorn is not installed; type: {command}"


def test_http_modules_do_not_import_h11_or_hypercorn() -> None:
    program = """
import sys
import mcp_server.runners.http, mcp_server.runners.hypercorn, mcp_server.cli.main
assert not {"h11", "hypercorn"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
