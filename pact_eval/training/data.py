"""The data of a training for any trainer of `pact_losses`: views of files, and their record."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from pact_eval._files import sha256_of_file, write_atomically
from pact_eval.custody.training_record import (
    TRAINING_RECORD_KEY,
    HashedData,
    TrainingRecord,
    TrainingRole,
    UsedData,
    hash_data,
    write_training_record,
)
from pact_eval.data.records import Record, read_records
from pact_eval.errors import AdapterError
from pact_eval.models.folders import ADAPTER_WEIGHTS, SCHEMA_CONFIG
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.training_prompts import TrainingPrompts
from pact_eval.training.adapters import schema_config, sha256_of_base, training_facts, write_json
from pact_eval.training.recipe_data import cached_training_views
from pact_eval.training.views import DEFAULT_PLAN, ViewPlan, training_views
from pact_losses import PactCollator, PactData, TrainingView

_SELECTION_PLAN = ViewPlan(permuted=0, ablated=False)
"""Of the selection split, the primary views count."""


def training_data(
    train: Path | UsedData,
    encoder: Encoder,
    *,
    base: str | Path,
    selection: Path | UsedData | None = None,
    plan: ViewPlan = DEFAULT_PLAN,
    arm: str | None = None,
    cache: Path | None = None,
) -> PactData:
    """Read and encode the files of a training, for any trainer of `pact_losses`.

    Whenever a trainer saves the adapter, `schema_config.json` and `training_data.json` are written
    next to its weights. So `pact-eval score` accepts every checkpoint, and knows its training data.

    Args:
        train: dataset file, or some of its records.
        encoder: tokenizer and prompt contract of the training.
        base: hub id of the base model, or its folder, as for `save_adapter`.
        selection: the selection split, likewise; none by default.
        plan: the views of a family.
        arm: the recipe, for reports.
        cache: folder of encoded training views; see `cached_training_views`.

    Returns:
        The views, their collator and their record.

    Raises:
        InputError: a file cannot be read.
        RecordError: a line is not a record, or as for `training_views`.
        PromptError: a prompt is over the limit.
        AdapterError: the base folder has no weights.
        ValueError: the tokenizer has neither a padding nor an end token.

    Examples:
        >>> from inspect import signature
        >>> list(signature(training_data).parameters)[:4]
        ['train', 'encoder', 'base', 'selection']
    """
    base = Path(base) if Path(base).is_dir() else base
    used: dict[TrainingRole, UsedData] = {"train": _used(train)}
    views = _views(used["train"], encoder, plan, cache)
    selected: Sequence[TrainingView] = ()
    if selection is not None:
        used["selection"] = _used(selection)
        selected = _views(used["selection"], encoder, _SELECTION_PLAN, None)
    record = _Record(
        base,
        sha256_of_base(base),
        encoder,
        arm,
        {role: hash_data([data]) for role, data in used.items()},
    )
    tokenizer: Any = encoder.tokenizer
    pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    return PactData(views, PactCollator(pad), selected, record)


@dataclass(frozen=True)
class _Record:
    """The `AdapterRecord` of a training on files that were hashed when it began."""

    base: str | Path
    base_sha256: str | None
    encoder: Encoder
    arm: str | None
    roles: Mapping[TrainingRole, HashedData]

    def __call__(self, model: nn.Module, folder: Path, training: Mapping[str, Any]) -> None:
        """Write the record, and `schema_config.json` with its hash."""
        weights = folder / ADAPTER_WEIGHTS
        if not weights.exists():
            message = (
                f"{folder}: expected an adapter with {ADAPTER_WEIGHTS}, found none; train a PEFT "
                "model (peft.get_peft_model), or leave the record out with replace(data, record="
                "None)"
            )
            raise AdapterError(message)
        contract, limit = self.encoder.contract, self.encoder.max_prompt_tokens
        schema = schema_config(
            self.base,
            folder,
            contract,
            max_prompt_tokens=None if limit == sys.maxsize else limit,
            base_sha256=self.base_sha256,
        )
        schema |= TrainingPrompts.of(self.encoder).to_json()
        schema |= {"arm": self.arm, "seed": training.get("seed")}
        facts = training_facts(model, schema) | dict(training)
        record = TrainingRecord(sha256_of_file(weights), self.roles, facts)
        schema[TRAINING_RECORD_KEY] = write_training_record(folder, record)
        for name, text in contract.adapter_files().items():
            write_atomically(folder / name, text)
        write_json(folder / SCHEMA_CONFIG, schema)


def _used(data: Path | UsedData) -> UsedData:
    """The file with the records that are used, as read once."""
    if isinstance(data, UsedData) and data.records is not None:
        return data
    path = data.path if isinstance(data, UsedData) else data
    return UsedData(path, read_records(path))


def _views(
    data: UsedData, encoder: Encoder, plan: ViewPlan, cache: Path | None
) -> list[TrainingView]:
    records: Sequence[Record] = data.records or ()
    source = str(data.path)
    if cache is None:
        return training_views(records, encoder, plan, source=source)
    return cached_training_views(records, encoder, plan, cache, source=source)
