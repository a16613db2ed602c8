"""The made experiment. Source of truth: what the paper prints of the shipped run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import fmean, median

import pytest
from made_experiment import EXTREMES
from made_rows import made_items, metrics
from published import printed_cells


def test_the_rows_have_the_counts_of_the_paper(made_files: Path) -> None:
    lines = (made_files / "shipped_holdout_rows.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    picks = [row["probabilities"].index(max(row["probabilities"])) for row in rows]
    right = [pick == row["gold"] for pick, row in zip(picks, rows, strict=True)]
    pairs = list(zip(right[::2], right[1::2], strict=True))
    (failures,), (splits,) = printed_cells("shipped_pairs"), printed_cells("splits")
    assert len(rows) == int(splits["records"])
    assert len({row["source_family"] for row in rows}) == int(splits["families"])
    assert pairs.count((True, False)) == int(failures["only_base"])
    assert pairs.count((False, True)) == int(failures["only_counterfactual"])
    same = sum(a == b for a, b in zip(picks[::2], picks[1::2], strict=True))
    assert same == int(failures["same_answer"])
    (errors,) = printed_cells("shipped_errors")
    confidences = [max(row["probabilities"]) for row in rows]
    wrong, sure = (
        [c for c, is_right in zip(confidences, right, strict=True) if is_right == side]
        for side in (False, True)
    )
    assert (len(wrong), sum(c >= 0.9 for c in wrong)) == (
        int(errors["errors"]),
        int(errors["confident"]),
    )
    assert f"{median(wrong):.2f}" == errors["median_wrong"]
    assert f"{median(sure):.3f}" == errors["median_right"]


@pytest.mark.parametrize(
    ("name", "table", "column"),
    [("ece", "calibration", "ece"), ("score_mae", "kinds", "score_mae")],
)
def test_the_closed_forms_print_as_the_shipped_run(name: str, table: str, column: str) -> None:
    (row,) = (
        row for row in printed_cells(table) if (row["arm"], row["seed"]) == ("pact_full", "18")
    )
    values = metrics(made_items())
    shown = f"{100 * values['ece']:.1f}" if name == "ece" else f"{values['expected_score_mae']:.3f}"
    assert shown == row[column]


def test_the_closed_forms_against_sums_over_the_written_probabilities(made_files: Path) -> None:
    """NLL and Brier from the rows: other formulas than those of the design."""
    lines = (made_files / "shipped_holdout_rows.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    brier = fmean(
        sum((p - (at == row["gold"])) ** 2 for at, p in enumerate(row["probabilities"]))
        for row in rows
    )
    assert all(sum(row["probabilities"]) == pytest.approx(1, abs=1e-12) for row in rows)
    assert metrics(made_items())["brier"] == pytest.approx(brier, abs=1e-12)


def test_every_item_with_an_extreme_temperature_is_at_an_end(made_files: Path) -> None:
    with (made_files / "run_calibration.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 14
    ends = {row[name] for row in rows for name in ("temperature_min", "temperature_max")}
    assert len(ends) > len(EXTREMES)
