"""Arms with a built-in recipe: what their plan may say, their steps, and one that runs."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
from commands import runner
from experiments.plans import started, wait_until, write_data
from messages import assert_says
from training.recipe_bases import write_base

from pact_cli.main import main
from pact_eval.errors import PlanError
from pact_eval.experiments.steps import open_experiment

run = runner(main)

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
        open_experiment(plan)
    assert error.value.exit_code == 2
    return [problem.message for problem in error.value.problems]


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
@pytest.mark.posix
def test_a_recipe_is_trained_killed_repeated_and_scored(tmp_path: Path) -> None:
    """The adapter is that of an undisturbed training, and a repeated command does nothing."""
    few = "epochs = 8, dropout = 0.1, checkpoint_seconds = 0"
    arms = f'ce = {{ recipe = "cross_entropy", set = {{ {few} }} }}'
    weights = []
    for name in ("undisturbed", "killed"):
        plan = write_recipe_plan(tmp_path / name, arms)
        (plan.parent / "base").rmdir()
        write_base(plan.parent / "base")
        adapter = plan.with_suffix("") / "adapters/ce-17"
        if name == "killed":
            driver = started(plan, "--stage", "train")
            wait_until((adapter / "checkpoint.pt").exists)
            processes = psutil.Process(driver.pid).children(recursive=True)
            for process in [*processes, driver]:
                process.kill()
            driver.wait()
            assert not (adapter / "training.json").exists()
        run("experiment", plan, "--stage", "calibrate")
        weights.append((adapter / "adapter_model.safetensors").read_bytes())
        assert (plan.with_suffix("") / "runs/ce-17/predictions.parquet").exists()
    assert weights[0] == weights[1]
    steps = json.loads(run("experiment", plan, "--stage", "calibrate", "--json").stdout)["steps"]
    assert {step["state"] for step in steps} == {"up to date"}
