"""A built-in recipe on a second base: another architecture, another tokenizer, a multimodal shell.

The language model has layers of linear attention. Its tokenizer has two tokens per letter, with and
without a leading space. Nothing in the recipe knows this base.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from experiments.plans import FIXTURES
from peft import PeftModel
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from training.recipe_bases import of_recipe, write_files
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
)

from pact_eval.api import audit_adapter, score
from pact_eval.data.records import read_records
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.training.recipe import train_recipe
from pact_eval.training.recipe_data import RecipeFiles

pytestmark = pytest.mark.slow

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
END, PAD = "<|end|>", "<|pad|>"
TEMPLATE = (
    "{% for message in messages %}{{ message.role + ': ' + message.content + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'assistant:\\n' }}{% endif %}"
)


def write_tokenizer(folder: Path) -> Any:
    """Write a byte-level BPE of the bundled texts, with a chat template of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=[PAD, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = (FIXTURES / "data" / "holdout.jsonl").read_text("utf-8").splitlines()
    letters = [" ".join(LETTERS)] * 10_000  # so that each letter after a space is one token
    tokenizer.train_from_iterator([*text[:60], *letters], trainer)
    make: Any = PreTrainedTokenizerFast  # untyped
    fast = make(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD)
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    return fast


@pytest.fixture(scope="module")
def second_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("second") / "base"
    tokenizer = write_tokenizer(folder)
    text = {
        "vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16, "max_position_embeddings": 4096,
        "pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id,
    }  # fmt: skip
    vision = {
        "depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2,
        "out_hidden_size": 64, "num_position_embeddings": 16,
    }  # fmt: skip
    torch.manual_seed(2)
    model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=text, vision_config=vision))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:  # larger than the default: answers that differ
                parameter.normal_(0, 0.15)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RecipeFiles:
    return write_files(tmp_path_factory.mktemp("files"), families=2)


@pytest.fixture(scope="module")
def adapter(
    second_base: Path, files: RecipeFiles, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("trained") / "adapter"
    train_recipe(of_recipe(second_base, files, epochs=1, precision="float32"), out)
    return out


def test_each_letter_has_two_tokens(second_base: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(second_base)
    ids = [tokenizer.encode(form, add_special_tokens=False) for form in (*LETTERS, " A", " Z")]
    assert all(len(tokens) == 1 for tokens in ids)
    assert len({tokens[0] for tokens in ids}) == 28


def test_lora_is_in_the_language_model_alone_and_the_audit_accepts_it(
    adapter: Path, second_base: Path
) -> None:
    weights = load_file(adapter / "adapter_model.safetensors")
    layers = [re.search(r"\.layers\.(\d)\.(?:self_attn|mlp)\.(\w+)", name) for name in weights]
    adapted = {match.groups() for match in layers if match is not None}
    assert None not in layers
    assert not any("visual" in name for name in weights)
    # Three layers of linear attention, which has no q_proj, and then one of full attention.
    assert {layer for layer, part in adapted if part == "down_proj"} == {"0", "1", "2", "3"}
    assert {layer for layer, part in adapted if part == "q_proj"} == {"3"}
    assert any(weights[name].abs().sum() > 0 for name in weights if "lora_B" in name)
    audit = audit_adapter(adapter, base_model=second_base)
    assert sum(check.count("error") for check in audit.checks) == 0


def test_scores_against_transformers_and_peft(
    adapter: Path, second_base: Path, tmp_path: Path
) -> None:
    data = tmp_path / "holdout.jsonl"
    lines = (FIXTURES / "data" / "holdout.jsonl").read_bytes().splitlines(keepends=True)
    data.write_bytes(b"".join(lines[:6]))
    score(data, tmp_path / "run", adapter=adapter, base_model=str(second_base), k=2)
    rows = pl.read_parquet(tmp_path / "run" / "predictions.parquet")
    load: Any = AutoModelForCausalLM.from_pretrained
    model = PeftModel.from_pretrained(load(second_base, dtype=torch.float32), str(adapter)).eval()
    encoder = Encoder(AutoTokenizer.from_pretrained(second_base), NIMBLE)
    for record in read_records(data)[:3]:
        view = encoder.encode([record], k=1, seed=0)[0]
        with torch.no_grad():
            last = model(input_ids=torch.tensor([view.token_ids])).logits[0, -1]
        chosen = rows.filter((pl.col("id") == record.id) & (pl.col("view") == 0))
        logits = torch.tensor(chosen["logits"][0].to_list())
        expected = last[list(view.code_tokens)].to(torch.float64)
        assert torch.allclose(
            logits.to(torch.float64).log_softmax(-1), expected.log_softmax(-1), atol=2e-4
        )
