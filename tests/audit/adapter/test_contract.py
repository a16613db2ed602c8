"""The checks "contract" and "prompts" on configurations that are written out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from adapters import MODEL, SHIPPED
from messages import assert_says

from pact_eval.audit.adapter.audit import (
    audit_adapter,
    check_contract,
    check_prompts,
    max_length_tokens,
)
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.errors import AdapterError
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.templates.files import DecisionFiles

SCHEMA: dict[str, Any] = json.loads((SHIPPED / "pact" / "schema_config.json").read_text())


def contract(schema: dict[str, Any] | None, decision: DecisionFiles | None = None) -> CheckResult:
    return check_contract(schema, Collector("contract", 20), decision)


def findings_of(result: CheckResult) -> list[tuple[str, str]]:
    return [(finding.code, finding.actual) for finding in result.findings]


def test_the_contract_of_a_shipped_adapter() -> None:
    result = contract(SCHEMA)
    assert findings_of(result) == []
    assert result.scope == f"{len(SCHEMA)} keys of schema_config.json"
    assert findings_of(contract(None)) == [("contract-unknown", "no such file")]


@pytest.mark.parametrize(
    ("value", "tokens", "finding"),
    [
        (NIMBLE.max_prompt_tokens, NIMBLE.max_prompt_tokens, None),
        (1, 1, ("max-length-differs", "1")),
        (4_096, 4_096, ("max-length-differs", "4,096")),
        (0, None, ("max-length-malformed", "max_length is 0")),
        (-1, None, ("max-length-malformed", "max_length is -1")),
        (True, None, ("max-length-malformed", "max_length is True")),
        (2.5, None, ("max-length-malformed", "max_length is a number")),
        (None, None, None),
    ],
)
def test_the_longest_prompt(value: Any, tokens: int | None, finding: Any) -> None:
    schema = SCHEMA | {"max_length": value}
    assert max_length_tokens(schema) == tokens
    codes = findings_of(contract(schema))
    assert [code for code, _ in codes] == ([finding[0]] if finding else [])
    if finding and value != 2.5:
        assert codes == [finding]
    # Decision files state no longest prompt: any number above 0 will do.
    of_template = contract({"max_length": value}, DecisionFiles())
    malformed = [code for code, _ in findings_of(of_template)]
    assert malformed == (["max-length-malformed"] if finding and tokens is None else [])


def test_texts_of_another_type_are_all_told() -> None:
    result = contract(SCHEMA | {"task": 1, "system_prompt": []})
    assert findings_of(result) == [
        ("contract-mismatch", "task is an integer"),
        ("contract-mismatch", "system_prompt is a list"),
    ]


@pytest.mark.parametrize(
    ("task", "is_template"),
    [(None, True), ("decision_template", True), (NIMBLE.task, False), ("other", False)],
)
def test_decision_files_count_unless_another_task_is_stated(
    task: str | None, is_template: bool
) -> None:
    result = contract({"task": task, "max_length": 7}, DecisionFiles())
    assert result.scope.startswith("decision files with ") is is_template
    assert ("generic prompt" in result.scope) is is_template
    assert contract(None, DecisionFiles()).counts == {}


def test_the_fingerprint_of_decision_files() -> None:
    files = DecisionFiles(template="{{ 1 }}")
    right = contract({"contract_fingerprint": files.fingerprint}, files)
    assert right.counts == {}
    assert right.scope.startswith("decision files ")
    assert right.scope.endswith(" its template")
    assert findings_of(contract({"contract_fingerprint": "ab12"}, files)) == [
        ("contract-mismatch", "ab12")
    ]
    assert findings_of(contract({"contract_fingerprint": 3}, files)) == [
        ("contract-mismatch", "an integer")
    ]


# prompts


def prompts(schema: dict[str, Any], base: Path | None) -> CheckResult:
    return check_prompts(schema, base, Collector("prompts", 20))


def test_hashes_of_the_tokenizer() -> None:
    stated: dict[str, Any] = {
        name: SCHEMA[name]
        for name in ("tokenizer_sha256", "chat_template_sha256", "prompts_sha256")
        if name in SCHEMA
    }
    assert len(stated) == 3
    assert findings_of(prompts(stated, MODEL)) == []
    assert prompts(stated, MODEL).scope == "3 hashes"
    one = {"tokenizer_sha256": "0" * 64}
    assert prompts(one, None).scope.startswith("1 hash; ")
    assert_says(prompts(one, None).scope, "no base to compare")
    assert prompts(one, None).counts == {}
    assert prompts(one, MODEL).counts == {"prompts-differ": 1}
    assert findings_of(prompts(stated | {"tokenizer_sha256": 3}, None)) == [
        ("prompts-differ", "an integer")
    ]
    assert prompts({}, MODEL).counts == {"prompts-not-stated": 1}


def test_a_tokenizer_that_cannot_be_read_is_not_compared(tmp_path: Path) -> None:
    assert prompts({"tokenizer_sha256": "0" * 64}, tmp_path).counts == {}
    (tmp_path / "tokenizer.json").write_text("{")
    result = prompts({"tokenizer_sha256": "0" * 64}, tmp_path)
    assert result.counts == {"prompts-not-compared": 1}
    assert result.scope == "1 hash"


# full decision models


def full_model(folder: Path, **decision: Any) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "decision.json").write_text(json.dumps(decision))
    return folder


def test_the_adapter_inside_a_full_model_is_audited(tmp_path: Path) -> None:
    folder = full_model(tmp_path / "model", adapter="inside")
    (folder / "inside").mkdir()
    audit = audit_adapter(folder, keep=20)
    assert audit.facts.base_folder == folder
    codes = {code for check in audit.checks for code in check.counts}
    assert "decision-files-ignored" not in codes
    assert "file-missing" in codes
    assert "base-unknown" not in codes
    assert audit.facts.contract_task == "decision_template"
    assert audit.facts.contract_fingerprint == DecisionFiles(adapter="inside").fingerprint


def test_a_full_model_without_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="names no adapter"):
        audit_adapter(full_model(tmp_path / "model"), keep=20)
