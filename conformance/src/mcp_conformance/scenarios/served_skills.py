"""Skills that the fake server serves: their files, and their entries, correct or not.

Spec: the extension `io.modelcontextprotocol/skills`, Skill Entries
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.drivers.client.scripted_request import ErrorReply, RawReply, encoded
from mcp_core.types.skills import SKILLS_EXTENSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["SKILLS_CURSOR", "SKILL_FILE", "ServedSkill", "SkillServer", "markdown"]

SKILLS_CURSOR: Final = "the second page of skills"
"""The cursor of the second page of `skills/list`."""
SKILL_FILE: Final = "SKILL.md"
"""The name of the file that makes a directory a skill."""


def markdown(title: str, *links: str) -> str:
    """Return a text that links to files."""
    return f"# {title}\n\n" + "".join(f"Read [{path}]({path}).\n" for path in links)


@cache
def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _media_type(path: str) -> str:
    return "text/markdown" if path.endswith(".md") else "text/plain"


def _yaml(members: JsonObject, indent: str = "") -> str:
    """Return YAML with a string in quotes. A string in JSON is one in YAML, too."""
    lines: list[str] = []
    for name, value in members.items():
        nested = isinstance(value, dict)
        lines.append(f"{indent}{name}:" if nested else f"{indent}{name}: {json.dumps(value)}")
        if isinstance(value, dict):
            lines.append(_yaml(value, f"{indent}  "))
    return "\n".join(lines)


@attrs.frozen(kw_only=True, eq=False)
class ServedSkill:
    """A skill with its files. The members after `files` make its entry differ from the files."""

    root: str
    """The URI of its directory."""
    more: JsonObject = attrs.field(factory=dict)
    """The members of the front matter after the name and the description."""
    links: tuple[str, ...] = ()
    """The paths of the files to which `SKILL.md` links."""
    title: str = "Instructions"
    """The title of `SKILL.md`."""
    files: Mapping[str, str] = attrs.field(factory=dict)
    """The texts of the other files, by path."""
    dynamic: bool = False
    """Whether the entry says that the files are generated."""
    unlisted: frozenset[str] = frozenset()
    """The paths of files that the entry lacks."""
    other_digests: frozenset[str] = frozenset()
    """The paths of files with the digest of another text of the same size."""
    other_sizes: frozenset[str] = frozenset()
    """The paths of files with another size."""
    listed_more: JsonObject | None = None
    """The additional members of the front matter in the entry; `None`: those of `SKILL.md`."""

    @property
    def uri(self) -> str:
        """The URI of `SKILL.md`."""
        return self.file(SKILL_FILE)

    @property
    def linked(self) -> tuple[str, ...]:
        """The URIs of the files to which `SKILL.md` links."""
        return tuple(map(self.file, self.links))

    @property
    def flaw(self) -> str:
        """The rule that the entry breaks on purpose; empty if it breaks none."""
        rules = (
            (self.other_digests, "a digest of another text"),
            (self.other_sizes, "a size other than that of the file"),
            (self.listed_more is not None, "another front matter than that of SKILL.md"),
            (self.unlisted, "an entry without one of the files"),
        )
        return next((words for broken, words in rules if broken), "")

    def file(self, path: str) -> str:
        """Return the URI of a file."""
        return f"{self.root}/{path}"

    def texts(self) -> dict[str, str]:
        """Return the texts of all files, by path."""
        front_matter = _yaml(self._front_matter(self.more))
        return {SKILL_FILE: f"---\n{front_matter}\n---\n\n{markdown(self.title, *self.links)}", **self.files}

    def entry(self) -> JsonObject:
        """Return the entry for `skills/list` and `skills/get`."""
        listed = {path: text for path, text in self.texts().items() if path not in self.unlisted}
        resources: list[JsonValue] = [
            {
                "uri": self.file(path),
                "digest": _digest(text[::-1] if path in self.other_digests else text),
                "size": len(text.encode()) + (path in self.other_sizes),
            }
            for path, text in listed.items()
        ]
        return {
            "uri": self.uri,
            "frontmatter": self._front_matter(self.more if self.listed_more is None else self.listed_more),
            "resources": "dynamic" if self.dynamic else resources,
        }

    def _front_matter(self, more: JsonObject) -> JsonObject:
        name = self.root.rpartition("/")[2]
        return {"name": name, "description": f"The skill {name}: use it when the suite says so.", **more}


class SkillServer:
    """The part of a fake server that serves skills.

    Args:
        setup: The setup of the scenario, whose server is extended.
        settings: The settings of the extension.
    """

    def __init__(self, setup: ScenarioSetup, settings: JsonObject) -> None:
        self._server: Final = setup.server
        self._read_other: Final = self._server.handlers["resources/read"]
        self._entries: Final[dict[str, JsonObject]] = {}
        self._flaws: Final[dict[str, str]] = {}
        self._texts: Final[dict[str, str]] = {}
        self.pages: Final[list[list[JsonObject]]] = []
        """The entries that are listed: at most two pages."""
        self._server.capabilities = {**self._server.capabilities, "extensions": {SKILLS_EXTENSION: settings}}
        self._server.handlers["skills/list"] = self.list
        self._server.handlers["skills/get"] = self.get
        self._server.handlers["resources/read"] = self.read
        if settings.get("directoryRead") is True:
            self._server.handlers["resources/directory/read"] = self.read_directory

    def add(self, skill: ServedSkill) -> JsonObject:
        """Serve a skill, and return its entry, which is not listed yet."""
        self._texts.update({skill.file(path): text for path, text in skill.texts().items()})
        return self.add_entry(skill.entry(), skill.flaw)

    def add_entry(self, entry: JsonObject, flaw: str) -> JsonObject:
        """Serve an entry in place of that of the skill with its URI, and return it.

        Args:
            entry: The entry.
            flaw: The rule that it breaks on purpose; empty if it breaks none.
        """
        uri = str(entry["uri"])
        self._entries[uri] = entry
        self._flaws[uri] = flaw
        return entry

    async def list(self, request: ScriptedRequest) -> JsonObject:
        """Respond to `skills/list`."""
        cursor = request.params.get("cursor")
        last = len(self.pages) < 2 or cursor == SKILLS_CURSOR
        if cursor is not None and (cursor != SKILLS_CURSOR or len(self.pages) < 2):
            raise ErrorReply(-32602, "unknown cursor")
        entries = self.pages[0 if cursor is None else 1] if self.pages else []
        result: JsonObject = {"skills": [*entries]}
        flaws = [self._flaws[str(each["uri"])] for each in entries]
        flaw = ", ".join(dict.fromkeys(filter(None, flaws)))
        return self._answer(request, result if last else {**result, "nextCursor": SKILLS_CURSOR}, flaw)

    async def get(self, request: ScriptedRequest) -> JsonObject:
        """Respond to `skills/get`."""
        uri = request.text("uri")
        if uri not in self._entries:
            raise ErrorReply(-32602, "no skill has this URI")
        return self._answer(request, {"skill": self._entries[uri]}, self._flaws[uri])

    async def read(self, request: ScriptedRequest) -> JsonObject:
        """Respond to `resources/read`, also for resources outside of skills."""
        uri = request.text("uri")
        if uri not in self._texts:
            return await self._read_other(request)
        return {"contents": [{"uri": uri, "mimeType": _media_type(uri), "text": self._texts[uri]}]}

    async def read_directory(self, request: ScriptedRequest) -> JsonObject:
        """Respond to `resources/directory/read`."""
        root = f"{request.text('uri')}/"
        paths = sorted(uri.removeprefix(root) for uri in self._texts if uri.startswith(root))
        if not paths:
            raise ErrorReply(-32602, "no directory has this URI")
        children: dict[str, JsonValue] = {}
        for path in paths:
            name, below, _ = path.partition("/")
            kind = "inode/directory" if below else _media_type(name)
            children[name] = {"uri": f"{root}{name}", "name": name, "mimeType": kind}
        return {"resources": [*children.values()]}

    def _answer(self, request: ScriptedRequest, result: JsonObject, flaw: str) -> JsonObject:
        """Return a result, or raise it as one that breaks a rule on purpose."""
        if not flaw:
            return result
        whole = self._server.complete(request.method, result, request.revision)
        raise RawReply(encoded({"jsonrpc": "2.0", "id": request.message["id"], "result": whole}), flaw)
