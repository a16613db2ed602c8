"""The check "base" on bases of a few tensors that are written out: names, hashes and shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import assert_says
from safetensors.numpy import save_file

from pact_eval.audit.adapter.base import NamedBase, check_base, named_base
from pact_eval.audit.adapter.context import AdapterContext
from pact_eval.audit.adapter.files import LoraSettings
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.models import TensorInfo, sha256_of_weights

COMMIT = "c1899de289a04d12100db370d81485cdf75e47ca"
Q, V, UP = (
    f"model.layers.0.{name}" for name in ("self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj")
)
SETTINGS = LoraSettings(rank=2, alpha=4.0, targets=("q_proj", "v_proj"))
ONLY_Q = LoraSettings(rank=2, alpha=4.0, targets=("q_proj",))


def base_of(folder: Path, *names: str, rows: int = 4, columns: int = 3, dtype: Any = "f4") -> Path:
    """Write a base whose modules have weights of (rows, columns)."""
    folder.mkdir(exist_ok=True)
    weights = {f"{name}.weight": np.ones((rows, columns), dtype) for name in names}
    save_file(weights | {"model.norm.weight": np.ones(3, "f4")}, folder / "model.safetensors")
    return folder


def named(**changes: Any) -> NamedBase:
    values: dict[str, Any] = {
        "model": "owner/base", "file": "schema_config.json", "revision": COMMIT,
        "weights_sha256": None, "others": {}, "folder": None, "is_brought": False,
    }  # fmt: skip
    return NamedBase(**values | changes)


def factors(
    *modules: str, a: tuple[int, ...] = (2, 3), b: tuple[int, ...] = (4, 2)
) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(f"base_model.model.{module}.lora_{factor}.weight", "F32", shape, 0, 0)
        for module in modules
        for factor, shape in (("A", a), ("B", b))
    )


def checked(
    base: NamedBase,
    folder: Path | None = None,
    tensors: tuple[TensorInfo, ...] | None = None,
    settings: LoraSettings | None = SETTINGS,
) -> CheckResult:
    context = AdapterContext(
        Path(), base_model=folder, tensors=tensors, settings=settings, base=base
    )
    return check_base(context, Collector("base", 50))


def findings_of(result: CheckResult) -> list[tuple[str, str]]:
    return [(finding.code, finding.actual) for finding in result.findings]


def codes(result: CheckResult) -> dict[str, int]:
    return {code: n for code, n in result.counts.items() if code != "fit-not-checked"}


# names


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"revision": None}, "base-unpinned"),
        ({"revision": "main"}, "base-unpinned"),
        ({"revision": COMMIT[:-1]}, "base-unpinned"),
        ({"revision": COMMIT + "0"}, "base-unpinned"),
        ({"revision": None, "weights_sha256": "0" * 64}, None),
        ({"model": None}, "base-unknown"),
        ({"model": "../elsewhere"}, "base-not-found"),
    ],
)
def test_a_base_that_is_not_at_hand(changes: dict[str, Any], code: str | None) -> None:
    result = checked(named(**changes))
    assert result.counts == {"fit-not-checked": 1} | ({code: 1} if code else {})
    assert result.scope == "the base's name"


def test_a_base_that_is_given_needs_no_folder_of_its_own(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", Q, V)
    assert checked(named(model="../elsewhere"), folder, factors(Q, V)).counts == {}
    unpinned = checked(named(revision=None), folder, factors(Q, V))
    assert findings_of(unpinned) == [("base-unpinned", "no revision")]


def test_a_base_inside_the_adapter_is_told(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", Q, V)
    brought = named(folder=folder, is_brought=True)
    assert checked(brought, None, factors(Q, V)).counts == {"fit-not-checked": 1}
    assert "was taken from inside" in checked(brought, None, factors(Q, V)).findings[0].actual
    assert checked(brought, folder, factors(Q, V)).counts == {}
    digest = sha256_of_weights(folder)
    assert (
        checked(
            named(folder=folder, is_brought=True, weights_sha256=digest), None, factors(Q, V)
        ).counts
        == {}
    )
    unpinned = named(folder=folder, is_brought=True, revision="main")
    ((code, text),) = findings_of(checked(unpinned, None, factors(Q, V)))
    assert (code, text.partition(";")[0]) == ("base-unpinned", "the revision main")


def test_a_base_without_a_name_is_the_folder_above(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", Q, V)
    assert checked(named(model=None, folder=folder), None, factors(Q, V)).counts == {}


def test_two_names_are_told_unless_the_hash_decides(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", Q, V)
    twice = {"others": {"schema_config.json": "owner/base", "adapter_config.json": "x"}}
    expected = ("base-named-twice", "owner/base in schema_config.json, x in adapter_config.json")
    assert expected in findings_of(checked(named(**twice)))
    assert findings_of(checked(named(**twice), folder, factors(Q, V))) == [expected]
    digest = sha256_of_weights(folder)
    right = named(**twice, weights_sha256=digest)
    assert checked(right, folder, factors(Q, V)).counts == {}
    wrong = checked(named(**twice, weights_sha256="0" * 64), folder, factors(Q, V))
    assert codes(wrong) == {"base-differs": 1, "base-named-twice": 1}
    assert wrong.findings[0].actual.startswith(digest)
    assert wrong.findings[0].expected.endswith("0" * 64)


@pytest.mark.parametrize(
    ("schema", "config", "file", "differs"),
    [
        ("owner/base", "owner/base", "schema_config.json", False),
        ("owner/Base", "else/base/", "schema_config.json", False),
        ("owner/base", r"c:\models\base", "schema_config.json", False),
        ("owner/base", "owner/other", "schema_config.json", True),
        (None, "owner/other", "adapter_config.json", False),
        ("owner/base", None, "schema_config.json", False),
    ],
)
def test_the_base_that_two_files_name(
    tmp_path: Path, schema: str | None, config: str | None, file: str, differs: bool
) -> None:
    base = named_base(tmp_path, {"base_model_name_or_path": config}, {"model": schema})
    assert (base.model, base.file) == (schema or config, file)
    assert base.others == (
        {"schema_config.json": schema, "adapter_config.json": config} if differs else {}
    )
    assert (base.folder, base.is_brought) == (None, False)


def test_a_folder_of_the_name_is_the_base(tmp_path: Path) -> None:
    (tmp_path / "owner" / "base").mkdir(parents=True)
    brought = named_base(tmp_path, None, {"model": "owner/base"})
    assert (brought.folder, brought.is_brought) == (tmp_path / "owner" / "base", True)
    by_path = named_base(tmp_path, None, {"model": "./owner/base"})
    assert (by_path.folder is not None, by_path.is_brought) == (True, False)
    (tmp_path / "file").write_text("")
    assert named_base(tmp_path, None, {"model": "file"}).folder is None


# shapes


def test_factors_that_fit(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", Q, V, UP)
    result = checked(named(), folder, factors(Q, V))
    assert result.counts == {}
    assert result.scope.startswith("2 modules against 3 weights of ")
    unread = checked(named(), folder)
    ((code, text),) = findings_of(unread)
    assert code == "fit-not-checked"
    assert_says(text, "adapter's tensors", "cannot be read")
    assert unread.scope.startswith("3 weights of ")


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ((2, 4), (4, 2), "A [2, 4] does not read 3 inputs"),
        ((2, 3), (3, 2), "B [3, 2] does not write 4 outputs"),
        ((2, 3, 1), (4, 2), "A [2, 3, 1] does not read 3 inputs"),
    ],
)
def test_factors_that_do_not_fit(
    tmp_path: Path, a: tuple[int, ...], b: tuple[int, ...], text: str
) -> None:
    folder = base_of(tmp_path / "base", Q)
    (finding,) = checked(named(), folder, factors(Q, a=a, b=b), ONLY_Q).findings
    assert (finding.code, finding.actual) == ("shape-misfit", f"{Q}: {text}")
    assert_says(finding.expected, "factors", "weight of [4, 3]")


def test_weights_that_are_stored_the_other_way(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", Q, rows=3, columns=4)
    turned = LoraSettings(rank=2, alpha=4.0, targets=("q_proj",), fan_in_fan_out=True)
    assert checked(named(), folder, factors(Q), turned).counts == {}
    assert codes(checked(named(), folder, factors(Q), ONLY_Q)) == {"shape-misfit": 1}


def test_an_embedding_reads_its_entries(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", "model.embed_tokens", rows=9, columns=4)
    tensors = [
        TensorInfo(
            f"base_model.model.model.embed_tokens.lora_embedding_{factor}", "F32", shape, 0, 0
        )
        for factor, shape in (("A", (2, 9)), ("B", (4, 2)))
    ]
    settings = LoraSettings(rank=2, alpha=4.0, targets=("embed_tokens",))
    assert checked(named(), folder, tuple(tensors), settings).counts == {}


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({"dtype": "i1"}, ONLY_Q),
        ({}, LoraSettings(targets=("q_proj",), variants=("use_qalora",))),
    ],
)
def test_packed_weights_are_not_compared(
    tmp_path: Path, changes: dict[str, Any], settings: LoraSettings
) -> None:
    folder = base_of(tmp_path / "base", Q, **changes)
    result = checked(named(), folder, factors(Q, a=(2, 9)), settings)
    ((code, text),) = findings_of(result)
    assert (code, text.split()[0]) == ("fit-not-checked", "1")
    assert_says(text, "modules", "quantised", "or not plain")


def test_modules_that_only_one_of_both_has(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", Q, UP)
    settings = LoraSettings(rank=2, alpha=4.0, targets=("q_proj", "v_proj", "up_proj", "fc1"))
    assert findings_of(checked(named(), folder, factors(Q, V), settings)) == [
        ("module-unknown", V),
        ("module-not-adapted", UP),
        ("target-unknown", "v_proj"),
        ("target-unknown", "fc1"),
    ]


def test_targets_that_names_do_not_tell(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", Q, UP)
    for settings in (
        LoraSettings(targets="all-linear"),
        LoraSettings(targets=("q_proj", "up_proj"), variants=("layer_replication",)),
        None,
    ):
        result = checked(named(), folder, factors(Q), settings)
        assert [code for code, _ in findings_of(result)] == ["fit-not-checked"]
        assert_says(result.findings[0].actual, "which modules are targets", "names do not show")


def test_experts_may_be_one_parameter(tmp_path: Path) -> None:
    experts = [f"model.layers.0.mlp.experts.{n}.q_proj" for n in range(3)]
    folder = base_of(tmp_path / "base", Q, V, *experts)
    result = checked(named(), folder, factors(Q, V))
    ((code, text),) = findings_of(result)
    assert (code, text.split()[0]) == ("fit-not-checked", "3")
    assert_says(text, "experts", "may not be modules")
    result = checked(named(), folder, factors(Q, V, experts[1]))
    assert findings_of(result) == [("module-not-adapted", experts[n]) for n in (0, 2)]
    others = checked(named(), folder, factors(V))
    assert [code for code, _ in findings_of(others)] == ["module-not-adapted", "fit-not-checked"]


def test_parameters_have_no_shape_of_their_own(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", Q, V)
    settings = LoraSettings(targets=("q_proj", "v_proj"), target_parameters=("mlp.experts.up",))
    result = checked(named(), folder, factors(Q, V, "model.layers.0.mlp.experts"), settings)
    ((code, text),) = findings_of(result)
    assert code == "fit-not-checked"
    assert_says(text, "target_parameters: ", "shapes are not compared")


# names of weights


@pytest.mark.parametrize(
    ("stored", "module"),
    [
        (Q, Q),
        (Q.replace("model.", "model.language_model."), Q),
        (Q.replace("model.", "language_model.model."), Q),
        (
            Q.replace("model.", "language_model.model."),
            Q.replace("model.", "model.language_model."),
        ),
        (Q, Q.replace("model.", "model.language_model.")),
        ("visual.q_proj", "model.visual.q_proj"),
        ("h.0.attn.q_proj", "transformer.h.0.attn.q_proj"),
        ("language_model.lm_head.q_proj", "lm_head.q_proj"),
    ],
)
def test_names_of_weights_in_memory(tmp_path: Path, stored: str, module: str) -> None:
    folder = base_of(tmp_path / "base", stored)
    assert checked(named(), folder, factors(module)).counts.keys() <= {"target-unknown"}


@pytest.mark.parametrize(
    ("stored", "module", "has_head"),
    [("model.embed_tokens", "lm_head", True), ("model.embed_x", "lm_head", False)],
)
def test_an_output_layer_may_be_the_embedding(
    tmp_path: Path, stored: str, module: str, has_head: bool
) -> None:
    folder = base_of(tmp_path / "base", stored)
    settings = LoraSettings(targets=("lm_head",))
    result = checked(named(), folder, factors(module), settings)
    assert ("module-unknown" not in result.counts) is has_head


def test_heads_that_are_not_loaded(tmp_path: Path) -> None:
    folder = base_of(tmp_path / "base", Q, V, "mtp.layers.0.q_proj", "model.mtp.q_proj")
    assert checked(named(), folder, factors(Q, V)).counts == {}


def test_weights_in_parts(tmp_path: Path) -> None:
    folder = tmp_path / "base"
    for number, name in enumerate((Q, V), start=1):
        part = base_of(folder, name) / "model.safetensors"
        part.rename(folder / f"model-{number}-of-2.safetensors")
    assert checked(named(), folder, factors(Q, V)).counts == {}
    index = folder / "model.safetensors.index.json"
    names = [f"model-{number}-of-2.safetensors" for number in (1, 2)]
    index.write_text(json.dumps({"weight_map": {Q: names[0]}}))
    assert findings_of(checked(named(), folder, factors(Q, V)))[0] == ("module-unknown", V)
    for weight_map, text in (
        ({Q: names[0], V: "gone.safetensors"}, "lacks gone.safetensors"),
        ({}, "lacks all"),
        ([], "lacks all"),
    ):
        index.write_text(json.dumps({"weight_map": weight_map}))
        ((code, actual),) = findings_of(checked(named(), folder, factors(Q, V)))
        assert code == "base-unusable"
        assert text in actual
    base_of(folder, Q, V)
    assert checked(named(), folder, factors(Q, V)).counts == {}


def test_suffixes_of_weights(tmp_path: Path) -> None:
    weights = {
        f"{Q}.qweight": np.ones((4, 3), "i4"),
        f"{V}.weight_packed": np.ones((4, 3), "i4"),
        f"{UP}.bias": np.ones((4, 3), "f4"),
    }
    save_file(weights, tmp_path / "model.safetensors")
    result = checked(named(), tmp_path, factors(Q, V, UP))
    absent, (code, text) = findings_of(result)
    assert absent == ("module-unknown", UP)
    assert (code, text.split()[0]) == ("fit-not-checked", "2")
    assert_says(text, "modules", "quantised", "or not plain")
