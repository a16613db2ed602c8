"""Differences in accuracy between every two runs, for a reader who chooses the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
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
from pact_eval.evaluation.resampled_groups import ResampledGroup
from pact_eval.evaluation.run_rates import other_decoding, resampled_rates
from pact_eval.stats.equivalence import equivalence_verdict

if TYPE_CHECKING:
    from pact_eval.evaluation.experiment import Experiment

_METRIC: Final = "accuracy"


def run_differences(
    experiment: Experiment, references: Sequence[int], first: int = 0
) -> tuple[tuple[Claim | None, ...], ...]:
    """Compare the accuracy of every run with that of each reference.

    The differences from the first reference are adjusted together, as `compare` adjusts them; those
    between other runs are adjusted over all pairs of runs. So a pair has one p-value, whichever of
    the two is the reference. Each run is resampled once.

    Args:
        experiment: runs on full contexts, on the same items.
        references: indices of runs, without repetition.
        first: index of the run with which the others are compared first.

    Returns:
        By reference, by run: the run minus the reference under the decoding of the settings; None
        for the reference itself.

    Raises:
        InputError: item sets differ, or a run lacks the decoding or a calibrator.
    """
    experiment.require_same_items()
    others = [at for at in range(len(experiment.runs)) if at != first]
    with_first = [(at, first) for at in others]
    by_decoding = _claims(experiment)
    claims = _adjusted(with_first, by_decoding)
    if set(references) - {first}:
        pairs = [*with_first, *combinations(others, 2)]
        claims = _adjusted(pairs, by_decoding) | claims
    claims |= {(reference, run): turned(claim) for (run, reference), claim in claims.items()}
    return tuple(
        tuple(claims.get((run, reference)) for run in range(len(experiment.runs)))
        for reference in references
    )


_Pair = tuple[int, int]


def _adjusted(
    pairs: Sequence[_Pair], by_decoding: Sequence[Callable[[_Pair], Claim | None]]
) -> dict[_Pair, Claim]:
    """Return the claims on pairs under the decoding of the settings, adjusted with the others."""
    claims = [claim_on(pair) for claim_on in by_decoding for pair in pairs]
    adjusted = adjusted_together([claim for claim in claims if claim is not None])
    return dict(zip(pairs, adjusted, strict=False))  # the decoding of the settings comes first


def _claims(experiment: Experiment) -> list[Callable[[_Pair], Claim | None]]:
    """Return functions from two runs to the claim on the first minus the second, not adjusted.

    Returns:
        That of the decoding of the settings, and that of the other, which runs may lack.
    """
    decoding = experiment.settings.decoding
    return [_claims_of(experiment, decoding), _claims_of(experiment, other_decoding(decoding))]


def _claims_of(experiment: Experiment, decoding: Decoding) -> Callable[[_Pair], Claim | None]:
    settings = experiment.settings
    chosen = decoding == settings.decoding
    shared = experiment.comparisons.at_common_views if decoding == "ensemble" else experiment
    several = [
        run.predictions.k > 1 and run.provenance.known == "probabilities" for run in shared.runs
    ]

    @cache
    def drawn(at: int) -> ResampledGroup:
        run, calibrated = shared.runs[at], chosen and settings.calibrated
        if chosen:
            run.applied(decoding, calibrated=calibrated)
        items = run.scored(decoding, calibrated=calibrated).over(settings.unit)
        resamples = settings.resamples or default_resamples(len(items))
        return resampled_rates(items, rng=settings.rng(), resamples=resamples)

    @cache
    def claim(pair: _Pair) -> Claim | None:
        if not chosen and not all(several[at] for at in pair):
            return None
        run, reference = pair
        difference, evidence = metric_difference(_METRIC, [(drawn(run), drawn(reference))])
        margin = settings.margin
        verdict = None if margin is None else equivalence_verdict(difference, margin)
        runs = [shared.runs[at] for at in pair]
        repeats = common_repeats(runs, decoding)
        k = 1 if decoding == "single" else min(run.predictions.k for run in runs)
        status = claim_status(difference, evidence, verdict)
        views = decoding_name(decoding, repeats), k, repeats
        return Claim(_METRIC, *views, status, difference, evidence, verdict)

    return claim
