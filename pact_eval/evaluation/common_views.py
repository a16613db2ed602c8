"""Runs with different numbers of views K: all of them are compared at the smallest.

View TV, flip rate and ensemble gain depend on K: with more views, more answers change. So does the
ensemble: it averages out more of the noise between views, whatever the model. K is what someone
chose to spend on scoring. A difference between runs of different K would be one of effort, so a
run with 4 views is compared with a run with 2 views on its first 2 views, as in `sweep`. Letter
orders do not depend on K, so this is what scoring with 2 views gives.

Repeats of one order are not views of other orders: of a run of repeats, the mean over them is
compared, also with a run that was asked once (`ScoredItems.with_repeats`).

Likewise, some items of a run may be shown in one order only (a boolean on a server). Metrics of
views are compared on the items that every run shows in several orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import DifferentViews


def common_views(ks: Iterable[int]) -> int:
    """Return the number of views at which runs are compared.

    Args:
        ks: number of views of each run, one or more.

    Examples:
        >>> common_views([4, 2, 4])
        2
    """
    return min(ks)


def at_common_views(
    runs: Mapping[str, ScoredItems],
) -> tuple[dict[str, ScoredItems], tuple[DifferentViews, ...]]:
    """Return runs as if each had been scored with the number of views that all of them have.

    Args:
        runs: the runs by name, under the same decoding.

    Returns:
        The runs by name, and a note if their numbers of views differ.
    """
    ks = {name: run.k for name, run in runs.items()}
    common = common_views(ks.values())
    if max(ks.values()) == common:
        return _on_common_orders(runs), ()
    ensembles = any(run.decoding == "ensemble" for run in runs.values())
    note = DifferentViews(ks, common, ensembles)
    return _on_common_orders({name: run.with_views(common) for name, run in runs.items()}), (note,)


def _on_common_orders(runs: Mapping[str, ScoredItems]) -> dict[str, ScoredItems]:
    """Return runs whose metrics of views are of the items that all of them show in several orders.

    The items of the runs are in the same order.
    """
    masks = [run.reordered for run in runs.values() if run.reordered is not None]
    if not masks:
        return dict(runs)
    common = np.logical_and.reduce(masks)
    return {name: replace(run, reordered=common) for name, run in runs.items()}
