"""Correct raw clients with a behavior that is unusual. No check may fail for them."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of, refused
from mutants.client_faults.skills import SKILL_VARIANTS

__all__ = ["CLIENT_VARIANTS"]

_OLDEST = "2024-11-05"
_MARCH = "2025-03-26"
_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"

CLIENT_VARIANTS: Final = (
    refused("no-http-sse", _OLDEST, "http"),
    of("falls-back-with-next-id", _LATE, "http"),
    of("ignores-instructions", _OLDEST, "stdio"),
    # It uses Streamable HTTP, which the server of this revision does not have.
    refused("ignores-instructions", _OLDEST, "http"),
    of("ignores-instructions", _MARCH, "stdio"),
    of("ignores-instructions", _MARCH, "http"),
    of("ignores-instructions", _JUNE, "stdio"),
    of("ignores-instructions", _JUNE, "http"),
    of("ignores-instructions", _LATE, "stdio"),
    of("ignores-instructions", _LATE, "http"),
    of("ignores-instructions", _MODERN, "stdio"),
    of("ignores-instructions", _MODERN, "http"),
    of("resumes-twice", _LATE, "http"),
    of("requires-cache-members", _MODERN, "stdio"),
    # A tab within a header value is permitted.
    of("inner-tabs-plain", _MODERN, "http"),
    # A line that is no message is an error of the server.
    of("dies-of-no-json", _MODERN, "stdio"),
    of("listens-at-once", _MODERN, "stdio"),
    # Only the label before the last one of a prefix is reserved.
    of("free-key-of-june", _JUNE, "stdio"),
    # The version of the server has batches.
    of("batches-in-older", _JUNE, "stdio"),
    of("batches-in-older", _JUNE, "http"),
    # A server does not receive a request that is not complete.
    of("cancels-while-sending", _LATE, "http"),
    # The list of tools has changed.
    of("reads-pages-again", _LATE, "http"),
    *SKILL_VARIANTS,
)
"""The variants of this module. Their rows have no checks."""
