"""Skills: directories of instructions for a model. The extension `io.modelcontextprotocol/skills` (2026-07-28)."""

from __future__ import annotations

from typing import Final, Literal

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2026_07_28
from mcp_core.types.base import CacheableResult, Open, PaginatedRequestParams, PaginatedResult, RequestParams
from mcp_core.types.resources import Resource
from mcp_core.types.wire_object import field, wire

__all__ = [
    "SKILLS_EXTENSION",
    "GetSkillRequestParams",
    "GetSkillResult",
    "ListSkillsRequestParams",
    "ListSkillsResult",
    "ReadResourceDirectoryRequestParams",
    "ReadResourceDirectoryResult",
    "Skill",
    "SkillResource",
    "SkillsExtensionCapability",
]

SKILLS_EXTENSION: Final = "io.modelcontextprotocol/skills"
"""The identifier of the skills extension, a key of `extensions`."""


@wire(since=R2026_07_28)
class SkillResource(Open):
    """A file of a skill. Spec: the extension `io.modelcontextprotocol/skills`, Skill Entries"""

    uri: str
    """The URI, for `resources/read`."""
    digest: str
    """`sha256:` and the SHA-256 of the file, as 64 hexadecimal digits in lower case."""
    size: int = field(minimum=0)
    """The size of the file, in bytes."""


@wire(since=R2026_07_28)
class Skill(Open):
    """A skill with its description and files. Spec: the extension `io.modelcontextprotocol/skills`, Skill Entries"""

    uri: str
    """The URI of the skill's `SKILL.md`."""
    frontmatter: JsonObject
    """The whole YAML front matter of `SKILL.md`, as JSON. Untrusted text of the server's author."""
    resources: tuple[SkillResource, ...] | Literal["dynamic"]
    """All files, including `SKILL.md`; or `dynamic` if files are generated when read, and cannot be verified."""


@wire(since=R2026_07_28)
class ListSkillsRequestParams(PaginatedRequestParams):
    """The parameters of `skills/list`. Spec: the extension `io.modelcontextprotocol/skills`, Listing Skills"""


@wire(since=R2026_07_28)
class ListSkillsResult(CacheableResult):
    """The result of `skills/list`. Spec: the extension `io.modelcontextprotocol/skills`, Listing Skills"""

    skills: tuple[Skill, ...]
    """The skills of this page. A server may have further skills that are not listed."""
    next_cursor: str | None = None
    """The cursor of the next page; `None` on the last page."""


@wire(since=R2026_07_28)
class GetSkillRequestParams(RequestParams):
    """The parameters of `skills/get`. Spec: the extension `io.modelcontextprotocol/skills`, Getting a Skill"""

    uri: str
    """The URI of the skill's `SKILL.md`."""


@wire(since=R2026_07_28)
class GetSkillResult(CacheableResult):
    """The result of `skills/get`. Spec: the extension `io.modelcontextprotocol/skills`, Getting a Skill"""

    skill: Skill
    """The current version of the skill."""


@wire(since=R2026_07_28)
class ReadResourceDirectoryRequestParams(PaginatedRequestParams):
    """The parameters of `resources/directory/read`.

    Spec: the extension `io.modelcontextprotocol/skills`, Reading Directories
    """

    uri: str
    """The URI of the directory, without a slash at its end."""


@wire(since=R2026_07_28)
class ReadResourceDirectoryResult(PaginatedResult):
    """The result of `resources/directory/read`.

    Spec: the extension `io.modelcontextprotocol/skills`, Reading Directories
    """

    resources: tuple[Resource, ...]
    """The files and directories in the directory, not recursive. The media type of a directory is `inode/directory`."""


@wire(since=R2026_07_28)
class SkillsExtensionCapability(Open):
    """The settings of the extension under `SKILLS_EXTENSION`.

    Spec: the extension `io.modelcontextprotocol/skills`, Capability Negotiation
    """

    directory_read: bool = False
    """Whether the server supports `resources/directory/read`."""
