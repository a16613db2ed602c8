"""`--not-worse` and `--require`: one screen, exit codes, formats for CI, logs and pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ci_formats import github_annotations, junit_cases
from commands import command_line, refuser, runner
from messages import assert_says

from pact_cli.main import main
from pact_eval.pytest import assert_meets, assert_not_worse

run, refused = runner(main), refuser(main)


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder is a repository; no variable of a real CI system is set."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def log(name: str, right: int, n: int = 300) -> Path:
    """A log of two questions with so many right answers, the first ones; all are 80% sure."""
    answers = np.where(np.arange(n) < right, 0.8, 0.2)
    lines = [
        {
            "id": f"t{at:04}",
            "question": ["Refund?", "Spam?"][at % 2],
            "reference": 0,
            "probabilities": [p, 1 - p],
        }
        for at, p in enumerate(answers.tolist())
    ]
    path = Path(f"{name}.jsonl")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_one_screen_and_the_exit_code_of_the_verdict() -> None:
    new, old = log("new", 270), log("old", 240)
    passed = run("compare", new, old, "--not-worse", 2, "--require", "accuracy=80")
    assert_says(passed.stdout, "PASS", "accuracy", "80%", "+10.0", "shown", "Only old right: 0")
    assert passed.stdout.startswith("PASS")
    failed = run("compare", old, new, "--not-worse", 2, "--require", "accuracy=75", code=3)
    assert_says(failed.stdout, "FAIL: old", "-10.0", "2 points", "Only new right: 30", "t0240")
    assert len(failed.stdout.splitlines()) <= 12
    unsure = run("compare", new, old, "--require", "accuracy=88", code=4)
    assert_says(unsure.stdout, "CANNOT TELL", "90.0", "at least 88%", "items would do")


def test_every_question_must_meet_what_is_required() -> None:
    words = ("compare", log("new", 270), log("old", 240), "--by", "question")
    result = run(
        *words, "--not-worse", 5, "--require", "accuracy=97", "--require", "ece=30", code=3
    )
    assert_says(result.stdout, "FAIL", "Refund?", "1 more", "contradicted", "shown")
    assert len(result.stdout.splitlines()) <= 16
    shown = json.loads(run(*words, "--require", "accuracy=75", "--json").stdout)
    assert (shown["verdict"], shown["by"]) == ("PASS", "question")
    assert {one["group"] for one in shown["requirements"]} == {"Refund?", "Spam?"}
    assert {one["finding"] for one in shown["requirements"]} == {"shown"}
    assert shown["headline"] == shown["answer"]["release"]


def test_one_run_is_reported_against_its_bounds() -> None:
    new = log("new", 270)
    assert_says(run("report", new, "--require", "accuracy=80").stdout, "PASS", "Wrong answers: 30")
    assert_says(run("report", new, "--require", "accuracy=95", code=3).stdout, "FAIL")
    many = run("report", new, "--require", "accuracy=80", "--by", "all", "--format", "junit")
    assert junit_cases(many.stdout)["accuracy at least 80%"].find("failure") is None


def test_formats_for_ci_have_a_case_per_requirement() -> None:
    bounds = ("--not-worse", 2, "--require", "accuracy=70", "--require", "ece=20", "--by", "all")
    words = ("compare", log("old", 246), log("new", 276), *bounds)
    cases = junit_cases(run(*words, "--format", "junit", code=3).stdout)
    failures = {name: case.find("failure") for name, case in cases.items() if name != "data"}
    types = {name: None if bad is None else bad.get("type") for name, bad in failures.items()}
    assert sorted(map(str, types.values())) == ["None", "None", "failed"]
    (annotation,) = github_annotations(run(*words, "--format", "github", code=3).stdout)
    assert (annotation.level, annotation.code) == ("error", "requirement")
    assert_says(annotation.message, "2 points", "-10.0", "contradicted")


def test_what_does_not_go_together_is_refused() -> None:
    new, old = log("new", 27, 30), log("old", 24, 30)
    assert_says(refused("compare", new, old, "--not-worse", "0.02", code=2), "0.02", "2")
    assert_says(refused("compare", new, "--require", "ece=8", code=2), "NEW OLD", "report")
    assert "--gate" in refused("compare", new, old, "--gate", "--not-worse", 2, code=2)
    assert_says(refused("report", new, "--require", "good=1", code=2), "accuracy", "ece", "flips")


def test_what_is_shown_beside_a_verdict_does_not_change_it() -> None:
    new, old = log("new", 27, 30), log("old", 24, 30)
    for words in (
        ("compare", new, old, "--not-worse", 20),
        ("report", new, "--require", "accuracy=50"),
    ):
        alone = run(*words).stdout
        more = run(*words, "--items", 2).stdout
        assert more.startswith(alone)
        assert_says(more, "Wrong answers" if words[0] == "report" else "Only new right")
        (below,) = (
            json.loads(run(*words, "--full", "--json").stdout).keys()
            - json.loads(run(*words, "--json").stdout).keys()
        )
        assert below == words[0]
    drift = run("compare", "runs/new", "runs/old", "--gate", "--margin", 0.9, "--items", 2).stdout
    assert_says(drift, "Equivalent", "Only new right")


def test_the_page_and_the_tables_are_made_together() -> None:
    new = log("new", 27, 30)
    words = ("report", new, "--require", "accuracy=99", "--by", "all", "--html", "a.html")
    assert_says(run(*words, code=3).stdout, "FAIL")
    page = Path("a.html").read_bytes()
    tables = run("report", new, "--html", "a.html", "--full")
    assert tables.stdout == run("report", new, "--full").stdout
    assert_says(tables.stderr, "wrote a.html")
    assert page[:100] == Path("a.html").read_bytes()[:100]


def test_assertions_say_what_the_command_prints() -> None:
    new, old = log("new", 270), log("old", 240)
    run("import", new, "--out", "runs/new")
    run("import", old, "--out", "runs/old")
    assert assert_not_worse("runs/new", "runs/old", points=2, accuracy=80).verdict == "PASS"
    assert assert_meets("runs/new", accuracy=80, by="question").count("shown") == 2
    with pytest.raises(AssertionError) as caught:
        assert_not_worse("runs/old", "runs/new", points=2)
    printed = run("compare", "runs/old", "runs/new", "--not-worse", 2, code=3).stdout
    (answer,) = [line for line in printed.splitlines() if line.startswith("FAIL")]
    assert_says(caught.value, answer, "contradicted", "Only new right: 30")
    with pytest.raises(AssertionError, match="CANNOT TELL"):
        assert_meets("runs/new", accuracy=88)


@pytest.mark.slow
def test_pytest_shows_the_verdict(tmp_path: Path) -> None:
    for name, right in (("new", 270), ("old", 240)):
        run("import", log(name, right), "--out", f"runs/{name}")
    (tmp_path / "test_it.py").write_text(
        "from pact_eval.pytest import assert_not_worse\n"
        "def test_better(): assert_not_worse('runs/new', 'runs/old')\n"
        "def test_worse(): assert_not_worse('runs/old', 'runs/new')\n"
    )
    words = command_line("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert_says(done.stdout, "FAIL: old", "-10.0", "1 failed, 1 passed")
    assert sys.executable in words
