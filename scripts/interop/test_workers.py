"""The project's own suite against four workers behind a load balancer: to a client, they are one server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.deployment import everything

SECONDS: Final = 600
"""Time after which a run that waits forever fails."""


def test_suite_passes_on_four_workers(tmp_path: Path) -> None:
    deployment = everything(tmp_path)
    with deployment.running():
        suite = Path(sys.executable).with_name("mcp-conformance")
        sse = f"{deployment.url.removesuffix('/mcp')}/sse"
        done = subprocess.run(
            [str(suite), "server", "--url", deployment.url, "--sse-url", sse, "--allow-untested"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "http-sse" in done.stdout
