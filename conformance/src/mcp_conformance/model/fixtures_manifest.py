"""The fixtures that checks need beyond the protocol: tools, resources and prompts with a defined behavior.

The names are those of the fixture contract. A manifest maps them to what a server really offers, so that any server can
be tested:

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
    """A feature of the implementation that serves as a fixture."""

    name: str
    """Name or URI of the feature."""
    arguments: JsonObject | None = None
    """Arguments of the call; `None`: those of the contract."""


@attrs.frozen(kw_only=True)
class Manifest:
    """The mapping from the fixtures of the contract to the features of an implementation."""

    entries: Mapping[tuple[str, str], Fixture] = attrs.field(factory=dict)
    """By kind (`tools`, `resources`, `templates`, `prompts`) and the contract's name."""

    def find(self, kind: str, name: str) -> Fixture:
        """Return the feature for a fixture; by default, the one of the same name."""
        return self.entries.get((kind, name)) or Fixture(name=name)


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        InvalidValue: The file is not a valid manifest; the message names the place.
        OSError: The file cannot be read.
    """
    try:
        document = cast("Mapping[str, JsonValue]", tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"is not TOML: {error}", path=str(path)) from error
    entries: dict[tuple[str, str], Fixture] = {}
    for kind, table in document.items():
        if kind not in _KINDS:
            raise InvalidValue(f"is not one of {', '.join(_KINDS)}", path=kind)
        if not isinstance(table, dict):
            raise InvalidValue("is not a table", path=kind)
        for name, entry in table.items():
            entries[kind, name] = _fixture(kind, name, entry)
    return Manifest(entries=entries)


def _fixture(kind: str, name: str, entry: JsonValue) -> Fixture:
    place = f"{kind}.{name}"
    if not isinstance(entry, dict):
        raise InvalidValue("is not a table", path=place)
    allowed = _KINDS[kind]
    unknown = sorted(set(entry) - set(allowed))
    if unknown:
        raise InvalidValue(f"is not one of {', '.join(allowed)}", path=f"{place}.{unknown[0]}")
    own, arguments = entry.get(allowed[0], name), entry.get("arguments")
    if not isinstance(own, str):
        raise InvalidValue("is not a string", path=f"{place}.{allowed[0]}")
    if arguments is not None and not isinstance(arguments, dict):
        raise InvalidValue("is not a table", path=f"{place}.arguments")
    return Fixture(name=own, arguments=arguments)
