"""The first commands of a user, as typed, in a folder that was made from the fixtures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import refuser, runner
from messages import assert_says
from run_frames import edit_run, rows, write_run
from scoring.conftest import FIXTURES

from pact_cli.main import main
from pact_eval._files import sha256_of_file
from pact_eval.data.records import read_records
from pact_eval.data.splits import write_manifest
from pact_eval.runs.rows import SCHEMA

run = runner(main)
refused = refuser(main)
FAST = ("--resamples", 100)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with data, two adapters, and the base model that these name; it is the folder."""
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    for name, count in (("holdout.jsonl", 24), ("train.jsonl", 40)):
        lines = (FIXTURES / "data" / name).read_bytes().split(b"\n")[:count]
        (project / "data" / name).write_bytes(b"\n".join(lines) + b"\n")
    write_manifest(project / "data")
    (tmp_path / "model").symlink_to(FIXTURES / "model")
    shutil.copytree(FIXTURES / "adapters" / "pact", project / "adapter")
    monkeypatch.chdir(project)
    return project


def scored(folder: Path, data: Path, seed: int, *, recorded: bool = True) -> Path:
    """Returns a run on a dataset with random logits, as if `score` had written it."""
    made = rows(seed, families=1, k=1).head(0)
    records = []
    for number, record in enumerate(read_records(data)):
        logits = [float((number * 7 + seed * place) % 5) for place in range(record.n_choices)]
        records.append(
            {
                "id": record.id, "family": record.family, "source_family": record.source_family,
                "domain": record.domain, "kind": record.field.kind, "variant": record.variant,
                "reference": record.reference, "n_choices": record.n_choices, "view": 0,
                "code_order": list(range(record.n_choices)), "logits": logits,
                "prompt_tokens": 200, "answer_mass": 0.9,
            }
        )  # fmt: skip
    frame = pl.concat([made, pl.DataFrame(records, schema=SCHEMA)])
    write_run(folder, frame, arm=folder.name)
    named = {"sha256": sha256_of_file(data), "records": len(records)}
    return edit_run(folder, settings={"data": named}, data=str(data) if recorded else "gone.jsonl")


def test_two_evaluation_files_are_an_error_that_names_both(home: Path) -> None:
    shutil.copy(home / "data" / "holdout.jsonl", home / "data" / "test.jsonl")
    path = home / "data" / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["file_sha256"]["test.jsonl"] = "0" * 64
    path.write_text(json.dumps(manifest))
    message = refused("score", "adapter")
    assert_says(message, "one evaluation file", "data/holdout.jsonl, data/test.jsonl")
    assert "give --data FILE" in message


Runs = Callable[..., tuple[Path, Path]]


@pytest.fixture
def two(home: Path) -> Runs:
    def make(*, recorded: bool = True) -> tuple[Path, Path]:
        data = home / "data" / "holdout.jsonl"
        first = scored(home / "a", data, 1, recorded=recorded)
        return first, scored(home / "b", data, 3, recorded=recorded)

    return make


def compared(*words: object) -> dict[str, Any]:
    result = run("compare", "a/", "b/", *FAST, *words, "--items", 999, "--json")
    (pair,) = json.loads(result.stdout)["comparisons"]
    return dict(pair)


def test_items_that_differ_have_question_and_answers(home: Path, two: Runs) -> None:
    two()
    records = {record.id: record for record in read_records(home / "data" / "holdout.jsonl")}
    pair = compared()
    counts = pair["comparison"]["groups"][0]["accuracy"]["items"]
    sides = [item["correct"] for item in pair["items"]]
    assert (sides.count("a"), sides.count("b")) == (counts["b"], counts["c"])
    assert len(sides) > 0
    for item in pair["items"]:
        answers = records[item["id"]].field.answers
        assert item["right"] == [answers[records[item["id"]].reference or 0].key]
        assert item["given"] in {answer.key for answer in answers} - {*item["right"]}
        assert item["text"]
    ids = {item["id"] for item in pair["items"]}
    assert ids == {item["id"] for item in pair["comparison"]["differing"]}
    for side in ("a", "b"):
        sure = [item["confidence"] for item in pair["items"] if item["correct"] == side]
        assert sure == sorted(sure, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["gone", "edited"])
def test_without_its_data_the_ids_are_shown_and_what_shows_the_texts(
    home: Path, two: Runs, change: str
) -> None:
    two(recorded=change != "gone")
    data = home / "data" / "holdout.jsonl"
    kept = data.read_bytes()
    if change == "edited":
        data.write_bytes(kept + b"\n")
    text = run("compare", "a/", "b/", *FAST, "--items", 5).stdout
    assert "--data FILE" in text
    assert all(item["text"] is None for item in compared()["items"])
    data.write_bytes(kept)
    assert all(item["text"] for item in compared("--data", data)["items"])
    (home / "pact.toml").write_text('data = "data"\n')
    assert all(item["text"] for item in compared()["items"])
