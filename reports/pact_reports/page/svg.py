"""Small SVG for a page with a strict content security policy.

Matplotlib writes styles as `style` attributes and one `<style>` element. A policy that lists styles
by hash refuses them, so they become presentation attributes. Coordinates have six decimals of a
point; two are enough (a hundredth of a point).
"""

from __future__ import annotations

import re
from typing import Final

from pact_reports.markup import Html

_TAG: Final = re.compile(r"<[A-Za-z][^>]*>")
_STYLE: Final = re.compile(r'\sstyle="([^"]*)"')
_NUMBER: Final = re.compile(r"-?\d+\.\d{3,}")
_PATH: Final = re.compile(r'(\sd=")([^"]*)"')
_ROUNDED: Final = re.compile(r'(\s(?:x|y|d|transform)=")([^"]*)"')
_STYLE_ELEMENT: Final = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_BETWEEN: Final = re.compile(r">\s*\n\s*<")


def strict_svg(svg: str) -> Html:
    r"""Rewrite an `<svg>` element of matplotlib without styles and with fewer decimals.

    Args:
        svg: the element, as returned by `inline_svg`.

    Example:
        >>> page = strict_svg('<svg><path d="M 0.1234567 1 \nL 2 3 " style="fill: none"/></svg>')
        >>> page.text.partition("><")[2]
        'path d="M 0.12 1 2 3" fill="none"/></svg>'
    """
    # The style element applied to all elements; attributes of the root are inherited by all.
    text = _STYLE_ELEMENT.sub("", svg)
    text = text.replace("<svg", '<svg stroke-linejoin="round" stroke-linecap="butt"', 1)
    text = _TAG.sub(lambda match: _tag(match[0]), text)
    return Html(_BETWEEN.sub("><", text))


def _tag(tag: str) -> str:
    tag = _STYLE.sub(_attributes, tag)
    tag = _PATH.sub(lambda match: f'{match[1]}{_path(match[2])}"', tag)
    return _ROUNDED.sub(lambda match: f'{match[1]}{_NUMBER.sub(_rounded, match[2])}"', tag)


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


def _rounded(match: re.Match[str]) -> str:
    text = f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
