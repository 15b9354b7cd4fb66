"""The rules for the redirect URIs of a client, whether it is configured, registers, or publishes a metadata document.

Spec: basic/authorization#communication-security, #application-type; RFC 9700 section 4.1
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from mcp_core.errors import UnsafeUrl
from mcp_core.oauth.urls import parse_url

__all__ = ["redirect_uri_problem"]

_OURS: Final = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})
"""Parameters of an answer: in a redirect URI they would be there twice."""


def redirect_uri_problem(uri: str, *, application_type: str | None = None) -> str | None:
    """Return the rule that a redirect URI breaks, as the end of a sentence about it; `None` if it breaks none.

    Private-use schemes (`com.example.app:/cb`) are refused for all clients: the specification of MCP permits https and the
    loopback interface only.

    Args:
        uri: The redirect URI.
        application_type: What the client says it is: `web`, `native`, or nothing.
    """
    try:
        url = parse_url(uri, what="redirect URI")
    except UnsafeUrl as unsafe:
        return f"cannot be used: {unsafe.reason}"
    if url.fragment is not None:
        return "has a fragment"
    if url.scheme != "https" and not url.is_loopback:
        return "is neither https nor on the loopback interface"
    if any(segment in (".", "..") for segment in url.path.lower().replace("%2e", ".").split("/")):
        return "has dots for segments"
    if not _OURS.isdisjoint(name for name, _ in parse_qsl(url.query or "", keep_blank_values=True)):
        return "has a parameter that the answer will have"
    if application_type == "web" and url.is_loopback:
        return "is on the loopback interface, which is for clients of application_type native"
    return None
