"""What the demonstration needs: a server process with a client of it, and a user who answers what is asked."""

from __future__ import annotations

import enum
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from mcp_client import Client, Handlers, open_http, open_stdio
from mcp_core.revisions import Revision
from mcp_core.types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    Root,
    TextContent,
)

__all__ = ["Feature", "Session", "Way", "text_of"]

SERVER = Path(__file__).with_name("server.py")


class Way(enum.Enum):
    """How client and server are connected."""

    STDIO = "stdio"
    HTTP = "Streamable HTTP"
    HTTP_SSE = "HTTP+SSE"

    def exists(self, revision: Revision) -> bool:
        """Whether a revision has this transport."""
        if self is Way.STDIO:
            return True
        return revision.http_sse is (self is Way.HTTP_SSE)


class Session:
    """One server process, one client of it, and a user who answers what is asked."""

    def __init__(self, way: Way, revision: Revision, folder: Path, roots: Path) -> None:
        self.way = way
        self.revision = revision
        self.folder = folder
        self.roots = roots
        self.logs: list[str] = []
        self.stderr: list[str] = []
        self.asked: list[str] = []
        self.answer = ElicitResult(action="accept", content={"write": True, "kind": "todo"})
        self.url = ""
        self.exit_code: int | None = None
        self._client: Client | None = None
        self._news = trio.Event()

    @property
    def client(self) -> Client:
        """The client, while it is connected."""
        assert self._client is not None, "there is no connection"
        return self._client

    @property
    def command(self) -> list[str]:
        """What starts the server."""
        http = [] if self.way is Way.STDIO else ["--http", "127.0.0.1:0", "--legacy-sse"]
        return [sys.executable, str(SERVER), str(self.folder), *http]

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[None]:
        """Starts the server and talks to it as long as the block runs."""
        handlers = Handlers(
            elicit=self._elicit,
            sample=self._sample,
            roots=[Root(uri=self.roots.as_uri(), name="roots")],
            log=self._log,
        )
        if self.way is Way.STDIO:
            opening = open_stdio(
                self.command, revisions=[self.revision], handlers=handlers, on_stderr=self._stderr, log_level="info"
            )
            async with opening as self._client:
                yield
        else:
            async with self._server() as self.url:
                url = self.url if self.way is Way.HTTP else self.url.replace("/mcp", "/sse")
                opening = open_http(url, revisions=[self.revision], handlers=handlers, log_level="info")
                async with opening as self._client:
                    yield
        self._client = None

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[str]:
        """Starts the server over HTTP, gives its URL, and has it end by SIGTERM."""
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(
                partial(trio.run_process, self.command, stderr=subprocess.PIPE, check=False)
            )
            nursery.start_soon(self._read_stderr, process)
            await self.until(lambda: process.poll() is not None or any("serving at" in line for line in self.stderr))
            if process.poll() is not None:
                raise OSError(f"the server did not start: {' '.join(self.stderr[-3:])}")
            try:
                yield next(line for line in self.stderr if "serving at" in line).split()[-1]
            finally:
                process.send_signal(signal.SIGTERM)
        self.exit_code = process.returncode

    async def _read_stderr(self, process: trio.Process) -> None:
        assert process.stderr is not None
        rest = ""
        async for data in process.stderr:
            *lines, rest = (rest + data.decode()).split("\n")
            for line in lines:
                self._stderr(line)
        await process.wait()
        self._news.set()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Waits until something was logged that makes `happened` true."""
        while not happened():
            self._news = trio.Event()
            await self._news.wait()

    async def text(self, tool: str, **arguments: object) -> str:
        """Calls a tool that has to succeed, and gives its text."""
        return text_of(await self.client.call_tool(tool, json.loads(json.dumps(arguments))), failed=False)

    async def _elicit(self, params: ElicitRequestFormParams) -> ElicitResult:
        self.asked.append(params.message)
        return self.answer

    async def _sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        asked = params.messages[0].content
        assert isinstance(asked, TextContent), asked
        text = f"A note of {len(asked.text.split())} words."
        return CreateMessageResult(role="assistant", content=TextContent(text=text), model="a-model")

    def _log(self, message: LoggingMessageNotificationParams) -> None:
        self.logs.append(f"{message.level}: {message.data}")
        self._news.set()

    def _stderr(self, line: str) -> None:
        self.stderr.append(line)
        self._news.set()


@dataclass(frozen=True)
class Feature:
    """One thing that a server and a client can do together."""

    name: str
    """What the table calls it."""
    run: Callable[[Session], Awaitable[str]]
    """Does it, and says what came out. Raises `AssertionError` or an error of the client when it does not work."""
    exists: Callable[[Revision], bool]
    """Whether a revision has it."""


def text_of(result: CallToolResult, *, failed: bool) -> str:
    """The text of a result that has to be a failure, or a success."""
    text = "".join(block.text for block in result.content if isinstance(block, TextContent))
    assert bool(result.is_error) is failed, f"is_error is {result.is_error}: {text}"
    return text
