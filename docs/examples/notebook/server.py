"""A server for a folder of Markdown notes: search, read and add notes, subscribe to changes.

    python docs/examples/notebook/server.py [FOLDER] [--http HOST:PORT [--legacy-sse]]
    mcp-server run docs/examples/notebook/server.py:server

The default of FOLDER is the environment variable `NOTEBOOK`, or the documentation of this project. `notes.py` accesses the
notes, `index.py` is the full-text index, `watch.py` synchronizes the two, and this file defines what clients see.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import trio

from index import BadQuery, Hit
from mcp_core.types import EmbeddedResource, PromptMessage, TextContent, TextResourceContents, ToolAnnotations
from mcp_server import (
    Context,
    ElicitationCancelled,
    ElicitationDeclined,
    Image,
    Param,
    RequestFailed,
    ResourceNotFound,
    Server,
    ToolError,
    serve_http,
    serve_stdio,
)
from notes import Folder, NoSuchFile, NotAllowed, Stamp, title_of
from watch import Changes, Notebook, watch

DOCUMENTATION = Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.25
"""The interval at which the folder is checked for changes."""

log = logging.getLogger("notebook")


def parse_arguments() -> argparse.Namespace:
    """Parse the command line, if this file is the program."""
    parser = argparse.ArgumentParser(description="Serve a folder of Markdown notes, over stdio by default.")
    folder = Path(os.environ.get("NOTEBOOK") or DOCUMENTATION)
    parser.add_argument("folder", nargs="?", type=Path, default=folder, help="default: this documentation")
    parser.add_argument("--http", metavar="HOST:PORT", help="serve over HTTP; port 0 selects a free port")
    parser.add_argument(
        "--legacy-sse", action="store_true", help="with --http: also the HTTP+SSE transport of 2024-11-05"
    )
    arguments = parser.parse_args() if __name__ == "__main__" else parser.parse_args([])
    if not arguments.folder.is_dir():
        parser.error(f"{arguments.folder} is not a folder")
    return arguments


arguments = parse_arguments()
notebook = Notebook(arguments.folder)
server = Server(
    "notebook",
    version="1.0",
    title="Notebook",
    description="Markdown notes in a folder",
    instructions="Search before you answer. Read a note by its resource note:///NAME.",
)


# --- tools -------------------------------------------------------------------------------------------------------------


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def search(query: str, limit: Annotated[int, Param(minimum=1, maximum=50)] = 5) -> list[Hit]:
    """Search the notes.

    Args:
        query: Words that must all occur; "a phrase in quotes"; wor* for a prefix; AND, OR and NOT.
        limit: The maximum number of notes.
    """
    # A plain function runs in a worker thread: SQLite does not block the server.
    try:
        return notebook.index.search(query, limit)
    except BadQuery as error:
        raise ToolError(f'The query is invalid: {error}. Put words with special characters in "quotes".') from error


@dataclass
class Confirmation:
    """The form that the user fills in before a note is written."""

    write: bool
    """Write this note to the folder."""
    kind: Literal["idea", "log", "todo"] = "idea"
    """The kind of note."""


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
async def add_note(title: str, text: str, *, context: Context) -> str:
    """Add a note. An existing note is never overwritten.

    Args:
        title: The title, from which the name of the note is generated.
        text: The note, in Markdown.
    """
    if context.peer.capabilities.elicitation is not None:
        result = await context.elicit(Confirmation, f"Add the note {title!r} with {len(text)} characters?")
        if isinstance(result, ElicitationDeclined | ElicitationCancelled) or not result.value.write:
            raise ToolError("The user declined this note. It was not written.")
        text = f"*{result.value.kind}*\n\n{text}"
    # On 2026-07-28 the code above the elicitation runs twice. So the note is written below it.
    try:
        name = await trio.to_thread.run_sync(notebook.folder.add, title, text)
    except NotAllowed as error:
        raise ToolError(str(error)) from error
    await refresh()
    return f"Added {uri_of(name)}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def summarize(name: str, *, context: Context) -> str:
    """Summarize a note with the client's model.

    Args:
        name: The name of the note.
    """
    text = await trio.to_thread.run_sync(text_of, name)
    response = await context.sample(
        f"Summarize this note in three sentences.\n\n{text}", max_tokens=300, system_prompt="You write plainly."
    )
    blocks = response.content if isinstance(response.content, tuple) else (response.content,)
    return "\n".join(block.text for block in blocks if isinstance(block, TextContent))


@server.tool
async def reindex(context: Context) -> int:
    """Index all notes again and return their number."""
    await refresh()
    names = notebook.names
    for done, name in enumerate(names, start=1):
        await trio.to_thread.run_sync(notebook.index_note, name)
        await context.progress(done, len(names), name)
    await context.info(f"{len(names)} notes were indexed", logger="notebook")
    return len(names)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def wait_for_change(name: str, *, context: Context) -> str:
    """Wait until a note changes. Cancel the call to stop waiting.

    Args:
        name: The name of the note.
    """
    before = stamp_of(name)
    try:
        await context.info(f"waiting for {name}", logger="notebook")
        while True:
            await trio.sleep(POLL_SECONDS)
            if stamp_of(name) != before:
                return f"{uri_of(name)} was written"
    except trio.Cancelled:
        log.info("cancelled: waiting for %s", name)
        raise


@server.tool
async def import_from_roots(context: Context) -> list[str]:
    """Copy the Markdown files in the client's roots to the notebook, and return the names of the new notes."""
    roots = await context.list_roots()
    paths = [Path(url2pathname(urlsplit(root.uri).path)) for root in roots if root.uri.startswith("file:///")]
    added = await trio.to_thread.run_sync(import_notes, paths)
    await refresh()
    return added


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def picture(name: str) -> Image:
    """Return a picture of the folder.

    Args:
        name: The path below the folder, such as `images/house.png`.
    """
    try:
        data, media_type = notebook.folder.picture(name)
    except (NoSuchFile, NotAllowed):
        known = ", ".join(notebook.folder.pictures()) or "none"
        raise ToolError(f"Unknown picture {name!r}. Available: {known}.") from None
    return Image(data, mime_type=media_type)


# --- resources ---------------------------------------------------------------------------------------------------------


@server.resource("note:///{+name}", title="A note", mime_type="text/markdown")
def note(name: str) -> str:
    """Return the note with this name."""
    try:
        return notebook.folder.read(name)
    except NoSuchFile:
        raise ResourceNotFound.of(uri_of(name)) from None
    except NotAllowed as error:
        raise RequestFailed(str(error)) from error


@server.resource("picture:///{+name}", title="A picture")
def picture_file(name: str) -> Image:
    """Return the picture with this path."""
    try:
        data, media_type = notebook.folder.picture(name)
    except NoSuchFile:
        raise ResourceNotFound.of(f"picture:///{quote(name)}") from None
    except NotAllowed as error:
        raise RequestFailed(str(error)) from error
    return Image(data, mime_type=media_type)


# --- prompts and completion --------------------------------------------------------------------------------------------


@server.prompt(title="Review a note")
def review_note(name: str) -> list[PromptMessage]:
    """Request a review of a note.

    Args:
        name: The name of the note.
    """
    contents = TextResourceContents(uri=uri_of(name), text=note(name), mime_type="text/markdown")
    return [
        PromptMessage(role="user", content=TextContent(text="Review this note. What is unclear, wrong or missing?")),
        PromptMessage(role="user", content=EmbeddedResource(resource=contents)),
    ]


@server.completion(prompt="review_note", argument="name")
@server.completion(resource="note:///{+name}", argument="name")
def names_like(value: str) -> list[str]:
    """Return the names of notes that begin with the value, then those that contain it."""
    names = notebook.names
    return [each for each in names if each.startswith(value)] + [
        each for each in names if value in each and not each.startswith(value)
    ]


# --- helpers -----------------------------------------------------------------------------------------------------------


def uri_of(name: str) -> str:
    """Return the URI of a note."""
    return f"note:///{quote(name)}"


def text_of(name: str) -> str:
    """Return the text of a note, for a tool."""
    try:
        return notebook.folder.read(name)
    except NoSuchFile:
        near = ", ".join(names_like(name)[:5])
        raise ToolError(f"Unknown note {name!r}." + (f" Did you mean: {near}?" if near else "")) from None
    except NotAllowed as error:
        raise ToolError(str(error)) from None


def stamp_of(name: str) -> Stamp:
    """Return the stamp of a note, for a tool. Fast enough for the event loop."""
    try:
        return notebook.folder.stamp(name)
    except NoSuchFile:
        raise ToolError(f"Unknown note {name!r}.") from None


def import_notes(paths: list[Path]) -> list[str]:
    """Copy the notes of some folders to the notebook; existing notes are not changed."""
    added = []
    for path in paths:
        try:
            folder = Folder(path)
        except OSError as error:
            log.warning("folder %s was not imported: %s", path, error)
            continue
        for name in folder.notes():
            try:
                text = folder.read(name)
                added.append(notebook.folder.add(title_of(name, text), text))
            except (NoSuchFile, NotAllowed) as error:
                log.warning("%s of %s was not imported: %s", name, path, error)
    return added


# --- synchronization with the folder -----------------------------------------------------------------------------------


refresh_lock = trio.Lock()
listed: dict[str, str | None] = {}
"""The notes that are registered as resources, with their titles."""


async def refresh() -> None:
    """Read the folder now, and notify the clients of changes."""
    # Two concurrent callers must not publish changes in the wrong order.
    async with refresh_lock:
        publish(await trio.to_thread.run_sync(notebook.refresh))


def publish(changes: Changes) -> None:
    """Register new notes, remove deleted ones, and publish the changes."""
    for name in changes.removed:
        del listed[name]
        server.remove_resource(uri_of(name))
    for name in (*changes.added, *changes.changed):
        title = notebook.index.title(name)
        if listed.get(name, "") == title:
            continue
        if name in listed:
            server.remove_resource(uri_of(name))
        listed[name] = title
        server.add_resource(partial(note, name), uri_of(name), name=name, title=title, mime_type="text/markdown")
    for name in (*changes.changed, *changes.removed):
        server.resource_updated(uri_of(name))


publish(notebook.refresh())


async def serve() -> None:
    """Serve until the client disconnects, or, over HTTP, until a signal stops the process."""
    if arguments.http is None:
        await serve_stdio(server)
        log.info("the client has disconnected")
        return
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(partial(serve_http, server, arguments.http, legacy_sse=arguments.legacy_sse))
            log.info("serving at %s", urls[0])
            async for _ in signals:
                break
            # Cancelling closes streams gracefully, and calls in progress can finish.
            nursery.cancel_scope.cancel()
    log.info("stopped by a signal")


async def main() -> None:
    """Serve, and watch the folder."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, refresh, POLL_SECONDS)
        await serve()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    trio.run(main)
