"""The suite as a client of a server under test: what every transport has in common.

A peer sends what it is told to and hands back what came. It answers what the server asks in the meantime, by
`ServerPeer.replies`. What it sends is held against the schema, unless a check says which rule it breaks on purpose.
"""

from __future__ import annotations

import abc
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from mcp_conformance.drivers.settings import CLIENT_INFO, capabilities_in
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.protocol.message_schema import flaw_of_params
from mcp_conformance.protocol.response import Answer, brief
from mcp_core.revisions import Era
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcp_core.types.meta import CLIENT_INFO as CLIENT_INFO_KEY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.model.check import Transport
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["HeaderLines", "Reply", "ServerPeer", "encoded", "within"]

Reply: TypeAlias = "Callable[[JsonObject], JsonObject]"
"""Makes the result of what the server asks, from its params."""

HeaderLines: TypeAlias = "Sequence[tuple[str, str]]"

_REPLIES: Final[Mapping[str, Reply]] = {"ping": lambda _: {}, "roots/list": lambda _: {"roots": []}}
"""What is answered on a new connection."""


def encoded(value: JsonValue) -> bytes:
    """JSON in UTF-8, in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@asynccontextmanager
async def within(seconds: float, expected: str) -> AsyncIterator[None]:
    """Bound a block.

    Raises:
        Deviation: It did not come to its end in time.
    """
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise Deviation(expected, f"nothing within {seconds:g} seconds")


class ServerPeer(abc.ABC):
    """One connection to a server under test.

    Args:
        revision: What is spoken.
        transport: Over what.
        transcript: Where everything is entered.
        settings: The bounds.
        capabilities: What the client declares.
    """

    def __init__(
        self,
        revision: Revision,
        transport: Transport,
        transcript: Transcript,
        settings: Settings,
        capabilities: JsonObject | None = None,
    ) -> None:
        self.revision: Final = revision
        self.transport: Final = transport
        self.transcript: Final = transcript
        self.settings: Final = settings
        self.capabilities: Final = capabilities_in(revision) if capabilities is None else capabilities
        """What this client declares."""
        self.replies: Final[dict[str, Reply]] = dict(_REPLIES)
        """By which method what the server asks is answered; the others get -32601."""
        self.deviance = ""
        """Which rule these replies break on purpose; empty: none."""
        self.unanswered: Final[set[str]] = set()
        """The methods of the server's requests that are left without an answer."""
        self.inbox: Final[list[JsonObject]] = []
        """Requests and notifications of the server, in order."""
        self.strays: Final[list[JsonObject]] = []
        """Responses that belong to no request of ours."""
        self.handshake: Answer | None = None
        """The answer to `initialize`; `None` before it, and where there is none."""
        self._ids = 0
        self._arrived = trio.Event()

    # --- to be done by a transport ---------------------------------------------------------------------------------

    @abc.abstractmethod
    async def exchange(self, message: JsonObject, *, deviant: str = "", headers: HeaderLines | None = None) -> Answer:
        """Send a request, and waits for its answer.

        Args:
            message: It.
            deviant: Which rule it breaks on purpose.
            headers: HTTP headers in place of those that belong to it; they do not count elsewhere.
        """

    @abc.abstractmethod
    async def post(self, message: JsonValue, *, deviant: str = "") -> None:
        """Send what is not answered."""

    @abc.abstractmethod
    async def malformed(self, data: bytes, *, deviant: str) -> Answer | None:
        """Send what is no message, and waits for an error in return; `None` when there is none."""

    @property
    def ending(self) -> str:
        """How the server ended; empty while it goes on, and where that cannot be seen."""
        return ""

    # --- what checks use -------------------------------------------------------------------------------------------

    def next_id(self) -> int:
        """An id that was not used yet on this connection."""
        self._ids += 1
        return self._ids

    def message(self, method: str, params: JsonObject | None = None, *, id: JsonValue = None) -> JsonObject:
        """A request as it should be, with all that the revision wants in it.

        Args:
            method: Its method.
            params: Its params; members of `_meta` are kept.
            id: Its id; `None`: the next one.
        """
        message: JsonObject = {
            "jsonrpc": "2.0",
            "id": self.next_id() if id is None else id,
            "method": method,
        }
        if self.revision.era is Era.MODERN:
            given = (params or {}).get("_meta")
            meta = {**self.meta(), **(given if isinstance(given, dict) else {})}
            message["params"] = {**(params or {}), "_meta": meta}
        elif params is not None:
            message["params"] = params
        return message

    def meta(self) -> JsonObject:
        """What each modern request says of its client."""
        return {
            PROTOCOL_VERSION: self.revision.name,
            CLIENT_CAPABILITIES: self.capabilities,
            CLIENT_INFO_KEY: CLIENT_INFO,
        }

    async def request(
        self,
        method: str,
        params: JsonObject | None = None,
        *,
        id: JsonValue = None,
        deviant: str = "",
        headers: HeaderLines | None = None,
    ) -> Answer:
        """Ask, and waits for the answer.

        Args:
            method: What.
            params: Its params, without what each request of the revision has.
            id: Its id; `None`: the next one.
            deviant: Which rule it breaks on purpose.
            headers: As in `exchange`.

        Raises:
            Deviation: There is no answer.
            AssertionError: It breaks a rule, and nothing was said of that.
        """
        message = self.message(method, params, id=id)
        if not deviant:
            wrong = flaw_of_params(method, message.get("params"), self.revision)
            if wrong is not None:
                raise AssertionError(f"the suite would send a wrong {method}: {wrong}")
        return await self.exchange(message, deviant=deviant, headers=headers)

    async def notify(self, method: str, params: JsonObject | None = None, *, deviant: str = "") -> None:
        """Send a notification."""
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self.post(message, deviant=deviant)

    async def fence(self) -> Answer:
        """Ask what every server answers, so that all that was asked before is known to have been read.

        Raises:
            Deviation: There is no answer; or in the modern era an error, as that comes from a server which has left it. A
                legacy server without `ping` has read all the same.
        """
        answer = await self.request("ping" if self.revision.era is Era.LEGACY else "server/discover")
        if self.revision.era is Era.MODERN:
            answer.result()
        return answer

    async def shake_hands(self) -> None:
        """Open the connection as the revision wants it: `initialize`, where there is one.

        Raises:
            Deviation: It is refused, or another revision is offered.
        """
        if self.revision.era is Era.MODERN:
            return
        params: JsonObject = {
            "protocolVersion": self.revision.name,
            "capabilities": self.capabilities,
            "clientInfo": CLIENT_INFO,
        }
        self.handshake = await self.request("initialize", params)
        offered = self.handshake.result().get("protocolVersion")
        if offered != self.revision.name:
            raise Deviation(f"protocolVersion {self.revision.name}", brief(offered))
        await self.notify("notifications/initialized")

    async def expect(self, method: str, what: str) -> JsonObject:
        """Wait for a request or notification of the server; the first one that came and was not taken yet.

        Raises:
            Deviation: It did not come.
        """
        async with within(self.settings.patience, what):
            while True:
                found = next((each for each in self.inbox if each.get("method") == method), None)
                if found is not None:
                    self.inbox.remove(found)
                    return found
                self._arrived = trio.Event()
                await self._arrived.wait()
        raise AssertionError("the block ends by one of the two")

    async def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait until something is true that follows from what comes.

        Raises:
            Deviation: It is not in time.
        """
        async with within(self.settings.patience, what):
            while not true():
                if self._arrived.is_set():
                    self._arrived = trio.Event()
                await self._arrived.wait()

    def wake(self) -> None:
        """Let `until` look again, as something happened besides."""
        self._arrived.set()

    def forget(self) -> None:
        """Make it as good as new: what came is forgotten, and replies are those of a new connection."""
        self.inbox.clear()
        self.strays.clear()
        self.replies.clear()
        self.replies.update(_REPLIES)
        self.deviance = ""
        self.unanswered.clear()

    # --- what transports use ---------------------------------------------------------------------------------------

    async def take(self, value: JsonValue) -> None:
        """A message that is no answer to a request of ours: kept, and answered where it asks something."""
        if isinstance(value, list):
            for each in value:
                await self.take(each)
            return
        if not isinstance(value, dict):
            return
        method = value.get("method")
        if not isinstance(method, str):
            self.strays.append(value)
        else:
            self.inbox.append(value)
            if "id" in value and method not in self.unanswered:
                await self.post(self._reply(method, value), deviant=self.deviance)
        self._arrived.set()

    def _reply(self, method: str, request: JsonObject) -> JsonObject:
        reply = self.replies.get(method)
        answer: JsonObject = {"jsonrpc": "2.0", "id": request["id"]}
        if reply is None:
            answer["error"] = {"code": -32601, "message": f"{method} is not offered"}
        else:
            params = request.get("params")
            answer["result"] = reply(params if isinstance(params, dict) else {})
        return answer
