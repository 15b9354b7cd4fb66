"""Guards: middleware that restricts what a server may do, and which of its tools the application calls.

    async with open_stdio(command, middleware=[ToolFilter(deny=["delete_*"]), Consent(call=ask_user)]) as client: ...

A server is untrusted, and so are its names, descriptions, annotations and results. Hints like `readOnlyHint` do not
replace the consent of the user, unless the server is trusted. The guards run in the client, so a server cannot bypass
them. Use separate guards for each connection: then one server cannot use up the limits of another.

Spec: server/tools#security-considerations, client/sampling, client/roots, client/elicitation
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, ParamSpec, TypeAlias, TypeVar

import attrs
import trio

from mcp_client.worker_threads import WorkerThreads
from mcp_core.conversion.converter import converter
from mcp_core.errors import ErrorCode, LimitExceeded, McpError, RequestFailed
from mcp_core.limits.rates import Rate, Rates
from mcp_core.methods import ROOTS_LIST, TOOLS_LIST
from mcp_core.middleware import Middleware
from mcp_core.trio.async_library import allow_asyncio, call_in, library_of
from mcp_core.types import (
    CallToolRequestParams,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsResult,
    ListToolsResult,
    Root,
    WireObject,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.middleware import MiddlewareMessage, Proceed

__all__ = [
    "CallConsent",
    "Consent",
    "ElicitConsent",
    "NotAllowed",
    "Rate",
    "RateLimit",
    "RootConsent",
    "SampleConsent",
    "SampledConsent",
    "ToolFilter",
]

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W", bound=WireObject)

_USER_REJECTED: Final = -1
"""The error code for rejected sampling requests in the examples of the specification."""

CallConsent: TypeAlias = Callable[[CallToolRequestParams], Awaitable[bool] | bool]
"""A function that returns whether a tool call with these arguments may be sent."""

SampleConsent: TypeAlias = Callable[
    [CreateMessageRequestParams], Awaitable[CreateMessageRequestParams | None] | CreateMessageRequestParams | None
]
"""A function that returns the sampling request to pass to the model, changed or not; `None` to reject the request."""

SampledConsent: TypeAlias = Callable[
    [CreateMessageRequestParams, CreateMessageResult],
    Awaitable[CreateMessageResult | None] | CreateMessageResult | None,
]
"""A function that returns the sampling result to send to the server, changed or not; `None` to reject the request."""

ElicitConsent: TypeAlias = Callable[[ElicitRequestFormParams | ElicitRequestURLParams], Awaitable[bool] | bool]
"""A function that returns whether to show an elicitation, by form or by URL, to the user."""

RootConsent: TypeAlias = Callable[[Root], Awaitable[bool] | bool]
"""A function that returns whether the server may see a root."""


class NotAllowed(McpError):
    """The application does not allow the request. Nothing was sent."""


class ToolFilter(Middleware):
    """A filter of the tools that the application can list and call.

    Patterns are those of file names: `*`, `?`, `[...]`. They are case-sensitive.

    Args:
        allow: Patterns of the allowed names; `None` to allow all names.
        deny: Patterns of denied names. They take precedence over `allow`.
    """

    def __init__(self, *, allow: Iterable[str] | None = None, deny: Iterable[str] = ()) -> None:
        self._allow: Final = None if allow is None else tuple(allow)
        self._deny: Final = tuple(deny)

    def allows(self, name: str) -> bool:
        """Return whether the application can list and call the tool with this name."""
        if any(fnmatchcase(name, pattern) for pattern in self._deny):
            return False
        return self._allow is None or any(fnmatchcase(name, pattern) for pattern in self._allow)

    @allow_asyncio
    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        """Reject calls of denied tools with `NotAllowed`, and remove denied tools from lists."""
        if message.incoming:
            return await proceed(message)
        if isinstance(message.params, CallToolRequestParams) and not self.allows(message.params.name):
            raise NotAllowed(f"the tool {message.params.name!r} is not allowed here; the setting is ToolFilter")
        result = await proceed(message)
        if message.method == TOOLS_LIST.name:
            result = _read(result, ListToolsResult, message)
            return attrs.evolve(result, tools=tuple(tool for tool in result.tools if self.allows(tool.name)))
        return result


class Consent(Middleware):
    """Consent of the user, or of a policy, to requests. Requests without a function here need no consent.

    The functions are coroutine functions, or plain functions, which run in worker threads.

    Args:
        call: Called before a tool call is sent. Without consent `NotAllowed` is raised, and nothing is sent. A multi
            round-trip request needs consent for each round trip.
        sample: Called before a sampling request is passed to the model. Without consent the server gets an error.
        sampled: Called before a sampling result is sent to the server. Without consent the server gets an error. In
            2026-07-28 there is no error response to an input request: the tool call ends and raises the error.
        elicit: Called before an elicitation is shown to the user. Without consent the result is `decline`.
        root: Called for each root before the server sees it. Without consent the root is removed from the list.
    """

    def __init__(
        self,
        *,
        call: CallConsent | None = None,
        sample: SampleConsent | None = None,
        sampled: SampledConsent | None = None,
        elicit: ElicitConsent | None = None,
        root: RootConsent | None = None,
    ) -> None:
        self._call: Final = call
        self._sample: Final = sample
        self._sampled: Final = sampled
        self._elicit: Final = elicit
        self._root: Final = root
        self._threads: Final = WorkerThreads()

    @allow_asyncio
    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        """Request consent for one request, as the functions of this guard require."""
        params = message.params
        if not message.incoming:
            if (
                isinstance(params, CallToolRequestParams)
                and self._call is not None
                and not await self._of(self._call, params)
            ):
                raise NotAllowed(f"the call of the tool {params.name!r} was not consented to")
            return await proceed(message)
        if isinstance(params, CreateMessageRequestParams):
            return await self._sampling(message, params, proceed)
        if (
            isinstance(params, ElicitRequestFormParams | ElicitRequestURLParams)
            and self._elicit is not None
            and not await self._of(self._elicit, params)
        ):
            return ElicitResult(action="decline")
        result = await proceed(message)
        if message.method == ROOTS_LIST.name and self._root is not None:
            result = _read(result, ListRootsResult, message)
            return attrs.evolve(
                result, roots=tuple([root for root in result.roots if await self._of(self._root, root)])
            )
        return result

    async def _of(self, function: Callable[P, Awaitable[T] | T], *arguments: P.args, **options: P.kwargs) -> T:
        """Return the decision of a function, which runs on the library of the application."""
        given = await self._threads.call(function, *arguments, **options)
        if not isinstance(given, Awaitable):
            return given
        decision: T = await call_in(library_of(function), lambda: given)
        return decision

    async def _sampling(
        self, message: MiddlewareMessage, params: CreateMessageRequestParams, proceed: Proceed
    ) -> object:
        sent_params: CreateMessageRequestParams | None = params
        if self._sample is not None:
            sent_params = await self._of(self._sample, params)
        if sent_params is None:
            raise _rejected()
        result = await proceed(attrs.evolve(message, params=sent_params))
        if self._sampled is None:
            return result
        given = await self._of(self._sampled, sent_params, _read(result, CreateMessageResult, message))
        if given is None:
            raise _rejected()
        return given


def _read(result: object, expected: type[W], message: MiddlewareMessage) -> W:
    """Return a result as an instance of its class: a handler or another middleware may return the wire form.

    Raises:
        TypeError: The result has another class.
        InvalidValue: The wire form is invalid.
    """
    if isinstance(result, dict) and message.revision is not None:
        result = converter(message.revision).structure(result, expected)
    if not isinstance(result, expected):
        raise TypeError(f"the result of {message.method} is {type(result).__name__}, not {expected.__name__}")
    return result


def _rejected() -> RequestFailed:
    return RequestFailed("User rejected sampling request", code=_USER_REJECTED)


class RateLimit(Middleware):
    """Rate limits for tool calls, and for the sampling requests and elicitations of a server.

    Above a limit, a tool call raises `LimitExceeded`, and a request of the server gets an error response.

    Args:
        calls: The rate of tool calls by the application.
        samples: The rate of sampling requests.
        tokens: The rate of sampled tokens. Each request counts with its `maxTokens`, which limits its cost.
        elicitations: The rate of elicitations.
    """

    def __init__(
        self,
        *,
        calls: Rate | None = None,
        samples: Rate | None = None,
        tokens: Rate | None = None,
        elicitations: Rate | None = None,
    ) -> None:
        self._calls: Final = None if calls is None else Rates(calls)
        self._samples: Final = None if samples is None else Rates(samples)
        self._tokens: Final = None if tokens is None else Rates(tokens)
        self._elicitations: Final = None if elicitations is None else Rates(elicitations)

    @allow_asyncio
    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        """Check the rate limits of one request."""
        params = message.params
        if not message.incoming:
            if isinstance(params, CallToolRequestParams) and self._calls is not None and _wait(self._calls):
                rate = self._calls.rate
                allowed = math.floor(rate.amount)
                limit = f"calls of tools in {rate.seconds:g} seconds"
                raise LimitExceeded(limit, observed=allowed + 1, allowed=allowed, setting="RateLimit.calls")
        elif isinstance(params, CreateMessageRequestParams):
            # A request that is rejected for its tokens still counts as a request: retries do not help a server.
            _refuse(_wait(self._samples), "sampling requests", "RateLimit.samples")
            _refuse(_wait(self._tokens, params.max_tokens), "tokens", "RateLimit.tokens")
        elif isinstance(params, ElicitRequestFormParams | ElicitRequestURLParams):
            _refuse(_wait(self._elicitations), "elicitations", "RateLimit.elicitations")
        return await proceed(message)


def _wait(rates: Rates | None, amount: float = 1.0) -> float:
    return 0.0 if rates is None else rates.take("", trio.current_time(), amount)


def _refuse(wait: float, what: str, setting: str) -> None:
    if wait:
        after = "" if wait == math.inf else f"; try again in {math.ceil(wait)} seconds"
        raise RequestFailed(f"too many {what} for this client{after} ({setting})", code=ErrorCode.INTERNAL_ERROR)
