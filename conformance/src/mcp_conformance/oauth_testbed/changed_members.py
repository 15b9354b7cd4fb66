"""Changes of the members of a JSON object: another value, null, or no member.

A peer that looks only for the name of a member accepts null, and one that compares only members that are there accepts
an object without them. A check sends both.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["OMITTED", "Changes", "OmittedMember", "changed"]


class OmittedMember(enum.Enum):
    """The type of `OMITTED`."""

    OMITTED = enum.auto()


OMITTED: Final = OmittedMember.OMITTED
"""In place of a value: the member is removed. `None` is null, which is a value."""

Changes: TypeAlias = "Mapping[str, JsonValue | OmittedMember]"
"""New values of members, by name."""


def changed(members: JsonObject, changes: Changes | None) -> JsonObject:
    """Return the members of an object with changes."""
    return {
        name: value for name, value in {**members, **(changes or {})}.items() if not isinstance(value, OmittedMember)
    }
