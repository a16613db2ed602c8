"""Adapters and base models that cannot be scored: each is refused with its reason."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from messages import assert_says
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from pact_eval import models as patterns
from pact_eval.errors import AdapterError, ContractMismatchError, PactError, PromptError
from pact_eval.models import (
    SAFE_INITIALISATIONS,
    read_adapter_files,
    sha256_of_weights,
    unsafe_settings,
)
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.model import attach_adapter, identify, resolve_base
from pact_eval.scoring.request import ModelRequest
from pact_eval.templates.files import check_statement, write_contract
from scoring.conftest import FIXTURES, MODEL, Make

ADAPTERS = FIXTURES / "adapters"


@pytest.fixture
def adapter(qwen3: Path, make_adapter: Make) -> Path:
    return make_adapter(qwen3)


def refused(
    adapter: Path | None, base: Path | str | None, kind: type[PactError] = AdapterError
) -> str:
    with pytest.raises(kind) as caught:
        identify(ModelRequest(adapter, None if base is None else str(base))).load()
    return str(caught.value)


def without(*names: str) -> Callable[[Path], object]:
    def remove(folder: Path) -> None:
        for path in [path for name in names for path in folder.glob(name)]:
            path.unlink()

    return remove


def pickled(folder: Path) -> None:
    (folder / "adapter_model.safetensors").unlink()
    (folder / "adapter_model.bin").write_bytes(b"cos\nsystem\n(S'touch owned'\ntR.")


def changed(name: str, **changes: object) -> Callable[[Path], object]:
    """Changes keys of a JSON file of the folder."""
    return lambda folder: (folder / name).write_text(
        json.dumps(json.loads((folder / name).read_text()) | changes)
    )


def cut_to(length: int) -> Callable[[Path], object]:
    def cut(folder: Path) -> None:
        weights = folder / "adapter_model.safetensors"
        weights.write_bytes(weights.read_bytes()[:length])

    return cut


CONFIG = "adapter_config.json"
DAMAGE_OF_ADAPTERS: list[tuple[Callable[[Path], object], tuple[str, ...]]] = [
    (without("*"), ("expected adapter_config.json",)),
    (without("adapter_model.safetensors"), ("expected weights (adapter_model.safetensors)",)),
    (pickled, ("found adapter_model.bin; pickled weights can run code",)),
    (lambda folder: (folder / CONFIG).write_text("{"), ("not valid JSON",)),
    (changed(CONFIG, peft_type="IA3"), ("expected peft_type LORA, got 'IA3'",)),
    *((cut_to(length), ("damaged or cut short",)) for length in (0, 60, -1)),
    # Each of these left score with a traceback of PEFT.
    *(
        (changed(CONFIG, **settings), ("does not fit", "base model"))
        for settings in (
            {"layers_pattern": "layers", "layers_to_transform": None},
            {"target_modules": ".*(q_proj", "layers_to_transform": None},
            {"target_modules": ".*q_proj", "layers_to_transform": [0]},
            {"bias": "some"},
            {"target_modules": [1, 2]},
            {"alpha_pattern": [8]},
            {"lora_bias": True, "use_dora": True},
        )
    ),
]


@pytest.mark.parametrize(("damage", "faults"), DAMAGE_OF_ADAPTERS)
def test_a_damaged_adapter_is_refused(
    qwen3: Path, adapter: Path, damage: Callable[[Path], object], faults: tuple[str, ...]
) -> None:
    damage(adapter)
    assert_says(refused(adapter, qwen3), *faults)


@pytest.mark.parametrize("task", [[], 3])
def test_a_task_that_is_no_text(qwen3: Path, adapter: Path, task: object) -> None:
    changed("schema_config.json", task=task)(adapter)
    assert "schema_config.json has task" in refused(adapter, qwen3, ContractMismatchError)


@pytest.mark.parametrize(
    ("stated", "positions", "limit"),
    [("long", 4096, 2048), (True, 4096, 2048), (-1, 4096, 2048), (None, 4096, 2048),
     (2048, 128, 128)],
)  # fmt: skip
def test_the_longest_prompt_is_that_of_contract_and_base(
    adapter: Path, qwen3: Path, tmp_path: Path, stated: object, positions: int, limit: int
) -> None:
    shutil.copytree(qwen3, tmp_path / "base")
    changed("config.json", max_position_embeddings=positions)(tmp_path / "base")
    changed("schema_config.json", max_length=stated)(adapter)
    scored_model = identify(ModelRequest(adapter, str(tmp_path / "base")))
    assert scored_model.encoder.max_prompt_tokens == limit


_COSTLY = "([a-z_.0-9]+)+X"


@pytest.mark.parametrize(
    "setting",
    [
        {"target_modules": _COSTLY},
        {"exclude_modules": _COSTLY},
        {"rank_pattern": {_COSTLY: 4}},
        {"alpha_pattern": {_COSTLY: 4}},
        {"modules_to_save": [_COSTLY]},
        {"layers_to_transform": [0], "layers_pattern": _COSTLY},
    ],
)
def test_a_regular_expression_that_takes_years_is_refused_before_peft(
    qwen3: Path, adapter: Path, setting: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PEFT matches each of these with the name of every module, and would not come back."""
    monkeypatch.setattr(patterns, "_SECONDS", 0.2)
    changed("adapter_config.json", **setting)(adapter)
    message = refused(adapter, qwen3)
    assert_says(message, "adapter_config.json:", "regular expressions", "longer than 0")


@pytest.mark.slow
def test_regular_expressions_against_those_that_peft_matches(
    qwen3: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every expression of a configuration that PEFT itself tries was tried with a limit before."""
    config = adapter / "adapter_config.json"
    settings = {
        "target_modules": ["q_proj", "v_proj"],
        "exclude_modules": "no.*k",
        "rank_pattern": {"no.*q": 4},
        "alpha_pattern": {"no.*v": 4},
        "modules_to_save": ["no_head+"],
        "layers_to_transform": [0, 1, 2, 3],
        "layers_pattern": ["layers+"],
    }
    config.write_text(json.dumps(json.loads(config.read_text()) | settings))
    guarded: list[str] = []
    tried: set[str] = set()

    def full_matches(expressions: list[str], names: list[str]) -> list[frozenset[str]]:
        guarded.extend(expressions)
        tried.clear()  # from here on, PEFT's
        return patterns_full_matches(expressions, names)

    def compiled(expression: str, *rest: object) -> object:
        tried.add(expression)
        return compile_(expression, *rest)

    patterns_full_matches, compile_ = patterns.full_matches, re._compile  # type: ignore[attr-defined]
    monkeypatch.setattr(patterns, "full_matches", full_matches)
    monkeypatch.setattr(re, "_compile", compiled)
    with suppress(AdapterError):  # the tensors are those of another configuration
        identify(ModelRequest(adapter, str(qwen3))).load()
    parts = ("no.*k", "no.*q", "no.*v", "no_head+", "layers+")
    ours = {guarded_expression.removesuffix("(?s:.*)") for guarded_expression in guarded}
    theirs = {
        peft_expression.removesuffix("$")
        for peft_expression in tried
        if any(part in peft_expression for part in parts)
    }
    assert all(any(part in peft_expression for peft_expression in theirs) for part in parts)
    assert theirs <= ours


@pytest.mark.parametrize(
    "changes",
    [
        {"megatron_config": {"num_layers": 1}, "megatron_core": "owned"},
        {"auto_mapping": {"base_model_class": "Qwen3", "parent_library": "owned"}},
    ],
    ids=lambda changes: str(next(iter(changes))),
)
def test_a_module_that_a_configuration_names_is_never_imported(
    qwen3: Path,
    adapter: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
) -> None:
    """PEFT 0.18.0 to 0.19.1 import it."""
    (tmp_path / "owned.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    changed("adapter_config.json", **changes)(adapter)
    message = refused(adapter, qwen3)
    assert_says(message, "run code", "refused")
    assert "owned" in message
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("name", ["pissa_niter_4", "olora", "corda", "loftq", "lora_ga"])
def test_an_initialisation_that_changes_the_base(qwen3: Path, adapter: Path, name: str) -> None:
    changed("adapter_config.json", init_lora_weights=name)(adapter)
    message = refused(adapter, qwen3)
    assert f'init_lora_weights "{name}"' in message
    assert "path_initial_model_for_weight_conversion" in message
    identify(ModelRequest(adapter, str(qwen3), apply_adapter=False))


@pytest.mark.filterwarnings("ignore:`init_lora_weights` is 'eva' but")
@pytest.mark.parametrize("name", [*SAFE_INITIALISATIONS, True, False, "pissa", "olora"])
def test_initialisations_against_what_peft_does_to_the_base(name: str | bool) -> None:
    torch.manual_seed(5)
    layer = torch.nn.Linear(12, 10)
    before = layer.weight.detach().clone()
    config = LoraConfig(r=4, target_modules=["0"], init_lora_weights=name)  # type: ignore[arg-type]
    config.inference_mode = True
    PeftModel(torch.nn.Sequential(layer), config)
    kept = torch.equal(layer.weight, before)
    assert kept == (not unsafe_settings({"init_lora_weights": name}))


def test_missing_unexpected_and_misshapen_tensors_are_named(qwen3: Path, adapter: Path) -> None:
    path = adapter / "adapter_model.safetensors"
    tensors = load_file(path)
    names = sorted(tensors)
    del tensors[names[0]]
    tensors["base_model.model.model.layers.9.mlp.up_proj.lora_A.weight"] = torch.zeros(4, 64)
    tensors[names[1]] = torch.zeros(4, 3)
    save_file(tensors, path)
    message = refused(adapter, qwen3)
    assert f"1 missing in the adapter: {names[0]}" in message
    assert_says(message, "1 unexpected", "base_model.model.model.layers.9.mlp.up_proj")
    assert f"1 of the wrong shape: {names[1]}: expected" in message


def test_an_adapter_for_another_base_by_its_shapes(
    qwen3_5_shell: Path, qwen3: Path, make_adapter: Make
) -> None:
    message = refused(make_adapter(qwen3_5_shell), qwen3)
    assert_says(message, "does not fit", "need another")


def test_an_adapter_for_another_base_by_its_hash(qwen3: Path, make_adapter: Make) -> None:
    right = make_adapter(qwen3, base_weights_sha256=sha256_of_weights(qwen3))
    identify(ModelRequest(right, str(qwen3)))
    wrong = make_adapter(qwen3, base_weights_sha256="0" * 64)
    assert "trained on another base" in refused(wrong, qwen3)


def test_another_contract_unless_it_is_allowed(qwen3: Path, make_adapter: Make) -> None:
    adapter = make_adapter(qwen3, contract_fingerprint="0" * 64)
    message = refused(adapter, qwen3, ContractMismatchError)
    assert "--allow other-contract" in message
    scored_model = identify(ModelRequest(adapter, str(qwen3), allow_contract_mismatch=True))
    assert "another prompt contract" in (scored_model.contract_mismatch or "")
    contract = scored_model.settings["contract"]
    assert isinstance(contract, dict)
    assert contract["mismatch"] == scored_model.contract_mismatch


def _other_template(base: Path) -> None:
    path = base / "chat_template.jinja"
    path.write_text(path.read_text().replace("assistant", "helper"))


def _other_tokenizer(base: Path) -> None:
    path = base / "tokenizer.json"
    value = json.loads(path.read_text())
    value["model"]["merges"] = value["model"]["merges"][:-700]
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("change", "trained_with"),
    [(_other_template, "another chat template"), (_other_tokenizer, "another tokenizer")],
)
def test_another_chat_template_or_tokenizer_unless_it_is_allowed(
    tmp_path: Path, change: Callable[[Path], None], trained_with: str
) -> None:
    """Accuracy of the shipped adapter fell from 62.5 to 45.8%, without a message."""
    base, adapter = tmp_path / "base", ADAPTERS / "pact"
    shutil.copytree(MODEL, base)
    identify(ModelRequest(adapter, str(base)))
    change(base)
    message = refused(adapter, base, ContractMismatchError)
    assert f"trained with {trained_with}" in message
    assert "--allow other-contract" in message
    scored_model = identify(ModelRequest(adapter, str(base), allow_contract_mismatch=True))
    contract = scored_model.settings["contract"]
    assert isinstance(contract, dict)
    assert trained_with in str(contract["mismatch"])


def test_a_tokenizer_saved_again_is_the_same(tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(MODEL, base)
    AutoTokenizer.from_pretrained(MODEL).save_pretrained(base)
    scored_model = identify(ModelRequest(ADAPTERS / "pact", str(base)))
    assert scored_model.contract_mismatch is None


def test_an_adapter_that_does_not_say_its_contract(qwen3: Path, adapter: Path) -> None:
    (adapter / "schema_config.json").unlink()
    assert "has no schema_config.json" in refused(adapter, qwen3, ContractMismatchError)


def test_the_base_that_the_adapter_names_is_looked_for_beside_it(
    qwen3: Path, make_adapter: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absolute = make_adapter(qwen3, model=str(qwen3))
    assert identify(ModelRequest(absolute)).base.folder == qwen3
    beside = tmp_path / "beside"
    shutil.copytree(make_adapter(qwen3, model="../base"), beside / "adapter")
    shutil.copytree(qwen3, beside / "base")
    # A folder of that name near the current one was once taken instead.
    (tmp_path / "base").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert identify(ModelRequest(beside / "adapter")).base.sha256 == sha256_of_weights(qwen3)


def test_the_places_of_a_base_at_a_relative_path(
    qwen3: Path, make_adapter: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PEFT records `models/base` from the working folder of the training; the first place counts.

    Two parts are also the form of a hub id: the Hub is asked last.
    """
    adapter = tmp_path / "project" / "out" / "adapter"
    shutil.copytree(make_adapter(qwen3, model=None), adapter)
    config = json.loads((adapter / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "models/base"
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    relative = Path("out/adapter")
    message = refused(relative, None)
    places = [Path("out/adapter/models/base"), Path("out/models/base"), Path("models/base")]
    assert_says(
        message, *(f"{place}" for place in places), "on the Hub", "--base-model", "pact.toml"
    )
    for place in reversed(places):
        shutil.copytree(qwen3, place)
        assert identify(ModelRequest(relative)).base.label == str(place)


def test_a_path_that_is_no_hub_id_is_not_looked_for_there(qwen3: Path, make_adapter: Make) -> None:
    for name in ("../gone/base", "/gone/base", "a/b/c"):
        message = refused(make_adapter(qwen3, model=name), None)
        assert name.lstrip("./") in message
        assert "on the Hub" not in message


@pytest.mark.parametrize(
    ("stated", "stated_by", "difference"),
    [
        (None, "user", None),
        ({"model": "x"}, "user", None),
        ({"task": NIMBLE.task}, "user", None),
        ({"task": NIMBLE.task, "contract_fingerprint": NIMBLE.fingerprint}, None, None),
        ({"contract_fingerprint": "0" * 64}, None, "contract_fingerprint"),
        ({"prompt_code_sha256": "0" * 64}, None, "prompt_code_sha256"),
        ({"system_prompt": "Guess."}, None, "system_prompt"),
        ({"task": "another"}, None, "task"),
        ({"contract_stated_by": "user", **NIMBLE.schema_config()}, "user", None),
    ],
)
def test_a_named_contract_states_what_the_files_leave_open(
    stated: dict[str, Any] | None, stated_by: str | None, difference: str | None, adapter: Path
) -> None:
    """And what they say still counts: two statements never compete in silence."""
    (adapter / "schema_config.json").unlink()
    if stated is not None:
        (adapter / "schema_config.json").write_text(json.dumps(stated))
    statement = check_statement(read_adapter_files(adapter), NIMBLE, named=True)
    assert statement.stated_by == stated_by
    assert (difference or "") in (statement.difference or "")
    assert (statement.difference is None) == (difference is None)
    if (stated_by, difference) == ("user", None) and "contract_stated_by" not in (stated or {}):
        write_contract(adapter)
        written = json.loads((adapter / "schema_config.json").read_text())
        assert written.items() >= (stated or {}).items()
        statement = check_statement(read_adapter_files(adapter), NIMBLE, named=False)
        assert (statement.stated_by, statement.difference) == ("user", None)
    else:
        before = [path.read_bytes() for path in sorted(adapter.iterdir())]
        with pytest.raises(AdapterError, match="nothing was written"):
            write_contract(adapter)
        assert [path.read_bytes() for path in sorted(adapter.iterdir())] == before


def test_an_adapted_embedding_is_that_of_peft(qwen3: Path, tmp_path: Path) -> None:
    """PEFT stores the embedding next to its factors; logits are those that PEFT gives."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3)
    targets = ["embed_tokens", "lm_head", "q_proj"]
    wrapped: Any = get_peft_model(model, LoraConfig(r=2, target_modules=targets))
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, 0, 0.1)
    with pytest.warns(UserWarning, match="save_embedding_layers"):
        wrapped.save_pretrained(str(tmp_path / "adapter"))
    base: Any = transformers.AutoModelForCausalLM.from_pretrained(qwen3)
    theirs: Any = PeftModel.from_pretrained(base, str(tmp_path / "adapter")).eval()
    fresh: Any = transformers.AutoModelForCausalLM.from_pretrained(qwen3)
    ours = attach_adapter(fresh, read_adapter_files(tmp_path / "adapter"))
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        assert torch.equal(ours(input_ids=ids).logits, theirs(input_ids=ids).logits)
        with ours.disable_adapter():
            off = ours(input_ids=ids).logits
    assert not torch.equal(off, theirs(input_ids=ids).logits)


def test_code_in_a_checkpoint_is_never_run(
    adapter: Path, qwen3: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base"
    shutil.copytree(qwen3, base)
    config = json.loads((base / "config.json").read_text())
    config |= {
        "model_type": "evil",
        "auto_map": {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"},
    }
    (base / "config.json").write_text(json.dumps(config))
    (base / "evil.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w')")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(PactError):
        identify(ModelRequest(adapter, str(base))).load()
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("change", ["scale", "template"])
def test_what_changes_the_logits_changes_the_settings(
    adapter: Path, qwen3: Path, tmp_path: Path, change: str
) -> None:
    # lora_alpha and the chat template were not in the settings, and an old run was shown for new.
    base = tmp_path / "base"
    shutil.copytree(qwen3, base)
    before = identify(ModelRequest(adapter, str(base))).settings
    path = adapter / "adapter_config.json" if change == "scale" else base / "chat_template.jinja"
    text = path.read_text()
    changed = text.replace('"lora_alpha": 8', '"lora_alpha": 800').replace("assistant", "robot")
    assert changed != text
    path.write_text(changed)
    after = identify(ModelRequest(adapter, str(base))).settings
    assert before != after


def test_a_base_that_is_neither_folder_nor_hub_id(adapter: Path) -> None:
    assert_says(refused(adapter, "pact-tiny"), "folder", "hub id")
    assert_says(refused(adapter, "./a/b"), "folder", "hub id")
    assert "no base model: " in refused(None, None)
    assert "expected a folder" in refused(adapter, "x" * 5000)
    assert "no such adapter folder" in refused(adapter / "none", None)


def test_local_folders_never_reach_for_the_network(
    qwen3: Path, make_adapter: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PEFT looked the base model's name up on the hub while it listed the adapter's tensors.
    lookups: list[object] = []

    def refuse(*arguments: object, **_: object) -> None:
        lookups.append(arguments)
        raise OSError

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    adapter = make_adapter(qwen3)
    changed("adapter_config.json", base_model_name_or_path="organisation/base")(adapter)
    lookups.clear()
    identify(ModelRequest(adapter, str(qwen3))).load()
    assert lookups == []


def test_a_hub_id_without_network_is_told(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    text = refused(adapter, "organisation/model")
    assert_says(text, "HF_HUB_OFFLINE is set", "hf download organisation/model")


def test_a_hub_id_with_a_revision_is_that_snapshot(
    qwen3: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The layout of the cache of huggingface_hub, which reads it without the network.
    commits = ("1" * 40, "2" * 40)
    for commit in commits:
        shutil.copytree(qwen3, tmp_path / "models--organisation--base" / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for commit in commits:
        base = resolve_base(f"organisation/base@{commit}", None)
        assert (base.name, base.revision) == ("organisation/base", commit)
        assert base.folder.name == commit


def pickled_base(base: Path) -> None:
    (base / "model.safetensors").rename(base / "pytorch_model.bin")


def gguf_base(base: Path) -> None:
    (base / "model.safetensors").rename(base / "model.Q4_1.gguf")


def cut_short(base: Path) -> None:
    weights = base / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])


def without_a_tensor(base: Path) -> None:
    tensors = load_file(base / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, base / "model.safetensors", metadata={"format": "pt"})


def without_output(base: Path) -> None:
    tensors = load_file(base / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, base / "model.safetensors", metadata={"format": "pt"})


def with_a_damaged_tokenizer(base: Path) -> None:
    value = json.loads((base / "tokenizer.json").read_text())
    del value["model"]["vocab"][value["model"]["merges"][0][0]]
    (base / "tokenizer.json").write_text(json.dumps(value))


@pytest.mark.parametrize("name", ["cuda", "mps", "xpu"])
def test_a_device_where_there_is_none(name: str, adapter: Path, qwen3: Path) -> None:
    request = ModelRequest(adapter, str(qwen3), device=name)
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None and accelerator.type == name:
        assert identify(request).device.type == name
        return
    with pytest.raises(AdapterError, match=f"no {name.upper()} device"):
        identify(request)


def test_a_gguf_is_refused_with_what_to_do(adapter: Path, tmp_path: Path) -> None:
    """Its weights would have to be dequantised before each run."""
    file = tmp_path / "model-Q4_1.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(AdapterError, match=r"got a GGUF; .*gguf_file=.*save both"):
        identify(ModelRequest(adapter, str(file)))


DAMAGE_OF_BASES: list[tuple[Callable[[Path], object], tuple[str, ...], type[PactError]]] = [
    (pickled_base, ("found pytorch_model.bin; pickled",), AdapterError),
    (gguf_base, ("found model.Q4_1.gguf; load model and tokenizer with gguf_file=",), AdapterError),
    (without_output, ("lm_head.weight; if it equals", "tie_word_embeddings"), AdapterError),
    (cut_short, ("model.safetensors: damaged or cut short",), AdapterError),
    (without_a_tensor, ("1 tensor is missing in the weights: model.layers.1",), AdapterError),
    (without("tokenizer*"), ("expected a tokenizer, found none of",), AdapterError),
    (with_a_damaged_tokenizer, ("the tokenizer cannot be loaded (Token",), AdapterError),
    (without("chat_template.jinja"), ("no chat template", "--contract plain"), PromptError),
    # transformers loads the adapter in silence where trainers saved the tokenizer beside it.
    (
        lambda base: (base / CONFIG).write_text("{}"),
        ("base model, found an adapter",),
        AdapterError,
    ),
    # Each of these left score with a traceback of transformers, or without the reason.
    *(
        (
            changed("config.json", **setting),
            ("base: the ", "cannot be loaded (", *why),
            AdapterError,
        )
        for setting, why in (
            ({"num_attention_heads": 0}, ()),
            ({"num_key_value_heads": 0}, ()),
            ({"rope_parameters": {"rope_type": [], "rope_theta": 100_000.0}}, ()),
            ({"pad_token_id": "x"}, ("pad_token_id", "'x'")),
            ({"text_config": []}, ()),
        )
    ),
]


@pytest.mark.parametrize(("damage", "faults", "kind"), DAMAGE_OF_BASES)
def test_a_damaged_base_is_refused(
    qwen3: Path,
    tmp_path: Path,
    damage: Callable[[Path], object],
    faults: tuple[str, ...],
    kind: type[PactError],
) -> None:
    base = shutil.copytree(qwen3, tmp_path / "base")
    damage(base)
    assert_says(refused(None, base, kind), *faults)


def test_decision_files_are_a_statement_too(adapter: Path) -> None:
    (adapter / "schema_config.json").unlink()
    (adapter / "decision.json").write_text("{}")
    statement = check_statement(read_adapter_files(adapter), NIMBLE, named=True)
    assert "decision files" in (statement.difference or "")
