"""The suite as a client of a server under test: the common part of all transports.

A connection sends what a check passes to it and returns the response. Meanwhile it responds to client requests of the
server with `SuiteConnection.replies`. Sent messages are validated against the schema, unless the check states which rule it
breaks on purpose.
"""

from __future__ import annotations

import abc
import json
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from mcp_conformance.drivers.settings import CLIENT_INFO, capabilities_in
from mcp_conformance.model.verdict import Deviation, ExpiredWait
from mcp_conformance.protocol.message_schema import flaw_of_params
from mcp_conformance.protocol.response import JsonRpcResponse, brief
from mcp_conformance.wire.timeouts import AdaptiveTimeouts, WaitKind
from mcp_core.revisions import Era
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcp_core.types.meta import CLIENT_INFO as CLIENT_INFO_KEY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.model.check import Transport
    from mcp_conformance.wire.timeouts import Wait
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["HeaderLines", "JsonForm", "Reply", "SuiteConnection", "encoded", "within"]

Reply: TypeAlias = "Callable[[JsonObject], JsonObject]"
"""A function that makes the result of a client request from its params."""

HeaderLines: TypeAlias = "Sequence[tuple[str, str]]"

JsonForm: TypeAlias = "Callable[[JsonValue], bytes]"
"""A function that writes a message as JSON, on one line."""

_REPLIES: Final[Mapping[str, Reply]] = {"ping": lambda _: {}, "roots/list": lambda _: {"roots": []}}
"""The replies of a new connection."""


def encoded(value: JsonValue) -> bytes:
    """Return compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@asynccontextmanager
async def within(seconds: float, expected: str) -> AsyncIterator[None]:
    """Limit the time of a block.

    Raises:
        Deviation: The block did not end in time.
    """
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise Deviation(expected, f"nothing within {seconds:g} seconds")


def _aside(note: str) -> str:
    return f" ({note})" if note else ""


class SuiteConnection(abc.ABC):
    """A connection to a server under test.

    Args:
        revision: The revision.
        transport: The transport.
        transcript: The transcript that records everything.
        settings: The settings.
        capabilities: The capabilities that the client declares.
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
        self.capabilities: JsonObject = capabilities_in(revision) if capabilities is None else capabilities
        """The capabilities that this client declares: in the handshake, or in the modern era in each request."""
        self.replies: Final[dict[str, Reply]] = dict(_REPLIES)
        """The replies to client requests, by method. Other methods get error -32601."""
        self.hangs: bool = False
        """Whether a wait was in vain after others in vain."""
        self.deviance: str = ""
        """The rule that these replies break on purpose; empty if they break none."""
        self.form: JsonForm = encoded
        """How messages are written."""
        self.unanswered: Final[set[str]] = set()
        """The methods of client requests that get no response."""
        self.inbox: Final[list[JsonObject]] = []
        """Requests and notifications of the server, in order."""
        self.strays: Final[list[JsonObject]] = []
        """Responses that match no pending request."""
        self.handshake: JsonRpcResponse | None = None
        """The response to `initialize`; `None` before it, and in the modern era."""
        self.is_patient = False
        """Whether waits are as long as for a server without waits in vain."""
        self._ids = 0
        self._arrived = trio.Event()

    # --- implemented by a transport --------------------------------------------------------------------------------

    @abc.abstractmethod
    async def exchange(
        self, message: JsonObject, *, deviant: str = "", headers: HeaderLines | None = None
    ) -> JsonRpcResponse:
        """Send a request and wait for its response.

        Args:
            message: The request.
            deviant: The rule that the request breaks on purpose.
            headers: HTTP headers in place of the right ones; ignored by other transports.
        """

    @abc.abstractmethod
    async def post(self, message: JsonValue, *, deviant: str = "") -> None:
        """Send a message that has no response."""

    @abc.abstractmethod
    async def malformed(self, data: bytes, *, deviant: str) -> JsonRpcResponse | None:
        """Send an invalid message and wait for an error response; `None` if there is no response."""

    @property
    def ending(self) -> str:
        """How the server ended; empty while it runs, and if the transport does not show its end."""
        return ""

    @property
    def has_spoken(self) -> bool:
        """Whether the server has sent anything; true if the transport does not start it."""
        return True

    @property
    def unread(self) -> bytes:
        """The received bytes that are not the whole of a message yet; empty if the transport records them itself."""
        return b""

    # --- used by checks --------------------------------------------------------------------------------------------

    def next_id(self) -> int:
        """Return an id that was not used yet on this connection."""
        self._ids += 1
        return self._ids

    def message(self, method: str, params: JsonObject | None = None, *, id: JsonValue = None) -> JsonObject:
        """Return a valid request with everything that the revision requires.

        Args:
            method: The method.
            params: The params; members of `_meta` are kept.
            id: The id; `None`: the next one.
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
        """Return the request metadata that each modern request carries."""
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
    ) -> JsonRpcResponse:
        """Send a request and wait for its response.

        Args:
            method: The method.
            params: The params, without the request metadata.
            id: The id; `None`: the next one.
            deviant: The rule that the request breaks on purpose.
            headers: As in `exchange`.

        Raises:
            Deviation: There is no response.
            AssertionError: The request is invalid, and `deviant` is empty.
        """
        message = self.message(method, params, id=id)
        if not deviant:
            wrong = flaw_of_params(method, message.get("params"), self.revision)
            if wrong is not None:
                raise AssertionError(f"the suite would send an invalid {method}: {wrong}")
        return await self.exchange(message, deviant=deviant, headers=headers)

    async def notify(self, method: str, params: JsonObject | None = None, *, deviant: str = "") -> None:
        """Send a notification."""
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self.post(message, deviant=deviant)

    async def fence(self) -> JsonRpcResponse:
        """Send a neutral request, whose response proves that the server has read all earlier messages.

        Raises:
            Deviation: There is no response; or in the modern era an error, because the server has left that era. A
                legacy server without `ping` has read the messages as well.
        """
        answer = await self.request("ping" if self.revision.era is Era.LEGACY else "server/discover")
        if self.revision.era is Era.MODERN:
            answer.result()
        return answer

    async def shake_hands(self) -> None:
        """Perform the handshake of the revision: `initialize`, where it exists.

        Raises:
            Deviation: The server rejects it, or offers another revision.
        """
        if self.revision.era is Era.MODERN:
            return
        await self.initialize()
        await self.notify("notifications/initialized")

    async def initialize(self) -> None:
        """Perform the handshake of a legacy revision without notifications/initialized.

        Raises:
            Deviation: The server rejects it, or offers another revision.
        """
        params: JsonObject = {
            "protocolVersion": self.revision.name,
            "capabilities": self.capabilities,
            "clientInfo": CLIENT_INFO,
        }
        self.handshake = await self.request("initialize", params)
        offered = self.handshake.result().get("protocolVersion")
        if offered != self.revision.name:
            raise Deviation(f"protocolVersion {self.revision.name}", brief(offered))

    async def expect(self, method: str, what: str) -> JsonObject:
        """Return the first unread request or notification with this method, and wait for it if necessary.

        Raises:
            Deviation: It did not arrive in time.
        """
        async with self.within(what):
            while True:
                found = next((each for each in self.inbox if each.get("method") == method), None)
                if found is not None:
                    self.inbox.remove(found)
                    return found
                self._arrived = trio.Event()
                await self._arrived.wait()
        raise AssertionError("the block returns or raises")

    async def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait until a condition on the received messages is true.

        Raises:
            Deviation: The condition is not true in time.
        """
        async with self.within(what):
            while not true():
                if self._arrived.is_set():
                    self._arrived = trio.Event()
                await self._arrived.wait()

    def wake(self) -> None:
        """Wake `until` after a change that is not a received message."""
        self._arrived.set()

    def forget(self) -> None:
        """Reset to the state of a new connection: discard received messages, and restore the default replies."""
        self.inbox.clear()
        self.strays.clear()
        self.replies.clear()
        self.replies.update(_REPLIES)
        self.deviance = ""
        self.form = encoded
        self.unanswered.clear()

    def limit(self, what: str) -> float:
        """Return the time limit of a wait in seconds, for a wait that is not counted, because it may rightly be in vain.

        Args:
            what: What is waited for.
        """
        return self.settings.timeouts.limit(self.settings.timeout, self._subjects(what))

    @contextmanager
    def limited(
        self, expected: str, *, times: float = 1.0, seconds: float | None = None, kind: WaitKind = WaitKind.CONDITION
    ) -> Iterator[Wait]:
        """Limit the time of a block that waits for the server, and end the block then. The arguments are as in `within`."""
        longest = self.settings.timeout * times if seconds is None else seconds
        if not self.has_spoken:
            # The process may still be starting.
            longest = self.settings.timeouts.longest_start(longest, self.settings.starting)
            kind = WaitKind.START
        timeouts = AdaptiveTimeouts() if self.is_patient else self.settings.timeouts
        with timeouts.wait(longest, self._subjects(expected), kind) as wait:
            yield wait

    @asynccontextmanager
    async def within(
        self, expected: str, *, times: float = 1.0, seconds: float | None = None, kind: WaitKind = WaitKind.CONDITION
    ) -> AsyncIterator[Wait]:
        """Limit the time of a block that waits for the server.

        Args:
            expected: What is waited for.
            times: The longest wait, as a multiple of the timeout.
            seconds: The longest wait in seconds, in place of the timeout.
            kind: What is waited for.

        Raises:
            ExpiredWait: The block did not end in time.
        """
        mark = len(self.transcript.entries)
        with self.limited(expected, times=times, seconds=seconds, kind=kind) as wait:
            yield wait
        if wait.in_vain:
            self.hangs = self.hangs or bool(wait.note)
            self.transcript.unframed(self.unread)
            seen = self.transcript.unframed_since(mark)
            self.transcript.note(f"waited {wait.seconds:g} seconds for {expected}{_aside(wait.note)}")
            raise ExpiredWait(
                expected,
                f"{'only bytes that form no message' if seen else 'nothing'} within {wait.seconds:g} seconds"
                f"{_aside(wait.note)}{f': {seen}' if seen else ''}",
            )

    def _subjects(self, what: str) -> tuple[str, ...]:
        """Return the subjects of a wait: everything, the leg, what is awaited, and that in the leg."""
        leg = f"{self.revision} {self.transport.value}"
        return "", leg, what, f"{leg} {what}"

    # --- used by transports ----------------------------------------------------------------------------------------

    async def take(self, value: JsonValue) -> None:
        """Record a message that is not a matching response, and respond to it if it is a request."""
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
            answer["error"] = {"code": -32601, "message": f"{method} is not supported"}
        else:
            params = request.get("params")
            answer["result"] = reply(params if isinstance(params, dict) else {})
        return answer
