"""Client requests of a server: received as requests (legacy), or as input requests in a result (2026-07-28).

Both forms call the same functions of `Handlers`.
"""

from __future__ import annotations

import logging
import re
import reprlib
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from mcp_client.connection.elicitation import elicit_result, why_unfit
from mcp_client.handlers import check_roots
from mcp_client.worker_threads import WorkerThreads
from mcp_core.errors import ErrorCode, LocalProtocolError, RequestFailed
from mcp_core.excerpts import shown
from mcp_core.features.sampling import why_no_answer, why_no_conversation
from mcp_core.methods import ELICITATION_CREATE, NOTIFICATIONS_MESSAGE, ROOTS_LIST, SAMPLING_CREATE_MESSAGE
from mcp_core.trio.async_library import call_in, caller_library
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsRequest,
    ListRootsRequestParams,
    ListRootsResult,
    LoggingMessageNotificationParams,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_client.connection.middleware import MiddlewareChain
    from mcp_client.handlers import Handlers, SampleHandler
    from mcp_core.engine.events import NotificationReceived, RequestReceived
    from mcp_core.jsonrpc.messages import JsonValue
    from mcp_core.types import InputRequest, InputResponse

__all__ = ["ClientRequestHandler"]

_log: Final = logging.getLogger("mcp_client")
_server_log: Final = logging.getLogger("mcp_client.server")

_LOGGED_CHARS: Final = 2_000
_EXCERPTS: Final = reprlib.Repr()
_EXCERPTS.maxstring = _EXCERPTS.maxother = _LOGGED_CHARS
_EXCERPTS.maxdict = _EXCERPTS.maxlist = 50

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}

_PAGE: Final = re.compile(r"https?://[^/?#]", re.IGNORECASE)

P = ParamSpec("P")
T = TypeVar("T")

_ANSWERS: Final[Mapping[str, type[InputResponse]]] = {
    ELICITATION_CREATE.name: ElicitResult,
    SAMPLING_CREATE_MESSAGE.name: CreateMessageResult,
    ROOTS_LIST.name: ListRootsResult,
}
"""The result class of each client request, by method."""

_ROOTS: Final = ListRootsRequestParams()


class ClientRequestHandler:
    """The dispatcher of client requests and notifications to the handlers of the application.

    Args:
        handlers: The functions of the application.
        middleware: The middleware chain of the connection.
    """

    def __init__(self, handlers: Handlers, middleware: MiddlewareChain) -> None:
        self._handlers: Final = handlers
        self._middleware: Final = middleware
        self._threads: Final = WorkerThreads()

    async def answer(self, event: RequestReceived) -> object:
        """Return the result of a request of the server, or the error to send. Failures of handlers are logged here."""
        definition, id = event.definition, event.id
        own = self._handlers.methods.get(definition)
        handler = self._ask if own is None else partial(self._call, own)
        try:
            return await self._middleware.answer(definition.name, event.params, handler, raw=event.raw, id=id)
        except RequestFailed as failure:
            return failure
        except Exception:  # noqa: BLE001  the user's function: the server gets an internal error without details
            _log.exception("the handler of %s failed", definition.name)
            return RequestFailed("Internal error", code=ErrorCode.INTERNAL_ERROR)
        except BaseExceptionGroup as group:
            # The handler was cancelled while one of its tasks failed. Only the cancellation propagates.
            failed, rest = group.split(Exception)
            if failed is not None:
                _log.error("the handler of %s failed", definition.name, exc_info=failed)
            raise rest or group from None

    async def answer_input_request(self, input_request: InputRequest) -> InputResponse:
        """Return the input response to an input request.

        Exceptions of the handler propagate: there is no error response to an input request.
        """
        params = _ROOTS if isinstance(input_request, ListRootsRequest) else input_request.params
        answer = await self._middleware.answer(input_request.method, params, self._ask)
        expected = _ANSWERS[input_request.method]
        if isinstance(answer, dict):
            return self._middleware.read(answer, expected)
        return _checked(answer, expected)

    async def _ask(self, params: object) -> InputResponse:
        handlers = self._handlers
        if isinstance(params, ListRootsRequestParams) and handlers.roots is not None:
            if callable(handlers.roots):
                return ListRootsResult(roots=check_roots(await self._call(handlers.roots)))
            return ListRootsResult(roots=tuple(handlers.roots))
        if isinstance(params, ElicitRequestFormParams) and handlers.elicit is not None:
            return _fitting(params, elicit_result(await self._call(handlers.elicit, params)))
        if isinstance(params, ElicitRequestURLParams) and handlers.elicit_url is not None:
            _check_page(params.url)
            return _fitting(params, elicit_result(await self._call(handlers.elicit_url, params)))
        if isinstance(params, CreateMessageRequestParams) and handlers.sample is not None:
            return await self._sample(handlers.sample, params)
        # The engine rejects client requests without a declared capability, so this line is a safeguard.
        raise RequestFailed("this client does not support the method", code=ErrorCode.METHOD_NOT_FOUND)

    async def _sample(self, sample: SampleHandler, params: CreateMessageRequestParams) -> CreateMessageResult:
        problem = why_no_conversation(params.messages)
        if problem is not None:
            raise RequestFailed(f"invalid sampling messages: {problem}", code=ErrorCode.INVALID_PARAMS)
        answer = _checked(await self._call(sample, params), CreateMessageResult)
        problem = why_no_answer(params, answer)
        if problem is not None:
            raise LocalProtocolError(
                f"`Handlers.sample` returned an invalid result: {problem}", anchor="client/sampling"
            )
        return answer

    async def _call(self, function: Callable[P, Awaitable[T] | T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a handler: a coroutine function on the library that it is written for, a plain one in a thread."""
        result = await self._threads.call(function, *arguments, **options)
        if not isinstance(result, Awaitable):
            return result
        # A coroutine can be created here: it starts to run where it is awaited.
        return await call_in(caller_library(), lambda: result)

    def notified(self, event: NotificationReceived) -> None:
        """Call the handler of a notification. Log messages go to `Handlers.log`, or else to a logger."""
        own = self._handlers.notifications.get(event.definition)
        if own is not None:
            try:
                own(event.params)
            except Exception:  # noqa: BLE001  the user's function: its failure must not end a connection that works
                _log.exception("notification handler failed: method=%s", event.method)
        self._logged(event)

    def _logged(self, event: NotificationReceived) -> None:
        params = event.params
        if event.definition is not NOTIFICATIONS_MESSAGE or not isinstance(params, LoggingMessageNotificationParams):
            return
        if self._handlers.log is None:
            _server_log.log(_LEVELS[params.level], "%s: %s", shown(params.logger or "server"), _excerpt(params.data))
            return
        try:
            self._handlers.log(params)
        except Exception:  # noqa: BLE001  the user's function: its failure must not end a connection that works
            _log.exception("the handler of log messages failed")


def _check_page(url: str) -> None:
    """Reject URLs other than web pages: an application might open a script, a file or a local program.

    Only the user can decide whether to trust a page.
    """
    if not _PAGE.match(url):
        raise RequestFailed("the user can only be sent to an http or https URL", code=ErrorCode.INVALID_PARAMS)


def _fitting(params: ElicitRequestFormParams | ElicitRequestURLParams, answer: ElicitResult) -> ElicitResult:
    problem = why_unfit(params, answer)
    if problem is not None:
        raise LocalProtocolError(f"the elicitation result is invalid: {problem}", anchor="client/elicitation")
    return answer


def _checked(answer: object, wanted: type[T]) -> T:
    if not isinstance(answer, wanted):
        raise TypeError(f"a handler must return {wanted.__name__}, not {type(answer).__name__}")
    return answer


def _excerpt(data: JsonValue) -> str:
    """Return an excerpt of the data of a log message: a server may send 16 MiB."""
    return _EXCERPTS.repr(data)[:_LOGGED_CHARS]
