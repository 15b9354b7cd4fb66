"""The results of an elicitation: what the user decided. Servers receive them, handlers of clients return them.

Spec: client/elicitation#response-actions
"""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from mcp_core.field_methods import FieldValue

__all__ = ["ElicitationAccepted", "ElicitationCancelled", "ElicitationDeclined"]

T_co = TypeVar("T_co", covariant=True)


@attrs.frozen(eq=False, repr=False)
class ElicitationAccepted(FieldValue, Generic[T_co]):
    """The user submitted the form, or agreed to visit the page."""

    value: T_co
    """The content of the form; `None` for a page."""


@attrs.frozen(eq=False, repr=False)
class ElicitationDeclined(FieldValue):
    """The user declined."""


@attrs.frozen(eq=False, repr=False)
class ElicitationCancelled(FieldValue):
    """The user closed the form or page without a decision (elicitation action `cancel`)."""
