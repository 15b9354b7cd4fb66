"""HTTP and browsers: requests that a foreign web page made a browser send, which must not get in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.catalogue.requirements import catalogue
from mcp_conformance.checks.probes.http_requests import (
    ACCEPT_STREAM,
    EVIL,
    control,
    http_peer,
    probe,
    require,
    session,
    shown,
    with_header,
)
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

_PROVES = ("http.origin-validate", "http.origin-403", "http.origin-validated", "http.origin-invalid-403")
_VALIDATES = ("http.origin-validate", "http.origin-validated")
_CLIENT_ERRORS = frozenset(range(400, 500))


def _refusals(peer: HttpConnection) -> frozenset[int]:
    """The statuses of a refusal: 403 where the revision says so, otherwise any that blames the client."""
    says = (catalogue().find(id, peer.revision.name) for id in ("http.origin-403", "http.origin-invalid-403"))
    return frozenset({403}) if any(says) else _CLIENT_ERRORS


async def _refused(
    peer: HttpConnection, origin: str, *, host: str | None = None, statuses: frozenset[int] | None = None
) -> None:
    request = await control(peer)
    answer = await peer.look(
        headers=[*peer.headers(request), ("Origin", origin)],
        body=encoded(request),
        host=host,
        deviant="a request that a foreign page makes a browser send",
    )
    require(answer, statuses or _refusals(peer), f"the Origin {origin}" + (f" at the Host {host}" if host else ""))


@check("http.origin-foreign", proves=_PROVES)
async def origin_foreign(server: ServerUnderTest) -> None:
    """A request with the Origin of a foreign site is refused."""
    await _refused(http_peer(server), f"https://{EVIL}")


@check("http.origin-lookalike", proves=_PROVES)
async def origin_lookalike(server: ServerUnderTest) -> None:
    """A request is refused whose Origin only begins like the server's own."""
    peer = http_peer(server)
    await _refused(peer, f"http://{peer.endpoint.host}.{EVIL}:{peer.endpoint.port}")


@check("http.origin-null", proves=_PROVES)
async def origin_null(server: ServerUnderTest) -> None:
    """A request with the Origin "null", which any page can have a browser send, is refused."""
    await _refused(http_peer(server), "null")


@check("http.dns-rebinding", proves=_PROVES)
async def dns_rebinding(server: ServerUnderTest) -> None:
    """A request is refused that a page of a foreign name sends to that name, which leads to the server by then."""
    peer = http_peer(server)
    place = f"{EVIL}:{peer.endpoint.port}"
    # The Host is as foreign as the Origin, and may be what is complained of first: by 421, for instance.
    await _refused(peer, f"http://{place}", host=place, statuses=_CLIENT_ERRORS)


@check("http.origin-simple-post", proves=_VALIDATES)
async def origin_simple_post(server: ServerUnderTest) -> None:
    """A POST of text/plain, for which browsers ask no leave, is refused when a foreign page sends it."""
    peer = http_peer(server)
    request = await control(peer)
    headers = with_header(peer.headers(request), "Content-Type", "text/plain")
    answer = await peer.look(
        headers=[*headers, ("Origin", f"https://{EVIL}"), ("Sec-Fetch-Site", "cross-site")],
        body=encoded(request),
        deviant="a request that a foreign page makes a browser send",
    )
    require(answer, _CLIENT_ERRORS, "text/plain from a foreign page")


@check("http.origin-notification", proves=(*_PROVES, "http.notification-reject", "http.notification-rejected-4xx"))
async def origin_notification(server: ServerUnderTest) -> None:
    """A notification with a foreign Origin is refused by an HTTP error, and not by 202."""
    peer = http_peer(server)
    message = peer.message("notifications/cancelled", {"requestId": "conformance-none"})
    del message["id"]
    await control(peer)
    answer = await peer.look(
        headers=[*peer.headers(message), ("Origin", f"https://{EVIL}")],
        body=encoded(message),
        deviant="a notification that a foreign page makes a browser send",
    )
    require(answer, _refusals(peer), "a notification with a foreign Origin")


@check("http.origin-stream", proves=("http.origin-validate", "http.origin-403"))
async def origin_stream(server: ServerUnderTest) -> None:
    """A GET with a foreign Origin is refused."""
    async with session(server) as peer:
        headers = [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()]
        answer = await peer.look(
            "GET",
            headers=[*headers, ("Origin", f"https://{EVIL}")],
            deviant="a request that a foreign page makes a browser send",
        )
        straight = await peer.look("GET", headers=headers)
        if straight.status == 405:
            raise NotApplicable("there is no stream to be had by GET")
        if straight.status != 200:
            raise NotTestable(f"the control failed: {shown(straight)}")
        require(answer, _refusals(peer), "a GET with a foreign Origin")


@check("http.origin-delete", proves=("http.origin-validate", "http.origin-403"))
async def origin_delete(server: ServerUnderTest) -> None:
    """A DELETE with a foreign Origin is refused, and the session lives on."""
    async with session(server) as peer:
        if peer.session_id is None:
            raise NotApplicable("there are no sessions")
        headers = [*peer.settings.headers, *peer.session_headers()]
        answer = await peer.look(
            "DELETE",
            headers=[*headers, ("Origin", f"https://{EVIL}")],
            deviant="a request that a foreign page makes a browser send",
        )
        request = probe(peer)
        alive = await peer.look(headers=peer.headers(request), body=encoded(request))
        straight = await peer.look("DELETE", headers=headers)
        if straight.status == 405:
            raise NotApplicable("clients cannot end sessions")
        require(answer, _refusals(peer), "a DELETE with a foreign Origin")
        if alive.status != 200:
            raise Deviation("the session to live on", shown(alive))


@check("http.origin-preflight", proves=_VALIDATES)
async def origin_preflight(server: ServerUnderTest) -> None:
    """A browser that asks for leave in the name of a foreign page does not get it."""
    peer = http_peer(server)
    answer = await peer.look(
        "OPTIONS",
        headers=[
            ("Origin", f"https://{EVIL}"),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "content-type, mcp-protocol-version"),
        ],
        deviant="a request that a foreign page makes a browser send",
    )
    allowed = answer.header("access-control-allow-origin")
    if 200 <= answer.status < 300 and allowed in ("*", f"https://{EVIL}"):
        raise Deviation(
            "no leave for a foreign page", f"HTTP {answer.status} with Access-Control-Allow-Origin {allowed}"
        )
