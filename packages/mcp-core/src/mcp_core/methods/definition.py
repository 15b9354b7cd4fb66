"""What a row of the tables of requests and notifications is made of."""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar, cast

import attrs

from mcp_core import types as t
from mcp_core.revisions import Revision, between

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["Alias", "CapabilityPath", "Method", "NotificationRow", "Role"]

P = TypeVar("P", covariant=True)
R = TypeVar("R", covariant=True)

CapabilityPath: TypeAlias = tuple[str, ...]
"""Where a capability stands in the declared ones, by wire names: `("resources", "subscribe")`."""


class Role(enum.Enum):
    """Who sends."""

    CLIENT = "client"
    """The client."""
    SERVER = "server"
    """The server."""
    BOTH = "both"
    """Either of them."""

    def __contains__(self, other: Role) -> bool:
        return self is Role.BOTH or self is other


_ALL: Final = between()


@attrs.frozen(kw_only=True, eq=False)
class Method(Generic[P, R]):
    """A request. Two rows are equal when they are the same."""

    name: str
    """The method, as it stands on the wire."""
    sender: Role
    """Who may send it."""
    params: type[P]
    """The class of its params; for `elicitation/create` a union of two."""
    result: type[R]
    """The class of its result, when it is complete."""
    revisions: frozenset[Revision] = _ALL
    """The revisions in which it is a JSON-RPC request."""
    server_capability: CapabilityPath | None = None
    """What the server has to have declared for it."""
    client_capability: CapabilityPath | None = None
    """What the client has to have declared for it."""
    capability_revisions: frozenset[Revision] = _ALL
    """The revisions in which there is such a capability; in the others nothing has to be declared."""
    input_request: frozenset[Revision] = frozenset()
    """The revisions in which it travels in an `InputRequiredResult`."""
    may_need_input: frozenset[Revision] = frozenset()
    """The revisions in which it may be answered by an `InputRequiredResult`."""
    cacheable: frozenset[Revision] = frozenset()
    """The revisions in which its result has cache hints."""
    task_results: Mapping[Revision, type[t.WireObject]] = MappingProxyType({})
    """The revisions in which it may run as a task, and the class of the result that then comes first."""
    task_capability: CapabilityPath | None = None
    """What its receiver has to have declared to be asked for a task, in 2025-11-25."""
    name_param: str | None = None
    """The wire name of the member of its params that HTTP repeats in `Mcp-Name`."""
    extension: str | None = None
    """The extension that it belongs to."""

    def __repr__(self) -> str:
        return f"<Method {self.name}>"

    def results(self, revision: Revision) -> Mapping[str, type[t.WireObject]]:
        """The class of the result for each `resultType` that `revision` has; `complete` stands for its absence too."""
        # `result` is a wire class for each row; P and R have no bound because of unions.
        found: dict[str, type[t.WireObject]] = {"complete": cast("type[t.WireObject]", self.result)}
        if revision in self.may_need_input:
            found["input_required"] = t.InputRequiredResult
        if revision.result_type and revision in self.task_results:
            found["task"] = self.task_results[revision]
        return found


@attrs.frozen(kw_only=True, eq=False)
class NotificationRow(Generic[P]):
    """A notification. Two rows are equal when they are the same."""

    name: str
    """The method, as it stands on the wire."""
    sender: Role
    """Who may send it."""
    params: type[P]
    """The class of its params."""
    revisions: frozenset[Revision] = _ALL
    """The revisions that have it."""
    server_capability: CapabilityPath | None = None
    """What the server has to have declared for it."""
    client_capability: CapabilityPath | None = None
    """What the client has to have declared for it."""
    server_only: frozenset[Revision] = frozenset()
    """The revisions in which only the server sends it."""
    request_scoped: bool = False
    """It is about one request, and travels on that request's stream before its answer."""
    filter_member: str | None = None
    """The attribute of `SubscriptionFilter` that asks for it since 2026-07-28; then it travels on that stream only."""
    extension: str | None = None
    """The extension that it belongs to."""

    def __repr__(self) -> str:
        return f"<Notification {self.name}>"

    def sender_in(self, revision: Revision) -> Role:
        """Who may send it in `revision`."""
        return Role.SERVER if revision in self.server_only else self.sender


def _unchanged(params: JsonObject) -> JsonObject:
    return params


@attrs.frozen(kw_only=True)
class Alias:
    """A name from before the specification for a notification."""

    row: NotificationRow[object]
    """The notification that has another name today."""
    params: Callable[[JsonObject], JsonObject] = _unchanged
    """Gives the params in the form of the specification, from those in the form of the first draft."""
