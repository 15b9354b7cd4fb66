"""The results of an elicitation: what the user decided. Servers receive them, handlers of clients return them.

Spec: client/elicitation#response-actions
"""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

__all__ = ["ElicitationAccepted", "ElicitationCancelled", "ElicitationDeclined"]

T_co = TypeVar("T_co", covariant=True)


@attrs.frozen
class ElicitationAccepted(Generic[T_co]):
    """The user submitted the form, or agreed to visit the page."""

    value: T_co
    """The content of the form; `None` for a page."""


@attrs.frozen
class ElicitationDeclined:
    """The user declined."""


@attrs.frozen
class ElicitationCancelled:
    """The user closed the form or page without a decision (elicitation action `cancel`)."""
