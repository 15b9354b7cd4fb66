"""The two eras: servers of one era with clients of the other, and servers of both."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks.probes.http_requests import on_one_connection, shown, succeeded
from mcp_conformance.checks.probes.modern_requests import answered_requests, discover_in, require_unsupported
from mcp_conformance.checks.probes.recorded_values import RecordedMessages, items, member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import HttpConnection, messages_of
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.drivers.settings import CLIENT_INFO
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_core.methods import methods
from mcp_core.revisions import LATEST_LEGACY, REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject

_JSON: Final = (("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json"))


def _initialize(peer: SuiteConnection) -> JsonObject:
    """Return an `initialize` request of a legacy client, without modern members."""
    params: JsonObject = {
        "protocolVersion": LATEST_LEGACY.name,
        "capabilities": {},
        "clientInfo": CLIENT_INFO,
    }
    return {"jsonrpc": "2.0", "id": peer.next_id(), "method": "initialize", "params": params}


async def _opened(server: ServerUnderTest) -> tuple[JsonObject, int | None]:
    """Send `initialize` as a legacy client, and return the response and the HTTP status."""

    async def initialize() -> tuple[JsonObject, int | None]:
        async with server.open(handshake=False) as peer:
            message = _initialize(peer)
            if isinstance(peer, HttpConnection):
                headers = [*peer.settings.headers, *_JSON]
                answer = await peer.send(encoded(message), headers=headers, deviant="initialize of the legacy era")
                # A server of both eras may answer in a stream, as legacy servers do.
                return next((each for each in messages_of(answer) if "method" not in each), {}), answer.status
            answered = await peer.exchange(message, deviant="initialize of the legacy era")
            return answered.message, None
        raise AssertionError("the block returns")

    return await server.once("initialize of a legacy client", initialize)


async def _modern_only(server: ServerUnderTest) -> tuple[JsonObject, int | None]:
    """Return the response to `initialize` of a server of the modern era only, and the HTTP status.

    Raises:
        NotApplicable: The server supports both eras.
    """
    found = await _opened(server)
    if "result" in found[0]:
        raise NotApplicable("the server supports both eras")
    return found


@check(
    "compat.initialize-refused",
    proves=("compat.server-modern-initialize-error-stdio", "compat.server-modern-initialize-error-http"),
    subject=CheckScope.PROCESS,
)
async def initialize_refused(server: ServerUnderTest) -> None:
    """A server of the modern era only rejects `initialize` with an error, over HTTP with status 400."""
    message, status = await _modern_only(server)
    if status is not None and status != 400:
        raise Deviation("HTTP 400 for initialize", f"HTTP {status}: {brief(message)}")
    if status is None and "error" not in message:
        raise Deviation("an error for initialize", brief(message))


@check(
    "compat.initialize-names-versions",
    proves=("compat.server-modern-initialize-names-versions",),
    subject=CheckScope.PROCESS,
)
async def initialize_names_versions(server: ServerUnderTest) -> None:
    """The error for `initialize` names the supported versions."""
    message, _ = await _modern_only(server)
    if server.revision.name.encode() not in encoded(member(message, "error")):
        raise Deviation(f"{server.revision} in the error", brief(message))


@check(
    "version.unsupported-legacy",
    proves=("version.unsupported-error", "version.unsupported-data-supported", "discover.supported-versions"),
    subject=CheckScope.PROCESS,
)
async def unsupported_legacy(server: ServerUnderTest) -> None:
    """A server of the modern era only rejects a request that declares a legacy version, and names none as supported."""
    await _modern_only(server)
    async with server.share() as peer:
        versions = items((await peer.request("server/discover")).member("supportedVersions", list))
        for name in (name for name, revision in REVISIONS.items() if revision.era is Era.LEGACY):
            versions = [*versions, *require_unsupported(await discover_in(peer, name), name)]
    # Its `initialize` has been rejected.
    if LATEST_LEGACY.name in versions:
        raise Deviation(f"no {LATEST_LEGACY} among the supported versions", brief(versions))


@asynccontextmanager
async def _both(server: ServerUnderTest) -> AsyncIterator[SuiteConnection]:
    """Open a legacy connection to a server of both eras."""
    if "result" not in (await _opened(server))[0]:
        raise NotApplicable("the server supports only the modern era")
    async with server.share(revision=LATEST_LEGACY) as peer:
        yield peer


@check(
    "compat.legacy-session",
    proves=("compat.server-dual-initialize", "compat.legacy-behaviour-by-revision"),
    subject=CheckScope.PROCESS,
)
async def legacy_session(server: ServerUnderTest) -> None:
    """A server of both eras answers `initialize` as in the legacy version, and serves the requests that follow."""
    await _require_no_modern_headers(server)
    async with _both(server) as peer:
        if not isinstance(member(peer.handshake.message if peer.handshake else None, "result", "serverInfo"), dict):
            raise Deviation("serverInfo in the result of initialize", str(peer.handshake))
        (await peer.request("ping")).result()
        # A server without a tool with header parameters has none that it could demand.
        with suppress(NotTestable):
            name, arguments = server.tool("conformance_headers", {"region": "here"})
            served = await peer.request("tools/call", {"name": name, "arguments": arguments})
            if served.is_error:
                raise Deviation("a result of a legacy call, which has no header parameters", str(served))


async def _require_no_modern_headers(server: ServerUnderTest) -> None:
    """Require that `initialize` is rejected also with the headers of the modern era, if it is rejected without them."""
    found, status = await _opened(server)
    if "result" in found or status is None:
        return
    async with server.open(handshake=False) as peer:
        if isinstance(peer, HttpConnection):
            message = _initialize(peer)
            added = (("MCP-Protocol-Version", LATEST_LEGACY.name), ("Mcp-Method", "initialize"))
            headers = [*peer.settings.headers, *_JSON, *added]
            answer = await peer.send(encoded(message), headers=headers, deviant="initialize of the legacy era")
            await _end_session(peer, answer)
            if any(member(each, "result", "protocolVersion") is not None for each in messages_of(answer)):
                raise Deviation("a result of initialize without the headers of the modern era", brief(found))


@check("compat.legacy-results", proves=("compat.server-dual-legacy-results",), subject=CheckScope.PROCESS)
async def legacy_results(server: ServerUnderTest) -> None:
    """A legacy session has no resultType, ttlMs or cacheScope, and no error codes from -32022 to -32020."""
    async with _both(server) as peer:
        for method, params in answered_requests(attrs.evolve(server, revision=LATEST_LEGACY)):
            if method in methods(LATEST_LEGACY):
                await peer.request(method, params)
        await peer.request("conformance/does-not-exist", deviant="an unknown method")
        for each in RecordedMessages([peer.transcript]).exchanges:
            for name in ("resultType", "ttlMs", "cacheScope"):
                if name in (each.result if isinstance(each.result, dict) else {}):
                    raise Deviation(f"no {name} in a legacy session", brief(each.response))
            if member(each.response, "error", "code") in (-32020, -32021, -32022):
                raise Deviation("no error code of the modern era in a legacy session", brief(each.response))


@check(
    "compat.modern-beside-legacy",
    proves=("compat.server-dual-modern-request", "compat.server-dual-concurrent", "compat.server-dual-initialize"),
    subject=CheckScope.PROCESS,
)
async def modern_beside_legacy(server: ServerUnderTest) -> None:
    """While a legacy session is open, the server serves a modern request without initialize, and over HTTP vice versa.

    Over HTTP, clients of both eras may also use one connection, for instance that of a proxy.
    """
    async with _both(server) as peer, server.share() as modern:
        (await modern.request("server/discover")).member("supportedVersions", list)
        (await peer.request("ping")).result()
        if isinstance(modern, HttpConnection):
            with suppress(NotApplicable):
                await _require_both_on_one_connection(modern)


async def _require_both_on_one_connection(peer: HttpConnection) -> None:
    """Require that a server serves a modern request after `initialize` on a connection, and the reverse.

    Raises:
        NotApplicable: The server closes a connection after each response.
    """
    discover, initialize = peer.message("server/discover"), _initialize(peer)
    legacy, rule = [*peer.settings.headers, *_JSON], "initialize of the legacy era"
    answers = await on_one_connection(peer, initialize, discover, first_headers=legacy, first_deviant=rule, deviant="")
    await _end_session(peer, answers[0])
    if not succeeded(answers[1]):
        raise Deviation("a result of server/discover after initialize on the same connection", shown(answers[1]))
    discover, initialize = peer.message("server/discover"), _initialize(peer)
    answers = await on_one_connection(peer, discover, initialize, headers=legacy, deviant=rule)
    await _end_session(peer, answers[1])
    if not succeeded(answers[1]):
        raise Deviation("a result of initialize after server/discover on the same connection", shown(answers[1]))


async def _end_session(peer: HttpConnection, opened: HttpResponse) -> None:
    """End the session that a response has opened, if it has."""
    id = opened.header("mcp-session-id")
    if id is not None:
        headers = [*peer.settings.headers, ("Mcp-Session-Id", id), ("MCP-Protocol-Version", LATEST_LEGACY.name)]
        await peer.look("DELETE", headers=headers, deviant="a DELETE of the legacy era")


@check(
    "compat.no-core-tasks",
    proves=("compat.no-core-tasks", "tasks.legacy-capability-not-advertised"),
    subject=CheckScope.EVIDENCE,
)
async def no_core_tasks(server: ServerUnderTest) -> None:
    """The server declares nothing of the tasks of 2025-11-25: no capability tasks, no execution of tools."""
    recorded = RecordedMessages(server.evidence)
    for capabilities in recorded.capabilities():
        if member(capabilities, "tasks") is not None:
            raise Deviation("no capability tasks", brief(capabilities))
    for tool in recorded.listed("tools/list"):
        if member(tool, "execution", "taskSupport") is not None:
            raise Deviation("no taskSupport", brief(tool))
