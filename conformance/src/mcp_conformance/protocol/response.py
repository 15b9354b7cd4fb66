"""An answer to a request, and what a check may ask of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from mcp_conformance.model.verdict import Deviation

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Answer", "brief"]


def brief(value: JsonValue) -> str:
    """A value, short enough for a sentence."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 200 else f"{text[:200]}..."


@attrs.frozen(kw_only=True)
class Answer:
    """What came back for one request."""

    method: str
    """What was asked."""
    message: JsonObject
    """The response."""
    before: tuple[JsonObject, ...] = ()
    """What came for this request before it: notifications and requests, in order."""
    status: int | None = None
    """The HTTP status; `None` on stdio."""
    headers: tuple[tuple[str, str], ...] = ()
    """The HTTP headers."""

    def __str__(self) -> str:
        status = "" if self.status is None else f" (HTTP {self.status})"
        return f"{brief(self.message)}{status}"

    @property
    def is_error(self) -> bool:
        """Whether it is an error response."""
        return "error" in self.message

    @property
    def is_bare_refusal(self) -> bool:
        """Whether it is an HTTP status that blames the client, without a message in the body."""
        return not self.message and self.status is not None and 400 <= self.status < 500

    def result(self) -> JsonObject:
        """The result. That nothing else stands beside it is the matter of a check of its own.

        Raises:
            Deviation: There is none.
        """
        result = self.message.get("result")
        if not isinstance(result, dict):
            raise Deviation(f"a result of {self.method}", str(self))
        return result

    def error(self, *codes: int, what: str = "") -> JsonObject:
        """The error.

        Args:
            codes: Those that are right; none: any.
            what: For what it should be, for the sentence.

        Raises:
            Deviation: It is none, or has another code.
        """
        wanted = " or ".join(map(str, codes))
        expected = f"an error{f' {wanted}' if wanted else ''}{f' for {what}' if what else ''}"
        error = self.message.get("error")
        if not isinstance(error, dict):
            raise Deviation(expected, str(self))
        # A code that is no integer is the matter of a check of its own: here it counts by what it says.
        if codes and str(error.get("code")).removesuffix(".0") not in map(str, codes):
            raise Deviation(expected, str(self))
        return error

    def member(self, name: str, *kinds: type) -> JsonValue:
        """A member of the result.

        Raises:
            Deviation: It is not there, or of another type.
        """
        result = self.result()
        if name not in result:
            raise Deviation(f"a member {name!r} in the result of {self.method}", str(self))
        value = result[name]
        # A bool is an int to Python, and not to JSON.
        if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise Deviation(f"{name!r} of {self.method} to be of type {names}", brief(value))
        return value

    def refused(self, statuses: Collection[int] = ()) -> None:
        """Holds when it is an error, whatever its code.

        Raises:
            Deviation: It is a result, or its HTTP status is none of those.
        """
        self.error()
        if statuses and self.status is not None and self.status not in statuses:
            raise Deviation(f"HTTP status {' or '.join(map(str, sorted(statuses)))}", str(self))
