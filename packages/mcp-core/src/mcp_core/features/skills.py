"""Rules for skills, for client and server: names, front matter, files, digests.

A skill is a directory with a `SKILL.md` that starts with YAML between two lines of dashes. This module does not parse
YAML: server and client parse it with an optional library, and pass the result.

Spec: the extension `io.modelcontextprotocol/skills`; agentskills.io/specification
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from mcp_core.errors import McpError

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types.skills import Skill, SkillResource

__all__ = [
    "DIRECTORY_MIME_TYPE",
    "MAX_FRONT_MATTER_BYTES",
    "MAX_SKILL_BYTES",
    "MAX_SKILL_FILES",
    "SKILL_FILE",
    "InvalidFrontMatter",
    "digest",
    "entry_problem",
    "front_matter_problem",
    "is_skill_name",
    "name_of",
    "reserved_metadata",
    "resolve",
    "root_of",
    "same",
    "split",
]

SKILL_FILE: Final = "SKILL.md"
"""The name of the file that makes a directory a skill."""

DIRECTORY_MIME_TYPE: Final = "inode/directory"
"""The media type of a directory."""

MAX_SKILL_FILES: Final = 512
"""The number of files of a skill that every host accepts, `SKILL.md` included."""

MAX_SKILL_BYTES: Final = 16 * 1024 * 1024
"""The total size of the files of a skill that every host accepts, in bytes."""

MAX_FRONT_MATTER_BYTES: Final = 16 * 1024
"""The maximum size of the YAML, in bytes. Each list contains all YAML; the longest description has 1,024 characters."""

_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME_CHARS: Final = 64
_LONGEST: Final = {"description": 1_024, "compatibility": 500}
"""The maximum number of characters of fields. `description` is required."""

_RESERVED: Final = "io.modelcontextprotocol/"
"""The prefix of `metadata` keys that are reserved for extensions of the protocol. No extension defines any."""

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLAIN_URI: Final = re.compile(rf"{_SCHEME.pattern}[^\s\x00-\x1f\x7f]+")
"""A URI without blanks and control characters: users and models see it, and it must not start a new line."""


class InvalidFrontMatter(McpError):
    """Invalid front matter of a `SKILL.md`; the message has the reason.

    Args:
        message: The reason.
        line: The line number in the file, counted from 1; `None` if the reason concerns the whole front matter.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        """The line number in the file, counted from 1; `None` if the reason concerns the whole front matter."""


# --- one file --------------------------------------------------------------------------------------------------------


def digest(data: bytes) -> str:
    """Return the digest of a file, in the form of skill entries."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def split(text: str) -> tuple[str, str]:
    """Split a `SKILL.md` into its two parts.

    Args:
        text: The text of the file.

    Returns:
        The YAML, which starts in the second line of the file, and the instructions after it.

    Raises:
        InvalidFrontMatter: The file does not start with a line `---`, the line `---` after the YAML is missing, or the
            YAML is too long.
    """
    first, *lines = text.split("\n")
    if first.rstrip() != "---":
        raise InvalidFrontMatter("a skill must start with a line '---', YAML, and another line '---'", 1)
    size = 0
    for number, line in enumerate(lines):
        if line.rstrip() == "---":
            return "".join(f"{each}\n" for each in lines[:number]), "\n".join(lines[number + 1 :])
        size += len(line.encode(errors="surrogatepass")) + 1
        if size > MAX_FRONT_MATTER_BYTES:
            raise InvalidFrontMatter(f"the YAML has more than {MAX_FRONT_MATTER_BYTES} bytes", number + 2)
    raise InvalidFrontMatter("the YAML has no end: a line '---' is missing", len(lines) + 1)


def is_skill_name(name: str) -> bool:
    """Return whether a name is valid: at most 64 lower-case letters and digits, with single dashes between them."""
    return len(name) <= _NAME_CHARS and _NAME.fullmatch(name) is not None


def front_matter_problem(front_matter: JsonObject, directory: str) -> str | None:
    """Return why front matter is invalid, or `None`.

    Args:
        front_matter: The parsed YAML.
        directory: The name of the skill's directory, which must equal the name of the skill.
    """
    name = front_matter.get("name")
    if not isinstance(name, str) or not is_skill_name(name):
        return (
            f"name must be 1 to {_NAME_CHARS} lower-case letters and digits, with single dashes between them, "
            f"not {name!r:.100}"
        )
    if name != directory:
        return f"name is {name!r}, but the directory of the skill is {directory!r}; they must be the same"
    for field, most in _LONGEST.items():
        value = front_matter.get(field)
        if (field in front_matter or field == "description") and not (
            isinstance(value, str) and value.strip() and len(value) <= most
        ):
            return f"{field} must be a text of 1 to {most} characters, not {value!r:.100}"
    metadata = front_matter.get("metadata", {})
    if not isinstance(metadata, dict):
        return f"metadata must be a mapping, not {metadata!r:.100}"
    return None


def reserved_metadata(front_matter: JsonObject) -> list[str]:
    """Return the keys of `metadata` that only extensions of the protocol may define."""
    metadata = front_matter.get("metadata")
    return [key for key in metadata if key.startswith(_RESERVED)] if isinstance(metadata, dict) else []


def same(one: JsonValue, other: JsonValue) -> bool:
    """Return whether two JSON values are equal: 1 equals 1.0 but not `true`; the order of members is ignored."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


# --- all files -------------------------------------------------------------------------------------------------------


def root_of(uri: str) -> str | None:
    """Return the directory of a skill, without a final slash, or `None` if the URI is not that of a `SKILL.md`."""
    root, slash, last = uri.rpartition("/")
    if last != SKILL_FILE or not slash or _PLAIN_URI.fullmatch(root) is None or root.endswith("/"):
        return None
    return root


def name_of(uri: str) -> str:
    """Return the name of the skill whose `SKILL.md` has this URI: the last segment of its directory."""
    return unquote((root_of(uri) or "").rpartition("/")[2])


def entry_problem(skill: Skill) -> str | None:
    """Return why a host must not load a skill, judged by its entry, or `None`.

    Args:
        skill: The entry, from `skills/list` or `skills/get`.
    """
    root = root_of(skill.uri)
    if root is None:
        return f"its URI {skill.uri!r:.200} is not the URI of a {SKILL_FILE} in a directory"
    problem = front_matter_problem(skill.frontmatter, name_of(skill.uri))
    if problem is not None or skill.resources == "dynamic":
        return problem
    return _files_problem(skill, root, skill.resources)


def _files_problem(skill: Skill, root: str, files: tuple[SkillResource, ...]) -> str | None:
    if len(files) > MAX_SKILL_FILES:
        return f"it has {len(files)} files; the maximum is {MAX_SKILL_FILES}"
    total = sum(each.size for each in files)
    if total > MAX_SKILL_BYTES:
        return f"its files have {total} bytes; the maximum is {MAX_SKILL_BYTES}"
    uris = {each.uri for each in files}
    if len(uris) < len(files):
        return "a file is listed twice"
    if skill.uri not in uris:
        return f"its files do not include {SKILL_FILE}"
    for each in files:
        if not _within(root, each.uri):
            return f"{each.uri!r:.200} is not within its directory {root!r:.200}"
        if _DIGEST.fullmatch(each.digest) is None:
            return f"{each.digest!r:.100} is not a SHA-256 digest"
    return None


def _within(root: str, uri: str) -> bool:
    """Return whether a URI is below a directory, without `..` or an encoded separator."""
    if not uri.startswith(f"{root}/") or "?" in uri or "#" in uri:
        return False
    parts = map(unquote, uri[len(root) + 1 :].split("/"))
    return all(part not in ("", ".", "..") and "/" not in part and "\\" not in part for part in parts)


def resolve(root: str, reference: str) -> str | None:
    """Return the URI of a file of a skill, from a reference in its text.

    Args:
        root: The directory of the skill.
        reference: A path relative to that directory, for example `references/GUIDE.md`, or a URI.

    Returns:
        The URI, without percent-encoding of an unencoded path; `None` if the reference leaves the directory.
    """
    if _SCHEME.match(reference) is not None:
        return reference if _within(root, reference) else None
    parts: list[str] = []
    for part in reference.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return None if reference.startswith("/") or not parts else f"{root}/{'/'.join(parts)}"
