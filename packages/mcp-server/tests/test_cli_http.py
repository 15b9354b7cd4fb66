"""The command line over HTTP: its options, their error messages, and how it stops."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import trio
import trustme
from command_process import RESET_SIGINT, TIMEOUT, running, wait_until_refused

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_server import Server
from mcp_server.cli import http
from mcp_server.cli.main import main
from mcp_server.cli.options import add_options

SOURCE = """
import sys
import trio
from mcp_server import Server

server = Server("sample", version="1")

@server.tool
async def wait() -> str:
    print("running", file=sys.stderr, flush=True)
    await trio.sleep(SECONDS)
    return "done"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sample_server.py").write_text(SOURCE.replace("SECONDS", "0.3"))
    (tmp_path / "slow_server.py").write_text(SOURCE.replace("SECONDS", "1_000"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_objects_of_start_not_examined_by_garbage_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
import gc
from mcp_server import Server

server = Server("sample", version="1")

@server.tool
async def wait() -> str:
    return f"{gc.get_freeze_count()} {len(gc.get_objects())}"
"""
    (tmp_path / "frozen_server.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    with running("frozen_server") as server, server.post() as client:
        out, _ = client.communicate(timeout=TIMEOUT)
    frozen, examined = map(int, json.loads(out)["result"]["content"][0]["text"].split())
    assert frozen > 10_000
    assert examined < frozen // 2


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_stops_server_after_running_call(folder: Path, number: signal.Signals, status: int) -> None:
    with running("sample_server") as server, server.post() as client:
        assert server.line() == "running\n"
        server.process.send_signal(number)
        out, _ = client.communicate(timeout=TIMEOUT)
        assert json.loads(out)["result"]["content"] == [{"type": "text", "text": "done"}]
        assert server.process.wait(TIMEOUT) == status
        assert server.line() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes descriptors")
def test_server_runs_without_stdout(folder: Path) -> None:
    shell = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "mcp_server"]
    with running("sample_server", command=shell) as server, server.post() as client:
        out, _ = client.communicate(timeout=TIMEOUT)
        assert "done" in out


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_second_signal_ends_server_immediately(folder: Path, number: signal.Signals, status: int) -> None:
    with running("slow_server") as server, server.post() as client:
        assert server.line() == "running\n"
        server.process.send_signal(number)
        wait_until_refused(server.url)
        server.process.send_signal(number)
        assert server.process.wait(TIMEOUT) == status
        client.kill()


def test_combined_options_accepted(folder: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    (folder / "cert.pem").write_bytes(issued.cert_chain_pems[0].bytes())
    (folder / "key.pem").write_bytes(issued.private_key_pem.bytes())
    words = "--path /here --tls-cert cert.pem --tls-key key.pem --store kept.sqlite --legacy-sse --healthz"
    with running("sample_server", *words.split(), "--allowed-host", "127.0.0.1") as server:
        assert server.url.startswith("https://")
        assert server.url.endswith("/here")
        import ssl

        context = ssl.create_default_context()
        authority.configure_trust(context)
        healthy = server.url.replace("/here", "/healthz")
        with urllib.request.urlopen(healthy, context=context, timeout=TIMEOUT) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.url.replace("/here", "/mcp"), context=context, timeout=TIMEOUT)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(TIMEOUT) == 0
    assert (folder / "kept.sqlite").stat().st_size > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--allowed-host a --allow-any-host --http h:1", "--allowed-host and --allow-any-host cannot be used together"),
        ("--tls-key k --http h:1", "--tls-key needs --tls-cert"),
        ("--healthz", "--healthz needs --http HOST:PORT"),
        ("--allowed-host a", "--allowed-host needs --http HOST:PORT"),
        ("--path /x", "--path needs --http HOST:PORT"),
    ],
)
def test_conflicting_options_exit_with_usage_error(
    folder: Path, words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "sample_server", *words.split()])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--http 8000", "'8000' is not an address to bind to: write HOST:PORT"),
        ("--http 127.0.0.1:x", "'x' is not a port"),
        ("--http 0.0.0.0:0", "allowed host names are not set: give --allowed-host NAME"),
        ("--http 192.0.2.1:0", "cannot listen at 192.0.2.1:0: "),
        ("--http 127.0.0.1:0 --tls-cert nowhere.pem", "cannot load the certificate from nowhere.pem: No such file"),
        ("--http 127.0.0.1:0 --path x", "must begin with a slash: 'x'"),
        ("--http 127.0.0.1:0 --allowed-host=", "allowed_hosts: '' is not a host"),
        ("--http 127.0.0.1:0 --store sample_server.py", "sample_server.py"),
    ],
)
def test_unusable_option_reported_on_stderr(
    folder: Path, words: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "sample_server", *words.split()]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("mcp-server: ")
    assert message in line


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {}),
        ("--allow-any-host", {"policy": EndpointPolicy(allowed_hosts=None)}),
        ("--allowed-host a --allowed-host b:1", {"allowed_hosts": ["a", "b:1"]}),
        ("--healthz --legacy-sse", {"healthz": "/healthz", "legacy_sse": True}),
        ("--readyz", {"readyz": "/readyz"}),
        ("--path /x --tls-cert c --tls-key k", {"path": "/x", "tls_cert": "c", "tls_key": "k"}),
    ],
)
async def test_options_passed_to_serve_http(
    monkeypatch: pytest.MonkeyPatch, words: str, expected: dict[str, object]
) -> None:
    got: list[object] = []

    async def serve(server: Server, bind: str, *, task_status: object, **options: object) -> None:
        got.extend([bind, options])

    monkeypatch.setattr(http, "serve_http", serve)
    parser = argparse.ArgumentParser()
    add_options(parser, http.OPTIONS)
    given = parser.parse_args(["--http", "h:1", *words.split()])
    assert http.problem(given) is None
    await http.serve(Server("x", version="1"), given)
    plain: dict[str, object] = {
        "path": "/mcp",
        "healthz": None,
        "readyz": None,
        "legacy_sse": False,
        "tls_cert": None,
        "tls_key": None,
        "store": None,
        "cluster": None,
        "observers": [],
    }
    assert got == ["h:1", {**plain, **expected}]


@pytest.mark.parametrize("error", [OSError(5, "the disk is gone"), ValueError("unexpected")])
def test_failure_while_serving_is_logged(
    folder: Path, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def serve(
        server: Server, bind: str, *, task_status: trio.TaskStatus[tuple[str, ...]], **options: object
    ) -> None:
        task_status.started(("http://h:1/mcp",))
        raise error

    monkeypatch.setattr(http, "serve_http", serve)
    assert main(["run", "sample_server", "--http", "h:1"]) == 1
    assert "server failed" in caplog.text


def test_signal_handlers_restored_after_serving(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(server: Server, bind: str, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    monkeypatch.setattr(http, "serve_http", serve)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert main(["run", "sample_server", "--http", "h:1"]) == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
@pytest.mark.parametrize("command", ["run", "inspect"])
def test_interrupt_while_file_loads_returns_130(tmp_path: Path, command: str) -> None:
    file = tmp_path / "slow.py"
    file.write_text("import signal, sys\nprint('loading', file=sys.stderr, flush=True)\nsignal.pause()\n")
    whole = [sys.executable, "-m", "mcp_server", command, str(file)]
    with subprocess.Popen(
        whole, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=RESET_SIGINT
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
    assert process.returncode == 130
