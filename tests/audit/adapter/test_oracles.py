"""Our readers of adapters beside safetensors, torch and PEFT, on files that these wrote."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from math import inf, isfinite, isnan
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from adapters import (
    MODEL,
    config,
    copied,
    counts,
    schema,
    tensors,
    texts,
    without_base,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from peft.tuners.tuners_utils import _ExcludedModule, check_target_module_exists
from peft.utils.other import get_pattern_key
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, load_file, save, save_file

from pact_eval.audit import Collector, audit_adapter
from pact_eval.audit.adapter.config import lora_scale, read_settings
from pact_eval.audit.adapter.targets import by_pattern, targeted
from pact_eval.audit.adapter.values import read_values, relative_difference
from pact_eval.errors import AdapterError
from pact_eval.models import safetensors_header
from pact_eval.prompts import NIMBLE, TrainingPrompts

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


# Against the safetensors library and torch.


@pytest.mark.parametrize("dtype", [*DTYPES.values(), torch.float8_e4m3fn, torch.int8, torch.bool])
def test_the_header_against_safetensors(dtype: torch.dtype, tmp_path: Path) -> None:
    shapes: list[tuple[int, ...]] = [(), (0,), (3,), (4, 5), (2, 3, 4)]
    path = tmp_path / "x.safetensors"
    save_file({f"t{i}": torch.zeros(shape).to(dtype) for i, shape in enumerate(shapes)}, path)
    found = safetensors_header(path)
    with safe_open(path, "pt") as theirs:
        assert {tensor.name for tensor in found} == set(theirs.keys())
        for tensor in found:
            there = theirs.get_slice(tensor.name)
            assert (tensor.dtype, list(tensor.shape)) == (there.get_dtype(), there.get_shape())
            assert tensor.size == theirs.get_tensor(tensor.name).numel()


def packed(header: Any, data: bytes = bytes(8)) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes


BROKEN = {
    "empty": b"",
    "no header": struct.pack("<Q", 0),
    "too long a header": struct.pack("<Q", 1 << 60) + b"{}",
    "no JSON": packed(b"{" * 20),
    "no object": packed([], b""),
    "no UTF-8": packed(b'{"\xff": 1}'),
    "nested": packed(b"[" * 100_000),
    "entry no object": packed({"a": 1}),
    "no dtype": packed({"a": {"shape": [2], "data_offsets": [0, 8]}}),
    "other dtype": packed({"a": entry(dtype="F31")}),
    "no shape": packed({"a": entry(shape=None)}),
    "negative shape": packed({"a": entry(shape=[-2])}),
    "fractional shape": packed({"a": entry(shape=[2.0])}),
    "huge shape": packed({"a": entry(shape=[1 << 62, 1 << 62])}),
    "other size": packed({"a": entry(shape=[3])}),
    "half a number": packed({"a": entry(dtype="F4", shape=[3], data_offsets=[0, 1])}, bytes(1)),
    "one offset": packed({"a": entry(data_offsets=[8])}),
    "negative offset": packed({"a": entry(data_offsets=[-8, 0])}),
    "backwards": packed({"a": entry(data_offsets=[8, 0])}),
    "beyond the end": packed({"a": entry()}, bytes(7)),
    "bytes left over": packed({"a": entry()}, bytes(9)),
    "gap at the start": packed({"a": entry(data_offsets=[4, 12])}, bytes(12)),
    "gap": packed({"a": entry(), "b": entry(data_offsets=[9, 17])}, bytes(17)),
    "overlap": packed({"a": entry(), "b": entry(data_offsets=[4, 12])}, bytes(12)),
    "twice the same data": packed({"a": entry(), "b": entry()}),
    "metadata": packed({"__metadata__": {"format": 1}, "a": entry()}),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_broken_headers_are_refused_by_both(broken: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(broken)
    with pytest.raises((SafetensorError, OSError)):
        load(broken)
    with pytest.raises(AdapterError, match="damaged or cut short"):
        safetensors_header(path)


def test_a_tensor_named_twice_is_refused_though_the_library_takes_it(tmp_path: Path) -> None:
    twice = packed(b'{"a": %b, "a": %b}' % ((json.dumps(entry()).encode(),) * 2))
    assert list(load(twice)) == ["a"]
    (tmp_path / "x.safetensors").write_bytes(twice)
    with pytest.raises(AdapterError, match='duplicate key "a"'):
        safetensors_header(tmp_path / "x.safetensors")


@given(st.data())
@settings(max_examples=60)
def test_random_headers_against_safetensors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "random.safetensors"
    good = bytearray(save({"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}))
    for _ in range(data.draw(st.integers(1, 2))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(good)
    theirs = ours = None
    with suppress(SafetensorError):
        theirs = {name: tuple(tensor.shape) for name, tensor in load(bytes(good)).items()}
    with suppress(AdapterError):
        ours = {tensor.name: tensor.shape for tensor in safetensors_header(path)}
    assert ours == theirs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 7, (1 << 18) - 1, (1 << 18) + 5])
def test_values_against_torch(dtype: str, n: int, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    rng = torch.Generator().manual_seed(n)
    numbers = torch.randn(n, generator=rng).to(DTYPES[dtype])
    numbers[n // 2] = float("nan")
    numbers[-1] = float("-inf")
    other = torch.randn(n, generator=rng).to(DTYPES[dtype])
    zeros = torch.zeros(n, dtype=DTYPES[dtype])
    save_file({"odd": numbers, "zero": zeros, "minus": -zeros, "other": other}, path)
    tensors = {tensor.name: tensor for tensor in safetensors_header(path)}
    found = read_values(path, tensors["odd"])
    assert found.nans == int(numbers.isnan().sum())
    assert found.infinities == int(numbers.isinf().sum())
    assert read_values(path, tensors["zero"]).is_zero
    assert read_values(path, tensors["minus"]).is_zero
    assert not read_values(path, tensors["other"]).is_zero
    assert read_values(path, tensors["other"]).largest == float(other.double().abs().max())
    assert (found.largest, read_values(path, tensors["zero"]).largest) == (inf, 0)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("F8_E4M3", torch.float8_e4m3fn),
        ("F8_E5M2", torch.float8_e5m2),
        ("F8_E4M3FNUZ", torch.float8_e4m3fnuz),
        ("F8_E5M2FNUZ", torch.float8_e5m2fnuz),
    ],
)
def test_every_number_of_eight_bits_against_torch(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    path = tmp_path / "x.safetensors"
    for byte in range(256):
        number = float(torch.tensor([byte], dtype=torch.uint8).view(dtype).float())
        path.write_bytes(
            packed({"a": entry(dtype=name, shape=[1], data_offsets=[0, 1])}, bytes([byte]))
        )
        found = read_values(path, safetensors_header(path)[0])
        assert (found.nans, found.infinities) == (int(isnan(number)), int(abs(number) == inf))
        assert found.is_zero == (number == 0)
        assert found.largest == (abs(number) if isfinite(number) else inf)


@pytest.mark.parametrize("dtype", DTYPES)
def test_relative_difference_against_torch(dtype: str, tmp_path: Path) -> None:
    rng = torch.Generator().manual_seed(17)
    left = torch.randn(600, 500, generator=rng).to(DTYPES[dtype])
    right = (left.double() + 0.1 * torch.randn(600, 500, generator=rng)).float()
    save_file({"a": left}, tmp_path / "left")
    save_file({"a": right}, tmp_path / "right")
    paths = tmp_path / "left", tmp_path / "right"
    infos = [safetensors_header(path)[0] for path in paths]
    difference = torch.linalg.norm(left.double() - right.double())
    larger = max(torch.linalg.norm(left.double()), torch.linalg.norm(right.double()))
    found = relative_difference(paths[0], infos[0], paths[1], infos[1])
    assert found == pytest.approx(float(difference / larger), rel=1e-9)
    assert relative_difference(paths[0], infos[0], paths[0], infos[0]) == 0


def test_relative_difference_of_zeros_and_opposites(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save_file({"0": torch.zeros(3), "1": torch.ones(3), "2": -torch.ones(3)}, path)
    zero, one, minus = sorted(safetensors_header(path), key=lambda tensor: tensor.name)
    assert relative_difference(path, zero, path, zero) == 0
    assert relative_difference(path, one, path, zero) == 1
    assert relative_difference(path, one, path, minus) == 2


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
    wanted = set()
    for name in NAMES:
        found = check_target_module_exists(theirs, name)
        if found and not isinstance(found, _ExcludedModule):
            wanted.add(name)
    ours = read_settings({"r": 1, "lora_alpha": 1, **changes}, Collector("config", 5))
    assert set(targeted(ours, NAMES) or ()) == wanted


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


def test_older_names_of_a_shell(tmp_path: Path) -> None:
    """Checkpoints of before 2025 name a shell's parts otherwise than the loaded model does."""
    for number, (stored, loaded) in enumerate(
        [
            ("language_model.model.layers.0.up_proj", "model.language_model.layers.0.up_proj"),
            ("model.layers.0.up_proj", "model.language_model.layers.0.up_proj"),
            ("language_model.model.layers.0.up_proj", "model.layers.0.up_proj"),
            ("h.0.up_proj", "transformer.h.0.up_proj"),
        ]
    ):
        base, adapter = tmp_path / f"base{number}", copied(tmp_path / f"adapter{number}")
        base.mkdir()
        matrices = {f"{stored}.weight": torch.ones(8, 6), "visual.blocks.0.x.weight": torch.ones(8)}
        save_file(matrices, base / "model.safetensors")
        factors = {"A": torch.ones(16, 6), "B": torch.ones(8, 16)}
        save_file(
            {f"base_model.model.{loaded}.lora_{f}.weight": t for f, t in factors.items()},
            adapter / "adapter_model.safetensors",
        )
        config(target_modules=["up_proj"])(adapter)
        schema(base_weights_sha256=None)(adapter)
        assert not counts(audit_adapter(adapter, base_model=base, keep=5)), stored


def test_experts_and_packed_weights_are_not_guessed_at(tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", copied(tmp_path / "adapter")
    base.mkdir()
    stored = load_file(MODEL / "model.safetensors")
    stored["model.layers.0.mlp.experts.0.up_proj.weight"] = torch.ones(4, 4)
    packed_name = "model.layers.0.mlp.up_proj.weight"
    stored[packed_name] = torch.ones(4, 1, dtype=torch.uint8)
    save_file(stored, base / "model.safetensors")
    schema(base_weights_sha256=None)(adapter)
    audit = audit_adapter(adapter, base_model=base, keep=5)
    assert counts(audit) == {"fit-not-checked": 2}
    assert "1 modules: quantised" in texts(audit, "fit-not-checked")[0]
    assert "1 experts" in texts(audit, "fit-not-checked")[1]


def test_a_hash_or_a_commit_pins_a_base_that_is_not_at_hand(tmp_path: Path) -> None:
    adapter = copied(tmp_path / "adapter")
    without_base(adapter)
    assert set(counts(audit_adapter(adapter, keep=5))) == {"fit-not-checked"}
    schema(revision=None, base_weights_sha256="0" * 64)(adapter)
    assert set(counts(audit_adapter(adapter, keep=5))) == {"fit-not-checked"}
