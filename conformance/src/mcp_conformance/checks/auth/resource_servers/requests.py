"""Requests with and without tokens, for the checks of protected servers."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcp_conformance.drivers.server.http_connection import HttpConnection, messages_of
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.drivers.settings import CLIENT_INFO
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.http_messages import json_object
from mcp_conformance.wire.http_client import Endpoint, IncompleteResponse
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.token_issuer import Issuer
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "ADMIN_TOOL",
    "OPENING",
    "UNANSWERED",
    "UNRELATED",
    "Headers",
    "bearer",
    "called",
    "challenge",
    "exchanged",
    "fetched",
    "flaw_of_challenges",
    "has_result",
    "http_peer",
    "issuer_of",
    "metadata_of",
    "post_unanswered",
    "probe",
    "send_each",
    "sent",
    "without_token",
]

Headers = tuple[tuple[str, str], ...]

_PARAMETER: Final = re.compile(r'([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_SCHEME: Final = re.compile(r"(?i)(?:^|,\s*)(Bearer|DPoP)(?=\s|,|$)")
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED: Final = r'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"'
_MEMBER: Final = rf"(?P<name>{_TOKEN})[ \t]*=[ \t]*(?P<value>{_TOKEN}|{_QUOTED})"
_ELEMENT: Final = re.compile(rf"(?:(?P<scheme>{_TOKEN})(?: +(?:{_MEMBER}|[A-Za-z0-9._~+/-]+=*))?)")
_PARAMETER_ELEMENT: Final = re.compile(_MEMBER)
_PLAIN: Final = re.compile(r"[ !#-\[\]-~]*")
_PLAIN_NAMES: Final = ("scope", "error", "error_description")
"""Values of `scope`, `error` and `error_description` (RFC 6750, section 3), without their quotation marks."""
_OF_SESSION: Final = ("mcp-session-id", "mcp-protocol-version")
_WELL: Final = "/.well-known/oauth-protected-resource"
UNANSWERED: Final[Mapping[str, JsonObject]] = {
    "a notification": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "none"}},
    "a response": {"jsonrpc": "2.0", "id": "none", "result": {}},
    "an error response": {"jsonrpc": "2.0", "id": "none", "error": {"code": -32603, "message": "none"}},
}
"""Messages that get no JSON-RPC response. Revision 2026-07-28 has no responses of clients."""
ADMIN_TOOL: Final = "test_admin"
"""The fixture tool that requires the scope `ADMIN`."""
UNRELATED: Final = "conformance:unrelated"
"""A scope that the server does not know."""
OPENING: Final = "an opening request"
"""What `send_each` calls the request that a client sends first."""


def issuer_of(server: ServerUnderTest) -> Issuer:
    """Return the authorization server of the suite, which the server trusts.

    Raises:
        NotApplicable: The run is without `--auth`.
    """
    if server.settings.issuer is None:
        raise NotApplicable("the server does not run with an authorization server of the suite: see --auth")
    return server.settings.issuer


def bearer(token: str) -> Headers:
    """Return the header with a token."""
    return (("Authorization", f"Bearer {token}"),)


@asynccontextmanager
async def http_peer(server: ServerUnderTest) -> AsyncIterator[HttpConnection]:
    """Open a connection with a valid token for a block.

    Raises:
        NotTestable: The server rejects a request with a valid token.
    """
    issuer_of(server)
    async with AsyncExitStack() as stack:
        try:
            peer = await stack.enter_async_context(server.open())
        except Deviation as deviation:
            raise NotTestable(
                f"the control request failed: the server rejects a valid token: {deviation.observed}"
            ) from deviation
        if not isinstance(peer, HttpConnection):
            raise NotApplicable("these checks are for HTTP")
        answer = await probe(peer, bearer(issuer_of(server).token()))
        if answer.status != 200:
            raise NotTestable(f"the control request failed: a request with a valid token gets HTTP {answer.status}")
        yield peer


async def probe(
    peer: HttpConnection, headers: Headers = (), *, in_session: bool = False, deviant: str = ""
) -> HttpResponse:
    """Send a small request with other credentials.

    Args:
        peer: The connection.
        headers: The credentials.
        in_session: Whether the request belongs to the session of a legacy connection; otherwise it opens another one.
        deviant: The rule that the request breaks on purpose.
    """
    if peer.revision.era is Era.MODERN:
        return await sent(peer, "server/discover", {}, headers, deviant=deviant)
    if in_session:
        return await sent(peer, "ping", {}, headers, deviant=deviant)
    opening: JsonObject = {
        "protocolVersion": peer.revision.name,
        "capabilities": peer.capabilities,
        "clientInfo": CLIENT_INFO,
    }
    return await sent(peer, "initialize", opening, headers, session=False, deviant=deviant)


async def called(peer: HttpConnection, tool: str, headers: Headers) -> HttpResponse:
    """Call a tool with other credentials."""
    return await sent(peer, "tools/call", {"name": tool, "arguments": {}}, headers)


async def sent(
    peer: HttpConnection,
    method: str,
    params: JsonObject,
    headers: Headers,
    *,
    session: bool = True,
    deviant: str = "",
    target: str | None = None,
) -> HttpResponse:
    """Send a request with other credentials.

    Raises:
        Deviation: There is no response.
    """
    message = peer.message(method, params)
    lines = without_token(peer, message, session=session)
    return await exchanged(peer, "POST", (*lines, *headers), encoded(message), target=target, deviant=deviant)


async def send_each(
    peer: HttpConnection, headers: Callable[[], Headers], *, deviant: str
) -> list[tuple[str, HttpResponse]]:
    """Send messages of several kinds with other credentials, all at the same time.

    A server may validate the credentials of its first request only, or only outside of a session.

    Args:
        peer: The connection.
        headers: Returns the credentials of a message. A proof is valid for one message.
        deviant: The rule that the messages break on purpose.

    Returns:
        What was sent, and the response.
    """
    found: list[tuple[str, HttpResponse]] = []
    no_params: JsonObject = {}
    call: JsonObject = {"name": ADMIN_TOOL, "arguments": {}}

    async def open_another() -> None:
        found.append((OPENING, await probe(peer, headers(), deviant=deviant)))

    async def request(method: str, params: JsonObject) -> None:
        found.append((method, await sent(peer, method, params, headers(), deviant=deviant)))

    async def post(what: str) -> None:
        answer = await post_unanswered(peer, what, headers(), deviant=deviant)
        # A server may reject a response to no request in another way.
        if what == "a notification" or answer.status < 300 or answer.status == 401:
            found.append((what, answer))

    async with open_nursery() as nursery:
        nursery.start_soon(open_another)
        nursery.start_soon(request, "tools/list", no_params)
        nursery.start_soon(request, "tools/call", call)
        for what in UNANSWERED:
            nursery.start_soon(post, what)
    return found


async def post_unanswered(
    peer: HttpConnection, what: str, headers: Headers, *, session: bool = True, deviant: str
) -> HttpResponse:
    """Send one of the messages `UNANSWERED` with other credentials, in the session of the connection or outside of it."""
    message = UNANSWERED[what]
    lines = (*without_token(peer, message, session=session), *headers)
    return await exchanged(peer, "POST", lines, encoded(message), deviant=deviant)


def without_token(peer: HttpConnection, message: JsonValue, *, session: bool = True) -> list[tuple[str, str]]:
    """Return the headers of a message, without the token, and without those of a session if it belongs to none."""
    left_out = ("authorization", *(() if session else _OF_SESSION))
    return [each for each in peer.headers(message) if each[0].lower() not in left_out]


def has_result(answer: HttpResponse, id: JsonValue = None) -> bool:
    """Return whether a successful response has the result of a request, which is not the error of a tool.

    Args:
        answer: The response.
        id: The id of the request; `None`: any.
    """
    results = [each.get("result") for each in messages_of(answer) if id is None or each.get("id") == id]
    return answer.status < 300 and any(isinstance(each, dict) and each.get("isError") is not True for each in results)


async def fetched(peer: HttpConnection, place: str) -> HttpResponse:
    """Send a GET for a URL, or for a path of the server, without credentials.

    Raises:
        Deviation: There is no response.
    """
    try:
        parts = urlsplit(place)
        own = not parts.netloc or f"{parts.scheme}://{parts.netloc}".lower() == peer.endpoint.origin.lower()
        endpoint = peer.endpoint if own else Endpoint(place)
    except ValueError as error:
        raise Deviation("an http or https URL", str(error)) from error
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return await exchanged(peer, "GET", (("Accept", "application/json"),), None, target=target, endpoint=endpoint)


async def exchanged(
    peer: HttpConnection,
    method: str,
    lines: Sequence[tuple[str, str]],
    body: bytes | None,
    *,
    target: str | None = None,
    deviant: str = "",
    endpoint: Endpoint | None = None,
) -> HttpResponse:
    """Send a request with exactly these headers, and return the response.

    Raises:
        Deviation: There is no response.
    """
    what = f"a response to {method} {target or peer.endpoint.target}"
    try:
        async with (
            peer.within(what),
            (endpoint or peer.endpoint).exchange(
                peer.transcript, method, lines, body, target=target, deviant=deviant
            ) as exchange,
        ):
            return await exchange.answer()
    except IncompleteResponse as ended:
        raise Deviation(what, str(ended)) from ended
    raise AssertionError("the block ends by one of them")


def challenge(answer: HttpResponse, scheme: str | None = None) -> dict[str, str] | None:
    """Return the parameters of the Bearer or DPoP challenge; `None` without a challenge of that scheme."""
    for name, value in answer.headers:
        if name != "www-authenticate":
            continue
        blank = re.sub(r'"(?:[^"\\]|\\.)*"', lambda found: "x" * len(found[0]), value)
        marks = [found for found in _SCHEME.finditer(blank) if scheme in (None, found[1].lower())]
        if marks:
            after = _SCHEME.search(blank, marks[0].end())
            text = value[marks[0].end() : None if after is None else after.start()]
            return {found[1].lower(): found[2] or found[3] or "" for found in _PARAMETER.finditer(text)}
    return None


def flaw_of_challenges(answer: HttpResponse) -> str | None:
    """Return what is wrong with the syntax of the challenges of a response; `None` if they are valid.

    The parameters of a challenge are separated by commas, and a value with other characters than those of a token, such as
    a URL, is quoted (RFC 9110, sections 11.3 and 11.6.1).
    """
    for value in (value for name, value in answer.headers if name == "www-authenticate"):
        scheme, seen = "", set[str]()
        # A quotation mark without its end belongs to no element, and makes the one before it invalid.
        for element in re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^,])+', value):
            text = element.strip(" \t")
            found = _PARAMETER_ELEMENT.fullmatch(text) if scheme else None
            if found is None:
                found = _ELEMENT.fullmatch(text)
                scheme, seen = ("" if found is None else found["scheme"].lower()), set()
            if found is None and text:
                return f"{text!a} is neither a parameter nor a scheme with one"
            name = None if found is None else found["name"]
            if found is None or name is None:
                continue
            if name.lower() in seen:
                return f"{name} occurs twice"
            seen.add(name.lower())
            if name.lower() in _PLAIN_NAMES and not _PLAIN.fullmatch(found["value"].strip('"')):
                return f"{name} has characters that it must not have: {found['value']!a}"
    return None


async def metadata_of(peer: HttpConnection, headers: Headers = ()) -> tuple[JsonObject, ...]:
    """Return the protected resource metadata from all places where a client finds them.

    These are the URL in the challenge, the well-known URI for the path of the server and, for a client that finds neither,
    the one of the host, which may otherwise describe another resource of the host.

    Args:
        peer: The connection.
        headers: The credentials of the request that gets the challenge.

    Raises:
        Deviation: The metadata are missing, of another media type, or at a relative URL.
    """
    answers = []

    async def document(place: str) -> JsonObject | None:
        answer = await fetched(peer, place)
        answers.append(f"GET {place}: HTTP {answer.status}, {answer.body[:80]!r}")
        found = json_object(answer.body) if answer.status == 200 else None
        if found is not None and answer.media_type != "application/json":
            raise Deviation(f"application/json at {place} (RFC 9728, section 3.2)", answer.media_type or "no type")
        return found

    answer = await probe(peer, headers, deviant="an opaque token" if headers else "")
    url = (challenge(answer) or {}).get("resource_metadata")
    if url and urlsplit(url).scheme not in ("http", "https"):
        raise Deviation("an absolute URL in resource_metadata (RFC 9728, section 5.1)", url)
    path = peer.endpoint.target.partition("?")[0].rstrip("/")
    named = await document(url) if url else None
    if not url or named is not None:
        found = [each for each in (named, await document(f"{_WELL}{path}")) if each is not None]
        whole = None if found else await document(_WELL)
        if found or whole is not None:
            return tuple(found) if whole is None else (whole,)
    raise Deviation("the protected resource metadata (RFC 9728)", "; ".join(answers))
