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


async def start_error(parameters: StdioParameters) -> str:
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
def test_command_string_rejected(command: str) -> None:
    with pytest.raises(TypeError, match=r"must be a list .* no shell"):
        StdioParameters(command=command)


@pytest.mark.parametrize("command", [[], [""]])
def test_command_without_program_rejected(command: list[str]) -> None:
    with pytest.raises(ValueError, match="must at least name a program"):
        StdioParameters(command=command)


def test_command_with_nul_rejected() -> None:
    with pytest.raises(ValueError, match="NUL character in 'a\\\\x00b'"):
        StdioParameters(command=["server", "a\0b"])


def test_command_paths_accepted() -> None:
    assert StdioParameters(command=[Path("/bin/server"), "-v"]).command == ("/bin/server", "-v")


@pytest.mark.parametrize(("env", "word"), [({"": "x"}, "''"), ({"A=B": "x"}, "'A=B'"), ({"A": "x\0"}, "value of A")])
def test_env_invalid_variables_rejected(env: Mapping[str, str], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        StdioParameters(command=["x"], env=env)


def test_env_values_hidden_in_repr() -> None:
    assert "hunter2" not in repr(StdioParameters(command=["x"], env={"PASSWORD": "hunter2"}))


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_grace_not_finite_rejected(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"Grace\.terminate"):
        Grace(terminate=seconds)


def test_env_inherits_only_harmless_variables() -> None:
    ours = {"PATH": "/bin", "HOME": "/home/ada", "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "x", "PYTHONPATH": "y"}
    inherited = child_environment(StdioParameters(command=["x"]), ours=ours, windows=False)
    assert inherited == {"PATH": "/bin", "HOME": "/home/ada", "LC_ALL": "C"}


def test_env_shell_functions_not_inherited() -> None:
    assert child_environment(StdioParameters(command=["x"]), ours={"TERM": "() { :;}; evil"}, windows=False) == {}


def test_env_given_variables_override_inherited() -> None:
    parameters = StdioParameters(command=["x"], env={"HOME": "/tmp", "TOKEN": "t"})
    merged = child_environment(parameters, ours={"PATH": "/bin", "HOME": "/home/ada"}, windows=False)
    assert merged == {"PATH": "/bin", "HOME": "/tmp", "TOKEN": "t"}


def test_env_inherit_env_inherits_everything() -> None:
    parameters = StdioParameters(command=["x"], env={"B": "2"}, inherit_env=True)
    assert child_environment(parameters, ours={"A": "()", "B": "1"}, windows=False) == {"A": "()", "B": "2"}


def test_env_names_case_insensitive_on_windows() -> None:
    parameters = StdioParameters(command=["x"], env={"Path": r"C:\mine"})
    ours = {"PATH": r"C:\theirs", "SystemRoot": r"C:\Windows", "Secret": "s", "HOME": "x"}
    merged = child_environment(parameters, ours=ours, windows=True)
    assert merged == {"PATH": r"C:\mine", "SYSTEMROOT": r"C:\Windows"}


def test_batch_command_line_quotes_words() -> None:
    line = batch_command_line([r"C:\Program Files\npx.cmd", "a & b", "c|d", "dir\\", ""])
    assert line == r'"C:\Program Files\npx.cmd" "a & b" "c|d" "dir\\" ""'


@pytest.mark.parametrize("word", ['say "hi"', "%PATH%", "!x!", "a\nb", "a\rb"])
def test_batch_command_line_unquotable_word_rejected(word: str) -> None:
    with pytest.raises(ValueError, match="cannot be passed safely to a batch file"):
        batch_command_line(["x.cmd", word])


@pytest.mark.property
@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters='"%!\r\n\0')), min_size=1))
def test_batch_command_line_any_words_quoted(words: list[str]) -> None:
    line = batch_command_line(words)
    assert line.count('"') == 2 * len(words)
    assert [part.rstrip("\\") for part in line[1:-1].split('" "')] == [word.rstrip("\\") for word in words]


def test_program_searched_in_path_of_child(tmp_path: Path) -> None:
    program = executable(tmp_path / "server", "#!/bin/sh\n")
    assert _resolved(["server", "-v"], str(tmp_path)) == (str(program), "-v")
    with pytest.raises(FileNotFoundError):
        _resolved(["server"], "/nowhere")


def test_batch_file_found_and_quoted(tmp_path: Path) -> None:
    program = executable(tmp_path / "npx.CMD", "")
    assert _resolved(["npx.CMD", "a&b"], str(tmp_path)) == f'"{program}" "a&b"'
    assert PureWindowsPath(program).name == "npx.CMD"


def test_command_description_truncated() -> None:
    description = describe_command(["server", "a b", "x" * 500])
    assert description.startswith("server 'a b' xxx")
    assert description.endswith("x...")
    assert len(description) == 200


async def test_start_missing_program_names_searched_path() -> None:
    message = await start_error(StdioParameters(command=["no-such-server", "-v"], env={"PATH": "/nowhere:/bin"}))
    assert "cannot start no-such-server -v: 'no-such-server' is not in the child's PATH, '/nowhere:/bin'" in message


async def test_start_missing_path_named_relative_to_cwd(tmp_path: Path) -> None:
    message = await start_error(StdioParameters(command=["./server"], cwd=tmp_path))
    assert f"the file '{tmp_path}/./server' does not exist" in message


async def test_start_file_not_executable_named(tmp_path: Path) -> None:
    program = executable(tmp_path / "server", "#!/bin/sh\n", 0o644)
    assert f"'{program}' is not executable" in await start_error(StdioParameters(command=[program]))


async def test_start_file_on_path_not_executable_named(tmp_path: Path) -> None:
    executable(tmp_path / "server", "#!/bin/sh\n", 0o644)
    message = await start_error(StdioParameters(command=["server"], env={"PATH": str(tmp_path)}))
    assert "'server' is not executable" in message


async def test_start_missing_working_directory_named(tmp_path: Path) -> None:
    message = await start_error(StdioParameters(command=["env"], cwd=tmp_path / "gone"))
    assert f"the working directory '{tmp_path}/gone' (StdioParameters.cwd) is not an existing directory" in message


async def test_start_missing_interpreter_named(tmp_path: Path) -> None:
    program = executable(tmp_path / "server", "#!/no/such/interpreter\n")
    assert "the interpreter in its first line (#!) does not" in await start_error(StdioParameters(command=[program]))


async def test_start_file_not_program_named(tmp_path: Path) -> None:
    program = executable(tmp_path / "server", "print('hello')\n")
    assert "is not an executable format; if it is a script, add a first line with #!" in await start_error(
        StdioParameters(command=[program])
    )


async def test_start_unencodable_word_raises() -> None:
    assert "surrogates not allowed" in await start_error(StdioParameters(command=["env", "\ud800"]))


async def test_start_other_os_error_keeps_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_args: object, **_options: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", exhausted)
    assert "Resource temporarily unavailable (EAGAIN)" in await start_error(StdioParameters(command=[sys.executable]))


async def test_start_failure_leaks_no_descriptor() -> None:
    before = sorted(os.listdir("/dev/fd"))
    await start_error(StdioParameters(command=["no-such-server"]))
    assert sorted(os.listdir("/dev/fd")) == before
