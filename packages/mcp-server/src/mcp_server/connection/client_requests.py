"""Client requests of handlers, with one interface for both eras.

In a legacy session the server sends a JSON-RPC request, and the handler waits for the response. In revision 2026-07-28
a server cannot send requests. Instead, the handler ends, and the result of the inbound request contains the input
requests. The client repeats its request with the input responses, and the handler runs again from its start (see
`mcp_core.engine.mrtr`).

A handler ends because its own scope is cancelled. User code sees a normal cancellation: `finally` runs, and `except
Exception` cannot catch it. Before the cancellation, the other tasks of the handler run for a few steps, so that
concurrent client requests are sent in one result. A function that runs under `once` runs to completion, so that it is
not repeated.
"""

from __future__ import annotations

import inspect
import logging
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, cast

import orjson
import trio

from mcp_core.conversion.converter import converter
from mcp_core.engine.mrtr import AnsweredInputs, RequestState, binding, open_state, seal_state
from mcp_core.engine.server import require_client
from mcp_core.errors import ErrorCode, InvalidValue, LimitExceeded, LocalProtocolError, RequestFailed
from mcp_core.methods import ELICITATION_CREATE, ROOTS_LIST, SAMPLING_CREATE_MESSAGE
from mcp_core.trio.host_loop import host_of_trio
from mcp_core.types import CreateMessageRequest, ElicitRequest, InputRequiredResult, ListRootsRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.engine.events import ClientPeer
    from mcp_core.engine.mrtr import RequestStateSealer
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.methods import RequestMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import InputRequest, WireObject
    from mcp_server.connection.channel import ClientRequests, RequestContext
    from mcp_server.connection.sealer import InputPolicy

__all__ = [
    "CLIENT_REQUESTS",
    "DirectClientRequests",
    "RetryClientRequests",
    "SessionClientRequests",
    "check_client_request",
    "client_requests_of",
    "read_answer",
    "run_once",
]

_log: Final = logging.getLogger("mcp_server")

_inside_once: Final[ContextVar[bool]] = ContextVar("inside_once", default=False)

_PLAN: Final = "\0plan"
"""The key of the stored plan of a handler that returns `InputRequired`; it must not collide with keys of `once`."""

_SHARE_OF_STATE: Final = 0.5
"""Maximum share of a message for the state: the request also contains its parameters and the input responses."""

_STEPS: Final = 3
"""Number of scheduler passes in which the other tasks of a handler can reach their client requests. They may, for
example, report progress before."""

CLIENT_REQUESTS: Final[Mapping[str, Callable[..., WireObject]]] = {  # type: ignore[explicit-any]  # parameters by class
    ELICITATION_CREATE.name: ElicitRequest,
    SAMPLING_CREATE_MESSAGE.name: CreateMessageRequest,
    ROOTS_LIST.name: ListRootsRequest,
}
"""The class of an input request in a result, by method."""


class DirectClientRequests:
    """Base of a `ClientRequests` whose handler waits for the responses: it needs no round trips and no stored state."""

    def plan(self) -> JsonValue:
        """Return `None`: no plan is stored."""
        return None

    def keep_plan(self, plan: JsonValue) -> None:
        """Ignore the plan."""

    def answered(self, definition: RequestMethod[object, object], key: str) -> object | None:  # noqa: ARG002  # the interface of RetryClientRequests
        """Return `None`: there are no input responses."""
        return None


def client_requests_of(call: RequestContext, sealer: RequestStateSealer, policy: InputPolicy) -> ClientRequests:
    """Return the sender of client requests that fits the revision of an inbound request.

    Args:
        call: The inbound request.
        sealer: Seals the state of round trips.
        policy: The limits of round trips.

    Raises:
        RequestFailed: The request contains an invalid `requestState`.
    """
    revision = call.request.peer.revision
    if revision.server_requests:
        return SessionClientRequests(call)
    return RetryClientRequests(call, sealer, policy)


def check_client_request(call: RequestContext, definition: RequestMethod[object, object], params: WireObject) -> None:
    """Raise an error if this client request cannot be sent, for example because the client lacks the capability."""
    peer = cast("ClientPeer", call.request.peer)  # of a server
    if _inside_once.get():
        raise RuntimeError(
            "a function that runs under Context.once cannot send client requests: send them before or after it"
        )
    require_client(peer, definition, params)


class SessionClientRequests(DirectClientRequests):
    """A sender of JSON-RPC requests in a legacy session. The session lasts, so there is no state to store."""

    def __init__(self, call: RequestContext) -> None:
        self._call: Final = call
        self._done: dict[str, JsonValue] = {}

    async def request(self, definition: RequestMethod[object, object], params: WireObject, key: str | None) -> object:  # noqa: ARG002  # a request has an id
        """Send a JSON-RPC request and wait for its response."""
        call = self._call
        check_client_request(call, definition, params)
        return await call.channel.request_client(definition, params, call)

    async def once(self, key: str, function: Callable[[], object]) -> JsonValue:
        """Run the function, unless this request already has a result for the key."""
        if key not in self._done:
            self._done[key] = await run_once(key, function)
        return self._done[key]

    def result(self) -> None:
        """Return `None`: client requests do not end the handler."""
        return


class RetryClientRequests:
    """A sender of input requests in the result of the inbound request (multi round-trip requests)."""

    def __init__(self, call: RequestContext, sealer: RequestStateSealer, policy: InputPolicy) -> None:
        request = call.request
        self._call: Final = call
        self._sealer: Final = sealer
        self._policy: Final = policy
        self._revision: Final = request.peer.revision
        self._bound_to: Final = binding(call.channel.principal, request.method, request.raw)
        self._running = 0
        self._quiet = trio.Event()
        sealed = request.raw.get("requestState")
        state = RequestState()
        if isinstance(sealed, str):
            state = open_state(sealer, sealed, bound_to=self._bound_to, now=time.time())
        answers = request.raw.get("inputResponses")
        given = answers if isinstance(answers, dict) else {}
        self._answered_inputs: Final = AnsweredInputs(
            state, {key: each for key, each in given.items() if isinstance(each, dict)}
        )

    async def request(self, definition: RequestMethod[object, object], params: WireObject, key: str | None) -> object:
        """Return the input response, or end the handler if the client has not sent it yet."""
        check_client_request(self._call, definition, params)
        if self._revision not in self._call.request.definition.may_need_input:
            raise LocalProtocolError(
                f"a handler of {self._call.request.method} cannot send client requests in revision {self._revision}"
            )
        request_type = CLIENT_REQUESTS.get(definition.name)
        if request_type is None:
            raise LocalProtocolError(f"a server cannot send {definition.name} in revision {self._revision}")
        # The class in the table fits the method, and so its params.
        made = cast("InputRequest", request_type(params=params))
        answer = self._answered_inputs.request(made, converter(self._revision).unstructure(made), key)
        if answer is None:
            await self._end_round_trip()
        return read_answer(self._revision, definition, answer or {})

    async def hand_over(self) -> RequestState:
        """Return the state of the round trips, after all functions that run under `once` have ended."""
        while self._running:
            await self._quiet.wait()
        return self._answered_inputs.state

    async def _end_round_trip(self) -> None:
        """End the handler: the next round trip contains the input response. Does not return."""
        with trio.CancelScope(shield=True):
            for _ in range(_STEPS):
                await trio.lowlevel.checkpoint()
            await self.hand_over()
        self._call.scope.cancel()
        await trio.lowlevel.checkpoint()
        host = host_of_trio()
        if host is not None:
            await host.wait_for_cancellation()
        raise RuntimeError(
            "a client request ends the handler, which runs again when the response arrives, but the task that sent it "
            "is shielded from cancellation: send client requests outside of the shielded scope"
        )

    async def once(self, key: str, function: Callable[[], object]) -> JsonValue:
        """Run the function, unless the state contains its result."""
        known, value = self._answered_inputs.recall(key)
        if not known:
            self._running += 1
            try:
                value = await run_once(key, function)
                self._answered_inputs.remember(key, value)
            finally:
                self._running -= 1
                if not self._running:
                    self._quiet.set()
                    self._quiet = trio.Event()
        else:
            await trio.lowlevel.checkpoint()
        return value

    def plan(self) -> JsonValue:
        """Return the plan in the state."""
        return self._answered_inputs.recall(_PLAN)[1]

    def keep_plan(self, plan: JsonValue) -> None:
        """Store the plan in the state."""
        self._answered_inputs.remember(_PLAN, plan)

    def answered(self, definition: RequestMethod[object, object], key: str) -> object | None:
        """Return the input response with this key."""
        answer = self._answered_inputs.answered(key)
        return None if answer is None else read_answer(self._revision, definition, answer)

    def result(self) -> InputRequiredResult | RequestFailed | None:
        """Return the result with the input requests, or an error if a limit is exceeded."""
        if not self._answered_inputs.pending:
            return None
        request = self._call.request
        try:
            state = self._answered_inputs.next_state(self._policy.round_trips)
        except LimitExceeded as limit:
            _log.warning("request failed: error=%s request=%r", limit, request.id)
            return RequestFailed(limit.message, code=ErrorCode.INVALID_REQUEST)
        try:
            sealed = self._sealed(state)
        except LimitExceeded as limit:
            # The client cannot solve this problem, and the server could not read the state that the client would send.
            _log.error(
                "state of the next round trip is too large: method=%s request=%r error=%s",
                request.method,
                request.id,
                limit,
            )
            return RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR)
        return InputRequiredResult(input_requests=self._answered_inputs.pending, request_state=sealed)

    def _sealed(self, state: RequestState) -> str:
        """Return the sealed state. Raises `LimitExceeded` if the client could not send it back."""
        expires = time.time() + self._policy.seconds
        sealed = seal_state(self._sealer, state, bound_to=self._bound_to, expires=expires)
        allowed = int(self._call.channel.connection.limits.message_bytes * _SHARE_OF_STATE)
        if len(sealed) > allowed:
            raise LimitExceeded(
                "characters of a requestState", observed=len(sealed), allowed=allowed, setting="Limits.message_bytes"
            )
        return sealed


def read_answer(revision: Revision, definition: RequestMethod[object, object], answer: JsonObject) -> object:
    """Return an input response as an instance of `row.result`. Raises `RequestFailed` if it is invalid."""
    try:
        value, notes = converter(revision).receive(answer, definition.result)
    except InvalidValue as bad:
        raise RequestFailed(
            f"inputResponses: the response to {definition.name}: {bad.message}", code=ErrorCode.INVALID_PARAMS
        ) from bad
    for note in notes:
        _log.debug("tolerated deviation: %s", note)
    return value


async def run_once(key: str, function: Callable[[], object]) -> JsonValue:
    """Run a function that cannot send client requests. Raises `TypeError` if its result is not JSON."""
    token = _inside_once.set(True)
    try:
        made = function()
        value = await made if inspect.isawaitable(made) else made
    finally:
        _inside_once.reset(token)
    return _checked(key, value)


_EXACTLY: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def _checked(key: str, value: object) -> JsonValue:
    """Return the value. Raises `TypeError` if JSON changes it, in every revision, since the state stores it as JSON."""
    try:
        carried: JsonValue = orjson.loads(orjson.dumps(value, option=_EXACTLY))
    except TypeError as error:
        raise TypeError(f"the result under the key {key!r} of Context.once is not JSON: {error}") from error
    if carried != value:
        raise TypeError(
            f"the result under the key {key!r} of Context.once changes when it is encoded as JSON: {value!r:.80}"
        )
    return carried
