"""The raw client in the scenarios of skills: it loads skills, verifies their files, and follows links in their texts."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mutants.client.fetch import fetch
from mutants.client.messages import in_scenario, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.client.messages import Wire

__all__ = ["SKILL_ACTS"]

_EXTENSION: Final = "io.modelcontextprotocol/skills"
_RESERVED: Final = "io.modelcontextprotocol/"
_LINK: Final = re.compile(r"\]\(([^)]+)\)")
_MAX_FILES: Final = 512
_MAX_BYTES: Final = 16 * 1024 * 1024


class _Unusable(Exception):
    """A skill, or a file of one, that must not be used. The only argument is the reason."""


def _load_each(wire: Wire, capabilities: JsonObject, _: JsonObject) -> None:
    """List the skills and load each; read the directories of a server that has them."""
    settings = _settings(capabilities)
    if settings is None and not wrong("skills-undeclared"):
        return
    skills = _list(wire)
    if in_scenario("sep-2640-client-no-prefetch") and not wrong("skills-prefetched"):
        return
    for skill in skills:
        _load(wire, skill)
        if (settings or {}).get("directoryRead") is True or wrong("skill-directories-anyway"):
            wire.call("resources/directory/read", {"uri": _root(skill)})


def _load_by_uri(wire: Wire, _: JsonObject, context: JsonObject) -> None:
    """Load the skill that the context names, which is not listed."""
    listed = {skill["uri"] for skill in _list(wire)}
    uri = str(context.get("skill"))
    if wrong("skill-directory-first"):
        wire.call("skills/get", {"uri": uri.rpartition("/")[0]})
    skill = wire.call("skills/get", {"uri": uri}).get("skill")
    if isinstance(skill, dict) and (uri in listed or not wrong("skills-listed-only")):
        _load(wire, skill)


def _settings(capabilities: JsonObject) -> JsonObject | None:
    """Return the settings of the extension, or `None` if the server does not declare it."""
    extensions = capabilities.get("extensions")
    settings = extensions.get(_EXTENSION) if isinstance(extensions, dict) else None
    return settings if isinstance(settings, dict) else None


def _list(wire: Wire) -> list[JsonObject]:
    """Return the skills of all pages."""
    found: list[JsonObject] = []
    params: JsonObject = {}
    while True:
        result = wire.call("skills/list", params)
        page = result.get("skills")
        found += [each for each in page if isinstance(each, dict)] if isinstance(page, list) else []
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str) or wrong("skills-of-first-page"):
            break
        params = {"cursor": cursor}
    if wrong("skills-by-name"):
        found = list({_name(each): each for each in found}.values())
    return found


def _name(skill: JsonObject) -> str:
    front_matter = skill.get("frontmatter")
    return str(front_matter.get("name")) if isinstance(front_matter, dict) else ""


def _root(skill: JsonObject) -> str:
    return str(skill["uri"]).rpartition("/")[0]


def _load(wire: Wire, skill: JsonObject) -> None:
    """Load a skill and follow the links in its texts, unless the skill must not be used."""
    try:
        _use(wire, skill)
    except _Unusable:
        if wrong("skills-refreshed"):
            current = wire.call("skills/get", {"uri": skill["uri"]}).get("skill")
            with suppress(_Unusable):
                _use(wire, current if isinstance(current, dict) else {})


def _use(wire: Wire, skill: JsonObject) -> None:
    files = _files(skill)
    _resolve_authority(skill)
    text = _read(wire, str(skill["uri"]), files)
    _compare(text, skill)
    seen: set[str] = set()
    texts = [text]
    for each in texts:
        for path in _LINK.findall(each):
            if path not in seen:
                seen.add(path)
                with suppress(_Unusable):
                    texts.append(_read(wire, f"{_root(skill)}/{path}", files))
    for uri in files or {} if wrong("skill-files-all") else ():
        with suppress(_Unusable):
            _read(wire, uri, files)


def _files(skill: JsonObject) -> dict[str, JsonObject] | None:
    """Return the listed files by URI, or `None` for a dynamic skill. Raises `_Unusable` for an invalid entry."""
    listed = skill.get("resources")
    if listed == "dynamic" and not wrong("skills-static-only"):
        return None
    if not isinstance(listed, list):
        if wrong("skills-of-any-resources"):
            return None
        raise _Unusable("its entry has no valid resources")
    files = {str(each["uri"]): each for each in listed if isinstance(each, dict)}
    size = sum(each["size"] for each in files.values() if isinstance(each["size"], int))
    if len(files) > _MAX_FILES - wrong("skills-of-511-files") or size > _MAX_BYTES - wrong("skills-below-16-mib"):
        raise _Unusable("it is too large")
    if wrong("skill-metadata-known-only") and _RESERVED in json.dumps(skill["frontmatter"]):
        raise _Unusable("its metadata has an unknown key")
    return files


def _resolve_authority(skill: JsonObject) -> None:
    """Request the skill from the host in its URI, if that is the fault."""
    parts = urlsplit(str(skill["uri"]))
    if wrong("skill-hosts-resolved") and parts.port is not None:
        fetch("GET", f"http://{parts.netloc}{parts.path}")


def _read(wire: Wire, uri: str, files: Mapping[str, JsonObject] | None) -> str:
    """Return the text of a file.

    Raises:
        _Unusable: It is not listed, or does not fit its entry.
    """
    known = None if files is None else files.get(uri)
    if files is not None and known is None and not wrong("skill-files-unlisted"):
        raise _Unusable("it is not listed")
    contents = wire.call("resources/read", {"uri": uri}).get("contents")
    first = contents[0] if isinstance(contents, list) else None
    text = str(first.get("text")) if isinstance(first, dict) else ""
    if known is not None and not (wrong("skill-files-unverified") and not uri.endswith("/SKILL.md")):
        data = (text.replace("\r\n", "\n") if wrong("skill-line-ends-changed") else text).encode()
        size = len(text) if wrong("skill-sizes-in-characters") else len(data)
        if known["size"] != size and not wrong("skill-sizes-unverified"):
            raise _Unusable("it has another size")
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if known["digest"] != digest and not wrong("skill-digests-unverified"):
            raise _Unusable("it has another digest")
    return text


def _compare(text: str, skill: JsonObject) -> None:
    """Raise `_Unusable` unless the front matter of a `SKILL.md` is that of its entry."""
    read, listed = _front_matter(text), skill["frontmatter"]
    if not isinstance(listed, dict):
        raise _Unusable("its entry has no front matter")
    names = read.keys() | listed.keys()
    if wrong("skill-front-matter-required-only"):
        names = {"name", "description"}
    if wrong("skill-front-matter-common-only"):
        names = read.keys() & listed.keys()
    if any(read.get(name) != listed.get(name) for name in names) and not wrong("skill-front-matter-ignored"):
        raise _Unusable("it has another front matter")


def _front_matter(text: str) -> JsonObject:
    """Return the front matter: names with a string in quotes, or with names that are indented."""
    found: JsonObject = {}
    inner: JsonObject = {}
    for line in text.split("---\n")[1].splitlines():
        name, _, value = line.strip().partition(": ")
        if line.startswith(" "):
            inner[name] = json.loads(value)
        elif value:
            found[name] = json.loads(value)
        else:
            found[name.rstrip(":")] = inner = {}
    return found


SKILL_ACTS: Final[Mapping[str, Callable[[Wire, JsonObject, JsonObject], None]]] = {
    "conformance_skill_by_uri": _load_by_uri,
    "conformance_skills": _load_each,
    "conformance_skills_changed": _load_each,
    "conformance_skills_invalid": _load_each,
    "conformance_skills_undeclared": _load_each,
    "sep-2640-client-no-prefetch": _load_each,
    "sep-2640-client-verify-digest": _load_each,
    "sep-2640-client-verify-frontmatter": _load_each,
    "sep-2640-client-verify-size": _load_each,
}
"""The scenarios by name."""
