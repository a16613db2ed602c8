"""Firmness of an answer after some of its views, against hand computation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pact_eval.metrics.stopping import firmness, running_means, views_taken


def test_firmness_against_hand_computation() -> None:
    shares = np.array([[[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.6, 0.2, 0.2], [0.6, 0.2, 0.2]]])
    firm = firmness(running_means(np.log(shares), [3]), [4])[0]
    # After one view the margin is log 2, after two 0, after three a third of log 3.
    assert firm[0] == pytest.approx(math.log(2) / math.sqrt(1 - 1 / 4))
    assert firm[1] == pytest.approx(0.0, abs=1e-12)
    assert firm[2] == pytest.approx(math.log(3) / 3 / math.sqrt(1 / 3 - 1 / 4))
    assert math.isinf(firm[3])


def test_the_standard_error_of_views_without_replacement_against_theory() -> None:
    # Of M = 6 views, the mean over all differs from that over t with variance s^2 (1/t - 1/M).
    rng = np.random.default_rng(0)
    effects = rng.normal(size=(200_000, 6))
    for taken in (1, 2, 5):
        rest = effects.mean(axis=1) - effects[:, :taken].mean(axis=1)
        assert rest.std() == pytest.approx(math.sqrt(1 / taken - 1 / 6), rel=0.01)


def test_an_answer_that_is_ruled_out_is_finitely_firm_before_the_last_view() -> None:
    logits = np.array([[[0.0, -np.inf], [-np.inf, 0.0]]])
    firm = firmness(running_means(logits, [2]), [2])
    assert np.isfinite(firm[0, 0])
    assert views_taken(firm, math.inf).tolist() == [2]
    assert views_taken(firm, 0.0).tolist() == [1]


def test_both_ruled_out_is_not_firm() -> None:
    logits = np.array([[[0.0, -np.inf, -np.inf], [-np.inf, 0.0, -np.inf], [0.0, 0.0, 0.0]]])
    assert firmness(running_means(logits, [3]), [3])[0, 1] == 0.0


def test_items_take_their_own_number_of_views() -> None:
    firm = firmness(running_means(np.zeros((2, 4, 3)), [2, 3]), [2, 4])
    assert views_taken(firm, 1.0).tolist() == [2, 4]
