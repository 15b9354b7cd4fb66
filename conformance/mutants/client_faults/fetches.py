"""Faults of the raw client that fetches URLs which it must not fetch: icons, schemas and pages."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["FETCH_FAULTS"]

_LATE = "2025-11-25"
_MODERN = "2026-07-28"

FETCH_FAULTS: Final = (
    of("fetches-icons", _MODERN, "http", "security.client-icon-schemes"),
    of("fetches-server-icons", _LATE, "http", "security.client-icon-schemes"),
    of("fetches-ws-icons", _LATE, "http", "security.client-icon-schemes"),
    of("fetches-ftp-icons", _MODERN, "http", "security.client-icon-schemes"),
    of("runs-icon-scripts", _MODERN, "http", "security.client-icon-schemes"),
    of("runs-svg-scripts", _MODERN, "http", "security.client-icon-scripts"),
    of("fetches-foreign-icons", _LATE, "http", "security.client-icon-origin"),
    of("fetches-foreign-icons", _MODERN, "http", "security.client-icon-origin"),
    # These clients fetch icons over plain HTTP, which is a finding of its own.
    of(
        "follows-icon-redirects",
        _MODERN,
        "http",
        "security.client-icon-redirects",
        "security.client-icon-schemes",
    ),
    of(
        "fetches-icons-with-token",
        _MODERN,
        "http",
        "security.client-icon-credentials",
        "security.client-icon-schemes",
    ),
    of(
        "fetches-icons-with-cookie",
        _LATE,
        "http",
        "security.client-icon-credentials",
        "security.client-icon-schemes",
    ),
    of("fetches-schemas", _MODERN, "http", "schema.client-no-network-ref"),
    of("fetches-pages", _LATE, "http", "elicitation.client-no-fetch"),
)
"""The faults of this module."""
