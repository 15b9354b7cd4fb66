"""The opening of a connection: `initialize`, `server/discover`, and version negotiation."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.http_requests import shown, with_header
from mcp_conformance.checks.probes.message_pairs import objects
from mcp_conformance.checks.probes.modern_requests import discover_in, of_version, rejections, require_unsupported
from mcp_conformance.checks.probes.recorded_values import items, member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import HttpConnection, messages_of
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.drivers.server.targets import NotStarted, UrlTarget
from mcp_conformance.drivers.settings import CLIENT_INFO
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.transcript import Part, Transcript
from mcp_core.errors import ErrorCode
from mcp_core.revisions import R2025_11_25, R2026_07_28, REVISIONS, Era, between
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION, SERVER_INFO
from mcp_core.types.meta import CLIENT_INFO as CLIENT_INFO_KEY

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject

_UNKNOWN: Final = "1900-01-01"
"""A version that no server supports."""
_LEGACY: Final = tuple(name for name, revision in REVISIONS.items() if revision.era is Era.LEGACY)
_MODERN: Final = tuple(name for name, revision in REVISIONS.items() if revision.era is Era.MODERN)
_UNFIT: Final = (ErrorCode.PARSE_ERROR, ErrorCode.METHOD_NOT_FOUND)
"""The codes of JSON-RPC that say nothing true about a request of a known method with invalid params."""
_FAR: Final = "2999-12-31"
"""A version that a comparison of dates takes for a supported one."""


@check(
    "lifecycle.initialize-result",
    proves=(
        "lifecycle.server-initialize-result",
        "schema.initialize-result",
        "jsonrpc.base-and-lifecycle-support",
    ),
    subject=CheckScope.RECOVERING,
)
async def initialize_result(server: ServerUnderTest) -> None:
    """`initialize` is answered with a result that has protocolVersion, capabilities and serverInfo."""
    handshake = server.peer.handshake
    if handshake is None:
        raise AssertionError("a legacy connection is open only after its handshake")
    for name, kind in (("protocolVersion", str), ("capabilities", dict), ("serverInfo", dict)):
        handshake.member(name, kind)
    if not isinstance(handshake.result().get("instructions", ""), str):
        raise Deviation("instructions to be a string", str(handshake))


@check(
    "lifecycle.invalid-initialize",
    proves=("jsonrpc.invalid-params-error",),
    revisions=_LEGACY,
    subject=CheckScope.PROCESS,
)
async def invalid_initialize(server: ServerUnderTest) -> None:
    """`initialize` without the version or the capabilities of the client is rejected, with a code that fits."""
    async with server.share(initialized=False) as peer:
        for missing in ("protocolVersion", "capabilities"):
            what = f"initialize without {missing}"
            params = {name: each for name, each in _initialize(server.revision.name).items() if name != missing}
            message = peer.message("initialize", params)
            if isinstance(peer, HttpConnection):
                # The session remains that of the connection.
                answer = await peer.send(encoded(message), headers=peer.headers(message), deviant=what)
                if any("result" in each for each in messages_of(answer)):
                    raise Deviation(f"an error for {what}", shown(answer))
                errors = [each for each in messages_of(answer) if "error" in each]
            else:
                rejection = await peer.exchange(message, deviant=what)
                rejection.error(what=what)
                errors = [rejection.message]
            for each in errors:
                _check_rejection(each, message, what)


def _check_rejection(rejection: JsonObject, request: JsonObject, what: str) -> None:
    """Require that an error response to `initialize` has its id, or none, and a code that fits.

    A server may also reject the request because it has been initialized.

    Raises:
        Deviation: It has another id, or a code for what is no JSON, no known method or no error.
    """
    if rejection.get("id") not in (None, request["id"]):
        raise Deviation(f"an error with the id of {what}", brief(rejection))
    error = rejection["error"]
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and (code >= 0 or code in _UNFIT):
        raise Deviation(f"an error {ErrorCode.INVALID_PARAMS} for {what}", brief(rejection))


@check(
    "lifecycle.initialize-after-rejection",
    proves=("lifecycle.server-initialize-result",),
    # The state that a rejection leaves does not depend on the revision; over stdio each attempt costs a process.
    revisions=(R2025_11_25.name,),
    subject=CheckScope.PROCESS,
    transports=(Transport.STDIO,),
)
async def initialize_after_rejection(server: ServerUnderTest) -> None:
    """A rejected `initialize` leaves no state: the correct one that follows on the same connection is served."""
    async with server.open(handshake=False) as peer:
        incomplete = peer.message("initialize", {})
        await peer.post(incomplete, deviant="initialize without its params")
        try:
            answer = await peer.request("initialize", _initialize(server.revision.name))
        except Deviation as deviation:
            if peer.ending:
                raise NotApplicable(
                    "the server ends the connection of a client whose initialize it rejects"
                ) from deviation
            raise
        if any(each.get("id") == incomplete["id"] and "result" in each for each in peer.strays):
            raise NotApplicable("the server serves initialize without its params")
        answer.member("protocolVersion", str)


@check("version.echo", proves=("version.server-echo",), subject=CheckScope.PROCESS)
async def version_echo(server: ServerUnderTest) -> None:
    """A supported version is answered with the same version."""
    async with server.share() as peer:
        # Each connection of the suite is opened with the version of the leg.
        if peer.handshake is None or peer.handshake.member("protocolVersion", str) != server.revision.name:
            raise Deviation(f"protocolVersion {server.revision.name}", str(peer.handshake))
        if isinstance(peer, HttpConnection) and server.revision.version_header:
            await _beside_header(server)
    await _of_each_client(server)


async def _beside_header(server: ServerUnderTest) -> None:
    """Require that the header of `initialize`, which the revision does not define, has no effect on the version.

    Raises:
        Deviation: The server negotiates another version than that of the request.
    """
    own = server.revision.name
    for other in (name for name in _LEGACY if REVISIONS[name].version_header and name != own):
        async with server.open(handshake=False) as peer:
            if not isinstance(peer, HttpConnection):
                raise TypeError("the header belongs to HTTP")
            message = peer.message("initialize", _initialize(own))
            headers = with_header(peer.headers(message), "MCP-Protocol-Version", other)
            what = f"initialize of {own} with the header MCP-Protocol-Version: {other}"
            answer = await peer.look(headers=headers, body=encoded(message), deviant=what)
            peer.session_id = answer.header("mcp-session-id")
            for each in messages_of(answer):
                # The server may reject the request.
                if "result" in each and member(each, "result", "protocolVersion") != own:
                    raise Deviation(f"protocolVersion {own}, or an error, for {what}", shown(answer))


async def _of_each_client(server: ServerUnderTest) -> None:
    """Require that a server with one version for all its clients has no other one when it is started again.

    Raises:
        Deviation: The first client of a process decides the version of all.
    """
    start = server.target.start_another if isinstance(server.target, UrlTarget) else None
    if start is None:
        return
    answers: dict[str, JsonRpcResponse] = {}
    for version in {name for name, revision in REVISIONS.items() if revision.era is Era.LEGACY} - {
        server.revision.name
    }:
        answers[version] = await _answer(server, version)
        if member(answers[version].message, "result", "protocolVersion") != server.revision.name:
            return
    refused = max(answers)
    try:
        async with start() as another:
            transcript = Transcript()
            server.opened.append(Part(transcript=transcript, since=0))
            async with another.open(server.revision, server.transport, handshake=False, transcript=transcript) as peer:
                first = await peer.request("initialize", _initialize(refused))
    except NotStarted:
        return  # the server cannot run twice at a time
    if member(first.message, "result", "protocolVersion") == refused:
        raise Deviation(
            f"protocolVersion {refused}, which the server supports when this is its first request",
            str(answers[refused]),
        )


@check(
    "version.alternative",
    proves=("version.server-alternative", "lifecycle.handle-version-mismatch"),
    subject=CheckScope.PROCESS,
)
async def version_alternative(server: ServerUnderTest) -> None:
    """An unsupported version is answered with a result that names another version, which the server supports."""
    # The leg shows that its own version is supported.
    spoken = {server.revision.name}
    # Over stdio each attempt costs a process. These answers do not depend on the leg: one asks. Modern versions have no
    # `initialize`, so that none of them can be negotiated with it.
    once = (_UNKNOWN, *_MODERN) if server.transport is not Transport.STDIO or server.revision is R2025_11_25 else ()
    for unknown in (*_near_misses(server.revision.name), *once):
        answer = await _answer(server, unknown)
        if unknown in _MODERN and answer.is_error:
            # The server may support that version, although not with this request. But it has the method.
            if member(answer.message, "error", "code") == -32601:
                raise Deviation(f"a version that the server supports, for initialize of {unknown}", str(answer))
            continue
        offered = answer.member("protocolVersion", str)
        if offered == unknown or offered in _MODERN:
            raise Deviation("a version with `initialize` that the server supports", brief(offered))
        if (refusal := (await _opened(server, unknown))[1]) is not None:
            raise Deviation(
                f"a session of version {offered}, which was offered as the alternative to {unknown}", refusal
            )
        if str(offered) in spoken:
            continue
        answer = await _answer(server, str(offered))
        if answer.member("protocolVersion", str) != offered:
            raise Deviation(f"{offered}, which was offered as the alternative to {unknown}", str(answer))
        spoken.add(str(offered))


def _near_misses(version: str) -> tuple[str, ...]:
    """Return versions that do not exist, and resemble one that does."""
    return f"{version}-draft", f"{version[:-2]}{int(version[-2:]) + 1:02}"


@check("version.latest", proves=("version.server-latest",), subject=CheckScope.PROCESS)
async def version_latest(server: ServerUnderTest) -> None:
    """The alternative version is the latest that the server supports."""
    answer = await _answer(server, _near_misses(server.revision.name)[0])
    offered = REVISIONS.get(str(answer.member("protocolVersion", str)))
    if offered is None:
        raise NotTestable(f"the server offers a version that the suite does not know: {answer}")
    for newer in between(offered) - {offered}:
        if newer.era is Era.LEGACY:
            answer = await _answer(server, newer.name)
            if answer.member("protocolVersion", str) == newer.name:
                raise Deviation(f"{newer}, which the server supports, as the alternative", offered.name)


async def _answer(server: ServerUnderTest, version: str) -> JsonRpcResponse:
    """Return the response to the `initialize` of a new client, which requests a version."""
    return (await _opened(server, version))[0]


async def _opened(server: ServerUnderTest, version: str) -> tuple[JsonRpcResponse, str | None]:
    """Return the response to the `initialize` of a new client, and how the server refuses what follows; `None` if it does not."""

    async def initialize() -> tuple[JsonRpcResponse, str | None]:
        async with server.open(handshake=False) as peer:
            answer = await peer.request("initialize", _initialize(version))
            offered = REVISIONS.get(str(member(answer.message, "result", "protocolVersion")))
            # Over HTTP this client can name only its own version in headers.
            if (
                offered is None
                or offered.name == version
                or (isinstance(peer, HttpConnection) and offered is not peer.revision)
            ):
                return answer, None
            peer.handshake = answer
            return answer, await _refusal(peer, answer)
        raise AssertionError("the block returns")

    return await server.once(f"initialize with {version}", initialize)


async def _refusal(peer: SuiteConnection, answer: JsonRpcResponse) -> str | None:
    """Continue after the result of `initialize`, and return how the server refuses a request that it must serve."""
    try:
        await peer.notify("notifications/initialized")
        requests = ["ping"]
        if isinstance(member(answer.message, "result", "capabilities", "tools"), dict):
            requests.append("tools/list")
        for method in requests:
            served = await peer.request(method)
            # Another check covers a server without `ping`.
            if served.is_error and not (method == "ping" and member(served.message, "error", "code") == -32601):
                return f"{method}: {served}"
    except Deviation as deviation:
        return str(deviation)
    return None


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
    """`server/discover` is answered with a DiscoverResult."""
    answer = await server.peer.request("server/discover")
    if answer.member("resultType", str) != "complete":
        raise Deviation("resultType 'complete'", str(answer))
    answer.member("capabilities", dict)
    ttl = answer.member("ttlMs", int)
    if not isinstance(ttl, int) or ttl < 0:
        raise Deviation("ttlMs to be a non-negative integer", str(answer))
    if answer.member("cacheScope", str) not in ("public", "private"):
        raise Deviation("cacheScope to be public or private", str(answer))
    if not isinstance(answer.result().get("instructions", ""), str):
        raise Deviation("instructions to be a string", str(answer))


@check("discover.server-info", proves=("discover.server-info-in-meta",))
async def discover_server_info(server: ServerUnderTest) -> None:
    """The result of `server/discover` has serverInfo in `_meta`."""
    answer = await server.peer.request("server/discover")
    info = member(answer.result(), "_meta", SERVER_INFO)
    if not isinstance(member(info, "name"), str) or not isinstance(member(info, "version"), str):
        raise Deviation(f"_meta.{SERVER_INFO} with a name and a version", str(answer))


@check("discover.supported-versions", proves=("discover.supported-versions",))
async def discover_versions(server: ServerUnderTest) -> None:
    """`supportedVersions` is a list of strings that contains the version of the request."""
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
    """A request with an unsupported version is rejected with -32022 and the supported versions."""
    await server.peer.fence()  # control: the same request with the right version
    name = server.revision.name
    for version in (_UNKNOWN, *_near_misses(name), name[:-3], _FAR):
        require_unsupported(await discover_in(server.peer, version), version)
    # A server may take an empty version for a missing one, and over HTTP an empty header for a missing one.
    (await discover_in(server.peer, "")).error(what="an empty version")


@check(
    "version.unsupported-every-method",
    proves=(
        "version.unsupported-every-method",
        "version.unsupported-data-supported",
        "version.unsupported-data-requested",
    ),
)
async def version_unsupported_every_method(server: ServerUnderTest) -> None:
    """An unsupported version is rejected for each method."""
    change = partial(of_version, version=_UNKNOWN)
    for answer in await rejections(server, change, "an unsupported version"):
        require_unsupported(answer, _UNKNOWN)


@check("discover.consistent", proves=("discover.supported-versions-consistent",))
async def discover_consistent(server: ServerUnderTest) -> None:
    """`server/discover` names the same versions as the error for an unsupported version."""
    versions = (await server.peer.request("server/discover")).member("supportedVersions", list)
    supported = member((await discover_in(server.peer, _UNKNOWN)).error(), "data", "supported")
    if sorted(map(str, items(versions))) != sorted(map(str, items(supported))):
        raise Deviation(f"data.supported {brief(versions)}", brief(supported))


@check("lifecycle.initialize-first", proves=("lifecycle.initialize-first",), subject=CheckScope.EVIDENCE)
async def initialize_first(server: ServerUnderTest) -> None:
    """The server sends nothing before its response to `initialize`."""
    for transcript in server.evidence:
        for each in chain.from_iterable(objects(entry) for entry in transcript if not entry.sent):
            if "method" not in each:
                break
            raise Deviation("no message before the response to initialize", brief(each))


@check("lifecycle.no-early-requests", proves=("lifecycle.server-no-early-requests",), subject=CheckScope.PROCESS)
async def no_early_requests(server: ServerUnderTest) -> None:
    """Before notifications/initialized the server sends no request other than ping."""
    # With all capabilities, so that there is something that the server could request.
    async with server.share(initialized=False) as peer:
        if isinstance(peer, HttpConnection):
            await peer.open_standalone_stream()
        await peer.fence()
        # All that was received: another check may have opened the connection.
        for message in chain.from_iterable(objects(entry) for entry in peer.transcript if not entry.sent):
            if "id" in message and message.get("method", "ping") != "ping":
                raise Deviation("no request before notifications/initialized", brief(message))


@check(
    "lifecycle.missing-capability",
    proves=("lifecycle.handle-missing-capabilities", "capability.client-not-relied-undeclared"),
)
async def missing_capability(server: ServerUnderTest) -> None:
    """A call that needs an undeclared client capability gets a response, and the connection keeps working."""
    name, arguments = server.tool("test_sampling", {"prompt": "Say yes."})
    async with server.share(capabilities={}) as peer:
        await peer.request("tools/call", {"name": name, "arguments": arguments})
        await peer.fence()


@check(
    "lifecycle.foreign-era",
    proves=("lifecycle.handle-version-mismatch",),
    subject=CheckScope.PROCESS,
    transports=(Transport.STDIO,),
)
async def foreign_era(server: ServerUnderTest) -> None:
    """A request of the modern era gets a response, and `initialize` works after it."""
    async with server.open(handshake=False) as peer:
        meta: JsonObject = {
            PROTOCOL_VERSION: R2026_07_28.name,
            CLIENT_CAPABILITIES: {},
            CLIENT_INFO_KEY: CLIENT_INFO,
        }
        probe: JsonObject = {
            "jsonrpc": "2.0",
            "id": peer.next_id(),
            "method": "server/discover",
            "params": {"_meta": meta},
        }
        probed = await peer.exchange(probe, deviant="a request of another era")
        if not probed.is_error:
            raise NotApplicable(
                "the server supports both eras, and its process may stay in the one in which it was opened"
            )
        answer = await peer.request("initialize", _initialize(server.revision.name))
        answer.member("protocolVersion", str)
