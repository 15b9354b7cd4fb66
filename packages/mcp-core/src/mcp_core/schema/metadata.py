"""The metadata of `Annotated`, of this project and of other libraries, as the settings of a `Param`.

Understood are strings, `Param`, the classes of `annotated_types`, `Doc` (PEP 727), `pydantic.Field` and `msgspec.Meta`.
Nothing is dropped: what cannot be expressed in a JSON Schema is an error. The libraries are recognized by the names of
their classes, and are not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.schema.type_spec import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FieldSettings", "NotUnderstood", "field_settings", "is_field", "settings"]

_PARAM: Final = tuple(field.name for field in attrs.fields(Param))

_BOUNDS: Final = {
    "gt": "exclusive_minimum",
    "ge": "minimum",
    "lt": "exclusive_maximum",
    "le": "maximum",
    "multiple_of": "multiple_of",
    "min_length": "min_length",
    "max_length": "max_length",
    "pattern": "pattern",
    "title": "title",
    "description": "description",
    "documentation": "description",
    "examples": "examples",
}
"""The names of settings in other libraries, with those of `Param`."""

_CLASSES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("annotated_types", "Gt"): ("gt",),
    ("annotated_types", "Ge"): ("ge",),
    ("annotated_types", "Lt"): ("lt",),
    ("annotated_types", "Le"): ("le",),
    ("annotated_types", "Interval"): ("gt", "ge", "lt", "le"),
    ("annotated_types", "MultipleOf"): ("multiple_of",),
    ("annotated_types", "MinLen"): ("min_length",),
    ("annotated_types", "MaxLen"): ("max_length",),
    ("annotated_types", "Len"): ("min_length", "max_length"),
    ("annotated_types", "DocInfo"): ("documentation",),
    ("typing_extensions", "Doc"): ("documentation",),
    ("msgspec", "Meta"): tuple(name for name in _BOUNDS if name != "documentation"),
}
"""By package and class: the attributes that are understood."""

_MUST_BE_UNSET: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("msgspec", "Meta"): ("tz", "extra_json_schema", "extra"),
}
"""By package and class: the attributes that have no counterpart."""

_FIELD: Final = ("pydantic", "FieldInfo")
_FIELD_SETTINGS: Final = frozenset({"title", "description", "examples"})
_FIELD_NAMES: Final = frozenset({"alias", "validation_alias", "serialization_alias", "alias_priority"})
_FIELD_DEFAULTS: Final = frozenset({"default", "default_factory", "annotation"})


class NotUnderstood(Exception):
    """Metadata that has no meaning here. Internal: it becomes an error that names the place."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FieldSettings(FieldValue):
    """The content of a `pydantic.Field`: the settings of a `Param`, a name and a default."""

    param: Param
    """The settings."""
    alias: str | None
    """The name of the argument, in place of the parameter's."""
    default: object
    """The default, or `missing`."""
    make_default: object
    """The function that creates the default, or `None`."""


def _class_of(mark: object) -> tuple[str, str]:
    return type(mark).__module__.partition(".")[0], type(mark).__name__


def is_field(mark: object) -> bool:
    """Return whether an object is a `pydantic.Field(...)`."""
    return _class_of(mark) == _FIELD


def settings(mark: object) -> dict[str, object]:
    """Return the settings of a `Param` that metadata means, by name.

    Args:
        mark: An object in the metadata of an `Annotated`.

    Raises:
        NotUnderstood: The metadata, or a part of it, has no counterpart.
    """
    if isinstance(mark, str):
        return {"description": mark}
    if isinstance(mark, Param):
        return {name: value for name in _PARAM if (value := getattr(mark, name)) is not None}
    kind = _class_of(mark)
    if kind == _FIELD:
        field = field_settings(mark, missing=None)
        if field.alias is not None:
            raise NotUnderstood("Field(alias=...) works only for a parameter and in a pydantic model")
        if field.default is not None or field.make_default is not None:
            raise NotUnderstood("a Field(default=...) in Annotated works only for a parameter and in a pydantic model")
        return settings(field.param)
    names = _CLASSES.get(kind)
    if names is None:
        raise NotUnderstood(
            f"the metadata {_shown(mark)} has no counterpart in JSON Schema; "
            "use Param(...), annotated_types, pydantic.Field or msgspec.Meta, or check the value in the function"
        )
    for name in _MUST_BE_UNSET.get(kind, ()):
        if getattr(mark, name, None) is not None:
            raise NotUnderstood(f"{kind[1]}({name}=...) has no counterpart in JSON Schema; use Param(...)")
    return _renamed({name: getattr(mark, name, None) for name in names})


def _renamed(values: Mapping[str, object]) -> dict[str, object]:
    found = {_BOUNDS[name]: value for name, value in values.items() if value is not None}
    if isinstance(found.get("examples"), list):
        found["examples"] = tuple(found["examples"])  # type: ignore[arg-type]  # a list, by the condition
    if found.get("min_length") == 0:
        del found["min_length"]  # the default of `Len`
    return found


def field_settings(mark: object, *, missing: object) -> FieldSettings:
    """Return what a `pydantic.Field(...)` says.

    Args:
        mark: The field.
        missing: The value of `default` without a default.

    Raises:
        NotUnderstood: The field has a setting without a counterpart.
    """
    given: Mapping[str, object] = getattr(mark, "_attributes_set", {})
    unknown = sorted(given.keys() - _FIELD_SETTINGS - _FIELD_NAMES - _FIELD_DEFAULTS - _BOUNDS.keys())
    if unknown:
        raise NotUnderstood(f"Field({unknown[0]}=...) works only in a pydantic model")
    found = _renamed({name: getattr(mark, name, None) for name in _FIELD_SETTINGS})
    metadata: Iterable[object] = getattr(mark, "metadata", ())
    for each in metadata:
        if type(each).__module__.startswith("pydantic"):
            general = vars(each) if hasattr(each, "__dict__") else {}
            others = sorted(general.keys() - _BOUNDS.keys())
            if others or not general:
                raise NotUnderstood(f"Field({(others or ['strict'])[0]}=...) works only in a pydantic model")
            found.update(_renamed(general))
        else:
            found.update(settings(each))
    alias = getattr(mark, "alias", None) or getattr(mark, "validation_alias", None)
    if alias is not None and not isinstance(alias, str):
        raise NotUnderstood("an alias must be a string")
    default: object = getattr(mark, "default", missing)
    return FieldSettings(
        param=Param(**found),  # type: ignore[arg-type]  # `check` verifies the values
        alias=alias,
        default=missing if default is Ellipsis or type(default).__name__ == "PydanticUndefinedType" else default,
        make_default=getattr(mark, "default_factory", None),
    )


def _shown(mark: object) -> str:
    text = repr(mark)
    return text if len(text) <= 80 and " at 0x" not in text else f"of the class {type(mark).__qualname__}"
