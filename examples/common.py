"""Helpers of the examples: options, and the model with its optimiser and data.

Defaults are the paper's settings (`PACT_SETTINGS`). The bundled model is tiny: `--learning-rate
1e-3` changes it within a few steps.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from pact_eval.custody import UsedData
from pact_eval.data.records import read_records
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.training import ViewPlan, training_data
from pact_losses import (
    PACT_SETTINGS,
    PactLoss,
    learning_rate_schedule,
    lora_config,
    lora_plus_optimizer,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "pact_fixtures"


@dataclass(frozen=True)
class Options:
    """The options of every example: `--learning-rate` and so on."""

    steps: int = PACT_SETTINGS.n_steps(16)  # the paper's epochs over 16 families
    families: int = 16
    selection_families: int = 4
    seed: int = PACT_SETTINGS.seeds[0]
    learning_rate: float = PACT_SETTINGS.learning_rate
    dropout: float = PACT_SETTINGS.dropout
    pairs_per_batch: int = PACT_SETTINGS.pairs_per_batch
    accumulation: int = PACT_SETTINGS.accumulation
    model: Path = FIXTURES / "model"
    data: Path = FIXTURES / "data" / "train.jsonl"
    out: Path = Path("runs/example-adapter")

    @classmethod
    def parse(cls) -> Options:
        """Read the command line."""
        parser = argparse.ArgumentParser()
        for field in fields(cls):
            kind: Any = Path if isinstance(field.default, Path) else type(field.default)
            name = "--" + field.name.replace("_", "-")
            parser.add_argument(name, type=kind, default=field.default, help=f"({field.default})")
        return cls(**vars(parser.parse_args()))


class Task:
    """The model, data, loss and optimiser of a training."""

    def __init__(self, options: Options) -> None:
        torch.manual_seed(options.seed)
        self.options = options
        base = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
        self.model = get_peft_model(base, lora_config(dropout=options.dropout)).train()
        encoder = Encoder(AutoTokenizer.from_pretrained(options.model), NIMBLE)
        records = read_records(options.data)  # the records of a family are adjacent
        cut = 2 * options.families
        held_out = records[cut : cut + 2 * options.selection_families]
        self.data = training_data(
            UsedData(options.data, records[:cut]),
            encoder,
            base=options.model,
            selection=UsedData(options.data, held_out),
            plan=ViewPlan(seed=options.seed),
            arm="pact",
        )
        self.loss = PactLoss()  # the paper's weights, margin and ramp
        self.optimizer = lora_plus_optimizer(self.model, learning_rate=options.learning_rate)
        self.schedule = learning_rate_schedule(self.optimizer, n_steps=options.steps)
        self.batching: dict[str, Any] = {
            "families_per_batch": options.pairs_per_batch,
            "accumulation": options.accumulation,
            "seed": options.seed,
        }
        self.facts = {"steps": options.steps, "seed": options.seed}  # for the training record


def shown(nll: float) -> None:
    """Print the NLL of the selection split."""
    print(f"selection NLL {nll:.4f} nats")  # noqa: T201
