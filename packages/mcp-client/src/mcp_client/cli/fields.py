"""The fields of a form on the terminal: what is shown of a field, and how the typed text becomes its value.

Spec: client/elicitation#requested-schema
"""

from __future__ import annotations

import math
import re
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import attrs

from mcp_client.connection.elicitation import field_problem
from mcp_core.field_methods import FieldValue
from mcp_core.schema.validation import compile_schema
from mcp_core.types import (
    BooleanSchema,
    LegacyTitledEnumSchema,
    NumberSchema,
    StringSchema,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.schema.validation import Validator
    from mcp_core.types import ElicitValue, PrimitiveSchemaDefinition, RequestedSchema

__all__ = ["YES", "Field", "InvalidEntry", "fields_of"]

YES: Final = {"y": True, "yes": True, "true": True, "1": True, "n": False, "no": False, "false": False, "0": False}
"""The entries for yes and no, in lower case."""

_FORMATS: Final = {
    "date": "a date, for example 2026-07-28",
    "date-time": "a date and a time with its offset, for example 2026-07-28T09:30:00Z",
    "email": "an email address, for example ada@example.com",
    "uri": "a URI, for example https://example.com/page",
}

# Without the names of infinity and "not a number", which Python accepts and JSON cannot represent.
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTEGER_BITS: Final = 63
"""Size of the largest integer, without its sign. JSON libraries of other languages do not read larger ones."""


class InvalidEntry(Exception):
    """The typed text is not a value of the field. The message states what to enter."""


@attrs.frozen(eq=False, repr=False)
class _Choice(FieldValue):
    """One of the values of a field, with its name for display."""

    value: str
    title: str

    def __str__(self) -> str:
        return _line(self.title if self.title == self.value else f"{self.title} ({self.value})")


@attrs.frozen(eq=False, repr=False)
class Field(FieldValue):
    """A field of a form."""

    name: str
    """The name in the content of the result."""
    schema: PrimitiveSchemaDefinition
    """The rules for its value."""
    is_required: bool
    """Whether the form requires a value."""

    @property
    def label(self) -> str:
        """The title of the field, or its name, in one line."""
        return _line(self.schema.title or self.name)

    @property
    def default(self) -> ElicitValue | None:
        """The default value; `None` without one, and if the rules do not allow it."""
        default = self.schema.default
        return None if default is None or self._problem(default) else default

    @property
    def prompt(self) -> str:
        """The text before the cursor."""
        if self.default is not None:
            return f"{self.label} [{self.shown(self.default)}]: "
        return f"{self.label}: " if self.is_required else f"{self.label} (optional): "

    def lines(self) -> list[str]:
        """Return the lines above the prompt: the description, the choices and the bounds."""
        found = [self.schema.description] if self.schema.description else []
        choices = _choices(self.schema)
        is_numbered = _is_numbered(choices)
        found += [f"{f'{number}.' if is_numbered else '-'} {choice}" for number, choice in enumerate(choices, 1)]
        rules = ", ".join(_rules(self.schema))
        return [*found, f"Enter {rules}."] if rules else found

    def shown(self, value: ElicitValue) -> str:
        """Return a value as the user reads it."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        values = value if isinstance(value, tuple | list) else [str(value)]
        titles = {choice.value: str(choice) for choice in _choices(self.schema)}
        return ", ".join(titles.get(each, each) for each in values) or "none"

    def read(self, text: str) -> ElicitValue | None:
        """Convert the typed text to a value.

        Args:
            text: The text, without spaces around it.

        Returns:
            The value; `None` to omit the field.

        Raises:
            InvalidEntry: The text is not a valid value.
        """
        if not text and self.default is not None:
            return self.default
        if not text and not self.is_required:
            return None
        value = self._parsed(text)
        problem = self._problem(value)
        if problem is not None:
            raise InvalidEntry(f"{text!r} {problem}" if text else f"the value {problem}")
        return value

    def _parsed(self, text: str) -> ElicitValue:
        schema = self.schema
        if isinstance(schema, UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema):
            return _several(text, _choices(schema))
        if not text:
            raise InvalidEntry("a value is required")
        if isinstance(schema, BooleanSchema):
            if text.lower() not in YES:
                raise InvalidEntry("enter yes or no")
            return YES[text.lower()]
        if isinstance(schema, NumberSchema):
            return _number(text, is_integer=schema.type == "integer")
        return text if isinstance(schema, StringSchema) else _one(text, _choices(schema))

    def _problem(self, value: ElicitValue) -> str | None:
        """Return why the rules do not allow a value, as the predicate of a sentence, or `None`."""
        problem = field_problem(self.schema, value)
        name = self.schema.format if isinstance(self.schema, StringSchema) else None
        if problem is None and name in _FORMATS and _format_validator(name).validate(str(value)):
            return f"is not {_FORMATS[name]}"
        return problem


def fields_of(schema: RequestedSchema) -> list[Field]:
    """Return the fields of a form, in order."""
    required = schema.required or ()
    return [Field(name, field, name in required) for name, field in schema.properties.items()]


@cache
def _format_validator(name: str) -> Validator:
    return compile_schema({"type": "string", "format": name}, check_formats=True)


# --- text to values --------------------------------------------------------------------------------------------------


def _number(text: str, *, is_integer: bool) -> int | float:
    if not _NUMBER.fullmatch(text):
        raise InvalidEntry("enter a whole number" if is_integer else "enter a number")
    try:
        value: int | float = int(text) if _INTEGER.fullmatch(text) else float(text)
    except ValueError:  # Python limits the number of digits
        value = math.inf
    if is_integer and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not math.isfinite(value) if isinstance(value, float) else value.bit_length() > _INTEGER_BITS:
        raise InvalidEntry("the number is too large")
    return value


def _several(text: str, choices: Sequence[_Choice]) -> tuple[str, ...]:
    """Return the choices in a text, separated by commas; each once."""
    # A title can contain commas.
    whole = _found(text, choices)
    if whole is not None:
        return (whole,)
    return tuple(dict.fromkeys(_one(part.strip(), choices) for part in text.split(",") if part.strip()))


def _one(text: str, choices: Sequence[_Choice]) -> str:
    found = _found(text, choices)
    if found is None:
        raise InvalidEntry(f"{text!r} is not one of: {', '.join(map(str, choices))}")
    return found


def _found(text: str, choices: Sequence[_Choice]) -> str | None:
    """Return the value of the choice with this value, title or number, or `None`."""
    for choice in choices:
        if choice.value == text:
            return choice.value
    for choice in choices:
        if text.casefold() in {choice.value.casefold(), choice.title.casefold()}:
            return choice.value
    if (
        _is_numbered(choices)
        and text.isdecimal()
        and text.isascii()
        and len(text) < 10
        and 0 < int(text) <= len(choices)
    ):
        return choices[int(text) - 1].value
    return None


# --- what is shown ---------------------------------------------------------------------------------------------------


def _choices(schema: PrimitiveSchemaDefinition) -> list[_Choice]:
    """Return the choices of a field; empty for a field without choices."""
    if isinstance(schema, StringSchema | NumberSchema | BooleanSchema):
        return []
    if isinstance(schema, TitledSingleSelectEnumSchema):
        return [_Choice(option.const, option.title) for option in schema.one_of]
    if isinstance(schema, TitledMultiSelectEnumSchema):
        return [_Choice(option.const, option.title) for option in schema.items.any_of]
    if isinstance(schema, UntitledMultiSelectEnumSchema):
        return [_Choice(value, value) for value in schema.items.enum]
    names = schema.enum_names or () if isinstance(schema, LegacyTitledEnumSchema) else ()
    pairs = zip_longest(schema.enum, names[: len(schema.enum)])
    return [_Choice(value, value if name is None else name) for value, name in pairs]


def _is_numbered(choices: Sequence[_Choice]) -> bool:
    """Return whether the user can enter the number of a choice. Numbers of choices that are numbers would mislead."""
    return not any(text.isdecimal() for choice in choices for text in (choice.value, choice.title))


def _rules(schema: PrimitiveSchemaDefinition) -> list[str]:
    """Return what the user must know to enter a value, as the objects of "Enter"."""
    if isinstance(schema, StringSchema):
        size = _bounds(schema.min_length, schema.max_length, " characters")
        return [rule for rule in (_FORMATS.get(schema.format or ""), size) if rule]
    if isinstance(schema, NumberSchema):
        size = _bounds(schema.minimum, schema.maximum, "")
        kind = "a whole number" if schema.type == "integer" else "a number"
        return [f"{kind}, {size}" if size else kind]
    if isinstance(schema, BooleanSchema):
        return ["yes or no"]
    if isinstance(schema, UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema):
        size = _bounds(schema.min_items, schema.max_items, "")
        return [f"any of these, with commas between them{f', {size} of them' if size else ''}"]
    return ["one of these"]


def _bounds(least: float | None, most: float | None, unit: str) -> str:
    """Return the bounds of a value, or an empty string."""
    if least is not None and least == most:
        return f"exactly {_spelled(least)}{unit}"
    if least is not None and most is not None:
        return f"{_spelled(least)} to {_spelled(most)}{unit}"
    if least is not None:
        return f"at least {_spelled(least)}{unit}"
    return "" if most is None else f"at most {_spelled(most)}{unit}"


def _spelled(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


def _line(text: str) -> str:
    # A server could imitate prompts of the client with line ends.
    return " ".join(text.split())
