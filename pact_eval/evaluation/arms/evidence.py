"""What the means of arms rest on: estimates of their runs, and which arms are shown to be best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.differences import Standing, arm_difference, best_mean, standings
from pact_eval.evaluation.arms.matching import matched_seeds
from pact_eval.evaluation.registry import metric_spec
from pact_eval.evaluation.statistics import ResampledGroup
from pact_eval.runs import Decoding
from pact_eval.stats import Estimate, seed_summary

if TYPE_CHECKING:
    from pact_eval.evaluation.experiment import Experiment

_SeedGroups = Mapping[int | None, ResampledGroup]


@dataclass(frozen=True)
class ArmEvidence:
    """One metric of several arms: what their means rest on.

    Attributes:
        estimates: by arm, the metric of each of its runs with its interval; none if a run lacks it.
        standings: by arm, whether it is best, or tied with the best; see `standings`.
    """

    estimates: Mapping[str, tuple[Estimate, ...]]
    standings: Mapping[str, Standing]


def arm_evidence(
    experiment: Experiment,
    arms: Sequence[str],
    metric: str,
    decoding: Decoding,
    *,
    calibrated: bool,
) -> ArmEvidence:
    """Compare every arm with the arm of the best mean, on all items.

    Args:
        experiment: runs on the same items.
        arms: names of the arms that stand next to each other.
        metric: name of the metric.
        decoding: single or ensemble.
        calibrated: apply the calibrator of each run.

    Returns:
        The evidence; an arm of which a run lacks the decoding or a calibrator is left out.
    """
    spec = metric_spec(metric)
    groups = {arm: _groups(experiment, arm, decoding, calibrated=calibrated) for arm in arms}
    known = {arm: runs for arm, runs in groups.items() if runs}
    means = {
        arm: seed_summary([group.drawn[metric].value for group in runs.values()]).mean
        for arm, runs in known.items()
    }
    top = best_mean(means, spec)
    differences = {}
    if top is not None:
        others = (arm for arm in known if arm != top and not math.isnan(means[arm]))
        matches = {arm: matched_seeds(known[top], known[arm]) for arm in others}
        differences = {
            (top, arm): arm_difference(metric, [(each.a, each.b) for each in found])
            for arm, found in matches.items()
            if found
        }
    return ArmEvidence(
        {
            arm: tuple(group.estimate(metric) for group in runs.values())
            for arm, runs in known.items()
        },
        standings(means, spec, differences),
    )


def _groups(
    experiment: Experiment, arm: str, decoding: Decoding, *, calibrated: bool
) -> _SeedGroups:
    """Return all items of each run of an arm, resampled; nothing if a run cannot be decoded so."""
    try:
        return {
            run.seed: experiment.resampled(run, decoding, calibrated=calibrated)
            for run in experiment.arms[arm]
        }
    except InputError:
        # No calibrator, or it needs prompt lengths that the run does not record.
        return {}
