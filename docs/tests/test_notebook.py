from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from mcp_client import ToolResult, open_stdio
from mcp_core.errors import RequestFailed, ResourceNotFound
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.types import TextContent

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "notebook"
sys.path.insert(0, str(NOTEBOOK))

from index import BadQuery, Index  # noqa: E402  # the example is not a package
from notes import MAX_BYTES, Folder, NoSuchFile, NotAllowed, differences, title_of  # noqa: E402
from watch import Notebook  # noqa: E402


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (inside / "one.md").write_text("# One\n\nThe first note.\n")
    (inside / "sub" / "two.md").write_text("no heading\n")
    (inside / ".hidden.md").write_text("# Hidden\n")
    (tmp_path / "secret.md").write_text("# Secret\n")
    return Folder(inside)


def test_notes_named_by_path(folder: Folder) -> None:
    assert list(folder.notes()) == ["one", "sub/two"]
    assert folder.read("sub/two") == "no heading\n"


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "sub/../../secret",
        "/etc/passwd",
        "",
        ".hidden",
        "sub//two",
        "sub\\two",
        "one\0",
        "sub",
        "x" * 5000,
        "./one",
    ],
)
def test_note_outside_of_folder_not_read(folder: Folder, name: str) -> None:
    with pytest.raises(NoSuchFile):
        folder.read(name)


def test_link_out_of_folder_not_followed_or_listed(folder: Folder) -> None:
    (folder.path / "out.md").symlink_to(folder.path.parent / "secret.md")
    (folder.path / "away").symlink_to(folder.path.parent)
    (folder.path / "in.md").symlink_to(folder.path / "one.md")
    assert list(folder.notes()) == ["in", "one", "sub/two"]
    for name in ("out", "away/secret"):
        with pytest.raises(NoSuchFile):
            folder.read(name)


def test_pipe_not_read_as_note(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe.md")
    with pytest.raises(NoSuchFile):
        folder.read("pipe")


def test_note_over_limit_not_read(folder: Folder) -> None:
    (folder.path / "large.md").write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(NotAllowed, match="1048576"):
        folder.read("large")


def test_note_added_with_sanitized_name(folder: Folder) -> None:
    assert folder.add("../My house: №1", "Text") == "my-house-1"
    assert folder.read("my-house-1") == "# ../My house: №1\n\nText\n"


@pytest.mark.parametrize(("title", "text"), [("One", "again"), ("...", "text"), ("Large", "x" * (MAX_BYTES + 1))])
def test_note_invalid_not_added(folder: Folder, title: str, text: str) -> None:
    with pytest.raises(NotAllowed):
        folder.add(title, text)
    assert folder.read("one") == "# One\n\nThe first note.\n"


def test_note_added_without_following_link(folder: Folder) -> None:
    (folder.path / "trap.md").symlink_to(folder.path.parent / "written.md")
    with pytest.raises(NotAllowed):
        folder.add("Trap", "text")
    assert not (folder.path.parent / "written.md").exists()


def test_title_is_first_heading_or_name() -> None:
    assert title_of("a/b", "text\n# The title\n# Another\n") == "The title"
    assert title_of("a/b", "text") == "b"


def test_index_finds_words_with_snippet() -> None:
    index = Index()
    index.put("house", "House", "The roof leaks")
    index.put("garden", "Garden", "Tulips")
    (hit,) = index.search("roof", 5)
    assert (hit.name, hit.snippet) == ("house", "The [roof] leaks")
    index.put("house", "House", "It was repaired")
    assert index.search("roof", 5) == []
    index.remove("house")
    assert index.search("repaired", 5) == []


@pytest.mark.parametrize("query", ['"', "AND", "a b)", "nothing:x"])
def test_query_invalid_raises(query: str) -> None:
    with pytest.raises(BadQuery):
        Index().search(query, 5)


def test_changes_on_disk_reported_once(folder: Folder) -> None:
    notebook = Notebook(folder.path)
    assert notebook.refresh().added == ["one", "sub/two"]
    (folder.path / "one.md").write_text("# Uno\n\nlonger than it was before\n")
    (folder.path / "sub" / "two.md").unlink()
    (folder.path / "three.md").write_text("three\n")
    changes = notebook.refresh()
    assert (changes.added, changes.changed, changes.removed) == (["three"], ["one"], ["sub/two"])
    assert notebook.index.title("one") == "Uno"
    assert notebook.index.title("sub/two") is None
    assert notebook.refresh() == type(changes)()
    assert differences({}, {}) == ([], [], [])


async def test_notebook_server_serves_documentation() -> None:
    command = [sys.executable, "-m", "mcp_server", "run", f"{NOTEBOOK / 'server.py'}:server"]
    async with open_stdio(command) as client:
        uris = [resource.uri for resource in await client.list_resources()]
        assert "note:///tutorial/first-server" in uris
        found = await client.call_tool("search", {"query": "elicitation"})
        assert not found.is_error
        with pytest.raises(ResourceNotFound):
            await client.read_resource("note:///tutorial/last-server")
        with pytest.raises(RequestFailed):
            await client.read_resource("note:///../../SECURITY")


async def test_wait_for_change_reports_written_note(folder: Folder) -> None:
    async with open_stdio([sys.executable, str(NOTEBOOK / "server.py"), str(folder.path)]) as client:
        results: list[ToolResult[JsonValue]] = []

        async def wait() -> None:
            results.append(await client.call_tool("wait_for_change", {"name": "one"}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            number = 0
            while not results:
                # The server may not have scanned the folder yet.
                number += 1
                (folder.path / "one.md").write_text("again " * number)
                await client.call_tool("search", {"query": "again"})
        assert results[0].content == (TextContent(text="note:///one was written"),)


def test_demonstration_runs_in_every_revision() -> None:
    done = subprocess.run(
        [sys.executable, str(NOTEBOOK / "demo.py"), "--verbose"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert "not run" not in done.stdout


def test_demonstration_reports_failure(tmp_path: Path) -> None:
    for name in ("demo.py", "features.py", "session.py"):
        (tmp_path / name).write_text((NOTEBOOK / name).read_text())
    (tmp_path / "server.py").write_text("raise SystemExit('this server is broken')")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "demo.py"), "--revision", "2025-06-18"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "this server is broken" in done.stdout
    assert "not run" in done.stdout
