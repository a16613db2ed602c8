"""Imports from an object store. Source of truth: the same files on disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import refuser, runner
from remote.s3_server import Lying, served

from logs import read_rows
from pact_cli.main import main
from pact_eval.errors import InputError, RecordError
from pact_eval.importing.import_run import import_run
from pact_eval.runs.places import log_path

run, refused = runner(main), refuser(main)
LOGS = Path(__file__).parents[2] / "fixtures" / "logs"


def parts(folder: Path, experiment: Path) -> Path:
    """Write the rows of an experiment as many Parquet files."""
    text = (experiment / "shipped_holdout_rows.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, len(rows), 20)):
        frame = pl.DataFrame(rows[start : start + 20], infer_schema_length=None)
        frame.write_parquet(folder / f"part-{number:03d}.parquet")
    return folder


def imported(folder: Path) -> tuple[bytes, Any, str]:
    """Return the rows, the settings and the source of a run."""
    recorded = json.loads((folder / "run.json").read_bytes())
    return (folder / "predictions.parquet").read_bytes(), recorded["settings"], recorded["data"]


@pytest.mark.slow
def test_a_folder_a_pattern_and_a_file_of_parquet(
    bucket: Path, made_files: Path, tmp_path: Path
) -> None:
    local = parts(tmp_path / "rows", made_files)
    shutil.copytree(local, bucket / "rows")
    (bucket / "rows" / "notes.txt").write_text("not rows")
    expected = import_run(local, tmp_path / "wanted", {})
    for name in ("rows", "rows/*.parquet", "rows/part-0*"):
        url = f"s3://{bucket.name}/{name}"
        out = tmp_path / "out" / name.replace("/", "-").replace("*", "x")
        assert "324 items" in run("import", url, "--out", out).stdout
        rows, settings, data = imported(out)
        assert (rows, settings) == imported(tmp_path / "wanted")[:2]
        assert data == f"s3://{bucket.name}/rows"
    assert read_rows(Path(f"s3://{bucket.name}/rows")).frame.equals(expected.frame)
    one = import_run(local / "part-000.parquet", tmp_path / "local-one", {})
    url = f"s3://{bucket.name}/rows/part-000.parquet"
    assert import_run(Path(url), tmp_path / "one", {}).frame.equals(one.frame)
    assert imported(tmp_path / "one")[2] == url


@pytest.mark.parametrize(
    ("log", "options"),
    [
        ("lm_eval", ("--family-from", "doc.id")),
        ("inspect/logprobs.eval", ()),
        ("inspect/answers.json", ()),
        ("helm/tiny", ("--multi", "any")),
    ],
)
def test_every_format_is_imported(
    log: str, options: tuple[str, ...], bucket: Path, tmp_path: Path
) -> None:
    source = LOGS / log
    copy = shutil.copytree if source.is_dir() else shutil.copy
    copy(source, bucket / source.name)
    run("import", source, "--out", tmp_path / "wanted", *options)
    url = f"s3://{bucket.name}/{source.name}"
    run("import", url, "--out", tmp_path / "found", *options)
    assert imported(tmp_path / "found")[:2] == imported(tmp_path / "wanted")[:2]
    assert imported(tmp_path / "found")[2] == url


def test_problems_name_the_url(bucket: Path, copied: Path) -> None:
    (bucket / "rows.jsonl").write_text('{"id": "a", "reference": 5, "probabilities": [1, 0]}\n')
    url = f"s3://{bucket.name}/rows.jsonl"
    with pytest.raises(RecordError, match=f"^{url}:1"):
        read_rows(Path(url))
    with pytest.raises(InputError, match="none.jsonl: no such file"):
        log_path(f"s3://{bucket.name}/none.jsonl")
    with pytest.raises(InputError, match=r"none-\*: no such file"):
        log_path(f"s3://{bucket.name}/none-*")
    (bucket / "folder").mkdir()
    (bucket / "folder" / "notes.txt").write_text("neither")
    with pytest.raises(InputError, match=f"^s3://{bucket.name}/folder: expected a file"):
        read_rows(Path(f"s3://{bucket.name}/folder"))


@pytest.fixture
def lying(
    tmp_path: Path, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, int]]:
    sizes: dict[str, int] = {}
    for server in served(tmp_path, backend=Lying(sizes)):
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield sizes


@pytest.mark.parametrize(
    "key",
    [
        "rows/../../outside.parquet",
        "rows//etc/outside.parquet",
        "rows/..\\outside.parquet",
        "rows/a\nb.parquet",
        "rows/C:outside.parquet",
    ],
)
def test_names_that_lead_out_of_the_folder_are_refused(
    key: str, lying: dict[str, int], copied: Path, tmp_path: Path
) -> None:
    before = {path for path in tmp_path.rglob("*") if copied not in (path, *path.parents)}
    lying |= {"rows/part.parquet": 4, key: 4}
    refused("import", "s3://bucket/rows", "--out", tmp_path / "out")
    after = {path for path in tmp_path.rglob("*") if copied not in (path, *path.parents)}
    assert after == before
    assert not [path for path in copied.rglob("*") if path.name.endswith("outside.parquet")]


def test_too_many_files_are_refused(lying: dict[str, int]) -> None:
    lying |= {f"rows/part-{number:05d}.parquet": 4 for number in range(10_001)}
    with pytest.raises(InputError, match="expected at most 10,000 files"):
        log_path("s3://bucket/rows")
