"""The objective on the logits that a run keeps, against the numbers that `pact-eval` prints.

Training and evaluation meet here: what the loss calls cross-entropy is what the report calls NLL.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from adapters import MODEL
from click.testing import CliRunner
from evaluations import evaluate
from losses.tiny import DATA, tiny_base
from run_frames import ablated_rows, rows, write_run
from tolerances import NLL
from transformers import AutoTokenizer

from logs import read_rows
from pact_cli.main import main
from pact_eval.data.records import read_records
from pact_eval.evaluation.registry import ABLATED_GAP
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.predictions import Predictions
from pact_eval.training import ViewPlan, training_views
from pact_losses import PactBatch, PactCollator, PactLoss, PactOutput, selection_nll

KINDS = ("choice", "boolean", "score")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("stored") / "run", rows(5, families=12, k=3))


def test_cross_entropy_is_the_nll_of_the_report(run: Path) -> None:
    frame = read_stored(run).filter(pl.col("view") == 0)
    printed = nll_by_group(run)
    assert set(printed) == {"all", *KINDS}
    assert float(measured(frame).terms["ce"]) == pytest.approx(printed["all"], abs=1e-12)
    for kind in KINDS:
        of_kind = frame.filter(pl.col("kind") == kind)
        assert float(measured(of_kind).terms["ce"]) == pytest.approx(printed[kind], abs=1e-12)


def test_the_code_order_of_a_view_does_not_matter(run: Path) -> None:
    frame = read_stored(run)
    orders = frame.filter(pl.col("view") == 2)["code_order"].to_list()
    assert any(order != sorted(order) for order in orders)
    first = frame.filter(pl.col("view") == 0)
    shown_otherwise = first.with_columns(code_order=pl.Series(orders))
    terms, others = (measured(shown).terms for shown in (first, shown_otherwise))
    assert list(terms) == ["ce", "cf", "emd"]
    for name, value in terms.items():
        assert float(others[name]) == pytest.approx(float(value), abs=1e-12)


def test_the_ablated_gap_is_that_of_the_report() -> None:
    frame = ablated_rows(5, families=12, k=1)
    rng = np.random.default_rng(0)
    predictions = Predictions.from_frame(frame)
    report = evaluate(predictions, decoding="single", by="kind", rng=rng, resamples=100)
    # The objective wants a labelled row in every batch; it has no part in this mean.
    batch, logits = stored_batch(pl.concat([rows(5, families=1, k=1), frame], how="diagonal"))
    gap = PactLoss()(logits, batch, progress=1.0).diagnostics["ablated_gap"]
    assert float(gap) == pytest.approx(report.groups[0].estimates[ABLATED_GAP].value, abs=1e-12)


def test_cross_entropy_of_the_published_run_against_its_summary(experiment_files: Path) -> None:
    frame = read_rows(experiment_files / "shipped_holdout_rows.jsonl").frame
    summary = json.loads((experiment_files / "shipped_summary.json").read_text("utf-8"))
    for kind, name in (("choice", "choice"), ("boolean", "noul"), ("score", "score")):
        of_kind = frame.filter(pl.col("kind") == kind)
        value = float(measured(of_kind).terms["ce"])
        assert value == pytest.approx(summary[name]["nll"], abs=1e-9)


@pytest.mark.slow
def test_a_scored_run_of_the_tiny_model_against_its_loss_in_training(tmp_path: Path) -> None:
    out, n = tmp_path / "run", 8
    words = ["--base-model", MODEL, "--no-adapter", "--data", DATA, "--limit", n, "--k", 2]
    command("score", *words, "--out", out)
    printed = nll_by_group(out)["all"]
    stored = read_stored(out)
    of_first = measured(stored.filter(pl.col("view") == 0)).terms["ce"]
    assert float(of_first) == pytest.approx(printed, abs=1e-12)

    encoder = Encoder(AutoTokenizer.from_pretrained(MODEL), NIMBLE)
    plan = ViewPlan(permuted=0, ablated=False)
    batch = PactCollator(0)(training_views(read_records(DATA)[:n], encoder, plan))
    assert selection_nll(tiny_base(), [batch]) == pytest.approx(printed, abs=NLL)


def read_stored(run: Path) -> pl.DataFrame:
    return pl.read_parquet(run / "predictions.parquet")


def stored_batch(frame: pl.DataFrame) -> tuple[PactBatch, torch.Tensor]:
    """The rows of a run as a batch, and their logits in letter order."""
    table = frame.to_dicts()
    place = {(row["id"], row["view"]): number for number, row in enumerate(table)}
    logits = torch.zeros(len(table), max(row["n_choices"] for row in table), dtype=torch.float64)
    for number, row in enumerate(table):
        canonical = torch.tensor(row["logits"], dtype=torch.float64)
        logits[number, : row["n_choices"]] = canonical[row["code_order"]]
    batch = PactBatch.of(
        [row["code_order"] for row in table],
        [row["reference"] for row in table],
        is_score=[row["kind"] == "score" for row in table],
        pairs=_pairs(table),
        views=[(place[name, 0], number) for (name, view), number in place.items() if view > 0],
        ablations=[
            (number, *row["answers"]) for number, row in enumerate(table) if row.get("answers")
        ],
        record_ids=[row["id"] for row in table],
    )
    return batch, logits


def _pairs(table: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Rows (base, counterfactual) of view 0; the references of made-up pairs may be the same."""
    members = {
        (row["family"], row["variant"]): number
        for number, row in enumerate(table)
        if row["view"] == 0
    }
    pairs = [
        (number, members[family, "counterfactual"])
        for (family, variant), number in members.items()
        if variant == "base" and (family, "counterfactual") in members
    ]
    return [pair for pair in pairs if len({table[row]["reference"] for row in pair}) == 2]


def measured(frame: pl.DataFrame) -> PactOutput:
    batch, logits = stored_batch(frame)
    return PactLoss()(logits, batch, progress=1.0)


def nll_by_group(run: Path) -> dict[str, float]:
    printed = json.loads(command("report", run, "--resamples", 100, "--json"))
    return {group["name"]: group["metrics"]["nll_nats"]["value"] for group in printed["groups"]}


def command(*words: object) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout
