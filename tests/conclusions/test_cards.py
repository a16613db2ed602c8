"""The cards of a page, against planted cases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from builders import record, write_jsonl
from messages import assert_says
from run_frames import rows, write_run

from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import KEYS
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.experiment_conclusions import (
    Conclusions,
    conclude,
    conclude_runs,
)
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_reports.page.cards import make_cards
from pact_reports.views.registry import presenter_of

NO_AUDIT = DataConclusion.without_audit("no dataset")
SETTINGS = Settings(resamples=200, method="method")


def conclusions(home: Path, method: pl.DataFrame, other: pl.DataFrame | None = None) -> Conclusions:
    folders = [write_run(home / "method", method, arm="method", seed=1)]
    if other is not None:
        folders.append(write_run(home / "other", other, arm="other", seed=1))
    return conclude(Experiment.read(folders, SETTINGS), NO_AUDIT)


def test_a_card_of_one_run_names_the_other(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / arm, rows(1, skill=skill, families=60), arm=arm, seed=1)
        for arm, skill in (("method", 9.0), ("other", 0.0))
    ]
    experiment = Experiment.read(folders, SETTINGS)
    told, runs = conclude(experiment, NO_AUDIT), conclude_runs(experiment, NO_AUDIT)
    (other,) = (run for run in runs if run.run != told.order.run)
    assert other.order.status != told.order.status
    lines = [line for card in make_cards(told, KEYS, runs=runs) for line in card.lines]
    for mark in (other.order.mark, other.probabilities.mark):
        assert sum(mark in line for line in lines) == 1


def test_of_several_seeds_the_worst_is_told(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / f"{seed}", rows(seed, k=k, skill=9.0, families=60), arm="a", seed=seed)
        for seed, k in ((1, 3), (2, 1), (3, 3))
    ]
    worst = conclude(Experiment.read(folders, Settings(resamples=200)), NO_AUDIT)
    assert (worst.order.status, worst.order.run) == ("cannot tell", "a, seed 2")


def leaking(home: Path) -> DatasetSource:
    """An evaluation file with a training record in it."""
    names = [f"f{n}-{variant}" for n in range(4) for variant in ("base", "counterfactual")]
    train = write_jsonl(home / "train.jsonl", [record(name) for name in names])
    evaluation = write_jsonl(home / "eval.jsonl", [record(name) for name in names[:2]])
    return DatasetSource.of_files((train,), (evaluation,), None)


def test_the_json_of_an_audit_gives_the_same_card(tmp_path: Path) -> None:
    source, settings = leaking(tmp_path), DataAuditSettings()
    audit = audit_data(source, settings)
    value: Any = presenter_of(audit).to_json()
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(value))
    hashes = [audit.facts[1].sha256]
    assert DataConclusion.read(path, hashes) == DataConclusion.of_audit(audit)
    other = DataConclusion.read(path, [*hashes, "f" * 64])
    assert other.status == "not checked"
    assert_says(
        other.unchecked[0].reason, "audit.json", "other files than the runs", "(ffffffffffff)"
    )
    path.write_text('{"files": [{"sha256": 3}], "checks": [], "leaks": []}')
    with pytest.raises(InputError, match="`pact-audit data --json`"):
        DataConclusion.read(path, hashes)


def test_a_card_says_why_it_is_empty(tmp_path: Path) -> None:
    empty = replace(conclusions(tmp_path, rows(1)), data=DataConclusion.without_audit("no <data>"))
    cards = make_cards(empty, KEYS)
    assert any("no &lt;data&gt;" in line for line in cards[1].lines)
    assert len(cards) == 5
