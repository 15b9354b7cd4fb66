"""Methods of data classes that work on their fields: comparison, hash and text.

attrs generates and compiles these methods for each class when its module is imported. For some hundred classes, most of
which are never compared or printed, that took a third of the time of the import. The methods here are the same ones for
all classes, a little slower per call.

    @attrs.frozen(kw_only=True, eq=False, repr=False)
    class Point(FieldValue): ...
"""

from __future__ import annotations

from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FieldRepr", "FieldValue"]

_values: Final[dict[type, Callable[[object], object]]] = {}
"""By class: the function that returns the values of the fields that count in comparisons."""


class FieldRepr:
    """A class of attrs whose text shows its fields, except for those with `repr=False`."""

    __slots__ = ()

    @recursive_repr("...")
    def __repr__(self) -> str:
        shown = []
        for field in _fields(type(self)):
            if field.repr is not False:
                value = getattr(self, field.name, attrs.NOTHING)
                shown.append(f"{field.name}={field.repr(value) if callable(field.repr) else repr(value)}")
        return f"{type(self).__qualname__.rpartition('>.')[2]}({', '.join(shown)})"


class FieldValue(FieldRepr):
    """A frozen class of attrs whose instances are equal if they have the same class and equal fields."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        values = _values.get(type(self)) or _values_of(type(self))
        return values(self) == values(other)

    def __hash__(self) -> int:
        values = _values.get(type(self)) or _values_of(type(self))
        return hash((type(self), values(self)))


def _values_of(cls: type) -> Callable[[object], object]:
    """Return the function that returns the values of the fields of an instance that count in comparisons."""
    names = [field.name for field in _fields(cls) if field.eq]
    found: Callable[[object], object] = attrgetter(*names) if names else _no_values
    _values[cls] = found
    return found


def _fields(cls: type) -> tuple[attrs.Attribute[object], ...]:
    """Return the fields of a class of attrs."""
    fields: tuple[attrs.Attribute[object], ...] = attrs.fields(cls)
    return fields


def _no_values(_: object) -> object:
    return ()
