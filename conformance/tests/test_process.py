"""Processes under test."""

from __future__ import annotations

import sys

from mcp_conformance.wire.process import run_process

_LAST_WORDS = """
import sys
sys.stdin.read()
for number in range(1000):
    print(f"line {number}", file=sys.stderr, flush=True)
print("done", flush=True)
"""


async def test_process_that_writes_while_it_ends_is_read_to_the_end() -> None:
    async with run_process([sys.executable, "-c", _LAST_WORDS]) as process:
        pass
    assert process.status == 0
    assert process.log.endswith("line 999\n")
    assert await process.receive() == b"done"
