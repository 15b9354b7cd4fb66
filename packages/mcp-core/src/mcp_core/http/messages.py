"""The parts of HTTP messages that decisions are made from: headers, requests, heads of responses.

Spec: RFC 9110. Names of headers are kept in lower case; values are text in ISO 8859-1, as HTTP/1.1 has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Headers", "HttpHead", "HttpRequest"]


class Headers:
    """The headers of one message, in their order; a name may come more than once.

    Args:
        pairs: Names and values.
    """

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = tuple([(name.lower(), value) for name, value in pairs])
        self._first = dict(self._pairs)
        if len(self._first) != len(self._pairs):
            # Of several the first.
            self._first = dict(reversed(self._pairs))

    @classmethod
    def from_raw(cls, raw: Iterable[tuple[bytes, bytes]]) -> Headers:
        """From bytes, as h11 and ASGI have them. Blanks around values are dropped."""
        return cls([(name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in raw])

    def get(self, name: str) -> str | None:
        """The value of a header; `None` when there is none; of several the first. `name` in lower case."""
        return self._first.get(name)

    def all(self, name: str) -> Sequence[str]:
        """All values of a header, in their order. `name` in lower case."""
        if len(self._first) != len(self._pairs):
            return [value for each, value in self._pairs if each == name]
        value = self._first.get(name)
        return () if value is None else (value,)

    def raw(self) -> list[tuple[bytes, bytes]]:
        """As bytes. Raises `UnicodeEncodeError` for what HTTP cannot carry."""
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._pairs]

    def __contains__(self, name: str) -> bool:
        return name in self._first

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._pairs == other._pairs

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __repr__(self) -> str:
        # Values may be secrets.
        return f"<Headers {', '.join(name for name, _ in self._pairs)}>"


@attrs.frozen(kw_only=True)
class HttpRequest:
    """One request, without its body."""

    method: str
    """`GET`, `POST`, ..."""
    target: str
    """Path and query, as they came: `/mcp?x=1`."""
    headers: Headers
    """Its headers."""
    scheme: str = "http"
    """`http` or `https`."""
    client: str | None = None
    """The address of who sent it; `None` when that is not known."""

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """What follows the question mark; empty when there is none."""
        return self.target.partition("?")[2]


@attrs.frozen(kw_only=True)
class HttpHead:
    """The beginning of a response."""

    status: int
    """Its status."""
    headers: Headers = attrs.field(factory=Headers)
    """Its headers."""
