"""Start and stop many servers at random moments, and check that nothing of them is left.

    python scripts/bench/soak_children.py --children 1000 --at-once 8

Each child is a real server process with a real client. It ends in one of the ways of `PHASES`, at a random moment. After
that no process, descriptor or temporary file may be left: the exit status is 0 if so, and 1 otherwise. `--seed` repeats
a choice of phases and moments, as far as the scheduling of the system allows.
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

# A real server. A stubborn server does not exit at the end of its input; a parent has a child process.
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
# Short, so that each step of the shutdown is reached; a child that exits slowly is ended by a signal, which is fine here.
GRACE = Grace(close_stdin=0.1, terminate=0.5, kill=10.0)
LATEST_CONNECTING = 0.6
"""Seconds. Start and handshake of a child take about half of that when several start at once."""
LATEST_TALKING = 0.05
"""Seconds. An exchange takes less than 0.001."""
TIMEOUT = 60.0
"""Seconds after which a child counts as hanging."""


@attrs.define(kw_only=True)
class ChildPlan:
    """The random choices for one child: its environment, its behavior, and the moment of its end, from 0 to 1."""

    environment: dict[str, str]
    words: tuple[str, ...]
    moment: float
    started: trio.Event = attrs.field(factory=trio.Event)
    pid: int = 0

    def open(self) -> Connector:
        """Return the connector of the child, which is not yet started."""
        command = [sys.executable, "-I", "-c", SERVER, *self.words]
        return open_stdio(
            command,
            env=self.environment,
            grace=GRACE,
            deadlines=Deadlines(connect=TIMEOUT / 2),
            on_stderr=self.take_stderr,
        )

    def take_stderr(self, line: str) -> None:
        """Read the first line, which is the process id."""
        if not self.started.is_set():
            self.pid = int(line)
            self.started.set()


async def converse(client: Client) -> None:
    """Make calls, one of which hangs, until the connection ends."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, client, "hang")
        while await call(client, "echo", text="hello"):
            pass
        nursery.cancel_scope.cancel()


async def call(client: Client, name: str, **arguments: str) -> bool:
    """Make a call and return False when the connection has ended."""
    try:
        await client.call_tool(name, dict(arguments))
    except McpError:
        return False
    return True


async def connect(opening: Connector) -> None:
    """Connect and make calls, until another task interferes."""
    try:
        async with opening as client:
            await converse(client)
    except McpError:
        # The client was closed, or the child killed, during the handshake.
        return


async def kill(plan: ChildPlan, delay: float) -> None:
    """Kill the child from outside, after this delay from its start."""
    await plan.started.wait()
    await trio.sleep(delay)
    # The child may have exited already.
    with contextlib.suppress(ProcessLookupError):
        os.kill(plan.pid, signal.SIGKILL)


async def opening_cancelled(plan: ChildPlan) -> None:
    """Cancel during start and handshake."""
    with trio.move_on_after(plan.moment * LATEST_CONNECTING):
        await connect(plan.open())


async def opening_closed(plan: ChildPlan) -> None:
    """Close from another task during start and handshake."""
    opening = plan.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect, opening)
        await trio.sleep(plan.moment * LATEST_CONNECTING)
        await opening.aclose()


async def opening_killed(plan: ChildPlan) -> None:
    """Kill the child during the handshake."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect, plan.open())
        await kill(plan, plan.moment * LATEST_CONNECTING)


async def conversation_cancelled(plan: ChildPlan) -> None:
    """Cancel in the middle of calls."""
    async with plan.open() as client:
        with trio.move_on_after(plan.moment * LATEST_TALKING):
            await converse(client)


async def conversation_closed(plan: ChildPlan) -> None:
    """Close from another task in the middle of calls."""
    async with plan.open() as client, trio.open_nursery() as nursery:
        nursery.start_soon(converse, client)
        await trio.sleep(plan.moment * LATEST_TALKING)
        await client.aclose()


async def conversation_killed(plan: ChildPlan) -> None:
    """Kill the child in the middle of calls."""
    async with plan.open() as client, trio.open_nursery() as nursery:
        nursery.start_soon(converse, client)
        await kill(plan, plan.moment * LATEST_TALKING)


async def closing_cancelled(plan: ChildPlan) -> None:
    """Close after a call, and cancel meanwhile."""
    with trio.CancelScope() as scope:
        async with plan.open() as client:
            await call(client, "echo", text="hello")
            scope.deadline = trio.current_time() + plan.moment * LATEST_TALKING
            await client.aclose()


async def closing_killed(plan: ChildPlan) -> None:
    """Close after a call, and kill meanwhile."""
    async with plan.open() as client, trio.open_nursery() as nursery:
        await call(client, "echo", text="hello")
        nursery.start_soon(kill, plan, plan.moment * LATEST_TALKING)
        await client.aclose()


async def finished(plan: ChildPlan) -> None:
    """Let the child finish some calls, and close."""
    async with plan.open() as client:
        for _ in range(5):
            if not await call(client, "echo", text="hello"):
                raise AssertionError("a server ended without a reason")


PHASES: dict[str, Callable[[ChildPlan], Awaitable[None]]] = {
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
BEHAVIORS: tuple[tuple[str, ...], ...] = ((), (), (), ("stubborn",), ("parent",), ("stubborn", "parent"))


async def live(plan: ChildPlan, phase: str) -> None:
    """Run a child from its start to its end; raise an error when it hangs."""
    with trio.fail_after(TIMEOUT):
        await PHASES[phase](plan)


async def soak(
    count: int, at_once: int, chance: random.Random, environment: dict[str, str]
) -> collections.Counter[str]:
    """Run `count` children, and return the number of each phase."""
    lived: collections.Counter[str] = collections.Counter()
    limiter = trio.CapacityLimiter(at_once)

    async def one(phase: str, plan: ChildPlan) -> None:
        async with limiter:
            await live(plan, phase)
        lived[phase] += 1
        if lived.total() % max(1, count // 10) == 0:
            print(f"{lived.total():6} of {count}", flush=True)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            plan = ChildPlan(environment=environment, words=chance.choice(BEHAVIORS), moment=chance.random())
            nursery.start_soon(one, chance.choice(sorted(PHASES)), plan)
    return lived


def children_left() -> list[str]:
    """Return the children of this process, running or zombies, without waiting."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return []
    return [f"a child process that {'runs' if pid == 0 else f'was not reaped: {pid}, status {status}'}"]


def marked_left(mark: str) -> list[str]:
    """Return processes of the machine that were started with `mark` in their environment (needs /proc)."""
    left = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # A zombie has no environment.
            if mark.encode() in (entry / "environ").read_bytes():
                left.append(f"process {entry.name}: {(entry / 'cmdline').read_bytes().replace(bytes(1), b' ')!r}")
        except OSError:
            continue
    return left


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--children", type=int, default=1000, help="number of children (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=8, help="number of concurrent children (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="repeats the random choices of an earlier run")
    options = parser.parse_args()
    seed: int = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        mark = f"SOAK_MARK={seed}-{os.getpid()}"
        environment = {"SOAK_MARK": mark.partition("=")[2], "TMPDIR": scratch}
        # For temporary files of this process; the children create none, since a killed child could not remove it.
        tempfile.tempdir = scratch
        before = set(os.listdir("/dev/fd"))
        # Reproducible choices, not secrets.
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
