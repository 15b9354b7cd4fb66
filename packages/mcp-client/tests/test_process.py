from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcp_client.transports.stdio.command import Grace, StdioParameters, child_environment
from mcp_client.transports.stdio.process import ChildProcess
from mcp_core.errors import ConnectionEnded, ProcessFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

# In each test, the shutdown steps that it needs are short and the others never end: a step that is
# skipped or comes too early changes the exit code.
LONG_GRACE = Grace(close_stdin=60, terminate=60, kill=60)
SHORT_EOF_GRACE = Grace(close_stdin=0.01, terminate=60, kill=60)
SHORT_GRACE = Grace(close_stdin=0.01, terminate=0.05, kill=60)

ECHO = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()\n"
IGNORES_EOF = "import signal\nprint('ready', flush=True)\nwhile True:\n    signal.pause()\n"
IGNORES_ALL = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{IGNORES_EOF}"
# Prints the id of a grandchild, which holds its stdout, when that is ready, and then runs the code of the argument.
FORKS = """
import subprocess, sys
grandchild = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.DEVNULL, {options})
print(grandchild.pid, flush=True)
"""


@pytest.fixture(autouse=True)
async def safety_net() -> AsyncIterator[None]:
    with trio.fail_after(90):
        yield


def python(
    code: str, *arguments: str, grace: Grace = LONG_GRACE, on_stderr_line: Callable[[str], object] | None = None
) -> StdioParameters:
    command = [sys.executable, "-I", "-S", "-c", code, *arguments]
    return StdioParameters(command=command, grace=grace, on_stderr_line=on_stderr_line)


@contextlib.asynccontextmanager
async def open_child(parameters: StdioParameters) -> AsyncIterator[ChildProcess]:
    async with trio.open_nursery() as nursery:
        child = await ChildProcess.open(parameters, nursery)
        yield child
        await child.aclose()


async def read_line(child: ChildProcess) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        data = await child.receive_some()
        assert data, f"the output ended: {await child.why_ended()}"
        line += data
    return line


async def read_lines(child: ChildProcess, count: int) -> list[bytes]:
    text = b""
    while text.count(b"\n") < count:
        data = await child.receive_some()
        assert data
        text += data
    return text.splitlines()


async def read_all(child: ChildProcess) -> bytes:
    text = bytearray()
    while data := await child.receive_some():
        text += data
    return bytes(text)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self/stat").exists():
        return True
    try:
        # Another process reaps a grandchild; a zombie counts as ended here.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def wait_until_ended(pid: int) -> None:
    while is_running(pid):
        await trio.lowlevel.checkpoint()


def is_reaped(pid: int) -> bool:
    """Return whether no child has this process id, not even as a zombie; -1 stands for any child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


async def test_bytes_sent_and_received() -> None:
    async with open_child(python(ECHO)) as child:
        for line in (b"one\n", b'{"two":2}\n', b"\xff\x00\n"):
            await child.send_all(line)
            assert await read_line(child) == line


@pytest.mark.spec("stdio.shutdown-close-stdin")
async def test_close_child_exiting_on_eof_gets_no_signal() -> None:
    async with open_child(python(ECHO)) as child:
        assert is_running(child.pid)
    assert child.exit_code == 0
    assert is_reaped(child.pid)


@pytest.mark.spec("stdio.shutdown-sigterm")
async def test_close_child_ignoring_eof_gets_sigterm() -> None:
    async with open_child(python(IGNORES_EOF, grace=SHORT_EOF_GRACE)) as child:
        assert await read_line(child) == b"ready\n"
    assert child.exit_code == -signal.SIGTERM
    assert is_reaped(child.pid)


@pytest.mark.spec("stdio.shutdown-sigkill", "stdio.shutdown-force-kill", "lifecycle.handle-shutdown-timeout")
async def test_close_child_ignoring_sigterm_killed() -> None:
    async with open_child(python(IGNORES_ALL, grace=SHORT_GRACE)) as child:
        assert await read_line(child) == b"ready\n"
    assert child.exit_code == -signal.SIGKILL
    assert is_reaped(child.pid)


async def test_close_waits_for_process_not_for_pipes() -> None:
    code = FORKS.format(options="") + "sys.stdin.read()"
    async with open_child(python(code, IGNORES_EOF)) as child:
        grandchild, ready = await read_lines(child, 2)
        assert ready == b"ready"
    assert child.exit_code == 0
    await wait_until_ended(int(grandchild))


async def test_close_grandchild_ignoring_sigterm_killed() -> None:
    code = FORKS.format(options="") + "sys.stdin.read()"
    async with open_child(python(code, IGNORES_ALL, grace=SHORT_GRACE)) as child:
        grandchild, _ready = await read_lines(child, 2)
    # The child reacts to the end of its stdin, unless the machine is slower than the grace.
    assert child.exit_code in {0, -signal.SIGTERM}
    await wait_until_ended(int(grandchild))


async def test_close_grandchild_of_killed_child_ends() -> None:
    code = FORKS.format(options="") + IGNORES_ALL
    async with open_child(python(code, IGNORES_ALL, grace=SHORT_GRACE)) as child:
        grandchild = (await read_lines(child, 3))[0]
    assert child.exit_code == -signal.SIGKILL
    await wait_until_ended(int(grandchild))


async def test_output_held_by_grandchild_ends_with_child() -> None:
    code = FORKS.format(options="") + "sys.stdin.readline()\nprint('last words', flush=True)"
    async with open_child(python(code, IGNORES_EOF)) as child:
        grandchild, _ready = await read_lines(child, 2)
        await child.send_all(b"exit\n")
        assert await read_all(child) == b"last words\n"
        await wait_until_ended(int(grandchild))
        assert child.exit_code == 0


async def test_output_held_outside_group_ends_with_child() -> None:
    code = FORKS.format(options="start_new_session=True") + "sys.stdin.readline()"
    async with open_child(python(code, IGNORES_EOF)) as child:
        escaped = int((await read_lines(child, 2))[0])
        try:
            await child.send_all(b"exit\n")
            # The first call waits and is woken; the second call does not wait.
            assert await child.receive_some() == b""
            assert await child.receive_some() == b""
            with pytest.raises(ConnectionEnded, match="exited with status 0"):
                await child.send_all(b"x" * 1_000_000)
            await child.aclose()
        finally:
            os.kill(escaped, signal.SIGKILL)


async def test_send_to_child_not_reading_cancelled() -> None:
    async with open_child(python(IGNORES_EOF, grace=SHORT_EOF_GRACE)) as child:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child.send_all, b"x" * 10_000_000)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert nursery.cancel_scope.cancelled_caught


async def test_close_ends_waiting_send() -> None:
    async def send() -> None:
        with pytest.raises(ConnectionEnded, match="closed by this side"):
            await child.send_all(b"x" * 10_000_000)

    async with open_child(python(IGNORES_EOF, grace=SHORT_EOF_GRACE)) as child, trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        await child.aclose()


async def test_close_ends_waiting_receive() -> None:
    async def receive() -> None:
        assert await child.receive_some() == b""

    async with open_child(python(ECHO)) as child, trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        await child.aclose()
        assert await child.receive_some() == b""


async def test_close_ends_receive_before_child_exits() -> None:
    received = trio.Event()

    async def receive() -> None:
        assert await child.receive_some() == b""
        received.set()

    async with open_child(python(IGNORES_EOF)) as child, trio.open_nursery() as nursery:
        await read_line(child)
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(child.aclose)
        await received.wait()
        os.kill(child.pid, signal.SIGKILL)


async def test_send_to_exited_child_with_reader_outside_group_raises() -> None:
    code = FORKS.format(options="start_new_session=True").replace("subprocess.DEVNULL", "None")
    async with open_child(python(code, IGNORES_EOF)) as child:
        escaped = int((await read_lines(child, 2))[0])
        try:
            with pytest.raises(ConnectionEnded, match="exited with status 0"):
                await child.send_all(b"x" * 1_000_000)
        finally:
            os.kill(escaped, signal.SIGKILL)


@pytest.mark.spec("stdio.stderr-drained", "stdio.stderr-logging", "stdio.stderr-not-error")
async def test_child_flooding_stderr_still_responds() -> None:
    code = (
        "import sys\n"
        "for line in sys.stdin.buffer:\n"
        "    for _ in range(50):\n"
        "        sys.stderr.buffer.write(b'x' * 99_999 + b'\\n')\n"
        "    sys.stderr.buffer.flush()\n"
        "    sys.stdout.buffer.write(line)\n"
        "    sys.stdout.buffer.flush()\n"
    )
    lengths: list[int] = []
    async with open_child(python(code, on_stderr_line=lambda line: lengths.append(len(line)))) as child:
        for number in range(10):
            await child.send_all(b"%d\n" % number)
            assert await read_line(child) == b"%d\n" % number
    assert child.exit_code == 0
    assert sum(lengths) == 10 * 50 * 99_999
    assert child.stderr_tail == "x" * (16 * 1024 - 1) + "\n"


async def test_on_stderr_line_failure_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(line: str) -> None:
        raise RuntimeError(line)

    async with open_child(
        python(f"import sys\nprint('warning', file=sys.stderr)\n{ECHO}", on_stderr_line=broken)
    ) as child:
        await child.send_all(b"hello\n")
        assert await read_line(child) == b"hello\n"
    assert [(record.name, record.levelno) for record in caplog.records] == [("mcp_client", logging.ERROR)]


@pytest.mark.spec("stdio.server-initiated-shutdown")
async def test_child_exit_reported_with_status_and_stderr() -> None:
    code = "import sys\nprint('no configuration file', file=sys.stderr)\nsys.exit(3)"
    async with open_child(python(code)) as child:
        assert await read_all(child) == b""
        error = await child.why_ended()
        assert error.message == "the server process exited with status 3"
        assert error.context.stderr_tail == "no configuration file\n"
        assert error.context.peer == child.describe()
        with pytest.raises(ConnectionEnded, match="exited with status 3"):
            await child.send_all(b"hello\n")
        assert child.exit_code == 3
        await child.aclose()
        assert (await child.why_ended()).message == "the server process exited with status 3"


async def test_child_closed_by_this_side_reported_without_stderr() -> None:
    async with open_child(python(f"import sys\nprint('warning', file=sys.stderr, flush=True)\n{ECHO}")) as child:
        await child.send_all(b"hello\n")
        assert await read_line(child) == b"hello\n"
        await child.aclose()
        error = await child.why_ended()
    assert error.message == "the connection to the server process was closed by this side"
    assert error.context.stderr_tail is None


# Real-time signals have no names; macOS does not have them.
REALTIME_SIGNALS = [(signal.SIGRTMIN + 1, f"signal {signal.SIGRTMIN + 1}")] if hasattr(signal, "SIGRTMIN") else []


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGTERM, "SIGTERM"), *REALTIME_SIGNALS]
)
async def test_child_terminated_by_signal_reported(number: int, name: str) -> None:
    async with open_child(python(f"import os\nos.kill(os.getpid(), {int(number)})")) as child:
        assert await read_all(child) == b""
        assert (await child.why_ended()).message == f"the server process was terminated by {name}"
        assert child.exit_code == -number


async def test_child_closing_stdout_reported_as_running() -> None:
    async with open_child(python("import os, sys\nos.close(1)\nsys.stdin.read()\nos._exit(5)")) as child:
        assert await read_all(child) == b""
        assert "still running" in (await child.why_ended()).message
        assert child.exit_code is None
    assert child.exit_code == 5


async def test_child_closing_stdin_send_raises() -> None:
    code = f"import os\nos.close(0)\n{IGNORES_EOF}"
    async with open_child(python(code, grace=SHORT_EOF_GRACE)) as child:
        assert await read_line(child) == b"ready\n"
        with pytest.raises(ConnectionEnded, match="still running"):
            await child.send_all(b"hello\n")


async def test_close_child_writing_output_finishes() -> None:
    code = "import sys\nsys.stdin.read()\nfor f in sys.stdout, sys.stderr:\n    f.write('x' * 1_000_000)\n    f.flush()"
    async with open_child(python(code)) as child:
        pass
    assert child.exit_code == 0
    assert child.stderr_tail == "x" * 16 * 1024


@pytest.mark.spec("stdio.large-message")
async def test_large_output_received() -> None:
    code = "import sys\nfor n in range(200):\n    sys.stdout.buffer.write(bytes([n]) * 100_000)"
    async with open_child(python(code)) as child:
        assert await read_all(child) == b"".join(bytes([n]) * 100_000 for n in range(200))


async def test_child_environment_matches_parameters() -> None:
    parameters = StdioParameters(command=["env", "-0"], env={"TOKEN": "a\nb"}, grace=LONG_GRACE)
    async with open_child(parameters) as child:
        listed = (await read_all(child)).decode().rstrip("\0").split("\0")
    assert dict(entry.split("=", 1) for entry in listed) == child_environment(parameters)
    assert "TOKEN=a\nb" in listed


async def test_child_runs_in_given_directory(tmp_path: Path) -> None:
    async with open_child(StdioParameters(command=["pwd", "-P"], cwd=tmp_path, grace=LONG_GRACE)) as child:
        assert await read_line(child) == os.fsencode(await trio.Path(tmp_path).resolve()) + b"\n"


async def test_child_leads_own_session_and_group() -> None:
    code = "import os\nprint(os.getsid(0) == os.getpgrp() == os.getpid())"
    async with open_child(python(code)) as child:
        assert await read_line(child) == b"True\n"


async def test_child_start_failure_raises_without_cancelling_nursery() -> None:
    async with trio.open_nursery() as nursery:
        with pytest.raises(ProcessFailed, match="'no-such-server' is not in the child's PATH"):
            await ChildProcess.open(StdioParameters(command=["no-such-server"]), nursery)
        assert not nursery.cancel_scope.cancel_called


async def test_description_names_command_and_pid() -> None:
    async with open_child(StdioParameters(command=["cat", "-u"], grace=LONG_GRACE)) as child:
        assert child.describe() == f"cat -u (pid {child.pid})"


async def test_receive_by_two_tasks_raises() -> None:
    async with open_child(python(ECHO)) as child, trio.open_nursery() as nursery:
        nursery.start_soon(child.receive_some)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError, match="another task is receiving"):
            await child.receive_some()
        await child.aclose()


async def test_process_without_pipes_rejected() -> None:
    process = await trio.lowlevel.open_process(["true"])
    with pytest.raises(TypeError, match=r"use ChildProcess\.open"):
        ChildProcess(python(""), process)
    await process.wait()


async def test_close_twice_then_send_raises() -> None:
    async with open_child(python(ECHO)) as child:
        await child.aclose()
        await child.aclose()
        with pytest.raises(ConnectionEnded, match="closed by this side"):
            await child.send_all(b"hello\n")
        assert await child.receive_some() == b""


async def test_close_by_several_tasks_waits_for_exit() -> None:
    async def close() -> None:
        await child.aclose()
        assert child.exit_code == -signal.SIGKILL
        assert is_reaped(child.pid)

    async with trio.open_nursery() as owner:
        child = await ChildProcess.open(python(IGNORES_ALL, grace=SHORT_GRACE), owner)
        await read_line(child)
        async with trio.open_nursery() as others:
            for _ in range(5):
                others.start_soon(close)


async def test_children_closed_in_opening_order() -> None:
    async with trio.open_nursery() as nursery:
        children = [await ChildProcess.open(python(ECHO), nursery) for _ in range(3)]
        for child in children:
            await child.aclose()
            assert child.exit_code == 0
        assert not nursery.cancel_scope.cancel_called


async def test_nursery_cancelled_child_exits_on_eof() -> None:
    async with trio.open_nursery() as nursery:
        child = await ChildProcess.open(python(ECHO), nursery)
        await child.send_all(b"up\n")
        assert await read_line(child) == b"up\n"
        nursery.cancel_scope.cancel()
    assert child.exit_code == 0
    assert is_reaped(child.pid)


async def test_close_continues_in_cancelled_task() -> None:
    async with trio.open_nursery() as owner:
        child = await ChildProcess.open(python(IGNORES_ALL, grace=SHORT_GRACE), owner)
        await read_line(child)
        with trio.CancelScope() as scope:
            scope.cancel()
            await child.aclose()
        assert child.exit_code == -signal.SIGKILL
        assert is_reaped(child.pid)


async def test_close_continues_when_nursery_cancelled() -> None:
    async with trio.open_nursery() as owner:
        child = await ChildProcess.open(python(IGNORES_ALL, grace=SHORT_GRACE), owner)
        await read_line(child)
        owner.start_soon(child.aclose)
        await trio.testing.wait_all_tasks_blocked()
        owner.cancel_scope.cancel()
    assert child.exit_code == -signal.SIGKILL


async def test_open_in_cancelled_scope_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def start_process(*_args: object, **_options: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr(subprocess, "Popen", start_process)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            scope.cancel()
            await ChildProcess.open(python(ECHO), nursery)
        assert scope.cancelled_caught


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_open_cancelled_during_start_stops_child(
    monkeypatch: pytest.MonkeyPatch,
    cancel_first: bool,
) -> None:
    popen = subprocess.Popen
    started: list[subprocess.Popen[bytes]] = []

    def start_and_cancel(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        if cancel_first:
            trio.from_thread.run_sync(scope.cancel)
        process: subprocess.Popen[bytes] = popen(command, **options)  # type: ignore[call-overload]  # passed through
        started.append(process)
        trio.from_thread.run_sync(scope.cancel)
        return process

    monkeypatch.setattr(subprocess, "Popen", start_and_cancel)
    before = sorted(os.listdir("/dev/fd"))
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            await ChildProcess.open(python(ECHO), nursery)
        assert scope.cancelled_caught
        assert started
        assert all(process.returncode is not None for process in started)
    assert started[0].returncode == 0
    assert sorted(os.listdir("/dev/fd")) == before


async def test_process_surviving_sigkill_logged_and_close_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Simulates a process that is stuck in the kernel: no signal arrives.
    kill_group = os.killpg
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", lambda _group, _number: None)
        grace = Grace(close_stdin=0, terminate=0, kill=0)
        async with trio.open_nursery() as nursery:
            child = await ChildProcess.open(python(IGNORES_EOF, grace=grace), nursery)
            await read_line(child)
            await child.aclose()
    assert [record.getMessage() for record in caplog.records] == [
        f"process group survives SIGKILL: process={child.describe()}"
    ]
    assert child.exit_code is None
    kill_group(child.pid, signal.SIGKILL)
    await child._process.wait()


async def test_50_children_leave_no_process_or_descriptor() -> None:
    async with open_child(python(ECHO)):
        pass
    before = sorted(os.listdir("/dev/fd"))
    for number in range(50):
        command = ["cat"] if number % 2 else ["sleep", "1000"]
        grace = LONG_GRACE if number % 2 else Grace(close_stdin=0)
        async with open_child(StdioParameters(command=command, grace=grace)) as child:
            pass
        assert child.exit_code == (0 if number % 2 else -signal.SIGTERM)
        with pytest.raises(ProcessLookupError):
            os.killpg(child.pid, 0)
    assert sorted(os.listdir("/dev/fd")) == before
    assert is_reaped(-1)
