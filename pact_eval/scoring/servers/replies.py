"""Meaning of a reply: an answer, a wait, a request that the server cannot take, or the end.

Servers agree on HTTP status codes more than on the form of their errors: `error_text` reads all
forms that are in use.
"""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pact_eval._json import Json, describe, dumps
from pact_eval.errors import ServerError
from pact_eval.runs.predictions import rounding_unit
from pact_eval.scoring.servers.wire import UnusableReplyError

Meaning = Literal["answer", "retry", "refuse", "stop"]
"""An answer; try again; this request cannot be served; no request can be served."""

_REFUSED: Final = (400, 413, 414, 422)
_RETRIED: Final = (408, 425, 429)
_NOT_IMPLEMENTED: Final = 501
_CAPACITY: Final = (
    *("context length", "context window", "too long", "too many", "too large", "at most"),
    *("maximum", "limit", "exceed", "not supported", "unsupported", "options per choice"),
)
_MOST_CHARACTERS: Final = 300


_MOST_BYTES: Final = 2**22
_MOST_VALUES: Final = 2**18


class RefusedRequestError(ServerError):
    """The server cannot serve this request, and would not if it were repeated.

    Attributes:
        capacity: whether it says that the request is beyond what it can take.
    """

    def __init__(self, message: str, *, capacity: bool) -> None:
        super().__init__(message)
        self.capacity = capacity


class NoUsableReplyError(ServerError):
    """No usable reply to this request came."""


@dataclass(frozen=True)
class Bounds:
    """Limits of the length of a reply, and of the number of values of its JSON.

    A megabyte of `[{},{},...]` is 40 MB of Python objects, so values are counted before they exist.

    Attributes:
        most_bytes: length in bytes.
        most_values: commas, brackets and braces, those in texts included.
    """

    most_bytes: int = _MOST_BYTES
    most_values: int = _MOST_VALUES

    def check(self, body: bytes) -> None:
        """Refuse a reply with too many values.

        Raises:
            NoUsableReplyError: it has.
        """
        values = _count_values(body)
        if values > self.most_values:
            raise NoUsableReplyError(
                f"the reply has about {values:,} values, more than {self.most_values:,}: no answer "
                "to the request has so many"
            )


def bounds_of_answer(request: bytes) -> Bounds:
    """Return the bounds of an answer to a request, which repeats its names, escaped.

    Args:
        request: JSON.

    Examples:
        >>> bounds_of_answer(b'{"questions": {}}')
        Bounds(most_bytes=262246, most_values=4104)
    """
    return Bounds(
        min(2**18 + 6 * len(request), _MOST_BYTES),
        min(2**12 + 4 * _count_values(request), _MOST_VALUES),
    )


def _count_values(text: bytes) -> int:
    return text.count(b",") + text.count(b"{") + text.count(b"[")


@dataclass(frozen=True)
class Reply:
    """A reply of a server.

    Attributes:
        status: HTTP status code.
        headers: by lower-case name.
        body: the bytes, at most as many as the client accepts.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


def meaning(status: int) -> Meaning:
    """Return what to do with a reply of a status code.

    Examples:
        >>> [meaning(status) for status in (200, 302, 401, 422, 429, 501, 529)]
        ['answer', 'stop', 'stop', 'refuse', 'retry', 'stop', 'retry']
    """
    if 200 <= status < 300:
        return "answer"
    if status in _REFUSED:
        return "refuse"
    if status in _RETRIED or (status >= 500 and status != _NOT_IMPLEMENTED):
        return "retry"
    return "stop"


def is_capacity(text: str) -> bool:
    """Return whether an error says that the request is beyond what the server can take.

    Examples:
        >>> is_capacity("choice takes at most 26 options"), is_capacity("field required")
        (True, False)
    """
    return any(word in text.lower() for word in _CAPACITY)


def error_text(value: Json) -> str:
    """Return the message in the JSON of an error, in any of the forms in use; "" without one.

    Examples:
        >>> error_text({"detail": [{"loc": ["body", "state"], "msg": "field required"}]})
        'body.state: field required'
        >>> error_text({"error": {"message": "unknown model"}})
        'unknown model'
    """
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, list):
        return shortened("; ".join(filter(None, map(_one_error, value))))
    if isinstance(value, dict):
        for key in ("error", "message", "detail", "msg"):
            if value.get(key):
                return error_text(value[key])
    return ""


def _one_error(value: Json) -> str:
    text = error_text(value)
    place = value.get("loc") if isinstance(value, dict) else None
    return f"{'.'.join(map(str, place))}: {text}" if isinstance(place, list) and text else text


def shortened(text: str) -> str:
    """Return a server's text as one line of at most 300 characters.

    Examples:
        >>> shortened("busy,   try later")
        'busy, try later'
    """
    line = " ".join(text[: 4 * _MOST_CHARACTERS].split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 3]}..."


def asked_wait(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that a server asks to wait; None if it does not say.

    Args:
        headers: by lower-case name.
        now: time of the reply, in seconds since the epoch; None is the present.

    Examples:
        >>> asked_wait({"retry-after": "2"}), asked_wait({"retry-after-ms": "250"}), asked_wait({})
        (2.0, 0.25, None)
        >>> asked_wait({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=50.0)
        10.0
    """
    for name, factor in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * factor
        except ValueError:
            continue
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(date.timestamp() - (time.time() if now is None else now), 0.0)


_SLACK: Final = 1e-3


def number(value: Json, name: str) -> float:
    """Return a finite number.

    Raises:
        UnusableReplyError: it is not one; the message has its name.

    Examples:
        >>> number(1, "score")
        1.0
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)
    raise UnusableReplyError(f"{name}: expected a number, got {describe(value)}")


def shown(value: Json) -> str:
    """Return a value of a reply for a message: one line of at most 60 characters."""
    return shortened(dumps(value))[:60]


def prompt_tokens(reply: Mapping[str, Json]) -> int | None:
    """Return the length of the prompt in tokens, if the usage of a reply says it.

    Examples:
        >>> prompt_tokens({"usage": {"input_tokens": 90}}), prompt_tokens({})
        (90, None)
    """
    usage = reply.get("usage")
    tokens = usage.get("input_tokens") if isinstance(usage, dict) else None
    usable = isinstance(tokens, int) and not isinstance(tokens, bool) and 0 < tokens < 2**31
    return tokens if usable and isinstance(tokens, int) else None


def check_choice(chosen: Json, names: Sequence[str], probabilities: Sequence[float]) -> None:
    """Check that a chosen answer is the most probable one, within rounding.

    Args:
        chosen: the answer that the server names.
        names: of all answers, in any order.
        probabilities: in the same order.

    Raises:
        UnusableReplyError: it is not.
    """
    if chosen not in names:
        raise UnusableReplyError(f"choice: expected one of the answers asked, got {shown(chosen)}")
    most = max(probabilities)
    if probabilities[names.index(str(chosen))] < most - rounding_unit(probabilities) - 1e-6:
        best = names[probabilities.index(most)]
        raise UnusableReplyError(f"choice is {shown(chosen)}, but {shown(best)} is more probable")


def check_score(value: Json, levels: Sequence[int], probabilities: Sequence[float]) -> None:
    """Check that a score is the expected level, within rounding.

    Args:
        value: the score that the server names.
        levels: the value of each level.
        probabilities: in the same order.

    Raises:
        UnusableReplyError: it is not.
    """
    score = number(value, "score")
    expected = math.fsum(level * p for level, p in zip(levels, probabilities, strict=True))
    rounding = 0.5 * rounding_unit(probabilities) * (1 + sum(levels))
    if abs(score - expected) > rounding + _SLACK * len(probabilities):
        raise UnusableReplyError(
            f"score is {score:.6g}, but the expected level of its probabilities {expected:.6g}"
        )


def in_canonical_order(values: Sequence[float], order: Sequence[int]) -> tuple[float, ...]:
    """Return values by position as values by canonical index.

    Examples:
        >>> in_canonical_order([0.5, 0.3, 0.2], (2, 0, 1))
        (0.3, 0.2, 0.5)
    """
    canonical = [0.0] * len(values)
    for position, index in enumerate(order):
        canonical[index] = values[position]
    return tuple(canonical)
