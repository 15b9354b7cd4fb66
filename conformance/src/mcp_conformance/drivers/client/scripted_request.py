"""A request of a client, as the fake server and its scenarios handle it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio

from mcp_conformance.protocol.message_schema import flaw, flaw_of_params
from mcp_core.revisions import Era
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROGRESS_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = [
    "ClientRequestRecord",
    "ErrorReply",
    "MessageSink",
    "NoReply",
    "RawReply",
    "ScriptedRequest",
    "Session",
    "encoded",
    "has_capability",
    "notification",
]


def encoded(value: JsonValue) -> bytes:
    """Return compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class MessageSink(Protocol):
    """The destination of the messages for one request, or of those without a request."""

    async def send(self, data: bytes, *, final: bool = False, deviant: str = "", status: int = 200) -> None:
        """Send a message.

        Args:
            data: The message.
            final: Whether it is the response, after which no message follows.
            deviant: The rule that the message breaks on purpose.
            status: The HTTP status, if the message is a response and the first that is sent.
        """
        ...


class ErrorReply(Exception):
    """An exception that ends the handling of a request with an error response.

    Args:
        code: The error code.
        message: The error message.
        data: Further data.
        status: The HTTP status; `None`: 200.
    """

    def __init__(self, code: int, message: str, data: JsonValue = None, *, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status

    def error(self, id: JsonValue) -> JsonObject:
        """Return the response."""
        error: JsonObject = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": id, "error": error}


class RawReply(Exception):
    """An exception that ends the handling of a request with bytes in place of the response, valid or not.

    Args:
        data: The bytes.
        deviant: The rule that the bytes break; empty if they break none.
    """

    def __init__(self, data: bytes, deviant: str = "") -> None:
        super().__init__(deviant)
        self.data = data
        self.deviant = deviant


class NoReply(Exception):
    """An exception that ends the handling of a request without a response. The only argument is the reason."""


def has_capability(capabilities: JsonObject, path: str) -> bool:
    """Return whether capabilities contain the one at a path, for example `sampling.tools`."""
    here: JsonValue = capabilities
    for name in path.split("."):
        if not isinstance(here, dict) or name not in here or here[name] in (None, False):
            return False
        here = here[name]
    return True


@attrs.define(kw_only=True, eq=False)
class Session:
    """The state of a legacy connection, or the metadata of a modern request."""

    revision: Revision
    """The revision."""
    number: int = 0
    """The number of sessions before it."""
    id: str | None = None
    """The session id over HTTP."""
    capabilities: JsonObject = attrs.field(factory=dict)
    """The capabilities that the client declared."""
    opened: bool = False
    """Whether `initialize` had a result."""
    ready: trio.Event = attrs.field(factory=trio.Event)
    """Set by `notifications/initialized`."""
    standalone_sink: MessageSink | None = None
    """The sink for messages without a request."""
    standalone_opened: trio.Event = attrs.field(factory=trio.Event)
    """Set when that sink is available."""
    waiting: dict[str, tuple[trio.Event, list[JsonObject]]] = attrs.field(factory=dict)
    """The pending client requests, by id."""
    running: dict[str, trio.CancelScope] = attrs.field(factory=dict)
    """The requests in progress, by id."""

    def has(self, path: str) -> bool:
        """Return whether the client declared a capability, for example `elicitation` or `sampling.tools`."""
        return has_capability(self.capabilities, path)


@attrs.frozen(kw_only=True)
class ClientRequestRecord:
    """A client request with its response."""

    method: str
    """The method."""
    request: JsonObject
    """The whole request."""
    response: JsonObject | None
    """The whole response; `None` if it was not received in time."""
    name: str = ""
    """The name by which a scenario identifies this request; empty if it has none."""


class ScriptedRequest:
    """A request that is being handled.

    Args:
        message: The message.
        session: The session of the request.
        sink: The sink for its messages.
        ids: Generates ids for client requests.
        client_requests: The list that records client requests.
        timeout: Seconds that a response of the client may take.
    """

    def __init__(
        self,
        message: JsonObject,
        session: Session,
        sink: MessageSink,
        *,
        ids: Callable[[], int],
        client_requests: list[ClientRequestRecord],
        timeout: float,
    ) -> None:
        self.message: Final = message
        self.session: Final = session
        self.sink: Final = sink
        self.method: Final = str(message.get("method"))
        """The method."""
        self.revision: Final = session.revision
        """The revision."""
        params = message.get("params")
        self.params: Final[JsonObject] = params if isinstance(params, dict) else {}
        """The params."""
        meta = self.params.get("_meta")
        self.meta: Final[JsonObject] = meta if isinstance(meta, dict) else {}
        """The `_meta` of the params."""
        self._ids: Final = ids
        self._sending: Final = trio.Lock()
        self._client_requests: Final = client_requests
        self._timeout: Final = timeout

    @property
    def capabilities(self) -> JsonObject:
        """The capabilities that the client declared for this request."""
        declared = self.meta.get(CLIENT_CAPABILITIES)
        if self.revision.era is Era.MODERN:
            return declared if isinstance(declared, dict) else {}
        return self.session.capabilities

    @property
    def token(self) -> str | int | None:
        """The progress token; `None` if there is no valid one."""
        token = self.meta.get(PROGRESS_TOKEN)
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None

    def text(self, name: str) -> str:
        """Return a string of the params. Raises `ErrorReply` if it is missing or not a string."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise ErrorReply(-32602, f"{name} must be a string")
        return value

    def subscription_filter(self) -> JsonObject:
        """Return the filter of a subscription. Raises `ErrorReply` if it is invalid: the server could not repeat it."""
        wanted = self.params.get("notifications")
        wrong = flaw(wanted, "SubscriptionFilter", self.revision)
        if wrong is not None or not isinstance(wanted, dict):
            raise ErrorReply(-32602, f"invalid filter: {wrong}")
        return dict(wanted)

    async def notify(self, method: str, params: JsonObject | None = None, *, deviant: str = "") -> None:
        """Send a notification that belongs to the request."""
        await self.sink.send(encoded(notification(method, params, self.revision, deviant)), deviant=deviant)

    async def progress(self, progress: float, total: float | None = None) -> None:
        """Report progress, if the client sent a token."""
        if self.token is not None:
            params: JsonObject = {"progressToken": self.token, "progress": progress}
            await self.notify("notifications/progress", params if total is None else {**params, "total": total})

    async def send_client_request(
        self,
        method: str,
        params: JsonObject | None = None,
        *,
        standalone: bool = False,
        deviant: str = "",
        name: str = "",
        id: JsonValue = None,
        escaped: bool = False,
    ) -> JsonObject | None:
        """Send a client request; legacy revisions only.

        Args:
            method: The method.
            params: The params.
            standalone: Whether it is sent on the standalone stream and not with the response.
            deviant: The rule that the request breaks on purpose.
            name: The name by which a scenario identifies this request.
            id: The id; `None`: the next number.
            escaped: Whether slashes are escaped, which does not change the value of the JSON.

        Returns:
            The whole response; `None` if it was not received in time.
        """
        sink = self.session.standalone_sink if standalone else self.sink
        if sink is None:
            return None
        request: JsonObject = {"jsonrpc": "2.0", "id": self._ids() if id is None else id, "method": method}
        if params is not None:
            request["params"] = params
        wrong = None if deviant else flaw_of_params(method, params, self.revision)
        if wrong is not None:
            raise AssertionError(f"the suite would send an invalid {method}: {wrong}")
        arrived = trio.Event()
        answers: list[JsonObject] = []
        key = encoded(request["id"]).decode()
        self.session.waiting[key] = (arrived, answers)
        # Only strings have slashes.
        data = encoded(request).replace(b"/", rb"\/") if escaped else encoded(request)
        # Several client requests may be pending at once.
        async with self._sending:
            await sink.send(data, deviant=deviant)
        with trio.move_on_after(self._timeout):
            await arrived.wait()
        del self.session.waiting[key]
        response = answers[0] if answers else None
        self._client_requests.append(ClientRequestRecord(method=method, request=request, response=response, name=name))
        return response


def notification(method: str, params: JsonObject | None, revision: Revision, deviant: str) -> JsonObject:
    """Return a notification, validated against the schema."""
    wrong = None if deviant else flaw_of_params(method, params, revision)
    if wrong is not None:
        raise AssertionError(f"the suite would send an invalid {method}: {wrong}")
    message: JsonObject = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message
