"""The signature of a function as a JSON Schema, and the conversion of arguments to the values of its parameters.

Spec: server/tools#tool. Types are compiled when the function is registered, and unsupported types fail there. Unknown
arguments are an error: language models invent arguments, and would otherwise not learn that these have no effect.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, get_args, get_origin

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.http.header_parameters import X_MCP_HEADER, InvalidParamHeader, param_headers
from mcp_core.schema.annotations import Function, Scope, Unresolvable, function_scope
from mcp_core.schema.compiler import Compiler
from mcp_core.schema.docstring import Docstring, parse_docstring
from mcp_core.schema.metadata import NotUnderstood, field_settings, is_field
from mcp_core.schema.records import MISSING, Member, load_members, plan
from mcp_core.schema.type_spec import InvalidArguments, Load, Mismatch, Param, Problem
from mcp_server.errors import RegistrationError
from mcp_server.schema.depends import Depends

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.schema.hooks import HookConverter

__all__ = [
    "InvalidArguments",
    "Param",
    "Parameters",
    "Problem",
    "invalid_arguments",
    "label",
    "log_causes",
    "parameters",
]

_log: Final = logging.getLogger("mcp_server")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FieldBinding(FieldValue):
    """The names and defaults of parameters that `pydantic.Field` sets, which Python does not know."""

    aliases: Mapping[str, str]
    """The parameters by the names of their arguments, where these differ."""
    defaults: Mapping[str, Callable[[], object]]
    """By parameter: the function that creates the default."""

    def complete(self, values: dict[str, object]) -> dict[str, object]:
        """Return the values by parameter, with these defaults."""
        if not self.aliases and not self.defaults:
            return values
        named = {self.aliases.get(name, name): value for name, value in values.items()}
        return {**{name: make() for name, make in self.defaults.items() if name not in named}, **named}


_CONTEXT_NAMES: Final = frozenset({"context", "ctx"})
"""Usual names of a `Context` parameter, which only its type identifies."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Parameters(FieldValue):
    """The parameters of a function."""

    schema: JsonObject
    """The JSON Schema of the arguments."""
    headers: tuple[ParamHeader, ...]
    """The header parameters."""
    description: str | None
    """The description of the function in its docstring."""
    injected: Mapping[str, type | Depends]
    """The parameters that the caller provides, with their classes or dependencies. They are not in the schema."""
    _plan: dict[str, tuple[Load, bool, bool]]
    _binding: FieldBinding

    def bind(self, arguments: JsonObject) -> dict[str, object]:
        """Convert arguments to the values of the parameters.

        Args:
            arguments: The arguments as received from the client.

        Returns:
            Keyword arguments for the function, without the parameters that keep their defaults.

        Raises:
            InvalidArguments: The arguments do not match the schema. The error lists up to 20 problems.
        """
        try:
            return self._binding.complete(load_members(self._plan, arguments, "an object with the arguments"))
        except Mismatch as mismatch:
            raise invalid_arguments(mismatch) from None
        except RecursionError:
            raise InvalidArguments([Problem("", "arguments with less nesting", "too many levels")]) from None


def invalid_arguments(mismatch: Mismatch) -> InvalidArguments:
    """Return the error for arguments that do not match. Log what its message does not say to the client."""
    invalid = InvalidArguments(mismatch.problems())
    log_causes(invalid)
    return invalid


def log_causes(invalid: InvalidArguments) -> None:
    """Log the exceptions of constructors and validators whose messages are not for the client."""
    for problem in invalid.problems:
        cause = getattr(problem, "cause", None)
        if cause is not None:
            _log.warning("a constructor or a validator raised %s", type(cause).__qualname__, exc_info=cause)


def label(function: Function) -> str:
    """Return the name, file and line of a function."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    code = getattr(inner, "__code__", None) or getattr(getattr(type(inner), "__call__", None), "__code__", None)  # noqa: B004
    module = getattr(inner, "__module__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"function {f'{module}.' if module else ''}{name}{where}"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Signature(FieldValue):
    """The parameters of a function, by who provides their values."""

    owner: str
    """The name, file and line of the function, for errors."""
    members: tuple[Member, ...]
    """The parameters that the client provides."""
    injected: Mapping[str, type | Depends]
    """The parameters that the caller provides."""
    said: Docstring
    """The parsed docstring."""
    binding: FieldBinding
    """What changes the arguments before the function is called."""

    def check_types(self, compiler: Compiler) -> None:
        """Raise `RegistrationError` for a parameter without a type."""
        for member in self.members:
            if member.hint is MISSING:
                compiler.at(f"parameter {member.name!r}")
                raise compiler.failure(
                    f"it has no type; write one, such as '{member.name}: str', or JsonValue for any value"
                )


def read_signature(function: Function, injected: Collection[type]) -> Signature:
    """Return the signature of a function. Raises `RegistrationError`."""
    owner = label(function)
    scope = function_scope(function, {kind.__name__: kind for kind in injected})
    compiler = Compiler(owner, error=RegistrationError)
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise RegistrationError(f"{owner}: cannot read the signature ({error}); wrap it in a function") from error
    said = parse_docstring(inspect.getdoc(function) if inspect.isroutine(function) else None)
    members: list[Member] = []
    aliases: dict[str, str] = {}
    defaults: dict[str, Callable[[], object]] = {}
    given: dict[str, type | Depends] = {}
    for name, parameter in signature.parameters.items():
        compiler.at(f"parameter {name!r}")
        _check_kind(compiler, parameter)
        kind = _dependency(parameter.annotation, scope) or _injected_class(parameter.annotation, scope, injected)
        if kind is not None:
            given[name] = kind
            continue
        try:
            member, make_default = _member(name, parameter, scope)
        except NotUnderstood as error:
            raise compiler.failure(str(error)) from error
        if make_default is not None:
            defaults[name] = make_default
        if member.name != name:
            aliases[member.name] = name
        members.append(attrs.evolve(member, description=said.members.get(name)))
    binding = FieldBinding(aliases=aliases, defaults=defaults)
    return Signature(owner=owner, members=tuple(members), injected=given, said=said, binding=binding)


def _member(name: str, parameter: inspect.Parameter, scope: Scope) -> tuple[Member, Callable[[], object] | None]:
    """Return the member of a parameter, and the function that creates its default if Python does not know it."""
    default: object = MISSING if parameter.default is parameter.empty else parameter.default
    hint: object = parameter.annotation
    if hint is parameter.empty and name in _CONTEXT_NAMES:
        raise NotUnderstood(
            f"it has no type; write '{name}: Context' (or SyncContext in a plain function), or the type of the argument"
        )
    member = Member(name=name, hint=hint, scope=scope, required=default is MISSING, default=default)
    if isinstance(hint, str):
        try:
            hint = scope.evaluate(hint)
        except Unresolvable:
            return member, None  # the compiler raises the error
    base, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    fields = [mark for mark in [*marks, default] if is_field(mark)]
    if not fields:
        return member, None
    said = [field_settings(field, missing=MISSING) for field in fields]
    metadata = (*(mark for mark in marks if not is_field(mark)), *(each.param for each in said))
    make: Callable[[], object] | None = None
    if is_field(default):
        default = MISSING
    for each in said:
        if callable(each.make_default):
            make = each.make_default
        elif each.default is not MISSING:
            default, make = each.default, partial(copy.deepcopy, each.default)
    alias = next((each.alias for each in said if each.alias is not None), name)
    annotated: object = Annotated[(base, *metadata)]
    required = default is MISSING and make is None
    return attrs.evolve(member, name=alias, hint=annotated, required=required, default=default), make


def _check_kind(compiler: Compiler, parameter: inspect.Parameter) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise compiler.failure(
            f"{star}{parameter.name} has no schema; write a parameter for each argument, or one list or dict"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise compiler.failure("arguments are passed by name; remove the '/' from the signature")
    if parameter.name in ("self", "cls") and parameter.annotation is parameter.empty:
        raise compiler.failure("this is a method of a class, not of an instance; register it as `instance.method`")


def _dependency(hint: object, scope: Scope) -> Depends | None:
    """Return the dependency in an annotation, or `None`."""
    if isinstance(hint, str):
        try:
            hint = scope.evaluate(hint)
        except Unresolvable:
            return None  # the compiler raises the error
    # The first argument is the type, the others are metadata.
    said = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((each for each in said if isinstance(each, Depends)), None)


def _injected_class(hint: object, scope: Scope, injected: Collection[type]) -> type | None:
    """Return the class that the caller provides: plain, generic, annotated or optional."""
    if isinstance(hint, str):
        try:
            hint = scope.evaluate(hint)
        except Unresolvable:
            return None  # the compiler raises the error
    origin = get_origin(hint)
    if isinstance(hint, type) and hint in injected:
        return hint
    if isinstance(origin, type) and origin in injected:
        return origin
    if origin is Annotated or type(None) in get_args(hint):
        found = (
            _injected_class(argument, scope, injected) for argument in get_args(hint) if argument is not type(None)
        )
        return next((kind for kind in found if kind is not None), None)
    return None


def parameters(
    function: Function, *, injected: Collection[type] = (), converter: HookConverter | None = None
) -> Parameters:
    """Read the signature and the docstring of a function.

    Args:
        function: A function, a method of an instance, a partial application, or a callable object.
        injected: Classes whose values the caller provides, such as `Context`.
        converter: The hooks of the author.

    Returns:
        The parameters of the function.

    Raises:
        RegistrationError: A parameter has no type or no JSON representation, its default does not match its type, or an
            annotation cannot be evaluated.
    """
    signature = read_signature(function, injected)
    compiler = Compiler(signature.owner, error=RegistrationError, converter=converter)
    signature.check_types(compiler)
    schema, specs = compiler.object_schema(signature.members, of="parameter {!r}")
    complete = compiler.finish(schema)
    return Parameters(
        headers=_headers(signature.owner, complete),
        schema=complete,
        description=signature.said.description or None,
        injected=signature.injected,
        plan=plan(specs),
        binding=signature.binding,
    )


def _headers(owner: str, schema: JsonObject) -> tuple[ParamHeader, ...]:
    """Return the header parameters. Raises `RegistrationError` for a schema that clients would not accept."""
    _drop_nulls(schema)
    try:
        return param_headers(schema)
    except InvalidParamHeader as error:
        raise RegistrationError(
            f"{owner}: {error}. Only an int, a str or a bool can be a header parameter, "
            "alone or in a class that is used once"
        ) from error


def _drop_nulls(schema: JsonObject) -> None:
    """Visit the members of nested `properties`, where header parameters are allowed."""
    properties = schema.get("properties")
    for member in properties.values() if isinstance(properties, dict) else ():
        if isinstance(member, dict):
            if X_MCP_HEADER in member:
                _drop_null(member)
            _drop_nulls(member)


def _drop_null(member: JsonObject) -> None:
    """Remove `null` from the schema of a parameter with the default `None`: `null` is accepted for every default."""
    options = member.get("anyOf")
    if isinstance(options, list) and "default" in member and member["default"] is None:
        rest = [option for option in options if option != {"type": "null"}]
        if len(rest) == 1 and isinstance(rest[0], dict):
            del member["anyOf"], member["default"]
            member.update({name: value for name, value in rest[0].items() if name not in member})
