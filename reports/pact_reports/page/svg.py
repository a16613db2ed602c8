"""Drawings of matplotlib as inline SVG: small, strict, in colours of the page's themes."""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup

from pact_reports.figures.style import INK, MUTED
from pact_reports.page.html import trusted

DARK_PAPER: Final = "#14181c"
"""The background of the page in its dark theme."""

_LEAST_CONTRAST: Final = 5.5
_LEAST_CONTRAST_OF_LIGHT: Final = 3.0
_LIGHT: Final = 0.5
_OF_PAGE: Final = {"#ffffff": "paper", INK.lower(): "ink", MUTED.lower(): "muted", "#000000": "ink"}
_COLOUR: Final = re.compile(r'(\s(?:fill|stroke|stop-color))="(#[0-9A-Fa-f]{6})"')
_BACKGROUND: Final = re.compile(r'<path d="[^"]*" fill="#ffffff"/>')
_VARIABLE: Final = re.compile(r"var\(--c-([0-9a-f]{6})\)")


def page_svg(svg: str) -> Markup:
    """Return an `<svg>` element of matplotlib as a page has it: strict and in its colours."""
    return trusted(themed(strict_svg(svg)))


def themed(svg: str) -> str:
    """Replace the colours of an SVG by variables, and remove its white background.

    Examples:
        >>> themed('<path d="M 0 0 z" fill="#ffffff"/><path stroke="#0072B2"/>')
        '<path stroke="var(--c-0072b2)"/>'
    """
    text = _BACKGROUND.sub("", svg)
    return _COLOUR.sub(lambda match: f'{match[1]}="var(--{variable(match[2])})"', text)


def variable(colour: str) -> str:
    """Return the name of the variable of a colour, without its dashes.

    Examples:
        >>> variable("#0072B2"), variable("#FFFFFF")
        ('c-0072b2', 'paper')
    """
    lower = colour.lower()
    return _OF_PAGE.get(lower, f"c-{lower[1:]}")


def stylesheet(text: str) -> str:
    """Return the rules of the variables that a text uses, for both themes and for print."""
    used = sorted(set(_VARIABLE.findall(text)))
    if not used:
        return ""
    light = "".join(f"--c-{name}:#{name};" for name in used)
    dark = "".join(f"--c-{name}:{on_dark(f'#{name}')};" for name in used)
    by_system = "@media screen and (prefers-color-scheme:dark)"
    return (
        f":root{{{light}}}\n"
        f'{by_system}{{:root:not([data-theme="light"]){{{dark}}}}}\n'
        f'@media screen{{:root[data-theme="dark"]{{{dark}}}}}\n'
    )


def on_dark(colour: str) -> str:
    """Return the colour that replaces another on the page's dark paper.

    A dark colour is mixed with white until it can be read. A light one is mixed with the paper:
    labels on it are drawn in ink, which is light there.

    Examples:
        >>> on_dark("#e69f00"), on_dark("#0072b2"), on_dark("#9ccbe8")
        ('#e69f00', '#4c9cc9', '#516978')
    """
    if _luminance(colour) > _LIGHT:
        steps = [_mix(colour, DARK_PAPER, share) for share in range(0, 100, 5)]
        return [step for step in steps if contrast(step, DARK_PAPER) >= _LEAST_CONTRAST_OF_LIGHT][
            -1
        ]
    steps = [_mix(colour, "#ffffff", share) for share in range(0, 101, 5)]
    return next(step for step in steps if contrast(step, DARK_PAPER) >= _LEAST_CONTRAST)


def _mix(colour: str, other: str, percent: int) -> str:
    pairs = zip(_parts(colour), _parts(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * percent / 100):02x}" for a, b in pairs)


def _parts(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def contrast(a: str, b: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.2).

    Examples:
        >>> round(contrast("#000000", "#ffffff"))
        21
    """
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = (part / 255 for part in _parts(colour))
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


_TAG: Final = re.compile(r"<[A-Za-z][^>]*>")
_STYLE: Final = re.compile(r'\sstyle="([^"]*)"')
_NUMBER: Final = re.compile(r"-?\d+\.\d{3,}")
_PATH: Final = re.compile(r'(\sd=")([^"]*)"')
_ROUNDED: Final = re.compile(r'(\s(?:x|y|d|transform)=")([^"]*)"')
_STYLE_ELEMENT: Final = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_BETWEEN: Final = re.compile(r">\s*\n\s*<")


def strict_svg(svg: str) -> str:
    r"""Rewrite an `<svg>` element of matplotlib without styles and with fewer decimals.

    Args:
        svg: the element, as returned by `inline_svg`.

    Example:
        >>> page = strict_svg('<svg><path d="M 0.1234567 1 \nL 2 3 " style="fill: none"/></svg>')
        >>> page.partition("><")[2]
        'path d="M 0.12 1 2 3" fill="none"/></svg>'
    """
    # The style element applied to all elements; attributes of the root are inherited by all.
    text = _STYLE_ELEMENT.sub("", svg)
    text = text.replace("<svg", '<svg stroke-linejoin="round" stroke-linecap="butt"', 1)
    text = _TAG.sub(lambda match: _tag(match[0]), text)
    return _BETWEEN.sub("><", text)


def _tag(tag: str) -> str:
    tag = _STYLE.sub(_attributes, tag)
    tag = _PATH.sub(lambda match: f'{match[1]}{_path(match[2])}"', tag)
    return _ROUNDED.sub(lambda match: f'{match[1]}{_NUMBER.sub(_round, match[2])}"', tag)


def _path(commands: str) -> str:
    """Write a path on one line; a line command after a move or a line needs no letter."""
    words, before = [], ""
    for word in commands.split():
        if word.isalpha():
            implied = word == "L" and before in ("M", "L")
            before = word
            if implied:
                continue
        words.append(word)
    return " ".join(words)


def _attributes(match: re.Match[str]) -> str:
    declared = [part.partition(":") for part in match[1].split(";") if part.strip()]
    return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in declared)


def _round(match: re.Match[str]) -> str:
    text = f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
