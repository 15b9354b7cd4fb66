"""A function's signature as a JSON Schema, and arguments as values for its parameters.

Spec: server/tools#tool. Everything is decided when the function is registered; what cannot work fails there. Unknown
arguments are an error, since language models invent them, and would otherwise never learn that they do nothing.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Annotated, get_args, get_origin

import attrs

from mcp_core.http.header_parameters import X_MCP_HEADER, InvalidParamHeader, param_headers
from mcp_server.errors import RegistrationError
from mcp_server.schema.annotations import Function, Scope, Unresolvable, function_scope
from mcp_server.schema.compiler import Compiler
from mcp_server.schema.depends import Depends
from mcp_server.schema.docstring import Docstring, parse_docstring
from mcp_server.schema.records import MISSING, Member, load_members, plan
from mcp_server.schema.type_spec import InvalidArguments, Load, Mismatch, Param, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["InvalidArguments", "Param", "Parameters", "Problem", "label", "parameters"]


@attrs.frozen(kw_only=True)
class Parameters:
    """What a function takes."""

    schema: JsonObject
    """The JSON Schema of its arguments."""
    headers: tuple[ParamHeader, ...]
    """Those of them that HTTP headers repeat."""
    description: str | None
    """What the function does, by its docstring."""
    injected: Mapping[str, type | Depends]
    """The parameters that the caller fills in, with their class or what provides them. They are not in the schema."""
    _plan: dict[str, tuple[Load, bool, bool]]

    def bind(self, arguments: JsonObject) -> dict[str, object]:
        """The values for the parameters.

        Args:
            arguments: As they came from the peer.

        Returns:
            Keyword arguments for the function. A parameter that keeps its default is not in it.

        Raises:
            InvalidArguments: With everything that is wrong.
        """
        try:
            return load_members(self._plan, arguments, "an object with the arguments")
        except Mismatch as mismatch:
            raise InvalidArguments(mismatch.problems()) from None
        except RecursionError:
            raise InvalidArguments([Problem("", "arguments with less nesting", "too many levels")]) from None


def label(function: Function) -> str:
    """A function by its name, file and line."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    code = getattr(inner, "__code__", None) or getattr(getattr(type(inner), "__call__", None), "__code__", None)  # noqa: B004
    module = getattr(inner, "__module__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"function {f'{module}.' if module else ''}{name}{where}"


@attrs.frozen(kw_only=True)
class Signature:
    """The parameters of a function, sorted by who fills them in."""

    owner: str
    """The function, for errors."""
    members: tuple[Member, ...]
    """Those for the peer."""
    injected: Mapping[str, type | Depends]
    """Those for the caller."""
    said: Docstring
    """The docstring."""


def read_signature(function: Function, injected: Collection[type]) -> Signature:
    """The parameters of a function. Raises `RegistrationError`."""
    owner = label(function)
    scope = function_scope(function, {kind.__name__: kind for kind in injected})
    compiler = Compiler(owner)
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise RegistrationError(f"{owner}: its signature cannot be read ({error}); wrap it in a function") from error
    said = parse_docstring(inspect.getdoc(function) if inspect.isroutine(function) else None)
    members: list[Member] = []
    given: dict[str, type | Depends] = {}
    for name, parameter in signature.parameters.items():
        compiler.at(f"parameter {name!r}")
        _check_kind(compiler, parameter)
        kind = _dependency(parameter.annotation, scope) or _injected_class(parameter.annotation, scope, injected)
        if kind is not None:
            given[name] = kind
            continue
        default: object = MISSING if parameter.default is parameter.empty else parameter.default
        members.append(
            Member(
                name=name,
                hint=parameter.annotation,
                scope=scope,
                required=default is MISSING,
                default=default,
                description=said.members.get(name),
            )
        )
    return Signature(owner=owner, members=tuple(members), injected=given, said=said)


def _check_kind(compiler: Compiler, parameter: inspect.Parameter) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise compiler.failure(
            f"{star}{parameter.name} could be anything, and no schema can say so; name each parameter, or take one list or dict"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise compiler.failure("arguments are given by name; remove the '/' from the signature")
    if parameter.name in ("self", "cls") and parameter.annotation is parameter.empty:
        raise compiler.failure("this is a method of a class, not of an instance; register it as `instance.method`")


def _dependency(hint: object, scope: Scope) -> Depends | None:
    """What provides the value, if the annotation says so."""
    if isinstance(hint, str):
        try:
            hint = scope.evaluate(hint)
        except Unresolvable:
            return None  # told by the compiler
    # The first is the type, the others say more of it.
    said = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((each for each in said if isinstance(each, Depends)), None)


def _injected_class(hint: object, scope: Scope, injected: Collection[type]) -> type | None:
    """The class that the caller fills in, as it is, generic, annotated or optional."""
    if isinstance(hint, str):
        try:
            hint = scope.evaluate(hint)
        except Unresolvable:
            return None  # told by the compiler
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


def parameters(function: Function, *, injected: Collection[type] = ()) -> Parameters:
    """Reads the signature and the docstring of a function.

    Args:
        function: A function, a method of an instance, a partial application, or an object that can be called. A parameter
            without annotation takes any JSON value.
        injected: Classes whose values the caller provides, such as `Context`.

    Returns:
        What the function takes.

    Raises:
        RegistrationError: A parameter cannot be said in JSON, or an annotation cannot be understood.
    """
    signature = read_signature(function, injected)
    compiler = Compiler(signature.owner)
    schema, shapes = compiler.object_schema(signature.members, of="parameter {!r}")
    complete = compiler.finish(schema)
    return Parameters(
        headers=_headers(signature.owner, complete),
        schema=complete,
        description=signature.said.description or None,
        injected=signature.injected,
        plan=plan(shapes),
    )


def _headers(owner: str, schema: JsonObject) -> tuple[ParamHeader, ...]:
    """The parameters that HTTP headers repeat. Raises `RegistrationError` for a schema that clients would not accept."""
    _drop_nulls(schema)
    try:
        return param_headers(schema)
    except InvalidParamHeader as error:
        raise RegistrationError(
            f"{owner}: {error}. Only an int, a str or a bool can be repeated in a header, alone or in a class that is used once"
        ) from error


def _drop_nulls(schema: JsonObject) -> None:
    """Goes through `properties`, the way on which headers are allowed."""
    properties = schema.get("properties")
    for member in properties.values() if isinstance(properties, dict) else ():
        if isinstance(member, dict):
            if X_MCP_HEADER in member:
                _drop_null(member)
            _drop_nulls(member)


def _drop_null(member: JsonObject) -> None:
    """A parameter that is `None` by default need not tell that `null` is allowed: it is, for every default."""
    options = member.get("anyOf")
    if isinstance(options, list) and "default" in member and member["default"] is None:
        rest = [option for option in options if option != {"type": "null"}]
        if len(rest) == 1 and isinstance(rest[0], dict):
            del member["anyOf"], member["default"]
            member.update({name: value for name, value in rest[0].items() if name not in member})
