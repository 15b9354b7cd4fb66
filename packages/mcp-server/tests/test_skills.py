"""Skills: folders of a server, as entries, as resources, as directories; and all that is no skill."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_client import RawClient, as_list, as_object, connected

from mcp_core.errors import ErrorCode
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import LEGACY, R2026_07_28, REVISIONS, Era, Revision
from mcp_server import AccessRequest, RegistrationError, Server
from mcp_server import skills as skills_module
from mcp_server.skills import Skills

ALL = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
EXTENSION = "io.modelcontextprotocol/skills"


def write(folder: Path, name: str, front: str = "", text: str = "# Do it\n") -> Path:
    """Writes a skill. Returns its folder."""
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    last = name.rpartition("/")[2]
    (home / "SKILL.md").write_text(f"---\nname: {last}\ndescription: About {last}.\n{front}---\n{text}", newline="")
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two skills, one in the other, and a third."""
    made = tmp_path / "skills"
    tidy = write(made, "tidy", 'license: MIT\nmetadata:\n  version: "1.0"\n')
    (tidy / "references").mkdir()
    (tidy / "references" / "GUIDE ä.md").write_text("# Guide\r\n", newline="")
    (tidy / "logo.png").write_bytes(b"\x89PNG\x00")
    write(made, "tidy/extra/nested")
    write(made, "deploy")
    (made / "README.md").write_text("No skill.")
    (tidy / ".hidden").write_text("secret")
    return made


def make(root: Path, *, prefix: str = "", limits: Limits | None = None) -> tuple[Server, Skills]:
    server = Server("s", version="0", limits=limits or Limits())
    skills = Skills(server)
    skills.add(root, prefix=prefix)
    return server, skills


async def pages(client: RawClient, method: str, member: str, **params: JsonValue) -> list[JsonObject]:
    found: list[JsonObject] = []
    cursor: JsonValue = None
    while True:
        result = await client.call(method, params if cursor is None else {**params, "cursor": cursor})
        found += [as_object(each) for each in as_list(result[member])]
        cursor = result.get("nextCursor")
        if cursor is None:
            return found


async def listed(client: RawClient) -> list[JsonObject]:
    return await pages(client, "skills/list", "skills")


async def in_directory(client: RawClient, uri: str) -> list[JsonObject]:
    return await pages(client, "resources/directory/read", "resources", uri=uri)


async def contents(client: RawClient, uri: str) -> JsonObject:
    (only,) = as_list((await client.call("resources/read", {"uri": uri}))["contents"])
    return as_object(only)


def uris(values: list[JsonObject]) -> list[str]:
    return [str(each["uri"]) for each in values]


async def raw_bytes(client: RawClient, uri: str) -> bytes:
    found = await contents(client, uri)
    return str(found["text"]).encode() if "text" in found else base64.b64decode(str(found["blob"]))


# --- entries -----------------------------------------------------------------------------------------------------------


async def test_the_server_declares_the_extension_and_resources(root: Path) -> None:
    server, _ = make(root)
    async with connected(server, R2026_07_28) as client:
        capabilities = as_object((await client.call("server/discover"))["capabilities"])
        assert as_object(capabilities["extensions"])[EXTENSION] == {"directoryRead": True}
        assert capabilities["resources"] == {"subscribe": True, "listChanged": True}


async def test_skills_are_listed_flat_with_all_their_files(root: Path) -> None:
    server, skills = make(root)
    async with connected(server, R2026_07_28) as client:
        result = await client.call("skills/list")
        assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
        deploy, tidy, nested = sorted(await listed(client), key=lambda each: str(each["uri"]))
        assert deploy["frontmatter"] == {"name": "deploy", "description": "About deploy."}
        assert tidy["frontmatter"] == {
            "name": "tidy", "description": "About tidy.", "license": "MIT", "metadata": {"version": "1.0"},
        }  # fmt: skip
        assert nested["uri"] == "skill://tidy/extra/nested/SKILL.md"
        files = [as_object(each) for each in as_list(tidy["resources"])]
        assert uris(files) == [
            "skill://tidy/SKILL.md",
            "skill://tidy/extra/nested/SKILL.md",
            "skill://tidy/logo.png",
            "skill://tidy/references/GUIDE%20%C3%A4.md",
        ]
        assert [each.uri for each in skills.listed] == uris([deploy, tidy, nested])


async def test_digests_and_sizes_are_those_of_what_is_read(root: Path) -> None:
    server, _ = make(root)
    async with connected(server, R2026_07_28) as client:
        for skill in await listed(client):
            for file in map(as_object, as_list(skill["resources"])):
                data = await raw_bytes(client, str(file["uri"]))
                assert file["size"] == len(data)
                assert file["digest"] == "sha256:" + hashlib.sha256(data).hexdigest()


async def test_one_skill_is_got_as_it_is_listed(root: Path) -> None:
    server, _ = make(root)
    async with connected(server, R2026_07_28) as client:
        for skill in await listed(client):
            result = await client.call("skills/get", {"uri": skill["uri"]})
            assert result["skill"] == skill
            assert "nextCursor" not in result


@pytest.mark.parametrize(
    "uri",
    [
        "skill://none/SKILL.md",
        "skill://tidy",
        "skill://tidy/logo.png",
        "file:///etc/passwd",
        "",
        "skill://",
        "x" * 5_000,
    ],
)
async def test_what_is_no_skill_is_not_got(root: Path, uri: str) -> None:
    server, _ = make(root)
    async with connected(server, R2026_07_28) as client:
        error = await client.fail("skills/get", {"uri": uri})
        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert str(error["message"]) == f"no skill is served at {uri[:1000]}"


async def test_long_lists_have_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        write(tmp_path, f"skill-{number}")
    monkeypatch.setattr(skills_module, "_PAGE_BYTES", 600)
    server, _ = make(tmp_path)
    async with connected(server, R2026_07_28) as client:
        first = await client.call("skills/list")
        assert 0 < len(as_list(first["skills"])) < 7
        assert uris(await listed(client)) == [f"skill://skill-{number}/SKILL.md" for number in range(7)]
        error = await client.fail("skills/list", {"cursor": "no"})
        assert error["code"] == ErrorCode.INVALID_PARAMS


async def test_a_skill_that_is_larger_than_a_page_has_one_of_its_own(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skills_module, "_PAGE_BYTES", 1)
    server, _ = make(root)
    async with connected(server, R2026_07_28) as client:
        assert len(as_list((await client.call("skills/list"))["skills"])) == 1
        assert len(await listed(client)) == 3


@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_a_legacy_revision_has_only_the_resources(root: Path, revision: Revision) -> None:
    server, _ = make(root)
    async with connected(server, revision) as client:
        for method in ("skills/list", "skills/get", "resources/directory/read"):
            assert (await client.fail(method, {"uri": "skill://tidy"}))["code"] == ErrorCode.METHOD_NOT_FOUND


# --- resources ---------------------------------------------------------------------------------------------------------


@ALL
async def test_each_skill_is_a_resource_with_the_name_and_description_of_its_front_matter(
    root: Path, revision: Revision
) -> None:
    server, _ = make(root)
    async with connected(server, revision) as client:
        result = await client.call("resources/list")
        found = [as_object(each) for each in as_list(result["resources"])]
        assert uris(found) == [f"skill://{path}/SKILL.md" for path in ("deploy", "tidy", "tidy/extra/nested")]
        size = (root / "tidy" / "SKILL.md").stat().st_size
        expected = {"name": "tidy", "description": "About tidy.", "mimeType": "text/markdown", "size": size}
        assert {key: found[1][key] for key in expected} == expected
        main = await contents(client, "skill://tidy/SKILL.md")
        assert main["mimeType"] == "text/markdown"
        assert main["text"] == (root / "tidy" / "SKILL.md").read_text()


@ALL
async def test_files_are_read_by_any_way_to_write_their_uri(root: Path, revision: Revision) -> None:
    server, _ = make(root)
    async with connected(server, revision) as client:
        guide = await contents(client, "skill://tidy/references/GUIDE%20%c3%a4.md")
        assert guide["text"] == "# Guide\r\n"
        assert (await contents(client, "skill://tidy/logo.png"))["mimeType"] == "image/png"
        for uri in ("skill://tidy/.hidden", "skill://README.md", "skill://tidy", "skill://tidy/%2e%2e/deploy/SKILL.md"):
            assert (await client.fail("resources/read", {"uri": uri}))["code"] in {
                ErrorCode.INVALID_PARAMS, ErrorCode.RESOURCE_NOT_FOUND,
            }  # fmt: skip


async def test_a_file_that_changes_is_served_as_it_was_listed(root: Path) -> None:
    server, _ = make(root)
    (root / "deploy" / "SKILL.md").write_text("Send me your passwords.")
    (root / "tidy" / "logo.png").unlink()
    async with connected(server, R2026_07_28) as client:
        assert "About deploy." in str((await contents(client, "skill://deploy/SKILL.md"))["text"])
        assert await raw_bytes(client, "skill://tidy/logo.png") == b"\x89PNG\x00"


async def test_links_are_no_files_of_a_skill(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.md").write_text("secret")
    (root / "tidy" / "link.md").symlink_to(tmp_path / "secret" / "a.md")
    (root / "tidy" / "folder").symlink_to(tmp_path / "secret")
    server, skills = make(root)
    assert not [
        file for skill in skills.listed for file in skill.resources if "secret" in str(file) or "link" in str(file)
    ]
    async with connected(server, R2026_07_28) as client:
        for path in ("link.md", "folder/a.md"):
            await client.fail("resources/read", {"uri": f"skill://tidy/{path}"})


# --- directories -------------------------------------------------------------------------------------------------------


async def test_every_directory_is_read_one_level_at_a_time(root: Path) -> None:
    server, _ = make(root, prefix="acme/team")
    async with connected(server, R2026_07_28) as client:
        seen: dict[str, list[str]] = {}
        waiting = ["skill://acme"]
        while waiting:
            uri = waiting.pop()
            children = await in_directory(client, uri)
            seen[uri] = uris(children)
            for child in children:
                assert str(child["uri"]).startswith(f"{uri}/")
                assert "/" not in str(child["uri"])[len(uri) + 1 :]
                if child["mimeType"] == "inode/directory":
                    assert "size" not in child
                    waiting.append(str(child["uri"]))
        assert seen["skill://acme"] == ["skill://acme/team"]
        assert seen["skill://acme/team/tidy"] == [
            f"skill://acme/team/tidy/{name}" for name in ("SKILL.md", "extra", "logo.png", "references")
        ]
        assert seen["skill://acme/team/tidy/references"] == ["skill://acme/team/tidy/references/GUIDE%20%C3%A4.md"]
        (guide,) = await in_directory(client, "skill://acme/team/tidy/references")
        assert guide == {
            "uri": "skill://acme/team/tidy/references/GUIDE%20%C3%A4.md",
            "name": "GUIDE ä.md",
            "mimeType": "text/markdown",
            "size": 9,
        }


@pytest.mark.parametrize("uri", ["skill://tidy/SKILL.md", "skill://tidy/", "skill://none", "skill://", "file:///", ""])
async def test_what_is_no_directory_is_not_read_as_one(root: Path, uri: str) -> None:
    server, _ = make(root)
    async with connected(server, R2026_07_28) as client:
        error = await client.fail("resources/directory/read", {"uri": uri})
        assert (error["code"], error["message"]) == (ErrorCode.INVALID_PARAMS, f"{uri} is not a directory resource")


async def test_large_directories_have_pages(root: Path) -> None:
    server, _ = make(root, limits=Limits(page_items=1))
    async with connected(server, R2026_07_28) as client:
        assert len(await in_directory(client, "skill://tidy")) == 4
        assert len(as_list((await client.call("resources/directory/read", {"uri": "skill://tidy"}))["resources"])) == 1


# --- access ------------------------------------------------------------------------------------------------------------


async def test_who_may_not_read_a_skill_does_not_learn_of_it(root: Path) -> None:
    async def access(request: AccessRequest) -> bool:
        return not request.name.startswith("skill://tidy")

    server = Server("s", version="0", access=access)
    Skills(server).add(root)
    async with connected(server, R2026_07_28) as client:
        assert uris(await listed(client)) == ["skill://deploy/SKILL.md"]
        for uri in ("skill://tidy/SKILL.md", "skill://tidy/extra/nested/SKILL.md"):
            assert "no skill is served at" in str((await client.fail("skills/get", {"uri": uri}))["message"])
            await client.fail("resources/read", {"uri": uri})
        assert "is not a directory" in str(
            (await client.fail("resources/directory/read", {"uri": "skill://tidy"}))["message"]
        )
        assert len(await in_directory(client, "skill://deploy")) == 1


# --- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# No front matter", "SKILL.md:1: a skill must start with"),
        ("---\nname: bad\n", "SKILL.md:3: the YAML has no end"),
        ("---\nname: bad\nname: bad\n---\n", "SKILL.md:3: the key 'name' is duplicated"),
        ("---\nname: [bad\n---\n", "SKILL.md:3: "),
        ("---\ndescription: x\n---\n", "SKILL.md:1: name must be"),
        ("---\ndescription: x\nname: Bad\n---\n", "SKILL.md:3: name must be"),
        ("---\nname: other\ndescription: x\n---\n", "SKILL.md:2: name is 'other', but the directory"),
        ("---\nname: bad\n---\n", "SKILL.md:1: description must be"),
        (
            "---\nname: bad\ndescription: x\nmetadata:\n  io.modelcontextprotocol/x: 1\n---\n",
            "SKILL.md:1: the metadata key",
        ),
    ],
)
def test_a_skill_that_is_none_is_refused_with_file_and_line(root: Path, text: str, problem: str) -> None:
    (root / "bad").mkdir()
    (root / "bad" / "SKILL.md").write_text(text)
    with pytest.raises(RegistrationError) as caught:
        make(root)
    assert problem in str(caught.value)
    assert str(root / "bad") in str(caught.value)


def test_a_skill_that_is_no_text_is_refused(root: Path) -> None:
    (root / "deploy" / "SKILL.md").write_bytes(b"---\nname: \xff\n---\n")
    with pytest.raises(RegistrationError, match="not UTF-8 text"):
        make(root)


@pytest.mark.parametrize("size", [16 * 1024 * 1024, 16 * 1024 * 1024 + 1])
def test_a_skill_that_hosts_need_not_take_is_refused(root: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with (root / "deploy" / "data").open("wb") as file:
        file.truncate(size)
    # It is not read, either: its size is known before.
    monkeypatch.setattr("mcp_server.features.files.Files.read", None)
    with pytest.raises(RegistrationError, match=r"the skill .*deploy.* has 2 files with"):
        make(root, limits=Limits(file_bytes=2 * size))


def test_a_skill_of_too_many_files_is_refused(root: Path) -> None:
    for number in range(512):
        (root / "deploy" / f"{number}.md").touch()
    with pytest.raises(RegistrationError, match="has 513 files with"):
        make(root)
    (root / "deploy" / "0.md").unlink()
    assert len(make(root)[1].listed) == 3


def test_a_file_that_no_client_could_read_is_refused(root: Path) -> None:
    with pytest.raises(RegistrationError, match=r"cannot be served: .*Limits.file_bytes"):
        make(root, limits=Limits(file_bytes=8))
    (root / "deploy" / "a\nb").touch()
    with pytest.raises(RegistrationError, match="no URI can represent its name"):
        make(root)


def test_a_folder_of_too_many_files_is_refused(root: Path) -> None:
    with pytest.raises(RegistrationError, match=r"more than 3 entries \(Limits.listed_files\)"):
        make(root, limits=Limits(listed_files=3))


@pytest.mark.parametrize("path", ["none", "skills/README.md", "empty"])
def test_a_folder_without_skills_is_refused(root: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RegistrationError, match=path):
        make(tmp_path / path)


@pytest.mark.parametrize("prefix", ["/a", "a/", "a//b", "..", "a b", "a?", "ä"])
def test_a_prefix_is_a_path(root: Path, prefix: str) -> None:
    with pytest.raises(RegistrationError, match="the prefix"):
        make(root, prefix=prefix)


def test_a_server_has_its_skills_once(root: Path, tmp_path: Path) -> None:
    server, skills = make(root)
    with pytest.raises(RegistrationError, match="there is already a resource"):
        Skills(server)
    with pytest.raises(RegistrationError, match=r"skill://deploy/SKILL.md is within a skill of another folder"):
        skills.add(root / "deploy")
    other = write(tmp_path / "other", "inner")
    with pytest.raises(
        RegistrationError, match=r"skill://tidy/inner/SKILL.md is within a skill of another folder, skill://tidy"
    ):
        skills.add(other, prefix="tidy")
    skills.add(other, prefix="acme")
    assert [each.uri for each in skills.listed][-1] == "skill://acme/inner/SKILL.md"


def test_a_folder_may_be_a_skill_itself(root: Path) -> None:
    _, skills = make(root / "tidy", prefix="acme")
    assert [each.uri for each in skills.listed] == [
        "skill://acme/tidy/SKILL.md",
        "skill://acme/tidy/extra/nested/SKILL.md",
    ]


# --- what changes ------------------------------------------------------------------------------------------------------


@ALL
async def test_clients_are_told_of_what_was_read_anew(root: Path, revision: Revision) -> None:
    server, skills = make(root)
    async with connected(server, revision) as client:
        uri = "skill://tidy/logo.png"
        if revision.era is Era.MODERN:
            await client.start(
                "subscriptions/listen",
                {"notifications": {"resourcesListChanged": True, "resourceSubscriptions": [uri]}},
            )
            await client.told("notifications/subscriptions/acknowledged")
        else:
            await client.call("resources/subscribe", {"uri": uri})
        (root / "tidy" / "logo.png").write_bytes(b"new")
        await skills.refresh()
        (told,) = await client.told("notifications/resources/updated")
        assert told["uri"] == uri
        assert client.of("notifications/resources/list_changed") == []
        await skills.refresh()
        await client.call("resources/list")
        assert len(client.of("notifications/resources/updated")) == 1
        write(root, "deploy", "license: MIT\n")
        write(root, "fresh")
        for path in ("SKILL.md", "logo.png", "references/GUIDE ä.md", "extra/nested/SKILL.md"):
            (root / "tidy" / path).unlink()
        await skills.refresh()
        await client.told("notifications/resources/list_changed")
        assert sorted(each.uri for each in skills.listed) == ["skill://deploy/SKILL.md", "skill://fresh/SKILL.md"]
        found = [as_object(each) for each in as_list((await client.call("resources/list"))["resources"])]
        assert sorted(uris(found)) == ["skill://deploy/SKILL.md", "skill://fresh/SKILL.md"]


async def test_what_did_not_change_stays_where_it_was(root: Path) -> None:
    server, skills = make(root)
    async with connected(server, R2026_07_28) as client:
        before = await listed(client)
        await skills.refresh()
        assert await listed(client) == before
        (root / "tidy" / "extra" / "nested" / "new.md").write_text("x")
        await skills.refresh()
        after = {str(each["uri"]): len(as_list(each["resources"])) for each in await listed(client)}
        assert after == {
            "skill://deploy/SKILL.md": 1,
            "skill://tidy/SKILL.md": 5,
            "skill://tidy/extra/nested/SKILL.md": 2,
        }
        assert len(await in_directory(client, "skill://tidy/extra/nested")) == 2


async def test_a_change_for_the_worse_changes_nothing(root: Path) -> None:
    server, skills = make(root)
    before = skills.listed
    (root / "deploy" / "SKILL.md").write_text("no front matter")
    with pytest.raises(RegistrationError, match="deploy"):
        await skills.refresh()
    assert skills.listed == before
    async with connected(server, R2026_07_28) as client:
        assert len(await listed(client)) == 3


@pytest.mark.property
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    paths=st.sets(
        st.lists(st.sampled_from(["a", "b", "c-d"]), min_size=1, max_size=3).map("/".join), min_size=1, max_size=6
    )
)
def test_each_file_is_in_the_entries_of_all_skills_around_it(
    tmp_path_factory: pytest.TempPathFactory, paths: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("skills")
    for path in paths:
        write(folder, path)
    _, skills = make(folder)
    assert {each.uri for each in skills.listed} == {f"skill://{path}/SKILL.md" for path in paths}
    for skill in skills.listed:
        home = skill.uri.removesuffix("SKILL.md")
        assert skill.resources != "dynamic"
        assert {each.uri for each in skill.resources} == {
            each.uri for each in skills.listed if each.uri.startswith(home)
        }


def test_a_file_that_cannot_be_opened_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise PermissionError("no")

    monkeypatch.setattr("mcp_server.features.files.Files.read", refuse)
    with pytest.raises(RegistrationError, match=rf"{os.sep}SKILL.md' of a skill cannot be served: no"):
        make(root)
