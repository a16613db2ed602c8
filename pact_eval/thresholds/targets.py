"""Targets of gates: for the error of the accepted items, or for the escalated share.

A target of accuracy is one of error. Costs set the error up to which a decision of the model is
cheaper than a review: with `wrong` for a wrong decision and `review` for asking a person, the
expected cost of deciding is R * wrong for the error R among accepted items, so R must be at most
review / wrong.
"""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from pact_eval._choices import Signal
from pact_eval._typing import FloatArray
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems
from pact_eval.schema import Section

TargetKind: TypeAlias = Literal["error", "escalation", "cost"]
"""What is limited: the error of accepted items, the share of escalated items, or the cost."""


class Target(Section, frozen=True, omit_defaults=False, forbid_unknown_fields=True):
    """Target that a gate must keep on new families.

    Attributes:
        kind: error, escalation or cost.
        rate: the largest error among accepted items, or the largest share of escalated items; in
            (0, 1).
        cost_wrong: cost of a wrong decision; None without costs.
        cost_review: cost of asking a person; None without costs.

    Raises:
        InputError: the rate is not in (0, 1).

    Examples:
        >>> from pact_eval.thresholds.targets import Target
        >>> Target.of_accuracy(0.75).rate, Target.of_costs(wrong=10, review=1).rate
        (0.25, 0.1)
    """

    kind: TargetKind
    rate: float
    cost_wrong: float | None = None
    cost_review: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            message = f"target: expected a rate above 0 and below 1, got {self.rate:g}"
            raise InputError(message)

    @classmethod
    def of_error(cls, rate: float) -> Target:
        """Limit the error among accepted items."""
        return cls("error", rate)

    @classmethod
    def of_accuracy(cls, rate: float) -> Target:
        """Limit the error among accepted items to 1 - rate."""
        return cls("error", round(1 - rate, 12))

    @classmethod
    def of_escalation(cls, rate: float) -> Target:
        """Limit the share of escalated items."""
        return cls("escalation", rate)

    @classmethod
    def of_costs(cls, *, wrong: float, review: float) -> Target:
        """Accept only what is cheaper to decide than to review.

        Raises:
            InputError: a review is not cheaper than a wrong decision, or a cost is not above 0.
        """
        if not 0 < review < wrong:
            message = (
                "costs: expected 0 < review < wrong, got a review at "
                f"{review:g} and a wrong decision at {wrong:g}"
            )
            raise InputError(message)
        return cls("cost", review / wrong, wrong, review)

    @property
    def limits_error(self) -> bool:
        """Whether the error among accepted items is limited; otherwise the escalated share is."""
        return self.kind != "escalation"

    @property
    def text(self) -> str:
        """The limit.

        Example:
            >>> Target.of_error(0.05).text
            'error of accepted items at most 5%'
        """
        limit = f"at most {100 * self.rate:.3g}%"
        match self.kind:
            case "error":
                return f"error of accepted items {limit}"
            case "escalation":
                return f"escalated items {limit}"
            case "cost":
                return (
                    f"error of accepted items {limit} (a wrong decision costs {self.cost_wrong:g}, "
                    f"a review {self.cost_review:g})"
                )


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
