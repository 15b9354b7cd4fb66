"""Elicitation on the terminal: forms, field by field, and URLs to open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import trio

from mcp_client.cli.output import harmless
from mcp_core.conversion.converter import converter
from mcp_core.revisions import LATEST
from mcp_core.types import ElicitResult

if TYPE_CHECKING:
    from mcp_client.cli.output import Screen
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.types import ElicitRequestFormParams, ElicitRequestURLParams

__all__ = ["Forms"]

_YES: Final = {"y": True, "yes": True, "true": True, "1": True, "n": False, "no": False, "false": False, "0": False}


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
            agreed = _YES.get(self._screen.ask("Will you open it? [y/N] ").strip().lower(), False)
        except EOFError:
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept" if agreed else "decline")

    def _fill_in(self, params: ElicitRequestFormParams) -> ElicitResult:
        schema = converter(LATEST).unstructure(params.requested_schema)
        properties, required = schema.get("properties"), schema.get("required")
        fields = properties if isinstance(properties, dict) else {}
        needed = required if isinstance(required, list) else []
        agreed: bool | None = None
        content: JsonObject = {}
        try:
            while agreed is None:
                self._screen.note(
                    f"{self._server} requests input: {params.message}\n"
                    "(Empty line: the default, or omit the field. Ctrl-D: decline.)"
                )
                values = {
                    name: self._field(name, field if isinstance(field, dict) else {}, needed=name in needed)
                    for name, field in fields.items()
                }
                content = {name: value for name, value in values.items() if value is not None}
                agreed = self._reviewed(content)
        except EOFError:
            agreed = False
        if not agreed:
            return ElicitResult(action="decline")
        # The values have the types that fields allow: strings, numbers, booleans, lists of strings.
        return converter(LATEST).structure({"action": "accept", "content": content}, ElicitResult)

    def _reviewed(self, content: JsonObject) -> bool | None:
        """Return whether to send the input; `None` to enter it again."""
        lines = [f"\n  {name}: {value}" for name, value in content.items()]
        self._screen.note(f"To be sent:{''.join(lines) or ' nothing'}")
        while True:
            answer = self._screen.ask("Send it? [Y/n, c to change it] ").strip().lower()
            if answer in {"c", "change"}:
                return None
            if not answer or answer in _YES:
                return _YES.get(answer, True)

    def _field(self, name: str, field: JsonObject, *, needed: bool) -> JsonValue:
        """Prompt for the value of a field until it is valid. Return `None` if the user omits it."""
        options = _options(field)
        label = field.get("title") if isinstance(field.get("title"), str) else name
        for described in (field.get("description"), f"one of: {', '.join(options)}" if options else None):
            if isinstance(described, str):
                self._screen.note(f"  {described}")
        default = field.get("default")
        hint = f" [{default}]" if default is not None else "" if needed else " (optional)"
        while True:
            text = self._screen.ask(f"{label}{hint}: ").strip()
            if not text and (default is not None or not needed):
                return default
            try:
                return _read(text, field, options)
            except ValueError as error:
                self._screen.note(f"  {harmless(str(error))}")


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


def _options(field: JsonObject) -> list[str]:
    """Return the options of a field; empty for a free text."""
    items = field.get("items")
    source = items if isinstance(items, dict) else field
    named = source.get("enum")
    if isinstance(named, list):
        return [option for option in named if isinstance(option, str)]
    titled = source.get("oneOf", source.get("anyOf"))
    constants = (
        [option.get("const") for option in titled if isinstance(option, dict)] if isinstance(titled, list) else []
    )
    return [constant for constant in constants if isinstance(constant, str)]


def _read(text: str, field: JsonObject, options: list[str]) -> JsonValue:
    """Parse the user's text. Raises `ValueError` with the reason if it is invalid."""
    kind = field.get("type")
    if kind == "array":
        chosen: list[JsonValue] = [part.strip() for part in text.split(",") if part.strip()]
        unknown = [str(each) for each in chosen if options and each not in options]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not one of: {', '.join(options)}")
        return chosen
    if kind == "boolean":
        if text.lower() not in _YES:
            raise ValueError("enter yes or no")
        return _YES[text.lower()]
    if kind == "integer":
        return int(text)
    if kind == "number":
        return float(text)
    if not text or (options and text not in options):
        raise ValueError(f"enter one of: {', '.join(options)}" if options else "enter a value")
    return text
