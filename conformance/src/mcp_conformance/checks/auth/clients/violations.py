"""How clients are judged by what they did in worlds of OAuth: the oracle noted what was wrong, rule by rule.

A rule is put to the test in a scenario when the client came as far as where it could be broken. Where it never came so far
in any, nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.catalogue.requirements import catalogue
from mcp_conformance.checks.registry.client import CLIENT_CHECKS
from mcp_conformance.model.check import Subject, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.scenarios.oauth import OAUTH_SCENARIOS
from mcp_core.revisions import R2025_03_26

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mcp_conformance.oauth_testbed.http_messages import Request
    from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence

__all__ = ["PLAIN", "Rule", "Seen", "add_rules", "control", "scenes", "seen"]

PLAIN: Final = tuple(
    each.name for each in OAUTH_SCENARIOS if not any(word in each.name for word in ("credentials-", "wif", "enter"))
)
"""The scenarios in which a person consents."""

_CONTROLS: Final = {R2025_03_26.name: "auth/2025-03-26-oauth-metadata-backcompat"}
_CONTROL: Final = "auth/metadata-default"
_ENDPOINTS: Final = ("/register", "/authorize", "/token")
_ALL_CONTROLS: Final = (_CONTROL, *_CONTROLS.values())
_JUDGED: Final[dict[str, set[str]]] = {}
"""The revisions in which there is a check by what the oracle notes, by the requirement that it notes it under."""


@attrs.frozen(eq=False)
class Seen:
    """One run of a client, in its world."""

    evidence: Evidence
    """The run."""
    testbed: OAuthTestbed
    """Where."""

    @property
    def name(self) -> str:
        """The scenario."""
        return self.evidence.scenario.name

    def at(self, path: str, method: str | None = None) -> list[Request]:
        """The requests to either authorization server that have a path, in order."""
        places = {f"{self.testbed.places.server}{path}", f"{self.testbed.places.other}{path}"}
        return [each for each in self.testbed.requests if each.place in places and method in (None, each.method)]

    @property
    def authorizations(self) -> list[Request]:
        """The authorization requests."""
        return self.at("/authorize")

    @property
    def tokens(self) -> list[Request]:
        """The token requests."""
        return self.at("/token", "POST")

    @property
    def registrations(self) -> list[Request]:
        """The registrations."""
        return self.at("/register", "POST")

    @property
    def calls(self) -> list[Request]:
        """The requests to the MCP server."""
        url = self.testbed.places.resource
        return [each for each in self.testbed.requests if each.place == url]

    @property
    def accepted(self) -> int:
        """How many requests came with a good token."""
        return self.testbed.resource.accepted

    @property
    def ending(self) -> str:
        """How it ended, for a sentence."""
        return f"in the scenario {self.name} {self.evidence.ending}"


def seen(client: ClientUnderTest, name: str) -> Seen:
    """What the client did in a scenario.

    Raises:
        NotApplicable: It is not for this revision.
        NotTestable: It did nothing at all.
    """
    evidence = client.runs.get(name)
    if evidence is None or evidence.testbed is None:
        raise NotApplicable(f"the scenario {name} is not for {client.revision} over {client.transport.value}")
    client.looked_at = evidence
    if not evidence.testbed.requests:
        raise NotTestable(f"the client never turned up in the scenario {name}: {evidence.ending}")
    return Seen(evidence, evidence.testbed)


def scenes(client: ClientUnderTest, names: Iterable[str]) -> Iterator[Seen]:
    """What the client did in each of some scenarios, as far as they are for this revision and it turned up."""
    for name in names:
        evidence = client.runs.get(name)
        if evidence is not None and evidence.testbed is not None and evidence.testbed.requests:
            yield seen(client, name)


def _require_login(client: ClientUnderTest) -> Seen:
    """The run in which nothing is odd. Raises `NotApplicable` when the client asks for no token even there."""
    found = seen(client, _CONTROLS.get(client.revision.name, _CONTROL))
    # What else it looks for there, as the endpoints of older revisions, is no login.
    if not any(".well-known" in each.url or each.path in _ENDPOINTS for each in found.testbed.requests):
        raise NotApplicable(f"the client asks for no token: {found.ending}")
    return found


def control(client: ClientUnderTest) -> None:
    """The run in which nothing is odd has to have gone well for others to prove anything.

    Raises:
        NotApplicable: The client can do without authorization only.
        NotTestable: It did not go well.
    """
    found = _require_login(client)
    if not found.accepted:
        raise NotTestable(f"the control failed: no request came with a token; {found.ending}")


def _no_other_reason(found: Seen) -> None:
    """Whoever breaks another rule on the way does not get in. Raises `NotTestable` then: that rule has its own check."""
    for violation in found.testbed.violations:
        # The oracle knows the rules of all revisions.
        if found.evidence.revision.name in _JUDGED.get(violation.requirement, ()):
            told = f"in the scenario {found.name} the client breaks another rule first: {violation.sentence}"
            raise NotTestable(told)


def _always(_: Seen) -> bool:
    return True


@attrs.frozen(kw_only=True, eq=False)
class Rule:
    """A row: a check of clients by what the oracle noted."""

    id: str
    """The id of the check."""
    title: str
    """What is put to the test, in a sentence."""
    proves: tuple[str, ...]
    """The requirements."""
    notes: tuple[str, ...] = ()
    """The requirements under which the oracle notes what breaks this one."""
    within: Sequence[str] = PLAIN
    """The scenarios."""
    gets_in: bool = False
    """Whether the client has to get through all of these with a token, if it came as far as `tested` says."""
    tested: Callable[[Seen], object] = _always
    """Whether it came so far in a scenario that the rule could be broken."""
    wrong: Callable[[Seen], str | None] | None = None
    """What else is wrong; `None` for nothing."""
    optional: str = ""
    """Of an extension: what a client does not do that never comes so far. To such a one it does not apply."""

    async def run(self, client: ClientUnderTest) -> None:
        """Judges. What was seen to be wrong is wrong; that nothing was proves something of a client only that gets in."""
        if not self.optional:
            _require_login(client)
        found = list(scenes(client, self.within))
        tested = [each for each in found if self.tested(each)]
        for each in tested if self.optional else found:
            for violation in each.testbed.violations:
                if violation.requirement in self.notes:
                    raise self._deviation(client, each, violation.sentence)
        for each in tested:
            told = None if self.wrong is None else self.wrong(each)
            if told is not None:
                raise self._deviation(client, each, told)
        for each in found:
            if self.gets_in and not each.accepted and self.tested(each):
                _no_other_reason(each)
                if each.name not in _ALL_CONTROLS:
                    control(client)
                raise self._deviation(client, each, f"no request came with a token, {each.evidence.ending}")
        if self.optional and not tested:
            raise NotApplicable(f"the client {self.optional}")
        if not self.optional:
            control(client)
        if not tested:
            raise NotTestable("the client never came so far that it could be seen")

    def _deviation(self, client: ClientUnderTest, found: Seen, observed: str) -> Deviation:
        client.looked_at = found.evidence
        return Deviation(self._expected(client), f"in the scenario {found.name}: {observed}")

    def _expected(self, client: ClientUnderTest) -> str:
        rows = (catalogue().find(id, client.revision.name) for id in self.proves)
        return next((row.text.rstrip(".") for row in rows if row is not None), self.title)


def _names(rule: Rule) -> tuple[str, ...]:
    """The scenarios that are for a revision of the rule, with the controls."""
    names = {revision for id in rule.proves for revision in catalogue().revisions(id)}
    wanted = (*(() if rule.optional else _ALL_CONTROLS), *rule.within)
    return tuple(
        each.name
        for each in OAUTH_SCENARIOS
        if each.name in wanted and any(revision.name in names for revision in each.revisions)
    )


def add_rules(rules: Iterable[Rule]) -> None:
    """Makes checks of a table."""
    for rule in rules:
        for note in rule.notes:
            _JUDGED.setdefault(note, set()).update(*map(catalogue().revisions, rule.proves))
        CLIENT_CHECKS.add(
            rule.id,
            rule.run,
            title=rule.title,
            proves=rule.proves,
            needs=[f"scenario:{name}" for name in _names(rule)],
            transports=(Transport.HTTP,),
            subject=Subject.EVIDENCE,
        )
