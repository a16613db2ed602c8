"""Runs of answers without probabilities, against the same answers given with probabilities.

Whatever probabilities an answer has as the most probable one, accuracy, pairs and flips are the
same. Everything else must be absent, with a reason.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import write_jsonl

from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import read_items
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.evaluation.report import Evaluation
from pact_eval.importing.import_run import import_run
from pact_eval.runs.folder import read_run

OF_ANSWERS = {"accuracy", "pair_accuracy", "flip_rate", "order_accuracy", "score_level_mae"}


def rows(seed: int, *, probabilities: bool) -> list[dict[str, Any]]:
    draw, records = np.random.default_rng(seed), []
    for item in range(80):
        for view in range(2):
            answer = int(item % 3 if draw.random() < 0.7 else draw.integers(3))
            row = {
                "id": f"i{item}",
                "family": f"f{item // 2}",
                "variant": ("base", "counterfactual")[item % 2],
                "reference": item % 3,
                "view": view,
                "kind": "score" if item % 4 == 0 else "choice",
                "code_order": [0, 1, 2] if view == 0 else [2, 1, 0],
            }
            values = [0.2, 0.2, 0.2]
            values[answer] = 0.6
            answer_only: dict[str, Any] = {"answer": answer, "n_choices": 3}
            records.append(row | ({"probabilities": values} if probabilities else answer_only))
    return records


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    for name, seed, probabilities in (("a", 1, False), ("p", 1, True), ("b", 2, False)):
        path = write_jsonl(folder / f"{name}.jsonl", rows(seed, probabilities=probabilities))
        import_run(path, folder / name, {"arm": name, "seed": 1})
    return folder


def evaluation(folder: Path) -> Evaluation:
    experiment = Experiment.read([folder])
    return experiment.evaluation(experiment.runs[0])


def test_what_depends_on_answers_alone_is_the_same(runs: Path) -> None:
    answers, probable = evaluation(runs / "a"), evaluation(runs / "p")
    for group, other in zip(answers.groups, probable.groups, strict=True):
        for name in OF_ANSWERS:
            estimate, expected = group.estimates[name], other.estimates[name]
            assert str(estimate) == str(expected), name  # as text: NaN where a group has none
        assert group.pairs == other.pairs
    assert str(answers.letters) == str(probable.letters)


def test_what_needs_probabilities_is_absent_with_the_reason(runs: Path) -> None:
    report = evaluation(runs / "a")
    for spec in registered_metrics():
        if spec.name not in OF_ANSWERS:
            estimate = report.groups[0].estimates[spec.name]
            assert math.isnan(estimate.value), spec.name
            assert "answers and no probabilities" in str(estimate.reason)
    assert report.groups[0].nll is None
    assert any("no probabilities" in str(note) for note in report.notes)


def test_large_runs_are_read_in_slices_with_the_same_answers(runs: Path) -> None:
    path = runs / "a" / "predictions.parquet"
    items = read_items(path, "single", known="answers")
    assert np.array_equal(items.predicted, Experiment.read([runs / "a"]).runs[0].scored().predicted)
    assert np.isnan(items.confidence).all()
    assert np.isnan(items.values["nll_nats"]).all()
    assert read_run(runs / "a").predictions.known == "answers"
