"""Items keep what is drawn of them: once, for all who ask, and no longer than they live."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from run_frames import predictions

from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_groups


def items_of() -> ScoredItems:
    return ScoredItems.of(predictions(17), "single")


def drawn(items: ScoredItems, *, seed: int = 0, resamples: int = 200) -> ResampledGroup:
    return resampled_groups(items, rng=np.random.default_rng(seed), resamples=resamples)[0]


def test_a_group_depends_on_seed_resamples_metrics_and_units() -> None:
    items = items_of()
    one_metric = resampled_groups(
        items,
        rng=np.random.default_rng(0),
        resamples=200,
        names=["accuracy"],
    )[0]
    groups = [
        drawn(items),
        drawn(items, seed=1),
        drawn(items, resamples=100),
        drawn(items.over("source_family")),
        drawn(replace(items)),
        one_metric,
    ]
    assert len({id(group) for group in groups}) == len(groups)
    assert groups[0].drawn["nll_nats"].replicates[0] != groups[1].drawn["nll_nats"].replicates[0]
    assert groups[2].drawn["nll_nats"].resamples == 100
    assert groups[3].items.n_clusters == 6
    assert list(one_metric.drawn) == ["accuracy"]


def test_threads_draw_the_same_replicates() -> None:
    alone, shared = drawn(items_of()), drawn(items_of())
    with ThreadPoolExecutor(8) as pool:
        replicates_of_threads = list(
            pool.map(lambda name: shared.drawn[name].replicates, list(shared.drawn) * 4)
        )
    for name, replicates in zip(list(shared.drawn) * 4, replicates_of_threads, strict=True):
        np.testing.assert_array_equal(replicates, alone.drawn[name].replicates)


def test_items_end_with_their_last_use() -> None:
    items = items_of()
    drawn(items).estimate("ece")
    last_use = weakref.ref(items)
    gc.disable()
    try:
        del items
        assert last_use() is None
    finally:
        gc.enable()


def test_items_of_a_file_keep_nothing() -> None:
    items = replace(items_of(), views=None)
    assert drawn(items) is not drawn(items)
