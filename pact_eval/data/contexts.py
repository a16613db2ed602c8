"""The texts inside a context, which is text or any JSON value."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from pact_eval._json import Json

__all__ = ["LeafPath", "context_text", "folded", "readable", "string_leaves"]

_VARIATION_SELECTORS = frozenset(chr(code) for code in range(0xFE00, 0xFE10))

LeafPath = tuple[str | int, ...]
"""Keys and list indices that lead from a context to a value inside it."""


def string_leaves(value: Json, path: LeafPath = ()) -> Iterator[tuple[LeafPath, str]]:
    """Yield (path, text) of every string value inside a JSON value; keys are not leaves.

    Examples:
        >>> list(string_leaves({"turns": [{"text": "a"}, "b"], "n": 1}))
        [(('turns', 0, 'text'), 'a'), (('turns', 1), 'b')]
    """
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from string_leaves(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from string_leaves(item, (*path, key))


def context_text(state: Json) -> str:
    r"""Return all texts of a context, one a line.

    Examples:
        >>> context_text([{"speaker": "Clerk", "text": "Noted."}, {"n": 3}])
        'Clerk\nNoted.'
    """
    return "\n".join(text for _, text in string_leaves(state))


def readable(text: str) -> str:
    r"""Return a text as a reader sees it: compatible forms made one, invisible signs left out.

    Examples:
        >>> readable("Ｓｅａｌ in\u200btact")
        'Seal intact'
    """
    if text.isascii():
        return text
    normal = unicodedata.normalize("NFKC", text)
    left_out = {
        sign
        for sign in set(normal)
        if unicodedata.category(sign) == "Cf" or sign in _VARIATION_SELECTORS
    }
    return "".join(sign for sign in normal if sign not in left_out) if left_out else normal


def folded(text: str) -> str:
    r"""Return a text for comparison: as a reader sees it, in one case, with single spaces.

    Examples:
        >>> folded(" The\u00a0SEAL\n is in\u00adtact. ")
        'the seal is intact.'
    """
    return " ".join(readable(text).casefold().split())
