"""Train with PACT in the Trainer of transformers; TRL's SFTTrainer works likewise.

    python examples/train_transformers.py --steps 8 --learning-rate 1e-3

`per_device_train_batch_size` counts families. Checkpoints and adapter carry their training record.
"""

from __future__ import annotations

from common import Options, Task, shown
from transformers import Trainer, TrainingArguments

from pact_losses import PACT_SETTINGS
from pact_losses.transformers import PactTrainerMixin


class PactTrainer(PactTrainerMixin, Trainer): ...  # noqa: D101 - the base classes say it


def train(task: Task) -> list[float]:
    """Train, and return the loss of every step."""
    options, optimizers = task.options, (task.optimizer, task.schedule)
    args = TrainingArguments(
        str(options.out),
        max_steps=options.steps,
        per_device_train_batch_size=options.pairs_per_batch,
        gradient_accumulation_steps=options.accumulation,
        max_grad_norm=PACT_SETTINGS.max_gradient_norm,
        seed=options.seed,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = PactTrainer(task.model, args, data=task.data, loss=task.loss, optimizers=optimizers)
    trainer.train()
    trainer.save_model()
    shown(trainer.evaluate()["eval_loss"])
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


if __name__ == "__main__":
    task = Task(Options.parse())
    print("loss by step:", *(f"{loss:.4f}" for loss in train(task)))  # noqa: T201
