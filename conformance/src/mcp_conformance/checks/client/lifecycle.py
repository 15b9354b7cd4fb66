"""The opening of a connection by a client: `initialize`, `_meta`, and version negotiation."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.message_pairs import objects
from mcp_conformance.checks.probes.recorded_values import member, meta_of, params_of
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.evidence import STREAMS
from mcp_conformance.scenarios.negotiation import ERA_SCENARIOS, REJECTED, UNANSWERED
from mcp_conformance.scenarios.table import REFUSED_UNREAD
from mcp_core.methods import methods
from mcp_core.revisions import LEGACY, MODERN
from mcp_core.types.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_LEGACY: Final = [each.name for each in LEGACY]
_MODERN: Final = [each.name for each in MODERN]
_LOST: Final = "session-lost"
"""The scenario in which the client needs new sessions."""
_PINGED: Final = "conformance_early_ping"
"""The scenario with a ping before the result of `initialize`."""
_MOVES: Final = "conformance_header_moves"
"""The scenario with a call that is rejected for its headers."""
_MODERN_ERRORS: Final = (-32020, -32021)
"""The other errors of modern servers: of headers, and of a capability that is missing."""
_ANONYMOUS: Final = "conformance_sends_requests"
"""The scenario with a server that does not name itself."""
_TWO_ENDPOINTS: Final = "meets-two-endpoints"
"""The beginning of the names of scenarios with the endpoints of 2024-11-05."""
_ATTEMPTS: Final = 3
"""How often a client may send a request whose version was rejected, for instance on new connections."""


# --- legacy ------------------------------------------------------------------------------------------------------------


@check(
    "lifecycle.client-initialize-first",
    proves=("lifecycle.initialize-first", "lifecycle.client-sends-initialize"),
    revisions=_LEGACY,
)
async def initialize_first(client: ClientUnderTest) -> None:
    """The first message of each connection is `initialize`, and over Streamable HTTP no stream is opened before it."""
    for evidence in client.all(instructed=True):
        for messages in evidence.conversations:
            if messages and messages[0].get("method") != "initialize":
                raise Deviation("initialize before other messages", brief(messages[0]))
        if client.transport is Transport.HTTP:
            _no_stream_first(evidence)


def _no_stream_first(evidence: Evidence) -> None:
    """Check that `initialize` comes before a stream: only its response has the session id that opens one."""
    if evidence.scenario.name.startswith(_TWO_ENDPOINTS):
        # Another check covers the order in which a client tries two transports.
        return
    for exchange in evidence.exchanges:
        if exchange.message.get("method") == "initialize":
            return
        opens = exchange.method == "GET" and "text/event-stream" in (exchange.header("accept") or "")
        # A client without a token may look for the authorization server in a rejection.
        if opens and not exchange.beside and exchange.status != HTTPStatus.UNAUTHORIZED:
            raise Deviation("initialize before a stream", str(exchange))


@check(
    "lifecycle.client-initialized",
    proves=(
        "lifecycle.initialized-notification",
        "jsonrpc.base-and-lifecycle-support",
    ),
    revisions=_LEGACY,
    needs=("scenario:initialize", "scenario:tools_call", *(f"scenario:{each}" for each in (_LOST, _PINGED, STREAMS))),
)
async def initialized(client: ClientUnderTest) -> None:
    """After each result of `initialize` the client sends `notifications/initialized`, before any request."""
    for name in ("initialize", "tools_call"):
        if not any(session.opened for session in client.run(name).server.sessions):
            raise NotTestable(f"initialize got no response in the scenario {name}")
        names = [str(each.get("method")) for each in _messages(client.run(name)) if each.get("method") != "ping"]
        if "initialize" in names:
            # The last one: earlier ones may have been sent to a server that does not respond.
            following = names[len(names) - names[::-1].index("initialize") :]
            if following[:1] != ["notifications/initialized"]:
                raise Deviation("notifications/initialized after initialize", ", ".join(following[:3]) or "no message")
    if _LOST in client.runs:
        _initialized_again(client.run(_LOST))
    if _PINGED in client.runs:
        _not_before_result(client.run(_PINGED))
    for evidence in client.all():
        if evidence.scenario.name in (REJECTED, UNANSWERED):
            # Other checks cover what follows an error, or the end of the connection.
            continue
        for messages in evidence.conversations:
            found = [str(each["method"]) for each in messages if each.get("method", "ping") != "ping"]
            if found[:1] == ["initialize"] and len(found) > 1 and "notifications/initialized" not in found:
                raise Deviation("notifications/initialized", f"{', '.join(found[:3])} in {evidence.scenario.name}")


def _initialized_again(evidence: Evidence) -> None:
    """Check that each session that replaces a lost one is initialized like the first."""
    for messages in evidence.conversations:
        names = [str(each["method"]) for each in messages if each.get("method", "ping") != "ping"]
        if names[:1] == ["initialize"] and len(names) > 1 and names[1] != "notifications/initialized":
            raise Deviation("notifications/initialized after initialize, also in a new session", ", ".join(names[:3]))


def _not_before_result(evidence: Evidence) -> None:
    """Check that no notification is sent before the result that it follows, which the server delays by a ping."""
    expected = 0
    for sent, message in ((entry.sent, each) for entry in evidence.transcript for each in objects(entry)):
        if sent and member(message, "result", "protocolVersion") is not None:
            expected += 1
        elif not sent and message.get("method") == "notifications/initialized":
            expected -= 1
            if expected < 0:
                raise Deviation("no notifications/initialized before the result of initialize", brief(message))


def _messages(evidence: Evidence) -> list[JsonObject]:
    return [each for each in evidence.messages if isinstance(each, dict)]


@check(
    "lifecycle.client-bears-rejection",
    proves=("lifecycle.initialize-first",),
    revisions=_LEGACY,
    needs=(f"scenario:{REJECTED}", "scenario:tools_call"),
)
async def bears_rejection(client: ClientUnderTest) -> None:
    """A client whose `initialize` is rejected sends no request of the operation phase."""
    client.control()
    evidence = client.run(REJECTED)
    if not evidence.sent("initialize"):
        raise NotTestable(f"the client did not send initialize: {evidence.ending}")
    for message in evidence.requests:
        meta = params_of(message).get("_meta")
        # A client of both eras may still try the modern one.
        is_modern = isinstance(meta, dict) and PROTOCOL_VERSION in meta
        if message["method"] not in ("initialize", "ping") and not is_modern:
            raise Deviation("no further request after the error of initialize", brief(message))


@check("lifecycle.client-no-early-requests", proves=("lifecycle.client-no-early-requests",), revisions=_LEGACY)
async def no_early_requests(client: ClientUnderTest) -> None:
    """Before the response to `initialize` the client sends no other request than ping."""
    for evidence in client.all():
        if evidence.scenario.name == UNANSWERED:
            # Another connection follows, which may begin with a probe.
            continue
        pending: list[JsonObject] = []
        for entry in evidence.transcript:
            message = entry.value
            if not isinstance(message, dict):
                continue
            if entry.sent:
                pending = [each for each in pending if each.get("id") != message.get("id")]
            elif message.get("method") == "initialize":
                # Another initialize is sent to another endpoint, after the first one got an HTTP status as response.
                pending = [message]
            elif pending and "id" in message and message.get("method") not in (None, "ping"):
                raise Deviation("no request before the response to initialize", brief(message))


@check(
    "version.client-goes-on",
    proves=("version.client-sends-supported",),
    revisions=_LEGACY,
    needs=("scenario:initialize", "scenario:tools_call"),
)
async def goes_on(client: ClientUnderTest) -> None:
    """A client whose version is accepted continues with the version that it offered."""
    evidence = client.run("initialize")
    offered = [params_of(each).get("protocolVersion") for each in evidence.sent("initialize")]
    if client.revision.name not in offered:
        raise NotApplicable(f"the client offers {brief(offered)}, and the response has {client.revision}")
    if not evidence.taken("initialize"):
        # Other checks cover the reason: the end of a line, or the version of JSON-RPC.
        raise NotTestable("the server cannot read the initialize request")
    if not evidence.sent("notifications/initialized"):
        raise Deviation(f"the client to continue with {client.revision}", evidence.ending)
    used = client.run("tools_call")
    if not used.taken("initialize"):
        raise NotTestable(f"in the scenario tools_call, the server got no initialize request: {used.ending}")
    names = {str(each.get("method")) for each in used.messages if isinstance(each, dict)}
    # Another check covers a request without an id.
    if used.status != 0 and names <= {"initialize", "notifications/initialized"}:
        raise Deviation(f"a request in {client.revision}, which the client offered", used.ending)


@check(
    "version.client-disconnects",
    proves=(
        "version.client-disconnect",
        "lifecycle.handle-version-mismatch",
    ),
    revisions=_LEGACY,
    needs=("scenario:version-unknown", "scenario:initialize"),
)
async def disconnects(client: ClientUnderTest) -> None:
    """A client that gets an unknown version in the response does not continue."""
    if client.run("initialize").status != 0:
        raise NotTestable(f"the control request failed: {client.run('initialize').ending}")
    evidence = client.run("version-unknown")
    offered = {brief(params_of(each).get("protocolVersion")) for each in evidence.sent("initialize")}
    for message in evidence.messages:
        if isinstance(message, dict) and message.get("method") not in (None, "initialize"):
            raise Deviation(
                f"the end of a connection in {evidence.server.offered_version} (offered: {', '.join(offered)})",
                brief(message),
            )
    if evidence.status is None:
        raise Deviation("the client to exit", evidence.ending)


# --- modern ------------------------------------------------------------------------------------------------------------


def _modern_requests(client: ClientUnderTest) -> Iterator[JsonObject]:
    """Yield every request of scenarios in which only the modern revision is valid."""
    for evidence in client.all(instructed=True):
        # Another check covers notifications with an id.
        yield from (each for each in evidence.requests if not str(each["method"]).startswith("notifications/"))


@check(
    "meta.client-version",
    proves=("meta.protocol-version-required", "version.request-declares"),
    revisions=_MODERN,
)
async def meta_version(client: ClientUnderTest) -> None:
    """Every request declares its protocol version in `_meta`."""
    for message in _modern_requests(client):
        if meta_of(message).get(PROTOCOL_VERSION) != client.revision.name:
            raise Deviation(f"{PROTOCOL_VERSION} {client.revision} in _meta", brief(message))


@check("meta.client-capabilities", proves=("meta.client-capabilities-required",), revisions=_MODERN)
async def meta_capabilities(client: ClientUnderTest) -> None:
    """Every request has the capabilities of the client in `_meta`."""
    for message in _modern_requests(client):
        declared = meta_of(message).get(CLIENT_CAPABILITIES)
        if isinstance(declared, dict):
            # Other checks cover the values of these two members.
            declared = {name: each for name, each in declared.items() if name not in ("experimental", "extensions")}
        wrong = flaw(declared, "ClientCapabilities", client.revision)
        if wrong is not None:
            raise Deviation(f"an object {CLIENT_CAPABILITIES} in _meta", wrong)


@check("meta.client-info", proves=("meta.client-info-should",), revisions=_MODERN)
async def meta_info(client: ClientUnderTest) -> None:
    """Every request has clientInfo in `_meta`."""
    for message in _modern_requests(client):
        if CLIENT_INFO not in meta_of(message):
            raise Deviation(f"{CLIENT_INFO} in _meta", brief(message))


@check("meta.client-info-shape", proves=("meta.client-info-shape",), revisions=_MODERN)
async def meta_info_shape(client: ClientUnderTest) -> None:
    """A clientInfo has a name and a version."""
    for message in _modern_requests(client):
        if CLIENT_INFO in meta_of(message):
            wrong = flaw(meta_of(message)[CLIENT_INFO], "Implementation", client.revision)
            if wrong is not None:
                raise Deviation("clientInfo with a name and a version", wrong)


@check(
    "discover.client-bears-anonymous",
    proves=("discover.server-info-not-behavioral",),
    needs=(f"scenario:{_ANONYMOUS}", "scenario:tools_call"),
)
async def bears_anonymous(client: ClientUnderTest) -> None:
    """A server whose results do not have `serverInfo` is used like any other."""
    client.control()
    evidence = client.run(_ANONYMOUS)
    if not evidence.sent("tools/call"):
        raise Deviation("the client to call the tools of a server without serverInfo", evidence.ending)


@check("discover.client-params", proves=("discover.params-only-meta",))
async def discover_params(client: ClientUnderTest) -> None:
    """`server/discover` has no params other than `_meta`."""
    found = [each for each in _modern_requests(client) if each["method"] == "server/discover"]
    for message in found:
        if set(params_of(message)) - {"_meta"}:
            raise Deviation("no params other than _meta", brief(message))
    if not found:
        raise NotApplicable("the client does not send server/discover")


@check(
    "stdio.client-probe",
    proves=("stdio.probe-discover", "stdio.probe-recommended-modern-only", "compat.client-modern-legacy-probe"),
)
async def probe(client: ClientUnderTest) -> None:
    """The first request to a server process is `server/discover`."""
    for evidence in client.all(instructed=True):
        # Of the first process: a client may probe one, and remember the result for the processes that it starts later.
        messages = next((each for each in evidence.conversations if each), [])
        if messages and messages[0].get("method") != "server/discover":
            raise Deviation("server/discover before other messages", brief(messages[0]))


@check("version.client-retry", proves=("version.retry-mutual",), needs=("scenario:request-metadata",))
async def retry(client: ClientUnderTest) -> None:
    """A request that is rejected for its version is retried with a version that both sides support."""
    requests = client.run("request-metadata").requests
    first = requests[0]
    again = [each for each in requests[1:] if each["method"] == first["method"]]
    if not again:
        raise Deviation(f"a retry of {first['method']}", f"{len(requests)} requests, without a retry")
    if meta_of(again[0]).get(PROTOCOL_VERSION) != client.revision.name:
        raise Deviation(f"a retry of {first['method']} in {client.revision}", brief(again[0]))


@check(
    "version.client-no-mutual",
    proves=("version.no-mutual-surface-error",),
    needs=("scenario:version-none", "scenario:initialize"),
)
async def no_mutual(client: ClientUnderTest) -> None:
    """Without a common version the client exits with an error, and does not repeat its requests."""
    if client.run("initialize").status != 0:
        raise NotTestable(f"the control request failed: {client.run('initialize').ending}")
    evidence = client.run("version-none")
    if evidence.status is None:
        raise Deviation("the client to stop", f"{len(evidence.requests)} requests, and {evidence.ending}")
    if evidence.status == 0:
        raise Deviation("an exit with an error", evidence.ending)
    sent = Counter((str(each["method"]), str(meta_of(each).get(PROTOCOL_VERSION))) for each in evidence.requests)
    for (method, version), times in sent.items():
        if times > _ATTEMPTS:
            raise Deviation(f"{method} in {version} at most {_ATTEMPTS} times", f"{times} times")


@check(
    "compat.client-modern-error-no-fallback",
    proves=(
        "compat.client-http-modern-error-retry",
        "stdio.probe-modern-error-no-fallback",
        "compat.client-http-inspect-400",
    ),
    needs=("scenario:version-none", f"scenario:{REFUSED_UNREAD}", f"scenario:{_MOVES}"),
)
async def no_fallback(client: ClientUnderTest) -> None:
    """An error of modern servers shows that the server is one: no `initialize` follows."""
    for message in client.run("version-none").sent("initialize"):
        raise Deviation("no initialize after error -32022", brief(message))
    unread = client.runs.get(REFUSED_UNREAD)
    for exchange in unread.exchanges if unread is not None else ():
        # A client may also begin with `initialize`; then nothing was rejected before it.
        refused = client.run(REFUSED_UNREAD).notes.get(REFUSED_UNREAD)
        behind = isinstance(refused, int) and exchange.number > refused
        if behind and exchange.message.get("method") == "initialize":
            raise Deviation("no initialize after error -32022 without an id", str(exchange))
    for evidence in client.all(instructed=True):
        rejected: JsonValue = None
        for entry in evidence.transcript:
            code = member(entry.value, "error", "code") if entry.sent else None
            rejected = code if code in _MODERN_ERRORS else rejected
            if rejected is not None and not entry.sent and member(entry.value, "method") == "initialize":
                raise Deviation(f"no initialize after error {brief(rejected)}", f"one in {evidence.scenario.name}")


@check(
    "compat.client-stays-modern",
    proves=(
        "compat.client-dual-modern",
        "compat.era-is-server-property",
        "stdio.probe-discover-result-modern",
    ),
    needs=("scenario:meets-modern",),
)
async def stays_modern(client: ClientUnderTest) -> None:
    """A client of both eras never sends `initialize` to a modern server."""
    evidence = client.run("meets-modern")
    if not any(meta_of(each) for each in evidence.requests):
        raise NotTestable("the client uses a legacy revision if none is given")
    for message in evidence.sent("initialize"):
        raise Deviation("no initialize", brief(message))


@check(
    "compat.client-falls-back",
    proves=(
        "compat.client-dual-legacy",
        "compat.client-http-fallback",
        "stdio.probe-other-error-fallback",
        "compat.era-is-server-property",
        "compat.client-cache-era",
        "compat.client-http-inspect-400",
    ),
    needs=(
        "scenario:meets-legacy",
        *(f"scenario:{each.name}" for each in ERA_SCENARIOS if MODERN[-1] in each.revisions),
    ),
)
async def falls_back(client: ClientUnderTest) -> None:
    """A client of both eras that connects to a legacy server uses `initialize`, and no modern requests after it."""
    evidence = _dual(client)
    names = [each.get("method") for each in _messages(evidence)]
    if "notifications/initialized" not in names or evidence.status != 0:
        raise Deviation("the client to continue after initialize", f"{brief(names)}, then {evidence.ending}")
    for each in client.all():
        # Another scenario may also be one of a modern server.
        if each.scenario.free and not each.server.modern:
            _stays_legacy(each)


def _stays_legacy(evidence: Evidence) -> None:
    """Check that no modern request follows `initialize`: none with modern metadata, and none of a modern method."""
    messages = _messages(evidence)
    opened = next((index for index, each in enumerate(messages) if each.get("method") == "initialize"), len(messages))
    for message in messages[opened:]:
        method = str(message.get("method"))
        is_modern = method in methods(evidence.revision) and method not in methods(evidence.agreed)
        if is_modern or PROTOCOL_VERSION in meta_of(message):
            raise Deviation("no modern request to a legacy server", brief(message))


@check(
    "compat.client-legacy-surfaces", proves=("compat.client-modern-legacy-surface",), needs=("scenario:meets-legacy",)
)
async def surfaces(client: ClientUnderTest) -> None:
    """A client of the modern era only that connects to a legacy server exits with an error."""
    evidence = client.run("meets-legacy")
    if evidence.sent("initialize"):
        raise NotApplicable("the client supports a legacy revision too")
    if evidence.status in (None, 0):
        raise Deviation("an exit with an error", evidence.ending)


def _dual(client: ClientUnderTest) -> Evidence:
    """Return the recorded messages of the client with a legacy server. Raise `NotApplicable` if it uses none."""
    evidence = client.run("meets-legacy")
    if not evidence.sent("initialize"):
        if evidence.status == 0 and client.transport is Transport.STDIO:
            raise Deviation("initialize, or an exit with an error", evidence.ending)
        raise NotApplicable("the client supports no legacy revision, or has no option for it")
    return evidence
