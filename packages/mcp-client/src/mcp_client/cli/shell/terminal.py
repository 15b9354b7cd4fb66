"""The terminal of the shell: a prompt, the output above it, and the forms of the server.

prompt_toolkit runs on asyncio, and the client and the commands run on trio. So trio is a guest of the asyncio loop: both
run in one thread, calls between them are callbacks, and cancellation passes through. A loop in another thread would need
locks for all that the completer and the output share.

The prompt is an application of prompt_toolkit, which runs on asyncio and owns the terminal while a line is typed. All
other output passes through `PromptStream`: while there is a prompt, it is written above the prompt, which is then drawn
again. Without one, for example while a tool runs, it is written directly.

A form may open while a line is typed, because a legacy server can send its request at any time. The prompt is then
removed, and comes back with the typed text after the form.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Final, TextIO, cast

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings

from mcp_client.auth.stores.keyring import state_folder
from mcp_client.auth.stores.locks import private_folder
from mcp_client.auth.stores.protocol import CredentialStoreError
from mcp_client.cli.output import Screen, harmless
from mcp_client.cli.shell.words import is_complete

if sys.platform != "win32":
    import termios

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyPressEvent

    from mcp_core.trio.host_loop import HostLoop

__all__ = ["LineInterrupted", "PromptStream", "Terminal", "open_history"]

_PROMPT: Final = "mcp> "
_CONTINUATION: Final = "...> "

_LOCAL_FLAGS: Final = 3
"""The index of the local flags in the attributes of a terminal. Source: the documentation of `termios.tcgetattr`"""

_PENDING: Final = 256 * 1024
"""Maximum number of characters that wait to be written above the prompt. Further text is dropped, which is reported."""

_HISTORY_BYTES: Final = 1024 * 1024
"""The size of the history file above which a start of the shell removes the older half."""


class LineInterrupted(Exception):
    """The user pressed Ctrl-C at a prompt."""


class _LineSuspended(Exception):
    """A form needs the terminal."""


class _Form:
    """A form of the server."""

    def __init__(self) -> None:
        self.is_over = False
        self.scope: trio.CancelScope | None = None


_current_form: Final[ContextVar[_Form | None]] = ContextVar("form of the shell", default=None)
"""The form that a task, or a thread that it started, shows."""


class PromptStream:
    """The stream for all output of the shell. It is for the methods of `Screen`, and is not a complete text stream.

    Args:
        out: The terminal.
    """

    def __init__(self, out: TextIO) -> None:
        self._out: Final = out
        self.encoding: Final = out.encoding
        """The encoding of the terminal."""
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread: int | None = None
        self._is_prompting: Callable[[], bool] = bool
        self._pending: list[str] = []
        self._size = 0
        self._dropped = 0
        self._flushing: asyncio.Future[None] | None = None

    def attach(self, is_prompting: Callable[[], bool]) -> None:
        """Start to write above the prompt. Call it in a trio task; from now on the thread of trio writes.

        Args:
            is_prompting: Returns whether there is a prompt.
        """
        self._token, self._thread = trio.lowlevel.current_trio_token(), threading.get_ident()
        self._is_prompting = is_prompting

    def isatty(self) -> bool:
        """Return true: the shell requires a terminal."""
        return True

    def flush(self) -> None:
        """Do nothing: text is written at once, or above the prompt soon."""

    def write(self, text: str) -> int:
        """Write a text. Any thread can call this method; it returns when the text is written or queued."""
        if self._token is None or threading.get_ident() == self._thread:
            self._write(text)
        else:
            # The shell has ended, and the thread was abandoned.
            with suppress(trio.RunFinishedError):
                trio.from_thread.run_sync(self._write, text, trio_token=self._token)
        return len(text)

    def write_pending(self) -> None:
        """Write the queued text now. There must be no prompt."""
        texts, self._pending, self._size = self._pending, [], 0
        if self._dropped:
            texts.append(f"({self._dropped} characters of output were dropped: the server sends too much.)\n")
            self._dropped = 0
        if texts:
            self._out.write("".join(texts))
            self._out.flush()

    def _write(self, text: str) -> None:
        if self._size + len(text) > _PENDING:
            self._dropped += len(text)
            return
        self._pending.append(text)
        self._size += len(text)
        if not self._is_prompting():
            self.write_pending()
        elif self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(run_in_terminal(self.write_pending))


class Terminal(Screen):
    """The screen of the shell.

    Before `attach` it is a screen on a terminal, for prompts about the configuration.

    Args:
        stream: The stream for output.
        json: Whether results are JSON.
    """

    def __init__(self, stream: PromptStream, *, json: bool) -> None:
        # `Screen` uses the methods that the stream has.
        super().__init__(json=json, out=cast("TextIO", stream), err=cast("TextIO", stream))
        self._stream: Final = stream
        self._host: HostLoop | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._session: PromptSession[str] | None = None
        self._is_prompting = False
        self._forms = 0
        self._no_forms = trio.Event()
        self._no_forms.set()
        # Two prompts on one terminal would mix.
        self._free: Final = trio.Lock()
        self._interrupt: Callable[[], None] | None = None

    def attach(self, host: HostLoop, history: History, completer: Completer) -> None:
        """Begin to use prompts. Call it in a trio task.

        Args:
            host: The asyncio loop that hosts trio.
            history: The history of the prompt.
            completer: The completer of the prompt.
        """
        self._host, self._token = host, trio.lowlevel.current_trio_token()
        self._session = PromptSession(
            _PROMPT,
            history=history,
            completer=completer,
            complete_while_typing=True,
            key_bindings=_bindings(),
            multiline=True,
            prompt_continuation=_CONTINUATION,
            interrupt_exception=LineInterrupted,
        )
        self._stream.attach(lambda: self._is_prompting)

    @contextmanager
    def without_echo(self) -> Iterator[None]:
        """Let the terminal not show what the user types while a command runs: the next prompt shows it."""
        if sys.platform == "win32":
            yield
            return
        before = termios.tcgetattr(sys.stdin)
        changed = termios.tcgetattr(sys.stdin)
        changed[_LOCAL_FLAGS] &= ~termios.ECHO
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, changed)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

    # --- the line of the user --------------------------------------------------------------------------------------

    async def read_line(self) -> str:
        """Prompt for a line.

        Raises:
            LineInterrupted: The user pressed Ctrl-C.
            EOFError: The user pressed Ctrl-D on an empty line.
        """
        session = self._session
        if session is None:
            raise AssertionError("the terminal is not attached")
        draft = ""
        while True:
            await self._no_forms.wait()
            try:
                async with self._free:
                    return await self._prompt(session, draft)
            except _LineSuspended:
                draft = session.default_buffer.text

    async def _prompt(self, session: PromptSession[str], draft: str = "") -> str:
        async def prompt() -> str:
            session.app.erase_when_done = False
            self._is_prompting = True
            try:
                return await session.prompt_async(default=draft, pre_run=self._suspend_if_needed)
            finally:
                self._is_prompting = False
                self._stream.write_pending()

        if self._host is None:
            raise AssertionError("the terminal is not attached")
        return await self._host.run_asyncio(prompt)

    def _suspend_if_needed(self) -> None:
        """Remove the prompt of the user if a form needs the terminal."""
        session = self._session
        if session is None or not self._forms:
            return
        if self._is_prompting and session.app.is_running and not session.app.is_done:
            session.app.erase_when_done = True
            session.app.exit(exception=_LineSuspended())

    # --- forms -----------------------------------------------------------------------------------------------------

    @property
    def interactive(self) -> bool:
        """Whether the user can be prompted: always, because the shell requires a terminal."""
        return True

    @asynccontextmanager
    async def form(self) -> AsyncIterator[None]:
        """Keep the terminal for a form in the block. At its end, prompts of the form end too."""
        form = _Form()
        token = _current_form.set(form)
        if not self._forms:
            self._no_forms = trio.Event()
        self._forms += 1
        self._suspend_if_needed()
        try:
            yield
        finally:
            _current_form.reset(token)
            form.is_over = True
            if form.scope is not None:
                form.scope.cancel()
            self._forms -= 1
            if not self._forms:
                self._no_forms.set()

    def ask(self, prompt: str) -> str:
        """Prompt the user for one line. Blocks, so run it in a thread. Raises `EOFError` if the user declines."""
        if self._token is None:
            return super().ask(prompt)
        return trio.from_thread.run(partial(self._answer, prompt, _current_form.get()), trio_token=self._token)

    async def _answer(self, prompt: str, form: _Form | None) -> str:
        # A thread whose form was cancelled goes on until its next prompt.
        if form is not None and form.is_over:
            raise EOFError
        session: PromptSession[str] = PromptSession(
            harmless(prompt), history=InMemoryHistory(), interrupt_exception=LineInterrupted
        )
        scope = trio.CancelScope()
        if form is not None:
            form.scope = scope
        with scope:
            async with self._free:
                self.clear()
                try:
                    return await self._prompt(session)
                except LineInterrupted:
                    if self._interrupt is not None:
                        self._interrupt()
        raise EOFError

    @contextmanager
    def interruptible(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Call a function if the user presses Ctrl-C at a prompt of a form during the block."""
        self._interrupt = interrupt
        try:
            yield
        finally:
            self._interrupt = None


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def accept(event: KeyPressEvent) -> None:
        """Accept the line, unless a quote or bracket is open: then the line continues."""
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


# --- history ---------------------------------------------------------------------------------------------------------


def open_history(report: Callable[[str], None]) -> History:
    """Return the history of earlier shells, in a file that only the user can read.

    Args:
        report: Called with the reason if there is no such file. The history is then in memory.
    """
    try:
        path = state_folder() / "shell-history"
        private_folder(path.parent)
        # Also for a file that exists: its mode may have been changed.
        with open(path, "ab", opener=partial(os.open, mode=0o600)) as file:
            if sys.platform != "win32":
                os.fchmod(file.fileno(), 0o600)
        _shorten(path)
    except (OSError, CredentialStoreError) as error:
        report(f"The history is not stored: {error}")
        return InMemoryHistory()
    return _SharedHistory(path)


class _SharedHistory(FileHistory):
    """A history in a file."""

    def store_string(self, string: str) -> None:
        # The line is in memory, and its command must run.
        with suppress(OSError):
            super().store_string(string)


def _shorten(path: Path) -> None:
    """Remove the older half of a long history. An entry begins with a comment after an empty line."""
    data = path.read_bytes()
    if len(data) <= _HISTORY_BYTES:
        return
    _, mark, rest = data[len(data) // 2 :].partition(b"\n\n#")
    path.write_bytes(b"\n#" + rest if mark else b"")
