"""Gates: their targets, the signals that they are on, and their exact tests.

A target of accuracy is one of error. Costs set the error up to which a decision of the model is
cheaper than a review: with `wrong` for a wrong decision and `review` for asking a person, the
expected cost of deciding is R * wrong for the error R among accepted items, so R must be at most
review / wrong.

Members of a family are correlated, so they are not independent trials. The units are therefore
families (or source families), and of every unit one item is drawn. A hash of the unit's name draws
it, so a choice is the same every time, and nobody can try seeds until a gate passes.

What counts the same decides how it is drawn. If *families* do, every unit gives one of its items.
The error rate of the drawn items is then that of a random item of a random family. If *items* do,
one of M slots is drawn, where M is the size of the largest unit: a unit of m items gives an item
with a probability of m / M, and the error rate is that of a random item. Few large families among
many small ones then leave few drawn items, and no method does much better: the large families hold
many items, and few families show how these are. With units of one size both are the same.

For a target error, the drawn items are ranked by their sureness, and the gates between them are
tested from strict to loose. A sequence of tests starts at each of `STARTS`, or where the tie there
ends; it ends at its first test that fails, and one that reaches the start of the next adds its
level (the fallback procedure). The gate at a start is not chosen: it would also accept what lies
between its last item and the next.

Ranks depend on the confidences alone, and for any model whose confidences have no ties the levels
are exact. The population has an error R(t) among items of sureness t or more. Where R crosses the
target it equals the target, so items between two crossings have the target as their mean error.
Given the numbers of drawn items between crossings, the ranks say which gates miss the target, and
of the k items that such a gate accepts, the wrong ones are at least as many as Bin(k, target) says:
its test passes with the probability of its level at most. A sequence that breaks the target has
passed the test of its first gate that misses it. With ties, the same holds if R crosses the target
once, and less sure answers than there are wrong at least as often as the target. Otherwise a
sequence may start in a tie beyond a crossing; in simulations, such models break it in 3.3% at most.

For a target escalation, the share that the gate at a rank escalates has a beta distribution, so the
strictest gate that passes is chosen with one test.

References:
    Angelopoulos et al., "Learn then test: calibrating predictive algorithms to achieve risk
    control", 2021; Wiens, "A fixed sequence Bonferroni procedure for testing multiple endpoints",
    Pharmaceutical Statistics 2, 2003.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from pact_eval._choices import Counting, Signal
from pact_eval._typing import BoolArray, FloatArray, IntArray, TextArray
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import Labels
from pact_eval.schema import Section
from pact_eval.stats.rates import critical_count, p_value_below

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
        >>> Target.of_error(0.25).rate, Target.of_costs(wrong=10, review=1).rate
        (0.25, 0.1)
    """

    kind: TargetKind
    rate: float
    cost_wrong: float | None = None
    cost_review: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise InputError(f"target: expected a rate above 0 and below 1, got {self.rate:g}")

    @classmethod
    def of_error(cls, rate: float) -> Target:
        """Limit the error among accepted items."""
        return cls("error", rate)

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
            raise InputError(
                "costs: expected 0 < review < wrong, got a review at "
                f"{review:g} and a wrong decision at {wrong:g}"
            )
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


SIGNALS: Final[tuple[Signal, ...]] = get_args(Signal)

SIGNAL_NAMES: Final[dict[Signal, str]] = {name: name for name in SIGNALS} | {
    "top": "top probability"
}
"""The signals in words."""

EVERY_ANSWER: Final = -10.0
"""Written for a gate that accepts every answer: no sureness is so low."""

_LOW_IS_SURE: Final[frozenset[Signal]] = frozenset({"entropy", "disagreement"})
"""Signals that are low if the run is sure; their sureness is minus the signal."""


def sureness(items: ScoredItems, signal: Signal) -> FloatArray | None:
    r"""Return how sure a run is of its answers: a signal, with the sign that makes more surer.

    Entropy is :math:`-\sum_j p_j \log p_j`. Disagreement is the mean TV between the raw
    distributions of the views, whatever the decoding is; see `metrics.pairwise_tv`.

    Args:
        items: scored items with their views in memory, under the decoding of the gate.
        signal: its name.

    Returns:
        (n,) probabilities, minus nats, or minus TV. None for the disagreement of one view.
    """
    if signal == "top":
        return items.confidence
    if signal == "disagreement":
        tv = np.asarray(items.values["view_tv"], dtype=np.float64)
        return None if items.k == 1 or np.isnan(tv).any() else -tv
    log_p = items.log_probs
    if signal == "entropy":
        p = np.exp(log_p)
        return np.asarray((p * np.where(p > 0, log_p, 0.0)).sum(axis=1), dtype=np.float64)
    largest = np.exp(np.partition(log_p, -2, axis=1)[:, -2:])
    return np.asarray(largest[:, 1] - largest[:, 0], dtype=np.float64)


def gate_text(threshold: float | None, signal: Signal) -> str:
    """Write the condition for acceptance by a gate.

    Example:
        >>> gate_text(0.93217, "top"), gate_text(-0.25, "entropy"), gate_text(None, "top")
        ('>= 0.9322', '<= 0.25', 'nothing')
    """
    if threshold is None:
        return "nothing"
    if threshold <= EVERY_ANSWER:
        return "every answer"
    return f"<= {-threshold:.4g}" if signal in _LOW_IS_SURE else f">= {threshold:.4g}"


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


_SALT: Final = "pact-thresholds-1"
_WORD: Final = 2**32


class Draw(NamedTuple):
    """The drawn item of every unit.

    Attributes:
        one: (n,) whether an item is the drawn item of its unit.
        chance: (n,) probability with which the design draws each item.
    """

    one: BoolArray
    chance: FloatArray


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
        """Items that the tests may see, one of a unit, by a hash of the unit's name."""
        code = self.units.codes.astype(np.int64)
        names = (
            f"{_SALT}\0{name}".encode("utf-8", errors="surrogatepass")
            for name in self.units.texts.to_list()
        )
        digests = (hashlib.blake2b(name, digest_size=8).digest() for name in names)
        words = [int.from_bytes(digest, "big") % _WORD for digest in digests]
        sizes = np.bincount(code, minlength=len(self.units))
        slots = sizes
        if self.counting == "items":
            slots = np.full_like(sizes, sizes.max(initial=1))
        slot = np.array(words, dtype=np.int64) * slots // _WORD
        order = np.lexsort((self.ids.astype(np.str_), code))
        place = np.empty(code.size, dtype=np.int64)
        place[order] = np.arange(code.size) - (np.cumsum(sizes) - sizes)[code[order]]
        return Draw(np.asarray(place == slot[code]), 1 / slots[code])

    def accepted(self, threshold: float | None) -> BoolArray:
        """(n,) whether a gate accepts each item; None accepts none, and -inf every answer."""
        if threshold is None:
            return np.zeros(len(self), dtype=np.bool_)
        return np.asarray((self.sureness >= threshold) & (self.sureness > -np.inf))


STARTS: Final = (0.15, 0.35)
"""Shares of the drawn items at which a sequence of tests starts: see `starts_of_tests`."""

ONE_START: Final = 0.25
"""The share at which it starts if 15% of the items are too few to pass a test."""

ROUNDING: Final = 1e-9
"""Gates are this much below the sureness of the least sure item that they accept."""


@dataclass(frozen=True, slots=True)
class GateTest:
    """The exact test of one gate.

    Attributes:
        threshold: the gate accepts what is at least as sure; -inf accepts every answer.
        accepted: drawn items that it accepts; for an escalation target, all drawn items.
        wrong: those of them that are wrong; for an escalation target, those that it escalates.
        p_value: of "the target is exceeded".
    """

    threshold: float
    accepted: int
    wrong: int
    p_value: float


@dataclass(frozen=True, slots=True)
class ChosenGate:
    """The gate that was chosen for some items.

    Attributes:
        threshold: the gate, or None if none can be guaranteed.
        test: of the gate; without one, of the first tests that with the smallest p-value; None if
            too few items can be tested.
        tested_units: families that gave a tested item.
    """

    threshold: float | None
    test: GateTest | None
    tested_units: int


def choose_gate(items: GateItems, target: Target, confidence: float) -> ChosenGate:
    """Choose a gate; see the module for what is guaranteed.

    Args:
        items: items with references, or without an answer.
        target: what the gate must keep.
        confidence: of the guarantee, in (0, 1).

    Returns:
        The loosest gate that passes, for an escalation target the strictest. With costs, it is the
        one of the least expected cost among those that pass.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.thresholds.gates import GateItems, Target, choose_gate
        >>> names = np.array([f"family {i}" for i in range(500)], dtype=object)
        >>> sure = np.linspace(0, 1, 500)
        >>> items = GateItems(names, names, names, sure, wrong=sure < 0.3)
        >>> gate = choose_gate(items, Target.of_error(0.1), 0.95)
        >>> round(gate.threshold, 2), gate.test.wrong, gate.test.accepted
        (0.25, 27, 377)
    """
    tested = items.taken(items.draw.one)
    order = np.argsort(-tested.sureness, kind="stable")
    tests = ranked_tests(tested.sureness[order], tested.wrong[order], target, 1 - confidence)
    passed = np.flatnonzero(tests.passed)
    if not passed.size:
        closest = None if tests.closest is None else tests.test(tests.closest)
        return ChosenGate(None, closest, len(tested))
    at = passed[-1] if target.limits_error else passed[0]
    if target.cost_wrong is not None and target.cost_review is not None:
        answered = items.taken(items.sureness > -np.inf)
        order = np.argsort(-answered.sureness)
        accepted = np.searchsorted(-answered.sureness[order], -tests.gates[passed], side="right")
        wrong = np.r_[0, np.cumsum(answered.wrong[order])][accepted]
        at = passed[np.argmin(wrong * target.cost_wrong - accepted * target.cost_review)]
    test = tests.test(int(at))
    return ChosenGate(test.threshold, test, len(tested))


@dataclass(frozen=True, eq=False)
class RankedTests:
    """The tests of the gates that accept 1, 2, ... of the drawn items.

    Attributes:
        gates: (n,) thresholds, the strictest first.
        trials: (n,) as `accepted` of `GateTest`.
        wrong: (n,) as there.
        p_values: (n,) of "the target is exceeded".
        passed: (n,) whether a gate may be chosen.
        closest: the first test of a sequence with the smallest p-value; None without tests.
    """

    gates: FloatArray
    trials: IntArray
    wrong: IntArray
    p_values: FloatArray
    passed: BoolArray
    closest: int | None

    def test(self, at: int) -> GateTest:
        """Return the test of one gate."""
        numbers = int(self.trials[at]), int(self.wrong[at]), float(self.p_values[at])
        return GateTest(float(self.gates[at]), *numbers)


def ranked_tests(
    sureness: FloatArray, wrong: BoolArray, target: Target, level: float
) -> RankedTests:
    """Test drawn items that are ranked by sureness; those without an answer are last."""
    tested, n = len(sureness), int((sureness > -np.inf).sum())
    accepted = np.arange(1, n + 1)
    # An item as sure as another must pass with it, whatever rounds its numbers.
    gates = np.r_[sureness[: max(n - 1, 0)] - ROUNDING, -np.inf][:n]
    separates = np.r_[gates[:-1] > sureness[1:n], True][:n]
    if target.limits_error:
        trials, errors = accepted, np.cumsum(wrong[:n], dtype=np.int64)
        starts = starts_of_tests(n, target.rate, level)
    else:
        trials, errors = np.full_like(accepted, tested), tested - accepted
        starts = [(n, level)] if n else []
    p_values = p_value_below(errors, trials, target.rate)
    passed = p_values <= level
    if target.limits_error:
        passed = _pass_in_sequence(p_values, separates, starts)
    ends = np.flatnonzero(separates)
    firsts = [int(ends[np.searchsorted(ends, start - 1)]) for start, _ in starts]
    closest = min(firsts, key=lambda first: float(p_values[first]), default=None)
    return RankedTests(gates, trials, errors, p_values, separates & passed, closest)


def starts_of_tests(items: int, rate: float, level: float) -> list[tuple[int, float]]:
    """Return where sequences of tests start: numbers of accepted items, and the level of each.

    Starts do not depend on what is right. Of all numbers of items that may have as many errors as
    a share of `STARTS`, the smallest is taken.

    Args:
        items: number of drawn items that have an answer.
        rate: the target, in (0, 1).
        level: of all tests together.

    Returns:
        No start if even all items without an error do not show the target.

    Examples:
        >>> from pact_eval.thresholds.gates import starts_of_tests
        >>> starts_of_tests(400, 0.1, 0.05), starts_of_tests(200, 0.1, 0.05)
        ([(54, 0.025), (127, 0.025)], [(46, 0.05)])
    """
    shares, each = [*STARTS], level / len(STARTS)
    if critical_count(round(STARTS[0] * items), rate, each) < 0:
        shares, each = [ONE_START], level
    starts = sorted({_fewest(round(share * items), rate, each) for share in shares})
    return [(start, each) for start in starts if start <= items]


def _fewest(trials: int, rate: float, level: float) -> int:
    """Return the fewest trials that may have as many errors as so many; at least without any."""
    wrong = max(int(critical_count(trials, rate, level)), 0)
    most = max(trials, math.ceil(math.log(level) / math.log1p(-rate)) + 1)
    return 1 + bisect_left(
        range(1, most), -level, key=lambda n: -float(p_value_below(wrong, n, rate))
    )


def _pass_in_sequence(
    p_values: FloatArray, separates: BoolArray, starts: Sequence[tuple[int, float]]
) -> BoolArray:
    """Return (n,) which gates pass: see the module.

    Args:
        p_values: (n,) of the gates, the strictest first.
        separates: (n,) whether no item that a gate refuses is as sure as one that it accepts.
        starts: the first test of each sequence, ascending, and its level.
    """
    passes = np.zeros(len(p_values), dtype=np.bool_)
    level = 0.0
    for (start, added), (end, _) in pairwise([*starts, (len(p_values) + 1, 0.0)]):
        first = start if level == 0 else start - 1
        level += added
        fails = separates[start - 1 : end - 1] & (p_values[start - 1 : end - 1] > level)
        if fails.any():
            end, level = start + int(np.argmax(fails)), 0.0
        passes[first : end - 1] = True
    return passes


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


def gate_test(drawn: GateItems, threshold: float, target: Target) -> GateTest:
    """Test one gate on independent items.

    Args:
        drawn: one item of each unit.
        threshold: the gate.
        target: what it must keep.
    """
    accepted = drawn.accepted(threshold)
    if target.limits_error:
        n, wrong = int(accepted.sum()), int((accepted & drawn.wrong).sum())
    else:
        n, wrong = len(drawn), int((~accepted).sum())
    return GateTest(float(threshold), n, wrong, float(p_value_below(wrong, n, target.rate)))
