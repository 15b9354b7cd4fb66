"""Code generation of conversion functions: between JSON and one class, for one revision, compiled from source text.

A function that interprets a description of the class would be slower by a factor of three, on the path of each message.
Errors are raised where they occur. Each enclosing level adds its name to the path of the error, which costs
nothing without errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias, cast

from mcp_core.conversion.wire_types import AnyJson, Form, Member, ObjectJson, Scalar, ScalarKind, WireClass
from mcp_core.excerpts import EXCERPT_CHARS, quoted
from mcp_core.types.wire_object import ABSENT, NO_EXTRA, REQUIRED, ReceivedExtra

__all__ = ["ConversionError", "Hook", "integer", "make_structure", "make_unstructure", "name_class", "number", "show"]


class Hook(Protocol):
    """A function from JSON to a value, or back."""

    def __call__(self, value: object, /) -> object:
        """Convert a value."""


HookOf: TypeAlias = Callable[[Form, Member | None], Hook]
"""A function that returns the conversion function of a form. The member has the bounds of a number."""

_MISSING: Final = object()


class ConversionError(Exception):
    """A value that the type does not allow. Never leaves `mcp_core.conversion.converter`."""

    def __init__(self, message: str, *steps: str | int) -> None:
        super().__init__(message)
        self.message = message
        self.steps: list[str | int] = list(steps)

    def within(self, step: str | int) -> ConversionError:
        """Prepend the step of the enclosing level to the path, and return this error."""
        self.steps.insert(0, step)
        return self

    def path(self) -> str:
        """Return the path of the value, for example `content[0].text`."""
        parts = []
        for step in self.steps:
            if isinstance(step, int):
                parts.append(f"[{step}]")
            elif len(step) > EXCERPT_CHARS or not step.isprintable():
                parts.append(f"[{quoted(step)}]")
            elif step.replace("$", "_").isidentifier():
                parts.append(f".{step}")
            else:
                parts.append(f'["{step}"]')
        return "".join(parts).removeprefix(".")


_NAMES: Final[Mapping[type, str]] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "an array",
    tuple: "an array",
    dict: "an object",
    type(None): "null",
}


def name_class(kind: type) -> str:
    """Return the JSON term for the values of a Python class, for an error message."""
    return _NAMES.get(kind, kind.__name__)


def show(value: object) -> str:
    """Return the JSON term for the kind of a value, for an error message."""
    return name_class(type(value))


def _bad(raw: Mapping[str, object], wire: str, expected: str) -> ConversionError:
    if wire not in raw:
        return ConversionError("is missing", wire)
    return ConversionError(f"expected {expected}, got {show(raw[wire])}", wire)


def _missing(wire: str) -> ConversionError:
    return ConversionError("is missing", wire)


def _wrong(value: object, expected: str) -> ConversionError:
    return ConversionError(f"expected {expected}, got {show(value)}")


# Forms that are checked in the line that reads them, by the class of the raw value.
_INLINE: Final[Mapping[Form, tuple[str, str]]] = {
    Scalar(ScalarKind.STRING): ("str", "a string"),
    Scalar(ScalarKind.BOOLEAN): ("bool", "a boolean"),
    ObjectJson(): ("dict", "an object"),
}


class _Source:
    """The lines of a function, and the names that they use."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.names: dict[str, object] = {
            "Refused": ConversionError,
            "bad": _bad,
            "missing": _missing,
            "wrong": _wrong,
            "ABSENT": ABSENT,
            "MISSING": _MISSING,
            "NO_EXTRA": NO_EXTRA,
            "NOTHING": frozenset(),
            "keep": ReceivedExtra,
            "new": object.__new__,
            "put": object.__setattr__,
        }

    def add(self, *lines: str) -> None:
        self.lines.extend("    " + line for line in lines)

    def name(self, prefix: str, value: object) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def hook(self, make: Callable[[], Hook]) -> str:
        """Return the name of a conversion function that its first call creates.

        Most messages have few of their optional members, and a short-lived program receives few messages.
        """
        name = self.name("hook", None)

        def first(value: object) -> object:
            made = make()
            self.names[name] = made
            return made(value)

        self.names[name] = first
        return name

    def compile(self, function: str, title: str) -> Hook:
        # The source text consists of names of classes in this package, never of received data.
        exec(compile("\n".join(self.lines), f"<{title}>", "exec"), self.names)  # noqa: S102
        # The compiled function has the signature in its first line.
        return cast("Hook", self.names[function])


def _guarded(wire: str, line: str) -> tuple[str, ...]:
    return ("try:", f"    {line}", "except Refused as refused:", f"    raise refused.within({wire!r})")


def _indent(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("    " + line for line in lines)


def _read_check(source: _Source, member: Member, var: str, hook_of: HookOf) -> tuple[str, ...]:
    """Return the lines that check and convert `var`, whose value is present."""
    wire = member.wire
    if isinstance(member.form, AnyJson):
        return ()
    if member.form in _INLINE:
        kind, expected = _INLINE[member.form]
        return (f"if {var}.__class__ is not {kind}: raise bad(raw, {wire!r}, {expected!r})",)
    hook = source.hook(lambda: hook_of(member.form, member))
    return _guarded(wire, f"{var} = {hook}({var})")


def _read(source: _Source, member: Member, hook_of: HookOf, *, notes_explicit: bool) -> str:
    """Add the lines that read one member, and return the name of the variable that holds it."""
    var, wire = f"v_{member.attribute}", member.wire
    check = _read_check(source, member, var, hook_of)
    if member.nullable and not member.required:
        source.add(f"{var} = raw.get({wire!r}, ABSENT)")
        condition = f"if {var} is not ABSENT and {var} is not None:"
    elif member.nullable:
        source.add(f"{var} = raw.get({wire!r}, MISSING)", f"if {var} is MISSING: raise missing({wire!r})")
        condition = f"if {var} is not None:"
    elif member.required:
        source.add(f"{var} = raw.get({wire!r})")
        if member.form not in _INLINE:
            source.add(f"if {var} is None: raise bad(raw, {wire!r}, 'a value')")
        source.add(*check)
        return var
    else:
        source.add(f"{var} = raw.get({wire!r})")
        if member.default is not None:
            default = source.name("default", member.default)
            noted = (f"if {var} == {default}: explicit.append({member.attribute!r})",) if notes_explicit else ()
            present = (*check, *noted)
            source.add(f"if {var} is None: {var} = {default}", *(("else:", *_indent(present)) if present else ()))
            return var
        condition = f"if {var} is not None:"
    if check:
        source.add(condition, *_indent(check))
    return var


def _can_be_explicit(member: Member) -> bool:
    """Return whether a member that has its default value is sent only if it was received."""
    return not (member.required or member.info.always or member.default in (None, REQUIRED, ABSENT))


def _keeps_explicit(described: WireClass) -> bool:
    """Return whether a class has members whose default values a peer may send explicitly, and can keep this fact."""
    has_extra = any(name == "extra" for name, _, _ in described.cls.__fields__)
    return has_extra and any(_can_be_explicit(member) for member in described.members)


def _check_needs(source: _Source, described: WireClass) -> None:
    """Add the lines that check members that depend on each other. The variables hold the values to read or to send."""
    if described.needs is not None:
        member, needed = described.needs
        for value, other in needed.items():
            condition = f"v_{member.attribute} == {value!r} and v_{other.attribute} is None"
            source.add(f"if {condition}: raise missing({other.wire!r})")
    if described.any_of:
        condition = " and ".join(f"v_{member.attribute} is None" for member in described.any_of)
        problem = f"must have {' or '.join(member.wire for member in described.any_of)}"
        source.add(f"if {condition}: raise Refused({problem!r})")


def make_structure(described: WireClass, hook_of: HookOf) -> Hook:
    """Return the function from a JSON object to a value of the class."""
    source = _Source("def structure(raw):")
    source.add("if raw.__class__ is not dict: raise wrong(raw, 'an object')")
    known = {member.wire for member in described.members}
    if described.tag is not None:
        wire, value = described.tag
        known.add(wire)
        source.add(f"if raw.get({wire!r}) != {value!r}:", f"    raise bad(raw, {wire!r}, {f'the string {value!r}'!r})")
    if _keeps_explicit(described):
        source.add("explicit = []")
    keeps_explicit = _keeps_explicit(described)
    values = {
        member.attribute: _read(source, member, hook_of, notes_explicit=keeps_explicit and _can_be_explicit(member))
        for member in described.members
    }
    _check_needs(source, described)
    names = source.name("known", frozenset(known))
    values["extra"] = f"NO_EXTRA if {names}.issuperset(raw) else {{k: v for k, v in raw.items() if k not in {names}}}"
    if _keeps_explicit(described):
        source.add(f"extra = {values['extra']}", "if explicit: extra = keep(extra, frozenset(explicit))")
        values["extra"] = "extra"
    # The fields are set one by one: `__init__` would look up each in its arguments.
    source.add(f"made = new({source.name('cls', described.cls)})")
    for name, default, _ in described.cls.__fields__:
        source.add(f"put(made, {name!r}, {values[name] if name in values else source.name('default', default)})")
    source.add("return made")
    return source.compile("structure", f"structure {described.cls.__name__}")


def _write_check(source: _Source, member: Member, var: str, hook_of: HookOf) -> tuple[str, ...]:
    """Return the lines that convert `var`, a value to send, and put it into the result."""
    wire = member.wire
    if isinstance(member.form, AnyJson):
        return (f"out[{wire!r}] = {var}",)
    if member.form in _INLINE:
        kind, expected = _INLINE[member.form]
        return (
            f"if {var}.__class__ is not {kind}: raise wrong({var}, {expected!r}).within({wire!r})",
            f"out[{wire!r}] = {var}",
        )
    hook = source.hook(lambda: hook_of(member.form, member))
    return _guarded(wire, f"out[{wire!r}] = {hook}({var})")


def _write(source: _Source, member: Member, hook_of: HookOf, *, keeps_explicit: bool) -> None:
    var, wire, info = f"v_{member.attribute}", member.wire, member.info
    source.add(f"{var} = value.{member.attribute}")
    put = _write_check(source, member, var, hook_of)
    if member.required and member.nullable:
        source.add(f"if {var} is None: out[{wire!r}] = None", "else:", *_indent(put))
    elif member.default is REQUIRED or (info.always and member.default is not None):
        source.add(*put)
    elif member.required and not info.added:
        source.add(f"if {var} is None: raise missing({wire!r})", *put)
    elif member.default is None or isinstance(member.default, bool) or member.default is ABSENT:
        again = f" or {member.attribute!r} in explicit" if keeps_explicit and _can_be_explicit(member) else ""
        source.add(f"if {var} is not {member.default!r}{again}:", *_indent(put))
    else:
        again = f" or {member.attribute!r} in explicit" if keeps_explicit and _can_be_explicit(member) else ""
        source.add(f"if {var} != {source.name('default', member.default)}{again}:", *_indent(put))


def make_unstructure(described: WireClass, hook_of: HookOf) -> Hook:
    """Return the function from a value of the class to a JSON object."""
    source = _Source("def unstructure(value):")
    cls = source.name("cls", described.cls)
    source.add(f"if value.__class__ is not {cls}: raise wrong(value, {f'a {described.cls.__name__}'!r})")
    for member in described.refused:
        problem = "does not exist in this revision, and the meaning would change without it"
        source.add(
            f"if value.{member.attribute} is not {source.name('default', member.default)}:",
            f"    raise Refused({problem!r}, {member.wire!r})",
        )
    source.add("out = {}" if described.tag is None else f"out = {{{described.tag[0]!r}: {described.tag[1]!r}}}")
    keeps_explicit = _keeps_explicit(described)
    if keeps_explicit:
        source.add("explicit = value.extra.explicit if value.extra.__class__ is keep else NOTHING")
    for member in described.members:
        _write(source, member, hook_of, keeps_explicit=keeps_explicit)
    _check_needs(source, described)
    source.add("extra = value.extra", "if extra is not NO_EXTRA:")
    source.add("    for k, v in extra.items(): out.setdefault(k, v)", "return out")
    return source.compile("unstructure", f"unstructure {described.cls.__name__}")


def integer(value: object) -> int:
    """Return a whole number. `1.0` is accepted, `True` is rejected."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise _wrong(value, "a whole number")


def number(value: object) -> int | float:
    """Return a number that JSON can express. A whole number keeps its class."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise (
        _wrong(value, "a number") if not isinstance(value, float) else ConversionError(f"{value} is not a JSON number")
    )
