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
"""The most values that one answer may have."""


@wire(tag="type")
class PromptReference(Open):
    """A prompt, by name. Spec: server/utilities/completion#reference-types"""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    """Tells the kinds of reference apart."""
    name: str
    """The prompt."""
    title: str | None = field(default=None, since=R2025_06_18)
    """Its name for people."""


@wire(tag="type")
class ResourceTemplateReference(Open):
    """A resource or a template, by its URI. Spec: server/utilities/completion#reference-types"""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    """Tells the kinds of reference apart."""
    uri: str
    """The URI or the pattern."""


@wire()
class CompletionArgument(Open):
    """What shall be completed. Spec: server/utilities/completion#requesting-completions"""

    name: str
    """The argument."""
    value: str
    """What was typed so far."""


@wire(since=R2025_06_18)
class CompletionContext(Open):
    """What is known besides. Spec: server/utilities/completion#requesting-completions"""

    arguments: Mapping[str, str] | None = None
    """The arguments that have their values already."""


@wire()
class CompleteRequestParams(RequestParams):
    """The parameters of `completion/complete`. Spec: server/utilities/completion#requesting-completions"""

    ref: PromptReference | ResourceTemplateReference
    """Whose argument it is."""
    argument: CompletionArgument
    """What shall be completed."""
    context: CompletionContext | None = field(default=None, since=R2025_06_18)
    """What is known besides."""


@wire()
class Completion(Open):
    """What may be meant. Spec: server/utilities/completion#completion-results"""

    values: tuple[str, ...]
    """The values, the best first; at most `MAX_COMPLETION_VALUES`."""
    total: int | None = None
    """How many there are in all."""
    has_more: bool | None = None
    """There are more than these."""


@wire()
class CompleteResult(Result):
    """The answer to `completion/complete`. Spec: server/utilities/completion#requesting-completions"""

    completion: Completion
    """What may be meant."""
