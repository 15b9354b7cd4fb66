"""Processes under test."""

from __future__ import annotations

import os
import sys

import pytest

from mcp_conformance.wire.process import run_process

_MORE_THAN_ONE_READ = """
import fcntl, os
fcntl.fcntl(2, fcntl.F_SETPIPE_SZ, 1 << 20)
os.write(2, bytes(300_000) + b"the end")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pipes of another capacity")
async def test_process_that_exits_before_its_output_is_read_leaves_whole_log() -> None:
    async with run_process([sys.executable, "-c", _MORE_THAN_ONE_READ]) as process:
        # Blocks the event loop, so that nothing is read before the exit.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.stderr_bytes == 300_007
    assert process.log.endswith("the end")
