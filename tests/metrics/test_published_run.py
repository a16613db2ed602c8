"""The metrics of a run against its summary: made in closed form, and as the PACT experiment
published it of its shipped adapter.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pact_eval.metrics import (
    aurc,
    brier,
    confidence,
    correct,
    ece,
    expected_level_error,
    item_mean,
    level_error,
    nll_nats,
    pair_accuracy,
    pair_outcomes,
    pair_rows,
    predicted,
)


@dataclass(frozen=True)
class Rows:
    records: list[dict[str, Any]]
    log_probs: npt.NDArray[np.float64]
    reference: npt.NDArray[np.int64]

    def where(self, column: str, value: str) -> "Rows":
        keep = np.array([record[column] == value for record in self.records])
        records = [record for record in self.records if record[column] == value]
        return Rows(records, self.log_probs[keep], self.reference[keep])

    def group(self, name: str) -> "Rows":
        return self if name == "all" else self.where("kind", name)


@pytest.fixture(scope="module")
def rows(experiment_files: Path) -> Rows:
    text = (experiment_files / "shipped_holdout_rows.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.split("\n") if line]
    width = max(len(record["probabilities"]) for record in records)
    log_probs = np.full((len(records), width), -np.inf)
    for row, record in zip(log_probs, records, strict=True):
        row[: len(record["probabilities"])] = np.log(record["probabilities"])
    return Rows(records, log_probs, np.array([record["gold"] for record in records]))


@pytest.fixture(scope="module")
def summary(experiment_files: Path) -> dict[str, Any]:
    text = (experiment_files / "shipped_summary.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def aurc_in_row_order(sure: np.ndarray, right: np.ndarray) -> float:
    """AURC as it was published: items of equal confidence count in the order of the rows."""
    wrong = ~right[np.argsort(-sure, kind="stable")]
    return float(np.mean(np.cumsum(wrong) / np.arange(1, wrong.size + 1)))


@pytest.mark.parametrize("group", ["all", "choice", "noul", "score"])
def test_item_metrics_against_published_run(
    rows: Rows, summary: dict[str, Any], group: str
) -> None:
    part, published = rows.group(group), summary[group]
    sure, right = confidence(part.log_probs), correct(part.log_probs, part.reference)
    computed = {
        "count": len(part.records),
        "correct": right.sum(),
        "accuracy": item_mean(right),
        "nll": item_mean(nll_nats(part.log_probs, part.reference)),
        "brier": item_mean(brier(part.log_probs, part.reference)),
        "ece": ece(sure, right),
        "mean_confidence": item_mean(sure),
        "aurc": aurc_in_row_order(sure, right),
    }
    expected = {name: published[name] for name in computed}
    assert computed == pytest.approx(expected, rel=0, abs=1e-9)


@pytest.mark.parametrize("group", ["all", "choice", "noul", "score"])
def test_pair_accuracy_against_published_run(
    rows: Rows, summary: dict[str, Any], group: str
) -> None:
    part = rows.group(group)
    families = np.array([record["family"] for record in part.records])
    pairs = pair_rows(families, np.array([r["variant"] == "base" for r in part.records]))
    right = correct(part.log_probs, part.reference)
    assert len(pairs) == summary[group]["pairs"]
    assert pairs.incomplete_families == 0
    accuracy = pair_accuracy(pairs, right)
    assert accuracy == pytest.approx(summary[group]["pair_accuracy"], rel=0, abs=1e-9)
    outcomes = pair_outcomes(pairs, predicted(part.log_probs), part.reference)
    assert outcomes.both_right == round(accuracy * len(pairs))
    one_right = outcomes.only_base + outcomes.only_counterfactual
    assert 2 * outcomes.both_right + one_right == right.sum()


@pytest.mark.parametrize("group", ["all", "score"])
def test_level_errors_against_published_run(
    rows: Rows, summary: dict[str, Any], group: str
) -> None:
    part = rows.where("kind", "score")
    computed = (
        item_mean(expected_level_error(part.log_probs, part.reference)),
        item_mean(level_error(part.log_probs, part.reference)),
    )
    published = (summary[group]["expected_score_mae"], summary[group]["level_mae"])
    assert computed == pytest.approx(published, rel=0, abs=1e-9)


def test_accuracy_by_domain_against_published_run(rows: Rows, summary: dict[str, Any]) -> None:
    for domain, published in summary["by_domain"].items():
        part = rows.where("domain", domain)
        assert len(part.records) == published["count"]
        accuracy = item_mean(correct(part.log_probs, part.reference))
        assert accuracy == pytest.approx(published["accuracy"], rel=0, abs=1e-9)


def test_aurc_with_ties_by_expected_order_against_published_run(
    rows: Rows, summary: dict[str, Any], aurc_of_ties: float
) -> None:
    sure, right = confidence(rows.log_probs), correct(rows.log_probs, rows.reference)
    assert aurc_in_row_order(sure, right) == pytest.approx(summary["all"]["aurc"], abs=5e-8)
    assert aurc(sure, right) == pytest.approx(aurc_of_ties, abs=5e-8)
