"""One call of `register_metric` puts a metric into report, comparison, JSON, tables and page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from evaluations import evaluate
from run_frames import ablated_predictions, ablated_rows, predictions, rows, write_run

from pact_eval.evaluation.comparison import compare
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import ScoredItems, read_items
from pact_eval.evaluation.registry import (
    _REGISTRY,
    Metric,
    MetricSpec,
    find_metric,
    register_metric,
    registered_metrics,
)
from pact_eval.evaluation.report import evaluate_items
from pact_eval.evaluation.settings import Settings
from pact_eval.metrics import ItemBlock
from pact_reports.request import Request
from pact_reports.table import Table
from pact_reports.views.arms import arms_parts
from pact_reports.views.registry import presenter_of
from pact_reports.views.report import evaluation_parts
from pact_reports.writers.files import build_tables
from pact_reports.writers.json import to_json


def margin(block: ItemBlock) -> npt.NDArray[np.float64]:
    """Distance of the two largest probabilities."""
    largest = np.sort(block.probs, axis=0)
    return np.asarray(largest[-1] - largest[-2])


MARGIN = Metric(MetricSpec("margin", "Margin", "percent", 1), frozenset(), margin)


@contextmanager
def temporary_metric(metric: Metric) -> Iterator[None]:
    """Register a metric until the end of a `with` block."""
    register_metric(metric)
    try:
        yield
    finally:
        del _REGISTRY[metric.name]


@pytest.fixture
def registered() -> Iterator[None]:
    with temporary_metric(MARGIN):
        yield


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """Two arms of two seeds, and a run on ablated contexts."""
    folders = [
        write_run(tmp_path / f"{arm}-{seed}", rows(seed + skill), arm=arm, seed=seed)
        for arm, skill in (("pact", 0), ("other", 10))
        for seed in (1, 2)
    ]
    ablated = write_run(tmp_path / "ablated", ablated_rows(1), arm="pact", seed=1)
    return Experiment.read([*folders, ablated], Settings(resamples=50))


def expected_margin(seed: int) -> float:
    probs = np.sort(np.exp(predictions(seed).log_probs("single")), axis=1)
    return float((probs[:, -1] - probs[:, -2]).mean())


@pytest.mark.usefixtures("registered")
def test_a_new_metric_is_in_report_json_and_table() -> None:
    how = {"decoding": "single", "by": "kind", "resamples": 100}
    evaluation = evaluate(predictions(1), rng=np.random.default_rng(1), **how)  # type: ignore[arg-type]
    estimate = evaluation.groups[0].estimates["margin"]
    assert estimate.value == pytest.approx(expected_margin(1), abs=1e-12)
    assert estimate.low < estimate.value < estimate.high
    value = presenter_of(evaluation).to_json()
    assert {"name": "margin", "title": "Margin", "unit": "percent", "better": 1} in value["metrics"]  # type: ignore[operator]
    tables = [part for part in evaluation_parts(evaluation) if isinstance(part, Table)]
    assert "Margin ↑" in [row.cells[0].text for row in tables[0].rows]


@pytest.mark.usefixtures("registered")
def test_a_new_metric_is_in_a_comparison_and_its_json() -> None:
    a, b = (ScoredItems.of(predictions(seed), "single") for seed in (1, 2))
    comparison = compare(a, b, Settings(seed=1, resamples=40))
    difference = comparison.groups[0].metrics["margin"].difference
    assert difference.value == pytest.approx(expected_margin(1) - expected_margin(2), abs=1e-12)
    assert "margin" in to_json(comparison)["groups"][0]["metrics"]  # type: ignore[index,call-overload,operator]


@pytest.mark.slow
def test_a_new_metric_with_a_noise_floor_is_shown_next_to_it(experiment: Experiment) -> None:
    """Nine places of the reports knew the ECE by its name."""
    ece = find_metric("ece")
    with temporary_metric(replace(ece, spec=replace(ece.spec, name="twin", title="Twin"))):
        first = experiment.comparisons.of_arms.arms[0]
        summaries = first.summaries["all"]
        assert summaries["twin"].chance == summaries["ece"].chance is not None
        (arms,) = (
            part
            for part in arms_parts(experiment.comparisons.of_arms)
            if isinstance(part, Table) and part.name == "arms"
        )
        below = {row.cells[0].text: row.cells[1].below for row in arms.rows}
        assert below["Twin ↓"] == below["ECE ↓"] != ""
        main = build_tables(Request(experiment), ["main"]).tables["main"]
        titles = [column.title for column in main.columns]
        of_ece, of_twin = (titles.index(title) for title in ("ECE", "Twin"))
        for row in main.rows:
            noise = row.cells[of_ece + 1]
            assert row.cells[of_twin + 1].text == noise.text != ""


def test_a_new_rate_is_judged_as_accuracy_is() -> None:
    accuracy = find_metric("accuracy")
    with temporary_metric(replace(accuracy, spec=replace(accuracy.spec, name="twin"))):
        a, b = (ScoredItems.of(predictions(seed), "single") for seed in (1, 2))
        metrics = compare(a, b, Settings(seed=1, resamples=40)).groups[0].metrics
        assert metrics["twin"].evidence == metrics["accuracy"].evidence


@pytest.mark.usefixtures("registered")
def test_a_new_metric_is_in_a_report_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "predictions.parquet"
    rows(1).write_parquet(path)
    items = read_items(path, "single")
    evaluation = evaluate_items(items, by="kind", rng=np.random.default_rng(1), resamples=40)
    assert evaluation.groups[0].estimates["margin"].value == pytest.approx(expected_margin(1))


@pytest.mark.usefixtures("registered")
def test_a_metric_without_references_is_in_the_report_on_ablated_contexts() -> None:
    how = {"decoding": "single", "by": "kind", "resamples": 100}
    evaluation = evaluate(ablated_predictions(1), rng=np.random.default_rng(1), **how)  # type: ignore[arg-type]
    assert "margin" in evaluation.groups[0].estimates
    assert "accuracy" not in evaluation.groups[0].estimates


def test_a_metric_is_gone_after_the_block_and_names_are_unique() -> None:
    assert "margin" not in [spec.name for spec in registered_metrics()]
    with pytest.raises(ValueError, match="'accuracy' is registered already"):
        register_metric(Metric(MetricSpec("accuracy", "Again", "percent", 1), frozenset(), margin))
