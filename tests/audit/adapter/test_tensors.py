"""The check "tensors" on a few small tensors that are written out: every boundary by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import assert_says
from safetensors.numpy import save_file

from pact_eval.audit.adapter.base import NamedBase
from pact_eval.audit.adapter.context import AdapterContext
from pact_eval.audit.adapter.files import LoraSettings
from pact_eval.audit.adapter.tensors import check_tensors, group_tensors, layer_module
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.models import TensorInfo, safetensors_header

PREFIX = "base_model.model."
Q = "model.layers.0.self_attn.q_proj"
QV = LoraSettings(rank=2, alpha=4.0, targets=("q_proj", "v_proj"))
Arrays = dict[str, Any]


def factors(*modules: str, a: Any = 0.5, b: Any = 0.5, rank: int = 2) -> Arrays:
    """Return A (rank, 3) and B (4, rank) of each module, filled with a number."""
    arrays: Arrays = {}
    for module in modules:
        arrays[f"{PREFIX}{module}.lora_A.weight"] = np.full((rank, 3), a, dtype=np.float32)
        arrays[f"{PREFIX}{module}.lora_B.weight"] = np.full((4, rank), b, dtype=np.float32)
    return arrays


def embedding(module: str, a: float, b: float) -> Arrays:
    return {
        f"{PREFIX}{module}.lora_embedding_A": np.full((2, 9), a, dtype=np.float32),
        f"{PREFIX}{module}.lora_embedding_B": np.full((3, 2), b, dtype=np.float32),
    }


def layers(*numbers: int, leaves: str = "qv") -> Arrays:
    return factors(*(f"model.layers.{n}.self_attn.{leaf}_proj" for n in numbers for leaf in leaves))


def checked(
    folder: Path, arrays: Arrays, settings: LoraSettings | None = QV, *, compare: bool = False
) -> CheckResult:
    path = folder / "adapter_model.safetensors"
    save_file(arrays, path)
    base = NamedBase(folder=None if compare else folder)
    tensors = safetensors_header(path)
    context = AdapterContext(folder, tensors=tensors, settings=settings, base=base)
    return check_tensors(context, Collector("tensors", 100))


def findings_of(result: CheckResult) -> list[tuple[str, str]]:
    return [(finding.code, finding.actual) for finding in result.findings]


def test_sound_factors_and_their_sizes(tmp_path: Path) -> None:
    result = checked(tmp_path, layers(0, 1), compare=True)
    assert findings_of(result) == []
    assert result.scope == f"8 tensors, 4 modules, {4 * (2 * 3 + 4 * 2)} numbers"


@pytest.mark.parametrize(
    ("size", "negligible"), [(0.9e-6, True), (1.1e-6, False), (1.1e-7, True), (1, False)]
)
def test_the_bound_of_an_update_by_hand(tmp_path: Path, size: float, negligible: bool) -> None:
    """Scale 4/2, two terms a number, A of 1/4: the bound is B itself."""
    result = checked(tmp_path, factors(Q, a=-0.25, b=size))
    assert result.counts == ({"update-negligible": 1} if negligible else {})
    if negligible:
        assert result.findings[0].actual.endswith(f"above {size:.2g}")


@pytest.mark.parametrize("settings", [None, LoraSettings(rank=2, targets=("q_proj",))])
def test_an_unknown_scale_bounds_nothing(tmp_path: Path, settings: LoraSettings | None) -> None:
    assert checked(tmp_path, factors(Q, b=1e-20), settings).counts == {}


@pytest.mark.parametrize(
    ("a", "b", "code"), [(0.5, 0, "module-untrained"), (0, 0.5, "factor-zero")]
)
def test_one_factor_of_zeros(tmp_path: Path, a: float, b: float, code: str) -> None:
    """B starts at zero; of an embedding, A does."""
    other = "model.layers.1.self_attn.q_proj"
    assert findings_of(checked(tmp_path, factors(other) | factors(Q, a=a, b=b))) == [(code, Q)]
    tokens = LoraSettings(rank=2, alpha=4.0, targets=("q_proj", "embed_tokens"))
    arrays = factors(Q) | embedding("model.embed_tokens", b, a)
    assert findings_of(checked(tmp_path, arrays, tokens)) == [(code, "model.embed_tokens")]


def test_two_factors_of_zeros_and_a_module_that_works(tmp_path: Path) -> None:
    arrays = factors("model.layers.1.self_attn.q_proj") | factors(Q, a=0, b=0)
    result = checked(tmp_path, arrays)
    assert findings_of(result) == [("module-untrained", Q), ("factor-zero", Q)]


def test_modules_of_which_each_has_a_factor_of_zeros_change_nothing(tmp_path: Path) -> None:
    arrays = factors(Q, a=0) | factors("model.layers.1.self_attn.q_proj", b=0)
    result = checked(tmp_path, arrays)
    assert result.counts == {"untrained": 1}
    assert result.findings[0].actual.startswith("all 2 modules")


@pytest.mark.parametrize(
    ("rank", "stored", "fits"), [(2, 2, True), (2, 4, False), (4, 2, False), (None, 4, True)]
)
def test_ranks(tmp_path: Path, rank: int | None, stored: int, fits: bool) -> None:
    settings = LoraSettings(rank=rank, alpha=4.0, targets=("q_proj",))
    result = checked(tmp_path, factors(Q, rank=stored), settings)
    assert result.counts == ({} if fits else {"rank-mismatch": 1})
    if not fits:
        assert result.findings[0].expected == f"A of {rank} rows and B of {rank} columns"
        assert result.findings[0].actual == f"{Q}: A [{stored}, 3], B [4, {stored}]"


@pytest.mark.parametrize(
    ("a", "b"),
    [((2,), (4, 2)), ((2, 3), (4,)), ((2, 0), (4, 2)), ((2, 3), (4, 3)), ((3, 2), (2, 2))],
)
def test_shapes_that_do_not_multiply(
    tmp_path: Path, a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    name = f"{PREFIX}{Q}.lora_"
    arrays = {f"{name}A.weight": np.ones(a, "f4"), f"{name}B.weight": np.ones(b, "f4")}
    result = checked(tmp_path, arrays, LoraSettings(targets=("q_proj",)))
    assert result.counts == {"rank-mismatch": 1}
    assert_says(result.findings[0].expected, "A of r rows", "B of r columns")


@pytest.mark.parametrize(("stored", "fits"), [(6, True), (2, True), (5, False)])
def test_experts_hold_several_ranks(tmp_path: Path, stored: int, fits: bool) -> None:
    settings = LoraSettings(rank=2, alpha=4.0, target_parameters=("mlp.experts.up_proj",))
    result = checked(tmp_path, factors("model.layers.0.mlp.experts", rank=stored), settings)
    assert result.counts == ({} if fits else {"rank-mismatch": 1})


@pytest.mark.parametrize("lacking", ["A", "B"])
def test_half_a_pair(tmp_path: Path, lacking: str) -> None:
    arrays = factors(Q, "model.layers.0.self_attn.v_proj")
    del arrays[f"{PREFIX}{Q}.lora_{lacking}.weight"]
    assert findings_of(checked(tmp_path, arrays)) == [("half-pair", f"{Q} without {lacking}")]


def test_a_scale_of_a_pattern(tmp_path: Path) -> None:
    """q_proj has scale 8/2 of its patterns, v_proj the usual 4/2; both patterns are used."""
    settings = LoraSettings(
        rank=2, alpha=4.0, rank_pattern={"k_proj": 1}, alpha_pattern={"q_proj": 8.0, "x": 1.0},
        targets=("q_proj", "v_proj"),
    )  # fmt: skip
    arrays = factors(Q, "model.layers.0.self_attn.v_proj", a=0.25, b=0.6e-6)
    result = checked(tmp_path, arrays, settings)
    assert findings_of(result) == [
        ("pattern-unused", "none for k_proj"),
        ("pattern-unused", "none for x"),
    ]
    assert checked(tmp_path, arrays).counts == {"update-negligible": 1}


# targets and announced tensors


def test_modules_off_target_and_targets_without_module(tmp_path: Path) -> None:
    settings = LoraSettings(rank=2, alpha=4.0, targets=("k_proj", "v_proj"))
    arrays = layers(0)
    assert findings_of(checked(tmp_path, arrays, settings)) == [("module-off-target", Q)]
    assert findings_of(checked(tmp_path, arrays, settings, compare=True)) == [
        ("module-off-target", Q), ("target-unused", "none for k_proj")
    ]  # fmt: skip
    unknown = LoraSettings(rank=2, alpha=4.0, targets="all-linear")
    assert checked(tmp_path, arrays, unknown, compare=True).counts == {}


def others(*names: str) -> Arrays:
    return {name: np.ones(2, "f4") for name in names}


@pytest.mark.parametrize(
    ("name", "changes", "announced"),
    [
        ("lm_head.weight", {"modules_to_save": ("lm_head",)}, True),
        ("lm_head.weight", {"modules_to_save": ("head",)}, False),
        ("lm_head.weight", {}, False),
        (f"{Q}.base_layer.weight", {}, True),
        ("model.embed_tokens.base_layer.weight", {}, False),
        ("model.embed_tokens.token_adapter.deltas", {"trains_tokens": True}, True),
        ("model.embed_tokens.token_adapter.deltas", {}, False),
        ("model.norm.bias", {"bias": "all"}, True),
        ("model.norm.bias", {"bias": "lora_only"}, True),
        ("model.norm.bias", {}, False),
        ("model.norm.weight", {"bias": "all"}, False),
        ("model.norm.lora_x.bias", {"bias": "all"}, False),
    ],
)
def test_full_tensors_are_announced(
    tmp_path: Path, name: str, changes: dict[str, Any], announced: bool
) -> None:
    settings = LoraSettings(rank=2, alpha=4.0, targets=("q_proj",), **changes)
    counts = checked(tmp_path, factors(Q) | others(PREFIX + name), settings).counts
    code = "whole-tensors" if announced else "tensor-unannounced"
    missing = {"announced-missing": 1} if changes == {"modules_to_save": ("head",)} else {}
    assert counts == {code: 1} | missing


def test_the_longest_key_and_another_prefix(tmp_path: Path) -> None:
    settings = LoraSettings(rank=2, alpha=4.0, targets=("q_proj",), bias="all")
    for length, code in ((500, "whole-tensors"), (501, "tensor-unannounced")):
        name = PREFIX + "x" * (length - len(PREFIX) - 5) + ".bias"
        assert len(name) == length
        assert checked(tmp_path, factors(Q) | others(name), settings).counts == {code: 1}
    arrays = factors(Q) | others("model.norm.bias")
    assert checked(tmp_path, arrays, settings).counts == {"tensor-unannounced": 1}
    for length in (500, 501):
        module = "x" * (length - len(PREFIX) - len(".lora_A.weight"))
        tensor = TensorInfo(f"{PREFIX}{module}.lora_A.weight", "F32", (2, 2), 0, 16)
        assert len(tensor.name) == length
        assert list(group_tensors([tensor]).modules) == [module] * (length == 500)


def test_announced_tensors_are_counted(tmp_path: Path) -> None:
    settings = LoraSettings(rank=2, alpha=4.0, targets=("q_proj",), bias="all")
    arrays = factors(Q) | others(f"{PREFIX}a.bias", f"{PREFIX}b.bias", f"{PREFIX}c.bias")
    assert findings_of(checked(tmp_path, arrays, settings)) == [
        ("whole-tensors", f"3 tensors, such as {PREFIX}a.bias")
    ]


@pytest.mark.parametrize(
    ("option", "part"), [("use_dora", "magnitude_vector"), ("lora_bias", "B.bias")]
)
def test_parts_of_a_variant(tmp_path: Path, option: str, part: str) -> None:
    v_proj = "model.layers.0.self_attn.v_proj"
    arrays = factors(Q, v_proj) | others(f"{PREFIX}{Q}.lora_{part}")
    settings = LoraSettings(rank=2, alpha=4.0, targets=("q_proj", "v_proj"), **{option: True})  # type: ignore[arg-type]
    result = checked(tmp_path, arrays, settings)
    assert findings_of(result) == [("announced-missing", f"none for {v_proj}")]
    assert result.findings[0].expected == f"lora_{part} for {option}"
    assert findings_of(checked(tmp_path, arrays)) == [
        ("tensor-unannounced", f"{PREFIX}{Q}.lora_{part}")
    ]


def test_an_embedding_has_no_bias_but_a_magnitude(tmp_path: Path) -> None:
    arrays = embedding("model.embed_tokens", 0.5, 0.5)
    for option, n_missing in (("lora_bias", 0), ("use_dora", 1)):
        settings = LoraSettings(rank=2, alpha=4.0, targets=("embed_tokens",), **{option: True})  # type: ignore[arg-type]
        counts = checked(tmp_path, arrays, settings).counts
        assert counts == {"announced-missing": 1} if n_missing else counts == {}


# numbers


def test_numbers_that_are_not_finite_are_counted_by_tensor(tmp_path: Path) -> None:
    arrays = factors(Q)
    arrays[f"{PREFIX}{Q}.lora_A.weight"][0, :2] = np.nan
    arrays[f"{PREFIX}{Q}.lora_B.weight"][:3, 0] = (np.inf, np.nan, -np.inf)
    assert findings_of(checked(tmp_path, arrays)) == [
        ("not-finite", f"{PREFIX}{Q}.lora_A.weight: 2 NaN, 0 infinite of 6"),
        ("not-finite", f"{PREFIX}{Q}.lora_B.weight: 1 NaN, 2 infinite of 8"),
    ]


def test_types_that_cannot_be_read(tmp_path: Path) -> None:
    arrays = {name: array.astype(np.int8) for name, array in factors(Q).items()}
    settings = LoraSettings(rank=2, alpha=4.0, targets=("q_proj",), bias="all")
    arrays[f"{PREFIX}norm.bias"] = np.ones(2, np.int64)
    assert findings_of(checked(tmp_path, arrays, settings)) == [
        ("factor-type", "2 tensors of I8"),
        ("whole-tensors", f"1 tensors, such as {PREFIX}norm.bias"),
        ("values-not-checked", "1 tensors of I64"),
    ]


# layers


@pytest.mark.parametrize(
    ("numbers", "missing"),
    [
        ((0, 1, 2), None),
        ((1, 2, 3), "0"),
        ((0, 1, 3), "2"),
        ((1, 3, 5), None),
        ((2, 4, 6), "0, 1, 3, 5"),
        ((3, 7, 11), None),
        ((4,), None),
        ((0, 24), None),
        ((0, 1, 25), ", ".join(map(str, range(2, 22)))),
    ],
)
def test_layers_between_others(
    tmp_path: Path, numbers: tuple[int, ...], missing: str | None
) -> None:
    result = checked(tmp_path, layers(*numbers), compare=True)
    assert findings_of(result) == ([("layers-missing", f"no layer {missing}")] if missing else [])
    if missing:
        expected = f"model.layers from 0 to {max(numbers)}, or evenly spaced"
        assert result.findings[0].expected == expected


def test_layers_that_adapt_fewer_modules(tmp_path: Path) -> None:
    arrays = layers(0, 2) | layers(1, leaves="q") | layers(3, leaves="v")
    result = checked(tmp_path, arrays, compare=True)
    assert findings_of(result) == [
        ("layers-uneven", "no model.layers.1.self_attn.v_proj"),
        ("layers-uneven", "no model.layers.3.self_attn.q_proj"),
    ]
    assert result.findings[0].expected.startswith("v_proj, ")
    assert_says(result.findings[0].expected, "as in other layers")
    assert checked(tmp_path, arrays, compare=False).counts == {}
    assert checked(tmp_path, arrays, None, compare=True).counts == {}


def test_modules_right_in_a_layer_have_no_block(tmp_path: Path) -> None:
    arrays = factors("h.0.q_proj", "h.0.v_proj", "h.1.q_proj")
    assert findings_of(checked(tmp_path, arrays, compare=True)) == [
        ("layers-uneven", "no h.1.v_proj")
    ]


def test_blocks_that_share_no_module_are_of_two_kinds(tmp_path: Path) -> None:
    arrays = layers(0, 1, leaves="q") | layers(2, 3, leaves="v")
    assert checked(tmp_path, arrays, compare=True).counts == {}


@pytest.mark.parametrize(
    ("changes", "picks"),
    [
        ({}, False),
        ({"targets": ".*"}, True),
        ({"layers": (0, 2)}, True),
        ({"excluded": ("k_proj",)}, True),
        ({"excluded": ()}, False),
        ({"variants": ("layer_replication",)}, True),
        ({"variants": ("use_qalora",)}, False),
        ({"targets": ("q_proj", "v_proj", "layers.2.self_attn.v_proj")}, True),
        ({"targets": ("q_proj", "v_proj", "w2")}, False),
    ],
)
def test_a_configuration_that_picks_layers(
    tmp_path: Path, changes: dict[str, Any], picks: bool
) -> None:
    usual: dict[str, Any] = {"rank": 2, "alpha": 4.0, "targets": ("q_proj", "v_proj")}
    settings = LoraSettings(**usual | changes)
    counts = checked(tmp_path, layers(0, 1, 3), settings, compare=True).counts
    assert ("layers-missing" in counts) is not picks


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("h.0.q", ("h", 0, "", "q")),
        ("a.b.12.c.d.e", ("a.b", 12, "c.d", "e")),
        ("a.1.b.2.c", ("a", 1, "b.2", "c")),
        ("a.123456789.c", ("a", 123456789, "", "c")),
        ("a.1234567890.c", None),
        ("a.1.b.1234567890.c", ("a", 1, "b.1234567890", "c")),
        ("0.q", None),
        ("a.0", None),
        ("a.x1.b", None),
        ("a.²³.b", None),
    ],
)
def test_the_place_of_a_module(name: str, place: tuple[Any, ...] | None) -> None:
    assert layer_module(name) == place


def test_tensors_by_module() -> None:
    names = ("A.weight", "B.weight", "B.bias", "magnitude_vector", "A.default.weight")
    tensors = [TensorInfo(f"{PREFIX}q.lora_{part}", "F32", (2, 2), 0, 16) for part in names]
    lora = group_tensors([*tensors, TensorInfo("q.lora_A.weight", "F32", (2, 2), 0, 16)])
    (module,) = lora.modules.values()
    assert (module.name, list(module.parts)) == ("q", list(names[:4]))
    assert module.a is not None
    assert (module.a.name, module.is_embedding) == (f"{PREFIX}q.lora_A.weight", False)
    assert [tensor.name for tensor in lora.others] == [tensors[4].name, "q.lora_A.weight"]
    half = group_tensors([TensorInfo(f"{PREFIX}e.lora_embedding_A", "F32", (2, 2), 0, 16)])
    assert half.modules["e"].is_embedding
    assert half.modules["e"].b is None
