"""Items in descending order of confidence, in chunks: a run of millions needs little memory.

The sort is of integer keys, 8 bytes per item: a key holds an item's confidence in full and whether
it is wrong. A float64 in [0, 1] has its two highest bits at 0, and among such numbers the order of
the bits is the order of the values: shifted by one bit, they leave the lowest bit for the outcome.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray
from pact_eval.metrics._arrays import TIE

# Items unpacked at a time.
_CHUNK = 2**16


def ranked_chunks(
    confidence: FloatArray, correct: BoolArray
) -> Iterator[tuple[FloatArray, BoolArray]]:
    """Yield confidences, descending, and whether the item is wrong; ties are in one chunk.

    Args:
        confidence: (n,) checked probabilities in [0, 1].
        correct: (n,) bool.
    """
    # Confidence and outcome in one integer: a sort of plain integers is several times faster than
    # one that carries rows along. Adding 0 makes a negative zero a positive one. All in place: for
    # millions of items, new arrays take longer than the numbers in them.
    keys = (confidence + 0.0).view(np.int64)
    keys <<= 1
    keys |= ~correct
    keys.sort()
    ranked = keys[::-1]
    start = 0
    while start < ranked.size:
        sure, wrong = _chunk(ranked, start)
        yield sure, wrong
        start += sure.size


def tie_starts(ranked: FloatArray) -> npt.NDArray[np.int64]:
    """Return where groups of ties start in confidences in descending order.

    An item within `TIE` of the one before it joins that one's group.
    """
    apart = ranked[:-1] - ranked[1:] > TIE
    return np.flatnonzero(np.r_[True, apart][: ranked.size])


def _chunk(ranked: npt.NDArray[np.int64], start: int) -> tuple[FloatArray, BoolArray]:
    """Return confidences and errors from `start` to the end of a group of ties."""
    length = _CHUNK
    while True:
        # One item more than is wanted shows whether the last group is complete.
        keys = ranked[start : start + length + 1]
        confidence = (keys >> 1).view(np.float64)
        wrong = (keys & 1).astype(np.bool_)
        if keys.size <= length:
            return confidence, wrong
        end = _last_gap(confidence)
        if end:
            return confidence[:end], wrong[:end]
        length *= 2


def _last_gap(ranked: FloatArray) -> int:
    """Return where the last group of ties starts; most often, it is the last item alone."""
    if ranked[-2] - ranked[-1] > TIE:
        return ranked.size - 1
    return int(tie_starts(ranked)[-1])
