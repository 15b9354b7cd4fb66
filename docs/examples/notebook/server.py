"""A server over a folder of Markdown notes: search them, read them, add to them, be told when they change.

    python docs/examples/notebook/server.py [FOLDER] [--http HOST:PORT [--legacy-sse]]
    mcp-server run docs/examples/notebook/server.py:server

Without FOLDER it serves the one that the environment variable `NOTEBOOK` names, or the documentation of this project. The notes are in `notes.py`, the full-text index is in
`index.py`, what keeps the two in step is in `watch.py`; what a client sees is here.
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
SECONDS = 0.25
"""How often the folder is looked at."""

log = logging.getLogger("notebook")


def options() -> argparse.Namespace:
    """The command line, if this file is the program."""
    parser = argparse.ArgumentParser(description="Serves a folder of Markdown notes, over stdio unless told otherwise.")
    folder = Path(os.environ.get("NOTEBOOK") or DOCUMENTATION)
    parser.add_argument("folder", nargs="?", type=Path, default=folder, help="default: this documentation")
    parser.add_argument("--http", metavar="HOST:PORT", help="serve over HTTP; port 0 takes one that is free")
    parser.add_argument(
        "--legacy-sse", action="store_true", help="with --http: also the HTTP+SSE transport of 2024-11-05"
    )
    chosen = parser.parse_args() if __name__ == "__main__" else parser.parse_args([])
    if not chosen.folder.is_dir():
        parser.error(f"{chosen.folder} is no folder")
    return chosen


chosen = options()
notebook = Notebook(chosen.folder)
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
    """Searches the notes.

    Args:
        query: Words that all have to occur; "a phrase in quotes"; wor* for a beginning; AND, OR and NOT.
        limit: How many notes to give at most.
    """
    # A plain function runs in a worker thread: SQLite does not keep the server from its other work.
    try:
        return notebook.index.search(query, limit)
    except BadQuery as error:
        raise ToolError(f'The query was not understood: {error}. Put words with other signs in "quotes".') from error


@dataclass
class Confirmation:
    """What the user is asked before a note is written."""

    write: bool
    """Write this note into the folder."""
    kind: Literal["idea", "log", "todo"] = "idea"
    """What kind of note it is."""


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
async def add_note(title: str, text: str, *, context: Context) -> str:
    """Adds a note. A note that exists is never overwritten.

    Args:
        title: The title, of which the name of the note is made.
        text: The note, in Markdown.
    """
    if context.peer.capabilities.elicitation is not None:
        answer = await context.elicit(Confirmation, f"Add the note {title!r} with {len(text)} characters?")
        if isinstance(answer, ElicitationDeclined | ElicitationCancelled) or not answer.value.write:
            raise ToolError("The user does not want this note. Nothing was written.")
        text = f"*{answer.value.kind}*\n\n{text}"
    # On 2026-07-28 everything above the last question runs again with each answer. Writing is below it.
    try:
        name = await trio.to_thread.run_sync(notebook.folder.add, title, text)
    except NotAllowed as error:
        raise ToolError(str(error)) from error
    await look_again()
    return f"Added {uri_of(name)}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def summarise(name: str, *, context: Context) -> str:
    """Has the client's model summarise a note.

    Args:
        name: The name of the note.
    """
    text = await trio.to_thread.run_sync(text_of, name)
    answer = await context.sample(
        f"Summarise this note in three sentences.\n\n{text}", max_tokens=300, system_prompt="You write plainly."
    )
    blocks = answer.content if isinstance(answer.content, tuple) else (answer.content,)
    return "\n".join(block.text for block in blocks if isinstance(block, TextContent))


@server.tool
async def reindex(context: Context) -> int:
    """Reads all notes again and gives their number."""
    await look_again()
    names = notebook.names
    for done, name in enumerate(names, start=1):
        await trio.to_thread.run_sync(notebook.index_note, name)
        await context.progress(done, len(names), name)
    await context.info(f"{len(names)} notes were read again", logger="notebook")
    return len(names)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def wait_for_change(name: str, *, context: Context) -> str:
    """Waits until a note is written again. Cancel the call to stop waiting.

    Args:
        name: The name of the note.
    """
    before = stamp_of(name)
    try:
        await context.info(f"waiting for {name}", logger="notebook")
        while True:
            await trio.sleep(SECONDS)
            if stamp_of(name) != before:
                return f"{uri_of(name)} was written"
    except trio.Cancelled:
        log.info("nobody waits for %s any more", name)
        raise


@server.tool
async def import_from_roots(context: Context) -> list[str]:
    """Copies the Markdown files that lie in the client's roots into the notebook, and gives the names of the new notes."""
    roots = await context.list_roots()
    paths = [Path(url2pathname(urlsplit(root.uri).path)) for root in roots if root.uri.startswith("file:///")]
    added = await trio.to_thread.run_sync(import_notes, paths)
    await look_again()
    return added


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def picture(name: str) -> Image:
    """Shows a picture of the folder.

    Args:
        name: Its path below the folder, as `images/house.png`.
    """
    try:
        data, media_type = notebook.folder.picture(name)
    except (NoSuchFile, NotAllowed):
        known = ", ".join(notebook.folder.pictures()) or "none"
        raise ToolError(f"There is no picture {name!r}. There are: {known}.") from None
    return Image(data, mime_type=media_type)


# --- resources ---------------------------------------------------------------------------------------------------------


@server.resource("note:///{+name}", title="A note", mime_type="text/markdown")
def note(name: str) -> str:
    """A note, by its name."""
    try:
        return notebook.folder.read(name)
    except NoSuchFile:
        raise ResourceNotFound.of(uri_of(name)) from None
    except NotAllowed as error:
        raise RequestFailed(str(error)) from error


@server.resource("picture:///{+name}", title="A picture")
def picture_file(name: str) -> Image:
    """A picture of the folder, by its path."""
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
    """Asks for a review of a note.

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
    """The names of notes that begin with what was typed, then those that contain it."""
    names = notebook.names
    return [each for each in names if each.startswith(value)] + [
        each for each in names if value in each and not each.startswith(value)
    ]


# --- helpers -----------------------------------------------------------------------------------------------------------


def uri_of(name: str) -> str:
    """The resource that a note is."""
    return f"note:///{quote(name)}"


def text_of(name: str) -> str:
    """The text of a note, for a tool."""
    try:
        return notebook.folder.read(name)
    except NoSuchFile:
        near = ", ".join(names_like(name)[:5])
        raise ToolError(f"There is no note {name!r}." + (f" Did you mean: {near}?" if near else "")) from None
    except NotAllowed as error:
        raise ToolError(str(error)) from None


def stamp_of(name: str) -> Stamp:
    """Tells whether a note has changed, for a tool. Quick enough for the event loop."""
    try:
        return notebook.folder.stamp(name)
    except NoSuchFile:
        raise ToolError(f"There is no note {name!r}.") from None


def import_notes(paths: list[Path]) -> list[str]:
    """Copies the notes of some folders into the notebook; those that exist already stay as they are."""
    added = []
    for path in paths:
        try:
            folder = Folder(path)
        except OSError as error:
            log.warning("nothing was imported from %s: %s", path, error)
            continue
        for name in folder.notes():
            try:
                text = folder.read(name)
                added.append(notebook.folder.add(title_of(name, text), text))
            except (NoSuchFile, NotAllowed) as error:
                log.warning("%s of %s was not imported: %s", name, path, error)
    return added


# --- in step with the folder -------------------------------------------------------------------------------------------


looking = trio.Lock()
listed: dict[str, str | None] = {}
"""The notes that are resources now, with their titles."""


async def look_again() -> None:
    """Looks at the folder now, and tells the clients what is different."""
    # Two who look at the same time must not tell it in the wrong order.
    async with looking:
        tell(await trio.to_thread.run_sync(notebook.refresh))


def tell(changes: Changes) -> None:
    """Lists what is new, no longer lists what is gone, and publishes what changed."""
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


tell(notebook.refresh())


async def serve() -> None:
    """Serves until the client leaves, or, over HTTP, until the process is told to end."""
    if chosen.http is None:
        await serve_stdio(server)
        log.info("the client has left")
        return
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(partial(serve_http, server, chosen.http, legacy_sse=chosen.legacy_sse))
            log.info("serving at %s", urls[0])
            async for _ in signals:
                break
            # Streams are ended properly, and calls that run may finish.
            nursery.cancel_scope.cancel()
    log.info("ended as told")


async def main() -> None:
    """Serves, and watches the folder meanwhile."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, look_again, SECONDS)
        await serve()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    trio.run(main)
