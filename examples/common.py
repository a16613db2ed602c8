"""Helpers of the examples: options, the model with its adapter, views of the data, a loader.

Defaults are the paper's settings (`PACT_SETTINGS`). The bundled model is tiny: `--learning-rate
1e-3` changes it within a few steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

from pact_eval.custody.hashed_data import UsedData
from pact_eval.data.records import read_records
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.training import ViewPlan, save_adapter, training_views
from pact_losses import (
    PACT_SETTINGS,
    FamilyBatchSampler,
    PactBatch,
    PactCollator,
    PactLoss,
    TrainingView,
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
    out: Path | None = None

    @classmethod
    def parse(cls) -> Options:
        """Read the command line."""
        parser = argparse.ArgumentParser()
        for field in fields(cls):
            kind = Path if field.default is None else type(field.default)
            name = "--" + field.name.replace("_", "-")
            parser.add_argument(name, type=kind, default=field.default, help=f"({field.default})")
        return cls(**vars(parser.parse_args()))


class Task:
    """The model, data and loss of a trainer."""

    def __init__(self, options: Options) -> None:
        torch.manual_seed(options.seed)
        self.options = options
        base = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
        self.model = get_peft_model(base, lora_config(dropout=options.dropout)).train()
        self.tokenizer = tokenizer = AutoTokenizer.from_pretrained(options.model)
        encoder = Encoder(tokenizer, NIMBLE)
        records = read_records(options.data)  # the records of a family are adjacent
        cut = 2 * options.families
        held_out = records[cut : cut + 2 * options.selection_families]
        self.used = UsedData(options.data, records[:cut]), UsedData(options.data, held_out)
        self.views = training_views(records[:cut], encoder, ViewPlan(seed=options.seed))
        self.selection = training_views(held_out, encoder, ViewPlan(permuted=0, ablated=False))
        self.loss = PactLoss()  # the paper's weights, margin and ramp
        self.optimizer = lora_plus_optimizer(self.model, learning_rate=options.learning_rate)
        self.schedule = learning_rate_schedule(self.optimizer, n_steps=options.steps)
        self.sampler = FamilyBatchSampler(self.views, options.pairs_per_batch, seed=options.seed)
        self.collate = PactCollator(tokenizer.pad_token_id)
        self.weights = [
            parameter for parameter in self.model.parameters() if parameter.requires_grad
        ]

    def selection_batches(self, rows: int = 4) -> list[PactBatch]:
        """Divide the selection views into batches of `rows` rows."""
        starts = range(0, len(self.selection), rows)
        return [self.collate(self.selection[start : start + rows]) for start in starts]

    def save(self) -> None:
        """Save the adapter for `pact-eval score`, if `--out` names a folder."""
        o, (train, selection) = self.options, self.used
        if o.out is not None:
            save_adapter(
                self.model,
                o.out,
                base=o.model,
                tokenizer=self.tokenizer,
                arm="pact",
                seed=o.seed,
                data={"train": [train], "selection": [selection]},  # `score` refuses them
                training={"steps": o.steps},
            )


class StepLoader:
    """Yields the batches of one optimiser step at a time, in the order of the sampler's epoch."""

    def __init__(self, task: Task) -> None:
        self.sampler, self.accumulation = task.sampler, task.options.accumulation
        views: Any = task.views
        self.loader: DataLoader[TrainingView] = DataLoader(
            views, batch_sampler=self.sampler, collate_fn=task.collate
        )

    def __len__(self) -> int:
        return -(-len(self.sampler) // self.accumulation)

    def __iter__(self) -> Iterator[list[PactBatch]]:
        batches = iter(self.loader)
        while step := list(islice(batches, self.accumulation)):
            yield step
