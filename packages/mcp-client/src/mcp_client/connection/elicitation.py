"""Validation of elicitation results against the requested schema, before they are sent.

Spec: client/elicitation#requested-schema, client/elicitation#response-actions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_core.types import (
    BooleanSchema,
    ElicitRequestURLParams,
    NumberSchema,
    StringSchema,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
)

if TYPE_CHECKING:
    from mcp_core.types import ElicitRequestFormParams, ElicitResult, ElicitValue, PrimitiveSchemaDefinition

__all__ = ["why_unfit"]


def why_unfit(params: ElicitRequestFormParams | ElicitRequestURLParams, result: ElicitResult) -> str | None:
    """Return the reason why a result does not match its elicitation request, or `None`.

    Additional members are allowed. Formats, for example of an email address, are not validated: implementations
    disagree about them.

    Args:
        params: The parameters of the elicitation request.
        result: The elicitation result.
    """
    if result.action != "accept":
        return None
    if isinstance(params, ElicitRequestURLParams):
        return None if result.content is None else "a URL mode result must not have content"
    content = result.content or {}
    for name in params.requested_schema.required or ():
        if name not in content:
            return f"{name} is missing"
    for name, field in params.requested_schema.properties.items():
        problem = _problem(field, content[name]) if name in content else None
        if problem is not None:
            return f"{name} {problem}"
    return None


def _problem(field: PrimitiveSchemaDefinition, value: ElicitValue) -> str | None:
    """Return the problem of a field's value, as the predicate of a sentence, or `None`."""
    if isinstance(field, BooleanSchema):
        return None if isinstance(value, bool) else "must be true or false"
    if isinstance(field, NumberSchema):
        return _number_problem(field, value)
    if isinstance(field, UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema):
        return _choices_problem(field, value)
    if not isinstance(value, str):
        return "must be a string"
    if isinstance(field, StringSchema):
        return _size_problem(len(value), field.min_length, field.max_length, "characters")
    if isinstance(field, TitledSingleSelectEnumSchema):
        return _choice_problem(value, [option.const for option in field.one_of])
    return _choice_problem(value, field.enum)


def _number_problem(field: NumberSchema, value: ElicitValue) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if field.type == "integer" and value != value // 1:
        return "must be an integer"
    if field.minimum is not None and value < field.minimum:
        return f"is less than {field.minimum}"
    if field.maximum is not None and value > field.maximum:
        return f"is more than {field.maximum}"
    return None


def _choices_problem(
    field: UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema, value: ElicitValue
) -> str | None:
    if isinstance(value, str) or not isinstance(value, tuple | list):
        return "must be a list of strings"
    if isinstance(field, TitledMultiSelectEnumSchema):
        allowed = [option.const for option in field.items.any_of]
    else:
        allowed = list(field.items.enum)
    problems = (_choice_problem(each, allowed) for each in value)
    return next(filter(None, problems), None) or _size_problem(len(value), field.min_items, field.max_items, "choices")


def _choice_problem(value: ElicitValue, allowed: tuple[str, ...] | list[str]) -> str | None:
    return None if value in allowed else f"is not one of: {', '.join(allowed)}"


def _size_problem(size: int, least: int | None, most: int | None, what: str) -> str | None:
    if least is not None and size < least:
        return f"has fewer than {least} {what}"
    if most is not None and size > most:
        return f"has more than {most} {what}"
    return None
