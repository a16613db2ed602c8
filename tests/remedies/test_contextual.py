"""Contextual calibration against a program written from the equations of the paper."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from remedies.planted_orders import planted_run

from pact_eval.letter_priors import contextually_calibrated, usable
from pact_eval.runs.folder import (
    CONTENTS,
    content_free_id,
    content_free_probabilities,
)
from pact_eval.runs.predictions import Predictions


@pytest.mark.parametrize("n_choices", [2, 3, 6, 10])
def test_it_is_that_of_the_paper(n_choices: int) -> None:
    """Zhao et al., ICML 2021, section 5: W = diag(p_cf)^-1, b = 0, q = softmax(W p + b)."""
    rng = np.random.default_rng(n_choices)
    run = _of_answers(rng, n_choices)
    content_free = _content_free(run, rng)
    p_cf = content_free_probabilities(run, content_free)
    calibrated = contextually_calibrated(run, p_cf)
    rows = {name: row for row, name in enumerate(content_free.ids.tolist())}
    for item, name in enumerate(run.ids.tolist()):
        for view in range(2):
            mean = [0.0] * n_choices
            for number in range(3):
                exponents = np.exp(content_free.logits[rows[f"{number}/{name}"], view])
                for answer in range(n_choices):
                    mean[answer] += exponents[answer] / exponents.sum() / 3
            assert p_cf[item, view] == pytest.approx(mean, abs=1e-12)
            exponents = np.exp(run.logits[item, view])
            weighted = [exponents[a] / exponents.sum() / mean[a] for a in range(n_choices)]
            total = sum(math.exp(value) for value in weighted)
            expected = [math.log(math.exp(value) / total) for value in weighted]
            assert calibrated[item, view] == pytest.approx(expected, abs=1e-12)


def test_numbers_of_answers_in_one_run_do_not_mix() -> None:
    rng = np.random.default_rng(1)
    run = planted_run(rng, families=20, k=2)
    p_cf = content_free_probabilities(run, _content_free(run, rng))
    together = contextually_calibrated(run, p_cf)
    for count in np.unique(run.n_choices).tolist():
        rows = np.flatnonzero(run.n_choices == count)
        alone = replace(
            run.taken(rows),
            logits=run.logits[rows, :, :count],
            code_order=run.code_order[rows, :, :count],
        )
        expected = contextually_calibrated(alone, p_cf[rows, :, :count])
        assert together[rows, :, :count] == pytest.approx(expected, abs=1e-12)
    assert np.exp(together).sum(axis=2) == pytest.approx(1.0, abs=1e-12)


def test_a_uniform_content_free_distribution_changes_no_answer() -> None:
    run = planted_run(np.random.default_rng(2), families=20, k=2)
    uniform = np.ones((len(run), 2, run.logits.shape[2])) / run.n_choices[:, None, None]
    calibrated = contextually_calibrated(run, uniform)
    assert np.array_equal(calibrated.argmax(axis=2), run.logits.argmax(axis=2))


def test_items_without_a_content_or_of_other_orders_stay_as_they_are() -> None:
    rng = np.random.default_rng(3)
    run = planted_run(rng, families=10, k=2)
    content_free = _content_free(run, rng)
    lost = content_free_id(str(run.ids[0]), 1)
    orders = content_free.code_order.copy()
    row = content_free.ids.tolist().index(content_free_id(str(run.ids[1]), 0))
    count = run.n_choices[1]
    orders[row, 0, :count] = orders[row, 0, :count][::-1]
    changed = replace(content_free, code_order=orders).taken(
        np.flatnonzero(content_free.ids != lost)
    )
    p_cf = content_free_probabilities(run, changed)
    assert usable(p_cf, run).tolist() == [False, False] + [True] * 18
    calibrated = contextually_calibrated(run, p_cf)
    assert np.array_equal(calibrated[:2], run.log_probs_by_view[:2])
    assert not np.allclose(calibrated[2], run.log_probs_by_view[2])


def _of_answers(rng: np.random.Generator, n_choices: int) -> Predictions:
    run = planted_run(rng, families=4, k=1)
    orders = [[rng.permutation(n_choices) for _ in range(2)] for _ in range(8)]
    return replace(
        run,
        n_choices=np.full(8, n_choices),
        logits=rng.normal(0, 1, (8, 2, n_choices)),
        code_order=np.array(orders),
        answer_mass=np.ones((8, 2)),
        references=np.zeros(8, dtype=np.int64),
    )


def _content_free(run: Predictions, rng: np.random.Generator) -> Predictions:
    """Returns content-free prompts of a run in the orders of its first two views."""
    n, contents = len(run), len(CONTENTS)
    every = run.with_views(np.tile([0, 1], (n, 1))).taken(np.repeat(np.arange(n), contents))
    ids = [content_free_id(name, n) for name in run.ids.tolist() for n in range(contents)]
    noise = np.where(np.isfinite(every.logits), rng.normal(0, 1, every.logits.shape), -np.inf)
    return replace(every, ids=np.array(ids), logits=noise)
