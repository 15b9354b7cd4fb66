"""Operations of several requests: all pages of a list, and multi round-trip requests (MRTR)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from mcp_core.engine.mrtr import InputRequiredRetries
from mcp_core.errors import (
    ErrorCode,
    HeaderMismatch,
    LimitExceeded,
    Phase,
    RemoteProtocolError,
    RequestFailed,
)
from mcp_core.revisions import Era
from mcp_core.types import (
    CallToolRequestParams,
    GetPromptRequestParams,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)
from mcp_core.types.skills import ListSkillsResult, ReadResourceDirectoryResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_client.connection.channel import ClientChannel
    from mcp_client.connection.pending_request import ProgressHandler
    from mcp_client.connection.request_options import RequestOptions
    from mcp_client.deadlines import Deadlines
    from mcp_core.methods import RequestMethod
    from mcp_core.types import InputResponse

__all__ = ["ListParams", "PageT", "ParamsOf", "all_pages", "with_input"]

R = TypeVar("R")
ListParams = TypeVar("ListParams", bound=PaginatedRequestParams)
MadeT = TypeVar("MadeT", covariant=True)
PageT = TypeVar(
    "PageT",
    ListToolsResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListSkillsResult,
    ReadResourceDirectoryResult,
)
Q = TypeVar("Q", CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams)


async def with_input(
    channel: ClientChannel,
    options: RequestOptions,
    definition: RequestMethod[Q, R],
    params: Q,
    *,
    on_progress: ProgressHandler | None,
    deadlines: Deadlines | None,
    learn: Callable[[], Awaitable[object]] | None = None,
) -> R:
    """Send a request, and retry it with input responses until it is complete (2026-07-28).

    Args:
        channel: The channel of the connection.
        options: The options of the requests.
        definition: The method.
        params: The parameters.
        on_progress: Called with each progress notification.
        deadlines: The deadlines of each request.
        learn: Reads which parameters have to be repeated in headers. If the server misses a header, in any round trip,
            `learn` is called and the request is sent once more.

    Returns:
        The complete result.

    Raises:
        RemoteProtocolError: The server repeats an input request.
        LimitExceeded: The request takes more round trips than `Limits.input_round_trips`.
        McpError: The exceptions of `Client.request`.
    """
    retries: InputRequiredRetries | None = None
    while True:
        try:
            result = await channel.request(definition, params, options, on_progress=on_progress, deadlines=deadlines)
        except HeaderMismatch:
            if learn is None:
                raise
            await learn()
            result = await channel.request(definition, params, options, on_progress=on_progress, deadlines=deadlines)
        if not isinstance(result, InputRequiredResult):
            return result
        retries = retries or InputRequiredRetries(channel.connection.limits.input_round_trips)
        try:
            params = retries.retry_params(params, result, await _answer_input_requests(channel, result))
        except (RemoteProtocolError, LimitExceeded) as error:
            channel.explain(error, method=definition.name, phase=Phase.REQUEST)
            raise


async def _answer_input_requests(channel: ClientChannel, result: InputRequiredResult) -> dict[str, InputResponse]:
    """Return the input responses of the application to the input requests of a result."""
    # Sequential: a user should not see two dialogs at once.
    return {
        key: await channel.client_requests.answer_input_request(input_request)
        for key, input_request in (result.input_requests or {}).items()
    }


class ParamsOf(Protocol[MadeT]):
    """A function that returns the parameters of one page of a list."""

    def __call__(self, *, cursor: str | None) -> MadeT:
        """Return the parameters of the page at the cursor."""


async def all_pages(
    channel: ClientChannel,
    options: RequestOptions,
    definition: RequestMethod[ListParams, PageT],
    params: ParamsOf[ListParams],
) -> list[PageT]:
    """Return all pages of a list.

    Args:
        channel: The channel of the connection.
        options: The options of the requests.
        definition: The method.
        params: The class of the parameters, or another function that returns them.

    Raises:
        RemoteProtocolError: A cursor repeats, or there are more pages than `Limits.pages`.
        McpError: The exceptions of `Client.request`.
    """
    pages: list[PageT] = []
    seen: set[str] = set()
    cursor: str | None = None
    most = channel.connection.limits.pages
    caching = channel.caching
    try:
        while True:
            try:
                page = await channel.request(definition, params(cursor=cursor), options)
            except RequestFailed as failure:
                if cursor is None or failure.code != ErrorCode.INVALID_PARAMS or caching is None:
                    raise
                if not caching.forget(definition):
                    raise
                # The cursor of a cached page has become invalid: start again without the cache.
                pages, seen, cursor, caching = [], set(), None, None
                continue
            pages.append(page)
            cursor = page.next_cursor
            # Legacy servers send an empty cursor for the last page. In 2026-07-28 an empty cursor is a valid cursor.
            if cursor is None or (not cursor and channel.server.revision.era is Era.LEGACY):
                return pages
            if cursor in seen:
                raise RemoteProtocolError(
                    f"the pages of {definition.name} do not end: the server sent the cursor {cursor!r} twice"
                )
            if len(pages) >= most:
                raise RemoteProtocolError(f"{definition.name} has more than {most} pages; the setting is Limits.pages")
            seen.add(cursor)
    except RemoteProtocolError as error:
        channel.explain(error, method=definition.name, phase=Phase.REQUEST)
        raise
