"""Differences in accuracy between every two runs, for a reader who chooses the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pact_eval._choices import Decoding
from pact_eval.evaluation.common_views import common_repeats
from pact_eval.evaluation.conclusions.better import (
    Claim,
    adjusted_together,
    claim_status,
    turned,
)
from pact_eval.evaluation.decoding import decoding_name
from pact_eval.evaluation.metric_differences import metric_difference
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.run_rates import other_decoding, resampled_rates
from pact_eval.stats.equivalence import equivalence_verdict

if TYPE_CHECKING:
    from pact_eval.evaluation.experiment import Experiment

_METRIC: Final = "accuracy"


def run_differences(
    experiment: Experiment, references: Sequence[int]
) -> tuple[tuple[Claim | None, ...], ...]:
    """Compare the accuracy of every run with that of each reference.

    The differences from a reference are adjusted as `compare` adjusts them if that run is the first
    one: together, at view 0 and over K views. Each run is resampled once, and every pair of runs is
    compared once.

    Args:
        experiment: runs on full contexts, on the same items.
        references: indices of runs, without repetition.

    Returns:
        By reference, by run: the run minus the reference under the decoding of the settings; None
        for the reference itself.

    Raises:
        InputError: item sets differ, or a run lacks the decoding or a calibrator.
    """
    experiment.require_same_items()
    decoding = experiment.settings.decoding
    chosen = _claims(experiment, decoding)
    runs, common = range(len(experiment.runs)), experiment.comparisons.at_common_views.runs
    several = [run.predictions.k > 1 and run.provenance.known == "probabilities" for run in common]
    other = _claims(experiment, other_decoding(decoding)) if sum(several) > 1 else None
    rows: list[tuple[Claim | None, ...]] = []
    for reference in references:
        claims = [chosen(at, reference) for at in runs if at != reference]
        if other is not None and several[reference]:
            claims += [other(at, reference) for at in runs if at != reference and several[at]]
        adjusted = iter(adjusted_together(claims))
        rows.append(tuple(None if at == reference else next(adjusted) for at in runs))
    return tuple(rows)


def _claims(experiment: Experiment, decoding: Decoding) -> Callable[[int, int], Claim]:
    """Return a function from two runs to the claim on the first minus the second, not adjusted."""
    settings = experiment.settings
    chosen = decoding == settings.decoding
    shared = experiment.comparisons.at_common_views if decoding == "ensemble" else experiment
    groups = {}
    for at, run in enumerate(shared.runs):
        calibrated = chosen and settings.calibrated
        if chosen:
            run.applied(decoding, calibrated=calibrated)
        elif run.provenance.known != "probabilities":
            continue
        items = run.scored(decoding, calibrated=calibrated).over(settings.unit)
        resamples = settings.resamples or default_resamples(len(items))
        groups[at] = resampled_rates(items, rng=settings.rng(), resamples=resamples)
    compared: dict[tuple[int, int], Claim] = {}

    def claim(run: int, reference: int) -> Claim:
        if (reference, run) in compared:
            return turned(compared[reference, run])
        difference, evidence = metric_difference(_METRIC, [(groups[run], groups[reference])])
        margin = settings.margin
        verdict = None if margin is None else equivalence_verdict(difference, margin)
        status = claim_status(difference, evidence, verdict)
        pair = [shared.runs[at] for at in (run, reference)]
        repeats = common_repeats(pair, decoding)
        k = 1 if decoding == "single" else min(one.predictions.k for one in pair)
        views = decoding_name(decoding, repeats), k, repeats
        compared[run, reference] = Claim(_METRIC, *views, status, difference, evidence)
        return compared[run, reference]

    return claim
