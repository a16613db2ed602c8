"""PACT in the `Trainer` of transformers and in TRL's `SFTTrainer`.

    class PactTrainer(PactTrainerMixin, Trainer): ...

    trainer = PactTrainer(model, args, data=data)
    trainer.train()
    trainer.save_model()

`per_device_train_batch_size` counts families, and `per_device_eval_batch_size` views. All other
arguments keep their meaning. The evaluation loss is the exact NLL of the selection split.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from torch.utils.data import DataLoader

from pact_losses.batch import PactBatch, PactCollator
from pact_losses.candidates import answer_logits
from pact_losses.data import PactData, rank_and_count, summed
from pact_losses.errors import PactLossError
from pact_losses.families import FamilyBatchSampler
from pact_losses.objective import PactLoss, unit_totals
from pact_losses.selection import LEAST_ANSWER_MASS, shared_selection_score
from pact_losses.steps import TermSums
from pact_losses.views import TrainingView

if TYPE_CHECKING:
    from transformers import Trainer

try:
    import accelerate  # noqa: F401 - Trainer needs it, and says so only when it is constructed
    from transformers import EarlyStoppingCallback, TrainerCallback
    from transformers.trainer_utils import EvalLoopOutput
except ModuleNotFoundError as error:
    message = (
        f"pact_losses.transformers needs {error.name}, which is not installed; install both: "
        "pip install 'transformers>=5.19' accelerate"
    )
    raise ModuleNotFoundError(message, name=error.name) from error

if TYPE_CHECKING:
    _Trainer = Trainer
else:
    _Trainer = object  # so that a mixin comes before any trainer


@dataclass(frozen=True)
class PactDataCollator:
    """`PactCollator` for a Trainer, whose inputs are a mapping.

    Examples:
        >>> view = TrainingView(
        ...     record_id="a", family="a", variant="unpaired", view=0, kind="boolean",
        ...     token_ids=(5, 6), code_tokens=(8, 9), code_order=(0, 1), reference=1)
        >>> PactDataCollator(PactCollator(0))([view])["batch"].reference.tolist()
        [1]
    """

    collate: PactCollator

    def __call__(self, views: Sequence[TrainingView]) -> dict[str, PactBatch]:
        """Return the batch under the name `batch`."""
        return {"batch": self.collate(views)}


class TermsCallback(TrainerCallback):
    """Callback that adds the terms of the objective to every log of the training loss.

    The names are those of `PactOutput`: "ce", "cf", "pc", "nr", "emd", "am", the mean margin d as
    "pair_margin" (nats), the share of pairs with d above the target margin as
    "pairs_beyond_margin", and the mean "answer_mass". They are exact means over all steps since the
    last log, and over all processes. `PactTrainerMixin` adds this callback before those that report
    logs.
    """

    def __init__(self) -> None:
        self.sums = TermSums()

    def on_train_begin(self, *_arguments: Any, **_: Any) -> None:
        """Forget what an earlier training has left."""
        self.sums = TermSums()

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Add the means to the log."""
        logs = kwargs.get("logs")
        if logs is None or "loss" not in logs:
            return
        means = self.sums.take()
        logs |= {**means.terms, **means.diagnostics}
        state.log_history[-1] |= {**means.terms, **means.diagnostics}


class SelectionStopping(EarlyStoppingCallback):
    """Callback that stops the training when the NLL of the selection split no longer falls.

    It needs an `eval_strategy`. `load_best_model_at_end=True` also restores the best checkpoint.

    Args:
        patience: evaluations without a lower NLL after which the training stops.
        threshold: nats by which an NLL must be lower to count.
    """

    def __init__(self, patience: int = 1, threshold: float = 0.0) -> None:
        super().__init__(patience, threshold)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Let the Trainer compare the selection NLL of checkpoints."""
        if args.metric_for_best_model is None:
            args.metric_for_best_model, args.greater_is_better = "eval_loss", False
        super().on_train_begin(args, state, control, **kwargs)  # type: ignore[no-untyped-call]


class PactTrainerMixin(_Trainer):
    """The PACT objective for `Trainer` or `SFTTrainer`: inherit from this class and from it.

    Batches hold complete families, whose order depends on `args.data_seed` (or `args.seed`) and the
    epoch. The loss of a step is exact for any gradient accumulation and number of processes: it is
    that of all its families as one batch. Checkpoints and saved models carry the record of `data`.
    Without `optimizers`, the optimiser and schedule are those of `args`. Evaluation has the NLL of
    the selection split as "eval_loss", and "eval_answer_mass". A checkpoint below
    `least_answer_mass` is named in a warning, and the best one only if all are below.

    Args:
        model: a causal language model, usually with PEFT; as for the trainer.
        args: as for the trainer.
        data: the views, and what is recorded of them. Takes the place of `train_dataset`,
            `eval_dataset` and `data_collator`.
        loss: the objective; the paper's settings by default.
        least_answer_mass: mean answer mass that a best checkpoint needs, if any has it; 0 to 1.
        kwargs: further arguments of the trainer.

    Raises:
        FamilyError: as for `FamilyBatchSampler`.
        PactLossError: one process sees several GPUs.
        TypeError: a dataset or collator is passed.
    """

    # The Trainer must not divide by the number of accumulated batches.
    loss_is_scaled_for_ga = True

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *,
        data: PactData,
        loss: PactLoss | None = None,
        least_answer_mass: float = LEAST_ANSWER_MASS,
        **kwargs: Any,
    ) -> None:
        taken = sorted({"train_dataset", "eval_dataset", "data_collator"} & set(kwargs))
        if taken:
            raise TypeError(f"expected the views in `data`, got {', '.join(taken)}")
        self._pact_data, self._pact_loss = data, PactLoss() if loss is None else loss
        self._least_answer_mass = least_answer_mass
        self._totals: dict[str, float] = {}
        train, selection = _datasets(type(self), data, args)
        collator = PactDataCollator(data.collate)
        super().__init__(
            model, args, data_collator=collator, train_dataset=train, eval_dataset=selection,
            **kwargs,
        )  # fmt: skip
        self.train_dataset, self.eval_dataset = data.train, data.selection or None
        if self.args.n_gpu > 1:
            raise PactLossError(
                f"expected one GPU per process, got {self.args.n_gpu}; start the training with "
                "torchrun, or set CUDA_VISIBLE_DEVICES=0"
            )
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        self._families = FamilyBatchSampler(data.train, self.args.train_batch_size, seed=seed)
        self._terms = TermsCallback()
        self.callback_handler.callbacks.insert(0, self._terms)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return a loader of complete families; Accelerate distributes its batches."""
        views: Any = self._pact_data.train
        pin = self.args.dataloader_pin_memory and torch.accelerator.is_available()
        loader: DataLoader[Any] = DataLoader(
            views,
            batch_sampler=self._families,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=pin,
            generator=torch.Generator().manual_seed(0),  # dropout draws from the global one
        )
        prepared: DataLoader[Any] = self.accelerator.prepare(loader)
        return prepared

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:  # noqa: ARG002
        """Return this process's share of the selection batches."""
        rank, processes = rank_and_count()
        return self._pact_data.selection_batches(
            self.args.per_device_eval_batch_size, rank=rank, processes=processes
        )

    def get_batch_samples(
        self,
        epoch_iterator: Iterator[Any],
        num_batches: int,
        device: Any,  # noqa: ARG002
    ) -> tuple[list[Any], None]:
        """Fetch the batches of one optimiser step, and count their units in all processes."""
        # Accelerate does not reach the sampler of an epoch that it resumes in several processes.
        self._families.set_epoch(max(self._families.epoch, int(self.state.epoch or 0)))
        samples = list(itertools.islice(epoch_iterator, num_batches))
        self._totals = summed(unit_totals(sample["batch"] for sample in samples))
        return samples, None

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,  # noqa: ARG002
    ) -> Any:
        """Return this batch's part of the loss of the step; outputs are the logits (n, C)."""
        train_rest = self._pact_loss.weights.am > 0
        logits = answer_logits(model, inputs["batch"], train_rest=train_rest)
        batch = inputs["batch"].to(logits.device)
        progress = min(1.0, (self.state.global_step + 1) / max(1, self.state.max_steps))
        out = self._pact_loss(logits, batch, progress=progress, totals=self._totals)
        self._terms.sums.add(out)
        loss = out.total * rank_and_count()[1]
        return (loss, {"code_logits": logits.letters}) if return_outputs else loss

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,  # noqa: ARG002
        prediction_loss_only: Any = None,  # noqa: ARG002
        ignore_keys: Any = None,  # noqa: ARG002
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Compute the exact NLL and answer mass of the selection split over all processes."""
        with self.compute_loss_context_manager():
            score = shared_selection_score(self._model, dataloader)
        return EvalLoopOutput(
            predictions=None,  # type: ignore[arg-type]
            label_ids=None,
            metrics={
                f"{metric_key_prefix}_loss": score.nll,
                f"{metric_key_prefix}_answer_mass": score.answer_mass,
            },
            num_samples=len(self._pact_data.primary_views),
        )

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Prefer checkpoints with enough answer mass, as `BestCheckpoint` does; name the others."""
        step, least, mass = self.state.global_step, self._least_answer_mass, "eval_answer_mass"
        earlier = [log for log in self.state.log_history if mass in log and log["step"] < step]
        none_had_enough = all(log[mass] < least for log in earlier)
        if self.args.metric_for_best_model is not None and metrics[mass] < least:
            message = (
                f"step {step}: answer mass {metrics[mass]:.2%}, below {least:.0%}; this checkpoint "
                "is selected only if none has enough (PactWeights(am=1) trains the mass)"
            )
            warnings.warn(message, UserWarning, stacklevel=2)
            if not none_had_enough:
                return False
        elif none_had_enough:
            self.state.best_metric = None  # this one is better than all before
        is_best: bool = super()._determine_best_metric(metrics, trial)
        return is_best

    @property
    def _model(self) -> nn.Module:
        return cast("nn.Module", self.model)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save checkpoint or model, and the record of its training data."""
        super()._save(output_dir, state_dict)
        if self.args.should_save:
            folder = Path(output_dir or str(self.args.output_dir))
            facts = {"steps": self.state.global_step, "seed": self.args.seed}
            self._pact_data.write_record(self._model, folder, facts)


def _datasets(trainer: type, data: PactData, args: Any) -> tuple[Any, Any]:
    """Return what the trainer takes for its datasets; the loaders read `data` itself."""
    if not any(base.__name__ == "SFTTrainer" for base in trainer.__mro__):
        return data.train, data.selection or None
    from datasets import Dataset  # SFTTrainer needs it, and accepts nothing else

    if hasattr(args, "dataset_kwargs"):
        args.dataset_kwargs = {**(args.dataset_kwargs or {}), "skip_prepare_dataset": True}
    train, selection = (
        Dataset.from_dict({"view": list(range(len(views)))}) if views else None
        for views in (data.train, data.selection)
    )
    return train, selection
