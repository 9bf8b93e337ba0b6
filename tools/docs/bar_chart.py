"""Bars with intervals, as an SVG of a few kilobytes."""

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.report import COLOURS

STEP, TOP = 28, 44


class Bar(NamedTuple):
    """One line of a chart. The interval is drawn where there is one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


def bar_chart(
    bars: Sequence[Bar],
    *,
    title: str,
    heading: str,
    left: int,
    unit: float,
    ticks: Sequence[int],
    reference: float,
    digits: int,
) -> str:
    """Draw bars from 0.

    Args:
        bars: From top to bottom.
        title: Title of the file.
        heading: Bold text above the bars.
        left: Pixels for the labels.
        unit: Pixels of 1.
        ticks: Values of the grid lines.
        reference: Bars below it are orange. A tick of this value is dark.
        digits: Digits after the point.

    Returns:
        The text of the SVG.
    """
    width, height = round(left + ticks[-1] * unit) + 90, TOP + STEP * len(bars) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{title}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="20" font-weight="bold">{heading}</text>',
    ]
    for tick in ticks:
        x = round(left + tick * unit)
        colour, stroke = ("#555555", 1.5) if tick == reference else ("#dddddd", 1)
        parts += [
            f'<line x1="{x}" y1="{TOP - 10}" x2="{x}" y2="{height - 26}" stroke="{colour}" stroke-width="{stroke}"/>',
            f'<text x="{x}" y="{height - 8}" text-anchor="middle" fill="#555555">{tick}</text>',
        ]
    for number, (label, value, low, high) in enumerate(bars):
        y = TOP + STEP * number
        middle, end = y + 9, left + (value if high is None else high) * unit
        parts += [
            f'<text x="{left - 10}" y="{middle + 4}" text-anchor="end">{label}</text>',
            f'<rect x="{left}" y="{y}" width="{value * unit:.1f}" height="18" '
            f'fill="{COLOURS[0] if value >= reference else COLOURS[1]}"/>',
        ]
        if low is not None:
            first = left + low * unit
            parts.append(
                f'<line x1="{first:.1f}" y1="{middle}" x2="{end:.1f}" y2="{middle}" stroke="black"/>'
            )
        parts.append(f'<text x="{end + 8:.1f}" y="{middle + 4}" font-weight="bold">{value:.{digits}f}</text>')
    return "\n".join([*parts, "</svg>\n"])
