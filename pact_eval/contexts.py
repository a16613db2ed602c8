"""The texts inside a context, which is text or any JSON value."""

from __future__ import annotations

from collections.abc import Iterator

from pact_eval.strict_json import Json

__all__ = ["LeafPath", "context_text", "string_leaves"]

LeafPath = tuple[str | int, ...]
"""Keys and list indices that lead from a context to a value inside it."""


def string_leaves(value: Json, path: LeafPath = ()) -> Iterator[tuple[LeafPath, str]]:
    """Yield (path, text) of every string value inside a JSON value; keys are no leaves.

    Example:
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

    Example:
        >>> context_text([{"speaker": "Clerk", "text": "Noted."}, {"n": 3}])
        'Clerk\nNoted.'
    """
    return "\n".join(text for _, text in string_leaves(state))
