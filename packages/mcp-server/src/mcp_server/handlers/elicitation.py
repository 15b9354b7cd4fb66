"""The error of an elicitation result that does not fit its form."""

from __future__ import annotations

from mcp_core.errors import InvalidValue

__all__ = ["InvalidAnswer"]


class InvalidAnswer(InvalidValue):
    """The elicitation result of the client does not fit the form.

    If a tool does not catch this error, its result has `isError` and contains the message.
    """
