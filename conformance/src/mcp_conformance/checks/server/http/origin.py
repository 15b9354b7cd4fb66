"""HTTP requests that a foreign web page makes a browser send, and that the server must reject."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from mcp_conformance.catalogue.requirements import catalogue
from mcp_conformance.checks.probes.http_requests import (
    ACCEPT_STREAM,
    EVIL,
    control,
    http_peer,
    last_event,
    lookalike_origins,
    on_one_connection,
    probe,
    require,
    session,
    session_messages,
    shown,
    with_header,
    without,
)
from mcp_conformance.checks.probes.modern_requests import valid_requests
from mcp_conformance.checks.probes.rejected_calls import require_no_effect
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.drivers.settings import CLIENT_INFO
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_PROVES = ("http.origin-validate", "http.origin-403", "http.origin-validated", "http.origin-invalid-403")
_VALIDATES = ("http.origin-validate", "http.origin-validated")
_FOREIGN = ("Origin", f"https://{EVIL}")
_PAGE = "a request of a foreign page"
_CLIENT_ERRORS = frozenset(range(400, 500))


def _refusals(peer: HttpConnection) -> frozenset[int]:
    """Return the statuses of a rejection: 403 where the revision requires it, otherwise any 4xx."""
    says = (catalogue().find(id, peer.revision.name) for id in ("http.origin-403", "http.origin-invalid-403"))
    return frozenset({403}) if any(says) else _CLIENT_ERRORS


async def _refused(
    peer: HttpConnection, *origins: str, host: str | None = None, statuses: frozenset[int] | None = None
) -> None:
    """Require that a request is rejected with each of some origins, after the same request without one."""
    request = await control(peer)
    for origin in origins:
        request = {**request, "id": peer.next_id()}
        answer = await peer.look(
            headers=[*peer.headers(request), ("Origin", origin)],
            body=encoded(request),
            host=host,
            deviant=_PAGE,
        )
        require(answer, statuses or _refusals(peer), f"the Origin {origin}" + (f" at the Host {host}" if host else ""))


def _opening(peer: HttpConnection) -> tuple[JsonObject, list[tuple[str, str]]]:
    """Return an `initialize` request, and its headers, which belong to no session."""
    opening: JsonObject = {"protocolVersion": peer.revision.name, "capabilities": {}, "clientInfo": CLIENT_INFO}
    request = peer.message("initialize", opening)
    return request, without(peer.headers(request), "Mcp-Session-Id", "MCP-Protocol-Version")


@check("http.origin-foreign", proves=_PROVES)
async def origin_foreign(server: ServerUnderTest) -> None:
    """A request with the Origin of a foreign site is rejected, also one that begins a session or follows another one."""
    peer = http_peer(server)
    await _refused(peer, f"https://{EVIL}")
    request = probe(peer)
    answer = await peer.look(
        headers=[*peer.headers(request), ("origin", f"https://{EVIL}")], body=encoded(request), deviant=_PAGE
    )
    require(answer, _refusals(peer), "a foreign Origin with the name of the header in lower case")
    own, foreign = probe(peer), probe(peer)
    with suppress(NotApplicable):
        _, answer = await on_one_connection(
            peer, own, foreign, deviant=_PAGE, headers=[*peer.headers(foreign), _FOREIGN]
        )
        require(answer, _refusals(peer), "a foreign Origin in the second request of an HTTP connection")
    if peer.revision.era is Era.LEGACY:
        opening, headers = _opening(peer)
        answer = await peer.look(headers=[*headers, _FOREIGN], body=encoded(opening), deviant=_PAGE)
        require(answer, _refusals(peer), "initialize with a foreign Origin")


@check("http.origin-lookalike", proves=_PROVES)
async def origin_lookalike(server: ServerUnderTest) -> None:
    """A request whose Origin only resembles the server's own, or that of a local page, is rejected."""
    peer = http_peer(server)
    await _refused(peer, *lookalike_origins(peer.endpoint))


@check("http.origin-null", proves=_PROVES)
async def origin_null(server: ServerUnderTest) -> None:
    """A request with the Origin "null", which any page can send, is rejected."""
    await _refused(http_peer(server), "null")


@check("http.dns-rebinding", proves=_PROVES)
async def dns_rebinding(server: ServerUnderTest) -> None:
    """A message of a foreign page to a host name that was rebound to the server's address is rejected, whatever it is."""
    peer = http_peer(server)
    host, origin = _rebound(peer)
    # The Host is foreign too, and may be rejected first, for instance with 421.
    await _refused(peer, origin, host=host, statuses=_CLIENT_ERRORS)
    messages = [(name, message, peer.headers(message)) for name, message in session_messages(probe(peer))[1:]]
    if peer.revision.era is Era.LEGACY:
        messages.append(("initialize", *_opening(peer)))
    for name, message, headers in messages:
        lines = [*headers, ("Origin", origin)]
        answer = await peer.look(headers=lines, body=encoded(message), host=host, deviant=_PAGE)
        require(answer, _CLIENT_ERRORS, f"{name} with the Origin {origin} at the Host {host}")


def _rebound(peer: HttpConnection) -> tuple[str, str]:
    """Return the Host and the Origin of a foreign page whose host name has the address of the server."""
    host = f"{EVIL}:{peer.endpoint.port}"
    return host, f"http://{host}"


@check("http.origin-simple-post", proves=_VALIDATES)
async def origin_simple_post(server: ServerUnderTest) -> None:
    """A cross-site POST of text/plain, which needs no preflight, is rejected."""
    peer = http_peer(server)
    request = await control(peer)
    headers = with_header(peer.headers(request), "Content-Type", "text/plain")
    answer = await peer.look(
        headers=[*headers, _FOREIGN, ("Sec-Fetch-Site", "cross-site")],
        body=encoded(request),
        deviant=_PAGE,
    )
    require(answer, _CLIENT_ERRORS, "text/plain from a foreign page")


@check("http.origin-notification", proves=(*_PROVES, "http.notification-reject", "http.notification-rejected-4xx"))
async def origin_notification(server: ServerUnderTest) -> None:
    """A notification or a response with a foreign Origin is rejected with an HTTP error, not answered with 202."""
    peer = http_peer(server)
    message = peer.message("notifications/cancelled", {"requestId": "conformance-none"})
    del message["id"]
    messages: list[tuple[str, JsonObject]] = [("a notification", message)]
    if peer.revision.era is Era.LEGACY:
        messages.append(("a response", {"jsonrpc": "2.0", "id": "conformance-none", "result": {}}))
    await control(peer)
    for name, each in messages:
        answer = await peer.look(
            headers=[*peer.headers(each), _FOREIGN],
            body=encoded(each),
            deviant=f"{name} of a foreign page",
        )
        require(answer, _refusals(peer), f"{name} with a foreign Origin")


@check("http.origin-every-method", proves=_PROVES)
async def origin_every_method(server: ServerUnderTest) -> None:
    """A request of any method with a foreign Origin is rejected, whatever it is and however it is answered."""
    peer = http_peer(server)
    for method, params in valid_requests(server):
        # Other checks cover whether the method is served at all.
        with suppress(NotTestable):
            request = await control(peer, peer.message(method, params))
            answer = await peer.look(headers=[*peer.headers(request), _FOREIGN], body=encoded(request), deviant=_PAGE)
            require(answer, _refusals(peer), f"{method} with a foreign Origin")
    if server.revision.era is Era.LEGACY:
        # The connection of the check shows that the server serves the same request without an Origin.
        request, headers = _opening(peer)
        answer = await peer.look(headers=[*headers, _FOREIGN], body=encoded(request), deviant=_PAGE)
        require(answer, _refusals(peer), "initialize with a foreign Origin")
    else:
        for name in ("GET", "DELETE"):
            version = ("MCP-Protocol-Version", server.revision.name)
            answer = await peer.look(
                name,
                headers=[*peer.settings.headers, ACCEPT_STREAM, version, _FOREIGN],
                deviant=_PAGE,
            )
            # Both methods are refused for other reasons too, for instance with 405.
            require(answer, _CLIENT_ERRORS, f"{name} with a foreign Origin")


@check("http.origin-without-effect", proves=_VALIDATES, needs=("capability:tools",))
async def origin_without_effect(server: ServerUnderTest) -> None:
    """A call with the Origin of a foreign site, which the server rejects, does not run."""
    await require_no_effect(server, lambda headers: [*headers, _FOREIGN], "a call with a foreign Origin")


@check("http.origin-stream", proves=("http.origin-validate", "http.origin-403"))
async def origin_stream(server: ServerUnderTest) -> None:
    """A GET with a foreign Origin is rejected, also one with Last-Event-ID."""
    async with session(server) as peer:
        last = await last_event(server, peer)
        headers = [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()]
        for lines in ([last] if last else []) + [[]]:
            what = f"a GET{' with Last-Event-ID' if lines else ''} with a foreign Origin"
            answer = await peer.look("GET", headers=[*headers, *lines, _FOREIGN], deviant=_PAGE)
            host, origin = _rebound(peer)
            other = await peer.look("GET", headers=[*headers, *lines, ("Origin", origin)], host=host, deviant=_PAGE)
            straight = await peer.look("GET", headers=[*headers, *lines])
            if straight.status == 200:
                require(answer, _refusals(peer), what)
                require(other, _CLIENT_ERRORS, f"{what} at a rebound host name")
            elif not lines and straight.status == 405:
                raise NotApplicable("the server offers no stream by GET")
            elif not lines:
                raise NotTestable(f"the control request failed: {shown(straight)}")


@check("http.origin-delete", proves=("http.origin-validate", "http.origin-403"))
async def origin_delete(server: ServerUnderTest) -> None:
    """A DELETE with a foreign Origin is rejected, and the session remains valid."""
    async with session(server) as peer:
        if peer.session_id is None:
            raise NotApplicable("the server has no sessions")
        headers = [*peer.settings.headers, *peer.session_headers()]
        answer = await peer.look("DELETE", headers=[*headers, _FOREIGN], deviant=_PAGE)
        host, origin = _rebound(peer)
        other = await peer.look("DELETE", headers=[*headers, ("Origin", origin)], host=host, deviant=_PAGE)
        request = probe(peer)
        alive = await peer.look(headers=peer.headers(request), body=encoded(request))
        straight = await peer.look("DELETE", headers=headers)
        if straight.status == 405:
            raise NotApplicable("clients cannot end sessions")
        require(answer, _refusals(peer), "a DELETE with a foreign Origin")
        require(other, _CLIENT_ERRORS, "a DELETE with a foreign Origin at a rebound host name")
        if alive.status != 200:
            raise Deviation("the session to remain valid", shown(alive))


@check("http.origin-preflight", proves=_VALIDATES)
async def origin_preflight(server: ServerUnderTest) -> None:
    """A preflight request for a foreign page is not granted."""
    peer = http_peer(server)
    answer = await peer.look(
        "OPTIONS",
        headers=[
            _FOREIGN,
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "content-type, mcp-protocol-version"),
        ],
        deviant=_PAGE,
    )
    allowed = answer.header("access-control-allow-origin")
    if 200 <= answer.status < 300 and allowed in ("*", f"https://{EVIL}"):
        raise Deviation(
            "no CORS permission for a foreign page", f"HTTP {answer.status} with Access-Control-Allow-Origin {allowed}"
        )
