"""The commands as a user meets them: output, exit codes, messages without tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from builders import write_jsonl
from commands import refuser, runner
from messages import assert_says
from published import printed_cells
from spoiled_datasets import healthy

from pact_cli.main import main

FAST = ("--resamples", "100")
ROOT = Path(__file__).parents[2]
HOLDOUT = ROOT / "fixtures" / "pact_fixtures" / "data" / "holdout.jsonl"
SCHEMA = ROOT / "docs" / "example" / "schema.json"


run, failed = runner(main), refuser(main)


def imported(experiment: Path, folder: Path) -> Path:
    rows = experiment / "shipped_holdout_rows.jsonl"
    result = run("import", rows, "--out", folder, "--arm", "pact_full", "--train-seed", "18")
    assert result.stderr == ""
    return folder


@pytest.fixture(scope="module")
def made(made_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return imported(made_files, tmp_path_factory.mktemp("made") / "run")


@pytest.fixture(scope="module")
def published(experiment_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped run, made and as it was published; both have the paper's numbers."""
    return imported(experiment_files, tmp_path_factory.mktemp("published") / "run")


def test_the_published_run_against_its_rows(published: Path, experiment_files: Path) -> None:
    """Accuracy, pairs and letters, counted in the rows as they were published."""
    result = run("report", published, *FAST, "--json")
    value: dict[str, Any] = json.loads(result.stdout)
    assert result.stderr == ""
    everything = value["groups"][0]
    (pairs,) = printed_cells("shipped_pairs")
    assert everything["metrics"]["accuracy"]["value"] == 266 / 324
    assert str(everything["pairs"]["same_answer"]) == pairs["same_answer"]
    lines = (experiment_files / "shipped_holdout_rows.jsonl").read_text().splitlines()
    answers = [json.loads(line)["probabilities"] for line in lines]
    picked = Counter(values.index(max(values)) for values in answers)
    width = max(picked) + 1
    assert value["letters"]["picked"][:width] == [picked[letter] for letter in range(width)]
    assert sum(value["letters"]["picked"]) == len(lines) == 324


def test_ensemble_of_one_view_is_the_single_view(made: Path) -> None:
    single, ensemble = (
        json.loads(run("report", made, *FAST, "--decoding", name, "--json").stdout)
        for name in ("single", "ensemble")
    )
    assert ensemble["decoding"]["views"] == "ensemble"
    assert ensemble["groups"][0]["pairs"] == single["groups"][0]["pairs"]


def test_one_order_does_not_tell_a_letter_from_its_answer(tmp_path: Path) -> None:
    # Every answer is the second letter; the correct letter is each of the three in turn.
    rows = [{"id": f"{n}", "reference": n % 3, "probabilities": [0.1, 0.8, 0.1]} for n in range(60)]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    assert "order          not tested: " in run("import", path, "--out", tmp_path / "run").stdout
    text = " ".join(run("report", tmp_path / "run", "--full", *FAST).stdout.split())
    assert "| chosen | 0 | 60 | 0 |" in text
    assert "rows differ (chi-squared" in text
    assert "Order: not tested" in text


def test_hostile_names_are_shown_as_they_are_and_not_as_markup(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "rows.jsonl",
        [
            {"id": "a", "reference": 0, "probabilities": [0.6, 0.4], "domain": "[red]x[/red]"},
            {"id": "b", "reference": 0, "probabilities": [0.6, 0.4], "domain": "[/]"},
        ],
    )
    result = run("import", path, "--out", tmp_path / "[bold]run", "--arm", "[link=x]arm")
    assert "[link=x]arm" in result.stdout
    text = run("report", tmp_path / "[bold]run", "--by", "domain").stdout
    assert "[red]x[/red]" in text
    assert "[bold]run" in text


def test_control_characters_of_data_never_reach_the_terminal(tmp_path: Path) -> None:
    row = {"id": "a", "reference": 0, "probabilities": [0.6, 0.4], "domain": "x\x1b[31m\x9bred"}
    path = write_jsonl(tmp_path / "rows.jsonl", [row])
    run("import", path, "--out", tmp_path / "run", "--arm", "\x1b[2J")
    text = run("report", tmp_path / "run", "--by", "domain").stdout
    assert "\\x1b[31m\\x9bred" in text
    assert "\x1b" not in text
    bad = write_jsonl(tmp_path / "bad.jsonl", [row | {"id": "\x1b[2J", "reference": 9}])
    message = failed("import", bad, "--out", tmp_path / "other")
    assert "\x1b" not in message
    assert "\\x1b[2J" in message
    odd = write_jsonl(tmp_path / "odd.jsonl", [row | {"\x1b[2J\n": 1}])
    remark = run("import", odd, "--out", tmp_path / "odd").stderr
    assert_says(remark, "columns", "--by", "\\x1b[2J\\n")


def test_bad_input_is_one_message_and_exit_code_1(tmp_path: Path, made: Path) -> None:
    missing, broken = tmp_path / "x.jsonl", tmp_path / "broken.jsonl"
    assert str(missing) in failed("import", missing, "--out", tmp_path / "r")
    write_jsonl(broken, ["{", '{"id": "a", "id": "b"}'])
    message = failed("import", broken, "--out", tmp_path / "r")
    assert message.startswith(f"Error: {broken}:1: ")
    assert f"\n{broken}:2: " in message
    failed("import", broken, "--out", tmp_path / "r", "--map", "x=y")
    assert str(tmp_path / "nowhere") in failed("report", tmp_path / "nowhere")
    assert "run.json" in failed("report", tmp_path)
    row = {"id": "a", "reference": 0, "probabilities": [0.6, 0.4]}
    readable = write_jsonl(tmp_path / "ok.jsonl", [row])
    assert str(made) in failed("import", readable, "--out", made)
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in failed("import", readable, "--out", tmp_path / "file" / "run")


@pytest.mark.parametrize(
    "arguments",
    [["report", "run", "--seed", "3"], ["report", "run", "--resamples", "3"], ["score", "adapter"]],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert "Usage:" in run(*arguments, code=2).stderr


@pytest.mark.slow
def test_an_ascii_terminal_gets_question_marks_and_escaped_json(tmp_path: Path) -> None:
    row = {"id": "a", "reference": 0, "probabilities": [0.6, 0.4], "domain": "Öl"}
    path = write_jsonl(tmp_path / "rows.jsonl", [row])
    run("import", path, "--out", tmp_path / "run")
    for arguments in (["--by", "domain"], ["--by", "domain", "--json"]):
        result = subprocess.run(
            [sys.executable, "-m", "pact_cli", "report", str(tmp_path / "run"), *arguments],
            env=os.environ | {"PYTHONIOENCODING": "ascii"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stderr == ""
        if "--json" in arguments:
            assert json.loads(result.stdout)["groups"][1]["name"] == "Öl"
        else:
            assert "Accuracy ^" in result.stdout
            assert "Brier v" in result.stdout


_WITHOUT = """
import sys
blocked = set(sys.argv[1].split(","))
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from pact_cli.main import main
main(sys.argv[2:])
"""


def without(packages: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT, packages, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "120"},
    )


def without_torch(*arguments: object) -> subprocess.CompletedProcess[str]:
    return without("torch,transformers,peft,safetensors,tokenizers", *arguments)


@pytest.mark.slow
def test_reading_runs_needs_no_torch(made: Path, made_files: Path, tmp_path: Path) -> None:
    assert without_torch("--help").returncode == 0
    assert without_torch("report", made, "--resamples", 100).returncode == 0
    rows = made_files / "shipped_holdout_rows.jsonl"
    assert without_torch("import", rows, "--out", tmp_path / "run").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["score", "adapter", "--data", HOLDOUT, "--out", "y"],
        ["decide", "adapter", "--context", "x", "--schema", SCHEMA],
    ],
)
def test_commands_that_need_torch_say_what_to_install(arguments: list[object]) -> None:
    result = without_torch(*arguments)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert_says(result.stderr, "pip install", "constraints.txt", "'.[model]'")


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_that_goes_away_does_not_change_the_exit_code(
    tmp_path: Path, form: list[str]
) -> None:
    data = healthy(families=8)
    data.train += data.holdout
    folder = data.write(tmp_path / "bad")
    process = subprocess.Popen(
        [sys.executable, "-m", "pact_cli.audit", "data", folder, *form],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()  # as `head` does after its last line
    _, errors = process.communicate()
    assert (process.returncode, errors) == (3, b"")
