from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from full_disks import files_of_at_most
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from tolerances import LOGIT

import pact_fixtures
from pact_eval.data.records import read_records
from pact_eval.errors import AdapterError, PactError
from pact_eval.models import sha256_of_weights
from pact_eval.prompts.encoding import STATED_PROMPTS, Encoder, TrainingPrompts
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.scorer import largest_difference, one_by_one
from pact_eval.training import save_adapter
from pact_fixtures.training.base import load_base

FIXTURES = Path(pact_fixtures.__file__).parent
MODEL = FIXTURES / "model"


@pytest.fixture
def model() -> Any:
    torch.manual_seed(3)
    config = LoraConfig(
        task_type="CAUSAL_LM", r=4, target_modules=["v_proj", "q_proj"], init_lora_weights=False
    )
    return get_peft_model(load_base(MODEL)[0], config).eval()


def test_what_was_saved_scores_as_the_model_in_memory(model: Any, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    save_adapter(model, folder, base=MODEL, arm="pact", seed=17, dtype=torch.float32)
    loaded = identify(ModelRequest(folder)).load()
    records = read_records(FIXTURES / "data" / "holdout.jsonl")[:2]
    views = loaded.source.encoder.encode(records, 2, 0)
    ours, theirs = one_by_one(loaded.model, views), one_by_one(model, views)
    assert largest_difference(ours, theirs) < LOGIT


def test_the_folder_says_what_score_asks_for(model: Any, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    save_adapter(model, folder, base=MODEL, arm="pact", seed=17, facts={"selected_step": 300})
    schema = json.loads((folder / "schema_config.json").read_text("utf-8"))
    NIMBLE.check_adapter(schema)
    assert schema["arm"] == "pact"
    assert schema["seed"] == 17
    assert schema["selected_step"] == 300
    assert schema["max_length"] == 2048
    assert schema["base_weights_sha256"] == sha256_of_weights(MODEL)
    stated = {name: schema[name] for name in STATED_PROMPTS}
    assert stated == TrainingPrompts.of(identify(ModelRequest(folder)).encoder).to_json()
    assert (folder / schema["model"]).resolve() == MODEL.resolve()
    lora = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    assert lora["base_model_name_or_path"] == "pact-tiny-qwen3"
    assert lora["target_modules"] == ["q_proj", "v_proj"]
    assert {path.name for path in folder.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "schema_config.json",
    }
    dtypes = {weight.dtype for weight in load_file(folder / "adapter_model.safetensors").values()}
    assert dtypes == {torch.bfloat16}


def test_hub_ids_are_kept_and_paths_of_this_machine_are_not(model: Any, tmp_path: Path) -> None:
    tokenizer = load_base(MODEL)[1]
    save_adapter(
        model, tmp_path / "a", base="Qwen/Qwen3-0.6B", revision="c1899de", tokenizer=tokenizer
    )
    schema = json.loads((tmp_path / "a" / "schema_config.json").read_text("utf-8"))
    assert (schema["model"], schema["revision"]) == ("Qwen/Qwen3-0.6B", "c1899de")
    assert schema["base_weights_sha256"] is None
    assert schema["prompts_sha256"] == Encoder(tokenizer, NIMBLE).fingerprint
    model.peft_config["default"].base_model_name_or_path = str(MODEL)
    save_adapter(model, tmp_path / "b", base=str(MODEL))
    lora = json.loads((tmp_path / "b" / "adapter_config.json").read_text("utf-8"))
    assert lora["base_model_name_or_path"] == "model"
    schema = json.loads((tmp_path / "b" / "schema_config.json").read_text("utf-8"))
    assert schema["base_weights_sha256"] == sha256_of_weights(MODEL)
    assert (tmp_path / "b" / schema["model"]).resolve() == MODEL.resolve()
    assert not Path(schema["model"]).is_absolute()


def test_a_save_that_was_interrupted_leaves_the_adapter_that_was_there(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "adapter"
    save_adapter(model, folder, base=MODEL, seed=1)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model), "save_pretrained", killed)
    with pytest.raises(KeyboardInterrupt):
        save_adapter(model, folder, base=MODEL, seed=2)
    assert json.loads((folder / "schema_config.json").read_text("utf-8"))["seed"] == 1
    assert len(list(folder.iterdir())) == 3
    with pytest.raises(KeyboardInterrupt):
        save_adapter(model, tmp_path / "new", base=MODEL, seed=2)
    with pytest.raises(PactError):
        identify(ModelRequest(tmp_path / "new"))


def test_a_full_disk_leaves_the_adapter_that_was_there(model: Any, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    save_adapter(model, folder, base=MODEL, seed=1)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with files_of_at_most(1000), pytest.raises(Exception, match=r"large|written|error"):
        save_adapter(model, folder, base=MODEL, seed=2)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_trained_weights_that_would_be_lost_are_named(tmp_path: Path) -> None:
    config = LoraConfig(
        task_type="CAUSAL_LM", r=4, target_modules=["v_proj"], modules_to_save=["lm_head"]
    )
    model: Any = get_peft_model(load_base(MODEL)[0], config)
    with pytest.raises(AdapterError, match=r"1 trained weights are not LoRA .*: .*lm_head"):
        save_adapter(model, tmp_path / "adapter", base=MODEL)
    assert not (tmp_path / "adapter").exists()


def test_weights_that_are_no_finite_numbers_are_not_saved(model: Any, tmp_path: Path) -> None:
    weight = next(parameter for parameter in model.parameters() if parameter.requires_grad)
    with torch.no_grad():
        weight[0, 0] = float("nan")
    with pytest.raises(AdapterError, match=r"1 weights are not finite.*lora_"):
        save_adapter(model, tmp_path / "adapter", base=MODEL)
    assert not (tmp_path / "adapter").exists()


def test_a_model_without_lora_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="expected a model with LoRA layers"):
        save_adapter(load_base(MODEL)[0], tmp_path / "adapter", base=MODEL)  # type: ignore[arg-type]


def test_facts_may_not_replace_what_is_written_anyway(model: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="these keys are reserved: seed, task"):
        save_adapter(model, tmp_path / "a", base=MODEL, facts={"task": "x", "seed": 1})
