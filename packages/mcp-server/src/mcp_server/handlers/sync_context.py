"""The context of a request for a plain function, which runs in a worker thread.

Each method runs the method of `Context` in the task of the request, and blocks the worker thread until it returns. So
cancellation of the request ends a method that waits, as in a coroutine function.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcp_core.engine.events import ClientPeer
    from mcp_core.features.elicitation import ElicitationAccepted, ElicitationCancelled, ElicitationDeclined
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, RequestId
    from mcp_core.methods import NotificationMethod, RequestMethod
    from mcp_core.oauth.principal import Principal
    from mcp_core.types import (
        CreateMessageResult,
        IncludeContext,
        LoggingLevel,
        ModelPreferences,
        Root,
        SamplingMessage,
        Tool,
        ToolChoice,
        WireObject,
    )
    from mcp_server.handlers.context import Context
    from mcp_server.handlers.environment import HandlerServer
    from mcp_server.handlers.input_required import Answer

__all__ = ["SyncContext"]

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")


class SyncContext:
    """One request, from the view of a plain function. The function receives it in a parameter annotated with `SyncContext`.

    It has the properties and methods of `Context`. The methods block the worker thread, and raise the same exceptions.
    On 2026-07-28 a client request ends the function: an exception that is not an `Exception` propagates through it, so do
    not catch `BaseException`. The function runs **again from its top** when the client has responded. See `once`.

    Only the worker thread that runs the function can call the methods.
    """

    __slots__ = ("_context", "_limiter")

    def __init__(self, context: Context) -> None:
        self._context: Final = context
        # Its own: with the limiter of all handlers, each of the running ones could wait for a thread of the others.
        self._limiter: Final = trio.CapacityLimiter(1)

    def __repr__(self) -> str:
        return f"<Sync{repr(self._context)[1:]}"

    # --- properties of the request ---------------------------------------------------------------------------------

    @property
    def peer(self) -> ClientPeer:
        """The client, as `Context.peer`."""
        return self._context.peer

    @property
    def request_id(self) -> RequestId:
        """The id of the request."""
        return self._context.request_id

    @property
    def method(self) -> str:
        """The method of the request."""
        return self._context.method

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of the request as received; empty if the request does not have it."""
        return self._context.meta

    @property
    def principal(self) -> Principal | None:
        """The authenticated principal of the client, as `Context.principal`."""
        return self._context.principal

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the request's access token, as `Context.scopes`."""
        return self._context.scopes

    @property
    def http(self) -> HttpRequest | None:
        """The HTTP request without its credentials, as `Context.http`."""
        return self._context.http

    @property
    def task(self) -> str | None:
        """The id of the task that the function runs for; `None` in an ordinary request."""
        return self._context.task

    @property
    def server(self) -> HandlerServer:
        """The server."""
        return self._context.server

    @property
    def answers(self) -> Mapping[str, Answer]:
        """The input responses to earlier `InputRequired` results, as `Context.answers`."""
        return self._context.answers

    @property
    def retry_state(self) -> JsonValue:
        """The `state` of the `InputRequired` that this function returned last, as `Context.retry_state`."""
        return self._context.retry_state

    def state(self, kind: type[T]) -> T:
        """Return the value that the server's `lifespan` yielded, as `Context.state`."""
        return self._context.state(kind)

    # --- progress, log messages, notifications ---------------------------------------------------------------------

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the request, as `Context.progress`."""
        trio.from_thread.run(self._context.progress, progress, total, message)

    def log(self, level: LoggingLevel, data: JsonValue, logger: str | None = None) -> None:
        """Send the client a log message, as `Context.log`."""
        trio.from_thread.run(self._context.log, level, data, logger)

    def debug(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `debug`. See `log`."""
        self.log("debug", data, logger)

    def info(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `info`. See `log`."""
        self.log("info", data, logger)

    def warning(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `warning`. See `log`."""
        self.log("warning", data, logger)

    def error(self, data: JsonValue, logger: str | None = None) -> None:
        """Log at level `error`. See `log`."""
        self.log("error", data, logger)

    def notify(self, definition: NotificationMethod[object], params: WireObject) -> None:
        """Send a notification that belongs to this request, as `Context.notify`."""
        trio.from_thread.run(self._context.notify, definition, params)

    def begin_task(self) -> None:
        """Continue this tool call as a task, as `Context.begin_task`."""
        trio.from_thread.run(self._context.begin_task)

    def release_stream(self) -> None:
        """Release the connection on which the client waits for the response, as `Context.release_stream`."""
        trio.from_thread.run(self._context.release_stream)

    # --- client requests -------------------------------------------------------------------------------------------

    def elicit(
        self, form: type[T], message: str, *, key: str | None = None
    ) -> ElicitationAccepted[T] | ElicitationDeclined | ElicitationCancelled:
        """Ask the user to fill in a form, as `Context.elicit`."""
        return trio.from_thread.run(partial(self._context.elicit, form, message, key=key))

    def elicit_url(
        self, url: str, message: str, *, elicitation_id: str | None = None, key: str | None = None
    ) -> ElicitationAccepted[None] | ElicitationDeclined | ElicitationCancelled:
        """Ask the user to visit a page, as `Context.elicit_url`."""
        return trio.from_thread.run(
            partial(self._context.elicit_url, url, message, elicitation_id=elicitation_id, key=key)
        )

    def sample(
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
        """Request a message from the client's model, as `Context.sample`."""
        return trio.from_thread.run(
            partial(
                self._context.sample,
                messages,
                max_tokens=max_tokens,
                system_prompt=system_prompt,
                model_preferences=model_preferences,
                include_context=include_context,
                temperature=temperature,
                stop_sequences=stop_sequences,
                metadata=metadata,
                tools=tools,
                tool_choice=tool_choice,
                key=key,
            )
        )

    def list_roots(self, *, key: str | None = None) -> tuple[Root, ...]:
        """Request the folders that the server may work in, as `Context.list_roots`."""
        return trio.from_thread.run(partial(self._context.list_roots, key=key))

    def request(self, definition: RequestMethod[P, R], params: P, *, key: str | None = None) -> R:
        """Send a client request of any method, as `Context.request`."""
        return trio.from_thread.run(partial(self._context.request, definition, params, key=key))

    # --- side effects ----------------------------------------------------------------------------------------------

    def once(self, key: str, function: Callable[[], T]) -> T:
        """Run a plain function with a side effect once for each request, as `Context.once`. It runs in another thread."""

        def in_thread() -> Awaitable[T]:
            return trio.to_thread.run_sync(function, limiter=self._limiter)

        result: T = trio.from_thread.run(partial(self._context.once, key, in_thread))
        return result
