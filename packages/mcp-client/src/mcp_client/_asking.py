"""What takes more than one request: all pages of a list, and requests that the server answers with questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from mcp_core.engine.input_rounds import Rounds
from mcp_core.errors import LimitExceeded, Phase, RemoteProtocolError
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

if TYPE_CHECKING:
    from mcp_client._call import ProgressHandler
    from mcp_client._deadlines import Deadlines
    from mcp_client._link import Link
    from mcp_core.methods import Method
    from mcp_core.types import InputResponse

__all__ = ["Request", "all_pages", "with_input"]

INPUT_ROUNDS: Final = 16
"""How often a server may ask for more before a request is given up."""

PAGES: Final = 1_000
"""How many pages of one list are fetched at most."""

P = TypeVar("P")
R = TypeVar("R")
ListParams = TypeVar("ListParams", bound=PaginatedRequestParams)
PageT = TypeVar("PageT", ListToolsResult, ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult)
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
) -> R:
    """Sends a request, and sends it again with what the server asks for, until it is done (2026-07-28).

    Raises:
        RemoteProtocolError: The server asks for the same again, or too often.
    """
    rounds = Rounds(INPUT_ROUNDS)
    while True:
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


async def all_pages(
    link: Link, request: Request, row: Method[ListParams, PageT], params: type[ListParams]
) -> list[PageT]:
    """All pages of a list.

    Raises:
        RemoteProtocolError: The pages do not end.
    """
    pages: list[PageT] = []
    seen: set[str] = set()
    cursor: str | None = None
    try:
        while True:
            page = await request(row, params(cursor=cursor))
            pages.append(page)
            cursor = page.next_cursor
            # An empty cursor leads back to the first page; servers that send it mean that there is no next one.
            if not cursor:
                return pages
            if cursor in seen:
                raise RemoteProtocolError(f"the pages of {row.name} do not end: the cursor {cursor!r} came twice")
            if len(pages) >= PAGES:
                raise RemoteProtocolError(f"{row.name} has more than {PAGES} pages, which is taken for no end at all")
            seen.add(cursor)
    except RemoteProtocolError as error:
        link.explain(error, method=row.name, phase=Phase.REQUEST)
        raise
