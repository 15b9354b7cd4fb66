"""Faults of the raw client's parameter headers and of the annotations that it accepts."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["HEADER_FAULTS"]

_MODERN = "2026-07-28"

HEADER_FAULTS: Final = (
    of("unencoded", _MODERN, "http", "header.client-param-base64", "header.client-param-nested"),
    of("breaks-lines", _MODERN, "http", "header.client-param-injection", "header.client-param-base64"),
    of(
        "falsy-is-absent",
        _MODERN,
        "http",
        "header.client-param-mirrored",
        "header.client-param-string",
        "header.client-param-integer",
        "header.client-param-boolean",
    ),
    of(
        "url-safe-base64",
        _MODERN,
        "http",
        "header.client-param-base64",
        "header.client-param-sentinel",
        "header.client-name-encoded",
        "header.client-name-resources-read",
    ),
    of(
        "prompt-names-unencoded",
        _MODERN,
        "http",
        "header.client-name-encoded",
        "header.client-name-prompts-get",
    ),
    of("prompt-sentinels-plain", _MODERN, "http", "header.client-name-encoded"),
    of(
        "first-argument-stays",
        _MODERN,
        "http",
        "header.client-param-string",
        "header.client-param-integer",
        "header.client-param-boolean",
        "header.client-param-injection",
        "header.client-param-sentinel",
    ),
    of("shares-headers", _MODERN, "http", "header.client-name-tools-call"),
    of("trailing-spaces-plain", _MODERN, "http", "header.client-param-base64"),
    of("encodes-surrogates", _MODERN, "http", "header.client-param-base64"),
    of("dots-are-paths", _MODERN, "http", "header.client-param-nested"),
    of("takes-namesakes", _MODERN, "http", "header.client-param-nested"),
    of("integers-as-floats", _MODERN, "http", "header.client-param-integer"),
    of(
        "latin-1-if-possible",
        _MODERN,
        "http",
        "header.client-param-base64",
        "header.client-param-nested",
        "tasks.client-mcp-name",
    ),
    of("python-booleans-again", _MODERN, "http", "header.client-param-retry-values"),
    of("one-level-only", _MODERN, "http", "header.client-param-nested"),
    of("no-param-headers-again", _MODERN, "http", "header.client-param-mirrored"),
    of("learns-last-page", _MODERN, "http", "header.client-param-mirrored"),
    of("learns-first-page", _MODERN, "http", "header.client-param-mirrored"),
    of("items-is-a-keyword", _MODERN, "http", "header.client-keeps-valid"),
    of("rejects-for-ever", _MODERN, "http", "header.client-takes-repaired"),
    of("repeats-session-id", _MODERN, "http", "http.client-no-session-id"),
    of("takes-bad-token", _MODERN, "http", "header.client-rejects-bad-token"),
    of("takes-line-feed", _MODERN, "http", "header.client-rejects-bad-token"),
    of("takes-duplicate", _MODERN, "http", "header.client-rejects-duplicate"),
    of("duplicates-by-level", _MODERN, "http", "header.client-rejects-duplicate"),
    of(
        "takes-nested",
        _MODERN,
        "http",
        "header.client-rejects-bad-token",
        "header.client-rejects-duplicate",
        "header.client-rejects-empty",
        "header.client-rejects-non-primitive",
        "header.client-rejects-non-string",
        "header.client-rejects-number",
        "header.client-rejects-unreachable",
    ),
    of("takes-empty", _MODERN, "http", "header.client-rejects-empty"),
    of("takes-non-primitive", _MODERN, "http", "header.client-rejects-non-primitive"),
    of("takes-non-string", _MODERN, "http", "header.client-rejects-non-string"),
    of("takes-number", _MODERN, "http", "header.client-rejects-number"),
    of("takes-unreachable", _MODERN, "http", "header.client-rejects-unreachable"),
)
"""The faults of this module."""
