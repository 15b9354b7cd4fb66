"""What a browser sends to the pages, and what of it is believed.

A form counts if it comes from one of our pages: the browser says so by Origin or Sec-Fetch-Site, and the form has the token
that was put into it for this session and this purpose. The cookie alone proves nothing.

Spec: basic/security_best_practices#confused-deputy-problem; RFC 9700 section 4.16
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FORM_BYTES", "Form", "Visit", "is_ours", "read_fields", "read_form"]

FORM_BYTES: Final = 16 * 1024
"""How long a form may be. The longest of ours has a password and some scopes."""

_FIELDS: Final = 200
_TYPE: Final = "application/x-www-form-urlencoded"
_REPEATED: Final = frozenset({"scope"})


@attrs.frozen(kw_only=True)
class Visit:
    """One request of a browser."""

    cookies: str = attrs.field(default="", repr=False)
    """The Cookie header."""
    origin: str | None = None
    """The Origin header."""
    fetch_site: str | None = None
    """The Sec-Fetch-Site header."""
    content_type: str = ""
    """The Content-Type header."""
    query: str = attrs.field(default="", repr=False)
    """What stands behind the question mark."""
    body: bytes | None = attrs.field(default=b"", repr=False)
    """The body. `None`: it has more than `FORM_BYTES`."""
    address: str = ""
    """Where it comes from."""


@attrs.frozen
class Form:
    """The fields of a form, or of a query."""

    fields: Sequence[tuple[str, str]] = attrs.field(repr=False)
    """Names and values, in order."""

    def one(self, name: str) -> str:
        """The value of a field; empty when there is none."""
        return next((value for given, value in self.fields if given == name), "")

    def all(self, name: str) -> tuple[str, ...]:
        """The values of a field that may come more than once."""
        return tuple(value for given, value in self.fields if given == name)


def is_ours(visit: Visit, origin: str) -> bool:
    """Whether a request was made by one of our own pages, as far as the browser says.

    Args:
        visit: The request.
        origin: Ours.

    Returns:
        True also if it says nothing: then it is no browser, and has to have the token of the form all the same.
    """
    if visit.fetch_site not in (None, "same-origin"):
        return False
    if visit.origin == "null":
        # Something between us and the browser may have taken the origin away; then the browser's other word counts.
        return visit.fetch_site is not None
    return visit.origin in (None, origin)


def read_form(visit: Visit) -> Form | None:
    """The form that was sent; `None` when it is none, or has a field twice that may come only once."""
    if visit.body is None or visit.content_type.partition(";")[0].strip().lower() != _TYPE:
        return None
    return read_fields(visit.body.decode("utf-8", "replace"))


def read_fields(text: str) -> Form | None:
    """The fields of a query, likewise."""
    try:
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS)
    except ValueError:
        return None
    names = [name for name, _ in fields if name not in _REPEATED]
    return Form(fields) if len(names) == len(set(names)) else None
