"""How a check of a schema is made: it takes all values of one kind out of the evidence, and holds each against the rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from mcp_conformance.checks.probes.recorded_values import Seen
from mcp_conformance.checks.registry.server import SERVER_CHECKS
from mcp_conformance.model.check import Subject
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.revisions import Revision

__all__ = ["VALID", "Flaw", "Pick", "conforms", "look", "one_of", "without"]

Pick: TypeAlias = "Callable[[Seen], Iterable[JsonValue]]"
"""Takes the values of a kind out of the evidence."""

Flaw: TypeAlias = "Callable[[JsonValue, Revision], str | None]"
"""What is wrong with a value; `None` when nothing is."""

VALID: Final = "jsonrpc.schema-valid-messages"
"""What the modern revision says of every definition at once."""


def look(
    id: str, title: str, *proves: str, at: Pick, by: Flaw, what: str, revisions: Iterable[str] | None = None
) -> None:
    """Adds a check that looks at the evidence.

    Args:
        id: Its name.
        title: What it checks, in a sentence.
        proves: The requirements.
        at: Takes the values out of the evidence.
        by: Says what is wrong with one of them.
        what: What such a value is called.
        revisions: The revisions that it runs in; `None`: all that have one of the requirements.
    """

    async def run(server: ServerUnderTest) -> None:
        found = 0
        for value in at(Seen(server.evidence)):
            found += 1
            wrong = by(value, server.revision)
            if wrong is not None:
                raise Deviation(f"{what} as the rule has it: {title}", f"{wrong}, in {brief(value)}")
        if not found:
            raise NotApplicable(f"the server sent no {what}")

    SERVER_CHECKS.add(id, run, title=title, proves=proves, revisions=revisions, subject=Subject.EVIDENCE)


def without(value: JsonValue, *names: str) -> JsonValue:
    """A value without some members: what they are is the matter of checks of their own."""
    return {name: each for name, each in value.items() if name not in names} if isinstance(value, dict) else value


def conforms(definition: str, *besides: str, emptied: str | None = None) -> Flaw:
    """Holds a value against a definition of the schema of its revision.

    Args:
        definition: Its name.
        besides: The members that are the matter of other checks.
        emptied: The member whose entries are; that it is a list is the matter of this one.
    """

    def wrong(value: JsonValue, revision: Revision) -> str | None:
        shown = without(value, *besides)
        if emptied is not None and isinstance(shown, dict) and isinstance(shown.get(emptied), list):
            shown = {**shown, emptied: []}
        return flaw(shown, definition, revision)

    return wrong


def one_of(*allowed: JsonValue) -> Flaw:
    """Whether a value is one of some."""
    names = ", ".join(map(str, allowed))
    return lambda value, _: None if value in allowed else f"{brief(value)} is none of {names}"
