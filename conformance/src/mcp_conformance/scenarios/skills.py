"""Scenarios of skills: lists, verification, and the URIs by which a client loads them (2026-07-28).

The client loads each skill, and reads the files to which the texts link. So what it has used is in its requests: a client
that reads the target of a link has used the text with the link.

Spec: the extension `io.modelcontextprotocol/skills`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.reached_host import reached_host
from mcp_conformance.scenarios.scenario import Scenario
from mcp_conformance.scenarios.served_skills import SKILL_FILE, ServedSkill, SkillServer, markdown
from mcp_core.revisions import MODERN

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = [
    "ALWAYS_RIGHT",
    "BY_URI",
    "CHANGED",
    "DIGEST",
    "FILE_DIFFERS",
    "FRONT_MATTER",
    "FRONT_MATTERS",
    "HIDDEN",
    "INVALID",
    "INVALID_SKILLS",
    "LARGE",
    "LOOKUP",
    "MORE",
    "NAMESAKES",
    "NEXT",
    "NON_ASCII",
    "NO_PREFETCH",
    "PDF",
    "REFERS_BEYOND",
    "RESERVED",
    "RIGHT",
    "SIZE",
    "SKILLS",
    "SKILL_SCENARIOS",
    "UNDECLARED",
    "UNLINKED",
    "UNLISTED",
]

SKILLS: Final = "conformance_skills"
"""The scenario with correct skills."""
CHANGED: Final = "conformance_skills_changed"
"""The scenario with skills that differ from their entries, beside correct ones."""
INVALID: Final = "conformance_skills_invalid"
"""The scenario with invalid entries."""
BY_URI: Final = "conformance_skill_by_uri"
"""The scenario with a skill that is not listed."""
UNDECLARED: Final = "conformance_skills_undeclared"
"""The scenario without the extension."""
NO_PREFETCH: Final = "sep-2640-client-no-prefetch"
"""The scenario in which the client loads nothing."""
DIGEST: Final = "sep-2640-client-verify-digest"
"""The scenario with another digest."""
SIZE: Final = "sep-2640-client-verify-size"
"""The scenario with another size."""
FRONT_MATTER: Final = "sep-2640-client-verify-frontmatter"
"""The scenario with another front matter."""

_FILES: Final = 512
"""The number of files that every client supports in a skill."""
_BYTES: Final = 16 * 1024 * 1024
"""The size of all files, in bytes, that every client supports in a skill."""
_RULES: Final = "references/RULES.md"
_SETTINGS: Final[JsonObject] = {}
"""The settings of the extension without its option."""

# --- correct skills --------------------------------------------------------------------------------------------------


def _right(root: str, more: JsonObject | None = None) -> ServedSkill:
    """Return a correct skill that links to one other file."""
    return ServedSkill(root=root, more=more or {}, links=(_RULES,), files={_RULES: markdown("Rules")})


RIGHT: Final = (_right("skill://tidy-up"), _right("skill://git-workflow"))
"""Ordinary skills on the first page: the first one and the last one."""
NAMESAKES: Final = (_right("skill://acme/billing/refunds"), _right("skill://acme/support/refunds"))
"""Two skills with the same name."""
RESERVED: Final = _right(
    "skill://release-notes",
    {"license": "Apache-2.0", "metadata": {"version": "2.1.0", "io.modelcontextprotocol/unheard-of": "yes"}},
)
"""A skill with metadata that is reserved for extensions."""
NON_ASCII: Final = ServedSkill(
    root="skill://translations",
    title="\u00dcbersetzungen \u6771\u4eac \U0001f9ea\r\n\r\nThe lines above end with CR LF.",
    links=(_RULES,),
    files={_RULES: markdown("R\u00e8gles")},
)
"""A skill whose texts have more bytes than characters, and lines that end in two ways."""
MORE: Final = (_right("skill://team/standup"), _right("skill://team/summary"))
"""Ordinary skills on the second page: the first one and the last one."""
_NESTED: Final = _right("skill://handbook/onboarding")
_ENCLOSING: Final = ServedSkill(
    root="skill://handbook",
    links=(_RULES,),
    files={_RULES: markdown("Rules"), **{f"onboarding/{path}": text for path, text in _NESTED.texts().items()}},
)
LOOKUP: Final = "lookup"
"""The name of the skill whose URI has the host and the port of the server."""


def _large() -> ServedSkill:
    """Return a skill of the size that each client supports, in files and in bytes."""
    chunk = "x" * (_BYTES // _FILES)
    paths = [f"data/{number:03}.txt" for number in range(1, _FILES)]
    links = (paths[0], paths[-1])
    front = ServedSkill(root="skill://catalog", links=links)
    # What SKILL.md needs less than its share belongs to the last file.
    rest = chunk + "x" * (len(chunk) - len(front.texts()[SKILL_FILE]))
    files = {**dict.fromkeys(paths, chunk), paths[-1]: rest}
    return ServedSkill(root=front.root, links=links, files=files)


LARGE: Final = _large()
"""A skill that has as many files and bytes as each client supports."""


def _skills(setup: ScenarioSetup) -> None:
    """Serve correct skills on two pages, and over HTTP one with the host of the server in its URI."""
    skills = SkillServer(setup, {"directoryRead": True})
    first, second = (
        (RIGHT[0], *NAMESAKES, RESERVED, NON_ASCII, RIGHT[1]),
        (MORE[0], LARGE, _ENCLOSING, _NESTED, MORE[1]),
    )
    skills.pages.extend([skills.add(each) for each in page] for page in (first, second))

    async def listed(request: ScriptedRequest) -> JsonObject:
        root = f"skill://{reached_host(request)}/{LOOKUP}"
        if setup.transport is Transport.HTTP and "lookup" not in setup.notes:
            setup.notes["lookup"] = root
            skills.pages[1].insert(1, skills.add(_right(root)))
        return await skills.list(request)

    setup.server.handlers["skills/list"] = listed


# --- skills that differ from their entries -----------------------------------------------------------------------------

_GUIDE: Final = "GUIDE.md"
NEXT: Final = "DETAILS.md"
"""The path of a file to which only the file links that `SKILL.md` links to."""
UNLINKED: Final = "UNLINKED.md"
"""The path of a file to which nothing links."""
UNLISTED: Final = "references/UNLISTED.md"
"""The path of a file that an entry lacks."""
_CHAIN: Final = {_GUIDE: markdown("Guide", NEXT), NEXT: markdown("Details"), UNLINKED: markdown("Unlinked")}

ALWAYS_RIGHT: Final = (
    ServedSkill(root="skill://steady", links=(_GUIDE,), files=_CHAIN),
    ServedSkill(root="skill://steadier", links=(_GUIDE,), files=_CHAIN),
)
"""Correct skills: the first one and the last one."""
_LICENSED: Final[JsonObject] = {"license": "MIT", "metadata": {"author": "somebody", "version": "1.0"}}


def _other_front_matter(name: str, listed: JsonObject, *, dynamic: bool = False) -> ServedSkill:
    right = _right(f"skill://front-matters/{name}", _LICENSED)
    return ServedSkill(
        root=right.root, more=right.more, links=right.links, files=right.files, listed_more=listed, dynamic=dynamic
    )


FRONT_MATTERS: Final = (
    _other_front_matter("lacks-field", {"metadata": _LICENSED["metadata"]}),
    _other_front_matter("has-field", {**_LICENSED, "compatibility": "Everywhere"}),
    _other_front_matter("nested-field", {**_LICENSED, "metadata": {"author": "somebody", "version": "1.1"}}),
    _other_front_matter("generated", {**_LICENSED, "license": "Proprietary"}, dynamic=True),
)
"""Skills whose front matter differs from that of their entries in one member. The last one is dynamic."""
FILE_DIFFERS: Final = ServedSkill(
    root="skill://file-differs", links=(_GUIDE,), files=_CHAIN, other_digests=frozenset({_GUIDE})
)
"""A skill with a `SKILL.md` that fits its entry, and another file that does not."""
REFERS_BEYOND: Final = ServedSkill(
    root="skill://refers-beyond",
    links=(_RULES, UNLISTED),
    files={_RULES: markdown("Rules"), UNLISTED: markdown("Unlisted"), UNLINKED: markdown("Unlinked")},
    unlisted=frozenset({UNLISTED}),
)
"""A skill whose `SKILL.md` links to a listed file, and to one that is not listed."""


def _changed(setup: ScenarioSetup) -> None:
    skills = SkillServer(setup, _SETTINGS)
    served = (ALWAYS_RIGHT[0], *FRONT_MATTERS, FILE_DIFFERS, REFERS_BEYOND, ALWAYS_RIGHT[1])
    skills.pages.append([skills.add(each) for each in served])


_FORMS: Final = "references/FORMS.md"
PDF: Final[dict[str, ServedSkill]] = {
    scenario: ServedSkill(
        root="skill://pdf-processing",
        links=(_FORMS,),
        files={_FORMS: markdown("Forms")},
        other_digests=frozenset({SKILL_FILE} if scenario == DIGEST else ()),
        other_sizes=frozenset({SKILL_FILE} if scenario == SIZE else ()),
        listed_more={"description": "Another one."} if scenario == FRONT_MATTER else None,
    )
    for scenario in (NO_PREFETCH, DIGEST, SIZE, FRONT_MATTER)
}
"""The only skill of some scenarios, by scenario; one file links to another."""


def _pdf(setup: ScenarioSetup, scenario: str) -> None:
    skills = SkillServer(setup, _SETTINGS)
    skills.pages.append([skills.add(PDF[scenario])])


# --- other entries ---------------------------------------------------------------------------------------------------

INVALID_SKILLS: Final = (_right("skill://without-resources"), _right("skill://with-other-resources"))
"""Skills whose entries have no `resources`, or a value that is not defined."""
HIDDEN: Final = _right("skill://internal/on-call")
"""A skill that is not listed."""


def _invalid(setup: ScenarioSetup) -> None:
    """Serve entries without valid `resources` between valid ones."""
    skills = SkillServer(setup, _SETTINGS)
    first, last = RIGHT
    without, other = (skills.add(each) for each in INVALID_SKILLS)
    del without["resources"]
    other["resources"] = "all"
    for entry in (without, other):
        skills.add_entry(entry, "an entry without valid resources")
    skills.pages.append([skills.add(first), without, other, skills.add(last)])


def _by_uri(setup: ScenarioSetup) -> None:
    SkillServer(setup, _SETTINGS).add(HIDDEN)


def _undeclared(setup: ScenarioSetup) -> None:
    """List a resource whose URI looks like that of a skill."""
    uri, offers = RIGHT[0].uri, setup.server.offers
    offers.resources.append({"uri": uri, "name": "tidy-up", "mimeType": "text/markdown"})
    offers.texts[uri] = RIGHT[0].texts()[SKILL_FILE]


_REVISIONS: Final = frozenset(MODERN)

SKILL_SCENARIOS: Final = (
    Scenario(
        name=SKILLS,
        title="Correct skills on two pages: two of one name, one with reserved metadata, one of 512 files and 16 MiB.",
        prepare=_skills,
        revisions=_REVISIONS,
    ),
    Scenario(
        name=CHANGED,
        title="Skills with a front matter, a file or a link that does not fit the entry, between two correct ones.",
        prepare=_changed,
        revisions=_REVISIONS,
    ),
    Scenario(
        name=INVALID,
        title="A list of skills that has entries without valid `resources`.",
        prepare=_invalid,
        revisions=_REVISIONS,
    ),
    Scenario(
        name=BY_URI,
        title="An empty list of skills; the context states the URI of a skill in `skill`.",
        prepare=_by_uri,
        revisions=_REVISIONS,
        context={"skill": HIDDEN.uri},
    ),
    Scenario(
        name=UNDECLARED,
        title="A server that does not declare skills, and lists a resource with a URI like that of a skill.",
        prepare=_undeclared,
        revisions=_REVISIONS,
    ),
    Scenario(
        name=NO_PREFETCH,
        title="A correct skill that the client lists and does not load.",
        prepare=lambda setup: _pdf(setup, NO_PREFETCH),
        revisions=_REVISIONS,
    ),
    Scenario(
        name=DIGEST,
        title="A skill whose `SKILL.md` has another digest than the entry states, and the same size.",
        prepare=lambda setup: _pdf(setup, DIGEST),
        revisions=_REVISIONS,
    ),
    Scenario(
        name=SIZE,
        title="A skill whose `SKILL.md` has another size than the entry states, and the same digest.",
        prepare=lambda setup: _pdf(setup, SIZE),
        revisions=_REVISIONS,
    ),
    Scenario(
        name=FRONT_MATTER,
        title="A skill whose `SKILL.md` has another front matter than the entry states.",
        prepare=lambda setup: _pdf(setup, FRONT_MATTER),
        revisions=_REVISIONS,
    ),
)
"""The scenarios, in order."""
