"""How a handler asks its client: the half of `Context` that waits for somebody else."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar, cast, overload
from urllib.parse import urlsplit

import attrs
import orjson
import trio

from mcp_core.features.sampling import why_no_conversation
from mcp_core.methods import ELICITATION_CREATE, ROOTS_LIST, SAMPLING_CREATE_MESSAGE
from mcp_core.revisions import R2025_11_25, between
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsRequestParams,
    SamplingMessage,
    TextContent,
    TitledSingleSelectEnumSchema,
)
from mcp_server.errors import InvalidResult
from mcp_server.handlers.elicitation import Accepted, Declined, Dismissed, InvalidAnswer
from mcp_server.handlers.input_required import row_of, rows_by_name
from mcp_server.schema.form import Form, form_schema
from mcp_server.schema.type_spec import InvalidArguments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping

    from mcp_core.engine.events import ClientPeer
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.methods import Method
    from mcp_core.types import (
        IncludeContext,
        ModelPreferences,
        RequestedSchema,
        Root,
        Tool,
        ToolChoice,
        WireObject,
    )
    from mcp_server.connection.channel import Call
    from mcp_server.connection.client_requests import Asking
    from mcp_server.handlers.input_required import Answer, InputRequired, Question
    from mcp_server.server import Server

__all__ = ["Asks"]

_CONTEXT_DECLARED: Final = between(R2025_11_25)
"""Where a client says whether a model may be shown what servers told."""

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")


@lru_cache(maxsize=256)
def _form(kind: Hashable) -> Form:
    """Forms are compiled once; the bound is for classes that are made while the server runs."""
    return form_schema(kind)


def _check_page(url: str) -> None:
    """Raises `ValueError` for what no user should be sent to."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as bad:
        raise ValueError(f"{url!r} is no URL of a page: {bad}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL of a page must not have a user or a password: everybody on the way sees it")
    if not host or parts.scheme not in {"http", "https"} or any(char <= " " or char == "\x7f" for char in url):
        raise ValueError(f"{url!r} is no URL of a page; one begins with https:// and a host, and has no blanks")
    from mcp_core.http.origin import is_loopback  # lazy: few tools send anybody anywhere, and stdio needs no HTTP

    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(f"{url!r} has to begin with https://; http:// is for pages of this machine")


@attrs.define
class _ByHand:
    """What a function that asks by hand has been told so far."""

    answers: dict[str, Answer] = attrs.field(factory=dict)
    state: JsonValue = None
    methods: dict[str, JsonValue] = attrs.field(factory=dict)
    """The method of each question, by its key."""

    @classmethod
    def of(cls, asking: Asking) -> _ByHand:
        """What earlier rounds brought."""
        plan = asking.plan()
        methods = plan["methods"] if isinstance(plan, dict) else None
        if not isinstance(plan, dict) or not isinstance(methods, dict):
            return cls()
        answers: dict[str, Answer] = {}
        for key, method in methods.items():
            answer = asking.answered(rows_by_name[str(method)], key)
            if answer is not None:
                answers[key] = cast("Answer", answer)  # read by the row
        return cls(answers, plan["state"], methods)


class Asks(ABC):
    """Asks the client.

    Args:
        server: The server.
        asking: How the client is asked.
    """

    __slots__ = ("_asking", "_hand", "_server")

    def __init__(self, server: Server, asking: Asking) -> None:
        self._server: Final = server
        self._asking: Final = asking
        self._hand: _ByHand | None = None

    @abstractmethod
    def _alive(self) -> Call:
        """The call. Raises `RuntimeError` when its handler has returned."""

    @property
    @abstractmethod
    def peer(self) -> ClientPeer:
        """The client: revision, capabilities, name, log level."""

    # --- asking ----------------------------------------------------------------------------------------------------

    async def elicit(
        self, form: type[T], message: str, *, key: str | None = None
    ) -> Accepted[T] | Declined | Dismissed:
        """Asks the user to fill in a form.

        Args:
            form: A dataclass, attrs class or `TypedDict` with flat fields: text, numbers, truth values, choices.
            message: What the user is told.
            key: What the question is called on 2026-07-28, where a client that knows the key may send the answer before
                it is asked. Made from the question by default, so that only this question can be answered.

        Returns:
            `Accepted` with an instance of `form`, `Declined` or `Dismissed`.

        Raises:
            RegistrationError: The class cannot be a form.
            LocalProtocolError: The client's revision has no such field; the error names it. Or another question of this
                handler has the same key.
            InvalidAnswer: What the client sent does not fit the form.
        """
        compiled = _form(cast("Hashable", form))  # as all classes are
        params = ElicitRequestFormParams(message=message, requested_schema=self._said(compiled))
        outcome = await self._elicit(params, key)
        if not isinstance(outcome, ElicitResult):
            return outcome
        try:
            # What `form_schema` reads are instances of what it was made from.
            return Accepted(cast("T", compiled.load(outcome.content or {})))
        except InvalidArguments as bad:
            problems = "; ".join(str(problem) for problem in bad.problems)
            raise InvalidAnswer(f"the client's answer does not fit the form: {problems}") from bad

    def _said(self, form: Form) -> RequestedSchema:
        """The form as the client's revision says it, or the converter says what cannot be said."""
        if self.peer.revision not in TitledSingleSelectEnumSchema.__wire__.alive:
            return form.legacy_schema
        return form.schema

    async def elicit_url(
        self, url: str, message: str, *, elicitation_id: str | None = None, key: str | None = None
    ) -> Accepted[None] | Declined | Dismissed:
        """Asks the user to visit a page: for a payment, a consent, or anything that must not pass through the client.

        Args:
            url: The page, by https, or by http on this machine. Others see it: it must not have secrets or let anybody in.
            message: What the user is told.
            elicitation_id: What `notifications/elicitation/complete` will name, in 2025-11-25; made up by default.
            key: What the question is called on 2026-07-28, see `elicit`.

        Returns:
            `Accepted` when the user agreed to go there, which does not mean that they are done; `Declined` or `Dismissed`.

        Raises:
            ValueError: That is no URL of a page that a user can be sent to: https, or http on the server's own machine.
            LocalProtocolError: The client's revision has no such question.
        """
        _check_page(url)
        elicitation_id = elicitation_id or secrets.token_urlsafe(16)
        params = ElicitRequestURLParams(message=message, url=url, elicitation_id=elicitation_id)
        outcome = await self._elicit(params, key)
        return Accepted(None) if isinstance(outcome, ElicitResult) else outcome

    async def _elicit(
        self, params: ElicitRequestFormParams | ElicitRequestURLParams, key: str | None
    ) -> ElicitResult | Declined | Dismissed:
        result = await self.ask(ELICITATION_CREATE, params, key=key)
        if result.action == "accept":
            return result
        return Declined() if result.action == "decline" else Dismissed()

    async def sample(
        self,
        messages: str | SamplingMessage | Iterable[SamplingMessage],
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        model_preferences: ModelPreferences | None = None,
        include_context: IncludeContext | None = None,
        temperature: float | None = None,
        stop_sequences: Iterable[str] | None = None,
        metadata: JsonObject | None = None,
        tools: Iterable[Tool] | None = None,
        tool_choice: ToolChoice | None = None,
        key: str | None = None,
    ) -> CreateMessageResult:
        """Asks the client's model. Spec: client/sampling

        Args:
            messages: The conversation; a text stands for one message of the user. What the assistant called is followed
                by the results.
            max_tokens: The most tokens that the answer may have.
            system_prompt: The system prompt that the server would like.
            model_preferences: What matters when the client chooses the model.
            include_context: Which servers' context the model shall see; left out where the client declares no such thing.
            temperature: The temperature.
            stop_sequences: Where the model shall stop.
            metadata: For the provider of the model.
            tools: The tools that the model may call, since 2025-11-25; the caller runs them.
            tool_choice: Whether the model may, must or must not call tools.
            key: What the question is called on 2026-07-28, see `elicit`.

        Returns:
            What the model says. Its `content` is one block, or a tuple of them.

        Raises:
            ValueError: Calls of tools and their results do not belong to each other.
            LocalProtocolError: The client's revision has no tools in sampling, or no such content.
        """
        if isinstance(messages, str):
            messages = SamplingMessage(role="user", content=TextContent(text=messages))
        conversation = (messages,) if isinstance(messages, SamplingMessage) else tuple(messages)
        problem = why_no_conversation(conversation)
        if problem is not None:
            raise ValueError(f"no conversation with a model: {problem}")
        params = CreateMessageRequestParams(
            messages=conversation,
            max_tokens=max_tokens,
            system_prompt=system_prompt,
            model_preferences=model_preferences,
            include_context=include_context if self._knows_context() else None,
            temperature=temperature,
            stop_sequences=None if stop_sequences is None else tuple(stop_sequences),
            metadata=metadata,
            tools=None if tools is None else tuple(tools),
            tool_choice=tool_choice,
        )
        return await self.ask(SAMPLING_CREATE_MESSAGE, params, key=key)

    def _knows_context(self) -> bool:
        """Whether the client may be asked to show a model what servers told; before 2025-11-25 nobody says so."""
        peer = self.peer
        sampling = peer.capabilities.sampling
        return peer.revision not in _CONTEXT_DECLARED or (sampling is not None and sampling.context is not None)

    async def list_roots(self, *, key: str | None = None) -> tuple[Root, ...]:
        """Asks the client for the folders that the server may work in. Spec: client/roots

        Args:
            key: What the question is called on 2026-07-28, see `elicit`.

        Returns:
            What the client names, which may be nothing. It is advice, and no permission of the operating system.
        """
        return (await self.ask(ROOTS_LIST, ListRootsRequestParams(), key=key)).roots

    async def ask(self, row: Method[P, R], params: P, *, key: str | None = None) -> R:
        """Asks the client by a method: one that has no function here, or not in all its forms.

        Args:
            row: The method.
            params: Its parameters, an instance of `row.params`.
            key: What the question is called on 2026-07-28, see `elicit`.

        Returns:
            The answer, an instance of `row.result`.

        Raises:
            LocalProtocolError: The client's revision has no such question, or cannot say it.
        """
        call = self._alive()
        if call.pace is not None:
            await call.pace.flush()

        def ask(params: object) -> Awaitable[object]:
            return self._asking.ask(row, cast("WireObject", params), key)  # as all parameters are

        answer = await self._server._service.asked(row, params, call.request.peer.revision, ask)  # noqa: SLF001  # one package
        return cast("R", answer)  # read by the row

    # --- by hand ---------------------------------------------------------------------------------------------------

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What the client answered to what an `InputRequired` of this function asked before, by the keys of the questions.

        A client may leave a question without an answer.
        """
        self._alive()
        return self._by_hand().answers

    @property
    def round_state(self) -> JsonValue:
        """The `state` of the `InputRequired` that this function returned last; `None` in the first round."""
        self._alive()
        return self._by_hand().state

    def _by_hand(self) -> _ByHand:
        if self._hand is None:
            self._hand = _ByHand.of(self._asking)
        return self._hand

    async def _require(self, required: InputRequired) -> None:
        """Asks what a function returned. Returns when the answers are there, unless another round brings them."""
        hand = self._by_hand()
        try:
            hand.state = orjson.loads(orjson.dumps(required.state))
        except TypeError as error:
            raise InvalidResult(f"the state of an InputRequired is not JSON: {error}") from error
        rows = {key: row_of(question) for key, question in required.questions.items()}
        hand.methods.update({key: row.name for key, row in rows.items()})
        self._asking.keep_plan({"state": hand.state, "methods": {**hand.methods}})

        async def ask(key: str, question: Question) -> None:
            hand.answers[key] = cast("Answer", await self.ask(rows[key], question, key=key))

        async with trio.open_nursery() as nursery:
            for key, question in required.questions.items():
                nursery.start_soon(ask, key, question)

    # --- for side effects ------------------------------------------------------------------------------------------

    @overload
    async def once(self, key: str, function: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def once(self, key: str, function: Callable[[], T]) -> T: ...
    async def once(self, key: str, function: Callable[[], object]) -> object:
        """Runs a function with a side effect once for this request, however often the handler runs.

        On 2026-07-28 a handler that asks the client runs again from its top with each answer. What must not happen
        again, as to book or to pay, goes through here: its result is kept in the sealed state of the request.

        Args:
            key: Tells this side effect from others of the same handler.
            function: Is called without arguments; its result must be JSON. It cannot ask the client.

        Returns:
            What the function gave, now or in an earlier round.

        Raises:
            TypeError: The result is not JSON.
        """
        self._alive()
        return await self._asking.once(key, function)
