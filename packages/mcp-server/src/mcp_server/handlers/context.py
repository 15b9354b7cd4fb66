"""The context of a request: progress, log messages, client requests."""

from __future__ import annotations

import inspect
import logging
import secrets
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, TypeVar, cast, overload
from urllib.parse import urlsplit

import attrs
import orjson
import trio

from mcp_core.features.elicitation import ElicitationAccepted, ElicitationCancelled, ElicitationDeclined
from mcp_core.features.sampling import why_no_conversation
from mcp_core.methods import (
    ELICITATION_CREATE,
    NOTIFICATIONS_MESSAGE,
    NOTIFICATIONS_PROGRESS,
    ROOTS_LIST,
    SAMPLING_CREATE_MESSAGE,
)
from mcp_core.revisions import R2025_11_25, between
from mcp_core.schema.form import Form, form_schema
from mcp_core.schema.type_spec import InvalidArguments
from mcp_core.trio.async_library import allow_asyncio, call_in
from mcp_core.types import (
    LOGGING_LEVELS,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsRequestParams,
    LoggingMessageNotificationParams,
    ProgressNotificationParams,
    SamplingMessage,
    TextContent,
    TitledSingleSelectEnumSchema,
)
from mcp_core.types.meta import PROGRESS_TOKEN
from mcp_server.connection.client_requests import check_client_request, client_requests_of
from mcp_server.connection.throttle import ProgressThrottle
from mcp_server.errors import InvalidResult, RegistrationError
from mcp_server.handlers.access import principal_of
from mcp_server.handlers.elicitation import InvalidAnswer
from mcp_server.handlers.input_required import definition_of, definitions_by_name
from mcp_server.schema.signature import log_causes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping

    from mcp_core.engine.events import ClientPeer
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, RequestId
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.oauth.principal import Principal
    from mcp_core.schema.hooks import HookConverter
    from mcp_core.types import (
        IncludeContext,
        LoggingLevel,
        ModelPreferences,
        RequestedSchema,
        Root,
        Tool,
        ToolChoice,
        WireObject,
    )
    from mcp_server.connection.channel import ClientRequests, RequestContext, Throttle
    from mcp_server.handlers.environment import HandlerEnvironment, HandlerServer
    from mcp_server.handlers.input_required import Answer, ClientRequestParams, InputRequired

__all__ = ["Context", "context_of"]

_log: Final = logging.getLogger("mcp_server")

_CONTEXT_DECLARED: Final = between(R2025_11_25)
"""Revisions in which a client declares support of `includeContext` in sampling."""

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")


@lru_cache(maxsize=256)
def _form(kind: Hashable, converter: Hashable) -> Form:
    """Compile a form, once for each class. The cache is bounded because classes can be created at run time."""
    return form_schema(kind, RegistrationError, cast("HookConverter | None", converter))


def _check_page(url: str) -> None:
    """Raise `ValueError` unless `url` has https, or http on this machine, and no user or password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as bad:
        raise ValueError(f"{url!r} is not the URL of a page: {bad}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL of a page must not have a user or a password: third parties can see the URL")
    if not host or parts.scheme not in {"http", "https"} or any(char <= " " or char == "\x7f" for char in url):
        raise ValueError(f"{url!r} is not the URL of a page: use https:// with a host and without blanks")
    from mcp_core.http.origin import is_loopback  # lazy: few tools use URL elicitation, and stdio does not use HTTP

    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(f"{url!r} must begin with https://; http:// is allowed for pages of this machine")


@attrs.define
class _ManualRetry:
    """The input responses and the state of a function that returns `InputRequired`."""

    answers: dict[str, Answer] = attrs.field(factory=dict)
    state: JsonValue = None
    methods: dict[str, JsonValue] = attrs.field(factory=dict)
    """Method of each input request, by its key."""

    @classmethod
    def of(cls, client_requests: ClientRequests) -> _ManualRetry:
        """Restore the input responses of earlier round trips."""
        plan = client_requests.plan()
        methods = plan["methods"] if isinstance(plan, dict) else None
        if not isinstance(plan, dict) or not isinstance(methods, dict):
            return cls()
        answers: dict[str, Answer] = {}
        for key, method in methods.items():
            answer = client_requests.answered(definitions_by_name[str(method)], key)
            if answer is not None:
                answers[key] = cast("Answer", answer)  # converted to the class of the method
        return cls(answers, plan["state"], methods)


class Context:
    """One request, from the view of its handler. A function receives it in a parameter annotated with `Context`.

    Tasks of trio and of asyncio can await the methods. It cannot be used after the handler has returned. A plain function, which runs in a worker thread, takes a
    `SyncContext` instead.

    The methods that send a client request raise `RequestFailed` if the client responds with an error, `ConnectionEnded`
    if the client disconnects, and `MissingRequiredClientCapability` if the client did not declare the capability. On
    2026-07-28 a client request ends the handler. It runs **again from its top** when the client has responded. See
    `once`.
    """

    __slots__ = ("_call", "_client_requests", "_ended", "_environment", "_retry")

    def __init__(self, call: RequestContext, environment: HandlerEnvironment, client_requests: ClientRequests) -> None:
        self._call: Final = call
        self._environment: Final = environment
        self._client_requests: Final = client_requests
        self._retry: _ManualRetry | None = None
        self._ended = False

    def __repr__(self) -> str:
        return f"<Context of {self._call.request.method} {self._call.request.id!r}>"

    # --- properties of the request ---------------------------------------------------------------------------------

    @property
    def peer(self) -> ClientPeer:
        """The client: revision, capabilities, name, log level."""
        return cast("ClientPeer", self._alive().request.peer)  # the peer of a server is a client

    @property
    def request_id(self) -> RequestId:
        """The id of the request."""
        return self._alive().request.id

    @property
    def method(self) -> str:
        """The method of the request."""
        return self._alive().request.method

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of the request as received; empty if the request does not have it."""
        meta = self._alive().request.raw.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def principal(self) -> Principal | None:
        """The authenticated principal of the client; `None` without authentication, for example on stdio."""
        return principal_of(self._alive())

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the request's access token.

        Empty without a token, and in a task that was started in an earlier process.
        """
        identity = self._alive().identity
        return frozenset() if identity is None else identity.scopes

    @property
    def http(self) -> HttpRequest | None:
        """The HTTP request: its headers and the address of the sender; `None` on stdio and other streams.

        The headers with credentials are removed: `Authorization`, `DPoP`, `Proxy-Authorization`, `Cookie`. A token for
        this server must not be sent to another server.
        """
        return self._alive().http

    @property
    def task(self) -> str | None:
        """The id of the task that the handler runs for; `None` in an ordinary request."""
        return self._alive().task

    @property
    def server(self) -> HandlerServer:
        """The server."""
        return self._environment.server

    def state(self, kind: type[T]) -> T:
        """Return the value that the server's `lifespan` yielded.

        Args:
            kind: The class of the value, or a base class of it.

        Raises:
            NotRunning: The lifespan of the server has not started.
            LocalProtocolError: The value has another class, or the server has no `lifespan`.
        """
        self._alive()
        return self._environment.life.state(kind)

    # --- progress, log messages, notifications ---------------------------------------------------------------------

    @allow_asyncio
    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the request. Without effect if the client did not request progress, except in a task.

        Progress above `Limits.progress_per_second` is delayed. The latest value is sent with the next report that the
        limit allows, before a client request, or before the response.

        Args:
            progress: The progress so far, in any unit. A value that is not greater than the last one is not sent.
            total: The progress at the end, in the same unit, if it is known.
            message: The current step, for the user. In a task it becomes the status message.
        """
        call = self._alive()
        token = self.meta.get(PROGRESS_TOKEN)
        if call.task is not None and not isinstance(token, str | int):
            token = call.task
        if isinstance(token, str | int):
            params = ProgressNotificationParams(progress_token=token, progress=progress, total=total, message=message)
            said = self._notification_params(NOTIFICATIONS_PROGRESS, params)
            if said is not None:
                await self._throttle(call).progress(said)
        await trio.lowlevel.checkpoint()

    def _throttle(self, call: RequestContext) -> Throttle:
        if call.throttle is None:
            call.throttle = ProgressThrottle(call, self._environment.redact)
        return call.throttle

    def _notification_params(self, definition: NotificationMethod[object], params: P) -> P | None:
        """Return the parameters of a notification after the middleware, or `None` if the middleware dropped it."""
        revision = self._call.request.peer.revision
        through = self._environment.middleware.outbound_notification(definition, params, revision)
        return cast("P | None", through)  # the middleware keeps the class

    @allow_asyncio
    async def log(self, level: LoggingLevel, data: JsonValue, logger: str | None = None) -> None:
        """Send the client a log message, if the client has requested messages of this level.

        Messages above `Limits.log_messages_per_second` are dropped. The next message reports how many. The server's
        `redact` function processes the data before it is sent.

        Args:
            level: The severity.
            data: The message: text, or any JSON value. It must not contain secrets.
            logger: The name of the part of the server that logs.

        Raises:
            ValueError: `level` is not a level of the protocol.
        """
        call = self._alive()
        if level not in LOGGING_LEVELS:
            raise ValueError(f"unknown log level {level!r}; the levels are {', '.join(LOGGING_LEVELS)}")
        said = self._notification_params(
            NOTIFICATIONS_MESSAGE, LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        )
        if said is not None:
            await self._throttle(call).log(said)
        await trio.lowlevel.checkpoint()

    async def debug(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `debug`. See `log`."""
        await self.log("debug", data, logger)

    async def info(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `info`. See `log`."""
        await self.log("info", data, logger)

    async def warning(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `warning`. See `log`."""
        await self.log("warning", data, logger)

    async def error(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `error`. See `log`."""
        await self.log("error", data, logger)

    @allow_asyncio
    async def notify(self, definition: NotificationMethod[object], params: WireObject) -> None:
        """Send a notification that belongs to this request, for example one of an extension.

        Args:
            definition: The definition of the notification.
            params: Its parameters.

        Raises:
            LocalProtocolError: The client's revision does not define the notification, or the server did not declare
                its capability.
        """
        call = self._alive()
        through = self._notification_params(definition, params)
        if through is not None:
            await call.channel.send(call.channel.connection.notify(definition, through, for_request=call.request.id))
        await trio.lowlevel.checkpoint()

    @allow_asyncio
    async def begin_task(self) -> None:
        """Continue this tool call as a task. For tools with `start_as_task=False`.

        The client receives the task as the result, and the function runs **again from its top** in the background, as
        after a client request. Client requests that have a response are not sent again; see also `once`. In the task,
        this method has no effect. It also has no effect if the client does not support tasks, or the request is not a
        tool call.

        Raises:
            RequestFailed: The limit of tasks is reached.
            RuntimeError: The caller is shielded from cancellation.
        """
        call = self._alive()
        if call.begin_task is not None:
            await call.begin_task(call)
        await trio.lowlevel.checkpoint()

    @allow_asyncio
    async def release_stream(self) -> None:
        """Release the connection on which the client waits for the response, for a handler that runs long.

        Over HTTP on 2025-11-25, the server closes the stream. The client reconnects after `EndpointPolicy.retry`
        seconds and then receives the messages sent meanwhile. With other clients this method has no effect.
        """
        call = self._alive()
        await call.channel.release_stream(call)

    # --- client requests -------------------------------------------------------------------------------------------

    @allow_asyncio
    async def elicit(
        self, form: type[T], message: str, *, key: str | None = None
    ) -> ElicitationAccepted[T] | ElicitationDeclined | ElicitationCancelled:
        """Ask the user to fill in a form. Spec: client/elicitation

        Args:
            form: A dataclass, attrs class or `TypedDict` with flat fields: text, numbers, booleans, choices.
            message: The text that the user sees.
            key: The key of the input request on 2026-07-28. A client that knows the key can send the input response
                before it is requested. By default the key is derived from the request, so that it matches only this
                request.

        Returns:
            `ElicitationAccepted` with an instance of `form`, `ElicitationDeclined` or `ElicitationCancelled`.

        Raises:
            RegistrationError: The class cannot be a form.
            LocalProtocolError: The client's revision does not support a field, which the error names. Or another client
                request of this handler has the same key.
            InvalidAnswer: The client's response does not fit the form.
        """
        compiled = _form(cast("Hashable", form), cast("Hashable", self._environment.converter))  # classes are hashable
        params = ElicitRequestFormParams(message=message, requested_schema=self._said(compiled))
        outcome = await self._elicit(params, key)
        if not isinstance(outcome, ElicitResult):
            return outcome
        try:
            # `form_schema` returns a form whose `load` makes instances of the class that it was given.
            return ElicitationAccepted(cast("T", compiled.load(outcome.content or {})))
        except InvalidArguments as bad:
            log_causes(bad)
            problems = "; ".join(str(problem) for problem in bad.problems)
            raise InvalidAnswer(f"the elicitation result does not fit the form: {problems}") from bad

    def _said(self, form: Form) -> RequestedSchema:
        """Return the form's schema for the client's revision. The converter rejects what the revision does not have."""
        if self.peer.revision not in TitledSingleSelectEnumSchema.__wire__.alive:
            return form.legacy_schema
        return form.schema

    @allow_asyncio
    async def elicit_url(
        self, url: str, message: str, *, elicitation_id: str | None = None, key: str | None = None
    ) -> ElicitationAccepted[None] | ElicitationDeclined | ElicitationCancelled:
        """Ask the user to visit a page, for example to pay, to consent, or to enter data that the client must not see.

        Spec: client/elicitation

        Args:
            url: The URL of the page: https, or http on this machine. It is visible to third parties, so it must not
                contain secrets or grant access.
            message: The text that the user sees.
            elicitation_id: The id that `notifications/elicitation/complete` names in 2025-11-25. Random by default.
            key: The key of the input request on 2026-07-28, see `elicit`.

        Returns:
            `ElicitationAccepted` if the user agreed to visit the page, which does not mean that the user has finished there.
            Otherwise `ElicitationDeclined` or `ElicitationCancelled`.

        Raises:
            ValueError: The URL is not the URL of a page: https, or http on the server's own machine.
            LocalProtocolError: The client's revision does not have URL elicitation.
        """
        _check_page(url)
        elicitation_id = elicitation_id or secrets.token_urlsafe(16)
        params = ElicitRequestURLParams(message=message, url=url, elicitation_id=elicitation_id)
        outcome = await self._elicit(params, key)
        return ElicitationAccepted(None) if isinstance(outcome, ElicitResult) else outcome

    async def _elicit(
        self, params: ElicitRequestFormParams | ElicitRequestURLParams, key: str | None
    ) -> ElicitResult | ElicitationDeclined | ElicitationCancelled:
        result = await self.request(ELICITATION_CREATE, params, key=key)
        if result.action == "accept":
            return result
        return ElicitationDeclined() if result.action == "decline" else ElicitationCancelled()

    @allow_asyncio
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
        """Request a message from the client's model (sampling). Spec: client/sampling

        Args:
            messages: The conversation. A string is sent as one message of the user. A message with tool calls must be
                followed by their results.
            max_tokens: Maximum length of the response, in tokens.
            system_prompt: The system prompt that the server suggests.
            model_preferences: The priorities for the client's choice of the model.
            include_context: The servers whose context the model sees. Omitted if the client did not declare support.
            temperature: The sampling temperature.
            stop_sequences: Texts at which the model stops.
            metadata: Data for the provider of the model.
            tools: The tools that the model can call, since 2025-11-25. The caller runs them.
            tool_choice: Whether the model may, must or must not call tools.
            key: The key of the input request on 2026-07-28, see `elicit`.

        Returns:
            The model's message. Its `content` is one block, or a tuple of blocks.

        Raises:
            ValueError: The tool calls and tool results of the conversation do not match.
            LocalProtocolError: The client's revision does not have tools in sampling, or a kind of content.
        """
        if isinstance(messages, str):
            messages = SamplingMessage(role="user", content=TextContent(text=messages))
        conversation = (messages,) if isinstance(messages, SamplingMessage) else tuple(messages)
        problem = why_no_conversation(conversation)
        if problem is not None:
            raise ValueError(f"invalid sampling messages: {problem}")
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
        return await self.request(SAMPLING_CREATE_MESSAGE, params, key=key)

    def _knows_context(self) -> bool:
        """Return whether `includeContext` may be sent to the client. Before 2025-11-25 clients do not declare it."""
        peer = self.peer
        sampling = peer.capabilities.sampling
        return peer.revision not in _CONTEXT_DECLARED or (sampling is not None and sampling.context is not None)

    @allow_asyncio
    async def list_roots(self, *, key: str | None = None) -> tuple[Root, ...]:
        """Request the folders that the server may work in. Spec: client/roots

        Args:
            key: The key of the input request on 2026-07-28, see `elicit`.

        Returns:
            The client's roots; can be empty. They are advice, not permissions of the operating system.
        """
        return (await self.request(ROOTS_LIST, ListRootsRequestParams(), key=key)).roots

    @allow_asyncio
    async def request(self, definition: RequestMethod[P, R], params: P, *, key: str | None = None) -> R:
        """Send a client request that has no method here, or needs other parameters.

        Args:
            definition: The definition of the method.
            params: Its parameters, an instance of `row.params`.
            key: The key of the input request on 2026-07-28, see `elicit`.

        Returns:
            The result, an instance of `row.result`.

        Raises:
            LocalProtocolError: The client's revision does not have the method, or a parameter.
        """
        call = self._alive()
        if call.throttle is not None:
            await call.throttle.flush()

        def ask(params: object) -> Awaitable[object]:
            return self._client_requests.request(
                definition, cast("WireObject", params), key
            )  # all parameter classes are wire objects

        answer = await self._environment.middleware.outbound_request(
            definition, params, call.request.peer.revision, ask
        )
        return cast("R", answer)  # converted to the class of `row.result`

    # --- InputRequired ---------------------------------------------------------------------------------------------

    @property
    def answers(self) -> Mapping[str, Answer]:
        """The client's input responses to earlier `InputRequired` results of this function, by key.

        A client can omit an input response.
        """
        self._alive()
        return self._manual_retry().answers

    @property
    def retry_state(self) -> JsonValue:
        """The `state` of the `InputRequired` that this function returned last; `None` on the first call."""
        self._alive()
        return self._manual_retry().state

    def _manual_retry(self) -> _ManualRetry:
        if self._retry is None:
            self._retry = _ManualRetry.of(self._client_requests)
        return self._retry

    async def _require(self, required: InputRequired) -> None:
        """Send the input requests that a function returned. Return when all have a response.

        On 2026-07-28 this method returns only if the client has already sent the input responses. Otherwise the handler
        is cancelled, and the client retries the request.
        """
        hand = self._manual_retry()
        try:
            hand.state = orjson.loads(orjson.dumps(required.state))
        except TypeError as error:
            raise InvalidResult(f"the state of an InputRequired is not JSON: {error}") from error
        rows = {key: definition_of(request) for key, request in required.input_requests.items()}
        for key, request in required.input_requests.items():
            # Otherwise the user would be asked in vain for the one, because the client lacks the capability for another.
            check_client_request(self._call, rows[key], request)
        hand.methods.update({key: definition.name for key, definition in rows.items()})
        self._client_requests.keep_plan({"state": hand.state, "methods": {**hand.methods}})

        async def ask(key: str, request: ClientRequestParams) -> None:
            hand.answers[key] = cast("Answer", await self.request(rows[key], request, key=key))

        async with trio.open_nursery() as nursery:
            for key, request in required.input_requests.items():
                nursery.start_soon(ask, key, request)

    # --- side effects ----------------------------------------------------------------------------------------------

    @overload
    async def once(self, key: str, function: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def once(self, key: str, function: Callable[[], T]) -> T: ...
    async def once(self, key: str, function: Callable[[], object]) -> object:
        """Run a function with a side effect once for each request, even if the handler runs several times.

        On 2026-07-28 a handler that sends a client request runs again from its top after each response. Wrap each side
        effect that must not be repeated, for example a booking or a payment, in this method. The result is stored in
        the sealed state of the request.

        Args:
            key: The key of this side effect, unique within the handler.
            function: The function, called without arguments. Its result must be JSON. It cannot send client requests.

        Returns:
            The result of the function, from this run or an earlier one.

        Raises:
            TypeError: The result is not JSON.
        """
        self._alive()
        if not trio.lowlevel.in_trio_task():
            function = partial(call_in, "asyncio", partial(_value_of, function))
        return await self._once(key, function)

    @allow_asyncio
    async def _once(self, key: str, function: Callable[[], object]) -> object:
        return await self._client_requests.once(key, function)

    # --- for the server --------------------------------------------------------------------------------------------

    def _alive(self) -> RequestContext:
        if self._ended:
            raise RuntimeError(
                f"the context of request {self._call.request.id!r} is used after its handler has returned; "
                "a background task must not use the context of a finished request"
            )
        return self._call

    def _end(self) -> None:
        """Make the context unusable: the handler has returned."""
        self._ended = True


async def _value_of(function: Callable[[], object]) -> object:
    made = function()
    return await made if inspect.isawaitable(made) else made


def context_of(call: RequestContext, environment: HandlerEnvironment) -> Context:
    """Return a new context of a request. Raises `RequestFailed` if its `requestState` is invalid."""
    if call.client_requests is None:
        call.client_requests = client_requests_of(call, environment.keys, environment.input_policy)
    return Context(call, environment, call.client_requests)
