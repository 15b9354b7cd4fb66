"""The two eras: a server of one that meets a client of the other, and a server of both."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import Seen, member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import HttpConnection, messages_of
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.drivers.settings import CLIENT_INFO
from mcp_conformance.model.check import Subject
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import LATEST_LEGACY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_JSON: Final = (("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json"))


def _initialize(peer: SuiteConnection) -> JsonObject:
    """`initialize` as a legacy client sends it: nothing in it is modern."""
    params: JsonObject = {
        "protocolVersion": LATEST_LEGACY.name,
        "capabilities": {},
        "clientInfo": CLIENT_INFO,
    }
    return {"jsonrpc": "2.0", "id": peer.next_id(), "method": "initialize", "params": params}


async def _opened(peer: SuiteConnection) -> tuple[JsonObject, int | None]:
    """What is said to `initialize` of a legacy client, and the HTTP status."""
    message = _initialize(peer)
    if isinstance(peer, HttpConnection):
        headers = [*peer.settings.headers, *_JSON]
        answer = await peer.send(encoded(message), headers=headers, deviant="initialize of the other era")
        # A server of both eras may answer as legacy servers do: in a stream.
        return next((each for each in messages_of(answer) if "method" not in each), {}), answer.status
    answered = await peer.exchange(message, deviant="initialize of the other era")
    return answered.message, None


@asynccontextmanager
async def _modern_only(server: ServerUnderTest) -> AsyncIterator[tuple[JsonObject, int | None]]:
    async with server.open(handshake=False) as peer:
        found = await _opened(peer)
        if "result" in found[0]:
            raise NotApplicable("the server speaks both eras")
        yield found


@check(
    "compat.initialize-refused",
    proves=("compat.server-modern-initialize-error-stdio", "compat.server-modern-initialize-error-http"),
    subject=Subject.PROCESS,
)
async def initialize_refused(server: ServerUnderTest) -> None:
    """A server of the modern era alone refuses `initialize`: by an error, over HTTP with status 400."""
    async with _modern_only(server) as (message, status):
        if status is not None and status != 400:
            raise Deviation("HTTP 400 for initialize", f"HTTP {status}: {brief(message)}")
        if status is None and "error" not in message:
            raise Deviation("an error for initialize", brief(message))


@check(
    "compat.initialize-names-versions",
    proves=("compat.server-modern-initialize-names-versions",),
    subject=Subject.PROCESS,
)
async def initialize_names_versions(server: ServerUnderTest) -> None:
    """The error for `initialize` names the versions that the server speaks."""
    async with _modern_only(server) as (message, _):
        if server.revision.name not in brief(member(message, "error")):
            raise Deviation(f"{server.revision} in the error", brief(message))


@asynccontextmanager
async def _both(server: ServerUnderTest) -> AsyncIterator[SuiteConnection]:
    """A connection of the legacy era to a server of both."""
    async with server.open(handshake=False) as peer:
        if "result" not in (await _opened(peer))[0]:
            raise NotApplicable("the server speaks the modern era alone")
    async with server.open(revision=LATEST_LEGACY) as peer:
        yield peer


@check(
    "compat.legacy-session",
    proves=("compat.server-dual-initialize", "compat.legacy-behaviour-by-revision"),
    subject=Subject.PROCESS,
)
async def legacy_session(server: ServerUnderTest) -> None:
    """A server of both eras answers `initialize` as the legacy version has it, and serves what follows."""
    async with _both(server) as peer:
        if not isinstance(member(peer.handshake.message if peer.handshake else None, "result", "serverInfo"), dict):
            raise Deviation("serverInfo in the result of initialize", str(peer.handshake))
        (await peer.request("ping")).result()


@check("compat.legacy-results", proves=("compat.server-dual-legacy-results",), subject=Subject.PROCESS)
async def legacy_results(server: ServerUnderTest) -> None:
    """In a legacy session nothing of the modern era comes: no resultType, no codes from -32022 to -32020."""
    async with _both(server) as peer:
        if server.inventory.has("tools"):
            await peer.request("tools/list")
        await peer.request("conformance/does-not-exist", deviant="a method that does not exist")
        for each in Seen([peer.transcript]).exchanges:
            if "resultType" in (each.result if isinstance(each.result, dict) else {}):
                raise Deviation("no resultType in a legacy session", brief(each.response))
            if member(each.response, "error", "code") in (-32020, -32021, -32022):
                raise Deviation("no error code of the modern era in a legacy session", brief(each.response))


@check(
    "compat.modern-beside-legacy",
    proves=("compat.server-dual-modern-request", "compat.server-dual-concurrent"),
    subject=Subject.PROCESS,
)
async def modern_beside_legacy(server: ServerUnderTest) -> None:
    """While a legacy session is open, a modern request of another client is served without initialize."""
    async with _both(server) as peer, server.open() as modern:
        (await modern.request("server/discover")).member("supportedVersions", list)
        (await peer.request("ping")).result()


@check(
    "compat.no-core-tasks",
    proves=("compat.no-core-tasks", "tasks.legacy-capability-not-advertised"),
    subject=Subject.EVIDENCE,
)
async def no_core_tasks(server: ServerUnderTest) -> None:
    """Nothing of the tasks of 2025-11-25 is declared: no capability tasks, no execution of tools."""
    seen = Seen(server.evidence)
    for capabilities in seen.capabilities():
        if member(capabilities, "tasks") is not None:
            raise Deviation("no capability tasks", brief(capabilities))
    for tool in seen.listed("tools/list"):
        if member(tool, "execution", "taskSupport") is not None:
            raise Deviation("no taskSupport", brief(tool))
