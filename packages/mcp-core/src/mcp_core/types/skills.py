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
    """What it is read by."""
    digest: str
    """`sha256:` and the SHA-256 of its bytes, as 64 hexadecimal digits in lower case."""
    size: int = field(minimum=0)
    """Its bytes."""


@wire(since=R2026_07_28)
class Skill(Open):
    """A skill: what it is, and all its files. Spec: the extension `io.modelcontextprotocol/skills`, Skill Entries"""

    uri: str
    """The URI of its `SKILL.md`."""
    frontmatter: JsonObject
    """The YAML at the head of its `SKILL.md`, as JSON: all of it. Written by the server's author: untrusted text."""
    resources: tuple[SkillResource, ...] | Literal["dynamic"]
    """All its files, `SKILL.md` too; or `dynamic`, where they are made when they are read and nothing can be verified."""


@wire(since=R2026_07_28)
class ListSkillsRequestParams(PaginatedRequestParams):
    """The parameters of `skills/list`. Spec: the extension `io.modelcontextprotocol/skills`, Listing Skills"""


@wire(since=R2026_07_28)
class ListSkillsResult(CacheableResult):
    """The answer to `skills/list`. Spec: the extension `io.modelcontextprotocol/skills`, Listing Skills"""

    skills: tuple[Skill, ...]
    """The skills of this page. There may be others that are not listed."""
    next_cursor: str | None = None
    """Where the next page begins; `None` on the last one."""


@wire(since=R2026_07_28)
class GetSkillRequestParams(RequestParams):
    """The parameters of `skills/get`. Spec: the extension `io.modelcontextprotocol/skills`, Getting a Skill"""

    uri: str
    """The URI of the skill's `SKILL.md`."""


@wire(since=R2026_07_28)
class GetSkillResult(CacheableResult):
    """The answer to `skills/get`. Spec: the extension `io.modelcontextprotocol/skills`, Getting a Skill"""

    skill: Skill
    """The skill, as it is now."""


@wire(since=R2026_07_28)
class ReadResourceDirectoryRequestParams(PaginatedRequestParams):
    """The parameters of `resources/directory/read`.

    Spec: the extension `io.modelcontextprotocol/skills`, Reading Directories
    """

    uri: str
    """The directory, without a slash at its end."""


@wire(since=R2026_07_28)
class ReadResourceDirectoryResult(PaginatedResult):
    """The answer to `resources/directory/read`.

    Spec: the extension `io.modelcontextprotocol/skills`, Reading Directories
    """

    resources: tuple[Resource, ...]
    """The files and directories in it, but not in those; the media type of a directory is `inode/directory`."""


@wire(since=R2026_07_28)
class SkillsExtensionCapability(Open):
    """The settings of the extension under `SKILLS_EXTENSION`.

    Spec: the extension `io.modelcontextprotocol/skills`, Capability Negotiation
    """

    directory_read: bool = False
    """The server has `resources/directory/read`."""
