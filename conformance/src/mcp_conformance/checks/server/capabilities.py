"""Capabilities: declared features are served, undeclared ones are not, and client capabilities are respected."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import RecordedMessages, member
from mcp_conformance.checks.probes.schema_check import VALID, look
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.settings import ALL_CAPABILITIES, CLIENT_INFO, capabilities_in
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import R2025_03_26, Era, between
from mcp_core.types.meta import CLIENT_CAPABILITIES
from mcp_core.types.meta import CLIENT_INFO as CLIENT_INFO_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

_FEATURE_REQUESTS: Final[Mapping[str, tuple[str, JsonObject]]] = {
    "tools": ("tools/list", {}),
    "resources": ("resources/list", {}),
    "prompts": ("prompts/list", {}),
    "completions": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "none", "value": ""}},
    ),
    "logging": ("logging/setLevel", {"level": "info"}),
}
"""A representative request of each feature."""

_CLIENT_REQUESTS: Final[Mapping[str, str]] = {
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
    "elicitation/create": "elicitation",
}
_UNVERSIONED: Final[JsonObject] = {**CLIENT_INFO, "version": "0"}
"""A client whose version a lax test takes for none."""
_CHANGES: Final[Mapping[str, str]] = {
    f"notifications/{feature}/list_changed": f"{feature}.listChanged" for feature in ("tools", "resources", "prompts")
}
_LABEL: Final = r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?"
_EXTENSION: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def _feature_requests(revision: Revision) -> Iterator[tuple[str, str, JsonObject]]:
    for feature, (method, params) in _FEATURE_REQUESTS.items():
        # Completion has no capability in the first revision; logging/setLevel does not exist in the modern one.
        known = revision in between(R2025_03_26) if feature == "completions" else True
        if known and (feature != "logging" or revision.session_log_level):
            yield feature, method, params


@check(
    "capability.undeclared-not-served",
    proves=(
        "capability.advertise-implemented",
        "capability.server-declares-implemented",
        "capability.unadvertised-method-not-found",
    ),
)
async def undeclared_not_served(server: ServerUnderTest) -> None:
    """A method of a feature that the server does not declare is answered with -32601, and a subscription with an error."""
    missing = [request for request in _feature_requests(server.revision) if not server.inventory.has(request[0])]
    # In the modern era, a subscription to resources is a part of a request that serves others, too.
    subscribes = server.revision.era is Era.MODERN or server.inventory.has("resources.subscribe")
    watched = [] if subscribes else server.inventory.lists.get("resources", ())[:1]
    if not missing and not watched:
        raise NotApplicable("the server declares all features")
    for feature, method, params in missing:
        answer = await server.peer.request(method, params)
        answer.error(-32601, what=f"{method} of a server that does not declare {feature}")
    for resource in watched:
        answer = await server.peer.request("resources/subscribe", {"uri": resource["uri"]})
        answer.error(what="resources/subscribe of a server that does not declare resources.subscribe")


@check(
    "capability.declared-served",
    proves=("capability.respect-throughout", "capability.server-declares-implemented"),
)
async def declared_served(server: ServerUnderTest) -> None:
    """A feature that the server declares is served, also later in the connection."""
    for feature, method, params in _feature_requests(server.revision):
        if server.inventory.has(feature):
            answer = await server.peer.request(method, params)
            if answer.is_error and answer.error().get("code") == -32601:
                raise Deviation(f"{method} to be served, as {feature} is declared", str(answer))


@check(
    "capability.bare-client",
    proves=("jsonrpc.optional-components", "jsonrpc.components-optional", "capability.empty-object-no-optional"),
)
async def bare_client(server: ServerUnderTest) -> None:
    """A client that declares no capabilities is served."""
    async with server.share(capabilities={}) as peer:
        (await peer.fence()).result()
        for feature, method, params in _feature_requests(server.revision):
            if server.inventory.has(feature) and feature != "completions":
                (await peer.request(method, params)).result()


@check(
    "capability.declared-to-any-client",
    proves=("capability.advertise-implemented", "capability.server-declares-implemented"),
)
async def declared_to_any_client(server: ServerUnderTest) -> None:
    """A server declares each feature that it serves also to a client that declares no capabilities."""
    async with server.share(capabilities={}) as peer:
        handshake = peer.handshake or await peer.request("server/discover")
        declared = handshake.member("capabilities", dict)
        for feature, method, params in _feature_requests(server.revision):
            if server.inventory.has(feature) and feature != "completions" and member(declared, feature) is None:
                answer = await peer.request(method, params)
                # A server may offer such a client less.
                if not answer.is_error:
                    raise Deviation(f"the capability {feature!r}, as the server serves {method}", brief(declared))


@check(
    "capability.unknown",
    proves=(
        "capability.open-set",
        "capability.unknown-tolerated",
        "lifecycle.server-initialize-result",
        "meta.object",
    ),
    revisions=("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"),
    subject=CheckScope.PROCESS,
)
async def unknown(server: ServerUnderTest) -> None:
    """A client may declare capabilities that the server does not know, with other unknown members in its handshake.

    Its version may be "0".
    """
    unknown: JsonObject = {"deep": [1, None]}
    known = capabilities_in(server.revision)
    declared: JsonObject = {
        # An empty elicitation capability means forms, where it has members.
        **{name: {**({"form": {}} if name == "elicitation" else {}), "conformanceUnknown": unknown} for name in known},
        "conformanceUnknown": unknown,
        "experimental": {"com.example/conformance": {}},
        "extensions": {"com.example/conformance": unknown},
    }
    async with server.open(capabilities=declared, handshake=False) as peer:
        if server.revision.era is Era.LEGACY:
            await _introduce(peer)
        else:
            (await peer.request("server/discover", {"_meta": {CLIENT_INFO_KEY: _UNVERSIONED}})).result()
        (await peer.fence()).result()
        for feature, method, params in _feature_requests(server.revision):
            if server.inventory.has(feature) and feature != "completions":
                (await peer.request(method, params)).result()


async def _introduce(peer: SuiteConnection) -> None:
    """Perform the handshake of a legacy revision with members that the server does not know in each message."""
    meta: JsonObject = {"com.example/handshake": {"deep": [1, None]}}
    params: JsonObject = {
        "protocolVersion": peer.revision.name,
        "capabilities": peer.capabilities,
        "clientInfo": {**_UNVERSIONED, "conformanceUnknown": 1},
        "conformanceUnknown": 1,
        "_meta": meta,
    }
    # Many clients count their requests from zero, which a lax test takes for no id.
    peer.handshake = await peer.request("initialize", params, id=0)
    peer.handshake.result()
    await peer.notify("notifications/initialized", {"_meta": meta})


@check(
    "capability.undeclared-not-asked",
    proves=(
        "capability.only-negotiated",
        "capability.only-negotiated-should",
        "capability.client-not-relied-undeclared",
    ),
)
async def undeclared_not_requested(server: ServerUnderTest) -> None:
    """The server sends no sampling, roots or elicitation request to a client that does not declare it."""
    calls = [
        server.tool("test_sampling", {"prompt": "Say yes."}),
        server.tool("test_elicitation", {"message": "Who are you?"}),
    ]
    if server.inventory.find("tools", server.manifest.find("tools", _ROOTS).name) is not None:
        calls.append(server.tool(_ROOTS))
    if server.revision.era is Era.MODERN:
        # On one connection: a server might use what an earlier request declared.
        for declared in (ALL_CAPABILITIES, *_OTHER_CAPABILITIES):
            await _require_declared(server.peer, declared, calls, {"_meta": {CLIENT_CAPABILITIES: declared}})
        return
    async with AsyncExitStack() as stack:
        # All clients at once: a server might use the capabilities of the last one for all.
        clients = [
            (declared, await stack.enter_async_context(server.share(capabilities=declared)))
            for declared in _OTHER_CAPABILITIES
        ]
        if server.transport is not Transport.STDIO:
            await stack.enter_async_context(server.open())
        for declared, peer in clients:
            await _require_declared(peer, declared, calls, {})


async def _require_declared(
    peer: SuiteConnection, declared: JsonObject, calls: list[tuple[str, JsonObject]], more: JsonObject
) -> None:
    """Call tools, with more params, and require that they request only what the client declares.

    Raises:
        Deviation: A tool requests something else.
    """
    since = len(peer.inbox)
    for name, arguments in calls:
        answer = await peer.request("tools/call", {"name": name, "arguments": arguments, **more})
        input_requests = member(answer.message, "result", "inputRequests")
        requested = input_requests.values() if isinstance(input_requests, dict) else ()
        for request in (*peer.inbox[since:], *requested):
            needed = _CLIENT_REQUESTS.get(str(member(request, "method")))
            if needed is not None and needed not in declared:
                raise Deviation("no request for an undeclared capability of the client", brief(request))


_ROOTS: Final = "test_input_required_result_list_roots"
_OTHER_CAPABILITIES: Final[tuple[JsonObject, ...]] = ({}, {"roots": {}}, {"sampling": {}})
"""The capabilities of clients that lack one that a fixture needs."""


@check(
    "capability.list-changed-declared",
    proves=("capability.only-negotiated", "capability.only-negotiated-should"),
    subject=CheckScope.EVIDENCE,
)
async def list_changed_declared(server: ServerUnderTest) -> None:
    """Only a server that declares listChanged for a list sends its list_changed notification."""
    for message in RecordedMessages(server.evidence).spoken:
        needed = _CHANGES.get(str(message.get("method")))
        if needed is not None and not server.inventory.has(needed):
            raise Deviation(f"no such notification from a server that does not declare {needed}", brief(message))


async def _without_sampling(server: ServerUnderTest, peer: SuiteConnection) -> JsonRpcResponse:
    name, arguments = server.tool("test_missing_capability")
    call: JsonObject = {"name": name, "arguments": arguments}
    control = await peer.request("tools/call", call)
    if control.is_error:
        raise Deviation("no error for a client that has the capability", str(control))
    return await peer.request("tools/call", {**call, "_meta": {CLIENT_CAPABILITIES: {}}})


@check(
    "capability.missing-required",
    proves=("capability.missing-required-error", "capability.missing-required-data"),
)
async def missing_required(server: ServerUnderTest) -> None:
    """A request that needs an undeclared client capability is rejected with -32021 and requiredCapabilities."""
    answer = await _without_sampling(server, server.peer)
    error = answer.error(-32021, what="a capability that the client does not declare")
    if not isinstance(member(error, "data", "requiredCapabilities", "sampling"), dict):
        raise Deviation("data.requiredCapabilities with an object for sampling", str(answer))


look(
    "capability.experimental",
    "experimental maps names to objects.",
    "capability.experimental-object",
    "schema.server-capabilities",
    at=lambda recorded: recorded.having(recorded.capabilities(), "experimental"),
    by=lambda value, _: (
        None
        if isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())
        else "it is not a map of objects"
    ),
    what="experimental",
)


def _extensions(value: JsonValue, _: Revision) -> str | None:
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        return "it is not a map of objects"
    return None


look(
    "capability.extensions",
    "extensions maps identifiers to settings objects.",
    "capability.extension-negotiation-field",
    VALID,
    at=lambda recorded: recorded.having(recorded.capabilities(), "extensions"),
    by=_extensions,
    what="extensions",
)
look(
    "capability.extension-id",
    "An extension identifier consists of a prefix of labels, a slash and a name.",
    "capability.extension-id-format",
    at=lambda recorded: (
        name
        for each in recorded.having(recorded.capabilities(), "extensions")
        if isinstance(each, dict)
        for name in each
    ),
    by=lambda value, _: None if _EXTENSION.fullmatch(str(value)) else "it is not an extension identifier",
    what="extension",
)

# --- features of later revisions
# ----------------------------------------------------------------------------------------

# Requests and notifications that a revision lacks are covered by schema.server-requests and
# schema.server-notifications.
# Unknown members are allowed: the schemas are open, and a client ignores what it does not know.


@check(
    "version.respect-negotiated",
    proves=("version.respect-negotiated", "version.respect-negotiated-should"),
    subject=CheckScope.EVIDENCE,
)
async def respect_negotiated(server: ServerUnderTest) -> None:
    """The server returns only kinds of results of the negotiated version: no InputRequiredResult or task otherwise."""
    for each in RecordedMessages(server.evidence).exchanges:
        result = each.result if isinstance(each.result, dict) else {}
        if "inputRequests" in result or result.get("resultType") in ("input_required", "task"):
            raise Deviation("no kind of result that only 2026-07-28 has", brief(result))
        if each.method == "tools/call" and isinstance(result.get("task"), dict) and not server.revision.core_tasks:
            raise Deviation("no task, which only 2025-11-25 has", brief(result))
