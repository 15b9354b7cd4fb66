"""The arguments of prompts: strings in the protocol, typed values for the function."""

from __future__ import annotations

import datetime
import enum
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.schema.type_spec import InvalidArguments, Param
from mcp_core.types.prompts import PromptArgument
from mcp_server.schema.text_arguments import PromptParameters, prompt_arguments


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Context:
    """A class that the caller injects."""


def parameters_of(hint: object) -> PromptParameters:
    """Return the parameters of a prompt with one parameter of a type."""

    def prompt(x: object) -> None: ...

    prompt.__annotations__["x"] = hint
    return prompt_arguments(prompt)


def test_arguments_from_signature_and_docstring() -> None:
    def prompt(
        context: Context, topic: str, tone: Annotated[str, Param(title="Tone", description="How")] = "dry"
    ) -> str:
        """Write a poem.

        Args:
            topic: The topic.
        """
        return f"{topic}{tone}"

    parameters = prompt_arguments(prompt, injected=[Context])
    assert parameters.arguments == (
        PromptArgument(name="topic", description="The topic.", required=True),
        PromptArgument(name="tone", title="Tone", description="How", required=False),
    )
    assert parameters.description == "Write a poem."
    assert parameters.injected == {"context": Context}
    assert parameters.bind({"topic": "3"}) == {"topic": "3"}


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (str, "3", "3"),
        (str, " true ", " true "),
        (object, "3", "3"),
        (int, " 3 ", 3),
        (int, "-3", -3),
        (int, "3.0", 3),
        (float, "3", 3.0),
        (float, "1e3", 1000.0),
        (bool, "True", True),
        (bool, "false", False),
        (int | None, "null", None),
        (int | str, "3", 3),
        (int | str, "three", "three"),
        (Level, "2", Level.HIGH),
        (Literal["a", 1], "a", "a"),
        (Literal["a", 1], "1", 1),
        (Literal["1", 2], "1", "1"),
        (datetime.date, "2026-07-28", datetime.date(2026, 7, 28)),
        (Annotated[int, Param(minimum=1)], "1", 1),
        (list[str], ' ["a"]', ["a"]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (list[int] | None, "null", None),
        (list[int] | str, "[1]", [1]),
        (list[int] | str, "[a]", "[a]"),
        (list[int] | str, '["a"]', '["a"]'),
        (object, "[1]", "[1]"),
    ],
)
def test_text_converted_to_parameter_type(hint: object, text: str, value: object) -> None:
    bound = parameters_of(hint).bind({"x": text})
    assert bound == {"x": value}
    assert type(bound["x"]) is type(value)


@pytest.mark.parametrize(
    ("hint", "text", "message"),
    [
        (int, "three", 'expected an integer, got the string "three"'),
        (int, "3.5", "expected an integer, got 3.5"),
        (int, "", "expected an integer"),
        (int, "true", "expected an integer"),
        (float, "nan", "expected a number"),
        (bool, "yes", "expected true or false"),
        (Level, "3", "expected one of 1, 2"),
        (datetime.date, "2026", "expected a date"),
        (Annotated[int, Param(minimum=1)], "0", "at least 1"),
        (list[int], "1", "expected an array"),
        (list[int], "[1", "expected an array"),
        (list[int], "[1.5]", "x[0]: expected an integer, got 1.5"),
        (list[int], '{"a": 1}', "expected an array"),
        (dict[str, int], "[" * 200 + "]" * 200, "over the limit of 128"),
        (list[str], '["\ud800"]', "expected an array"),
    ],
)
def test_text_not_matching_type_raises(hint: object, text: str, message: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parameters_of(hint).bind({"x": text})
    assert message in str(caught.value)


def test_argument_not_text_missing_or_unknown_raises() -> None:
    with pytest.raises(InvalidArguments, match="for all arguments of a prompt"):
        parameters_of(str).bind({"x": 1})  # type: ignore[dict-item]  # what a peer may send
    with pytest.raises(InvalidArguments, match="required"):
        parameters_of(str).bind({})
    with pytest.raises(InvalidArguments, match="unknown name"):
        parameters_of(str).bind({"x": "1", "y": "2"})


def test_argument_with_json_described_as_such() -> None:
    (argument,) = parameters_of(list[int]).arguments
    assert argument.description == "JSON: an array"
    (argument,) = parameters_of(Annotated[list[int], Param(description="The pages.")]).arguments
    assert argument.description == "The pages. (JSON: an array)"


@given(st.integers(-(10**300), 10**300) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False))
def test_generated_number_round_trips(value: float) -> None:
    assert parameters_of(type(value)).bind({"x": str(value)}) == {"x": value}


@given(st.text())
def test_generated_text_is_unchanged(value: str) -> None:
    assert parameters_of(str).bind({"x": value}) == {"x": value}
