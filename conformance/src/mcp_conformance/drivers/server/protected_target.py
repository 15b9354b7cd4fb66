"""A protected server under test, which believes an authorization server of the suite."""

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
async def started_protected(command: str, url: str, settings: Settings) -> AsyncIterator[tuple[UrlTarget, Settings]]:
    """Start a protected server that believes an authorization server of the suite, for a block.

    Args:
        command: The command line, with `{port}`, `{issuer}` and `{resource}` where these go.
        url: Its URL, with `{port}` too.
        settings: The bounds.

    Yields:
        The server, and the bounds with a token for all requests.

    Raises:
        NotStarted: It ended, or cannot be reached in time.
    """
    port = str(free_port())
    async with open_issuer() as issuer:
        issuer.resource = url.replace("{port}", port)
        words = command.replace("{issuer}", issuer.url).replace("{resource}", issuer.resource).replace("{port}", port)
        token = ("Authorization", f"Bearer {issuer.token()}")
        other = ("Authorization", f"Bearer {issuer.token(changes={'sub': 'grace'})}")
        told = attrs.evolve(
            settings,
            headers=(*settings.headers, token),
            other_headers=(*settings.headers, other),
            issuer=issuer,
        )
        async with started(words, issuer.resource, told) as target:
            yield target, told
