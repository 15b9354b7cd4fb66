"""The HTTP endpoints of the authorization server, as an application of the web framework.

Scripts of any web page may read the metadata and the keys, and use the endpoints that clients in a browser need. These
endpoints ignore everything that a browser adds on its own (cookies), so a foreign page can do there only what any
program can.

A request must be for the host of the issuer. Otherwise a host name of an attacker that resolves to this machine would
give the attacker's page and a server on loopback the same origin.
"""

from __future__ import annotations

import ipaddress
import logging
import math
from typing import TYPE_CHECKING, Final

import orjson
from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from mcp_core.errors import UnsafeUrl
from mcp_core.oauth.urls import parse_url, same_origin
from mcp_server.auth.authorization_server.clients.documents import TooMany
from mcp_server.auth.authorization_server.clients.registration import DynamicRegistration
from mcp_server.auth.authorization_server.model.messages import NO_STORE, Answer, OAuthRequestRejected
from mcp_server.auth.authorization_server.pages import routes as pages
from mcp_server.auth.authorization_server.protocol.endpoints import READABLE, ClientRequest
from mcp_server.auth.authorization_server.protocol.metadata import metadata_paths

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.steps import Pairs
    from mcp_server.auth.authorization_server.pages.actions import PageEnvironment
    from mcp_server.auth.authorization_server.protocol.endpoints import Endpoints

__all__ = ["PATHS", "make_app"]

_log: Final = logging.getLogger("mcp_server")

PATHS: Final = ("/authorize", "/token", "/revoke", "/introspect", "/register", "/jwks")
"""The paths of the protocol endpoints, below the prefix."""

_BYTES: Final = 64 * 1024
_SECONDS: Final = 30.0
_JSON: Final = "application/json"
_PREFIX: Final = 64

_USABLE: Final[Pairs] = (*READABLE, ("Access-Control-Expose-Headers", "DPoP-Nonce, Retry-After, WWW-Authenticate"))
_PREFLIGHT: Final[Pairs] = (
    *READABLE,
    ("Access-Control-Allow-Methods", "GET, POST"),
    ("Access-Control-Allow-Headers", "Authorization, Content-Type, DPoP, MCP-Protocol-Version"),
    ("Access-Control-Max-Age", "3600"),
)
_ALWAYS: Final[Pairs] = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
)


def make_app(server: PageEnvironment, endpoints: Endpoints) -> QuartTrio:
    """Return the application, including the pages."""
    app = QuartTrio(__name__, static_folder=None, template_folder=None)
    app.config.update(MAX_CONTENT_LENGTH=_BYTES, BODY_TIMEOUT=_SECONDS, RESPONSE_TIMEOUT=_SECONDS)
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    prefix = endpoints.settings.prefix

    def route(path: str, method: str, view: Callable[[], Awaitable[Response]], *, cors: bool = True) -> None:
        name = f"{method} {path}"
        methods = ["GET", "HEAD"] if method == "GET" else [method]
        app.add_url_rule(path, name, view, methods=methods, provide_automatic_options=False)
        if cors:
            app.add_url_rule(path, f"OPTIONS {path}", _preflight, methods=["OPTIONS"], provide_automatic_options=False)

    async def authorize() -> Response:
        return await _authorize(server, endpoints)

    for path in metadata_paths(prefix):
        route(path, "GET", _shown(endpoints.metadata))
    route(f"{prefix}/jwks", "GET", _shown(endpoints.jwks))
    route(f"{prefix}/authorize", "GET", authorize, cors=False)
    route(f"{prefix}/token", "POST", _posted(endpoints.token, _USABLE))
    route(f"{prefix}/revoke", "POST", _posted(endpoints.revoke, _USABLE))
    route(f"{prefix}/introspect", "POST", _posted(endpoints.introspect, ()), cors=False)
    if endpoints.policy.dynamic is not DynamicRegistration.OFF:
        route(f"{prefix}/register", "POST", _posted(endpoints.register, _USABLE))
    pages.register(app, server)

    async def failed(error: Exception) -> Response:
        return _failed(server, error)

    app.before_request(_host_check(endpoints.settings.issuer))
    app.register_error_handler(Exception, failed)
    return app


def _posted(act: Callable[[ClientRequest], Awaitable[Answer]], headers: Pairs) -> Callable[[], Awaitable[Response]]:
    async def view() -> Response:
        return _written(await act(await _client_request()), headers)

    return view


def _shown(make: Callable[[], Awaitable[Answer]]) -> Callable[[], Awaitable[Response]]:
    async def view() -> Response:
        return _written(await make())

    return view


def _host_check(issuer: str) -> Callable[[], Awaitable[Response | None]]:
    origin = parse_url(issuer, what="issuer")

    async def check() -> Response | None:
        try:
            address = parse_url(f"{origin.scheme}://{request.headers.get('Host', '')}", what="Host")
        except UnsafeUrl:
            address = None
        if address is not None and not address.path and same_origin(address, origin):
            return None
        body: JsonObject = {
            "error": "invalid_request",
            "error_description": "The Host header does not match the host of the issuer.",
        }
        return _written(Answer(status=421, body=body))

    return check


async def _client_request() -> ClientRequest:
    body = await request.get_data(as_text=False, parse_form_data=False)
    return ClientRequest(
        body=body if isinstance(body, bytes) else body.encode(),
        kind=(request.mimetype or "").lower(),
        authorization=request.headers.getlist("Authorization"),
        proofs=request.headers.getlist("DPoP"),
        address=_address(),
    )


def _address() -> str:
    """Return the address of the client, and for IPv6 its network: one customer of a provider has a whole network."""
    client = request.scope.get("client")
    text = str(client[0]) if client else ""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return text
    return str(ipaddress.IPv6Network((address, _PREFIX), strict=False))


async def _preflight() -> Response:
    return _written(Answer(status=204), _PREFLIGHT)


async def _authorize(server: PageEnvironment, endpoints: Endpoints) -> Response:
    try:
        target = await endpoints.authorize(request.query_string.decode("latin-1"), address=_address())
    except OAuthRequestRejected as refused:
        return pages.error(server, 400, "Authorization request rejected", refused.sentence)
    except TooMany as many:
        page = pages.error(server, 429, "Too many requests", "Wait a moment, then try again.")
        page.headers["Retry-After"] = str(math.ceil(many.seconds))
        return page
    return _written(Answer(status=303, headers=(*NO_STORE, ("Location", target))))


def _written(answer: Answer, more: Pairs = ()) -> Response:
    body = b"" if answer.body is None else orjson.dumps(answer.body)
    response = Response(body, status=answer.status)
    del response.headers["Content-Type"]
    if body:
        response.headers["Content-Type"] = _JSON
    for name, value in (*_ALWAYS, *answer.headers, *more):
        response.headers[name] = value
    return response


def _failed(server: PageEnvironment, error: Exception) -> Response:
    """Return the response for an unknown path or method, a body that is too large, or an internal error."""
    status = error.code or 500 if isinstance(error, HTTPException) else 500
    if status == 500:
        _log.error("authorization server failed: path=%s", request.path, exc_info=error)
    if any(request.path.startswith(f"{server.prefix}{path}") for path in pages.PATHS):
        return pages.error(server, status, "Something went wrong", "Go back to the application and log in again.")
    code = "server_error" if status == 500 else "invalid_request"
    allowed = getattr(error, "valid_methods", None)
    headers: Pairs = (("Allow", ", ".join(allowed)),) if allowed else ()
    return _written(Answer(status=status, body={"error": code}, headers=(*NO_STORE, *headers)))
