"""Invalid messages of the raw client that affect nothing else, sent last, in the scenario without deviations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.client.http import ModernHttp, events
from mutants.client.messages import in_scenario, wrong
from mutants.client.stdio import Pipes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.client.messages import Wire

__all__ = ["send_stray_messages"]

_LISTEN: Final = "subscriptions/listen"
_TOOLS: Final[JsonObject] = {"notifications": {"toolsListChanged": True}}
_TOOL: Final[JsonObject] = {"type": "ref/tool", "name": "add_numbers"}

_REQUESTS: Final[Mapping[str, tuple[str, JsonObject]]] = {
    "odd-level": ("logging/setLevel", {"level": "verbose"}),
    "own-methods": ("com.example/hello", {}),
    "reads-urls": ("resources/read", {"url": "test://static-text"}),
    "reads-paths": ("resources/read", {"uri": "no scheme"}),
    "subscribes-by-url": ("resources/subscribe", {"url": "test://static-text"}),
    "unsubscribes-by-list": ("resources/unsubscribe", {"uris": ["test://static-text"]}),
    "completes-tools": ("completion/complete", {"ref": _TOOL, "argument": {"name": "a", "value": ""}}),
}
"""By fault, the request."""


def send_stray_messages(wire: Wire) -> None:
    """Send the message of the fault, if the fault is one of these."""
    if not in_scenario("tools_call"):
        return
    for fault, (method, params) in _REQUESTS.items():
        if wrong(fault):
            wire.call(method, params)
    if isinstance(wire, Pipes):
        _over_pipes(wire)
    if isinstance(wire, ModernHttp) and wrong("ends-listening-by-word"):
        response = wire.post(wire.messages.request(_LISTEN, _TOOLS))
        next(events(response))
        wire.cancel_last()
        response.close()


def _over_pipes(wire: Pipes) -> None:
    if wrong("cancels-what-was-answered"):
        message = wire.messages.cancellation_of_last()
        # After a single request, it could still be a cancellation that crossed the response.
        wire.call("tools/list", {})
        wire.call("tools/list", {})
        wire.send(message)
    if wrong("reserved-error"):
        wire.send({"jsonrpc": "2.0", "id": 4712, "error": {"code": -32050, "message": "unknown request"}})
    if wrong("listens-to-paths"):
        paths: JsonObject = {"notifications": {"resourceSubscriptions": ["no scheme"]}}
        wire.send(wire.messages.request(_LISTEN, paths))
        wire.receive()
        wire.cancel_last()
    if wrong("listens-to-the-end"):
        wire.send(wire.messages.request(_LISTEN, _TOOLS))
        wire.receive()
