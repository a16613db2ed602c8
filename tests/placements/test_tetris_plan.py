"""The plan of the trainings of Tetris: what docs/tetris.md says of it, and a small run of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import runner

from pact_cli.main import main
from pact_eval.data.files import ROLES
from tetris.record import Recording, record_games

PLAN = Path(__file__).parents[2] / "examples" / "tetris_plan.toml"
ARM = "imitation-then-reinforce = { set = { imitation = 1, updates = 1, moves = 3 } }"


@pytest.mark.slow
def test_a_small_run_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_games(tmp_path / "data", Recording(12, 4, 0.2, "bag", 3), ROLES)
    text = PLAN.read_text("utf-8")
    text = text.replace("../runs/tetris-data", "data").replace("17, 18, 19", "17")
    text = text.replace("../fixtures", str(PLAN.parents[1] / "fixtures"))
    before, _, after = text.partition("[arms]")
    plan = tmp_path / "plan.toml"
    plan.write_text(f"{before}[arms]\n{ARM}\n{after[after.index('[seeds]') :]}", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(PLAN.parent))  # it runs where the package is
    run = runner(main)("experiment", plan, "--stage", "calibrate", "--json")
    steps = {step["step"]: step for step in json.loads(run.stdout)["steps"]}
    assert {step["state"] for step in steps.values()} == {"done"}
    logged = (tmp_path / "plan/adapters/imitation-then-reinforce-17/log.jsonl").read_text("utf-8")
    assert [json.loads(line)["step"] for line in logged.splitlines()] == [1, 2]
    run_folder = tmp_path / "plan/runs/imitation-then-reinforce-17"
    assert (run_folder / "calibration.json").is_file()
