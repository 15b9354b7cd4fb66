"""Completion of a line of the shell."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from mcp_client.cli.shell.completer import Candidate, Catalog, ShellCompleter, ValueQuery, suggest
from mcp_client.cli.shell.words import split_words
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.types import (
    Prompt,
    PromptArgument,
    PromptReference,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    Tool,
)

SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "The city."},
        "unit": {"enum": ["celsius", "degrees fahrenheit"]},
        "hourly": {"type": "boolean", "default": False},
        "days": {"type": "integer", "default": 3},
        "scale": {"anyOf": [{"$ref": "#/$defs/Scale"}, {"type": "null"}], "default": None},
        "mode": {"oneOf": [{"const": "fast"}, {"const": 2}]},
    },
    "required": ["city"],
    "$defs": {"Scale": {"enum": ["small", "large"]}},
}
CATALOG: Final = Catalog(
    tools=[
        Tool(name="forecast", input_schema=SCHEMA, description="Return the forecast."),
        Tool(name="my tool", input_schema={"type": "object"}),
    ],
    prompts=[
        Prompt(name="plan", arguments=(PromptArgument(name="city", required=True), PromptArgument(name="season")))
    ],
    resources=[Resource(uri="weather://units", name="units")],
    templates=[
        ResourceTemplate(uri_template="weather://city/{city}", name="city"),
        ResourceTemplate(uri_template="map://{country}/city/{city}.png", name="map"),
        ResourceTemplate(uri_template="files://{+path}", name="files"),
    ],
    has_completions=True,
    subscriptions=["weather://units"],
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ca", ["call"]),
        # No command begins with it.
        ("connect", ["reconnect"]),
        ("nothing", []),
        ("nothing x", []),
        ("call ", ["forecast", '"my tool"']),
        ("call FORE", ["forecast"]),
        ("call cast", ["forecast"]),
        ("call forecast c", ["city="]),
        ("call forecast city=Ghent ", ["unit=", "hourly=", "days=", "scale=", "mode="]),
        ("call forecast city=", []),
        ("call forecast unit=", ["unit=celsius", 'unit="degrees fahrenheit"']),
        ("call forecast unit=d", ['unit="degrees fahrenheit"']),
        ('call forecast unit="deg', ['unit="degrees fahrenheit"']),
        ("call forecast unit=celsius", []),
        ("call forecast hourly=", ["hourly=true", "hourly=false"]),
        ("call forecast days=", ["days=3"]),
        ("call forecast scale=l", ["scale=large"]),
        ("call forecast mode=", ["mode=fast", "mode=2"]),
        ("call forecast days={", []),
        ("call unknown ", []),
        ("prompt ", ["plan"]),
        ("prompt plan ", ["city=", "season="]),
        ("read w", ["weather://units", "weather://city/"]),
        ("read map://", []),
        ("read weather://units ", ["--output"]),
        ("complete ", ["plan", "weather://city/{city}", "map://{country}/city/{city}.png", "files://{+path}"]),
        ("complete map://{country}/city/{city}.png ", ["country=", "city="]),
        ("subscribe ", ["weather://units"]),
        ("unsubscribe w", ["weather://units"]),
        ("log w", ["warning"]),
        ("raw o", ["on", "off"]),
        ("help rec", ["reconnect"]),
        ("ping ", []),
    ],
)
def test_word_at_the_end_of_a_line_has_candidates(line: str, expected: list[str]) -> None:
    _, found = suggest(line, CATALOG)
    assert [each.text for each in found if isinstance(each, Candidate)] == expected


PLAN: Final = PromptReference(name="plan")


@pytest.mark.parametrize(
    ("line", "ref", "argument", "value", "known", "candidate"),
    [
        ("prompt plan season=w", PLAN, "season", "w", {}, 'season="x y"'),
        ("prompt plan city=Ghent season=", PLAN, "season", "", {"city": "Ghent"}, 'season="x y"'),
        ("complete plan city=Ghent season=s", PLAN, "season", "s", {"city": "Ghent"}, 'season="x y"'),
        (
            "complete weather://city/{city} city=G",
            ResourceTemplateReference(uri="weather://city/{city}"),
            "city",
            "G",
            {},
            'city="x y"',
        ),
        (
            "read weather://city/New%20Y",
            ResourceTemplateReference(uri="weather://city/{city}"),
            "city",
            "New Y",
            {},
            "weather://city/x%20y",
        ),
        (
            "read map://b",
            ResourceTemplateReference(uri="map://{country}/city/{city}.png"),
            "country",
            "b",
            {},
            "map://x%20y/city/",
        ),
        (
            "read map://be/city/G",
            ResourceTemplateReference(uri="map://{country}/city/{city}.png"),
            "city",
            "G",
            {"country": "be"},
            "map://be/city/x%20y.png",
        ),
    ],
)
def test_value_that_the_server_knows_is_requested(
    line: str,
    ref: PromptReference | ResourceTemplateReference,
    argument: str,
    value: str,
    known: dict[str, str],
    candidate: str,
) -> None:
    (query,) = (each for each in suggest(line, CATALOG)[1] if isinstance(each, ValueQuery))
    assert (query.ref, query.argument, query.value, query.known) == (ref, argument, value, known)
    assert query.candidate("x y").text == candidate


@pytest.mark.parametrize("line", ["prompt plan season=w", "read weather://city/G", "complete plan city=x season="])
def test_value_is_not_requested_from_a_server_without_completions(line: str) -> None:
    found = suggest(line, Catalog(prompts=CATALOG.prompts, templates=CATALOG.templates))[1]
    assert not [each for each in found if isinstance(each, ValueQuery)]


@pytest.mark.property
@given(st.lists(st.sampled_from(["call", "forecast", "read", "city=", "unit=", "map://b", "{", '"', " ", "x"])))
def test_candidate_of_any_line_is_one_word_in_its_place(parts: list[str]) -> None:
    line = "".join(parts)
    word, found = suggest(line, CATALOG)
    before = [each.text for each in split_words(line[: word.start])]
    for each in found:
        text = each.text if isinstance(each, Candidate) else each.candidate("a b").text
        assert len(split_words(line[: word.start] + text)) == len(before) + 1


def completions(line: str, values: Sequence[str]) -> list[tuple[str, int]]:
    async def catalog() -> Catalog:
        return CATALOG

    async def request(query: ValueQuery) -> Sequence[str]:
        assert query.argument == "season"
        return values

    async def collect() -> list[tuple[str, int]]:
        completer = ShellCompleter(catalog, request)
        found = completer.get_completions_async(Document(line), CompleteEvent(text_inserted=True))
        return [(each.text, each.start_position) async for each in found]

    return asyncio.run(collect())


def test_completion_replaces_the_word_at_the_cursor() -> None:
    assert completions("call for", ()) == [("forecast", -3)]
    assert completions("prompt plan season=w", ["winter"]) == [("season=winter", -8)]


def test_value_with_control_characters_is_not_offered() -> None:
    # The terminal would execute it, or show another text than is sent.
    assert completions("prompt plan season=", ["a\x1b[2J", "b\nc", "d\u202e", "winter"]) == [("season=winter", -7)]


def test_number_of_candidates_in_the_menu_is_bounded() -> None:
    assert len(completions("prompt plan season=", [str(number) for number in range(1000)])) == 200
