"""What a step has for itself on a Ray cluster, and the option for one; no cluster is needed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from commands import refuser, runner
from experiments.plans import opened, write_plan
from messages import assert_says

from pact_cli.main import main
from pact_eval.experiments.plan import Reserved, parse_plan

run, refused = runner(main), refuser(main)


def test_without_ray_the_message_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    text = refused("experiment", write_plan(tmp_path), "--ray", "auto")
    assert_says(text, "pip install", ".[model,ray]")


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:9", "nothing answers"), ("ray://head:10001", "--ray auto")],
)
def test_an_address_without_a_cluster(tmp_path: Path, address: str, expected: str) -> None:
    plan = write_plan(tmp_path)
    assert_says(refused("experiment", plan, "--ray", address), f"--ray {address}", expected)
    assert not (tmp_path / "plan/receipts").exists()


def test_slots_and_ray_exclude_each_other(tmp_path: Path) -> None:
    text = refused("experiment", write_plan(tmp_path), "--ray", "auto", "--slots", 2, code=2)
    assert_says(text, "--slots", "--ray", "cpus and gpus in [train] and [model]")


def test_a_dry_run_connects_to_no_cluster(tmp_path: Path) -> None:
    words = ("experiment", write_plan(tmp_path), "--dry-run", "--ray", "127.0.0.1:9", "--json")
    value = json.loads(run(*words).stdout)
    assert (value["ray"], value["slots"]) == ("127.0.0.1:9", None)
    assert {step["state"] for step in value["steps"]} == {"to do"}


@pytest.mark.parametrize(
    ("tables", "has_gpus", "train", "score"),
    [
        ("", False, (1, 0), (1, 0)),
        ("", True, (1, 1), (1, 1)),
        ("[train]\ngpus = 2\ncpus = 8", True, (8, 2), (1, 1)),
        ('[model]\ndevice = "cpu"\ncpus = 4', True, (1, 1), (4, 0)),
        ("[model]\ngpus = 1", False, (1, 0), (1, 1)),
    ],
)
def test_what_a_step_has_for_itself(
    tmp_path: Path,
    tables: str,
    has_gpus: bool,
    train: tuple[int, int],
    score: tuple[int, int],
) -> None:
    path = write_plan(tmp_path)
    table = tables.partition("\n")[0]
    path.write_text(path.read_text().replace(table, tables) if table else path.read_text())
    plan = opened(path, ray="auto").plan
    for stage, expected in (("train", train), ("score", score), ("calibrate", (1, 0))):
        reserved = plan.reserved(stage, has_gpus=has_gpus)  # type: ignore[arg-type]
        assert (reserved.cpus, reserved.gpus) == expected


def test_a_training_with_a_recipe_has_what_the_plan_says() -> None:
    """A plan of recipes has a table `train` without a command."""
    text = """
[train]
timeout = 60
cpus = {cpus}
gpus = 4
[arms]
pact = {{ recipe = "pact" }}
"""
    plan, _ = parse_plan(text.format(cpus=8), Path("plan.toml"))
    assert plan.reserved("train", has_gpus=True) == Reserved(8, 4)
    _, problems = parse_plan(text.format(cpus=0), Path("plan.toml"))
    (cpus,) = (str(problem) for problem in problems if "cpus" in str(problem))
    assert_says(cpus, "train: expected cpus", "at least 1", "got 0")
