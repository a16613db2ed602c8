"""A registered check appears in the result, in the JSON and in the terminal report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from spoiled_datasets import healthy

from pact_cli.audit.main import main
from pact_eval._choices import DATA_CHECK_NAMES
from pact_eval.audit.adapter.audit import ADAPTER_CHECKS
from pact_eval.audit.context import DataAuditSettings, DataContext, DatasetSource
from pact_eval.audit.dataset import DATA_CHECKS, audit_data
from pact_eval.audit.findings import CODES, Check, CheckResult, Collector


def long_ids(context: DataContext, findings: Collector) -> CheckResult:
    for row, name in enumerate(context.index.frame["id"]):
        if len(name) > 10:
            findings.add("long-id", context.index.place(row), "10 characters at most", name)
    return findings.result(f"{len(context.index):,} ids")


@pytest.fixture
def registered() -> Iterator[None]:
    """One check of a dataset and one of an adapter."""
    DATA_CHECKS["id-lengths"] = Check(
        name="id-lengths",
        question="Are all ids short?",
        run=long_ids,
        codes={"long-id": ("warning", "An id is long.")},
        needs=("records",),
    )
    ADAPTER_CHECKS["readme"] = Check(
        name="readme",
        question="Is there a model card?",
        run=lambda _, collector: collector.result("", skipped="not looked for"),
        codes={},
    )
    yield
    del DATA_CHECKS["id-lengths"], ADAPTER_CHECKS["readme"], CODES["long-id"]


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_a_registered_check_is_in_the_result_the_json_and_the_table(tmp_path: Path) -> None:
    folder = healthy(families=2).write(tmp_path)
    settings = DataAuditSettings(only=("families", "id-lengths"))
    audit = audit_data(DatasetSource.of_folder(folder), settings)
    assert [check.check for check in audit.checks] == ["families", "id-lengths"]
    assert audit.checks[-1].counts == {"long-id": 8}
    value = json.loads(CliRunner().invoke(main, ["data", str(folder), "--json"]).stdout)
    assert value["checks"][-1]["check"] == "id-lengths"
    assert value["checks"][-1]["codes"] == {"long-id": {"severity": "warning", "count": 8}}
    text = CliRunner().invoke(main, ["data", str(folder), "--full"]).stdout
    assert "warning id-lengths/long-id" in text
    assert "8 ids" in text


def test_a_check_whose_needs_are_missing_is_skipped_with_the_reason(tmp_path: Path) -> None:
    folder = healthy(families=2).write(tmp_path)
    source = DatasetSource.of_paths([], train=[folder / "train.jsonl"])
    audit = audit_data(source, DataAuditSettings(only=("hashes", "lengths")))
    reasons = {check.check: check.skipped for check in audit.checks}
    assert reasons == {"hashes": "no --manifest given", "lengths": "no --tokenizer given"}


def test_a_code_belongs_to_one_check() -> None:
    with pytest.raises(ValueError, match="taken: hash-mismatch"):
        Check[DataContext]("new", "?", long_ids, {"hash-mismatch": ("note", "?")})


def test_the_command_line_knows_every_check() -> None:
    assert tuple(DATA_CHECKS) == DATA_CHECK_NAMES
