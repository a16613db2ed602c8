"""Common views of runs: the letter orders of each item that all of them have.

View TV, flip rate and ensemble gain depend on the orders in which an item is shown: with more of
them, more answers change. So does the ensemble: it averages out more of the noise between views,
whatever the model. K is what someone chose to spend on scoring, and some servers show a boolean in
one order only. A difference between runs of different orders would be one of effort.

View 0 is common to all runs (`alignment.mismatch` refuses others). Further views count if every run
has the order, as often as all of them have it. For runs of one order seed these are the first views
of each, since letter orders do not depend on K: this is what scoring with fewer views gives. An
item with fewer common orders than others repeats them in turn. Every run then gives an order the
same weight in the ensemble, and view TV counts it once.

Repeats of one order are not views of other orders: of a run of repeats, the mean over them is
compared, also with a run that was asked once (`ScoredItems.with_repeats`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pact_eval._choices import Decoding
from pact_eval._typing import IntArray
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import DifferentViews
from pact_eval.runs.predictions import Predictions


@dataclass(frozen=True, eq=False)
class SharedViews:
    """The views that several runs on the same items have in common.

    Attributes:
        k: number of views.
        chosen: for each run, (n, k) the views that show the common orders, in the same order of
            letters; None if they are the first k views of every run.
        unlike: number of items of which the runs have different orders.
    """

    k: int
    chosen: tuple[IntArray, ...] | None = None
    unlike: int = 0

    def note(self, ks: Mapping[str, int], *, ensembles: bool) -> DifferentViews | None:
        """Return a note on unlike views; None if all runs have the same.

        Args:
            ks: number of views by name of the run.
            ensembles: whether the distributions are ensembles.
        """
        if not self.unlike and set(ks.values()) == {self.k}:
            return None
        return DifferentViews(ks, self.k, ensembles, self.unlike)


def shared_views(code_orders: Sequence[IntArray]) -> SharedViews:
    """Return the views of several runs that show the same letter orders, item by item.

    Args:
        code_orders: of each run, (n, K, C) canonical index at each letter, with the items in the
            same order; all -1 in a view of unknown order. If a run lacks an order of an item, its
            views count as those of the same number in the other runs.

    Raises:
        InputError: the runs have no order of an item in common.

    Examples:
        >>> both, one = [[0, 1], [1, 0]], [[0, 1], [0, 1]]
        >>> local, served = np.array([both, both]), np.array([both, one])
        >>> shared = shared_views([local, served])
        >>> shared.k, shared.unlike, [chosen.tolist() for chosen in shared.chosen]
        (2, 1, [[[0, 1], [0, 0]], [[0, 1], [0, 0]]])
    """
    k = min(orders.shape[1] for orders in code_orders)
    # Unused letters: a run may have had items of more answers, which are left out.
    letters = min(orders.shape[2] for orders in code_orders)
    of_runs = [orders[:, :, :letters] for orders in code_orders]
    by_place = np.logical_or(
        np.logical_and.reduce([_same(of_runs[0][:, :k], orders[:, :k]) for orders in of_runs]),
        np.logical_or.reduce([(orders[:, :, 0] < 0).any(axis=1) for orders in of_runs]),
    )
    if k == 1 or by_place.all():
        return SharedViews(k)
    unlike = np.flatnonzero(~by_place)
    views_by_orders: dict[tuple[bytes, ...], list[list[int]]] = {}
    of_items: list[list[list[int]]] = []
    for row in unlike.tolist():
        item_orders = [run_orders[row] for run_orders in of_runs]
        key = tuple(order.tobytes() for order in item_orders)
        if key not in views_by_orders:
            views_by_orders[key] = _views_of_common_orders(item_orders)
        of_items.append(views_by_orders[key])
    common = k if by_place.any() else max(len(views[0]) for views in of_items)
    chosen = []
    for run in range(len(of_runs)):
        index = np.tile(np.arange(common), (len(by_place), 1))
        index[unlike] = [np.resize(views[run], common) for views in of_items]
        chosen.append(index)
    return SharedViews(common, tuple(chosen), len(unlike))


def views_in_common(runs: Sequence[Predictions]) -> SharedViews:
    """Return the views that runs have in common: of repeats and other runs, view 0.

    Args:
        runs: runs on the same items in the same order.

    Raises:
        InputError: the runs have no order of an item in common.
    """
    if len({views.repeats for views in runs}) > 1:
        return SharedViews(1)
    return shared_views([views.code_order for views in runs])


def common_repeats(runs: Iterable[ExperimentRun], decoding: Decoding) -> int:
    """Return how many repeats a number of several runs is of; 1 if it is of views.

    Args:
        runs: runs that are compared.
        decoding: single is the mean over all repeats of each run; ensemble is of the repeats that
            every run has.
    """
    repeats = [run.predictions.k if run.predictions.repeats else 1 for run in runs]
    return max(repeats) if decoding == "single" else min(repeats)


def _same(a: IntArray, b: IntArray) -> npt.NDArray[np.bool_]:
    return np.asarray((a == b).all(axis=(1, 2)), dtype=np.bool_)


def _views_of_common_orders(orders: Sequence[IntArray]) -> list[list[int]]:
    """Return the views of each run that show the orders of one item which all runs have.

    Args:
        orders: of each run, (K, C) the orders of the item.
    """
    numbered = [_numbered(run_orders.tolist()) for run_orders in orders]
    common = [key for key in numbered[0] if all(key in views for views in numbered[1:])]
    if not common:
        message = "an item is shown in other letter orders by every run: it cannot be compared"
        raise InputError(message)
    return [[views[key] for key in common] for views in numbered]


def _numbered(orders: Sequence[Sequence[int]]) -> dict[tuple[int, ...], int]:
    """Return the view of each order; the key also counts its earlier occurrences."""
    views: dict[tuple[int, ...], int] = {}
    for view, order in enumerate(orders):
        views[*order, sum(order == earlier for earlier in orders[:view])] = view
    return views


def at_common_views(
    runs: Mapping[str, ScoredItems],
) -> tuple[dict[str, ScoredItems], tuple[DifferentViews, ...]]:
    """Return runs as if each had been scored with the views that all of them have.

    Args:
        runs: the runs by name, on the same items in the same order, under the same decoding.

    Returns:
        The runs by name, and a note if their views differ.

    Raises:
        InputError: the runs have no order of an item in common.
    """
    items = list(runs.values())
    shared = views_in_common([run.predictions for run in items])
    if shared.chosen is None:
        items = [run.with_views(shared.k) for run in items]
    else:
        items = [
            run.with_chosen_views(views) for run, views in zip(items, shared.chosen, strict=True)
        ]
    ensembles = any(run.decoding == "ensemble" for run in items)
    note = shared.note({name: run.k for name, run in runs.items()}, ensembles=ensembles)
    alike = _on_common_orders(dict(zip(runs, items, strict=True)))
    return alike, () if note is None else (note,)


def runs_at_common_views(
    runs: Sequence[ExperimentRun],
) -> tuple[tuple[ExperimentRun, ...], SharedViews]:
    """Return runs as if each had been scored with the views that all of them have.

    Args:
        runs: runs on the same items in the same order.

    Raises:
        InputError: the runs have no order of an item in common.
    """
    shared = views_in_common([run.predictions for run in runs])
    if shared.chosen is None:
        return tuple(run.with_views(shared.k) for run in runs), shared
    chosen = zip(runs, shared.chosen, strict=True)
    return tuple(run.with_chosen_views(views) for run, views in chosen), shared


def _on_common_orders(runs: Mapping[str, ScoredItems]) -> dict[str, ScoredItems]:
    """Return runs whose metrics of views are of the items that all of them show in several orders.

    If the orders of a run are unknown, only those of the others say which items these are.
    """
    masks = [run.reordered for run in runs.values() if run.reordered is not None]
    if not masks:
        return dict(runs)
    common = np.logical_and.reduce(masks)
    return {
        name: run
        if run.reordered is not None and np.array_equal(run.reordered, common)
        else replace(run, reordered=common)
        for name, run in runs.items()
    }
