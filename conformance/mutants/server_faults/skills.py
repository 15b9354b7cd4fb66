"""Faults of the skills extension of 2026-07-28: of its methods, entries, files and directories."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import META, MODERN, RpcError
from mutants.server.skills import SKILLS_EXTENSION, entry_of
from mutants.server_faults.lists import changed, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

    EntryChange = Callable[[JsonObject], JsonObject]
    FileChange = Callable[[list[JsonObject]], list[JsonObject]]

__all__: list[str] = []

_WORKFLOW: Final = "skill://git-workflow/SKILL.md"
_RULES: Final = "skill://git-workflow/references/RULES.md"
_REFUNDS: Final = "skill://acme/refunds/SKILL.md"
_REFUNDS_ROOT: Final = "skill://acme/refunds"
_EMAIL: Final = "skill://acme/refunds/templates/email.md"


# --- declaration -----------------------------------------------------------------------------------------------------


class _OtherSettings(Fault):
    def __init__(self, settings: JsonValue) -> None:
        self._settings: Final = settings

    def capabilities(self, declared: JsonObject) -> JsonObject:
        extensions = declared.get("extensions")
        if not isinstance(extensions, dict):
            return declared
        return {**declared, "extensions": {**extensions, SKILLS_EXTENSION: self._settings}}


fault("skills-directory-read-text", "skills.declaration", revisions=MODERN)(
    partial(_OtherSettings, {"directoryRead": "yes"})
)


@fault("skills-without-resources", "skills.resources-declared", "resources.declared", revisions=MODERN)
class _WithoutResources(Fault):
    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {name: each for name, each in declared.items() if name != "resources"}


# --- methods ---------------------------------------------------------------------------------------------------------


def _missing(*methods: str) -> type[Fault]:
    """Return a fault of a server that declares methods without implementing them."""

    class _MissingMethods(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            method = str(inbound.request["method"])
            if method in methods:
                raise RpcError(-32601, f"unknown method {method!r}", status=404)
            return result

    return _MissingMethods


def _result_without(name: str) -> Callable[[InboundRequest, JsonObject], JsonObject]:
    return lambda _, result: {key: value for key, value in result.items() if key != name}


fault("skills-list-missing", "skills.list", revisions=MODERN)(_missing("skills/list"))
fault("skills-get-missing", "skills.get", "skills.get-unlisted", revisions=MODERN)(_missing("skills/get"))
fault("directory-read-missing", "skills.directory", revisions=MODERN)(_missing("resources/directory/read"))

for _method, _area in (("skills/list", "list"), ("skills/get", "get"), ("resources/directory/read", "directory")):
    changed(
        f"skills-{_area}-incomplete",
        f"skills.{_area}-complete",
        method=_method,
        change=lambda _, result: {**result, "resultType": "partial"},
        revisions=MODERN,
        modern=True,
    )
for _method, _area in (("skills/list", "list"), ("skills/get", "get")):
    for _name in ("ttlMs", "cacheScope"):
        changed(
            f"skills-{_area}-without-{_name.lower()}",
            f"skills.{_area}-cacheable",
            method=_method,
            change=_result_without(_name),
            revisions=MODERN,
            modern=True,
        )

changed(
    "skills-get-cursor",
    "skills.get-no-cursor",
    method="skills/get",
    change=lambda _, result: {**result, "nextCursor": "more"},
    revisions=MODERN,
)
changed(
    "skill-on-two-pages",
    "skills.entry-atomic",
    method="skills/list",
    change=lambda inbound, result: (
        {**result, "skills": [*_array(result["skills"]), entry_of("git-workflow")]}
        if "cursor" in inbound.params
        else result
    ),
    revisions=MODERN,
)
changed(
    "skills-get-other-entry",
    "skills.get",
    method="skills/get",
    change=lambda _, result: {"skill": {**_object(result["skill"]), "com.example/extra": True}},
    of=_REFUNDS,
    revisions=MODERN,
)
refusal("skills-get-not-found", "skills.get-unknown", method="skills/get", code=-32603, revisions=MODERN)
refusal(
    "skills-get-any",
    "skills.get-unknown",
    method="skills/get",
    code=None,
    instead={"skill": entry_of("git-workflow")},
    revisions=MODERN,
)
refusal(
    "skills-get-of-file",
    "skills.get-unknown",
    method="skills/get",
    code=None,
    instead={"skill": entry_of("git-workflow")},
    of=_RULES,
    revisions=MODERN,
)
refusal(
    "skill-file-not-found",
    "skills.file-unknown",
    method="resources/read",
    code=-32603,
    of="skill://git-workflow/conformance-does-not-exist.md",
    revisions=MODERN,
)
refusal(
    "directory-read-not-found",
    "skills.directory-unknown",
    method="resources/directory/read",
    code=-32603,
    revisions=MODERN,
)
refusal(
    "directory-read-of-file",
    "skills.directory-unknown",
    method="resources/directory/read",
    code=None,
    instead={"resources": []},
    of=_WORKFLOW,
    revisions=MODERN,
)


_UNLISTED: Final = "skill://conformance-unlisted/SKILL.md"
_DAILY: Final = "skill://reports/daily/SKILL.md"

for _name, _uri, _check, _change in (
    ("unlisted-incomplete", _UNLISTED, "skills.get-complete", lambda _, result: {**result, "resultType": "partial"}),
    ("dynamic-without-ttl", _DAILY, "skills.get-cacheable", _result_without("ttlMs")),
    ("dynamic-with-cursor", _DAILY, "skills.get-no-cursor", lambda _, result: {**result, "nextCursor": "more"}),
):
    changed(f"skills-get-{_name}", _check, method="skills/get", of=_uri, change=_change, revisions=MODERN, modern=True)
changed(
    "skills-get-unlisted-bare",
    "skills.get-unlisted",
    method="skills/get",
    of=_UNLISTED,
    change=lambda _, result: {"skill": {"uri": _object(result["skill"])["uri"], "frontmatter": {}, "resources": []}},
    revisions=MODERN,
)
refusal(
    "skills-get-any-case",
    "skills.get-unknown",
    method="skills/get",
    code=None,
    instead={"skill": entry_of("git-workflow")},
    of="skill://git-workflow/skill.md",
    revisions=MODERN,
)
for _name, _uri in (
    ("any-case", "skill://git-workflow/skill.md"),
    ("climbs", f"skill://git-workflow/{'%2e%2e/' * 10}etc/passwd"),
):
    refusal(
        f"skill-file-{_name}",
        "skills.file-unknown",
        method="resources/read",
        code=None,
        instead={"contents": [{"uri": _WORKFLOW, "text": "a text"}]},
        of=_uri,
        revisions=MODERN,
    )
refusal(
    "skill-file-of-directory-not-found",
    "skills.file-unknown",
    method="resources/read",
    code=-32603,
    of=f"{_REFUNDS_ROOT}/templates/conformance-does-not-exist.md",
    revisions=MODERN,
)
refusal(
    "directory-read-of-any-file",
    "skills.directory-unknown",
    method="resources/directory/read",
    code=None,
    instead={"resources": []},
    of=_RULES,
    revisions=MODERN,
)
refusal(
    "directory-read-of-prefix",
    "skills.directory-unknown",
    method="resources/directory/read",
    code=None,
    instead={"resources": []},
    of=_REFUNDS_ROOT[:-1],
    revisions=MODERN,
)
changed(
    "directory-below-incomplete",
    "skills.directory-complete",
    method="resources/directory/read",
    of=f"{_REFUNDS_ROOT}/templates",
    change=lambda _, result: {**result, "resultType": "partial"},
    revisions=MODERN,
    modern=True,
)


@fault("directory-of-dynamic-skill-unknown", "skills.directory", "skills.directory-complete", revisions=MODERN)
class _DynamicDirectoryUnknown(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.params.get("uri") == "skill://reports/daily":
            raise RpcError(-32602, "not a directory")
        return result


@fault("skills-get-only-listed", "skills.get-unlisted", revisions=MODERN)
class _OnlyListed(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] == "skills/get" and "unlisted" in str(inbound.params.get("uri")):
            raise RpcError(-32602, "no such skill")
        return result


# --- entries ---------------------------------------------------------------------------------------------------------


def _array(value: JsonValue) -> list[JsonObject]:
    return [each for each in (value if isinstance(value, list) else ()) if isinstance(each, dict)]


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _entry(name: str, *caught_by: str, change: EntryChange, skill: str = _WORKFLOW) -> None:
    """Add a fault that changes the entry of a skill, in the list and alone."""

    class _ChangedEntry(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            def once(entry: JsonObject) -> JsonObject:
                return change(entry) if entry.get("uri") == skill else entry

            if inbound.request["method"] == "skills/list":
                return {**result, "skills": [once(entry) for entry in _array(result["skills"])]}
            if inbound.request["method"] == "skills/get":
                return {**result, "skill": once(_object(result["skill"]))}
            return result

    fault(name, *caught_by, revisions=MODERN)(_ChangedEntry)


def _files(name: str, *caught_by: str, change: FileChange, skill: str = _WORKFLOW) -> None:
    """Add a fault that changes the files in the entry of a skill."""
    _entry(
        name,
        *caught_by,
        change=lambda entry: {**entry, "resources": [*change(_array(entry["resources"]))]},
        skill=skill,
    )


def _front(**members: JsonValue) -> EntryChange:
    """Return a change of front matter. A member that is `None` is removed."""

    def change(entry: JsonObject) -> JsonObject:
        front = {**_object(entry["frontmatter"]), **members}
        return {**entry, "frontmatter": {name: value for name, value in front.items() if value is not None}}

    return change


def _without(name: str) -> EntryChange:
    return lambda entry: {key: value for key, value in entry.items() if key != name}


_entry("skill-without-uri", "skills.list", change=_without("uri"))
_entry("skill-without-front-matter", "skills.list", change=_without("frontmatter"))
_entry("skill-without-resources", "skills.list", change=_without("resources"))
_entry("skill-resources-text", "skills.list", change=lambda entry: {**entry, "resources": "generated"})
_entry("skill-without-description", "skills.list", change=_front(description=None))
_entry("skill-front-matter-subset", "skills.front-matter", change=_front(metadata=None))
_entry("skill-front-matter-changed", "skills.front-matter", change=_front(released="2026-11-23"))
_entry("skill-of-file", "skills.path", change=lambda entry: {**entry, "uri": _RULES})
_entry("skill-with-other-name", "skills.path", "skills.front-matter", change=_front(name="workflow"))

_files("skill-file-without-size", "skills.list", change=lambda files: [_without("size")(file) for file in files])
_files(
    "skill-size-of-text",
    "skills.contents",
    change=lambda files: [{**file, "size": int(str(file["size"])) + 1} for file in files],
)
_files(
    "skill-digest-of-other-file",
    "skills.contents",
    change=lambda files: [{**file, "digest": files[0]["digest"]} for file in files],
)
_files(
    "skill-digest-upper-case",
    "skills.digest-format",
    "skills.contents",
    change=lambda files: [{**file, "digest": f"sha256:{str(file['digest'])[7:].upper()}"} for file in files],
)
_files(
    "skill-digest-bare",
    "skills.digest-format",
    "skills.contents",
    change=lambda files: [{**file, "digest": str(file["digest"])[7:]} for file in files],
)
_files(
    "skill-file-twice",
    "skills.files",
    change=lambda files: [*files, files[-1]],
)
_files("skill-without-skill-file", "skills.files", "skills.complete", change=lambda files: files[1:])
_files(
    "skill-file-elsewhere",
    "skills.files",
    "skills.contents",
    change=lambda files: [*files, {**files[0], "uri": _EMAIL}],
)
_files(
    "skill-file-forgotten",
    "skills.complete",
    change=lambda files: [file for file in files if file["uri"] != _EMAIL],
    skill=_REFUNDS,
)
_files(
    "nested-skill-forgotten",
    "skills.nested",
    "skills.complete",
    change=lambda files: [file for file in files if "express" not in str(file["uri"])],
    skill=_REFUNDS,
)
_files(
    "skill-too-large",
    "skills.limits",
    "skills.contents",
    change=lambda files: [{**file, "size": 16 * 1024 * 1024} for file in files],
)
_entry(
    "skill-reserved-metadata",
    "skills.reserved-metadata",
    "skills.front-matter",
    change=_front(metadata={"version": "2.1", f"{META}origin": "elsewhere"}),
)


@fault("skill-file-without-front-matter", "skills.front-matter", "skills.contents", revisions=MODERN)
class _BareSkillFile(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.params.get("uri") != _WORKFLOW or inbound.request["method"] != "resources/read":
            return result
        return {"contents": [{"uri": _WORKFLOW, "mimeType": "text/markdown", "text": "# How to write commits\n"}]}


def _renamed(name: str, *caught_by: str, old: str, new: str) -> None:
    """Add a fault of a server that has another name or URI of a skill everywhere, also in its `SKILL.md`."""

    def replaced(value: JsonValue, one: str, other: str) -> JsonValue:
        if isinstance(value, str):
            return value.replace(one, other)
        if isinstance(value, list):
            return [replaced(each, one, other) for each in value]
        if isinstance(value, dict):
            return {key: replaced(each, one, other) for key, each in value.items()}
        return value

    class _RenamedSkill(Fault):
        def reads(self, message: JsonValue) -> JsonValue:
            return replaced(message, new, old)

        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            return _object(replaced(result, old, new)) if "skill" in str(inbound.request) else result

    fault(name, *caught_by, revisions=MODERN)(_RenamedSkill)


_renamed("skill-name-upper-case", "skills.path", old="daily", new="Daily")
_renamed("skill-name-double-dash", "skills.path", "skills.contents", old="git-workflow", new="git--workflow")
_renamed(
    "skill-name-twice",
    "skills.names-unique",
    "skills.contents",
    # Two skills have the same URIs.
    "skills.directory",
    "skills.front-matter",
    "skills.get",
    "skills.media-type",
    old="express",
    new="refunds",
)
_renamed("skill-scheme", "skills.uri-form", old="skill://acme/", new="github://acme/")
_renamed("skill-authority", "skills.uri-form", "resources.uri-syntax", old="skill://acme/", new="skill://ac me/")


# --- directories -----------------------------------------------------------------------------------------------------


def _directory(name: str, *caught_by: str, change: FileChange, of: str = _REFUNDS_ROOT) -> None:
    changed(
        name,
        *caught_by,
        method="resources/directory/read",
        change=lambda _, result: {**result, "resources": [*change(_array(result["resources"]))]},
        of=of,
        revisions=MODERN,
    )


_directory("directory-without-child", "skills.directory", change=lambda children: children[1:])
_directory(
    "directory-recursive",
    "skills.directory",
    change=lambda children: [*children, {"uri": _EMAIL, "name": "email.md", "mimeType": "text/markdown"}],
)
_directory(
    "directory-without-media-type",
    "skills.directory",
    change=lambda children: [_without("mimeType")(child) for child in children],
)
_directory(
    "directory-empty-below",
    "skills.directory",
    change=lambda _: [],
    of=f"{_REFUNDS_ROOT}/templates/short",
)
_directory("directory-with-child-twice", "skills.directory", change=lambda children: [*children, children[0]])
_directory(
    "directory-with-new-file",
    "skills.complete",
    change=lambda children: [
        *children,
        {"uri": f"{_REFUNDS_ROOT}/new.md", "name": "new.md", "mimeType": "text/markdown"},
    ],
)


# --- resources -------------------------------------------------------------------------------------------------------


def _resource(name: str, *caught_by: str, members: JsonObject) -> None:
    """Add a fault that changes the `SKILL.md` in the list of resources."""
    changed(
        name,
        *caught_by,
        method="resources/list",
        change=lambda _, result: {
            **result,
            "resources": [
                {**each, **members} if each.get("uri") == _WORKFLOW else each for each in _array(result["resources"])
            ],
        },
        revisions=MODERN,
    )


_resource("skill-resource-plain", "skills.media-type", members={"mimeType": "text/plain"})
_resource("skill-resource-title", "skills.resource-name", members={"name": "SKILL.md"})
_resource("skill-resource-summary", "skills.resource-description", members={"description": "A workflow"})
_resource("skill-resource-meta", "skills.meta-prefix", members={"_meta": {"com.example/version": "2.1"}})
