"""Runs with different numbers of views, compared at the smallest number."""

from __future__ import annotations

from collections.abc import Mapping

from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import DifferentViews


def at_common_views(
    runs: Mapping[str, ScoredItems],
) -> tuple[dict[str, ScoredItems], tuple[DifferentViews, ...]]:
    """Return runs with the view metrics of the number of views that all runs have.

    View TV, flip rate and ensemble gain depend on K: with more views, more answers change. So a run
    with 4 views is compared with a run with 2 views on its first 2 views, as in `sweep`.

    Args:
        runs: the runs by name, under the same decoding.

    Returns:
        The runs by name, and a note if their numbers of views differ.
    """
    ks = {name: run.k for name, run in runs.items()}
    common = min(ks.values())
    if max(ks.values()) == common:
        return dict(runs), ()
    ensembles = any(run.decoding == "ensemble" for run in runs.values())
    note = DifferentViews(ks, common, ensembles)
    return {name: run.with_views(common) for name, run in runs.items()}, (note,)
