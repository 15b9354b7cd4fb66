"""The HTTP headers of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import CLIENT_CHECKS, check
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.param_headers import header_value
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import MODERN
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.scenarios.evidence import ClientUnderTest

_MODERN: Final = [each.name for each in MODERN]
_JSON: Final = "application/json"
_STREAM: Final = "text/event-stream"


def _posts(client: ClientUnderTest, *, instructed: bool = False) -> Iterator[HttpExchange]:
    """Yield every POST; with `told`, only of scenarios with a given revision."""
    for evidence in client.all(instructed=instructed):
        yield from (exchange for exchange in evidence.exchanges if exchange.method == "POST")


def _media_types(exchange: HttpExchange, name: str) -> list[str]:
    """Return the media types in a header, without parameters."""
    listed = ",".join(exchange.all(name)).split(",")
    return [each.partition(";")[0].strip().lower() for each in listed if each.strip()]


def _with_header(exchange: HttpExchange, name: str) -> str:
    """Return an exchange with a header, for a report."""
    values = exchange.all(name)
    return f"{exchange} with {f'{name}: {values[0]!r}' if values else f'no {name}'}"


@check("http.client-accept", proves=("http.post-accept", "http.accept-both"))
async def accept(client: ClientUnderTest) -> None:
    """Every POST accepts application/json and text/event-stream."""
    for exchange in _posts(client):
        if exchange.known is not None and exchange.known.revision.http_sse:
            # The transport of 2024-11-05 does not have this rule.
            continue
        if not {_JSON, _STREAM} <= set(_media_types(exchange, "accept")):
            raise Deviation(f"Accept with {_JSON} and {_STREAM}", _with_header(exchange, "accept"))


def _opens_stream(exchange: HttpExchange) -> bool:
    return exchange.method == "GET" and not exchange.beside


@check("http.client-get-accept", proves=("http.get-accept",))
async def get_accept(client: ClientUnderTest) -> None:
    """Every GET accepts text/event-stream."""
    gets = [each for evidence in client.all() for each in evidence.exchanges if _opens_stream(each)]
    for exchange in gets:
        if _STREAM not in _media_types(exchange, "accept"):
            raise Deviation(f"Accept with {_STREAM}", _with_header(exchange, "accept"))
    if not gets:
        raise NotApplicable("the client opens no stream by GET")


@check("http.client-content-type", proves=("http.content-type-json",))
async def content_type(client: ClientUnderTest) -> None:
    """Every POST has the Content-Type of JSON."""
    for exchange in _posts(client):
        if _media_types(exchange, "content-type") != [_JSON]:
            raise Deviation(f"Content-Type {_JSON}", _with_header(exchange, "content-type"))


@check(
    "http.client-one-message",
    revisions=("2025-06-18", "2025-11-25", "2026-07-28"),
    proves=(
        "http.post-single-message",
        "http.body-single-message",
        "http.post-per-message",
    ),
)
async def one_message(client: ClientUnderTest) -> None:
    """The body of every POST is one message."""
    for exchange in _posts(client):
        if isinstance(exchange.value, list) and exchange.known is not None and exchange.known.revision.batching:
            # An older version was negotiated.
            continue
        if not isinstance(exchange.value, dict):
            raise Deviation("one message in the body", f"{exchange} with {exchange.body[:200]!r}")


@check(
    "batch.client-post-body",
    revisions=("2025-03-26",),
    proves=(
        "batch.http-post-body",
        "http.post-per-message",
    ),
)
async def batch_body(client: ClientUnderTest) -> None:
    """The body of every POST is a message, an array of requests and notifications, or one of responses."""
    for exchange in _posts(client):
        value = exchange.value
        parts = value if isinstance(value, list) else [value]
        kinds = {isinstance(each, dict) and "method" in each for each in parts}
        if not parts or not all(isinstance(each, dict) for each in parts) or len(kinds) != 1:
            raise Deviation("a message, or an array of messages of one kind", brief(value))


@check("batch.client-no-initialize", proves=("batch.no-initialize",))
async def batch_no_initialize(client: ClientUnderTest) -> None:
    """`initialize` is not part of a batch."""
    for evidence in client.all():
        for entry in evidence.transcript:
            for each in entry.value if isinstance(entry.value, list) and not entry.sent else ():
                if isinstance(each, dict) and each.get("method") == "initialize":
                    raise Deviation("initialize outside of a batch", brief(entry.value))


@check("http.client-version-header", proves=("http.protocol-version-header",))
async def version_header(client: ClientUnderTest) -> None:
    """After `initialize` every POST, GET and DELETE has the protocol version in a header."""
    for evidence in client.all():
        for exchange in evidence.exchanges:
            session = exchange.known
            if session is None or exchange.message.get("method") == "initialize" or not session.revision.version_header:
                continue
            if exchange.method == "DELETE" and not session.ready.is_set():
                # No version was negotiated: the client rejects the one of the server.
                continue
            if not exchange.all("mcp-protocol-version"):
                raise Deviation("MCP-Protocol-Version", _with_header(exchange, "mcp-protocol-version"))


@check("http.client-version-negotiated", proves=("http.protocol-version-negotiated",))
async def version_negotiated(client: ClientUnderTest) -> None:
    """The version header after `initialize` has the negotiated version, not the one that the client offered."""
    for evidence in client.all():
        if evidence.server.offered_version:
            # The client does not continue with an unknown version.
            continue
        for exchange in evidence.exchanges:
            session = exchange.known
            if session is None or exchange.message.get("method") == "initialize" or not session.revision.version_header:
                continue
            if exchange.all("mcp-protocol-version") not in ([], [session.revision.name]):
                raise Deviation(
                    f"MCP-Protocol-Version {session.revision}", _with_header(exchange, "mcp-protocol-version")
                )


# --- modern ------------------------------------------------------------------------------------------------------------


def _requests(client: ClientUnderTest) -> Iterator[HttpExchange]:
    """Yield every POST of a modern request."""
    for exchange in _posts(client):
        params = exchange.message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        if "id" in exchange.message and isinstance(meta, dict) and PROTOCOL_VERSION in meta:
            yield exchange


@check("header.client-version", proves=("header.protocol-version-present",))
async def version_present(client: ClientUnderTest) -> None:
    """Every POST has the protocol version in a header."""
    for exchange in _posts(client, instructed=True):
        if not exchange.all("mcp-protocol-version"):
            raise Deviation("MCP-Protocol-Version", _with_header(exchange, "mcp-protocol-version"))


@check("header.client-version-matches", proves=("header.protocol-version-matches-meta",))
async def version_matches(client: ClientUnderTest) -> None:
    """The protocol version in the header equals the one in `_meta`."""
    for exchange in _requests(client):
        params = exchange.message["params"]
        meta = params.get("_meta") if isinstance(params, dict) else None
        expected = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
        if exchange.all("mcp-protocol-version") != [expected]:
            raise Deviation(f"MCP-Protocol-Version {expected}", _with_header(exchange, "mcp-protocol-version"))


@check(
    "header.client-method",
    proves=(
        "header.mcp-method-required",
        "http.metadata-headers-on-post",
        "header.value-case-sensitive",
    ),
)
async def method(client: ClientUnderTest) -> None:
    """Every request repeats its method in a header."""
    for exchange in _requests(client):
        if exchange.all("mcp-method") != [exchange.message["method"]]:
            raise Deviation(f"Mcp-Method {exchange.message['method']}", _with_header(exchange, "mcp-method"))


def _add_name(method: str, member: str, requirement: str) -> None:
    """Add a check that requests of a method repeat a member in `Mcp-Name`."""

    async def name(client: ClientUnderTest) -> None:
        found = [each for each in _requests(client) if each.message["method"] == method]
        for exchange in found:
            params = exchange.message["params"]
            expected = header_value(params.get(member) if isinstance(params, dict) else None)
            if exchange.all("mcp-name") != [expected]:
                raise Deviation(f"Mcp-Name {expected!r}", _with_header(exchange, "mcp-name"))
        if not found:
            raise NotTestable(f"the client sent no {method}")

    CLIENT_CHECKS.add(
        f"header.client-name-{method.replace('/', '-')}",
        name,
        title=f"Every `{method}` repeats `params.{member}` in `Mcp-Name`.",
        proves=(requirement,),
        subject=CheckScope.EVIDENCE,
    )


_NAMES: Final = (
    ("tools/call", "name", "header.mcp-name-tools-call"),
    ("resources/read", "uri", "header.mcp-name-resources-read"),
    ("prompts/get", "name", "header.mcp-name-prompts-get"),
)


@check("header.client-name-encoded", proves=("header.mcp-name-encoded",), needs=("scenario:http-standard-headers",))
async def name_encoded(client: ClientUnderTest) -> None:
    """A name or URI that is not a valid header value is encoded as base64 in `Mcp-Name`."""
    members = {method: member for method, member, _ in _NAMES}
    tried = 0
    for exchange in client.run("http-standard-headers").exchanges:
        params = exchange.message.get("params")
        member = members.get(str(exchange.message.get("method")), "")
        name = params.get(member) if isinstance(params, dict) else None
        if not isinstance(name, str) or header_value(name) == name:
            continue
        tried += 1
        # A missing header is the failure of the checks of the methods.
        if exchange.all("mcp-name") and exchange.all("mcp-name") != [header_value(name)]:
            raise Deviation(f"Mcp-Name {header_value(name)!r} for {name!r}", _with_header(exchange, "mcp-name"))
    if not tried:
        raise NotTestable("the client used nothing whose name or URI needs base64")


def _add_absent(id: str, requirement: str, title: str, wrong: Callable[[HttpExchange], bool]) -> None:
    """Add a check that no request has a property."""

    async def absent(client: ClientUnderTest) -> None:
        for evidence in client.all(instructed=True):
            for exchange in evidence.exchanges:
                if wrong(exchange):
                    raise Deviation(title.rstrip("."), f"{exchange} with {dict(exchange.headers)}")

    CLIENT_CHECKS.add(id, absent, title=title, proves=(requirement,), revisions=_MODERN, subject=CheckScope.EVIDENCE)


_ABSENT: Final[tuple[tuple[str, str, str, Callable[[HttpExchange], bool]], ...]] = (
    (
        "http.client-no-session-id",
        "http.client-no-session-id",
        "No request of the modern revision has a session id.",
        lambda each: bool(each.all("mcp-session-id")),
    ),
    (
        "http.client-no-get",
        "http.client-no-get-stream",
        "A client of the modern revision opens no stream by GET.",
        _opens_stream,
    ),
    (
        "http.client-no-resumption",
        "http.sse-no-resumption",
        "A client of the modern revision does not resume a stream with Last-Event-ID.",
        lambda each: bool(each.all("last-event-id")),
    ),
)

for _row in _NAMES:
    _add_name(*_row)
for _absent_row in _ABSENT:
    _add_absent(*_absent_row)
