"""Kill workers of a cluster while clients use it, and count what they lose.

    python scripts/bench/kill_workers.py                 ten minutes
    python scripts/bench/kill_workers.py --seconds 60    one minute
    python scripts/bench/kill_workers.py --peers         also with the official SDKs for Python and TypeScript

Four workers serve one server behind nginx, which sends each request to the next worker. They share a Redis that writes each
change to its file. Every five seconds one worker gets SIGKILL and is started again. Between two kills the process of nginx
that has all connections is killed, so that clients resume the streams of workers that live. In the middle Redis is restarted.
Clients of both eras call tools, answer elicitations, receive progress, listen to changes and run tasks meanwhile.

Requests may fail, because a killed worker loses its running handlers. The exit status is 1 if anything else happened:

    hung        a request without an outcome
    session     a session was unknown before its client ended it: nginx logged the status 404 for a session id
    twice       an effect guarded by `Context.once` happened more than once for one request or task
    missing     an effect did not happen, although its request succeeded
    progress    progress of one request was repeated, out of order, or missing although the request succeeded
    change      a listener was not notified after a change
    task        a task did not complete, or with another result

It needs redis-server and nginx, and uses only addresses of this machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.deployment import Deployment
from mcp_client import Client, ElicitationAccepted, Handlers, open_http
from mcp_core.errors import McpError
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from mcp_client import ToolResult

_HANG_SECONDS: Final = 60.0
"""Seconds after which a request without an outcome counts as hung."""
_UNSTORED_SECONDS: Final = 0.5
"""Seconds between an effect and the kill of its worker within which the result may not have been stored."""
_CHANGE_SECONDS: Final = 15.0
"""Seconds in which each listener must be notified of a change."""
_COUNT: Final = 20
_REVISIONS: Final = (R2025_11_25, R2026_07_28)
_SCRIPTS: Final = Path(__file__).resolve().parents[1]
_PROGRAM: Final = Path(__file__).parent / "programs" / "cluster_server.py"


@attrs.define
class Counts:
    """The outcomes of the requests, and the violations."""

    succeeded: Counter[str] = attrs.field(factory=Counter)
    failed: Counter[str] = attrs.field(factory=Counter)
    reasons: Counter[str] = attrs.field(factory=Counter)
    violations: Counter[str] = attrs.field(factory=Counter)
    paid: dict[str, bool] = attrs.field(factory=dict)
    """Whether each payment succeeded, by id."""
    worked: set[str] = attrs.field(factory=set)
    """The tasks that completed."""
    silent: Counter[str] = attrs.field(factory=Counter)
    """The requests that an SDK ended by a timeout: it does not notice that a connection broke."""
    killed: dict[int, float] = attrs.field(factory=dict)
    """The time of each kill, by process id."""
    repeated: int = 0
    """The effects that happened again because a worker was killed before it had stored that they happened."""
    over: trio.Event = attrs.field(factory=trio.Event)
    """Set at the end of the test."""

    @property
    def is_over(self) -> bool:
        """Whether the test is over: clients finish their requests."""
        return self.over.is_set()

    def violate(self, kind: str, what: str) -> None:
        """Count and print a violation."""
        self.violations[kind] += 1
        print(f"VIOLATION {kind}: {what}", flush=True)

    def explain(self, error: McpError) -> None:
        """Count the reason of a failure."""
        reason = f"{type(error).__name__}: {error}".partition(" (method")[0]
        self.reasons[reason.partition(" (peer")[0][:110]] += 1

    async def attempt(self, kind: str, call: Callable[[], Awaitable[object]]) -> bool:
        """Send a request, count its outcome, and return whether it succeeded."""
        with trio.move_on_after(_HANG_SECONDS):
            try:
                await call()
            except McpError as error:
                self.failed[kind] += 1
                self.explain(error)
                await trio.sleep(0.05)
                return False
            self.succeeded[kind] += 1
            return True
        self.violate("hung", f"{kind} after {_HANG_SECONDS:g} s")
        return False


def leaves(group: BaseExceptionGroup[McpError]) -> Iterator[McpError]:
    """Yield the exceptions of a group."""
    for error in group.exceptions:
        if isinstance(error, McpError):
            yield error
        else:
            yield from leaves(error)


async def accept(_: object) -> ElicitationAccepted[dict[str, object]]:
    """Answer each elicitation."""
    return ElicitationAccepted({"value": True})


# --- clients -----------------------------------------------------------------------------------------------------------


async def echoing(client: Client, revision: Revision, counts: Counts) -> None:
    """Call a tool again and again, in one session."""
    while not counts.is_over:
        await counts.attempt(f"echo {revision}", partial(client.call_tool, "echo", {"text": "x"}))
        await trio.sleep(0.01)


async def paying(client: Client, revision: Revision, counts: Counts) -> None:
    """Call a tool that has an effect guarded by `once` and asks the user."""
    number = 0
    while not counts.is_over:
        number += 1
        id = f"payment-{revision}-{number}"
        counts.paid[id] = False
        counts.paid[id] = await counts.attempt(f"pay {revision}", partial(client.call_tool, "pay", {"id": id}))


async def counting(client: Client, revision: Revision, counts: Counts) -> None:
    """Receive progress, each number once and in order."""
    while not counts.is_over:
        seen: list[float] = []
        if (
            await counts.attempt(
                f"count {revision}",
                partial(
                    client.call_tool,
                    "count",
                    {"to": _COUNT},
                    on_progress=lambda progress, total, message, seen=seen: seen.append(progress),  # noqa: ARG005
                ),
            )
            and len(seen) < _COUNT
        ):
            counts.violate("progress", f"{revision}: incomplete: {seen}")
        if seen != sorted(set(seen)):
            counts.violate("progress", f"{revision}: {seen}")


async def working(client: Client, revision: Revision, counts: Counts) -> None:
    """Run tasks one after the other."""
    number = 0
    while not counts.is_over:
        number += 1
        id = f"work-{revision}-{number}"
        handles = []

        async def start(id: str = id) -> None:
            handles.append(await client.start_task("work", {"id": id, "seconds": 1.5}))  # noqa: B023

        if not await counts.attempt(f"start task {revision}", start):
            continue
        (handle,) = handles
        results: list[ToolResult[object]] = []
        with trio.move_on_after(_HANG_SECONDS):
            while not results:

                async def wait() -> None:
                    results.append(await handle.wait())  # noqa: B023

                # The state of the task is kept. A request that asks for it can fail.
                await counts.attempt(f"wait for task {revision}", wait)
        if not results:
            counts.violate("task", f"{id} did not complete in {_HANG_SECONDS:g} s")
        elif results[0].text == id:
            counts.worked.add(id)
        else:
            counts.violate("task", f"{id} returned {results[0].text!r}")


@attrs.define
class Changes:
    """The changes that were made, and what each listener knows."""

    path: Path
    """The file that contains the version of the resource."""
    known: dict[str, int] = attrs.field(factory=dict)

    @property
    def version(self) -> int:
        """The version that a client would read now."""
        return int(self.path.read_text() or 0)


async def listening(client: Client, revision: Revision, counts: Counts, changes: Changes, name: str) -> None:
    """Listen to changes, and listen again when the stream ends."""
    while not counts.is_over:
        try:
            async with client.listen(uris=["test://version"]) as updates:
                # What changed before the stream began is not notified.
                changes.known[name] = changes.version
                async for _ in updates:
                    changes.known[name] = changes.version
        except McpError as error:
            counts.failed[f"listen {revision}"] += 1
            counts.explain(error)
        changes.known.pop(name, None)
        await trio.sleep(0.1)


async def changing(client: Client, counts: Counts, changes: Changes) -> None:
    """Make changes, and check that each listener is notified."""
    version = 0
    while not counts.is_over:
        listeners = list(changes.known)
        version += 1
        if not await counts.attempt("change", partial(client.call_tool, "change", {"version": version})):
            continue
        with trio.move_on_after(_CHANGE_SECONDS):
            # No event: each listener has a state of its own.
            while any(changes.known.get(name, version) < version for name in listeners):  # noqa: ASYNC110
                await trio.sleep(0.02)
            counts.succeeded["change notified"] += 1
            await trio.sleep(0.3)
            continue
        late = [name for name in listeners if changes.known.get(name, version) < version]
        counts.violate("change", f"version {version} not notified to {', '.join(late)}")


# --- other SDKs ---------------------------------------------------------------------------------------------------------


async def calling(command: Sequence[str], name: str, counts: Counts) -> None:
    """Run a program that calls tools, and count the outcomes that it reports."""
    environment = {**os.environ, "PYTHONPATH": str(_SCRIPTS)}
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment}
    async with trio.open_nursery() as nursery:
        program: trio.Process = await nursery.start(partial(trio.run_process, list(command), check=False, **options))
        nursery.start_soon(_end, program, counts)
        assert program.stdout is not None
        rest = b""
        async for data in program.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                _count(json.loads(line), name, counts)
        if not counts.is_over:
            counts.violate("hung", f"{name} ended with status {program.returncode}")


async def _end(program: trio.Process, counts: Counts) -> None:
    await counts.over.wait()
    assert program.stdin is not None
    await program.stdin.aclose()


def _count(outcome: dict[str, str | None], name: str, counts: Counts) -> None:
    kind, failure, id = f"{outcome['tool']} {name}", outcome["failure"], outcome["id"]
    if failure is None:
        counts.succeeded[kind] += 1
    elif "timed out" in failure.lower() or "timeout" in failure.lower():
        counts.silent[kind] += 1
    else:
        counts.failed[kind] += 1
        counts.reasons[f"{name}: {failure}"[:110]] += 1
    if id is not None:
        counts.paid[id] = failure is None


# --- faults ------------------------------------------------------------------------------------------------------------


async def killing(deployment: Deployment, counts: Counts, seconds: float, interval: float) -> None:
    """Kill a worker in each interval, and restart Redis in the middle."""
    began = trio.current_time()
    restarted = False
    while trio.current_time() < began + seconds:
        await trio.sleep(interval / 2)
        port = random.choice(deployment.ports)
        worker = deployment.workers[port]
        counts.killed[worker.pid] = time.monotonic()
        worker.send_signal(signal.SIGKILL)
        await trio.to_thread.run_sync(worker.wait)
        deployment.start_worker(port)
        await trio.sleep(interval / 2)
        deployment.break_connections()
        print(f"{trio.current_time() - began:6.0f} s  {sum(counts.succeeded.values())} succeeded,", end=" ")
        print(f"{sum(counts.failed.values())} failed, {len(counts.killed)} kills", flush=True)
        if not restarted and trio.current_time() > began + seconds / 2:
            restarted = True
            redis = deployment.others["redis"]
            redis.terminate()
            await trio.to_thread.run_sync(redis.wait)
            deployment.start_redis()
            print("         Redis restarted", flush=True)
    counts.over.set()


def peers() -> dict[str, Sequence[str]]:
    """Install the official SDKs. Return the command of each client; its last word is the mode, which follows the URL."""
    from interop.peers.run import NODE, PLACE, prepare  # lazy: needed only with --peers

    prepare({"python-2", "typescript-2"})
    python = (str(PLACE / "python-2" / "bin" / "python"), "-m", "interop.peers.programs.steady_python")
    node = (str(NODE / "node_modules" / ".bin" / "node"), str(NODE / "steady_typescript.mjs"))
    return {
        f"{name} {mode}": (*command, mode)
        for name, command in (("Python SDK", python), ("TypeScript SDK", node))
        for mode in ("legacy", "2026-07-28")
    }


async def main(seconds: float, interval: float, programs: Mapping[str, Sequence[str]]) -> int:
    """Run the test, and return the exit status.

    Args:
        seconds: The duration.
        interval: The time between two kills, in seconds.
        programs: The commands of clients on other SDKs, by name.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, counts = Path(name), Counts()
        for file in ("version", "payments", "works"):
            (folder / file).touch()
        deployment = Deployment(folder, _PROGRAM, environment={"KILL_TEST_FOLDER": name})
        with deployment.running():
            await _run(deployment, counts, seconds, interval, programs)
        check_effects(deployment.folder, counts)
        statuses = check_log(deployment.folder / "access.log", counts)
    _print(counts)
    print("statuses:", ", ".join(f"{status}: {times}" for status, times in sorted(statuses.items())))
    return 1 if counts.violations else 0


async def _run(
    deployment: Deployment, counts: Counts, seconds: float, interval: float, programs: Mapping[str, Sequence[str]]
) -> None:
    changes = Changes(deployment.folder / "version")

    async def client(revision: Revision, use: Callable[[Client], Awaitable[None]]) -> None:
        while not counts.is_over:
            try:
                async with open_http(deployment.url, revisions=[revision], handlers=Handlers(elicit=accept)) as opened:
                    await use(opened)
            except* McpError as group:
                counts.failed[f"open {revision}"] += 1
                for error in leaves(group):
                    counts.explain(error)
                await trio.sleep(0.1)

    async with trio.open_nursery() as nursery, trio.open_nursery() as background:
        for revision in _REVISIONS:
            for use in (echoing, echoing, paying, counting, working):
                nursery.start_soon(client, revision, lambda c, u=use, r=revision: u(c, r, counts))
            for number in range(2):
                name = f"{revision} {number}"
                background.start_soon(
                    client, revision, lambda c, r=revision, n=name: listening(c, r, counts, changes, n)
                )
        nursery.start_soon(client, R2026_07_28, lambda c: changing(c, counts, changes))
        for name, command in programs.items():
            nursery.start_soon(calling, (*command[:-1], deployment.url, command[-1]), name, counts)
        nursery.start_soon(killing, deployment, counts, seconds, interval)
        while not counts.is_over or nursery.child_tasks:  # noqa: ASYNC110  # the listeners are needed until then
            await trio.sleep(0.1)
        background.cancel_scope.cancel()


def check_effects(folder: Path, counts: Counts) -> None:
    """Find effects that happened twice, or did not happen although their request or task succeeded.

    A worker that is killed after an effect, and before `Context.once` has stored its result, repeats the effect. This is
    documented, and counted separately.
    """
    payments, works = _effects(folder / "payments"), _effects(folder / "works")
    for id, happened in (payments | works).items():
        for process, at in happened[:-1]:
            if 0 <= counts.killed.get(process, -math.inf) - at < _UNSTORED_SECONDS:
                counts.repeated += 1
            else:
                counts.violate("twice", f"{id} happened {len(happened)} times")
    for id in [id for id, has_succeeded in counts.paid.items() if has_succeeded and id not in payments]:
        counts.violate("missing", f"payment {id}")
    for id in counts.worked - works.keys():
        counts.violate("missing", f"work {id}")


def _effects(file: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the processes and times of each effect in a file, by the id of the effect, in the order of time."""
    found: dict[str, list[tuple[int, float]]] = {}
    for id, process, at in sorted(map(str.split, file.read_text().splitlines()), key=lambda line: float(line[2])):
        found.setdefault(id, []).append((int(process), float(at)))
    return found


def check_log(path: Path, counts: Counts) -> Counter[str]:
    """Count the statuses that nginx logged, and find sessions that were unknown before their client ended them.

    A client that ends its session may have other requests on the way, such as the GET of a broken stream.
    """
    statuses = Counter[str]()
    unknown: list[tuple[str, float, str]] = []
    ended: dict[str, float] = {}
    for line in path.read_text().splitlines():
        logged, duration, method, status, session, agent = line.split(" ", 5)
        statuses[f"{method} {status}"] += 1
        if status == "404" and session != "-":
            unknown.append((session, float(logged), f"{method} of {agent}"))
        elif method == "DELETE" and status == "200":
            ended[session] = float(logged) - float(duration)
    for session, at, request in unknown:
        if at < ended.get(session, math.inf):
            counts.violate("session", f"{request} in the session {session[:8]}... at {at}")
    return statuses


def _print(counts: Counts) -> None:
    print(f"\n{len(counts.killed)} workers killed, {counts.repeated} effects repeated because of that")
    for kind in sorted({*counts.succeeded, *counts.failed, *counts.silent}):
        silent = f" {counts.silent[kind]:>6} timed out" if counts.silent[kind] else ""
        print(f"{kind:32} {counts.succeeded[kind]:>7} succeeded {counts.failed[kind]:>6} failed{silent}")
    print("\nreasons of failures")
    for reason, times in counts.reasons.most_common(15):
        print(f"{times:>6}  {reason}")
    print(f"\nviolations: {dict(counts.violations) or 'none'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kill workers of a cluster while clients use it.")
    parser.add_argument("--seconds", type=float, default=600.0, help="duration (default: 600)")
    parser.add_argument("--interval", type=float, default=5.0, help="seconds between two kills (default: 5)")
    parser.add_argument("--peers", action="store_true", help="also use the official SDKs, which npm and pip install")
    given = parser.parse_args()
    sys.exit(trio.run(main, given.seconds, given.interval, peers() if given.peers else {}))
