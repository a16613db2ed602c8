"""Training on the tiny base model: two small updates, and the readers of what they write."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

import pact_fixtures
from pact_eval.api import audit_adapter
from pact_eval.runs.training_log import read_training_log
from tetris.evaluate import Played, mean_over_seeds
from tetris.train import Settings, train
from tetris.trained import arm_of

MODEL = Path(pact_fixtures.__file__).parent / "model"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tetris") / "adapter"
    train(MODEL, folder, Settings(imitation=1, updates=1, moves=3, candidates=3, save_every=1))
    return folder


@pytest.mark.slow
def test_reinforce_changes_the_weights_and_the_audit_accepts_them(trained: Path) -> None:
    log = read_training_log(trained / "log.jsonl")
    (_, loss), (_, ce) = log.logged("total"), log.logged("ce")
    assert loss[0] == ce[0]  # imitation
    assert loss[1] != ce[1]
    imitated = load_file(trained / "checkpoints" / "00001" / "adapter_model.safetensors")
    last = load_file(trained / "adapter_model.safetensors")
    assert any((imitated[name] != last[name]).any() for name in last)
    assert all(values.isfinite().all() for values in last.values())
    assert sum(check.count("error") for check in audit_adapter(trained).checks) == 0
    card = json.loads((trained / "training.json").read_text("utf-8"))
    assert (card["moves"], card["imitation"], card["updates"]) == (3, 1, 1)


@pytest.mark.slow
def test_two_phases_in_one_training_equal_two_trainings(trained: Path, tmp_path: Path) -> None:
    """Bit for bit: the second phase starts as a command does that continues the first."""
    few = Settings(imitation=1, updates=0, moves=3, candidates=3)
    train(MODEL, tmp_path / "first", few)
    start = tmp_path / "first"
    train(MODEL, tmp_path / "then", replace(few, imitation=0, updates=1), start)
    after = load_file(tmp_path / "then" / "adapter_model.safetensors")
    both = load_file(trained / "adapter_model.safetensors")
    assert all((both[name] == after[name]).all() for name in both)
    assert arm_of(start) == "imitation"
    assert arm_of(tmp_path / "then") == "imitation-then-reinforce"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "JSON object"),
        ('{"moves": "3"}', "moves as int"),
        ('{"rate": 1}', "unknown setting rate"),
        ('{"updates": 0}', "at least 1"),
    ],
)
def test_settings_that_are_none_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Settings.from_json(text, {})


def _played(*points: float) -> Played:
    values = np.array(points)
    return Played(values / 10, values / 100, values, values / 1000)


def test_means_over_seeds_by_hand_keep_the_sequences_apart() -> None:
    both = mean_over_seeds([_played(100, 300), _played(200, 700)])
    assert both.points.tolist() == [150, 500]
    assert both.placed.tolist() == [15, 50]
