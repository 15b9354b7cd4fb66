"""The claims of the access tokens of an authorization server."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING

from mcp_conformance.oauth_testbed.http_messages import json_object

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["claims_of"]


def claims_of(token: str) -> JsonObject | None:
    """Return the claims of a token; `None` when it is opaque."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        return json_object(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
