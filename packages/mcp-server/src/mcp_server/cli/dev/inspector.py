"""The inspector: a page on a loopback address that uses the server as an MCP client, in the browser.

The page speaks MCP itself, to the endpoint of the child process. This module serves the files of the page, and an event
stream with the states of the server.

*Access.* Another page in the same browser could send requests here, and so could other users of this machine. The path
begins with a random token, which only the terminal shows. Host and Origin must be this server's, so that a foreign host
name that resolves to this machine (DNS rebinding) does not help to guess. The endpoint itself allows the origin of this
page and no other.

Spec: basic/transports#security-warning; RFC 9110 section 7.2, https://www.w3.org/TR/CSP3/
"""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from importlib.resources import files
from typing import TYPE_CHECKING, Final, cast

import attrs
import orjson
import trio

from mcp_core.conversion.converter import converter
from mcp_core.http.messages import Headers, HttpRequest
from mcp_core.http.origin import rejection
from mcp_core.revisions import R2025_06_18, REVISIONS, Era, between
from mcp_core.trio.extras import extra
from mcp_core.types.lifecycle import (
    ClientCapabilities,
    ElicitationCapability,
    RootsCapability,
    SamplingCapability,
)
from mcp_server.host.embedded import HttpHost

with extra("trio-mcp-server", "dev"):
    from quart import Response, request
    from quart_trio import QuartTrio
    from werkzeug.exceptions import HTTPException

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.asgi import Application
    from mcp_server.cli.dev.reloader import Reloader, ServerState

__all__ = ["Inspector"]

_log: Final = logging.getLogger("mcp_server")

_TOKEN_BYTES: Final = 24
"""Random bytes of the token: 192 bits."""

_CAPABILITIES: Final = ClientCapabilities(
    roots=RootsCapability(),
    sampling=SamplingCapability(),
    elicitation=ElicitationCapability(form={}, url={}),
)
"""What the page does as a client, in all revisions together. Each revision has its part."""

_COMPLETION_CONTEXT: Final = between(R2025_06_18, None)
"""The revisions in which a completion is given the values of other arguments."""

_KEEP_ALIVE: Final = 15.0
"""Time without a state after which a comment is sent, in seconds, so that a closed page is noticed."""

_TYPES: Final = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PAGE: Final = files("mcp_server.cli.dev") / "page"
_FILES: Final = {
    each.name: each.read_bytes() for each in _PAGE.iterdir() if any(each.name.endswith(ending) for ending in _TYPES)
}
_INDEX: Final = "index.html"

_ALWAYS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_NOTHING: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

_STYLE: Final = ":root{color-scheme:light dark}body{max-width:36rem;margin:3rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif}"
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_FORBIDDEN: Final = f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Inspector: access denied</title>
<style>{_STYLE}</style>
<h1>Access denied</h1>
<p>This URL does not have the token of the running <code>mcp-server dev</code>.</p>
<p>Open the URL after <code>inspector:</code> in the terminal, exactly as printed. Each start of the command has a new
token, so older URLs no longer work.</p>
""".encode()


class Inspector:
    """The server of the inspector page.

    Args:
        reloader: The server to inspect.
        origin: The origin of the page.
        endpoint: The origin of the endpoint of the server.
    """

    def __init__(self, reloader: Reloader, *, origin: str, endpoint: str) -> None:
        self._reloader: Final = reloader
        self._token: Final = secrets.token_urlsafe(_TOKEN_BYTES)
        self._host: Final = origin.partition("://")[2]
        self._endpoint: Final = endpoint
        self._policy: Final = (
            f"{_NOTHING}; script-src 'self'; style-src 'self'; connect-src 'self' {endpoint};"
            " img-src 'self' data:; media-src data:; require-trusted-types-for 'script'"
        )
        self.url: Final = f"{origin}/{self._token}/"
        """The URL of the page."""
        self.app: Final = self._make_app()
        """The application."""

    async def run(
        self,
        listeners: Sequence[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until this task is cancelled.

        Args:
            listeners: The sockets, which listen at the origin.
            task_status: Reports when the page can be opened.
        """
        host = HttpHost(cast("Application", self.app))  # its event types are more specific
        await host.run(listeners, task_status=task_status)

    def _make_app(self) -> QuartTrio:
        app = QuartTrio(__name__, static_folder=None, template_folder=None)
        app.url_map.strict_slashes = True
        app.url_map.merge_slashes = False
        for path, view in (
            ("/<token>/", self._show_index),
            ("/<token>/events", self._stream_states),
            ("/<token>/<name>", self._show_file),
        ):
            app.add_url_rule(path, view.__name__, view, methods=["GET"], provide_automatic_options=False)
        app.before_request(self._check)
        app.register_error_handler(Exception, self._fail)
        return app

    async def _check(self) -> Response | None:
        """Reject a request from a foreign page, or without the token."""
        headers = Headers([(name, value) for name, value in request.headers.items()])
        target = str(request.scope["path"])
        foreign = rejection(HttpRequest(method=request.method, target=target, headers=headers), (self._host,), ())
        given = target.split("/")[1].encode("utf-8", "surrogatepass")
        if foreign is None and secrets.compare_digest(given, self._token.encode()):
            return None
        return _response(_FORBIDDEN, "text/html", f"{_NOTHING}; style-src 'sha256-{_STYLE_HASH}'", status=403)

    async def _show_index(self, token: str) -> Response:
        return await self._show_file(token, _INDEX)

    async def _show_file(self, token: str, name: str) -> Response:  # noqa: ARG002  # checked before
        content = _FILES.get(name)
        if content is None:
            return _response(b"not found\n", "text/plain", _NOTHING, status=404)
        kind = next(kind for ending, kind in _TYPES.items() if name.endswith(ending))
        return _response(content, kind, self._policy if kind == "text/html" else _NOTHING)

    async def _stream_states(self, token: str) -> Response:  # noqa: ARG002  # checked before
        response = _response(self._states(), "text/event-stream", _NOTHING)
        response.timeout = None
        return response

    async def _states(self) -> AsyncIterator[bytes]:
        serial = -1
        while True:
            event = b":\n\n"
            with trio.move_on_after(_KEEP_ALIVE):
                state = await self._reloader.next_state(serial)
                serial = state.serial
                event = b"data: " + orjson.dumps(self._described(state)) + b"\n\n"
            yield event

    def _described(self, state: ServerState) -> JsonObject:
        return {
            "status": state.status,
            "loads": state.loads,
            "name": state.name,
            "version": state.version,
            "failure": None if state.failure is None else attrs.asdict(state.failure),
            "endpoint": self._endpoint,
            "revisions": [
                {
                    "name": revision.name,
                    "modern": revision.era is Era.MODERN,
                    "completionContext": revision in _COMPLETION_CONTEXT,
                    "capabilities": converter(revision).unstructure(_CAPABILITIES),
                }
                for revision in REVISIONS.values()
            ],
        }

    async def _fail(self, error: Exception) -> Response:
        status = error.code or 500 if isinstance(error, HTTPException) else 500
        if status == 500:
            _log.error("inspector failed: path=%s", request.path.replace(self._token, "..."), exc_info=error)
        return _response(
            b"not found\n" if status == 404 else b"request failed\n", "text/plain", _NOTHING, status=status
        )


def _response(body: bytes | AsyncIterator[bytes], kind: str, policy: str, *, status: int = 200) -> Response:
    response = Response(body, status=status)
    response.headers["Content-Type"] = kind if kind == "text/event-stream" else f"{kind}; charset=utf-8"
    response.headers["Content-Security-Policy"] = policy
    for name, value in _ALWAYS:
        response.headers[name] = value
    return response
