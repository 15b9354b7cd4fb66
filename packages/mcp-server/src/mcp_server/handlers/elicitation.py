"""Results of an elicitation."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from mcp_core.errors import InvalidValue

__all__ = ["ElicitationAccepted", "ElicitationCancelled", "ElicitationDeclined", "InvalidAnswer"]

T = TypeVar("T")


@attrs.frozen
class ElicitationAccepted(Generic[T]):
    """The user submitted the form, or agreed to visit the page."""

    value: T
    """The content of the form; `None` for a page."""


@attrs.frozen
class ElicitationDeclined:
    """The user declined."""


@attrs.frozen
class ElicitationCancelled:
    """The user closed the form or page without a decision (elicitation action `cancel`)."""


class InvalidAnswer(InvalidValue):
    """The elicitation result of the client does not fit the form.

    If a tool does not catch this error, its result has `isError` and contains the message.
    """
