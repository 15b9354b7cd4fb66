"""Hosts of ASGI applications that run on asyncio, in processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

__all__ = ["HOSTS", "SECONDS", "served"]

SECONDS: Final = 40
"""Time after which a test that waits forever fails."""

HOSTS: Final = {
    "uvicorn-asyncio": ["uvicorn", "--port", "0", "--loop", "asyncio"],
    "uvicorn-uvloop": ["uvicorn", "--port", "0", "--loop", "uvloop"],
    "hypercorn": ["hypercorn", "--worker-class", "asyncio", "--bind", "127.0.0.1:0"],
}
"""The command of each host, without the application."""


@asynccontextmanager
async def served(
    folder: Path, host: str, *options: str, app: str, error: str = "", once: str = ""
) -> AsyncIterator[str]:
    """Serve an application during the block. Yield the URL of its root. Then stop it with SIGTERM.

    Its log has a traceback only if there is an expected error.

    Args:
        folder: The folder of the module of the application.
        host: A key of `HOSTS`.
        options: More options of the host.
        app: The application, as `module:name`.
        error: An expected error.
        once: A text that the log has once.
    """
    command = [sys.executable, "-m", *HOSTS[host], app, *options]
    with trio.fail_after(SECONDS):
        process = await trio.lowlevel.open_process(command, stderr=subprocess.PIPE, cwd=folder)
        try:
            assert process.stderr is not None
            log = b""
            while b" to quit)" not in log:
                part = await process.stderr.receive_some()
                assert part, log.decode()
                log += part
            yield log.lower().partition(b"running on ")[2].split()[0].decode()
            process.send_signal(signal.SIGTERM)
            while part := await process.stderr.receive_some():
                log += part
            status = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            if process.stderr is not None:
                await process.stderr.aclose()
    # uvicorn ends itself with the signal again after its shutdown.
    assert status in {0, -signal.SIGTERM}, log.decode()
    assert error in log.decode()
    assert not once or log.decode().count(once) == 1, log.decode()
    assert error or b"Traceback" not in log, log.decode()
