"""Observers of the requests of an endpoint: the access log, metrics and OpenTelemetry."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import trio
import trio.testing
from http_hosts import HOSTS, RawHttp, served
from prometheus_client import CollectorRegistry
from worker_testbed import COMMAND, META, TIMEOUT, Load, RawConnection, supervised, write_server

from mcp_client import open_http
from mcp_conformance.drivers.server.targets import free_port
from mcp_core.errors import RequestFailed
from mcp_core.http.messages import HttpRequest
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_server import Server
from mcp_server.cli.observability import JsonFormatter
from mcp_server.observation import AccessLog, RequestRecord
from mcp_server.prometheus import PrometheusMetrics


class Observer:
    """An observer that keeps the records."""

    def __init__(self) -> None:
        self.begun = 0
        self.records: list[RequestRecord] = []

    def began(self, record: RequestRecord) -> None:
        assert record.status is None
        self.begun += 1

    def ended(self, record: RequestRecord) -> None:
        self.records.append(record)

    def seen(self) -> list[tuple[str | None, str | None, bool, int | None]]:
        return [(each.method, each.name, each.is_registered, each.status) for each in self.records]


async def principal(request: HttpRequest) -> str:
    return "ada"


def make_server() -> Server:
    server = Server("s", version="1")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.resource("data://one")
    async def one() -> str:
        return "one"

    return server


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
@pytest.mark.parametrize("kind", HOSTS)
async def test_requests_are_recorded_on_each_host(kind: str, revision: Revision) -> None:
    observer = Observer()
    app = make_server().asgi(observers=[observer], authenticate=principal, healthz="/healthz")
    async with served(app, kind) as url:
        async with open_http(f"{url}/mcp", revisions=[revision]) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.read_resource("data://one")
            with pytest.raises(RequestFailed):
                await client.call_tool("invented", {})
        raw = await RawHttp.to(url)
        await raw.get("/healthz")
        assert (await raw.get("/elsewhere")).status == 404
        await raw.stream.aclose()
    seen = observer.seen()
    assert ("tools/call", "add", True, 200) in seen
    assert ("resources/read", "data://one", True, 200) in seen
    assert any(each[:3] == ("tools/call", "invented", False) for each in seen)
    assert (None, None, False, 404) in seen
    assert not any(each.path.endswith("/healthz") for each in observer.records)
    call = next(each for each in observer.records if each.name == "add")
    assert (call.principal, call.http_method) == ("ada", "POST")
    assert call.size > 50
    assert call.seconds > 0
    assert observer.begun == len(seen)


async def test_stream_is_recorded_at_its_end_with_all_bytes() -> None:
    observer = Observer()
    server = make_server()
    async with served(server.asgi(observers=[observer]), "embedded") as url:
        async with (
            open_http(f"{url}/mcp", revisions=[R2026_07_28]) as client,
            client.listen(uris=["data://one"]) as changes,
        ):
            server.resource_updated("data://one")
            await anext(aiter(changes))
        while "subscriptions/listen" not in {each.method for each in observer.records}:
            await trio.lowlevel.checkpoint()
    (listened,) = [each for each in observer.records if each.method == "subscriptions/listen"]
    # The acknowledgment, and the notification that is written without the task of the request.
    assert listened.size > 300
    assert listened.is_registered


async def test_failing_observer_does_not_fail_request(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Observer):
        def ended(self, record: RequestRecord) -> None:
            raise LookupError("a fault of the author")

    async with (
        served(make_server().asgi(observers=[Failing()]), "embedded") as url,
        open_http(f"{url}/mcp", revisions=[R2026_07_28]) as client,
    ):
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
    assert "observer failed" in caplog.text


# --- the access log ---------------------------------------------------------------------------------------------------


def line_of(record: RequestRecord, format: str, caplog: pytest.LogCaptureFixture) -> str:
    caplog.set_level(logging.INFO, "mcp_server.access")
    AccessLog(format).ended(record)  # type: ignore[arg-type]  # one of the two
    return caplog.messages[-1]


def record_of(**members: object) -> RequestRecord:
    return RequestRecord(began_at=1_800_000_000.5, http_method="POST", path="/mcp", **members)  # type: ignore[arg-type]


def test_line_has_time_and_values(caplog: pytest.LogCaptureFixture) -> None:
    record = record_of(principal="ada", method="tools/call", name="add", status=200, seconds=0.01234, size=99)
    line = "2027-01-15T08:00:00.500Z principal=ada method=tools/call name=add status=200 ms=12.3 bytes=99"
    assert line_of(record, "text", caplog) == line
    assert json.loads(line_of(record, "json", caplog)) == {
        "time": "2027-01-15T08:00:00.500Z",
        "principal": "ada",
        "method": "tools/call",
        "name": "add",
        "status": 200,
        "ms": 12.3,
        "bytes": 99,
    }


def test_client_cannot_add_values_or_lines(caplog: pytest.LogCaptureFixture) -> None:
    record = record_of(method="x\nstatus=200", name="a status=200", principal="\x1b[2J" + "y" * 10_000)
    line = line_of(record, "text", caplog)
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 1_000
    assert re.findall(r"(?<= )\w+(?==)", re.sub(r'"(?:\\.|[^"\\])*"', '""', line)) == [
        "principal",
        "method",
        "name",
        "status",
        "ms",
        "bytes",
    ]
    assert "\n" not in line_of(record, "json", caplog)


def test_request_without_message_has_http_method(caplog: pytest.LogCaptureFixture) -> None:
    assert " principal=- method=POST name=- status=- " in line_of(record_of(), "text", caplog)


def test_unknown_format_is_rejected() -> None:
    with pytest.raises(ValueError, match="'text' or 'json', not 'xml'"):
        AccessLog("xml")  # type: ignore[arg-type]


def test_log_in_json_has_exception() -> None:
    try:
        raise LookupError("lost")
    except LookupError:
        record = logging.LogRecord("mcp_server", logging.ERROR, "x", 1, "it %s\nfailed", ("all",), sys.exc_info())
    values = json.loads(JsonFormatter().format(record))
    assert (values["level"], values["logger"], values["message"]) == ("error", "mcp_server", "it all\nfailed")
    assert "LookupError: lost" in values["exception"]


# --- metrics ----------------------------------------------------------------------------------------------------------


async def test_metrics_have_bounded_labels() -> None:
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry=registry)
    app = metrics.combine(make_server().asgi(observers=[metrics]))
    async with served(app, "embedded") as url:
        raw = await RawHttp.to(url)
        for method, name in (("tools/call", "add"), ("tools/call", "x1"), ("resources/read", "data://one"), ("y1", "")):
            params = {"name": name, "uri": name, "arguments": {"a": 1, "b": 2}, "_meta": META}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
            headers = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
            headers |= {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method} | (
                {"Mcp_Name": name} if name else {}
            )
            await raw.exchange("POST", "/mcp", body, **headers)
        await raw.get("/other/path")
        page = await raw.get("/metrics")
        await raw.stream.aclose()
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/plain")
    text = page.body.decode()
    assert 'mcp_server_requests_total{method="tools/call",name="add",status="200"} 1.0' in text
    assert 'mcp_server_request_duration_seconds_count{method="tools/call",name="add"} 1.0' in text
    assert 'mcp_server_requests_total{method="resources/read",name="",status="200"} 1.0' in text
    assert 'mcp_server_requests_total{method="(none)",name="",status="404"} 1.0' in text
    assert "mcp_server_requests_in_progress 0.0" in text
    labels = set(re.findall(r'method="([^"]*)",name="([^"]*)"', text))
    assert labels == {("tools/call", "add"), ("(other)", ""), ("resources/read", ""), ("(none)", "")}


def test_path_of_metrics_begins_with_slash() -> None:
    with pytest.raises(ValueError, match="must begin with a slash: 'metrics'"):
        PrometheusMetrics("metrics", registry=CollectorRegistry())


def count_of(page: str) -> float:
    found = re.search(r'mcp_server_requests_total\{method="tools/call",name="pid",status="200"\} (\S+)', page)
    return float(found[1]) if found else 0.0


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
        return str(response.read().decode())


def test_metrics_are_sums_of_all_workers(tmp_path: Path) -> None:
    write_server(tmp_path)
    with supervised(tmp_path, "--metrics", "/metrics") as supervisor:
        with Load(supervisor.address) as load:
            pids = load.wait_for(2)
        made = sum(load.calls.values())
        # The last response is counted after it was sent.
        while count_of(page := get(f"http://{supervisor.address}/metrics")) < made:
            pass
        assert count_of(page) == made
        # A replaced worker continues the counts.
        supervisor.process.send_signal(signal.SIGHUP)
        with Load(supervisor.address) as load:
            load.wait_for(2, without=pids)
        made += sum(load.calls.values())
        while count_of(page := get(f"http://{supervisor.address}/metrics")) < made:
            pass
        assert count_of(page) == made
        assert 'pid="' not in page


def test_metrics_at_their_own_address(tmp_path: Path) -> None:
    write_server(tmp_path)
    port = free_port()
    with supervised(tmp_path, "--metrics", f"127.0.0.1:{port}") as supervisor:
        connection = RawConnection(supervisor.address)
        connection.call("pid")
        assert connection.status_of("/metrics") == 404
        connection.close()
        while count_of(get(f"http://127.0.0.1:{port}/metrics")) < 1:
            pass
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(f"http://127.0.0.1:{port}/mcp")


# --- the command ------------------------------------------------------------------------------------------------------


class Collector(BaseHTTPRequestHandler):
    """A collector of OpenTelemetry over HTTP."""

    received: ClassVar[list[tuple[str, bytes]]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        type(self).received.append((self.path, body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None: ...


@pytest.fixture
def collector() -> Iterator[type[Collector]]:
    class Own(Collector):
        received: ClassVar = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Own
        del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
        server.shutdown()
        thread.join()


def test_command_writes_access_log_and_reports_spans(tmp_path: Path, collector: type[Collector]) -> None:
    write_server(tmp_path)
    options = ("sample_server.py", "--http", "127.0.0.1:0", "--access-log", "json", "--telemetry", "--log-json")
    with subprocess.Popen(
        [*COMMAND, *options], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        found = re.search(r"http://([^/]+)/", process.stderr.readline())
        assert found
        connection = RawConnection(found[1])
        connection.call("pid")
        connection.close()
        line = json.loads(process.stdout.readline())
        assert (line["method"], line["name"], line["status"]) == ("tools/call", "pid", 200)
        process.terminate()
        assert process.wait(TIMEOUT) == 0
    spans = [body for path, body in collector.received if path == "/v1/traces"]
    assert any(b"tools/call pid" in body and b"sample" in body for body in spans)
    assert {path for path, _ in collector.received} == {"/v1/traces", "/v1/metrics"}
