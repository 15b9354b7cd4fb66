"""Skills: what a client lists, loads and verifies (2026-07-28).

A client follows the links in the texts that it has loaded. So a read of what only one text links to shows that the
client has used that text.

Spec: the extension `io.modelcontextprotocol/skills`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.registry.client import CLIENT_CHECKS, check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.served_skills import SKILL_FILE, SKILLS_CURSOR
from mcp_conformance.scenarios.skills import (
    ALWAYS_RIGHT,
    BY_URI,
    CHANGED,
    DIGEST,
    FILE_DIFFERS,
    FRONT_MATTER,
    FRONT_MATTERS,
    HIDDEN,
    INVALID,
    INVALID_SKILLS,
    LARGE,
    LOOKUP,
    MORE,
    NAMESAKES,
    NEXT,
    NO_PREFETCH,
    NON_ASCII,
    PDF,
    REFERS_BEYOND,
    RESERVED,
    RIGHT,
    SIZE,
    SKILLS,
    UNDECLARED,
    UNLINKED,
    UNLISTED,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_conformance.scenarios.served_skills import ServedSkill
    from mcp_core.jsonrpc.messages import JsonValue

_LIST: Final = "skills/list"
_GET: Final = "skills/get"
_DIRECTORY: Final = "resources/directory/read"


def _needs(*scenarios: str) -> tuple[str, ...]:
    return tuple(f"scenario:{each}" for each in scenarios)


def _params(evidence: Evidence, method: str, name: str) -> list[JsonValue]:
    """Return a param of all requests with a method, in order; `None` where it is missing."""
    params = [each.get("params") for each in evidence.sent(method)]
    return [each.get(name) if isinstance(each, dict) else None for each in params]


def _reads(evidence: Evidence) -> list[JsonValue]:
    """Return the URIs that the client read, in order."""
    return _params(evidence, "resources/read", "uri")


def _using(client: ClientUnderTest, scenario: str) -> Evidence:
    """Return the run of a scenario in which the client requested skills.

    Raises:
        NotApplicable: It requests none in any scenario.
        NotTestable: It requests skills in other scenarios only.
    """
    evidence = client.run(scenario)
    if not _requests_skills(evidence):
        if any(map(_requests_skills, client.runs.values())):
            raise NotTestable(f"the client requested no skills in the scenario {scenario}: {evidence.ending}")
        raise NotApplicable(f"the client does not request skills: in the scenario {scenario} {evidence.ending}")
    return evidence


def _requests_skills(evidence: Evidence) -> bool:
    return bool(evidence.sent(_LIST) or evidence.sent(_GET))


def _is_loaded(evidence: Evidence, skill: ServedSkill, *, controls: Sequence[ServedSkill]) -> bool:
    """Return whether the client read `SKILL.md` and a file to which it links, as it did with correct skills."""
    reads = _reads(evidence)
    follows = any(uri in reads for each in controls for uri in each.linked)
    return skill.uri in reads and (not follows or any(uri in reads for uri in skill.linked))


def _require_loaded(evidence: Evidence, controls: Sequence[ServedSkill]) -> None:
    """Raise `NotTestable` unless the client loads ordinary skills, which the judged ones lie between."""
    for each in controls:
        if not _is_loaded(evidence, each, controls=controls):
            raise NotTestable(
                f"the control failed: the client did not load {each.uri}, a correct skill: {evidence.ending}"
            )


def _require_followed(evidence: Evidence, controls: Sequence[ServedSkill]) -> None:
    """Raise `NotTestable` unless the client loads correct skills and reads what they link to."""
    reads = _reads(evidence)
    for uri in (uri for each in controls for uri in (each.uri, *each.linked)):
        if uri not in reads:
            raise NotTestable(
                f"the control failed: the client did not read {uri} of a correct skill: {evidence.ending}"
            )


# --- lists and names -------------------------------------------------------------------------------------------------


@check("skills.client-pages", proves=("skills.list-pages",), needs=_needs(SKILLS))
async def pages(client: ClientUnderTest) -> None:
    """The next page of skills is requested by the cursor of the page before."""
    evidence = _using(client, SKILLS)
    cursors = _params(evidence, _LIST, "cursor")
    if not cursors:
        raise NotApplicable("the client does not list skills")
    results = evidence.transcript.messages(sent=True)
    if not any(member(each, "result", "nextCursor") == SKILLS_CURSOR for each in results):
        raise NotTestable(f"the client did not get the first page: {evidence.ending}")
    if SKILLS_CURSOR not in cursors:
        raise Deviation(f"{_LIST} with the cursor {SKILLS_CURSOR!r}", f"cursors {brief(cursors)}")


def _add_loads(
    id: str,
    requirements: tuple[str, ...],
    title: str,
    *,
    skills: tuple[ServedSkill, ...],
    controls: tuple[ServedSkill, ...],
) -> None:
    """Add a check that skills are loaded which a client may reject for a wrong reason."""

    async def loads(client: ClientUnderTest) -> None:
        evidence = _using(client, SKILLS)
        _require_loaded(evidence, controls)
        missing = [each.uri for each in skills if not _is_loaded(evidence, each, controls=controls)]
        if missing:
            raise Deviation(
                f"{', '.join(each.uri for each in skills)} to be loaded, with a file to which the text links",
                f"{', '.join(missing)} not loaded",
            )

    CLIENT_CHECKS.add(id, loads, title=title, proves=requirements, needs=_needs(SKILLS), subject=CheckScope.EVIDENCE)


_add_loads(
    "skills.client-names",
    ("skills.names-not-assumed-unique", "skills.name-collision-listed"),
    "Two skills with the same name are both usable.",
    skills=NAMESAKES,
    controls=RIGHT,
)
_add_loads(
    "skills.client-reserved-metadata",
    ("skills.metadata-unknown-ignored",),
    "Unknown metadata with the reserved prefix is ignored.",
    skills=(RESERVED,),
    controls=RIGHT,
)
_add_loads(
    "skills.client-bytes",
    ("skills.size-verified", "skills.digest-verified"),
    "The size and the digest of a file are those of its bytes in UTF-8, with its line ends as they are.",
    skills=(NON_ASCII,),
    controls=RIGHT,
)
_add_loads(
    "skills.client-limits",
    ("skills.limits-supported",),
    "A skill of 512 files and 16 MiB is supported.",
    skills=(LARGE,),
    controls=MORE,
)


@check(
    "skills.client-no-resolution",
    proves=("skills.no-resolution",),
    needs=_needs(SKILLS),
    transports=(Transport.HTTP,),
)
async def no_resolution(client: ClientUnderTest) -> None:
    """The authority in the URI of a skill is not resolved: no request goes to that host."""
    evidence = _using(client, SKILLS)
    for exchange in evidence.exchanges:
        if f"/{LOOKUP}" in exchange.path:
            raise Deviation("no HTTP request for the URI of a skill", str(exchange))
    if f"{evidence.notes.get('lookup')}/{SKILL_FILE}" not in _reads(evidence):
        raise NotTestable(
            f"the client did not load the skill with the host of the server in its URI: {evidence.ending}"
        )


@check("skills.client-no-prefetch", proves=("skills.no-prefetch",), needs=_needs(NO_PREFETCH))
async def no_prefetch(client: ClientUnderTest) -> None:
    """A client that only lists skills reads none of their files."""
    evidence = _using(client, NO_PREFETCH)
    if not evidence.sent(_LIST):
        raise NotTestable(f"the client did not list the skills: {evidence.ending}")
    fetched = [uri for uri in _reads(evidence) if str(uri).startswith(PDF[NO_PREFETCH].root)]
    if fetched:
        raise Deviation("no resources/read of a file of a skill that is not loaded", brief(fetched))


# --- verification ----------------------------------------------------------------------------------------------------


def _add_verifies(id: str, requirements: tuple[str, ...], scenario: str, title: str) -> None:
    """Add a check that a client stops when the `SKILL.md` of the only skill does not fit its entry."""
    skill = PDF[scenario]

    async def verifies(client: ClientUnderTest) -> None:
        evidence = _using(client, scenario)
        reads = _reads(evidence)
        if skill.uri not in reads:
            raise NotTestable(f"the client did not read {skill.uri}: {evidence.ending}")
        used = [uri for uri in skill.linked if uri in reads]
        if used:
            raise Deviation(f"no further read after {skill.uri}, which does not fit its entry", f"a read of {used[0]}")
        _require_followed(_using(client, SKILLS), RIGHT)

    CLIENT_CHECKS.add(
        id,
        verifies,
        title=title,
        proves=requirements,
        needs=_needs(scenario, SKILLS),
        subject=CheckScope.EVIDENCE,
    )


_add_verifies(
    "skills.client-digest",
    ("skills.digest-verified",),
    DIGEST,
    "A skill is not used if the digest of its `SKILL.md` differs from the entry.",
)
_add_verifies(
    "skills.client-size",
    ("skills.size-verified",),
    SIZE,
    "A skill is not used if the size of its `SKILL.md` differs from the entry.",
)
_add_verifies(
    "skills.client-front-matter",
    ("skills.front-matter-compared", "skills.front-matter-differs-unloaded"),
    FRONT_MATTER,
    "A skill is not used if the front matter of its `SKILL.md` differs from the entry.",
)


def _verifying(client: ClientUnderTest) -> Evidence:
    """Return the run with skills that differ from their entries.

    Raises:
        NotApplicable: The client does not request skills.
        NotTestable: It did not load the correct ones, does not follow links, or reads all files.
    """
    evidence = _using(client, CHANGED)
    _require_followed(evidence, ALWAYS_RIGHT)
    reads = _reads(evidence)
    if not all(each.file(NEXT) in reads for each in ALWAYS_RIGHT):
        raise NotTestable("the control failed: the client does not follow links beyond SKILL.md in a correct skill")
    if any(each.file(UNLINKED) in reads for each in ALWAYS_RIGHT):
        raise NotTestable("the client reads all files of a skill, so that a read does not show which text it used")
    return evidence


@check("skills.client-front-matter-fields", proves=("skills.front-matter-compared",), needs=_needs(CHANGED))
async def front_matter_fields(client: ClientUnderTest) -> None:
    """The whole front matter is compared: missing, additional and nested members, also of a dynamic skill."""
    evidence = _using(client, CHANGED)
    reads = _reads(evidence)
    for skill in FRONT_MATTERS:
        used = [uri for uri in skill.linked if uri in reads]
        if used:
            raise Deviation(f"no read after {skill.uri}, whose front matter is not that of its entry", brief(used[0]))
    _require_followed(evidence, ALWAYS_RIGHT)
    unread = [each.uri for each in FRONT_MATTERS if each.uri not in reads and not each.dynamic]
    if unread:
        raise NotTestable(f"the client did not read {', '.join(unread)}: {evidence.ending}")


@check("skills.client-unverified-file", proves=("skills.unverified-unused",), needs=_needs(CHANGED))
async def unverified_file(client: ClientUnderTest) -> None:
    """A file that does not fit the entry is not used."""
    evidence = _verifying(client)
    reads = _reads(evidence)
    (changed,) = FILE_DIFFERS.linked
    if changed not in reads:
        raise NotTestable(f"the client did not read {changed}: {evidence.ending}")
    if FILE_DIFFERS.file(NEXT) in reads:
        raise Deviation(f"no use of {changed}, which does not fit its digest", f"a read of {NEXT}, its link")


@check("skills.client-only-listed", proves=("skills.only-listed-read",), needs=_needs(CHANGED))
async def only_listed(client: ClientUnderTest) -> None:
    """A file that the entry does not list is not read, although the text of the skill links to it."""
    evidence = _using(client, CHANGED)
    reads = _reads(evidence)
    if REFERS_BEYOND.file(UNLISTED) in reads:
        raise Deviation("reads of listed files only", f"a read of {REFERS_BEYOND.file(UNLISTED)}")
    _verifying(client)
    if REFERS_BEYOND.linked[0] not in reads:
        raise NotTestable(f"the client did not read {REFERS_BEYOND.linked[0]}: {evidence.ending}")


@check("skills.client-invalid-entry", proves=("skills.invalid-resources-rejected",), needs=_needs(INVALID, SKILLS))
async def invalid_entry(client: ClientUnderTest) -> None:
    """An entry is not loaded if its `resources` are missing, or neither an array nor `dynamic`."""
    evidence = _using(client, INVALID)
    reads = _reads(evidence)
    for skill in INVALID_SKILLS:
        if skill.uri in reads:
            raise Deviation(f"no read of {skill.uri}, whose entry has no valid resources", "it was read")
    # A client may also reject the whole list.
    _require_loaded(_using(client, SKILLS), RIGHT)


# --- skills that are not listed --------------------------------------------------------------------------------------


@check("skills.client-by-uri", proves=("skills.load-by-uri",), needs=_needs(BY_URI, SKILLS))
async def by_uri(client: ClientUnderTest) -> None:
    """A skill is loaded by its URI, although it is not listed."""
    evidence = _using(client, BY_URI)
    if HIDDEN.uri in _reads(evidence):
        return
    _require_loaded(_using(client, SKILLS), RIGHT)
    if not evidence.sent(_GET) and evidence.status == 0:
        raise NotTestable(f"the client did not try to load {HIDDEN.uri}, which is in its context")
    raise Deviation(f"a read of {HIDDEN.uri}", f"no such read; {evidence.ending}")


@check("skills.client-get-uri", proves=("skills.get-uri",), needs=_needs(BY_URI, CHANGED))
async def get_uri(client: ClientUnderTest) -> None:
    """The URI in `skills/get` is that of a `SKILL.md`."""
    uris = [uri for scenario in (CHANGED, BY_URI) for uri in _params(client.run(scenario), _GET, "uri")]
    if not uris:
        raise NotApplicable(f"the client does not send {_GET}")
    for uri in uris:
        if not isinstance(uri, str) or not uri.endswith(f"/{SKILL_FILE}"):
            raise Deviation(f"a URI that ends with /{SKILL_FILE}", brief(uri))


# --- what the server declares ----------------------------------------------------------------------------------------


@check("skills.client-only-declared", proves=("skills.only-declared",), needs=_needs(UNDECLARED, SKILLS))
async def only_declared(client: ClientUnderTest) -> None:
    """A server that does not declare skills receives no request for them."""
    _using(client, SKILLS)
    evidence = client.run(UNDECLARED)
    for message in (*evidence.sent(_LIST), *evidence.sent(_GET)):
        raise Deviation("no request for skills, which the server does not declare", brief(message))


@check(
    "skills.client-directory-declared",
    proves=("skills.directory-only-declared",),
    needs=_needs(CHANGED, BY_URI, UNDECLARED, SKILLS),
)
async def directory_declared(client: ClientUnderTest) -> None:
    """Directories are read only from a server that declares `directoryRead`."""
    for scenario in (CHANGED, BY_URI, UNDECLARED):
        for message in client.run(scenario).sent(_DIRECTORY):
            raise Deviation(f"no {_DIRECTORY}, since directoryRead is not declared", brief(message))
    if not client.run(SKILLS).sent(_DIRECTORY):
        raise NotApplicable("the client does not read directories")
