from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcp_client.transports.stdio.command import Grace
from mcp_client.transports.stdio.process_group import ProcessGroup, guard_against_our_death

if TYPE_CHECKING:
    from collections.abc import Iterator

SLEEPER = ["sleep", "1000"]


@pytest.fixture
def leader() -> Iterator[subprocess.Popen[bytes]]:
    # In the session of this process, unlike a real group, so that a second child can join the group.
    with subprocess.Popen(SLEEPER, process_group=0) as process:
        yield process
        process.kill()


@pytest.fixture
def member(leader: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEPER, process_group=leader.pid) as process:
        yield process
        process.kill()


def is_reaped(pid: int) -> bool:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def test_signal_reaches_all_members(leader: subprocess.Popen[bytes], member: subprocess.Popen[bytes]) -> None:
    group = ProcessGroup(leader.pid)
    assert group.terminate()
    assert leader.wait() == -signal.SIGTERM
    assert member.wait() == -signal.SIGTERM


def test_signal_to_empty_group_returns_false(leader: subprocess.Popen[bytes]) -> None:
    group = ProcessGroup(leader.pid)
    assert group.kill()
    leader.wait()
    assert not group.terminate()
    assert not group.kill()


@pytest.fixture(params=[True, False], ids=["with /proc", "without /proc"])
def has_proc(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:

        def missing(path: str) -> list[str]:
            raise FileNotFoundError(path)

        monkeypatch.setattr(os, "listdir", missing)
    return bool(request.param)


@pytest.mark.usefixtures("has_proc")
async def test_gone_waits_for_last_member(leader: subprocess.Popen[bytes], member: subprocess.Popen[bytes]) -> None:
    group = ProcessGroup(leader.pid)
    gone = trio.Event()

    async def wait_until_gone() -> None:
        await group.gone()
        gone.set()

    leader.kill()
    leader.wait()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_until_gone)
            await trio.testing.wait_all_tasks_blocked(cushion=0.01)
            assert not gone.is_set()
            member.kill()
    # The member was a child of this process, as an adopted one would be.
    assert is_reaped(member.pid)


async def test_gone_ignores_unreaped_zombie(
    leader: subprocess.Popen[bytes], member: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_our_child(_pid: int, _options: int) -> tuple[int, int]:
        raise ChildProcessError

    group = ProcessGroup(leader.pid)
    group.kill()
    leader.wait()
    with monkeypatch.context() as patched, trio.fail_after(60):
        patched.setattr(os, "waitpid", not_our_child)
        await group.gone()
        # The zombie is still a member.
        assert group.kill()


async def test_gone_ignores_process_ending_during_scan(
    leader: subprocess.Popen[bytes], member: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    leader.kill()
    leader.wait()
    monkeypatch.setattr(os, "listdir", lambda _path: ["self", str(leader.pid)])
    with trio.fail_after(60):
        await ProcessGroup(leader.pid).gone()
    assert member.poll() is None


async def test_guard_without_shell_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_args: object, **_options: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(subprocess, "Popen", missing)
    await guard_against_our_death(1, Grace())


DYING_CLIENT = """
    import os, signal, sys, trio
    from mcp_client.transports.stdio.command import Grace, StdioParameters
    from mcp_client.transports.stdio.process import ChildProcess

    started = []
    open_process = trio.lowlevel.open_process

    async def counted(*args, **options):
        started.append(await open_process(*args, **options))
        return started[-1]

    async def main():
        trio.lowlevel.open_process = counted
        command = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
        async with trio.open_nursery() as nursery:
            await ChildProcess.open(StdioParameters(command=command, grace=Grace(close_stdin=0, terminate=0)), nursery)
            while len(started) < 2:
                await trio.lowlevel.checkpoint()
            os.write(1, b"guarded\\n")
            sys.stdin.read()

    trio.run(main)
"""

STUBBORN_CHILD = """
import signal, socket, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
alive = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
helper = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[alive.fileno()])
while True:
    signal.pause()
"""


async def test_guard_kills_child_and_helpers_after_client_killed() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = str(listener.socket.getsockname()[1])
    async with listener:
        with trio.fail_after(60):
            client = await trio.lowlevel.open_process(
                [sys.executable, "-c", textwrap.dedent(DYING_CLIENT), STUBBORN_CHILD, port],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert client.stdio is not None
            async with client.stdio, await listener.accept() as alive:
                assert await client.stdio.receive_some() == b"guarded\n"
                client.kill()
                await client.wait()
                # Child and helper hold the peer socket, which ends when both have ended.
                assert await alive.receive_some() == b""
