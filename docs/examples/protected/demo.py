"""A demonstration of a login: discovery, registration, consent, step-up, refresh, revocation.

The server `protected.py` runs as a process, with a copy of a few notes. The client is `mcp_client` with `OAuth`;
`browser.py` replaces the user's browser, and the client starts it like any other.

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
TIMEOUT = 30.0
"""The timeout for one revision, in seconds."""


class Report:
    """A report of the steps, and whether one has failed."""

    def __init__(self) -> None:
        self.failed = False

    def step(self, description: str, *, good: bool = True) -> None:
        """Report a step."""
        self.failed |= not good
        print(f"  {'ok' if good else 'FAILED':7} {description}", flush=True)


@attrs.define
class Browsers:
    """The number of times that the user was needed."""

    opened: int = 0

    def agent(self, decision: str = "allow") -> SystemBrowser:
        """Return a system browser that is a script."""
        words = [sys.executable, str(HERE / "browser.py"), "--user", "ann", "--password", "quince"]
        command = shlex.join([*words, "--decision", decision, "%s"])
        return SystemBrowser(show_message=self._count, environment={"BROWSER": command})

    def _count(self, _: str) -> None:
        self.opened += 1


@asynccontextmanager
async def protected_server(folder: Path) -> AsyncIterator[str]:
    """Run the server process for the duration of the block, and yield the URL of its MCP endpoint."""
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


async def demonstrate(url: str, revision: Revision, report: Report) -> None:
    """Run all steps of a login, in one revision."""
    browsers, store = Browsers(), MemoryStore()
    auth = OAuth("Notebook reader", store=store, user_agent=browsers.agent(), scopes=["notes:read"])
    async with open_http(url, auth=auth, revisions=[revision]) as client:
        hits = await client.call_tool("search", {"query": "roof"})
        first = await stored_tokens(store, url)
        report.step(f"discovered {first.issuer}, registered there, and logged in as Ann", good=browsers.opened == 1)
        report.step(f"searched the notes with the scopes {' '.join(first.scopes)}", good=bool(hits.content))
        await client.call_tool("add_note", {"title": "Cellar", "text": "Dry."})
        second = await stored_tokens(store, url)
        good = browsers.opened == 2 and {"notes:read", "notes:write"} <= set(second.scopes)
        report.step(f"stepped up to {' '.join(sorted(second.scopes))}, to add a note", good=good)

    # Another program with the same store, later.
    await store.save_tokens(url, attrs.evolve(second, expires_at=0.0))
    later = OAuth("Notebook reader", store=store, user_agent=browsers.agent())
    async with open_http(url, auth=later, revisions=[revision]) as client:
        await client.list_tools()
    third = await stored_tokens(store, url)
    good = browsers.opened == 2 and third.access_token != second.access_token
    report.step("refreshed the token without the user", good=good)
    report.step("replaced the refresh token (rotation)", good=third.refresh_token != second.refresh_token)

    await later.log_out(url)
    report.step("logged out, and revoked the tokens", good=await store.load_tokens(url) is None)
    status = await rejection_status(url, revision, third)
    report.step("the server rejected the revoked token", good=status == 401)

    denied_auth = OAuth("Notebook reader", user_agent=browsers.agent("refuse"))
    try:
        async with open_http(url, auth=denied_auth, revisions=[revision]):
            report.step("the login succeeded although Ann denied consent", good=False)
    except AuthorizationRefused as error:
        report.step(f"the login failed when Ann denied consent: {error.message}")


async def stored_tokens(store: MemoryStore, url: str) -> TokenRecord:
    """Return the stored tokens."""
    tokens = await store.load_tokens(url)
    assert tokens is not None
    return tokens


async def rejection_status(url: str, revision: Revision, tokens: TokenRecord) -> int | None:
    """Return the status with which the server rejects a token; `None` if it accepts it."""
    try:
        async with open_http(url, headers={"Authorization": f"Bearer {tokens.access_token}"}, revisions=[revision]):
            return None
    except AccessDenied as denied:
        return denied.status


async def main(revisions: list[Revision]) -> int:
    """Run the demonstration and return the exit status."""
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in NOTES.items():
            (Path(folder) / name).write_text(text)
        async with protected_server(Path(folder)) as url:
            print(f"A protected notebook at {url}")
            for revision in revisions:
                print(f"\n{revision}")
                try:
                    with trio.fail_after(TIMEOUT):
                        await demonstrate(url, revision, report)
                except (McpError, trio.TooSlowError) as error:
                    report.step(f"{type(error).__name__}: {error}", good=False)
    return 1 if report.failed else 0


if __name__ == "__main__":
    revisions = {name: revision for name, revision in REVISIONS.items() if not revision.http_sse}
    parser = argparse.ArgumentParser(description="A demonstration of a login.")
    parser.add_argument("--revision", choices=list(revisions), help="use this revision only")
    selected = parser.parse_args().revision
    sys.exit(trio.run(main, [revisions[selected]] if selected else list(revisions.values())))
