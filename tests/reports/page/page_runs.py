"""Runs and the records behind them, and pages made of both."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from builders import question, record, write_jsonl
from reports.figures.figure_runs import rows, write_calibrator
from run_frames import write_run

from pact_eval.data.records import Record, parse_record
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import ItemRecords
from pact_eval.evaluation.settings import Settings
from pact_reports.page.assembly import make_page, write_page
from pact_reports.request import Request

__all__ = ["Row", "experiment_of", "page_of", "record_of", "records_of", "two_runs"]

Row = Mapping[str, Any]


def record_of(row: Row, **changes: Any) -> dict[str, Any]:
    """Returns the JSON of a record that a row of a run may have come from."""
    kind, n, reference = row["kind"], row["n_choices"], row["reference"]
    decision = question(kind, n) if kind != "boolean" else question("boolean")
    target: Any = f"answer_{reference}"
    if kind == "boolean":
        target = bool(reference)
    elif kind == "score":
        target = reference
    edited = "intact" if row["variant"] == "base" else "broken"
    state = [
        {"speaker": "Clerk", "text": f"The seal of {row['family']} is {edited}."},
        {"speaker": "Guard", "text": "Nothing else was seen."},
    ]
    made = {
        "family": row["family"],
        "source_family": row["source_family"],
        "domain": row["domain"],
        "variant": row["variant"],
        "state": state,
        "decision": decision,
        "reference": {"target": target},
    }
    return record(row["id"], **(made | changes))


def records_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Returns a record of every item."""
    first = frame.filter(pl.col("view") == 0)
    return [record_of(row) for row in first.iter_rows(named=True)]


def two_runs(folder: Path, *, families: int = 40) -> tuple[list[Path], Path]:
    """Writes two calibrated runs on the same items, and their dataset."""
    frames = [rows(seed, arm=arm, families=families) for seed, arm in ((17, "pact"), (18, "base"))]
    folders = []
    for frame, arm in zip(frames, ("pact", "other"), strict=True):
        folders.append(write_run(folder / arm, frame, arm=arm, seed=17))
        write_calibrator(folders[-1])
    return folders, write_jsonl(folder / "eval.jsonl", records_of(frames[0]))


def experiment_of(folders: Iterable[Path], settings: Settings | None = None) -> Experiment:
    return Experiment.read(list(folders), settings or Settings(resamples=200))


def page_of(folder: Path, frame: pl.DataFrame, texts: Iterable[dict[str, Any]] | None) -> Path:
    """Writes the page of one run, with one figure and one table."""
    run = write_run(folder / "run", frame, arm="pact", seed=17)
    records = None
    if texts is not None:
        parsed: dict[str, Record] = {}
        for text in texts:
            item = parse_record(json.loads(json.dumps(text)))
            parsed[item.id] = item
        records = ItemRecords(parsed)
    request = Request(
        experiment_of([run]),
        records,
        figures=("confidence",),
        tables=("main", "splits"),
    )
    write_page(make_page(request), folder / "page.html")
    return folder / "page.html"
