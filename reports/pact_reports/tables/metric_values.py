"""How captions name decodings, and what numbers rest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_eval.evaluation import find_metric
from pact_eval.preregistration import DecodingName

DECODING_WORDS: Final[dict[DecodingName, str]] = {
    "single": "single pass (view 0), raw",
    "single_calibrated": "single pass (view 0), calibrated",
    "ensemble": "K views together, raw",
    "ensemble_calibrated": "K views together, calibrated",
}
"""How captions name a decoding."""


def items_and_pairs(sizes: Mapping[str, tuple[int, int]]) -> str:
    """Say what the numbers rest on.

    Args:
        sizes: by metric, the lowest and the highest number, of `metric_sizes`.

    Example:
        >>> items_and_pairs({"accuracy": (324, 324), "pair_accuracy": (160, 162)})
        '324 items, 160 to 162 pairs'
    """
    said = []
    words = {"accuracy": "items", "pair_accuracy": "pairs", "score_mae": "Score items"}
    for metric, word in words.items():
        low, high = sizes.get(metric, (0, 0))
        if high:
            said.append(f"{low:,} {word}" if low == high else f"{low:,} to {high:,} {word}")
    return ", ".join(said) or "unknown numbers of items"


def counted(n: int, metric: str) -> str:
    """Say what a metric rests on: a number of items, pairs, Score items or errors.

    Example:
        >>> counted(324, "accuracy"), counted(162, "pair_accuracy"), counted(64, "score_mae")
        ('324 items', '162 pairs', '64 Score items')
    """
    words = {"pair_accuracy": "pairs", "confident_errors": "errors"}
    score = "score items" in find_metric(metric).needs
    return f"{n:,} {words.get(metric, 'Score items' if score else 'items')}"
