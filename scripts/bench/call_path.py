"""Count the function calls of one `tools/call`, and print its path through this project's packages.

    python scripts/bench/call_path.py                          stdio and HTTP, both eras
    python scripts/bench/call_path.py --transport http         only HTTP
    python scripts/bench/call_path.py --revision 2025-11-25    only this revision
    python scripts/bench/call_path.py --by-file                one line for each file
    python scripts/bench/call_path.py --totals                 only the totals

A client in this process calls a tool of a server in a child process, over pipes or over Streamable HTTP with the
embedded host. In both processes, `sys.setprofile` reports the calls. The script counts the calls into `mcp_core`,
`mcp_client` and `mcp_server`, and the distinct source files that they cross, both processes together. The path lists
the functions in the order of their first calls, with their numbers of calls.

What counts as a call is what `sys.setprofile` reports as the event `call`: a call of a Python function, and each
resumption of a generator or of a coroutine. A coroutine that waits twice therefore counts three times: its start and
two resumptions. Comprehensions are calls, too; calls into C, into other packages and into the tool itself are not.
Constructors that attrs generates have no source file. They are counted apart.

The client makes `--calls` calls to warm up, then nine calls with a pause after each, so that the calls do not
overlap. Of these nine, the one with the median count is printed. The counts do not depend on the speed of the machine.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import trio

import mcp_client
import mcp_core
import mcp_server
from mcp_client import open_http, open_stdio
from mcp_core.revisions import REVISIONS
from mcp_server import Server, serve_http, serve_stdio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from types import CodeType, FrameType

    from mcp_client import Client

PACKAGES: Final = (mcp_core, mcp_client, mcp_server)
REVISION_NAMES: Final = ("2025-11-25", "2026-07-28")
GOALS: Final = {"stdio": (28, 160), "http": (40, 250)}
"""The files and calls of one `tools/call` that this project allows itself."""

MEASURED: Final = 9
"""Calls that are measured."""

PAUSE: Final = 0.02
"""Time after a call, in seconds, in which the server completes what follows its response."""

GENERATED: Final = "generated "
"""The prefix of the names of functions that attrs generates."""

_GENERATED_FILE: Final = re.compile(r"<attrs generated \w+ (?P<module>[\w.]+)\.(?P<name>\w+)(?:-\d+)?>")
_FOLDERS: Final = {os.path.dirname(str(package.__file__)) + os.sep: package.__name__ for package in PACKAGES}


class RecordedCall(NamedTuple):
    """A call into this project's packages."""

    at: int
    """The time in nanoseconds, by a clock that all processes of the machine share."""
    file: str
    """The source file, as a path below the folder of the package's sources."""
    function: str
    """The qualified name of the function."""


class CallRecorder:
    """A recorder of the calls into some source files, in all threads of this process that start after `start`.

    Args:
        folders: The folders of source files, with a separator at the end, and the names of the packages in them.
    """

    def __init__(self, folders: dict[str, str]) -> None:
        self._folders: Final = folders
        self._calls: list[tuple[int, CodeType]] = []

    def start(self) -> None:
        """Start to record."""
        threading.setprofile(self._record)
        sys.setprofile(self._record)

    def stop(self) -> None:
        """Stop to record in this thread."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _record(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002  # as `setprofile` calls it
        if event == "call":
            self._calls.append((time.monotonic_ns(), frame.f_code))

    def between(self, since: int, until: int) -> list[RecordedCall]:
        """Return the calls in a period, in their order.

        Args:
            since: The start of the period, by `time.monotonic_ns`.
            until: Its end.
        """
        calls: list[RecordedCall] = []
        for at, code in tuple(self._calls):
            if since <= at < until:
                generated = _GENERATED_FILE.fullmatch(code.co_filename)
                module = None if generated is None else sys.modules.get(generated["module"])
                file = self._file_of(code.co_filename if module is None else str(module.__file__))
                name = code.co_qualname if generated is None else f"{GENERATED}{generated['name']}.{code.co_name}"
                if file is not None:
                    calls.append(RecordedCall(at, file, name))
        return calls

    def _file_of(self, path: str) -> str | None:
        for folder, package in self._folders.items():
            if path.startswith(folder):
                return f"{package}/{path.removeprefix(folder)}"
        return None


class Step(NamedTuple):
    """One function of a path."""

    side: str
    """`client` or `server`."""
    file: str
    function: str
    calls: int


class CallPath(NamedTuple):
    """The path of one `tools/call`."""

    steps: Sequence[Step]
    """The functions, in the order of their first calls."""
    files: int
    """The distinct source files, both sides together."""
    calls: int
    """The calls, both sides together."""
    generated: int
    """The calls of functions that attrs generates."""


def path_of(client: Iterable[RecordedCall], server: Iterable[RecordedCall]) -> CallPath:
    """Combine the calls of both processes to a path.

    Args:
        client: The calls in the process of the client.
        server: The calls in the process of the server.
    """
    merged = sorted([(call.at, "client", call) for call in client] + [(call.at, "server", call) for call in server])
    counts = Counter((side, call.file, call.function) for _, side, call in merged)
    steps = [Step(*place, calls) for place, calls in counts.items()]
    written = [step for step in steps if not step.function.startswith(GENERATED)]
    calls = sum(step.calls for step in written)
    return CallPath(steps, len({step.file for step in written}), calls, len(merged) - calls)


async def serve(transport: str) -> None:
    """Serve the tools `echo` and `recorded_calls` until the client closes stdin, or until this process is killed.

    Args:
        transport: `stdio` or `http`; over HTTP, print the URL first.
    """
    recorder = CallRecorder(_FOLDERS)
    server = Server("call path", version="1")

    @server.tool()
    async def echo(text: str, times: int = 1) -> str:
        """Return the text.

        Args:
            text: The text.
            times: The number of repetitions.
        """
        return text * times

    @server.tool()
    async def recorded_calls(since: int, until: int) -> list[list[int | str]]:
        """Return the calls in a period.

        Args:
            since: The start of the period.
            until: Its end.
        """
        return [list(call) for call in recorder.between(since, until)]

    recorder.start()
    if transport == "stdio":
        await serve_stdio(server)
        return
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(lambda **started: serve_http(server, "127.0.0.1:0", **started))
        print(urls[0], flush=True)


@asynccontextmanager
async def connected(transport: str, revision: str) -> AsyncIterator[Client]:
    """Open a client of a server in a child process."""
    command = [sys.executable, __file__, "--serve", transport]
    wanted = [REVISIONS[revision]]
    if transport == "stdio":
        async with open_stdio(command, revisions=wanted, inherit_env=True) as client:
            yield client
        return
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:  # noqa: ASYNC220  # nothing else runs yet
        try:
            assert child.stdout is not None
            async with open_http(child.stdout.readline().strip(), revisions=wanted) as client:
                yield client
        finally:
            child.kill()


async def measure(transport: str, revision: str, warm_up: int) -> CallPath:
    """Return the path of one `tools/call`.

    Args:
        transport: `stdio` or `http`.
        revision: The name of the revision.
        warm_up: The number of calls before those that are measured.
    """
    recorder = CallRecorder(_FOLDERS)
    async with connected(transport, revision) as client:
        for _ in range(warm_up):
            await client.call_tool("echo", {"text": "hello"})
        await trio.sleep(PAUSE)
        times: list[int] = []
        recorder.start()
        for _ in range(MEASURED):
            times.append(time.monotonic_ns())
            await client.call_tool("echo", {"text": "hello"})
            await trio.sleep(PAUSE)
        recorder.stop()
        times.append(time.monotonic_ns())
        paths: list[CallPath] = []
        for since, until in itertools.pairwise(times):
            result = await client.call_tool("recorded_calls", {"since": since, "until": until})
            rows = cast("dict[str, list[tuple[int, str, str]]]", result.structured_content)  # as the tool returns them
            paths.append(path_of(recorder.between(since, until), [RecordedCall(*row) for row in rows["result"]]))
    return sorted(paths, key=lambda path: path.calls)[len(paths) // 2]


def lines_by_file(steps: Iterable[Step]) -> list[str]:
    """Return a line for each source file of each side: its calls, and its functions in the order of their first calls."""
    found: dict[tuple[str, str], list[Step]] = {}
    for step in steps:
        if not step.function.startswith(GENERATED):
            found.setdefault((step.side, step.file), []).append(step)
    lines: list[str] = []
    for (side, file), group in found.items():
        names = ", ".join(step.function.rpartition(".")[2] for step in group)
        lines.append(f"{side}  {sum(step.calls for step in group):>3}  {file}: {names}")
    return lines


def show(title: str, path: CallPath, goal: tuple[int, int], lines: Sequence[str]) -> None:
    """Print a path.

    Args:
        title: The transport and the revision.
        path: The path.
        goal: The files and calls that are allowed.
        lines: What to print below the totals.
    """
    print(
        f"{title}: {path.files} files (at most {goal[0]}), {path.calls} calls (at most {goal[1]}),"
        f" {path.generated} calls of generated constructors"
    )
    for line in lines:
        print(f"  {line}")
    if lines:
        print()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the paths that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transport", choices=tuple(GOALS), help="measure only this transport")
    parser.add_argument("--revision", choices=REVISION_NAMES, help="measure only this revision")
    parser.add_argument("--calls", type=int, default=50, metavar="N", help="calls to warm up (default: 50)")
    parser.add_argument("--by-file", action="store_true", help="print one line for each file")
    parser.add_argument("--totals", action="store_true", help="print only the totals, not the functions")
    parser.add_argument("--serve", choices=tuple(GOALS), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve is not None:
        trio.run(serve, options.serve)
        return
    for transport in [options.transport] if options.transport else GOALS:
        for revision in [options.revision] if options.revision else REVISION_NAMES:
            path = trio.run(measure, transport, revision, options.calls)
            lines = [f"{step.side}  {step.calls:>3}  {step.file}:{step.function}" for step in path.steps]
            if options.totals:
                lines = []
            elif options.by_file:
                lines = lines_by_file(path.steps)
            show(f"{transport}, {revision}", path, GOALS[transport], lines)


if __name__ == "__main__":
    main()
