"""Two texts compared word by word."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Segment", "WordDiff", "word_diff", "words"]

# Pairs of words that are compared at most, about a second; beyond it the middle is one change.
_MOST_COMPARED = 4_000_000

# Runs of word characters with what joins them inside ("don't", "3.5", "B-17"), or one other sign.
_WORD = re.compile(r"\w+(?:['’.,:/-]\w+)*|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of words that both texts share, or that one has in place of the other's.

    Attributes:
        kind: "same" or "changed".
        left: the words of the first text, joined by spaces; may be empty in a change.
        right: those of the second; equal to `left` where the segment is the same in both.
    """

    kind: Literal["same", "changed"]
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class WordDiff:
    """The difference of two texts.

    Attributes:
        segments: in reading order.
        edited_words: words that were replaced, added or left out; a replacement of m words by n
            counts max(m, n).
    """

    segments: tuple[Segment, ...]
    edited_words: int


def words(text: str) -> list[str]:
    """Split a text into words and signs.

    Example:
        >>> words("Box B-17 doesn't hold 3.5 kg.")
        ['Box', 'B-17', "doesn't", 'hold', '3.5', 'kg', '.']
    """
    return _WORD.findall(text)


def word_diff(left: str, right: str) -> WordDiff:
    """Compare two texts word by word.

    Args:
        left: first text.
        right: second text.

    Returns:
        Their segments and the number of edited words.

    Example:
        >>> diff = word_diff("The seal is intact today.", "The seal is not intact.")
        >>> diff.edited_words, [(s.left, s.right) for s in diff.segments if s.kind == "changed"]
        (2, [('', 'not'), ('today', '')])
    """
    a, b = words(left), words(right)
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    runs = [(a[:start], a[:start]), *_runs(middle_a, middle_b)]
    if end:
        runs.append((a[-end:], a[-end:]))
    segments: list[Segment] = []
    edited = 0
    for of_a, of_b in runs:
        if not of_a and not of_b:
            continue
        kind: Literal["same", "changed"] = "same" if of_a == of_b else "changed"
        if kind == "changed":
            edited += max(len(of_a), len(of_b))
        segments.append(Segment(kind, " ".join(of_a), " ".join(of_b)))
    return WordDiff(tuple(segments), edited)


def _common(a: list[str], b: list[str]) -> int:
    """Return the number of words that both lists start with."""
    pairs = zip(a, b, strict=False)
    return next((n for n, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def _runs(a: list[str], b: list[str]) -> list[tuple[list[str], list[str]]]:
    """Return runs of words of the two lists beside each other; equal or different as a whole."""
    if len(a) * len(b) > _MOST_COMPARED:
        return [(a, b)]
    matcher = difflib.SequenceMatcher(a=a, b=b, autojunk=False)
    return [(a[i:j], b[k:m]) for _, i, j, k, m in matcher.get_opcodes()]
