"""Command-line arguments: the server, and `key=value` pairs typed by a tool's input schema."""

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
    "nearest",
    "pairs",
    "server_among",
    "typed",
]


_SHOWN: Final = 12
"""Maximum number of names that an error lists."""


class UsageError(Exception):
    """The command line is invalid. The message states what is wrong and what is valid."""


_WITH_VALUE: Final = frozenset(
    {
        "--args",
        "--config",
        "--cwd",
        "--env",
        "--header",
        "--log-level",
        "--login",
        "--output",
        "--revision",
        "--root",
        "--server",
        "--stderr",
        "--timeout",
        "--uri",
    }
)
"""Options whose next word is their value, even if it looks like the URL of a server."""


_OF_THE_PROGRAM: Final = frozenset({"-h", "--help", "--version"})
"""Options that are valid before the command, or without one."""


def is_url(word: str) -> bool:
    """Return whether a word is the URL of a server."""
    return word.lower().startswith(("http://", "https://"))


def server_among(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the words of a command line into those for this program and those that name the server.

    The server is named by the words after `--`, or else by the last URL that is not the value of an option. With `--config`,
    a URL is an argument, for example of `read`.
    """
    if "--" in words:
        cut = words.index("--")
        return [*words[:cut]], [*words[cut + 1 :]]
    if any(word.partition("=")[0] == "--config" for word in words):
        return [*words], []
    for place in reversed(range(len(words))):
        if is_url(words[place]) and (place == 0 or words[place - 1] not in _WITH_VALUE):
            return [*words[:place], *words[place + 1 :]], [words[place]]
    return [*words], []


def command_first(words: list[str]) -> list[str]:
    """Return the words with the options before the command moved after it, where the parser accepts them.

    Words that request the help or the version of the whole program are not moved.
    """
    place = 0
    while place < len(words) and words[place].startswith("-"):
        if words[place] in _OF_THE_PROGRAM:
            return words
        place += 2 if words[place] in _WITH_VALUE else 1
    return words[place : place + 1] + words[:place] + words[place + 1 :]


def headers_of(words: Iterable[str]) -> dict[str, str]:
    """Parse `Name: value` words into a mapping. Raises `UsageError` without the value, which may be a secret."""
    found: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition(":")
        if not separator or not name.strip():
            raise UsageError("--header must have the form 'NAME: VALUE'")
        if name.strip().lower() in (known.lower() for known in found):
            raise UsageError(f"duplicate header {name.strip()!r}")
        found[name.strip()] = value.strip()
    return found


def pairs(words: Iterable[str], what: str) -> dict[str, str]:
    """Parse `key=value` words into a mapping. Raises `UsageError`, which contains `what` as the name of the words."""
    found: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not name or not separator:
            raise UsageError(f"{what} must have the form NAME=VALUE, not {word!r}")
        if name in found:
            raise UsageError(f"{what} {name!r} is given more than once")
        found[name] = value
    return found


def json_object(text: str) -> JsonObject:
    """Parse the value of `--args`. Raises `UsageError`."""
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"--args is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError('--args must be a JSON object, for example \'{"city": "Ghent"}\'')
    return value


def typed(words: dict[str, str], schema: JsonObject) -> JsonObject:
    """Return the arguments of a tool, with each value parsed as the input schema specifies.

    A value for which the schema does not specify a type is parsed as JSON, or is a string if it is not JSON.

    Raises:
        UsageError: A value has the wrong type, or the tool does not accept an argument of this name.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    arguments: JsonObject = {}
    for name, text in words.items():
        if name not in known and known and schema.get("additionalProperties") is False:
            raise UsageError(f"unknown argument {name!r}{closest(name, known)}")
        arguments[name] = _value(name, text, _types(known.get(name)))
    return arguments


def _types(schema: JsonValue) -> Sequence[str]:
    """Return the JSON types that a schema allows; empty if it does not specify any."""
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
        raise UsageError(f"the argument {name!r} must have the type {' or '.join(types)}, not {text!r}")
    return value


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to a name; `None` if none is similar."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def closest(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean ...?)`, or a list of the known names if none is similar."""
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f" (did you mean {near!r}?)"
    more = ", ..." if len(names) > _SHOWN else ""
    return f"; known: {', '.join(names[:_SHOWN])}{more}" if names else "; none are known"
