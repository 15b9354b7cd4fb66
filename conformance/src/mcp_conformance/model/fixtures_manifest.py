"""What checks need of an implementation beyond the protocol: tools, resources and prompts that do something certain.

The names are those of the fixture contract. A manifest maps them onto what a server really has, so that any server can be
put to the test:

    [tools.test_simple_text]
    name = "echo"
    arguments = { text = "hello" }

    [resources."test://static-text"]
    uri = "file:///readme.md"
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Final, cast

import attrs

from mcp_core.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Fixture", "Manifest", "read_manifest"]

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "tools": ("name", "arguments"),
    "resources": ("uri",),
    "templates": ("uri",),
    "prompts": ("name", "arguments"),
}


@attrs.frozen(kw_only=True)
class Fixture:
    """Something that an implementation offers in place of what the contract names."""

    name: str
    """Its own name or URI."""
    arguments: JsonObject | None = None
    """What it is called with in place of the contract's arguments; `None`: these."""


@attrs.frozen(kw_only=True)
class Manifest:
    """Which of its own things an implementation has for what the contract names."""

    entries: Mapping[tuple[str, str], Fixture] = attrs.field(factory=dict)
    """By kind (`tools`, `resources`, `templates`, `prompts`) and the contract's name."""

    def find(self, kind: str, name: str) -> Fixture:
        """What stands for a name; where nothing is said, what is called the same."""
        return self.entries.get((kind, name)) or Fixture(name=name)


def read_manifest(path: Path) -> Manifest:
    """Reads a manifest.

    Raises:
        InvalidValue: It is none; the sentence says where it is wrong.
        OSError: It cannot be read.
    """
    try:
        document = cast("Mapping[str, JsonValue]", tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"is no TOML: {error}", path=str(path)) from error
    entries: dict[tuple[str, str], Fixture] = {}
    for kind, table in document.items():
        if kind not in _KINDS:
            raise InvalidValue(f"is none of {', '.join(_KINDS)}", path=kind)
        if not isinstance(table, dict):
            raise InvalidValue("is no table", path=kind)
        for name, entry in table.items():
            entries[kind, name] = _fixture(kind, name, entry)
    return Manifest(entries=entries)


def _fixture(kind: str, name: str, entry: JsonValue) -> Fixture:
    place = f"{kind}.{name}"
    if not isinstance(entry, dict):
        raise InvalidValue("is no table", path=place)
    allowed = _KINDS[kind]
    unknown = sorted(set(entry) - set(allowed))
    if unknown:
        raise InvalidValue(f"is none of {', '.join(allowed)}", path=f"{place}.{unknown[0]}")
    own, arguments = entry.get(allowed[0], name), entry.get("arguments")
    if not isinstance(own, str):
        raise InvalidValue("is no string", path=f"{place}.{allowed[0]}")
    if arguments is not None and not isinstance(arguments, dict):
        raise InvalidValue("is no table", path=f"{place}.arguments")
    return Fixture(name=own, arguments=arguments)
