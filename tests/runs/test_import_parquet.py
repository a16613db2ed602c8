"""Rows as Parquet. Source of truth: the same rows as JSON lines."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from builders import write_jsonl
from commands import runner
from messages import assert_says
from run_frames import rows as run_rows
from run_frames import write_run

from logs import read_rows
from pact_cli.main import main
from pact_eval.errors import InputError, RecordError
from pact_eval.importing.import_run import import_run

run = runner(main)


def rows_of(experiment: Path) -> list[dict[str, Any]]:
    text = (experiment / "shipped_holdout_rows.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    return path


def row(record_id: str = "a", **changes: Any) -> dict[str, Any]:
    return {"id": record_id, "reference": 1, "probabilities": [0.25, 0.75]} | changes


def test_a_file_and_a_folder_of_parts_are_the_rows_of_json_lines(
    made_files: Path, tmp_path: Path
) -> None:
    rows = rows_of(made_files)
    lines = write_jsonl(tmp_path / "rows.jsonl", rows)
    expected = read_rows(lines)
    one = write(tmp_path / "one.parquet", rows)
    for number, start in enumerate(range(0, len(rows), 100)):
        write(tmp_path / "parts" / f"part-{number:03d}.parquet", rows[start : start + 100])
    for path in (one, tmp_path / "parts"):
        imported = read_rows(path)
        assert imported.frame.equals(expected.frame)
        assert imported.values == expected.values
        import_run(path, tmp_path / f"run-{path.stem}", {})
    files = {
        (tmp_path / f"run-{name}" / "predictions.parquet").read_bytes() for name in ("one", "parts")
    }
    assert len(files) == 1
    assert "324 items" in run("report", tmp_path / "run-parts", "--resamples", 100).stdout


def test_null_is_a_value_that_is_not_there(tmp_path: Path) -> None:
    rows = [row("a", family="f"), row("b", family=None), row("c", status="refused")]
    rows[2] |= {"probabilities": None, "n_choices": 2}
    lines = [{k: v for k, v in values.items() if v is not None} for values in rows]
    expected = read_rows(write_jsonl(tmp_path / "rows.jsonl", lines)).frame
    assert read_rows(write(tmp_path / "rows.parquet", rows)).frame.equals(expected)


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (row("x", reference=5), "reference"),
        (row("x", probabilities=[0.5, math.nan]), "probabilities: expected finite"),
        (row("x", probabilities=[0.5, None]), "probabilities"),
        (row("x", probabilities=[0.9, 0.9]), "sum"),
        (row("x", domain=["a"]), "domain: expected text"),
        (row("x", id=[7]), "id"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_row(
    tmp_path: Path, bad: dict[str, Any], fault: str
) -> None:
    write(tmp_path / "parts" / "a.parquet", [row("a")])
    write(tmp_path / "parts" / "b.parquet", [bad])
    with pytest.raises(RecordError, match=r"b\.parquet, row 1: ") as refused:
        read_rows(tmp_path / "parts")
    assert fault in str(refused.value)


def test_an_item_in_two_parts_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / "parts" / f"{name}.parquet", [row("a")])
    with pytest.raises(RecordError, match="row 1: "):
        read_rows(tmp_path / "parts")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.parquet", [row(str(number)) for number in range(50)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"rows\.parquet: damaged or cut short"):
        read_rows(path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.parquet").write_text("{}")
    with pytest.raises(InputError, match=r"a\.parquet: damaged or cut short"):
        read_rows(tmp_path / "parts")


def test_a_run_folder_is_not_imported_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", run_rows(1), arm="a", seed=1)
    message = run("import", folder, "--out", tmp_path / "out", code=1).stderr
    assert_says(message, "`report`", "`compare`")
    assert not (tmp_path / "out").exists()
