"""Diagnostics on registrations, and on verdicts that rest on less than they seem to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from pact_eval.evaluation.conclusions.conclusion import Severity
from pact_eval.evaluation.diagnostics import Diagnostic
from pact_eval.preregistration.scorecard import CheckComparison, HypothesisResult, Scorecard

if TYPE_CHECKING:  # a page without criteria waits for no parser of them
    from pact_eval.preregistration.registration import Registration

_SUPPORTED: Final = ("SUPPORTED", "PARTLY SUPPORTED", "PARTLY TESTED")


@dataclass(frozen=True)
class RegistrationProblem(Diagnostic):
    """Criteria were changed, registered after a run, or never registered."""

    registration: Registration
    kind: ClassVar[str] = "registration"


@dataclass(frozen=True)
class WeakVerdict(Diagnostic):
    """A claim is called supported, but the sample or its seeds do not show it.

    Attributes:
        result: the hypothesis and its verdict.
        doubtful: comparisons that hold by value only, although there is an interval or a test.
        judged: number of comparisons that hold and have one.
        seeds: of all comparisons that hold, if there is only one: that seed, or None for a run
            without a seed; otherwise empty.
    """

    result: HypothesisResult
    doubtful: tuple[CheckComparison, ...]
    judged: int
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
    results = [result for result in scorecard.results if result.verdict in _SUPPORTED]
    weak_verdicts = [_weak_verdict(result) for result in results]
    return tuple(weak for weak in weak_verdicts if weak.doubtful or weak.seeds)


def _weak_verdict(result: HypothesisResult) -> WeakVerdict:
    holding = [comparison for comparison in result.comparisons if comparison.holds]
    judged = [
        comparison for comparison in holding if comparison.shown or comparison.interval is not None
    ]
    doubtful = tuple(comparison for comparison in judged if not comparison.shown)
    seeds = {seed for comparison in holding for seed in comparison.seeds}
    only = tuple(seeds) if len(seeds) == 1 else ()
    return WeakVerdict("warning", None, result, doubtful, len(judged), only)
