from __future__ import annotations

import importlib.util
import sys
import time
from typing import TYPE_CHECKING

import pytest

from bench.call_path import CallRecorder, RecordedCall, lines_by_file, main, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import ModuleType

SOURCE = """
import attrs


@attrs.frozen
class Point:
    x: int


def once():
    return len("")


def twice():
    once()
    return once()


def numbers():
    yield 1
    yield 2


async def answer():
    return 42


class Box:
    def put(self):
        return [each for each in (1, 2)]
"""


def loaded(folder: Path, source: str) -> ModuleType:
    """Return the module `sample` with a source, in a folder."""
    file = folder / "sample.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location("sample", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded(folder: Path, action: Callable[[ModuleType], object]) -> list[RecordedCall]:
    """Return the calls into a module that an action causes."""
    module = loaded(folder, SOURCE)
    recorder = CallRecorder({f"{folder}/": "package"})
    since = time.monotonic_ns()
    recorder.start()
    try:
        action(module)
    finally:
        recorder.stop()
    module.once()
    return recorder.between(since, time.monotonic_ns())


def functions(calls: Sequence[RecordedCall]) -> list[str]:
    """Return the names of the functions, in the order of the calls."""
    return [call.function for call in calls]


def test_calls_into_package_are_recorded_in_order(tmp_path: Path) -> None:
    calls = recorded(tmp_path, lambda module: module.twice())
    assert functions(calls) == ["twice", "once", "once"]
    assert {call.file for call in calls} == {"package/sample.py"}


def test_generator_resumption_counts_as_call(tmp_path: Path) -> None:
    # Its start, its second value, and its end.
    assert functions(recorded(tmp_path, lambda module: list(module.numbers()))) == ["numbers"] * 3


def test_coroutine_without_wait_counts_once(tmp_path: Path) -> None:
    def run(module: ModuleType) -> None:
        with pytest.raises(StopIteration):
            module.answer().send(None)

    assert functions(recorded(tmp_path, run)) == ["answer"]


def test_method_call_has_qualified_name(tmp_path: Path) -> None:
    # Python 3.12 has no function of its own for a comprehension.
    assert functions(recorded(tmp_path, lambda module: module.Box().put()))[0] == "Box.put"


def test_generated_function_belongs_to_module_of_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def construct(module: ModuleType) -> None:
        monkeypatch.setitem(sys.modules, "sample", module)
        module.Point(1)

    (call,) = recorded(tmp_path, construct)
    assert (call.file, call.function) == ("package/sample.py", "generated Point.__init__")


def test_calls_outside_of_period_or_package_are_not_counted(tmp_path: Path) -> None:
    module = loaded(tmp_path, SOURCE)
    recorder = CallRecorder({f"{tmp_path}/": "package"})
    recorder.start()
    try:
        module.once()
        since = time.monotonic_ns()
        module.twice()
        functions([])
        until = time.monotonic_ns()
        module.once()
    finally:
        recorder.stop()
    assert len(recorder.between(since, until)) == 3


def test_path_joins_both_processes_in_order_of_time() -> None:
    client = [RecordedCall(1, "a.py", "send"), RecordedCall(5, "b.py", "receive"), RecordedCall(6, "b.py", "receive")]
    server = [
        RecordedCall(2, "c.py", "serve"),
        RecordedCall(3, "a.py", "send"),
        RecordedCall(4, "d.py", "generated Point.__init__"),
    ]
    path = path_of(client, server)
    assert [(step.side, step.function, step.calls) for step in path.steps] == [
        ("client", "send", 1),
        ("server", "serve", 1),
        ("server", "send", 1),
        ("server", "generated Point.__init__", 1),
        ("client", "receive", 2),
    ]
    assert path.files == 3
    assert path.calls == 5
    assert path.generated == 1
    assert lines_by_file(path.steps) == [
        "client    1  a.py: send",
        "server    1  c.py: serve",
        "server    1  a.py: send",
        "client    2  b.py: receive",
    ]


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_path_of_tool_call_crosses_client_and_server(transport: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--transport", transport, "--revision", "2026-07-28", "--calls", "2"])
    printed = capsys.readouterr().out
    assert printed.startswith(f"{transport}, 2026-07-28: ")
    assert "mcp_client/client.py:Client.call_tool" in printed
    assert "mcp_server/features/tools.py:Tools._call" in printed
