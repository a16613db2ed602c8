"""`--format` of gates: planted drift, broken thresholds and contradicted hypotheses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from ci_formats import github_annotations, junit_cases, sarif_annotations
from commands import refuser, runner
from preregistration.checks import criteria
from run_frames import rows, write_run
from thresholds.simulated import run as simulated

from pact_cli.main import main
from pact_eval.drift.unlabelled import Finding
from pact_eval.evaluation.requirements import Verdict
from pact_eval.preregistration.scorecard import Standing
from pact_eval.stats.bounds import BoundFinding
from pact_eval.stats.power import MarginFinding
from pact_eval.thresholds.checking import GateVerdict
from pact_reports.cases import EXIT_CODES, STATUS_OF

run, refused = runner(main), refuser(main)
GATE = ("--gate", "--margin", 0.05, "--resamples", 200)
CRITERIA = criteria(than='{ arm = "poor" }', arm="good", more="seeds = [17]")


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder is a repository; no variable of a real CI system is set."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def statuses(words: Sequence[object], code: int) -> dict[str, str]:
    """Returns the status of each case, after a comparison of the formats."""
    text = {
        name: run(*words, "--format", name, code=code).stdout
        for name in ("sarif", "junit", "github")
    }
    shown = sarif_annotations(text["sarif"])
    assert sorted(map(repr, shown)) == sorted(map(repr, github_annotations(text["github"])))
    cases = {}
    for name, case in junit_cases(text["junit"]).items():
        failure, skipped = case.find("failure"), case.find("skipped")
        cases[name] = "passed" if skipped is None else "skipped"
        if failure is not None:
            cases[name] = str(failure.get("type"))
    levels = {"failed": "error", "cannot tell": "warning"}
    assert sorted(annotation.level for annotation in shown) == sorted(
        levels[status] for status in cases.values() if status in levels
    )
    cases_of_sarif = json.loads(text["sarif"])["runs"][0]["properties"]["cases"]
    assert {case["name"]: case["status"] for case in cases_of_sarif} == cases
    return cases


@pytest.mark.slow
def test_drift_beyond_the_margin_fails_and_few_families_cannot_tell(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", rows(1, families=60, skill=2.0))
    worse = write_run(tmp_path / "worse", rows(2, families=60, skill=0.0))
    near = write_run(tmp_path / "near", rows(3, families=60, skill=2.0))
    wide = ("--gate", "--margin", 0.9, "--resamples", 200)
    assert statuses(("compare", a, worse, *GATE), 3)["accuracy"] == "failed"
    assert statuses(("compare", a, near, *GATE), 4)["accuracy"] == "cannot tell"
    assert statuses(("compare", a, near, *wide), 0)["accuracy"] == "passed"
    text = run("compare", a, worse, *GATE, "--format", "github", code=3).stdout
    (annotation,) = github_annotations(text)
    assert (annotation.level, annotation.file, annotation.line) == ("error", "worse/run.json", None)


@pytest.mark.slow
def test_a_gate_that_is_broken_on_the_new_run_fails(tmp_path: Path) -> None:
    cal, march = simulated(tmp_path / "cal", 1), simulated(tmp_path / "march", 2)
    april = simulated(tmp_path / "april", 3, skill=0.7)
    file = tmp_path / "t.json"
    run("thresholds", cal, "--target-error", 0.1, "--out", file)
    assert statuses(("thresholds", march, "--check", file), 0) == {"all": "passed"}
    assert statuses(("thresholds", april, "--check", file), 3) == {"all": "failed"}
    text = run("thresholds", april, "--check", file, "--format", "github", code=3).stdout
    (annotation,) = github_annotations(text)
    assert (annotation.code, annotation.file) == ("gate", "t.json")
    both = ("compare", march, april, "--gate", "--margin", 0.9, "--resamples", 200, file)
    cases = statuses(both, 3)
    assert (cases["accuracy"], cases[f"gate all of {file}"]) == ("passed", "failed")


def test_answer_sets_that_are_broken_on_the_new_run_fail(tmp_path: Path) -> None:
    cal, march = simulated(tmp_path / "cal", 1), simulated(tmp_path / "march", 2)
    april = simulated(tmp_path / "april", 3, skill=0.3)
    file = tmp_path / "sets.json"
    run("thresholds", cal, "--coverage", 0.8, "--confidence", 0.95, "--out", file)
    held = statuses(("thresholds", march, "--check", file), 4)
    assert held == {"choice": "passed", "score": "cannot tell"}
    broken = statuses(("thresholds", april, "--check", file), 3)
    assert held.keys() == broken.keys()
    assert "failed" in broken.values()


@pytest.mark.slow
@pytest.mark.parametrize(("relation", "code"), [("higher", 0), ("lower", 3)])
def test_a_contradicted_hypothesis_fails(tmp_path: Path, relation: str, code: int) -> None:
    path = tmp_path / "hypotheses.toml"
    path.write_text(CRITERIA.replace('"higher"', f'"{relation}"'))
    good = write_run(tmp_path / "good", rows(1, skill=3.0), arm="good", seed=17)
    poor = write_run(tmp_path / "poor", rows(2, skill=0.0), arm="poor", seed=17)
    words = ("scorecard", path, good, poor, "--resamples", 300)
    cases = statuses((*words, "--demand", "values"), code)
    assert cases == {
        "registration": "skipped",
        "hypothesis H1": "passed" if code == 0 else "failed",
    }
    assert statuses(words, code) == cases  # --format demands by the values


@pytest.mark.slow
def test_a_lock_that_does_not_fit_fails(tmp_path: Path) -> None:
    path = tmp_path / "hypotheses.toml"
    path.write_text(CRITERIA)
    run("register", path)
    good = write_run(tmp_path / "good", rows(1, skill=3.0), arm="good", seed=17)
    poor = write_run(tmp_path / "poor", rows(2, skill=0.0), arm="poor", seed=17)
    path.write_text(CRITERIA.replace('"higher"', '"lower"'))
    words = ("scorecard", path, good, poor, "--resamples", 300, "--demand", "values")
    assert statuses(words, 5)["registration"] == "failed"


def test_what_nothing_is_asked_of_is_skipped_and_not_passed(tmp_path: Path) -> None:
    """A build that forgets its gate must not look green: no case has passed."""
    a, b = (write_run(tmp_path / name, rows(seed)) for seed, name in enumerate("ab"))
    for words in (
        ("report", a),
        ("report", tmp_path),
        ("compare", a, b),
        ("thresholds", a, "--target-error", 0.1),
        ("thresholds", a, "--sets"),
    ):
        assert {*statuses(words, 0).values()} == {"skipped"}


@pytest.mark.parametrize(
    "findings", [Finding, Verdict, Standing, BoundFinding, MarginFinding, GateVerdict]
)
def test_findings_of_a_gate_have_the_three_exit_codes(findings: Any) -> None:
    codes = [EXIT_CODES[STATUS_OF[finding]] for finding in get_args(findings)]
    assert sorted(codes) == [0, 3, 4]
