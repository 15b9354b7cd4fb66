"""Conversion between JSON and wire types for one revision: `converter(revision)`.

The lifetimes in `mcp_core.types` determine the members of a type and their forms. Reading is strict and converts
nothing silently (5 is not a string, true is not a number); `mcp_core.conversion.compatibility` repairs known mistakes
of old peers. Unknown members are retained. Writing omits members that the peer's revision lacks, and rejects a value
whose meaning would change without such a member.

`mcp_core.conversion.codegen` compiles a function for each class and revision when it is first needed.

There are no other conversions: no user classes, and no other form of JSON. A dictionary of functions is therefore
enough. It replaces a conversion library and makes a client start 20 milliseconds sooner.
"""

from __future__ import annotations

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
from mcp_core.conversion.wire_types import (
    Array,
    Choice,
    Chooser,
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
)
from mcp_core.errors import InvalidValue, LocalProtocolError
from mcp_core.excerpts import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision
    from mcp_core.types.wire_object import WireObject

__all__ = ["WireConverter", "converter"]

T = TypeVar("T")


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


def _of_no_class(raw: JsonObject, chooser: Chooser) -> ConversionError:
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
        chooser = Chooser(classes, self.revision)
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
