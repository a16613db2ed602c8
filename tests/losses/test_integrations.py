"""The examples: each trains, and the same batches give the same losses and weights in all."""

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
from tolerances import NLL, SAME_STEPS

from pact_losses import (
    PACT_SETTINGS,
    PactLoss,
    candidate_logits,
    selection_nll,
    unit_totals,
)

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
def trained(on_the_path: None) -> dict[str, Trained]:
    # The plain loop would put its best checkpoint back; the others leave the last one.
    return {name: _train(name, restore=False) for name in NAMES}


@pytest.mark.parametrize("name", NAMES[1:])
def test_the_same_losses_and_weights_as_the_plain_loop(
    trained: dict[str, Trained], name: str
) -> None:
    plain, other = trained["train_pytorch"], trained[name]
    assert len(plain.losses) == SMALL["steps"]
    assert other.losses == pytest.approx(plain.losses, rel=0, abs=SAME_STEPS)
    for mine, theirs in zip(plain.task.weights, other.task.weights, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=SAME_STEPS)


@pytest.mark.parametrize("name", NAMES)
def test_losses_against_the_objective_of_all_batches_of_the_step_as_one(
    trained: dict[str, Trained], name: str
) -> None:
    losses = trained[name].losses
    task = _task()
    steps = list(importlib.import_module("common").StepLoader(task))
    assert [len(step) for step in steps] == [2, 1]
    # The first step: the next one has other weights.
    batch = task.collate([view for view in task.views if view.record_id in _ids(steps[0])])
    with torch.no_grad():
        logits = candidate_logits(task.model, batch)
        whole = task.loss(logits, batch, progress=1 / SMALL["steps"])
    assert losses[0] == pytest.approx(float(whole.total), abs=NLL)


def test_two_batches_of_one_pair_are_one_batch_of_two() -> None:
    """In the plain loop; the others have its losses on batches of one pair."""
    cut, whole = (
        _train(
            "train_pytorch",
            _task(families=2, steps=3, pairs_per_batch=pairs, accumulation=2 // pairs),
        )
        for pairs in (1, 2)
    )
    assert cut.losses == pytest.approx(whole.losses, rel=NLL)


@pytest.mark.parametrize("name", NAMES)
def test_training_lowers_the_objective(trained: dict[str, Trained], name: str) -> None:
    assert _objective(trained[name].task) < _objective(_task()) - 0.1


@pytest.mark.parametrize("name", NAMES)
def test_the_model_is_in_training_mode_while_it_trains(name: str) -> None:
    task = _task(steps=1, families=1)
    modes: set[tuple[bool, bool]] = set()
    dropout = next(
        each for key, each in task.model.named_modules() if key.endswith("lora_dropout.default")
    )
    dropout.register_forward_hook(lambda *_: modes.add((torch.is_grad_enabled(), dropout.training)))
    _train(name, task)
    # With gradients in training mode, without (on the selection split) in evaluation mode.
    assert modes == {(True, True), (False, False)}


def test_the_plain_loop_puts_its_best_checkpoint_back() -> None:
    found = _train("train_pytorch")
    model, batches = found.task.model, found.task.selection_batches()
    assert selection_nll(model, batches) == pytest.approx(found.selection_nll, abs=NLL)


def test_evaluation_in_trainer_is_the_nll_of_the_selection_split(
    trained: dict[str, Trained],
) -> None:
    found = trained["train_transformers"]
    expected = selection_nll(found.task.model, found.task.selection_batches())
    assert found.selection_nll == pytest.approx(expected, abs=NLL)


def test_trainer_ignores_the_count_of_label_tokens(
    trained: dict[str, Trained], tmp_path: Path
) -> None:
    from transformers import TrainingArguments

    task = trained["train_transformers"].task
    args = TrainingArguments(str(tmp_path), remove_unused_columns=False, report_to="none")
    trainer = importlib.import_module("train_transformers").PactTrainer(task, args)
    batch = task.collate(task.views[:5])
    trainer.totals = unit_totals([batch])
    for mode in (True, False):
        task.model.train(mode)
        given = trainer.compute_loss(task.model, {"batch": batch}, num_items_in_batch=7)
        loss, outputs = trainer.compute_loss(task.model, {"batch": batch}, return_outputs=True)
        assert float(given) == float(loss)
        assert outputs["code_logits"].shape == batch.code_order.shape
    task.model.train()


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
    assert (out / "schema_config.json").exists()
    assert (out / "adapter_model.safetensors").exists()


def test_the_settings_of_the_examples_are_those_of_the_paper() -> None:
    options = importlib.import_module("common").Options()
    for name in ("learning_rate", "dropout", "pairs_per_batch", "accumulation"):
        assert getattr(options, name) == getattr(PACT_SETTINGS, name)
    assert options.seed == PACT_SETTINGS.seeds[0]
    assert options.steps == PACT_SETTINGS.n_steps(options.families)
    task = _task(learning_rate=PACT_SETTINGS.learning_rate)
    loss = PactLoss(
        PACT_SETTINGS.weights, PACT_SETTINGS.margin, PACT_SETTINGS.epsilon, PACT_SETTINGS.ramp
    )
    assert task.loss.extra_repr() == loss.extra_repr()
    assert task.sampler.bucket == PACT_SETTINGS.bucket


def test_examples_are_short() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) <= 130, path.name


def _task(**changes: Any) -> Any:
    common = importlib.import_module("common")
    return common.Task(common.Options(**{**SMALL, **changes}))


def _train(name: str, task: Any = None, *, restore: bool = True) -> Trained:
    if name == "train_lightning":
        pytest.importorskip("pytorch_lightning")
    example = importlib.import_module(name)
    task = task or _task()
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda *words: said.append(" ".join(map(str, words))))
        if not restore and hasattr(example, "BestCheckpoint"):
            patch.setattr(example.BestCheckpoint, "restore", lambda *_: None)
        losses = example.train(task)
    nll = next(line for line in said if "selection NLL" in line).split()[-2]
    return Trained(task, losses, float(nll))


def _ids(step: list[Any]) -> set[str]:
    return {record_id for batch in step for record_id in batch.record_ids}


def _objective(task: Any) -> float:
    batch = task.collate(task.views)
    with torch.no_grad():
        return float(PactLoss()(candidate_logits(task.model, batch), batch, progress=1.0).total)
