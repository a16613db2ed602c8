"""Definitions on hover: the first use of a term in a section of the docs site has its meaning.

The glossary is the one source of the terms and their meanings.
"""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

GLOSSARY: Final = Path(__file__).resolve().with_name("glossary.md")
_EVERYDAY: Final = frozenset(
    [
        "K",
        "base",
        "interval",
        "letter",
        "marked",
        "record",
        "repeats",
        "role",
        "run",
        "shown",
        "unit",
    ]
)
"""Terms that pages mostly use in their usual sense, or in every line."""

_TABLE: Final = re.compile(
    r"^\| word \| meaning \|\n\|[-|]+\|\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE
)
_ROW: Final = re.compile(r"^\| (?P<words>.+?) \| (?P<meaning>.+) \|$", re.MULTILINE)
_MARKUP: Final = re.compile(r"\[(?P<text>[^\]]*)\]\([^)]*\)|[`*](?P<plain>[^`*]*)[`*]")
_TAG: Final = re.compile(r"(<[^>]*>)")
_OPAQUE: Final = frozenset(
    [
        "a",
        "abbr",
        "button",
        "code",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "kbd",
        "label",
        "nav",
        "pre",
        "script",
        "style",
        "svg",
        "th",
    ]
)
"""Elements whose text is left alone: links, code, headings."""


def on_page_content(text: str, page: Page, **_: Any) -> str:
    """Define the terms of a page; generated references and the glossary have none."""
    path = page.file.src_uri
    if path.startswith("reference/") or path == "glossary.md":
        return text
    return with_definitions(text, terms())


@cache
def terms() -> dict[str, str]:
    """Return the meaning of every term of the glossary, as plain text.

    Example:
        >>> terms()["pair accuracy"]
        'share of families with both answers correct'
    """
    tables = _TABLE.finditer(GLOSSARY.read_text(encoding="utf-8"))
    rows = (row for table in tables for row in _ROW.finditer(table["rows"]))
    return {
        word: _MARKUP.sub(lambda mark: mark["text"] or mark["plain"] or "", row["meaning"])
        for row in rows
        for word in row["words"].split(", ")
    }


def with_definitions(text: str, meanings: dict[str, str]) -> str:
    """Return HTML in which the first use of each term in a section is an `abbr` with its meaning.

    Example:
        >>> with_definitions("<p>Two families.</p>", {"family": "two records"})
        '<p>Two <abbr title="two records">families</abbr>.</p>'
    """
    by_use = {_key(word): html.escape(meaning) for word, meaning in meanings.items()}
    pattern = _pattern([word for word in meanings if word not in _EVERYDAY])
    used: set[str] = set()
    opaque: list[str] = []

    def defined(use: re.Match[str]) -> str:
        key = _key(use[0])
        if key in used:
            return use[0]
        used.add(key)
        return f'<abbr title="{by_use[key]}">{use[0]}</abbr>'

    parts = _TAG.split(text)
    for place, part in enumerate(parts):
        if not part.startswith("<"):
            parts[place] = part if opaque else pattern.sub(defined, part)
            continue
        name = re.split(r"[\s>]", part.strip("</"), maxsplit=1)[0]
        if name == "h2":
            used.clear()
        if name in _OPAQUE and not part.endswith("/>"):
            opaque = opaque[:-1] if part.startswith("</") else [*opaque, name]
    return "".join(parts)


def _pattern(words: list[str]) -> re.Pattern[str]:
    """Return a pattern of the words and their plurals, the longest first."""
    plurals = [
        re.escape(word[:-1]) + "(?:y|ies)" if word.endswith("y") else re.escape(word) + "s?"
        for word in sorted(words, key=len, reverse=True)
    ]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(plurals)})(?![\w-])", re.IGNORECASE)


def _key(use: str) -> str:
    """Return one text for a term in singular and plural, in any case."""
    lower = use.lower()
    return lower[:-3] + "y" if lower.endswith("ies") else lower.removesuffix("s")
