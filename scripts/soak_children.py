"""Start and end many child processes at random moments, and prove that nothing of them is left.

    python scripts/soak_children.py --children 1000 --at-once 8

Each child is ended in one of the ways of `PHASES`, at a random moment. Afterwards no process, no descriptor and no
temporary file may be left. The exit status is 0 when that is so, 1 when it is not. `--seed` repeats a choice of phases
and moments, as far as the scheduling of the system allows.
"""

from __future__ import annotations

import argparse
import collections
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

from mcp_client._command import Grace, StdioParameters
from mcp_client._process import ChildProcess
from mcp_core.errors import ConnectionEnded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# Echoes lines. A stubborn one does not exit at the end of its stdin; half of those have a grandchild.
CHILD = """
import signal, subprocess, sys
stubborn, parent = "stubborn" in sys.argv, "parent" in sys.argv
if parent:
    subprocess.Popen([sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"])
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
while stubborn:
    signal.pause()
"""
# Short, so that every step of stopping is reached; a child that is slow to exit is ended by a signal, which is fine here.
GRACE = Grace(close_stdin=0.1, terminate=0.5, kill=10.0)
LATEST_MOMENT = 0.06
"""Seconds. Starting the interpreter of a child takes about 0.02, so that the moments fall before, in and after that."""
PATIENCE = 60.0
"""Seconds after which a single child counts as hanging."""


@attrs.define
class Target:
    """What is soaked: one started child. The only place that knows how one is opened and spoken to."""

    child: ChildProcess

    @classmethod
    async def open(cls, nursery: trio.Nursery, environment: dict[str, str], *words: str) -> Target:
        """Start a child; `words` say how it behaves."""
        command = [sys.executable, "-I", "-S", "-c", CHILD, *words]
        parameters = StdioParameters(command=command, env=environment, grace=GRACE)
        return cls(await ChildProcess.open(parameters, nursery))

    async def exchange(self) -> None:
        """One request and its answer."""
        await self.child.send_all(b"hello\n")
        received = b""
        while not received.endswith(b"\n"):
            data = await self.child.receive_some()
            if not data:
                raise await self.child.why_ended()
            received += data

    async def converse(self) -> None:
        """Exchange until the connection ends."""
        try:
            while True:
                await self.exchange()
        except ConnectionEnded:
            return


@attrs.frozen(kw_only=True)
class Life:
    """What is drawn for one child: its environment, how it behaves, and the moment of its end in seconds."""

    environment: dict[str, str]
    words: tuple[str, ...]
    moment: float

    async def open(self, nursery: trio.Nursery) -> Target:
        """Start the child that was drawn."""
        return await Target.open(nursery, self.environment, *self.words)


async def opening_cancelled(life: Life, nursery: trio.Nursery) -> None:
    """Cancelled while it is started, or soon after."""
    # The start itself takes about a millisecond; most moments have to fall in there.
    nursery.cancel_scope.deadline = trio.current_time() + life.moment / 20
    await life.open(nursery)
    await trio.sleep_forever()


async def closed_at_once(life: Life, nursery: trio.Nursery) -> None:
    """Closed as soon as it is started."""
    await (await life.open(nursery)).child.aclose()


async def conversation_cancelled(life: Life, nursery: trio.Nursery) -> None:
    """Cancelled in the middle of a conversation, or before it could begin."""
    target = await life.open(nursery)
    nursery.cancel_scope.deadline = trio.current_time() + life.moment
    await target.converse()


async def conversation_closed(life: Life, nursery: trio.Nursery) -> None:
    """Closed by another task in the middle of a conversation."""
    target = await life.open(nursery)
    nursery.start_soon(target.converse)
    await trio.sleep(life.moment)
    await target.child.aclose()


async def closing_cancelled(life: Life, nursery: trio.Nursery) -> None:
    """Closed after an exchange, and cancelled meanwhile."""
    target = await life.open(nursery)
    await target.exchange()
    nursery.cancel_scope.deadline = trio.current_time() + life.moment
    await target.child.aclose()


async def killed(life: Life, nursery: trio.Nursery) -> None:
    """Killed by somebody else in the middle of a conversation."""
    target = await life.open(nursery)
    nursery.start_soon(target.converse)
    await trio.sleep(life.moment)
    os.kill(target.child.pid, signal.SIGKILL)
    await target.child.aclose()


async def finished(life: Life, nursery: trio.Nursery) -> None:
    """Left alone after some exchanges, and closed."""
    target = await life.open(nursery)
    for _ in range(5):
        await target.exchange()
    await target.child.aclose()


PHASES: dict[str, Callable[[Life, trio.Nursery], Awaitable[None]]] = {
    phase.__name__: phase
    for phase in (
        opening_cancelled,
        closed_at_once,
        conversation_cancelled,
        conversation_closed,
        closing_cancelled,
        killed,
        finished,
    )
}
BEHAVIOURS: tuple[tuple[str, ...], ...] = ((), (), (), ("stubborn",), ("parent",), ("stubborn", "parent"))


async def live(life: Life, phase: str) -> None:
    """One child from its start to its end; an error when it hangs."""
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            await PHASES[phase](life, nursery)


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
            life = Life(
                environment=environment, words=chance.choice(BEHAVIOURS), moment=chance.uniform(0, LATEST_MOMENT)
            )
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
