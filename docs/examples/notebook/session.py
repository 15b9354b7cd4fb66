"""The setup of the demonstration: a server process, its client, and a simulated user."""

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

from mcp_client import Client, Handlers, ToolResult, open_http, open_stdio
from mcp_core.revisions import Revision
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    Root,
    TextContent,
)

__all__ = ["Feature", "Session", "Transport", "text_of"]

SERVER = Path(__file__).with_name("server.py")


class Transport(enum.Enum):
    """The transport between client and server."""

    STDIO = "stdio"
    HTTP = "Streamable HTTP"
    HTTP_SSE = "HTTP+SSE"

    def is_in(self, revision: Revision) -> bool:
        """Return whether a revision has this transport."""
        if self is Transport.STDIO:
            return True
        return revision.http_sse is (self is Transport.HTTP_SSE)


class Session:
    """A server process, its client, and a user who responds to elicitations."""

    def __init__(self, transport: Transport, revision: Revision, folder: Path, roots: Path) -> None:
        self.transport = transport
        self.revision = revision
        self.folder = folder
        self.roots = roots
        self.logs: list[str] = []
        self.stderr: list[str] = []
        self.elicitations: list[str] = []
        self.elicit_result = ElicitResult(action="accept", content={"write": True, "kind": "todo"})
        self.url = ""
        self.exit_code: int | None = None
        self._client: Client | None = None
        self._activity = trio.Event()

    @property
    def client(self) -> Client:
        """The client, while it is connected."""
        assert self._client is not None, "the client is not connected"
        return self._client

    @property
    def command(self) -> list[str]:
        """The command that starts the server."""
        http = [] if self.transport is Transport.STDIO else ["--http", "127.0.0.1:0", "--legacy-sse"]
        return [sys.executable, str(SERVER), str(self.folder), *http]

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[None]:
        """Start the server and connect to it for the duration of the block."""
        handlers = Handlers(
            elicit=self._elicit,
            sample=self._sample,
            roots=[Root(uri=self.roots.as_uri(), name="roots")],
            log=self._log,
        )
        if self.transport is Transport.STDIO:
            connection = open_stdio(
                self.command, revisions=[self.revision], handlers=handlers, on_stderr=self._stderr, log_level="info"
            )
            async with connection as self._client:
                yield
        else:
            async with self._server() as self.url:
                url = self.url if self.transport is Transport.HTTP else self.url.replace("/mcp", "/sse")
                connection = open_http(url, revisions=[self.revision], handlers=handlers, log_level="info")
                async with connection as self._client:
                    yield
        self._client = None

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[str]:
        """Start the server over HTTP, yield its URL, and stop it with SIGTERM."""
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
        self._activity.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a log message makes `condition` true."""
        while not condition():
            self._activity = trio.Event()
            await self._activity.wait()

    async def text(self, tool: str, **arguments: object) -> str:
        """Call a tool that must succeed, and return its text."""
        return text_of(await self.client.call_tool(tool, json.loads(json.dumps(arguments))), failed=False)

    async def _elicit(self, params: ElicitRequestFormParams) -> ElicitResult:
        self.elicitations.append(params.message)
        return self.elicit_result

    async def _sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        content = params.messages[0].content
        assert isinstance(content, TextContent), content
        text = f"A note of {len(content.text.split())} words."
        return CreateMessageResult(role="assistant", content=TextContent(text=text), model="a-model")

    def _log(self, message: LoggingMessageNotificationParams) -> None:
        self.logs.append(f"{message.level}: {message.data}")
        self._activity.set()

    def _stderr(self, line: str) -> None:
        self.stderr.append(line)
        self._activity.set()


@dataclass(frozen=True)
class Feature:
    """A feature of the protocol."""

    name: str
    """The name in the table."""
    run: Callable[[Session], Awaitable[str]]
    """A function that uses the feature and returns a description of the result. It raises `AssertionError` or an error of
    the client on a failure."""
    supported_in: Callable[[Revision], bool]
    """A predicate: whether a revision has the feature."""


def text_of(result: ToolResult[object], *, failed: bool) -> str:
    """Return the text of a result, which must be a failure or a success."""
    text = "".join(block.text for block in result.content if isinstance(block, TextContent))
    assert bool(result.is_error) is failed, f"is_error is {result.is_error}: {text}"
    return text
