"""Middleware of an application, which is written for trio or for asyncio."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_core.middleware import Middleware
from mcp_core.trio.async_library import allow_asyncio, asyncio_host

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_core.middleware import MiddlewareMessage, Proceed
    from mcp_core.trio.async_library import AsyncLibrary

__all__ = ["LibraryMiddleware"]


class LibraryMiddleware(Middleware):
    """A middleware whose coroutine method runs on the loop that it is written for.

    Args:
        middleware: The middleware of the application.
        library: Returns the async library of a middleware that does not name its own; `None` for that of the host.
    """

    def __init__(self, middleware: Middleware, library: Callable[[], AsyncLibrary | None]) -> None:
        self._middleware: Final = middleware
        # The method of the base class awaits nothing.
        self._own: Final = "trio" if type(middleware).request is Middleware.request else type(middleware).async_library
        self._library: Final = library

    def request(self, message: MiddlewareMessage, proceed: Proceed) -> Awaitable[object]:
        """Process one request, on its loop."""
        host = asyncio_host(self._own or self._library())
        if host is None:
            return self._middleware.request(message, proceed)
        return host.run_asyncio(partial(self._middleware.request, message, allow_asyncio(proceed)))

    def notification(self, message: MiddlewareMessage) -> MiddlewareMessage | None:
        """Process one notification."""
        return self._middleware.notification(message)
