"""Arms with a built-in recipe: what their plan may say, their steps, and one that runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from experiments.plans import FIXTURES, opened, write_data
from messages import assert_says
from training.recipe_bases import write_base

from pact_eval.errors import PlanError
from pact_eval.experiments.running import run
from pact_eval.experiments.selection import read_selection

PLAN = """
[data]
folder = "data"
ablated = false
select = 1
calibrate = 1
{data}
[model]
base = "base"
{model}
[arms]
{arms}
[seeds]
main = [17]
[judge]
k = 1
"""


def write_recipe_plan(folder: Path, arms: str, *, data: str = "", model: str = "") -> Path:
    """Write a plan without a trainer, and its data; the base is a name."""
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder / "data")
    (folder / "base").mkdir()
    plan = folder / "plan.toml"
    plan.write_text(PLAN.format(arms=arms, data=data, model=model))
    return plan


def problems_of(plan: Path) -> list[str]:
    with pytest.raises(PlanError) as error:
        opened(plan)
    assert error.value.exit_code == 2
    return [problem.message for problem in error.value.problems]


def test_layers_and_families_that_do_not_exist_are_problems_of_the_plan(tmp_path: Path) -> None:
    arms = """
fits = { recipe = "pact", set = { targets = "q_proj, self_attn.v_proj", train_families = 6 } }
misspelt = { recipe = "pact", set = { targets = "q_proj, v_prj" } }
large = { recipe = "pact", set = { train_families = [6, 7] } }
absent = { recipe = "pact", set = { selection_source_families = "commerce-01, media-03" } }
"""
    plan = write_recipe_plan(tmp_path, arms)
    (tmp_path / "base").rmdir()
    (tmp_path / "base").symlink_to(FIXTURES / "model")
    problems = problems_of(plan)
    assert len(problems) == 3
    assert_says(problems[0], "arms: misspelt: targets", "layers of base", "got v_prj", "v_proj?")
    # Four source families of three families each; one is for selection, one for calibration.
    assert_says(problems[1], "arms: large: train_families: ", "at most 6, ", "to train on, got 7")
    assert_says(problems[2], "arms: absent: selection_source_families", "(commerce-01)", "media-03")


def test_an_arm_without_recipe_or_trainer_is_named(tmp_path: Path) -> None:
    arms = 'pact = { recipe = "pact" }\nmine = {}'
    (problem,) = problems_of(write_recipe_plan(tmp_path, arms))
    assert_says(problem, "train: expected command", "recipe", "mine")


@pytest.mark.parametrize(
    ("arm", "place", "remedy"),
    [
        ('recipe = "pakt"', "arms: a: expected recipe", "did you mean pact?"),
        ("recipe = 1", "arms: a: expected recipe", "got 1"),
        ('recipe = "pact", set = { counterfactal = 0.0 }', "arms: a: set: unknown setting",
         "did you mean counterfactual?"),
        ('recipe = "pact", set = { epochs = 1.5 }', "arms: a: set: expected epochs",
         "an integer of at least 1, got 1.5"),
        ('recipe = "pact", set = { permuted_views = true }', "arms: a: set: expected permuted",
         "got true/false"),
        ('recipe = "pact", set = { learning_rate = -1.0 }', "arms: a: set: expected learning_rate",
         "a number of 0 or more, got -1.0"),
        ('recipe = "pact", set = { quantize = "int8" }', "arms: a: set: expected quantize", "nf4"),
    ],
)  # fmt: skip
def test_recipes_and_settings_that_do_not_exist_are_problems_of_the_plan(
    tmp_path: Path, arm: str, place: str, remedy: str
) -> None:
    (problem,) = problems_of(write_recipe_plan(tmp_path, f"a = {{ {arm} }}"))
    assert problem.startswith(place)
    assert remedy in problem


@pytest.mark.slow
def test_an_experiment_trains_and_tunes_its_recipe_and_judges_it(tmp_path: Path) -> None:
    """The adapter of a recipe records its selection split, which chooses among candidates too."""
    few = "epochs = 1, dropout = 0.0, learning_rate = [1e-4, 1e-3]"
    arms = f'ce = {{ recipe = "cross_entropy", set = {{ {few} }} }}'
    plan = write_recipe_plan(tmp_path, arms)
    (tmp_path / "base").rmdir()
    write_base(tmp_path / "base")
    outcome = run(opened(plan, arm="ce", stage="calibrate"))
    assert outcome.exit_code == 0, [step for step in outcome.steps if step.state == "failed"]
    folder = plan.with_suffix("")
    chosen = read_selection(folder / "selected/ce.json").chosen
    name = "ce-17" + chosen.label.removeprefix("ce")
    card = json.loads((folder / "adapters" / name / "training.json").read_text("utf-8"))
    assert card["steps"] == 2
    assert (folder / "runs/ce-17/predictions.parquet").exists()
    again = run(opened(plan, arm="ce", stage="calibrate"))
    assert {step.state for step in again.steps} == {"up to date"}
