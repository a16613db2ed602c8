"""The check "training" by hand: the record that an adapter states, and its base."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from builders import record, write_jsonl
from custody.adapters import adapter_trained_on
from messages import assert_says

from pact_eval.audit.adapter.audit import audit_adapter
from pact_eval.audit.findings import CheckResult


def training(adapter: Path) -> CheckResult:
    audit = audit_adapter(adapter, keep=20)
    return next(check for check in audit.checks if check.check == "training")


def rows(folder: Path, name: str, *families: str) -> Path:
    records = [record(f"{name}{n}", family=family) for n, family in enumerate(families)]
    return write_jsonl(folder / f"{name}.jsonl", records)


def edit_schema(adapter: Path, **changes: str | None) -> None:
    path = adapter / "schema_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_records_are_counted_by_role(tmp_path: Path) -> None:
    adapter = adapter_trained_on(
        tmp_path / "a",
        train=[rows(tmp_path, "t", "a", "b", "c")],
        selection=[rows(tmp_path, "s", "d", "e")],
        calibration=[rows(tmp_path, "c", "f")],
    )
    result = training(adapter)
    assert result.counts == {}
    assert result.scope.startswith("records: ")
    counts = re.findall(r"(\d+) to (\w+)", result.scope)
    assert counts == [("3", "train"), ("2", "select"), ("1", "calibrate")]


def test_families_of_two_roles_are_counted(tmp_path: Path) -> None:
    adapter = adapter_trained_on(
        tmp_path / "a",
        train=[rows(tmp_path, "t", "a", "b", "c")],
        selection=[rows(tmp_path, "s", "c", "b", "e")],
    )
    (finding,) = training(adapter).findings
    assert (finding.code, finding.actual.split()[0]) == ("roles-overlap", "2")
    assert_says(finding.actual, "data for", "train and selection")


def test_no_record_is_a_note_and_one_that_is_named_must_be_there(tmp_path: Path) -> None:
    adapter = adapter_trained_on(tmp_path / "a")
    result = training(adapter)
    assert (result.counts, result.scope) == ({"training-not-stated": 1}, "not stated")
    edit_schema(adapter, training_data_sha256="ab12")
    assert training(adapter).counts == {"training-missing": 1}


def test_a_record_is_bound_to_its_name_its_bytes_and_its_weights(tmp_path: Path) -> None:
    adapter = adapter_trained_on(tmp_path / "a", train=[rows(tmp_path, "t", "a")])
    edit_schema(adapter, training_data_sha256="ab12")
    assert training(adapter).counts == {"training-edited": 1}
    edit_schema(adapter, training_data_sha256=None)
    assert training(adapter).counts == {"training-unnamed": 1}
    (adapter / "training_data.json").write_text("{")
    assert training(adapter).counts == {"training-unreadable": 1}


def test_a_record_of_other_weights(tmp_path: Path) -> None:
    seen = rows(tmp_path, "t", "a")
    adapter, other = (
        adapter_trained_on(tmp_path / arm, arm=arm, train=[seen])
        for arm in ("pact", "nimble_recipe")
    )
    (other / "adapter_model.safetensors").replace(adapter / "adapter_model.safetensors")
    assert training(adapter).counts == {"training-other-weights": 1}


@pytest.mark.parametrize("named", ["in the schema", "by the folder"])
def test_the_base_of_the_training(tmp_path: Path, named: str) -> None:
    """The base of an adapter is the one whose hash it names, or else the one that is here."""
    seen = rows(tmp_path, "t", "a")
    right = adapter_trained_on(tmp_path / "x", train=[seen])
    schema = json.loads((right / "schema_config.json").read_text())
    sha256 = schema["base_weights_sha256"]
    for stated, code in ((sha256, {}), ("0" * 64, {"training-base-differs": 1})):
        adapter = adapter_trained_on(
            tmp_path / str(stated)[:4], {"base_sha256": stated}, train=[seen]
        )
        if named == "by the folder":
            edit_schema(adapter, base_weights_sha256=None)
        result = training(adapter)
        assert result.counts == code
        assert [finding.actual for finding in result.findings] == [sha256] * len(code)
