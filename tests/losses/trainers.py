"""The same small training in every trainer: one family a batch, two batches a step.

Run by torchrun, this module trains with each of them in two processes: `trainers.py OUT`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

# TRL reports its use otherwise.
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import torch
from peft import get_peft_model
from safetensors.torch import save_file
from transformers import AutoTokenizer

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))

from adapters import MODEL
from losses.tiny import tiny_base, views_of_train

from pact_losses import (
    FamilyBatchSampler,
    PactBatch,
    PactCollator,
    PactData,
    PactLoss,
    StepMeans,
    candidate_logits,
    learning_rate_schedule,
    lora_config,
    lora_plus_optimizer,
    pact_step,
    pact_steps,
    unit_totals,
)

STEPS: Final = 10
SEED: Final = 17

Weights = dict[str, torch.Tensor]


Precision = Literal["float32", "bfloat16", "autocast"]
"""Weights of float32, all weights in bfloat16, or float32 weights with autocast to bfloat16."""


class Setting:
    """A model, its optimiser and the data, the same for every trainer."""

    def __init__(
        self,
        *,
        precision: Precision = "float32",
        checkpointing: bool = False,
        accumulation: int = 2,
        families: int = 5,  # an epoch of 3 steps, of which the last has one batch
        record: Any = None,
    ) -> None:
        torch.manual_seed(SEED)
        self.model = get_peft_model(tiny_base(), lora_config(rank=4, dropout=0.0)).train()
        self.precision = precision
        if precision == "bfloat16":
            self.model.to(torch.bfloat16)
        if precision != "float32":
            self.model.set_attn_implementation("eager")  # quick in bfloat16 on a CPU
        if checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
            self.model.enable_input_require_grads()
        self.checkpointing = checkpointing
        self.tokenizer = AutoTokenizer.from_pretrained(MODEL)
        views = [
            replace(view, token_ids=view.token_ids[-12 - row % 5 :])  # quick
            for row, view in enumerate(views_of_train(families + 2))
        ]
        cut = 5 * families
        self.data = PactData(
            views[:cut], PactCollator(self.tokenizer.pad_token_id), views[cut:], record
        )
        self.optimizer = lora_plus_optimizer(self.model, learning_rate=1e-3)
        self.schedule = learning_rate_schedule(self.optimizer, n_steps=STEPS)
        self.accumulation = accumulation

    def weights(self) -> Weights:
        named = self.model.named_parameters()
        return {name: weight.detach().float().clone() for name, weight in named
                if weight.requires_grad}  # fmt: skip


def plain(setting: Setting, stop: int = STEPS) -> list[float]:
    """A loop by hand, without the functions for trainers; one process."""
    s, losses, loss_fn = setting, [], PactLoss()
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=s.precision == "autocast")
    sampler = FamilyBatchSampler(s.data.train, 1, seed=SEED)
    epoch, batches = -1, list[PactBatch]()
    for step in range(stop):
        if not batches:
            epoch += 1
            sampler.set_epoch(epoch)
            batches = [s.data.collate([s.data.train[row] for row in rows]) for rows in sampler]
        now, batches = batches[: s.accumulation], batches[s.accumulation :]
        total = 0.0
        for batch in now:
            with autocast:
                logits = candidate_logits(s.model, batch)
            totals = unit_totals(now)
            out = loss_fn(logits, batch, progress=(step + 1) / STEPS, totals=totals)
            out.total.backward()  # type: ignore[no-untyped-call]
            total += float(out.total.detach())
        torch.nn.utils.clip_grad_norm_(s.model.parameters(), 1.0)
        s.optimizer.step()
        s.schedule.step()
        s.optimizer.zero_grad()
        losses.append(total)
    return losses


def torch_loop(
    setting: Setting, folder: Path, stop: int = STEPS, *, resume: bool = False
) -> list[float]:
    """`pact_steps` and `pact_step` in a plain loop; a checkpoint at step `stop`."""
    s, first, file = setting, 0, folder / "state.pt"
    if resume:
        state = torch.load(file)
        first = state["step"]
        s.model.load_state_dict(state["model"])
        s.optimizer.load_state_dict(state["optimizer"])
        s.schedule.load_state_dict(state["schedule"])
    means: list[StepMeans] = []
    options: Any = {"families_per_batch": 1, "accumulation": s.accumulation}
    for step in pact_steps(s.data, STEPS, seed=SEED, first=first, **options):
        if step.number == stop:
            break
        with torch.autocast("cpu", torch.bfloat16, enabled=s.precision == "autocast"):
            means.append(pact_step(s.model, step, PactLoss()))
        torch.nn.utils.clip_grad_norm_(s.model.parameters(), 1.0)
        s.optimizer.step()
        s.schedule.step()
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(
        {
            "step": stop,
            "model": s.model.state_dict(),
            "optimizer": s.optimizer.state_dict(),
            "schedule": s.schedule.state_dict(),
        },
        file,
    )
    return [mean.loss for mean in means]


def with_accelerate(
    setting: Setting, folder: Path, stop: int = STEPS, *, resume: bool = False
) -> list[float]:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    s = setting
    precision = "bf16" if s.precision == "autocast" else "no"
    if not torch.distributed.is_initialized():
        AcceleratorState._reset_state(reset_partial_state=True)  # the precision of another test
    accelerator = Accelerator(cpu=True, mixed_precision=precision)
    model, optimizer = accelerator.prepare(s.model, s.optimizer)
    accelerator.register_for_checkpointing(s.schedule)
    if resume:
        accelerator.load_state(str(folder))
    losses = []
    options: Any = {"families_per_batch": 1, "accumulation": s.accumulation}
    first = s.schedule.last_epoch
    for step in pact_steps(s.data, STEPS, seed=SEED, first=first, **options):
        if step.number == stop:
            break
        losses.append(pact_step(model, step, PactLoss(), backward=accelerator.backward).loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        s.schedule.step()
    if stop < STEPS:
        accelerator.save_state(str(folder))
    accelerator.free_memory()
    return losses


def with_transformers(
    setting: Setting, folder: Path, stop: int = STEPS, *, resume: bool = False, sft: bool = False
) -> list[float]:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from pact_losses.transformers import PactTrainerMixin

    bases: Any = (PactTrainerMixin, Trainer)
    kind: Any = TrainingArguments
    if sft:
        from trl.trainer.sft_config import SFTConfig
        from trl.trainer.sft_trainer import SFTTrainer

        bases, kind = (PactTrainerMixin, SFTTrainer), SFTConfig

    class Stop(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            control.should_save = state.global_step == stop < STEPS
            control.should_training_stop = state.global_step == stop

    s = setting
    args = kind(
        str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=s.accumulation,
        per_device_eval_batch_size=4,
        activation_checkpointing=s.checkpointing,
        bf16=s.precision == "autocast",
        seed=SEED,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = type("PactTrainer", bases, {})(
        s.model,
        args,
        data=s.data,
        processing_class=s.tokenizer,
        optimizers=(s.optimizer, s.schedule),
        callbacks=[Stop()],
    )
    trainer.train(resume_from_checkpoint=resume)
    LAST["trainer"] = trainer
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def with_sft(
    setting: Setting, folder: Path, stop: int = STEPS, *, resume: bool = False
) -> list[float]:
    return with_transformers(setting, folder, stop, resume=resume, sft=True)


LIGHTNING: Final[Mapping[str, Any]] = {
    "float32": "32-true",
    "bfloat16": "bf16-true",
    "autocast": "bf16-mixed",
}


def with_lightning(
    setting: Setting,
    folder: Path,
    stop: int = STEPS,
    *,
    resume: bool = False,
    devices: int = 1,
) -> list[float]:
    from pytorch_lightning import Callback, LightningModule, Trainer

    from pact_losses.lightning import PactDataModule, PactModuleMixin

    class PactModule(PactModuleMixin, LightningModule): ...

    class Losses(Callback):
        def __init__(self) -> None:
            self.losses: list[float] = []

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            self.losses.append(float(trainer.callback_metrics["loss"]))
            trainer.should_stop = trainer.global_step == stop

    s, losses = setting, Losses()
    trainer = Trainer(
        max_steps=STEPS,
        min_epochs=0,
        precision=LIGHTNING[s.precision],
        accelerator="cpu",
        devices=devices,
        callbacks=[losses],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = PactModule(s.model, s.optimizer, s.schedule)
    loaders = PactDataModule(
        s.data, seed=SEED, families_per_batch=1, accumulation=s.accumulation, selection_rows=4
    )
    trainer.fit(module, loaders, ckpt_path=folder / "last.ckpt" if resume else None)
    if stop < STEPS:
        trainer.save_checkpoint(folder / "last.ckpt")
    LAST["trainer"] = trainer
    return losses.losses


LAST: dict[str, Any] = {}
"""The trainer object of the last training, for what it logged."""

TRAINERS: Final[Mapping[str, Callable[..., list[float]]]] = {
    "torch": torch_loop,
    "accelerate": with_accelerate,
    "transformers": with_transformers,
    "sft": with_sft,
    "lightning": with_lightning,
}


def _two_processes(name: str, out: Path) -> None:
    """Train a part of every step here; the first process writes the weights."""
    setting = Setting(accumulation=1, families=6)
    if name == "torch":
        bare = setting.model
        setting.model = torch.nn.parallel.DistributedDataParallel(bare)
        losses = torch_loop(setting, out / "checkpoint")
        setting.model = bare
    elif name == "lightning":
        losses = with_lightning(setting, out / "checkpoint", devices=2)
    else:
        losses = TRAINERS[name](setting, out / "checkpoint")
    if torch.distributed.get_rank() == 0:
        save_file(setting.weights(), out / f"{name}.safetensors")
        (out / f"{name}.txt").write_text("\n".join(map(str, losses)), encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    for trainer_name in TRAINERS:
        _two_processes(trainer_name, Path(sys.argv[1]))
    torch.distributed.destroy_process_group()
