"""Notes of a report as values, and near ties counted by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from run_frames import predictions

from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import NOISE, NearTies, numeric_noise
from pact_eval.evaluation.report import evaluate_items
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance


def ties(views: Predictions, noise: float) -> NearTies | None:
    items = ScoredItems.of(views, "single")
    rng = np.random.default_rng(0)
    report = evaluate_items(items, by="kind", rng=rng, resamples=10, noise=noise)
    assert (report.near_ties in report.notes) == (report.near_ties != NearTies(0, noise))
    return report.near_ties


def test_ties_counted_by_hand() -> None:
    views = predictions(1, families=3, k=2)
    logits = np.full_like(views.logits, -np.inf)
    logits[:, :, :2] = [5.0, 1.0]  # far apart
    logits[0, 0, :2] = [1.0, 1.0]  # a tie
    logits[1, 0, :2] = [1.5, 1.0]  # twice the noise: each may move by a quarter
    logits[2, 0, :2] = [1.0, 1.5001]  # a little more
    logits[3, 1, :2] = [1.0, 1.0]  # a tie in another view than the first
    assert ties(replace(views, logits=logits), 0.25) == NearTies(2, 0.25)


def test_impossible_answers_are_not_a_tie() -> None:
    views = predictions(1, families=3, k=2)
    logits = np.full_like(views.logits, -np.inf)
    logits[:, :, 0] = 2.0
    assert ties(replace(views, logits=logits), 1.0) == NearTies(0, 1.0)


@pytest.mark.parametrize(
    ("provenance", "noise"),
    [
        ({"settings": {"dtype": "float32"}}, NOISE["float32"]),
        ({"settings": {"dtype": "bfloat16"}}, NOISE["bfloat16"]),
        # Measured below what rounding can do elsewhere, and above.
        (
            {
                "settings": {"dtype": "float32"},
                "engine": {"check": {"largest_logit_difference": 1e-6}},
            },
            1e-4,
        ),
        (
            {
                "settings": {"dtype": "float32"},
                "engine": {"check": {"largest_logit_difference": 7e-4}},
            },
            7e-4,
        ),
        ({"settings": {"dtype": "float32"}, "engine": {}}, 1e-4),
        ({"settings": {}}, None),
        ({"source": "import"}, None),
        ({"settings": {"dtype": "float64"}}, None),
    ],
)
def test_the_noise_of_a_run(provenance: dict[str, Any], noise: float | None) -> None:
    assert numeric_noise(Provenance.of(provenance)) == noise
