"""A base model of random weights for tests of recipes, and files of a few families."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from experiments.plans import FIXTURES, bundled_lines
from transformers import Qwen3Config, Qwen3ForCausalLM

from pact_eval.training.recipe import RecipeTraining
from pact_eval.training.recipe_data import RecipeFiles

TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
FAMILIES = {"train": ("commerce-01", "media-03"), "selection": ("travel-02", "education-04")}


def write_base(folder: Path) -> Path:
    """Write a Qwen3 of two layers with random weights, and the bundled tokenizer."""
    folder.mkdir(parents=True)
    for name in TOKENIZER:
        shutil.copy(FIXTURES / "model" / name, folder)
    bundled = json.loads((FIXTURES / "model" / "config.json").read_text("utf-8"))
    torch.manual_seed(5)
    config = Qwen3Config(
        vocab_size=bundled["vocab_size"],
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        tie_word_embeddings=False,
    )
    model: Any = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    return folder


def write_files(folder: Path, families: int = 3) -> RecipeFiles:
    """Write a few families to train on and to select with."""
    folder.mkdir(parents=True, exist_ok=True)
    for role, names in FAMILIES.items():
        (folder / f"{role}.jsonl").write_bytes(
            b"".join(bundled_lines("train.jsonl", names, families))
        )
    return RecipeFiles(folder / "train.jsonl", folder / "selection.jsonl")


def of_recipe(
    base: Path, files: RecipeFiles, recipe: str = "pact", **settings: Any
) -> RecipeTraining:
    """Return a training of a recipe on these files."""
    return RecipeTraining(recipe, settings, recipe, 17, str(base), files, device="cpu")
