"""Statistics that need more than a mean equal the metric of the resampled rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from run_frames import predictions

from pact_eval import metrics
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.resampled_groups import resampled_groups


@pytest.mark.parametrize("name", ["aurc", "ece", "confident_errors", "pair_accuracy", "nll_nats"])
def test_statistics_against_resampled_rows(name: str) -> None:
    items = ScoredItems.of(predictions(3, families=30), "ensemble")
    rng = np.random.default_rng(90)
    weights = rng.multinomial(30, np.full(30, 1 / 30), 40).astype(np.float64)
    (group,) = resampled_groups(items, rng=rng, resamples=1, names=[name])
    statistic = group.drawn[name].statistic
    assert statistic is not None
    pairs = items.pairs
    expected = []
    for row in weights:
        rows = np.repeat(np.arange(len(items)), row[items.families.codes].astype(int))
        sure, right = items.confidence[rows], items.correct[rows]
        drawn = np.repeat(np.arange(len(pairs)), row[items.families.codes[pairs.base]].astype(int))
        values = {
            "aurc": metrics.aurc(sure, right),
            "ece": metrics.ece(sure, right),
            "confident_errors": metrics.confident_errors(sure, right),
            "pair_accuracy": metrics.pair_correct(pairs, items.correct)[drawn].mean(),
            "nll_nats": items.values["nll_nats"][rows].mean(),
        }
        expected.append(values[name])
    np.testing.assert_allclose(statistic(weights), expected, rtol=0, atol=1e-12)


def test_small_batches_of_resamples_have_the_numbers_of_large_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pact_eval.stats import bootstrap

    items = ScoredItems.of(predictions(6, families=50), "single")

    def drawn() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(1)
        (group,) = resampled_groups(replace(items), rng=rng, resamples=100)
        return {name: one.replicates for name, one in group.drawn.items()}

    large = drawn()
    monkeypatch.setattr(bootstrap, "_BATCH_NUMBERS", 500)
    for name, replicates in drawn().items():
        np.testing.assert_allclose(replicates, large[name], rtol=0, atol=1e-12, err_msg=name)
