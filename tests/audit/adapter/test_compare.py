"""Two adapters side by side: by hand, and against torch."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch
from adapters import SHIPPED, config, copied, file, key, tensors
from safetensors.torch import load_file, save_file

from pact_eval.audit.adapter.audit import AdapterAudit, audit_adapter
from pact_eval.audit.adapter.compare import (
    AdapterComparison,
    AdapterDifference,
    WeightsComparison,
    compare_adapters,
)


def test_two_shipped_adapters_side_by_side() -> None:
    audits = [audit_adapter(SHIPPED / name, keep=5) for name in ("nimble_recipe", "pact")]
    comparison = compare_adapters(*audits)
    rows = {(row.topic, row.name): (row.left, row.right) for row in comparison.differences}
    assert rows.pop(("fact", "scale")) == ("2.0", "8.0")
    assert rows.pop(("adapter_config.json", "use_rslora")) == ("false", "true")
    assert rows.pop(("schema_config.json", "arm")) == ("nimble_recipe", "pact")
    left_record, right_record = rows.pop(("schema_config.json", "training_data_sha256"))
    assert left_record != right_record
    assert {topic for topic, _ in rows} == {"file"}
    assert len(rows) == 5
    assert comparison.weights is not None
    assert (comparison.weights.compared, comparison.weights.different) == (84, 84)
    paths = [SHIPPED / name / "adapter_model.safetensors" for name in ("nimble_recipe", "pact")]
    left, right = (load_file(path) for path in paths)
    apart = {
        name: float(
            torch.linalg.norm(left[name].double() - right[name].double())
            / max(torch.linalg.norm(left[name].double()), torch.linalg.norm(right[name].double()))
        )
        for name in left
    }
    largest = max(apart, key=lambda name: apart[name])
    assert comparison.weights.largest_name == largest
    assert comparison.weights.largest_difference == pytest.approx(apart[largest], rel=1e-9)


def test_one_adapter_changed_in_every_way(tmp_path: Path) -> None:
    left, right = copied(tmp_path / "left"), copied(tmp_path / "right")
    names = [key(layer, "self_attn.q_proj", "A") for layer in range(5)]

    def change(loaded: dict[str, torch.Tensor]) -> None:
        loaded.pop(names[0])
        loaded["other"] = torch.ones(1)
        loaded[names[1]] = torch.ones(8, 192)
        loaded[names[2]] = loaded[names[2]].to(torch.float32)
        loaded[names[3]] = -loaded[names[3]]
        loaded[names[4]][0, 0] = float("nan")

    tensors(change)(right)
    # PEFT saves sets in any order.
    order = ["v_proj", "up_proj", "q_proj", "o_proj", "k_proj", "gate_proj", "down_proj"]
    config(target_modules=order, r=8)(right)
    file("README.md", "x")(right)
    audits = [audit_adapter(folder, keep=5) for folder in (left, right)]
    comparison, backwards = compare_adapters(*audits), compare_adapters(*audits[::-1])
    weights = comparison.weights
    assert weights is not None
    assert backwards.weights is not None
    assert not weights.identical_bytes
    assert (weights.only_left, weights.only_right) == ((names[0],), ("other",))
    assert weights.reshaped == backwards.weights.reshaped == (names[1],)
    assert (weights.compared, weights.different, weights.not_compared) == (81, 1, 1)
    assert (weights.largest_difference, weights.largest_name) == (2, names[3])
    rows = {row.name: row for row in comparison.differences}
    assert rows["r"] == AdapterDifference("adapter_config.json", "r", "16", "8")
    assert rows["dtypes"] == AdapterDifference("fact", "dtypes", "BF16", "BF16, F32")
    assert rows["README.md"].left is None
    assert "target_modules" not in rows


# adapters of a few numbers that are written out


def tiny(folder: Path, tensors: dict[str, Any], **config: Any) -> AdapterAudit:
    folder.mkdir()
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q", "v"]}
    (folder / "adapter_config.json").write_text(json.dumps(settings | config))
    save_file(tensors, folder / "adapter_model.safetensors")
    return audit_adapter(folder, keep=5)


def factors(*modules: str, a: float = 1.0, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    return {
        f"base_model.model.{module}.lora_{part}.weight": torch.full(shape, number).to(dtype)
        for module in modules
        for part, shape, number in (("A", (2, 3), a), ("B", (4, 2), 1.0))
    }


def rows_of(comparison: AdapterComparison) -> dict[str, tuple[str | None, str | None]]:
    return {row.name: (row.left, row.right) for row in comparison.differences}


def test_facts_of_a_tiny_adapter(tmp_path: Path) -> None:
    modules = ("h.0.q", "h.0.v", "h.1.q", "g.1.q", "lm_head")
    facts = tiny(tmp_path / "a", factors(*modules), use_rslora=True).facts
    assert (facts.n_modules, facts.n_layers, facts.n_parameters) == (5, 3, 5 * (6 + 8))
    assert (facts.scale, facts.dtypes) == (4 / 2**0.5, {"F32": 10})
    assert (facts.base_model, facts.contract_task, facts.max_length_tokens) == (None, None, None)


def test_equal_numbers_in_other_bytes(tmp_path: Path) -> None:
    left = tiny(tmp_path / "a", factors("h.0.q"))
    right = tiny(tmp_path / "b", factors("h.0.q", dtype=torch.float64))
    weights = compare_adapters(left, right).weights
    assert weights == WeightsComparison(
        identical_bytes=False, only_left=(), only_right=(), reshaped=(), compared=2, different=0,
        not_compared=0, largest_difference=0.0, largest_name=None,
    )  # fmt: skip


def test_the_largest_difference_by_hand(tmp_path: Path) -> None:
    """A of 1 and 4: 3 of 4; A of 1 and 2: 1 of 2."""
    lefts = factors("h.0.q", "h.1.q")
    rights = factors("h.0.q", a=2.0) | factors("h.1.q", a=4.0)
    left, right = tiny(tmp_path / "a", lefts), tiny(tmp_path / "b", rights)
    weights = compare_adapters(left, right).weights
    assert weights is not None
    assert (weights.compared, weights.different, weights.not_compared) == (4, 2, 0)
    assert weights.largest_difference == pytest.approx(3 / 4)
    assert weights.largest_name == "base_model.model.h.1.q.lora_A.weight"


@pytest.mark.parametrize("shared", [False, True])
def test_nothing_to_compare(tmp_path: Path, shared: bool) -> None:
    """Either no tensor is in both, or their numbers are not read."""
    left = tiny(tmp_path / "a", factors("h.0.q", dtype=torch.int8))
    right = tiny(
        tmp_path / "b", factors("h.0.q" if shared else "h.0.v", a=2, dtype=torch.int8), r=3
    )
    comparison = compare_adapters(left, right)
    weights = comparison.weights
    assert weights is not None
    assert (weights.compared, weights.different, weights.not_compared) == (0, 0, 2 * shared)
    assert isnan(weights.largest_difference)
    assert weights.largest_name is None
    assert (len(weights.only_left), len(weights.only_right)) == ((0, 0) if shared else (2, 2))
    assert rows_of(comparison)["r"] == ("2", "3")
    assert rows_of(comparison)["scale"] == ("2.0", repr(4 / 3))


def test_the_same_bytes_are_not_read_again(tmp_path: Path) -> None:
    left, right = (tiny(tmp_path / name, factors("h.0.q")) for name in "ab")
    for audit in (left, right):
        (audit.folder / "adapter_model.safetensors").unlink()
    weights = compare_adapters(left, right).weights
    assert weights is not None
    assert (weights.identical_bytes, weights.compared, weights.different) == (True, 2, 0)
    assert (weights.largest_difference, weights.not_compared) == (0.0, 0)


def test_tensors_that_cannot_be_read_are_not_compared(tmp_path: Path) -> None:
    left, right = (tiny(tmp_path / name, factors("h.0.q")) for name in "ab")
    (right.folder / "adapter_model.safetensors").write_bytes(b"{}")
    damaged = audit_adapter(right.folder, keep=5)
    assert compare_adapters(left, damaged).weights is None
    assert compare_adapters(damaged, left).weights is None
    rows = rows_of(compare_adapters(left, damaged))
    assert (rows["modules"], rows["parameters"]) == (("1", None), ("14", None))


def test_lists_that_peft_saves_in_any_order(tmp_path: Path) -> None:
    left = tiny(tmp_path / "a", factors("h.0.q"), modules_to_save=["a", "b"], layers=[1, 2])
    right = tiny(tmp_path / "b", factors("h.0.q"), modules_to_save=["b", "a"], layers=[2, 1])
    rows = rows_of(compare_adapters(left, right))
    assert "modules_to_save" not in rows
    assert rows["layers"] == ("[1, 2]", "[2, 1]")
