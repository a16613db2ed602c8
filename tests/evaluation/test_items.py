"""Items read from the file of a run slice by slice give what all of its items in memory give."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from evaluations import evaluate
from run_frames import ablated_rows, rows

from pact_eval._choices import Decoding
from pact_eval.calibration.temperatures import Calibrator, Weights
from pact_eval.errors import RunError
from pact_eval.evaluation import items
from pact_eval.evaluation.items import ScoredItems, read_items, streamable_items
from pact_eval.evaluation.report import Evaluation, evaluate_items
from pact_eval.evaluation.resampled_groups import point_estimates
from pact_eval.runs.predictions import Predictions


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of five items, which cut most pairs in two."""
    monkeypatch.setattr(items, "_SLICE_ROWS", 5)


def evaluate_file(path: Path, *, decoding: Decoding, by: Any, **how: Any) -> Evaluation:
    return evaluate_items(read_items(path, decoding, by=by), by=by, **how)


def written(folder: Path, frame: pl.DataFrame) -> Path:
    path = folder / "predictions.parquet"
    frame.write_parquet(path)
    return path


def values(scored: ScoredItems) -> dict[str, float]:
    return {name: one.value for name, one in point_estimates(scored)["all"].items()}


def test_slices_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, rows(2, families=20, k=3))
    in_memory = ScoredItems.of(Predictions.from_frame(pl.read_parquet(path)), "ensemble")
    expected = values(in_memory)
    monkeypatch.setattr(items, "_SLICE_ROWS", 4)
    sliced = read_items(path, "ensemble", letters=False)
    assert values(sliced) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.usefixtures("small_slices")
def test_texts_of_slices_are_those_of_the_rows(scattered: bool, tmp_path: Path) -> None:
    """Members next to each other or in any order; slices cut families and lack some kinds."""
    frame = rows(3, families=15, k=1)
    frame = frame.sample(fraction=1.0, shuffle=True, seed=8) if scattered else frame
    scored = read_items(written(tmp_path, frame), "single", by="source_family")
    assert scored.families.names[scored.families.codes].tolist() == frame["family"].to_list()
    assert len(scored.families) == 15
    for column, labels in scored.labels.items():
        assert labels.names[labels.codes].tolist() == frame[column].to_list()


def assert_same(report: Evaluation, expected: Evaluation) -> None:
    assert [group.name for group in report.groups] == [group.name for group in expected.groups]
    for one, other in zip(report.groups, expected.groups, strict=True):
        assert (one.items, one.families, one.pairs) == (other.items, other.families, other.pairs)
        assert one.nll is not None
        assert other.nll is not None
        assert one.nll.mean == pytest.approx(other.nll.mean, rel=1e-12)
        assert list(one.estimates) == list(other.estimates)
        for name, ours in one.estimates.items():
            theirs = other.estimates[name]
            ends, expected_ends = ((e.value, e.low, e.high) for e in (ours, theirs))
            assert ends == pytest.approx(expected_ends, rel=1e-9, nan_ok=True), (one.name, name)
            told = (ours.n, ours.clusters, ours.method, ours.reason)
            assert told == (theirs.n, theirs.clusters, theirs.method, theirs.reason)
    assert report.letters is not None
    assert expected.letters is not None
    assert report.letters.observed.tolist() == expected.letters.observed.tolist()
    assert report.letters.expected.tolist() == expected.letters.expected.tolist()
    assert report.letters.chi2 == pytest.approx(expected.letters.chi2)
    assert report.letters.discordant_clusters == expected.letters.discordant_clusters
    assert report.notes == expected.notes
    assert report.mean_answer_mass == pytest.approx(expected.mean_answer_mass, nan_ok=True)
    assert report.smallest_probability == pytest.approx(expected.smallest_probability)
    assert (report.k, report.by, report.decoding, report.calibration) == (
        expected.k,
        expected.by,
        expected.decoding,
        expected.calibration,
    )


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("decoding", ["single", "ensemble"])
@pytest.mark.parametrize(("k", "by"), [(1, "domain"), (4, "kind"), (2, "source_family")])
def test_the_report_of_a_file_against_the_report_in_memory(
    k: int, by: Any, decoding: Decoding, tmp_path: Path
) -> None:
    frame = rows(3, families=31, k=k).filter(pl.col("id") != "f4-base")
    orders = pl.when(pl.col("family") == "f7").then([]).otherwise("code_order")
    masses = pl.when(pl.col("family") == "f8").then(None).otherwise("answer_mass")
    frame = frame.with_columns(code_order=orders, answer_mass=masses.cast(pl.Float32))
    path = written(tmp_path, frame)
    how: dict[str, Any] = {"decoding": decoding, "by": by, "resamples": 200}
    report = evaluate_file(path, **how, rng=np.random.default_rng(4))
    whole = Predictions.from_frame(frame)
    assert_same(report, evaluate(whole, **how, rng=np.random.default_rng(4)))
    assert report.groups[0].pairs is not None
    assert report.groups[0].pairs.incomplete_families == 1
    assert report.letters is not None
    assert report.letters.units == (61 - 2) * k


@pytest.mark.usefixtures("small_slices")
def test_impossible_answers_in_a_file_and_in_memory(tmp_path: Path) -> None:
    """An infinite NLL, and an item whose two views rule out all of its answers."""
    frame = rows(5, families=6, k=2)
    logits = frame["logits"].to_list()
    logits[0], logits[1] = [-math.inf, 0.0, *logits[0][2:]], [0.0, *[-math.inf] * 20]
    logits[0] = logits[0][: len(frame["logits"][0])]
    logits[1] = logits[1][: len(frame["logits"][0])]
    frame = frame.with_columns(logits=pl.Series(logits, dtype=pl.List(pl.Float32)))
    path = written(tmp_path, frame)
    how: dict[str, Any] = {"decoding": "single", "by": "kind", "resamples": 200}
    report = evaluate_file(path, **how, rng=np.random.default_rng(6))
    expected = evaluate(Predictions.from_frame(frame), **how, rng=np.random.default_rng(6))
    assert_same(report, expected)
    with pytest.raises(RunError, match=r"predictions.parquet, rows 0 to 9: "):
        evaluate_file(path, decoding="ensemble", by="kind", rng=np.random.default_rng(6))


def test_rows_that_are_no_run_are_refused(tmp_path: Path) -> None:
    frame = rows(16, families=4, k=2)
    ids = frame["id"].to_list()
    for changed, message in (
        (frame.drop("logits"), "missing: logits"),
        (frame.with_columns(logits=pl.lit("x")), "column logits: expected List"),
        (frame.clear(), "the run holds no item"),
        (frame.with_columns(reference=pl.lit(None, dtype=pl.Int16)), "16 of 16 rows have no ref"),
        (frame.with_columns(n_choices=pl.lit(9, dtype=pl.Int16)), "as many numbers as the item"),
        (
            frame.with_columns(reference=pl.lit(9, dtype=pl.Int16)),
            "number of answers - 1, got 9",
        ),
        (
            frame.with_columns(id=pl.Series([*ids[:-1], "other"])),
            "id: expected the same value",
        ),
        (frame.with_columns(id=pl.Series([*ids[:-2], ids[0], ids[0]])), "1 ids more than once"),
        (
            frame.with_columns(code_order=pl.lit([0, 0], dtype=pl.List(pl.Int16))),
            "s index once",
        ),
    ):
        path = written(tmp_path, changed)
        with pytest.raises(RunError, match=message):
            evaluate_file(path, decoding="single", by="kind", rng=np.random.default_rng(0))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RunError, match="damaged or cut short"):
        read_items(path, "single")


def test_what_can_be_read_in_slices(tmp_path: Path) -> None:
    frame = rows(14, families=4, k=3)
    path = written(tmp_path, frame)
    assert streamable_items(path) == 8
    written(tmp_path, frame.sort("view"))
    assert streamable_items(path) == 0
    with pytest.raises(RunError, match="3 views of each item .*each other"):
        read_items(path, "single")
    for other in (ablated_rows(15, families=4), frame.drop("view"), frame.drop("variant")):
        assert streamable_items(written(tmp_path, other)) == 0
    path.write_bytes(b"PAR1")
    assert streamable_items(path) == 0


@pytest.mark.usefixtures("small_slices")
def test_a_calibrator_applies_to_a_file_as_in_memory(tmp_path: Path) -> None:
    frame = rows(2, families=20, k=3)
    path = written(tmp_path, frame)
    calibrator = Calibrator("contextual", Weights((1.0, 0.0, 0.0), 0.3, 0.2))
    in_memory = ScoredItems.of(Predictions.from_frame(frame), "single", calibrator)
    sliced = read_items(path, "single", calibrator=calibrator)
    np.testing.assert_array_equal(sliced.confidence, in_memory.confidence)
    np.testing.assert_array_equal(sliced.values["nll_nats"], in_memory.values["nll_nats"])
