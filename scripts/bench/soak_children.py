"""Start and end many servers at random moments, and prove that nothing of them is left.

    python scripts/bench/soak_children.py --children 1000 --at-once 8

Each is a real server in a process of its own, spoken to by a real client and ended in one of the ways of `PHASES`, at a
random moment. Afterwards no process, no descriptor and no
temporary file may be left. The exit status is 0 when that is so, 1 when it is not. `--seed` repeats a choice of phases
and moments, as far as the scheduling of the system allows.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from mcp_client import Deadlines, Grace, open_stdio
from mcp_core.errors import McpError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_client import Client, Connector

# A real server. A stubborn one does not exit at the end of its input; one that is a parent has a child of its own.
SERVER = """
import os, signal, subprocess, sys

print(os.getpid(), file=sys.stderr, flush=True)

import trio
from mcp_server import Server, serve_stdio

if "parent" in sys.argv:
    subprocess.Popen([sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"])
server = Server("soaked", version="1")

@server.tool
async def echo(text: str) -> str:
    return text

@server.tool
async def hang() -> str:
    await trio.sleep_forever()

trio.run(serve_stdio, server)
while "stubborn" in sys.argv:
    signal.pause()
"""
# Short, so that every step of stopping is reached; a child that is slow to exit is ended by a signal, which is fine here.
GRACE = Grace(close_stdin=0.1, terminate=0.5, kill=10.0)
LATEST_CONNECTING = 0.6
"""Seconds. To start a child and agree with it takes about half of that where several start at once."""
LATEST_TALKING = 0.05
"""Seconds. An exchange takes less than 0.001."""
PATIENCE = 60.0
"""Seconds after which a single child counts as hanging."""


@attrs.define(kw_only=True)
class Life:
    """What is drawn for one child: its environment, how it behaves, and the moment of its end, from 0 to 1."""

    environment: dict[str, str]
    words: tuple[str, ...]
    moment: float
    started: trio.Event = attrs.field(factory=trio.Event)
    pid: int = 0

    def open(self) -> Connector:
        """The child that was drawn, not yet started."""
        command = [sys.executable, "-I", "-c", SERVER, *self.words]
        return open_stdio(
            command,
            env=self.environment,
            grace=GRACE,
            deadlines=Deadlines(connect=PATIENCE / 2),
            on_stderr=self.take_stderr,
        )

    def take_stderr(self, line: str) -> None:
        """The first line is the process id."""
        if not self.started.is_set():
            self.pid = int(line)
            self.started.set()


async def converse(client: Client) -> None:
    """Calls, one that hangs among them, until the connection ends."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, client, "hang")
        while await call(client, "echo", text="hello"):
            pass
        nursery.cancel_scope.cancel()


async def call(client: Client, name: str, **arguments: str) -> bool:
    """One call. False when the connection is over."""
    try:
        await client.call_tool(name, dict(arguments))
    except McpError:
        return False
    return True


async def connect(opening: Connector) -> None:
    """Connect and talk, if nobody is against it."""
    try:
        async with opening as client:
            await converse(client)
    except McpError:
        # It was closed, or killed, before it was connected.
        return


async def kill(life: Life, delay: float) -> None:
    """Kill the child, as somebody else might, so long after it was started."""
    await life.started.wait()
    await trio.sleep(delay)
    # It may have ended by itself.
    with contextlib.suppress(ProcessLookupError):
        os.kill(life.pid, signal.SIGKILL)


async def opening_cancelled(life: Life) -> None:
    """Cancelled while it is started and agreed with."""
    with trio.move_on_after(life.moment * LATEST_CONNECTING):
        await connect(life.open())


async def opening_closed(life: Life) -> None:
    """Closed by another task while it is started and agreed with."""
    opening = life.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect, opening)
        await trio.sleep(life.moment * LATEST_CONNECTING)
        await opening.aclose()


async def opening_killed(life: Life) -> None:
    """Killed by somebody else while it is agreed with."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect, life.open())
        await kill(life, life.moment * LATEST_CONNECTING)


async def conversation_cancelled(life: Life) -> None:
    """Cancelled in the middle of calls."""
    async with life.open() as client:
        with trio.move_on_after(life.moment * LATEST_TALKING):
            await converse(client)


async def conversation_closed(life: Life) -> None:
    """Closed by another task in the middle of calls."""
    async with life.open() as client, trio.open_nursery() as nursery:
        nursery.start_soon(converse, client)
        await trio.sleep(life.moment * LATEST_TALKING)
        await client.aclose()


async def conversation_killed(life: Life) -> None:
    """Killed by somebody else in the middle of calls."""
    async with life.open() as client, trio.open_nursery() as nursery:
        nursery.start_soon(converse, client)
        await kill(life, life.moment * LATEST_TALKING)


async def closing_cancelled(life: Life) -> None:
    """Closed after a call, and cancelled meanwhile."""
    with trio.CancelScope() as scope:
        async with life.open() as client:
            await call(client, "echo", text="hello")
            scope.deadline = trio.current_time() + life.moment * LATEST_TALKING
            await client.aclose()


async def closing_killed(life: Life) -> None:
    """Closed after a call, and killed meanwhile."""
    async with life.open() as client, trio.open_nursery() as nursery:
        await call(client, "echo", text="hello")
        nursery.start_soon(kill, life, life.moment * LATEST_TALKING)
        await client.aclose()


async def finished(life: Life) -> None:
    """Left alone after some calls, and closed."""
    async with life.open() as client:
        for _ in range(5):
            if not await call(client, "echo", text="hello"):
                raise AssertionError("a server that was left alone has ended")


PHASES: dict[str, Callable[[Life], Awaitable[None]]] = {
    phase.__name__: phase
    for phase in (
        opening_cancelled,
        opening_closed,
        opening_killed,
        conversation_cancelled,
        conversation_closed,
        conversation_killed,
        closing_cancelled,
        closing_killed,
        finished,
    )
}
BEHAVIOURS: tuple[tuple[str, ...], ...] = ((), (), (), ("stubborn",), ("parent",), ("stubborn", "parent"))


async def live(life: Life, phase: str) -> None:
    """One child from its start to its end; an error when it hangs."""
    with trio.fail_after(PATIENCE):
        await PHASES[phase](life)


async def soak(
    count: int, at_once: int, chance: random.Random, environment: dict[str, str]
) -> collections.Counter[str]:
    """Run `count` children, and say how often each phase came."""
    lived: collections.Counter[str] = collections.Counter()
    limiter = trio.CapacityLimiter(at_once)

    async def one(phase: str, life: Life) -> None:
        async with limiter:
            await live(life, phase)
        lived[phase] += 1
        if lived.total() % max(1, count // 10) == 0:
            print(f"{lived.total():6} of {count}", flush=True)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            life = Life(environment=environment, words=chance.choice(BEHAVIOURS), moment=chance.random())
            nursery.start_soon(one, chance.choice(sorted(PHASES)), life)
    return lived


def children_left() -> list[str]:
    """Our own children, running or as zombies; waits for none."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return []
    return [f"a child process that {'runs' if pid == 0 else f'was not reaped: {pid}, status {status}'}"]


def marked_left(mark: str) -> list[str]:
    """Processes anywhere on the machine that were started with `mark` in their environment (needs /proc)."""
    left = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # A zombie has no environment any more.
            if mark.encode() in (entry / "environ").read_bytes():
                left.append(f"process {entry.name}: {(entry / 'cmdline').read_bytes().replace(bytes(1), b' ')!r}")
        except OSError:
            continue
    return left


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--children", type=int, default=1000, help="how many are started (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=8, help="how many may live at a time (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="repeats the random choices of an earlier run")
    options = parser.parse_args()
    seed: int = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        mark = f"SOAK_MARK={seed}-{os.getpid()}"
        environment = {"SOAK_MARK": mark.partition("=")[2], "TMPDIR": scratch}
        # For files of our own; the children make none, since one that is killed could not take it away.
        tempfile.tempdir = scratch
        before = set(os.listdir("/dev/fd"))
        # Reproducible choices, nothing secret.
        chance = random.Random(seed)
        lived = trio.run(soak, options.children, options.at_once, chance, environment)
        left = children_left() + marked_left(mark)
        left += [f"descriptor {name}" for name in sorted(set(os.listdir("/dev/fd")) - before)]
        left += [f"temporary file {name}" for name in sorted(os.listdir(scratch))]
    for phase, times in sorted(lived.items()):
        print(f"{times:6} {phase}: {PHASES[phase].__doc__}")
    print(f"{lived.total()} children in {time.monotonic() - began:.1f} s; left: {'nothing' if not left else ''}")
    for thing in left:
        print(f"  {thing}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
