"""Icons that clients must not fetch, and the listeners that note who fetches them.

Icons over https at the origin of the server are not among them: the suite has no certificate that clients trust. A
connection to another origin is visible without one.
"""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import trio

from mcp_conformance.drivers.client.http_host import PostSink
from mcp_conformance.scenarios.pagination import LISTS
from mcp_conformance.scenarios.reached_host import origin_of
from mcp_core.types.meta import SERVER_INFO

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

    Handler = Callable[[ScriptedRequest], Awaitable[JsonObject]]

__all__ = [
    "FTP",
    "ICON",
    "OTHER_ORIGIN",
    "REDIRECTED",
    "SCRIPT",
    "SVG_SCRIPT",
    "WEBSOCKET",
    "add_icons",
]

ICON: Final = "/not-to-be-fetched/icon.png"
"""The path of an icon, by plain HTTP. It redirects to another origin."""
WEBSOCKET: Final = "/not-to-be-fetched/icon-by-websocket.png"
"""The path of an icon with the scheme `ws`."""
SCRIPT: Final = "/not-to-be-fetched/by-script"
"""The path that the script of an icon with the scheme `javascript` fetches."""
SVG_SCRIPT: Final = "/not-to-be-fetched/by-svg"
"""The path that the script in an SVG image fetches."""
FTP: Final = "a connection to the FTP server of an icon"
"""The note of a connection for an icon with the scheme `ftp`."""
OTHER_ORIGIN: Final = "a connection to another origin for an icon"
"""The note of a connection for an icon with the scheme `https` that is not at the origin of the server."""
REDIRECTED: Final = "a connection to another origin after a redirect of an icon"
"""The note of a connection to the origin to which the icon by plain HTTP redirects."""

_COOKIE: Final = ("Set-Cookie", "conformance=for-the-server-only; Path=/")


def add_icons(setup: ScenarioSetup) -> None:
    """Add the icons to the server and to the entries of all lists."""
    handlers = setup.server.handlers
    origins = _OtherOrigins(setup)
    for method, member in LISTS.items():
        handlers[method] = _with_icons(handlers[method], member, origins)
    right = {method: handlers[method] for method in ("initialize", "server/discover")}

    async def initialize(request: ScriptedRequest) -> JsonObject:
        result = await right["initialize"](request)
        return {**result, "serverInfo": await _described(result.get("serverInfo"), request, origins)}

    async def discover(request: ScriptedRequest) -> JsonObject:
        result = setup.server.complete("server/discover", await right["server/discover"](request), request.revision)
        meta = result.get("_meta")
        known = meta if isinstance(meta, dict) else {}
        info = await _described(known.get(SERVER_INFO), request, origins)
        return {**result, "_meta": {**known, SERVER_INFO: info}}

    handlers.update({"initialize": initialize, "server/discover": discover})

    async def redirect(exchange: HttpExchange) -> bool:
        if exchange.path != ICON:
            return False
        host = _other_host(f"http://{exchange.header('host')}")
        await exchange.respond(302, [("Location", f"http://{host}:{await origins.port(REDIRECTED)}/icon.png")])
        return True

    setup.http.before = redirect


def _with_icons(right: Handler, member: str, origins: _OtherOrigins) -> Handler:
    async def listed(request: ScriptedRequest) -> JsonObject:
        result = await right(request)
        entries = result[member]
        rows = entries if isinstance(entries, list) else []
        return {**result, member: [await _described(each, request, origins) for each in rows]}

    return listed


async def _described(value: JsonValue, request: ScriptedRequest, origins: _OtherOrigins) -> JsonValue:
    """Return an object with the icons."""
    return {**value, "icons": await _icons(request, origins)} if isinstance(value, dict) else value


async def _icons(request: ScriptedRequest, origins: _OtherOrigins) -> list[JsonValue]:
    origin = origin_of(request)
    sink = request.sink
    if isinstance(sink, PostSink) and _COOKIE not in sink.headers:
        sink.headers.append(_COOKIE)
    script = f"fetch('{origin}{SVG_SCRIPT}')"
    image = f'<svg xmlns="http://www.w3.org/2000/svg"><script>{script}</script></svg>'.encode()
    ftp, other = [await origins.port(note) for note in (FTP, OTHER_ORIGIN)]
    sources = (
        (f"{origin}{ICON}", "image/png"),
        (f"ws{origin.removeprefix('http')}{WEBSOCKET}", "image/png"),
        (f"ftp://{urlsplit(origin).hostname}:{ftp}/icon.png", "image/png"),
        (f"javascript:fetch('{origin}{SCRIPT}')", "image/png"),
        (f"https://{_other_host(origin)}:{other}/icon.png", "image/png"),
        (f"data:image/svg+xml;base64,{base64.b64encode(image).decode()}", "image/svg+xml"),
    )
    return [{"src": source, "mimeType": kind} for source, kind in sources]


def _other_host(origin: str) -> str:
    """Return another name of this host."""
    return "127.0.0.1" if urlsplit(origin).hostname == "localhost" else "localhost"


class _OtherOrigins:
    """The other origins: ports of this host, each of which is opened when it is first needed.

    Args:
        setup: The setup of the scenario, whose notes receive the connections.
    """

    def __init__(self, setup: ScenarioSetup) -> None:
        self._setup: Final = setup
        self._lock: Final = trio.Lock()
        self._ports: Final[dict[str, int]] = {}

    async def port(self, note: str) -> int:
        """Return the port at which a connection leaves this note."""
        async with self._lock:
            if note not in self._ports:
                serve = partial(trio.serve_tcp, partial(self._note, note), 0, host="127.0.0.1")
                listeners: list[trio.SocketListener] = await self._setup.http.nursery.start(serve)
                self._ports[note] = listeners[0].socket.getsockname()[1]
        return self._ports[note]

    async def _note(self, note: str, stream: trio.SocketStream) -> None:
        self._setup.notes[note] = True
        self._setup.http.transcript.note(note)
        await stream.aclose()
