"""`register` and `scorecard` as a user meets them."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from commands import runner
from messages import assert_says
from preregistration.checks import criteria as criteria_of
from run_frames import edit_run, rows, write_run

from pact_cli.main import main
from pact_fixtures.paper import HYPOTHESES

run = runner(main)


CRITERIA = criteria_of(than='{ arm = "poor" }', arm="good", more="seeds = [17]")


@pytest.fixture
def criteria(tmp_path: Path) -> Path:
    path = tmp_path / "hypotheses.toml"
    path.write_text(CRITERIA)
    return path


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    good = write_run(tmp_path / "good", rows(1, skill=3.0, k=1), arm="good", seed=17)
    poor = write_run(tmp_path / "poor", rows(2, skill=0.0, k=1), arm="poor", seed=17)
    return good, poor


def test_the_name_of_a_lock_does_not_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "x\x1b[31m[red]\n.toml"
    path.write_text(CRITERIA)
    text = run("register", path).stdout
    assert "x\\x1b[31m[red]\\n.lock: registered at 20" in text


def test_run_folders_are_judged_with_intervals(criteria: Path, runs: tuple[Path, Path]) -> None:
    value = json.loads(
        run("scorecard", criteria, *runs, "--resamples", 200, "--demand", "--json").stdout
    )
    (hypothesis,) = value["hypotheses"]
    assert hypothesis["verdict"] == "SUPPORTED"
    (check,) = hypothesis["checks"]
    for comparison in check["comparisons"]:
        interval = comparison["interval"]
        assert interval["value"] == pytest.approx(comparison["difference"])
        assert interval["low"] < interval["value"] < interval["high"]
    swapped = CRITERIA.replace('arm = "good"', 'arm = "x"').replace('arm = "poor"', 'arm = "good"')
    criteria.write_text(swapped.replace('arm = "x"', 'arm = "poor"'))
    text = run("scorecard", criteria, *runs, "--resamples", 200, "--demand", code=3).stdout
    assert "A | B: CONTRADICTED" in text


@pytest.mark.slow
def test_a_demand_for_shown_verdicts(criteria: Path, runs: tuple[Path, Path]) -> None:
    """0 if shown, 3 if refuted as shown, 4 by value only; broken registrations stay 5."""
    arguments = ("scorecard", criteria, *runs, "--resamples", 200)
    text = run(*arguments, "--demand", "shown").stdout
    assert "A | B: SUPPORTED, shown" in text
    criteria.write_text(CRITERIA.replace('"higher"', '"lower"'))
    text = run(*arguments, "--demand", "shown", code=3).stdout
    assert "A | B: CONTRADICTED, shown" in text
    # About 64 points more accurate, with an interval from 50 to 75: not shown to be above 60.
    margin = '"higher"\nby_more_than = "60 points"'
    criteria.write_text(CRITERIA.replace('"higher"', margin))
    value = json.loads(run(*arguments, "--demand", "shown", "--json", code=4).stdout)
    (hypothesis,) = value["hypotheses"]
    assert hypothesis["shown"] is None
    assert hypothesis["conclusion"] == f"{hypothesis['verdict']}, by value only"
    assert hypothesis["refuted_by"] == []
    run("register", criteria)
    criteria.write_text(CRITERIA)
    run(*arguments, "--demand", "shown", code=5)


def test_a_published_table_is_by_value_only(experiment_files: Path) -> None:
    table = experiment_files / "run_metrics.csv"
    value = json.loads(
        run("scorecard", HYPOTHESES, table, "--demand", "shown", "--json", code=4).stdout
    )
    verdicts = [hypothesis["verdict"] for hypothesis in value["hypotheses"]]
    assert verdicts == [
        *("INCONCLUSIVE", "SUPPORTED", "PARTLY TESTED", "PARTLY SUPPORTED", "SUPPORTED")
    ]
    conclusions = [hypothesis["conclusion"] for hypothesis in value["hypotheses"]]
    assert conclusions == [f"{verdict}, by value only" for verdict in verdicts]
    run("scorecard", HYPOTHESES, table, "--demand", "maybe", code=2)


def test_runs_after_the_registration_prove_it(criteria: Path, tmp_path: Path) -> None:
    data = tmp_path / "holdout.jsonl"
    data.write_text("{}\n")
    assert "registered at 20" in run("register", criteria, "--data", data).stdout
    good = write_run(tmp_path / "good", rows(1, skill=3.0, k=1), arm="good", seed=17)
    poor = write_run(tmp_path / "poor", rows(2, skill=0.0, k=1), arm="poor", seed=17)
    for folder in (good, poor):
        scored_on(folder, data)
    text = run("scorecard", criteria, good, poor, "--resamples", 200).stdout
    assert "REGISTERED BEFORE THE RUNS" in text
    scored_on(poor, data, created="2020-01-01T00:00:00+00:00")
    text = run("scorecard", criteria, good, poor, "--resamples", 200, code=5).stdout
    assert "REGISTERED AFTER THE RUNS" in text


def scored_on(folder: Path, data: Path, **changes: str) -> None:
    """Lets a run folder say that it scored a data file."""
    scored = {"data": {"sha256": hashlib.sha256(data.read_bytes()).hexdigest()}}
    edit_run(folder, source="score", settings=scored, **changes)


def test_criteria_that_were_edited_after_registration_are_caught(
    criteria: Path, runs: tuple[Path, Path]
) -> None:
    run("register", criteria)
    criteria.write_text(CRITERIA.replace('"higher"', '"not lower"'))
    text = run("scorecard", criteria, *runs, "--resamples", 200, code=5).stdout
    assert "TAMPERED" in text
    assert "registered" in run("register", criteria, code=1).stderr


def test_other_data_than_registered_are_caught(
    criteria: Path, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    data = tmp_path / "holdout.jsonl"
    data.write_text("{}\n")
    run("register", criteria, "--data", data)
    for folder in runs:
        edit_run(folder, source="score")
    assert "TAMPERED" in run("scorecard", criteria, *runs, "--resamples", 200, code=5).stdout


def test_bad_input_is_told(criteria: Path, runs: tuple[Path, Path], tmp_path: Path) -> None:
    criteria.write_text(CRITERIA.replace('is = "higher"', 'ist = "higher"'))
    message = run("scorecard", criteria, *runs, code=1).stderr
    assert "ist" in message
    assert "no such" in run("scorecard", tmp_path / "none.toml", *runs, code=1).stderr
    criteria.write_text(CRITERIA)
    assert "none" in run("scorecard", criteria, tmp_path / "none", code=1).stderr
    shutil.rmtree(runs[0])
    text = run("scorecard", criteria, runs[1], "--resamples", 200).stdout
    assert "A | B: UNTESTED" in text


@pytest.mark.parametrize("broken", [b"", b"{", b'{"format": "pact-lock-1"}'])
def test_a_broken_lock_has_one_exit_code_in_every_command(
    tmp_path: Path, criteria: Path, runs: tuple[Path, Path], broken: bytes
) -> None:
    """Exit 1 in scorecard, and 0 in tables and report, hid that a lock was tampered with."""
    criteria.with_suffix(".lock").write_bytes(broken)
    few = ("--resamples", "100", "--criteria", criteria)
    commands: list[tuple[object, ...]] = [
        ("scorecard", criteria, *runs),
        ("paper", *runs, "--tables", "scorecard", "--out", tmp_path / "tables", *few),
        ("register", criteria),
    ]
    if broken == b"{":
        page = ("--html", tmp_path / "page.html", *few[:2])
        commands.append(("scorecard", criteria, *runs, *page))
    for command in commands:
        assert_says(run(*command, code=5).stderr, "hypotheses.lock:", "lock is broken")
