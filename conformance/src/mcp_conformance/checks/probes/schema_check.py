"""Checks of a schema: each takes all values of one kind from the recorded messages, and validates them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from mcp_conformance.checks.probes.recorded_values import RecordedMessages
from mcp_conformance.checks.registry.server import SERVER_CHECKS
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.revisions import Revision

__all__ = ["VALID", "Flaw", "Pick", "conforms", "contents_flaw", "look", "one_of", "uri_flaw", "without"]

Pick: TypeAlias = "Callable[[RecordedMessages], Iterable[JsonValue]]"
"""Selects the values of a kind from the recorded messages."""

Flaw: TypeAlias = "Callable[[JsonValue, Revision], str | None]"
"""Returns what is wrong with a value; `None` when it is valid."""

VALID: Final = "jsonrpc.schema-valid-messages"
"""The requirement of the modern revision for every definition."""


def look(
    id: str, title: str, *proves: str, at: Pick, by: Flaw, what: str, revisions: Iterable[str] | None = None
) -> None:
    """Add a check that judges recorded messages.

    Args:
        id: The id of the check.
        title: What it checks, in a sentence.
        proves: The requirements.
        at: Selects the values.
        by: Returns what is wrong with a value.
        what: The kind of value, for the message.
        revisions: Revisions in which the check runs; `None`: all that have one of the requirements.
    """

    async def run(server: ServerUnderTest) -> None:
        found = 0
        for value in at(RecordedMessages(server.evidence)):
            found += 1
            wrong = by(value, server.revision)
            if wrong is not None:
                raise Deviation(f"{what} according to the rule: {title}", f"{wrong}, in {brief(value)}")
        if not found:
            raise NotApplicable(f"the server sent no {what}")

    SERVER_CHECKS.add(id, run, title=title, proves=proves, revisions=revisions, subject=CheckScope.EVIDENCE)


def without(value: JsonValue, *names: str) -> JsonValue:
    """Return a value without some members, which separate checks cover."""
    return {name: each for name, each in value.items() if name not in names} if isinstance(value, dict) else value


def conforms(definition: str, *besides: str, emptied: str | None = None) -> Flaw:
    """Return a validator for a definition of the schema.

    Args:
        definition: Name of the definition.
        besides: Members that other checks cover.
        emptied: An array member whose entries other checks cover. That it is an array is checked here.
    """

    def wrong(value: JsonValue, revision: Revision) -> str | None:
        shown = without(value, *besides)
        if emptied is not None and isinstance(shown, dict) and isinstance(shown.get(emptied), list):
            shown = {**shown, emptied: []}
        return flaw(shown, definition, revision)

    return wrong


def uri_flaw(value: JsonValue) -> str | None:
    """Return what is wrong with the `uri` of a value, to which the schema gives the format of a URI."""
    uri = value.get("uri") if isinstance(value, dict) else None
    return None if isinstance(uri, str) and urlsplit(uri).scheme else "its uri has no scheme"


def contents_flaw(value: JsonValue) -> str | None:
    """Return what is wrong with the contents of a resource, besides the types of the members, which the schema defines."""
    if isinstance(value, dict) and "text" in value and "blob" in value:
        return "they have both a text and a blob"
    return uri_flaw(value)


def one_of(*allowed: JsonValue) -> Flaw:
    """Return a validator that accepts only some values."""
    names = ", ".join(map(str, allowed))
    return lambda value, _: None if value in allowed else f"{brief(value)} is not one of {names}"
