"""The requests of a raw server, the places where a fault applies, and the table of faults.

A fault overrides one place. Its row names the checks that must detect it; no other check may change its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from mutants.server.protocol import LEGACY, LEVELS, META
from mutants.server.streams import HttpFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.protocol import RpcError
    from mutants.server.session import Answers, Session
    from mutants.server.state import ServerState
    from mutants.server.subscriptions import SubscriptionRegistry

__all__ = ["FAULTS", "Checks", "Fault", "InboundRequest", "Row", "fault", "ids_of"]


class _Server(Protocol):
    """The part of the server that requests use."""

    @property
    def fault(self) -> Fault:
        """The fault of the server."""
        ...

    @property
    def listeners(self) -> SubscriptionRegistry:
        """The subscriptions."""
        ...

    @property
    def state(self) -> ServerState:
        """What the server keeps."""
        ...

    def changed(self, inbound: InboundRequest, kind: str) -> None:
        """Notify about a changed list."""
        ...

    def touched(self, inbound: InboundRequest, uri: str) -> None:
        """Notify about a changed resource."""
        ...


class InboundRequest:
    """A request in progress."""

    def __init__(
        self, server: _Server, session: Session, request: JsonObject, send: Callable[[JsonValue], None]
    ) -> None:
        self.server: Final = server
        self.session: Final = session
        self.request: Final = request
        self.send: Final = send
        """Sends messages of the request before its response."""
        params = request.get("params")
        self.params: Final[JsonObject] = params if isinstance(params, dict) else {}
        meta = self.params.get("_meta")
        self.meta: Final[JsonObject] = meta if isinstance(meta, dict) else {}
        fresh = session.revision is None and request.get("method") != "initialize"
        self.modern: Final = f"{META}protocolVersion" in self.meta or fresh
        version = self.meta.get(f"{META}protocolVersion")
        self.revision: Final = str(version) if self.modern else str(session.revision)

    @property
    def knows_structured_content(self) -> bool:
        """Whether the revision has structured content."""
        return self.revision not in LEGACY[:2]

    def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def log(self, level: str, text: str) -> None:
        """Send a log message, if its level is enabled."""
        wanted = self.meta.get(f"{META}logLevel") if self.modern else self.session.level
        wanted = self.server.fault.level(wanted if isinstance(wanted, str) else None)
        if wanted is not None and self.server.fault.enables(
            level, wanted, enabled=LEVELS.index(level) >= LEVELS.index(wanted)
        ):
            self.notify("notifications/message", {"level": level, "data": text})

    def progress(self, done: int, total: int) -> None:
        """Report progress, if the request has a progress token."""
        token = self.meta.get("progressToken")
        with self.session.cancelling:
            # After a cancellation, no message of the request is sent.
            if token is not None and not self.cancelled:
                self.notify("notifications/progress", {"progressToken": token, "progress": done, "total": total})

    def declares(self, *path: str) -> bool:
        """Return whether the client declares a capability, e.g. `sampling`, `tools`."""
        here: JsonValue = self.meta.get(f"{META}clientCapabilities") if self.modern else self.session.capabilities
        for name in path:
            if not isinstance(here, dict) or name not in here:
                return False
            here = here[name]
        return True

    @property
    def cancelled(self) -> bool:
        """Whether the client has cancelled the request."""
        id = self.request["id"]
        return id in self.session.cancelled and self.server.fault.cancels(id)


class Fault(HttpFault):
    """The default fault: every place returns its argument unchanged."""

    def reads(self, message: JsonValue) -> JsonValue:
        """Return a received message, as the server reads it."""
        return message

    def agreed(self, requested: str, agreed: str) -> str:  # noqa: ARG002
        """Return the version that `initialize` negotiates."""
        return agreed

    def capabilities(self, declared: JsonObject) -> JsonObject:
        """Return the server capabilities."""
        return declared

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return a result, before the members of the modern revision are added."""
        return result

    def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return a result of the modern revision."""
        return result

    def error(self, error: JsonObject) -> JsonObject:
        """Return an error object."""
        return error

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:  # noqa: ARG002
        """Return the error of a rejected request, or a result instead."""
        raise error

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:  # noqa: ARG002
        """Return a complete response."""
        return response

    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:  # noqa: ARG002
        """Return the answer to a notification: none."""
        return answer

    def before(self, message: JsonValue) -> JsonValue:
        """Return a message that is sent before a response: a notification or request."""
        return message

    def following(self, request: JsonObject) -> list[JsonValue]:  # noqa: ARG002
        """Return the messages after the response to a request."""
        return []

    def invalid_id(self, id: JsonValue) -> JsonValue:  # noqa: ARG002
        """Return the id of the error for a request whose own id `id`, or method, is invalid: none."""
        return None

    def invalid_status(self, message: JsonValue) -> int:  # noqa: ARG002
        """Return the HTTP status for a message that is not JSON-RPC 2.0."""
        return 400

    def elements(self, batch: list[JsonValue]) -> list[JsonValue]:
        """Return the elements of a batch that the server reads."""
        return batch

    def batch(self, batch: list[JsonValue], answer: JsonValue, status: int) -> tuple[JsonValue, int]:  # noqa: ARG002
        """Return the answer to a batch, and the HTTP status."""
        return answer, status

    # --- client requests ---------------------------------------------------------------------------------------------

    def answers(self, own: Answers) -> Answers:
        """Return the client requests without a response; `own`: those of the session."""
        return own

    def may_request_input(self, inbound: InboundRequest, method: str, *, declared: bool) -> bool:  # noqa: ARG002
        """Return whether to send a client request."""
        return declared

    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return the params of a client request."""
        return params

    def client_request_id(self, id: str) -> JsonValue:
        """Return the id of a client request."""
        return id

    def task_id(self, id: str, number: int) -> str:  # noqa: ARG002
        """Return the id of a task; `number` is the number of tasks so far."""
        return id

    def private(self, inbound: InboundRequest, *, theirs: bool) -> bool:  # noqa: ARG002
        """Return whether a user gets private features; `theirs`: whether they are the user's."""
        return theirs

    def task_params(self, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return the params of a request about a task of the client."""
        return params

    def polls(self) -> bool:
        """Return whether the server polls a task of the client."""
        return True

    def cancels_task(self, id: str) -> JsonObject | None:  # noqa: ARG002
        """Return the params of notifications/cancelled for the request `id` in place of tasks/cancel; `None`: none."""
        return None

    def task_token(self, token: JsonValue) -> JsonValue:
        """Return the progress token of a task."""
        return token

    def owns(self, inbound: InboundRequest, *, mine: bool) -> bool:  # noqa: ARG002
        """Return whether a task is found; `mine`: whether it is the user's."""
        return mine

    def finds_expired(self, inbound: InboundRequest) -> bool:  # noqa: ARG002
        """Return whether a task is found that has expired."""
        return False

    def fits(self, method: str, answer: JsonObject, *, fits: bool) -> bool:  # noqa: ARG002
        """Return whether a result of the client is accepted."""
        return fits

    def tampered(self, error: RpcError) -> JsonObject:
        """Return the content of a changed `requestState`: raise the error."""
        raise error

    def bound(self, *, same: bool) -> bool:
        """Return whether a state is accepted; `same`: whether it belongs to the request."""
        return same

    def redeemed(self, inbound: InboundRequest, *, used: bool) -> bool:  # noqa: ARG002
        """Return whether a state that may be used once is rejected; `used`: whether it was used."""
        return used

    def samples_with_tools(self, inbound: InboundRequest, *, declared: bool) -> bool:  # noqa: ARG002
        """Return whether sampling offers tools."""
        return declared

    def max_tool_calls(self, most: int) -> int:
        """Return the greatest number of sampling requests with tool calls."""
        return most

    # --- notifications -----------------------------------------------------------------------------------------------

    def acknowledged(self, wanted: JsonObject, granted: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return the filter to acknowledge."""
        return granted

    def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
        """Return the first messages of a subscription."""
        return [acknowledgement]

    def ending(self, messages: list[JsonObject]) -> list[JsonObject]:
        """Return the last messages of a subscription when the server stops."""
        return messages

    def filtered(self, user: str, id: JsonValue, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return the filter of a new subscription."""
        return wanted

    def after_end(self, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return the filter of a subscription after its cancellation: it gets nothing."""
        return {}

    def after_end_of_another(self, ended: JsonValue, id: JsonValue, wanted: JsonObject) -> JsonObject:  # noqa: ARG002
        """Return the filter of a subscription after the end of another one of its user."""
        return wanted

    def same_client(self, event: str, *, same: bool) -> bool:  # noqa: ARG002
        """Return whether another subscription with the same id ends by an event: `open`, `cancel` or `disconnect`.

        `same`: whether it belongs to the same client.
        """
        return same

    def watched_uris(self, uris: list[JsonValue]) -> list[JsonValue]:
        """Return the URIs of a subscription whose updates it gets."""
        return uris

    def watches(self, uris: list[JsonValue] | None, uri: str) -> bool:
        """Return whether a subscription to some resources gets the updates of one; `None`: it has no such filter."""
        return uri in (uris or [])

    def wanted(self, method: str, *, wanted: bool) -> bool:  # noqa: ARG002
        """Return whether a subscriber gets a notification."""
        return wanted

    def change_notification(self, message: JsonObject) -> JsonObject | None:
        """Return the notification of a change, or `None` to send none."""
        return message

    def announces(self, number: int) -> bool:  # noqa: ARG002
        """Return whether a subscription gets a change; `number`: how many of this type there were, with this one."""
        return True

    def cancels(self, id: JsonValue) -> bool:  # noqa: ARG002
        """Return whether a cancelled request stops."""
        return True

    def level(self, wanted: str | None) -> str | None:
        """Return the minimum level of log messages."""
        return wanted

    def enables(self, level: str, wanted: str, *, enabled: bool) -> bool:  # noqa: ARG002
        """Return whether a log message is sent; `enabled`: whether its level is at least the minimum."""
        return enabled

    def validated(self, *, good: bool) -> bool:
        """Return whether arguments are accepted."""
        return good

    def validates(self, count: JsonValue, *, good: bool) -> bool:  # noqa: ARG002
        """Return whether the count of a tool is accepted; `good`: whether it is an integer from 1 to 10."""
        return good

    def takes_any_type(self, tool: str) -> bool:  # noqa: ARG002
        """Return whether a tool accepts arguments of any type."""
        return False

    def validates_argument(self, name: str, given: JsonValue, *, good: bool) -> bool:  # noqa: ARG002
        """Return whether a member of the argument of a completion is accepted; `good`: whether it is a string."""
        return good

    def answered_calls(self, calls: list[JsonObject]) -> list[JsonObject]:
        """Return those of the model's tool calls in one message that get a result."""
        return calls

    # --- other parties -----------------------------------------------------------------------------------------------

    def may_visit(self, visitor: str, owner: str, *, named: bool) -> bool:  # noqa: ARG002
        """Return whether a visitor may use the page of a user; `named`: whether the URL names the visitor."""
        return visitor == owner

    def upstream_headers(self, kind: str, user: str, headers: dict[str, str]) -> dict[str, str]:  # noqa: ARG002
        """Return the headers of a request to another party: of the kind `account` or `upstream`."""
        return headers

    def account(self, name: str, token: str) -> str:  # noqa: ARG002
        """Return the text about an account at a third party."""
        return name

    def valid(self, schema: JsonValue, value: JsonValue, *, good: bool) -> bool:  # noqa: ARG002
        """Return whether a value is valid for a schema; `good`: whether it is."""
        return good

    def unusable_schema(self, problem: str, schema: str) -> bool:  # noqa: ARG002
        """Return whether a schema is rejected that the server cannot use; `problem` says why."""
        return True

    # --- transports --------------------------------------------------------------------------------------------------

    def line(self, line: bytes) -> bytes:
        """Return the bytes of a line for stdio, with its line feed."""
        return line

    def lines(self, pipe: BinaryIO) -> Iterable[bytes]:
        """Yield the lines of a pipe."""
        return pipe

    def unreadable(self, answer: JsonValue) -> JsonValue:
        """Return the answer to invalid JSON."""
        return answer


class Row:
    """A fault.

    Args:
        make: Makes the fault.
        area: The area of its checks.
        caught_by: The checks that must detect it.
        revisions: The revisions in which it is observable, or `None` for all.
        transports: The transports over which it is observable.
        words: More command line arguments of the server.
    """

    def __init__(
        self,
        make: Callable[[], Fault],
        *,
        area: str,
        caught_by: tuple[str, ...],
        revisions: tuple[str, ...] | None,
        transports: tuple[str, ...],
        words: tuple[str, ...] = (),
    ) -> None:
        self.make: Final = make
        self.area: Final = area
        self.caught_by: Final = caught_by
        self.revisions: Final = revisions
        self.transports: Final = transports
        self.words: Final = words


F = TypeVar("F", bound="Callable[[], Fault]")

FAULTS: Final[dict[str, Row]] = {}
"""All faults by name."""


def fault(
    name: str,
    *caught_by: str,
    revisions: tuple[str, ...] | None = None,
    transports: tuple[str, ...] = ("stdio", "http"),
    words: tuple[str, ...] = (),
) -> Callable[[F], F]:
    """Add a fault to the table; without checks it is a correct server in an unusual way, for which none may fail.

    The area is the first part of the first check's id.
    """

    def enter(kind: F) -> F:
        if name in FAULTS:
            raise ValueError(f"duplicate fault {name!r}")
        FAULTS[name] = Row(
            kind,
            area=caught_by[0].partition(".")[0] if caught_by else "",
            caught_by=caught_by,
            revisions=revisions,
            transports=transports,
            words=words,
        )
        return kind

    return enter


Checks: TypeAlias = "str | tuple[str, ...]"
"""The id of a check, or those of several."""


def ids_of(checks: Checks) -> tuple[str, ...]:
    """Return the ids as a tuple."""
    return (checks,) if isinstance(checks, str) else checks
