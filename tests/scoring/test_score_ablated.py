"""Scoring ablated contexts of the shipped dataset with the shipped model and adapter."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from builders import record, write_jsonl
from click.testing import CliRunner
from steps import Steps

from pact_cli.main import main
from pact_eval._files import sha256_of_file
from pact_eval.data.ablation import write_ablated_records
from pact_eval.data.records import read_records
from pact_eval.errors import RecordError
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.progress import watched
from pact_eval.runs.folder import read_any_run
from pact_eval.runs.rows import ABLATED_SCHEMA
from pact_eval.scoring.model import ScoringModel, identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import score
from pact_eval.scoring.windows import read_dataset
from scoring.conftest import FIXTURES, HOLDOUT, MODEL

ADAPTER = FIXTURES / "adapters" / "pact"


@pytest.fixture(scope="module")
def model() -> ScoringModel:
    return identify(ModelRequest(ADAPTER, str(MODEL), attention="fused"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ablated") / "ablated.jsonl"
    return write_ablated_records(HOLDOUT, path).path


@pytest.fixture(scope="module")
def folder(model: ScoringModel, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "ablated"
    dataset = read_dataset(data, k=2, limit=8)
    score(model, dataset, out, labels={"arm": "no_nr", "seed": 17})
    return out


@pytest.mark.slow
def test_rows_say_which_two_answers_and_know_no_reference(folder: Path, data: Path) -> None:
    frame = pl.read_parquet(folder / "predictions.parquet")
    assert frame.schema == ABLATED_SCHEMA
    assert len(frame) == 16
    assert frame["reference"].null_count() == 16
    assert set(frame["variant"]) == {"ablated"}
    references = {ablated.id: ablated.reference for ablated in read_records(HOLDOUT)}
    for row in frame.iter_rows(named=True):
        base = row["id"].removesuffix("-ablated")
        assert base.endswith("-base")
        other = base.removesuffix("base") + "counterfactual"
        assert row["answers"] == [references[base], references[other]]
    run = read_any_run(folder)
    assert run.predictions.ablated
    assert run.settings["data"] == {"sha256": sha256_of_file(data), "records": 8}
    assert run.provenance.recorded["counts"] == {"items": 8, "views": 16}


@pytest.mark.slow
def test_the_report_against_the_equations_row_by_row(folder: Path) -> None:
    result = CliRunner().invoke(main, ["report", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    everything = value["groups"][0]
    frame = pl.read_parquet(folder / "predictions.parquet").filter(pl.col("view") == 0)
    gaps, tops = [], []
    for row in frame.iter_rows(named=True):
        z, (first, second) = row["logits"], row["answers"]
        gaps.append(abs(z[first] - z[second]))
        tops.append(math.exp(max(z)) / math.fsum(map(math.exp, z)))
    assert everything["metrics"]["ablated_gap"]["value"] == pytest.approx(math.fsum(gaps) / 8)
    confidence = everything["metrics"]["ablated_confidence"]
    assert confidence["value"] == pytest.approx(math.fsum(tops) / 8)
    assert (confidence["n"], confidence["families"]) == (8, 8)
    assert set(everything["metrics"]) == {spec.name for spec in registered_metrics("ablated")}


@pytest.mark.slow
def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(
    model: ScoringModel, data: Path, tmp_path: Path
) -> None:
    """`test_score.py` kills a process."""
    dataset = read_dataset(data, k=1, limit=70)
    with pytest.raises(KeyboardInterrupt), watched(Steps(stop_after="part-000000.parquet")):
        score(model, dataset, tmp_path / "killed", labels={})
    for name in ("killed", "whole"):
        score(model, dataset, tmp_path / name, labels={})
    killed, whole = (
        (tmp_path / name / "predictions.parquet").read_bytes() for name in ("killed", "whole")
    )
    assert killed == whole


def test_a_file_that_cannot_be_scored_is_refused_before_a_model_is_loaded(
    data: Path, tmp_path: Path
) -> None:
    lines = data.read_text(encoding="utf-8").split("\n")[:2]
    mixed = write_jsonl(tmp_path / "mixed.jsonl", [*lines, record()])
    with pytest.raises(RecordError, match=r"mixed.jsonl:3 .*line 1 is an ablated context"):
        read_dataset(mixed, k=1, limit=1)
    bare = {key: value for key, value in record().items() if key != "reference"}
    plain = write_jsonl(tmp_path / "plain.jsonl", [record("a-base"), bare])
    with pytest.raises(RecordError, match=r"plain.jsonl:2 .*reference: expected an object"):
        read_dataset(plain, k=1)
    same = json.loads(lines[0])
    same["ablation"]["answers"] = [1, 1]
    bad = write_jsonl(tmp_path / "bad.jsonl", [same])
    with pytest.raises(RecordError, match=r"bad.jsonl:1 .*canonical indices"):
        read_dataset(bad, k=1)
