"""Tests of the addresses of requirements on the site of the specification."""

from __future__ import annotations

import attrs
import pytest

from mcp_conformance.catalogue.links import link
from mcp_conformance.catalogue.requirements import catalogue

ROW = catalogue().rows[0]
SITE = "https://modelcontextprotocol.io"


@pytest.mark.parametrize(
    ("place", "revision", "expected"),
    [
        ("basic/lifecycle, Version Negotiation", "2025-11-25", f"{SITE}/specification/2025-11-25/basic/lifecycle#version-negotiation"),
        ("basic/index, _meta: Reserved keys", "2026-07-28", f"{SITE}/specification/2026-07-28/basic#meta"),
        ("basic/index, $ref Resolution", "2026-07-28", f"{SITE}/specification/2026-07-28/basic#ref-resolution"),
        ("basic/index, Requests", "2024-11-05", f"{SITE}/specification/2024-11-05/basic/messages#requests"),
        ("basic/patterns/mrtr, A / Server Requirements (note)", "2026-07-28", f"{SITE}/specification/2026-07-28/basic/patterns/mrtr#server-requirements"),
        ("basic/patterns/mrtr, (note)", "2026-07-28", f"{SITE}/specification/2026-07-28/basic/patterns/mrtr"),
        ("schema, GetPromptResult / PromptMessage", "2025-06-18", f"{SITE}/specification/2025-06-18/schema#getpromptresult"),
        ("schema, Result", "2025-03-26", "https://github.com/modelcontextprotocol/modelcontextprotocol/blob/main/schema/2025-03-26/schema.ts"),
        ("seps/2243, Rules", "2026-07-28", "https://github.com/modelcontextprotocol/modelcontextprotocol/issues/2243"),
        ("docs/extensions/auth/x, Rules", "2026-07-28", f"{SITE}/extensions/auth/x#rules"),
        ("ext-tasks:specification/draft/tasks.md, Polling", "2026-07-28", "https://github.com/modelcontextprotocol/ext-tasks/blob/main/specification/draft/tasks.md#polling"),
    ],
)  # fmt: skip
def test_link_names_page_and_section(place: str, revision: str, expected: str) -> None:
    assert link(attrs.evolve(ROW, place=place), revision) == expected


def test_links_of_requirements_are_urls() -> None:
    for row in catalogue().rows:
        for revision in row.revisions:
            url = link(row, revision)
            assert url.startswith("https://")
            assert url.isascii()
            assert " " not in url
