"""What the demonstration needs: a server process with a client of it, and a user who answers what is asked."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from mcp_client import Client, Handlers, open_stdio
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

__all__ = ["Feature", "Session", "text_of"]

SERVER = Path(__file__).with_name("server.py")


class Session:
    """One server process, one client of it, and a user who answers what is asked."""

    def __init__(self, revision: Revision, folder: Path, roots: Path) -> None:
        self.revision = revision
        self.folder = folder
        self.roots = roots
        self.logs: list[str] = []
        self.stderr: list[str] = []
        self.asked: list[str] = []
        self.answer = ElicitResult(action="accept", content={"write": True, "kind": "todo"})
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
        return [sys.executable, str(SERVER), str(self.folder)]

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[None]:
        """Starts the server and talks to it as long as the block runs."""
        handlers = Handlers(
            elicit=self._elicit,
            sample=self._sample,
            roots=[Root(uri=self.roots.as_uri(), name="roots")],
            log=self._log,
        )
        opening = open_stdio(
            self.command, revisions=[self.revision], handlers=handlers, on_stderr=self._stderr, log_level="info"
        )
        async with opening as self._client:
            yield
        self._client = None

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
