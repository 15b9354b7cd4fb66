"""Finds out what an annotation means that is written as text, as all are after `from __future__ import annotations`."""

from __future__ import annotations

import builtins
import inspect
import sys
from collections import ChainMap
from collections.abc import Callable
from typing import TYPE_CHECKING, ForwardRef, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

__all__ = ["Function", "Scope", "Unresolvable", "annotations_of", "class_scope", "function_scope"]


Function: TypeAlias = Callable[..., object]  # type: ignore[explicit-any]  # a signature of any kind
"""What is registered."""


class Unresolvable(Exception):
    """An annotation that cannot be evaluated. Internal: it becomes `RegistrationError`."""


@attrs.frozen
class Scope:
    """The names that an annotation may use."""

    outer: dict[str, object]
    """Those of its module."""
    inner: Mapping[str, object]
    """Those of the functions and classes around it."""

    def evaluate(self, hint: str | ForwardRef) -> object:
        """What an annotation means. Raises `Unresolvable`."""
        scope = self
        if isinstance(hint, ForwardRef):
            module = getattr(hint, "__forward_module__", None)
            if isinstance(module, str) and module in sys.modules:
                scope = Scope(vars(sys.modules[module]), self.inner)
            hint = hint.__forward_arg__
        try:
            # The text is part of the program, which could as well have it evaluated at once.
            meaning: object = eval(hint, scope.outer, ChainMap({}, dict(scope.inner)))  # noqa: S307  # see above
        except Exception as error:  # whatever an expression may raise
            raise Unresolvable(f"{hint!r} cannot be evaluated ({type(error).__name__}: {error})") from error
        return meaning


def _callers(module: dict[str, object]) -> dict[str, object]:
    """The local names of the functions of a module that are running now, those of the innermost first."""
    found: dict[str, object] = {}
    # There is no other way to a class that is local to the function that registers.
    frame: FrameType | None = sys._getframe()  # noqa: SLF001
    while frame is not None:
        if frame.f_globals is module and frame.f_locals is not module:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def function_scope(function: Function, known: Mapping[str, object]) -> Scope:
    """The names that the annotations of a function may use.

    Args:
        function: The function. What it wraps is looked at, not the wrapper.
        known: Names that are found even if the module has them for type checkers only.
    """
    while not inspect.isroutine(function):
        # An object that is called, or a partial application of something that is.
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
            continue  # assigned later, as in a class that is decorated
    return Scope(outer, {**{n: v for n, v in known.items() if n not in outer}, **_callers(outer), **closure})


def class_scope(kind: type) -> Scope:
    """The names that the annotations of a class may use."""
    outer: dict[str, object] = vars(sys.modules[kind.__module__]) if kind.__module__ in sys.modules else {}
    # A field may be called like its type, as in `date: date | None = None`: what is in the module goes first.
    own = {name: value for name, value in vars(kind).items() if name not in outer and not hasattr(builtins, name)}
    return Scope(outer, {**own, **_callers(outer), kind.__name__: kind})


def annotations_of(kind: type) -> dict[str, tuple[object, Scope]]:
    """The annotations of a class and its bases, with the scope of each."""
    found: dict[str, tuple[object, Scope]] = {}
    for base in reversed(kind.__mro__):
        if base is not object:
            scope = class_scope(base)
            found.update({name: (hint, scope) for name, hint in inspect.get_annotations(base).items()})
    return found
