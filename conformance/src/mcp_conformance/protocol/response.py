"""The response to a request, with the assertions of checks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from mcp_conformance.model.verdict import Deviation

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["JsonRpcResponse", "brief"]


def brief(value: JsonValue) -> str:
    """Return a value as JSON, shortened to 200 characters."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 200 else f"{text[:200]}..."


@attrs.frozen(kw_only=True)
class JsonRpcResponse:
    """The response to one request."""

    method: str
    """Method of the request."""
    message: JsonObject
    """The response message."""
    before: tuple[JsonObject, ...] = ()
    """Notifications and requests that were received before the response, in order."""
    status: int | None = None
    """HTTP status; `None` on stdio."""
    headers: tuple[tuple[str, str], ...] = ()
    """HTTP headers."""

    def __str__(self) -> str:
        status = "" if self.status is None else f" (HTTP {self.status})"
        return f"{brief(self.message)}{status}"

    @property
    def is_error(self) -> bool:
        """Whether the response is an error response."""
        return "error" in self.message

    @property
    def is_bare_refusal(self) -> bool:
        """Whether the response is an HTTP status from 400 to 499 without a message in the body."""
        return not self.message and self.status is not None and 400 <= self.status < 500

    def result(self) -> JsonObject:
        """Return the result. A separate check covers other members of the response.

        Raises:
            Deviation: The response has no result.
        """
        result = self.message.get("result")
        if not isinstance(result, dict):
            raise Deviation(f"a result of {self.method}", str(self))
        return result

    def error(self, *codes: int, what: str = "") -> JsonObject:
        """Return the error.

        Args:
            codes: The expected codes; none: any code.
            what: What is rejected, for the message.

        Raises:
            Deviation: The response is not an error, or has another code.
        """
        alternatives = " or ".join(map(str, codes))
        expected = f"an error{f' {alternatives}' if alternatives else ''}{f' for {what}' if what else ''}"
        error = self.message.get("error")
        if not isinstance(error, dict):
            raise Deviation(expected, str(self))
        # A separate check covers codes that are not integers: here the value counts.
        if codes and str(error.get("code")).removesuffix(".0") not in map(str, codes):
            raise Deviation(expected, str(self))
        return error

    def member(self, name: str, *kinds: type) -> JsonValue:
        """Return a member of the result.

        Raises:
            Deviation: The member is missing, or of another type.
        """
        result = self.result()
        if name not in result:
            raise Deviation(f"a member {name!r} in the result of {self.method}", str(self))
        value = result[name]
        # In Python a bool is an int, in JSON it is not.
        if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise Deviation(f"{name!r} in the result of {self.method} to be of type {names}", brief(value))
        return value

    def refused(self, statuses: Collection[int] = ()) -> None:
        """Require an error, with any code.

        Args:
            statuses: The expected HTTP statuses; empty: any status.

        Raises:
            Deviation: The response is a result, or has another HTTP status.
        """
        self.error()
        if statuses and self.status is not None and self.status not in statuses:
            raise Deviation(f"HTTP status {' or '.join(map(str, sorted(statuses)))}", str(self))
