"""The OAuth setup of a scenario, and the transcript entries of its HTTP exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.oauth_testbed.quirks import Quirks

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_conformance.oauth_testbed.http_messages import Request, Response
    from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["OAuthSetup", "expire_first_token", "expire_tokens"]

_EXPIRIES: Final = 2
"""The number of access tokens that expire: the second time shows whether the client replaces its refresh token."""


def expire_tokens(testbed: OAuthTestbed) -> None:
    """Expire the access tokens as soon as one is used, twice."""
    _expire(testbed, _EXPIRIES)


def expire_first_token(testbed: OAuthTestbed) -> None:
    """Expire the first access token as soon as it is used."""
    _expire(testbed, 1)


def _expire(testbed: OAuthTestbed, times: int) -> None:
    uses: set[int] = {0}

    def watch(_request: Request, _answer: Response | None) -> None:
        accepted = testbed.resource.accepted
        if accepted not in uses and len(uses) <= times:
            uses.add(accepted)
            for server in (testbed.server, testbed.other):
                server.tokens.expire()

    testbed.watch = watch


def _nothing(_: OAuthTestbed) -> None:
    """Give the client no data."""


@attrs.frozen(kw_only=True, eq=False)
class OAuthSetup:
    """The behavior of the OAuth testbed, and the data that the client receives beforehand."""

    quirks: Quirks = attrs.field(factory=Quirks)
    """The deviations from the default behavior."""
    path: str = "/mcp"
    """The path of the MCP server, with a query if it has one."""
    fragment: str = ""
    """The fragment of the URL that the client receives, with the number sign. It is no part of the resource."""
    begin: Callable[[OAuthTestbed], JsonObject | None] = _nothing
    """A function that prepares the testbed before the client starts, and returns the data for the client, or `None`."""

    def enter(self, testbed: OAuthTestbed, transcript: Transcript) -> JsonObject | None:
        """Prepare the testbed, and return the data for the client.

        Args:
            testbed: The testbed.
            transcript: The transcript that records all HTTP exchanges.
        """
        context = self.begin(testbed)
        after = testbed.watch

        def watch(request: Request, answer: Response | None) -> None:
            _entered(transcript, request, answer)
            if after is not None:
                after(request, answer)

        testbed.watch = watch
        return context


def _entered(transcript: Transcript, request: Request, answer: Response | None) -> None:
    lines = [f"{request.method} {request.url}", *(f"{name}: {value}" for name, value in request.headers)]
    transcript.head("\n".join(lines), sent=False)
    if request.body:
        transcript.message(request.body, sent=False)
    if answer is None:
        transcript.note("no server at this URL")
        return
    back = [f"HTTP {answer.status}", *(f"{name}: {value}" for name, value in answer.headers)]
    transcript.head("\n".join(back), sent=True)
    if answer.body:
        transcript.message(answer.body, sent=True)
