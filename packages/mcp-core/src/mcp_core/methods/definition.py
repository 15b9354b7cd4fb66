"""Classes of the definitions of requests and notifications."""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

import attrs

from mcp_core import types as t
from mcp_core.revisions import Revision, between

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["Alias", "CapabilityPath", "NotificationMethod", "RequestMethod", "Side"]

P = TypeVar("P", covariant=True)
R = TypeVar("R", covariant=True)

CapabilityPath: TypeAlias = tuple[str, ...]
"""The path of a capability in the declared capabilities, by wire names: `("resources", "subscribe")`."""


class Side(enum.Enum):
    """The side that sends a message."""

    CLIENT = "client"
    """The client."""
    SERVER = "server"
    """The server."""
    BOTH = "both"
    """Client and server."""

    def __contains__(self, other: Side) -> bool:
        return self is Side.BOTH or self is other


_ALL: Final = between()


@attrs.frozen(kw_only=True, eq=False)
class RequestMethod(Generic[P, R]):
    """The definition of a request. Definitions are compared by identity."""

    name: str
    """The method name on the wire."""
    sender: Side
    """The side that may send the request."""
    params: type[P]
    """The class of the params; for `elicitation/create` a union of two classes."""
    result: type[R]
    """The class of the result, if `resultType` is `complete`."""
    revisions: frozenset[Revision] = _ALL
    """The revisions in which it is a JSON-RPC request."""
    server_capability: CapabilityPath | None = None
    """The capability that the server must declare, or `None`."""
    client_capability: CapabilityPath | None = None
    """The capability that the client must declare, or `None`."""
    capability_revisions: frozenset[Revision] = _ALL
    """The revisions that have the server capability; in the others no declaration is required."""
    input_request: frozenset[Revision] = frozenset()
    """The revisions in which it is an input request of an `InputRequiredResult`."""
    may_need_input: frozenset[Revision] = frozenset()
    """The revisions in which an `InputRequiredResult` is an allowed result."""
    cacheable: frozenset[Revision] = frozenset()
    """The revisions in which the result has cache hints."""
    task_results: Mapping[Revision, type[t.WireObject]] = MappingProxyType({})
    """The revisions in which the request may run as a task, and the class of its first result then."""
    task_capability: CapabilityPath | None = None
    """The capability that the receiver must declare for task-augmented requests, in 2025-11-25."""
    name_param: str | None = None
    """The wire name of the param that HTTP repeats in the header `Mcp-Name`."""
    extension: str | None = None
    """The extension that defines the request, or `None`."""

    def __repr__(self) -> str:
        return f"<Method {self.name}>"

    def results(self, revision: Revision) -> Mapping[str, type[t.WireObject]]:
        """Return the class of the result for each `resultType` in `revision`; an absent one counts as `complete`."""
        # `result` is a wire class in each definition; P and R have no bound because of unions.
        found: dict[str, type[t.WireObject]] = {"complete": self.result}  # type: ignore[dict-item]
        if revision in self.may_need_input:
            found["input_required"] = t.InputRequiredResult
        if revision.result_type and revision in self.task_results:
            found["task"] = self.task_results[revision]
        return found


@attrs.frozen(kw_only=True, eq=False)
class NotificationMethod(Generic[P]):
    """The definition of a notification. Definitions are compared by identity."""

    name: str
    """The method name on the wire."""
    sender: Side
    """The side that may send the notification."""
    params: type[P]
    """The class of the params."""
    revisions: frozenset[Revision] = _ALL
    """The revisions that have the notification."""
    server_capability: CapabilityPath | None = None
    """The capability that the server must declare, or `None`."""
    client_capability: CapabilityPath | None = None
    """The capability that the client must declare, or `None`."""
    server_only: frozenset[Revision] = frozenset()
    """The revisions in which only the server sends it."""
    request_scoped: bool = False
    """Whether it belongs to one request, and is sent on the stream of that request before the response."""
    filter_member: str | None = None
    """The attribute of `SubscriptionFilter` that subscribes to it, on the stream of the subscription (2026-07-28)."""
    extension: str | None = None
    """The extension that defines the notification, or `None`."""

    def __repr__(self) -> str:
        return f"<Notification {self.name}>"

    def sender_in(self, revision: Revision) -> Side:
        """Return the side that may send it in `revision`."""
        return Side.SERVER if revision in self.server_only else self.sender


def _unchanged(params: JsonObject) -> JsonObject:
    return params


@attrs.frozen(kw_only=True)
class Alias:
    """A name of a notification from before the specification."""

    definition: NotificationMethod[object]
    """The notification that has another name now."""
    params: Callable[[JsonObject], JsonObject] = _unchanged
    """A function from the params of the first draft to those of the specification."""
