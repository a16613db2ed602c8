"""Costs: hours by hand computation from planted times, and times that are really measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import runner
from experiments.plans import opened, write_plan
from messages import assert_says

from pact_cli.main import main
from pact_eval._json import Json
from pact_eval.experiments.costs import (
    Measured,
    arm_facts,
    elapsed_seconds,
    plan_facts,
    read_measured,
)
from pact_eval.experiments.measuring import measure
from pact_eval.experiments.plan import check_plan
from pact_eval.experiments.steps import Step

run = runner(main)

ARMS = ("mine = {}", "other = { set = { scale = 0.1 } }")


def trained(start: float, per_step: float, further: int) -> dict[str, Json]:
    return {"start_seconds": start, "seconds_per_step": per_step, "further_steps": further}


def window(k: str, start: float, per_record: float) -> dict[str, Json]:
    return {k: {"start_seconds": start, "seconds_per_record": per_record}}


def plant(plan: Path, folder: Path, arms: dict[str, dict[str, Json]], **changes: object) -> None:
    """Write measured times of a plan as if its arms had been measured."""
    parsed, _ = check_plan(plan)
    facts: dict[str, Json] = {arm.name: arm_facts(arm) for arm in parsed.arms}
    measured = Measured(
        processor="Test Processor",
        versions={},
        plan=plan_facts(parsed),
        records={"holdout": 24, "ablated": 24, "calibration": 10},
        arms={name: {"arm": facts.get(name), **times} for name, times in arms.items()},
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "measured.json").write_text(json.dumps(measured.to_json() | changes))


def planted(tmp_path: Path) -> Path:
    """Trainings of 170 and 100 s; scorings of 17 (base), 18 (holdout) and 11 s (calibration)."""
    plan = write_plan(tmp_path, arms=ARMS)
    plant(
        plan,
        tmp_path / "plan",
        {
            "base": {"scoring": window("2", 5, 0.5)},
            "mine": {"training": trained(20, 1.5, 100), "scoring": window("2", 6, 0.5)},
            "other": {"training": trained(10, 1, 90), "scoring": window("2", 6, 0.5)},
        },
    )
    return plan


def cost_of(*words: object) -> dict[str, object]:
    cost = json.loads(run("experiment", *words, "--dry-run", "--json").stdout)["cost"]
    assert isinstance(cost, dict)
    return cost


@pytest.mark.parametrize(
    ("slots", "seconds"),
    [
        (1, 17 + 170 + 18 + 11 + 100 + 18 + 11),
        # base to 17, other to 117, 135 and 146; mine from 0 to 170, then its two scorings at once.
        (2, 170 + 18),
        # All at once: mine again.
        (3, 170 + 18),
    ],
)
def test_hours_by_hand(tmp_path: Path, slots: int, seconds: float) -> None:
    cost = cost_of(planted(tmp_path), "--slots", slots)
    assert cost["seconds"] == seconds
    assert cost["seconds_by_stage"] == {"train": 270, "score": 17 + 4 * 14.5}
    assert cost["not_measured"] == {}


def test_what_is_not_measured_is_named_and_the_rest_is_a_bound(tmp_path: Path) -> None:
    plan = planted(tmp_path)
    value = json.loads((tmp_path / "plan/measured.json").read_text())
    value["arms"]["other"]["training"] = "the trainer ended with 7"
    (tmp_path / "plan/measured.json").write_text(json.dumps(value))
    cost = cost_of(plan)
    assert cost["not_measured"] == {"other": "the trainer ended with 7"}
    assert cost["seconds"] == 345 - 100
    text = run("experiment", plan, "--dry-run").stdout
    assert "at least 4 min" in text
    assert_says(text, "other: ", "ended with 7")


def test_times_of_other_settings_do_not_count(tmp_path: Path) -> None:
    plan = planted(tmp_path)
    text = plan.read_text()
    plan.write_text(text.replace("scale = 0.1", "scale = 0.2"))
    assert [*cost_of(plan)["not_measured"]] == ["other"]  # type: ignore[misc]
    plan.write_text(text.replace("--arm {arm}", "--arm={arm}"))
    assert {*cost_of(plan)["not_measured"]} == {"base", "mine", "other"}  # type: ignore[misc]
    plan.write_text(text.replace("k = 2", "k = 4"))
    assert "no scoring with 4 views" in str(cost_of(plan)["not_measured"])


def test_a_chain_takes_as_long_as_its_steps() -> None:
    steps = [
        Step("a", "train", (), (), (), ()),
        Step("b", "score", (), ("a", "done before"), (), ()),
        Step("c", "train", (), (), (), ()),
    ]
    seconds = {"a": 3.0, "b": 4.0, "c": 5.0}
    assert elapsed_seconds(steps, lambda step: seconds[step.name], 2) == 7
    # One slot: c was ready before b, but b comes first in order.
    assert elapsed_seconds(steps, lambda step: seconds[step.name], 1) == 12
    assert elapsed_seconds(steps, lambda step: seconds[step.name], 0) == 7


LOGGING = """
import json, pathlib, sys, time
out = pathlib.Path(sys.argv[2])
out.mkdir(parents=True)
steps = {} if sys.argv[1] == "untold" else {"steps": 1000}
with (out / "log.jsonl").open("w") as file:
    if sys.argv[1] == "silent":
        time.sleep(600)
    for step in range(1, 1001):
        time.sleep(0.05)
        file.write(json.dumps({"step": step, **steps}) + "\\n")
        file.flush()
        if sys.argv[1] == "fails" and step == 5:
            sys.exit(7)
"""


@pytest.mark.slow
@pytest.mark.posix
def test_ten_steps_of_each_trainer_are_measured(tmp_path: Path) -> None:
    names = ("logs", "untold", "silent", "fails")
    arms = [f"{name} = {{}}" for name in names]
    plan = write_plan(tmp_path, arms=arms, command="python log.py {arm} {adapter}")
    (tmp_path / "log.py").write_text(LOGGING)
    outcome = measure(opened(plan), longest_seconds=40)
    measured = read_measured(tmp_path / "plan/measured.json")
    assert measured is not None
    times = measured.arms["logs"]["training"]
    assert isinstance(times, dict)
    start, per_step = times["start_seconds"], times["seconds_per_step"]
    assert isinstance(start, float)
    assert isinstance(per_step, float)
    assert 0.045 <= per_step < 2  # the trainer sleeps for 0.05 s, and the log is read every 0.02 s
    assert times["further_steps"] == 999
    reasons = {name: str(measured.arms[name]["training"]) for name in names[1:]}
    assert "states steps" in reasons["untold"]
    assert "no two steps" in reasons["silent"]
    assert "exit code 7" in reasons["fails"]
    assert outcome.cost is not None
    assert {*outcome.cost.not_measured} == {*names[1:]}
    stages = outcome.cost.by_stage
    assert stages["train"] == pytest.approx(start + 999 * per_step)  # that of "logs" alone
    assert stages["score"] > 0
    assert outcome.cost.seconds == pytest.approx(stages["train"] + stages["score"])  # one slot
    assert measured.records["holdout"] == len(
        (tmp_path / "data/holdout.jsonl").read_bytes().splitlines()
    )
    assert not (tmp_path / "plan/measuring").exists()
    assert not (tmp_path / "plan/adapters/logs-17/log.jsonl").exists()
