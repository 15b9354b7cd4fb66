"""Raw HTTP requests, their headers and their responses, for the checks of HTTP."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.drivers.server.http_connection import HttpConnection
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.http_client import IncompleteResponse
from mcp_conformance.wire.timeouts import WaitKind
from mcp_conformance.wire.transcript import strict_json
from mcp_core.revisions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.wire.http_client import Endpoint, HttpResponse
    from mcp_core.framing.sse import Event
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "ACCEPT_STREAM",
    "EVIL",
    "SEPARATORS",
    "Headers",
    "RecordedStream",
    "control",
    "error_code",
    "error_id",
    "http_peer",
    "last_event",
    "lookalike_origins",
    "on_one_connection",
    "probe",
    "progress_call",
    "read_stream",
    "require",
    "require_credentials",
    "require_local",
    "serves_legacy",
    "session",
    "session_messages",
    "shown",
    "succeeded",
    "with_credentials",
    "with_header",
    "without",
]

Headers = list[tuple[str, str]]

_CREDENTIALS: Final = ("authorization", "x-api-key", "cookie")

ACCEPT_STREAM = ("Accept", "text/event-stream")
EVIL = "evil.example"
"""A name in a top-level domain that is reserved by RFC 2606."""
_HOMOGRAPH: Final = "xn--lcalhost-nbh"
"""The name `localhost` with a Cyrillic letter for the first o, as browsers send it."""
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1")
"""Names whose origins a server may accept, also one that is reached by another name."""
SEPARATORS = "\u0085\u2028\u2029"
"""Line separators of Unicode, which do not end a line of an event stream, and which JSON strings may contain."""


def http_peer(server: ServerUnderTest) -> HttpConnection:
    """Return the HTTP connection of the check."""
    if not isinstance(server.peer, HttpConnection):
        raise AssertionError("this check runs over HTTP")  # noqa: TRY004  an error of the suite
    return server.peer


@asynccontextmanager
async def session(server: ServerUnderTest, *, revision: str | None = None) -> AsyncIterator[HttpConnection]:
    """Open a separate connection without a standalone stream."""
    async with server.open(handshake=False, revision=None if revision is None else REVISIONS[revision]) as peer:
        if not isinstance(peer, HttpConnection):
            raise AssertionError("this check runs over HTTP")  # noqa: TRY004  an error of the suite
        await peer.shake_hands()
        yield peer


def probe(peer: SuiteConnection) -> JsonObject:
    """Return a request that every server answers with a result."""
    return peer.message("ping" if peer.revision.era is Era.LEGACY else "server/discover")


def lookalike_origins(endpoint: Endpoint) -> list[str]:
    """Return the origins of foreign sites that resemble the one of a server, or of a page on the same machine."""
    port = endpoint.port
    found = [f"http://{_HOMOGRAPH}:{port}", f"http://{EVIL}:{port}", "http://evil-localhost:80"]
    for name in dict.fromkeys((endpoint.host, *_LOCAL_NAMES)):
        found += [
            f"http://{name}.{EVIL}:{port}",
            f"https://{name}.{EVIL}",
            f"http://{name}.{EVIL}.:{port}",
            f"http://evil-{name}:{port}",
            f"http://{name}:{port}@{EVIL}:{port}",
            f"http://{name}:{port}.{EVIL}",
        ]
    return found


def without(headers: Sequence[tuple[str, str]], *names: str) -> Headers:
    """Return headers without those of some names."""
    dropped = {name.lower() for name in names}
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def with_header(headers: Sequence[tuple[str, str]], name: str, value: str) -> Headers:
    """Return headers with one header added that replaces those of its name."""
    return [*without(headers, name), (name, value)]


def shown(answer: HttpResponse) -> str:
    """Return a response as text, shortened for a report."""
    body = answer.body[:200].decode("utf-8", "backslashreplace")
    return f"HTTP {answer.status}, {answer.media_type or 'no content type'}{', ' if body else ''}{body}"


def _message(answer: HttpResponse) -> JsonObject:
    try:
        value: JsonValue = strict_json(answer.body)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def error_code(answer: HttpResponse) -> JsonValue:
    """Return the code of the error in the body; `None` when there is no error.

    A code that is written as text or as a fraction is returned as an integer: another check covers its type.
    """
    error = _message(answer).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    try:
        return int(str(code).removesuffix(".0"))
    except ValueError:
        return code


def error_id(answer: HttpResponse) -> JsonValue:
    """Return the id of the message in the body."""
    return _message(answer).get("id")


def succeeded(answer: HttpResponse) -> bool:
    """Return whether the status is 2xx and the body contains no error."""
    return 200 <= answer.status < 300 and error_code(answer) is None


def require(answer: HttpResponse, statuses: Collection[int], what: str, *, code: int | None = None) -> None:
    """Require a status, and an error code if one is given.

    Args:
        answer: The response.
        statuses: The expected statuses.
        what: The request, for the message.
        code: The expected error code; `None`: any.

    Raises:
        Deviation: The response differs.
    """
    expected = f"HTTP {brief([*sorted(statuses)])[1:-1]}" if len(statuses) < 10 else f"HTTP {min(statuses)} or above"
    if answer.status not in statuses or (code is not None and error_code(answer) != code):
        raise Deviation(f"{expected}{'' if code is None else f' with error {code}'} for {what}", shown(answer))


async def control(peer: HttpConnection, message: JsonObject | None = None) -> JsonObject:
    """Send a correct request. The request that the check sends next differs from it in one respect.

    Raises:
        NotTestable: The request fails.
    """
    request = probe(peer) if message is None else message
    try:
        answer = await peer.look(headers=peer.headers(request), body=encoded(request))
    except Deviation as deviation:
        raise NotTestable(f"the control request failed: {deviation}") from deviation
    if not succeeded(answer):
        raise NotTestable(f"the control request failed: {shown(answer)}")
    return {**request, "id": peer.next_id()}


async def on_one_connection(
    peer: HttpConnection,
    first: JsonObject,
    then: JsonObject,
    *,
    deviant: str,
    headers: Sequence[tuple[str, str]] | None = None,
    first_headers: Sequence[tuple[str, str]] | None = None,
    first_deviant: str = "",
) -> tuple[HttpResponse, HttpResponse]:
    """Send two requests over one HTTP connection, one after another.

    Args:
        peer: The connection to the server, whose headers are used.
        first: The first request.
        then: The second request.
        deviant: The rule that the second request breaks on purpose.
        headers: The headers of the second request; `None`: those that the connection sends.
        first_headers: The headers of the first request, as `headers`.
        first_deviant: The rule that the first request breaks on purpose.

    Raises:
        Deviation: There is no response.
        NotApplicable: The server closes the connection after the first response.
    """
    answers: list[HttpResponse] = []
    try:
        stream = await peer.endpoint.connect()
        try:
            async with peer.within("responses to two requests"):
                for message, lines, rule in ((first, first_headers, first_deviant), (then, headers, deviant)):
                    sent = peer.headers(message) if lines is None else lines
                    async with peer.endpoint.exchange(
                        peer.transcript, "POST", sent, encoded(message), deviant=rule, over=stream
                    ) as exchange:
                        answers.append(await exchange.answer())
        finally:
            await trio.aclose_forcefully(stream)
    except IncompleteResponse as ended:
        if answers:
            raise NotApplicable("the server closes a connection after each response") from ended
        raise Deviation("an HTTP response", str(ended)) from ended
    return answers[0], answers[1]


def progress_call(server: ServerUnderTest, peer: HttpConnection, token: str) -> JsonObject:
    """Return a call of the tool that reports progress, with a progress token.

    Raises:
        NotTestable: The server does not have the fixture tool.
    """
    name, arguments = server.tool("test_tool_with_progress")
    return peer.message("tools/call", {"name": name, "arguments": arguments, "_meta": {"progressToken": token}})


@attrs.frozen(kw_only=True)
class RecordedStream:
    """An HTTP response that is an event stream."""

    headers: tuple[tuple[str, str], ...]
    """Headers of the response, with names in lower case."""
    events: tuple[Event, ...]
    """Events of the stream."""
    ended: bool
    """Whether the server ended the response."""

    @property
    def messages(self) -> list[JsonObject]:
        """The messages of the stream; those of a batch one by one."""
        found: list[JsonObject] = []
        for event in self.events:
            try:
                value = strict_json(event.data) if event.data else None
            except ValueError:
                continue
            found += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]
        return found

    @property
    def ids(self) -> list[str]:
        """The ids of the events."""
        return [event.id for event in self.events if event.id]


async def read_stream(
    peer: HttpConnection, message: JsonObject | None, *, last_event_id: str | None = None, deviant: str = ""
) -> RecordedStream:
    """Read a stream to its end: the response to a request, or to a GET.

    Raises:
        NotApplicable: The response is not a stream.
        Deviation: There is no response.
    """
    events: list[Event] = []
    ended = False
    if message is None:
        headers = [*peer.settings.headers, ACCEPT_STREAM, *peer.session_headers()]
    else:
        headers = peer.headers(message)
    if last_event_id is not None:
        headers.append(("Last-Event-ID", last_event_id))
    body = None if message is None else encoded(message)
    method = "GET" if message is None else "POST"
    expected = "the end of the stream of GET" if message is None else f"a response to {message.get('method')}"
    kind = WaitKind.STREAM if message is None else WaitKind.RESPONSE
    found: tuple[tuple[str, str], ...] = ()
    with peer.limited(expected, kind=kind) as wait:
        try:
            async with peer.endpoint.exchange(peer.transcript, method, headers, body, deviant=deviant) as exchange:
                found = exchange.headers
                if exchange.media_type != "text/event-stream" or exchange.status != 200:
                    raise NotApplicable(f"{method} returns HTTP {exchange.status} without a stream")
                while (event := await exchange.next_event()) is not None:
                    events.append(event)
                    if event.data:
                        peer.transcript.message(event.data, sent=False)
                ended = True
        except IncompleteResponse as broken:
            peer.transcript.note(f"the stream broke: {broken}")
            if not found:
                raise Deviation(f"a response to {method}", str(broken)) from broken
    if not found:
        raise Deviation(f"a response to {method}", f"nothing within {wait.seconds:g} seconds")
    return RecordedStream(headers=found, events=tuple(events), ended=ended)


async def last_event(server: ServerUnderTest, peer: HttpConnection) -> Headers:
    """Return the header that resumes a stream of the session; empty if it has no stream that can be resumed."""

    async def called() -> Headers:
        # Other checks require that the call has a response.
        with suppress(NotApplicable, NotTestable, Deviation):
            stream = await read_stream(peer, progress_call(server, peer, "conformance-resumed"))
            return [("Last-Event-ID", id) for id in stream.ids[:1]]
        return []

    return await server.once(f"a stream of the session {peer.session_id}", called)


def session_messages(request: JsonObject) -> tuple[tuple[str, JsonObject], ...]:
    """Return the messages of each kind that a client posts in a session, with their names.

    Args:
        request: The request.
    """
    cancelled: JsonObject = {"requestId": "conformance-none"}
    return (
        (str(request["method"]), request),
        ("a notification", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}),
        ("a response", {"jsonrpc": "2.0", "id": "conformance-none", "result": {}}),
    )


async def serves_legacy(server: ServerUnderTest, revision: str) -> bool:
    """Return whether the server also supports a revision with `initialize`."""
    try:
        async with session(server, revision=revision):
            return True
    except Deviation:
        return False


async def require_local(endpoint: Endpoint) -> None:
    """Require that a server with a loopback name cannot be reached at an address of the network.

    Raises:
        Deviation: The server can be reached there.
        NotApplicable: The server does not have a loopback name.
        NotTestable: This machine has no other address.
    """
    if endpoint.host != "localhost" and not _is_loopback(endpoint.host):
        raise NotApplicable(f"{endpoint.host} is not a loopback name")
    address = _outward()
    if address is None:
        raise NotTestable("this machine has no address other than loopback addresses")
    try:
        stream = await trio.open_tcp_stream(address, endpoint.port)
    except OSError:
        return
    await trio.aclose_forcefully(stream)
    raise Deviation("a server that listens only on loopback addresses", f"it listens on {address} too")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _outward() -> str | None:
    """Return an address at which other machines reach this one. Nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probing:
        try:
            probing.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address: str = probing.getsockname()[0]
    return None if _is_loopback(address) else address


def require_credentials(settings: Settings) -> None:
    """Raise `NotApplicable` when the suite has no credentials for the server."""
    if not any(name.lower() in _CREDENTIALS for name, _ in settings.headers):
        raise NotApplicable("the suite has no credentials for the server")


async def with_credentials(peer: HttpConnection) -> JsonObject:
    """Send a control request with credentials, as `control`."""
    require_credentials(peer.settings)
    return await control(peer)
