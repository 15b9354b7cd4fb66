"""The header values that the raw client builds from arguments."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

from mutants.client.messages import wrong

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["as_ascii", "as_value", "mutated"]

_PLAIN: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def as_ascii(text: str) -> str:
    """Return a text without characters outside ASCII."""
    return text.encode("ascii", "replace").decode()


def as_value(value: JsonValue) -> str | None:
    """Return a header value for an argument."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:g}" if wrong("integers-as-floats") else str(value)
    if not isinstance(value, str):
        return None
    if value == "" or (_PLAIN.fullmatch(value) and not (value.startswith("=?base64?") and value.endswith("?="))):
        return value
    if wrong("latin-1-if-possible") and all(ord(each) < 256 for each in value):
        return f"=?base64?{base64.b64encode(value.encode('latin-1')).decode()}?="
    if _PLAIN.fullmatch(value.rstrip(" \t")) and not value.endswith("=") and wrong("trailing-spaces-plain"):
        return value
    if wrong("encodes-surrogates"):
        units = value.encode("utf-16-le")
        halves = "".join(chr(int.from_bytes(units[at : at + 2], "little")) for at in range(0, len(units), 2))
        return f"=?base64?{base64.b64encode(halves.encode(errors='surrogatepass')).decode()}?="
    encode = base64.urlsafe_b64encode if wrong("url-safe-base64") else base64.b64encode
    return f"=?base64?{encode(value.encode()).decode()}?="


def mutated(value: JsonValue) -> str | None:
    """Return a header value for an argument, with the fault if it is set."""
    text = as_value(value)
    if wrong("falsy-is-absent") and not value:
        return None
    if wrong("null-as-text") and value is None:
        return "null"
    if wrong("python-booleans") and isinstance(value, bool):
        return str(value)
    if wrong("hexadecimal") and isinstance(value, int) and not isinstance(value, bool):
        return hex(value)
    if wrong("spaces-encoded") and isinstance(value, str) and " " in value.strip():
        return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
    if wrong("sentinel-plain") and isinstance(value, str) and value.startswith("=?base64?"):
        return value
    if wrong("breaks-lines") and isinstance(value, str) and "\n" in value:
        return value
    if wrong("inner-tabs-plain") and isinstance(value, str) and "\t" in value.strip():
        return value
    if wrong("unencoded") and isinstance(value, str) and not any(mark in value for mark in ("\n", "=?base64?")):
        return as_ascii(value)
    return text
