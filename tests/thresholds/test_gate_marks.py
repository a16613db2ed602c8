"""Chosen gates on runs of their model, as their file has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from messages import assert_says
from thresholds.simulated import run

from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.thresholds.checking import gate_marks
from pact_eval.thresholds.choice import choose_thresholds
from pact_eval.thresholds.files import read_thresholds
from pact_eval.thresholds.gates import Target

COSTS = Target.of_costs(wrong=8, review=1)


def experiment(folder: Path) -> Experiment:
    return Experiment.read([folder], Settings(resamples=200))


def test_chosen_gates_are_marked_on_runs_of_their_model(tmp_path: Path) -> None:
    march, april = (run(tmp_path / name, seed, skill=3.5) for name, seed in (("m", 1), ("a", 2)))
    chosen = choose_thresholds(march, COSTS)
    files = [read_thresholds(chosen.write(tmp_path / "thresholds.json"))]
    ((own,), ((_, note),)) = gate_marks(experiment(march), files)
    assert (own.accepted, own.error) == (chosen.gates[0].coverage, chosen.gates[0].same_items_error)
    assert own.own_families == 300
    assert_says(note, "chosen on 300", "families")
    ((new,), notes) = gate_marks(experiment(april), files)
    assert (new.own_families, notes) == (0, ())
    other = run(tmp_path / "other", 3, adapter={"sha256": "b" * 64})
    marks, ((_, note),) = gate_marks(experiment(other), files)
    assert marks == ()
    assert_says(note, "no run", "its model")


def test_a_review_is_cheaper_than_a_wrong_decision() -> None:
    with pytest.raises(InputError, match="0 < review < wrong"):
        Target.of_costs(wrong=1, review=2)
