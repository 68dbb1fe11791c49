"""A badge as SVG: two words side by side, without a network or a font."""

from __future__ import annotations

from html import escape

_COLOURS = {"passed": "#2e7d32", "failed": "#b3261e", "incomplete": "#6b6b6b"}
_CHARACTER, _PADDING = 6.4, 8
"""Pixels of a character at 11 px, and beside a text."""
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{label}: {value}">'
    "<title>{label}: {value}</title>"
    '<rect width="{width}" height="20" rx="3" fill="#4a4a4a"/>'
    '<path d="M{left} 0h{rest}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{rest}z" fill="{colour}"/>'
    '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
    '<text x="{label_x}" y="14" textLength="{label_length}" lengthAdjust="spacingAndGlyphs">{label}</text>'
    '<text x="{value_x}" y="14" textLength="{value_length}" lengthAdjust="spacingAndGlyphs">{value}</text>'
    "</g></svg>\n"
)


def badge(label: str, value: str, verdict: str) -> str:
    """Return the SVG of a badge; `verdict` (passed, failed, incomplete) chooses the colour of the value."""
    lengths = [round(_CHARACTER * len(text)) for text in (label, value)]
    left, right = (length + 2 * _PADDING for length in lengths)
    return _SVG.format(
        width=left + right, left=left, rest=right - 3, colour=_COLOURS[verdict], label=escape(label),
        value=escape(value), label_x=left / 2, value_x=left + right / 2, label_length=lengths[0],
        value_length=lengths[1],
    )  # fmt: skip
