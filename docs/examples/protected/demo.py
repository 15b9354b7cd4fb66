"""Shows a login from its beginning to its end: discovery, registration, consent, step-up, refresh, revocation.

The server `protected.py` runs as a process of its own, over a copy of a few notes. The client is `mcp_client` with `OAuth`; where
a person would have a browser, `browser.py` runs, which the client starts like any other.

    ./scripts/demo --auth
"""

from __future__ import annotations

import argparse
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from mcp_client import open_http
from mcp_client.auth import MemoryStore, OAuth, SystemBrowser
from mcp_core.errors import AccessDenied, AuthorizationRefused, McpError
from mcp_core.oauth.records import TokenRecord
from mcp_core.revisions import REVISIONS, Revision

HERE = Path(__file__).resolve().parent
NOTES = {"house.md": "# The house\n\nThe roof leaks over the kitchen.\n", "garden.md": "# The garden\n\nQuinces.\n"}
PATIENCE = 30.0
"""Seconds that one step may take."""


class Story:
    """Tells what happens, and remembers whether it was what should happen."""

    def __init__(self) -> None:
        self.failed = False

    def tell(self, what: str, *, good: bool = True) -> None:
        """One step."""
        self.failed |= not good
        print(f"  {'ok' if good else 'FAILED':7} {what}", flush=True)


@attrs.define
class Browsers:
    """How often a person was needed."""

    opened: int = 0

    def agent(self, decision: str = "allow") -> SystemBrowser:
        """The browser of the system, which is a script here."""
        words = [sys.executable, str(HERE / "browser.py"), "--user", "ann", "--password", "quince"]
        command = shlex.join([*words, "--decision", decision, "%s"])
        return SystemBrowser(show_message=self._count, environment={"BROWSER": command})

    def _count(self, _: str) -> None:
        self.opened += 1


@asynccontextmanager
async def protected_server(folder: Path) -> AsyncIterator[str]:
    """The server, as a process, for a block; the URL of its MCP endpoint."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(HERE / "protected.py"), "--port", str(port), str(folder)]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = await process.stdout.receive_some()
        yield bytes(line).decode().strip()
    finally:
        process.terminate()
        with trio.CancelScope(shield=True):
            await process.wait()


async def whole_story(url: str, revision: Revision, story: Story) -> None:
    """Everything that can happen to a login, in one revision."""
    browsers, store = Browsers(), MemoryStore()
    auth = OAuth("Notebook reader", store=store, user_agent=browsers.agent(), scopes=["notes:read"])
    async with open_http(url, auth=auth, revisions=[revision]) as client:
        hits = await client.call_tool("search", {"query": "roof"})
        first = await kept(store, url)
        story.tell(f"found {first.issuer}, registered there, and logged in as Ann", good=browsers.opened == 1)
        story.tell(f"searched the notes with the scopes {' '.join(first.scopes)}", good=not hits.is_error)
        await client.call_tool("add_note", {"title": "Cellar", "text": "Dry."})
        second = await kept(store, url)
        good = browsers.opened == 2 and {"notes:read", "notes:write"} <= set(second.scopes)
        story.tell(f"stepped up to {' '.join(sorted(second.scopes))}, to add a note", good=good)

    # Another program with the same store, long afterwards.
    await store.save_tokens(url, attrs.evolve(second, expires_at=0.0))
    later = OAuth("Notebook reader", store=store, user_agent=browsers.agent())
    async with open_http(url, auth=later, revisions=[revision]) as client:
        await client.list_tools()
    third = await kept(store, url)
    good = browsers.opened == 2 and third.access_token != second.access_token
    story.tell("refreshed without Ann, who noticed nothing", good=good)
    story.tell("got another refresh token, and gave up the old one", good=third.refresh_token != second.refresh_token)

    await later.log_out(url)
    story.tell("logged out, and had the tokens revoked", good=await store.load_tokens(url) is None)
    refused = await refusal(url, revision, third)
    story.tell("was refused with the revoked token", good=refused == 401)

    unwilling = OAuth("Notebook reader", user_agent=browsers.agent("refuse"))
    try:
        async with open_http(url, auth=unwilling, revisions=[revision]):
            story.tell("was let in although Ann said no", good=False)
    except AuthorizationRefused as error:
        story.tell(f"was told so when Ann said no: {error.message}")


async def kept(store: MemoryStore, url: str) -> TokenRecord:
    """The tokens that are there now."""
    tokens = await store.load_tokens(url)
    assert tokens is not None
    return tokens


async def refusal(url: str, revision: Revision, tokens: TokenRecord) -> int | None:
    """The status by which the server refuses a token; `None` when it does not."""
    try:
        async with open_http(url, headers={"Authorization": f"Bearer {tokens.access_token}"}, revisions=[revision]):
            return None
    except AccessDenied as denied:
        return denied.status


async def main(revisions: list[Revision]) -> int:
    """Returns the exit status."""
    story = Story()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in NOTES.items():
            (Path(folder) / name).write_text(text)
        async with protected_server(Path(folder)) as url:
            print(f"A notebook for people who have logged in, at {url}")
            for revision in revisions:
                print(f"\n{revision}")
                try:
                    with trio.fail_after(PATIENCE):
                        await whole_story(url, revision, story)
                except (McpError, trio.TooSlowError) as error:
                    story.tell(f"{type(error).__name__}: {error}", good=False)
    return 1 if story.failed else 0


if __name__ == "__main__":
    known = {name: revision for name, revision in REVISIONS.items() if not revision.http_sse}
    parser = argparse.ArgumentParser(description="Shows a login from its beginning to its end.")
    parser.add_argument("--revision", choices=list(known), help="show this revision only")
    chosen = parser.parse_args().revision
    sys.exit(trio.run(main, [known[chosen]] if chosen else list(known.values())))
