"""Skills of valid and of invalid servers."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from mcp_client import Client, open_http
from mcp_client.skills import (
    LoadedSkill,
    SkillChanged,
    SkillRefused,
    approval,
    get_skill,
    list_skills,
    load_skill,
    read_directory,
)
from mcp_client.testing import open_in_memory
from mcp_core.errors import ErrorCode, LocalProtocolError, RequestFailed, ResourceNotFound
from mcp_core.features.skills import MAX_SKILL_BYTES, digest
from mcp_core.limits import Limits
from mcp_core.methods import SKILLS_GET, SKILLS_LIST
from mcp_core.revisions import LATEST_LEGACY
from mcp_core.types import BlobResourceContents, ReadResourceResult, ResourceContents, TextResourceContents
from mcp_core.types.skills import (
    SKILLS_EXTENSION,
    GetSkillRequestParams,
    GetSkillResult,
    ListSkillsRequestParams,
    ListSkillsResult,
    Skill,
    SkillResource,
)
from mcp_server import Context, Server, serve_http, serve_stream
from mcp_server import skills as skills_of_server
from mcp_server.skills import Skills

MAIN = "---\nname: tidy\ndescription: Tidies up.\nallowed-tools: Bash\n---\n# Tidy\n\nRead references/GUIDE.md.\n"
URI = "skill://tidy/SKILL.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    skill_folder = tmp_path / "skills" / "tidy"
    (skill_folder / "references").mkdir(parents=True)
    (skill_folder / "SKILL.md").write_text(MAIN, newline="")
    (skill_folder / "references" / "GUIDE ä.md").write_bytes("# Güide\r\n".encode())
    (skill_folder / "logo.png").write_bytes(b"\x89PNG\x00")
    (skill_folder / "nested").mkdir()
    (skill_folder / "nested" / "SKILL.md").write_text("---\nname: nested\ndescription: Within.\n---\n")
    return skill_folder


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Client]:
    async with open_in_memory(lambda stream: serve_stream(server, stream)) as client:
        yield client


def make_server(folder: Path) -> Server:
    server = Server("docs", version="1")
    Skills(server).add(folder.parent)
    return server


class InvalidServer:
    """A server whose skill entry and files a test sets independently."""

    def __init__(self) -> None:
        self.entry = entry()
        self.files: dict[str, object] = {URI: MAIN}
        self.reads: list[str] = []
        server = self.server = Server("rogue", version="1")
        server.extension(SKILLS_EXTENSION)

        @server.resource("skill://{+path}")
        async def read(path: str) -> ReadResourceResult:
            uri = f"skill://{path}"
            self.reads.append(uri)
            if uri not in self.files:
                raise ResourceNotFound.of(uri)
            contents = self.files[uri]
            return ReadResourceResult(
                contents=contents if isinstance(contents, tuple) else (as_contents(uri, contents),)
            )

        @server.method(SKILLS_LIST)
        async def list_them(_: ListSkillsRequestParams, __: Context) -> ListSkillsResult:
            return ListSkillsResult(skills=(self.entry,))

        @server.method(SKILLS_GET)
        async def get_one(_: GetSkillRequestParams, __: Context) -> GetSkillResult:
            return GetSkillResult(skill=self.entry)

    def add_file(self, path: str, data: bytes) -> None:
        """Add a file to the entry."""
        assert self.entry.resources != "dynamic"
        file = SkillResource(uri=f"skill://tidy/{path}", digest=digest(data), size=len(data))
        self.entry = attrs.evolve(self.entry, resources=(*self.entry.resources, file))


def as_contents(uri: str, value: object) -> ResourceContents:
    if isinstance(value, str):
        return TextResourceContents(uri=uri, text=value)
    assert isinstance(value, bytes)
    return BlobResourceContents.of_bytes(uri, value)


def entry(text: str = MAIN) -> Skill:
    data = text.encode()
    front = {"name": "tidy", "description": "Tidies up.", "allowed-tools": "Bash"}
    return Skill(
        uri=URI,
        frontmatter={**front},
        resources=(SkillResource(uri=URI, digest=digest(data), size=len(data)),),
    )


# --- valid servers -----------------------------------------------------------------------------------------------------


async def test_skills_listed_and_loaded(folder: Path) -> None:
    async with connected(make_server(folder)) as client:
        tidy, nested = await list_skills(client)
        assert (tidy.uri, nested.uri) == (URI, "skill://tidy/nested/SKILL.md")
        assert await get_skill(client, URI) == tidy
        loaded = await load_skill(client, tidy, origin="docs-server")
        assert loaded.entry is tidy
        assert loaded.text == MAIN
        assert loaded.instructions == "# Tidy\n\nRead references/GUIDE.md.\n"
        assert (await load_skill(client, nested, origin="docs-server")).instructions == ""


@pytest.mark.spec(
    "skills.get-uri",
    "skills.load-by-uri",
    "skills.no-reads-elsewhere",
    "skills.reads-bound-to-origin",
    "skills.relative-references",
)
async def test_skill_file_read_by_path_and_uri(folder: Path) -> None:
    async with connected(make_server(folder)) as client:
        loaded = await load_skill(client, await get_skill(client, URI), origin="docs-server")
        for reference in (
            "references/GUIDE ä.md",
            "references/GUIDE%20%C3%A4.md",
            "./nested/../references/GUIDE ä.md",
            "skill://tidy/references/GUIDE%20%C3%A4.md",
        ):
            assert await loaded.read(reference) == "# Güide\r\n".encode()
        assert await loaded.read("logo.png") == b"\x89PNG\x00"
        assert b"Within." in await loaded.read("nested/SKILL.md")


@pytest.mark.spec("skills.directory-pages", "skills.list-pages")
async def test_skills_and_directory_on_several_pages_are_complete(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skills_of_server, "_PAGE_BYTES", 1)
    server = Server("docs", version="1", limits=Limits(page_items=1))
    Skills(server).add(folder.parent)
    async with connected(server) as client:
        assert [skill.frontmatter["name"] for skill in await list_skills(client)] == ["tidy", "nested"]
        assert len(await read_directory(client, "skill://tidy")) == 4


async def test_directory_read(folder: Path) -> None:
    async with connected(make_server(folder)) as client:
        children = await read_directory(client, "skill://tidy")
        assert [(each.name, each.mime_type) for each in children] == [
            ("SKILL.md", "text/markdown"),
            ("logo.png", "image/png"),
            ("nested", "inode/directory"),
            ("references", "inode/directory"),
        ]
        with pytest.raises(RequestFailed, match="not a directory") as caught:
            await read_directory(client, URI)
        assert caught.value.code == ErrorCode.INVALID_PARAMS


async def test_skills_over_http_loaded(folder: Path, autojump_clock: trio.abc.Clock) -> None:
    async with trio.open_nursery() as nursery:
        (url, *_) = await nursery.start(partial(serve_http, make_server(folder), "127.0.0.1:0"))
        async with open_http(url) as client:
            tidy, _ = await list_skills(client)
            assert (await load_skill(client, await get_skill(client, tidy.uri), origin="web")).text == MAIN
            assert len(await read_directory(client, "skill://tidy")) == 4
        nursery.cancel_scope.cancel()


@pytest.mark.spec("skills.only-declared")
async def test_server_without_skills_extension_rejected() -> None:
    async with connected(Server("plain", version="1")) as client:
        for operation in (list_skills(client), get_skill(client, URI), read_directory(client, "skill://tidy")):
            with pytest.raises(LocalProtocolError, match="does not offer extensions"):
                await operation


@pytest.mark.spec("skills.directory-only-declared")
async def test_read_directory_undeclared_rejected() -> None:
    async with connected(InvalidServer().server) as client:
        with pytest.raises(LocalProtocolError, match="directoryRead"):
            await read_directory(client, "skill://tidy")


async def test_legacy_server_list_skills_rejected(folder: Path) -> None:
    server = make_server(folder)
    async with open_in_memory(lambda stream: serve_stream(server, stream), revisions=[LATEST_LEGACY]) as client:
        with pytest.raises(LocalProtocolError, match="skills/list"):
            await list_skills(client)


@pytest.mark.spec("skills.no-prefetch", "skills.cached")
async def test_skill_files_fetched_on_demand_once() -> None:
    server_with_skill = InvalidServer()
    server_with_skill.add_file("a.md", b"a")
    server_with_skill.files["skill://tidy/a.md"] = "a"
    async with connected(server_with_skill.server) as client:
        (skill,) = await list_skills(client)
        approval("rogue", skill)
        assert server_with_skill.reads == []
        loaded = await load_skill(client, skill, origin="rogue")
        assert server_with_skill.reads == [URI]
        assert await loaded.read("a.md") == await loaded.read("a.md") == b"a"
        assert await loaded.read("SKILL.md") == MAIN.encode()
        assert server_with_skill.reads == [URI, "skill://tidy/a.md"]


# --- presentation to models and users ----------------------------------------------------------------------------------


@pytest.mark.spec("skills.origin-tagged", "skills.not-like-local")
async def test_marked_text_has_origin_and_unforgeable_end() -> None:
    server_with_skill = InvalidServer()
    async with connected(server_with_skill.server) as client:
        loaded = await load_skill(client, server_with_skill.entry, origin="my label")
        first, second = loaded.marked(), loaded.marked()
        assert first != second
        head, *_, end = first.rstrip("\n").split("\n")
        assert "'my label'" in head
        assert URI in head
        assert end in head
        assert MAIN in first
        assert end not in MAIN


@pytest.mark.spec(
    "skills.approval-bound",
    "skills.approval-revoked",
    "skills.dynamic-unbound",
    "skills.identity-pair",
    "skills.identity-not-uri",
)
def test_approval_depends_on_server_and_files() -> None:
    server_with_skill = InvalidServer()
    before = approval("one", server_with_skill.entry)
    assert before == approval("one", attrs.evolve(server_with_skill.entry, frontmatter={}))
    assert before != approval("two", server_with_skill.entry)
    assert before != approval("one", entry(MAIN + "x"))
    assert before != approval("one", attrs.evolve(server_with_skill.entry, uri="skill://other/tidy/SKILL.md"))
    server_with_skill.add_file("a.md", b"a")
    after = approval("one", server_with_skill.entry)
    assert before != after
    assert server_with_skill.entry.resources != "dynamic"
    assert after == approval(
        "one", attrs.evolve(server_with_skill.entry, resources=tuple(reversed(server_with_skill.entry.resources)))
    )
    assert approval("one", attrs.evolve(server_with_skill.entry, resources="dynamic")) is None


# --- invalid servers ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("skills.invalid-resources-rejected")
@pytest.mark.spec("capability.extension-data-untrusted")
async def test_entry_invalid_refused() -> None:
    server_with_skill = InvalidServer()
    server_with_skill.add_file("../other/SKILL.md", b"")
    async with connected(server_with_skill.server) as client:
        (skill,) = await list_skills(client)
        with pytest.raises(SkillRefused, match=r"skill://tidy/SKILL.md of rogue is not loaded: .* is not within"):
            await load_skill(client, skill, origin="rogue")
        assert server_with_skill.reads == []


def two(uri: str) -> tuple[ResourceContents, ...]:
    return TextResourceContents(uri=uri, text=MAIN), TextResourceContents(uri=uri, text=MAIN)


@pytest.mark.spec("skills.digest-verified", "skills.size-verified", "skills.unverified-unused")
@pytest.mark.parametrize(
    ("served", "problem"),
    [
        (MAIN.replace("Tidy", "Ruin"), "its size or its digest"),
        (MAIN + " ", "its size or its digest"),
        ("", "its size or its digest"),
        (MAIN.replace("\n", "\r\n"), "its size or its digest"),
        (base64.b64encode(b"x" * 1_000), "decoded base64"),
        ((), "0 contents"),
        (two(URI), "2 contents"),
        ((BlobResourceContents(uri=URI, blob="!"),), "not base64"),
    ],
    ids=["same size", "longer", "empty", "line ends", "large", "none", "two", "no base64"],
)
async def test_skill_differing_from_entry_raises(served: object, problem: str) -> None:
    server_with_skill = InvalidServer()
    server_with_skill.files[URI] = served
    async with connected(server_with_skill.server) as client:
        with pytest.raises(SkillChanged, match=problem):
            await load_skill(client, server_with_skill.entry, origin="rogue")


async def test_skill_as_blob_loaded() -> None:
    server_with_skill = InvalidServer()
    server_with_skill.files[URI] = MAIN.encode()
    async with connected(server_with_skill.server) as client:
        assert (await load_skill(client, server_with_skill.entry, origin="rogue")).text == MAIN


def with_front(front: str) -> str:
    return f"---\n{front}---\n# Tidy\n"


@pytest.mark.spec("skills.front-matter-compared", "skills.front-matter-differs-unloaded")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (with_front("name: tidy\ndescription: Tidies up.\n"), "front matter is not the one"),
        (with_front("name: tidy\ndescription: Tidies up.\nallowed-tools: Bash Write\n"), "front matter is not the one"),
        (
            with_front("name: tidy\ndescription: Tidies up.\nallowed-tools: Bash\nhooks: x\n"),
            "front matter is not the one",
        ),
        ("# No front matter", "front matter cannot be read"),
        (with_front("name: [\n"), "front matter cannot be read"),
        ("---\nname: \udc80\n---\n", "front matter cannot be read"),
    ],
)
async def test_front_matter_differing_from_entry_raises(text: str, problem: str) -> None:
    server_with_skill = InvalidServer()
    data = text.encode(errors="surrogateescape")
    server_with_skill.files[URI] = data
    server_with_skill.entry = attrs.evolve(
        entry(), resources=(SkillResource(uri=URI, digest=digest(data), size=len(data)),)
    )
    async with connected(server_with_skill.server) as client:
        with pytest.raises(SkillChanged, match=problem):
            await load_skill(client, server_with_skill.entry, origin="rogue")


@pytest.mark.spec(
    "skills.only-listed-read",
    "skills.unlisted-is-failure",
    "skills.directory-file-unread",
    "skills.directory-no-manifest",
)
async def test_skill_file_unlisted_or_changed_raises() -> None:
    server_with_skill = InvalidServer()
    server_with_skill.add_file("a.md", b"a")
    server_with_skill.add_file("gone.md", b"a")
    server_with_skill.files |= {"skill://tidy/a.md": "b", "skill://tidy/new.md": "new", "skill://other/x.md": "x"}
    async with connected(server_with_skill.server) as client:
        loaded = await load_skill(client, server_with_skill.entry, origin="rogue")
        for reference, problem in (
            ("a.md", "its size or its digest"),
            ("new.md", "not among the files"),
            ("../other/x.md", "leads out of the skill"),
            ("skill://other/x.md", "leads out of the skill"),
        ):
            with pytest.raises(SkillChanged, match=problem):
                await loaded.read(reference)
        with pytest.raises(ResourceNotFound):
            await loaded.read("gone.md")
        assert server_with_skill.reads == [URI, "skill://tidy/a.md", "skill://tidy/gone.md"]


async def test_skill_cached_version_outdated_read_again() -> None:
    server_with_skill = InvalidServer()
    server_with_skill.server.remove_resource("skill://{+path}")

    @server_with_skill.server.resource(URI)
    async def main() -> ReadResourceResult:
        return ReadResourceResult(
            contents=(TextResourceContents(uri=URI, text=str(server_with_skill.files[URI])),), ttl_ms=1_000_000
        )

    async with connected(server_with_skill.server) as client:
        await client.read_resource(URI)
        changed = MAIN + "More.\n"
        server_with_skill.files[URI] = changed
        assert (await load_skill(client, entry(changed), origin="rogue")).text == changed


# --- dynamic skills ----------------------------------------------------------------------------------------------------


@pytest.fixture
def dynamic() -> InvalidServer:
    server_with_skill = InvalidServer()
    server_with_skill.entry = attrs.evolve(server_with_skill.entry, resources="dynamic")
    return server_with_skill


async def test_dynamic_skill_loaded_only_when_allowed(dynamic: InvalidServer) -> None:
    dynamic.files["skill://tidy/a b.md"] = "a"
    async with connected(dynamic.server) as client:
        (skill,) = await list_skills(client)
        assert skill.resources == "dynamic"
        with pytest.raises(SkillRefused, match="cannot be verified"):
            await load_skill(client, skill, origin="rogue")
        loaded = await load_skill(client, skill, origin="rogue", dynamic=True)
        assert await loaded.read("a b.md") == b"a"
        with pytest.raises(SkillChanged, match="leads out"):
            await loaded.read("skill://other/x")
        dynamic.files[URI] = MAIN.replace("Bash", "Write")
        with pytest.raises(SkillChanged, match="front matter is not the one"):
            await load_skill(client, skill, origin="rogue", dynamic=True)


@pytest.mark.parametrize("form", [str, str.encode], ids=["text", "bytes"])
async def test_dynamic_skill_files_over_limit_raise(
    dynamic: InvalidServer, form: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_client.skills.MAX_SKILL_BYTES", len(MAIN) + 100)
    dynamic.files |= {f"skill://tidy/{name}": form("x" * 60) for name in ("a", "b")}
    async with connected(dynamic.server) as client:
        loaded = await load_skill(client, dynamic.entry, origin="rogue", dynamic=True)
        assert isinstance(loaded, LoadedSkill)
        await loaded.read("a")
        with pytest.raises(SkillChanged, match=r"more than|decoded base64"):
            await loaded.read("b")
    assert MAX_SKILL_BYTES == 16 * 1024 * 1024
