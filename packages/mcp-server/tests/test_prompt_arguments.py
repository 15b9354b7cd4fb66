"""The arguments of prompts: texts on the wire, values for the function."""

from __future__ import annotations

import datetime
import enum
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.types.prompts import PromptArgument
from mcp_server.errors import RegistrationError
from mcp_server.schema.text_arguments import PromptParameters, prompt_arguments
from mcp_server.schema.type_spec import InvalidArguments, Param


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Context:
    """What the caller provides."""


def taking(hint: object) -> PromptParameters:
    """The parameters of a prompt with one parameter of this type."""

    def prompt(x: object) -> None: ...

    prompt.__annotations__["x"] = hint
    return prompt_arguments(prompt)


def test_the_signature_and_the_docstring_tell_the_arguments() -> None:
    def prompt(context: Context, topic, tone: Annotated[str, Param(title="Tone", description="How")] = "dry") -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001  # the subject
        """Writes a poem.

        Args:
            topic: What about.
        """
        return f"{topic}{tone}"

    compiled = prompt_arguments(prompt, injected=[Context])
    assert compiled.arguments == (
        PromptArgument(name="topic", description="What about.", required=True),
        PromptArgument(name="tone", title="Tone", description="How", required=False),
    )
    assert compiled.description == "Writes a poem."
    assert compiled.injected == {"context": Context}
    assert compiled.bind({"topic": "3"}) == {"topic": "3"}


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
    ],
)
def test_a_text_is_read_as_the_type_of_the_parameter(hint: object, text: str, value: object) -> None:
    bound = taking(hint).bind({"x": text})
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
    ],
)
def test_a_text_that_does_not_fit_is_refused(hint: object, text: str, message: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        taking(hint).bind({"x": text})
    assert message in str(caught.value)


def test_what_is_no_text_missing_or_unknown_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="for all arguments of a prompt"):
        taking(str).bind({"x": 1})  # type: ignore[dict-item]  # what a peer may send
    with pytest.raises(InvalidArguments, match="required"):
        taking(str).bind({})
    with pytest.raises(InvalidArguments, match="unknown name"):
        taking(str).bind({"x": "1", "y": "2"})


@pytest.mark.parametrize("hint", [list[str], dict[str, int], tuple[int, int], list])
def test_a_type_that_no_text_can_stand_for_is_refused_at_registration(hint: object) -> None:
    with pytest.raises(RegistrationError, match="parameter 'x'"):
        taking(hint)


@given(st.integers(-(10**300), 10**300) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_back(value: float) -> None:
    assert taking(type(value)).bind({"x": str(value)}) == {"x": value}


@given(st.text())
def test_any_text_is_a_text(value: str) -> None:
    assert taking(str).bind({"x": value}) == {"x": value}
