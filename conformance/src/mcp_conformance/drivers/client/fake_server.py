"""A correct server in every revision, written from the specification. A client under test talks to it.

The server does not depend on a transport. A host passes received messages together with the sink for the replies.
Scenarios replace handlers, change the offered features, or break a rule on purpose and state which. Everything that is
sent is validated against the schema.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import Offers, usual
from mcp_conformance.drivers.client.scripted_request import (
    ClientRequestRecord,
    ErrorReply,
    MessageSink,
    NoReply,
    RawReply,
    ScriptedRequest,
    Session,
    encoded,
)
from mcp_conformance.protocol.message_schema import flaw_of_result
from mcp_core.methods import methods
from mcp_core.revisions import Era, preferred
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["FakeServer"]

_INFO: Final[JsonObject] = {"name": "mcp-conformance", "version": "0.1.0"}
_CACHED: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
        "resources/read",
        "skills/list",
        "skills/get",
    }
)
"""Methods whose results state how long they may be cached (2026-07-28)."""
_COLLECTED: Final = 64
"""The limit of a batch. No valid client sends more."""


class FakeServer:
    """A server with any number of connections, in sequence or concurrent.

    Args:
        speaks: The supported revisions.
        timeout: Seconds that a response of the client may take.
    """

    def __init__(self, speaks: Sequence[Revision], timeout: float) -> None:
        self.speaks: tuple[Revision, ...] = tuple(speaks)
        """The supported revisions."""
        self.offers: Offers = usual()
        """The offered features."""
        self.capabilities: JsonObject = {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "logging": {},
        }
        """The declared capabilities. `completions` is added where the revision has it, unless the object is empty."""
        self.completes = True
        """Whether `completions` is added."""
        self.form: Callable[[JsonValue], bytes] = encoded
        """How responses with a result are written."""
        self.anonymous = False
        """Whether results do not name the server, which is optional from 2026-07-28 on."""
        self.handlers: Final[dict[str, Callable[[ScriptedRequest], Awaitable[JsonObject]]]] = {
            "initialize": self.initialize,
            "ping": _empty,
            "server/discover": self.discover,
            "tools/list": lambda _: self._listed("tools", self.offers.tools),
            "tools/call": self.offers.call,
            "resources/list": lambda _: self._listed("resources", self.offers.resources),
            "resources/templates/list": lambda _: self._listed("resourceTemplates", self.offers.templates),
            "resources/read": self.offers.read,
            "resources/subscribe": _empty,
            "resources/unsubscribe": _empty,
            "prompts/list": lambda _: self._listed("prompts", self.offers.prompts),
            "prompts/get": self.offers.get_prompt,
            "completion/complete": _complete,
            "logging/setLevel": _empty,
            "subscriptions/listen": self.listen,
        }
        """The function that makes the result of each method. A scenario may replace any."""
        self.listed_before: tuple[str, ...] = ()
        """Further revisions in the result of `server/discover`, before the supported ones."""
        self.listed_after: tuple[str, ...] = ()
        """Further revisions in that result, after the supported ones."""
        self.offered_version: str | None = None
        """A wrong revision for the result of `initialize`; `None`: the right one."""
        self.admit: Callable[[JsonObject], None] | None = None
        """A check of each modern request before it is handled; it may raise `ErrorReply`."""
        self.sessions: Final[list[Session]] = []
        """The legacy sessions that were opened."""
        self.received: Final[list[JsonObject]] = []
        """Every message of the client, in order."""
        self.client_requests: Final[list[ClientRequestRecord]] = []
        """The client requests that were sent."""
        self.faults: Final[list[str]] = []
        """Faults of the suite itself."""
        self._numbers: Final = itertools.count(1)
        self._timeout: Final = timeout

    # --- sessions ----------------------------------------------------------------------------------------------------

    @property
    def legacy(self) -> tuple[Revision, ...]:
        """The supported revisions with `initialize`."""
        return tuple(revision for revision in self.speaks if revision.era is Era.LEGACY)

    @property
    def modern(self) -> tuple[Revision, ...]:
        """The supported revisions without `initialize`."""
        return tuple(revision for revision in self.speaks if revision.era is Era.MODERN)

    def open(self, id: str | None = None) -> Session:
        """Create a legacy session, not yet initialized."""
        first = preferred(self.legacy) or self.speaks[0]
        session = Session(revision=first, number=len(self.sessions), id=id)
        self.sessions.append(session)
        return session

    def stateless(self, message: JsonObject) -> Session | None:
        """Return a session from the metadata of a modern request; `None` if the message is not a modern request.

        Raises:
            ErrorReply: Metadata is missing, or the revision is not supported.
        """
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
        if not isinstance(meta, dict) or not isinstance(version, str) or "id" not in message:
            if not self.legacy and "id" in message:
                if message.get("method") == "initialize":
                    raise self._unsupported(str((params if isinstance(params, dict) else {}).get("protocolVersion")))
                raise ErrorReply(-32602, f"_meta must contain {PROTOCOL_VERSION}", status=400)
            return None
        if not self.modern:
            return None
        if self.admit is not None:
            self.admit(message)
        spoken = next((revision for revision in self.modern if revision.name == version), None)
        if spoken is None:
            raise self._unsupported(version)
        capabilities = meta.get(CLIENT_CAPABILITIES)
        if not isinstance(capabilities, dict):
            raise ErrorReply(-32602, f"_meta must contain {CLIENT_CAPABILITIES}", status=400)
        return Session(revision=spoken, capabilities=capabilities, opened=True)

    def _unsupported(self, version: str) -> ErrorReply:
        supported: JsonObject = {"supported": [each.name for each in self.speaks], "requested": version}
        return ErrorReply(-32022, "this protocol version is not supported", supported, status=400)

    # --- messages ----------------------------------------------------------------------------------------------------

    async def take(self, value: JsonValue, session: Session, sink: MessageSink) -> None:
        """Handle a received message or batch. Return when all responses have been sent."""
        if not isinstance(value, list):
            await self._one(value, session, sink)
        elif session.revision.batching and 0 < len(value) <= _COLLECTED:
            collected = _BatchSink(sink)
            async with trio.open_nursery() as nursery:
                for each in value:
                    nursery.start_soon(self._one, each, session, collected)
            if collected.responses:
                await sink.send(b"[" + b",".join(collected.responses) + b"]", final=True)
        else:
            await sink.send(encoded(ErrorReply(-32600, "an array is not a message").error(None)), final=True)

    async def _one(self, message: JsonValue, session: Session, sink: MessageSink) -> None:
        if not isinstance(message, dict):
            await sink.send(encoded(ErrorReply(-32600, "a message must be an object").error(None)), final=True)
            return
        self.received.append(message)
        if "method" not in message:
            waiting = session.waiting.get(encoded(message.get("id")).decode())
            if waiting is not None:
                waiting[1].append(message)
                waiting[0].set()
        elif "id" in message:
            await self._request(message, session, sink)
        else:
            await self._notification(message, session)

    async def _notification(self, message: JsonObject, session: Session) -> None:
        method, params = message.get("method"), message.get("params")
        if method == "notifications/initialized":
            session.ready.set()
        elif method == "notifications/cancelled" and isinstance(params, dict):
            scope = session.running.get(encoded(params.get("requestId")).decode())
            if scope is not None:
                scope.cancel()

    async def _request(self, message: JsonObject, session: Session, sink: MessageSink) -> None:
        key = encoded(message["id"]).decode()
        request = ScriptedRequest(
            message,
            session,
            sink,
            ids=lambda: next(self._numbers),
            client_requests=self.client_requests,
            timeout=self._timeout,
        )
        with trio.CancelScope() as scope:
            session.running[key] = scope
            data, deviant, status = b"", "", 200
            try:
                data = await self._answer(request)
            except ErrorReply as reply:
                data = encoded(reply.error(message["id"]))
                status = (reply.status or 200) if session.revision.era is Era.MODERN else 200
            except RawReply as raw:
                data, deviant = raw.data, raw.deviant
            except NoReply:
                return
            except Exception as fault:  # noqa: BLE001  a fault of a scenario is recorded, and the other requests continue
                self.faults.append(f"{request.method}: {fault!r}")
                data = encoded(ErrorReply(-32603, "the suite failed").error(message["id"]))
            finally:
                session.running.pop(key, None)
            await sink.send(data, final=True, deviant=deviant, status=status)

    async def _answer(self, request: ScriptedRequest) -> bytes:
        session = request.session
        if session.revision.era is Era.LEGACY and not session.opened and request.method not in ("initialize", "ping"):
            raise ErrorReply(
                -32600 if request.method in self.handlers else -32601, f"{request.method} came before initialize"
            )
        handler = self.handlers.get(request.method)
        # A legacy connection has no revision before it is initialized.
        revision = session.revision
        if handler is None or request.method not in methods(revision):
            raise ErrorReply(-32601, f"unknown method: {request.method}", status=404)
        result = await handler(request)
        result = self.complete(request.method, result, session.revision)
        wrong = flaw_of_result(request.method, result, session.revision)
        if wrong is not None:
            raise AssertionError(f"the suite would send an invalid result of {request.method}: {wrong}")
        return self.form({"jsonrpc": "2.0", "id": request.message["id"], "result": result})

    def complete(self, method: str, result: JsonObject, revision: Revision) -> JsonObject:
        """Return a result with all members that the revision requires."""
        if not revision.result_type:
            return result
        meta = result.get("_meta")
        whole: JsonObject = {"resultType": "complete", **result}
        info: JsonObject = {} if self.anonymous else {SERVER_INFO: _INFO}
        whole["_meta"] = {**info, **(meta if isinstance(meta, dict) else {})}
        if method in _CACHED and whole["resultType"] == "complete":
            whole = {"ttlMs": 0, "cacheScope": "private", **whole}
        return whole

    # --- what it does ------------------------------------------------------------------------------------------------

    def declared(self, revision: Revision) -> JsonObject:
        """Return the capabilities that are declared in a revision."""
        completes = revision in methods(revision)["completion/complete"].capability_revisions
        added = completes and self.completes and self.capabilities
        return {**self.capabilities, "completions": {}} if added else self.capabilities

    async def initialize(self, request: ScriptedRequest) -> JsonObject:
        """Respond to `initialize`."""
        wanted = request.text("protocolVersion")
        spoken = next((revision for revision in self.legacy if revision.name == wanted), None) or preferred(self.legacy)
        if spoken is None:
            raise self._unsupported(wanted)
        capabilities = request.params.get("capabilities")
        session = request.session
        session.revision = spoken
        session.capabilities = capabilities if isinstance(capabilities, dict) else {}
        session.opened = True
        return {
            "protocolVersion": self.offered_version or spoken.name,
            "capabilities": self.declared(spoken),
            "serverInfo": _INFO,
        }

    async def discover(self, request: ScriptedRequest) -> JsonObject:
        """Respond to `server/discover`."""
        return {
            "supportedVersions": [*self.listed_before, *(each.name for each in self.speaks), *self.listed_after],
            "capabilities": self.declared(request.revision),
        }

    async def _listed(self, member: str, entries: Sequence[JsonObject]) -> JsonObject:
        return {member: list(entries)}

    async def listen(self, request: ScriptedRequest) -> JsonObject:
        """Respond to `subscriptions/listen`: grant the whole filter, and notify of no change."""
        granted = request.subscription_filter()
        granted.pop("taskIds", None)
        meta: JsonObject = {SUBSCRIPTION_ID: request.message["id"]}
        params: JsonObject = {"_meta": meta, "notifications": granted}
        await request.notify("notifications/subscriptions/acknowledged", params)
        await trio.sleep_forever()
        raise AssertionError("the subscription ends only by cancellation")


async def _empty(_: ScriptedRequest) -> JsonObject:
    return {}


async def _complete(request: ScriptedRequest) -> JsonObject:
    argument = request.params.get("argument")
    typed = argument.get("value") if isinstance(argument, dict) else ""
    return {"completion": {"values": [f"{typed}one", f"{typed}two"], "total": 2, "hasMore": False}}


class _BatchSink:
    """A sink that collects the responses to a batch and passes on all other messages."""

    def __init__(self, sink: MessageSink) -> None:
        self._sink: Final = sink
        self.responses: Final[list[bytes]] = []

    async def send(self, data: bytes, *, final: bool = False, deviant: str = "", status: int = 200) -> None:  # noqa: ARG002  the responses of a batch share one HTTP status
        if final:
            self.responses.append(data)
        else:
            await self._sink.send(data, deviant=deviant)
