"""The skills extension of 2026-07-28: the list of skills, their entries, their files and directories.

Spec: the extension `io.modelcontextprotocol/skills`
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from mcp_conformance.checks.probes.front_matter import differs, read_front_matter
from mcp_conformance.checks.probes.near_misses import CLIMBS
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.probes.skill_entries import (
    SKILL_FILE,
    child_of,
    content_of,
    directories_of,
    files_of,
    listed_skills,
    pages_of_skills,
    read_directory,
    require_skills,
    root_of,
)
from mcp_conformance.checks.registry.server import SERVER_CHECKS, check
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw, flaw_of_result
from mcp_conformance.protocol.response import brief
from mcp_core.types.skills import SKILLS_EXTENSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_MOST_SKILLS: Final = 10
"""Maximum number of skills of which files are read."""
_MOST_FILES: Final = 20
"""Maximum number of files that are read of a skill."""
_MOST_UNKNOWN: Final = 60
"""Maximum number of URIs that are not those of skills."""
_MOST_FILES_OF_SKILL: Final = 512
_MOST_BYTES_OF_SKILL: Final = 16 * 1024 * 1024

_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME: Final = 64
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SEGMENT: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
"""A reg-name and, with `:` and `@`, a segment of a path (RFC 3986, 3.2.2 and 3.3)."""

_RESERVED: Final = "io.modelcontextprotocol/"
_META_PREFIX: Final = "io.modelcontextprotocol.skills/"
_MEDIA_TYPE: Final = "text/markdown"
_DIRECTORY: Final = "inode/directory"
_UNKNOWN: Final = "skill://conformance-does-not-exist/SKILL.md"
_UNLISTED: Final = "skill://conformance-unlisted/SKILL.md"


# --- declaration -----------------------------------------------------------------------------------------------------


@check("skills.declaration", proves=("skills.settings",))
async def declaration(server: ServerUnderTest) -> None:
    """The settings of the skills extension are an object, in which `directoryRead` is a boolean."""
    require_skills(server)
    settings = member(server.inventory.capabilities, "extensions", SKILLS_EXTENSION)
    wrong = flaw(settings, "SkillsExtensionCapability", server.revision)
    if wrong is not None:
        raise Deviation("settings of the skills extension", wrong)


@check("skills.resources-declared", proves=("skills.resources-declared",))
async def resources_declared(server: ServerUnderTest) -> None:
    """A server with the skills extension declares the capability `resources`."""
    require_skills(server)
    if not isinstance(server.inventory.capabilities.get("resources"), dict):
        raise Deviation("the capability 'resources'", brief(server.inventory.capabilities))


# --- methods ---------------------------------------------------------------------------------------------------------


@check(
    "skills.list",
    proves=("skills.list-implemented", "skills.entry-shape", "skills.resources-present", "skills.size-present"),
)
async def listing(server: ServerUnderTest) -> None:
    """`skills/list` returns entries with `uri`, `frontmatter` and `resources`."""
    for page in await pages_of_skills(server):
        _require_result(server, "skills/list", page)
        skills = page.result().get("skills")
        for entry in skills if isinstance(skills, list) else ():
            _require_entry(entry)


@check("skills.list-complete", proves=("skills.list-result-type",))
async def list_complete(server: ServerUnderTest) -> None:
    """The `resultType` of `skills/list` is `complete`."""
    for page in await pages_of_skills(server):
        _require_complete(page)


@check("skills.list-cacheable", proves=("skills.list-cacheable",))
async def list_cacheable(server: ServerUnderTest) -> None:
    """The result of `skills/list` has `ttlMs` and `cacheScope`."""
    for page in await pages_of_skills(server):
        _require_cacheable(page)


@check("skills.entry-atomic", proves=("skills.entry-atomic",))
async def entry_atomic(server: ServerUnderTest) -> None:
    """No skill is on two pages of `skills/list`."""
    uris = Counter(str(entry.get("uri")) for entry in await listed_skills(server))
    twice = [uri for uri, count in uris.items() if count > 1]
    if twice:
        raise Deviation("one entry for each skill", f"several for {brief([*twice])}")


@check("skills.get", proves=("skills.get-implemented", "skills.get-entry"))
async def get(server: ServerUnderTest) -> None:
    """`skills/get` returns the entry of each listed skill."""
    for entry in (await listed_skills(server))[:_MOST_SKILLS]:
        answer = await _get(server, entry)
        _require_result(server, "skills/get", answer)
        found = answer.result().get("skill")
        _require_entry(found)
        if found != entry and entry in await listed_skills(server):
            raise Deviation(f"the entry of the list, {brief(entry)}", brief(found))


@check("skills.get-complete", proves=("skills.get-result-type",))
async def get_complete(server: ServerUnderTest) -> None:
    """The `resultType` of `skills/get` is `complete`, for each skill."""
    for answer in await _each(server):
        _require_complete(answer)


@check("skills.get-cacheable", proves=("skills.get-cacheable",))
async def get_cacheable(server: ServerUnderTest) -> None:
    """The result of `skills/get` has `ttlMs` and `cacheScope`, for each skill."""
    for answer in await _each(server):
        _require_cacheable(answer)


@check("skills.get-no-cursor", proves=("skills.get-no-cursor",))
async def get_no_cursor(server: ServerUnderTest) -> None:
    """The result of `skills/get` has no `nextCursor`."""
    for answer in await _each(server):
        if "nextCursor" in answer.result():
            raise Deviation("no nextCursor", str(answer))


@check("skills.get-unknown", proves=("skills.get-unknown-32602",))
async def get_unknown(server: ServerUnderTest) -> None:
    """`skills/get` for a URI that is not that of a skill is answered with the error -32602."""
    require_skills(server)
    uris = [_UNKNOWN]
    for entry in await _listed_or_none(server):
        uri, root = str(entry.get("uri")), root_of(entry)
        uris += [f"{uri}/", f"{uri}?conformance", *([] if root is None else [f"{root}{SKILL_FILE.lower()}"])]
    for entry in await _listed_or_none(server):
        uris += [uri for uri in (*files_of(entry), root_of(entry)) if uri and not uri.endswith(SKILL_FILE)]
    for uri in uris[:_MOST_UNKNOWN]:
        answer = await server.peer.request("skills/get", {"uri": uri})
        answer.error(-32602, what=f"skills/get of {uri}")


@check("skills.get-unlisted", proves=("skills.get-unlisted",))
async def get_unlisted(server: ServerUnderTest) -> None:
    """`skills/get` returns a skill that the list does not contain."""
    require_skills(server)
    uri = server.manifest.find("resources", _UNLISTED).name
    if uri in [entry.get("uri") for entry in await _listed_or_none(server)]:
        raise NotTestable(f"{uri} is listed")
    control = await server.peer.request("resources/read", {"uri": uri})
    if control.is_error:
        raise NotTestable(f"the fixture skill {_UNLISTED!r} is missing: {control}")
    answer = await server.peer.request("skills/get", {"uri": uri})
    _require_result(server, "skills/get", answer)
    _require_entry(answer.result().get("skill"))
    if member(answer.result(), "skill", "uri") != uri:
        raise Deviation(f"the entry of {uri}", str(answer))


async def _get(server: ServerUnderTest, entry: JsonObject) -> JsonRpcResponse:
    return await server.peer.request("skills/get", {"uri": entry.get("uri")})


async def _each(server: ServerUnderTest) -> list[JsonRpcResponse]:
    """Return the responses to `skills/get` for the listed skills, and for the one that is not listed if the server has it."""
    answers = [await _get(server, entry) for entry in (await listed_skills(server))[:_MOST_SKILLS]]
    unlisted = await _get(server, {"uri": server.manifest.find("resources", _UNLISTED).name})
    return answers if unlisted.is_error else [*answers, unlisted]


async def _listed_or_none(server: ServerUnderTest) -> list[JsonObject]:
    try:
        return (await listed_skills(server))[:_MOST_SKILLS]
    except NotApplicable:
        return []


def _require_result(server: ServerUnderTest, method: str, answer: JsonRpcResponse) -> None:
    # Separate checks cover the members that all results have.
    besides: JsonObject = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    wrong = flaw_of_result(method, {**answer.result(), **besides}, server.revision)
    if wrong is not None:
        raise Deviation(f"a result of {method}", wrong)


def _require_entry(entry: JsonValue) -> None:
    for name in ("name", "description"):
        if not isinstance(member(entry, "frontmatter", name), str):
            raise Deviation(f"an entry with frontmatter.{name}", brief(entry))


def _require_complete(answer: JsonRpcResponse) -> None:
    if answer.result().get("resultType") != "complete":
        raise Deviation("resultType 'complete'", str(answer))


def _require_cacheable(answer: JsonRpcResponse) -> None:
    lifetime, scope = answer.member("ttlMs", int, float), answer.member("cacheScope", str)
    if (isinstance(lifetime, int | float) and lifetime < 0) or scope not in ("public", "private"):
        raise Deviation("ttlMs of at least 0, and cacheScope 'public' or 'private'", str(answer))


# --- entries ---------------------------------------------------------------------------------------------------------


@check("skills.path", proves=("skills.skill-file", "skills.path-ends-in-name", "skills.name-rules"))
async def path(server: ServerUnderTest) -> None:
    """The URI of a skill ends in its name and `SKILL.md`."""
    for entry in await listed_skills(server):
        name = member(entry, "frontmatter", "name")
        root = root_of(entry)
        if root is None:
            raise Deviation(f"a URI of a skill that ends in {SKILL_FILE}", brief(entry.get("uri")))
        last = unquote(root.rpartition("/")[2])
        if last != name:
            raise Deviation(f"the directory {name!r}, as the skill is named", str(entry.get("uri")))
        if len(last) > _LONGEST_NAME or _NAME.fullmatch(last) is None:
            raise Deviation(
                f"a name of at most {_LONGEST_NAME} lower-case letters and digits with single dashes", brief(last)
            )


@check("skills.files", proves=("skills.resources-complete", "skills.resources-within"))
async def files(server: ServerUnderTest) -> None:
    """The files of a skill are each listed once, are in its directory, and include `SKILL.md`."""
    for entry in await _static(server):
        resources = entry["resources"]
        uris = [str(member(file, "uri")) for file in (resources if isinstance(resources, list) else ())]
        if len(set(map(unquote, uris))) < len(uris):
            raise Deviation("each file once", brief([*uris]))
        if entry.get("uri") not in uris:
            raise Deviation(f"{entry.get('uri')} among the files of the skill", brief([*uris]))
        for uri in uris:
            if not _is_within(root_of(entry) or "", uri):
                raise Deviation(f"a file in the directory {root_of(entry)}", brief(uri))


@check("skills.digest-format", proves=("skills.digest-format",))
async def digest_format(server: ServerUnderTest) -> None:
    """A digest is `sha256:` and 64 hexadecimal digits in lower case."""
    for entry in await _static(server):
        for uri, file in files_of(entry).items():
            if _DIGEST.fullmatch(str(file.get("digest"))) is None:
                raise Deviation(f"a digest of {uri}", brief(file.get("digest")))


@check("skills.nested", proves=("skills.resources-nested",))
async def nested(server: ServerUnderTest) -> None:
    """The files of a skill include those of the skills in its directory."""
    entries = await _static(server)
    pairs = [
        (outer, inner)
        for inner in entries
        for outer in entries
        if (root_of(inner) or "").startswith(f"{root_of(outer)}/") and root_of(outer)
    ]
    if not pairs:
        raise NotApplicable("no listed skill is in the directory of another one")
    for outer, inner in pairs:
        missing = [uri for uri in files_of(inner) if uri not in files_of(outer)]
        if missing:
            raise Deviation(f"{missing[0]} among the files of {outer['uri']}", brief([*files_of(outer)]))


def _is_within(root: str, uri: str) -> bool:
    """Return whether a file is in a directory, without `.` or `..` in the path between them."""
    if not root or not uri.startswith(f"{root}/") or "?" in uri or "#" in uri:
        return False
    return all(part not in ("", ".", "..") for part in map(unquote, uri[len(root) + 1 :].split("/")))


async def _static(server: ServerUnderTest) -> list[JsonObject]:
    """Return the listed skills with a list of files."""
    entries = [entry for entry in await listed_skills(server) if isinstance(entry.get("resources"), list)]
    if not entries:
        raise NotApplicable("no listed skill has a list of files")
    return entries


# --- contents --------------------------------------------------------------------------------------------------------


@check("skills.contents", proves=("skills.digest-matches",))
async def contents(server: ServerUnderTest) -> None:
    """The content of each listed file has the listed size and digest."""
    for entry in (await _static(server))[:_MOST_SKILLS]:
        for uri, file in [*files_of(entry).items()][:_MOST_FILES]:
            data = content_of(await server.peer.request("resources/read", {"uri": uri}))
            found: JsonObject = {"digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
            if (file.get("digest"), file.get("size")) == (found["digest"], found["size"]):
                continue
            if entry not in await listed_skills(server):
                raise NotTestable(f"{uri} changed while it was read")
            raise Deviation(f"{uri} with {brief(found)}, as it is read", brief(file))


@check("skills.front-matter", proves=("skills.front-matter-required", "skills.front-matter-identical"))
async def front_matter(server: ServerUnderTest) -> None:
    """A `SKILL.md` begins with the front matter that its entry has."""
    for entry in (await listed_skills(server))[:_MOST_SKILLS]:
        answer = await server.peer.request("resources/read", {"uri": entry.get("uri")})
        readings = read_front_matter(content_of(answer))
        listed = entry.get("frontmatter")
        if all(differs(reading, listed) for reading in readings):
            if entry not in await listed_skills(server):
                raise NotTestable(f"{entry.get('uri')} changed while it was read")
            raise Deviation(f"the front matter of {entry.get('uri')}, {brief(readings[0])}", brief(listed))


@check("skills.file-unknown", proves=("skills.file-unknown-32602",))
async def file_unknown(server: ServerUnderTest) -> None:
    """A read of a file that a skill does not have is answered with the error -32602."""
    for entry in (await _static(server))[:_MOST_SKILLS]:
        unknown = [f"{directory}/conformance-does-not-exist.md" for directory in (root_of(entry), *_below(entry))]
        other_case = f"{root_of(entry)}{SKILL_FILE.lower()}"
        unknown += [] if other_case in files_of(entry) else [other_case]
        for uri in unknown:
            answer = await server.peer.request("resources/read", {"uri": uri})
            answer.error(-32602, what=f"the unknown file {uri}")
        for climb in CLIMBS:
            uri = f"{root_of(entry)}/{climb}"
            answer = await server.peer.request(
                "resources/read", {"uri": uri}, deviant="a path outside of the directory"
            )
            answer.error(what=f"the URI {uri}, which leads out of the skill")


def _below(entry: JsonObject) -> list[str]:
    """Return the directories of a skill below its root, as they are in the URIs of its files."""
    root = f"{root_of(entry)}/"
    found = {uri.rpartition("/")[0] for uri in files_of(entry) if uri.startswith(root)}
    return sorted(found - {root[:-1]})


# --- directories -----------------------------------------------------------------------------------------------------


@check(
    "skills.directory", proves=("skills.directory-implemented", "skills.directory-each", "skills.directory-children")
)
async def directory(server: ServerUnderTest) -> None:
    """Each directory of a skill can be read: its direct children, and no others."""
    for entry in await _dynamic(server):
        children = await read_directory(server, str(root_of(entry)))
        if str(entry.get("uri")) not in [child.get("uri") for child in children]:
            raise Deviation(f"{entry.get('uri')} in its directory", brief([*children]))
    async for uri, expected, children in _directories(server):
        kinds = {child_of(child): child.get("mimeType") for child in children}
        deeper = [child for child in kinds if child.rpartition("/")[0] != uri]
        if deeper:
            raise Deviation(f"only direct children of {uri}", brief(deeper[0]))
        if len(kinds) < len(children):
            raise Deviation(f"each child of {uri} once", brief([child.get("uri") for child in children]))
        missing = sorted(expected.keys() - kinds.keys())
        if missing:
            raise Deviation(f"{missing[0]} in the directory {uri}", brief([*kinds]))
        for child, is_directory in expected.items():
            if (kinds[child] == _DIRECTORY) is not is_directory:
                kind = f"the media type {_DIRECTORY}" if is_directory else f"another media type than {_DIRECTORY}"
                raise Deviation(f"{kind} of {child}", brief(kinds[child]))


@check("skills.directory-complete", proves=("skills.directory-result-type",))
async def directory_complete(server: ServerUnderTest) -> None:
    """The `resultType` of `resources/directory/read` is `complete`."""
    require_skills(server, directories=True)
    entries = [entry for entry in (await listed_skills(server))[:_MOST_SKILLS] if root_of(entry) is not None]
    if not entries:
        raise NotTestable("no listed skill has the URI of a SKILL.md")
    for entry in entries:
        for uri in (root_of(entry), *_below(entry)):
            _require_complete(await server.peer.request("resources/directory/read", {"uri": uri}))


@check("skills.complete", proves=("skills.resources-complete",))
async def complete(server: ServerUnderTest) -> None:
    """No file in the directories of a skill is missing in its entry."""
    async for uri, expected, children in _directories(server):
        new = [child for child in children if child_of(child) not in expected]
        for _ in range(_MOST_FILES):
            if not new:
                break
            child = new.pop()
            if child.get("mimeType") != _DIRECTORY:
                raise Deviation(f"{child.get('uri')} among the files of the skill, as it is in {uri}", "it is missing")
            new += await read_directory(server, str(child.get("uri")))


@check("skills.directory-unknown", proves=("skills.directory-unknown-32602",))
async def directory_unknown(server: ServerUnderTest) -> None:
    """A directory read of a file, or of what does not exist, is answered with the error -32602."""
    require_skills(server, directories=True)
    entries = (await listed_skills(server))[:_MOST_SKILLS]
    known = {directory for entry in entries for directory in directories_of(entry)}
    for entry in entries:
        root, files = str(root_of(entry)), [*files_of(entry)][:_MOST_FILES]
        # A server may look for URIs that begin so.
        cut = [root[:-1]] if not root[:-1].endswith("/") and unquote(root[:-1]) not in known else []
        for uri in dict.fromkeys((str(entry.get("uri")), *files, f"{root}/conformance-does-not-exist", *cut)):
            answer = await server.peer.request("resources/directory/read", {"uri": uri})
            answer.error(-32602, what=f"{uri}, which is not a directory")


async def _dynamic(server: ServerUnderTest) -> list[JsonObject]:
    """Return the listed skills whose files are not listed, of a server that reads directories."""
    require_skills(server, directories=True)
    entries = (await listed_skills(server))[:_MOST_SKILLS]
    return [entry for entry in entries if entry.get("resources") == "dynamic" and root_of(entry) is not None]


async def _directories(server: ServerUnderTest) -> AsyncIterator[tuple[str, dict[str, bool], list[JsonObject]]]:
    """Yield each directory of the skills: its URI, the children by their entry, and those that are read.

    The children by their entry are decoded URIs, with whether they are directories.
    """
    require_skills(server, directories=True)
    for entry in (await _static(server))[:_MOST_SKILLS]:
        found = directories_of(entry)
        for uri in [*found][:_MOST_FILES]:
            yield uri, {child: child in found for child in found[uri]}, await read_directory(server, uri)


# --- recommendations -------------------------------------------------------------------------------------------------


@check("skills.uri-form", proves=("skills.scheme", "skills.authority", "skills.prefix-segments"))
async def uri_form(server: ServerUnderTest) -> None:
    """The URIs of skills have the scheme `skill`, and valid segments."""
    for entry in await listed_skills(server):
        scheme, _, rest = (root_of(entry) or "").partition("://")
        authority, *segments = rest.split("/")
        plain = [authority, *(re.sub("[:@]", "", segment) for segment in segments)]
        if scheme.lower() != "skill" or not all(map(_SEGMENT.fullmatch, plain)):
            raise Deviation("a URI skill://<path>/SKILL.md with valid segments", brief(entry.get("uri")))


@check("skills.names-unique", proves=("skills.names-unique",))
async def names_unique(server: ServerUnderTest) -> None:
    """No two listed skills have the same name."""
    names = Counter(str(member(entry, "frontmatter", "name")) for entry in await listed_skills(server))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise Deviation("names of skills that are unique", f"several skills with the name {twice[0]!r}")


@check("skills.reserved-metadata", proves=("skills.metadata-reserved",))
async def reserved_metadata(server: ServerUnderTest) -> None:
    """The `metadata` of a skill has no key with a reserved prefix."""
    for entry in await listed_skills(server):
        metadata = member(entry, "frontmatter", "metadata")
        for key in metadata if isinstance(metadata, dict) else ():
            if key.startswith(_RESERVED):
                raise Deviation(f"no key with the prefix {_RESERVED} in metadata", f"{key!r} of {entry.get('uri')}")


@check("skills.limits", proves=("skills.limits-respected",))
async def limits(server: ServerUnderTest) -> None:
    """A skill has at most 512 files and 16 MiB."""
    for entry in await _static(server):
        sizes = [size for size in (file.get("size") for file in files_of(entry).values()) if isinstance(size, int)]
        count, total = len(files_of(entry)), sum(sizes)
        if count > _MOST_FILES_OF_SKILL or total > _MOST_BYTES_OF_SKILL:
            raise Deviation(
                f"at most {_MOST_FILES_OF_SKILL} files and {_MOST_BYTES_OF_SKILL} bytes",
                f"{count} files and {total} bytes of {entry.get('uri')}",
            )


@check("skills.media-type", proves=("skills.media-type",))
async def media_type(server: ServerUnderTest) -> None:
    """The media type of a `SKILL.md` is `text/markdown`."""
    for entry in (await listed_skills(server))[:_MOST_SKILLS]:
        answer = await server.peer.request("resources/read", {"uri": entry.get("uri")})
        read = answer.member("contents", list)
        kinds = [member(each, "mimeType") for each in (read if isinstance(read, list) else ())]
        resource = _resource(server, entry)
        kinds += [] if resource is None else [resource.get("mimeType")]
        for kind in kinds:
            if kind is None or str(kind).partition(";")[0].strip().lower() != _MEDIA_TYPE:
                raise Deviation(f"the media type {_MEDIA_TYPE} of {entry.get('uri')}", brief(kind))


def _same_as_resource(field: str) -> Callable[[ServerUnderTest], Awaitable[None]]:
    """Return a check that the listed resource of a `SKILL.md` has a member of its front matter."""

    async def run(server: ServerUnderTest) -> None:
        entries = [entry for entry in await listed_skills(server) if _resource(server, entry) is not None]
        if not entries:
            raise NotApplicable("resources/list has no SKILL.md")
        for entry in entries:
            listed = (_resource(server, entry) or {}).get(field)
            if listed != member(entry, "frontmatter", field):
                raise Deviation(f"the {field} of the front matter of {entry.get('uri')}", brief(listed))

    return run


def _resource(server: ServerUnderTest, entry: JsonObject) -> JsonObject | None:
    return server.inventory.find("resources", str(entry.get("uri")))


for _field in ("name", "description"):
    SERVER_CHECKS.add(
        f"skills.resource-{_field}",
        _same_as_resource(_field),
        title=f"The `{_field}` of the resource of a `SKILL.md` is that of its front matter.",
        proves=(f"skills.resource-{_field}",),
    )


@check("skills.meta-prefix", proves=("skills.meta-prefix",))
async def meta_prefix(server: ServerUnderTest) -> None:
    """Keys of `_meta` on the resources of skills have the prefix of the extension."""
    found = [_resource(server, entry) for entry in await listed_skills(server)]
    keys = [key for meta in (member(each, "_meta") for each in found) if isinstance(meta, dict) for key in meta]
    if not keys:
        raise NotApplicable("no listed resource of a skill has _meta")
    for key in keys:
        if not key.startswith(_META_PREFIX):
            raise Deviation(f"a key with the prefix {_META_PREFIX}", brief(key))
