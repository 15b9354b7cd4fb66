"""The world of OAuth as the place of a scenario: how it is set up, and what is entered of it in the transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_conformance.oauth_testbed.quirks import Quirks

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_conformance.oauth_testbed.http_messages import Request, Response
    from mcp_conformance.oauth_testbed.testbed import World
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["Scene"]


def _nothing(_: World) -> None:
    """The client is told nothing."""


@attrs.frozen(kw_only=True, eq=False)
class Scene:
    """How the world behaves, and what the client knows of it beforehand."""

    quirks: Quirks = attrs.field(factory=Quirks)
    """How it behaves."""
    begin: Callable[[World], JsonObject | None] = _nothing
    """Is given the world before the client starts; gives what the client is told, `None` for nothing."""

    def enter(self, world: World, transcript: Transcript) -> JsonObject | None:
        """Set the world up. What the client is told.

        Args:
            world: The world.
            transcript: Where all that happens in it is entered.
        """
        context = self.begin(world)
        after = world.watch

        def watch(request: Request, answer: Response | None) -> None:
            _entered(transcript, request, answer)
            if after is not None:
                after(request, answer)

        world.watch = watch
        return context


def _entered(transcript: Transcript, request: Request, answer: Response | None) -> None:
    lines = [f"{request.method} {request.url}", *(f"{name}: {value}" for name, value in request.headers)]
    transcript.head("\n".join(lines), sent=False)
    if request.body:
        transcript.message(request.body, sent=False)
    if answer is None:
        transcript.note("nobody is there")
        return
    back = [f"HTTP {answer.status}", *(f"{name}: {value}" for name, value in answer.headers)]
    transcript.head("\n".join(back), sent=True)
    if answer.body:
        transcript.message(answer.body, sent=True)
