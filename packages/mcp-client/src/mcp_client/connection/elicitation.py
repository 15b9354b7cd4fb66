"""Elicitation results of the application: their form on the wire, and their validation against the requested schema.

Spec: client/elicitation#requested-schema, client/elicitation#response-actions
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mcp_core.errors import LocalProtocolError
from mcp_core.features.elicitation import ElicitationAccepted, ElicitationCancelled, ElicitationDeclined
from mcp_core.types import (
    BooleanSchema,
    ElicitRequestURLParams,
    ElicitResult,
    NumberSchema,
    StringSchema,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
)

if TYPE_CHECKING:
    from mcp_core.types import ElicitRequestFormParams, ElicitValue, PrimitiveSchemaDefinition

__all__ = ["elicit_result", "field_problem", "why_unfit"]

_EXPECTED: Final = "ElicitationAccepted, ElicitationDeclined, ElicitationCancelled or a mapping"


def elicit_result(answer: object) -> ElicitResult:
    """Return the result to send for the return value of an elicitation handler.

    Args:
        answer: The return value. A mapping is the content of an accepted form. The value of `ElicitationAccepted` can be
            an instance of a class with a member for each field; a single value is the field `value`, as in the form that
            a server makes of a type that is not a class; `None` is a page that the user agreed to visit.

    Raises:
        TypeError: The return value has another type.
        LocalProtocolError: JSON cannot represent the value.
    """
    match answer:
        case ElicitResult():
            return answer
        case ElicitationDeclined():
            return ElicitResult(action="decline")
        case ElicitationCancelled():
            return ElicitResult(action="cancel")
        case ElicitationAccepted(None):
            return ElicitResult(action="accept")
        case ElicitationAccepted(value):
            return ElicitResult(action="accept", content=_content(value))
        case Mapping():
            return ElicitResult(action="accept", content=_content(answer))
    raise TypeError(f"an elicitation handler must return {_EXPECTED}, not {type(answer).__name__}")


def _content(value: object) -> dict[str, ElicitValue]:
    from mcp_core.schema.annotations import Scope  # lazy: most clients do not have forms
    from mcp_core.schema.compiler import Compiler  # lazy: likewise
    from mcp_core.schema.type_spec import Mismatch  # lazy: likewise

    try:
        written = Compiler("the elicitation result", output=True).spec(object, Scope({}, {})).dump(value)
    except Mismatch as mismatch:
        raise LocalProtocolError(
            f"the elicitation result is invalid: {mismatch.problems()[0]}", anchor="client/elicitation"
        ) from None
    if not isinstance(written, dict):
        written = {"value": written}
    # An optional field without a value is absent. The fields are checked against the requested schema.
    found = {name: tuple(item) if isinstance(item, list) else item for name, item in written.items()}
    return {name: item for name, item in found.items() if item is not None}  # type: ignore[misc]  # see above


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
        problem = field_problem(field, content[name]) if name in content else None
        if problem is not None:
            return f"{name} {problem}"
    return None


def field_problem(field: PrimitiveSchemaDefinition, value: ElicitValue) -> str | None:
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
