"""What takes more than one request: all pages of a list, and requests that the server answers with questions.

Also what each of them begins with: arguments by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from mcp_core.engine.mrtr import Rounds
from mcp_core.errors import (
    ErrorCode,
    HeaderMismatch,
    LimitExceeded,
    LocalProtocolError,
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

    from mcp_client.connection.channel import Link
    from mcp_client.connection.pending_request import ProgressHandler
    from mcp_client.deadlines import Deadlines
    from mcp_core.methods import Method
    from mcp_core.types import InputResponse

__all__ = ["ListParams", "PageT", "ParamsOf", "Request", "all_pages", "by_name", "with_input"]

P = TypeVar("P")
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
V = TypeVar("V")
Q = TypeVar("Q", CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams)


class Request(Protocol):
    """Sends one request, as `Client.request` does."""

    async def __call__(
        self,
        row: Method[P, R],
        params: P,
        *,
        on_progress: ProgressHandler | None = None,
        deadlines: Deadlines | None = None,
    ) -> R:
        """Returns the result."""


async def with_input(
    link: Link,
    request: Request,
    row: Method[Q, R],
    params: Q,
    *,
    on_progress: ProgressHandler | None,
    deadlines: Deadlines | None,
    learn: Callable[[], Awaitable[object]] | None = None,
) -> R:
    """Sends a request, and sends it again with what the server asks for, until it is done (2026-07-28).

    Args:
        link: The connection.
        request: Sends one request.
        row: The method.
        params: Its parameters.
        on_progress: Is called with each progress notification.
        deadlines: How long to wait for each answer.
        learn: Finds out which parameters are repeated in headers. Where a server misses one, it is called, and the same
            request made once more, in whichever round that is.

    Raises:
        RemoteProtocolError: The server asks for the same again, or too often.
    """
    rounds = Rounds(link.connection.limits.input_rounds)
    while True:
        try:
            result = await request(row, params, on_progress=on_progress, deadlines=deadlines)
        except HeaderMismatch:
            if learn is None:
                raise
            await learn()
            result = await request(row, params, on_progress=on_progress, deadlines=deadlines)
        if not isinstance(result, InputRequiredResult):
            return result
        try:
            params = rounds.again(params, result, await _fulfil(link, result))
        except (RemoteProtocolError, LimitExceeded) as error:
            link.explain(error, method=row.name, phase=Phase.REQUEST)
            raise


async def _fulfil(link: Link, asked: InputRequiredResult) -> dict[str, InputResponse]:
    """Asks the application all that the server wants to know."""
    # One after the other: two dialogs at once are no kindness to a user.
    return {key: await link.answering.fulfil(question) for key, question in (asked.input_requests or {}).items()}


class ParamsOf(Protocol[MadeT]):
    """Makes the parameters for one page of a list."""

    def __call__(self, *, cursor: str | None) -> MadeT:
        """Returns them."""


async def all_pages(
    link: Link,
    request: Request,
    row: Method[ListParams, PageT],
    params: ParamsOf[ListParams],
    forget: Callable[[], bool] | None,
) -> list[PageT]:
    """All pages of a list.

    Args:
        link: The connection.
        request: Sends one request.
        row: The method.
        params: The class of its parameters, or what else makes them.
        forget: Forgets the pages that were kept, and says whether there were any; `None`: nothing is kept.

    Raises:
        RemoteProtocolError: The pages do not end.
    """
    pages: list[PageT] = []
    seen: set[str] = set()
    cursor: str | None = None
    most = link.connection.limits.pages
    try:
        while True:
            try:
                page = await request(row, params(cursor=cursor))
            except RequestFailed as failure:
                if cursor is None or failure.code != ErrorCode.INVALID_PARAMS or forget is None or not forget():
                    raise
                # The cursor was that of a page that was kept, and leads nowhere any more: once more from the beginning.
                pages, seen, cursor, forget = [], set(), None, None
                continue
            pages.append(page)
            cursor = page.next_cursor
            # Legacy servers that send an empty cursor mean that there is no next page. In 2026-07-28 it is one like others.
            if cursor is None or (not cursor and link.server.revision.era is Era.LEGACY):
                return pages
            if cursor in seen:
                raise RemoteProtocolError(f"the pages of {row.name} do not end: the cursor {cursor!r} came twice")
            if len(pages) >= most:
                raise RemoteProtocolError(
                    f"{row.name} has more than {most} pages, which is taken for no end at all; the setting is Limits.pages"
                )
            seen.add(cursor)
    except RemoteProtocolError as error:
        link.explain(error, method=row.name, phase=Phase.REQUEST)
        raise


def by_name(values: Mapping[str, V] | None, what: str) -> dict[str, V] | None:
    """Values by name, as they are sent. Raises `LocalProtocolError` for anything else, and says `what` it should be."""
    if values is None:
        return None
    # Callers without a type checker, and models that write arguments, give lists and texts as well.
    if not isinstance(values, Mapping):
        raise LocalProtocolError(f"{what} have to be a mapping of names to values, not {type(values).__name__}")
    return dict(values)
