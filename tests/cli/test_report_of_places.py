"""`pact-eval report` of files, folders and several runs: what becomes a run, and what is shown."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from builders import write_jsonl
from click.testing import CliRunner
from commands import refuser, runner
from foreign_tables import write_table
from messages import assert_says
from random_tables import random_table
from run_frames import ablated_rows, edit_run, other_items, rows, write_run

import pact_eval
from pact_cli.main import main
from pact_eval.evaluation.labels import parse_bins
from pact_eval.importing.stored import store_run

MOST_TRIED = 60


def slow(seed: int) -> Any:
    return pytest.param(seed, marks=pytest.mark.slow)


run, refused = runner(main), refuser(main)
FAST = ("--resamples", "100")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def predictions(path: Path, seed: int, *, items: int = 40) -> Path:
    """Writes predictions on items whose right answers are the same for all seeds."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(exist_ok=True)
    return write_jsonl(
        path,
        [
            {
                "id": f"i{n}",
                "label": "ab"[n % 2],
                "prediction": "ab"[(n + (rng.random() < 0.3)) % 2],
            }
            for n in range(items)
        ],
    )


def stored() -> dict[str, float]:
    """Returns the accuracy of each run in the folder of runs."""
    listed: list[dict[str, Any]] = json.loads(run("report", *FAST, "--json").stdout)["runs"]
    return {Path(entry["folder"]).name: entry["accuracy"]["value"] for entry in listed}


def share(path: Path) -> float:
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return float(np.mean([entry["label"] == entry["prediction"] for entry in entries]))


def test_the_same_bytes_are_the_same_run_and_others_get_a_number() -> None:
    first, second = predictions(Path("t.jsonl"), 1), predictions(Path("new", "t.jsonl"), 2)
    run("report", first, *FAST)
    rows_file = Path("runs", "t", "predictions.parquet")
    os.utime(rows_file, (1, 1))
    for path in (first, second, first, second):
        run("report", path, *FAST)
    assert rows_file.stat().st_mtime == 1
    assert stored() == {"t": share(first), "t-2": share(second)}
    copied = Path("copy", "t.jsonl")
    copied.parent.mkdir()
    copied.write_bytes(second.read_bytes())
    assert_says(run("report", copied, *FAST).stdout, "saved as runs/t-2")


def test_other_labels_make_another_run_of_the_same_bytes() -> None:
    path = predictions(Path("t.jsonl"), 1)
    for labels in ((), ("--arm", "new"), ("--arm", "new"), ("--arm", "old", "--train-seed", 3), ()):
        run("import", path, *labels)
    named = {
        folder.name: pact_eval.read_run(folder).provenance
        for folder in sorted(Path("runs").glob("t*"))
    }
    assert {name: (of.arm, of.seed) for name, of in named.items()} == {
        "t": (None, None),
        "t-2": ("new", None),
        "t-3": ("old", 3),
    }


def test_two_at_once_store_one_run() -> None:
    path = predictions(Path("t.jsonl"), 1)
    with ThreadPoolExecutor(4) as pool:
        folders = {each.folder for each in pool.map(lambda _: store_run(path), range(4))}
    assert folders == {Path("runs", "t")}
    assert stored() == {"t": share(path)}


def test_a_stored_run_is_not_read_again_in_another_way() -> None:
    path = predictions(Path("t.jsonl"), 1)
    run("report", path, *FAST)
    assert_says(refused("report", "runs/t", "--answers", "letter", code=2), "--answers", "log")


def test_a_list_is_followed_by_what_is_asked_of_each_run() -> None:
    for n, name in enumerate("ab"):
        write_run(Path("runs", name), rows(n, families=12), arm=name)
    listed = run("report", "runs", *FAST).stdout
    for asked in (("--items", 1), ("--target-error", 0.2)):
        alone = "".join(run("report", f"runs/{name}", *asked, *FAST).stdout for name in "ab")
        assert run("report", "runs", *asked, *FAST).stdout == listed + alone
    both = run("report", "runs/a", "runs/b", "--target-error", 0.2, *FAST).stdout
    assert both == run("report", "runs/a", "runs/b", *FAST).stdout + alone


def test_another_reading_of_the_same_bytes_is_another_run() -> None:
    path = Path("t.jsonl")
    write_jsonl(
        path,
        [
            {"id": f"{n}", "label": "ab"[n % 2], "gold": "ab"[n % 4 == 0], "prediction": "a"}
            for n in range(20)
        ],
    )
    for column in ("label", "gold", "label"):
        run("report", path, *FAST, "--columns", f"reference={column}")
    assert stored() == {"t": 0.5, "t-2": 0.75}


def test_what_lies_in_the_folder_of_runs_is_never_overwritten() -> None:
    path = predictions(Path("t.jsonl"), 1)
    notes = Path("runs", "t", "notes.txt")
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    run("report", path, *FAST)
    assert notes.read_text() == "mine"
    assert [*stored()] == ["t-2"]
    scored = write_run(Path("runs", "u"), rows(1, families=12), arm="a")
    before = (scored / "run.json").read_bytes()
    run("report", predictions(Path("u.jsonl"), 2), *FAST)
    assert (scored / "run.json").read_bytes() == before
    assert "u-2" in stored()


def test_the_setting_names_the_folder_of_runs() -> None:
    Path("pact.toml").write_text('runs = "results"\n')
    path = predictions(Path("t.jsonl"), 1)
    assert_says(run("report", path, *FAST).stdout, "saved as results/t")
    assert run("import", path).exit_code == 0
    assert [entry.name for entry in Path("results").iterdir()] == ["t"]


def test_python_stores_a_file_as_the_command_does() -> None:
    path = predictions(Path("t.jsonl"), 1)
    run("report", path, *FAST)
    assert pact_eval.import_run(path).folder == Path("runs", "t")
    path.write_text(path.read_text().replace('"label": "a"', '"label": "b"'))
    assert pact_eval.import_run(path).folder == Path("runs", "t-2")


@pytest.mark.parametrize("more", [(), ("--full",), ("--json",), ("--decoding", "ensemble")])
@pytest.mark.parametrize("count", [2, 3])
def test_runs_on_the_same_items_are_compared_as_compare_does(
    count: int, more: Sequence[str]
) -> None:
    folders = [write_run(Path(f"r{n}"), rows(n, families=12), arm=f"r{n}") for n in range(count)]
    report, compared = (run(word, *folders, *FAST, *more) for word in ("report", "compare"))
    assert report.stdout == compared.stdout
    assert report.stderr == compared.stderr


def test_files_and_runs_are_compared_with_each_other() -> None:
    old, new = predictions(Path("old.jsonl"), 1), predictions(Path("new.jsonl"), 5)
    run("report", old, *FAST)
    text = run("report", "new.jsonl", "runs/old", *FAST).stdout
    points = 100 * (share(new) - share(old))
    assert f"new - old {points:+.1f} points" in text
    named = run("report", "new.jsonl", "old", *FAST)  # a name in the folder of runs
    assert named.stdout == text


def test_compare_reads_files_as_report_does() -> None:
    files = [predictions(Path(f"{name}.jsonl"), seed) for seed, name in enumerate("ab")]
    compared = json.loads(run("compare", *files, *FAST, "--json").stdout)
    reported = json.loads(run("report", *files, *FAST, "--json").stdout)
    assert compared["comparisons"] == reported["comparisons"]
    gate = ("compare", *files, "--gate", "--margin", 0.1, *FAST, "--json")
    assert json.loads(run(*gate, code=4).stdout)
    write_jsonl(
        Path("unclear.jsonl"), [{"n": number, "x": "ab"[number % 2]} for number in range(9)]
    )
    message = refused("compare", "unclear.jsonl", files[0], code=2)
    assert_says(message, "unclear.jsonl", "--columns")


@pytest.mark.parametrize("command", ["paper", "compare", "calibrate", "report"])
def test_a_folder_without_a_run_is_told_for_what_it_is(command: str) -> None:
    Path("empty").mkdir()
    Path("tables").mkdir()
    Path("tables", "m.csv").write_text("run,seed\n")
    words = ("tables", "empty") if command == "compare" else ("tables",)
    assert_says(refused(command, *words), "tables", "pact-eval report tables/m.csv", "paper")
    words = ("empty", "tables") if command == "compare" else ("empty",)
    assert_says(refused(command, *words), "empty", "it is empty", "pact-eval score")


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (other_items(rows(2, families=12)), "item sets differ"),
        (ablated_rows(1), "ablated contexts"),
    ],
)
def test_runs_that_cannot_be_compared_are_listed_with_the_reason(
    frame: pl.DataFrame, reason: str
) -> None:
    first = write_run(Path("first"), rows(1, families=12), arm="first")
    second = write_run(Path("second"), frame, arm="second")
    result = run("report", first, second, *FAST)
    assert_says(result.stdout, "first", "second", "Not compared:", reason)
    listed = json.loads(run("report", first, second, *FAST, "--json").stdout)
    assert {entry["folder"] for entry in listed["runs"]} == {"first", "second"}
    assert reason in listed["not_compared"]
    full = run("report", first, second, *FAST, "--full").stdout
    assert full.startswith(result.stdout[:200])
    assert_says(full, "Accuracy", "NLL")


def test_a_run_of_another_role_is_left_out_as_everywhere() -> None:
    folders = [
        write_run(Path("a"), rows(1, families=12), arm="a"),
        edit_run(write_run(Path("c"), rows(2, families=12), arm="c"), role="calibration"),
    ]
    result = run("report", *folders, *FAST)
    assert result.stdout.startswith("a answers")
    assert_says(result.stderr, "c", "calibration")


def test_a_folder_of_runs_is_a_leaderboard_with_its_numbers() -> None:
    for n in range(3):
        write_run(Path("runs", f"r{n}"), rows(n, families=12), arm=f"r{n}")
    values = stored()
    for name, value in values.items():
        report = json.loads(run("report", f"runs/{name}", *FAST, "--json").stdout)
        assert report["groups"][0]["metrics"]["accuracy"]["value"] == value
    text = run("report", "runs", *FAST).stdout
    ranked = sorted(values, key=lambda name: -values[name])
    places = [text.index(f"| {name} ") for name in ranked]
    assert places == sorted(places)
    assert f"pact-eval report runs/{ranked[0]} runs/{ranked[1]}" in text
    ensemble = json.loads(run("report", "--decoding", "ensemble", *FAST, "--json").stdout)["runs"]
    assert {entry["accuracy"]["value"] for entry in ensemble} != {*values.values()}


def test_files_that_are_no_logs_are_left_out_of_patterns_and_refused_alone() -> None:
    folder = write_run(Path("runs", "a"), rows(1, families=12), arm="a")
    page, choice = Path("runs", "demo.html"), Path("runs", "gates.json")
    page.write_text("<p>")
    choice.write_text('{\n  "format": "pact-thresholds-1"}')
    result = run("report", folder, page, choice, *FAST)
    assert result.stdout == run("report", folder, *FAST).stdout
    assert_says(result.stderr, str(page), str(choice), "left out")
    for path in (page, choice):
        assert_says(refused("report", path, code=2), str(path), "thresholds RUN --check FILE")


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (("a", "b", "--calibration", "x.json"), 2, ("one run", "--calibration own")),
        (("empty",), 1, ("empty: not a run", "run.json", "not a log of a known format")),
        (("logs",), 1, ("pact-eval report logs/x.csv",)),
        (("a", "nowhere"), 1, ("nowhere: no such run folder",)),
        (("tt.jsonl",), 1, ("tt.jsonl: no such file; did you mean t.jsonl?",)),
    ],
)
def test_what_cannot_be_shown_is_told(
    words: Sequence[str], code: int, parts: Sequence[str]
) -> None:
    for n, name in enumerate("ab"):
        write_run(Path(name), rows(n, families=12), arm=name)
    Path("empty").mkdir()
    Path("logs").mkdir()
    Path("logs", "x.csv").write_text("")
    predictions(Path("t.jsonl"), 1)
    assert_says(refused("report", *words, *FAST, code=code), *parts)


def test_the_right_answers_of_a_log_without_them_are_those_of_data() -> None:
    labels = ["ab"[n % 2] for n in range(30)]
    write_jsonl(Path("p.jsonl"), [{"id": f"{n}", "prediction": "a"} for n in range(30)])
    write_jsonl(
        Path("d.jsonl"),
        [
            {"id": f"{n}", "question": f"Which, {n}?", "options": ["a", "b"], "answer": label}
            for n, label in enumerate(labels)
        ],
    )
    assert "pact-eval report p.jsonl --data FILE" in refused("report", "p.jsonl", code=2)
    text = run("report", "p.jsonl", "--data", "d.jsonl", *FAST).stdout
    assert_says(text, "p answers 50.0%", "right answers from d.jsonl; saved as runs/p")


@pytest.mark.parametrize("seed", [*range(6), *(slow(seed) for seed in range(6, 60))])
def test_a_random_table_is_read_right_or_asked_about_with_commands_to_paste(seed: int) -> None:
    made = random_table(seed)
    waiting = [f"pact-eval report {write_table(Path(), made.rows, made.dialect)} --json"]
    for _ in range(MOST_TRIED):
        if not waiting:
            break
        result = CliRunner().invoke(main, shlex.split(waiting.pop(0))[1:])
        if result.exit_code == 0:
            value: dict[str, Any] = json.loads(result.stdout)
            accuracy = value["groups"][0]["metrics"]["accuracy"]["value"]
            if accuracy == pytest.approx(made.accuracy, abs=1e-9):
                return
            assert waiting, f"read wrong: {accuracy}, is {made.accuracy}"
        for command in re.findall(r"^  (pact-eval .*)$", result.stderr, re.MULTILINE):
            # Whoever has the file knows which column is meant.
            names = made.rows[0] if "NAME" in command else ["NAME"]
            waiting += [f"{command.replace('NAME', shlex.quote(name))} --json" for name in names]
    # Messages name one role at a time, so a file without a name that is known needs more words.
    assert made.statement is None or "foreign names" in made.traits


def test_two_tables_of_foreign_names_are_compared_by_the_commands_that_are_offered() -> None:
    """Of 30 items only A has 6 right, and only B has 3: the difference is 3 of 30."""
    for name, wrong in (("a", range(6, 15)), ("b", [*range(6), *range(9, 15)])):
        cells = [f"q{n},{'ab'[(n + (n in wrong)) % 2]},{'ab'[n % 2]}" for n in range(30)]
        Path(f"{name}.csv").write_text("\n".join(["key,says,truthy", *cells]))
    command = "pact-eval compare a.csv b.csv"
    for option in ("--columns reference=truthy", "--columns reference=truthy,prediction=says"):
        offered = refused(*shlex.split(command)[1:], code=2).splitlines()
        command = f"pact-eval compare a.csv b.csv {option}"
        assert f"  {command}" in offered
    better = json.loads(run(*shlex.split(command)[1:], "--json").stdout)["answer"]["better"][0]
    assert better["items"] == 9
    assert better["claims"][0]["difference"]["value"] == pytest.approx(0.1)
    assert "--columns" not in refused("compare", "a.csv", "b.csv", "--multi", "any", code=2)


def test_bins_of_a_column_of_numbers_are_behind_its_name() -> None:
    rows_of_file = [
        {"id": f"{n}", "label": "ab"[n % 2], "prediction": "a", "minute": n} for n in range(40)
    ]
    path = write_jsonl(Path("t.jsonl"), rows_of_file)
    message = refused("report", path, *FAST, "--by", "minute")
    assert_says(message, "40 different numbers", "--by minute:4", "--by minute:10,20")
    for bins in ("4", "10,20"):
        by = json.loads(run("report", path, *FAST, "--by", f"minute:{bins}", "--json").stdout)
        settings = pact_eval.Settings(by="minute", bins=parse_bins(bins), resamples=100)
        expected = pact_eval.evaluate("runs/t", settings).groups
        assert len(expected) == (5 if bins == "4" else 4)
        assert [(group["name"], group["items"]) for group in by["groups"]] == [
            (group.name, group.items) for group in expected
        ]
    assert "--by COLUMN:BINS" in refused("report", path, "--bins", 4, code=2)
