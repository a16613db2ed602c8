"""The column kernel gives the numbers of the padded metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval import metrics
from pact_eval.metrics import MetricTotals, blocks, item_blocks

WIDTH = 6


class Ragged:
    """Random items, padded and ragged."""

    def __init__(self, seed: int, n: int, k: int, *, ties: bool) -> None:
        rng = np.random.default_rng(seed)
        self.k = k
        self.n_choices = rng.integers(1, WIDTH + 1, n)
        self.reference = rng.integers(0, self.n_choices)
        self.logits = (2 * rng.standard_normal((n, k, WIDTH))).astype(np.float32)
        if ties:
            self.logits = np.round(self.logits)
            self.logits[..., 1:][rng.random((n, k, WIDTH - 1)) < 0.2] = -np.inf
        used = np.arange(WIDTH) < self.n_choices[:, None, None]
        self.flat = self.logits[np.broadcast_to(used, self.logits.shape)]

    def whole(self, *, ensemble: bool) -> dict[str, npt.NDArray[Any]]:
        """Scores the items in blocks, and puts the blocks together."""
        made: dict[str, npt.NDArray[Any]] = {}
        for block in item_blocks(
            self.flat, self.n_choices, self.reference, views=self.k, ensemble=ensemble
        ):
            for name in (
                "predicted",
                "correct",
                "confidence",
                "nll",
                "brier",
                "view_tv",
                "flipped",
            ):
                value = getattr(block, name)
                made.setdefault(name, np.empty(len(self.reference), value.dtype))
                made[name][block.rows] = value
            for name in ("expected_level_error", "gain"):
                made.setdefault(name, np.empty(len(self.reference)))
                made[name][block.rows] = getattr(block, name)
        return made


def gain(items: Ragged) -> npt.NDArray[np.float64]:
    together = metrics.decode_ensemble(items.logits, items.n_choices)
    alone = metrics.decode_single(items.logits, items.n_choices)
    right = metrics.correct(together, items.reference).astype(float)
    return right - metrics.correct(alone, items.reference)


@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("k", [1, 3, 4])
@given(seed=st.integers(0, 2**32 - 1), ties=st.booleans())
def test_blocks_against_the_padded_metrics(seed: int, ties: bool, k: int, ensemble: bool) -> None:
    items = Ragged(seed, 17, k, ties=ties)
    found = items.whole(ensemble=ensemble)
    decode = metrics.decode_ensemble if ensemble else metrics.decode_single
    log_probs = decode(items.logits, items.n_choices)
    y = items.reference
    np.testing.assert_array_equal(found["predicted"], metrics.predicted(log_probs))
    np.testing.assert_array_equal(found["correct"], metrics.correct(log_probs, y))
    by_view = metrics.log_softmax(items.logits, items.n_choices)
    for name, expected in (
        ("confidence", metrics.confidence(log_probs)),
        ("nll", metrics.nll_nats(log_probs, y)),
        ("brier", metrics.brier(log_probs, y)),
        ("expected_level_error", metrics.expected_level_error(log_probs, y)),
        ("view_tv", metrics.pairwise_tv(by_view)),
        ("flipped", metrics.flipped(by_view)),
        ("gain", gain(items) if k > 1 else np.full(17, np.nan)),
    ):
        np.testing.assert_allclose(found[name], expected, rtol=1e-12, atol=1e-13, err_msg=name)


def test_every_item_is_in_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_ITEMS", 4)
    items = Ragged(1, 50, 2, ties=False)
    found = list(item_blocks(items.flat, items.n_choices, items.reference, views=2))
    assert sorted(np.concatenate([block.rows for block in found]).tolist()) == list(range(50))
    assert max(block.rows.size for block in found) == 4
    whole = items.whole(ensemble=False)["nll"]
    log_probs = metrics.decode_single(items.logits, items.n_choices)
    np.testing.assert_allclose(whole, metrics.nll_nats(log_probs, items.reference), rtol=1e-13)


def test_the_picks_of_every_view_and_the_smallest_probability() -> None:
    logits = [0.0, 1.0, 3.0, 0.0, -np.inf, 2.0]
    (block,) = item_blocks(logits, [2], [1], views=3)
    assert block.predicted_by_view.tolist() == [[1], [0], [1]]
    # exp(0) / (exp(0) + exp(3)) is less than exp(0) / (exp(0) + exp(1)); the 0 does not count.
    assert block.smallest_log_prob == pytest.approx(-np.log(1 + np.exp(3.0)))
    assert not np.isnan(block.gain).any()


def test_views_that_exclude_every_answer_leave_the_gain_of_one_item_undefined() -> None:
    logits = [0.0, -np.inf, -np.inf, 0.0, 1.0, 0.0, 1.0, 0.0]
    (block,) = item_blocks(logits, [2, 2], [0, 0], views=2)
    assert np.isnan(block.gain).tolist() == [True, False]
    with pytest.raises(ValueError, match="ensemble undefined: .*: row 0"):
        list(item_blocks(logits, [2, 2], [0, 0], views=2, ensemble=True))


def test_no_items_make_no_block() -> None:
    assert list(item_blocks([], np.zeros(0, int), np.zeros(0, int))) == []


def test_bad_items_are_refused() -> None:
    for arguments, message in (
        (([0.0, np.nan], [2], [0]), "expected logits below .inf, and no NaN: row 0"),
        (([0.0, 1.0, np.inf, 0.0], [2, 2], [0, 0]), "no NaN: row 1"),
        (([-np.inf, -np.inf], [2], [0]), "every answer is -inf.*: row 0"),
        (([0.0, 1.0], [2], [2]), "reference: expected an answer of its item, got 2 of 2 in row 0"),
        (([0.0, 1.0], [2], [-1]), "reference: expected an answer of its item"),
        (([0.0, 1.0], [3], [0]), "and 1 x n_choices logits, got 1, 1 and 2"),
        (([0.0], [0, 1], [0, 0]), "n_choices >= 1 of each item"),
        (([[0.0, 1.0]], [2], [0]), r"expected logits \(L,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            list(item_blocks(*arguments))


def totals_of(items: Ragged, is_score: npt.NDArray[np.bool_]) -> list[MetricTotals]:
    found = item_blocks(items.flat, items.n_choices, items.reference, views=items.k)
    return [MetricTotals.of(block, items.reference, is_score) for block in found]


@pytest.mark.parametrize("k", [1, 3])
def test_totals_against_the_metrics_of_all_items(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_ITEMS", 16)
    items = Ragged(3, 400, k, ties=True)
    is_score = np.arange(400) % 3 == 0
    totals = MetricTotals.merged(totals_of(items, is_score))
    log_probs = metrics.decode_single(items.logits, items.n_choices)
    by_view = metrics.log_softmax(items.logits, items.n_choices)
    y, sure = items.reference, metrics.confidence(log_probs)
    right, nll = metrics.correct(log_probs, y), metrics.nll_nats(log_probs, y)
    summary = metrics.nll_summary(nll)
    assert summary.infinite_items > 0
    assert totals.nll.infinite_items == summary.infinite_items
    assert totals.nll.mean == np.inf
    for name, value, expected in (
        ("accuracy", totals.accuracy, right.mean()),
        ("finite NLL", totals.nll.finite_mean, summary.finite_mean),
        ("Brier", totals.mean_brier, metrics.brier(log_probs, y).mean()),
        ("confidence", totals.mean_confidence, sure.mean()),
        ("ECE", totals.ece, metrics.ece(sure, right)),
        ("AURC", totals.aurc(), metrics.aurc(sure, right)),
        ("errors", totals.share_of_confident_errors, metrics.confident_errors(sure, right)),
        ("TV", totals.mean_tv, metrics.pairwise_tv(by_view).mean()),
        ("flips", totals.flip_rate, metrics.flipped(by_view).mean()),
        ("MAE", totals.score_mae, metrics.expected_level_error(log_probs, y)[is_score].mean()),
        ("level", totals.score_level_mae, metrics.level_error(log_probs, y)[is_score].mean()),
        ("gain", totals.ensemble_gain, gain(items).mean() if k > 1 else np.nan),
        ("smallest", totals.smallest_log_prob, by_view[np.isfinite(by_view)].min()),
    ):
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-13, nan_ok=True), name


def test_totals_do_not_depend_on_how_they_are_merged() -> None:
    items = Ragged(4, 300, 2, ties=False)
    parts = totals_of(items, np.ones(300, dtype=bool))
    assert len(parts) == WIDTH
    flat = MetricTotals.merged(parts)
    nested = MetricTotals.merged(
        [MetricTotals.merged(parts[4:]), parts[3], MetricTotals.merged(parts[:3])]
    )
    assert nested.items == flat.items == 300
    for name in ("accuracy", "mean_brier", "ece", "score_mae", "mean_tv", "ensemble_gain"):
        assert getattr(nested, name) == pytest.approx(getattr(flat, name), rel=1e-13), name
    assert nested.aurc() == pytest.approx(flat.aurc(), rel=1e-13)
    assert nested.smallest_log_prob == flat.smallest_log_prob
    with pytest.raises(ValueError, match="parts: expected one or more"):
        MetricTotals.merged([])
