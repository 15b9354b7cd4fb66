"""The skills of a folder. The files are read once, so that the listed digests match the served bytes.

A digest binds the content that a user approved to the content that a model receives. A file is therefore not read again
when a client requests it: its bytes stay in memory from the time when its digest was computed. `Skills.refresh` reads
all files again.

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
from mcp_core.field_methods import FieldValue
from mcp_core.trio.front_matter import read_front_matter
from mcp_core.types import Resource
from mcp_core.types.skills import Skill, SkillResource
from mcp_server.errors import RegistrationError
from mcp_server.features.directory import contents_of
from mcp_server.features.files import Files
from mcp_server.uris.template import UriTemplate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.limits import Limits
    from mcp_core.types import ResourceContents

__all__ = ["TEMPLATE", "Folder", "SkillFile", "Tree", "path_of", "read_folder", "uri_of"]

TEMPLATE: Final = UriTemplate("skill://{+path}")
"""The template of the URIs of all skill files."""


@attrs.frozen(eq=False, repr=False)
class Folder(FieldValue):
    """A folder of skills."""

    path: str
    """The folder, an absolute path without links."""
    prefix: str
    """The prefix of the skill paths in URIs; empty, or ends in a slash."""


@attrs.frozen(eq=False, repr=False)
class SkillFile(FieldValue):
    """A file in memory."""

    contents: ResourceContents
    """The contents that a client receives."""
    entry: SkillResource
    """Its URI, digest and size."""

    def listed(self, path: str) -> Resource:
        """Return the entry of the file in a directory listing."""
        return Resource(
            uri=self.entry.uri,
            name=path.rpartition("/")[2],
            mime_type=self.contents.mime_type,
            size=self.entry.size,
        )


@attrs.frozen(eq=False, repr=False)
class Tree(FieldValue):
    """The files and skills of some folders. Paths are the part of a URI after `skill://`, decoded."""

    files: Mapping[str, SkillFile]
    """The files of all skills, by path."""
    skills: Mapping[str, Skill]
    """The skills, by the path of their `SKILL.md`."""

    def directories(self) -> dict[str, dict[str, Resource]]:
        """Return the entries of each directory by its path: files and directories, by URI."""
        found: dict[str, dict[str, Resource]] = {}
        for path, file in self.files.items():
            child = file.listed(path)
            while (parent := path.rpartition("/")[0]) and child.uri not in found.setdefault(parent, {}):
                found[parent][child.uri] = child
                path = parent  # noqa: PLW2901  # from the file up to the first component of its path
                name = path.rpartition("/")[2]
                child = Resource(uri=uri_of(path), name=name, mime_type=DIRECTORY_MIME_TYPE)
        return found


def uri_of(path: str) -> str:
    """Return the URI of a path in the form in which it is listed."""
    return f"skill://{quote(path)}"


def path_of(uri: str) -> str | None:
    """Return the path of a URI in any encoding; `None` if the URI does not match the template."""
    found = TEMPLATE.match(uri)
    path = None if found is None else found.get("path")
    return path if isinstance(path, str) else None


def read_folder(folder: Folder, limits: Limits) -> Tree:
    """Read the skills of a folder, or the one skill that the folder is. Blocks.

    Raises:
        RegistrationError: There are no skills, or a skill is invalid. The message names the file.
    """
    files = Files(folder.path, hidden=False)
    sizes = dict(_listed(files, folder, limits))
    homes = [path.removesuffix(SKILL_FILE) for path in sizes if f"/{path}".endswith(f"/{SKILL_FILE}")]
    if not homes:
        raise RegistrationError(f"there is no {SKILL_FILE} in {folder.path!r} or a folder in it")
    # The path of a folder that is itself a skill contains the name of the skill.
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
        # A file can have grown since its size was read.
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
                    " listed completely or not at all; raise the limit or split the folder"
                )
            yield each[0], each[1].st_size


def _check_bounds(where: str, count: int, size: int) -> None:
    if count > MAX_SKILL_FILES or size > MAX_SKILL_BYTES:
        raise RegistrationError(
            f"the skill {where!r} has {count} files with {size} bytes; hosts accept {MAX_SKILL_FILES} files with"
            f" {MAX_SKILL_BYTES} bytes"
        )


def _read(files: Files, folder: Folder, path: str, before: str, limits: Limits) -> SkillFile:
    where = os.path.join(folder.path, path)
    try:
        uri = uri_of(before + path)
        if path_of(uri) != before + path:
            raise RegistrationError(f"the file {where!r} of a skill cannot be served: no URI can represent its name")
        data = files.read(path, limits.file_bytes)
    except (OSError, UnicodeEncodeError, LimitExceeded) as error:
        raise RegistrationError(f"the file {where!r} of a skill cannot be served: {error}") from error
    return SkillFile(contents_of(uri, path, data), SkillResource(uri=uri, digest=digest(data), size=len(data)))


def _front_matter(file: SkillFile, where: str, home: str) -> JsonObject:
    text = getattr(file.contents, "text", None)
    if text is None:
        raise RegistrationError(f"{where}: it is not UTF-8 text")
    try:
        found = read_front_matter(text)
    except InvalidFrontMatter as error:
        raise RegistrationError(f"{where}:{error.line or 1}: {error.message}") from error
    problem = front_matter_problem(found, home.removesuffix("/").rpartition("/")[2])
    if problem is None and (reserved := reserved_metadata(found)):
        problem = f"the metadata key {reserved[0]!r} is reserved for protocol extensions"
    if problem is not None:
        # Report the line of the field that has the problem.
        field = problem.split()[0]
        lines = text.splitlines()
        line = next((number for number, each in enumerate(lines, 1) if each.startswith(f"{field}:")), 1)
        raise RegistrationError(f"{where}:{line}: {problem}")
    return found
