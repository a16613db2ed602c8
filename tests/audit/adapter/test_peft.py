"""Targets, patterns, scale and bases as PEFT and transformers write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from adapters import (
    MODEL,
    copied,
    counts,
    schema,
    tensors,
    texts,
    without_base,
)
from peft import LoraConfig, get_peft_model
from peft.tuners.tuners_utils import _ExcludedModule, check_target_module_exists
from peft.utils.other import get_pattern_key
from safetensors.torch import save_file

from pact_eval.audit.adapter.audit import audit_adapter
from pact_eval.audit.adapter.files import lora_scale, read_settings
from pact_eval.audit.adapter.tensors import by_pattern, targeted
from pact_eval.audit.findings import Collector
from pact_eval.prompts.encoding import TrainingPrompts
from pact_eval.prompts.nimble import NIMBLE

pytestmark = pytest.mark.slow

# Against PEFT.

LAYERS = [f"model.layers.{n}" for n in (0, 1, 10)]
LEAVES = ["self_attn.q_proj", "mlp.up_proj", "mlp.experts.1.up_proj"]
NAMES = [f"{layer}.{leaf}" for layer in LAYERS for leaf in LEAVES]
NAMES += ["lm_head", "model.embed_tokens", "q_proj", "visual.blocks.1.attn.q_proj", "h.1.up_proj"]


@pytest.mark.parametrize(
    "changes",
    [
        {"target_modules": ["q_proj"]},
        {"target_modules": ["proj"]},
        {"target_modules": ["model.layers.1.self_attn.q_proj", "lm_head"]},
        {"target_modules": r".*layers\.[01]\..*(q|up)_proj"},
        {"target_modules": "q_proj"},
        {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [1]},
        {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": 10},
        {
            "target_modules": ["q_proj", "up_proj"],
            "layers_to_transform": [1],
            "layers_pattern": ["blocks", "layers"],
        },
        {"target_modules": ["q_proj", "up_proj"], "exclude_modules": ["mlp.up_proj"]},
        {"target_modules": ["q_proj", "up_proj"], "exclude_modules": r".*\.1\..*"},
        {"target_modules": ["q_proj", "lm_head"], "modules_to_save": ["lm_head", "visual"]},
    ],
)
def test_targets_against_peft(changes: dict[str, Any]) -> None:
    theirs = LoraConfig(**changes)
    theirs_targeted = set()
    for name in NAMES:
        is_target = check_target_module_exists(theirs, name)
        if is_target and not isinstance(is_target, _ExcludedModule):
            theirs_targeted.add(name)
    ours = read_settings({"r": 1, "lora_alpha": 1, **changes}, Collector("config", 5))
    assert set(targeted(ours, NAMES) or ()) == theirs_targeted


@pytest.mark.parametrize(
    "pattern",
    [
        {"q_proj": 2, "up_proj": 3},
        {"layers.1.mlp.up_proj": 2, "up_proj": 3},
        {"up_proj": 3, "layers.1.mlp.up_proj": 2},
        {r"layers\.(0|1)\..*": 5, "model.layers.10.self_attn.q_proj": 6},
        {".*": 1, "q_proj": 2},
        {"proj": 2},
    ],
)
def test_rank_patterns_against_peft(pattern: dict[str, int]) -> None:
    ours, _ = by_pattern(pattern, NAMES)
    keys = list(pattern)
    assert {name: ours.get(name, 0) for name in NAMES} == {
        name: pattern.get(get_pattern_key(keys, name), 0) for name in NAMES
    }


def test_the_scale_against_peft_and_by_hand() -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL)
    settings = LoraConfig(r=9, lora_alpha=6, use_rslora=True, target_modules=["q_proj"])
    wrapped: Any = get_peft_model(model, settings)
    layer = wrapped.base_model.model.model.layers[0].self_attn.q_proj
    assert layer.scaling["default"] == lora_scale(6, 9, rslora=True) == 6 / 3
    assert lora_scale(6, 9, rslora=False) == 2 / 3


def fresh(folder: Path, base: Path = MODEL, auto: Any = None, **settings: Any) -> Path:
    """Save an adapter that PEFT has just made, untrained, with our contract beside it."""
    model = (auto or transformers.AutoModelForCausalLM).from_pretrained(base)
    get_peft_model(model, LoraConfig(r=4, lora_alpha=8, **settings)).save_pretrained(str(folder))
    values = {
        "task": NIMBLE.task,
        "contract_fingerprint": NIMBLE.fingerprint,
        "model": str(base),
        "max_length": NIMBLE.max_prompt_tokens,
        **TrainingPrompts.of_folder(MODEL).to_json(),
    }
    (folder / "schema_config.json").write_text(json.dumps(values))
    return folder


@pytest.mark.filterwarnings("ignore::UserWarning")  # PEFT says that it saves whole embeddings
@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ({"target_modules": ["q_proj", "down_proj"]}, set()),
        ({"target_modules": "all-linear"}, set()),
        ({"target_modules": ["q_proj"], "use_dora": True}, set()),
        ({"target_modules": ["q_proj"], "lora_bias": True}, set()),
        ({"target_modules": ["q_proj"], "bias": "all"}, set()),
        ({"target_modules": ["q_proj", "embed_tokens"]}, {"whole-tensors"}),
        ({"target_modules": ["lm_head"]}, {"whole-tensors"}),
        ({"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}, {"whole-tensors"}),
        ({"target_modules": ["q_proj"], "trainable_token_indices": [1, 2]}, {"whole-tensors"}),
        ({"target_modules": r".*layers\.[02]\..*q_proj"}, set()),
        ({"target_modules": ["q_proj"], "layers_to_transform": [1, 4]}, set()),
        ({"target_modules": ["q_proj"], "exclude_modules": ["layers.1.self_attn.q_proj"]}, set()),
        (
            {
                "target_modules": ["q_proj", "v_proj"],
                "rank_pattern": {"layers.0.self_attn.q_proj": 2, "v_proj": 8},
                "alpha_pattern": {"^.*v_proj": 3},
            },
            set(),
        ),
        (
            {"target_modules": [], "target_parameters": ["mlp.gate_proj.weight"]},
            {"fit-not-checked"},
        ),
    ],
    ids=str,
)
def test_a_fresh_adapter_is_untrained_and_nothing_else(
    settings: dict[str, Any], notes: set[str], tmp_path: Path
) -> None:
    audit = audit_adapter(fresh(tmp_path / "adapter", **settings), keep=20)
    assert set(counts(audit)) == {"untrained"} | notes, [texts(audit, c) for c in counts(audit)]


# Bases as they lie on a disk.


def test_a_base_in_shards(tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", copied(tmp_path / "adapter")
    transformers.AutoModelForCausalLM.from_pretrained(MODEL).save_pretrained(
        base, max_shard_size="1MB"
    )
    assert len(list(base.glob("*.safetensors"))) > 2
    schema(model="../base", base_weights_sha256=None)(adapter)
    assert not counts(audit_adapter(adapter, keep=5))
    # Another distribution of the same model beside it is not what transformers loads.
    save_file({"layers.0.attention.wq.weight": torch.ones(2, 2)}, base / "consolidated.safetensors")
    assert not counts(audit_adapter(adapter, keep=5))
    next(base.glob("model-00002*")).unlink()
    assert set(counts(audit_adapter(adapter, keep=5))) == {"base-unusable"}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hybrid language model inside a multimodal shell, as transformers saves it."""
    text = {
        "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
        "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
    }  # fmt: skip
    vision = {
        "depth": 1, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2,
        "out_hidden_size": 32, "num_position_embeddings": 16,
    }  # fmt: skip
    shape = transformers.Qwen3_5Config(text_config=text, vision_config=vision)
    folder = tmp_path_factory.mktemp("shell")
    transformers.Qwen3_5ForConditionalGeneration(shape).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("whole", [True, False], ids=["shell", "language model alone"])
def test_an_adapter_of_a_multimodal_shell(whole: bool, shell: Path, tmp_path: Path) -> None:
    auto = transformers.AutoModelForImageTextToText if whole else transformers.AutoModelForCausalLM
    targets = ["q_proj", "in_proj_qkv", "up_proj", *(["attn.qkv"] if whole else [])]
    adapter = fresh(tmp_path / "adapter", shell, auto, target_modules=targets)
    layers = "model.language_model.layers" if whole else "model.layers"
    audit = audit_adapter(adapter, keep=20)
    assert any(layers in tensor.name for tensor in audit.tensors or ())
    assert set(counts(audit)) == {"untrained"}
    # Without the base, a hybrid's layers are held against their like alone.
    without_base(adapter)
    assert set(counts(audit_adapter(adapter, keep=20))) == {"untrained", "fit-not-checked"}
    tensors(lambda t: [t.pop(n) for n in list(t) if f"{layers}.1.linear_attn" in n])(adapter)
    audit = audit_adapter(adapter, keep=20)
    assert texts(audit, "layers-uneven") == []  # no layer of the kind says what it lacks
    schema(model=str(shell))(adapter)
    audit = audit_adapter(adapter, keep=20)
    assert len(texts(audit, "module-not-adapted")) == 1
