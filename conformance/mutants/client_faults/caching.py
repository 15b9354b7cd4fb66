"""Faults of the raw client's cache and of its parameter headers."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["FRESH_FAULTS"]

_MODERN = "2026-07-28"

FRESH_FAULTS: Final = (
    of("deaf-to-changes", _MODERN, "http", "caching.client-hears-changes"),
    of("keeps-further-pages", _MODERN, "stdio", "caching.client-hears-pages"),
    of("tools-for-prompts", _MODERN, "stdio", "caching.client-hears-prompts"),
    of("tools-for-prompts", _MODERN, "http", "caching.client-hears-prompts"),
    of("deaf-to-updates", _MODERN, "stdio", "caching.client-hears-updates"),
    of("deaf-to-updates", _MODERN, "http", "caching.client-hears-updates"),
    of("keeps-rounds", _MODERN, "stdio", "caching.client-no-rounds"),
    of("keeps-second-page", _MODERN, "stdio", "caching.client-page-by-cursor"),
    of("keeps-first-page", _MODERN, "stdio", "caching.client-invalid-cursor"),
    of("seconds-for-milliseconds", _MODERN, "http", "caching.client-expires"),
    of("overflows", _MODERN, "stdio", "caching.client-fresh"),
    of("caches-by-params", _MODERN, "stdio", "caching.client-key"),
    of("polls", _MODERN, "stdio", "caching.client-no-polling"),
    of("one-key-for-resources", _MODERN, "http", "caching.client-key"),
    of("shares-private-lists", _MODERN, "http", "caching.client-private"),
    of("shares-private-contents", _MODERN, "http", "caching.client-private"),
    of("first-schema", _MODERN, "http", "header.client-param-latest"),
    of(
        "annotations-expire",
        _MODERN,
        "http",
        "header.client-param-mirrored",
        "header.client-param-latest",
        "header.client-param-injection",
        "header.client-param-sentinel",
    ),
    of("calls-again-unlisted", _MODERN, "http", "header.client-param-retry"),
    of("refreshes-first-page", _MODERN, "http", "header.client-param-retry"),
    of("no-header-retry", _MODERN, "http", "header.client-param-retry"),
    of("guesses-headers", _MODERN, "http", "header.client-param-unlisted"),
)
"""The faults of this module."""
