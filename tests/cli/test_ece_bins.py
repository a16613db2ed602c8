"""The number of bins of the ECE against the metric itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import runner, with_settings
from conclusions.planted import Plan, scaled

from pact_cli.main import main
from pact_eval import metrics
from pact_eval.evaluation.items import ScoredItems
from pact_eval.runs.folder import read_run

BINS = 30


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = Plan(families=60, k=1, change=scaled(2))
    return plan.write(tmp_path_factory.mktemp("bins") / "first", 3)


def test_ece_in_as_many_bins_as_are_asked_for(run: Path, tmp_path: Path) -> None:
    items = ScoredItems.of(read_run(run).predictions, "single")
    words = ("report", run, "--resamples", 100, "--json")
    printed = runner(main)(*words, **with_settings(tmp_path, "report", ece_bins=BINS)).stdout
    ece = json.loads(printed)["answer"]["probabilities"]["ece"]
    assert ece["bins"] == BINS
    assert ece["value"] == pytest.approx(metrics.ece(items.confidence, items.correct, BINS))
    assert ece["value"] != pytest.approx(metrics.ece(items.confidence, items.correct))
