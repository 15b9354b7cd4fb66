"""Bare trio that does the input and output of a client over stdio, with a number of calls in flight."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial

import trio

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}\n'


async def main(calls: int, at_once: int, command: list[str]) -> None:
    """Make the calls, and print CPU microseconds and wall microseconds per call."""
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = await nursery.start(run)
        sending, receiving = process.stdin, process.stdout

        async def all_of(number: int) -> None:
            waiting, capacity = number, at_once
            while waiting or capacity < at_once:
                if some := min(waiting, capacity):
                    await sending.send_all(CALL * some)
                    waiting, capacity = waiting - some, capacity - some
                capacity += (await receiving.receive_some()).count(b"\n")

        await all_of(50)
        cpu, wall = time.process_time(), time.perf_counter()
        await all_of(calls)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        await sending.aclose()
    print(json.dumps({"cpu": cpu / calls * 1e6, "wall": wall / calls * 1e6}))


# The first argument is the revision, which makes no difference.
trio.run(main, int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
