"""The badge of a run, as a picture or as JSON for badge services."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from mcp_conformance.scoring.score import Score

if TYPE_CHECKING:
    from mcp_conformance.scoring.score import ScoredRun
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["badge", "badge_svg"]

_GREEN: Final = "#2f7d32"
_AMBER: Final = "#9a6700"
_RED: Final = "#b3261e"
_GRAY: Final = "#6e7781"
_CHARACTER: Final = 6.6
"""Width of a character, in pixels: `textLength` makes it independent of the font."""
_MARGIN: Final = 7


def _label_message_color(scored: ScoredRun) -> tuple[str, str, str]:
    """Return the label, the message and the color."""
    rules, counts = scored.rules, scored.counts()
    scope = [] if rules.profile is None else [rules.profile.name]
    label = " ".join(["MCP", scored.run.role.value, *scope])
    spoken = sorted({leg.revision for leg in scored.run.legs if leg.refusal is None})
    if scored.status == 3:
        return label, scored.summary if not counts[Score.BROKEN] else "unknown", _GRAY
    if counts[Score.FAILED]:
        return label, f"{counts[Score.FAILED]} failed", _RED
    message = spoken[0] if len(spoken) == 1 else f"{len(spoken)} revisions"
    left = counts[Score.WARNING] + counts[Score.NOT_TESTABLE] + counts[Score.KNOWN]
    # A run with warnings, untested or expected failures is not entirely clean.
    return (label, f"{message}, {left} open", _AMBER) if left else (label, message, _GREEN)


def badge(scored: ScoredRun) -> JsonObject:
    """Return the badge as JSON for badge services."""
    label, message, color = _label_message_color(scored)
    return {"schemaVersion": 1, "label": label, "message": message, "color": color}


def badge_svg(scored: ScoredRun) -> str:
    """Return the badge as a self-contained SVG picture."""
    label, message, color = _label_message_color(scored)
    left, right = (round(len(text) * _CHARACTER) for text in (label, message))
    first, second = left + 2 * _MARGIN, right + 2 * _MARGIN
    name = escape(f"{label}: {message}")
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{first + second}" height="20" role="img" aria-label="{name}">
<title>{name}</title>
<clipPath id="r"><rect width="{first + second}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{first}" height="20" fill="#3b4048"/>\
<rect x="{first}" width="{second}" height="20" fill="{color}"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{_MARGIN}" y="14" textLength="{left}">{escape(label)}</text>
<text x="{first + _MARGIN}" y="14" textLength="{right}">{escape(message)}</text>
</g>
</svg>
"""
