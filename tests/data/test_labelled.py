"""Labelled files of public shapes are read at the first try, or refused with one complete list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from adapters import MODEL, SHIPPED
from builders import record, write_jsonl
from commands import refuser, runner
from labelled_files import BROKEN, FILES, ONE, URGENT
from messages import assert_says
from scoring.servers.loopback import serving, systemone

from pact_cli.audit.main import main as audit_main
from pact_cli.main import main
from pact_eval.data.labelled.reader import read_dataset_records, read_labelled
from pact_eval.data.labelled.reading import Reading, is_labelled, reading_of, reading_of_json
from pact_eval.data.records import read_records
from pact_eval.data.splits import write_manifest
from pact_eval.errors import RecordError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import read_item_records
from pact_eval.runs.folder import read_run

run, refused = runner(main), refuser(main)
audit, audit_refused = runner(audit_main), refuser(audit_main)


def reading(options: tuple[str, ...]) -> Reading:
    return reading_of(columns=[text for text in options if text != "--columns"])


@pytest.mark.parametrize("name", ["questions", "spreadsheet"])
def test_a_file_is_scored_at_the_first_try(tmp_path: Path, name: str) -> None:
    file = FILES[name]
    path = file.write(tmp_path)
    with serving(systemone) as server:
        words = ("--server", server.url, "--model", "m", "--no-probe", "--k", 1, "--data", path)
        result = run("score", *words, "--out", tmp_path / "run", *file.options)
    rows = pl.read_parquet(tmp_path / "run" / "predictions.parquet")
    assert tuple(rows["reference"]) == file.references
    assert_says(result.stderr, path.name, f'"{file.shape}"')
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert settings["labelled"]["shape"] == file.shape
    again = read_dataset_records(path, reading_of_json(settings["labelled"]))
    assert [item.id for item in again] == rows["id"].to_list()


@pytest.mark.parametrize("name", FILES)
def test_the_converted_file_means_the_same(tmp_path: Path, name: str) -> None:
    file = FILES[name]
    path, out = file.write(tmp_path), tmp_path / "full" / "eval.jsonl"
    audit("convert", path, out, *file.options)
    data = read_labelled(path, reading(file.options))
    assert tuple(item.reference for item in data.records) == file.references
    assert data.metadata == file.metadata
    assert not is_labelled(out)
    full = read_records(out)
    facts = ("id", "family", "source_family", "split", "domain", "variant", "state", "field")
    for ours, theirs in zip(full, data.records, strict=True):
        for fact in (*facts, "reference", "metadata", "provenance"):
            assert getattr(ours, fact) == getattr(theirs, fact)
    manifest = json.loads((out.parent / "manifest.json").read_text())
    assert manifest["converted_from"]["shape"] == file.shape
    assert not write_manifest(out.parent).changed


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_the_complete_list(tmp_path: Path, name: str) -> None:
    file = BROKEN[name]
    path = file.write(tmp_path)
    words = ("score", "--server", "http://127.0.0.1:9", "--model", "m", "--data", path)
    message = refused(*words, "--out", tmp_path / "run", code=file.code)
    assert_says(message, path.name, *file.says)
    assert not (tmp_path / "run").exists()
    result = audit("convert", path, tmp_path / "x" / "eval.jsonl", "--json", code=file.code)
    error = json.loads(result.stdout)["error"]
    assert tuple(problem["line"] for problem in error["problems"]) == file.lines
    assert not (tmp_path / "x").exists()


def test_many_problems_are_grouped_by_kind(tmp_path: Path) -> None:
    wrong = ONE | {"expected": {"urgent": "perhaps"}}
    repeated = [ONE | {"id": "a"}] * 11
    with pytest.raises(RecordError) as caught:
        read_labelled(write_jsonl(tmp_path / "a.jsonl", [*repeated, *[wrong] * 60, "{"]))
    assert len(caught.value.problems) == 71
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert_says(lines[1], "9 more", "lines 3, 4")
    assert_says(lines[3], "59 more", "lines 13, 14")


def test_more_than_26_answers_are_refused_for_a_model_here(tmp_path: Path) -> None:
    path = FILES["intents"].write(tmp_path)
    words = ("score", SHIPPED / "pact", "--base-model", MODEL, "--device", "cpu", "--k", 1)
    options = FILES["intents"].options
    result = run(*words, "--data", path, "--out", tmp_path / "run", *options, code=1)
    assert_says(result.stderr, "more answers than", "server", "77 records")


def test_what_a_file_does_not_name_has_defaults(tmp_path: Path) -> None:
    """Questions of one entry share its family; the id is that of the content, in any file."""
    questions = {"urgent": URGENT, "late": URGENT}
    entry = {"state": "s", "questions": questions, "expected": {"urgent": True, "late": False}}
    path = write_jsonl(tmp_path / "a.jsonl", [entry, ONE | {"id": 7, "domain": "shop"}])
    first, second, third = read_labelled(path).records
    assert (first.family, first.source_family) == (second.family,) * 2
    assert {first.id, second.id} == {f"{first.family}/urgent", f"{first.family}/late"}
    assert (first.split, first.domain, first.variant, first.line) == ("validation", "", "base", 1)
    assert (third.id, third.family, third.domain, third.line) == ("7", "7", "shop", 2)
    other = read_labelled(write_jsonl(tmp_path / "b.jsonl", [ONE, entry, entry])).records
    assert [item.id for item in other[1:3]] == [first.id, second.id]
    assert other[3].family == f"{first.family}-2"


def test_named_labels_are_not_defaults(tmp_path: Path) -> None:
    own = {"id": "a", "family": "f", "source_family": "s", "split": "test", "variant": "hard"}
    path = write_jsonl(tmp_path / "a.jsonl", [ONE | own | {"variant": "base", "split": "train"}])
    data = read_labelled(path)
    assert (data.defaults.pairs, data.defaults.source_families) == (False, False)
    assert data.records[0].split == "train"
    data = read_labelled(write_jsonl(tmp_path / "b.jsonl", [ONE | own]))
    assert data.defaults.names == ("domain", "variant")
    assert data.records[0].metadata["split"] == "test"
    assert data.records[0].metadata["variant"] == "hard"


def checks(result: Any) -> dict[str, Any]:
    return {check["check"]: check for check in json.loads(result.stdout)["checks"]}


def test_the_audit_does_not_pass_what_it_cannot_check(tmp_path: Path) -> None:
    """Pairs and source families of labelled files are not checked; equal contexts still are."""
    train = write_jsonl(tmp_path / "train.jsonl", [ONE | {"state": "one"}, ONE | {"state": "two"}])
    path = write_jsonl(tmp_path / "eval.jsonl", [ONE | {"state": f"eval {n}"} for n in range(9)])
    result = audit("data", "--train", train, "--eval", path, "--json")
    results = checks(result)
    for name in ("families", "certificates", "separation"):
        assert results[name]["skipped"]
    assert "split-mismatch" not in results["schema"]["codes"]
    unchecked = json.loads(result.stdout)["conclusion"]["unchecked"]
    assert {"families", "separation"} <= {part["name"] for part in unchecked}
    write_jsonl(path, [ONE | {"state": "two"}])
    results = checks(audit("data", "--train", train, "--eval", path, "--json", code=3))
    assert {"shared-context", "shared-id"} <= results["separation"]["codes"].keys()
    assert results["separation"]["findings"][0]["line"] == 1


def test_the_audit_of_a_converted_file_is_as_open(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "in.jsonl", [ONE | {"state": f"eval {n}"} for n in range(9)])
    audit("convert", path, tmp_path / "full" / "eval.jsonl")
    full = write_jsonl(tmp_path / "train.jsonl", [record(split="train")])
    words = ("data", "--eval", tmp_path / "full" / "eval.jsonl", "--train", full, "--json")
    results = checks(audit(*words, code=3))
    assert (results["separation"]["skipped"], results["families"]["skipped"]) != (None, None)
    assert results["families"]["codes"].keys() == {"family-size"}  # of the training file


def test_places_of_the_audit_are_lines_of_the_labelled_file(tmp_path: Path) -> None:
    path, train = tmp_path / "a.csv", tmp_path / "train.csv"
    path.write_text('text,label\n"one\ntwo",a\nb,b\nthree,a\n')
    train.write_text("text,label\nthree,a\nfour,b\n")
    results = checks(audit("data", "--eval", path, "--train", train, "--json", code=3))
    places = [
        (finding["file"], finding["line"])
        for finding in results["separation"]["findings"]
        if finding["code"] == "shared-context"
    ]
    assert places == [(str(path), 5)]


def test_records_of_the_full_format_may_be_in_parquet(tmp_path: Path) -> None:
    rows = [record("a-base"), record("a-counterfactual", reference={"target": "answer_2"})]
    pl.DataFrame(rows).write_parquet(tmp_path / "eval.parquet")
    first, second = read_dataset_records(tmp_path / "eval.parquet")
    path = write_jsonl(tmp_path / "eval.jsonl", rows)
    assert [first, second] == read_records(path)
    pl.DataFrame([rows[0], rows[0]]).write_parquet(tmp_path / "eval.parquet")
    with pytest.raises(RecordError, match="2 .id a-base"):
        read_dataset_records(tmp_path / "eval.parquet")


def test_files_that_are_there_are_not_overwritten(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [ONE])
    (tmp_path / "manifest.json").write_text("{}")
    assert_says(audit_refused("convert", path, tmp_path / "b.jsonl"), "manifest.json")
    assert_says(audit_refused("convert", path, tmp_path / "b.csv"), ".jsonl")
    full = write_jsonl(tmp_path / "full.jsonl", [record()])
    assert_says(audit_refused("convert", full, tmp_path / "new" / "b.jsonl"), "full format")
    assert not (tmp_path / "new").exists()


TABLE = "id,text,label,shop\nr1,Good,pos,a\nr2,Bad,neg,b\nr3,Fine,pos,a\n"


def test_references_of_rows_come_from_labelled_data(tmp_path: Path) -> None:
    """Rows need an id and what the model said; values may be by the names of answers."""
    (tmp_path / "data.csv").write_text(TABLE)
    log = write_jsonl(
        tmp_path / "rows.jsonl",
        [
            {"id": "r1", "p": {"pos": 0.75, "neg": 0.25}},
            {"id": "r2", "p": {"neg": 0.5, "pos": 0.5}},
        ],
    )
    words = ("import", log, "--map", "probabilities=p", "--data", tmp_path / "data.csv")
    result = run(*words, "--out", tmp_path / "run")
    assert_says(result.stderr, '"columns"', "1 record has no row")
    rows = pl.read_parquet(tmp_path / "run" / "predictions.parquet")
    assert rows["reference"].to_list() == [1, 0]
    assert rows["logits"].list.eval(pl.element().exp()).to_list() == [[0.25, 0.75], [0.5, 0.5]]
    assert rows["metadata.shop"].to_list() == ["a", "b"]
    from pact_eval import import_run

    options: Any = {"map": {"probabilities": "p"}, "data": tmp_path / "data.csv"}
    made = import_run(log, tmp_path / "python", **options)
    assert pl.read_parquet(tmp_path / "python" / "predictions.parquet").equals(rows)
    assert (
        made.provenance.recorded["settings"]
        == read_run(tmp_path / "run").provenance.recorded["settings"]
    )


def test_answers_by_name_and_rows_of_other_data(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(TABLE)
    words = ("--data", tmp_path / "data.csv", "--out", tmp_path / "run")
    answers = [{"id": "r1", "answer": "pos"}, {"id": "r3", "answer": "Neg"}]
    run("import", write_jsonl(tmp_path / "rows.jsonl", answers), *words)
    wrong = [
        {"id": "r9", "answer": "pos"},
        {"id": "r1", "probabilities": {"pos": 1.0}},
        {"id": "r2", "answer": "good"},
    ]
    message = refused("import", write_jsonl(tmp_path / "wrong.jsonl", wrong), *words)
    assert_says(message, ":1 (id r9)", "data.csv")
    message = refused("import", write_jsonl(tmp_path / "wrong.jsonl", wrong[1:2]), *words)
    assert_says(message, ":1 (id r1)", "neg, pos", "got pos")
    message = refused("import", write_jsonl(tmp_path / "wrong.jsonl", wrong[2:]), *words, code=2)
    assert_says(message, "line 1 (id r2)", "good", '"neg", "pos"')
    suite = FILES["suite"].write(tmp_path)
    results = write_jsonl(tmp_path / "results.jsonl", [])
    results.write_text('{"run_id": "a1", "payload_sha256": "x", "status": "ok"}\n')
    message = refused("import", results, "--suite", suite, *words[:2], "--out", tmp_path / "other")
    assert_says(message, "--data", "rows of your own", "Decision Index")


@pytest.mark.slow
def test_a_report_reads_the_data_as_the_run_did(tmp_path: Path) -> None:
    """The texts of a page and the audit of a report take the columns that the run recorded."""
    path = FILES["intents"].write(tmp_path)
    with serving(systemone) as server:
        words = ("--server", server.url, "--model", "m", "--no-probe", "--k", 1, "--data", path)
        run("score", *words, "--out", tmp_path / "run", *FILES["intents"].options)
    report = ("report", tmp_path / "run", "--resamples", 100, "--data", path)
    data = json.loads(run(*report, "--json").stdout)["answer"]["data"]
    assert data["status"] != "leak"
    assert {"families", "certificates"} <= {part["name"] for part in data["unchecked"]}
    records = read_item_records([path], Experiment.read([tmp_path / "run"]))
    assert not records.different
    assert {item.state for item in records.records.values()} == {f"I want {n}" for n in range(77)}


def test_numbered_columns_are_the_options(tmp_path: Path) -> None:
    """A table whose options are in columns of their own, of which nobody said so."""
    path = tmp_path / "a.csv"
    path.write_text("ctx,opt1,opt2,gold\nIt rains.,wet,dry,wet\nIt snows.,cold,hot,cold\n")
    columns = {"state": ("ctx",), "reference": ("gold",)}
    data = read_labelled(path, Reading(columns=columns))
    assert [answer.key for answer in data.records[0].field.answers] == ["wet", "dry"]
