"""Diagnostics on registrations, and on verdicts that rest on less than they seem to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from pact_eval.evaluation.diagnostics import Diagnostic, Severity
from pact_eval.preregistration.judging import holds
from pact_eval.preregistration.registration import Registration
from pact_eval.preregistration.scorecard import Comparison, HypothesisResult, Scorecard

_SUPPORTED: Final = ("SUPPORTED", "PARTLY SUPPORTED", "PARTLY TESTED")


@dataclass(frozen=True)
class RegistrationProblem(Diagnostic):
    """Criteria were changed, registered after a run, or never registered."""

    registration: Registration
    kind: ClassVar[str] = "registration"


@dataclass(frozen=True)
class WeakVerdict(Diagnostic):
    """A claim is called supported, but intervals or seeds do not show it.

    Attributes:
        result: the hypothesis and its verdict.
        doubtful: comparisons that hold, with an interval that reaches where the check would fail.
        with_interval: number of comparisons that hold and have an interval.
        covers_zero: whether the check would fail at 0 in each of `doubtful`.
        seeds: of all comparisons that hold, if there is only one: that seed, or None for a run
            without a seed; otherwise empty.
    """

    result: HypothesisResult
    doubtful: tuple[Comparison, ...]
    with_interval: int
    covers_zero: bool
    seeds: tuple[int | None, ...]
    kind: ClassVar[str] = "verdict"


def on_registration(registration: Registration) -> tuple[RegistrationProblem, ...]:
    """Check whether the criteria were registered before the runs, and are unchanged."""
    if registration.holds:
        return ()
    severity: Severity = "critical" if registration.broken else "warning"
    return (RegistrationProblem(severity, None, registration),)


def on_verdicts(scorecard: Scorecard) -> tuple[WeakVerdict, ...]:
    """Check whether supported claims hold beyond chance, of items and of training.

    Args:
        scorecard: the verdicts, which rest on the values alone.
    """
    results = [each for each in scorecard.results if each.verdict in _SUPPORTED]
    found = [_weak_verdict(result) for result in results]
    return tuple(each for each in found if each.doubtful or each.seeds)


def _weak_verdict(result: HypothesisResult) -> WeakVerdict:
    with_interval = 0
    doubtful: list[Comparison] = []
    covers_zero = True
    for check in result.checks:
        relation, margin = check.check.relation, check.check.margin
        for each in check.comparisons:
            if not each.holds or each.interval is None or np.isnan(each.interval.low):
                continue
            with_interval += 1
            ends = (each.interval.low, each.interval.high)
            if not all(holds(relation, margin, end) for end in ends):
                doubtful.append(each)
                covers_zero = covers_zero and margin.distance == 0
    seeds = {
        seed
        for check in result.checks
        for each in check.comparisons
        if each.holds
        for seed in each.seeds
    }
    only = tuple(seeds) if len(seeds) == 1 else ()
    return WeakVerdict("warning", None, result, tuple(doubtful), with_interval, covers_zero, only)
