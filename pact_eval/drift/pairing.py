"""Two runs, on the same items or on others.

A drift may be in anything: the weights, the server, the prompts, the data. Two runs are therefore
opened one by one, and what they record differently is a result, not a refusal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pact_eval.errors import InputError
from pact_eval.evaluation.alignment import in_order_of, mismatch
from pact_eval.evaluation.common_views import views_in_common
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.run_data import conclude_on_data
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import RunSource, open_run, unanswered_ids
from pact_eval.runs.identity import Difference, RunIdentity, join_differences, log_differences
from pact_eval.runs.predictions import Predictions


@dataclass(frozen=True)
class Pairing:
    """Items that two runs have in common, and those of one alone.

    Attributes:
        paired: whether both runs were asked the same items.
        common: items that both have answered.
        only_a: other items that the first has answered.
        only_b: other items that the second has answered.
        unanswered: items that each run left unanswered.
    """

    paired: bool
    common: int
    only_a: int
    only_b: int
    unanswered: tuple[int, int]


@dataclass(frozen=True, eq=False)
class PairedRuns:
    """Two runs under one decoding.

    Attributes:
        runs: the first and the second run.
        a: items of the first run; if paired, those that both have answered.
        b: items of the second run; if paired, the same in the same order.
        pairing: how they belong together.
        differences: what the runs record differently: data, model, contract, prompts.
        views: views of each that are used.
    """

    runs: tuple[ExperimentRun, ExperimentRun]
    a: ScoredItems
    b: ScoredItems
    pairing: Pairing
    differences: tuple[Difference, ...]
    views: int

    @classmethod
    def of(cls, first: ExperimentRun, second: ExperimentRun, settings: Settings) -> PairedRuns:
        """Pair two runs.

        Args:
            first: the run before.
            second: the run after.
            settings: decoding, calibrators and units.

        Raises:
            RunError: the rows of a run are damaged.
            InputError: a run lacks the decoding or its calibrator; one has ablated contexts and the
                other has not; or an item has another reference, kind, family or letter order of
                view 0 in the other run.
        """
        runs = first, second
        if runs[0].ablated != runs[1].ablated:
            message = (
                f"{first.place} and {second.place}: one has ablated contexts, the other full ones"
            )
            raise InputError(message)
        pairing, predictions = _pair(*runs)
        views_a, views_b = predictions
        if settings.decoding == "single" and (views_a.repeats or views_b.repeats):
            # The mean over all repeats of one run, next to the same or to view 0 of the other.
            views_a, views_b = (
                views if views.repeats else views.first_views(1) for views in predictions
            )
        else:
            views_a, views_b = _at_common_views(*predictions, paired=pairing.paired)
        a, b = (
            ScoredItems.of(
                predictions,
                settings.decoding,
                run.applied(settings.decoding, calibrated=settings.calibrated),
            )
            .over(settings.unit)
            .grouped(settings.by, settings.bins)
            for run, predictions in zip(runs, (views_a, views_b), strict=True)
        )
        rows = math.lcm(*(items.repeats for items in (a, b) if items.repeat is not None))
        if rows > 1:
            a, b = a.with_repeats(rows), b.with_repeats(rows)
        return cls(runs, a, b, pairing, _differences(*runs), min(views_a.k, views_b.k))

    @property
    def ablated(self) -> bool:
        """Whether the items have no references."""
        return self.a.reference is None

    @property
    def has_probabilities(self) -> bool:
        """Whether the probabilities of all answers are known in both runs."""
        return self.a.known == self.b.known == "probabilities"


def opened_runs(
    first: RunSource, second: RunSource, settings: Settings
) -> tuple[tuple[ExperimentRun, ExperimentRun], DataConclusion]:
    """Open two runs one by one; without the families of a leak of either, if the settings say so.

    Args:
        first: the run before, or its folder.
        second: the run after.
        settings: calibrators, and the data of the runs.

    Returns:
        The runs, and whether their data is sound. A leak has no accuracies.

    Raises:
        RunError: a folder is not a complete run.
        InputError: no item is left.
    """
    before, after = _opened(first, settings), _opened(second, settings)
    data = conclude_on_data([run for run in (before, after) if not run.ablated], settings)
    if settings.without_leaks and data.leak is not None:
        families, data = data.leak.families, data.leaving_out()
        before, after = (run.without_families(families, None) for run in (before, after))
    return (before, after), data


def _opened(source: RunSource, settings: Settings) -> ExperimentRun:
    (run,) = Experiment.read([open_run(source)], replace(settings, without_leaks=False)).all_runs
    return run


def _pair(
    first: ExperimentRun, second: ExperimentRun
) -> tuple[Pairing, tuple[Predictions, Predictions]]:
    """Put the items of two runs in one order if both were asked the same items."""
    a, b = first.predictions, second.predictions
    without = unanswered_ids(first.run), unanswered_ids(second.run)
    answered = set(a.ids.tolist()), set(b.ids.tolist())
    common = answered[0] & answered[1]
    paired = bool(common) and all(
        mine - common <= unanswered
        for mine, unanswered in zip(answered, reversed(without), strict=True)
    )
    pairing = Pairing(
        paired=paired,
        common=len(common),
        only_a=len(answered[0] - common),
        only_b=len(answered[1] - common),
        unanswered=(len(without[0]), len(without[1])),
    )
    if not paired:
        return pairing, (a, b)
    a, b = (items if len(items) == len(common) else _kept(items, common) for items in (a, b))
    different = mismatch(a, b, names=(first.place, second.place))
    if different is not None:
        raise InputError(str(different))
    return pairing, (a, in_order_of(a, b))


def _at_common_views(
    a: Predictions, b: Predictions, *, paired: bool
) -> tuple[Predictions, Predictions]:
    """Return the views that both runs have: item by item, or as many of other items."""
    if not paired:
        k = min(a.k, b.k)
        return a.first_views(k), b.first_views(k)
    shared = views_in_common([a, b])
    if shared.chosen is None:
        return a.first_views(shared.k), b.first_views(shared.k)
    return a.chosen_views(shared.chosen[0]), b.chosen_views(shared.chosen[1])


def _kept(views: Predictions, common: set[str]) -> Predictions:
    rows = [row for row, item in enumerate(views.ids.tolist()) if item in common]
    return views.taken(np.array(rows, dtype=np.int64))


def _differences(first: ExperimentRun, second: ExperimentRun) -> tuple[Difference, ...]:
    """Return what the runs record differently: the data, then the model and the prompts."""
    data = [
        difference
        for difference in join_differences(first.provenance, second.provenance)
        if difference.fact == "data"
    ]
    logs = log_differences(first.provenance, second.provenance)
    identities = [RunIdentity.of(run.provenance) for run in (first, second)]
    return (*data, *identities[0].differences(identities[1]), *logs)
