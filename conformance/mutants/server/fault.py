"""Requests of a raw server, the places where a fault can take hold, and the table of faults.

A fault overrides one place. Its row says which checks are meant to see it; every other check has to stay as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from mutants.server.protocol import LEGACY, LEVELS, META
from mutants.server.streams import HttpFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.protocol import RpcError
    from mutants.server.session import Session

__all__ = ["FAULTS", "Fault", "Row", "Turn", "fault"]


class _Server(Protocol):
    """The server, as far as requests know it."""

    @property
    def fault(self) -> Fault:
        """What is wrong with it."""
        ...

    def changed(self, turn: Turn, kind: str) -> None:
        """A list has changed."""
        ...

    def touched(self, turn: Turn, uri: str) -> None:
        """A resource has changed."""
        ...


class Turn:
    """One request that is being answered."""

    def __init__(
        self, server: _Server, session: Session, request: JsonObject, send: Callable[[JsonValue], None]
    ) -> None:
        self.server: Final = server
        self.session: Final = session
        self.request: Final = request
        self.send: Final = send
        """Sends what belongs to the request, before its answer."""
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
        """Whether the revision has it."""
        return self.revision not in LEGACY[:2]

    def notify(self, method: str, params: JsonObject) -> None:
        """Sends a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def log(self, level: str, text: str) -> None:
        """Sends a log message, if it is wanted."""
        wanted = self.meta.get(f"{META}logLevel") if self.modern else self.session.level
        wanted = self.server.fault.level(wanted if isinstance(wanted, str) else None)
        if wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted):
            self.notify("notifications/message", {"level": level, "data": text})

    def progress(self, done: int, total: int) -> None:
        """Tells the progress, if it is wanted."""
        token = self.meta.get("progressToken")
        with self.session.cancelling:
            # Once a cancellation was read nothing more is said.
            if token is not None and not self.cancelled:
                self.notify("notifications/progress", {"progressToken": token, "progress": done, "total": total})

    def declares(self, *path: str) -> bool:
        """Whether the client declares a capability, as `sampling`, `tools`."""
        here: JsonValue = self.meta.get(f"{META}clientCapabilities") if self.modern else self.session.capabilities
        for name in path:
            if not isinstance(here, dict) or name not in here:
                return False
            here = here[name]
        return True

    @property
    def cancelled(self) -> bool:
        """Whether the client wants it no more."""
        id = self.request["id"]
        return id in self.session.cancelled and self.server.fault.cancels(id)


class Fault(HttpFault):
    """Nothing is wrong: every place leaves what it is given as it is."""

    def agreed(self, asked: str, agreed: str) -> str:  # noqa: ARG002
        """The version that `initialize` agrees on."""
        return agreed

    def capabilities(self, declared: JsonObject) -> JsonObject:
        """What the server declares."""
        return declared

    def result(self, turn: Turn, result: JsonObject) -> JsonObject:  # noqa: ARG002
        """A result, before the modern members are added."""
        return result

    def modern(self, turn: Turn, result: JsonObject) -> JsonObject:  # noqa: ARG002
        """A result of the modern revision."""
        return result

    def error(self, error: JsonObject) -> JsonObject:
        """An error object."""
        return error

    def refused(self, turn: Turn, error: RpcError) -> JsonObject:  # noqa: ARG002
        """What comes of a request that is refused: an error, unless there is a result in its place."""
        raise error

    def response(self, turn: Turn, response: JsonObject) -> JsonValue:  # noqa: ARG002
        """A whole response."""
        return response

    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:  # noqa: ARG002
        """What is said to a notification: nothing."""
        return answer

    def before(self, message: JsonValue) -> JsonValue:
        """What is sent before a response: notifications and requests."""
        return message

    def batch(self, batch: list[JsonValue], answer: JsonValue, status: int) -> tuple[JsonValue, int]:  # noqa: ARG002
        """What is said to an array of messages, and the HTTP status."""
        return answer, status

    # --- of what is asked --------------------------------------------------------------------------------------------

    def may_ask(self, method: str, *, declared: bool) -> bool:  # noqa: ARG002
        """Whether the client is asked, given what it declares."""
        return declared

    def asked(self, turn: Turn, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        """The params of a question."""
        return params

    def question_id(self, id: str) -> JsonValue:
        """The id of a question that is a request."""
        return id

    def task_id(self, id: str, number: int) -> str:  # noqa: ARG002
        """The id of a task, given how many there are already."""
        return id

    def private(self, turn: Turn, *, theirs: bool) -> bool:  # noqa: ARG002
        """Whether somebody gets what is private, given whether it is theirs."""
        return theirs

    def task_token(self, token: JsonValue) -> JsonValue:
        """By which token the progress of a task is told."""
        return token

    def owns(self, turn: Turn, *, mine: bool) -> bool:  # noqa: ARG002
        """Whether a task is seen, given whether it is one's own."""
        return mine

    def fits(self, method: str, *, fits: bool) -> bool:  # noqa: ARG002
        """Whether an answer of the client is taken."""
        return fits

    def tampered(self, error: RpcError) -> JsonObject:
        """What is known from a state that was changed: nothing."""
        raise error

    def bound(self, *, same: bool) -> bool:
        """Whether a state is taken with a request, given whether it belongs to it."""
        return same

    def samples_with_tools(self, *, declared: bool) -> bool:
        """Whether the model is offered tools, given what the client declares."""
        return declared

    def rounds(self, most: int) -> int:
        """How often a model may call tools."""
        return most

    # --- of what is told besides -------------------------------------------------------------------------------------

    def acknowledged(self, wanted: JsonObject, told: JsonObject) -> JsonObject:  # noqa: ARG002
        """The filter that is acknowledged, given the one that is wanted."""
        return told

    def opening(self, acknowledgement: JsonObject) -> list[JsonObject]:
        """What a subscription begins with."""
        return [acknowledgement]

    def ending(self, messages: list[JsonObject]) -> list[JsonObject]:
        """What a subscription ends with when the server goes."""
        return messages

    def forgets(self, id: JsonValue) -> bool:  # noqa: ARG002
        """Whether a subscription is over when it is cancelled."""
        return True

    def wanted(self, method: str, *, wanted: bool) -> bool:  # noqa: ARG002
        """Whether somebody is told of a change, given whether they want to be."""
        return wanted

    def told(self, message: JsonObject) -> JsonObject | None:
        """What is told of a change; `None`: nothing."""
        return message

    def cancels(self, id: JsonValue) -> bool:  # noqa: ARG002
        """Whether a request stops when it is cancelled."""
        return True

    def level(self, wanted: str | None) -> str | None:
        """The level of the log messages that are sent."""
        return wanted

    def validated(self, *, good: bool) -> bool:
        """Whether arguments are taken, given whether they are good."""
        return good

    # --- of the transports -------------------------------------------------------------------------------------------

    def line(self, line: bytes) -> bytes:
        """What is written over pipes, with its line feed."""
        return line

    def lines(self, pipe: BinaryIO) -> Iterable[bytes]:
        """The lines that are read from a pipe."""
        return pipe

    def unreadable(self, answer: JsonValue) -> JsonValue:
        """What is said to what is no JSON."""
        return answer


class Row:
    """One fault.

    Args:
        make: Makes it.
        area: What it is about.
        caught_by: The checks that are meant to see it.
        revisions: Where it shows; `None`: everywhere.
        transports: Over what it shows.
        words: What else the server is started with.
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
    """Enters a fault in the table. The area is the first part of the name of the first check."""

    def enter(kind: F) -> F:
        if name in FAULTS:
            raise ValueError(f"there are two faults {name!r}")
        FAULTS[name] = Row(
            kind,
            area=caught_by[0].partition(".")[0],
            caught_by=caught_by,
            revisions=revisions,
            transports=transports,
            words=words,
        )
        return kind

    return enter
