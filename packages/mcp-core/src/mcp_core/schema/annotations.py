"""Evaluation of annotations that are written as text, as all are after `from __future__ import annotations`."""

from __future__ import annotations

import builtins
import inspect
import sys
from collections import ChainMap
from collections.abc import Callable
from typing import TYPE_CHECKING, ForwardRef, Generic, Protocol, TypeAlias, TypeVar, get_args, get_origin

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

__all__ = ["Function", "Scope", "Unresolvable", "annotations_of", "class_scope", "function_scope", "substitute"]


Function: TypeAlias = Callable[..., object]  # type: ignore[explicit-any]  # a signature of any kind
"""A function to register."""


class Unresolvable(Exception):
    """An annotation cannot be evaluated. Internal: it becomes an error that names the place."""


@attrs.frozen(eq=False, repr=False)
class Scope(FieldValue):
    """The names that are visible to an annotation."""

    outer: dict[str, object]
    """The names of its module."""
    inner: Mapping[str, object]
    """The names of the enclosing functions and classes."""

    def evaluate(self, hint: str | ForwardRef) -> object:
        """Evaluate an annotation. Raises `Unresolvable`."""
        scope = self
        if isinstance(hint, ForwardRef):
            module = getattr(hint, "__forward_module__", None)
            if isinstance(module, str) and module in sys.modules:
                scope = Scope(vars(sys.modules[module]), self.inner)
            hint = hint.__forward_arg__
        try:
            # Safe: the text is part of the program, not input.
            meaning: object = eval(hint, scope.outer, ChainMap({}, dict(scope.inner)))  # noqa: S307  # not input
        except Exception as error:  # an expression can raise anything
            raise Unresolvable(f"{hint!r} cannot be evaluated ({type(error).__name__}: {error})") from error
        return meaning


def _callers(module: dict[str, object]) -> dict[str, object]:
    """Return the local names of the running functions of a module. Names of inner calls take precedence."""
    found: dict[str, object] = {}
    # The only way to find a class that is local to the function that registers.
    frame: FrameType | None = sys._getframe()  # noqa: SLF001
    while frame is not None:
        if frame.f_globals is module and frame.f_locals is not module:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def function_scope(function: Function, known: Mapping[str, object]) -> Scope:
    """Return the names that are visible to the annotations of a function.

    Args:
        function: The function. If it wraps another one, the names of the wrapped function are returned.
        known: Additional names, which a module may import only for type checkers.
    """
    while not inspect.isroutine(function):
        # A callable object, or a partial application.
        inner = getattr(function, "func", None)
        function = inner if callable(inner) else type(function).__call__
    plain = inspect.unwrap(function)
    plain = getattr(plain, "__func__", plain)
    outer: dict[str, object] = getattr(plain, "__globals__", {})
    names = getattr(getattr(plain, "__code__", None), "co_freevars", ())
    cells = getattr(plain, "__closure__", None) or ()
    closure: dict[str, object] = {}
    for name, cell in zip(names, cells, strict=False):
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            continue  # assigned later, for example in the body of a decorated class
    return Scope(
        outer,
        {**{n: v for n, v in known.items() if n not in outer}, **_callers(outer), **_type_parameters(plain), **closure},
    )


def class_scope(kind: type) -> Scope:
    """Return the names that are visible to the annotations of a class."""
    outer: dict[str, object] = vars(sys.modules[kind.__module__]) if kind.__module__ in sys.modules else {}
    # A field can have the name of its type, as in `date: date | None = None`. Names of the module take precedence.
    own = {name: value for name, value in vars(kind).items() if name not in outer and not hasattr(builtins, name)}
    return Scope(outer, {**own, **_callers(outer), **_type_parameters(kind), kind.__name__: kind})


def _type_parameters(owner: object) -> dict[str, object]:
    """Return the type parameters of `class Box[T]` or `def f[T]()`, by name (PEP 695)."""
    parameters: tuple[TypeVar, ...] = getattr(owner, "__type_params__", ())
    return {parameter.__name__: parameter for parameter in parameters}


def annotations_of(kind: type) -> dict[str, tuple[object, Scope]]:
    """Return the annotations of a class and its bases, each with its scope.

    The type variables of a generic base are replaced with its arguments, as in `class Numbers(Box[int])`.
    """
    found: dict[str, tuple[object, Scope]] = {}
    arguments: dict[type, dict[object, object]] = {}
    _collect_arguments(kind, {}, arguments)
    for base in reversed(kind.__mro__):
        if base is not object:
            scope, known = class_scope(base), arguments.get(base)
            for name, hint in inspect.get_annotations(base).items():
                found[name] = (substitute(hint, scope, known) if known else hint, scope)
    return found


def _collect_arguments(kind: type, known: Mapping[object, object], arguments: dict[type, dict[object, object]]) -> None:
    """Collect the arguments of the generic bases of a class, by base and type variable.

    Args:
        kind: The class.
        known: Its own arguments, by type variable.
        arguments: Receives the arguments.
    """
    for base in getattr(kind, "__orig_bases__", kind.__bases__):
        origin = get_origin(base) or base
        if not isinstance(origin, type) or origin in (Generic, Protocol):
            continue
        own = {
            variable: known.get(argument, argument) if isinstance(argument, TypeVar) else argument
            for variable, argument in zip(getattr(origin, "__parameters__", ()), get_args(base), strict=False)
        }
        if own:
            arguments[origin] = own
        _collect_arguments(origin, own, arguments)


def substitute(hint: object, scope: Scope, variables: Mapping[object, object]) -> object:
    """Return an annotation with its type variables replaced. Raises `Unresolvable`.

    Args:
        hint: The annotation.
        scope: The names that are visible to it.
        variables: The replacements, by type variable.
    """
    if isinstance(hint, str | ForwardRef):
        hint = scope.evaluate(hint)
    if isinstance(hint, TypeVar):
        return variables.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type):
        return hint
    replaced: object = hint[tuple(variables.get(parameter, parameter) for parameter in parameters)]  # type: ignore[index]  # a generic alias
    return replaced
