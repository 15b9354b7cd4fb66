"""The tracebacks that the author of a server sees."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Final

import pytest
import trio

from mcp_server import RegistrationError, Server
from mcp_server.cli.observability import JsonFormatter
from mcp_server.tracebacks import format_user_error

SOURCE: Final = """
import contextlib, json
import attrs, trio

def divide(a, b):
    return a / b

def parse():
    return json.loads("{")

def explain():
    try:
        divide(1, 0)
    except ZeroDivisionError as error:
        error.add_note("the second number is 0")
        raise ValueError("no quotient") from error

def retry():
    try:
        divide(1, 0)
    except ZeroDivisionError:
        parse()

async def child():
    divide(1, 0)

async def nest():
    async with trio.open_nursery() as outer:
        async with trio.open_nursery() as inner:
            inner.start_soon(child)

async def several():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)
        nursery.start_soon(nest)

async def alone():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)

async def raise_from_group():
    try:
        await alone()
    except* ZeroDivisionError as group:
        raise group.exceptions[0] from group

def recurse(depth=0):
    if depth == 400:
        raise LookupError("deep")
    step(depth)

def step(depth):
    recurse(depth + 1)

def not_positive(instance, attribute, value):
    raise ValueError("must be positive")

@attrs.define
class Money:
    amount: int = attrs.field(validator=not_positive)

def pay():
    Money(-1)
"""


@pytest.fixture
def module(tmp_path: Path) -> AuthorModule:
    return AuthorModule(tmp_path / "weather.py", SOURCE)


def without_first_frame(error: BaseException) -> BaseException:
    """Return an exception without the frame of the test."""
    traceback = error.__traceback__
    assert traceback is not None
    return error.with_traceback(traceback.tb_next)


class AuthorModule:
    """Runs functions of a module of an author, and returns the text of their exceptions."""

    def __init__(self, path: Path, source: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        self.path: Final = path
        self._names: Final[dict[str, object]] = {"__name__": "weather"}
        exec(compile(source, str(path), "exec"), self._names)  # the module under test

    def error(self, name: str) -> BaseException:
        """Return the exception of a function."""
        function = self._names[name]
        assert callable(function)
        try:
            trio.run(function) if name in {"nest", "several", "alone", "raise_from_group"} else function()
        except BaseException as error:  # noqa: BLE001  # whatever the function raises
            return without_first_frame(error)
        raise AssertionError("the function raises")

    def text(self, name: str) -> str:
        """Return the text of the exception, with the path of the module shortened."""
        return format_user_error(self.error(name)).replace(str(self.path), "weather.py")


def test_frames_of_libraries_are_folded_into_one_line(module: AuthorModule) -> None:
    text = module.text("parse")
    assert text.startswith('Traceback (most recent call last):\n  File "weather.py", line 9, in parse\n')
    assert "\n  … 3 frames of json\njson.decoder.JSONDecodeError: Expecting" in text


def test_cause_and_notes_are_shown(module: AuthorModule) -> None:
    text = module.text("explain")
    assert (
        "ZeroDivisionError: division by zero\nthe second number is 0\n\nThe above exception was the direct cause"
        in text
    )
    assert text.endswith("ValueError: no quotient")
    assert '  File "weather.py", line 6, in divide\n    return a / b\n' in text


def test_context_is_shown(module: AuthorModule) -> None:
    text = module.text("retry")
    assert "ZeroDivisionError: division by zero\n\nDuring handling of the above exception" in text
    assert "json.decoder.JSONDecodeError" in text


@pytest.mark.parametrize("name", ["alone", "nest"])
def test_group_of_one_is_shown_as_exception(module: AuthorModule, name: str) -> None:
    text = module.text(name)
    assert "Group" not in text
    assert text.count("Traceback") == 1
    assert f"in {name}\n    async with trio.open_nursery()" in text
    assert text.count("frame of trio\n") + text.count("frames of trio\n") > 1
    assert text.index(f"in {name}") < text.index("in child") < text.index("in divide")
    assert text.endswith("ZeroDivisionError: division by zero")


def test_notes_of_group_of_one_are_shown(module: AuthorModule) -> None:
    group = module.error("alone")
    group.add_note("while it rained")
    assert format_user_error(group).endswith("ZeroDivisionError: division by zero\nwhile it rained")


def test_group_of_several_shows_each_exception(module: AuthorModule) -> None:
    text = module.text("several")
    assert "ExceptionGroup: Exceptions from Trio nursery (2 sub-exceptions)" in text
    assert text.count("ZeroDivisionError") == 2
    assert text.count("Group Traceback") == 1


def test_exception_raised_from_its_own_group_is_shown_once(module: AuthorModule) -> None:
    text = module.text("raise_from_group")
    assert text.count("ZeroDivisionError") == 1
    assert "cause" not in text


def test_deep_recursion_shows_first_and_last_frames(module: AuthorModule) -> None:
    text = module.text("recurse")
    assert len(text.splitlines()) < 70
    assert " frames of weather.py\n" in text
    assert 'raise LookupError("deep")\nLookupError: deep' in text


def test_generated_code_of_attrs_is_folded(module: AuthorModule) -> None:
    text = module.text("pay")
    assert "    Money(-1)\n" in text
    assert "  … 1 frame of attrs\n" in text


def test_format_of_everything_has_all_frames_and_groups(module: AuthorModule) -> None:
    text = format_user_error(module.error("alone"), everything=True)
    assert "…" not in text
    assert "ExceptionGroup: Exceptions from Trio nursery (1 sub-exception)" in text


def test_syntax_error_shows_line_and_caret(tmp_path: Path) -> None:
    path = tmp_path / "weather.py"
    path.write_text("x = 1\ndef f(:\n    pass\n")
    with pytest.raises(SyntaxError) as raised:
        compile(path.read_text(), str(path), "exec")
    text = format_user_error(raised.value.with_traceback(None))
    assert text == f'  File "{path}", line 2\n    def f(:\n          ^\nSyntaxError: invalid syntax'


def test_server_in_site_packages_keeps_its_frames(tmp_path: Path) -> None:
    module = AuthorModule(tmp_path / "site-packages" / "weather.py", SOURCE)
    error = module.error("alone")
    text = format_user_error(error)
    assert f'File "{module.path}", line 6, in divide' in text
    assert "frame of trio" in text


def test_failure_without_frame_of_author_shows_everything() -> None:
    with pytest.raises(ValueError, match="Expecting") as raised:
        json.loads("{")
    assert "in raw_decode" in format_user_error(without_first_frame(raised.value))


def test_failure_within_trio_shows_all_frames() -> None:
    with pytest.raises(RuntimeError) as raised:
        trio.current_time()
    assert "in current_time" in format_user_error(without_first_frame(raised.value))


def test_error_of_library_without_frame_of_author_shows_its_message() -> None:
    with pytest.raises(RegistrationError) as raised:
        Server("weather", version="1").add_tool(len, name="")
    text = format_user_error(without_first_frame(raised.value))
    assert text.startswith("Traceback (most recent call last):\n  … ")
    assert len(text.splitlines()) == 3


# --- the log ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "is_folded"), [(logging.WARNING, True), (logging.DEBUG, False)])
@pytest.mark.parametrize("formatter", [logging.Formatter(), JsonFormatter()], ids=["text", "json"])
def test_log_folds_tracebacks_above_debug_level(
    module: AuthorModule, level: int, is_folded: bool, formatter: logging.Formatter
) -> None:
    logger = logging.getLogger("mcp_server")
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(formatter)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        logger.error("tool failed", exc_info=module.error("parse"))
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
    assert ("in raw_decode" not in output.getvalue()) is is_folded
    assert "in parse" in output.getvalue()
