"""Two adapters side by side: by hand, and against torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from adapters import SHIPPED, config, copied, file, key, tensors
from safetensors.torch import load_file

from pact_eval.audit.adapter.audit import audit_adapter
from pact_eval.audit.adapter.compare import AdapterDifference, compare_adapters


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


def test_an_adapter_beside_its_copy(tmp_path: Path) -> None:
    left, right = copied(tmp_path / "left"), copied(tmp_path / "right")
    audits = [audit_adapter(folder, keep=5) for folder in (left, right)]
    comparison = compare_adapters(*audits)
    assert comparison.differences == ()
    assert comparison.weights is not None
    assert (comparison.weights.identical_bytes, comparison.weights.compared) == (True, 84)
    assert (comparison.weights.largest_difference, comparison.weights.largest_name) == (0, None)


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
    comparison = compare_adapters(*(audit_adapter(folder, keep=5) for folder in (left, right)))
    weights = comparison.weights
    assert weights is not None
    assert not weights.identical_bytes
    assert (weights.only_left, weights.only_right) == ((names[0],), ("other",))
    assert weights.reshaped == (names[1],)
    assert (weights.compared, weights.different, weights.not_compared) == (81, 1, 1)
    assert (weights.largest_difference, weights.largest_name) == (2, names[3])
    rows = {row.name: row for row in comparison.differences}
    assert rows["r"] == AdapterDifference("adapter_config.json", "r", "16", "8")
    assert rows["dtypes"] == AdapterDifference("fact", "dtypes", "BF16", "BF16, F32")
    assert rows["README.md"].left is None
    assert "target_modules" not in rows
