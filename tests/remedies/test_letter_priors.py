"""Letter priors against planted ones, and against programs written from the papers' equations."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from messages import assert_says
from remedies.planted_orders import letter_priors, planted_run

from pact_eval.errors import InputError
from pact_eval.letter_priors import fit_letter_prior
from pact_eval.prompts.contract import code_orders
from pact_eval.runs.predictions import Predictions


def test_a_planted_prior_without_noise_comes_out() -> None:
    rng = np.random.default_rng(1)
    planted = letter_priors(rng, 0.7)
    run = planted_run(rng, families=60, k=6, prior=planted)
    fitted = fit_letter_prior(run, "additive")
    assert sorted(fitted.log_prior) == [2, 3, 4, 5, 6]
    for n_choices, log_prior in planted.items():
        assert fitted.log_prior[n_choices] == pytest.approx(log_prior, abs=1e-12)


@pytest.mark.slow
def test_a_planted_prior_under_noise_comes_out_to_0_02_nats() -> None:
    rng = np.random.default_rng(2)
    planted = letter_priors(rng, 0.7)
    run = planted_run(rng, families=6000, k=4, prior=planted, order_noise=0.3, choices=(2, 3, 4))
    fitted = fit_letter_prior(run, "additive")
    for n_choices in (2, 3, 4):
        assert fitted.log_prior[n_choices] == pytest.approx(planted[n_choices], abs=0.02)


@pytest.mark.parametrize("n_choices", [2, 3, 6, 10])
def test_batch_calibration_is_that_of_the_paper(n_choices: int) -> None:
    """Zhou et al., ICLR 2024, equations 2 and 3, written with loops."""
    rng = np.random.default_rng(n_choices)
    orders = [[list(rng.permutation(n_choices))] for _ in range(9)]
    run = _with_orders(rng.normal(0, 1, (9, 1, n_choices)), orders)
    mean = [0.0] * n_choices
    for item in range(9):
        exponents = np.exp(run.logits[item, 0])
        for slot in range(n_choices):
            mean[slot] += exponents[orders[item][0][slot]] / exponents.sum() / 9
    removed = fit_letter_prior(run, "batch").removed(run)
    for item in range(9):
        exponents = np.exp(run.logits[item, 0])
        shifted = [0.0] * n_choices
        for slot in range(n_choices):
            answer = orders[item][0][slot]
            shifted[answer] = np.log(exponents[answer] / exponents.sum()) - np.log(mean[slot])
        expected = shifted - np.logaddexp.reduce(shifted)
        assert removed[item, 0] == pytest.approx(expected, abs=1e-12)


def test_the_additive_prior_is_the_least_squares_fit_with_an_effect_of_every_answer() -> None:
    """The full model by `numpy.linalg.lstsq`: one column per item and answer, view, and letter."""
    rng = np.random.default_rng(5)
    n, k, n_choices = 8, 3, 4
    orders = [
        [list(order) for order in code_orders(1, f"i{item}", n_choices, k)] for item in range(n)
    ]
    run = _with_orders(rng.normal(0, 1, (n, k, n_choices)), orders)
    columns = n * n_choices + n * k + n_choices
    design, target = np.zeros((n * k * n_choices, columns)), np.zeros(n * k * n_choices)
    cells = itertools.product(range(n), range(k), range(n_choices))
    for row, (item, view, slot) in enumerate(cells):
        answer = orders[item][view][slot]
        design[row, [item * n_choices + answer, n * n_choices + item * k + view]] = 1
        design[row, n * n_choices + n * k + slot] = 1
        target[row] = run.log_probs_by_view[item, view, answer]
    letters = np.linalg.lstsq(design, target, rcond=None)[0][-n_choices:]
    fitted = fit_letter_prior(run, "additive").log_prior[n_choices]
    assert fitted == pytest.approx(letters - letters.mean(), abs=1e-10)


def test_one_order_identifies_no_additive_prior() -> None:
    run = planted_run(np.random.default_rng(7), families=30, k=1)
    assert fit_letter_prior(run, "additive").log_prior == {}


def test_items_of_other_numbers_of_answers_than_those_of_the_fit_stay_as_they_are() -> None:
    run = planted_run(np.random.default_rng(6), families=30, k=4)
    fitted = fit_letter_prior(run.taken(np.flatnonzero(run.n_choices <= 4)), "additive")
    assert fitted.covers(np.array([2, 4, 5])).tolist() == [True, True, False]
    kept = run.n_choices > 4
    assert np.array_equal(fitted.removed(run)[kept], run.log_probs_by_view[kept])


def test_views_of_unknown_orders_are_refused() -> None:
    run = planted_run(np.random.default_rng(8), families=5, k=2)
    unknown = replace(run, code_order=np.full_like(run.code_order, -1))
    with pytest.raises(InputError) as error:
        fit_letter_prior(unknown, "additive")
    assert_says(error.value, "letter prior", "order of the answers", "such as i0", "import them")


def test_answers_without_probabilities_are_refused() -> None:
    run = planted_run(np.random.default_rng(9), families=5, k=2)
    with pytest.raises(InputError) as error:
        fit_letter_prior(replace(run, known="answers"), "batch")
    assert_says(error.value, "no probabilities")


def _with_orders(logits: np.ndarray, orders: list[list[list[int]]]) -> Predictions:
    n, _, n_choices = logits.shape
    first = planted_run(np.random.default_rng(0), families=n, k=1).taken(np.arange(n))
    return replace(
        first,
        logits=logits,
        code_order=np.array(orders),
        n_choices=np.full(n, n_choices),
        references=np.zeros(n, dtype=np.int64),
    )
