"""Four workers of one server behind nginx, with a Redis that they share, on addresses of this machine.

    python scripts/bench/deployment.py            serve the everything server, print its URL, and wait for a signal

nginx knows nothing of sessions: it sends each request to the next worker. Redis writes each change to its file before it
responds. Both have to be installed (`scripts/install_redis`, `scripts/install_proxies`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.drivers.server.targets import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["WORKERS", "Deployment", "everything"]

WORKERS: Final = 4
"""The number of workers."""

_NGINX: Final = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log crit;
events {{ worker_connections 1024; }}
http {{
    log_format outcome '$msec $request_time $request_method $status $http_mcp_session_id $http_user_agent';
    access_log {folder}/access.log outcome;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream workers {{
        {servers}
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            client_max_body_size 0;
            client_body_buffer_size 8m;
            proxy_pass_header X-Accel-Buffering;
            proxy_pass http://workers;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 300s;
        }}
    }}
}}
"""


@attrs.define
class Deployment:
    """Four workers that share a Redis, behind nginx. nginx sends each request to the next worker."""

    folder: Path
    """The folder for data, settings and logs."""
    program: Path
    """The Python file with the server."""
    options: tuple[str, ...] = ()
    """More options of `mcp-server run`."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    """Environment variables of the workers, in addition to those of this process."""
    port: int = attrs.field(factory=free_port)
    redis_port: int = attrs.field(factory=free_port)
    ports: tuple[int, ...] = attrs.field(factory=lambda: tuple([free_port() for _ in range(WORKERS)]))
    workers: dict[int, subprocess.Popen[bytes]] = attrs.field(factory=dict)
    others: dict[str, subprocess.Popen[bytes]] = attrs.field(factory=dict)

    @property
    def url(self) -> str:
        """The URL of the endpoint behind the load balancer."""
        return f"http://localhost:{self.port}/mcp"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run all programs during the block."""
        try:
            self.start_redis()
            for port in self.ports:
                self.start_worker(port)
            self.start_nginx()
            self.wait_ready()
            yield
        finally:
            self.stop()

    def wait_ready(self) -> None:
        """Wait until all workers respond. Raise `SystemExit` if a program ends, or after 90 seconds."""
        deadline = time.monotonic() + 90
        for port in self.ports:
            while not _is_ready(port):
                if time.monotonic() > deadline:
                    sys.exit(f"the worker at port {port} is not ready after 90 s; the logs are in {self.folder}")
                time.sleep(0.1)

    def start_redis(self) -> None:
        """Start Redis, which writes each change to its file before it responds."""
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.redis_port), "--dir", str(self.folder)]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        self.others["redis"] = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def start_worker(self, port: int) -> None:
        """Start the worker of a port."""
        command = [
            sys.executable,
            "-m",
            "mcp_server",
            "run",
            str(self.program),
            "--http",
            f"127.0.0.1:{port}",
            "--readyz",
        ]
        command += ["--cluster", f"redis://127.0.0.1:{self.redis_port}/0", "--log-level", "error"]
        command += self.options
        with (self.folder / f"worker-{port}.log").open("ab") as log:
            self.workers[port] = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **self.environment}
            )

    def start_nginx(self) -> None:
        """Start the load balancer."""
        servers = "\n        ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in self.ports)
        path = self.folder / "nginx.conf"
        path.write_text(_NGINX.format(folder=self.folder, servers=servers, port=self.port))
        self.others["nginx"] = subprocess.Popen(["nginx", "-p", str(self.folder), "-c", str(path)])

    def break_connections(self) -> None:
        """Kill the process of nginx that has the connections. nginx starts another."""
        pid = self.others["nginx"].pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)

    def stop(self) -> None:
        """End all programs."""
        programs = [*self.workers.values(), *self.others.values()]
        for program in programs:
            program.terminate()
        for program in programs:
            try:
                program.wait(15)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


def everything(folder: Path) -> Deployment:
    """Return the deployment of the server with every feature."""
    root = Path(__file__).resolve().parents[2]
    return Deployment(
        folder,
        root / "scripts" / "bench" / "programs" / "everything_workers.py",
        options=("--legacy-sse",),
        environment={"PYTHONPATH": str(root / "conformance" / "fixtures"), "EVERYTHING_FOLDER": str(folder)},
    )


def _is_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def main() -> None:
    """Serve until a signal."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as name, suppress(KeyboardInterrupt):
        deployment = everything(Path(name))
        with deployment.running():
            print(f"Serving at {deployment.url}", flush=True)
            signal.pause()


if __name__ == "__main__":
    main()
