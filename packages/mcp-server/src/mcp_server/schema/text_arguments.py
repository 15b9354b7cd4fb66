"""The arguments of a prompt: strings on the wire, typed values for the function.

Spec: server/prompts#prompt. A user types the arguments, so the type of the parameter decides how a string is read:
numbers, booleans and null as in JSON, lists and objects as JSON, anything else as the string.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.json_text import read
from mcp_core.limits import SERVER_LIMITS
from mcp_core.schema.compiler import Compiler
from mcp_core.schema.records import load_members, plan
from mcp_core.schema.type_spec import Load, Mismatch, TypeSpec, describe
from mcp_core.types.prompts import PromptArgument
from mcp_server.errors import RegistrationError
from mcp_server.schema.signature import invalid_arguments, read_signature

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.schema.annotations import Function
    from mcp_core.schema.hooks import HookConverter
    from mcp_server.schema.depends import Depends
    from mcp_server.schema.signature import FieldBinding

__all__ = ["PromptParameters", "prompt_arguments"]

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,400}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS: Final[Mapping[str, JsonValue]] = {"true": True, "false": False, "null": None}
_NESTED: Final = frozenset({"array", "object"})


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptParameters(FieldValue):
    """The parameters of the function of a prompt."""

    arguments: tuple[PromptArgument, ...]
    """The arguments that the user provides."""
    description: str | None
    """The description of the prompt in the docstring of the function."""
    injected: Mapping[str, type | Depends]
    """The parameters that the caller provides."""
    _plan: dict[str, tuple[Load, bool, bool]]
    _binding: FieldBinding

    def bind(self, arguments: Mapping[str, str]) -> dict[str, object]:
        """Convert arguments to the values of the parameters.

        Args:
            arguments: The arguments as received from the client.

        Returns:
            Keyword arguments for the function, without the parameters that keep their defaults.

        Raises:
            InvalidArguments: The arguments do not match the parameters. The error lists up to 20 problems.
        """
        try:
            return self._binding.complete(load_members(self._plan, {**arguments}, "an object with the arguments"))
        except Mismatch as mismatch:
            raise invalid_arguments(mismatch) from None


def prompt_arguments(
    function: Function, *, injected: Collection[type] = (), converter: HookConverter | None = None
) -> PromptParameters:
    """Read the signature and the docstring of the function of a prompt.

    Args:
        function: The function.
        injected: Classes whose values the caller provides, such as `Context`.
        converter: The hooks of the author.

    Returns:
        The parameters of the function.

    Raises:
        RegistrationError: A parameter has no type, or an annotation cannot be evaluated.
    """
    signature = read_signature(function, injected)
    compiler = Compiler(signature.owner, error=RegistrationError, converter=converter)
    signature.check_types(compiler)
    specs: dict[str, tuple[TypeSpec, bool]] = {}
    arguments: list[PromptArgument] = []
    for member in signature.members:
        compiler.at(f"parameter {member.name!r}")
        spec = compiler.spec(member.hint, member.scope)
        specs[member.name] = (attrs.evolve(spec, load=_from_text(spec)), member.required)
        said, title = spec.schema.get("description"), spec.schema.get("title")
        arguments.append(
            PromptArgument(
                name=member.name,
                title=title if isinstance(title, str) else None,
                description=_described(spec, said if isinstance(said, str) else member.description),
                required=member.required,
            )
        )
    return PromptParameters(
        arguments=tuple(arguments),
        description=signature.said.description or None,
        injected=signature.injected,
        plan=plan(specs),
        binding=signature.binding,
    )


def _described(spec: TypeSpec, description: str | None) -> str | None:
    """Return the description of an argument, which states that it is JSON if a user could not know it otherwise."""
    if not spec.schema or not spec.kinds & _NESTED:
        return description
    return f"{description} (JSON: {spec.expected})" if description else f"JSON: {spec.expected}"


def _from_text(spec: TypeSpec) -> Load:
    """Return a function that reads a value of a type specification from a string."""

    def load(value: JsonValue) -> object:
        if type(value) is not str:
            raise Mismatch.of("a string, as for all arguments of a prompt", describe(value))
        other = _parse(value.strip())
        # Numbers and booleans first: a type that accepts strings and numbers would otherwise never receive a number.
        if other is not value and _kind_fits(other, spec):
            try:
                return spec.load(other)
            except Mismatch:
                if "string" not in spec.kinds:
                    raise
        nested = _nested(value, spec)
        if nested is not None and ("string" not in spec.kinds or _fits(nested, spec)):
            return spec.load(nested)
        if "string" in spec.kinds:
            return spec.load(value)
        raise Mismatch.of(spec.expected, describe(value))

    return load


def _nested(text: str, spec: TypeSpec) -> JsonValue:
    """Return the list or the object that a string contains as JSON; `None` if it contains neither."""
    if not spec.schema or not spec.kinds & _NESTED or not text.lstrip().startswith(("[", "{")):
        return None
    try:
        # The text is a part of a message, but only now its depth and its collections matter.
        value, excess, _ = read(text.encode(), SERVER_LIMITS)
    except ValueError:
        return None
    if excess is not None:
        raise Mismatch.of(spec.expected, excess.message)
    return value


def _fits(value: JsonValue, spec: TypeSpec) -> bool:
    try:
        spec.load(value)
    except Mismatch:
        return False
    return True


def _kind_fits(value: JsonValue, spec: TypeSpec) -> bool:
    if not spec.schema or isinstance(value, str):
        return False
    kinds = spec.kinds | spec.lenient
    if isinstance(value, bool):
        return "boolean" in kinds
    if value is None:
        return "null" in kinds
    return "integer" in kinds or "number" in kinds


def _parse(text: str) -> JsonValue:
    """Parse a string as JSON if it is a number, a boolean or null; else return it."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return text
