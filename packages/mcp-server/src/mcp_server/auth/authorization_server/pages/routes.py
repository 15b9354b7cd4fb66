"""Routes of the pages in the web framework: login, consent, logout, errors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from quart import Response, request

from mcp_core.oauth.urls import parse_url
from mcp_server.auth.authorization_server.pages.actions import Pages
from mcp_server.auth.authorization_server.pages.browser_request import FORM_BYTES, BrowserRequest
from mcp_server.auth.authorization_server.pages.rendering import Templates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from quart_trio import QuartTrio

    from mcp_server.auth.authorization_server.pages.actions import PageEnvironment
    from mcp_server.auth.authorization_server.pages.rendering import PageAnswer

__all__ = ["PATHS", "error", "register"]

PATHS = ("/interaction", "/logout", "/delegation", "/assets")
"""The paths of the pages, below the prefix of the server."""


def register(app: QuartTrio, server: PageEnvironment) -> None:
    """Add the routes of the pages, below `server.prefix`."""
    templates = _templates(server.issuer)
    pages = Pages(server, templates)
    style = templates.style()

    async def stylesheet() -> Response:
        return _response(style)

    async def on_form(action: Callable[[BrowserRequest, str], Awaitable[PageAnswer]], id: str) -> Response:
        return _response(await action(await _browser_request(), id))

    async def show(id: str) -> Response:
        return await on_form(pages.show, id)

    async def log_in(id: str) -> Response:
        return await on_form(pages.log_in, id)

    async def decide(id: str) -> Response:
        return await on_form(pages.decide, id)

    async def switch(id: str) -> Response:
        return await on_form(pages.switch, id)

    async def come_back() -> Response:
        return _response(await pages.come_back(await _browser_request()))

    async def leave() -> Response:
        return _response(await pages.leave(await _browser_request()))

    async def log_out() -> Response:
        return _response(await pages.log_out(await _browser_request()))

    request_page = f"{server.prefix}/interaction/<id>"
    for path, method, view in (
        (templates.style_path, "GET", stylesheet),
        (request_page, "GET", show),
        (f"{request_page}/login", "POST", log_in),
        (f"{request_page}/consent", "POST", decide),
        (f"{request_page}/switch", "POST", switch),
        (f"{server.prefix}/delegation/callback", "GET", come_back),
        (f"{server.prefix}/logout", "GET", leave),
        (f"{server.prefix}/logout", "POST", log_out),
    ):
        app.add_url_rule(path, f"pages.{view.__name__}", view, methods=[method], provide_automatic_options=False)


def error(server: PageEnvironment, status: int, title: str, text: str) -> Response:
    """Return a page with an error. It contains nothing from the request.

    Args:
        server: The authorization server.
        status: The HTTP status.
        title: The heading.
        text: The error and the remedy, as text.
    """
    return _response(_templates(server.issuer).message(status, title, text))


@lru_cache(maxsize=16)
def _templates(issuer: str) -> Templates:
    url = parse_url(issuer, what="issuer")
    return Templates(url.origin.partition("://")[2], url.path.rstrip("/"))


def _response(answer: PageAnswer) -> Response:
    response = Response(answer.body, status=answer.status)
    # The framework sets a default content type, which a redirect must not have.
    del response.headers["Content-Type"]
    for name, value in answer.headers:
        response.headers.add(name, value)
    return response


async def _browser_request() -> BrowserRequest:
    headers = request.headers
    body = await request.data
    return BrowserRequest(
        cookies="; ".join(headers.getlist("Cookie")),
        origin=headers.get("Origin"),
        fetch_site=headers.get("Sec-Fetch-Site"),
        content_type=headers.get("Content-Type", ""),
        query=request.query_string.decode("latin-1"),
        body=body if len(body) <= FORM_BYTES else None,
        address=request.remote_addr or "",
    )
