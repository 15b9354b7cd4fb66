"""Faults of the raw client in the handling of skills."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["SKILL_FAULTS", "SKILL_VARIANTS"]

_MODERN = "2026-07-28"

SKILL_FAULTS: Final = (
    of("skills-of-first-page", _MODERN, "http", "skills.client-pages"),
    of("skills-by-name", _MODERN, "stdio", "skills.client-names"),
    of("skill-metadata-known-only", _MODERN, "stdio", "skills.client-reserved-metadata"),
    of("skills-of-511-files", _MODERN, "http", "skills.client-limits"),
    of("skills-below-16-mib", _MODERN, "stdio", "skills.client-limits"),
    of("skill-sizes-in-characters", _MODERN, "http", "skills.client-bytes"),
    of("skill-line-ends-changed", _MODERN, "stdio", "skills.client-bytes"),
    of("skill-hosts-resolved", _MODERN, "http", "skills.client-no-resolution"),
    of("skills-prefetched", _MODERN, "stdio", "skills.client-no-prefetch"),
    of("skill-digests-unverified", _MODERN, "stdio", "skills.client-digest", "skills.client-unverified-file"),
    of("skill-sizes-unverified", _MODERN, "http", "skills.client-size"),
    of(
        "skill-front-matter-ignored",
        _MODERN,
        "http",
        "skills.client-front-matter",
        "skills.client-front-matter-fields",
    ),
    of("skill-front-matter-required-only", _MODERN, "stdio", "skills.client-front-matter-fields"),
    of("skill-front-matter-common-only", _MODERN, "http", "skills.client-front-matter-fields"),
    of("skill-files-unverified", _MODERN, "http", "skills.client-unverified-file"),
    of("skill-files-unlisted", _MODERN, "stdio", "skills.client-only-listed"),
    of("skills-of-any-resources", _MODERN, "http", "skills.client-invalid-entry"),
    of("skills-listed-only", _MODERN, "stdio", "skills.client-by-uri"),
    of("skill-directory-first", _MODERN, "http", "skills.client-get-uri"),
    of("skills-undeclared", _MODERN, "stdio", "skills.client-only-declared"),
    of("skill-directories-anyway", _MODERN, "http", "skills.client-directory-declared"),
)
"""The faults of this module."""

SKILL_VARIANTS: Final = (
    of("skills-refreshed", _MODERN, "stdio"),
    of("skills-static-only", _MODERN, "http"),
    of("skill-files-all", _MODERN, "http"),
)
"""Correct clients: one requests the current entry of a changed skill, one loads no dynamic skill, one reads all files."""
