"""Letter balance against hand counts, and on planted references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from messages import assert_says
from remedies.planted_orders import planted_run

from pact_eval.remedies import compare_remedies, letter_balance
from pact_eval.runs.predictions import Predictions
from pact_reports.views.sweep import balance_sentence

_DRAWS = 200


def _references_at(run: Predictions, letters: np.ndarray) -> Predictions:
    """Returns the run with references at these letters of view 0."""
    return replace(run, references=run.code_order[np.arange(len(run)), 0, letters])


def _balanced(seed: int, **options: object) -> Predictions:
    rng = np.random.default_rng(seed)
    run = planted_run(rng, k=1, families=60, **options)  # type: ignore[arg-type]
    return _references_at(run, (rng.random(len(run)) * run.n_choices).astype(np.int64))


def test_shares_by_hand() -> None:
    run = planted_run(np.random.default_rng(0), k=1, families=4, choices=(3,))
    (balance,) = letter_balance(_references_at(run, np.array([0, 1, 0, 1, 0, 0, 1, 0])))
    assert balance.n_choices == 3
    assert [share.value for share in balance.shares] == [5 / 8, 3 / 8, 0]
    assert balance.balanced_share == 1 / 3
    assert {share.n for share in balance.shares} == {8}


@pytest.mark.slow
@pytest.mark.parametrize("choices", [(2,), (2, 6)])
def test_balanced_references_are_balanced_whatever_the_mix_of_answers(
    choices: tuple[int, ...],
) -> None:
    """At simultaneous 95% intervals, chance shows an imbalance in at most 5% of the draws."""
    draws = [letter_balance(_balanced(seed, choices=choices)) for seed in range(_DRAWS)]
    shown = [any(balance.unbalanced for balance in draw) for draw in draws]
    assert shown.count(True) <= 0.05 * _DRAWS


def test_half_of_the_references_at_a_are_unbalanced_where_a_is_not_half_of_the_answers() -> None:
    comparison = compare_remedies(
        planted_run(np.random.default_rng(4), k=1, share_at_a=0.5, choices=(2, 4)),
        rng=np.random.default_rng(0),
        resamples=100,
    )
    two, four = comparison.letter_balance
    assert two.unbalanced == ()
    assert 0 in four.unbalanced
    assert comparison.balance == "unbalanced"
    assert_says(balance_sentence(comparison), "shown not to be", "A is right", "25.0% if balanced")


def test_balanced_references_of_several_numbers_of_answers_are_called_balanced() -> None:
    comparison = compare_remedies(
        _balanced(3, choices=(2, 5)), rng=np.random.default_rng(0), resamples=100
    )
    assert comparison.balance == "balanced"
    assert_says(balance_sentence(comparison), "No imbalance is shown")
