"""The examples: each trains, saves an adapter, and makes the same steps as the others."""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tolerances import SAME_STEPS

from pact_eval.custody import adapter_record
from pact_eval.models import read_adapter_files
from pact_losses import selection_nll

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("train_pytorch", "train_transformers", "train_lightning")
# 3 families of one a batch, 2 batches a step: the second step of an epoch has one batch.
SMALL: dict[str, Any] = {
    "steps": 4,
    "families": 3,
    "selection_families": 2,
    "learning_rate": 1e-3,
    "dropout": 0.0,
    "pairs_per_batch": 1,
}

pytestmark = [
    pytest.mark.slow,
    # Neither knows that a tiny run on a CPU is all that is wanted.
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:DeprecationWarning"),
]


@dataclass(frozen=True)
class Trained:
    """What a training leaves."""

    task: Any
    losses: list[float]
    selection_nll: float


@pytest.fixture(scope="module", autouse=True)
def on_the_path() -> Iterator[None]:
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))
    for name in ("common", *NAMES):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def trained(on_the_path: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trained]:
    # The plain loop would put its best checkpoint back; the others leave the last one.
    return {
        name: _train(name, _task(tmp_path_factory.mktemp(name)), restore=False) for name in NAMES
    }


@pytest.mark.parametrize("name", NAMES[1:])
def test_the_same_losses_and_weights_as_the_plain_loop(
    trained: dict[str, Trained], name: str
) -> None:
    plain, other = trained["train_pytorch"], trained[name]
    assert len(plain.losses) == SMALL["steps"]
    assert other.losses == pytest.approx(plain.losses, rel=0, abs=SAME_STEPS)
    for mine, theirs in zip(_weights(plain.task), _weights(other.task), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=SAME_STEPS)
    assert other.selection_nll == pytest.approx(_nll(other.task), abs=5e-5)  # printed


@pytest.mark.parametrize("name", NAMES)
def test_the_model_is_in_training_mode_while_it_trains(name: str, tmp_path: Path) -> None:
    task = _task(tmp_path, steps=1, families=1)
    modes: set[tuple[bool, bool]] = set()
    dropout = next(
        part for key, part in task.model.named_modules() if key.endswith("lora_dropout.default")
    )
    dropout.register_forward_hook(lambda *_: modes.add((torch.is_grad_enabled(), dropout.training)))
    _train(name, task)
    # With gradients in training mode, without (on the selection split) in evaluation mode.
    assert modes == {(True, True), (False, False)}


@pytest.mark.parametrize("name", NAMES)
def test_examples_run_from_the_command_line(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "adapter"
    arguments = ["--steps", "1", "--families", "1", "--selection-families", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "loss by step: " in printed
    assert "selection NLL " in printed
    record = adapter_record(read_adapter_files(out))
    assert record is not None
    assert [data.files[0].rows for data in record.roles.values()] == [2, 2]


def _task(out: Path, **changes: Any) -> Any:
    common = importlib.import_module("common")
    return common.Task(common.Options(**{**SMALL, "out": out / "adapter", **changes}))


def _train(name: str, task: Any, *, restore: bool = True) -> Trained:
    example = importlib.import_module(name)
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda *words, **_: lines.append(" ".join(map(str, words))))
        if not restore and hasattr(example, "BestCheckpoint"):
            patch.setattr(example.BestCheckpoint, "restore", lambda *_: None)
        losses = example.train(task)
    nll = next(line for line in lines if "selection NLL" in line).split()[-2]
    return Trained(task, losses, float(nll))


def _weights(task: Any) -> list[torch.Tensor]:
    return [weight for weight in task.model.parameters() if weight.requires_grad]


def _nll(task: Any) -> float:
    return selection_nll(task.model, task.data.selection_batches())
