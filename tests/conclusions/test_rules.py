"""Rules of better runs at their limits, against planted runs and undefined differences."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from conclusions.agreement import Surfaces
from conclusions.planted import Plan
from messages import assert_says
from run_frames import rows, write_run

from pact_cli.main import main
from pact_eval.evaluation.conclusions.better import concluded
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.stats.estimate import ClusterText, Estimate


def test_the_adjustment_is_named_if_it_takes_a_mark_away(tmp_path: Path) -> None:
    """An interval without 0 that is not shown says why; with one view, it is shown."""
    folders = Plan(skill=1.8).write(tmp_path / "a", 100), Plan().write(tmp_path / "b", 200)
    (adjusted,) = Experiment.read(folders, Settings(resamples=500)).comparisons.better_runs
    claim = adjusted.claims[0]
    assert claim.difference.excludes_zero
    assert adjusted.status == "not shown"
    p_values = [claim.evidence.p_value for claim in adjusted.of("accuracy")]
    assert 0.025 < min(p_values) < 0.05
    assert claim.evidence.deciding == pytest.approx(2 * min(p_values))
    assert_says(adjusted.words.finding, "No accuracy difference shown (p = ", "adjusted)")
    assert "for 2 tests (Holm)" in adjusted.words.numbers
    assert_says(adjusted.words.numbers, "(first order, not shown after adjustment, p = ")


def test_an_undefined_difference_has_a_reason(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, rows(at), arm=name) for at, name in enumerate("ab")]
    experiment = Experiment.read(runs, Settings(resamples=200))
    claims = experiment.comparisons.better_runs[0].claims
    reason = ClusterText("no {cluster} is left")
    nothing = Estimate(math.nan, math.nan, math.nan, 0, 0, None, reason)
    conclusion = concluded(("a", "b"), [replace(claims[0], difference=nothing), *claims[1:]])
    assert (conclusion.status, conclusion.reason) == ("cannot be compared", "no family is left")
    assert_says(conclusion.words, "a and b", "cannot be compared", "no family is left")


def test_one_planted_family_is_counted_in_the_singular_and_detects_nothing(tmp_path: Path) -> None:
    one = Plan(families=1)
    runs = [one.write(tmp_path / name, seed) for seed, name in enumerate("ab", 3)]
    result = CliRunner().invoke(main, ["compare", *map(str, runs), "--resamples", "100"])
    assert result.exit_code == 0, result.output
    assert "of 2 items in 1 group that belongs together" in " ".join(result.output.split())
    assert "Smallest difference" not in result.output


@pytest.mark.parametrize(
    ("plan", "stated"),
    [
        (Plan(families=30), True),
        (Plan(families=29), False),
        (Plan(families=100, sizes=(40, *(1,) * 99)), False),  # worth 11 of one size
    ],
)
def test_power_is_stated_of_families_that_are_worth_thirty_by_kish(
    tmp_path: Path, plan: Plan, stated: bool
) -> None:
    folders = [plan.write(tmp_path / name, seed) for seed, name in enumerate("ab", 3)]
    surfaces = Surfaces(Experiment.read(folders, Settings(resamples=100)))
    (conclusion,) = surfaces.comparison["answer"]["better"]
    assert conclusion["status"] == "not shown"
    assert (conclusion["detectable"] is not None, conclusion["needed"] is not None) == (stated,) * 2
    brief, full = surfaces.comparison_texts
    for text in (brief, full):
        assert ("Detectable here: " in text) == stated
    assert ("Detectable here: " in surfaces.page) == stated
