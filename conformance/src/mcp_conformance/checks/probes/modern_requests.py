"""Valid requests of all the methods that a server has, and their variants that it must reject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.probes.subscription_stream import LISTEN, open_subscription
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import Era
from mcp_core.types.meta import PROTOCOL_VERSION
from mcp_core.types.skills import SKILLS_EXTENSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "answered_requests",
    "discover_in",
    "of_version",
    "rejections",
    "require_unsupported",
    "valid_requests",
]

_LISTS: Final = (
    ("tools", "tools/list"),
    ("resources", "resources/list"),
    ("resources", "resources/templates/list"),
    ("prompts", "prompts/list"),
)
_CHANGES: Final[Mapping[str, str]] = {
    "toolsListChanged": "tools.listChanged",
    "promptsListChanged": "prompts.listChanged",
    "resourcesListChanged": "resources.listChanged",
}
"""Members of the filter of a subscription, and the capability of each."""


async def rejections(
    server: ServerUnderTest, change: Callable[[JsonObject], JsonObject], deviant: str
) -> list[JsonRpcResponse]:
    """Send a changed request of each method that succeeds unchanged, and return the responses.

    Args:
        server: The server.
        change: Returns the request that the server must reject.
        deviant: The rule that the changed request breaks.

    Raises:
        NotTestable: No unchanged request succeeds.
        Deviation: The server opens a subscription for a changed `subscriptions/listen`.
    """
    peer = server.peer
    found = [
        await peer.exchange(change(peer.message(method, params)), deviant=deviant)
        for method, params in answered_requests(server)
        if await _succeeds(peer, method, params)
    ]
    if not found:
        raise NotTestable("the control requests failed: no request of any method succeeds")
    if wanted := _filter(server):
        answer = await _listen(server, wanted, change, deviant)
        # Another check covers a server that does not serve the method at all.
        if answer.error().get("code") != -32601:
            found.append(answer)
    return found


async def _succeeds(peer: SuiteConnection, method: str, params: JsonObject) -> bool:
    """Return whether a request has a result. Other checks cover a method that has none."""
    try:
        return not (await peer.request(method, params)).is_error
    except Deviation:
        return False


async def _listen(
    server: ServerUnderTest, wanted: JsonObject, change: Callable[[JsonObject], JsonObject], deviant: str
) -> JsonRpcResponse:
    async with open_subscription(server.peer, wanted, change=change, deviant=deviant) as subscription:
        # A server that accepts the request sends no response, but an acknowledgment.
        await subscription.until(lambda: subscription.own() or subscription.answer, f"an error for {LISTEN}")
        if subscription.answer is None:
            raise Deviation(f"an error for {LISTEN} with {deviant}", brief([*subscription.own()]))
        return subscription.answer


def valid_requests(server: ServerUnderTest) -> Iterator[tuple[str, JsonObject]]:
    """Yield the method and the params of requests that any client may send at any time. A subscription has no response."""
    yield from answered_requests(server)
    if server.revision.era is Era.MODERN and (wanted := _filter(server)):
        yield LISTEN, {"notifications": wanted}


def _filter(server: ServerUnderTest) -> JsonObject:
    """Return the filter of a subscription to all lists; empty if the server notifies of none."""
    return {name: True for name, capability in _CHANGES.items() if server.inventory.has(capability)}


def answered_requests(server: ServerUnderTest) -> Iterator[tuple[str, JsonObject]]:
    """Yield the method and the params of requests that any client may send at any time, and that get a response at once."""
    has, lists = server.inventory.has, server.inventory.lists
    yield "ping" if server.revision.era is Era.LEGACY else "server/discover", {}
    for capability, method in _LISTS:
        if has(capability):
            yield method, {}
    simple = server.manifest.find("tools", "test_simple_text")
    if server.inventory.find("tools", simple.name) is not None:
        yield "tools/call", {"name": simple.name, "arguments": simple.arguments or {}}
    for resource in lists.get("resources", ())[:1]:
        yield "resources/read", {"uri": str(resource.get("uri"))}
    prompts = lists.get("prompts", ())
    for prompt in [each for each in prompts if not each.get("arguments")][:1]:
        yield "prompts/get", {"name": str(prompt.get("name"))}
    for prompt in [each for each in prompts if each.get("arguments")][:1] if has("completions") else ():
        ref: JsonObject = {"type": "ref/prompt", "name": str(prompt.get("name"))}
        yield "completion/complete", {"ref": ref, "argument": {"name": _first_argument(prompt), "value": ""}}
    extensions = server.inventory.capabilities.get("extensions")
    if isinstance(extensions, dict) and SKILLS_EXTENSION in extensions:
        yield "skills/list", {}


def _first_argument(prompt: JsonObject) -> str:
    named = prompt.get("arguments")
    first = named[0] if isinstance(named, list) and named else None
    return str(first.get("name")) if isinstance(first, dict) else ""


def of_version(message: JsonObject, *, version: str) -> JsonObject:
    """Return a modern request of another version."""
    params = message["params"]
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(meta, dict):
        raise AssertionError("every modern request has _meta")  # noqa: TRY004  an error of the suite
    return {**message, "params": {**params, "_meta": {**meta, PROTOCOL_VERSION: version}}}


async def discover_in(peer: SuiteConnection, version: str) -> JsonRpcResponse:
    """Send `server/discover` of an unsupported version, and return the response."""
    message = of_version(peer.message("server/discover"), version=version)
    return await peer.exchange(message, deviant="an unsupported version")


def require_unsupported(answer: JsonRpcResponse, version: str) -> list[JsonValue]:
    """Require the error for an unsupported version, with its data, and return the supported versions.

    Raises:
        Deviation: The response is another one.
    """
    data = answer.error(-32022, what=f"{answer.method} in version {version}").get("data")
    supported = member(data, "supported")
    if not isinstance(supported, list) or not all(isinstance(each, str) for each in supported):
        raise Deviation("data.supported to be a list of versions", str(answer))
    if member(data, "requested") != version:
        raise Deviation(f"data.requested {version}", str(answer))
    return supported
