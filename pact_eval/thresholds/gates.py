"""Gates: their targets, the signals that they are on, and their exact tests.

A target of accuracy is one of error. Costs set the error up to which a decision of the model is
cheaper than a review: with `wrong` for a wrong decision and `review` for asking a person, the
expected cost of deciding is R * wrong for the error R among accepted items, so R must be at most
review / wrong.

Members of a family are correlated, so they are not independent trials. The units are therefore
families (or source families). A hash of the unit's name decides everything that is drawn, so a
choice is the same every time, and nobody can try seeds until a gate passes.

- One unit in `LEARNING_SHARE` is a learning unit: it shapes the sequence of gates that is tested.
- Of every other unit, one item is drawn. The drawn items are therefore independent.

What counts the same decides how it is drawn. If *families* do, every unit gives one of its items.
The error rate of the drawn items is then that of a random item of a random family. If *items* do,
one of M slots is drawn, where M is the size of the largest unit: a unit of m items gives an item
with a probability of m / M, and the error rate is that of a random item. Few large families among
many small ones then leave few drawn items, and no method does much better: the large families hold
many items, and few families show how these are. With units of one size both are the same.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from pact_eval._choices import Counting, Signal
from pact_eval._typing import BoolArray, FloatArray, IntArray, TextArray
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import Labels
from pact_eval.schema import Section
from pact_eval.stats.proportions import critical_count, p_value_below

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
        >>> from pact_eval.thresholds.gates import Target
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
    def limit(self) -> str:
        """The limit in plain words, after a verb such as "have".

        Example:
            >>> Target.of_error(0.05).limit, Target.of_escalation(0.3).limit
            ('at most 5% errors', 'at most 30% left to a person')
        """
        limit = f"at most {100 * self.rate:.3g}%"
        if not self.limits_error:
            return f"{limit} left to a person"
        if self.kind == "error":
            return f"{limit} errors"
        return f"{limit} errors (one costs {self.cost_wrong:g}, a review {self.cost_review:g})"

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


_SURE_ANSWERS: Final[dict[Signal, str]] = {
    "top": "answers with a probability of at least",
    "margin": "answers with a margin of at least",
    "entropy": "answers with an entropy of at most",
    "disagreement": "answers with a disagreement between prompts of at most",
}


def sure_answers(threshold: float | None, signal: Signal) -> str:
    """Name in plain words the answers that a gate accepts.

    Example:
        >>> sure_answers(0.93217, "top"), sure_answers(None, "top")
        ('answers with a probability of at least 0.9322', 'no answer')
    """
    condition = gate_text(threshold, signal)
    if condition in ("nothing", "every answer"):
        return "no answer" if condition == "nothing" else "all answers"
    return f"{_SURE_ANSWERS[signal]} {condition.partition(' ')[2]}"


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


LEARNING_SHARE: Final = 5
"""One unit in this many is a learning unit: see `benchmarks/coverage_thresholds.py`."""

_SALT: Final = "pact-thresholds-1"
_WORD: Final = 2**32


@dataclass(frozen=True, eq=False)
class GateItems:
    """The items of a run, as a gate sees them.

    Attributes:
        ids: (n,) text.
        unit: (n,) name of the family, or of the source family if those are the units.
        fold: (n,) name of the source family, by which gates are cross-validated.
        sureness: (n,) what the gate is on: the higher, the surer. -inf without an answer.
        wrong: (n,) whether the answer is wrong; items without an answer are never accepted.
        counting: whether every unit counts the same, or every item.
    """

    ids: TextArray
    unit: TextArray
    fold: TextArray
    sureness: FloatArray
    wrong: BoolArray
    counting: Counting = "families"

    def __len__(self) -> int:
        return len(self.ids)

    def taken(self, rows: IntArray | BoolArray) -> GateItems:
        """Return some of the items."""
        columns = (column.name for column in fields(self) if column.name != "counting")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    @cached_property
    def units(self) -> Labels:
        """The units as codes."""
        return Labels.of(self.unit)

    @property
    def equal_units(self) -> bool:
        """Whether all units have the same number of items."""
        return len(set(np.bincount(self.units.codes).tolist())) < 2

    @cached_property
    def draw(self) -> Draw:
        """Items that the tests may see: see `Draw`."""
        return Draw.of(self)

    def accepted(self, threshold: float | None) -> BoolArray:
        """(n,) whether a gate accepts each item; None accepts none, and -inf every answer."""
        if threshold is None:
            return np.zeros(len(self), dtype=np.bool_)
        return np.asarray((self.sureness >= threshold) & (self.sureness > -np.inf))


@dataclass(frozen=True, eq=False)
class Draw:
    """The learning items, and the drawn item of every unit.

    Attributes:
        learning: (n,) whether an item belongs to a learning unit.
        one: (n,) whether it is the drawn item of its unit.
        chance: (n,) probability with which the design draws each item.
        learning_units: number of learning units.
        tested_units: number of other units.
    """

    learning: BoolArray
    one: BoolArray
    chance: FloatArray
    learning_units: int
    tested_units: int

    @property
    def tested(self) -> BoolArray:
        """(n,) whether an item is the drawn item of a unit that is not a learning unit."""
        return self.one & ~self.learning

    @classmethod
    def of(cls, items: GateItems) -> Draw:
        """Draw from items."""
        units = items.units
        code = units.codes.astype(np.int64)
        words = np.array([_words(name) for name in units.texts.to_list()], dtype=np.int64)
        words = words.reshape(-1, 2)
        learns = words[:, 0] % LEARNING_SHARE == 0
        sizes = np.bincount(code, minlength=len(units))
        slots = sizes if items.counting == "families" else np.full_like(sizes, sizes.max(initial=1))
        slot = words[:, 1] * slots // _WORD
        order = np.lexsort((items.ids.astype(np.str_), code))
        place = np.empty(code.size, dtype=np.int64)
        place[order] = np.arange(code.size) - (np.cumsum(sizes) - sizes)[code[order]]
        learning = learns[code]
        return cls(
            learning=learning,
            one=np.asarray(place == slot[code]),
            chance=1 / slots[code],
            learning_units=int(learns.sum()),
            tested_units=int((~learns).sum()),
        )


def _words(name: str) -> tuple[int, int]:
    """Return two independent 32-bit numbers from a name."""
    text = f"{_SALT}\0{name}".encode("utf-8", errors="surrogatepass")
    number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
    return number // _WORD, number % _WORD


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
        >>> from pact_eval.thresholds.gates import GateItems, Target, choose_gate
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

    Raises:
        ValueError: the target has no costs.
    """
    if target.cost_wrong is None or target.cost_review is None:
        raise ValueError("target: expected costs, got none")
    accepted = items.accepted(threshold)
    wrong = float((accepted & items.wrong).mean())
    review = 1 - float(accepted.mean())
    return wrong * target.cost_wrong + review * target.cost_review


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
