"""Checks of clients by the violations that the OAuth testbed recorded, rule by rule.

A rule is tested in a scenario if the client reached the point at which it could break the rule. If it reached that
point in no scenario, the rule is not testable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.catalogue.requirements import catalogue
from mcp_conformance.checks.registry.client import CLIENT_CHECKS
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.quirks import Part
from mcp_conformance.scenarios.oauth import OAUTH_SCENARIOS
from mcp_core.revisions import R2025_03_26

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mcp_conformance.oauth_testbed.http_messages import Request
    from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence

__all__ = ["ALL_LOGINS", "PLAIN", "OAuthRun", "Rule", "add_rules", "control", "run_in", "runs_in"]

ALL_LOGINS: Final = tuple(each.name for each in OAUTH_SCENARIOS)
"""All scenarios, also those of the extensions."""

PLAIN: Final = tuple(
    each.name for each in OAUTH_SCENARIOS if not any(word in each.name for word in ("credentials-", "wif", "enter"))
)
"""The scenarios with the consent of a user."""

_CONTROLS: Final = {R2025_03_26.name: "auth/2025-03-26-oauth-metadata-backcompat"}
_CONTROL: Final = "auth/metadata-default"
_ENDPOINTS: Final = ("/register", "/authorize", "/token")
_ALL_CONTROLS: Final = (_CONTROL, *_CONTROLS.values())
_JUDGED: Final[dict[str, set[str]]] = {}
"""The revisions in which a check covers a violation, by the requirement under which the testbed records it."""


@attrs.frozen(eq=False)
class OAuthRun:
    """A run of a client in the OAuth testbed."""

    evidence: Evidence
    """The recorded messages of the run."""
    testbed: OAuthTestbed
    """The OAuth testbed."""

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.evidence.scenario.name

    def at(self, part: Part, method: str | None = None) -> list[Request]:
        """Return the requests to an endpoint of both authorization servers, in order."""
        servers = (self.testbed.server, self.testbed.other)
        return [
            each
            for each in self.testbed.requests
            if method in (None, each.method) and any(server.part(each) is part for server in servers)
        ]

    @property
    def authorizations(self) -> list[Request]:
        """The authorization requests."""
        return self.at(Part.AUTHORIZATION)

    @property
    def tokens(self) -> list[Request]:
        """The token requests."""
        return self.at(Part.TOKEN, "POST")

    @property
    def registrations(self) -> list[Request]:
        """The registrations."""
        return self.at(Part.REGISTRATION, "POST")

    @property
    def calls(self) -> list[Request]:
        """The requests to the MCP server."""
        url = self.testbed.places.endpoint
        return [each for each in self.testbed.requests if each.place == url]

    @property
    def accepted(self) -> int:
        """Number of requests with a valid token."""
        return self.testbed.resource.accepted

    @property
    def ending(self) -> str:
        """How the run ended, for a report."""
        return f"in the scenario {self.name} {self.evidence.ending}"


def run_in(client: ClientUnderTest, name: str) -> OAuthRun:
    """Return the run of the client in a scenario.

    Raises:
        NotApplicable: The scenario is not for this revision.
        NotTestable: The client sent no request.
    """
    evidence = client.runs.get(name)
    if evidence is None or evidence.testbed is None:
        raise NotApplicable(f"the scenario {name} is not for {client.revision} over {client.transport.value}")
    client.looked_at = evidence
    if not evidence.testbed.requests:
        raise NotTestable(f"the client sent no request in the scenario {name}: {evidence.ending}")
    return OAuthRun(evidence, evidence.testbed)


def runs_in(client: ClientUnderTest, names: Iterable[str]) -> Iterator[OAuthRun]:
    """Yield the runs of the client in some scenarios, if they are for this revision and the client sent requests."""
    for name in names:
        evidence = client.runs.get(name)
        if evidence is not None and evidence.testbed is not None and evidence.testbed.requests:
            yield run_in(client, name)


def _require_login(client: ClientUnderTest) -> OAuthRun:
    """Return the control run. Raise `NotApplicable` when the client does not start a login in it."""
    found = run_in(client, _CONTROLS.get(client.revision.name, _CONTROL))
    # Other requests, for instance to the endpoints of older revisions, are not a login.
    if not any(".well-known" in each.url or each.path in _ENDPOINTS for each in found.testbed.requests):
        raise NotApplicable(f"the client requests no token: {found.ending}")
    return found


def control(client: ClientUnderTest) -> None:
    """Require that the control run succeeded.

    Raises:
        NotApplicable: The client works without authorization only.
        NotTestable: The run did not succeed.
    """
    found = _require_login(client)
    if not found.accepted:
        raise NotTestable(f"the control request failed: no request had a token; {found.ending}")


def _no_other_reason(found: OAuthRun) -> None:
    """Raise `NotTestable` when the client failed because it broke another rule, which has its own check."""
    for violation in found.testbed.violations:
        # The testbed knows the rules of all revisions.
        if found.evidence.revision.name in _JUDGED.get(violation.requirement, ()):
            problem = f"in the scenario {found.name} the client breaks another rule first: {violation.sentence}"
            raise NotTestable(problem)


def _always(_: OAuthRun) -> bool:
    return True


@attrs.frozen(kw_only=True, eq=False)
class Rule:
    """A rule, from which a check of clients is built."""

    id: str
    """The id of the check."""
    title: str
    """What is tested, in a sentence."""
    proves: tuple[str, ...]
    """The requirements."""
    notes: tuple[str, ...] = ()
    """The requirements under which the testbed records violations of this rule."""
    within: Sequence[str] = PLAIN
    """The scenarios."""
    gets_in: bool = False
    """Whether the client must succeed with a token in all scenarios in which it reached the point of `tested`."""
    tested: Callable[[OAuthRun], object] = _always
    """Returns whether the client reached the point at which it could break the rule."""
    attempted: Callable[[OAuthRun], object] | None = None
    """Returns whether the client uses an optional feature at all; `None`: if it reached the point of `tested`."""
    wrong: Callable[[OAuthRun], str | None] | None = None
    """Returns any other violation; `None` without a violation."""
    optional: str = ""
    """What a client does not do that never attempts it, for an optional feature. The check does not apply to it."""

    async def run(self, client: ClientUnderTest) -> None:
        """Judge the runs. A violation always counts; the absence of violations only if the client got a token."""
        if not self.optional:
            _require_login(client)
        found = list(runs_in(client, self.within))
        tested = [each for each in found if self.tested(each)]
        attempted = tested if self.attempted is None else [each for each in found if self.attempted(each)]
        for each in attempted if self.optional else found:
            for violation in each.testbed.violations:
                if violation.requirement in self.notes:
                    raise self._deviation(client, each, violation.sentence)
        for each in tested:
            problem = None if self.wrong is None else self.wrong(each)
            if problem is not None:
                raise self._deviation(client, each, problem)
        for each in found:
            if self.gets_in and not each.accepted and self.tested(each):
                _no_other_reason(each)
                if each.name not in _ALL_CONTROLS:
                    control(client)
                raise self._deviation(client, each, f"no request had a token, {each.evidence.ending}")
        if self.optional and not attempted:
            raise NotApplicable(f"the client {self.optional}")
        if not self.optional:
            control(client)
        if not tested:
            raise NotTestable("the client never reached the point at which the rule could be tested")

    def _deviation(self, client: ClientUnderTest, found: OAuthRun, observed: str) -> Deviation:
        client.looked_at = found.evidence
        return Deviation(self._expected(client), f"in the scenario {found.name}: {observed}")

    def _expected(self, client: ClientUnderTest) -> str:
        rows = (catalogue().find(id, client.revision.name) for id in self.proves)
        return next((row.text.rstrip(".") for row in rows if row is not None), self.title)


def _names(rule: Rule) -> tuple[str, ...]:
    """Return the scenarios for the revisions of the rule, with the controls."""
    names = {revision for id in rule.proves for revision in catalogue().revisions(id)}
    needed = (*(() if rule.optional else _ALL_CONTROLS), *rule.within)
    return tuple(
        each.name
        for each in OAUTH_SCENARIOS
        if each.name in needed and any(revision.name in names for revision in each.revisions)
    )


def add_rules(rules: Iterable[Rule]) -> None:
    """Add the checks of a table."""
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
            subject=CheckScope.EVIDENCE,
        )
