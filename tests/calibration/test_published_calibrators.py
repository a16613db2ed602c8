"""What the PACT experiment published about its calibrators, as far as its records go.

The prompt lengths behind them are not published. But the smallest and largest temperature of each
run give, with its weights, the number of answers and the prompt length of the item they belong to:
those must be integers, and the same few items in all runs. And the published scores after
calibration tell which prompt length, if all items had one, would give them.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_experiment import EXTREMES, SHIPPED_TOKENS
from scipy import optimize

from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.temperatures import (
    Calibrator,
    ItemFacts,
    calibrator_from_json,
    calibrator_to_json,
)
from pact_eval.metrics import brier, confidence, item_mean, nll_nats

KINDS = {"choice": "choice", "noul": "boolean", "score": "score"}


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def calibrators(experiment_files: Path) -> dict[tuple[str, str], Calibrator]:
    return {
        (row["run"], row["seed"]): calibrator_from_json(
            {
                "mode": "contextual",
                "weights": {
                    "bias": [float(row[f"bias_{kind}"]) for kind in ("choice", "noul", "score")],
                    "log_choices": float(row["log_choices"]),
                    "log_tokens": float(row["log_tokens"]),
                },
            }
        )
        for row in table(experiment_files, "calibrators.csv")
    }


@pytest.fixture(scope="module")
def items(experiment_files: Path) -> CalibrationItems:
    text = (experiment_files / "shipped_holdout_rows.jsonl").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = [json.loads(line) for line in text.split("\n") if line]
    log_probs = np.full((len(rows), 6), -np.inf)
    for slots, row in zip(log_probs, rows, strict=True):
        slots[: len(row["probabilities"])] = np.log(row["probabilities"])
    return CalibrationItems(
        log_probs=log_probs,
        reference=np.array([row["gold"] for row in rows]),
        kind=np.array([KINDS[row["kind"]] for row in rows]),
        n_choices=np.isfinite(log_probs).sum(axis=1),
        prompt_tokens=np.full(len(rows), np.nan),
        family=np.array([row["family"] for row in rows]),
        source_family=np.array([row["source_family"] for row in rows]),
        decoding="single",
    )


def test_extreme_temperatures_against_published_runs(
    experiment_files: Path, calibrators: dict[tuple[str, str], Calibrator]
) -> None:
    """All 28 belong to 7 items, and come out to the last digit of float32."""
    extremes = set()
    for row in table(experiment_files, "run_calibration.csv"):
        calibrator = calibrators[row["run"], row["seed"]]
        names = sorted(EXTREMES)
        n_choices, tokens = (np.array(column) for column in zip(*names, strict=True))
        at = calibrator.temperatures(ItemFacts(["choice"] * len(names), n_choices, tokens))
        for extreme, place in (("min", at.argmin()), ("max", at.argmax())):
            published = float(row[f"temperature_{extreme}"])
            assert at[place] == pytest.approx(published, rel=2e-6), (row["run"], extreme)
            extremes.add(names[place])
    assert extremes == EXTREMES


def test_published_calibrators_come_back_from_our_format(
    calibrators: dict[tuple[str, str], Calibrator],
) -> None:
    for calibrator in calibrators.values():
        assert calibrator_from_json(calibrator_to_json(calibrator)) == calibrator


@pytest.mark.parametrize("group", ["choice", "noul", "score"])
def test_scores_after_belong_to_prompts_of_published_length(
    items: CalibrationItems,
    experiment_files: Path,
    calibrators: dict[tuple[str, str], Calibrator],
    group: str,
    made_files: Path,
) -> None:
    """A length between 419 and 790 tokens, the range that the extreme temperatures give, gives the
    published scores; the made ones are of prompts of 600 tokens."""
    part = items.take(items.kind == KINDS[group])
    shipped = calibrators["pact_full", "18"]
    published = _published(experiment_files, "single_calibrated", group)

    is_made = experiment_files == made_files

    def scores(tokens: float) -> tuple[float, float, float]:
        log_probs = shipped.apply(
            part.log_probs,
            ItemFacts(
                kind=part.kind, n_choices=part.n_choices, prompt_tokens=np.full(len(part), tokens)
            ),
        )
        return (
            item_mean(nll_nats(log_probs, part.reference)),
            item_mean(brier(log_probs, part.reference)),
            item_mean(confidence(log_probs)),
        )

    for index, name in enumerate(("nll", "brier", "mean_confidence")):
        target = float(published[name])
        length = optimize.brentq(lambda t, i=index, y=target: scores(t)[i] - y, 419, 790)
        if is_made:
            assert length == pytest.approx(SHIPPED_TOKENS, abs=1e-4), name


def _published(folder: Path, decoding: str, group: str) -> dict[str, str]:
    (row,) = [
        row
        for row in table(folder, "run_metrics.csv")
        if (row["run"], row["seed"]) == ("pact_full", "18")
        and (row["decoding"], row["group"]) == (decoding, group)
    ]
    return row
