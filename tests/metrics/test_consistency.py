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


def test_views_of_one_order_count_once_against_hand_computation() -> None:
    """Two orders, each twice, at distance 0.4: the four equal-order pairs do not dilute it."""
    first, second = [0.9, 0.1], [0.5, 0.5]
    views = np.log([[first, second, first, second]] * 3)
    counted = np.array([[True, True, False, False], [True] * 4, [True, False, True, False]])
    np.testing.assert_allclose(pairwise_tv(views, counted), [0.4, 4 * 0.4 / 6, 0.0])
    np.testing.assert_allclose(pairwise_tv(views[:1], counted[:1]), [0.4])
    alone = pairwise_tv(views, np.array([[True, False, False, False]] * 3))
    assert np.isnan(alone).all()


def test_counted_views_against_scipy_pdist() -> None:
    rng = np.random.default_rng(61)
    log_probs = log_softmax(rng.standard_normal((40, 5, 3)), np.full(40, 3))
    counted = rng.random((40, 5)) < 0.7
    counted[:, [1, 4]] = True
    expected = [
        pdist(np.exp(item[kept]), "cityblock").mean() / 2
        for item, kept in zip(log_probs, counted, strict=True)
    ]
    np.testing.assert_allclose(pairwise_tv(log_probs, counted), expected, rtol=1e-12)


def test_counted_views_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="counted: expected shape"):
        pairwise_tv(np.log([[[0.3, 0.7]]]), [[True, True]])
