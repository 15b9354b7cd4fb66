"""Validation of messages against the schema of their revision.

The schemas are generated from the types of `mcp_core`, and the tests of `mcp_core` prove that they equal those of the
specification. The skills extension publishes no schema; its types are those of its specification. The engine plays no
part: what it accepts or sends does not show what is right.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, get_args

from mcp_core.json_schema import schema_of, schemas
from mcp_core.methods import methods, notifications
from mcp_core.types import skills
from mcp_core.types.base import Open

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["flaw", "flaw_of_params", "flaw_of_result", "members_of_params"]

_UNKNOWN: Final = "UnknownContent"
"""The definition of content of a type that the revision does not have."""
_EMPTY: Final[JsonObject] = {}


@cache
def _validator(name: str, revision: Revision) -> Draft202012Validator | None:
    """Return a validator of one definition; `None` when the revision does not have it."""
    from jsonschema_rs import Draft202012Validator  # lazy: 20 ms, and reading a catalogue needs none

    document = schemas(revision)
    core = document["$defs"]
    definitions = {**(core if isinstance(core, dict) else {}), **_skills_definitions(revision)}
    if name not in definitions:
        return None
    strict = {**document, "$defs": {**definitions, _UNKNOWN: _unknown(definitions)}, "$ref": f"#/$defs/{name}"}
    return Draft202012Validator(strict)


def _skills_definitions(revision: Revision) -> JsonObject:
    """Return the definitions of the skills extension that the revision has."""
    classes = [each for each in vars(skills).values() if isinstance(each, type) and issubclass(each, Open)]
    own = [each for each in classes if each.__name__ in skills.__all__ and revision in each.__wire__.alive]
    return {each.__name__: schema_of(each, revision) for each in own}


def _unknown(definitions: JsonObject) -> JsonObject:
    """Return the definition of content of another type, which content of a known type does not match."""
    known: list[JsonValue] = []
    for definition in definitions.values():
        properties = definition.get("properties") if isinstance(definition, dict) else None
        kind = properties.get("type") if isinstance(properties, dict) else None
        if isinstance(kind, dict) and isinstance(kind.get("const"), str):
            known.append(kind["const"])
    return {"type": "object", "properties": {"type": {"type": "string", "not": {"enum": known}}}, "required": ["type"]}


def flaw(value: JsonValue, definition: str, revision: Revision) -> str | None:
    """Return what is wrong with a value.

    Args:
        value: The value.
        definition: Name of its type in the schema, for instance `Tool`.
        revision: Revision of the schema.

    Returns:
        The place and the error; `None` when the value is valid, or the revision does not have the definition.
    """
    validator = _validator(definition, revision)
    if validator is None:
        return None
    # The first by its place, so that two runs report the same error.
    found = sorted((list(map(str, error.instance_path)), error.message) for error in validator.iter_errors(value))
    if not found:
        return None
    place, message = found[0]
    return f"{definition}{''.join(f'.{each}' for each in place)}: {message[:300]}"


def flaw_of_params(method: str, params: JsonValue, revision: Revision) -> str | None:
    """Return what is wrong with the params of a request or notification; `None` also for unknown methods."""
    row = methods(revision).get(method) or notifications(revision).get(method)
    if row is None or row.params is None:
        return None
    return _flaw_of_either(_EMPTY if params is None else params, row.params, revision)


def members_of_params(method: str, revision: Revision) -> frozenset[str]:
    """Return the members of the params of a request or notification that a revision defines; none for unknown methods."""
    row = methods(revision).get(method) or notifications(revision).get(method)
    definitions = schemas(revision)["$defs"]
    if row is None or not isinstance(definitions, dict):
        return frozenset()
    found: set[str] = set()
    for name in _names(row.params):
        definition = definitions.get(name)
        properties = definition.get("properties") if isinstance(definition, dict) else None
        found.update(properties if isinstance(properties, dict) else ())
    return frozenset(found)


def flaw_of_result(method: str, result: JsonValue, revision: Revision) -> str | None:
    """Return what is wrong with a result. An `InputRequiredResult` is checked as such; a task is not checked."""
    row = methods(revision).get(method)
    if row is None or row.result is None:
        return None
    kind = result.get("resultType") if isinstance(result, dict) and revision.result_type else None
    if kind == "input_required":
        return flaw(result, "InputRequiredResult", revision)
    if kind not in (None, "complete"):
        return None
    return _flaw_of_either(result, row.result, revision)


def _flaw_of_either(value: JsonValue, kind: type[object], revision: Revision) -> str | None:
    """Return what is wrong with a value of a type, or of a union of types; `None` when one of them matches."""
    flaws = [flaw(value, name, revision) for name in _names(kind) if _validator(name, revision) is not None]
    return flaws[-1] if flaws and None not in flaws else None


def _names(kind: type[object]) -> list[str]:
    """Return the name of a type, or those of the members of a union."""
    return [each.__name__ for each in get_args(kind) or (kind,)]
