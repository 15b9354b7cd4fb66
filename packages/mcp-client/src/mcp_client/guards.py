"""What stands between a server and what an application lets it do, as middleware.

    async with open_stdio(command, middleware=[ToolFilter(deny=["delete_*"]), Consent(call=ask_user)]) as client: ...

A server is somebody else's program, and so is what it says: names, descriptions, annotations and results are untrusted
text. `readOnlyHint` and its like are no reason to leave a question out, unless the server is trusted. These guards run
on this side, so that no server can get around them. Give each connection guards of its own: then one server cannot use
up what another may have.

Spec: server/tools#security-considerations, client/sampling, client/roots, client/elicitation
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import attrs
import trio

from mcp_core.conversion.converter import converter
from mcp_core.errors import ErrorCode, LimitExceeded, McpError, RequestFailed
from mcp_core.limits.rates import Rate, Rates
from mcp_core.methods import ROOTS_LIST, TOOLS_LIST
from mcp_core.middleware import Middleware
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
    evolve,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.middleware import Passing, Proceed

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

W = TypeVar("W", bound=WireObject)

_USER_REJECTED: Final = -1
"""What the specification's examples answer when the user does not want a model to be asked."""

CallConsent: TypeAlias = Callable[[CallToolRequestParams], Awaitable[bool]]
"""Is shown a call of a tool, with its arguments, before it is sent. Says whether it may be."""

SampleConsent: TypeAlias = Callable[[CreateMessageRequestParams], Awaitable[CreateMessageRequestParams | None]]
"""Is shown what a server would like a model to be asked. Gives what it is asked, changed or not; `None`: nothing."""

SampledConsent: TypeAlias = Callable[
    [CreateMessageRequestParams, CreateMessageResult], Awaitable[CreateMessageResult | None]
]
"""Is shown what the model said. Gives what the server gets, changed or not; `None`: nothing."""

ElicitConsent: TypeAlias = Callable[[ElicitRequestFormParams | ElicitRequestURLParams], Awaitable[bool]]
"""Is shown a question to the user, or a page to be visited. Says whether the user is bothered with it."""

RootConsent: TypeAlias = Callable[[Root], Awaitable[bool]]
"""Is shown a directory before the server learns of it. Says whether it may."""


class NotAllowed(McpError):
    """This application does not let that happen. Nothing was sent."""


class ToolFilter(Middleware):
    """Which tools of a server there are for this application.

    The others are neither listed nor called. Patterns are those of file names: `*`, `?`, `[...]`; case matters.

    Args:
        allow: Only what one of these patterns fits; `None`: everything.
        deny: Not what one of these fits, even if it is allowed.
    """

    def __init__(self, *, allow: Iterable[str] | None = None, deny: Iterable[str] = ()) -> None:
        self._allow: Final = None if allow is None else tuple(allow)
        self._deny: Final = tuple(deny)

    def allows(self, name: str) -> bool:
        """Whether there is a tool of that name for this application."""
        if any(fnmatchcase(name, pattern) for pattern in self._deny):
            return False
        return self._allow is None or any(fnmatchcase(name, pattern) for pattern in self._allow)

    async def request(self, message: Passing, proceed: Proceed) -> object:
        """See `Middleware.request`."""
        if message.incoming:
            return await proceed(message)
        if isinstance(message.params, CallToolRequestParams) and not self.allows(message.params.name):
            raise NotAllowed(f"the tool {message.params.name!r} is not allowed here; the setting is ToolFilter")
        result = await proceed(message)
        if message.method == TOOLS_LIST.name:
            result = _read(result, ListToolsResult, message)
            return evolve(result, tools=tuple(tool for tool in result.tools if self.allows(tool.name)))
        return result


class Consent(Middleware):
    """Asks the user, or a policy, before something happens. What is left out happens without a question.

    Args:
        call: Before a tool is called. Refused: `NotAllowed` is raised, and nothing was sent. In a call of several rounds it
            is asked once for each.
        sample: Before a model is asked on behalf of the server. Refused: the server gets an error.
        sampled: Before the server gets what the model said. Refused: likewise. On 2026-07-28 no question can be answered by
            an error: there the call that the question belongs to ends, and raises it.
        elicit: Before the user is asked something on behalf of the server. Refused: the server is told that it was declined.
        root: Before the server learns of a directory. Refused: it does not stand in the list.
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

    async def request(self, message: Passing, proceed: Proceed) -> object:
        """See `Middleware.request`."""
        params = message.params
        if not message.incoming:
            if isinstance(params, CallToolRequestParams) and self._call is not None and not await self._call(params):
                raise NotAllowed(f"the call of the tool {params.name!r} was not consented to")
            return await proceed(message)
        if isinstance(params, CreateMessageRequestParams):
            return await self._sampling(message, params, proceed)
        if (
            isinstance(params, ElicitRequestFormParams | ElicitRequestURLParams)
            and self._elicit is not None
            and not await self._elicit(params)
        ):
            return ElicitResult(action="decline")
        result = await proceed(message)
        if message.method == ROOTS_LIST.name and self._root is not None:
            result = _read(result, ListRootsResult, message)
            return evolve(result, roots=tuple([root for root in result.roots if await self._root(root)]))
        return result

    async def _sampling(self, message: Passing, params: CreateMessageRequestParams, proceed: Proceed) -> object:
        asked: CreateMessageRequestParams | None = params
        if self._sample is not None:
            asked = await self._sample(params)
        if asked is None:
            raise _rejected()
        result = await proceed(attrs.evolve(message, params=asked))
        if self._sampled is None:
            return result
        given = await self._sampled(asked, _read(result, CreateMessageResult, message))
        if given is None:
            raise _rejected()
        return given


def _read(result: object, expected: type[W], message: Passing) -> W:
    """A result, also where a handler or another middleware gave it in its wire form. Raises where it is none."""
    if isinstance(result, dict) and message.revision is not None:
        result = converter(message.revision).structure(result, expected)
    if not isinstance(result, expected):
        raise TypeError(f"the result of {message.method} is {type(result).__name__}, and no {expected.__name__}")
    return result


def _rejected() -> RequestFailed:
    return RequestFailed("User rejected sampling request", code=_USER_REJECTED)


class RateLimit(Middleware):
    """How often a server is called, and how often and how much it may have models asked and users bothered.

    Args:
        calls: Calls of tools by this side.
        samples: Requests to ask a model.
        tokens: Tokens that it may have models say: each request counts with its `maxTokens`, which bounds what it costs.
        elicitations: Questions to the user.

    A call of this side raises `LimitExceeded`; a request of the server is refused with an error.
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

    async def request(self, message: Passing, proceed: Proceed) -> object:
        """See `Middleware.request`."""
        params = message.params
        if not message.incoming:
            if isinstance(params, CallToolRequestParams) and self._calls is not None and _wait(self._calls):
                rate = self._calls.rate
                allowed = math.floor(rate.amount)
                limit = f"calls of tools in {rate.seconds:g} seconds"
                raise LimitExceeded(limit, observed=allowed + 1, allowed=allowed, setting="RateLimit.calls")
        elif isinstance(params, CreateMessageRequestParams):
            # What is refused for its tokens counts as a request all the same: a server that tries on and on gets nowhere.
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
