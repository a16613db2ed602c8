"""What was edited between the two members of a pair, marked inside the text as it stands.

`pact_eval.data.word_diff` compares texts as a reader sees them, on one line, without invisible
signs; a page shows the text with its line feeds and its invisible signs, so that it is marked here
in place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final, TypeAlias

__all__ = ["Part", "marked"]

Part: TypeAlias = str | tuple[str, str]
"""Text that both members have, or what this one has and what the other has in its place."""

# Pairs of tokens that are compared at most; beyond it the middle is one change.
_MOST_COMPARED: Final = 250_000
_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")


def marked(mine: str, other: str) -> list[Part]:
    """Cut a text where it differs from another.

    Args:
        mine: the text.
        other: that of the other member.

    Returns:
        Parts in reading order; the first sides joined are `mine`, the second sides `other`.

    Example:
        >>> marked("The seal is intact.", "The seal is not intact.")
        ['The seal is ', ('', 'not '), 'intact.']
        >>> marked("same", "same")
        ['same']
    """
    if mine == other:
        return [mine] if mine else []
    a, b = _TOKEN.findall(mine), _TOKEN.findall(other)
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
    inner_a, inner_b = a[start : len(a) - end], b[start : len(b) - end]
    parts: list[Part] = ["".join(a[:start]), *_inner(inner_a, inner_b)]
    parts.append("".join(a[len(a) - end :]))
    return [part for part in parts if part not in ("", ("", ""))]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    pairs = zip(a, b, strict=False)
    return next((n for n, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def _inner(a: list[str], b: list[str]) -> list[Part]:
    if not a or not b or len(a) * len(b) > _MOST_COMPARED:
        return [("".join(a), "".join(b))]
    parts: list[Part] = []
    matcher = difflib.SequenceMatcher(a=a, b=b, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        same = tag == "equal"
        # A blank that two changes share joins them: they read as one.
        joins = same and not "".join(a[i:j]).strip() and parts and i > 0 and j < len(a)
        if same and not joins:
            parts.append("".join(a[i:j]))
            continue
        mine, other = "".join(a[i:j]), "".join(b[k:m])
        last = parts[-1] if parts else ""
        if isinstance(last, tuple):
            parts[-1] = (last[0] + mine, last[1] + other)
        else:
            parts.append((mine, other))
    return parts
