"""Whether what a user filled in fits the form that a server asked with: looked at before it is sent.

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
    """Why that is no answer to what the user was asked, or `None`.

    Members that the form does not have may stand in the answer. Formats, as that of an address, are not looked at: what
    fits them is disputed.

    Args:
        params: The question.
        result: The answer.
    """
    if result.action != "accept":
        return None
    if isinstance(params, ElicitRequestURLParams):
        return None if result.content is None else "a page that is visited gives no content"
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
    """What is wrong with the value of a field, as the rest of a sentence about it."""
    if isinstance(field, BooleanSchema):
        return None if isinstance(value, bool) else "has to be true or false"
    if isinstance(field, NumberSchema):
        return _number_problem(field, value)
    if isinstance(field, UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema):
        return _choices_problem(field, value)
    if not isinstance(value, str):
        return "has to be a text"
    if isinstance(field, StringSchema):
        return _size_problem(len(value), field.min_length, field.max_length, "characters")
    if isinstance(field, TitledSingleSelectEnumSchema):
        return _choice_problem(value, [option.const for option in field.one_of])
    return _choice_problem(value, field.enum)


def _number_problem(field: NumberSchema, value: ElicitValue) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "has to be a number"
    if field.type == "integer" and value != value // 1:
        return "has to be a whole number"
    if field.minimum is not None and value < field.minimum:
        return f"is less than {field.minimum}"
    if field.maximum is not None and value > field.maximum:
        return f"is more than {field.maximum}"
    return None


def _choices_problem(
    field: UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema, value: ElicitValue
) -> str | None:
    if isinstance(value, str) or not isinstance(value, tuple | list):
        return "has to be a list of texts"
    if isinstance(field, TitledMultiSelectEnumSchema):
        allowed = [option.const for option in field.items.any_of]
    else:
        allowed = list(field.items.enum)
    problems = (_choice_problem(each, allowed) for each in value)
    return next(filter(None, problems), None) or _size_problem(len(value), field.min_items, field.max_items, "choices")


def _choice_problem(value: ElicitValue, allowed: tuple[str, ...] | list[str]) -> str | None:
    return None if value in allowed else f"is none of: {', '.join(allowed)}"


def _size_problem(size: int, least: int | None, most: int | None, what: str) -> str | None:
    if least is not None and size < least:
        return f"has less than {least} {what}"
    if most is not None and size > most:
        return f"has more than {most} {what}"
    return None
