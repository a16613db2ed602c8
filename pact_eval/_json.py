"""Strict JSON.

Python's own parser accepts what a dataset must not contain: duplicate keys in an object (the last
one wins silently), NaN and infinities, and escaped lone surrogates that no tokenizer can encode.
`loads` refuses them.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from typing import Any, Final

_MOST_LEVELS = 200
_TOO_DEEP = f"not usable JSON (nested more than {_MOST_LEVELS} levels deep)"

_KIND_IN_WORDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true/false",
    int: "an integer",
}

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""Any JSON value."""


def loads(text: str) -> Json:
    r"""Parse one JSON document strictly.

    Args:
        text: the document.

    Returns:
        The value; numbers are `int` or finite `float`.

    Raises:
        ValueError: the text is not JSON, repeats a key, holds a number that is not finite, nests
            more than 200 levels deep, or holds an escaped lone surrogate. The message says which,
            with the column.

    Examples:
        >>> loads('{"level": 2}')
        {'level': 2}
        >>> loads('{"level": 2, "level": 3}')
        Traceback (most recent call last):
            ...
        ValueError: duplicate key "level"
    """
    try:
        value: Json = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        if text.startswith("\ufeff"):
            message = "the text starts with a byte order mark; save it as plain UTF-8"
            raise ValueError(message) from None
        raise ValueError(f"not valid JSON ({error.msg} at column {error.pos + 1})") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        if "int_max_str_digits" not in str(error):
            raise
        message = f"an integer has more than {sys.get_int_max_str_digits():,} digits"
        raise ValueError(message) from None
    refuse_deep(text, value)
    if "\\ud" in text or "\\uD" in text:
        _refuse_lone_surrogates(value)
    return value


def refuse_deep(text: str, value: Json) -> None:
    """Refuse a document that nests more than 200 levels deep.

    Args:
        text: the document.
        value: its value.

    Raises:
        ValueError: it is too deep.

    Examples:
        >>> refuse_deep("[[]]", [[]])
    """
    # Counting brackets is cheap, and few texts have enough of them to be deep.
    if text.count("[") + text.count("{") > _MOST_LEVELS and _is_deep(value):
        raise ValueError(_TOO_DEEP)


def loads_again(text: str) -> Json:
    """Parse a document that `loads` has accepted before, in half the time.

    Duplicate keys, lone surrogates and the depth are not looked for once more.

    Raises:
        ValueError: the text is not JSON.

    Examples:
        >>> loads_again('{"level": 2}')
        {'level': 2}
    """
    try:
        value: Json = _LENIENT.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return value


def dumps(value: Json) -> str:
    """Render a value as the dataset formats do: default separators, non-ASCII kept, no NaN.

    Examples:
        >>> dumps({"name": "Zoë", "n": [1, 2]})
        '{"name": "Zoë", "n": [1, 2]}'
    """
    return _PLAIN.encode(value)


def cut(text: str, limit: int) -> str:
    """Return a text for a message, with dots in place of its end if it is longer than the limit.

    Examples:
        >>> cut("a text", 6), cut("a longer text", 6)
        ('a text', 'a l...')
    """
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def short(value: Json, limit: int = 60) -> str:
    """Return a value as JSON for a message, cut; null is "nothing".

    Examples:
        >>> short("a"), short("a" * 100, 10), short(None)
        ('"a"', '"aaaaaa...', 'nothing')
    """
    return cut("nothing" if value is None else dumps(value), limit)


def dumps_indented(value: Json) -> str:
    """Render a value for people to read: indented by two spaces, with a line feed at the end."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def sha256_of_json(value: Json) -> str:
    """Return the SHA-256 of a value's JSON: sorted keys, no spaces, non-ASCII kept, UTF-8.

    Examples:
        >>> sha256_of_json({"b": 1, "a": 2})[:8]
        'd3626ac3'
    """
    text = json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def flat(value: Json, prefix: str = "") -> dict[str, Json]:
    """Return the values inside nested objects by their dotted names; lists are values.

    Examples:
        >>> flat({"base": {"sha256": "ab"}, "k": 4})
        {'base.sha256': 'ab', 'k': 4}
    """
    if not isinstance(value, dict):
        return {prefix: value}
    flattened: dict[str, Json] = {}
    for key, item in value.items():
        flattened |= flat(item, f"{prefix}.{key}" if prefix else key)
    return flattened


def at(value: object, *path: str | int) -> Json:
    """Return the value at the end of a path of names and positions; None if there is none.

    Examples:
        >>> at({"choices": [{"index": 3}]}, "choices", 0, "index"), at([], 0, "index")
        (3, None)
    """
    inner: Any = value
    for step in path:
        if isinstance(step, str) and isinstance(inner, dict):
            inner = inner.get(step)
        elif isinstance(step, int) and isinstance(inner, list) and step < len(inner):
            inner = inner[step]
        else:
            return None
    found: Json = inner
    return found


def describe(value: Json) -> str:
    """Say in words what kind of JSON value this is, for messages.

    Examples:
        >>> describe([1]), describe(None), describe(1.5)
        ('a list', 'null', 'a number')
    """
    if value is None:
        return "null"
    return _KIND_IN_WORDS.get(type(value), "a number")


def _object_without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"duplicate key {dumps(key)}")
            seen.add(key)
    return value


def _refuse_constant(constant: str) -> Json:
    raise ValueError(f"expected a finite number, got {constant}")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {text}")
    return value


def finite_number(value: object) -> float | None:
    """Return a number of JSON as a float; None for anything else, and for one that is too large.

    Integers of JSON have any length.

    Examples:
        >>> finite_number(3), finite_number(True), finite_number(10**400)
        (3.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_object_without_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_finite_float,
)
# Made once: to make an encoder takes as long as to render a short text.
_PLAIN: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_LENIENT: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite_float)


def _is_deep(value: Json) -> bool:
    """Tell whether lists and objects nest too deeply for the functions that walk them."""
    inside = [value]
    for _ in range(_MOST_LEVELS):
        inside = [
            item
            for outer in inside
            if isinstance(outer, list | dict)
            for item in (outer if isinstance(outer, list) else outer.values())
        ]
        if not inside:
            return False
    return any(isinstance(item, list | dict) for item in inside)


def _refuse_lone_surrogates(value: Json) -> None:
    try:
        dumps(value).encode("utf-8")
    except UnicodeEncodeError:
        message = "the text contains half of a surrogate pair, which is not a character"
        raise ValueError(message) from None
