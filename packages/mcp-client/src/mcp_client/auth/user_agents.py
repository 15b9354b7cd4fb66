"""How a person is sent to an authorization server, and how the answer comes back.

`SystemBrowser` opens the browser of this machine, `Paste` shows the URL and takes what the person pastes. Any class with the
members of `UserAgent` is another way.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

import trio

from mcp_core.errors import AuthorizationRefused
from mcp_core.oauth.records import ClientRecord
from mcp_core.oauth.urls import check_browser_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_client.auth.loopback import Loopback

__all__ = ["Paste", "Receiver", "SystemBrowser", "UserAgent"]

_PROGRAMS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "darwin": (("open",),),
    "win32": (("rundll32", "url.dll,FileProtocolHandler"),),
}
"""By `sys.platform`, what opens a URL in the browser of the person's choice. No shell, and nothing that reads its
arguments as one does (`cmd /c start`)."""

_OTHERWISE: Final = (("xdg-open",), ("wslview",))

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
"""One of these is set where a window can be opened."""

_PASTE_PORT: Final = 49_152
"""Nothing listens there; the browser shows its URL all the same."""


class Receiver(Protocol):
    """What waits for the browser."""

    @property
    def redirect_uri(self) -> str:
        """Where the browser is to come back."""
        ...

    async def open(self, url: str) -> None:
        """Shows the person a URL, which was checked: https, or http on this machine. Does not wait for them."""
        ...

    async def redirected(self) -> str:
        """The whole URL with which the browser came back. Is asked again when that was not meant for this login."""
        ...


class UserAgent(Protocol):
    """A way to a person. What it raises ends the login."""

    def receive(self, port: int | None = None) -> AbstractAsyncContextManager[Receiver]:
        """Gets ready for a browser, before it is known whether one will be needed: nothing is shown yet.

        Args:
            port: The port of an earlier redirect URI, to be used again where it is free: so a registration stays good.
        """
        ...

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        """Asks the person for a client id.

        Args:
            issuer: The authorization server.
            reason: Why there is no other way.

        Returns:
            The client; its issuer is set by the caller. `None`: nobody knows one.
        """
        ...


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  # this is for the person


def _from_terminal(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)  # noqa: T201  # likewise; stdout may be somebody's data
    return sys.stdin.readline()


class SystemBrowser:
    """The browser of this machine, and a page on the loopback interface where it comes back to.

    The browser is the one of the system; or the first one in the environment variable `BROWSER`, whose words are arguments
    of a program and never read by a shell. Where none can be started, the URL is there to be opened by hand.

    Args:
        tell: Is given what to say to the person, in a line or two. `None`: written to stderr.
        environment: Environment variables; `None`: those of this process.
    """

    def __init__(
        self, *, tell: Callable[[str], None] | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._tell: Final = _to_stderr if tell is None else tell
        self._environment: Final = os.environ if environment is None else environment

    @asynccontextmanager
    async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
        """See `UserAgent`. Raises `OSError` when there is no free port."""
        from mcp_client.auth.loopback import open_loopback  # lazy: it needs h11

        async with open_loopback(port) as loopback:
            yield _Local(loopback, self._show)

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:  # noqa: ARG002  # there is nobody to ask
        """Nobody can be asked."""
        await trio.lowlevel.checkpoint()
        return None

    async def _show(self, url: str) -> None:
        """Opens a URL in the browser, and tells the person about it.

        Raises:
            UnsafeUrl: It is neither https, nor http on this machine.
        """
        check_browser_url(url, what="URL for the browser")
        program = _browser_command(sys.platform, self._environment)
        if program is None or not _start(_with_url(program, url)):
            self._tell(
                f"There is no browser that could be opened here. To log in, open this URL on this machine:\n{url}"
            )
        else:
            self._tell(f"To log in, use the window that your browser opens. If there is none, open this URL:\n{url}")
        await trio.lowlevel.checkpoint()


class _Local:
    """The loopback page, with a browser in front of it."""

    def __init__(self, loopback: Loopback, show: Callable[[str], Awaitable[None]]) -> None:
        self._loopback: Final = loopback
        self._show: Final = show

    @property
    def redirect_uri(self) -> str:
        return self._loopback.redirect_uri

    async def open(self, url: str) -> None:
        await self._show(url)

    async def redirected(self) -> str:
        return await self._loopback.redirected()


def _browser_command(platform: str, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """The program that opens a URL, as an argument vector without it; `None` when there is none.

    Args:
        platform: As `sys.platform`.
        environment: Environment variables.
    """
    own = environment.get("BROWSER", "").split(os.pathsep)[0]
    if own.strip():
        try:
            return tuple(shlex.split(own)) or None
        except ValueError:
            # A quote that never ends.
            return None
    if platform not in _PROGRAMS and not any(environment.get(name) for name in _DISPLAYS):
        # What is found then runs in the terminal, which belongs to the program.
        return None
    for program in _PROGRAMS.get(platform, _OTHERWISE):
        found = shutil.which(program[0], path=environment.get("PATH"))
        if found is not None:
            return (found, *program[1:])
    return None


def _with_url(program: Sequence[str], url: str) -> list[str]:
    """The arguments with the URL in place of each `%s`, as in `BROWSER`; or behind them."""
    if any("%s" in argument for argument in program[1:]):
        return [program[0], *(argument.replace("%s", url) for argument in program[1:])]
    return [*program, url]


def _start(command: Sequence[str]) -> bool:
    """Starts a program that may live longer than we do. Returns whether that could be done."""
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)  # noqa: S603  # an argument vector, and a URL that was checked
    except OSError:
        return False
    # Somebody has to take notice of its end.
    threading.Thread(target=process.wait, daemon=True).start()
    return True


class Paste:
    """A terminal, for a machine without a browser: the person opens the URL elsewhere, and pastes the one it leads to.

    Args:
        tell: Is given what to say to the person. `None`: written to stderr.
        ask: Is given a question, and returns the line of the answer; it runs in a thread. `None`: from stdin.
    """

    def __init__(self, *, tell: Callable[[str], None] | None = None, ask: Callable[[str], str] | None = None) -> None:
        self._tell: Final = _to_stderr if tell is None else tell
        self._ask: Final = _from_terminal if ask is None else ask

    @asynccontextmanager
    async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
        """See `UserAgent`."""
        yield _Pasted(f"http://127.0.0.1:{_PASTE_PORT if port is None else port}/callback", self._tell, self.asked)

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        """Asks for a client id, and its secret; an empty answer is none."""
        self._tell(_printable(f"{reason}\nA client id of {issuer} is needed; whoever runs it can give you one."))
        client_id = await self.asked("Client id (empty: there is none): ")
        if not client_id:
            return None
        secret = await self.asked("Client secret (empty: there is none): ")
        return ClientRecord(client_id=client_id, issuer=issuer, client_secret=secret or None)

    async def asked(self, question: str) -> str:
        """The line that the person answers with, without blanks around it."""
        # A thread that reads from a terminal cannot be stopped; it ends with the next line.
        return (await trio.to_thread.run_sync(self._ask, question, abandon_on_cancel=True)).strip()


class _Pasted:
    """A redirect URI where nothing is: the browser shows an error, and the answer in its address bar."""

    def __init__(self, redirect_uri: str, tell: Callable[[str], None], asked: Callable[[str], Awaitable[str]]) -> None:
        self.redirect_uri: Final = redirect_uri
        self._tell: Final = tell
        self._asked: Final = asked
        self._before = False

    async def open(self, url: str) -> None:
        check_browser_url(url, what="URL for the browser")
        self._tell(
            f"To log in, open this URL in a browser, on any machine:\n{url}\n"
            "At the end it cannot open a page whose address begins with\n"
            f"{self.redirect_uri}: that is right. Copy the whole address."
        )
        await trio.lowlevel.checkpoint()

    async def redirected(self) -> str:
        if self._before:
            self._tell(
                "That is not the answer to this login: the whole address is needed, with all behind the question mark."
            )
        self._before = True
        pasted = await self._asked("The address: ")
        if not pasted:
            raise AuthorizationRefused("no address was pasted")
        return pasted


def _printable(text: str) -> str:
    """Without what could make a terminal do something: part of it is the word of strangers."""
    return "".join(
        character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}" for character in text
    )
