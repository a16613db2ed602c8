"""Plans: what is read, and every problem of a file in one list."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from commands import refuser
from experiments.plans import COMMAND, HYPOTHESES, write_plan
from messages import assert_says

from pact_cli.main import main
from pact_eval.errors import PlanError
from pact_eval.experiments.plan import fill, parse_plan
from pact_eval.experiments.steps import open_experiment
from pact_eval.preregistration.registration import register

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
odd = { set = { rank = [8, 16], date = 2026-01-05, most = inf } }
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
    "arms: odd: set: expected rank as text, a finite number or true/false, got a list",
    "arms: odd: set: expected date as text, a finite number or true/false, got a date",
    "arms: odd: set: expected most as text, a finite number or true/false, got inf",
    "seeds: main names 17 twice",
    "data: expected checks, one of hashes, schema, questions",
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
    "judge: expected calibrator, one of auto, scalar, per-kind, per-question, contextual",
]


def test_every_problem_of_a_plan_is_in_one_list() -> None:
    _, problems = parse_plan(WRONG, Path("plan.toml"))
    messages = [str(problem) for problem in problems]
    for problem in PROBLEMS:
        assert any(message.startswith(problem) for message in messages), problem
    assert len(messages) == len(PROBLEMS)


def test_a_value_is_one_word_whatever_is_in_it() -> None:
    values = {"settings": '{"a": "b c; rm"}', "adapter": "my folder"}
    filled = fill(("train", "{settings}", "--out={adapter}", "{{x}}"), values)
    assert filled == ("train", '{"a": "b c; rm"}', "--out=my folder", "{x}")


@pytest.mark.parametrize(
    "text",
    ["'", "{adapter} 'open", "{adapter} {open", "{adapter} }", "{adapter!r}", "{adapter:>3}"],
)
def test_a_command_that_cannot_be_divided(text: str) -> None:
    _, problems = parse_plan(f'train = {{ command = """train {text}""" }}', Path("plan.toml"))
    assert any(str(problem).startswith("train: command: ") for problem in problems)


@pytest.mark.parametrize("letters", [1 << 15, 10_000_000])
def test_a_long_command_is_refused_before_it_takes_minutes(letters: int) -> None:
    """The time of `shlex` grows with the square of the length of a word: 400,000 letters, 4 s."""
    _, problems = parse_plan(f"train = {{ command = '{'x' * letters}' }}", Path("plan.toml"))
    long = [str(problem) for problem in problems if "characters" in str(problem)]
    assert len(long) == (letters > 1 << 15)
    assert all(f"got {letters:,}" in message for message in long)


def test_settings_that_the_trainer_would_not_get_are_a_problem(tmp_path: Path) -> None:
    command = COMMAND.replace("--settings {settings}", "")
    plan = write_plan(tmp_path, arms=("mine = { set = { rank = 8 } }",), command=command)
    with pytest.raises(PlanError, match="arms: mine: the trainer does not get set"):
        open_experiment(plan)


def test_missing_files_are_all_named(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, hypotheses=True, command=COMMAND.replace("python", "no-python"))
    for name in ("train.py", "hypotheses.toml", "base"):
        (tmp_path / name).unlink()
    text = refused("experiment", plan, code=2)
    for name in ("hypotheses.toml", "base", "train.py", "no-python"):
        assert name in text
    assert not (tmp_path / "plan").exists()


def test_one_split_alone_is_a_problem(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    (tmp_path / "data/train.jsonl").rename(tmp_path / "data/selection.jsonl")
    with pytest.raises(PlanError) as error:
        open_experiment(plan)
    assert "role train" in str(error.value)
    assert_says(error.value, "selection", "calibration", "or neither")


def test_trainings_of_several_arms_have_names_of_their_own(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, arms=("a = {}", "a- = {}"))
    open_experiment(plan)
    plan.write_text(plan.read_text().replace("[17]", "[7, -7]"))
    with pytest.raises(PlanError, match="a, a- are both named a--7; rename an arm"):
        open_experiment(plan)


@pytest.mark.parametrize("name", ["data.toml", "base.toml"])
def test_the_folder_of_the_data_or_the_base_is_not_that_of_an_experiment(
    tmp_path: Path, name: str
) -> None:
    plan = write_plan(tmp_path).rename(tmp_path / name)
    assert "--out" in refused("experiment", plan, code=1)
    assert open_experiment(plan, folder=tmp_path / "out").steps


def test_other_criteria_or_data_than_the_registered_ones_are_refused(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, arms=("mine = {}", "weak = {}"), hypotheses=True)
    hypotheses, holdout = tmp_path / "hypotheses.toml", tmp_path / "data/holdout.jsonl"
    now = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    register(hypotheses, data=[holdout, tmp_path / "data/train.jsonl"], now=now)
    lock = (tmp_path / "hypotheses.lock").read_bytes()
    assert open_experiment(plan).steps
    text, lines = hypotheses.read_text(), holdout.read_bytes()
    hypotheses.write_text(HYPOTHESES.format(points=1))
    assert "by_more_than" in refused("experiment", plan, code=5)
    hypotheses.write_text(text)
    holdout.write_bytes(b"".join(lines.splitlines(keepends=True)[:-2]))
    assert "holdout.jsonl: changed since" in refused("experiment", plan, code=5)
    assert (tmp_path / "hypotheses.lock").read_bytes() == lock
    (tmp_path / "hypotheses.lock").write_text("{")
    assert "lock is broken" in refused("experiment", plan, code=5)
