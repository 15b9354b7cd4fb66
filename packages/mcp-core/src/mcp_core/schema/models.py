"""The type specifications of pydantic models and msgspec Structs: their own validators and their own schemas.

Neither library is imported here: a type of one of them can only exist if the author's module has imported it.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import sys
from typing import TYPE_CHECKING, Annotated, Final, cast

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.schema.metadata import field_settings
from mcp_core.schema.references import Ref
from mcp_core.schema.type_spec import Fault, Mismatch, TypeSpec, describe, describe_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ModelField", "adopt", "is_model", "model_fields", "model_spec"]

_REF: Final = "#/$defs/"
_SHOULD_BE: Final = "Input should be "
_PATH: Final = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_DESCRIBED_ERRORS: Final = 1_000
"""Largest number of problems that are described. The client chooses their number, and pydantic describes all or none."""
_EXPECTED: Final = re.compile(r"Expected (.*?)(?:, got .*)?", re.DOTALL)


def is_model(kind: type) -> bool:
    """Return whether a class is a pydantic model, a pydantic dataclass or a msgspec Struct."""
    return _is_pydantic(kind) or _is_struct(kind)


def _is_pydantic(kind: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and (issubclass(kind, pydantic.BaseModel) or "__pydantic_validator__" in vars(kind))


def _is_struct(kind: type) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and issubclass(kind, msgspec.Struct)


def model_spec(kind: type, hint: object, define: Callable[[JsonObject], JsonObject], *, output: bool) -> TypeSpec:
    """Return the type specification of a model.

    Args:
        kind: The class.
        hint: The class, or a generic alias of it.
        define: Returns a schema with its `$defs` moved to the definitions of the registered object.
        output: Whether the values are written, not read.

    Raises:
        Exception: The library cannot describe the model as a JSON Schema.
    """
    expected = f"an object ({kind.__name__})"
    schema, load, dump = (_of_pydantic if _is_pydantic(kind) else _of_struct)(hint, expected, output=output)

    def write(value: object) -> JsonValue:
        if not isinstance(value, kind):
            raise Mismatch.of(expected, describe_object(value))
        return dump(value)

    return TypeSpec(
        schema=define(schema),
        expected=expected,
        kinds=_kinds(schema),
        load=load,
        dump=write,
        types=(kind,),
        hashable=getattr(kind, "__hash__", None) is not None,
    )


def _kinds(schema: JsonObject) -> frozenset[str]:
    """Return the JSON types of a model: objects, except for a root model and a Struct that is written as an array."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        definitions = schema.get("$defs")
        inner = definitions.get(reference.removeprefix(_REF)) if isinstance(definitions, dict) else None
        return _kinds(inner) if isinstance(inner, dict) else frozenset({"object"})
    kind = schema.get("type")
    return frozenset({kind}) if isinstance(kind, str) else frozenset({"object", "array", "string", "number", "boolean"})


def _of_pydantic(
    hint: object, expected: str, *, output: bool
) -> tuple[JsonObject, Callable[[JsonValue], object], Callable[[object], JsonValue]]:
    pydantic = sys.modules["pydantic"]
    adapter = pydantic.TypeAdapter(hint)
    if output:
        generator = _output_generator()
        schema = cast("JsonObject", adapter.json_schema(mode="serialization", schema_generator=generator))
    else:
        schema = cast("JsonObject", adapter.json_schema())

    def load(value: JsonValue) -> object:
        try:
            # In JSON mode, strings are dates, and arrays are tuples and sets.
            loaded: object = adapter.validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            if (number := error.error_count()) > _DESCRIBED_ERRORS:
                raise Mismatch.of(expected, f"a value with {number:,} problems") from None
            found = error.errors(include_url=False, include_context=False)
            raise Mismatch([_pydantic_fault(each, expected) for each in found]) from error
        except Exception as error:  # a validator is code of the author
            raise Mismatch.raised(expected, describe(value), error) from error
        return loaded

    def dump(value: object) -> JsonValue:
        written: JsonValue = adapter.dump_python(value, mode="json", by_alias=True)
        return written

    return schema, load, dump


@functools.cache
def _output_generator() -> type:
    """Return the generator of the schemas of pydantic models in results, which states what a dumped model has.

    As for other classes: a member with a default is always present, and later versions of the server may add members.
    """
    base = importlib.import_module("pydantic.json_schema").GenerateJsonSchema

    class OutputSchema(base):  # type: ignore[misc, valid-type]  # pydantic is imported only if the author imported it
        def field_is_required(self, field: Mapping[str, object], total: bool) -> bool:  # noqa: FBT001  an overridden method
            if field["type"] == "typed-dict-field":
                return bool(super().field_is_required(field, total))
            return field.get("serialization_exclude_if") is None

        def default_schema(self, schema: Mapping[str, object]) -> object:
            return self.generate_inner(schema["schema"])

        def model_schema(self, schema: Mapping[str, object]) -> object:
            return _open(super().model_schema(schema))

        def dataclass_schema(self, schema: Mapping[str, object]) -> object:
            return _open(super().dataclass_schema(schema))

    return OutputSchema


def _open(schema: dict[str, object]) -> dict[str, object]:
    """Return a schema that allows other members."""
    return {name: member for name, member in schema.items() if (name, member) != ("additionalProperties", False)}


def _pydantic_fault(error: dict[str, object], expected: str) -> Fault:
    path = cast("tuple[str | int, ...]", error["loc"])
    text = str(error["msg"])
    if error["type"] == "missing":
        return path, "a value, because it is required", "nothing"
    if error["type"] == "extra_forbidden":
        return path, "one of the members of the model", "an unknown name"
    if text.startswith(_SHOULD_BE):
        return path, text.removeprefix(_SHOULD_BE), describe(error["input"])
    return path, f"{expected if not path else 'a value'}: {text}", describe(error["input"])


def _of_struct(
    hint: object, expected: str, *, output: bool
) -> tuple[JsonObject, Callable[[JsonValue], object], Callable[[object], JsonValue]]:
    msgspec = sys.modules["msgspec"]
    del output  # both directions have the same schema
    schema = cast("JsonObject", msgspec.json.schema(hint))

    def load(value: JsonValue) -> object:
        try:
            loaded: object = msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            raise Mismatch([_struct_fault(str(error), value, expected)]) from error
        except Exception as error:  # `__post_init__` is code of the author
            raise Mismatch.raised(expected, describe(value), error) from error
        return loaded

    def dump(value: object) -> JsonValue:
        written: JsonValue = msgspec.to_builtins(value)
        return written

    return schema, load, dump


def _struct_fault(text: str, value: JsonValue, expected: str) -> Fault:
    """Return the fault that a message of msgspec describes; it reports the first one only."""
    located = _PATH.fullmatch(text)
    problem, steps = (located[1], located[2]) if located is not None else (text, "")
    path = tuple(int(found[2]) if found[2] else found[1] for found in _STEP.finditer(steps))
    got: JsonValue = value
    for step in path:
        if isinstance(got, dict) and isinstance(step, str):
            got = got.get(step)
        elif isinstance(got, list) and isinstance(step, int) and step < len(got):
            got = got[step]
    missing = re.fullmatch(r"Object missing required field `(.*)`", problem)
    if missing is not None:
        return (*path, missing[1]), "a value, because it is required", "nothing"
    described = _EXPECTED.fullmatch(problem)
    if described is not None:
        return path, described[1].replace("`", ""), describe(got)
    return path, f"{expected}: {problem}", describe(got)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelField(FieldValue):
    """A field of a model."""

    name: str
    """The name on the wire."""
    hint: object
    """The type, with metadata."""
    required: bool
    """Whether it is required."""
    default: object
    """The default; `None` for a required field."""


def model_fields(kind: type) -> tuple[tuple[ModelField, ...], Callable[[dict[str, object]], object]]:
    """Return the fields of a model, and the function that creates a value from them.

    The function raises `ValueError` for values that the model rejects.
    """
    return _pydantic_fields(kind) if _is_pydantic(kind) else _struct_fields(kind)


def _pydantic_fields(kind: type) -> tuple[tuple[ModelField, ...], Callable[[dict[str, object]], object]]:
    pydantic = sys.modules["pydantic"]
    adapter = pydantic.TypeAdapter(kind)
    found: Mapping[str, object] = getattr(kind, "__pydantic_fields__", {})
    fields: list[ModelField] = []
    for name, field in found.items():
        said = field_settings(field, missing=None)
        annotation: object = getattr(field, "annotation", object)
        required = bool(field.is_required())  # type: ignore[attr-defined]  # a FieldInfo
        default = said.make_default() if callable(said.make_default) else said.default
        hint: object = Annotated[annotation, said.param]
        fields.append(ModelField(name=said.alias or name, hint=hint, required=required, default=default))

    def make(values: dict[str, object]) -> object:
        try:
            made: object = adapter.validate_python(values)
        except pydantic.ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
            raise ValueError("; ".join(str(each["msg"]) for each in found)) from error
        return made

    return tuple(fields), make


def _struct_fields(kind: type) -> tuple[tuple[ModelField, ...], Callable[[dict[str, object]], object]]:
    msgspec = sys.modules["msgspec"]
    found = msgspec.structs.fields(kind)
    names = {field.encode_name: field.name for field in found}
    fields = tuple(
        ModelField(
            name=field.encode_name,
            hint=field.type,
            required=field.required,
            default=None
            if field.required
            else field.default
            if field.default is not msgspec.NODEFAULT
            else field.default_factory(),
        )
        for field in found
    )
    return fields, lambda values: kind(**{names[name]: value for name, value in values.items()})


def adopt(schema: JsonObject, define: Callable[[str], str], definitions: dict[str, JsonObject]) -> JsonObject:
    """Return a schema whose `$defs` are moved to the definitions of the registered object.

    Args:
        schema: A complete schema.
        define: Returns a free name for a definition.
        definitions: The definitions, to which those of the schema are added.
    """
    found = schema.get("$defs")
    own = found if isinstance(found, dict) else {}
    names = {name: define(name) for name in own}

    def moved(node: JsonValue) -> JsonValue:
        if isinstance(node, list):
            return [moved(each) for each in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.removeprefix(_REF) in names:
            beside = {name: moved(each) for name, each in node.items() if name not in {"$ref", "$defs"}}
            return Ref(names[reference.removeprefix(_REF)], beside)
        return {name: moved(each) for name, each in node.items() if name != "$defs"}

    for name, unique in names.items():
        inner = moved(own[name])
        definitions[unique] = inner if isinstance(inner, dict) else {}
    whole = moved(schema)
    return whole if isinstance(whole, dict) else {}
