"""Reducers of Inspect: one value from the scores of a sample in several epochs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

MEAN: Final = "mean"
_OF_K: Final = re.compile(r"(at_least|pass_at)_(\d+)")


def reduce_epochs(reducer: str, values: Sequence[float | None]) -> float | None:
    """Return the reduced value of a sample; None if the reducer or a value is not known.

    Args:
        reducer: as a log names it.
        values: scores of the epochs; right is 1.

    Examples:
        >>> [reduce_epochs(name, [1.0, 0.0, 1.0]) for name in ("mode", "at_least_3", "pass_at_2")]
        [1.0, 0.0, 1.0]
        >>> reduce_epochs("median", [1.0, 0.0]), reduce_epochs("harmonic", [1.0])
        (0.5, None)
    """
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    if reducer == "mode":
        return Counter(numbers).most_common(1)[0][0]
    if reducer in (MEAN, "median", "max"):
        return {MEAN: fmean(numbers), "median": median(numbers), "max": max(numbers)}[reducer]
    of_k = _OF_K.fullmatch(reducer)
    if of_k is None:
        return None
    kind, k, n = of_k[1], int(of_k[2]), len(numbers)
    right = sum(number >= 1.0 for number in numbers)
    if kind == "at_least":
        return float(right >= k)
    # At least one right among k drawn from n.
    return 1.0 if n - right < k else 1.0 - math.comb(n - right, k) / math.comb(n, k)
