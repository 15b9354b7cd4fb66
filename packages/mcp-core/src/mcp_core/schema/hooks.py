"""Conversion of classes by the hooks of a `cattrs.Converter` of the application.

The annotations of a hook declare the JSON form of the class, from which the schema is compiled:

    @converter.register_structure_hook
    def load_money(value: str, _: type) -> Money: ...

    @converter.register_unstructure_hook
    def dump_money(money: Money) -> str: ...

This module does not import cattrs: an application that passes a converter has it.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Protocol, TypeAlias

import attrs

from mcp_core.field_methods import FieldValue

__all__ = ["ClassHooks", "Hook", "HookConverter", "class_hooks"]

Hook: TypeAlias = Callable[..., object]  # type: ignore[explicit-any]  # the parameters depend on the kind of hook
"""A function of the application that converts values of one class."""


class HookConverter(Protocol):
    """A converter with hooks: `cattrs.Converter` is one."""

    def get_structure_hook(self, type: type, /) -> Hook:
        """Return the function that loads values of a class."""

    def get_unstructure_hook(self, unstructure_as: type, /) -> Hook:
        """Return the function that dumps values of a class."""


@attrs.frozen(eq=False, repr=False)
class ClassHooks(FieldValue):
    """The hooks of one class, with the JSON form that their annotations declare."""

    load: Hook | None
    """Loads a value: it receives a value of the loaded form, and the class. `None` without a hook."""
    loaded: object
    """The annotation of the values that `load` receives."""
    dump: Hook | None
    """Dumps a value. `None` without a hook."""
    dumped: object
    """The annotation of the values that `dump` returns."""


def class_hooks(converter: HookConverter, kind: type) -> ClassHooks | None:
    """Return the hooks that the application registered for a class; `None` if it registered none.

    Args:
        converter: The converter of the application.
        kind: The class.

    Raises:
        ValueError: A hook has no annotation from which to compile a schema. The message says what to write.
    """
    load = _of_application(converter.get_structure_hook, kind)
    dump = _of_application(converter.get_unstructure_hook, kind)
    if load is None and dump is None:
        return None
    loaded = None if load is None else _annotation(load, kind, first=True)
    dumped = None if dump is None else _annotation(dump, kind, first=False)
    return ClassHooks(load, loaded, dump, dumped)


def _of_application(find: Callable[[type], Hook], kind: type) -> Hook | None:
    try:
        hook = find(kind)
    except Exception:  # noqa: BLE001  the converter has no hook: the class of the exception belongs to cattrs
        return None
    # The converter generates functions for attrs classes and dataclasses; they have no module. Its other own functions
    # are in its package.
    module = getattr(hook, "__module__", None)
    return hook if isinstance(module, str) and module.partition(".")[0] not in {"builtins", "cattrs"} else None


def _annotation(hook: Hook, kind: type, *, first: bool) -> object:
    try:
        hints = typing.get_type_hints(hook, include_extras=True)
    except Exception as error:  # an annotation can raise anything
        raise ValueError(f"the annotations of the hook {hook.__qualname__} cannot be evaluated ({error})") from error
    if not first and "return" in hints:
        found: object = hints["return"]
        return found
    names = list(hints)
    if first and names and names[0] != "return":
        return hints[names[0]]
    example = f"value: str, _: type) -> {kind.__name__}" if first else f"value: {kind.__name__}) -> str"
    raise ValueError(f"the hook of {kind.__qualname__} has no annotation of its JSON form; write 'def hook({example}'")
