"""From a run's predictions to every number of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.evaluation.columns import ItemColumns
from pact_eval.evaluation.grouped import GROUPED_ITEMS, grouped_estimates
from pact_eval.evaluation.items import ScoredItems, group_rows, label_codes
from pact_eval.evaluation.specs import METRICS, GroupBy
from pact_eval.evaluation.statistics import GroupStatistics, group_statistics
from pact_eval.runs import Decoding, Predictions
from pact_eval.stats import Estimate, SlotHomogeneity, bootstrap_intervals, slot_homogeneity

if TYPE_CHECKING:  # a report without a calibrator need not wait for what fits them
    from pact_eval.calibration import Calibrator

__all__ = [
    "Calibration",
    "Evaluation",
    "Group",
    "default_resamples",
    "evaluate",
    "grouped_groups",
    "repeated_views",
    "report_notes",
]

Calibration = Literal["raw", "calibrated"]
"""Whether distributions were divided by a fitted temperature."""

_LOW_CODE_MASS = 0.5
_MOST_RESAMPLES = 10_000
_FEWEST_RESAMPLES = 200
_GROUPED_RESAMPLES = 2_000
_PAIR = 2
# Items times resamples that a report may cost: about a minute.
_ITEM_DRAWS = 200_000_000


@dataclass(frozen=True)
class Group:
    """All numbers of one group of items.

    Attributes:
        name: "all", or the kind, domain or source family.
        items: number of items.
        families: number of families, the clusters of the intervals.
        estimates: by metric name.
        pairs: how the complete pairs came out.
        nll: finite part and number of infinite items.
    """

    name: str
    items: int
    families: int
    estimates: Mapping[str, Estimate]
    pairs: metrics.PairOutcomes
    nll: metrics.NllSummary


@dataclass(frozen=True)
class Evaluation:
    """Every number of the report on one run under one decoding.

    Attributes:
        decoding: single (view 0) or ensemble (K views); all numbers but TV, flips, ensemble gain
            and the letters rest on it.
        calibration: raw or calibrated; likewise.
        k: views of the run.
        by: what the groups after the first are.
        groups: all items first, then the groups.
        letters: were some code letters picked more often than the right answer stood behind them?
            Over all items and views.
        mean_answer_mass: mean share of the next-token distribution on the codes; NaN where unknown.
        smallest_probability: smallest probability above 0 in the run.
        notes: what a reader must know beside the table.
    """

    decoding: Decoding
    calibration: Calibration
    k: int
    by: GroupBy
    groups: tuple[Group, ...]
    letters: SlotHomogeneity
    mean_answer_mass: float
    smallest_probability: float
    notes: tuple[str, ...]


def default_resamples(items: int) -> int:
    """Return 10,000 resamples, or fewer for many items, where intervals are narrow anyway.

    Example:
        >>> default_resamples(324), default_resamples(100_000), default_resamples(10_000_000)
        (10000, 2000, 200)
    """
    return max(_FEWEST_RESAMPLES, min(_MOST_RESAMPLES, _ITEM_DRAWS // max(items, 1)))


def evaluate(
    predictions: Predictions,
    *,
    decoding: Decoding,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    calibrator: Calibrator | None = None,
) -> Evaluation:
    """Compute the report.

    Args:
        predictions: the scored views of one run.
        decoding: single or ensemble.
        by: kind, domain or source_family.
        rng: source of the resamples; every group draws the same ones, so that an interval does
            not depend on what stands beside it.
        resamples: bootstrap resamples of each interval; None takes `default_resamples`, and 2,000
            beyond `GROUPED_ITEMS` items, whose families are resampled by kind.
        calibrator: temperatures to divide by; None leaves the distributions raw.

    Returns:
        Estimates for all items and for each group. What is undefined (pair accuracy without pairs,
        TV of one view, ...) is NaN with a reason.

    Raises:
        ValueError: an item's views have no answer of positive probability in common, so that the
            ensemble has none at all.
        InputError: the calibrator needs prompt lengths that are not known.
    """
    items = ScoredItems.of(predictions, decoding, calibrator)
    groups = _groups(items, by, rng, resamples)
    known = predictions.answer_mass[~np.isnan(predictions.answer_mass)]
    finite = predictions.log_probs_by_view[np.isfinite(predictions.log_probs_by_view)]
    smallest = float(np.exp(finite.min(initial=0.0)))
    mean_answer_mass = float(known.mean()) if known.size else math.nan
    return Evaluation(
        decoding=decoding,
        calibration="raw" if calibrator is None else "calibrated",
        k=predictions.k,
        by=by,
        groups=groups,
        letters=_letters(predictions),
        mean_answer_mass=mean_answer_mass,
        smallest_probability=smallest,
        notes=report_notes(
            groups[0],
            repeated=repeated_views(predictions.n_choices, predictions.k),
            mean_answer_mass=mean_answer_mass,
            smallest=smallest,
        ),
    )


def _groups(
    items: ScoredItems, by: GroupBy, rng: np.random.Generator, resamples: int | None
) -> tuple[Group, ...]:
    rows = group_rows(items.predictions, by)
    if len(items.predictions) > GROUPED_ITEMS:
        return grouped_groups(ItemColumns.of(items), rows, rng=rng, resamples=resamples)
    resamples = resamples or default_resamples(len(items.predictions))
    return tuple(
        _group(name, group_statistics(items.taken(some)), rng, resamples)
        for name, some in rows.items()
    )


def grouped_groups(
    items: ItemColumns,
    rows: Mapping[str, npt.NDArray[np.int64]],
    *,
    rng: np.random.Generator,
    resamples: int | None,
) -> tuple[Group, ...]:
    """Compute the numbers of groups of very many items.

    Args:
        items: all items, as columns.
        rows: the rows of each group by its name, all of them first.
        rng: source of the resamples.
        resamples: bootstrap resamples of each interval; None takes 2,000, or what
            `default_resamples` gives where families are larger than pairs.

    Returns:
        The groups, in their order.
    """
    largest_family = int(np.bincount(items.cluster, minlength=1).max())
    by_default = default_resamples(len(items))
    drawn = resamples or (_GROUPED_RESAMPLES if largest_family <= _PAIR else by_default)
    groups = []
    for name, some in rows.items():
        part = items if len(some) == len(items) else items.taken(some)
        found = grouped_estimates(part, rng=rng, resamples=drawn)
        estimates = {spec.name: found.estimates[spec.name] for spec in METRICS}
        nll = metrics.nll_summary(part.nll)
        groups.append(Group(name, len(part), part.n_clusters, estimates, found.pairs, nll))
    return tuple(groups)


def _group(name: str, group: GroupStatistics, rng: np.random.Generator, resamples: int) -> Group:
    estimates: dict[str, Estimate] = {}
    for each in group.sets:
        estimates |= bootstrap_intervals(
            each.statistics,
            n_clusters=each.n_clusters,
            n=each.n,
            rng=deepcopy(rng),
            resamples=resamples,
        )
    for metric, basis in group.bases.items():
        estimates[metric] = basis.judge(estimates[metric])
    items = group.items
    return Group(
        name=name,
        items=len(group.cluster),
        families=group.sets[0].n_clusters,
        estimates={spec.name: estimates[spec.name] for spec in METRICS},
        pairs=metrics.pair_outcomes(
            group.pairs, metrics.predicted(items.log_probs), items.predictions.reference
        ),
        nll=metrics.nll_summary(items.nll),
    )


def _letters(predictions: Predictions) -> SlotHomogeneity:
    """Test the letters over all views whose code order is known."""
    known = predictions.code_order[:, :, 0] >= 0
    item = np.nonzero(known)[0]
    order = predictions.code_order[known][:, np.newaxis]
    picks = metrics.predicted(predictions.log_probs_by_view)[known]
    return slot_homogeneity(
        metrics.picked_slot(picks[:, np.newaxis], order)[:, 0],
        metrics.reference_slot(predictions.reference[item], order)[:, 0],
        label_codes(predictions.family)[item],
    )


def repeated_views(n_choices: npt.NDArray[np.integer], k: int) -> int:
    """Count the items that have fewer code orders than views.

    Args:
        n_choices: (n,) number of answers of each item.
        k: views of every item.

    Example:
        >>> repeated_views(np.array([2, 3]), 4)
        1
    """
    orders = np.array([math.factorial(n) for n in range(int(n_choices.max(initial=0)) + 1)], float)
    return int((orders[n_choices] < k).sum())


def report_notes(
    everything: Group, *, repeated: int, mean_answer_mass: float, smallest: float
) -> tuple[str, ...]:
    """Say what a reader must know beside the table.

    Args:
        everything: the group of all items.
        repeated: items that have fewer code orders than views.
        mean_answer_mass: mean share of the next-token distribution on the codes; NaN where unknown.
        smallest: smallest probability above 0 in the run.
    """
    notes = []
    if everything.nll.infinite_items:
        bound = everything.nll.lower_bound(smallest)
        notes.append(
            f"NLL is infinite: {everything.nll.infinite_items:,} of {everything.items:,} items "
            "give the right answer probability 0. With each of them at the smallest probability "
            f"above 0 in this run ({smallest:.3g}), NLL would be {bound:.4f} or more."
        )
    if mean_answer_mass < _LOW_CODE_MASS:
        notes.append(
            f"Only {100 * mean_answer_mass:.1f}% of the next-token probability falls on the answer "
            "codes: the model hardly speaks this contract."
        )
    if everything.pairs.incomplete_families:
        notes.append(
            f"Families that are no complete pair, left out of pair accuracy: "
            f"{everything.pairs.incomplete_families:,}."
        )
    if repeated:
        notes.append(
            f"{repeated:,} items have fewer code orders than views (two answers have two): views "
            "repeat, which lowers their TV beside that of other items."
        )
    return tuple(notes)
