"""The tiny base model that ships with the project, and views of its data."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from adapters import MODEL
from transformers import AutoModelForCausalLM, AutoTokenizer

from pact_eval.data.records import read_records
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.training import training_views
from pact_losses import TrainingView, lora_config

DATA = MODEL.parent / "data" / "train.jsonl"


def tiny_base(dtype: torch.dtype = torch.float32) -> Any:
    load: Any = AutoModelForCausalLM.from_pretrained
    return load(MODEL, dtype=dtype).eval()


def with_lora(base: Any, *, seed: int = 0, head: bool = False) -> Any:
    """The base with LoRA whose B matrices are not 0, so that the adapter does something."""
    from peft import get_peft_model

    torch.manual_seed(seed)
    config = lora_config(rank=4, dropout=0.0)
    if head:
        config.target_modules.add("lm_head")
    config.init_lora_weights = False
    return get_peft_model(base, config).eval()


@cache
def views_of_train(families: int) -> tuple[TrainingView, ...]:
    """All views of the first families of the shipped training file."""
    encoder = Encoder(AutoTokenizer.from_pretrained(MODEL), NIMBLE)
    return tuple(training_views(read_records(DATA)[: 2 * families], encoder))


@cache
def short_views(families: int) -> tuple[TrainingView, ...]:
    """The same, cut to the last 30 to 60 tokens: quick, and of many lengths."""
    return tuple(
        replace(view, token_ids=view.token_ids[-30 - 7 * row % 31 :])
        for row, view in enumerate(views_of_train(families))
    )
