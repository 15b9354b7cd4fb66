"""Plots as SVG elements of a page: lines, and intervals of ratios.

A plot has a name and a description for screen readers. Its colors are those of the page's style sheet. Text is text, in a
size that remains legible on a narrow screen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.reports.html.elements import add

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from xml.etree.ElementTree import Element

    from bench.ratios import Interval

__all__ = ["Curve", "interval_plot", "line_plot", "number"]

WIDTH: Final = 400
HEIGHT: Final = 250
LEFT, RIGHT, TOP, BOTTOM = 52, 18, 10, 40
ROW: Final = 36
"""The height of a row of intervals."""


@attrs.frozen(kw_only=True)
class Curve:
    """A curve of a plot."""

    name: str
    points: Sequence[tuple[float, float]]
    color: int = 0
    """The number of a color of the page."""
    dashed: bool = False


def number(value: float) -> str:
    """Return a number with three digits, or all of its digits before the point."""
    if not math.isfinite(value):
        return "-"
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{min(4, max(0, digits))}f}"


def short(value: float) -> str:
    """Return a number for an axis, such as `10k`."""
    for unit, suffix in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{suffix}"
    return f"{value:g}"


def ticks(low: float, high: float, *, logarithmic: bool) -> list[float]:
    """Return even numbers between two others for an axis."""
    if logarithmic:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        factors = (1,) if len(powers) > 3 else (1, 2, 5)
        found = [factor * 10.0**power for power in powers for factor in factors]
        found = [each for each in found if low <= each * (1 + 1e-9) and each <= high * (1 + 1e-9)]
        # Between 0.8 and 1.2, for example, there is only one power of ten.
        return found if len(found) > 1 else ticks(low, high, logarithmic=False)
    step = 10.0 ** math.floor(math.log10((high - low) or 1))
    step = next(each for each in (step / 5, step / 2, step, step * 2) if (high - low) / each <= 6)
    first = math.ceil(low / step - 1e-9)
    return [step * each for each in range(first, math.floor(high / step + 1e-9) + 1)]


def _scale(values: Sequence[float], start: float, end: float, *, logarithmic: bool) -> Callable[[float], float]:
    """Return the function from a value to a coordinate."""
    change: Callable[[float], float] = math.log10 if logarithmic else float
    low, high = change(min(values)), change(max(values))
    span = (high - low) or 1.0
    return lambda value: start + (change(value) - low) / span * (end - start)


def _drawing(parent: Element, height: float, title: str, description: str) -> Element:
    svg = add(parent, "svg", viewBox=f"0 0 {WIDTH} {height:g}", role="img")
    svg.set("aria-label", title)
    add(svg, "title", title)
    add(svg, "desc", description)
    return svg


def _text(svg: Element, x: float, y: float, text: str, anchor: str = "middle", **attributes: str) -> None:
    add(svg, "text", text, x=f"{x:.1f}", y=f"{y:.1f}", **{"text-anchor": anchor}, **attributes)


def _rule(svg: Element, start: tuple[float, float], end: tuple[float, float], cls: str) -> None:
    (x1, y1), (x2, y2) = start, end
    add(svg, "line", cls=cls, x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}")


def line_plot(
    parent: Element,
    title: str,
    curves: Sequence[Curve],
    *,
    x_title: str,
    y_title: str,
    x_names: Sequence[str] = (),
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """Add a plot of curves, each with a legend below the plot.

    Args:
        parent: The element, a `figure`.
        title: The name of the plot.
        curves: The curves, at least one with at least one point.
        x_title: The title of the horizontal axis.
        y_title: The title of the vertical axis.
        x_names: Names of the horizontal positions 0, 1, 2, in place of numbers.
        log_x: Whether the horizontal axis is logarithmic.
        log_y: Whether the vertical axis is logarithmic; otherwise it begins at 0.
    """
    points = [point for curve in curves for point in curve.points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = (min(ys) / 1.3, max(ys) * 1.3) if log_y else (0.0, max(ys) * 1.1 or 1.0)
    across = _scale(xs, LEFT, WIDTH - RIGHT, logarithmic=log_x)
    up = _scale([low, high], HEIGHT - BOTTOM, TOP, logarithmic=log_y)
    described = "; ".join(
        f"{curve.name}: " + ", ".join(f"{short(x)}: {number(y)}" for x, y in curve.points) for curve in curves
    )
    svg = _drawing(parent, HEIGHT, title, f"{y_title} by {x_title}. {described}")
    for value in ticks(low, high, logarithmic=log_y):
        _rule(svg, (LEFT, up(value)), (WIDTH - RIGHT, up(value)), "grid")
        _text(svg, LEFT - 5, up(value) + 4, short(value), "end")
    names = dict(enumerate(x_names))
    shown = sorted(set(xs)) if len(set(xs)) <= 8 else ticks(min(xs), max(xs), logarithmic=log_x)
    for value in shown:
        _text(svg, across(value), HEIGHT - BOTTOM + 16, names.get(int(value), short(value)))
    _rule(svg, (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), "axis")
    _text(svg, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_title, cls="axis-title")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    _text(svg, 11, middle, y_title, cls="axis-title", transform=f"rotate(-90 11 {middle:.1f})")
    for curve in curves:
        cls = f"curve c{curve.color}" + (" dashed" if curve.dashed else "")
        places = [(across(x), up(y), y) for x, y in curve.points]
        add(svg, "polyline", cls=cls, points=" ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places))
        for x, y, value in places:
            dot = add(svg, "circle", cls=f"dot c{curve.color}", cx=f"{x:.1f}", cy=f"{y:.1f}", r="3")
            add(dot, "title", f"{curve.name}: {number(value)}")
    legend = add(parent, "ul", cls="legend")
    for curve in curves:
        entry = add(legend, "li")
        key = add(entry, "svg", viewBox="0 0 24 10")
        key.set("aria-hidden", "true")
        dashed = " dashed" if curve.dashed else ""
        add(key, "line", cls=f"curve c{curve.color}{dashed}", x1="0", y1="5", x2="24", y2="5")
        key.tail = curve.name


def interval_plot(
    parent: Element, title: str, rows: Sequence[tuple[str, Interval]], *, x_title: str, line_at: float = 1.0
) -> None:
    """Add a plot of ratios with their confidence intervals, one row for each, on a logarithmic axis.

    Args:
        parent: The element, a `figure`.
        title: The name of the plot.
        rows: The names and the intervals, at least one.
        x_title: The title of the axis.
        line_at: The ratio that a vertical line marks.
    """
    low = min(line_at, *(found.low for _, found in rows)) / 1.1
    high = max(line_at, *(found.high for _, found in rows)) * 1.1
    across = _scale([low, high], 10, WIDTH - RIGHT, logarithmic=True)
    bottom = ROW * len(rows) + 6
    described = "; ".join(
        f"{name}: {number(found.ratio)}, from {number(found.low)} to {number(found.high)}" for name, found in rows
    )
    svg = _drawing(parent, bottom + 34, title, f"{x_title}. {described}")
    for value in ticks(low, high, logarithmic=True):
        _rule(svg, (across(value), 4), (across(value), bottom), "grid")
        _text(svg, across(value), bottom + 13, short(value))
    _rule(svg, (across(line_at), 4), (across(line_at), bottom), "axis")
    _text(svg, WIDTH / 2, bottom + 29, x_title, cls="axis-title")
    for place, (name, found) in enumerate(rows):
        y = ROW * place + 27
        _text(svg, 10, y - 11, name, "start", cls="row")
        _rule(svg, (across(found.low), y), (across(found.high), y), "curve c0")
        dot = add(svg, "circle", cls="dot c0", cx=f"{across(found.ratio):.1f}", cy=f"{y:.1f}", r="4")
        add(dot, "title", f"{number(found.ratio)}, from {number(found.low)} to {number(found.high)}")
