"""Diagnostics on registrations, and on verdicts that rest on less than they seem to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pact_eval.evaluation.conclusions.conclusion import Severity
from pact_eval.evaluation.diagnostics import Diagnostic
from pact_eval.preregistration.registration import Registration
from pact_eval.preregistration.scorecard import HypothesisResult, Scorecard

_SUPPORTED: Final = ("SUPPORTED", "PARTLY SUPPORTED", "PARTLY TESTED")


def on_registration(registration: Registration) -> Iterator[Diagnostic]:
    """Check whether the criteria were registered before the runs, and are unchanged."""
    if registration.holds:
        return
    severity: Severity = "critical" if registration.broken else "warning"
    status = str(registration.status)
    reasons = "; ".join(registration.reasons)
    text = f"the registration says {status}{f': {reasons}' if reasons else ''}"
    yield Diagnostic("registration", severity, None, text, status)


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
            yield Diagnostic("verdict", "warning", None, text, name)


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
