"""Scorecard: verdicts on hypotheses, each with its evidence.

Each comparison of a check holds, fails or lacks data. A check *holds* if all of its comparisons
with data hold, *fails* if they all fail, and is *mixed* if it points both ways (over seeds,
decodings, arms or groups). If some comparisons of a check lack data, the check also counts as
*lacking*. The verdict depends only on which of the four outcomes occur:

    holds  fails  mixed  lacks  verdict           why
    -----  -----  -----  -----  ----------------  -------------------------------------------------
    yes    -      -      -      SUPPORTED         all checks hold
    yes    yes    -      -      PARTLY SUPPORTED  some hold, some fail
    yes    yes    -      yes    PARTLY SUPPORTED  likewise, and further data undo neither
    yes    yes    yes    -      PARTLY SUPPORTED  likewise, whichever way the mixed check would fall
    yes    yes    yes    yes    PARTLY SUPPORTED  likewise
    -      -      yes    -      INCONCLUSIVE      all checks point both ways
    yes    -      yes    -      INCONCLUSIVE      supported or partly so: the mixed check decides
    -      yes    yes    -      INCONCLUSIVE      contradicted or partly so: the mixed check decides
    -      -      yes    yes    INCONCLUSIVE      what was tested points both ways
    yes    -      yes    yes    INCONCLUSIVE      as without the missing data
    -      yes    yes    yes    INCONCLUSIVE      as without the missing data
    -      yes    -      -      CONTRADICTED      all checks fail
    -      yes    -      yes    CONTRADICTED      all that was tested fails: missing data must not
                                                  soften a failure
    yes    -      -      yes    PARTLY TESTED     all that was tested holds, the rest lacks data
    -      -      -      yes    UNTESTED          no check has data

The same as rules, of which the first that applies counts: UNTESTED if nothing was tested; PARTLY
SUPPORTED if a check holds and another fails; INCONCLUSIVE if a check is mixed; CONTRADICTED if one
fails; PARTLY TESTED if one lacks data; otherwise SUPPORTED.

The verdict rests on the values. Next to it, a hypothesis is *shown* or holds *by value only*. It is
a claim that all of its comparisons hold:

- It is supported as shown if every comparison is shown to hold. No correction for the number of
  comparisons is needed: this is the intersection-union test (Berger 1982).
- It is refuted as shown if one comparison is shown to fail, whatever the verdict by values. One
  failing run refutes a claim about every run. With m comparisons, each failure is judged at the
  level 0.05 / m (Bonferroni), so that chance refutes at most 5% of true claims.

Reference: Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 1982.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pact_eval._choices import Demand
from pact_eval.errors import counted
from pact_eval.evaluation.arms.arm_differences import Margin
from pact_eval.evaluation.arms.arm_metrics import MetricRow
from pact_eval.evaluation.diagnostics import Diagnostic
from pact_eval.evaluation.registry import DIFFERENCE, metric_spec
from pact_eval.numbers import has_width
from pact_eval.preregistration.criteria import Check, Hypothesis, Question, Relation
from pact_eval.stats.estimate import LEVEL, Estimate

ShownMethod = Literal["interval", "construction"]
"""What decides whether a comparison is shown."""

# Ends that differ from a bound by less touch it.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class ShownBy:
    """Whether a comparison is shown, and by what.

    Attributes:
        shown: whether chance explains the result in at most `level` of samples.
        level: two-sided level, 0.05; for a failure among m comparisons of a hypothesis, 0.05 / m.
        method: what decides; None if nothing can.
        low: lower end of the interval that decides; NaN if none does.
        high: upper end of it.
        reason: why nothing can decide, or what makes the difference certain; otherwise None.
    """

    shown: bool
    level: float = LEVEL
    method: ShownMethod | None = None
    low: float = math.nan
    high: float = math.nan
    reason: str | None = None


BY_CONSTRUCTION: Final = ShownBy(shown=True, method="construction", reason="0 by construction")
"""The evidence on a difference that is 0 whatever the data, such as that of accuracy before and
after calibration: no temperature changes the most probable answer."""


def by_interval(
    relation: Relation,
    margin: Margin,
    interval: Estimate | None,
    *,
    holds: bool,
    level: float = LEVEL,
) -> ShownBy:
    r"""Decide by the interval of the difference.

    With margin m, a comparison that holds is shown if the interval lies in

    ===========  ==========  ============  ===========  ===========
    higher       lower       not higher    not lower    similar
    d > m        d < -m      d < m         d > -m       -m < d < m
    ===========  ==========  ============  ===========  ===========

    A comparison that fails is shown if the interval lies in the opposite (for similar: d > m, or
    d < -m). An end that touches a bound does not lie beyond it: the percentile interval of a rare
    difference ends at exactly 0. An interval of width 0 shows nothing.

    Args:
        relation: relation that the difference must satisfy.
        margin: m.
        interval: at confidence 1 - level; None if there is none.
        holds: whether the value satisfies the relation.
        level: two-sided.

    References:
        Schuirmann, "A comparison of the two one-sided tests procedure and the power approach",
        Journal of Pharmacokinetics and Biopharmaceutics 1987.

    Examples:
        >>> gap = Estimate(0.004, -0.003, 0.011, n=9000, clusters=4500)
        >>> by_interval("similar", Margin(2, "points"), gap, holds=True).shown
        True
        >>> by_interval("similar", Margin(1, "points"), gap, holds=True).shown
        False
        >>> by_interval("higher", Margin(0, ""), gap, holds=True).shown
        False
    """
    if interval is None or math.isnan(interval.low) or math.isnan(interval.high):
        missing = None if interval is None else interval.reason
        return ShownBy(shown=False, level=level, reason=missing or "no interval")
    low, high = interval.low, interval.high
    if high - low <= _ROUNDING:
        nothing = "an interval of width 0 shows nothing"
        return ShownBy(shown=False, level=level, low=low, high=high, reason=nothing)
    m = margin.distance
    if relation == "similar":
        sides = [(-m, m)] if holds else [(-math.inf, -m), (m, math.inf)]
    else:
        bound = m if relation in ("higher", "not higher") else -m
        above = (relation in ("higher", "not lower")) == holds
        sides = [(bound, math.inf)] if above else [(-math.inf, bound)]
    shown = any(
        (math.isinf(start) or low > start + _ROUNDING)
        and (math.isinf(end) or high < end - _ROUNDING)
        for start, end in sides
    )
    return ShownBy(shown, level, "interval", low, high)


Outcome = Literal["holds", "fails", "mixed", "lacks"]
"""The outcome of a check."""

Verdict = Literal[
    "SUPPORTED",
    "PARTLY SUPPORTED",
    "PARTLY TESTED",
    "INCONCLUSIVE",
    "CONTRADICTED",
    "UNTESTED",
]
"""The verdict on a hypothesis."""

Shown = Literal["supported", "tested part", "refuted"]
"""What is shown of a hypothesis: all of it, all that has data, or that it is wrong."""

Standing = Literal["supported", "not clear", "contradicted"]
"""What a demand on a scorecard makes of a hypothesis."""


def outcomes_of(comparisons: Iterable[bool | None]) -> frozenset[Outcome]:
    """Return the outcomes of a check: one of holds, fails and mixed, and whether it lacks data.

    Args:
        comparisons: whether each comparison holds; None if it lacks data.

    Examples:
        >>> sorted(outcomes_of([True, True])), sorted(outcomes_of([True, False, None]))
        (['holds'], ['lacks', 'mixed'])
    """
    seen = frozenset(comparisons)
    shown: set[Outcome] = set()
    if {True, False} <= seen:
        shown.add("mixed")
    elif True in seen:
        shown.add("holds")
    elif False in seen:
        shown.add("fails")
    if None in seen or not seen:
        shown.add("lacks")
    return frozenset(shown)


def verdict_on(checks: Iterable[frozenset[Outcome]]) -> Verdict:
    """Return the verdict on a hypothesis from the outcomes of its checks, by the rules above.

    Raises:
        ValueError: there are no checks.

    Examples:
        >>> verdict_on([frozenset({"holds"}), frozenset({"lacks"})])
        'PARTLY TESTED'
    """
    shown = frozenset[Outcome]().union(*checks)
    if not shown:
        raise ValueError("expected at least one check")
    if shown == {"lacks"}:
        return "UNTESTED"
    if {"holds", "fails"} <= shown:
        return "PARTLY SUPPORTED"
    if "mixed" in shown:
        return "INCONCLUSIVE"
    if "fails" in shown:
        return "CONTRADICTED"
    return "PARTLY TESTED" if "lacks" in shown else "SUPPORTED"


@dataclass(frozen=True, slots=True)
class WeightedRow:
    """A number and its weight in a sum."""

    weight: float
    row: MetricRow


@dataclass(frozen=True, slots=True)
class Reading:
    """The value of a quantity in the data.

    Attributes:
        value: mean over the seeds; NaN if a number is missing.
        rows: the number of each seed.
        minus: the number that is subtracted at each seed; empty if there is none.
    """

    value: float
    rows: tuple[MetricRow, ...]
    minus: tuple[MetricRow, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckComparison:
    """Two quantities compared, at one seed or on the means over several.

    Attributes:
        question: the quantities.
        seeds: the compared seeds; (None,) if no run has a seed, () if they cannot be determined.
        left: the first quantity.
        right: the second quantity.
        difference: first minus second, rates as fractions; NaN if data are missing.
        holds: whether the check holds here; None if data are missing.
        reason: why data are missing.
        interval: 95% interval of the difference, if there is one.
        evidence: whether the result is shown; None if data are missing.
    """

    question: Question
    seeds: tuple[int | None, ...]
    left: Reading
    right: Reading
    difference: float
    holds: bool | None
    reason: str | None = None
    interval: Estimate | None = None
    evidence: ShownBy | None = None

    @property
    def shown(self) -> bool:
        """Whether the comparison is shown to hold, or to fail."""
        return self.evidence is not None and self.evidence.shown

    @property
    def rows(self) -> tuple[MetricRow, ...]:
        """The numbers of both quantities."""
        return tuple(
            row for reading in (self.left, self.right) for row in (*reading.rows, *reading.minus)
        )

    def __str__(self) -> str:
        return f"{self.question.left.cell}{self._at_seeds(', ')}"

    def _at_seeds(self, between: str) -> str:
        seeds = [str(seed) for seed in self.seeds if seed is not None]
        return f" at {'seeds' if seeds[1:] else 'seed'} {between.join(seeds)}" if seeds else ""

    @property
    def difference_text(self) -> str:
        """The difference with its interval where that has a width, its seeds and its decodings.

        Example:
            "−1.2 [−3.0, +0.6] at seed 17, single"
        """
        spec = metric_spec(self.question.left.cell.metric)
        points = DIFFERENCE if spec.unit == "percent" else spec

        def signed(value: float) -> str:
            return f"{'+' if points is spec and value > 0 else ''}{points.shown(value)}"

        interval = self.interval
        ends = ""
        if interval is not None and has_width(interval):
            ends = f" [{signed(interval.low)}, {signed(interval.high)}]"
        decodings = dict.fromkeys(str(cell.decoding) for cell in self.question.cells)
        at = self._at_seeds("/")
        return f"{signed(self.difference)}{ends}{at}, {' - '.join(decodings)}"


@dataclass(frozen=True, slots=True)
class JudgedCheck:
    """A check and its comparisons, one for each arm, decoding, group and matched seed."""

    check: Check
    comparisons: tuple[CheckComparison, ...]

    @property
    def outcomes(self) -> frozenset[Outcome]:
        """The outcomes: holds, fails or mixed, and whether the check lacks data."""
        return outcomes_of(comparison.holds for comparison in self.comparisons)

    @property
    def summary(self) -> str:
        """The results of the comparisons, in words."""
        results = [comparison.holds for comparison in self.comparisons]
        holding, failing, lacking = (results.count(one) for one in (True, False, None))
        tested = holding + failing
        if tested == 0:
            return "lacks data"
        if tested == 1:
            shown = "holds" if holding else "fails"
        elif failing == 0:
            shown = f"holds in {tested} of {tested}"
        else:
            shown = f"holds in {holding} of {tested}, fails in {failing}"
        return f"{shown}; {lacking} without data" if lacking else shown

    @property
    def shown(self) -> str:
        """Whether the results are shown or by value only, in words; empty without data."""
        tested = sum(comparison.holds is not None for comparison in self.comparisons)
        shown = sum(comparison.shown for comparison in self.comparisons)
        if tested == 0:
            return ""
        if shown == tested:
            return "shown"
        return f"shown in {shown} of {tested}" if shown else "by value only"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why data are missing, each once."""
        return tuple(
            dict.fromkeys(comparison.reason for comparison in self.comparisons if comparison.reason)
        )


@dataclass(frozen=True, slots=True)
class HypothesisResult:
    """A hypothesis and the results of its checks.

    Attributes:
        hypothesis: the claim and its checks.
        checks: the decisive checks.
        beside: checks that are shown but do not affect the verdict.
    """

    hypothesis: Hypothesis
    checks: tuple[JudgedCheck, ...]
    beside: tuple[JudgedCheck, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict, by the table at the top of this module."""
        return verdict_on(result.outcomes for result in self.checks)

    def standing(self, demand: Demand) -> Standing:
        """Return whether the hypothesis is supported or contradicted by the values, or as shown."""
        if demand == "shown":
            supported, contradicted = self.shown == "supported", self.shown == "refuted"
        else:
            supported, contradicted = (
                self.verdict == verdict for verdict in ("SUPPORTED", "CONTRADICTED")
            )
        if contradicted:
            return "contradicted"
        return "supported" if supported else "not clear"

    @property
    def comparisons(self) -> tuple[CheckComparison, ...]:
        """The comparisons of the decisive checks."""
        return tuple(comparison for check in self.checks for comparison in check.comparisons)

    @property
    def refuted_by(self) -> tuple[CheckComparison, ...]:
        """The comparisons that are shown to fail."""
        return tuple(
            comparison
            for comparison in self.comparisons
            if comparison.holds is False and comparison.shown
        )

    @property
    def shown(self) -> Shown | None:
        """Part of the claim that is shown; None if it holds or fails by value only."""
        if self.refuted_by:
            return "refuted"
        tested = [comparison for comparison in self.comparisons if comparison.holds is not None]
        if not tested or not all(comparison.holds and comparison.shown for comparison in tested):
            return None
        return "supported" if len(tested) == len(self.comparisons) else "tested part"

    @property
    def shown_words(self) -> str:
        """Whether the verdict is shown or by value only, in words; empty if it is UNTESTED.

        A refutation names the comparison, unless the verdict is CONTRADICTED.
        """
        verdict, shown = self.verdict, self.shown
        if verdict == "UNTESTED":
            return ""
        if shown is None:
            return "by value only"
        if shown == "tested part":
            return "shown where tested"
        if shown == "supported" or verdict == "CONTRADICTED":
            return "shown"
        first, *others = self.refuted_by
        more = f" and {len(others)} more" if others else ""
        return f"refuted as shown by {first}{more}"

    @property
    def conclusion(self) -> str:
        """The verdict, and whether it is shown or by value only."""
        return f"{self.verdict}, {self.shown_words}".removesuffix(", ")

    @property
    def because(self) -> str:
        """Number of checks that hold, fail, point both ways and lack data, in words."""
        shown = [result.outcomes for result in self.checks]
        counts = (
            ("hold", "holds", ["holds" in outcomes for outcomes in shown]),
            ("fail", "fails", ["fails" in outcomes for outcomes in shown]),
            ("point both ways", "points both ways", ["mixed" in outcomes for outcomes in shown]),
            ("lack data", "lacks data", [outcomes == {"lacks"} for outcomes in shown]),
            ("lack some of their data", "lacks some of its data", [{"lacks"} < s for s in shown]),
        )
        parts = [f"{sum(n)} {one if sum(n) == 1 else many}" for many, one, n in counts if any(n)]
        return f"of {counted(len(shown), 'check')}, {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Scorecard:
    """The verdicts on all hypotheses of a file, in its order."""

    results: tuple[HypothesisResult, ...]

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """The verdicts by id."""
        return {result.hypothesis.id: result.verdict for result in self.results}

    @property
    def arms(self) -> frozenset[str]:
        """The arms that the checks compare."""
        return frozenset(
            cell.arm
            for result in self.results
            for check in (*result.checks, *result.beside)
            for comparison in check.comparisons
            for cell in comparison.question.cells
        )

    def __getitem__(self, hypothesis_id: str) -> HypothesisResult:
        for result in self.results:
            if result.hypothesis.id == hypothesis_id:
                return result
        raise KeyError(hypothesis_id)


def weighted_rows(left: Reading, right: Reading) -> tuple[WeightedRow, ...]:
    """Return the difference of two readings as a weighted sum of numbers.

    Examples:
        >>> from pact_eval.evaluation.arms.arm_metrics import MetricCell
        >>> from pact_eval.evaluation.registry import SINGLE
        >>> one, other = (MetricRow(MetricCell("ece", arm, SINGLE, "all"), 17, 0.1) for arm in "ab")
        >>> [row.weight for row in weighted_rows(Reading(0.1, (one,)), Reading(0.1, (other,)))]
        [1.0, -1.0]
    """
    return tuple(
        WeightedRow(sign / len(rows), row)
        for sign, rows in (
            (1, left.rows),
            (-1, left.minus),
            (-1, right.rows),
            (1, right.minus),
        )
        for row in rows
    )


_SUPPORTED: Final = ("SUPPORTED", "PARTLY SUPPORTED", "PARTLY TESTED")


def on_verdicts(scorecard: Scorecard) -> Iterator[Diagnostic]:
    """Check whether supported claims hold beyond chance, of items and of training.

    Args:
        scorecard: the verdicts, which rest on the values alone.
    """
    for result in scorecard.results:
        reasons = [*_weaknesses(result)] if result.verdict in _SUPPORTED else []
        if reasons:
            name = str(result.hypothesis.id)
            text = f"{name} is {result.verdict}, but {'; and '.join(reasons)}"
            yield Diagnostic("verdict", "warning", None, text)


def _weaknesses(result: HypothesisResult) -> Iterator[str]:
    """Name comparisons that hold by value although there is an interval or a test, and one seed."""
    holding = [comparison for comparison in result.comparisons if comparison.holds]
    judged = [
        comparison for comparison in holding if comparison.shown or comparison.interval is not None
    ]
    doubtful = [comparison for comparison in judged if not comparison.shown]
    if doubtful:
        example = f"{'such as ' if len(doubtful) > 1 else ''}{doubtful[0].difference_text}"
        yield (
            f"by value only in {len(doubtful):,} of the {len(judged):,} comparisons that hold "
            f"({example})"
        )
    seeds = {seed for comparison in holding for seed in comparison.seeds}
    if len(seeds) == 1:
        (seed,) = seeds
        yield f"it rests on {'one run without a seed' if seed is None else f'seed {seed} alone'}"
