"""Worries about claims that compare: arms, seeds, paired tests, the registration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pact_eval.preregistration import Comparison, HypothesisResult, Registration, Scorecard, holds
from pact_eval.stats import Estimate
from pact_reports.numbers import has_width, interval_text, no_interval
from pact_reports.page.diagnostics.model import Worry
from pact_reports.tables.scorecard import difference_text

__all__ = [
    "Difference",
    "registration_worries",
    "seed_worries",
    "undecided_worries",
    "verdict_worries",
    "warning_worries",
]


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference in accuracy between two arms.

    Attributes:
        method: the first arm.
        control: the second.
        seed: that they share, or None.
        accuracy: first minus second, a fraction, with its interval over families.
    """

    method: str
    control: str
    seed: int | None
    accuracy: Estimate

    @property
    def where(self) -> str:
        """Which two runs, in words."""
        seed = "" if self.seed is None else f" at seed {self.seed}"
        return f"{self.method} against {self.control}{seed}"


def seed_worries(arms: Mapping[str, Sequence[int | None]]) -> tuple[Worry, ...]:
    """Worry about arms that were trained at one seed.

    Args:
        arms: seeds of each arm; an arm without any (a base model) is none to worry about.

    Example:
        >>> [worry.says for worry in seed_worries({"pact": [17], "base": [None], "ce": [17, 18]})]
        ['pact was trained at seed 17 only; two seeds or more give a spread']
    """
    return tuple(
        Worry(
            "one-seed",
            "serious",
            f"{arm} was trained at seed {seeds[0]} only; two seeds or more give a spread",
        )
        for arm, seeds in arms.items()
        if len(seeds) == 1 and seeds[0] is not None
    )


def undecided_worries(differences: Sequence[Difference]) -> tuple[Worry, ...]:
    """Worry about differences that are not shown, and about those that are against the method."""
    found = []
    for each in differences:
        estimate = each.accuracy
        basis = f"{estimate.n:,} items, {estimate.clusters:,} families"
        number = f"{interval_text(estimate, 'points', ' points')} of accuracy"
        drawn = f"{each.where}: {number} (95% interval over families; {basis})"
        if not has_width(estimate):
            says = f"{each.where}: the difference has {no_interval(estimate)} ({basis})"
            found.append(Worry("undecided", "serious", says))
        elif estimate.low <= 0 <= estimate.high:
            found.append(Worry("undecided", "serious", f"{drawn}; it must not cover 0"))
        elif estimate.high < 0:
            found.append(Worry("worse", "serious", f"{drawn}, all of it below 0"))
    return tuple(found)


def verdict_worries(scorecard: Scorecard) -> tuple[Worry, ...]:
    """Worry about claims that are called supported on less than a reader would take it for.

    Args:
        scorecard: the verdicts; they rest on the values alone.
    """
    found = []
    for result in scorecard.results:
        if result.verdict not in ("SUPPORTED", "PARTLY SUPPORTED", "PARTLY TESTED"):
            continue
        said = [*_beyond(result), *_seeds(result)]
        if said:
            says = f"{result.hypothesis.id} is {result.verdict}, but {'; and '.join(said)}"
            found.append(Worry("verdict", "serious", says))
    return tuple(found)


def _beyond(result: HypothesisResult) -> list[str]:
    """Say how many comparisons hold whose interval reaches where the check would fail."""
    drawn: list[Comparison] = []
    doubtful: list[Comparison] = []
    zero = True
    for check in result.checks:
        relation, margin = check.check.relation, check.check.margin
        for each in check.comparisons:
            if not each.holds or each.interval is None or np.isnan(each.interval.low):
                continue
            drawn.append(each)
            ends = (each.interval.low, each.interval.high)
            if not all(holds(relation, margin, end) for end in ends):
                doubtful.append(each)
                zero = zero and margin.distance == 0
    if not doubtful:
        return []
    reaches = "covers 0" if zero else "reaches where the check would fail"
    first = difference_text(doubtful[0])
    return [
        f"the 95% interval over families {reaches} in {len(doubtful):,} of the {len(drawn):,} "
        f"comparisons that hold ({'such as ' if len(doubtful) > 1 else ''}{first})"
    ]


def _seeds(result: HypothesisResult) -> list[str]:
    """Say where all that holds rests on one seed."""
    seeds = {
        seed
        for check in result.checks
        for each in check.comparisons
        if each.holds
        for seed in each.seeds
    }
    if len(seeds) != 1:
        return []
    (seed,) = seeds
    return [
        "it rests on one run without a seed" if seed is None else f"it rests on seed {seed} alone"
    ]


def registration_worries(registration: Registration) -> tuple[Worry, ...]:
    """Worry about criteria that were changed, registered too late, or never registered."""
    status = registration.status
    if status == "REGISTERED BEFORE THE RUNS":
        return ()
    reasons = "; ".join(registration.reasons)
    says = f"the registration says {status}{f': {reasons}' if reasons else ''}"
    grave = status in ("TAMPERED", "REGISTERED AFTER THE RUNS")
    return (Worry("registration", "grave" if grave else "serious", says),)


def warning_worries(
    warnings: Sequence[str], data_warnings: Sequence[str], *, same_items: bool
) -> tuple[Worry, ...]:
    """Turn the warnings of a collection and of its dataset into worries.

    Args:
        warnings: of the calibrators, and of runs that hold other items.
        data_warnings: of files that are not those that were scored.
        same_items: whether all runs hold the same items.
    """
    other = () if same_items else tuple(each for each in warnings if _of_items(each))
    found = [Worry("other-items", "grave", each) for each in other]
    found += [Worry("other-data", "grave", each) for each in data_warnings]
    found += [Worry("calibrator", "serious", each) for each in warnings if each not in other]
    return tuple(found)


def _of_items(warning: str) -> bool:
    return warning.startswith("item sets differ") or " differ in " in warning
