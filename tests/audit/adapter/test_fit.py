"""Does an adapter fit its base? The audit, which reads names and shapes, against PEFT."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from adapters import MODEL, config, copied, counts, errors, without_base
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from pact_eval.audit.adapter.audit import audit_adapter
from pact_eval.errors import AdapterError
from pact_eval.models import ADAPTER_WEIGHTS, read_adapter_files
from pact_eval.scoring.model import attach_adapter

pytestmark = pytest.mark.slow

Tensors = dict[str, torch.Tensor]
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
MISFITS = {"module-unknown", "shape-misfit", "module-not-adapted", "wrapper-prefix", "no-lora"}
MISFITS |= {"announced-missing", "tensor-unannounced", "half-pair", "rank-mismatch"}


def changed(folder: Path, change: Callable[[Tensors], Tensors]) -> Path:
    path = folder / ADAPTER_WEIGHTS
    stored = {name: value.contiguous().clone() for name, value in change(load_file(path)).items()}
    save_file(stored, path)
    return folder


def renamed(rename: Callable[[str], str]) -> Callable[[Tensors], Tensors]:
    return lambda stored: {rename(name): value for name, value in stored.items()}


def base_model() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(MODEL)


def attaches(folder: Path) -> bool:
    """Whether scoring would take the adapter: PEFT with every key and shape compared."""
    try:
        attach_adapter(base_model(), read_adapter_files(folder))
    except AdapterError:
        return False
    return True


def first(text: str, old: str, new: str) -> str:
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("rename", "with_base", "alone"),
    [
        (lambda name: first(name, "model.layers", "model.language_model.layers"), True, False),
        (lambda name: f"_orig_mod.{name}", True, True),
        (lambda name: first(name, "base_model.model.", "base_model.model._orig_mod."), True, True),
        (lambda name: first(name, "layers.5", "layers.6"), True, False),
        (lambda name: first(name, "model.layers", "transformer.h"), True, False),
    ],
)
def test_keys_of_another_wrapper_or_model_are_errors(
    rename: Callable[[str], str], with_base: bool, alone: bool, tmp_path: Path
) -> None:
    """A base that is at hand shows all of them; without one, the names of wrappers do."""
    adapter = changed(copied(tmp_path / "adapter"), renamed(rename))
    assert not attaches(adapter)
    assert (set(errors(audit_adapter(adapter, keep=20))) != set()) == with_base
    without_base(adapter)
    assert (set(errors(audit_adapter(adapter, keep=20))) != set()) == alone


def test_fan_in_fan_out_of_linear_layers_is_a_note(tmp_path: Path) -> None:
    adapter = copied(tmp_path / "adapter")
    config(fan_in_fan_out=True)(adapter)
    model, settings = base_model(), LoraConfig.from_pretrained(str(adapter))
    with pytest.warns(UserWarning, match="fan_in_fan_out"):
        get_peft_model(model, settings)
    assert attaches(adapter)
    assert counts(audit_adapter(adapter, keep=20)) == {"layout-reset": 1}


def random_settings(rng: np.random.Generator) -> dict[str, Any]:
    """Random targets, ranks and variants of LoRA, as other people's trainings have them."""
    size = int(rng.integers(1, len(LINEAR)))
    targets = [*map(str, rng.choice(LINEAR, size, replace=False))]
    settings: dict[str, Any] = {
        "r": int(rng.integers(1, 9)),
        "lora_alpha": int(rng.integers(1, 33)),
        "use_rslora": bool(rng.random() < 0.3),
        "use_dora": bool(rng.random() < 0.3),
        "fan_in_fan_out": bool(rng.random() < 0.2),
    }
    if rng.random() < 0.3:
        settings["rank_pattern"] = {targets[0]: int(rng.integers(1, 9))}
        settings["alpha_pattern"] = {f"layers.1.*{targets[0]}": 3}
    if rng.random() < 0.3:
        settings["layers_to_transform"] = [*map(int, rng.choice(6, 2, replace=False))]
    elif rng.random() < 0.3:
        settings["exclude_modules"] = ["layers.0.self_attn.q_proj"]
    if rng.random() < 0.3:
        settings["modules_to_save"] = ["lm_head"]
    if rng.random() < 0.3:
        targets.append("embed_tokens")
    elif rng.random() < 0.3 and not settings["use_dora"]:
        settings["lora_bias"] = True
    return settings | {"target_modules": targets}


def trained(folder: Path, settings: dict[str, Any]) -> Path:
    """An adapter that plain PEFT saves, with numbers in all of its factors."""
    model = base_model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped: Any = get_peft_model(model, LoraConfig(**settings))
        for name, parameter in wrapped.named_parameters():
            if "lora_" in name and "magnitude" not in name:
                torch.nn.init.normal_(parameter, 0, 0.05)
        wrapped.save_pretrained(str(folder))
    return folder


def corruptions(rng: np.random.Generator, stored: Tensors) -> dict[str, Callable[[], Tensors]]:
    names = sorted(stored)
    name = str(rng.choice(names))
    layer = rng.integers(6)
    wide = torch.cat([stored[name], stored[name][:1]])
    rest = {key: value for key, value in stored.items() if key != name}
    return {
        "a tensor is lost": lambda: rest,
        "a tensor is longer": lambda: rest | {name: wide},
        "a tensor is there twice": lambda: stored | {first(name, "model.", "model.x."): wide},
        "a layer is another": lambda: {
            first(key, f"layers.{layer}.", "layers.17."): value for key, value in stored.items()
        },
        "half precision": lambda: {key: value.half() for key, value in stored.items()},
    }


@pytest.mark.parametrize("seed", range(12))
def test_random_adapters_against_peft(seed: int, tmp_path: Path) -> None:
    """The audit finds a misfit if and only if scoring refuses the adapter."""
    rng = np.random.default_rng(seed)
    settings = random_settings(rng)
    whole = trained(tmp_path / "whole", settings)
    found = set(errors(audit_adapter(whole, base_model=MODEL, keep=20)))
    assert attaches(whole)
    assert not found & MISFITS, (settings, found)
    for name, corrupt in corruptions(rng, load_file(whole / ADAPTER_WEIGHTS)).items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "adapter_config.json").write_bytes((whole / "adapter_config.json").read_bytes())
        stored = {key: value.contiguous().clone() for key, value in corrupt().items()}
        save_file(stored, folder / ADAPTER_WEIGHTS)
        found = set(errors(audit_adapter(folder, base_model=MODEL, keep=20)))
        assert bool(found & MISFITS) != attaches(folder), (name, settings, found)
