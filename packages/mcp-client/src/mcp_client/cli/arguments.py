"""What stands on the command line: which server, and values, as `key=value` typed by a tool's input schema."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "UsageError",
    "closest",
    "command_first",
    "headers_of",
    "is_url",
    "json_object",
    "pairs",
    "server_among",
    "typed",
]


_SHOWN: Final = 10
"""How many names an error lists."""


class UsageError(Exception):
    """The command line makes no sense: what is wrong, and what would be right."""


_WITH_VALUE: Final = frozenset(
    {
        "--args",
        "--config",
        "--cwd",
        "--env",
        "--header",
        "--known",
        "--log-level",
        "--login",
        "--output",
        "--revision",
        "--server",
        "--stderr",
        "--timeout",
        "--uri",
    }
)
"""Options whose next word is their value, even if it looks like the URL of a server."""


_OF_THE_PROGRAM: Final = frozenset({"-h", "--help", "--version"})
"""Options that stand before the command, or without one."""


def is_url(word: str) -> bool:
    """Whether a word names a server that is talked to over HTTP."""
    return word.lower().startswith(("http://", "https://"))


def server_among(words: list[str]) -> tuple[list[str], list[str]]:
    """Cuts the words of a command line into our own and those that say which server.

    That is what follows `--`; without it, the last URL that is not the value of an option.
    """
    if "--" in words:
        cut = words.index("--")
        return words[:cut], words[cut + 1 :]
    for place in reversed(range(len(words))):
        if is_url(words[place]) and (place == 0 or words[place - 1] not in _WITH_VALUE):
            return words[:place] + words[place + 1 :], [words[place]]
    return words, []


def command_first(words: list[str]) -> list[str]:
    """The words with the options that stand before the command behind it, where they are understood.

    Words that ask for the help or the version of the whole program stay where they are.
    """
    place = 0
    while place < len(words) and words[place].startswith("-"):
        if words[place] in _OF_THE_PROGRAM:
            return words
        place += 2 if words[place] in _WITH_VALUE else 1
    return words[place : place + 1] + words[:place] + words[place + 1 :]


def headers_of(words: Iterable[str]) -> dict[str, str]:
    """`Name: value` words as a mapping. Raises `UsageError`, which says nothing of the value: it may be a secret."""
    found: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition(":")
        if not separator or not name.strip():
            raise UsageError("--header has to be written 'NAME: VALUE'")
        if name.strip().lower() in (known.lower() for known in found):
            raise UsageError(f"the header {name.strip()!r} is given twice")
        found[name.strip()] = value.strip()
    return found


def pairs(words: Iterable[str], what: str) -> dict[str, str]:
    """`key=value` words as a mapping. Raises `UsageError`, which names `what` they are."""
    found: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not name or not separator:
            raise UsageError(f"{what} has to be written NAME=VALUE, not {word!r}")
        if name in found:
            raise UsageError(f"{what} {name!r} is given twice")
        found[name] = value
    return found


def json_object(text: str) -> JsonObject:
    """The value of `--args`. Raises `UsageError`."""
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"--args is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError('--args has to be a JSON object, as \'{"city": "Ghent"}\'')
    return value


def typed(words: dict[str, str], schema: JsonObject) -> JsonObject:
    """The arguments of a tool: each value is read as the input schema says.

    A value whose type the schema does not say is taken for JSON, and for a string if it is none.

    Raises:
        UsageError: A value does not fit, or the tool has no such argument and takes no others.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    arguments: JsonObject = {}
    for name, text in words.items():
        if name not in known and known and schema.get("additionalProperties") is False:
            raise UsageError(f"there is no argument {name!r}{closest(name, known)}")
        arguments[name] = _value(name, text, _types(known.get(name)))
    return arguments


def _types(schema: JsonValue) -> Sequence[str]:
    """The JSON types that a schema allows; none when it does not say."""
    if not isinstance(schema, dict):
        return ()
    named = schema.get("type")
    if isinstance(named, str):
        return (named,)
    if isinstance(named, list):
        return [name for name in named if isinstance(name, str)]
    branches = schema.get("anyOf", schema.get("oneOf"))
    return [name for branch in branches for name in _types(branch)] if isinstance(branches, list) else ()


_READABLE: Final[dict[str, tuple[type, ...]]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def _value(name: str, text: str, types: Sequence[str]) -> JsonValue:
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = text
    for each in types:
        if type(value) in _READABLE.get(each, ()):
            return value
        if each == "integer" and isinstance(value, float) and value.is_integer():
            return int(value)
    if "string" in types:
        return text
    if types:
        raise UsageError(f"the argument {name!r} has to be of the type {' or '.join(types)}, not {text!r}")
    return value


def closest(name: str, known: Iterable[str]) -> str:
    """` (did you mean ...?)`, or where nothing is near, what there is."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f" (did you mean {near[0]!r}?)"
    more = ", ..." if len(names) > _SHOWN else ""
    return f"; there are: {', '.join(names[:_SHOWN])}{more}" if names else "; there are none"
