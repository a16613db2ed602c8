"""Outcomes and distributions of each item of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pact_eval import metrics
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.evaluation.diagnostics import calibrated_items
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems, pair_partners
from pact_eval.evaluation.registry import confident_errors
from pact_eval.evaluation.wrong_items import by_majority, by_repeat
from pact_eval.runs.provenance import UNNAMED


@dataclass(frozen=True, eq=False)
class ItemConfidences:
    """Confidences of a run in its answers to n items.

    Attributes:
        confidence: (n,) probability of the answer.
        bin: (n,) its bin of ECE.
    """

    confidence: FloatArray
    bin: IntArray

    @classmethod
    def of(cls, items: ScoredItems) -> ItemConfidences:
        """Return the confidences of scored items, means over their repeats if there are any."""
        confidence = by_repeat(items, items.confidence).mean(axis=1)
        return cls(confidence, metrics.bin_index(np.nan_to_num(confidence), items.ece_bins))


@dataclass(frozen=True, eq=False)
class ItemOutcomes:
    """The outcome of n items under the decoding of the settings, raw.

    Of repeats, the answer is the one that most of them give, and probabilities are means over them.

    Attributes:
        predicted: (n,) canonical index of the answer.
        correct: (n,) whether it is the reference.
        flipped: (n,) whether two views give different answers.
        confident_error: (n,) whether it is wrong with a high confidence, calibrated if the settings
            say so; of repeats, whether any is.
        partner: (n,) row of the other member of a complete pair; -1 without one.
        raw: confidences.
        of_reference: (n,) probability of the reference.
        view_tv: (n,) see `metrics.pairwise_tv`; NaN for one view.
        answer_mass: (n,) mean over the views of which it is known, else NaN.
        prompt_tokens: (n,) length of view 0; NaN if unknown.
        calibrated: confidences after T(x); None without a calibrator to apply.
        right_repeats: (n,) number of repeats with the right answer; None if the views are not
            repeats, or are decoded together.
        named: whether it is known which answers these are, and not only whether they are right.
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
    right_repeats: IntArray | None = None
    named: bool = True

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
        """(n,) whether both members of the pair get the same answer, where answers are known."""
        same: BoolArray = np.asarray(self.predicted == self.predicted[self.partner])
        return self.paired & same & self.named


@dataclass(frozen=True, eq=False)
class ItemDistributions:
    """The distributions of n items: of each view, over all views, and calibrated.

    Attributes:
        names: what each of the D distributions is: "view 0", "ensemble", "single after T(x)".
        probabilities: (n, D, C) in canonical order; NaN of answers whose
            probability is not known.
        tops: (n, D) index of the most probable answer.
        used: (n, C) which answers the item has.
    """

    names: tuple[str, ...]
    probabilities: FloatArray
    tops: IntArray
    used: BoolArray


def item_outcomes(experiment: Experiment, run: ExperimentRun) -> ItemOutcomes:
    """Return the outcome of every item of a run, over its repeats if it has any.

    Args:
        experiment: its settings have the decoding.
        run: a run on full contexts.
    """
    settings, views = experiment.settings, run.predictions
    items = run.scored(settings.decoding)
    chosen = run.scored(settings.decoding, calibrated=settings.calibrated)
    calibrated = calibrated_items(experiment, run)
    shown = run.in_orders().scored("single") if run.provenance.shuffled else items
    predicted, correct = by_majority(items)
    right = by_repeat(items, items.correct).sum(axis=1)
    return ItemOutcomes(
        predicted=predicted,
        correct=correct,
        flipped=np.any(by_repeat(shown, np.asarray(shown.values["flip_rate"] == 1)), axis=1),
        confident_error=np.any(by_repeat(items, confident_errors(chosen)), axis=1),
        partner=pair_partners(views),
        raw=ItemConfidences.of(items),
        of_reference=by_repeat(items, np.exp(-items.values["nll_nats"])).mean(axis=1),
        view_tv=by_repeat(shown, shown.values["view_tv"])[:, 0],
        answer_mass=views.answer_mass_by_item,
        prompt_tokens=views.prompt_tokens,
        calibrated=None if calibrated is None else ItemConfidences.of(calibrated),
        right_repeats=None if items.asked == 1 else right,
        named=items.known not in UNNAMED,
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
    alone = run.asked_once() if experiment.settings.decoding == "single" else run
    calibrated = calibrated_items(experiment, alone)
    if calibrated is not None:
        names.append(f"{experiment.settings.decoding} after T(x)")
        parts.append(calibrated.log_probs[:, np.newaxis])
    log_probs = np.concatenate(parts, axis=1)
    used = np.arange(log_probs.shape[2]) < views.n_choices[:, np.newaxis]
    probabilities, tops = np.exp(log_probs), metrics.predicted(log_probs)
    if views.known in ("confidences", *UNNAMED):
        others = np.arange(log_probs.shape[2]) != tops[:, :, np.newaxis]
        probabilities[others] = np.nan
    return ItemDistributions(tuple(names), probabilities, tops, used)


def _ensemble(run: ExperimentRun) -> FloatArray | None:
    views = run.predictions
    if views.k < 2 or views.known != "probabilities":
        return None
    try:
        return views.log_probs("ensemble")
    except ValueError:  # the views of an item rule out all of its answers
        return None
