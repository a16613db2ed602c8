"""Running accuracy and answer mass, against means of the rows."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from builders import record, write_jsonl

from pact_eval.data.records import Record, read_records
from pact_eval.scoring.windows import FEWEST_ITEMS, RunningScores


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    rows = [record(f"r{number}") for number in range(2 * FEWEST_ITEMS)]
    return list(read_records(write_jsonl(tmp_path / "data.jsonl", rows)))


def logits(entry: Record, *, right: bool) -> list[float]:
    """Logits that choose the reference, or the answer after it."""
    assert entry.reference is not None
    chosen = (entry.reference + (not right)) % entry.n_choices
    return [float(answer == chosen) for answer in range(entry.n_choices)]


def rows_of(entries: list[Record], *, right: bool, mass: float | None) -> pl.DataFrame:
    """Two views of each record, of which the second chooses otherwise."""
    rows = [
        {
            "id": entry.id,
            "view": view,
            "reference": entry.reference,
            "logits": logits(entry, right=right == (view == 0)),
            "answer_mass": mass,
        }
        for entry in entries
        for view in (0, 1)
    ]
    return pl.DataFrame(rows, schema_overrides={"answer_mass": pl.Float32})


def test_nothing_is_known_of_too_few_items(records: list[Record]) -> None:
    running = RunningScores()
    for entry in records[: FEWEST_ITEMS - 1]:
        running.answered(entry, logits(entry, right=True), 0.5)
    assert running.numbers == {}
    running.answered(records[0], logits(records[0], right=True), 0.5)  # once more
    assert running.numbers == {}
    last = records[FEWEST_ITEMS]
    running.answered(last, logits(last, right=False), 0.5)
    accuracy = (FEWEST_ITEMS - 1) / FEWEST_ITEMS
    assert running.numbers == pytest.approx({"accuracy": accuracy, "answer_mass": 0.5})


def test_items_of_a_window_count_once(records: list[Record]) -> None:
    running = RunningScores()
    first, second = records[:FEWEST_ITEMS], records[FEWEST_ITEMS:]
    for entry in first:
        running.answered(entry, logits(entry, right=True), 1.0)
    running.finished(rows_of(first, right=True, mass=1.0))
    assert running.numbers == {"accuracy": 1.0, "answer_mass": 1.0}
    running.finished(rows_of(second, right=False, mass=0.0))
    assert running.numbers == {"accuracy": 0.5, "answer_mass": 0.5}


def test_what_is_unknown_is_left_out(records: list[Record]) -> None:
    running = RunningScores()
    running.finished(rows_of(records, right=True, mass=None))
    assert running.numbers == {"accuracy": 1.0}
    ablated = RunningScores()
    ablated.finished(rows_of(records, right=True, mass=0.25).drop("reference"))
    assert ablated.numbers == {"answer_mass": 0.25}


def test_an_item_whose_other_view_has_no_answer_is_taken_back(records: list[Record]) -> None:
    running = RunningScores()
    for entry in records[:FEWEST_ITEMS]:
        running.answered(entry, logits(entry, right=True), 1.0)
    unanswered = rows_of(records[:1], right=True, mass=None).with_columns(
        logits=pl.lit([], dtype=pl.List(pl.Float64))
    )
    running.finished(unanswered)
    assert running.numbers == {}
