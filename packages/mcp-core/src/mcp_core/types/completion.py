"""Completion of arguments. Spec: server/utilities/completion"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from mcp_core.revisions import R2025_06_18
from mcp_core.types.base import Open, RequestParams, Result
from mcp_core.types.wire_object import field, wire

__all__ = [
    "MAX_COMPLETION_VALUES",
    "CompleteRequestParams",
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "PromptReference",
    "ResourceTemplateReference",
]

MAX_COMPLETION_VALUES: Final = 100
"""The maximum number of values of one result."""


@wire(tag="type")
class PromptReference(Open):
    """A prompt, by name. Spec: server/utilities/completion#reference-types"""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    """The type of reference."""
    name: str
    """The name of the prompt."""
    title: str | None = field(default=None, since=R2025_06_18)
    """The display name."""


@wire(tag="type")
class ResourceTemplateReference(Open):
    """A resource or a template, by its URI. Spec: server/utilities/completion#reference-types"""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    """The type of reference."""
    uri: str
    """The URI or the URI template."""


@wire()
class CompletionArgument(Open):
    """The argument to complete. Spec: server/utilities/completion#requesting-completions"""

    name: str
    """The name of the argument."""
    value: str
    """The text typed so far."""


@wire(since=R2025_06_18)
class CompletionContext(Open):
    """The context of a completion. Spec: server/utilities/completion#requesting-completions"""

    arguments: Mapping[str, str] | None = None
    """The values of arguments that are already known."""


@wire()
class CompleteRequestParams(RequestParams):
    """The parameters of `completion/complete`. Spec: server/utilities/completion#requesting-completions"""

    ref: PromptReference | ResourceTemplateReference
    """The prompt or resource template of the argument."""
    argument: CompletionArgument
    """The argument to complete."""
    context: CompletionContext | None = field(default=None, since=R2025_06_18)
    """The values of other arguments."""


@wire()
class Completion(Open):
    """Suggested values. Spec: server/utilities/completion#completion-results"""

    values: tuple[str, ...]
    """The values, the best first; at most `MAX_COMPLETION_VALUES`."""
    total: int | None = None
    """The total number of values."""
    has_more: bool | None = None
    """Whether there are further values."""


@wire()
class CompleteResult(Result):
    """The answer to `completion/complete`. Spec: server/utilities/completion#requesting-completions"""

    completion: Completion
    """The suggested values."""
