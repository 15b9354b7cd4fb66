"""A badge: what a run came to, in a picture or as the JSON that badge services read."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from mcp_conformance.scoring.score import Standing

if TYPE_CHECKING:
    from mcp_conformance.scoring.score import Scored
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["badge", "badge_svg"]

_GREEN: Final = "#2f7d32"
_AMBER: Final = "#9a6700"
_RED: Final = "#b3261e"
_GREY: Final = "#6e7781"
_CHARACTER: Final = 6.6
"""Width of a character, in pixels: `textLength` makes it true whatever the font is."""
_MARGIN: Final = 7


def _told(scored: Scored) -> tuple[str, str, str]:
    """The label, the message and the colour."""
    rules, counts = scored.rules, scored.counts()
    scope = [] if rules.profile is None else [rules.profile.name]
    label = " ".join(["MCP", scored.run.role.value, *scope])
    spoken = sorted({lane.revision for lane in scored.run.lanes if lane.refusal is None})
    if scored.status == 3:
        return label, scored.told if not counts[Standing.BROKEN] else "unknown", _GREY
    if counts[Standing.FAILED]:
        return label, f"{counts[Standing.FAILED]} failed", _RED
    message = spoken[0] if len(spoken) == 1 else f"{len(spoken)} revisions"
    left = counts[Standing.NOT_TESTABLE] + counts[Standing.KNOWN]
    # What nobody looked at, or what is borne with, is no part of a clean sheet.
    return (label, f"{message}, {left} open", _AMBER) if left else (label, message, _GREEN)


def badge(scored: Scored) -> JsonObject:
    """The badge, as badge services read it."""
    label, message, colour = _told(scored)
    return {"schemaVersion": 1, "label": label, "message": message, "color": colour}


def badge_svg(scored: Scored) -> str:
    """The badge as a picture, which refers to nothing outside of it."""
    label, message, colour = _told(scored)
    left, right = (round(len(text) * _CHARACTER) for text in (label, message))
    first, second = left + 2 * _MARGIN, right + 2 * _MARGIN
    name = escape(f"{label}: {message}")
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{first + second}" height="20" role="img" aria-label="{name}">
<title>{name}</title>
<clipPath id="r"><rect width="{first + second}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{first}" height="20" fill="#3b4048"/>\
<rect x="{first}" width="{second}" height="20" fill="{colour}"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{_MARGIN}" y="14" textLength="{left}">{escape(label)}</text>
<text x="{first + _MARGIN}" y="14" textLength="{right}">{escape(message)}</text>
</g>
</svg>
"""
