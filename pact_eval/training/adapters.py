"""Saving a trained adapter so that `pact-eval score` accepts it.

PEFT writes the weights. `schema_config.json` makes the folder a typed-decision adapter: it records
the prompt contract of the training, the hashes of its tokenizer and chat template, the base model
and the hash of its weights, the arm and the seed. `training_data.json` holds hashes of the data
that the adapter was trained, selected and calibrated on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from pact_eval._files import sha256_of_file, write_atomically, writing
from pact_eval._json import Json
from pact_eval.custody.training_record import (
    TRAINING_RECORD,
    TRAINING_RECORD_KEY,
    TrainingRecord,
    TrainingRole,
    UsedData,
    hash_data,
    write_training_record,
)
from pact_eval.errors import AdapterError
from pact_eval.models.folders import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    SCHEMA_CONFIG,
    read_adapter_files,
    sha256_of_weights,
)
from pact_eval.prompts.contract import ChatTokenizer, PromptContract
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.prompts.training_prompts import TrainingPrompts
from pact_eval.runs.folder import library_versions
from pact_eval.training.recipe_model import peak_memory_bytes

if TYPE_CHECKING:
    from peft import PeftModel


def save_adapter(
    model: PeftModel,
    folder: Path,
    *,
    base: str | Path,
    arm: str | None = None,
    seed: int | None = None,
    tokenizer: ChatTokenizer | None = None,
    contract: PromptContract = NIMBLE,
    max_prompt_tokens: int | None = None,
    revision: str | None = None,
    dtype: torch.dtype = torch.bfloat16,
    facts: Mapping[str, Json] | None = None,
    data: Mapping[TrainingRole, Sequence[UsedData]] | None = None,
    training: Mapping[str, Json] | None = None,
) -> None:
    """Save a LoRA adapter in PEFT's format with its `schema_config.json` and training record.

    Args:
        model: the trained model.
        folder: destination; the files of an existing adapter are replaced once all new ones are
            written.
        base: hub id of the base model, or its folder. As in transformers, a string that names an
            existing folder is a folder. It is written as a path relative to `folder`, with the hash
            of its weights.
        arm: the recipe, for reports.
        seed: training seed.
        tokenizer: tokenizer of the training; None takes the one in the folder `base`. Its hashes
            and those of its chat template are stored, and `pact-eval score` refuses others. With a
            hub id and no tokenizer, they are not stated.
        contract: prompt contract of the training.
        max_prompt_tokens: limit on the length of prompts; the contract's by default.
        revision: revision of a hub model.
        dtype: dtype of the saved weights.
        facts: further keys of `schema_config.json`, none of the above.
        data: what the adapter was trained on, by role: the files, or some of their records. Their
            hashes become `training_data.json`. None writes no such record; outputs then name the
            training data "not stated".
        training: further facts for that record, such as steps and wall_seconds. Recipe, seed, base,
            versions, device and peak memory are added.

    Raises:
        InputError: a file cannot be written, or a data file cannot be read.
        RecordError: a line of a data file is not a record.
        AdapterError: the base folder has no weights, the model has no LoRA layers, it trains other
            weights, which would be lost, or a weight is not a finite number.
        PromptError: the tokenizer cannot render the contract.
        ValueError: `facts` names a reserved key.

    Examples:
        >>> import pact_eval, pact_losses, peft
        >>> from transformers import AutoModelForCausalLM
        >>> base = AutoModelForCausalLM.from_pretrained("model", dtype=torch.float32)
        >>> model = peft.get_peft_model(base, pact_losses.lora_config())
        >>> save_adapter(model, Path("new"), base="model", arm="mine", seed=17)
        >>> pact_eval.audit_adapter("new").checks[0].findings
        ()
    """
    base = Path(base) if Path(base).is_dir() else base
    schema = schema_config(
        base, folder, contract, max_prompt_tokens=max_prompt_tokens,
        base_sha256=sha256_of_base(base), revision=revision,
    )  # fmt: skip
    tokenizer = _tokenizer_of(base) if tokenizer is None else tokenizer
    if tokenizer is not None:
        schema |= TrainingPrompts.of(Encoder(tokenizer, contract)).to_json()
    schema |= {"arm": arm, "seed": seed}
    taken = sorted(set(schema) & set(facts or {}))
    if taken:
        raise ValueError(f"facts: these keys are reserved: {', '.join(taken)}")
    state = _lora_weights(model, dtype)
    used = None if data is None else {role: hash_data(files) for role, files in data.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with writing(folder), TemporaryDirectory(dir=folder, prefix=".", suffix=".tmp") as temporary:
        partial = Path(temporary)
        _save_with_peft(model, partial, state)
        if used is not None:
            stated = training_facts(model, schema) | dict(training or {})
            weights = sha256_of_file(partial / ADAPTER_WEIGHTS)
            record = TrainingRecord(weights, used, stated)
            schema[TRAINING_RECORD_KEY] = write_training_record(partial, record)
        write_json(partial / SCHEMA_CONFIG, schema | dict(facts or {}))
        further = contract.adapter_files()
        for name, text in further.items():
            write_atomically(partial / name, text)
        # Last: `score` refuses a folder without it, so files of two adapters are never mixed.
        (folder / SCHEMA_CONFIG).unlink(missing_ok=True)
        (folder / TRAINING_RECORD).unlink(missing_ok=True)
        recorded = () if used is None else (TRAINING_RECORD,)
        for name in (ADAPTER_WEIGHTS, ADAPTER_CONFIG, *further, *recorded, SCHEMA_CONFIG):
            (partial / name).replace(folder / name)
    contract.check_adapter(read_adapter_files(folder).schema_config or {})


def training_facts(model: Any, schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return what the training record says of a training that has just ended in this process.

    Args:
        model: the trained model.
        schema: the content of its `schema_config.json`.
    """
    device = next(model.parameters()).device
    return {
        "recipe": schema["arm"],
        "seed": schema["seed"],
        "base_sha256": schema["base_weights_sha256"],
        "versions": library_versions(),
        "device": device.type,
        "peak_memory_bytes": peak_memory_bytes(device),
    }


def _save_with_peft(model: PeftModel, folder: Path, state: Mapping[str, torch.Tensor]) -> None:
    """Let PEFT write weights and configuration, and make the configuration the same every time."""
    # By default, PEFT asks the hub for the base's configuration by name.
    model.save_pretrained(str(folder), state_dict=state, save_embedding_layers=False)
    config = json.loads((folder / ADAPTER_CONFIG).read_text("utf-8"))
    if isinstance(config.get("target_modules"), list):
        config["target_modules"].sort()  # a set in memory: its order would vary
    config["base_model_name_or_path"] = _public_name(config.get("base_model_name_or_path"))
    write_json(folder / ADAPTER_CONFIG, config)
    (folder / ADAPTER_WEIGHTS).chmod(0o644)


def schema_config(
    base: str | Path,
    folder: Path,
    contract: PromptContract,
    *,
    max_prompt_tokens: int | None,
    base_sha256: str | None,
    revision: str | None = None,
) -> dict[str, Json]:
    """Return the content of `schema_config.json`, apart from tokenizer, arm and seed.

    Args:
        base: hub id of the base model, or its folder.
        folder: folder of the adapter.
        contract: prompt contract of the training.
        max_prompt_tokens: limit on the length of prompts; the contract's if None.
        base_sha256: hash of the base's weights; None for a hub id.
        revision: revision of a hub model.
    """
    return contract.schema_config() | {
        "model": os.path.relpath(base, folder) if isinstance(base, Path) else base,
        "revision": revision,
        "base_weights_sha256": base_sha256,
        "max_length": max_prompt_tokens or contract.max_prompt_tokens,
    }


def sha256_of_base(base: str | Path) -> str | None:
    """Return the hash of the weights in a base's folder; None for a hub id."""
    return sha256_of_weights(base) if isinstance(base, Path) else None


def _tokenizer_of(base: str | Path) -> ChatTokenizer | None:
    """Load the tokenizer of a base folder; None for a hub id, or a folder without one."""
    if not isinstance(base, Path) or not (base / "tokenizer_config.json").exists():
        return None
    from transformers import AutoTokenizer

    tokenizer: ChatTokenizer = AutoTokenizer.from_pretrained(base, trust_remote_code=False)
    return tokenizer


def _lora_weights(model: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    state = {
        name: weight.detach().to(dtype)
        for name, weight in model.state_dict().items()
        if "lora_" in name
    }
    if not state:
        raise AdapterError("expected a model with LoRA layers, found none")
    lost = [
        name
        for name, weight in model.named_parameters()
        if weight.requires_grad and "lora_" not in name
    ]
    if lost:
        raise AdapterError(
            f"{len(lost)} trained weights are not LoRA weights and would be lost; first: {lost[0]}"
        )
    broken = [name for name, weight in state.items() if not bool(torch.isfinite(weight).all())]
    if broken:
        raise AdapterError(f"{len(broken)} weights are not finite in {dtype}; first: {broken[0]}")
    return state


def _public_name(name: Json) -> Json:
    """Return the name of the base model without local folders."""
    return Path(name).name if isinstance(name, str) and Path(name).exists() else name


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file of an adapter's folder."""
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
