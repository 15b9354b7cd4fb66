"""Text about checks: a list of checks, or one check with its requirements and its command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.auth.authorization_servers.endpoints import NEED
from mcp_conformance.checks.auth.authorization_servers.grants import LOGIN
from mcp_conformance.model.check import CheckScope, Role

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mcp_conformance.model.check import CheckInfo

__all__ = ["explain_lines", "list_lines"]

_SUBJECTS: Final[Mapping[CheckScope, str]] = {
    CheckScope.SHARED: "on a connection shared with other checks",
    CheckScope.RECOVERING: "on a connection shared with other checks that send unusual messages",
    CheckScope.CONNECTION: "on its own connection",
    CheckScope.LEAVING: "on a connection shared with other checks that may leave late messages behind",
    CheckScope.PROCESS: "on connections or processes that it opens",
    CheckScope.EVIDENCE: "by judging the messages of the other checks",
}
_TARGETS: Final[Mapping[Role, str]] = {
    Role.SERVER: 'server --command "..."',
    Role.CLIENT: 'client --command "... {url}"',
}
_BY_NEED: Final[Mapping[str, str]] = {
    LOGIN: 'authorization-server --issuer URL --browser "... {url}"',
    NEED: "authorization-server --issuer URL",
}
"""The target when it is not a server or client, by the first need of the check in this order."""


def list_lines(checks: Iterable[CheckInfo], revisions: Collection[str]) -> Iterator[str]:
    """Yield a line for each check: level, id and title.

    Args:
        checks: The checks.
        revisions: The revisions: the highest level of a check in these is shown.
    """
    rows = [(_level(check, revisions), check) for check in checks]
    width = max((len(check.id) for _, check in rows), default=0)
    for level, check in rows:
        yield f"{level:7} {check.id:{width}}  {check.title}"


def _level(check: CheckInfo, revisions: Collection[str]) -> str:
    order = ("MUST", "SHOULD", "MAY")
    levels = {check.level(revision).value for revision in check.revisions if revision in revisions}
    return next((each for each in order if each in levels), "")


def explain_lines(check: CheckInfo) -> Iterator[str]:
    """Yield the lines about a check: what it tests, what it proves, and how to run it."""
    yield f"{check.id}  ({check.role.value})"
    yield f"  {check.title}"
    yield ""
    yield f"  revisions   {', '.join(sorted(check.revisions))}"
    yield f"  transports  {', '.join(sorted(each.value for each in check.transports))}"
    yield f"  runs        {_SUBJECTS[check.scope]}"
    if check.needs:
        yield f"  needs       {', '.join(check.needs)}"
    yield ""
    yield "  proves"
    places_by_requirement: dict[tuple[str, str, str, str], list[str]] = {}
    for revision in sorted(check.revisions):
        for row in check.requirements(revision):
            places_by_requirement.setdefault((row.level.value, row.id, row.text, row.place), []).append(revision)
    for (level, id, text, place), revisions in places_by_requirement.items():
        yield f"    {level} {id}: {text}"
        yield f"         {place}; {', '.join(revisions)}"
    yield ""
    words = next((words for need, words in _BY_NEED.items() if need in check.needs), _TARGETS[check.role])
    yield f"  command     mcp-conformance {words} --check {check.id}"
