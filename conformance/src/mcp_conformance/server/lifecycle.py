"""How a connection is opened: `initialize`, `server/discover`, and the revisions that are agreed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.answers import brief
from mcp_conformance.checks import Subject
from mcp_conformance.oracle import flaw_of_result
from mcp_conformance.server.registry import check
from mcp_conformance.settings import CLIENT_INFO
from mcp_conformance.verdicts import Deviation
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from mcp_conformance.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_UNKNOWN = "1900-01-01"
"""A revision that nobody speaks."""


@check("lifecycle.initialize-result", proves=("lifecycle.server-initialize-result",), subject=Subject.CONNECTION)
async def initialize_result(server: ServerUnderTest) -> None:
    """`initialize` is answered by a result with protocolVersion, capabilities and serverInfo."""
    handshake = server.peer.handshake
    if handshake is None:
        raise AssertionError("a legacy connection is open only after its handshake")
    wrong = flaw_of_result("initialize", handshake.result(), server.revision)
    if wrong is not None:
        raise Deviation("an InitializeResult", wrong)


@check("version.echo", proves=("version.server-echo",), subject=Subject.PROCESS)
async def version_echo(server: ServerUnderTest) -> None:
    """A version that the server speaks is answered by the same version."""
    async with server.open(handshake=False) as peer:
        answer = await peer.request("initialize", _initialize(server.revision.name))
        if answer.member("protocolVersion", str) != server.revision.name:
            raise Deviation(f"protocolVersion {server.revision.name}", str(answer))


@check("version.alternative", proves=("version.server-alternative",), subject=Subject.PROCESS)
async def version_alternative(server: ServerUnderTest) -> None:
    """A version that the server does not speak is answered by a result that names another one."""
    async with server.open(handshake=False) as peer:
        answer = await peer.request("initialize", _initialize(_UNKNOWN))
        offered = answer.member("protocolVersion", str)
        if offered == _UNKNOWN:
            raise Deviation("a version that the server speaks", brief(offered))


def _initialize(version: str) -> JsonObject:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT_INFO}


@check(
    "discover.result",
    proves=(
        "discover.implemented",
        "discover.capabilities",
        "discover.result-type",
        "discover.cache-fields",
    ),
)
async def discover_result(server: ServerUnderTest) -> None:
    """`server/discover` is answered by a DiscoverResult."""
    answer = await server.peer.request("server/discover")
    wrong = flaw_of_result("server/discover", answer.result(), server.revision)
    if wrong is not None:
        raise Deviation("a DiscoverResult", wrong)
    if answer.member("resultType", str) != "complete":
        raise Deviation("resultType 'complete'", str(answer))


@check("discover.supported-versions", proves=("discover.supported-versions",))
async def discover_versions(server: ServerUnderTest) -> None:
    """`supportedVersions` is a list of strings with the version of the request in it."""
    answer = await server.peer.request("server/discover")
    versions = answer.member("supportedVersions", list)
    if not isinstance(versions, list) or not all(isinstance(each, str) for each in versions):
        raise Deviation("supportedVersions to be a list of strings", brief(versions))
    if server.revision.name not in versions:
        raise Deviation(f"{server.revision.name} among supportedVersions", brief(versions))


@check(
    "version.unsupported",
    proves=(
        "version.unsupported-error",
        "version.unsupported-data-supported",
        "version.unsupported-data-requested",
        "version.unsupported-applies-to-discover",
    ),
)
async def version_unsupported(server: ServerUnderTest) -> None:
    """A request with a version that the server does not speak is refused with -32022 and what it does speak."""
    await server.peer.fence()  # the control: the same request with the right version
    message = server.peer.message("server/discover", {"_meta": {PROTOCOL_VERSION: _UNKNOWN}})
    answer = await server.peer.exchange(message, deviant="a version that nobody speaks")
    data = answer.error(-32022, what=f"version {_UNKNOWN}").get("data")
    if not isinstance(data, dict) or not isinstance(data.get("supported"), list):
        raise Deviation("data.supported to be a list of versions", str(answer))
    if data.get("requested") != _UNKNOWN:
        raise Deviation(f"data.requested {_UNKNOWN}", str(answer))
