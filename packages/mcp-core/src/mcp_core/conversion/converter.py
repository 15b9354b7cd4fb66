"""Conversion between JSON and wire types for one revision: `converter(revision)`.

The lifetimes in `mcp_core.types` determine the members of a type and their forms. Reading (`structure`) is strict and
converts nothing silently (5 is not a string, true is not a number). Unknown members are retained. Writing
(`unstructure`) omits members that the peer's revision lacks, and rejects a value whose meaning would change without such
a member.

*Compatibility repairs.* `receive` corrects known mistakes of deployed peers, with a deviation for each. A value is first
read strictly. Only rejected values are repaired, so correct peers have no extra cost. `mcp_core.conversion.repairs` has
a row for each known mistake. In addition, members that only describe (`DESCRIPTIVE`) are omitted if they are invalid,
and so are invalid items of lists (`LISTS`, `MAPS`): one invalid tool must not hide the others. Members that determine
the effect of a request are never repaired: a request that cannot be read is rejected with an error.

`mcp_core.conversion.codegen` compiles a function for each class and revision when it is first needed.

There are no other conversions: no user classes, and no other form of JSON. A dictionary of functions is therefore
enough. It replaces a conversion library and makes a client start 20 milliseconds sooner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from mcp_core.conversion.codegen import (
    ConversionError,
    Hook,
    integer,
    make_structure,
    make_unstructure,
    name_class,
    number,
    show,
)
from mcp_core.conversion.repairs import DESCRIPTIVE, LISTS, MAPS, REPAIRS, Given, Repair
from mcp_core.conversion.wire_types import (
    Array,
    Choice,
    Dictionary,
    Enumeration,
    Form,
    Member,
    ObjectJson,
    Ref,
    Scalar,
    ScalarKind,
    form_of,
    wire_class,
    wire_name,
)
from mcp_core.errors import InvalidValue, LocalProtocolError
from mcp_core.excerpts import EXCERPT_CHARS, quoted, shown
from mcp_core.types import ABSENT, WireObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.conversion.wire_types import WireClass
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision
    from mcp_core.types.wire_object import WireObject

__all__ = ["WireConverter", "converter"]

T = TypeVar("T")


def _has(raw: JsonObject, path: tuple[str, ...]) -> bool:
    here: JsonValue = raw
    for name in path:
        if not isinstance(here, dict) or name not in here:
            return False
        here = here[name]
    return True


class _Chooser:
    """A resolver of union types: it finds the class of an object by the value of its tag, then by its members."""

    def __init__(self, classes: tuple[type[WireObject], ...], revision: Revision) -> None:
        self.classes: Final = tuple(cls for cls in classes if revision in cls.__wire__.alive)
        """The candidates: the classes in the revision, in the order in which they are tried."""
        self.tag: Final = next((wire_name(tag) for cls in self.classes if (tag := cls.__wire__.tag) is not None), None)
        """The wire name of the member that distinguishes the classes, or `None`."""
        self.tagged: Final[dict[str, list[type[WireObject]]]] = {}
        """The candidates for each value of the tag."""
        self.untagged: Final[list[type[WireObject]]] = []
        """The candidates for objects whose tag is missing or has another value."""
        for cls in self.classes:
            self._enter(cls, wire_class(cls, revision))

    def _enter(self, cls: type[WireObject], described: WireClass) -> None:
        if described.tag is not None:
            self.tagged.setdefault(described.tag[1], []).append(cls)
            return
        # An enumeration can be a tag with several values. If it is optional, its class is also a candidate without a
        # tag.
        values = next((each for each in described.members if each.wire == self.tag), None)
        if values is not None and isinstance(values.form, Enumeration):
            for value in values.form.values:
                self.tagged.setdefault(value, []).append(cls)
            if values.required:
                return
        self.untagged.append(cls)

    def choose(self, raw: JsonObject) -> type[WireObject] | None:
        """Return the class of an object, or `None` if no class matches."""
        kind = None if self.tag is None else raw.get(self.tag)
        for cls in self.tagged.get(kind, self.untagged) if isinstance(kind, str) else self.untagged:
            when = cls.__wire__.when
            if not when or _has(raw, when):
                return cls
        return None


def _string(value: object) -> object:
    if isinstance(value, str):
        return value
    raise ConversionError(f"expected a string, got {show(value)}")


def _boolean(value: object) -> object:
    if isinstance(value, bool):
        return value
    raise ConversionError(f"expected a boolean, got {show(value)}")


def _integer(value: object) -> object:
    return integer(value)


def _number(value: object) -> object:
    return number(value)


def _any(value: object) -> object:
    return value


_SCALARS: Final[Mapping[ScalarKind, Hook]] = {
    ScalarKind.STRING: _string,
    ScalarKind.BOOLEAN: _boolean,
    ScalarKind.INTEGER: _integer,
    ScalarKind.NUMBER: _number,
}


def _bounded(hook: Callable[[object], int | float], minimum: float | None, maximum: float | None) -> Hook:
    def bounded(value: object) -> object:
        found = hook(value)
        if minimum is not None and found < minimum:
            raise ConversionError(f"{quoted(found)} is less than {minimum}")
        if maximum is not None and found > maximum:
            raise ConversionError(f"{quoted(found)} is more than {maximum}")
        return found

    return bounded


def _scalar(form: Scalar, member: Member | None) -> Hook:
    hook = _SCALARS[form.kind]
    info = None if member is None else member.info
    if info is None or (info.minimum is None and info.maximum is None):
        return hook
    return _bounded(integer if form.kind is ScalarKind.INTEGER else number, info.minimum, info.maximum)


def _enumeration(form: Enumeration) -> Hook:
    allowed, listed = frozenset(form.values), ", ".join(repr(each) for each in form.values)

    def enumeration(value: object) -> object:
        if isinstance(value, str) and value in allowed:
            return value
        raise ConversionError(f"expected one of {listed}, got {quoted(value)}")

    return enumeration


def _object_json(form: ObjectJson) -> Hook:
    def object_json(value: object) -> object:
        if not isinstance(value, dict):
            raise ConversionError(f"expected an object, got {show(value)}")
        if form.root is not None:
            _check_schema(value, form.root)
        return value

    return object_json


def _leaf(form: Form, member: Member | None) -> Hook:
    match form:
        case Scalar():
            return _scalar(form, member)
        case Enumeration():
            return _enumeration(form)
        case ObjectJson():
            return _object_json(form)
        case _:
            return _any


_JSON_CLASSES: Final[Mapping[ScalarKind, tuple[type, ...]]] = {
    ScalarKind.STRING: (str,),
    ScalarKind.BOOLEAN: (bool,),
    ScalarKind.INTEGER: (int, float),
    ScalarKind.NUMBER: (int, float),
}


def _json_classes(form: Form) -> tuple[type, ...]:
    """Return the Python classes of the JSON values that a form of a union accepts, except objects."""
    match form:
        case Scalar(kind):
            return _JSON_CLASSES[kind]
        case Enumeration():
            return (str,)
        case Array():
            return (list, tuple)
        case _:
            return ()


def _choice(by_class: Mapping[type, Hook]) -> Hook:
    expected = " or ".join(dict.fromkeys(name_class(kind) for kind in by_class))

    def choice(value: object) -> object:
        found = by_class.get(value.__class__)
        if found is None:
            raise ConversionError(f"expected {expected}, got {show(value)}")
        return found(value)

    return choice


def _check_schema(schema: JsonObject, root: str) -> None:
    """Check the type, properties and required keywords of a schema with a fixed root. A validator checks the rest."""
    if schema.get("type") != root:
        raise ConversionError(f"expected {root!r}" if "type" in schema else "is missing", "type")
    if not isinstance(schema.get("properties", {}), dict):
        raise ConversionError(f"expected an object, got {show(schema['properties'])}", "properties")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise ConversionError("expected an array of strings", "required")


def _array(item: Hook, *, reading: bool) -> Hook:
    def array(value: object) -> object:
        if not isinstance(value, list | tuple):
            raise ConversionError(f"expected an array, got {show(value)}")
        found: list[object] = []
        try:
            for each in value:
                found.append(item(each))  # noqa: PERF401  # its length is the index of a rejected item
        except ConversionError as refused:
            raise refused.within(len(found)) from None
        return tuple(found) if reading else found

    return array


def _dictionary(item: Hook) -> Hook:
    def dictionary(value: object) -> object:
        if not isinstance(value, Mapping):
            raise ConversionError(f"expected an object, got {show(value)}")
        found: dict[str, object] = {}
        for name, each in value.items():
            try:
                found[name] = item(each)
            except ConversionError as refused:
                raise refused.within(name) from None
        return found

    return dictionary


def _of_no_class(raw: JsonObject, chooser: _Chooser) -> ConversionError:
    if chooser.tag is None:
        return ConversionError(f"is not one of {', '.join(cls.__name__ for cls in chooser.classes)}")
    if chooser.tag not in raw:
        return ConversionError("is missing", chooser.tag)
    known = ", ".join(repr(value) for value in chooser.tagged)
    return ConversionError(f"expected one of {known}, got {quoted(raw[chooser.tag])}", chooser.tag)


class WireConverter:
    """A converter between JSON and wire types for one revision. Use `converter` to get one."""

    def __init__(self, revision: Revision) -> None:
        self.revision: Final = revision
        """The revision of the converter."""
        self._readers: dict[object, Hook] = {}
        self._writers: dict[type, Hook] = {}
        self._compiled_readers: dict[type[WireObject], Hook] = {}
        self._compiled_writers: dict[type[WireObject], Hook] = {}

    def __repr__(self) -> str:
        return f"<WireConverter {self.revision}>"

    def structure(self, raw: JsonValue, cls: type[T]) -> T:
        """Convert JSON to a value.

        Args:
            raw: The decoded JSON. The value keeps references to parts of it, so it must not be changed later.
            cls: A class of `mcp_core.types`, or a union of these.

        Returns:
            The value.

        Raises:
            InvalidValue: The JSON is not valid for the class; the error has the reason and the path.
            LocalProtocolError: The revision does not have this type.
        """
        reader = self._readers.get(cls)
        if reader is None:
            reader = self._readers[cls] = self._reader(form_of(cls), None)
        try:
            return reader(raw)  # type: ignore[return-value]  # the function was compiled for the class
        except ConversionError as refused:
            raise InvalidValue(refused.message, path=refused.path(), raw=raw) from None

    def unstructure(self, value: WireObject) -> JsonObject:
        """Convert a value to the JSON to send.

        Args:
            value: A value of a class of `mcp_core.types`.

        Returns:
            A new object. JSON in the value becomes part of it without a copy.

        Raises:
            LocalProtocolError: The value does not match its type annotations, or the peer's revision lacks a part of
                it.
        """
        writer = self._writers.get(type(value))
        if writer is None:
            writer = self._writers[type(value)] = self._writer(Ref(type(value)), None)
        try:
            return writer(value)  # type: ignore[return-value]  # the functions of classes return objects
        except ConversionError as refused:
            where = type(value).__name__ + (f".{refused.path()}" if refused.steps else "")
            raise LocalProtocolError(f"{where}: {refused.message} (revision {self.revision})") from None

    def receive(self, raw: JsonValue, cls: type[T]) -> tuple[T, tuple[str, ...]]:
        """Convert JSON from a peer to a value, and repair known mistakes.

        Args:
            raw: The decoded JSON. It is not changed.
            cls: A class of `mcp_core.types`, or a union of these.

        Returns:
            The value, and one deviation for each repair: its path, and the mistake. The tuple is empty for correct
            JSON.

        Raises:
            InvalidValue: The value is invalid and cannot be repaired.
            LocalProtocolError: The revision does not have this type.
        """
        try:
            return self.structure(raw, cls), ()
        except InvalidValue as strict:
            repairer = _Repairer(self)
            try:
                repaired = repairer.repair(raw, form_of(cls), "")
            except _TooMuch:
                raise strict from None
            if not repairer.notes:
                raise
            try:
                return self.structure(repaired, cls), tuple(repairer.notes)
            except InvalidValue as still:
                # The error reports the received value, not the repaired one.
                still.raw = strict.raw
                raise

    def problem(self, raw: JsonValue, form: Form, member: Member | None = None) -> str | None:
        """Return why JSON does not have a form, with the path, or `None` if it has the form.

        Args:
            raw: The JSON.
            form: The form.
            member: The member that has the form, for its bounds.
        """
        try:
            self._reader(form, member)(raw)
        except ConversionError as refused:
            return f"{refused.path()}: {refused.message}" if refused.steps else refused.message
        return None

    def _check_alive(self, cls: type[WireObject]) -> None:
        if self.revision not in cls.__wire__.alive:
            raise LocalProtocolError(f"revision {self.revision} has no {cls.__name__}")

    def _class_reader(self, cls: type[WireObject]) -> Hook:
        made = self._compiled_readers.get(cls)
        if made is None:
            self._check_alive(cls)
            made = self._compiled_readers[cls] = make_structure(wire_class(cls, self.revision), self._reader)
        return made

    def _class_writer(self, cls: type[WireObject]) -> Hook:
        made = self._compiled_writers.get(cls)
        if made is None:
            self._check_alive(cls)
            made = self._compiled_writers[cls] = make_unstructure(wire_class(cls, self.revision), self._writer)
        return made

    def _reader(self, form: Form, member: Member | None) -> Hook:
        match form:
            case Ref(cls):
                return self._class_reader(cls)
            case Array(item):
                return _array(self._reader(item, member), reading=True)
            case Dictionary(value):
                return _dictionary(self._reader(value, member))
            case Choice(forms):
                return self._choice_reader(forms)
            case _:
                return _leaf(form, member)

    def _choice_reader(self, forms: tuple[Form, ...]) -> Hook:
        classes = tuple(form.cls for form in forms if isinstance(form, Ref))
        read_object = self._object_reader(classes)
        if len(classes) == len(forms):
            return read_object
        by_class: dict[type, Hook] = {dict: read_object} if classes else {}
        for form in forms:
            for kind in _json_classes(form):
                by_class[kind] = self._reader(form, None)
        return _choice(by_class)

    def _object_reader(self, classes: tuple[type[WireObject], ...]) -> Hook:
        chooser = _Chooser(classes, self.revision)
        choose = chooser.choose
        readers = {cls: self._reader(Ref(cls), None) for cls in chooser.classes}

        def read_object(value: object) -> object:
            if not isinstance(value, dict):
                raise ConversionError(f"expected an object, got {show(value)}")
            cls = choose(value)
            if cls is None:
                raise _of_no_class(value, chooser)
            return readers[cls](value)

        return read_object

    def _writer(self, form: Form, member: Member | None) -> Hook:
        match form:
            case Ref(cls):
                return self._class_writer(cls)
            case Array(item):
                return _array(self._writer(item, member), reading=False)
            case Dictionary(value):
                return _dictionary(self._writer(value, member))
            case Choice(forms):
                return self._choice_writer(forms)
            case _:
                return _leaf(form, member)

    def _choice_writer(self, forms: tuple[Form, ...]) -> Hook:
        by_class: dict[type, Hook] = {}
        for form in forms:
            if not isinstance(form, Ref):
                by_class.update(dict.fromkeys(_json_classes(form), self._writer(form, None)))
            elif self.revision in form.cls.__wire__.alive:
                by_class[form.cls] = self._writer(form, None)
        return _choice(by_class)


@cache
def converter(revision: Revision) -> WireConverter:
    """Return the converter of `revision`: the same object on each call."""
    return WireConverter(revision)


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
def _chooser(forms: tuple[Form, ...], revision: Revision) -> _Chooser:
    return _Chooser(tuple(form.cls for form in forms if isinstance(form, Ref)), revision)


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
