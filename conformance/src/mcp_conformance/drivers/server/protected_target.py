"""A protected server under test that trusts an authorization server of the suite."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs

from mcp_conformance.drivers.server.targets import free_port, started
from mcp_conformance.oauth_testbed.token_issuer import open_issuer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.drivers.server.targets import UrlTarget
    from mcp_conformance.drivers.settings import Settings

__all__ = ["started_protected"]


@asynccontextmanager
async def started_protected(
    command: str, url: str, settings: Settings, *, sse_url: str | None = None
) -> AsyncIterator[tuple[UrlTarget, Settings]]:
    """Start a protected server that trusts an authorization server of the suite, while the block runs.

    Args:
        command: The command line, with the placeholders `{port}`, `{issuer}` and `{resource}`.
        url: The URL, with `{port}` too.
        settings: The settings.
        sse_url: The URL of the HTTP+SSE stream, with `{port}` too; `None` if the server has none.

    Yields:
        The server, and the settings with a token for all requests.

    Raises:
        NotStarted: The server exited, or cannot be reached in time.
    """
    port = str(free_port())
    async with open_issuer() as issuer:
        issuer.resource = url.replace("{port}", port)
        words = command.replace("{issuer}", issuer.url).replace("{resource}", issuer.resource).replace("{port}", port)
        token = ("Authorization", f"Bearer {issuer.token()}")
        other = ("Authorization", f"Bearer {issuer.token(changes={'sub': 'grace'})}")
        protected_settings = attrs.evolve(
            settings,
            headers=(*settings.headers, token),
            other_headers=(*settings.headers, other),
            issuer=issuer,
        )
        old = None if sse_url is None else sse_url.replace("{port}", port)
        async with started(words, issuer.resource, protected_settings, sse_url=old) as target:
            yield target, protected_settings
