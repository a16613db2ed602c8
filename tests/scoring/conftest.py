"""Real transformers models, randomly initialised, with the tokenizer that ships with us."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import pact_fixtures
from pact_eval.prompts.nimble import NIMBLE
from scoring.user_precision import plant_amx

FIXTURES = Path(pact_fixtures.__file__).parent
MODEL = FIXTURES / "model"
HOLDOUT = FIXTURES / "data" / "holdout.jsonl"


@pytest.fixture
def amx(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor whose float32 products are of bfloat16 factors, if a user allows it."""
    plant_amx(monkeypatch)


Make = Callable[..., Path]


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(MODEL)


def random_model(kind: str, spread: float = 0.15, seed: int = 2, **config: Any) -> Any:
    """A causal language model of a kind such as `Llama`, with weights larger than the default."""
    torch.manual_seed(seed)
    made = getattr(transformers, f"{kind}Config")(**config)
    model = getattr(transformers, f"{kind}ForCausalLM")(made).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, spread)
    return model


SMALL: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16,
}  # fmt: skip


def _saved(model: Any, tokenizer: Any, folder: Path) -> Path:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Larger than the default, so that logits differ by more than rounding.
            if parameter.dim() > 1:
                torch.manual_seed(sum(name.encode()))
                parameter.normal_(0, 0.15)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def qwen3(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = random_model(
        "Qwen3", vocab_size=len(tokenizer), num_hidden_layers=3, max_position_embeddings=4096,
        tie_word_embeddings=False, **SMALL,
    )  # fmt: skip
    return _saved(model, tokenizer, tmp_path_factory.mktemp("qwen3"))


@pytest.fixture(scope="session")
def qwen3_5_shell(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model with linear-attention layers inside a multimodal shell."""
    text = SMALL | {
        "vocab_size": len(tokenizer), "num_hidden_layers": 4, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
        "max_position_embeddings": 4096, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
    }  # fmt: skip
    vision = {
        "depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2,
        "out_hidden_size": 64, "num_position_embeddings": 16,
    }  # fmt: skip
    config = transformers.Qwen3_5Config(text_config=text, vision_config=vision)
    # Decay rates are drawn here: with some, a forked and a plain pass differ by 4e-4.
    torch.manual_seed(2)
    model = transformers.Qwen3_5ForConditionalGeneration(config)
    return _saved(model, tokenizer, tmp_path_factory.mktemp("qwen3_5"))


@pytest.fixture(scope="session")
def make_adapter(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return a function that makes a random LoRA adapter for a base folder."""

    from peft import LoraConfig, get_peft_model

    def make(
        base: Path, *, shell: bool = False, zero: bool = False, rank: int = 4, **schema: Any
    ) -> Path:
        auto = (
            transformers.AutoModelForImageTextToText if shell else transformers.AutoModelForCausalLM
        )
        model = auto.from_pretrained(base)
        config = LoraConfig(
            r=rank,
            lora_alpha=8,
            target_modules=["q_proj", "v_proj", "gate_proj", "down_proj"],
            init_lora_weights=zero,
        )
        torch.manual_seed(7)
        folder = tmp_path_factory.mktemp("adapter")
        get_peft_model(model, config).save_pretrained(str(folder))
        values = {"task": NIMBLE.task, "contract_fingerprint": NIMBLE.fingerprint} | schema
        (folder / "schema_config.json").write_text(json.dumps(values))
        return folder

    return make
