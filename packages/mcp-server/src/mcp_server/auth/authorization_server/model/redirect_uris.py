"""Rules for the redirect URIs of clients: configured, dynamically registered, or with a metadata document.

Spec: basic/authorization#communication-security, #application-type; RFC 9700 section 4.1
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from mcp_core.errors import UnsafeUrl
from mcp_core.oauth.urls import parse_url

__all__ = ["redirect_uri_problem"]

_OURS: Final = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})
"""Parameters of an authorization response. In a redirect URI they would be repeated."""


def redirect_uri_problem(uri: str, *, application_type: str | None = None) -> str | None:
    """Return the rule that a redirect URI breaks, as the end of a sentence, or `None` if it breaks none.

    Private-use schemes (`com.example.app:/cb`) are rejected for all clients: the MCP specification permits only https
    and the loopback interface.

    Args:
        uri: The redirect URI.
        application_type: The `application_type` of the client: `web`, `native`, or `None`.
    """
    try:
        url = parse_url(uri, what="redirect URI")
    except UnsafeUrl as unsafe:
        return f"is not a valid URL: {unsafe.reason}"
    if url.fragment is not None:
        return "has a fragment"
    if url.scheme != "https" and not url.is_loopback:
        return "is neither https nor on the loopback interface"
    if any(segment in (".", "..") for segment in url.path.lower().replace("%2e", ".").split("/")):
        return "has dot segments"
    if not _OURS.isdisjoint(name for name, _ in parse_qsl(url.query or "", keep_blank_values=True)):
        return "has a parameter of the authorization response"
    if application_type == "web" and url.is_loopback:
        return "is on the loopback interface, which is allowed only for clients of application_type native"
    return None
