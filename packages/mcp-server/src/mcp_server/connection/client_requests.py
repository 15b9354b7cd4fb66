"""How a handler asks the client, in either era, with the same line of code.

On a legacy session a question is a request of the server, and its answer comes while the handler waits. On 2026-07-28
a server has no requests: the handler is ended, the call is answered with the questions, and when the client sends it
again with the answers, the handler runs again from its top (see `mcp_core.engine.mrtr`).

A handler is ended by cancelling its own scope, which user code sees like any cancellation: `finally` runs, and
`except Exception` cannot swallow it. Before that its other tasks get a few steps, so that questions which are asked at
the same time go out together, and a function that runs under `once` gets to its end, so that it is not repeated.
"""

from __future__ import annotations

import inspect
import logging
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol, cast

import orjson
import trio

from mcp_core.conversion import compatibility
from mcp_core.conversion.converter import converter
from mcp_core.engine.mrtr import Ledger, State, binding, open_state, seal_state
from mcp_core.engine.server import require_client
from mcp_core.errors import ErrorCode, InvalidValue, LimitExceeded, LocalProtocolError, RequestFailed
from mcp_core.methods import ELICITATION_CREATE, ROOTS_LIST, SAMPLING_CREATE_MESSAGE
from mcp_core.types import CreateMessageRequest, ElicitRequest, InputRequiredResult, ListRootsRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.engine.events import ClientPeer
    from mcp_core.engine.mrtr import Sealer
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.methods import Method
    from mcp_core.revisions import Revision
    from mcp_core.types import InputRequest, WireObject
    from mcp_server.connection.channel import Call
    from mcp_server.connection.sealer import InputPolicy

__all__ = [
    "QUESTIONS",
    "Asking",
    "Direct",
    "InRounds",
    "InSession",
    "asking",
    "check_askable",
    "read_answer",
    "run_once",
]

_log: Final = logging.getLogger("mcp_server")

_inside_once: Final[ContextVar[bool]] = ContextVar("inside_once", default=False)

_PLAN: Final = "\0plan"
"""Under what the questions of a handler that asks by hand are kept; no key of `once` that anybody would choose."""

_SHARE_OF_STATE: Final = 0.5
"""How much of the largest message a state may fill: the request comes with it, and the answers."""

_STEPS: Final = 3
"""How many turns of the scheduler the other tasks of a handler get to reach their questions: they may, for instance,
report progress before."""

QUESTIONS: Final = {
    ELICITATION_CREATE.name: ElicitRequest,
    SAMPLING_CREATE_MESSAGE.name: CreateMessageRequest,
    ROOTS_LIST.name: ListRootsRequest,
}
"""What a question is within a result."""


class Asking(Protocol):
    """Asks the client, on behalf of one call."""

    async def ask(self, row: Method[object, object], params: WireObject, key: str | None) -> object:
        """The client's answer, an instance of `row.result`. `key`: what the question is called in rounds."""

    async def once(self, key: str, function: Callable[[], object]) -> JsonValue:
        """The result of a function that is run once for the call, however many rounds it takes."""

    def result(self) -> InputRequiredResult | RequestFailed | None:
        """What the call is answered when its handler was ended by its questions; `None` when it has none."""

    def plan(self) -> JsonValue:
        """What `keep_plan` was given in an earlier round; `None`: nothing."""

    def keep_plan(self, plan: JsonValue) -> None:
        """Keeps something for the next round."""

    def answered(self, row: Method[object, object], key: str) -> object | None:
        """The answer to a question of an earlier round, an instance of `row.result`; `None`: the client gave none."""


class Direct:
    """Of an `Asking` whose handler waits for the answers: there are no rounds, and nothing is kept for the next."""

    def plan(self) -> JsonValue:
        """See `Asking.plan`."""
        return None

    def keep_plan(self, plan: JsonValue) -> None:
        """See `Asking.keep_plan`."""

    def answered(self, row: Method[object, object], key: str) -> object | None:  # noqa: ARG002  # none is known
        """See `Asking.answered`."""
        return None


def asking(call: Call, sealer: Sealer, policy: InputPolicy) -> Asking:
    """The way to ask the client that `call` came from.

    Args:
        call: The call.
        sealer: Seals the state of rounds.
        policy: The bounds on rounds.

    Raises:
        RequestFailed: The call comes with a state that is not valid.
    """
    revision = call.request.peer.revision
    if revision.server_requests:
        return InSession(call)
    return InRounds(call, sealer, policy)


def check_askable(call: Call, row: Method[object, object], params: WireObject) -> None:
    """Raises unless the client can be asked that, here and now."""
    peer = cast("ClientPeer", call.request.peer)  # of a server
    if _inside_once.get():
        raise RuntimeError("a function that runs under Context.once cannot ask the client; ask before, or afterwards")
    require_client(peer, row, params)


class InSession(Direct):
    """Asks by requests. A legacy session is there all the time, so there is nothing to carry from round to round."""

    def __init__(self, call: Call) -> None:
        self._call: Final = call
        self._done: dict[str, JsonValue] = {}

    async def ask(self, row: Method[object, object], params: WireObject, key: str | None) -> object:  # noqa: ARG002  # a request has an id
        """See `Asking.ask`."""
        call = self._call
        check_askable(call, row, params)
        return await call.link.ask(row, params, call)

    async def once(self, key: str, function: Callable[[], object]) -> JsonValue:
        """See `Asking.once`."""
        if key not in self._done:
            self._done[key] = await run_once(key, function)
        return self._done[key]

    def result(self) -> None:
        """See `Asking.result`."""
        return


class InRounds:
    """Asks in the result of the call."""

    def __init__(self, call: Call, sealer: Sealer, policy: InputPolicy) -> None:
        request = call.request
        self._call: Final = call
        self._sealer: Final = sealer
        self._policy: Final = policy
        self._revision: Final = request.peer.revision
        self._bound_to: Final = binding(call.link.principal, request.method, request.raw)
        self._running = 0
        self._quiet = trio.Event()
        sealed = request.raw.get("requestState")
        state = State()
        if isinstance(sealed, str):
            state = open_state(sealer, sealed, bound_to=self._bound_to, now=time.time())
        answers = request.raw.get("inputResponses")
        given = answers if isinstance(answers, dict) else {}
        self._ledger: Final = Ledger(state, {key: each for key, each in given.items() if isinstance(each, dict)})

    async def ask(self, row: Method[object, object], params: WireObject, key: str | None) -> object:
        """See `Asking.ask`."""
        check_askable(self._call, row, params)
        if self._revision not in self._call.request.row.may_need_input:
            raise LocalProtocolError(
                f"a handler of {self._call.request.method} cannot ask the client in revision {self._revision}"
            )
        question = QUESTIONS.get(row.name)
        if question is None:
            raise LocalProtocolError(f"a server cannot ask {row.name} in revision {self._revision}")
        # The class in the table fits the method, and so its params.
        made = cast("InputRequest", question(params=params))
        answer = self._ledger.ask(made, converter(self._revision).unstructure(made), key)
        if answer is None:
            await self._end_round()
        return read_answer(self._revision, row, answer or {})

    async def hand_over(self) -> State:
        """What was asked and done so far, once all that runs under `once` has ended."""
        while self._running:
            await self._quiet.wait()
        return self._ledger.state

    async def _end_round(self) -> None:
        """Ends the handler: the next round brings the answer. Does not return."""
        with trio.CancelScope(shield=True):
            for _ in range(_STEPS):
                await trio.lowlevel.checkpoint()
            await self.hand_over()
        self._call.scope.cancel()
        await trio.lowlevel.checkpoint()
        raise RuntimeError(
            "a question to the client ends the handler, which runs again when the answer is there; "
            "but the task that asked is shielded from cancellation: ask outside of the shielded scope"
        )

    async def once(self, key: str, function: Callable[[], object]) -> JsonValue:
        """See `Asking.once`."""
        known, value = self._ledger.recall(key)
        if not known:
            self._running += 1
            try:
                value = await run_once(key, function)
                self._ledger.remember(key, value)
            finally:
                self._running -= 1
                if not self._running:
                    self._quiet.set()
                    self._quiet = trio.Event()
        else:
            await trio.lowlevel.checkpoint()
        return value

    def plan(self) -> JsonValue:
        """See `Asking.plan`."""
        return self._ledger.recall(_PLAN)[1]

    def keep_plan(self, plan: JsonValue) -> None:
        """See `Asking.keep_plan`."""
        self._ledger.remember(_PLAN, plan)

    def answered(self, row: Method[object, object], key: str) -> object | None:
        """See `Asking.answered`."""
        answer = self._ledger.answered(key)
        return None if answer is None else read_answer(self._revision, row, answer)

    def result(self) -> InputRequiredResult | RequestFailed | None:
        """See `Asking.result`."""
        if not self._ledger.pending:
            return None
        request = self._call.request
        try:
            state = self._ledger.next_round(self._policy.rounds)
        except LimitExceeded as limit:
            _log.warning("%s (request %r)", limit, request.id)
            return RequestFailed(limit.message, code=ErrorCode.INVALID_REQUEST)
        try:
            sealed = self._sealed(state)
        except LimitExceeded as limit:
            # The client could do nothing about it, and what it sent back could not be read.
            _log.error(
                "the state of the next round of %s is too large (request %r): %s", request.method, request.id, limit
            )
            return RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR)
        return InputRequiredResult(input_requests=self._ledger.pending, request_state=sealed)

    def _sealed(self, state: State) -> str:
        """The state as the client gets it. Raises `LimitExceeded` if it could not come back."""
        expires = time.time() + self._policy.seconds
        sealed = seal_state(self._sealer, state, bound_to=self._bound_to, expires=expires)
        allowed = int(self._call.link.connection.limits.message_bytes * _SHARE_OF_STATE)
        if len(sealed) > allowed:
            raise LimitExceeded(
                "characters of a requestState", observed=len(sealed), allowed=allowed, setting="Limits.message_bytes"
            )
        return sealed


def read_answer(revision: Revision, row: Method[object, object], answer: JsonObject) -> object:
    """An answer of the client in a result. Raises `RequestFailed` when it is none."""
    try:
        value, notes = compatibility.receive(revision, answer, row.result)
    except InvalidValue as bad:
        raise RequestFailed(
            f"inputResponses: the answer to {row.name}: {bad.message}", code=ErrorCode.INVALID_PARAMS
        ) from bad
    for note in notes:
        _log.debug("survived: %s", note)
    return value


async def run_once(key: str, function: Callable[[], object]) -> JsonValue:
    """Runs a function that cannot ask the client. Raises `TypeError` when its result is not JSON."""
    token = _inside_once.set(True)
    try:
        made = function()
        value = await made if inspect.isawaitable(made) else made
    finally:
        _inside_once.reset(token)
    return _checked(key, value)


_EXACTLY: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def _checked(key: str, value: object) -> JsonValue:
    """The same value, which JSON has to be able to carry to the next round without a change; in every revision."""
    try:
        carried: JsonValue = orjson.loads(orjson.dumps(value, option=_EXACTLY))
    except TypeError as error:
        raise TypeError(f"the result under the key {key!r} of Context.once is not JSON: {error}") from error
    if carried != value:
        raise TypeError(
            f"the result under the key {key!r} of Context.once changes when it is written as JSON: {value!r:.80}"
        )
    return carried
