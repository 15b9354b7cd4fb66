"""What a skill has to be, on either side of the wire: its name, its front matter, its files, its digests.

A skill is a directory with a `SKILL.md`, which begins with YAML between two lines of dashes. Nothing here reads YAML:
server and client do, by an optional library, and hand over what came of it.

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
"""The file that makes a directory a skill."""

DIRECTORY_MIME_TYPE: Final = "inode/directory"
"""The media type of a directory."""

MAX_SKILL_FILES: Final = 512
"""How many files of a skill every host takes, `SKILL.md` included."""

MAX_SKILL_BYTES: Final = 16 * 1024 * 1024
"""How many bytes of all files of a skill every host takes."""

MAX_FRONT_MATTER_BYTES: Final = 16 * 1024
"""How much YAML is read. The longest description that is allowed has 1,024 characters, and each listing holds all of it."""

_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME_CHARS: Final = 64
_LONGEST: Final = {"description": 1_024, "compatibility": 500}
"""Characters of the fields that have a bound. `description` has to be there."""

_RESERVED: Final = "io.modelcontextprotocol/"
"""Keys of `metadata` that begin so are for extensions of the protocol, none of which defines any."""

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLAIN_URI: Final = re.compile(rf"{_SCHEME.pattern}[^\s\x00-\x1f\x7f]+")
"""What is shown to people and models, so that it must not begin a line of its own."""


class InvalidFrontMatter(McpError):
    """What stands at the head of a `SKILL.md` is not what a skill begins with; the message says why.

    Args:
        message: Why.
        line: In which line of the file, from 1; `None` where it is about all of it.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        """In which line of the file, from 1; `None` where it is about all of it."""


# --- one file --------------------------------------------------------------------------------------------------------


def digest(data: bytes) -> str:
    """The digest of a file, in the form that entries have it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def split(text: str) -> tuple[str, str]:
    """The two parts of a `SKILL.md`.

    Args:
        text: All of it.

    Returns:
        The YAML, which begins in the second line of the file, and the instructions behind it.

    Raises:
        InvalidFrontMatter: It does not begin with a line `---`, or no other one ends the YAML, or that is too long.
    """
    first, *lines = text.split("\n")
    if first.rstrip() != "---":
        raise InvalidFrontMatter("a skill begins with a line '---', YAML, and another line '---'", 1)
    size = 0
    for number, line in enumerate(lines):
        if line.rstrip() == "---":
            return "".join(f"{each}\n" for each in lines[:number]), "\n".join(lines[number + 1 :])
        size += len(line.encode(errors="surrogatepass")) + 1
        if size > MAX_FRONT_MATTER_BYTES:
            raise InvalidFrontMatter(f"the YAML has more than {MAX_FRONT_MATTER_BYTES} bytes", number + 2)
    raise InvalidFrontMatter("the YAML has no end: a line '---' is missing", len(lines) + 1)


def is_skill_name(name: str) -> bool:
    """Whether a skill may be named so: lower-case letters, digits and single dashes between them; at most 64."""
    return len(name) <= _NAME_CHARS and _NAME.fullmatch(name) is not None


def front_matter_problem(front_matter: JsonObject, directory: str) -> str | None:
    """Why a skill must not begin so; `None`: it may.

    Args:
        front_matter: What its YAML says.
        directory: The name of its directory, which has to be that of the skill.
    """
    name = front_matter.get("name")
    if not isinstance(name, str) or not is_skill_name(name):
        return (
            f"name has to be 1 to {_NAME_CHARS} lower-case letters and digits, with single dashes between them, "
            f"not {name!r:.100}"
        )
    if name != directory:
        return f"name is {name!r}, but the directory of the skill is {directory!r}; they have to be the same"
    for field, most in _LONGEST.items():
        value = front_matter.get(field)
        if (field in front_matter or field == "description") and not (
            isinstance(value, str) and value.strip() and len(value) <= most
        ):
            return f"{field} has to be a text of 1 to {most} characters, not {value!r:.100}"
    metadata = front_matter.get("metadata", {})
    if not isinstance(metadata, dict):
        return f"metadata has to be a mapping, not {metadata!r:.100}"
    return None


def reserved_metadata(front_matter: JsonObject) -> list[str]:
    """The keys of `metadata` that only extensions of the protocol may define."""
    metadata = front_matter.get("metadata")
    return [key for key in metadata if key.startswith(_RESERVED)] if isinstance(metadata, dict) else []


def same(one: JsonValue, other: JsonValue) -> bool:
    """Whether two pieces of JSON are the same: 1 and 1.0 are, 1 and `true` are not; the order of members is nothing."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


# --- all files -------------------------------------------------------------------------------------------------------


def root_of(uri: str) -> str | None:
    """The directory of a skill, without a slash at its end; `None` when that is no URI of a `SKILL.md`."""
    root, slash, last = uri.rpartition("/")
    if last != SKILL_FILE or not slash or _PLAIN_URI.fullmatch(root) is None or root.endswith("/"):
        return None
    return root


def name_of(uri: str) -> str:
    """The name of the skill whose `SKILL.md` has this URI: the last part of its directory."""
    return unquote((root_of(uri) or "").rpartition("/")[2])


def entry_problem(skill: Skill) -> str | None:
    """Why a host must not load a skill, from what the server says of it; `None`: it may.

    Args:
        skill: The entry, from `skills/list` or `skills/get`.
    """
    root = root_of(skill.uri)
    if root is None:
        return f"its URI {skill.uri!r:.200} is not that of a {SKILL_FILE} in a directory"
    problem = front_matter_problem(skill.frontmatter, name_of(skill.uri))
    if problem is not None or skill.resources == "dynamic":
        return problem
    return _files_problem(skill, root, skill.resources)


def _files_problem(skill: Skill, root: str, files: tuple[SkillResource, ...]) -> str | None:
    if len(files) > MAX_SKILL_FILES:
        return f"it has {len(files)} files, and {MAX_SKILL_FILES} are allowed"
    total = sum(each.size for each in files)
    if total > MAX_SKILL_BYTES:
        return f"its files have {total} bytes, and {MAX_SKILL_BYTES} are allowed"
    uris = {each.uri for each in files}
    if len(uris) < len(files):
        return "a file is listed twice"
    if skill.uri not in uris:
        return f"its {SKILL_FILE} is not among its files"
    for each in files:
        if not _within(root, each.uri):
            return f"{each.uri!r:.200} is not within its directory {root!r:.200}"
        if _DIGEST.fullmatch(each.digest) is None:
            return f"{each.digest!r:.100} is no SHA-256 digest"
    return None


def _within(root: str, uri: str) -> bool:
    """Whether a URI is below a directory, and says so plainly."""
    if not uri.startswith(f"{root}/") or "?" in uri or "#" in uri:
        return False
    parts = map(unquote, uri[len(root) + 1 :].split("/"))
    return all(part not in ("", ".", "..") and "/" not in part and "\\" not in part for part in parts)


def resolve(root: str, reference: str) -> str | None:
    """The URI of a file of a skill that its text refers to.

    Args:
        root: The directory of the skill.
        reference: A path from there, as `references/GUIDE.md`, or a URI.

    Returns:
        The URI, not percent-encoded where the path is not; `None` when that leads out of the skill.
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
