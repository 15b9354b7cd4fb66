"""The conversion of docstrings to reStructuredText, for autodoc.

Docstrings are plain text in Google style: text in single backticks is code, and so are indented paragraphs.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["convert", "convert_docstring", "convert_signature", "restore_docstring"]

_CODE: Final = re.compile(r"(?<![`:])`([^`]+)`(?!`)")
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")
_COLON: Final = "\0"
"""In place of a colon, while napoleon converts a docstring."""
_DEFAULT: Final = re.compile(r"attr_dict\['(\w+)'\]\.default")
"""A default in the constructor that attrs generates."""
_LONGEST_DEFAULT: Final = 40
"""The greatest length of a default in a signature, in characters."""
_SECTION: Final = re.compile(r"(Args|Attributes|Raises|Returns|Yields):")


def convert(text: str) -> str:
    """Return a docstring as reStructuredText, except for its sections.

    Args:
        text: The docstring, without indentation of its first level.

    Returns:
        The text. Code in backticks stays a reference if it is a name; indented paragraphs become code blocks.
    """
    return _CODE.sub(_inline, _blocks(text))


def _inline(found: re.Match[str]) -> str:
    code = " ".join(found[1].split("\n"))
    if _NAME.fullmatch(code):
        return f"`{code}`"
    # A literal of reStructuredText can neither begin nor end with a space.
    return f"``{code.strip()}``" if code.strip() else "space"


def _blocks(text: str) -> str:
    lines: list[str] = []
    section = inside = False
    source = text.split("\n")
    for number, line in enumerate(source):
        if line and not line[0].isspace():
            section, inside = _SECTION.fullmatch(line) is not None, False
        begins = line.startswith("    ") and number > 0 and not source[number - 1].strip()
        if begins and not section and not inside:
            lines += [f".. code-block:: {_language(source[number:])}", ""]
            inside = True
        lines.append(line)
    return "\n".join(lines)


def _language(lines: list[str]) -> str:
    """Return the language of the indented lines at the start."""
    end = next((number for number, line in enumerate(lines) if line and not line[0].isspace()), len(lines))
    try:
        ast.parse(textwrap.dedent("\n".join(lines[:end])))
    except SyntaxError:
        return "text"
    return "python"


def convert_docstring(_app: Sphinx, kind: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    """Convert a docstring that autodoc has read, in place."""
    lines[:] = convert("\n".join(lines)).split("\n")
    if kind in {"attribute", "data", "property"}:
        # Napoleon takes what is before a colon in the first line for a type.
        lines[0] = lines[0].replace(":", _COLON)


def restore_docstring(_app: Sphinx, _kind: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    """Restore the colons that `convert_docstring` hid from napoleon."""
    lines[:] = [line.replace(_COLON, ":") for line in lines]


def convert_signature(
    _app: Sphinx, _kind: str, _name: str, value: object, _options: object, signature: str | None, returned: str | None
) -> tuple[str, str | None] | None:
    """Return a signature with the defaults of an attrs class, whose generated code names them in a table of its own."""
    if signature is None or not inspect.isclass(value) or not attrs.has(value):
        return None
    fields = {each.name: each.default for each in attrs.fields(value)}
    if signature == "(**given: object)":
        # The constructor of a wire type takes its fields by name.
        return f"(*, {', '.join(_parameter(each) for each in attrs.fields(value))})".replace("*, )", ")"), None
    return _DEFAULT.sub(lambda found: _default(fields[found[1]]), signature).replace("NOTHING", "..."), returned


def _parameter(field: attrs.Attribute[object]) -> str:
    annotation: object = field.type
    kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return f"{field.name}: {kind}" + ("" if field.default is attrs.NOTHING else f" = {_default(field.default)}")


def _default(value: object) -> str:
    """Return a default as in code, or an ellipsis if it is long."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    text = repr(value)
    return text if len(text) <= _LONGEST_DEFAULT and "<" not in text else "..."
