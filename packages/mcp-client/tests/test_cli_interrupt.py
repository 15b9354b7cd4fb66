"""Ctrl+C at the command `mcp-client`: status 130 without a traceback, and no process of the server remains."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")

SOURCE: Final = """
import sys
import trio
from mcp_server import Server, serve_stdio

server = Server("waiting", version="1")

@server.tool
async def wait() -> str:
    print("in the call", file=sys.stderr, flush=True)
    await trio.sleep_forever()

trio.run(serve_stdio, server)
"""

SILENT: Final = """
import sys
sys.stderr.write("started\\n")
sys.stderr.flush()
sys.stdin.read()
"""

PHASES: Final = {
    "connecting": (SILENT, ["probe"], "started"),
    "calling": (SOURCE, ["call", "wait"], "in the call"),
    "listening": (SOURCE, ["listen", "--tools"], "Listening"),
}
"""A server, a command, and the text on stderr that shows that the phase has begun."""

TIMEOUT_SECONDS: Final = 60


@pytest.mark.parametrize("phase", list(PHASES))
def test_interrupt_returns_130_without_traceback(tmp_path: Path, phase: str) -> None:
    source, words, text = PHASES[phase]
    file = tmp_path / "server.py"
    file.write_text(source)
    command = [sys.executable, "-m", "mcp_client", *words, "--stderr", "show", "--", sys.executable, str(file)]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        while text not in (line := process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        # The server has the same stderr, so that the read ends when both processes have ended.
        assert "Traceback" not in process.stderr.read()
        assert process.wait(TIMEOUT_SECONDS) == 130
