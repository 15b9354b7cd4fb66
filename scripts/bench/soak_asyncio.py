"""Cancel, disconnect and shut down under load, on asyncio: a server under uvicorn, and clients in asyncio tasks.

    python scripts/bench/soak_asyncio.py --runs 100       start and stop a server a hundred times, on both loops
    python scripts/bench/soak_asyncio.py --minutes 10     one server for ten minutes, to look for growth

Clients of two revisions, in asyncio tasks of this process, call tools, cancel calls by `asyncio.timeout` and `Task.cancel`, leave
while a call runs, listen, and answer forms; raw clients close their connections in the middle of a call. Functions of the
server count their starts and ends, and return the context variable that belongs to the request.

A run ends with SIGTERM while all clients are busy. It fails if a call has a wrong result or none, a function does not end, the
server does not exit in time or without its lifespan, or its log has a traceback or a warning. A soak prints the figures of server
and client at rest, each minute, and fails if memory grew by more than 16 MiB, or descriptors or tasks by more than 2,
since the end of the first minute. The exit status is 0 on success. Needs Linux, for /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import gc
import itertools
import json
import os
import random
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import attrs

SCRIPTS: Final = Path(__file__).resolve().parents[1]
# The folders of scripts import each other.
sys.path.insert(0, str(SCRIPTS))
from bench.attacks.measure import usage
from bench.programs.asyncio_server import CALLER
from mcp_client.asyncio import Client, ElicitationAccepted, Handlers, McpError, ToolFailed, open_http
from mcp_core.revisions import LATEST, LATEST_LEGACY, Revision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.jsonrpc.messages import JsonObject

_LOOPS: Final = ("asyncio", "uvloop")
_COPIES: Final = 2
"""Clients of each kind and revision."""
_LONGEST_LOAD: Final = 1.0
"""Seconds of load before a signal, at most."""
_GRACEFUL_SECONDS: Final = 1
_STUCK_SECONDS: Final = 30.0
"""Seconds after which a client or a server counts as stuck."""
_PAUSE: Final = 0.05
"""Seconds between two looks into the log of a server that starts."""
_MINUTE: Final = 60.0
_MORE_MIB: Final = 16.0
_MORE_DESCRIPTORS_OR_TASKS: Final = 2.0
_BAD: Final = (b"Traceback", b"Warning", b"never awaited", b"never retrieved", b"Task was destroyed")
"""Texts that must not be in the log of the server."""

_EXPECTED: Final = (
    (b"tool 'fail' failed: ", b"ValueError: on purpose\n"),
    (b"Exception in ASGI application\n", b"CancelledError: Task cancelled, timeout graceful shutdown exceeded\n"),
)
"""How tracebacks begin and end that must be there."""


class Wrong(Exception):
    """A client, or the server, did not do what it should."""


@attrs.frozen
class Name:
    """The answer to the form."""

    name: str


async def elicit(_: object) -> ElicitationAccepted[Name]:
    """Answer the form."""
    await asyncio.sleep(0)
    return ElicitationAccepted(Name("Ada"))


@attrs.define(eq=False)
class Load:
    """The clients of a server."""

    root: str
    chance: random.Random
    counts: collections.Counter[str] = attrs.field(factory=collections.Counter)
    """What the clients did, by kind."""
    pausing: bool = False
    """Whether the clients leave: at rest, and at the end."""
    stopping: bool = False
    """Whether the server may close connections."""
    stopped: asyncio.Event = attrs.field(factory=asyncio.Event)
    """Set when the server has stopped."""

    def open(self, revision: Revision, name: str) -> contextlib.AbstractAsyncContextManager[Client]:
        """Connect a client."""
        return open_http(
            f"{self.root}/mcp", revisions=[revision], handlers=Handlers(elicit=elicit), headers={CALLER: name}
        )

    async def run(self) -> None:
        """Run all clients until `pausing`. Raise `Wrong` if one of them fails."""
        async with asyncio.TaskGroup() as group:
            for number, (kind, revision) in enumerate(
                itertools.product((call, cancel, leave, listen), (LATEST, LATEST_LEGACY) * _COPIES)
            ):
                group.create_task(self._keep(kind, revision, f"{kind.__name__} {revision} {number}"))
            group.create_task(self._keep_disconnecting())

    async def _keep(
        self, kind: Callable[[Load, Revision, str], Awaitable[None]], revision: Revision, name: str
    ) -> None:
        while not self.pausing:
            try:
                async with asyncio.timeout(_STUCK_SECONDS):
                    await kind(self, revision, name)
            except TimeoutError as error:
                raise Wrong(f"{name}: no outcome") from error
            except (McpError, ConnectionError) as error:
                if not self.stopping:
                    raise Wrong(f"{name}: {error!r}") from error
            self.counts[kind.__name__] += 1

    async def _keep_disconnecting(self) -> None:
        while not self.pausing:
            try:
                await disconnect(self.root)
            except (OSError, asyncio.IncompleteReadError):
                if not self.stopping:
                    raise
            self.counts["disconnect"] += 1


async def call(load: Load, revision: Revision, name: str) -> None:
    """Call each tool that returns."""

    async def show(at: float, total: float | None, message: str | None) -> None:  # noqa: ARG001  # as for `on_progress`
        await asyncio.sleep(0)

    async with load.open(revision, name) as client:
        for _ in range(5):
            texts = await asyncio.gather(
                *(client.call_tool("echo", {"text": str(number)}) for number in range(8)),
                client.call_tool("caller"),
                client.call_tool("steps", on_progress=show),
                client.call_tool("greet"),
                client.call_tool("give_up"),
            )
            expected = [*map(str, range(8)), name, "done", "Hello Ada", "gave up"]
            if [each.text for each in texts] != expected:
                raise Wrong(f"{name}: {[each.text for each in texts]}")
            with contextlib.suppress(ToolFailed):
                await client.call_tool("fail")
                raise Wrong(f"{name}: the tool did not fail")
            if load.pausing:
                return


async def cancel(load: Load, revision: Revision, name: str) -> None:
    """Cancel calls, in both ways that asyncio has."""
    async with load.open(revision, name) as client:
        for _ in range(5):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(load.chance.uniform(0, 0.03)):
                    await client.call_tool("wait")
                    raise Wrong(f"{name}: the call was not cancelled")
            waiting = asyncio.create_task(client.call_tool("wait"))
            await asyncio.sleep(load.chance.uniform(0, 0.03))
            waiting.cancel()
            await asyncio.wait([waiting])
            if not waiting.cancelled():
                waiting.result()
                raise Wrong(f"{name}: the task was not cancelled")
            if (await client.call_tool("caller")).text != name:
                raise Wrong(f"{name}: another context variable")
            if load.pausing:
                return


async def leave(load: Load, revision: Revision, name: str) -> None:
    """Leave while calls run, and while others have not begun."""
    async with load.open(revision, name) as client:
        waiting = [asyncio.create_task(client.call_tool("wait")) for _ in range(3)]
        await asyncio.sleep(load.chance.uniform(0, 0.02))
    done, _ = await asyncio.wait(waiting, timeout=_STUCK_SECONDS)
    if len(done) < len(waiting):
        raise Wrong(f"{name}: a call has no outcome after its connection was closed")
    for each in done:
        if not isinstance(each.exception(), McpError):
            raise Wrong(f"{name}: {each!r}")


async def listen(load: Load, revision: Revision, name: str) -> None:
    """Listen to a resource until it changes, or until the server has stopped: a legacy client waits for its return."""
    async with load.open(revision, name) as client, client.listen(uris=["soak://item"]) as changes:
        await client.call_tool("change")

        async def changed() -> bool:
            async for change in changes:
                if change.uri == "soak://item":
                    return True
            return False

        tasks = [asyncio.create_task(changed()), asyncio.create_task(load.stopped.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if not (load.stopping or tasks[0].result()):
            raise Wrong(f"{name}: the subscription ended")


async def disconnect(root: str) -> None:
    """Send a call, and close the connection when its stream has begun."""
    host, _, port = root.removeprefix("http://").rpartition(":")
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": LATEST.name,
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    }
    params: JsonObject = {"name": "wait", "arguments": {}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: {host}:{port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {LATEST.name}",
        "Mcp-Method: tools/call",
        "Mcp-Name: wait",
        f"Content-Length: {len(body)}",
    ]
    async with asyncio.timeout(_STUCK_SECONDS):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write("\r\n".join([*lines, "", body]).encode())
            await reader.readuntil(b"notifications/progress")
        finally:
            writer.close()


@attrs.define(eq=False)
class Host:
    """uvicorn in a process."""

    process: asyncio.subprocess.Process
    file: IO[bytes]
    """The log. A pipe that is not read would stop the server when it is full."""
    root: str = ""

    @property
    def log(self) -> bytes:
        """The log so far."""
        self.file.seek(0)
        return self.file.read()

    @classmethod
    async def start(cls, loop: str) -> Host:
        """Start it and wait until it listens."""
        options = ["--port", "0", "--loop", loop, "--no-access-log", "--app-dir", str(SCRIPTS)]
        graceful = ["--timeout-graceful-shutdown", str(_GRACEFUL_SECONDS)]
        command = [sys.executable, "-m", "uvicorn", "bench.programs.asyncio_server:app", *options, *graceful]
        file = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the host
        host = cls(await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=file), file)
        async with asyncio.timeout(_STUCK_SECONDS):
            while b" to quit)" not in host.log:
                if host.process.returncode is not None:
                    raise Wrong(f"uvicorn ended: {host.log.decode()}")
                await asyncio.sleep(_PAUSE)
        host.root = host.log.lower().partition(b"running on ")[2].split()[0].decode()
        return host

    async def stop(self) -> JsonObject:
        """Send SIGTERM and wait for the end. Return the counts of the server."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> JsonObject:
        """Wait until the process has ended, and check how. Return the counts of the server."""
        try:
            async with asyncio.timeout(_STUCK_SECONDS):
                output, _ = await self.process.communicate()
        except TimeoutError as error:
            raise Wrong("uvicorn did not end") from error
        # uvicorn ends itself with the signal again after its shutdown.
        if self.process.returncode not in {0, -signal.SIGTERM}:
            raise Wrong(f"uvicorn ended with status {self.process.returncode}: {self.log.decode()}")
        if found := [text for text in _BAD if text in _without_purpose(self.log)]:
            raise Wrong(f"{found[0].decode()} in the log: {_without_purpose(self.log)[-20_000:].decode()}")
        if not output.strip():
            raise Wrong(f"the lifespan did not end: {self.log.decode()}")
        counts: JsonObject = json.loads(output.splitlines()[-1])
        if counts["started"] != counts["ended"]:
            raise Wrong(f"functions did not end before the lifespan: {counts}")
        return counts

    def close(self) -> None:
        """Kill the process if it runs."""
        if self.process.returncode is None:
            self.process.kill()
        self.file.close()


def _without_purpose(log: bytes) -> bytes:
    """Return the log without the tracebacks of the tool that fails on purpose, and of the requests that uvicorn cancels."""
    for begin, end in _EXPECTED:
        first, *others = log.split(begin)
        log = first + b"".join(each.partition(end)[2] for each in others)
    return log


async def run_once(loop: str, chance: random.Random) -> collections.Counter[str]:
    """Start a server, load it, and stop it at a random moment. Return what the clients did. Raise `Wrong` on a failure."""
    host = await Host.start(loop)
    try:
        load = Load(host.root, chance)
        clients = asyncio.create_task(load.run())
        await asyncio.wait([clients], timeout=chance.uniform(0, _LONGEST_LOAD))
        load.pausing = load.stopping = True
        counts = await host.stop()
        load.stopped.set()
        await asyncio.wait([clients], timeout=2 * _STUCK_SECONDS)
        if not clients.done():
            clients.cancel()
            raise Wrong("the clients did not end after the server")
        clients.result()
        load.counts["cancelled on the server"] = int(str(counts["cancelled"]))
        return load.counts
    finally:
        host.close()


async def run_often(runs: int, seed: int) -> int:
    """Run `run_once` often. Return the exit status."""
    total: collections.Counter[str] = collections.Counter()
    failed = 0
    for number in range(runs):
        loop = _LOOPS[number % len(_LOOPS)]
        try:
            total += await run_once(loop, random.Random(seed + number))
        except* Wrong as errors:
            failed += 1
            print(f"\nrun {number + 1} on {loop} failed: {errors.exceptions}", flush=True)
        print(f"\r{number + 1} of {runs} runs, {failed} failed", end="", flush=True)
    print(f"\n{dict(total)}\n{'FAIL' if failed else 'PASS'}", flush=True)
    return int(failed > 0)


async def _own_figures() -> dict[str, float]:
    """Return the figures of this process."""
    gc.collect()
    now = usage(os.getpid())
    tasks = len(asyncio.all_tasks())
    return {"MiB": round(now.rss_mib, 1), "descriptors": now.descriptors, "asyncio tasks": tasks}


async def soak(loop: str, minutes: int, seed: int) -> int:
    """Load one server for some minutes, and print the figures of each. Return the exit status."""
    host = await Host.start(loop)
    rows: list[dict[str, float]] = []
    try:
        load = Load(host.root, random.Random(seed))
        for minute in range(minutes + 1):
            rows.append(await at_rest(load))
            print(f"{minute:>3} min  {rows[-1]}  {load.counts.total()} client runs", flush=True)
            if minute < minutes:
                load.pausing = False
                clients = asyncio.create_task(load.run())
                await asyncio.wait([clients], timeout=_MINUTE)
                load.pausing = True
                await clients
        print(f"{dict(load.counts)} {await host.stop()}", flush=True)
    except BaseException:
        print(_without_purpose(host.log).decode(), file=sys.stderr)
        raise
    finally:
        host.close()
    grown = growth(rows[min(1, len(rows) - 1)], rows[-1])
    print("\n".join(grown) if grown else "PASS", flush=True)
    return int(bool(grown))


async def at_rest(load: Load) -> dict[str, float]:
    """Return the figures of server and client without load."""
    async with load.open(LATEST, "figures") as client:
        async with asyncio.timeout(_STUCK_SECONDS):
            while True:
                found = (await client.call_tool("figures", returns=dict[str, float])).data
                if not found["calls that wait"]:
                    break
                await asyncio.sleep(0)
        own = await _own_figures()
    return {f"server {name}": value for name, value in found.items()} | {
        f"client {name}": value for name, value in own.items()
    }


def growth(first: dict[str, float], last: dict[str, float]) -> list[str]:
    """Return a line for each figure that grew too much."""
    return [
        f"FAIL: {name} grew from {first[name]:g} to {value:g}"
        for name, value in last.items()
        if value - first[name] > (_MORE_MIB if "MiB" in name else _MORE_DESCRIPTORS_OR_TASKS)
    ]


def main() -> int:
    """Run the command and return the exit status."""
    lead, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=lead)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--runs", type=int, metavar="N", help="start and stop a server N times")
    what.add_argument("--minutes", type=int, metavar="M", help="load one server for M minutes")
    parser.add_argument("--loop", choices=_LOOPS, default="uvloop", help="the loop of a soak (%(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="repeats the choices of an earlier run")
    given = parser.parse_args()
    seed: int = random.SystemRandom().randrange(2**32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    return asyncio.run(run_often(given.runs, seed) if given.minutes is None else soak(given.loop, given.minutes, seed))


if __name__ == "__main__":
    sys.exit(main())
