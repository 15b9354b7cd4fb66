"""Near misses of a name, id or URI: texts that a lax comparison takes for it, although they name something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["CLIMBS", "INHERITED", "is_within", "near_misses", "similar_uris", "value_near_misses"]

INHERITED: Final = ("constructor", "toString", "__proto__", "__class__")
"""Names that a look-up in an object of JavaScript or Python finds, although they were never added."""

CLIMBS: Final = tuple(
    f"{up * 10}etc/passwd"
    for up in ("../", "%2e%2e/", "..%2f", "%2E%2E%2F", "%252e%252e%252f", "..%5c", "....//", "..;/", "./../")
)
"""Paths that lead out of a directory: plain, encoded once or twice, and such that a filter that removes `../` makes one."""


def near_misses(text: str, known: Collection[object] = ()) -> list[str]:
    """Return texts that differ from another one in case, in spaces around it, or in a slash.

    Args:
        text: The text.
        known: The texts that exist, which are not returned.
    """
    found = (text.swapcase(), f"{text} ", f" {text}", f"{text}/")
    return [each for each in found if each != text and each not in known]


def value_near_misses(text: str) -> list[str]:
    """Return values of a header that a lax comparison takes for another one, which is not empty.

    They begin with it, end with it, or are its beginning; they differ from it in the last character, which is encoded as
    in a URL; or they have quotation marks around it. The empty value is the last.
    """
    encoded = "".join(f"%{byte:02X}" for byte in text[-1].encode())
    return [f"{text}-2", f"{text}/", f"other-{text}", text[:-1], f"{text[:-1]}{encoded}", f'"{text}"', ""]


def similar_uris(uri: str) -> list[str]:
    """Return URIs that a lax comparison takes for another one: of resources that contain no part of each other."""
    base = uri.rstrip("/")
    scheme, separator, rest = base.partition("://")
    found = (f"{base}-2", base[:-1], f"{scheme}{separator}other-{rest}")
    return [each for each in found if not is_within(each, uri) and not is_within(uri, each)]


def is_within(uri: str, resource: str) -> bool:
    """Return whether a URI is that of a resource, or of a sub-resource."""
    return uri == resource or uri.startswith(f"{resource.rstrip('/')}/")
