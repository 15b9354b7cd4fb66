from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.transports.stdio.command import (
    Grace,
    StdioParameters,
    _resolved,
    batch_command_line,
    child_environment,
    describe_command,
    spawn,
)
from mcp_core.errors import Phase, ProcessFailed

if TYPE_CHECKING:
    from collections.abc import Mapping


async def refusal(parameters: StdioParameters) -> str:
    with pytest.raises(ProcessFailed) as caught:
        await spawn(parameters)
    assert caught.value.exit_code is None
    assert caught.value.context.phase is Phase.CONNECT
    assert caught.value.__cause__ is not None
    return str(caught.value)


def executable(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("command", ["server --verbose", b"server"])
def test_a_command_that_is_a_string_is_refused_with_the_cure(command: str) -> None:
    with pytest.raises(TypeError, match=r"must be a list .* no shell"):
        StdioParameters(command=command)


@pytest.mark.parametrize("command", [[], [""]])
def test_a_command_without_a_program_is_refused(command: list[str]) -> None:
    with pytest.raises(ValueError, match="must at least name a program"):
        StdioParameters(command=command)


def test_a_command_with_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL character in 'a\\\\x00b'"):
        StdioParameters(command=["server", "a\0b"])


def test_a_command_may_have_paths() -> None:
    assert StdioParameters(command=[Path("/bin/server"), "-v"]).command == ("/bin/server", "-v")


@pytest.mark.parametrize(("env", "word"), [({"": "x"}, "''"), ({"A=B": "x"}, "'A=B'"), ({"A": "x\0"}, "value of A")])
def test_impossible_variables_are_refused(env: Mapping[str, str], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        StdioParameters(command=["x"], env=env)


def test_values_of_variables_are_not_shown() -> None:
    assert "hunter2" not in repr(StdioParameters(command=["x"], env={"PASSWORD": "hunter2"}))


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_a_grace_has_to_be_finite(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"Grace\.terminate"):
        Grace(terminate=seconds)


def test_only_harmless_variables_are_inherited() -> None:
    ours = {"PATH": "/bin", "HOME": "/home/ada", "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "x", "PYTHONPATH": "y"}
    inherited = child_environment(StdioParameters(command=["x"]), ours=ours, windows=False)
    assert inherited == {"PATH": "/bin", "HOME": "/home/ada", "LC_ALL": "C"}


def test_shell_functions_are_not_inherited() -> None:
    assert child_environment(StdioParameters(command=["x"]), ours={"TERM": "() { :;}; evil"}, windows=False) == {}


def test_given_variables_win_and_keep_the_others() -> None:
    parameters = StdioParameters(command=["x"], env={"HOME": "/tmp", "TOKEN": "t"})
    merged = child_environment(parameters, ours={"PATH": "/bin", "HOME": "/home/ada"}, windows=False)
    assert merged == {"PATH": "/bin", "HOME": "/tmp", "TOKEN": "t"}


def test_everything_is_inherited_when_asked_for() -> None:
    parameters = StdioParameters(command=["x"], env={"B": "2"}, inherit_env=True)
    assert child_environment(parameters, ours={"A": "()", "B": "1"}, windows=False) == {"A": "()", "B": "2"}


def test_names_on_windows_have_no_case() -> None:
    parameters = StdioParameters(command=["x"], env={"Path": r"C:\mine"})
    ours = {"PATH": r"C:\theirs", "SystemRoot": r"C:\Windows", "Secret": "s", "HOME": "x"}
    merged = child_environment(parameters, ours=ours, windows=True)
    assert merged == {"PATH": r"C:\mine", "SYSTEMROOT": r"C:\Windows"}


def test_a_batch_file_gets_each_word_quoted() -> None:
    line = batch_command_line([r"C:\Program Files\npx.cmd", "a & b", "c|d", "dir\\", ""])
    assert line == r'"C:\Program Files\npx.cmd" "a & b" "c|d" "dir\\" ""'


@pytest.mark.parametrize("word", ['say "hi"', "%PATH%", "!x!", "a\nb", "a\rb"])
def test_a_batch_file_gets_no_word_that_cannot_be_quoted(word: str) -> None:
    with pytest.raises(ValueError, match="cannot be passed safely to a batch file"):
        batch_command_line(["x.cmd", word])


@pytest.mark.property
@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters='"%!\r\n\0')), min_size=1))
def test_a_batch_command_line_has_only_quoted_words(words: list[str]) -> None:
    line = batch_command_line(words)
    assert line.count('"') == 2 * len(words)
    assert [part.rstrip("\\") for part in line[1:-1].split('" "')] == [word.rstrip("\\") for word in words]


def test_a_program_is_searched_in_the_path_of_the_child(tmp_path: Path) -> None:
    program = executable(tmp_path / "server", "#!/bin/sh\n")
    assert _resolved(["server", "-v"], str(tmp_path)) == (str(program), "-v")
    with pytest.raises(FileNotFoundError):
        _resolved(["server"], "/nowhere")


def test_a_batch_file_is_found_and_quoted(tmp_path: Path) -> None:
    program = executable(tmp_path / "npx.CMD", "")
    assert _resolved(["npx.CMD", "a&b"], str(tmp_path)) == f'"{program}" "a&b"'
    assert PureWindowsPath(program).name == "npx.CMD"


def test_a_long_command_line_is_clipped() -> None:
    description = describe_command(["server", "a b", "x" * 500])
    assert description.startswith("server 'a b' xxx")
    assert description.endswith("x...")
    assert len(description) == 200


async def test_a_program_that_does_not_exist_is_named_with_the_path_that_was_searched() -> None:
    message = await refusal(StdioParameters(command=["no-such-server", "-v"], env={"PATH": "/nowhere:/bin"}))
    assert "cannot start no-such-server -v: 'no-such-server' is not in the child's PATH, '/nowhere:/bin'" in message


async def test_a_path_that_does_not_exist_is_named_as_the_child_would_see_it(tmp_path: Path) -> None:
    message = await refusal(StdioParameters(command=["./server"], cwd=tmp_path))
    assert f"the file '{tmp_path}/./server' does not exist" in message


async def test_a_file_that_is_not_executable_is_named(tmp_path: Path) -> None:
    program = executable(tmp_path / "server", "#!/bin/sh\n", 0o644)
    assert f"'{program}' is not executable" in await refusal(StdioParameters(command=[program]))


async def test_a_file_on_the_path_that_is_not_executable_is_named(tmp_path: Path) -> None:
    executable(tmp_path / "server", "#!/bin/sh\n", 0o644)
    message = await refusal(StdioParameters(command=["server"], env={"PATH": str(tmp_path)}))
    assert "'server' is not executable" in message


async def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    message = await refusal(StdioParameters(command=["env"], cwd=tmp_path / "gone"))
    assert f"the working directory '{tmp_path}/gone' (StdioParameters.cwd) is not an existing directory" in message


async def test_a_missing_interpreter_is_named(tmp_path: Path) -> None:
    program = executable(tmp_path / "server", "#!/no/such/interpreter\n")
    assert "the interpreter in its first line (#!) does not" in await refusal(StdioParameters(command=[program]))


async def test_a_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    program = executable(tmp_path / "server", "print('hello')\n")
    assert "is not an executable format; if it is a script, add a first line with #!" in await refusal(
        StdioParameters(command=[program])
    )


async def test_a_value_that_the_system_cannot_take_is_a_refusal_too() -> None:
    assert "surrogates not allowed" in await refusal(StdioParameters(command=["env", "\ud800"]))


async def test_any_other_refusal_of_the_system_keeps_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_args: object, **_options: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", exhausted)
    assert "Resource temporarily unavailable (EAGAIN)" in await refusal(StdioParameters(command=[sys.executable]))


async def test_a_refused_start_leaks_no_descriptor() -> None:
    before = sorted(os.listdir("/dev/fd"))
    await refusal(StdioParameters(command=["no-such-server"]))
    assert sorted(os.listdir("/dev/fd")) == before
