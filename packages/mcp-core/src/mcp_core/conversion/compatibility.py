"""Compatibility repairs: correction of known mistakes of deployed peers, with a deviation for each.

A value is first read strictly. Only rejected values are repaired, so correct peers have no extra cost. `REPAIRS` has a
row for each known mistake. In addition, members that only describe (`DESCRIPTIVE`) are omitted if they are invalid, and
so are invalid items of lists (`LISTS`, `MAPS`): one invalid tool must not hide the others.

Members that determine the effect of a request are never repaired: a request that cannot be read is rejected with an
error.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from mcp_core.conversion.converter import WireConverter, converter
from mcp_core.conversion.repairs import DESCRIPTIVE, LISTS, MAPS, REPAIRS, Given, Repair
from mcp_core.conversion.wire_types import (
    Array,
    Choice,
    Chooser,
    Dictionary,
    Form,
    Member,
    Ref,
    Scalar,
    ScalarKind,
    form_of,
    wire_class,
)
from mcp_core.errors import InvalidValue
from mcp_core.excerpts import EXCERPT_CHARS, quoted, shown
from mcp_core.types import ABSENT, WireObject

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["DESCRIPTIVE", "LISTS", "MAPS", "REPAIRS", "Repair", "receive"]

T = TypeVar("T")


_OBJECTS: Final = 20_000
"""The maximum number of objects in a value to repair; a list of 5,000 tools has as many. Without a maximum, a peer
could block all other work for seconds with a value of empty objects."""

_NOTES: Final = 1_000
"""The maximum number of repairs of one value. The reason is the same."""


class _TooMuch(Exception):
    """The signal that a value has too many objects or repairs. Never leaves this module."""


_REPAIRS_OF: Final[dict[tuple[type[WireObject], Revision], tuple[tuple[Repair, str], ...]]] = {}


def _repairs_of(cls: type[WireObject], revision: Revision) -> tuple[tuple[Repair, str], ...]:
    """Return the rows of the table that concern a class, each with the name of its member."""
    found = _REPAIRS_OF.get((cls, revision))
    if found is None:
        members = [member.wire for member in wire_class(cls, revision).members]
        found = _REPAIRS_OF[cls, revision] = tuple(
            (row, name)
            for row in REPAIRS
            if issubclass(cls, row.cls)
            for name in (members if row.member == "*" else [row.member])
            if name in members
        )
    return found


@cache
def _may_be_repaired(form: Form) -> bool:
    """Return whether values of this form can be repaired, apart from repairs of the object that contains them."""
    match form:
        case Ref() | Choice():
            return True
        case Array(inner) | Dictionary(inner):
            return _may_be_repaired(inner)
        case Scalar(ScalarKind.INTEGER):
            return True
        case _:
            return False


@cache
def _chooser(forms: tuple[Form, ...], revision: Revision) -> Chooser:
    return Chooser(tuple(form.cls for form in forms if isinstance(form, Ref)), revision)


class _Repairer:
    """A repairer of one value. It traverses the value once, and copies the parts to change."""

    def __init__(self, convert: WireConverter) -> None:
        self._convert = convert
        self._objects = 0
        self.notes: list[str] = []

    def _note(self, path: str, note: str) -> None:
        if len(self.notes) >= _NOTES:
            raise _TooMuch
        self.notes.append(f"{shown(path)}: {note}" if path else note)

    def repair(self, value: JsonValue, form: Form, path: str) -> JsonValue:
        if not _may_be_repaired(form):
            return value
        match form:
            case Ref(cls) if isinstance(value, dict):
                return self._object(value, cls, path)
            case Array(item) if isinstance(value, list):
                return [self.repair(each, item, f"{path}[{index}]") for index, each in enumerate(value)]
            case Dictionary(inner) if isinstance(value, dict):
                return {
                    name: self.repair(each, inner, f"{path}.{name[:EXCERPT_CHARS]}") for name, each in value.items()
                }
            case Choice(forms):
                return self._choice(value, forms, path)
            case Scalar(ScalarKind.INTEGER) if isinstance(value, float) and math.isfinite(value):
                if not value.is_integer():
                    self._note(path, "a whole number is required; the fraction was dropped")
                return math.floor(value)
            case _:
                return value

    def _choice(self, value: JsonValue, forms: tuple[Form, ...], path: str) -> JsonValue:
        if isinstance(value, dict):
            cls = _chooser(forms, self._convert.revision).choose(value)
            return value if cls is None else self._object(value, cls, path)
        if isinstance(value, list):
            item = next((form for form in forms if isinstance(form, Array)), None)
            return value if item is None else self.repair(value, item, path)
        return value

    def _object(self, raw: JsonObject, cls: type[WireObject], path: str) -> JsonObject:
        self._objects += 1
        if self._objects > _OBJECTS:
            raise _TooMuch
        out = dict(raw)
        for row, name in _repairs_of(cls, self._convert.revision):
            self._apply(row, name, out, path)
        for member in wire_class(cls, self._convert.revision).members:
            name = member.wire
            if out.get(name) is not None:
                self._member(member, cls, out, f"{path}.{name}" if path else name)
        return out

    def _apply(self, row: Repair, name: str, out: JsonObject, path: str) -> None:
        given: Given = out.get(name, ABSENT)
        if not row.wrong(given):
            return
        repaired = row.repaired(given)
        if repaired is ABSENT:
            out.pop(name, None)
        else:
            out[name] = repaired
        self._note(f"{path}.{name}" if path else name, row.note)

    def _member(self, member: Member, cls: type[WireObject], out: JsonObject, path: str) -> None:
        name = member.wire
        out[name] = self.repair(out[name], member.form, path)
        found = out[name]
        if isinstance(found, list) and isinstance(member.form, Array) and (cls, name) in LISTS:
            out[name] = self._usable(found, member.form, path)
        elif isinstance(found, dict) and isinstance(member.form, Dictionary) and (cls, name) in MAPS:
            out[name] = self._usable_members(found, member.form, path)
        elif name in DESCRIPTIVE and not member.required:
            problem = self._convert.problem(found, member.form, member)
            if problem is not None:
                del out[name]
                self._note(path, f"left out: {problem}")

    def _usable(self, items: list[JsonValue], form: Array, path: str) -> list[JsonValue]:
        kept = []
        for index, item in enumerate(items):
            problem = self._convert.problem(item, form.item)
            if problem is None:
                kept.append(item)
            else:
                self._note(f"{path}[{index}]", f"left out: {problem}")
        return kept

    def _usable_members(self, members: JsonObject, form: Dictionary, path: str) -> JsonObject:
        problems = {name: self._convert.problem(each, form.value) for name, each in members.items()}
        for name, problem in problems.items():
            if problem is not None:
                self._note(f"{path}[{quoted(name)}]", f"left out: {problem}")
        return {name: each for name, each in members.items() if problems[name] is None}


def receive(revision: Revision, raw: JsonValue, cls: type[T]) -> tuple[T, tuple[str, ...]]:
    """Convert JSON from a peer to a value, and repair known mistakes.

    Args:
        revision: The negotiated revision.
        raw: The decoded JSON. It is not changed.
        cls: A class of `mcp_core.types`, or a union of these.

    Returns:
        The value, and one deviation for each repair: its path, and the mistake. The tuple is empty for correct JSON.

    Raises:
        InvalidValue: The value is invalid and cannot be repaired.
        LocalProtocolError: The revision does not have this type.
    """
    convert = converter(revision)
    try:
        return convert.structure(raw, cls), ()
    except InvalidValue as strict:
        repairer = _Repairer(convert)
        try:
            repaired = repairer.repair(raw, form_of(cls), "")
        except _TooMuch:
            raise strict from None
        if not repairer.notes:
            raise
        try:
            return convert.structure(repaired, cls), tuple(repairer.notes)
        except InvalidValue as still:
            # The error reports the received value, not the repaired one.
            still.raw = strict.raw
            raise
