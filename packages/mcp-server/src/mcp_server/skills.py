"""Skills: folders of instructions for the model that uses a server.

    skills = Skills(server)
    skills.add("skills")

Each folder with a `SKILL.md` is a skill: `skills/git-workflow/SKILL.md` becomes `skill://git-workflow/SKILL.md`.
Clients of revision 2026-07-28 list them with `skills/list`, which includes the digests of all files. For other clients,
skills are normal resources. Requires `trio-mcp-server[skills]`.

Spec: the extension `io.modelcontextprotocol/skills`; agentskills.io/specification
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import quote

import orjson
import trio

from mcp_core.conversion.converter import converter
from mcp_core.errors import ErrorCode, RequestFailed, ResourceNotFound
from mcp_core.methods import RESOURCES_DIRECTORY_READ, SKILLS_GET, SKILLS_LIST
from mcp_core.revisions import R2026_07_28
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.types.skills import (
    SKILLS_EXTENSION,
    GetSkillRequestParams,
    GetSkillResult,
    ListSkillsResult,
    ReadResourceDirectoryRequestParams,
    ReadResourceDirectoryResult,
    Skill,
)
from mcp_server.errors import RegistrationError
from mcp_server.features.listing import PagedList
from mcp_server.features.skill_files import TEMPLATE, Folder, SkillFile, Tree, path_of, read_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import ResourceContents
    from mcp_server.connection.channel import RequestContext
    from mcp_server.server import Server

__all__ = ["Skills"]

_PAGE_BYTES: Final = 1024 * 1024
"""Maximum size of a page of `skills/list`, in bytes. A skill with 512 files has 80 KB and is never split."""


class Skills:
    """The skills of a server. Create one instance per server, and add folders to it.

    The files are read when a folder is added. They stay in memory, so that digests always match contents. Links are not
    followed, and names that begin with a dot are skipped. `Server(access=...)` is called for each file with its URI,
    and for a skill with the URI of its `SKILL.md`.

    Args:
        server: The server. This instance makes it declare the extension.

    Raises:
        RegistrationError: The server has skills already.
    """

    def __init__(self, server: Server) -> None:
        service = server._service  # noqa: SLF001  # the same package; the handlers are on the same table as all others
        server.add_resource(
            self._read, TEMPLATE.template, name="skills", description="The files of skills, by their paths."
        )
        server.extension(SKILLS_EXTENSION, {"directoryRead": True})
        self._server: Final = server
        self._environment: Final = service.environment
        self._listing: Final = PagedList(self._environment, "resource", ListSkillsResult(skills=()))
        self._directories: dict[str, PagedList] = {}
        self._folders: Final[list[Folder]] = []
        self._tree = Tree({}, {})
        service.handlers[SKILLS_LIST.name] = self._listing.answer
        service.handlers[SKILLS_GET.name] = self._get
        service.handlers[RESOURCES_DIRECTORY_READ.name] = self._read_directory

    @property
    def listed(self) -> tuple[Skill, ...]:
        """All skills."""
        return tuple(self._tree.skills.values())

    def add(self, path: str | os.PathLike[str], *, prefix: str = "") -> None:
        """Add the skills in a folder, at any depth, or the folder itself if it is a skill. Read all of their files.

        Args:
            path: The folder. If it is a link, this method follows it once.
            prefix: Prefix of their paths in URIs, for example `acme/billing`.

        Raises:
            RegistrationError: The folder contains no skill, or an invalid skill. The message contains the file and the
                line.
        """
        try:
            root = Path(path).resolve(strict=True)
        except OSError as error:
            raise RegistrationError(f"the folder of skills {os.fspath(path)!r} cannot be read: {error}") from error
        if not root.is_dir():
            raise RegistrationError(f"{os.fspath(path)!r} is not a folder")
        parts = prefix.split("/") if prefix else []
        if any(part in ("", ".", "..") for part in parts) or quote(prefix) != prefix:
            raise RegistrationError(f"the prefix {prefix!r} is not a path of plain letters, digits and dashes")
        folder = Folder(str(root), f"{prefix}/" if prefix else "")
        self._take(_joined(self._tree, read_folder(folder, self._environment.limits), folder))
        self._folders.append(folder)

    @allow_asyncio
    async def refresh(self) -> None:
        """Read all folders again, and notify clients of changes.

        Raises:
            RegistrationError: A skill is invalid. All skills then stay unchanged.
        """
        self._take(await trio.to_thread.run_sync(self._read_all, limiter=self._environment.limiter))

    def _read_all(self) -> Tree:
        tree = Tree({}, {})
        for folder in self._folders:
            tree = _joined(tree, read_folder(folder, self._environment.limits), folder)
        return tree

    # --- changes ---------------------------------------------------------------------------------------------------

    def _take(self, tree: Tree) -> None:
        """Replace the skills."""
        before, self._tree = self._tree, tree
        largest = max(map(_size, tree.skills.values()))
        self._listing.page_items = max(1, min(self._environment.limits.page_items, _PAGE_BYTES // largest))
        for path, skill in before.skills.items():
            if tree.skills.get(path) != skill:
                self._listing.remove(skill.uri)
        for path, skill in tree.skills.items():
            if before.skills.get(path) != skill:
                self._listing.add(skill.uri, skill)
        self._list_files(before, tree)
        self._directories = {}
        for path, children in tree.directories().items():
            listing = PagedList(self._environment, "resource", ReadResourceDirectoryResult(resources=()))
            for uri, child in sorted(children.items()):
                listing.add(uri, child)
            self._directories[path] = listing
        for path, file in before.files.items():
            now = tree.files.get(path)
            if now is not None and now.entry != file.entry:
                self._server.resource_updated(file.entry.uri)

    def _list_files(self, before: Tree, tree: Tree) -> None:
        """List each `SKILL.md` as a resource. Clients find the other files by references in it, or in the manifest."""
        for path, skill in before.skills.items():
            if _described(tree, path) != _described(before, path):
                self._server.remove_resource(skill.uri)
        for path, skill in tree.skills.items():
            described = _described(tree, path)
            if described == _described(before, path):
                continue
            self._server.add_resource(
                self._reading(path),
                skill.uri,
                name=str(skill.frontmatter["name"]),
                description=str(skill.frontmatter["description"]),
                mime_type=tree.files[path].contents.mime_type,
                size=tree.files[path].entry.size,
            )

    # --- requests --------------------------------------------------------------------------------------------------

    def _reading(self, path: str) -> Callable[[], Awaitable[ResourceContents]]:
        async def read() -> ResourceContents:
            return self._file(path).contents

        return read

    async def _read(self, path: str) -> ResourceContents:
        return self._file(path).contents

    def _file(self, path: str) -> SkillFile:
        file = self._tree.files.get(path)
        if file is None:
            raise ResourceNotFound.of(f"skill://{quote(path)}")
        return file

    async def _get(self, call: RequestContext) -> GetSkillResult:
        params = cast("GetSkillRequestParams", call.request.params)  # the engine uses the class of the method
        skill = self._tree.skills.get(path_of(params.uri) or "")
        if skill is None or not await self._environment.guard.allows(call, "resource", skill.uri):
            raise RequestFailed(f"no skill is served at {params.uri:.1000}", code=ErrorCode.INVALID_PARAMS)
        return GetSkillResult(skill=skill)

    async def _read_directory(self, call: RequestContext) -> JsonObject:
        # The engine uses the class of the method.
        params = cast("ReadResourceDirectoryRequestParams", call.request.params)
        path = path_of(params.uri)
        listing = None if path is None else self._directories.get(path)
        if (
            path is None
            or listing is None
            or not await self._environment.guard.allows(call, "resource", f"skill://{quote(path)}")
        ):
            raise RequestFailed(f"{params.uri:.1000} is not a directory resource", code=ErrorCode.INVALID_PARAMS)
        return await listing.answer(call)


def _joined(tree: Tree, more: Tree, folder: Folder) -> Tree:
    """Join two trees. Raises `RegistrationError` if a skill is within a skill of another folder, or is the same."""
    for one, other in ((tree, more), (more, tree)):
        for path in one.skills:
            home = path.rpartition("/")[0]
            within = next((each for each in other.skills if each.startswith(f"{home}/")), None)
            if within is not None:
                raise RegistrationError(
                    f"{folder.path!r}: skill://{within} is within a skill of another folder, skill://{home}"
                )
    return Tree({**tree.files, **more.files}, {**tree.skills, **more.skills})


def _described(tree: Tree, path: str) -> tuple[object, ...] | None:
    """Return the listed properties of the resource of a `SKILL.md`; `None` if there is no such skill."""
    skill = tree.skills.get(path)
    if skill is None:
        return None
    file = tree.files[path]
    return skill.frontmatter["name"], skill.frontmatter["description"], file.contents.mime_type, file.entry.size


def _size(skill: Skill) -> int:
    return len(orjson.dumps(converter(R2026_07_28).unstructure(skill)))
