"""Completion of the line while it is typed: commands, names, arguments, and values from schemas and from the server.

What the server offers is read when the shell connects, and again after each change. Values from the server are requested
while the user types.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote as percent_encode
from urllib.parse import unquote

import attrs
import orjson
from prompt_toolkit.completion import Completer, Completion

from mcp_client.cli.output import harmless, one_line
from mcp_client.cli.shell.commands import SHELL_COMMANDS
from mcp_client.cli.shell.words import Word, quote, split_words
from mcp_core.field_methods import FieldValue
from mcp_core.types import LOGGING_LEVELS, PromptReference, ResourceTemplateReference

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import Prompt, Resource, ResourceTemplate, Tool

__all__ = ["Candidate", "Catalog", "ShellCompleter", "ValueQuery", "suggest"]

_SHOWN: Final = 200
"""Maximum number of candidates in the menu."""

_VARIABLE: Final = re.compile(r"\{([A-Za-z0-9_.]+)\}")
"""A simple expression of a URI template. Spec: RFC 6570 section 1.2, level 1"""


@attrs.define
class Catalog:
    """The lists that the server offers."""

    tools: Sequence[Tool] = ()
    """The tools."""
    prompts: Sequence[Prompt] = ()
    """The prompts."""
    resources: Sequence[Resource] = ()
    """The resources."""
    templates: Sequence[ResourceTemplate] = ()
    """The resource templates."""
    has_completions: bool = False
    """Whether the server completes arguments of prompts and templates."""
    subscriptions: Sequence[str] = ()
    """The URIs that the shell is subscribed to."""


@attrs.frozen(eq=False, repr=False)
class Candidate(FieldValue):
    """A text that can replace the word at the cursor."""

    text: str
    """The text, with quotes where the word requires them."""
    shown: str
    """The text in the menu."""
    description: str = ""
    """The description in the menu."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ValueQuery(FieldValue):
    """Values to request from the server."""

    ref: PromptReference | ResourceTemplateReference
    """The prompt or the template."""
    argument: str
    """The argument."""
    value: str
    """The beginning of the value."""
    known: Mapping[str, str]
    """The values of other arguments."""
    candidate: Callable[[str], Candidate]
    """Returns the candidate for a value."""


Suggestion: TypeAlias = Candidate | ValueQuery
"""What may replace a word."""


def suggest(line: str, catalog: Catalog) -> tuple[Word, Sequence[Suggestion]]:
    """Return the word at the end of a line, and what may replace it."""
    words = [*split_words(line)]
    word = Word(text="", start=len(line))
    if words and (words[-1].is_open or not line[-1].isspace()):
        word = words.pop()
    if word.is_json:
        return word, ()
    if not words:
        commands = {name: command.summary for name, command in SHELL_COMMANDS.items()}
        return word, _matching(word.text, _described(commands))
    name, *arguments = (each.text for each in words)
    complete = _ARGUMENTS.get(name)
    return word, () if complete is None else complete(catalog, arguments, word.text)


def _described(items: Mapping[str, str]) -> list[Candidate]:
    return [Candidate(quote(text), text, one_line(about)) for text, about in items.items()]


def _matching(typed: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that begin with the typed text; if none does, those that contain it."""
    every, wanted = [*candidates], typed.lower()
    return [each for each in every if each.shown.lower().startswith(wanted)] or [
        each for each in every if wanted in each.shown.lower()
    ]


def _values(prefix: str, typed: str, values: Iterable[str]) -> list[Candidate]:
    """Return candidates for the value of a word `NAME=VALUE`.

    Args:
        prefix: The name and `=`.
        typed: The beginning of the value.
        values: The possible values.
    """
    found = _matching(typed, (Candidate(prefix + quote(value), value) for value in values))
    # A value that is complete needs no menu.
    return [] if [each.shown for each in found] == [typed] else found


def _names(typed: str, names: Mapping[str, str], given: Iterable[str]) -> list[Candidate]:
    """Return candidates for the name of an argument that is not given."""
    known = {word.partition("=")[0] for word in given}
    return _matching(
        typed, (Candidate(f"{name}=", name, one_line(about)) for name, about in names.items() if name not in known)
    )


# --- tools -----------------------------------------------------------------------------------------------------------


def _call(catalog: Catalog, arguments: Sequence[str], typed: str) -> Sequence[Suggestion]:
    if not arguments:
        return _matching(typed, _described({tool.name: tool.description or tool.title or "" for tool in catalog.tools}))
    schema = next((tool.input_schema for tool in catalog.tools if tool.name == arguments[0]), {})
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    name, separator, value = typed.partition("=")
    if separator:
        return _values(f"{name}=", value, _schema_values(known.get(name), schema))
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    named = {each: _about(member, schema, needed=each in needed) for each, member in known.items()}
    return _names(typed, named, arguments[1:])


def _about(member: JsonValue, schema: JsonObject, *, needed: bool) -> str:
    """Return the description of a member of a schema: its type, whether it is required, and its description."""
    resolved = _resolved(member, schema)
    kind, text = resolved.get("type"), resolved.get("description")
    facts = [kind] if isinstance(kind, str) else []
    facts += ["required"] if needed else []
    return ": ".join(filter(None, (", ".join(facts), text if isinstance(text, str) else "")))


def _schema_values(member: JsonValue, schema: JsonObject) -> list[str]:
    """Return the values that a member of a schema lists: `enum`, `const`, booleans and the default."""
    resolved = _resolved(member, schema)
    values: list[JsonValue] = []
    for branches in (resolved.get("anyOf"), resolved.get("oneOf")):
        for branch in branches if isinstance(branches, list) else ():
            values += _listed(_resolved(branch, schema))
    values += _listed(resolved)
    if "default" in resolved and resolved["default"] is not None:
        values.append(resolved["default"])
    return [*dict.fromkeys(each if isinstance(each, str) else orjson.dumps(each).decode() for each in values)]


def _listed(schema: JsonObject) -> list[JsonValue]:
    named = schema.get("enum")
    if isinstance(named, list):
        return named
    if "const" in schema:
        return [schema["const"]]
    return [True, False] if schema.get("type") == "boolean" else []


def _resolved(member: JsonValue, schema: JsonObject) -> JsonObject:
    """Return a schema, or the definition that it refers to. References to references are not followed."""
    if not isinstance(member, dict):
        return {}
    ref = member.get("$ref")
    if not isinstance(ref, str):
        return member
    for group in ("$defs", "definitions"):
        definitions = schema.get(group)
        found = definitions.get(ref.removeprefix(f"#/{group}/")) if isinstance(definitions, dict) else None
        if isinstance(found, dict):
            return {**found, **member}
    return member


# --- prompts and resources -------------------------------------------------------------------------------------------


def _prompt(catalog: Catalog, arguments: Sequence[str], typed: str) -> Sequence[Suggestion]:
    if not arguments:
        return _matching(typed, _described(_prompt_names(catalog)))
    prompt = next((prompt for prompt in catalog.prompts if prompt.name == arguments[0]), None)
    if prompt is None:
        return ()
    about = {
        each.name: ": ".join(filter(None, ("required" if each.required else "", each.description or "")))
        for each in prompt.arguments or ()
    }
    return _arguments(catalog, PromptReference(name=prompt.name), about, arguments[1:], typed)


def _prompt_names(catalog: Catalog) -> dict[str, str]:
    return {prompt.name: prompt.description or prompt.title or "" for prompt in catalog.prompts}


def _complete(catalog: Catalog, arguments: Sequence[str], typed: str) -> Sequence[Suggestion]:
    if not arguments:
        templates = {each.uri_template: each.description or each.title or "" for each in catalog.templates}
        return _matching(typed, _described(_prompt_names(catalog) | templates))
    if arguments[0] not in (each.uri_template for each in catalog.templates):
        return _prompt(catalog, arguments, typed)
    names = dict.fromkeys(_VARIABLE.findall(arguments[0]), "")
    return _arguments(catalog, ResourceTemplateReference(uri=arguments[0]), names, arguments[1:], typed)


def _arguments(
    catalog: Catalog,
    ref: PromptReference | ResourceTemplateReference,
    names: Mapping[str, str],
    given: Sequence[str],
    typed: str,
) -> Sequence[Suggestion]:
    """Return the names of arguments, or the query for the values of one."""
    name, separator, value = typed.partition("=")
    if not separator:
        return _names(typed, names, given)
    if name not in names or not catalog.has_completions:
        return ()
    known = {key: text for key, _, text in (word.partition("=") for word in given) if key in names and key != name}

    def candidate(found: str) -> Candidate:
        return Candidate(f"{name}={quote(found)}", found)

    return [ValueQuery(ref=ref, argument=name, value=value, known=known, candidate=candidate)]


def _read(catalog: Catalog, arguments: Sequence[str], typed: str) -> Sequence[Suggestion]:
    if arguments:
        option = Candidate("--output", "--output", "write the contents to a file")
        return _matching(typed, [option]) if len(arguments) == 1 else ()
    found: list[Suggestion] = [*_matching(typed, _described(_uris(catalog)))]
    for template in catalog.templates:
        found += _expand(template.uri_template, typed, template.title or template.name, catalog)
    return found


def _uris(catalog: Catalog) -> dict[str, str]:
    return {resource.uri: resource.title or resource.name or "" for resource in catalog.resources}


def _expand(template: str, typed: str, title: str, catalog: Catalog) -> list[Suggestion]:
    """Return suggestions for a URI of a template: its text up to the next variable, or the query for that variable."""
    literals, names = _VARIABLE.split(template)[::2], _VARIABLE.findall(template)
    if not names or any("{" in literal for literal in literals):
        return []
    known: dict[str, str] = {}
    place = 0
    for literal, name, following in zip(literals, names, literals[1:], strict=False):
        if not typed.startswith(literal, place):
            is_start = literal.startswith(typed[place:])
            return [Candidate(typed[:place] + literal, template, one_line(title))] if is_start else []
        place += len(literal)
        end = typed.find(following, place) if following else -1
        if end < 0:
            if not catalog.has_completions:
                return []
            start = typed[:place]

            def candidate(found: str, start: str = start, following: str = following) -> Candidate:
                uri = start + percent_encode(found, safe="") + following
                return Candidate(quote(uri), uri)

            value = unquote(typed[place:])
            ref = ResourceTemplateReference(uri=template)
            return [ValueQuery(ref=ref, argument=name, value=value, known=known, candidate=candidate)]
        known[name] = unquote(typed[place:end])
        place = end
    return []


# --- other commands --------------------------------------------------------------------------------------------------


def _first(
    names: Callable[[Catalog], Mapping[str, str]], catalog: Catalog, arguments: Sequence[str], typed: str
) -> list[Candidate]:
    return [] if arguments else _matching(typed, _described(names(catalog)))


_ARGUMENTS: Final[Mapping[str, Callable[[Catalog, Sequence[str], str], Sequence[Suggestion]]]] = {
    "call": _call,
    "complete": _complete,
    "help": partial(_first, lambda _: {name: command.summary for name, command in SHELL_COMMANDS.items()}),
    "log": partial(_first, lambda _: dict.fromkeys(LOGGING_LEVELS, "")),
    "prompt": _prompt,
    "raw": partial(_first, lambda _: {"on": "", "off": ""}),
    "read": _read,
    "subscribe": partial(_first, _uris),
    "unsubscribe": partial(_first, lambda catalog: dict.fromkeys(catalog.subscriptions, "")),
}
"""The functions that complete the arguments of a command."""


class ShellCompleter(Completer):
    """The completer of the prompt.

    Args:
        catalog: Returns what the server offers.
        request: Requests values from the server.

    Both functions run on asyncio, return in bounded time, and do not raise. The user can type meanwhile.
    """

    def __init__(
        self, catalog: Callable[[], Awaitable[Catalog]], request: Callable[[ValueQuery], Awaitable[Sequence[str]]]
    ) -> None:
        self._catalog: Final = catalog
        self._request: Final = request

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002  # of the base class
        """Return nothing: the prompt calls the asynchronous method."""
        return ()

    async def get_completions_async(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002  # of the base class
    ) -> AsyncGenerator[Completion, None]:
        """Return the completions at the cursor."""
        line = document.text_before_cursor
        word, suggestions = suggest(line, await self._catalog())
        found: dict[str, Candidate] = {}
        for suggestion in suggestions:
            if isinstance(suggestion, Candidate):
                found[suggestion.text] = suggestion
            else:
                values = await self._request(suggestion)
                found |= {each.text: each for each in map(suggestion.candidate, values)}
        for candidate in [*found.values()][:_SHOWN]:
            # A value with control characters could not be seen before it is sent.
            if candidate.text == harmless(candidate.text) and "\n" not in candidate.text:
                yield Completion(
                    candidate.text,
                    start_position=word.start - len(line),
                    display=candidate.shown,
                    display_meta=candidate.description,
                )
