import numpy as np
import pytest
from scipy.spatial.distance import pdist

from pact_eval.metrics import flipped, log_softmax, pairwise_tv

INF = np.inf


def test_tv_against_hand_computation() -> None:
    """Pairs at distance 0.4, 0.4 and 0."""
    views = np.log([[[0.9, 0.1], [0.5, 0.5], [0.9, 0.1]]])
    np.testing.assert_allclose(pairwise_tv(views), [0.8 / 3])


def test_tv_against_scipy_pdist() -> None:
    logits = np.random.default_rng(60).standard_normal((30, 4, 5))
    log_probs = log_softmax(logits, np.full(30, 5))
    expected = [pdist(np.exp(item), "cityblock").mean() / 2 for item in log_probs]
    np.testing.assert_allclose(pairwise_tv(log_probs), expected, rtol=1e-12)


def test_disjoint_certain_views_are_at_distance_1() -> None:
    views = np.array([[[0.0, -INF, -INF], [-INF, 0.0, -INF]]])
    assert pairwise_tv(views).tolist() == [1.0]
    assert flipped(views).tolist() == [1.0]


def test_equal_views_are_at_distance_0() -> None:
    views = np.log([[[0.3, 0.7], [0.3, 0.7], [0.3, 0.7]]])
    assert pairwise_tv(views).tolist() == [0.0]
    assert flipped(views).tolist() == [0.0]


def test_a_flip_in_any_view_counts() -> None:
    same, other = [0.6, 0.4], [0.4, 0.6]
    views = np.log([[same] * 3, [same, same, other], [same, other, same], [other, same, same]])
    assert flipped(views).tolist() == [0.0, 1.0, 1.0, 1.0]


def test_one_view_has_no_consistency() -> None:
    views = np.log([[[0.3, 0.7]], [[0.6, 0.4]]])
    assert np.isnan(pairwise_tv(views)).all()
    assert np.isnan(flipped(views)).all()
    assert pairwise_tv(views).shape == flipped(views).shape == (2,)


def test_a_missing_view_axis_is_refused() -> None:
    for metric in (pairwise_tv, flipped):
        with pytest.raises(ValueError, match="expected 3 dimensions"):
            metric(np.log([[0.3, 0.7]]))
