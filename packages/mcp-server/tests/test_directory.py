"""The files of a directory as resources, and paths that must not be served."""

from __future__ import annotations

import base64
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_client import RawClient, as_list, as_object, connected

from mcp_core.errors import ErrorCode, LimitExceeded
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import R2024_11_05, R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_server import RegistrationError, Server
from mcp_server.features import directory as directory_module
from mcp_server.features import files as files_module
from mcp_server.features.files import Files

ALL_REVISIONS = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="these files exist only on POSIX")
NOT_FOUND = {ErrorCode.INVALID_PARAMS, ErrorCode.RESOURCE_NOT_FOUND}


@pytest.fixture(params=["by descriptor", "by path"])
def open_method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to open files; the second is the one of Windows."""
    if request.param == "by path":
        monkeypatch.setattr(files_module, "_BY_DESCRIPTOR", False)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a sibling whose file must not be read."""
    folder = tmp_path / "root"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("hällo")
    (folder / "sub" / "b.json").write_text("{}")
    (folder / "sub" / "deep" / "c").write_bytes(b"\xff\x00")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "secret.txt").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


def make_server(root: Path, *, hidden: bool = False, limits: Limits | None = None) -> Server:
    server = Server("s", version="0", limits=limits or Limits())
    server.add_directory(root, "docs://d/", hidden=hidden, description="Files.")
    return server


async def list_resources(client: RawClient) -> list[JsonObject]:
    found: list[JsonObject] = []
    cursor: JsonValue = None
    while True:
        result = await client.call("resources/list", {} if cursor is None else {"cursor": cursor})
        found += [as_object(each) for each in as_list(result["resources"])]
        cursor = result.get("nextCursor")
        if cursor is None:
            return found


async def list_names(client: RawClient) -> list[object]:
    return [each["name"] for each in await list_resources(client)]


async def read(client: RawClient, path: str) -> JsonObject:
    (contents,) = as_list((await client.call("resources/read", {"uri": f"docs://d/{path}"}))["contents"])
    return as_object(contents)


async def check_not_found(client: RawClient, path: str) -> None:
    error = await client.fail("resources/read", {"uri": f"docs://d/{path}"})
    assert error["code"] in NOT_FOUND, error
    # A long URI is truncated.
    assert str(error["message"]).startswith(("resource not found: docs://d/", "resource not found: 'docs://d/"))


@ALL_REVISIONS
@pytest.mark.usefixtures("open_method")
@pytest.mark.spec(
    "resources.resource-shape", "resources.uri-unique", "resources.uris-distinct", "resources.list-served"
)
async def test_files_listed_with_metadata(root: Path, revision: Revision) -> None:
    for path in root.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    async with connected(make_server(root), revision) as client:
        first, second, third = await list_resources(client)
        expected: JsonObject = {"uri": "docs://d/a.txt", "name": "a.txt", "mimeType": "text/plain", "size": 6}
        modified: JsonObject = (
            {} if revision in (R2024_11_05, *before(R2025_06_18)) else {"lastModified": "2023-11-14T22:13:20Z"}
        )
        assert first == {**expected, "annotations": modified}
        assert (second["uri"], second["mimeType"]) == ("docs://d/sub/b.json", "application/json")
        assert (third["uri"], third.get("mimeType"), third["size"]) == ("docs://d/sub/deep/c", None, 2)
        (template,) = as_list((await client.call("resources/templates/list"))["resourceTemplates"])
        assert template == {"uriTemplate": "docs://d/{+path}", "name": "docs://d/", "description": "Files."}


def before(revision: Revision) -> list[Revision]:
    revisions = list(REVISIONS.values())
    return revisions[: revisions.index(revision)]


@ALL_REVISIONS
@pytest.mark.usefixtures("open_method")
@pytest.mark.spec(
    "resources.read-listed",
    "resources.read-result",
    "resources.text-only-if-text",
    "resources.text-only-for-text",
    "resources.binary-encoding",
    "resources.binary-encoded",
)
async def test_file_contents_are_text_or_blob(root: Path, revision: Revision) -> None:
    (root / "p.png").write_bytes(b"no picture")
    (root / "s.svg").write_text("<svg/>")
    (root / "t.tar.gz").write_bytes(b"\x1f\x8b")
    (root / "u.bin.zst").write_bytes(b"\xff")
    (root / "w.txt").write_bytes(b"a\x00b")
    async with connected(make_server(root), revision) as client:
        assert await read(client, "a.txt") == {"uri": "docs://d/a.txt", "text": "hällo", "mimeType": "text/plain"}
        assert await read(client, "sub/b.json") == {
            "uri": "docs://d/sub/b.json",
            "text": "{}",
            "mimeType": "application/json",
        }
        for path, data, mime_type in (
            ("sub/deep/c", b"\xff\x00", "application/octet-stream"),
            ("p.png", b"no picture", "image/png"),
            ("t.tar.gz", b"\x1f\x8b", "application/gzip"),
            ("w.txt", b"a\x00b", "text/plain"),
        ):
            blob = base64.b64encode(data).decode()
            assert await read(client, path) == {"uri": f"docs://d/{path}", "blob": blob, "mimeType": mime_type}
        assert (await read(client, "s.svg"))["text"] == "<svg/>"
        for each in await list_resources(client):
            await client.call("resources/read", {"uri": each["uri"]})


@pytest.mark.usefixtures("open_method")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "..",
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "%2e%2e%2fsecret.txt",
        "%252e%252e/secret.txt",
        "sub/../../secret.txt",
        "sub/..%5c..%5csecret.txt",
        "..\\secret.txt",
        "./a.txt",
        "sub//b.json",
        "sub/",
        "sub",
        "/a.txt",
        "%2fetc/passwd",
        "/etc/passwd",
        "C:/a.txt",
        "C:a.txt",
        "file:///etc/passwd",
        "a.txt%00",
        "a.txt%00.png",
        "a.txt/",
        "a.txt/.",
        "a.txt%20",
        "a.txt.",
        "a.txt::$DATA",
        "A.TXT",
        "Sub/b.json",
        "SUB~1/b.json",
        "~/a.txt",
        "a%cc%88.txt",
        "%ff",
        "%c0%ae%c0%ae/secret.txt",
        "%u002e",
        "%",
        "nosuch",
        "nosuch/a.txt",
        "a.txt/b",
        "x" * 5_000,
        "/".join(["sub"] * 100),
    ],
)
@pytest.mark.spec("resources.path-traversal", "resources.validate-uris", "resources.uri-validated")
async def test_invalid_path_not_found(path: str, root: Path) -> None:
    async with connected(make_server(root), R2026_07_28) as client:
        await check_not_found(client, path)


def link_outside(path: Path, root: Path) -> None:
    path.symlink_to(root.parent / "secret.txt")


def link_inside(path: Path, root: Path) -> None:
    path.symlink_to(root / "a.txt")


def link_relative(path: Path, root: Path) -> None:
    path.symlink_to("../secret.txt")


def link_loop(path: Path, root: Path) -> None:
    path.symlink_to(path.name)


def link_dangling(path: Path, root: Path) -> None:
    path.symlink_to(root / "nosuch")


def fifo(path: Path, root: Path) -> None:
    os.mkfifo(path)


def device(path: Path, root: Path) -> None:
    path.symlink_to("/dev/zero")


def local_socket(path: Path, root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@POSIX
@pytest.mark.usefixtures("open_method")
@pytest.mark.parametrize(
    "special", [link_outside, link_inside, link_relative, link_loop, link_dangling, fifo, device, local_socket]
)
async def test_special_file_not_listed_and_not_read(
    special: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The name of a socket must be short.
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "root"
        root.mkdir()
        (root / "a.txt").write_text("x")
        (root.parent / "secret.txt").write_text("secret")
        special(root / "special", root)
        async with connected(make_server(root), R2026_07_28) as client:
            assert await list_names(client) == ["a.txt"]
            await check_not_found(client, "special")


@POSIX
@pytest.mark.usefixtures("open_method")
async def test_symbolic_link_to_directory_not_followed(root: Path) -> None:
    (root / "out").symlink_to(root.parent / "beside")
    (root / "in").symlink_to(root / "sub")
    (root / "up").symlink_to("..")
    async with connected(make_server(root), R2026_07_28) as client:
        assert await list_names(client) == ["a.txt", "sub/b.json", "sub/deep/c"]
        for path in ("out/secret.txt", "in/b.json", "up/secret.txt", f"up/{root.name}/a.txt"):
            await check_not_found(client, path)


@POSIX
@pytest.mark.usefixtures("open_method")
@pytest.mark.parametrize("target", ["file", "directory", "fifo"])
async def test_file_replaced_during_lookup_not_read(target: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Files._entry

    def entry_then_swap(self: Files, folder: files_module._Folder, name: str) -> os.DirEntry[str]:
        entry = original(self, folder, name)
        if name == "a.txt" and target != "directory":
            # The file was a regular file, and is replaced.
            assert entry.is_file(follow_symlinks=False)
            (root / name).unlink()
            fifo(root / name, root) if target == "fifo" else link_outside(root / name, root)
        if name == "sub" and target == "directory":
            assert entry.is_dir(follow_symlinks=False)
            (root / "sub").rename(root / "old")
            (root.parent / "beside" / "b.json").write_text("secret")
            (root / "sub").symlink_to(root.parent / "beside")
        return entry

    monkeypatch.setattr(Files, "_entry", entry_then_swap)
    async with connected(make_server(root), R2026_07_28) as client:
        await check_not_found(client, "sub/b.json" if target == "directory" else "a.txt")


async def test_file_replaced_before_open_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "_BY_DESCRIPTOR", False)
    (root / "other.txt").write_text("other")
    original = os.open

    def entry_then_swap(path: str, flags: int, *more: int) -> int:
        opened = original(path, flags, *more)
        if path.endswith("a.txt"):
            (root / "other.txt").replace(path)
        return opened

    monkeypatch.setattr(os, "open", entry_then_swap)
    async with connected(make_server(root), R2026_07_28) as client:
        await check_not_found(client, "a.txt")


@POSIX
async def test_directory_replaced_before_open_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "_BY_DESCRIPTOR", False)
    (root.parent / "beside" / "b.json").write_text("secret")
    original = os.open

    def entry_then_swap(path: str, flags: int, *more: int) -> int:
        if path.endswith("b.json"):
            (root / "sub").rename(root / "old")
            (root / "sub").symlink_to(root.parent / "beside")
        return original(path, flags, *more)

    monkeypatch.setattr(os, "open", entry_then_swap)
    async with connected(make_server(root), R2026_07_28) as client:
        await check_not_found(client, "sub/b.json")


@pytest.mark.usefixtures("open_method")
async def test_root_directory_may_be_symbolic_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    async with connected(make_server(link), R2026_07_28) as client:
        assert (await read(client, "a.txt"))["text"] == "hällo"


@POSIX
@pytest.mark.usefixtures("open_method")
async def test_file_name_not_utf8_not_listed(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/\xff.txt")).write_text("x")
    Path(os.fsdecode(os.fsencode(root / "sub") + b"/c\x01.txt")).write_text("x")
    async with connected(make_server(root), R2026_07_28) as client:
        assert await list_names(client) == ["a.txt", "sub/b.json", "sub/deep/c"]
        await check_not_found(client, "%ff.txt")
        await check_not_found(client, "sub/c%01.txt")


@POSIX
@pytest.mark.usefixtures("open_method")
async def test_file_name_special_elsewhere_is_served_if_representable(root: Path) -> None:
    for name in ("a\\b", "C:x", "...", "x "):
        (root / name).write_text(name)
    async with connected(make_server(root, hidden=True), R2026_07_28) as client:
        assert await list_names(client) == ["a.txt", "a\\b", "sub/b.json", "sub/deep/c", "x "]
        assert (await read(client, "a%5Cb"))["text"] == "a\\b"
        await check_not_found(client, "C%3Ax")
        await check_not_found(client, "...")


@pytest.mark.usefixtures("open_method")
async def test_hidden_files_served_only_with_option(root: Path) -> None:
    (root / ".env").write_text("x")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("x")
    async with connected(make_server(root), R2026_07_28) as client:
        assert await list_names(client) == ["a.txt", "sub/b.json", "sub/deep/c"]
        for path in (".env", ".git/config", "%2eenv"):
            await check_not_found(client, path)
    async with connected(make_server(root, hidden=True), R2026_07_28) as client:
        assert await list_names(client) == [".env", ".git/config", "a.txt", "sub/b.json", "sub/deep/c"]
        assert (await read(client, ".git/config"))["text"] == "x"


@ALL_REVISIONS
@pytest.mark.usefixtures("open_method")
async def test_file_over_size_limit_rejected_before_read(root: Path, revision: Revision) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    (root / "fits").write_text("x" * 10)
    (root / "over").write_text("x" * 11)
    async with connected(make_server(root, limits=Limits(file_bytes=10)), revision) as client:
        assert (await read(client, "fits"))["text"] == "x" * 10
        for path, size in (("over", 11), ("huge", 1 << 40)):
            error = await client.fail("resources/read", {"uri": f"docs://d/{path}"})
            assert error["code"] == ErrorCode.INVALID_REQUEST
            assert error["message"] == (
                f"bytes of {path}: {size} is over the limit of 10; the setting is Limits.file_bytes"
            )


def test_growing_file_not_read_beyond_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = (root / "a.txt").stat()
    (root / "a.txt").write_text("x" * 100)
    monkeypatch.setattr(os, "fstat", lambda _: status)
    with pytest.raises(LimitExceeded, match="7 is over the limit of 6"):
        Files(str(root), hidden=False).read("a.txt", 6)


@POSIX
@pytest.mark.usefixtures("open_method")
async def test_unreadable_file_not_found_and_logged(
    root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_read(*_: object, **__: object) -> Files:
        raise PermissionError("swordfish")

    async with connected(make_server(root), R2026_07_28) as client:
        monkeypatch.setattr(Files, "read", fail_to_read)
        error = await client.fail("resources/read", {"uri": "docs://d/a.txt"})
        assert error["message"] == "resource not found: docs://d/a.txt"
    assert "docs://d/a.txt cannot be read: swordfish" in caplog.text


@POSIX
async def test_unreadable_directory_is_skipped(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.open

    def deny_sub(path: str, *more: int, dir_fd: int | None = None) -> int:
        if path == "sub":
            raise PermissionError(path)
        return original(path, *more, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", deny_sub)
    async with connected(make_server(root), R2026_07_28) as client:
        assert await list_names(client) == ["a.txt"]


# --- lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("open_method")
async def test_listing_stops_at_entry_limit_and_warns(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(20):
        (root / "sub" / f"n{number:02}").write_text("x")
    async with connected(make_server(root, limits=Limits(listed_files=8)), R2026_07_28) as client:
        # a.txt, sub, b.json, deep, c, and three more.
        assert await list_names(client) == ["a.txt", "sub/b.json", "sub/deep/c", "sub/n00", "sub/n01", "sub/n02"]
        await list_names(client)
        assert (await read(client, "sub/n19"))["text"] == "x"
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.getMessage() == "not all files of docs://d/ are listed: it has more than 8 (Limits.listed_files)"


async def test_listing_at_entry_limit_does_not_warn(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(make_server(root, limits=Limits(listed_files=5)), R2026_07_28) as client:
        assert len(await list_names(client)) == 3
    assert not caplog.records


@pytest.mark.parametrize("page_items", [1, 2, 5, 100])
async def test_files_are_paginated_after_registered_resources(page_items: int, root: Path) -> None:
    # It follows the files of `sub`, although its name sorts before `sub/`.
    (root / "sub-x").write_text("x")
    server = make_server(root, limits=Limits(page_items=page_items))
    server.add_directory(root / "sub", "docs://e/")
    for name in ("z", "y"):
        server.add_resource(lambda: "x", f"x:{name}", name=name)
    async with connected(server, R2025_11_25) as client:
        assert await list_names(client) == ["z", "y", "a.txt", "sub/b.json", "sub/deep/c", "sub-x", "b.json", "deep/c"]


async def test_changes_between_pages_shift_no_other_files(root: Path) -> None:
    for name in ("b", "d", "f"):
        (root / name).write_text("x")
    server = make_server(root, limits=Limits(page_items=3))
    async with connected(server, R2026_07_28) as client:
        first = await client.call("resources/list")
        assert [as_object(each)["name"] for each in as_list(first["resources"])] == ["a.txt", "b", "d"]
        (root / "a.txt").unlink()
        (root / "d").unlink()
        (root / "c").write_text("x")
        (root / "e").write_text("x")
        second = await client.call("resources/list", {"cursor": first["nextCursor"]})
        assert [as_object(each)["name"] for each in as_list(second["resources"])] == ["e", "f", "sub/b.json"]
        server.remove_resource("docs://d/")
        server.add_resource(lambda: "x", "a:b")
        # The cursor points into a removed directory, whether other directories exist or not.
        error = await client.fail("resources/list", {"cursor": first["nextCursor"]})
        assert error["code"] == ErrorCode.INVALID_PARAMS
        server.add_directory(root, "docs://e/")
        error = await client.fail("resources/list", {"cursor": first["nextCursor"]})
        assert error["code"] == ErrorCode.INVALID_PARAMS


# No separators, no drives and no names of dots only: the files of this test must be inside of its folder.
NAMES = st.text("ab.-~ %?#ä", min_size=1, max_size=4).filter(lambda name: name.strip("."))


@given(st.lists(st.lists(NAMES, min_size=1, max_size=3), max_size=6))
@settings(max_examples=50, deadline=None)
@pytest.mark.property
async def test_generated_files_are_listed_and_readable(paths: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for segments in paths:
            path = Path(folder, *segments)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("/".join(segments))
            except OSError:
                continue
        async with connected(make_server(Path(folder), hidden=True), R2026_07_28) as client:
            found = await list_resources(client)
            assert len({str(each["uri"]) for each in found}) == len(found)
            for each in found:
                result = await client.call("resources/read", {"uri": each["uri"]})
                (contents,) = as_list(result["contents"])
                assert as_object(contents)["uri"] == each["uri"]


# --- registration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "uri", "message"),
    [
        ("nosuch", "docs://d/", "cannot be served as 'docs://d/'"),
        ("a.txt", "docs://d/", "is not a directory"),
        (".", "docs://d", "must end in a slash"),
        (".", "docs://{x}/", "have no variables"),
        (".", "docs://}/", "cannot be served as 'docs://}/'"),
        (".", "docs/", "has no scheme"),
    ],
)
def test_add_directory_invalid_raises(path: str, uri: str, message: str, root: Path) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s", version="0").add_directory(root / path, uri)


async def test_add_directory_twice_raises_and_can_be_removed(root: Path) -> None:
    server = make_server(root)
    with pytest.raises(RegistrationError, match="there is already a resource 'docs://d/"):
        server.add_directory(root, "docs://d/")

    def by_id(id: str) -> str:
        return id

    server.add_resource(by_id, "x:{id}")
    with pytest.raises(RegistrationError, match="no resource 'x:' to remove"):
        server.remove_resource("x:")
    async with connected(server, R2026_07_28) as client:
        server.remove_resource("docs://d/")
        assert await list_resources(client) == []
        await check_not_found(client, "a.txt")
    server.add_directory(root, "docs://d/", name="d", title="D")
    (template,) = [each for each in server.offered()["resource_templates"] if "docs" in str(each)]
    assert "title='D'" in repr(template)
    server.remove_resource("docs://d/{+path}")
    with pytest.raises(RegistrationError, match="no resource"):
        server.remove_resource("docs://d/")


@pytest.mark.spec("schema.annotations-timestamp")
@pytest.mark.parametrize(("seconds", "text"), [(0, "1970-01-01T00:00:00Z"), (1e18, None), (-1e18, None)])
def test_timestamp_out_of_range_is_omitted(seconds: float, text: str | None) -> None:
    assert directory_module._time(seconds) == text


@pytest.fixture(autouse=True)
def _no_descriptor_is_left_open() -> Iterator[None]:
    folder = Path("/proc/self/fd")
    before = len(list(folder.iterdir())) if folder.exists() else 0
    yield
    assert not folder.exists() or len(list(folder.iterdir())) <= before


async def test_deleted_directory_does_not_hide_other_resources(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = make_server(root)

    @server.resource("other://one")
    def one() -> str:
        return "one"

    async with connected(server, R2026_07_28) as client:
        shutil.rmtree(root)
        assert [resource["uri"] for resource in await list_resources(client)] == ["other://one"]
    assert "the files of docs://d/ cannot be listed" in caplog.text
