"""Ties between answers: shares of a choice by hand, and nothing concluded from a convention."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pact_eval.evaluation.conclusions.order import Ties
from pact_eval.evaluation.experiment import Experiment
from pact_eval.importing.import_run import import_run

Probabilities = Callable[[int, list[int]], Sequence[float]]
"""Canonical probabilities of an item in a view, by its number and the answer at each letter."""


def experiment_of(folder: Path, probabilities: Probabilities, items: int = 60) -> Experiment:
    orders = [[*range(view, 4), *range(view)] for view in range(4)]
    rows = [
        {
            "id": f"q{item}",
            "reference": item % 4,
            "view": view,
            "code_order": order,
            "probabilities": [*probabilities(item, order)],
        }
        for item in range(items)
        for view, order in enumerate(orders)
    ]
    log = folder / "rows.jsonl"
    log.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    import_run(log, folder / "run", {})
    return Experiment.read([folder / "run"])


def first_two(_item: int, order: list[int]) -> list[float]:
    """The first two letters are equally probable, whatever they show."""
    return [0.4 if order.index(answer) < 2 else 0.1 for answer in range(4)]


def test_letters_that_tie_share_what_is_chosen(tmp_path: Path) -> None:
    experiment = experiment_of(tmp_path, first_two)
    order = experiment.order(experiment.runs[0])
    preferences = {slot.slot: slot.preference.value for slot in order.followed}
    assert order.status == "follows a letter"
    assert preferences == {0: 0.25, 1: 0.25, 2: -0.25, 3: -0.25}
    letters = experiment.evaluation(experiment.runs[0]).letters
    assert letters is not None
    assert letters.observed.tolist() == [120, 120, 0, 0]
    assert letters.units == 240


def test_views_that_all_tie_tell_nothing_of_the_order(tmp_path: Path) -> None:
    experiment = experiment_of(tmp_path, lambda _item, _order: [0.25] * 4)
    order = experiment.order(experiment.runs[0])
    assert (order.status, order.tone) == ("cannot tell", "open")
    assert order.reason == "every answer is a tie: no letter is the most probable one"
    assert order.ties == Ties(tied=240, views=240, changed=0.0, unchanged=1.0)


@pytest.mark.parametrize("noise", [0.0, 1e-16, 1e-13])
def test_a_tie_that_rounding_breaks_is_a_tie(tmp_path: Path, noise: float) -> None:
    """Answers within 1e-12 of each other are one tie, as everywhere in this package."""
    rng = np.random.default_rng(1)

    def nearly(_item: int, _order: list[int]) -> list[float]:
        return [0.25 + noise * sign for sign in rng.choice([-0.5, 0.5], size=4)]

    experiment = experiment_of(tmp_path, nearly)
    assert experiment.order(experiment.runs[0]).status == "cannot tell"


@pytest.mark.parametrize(("tied", "status"), [(3, "stable"), (30, "cannot tell")])
def test_few_ties_leave_a_conclusion(tmp_path: Path, tied: int, status: str) -> None:
    """Of 120 items, the others give one answer in every order."""

    def mostly(item: int, _order: list[int]) -> list[float]:
        if item < tied:
            return [0.4, 0.4, 0.1, 0.1]
        return [0.7 if answer == item % 4 else 0.1 for answer in range(4)]

    experiment = experiment_of(tmp_path, mostly, items=120)
    order = experiment.order(experiment.runs[0])
    assert order.status == status
    assert order.ties == Ties(4 * tied, 480, 0.0, tied / 120)
    if status == "cannot tell":
        assert order.reason == "ties: 120 of 480 answers have several most probable letters"
