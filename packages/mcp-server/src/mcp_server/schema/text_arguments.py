"""The arguments of a prompt: texts on the wire, values for the function.

Spec: server/prompts#prompt. A user types them, so what a text means follows from the type of the parameter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.types.prompts import PromptArgument
from mcp_server.schema.compiler import Compiler
from mcp_server.schema.records import load_members, plan
from mcp_server.schema.signature import read_signature
from mcp_server.schema.type_spec import InvalidArguments, Load, Mismatch, Shape, describe

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_server.schema.annotations import Function
    from mcp_server.schema.depends import Depends

__all__ = ["PromptParameters", "prompt_arguments"]

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,400}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS: Final[Mapping[str, JsonValue]] = {"true": True, "false": False, "null": None}
_SINGLE: Final = frozenset({"string", "integer", "number", "boolean", "null"})


@attrs.frozen(kw_only=True)
class PromptParameters:
    """What the function of a prompt takes."""

    arguments: tuple[PromptArgument, ...]
    """What the user is asked for."""
    description: str | None
    """What the prompt is for, by the docstring of the function."""
    injected: Mapping[str, type | Depends]
    """The parameters that the caller fills in."""
    _plan: dict[str, tuple[Load, bool, bool]]

    def bind(self, arguments: Mapping[str, str]) -> dict[str, object]:
        """The values for the parameters.

        Args:
            arguments: As they came from the peer.

        Returns:
            Keyword arguments for the function. A parameter that keeps its default is not in it.

        Raises:
            InvalidArguments: With everything that is wrong.
        """
        try:
            return load_members(self._plan, {**arguments}, "an object with the arguments")
        except Mismatch as mismatch:
            raise InvalidArguments(mismatch.problems()) from None


def prompt_arguments(function: Function, *, injected: Collection[type] = ()) -> PromptParameters:
    """Reads the signature and the docstring of the function of a prompt.

    Args:
        function: The function. A parameter without annotation takes a text.
        injected: Classes whose values the caller provides, such as `Context`.

    Returns:
        What the prompt takes.

    Raises:
        RegistrationError: A text cannot stand for a parameter, or an annotation cannot be understood.
    """
    signature = read_signature(function, injected)
    compiler = Compiler(signature.owner)
    shapes: dict[str, tuple[Shape, bool]] = {}
    arguments: list[PromptArgument] = []
    for member in signature.members:
        compiler.at(f"parameter {member.name!r}")
        shape = compiler.shape(member.hint, member.scope)
        if shape.schema and not shape.kinds <= _SINGLE:
            raise compiler.failure(f"the arguments of a prompt are texts, which cannot stand for {shape.expected}")
        shapes[member.name] = (attrs.evolve(shape, load=_from_text(shape)), member.required)
        said, title = shape.schema.get("description"), shape.schema.get("title")
        arguments.append(
            PromptArgument(
                name=member.name,
                title=title if isinstance(title, str) else None,
                description=said if isinstance(said, str) else member.description,
                required=member.required,
            )
        )
    return PromptParameters(
        arguments=tuple(arguments),
        description=signature.said.description or None,
        injected=signature.injected,
        plan=plan(shapes),
    )


def _from_text(shape: Shape) -> Load:
    """Reads a value of a shape from a text."""

    def load(value: JsonValue) -> object:
        if type(value) is not str:
            raise Mismatch.of("a string, as every argument of a prompt", describe(value))
        other = _parse(value.strip())
        # A number or a truth value goes first: a type that takes texts and numbers would otherwise never see a number.
        if other is not value and _kind_fits(other, shape):
            try:
                return shape.load(other)
            except Mismatch:
                if "string" not in shape.kinds:
                    raise
        if "string" in shape.kinds:
            return shape.load(value)
        raise Mismatch.of(shape.expected, describe(value))

    return load


def _kind_fits(value: JsonValue, shape: Shape) -> bool:
    if not shape.schema or isinstance(value, str):
        return False
    kinds = shape.kinds | shape.lenient
    if isinstance(value, bool):
        return "boolean" in kinds
    if value is None:
        return "null" in kinds
    return "integer" in kinds or "number" in kinds


def _parse(text: str) -> JsonValue:
    """What JSON would make of a text, where it is a number, a truth value or null."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return text
