"""Requests of browsers to the pages, and the protection of forms against cross-site request forgery.

A form is accepted only if one of these pages sent it. The browser confirms this by Origin or Sec-Fetch-Site, and the
form contains a token for this session and this purpose. The cookie alone is not sufficient.

Spec: basic/security_best_practices#confused-deputy-problem; RFC 9700 section 4.16
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FORM_BYTES", "BrowserRequest", "Form", "is_ours", "read_fields", "read_form"]

FORM_BYTES: Final = 16 * 1024
"""The maximum size of a form, in bytes. The largest form of the pages contains a password and some scopes."""

_FIELDS: Final = 200
_TYPE: Final = "application/x-www-form-urlencoded"
_REPEATED: Final = frozenset({"scope"})


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BrowserRequest(FieldValue):
    """A request of a browser."""

    cookies: str = attrs.field(default="", repr=False)
    """The value of the Cookie header."""
    origin: str | None = None
    """The value of the Origin header."""
    fetch_site: str | None = None
    """The value of the Sec-Fetch-Site header."""
    content_type: str = ""
    """The value of the Content-Type header."""
    query: str = attrs.field(default="", repr=False)
    """The query of the URL, without the question mark."""
    body: bytes | None = attrs.field(default=b"", repr=False)
    """The body; `None` if it is larger than `FORM_BYTES`."""
    address: str = ""
    """The address that the request came from."""


@attrs.frozen(eq=False, repr=False)
class Form(FieldValue):
    """The fields of a form or a query."""

    fields: Sequence[tuple[str, str]] = attrs.field(repr=False)
    """Names and values, in their order."""

    def one(self, name: str) -> str:
        """Return the value of a field, or an empty string without the field."""
        return next((value for given, value in self.fields if given == name), "")

    def all(self, name: str) -> tuple[str, ...]:
        """Return the values of a field that may be repeated."""
        return tuple(value for given, value in self.fields if given == name)


def is_ours(browser_request: BrowserRequest, origin: str) -> bool:
    """Return whether one of the pages sent a request, according to the browser.

    Args:
        browser_request: The request.
        origin: The origin of the pages.

    Returns:
        `True` also without Origin and Sec-Fetch-Site: then the peer is not a browser, and needs the token of the form
        all the same.
    """
    if browser_request.fetch_site not in (None, "same-origin"):
        return False
    if browser_request.origin == "null":
        # A proxy may have removed the origin. Then Sec-Fetch-Site decides.
        return browser_request.fetch_site is not None
    return browser_request.origin in (None, origin)


def read_form(browser_request: BrowserRequest) -> Form | None:
    """Return the submitted form, or `None` if the body is not a form or repeats a field that must not be repeated."""
    if browser_request.body is None or browser_request.content_type.partition(";")[0].strip().lower() != _TYPE:
        return None
    return read_fields(browser_request.body.decode("utf-8", "replace"))


def read_fields(text: str) -> Form | None:
    """Return the fields of a query, or `None` under the same conditions."""
    try:
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS)
    except ValueError:
        return None
    names = [name for name, _ in fields if name not in _REPEATED]
    return Form(fields) if len(names) == len(set(names)) else None
