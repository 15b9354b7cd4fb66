"""One request of a client, as the fake server and its scenarios have it in their hands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio

from mcp_conformance.protocol.message_schema import flaw_of_params
from mcp_core.revisions import Era
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROGRESS_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["Asked", "Instead", "NoAnswer", "Outlet", "Refuse", "Session", "Turn", "encoded", "notification"]


def encoded(value: JsonValue) -> bytes:
    """JSON in UTF-8, in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class Outlet(Protocol):
    """Where messages for one request go, or those that belong to none."""

    async def send(self, data: bytes, *, final: bool = False, deviant: str = "", status: int = 200) -> None:
        """Send one message.

        Args:
            data: It.
            final: Whether it is the response: nothing comes behind it.
            deviant: Which rule is broken on purpose.
            status: The HTTP status, where it is a response and the first that is sent.
        """
        ...


class Refuse(Exception):
    """Ends a turn by an error response.

    Args:
        code: Its code.
        message: What is wrong, in a sentence.
        data: What else is told.
        status: The HTTP status that it has; `None`: 200, as any response.
    """

    def __init__(self, code: int, message: str, data: JsonValue = None, *, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status

    def error(self, id: JsonValue) -> JsonObject:
        """The response."""
        error: JsonObject = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": id, "error": error}


class Instead(Exception):
    """Ends a turn by bytes in place of the response, right or wrong.

    Args:
        data: What is sent.
        deviant: Which rule that breaks; empty when it breaks none.
    """

    def __init__(self, data: bytes, deviant: str = "") -> None:
        super().__init__(deviant)
        self.data = data
        self.deviant = deviant


class NoAnswer(Exception):
    """Ends a turn without a response. Why is the only argument."""


@attrs.define(kw_only=True, eq=False)
class Session:
    """What is remembered between the requests of one legacy connection; of a modern request, what it says itself."""

    revision: Revision
    """What is spoken."""
    number: int = 0
    """How many there were before it."""
    id: str | None = None
    """Its id over HTTP."""
    capabilities: JsonObject = attrs.field(factory=dict)
    """What the client declared."""
    opened: bool = False
    """Whether `initialize` was answered by a result."""
    ready: trio.Event = attrs.field(factory=trio.Event)
    """Set by `notifications/initialized`."""
    standing: Outlet | None = None
    """Where messages go that belong to no request."""
    stands: trio.Event = attrs.field(factory=trio.Event)
    """Set when there is such a place."""
    waiting: dict[str, tuple[trio.Event, list[JsonObject]]] = attrs.field(factory=dict)
    """What the client was asked and has not answered yet, by id."""
    running: dict[str, trio.CancelScope] = attrs.field(factory=dict)
    """The requests that are being worked on, by id."""

    def has(self, path: str) -> bool:
        """Whether the client declared a capability, as `elicitation` or `sampling.tools`."""
        here: JsonValue = self.capabilities
        for name in path.split("."):
            if not isinstance(here, dict) or name not in here or here[name] in (None, False):
                return False
            here = here[name]
        return True


@attrs.frozen(kw_only=True)
class Asked:
    """What the server asked the client."""

    method: str
    """What."""
    request: JsonObject
    """The whole request."""
    response: JsonObject | None
    """The whole response; `None` when there was none in time."""
    name: str = ""
    """Which of the questions of a scenario it is; empty: none that has a name."""


class Turn:
    """One request, being answered.

    Args:
        request: It.
        session: To what it belongs.
        outlet: Where its messages go.
        ids: Gives ids for requests of the server.
        asked: Where it is entered what the client was asked.
        patience: Seconds that an answer of the client may take.
    """

    def __init__(
        self,
        request: JsonObject,
        session: Session,
        outlet: Outlet,
        *,
        ids: Callable[[], int],
        asked: list[Asked],
        patience: float,
    ) -> None:
        self.request: Final = request
        self.session: Final = session
        self.outlet: Final = outlet
        self.method: Final = str(request.get("method"))
        """Its method."""
        self.revision: Final = session.revision
        """What is spoken."""
        params = request.get("params")
        self.params: Final[JsonObject] = params if isinstance(params, dict) else {}
        """Its params."""
        meta = self.params.get("_meta")
        self.meta: Final[JsonObject] = meta if isinstance(meta, dict) else {}
        """The `_meta` of its params."""
        self._ids: Final = ids
        self._asked: Final = asked
        self._patience: Final = patience

    @property
    def capabilities(self) -> JsonObject:
        """What the client declared for it."""
        declared = self.meta.get(CLIENT_CAPABILITIES)
        if self.revision.era is Era.MODERN:
            return declared if isinstance(declared, dict) else {}
        return self.session.capabilities

    @property
    def token(self) -> str | int | None:
        """By what it wants to be told how far it is; `None`: it does not, or names no token that there could be."""
        token = self.meta.get(PROGRESS_TOKEN)
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None

    def text(self, name: str) -> str:
        """A string of the params. Raises `Refuse` when there is none."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise Refuse(-32602, f"{name} has to be a string")
        return value

    async def notify(self, method: str, params: JsonObject | None = None, *, deviant: str = "") -> None:
        """Send a notification along with the answer."""
        await self.outlet.send(encoded(notification(method, params, self.revision, deviant)), deviant=deviant)

    async def progress(self, progress: float, total: float | None = None) -> None:
        """Tells how far it is, if the client wants to know."""
        if self.token is not None:
            params: JsonObject = {"progressToken": self.token, "progress": progress}
            await self.notify("notifications/progress", params if total is None else {**params, "total": total})

    async def ask(
        self,
        method: str,
        params: JsonObject | None = None,
        *,
        standing: bool = False,
        deviant: str = "",
        name: str = "",
    ) -> JsonObject | None:
        """Ask the client; legacy revisions only.

        Args:
            method: What.
            params: Its params.
            standing: Whether it goes where messages go that belong to no request, and not along with the answer.
            deviant: Which rule is broken on purpose.
            name: Which of the questions of a scenario it is.

        Returns:
            The whole response; `None` when there was none in time.
        """
        outlet = self.session.standing if standing else self.outlet
        if outlet is None:
            return None
        request: JsonObject = {"jsonrpc": "2.0", "id": self._ids(), "method": method}
        if params is not None:
            request["params"] = params
        wrong = None if deviant else flaw_of_params(method, params, self.revision)
        if wrong is not None:
            raise AssertionError(f"the suite would send a wrong {method}: {wrong}")
        arrived = trio.Event()
        answers: list[JsonObject] = []
        key = encoded(request["id"]).decode()
        self.session.waiting[key] = (arrived, answers)
        await outlet.send(encoded(request), deviant=deviant)
        with trio.move_on_after(self._patience):
            await arrived.wait()
        del self.session.waiting[key]
        response = answers[0] if answers else None
        self._asked.append(Asked(method=method, request=request, response=response, name=name))
        return response


def notification(method: str, params: JsonObject | None, revision: Revision, deviant: str) -> JsonObject:
    """A notification, held against the schema."""
    wrong = None if deviant else flaw_of_params(method, params, revision)
    if wrong is not None:
        raise AssertionError(f"the suite would send a wrong {method}: {wrong}")
    message: JsonObject = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message
