"""The pages of the reference about public modules: directives for autodoc, one for each name in `__all__`.

A name that several public modules export is described in one of them: the one that defines it, or else the nearest to
the definition. The others link to it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from sphinx.pycode import ModuleAnalyzer

from checks.exports import PUBLIC
from mcp_core.field_methods import FieldRepr, FieldValue

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["definition", "descriptions", "exported", "module_page", "public_modules"]


_COMMON_BASES: Final = frozenset({object, FieldRepr, FieldValue})
"""Bases that say nothing about a class."""
_LONGEST_VALUE: Final = 60
"""The greatest length of the value of a constant that is shown, in characters."""


def public_modules() -> list[str]:
    """Return the names of all public modules, sorted."""
    return sorted(module for modules in PUBLIC.values() for module in modules)


def exported(module: str) -> list[str]:
    """Return the names in `__all__` without a leading underscore."""
    names: list[str] = getattr(importlib.import_module(module), "__all__", [])
    return [name for name in names if not name.startswith("_")]


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(Path(inspect.getfile(importlib.import_module(module))).read_text())


@cache
def _imports(module: str) -> Mapping[str, tuple[str, str]]:
    """Return the origins of imported names: the module, and the name in it."""
    found: dict[str, tuple[str, str]] = {}
    # The imports of an extra are in a `with` block.
    inside = [each for node in _tree(module).body if isinstance(node, ast.With) for each in node.body]
    for node in [*_tree(module).body, *inside]:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PUBLIC:
            found.update({alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names})
    return found


@cache
def _definitions(module: str) -> Mapping[str, ast.stmt]:
    """Return the statements that define the names of a module."""
    found: dict[str, ast.stmt] = {}
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, node)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            found.update({target.id: node for target in targets if isinstance(target, ast.Name)})
    return found


def definition(module: str, name: str) -> str:
    """Return the dotted name by which an exported name is defined."""
    while (origin := _imports(module).get(name)) is not None and origin[0] != module:
        module, name = origin
    return f"{module}.{name}"


@cache
def descriptions() -> Mapping[str, str]:
    """Return the name by which the reference describes each definition; both are dotted."""
    found: dict[str, str] = {}
    for module in public_modules():
        for name in exported(module):
            defined = definition(module, name)
            found[defined] = min(
                found.get(defined, f"{module}.{name}"), f"{module}.{name}", key=partial(_distance, defined)
            )
    return found


def _distance(defined: str, public: str) -> tuple[int, int]:
    """Return how far a name is from its definition: the fewest common parts are the farthest; then the longer name."""
    pairs = zip(defined.split("."), public.split("."), strict=False)
    return -sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)), len(public)


def module_page(module: str) -> str:
    """Return the page of a module, in Markdown."""
    here: list[tuple[str, int, str]] = []
    elsewhere: dict[str, list[str]] = {}
    for name in exported(module):
        defined = definition(module, name)
        described, _, original = descriptions()[defined].rpartition(".")
        source = defined.rpartition(".")[0]
        if isinstance(getattr(importlib.import_module(module), name), ModuleType):
            elsewhere.setdefault(f"{module}.{name}", [])
        elif described != module:
            elsewhere.setdefault(described, []).append(original)
        else:
            here.append((source, _line(defined), name))
    lines = [f"# {module}", "", "```{eval-rst}", f".. automodule:: {module}", "   :no-members:", ""]
    for source, names in sorted(elsewhere.items()):
        links = ", ".join(f":py:obj:`~{source}.{name}`" for name in sorted(names))
        lines += [f"From :py:mod:`{source}`{': ' if links else ''}{links}.", ""]
    lines += ["```", ""]
    for _, _, name in sorted(here):
        lines += [f"## {name}", "", "```{eval-rst}", *_directive(module, name), "```", ""]
    return "\n".join(lines)


def _line(defined: str) -> int:
    module, _, name = defined.rpartition(".")
    node = _definitions(module).get(name)
    return 0 if node is None else node.lineno


def _directive(module: str, name: str) -> list[str]:
    value: object = getattr(importlib.import_module(module), name)
    source, _, original = definition(module, name).rpartition(".")
    # An alias of a class is data; the result of a decorator is a function.
    if isinstance(_definitions(source).get(original), ast.AnnAssign | ast.Assign) and not inspect.isfunction(value):
        # Autodoc finds the docstring of a constant only in the module that defines it.
        docstrings = ModuleAnalyzer.for_module(source).find_attr_docs()
        text = [] if source == module else docstrings.get(("", original), [])
        hidden = ["   :no-value:"] if len(repr(value)) > _LONGEST_VALUE else []
        return [f".. autodata:: {module}.{name}", *hidden, "", *(f"   {line}" for line in text)]
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        inherits = ["   :show-inheritance:"] if set(value.__bases__) - _COMMON_BASES else []
        return [f".. {kind}:: {module}.{name}", *inherits]
    return [f".. autofunction:: {module}.{name}"]
