"""Tuned arms: candidates, the choice among them, and what the report says of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from commands import refuser, runner
from experiments.plans import opened, write_plan
from run_frames import edit_run, frame_of, write_run

from pact_cli.main import main
from pact_eval._json import Json
from pact_eval.errors import InputError, PlanError
from pact_eval.experiments.plan import parse_plan
from pact_eval.experiments.selection import read_selection, select, write_selection
from pact_eval.training.recipes import as_words, parse_words

run, refused = runner(main), refuser(main)

RANKS: dict[str, Json] = {"rank": [8, 16], "epochs": 2}


def scored(
    folder: Path, label: str, seed: int, sure: list[float], role: str | None = "selection"
) -> Path:
    """A run whose items have these probabilities of the right answer, of two."""
    logits = [[math.log(p) if p else -math.inf, math.log(1 - p)] for p in sure]
    ids = [f"item-{number}" for number in range(len(sure))]
    frame = frame_of(id=ids, logits=logits, reference=[0] * len(sure))
    path = write_run(folder / f"{label}-{seed}", frame, arm=label, seed=seed)
    return edit_run(path, role=role, data="data/selection.jsonl")


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two candidates at two seeds: means of -log p."""
    return [
        scored(tmp_path, "mine.rank=8", 17, [0.5, 0.5]),
        scored(tmp_path, "mine.rank=8", 18, [0.8, 0.8]),
        scored(tmp_path, "mine.rank=16", 17, [0.6, 0.9]),
        scored(tmp_path, "mine.rank=16", 18, [0.7, 0.7]),
    ]


def test_the_choice_by_hand(runs: list[Path]) -> None:
    selection = select(runs, arm="mine", settings=RANKS)
    eight, sixteen = selection.candidates
    assert eight.nll_nats == pytest.approx({17: -math.log(0.5), 18: -math.log(0.8)}, abs=1e-6)
    by_hand = (-math.log(0.6 * 0.9) / 2 - math.log(0.7)) / 2
    assert sixteen.mean_nll_nats == pytest.approx(by_hand, abs=1e-6)
    # 0.458 before 0.332: at seed 18 alone, rank 8 would be chosen.
    assert selection.chosen is sixteen
    assert selection.chosen.settings == {"rank": 16, "epochs": 2}
    assert (selection.items, selection.trainings, selection.seeds) == (2, 4, (17, 18))
    assert selection.tuned == {"rank": (8, 16)}


def test_the_first_of_equal_candidates_is_chosen(tmp_path: Path) -> None:
    runs = [scored(tmp_path, f"mine.rank={rank}", 17, [0.6, 0.7]) for rank in (16, 8)]
    for first, second in ((8, 16), (16, 8)):
        chosen = select(runs, arm="mine", settings={"rank": [first, second]}).chosen
        assert chosen.settings == {"rank": first}


@pytest.mark.parametrize("role", [None, "calibration"])
def test_other_data_than_the_selection_split_are_refused(tmp_path: Path, role: str | None) -> None:
    runs = [scored(tmp_path, f"mine.rank={rank}", 17, [0.6], role) for rank in (8, 16)]
    with pytest.raises(InputError, match="--role selection"):
        select(runs, arm="mine", settings=RANKS)


def test_runs_that_cannot_be_compared_are_refused(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the seeds"):
        select(runs[:3], arm="mine", settings=RANKS)
    with pytest.raises(InputError, match=r"expected runs of .*rank=32"):
        select(runs, arm="mine", settings={"rank": [8, 16, 32]})
    other = scored(tmp_path / "other", "mine.rank=16", 18, [0.7, 0.7, 0.7])
    with pytest.raises(InputError, match="expected the items"):
        select([*runs[:3], other], arm="mine", settings=RANKS)
    with pytest.raises(InputError, match="list of values"):
        select(runs, arm="mine", settings={"rank": 8})
    with pytest.raises(InputError, match="second run"):
        select([*runs, runs[0]], arm="mine", settings=RANKS)


def test_a_selection_is_read_as_it_was_written(runs: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "selected/mine.json"
    selection = select(runs, arm="mine", settings=RANKS)
    write_selection(selection, path)
    assert read_selection(path).to_json() == selection.to_json()
    value = json.loads(path.read_text())
    value["chosen"] = "mine.rank=8"
    path.write_text(json.dumps(value))
    with pytest.raises(InputError, match="does not follow"):
        read_selection(path)
    for text in ("{}", "[]", '{"format": "pact-selected-1"}'):
        path.write_text(text)
        with pytest.raises(InputError, match="pact-selected-1"):
            read_selection(path)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"nll_nats": {}, "mean_nll_nats": None}, "mine.rank=16: expected nll_nats"),
        ({"nll_nats": {"17": 0.3}, "mean_nll_nats": 0.3}, "expected the seeds"),
        ({"settings": {"depth": 2}}, "expected the seeds and settings"),
        ({"nll_nats": {"17": 10**400, "18": 0.3}}, "does not follow"),
    ],
)
def test_candidates_that_cannot_be_compared_are_refused(
    runs: list[Path], tmp_path: Path, change: dict[str, Json], place: str
) -> None:
    path = tmp_path / "mine.json"
    write_selection(select(runs, arm="mine", settings=RANKS), path)
    value = json.loads(path.read_text())
    value["candidates"][1] |= change
    path.write_text(json.dumps(value))
    judged = scored(tmp_path, "mine", 17, [0.6, 0.7], role=None)
    message = refused("report", judged, "--html", tmp_path / "p.html", "--selected", path)
    assert str(path) in message
    assert place in message


def test_settings_are_read_as_they_were_written() -> None:
    settings: dict[str, Json] = {
        "z": [1, 1.0, True, "1", "true", "1.0"],
        "a": ["[8]", "a b", "", '"x"', "{}", "null", "a=b", "1e-5", "\u00fc"],
        "rank": 8,
        "learning_rate": 5e-05,
        "ablated_view": False,
        "note": "16",
    }
    words = as_words(settings)
    assert words[::2] == ("--set",) * len(settings)
    parsed = parse_words(words[1::2])
    assert repr(parsed) == repr(settings)  # also types and order
    with pytest.raises(ValueError, match="rank once"):
        parse_words(["rank=8", "rank=16"])


def test_steps_of_a_tuned_arm(tmp_path: Path) -> None:
    arms = ("mine = { set = { scale = [0.1, 0.2], rank = 2 } }", "other = {}")
    steps = opened(write_plan(tmp_path, arms=arms)).steps
    assert [step.name for step in steps] == [
        *("audit", "split", "score-base-holdout"),
        *("train-mine-17.scale=0.1", "score-mine-17.scale=0.1-selection"),
        *("train-mine-17.scale=0.2", "score-mine-17.scale=0.2-selection"),
        *("select-mine", "score-mine-17-holdout", "score-mine-17-calibration"),
        *("calibrate-mine-17", "train-other-17", "score-other-17-holdout"),
        *("score-other-17-calibration", "calibrate-other-17", "page", "paper"),
    ]
    by_name = {step.name: step for step in steps}
    assert by_name["score-mine-17-holdout"].needs[-1] == "select-mine"
    assert "plan/selected/mine-17" in by_name["score-mine-17-holdout"].words


def test_every_combination_is_trained_at_every_seed(tmp_path: Path) -> None:
    text = "[arms]\nmine = { set = { a = [1, 2], b = ['x', 'y', 'z'] } }\n[seeds]\nmain = [3, 4]"
    plan, _ = parse_plan(text, tmp_path / "plan.toml")
    names = [training.name for training in plan.trainings()]
    assert len(names) == len({*names}) == 2 * 3 * 2
    assert names[:4] == ["mine-3.a=1,b=x", "mine-3.a=1,b=y", "mine-3.a=1,b=z", "mine-3.a=2,b=x"]


def test_too_many_combinations_are_a_problem() -> None:
    values = list(range(11))
    text = f"[arms]\nmine = {{ set = {{ a = {values}, b = {values}, c = {values} }} }}"
    _, problems = parse_plan(text, Path("plan.toml"))
    assert any("1,331" in problem.message for problem in problems)


def test_settings_that_the_trainer_would_not_get_are_a_problem(tmp_path: Path) -> None:
    arms = ("mine = {}", "tuned = { set = { a = [1, 2] } }")
    plan = write_plan(tmp_path, arms=arms, command="python train.py --out {adapter}")
    with pytest.raises(PlanError, match=r"arms: tuned: .*\{settings\}"):
        opened(plan)


@pytest.mark.slow
@pytest.mark.posix
def test_a_tuned_arm_is_trained_chosen_and_scored(tmp_path: Path) -> None:
    arms = ("mine = { set = { scale = [0.5, 0.001] } }",)
    plan = write_plan(tmp_path, arms=arms)
    words = ("experiment", plan, "--only", "mine", "--slots", 2)
    run(*words)
    folder = tmp_path / "plan"
    selection = read_selection(folder / "selected/mine.json")
    # The chosen weights, byte for byte, are those that are judged.
    chosen = "mine-17" + selection.chosen.label.removeprefix("mine")
    copied = (folder / "selected/mine-17/adapter_model.safetensors").read_bytes()
    assert copied == (folder / "adapters" / chosen / "adapter_model.safetensors").read_bytes()
    judged = json.loads((folder / "runs/mine-17/run.json").read_text())
    assert judged["adapter"] == "plan/selected/mine-17"
    assert (judged["arm"], judged["seed"]) == ("mine", 17)
    # Another value repeats its training, the choice, and what reads the chosen adapter.
    other = "0.002" if selection.chosen.settings["scale"] == 0.5 else "0.6"
    tried = "0.001" if other == "0.002" else "0.5"
    plan.write_text(plan.read_text().replace(tried, other))
    states = {
        step["step"]: step["state"]
        for step in json.loads(run(*words, "--json").stdout)["steps"]
        if step["state"] == "done"
    }
    assert list(states)[:3] == [
        f"train-mine-17.scale={other}",
        f"score-mine-17.scale={other}-selection",
        "select-mine",
    ]
    now = read_selection(folder / "selected/mine.json").chosen
    assert ("score-mine-17-holdout" in states) == (now.label != selection.chosen.label)
    assert json.loads(run(*words, "--json").stdout)["tuning"][0]["trainings"] == 2
    assert "scale: " in run(*words).stdout


def test_nothing_is_chosen_without_a_finite_nll(tmp_path: Path) -> None:
    runs = [scored(tmp_path, f"mine.rank={rank}", 17, [0.6, 0.0]) for rank in (8, 16)]
    with pytest.raises(InputError, match="no candidate has a finite NLL"):
        select(runs, arm="mine", settings=RANKS)
