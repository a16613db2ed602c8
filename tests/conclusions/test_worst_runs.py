"""Conclusions on several runs, and on an audit as JSON, against planted cases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import record, write_jsonl
from messages import assert_says
from run_frames import rows, write_run

from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.audit.findings import CheckResult
from pact_eval.errors import InputError
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.headline import worst
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_reports.views.registry import presenter_of
from pact_reports.writers.json import to_json


def test_of_several_seeds_the_worst_is_told(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / f"{seed}", rows(seed, k=k, skill=9.0, families=60), arm="a", seed=seed)
        for seed, k in ((1, 3), (2, 1), (3, 3))
    ]
    experiment = Experiment.read(folders, Settings(resamples=200))
    order = worst([*map(experiment.order, experiment.runs)])
    assert (order.status, order.run) == ("cannot tell", "a, seed 2")


def leaking(home: Path) -> DatasetSource:
    """An evaluation file with a training record in it."""
    names = [f"f{n}-{variant}" for n in range(4) for variant in ("base", "counterfactual")]
    train = write_jsonl(home / "train.jsonl", [record(name) for name in names])
    evaluation = write_jsonl(home / "eval.jsonl", [record(name) for name in names[:2]])
    return DatasetSource.of_paths([], train=(train,), evaluation=(evaluation,))


def shown(check: CheckResult) -> tuple[Any, ...]:
    """What a page shows of a check."""
    places = [(finding.code, finding.place) for finding in check.findings]
    measured = to_json(check.measured)
    return check.check, check.scope, check.skipped, dict(check.counts), places, measured


def test_the_json_of_an_audit_gives_the_same_conclusion(tmp_path: Path) -> None:
    source, settings = leaking(tmp_path), DataAuditSettings()
    audit = audit_data(source, settings)
    value: Any = presenter_of(audit).to_json()
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(value))
    hashes = [audit.facts[1].sha256]
    read, direct = DataConclusion.read(path, hashes), DataConclusion.of_audit(audit)
    assert replace(read, checks=()) == replace(direct, checks=())
    assert [*map(shown, read.checks)] == [*map(shown, direct.checks)]
    other = DataConclusion.read(path, [*hashes, "f" * 64])
    assert other.status == "not checked"
    assert_says(
        other.unchecked[0].reason, "audit.json", "other files than the runs", "(ffffffffffff)"
    )
    path.write_text('{"files": [{"sha256": 3}], "checks": [], "leaks": []}')
    with pytest.raises(InputError, match="`pact-audit data --json`"):
        DataConclusion.read(path, hashes)
