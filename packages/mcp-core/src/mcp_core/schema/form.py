"""Forms of elicitation: a class as the requested schema, and the result as an instance of the class.

Spec: client/elicitation#requested-schema. A form is flat: strings, numbers, booleans, dates, and choices of one or
several values. A single type of these is a form with one field called `value`.
"""

from __future__ import annotations

import datetime
import enum
import pathlib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, ForwardRef, Literal, TypeAlias, Union, get_args, get_origin

import attrs

from mcp_core.errors import UnsupportedType
from mcp_core.field_methods import FieldValue
from mcp_core.schema.annotations import Scope, Unresolvable
from mcp_core.schema.compiler import Compiler
from mcp_core.schema.constraints import constrain
from mcp_core.schema.records import MISSING, Member, load_members, plan, record_of
from mcp_core.schema.type_spec import InvalidArguments, Mismatch, Param, TypeSpec
from mcp_core.types.elicitation import (
    BooleanSchema,
    EnumItems,
    EnumOption,
    LegacyTitledEnumSchema,
    NumberSchema,
    PrimitiveSchemaDefinition,
    RequestedSchema,
    StringSchema,
    TitledEnumItems,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
)

if TYPE_CHECKING:
    from mcp_core.errors import McpError
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.schema.hooks import HookConverter

__all__ = ["Form", "form_schema"]

_FormFormat: TypeAlias = Literal["email", "uri", "date", "date-time"]
_FORMATS: Final[dict[str, _FormFormat]] = {"email": "email", "uri": "uri", "date": "date", "date-time": "date-time"}
_TEXTS: Final[dict[object, str | None]] = {
    str: None,
    pathlib.Path: None,
    pathlib.PurePath: None,
    datetime.date: "date",
    datetime.datetime: "date-time",
}
_SEVERAL: Final = (list, set, frozenset, tuple, Sequence)
_ADVICE: Final = "a form has fields of type str, int, float, bool, Path, date, datetime, Enum, Literal, or a list of one of the last two"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Form(FieldValue):
    """A form that the user fills in."""

    schema: RequestedSchema
    """The requested schema for revision 2025-11-25 and later."""
    legacy_schema: RequestedSchema
    """The requested schema for 2025-06-18, which names choices differently. Fields that it lacks are as in `schema`."""
    _load: Callable[[JsonValue], object]

    def load(self, content: Mapping[str, JsonValue | tuple[str, ...]]) -> object:
        """Convert the content of an elicitation result to an instance of the class.

        Args:
            content: The content of an accepted elicitation.

        Raises:
            InvalidArguments: The content does not match the form.
        """
        plain: JsonObject = {
            name: list(value) if isinstance(value, tuple) else value for name, value in content.items()
        }
        try:
            return self._load(plain)
        except Mismatch as mismatch:
            raise InvalidArguments(mismatch.problems()) from None


@attrs.frozen(eq=False, repr=False)
class _Field(FieldValue):
    """A compiled field."""

    spec: TypeSpec
    schema: PrimitiveSchemaDefinition
    legacy: PrimitiveSchemaDefinition | None


def form_schema(kind: object, error: type[McpError] = UnsupportedType, converter: HookConverter | None = None) -> Form:
    """Compile a class into a form.

    Args:
        kind: A dataclass, an attrs class, a `TypedDict` or a `NamedTuple` with flat fields, or the type of a single
            field.
        error: The class of the errors.
        converter: The hooks of the application.

    Returns:
        The form.

    Raises:
        McpError: The given error: a field is not flat, or its annotation cannot be evaluated.
    """
    name = kind.__qualname__ if isinstance(kind, type) else repr(kind)
    compiler = Compiler(f"form {name}", error=error, converter=converter)
    record = None
    if isinstance(kind, type):
        try:
            record = record_of(kind, output=False)
        except Unresolvable as unresolvable:
            raise compiler.failure(f"the annotation {unresolvable}") from unresolvable
    if record is None:
        return _form(
            [Member(name="value", hint=kind, scope=Scope({}, {}), required=True)],
            lambda values: values["value"],
            compiler,
        )
    return _form(record.members, record.make, compiler)


def _form(members: Sequence[Member], make: Callable[[dict[str, object]], object], compiler: Compiler) -> Form:
    fields: dict[str, _Field] = {}
    for member in members:
        compiler.at(f"field {member.name!r}")
        fields[member.name] = _field(member, compiler)
    steps = plan({member.name: (fields[member.name].spec, member.required) for member in members})
    required = tuple(member.name for member in members if member.required) or None
    legacy = {name: field.legacy or field.schema for name, field in fields.items()}

    def load(content: JsonValue) -> object:
        values = load_members(steps, content, "an object with the fields of the form")
        try:
            return make(values)
        except Exception as error:  # the constructor is code of the author
            raise Mismatch.raised("valid values", "others", error) from error

    return Form(
        schema=RequestedSchema(properties={name: field.schema for name, field in fields.items()}, required=required),
        legacy_schema=RequestedSchema(properties=legacy, required=required),
        load=load,
    )


def _field(member: Member, compiler: Compiler) -> _Field:
    hint, param = _bare(member, compiler)
    for name in ("exclusive_minimum", "exclusive_maximum", "multiple_of", "pattern"):
        if getattr(param, name) is not None and not (name == "pattern" and hint in _TEXTS):
            raise compiler.failure(f"a form cannot express {name}; {_ADVICE}")
    spec = constrain(compiler.spec(hint, member.scope), param, compiler.failure)
    hint = compiler.json_form(hint)
    default: JsonValue = None
    if member.default is not MISSING and member.default is not None:
        try:
            default = spec.dump(member.default)
        except Mismatch as mismatch:
            raise compiler.failure(f"the default does not match the type: {mismatch.problems()[0]}") from None
    title, description = param.title, param.description or member.description
    if get_origin(hint) in _SEVERAL:
        return _several(hint, member.scope, spec, param, default=default, compiler=compiler)
    if spec.choices:
        return _choice(spec, title, description, _text_or_none(default), compiler)
    if hint is bool:
        boolean = BooleanSchema(
            title=title, description=description, default=default if isinstance(default, bool) else None
        )
        return _Field(spec, boolean, boolean)
    if hint is int or hint is float:
        number = NumberSchema(
            type="integer" if hint is int else "number",
            title=title,
            description=description,
            minimum=param.minimum,
            maximum=param.maximum,
            default=default if isinstance(default, int | float) else None,
        )
        return _Field(spec, number, number)
    if hint in _TEXTS:
        text = StringSchema(
            title=title,
            description=description,
            min_length=param.min_length,
            max_length=param.max_length,
            format=_format(param.format or _TEXTS[hint], compiler),
            default=_text_or_none(default),
        )
        return _Field(spec, text, text)
    raise compiler.failure(f"a form cannot have a field of type {spec.expected}; {_ADVICE}")


def _bare(member: Member, compiler: Compiler) -> tuple[object, Param]:
    """Return the type of a field without its metadata and without a `None` that is its default."""
    hint = member.hint
    marks: list[object] = []
    while True:
        if isinstance(hint, str | ForwardRef):
            try:
                hint = member.scope.evaluate(hint)
            except Unresolvable as error:
                raise compiler.failure(f"the annotation {error}") from error
        elif get_origin(hint) is Annotated:
            hint, *more = get_args(hint)
            marks = [*more, *marks]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":  # of `type X = ...`, which Python 3.11 does not have
            hint = getattr(hint, "__value__", object)
        elif get_origin(hint) in (Union, types.UnionType) and not member.required:
            rest = [argument for argument in get_args(hint) if argument is not type(None)]
            if len(rest) != 1:
                raise compiler.failure(f"a form cannot have a field of a union type; {_ADVICE}")
            (hint,) = rest
        else:
            return hint, compiler.param(marks)


def _format(name: str | None, compiler: Compiler) -> _FormFormat | None:
    if name is None:
        return None
    known = _FORMATS.get(name)
    if known is None:
        raise compiler.failure(f"a form field supports the formats {', '.join(_FORMATS)}, not {name!r}")
    return known


def _has_names(spec: TypeSpec) -> bool:
    return any(isinstance(member, enum.Enum) for _, member in spec.choices)


def _text_or_none(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _options(spec: TypeSpec, compiler: Compiler) -> tuple[EnumOption, ...]:
    """Return the values of a choice with names for display."""
    options = []
    for value, member in spec.choices:
        if not isinstance(value, str):
            raise compiler.failure("the values of a choice in a form must be strings")
        name = member.name.replace("_", " ").capitalize() if isinstance(member, enum.Enum) else value
        options.append(EnumOption(const=value, title=name))
    return tuple(options)


def _choice(
    spec: TypeSpec, title: str | None, description: str | None, default: str | None, compiler: Compiler
) -> _Field:
    options = _options(spec, compiler)
    values = tuple(option.const for option in options)
    if not _has_names(spec):
        plain = UntitledSingleSelectEnumSchema(enum=values, title=title, description=description, default=default)
        return _Field(spec, plain, plain)
    names = tuple(option.title for option in options)
    return _Field(
        spec,
        TitledSingleSelectEnumSchema(one_of=options, title=title, description=description, default=default),
        LegacyTitledEnumSchema(enum=values, enum_names=names, title=title, description=description, default=default),
    )


def _several(
    hint: object, scope: Scope, spec: TypeSpec, param: Param, *, default: JsonValue, compiler: Compiler
) -> _Field:
    item = compiler.spec(get_args(hint)[0], scope)
    if not item.choices:
        raise compiler.failure(f"a form cannot have a list of {item.expected}; {_ADVICE}")
    options = _options(item, compiler)
    chosen = tuple(value for value in default if isinstance(value, str)) if isinstance(default, list) else None
    if _has_names(item):
        titled = TitledMultiSelectEnumSchema(
            items=TitledEnumItems(any_of=options),
            title=param.title,
            description=param.description,
            min_items=param.min_length,
            max_items=param.max_length,
            default=chosen,
        )
        return _Field(spec, titled, None)
    plain = UntitledMultiSelectEnumSchema(
        items=EnumItems(enum=tuple(option.const for option in options)),
        title=param.title,
        description=param.description,
        min_items=param.min_length,
        max_items=param.max_length,
        default=chosen,
    )
    return _Field(spec, plain, None)
