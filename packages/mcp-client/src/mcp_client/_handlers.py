"""What the application offers to servers: functions that ask the user, a model, or tell the roots.

The capabilities that a client declares follow from the functions that are given; they are never declared twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from mcp_core.types import (
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    Root,
    RootsCapability,
    SamplingCapability,
)

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["ElicitHandler", "ElicitUrlHandler", "Handlers", "LogHandler", "RootsHandler", "SampleHandler"]

ElicitHandler: TypeAlias = Callable[[ElicitRequestFormParams], Awaitable[ElicitResult]]
"""Shows the user a form and gives the answer, or says that it was declined or dismissed."""

ElicitUrlHandler: TypeAlias = Callable[[ElicitRequestURLParams], Awaitable[ElicitResult]]
"""Asks the user whether to visit a page, and opens it if so. It must not be opened, or fetched, without consent."""

SampleHandler: TypeAlias = Callable[[CreateMessageRequestParams], Awaitable[CreateMessageResult]]
"""Asks a model. The user should see what is asked, and what came out."""

RootsHandler: TypeAlias = Callable[[], Awaitable[Sequence[Root]]]
"""Says which directories the server may look at."""

LogHandler: TypeAlias = Callable[[LoggingMessageNotificationParams], None]
"""Takes a log message of the server."""


@attrs.frozen(kw_only=True)
class Handlers:
    """What the application offers to servers. What is left out is not offered."""

    elicit: ElicitHandler | None = None
    """Asks the user by form."""
    elicit_url: ElicitUrlHandler | None = None
    """Sends the user to a page."""
    sample: SampleHandler | None = None
    """Asks a model."""
    sample_tools: bool = False
    """`sample` can let the model use tools, and is so declared."""
    roots: RootsHandler | Sequence[Root] | None = None
    """The roots, or a function that gives them."""
    log: LogHandler | None = None
    """Takes log messages; without it they go to the logger `mcp_client.server`."""
    extensions: Mapping[str, JsonObject] | None = None
    """Extensions that the application supports: identifier and settings."""
    experimental: Mapping[str, JsonObject] | None = None
    """Things outside of the specification, by name."""

    def capabilities(self) -> ClientCapabilities:
        """What a client with these handlers declares."""
        elicitation = None
        if self.elicit is not None or self.elicit_url is not None:
            elicitation = ElicitationCapability(
                form={} if self.elicit is not None else None, url={} if self.elicit_url is not None else None
            )
        return ClientCapabilities(
            roots=None if self.roots is None else RootsCapability(list_changed=True),
            sampling=None if self.sample is None else SamplingCapability(tools={} if self.sample_tools else None),
            elicitation=elicitation,
            extensions=self.extensions,
            experimental=self.experimental,
        )
