"""Elicitation on the terminal: forms, field by field, and URLs to open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import trio

from mcp_client.cli.arguments import closest
from mcp_client.cli.fields import YES, InvalidEntry, fields_of
from mcp_core.types import ElicitResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_client.cli.fields import Field
    from mcp_client.cli.output import Screen
    from mcp_core.types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitValue

__all__ = ["Forms"]


class Forms:
    """A handler of elicitation requests on the terminal.

    Args:
        screen: The terminal; it must be interactive.
        server: The name that the user gave the server. The server's own name is not reliable.
    """

    def __init__(self, screen: Screen, server: str) -> None:
        self._screen: Final = screen
        self._server: Final = server
        # Prompts of two forms on one terminal would mix.
        self._one_at_a_time: Final = trio.Lock()

    async def elicit(self, params: ElicitRequestFormParams) -> ElicitResult:
        """Show a form, and return the user's input."""
        async with self._one_at_a_time:
            return await trio.to_thread.run_sync(self._fill_in, params, abandon_on_cancel=True)

    async def elicit_url(self, params: ElicitRequestURLParams) -> ElicitResult:
        """Show a URL, and return whether the user agrees to open it."""
        text = f"{self._server} requests a visit to a page: {params.message}\n  {params.url}\n{_whose(params.url)}"
        async with self._one_at_a_time:
            return await trio.to_thread.run_sync(self._consent, text, abandon_on_cancel=True)

    def _consent(self, text: str) -> ElicitResult:
        self._screen.note(f"{text}\nIf you trust the page, open it yourself.")
        try:
            agreed = YES.get(self._screen.ask("Will you open it? [y/N] ").strip().lower(), False)
        except EOFError:
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept" if agreed else "decline")

    def _fill_in(self, params: ElicitRequestFormParams) -> ElicitResult:
        fields = fields_of(params.requested_schema)
        content: dict[str, ElicitValue] = {}
        self._screen.note(
            f"{self._server} requests input: {params.message}\n"
            "(Empty line: the default, or omit the field. Ctrl-D: decline.)"
        )
        try:
            for field in fields:
                self._enter(field, content)
            while (answer := self._reviewed(fields, content)) is not True:
                if answer is False:
                    return ElicitResult(action="decline")
                self._enter(answer, content)
        except EOFError:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=content)

    def _enter(self, field: Field, content: dict[str, ElicitValue]) -> None:
        """Prompt for the value of a field until it is valid."""
        for line in field.lines():
            self._screen.note("  " + line.replace("\n", "\n  "))
        while True:
            try:
                value = field.read(self._screen.ask(field.prompt).strip())
            except InvalidEntry as error:
                self._screen.note(f"  {error}")
                continue
            content.pop(field.name, None)
            if value is not None:
                content[field.name] = value
            return

    def _reviewed(self, fields: Sequence[Field], content: Mapping[str, ElicitValue]) -> bool | Field:
        """Return whether to send the input, or a field to enter again."""
        entered = [field for field in fields if field.name in content]
        lines = [f"\n  {field.label}: {field.shown(content[field.name])}" for field in entered]
        self._screen.note(f"To be sent:{''.join(lines) or ' nothing'}")
        names = {name.casefold(): field for field in fields for name in (field.label, field.name)}
        while True:
            answer = self._screen.ask("Send it? [Y/n, or the name of a field to change it] ").strip().casefold()
            if not answer or answer in YES:
                return YES.get(answer, True)
            if answer in names:
                return names[answer]
            self._screen.note(f"  there is no field {answer!r}{closest(answer, names)}")


def _whose(url: str) -> str:
    """Return a line with the host of a URL, and warnings about parts that may deceive."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "  This is not a valid URL."
    if not host:
        return "  The URL does not have a host."
    said = f"  Host: {host}"
    if not host.isascii() or any(label.startswith("xn--") for label in host.split(".")):
        said += "\n  Warning: the host name contains letters that may look like others."
    if parts.username is not None:
        said += "\n  Warning: the text before the @ is not the host."
    if parts.scheme != "https":
        said += f"\n  Warning: the connection is not encrypted ({parts.scheme})."
    return said
