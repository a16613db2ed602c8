"""Remedies against hand computations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from remedies.planted_orders import planted_run

from pact_eval.evaluation.items import ScoredItems
from pact_eval.remedies import Remedy, remedied, remedies_for
from pact_eval.runs.predictions import Predictions


def _two_answers(*probabilities: float) -> Predictions:
    """Returns one item whose views give answer 0 these probabilities; orders alternate."""
    views = np.log([[p, 1 - p] for p in probabilities])
    run = planted_run(np.random.default_rng(0), families=1, k=1, choices=(2,))
    orders = [[view % 2, 1 - view % 2] for view in range(len(probabilities))]
    return replace(
        run.taken(np.array([0])),
        logits=views[np.newaxis],
        code_order=np.array([orders]),
        answer_mass=np.ones((1, len(probabilities))),
        references=np.array([0]),
    )


def _answer(run: Predictions, remedy: Remedy) -> list[float]:
    probabilities: list[float] = np.exp(remedied(run, remedy, None).logits[0, 0]).tolist()
    return probabilities


def test_the_mean_of_two_views_by_hand() -> None:
    run = _two_answers(0.9, 0.5)
    assert _answer(run, Remedy(1)) == pytest.approx([0.9, 0.1])
    # sqrt(0.9 x 0.5) : sqrt(0.1 x 0.5) = 3 : 1
    assert _answer(run, Remedy(2)) == pytest.approx([0.75, 0.25])


def test_more_views_never_raise_the_mean_nll_of_exchangeable_views() -> None:
    """By the inequality of arithmetic and geometric means, whatever the views and the answer are.

    log q(y) = mean_v log p_v(y) - log sum_a exp(mean_v log p_v(a)), and the sum is at most 1. So
    views that differ always help the NLL of a mean log-probability: no plant can take that away.
    """
    rng = np.random.default_rng(6)
    run = planted_run(rng, families=200, k=4, order_noise=2.0)
    rows = np.arange(len(run))
    wrong_or_right = (rng.random(len(run)) * run.n_choices).astype(np.int64)
    of_views = run.log_probs_by_view[rows, :, wrong_or_right].mean(axis=1)
    combined = remedied(run, Remedy(4), None).logits[rows, 0, wrong_or_right]
    assert (combined >= of_views - 1e-12).all()
    assert (combined > of_views + 1e-3).mean() > 0.9


def test_the_next_views_say_whether_the_answer_depends_on_the_orders() -> None:
    run = planted_run(np.random.default_rng(2), k=4, order_noise=2.0, choices=(4,))
    two = remedied(run, Remedy(2), None)
    halves = [
        remedied(run.with_views(np.tile(views, (len(run), 1))), Remedy(2), None)
        for views in ([0, 1], [2, 3])
    ]
    answers = [half.logits[:, 0].argmax(axis=1) for half in halves]
    flipped = ScoredItems.of(two, "single").values["flip_rate"]
    assert two.k == 2
    assert flipped.tolist() == (answers[0] != answers[1]).tolist()
    assert remedied(run, Remedy(3), None).k == 1  # one view is left over


def test_one_view_and_six_remedies_are_compared() -> None:
    letters = {
        Remedy(1, prior="additive"),
        Remedy(1, prior="batch"),
        Remedy(1, contextual=True),
        Remedy(2, prior="additive"),
    }
    assert {*remedies_for(4)} == letters | {Remedy(1), Remedy(2), Remedy(4)}
    assert {*remedies_for(2)} == letters | {Remedy(1), Remedy(2)}
    repeats = remedies_for(4, same_orders=True, content_free=False)
    assert {*repeats} == {Remedy(1), Remedy(2), Remedy(4), Remedy(1, prior="batch")}
