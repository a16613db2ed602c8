"""Signals of gates: four measures of the confidence of a run in its answer to an item.

Each is turned into a *sureness*, of which more is always surer: the probability of the answer, its
distance to the second answer, minus the entropy, minus the disagreement of the K views.
"""

from __future__ import annotations

import math
from typing import Final, get_args

import numpy as np

from pact_eval._choices import Signal
from pact_eval._typing import FloatArray
from pact_eval.evaluation.items import ScoredItems

SIGNALS: Final[tuple[Signal, ...]] = get_args(Signal)

EVERY_ANSWER: Final = -10.0
"""Written for a gate that accepts every answer: no sureness is so low."""

SIGNAL_NAMES: Final[dict[Signal, str]] = {
    "top": "top probability",
    "margin": "margin",
    "entropy": "entropy",
    "disagreement": "disagreement",
}
"""The signals in words."""

_DIGITS: Final = 4

LOW_IS_SURE: Final[frozenset[Signal]] = frozenset({"entropy", "disagreement"})
"""Signals that are low if the run is sure; their sureness is minus the signal."""


def signal_values(items: ScoredItems, signal: Signal) -> FloatArray | None:
    r"""Return a signal of every item.

    Entropy is :math:`-\sum_j p_j \log p_j`. Disagreement is the mean TV between the raw
    distributions of the views, whatever the decoding is; see `metrics.pairwise_tv`.

    Args:
        items: scored items with their views in memory, under the decoding of the gate.
        signal: its name.

    Returns:
        (n,) values: probabilities, nats, or TV in [0, 1]. None for the disagreement of one view.
    """
    if signal == "top":
        return items.confidence
    if signal == "disagreement":
        tv = np.asarray(items.values["view_tv"], dtype=np.float64)
        return None if items.k == 1 or np.isnan(tv).any() else tv
    log_p = items.log_probs
    if signal == "entropy":
        p = np.exp(log_p)
        return np.asarray(-(p * np.where(p > 0, log_p, 0.0)).sum(axis=1), dtype=np.float64)
    largest = np.exp(np.partition(log_p, -2, axis=1)[:, -2:])
    return np.asarray(largest[:, 1] - largest[:, 0], dtype=np.float64)


def sureness(items: ScoredItems, signal: Signal) -> FloatArray | None:
    """Return (n,) the signal with the sign that makes more surer; None if there is none."""
    values = signal_values(items, signal)
    if values is None:
        return None
    return -values if signal in LOW_IS_SURE else values


def gate_text(threshold: float | None, signal: Signal) -> str:
    """Write the condition for acceptance by a gate.

    Example:
        >>> gate_text(0.93217, "top"), gate_text(-0.25, "entropy"), gate_text(None, "top")
        ('>= 0.9322', '<= 0.25', 'nothing')
    """
    if threshold is None or threshold == math.inf:
        return "nothing"
    if threshold <= EVERY_ANSWER:
        return "every answer"
    sign = "<=" if signal in LOW_IS_SURE else ">="
    return f"{sign} {-threshold if sign == '<=' else threshold:.{_DIGITS}g}"


def gate_number(threshold: float, signal: Signal) -> str:
    """Write the value of a signal at a gate, for an axis.

    Example:
        >>> gate_number(0.93217, "top"), gate_number(-0.25, "entropy")
        ('0.932', '0.250')
    """
    if threshold == math.inf:
        return "nothing"
    if threshold <= EVERY_ANSWER:
        return "all"
    return f"{-threshold if signal in LOW_IS_SURE else threshold:.3f}"
