"""Items in blocks of ragged logits, against the functions of padded arrays and plain loops."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pact_eval import metrics

WIDTH = 5


def expected(
    logits: npt.NDArray[np.float64],
    n_choices: npt.NDArray[np.int64],
    y: npt.NDArray[np.int64],
    ensemble: bool,
) -> dict[str, Any]:
    """What each item of padded logits (n, K, C) has; predictions by argmax, item by item."""
    n, views, _ = logits.shape
    decode = metrics.decode_ensemble if ensemble else metrics.decode_single
    log_probs, by_view = decode(logits, n_choices), metrics.log_softmax(logits, n_choices)
    picks = np.array(
        [[np.argmax(view[:c]) for view in item] for item, c in zip(logits, n_choices, strict=True)]
    )
    top = np.argmax(metrics.decode_ensemble(logits, n_choices), axis=1)
    two_best = [np.sort(item[0, :c])[-2:] for item, c in zip(logits, n_choices, strict=True)]
    one_view = np.full(n, np.nan)
    return {
        "k": np.full(n, views),
        "predicted": np.argmax(log_probs, axis=1),
        "confidence": np.exp(log_probs.max(axis=1)),
        "correct": np.argmax(log_probs, axis=1) == y,
        "nll_nats": metrics.nll_nats(log_probs, y),
        "brier": metrics.brier(log_probs, y),
        "expected_level_error": metrics.expected_level_error(log_probs, y),
        "rps": metrics.rps(log_probs, y),
        "level_error": abs(np.argmax(log_probs, axis=1) - y),
        "predicted_by_view": picks,
        "view_tv": metrics.pairwise_tv(by_view),
        "flipped": metrics.flipped(by_view),
        "order_accuracy": (picks == y[:, None]).mean(axis=1) if views > 1 else one_view,
        "ensemble_gain": ((top == y).astype(float) - (picks[:, 0] == y) if views > 1 else one_view),
        "logit_gap": [best[1] - best[0] if best.size > 1 else np.inf for best in two_best],
    }


@pytest.mark.parametrize(("views", "ensemble"), [(1, False), (3, False), (3, True)])
def test_blocks_against_padded_arrays(
    views: int, ensemble: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pact_eval.metrics.blocks._CHUNK_ITEMS", 17)
    monkeypatch.setattr("pact_eval.metrics.blocks._BLOCK_ITEMS", 3)
    rng = np.random.default_rng(54)
    n = 60
    n_choices = rng.integers(1, WIDTH + 1, n)
    logits = rng.standard_normal((n, views, WIDTH))
    logits[..., 1:][rng.random((n, views, WIDTH - 1)) < 0.1] = -np.inf  # imported zeros
    logits[:, :, 0] += 0.01
    y, mass = rng.integers(0, n_choices), rng.random((n, views))
    other = np.where(rng.random(n) < 0.5, rng.integers(0, n_choices), -1)
    unpadded = [item[:, :c].ravel() for item, c in zip(logits, n_choices, strict=True)]
    values = expected(logits, n_choices, y, ensemble)
    blocks = list(
        metrics.item_blocks(
            np.concatenate(unpadded),
            n_choices,
            y,
            answer_mass=mass,
            views=views,
            other_reference=other,
            ensemble=ensemble,
        )
    )
    rows = np.concatenate([block.rows for block in blocks])
    assert sorted(rows.tolist()) == list(range(n))
    assert max(block.rows.size for block in blocks) == 3
    for block in blocks:
        np.testing.assert_array_equal(block.reference, y[block.rows])
        np.testing.assert_array_equal(block.answer_mass, mass[block.rows])
        np.testing.assert_array_equal(block.other_reference, other[block.rows])
        for name, value in values.items():
            with np.errstate(invalid="ignore"):
                np.testing.assert_allclose(
                    getattr(block, name), np.asarray(value)[block.rows], atol=1e-12, err_msg=name
                )
    by_view = metrics.log_softmax(logits, n_choices)
    assert min(block.smallest_log_prob for block in blocks) == pytest.approx(
        by_view[np.isfinite(by_view)].min()
    )


def test_ablated_blocks_against_hand_computation() -> None:
    """Probabilities 1/4, 1/4 and 1/2: the second of the answers {0, 2} leads by ln 2."""
    (block,) = metrics.item_blocks(
        np.log([1.0, 1.0, 2.0]), [3], answers=np.array([[0, 2]]), views=1
    )
    assert block.reference is None
    assert abs(block.answer_gap_nats[0]) == pytest.approx(np.log(2))
    assert np.isnan(block.answer_mass).all()
    for name in ("correct", "nll_nats", "order_accuracy"):
        with pytest.raises(ValueError, match="reference"):
            getattr(block, name)
    (block,) = metrics.item_blocks([0.0, 1.0], [2], [0])
    with pytest.raises(ValueError, match="two answers"):
        _ = block.answer_gap_nats
    assert np.isnan(block.lead_nats).all()


@pytest.mark.parametrize(
    ("logits", "n_choices", "changes", "message"),
    [
        ([[0.0, 1.0]], [2], {}, "expected logits"),
        ([0.0, 1.0], 2, {}, "expected logits"),
        ([0.0, 1.0], [2], {"views": 0}, "views >= 1"),
        ([0.0, 1.0], [0, 2], {}, "n_choices >= 1"),
        ([0.0, 1.0], [2], {"views": 2}, "2 x n_choices logits, got 1 and 2"),
        ([0.0, 1.0], [2], {"reference": [2]}, "an answer of its item, got 2 of 2 in row 0"),
        ([0.0, 1.0], [2], {"reference": [0, 0]}, "reference: expected shape"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    logits: Any, n_choices: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        next(metrics.item_blocks(logits, n_choices, **changes))
