"""The texts inside a context, which is text or any JSON value."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

from pact_eval._json import Json

__all__ = ["LeafPath", "content_of", "context_text", "folded", "leaf_texts", "readable", "visible"]

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_VARIATION_SELECTORS = frozenset(chr(code) for code in range(0xFE00, 0xFE10))

LeafPath = tuple[str | int, ...]
"""Keys and list indices that lead from a context to a value inside it."""


def leaf_texts(value: Json) -> list[str]:
    """Return every string value inside a JSON value, in their order; keys are not texts.

    Examples:
        >>> leaf_texts({"turns": [{"text": "a"}, "b"], "n": 1})
        ['a', 'b']
    """
    texts: list[str] = []
    _gather([value], texts)
    return texts


def _gather(items: Iterable[Json], texts: list[str]) -> None:
    # Several times as fast as nested generators, and every check reads every leaf.
    for item in items:
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            _gather(item.values(), texts)
        elif isinstance(item, list):
            _gather(item, texts)


def context_text(state: Json) -> str:
    r"""Return all texts of a context, one a line.

    Examples:
        >>> context_text([{"speaker": "Clerk", "text": "Noted."}, {"n": 3}])
        'Clerk\nNoted.'
    """
    return "\n".join(leaf_texts(state))


def content_of(value: Json) -> str:
    r"""Return one text for everything that prompts render alike: JSON and JSON in a text are one.

    A prompt has a text as it is, and anything else as JSON. White space between the parts of JSON,
    its escapes and the order of its keys do not count either.

    Examples:
        >>> content_of({"b": "é", "a": 1}), content_of('{"a": 1, "b": "\\u00e9"}')
        ('{"a":1,"b":"é"}', '{"a":1,"b":"é"}')
        >>> content_of("A text.")
        'A text.'
    """
    if isinstance(value, str) and not value.lstrip().startswith(("{", "[")):
        return value
    try:
        parsed: Json = json.loads(value) if isinstance(value, str) else value
        return json.dumps(parsed, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    except (ValueError, RecursionError):  # a text that only looks like JSON
        return str(value)


def readable(text: str, form: Literal["NFC", "NFKC"] = "NFKC") -> str:
    r"""Return a text as a reader sees it: compatible forms made one, invisible signs left out.

    Args:
        text: the text.
        form: with NFC, compatible forms stay apart: 2² is not 22.

    Examples:
        >>> readable("Ｓｅａｌ in\u200btact")
        'Seal intact'
    """
    if text.isascii():
        return text
    normal = unicodedata.normalize(form, text)
    left_out = {
        sign
        for sign in set(_NOT_ASCII.findall(normal))
        if unicodedata.category(sign) == "Cf" or sign in _VARIATION_SELECTORS
    }
    return "".join(sign for sign in normal if sign not in left_out) if left_out else normal


def visible(text: str) -> str:
    r"""Return a text as it is read, without invisible signs and with single spaces.

    Case and compatible forms count: US is not us.

    Examples:
        >>> visible(" The SEAL\n is in\u00adtact: 2². ")
        'The SEAL is intact: 2².'
    """
    return " ".join(readable(text, "NFC").split())


def folded(text: str) -> str:
    r"""Return a text for comparison: as a reader sees it, in one case, with single spaces.

    Examples:
        >>> folded(" The\u00a0SEAL\n is in\u00adtact. ")
        'the seal is intact.'
    """
    return " ".join(readable(text).casefold().split())
