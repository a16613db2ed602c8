from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pact_eval.evaluation.near_ties import NOISE
from run_frames import predictions, rows

from pact_eval.evaluation import NearTies, near_ties, near_ties_of_file, numeric_noise


def test_ties_counted_by_hand() -> None:
    views = predictions(1, families=3, k=2)
    logits = np.full_like(views.logits, -np.inf)
    logits[:, :, :2] = [5.0, 1.0]  # far apart
    logits[0, 0, :2] = [1.0, 1.0]  # a tie
    logits[1, 0, :2] = [1.5, 1.0]  # twice the noise: each may move by a quarter
    logits[2, 0, :2] = [1.0, 1.5001]  # a little more
    logits[3, 1, :2] = [1.0, 1.0]  # a tie in another view than the first
    found = near_ties(replace(views, logits=logits), 0.25)
    assert (found.items, found.noise) == (2, 0.25)


def test_impossible_answers_are_no_tie() -> None:
    views = predictions(1, families=3, k=2)
    logits = np.full_like(views.logits, -np.inf)
    logits[:, :, 0] = 2.0
    assert near_ties(replace(views, logits=logits), 1.0).items == 0
    assert near_ties(replace(views, logits=np.full_like(logits, -np.inf)), 1.0).items == 0


@pytest.mark.parametrize("noise", [1e-4, 0.05, 0.5, 10.0])
def test_one_pass_over_the_file_counts_what_is_counted_in_memory(
    tmp_path: Path, noise: float
) -> None:
    frame = rows(1, families=40, k=3)
    infinite = [[-np.inf] * len(logits) for logits in frame["logits"]]
    logits = [
        one if n % 7 else other
        for n, (one, other) in enumerate(zip(frame["logits"].to_list(), infinite, strict=True))
    ]
    frame = frame.with_columns(logits=pl.Series(logits, dtype=frame.schema["logits"]))
    frame.write_parquet(tmp_path / "predictions.parquet")
    best = np.array(
        [sorted(one)[-2:] for one in frame.filter(pl.col("view") == 0)["logits"].to_list()]
    )
    with np.errstate(invalid="ignore"):
        by_hand = int((best[:, 1] - best[:, 0] <= 2 * noise).sum())
    assert near_ties_of_file(tmp_path / "predictions.parquet", noise) == NearTies(by_hand, noise)


def test_no_item_has_no_near_tie(tmp_path: Path) -> None:
    rows(1, families=1).clear().write_parquet(tmp_path / "predictions.parquet")
    assert near_ties_of_file(tmp_path / "predictions.parquet", 1.0).items == 0


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
    assert numeric_noise(provenance) == noise
