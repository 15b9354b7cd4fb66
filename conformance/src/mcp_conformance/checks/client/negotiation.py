"""Negotiation of the era and the version by a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw_of_params, members_of_params
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.negotiation import ABRUPT, CODES, REFUSED_WITH_400, WITHOUT_ID
from mcp_core.methods import methods, notifications
from mcp_core.revisions import LATEST_LEGACY, LEGACY, MODERN, REVISIONS, between
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

_LEGACY: Final = [each.name for each in LEGACY]
_MODERN: Final = [each.name for each in MODERN]
_HTTP: Final = frozenset({Transport.HTTP})
_STDIO: Final = frozenset({Transport.STDIO})
_TWICE: Final = "conformance_no_request"
"""The scenario in which the client connects twice, over stdio to a server that then supports an older version."""
_REJECTIONS: Final = (400, 404, 405)


def _version(message: JsonObject) -> object:
    meta = params_of(message).get("_meta")
    return meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None


# --- the negotiated version
# ---------------------------------------------------------------------------------------------


@check(
    "version.client-latest",
    proves=("version.client-latest",),
    transports=_HTTP | _STDIO,
    needs=("scenario:meets-any-legacy",),
)
async def latest(client: ClientUnderTest) -> None:
    """A client without a given revision offers no older version than it is known to support."""
    offers = [params_of(each).get("protocolVersion") for each in client.run("meets-any-legacy").sent("initialize")]
    if not offers:
        raise NotApplicable("the client opens no legacy connection if no revision is given")
    offered = REVISIONS.get(str(offers[0]))
    if offered is not None and offered not in between(client.revision):
        raise Deviation(f"initialize with {client.revision} or a later version", brief(offers[0]))


@check(
    "version.client-keeps-to-it",
    proves=("version.respect-negotiated", "version.respect-negotiated-should"),
    revisions=("2025-03-26", "2025-06-18", "2025-11-25"),
    transports=_HTTP | _STDIO,
    needs=("scenario:version-older", f"scenario:{_TWICE}"),
)
async def keeps_to_it(client: ClientUnderTest) -> None:
    """After negotiation of an older version the client sends nothing newer, also if it is not its first connection."""
    evidence = client.run("version-older")
    agreed = REVISIONS[str(evidence.notes["offered"])]
    for launch in client.runs[_TWICE].launches if _TWICE in client.runs else ():
        if launch.session.opened and launch.session.revision is not client.revision:
            _keeps_to(launch.session.revision, client.revision, [*launch.values])
    if not evidence.sent("notifications/initialized"):
        raise NotApplicable(f"the client does not continue with {agreed}")
    _keeps_to(agreed, client.revision, evidence.messages)
    if not agreed.batching:
        for entry in evidence.transcript:
            if not entry.sent and isinstance(entry.value, list):
                raise Deviation(f"no array with {agreed}", brief(entry.value))


def _keeps_to(agreed: Revision, offered: Revision, messages: list[JsonValue]) -> None:
    """Check that messages have no methods and params that only the newer of two revisions has."""
    known = {**methods(agreed), **notifications(agreed)}
    newer = {**methods(offered), **notifications(offered)}
    for message in messages:
        if not isinstance(message, dict) or message.get("method") in (None, "initialize"):
            continue
        method = str(message["method"])
        if method not in known and method not in newer:
            # A method of no version does not concern negotiation.
            continue
        if method not in known:
            raise Deviation(f"a method of {agreed}", brief(message))
        wrong = flaw_of_params(method, message.get("params"), agreed)
        # An error in the newer version too does not concern negotiation.
        if wrong is not None and flaw_of_params(method, message.get("params"), offered) is None:
            raise Deviation(f"params of {method} according to {agreed}", wrong)
        # Additional members are allowed, but not those that have a meaning in the newer version only.
        added = members_of_params(method, offered) - members_of_params(method, agreed)
        used = sorted(added & params_of(message).keys())
        if used:
            raise Deviation(f"no params.{used[0]} in {method}, which {agreed} does not define", brief(message))


@check(
    "version.client-picks-supported",
    proves=("discover.client-picks-supported-version", "stdio.probe-discover-result-modern"),
    transports=_HTTP | _STDIO,
    needs=("scenario:meets-modern",),
)
async def picks_supported(client: ClientUnderTest) -> None:
    """The requests after the result of `server/discover` use one of its supportedVersions, which the client knows."""
    evidence = client.run("meets-modern")
    supported: list[str] | None = None
    after = 0
    for entry in evidence.transcript:
        message = entry.value
        if not isinstance(message, dict):
            continue
        result = message.get("result")
        listed = result.get("supportedVersions") if isinstance(result, dict) else None
        if entry.sent and isinstance(listed, list):
            # The others are versions that no client can know.
            supported = [each.name for each in evidence.server.speaks]
        elif not entry.sent and supported is not None and "id" in message and _version(message) is not None:
            # Another check requires a version in each request.
            after += 1
            if _version(message) not in supported:
                raise Deviation(f"one of {brief([*supported])}", brief(message))
    if supported is None:
        raise NotApplicable("the client does not send server/discover")
    if not after:
        raise NotTestable(f"the client sent no request after server/discover: {evidence.ending}")


# --- fallback
# -----------------------------------------------------------------------------------------------------------


def _with_legacy_server(client: ClientUnderTest, name: str) -> Evidence:
    """Return the recorded messages of a scenario with a legacy server, if the client supports legacy servers.

    Raises:
        NotApplicable: The client supports no legacy revision.
    """
    if not client.run("meets-legacy").sent("initialize"):
        raise NotApplicable("the client supports no legacy revision, or has no option for it")
    return client.run(name)


def _require_fallback(client: ClientUnderTest, name: str, what: str) -> None:
    """Require that a client whose probe gets no response that it can use sends `initialize`.

    Raises:
        Deviation: It does not.
        NotApplicable: The client does not probe.
        NotTestable: It still waits for the response.
    """
    evidence = _with_legacy_server(client, name)
    if not evidence.sent("server/discover"):
        raise NotApplicable("the client does not start with server/discover")
    if evidence.status is None and not evidence.sent("initialize"):
        raise NotTestable(
            "the client still waited for a response when it was stopped: a longer --timeout may show what it does"
        )
    if not evidence.sent("notifications/initialized"):
        raise Deviation(f"initialize after {what}", evidence.ending)


@check(
    "stdio.client-probe-silence",
    proves=("stdio.probe-timeout-fallback",),
    needs=("scenario:meets-silent", "scenario:meets-legacy"),
)
async def probe_silence(client: ClientUnderTest) -> None:
    """Without a response to `server/discover`, the client sends `initialize` after a timeout."""
    _require_fallback(client, "meets-silent", "server/discover without a response")


@check(
    "stdio.client-fallback-codes",
    proves=("stdio.fallback-not-one-code",),
    needs=("scenario:meets-legacy", *(f"scenario:meets-legacy{code}" for code in CODES)),
)
async def fallback_codes(client: ClientUnderTest) -> None:
    """The client falls back after any error code that earlier revisions use for the probe."""
    for code in CODES:
        evidence = _with_legacy_server(client, f"meets-legacy{code}")
        if not evidence.sent("notifications/initialized"):
            raise Deviation(f"initialize after error {code}", evidence.ending)


@check(
    "stdio.client-fallback-without-id",
    proves=("stdio.probe-other-error-fallback", "stdio.probe-timeout-fallback"),
    needs=("scenario:meets-legacy", f"scenario:{WITHOUT_ID}"),
)
async def fallback_without_id(client: ClientUnderTest) -> None:
    """The client falls back after an error without an id, or when it has waited for another response."""
    _require_fallback(client, WITHOUT_ID, "an error without an id")


@check(
    "stdio.client-fallback-exit",
    proves=("stdio.restart-after-crash",),
    needs=("scenario:meets-legacy", f"scenario:{ABRUPT}"),
)
async def fallback_exit(client: ClientUnderTest) -> None:
    """When the server exits at `server/discover`, the client starts it again and falls back."""
    _require_fallback(client, ABRUPT, "an exit of the server at server/discover, in a new process")


@check(
    "compat.client-fallback-null-id",
    proves=("compat.client-http-fallback", "compat.client-http-inspect-400"),
    transports=_HTTP,
    needs=("scenario:meets-legacy", f"scenario:{ABRUPT}"),
)
async def fallback_null_id(client: ClientUnderTest) -> None:
    """The client falls back after status 400 with an error that has the id `null`."""
    _require_fallback(client, ABRUPT, "status 400 with an error whose id is null")


@check(
    "compat.client-legacy-results",
    proves=("compat.client-absent-result-type",),
    needs=("scenario:meets-legacy", "scenario:tools_call"),
)
async def legacy_results(client: ClientUnderTest) -> None:
    """The results of a legacy server, which have no resultType, are treated as complete."""
    client.control()
    evidence = _with_legacy_server(client, "meets-legacy")
    if not evidence.sent("tools/list"):
        raise NotTestable(f"the client did not list the tools: {evidence.ending}")
    if not evidence.sent("tools/call"):
        raise Deviation("a call of a listed tool", evidence.ending)


@check(
    "compat.client-legacy-rules",
    proves=("compat.legacy-behaviour-by-revision",),
    transports=_HTTP | _STDIO,
    needs=("scenario:meets-legacy",),
)
async def legacy_rules(client: ClientUnderTest) -> None:
    """A client that falls back follows the rules of the legacy revision: ping, session id and version header."""
    evidence = _with_legacy_server(client, "meets-legacy")
    for request in evidence.server.client_requests:
        if request.response is None:
            raise Deviation(f"a response to {request.method}", evidence.ending)
        if "error" in request.response or not isinstance(request.response.get("result"), dict):
            raise Deviation(f"a result of {request.method}", brief(request.response))
    if client.transport is Transport.HTTP:
        _sends_headers(evidence)


def _sends_headers(evidence: Evidence) -> None:
    """Check that every request after `initialize` has the headers of the latest legacy revision."""
    session: str | None = None
    agreed = LATEST_LEGACY.name
    for exchange in evidence.exchanges:
        if session is not None and exchange.message.get("method") != "initialize":
            if exchange.header("mcp-session-id") != session:
                raise Deviation(f"Mcp-Session-Id {session}", str(exchange))
            if exchange.header("mcp-protocol-version") != agreed:
                raise Deviation(f"MCP-Protocol-Version {agreed}", str(exchange))
        session = exchange.answered or session
    if session is None:
        raise NotTestable(f"no session was opened: {evidence.ending}")


# --- the endpoints of 2024-11-05
# ----------------------------------------------------------------------------------------


def _old_server(client: ClientUnderTest) -> Evidence:
    """Return the recorded messages of the client with a server without Streamable HTTP.

    Raises:
        NotApplicable: The client does not support such servers.
    """
    evidence = client.run("meets-two-endpoints")
    if not any(each.method == "GET" for each in evidence.exchanges) and evidence.status not in (None, 0):
        raise NotApplicable("the client does not support servers of 2024-11-05")
    return evidence


@check(
    "http-sse.client-posts-first",
    proves=("http-sse.compat-client-post-first",),
    transports=_HTTP,
    needs=("scenario:meets-two-endpoints",),
)
async def posts_first(client: ClientUnderTest) -> None:
    """A client that supports servers of 2024-11-05 first sends `initialize` by POST."""
    first = _old_server(client).exchanges[0]
    accepted = first.header("accept") or ""
    if first.method != "POST" or first.message.get("method") != "initialize":
        raise Deviation("initialize by POST", str(first))
    if "application/json" not in accepted or "text/event-stream" not in accepted:
        raise Deviation("Accept with application/json and text/event-stream", accepted or "no Accept")


async def _falls_back(evidence: Evidence) -> None:
    refused = [each for each in evidence.exchanges if each.method == "POST" and each.status in _REJECTIONS]
    if not refused:
        raise NotTestable("no request was rejected")
    after = [each for each in evidence.exchanges if each.number > refused[0].number]
    if not any(each.method == "GET" and each.target == refused[0].target for each in after):
        raise Deviation(f"GET {refused[0].target} after status {refused[0].status}", evidence.ending)
    if not evidence.sent("notifications/initialized"):
        raise Deviation("the client to continue with the endpoint of the stream", evidence.ending)


@check(
    "http-sse.client-falls-back",
    proves=("http-sse.compat-client-fallback-4xx", "http-sse.compat-client-fallback-400-404-405"),
    transports=_HTTP,
    needs=("scenario:meets-two-endpoints", f"scenario:{REFUSED_WITH_400}"),
)
async def to_two_endpoints(client: ClientUnderTest) -> None:
    """When `initialize` is rejected by its status, the client opens the stream, and continues as in 2024-11-05."""
    await _falls_back(_old_server(client))
    if REFUSED_WITH_400 in client.runs:
        await _falls_back(client.run(REFUSED_WITH_400))


@check(
    "compat.client-two-endpoints",
    proves=("compat.http-sse-client-fallback",),
    transports=_HTTP,
    needs=("scenario:meets-two-endpoints-free",),
)
async def modern_to_two_endpoints(client: ClientUnderTest) -> None:
    """A client of both eras that supports the endpoints of 2024-11-05 finds them after a rejected request."""
    evidence = client.run("meets-two-endpoints-free")
    if not any(each.method == "GET" for each in evidence.exchanges):
        raise NotApplicable("the client does not support servers of 2024-11-05")
    await _falls_back(evidence)


@check(
    "compat.client-two-endpoints-era",
    proves=("compat.client-cache-era",),
    transports=_HTTP,
    needs=("scenario:meets-two-endpoints-free",),
)
async def two_endpoints_era(client: ClientUnderTest) -> None:
    """A client that has found the endpoints of 2024-11-05, which are those of a legacy server, does not probe again."""
    evidence = client.run("meets-two-endpoints-free")
    # Only the URI of the `endpoint` event belongs to a session.
    behind = [each for each in evidence.exchanges if each.method == "POST" and each.known is not None]
    if not behind:
        raise NotApplicable("the client does not support servers of 2024-11-05")
    for exchange in behind:
        if exchange.message.get("method") == "server/discover":
            raise Deviation("initialize to the endpoint of the stream, and no server/discover", str(exchange))
