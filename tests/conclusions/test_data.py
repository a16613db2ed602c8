"""Is the data sound? Planted datasets, read from what each surface prints."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from builders import write_jsonl
from click.testing import CliRunner, Result
from commands import with_settings
from messages import assert_says
from run_frames import edit_run, write_run
from spoiled_datasets import Data, healthy

import pact_eval
from pact_cli.audit.main import main as pact_audit
from pact_cli.main import main as pact_eval_command
from pact_eval._files import sha256_of_file
from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.data.records import read_records
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.rows import SCHEMA
from pact_fixtures.generator.dataset import generate_dataset, write_dataset

ITEMS = 40
"""Items of the holdout, and of training."""

LEAKED = 6
"""Pairs of the holdout that leak."""

RESAMPLES = ("--resamples", "100")
SOUND = "sound as far as checked"
"""The status of data without a finding."""


def dataset(*, pairs: int = ITEMS // 2) -> Data:
    """A sound dataset: the first pairs of the generated training and holdout."""
    data = healthy()
    return Data(data.train[:ITEMS], data.holdout[: 2 * pairs])


def leaking(folder: Path) -> Path:
    """A dataset whose training file has the contexts of some holdout pairs under other names."""
    data = dataset()
    for row in json.loads(json.dumps(data.holdout[: 2 * LEAKED])):
        row["id"], row["family"] = f"copy-{row['id']}", f"copy-{row['family']}"
        row["source_family"], row["provenance"]["source_id"] = "copies", f"copy-{row['family']}"
        data.train.append(row)
    return data.write(folder)


def scored(folder: Path, file: Path, seed: int, *, leaked: bool, first: int = 0) -> Path:
    """A run with random logits on a file; a model that has seen its first pairs knows these."""
    rng, rows = np.random.default_rng(seed), []
    for number, record in enumerate(list(read_records(file))[first:]):
        assert record.reference is not None
        logits = rng.normal(0, 1, record.n_choices)
        logits[record.reference] += 9.0 if leaked and number < 2 * LEAKED else 0.7
        rows.append(
            {
                "id": record.id,
                "family": record.family,
                "source_family": record.source_family,
                "domain": record.domain,
                "kind": record.field.kind,
                "variant": record.variant,
                "reference": record.reference,
                "n_choices": record.n_choices,
                "view": 0,
                "code_order": list(range(record.n_choices)),
                "logits": logits.tolist(),
                "prompt_tokens": 100,
                "answer_mass": 0.9,
            }
        )
    write_run(folder, pl.DataFrame(rows, schema=SCHEMA), arm=folder.name, seed=seed)
    recorded: dict[str, Any] = {"sha256": sha256_of_file(file), "records": len(rows)}
    return edit_run(folder, settings={"data": recorded}, data=str(file))


def command(*arguments: object) -> Result:
    return CliRunner().invoke(pact_eval_command, [str(argument) for argument in arguments])


def audit_command(*arguments: object) -> Result:
    return CliRunner().invoke(pact_audit, ["data", *map(str, arguments)])


def first_line(result: Result) -> str:
    return result.stdout.splitlines()[0]


def assert_leak(line: str) -> None:
    assert line.startswith("Leak: ")
    assert_says(line, f"{2 * LEAKED} items", f"({LEAKED} groups)", "train.jsonl;")


def assert_left_out(line: str) -> None:
    assert line.startswith("Left out of all")
    assert_says(line, "the groups", f"{2 * LEAKED} items")


def share_right(run: Path, rows: Sequence[int]) -> float:
    frame = pl.read_parquet(run / "predictions.parquet")[list(rows)]
    picks = [int(np.argmax(logits)) for logits in frame["logits"]]
    return float(np.mean([p == r for p, r in zip(picks, frame["reference"], strict=True)]))


@pytest.fixture(scope="module")
def leak(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A leaking dataset in `data`, and runs `a` (which has seen the leaked pairs) and `b`."""
    home = tmp_path_factory.mktemp("leak")
    holdout = leaking(home / "data") / "holdout.jsonl"
    scored(home / "a", holdout, 1, leaked=True)
    scored(home / "b", holdout, 2, leaked=False)
    return home


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound dataset in `data`, and a run `a` on it."""
    home = tmp_path_factory.mktemp("sound")
    holdout = dataset().write(home / "data") / "holdout.jsonl"
    scored(home / "a", holdout, 1, leaked=False)
    return home


def test_the_audit_of_a_leaking_folder_lists_its_items(leak: Path) -> None:
    result = audit_command(leak / "data", "--json")
    assert result.exit_code == 3
    conclusion = json.loads(result.stdout)["conclusion"]
    assert conclusion["status"] == "leak"
    ids = [record.id for record in read_records(leak / "data" / "holdout.jsonl")]
    assert conclusion["leak"]["items"] == ids[: 2 * LEAKED]


def test_a_leaking_file_without_a_manifest(leak: Path, tmp_path: Path) -> None:
    train, holdout = (
        write_jsonl(tmp_path / f"{name}.jsonl", (leak / "data" / file).read_text().splitlines())
        for name, file in (("first", "train.jsonl"), ("second", "holdout.jsonl"))
    )
    result = audit_command("--train", train, "--eval", holdout)
    assert result.exit_code == 3
    assert first_line(result).startswith("Leak: 12 items (6 groups)")


@pytest.mark.parametrize("key", ["id", "family", "source_family"])
def test_ids_families_and_source_families_leak_as_well(tmp_path: Path, key: str) -> None:
    data = dataset()
    data.train[0][key] = data.holdout[4][key]
    source = DatasetSource.of_folder(data.write(tmp_path))
    conclusion = DataConclusion.of_audit(audit_data(source, DataAuditSettings()))
    assert conclusion.status == "leak"
    expected = [row["id"] for row in data.holdout if row[key] == data.holdout[4][key]]
    assert list(conclusion.items) == expected


def test_only_the_leaks_of_the_scored_files_count_if_their_hashes_are_known(leak: Path) -> None:
    audit = audit_data(DatasetSource.of_folder(leak / "data"), DataAuditSettings())
    train, holdout = (
        next(facts.sha256 for facts, file in zip(audit.facts, audit.files, strict=True)
             if file.path.stem == name)
        for name in ("train", "holdout")
    )  # fmt: skip
    assert DataConclusion.of_audit(audit, [holdout]).leak is not None
    assert DataConclusion.of_audit(audit, [train]).leak is None
    assert DataConclusion.of_audit(audit, ["another"]).leak is not None
    assert DataConclusion.of_audit(audit, [train, None]).leak is not None


def test_a_file_alone_is_not_checked_for_leaks(leak: Path) -> None:
    result = audit_command("--eval", leak / "data" / "holdout.jsonl", "--full")
    assert result.exit_code == 0
    (row,) = (line for line in result.stdout.splitlines() if line.startswith("| separation"))
    assert "not checked" in row
    assert "one file" in row
    assert_says(result.stdout, SOUND, "overlap of files (one file)")
    only = audit_command("--eval", leak / "data" / "holdout.jsonl", "--only", "separation")
    assert only.exit_code == 1


def test_a_report_begins_with_the_leak_and_fails(leak: Path) -> None:
    result = command("report", leak / "a", *RESAMPLES)
    assert result.exit_code == 3
    everything, without = (
        share_right(leak / "a", rows) for rows in (range(ITEMS), range(2 * LEAKED, ITEMS))
    )
    assert everything > without
    assert_leak(first_line(result))
    leak_text, answer = result.stdout.split("\nLeak of 12 items; ")
    shares = [f"{100 * share:.1f}" for share in (everything, without)]
    assert re.findall(r"(\d+\.\d)%", leak_text) == shares
    assert answer.startswith(f"a answers {shares[0]}% [")  # the report follows
    value = json.loads(command("report", leak / "a", *RESAMPLES, "--json").stdout)
    data = value["answer"]["data"]
    assert (data["question"], data["status"]) == ("data", "leak")
    assert len(data["leak"]["items"]) == 2 * LEAKED
    assert len(data["leak"]["families"]) == LEAKED
    assert data["leak"]["files"] == ["train.jsonl"]
    assert data["leak"]["accuracy"]["value"] == pytest.approx(everything)
    assert data["leak"]["accuracy_without"]["value"] == pytest.approx(without)


GATE = ("--margin", "0.9", "--gate")
"""A margin that every change is within: the gate itself passes."""


@pytest.mark.parametrize(
    ("words", "items"),
    [
        (("report", "a"), ("groups", 0, "items")),
        (("sweep", "a"), ("points", 0, "group", "items")),
        (("compare", "a", "b"), ("comparisons", 0, "comparison", "groups", 0, "items")),
        (("compare", "b", "a", *GATE), ("pairing", "common")),
    ],
    ids=["report", "sweep", "comparison", "gate"],
)
def test_a_leak_fails_every_command_and_is_left_out_if_asked(
    leak: Path, words: tuple[str, ...], items: tuple[str | int, ...]
) -> None:
    arguments = [leak / word if word in ("a", "b") else word for word in words]
    assert_leak(first_line(command(*arguments, *RESAMPLES)))

    def said(*more: str, code: int) -> tuple[Any, Any]:
        result = command(*arguments, *RESAMPLES, "--json", *more)
        assert result.exit_code == code, result.output
        value = found = json.loads(result.stdout)
        for key in items:
            found = found[key]
        return value, found

    value, scored_items = said(code=3)
    assert value["answer"]["data"]["status"] == "leak"
    assert scored_items == ITEMS
    without, scored_items = said("--without-leaks", code=0)
    assert without["answer"]["data"]["status"] != "leak"
    assert without["answer"]["data"]["leak"]["left_out"] is True
    assert scored_items == ITEMS - 2 * LEAKED
    rest = range(2 * LEAKED, ITEMS)
    if words == ("report", "a"):
        accuracy = without["groups"][0]["metrics"]["accuracy"]["value"]
        assert accuracy == pytest.approx(share_right(leak / "a", rest))
    if "--gate" in words:
        change = share_right(leak / "a", rest) - share_right(leak / "b", rest)
        assert without["accuracy"][0]["test"]["change"]["value"] == pytest.approx(change)


def test_arms_begin_with_the_leak_and_fail(leak: Path) -> None:
    result = command("compare", f"a={leak / 'a'}", f"b={leak / 'a'}", *RESAMPLES)
    assert result.exit_code == 3
    assert first_line(result).startswith("Leak: 12 items")


def test_a_run_whose_items_leak_may_not_act_alone(leak: Path) -> None:
    arguments = ("report", leak / "a", *RESAMPLES, "--target-error", "0.9", "--json")
    acting = json.loads(command(*arguments).stdout)["answer"]["acting"]
    assert (acting["status"], acting["share"]) == ("cannot tell", None)
    assert acting["unchecked"][0]["reason"].startswith("12 items leak; --without-leaks")
    without = json.loads(command(*arguments, "--without-leaks").stdout)["answer"]["acting"]
    assert without["status"] == "share guaranteed"


@pytest.mark.parametrize("named_by", ["folder", "file", "audit"])
def test_a_leak_of_data_that_is_named(
    leak: Path, tmp_path: Path, named_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[object] = ["--data", leak / "data"]
    if named_by == "file":  # the manifest next to it names it
        options = ["--data", leak / "data" / "holdout.jsonl"]
    elif named_by == "audit":
        path = tmp_path / "audit.json"
        path.write_text(audit_command(leak / "data", "--json").stdout)
        options = []
        for name, value in with_settings(tmp_path, "report", audit=str(path)).items():
            monkeypatch.setenv(name, value)
    result = command("report", leak / "a", *options, *RESAMPLES)
    assert result.exit_code == 3, result.output
    assert_leak(first_line(result))


def test_a_release_whose_items_leak_fails_even_if_every_bound_is_kept(leak: Path) -> None:
    bounds = ("--not-worse", 90, "--require", "accuracy=1")
    result = command("compare", leak / "a", leak / "b", *bounds, *RESAMPLES)
    assert result.exit_code == 3
    assert first_line(result).startswith("Leak: 12 items")
    assert_says(result.stdout, "FAIL", "a file that the model is made from", "shown")
    left_out = command("compare", leak / "a", leak / "b", *bounds, *RESAMPLES, "--without-leaks")
    assert left_out.exit_code == 0
    assert_says(left_out.stdout, "Left out", "PASS")


def test_a_gate_without_a_leak_passes(sound: Path) -> None:
    assert command("compare", sound / "a", sound / "a", *GATE, *RESAMPLES).exit_code == 0


def test_tables_have_the_leak_as_a_note_and_fail(leak: Path, tmp_path: Path) -> None:
    words = ("paper", leak / "a", leak / "b", "--tables", "main", "-o", tmp_path)
    result = command(*words, *RESAMPLES)
    assert result.exit_code == 3
    assert_leak(result.stderr)
    assert "Leak" not in result.stdout  # paths alone
    for name in ("main.tex", "main.md", "report.md"):
        assert "Leak: 12 items (6 groups)" in (tmp_path / name).read_text(), name
    assert (tmp_path / "report.md").read_text().startswith("# Report\n\n> Leak: 12 items")
    without = command(
        *("paper", leak / "a", "--tables", "main", "-o", tmp_path, *RESAMPLES, "--without-leaks")
    )
    assert without.exit_code == 0
    assert_left_out(without.stderr)
    assert f"{ITEMS - 2 * LEAKED} items" in (tmp_path / "main.md").read_text()


def page_of(tmp_path: Path, *arguments: object) -> tuple[str, int]:
    result = command("report", *arguments, "--html", tmp_path / "page.html", *RESAMPLES)
    return (tmp_path / "page.html").read_text(), result.exit_code


@pytest.mark.usefixtures("one_figure")
def test_a_page_begins_with_the_leak_and_says_it_once(leak: Path, tmp_path: Path) -> None:
    page, code = page_of(tmp_path, leak / "a", leak / "b", "--data", leak / "data")
    assert code == 3
    answer = page[page.index('class="answer') :][:200]
    assert "Leak: 12 items" in answer
    data = page[page.index('<section id="data"') :]
    finding = data[: data.index("</ul>")]
    assert ">Leak<" in re.sub("</?bdi>", "", finding)
    assert "12 items (6 groups)" not in finding
    assert "#items&amp;a=1&amp;ids=" in finding


def test_a_sound_folder_leaks_nowhere(sound: Path) -> None:
    result = command("report", sound / "a", *RESAMPLES)
    assert result.exit_code == 0
    assert "eak:" not in result.output
    value = json.loads(command("report", sound / "a", "--data", sound / "data", "--json").stdout)
    assert value["answer"]["data"]["status"] == SOUND
    names = {check["name"] for check in value["answer"]["data"]["unchecked"]}
    assert names == {"lengths", "training data"}


def moved(home: Path, sound: Path) -> Path:
    """A project whose run names the place that its file had before the project was moved."""
    shutil.copytree(sound / "data", home / "data")
    run = shutil.copytree(sound / "a", home / "runs" / "a")
    gone = "/gone/data/holdout.jsonl"
    return edit_run(run, data=gone, data_from_run="../../data/holdout.jsonl")


def test_data_and_run_may_be_moved_together(sound: Path, tmp_path: Path) -> None:
    run = moved(tmp_path / "project", sound)
    data = json.loads(command("report", run, "--json").stdout)["answer"]["data"]
    assert data["status"] == SOUND


@pytest.mark.parametrize("change", ["changed", "not there"])
def test_data_that_changed_are_not_used(sound: Path, tmp_path: Path, change: str) -> None:
    run = moved(tmp_path / "project", sound)
    file = tmp_path / "project" / "data" / "holdout.jsonl"
    if change == "changed":
        file.write_text(file.read_text().replace("the", "a"))
    else:
        file.unlink()
    result = command("report", run)
    assert result.exit_code == 0
    (line,) = (line for line in result.output.splitlines() if "not checked" in line)
    assert_says(line, "holdout.jsonl", change, "--data")


def test_an_import_remembers_the_data_that_it_was_joined_with(tmp_path: Path) -> None:
    tickets = [("late", "refund"), ("broken", "replace"), ("fine", "reject")] * 4
    labels = write_jsonl(
        tmp_path / "labels.jsonl",
        [{"id": f"t{n}", "text": f"{n} is {w}.", "label": a} for n, (w, a) in enumerate(tickets)],
    )
    said = [{"id": f"t{n}", "prediction": a} for n, (_, a) in enumerate(tickets)]
    rows, run = write_jsonl(tmp_path / "rows.jsonl", said), tmp_path / "run"
    arguments = ("import", rows, "--data", labels, "--out", run, "--json")
    for value in (command(*arguments), command("report", run, "--json")):
        assert json.loads(value.stdout)["answer"]["data"]["status"] != "not checked"
    with contextlib.chdir(tmp_path):  # another name of the same file is no other setting
        again = ("import", "rows.jsonl", "--data", "labels.jsonl", "--out", "run")
        assert command(*again).exit_code == 0
    labels.unlink()
    reason = json.loads(command("report", run, "--json").stdout)["answer"]["data"]["unchecked"][0]
    assert_says(reason["reason"], "labels.jsonl", "not there", "--data")


def test_a_file_of_right_answers_alone_is_not_audited(tmp_path: Path) -> None:
    labels, rows = tmp_path / "labels.csv", tmp_path / "rows.csv"
    labels.write_text("id,label\n" + "".join(f"t{n},{'ab'[n % 2]}\n" for n in range(8)))
    rows.write_text("id,prediction\n" + "".join(f"t{n},{'ab'[n % 2]}\n" for n in range(8)))
    result = command("import", rows, "--data", labels, "--out", tmp_path / "run", "--json")
    data = json.loads(result.stdout)["answer"]["data"]
    assert data["status"] == "not checked"
    assert_says(data["unchecked"][0]["reason"], "labels.csv", "no contexts", "--data")


def test_a_run_on_other_items_of_the_file_has_no_leak(leak: Path, tmp_path: Path) -> None:
    holdout = leak / "data" / "holdout.jsonl"
    run = scored(tmp_path / "rest", holdout, 3, leaked=False, first=2 * LEAKED)
    result = command("report", run, "--data", leak / "data", "--json", *RESAMPLES)
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)["answer"]["data"]
    assert (data["status"], data["leak"]) == ("problems", None)


def test_a_model_that_has_seen_every_item(tmp_path: Path) -> None:
    data = dataset(pairs=10)
    Data([*data.train, *data.holdout], data.holdout).write(tmp_path / "data")
    run = scored(tmp_path / "a", tmp_path / "data" / "holdout.jsonl", 1, leaked=True)
    result = command("report", run, *RESAMPLES, "--json")
    assert result.exit_code == 3
    leak_found = json.loads(result.stdout)["answer"]["data"]["leak"]
    assert len(leak_found["items"]) == 20
    assert leak_found["accuracy_without"]["value"] is None
    leak_text = command("report", run, *RESAMPLES).stdout.partition("\nLeak of 20 items; ")[0]
    assert leak_text.partition("; accuracy ")[2].count("%") == 1
    assert_says(" ".join(leak_text.split()), "all of it", "these groups")
    assert command("report", run, "--without-leaks").exit_code == 1


@pytest.mark.slow
def test_generated_data_is_never_called_a_leak(tmp_path: Path) -> None:
    """Null: with another seed, the records differ, and nothing is in two files."""
    for seed in range(8):
        folder = tmp_path / str(seed)
        write_dataset(generate_dataset("small", seed=seed), folder)
        settings = DataAuditSettings(only=["separation"])
        audit = audit_data(DatasetSource.of_folder(folder), settings)
        assert DataConclusion.of_audit(audit).status == SOUND, seed


def test_the_data_that_a_run_names_are_audited(sound: Path) -> None:
    """The run has its file's hash, so nobody has to name it again."""
    remembered, given = (
        json.loads(command("report", sound / "a", *options, "--json").stdout)["answer"]["data"]
        for options in ((), ("--data", sound / "data" / "holdout.jsonl"))
    )
    slow = {"name": "shortcuts", "reason": "looked for by report --data FILE"}
    assert [part for part in remembered["unchecked"] if part not in given["unchecked"]] == [slow]
    assert remembered | {"unchecked": []} == given | {"unchecked": []}
    assert remembered["status"] == SOUND


def test_python_prints_the_leak_first(leak: Path) -> None:
    settings = Settings(resamples=100)
    for result in (
        pact_eval.evaluate(leak / "a", settings),
        pact_eval.compare(leak / "a", leak / "b", settings),
    ):
        assert str(result).startswith("Leak: 12 items (6 groups)"), type(result)
