"""The stored form of credentials: checks that a record belongs to its key and is valid."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from mcp_core.errors import InvalidValue, LocalProtocolError
from mcp_core.oauth.records import read_client, read_tokens

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.oauth.records import ClientRecord, TokenRecord

__all__ = ["check_client", "check_tokens", "kept_client", "kept_tokens", "without_query"]

_log: Final = logging.getLogger("mcp_client")


def without_query(url: str) -> str:
    """Return a URL without its query, which may contain a key."""
    return url.partition("?")[0]


def check_tokens(server_url: str, tokens: TokenRecord | None) -> None:
    """Check that tokens are stored for the server that they may be sent to.

    Raises:
        LocalProtocolError: The tokens are for another server.
    """
    if tokens is not None and tokens.server_url != server_url:
        shown = without_query(tokens.server_url)
        raise LocalProtocolError(f"tokens for {shown} cannot be stored for {without_query(server_url)}")


def check_client(issuer: str, client: ClientRecord | None) -> None:
    """Check that a client is stored for the authorization server that it is registered with.

    Raises:
        LocalProtocolError: The client belongs to another issuer, or has no issuer.
    """
    if client is not None and client.issuer != issuer:
        raise LocalProtocolError(f"a client of the issuer {client.issuer!a} cannot be stored for {issuer!a}")


def kept_tokens(server_url: str, document: JsonValue) -> TokenRecord | None:
    """Parse the tokens stored for a server; return `None` for an unusable record, and log it."""
    if document is None:
        return None
    try:
        tokens = read_tokens(document)
        check_tokens(server_url, tokens)
    except (InvalidValue, LocalProtocolError) as error:
        _log.warning("stored tokens ignored: server=%s error=%s", without_query(server_url), error.message)
        return None
    return tokens


def kept_client(issuer: str, document: JsonValue) -> ClientRecord | None:
    """Parse the client stored for an issuer; return `None` for an unusable record, and log it."""
    if document is None:
        return None
    try:
        client = read_client(document)
        check_client(issuer, client)
    except (InvalidValue, LocalProtocolError) as error:
        _log.warning("stored client ignored: issuer=%s error=%s", issuer, error.message)
        return None
    return client
