"""Differences in accuracy between every two runs, for a reader who chooses the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pact_eval.evaluation.conclusions.better import BetterConclusion, BetterStatus, claim_status
from pact_eval.evaluation.metric_differences import metric_difference
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_group
from pact_eval.stats.equivalence import equivalence_verdict
from pact_eval.stats.estimate import Estimate

if TYPE_CHECKING:
    from pact_eval.evaluation.conclusions.conclusion import Tone
    from pact_eval.evaluation.experiment import Experiment

_METRIC: Final = "accuracy"


@dataclass(frozen=True)
class RunDifference:
    """The accuracy of a run minus that of a reference, under the decoding of the settings.

    Attributes:
        status: better or worse if the difference is shown.
        difference: with its interval, as a fraction.
        p_value: of the test behind the status, not adjusted; NaN if there is none.
    """

    status: BetterStatus
    difference: Estimate
    p_value: float

    @property
    def tone(self) -> Tone:
        """Whether the status is good or bad news for the run."""
        return BetterConclusion.tones[self.status]

    @property
    def shown(self) -> bool:
        """Whether one of the runs is shown to be better."""
        return self.status in ("better", "worse")

    def reversed(self) -> RunDifference:
        """Return the accuracy of the reference minus that of the run.

        Examples:
            >>> lead = Estimate(0.05, 0.01, 0.08, 400, 200)
            >>> behind = RunDifference("better", lead, 0.02).reversed()
            >>> behind.status, behind.difference.low, behind.difference.high
            ('worse', -0.08, -0.01)
        """
        opposite: dict[BetterStatus, BetterStatus] = {"better": "worse", "worse": "better"}
        ends = self.difference
        turned = replace(ends, value=-ends.value, low=-ends.high, high=-ends.low)
        return RunDifference(opposite.get(self.status, self.status), turned, self.p_value)


def run_differences(
    experiment: Experiment, references: Sequence[int]
) -> tuple[tuple[RunDifference | None, ...], ...]:
    """Compare the accuracy of every run with that of each reference.

    Each run is resampled once, and every pair of runs is compared once.

    Args:
        experiment: runs on full contexts, on the same items.
        references: indices of runs, without repetition.

    Returns:
        By reference, by run: the run minus the reference; None for the reference itself.

    Raises:
        InputError: item sets differ, or a run lacks the decoding or a calibrator.
    """
    experiment.require_same_items()
    groups = [_resampled(experiment, at) for at in range(len(experiment.runs))]
    margin = experiment.settings.margin
    compared: dict[tuple[int, int], RunDifference] = {}
    for reference in references:
        for run in range(len(groups)):
            if (reference, run) in compared:
                compared[run, reference] = compared[reference, run].reversed()
            elif run != reference:
                compared[run, reference] = _difference(groups[run], groups[reference], margin)
    return tuple(
        tuple(compared.get((run, reference)) for run in range(len(groups)))
        for reference in references
    )


def _resampled(experiment: Experiment, at: int) -> ResampledGroup:
    settings, run = experiment.settings, experiment.runs[at]
    run.applied(settings.decoding, calibrated=settings.calibrated)
    items = run.scored(settings.decoding, calibrated=settings.calibrated).over(settings.unit)
    return resampled_group(
        "all",
        items,
        rng=settings.rng(),
        resamples=settings.resamples or default_resamples(len(items)),
        entries=[find_metric(_METRIC)],
    )


def _difference(
    run: ResampledGroup, reference: ResampledGroup, margin: float | None
) -> RunDifference:
    difference, evidence = metric_difference(_METRIC, [(run, reference)])
    verdict = None if margin is None else equivalence_verdict(difference, margin)
    return RunDifference(claim_status(difference, evidence, verdict), difference, evidence.p_value)
