"""The request in an ASGI scope: its path and its head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.http.messages import Headers, HttpHead, HttpRequest
from mcp_core.http.origin import refusal
from mcp_core.http.responses import Responses
from mcp_server.transports.http.response import AsgiResponse

if TYPE_CHECKING:
    from mcp_core.http.endpoint_policy import EndpointPolicy
    from mcp_core.limits import Limits
    from mcp_server.asgi import Receive, Scope, Send

__all__ = ["normal", "not_found", "request_of", "serve_document"]

_DOCUMENT_HEADERS: Final = (
    # Public metadata: any client and any web page may read the document.
    ("access-control-allow-origin", "*"),
    ("cache-control", "public, max-age=300"),
    ("content-type", "application/json"),
    ("x-content-type-options", "nosniff"),
)
_PREFLIGHT: Final = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "GET, HEAD"),
    ("access-control-allow-headers", "*"),
    ("access-control-max-age", "600"),
)
_OF_PAGES: Final = frozenset({"origin", "sec-fetch-site"})


def normal(path: str) -> str:
    """Remove the slash at the end of a path, which is not significant."""
    return path.rstrip("/") or "/"


def request_of(scope: Scope) -> HttpRequest:
    """Return the request of a scope. The ASGI specification defines the types of its members."""
    raw, query = scope.get("raw_path"), scope.get("query_string")
    target = raw.decode("latin-1") if isinstance(raw, bytes) else str(scope["path"])
    if isinstance(query, bytes) and query:
        target = f"{target}?{query.decode('latin-1')}"
    client = scope.get("client")
    return HttpRequest(
        method=str(scope["method"]),
        target=target,
        headers=Headers.from_raw(scope["headers"]),  # type: ignore[arg-type]  # as ASGI specifies
        scheme=str(scope.get("scheme") or "http"),
        client=str(client[0]) if isinstance(client, (tuple, list)) and client else None,
    )


async def serve_document(document: bytes, policy: EndpointPolicy, limits: Limits, scope: Scope, send: Send) -> None:
    """Respond to a request for a public JSON document.

    Args:
        document: The document.
        policy: The settings of the endpoint; `allowed_hosts` is used.
        limits: The limits.
        scope: The ASGI scope of the request.
        send: The ASGI `send` of the request.
    """
    http, response = request_of(scope), AsgiResponse(send)
    responses = Responses(http, policy, limits)
    visitor = attrs.evolve(http, headers=Headers([pair for pair in http.headers if pair[0] not in _OF_PAGES]))
    foreign = refusal(visitor, policy.allowed_hosts, ())
    if foreign is not None:
        await response.refuse(responses.refuse(403, foreign))
    elif http.method == "GET":
        await response.complete(HttpHead(status=200, headers=Headers(_DOCUMENT_HEADERS)), document)
    elif http.method == "HEAD":
        length = ("content-length", str(len(document)))
        await response.complete(HttpHead(status=200, headers=Headers((*_DOCUMENT_HEADERS, length))))
    elif http.method == "OPTIONS":
        await response.complete(HttpHead(status=204, headers=Headers(_PREFLIGHT)))
    else:
        only = (("allow", "GET, HEAD, OPTIONS"),)
        await response.refuse(
            responses.refuse(405, f"method {http.method[:20]!a} is not allowed; use GET", headers=only)
        )


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001  # a route
    """Respond with 404 to a request for a path that is not served."""
    headers = Headers((("content-type", "text/plain; charset=utf-8"),))
    await AsgiResponse(send).complete(HttpHead(status=404, headers=headers), b"no MCP endpoint at this path\n")
