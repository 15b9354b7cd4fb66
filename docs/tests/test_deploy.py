"""The deployment examples: proxies in front of a server, unit files, and what the container files run.

The proxies are those of Debian (`scripts/install_proxies`), as processes of the user who runs the tests, with free ports
in place of those in the examples.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from mcp_client import open_http
from mcp_conformance.drivers.server.targets import free_port
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_server.cli import http
from mcp_server.cli.options import CommandOption, read_config

_BUFFER_WITH_SIZE = (2, 6, 3)
"""The version of Caddy in which the option that buffers requests was renamed."""
DEPLOY = Path(__file__).resolve().parents[1] / "examples" / "deploy"
TIMEOUT = 60

SERVER = """
import trio
from mcp_server import Context, Server

server = Server("behind", version="1")
released = trio.Event()
ended = trio.Event()

@server.tool
async def endless(*, context: Context) -> None:
    try:
        await context.progress(1, 2, "begun")
        await trio.sleep_forever()
    finally:
        ended.set()

@server.tool
async def wait_for_end() -> str:
    await ended.wait()
    return "ended"

@server.tool
async def wait(*, context: Context) -> str:
    await context.progress(1, 2, "waiting")
    await released.wait()
    return "released"

@server.tool
async def release() -> None:
    released.set()

@server.resource("data://one")
async def one() -> str:
    return "one"

@server.tool
async def change() -> None:
    server.resource_updated("data://one")
"""


def with_ports(name: str, folder: Path, upstream: str, port: int) -> Path:
    """Copy an example with other ports."""
    text = (DEPLOY / name).read_text()
    assert "127.0.0.1:8000" in text
    text = text.replace("127.0.0.1:8000", upstream).replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    text = text.replace("\nmcp.example {", f"\nhttp://127.0.0.1:{port} {{")
    path = folder / name
    path.write_text(text)
    return path


def nginx(folder: Path, upstream: str, port: int) -> list[str]:
    site = with_ports("nginx.conf", folder, upstream, port)
    temporary = "".join(
        f"{name}_temp_path {folder};\n" for name in ("proxy", "fastcgi", "uwsgi", "scgi", "client_body")
    )
    main = folder / "main.conf"
    main.write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}include {site};\n}}\n"
    )
    return ["nginx", "-p", str(folder), "-c", str(main), "-e", "stderr"]


def haproxy(folder: Path, upstream: str, port: int) -> list[str]:
    return ["haproxy", "-db", "-f", str(with_ports("haproxy.cfg", folder, upstream, port))]


def caddy(folder: Path, upstream: str, port: int) -> list[str]:
    path = with_ports("Caddyfile", folder, upstream, port)
    text = path.read_text()
    version = subprocess.run([installed("caddy"), "version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, re.findall(r"\d+", version)[:3])) < _BUFFER_WITH_SIZE:
        text = re.sub("request_buffers .*", "buffer_requests", text)
    path.write_text("{\n\tadmin off\n\tauto_https off\n}\n" + text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(path)]


PROXIES = {"nginx": nginx, "haproxy": haproxy, "caddy": caddy}
PASS_ON_ENDS = {"nginx", "caddy"}
"""The proxies that close the stream to the server when the client has closed its own. HAProxy notices with the next event."""


def installed(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, f"{name} is missing: run scripts/install_proxies"
    return found


@contextmanager
def behind(name: str, folder: Path) -> Iterator[str]:
    """Run a server with a proxy in front; yield the URL of the proxy."""
    (folder / "behind.py").write_text(SERVER)
    port = free_port()
    words = ["run", "behind.py", "--http", "127.0.0.1:0", "--healthz", "--readyz", "--metrics", "/metrics"]
    words += ["--allowed-host", f"127.0.0.1:{port}"]
    server = subprocess.Popen(
        [sys.executable, "-m", "mcp_server", *words], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    with server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            found = re.search(r"http://(127\.0\.0\.1:\d+)/", line)
            assert found, line
            program, *arguments = PROXIES[name](folder, found[1], port)
            log = (folder / "log").open("w")
            environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
            with (
                log,
                subprocess.Popen([installed(program), *arguments], stderr=log, stdout=log, env=environment) as proxy,
            ):
                try:
                    wait_until_ready(f"http://127.0.0.1:{port}/readyz", proxy, folder / "log")
                    yield f"http://127.0.0.1:{port}"
                finally:
                    # Caddy would wait for idle connections.
                    proxy.kill()
        finally:
            server.kill()


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a proxy forwards requests. A proxy has no other sign of it than a response."""
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        try:
            if status_of(url) == 200:
                return
        except OSError:
            continue
    pytest.fail(f"the proxy does not forward requests: {log.read_text()}")


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
@pytest.mark.parametrize("name", PROXIES)
async def test_proxy_forwards_calls_streams_and_cancellation_at_once(
    name: str, revision: Revision, tmp_path: Path
) -> None:
    with behind(name, tmp_path) as url, trio.fail_after(TIMEOUT):
        async with (
            open_http(f"{url}/mcp", revisions=[revision]) as client,
            open_http(f"{url}/mcp", revisions=[revision]) as other,
        ):
            progressed = trio.Event()
            results: list[str] = []

            async def wait() -> None:
                result = await client.call_tool("wait", on_progress=lambda *_: progressed.set())
                results.append(result.text)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                # A proxy that buffers would deliver it with the result, which needs the call of the other client.
                await progressed.wait()
                await other.call_tool("release")
            assert "released" in results[0]
            begun = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(client.call_tool, "endless", on_progress=lambda *_: begun.set()))
                await begun.wait()
                nursery.cancel_scope.cancel()
            if name in PASS_ON_ENDS:
                # A proxy that keeps the stream to the server open would hide that it is closed.
                assert (await other.call_tool("wait_for_end")).text == "ended"
            async with client.listen(uris=["data://one"]) as changes:
                for _ in range(3):
                    await other.call_tool("change")
                    await anext(aiter(changes))
        assert await trio.to_thread.run_sync(status_of, f"{url}/metrics") in {403, 404}


def test_configuration_file_has_only_known_options() -> None:
    target = CommandOption(name="target", metavar="TARGET", help="")
    values = read_config(DEPLOY / "server.toml", (target, *http.OPTIONS))
    assert values["target"] == "/srv/mcp/weather.py:server"
    assert values["workers"] == 4


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_units_are_valid(tmp_path: Path) -> None:
    for name in ("mcp-server.service", "mcp-server.socket"):
        text = (DEPLOY / name).read_text().replace("/opt/mcp-server/bin/mcp-server", sys.executable)
        (tmp_path / name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", *(str(each) for each in sorted(tmp_path.glob("mcp-*")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    # It also lists faults of other units of the machine.
    assert [line for line in (done.stdout + done.stderr).splitlines() if "mcp-server" in line] == []


def arguments_of(text: str, instruction: str) -> list[str]:
    """Return the arguments of an instruction of a Dockerfile in its JSON form."""
    found = re.search(rf"{instruction} (?:.*\\\n\s+CMD )?(\[.*\])$", text, re.MULTILINE)
    assert found, instruction
    values: list[str] = json.loads(found[1])
    return values


def test_command_of_image_serves_and_is_healthy(tmp_path: Path) -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    shutil.copy(DEPLOY / "weather.py", tmp_path)
    port = free_port()
    address = "0.0.0.0:8000", f"127.0.0.1:{port}"
    start = [each.replace(*address) for each in [*arguments_of(text, "ENTRYPOINT")[1:], *arguments_of(text, "CMD")]]
    check = arguments_of(text, "HEALTHCHECK")
    assert check[:2] == ["/opt/mcp-server/bin/python", "-c"]
    program = check[2].replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    assert subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL, check=False).returncode != 0
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_server", *start], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        assert "weather is served at" in server.stderr.readline()
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
        server.terminate()
        assert server.wait(TIMEOUT) == 0


def test_compose_file_has_three_servers_of_known_options() -> None:
    import yaml

    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert services["mcp"]["deploy"]["replicas"] == 3
    assert {"mcp", "redis", "nginx"} == set(services)
    known = {f"--{option.name}" for option in http.OPTIONS}
    assert {word for word in services["mcp"]["command"] if word.startswith("--")} <= known
