"""What judging gives: verdicts, each with the evidence that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pact_eval.preregistration.criteria import Check, Hypothesis, Question
from pact_eval.preregistration.table import MetricRow
from pact_eval.preregistration.verdicts import Outcome, Verdict, outcomes_of, verdict_on
from pact_eval.stats import Estimate

__all__ = [
    "CheckResult",
    "Comparison",
    "HypothesisResult",
    "Reading",
    "Scorecard",
    "WeightedRow",
    "weighted_rows",
]


@dataclass(frozen=True, slots=True)
class WeightedRow:
    """A number and its weight in a sum."""

    weight: float
    row: MetricRow


@dataclass(frozen=True, slots=True)
class Reading:
    """A quantity as the data have it.

    Attributes:
        value: mean over the seeds; NaN where a number is missing.
        rows: the number of each seed.
        minus: what is subtracted at each seed; empty where nothing is.
    """

    value: float
    rows: tuple[MetricRow, ...]
    minus: tuple[MetricRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two quantities compared, at one seed or on the means over several.

    Attributes:
        question: the quantities.
        seeds: the seeds compared; (None,) where no run has one, () where it is not clear which.
        left: the first quantity.
        right: the second.
        difference: first minus second, rates as fractions; NaN where data are lacking.
        holds: whether the check holds here; None where data are lacking.
        reason: why they are lacking.
        interval: interval of the difference, where one was given.
    """

    question: Question
    seeds: tuple[int | None, ...]
    left: Reading
    right: Reading
    difference: float
    holds: bool | None
    reason: str | None = None
    interval: Estimate | None = None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check and its comparisons, one for each arm, decoding, group and matched seed."""

    check: Check
    comparisons: tuple[Comparison, ...]

    @property
    def outcomes(self) -> frozenset[Outcome]:
        """What the check shows: holds, fails or mixed, and whether it lacks data."""
        return outcomes_of(each.holds for each in self.comparisons)

    @property
    def holding(self) -> int:
        """Number of comparisons in which the check holds."""
        return sum(each.holds is True for each in self.comparisons)

    @property
    def failing(self) -> int:
        """Number of comparisons in which it fails."""
        return sum(each.holds is False for each in self.comparisons)

    @property
    def lacking(self) -> int:
        """Number of comparisons that lack data."""
        return sum(each.holds is None for each in self.comparisons)

    @property
    def summary(self) -> str:
        """How the comparisons came out, in words."""
        tested = self.holding + self.failing
        if tested == 0:
            return "lacks data"
        if tested == 1:
            shown = "holds" if self.holding else "fails"
        elif self.failing == 0:
            shown = f"holds in {tested} of {tested}"
        else:
            shown = f"holds in {self.holding} of {tested}, fails in {self.failing}"
        return f"{shown}; {self.lacking} without data" if self.lacking else shown

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why data are lacking, each reason once."""
        return tuple(dict.fromkeys(each.reason for each in self.comparisons if each.reason))


@dataclass(frozen=True, slots=True)
class HypothesisResult:
    """A hypothesis and what became of it.

    Attributes:
        hypothesis: the claim and its checks.
        checks: the checks that decide.
        beside: what readers must see, and decides nothing.
    """

    hypothesis: Hypothesis
    checks: tuple[CheckResult, ...]
    beside: tuple[CheckResult, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict by the table in `verdicts`."""
        return verdict_on(result.outcomes for result in self.checks)

    @property
    def because(self) -> str:
        """How many checks hold, fail, point both ways and lack data, in words."""
        shown = [result.outcomes for result in self.checks]
        counts = (
            ("hold", "holds", sum("holds" in each for each in shown)),
            ("fail", "fails", sum("fails" in each for each in shown)),
            ("point both ways", "points both ways", sum("mixed" in each for each in shown)),
            ("lack data", "lacks data", sum(each == {"lacks"} for each in shown)),
            (
                "lack some of their data",
                "lacks some of its data",
                sum({"lacks"} < each for each in shown),
            ),
        )
        said = [f"{n} {one if n == 1 else many}" for many, one, n in counts if n]
        return f"of {_checks(len(shown))}, {', '.join(said)}"


@dataclass(frozen=True, slots=True)
class Scorecard:
    """The verdicts on all hypotheses of a file, in its order."""

    results: tuple[HypothesisResult, ...]

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """The verdicts by id."""
        return {result.hypothesis.id: result.verdict for result in self.results}

    def __getitem__(self, hypothesis_id: str) -> HypothesisResult:
        for result in self.results:
            if result.hypothesis.id == hypothesis_id:
                return result
        raise KeyError(hypothesis_id)


def weighted_rows(left: Reading, right: Reading) -> tuple[WeightedRow, ...]:
    """Write the difference of two readings as a weighted sum of numbers.

    Example:
        >>> from pact_eval.preregistration import Cell
        >>> one, other = (MetricRow(Cell("ece", arm, "single", "all"), 17, 0.1) for arm in "ab")
        >>> [each.weight for each in weighted_rows(Reading(0.1, (one,)), Reading(0.1, (other,)))]
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


def _checks(n: int) -> str:
    return "1 check" if n == 1 else f"{n} checks"
