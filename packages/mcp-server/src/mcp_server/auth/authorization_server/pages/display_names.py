"""Descriptions of clients for users: who vouches for a client, and where the browser is redirected.

The name of a client comes from its own metadata. It is shown in one line, shortened, and without bidirectional control
characters. Otherwise a name could change the display of the text around it.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import attrs

from mcp_core.errors import UnsafeUrl
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.urls import parse_url
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind, RequestingClient

__all__ = ["ShownClient", "ShownScope", "host_of", "one_line", "shown_client"]

_LONGEST_NAME: Final = 80
_TURNING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Characters that are parts of words in some scripts."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ShownClient(FieldValue):
    """A client, described for users."""

    name: str
    """The name in the client's metadata."""
    vouching: str
    """The trustworthiness of the name."""
    page: str | None
    """The URL of a page about the client, as text."""
    goes_to: str
    """The host that the browser is redirected to."""
    goes_to_note: str
    """A note about this destination; may be empty."""
    local_only: bool
    """Whether a warning about local applications is shown."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ShownScope(FieldValue):
    """A scope, described for users."""

    name: str
    """The scope."""
    words: str
    """The description."""
    chosen: bool
    """Whether its box is checked."""


def one_line(text: str) -> str:
    """Return untrusted text for use within a sentence: one line of limited length, without invisible characters."""
    kept = [
        " " if character.isspace() else character
        for character in text
        if character in _JOINERS
        or character.isspace()
        or (character not in _TURNING and unicodedata.category(character) not in _HIDDEN)
    ]
    line = " ".join("".join(kept).split())
    return line if len(line) <= _LONGEST_NAME else f"{line[:_LONGEST_NAME].rstrip()}…"


def shown_client(client: RequestingClient) -> ShownClient:
    """Return the description of a client."""
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
    """Return the host of a URL, with its port if the URL contains one."""
    return _destination(uri)[0]


def _vouching(client: RequestingClient) -> str:
    if client.kind is RegistrationKind.CONFIGURED:
        return "Configured by the operator of this server."
    if client.kind is RegistrationKind.METADATA_DOCUMENT:
        host = host_of(client.client_id)
        return f"Described by {host}. Trust the name as far as you trust {host}."
    return "Registered itself. The name is not verified."


def _destination(uri: str) -> tuple[str, str]:
    """Return the destination of a URI, and a note about it."""
    try:
        url = parse_url(uri, what="redirect_uri")
    except UnsafeUrl:
        scheme = uri.partition(":")[0]
        return one_line(scheme) + ":", "An application on your device that handles this type of address."
    host = url.origin.partition("://")[2]
    return host, "A program on your own device." if url.is_loopback else ""
