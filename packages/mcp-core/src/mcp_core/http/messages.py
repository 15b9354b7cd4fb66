"""Parts of HTTP messages from which this package decides: headers, requests, heads of responses.

Spec: RFC 9110. Header names are stored in lower case. Values are text in ISO 8859-1, as in HTTP/1.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Headers", "HttpHead", "HttpRequest"]

_CREDENTIALS: Final = frozenset({"authorization", "cookie", "dpop", "proxy-authorization"})


class Headers:
    """The headers of one message, in order. A name may occur more than once.

    Args:
        pairs: Names and values.
    """

    __slots__ = ("_first", "_pairs", "get")

    get: Callable[[str], str | None]
    """Returns the first value of a header; `None` if the header is missing. The name must be in lower case."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = tuple([(name.lower(), value) for name, value in pairs])
        self._first = dict(self._pairs)
        if len(self._first) != len(self._pairs):
            # The first of several values counts.
            self._first = dict(reversed(self._pairs))
        # The method of the dictionary itself: a request has a dozen look-ups.
        self.get = self._first.get

    @classmethod
    def from_raw(cls, raw: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Create headers from bytes, as used by h11 and ASGI. Blanks around values are removed."""
        return cls([(name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in raw])

    def has_any(self, names: Iterable[str]) -> bool:
        """Return whether one of some headers is present. The names must be in lower case."""
        return not self._first.keys().isdisjoint(names)

    def all(self, name: str) -> Sequence[str]:
        """Return all values of a header, in order. `name` must be in lower case."""
        if len(self._first) != len(self._pairs):
            return [value for each, value in self._pairs if each == name]
        value = self._first.get(name)
        return () if value is None else (value,)

    def raw(self) -> list[tuple[bytes, bytes]]:
        """Return the headers as bytes.

        Raises:
            UnicodeEncodeError: A name or value is not in ISO 8859-1.
        """
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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HttpRequest(FieldValue):
    """A request without its body."""

    method: str
    """`GET`, `POST`, ..."""
    target: str
    """Path and query, as received: `/mcp?x=1`."""
    headers: Headers
    """The headers of the request."""
    scheme: str = "http"
    """`http` or `https`."""
    client: str | None = None
    """The address of the client; `None` if unknown."""

    @property
    def path(self) -> str:
        """The target without the query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """The text after the question mark; empty without a question mark."""
        return self.target.partition("?")[2]

    def without_credentials(self) -> HttpRequest:
        """Return the request without the headers that contain credentials, for this server or for others."""
        if not self.headers.has_any(_CREDENTIALS):
            return self
        kept = Headers([pair for pair in self.headers if pair[0] not in _CREDENTIALS])
        return HttpRequest(method=self.method, target=self.target, headers=kept, scheme=self.scheme, client=self.client)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HttpHead(FieldValue):
    """The head of a response: status and headers."""

    status: int
    """The status code."""
    headers: Headers = attrs.field(factory=Headers)
    """The headers of the response."""
