r"""Choosing a gate whose error, or escalated share, is at most the target with a stated confidence.

What is guaranteed. Families are drawn independently from a population. Let

.. math:: R(t) = \frac{E[\text{share of the items of a new family that } t
                                  \text{ accepts and that are wrong}]}
                      {E[\text{share of the items of a new family that } t \text{ accepts}]}

be the error among the accepted items of new families, each of which counts once. If items count
the same instead, both expectations are of numbers of items, not of shares. The chosen gate t
satisfies R(t) <= target with probability of at least `confidence` over the families of the run (and
over nothing else; if no gate can be shown to satisfy it, none is chosen). Nothing is assumed about
the model, about the dependence within a family, or about how sureness relates to error. Families of
the run and new families must come from the same population. If items count the same, no family may
be larger than the largest one here.

How. For one gate, the drawn items (`gate_items.py`: one of each family) are independent. Given that
n of them are accepted, the wrong ones among these are Bin(n, R(t)) distributed, so

.. math:: p(t) = P(Bin(n, target) \le \text{wrong})

is an exact p-value of "R(t) > target" (Geifman and El-Yaniv 2017, without their union bound). Many
gates are tested without a correction by fixed-sequence testing, the form of learn-then-test that
Angelopoulos et al. (2021) recommend for thresholds: the order is fixed before the tests see an
item, and testing ends at the first gate that fails. An error is then made only if the first gate in
the order with R(t) > target passes, which has a probability of at most 1 - confidence. All gates
that pass satisfy the target at the same time, so any of them may be chosen: by default the last.

The order comes from the learning families. It starts at the gate that is the most likely to pass,
because a start at the strictest gate, with few accepted items, would fail by lack of data; and it
goes on to looser gates.

An escalated share falls as a gate opens. Its sequence starts at the loosest gate and goes on to
stricter ones.

References:
    Geifman and El-Yaniv, "Selective classification for deep neural networks", NeurIPS 2017.
    Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then test: calibrating predictive algorithms
    to achieve risk control", 2021. Bates, Angelopoulos, Lei, Malik and Jordan, "Distribution-free,
    risk-controlling prediction sets", JACM 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray, IntArray
from pact_eval.stats.binomial import critical_count, p_value_below
from pact_eval.thresholds.gate_items import GateItems
from pact_eval.thresholds.targets import Target

GATES: Final = 100
"""Gates that are considered: at equally spaced shares of the learning items."""

ROUNDING: Final = 1e-9
"""Gates are this much below the quantiles of the learning items."""

_SHARES: Final = 32


@dataclass(frozen=True, slots=True)
class GateTest:
    """The exact test of one gate.

    Attributes:
        threshold: the gate accepts what is at least as sure; -inf accepts every answer.
        accepted: drawn items that it accepts; for an escalation target, all drawn items.
        wrong: those of them that are wrong; for an escalation target, those that it escalates.
        p_value: of "the target is exceeded".
        passed: whether p_value is at most 1 - confidence.
    """

    threshold: float
    accepted: int
    wrong: int
    p_value: float
    passed: bool


@dataclass(frozen=True, slots=True)
class ChosenGate:
    """The gate that was chosen for some items.

    Attributes:
        threshold: the gate, or None if none can be guaranteed.
        tests: the tests in their order; the last one is the one that failed, unless none did.
        learning_units: families that shaped the order.
        tested_units: families that gave a tested item.
    """

    threshold: float | None
    tests: tuple[GateTest, ...]
    learning_units: int
    tested_units: int

    @property
    def test(self) -> GateTest | None:
        """The test of the chosen gate; without one, the test that failed; None without a test."""
        passed = [test for test in self.tests if test.threshold == self.threshold and test.passed]
        return passed[0] if passed else next(iter(self.tests), None)


def choose_gate(items: GateItems, target: Target, confidence: float) -> ChosenGate:
    """Choose a gate; see the module for what is guaranteed.

    Args:
        items: items with references, or without an answer.
        target: what the gate must keep.
        confidence: of the guarantee, in (0, 1).

    Returns:
        The gate. With costs, it is the one of the least expected cost among those that pass.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.thresholds.gate_items import GateItems
        >>> from pact_eval.thresholds.sequence import choose_gate
        >>> from pact_eval.thresholds.targets import Target
        >>> names = np.array([f"family {i}" for i in range(500)], dtype=object)
        >>> sure = np.linspace(0, 1, 500)
        >>> items = GateItems(names, names, names, sure, wrong=sure < 0.3)
        >>> gate = choose_gate(items, Target.of_error(0.1), 0.95)
        >>> round(gate.threshold, 2), gate.test.wrong, gate.test.accepted
        (0.26, 16, 292)
    """
    level = 1 - confidence
    draw = items.draw
    order = _order(items, target, level)
    drawn = items.taken(draw.tested)
    tests: list[GateTest] = []
    for threshold in order:
        tests.append(gate_test(drawn, threshold, target, level))
        if not tests[-1].passed:
            break
    passed = [test.threshold for test in tests if test.passed]
    return ChosenGate(
        threshold=_choice(items, passed, target),
        tests=tuple(tests),
        learning_units=draw.learning_units,
        tested_units=len(drawn),
    )


def _choice(items: GateItems, passed: Sequence[float], target: Target) -> float | None:
    if not passed:
        return None
    if target.cost_wrong is None or target.cost_review is None:
        return passed[-1]
    costs = [expected_cost(items, threshold, target) for threshold in passed]
    return passed[int(np.argmin(costs))]


def expected_cost(items: GateItems, threshold: float | None, target: Target) -> float:
    """Return the mean cost per item of a gate: of wrong decisions, and of reviews.

    Args:
        items: one item or more.
        threshold: the gate; None reviews everything.
        target: a target of costs.
    """
    accepted = items.accepted(threshold)
    wrong = float((accepted & items.wrong).mean())
    review = 1 - float(accepted.mean())
    return wrong * (target.cost_wrong or 0.0) + review * (target.cost_review or 0.0)


def gates_of(items: GateItems) -> FloatArray:
    """Gates at equal shares of the items, from the strictest to -inf, which takes all."""
    sure = items.sureness[items.sureness > -np.inf]
    if not sure.size:
        return np.array([-np.inf])
    shares = 1 - np.arange(1, GATES) / GATES
    # A little lower: an item as sure as another must pass with it, whatever rounds its numbers.
    gates = np.unique(np.quantile(sure, shares) - ROUNDING)[::-1]
    return np.asarray(np.r_[gates, -np.inf], dtype=np.float64)


def _order(items: GateItems, target: Target, level: float) -> FloatArray:
    """Return the gates in the order of their tests, from the learning items alone."""
    draw = items.draw
    learning = items.taken(draw.learning)
    gates = gates_of(learning)
    if not target.limits_error:
        return np.asarray(gates[::-1])
    accepted = np.array([learning.accepted(gate) for gate in gates])
    n = accepted.sum(axis=1)
    wrong = (accepted & learning.wrong).sum(axis=1)
    # The number of drawn items follows from the design, not from their values.
    weight = accepted @ draw.chance[draw.learning]
    trials = np.floor(draw.tested_units * weight / max(draw.learning_units, 1)).astype(np.int64)
    chance = chance_to_pass(n, wrong, trials, critical_count(trials, target.rate, level))
    return np.asarray(gates[int(first_test(chance)) :])


def chance_to_pass(
    n: FloatArray,
    wrong: FloatArray,
    trials: IntArray,
    critical: IntArray,
    shares: int = _SHARES,
) -> FloatArray:
    """Return the chance that gates pass, over what the learning items say of their errors.

    The error of a gate has a beta distribution (Jeffreys), taken at the middles of equal shares.

    Args:
        n: (...) learning items that each gate accepts.
        wrong: (...) those of them that are wrong.
        trials: (...) drawn items that each gate is likely to accept.
        critical: (...) the most of them that may be wrong; -1 if the test cannot pass.
        shares: number of equal shares.
    """
    from scipy import special

    middles = (np.arange(shares) + 0.5) / shares
    right = n - wrong
    errors = special.betaincinv(wrong[..., None] + 0.5, right[..., None] + 0.5, middles)
    passes = p_value_below(np.maximum(critical, 0)[..., None], trials[..., None], errors)
    return np.asarray(np.where(critical < 0, 0.0, passes.mean(axis=-1)), dtype=np.float64)


def first_test(chance: FloatArray) -> IntArray:
    """Return which gate is tested first, (...): of equal chances (..., gates), the loosest."""
    return np.asarray(chance.shape[-1] - 1 - np.argmax(chance[..., ::-1], axis=-1))


def gate_test(drawn: GateItems, threshold: float, target: Target, level: float) -> GateTest:
    """Test one gate on independent items.

    Args:
        drawn: one item of each unit.
        threshold: the gate.
        target: what it must keep.
        level: of the test, 1 - confidence.
    """
    accepted = drawn.accepted(threshold)
    if target.limits_error:
        n, wrong = int(accepted.sum()), int((accepted & drawn.wrong).sum())
    else:
        n, wrong = len(drawn), int((~accepted).sum())
    p_value = float(p_value_below(wrong, n, target.rate))
    return GateTest(float(threshold), n, wrong, p_value, p_value <= level)
