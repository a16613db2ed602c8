"""Plans: what is read, and every problem of a file in one list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import refuser
from experiments.plans import COMMAND, opened, write_plan
from messages import assert_says

from pact_cli.main import main
from pact_eval.errors import PlanError
from pact_eval.experiments.command_template import CommandTemplate
from pact_eval.experiments.plan import parse_plan

refused = refuser(main)

WRONG = """
[data]
folder = 3
selct = 2
checks = ["schema", "speling"]
[model]
base = ""
dtype = "float8"
[train]
command = "python train.py {arm} {sed} --out {out}"
timeout = -1
gpus = -1
cpus = 0
[arms]
base = {}
"my arm" = { sett = {}, ablation = "yes" }
swept = { set = { learning_rate = [1e-5, {}], rank = [8, 8], empty = [] } }
[seeds]
main = [17, 17]
[judge]
k = 0
method = "mine"
calibrator = "isotonic"
[extra]
"""

PROBLEMS = [
    "unknown key extra in the plan",
    'arms: expected letters, digits, _, . or - as the name of an arm, got "base"',
    'arms: expected letters, digits, _, . or - as the name of an arm, got "my arm"',
    "arms: my arm: unknown key sett in an arm; did you mean set?",
    "arms: my arm: expected ablation as true or false",
    "arms: swept: set: expected learning_rate as text, a finite number or true/false, or a list",
    "arms: swept: set: rank names 8 twice",
    "arms: swept: set: expected empty as text, a finite number or true/false, or a list",
    "seeds: main names 17 twice",
    "data: expected checks, one of hashes, schema, families",
    "data: unknown key selct in data; did you mean select?",
    'data: expected folder, a path such as "data", got 3',
    "model: expected base",
    "model: expected dtype, one of",
    "train: command: unknown placeholder {sed}; did you mean {seed}?",
    "train: command: unknown placeholder {out}",
    "train: command: expected the placeholder {adapter}",
    "train: expected timeout as a number above 0, got -1",
    "train: expected cpus as an integer of at least 1, got 0",
    "train: expected gpus as an integer of at least 0, got -1",
    "judge: method: no arm is called mine",
    "judge: expected k as an integer of at least 1, got 0",
    "judge: expected calibrator, one of auto, scalar, per-kind, contextual",
]


def test_every_problem_of_a_plan_is_in_one_list() -> None:
    _, problems = parse_plan(WRONG, Path("plan.toml"))
    messages = [str(problem) for problem in problems]
    for problem in PROBLEMS:
        assert any(message.startswith(problem) for message in messages), problem
    assert len(messages) == len(PROBLEMS)


def test_a_value_is_one_word_whatever_is_in_it() -> None:
    command = CommandTemplate.parse("train '{settings}' --out={adapter} '{{x}}'")
    values = {"settings": '{"a": "b c; rm"}', "adapter": "my folder"}
    assert command.filled(values) == ("train", '{"a": "b c; rm"}', "--out=my folder", "{x}")


@pytest.mark.parametrize(
    "text", ["", "train 'open", "train {open", "train close}", "train {seed!r}", "train {seed:>3}"]
)
def test_a_command_that_cannot_be_divided(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        CommandTemplate.parse(text)


def test_missing_files_are_all_named(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, hypotheses=True, command=COMMAND.replace("python", "no-python"))
    for name in ("train.py", "hypotheses.toml", "base"):
        (tmp_path / name).unlink()
    text = refused("experiment", plan, code=2)
    for name in ("hypotheses.toml", "base", "train.py", "no-python"):
        assert name in text
    assert not (tmp_path / "plan").exists()


def test_splits_that_share_a_source_family(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    lines = (tmp_path / "data/train.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "data/selection.jsonl").write_bytes(lines[0])
    (tmp_path / "data/calibration.jsonl").write_bytes(lines[-1])
    with pytest.raises(PlanError) as error:
        opened(plan)
    pairs = str(error.value).splitlines()
    first, last = (json.loads(line)["source_family"] for line in (lines[0], lines[-1]))
    assert len(pairs) == 2
    assert_says(pairs[0], "train.jsonl", "selection.jsonl", "1 source family")
    assert pairs[0].endswith(first)
    assert pairs[1].endswith(last)


def test_one_split_alone_is_a_problem(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    (tmp_path / "data/train.jsonl").rename(tmp_path / "data/selection.jsonl")
    with pytest.raises(PlanError) as error:
        opened(plan)
    assert "role train" in str(error.value)
    assert_says(error.value, "selection", "calibration", "or neither")


def test_trainings_of_several_arms_have_names_of_their_own(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, arms=("a = {}", "a- = {}"))
    opened(plan)
    plan.write_text(plan.read_text().replace("[17]", "[7, -7]"))
    with pytest.raises(PlanError, match="a, a- are both named a--7; rename an arm"):
        opened(plan)
