"""A compiler of types into type specifications, with one rule for each kind of type."""

from __future__ import annotations

import collections
import enum
import pathlib
import re
import types
import typing
from collections import abc
from typing import Annotated, Final, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

import attrs

from mcp_core.errors import UnsupportedType
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.schema.annotations import Scope, Unresolvable, substitute
from mcp_core.schema.constraints import annotate, check, constrain
from mcp_core.schema.containers import (
    any_spec,
    array_spec,
    hook_spec,
    integer_key_spec,
    mapping_spec,
    tuple_spec,
    union_spec,
)
from mcp_core.schema.hooks import class_hooks
from mcp_core.schema.metadata import NotUnderstood, settings
from mcp_core.schema.models import adopt, is_model, model_spec
from mcp_core.schema.records import MISSING, Member, dump_members, load_members, plan, record_of
from mcp_core.schema.references import Ref, embed
from mcp_core.schema.scalars import SCALARS, choice_spec, enum_pairs, path_spec
from mcp_core.schema.type_spec import ALL_KINDS, JsonScalar, Mismatch, Param, TypeSpec, describe

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_core.errors import McpError
    from mcp_core.schema.hooks import HookConverter

__all__ = ["Compiler"]

_ARRAYS: Final[dict[object, type]] = {
    list: list,
    collections.deque: collections.deque,
    set: set,
    frozenset: frozenset,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    abc.Set: set,
    abc.MutableSet: set,
}
_MAPPINGS: Final = (
    dict,
    abc.Mapping,
    abc.MutableMapping,
    collections.OrderedDict,
    collections.Counter,
    collections.defaultdict,
)
_WITH_EMPTY_VALUE: Final = (int, float, str, list, dict, set)
"""The types of values of a `defaultdict` for which a factory is known."""


class Compiler:
    """A compiler of the types of one function or class.

    Args:
        owner: The name of the object with these types, for errors; of a function with its file and line.
        output: Whether the values are written, not read.
        error: The class of the errors.
        converter: The hooks of the application, which take precedence for their classes.
    """

    def __init__(
        self,
        owner: str,
        *,
        output: bool = False,
        error: type[McpError] = UnsupportedType,
        converter: HookConverter | None = None,
    ) -> None:
        self._owner = owner
        self._error = error
        self._converter = converter
        self._output = output
        self._place = ""
        self._named: dict[object, TypeSpec] = {}
        self._definitions: dict[str, JsonObject] = {}

    def at(self, place: str) -> None:
        """Set the location of the next type for errors, for example `parameter 'x'`."""
        self._place = place

    def failure(self, problem: str) -> McpError:
        """Return an error for the current location."""
        where = f", {self._place}" if self._place else ""
        return self._error(f"{self._owner}{where}: {problem}")

    def finish(self, schema: JsonObject) -> JsonObject:
        """Return a schema of these types with the definitions that it refers to."""
        return embed(schema, self._definitions)

    def spec(self, hint: object, scope: Scope) -> TypeSpec:
        """Return the type specification of a type.

        Args:
            hint: The annotation.
            scope: The names that are visible to the annotation.

        Raises:
            McpError: The error of this compiler: the type has no JSON representation, or the annotation cannot be evaluated.
        """
        if isinstance(hint, str | ForwardRef):
            return self._forward(hint, scope)
        if hint is MISSING or hint is object or hint is typing.Any or hint == JsonValue:
            return any_spec(self._of_value)
        if self._converter is not None and isinstance(hint, type) and get_origin(hint) is None:
            hooked = self._hooked(self._converter, hint)
            if hooked is not None:
                return hooked
        if _hashable(hint) and hint in SCALARS:
            return SCALARS[hint]
        if isinstance(hint, typing.NewType):
            return self.spec(hint.__supertype__, scope)
        if isinstance(hint, TypeVar):
            return self._type_variable(hint, scope)
        if type(hint).__name__ == "TypeAliasType":
            return self._define(
                hint, getattr(hint, "__name__", "Alias"), lambda: self.spec(getattr(hint, "__value__", object), scope)
            )
        origin = get_origin(hint)
        if origin is Annotated:
            return self._annotated(hint, scope)
        if origin in (Union, types.UnionType):
            return union_spec([self.spec(member, scope) for member in get_args(hint)])
        if origin is Literal:
            return self._literal(get_args(hint))
        if origin is None and isinstance(hint, type):
            return self._class(hint)
        return self._generic(hint, origin, scope)

    def json_form(self, hint: object) -> object:
        """Return the annotation of the JSON form of a class with a hook; any other annotation unchanged."""
        if self._converter is None or not isinstance(hint, type):
            return hint
        hooks = class_hooks(self._converter, hint)
        return hint if hooks is None or hooks.load is None else hooks.loaded

    def _hooked(self, converter: HookConverter, kind: type) -> TypeSpec | None:
        """Return the type specification of a class for which the application registered hooks."""
        try:
            hooks = class_hooks(converter, kind)
        except ValueError as error:
            raise self.failure(str(error)) from error
        if hooks is None:
            return None
        hook, form = (hooks.dump, hooks.dumped) if self._output else (hooks.load, hooks.loaded)
        if hook is None:
            missing = "an unstructure" if self._output else "a structure"
            raise self.failure(f"the converter has no hook to use for {kind.__qualname__}; register {missing} hook")
        return hook_spec(kind, hooks, self.spec(form, Scope({}, {})))

    def _forward(self, hint: str | ForwardRef, scope: Scope) -> TypeSpec:
        try:
            meaning = scope.evaluate(hint)
        except Unresolvable as error:
            raise self.failure(
                f"the annotation {error}; import the name outside of 'if TYPE_CHECKING', or define it in the module"
            ) from error
        name = hint if isinstance(hint, str) else hint.__forward_arg__
        is_alias = name.isidentifier() and not isinstance(meaning, type) and type(meaning).__name__ != "TypeAliasType"
        if is_alias and _hashable(meaning) and meaning != JsonValue:
            # An alias that can refer to itself.
            return self._define(meaning, name, lambda: self.spec(meaning, scope))
        return self.spec(meaning, scope)

    def _type_variable(self, variable: TypeVar, scope: Scope) -> TypeSpec:
        if variable.__constraints__:
            return union_spec([self.spec(member, scope) for member in variable.__constraints__])
        return self.spec(object if variable.__bound__ is None else variable.__bound__, scope)

    def _annotated(self, hint: object, scope: Scope) -> TypeSpec:
        base, *marks = get_args(hint)
        param = self.param(marks)
        if isinstance(base, str | ForwardRef):
            try:
                base = scope.evaluate(base)
            except Unresolvable:
                return constrain(self.spec(base, scope), param, self.failure)
        return annotate(constrain(self.spec(base, scope), param, self.failure), param)

    def param(self, marks: Sequence[object]) -> Param:
        """Return the combined settings of the metadata of an `Annotated`; later ones take precedence.

        Raises:
            McpError: The error of this compiler: metadata has no counterpart, or settings contradict each other.
        """
        said: dict[str, object] = {}
        for mark in marks:
            try:
                said.update(settings(mark))
            except NotUnderstood as error:
                raise self.failure(str(error)) from error
        param = Param(**said)  # type: ignore[arg-type]  # values of the same class, or a string
        return check(param, self.failure)

    def _literal(self, values: Sequence[object]) -> TypeSpec:
        pairs: list[tuple[JsonValue, object]] = []
        for value in values:
            written = value.value if isinstance(value, enum.Enum) else value
            if not (written is None or isinstance(written, str | int | float)):
                raise self.failure(
                    f"JSON cannot represent the literal {value!r}; use strings, numbers, booleans or None"
                )
            pairs.append((written, value))
        return choice_spec(pairs)

    def _model(self, kind: type, hint: object) -> TypeSpec:
        def define(schema: JsonObject) -> JsonObject:
            return adopt(schema, self._free_name, self._definitions)

        known = self._named.get(hint)
        if known is not None:
            return known
        try:
            spec = model_spec(kind, hint, define, output=self._output)
        except Exception as error:  # the library calls code of the author
            raise self.failure(f"the model {kind.__qualname__} has no JSON Schema ({error})") from error
        if not isinstance(spec.schema, Ref):
            name = self._free_name(re.sub(r"\W+", "_", kind.__name__).strip("_"))
            self._definitions[name] = spec.schema
            spec = attrs.evolve(spec, schema=Ref(name))
        self._named[hint] = spec
        return spec

    def _class(self, kind: type) -> TypeSpec:
        if is_model(kind):
            return self._model(kind, kind)
        if issubclass(kind, enum.Enum):
            pairs = enum_pairs(kind)
            if not pairs:
                raise self.failure(f"the values of {kind.__name__} have no JSON representation; use strings or numbers")
            return choice_spec(pairs)
        if issubclass(kind, pathlib.PurePath):
            return path_spec(kind)
        if kind in _ARRAYS:
            return array_spec(any_spec(self._of_value), _ARRAYS[kind])
        if kind is tuple:
            return array_spec(any_spec(self._of_value), tuple)
        if kind in _MAPPINGS:
            item = SCALARS[int] if kind is collections.Counter else any_spec(self._of_value)
            return self._mapping(kind, SCALARS[str], item, object)
        spec = self._record(kind, kind, ())
        if spec is None:
            raise self._unsupported(kind)
        return spec

    def _generic(self, hint: object, origin: object, scope: Scope) -> TypeSpec:
        arguments = get_args(hint)
        if origin in _ARRAYS:
            item = self.spec(arguments[0], scope)
            if issubclass(_ARRAYS[origin], set | frozenset) and not item.hashable:
                raise self.failure(f"the items of a set must be hashable, and {item.expected} is not; use a list")
            return array_spec(item, _ARRAYS[origin])
        if origin is tuple:
            if len(arguments) == 2 and arguments[1] is Ellipsis:
                return array_spec(self.spec(arguments[0], scope), tuple)
            return tuple_spec([self.spec(argument, scope) for argument in arguments])
        if isinstance(origin, type) and origin in _MAPPINGS:
            key = self.spec(arguments[0], scope)
            if key is SCALARS[int]:
                key = integer_key_spec()
            if key.kinds != {"string"}:
                raise self.failure(f"the keys of a JSON object are strings, not {key.expected}; use dict[str, ...]")
            values = int if origin is collections.Counter else arguments[1]
            return self._mapping(origin, key, self.spec(values, scope), values)
        if isinstance(origin, type) and is_model(origin):
            return self._model(origin, hint)
        spec = self._record(origin, hint, arguments) if isinstance(origin, type) else None
        if spec is None:
            raise self._unsupported(hint)
        return spec

    def _mapping(self, kind: type, key: TypeSpec, item: TypeSpec, values: object) -> TypeSpec:
        if kind is collections.OrderedDict:
            return mapping_spec(key, item, kind, collections.OrderedDict)
        if kind is collections.Counter:
            return mapping_spec(key, item, kind, _counter)
        if kind is collections.defaultdict:
            # A missing member has the empty value of its type, such as 0 and [].
            factory = get_origin(values) or values
            known = factory if isinstance(factory, type) and factory in _WITH_EMPTY_VALUE else None
            return mapping_spec(key, item, kind, lambda members: collections.defaultdict(known, members))
        return mapping_spec(key, item)

    def _unsupported(self, hint: object) -> McpError:
        name = hint.__qualname__ if isinstance(hint, type) else repr(hint)
        return self.failure(
            f"the type {name} has no JSON representation; use a dataclass, an attrs class, a TypedDict or "
            "a type of the standard library"
        )

    def _record(self, kind: type, hint: object, arguments: tuple[object, ...]) -> TypeSpec | None:
        variables = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
        try:
            record = record_of(kind, output=self._output)
            if record is None:
                return None
            members = [_substitute(member, variables) for member in record.members]
        except Unresolvable as error:
            raise self.failure(f"in class {kind.__qualname__}, the annotation {error}") from error
        expected = f"an object ({kind.__name__})"

        def build() -> TypeSpec:
            schema, specs = self.object_schema(members, of=f"field {{!r}} of {kind.__qualname__}")
            if record.description is not None:
                schema = {"description": record.description, **schema}
            steps = plan(specs)

            def load(value: JsonValue) -> object:
                members = load_members(steps, value, expected)
                try:
                    return record.make(members)
                except Exception as error:  # the constructor is code of the author
                    raise Mismatch.raised(expected, describe(value), error) from error

            return TypeSpec(
                schema=schema,
                expected=expected,
                kinds=frozenset({"object"}),
                load=load,
                dump=lambda value: dump_members(record, specs, value, expected),
                types=(kind,),
                hashable=getattr(kind, "__hash__", None) is not None,
                tags=_tags(specs),
            )

        return self._define(hint, kind.__name__, build, kinds=frozenset({"object"}), types=(kind,))

    def object_schema(
        self, members: Sequence[Member], *, of: str
    ) -> tuple[JsonObject, dict[str, tuple[TypeSpec, bool]]]:
        """Return the schema of an object, and the type specification of each member with whether it is required.

        Args:
            members: The members.
            of: A format string for the location of a member in errors; `{!r}` is replaced with the name.
        """
        place = self._place
        properties: JsonObject = {}
        specs: dict[str, tuple[TypeSpec, bool]] = {}
        for member in members:
            self.at(of.format(member.name) if not place else f"{place}, {of.format(member.name)}")
            spec = self.spec(member.hint, member.scope)
            written = annotate(spec, Param(description=member.description), over=False).schema
            if member.default is not MISSING and not self._output:
                written = self._with_default(written, spec, member.default)
            properties[member.name] = written
            required = (
                member.required if not self._output or (member.default is MISSING and not member.required) else True
            )
            specs[member.name] = (spec, required)
        self.at(place)
        schema: JsonObject = {"type": "object", "properties": properties}
        needed: list[JsonValue] = [name for name, (_, required) in specs.items() if required]
        if needed:
            schema["required"] = needed
        if not self._output:
            schema["additionalProperties"] = False
        return schema, specs

    def _define(
        self,
        key: object,
        name: str,
        build: Callable[[], TypeSpec],
        *,
        kinds: frozenset[str] = ALL_KINDS,
        types: tuple[type, ...] = (),
    ) -> TypeSpec:
        """Return the type specification of a named type, which can contain itself."""
        known = self._named.get(key)
        if known is not None:
            return known
        unique = self._free_name(name)

        def load(value: JsonValue) -> object:
            return built.load(value)

        def dump(value: object) -> JsonValue:
            return built.dump(value)

        # A type that contains itself uses this type specification before it is complete.
        entry = TypeSpec(
            schema=Ref(unique),
            expected=f"an object ({name})" if kinds == {"object"} else name,
            kinds=kinds,
            types=types,
            load=load,
            dump=dump,
        )
        self._named[key] = entry
        built = build()
        self._definitions[unique] = built.schema
        entry.load, entry.dump, entry.kinds, entry.types = built.load, built.dump, built.kinds, built.types
        entry.lenient, entry.hashable, entry.members, entry.choices = (
            built.lenient,
            built.hashable,
            built.members,
            built.choices,
        )
        entry.expected, entry.tags = built.expected, built.tags
        return entry

    def _with_default(self, schema: JsonObject, spec: TypeSpec, default: object) -> JsonObject:
        try:
            written = spec.dump(default)
        except Mismatch as mismatch:
            advice = "; write 'T | None' for a value that may be None" if default is None else ""
            raise self.failure(f"the default does not match the type: {mismatch.problems()[0]}{advice}") from None
        return schema.merged({"default": written}) if isinstance(schema, Ref) else {**schema, "default": written}

    def _free_name(self, name: str) -> str:
        """Return a name for a definition, and reserve it."""
        unique, number = name, 1
        while unique in self._definitions:
            number += 1
            unique = f"{name}{number}"
        self._definitions[unique] = {}
        return unique

    def _of_value(self, value: object) -> TypeSpec:
        """Return the type specification of a value of unknown type."""
        kind = type(value)
        if kind is object:
            raise Mismatch.of("a value that JSON can represent", "a bare object")
        if kind not in self._named:
            try:
                self._named[kind] = (self._converter is None and SCALARS.get(kind)) or Compiler(
                    self._owner, output=True, converter=self._converter
                ).spec(kind, Scope({}, {}))
            except UnsupportedType:
                raise Mismatch.of("a value that JSON can represent", f"a value of type {kind.__qualname__}") from None
        return self._named[kind]


def _counter(members: dict[object, object]) -> object:
    return collections.Counter({name: count for name, count in members.items() if isinstance(count, int)})


def _hashable(hint: object) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False  # an Annotated whose metadata is not hashable
    return True


def _substitute(member: Member, variables: Mapping[object, object]) -> Member:
    """Replace the type variables in a member of a generic class."""
    return attrs.evolve(member, hint=substitute(member.hint, member.scope, variables)) if variables else member


def _tags(members: Mapping[str, tuple[TypeSpec, bool]]) -> dict[str, frozenset[JsonScalar]]:
    """Return the required members with a fixed set of values, which distinguish the objects of a union."""
    return {
        name: frozenset([written for written, _ in spec.choices if not isinstance(written, list | dict)])
        for name, (spec, required) in members.items()
        if required and spec.choices
    }
