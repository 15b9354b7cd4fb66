"""The YAML front matter of a `SKILL.md`, in both versions of YAML.

The specification does not name the version. YAML 1.1 reads `on` as true and `2026-11-22` as a date, YAML 1.2 reads both as
strings. A server may follow either.

Spec: the extension `io.modelcontextprotocol/skills`, Frontmatter; yaml.org/spec/1.2.2, 10.3
"""

from __future__ import annotations

import datetime
import math
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_core.features.skills import InvalidFrontMatter, same, split

if TYPE_CHECKING:
    import yaml

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["differs", "read_front_matter"]

_FENCE: Final = "---"
_TAG: Final = "tag:yaml.org,2002:"
_CORE_SCHEMA: Final = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
)
"""The types of plain scalars in YAML 1.2: the name, the pattern, and the first characters."""


def read_front_matter(data: bytes) -> list[JsonObject]:
    """Return the readings of the front matter of a `SKILL.md`, at least one.

    Args:
        data: The content of the file.

    Raises:
        Deviation: The file does not begin with front matter that has a name and a description.
        NotTestable: The YAML has features that JSON cannot represent.
    """
    import yaml  # lazy: it is slow to import

    text = data.decode(errors="replace").removeprefix("\ufeff")
    if text.partition("\n")[0].rstrip() != _FENCE:
        raise Deviation("a SKILL.md that begins with a line '---' and YAML", repr(text[:100]))
    readings: list[JsonObject] = []
    try:
        block = split(text)[0]
        # An alias can represent the same text a million times.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(block)):
            raise NotTestable("the front matter has an alias")
        for loader in (_core_loader(), yaml.SafeLoader):
            found = _json(yaml.load(block, loader))  # noqa: S506  both construct only plain values
            if isinstance(found, dict):
                readings.append(found)
    except (InvalidFrontMatter, RecursionError, ValueError, yaml.YAMLError) as error:
        if not readings:
            raise NotTestable(f"the front matter cannot be represented in JSON: {error}") from error
    if not any(all(isinstance(reading.get(name), str) for name in ("name", "description")) for reading in readings):
        raise Deviation("front matter with name and description", repr(readings[:1]))
    return readings


def differs(one: JsonValue, other: JsonValue) -> bool:
    """Return whether two values of JSON differ. 1 equals 1.0; the order of members does not matter."""
    return not same(one, other)


@cache
def _core_loader() -> type[yaml.SafeLoader]:
    """Return a loader for YAML 1.2: that of YAML 1.1 with other types of plain scalars."""
    import yaml  # lazy: it is slow to import

    class CoreLoader(yaml.SafeLoader):
        yaml_implicit_resolvers = {}  # noqa: RUF012  the type of the base class

    for name, pattern, first in _CORE_SCHEMA:
        CoreLoader.add_implicit_resolver(f"{_TAG}{name}", re.compile(rf"^(?:{pattern})$"), first)
    # YAML 1.1 reads a leading zero as octal.
    CoreLoader.add_constructor(f"{_TAG}int", lambda _, node: int(str(node.value)))
    return CoreLoader


def _json(value: object) -> JsonValue:
    """Return a value of YAML as JSON.

    Raises:
        ValueError: JSON cannot represent it.
    """
    if isinstance(value, dict):
        return {str(key): _json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_json(each) for each in value]
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(f"JSON cannot represent {type(value).__name__}")
