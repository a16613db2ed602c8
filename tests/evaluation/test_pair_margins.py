"""The pair margin on held-out pairs: published rows, an independent computation, planted pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from evaluations import evaluate
from messages import assert_says
from run_frames import frame_of, predictions, rows

from logs import read_rows
from pact_eval._choices import Decoding
from pact_eval.calibration.temperatures import Calibrator, Weights, inverse_softplus
from pact_eval.evaluation import items as items_module
from pact_eval.evaluation.items import ScoredItems, pair_partners, read_items
from pact_eval.evaluation.notes import PairsWithoutMargin
from pact_eval.evaluation.registry import TRAINED_MARGIN, pair_margins
from pact_eval.evaluation.report import Evaluation
from pact_eval.runs.predictions import Predictions
from pact_losses import PACT_SETTINGS, pair_margin

NAMES = ("pair_margin", "margin_not_positive", "margin_below_trained")


def evaluated(views: Predictions) -> Evaluation:
    rng = np.random.default_rng(0)
    return evaluate(views, decoding="single", by="kind", rng=rng, resamples=60)


def test_the_published_rows(experiment_files: Path) -> None:
    """Mean d 9.8 nats, 6.2% of 162 pairs at or below 0, 20.4% below the trained margin of 2."""
    frame = read_rows(experiment_files / "shipped_holdout_rows.jsonl").frame
    estimates = evaluated(Predictions.from_frame(frame)).groups[0].estimates
    assert [estimates[name].n for name in NAMES] == [162] * 3
    if "made" in str(experiment_files):  # made rows have the printed metrics, not the margins
        return
    assert f"{estimates[NAMES[0]].value:.1f}" == "9.8"
    assert [f"{100 * estimates[name].value:.1f}" for name in NAMES[1:]] == ["6.2", "20.4"]


def test_margins_against_the_training_term() -> None:
    """`pact_losses` computes d from logits in torch, for the training term L_CF."""
    views = predictions(3, families=40, k=2)
    items = ScoredItems.of(views, "single")
    partner = pair_partners(views)
    base, other = items.pairs.base, items.pairs.counterfactual
    assert (partner[base] == other).all()
    logits = torch.tensor(np.where(np.isfinite(views.logits[:, 0]), views.logits[:, 0], -1e9))
    reference = torch.tensor(views.reference)
    expected = pair_margin(logits[base], logits[other], reference[base], reference[other])
    contrasted = (reference[base] != reference[other]).numpy()
    assert 20 < contrasted.sum() < 40
    assert pair_margins(items)[contrasted] == pytest.approx(expected.numpy()[contrasted], abs=1e-9)
    assert np.isnan(pair_margins(items)[~contrasted]).all()
    values = expected.numpy()[contrasted]
    estimates = evaluated(views).groups[0].estimates
    assert estimates["pair_margin"].value == pytest.approx(values.mean(), abs=1e-12)
    assert estimates["margin_not_positive"].value == pytest.approx((values <= 0).mean())
    assert estimates["margin_below_trained"].value == pytest.approx((values < 2).mean())
    assert {estimates[name].n for name in NAMES} == {int(contrasted.sum())}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    ("repeats", "decoding", "slice_rows"),
    [(False, "single", 2), (False, "ensemble", 6), (True, "single", 6), (True, "ensemble", 2)],
)
def test_pairs_that_continue_in_another_slice(
    repeats: bool,
    decoding: Decoding,
    slice_rows: int,
    apart: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slices of one item or of three: every or every third pair is in two of them, or every base
    comes before every counterfactual."""
    frame = rows(5, families=20, k=2)
    if apart:
        is_base = pl.col("variant") == "base"
        frame = pl.concat([frame.filter(is_base), frame.filter(~is_base)])
    if repeats:  # both views show one order
        frame = frame.with_columns(pl.col("code_order").first().over("id"))
    path = tmp_path / "predictions.parquet"
    frame.write_parquet(path)
    views = replace(Predictions.from_frame(frame), repeats=repeats)
    expected = pair_margins(ScoredItems.of(views, decoding).with_sorted_families())
    assert np.isfinite(expected).sum() >= 10
    monkeypatch.setattr(items_module, "_SLICE_ROWS", slice_rows)
    items = read_items(path, decoding, repeats=repeats)
    margins = pair_margins(items.with_sorted_families())
    assert margins == pytest.approx(expected, abs=1e-12, nan_ok=True)


def planted() -> pl.DataFrame:
    """Margins 3, -1, 0, none (the same right answer), infinite (a probability of 0); one single."""
    logits = [
        *([2.0, 0.0], [0.0, 1.0]),
        *([2.0, 0.0], [3.0, 0.0]),
        *([2.0, 0.0], [2.0, 0.0]),
        *([2.0, 0.0], [2.0, 0.0]),
        *([2.0, -np.inf], [2.0, 0.0]),
        [2.0, 0.0],
    ]
    return frame_of(
        id=[f"i{number}" for number in range(11)],
        family=[f"f{number // 2}" for number in range(11)],
        variant=["base", "counterfactual"] * 5 + ["base"],
        reference=[0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0],
        logits=logits,
    )


def test_planted_pairs_against_hand_computation() -> None:
    result = evaluated(Predictions.from_frame(planted()))
    estimates = result.groups[0].estimates
    assert estimates["pair_margin"].value == pytest.approx(2 / 3)
    assert estimates["margin_not_positive"].value == pytest.approx(2 / 3)
    assert estimates["margin_below_trained"].value == pytest.approx(2 / 3)
    assert {estimates[name].n for name in NAMES} == {3}
    (note,) = (note for note in result.notes if isinstance(note, PairsWithoutMargin))
    assert note == PairsWithoutMargin(alike=1, unknown=1)
    assert_says(
        str(note),
        "leaves out",
        "1 whose members",
        "the same right answer",
        "1 with",
        "unknown probability",
    )


def test_a_model_that_ignores_the_edited_fact() -> None:
    """Both members get the same distribution, so d is 0 whatever the model prefers."""
    drawn = np.random.default_rng(2).normal(size=(30, 3)).repeat(2, axis=0)
    frame = frame_of(
        id=[f"i{number}" for number in range(60)],
        family=[f"f{number // 2}" for number in range(60)],
        variant=["base", "counterfactual"] * 30,
        reference=[0, 2] * 30,
        logits=drawn.tolist(),
    )
    estimates = evaluated(Predictions.from_frame(frame)).groups[0].estimates
    assert estimates["pair_margin"].value == pytest.approx(0, abs=1e-12)
    assert estimates["margin_not_positive"].value == 1


def test_a_temperature_divides_the_margin() -> None:
    views = predictions(3)
    hot = Calibrator("scalar", Weights(bias=(inverse_softplus(2.0), 0.0, 0.0)))
    raw = pair_margins(ScoredItems.of(views, "single"))
    tempered = pair_margins(ScoredItems.of(views, "single", hot))
    assert tempered == pytest.approx(raw / 2, nan_ok=True)


def test_the_trained_margin_is_that_of_the_settings() -> None:
    assert PACT_SETTINGS.margin == TRAINED_MARGIN
