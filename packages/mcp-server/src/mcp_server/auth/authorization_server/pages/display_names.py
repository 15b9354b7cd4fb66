"""What the pages tell a person about a client: who vouches for it, and where its answer goes.

A client's name is what it says of itself. It is shown on one line, shortened, and without what turns the direction of text:
else a name could rewrite the words around it.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import attrs

from mcp_core.errors import UnsafeUrl
from mcp_core.oauth.urls import parse_url
from mcp_server.auth.authorization_server.model.interaction import AskingClient, RegistrationKind

__all__ = ["ShownClient", "ShownScope", "host_of", "one_line", "shown_client"]

_LONGEST_NAME: Final = 80
_TURNING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Are part of words in some scripts."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@attrs.frozen(kw_only=True)
class ShownClient:
    """A client, in words."""

    name: str
    """What it calls itself."""
    vouching: str
    """What that is worth."""
    page: str | None
    """A page about it, as text."""
    goes_to: str
    """Where the browser will go."""
    goes_to_note: str
    """What that is; perhaps empty."""
    local_only: bool
    """Whether a warning is due."""


@attrs.frozen(kw_only=True)
class ShownScope:
    """A scope, in words."""

    name: str
    """The scope."""
    words: str
    """What it means."""
    chosen: bool
    """Whether its box is ticked."""


def one_line(text: str) -> str:
    """A stranger's text, safe to stand in a sentence: one line, not too long, nothing invisible."""
    kept = [
        " " if character.isspace() else character
        for character in text
        if character in _JOINERS
        or character.isspace()
        or (character not in _TURNING and unicodedata.category(character) not in _HIDDEN)
    ]
    line = " ".join("".join(kept).split())
    return line if len(line) <= _LONGEST_NAME else f"{line[:_LONGEST_NAME].rstrip()}…"


def shown_client(client: AskingClient) -> ShownClient:
    """What is shown of a client."""
    goes_to, note = _destination(client.redirect_uri)
    return ShownClient(
        name=one_line(client.name) or "An application without a name",
        vouching=_vouching(client),
        page=None if client.client_uri is None else one_line(client.client_uri),
        goes_to=goes_to,
        goes_to_note=note,
        local_only=client.local_only,
    )


def host_of(uri: str) -> str:
    """The host of a URL, and its port if it says one."""
    return _destination(uri)[0]


def _vouching(client: AskingClient) -> str:
    if client.kind is RegistrationKind.CONFIGURED:
        return "Set up by whoever runs this server."
    if client.kind is RegistrationKind.METADATA_DOCUMENT:
        host = host_of(client.client_id)
        return f"Described by {host}. Trust the name as far as you trust {host}."
    return "Registered itself, unverified: nobody has checked the name."


def _destination(uri: str) -> tuple[str, str]:
    """Where a URI leads, and what that is."""
    try:
        url = parse_url(uri, what="redirect_uri")
    except UnsafeUrl:
        scheme = uri.partition(":")[0]
        return one_line(scheme) + ":", "An application on your device that has claimed this kind of address."
    host = url.origin.partition("://")[2]
    return host, "A program on your own device." if url.is_loopback else ""
