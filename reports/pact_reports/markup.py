"""HTML made from parts, with all text escaped that is not HTML already.

Nothing else in this package writes a tag: text from data can only come in through `element`, which
escapes it and shows what is not printable, or through `data_text`, which also isolates its
direction.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias

from pact_eval._json import Json
from pact_eval.plain_text import one_line

_VOID: Final = frozenset({"br", "col", "hr", "input", "link", "meta"})
_IN_SCRIPT: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_MAYBE_UNPRINTABLE: Final = re.compile(r"[^ -~]")


@dataclass(frozen=True, slots=True)
class Html:
    """A piece of HTML; its text is trusted."""

    text: str


Child: TypeAlias = Html | str | None
"""What an element contains: HTML, text that gets escaped, or nothing."""


def element(tag: str, *children: Child, **attributes: str | bool | None) -> Html:
    """Make an element; every text in it is escaped.

    Args:
        tag: its name.
        children: HTML stays as it is, text is escaped, None is left out.
        attributes: `class_` is class, `aria_label` is aria-label; None and False leave one out,
            True gives it no value.

    Example:
        >>> element("a", "<b> & co", href='x"y', class_="link", hidden=True).text
        '<a href="x&quot;y" class="link" hidden>&lt;b&gt; &amp; co</a>'
    """
    start = tag
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        start += f" {name.rstrip('_').replace('_', '-')}"
        if value is not True:
            start += f'="{escape(one_line(value))}"'
    if tag in _VOID:
        return Html(f"<{start}>")
    return Html(f"<{start}>{joined(children).text}</{tag}>")


def joined(children: Iterable[Child]) -> Html:
    """Put pieces after each other; text is escaped.

    Example:
        >>> joined(["a < b", Html("<br>"), None]).text
        'a &lt; b<br>'
    """
    return Html("".join(map(_text, children)))


def data_text(text: str) -> Html:
    r"""Return text from data: escaped, unprintable signs shown, its direction kept to itself.

    Example:
        >>> data_text("a\u202e<b>").text
        '<bdi>a\\u202e&lt;b&gt;</bdi>'
    """
    return element("bdi", text)


def script_json(value: Json, name: str) -> Html:
    r"""Return JSON in a script element that is data, not a program.

    No text in it can end the element, begin a comment, or break a line of JavaScript.

    Args:
        value: JSON.
        name: id of the element.

    Example:
        >>> script_json({"a": "</script>\u2028"}, "data").text
        '<script type="application/json" id="data">{"a":"\\u003c/script\\u003e\\u2028"}</script>'
    """
    raw = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    start = f'<script type="application/json" id="{escape(name)}">'
    text = _MAYBE_UNPRINTABLE.sub(_escaped, raw.translate(_IN_SCRIPT))
    return Html(f"{start}{text}</script>")


def _escaped(match: re.Match[str]) -> str:
    """Escape what would turn the order of signs around in a view of the source, or break a line."""
    sign = match[0]
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]


def csp_hash(text: str) -> str:
    """Return the source expression by which a content security policy knows an inline text.

    Example:
        >>> csp_hash("")
        "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _text(child: Child) -> str:
    if child is None:
        return ""
    return child.text if isinstance(child, Html) else escape(one_line(child))
