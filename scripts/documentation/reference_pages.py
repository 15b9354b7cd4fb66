"""The page of the reference for each public module, from its source: signatures, docstrings, docs of fields.

The sources are parsed, not imported, and quoted literally; so the pages are the same with each Python.
"""

from __future__ import annotations

import ast
import re
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final

import attrs

from checks.exports import is_public

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["Source", "field_texts", "link", "page", "sources"]

_SECTIONS: Final = {
    "Args": "Parameters",
    "Attributes": "Attributes",
    "Raises": "Raises",
    "Returns": "Returns",
    "Yields": "Yields",
}
_ENTRY: Final = re.compile(r"(\*{0,2}[\w., ]+):(?: (.*))?$")
_LONGEST_VALUE: Final = 120
"""The greatest length of a constant's value that is shown."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef | ast.Assign | ast.AnnAssign


@attrs.frozen(eq=False, slots=False)
class Source:
    """A module."""

    name: str
    """The dotted name."""
    text: str
    """The source."""
    tree: ast.Module
    """The parsed source."""
    public: bool
    """Whether the module is public: see `checks.exports.PUBLIC`."""

    @property
    def document(self) -> str:
        """The docstring."""
        # Without `clean`: a module's docstring has no indentation to remove, but may consist of indented code.
        return (ast.get_docstring(self.tree, clean=False) or "").strip()

    @property
    def exported(self) -> tuple[str, ...]:
        """The names in `__all__` without a leading underscore."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and _targets(node) == ["__all__"]:
                return tuple(name for name in ast.literal_eval(node.value) if not name.startswith("_"))
        return ()

    def quote(self, node: ast.AST) -> str:
        """Return the source of a node, on one line."""
        # Like `ast.get_source_segment`, which splits the whole text into lines again for each node.
        assert isinstance(node, ast.expr)
        assert node.end_lineno is not None
        lines = list(self._lines[node.lineno - 1 : node.end_lineno])
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        text = " ".join(b" ".join(lines).decode().split())
        # A node of several lines has blanks within its brackets, and a comma at its end.
        return re.sub(r"([(\[{]) (?=\S)", r"\1", re.sub(r",? ([)\]}])", r"\1", text)) if len(lines) > 1 else text

    @cached_property
    def _lines(self) -> list[bytes]:
        return self.text.encode().split(b"\n")


def sources(packages: Mapping[str, Path]) -> dict[str, Source]:
    """Return all modules of the packages, by name."""
    found: dict[str, Source] = {}
    for package, folder in packages.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            if parts[-1] == "__init__":
                parts.pop()
            text = path.read_text()
            name = ".".join(parts)
            found[name] = Source(name, text, ast.parse(text), is_public(name))
    return found


def _targets(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


@cache
def _definitions(source: Source) -> dict[str, tuple[list[Definition], str | None]]:
    """Return the names that a module defines, each with its definitions (several when overloaded) and its docstring."""
    return _named(source.tree.body)


def _named(body: list[ast.stmt]) -> dict[str, tuple[list[Definition], str | None]]:
    found: dict[str, tuple[list[Definition], str | None]] = {}
    for index, node in enumerate(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            before = found.get(node.name, ([], None))[0]
            found[node.name] = ([*before, node], ast.get_docstring(node))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for name in _targets(node):
                found[name] = ([node], _text_below(body, index))
    return found


def _text_below(body: list[ast.stmt], index: int) -> str | None:
    below = body[index + 1] if index + 1 < len(body) else None
    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
        return " ".join(below.value.value.split())
    return None


@cache
def _imports(source: Source) -> dict[str, tuple[str, str]]:
    """Return the origin of imported names: the module, and the name in it."""
    found: dict[str, tuple[str, str]] = {}
    # The imports of an extra are in a `with` block.
    inside = [each for node in source.tree.body if isinstance(node, ast.With) for each in node.body]
    for node in [*source.tree.body, *inside]:
        if isinstance(node, ast.ImportFrom) and node.module:
            found.update({alias.asname or alias.name: (node.module, alias.name) for alias in node.names})
    return found


def _home(source: Source, name: str, known: Mapping[str, Source]) -> tuple[Source, Source, str]:
    """Return the module whose page describes a name, the module that defines it, and its name there."""
    place = source
    while (origin := _imports(source).get(name)) is not None and origin[0] in known and origin[0] != source.name:
        module, name = origin
        source = known[module]
        if source.public and name in source.exported:
            place = source
    return place, source, name


def page(source: Source, known: Mapping[str, Source]) -> str:
    """Return the page of a public module.

    Args:
        source: The module.
        known: All modules, by name.

    Returns:
        Markdown.
    """
    lines = [f"# {source.name}", "", *_document(source.document)]
    elsewhere: dict[str, list[str]] = {}
    own: list[tuple[tuple[str, int], list[str]]] = []
    for name in source.exported:
        place, home, original = _home(source, name, known)
        if place is not source or f"{home.name}.{original}" in known:
            elsewhere.setdefault(place.name, []).append(name)
            continue
        nodes, text = _definitions(home)[original]
        order = (home.name, nodes[0].lineno)
        own.append((order, _entry(home, nodes, text, name, f"{source.name}.{name}", known)))
    for module, names in sorted(elsewhere.items()):
        links = ", ".join(link(source, name, known) for name in sorted(names))
        lines += ["", f"From [`{module}`]({module}.md): {links}."]
    for _, entry in sorted(own, key=lambda each: each[0]):
        lines += ["", *entry]
    return "\n".join(lines).rstrip() + "\n"


def link(source: Source, name: str, known: Mapping[str, Source]) -> str:
    """Return a link to the description of a name.

    Args:
        source: A module that has the name.
        name: A name in it.
        known: All modules, by name.
    """
    place, home, original = _home(source, name, known)
    whole = f"{home.name}.{original}"
    return f"[`{name}`]({whole}.md)" if whole in known else f"[`{name}`]({place.name}.md#{name.lower()})"


def _entry(  # noqa: PLR0917  # all of them determine the output
    source: Source, nodes: list[Definition], text: str | None, name: str, anchor: str, known: Mapping[str, Source]
) -> list[str]:
    lines = [f'<a id="{anchor}"></a>', "", f"## {name}", ""]
    last = nodes[-1]
    if isinstance(last, ast.ClassDef):
        return lines + _class(source, last, anchor, known)
    if isinstance(last, ast.FunctionDef | ast.AsyncFunctionDef):
        return lines + _function(source, nodes, text)
    return lines + _constant(source, last, text)


def _constant(source: Source, node: Definition, text: str | None) -> list[str]:
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    value = "" if node.value is None else source.quote(node.value)
    shown = f" = {value}" if value and len(value) <= _LONGEST_VALUE else ""
    kind = f": {source.quote(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
    lines = ["```python", f"{_targets(node)[0]}{kind}{shown}", "```"]
    return [*lines, "", text] if text else lines


def _function(source: Source, nodes: list[Definition], text: str | None) -> list[str]:
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    shown = [node for node in functions if _decorated(source, node, "overload")] or functions[-1:]
    return ["```python", *(_signature(source, node) for node in shown), "```", "", *_document(text or "")]


def _decorated(source: Source, node: Function | ast.ClassDef, name: str) -> bool:
    return any(source.quote(each).rpartition(".")[2].startswith(name) for each in node.decorator_list)


def _signature(source: Source, node: Function, *, method: bool = False) -> str:
    parts = _parameters(source, node.args)
    if method and not _decorated(source, node, "staticmethod"):
        parts = parts[1:]
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    result = f" -> {source.quote(node.returns)}" if node.returns else ""
    line = f"{word} {node.name}({', '.join(parts)}){result}"
    if len(line) <= _LONGEST_VALUE:
        return line
    return "\n".join([f"{word} {node.name}(", *(f"    {part}," for part in parts), f"){result}"])


def _parameters(source: Source, arguments: ast.arguments) -> list[str]:
    def one(argument: ast.arg, default: ast.expr | None, star: str = "") -> str:
        kind = f": {source.quote(argument.annotation)}" if argument.annotation else ""
        value = f" = {source.quote(default)}" if default else ""
        return f"{star}{argument.arg}{kind}{value}"

    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    parts = [one(argument, default) for argument, default in zip(plain, defaults, strict=True)]
    if arguments.posonlyargs:
        parts.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        parts.append(one(arguments.vararg, None, "*"))
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [one(each, default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        parts.append(one(arguments.kwarg, None, "**"))
    return parts


def _private_bases(
    source: Source, node: ast.ClassDef, known: Mapping[str, Source]
) -> Iterator[tuple[Source, ast.ClassDef]]:
    """Yield the bases of a class without a page: their members are shown as members of the class."""
    for base in node.bases:
        _, home, name = _home(source, source.quote(base), known)
        definition = _definitions(home).get(name, ([], None))[0]
        shown = any(each.public and name in each.exported for each in known.values())
        if not shown and definition and isinstance(definition[-1], ast.ClassDef):
            yield home, definition[-1]
            yield from _private_bases(home, definition[-1], known)


def _class(source: Source, node: ast.ClassDef, anchor: str, known: Mapping[str, Source]) -> list[str]:
    private = list(_private_bases(source, node, known))
    hidden = {base.name for _, base in private}
    bases = ", ".join(quoted for base in node.bases if (quoted := source.quote(base)) not in hidden)
    lines = ["```python", f"class {node.name}({bases})" if bases else f"class {node.name}", "```", ""]
    lines += _document(ast.get_docstring(node) or "")
    fields = list(_fields(source, node))
    if fields:
        lines += ["", *fields]
    for home, each in [(source, node), *private]:
        lines += _methods(home, each, node.name, anchor)
    return lines


def _methods(source: Source, node: ast.ClassDef, shown_as: str, anchor: str) -> list[str]:
    lines: list[str] = []
    for name, (nodes, text) in _named(node.body).items():
        functions = [each for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        if not functions or name.startswith("_") or not text:
            continue
        last = functions[-1]
        lines += ["", f'<a id="{anchor}.{name}"></a>', "", f"### {shown_as}.{name}", ""]
        if _decorated(source, last, "property"):
            lines += ["```python", f"{name}: {source.quote(last.returns) if last.returns else 'object'}", "```", ""]
        else:
            shown = [each for each in functions if _decorated(source, each, "overload")] or [last]
            marks = [f"@{mark}" for mark in ("classmethod", "staticmethod") if _decorated(source, last, mark)]
            signatures = [_signature(source, each, method=True) for each in shown]
            lines += ["```python", *marks, *signatures, "```", ""]
        lines += _document(text)
    return lines


def _fields(source: Source, node: ast.ClassDef) -> Iterator[str]:
    """Yield the fields of a class, each with its docstring, also those that the constructor sets."""
    bodies = [node.body]
    bodies += [each.body for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    for number, body in enumerate(bodies):
        for index, each in enumerate(body):
            name = _field_name(each, of_self=bool(number))
            text = _text_below(body, index)
            if name is None or name.startswith("_") or not (text or isinstance(each, ast.Assign)):
                continue
            assert isinstance(each, ast.Assign | ast.AnnAssign)
            kind = f": `{source.quote(each.annotation)}`" if isinstance(each, ast.AnnAssign) else ""
            value = f" = `{source.quote(each.value)}`" if each.value is not None and not number else ""
            if text or not number:
                yield f"- **`{name}`**{kind}{value if len(value) <= _LONGEST_VALUE else ''}" + (
                    f"  \n  {text}" if text else ""
                )


def field_texts(source: Source, name: str) -> dict[str, str]:
    """Return the docstrings of the fields or members of a class.

    Args:
        source: The module.
        name: The class.

    Returns:
        The texts by the names of the fields.
    """
    nodes, _ = _definitions(source)[name]
    return (
        {field: text for field, (_, text) in _named(nodes[-1].body).items() if text}
        if isinstance(nodes[-1], ast.ClassDef)
        else {}
    )


def _field_name(node: ast.stmt, *, of_self: bool) -> str | None:
    if not of_self:
        names = _targets(node)
        return names[0] if names else None
    target: ast.expr | None = node.target if isinstance(node, ast.AnnAssign) else None
    if isinstance(node, ast.Assign):
        target = node.targets[0]
    return target.attr if isinstance(target, ast.Attribute) else None


# --- docstrings --------------------------------------------------------------------------------------------------------


def _document(text: str) -> list[str]:
    """Return a docstring as Markdown: sections become lists, indented blocks become code."""
    lines: list[str] = []
    rest = text.splitlines()
    while rest:
        line = rest.pop(0)
        title = _SECTIONS.get(line.strip().removesuffix(":")) if line.endswith(":") else None
        if title is not None and rest and rest[0].startswith("    "):
            block = _take(rest, lambda each: not each or each.startswith("    "))
            lines += [
                f"**{title}**",
                "",
                *_section([each[4:] for each in block], entries=title in ("Parameters", "Raises")),
            ]
        elif line.startswith("    "):
            block = [line, *_take(rest, lambda each: not each or each.startswith("    "))]
            while block and not block[-1]:
                rest.insert(0, block.pop())
            lines += ["```text" if _is_drawing(block) else "```python", *(each[4:] for each in block), "```"]
        else:
            lines.append(line)
    return lines


def _is_drawing(block: list[str]) -> bool:
    try:
        ast.parse("\n".join(each[4:] for each in block))
    except SyntaxError:
        return True
    return False


def _take(rest: list[str], wanted: Callable[[str], bool]) -> list[str]:
    taken: list[str] = []
    while rest and wanted(rest[0]):
        taken.append(rest.pop(0))
    return taken


def _section(block: list[str], *, entries: bool) -> list[str]:
    lines: list[str] = []
    for line in block:
        entry = _ENTRY.match(line) if entries else None
        if entry is not None:
            names = ", ".join(f"`{name.strip()}`" for name in entry[1].split(","))
            lines.append(f"- {names}: {entry[2] or ''}".rstrip())
        elif line.strip():
            lines.append(f"  {line.strip()}" if entries and lines else line.strip())
        else:
            lines.append("")
    return lines
