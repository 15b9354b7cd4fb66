"""Interaction with the user: sending the user to an authorization server, and receiving the redirect.

`SystemBrowser` opens the browser of this machine. `Paste` shows the URL and reads the redirect URL that the user
pastes. Any class with the members of `UserAgent` is an alternative.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import trio

from mcp_client.worker_threads import check_plain
from mcp_core.errors import AuthorizationRefused
from mcp_core.oauth.records import ClientRecord
from mcp_core.oauth.urls import check_browser_url
from mcp_core.trio.async_library import allow_asyncio
from mcp_core.trio.owner_task import enterable_from_asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_client.auth.loopback import Loopback
    from mcp_core.trio.async_library import AsyncLibrary

__all__ = ["Paste", "Receiver", "SystemBrowser", "UserAgent"]

_PROGRAMS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "darwin": (("open",),),
    "win32": (("rundll32", "url.dll,FileProtocolHandler"),),
}
"""Programs that open a URL in the user's default browser, by `sys.platform`. None of them is a shell or parses its
arguments like one (`cmd /c start`)."""

_OTHERWISE: Final = (("xdg-open",), ("wslview",))

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
"""Variables of which one is set if a window can be opened."""

_PASTE_PORT: Final = 49_152
"""No program listens on this port; the browser shows the redirect URL nevertheless."""


class Receiver(Protocol):
    """A receiver of the browser's redirect."""

    @property
    def redirect_uri(self) -> str:
        """The redirect URI."""
        ...

    async def open(self, url: str) -> None:
        """Show the user a URL that was checked: https, or http on this machine. Return without waiting for the user."""
        ...

    async def redirected(self) -> str:
        """Wait for the redirect, and return its whole URL. Called again for a redirect that is not of this login."""
        ...


class UserAgent(Protocol):
    """The interaction with the user. Any exception ends the login.

    Its methods, and those of its receivers, run on the library of the application: asyncio if an asyncio task opened the
    connection. A user agent that is always written for the same library has an attribute `async_library` with its name,
    `"trio"` or `"asyncio"`.
    """

    def receive(self, port: int | None = None) -> AbstractAsyncContextManager[Receiver]:
        """Prepare to receive a redirect. The user is not involved yet, and the login may not need a browser.

        Args:
            port: The port of an earlier redirect URI. It is reused if it is free, so that the registration stays valid.
        """
        ...

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        """Prompt the user for a client id.

        Args:
            issuer: The authorization server.
            reason: Why the client id cannot be obtained otherwise.

        Returns:
            The client; the caller sets its issuer. `None` if the user does not have a client id.
        """
        ...


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  # a message to the user


def _from_terminal(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)  # noqa: T201  # likewise; stdout may carry data of the program
    return sys.stdin.readline()


class SystemBrowser:
    """The browser of this machine, and a redirect URI on the loopback interface.

    `SystemBrowser` uses the first program in the environment variable `BROWSER`, or the default browser of the system.
    It splits the variable into arguments without a shell. If it cannot start a browser, it shows the URL for the user
    to open.

    Args:
        show_message: Receives a message to the user, of one or two lines. `None` writes to stderr.
        environment: The environment variables; `None` for those of this process.
    """

    async_library: ClassVar[AsyncLibrary] = "trio"
    """Its methods run on trio. asyncio tasks can call them too."""

    def __init__(
        self, *, show_message: Callable[[str], None] | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        check_plain(show_message, "show_message")
        self._show_message: Final = _to_stderr if show_message is None else show_message
        self._environment: Final = os.environ if environment is None else environment

    def receive(self, port: int | None = None) -> AbstractAsyncContextManager[Receiver]:
        """Listen on the loopback interface. Entering raises `OSError` if there is no free port."""
        return enterable_from_asyncio(partial(self._listen, port), "mcp_client login")

    @asynccontextmanager
    async def _listen(self, port: int | None) -> AsyncIterator[Receiver]:
        from mcp_client.auth.loopback import open_loopback  # lazy: it needs h11

        async with open_loopback(port) as loopback:
            yield _Local(loopback, self._show)

    @allow_asyncio
    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:  # noqa: ARG002  # a browser cannot ask
        """Return `None`: a browser cannot prompt the user for a client id."""
        await trio.lowlevel.checkpoint()
        return None

    async def _show(self, url: str) -> None:
        """Open a URL in the browser, and inform the user.

        Raises:
            UnsafeUrl: The URL is neither https, nor http on this machine.
        """
        check_browser_url(url, what="URL for the browser")
        program = _browser_command(sys.platform, self._environment)
        if program is None or not _start(_with_url(program, url)):
            self._show_message(
                f"No browser could be started. To log in, open this URL in a browser on this machine:\n{url}"
            )
        else:
            self._show_message(
                f"To log in, use the window that your browser opens. If no window opens, open this URL:\n{url}"
            )
        await trio.lowlevel.checkpoint()


class _Local:
    """A loopback server that opens a browser."""

    def __init__(self, loopback: Loopback, show: Callable[[str], Awaitable[None]]) -> None:
        self._loopback: Final = loopback
        self._show: Final = show

    @property
    def redirect_uri(self) -> str:
        return self._loopback.redirect_uri

    @allow_asyncio
    async def open(self, url: str) -> None:
        await self._show(url)

    @allow_asyncio
    async def redirected(self) -> str:
        return await self._loopback.redirected()


def _browser_command(platform: str, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the program that opens a URL, with its arguments but without the URL; `None` if not found.

    Args:
        platform: As `sys.platform`.
        environment: The environment variables.
    """
    own = environment.get("BROWSER", "").split(os.pathsep)[0]
    if own.strip():
        try:
            return tuple(shlex.split(own)) or None
        except ValueError:
            # Unbalanced quotes.
            return None
    if platform not in _PROGRAMS and not any(environment.get(name) for name in _DISPLAYS):
        # A browser found without a display would run in the terminal, which the program uses.
        return None
    for program in _PROGRAMS.get(platform, _OTHERWISE):
        found = shutil.which(program[0], path=environment.get("PATH"))
        if found is not None:
            return (found, *program[1:])
    return None


def _with_url(program: Sequence[str], url: str) -> list[str]:
    """Return the command with the URL in place of each `%s`, as in `BROWSER`; or appended."""
    if any("%s" in argument for argument in program[1:]):
        return [program[0], *(argument.replace("%s", url) for argument in program[1:])]
    return [*program, url]


def _start(command: Sequence[str]) -> bool:
    """Start a program that may outlive this process. Return whether it started."""
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)  # noqa: S603  # an argument vector, and a URL that was checked
    except OSError:
        return False
    # A thread reaps the process.
    threading.Thread(target=process.wait, daemon=True).start()
    return True


class Paste:
    """A terminal, for a machine without a browser: the user opens the URL elsewhere and pastes the redirect URL.

    Args:
        show_message: Receives a message to the user. `None` writes to stderr.
        ask: Receives a prompt and returns the user's line; runs in a thread. `None` reads from stdin.
    """

    async_library: ClassVar[AsyncLibrary] = "trio"
    """Its methods run on trio. asyncio tasks can call them too."""

    def __init__(
        self, *, show_message: Callable[[str], None] | None = None, ask: Callable[[str], str] | None = None
    ) -> None:
        check_plain(show_message, "show_message")
        self._show_message: Final = _to_stderr if show_message is None else show_message
        check_plain(ask, "ask")
        self._ask: Final = _from_terminal if ask is None else ask

    def receive(self, port: int | None = None) -> AbstractAsyncContextManager[Receiver]:
        """Return a receiver that reads the redirect URL from the user."""
        return enterable_from_asyncio(partial(self._receive, port), "redirect URI of a login")

    @asynccontextmanager
    async def _receive(self, port: int | None) -> AsyncIterator[Receiver]:
        yield _PastedRedirect(
            f"http://127.0.0.1:{_PASTE_PORT if port is None else port}/callback", self._show_message, self.prompt_user
        )

    @allow_asyncio
    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        """Prompt for a client id and its secret. Return `None` if the client id is empty."""
        self._show_message(_printable(f"{reason}\nA client id for {issuer} is required; its operator can provide one."))
        client_id = await self.prompt_user("Client id (leave empty if you have none): ")
        if not client_id:
            return None
        secret = await self.prompt_user("Client secret (leave empty if you have none): ")
        return ClientRecord(client_id=client_id, issuer=issuer, client_secret=secret or None)

    @allow_asyncio
    async def prompt_user(self, prompt: str) -> str:
        """Return the line that the user enters, without surrounding blanks."""
        # A thread that reads from a terminal cannot be stopped; it ends with the next line.
        return (await trio.to_thread.run_sync(self._ask, prompt, abandon_on_cancel=True)).strip()


class _PastedRedirect:
    """A redirect URI without a server: the browser shows an error page, and the redirect URL in its address bar."""

    def __init__(
        self, redirect_uri: str, show_message: Callable[[str], None], prompt_user: Callable[[str], Awaitable[str]]
    ) -> None:
        self.redirect_uri: Final = redirect_uri
        self._show_message: Final = show_message
        self._prompt_user: Final = prompt_user
        self._before = False

    @allow_asyncio
    async def open(self, url: str) -> None:
        check_browser_url(url, what="URL for the browser")
        self._show_message(
            f"To log in, open this URL in a browser on any machine:\n{url}\n"
            "At the end, the browser shows an error page for an address that starts with\n"
            f"{self.redirect_uri}: this is expected. Copy the whole address."
        )
        await trio.lowlevel.checkpoint()

    @allow_asyncio
    async def redirected(self) -> str:
        if self._before:
            self._show_message(
                "This address does not belong to this login. Paste the whole address, with all after the question mark."
            )
        self._before = True
        pasted = await self._prompt_user("The address: ")
        if not pasted:
            raise AuthorizationRefused("no address was pasted")
        return pasted


def _printable(text: str) -> str:
    """Replace control characters, which could affect a terminal: parts of the text come from untrusted peers."""
    return "".join(
        character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}" for character in text
    )
