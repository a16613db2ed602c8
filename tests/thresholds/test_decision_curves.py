"""Decision curves: costs by hand, chosen gates as their file has them, and what readers see."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import runner
from messages import assert_says
from thresholds.simulated import run

from pact_cli.main import main
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.thresholds.choice import choose_thresholds
from pact_eval.thresholds.decision_curves import Decisions, cost_curve, gate_marks
from pact_eval.thresholds.files import write_thresholds
from pact_eval.thresholds.gates import Target

COSTS = Target.of_costs(wrong=8, review=1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("runs")
    return {
        "march": run(home / "march", 1, skill=3.5),
        "april": run(home / "april", 2, skill=3.5),
        "other": run(home / "other", 3, adapter={"sha256": "b" * 64}),
        "silent": run(home / "silent", 4, unanswered=True),
    }


@pytest.fixture(scope="module")
def file(runs: dict[str, Path]) -> Path:
    path = runs["march"].parent / "thresholds.json"
    write_thresholds(path, choose_thresholds(runs["march"], COSTS))
    return path


def experiment(folder: Path) -> Experiment:
    return Experiment.read([folder], Settings(resamples=200))


def test_costs_by_hand(runs: dict[str, Path], file: Path) -> None:
    read = experiment(runs["april"])
    curve = cost_curve(read, read.runs[0], Decisions.of([file]))
    scored = read.runs[0].scored()
    for at in (0, 20, 150, len(curve.thresholds) - 1):
        accepted = scored.confidence >= curve.thresholds[at]
        cost = 8 * (accepted & ~scored.correct).mean() + (~accepted).mean()
        assert curve.cost[0][at] == pytest.approx(cost)
        assert curve.escalated[at] == pytest.approx((~accepted).mean())
        always = 8 * (~scored.correct).mean()
        assert curve.over_answering[0][at] == pytest.approx(always - cost)
        assert curve.over_asking[0][at] == pytest.approx(1 - cost)
        assert curve.cost[1].low[at] <= cost <= curve.cost[1].high[at]
    assert curve.escalated[curve.nearest(0.3)] == pytest.approx(0.3, abs=0.01)
    assert curve.chosen is not None
    decisions = Decisions.of([file])
    assert curve.thresholds[curve.chosen] == decisions.files[0].gates["all"]
    assert decisions.costs == COSTS


def test_items_without_an_answer_cost_a_review(runs: dict[str, Path]) -> None:
    read = experiment(runs["silent"])
    curve = cost_curve(read, read.runs[0], Decisions(costs=COSTS))
    wrong = (~read.runs[0].scored().correct).sum()
    assert curve.items == 600
    assert curve.escalated[0] == pytest.approx(0.1)
    assert curve.cost[0][0] == pytest.approx((8 * wrong + 60) / 600)
    assert curve.cost[0][-1] == 1
    assert curve.chosen is None


def test_chosen_gates_are_marked_on_runs_of_their_model(runs: dict[str, Path], file: Path) -> None:
    files = Decisions.of([file]).files
    (gate,) = choose_thresholds(runs["march"], COSTS).gates
    own = gate_marks(experiment(runs["march"]), files)
    assert (own.marks[0].accepted, own.marks[0].error) == (gate.coverage, gate.same_items_error)
    assert own.marks[0].own_families == 300
    assert_says(own.notes[0].text, "chosen on 300", "families")
    new = gate_marks(experiment(runs["april"]), files)
    assert new.marks[0].own_families == 0
    assert new.notes == ()
    other = gate_marks(experiment(runs["other"]), files)
    assert other.marks == ()
    assert_says(other.notes[0].text, "no run", "its model")


def test_costs_are_asked_for(runs: dict[str, Path], tmp_path: Path) -> None:
    figures = runner(main, "paper")
    only = ("--figures", "costs", "--out", tmp_path)
    assert "no costs were given" in figures(runs["april"], *only, code=1).stderr
    assert "costs" in figures(runs["april"], *only, "--cost-wrong", 2).stdout
    with pytest.raises(InputError, match="0 < review < wrong"):
        Decisions.of([], wrong=1, review=2)
