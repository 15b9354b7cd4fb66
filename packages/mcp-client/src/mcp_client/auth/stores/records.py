"""The stored form of credentials: what belongs under which key, and what is no record any more."""

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
    """A URL as it may be shown: keys are sometimes put behind the question mark."""
    return url.partition("?")[0]


def check_tokens(server_url: str, tokens: TokenRecord | None) -> None:
    """Makes sure that tokens are kept for the server that they may be sent to.

    Raises:
        LocalProtocolError: They are for another one.
    """
    if tokens is not None and tokens.server_url != server_url:
        shown = without_query(tokens.server_url)
        raise LocalProtocolError(f"tokens for {shown} are not kept for {without_query(server_url)}")


def check_client(issuer: str, client: ClientRecord | None) -> None:
    """Makes sure that a client is kept for the authorization server that it is known to.

    Raises:
        LocalProtocolError: It is known to another one, or to none.
    """
    if client is not None and client.issuer != issuer:
        raise LocalProtocolError(f"a client of the issuer {client.issuer!a} is not kept for {issuer!a}")


def kept_tokens(server_url: str, document: JsonValue) -> TokenRecord | None:
    """Reads what was kept under a server's URL; what is not of use counts as nothing, and is logged."""
    if document is None:
        return None
    try:
        tokens = read_tokens(document)
        check_tokens(server_url, tokens)
    except (InvalidValue, LocalProtocolError) as error:
        _log.warning("the tokens kept for %s are not used: %s", without_query(server_url), error.message)
        return None
    return tokens


def kept_client(issuer: str, document: JsonValue) -> ClientRecord | None:
    """Reads what was kept under an issuer; what is not of use counts as nothing, and is logged."""
    if document is None:
        return None
    try:
        client = read_client(document)
        check_client(issuer, client)
    except (InvalidValue, LocalProtocolError) as error:
        _log.warning("the client kept for %s is not used: %s", issuer, error.message)
        return None
    return client
