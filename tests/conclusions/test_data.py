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
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.rows import SCHEMA
from pact_fixtures.generator.dataset import generate_dataset, write_dataset

LEAKED = 6
RESAMPLES = ("--resamples", "200")
SOUND = "sound as far as checked"
"""The status of data without a finding."""


def dataset(*, pairs: int = 40) -> Data:
    """A sound dataset: the first pairs of the generated holdout, and all generated training."""
    data = healthy()
    return Data(data.train, data.holdout[: 2 * pairs])


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
    assert_says(line, f"{2 * LEAKED} items", f"({LEAKED} families)", "train.jsonl;")


def assert_left_out(line: str) -> None:
    assert line.startswith("Left out of all")
    assert_says(line, "the families", f"{2 * LEAKED} items")


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


def test_the_audit_of_a_leaking_folder_begins_with_the_leak(leak: Path) -> None:
    result = audit_command(leak / "data")
    assert result.exit_code == 3
    assert_says(first_line(result), "Leak: 12 items", "6 families", "train.jsonl")
    value = json.loads(audit_command(leak / "data", "--json").stdout)
    assert value["conclusion"]["status"] == "leak"
    ids = [record.id for record in read_records(leak / "data" / "holdout.jsonl")]
    assert value["conclusion"]["leak"]["items"] == ids[: 2 * LEAKED]


def test_a_leaking_file_without_a_manifest(leak: Path, tmp_path: Path) -> None:
    train, holdout = (
        write_jsonl(tmp_path / f"{name}.jsonl", (leak / "data" / file).read_text().splitlines())
        for name, file in (("first", "train.jsonl"), ("second", "holdout.jsonl"))
    )
    result = audit_command("--train", train, "--eval", holdout)
    assert result.exit_code == 3
    assert first_line(result).startswith("Leak: 12 items (6 families)")


def test_ids_families_and_source_families_leak_as_well(tmp_path: Path) -> None:
    for key in ("id", "family", "source_family"):
        data = dataset(pairs=20)
        data.train[0][key] = data.holdout[4][key]
        source = DatasetSource.of_folder(data.write(tmp_path / key))
        conclusion = DataConclusion.of_audit(audit_data(source, DataAuditSettings()))
        assert conclusion.status == "leak"
        expected = [row["id"] for row in data.holdout if row[key] == data.holdout[4][key]]
        assert list(conclusion.items) == expected, key


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
    result = audit_command("--eval", leak / "data" / "holdout.jsonl")
    assert result.exit_code == 0
    (row,) = (line for line in result.stdout.splitlines() if line.startswith("| separation"))
    assert "not checked" in row
    assert "one file" in row
    last = " ".join(result.stdout.split("\n\n")[-1].split())
    assert SOUND in last
    assert "separation (one file)" in last
    only = audit_command("--eval", leak / "data" / "holdout.jsonl", "--only", "separation")
    assert only.exit_code == 1


def test_one_source_family_is_not_checked_for_shortcuts(tmp_path: Path) -> None:
    data = dataset()
    one = data.holdout[0]["source_family"]
    records = [row for row in data.holdout if row["source_family"] == one]
    result = audit_command("--eval", write_jsonl(tmp_path / "eval.jsonl", records))
    (row,) = (line for line in result.stdout.splitlines() if line.startswith("| shortcuts"))
    assert "not checked" in row
    assert "shortcuts (one source family)" in " ".join(result.stdout.split())


def test_sound_data_without_certificates_has_no_doubts(tmp_path: Path) -> None:
    data = dataset()
    for row in (*data.train, *data.holdout):
        del row["evidence_certificate"]
    folder = data.write(tmp_path)
    result = audit_command(folder)
    assert result.exit_code == 0
    assert SOUND in result.stdout
    assert_says(result.stdout, "certificates", "no record has a certificate")
    value = json.loads(audit_command(folder, "--json").stdout)["conclusion"]
    assert (value["status"], value["errors"], value["warnings"]) == (SOUND, 0, 0)


def test_a_report_begins_with_the_leak_and_fails(leak: Path) -> None:
    result = command("report", leak / "a", *RESAMPLES)
    assert result.exit_code == 3
    everything, without = (
        100 * share_right(leak / "a", rows) for rows in (range(80), range(2 * LEAKED, 80))
    )
    assert everything > without
    assert_leak(first_line(result))
    leak_text, answer = result.stdout.split("\nLeak of 12 items; ")
    assert re.findall(r"(\d+\.\d)%", leak_text) == [f"{everything:.1f}", f"{without:.1f}"]
    assert answer.startswith(f"a answers {everything:.1f}% [")  # the report follows


def test_the_json_of_a_report_has_the_leak(leak: Path) -> None:
    result = command("report", leak / "a", *RESAMPLES, "--json")
    assert result.exit_code == 3
    data = json.loads(result.stdout)["answer"]["data"]
    assert (data["question"], data["status"]) == ("data", "leak")
    leak_found = data["leak"]
    assert len(leak_found["items"]) == 2 * LEAKED
    assert len(leak_found["families"]) == LEAKED
    assert leak_found["files"] == ["train.jsonl"]
    assert leak_found["accuracy"]["value"] == pytest.approx(share_right(leak / "a", range(80)))
    expected = share_right(leak / "a", range(2 * LEAKED, 80))
    assert leak_found["accuracy_without"]["value"] == pytest.approx(expected)


def test_a_run_whose_items_leak_may_not_act_alone(leak: Path) -> None:
    arguments = ("report", leak / "a", *RESAMPLES, "--target-error", "0.9", "--json")
    acting = json.loads(command(*arguments).stdout)["answer"]["acting"]
    assert (acting["status"], acting["share"]) == ("cannot tell", None)
    assert acting["unchecked"][0]["reason"].startswith("12 items leak; --without-leaks")
    without = json.loads(command(*arguments, "--without-leaks").stdout)["answer"]["acting"]
    assert without["status"] == "share guaranteed"


def test_a_report_without_leaks_leaves_the_families_out(leak: Path) -> None:
    result = command("report", leak / "a", *RESAMPLES, "--without-leaks")
    assert result.exit_code == 0
    assert_left_out(first_line(result))
    value = json.loads(command("report", leak / "a", "--without-leaks", "--json").stdout)
    assert value["groups"][0]["items"] == 80 - 2 * LEAKED
    accuracy = value["groups"][0]["metrics"]["accuracy"]["value"]
    assert accuracy == pytest.approx(share_right(leak / "a", range(2 * LEAKED, 80)))
    assert value["answer"]["data"]["status"] != "leak"
    assert value["answer"]["data"]["leak"]["left_out"] is True


@pytest.mark.parametrize("named_by", ["folder", "file", "audit"])
def test_a_leak_of_data_that_is_named(leak: Path, tmp_path: Path, named_by: str) -> None:
    options: list[object] = ["--data", leak / "data"]
    if named_by == "file":  # the manifest next to it names it
        options = ["--data", leak / "data" / "holdout.jsonl"]
    elif named_by == "audit":
        path = tmp_path / "audit.json"
        path.write_text(audit_command(leak / "data", "--json").stdout)
        options = ["--audit", path]
    result = command("report", leak / "a", *options, *RESAMPLES)
    assert result.exit_code == 3, result.output
    assert_leak(first_line(result))


def test_a_comparison_begins_with_the_leak_and_fails(leak: Path) -> None:
    pair = ("compare", leak / "a", leak / "b", *RESAMPLES)
    result = command(*pair)
    assert result.exit_code == 3
    assert_leak(first_line(result))
    words = " ".join(result.stdout.split())
    assert f"; accuracy of a {100 * share_right(leak / 'a', range(80)):.1f}%, " in words
    headline = words.rpartition("Leak of 12 items; ")[2]
    assert headline.startswith(("a is ", "no accuracy difference shown"))
    answer = json.loads(command(*pair, "--json").stdout)["answer"]
    assert answer["data"]["status"] == "leak"
    assert [conclusion["question"] for conclusion in answer["better"]] == ["better"]
    without = command(*pair, "--without-leaks", "--json")
    assert without.exit_code == 0
    (compared,) = json.loads(without.stdout)["comparisons"]
    assert compared["comparison"]["groups"][0]["items"] == 80 - 2 * LEAKED


def test_arms_begin_with_the_leak_and_fail(leak: Path) -> None:
    result = command("compare", "--arms", f"a={leak / 'a'}", f"b={leak / 'a'}", *RESAMPLES)
    assert result.exit_code == 3
    assert first_line(result).startswith("Leak: 12 items")


def test_a_sweep_begins_with_the_leak_and_fails(leak: Path) -> None:
    result = command("report", "--views", leak / "a", *RESAMPLES)
    assert result.exit_code == 3
    assert_leak(first_line(result))
    value = json.loads(command("report", "--views", leak / "a", *RESAMPLES, "--json").stdout)
    assert value["answer"]["data"]["status"] == "leak"
    assert value["points"][0]["group"]["items"] == 80
    without = command("report", "--views", leak / "a", *RESAMPLES, "--json", "--without-leaks")
    assert without.exit_code == 0
    assert json.loads(without.stdout)["points"][0]["group"]["items"] == 80 - 2 * LEAKED


GATE = ("--margin", "0.9", "--gate", *RESAMPLES)
"""A margin that every change is within: the gate itself passes."""


def test_a_gate_begins_with_the_leak_and_fails(leak: Path) -> None:
    result = command("compare", leak / "b", leak / "a", *GATE)
    assert result.exit_code == 3
    assert_leak(first_line(result))
    everything, without = (
        100 * share_right(leak / "a", rows) for rows in (range(80), range(2 * LEAKED, 80))
    )
    numbers = re.findall(r"(\d+\.\d)%", first_line(result) + result.stdout.splitlines()[1])
    assert numbers == [f"{everything:.1f}", f"{without:.1f}"]
    assert " ".join(result.stdout.split()).count("Leak of 12 items; equivalent: ") == 1
    value = json.loads(command("compare", leak / "b", leak / "a", *GATE, "--json").stdout)
    assert value["answer"]["data"]["status"] == "leak"
    assert value["pairing"]["common"] == 80


def test_a_gate_without_leaks_leaves_the_families_out_of_both_runs(leak: Path) -> None:
    result = command("compare", leak / "b", leak / "a", *GATE, "--without-leaks", "--json")
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert value["pairing"]["common"] == 80 - 2 * LEAKED
    assert value["answer"]["data"]["leak"]["left_out"] is True
    rest = range(2 * LEAKED, 80)
    change = share_right(leak / "a", rest) - share_right(leak / "b", rest)
    assert value["accuracy"][0]["test"]["change"]["value"] == pytest.approx(change)


def test_a_gate_without_a_leak_passes(sound: Path) -> None:
    assert command("compare", sound / "a", sound / "a", *GATE).exit_code == 0


def test_tables_have_the_leak_as_a_note_and_fail(leak: Path, tmp_path: Path) -> None:
    words = ("paper", leak / "a", leak / "b", "--tables", "main", "-o", tmp_path)
    result = command(*words, *RESAMPLES)
    assert result.exit_code == 3
    assert_leak(result.stderr)
    assert "Leak" not in result.stdout  # paths alone
    for name in ("main.tex", "main.md", "report.md"):
        assert "Leak: 12 items (6 families)" in (tmp_path / name).read_text(), name
    assert (tmp_path / "report.md").read_text().startswith("# Report\n\n> Leak: 12 items")
    without = command(
        *("paper", leak / "a", "--tables", "main", "-o", tmp_path, *RESAMPLES, "--without-leaks")
    )
    assert without.exit_code == 0
    assert_left_out(without.stderr)
    assert "68 items" in (tmp_path / "main.md").read_text()


def test_figures_have_the_leak_in_their_metadata_and_fail(leak: Path, tmp_path: Path) -> None:
    figures = ("paper", leak / "a", "--figures", "reliability", "--format", "svg,png,pdf")
    result = command(*figures, "-o", tmp_path, *RESAMPLES, "--json")
    assert result.exit_code == 3
    value = json.loads(result.stdout)
    assert value["answer"]["data"]["status"] == "leak"
    for path in map(Path, value["files"]["figures"]["reliability"]):
        assert b"Leak: 12 items" in path.read_bytes(), path
    printed = command(*figures, "-o", tmp_path, *RESAMPLES)
    assert printed.exit_code == 3
    assert_leak(printed.stderr)


def test_files_of_a_sound_run_have_no_remark(sound: Path, tmp_path: Path) -> None:
    only = ("--figures", "reliability", "--tables", "main")
    result = command("paper", sound / "a", *only, "-o", tmp_path, *RESAMPLES)
    assert (result.exit_code, "eak" in result.output) == (0, False), result.output
    assert not any(b"eak:" in path.read_bytes() for path in tmp_path.iterdir())


def page_of(tmp_path: Path, *arguments: object) -> tuple[str, int]:
    result = command("report", *arguments, "--html", tmp_path / "page.html", *RESAMPLES)
    return (tmp_path / "page.html").read_text(), result.exit_code


def card_of(page: str) -> str:
    """The text of the card on the data."""
    card = page[page.index("Is the data sound?") :]
    return re.sub(r"<[^>]*>", " ", card[: card.index("</section>")])


@pytest.mark.usefixtures("one_figure")
def test_a_page_has_the_leak_in_its_card_and_as_a_critical_diagnostic(
    leak: Path, tmp_path: Path
) -> None:
    page, code = page_of(tmp_path, leak / "a", leak / "b", "--data", leak / "data")
    assert code == 3
    assert "Leak" in card_of(page)
    diagnostic = page[page.index('id="diagnostic-critical-leak"') :][:2_000]
    assert "12 items (6 families)" in diagnostic
    assert "#items&amp;a=1&amp;ids=" in diagnostic
    answer = page[page.index('class="answer"') :][:200]
    assert "Leak: 12 items" in answer


@pytest.mark.usefixtures("one_figure")
def test_a_page_without_leaks_says_so(leak: Path, tmp_path: Path) -> None:
    page, code = page_of(tmp_path, leak / "a", "--data", leak / "data", "--without-leaks")
    assert code == 0
    assert "diagnostic-critical-leak" not in page
    assert "Left out of all" in page[page.index('class="answer"') :][:200]
    assert "68 items" in page


@pytest.mark.usefixtures("one_figure")
def test_a_page_counts_the_checks_that_were_made(leak: Path, tmp_path: Path) -> None:
    """The page once said "-6 checks"."""
    page, _ = page_of(tmp_path, leak / "a")
    assert " records, 6 checks: " in page


@pytest.mark.usefixtures("one_figure")
def test_a_sound_folder_leaks_nowhere(sound: Path, tmp_path: Path) -> None:
    result = command("report", sound / "a", *RESAMPLES)
    assert result.exit_code == 0
    assert "eak:" not in result.output
    page, code = page_of(tmp_path, sound / "a", "--data", sound / "data" / "holdout.jsonl")
    assert code == 0
    assert SOUND.capitalize() in card_of(page)
    assert "diagnostic-critical-leak" not in page
    value = json.loads(command("report", sound / "a", "--data", sound / "data", "--json").stdout)
    assert value["answer"]["data"]["status"] == SOUND
    names = {check["name"] for check in value["answer"]["data"]["unchecked"]}
    assert names == {"lengths", "training data"}


def test_the_data_that_a_run_names_are_audited(sound: Path) -> None:
    """The run has its file's hash, so nobody has to name it again."""
    remembered, given = (
        json.loads(command("report", sound / "a", *options, "--json").stdout)["answer"]["data"]
        for options in ((), ("--data", sound / "data" / "holdout.jsonl"))
    )
    slow = {"name": "shortcuts", "reason": "give --data"}
    assert [part for part in remembered["unchecked"] if part not in given["unchecked"]] == [slow]
    assert remembered | {"unchecked": []} == given | {"unchecked": []}
    assert remembered["status"] == SOUND


def moved(home: Path, sound: Path) -> Path:
    """A project whose run names the place that its file had before the project was moved."""
    shutil.copytree(sound / "data", home / "data")
    run = shutil.copytree(sound / "a", home / "runs" / "a")
    gone = "/gone/data/holdout.jsonl"
    return edit_run(run, data=gone, data_from_run="../../data/holdout.jsonl")


@pytest.mark.usefixtures("one_figure")
def test_data_and_run_may_be_moved_together(sound: Path, tmp_path: Path) -> None:
    run = moved(tmp_path / "project", sound)
    data = json.loads(command("report", run, "--json").stdout)["answer"]["data"]
    assert data["status"] == SOUND
    page, _ = page_of(tmp_path, run)
    assert "texts are in the page" in page


@pytest.mark.usefixtures("one_figure")
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
    page, code = page_of(tmp_path, run)
    assert code == 0
    assert "without texts" in page


@pytest.mark.usefixtures("one_figure")
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
    page, _ = page_of(tmp_path, run)
    assert "texts are in the page" in page
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


def test_python_prints_the_leak_first(leak: Path) -> None:
    settings = Settings(resamples=200)
    for result in (
        Experiment.read([leak / "a"], settings).report(),
        pact_eval.evaluate(leak / "a", settings),
        pact_eval.compare(leak / "a", leak / "b", settings),
        pact_eval.measure_drift(leak / "a", leak / "b", Settings(resamples=200, margin=0.5)),
        pact_eval.audit_dataset(leak / "data" / "holdout.jsonl"),
    ):
        assert str(result).startswith("Leak: 12 items (6 families)"), type(result)


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
    assert_says(" ".join(leak_text.split()), "all of it", "items of these families")
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


def test_remedies_say_a_leak_in_python_as_the_command_does(leak: Path, sound: Path) -> None:
    settings = pact_eval.Settings(resamples=100)
    remedies = pact_eval.compare_remedies(leak / "a", settings)
    assert_leak(str(remedies).splitlines()[0])
    printed = command("report", leak / "a", "--remedies", "--full", "--resamples", 100)
    assert_leak(first_line(printed))
    assert first_line(printed) == str(remedies).splitlines()[0]
    assert remedies.leak is not None
    assert len(remedies.to_dict()["remedies"]["leak"]["items"]) == 2 * LEAKED
    assert pact_eval.compare_remedies(sound / "a", settings).leak is None
