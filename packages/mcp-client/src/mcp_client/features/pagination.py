"""All pages of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from mcp_core.errors import (
    ErrorCode,
    Phase,
    RemoteProtocolError,
    RequestFailed,
    SessionExpired,
)
from mcp_core.revisions import Era
from mcp_core.types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from mcp_core.types.skills import ListSkillsResult, ReadResourceDirectoryResult

if TYPE_CHECKING:
    from mcp_client.connection.channel import ClientChannel
    from mcp_client.connection.request_options import RequestOptions
    from mcp_core.methods import RequestMethod

__all__ = ["ListParams", "PageT", "ParamsOf", "all_pages"]

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
        SessionExpired: The server lost the session twice between two pages.
        RemoteProtocolError: There are more pages than `Limits.pages`, or a legacy server sends a cursor twice.
        McpError: The exceptions of `Client.request`.
    """
    pages: list[PageT] = []
    seen: set[str] = set()
    cursor: str | None = None
    is_restarted = False
    most = channel.connection.limits.pages
    is_legacy = channel.server.revision.era is Era.LEGACY
    caching = channel.caching
    try:
        while True:
            try:
                page = await channel.request(definition, params(cursor=cursor), options)
            except SessionExpired:
                if cursor is None or is_restarted:
                    raise
                # A cursor is not valid in another session: start again in the new one.
                pages, seen, cursor, is_restarted = [], set(), None, True
                continue
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
            # Legacy servers send an empty cursor for the last page. In 2026-07-28 an empty cursor is a valid cursor, and
            # nothing follows from the value of a cursor, so that it may occur again.
            if cursor is None or (is_legacy and not cursor):
                return pages
            if is_legacy and cursor in seen:
                raise RemoteProtocolError(
                    f"the pages of {definition.name} do not end: the server sent the cursor {cursor!r} twice"
                )
            if len(pages) >= most:
                raise RemoteProtocolError(f"{definition.name} has more than {most} pages; the setting is Limits.pages")
            seen.add(cursor)
    except RemoteProtocolError as error:
        channel.explain(error, method=definition.name, phase=Phase.REQUEST)
        raise
