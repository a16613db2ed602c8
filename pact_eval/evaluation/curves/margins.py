"""Margins of pairs: shifts of the log-odds by the edited fact, in either member."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.registry import PAIR_MARGIN, TRAINED_MARGIN
from pact_eval.stats.estimate import Estimate


@dataclass(frozen=True, eq=False)
class RunMargins:
    """The pairs of one run that have a margin, uncalibrated.

    The margin of a pair is the sum of the leads of its members. A lead is the log-odds of the right
    answer against the right answer of the other member.

    Attributes:
        run: its label.
        base: (P,) lead of the base, nats.
        counterfactual: (P,) lead of the counterfactual, nats.
        mean: mean margin with its interval.
        not_positive: share of the margins at or below 0, with its interval.
        below_trained: share of the margins below `trained`, with its interval.
        trained: the margin that the paper trains with, nats.
        families: number of families of the pairs.
    """

    run: str
    base: FloatArray
    counterfactual: FloatArray
    mean: Estimate
    not_positive: Estimate
    below_trained: Estimate
    trained: float
    families: int

    @property
    def margins(self) -> FloatArray:
        """(P,) margin of each pair, nats."""
        return self.base + self.counterfactual


def run_margins(experiment: Experiment, run: ExperimentRun) -> RunMargins:
    """Return the margins of the pairs of a run under the decoding of the settings.

    Raises:
        InputError: the run does not have the decoding, or no pair has a margin.
    """
    run.require_probabilities()
    items = run.scored(experiment.settings.decoding)
    leads, pairs = items.values[PAIR_MARGIN], items.pairs
    base, counterfactual = leads[pairs.base], leads[pairs.counterfactual]
    finite = np.isfinite(base) & np.isfinite(counterfactual)
    if not finite.any():
        message = "no complete pair has a finite margin"
        raise InputError(message)
    estimates = experiment.evaluation(run, calibrated=False).groups[0].estimates
    return RunMargins(
        run=run.label,
        base=base[finite],
        counterfactual=counterfactual[finite],
        mean=estimates[PAIR_MARGIN],
        not_positive=estimates["margin_not_positive"],
        below_trained=estimates["margin_below_trained"],
        trained=TRAINED_MARGIN,
        families=estimates[PAIR_MARGIN].clusters,
    )
