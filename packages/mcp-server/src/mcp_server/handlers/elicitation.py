"""What comes of asking the user."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from mcp_core.errors import InvalidValue

__all__ = ["Accepted", "Declined", "Dismissed", "InvalidAnswer"]

T = TypeVar("T")


@attrs.frozen
class Accepted(Generic[T]):
    """The user filled in the form, or agreed to visit the page."""

    value: T
    """What is in the form; `None` for a page."""


@attrs.frozen
class Declined:
    """The user said no."""


@attrs.frozen
class Dismissed:
    """The user chose neither; the specification's word is `cancel`, which in trio means something else."""


class InvalidAnswer(InvalidValue):
    """The client's answer does not fit the form that the user was asked to fill in.

    A tool that does not catch it is answered with a result that has `isError` and says so.
    """
