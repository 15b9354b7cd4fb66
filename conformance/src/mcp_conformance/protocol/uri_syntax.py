"""The syntax of URIs (RFC 3986) and of URI templates (RFC 6570), by their characters."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_uri", "is_uri_template"]

_CHARACTER: Final = r"(?:[A-Za-z0-9._~:/@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
_ADDRESS: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:%-]*@)?\[[A-Za-z0-9:.%~_-]+\]"
"""The only place of brackets: an IP address in an authority, behind user information."""
_URI: Final = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*:(?://{_ADDRESS})?{_CHARACTER}*(?:\?(?:{_CHARACTER}|\?)*)?(?:#(?:{_CHARACTER}|\?)*)?"
)
_VARIABLE: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:[A-Za-z0-9_.]|%[0-9A-Fa-f]{2})*(?::[1-9][0-9]{0,3}|\*)?"
_TEMPLATE: Final = re.compile(rf"(?:[^\x00-\x20\x7f\"'<>\\^`{{|}}]|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*")


def is_uri(text: str) -> bool:
    """Return whether a text has a scheme and only the characters that RFC 3986 allows in each part of a URI."""
    return _URI.fullmatch(text) is not None


def is_uri_template(text: str) -> bool:
    """Return whether a text is a URI template according to RFC 6570, section 2."""
    return _TEMPLATE.fullmatch(text) is not None
