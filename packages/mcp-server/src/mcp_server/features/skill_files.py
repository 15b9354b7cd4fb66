"""The skills in a folder, read once: what is listed of them is what is served.

Digests bind what a user approved to what a model gets. So a file is not read again when a client asks for it: its bytes
stay in memory, as they were when its digest was made. `Skills.refresh` reads all of them anew.

Spec: the extension `io.modelcontextprotocol/skills`
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import attrs

from mcp_core.errors import LimitExceeded
from mcp_core.features.skills import (
    DIRECTORY_MIME_TYPE,
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SKILL_FILE,
    InvalidFrontMatter,
    digest,
    front_matter_problem,
    reserved_metadata,
)
from mcp_core.types import Resource
from mcp_core.types.skills import Skill, SkillResource
from mcp_server.errors import RegistrationError
from mcp_server.features.directory import contents_of
from mcp_server.features.files import Files
from mcp_server.features.front_matter import read_front_matter
from mcp_server.uris.template import UriTemplate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.limits import Limits
    from mcp_core.types import ResourceContents

__all__ = ["TEMPLATE", "Folder", "SkillFile", "Tree", "path_of", "read_folder", "uri_of"]

TEMPLATE: Final = UriTemplate("skill://{+path}")
"""What all files of skills are read by."""


@attrs.frozen
class Folder:
    """Where skills are."""

    path: str
    """The folder, an absolute path without links."""
    prefix: str
    """What stands before their paths in URIs; empty, or ends in a slash."""


@attrs.frozen
class SkillFile:
    """A file as it was read."""

    contents: ResourceContents
    """What a client gets."""
    entry: SkillResource
    """Its URI, digest and size."""

    def listed(self, path: str) -> Resource:
        """The file as a directory lists it."""
        return Resource(
            uri=self.entry.uri,
            name=path.rpartition("/")[2],
            mime_type=self.contents.mime_type,
            size=self.entry.size,
        )


@attrs.frozen
class Tree:
    """All that is served of some folders. Paths are what stands behind `skill://` in URIs, not encoded."""

    files: Mapping[str, SkillFile]
    """The files of all skills, by path."""
    skills: Mapping[str, Skill]
    """The skills, by the path of their `SKILL.md`."""

    def directories(self) -> dict[str, dict[str, Resource]]:
        """What is in each directory, by its path: files and directories, by URI."""
        found: dict[str, dict[str, Resource]] = {}
        for path, file in self.files.items():
            child = file.listed(path)
            while (parent := path.rpartition("/")[0]) and child.uri not in found.setdefault(parent, {}):
                found[parent][child.uri] = child
                path = parent  # noqa: PLW2901  # from the file up to the first part of its path
                name = path.rpartition("/")[2]
                child = Resource(uri=uri_of(path), name=name, mime_type=DIRECTORY_MIME_TYPE)
        return found


def uri_of(path: str) -> str:
    """The URI of a path, in the one form that it is listed in."""
    return f"skill://{quote(path)}"


def path_of(uri: str) -> str | None:
    """The path that a URI stands for, however it is encoded; `None` when it can be none."""
    found = TEMPLATE.match(uri)
    path = None if found is None else found.get("path")
    return path if isinstance(path, str) else None


def read_folder(folder: Folder, limits: Limits) -> Tree:
    """Reads the skills of a folder, or the one that it is itself. Blocks.

    Raises:
        RegistrationError: There are none, or one is not as skills have to be; it names the file.
    """
    files = Files(folder.path, hidden=False)
    sizes = dict(_listed(files, folder, limits))
    homes = [path.removesuffix(SKILL_FILE) for path in sizes if f"/{path}".endswith(f"/{SKILL_FILE}")]
    if not homes:
        raise RegistrationError(f"there is no {SKILL_FILE} in {folder.path!r} or a folder in it")
    # A folder that is a skill itself has the name of the skill in its own path.
    before = folder.prefix + (f"{Path(folder.path).name}/" if "" in homes else "")
    members = {home: [path for path in sizes if path.startswith(home)] for home in homes}
    for home, paths in members.items():
        _check_bounds(os.path.join(folder.path, home), len(paths), sum(sizes[path] for path in paths))
    read: dict[str, SkillFile] = {}
    skills: dict[str, Skill] = {}
    for home, paths in members.items():
        for path in paths:
            if path not in read:
                read[path] = _read(files, folder, path, before, limits)
        entries = tuple(read[path].entry for path in paths)
        # A file may have grown since its size was asked for.
        _check_bounds(os.path.join(folder.path, home), len(entries), sum(entry.size for entry in entries))
        main = read[f"{home}{SKILL_FILE}"]
        front_matter = _front_matter(main, os.path.join(folder.path, home, SKILL_FILE), f"{before}{home}")
        skills[f"{before}{home}{SKILL_FILE}"] = Skill(uri=main.entry.uri, frontmatter=front_matter, resources=entries)
    return Tree({before + path: file for path, file in read.items()}, skills)


def _listed(files: Files, folder: Folder, limits: Limits) -> Iterator[tuple[str, int]]:
    with closing(files.walk(limits.listed_files)) as found:
        for each in found:
            if each is None:
                raise RegistrationError(
                    f"{folder.path!r} has more than {limits.listed_files} entries (Limits.listed_files); skills are"
                    " listed completely or not at all"
                )
            yield each[0], each[1].st_size


def _check_bounds(where: str, count: int, size: int) -> None:
    if count > MAX_SKILL_FILES or size > MAX_SKILL_BYTES:
        raise RegistrationError(
            f"the skill {where!r} has {count} files with {size} bytes; hosts take {MAX_SKILL_FILES} files with"
            f" {MAX_SKILL_BYTES} bytes"
        )


def _read(files: Files, folder: Folder, path: str, before: str, limits: Limits) -> SkillFile:
    where = os.path.join(folder.path, path)
    try:
        uri = uri_of(before + path)
        if path_of(uri) != before + path:
            raise RegistrationError(f"the file {where!r} of a skill cannot be served: no URI can say its name")
        data = files.read(path, limits.file_bytes)
    except (OSError, UnicodeEncodeError, LimitExceeded) as error:
        raise RegistrationError(f"the file {where!r} of a skill cannot be served: {error}") from error
    return SkillFile(contents_of(uri, path, data), SkillResource(uri=uri, digest=digest(data), size=len(data)))


def _front_matter(file: SkillFile, where: str, home: str) -> JsonObject:
    text = getattr(file.contents, "text", None)
    if text is None:
        raise RegistrationError(f"{where}: it is no text in UTF-8")
    try:
        found = read_front_matter(text)
    except InvalidFrontMatter as error:
        raise RegistrationError(f"{where}:{error.line or 1}: {error.message}") from error
    problem = front_matter_problem(found, home.removesuffix("/").rpartition("/")[2])
    if problem is None and (reserved := reserved_metadata(found)):
        problem = f"the key {reserved[0]!r} of metadata is reserved for extensions of the protocol"
    if problem is not None:
        # The line of the field that it is about.
        field = problem.split()[0]
        lines = text.splitlines()
        line = next((number for number, each in enumerate(lines, 1) if each.startswith(f"{field}:")), 1)
        raise RegistrationError(f"{where}:{line}: {problem}")
    return found
