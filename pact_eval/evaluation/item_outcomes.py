"""What a run says of each item: outcomes to sort items by, and distributions to show of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pact_eval import metrics
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.evaluation.diagnostics import calibrated_items
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems, pair_partners


@dataclass(frozen=True, eq=False)
class ItemConfidences:
    """How sure a run is of its answers to n items.

    Attributes:
        confidence: (n,) probability of the answer.
        bin: (n,) its bin of ECE.
    """

    confidence: FloatArray
    bin: IntArray

    @classmethod
    def of(cls, items: ScoredItems) -> ItemConfidences:
        """Return the confidences of scored items."""
        return cls(items.confidence, items.confidence_bin)


@dataclass(frozen=True, eq=False)
class ItemOutcomes:
    """The outcome of n items under the decoding of the settings, raw.

    Attributes:
        predicted: (n,) canonical index of the answer.
        correct: (n,) whether it is the reference.
        flipped: (n,) whether two views give different answers.
        confident_error: (n,) whether it is wrong with a high confidence.
        partner: (n,) row of the other member of a complete pair; -1 without one.
        raw: confidences.
        of_reference: (n,) probability of the reference.
        view_tv: (n,) see `metrics.pairwise_tv`; NaN for one view.
        answer_mass: (n,) mean over the views of which it is known, else NaN.
        prompt_tokens: (n,) length of view 0; NaN if unknown.
        calibrated: confidences after T(x); None without a calibrator to apply.
    """

    predicted: IntArray
    correct: BoolArray
    flipped: BoolArray
    confident_error: BoolArray
    partner: IntArray
    raw: ItemConfidences
    of_reference: FloatArray
    view_tv: FloatArray
    answer_mass: FloatArray
    prompt_tokens: FloatArray
    calibrated: ItemConfidences | None

    @property
    def paired(self) -> BoolArray:
        """(n,) whether the item is a member of a complete pair."""
        return np.asarray(self.partner >= 0)

    @property
    def pair_right(self) -> BoolArray:
        """(n,) whether both members of the pair are right."""
        return self.paired & self.correct & self.correct[self.partner]

    @property
    def pair_wrong(self) -> BoolArray:
        """(n,) whether both members of the pair are wrong."""
        return self.paired & ~self.correct & ~self.correct[self.partner]

    @property
    def pair_same(self) -> BoolArray:
        """(n,) whether both members of the pair get the same answer."""
        same: BoolArray = np.asarray(self.predicted == self.predicted[self.partner])
        return self.paired & same


@dataclass(frozen=True, eq=False)
class ItemDistributions:
    """The distributions of n items: of each view, over all views, and calibrated.

    Attributes:
        names: what each of the D distributions is: "view 0", "ensemble", "single after T(x)".
        probabilities: (n, D, C) in canonical order.
        tops: (n, D) index of the most probable answer.
        used: (n, C) which answers the item has.
    """

    names: tuple[str, ...]
    probabilities: FloatArray
    tops: IntArray
    used: BoolArray


def item_outcomes(experiment: Experiment, run: ExperimentRun) -> ItemOutcomes:
    """Return the outcome of every item of a run; of repeats, that of the first.

    Args:
        experiment: its settings have the decoding.
        run: a run on full contexts.
    """
    run = _one_row_per_item(experiment, run)
    items, views = run.scored(experiment.settings.decoding), run.predictions
    calibrated = calibrated_items(experiment, run)
    return ItemOutcomes(
        predicted=items.predicted,
        correct=items.correct,
        flipped=np.asarray(items.flipped == 1),
        confident_error=items.confident_errors,
        partner=pair_partners(views),
        raw=ItemConfidences.of(items),
        of_reference=np.exp(-items.nll),
        view_tv=items.view_tv,
        answer_mass=views.answer_mass_by_item,
        prompt_tokens=views.prompt_tokens,
        calibrated=None if calibrated is None else ItemConfidences.of(calibrated),
    )


def item_distributions(experiment: Experiment, run: ExperimentRun) -> ItemDistributions:
    """Return the distributions of every item of a run.

    The ensemble is left out for one view, and if the views of an item rule out all of its answers.

    Args:
        experiment: its settings have the decoding of the calibrated distribution.
        run: a run on full contexts.
    """
    views = run.predictions
    name = "repeat" if views.repeats else "view"
    names = [f"{name} {view}" for view in range(views.k)]
    parts = [views.log_probs_by_view]
    together = _ensemble(run)
    if together is not None:
        names.append("ensemble")
        parts.append(together[:, np.newaxis])
    calibrated = calibrated_items(experiment, _one_row_per_item(experiment, run))
    if calibrated is not None:
        names.append(f"{experiment.settings.decoding} after T(x)")
        parts.append(calibrated.log_probs[:, np.newaxis])
    log_probs = np.concatenate(parts, axis=1)
    used = np.arange(log_probs.shape[2]) < views.n_choices[:, np.newaxis]
    return ItemDistributions(tuple(names), np.exp(log_probs), metrics.predicted(log_probs), used)


def _one_row_per_item(experiment: Experiment, run: ExperimentRun) -> ExperimentRun:
    """Return a run with the first of its repeats, unless they are decoded together."""
    return run.asked_once() if experiment.settings.decoding == "single" else run


def _ensemble(run: ExperimentRun) -> FloatArray | None:
    views = run.predictions
    if views.k < 2:
        return None
    try:
        return views.log_probs("ensemble")
    except ValueError:  # the views of an item rule out all of its answers
        return None
