"""Words that the project does not use, and the forms that names and docstrings have.

    python scripts/checks/words.py [--count | --words] [PATH ...]

Without options each finding is a line: file, line, what was found, and what to write instead. `--count` prints the number of
findings of each folder, `--words` the number of findings of each rule. PATHs are files and folders; without one everything
below the current directory is checked.

Checked are the files that git tracks, and new ones that it does not ignore:

- Python: names where they are defined, docstrings, comments, and string literals that have two words or more;
- Markdown: the text, and the Python in fenced blocks; HTML: the text; TOML: comments and values; scripts and styles: comments.

The generated pages of the reference are not checked: their sources are.

Literals of a peer and sentences of a specification are never findings, because of how they are written: text in backticks, in
double quotes, in a block quote or in a URL is skipped, and so is a string literal of a single word. The tables below rely on
that: their patterns are in backticks.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["CLASS_NAMES", "NAMES", "PROSE", "VERBS", "Finding", "Rule", "check_file", "main"]

GENERATED: Final = ("docs/reference/modules/", "docs/reference/requirements/")


@attrs.frozen
class Rule:
    """A rejected word or form."""

    pattern: str
    """A regular expression, in backticks. A space in it is any white space; case does not matter."""
    reason: str
    """Why the word is rejected."""
    instead: str
    """What to write instead."""

    @property
    def expression(self) -> str:
        """The regular expression."""
        return self.pattern.strip("`").replace(" ", r"\s+")


@attrs.frozen
class Finding:
    """A place where a rule is broken."""

    path: str
    """The file."""
    line: int
    """The line, from 1."""
    found: str
    """The text that was found."""
    rule: Rule
    """The rule."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found}: {self.rule.reason}; {self.rule.instead}"


# --- the tables ------------------------------------------------------------------------------------------------------

_PERSON: Final = "persons are users, clients, peers, callers, authors, operators"
_NOTIFY: Final = "messages are notifications"
_VAGUE: Final = "the sentence has no concrete subject"
_OLD: Final = "archaic"
_ABSTRACT: Final = "reads like a translation"
_IMAGE: Final = "an image instead of a term"
_TERM: Final = "a private word for a term of the field"
_BRITISH: Final = "British spelling"


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


PROSE: Final = (
    # Subjects.
    Rule(r"`\b(?:nobody|no one)(?:'s|\b)`", _VAGUE, "name the subject: no client, no task, no peer"),
    Rule(
        r"`\b(?:somebody|someone|anybody|anyone|everybody|everyone)(?:'s|\b)`",
        _VAGUE,
        "name it: a client, the caller, every user",
    ),
    Rule(r"`\b(?:whoever|whomever|whosoever)\b`", _VAGUE, "name the subject: the caller, the client that ..."),
    Rule(r"`\bwhom\b`", _OLD, "rewrite with the user, the client, the peer"),
    Rule(r"`\b(?:he|him|his|himself|she|her|hers|herself)\b`", _PERSON, "repeat the noun, or write they"),
    Rule(
        r"`\b(?:(?:a|the|each|every|one|another|this|that|any|no|of) persons?|people|strangers?)\b`",
        _PERSON,
        "write user, operator, reader, peer",
    ),
    Rule(r"`\bof (?:ours|theirs|yours|its own accord)\b`", _VAGUE, "write this side's, the peer's"),
    Rule(r"`\bthe other (?:side|end)\b`", _VAGUE, "write the peer"),
    Rule(r"`\bit no longer\b`", _VAGUE, "name the subject, or say what the function does: Remove ..."),
    Rule(
        r"`\bwhat (?:comes?|came|becomes?|became|has become|stands|stood) (?:of|in|at|on|for|under|behind|there)?`",
        _VAGUE,
        "name it: the result, the outcome, the content",
    ),
    Rule(r"`\b(?:its|their|his) like\b`", _VAGUE, "name the functions, or write similar"),
    Rule(r"`\bit (?:is|was) (?:that|who) `", _ABSTRACT, "begin with the subject"),
    # Constructions.
    Rule(r"`\bfor want of\b`", _OLD, "write without, or because there is no"),
    Rule(r"`\b(?:to|can|cannot|could|may|might|must|not) be had\b`", _OLD, "write available, unavailable"),
    Rule(
        r"`\b(?:is|are|was|were|be|there's) (?-i:none)\b(?! of\b)`",
        _ABSTRACT,
        "write has no ..., does not exist, is not a ...",
    ),
    Rule(
        r"`\b(?:is|are|was|were) no (?:longer|more)\b(?! than)`",
        _ABSTRACT,
        "write has ended, was removed, does not exist",
    ),
    Rule(r"`\b(?:is|are|was|were) not to be \w+`", _ABSTRACT, "write must not, cannot"),
    Rule(
        r"`\b(?:is|are|was|were) to be \w+(?:ed|en|nt|ept|ade|ut|et|ead)\b`",
        _ABSTRACT,
        "write must be, or say who does it",
    ),
    Rule(r"`\bby (?:it|them|him)sel(?:f|ves)\b`", _ABSTRACT, "write automatically, on its own, alone"),
    Rule(r"`\bnothing but\b`", _ABSTRACT, "write only"),
    Rule(r"`\bfor ever\b`", _BRITISH, "write forever, or without a limit"),
    Rule(r"`\bfor good\b(?! reason| measure)`", _ABSTRACT, "write permanently"),
    Rule(r"`\bof (?:no )?use\b(?! cases?)`", _ABSTRACT, "write useful, usable, useless, unusable"),
    Rule(
        r"`\b(?:anew|lest|nought|aught|ere|hitherto|henceforth|withal)\b`",
        _OLD,
        "write again, so that ... not, nothing, before, from now on",
    ),
    Rule(r"`\b(?:where|there|here)(?:in|of|upon|with)\b(?<!\bwithin)`", _OLD, "write in which, of it, with this"),
    Rule(r"`\bshall\b`", _OLD, "write must, will, or the present tense"),
    Rule(r"`\bneeds? not\b`", _OLD, "write does not need to"),
    Rule(
        r"`\b(?:whilst|amongst|towards|afterwards|upwards|downwards|backwards)\b(?! compat)`",
        _BRITISH,
        "write while, among, toward, afterward, up, down, backward",
    ),
    Rule(r"`\b(?:mend|mends|mended|mending)\b`", _IMAGE, "write repair, fix, correct"),
    Rule(
        r"`\b(?<!under)(?<!with)st(?:ands?|ood)\b(?!-)(?! (?:for|alone|by)\b)`", _IMAGE, "write is, is in, is written"
    ),
    Rule(r"`\blet(?:s|ting)? (?:\w+ )?in\b(?!-)`", _IMAGE, "write admit, authorize, accept"),
    Rule(
        r"`\blie(?:s)? in wait\b|\bin the making\b|\bunder way\b|\bon (?:its|their) way\b`",
        _IMAGE,
        "write is hostile, is in progress, is being sent",
    ),
    Rule(r"`\bbears?(?: with)?\b`", _IMAGE, "write tolerate, carry, or expected failure"),
    Rule(r"`\b(?:gets?|got|getting) at\b`", _ABSTRACT, "write access, reach"),
    Rule(r"`\blook(?:s|ed|ing)? after\b`", _IMAGE, "write manage, monitor"),
    Rule(r"`\btak(?:e|es|ing|en) down\b`", _IMAGE, "write record"),
    Rule(r"`\bgrav(?:e|er|est)\b`", _ABSTRACT, "write severe"),
    Rule(
        r"`\b(?:is|are|be|was|turns?|turned|goes|stays?|it|keeps?) (?:red|green)\b`",
        _TERM,
        "write fails, failed; passes, passed (pytest)",
    ),
    # Terms of the field.
    Rule(
        r"`\b(?:tell(?! me\b)|tells|telling|told)\b`",
        _NOTIFY,
        "write notify, report (progress), log, state, show, distinguish",
    ),
    Rule(
        r"`\b(?:an?|the|each|every|no|its|their|these|those|changes?|progress|list|log) notices?\b|\bnotices? (?:of|about|on|for)\b|\btidings\b`",
        _NOTIFY,
        "write notification",
    ),
    Rule(r"`\bquestions?\b(?! marks?\b)`", _TERM, "write client request, input request, elicitation, query"),
    Rule(r"`(?<!-)\brounds?\b(?!-| (?:trips?|up|down|off|to|half|robin)\b)`", _TERM, "write round trip, retry"),
    Rule(r"`\brounds\b(?= of \w+ing\b)`", _TERM, "write iterations"),
    Rule(r"`\b(?:waiting )?room\b`", _TERM, "write queue, capacity, space"),
    Rule(r"`\bcrowd(?:s|ed|ing)?\b`", _TERM, "write queue full, at capacity, evicted"),
    Rule(r"`\bdesignated?\b`", _TERM, "write header parameter"),
    Rule(r"`\bfitting\b`", _TERM, "write downgrade, or matching"),
    Rule(r"`\bsurvived (?:deviation|mistake|fault)s?\b`", _TERM, "write tolerated deviation"),
    Rule(r"`\bdismiss(?:es|ed|ing|al)?\b`", _TERM, "write cancel (elicitation action)"),
    Rule(
        r"`\b(?:heralds?|vigils?|journeys?|passages?|shelf|shelves|housekeepers?|attendances?)\b`",
        _IMAGE,
        "write the term of the glossary",
    ),
    Rule(r"`\b(?:gates?|gatekeepers?)\b`", _IMAGE, "write authenticator"),
    Rule(r"`(?<!-)\bstanding\b`", _TERM, "write standalone stream, score, status"),
    Rule(r"`\blanes?\b`", _TERM, "write leg (a revision over a transport)"),
    Rule(r"`\bscenes?\b|\bworlds? of OAuth\b`", _IMAGE, "write scenario setup, OAuth testbed"),
    Rule(r"`\b(?:owe|owes|owed|owing)\b`", _TERM, "write pending; the inbound request has no response yet"),
    Rule(r"`\bcircumstances?\b`", _TERM, "write context, condition"),
    Rule(r"`\bpatience\b`", _TERM, "write timeout, deadline"),
    # Spelling.
    Rule(
        r"`\b\w*(?:behaviour|colour|honour|favour|flavour|neighbour|labour|rumour|harbour|vigour|humour)\w*`",
        _BRITISH,
        "write -or: behavior, color, honor",
    ),
    Rule(r"`\b(?:licence|defence|offence|pretence)\w*`", _BRITISH, "write -se: license, defense"),
    Rule(r"`\bpractis(?:e|es|ed|ing)\b`", _BRITISH, "write practice"),
    Rule(r"`\b(?:centre|metre|fibre|theatre|litre|calibre)\w*`", _BRITISH, "write -er: center"),
    Rule(
        r"`\b(?:grey|programmes?|cheques?|artefacts?|sceptic\w*|judgements?|acknowledgements?|ageing|mould\w*|plough\w*)\b`",
        _BRITISH,
        "write gray, program, check, artifact, skeptic, judgment, acknowledgment, aging",
    ),
    Rule(r"`\b(?:fulfil|enrol|instal|distil|instil)(?:s|ment)?\b`", _BRITISH, "write -ll: fulfill"),
    Rule(r"`\b(?:learnt|spelt|burnt|dreamt|leapt|spoilt|leant|unspelt)\b`", _BRITISH, "write -ed: learned, spelled"),
    Rule(
        r"`\b(?:label|model|travel|signal|tunnel|channel|level|total|marshal|pencil|quarrel|refuel|counsel|dial|equal|fuel|initial|panel|rival|tal)l(?:ed|ing|er|ers)\b`",
        _BRITISH,
        "write one l: labeled, modeling",
    ),
    Rule(
        r"`\b(?:queueing|enquir\w+|encyclopaed\w+|manoeuv\w+|oestr\w+|anaesth\w+)\b`",
        _BRITISH,
        "write queuing, inquire",
    ),
    Rule(
        r"`\b(?:un|re|de|dis|mis|non|over|pre|sub|under)?-?(?:analys|paralys|catalys)(?:e|es|ed|ing|er|ers)\b`",
        _BRITISH,
        "write -yze: analyze",
    ),
    Rule(
        r"`\b(?:un|re|de|dis|mis|non|over|pre|sub|under|multi)?-?(?:anonym|apolog|author|canonical|capital|categor|central|character|critic|custom|"
        r"emphas|equal|factor|familiar|final|formal|general|generic|global|ideal|immun|initial|internal|item|legal|linear|local|material|"
        r"maxim|memor|minim|mobil|modern|modular|monopol|neutral|normal|optim|organ|parallel|parameter|penal|personal|polar|popular|prior|privat|"
        r"public|random|rational|real|recogn|regular|sanit|scrutin|serial|social|special|stabil|standard|steril|subsid|summar|symbol|"
        r"synchron|token|trivial|util|vector|virtual|visual)is(?:e|es|ed|ing|er|ers|ation|ations|able)\b`",
        _BRITISH,
        "write -ize, -ization: serialize, organization",
    ),
)
"""Words and phrases that no sentence has."""

NAMES: Final = (
    Rule(r"`_(?:told|tells?|telling|tidings|notices?)_`", _NOTIFY, "use notify, notification, report, log"),
    Rule(r"`_(?:nobody|somebody|anybody|everybody|whoever|whom|everyone|someone|anyone)_`", _VAGUE, "name the subject"),
    Rule(r"`_(?:he|his|him|she|her|hers)_`", _PERSON, "name the party"),
    Rule(r"`_(?:owed|owes|owe|asked|asking|asks)_`", _TERM, "use inbound, outbound, pending, client request"),
    Rule(r"`_questions?_`", _TERM, "use client request, input request"),
    Rule(r"`_rounds?_(?!trips?_)`", _TERM, "use round_trip, retry, mrtr"),
    Rule(r"`_(?:crowded|crowds)_|_room_`", _TERM, "use at_capacity, has_capacity, queue"),
    Rule(
        r"`_(?:heralds?|vigils?|journeys?|passages?|shelf|shelves|housekeepers?|attendances?|gates?|lanes?|patience|circumstances)_`",
        _IMAGE,
        "use the term of docs/contributing/glossary.md",
    ),
    Rule(r"`_(?:mend|mends|mended|mender|mending)_`", _IMAGE, "use repair"),
    Rule(r"`_designated?_`", _TERM, "use header_params"),
    Rule(
        r"`_(?:behaviour|colour|honour|favour|neighbour|licence|defence|centre|artefact|judgement|fulfil|recognised|organisation|serialise|initialise|normalise|authorise|summarise|whilst)s?_`",
        _BRITISH,
        "use US English",
    ),
    Rule(r"`^_what_(?:comes|came|becomes|became|stands)_`", _VAGUE, "name it: result, outcome"),
)
"""Words in names. A name is compared as `_its_words_in_lower_case_`."""

CLASS_NAMES: Final = (
    Rule(
        r"`_?(?!Feed|Seed|Speed|Need|Embed|Thread|Spread|Bed|Exceed)[A-Z][a-z]*ed`",
        "a participle alone names no thing",
        "use a noun with its role: SignedJwt, ResponseLost",
    ),
    Rule(
        r"`_?(?:InRounds|InSession|Rounds|Ledger|Owed|Asked|Line|Link|Outlet|Passage|Passing|Gate|NamedGate|Audience|Listeners|"
        r"Interests|Listening|Heard|Herald|Standing|Places|Peers|Pace|Allowance|TaskPace|Joiner|Housekeeper|Companion|Attendance|"
        r"Beside|Site|Life|Shelf|Listing|Shape|Reaction|Circumstances|Extras|Patience|Opening|Opener|Spoken|OwnTasks|TaskLine|"
        r"TaskPlace|Departure|Visit|Journey|Journeys|Openings|Person|Denial|Replays|Nonces|Survey|Facts|Subject|World|Scene|Stage|Course|"
        r"Turn|Actor|Instead|Trial|Call|Questions|Asks|Asking|Serving|Receiving|Wanted|Seen|Told|Need|Vigil|Watch|Beside|Came)`",
        _TERM,
        "use the term of docs/contributing/glossary.md",
    ),
)
"""Names that no class has."""

TEST_NAME: Final = Rule(
    "`test_<sentence>`",
    "the name of a test is a sentence",
    "use test_<subject>_<condition>_<outcome>, without articles and pronouns",
)
_TEST_NAME: Final = re.compile(
    r"test_(?:a|an|the|it|its|what|who|whom|whose|where|when|nobody|somebody|whoever|one|no|nothing|each|every|any|all|some|that|"
    r"there|only|without|our|we|another|other|whatever|many|several|everything)_"
)

ELSEWHERE: Final = Rule(
    "`See X.y`",
    "the docstring only points elsewhere",
    "leave it out (it is inherited), or say the one thing that differs",
)
_ELSEWHERE: Final = re.compile(
    r"\s*(?:[Ss]ee|[Aa]s|[Ll]ike)(?: also| in| for)? (?:`[^`]*`|[A-Z]\w*(?:\.\w+)+)[^.]*\.?\s*", re.DOTALL
)

IMPERATIVE: Final = Rule(
    "`Returns ...`",
    "the first line of a function's docstring is not in the imperative",
    "begin with a verb: Return ..., Send ..., Close ...; a new verb belongs in VERBS",
)
NOUN_PHRASE: Final = Rule(
    "`What ...`",
    "the first line of a class's or module's docstring is not a noun phrase",
    "begin with what it is: A session of ..., The ... of ...",
)
PRONOUN: Final = Rule(
    "`It ...`",
    "the docstring begins with a pronoun",
    "name the subject",
)

VERBS: Final = _words(
    "abandon abort accept access account acknowledge acquire activate adapt add adjust admit adopt advance advertise aggregate align",
    "allocate allow alter announce answer append apply approve arm arrange ask assemble assert assign associate assume attach attack attempt",
    "authenticate authorize await back backfill balance batch begin benchmark bind block boot borrow bound break bridge broadcast buffer",
    "build bump bypass cache calculate call cancel canonicalize capture carry cast catch challenge change charge check choose",
    "claim clamp classify clean clear clip clone close coalesce collapse collect combine commit compact compare compile complete",
    "compose compress compute concatenate confirm connect consent consider construct consume continue convert copy correct count",
    "cover crash create cut deactivate debit debug declare decline decode decompose decorate decrease decrypt dedent deduplicate",
    "define defer delay delegate delete deliver demand deny deploy derive describe deserialize destroy detach detect determine",
    "diagnose dial differ digest disable discard disconnect discover dispatch display dispose distinguish divide do document",
    "downgrade drain draw drive drop dump duplicate echo edit elicit embed emit empty emulate enable encode encrypt end enforce enqueue",
    "ensure enter enumerate erase escape establish estimate evaluate evict examine exceed exchange exclude execute exempt exercise",
    "exhaust exit expand expect expire explain export expose express extend extract fail fake feed fetch fill filter find finalize finish",
    "fit fix flag flatten flood flush fold follow forbid force forget fork form format forward free freeze fulfill gather generate get",
    "give grant group guard guess halt hand handle hash hide hold identify ignore implement import include increase increment",
    "indent index infer inform inherit initialize inject insert inspect install instrument interpret interrupt introspect invalidate",
    "invoke isolate issue iterate join judge keep kill label launch lay learn leave lend let limit link list listen load locate lock log",
    "look lower make manage map mark mask match materialize maximize measure merge migrate mint mirror mock model modify monitor",
    "mount move multiply name negotiate normalize note notify observe obtain offer omit open operate order organize override pack pad",
    "page paint parse partition pass patch pause peek perform permit persist pick pin ping pipe place plan play point poll pop populate",
    "post postpone precompute preload prefix prepare prepend preserve press prevent print probe process produce profile prompt propagate",
    "propose protect prove provide proxy prune publish pull purge push put qualify query queue quote raise rank rate read rebuild",
    "receive reclaim recognize recompute reconnect reconstruct record recover redeem redirect reduce refer refill refresh refuse",
    "register reject relay release reload remember remove rename render renew reopen repair repeat replace replay reply report",
    "represent request require reschedule resend reserve reset resize resolve respond restart restore restrict result resume",
    "resubscribe retain retrieve retry return reuse reverse revert review revoke rewind rewrite roll rotate route run sample",
    "save scale scan schedule score scrub seal search seed seek select send separate sequence serialize serve set settle share shed",
    "shorten show shrink shuffle shut sign signal silence simulate skip sleep slice solve sort spawn specify spell spend spin split stamp",
    "start stat state stay stop store stream strip submit subscribe substitute subtract suggest sum summarize supply support suppress",
    "suspend swap sweep switch synchronize tag take talk target tear terminate test throttle tokenize track transfer transform",
    "translate transmit traverse treat trigger trim truncate try tune turn type unblock undo unescape unite unlink unlock unpack",
    "unquote unregister unseal unsubscribe unwrap update upgrade upload use validate verify view visit wait wake walk warn watch",
    "weigh withdraw work wrap write yield zero assess attribute base64-encode percent-encode percent-decode pre-compute re-create",
    "re-read re-open recreate reread retire round-trip double-check",
)
"""Verbs that the first line of a function's docstring may begin with."""

_NOUNS: Final = _words(
    "answers attacks attempts blocks bounds breaks bridges caches calls challenges changes charges checks claims clips clones copies",
    "counts debits delays demands digests documents drops ends estimates exchanges exits exports fakes feeds filters fixes flags forms formats",
    "grants groups guards handles hashes imports indexes issues joins judges labels launches limits links lists loads locks logs maps marks",
    "masks matches measures mocks models monitors moves names notes offers orders pages parts patches pauses pings pins pipes places plans",
    "points polls posts prefixes probes processes profiles prompts proxies queries queues quotes ranks rates reads records redirects",
    "references releases relays renames repairs replays replies reports requests restarts results returns reviews routes runs samples scales",
    "scans schedules scores seals searches seeds sequences sets shares signals sorts spans splits stamps starts states stores streams swaps",
    "switches tags targets tests traces tracks transfers triggers types updates upgrades uploads uses views visits waits warnings writes",
)
"""Third persons that are plural nouns as well, so that a class or module may be described with them."""

# --- the rules at work -----------------------------------------------------------------------------------------------


def _compiled(rules: Sequence[Rule], prefix: str = "", suffix: str = "") -> tuple[re.Pattern[str], Sequence[Rule]]:
    alternatives = "|".join(f"(?P<r{number}>{rule.expression})" for number, rule in enumerate(rules))
    return re.compile(f"{prefix}(?:{alternatives}){suffix}", re.IGNORECASE), rules


_PROSE: Final = _compiled(PROSE)
_NAMES: Final = _compiled(NAMES)
_CLASS_NAMES: Final = tuple((re.compile(rule.expression), rule) for rule in CLASS_NAMES)

_SKIPPED: Final = re.compile(
    r"""
      ``.+?``                                                      # code
    | `[^`\n]*(?:\n[^`\n]+)?`
    | (?<![\w"'])"(?=\S)(?:[^"\n]|\n(?!\s*\n)){1,600}?"(?!\w)      # quotations
    | \u201c[^\u201d]{1,600}\u201d
    | \b[a-z][a-z0-9+.-]*://\S+                                    # URLs
    | \b[\w./-]+\#[\w.-]+                                          # sections of the specification
    """,
    re.VERBOSE,
)
_PROSE_LIKE: Final = re.compile(r"[A-Za-z]{2}[,;:.]?\s+[A-Za-z]")
_WORDS_OF_NAME: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "\x00", match.group())


def _named(match: re.Match[str], rules: Sequence[Rule]) -> Rule:
    return rules[int(str(match.lastgroup)[1:])]


def _prose(path: str, text: str, line_of: Callable[[int, str], int]) -> Iterator[Finding]:
    """Yield the findings in a text.

    Args:
        path: The file, as shown.
        text: The text; line ends count as blanks.
        line_of: Gives the line in the file from a position in the text and the text found there.
    """
    masked = _SKIPPED.sub(_blank, text)
    pattern, rules = _PROSE
    for match in pattern.finditer(masked):
        found = " ".join(match.group().split())
        yield Finding(path, line_of(match.start(), match.group()), found, _named(match, rules))


def _name(path: str, line: int, name: str) -> Iterator[Finding]:
    """Yield the findings in the name of a variable, function, class or module."""
    words = "_" + "_".join(word.lower() for word in _WORDS_OF_NAME.findall(name)) + "_"
    pattern, rules = _NAMES
    for match in pattern.finditer(words):
        yield Finding(path, line, name, _named(match, rules))


def _stem(word: str) -> Iterator[str]:
    """Yield the verbs that a word in the third person may come from."""
    yield word.removesuffix("s")
    yield word.removesuffix("es")
    if word.endswith("ies"):
        yield word[:-3] + "y"


def _is_third_person(word: str) -> bool:
    return word.endswith("s") and word not in VERBS and any(verb in VERBS for verb in _stem(word))


def _first_words(docstring: str) -> list[str]:
    line = docstring.strip().partition("\n")[0]
    return [word.strip(",.;:()") for word in line.split()]


def _function_summary(docstring: str) -> bool:
    """Return whether a docstring begins with a verb in the imperative."""
    words = _first_words(docstring)
    if not words:
        return False
    if words[0].lower().endswith("ly") and len(words) > 1:
        words = words[1:]
    first = words[0].lower()
    noun = len(words) > 1 and words[1] in {"of", "is", "are"}
    return (first in VERBS and not noun) or (first == "do" and len(words) > 1)


_NO_NOUN: Final = frozenset(
    {"what", "whether", "how", "who", "where", "why", "when", "whom", "which", "there", "is", "are"}
)
_PRONOUNS: Final = frozenset({"it", "its", "that", "this", "they", "those", "these", "he", "she"})


def _summary(path: str, node: ast.AST, docstring: str, line: int) -> Iterator[Finding]:
    """Yield the findings in the first line of a docstring."""
    words = _first_words(docstring)
    if not words:
        return
    first = words[0].lower()
    if _ELSEWHERE.fullmatch(docstring):
        yield Finding(path, line, " ".join(docstring.split()), ELSEWHERE)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if not _is_described(node) and not _function_summary(docstring):
            yield Finding(path, line, " ".join(words[:3]), IMPERATIVE)
    elif first in _PRONOUNS and isinstance(node, ast.ClassDef | ast.Module):
        yield Finding(path, line, " ".join(words[:3]), PRONOUN)
    elif first in _NO_NOUN or (_is_third_person(first) and first not in _NOUNS):
        yield Finding(path, line, " ".join(words[:3]), NOUN_PHRASE)


_DESCRIBED: Final = frozenset({"property", "cached_property", "setter", "fixture", "resource", "prompt", "check"})
"""Decorators of functions whose docstring describes a thing, or states a requirement."""


def _is_described(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if name in _DESCRIBED:
            return True
    return False


# --- files -----------------------------------------------------------------------------------------------------------


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a Python file, with their first lines. Those of successive lines are one text."""
    block: list[str] = []
    first = last = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type != tokenize.COMMENT:
                continue
            line = token.start[0]
            text = token.string.lstrip("#!:")
            if block and line == last + 1 and not token.line[: token.start[1]].strip():
                block.append(text)
            else:
                if block:
                    yield first, "\n".join(block)
                block, first = [text], line
            last = line
    except (tokenize.TokenError, IndentationError):
        pass
    if block:
        yield first, "\n".join(block)


def _defined(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the names that a node of the syntax tree defines."""
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.lineno, node.name
        case ast.arg():
            yield node.lineno, node.arg
        case ast.Name(ctx=ast.Store()):
            yield node.lineno, node.id
        case ast.Attribute(ctx=ast.Store()):
            yield node.lineno, node.attr
        case ast.alias(asname=str(name)):
            yield node.lineno, name
        case _:
            pass


def _literals(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, str]]:
    """Yield the string literals among the nodes of a syntax tree; the values of an f-string are left out of its text."""
    inner: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            inner.update(id(value) for value in node.values)
            text = "".join(
                value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else "{}"
                for value in node.values
            )
            yield node, text
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node, node.value


def _lines_of(lines: Sequence[str], literal: ast.expr, text: str) -> Callable[[int, str], int]:
    """Return a function from a position in a string literal, and what was found there, to the line."""
    first, last = literal.lineno, literal.end_lineno or literal.lineno
    if text.count("\n") == last - first:
        return _counting(text, first)

    def find(_: int, found: str) -> int:
        word = re.compile(rf"\b{re.escape(found.split(maxsplit=1)[0])}")
        return next((line for line in range(first, last + 1) if word.search(lines[line - 1])), first)

    return find


def _python(path: str, source: str, offset: int = 0) -> Iterator[Finding]:
    """Yield the findings in Python source that begins `offset` lines below the start of its file."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    nodes = list(ast.walk(tree))
    for finding in (*_definitions(path, nodes), *_texts(path, source, nodes)):
        yield attrs.evolve(finding, line=finding.line + offset)


def _definitions(path: str, nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    """Yield the findings in names and in the first lines of docstrings."""
    seen: set[str] = set()
    for node in nodes:
        for line, name in _defined(node):
            if name not in seen:
                seen.add(name)
                yield from _name(path, line, name)
        if isinstance(node, ast.ClassDef):
            matching = (rule for pattern, rule in _CLASS_NAMES if pattern.fullmatch(node.name))
            yield from (Finding(path, node.lineno, node.name, rule) for rule in matching)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _TEST_NAME.match(node.name):
            yield Finding(path, node.lineno, node.name, TEST_NAME)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield from _summary(path, node, docstring, node.body[0].lineno)


def _texts(path: str, source: str, nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    """Yield the findings in string literals, docstrings among them, and in comments."""
    lines = source.split("\n")
    for literal, text in _literals(nodes):
        if _PROSE_LIKE.search(text):
            yield from _prose(path, text, _lines_of(lines, literal, text))
    for first, text in _comments(source):
        yield from _prose(path, text, _counting(text, first))


def _counting(text: str, first: int = 1) -> Callable[[int, str], int]:
    """Return a function from a position in a text to its line, when the text begins on the line `first`."""
    return lambda position, _: first + text.count("\n", 0, position)


_FENCE: Final = re.compile(r"^([ ]*)(```+|~~~+)[ ]*(\w*)[^\n]*\n(.*?)^\1?[ ]*\2[ ]*$", re.MULTILINE | re.DOTALL)
_NO_TEXT: Final = re.compile(
    r"^[ ]*>[^\n]*$|\]\([^)\n]*\)|^\[[^\]\n]+\]:[^\n]*$|<!--.*?-->|<[^>\n]*>", re.MULTILINE | re.DOTALL
)


def _markdown(path: str, source: str) -> Iterator[Finding]:
    for fence in _FENCE.finditer(source):
        if fence.group(3) in {"python", "py"}:
            indent = fence.group(1)
            code = "\n".join(line.removeprefix(indent) for line in fence.group(4).split("\n"))
            yield from _python(path, code, source.count("\n", 0, fence.start(4)))
    text = _NO_TEXT.sub(_blank, _FENCE.sub(_blank, source))
    yield from _prose(path, text, _counting(text))


class _Text(HTMLParser):
    """The text of an HTML page, outside of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[tuple[int, str]] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in {"script", "style"}
        self.parts.extend(
            (self.getpos()[0], value) for name, value in attrs if value and name in {"title", "alt", "aria-label"}
        )

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append((self.getpos()[0], data))

    def handle_comment(self, data: str) -> None:
        self.parts.append((self.getpos()[0], data))


_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def _html(path: str, source: str) -> Iterator[Finding]:
    parser = _Text()
    parser.feed(_TEMPLATE.sub(_blank, source))
    parser.close()
    for first, text in parser.parts:
        yield from _prose(path, text, _counting(text, first))


_TOML_TEXT: Final = re.compile(r'(?<=")(?:[^"\\\n]|\\.)*(?=")|#[^\n]*')


def _toml(path: str, source: str) -> Iterator[Finding]:
    for match in _TOML_TEXT.finditer(source):
        if _PROSE_LIKE.search(match.group()):
            yield from _prose(path, match.group(), _counting(match.group(), 1 + source.count("\n", 0, match.start())))


def _blocks(path: str, source: str, pattern: re.Pattern[str]) -> Iterator[Finding]:
    for match in pattern.finditer(source):
        text = re.sub(r"(?m)^[ \t]*(?:#|//|\*)", "", match.group())
        yield from _prose(path, text, _counting(text, 1 + source.count("\n", 0, match.start())))


_HASH: Final = re.compile(r"(?m)(?:^[ \t]*#(?!!)[^\n]*\n?)+|(?<=\s)#[^\n]*")
_SLASHES: Final = re.compile(r"/\*.*?\*/|(?m:(?:^[ \t]*//[^\n]*\n?)+)", re.DOTALL)


def check_file(path: str, source: str) -> Iterator[Finding]:
    """Yield the findings in a file.

    Args:
        path: Its path. The suffix decides how the file is read.
        source: Its text.
    """
    suffix = Path(path).suffix
    if suffix == ".py" or (suffix == "" and source.startswith("#!") and "python" in source.partition("\n")[0]):
        yield from _name(path, 1, Path(path).stem)
        yield from _python(path, source)
    elif suffix == ".md":
        yield from _markdown(path, source)
    elif suffix in {".html", ".jinja", ".j2"}:
        yield from _html(path, source)
    elif suffix == ".toml":
        yield from _toml(path, source)
    elif suffix in {".css", ".js", ".mjs"}:
        yield from _blocks(path, source, _SLASHES)
    elif suffix in {".sh", ".yml", ".yaml"} or source.startswith("#!"):
        yield from _blocks(path, source, _HASH)


def _files(paths: Iterable[str]) -> Iterator[Path]:
    """Yield the files to check."""
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        listing = ["git", "-C", str(path), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\x00")
        yield from (path / name for name in sorted(set(names)) if name and (path / name).is_file())


def _print_counts(counts: Counter[str]) -> None:
    for key, count in sorted(counts.items()):
        print(f"{count:6} {key}")
    print(f"{counts.total():6} in all")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check and return the exit status: 1 when there are findings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", action="store_true", help="print the number of findings of each folder")
    parser.add_argument("--words", action="store_true", help="print the number of findings of each rule")
    parser.add_argument("paths", nargs="*", default=["."], metavar="PATH", help="a file or a folder")
    options = parser.parse_args(arguments)
    findings: list[Finding] = []
    for file in _files(options.paths):
        if any(folder in file.as_posix() for folder in GENERATED):
            continue
        try:
            source = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        findings += check_file(file.as_posix(), source)
    if options.count:
        _print_counts(Counter(Path(finding.path).parent.as_posix() for finding in findings))
    elif options.words:
        _print_counts(Counter(f"{finding.rule.pattern[:70]}  -> {finding.rule.instead[:60]}" for finding in findings))
    else:
        for finding in sorted(findings, key=lambda each: (each.path, each.line)):
            print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
