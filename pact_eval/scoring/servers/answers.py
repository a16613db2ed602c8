"""Parts of an answer, read and checked, for wires whose servers send probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from pact_eval._json import Json, describe, dumps
from pact_eval.runs.predictions import rounding_unit
from pact_eval.scoring.servers.replies import shortened
from pact_eval.scoring.servers.wire import UnusableReplyError

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
    message = f"{name}: expected a number, got {describe(value)}"
    raise UnusableReplyError(message)


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
        message = f"choice: expected one of the answers asked, got {shown(chosen)}"
        raise UnusableReplyError(message)
    most = max(probabilities)
    if probabilities[names.index(str(chosen))] < most - rounding_unit(probabilities) - 1e-6:
        best = names[probabilities.index(most)]
        message = f"choice is {shown(chosen)}, but {shown(best)} is more probable"
        raise UnusableReplyError(message)


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
        message = (
            f"score is {score:.6g}, but the expected level of its probabilities {expected:.6g}"
        )
        raise UnusableReplyError(message)


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
