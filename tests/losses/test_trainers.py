"""Every trainer makes the steps of a loop by hand: after 10 steps, a resume, in two processes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adapters import MODEL
from commands import command_line
from losses import trainers
from losses.tiny import DATA
from losses.trainers import (
    LAST,
    STEPS,
    TRAINERS,
    Precision,
    Setting,
    Weights,
    plain,
    with_lightning,
    with_transformers,
)
from messages import assert_says
from safetensors.torch import load_file

from pact_eval.custody import UsedData, adapter_record, overlap_with
from pact_eval.data.records import read_records
from pact_eval.models import read_adapter_files
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.training import training_data
from pact_losses import (
    BestCheckpoint,
    PactLoss,
    candidate_logits,
    pact_steps,
    selection_nll,
    selection_score,
)

RELATIVE = 1e-6
"""Of the norm of all weights: how far two trainers may differ in float32."""

BFLOAT16_LOSS = 0.03
"""Of a loss in nats: how far two trainers may differ in bfloat16."""

# Of transformers, TRL and Lightning, about other things.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def by_hand() -> tuple[list[float], Weights]:
    setting = Setting()
    return plain(setting), setting.weights()


def difference(weights: Weights, expected: Weights) -> float:
    """Norm of the difference over the norm."""
    assert weights.keys() == expected.keys()
    squares = [((weights[name] - expected[name]).square().sum()) for name in expected]
    whole = [weight.square().sum() for weight in expected.values()]
    return math.sqrt(float(sum(squares)) / float(sum(whole)))


def test_the_first_step_of_every_trainer_against_a_loop_by_hand(tmp_path: Path) -> None:
    expected = Setting(families=2)
    by_hand = plain(expected, 1)
    for name, train in TRAINERS.items():
        setting = Setting(families=2)
        assert train(setting, tmp_path / name, 1) == pytest.approx(by_hand, rel=1e-5), name
        assert difference(setting.weights(), expected.weights()) < RELATIVE, name


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINERS)
def test_weights_and_losses_of_a_training_against_a_loop_by_hand(
    name: str, by_hand: tuple[list[float], Weights], tmp_path: Path
) -> None:
    setting = Setting()
    losses = TRAINERS[name](setting, tmp_path)
    assert losses == pytest.approx(by_hand[0], rel=1e-5)
    assert len(losses) == STEPS
    assert difference(setting.weights(), by_hand[1]) < RELATIVE


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINERS)
def test_a_resume_within_an_epoch_leads_to_the_same_weights(
    name: str, by_hand: tuple[list[float], Weights], tmp_path: Path
) -> None:
    """After the first step of the second epoch."""
    TRAINERS[name](Setting(), tmp_path, 4)
    setting = Setting()
    losses = TRAINERS[name](setting, tmp_path, resume=True)
    assert losses[-6:] == pytest.approx(by_hand[0][-6:], rel=1e-5)
    assert difference(setting.weights(), by_hand[1]) < RELATIVE


@pytest.fixture(scope="module")
def by_two_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the weights and losses of every trainer, run by torchrun with gloo."""
    out = tmp_path_factory.mktemp("two")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    trains = command_line("python", trainers.__file__, out)
    subprocess.run(
        command_line("python", *torchrun, "--no-python", *trains),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        timeout=900,
    )
    return out


@pytest.fixture(scope="module")
def six_families_by_hand() -> tuple[list[float], Weights]:
    setting = Setting(families=6)
    return plain(setting), setting.weights()


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINERS)
def test_two_processes_make_the_steps_of_one(
    name: str, by_two_processes: Path, six_families_by_hand: tuple[list[float], Weights]
) -> None:
    losses, expected = six_families_by_hand
    text = (by_two_processes / f"{name}.txt").read_text("utf-8")
    assert [float(line) for line in text.split()] == pytest.approx(losses, rel=1e-5)
    weights = load_file(by_two_processes / f"{name}.safetensors")
    assert difference(weights, expected) < RELATIVE


@cache
def losses_by_hand(precision: Precision) -> tuple[float, ...]:
    """Of three steps, the last of which has one batch."""
    return tuple(plain(Setting(precision=precision), 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "precision"),
    [*((name, "autocast") for name in TRAINERS), ("torch", "bfloat16"), ("lightning", "bfloat16")],
)
def test_bfloat16_losses_against_a_loop_by_hand(
    name: str, precision: Precision, tmp_path: Path
) -> None:
    """In Lightning, `bf16-true` and `bf16-mixed`."""
    losses = TRAINERS[name](Setting(precision=precision), tmp_path, 3)
    assert losses == pytest.approx(losses_by_hand(precision), rel=0, abs=BFLOAT16_LOSS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINERS)
def test_gradient_checkpointing_changes_no_loss(
    name: str, by_hand: tuple[list[float], Weights], tmp_path: Path
) -> None:
    setting, calls = Setting(checkpointing=True), [0]
    layer = next(part for key, part in setting.model.named_modules() if key.endswith("0.mlp"))
    layer.register_forward_pre_hook(lambda *_: calls.__setitem__(0, calls[0] + part_of_training()))
    losses = TRAINERS[name](setting, tmp_path, 2)
    assert losses == pytest.approx(by_hand[0][:2], rel=1e-5)
    assert calls[0] == 2 * 4  # two batches a step: each is computed again


def part_of_training() -> int:
    """1 in a forward pass of the training, 0 in one of an evaluation."""
    return int(torch.is_grad_enabled())


@pytest.mark.slow
@pytest.mark.parametrize("train", [with_transformers, with_lightning])
def test_terms_margin_and_share_of_a_step_against_the_step_as_one_batch(
    train: Any, tmp_path: Path
) -> None:
    setting = Setting()
    step = next(iter(pact_steps(setting.data, STEPS, seed=17, families_per_batch=1)))
    ids = {record for batch in step.batches for record in batch.record_ids}
    batch = setting.data.collate([v for v in setting.data.train if v.record_id in ids])
    with torch.no_grad():
        out = PactLoss()(candidate_logits(setting.model, batch), batch, progress=step.progress)
    train(setting, tmp_path, 1)
    trainer = LAST["trainer"]
    logged = (
        trainer.state.log_history[0] if train is with_transformers else trainer.callback_metrics
    )
    for name, value in {**out.terms, **out.diagnostics}.items():
        if name != "ramp":
            assert float(logged[name]) == pytest.approx(float(value), rel=1e-4, abs=1e-6), name
    assert {"pair_margin", "pairs_beyond_margin", "ce", "cf", "pc", "nr"} <= set(logged)


@pytest.mark.slow
def test_evaluation_is_the_exact_nll_of_the_selection_split(tmp_path: Path) -> None:
    """Four primary views among ten: permuted and ablated ones do not count."""
    setting = Setting()
    expected = selection_nll(setting.model, setting.data.selection_batches(3))
    with_transformers(setting, tmp_path, 1)
    primary = [view for view in setting.data.selection if view.role == "primary"]
    assert len(primary) == 4
    now = selection_nll(setting.model, [setting.data.collate(primary)])
    assert now != pytest.approx(expected, abs=1e-4)
    evaluated = LAST["trainer"].evaluate()
    assert evaluated["eval_loss"] == pytest.approx(now, abs=1e-6)
    score = selection_score(setting.model, setting.data.selection_batches(3))
    assert 0 < score.answer_mass < 1
    assert evaluated["eval_answer_mass"] == pytest.approx(score.answer_mass, abs=1e-6)
    assert 0 < LAST["trainer"].state.log_history[-3]["answer_mass"] < 1
    setting = Setting()
    with_lightning(setting, tmp_path)
    metrics = LAST["trainer"].callback_metrics
    assert metrics["selection_nll"].isfinite()
    assert 0 < float(metrics["selection_answer_mass"]) < 1
    assert 0 < float(metrics["answer_mass"]) < 1


@pytest.mark.slow
def test_a_trainer_selects_as_best_checkpoint_does_and_names_too_little_answer_mass(
    tmp_path: Path,
) -> None:
    from transformers import Trainer, TrainingArguments

    from pact_losses.transformers import PactTrainerMixin

    class PactTrainer(PactTrainerMixin, Trainer): ...

    setting, rng = Setting(), np.random.default_rng(58)
    args = TrainingArguments(
        str(tmp_path), max_steps=2, eval_strategy="steps", eval_steps=1, report_to="none",
        save_strategy="steps", save_steps=1, use_cpu=True, per_device_train_batch_size=1,
        disable_tqdm=True, load_best_model_at_end=True,
    )  # fmt: skip
    trainer = PactTrainer(
        setting.model, args, data=setting.data, optimizers=(setting.optimizer, setting.schedule)
    )
    with pytest.warns(UserWarning, match="step 1: answer mass .*below 50%"):
        trainer.train()  # on prompts that are cut, the letters have little mass
    assert trainer.state.best_global_step in (1, 2)
    for _ in range(40):
        trainer.state.log_history, trainer.state.best_metric = [], None
        ours = BestCheckpoint()
        for step, (nll, mass) in enumerate(rng.choice([0.1, 0.2, 0.6, 0.7], (4, 2)), 1):
            ours.offer(torch.nn.Identity(), step, nll, mass)
            trainer.state.global_step = step
            metrics = {"eval_loss": nll, "eval_answer_mass": mass}
            trainer.state.log_history.append({**metrics, "step": step})
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                trainer._determine_best_metric(metrics, None)
            assert len(caught) == (mass < 0.5)
            assert trainer.state.best_global_step == ours.step


@pytest.mark.slow
def test_the_training_stops_when_the_selection_nll_no_longer_falls(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    from pact_losses.transformers import PactTrainerMixin, SelectionStopping

    class PactTrainer(PactTrainerMixin, Trainer): ...

    setting = Setting()
    still = torch.optim.SGD(setting.model.parameters(), lr=0.0)  # the NLL stays the same
    schedule = torch.optim.lr_scheduler.ConstantLR(still)
    args = TrainingArguments(
        str(tmp_path), max_steps=9, eval_strategy="steps", eval_steps=1, report_to="none",
        save_strategy="no", use_cpu=True, per_device_train_batch_size=1, disable_tqdm=True,
    )  # fmt: skip
    trainer = PactTrainer(
        setting.model,
        args,
        data=setting.data,
        optimizers=(still, schedule),
        callbacks=[SelectionStopping(patience=2)],
    )
    trainer.train()
    assert trainer.state.global_step == 3
    with pytest.raises(TypeError) as refusal:
        PactTrainer(setting.model, args, data=setting.data, train_dataset=[])
    assert_says(refusal.value, "`data`", "train_dataset")


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINERS)
def test_a_saved_adapter_carries_its_training_record(name: str, tmp_path: Path) -> None:
    """Trainer and SFTTrainer write it into checkpoints and models; `PactData.save` elsewhere."""
    setting = Setting()
    records = read_records(DATA)
    used = UsedData(DATA, records[:10]), UsedData(DATA, records[10:14])
    encoder = Encoder(setting.tokenizer, NIMBLE)
    setting.data = training_data(used[0], encoder, base=MODEL, selection=used[1], arm="pact")
    out = tmp_path / "adapter"
    TRAINERS[name](setting, out, 1)
    folders = [out]
    if name in ("transformers", "sft"):
        LAST["trainer"].save_model()
        folders.append(out / "checkpoint-1")
    else:
        setting.data.save(setting.model, out, {"steps": 1, "seed": 17})
    for folder in folders:
        record = adapter_record(read_adapter_files(folder))
        assert record is not None
        assert (record.training["steps"], record.training["recipe"]) == (1, "pact")
        assert {role: data.files[0].rows for role, data in record.roles.items()} == {
            "train": 10,
            "selection": 4,
        }
        overlap = overlap_with(record, records)
        assert overlap is not None
        assert set(overlap.families) == {record.family for record in records[:14]}
        assert identify(ModelRequest(folder)).encoder.contract is NIMBLE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "missing"),
    [("transformers", "transformers"), ("transformers", "accelerate"),
     ("lightning", "pytorch_lightning")],
)  # fmt: skip
def test_without_its_trainer_a_module_names_the_pip_line(module: str, missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\nimport pact_losses.{module}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    package = missing.replace("_", "-")
    assert_says(run.stderr.splitlines()[-1], "ModuleNotFoundError", missing, "pip install", package)


def test_without_files_a_saved_adapter_warns(tmp_path: Path) -> None:
    setting = Setting()
    with pytest.warns(UserWarning, match="not stated.*training_data"):
        setting.data.save(setting.model, tmp_path)


@pytest.mark.slow
def test_pact_losses_alone_needs_only_torch() -> None:
    absent = ["transformers", "accelerate", "peft", "pytorch_lightning", "trl", "datasets"]
    code = f"import sys\nfor name in {absent}: sys.modules[name] = None\nimport pact_losses"
    subprocess.run([sys.executable, "-c", code], check=True)
