"""The commands `mcp-client record` and `mcp-client replay`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import trio

from mcp_client.cli.parser import USAGE, CommandParser
from mcp_client.recording import InvalidRecording, Recorder, Replay, read_recording
from mcp_client.transports.stdio.command import describe_command
from mcp_core.trio.nursery import open_private_nursery

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run_recording"]

UNREACHABLE: Final = 3
INTERRUPTED: Final = 130

_CHUNK: Final = 64 * 1024
"""The capacity of a pipe on Linux, in bytes."""

_LINGER: Final = 0.5
"""Time to read the rest of stdout after the server's exit, in seconds. Its output is then in the pipe, and is read at once,
unless a child of the server holds the pipe open."""

_RECORD: Final = """\
A host application starts `mcp-client record` in place of the server. Stdin, stdout and stderr are those of the server.

In a shell, without --output, the recording is written to stdout, and the messages of the client are read from stdin:
  mcp-client record -- COMMAND < messages.jsonl > session.jsonl

Strings of members such as `password` and `authorization`, and credentials such as `Bearer ...`, are recorded as ***.
The environment is not recorded. The exit status is that of the server; 128 plus the number of a signal that ended it.
"""


def run_recording(words: Sequence[str], command: Sequence[str], summary: str) -> int:
    """Run `record` or `replay`.

    Args:
        words: The command line before `--`, from the name of the command.
        command: The words after `--`.
        summary: What the command does.

    Returns:
        The exit code.
    """
    name, *given = words
    if name == "record":
        parser = CommandParser(
            "mcp-client record",
            usage="[--output FILE] -- COMMAND",
            summary=summary,
            examples=["mcp-client probe -- mcp-client record --output session.jsonl -- python weather.py"],
            epilog=_RECORD,
        )
        parser.add_argument("--output", metavar="FILE", help="write the recording to a file, and be transparent")
    else:
        parser = CommandParser(
            "mcp-client replay", summary=summary, examples=["mcp-client probe -- mcp-client replay session.jsonl"]
        )
        parser.add_argument("file", help="the recording")
    options = parser.parse(given)
    if name == "record" and not command:
        parser.error("no server: pass its command after `--`")
    if name == "replay" and command:
        parser.error("a recording replaces the server: pass no command")
    try:
        return _record(command, options.output) if name == "record" else _replay(options.file)
    except KeyboardInterrupt:
        return INTERRUPTED


def _warn(text: str) -> None:
    # A host application may have closed stderr.
    if sys.stderr is not None:
        shown = "".join(character if character.isprintable() else "\ufffd" for character in text)
        print(f"mcp-client: {shown}", file=sys.stderr, flush=True)


def _record(command: Sequence[str], output: str | None) -> int:
    # Only the user can read it: a conversation can contain anything.
    try:
        descriptor = 1 if output is None else os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        _warn(f"cannot write the recording {output}: {error.strerror}")
        return USAGE
    with open(descriptor, "wb", closefd=output is not None) as file:
        return trio.run(_proxy, command, Recorder(file, _warn), output is not None)


async def _proxy(command: Sequence[str], recorder: Recorder, is_transparent: bool) -> int:  # noqa: FBT001  of `trio.run`
    """Run the server with the descriptors of this process, and record. Return its exit code."""
    try:
        process = await trio.lowlevel.open_process(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except (OSError, ValueError) as error:
        _warn(f"cannot start {describe_command(command)}: {error}")
        return UNREACHABLE
    ended = trio.Event()
    async with open_private_nursery() as nursery:
        nursery.start_soon(_forward_signals, process)
        nursery.start_soon(_forward_input, process, recorder)
        nursery.start_soon(_forward_output, process, recorder, is_transparent, ended)
        code = await process.wait()
        with trio.move_on_after(_LINGER):
            await ended.wait()
        nursery.cancel_scope.cancel()
    return code if code >= 0 else 128 - code


async def _forward_signals(process: trio.Process) -> None:
    # Ctrl-C reaches the server without help, because it is in the same process group.
    caught = [signal.SIGTERM] if os.name == "nt" else [signal.SIGTERM, signal.SIGHUP]
    with trio.open_signal_receiver(*caught) as received:
        async for number in received:
            process.send_signal(number)


async def _forward_input(process: trio.Process, recorder: Recorder) -> None:
    if process.stdin is None:
        raise TypeError("the process has no stdin")
    async with process.stdin as stdin:
        while data := await _read():
            recorder.record("client", data)
            try:
                await stdin.send_all(data)
            except trio.BrokenResourceError:
                # The server has ended, or will.
                return


async def _forward_output(process: trio.Process, recorder: Recorder, is_transparent: bool, ended: trio.Event) -> None:  # noqa: FBT001
    if process.stdout is None:
        raise TypeError("the process has no stdout")
    async for data in process.stdout:
        recorder.record("server", bytes(data))
        if is_transparent:
            await _write(bytes(data))
    ended.set()


# Blocking calls in threads: descriptors that are set to non-blocking would be so for other processes, too. A thread that
# waits for input does not prevent the exit.


async def _read() -> bytes:
    return await trio.to_thread.run_sync(os.read, 0, _CHUNK, abandon_on_cancel=True)


async def _write(data: bytes) -> None:
    while data:
        data = data[await trio.to_thread.run_sync(os.write, 1, data, abandon_on_cancel=True) :]


class _StandardStreams:
    """Stdin and stdout as one stream."""

    async def receive_some(self) -> bytes:
        return await _read()

    async def send_all(self, data: bytes | memoryview) -> None:
        try:
            await _write(bytes(data))
        except OSError as error:
            raise trio.BrokenResourceError from error


def _replay(path: str) -> int:
    try:
        recording = read_recording(path)
    except InvalidRecording as error:
        _warn(str(error))
        return USAGE
    except OSError as error:
        _warn(f"cannot read the recording {path}: {error.strerror}")
        return USAGE
    trio.run(Replay(recording, _warn).serve, _StandardStreams())
    return 0
