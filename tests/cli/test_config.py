"""Settings of a project: which value counts, where it is from, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from commands import refuser, runner
from messages import assert_says
from run_frames import rows, write_run

from pact_cli.config import find_config, read_config
from pact_cli.main import main
from pact_eval.errors import InputError

run = runner(main)
refused = refuser(main)
FAST = ("--resamples", 100)

Write = Callable[[str], Path]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def settings(home: Path) -> Write:
    def write(text: str) -> Path:
        path = home / "pact.toml"
        path.write_text(text)
        return path

    return write


def views(result: Result) -> str:
    value: dict[str, Any] = json.loads(result.stdout)
    return str(value["decoding"]["views"])


def test_the_command_line_comes_before_environment_file_and_default(
    home: Path, settings: Write
) -> None:
    report = ("report", write_run(home / "run", rows(1, families=4)), *FAST, "--json")
    settings('decoding = "ensemble"')
    assert views(run(*report)) == "ensemble"
    assert views(run(*report, PACT_EVAL_DECODING="single")) == "single"
    in_environment = run(*report, "--decoding", "ensemble", PACT_EVAL_DECODING="single")
    assert views(in_environment) == "ensemble"


def test_the_nearest_file_above_is_used_and_paths_start_from_it(
    home: Path, settings: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = settings('runs = "all/runs"')
    write_run(home / "all" / "runs" / "a", rows(1))
    inner = home / "deep" / "inside"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    (home / "deep" / "pyproject.toml").write_text('[project]\nname = "pact-eval-user"\n')
    assert find_config(inner) == path
    result = run("report", "--json")
    (listed,) = json.loads(result.stdout)["runs"]
    assert listed["folder"] == "../../all/runs/a"
    assert "FOLDER ../../all/runs (../../pact.toml)" in result.stderr


def test_two_files_in_one_folder_are_refused_by_name(home: Path, settings: Write) -> None:
    settings("k = 2")
    (home / "pyproject.toml").write_text("[tool.pact-eval]\nk = 3\n")
    message = refused("report")
    assert_says(message, "pact.toml", "[tool.pact-eval] in pyproject.toml")


def test_a_broken_pyproject_of_others_is_ignored_and_of_ours_is_not(home: Path) -> None:
    (home / "pyproject.toml").write_text('dependencies = ["pact-eval"\n')
    assert read_config({}).path is None
    (home / "pyproject.toml").write_text("[tool.pact-eval]\nk = \n")
    with pytest.raises(InputError, match=r"pyproject.toml:2: not valid TOML"):
        read_config({})


REFUSED = [
    ("kk = 4", "pact.toml: unknown setting 'kk'; did you mean k?"),
    ('base_model = "x"', "unknown setting 'base_model'; did you mean base-model?"),
    ("zebra = 4", "unknown setting 'zebra'; expected one of data, eval, base-model"),
    ("k = 0", "pact.toml: k: expected a whole number from 1, got 0"),
    ("k = true", "pact.toml: k: expected an integer, got True"),
    ('k = "4"', "pact.toml: k: expected an integer, got '4'"),
    ("runs = 4", "pact.toml: runs: expected text in quotes, got 4"),
    ('decoding = "both"', "pact.toml: decoding: 'both' is not one of 'single', 'ensemble'"),
    ("k = ", "pact.toml:1: not valid TOML"),
    ("arms = 4", "pact.toml: arms: expected a table, got 4"),
    ("[arms.pact]\ncolor = '#111111'", "unknown setting 'color'; did you mean colour?"),
    ("[arms.pact]\ncolour = 4", "arms.pact: colour: expected text in quotes, got 4"),
    ("[arms.a]\nname = 4", "arms.a: name: expected text in quotes, got 4"),
    ('[arms.a]\nname = " "', "arms.a.name: expected one line of printable text, got ' '"),
    ('[arms.a]\nname = "X"\n[arms.b]\nname = "X"', "arms 'a' and 'b' have the same display"),
    ("[options.scor]\nk = 4", "options: unknown setting 'scor'; did you mean score?"),
    ("[options.score]\ndevise = 'cpu'", "options.score: unknown setting 'devise'"),
    ("[options.score]\nk = 'four'", "options.score: k: expected an integer, got 'four'"),
    ("[options.score]\nmerge = 1", "options.score: merge: expected true or false, got 1"),
    ("[options.score]\nbatch-tokens = 0", "expected a whole number from 1, got 0"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_wrong_setting_is_an_error_that_names_it(
    settings: Write, text: str, message: str
) -> None:
    settings(text)
    assert message in refused("score", "adapter").replace("\n", " ")


def test_a_display_name_that_is_another_arm_is_refused(home: Path, settings: Write) -> None:
    for seed, arm in enumerate(("zqa", "zqb")):
        write_run(Path(arm), rows(seed, families=6), arm=arm, seed=1)
    settings('[arms.zqa]\nname = "zqb"')
    message = refused("report", ".", *FAST)
    assert "arms 'zqa' and 'zqb' have the same display name 'zqb'" in message


def test_a_wrong_variable_is_an_error_that_names_it(home: Path) -> None:
    for name, value, message in (
        ("PACT_EVAL_RUNZ", "x", "environment: unknown setting 'PACT_EVAL_RUNZ'; did you mean"),
        ("PACT_EVAL_K", "many", "PACT_EVAL_K: expected a whole number from 1, got 'many'"),
    ):
        assert message in run("report", code=1, **{name: value}).stderr


def test_a_variable_names_another_file_or_none(home: Path, settings: Write) -> None:
    settings("k = 0")
    assert read_config({"PACT_EVAL_CONFIG": ""}).values == {}
    (home / "other.toml").write_text("k = 3")
    assert read_config({"PACT_EVAL_CONFIG": "other.toml"}).get("k") == 3


def test_a_base_model_is_a_folder_or_an_id(
    home: Path, settings: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings('base-model = "models/base"')
    (home / "inside").mkdir()
    monkeypatch.chdir(home / "inside")
    assert read_config({}).get("base-model") == "models/base"
    (home / "models" / "base").mkdir(parents=True)
    assert read_config({}).get("base-model") == "../models/base"


@pytest.mark.slow
def test_a_page_has_no_texts_of_a_dataset_that_the_runs_were_not_scored_on(
    home: Path, settings: Write
) -> None:
    folder = write_run(home / "run", rows(1), arm="pact", seed=1)
    settings('data = "data"')
    (home / "data").mkdir()
    (home / "data" / "eval.jsonl").write_text("{}\n")
    result = run("report", folder, *FAST, "--html", "page.html")
    assert_says(result.stderr, "data:", "these runs", "no texts")
    assert (home / "page.html").exists()


def test_a_table_of_options_is_the_default_of_one_command(home: Path, settings: Write) -> None:
    folder = write_run(home / "run", rows(1, families=6), arm="pact")
    settings('k = 2\n[options.report]\nresamples = 120\nfull = true\nby = "domain"')
    result = run("report", folder)
    assert "Pairs: which of" in result.stdout
    assert "--resamples 120 (pact.toml)" in result.stderr
    assert "--resamples 150" not in run("report", folder, "--resamples", 150).stderr
    assert not re.search(r"--full\b(?!-)", run("score", "--help").stdout)


@pytest.mark.slow
def test_paths_of_a_table_of_options_start_from_its_folder(
    home: Path, settings: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run(home / "run", rows(1, families=6), arm="pact")
    settings('[options.report]\nhtml = "page.html"\nresamples = 100')
    (home / "below").mkdir()
    monkeypatch.chdir(home / "below")
    assert run("report", folder).stdout.splitlines()[0] == "../page.html"
    assert (home / "page.html").exists()


def test_a_run_is_found_by_its_name_in_the_folder_of_runs(home: Path, settings: Write) -> None:
    for seed, arm in enumerate(("letters", "b")):
        write_run(home / "all" / arm, rows(seed, families=4), arm=arm)
    settings('runs = "all"')
    result = run("compare", "letters/", "b", *FAST)
    assert_says(result.stderr, "all/letters", "folder of runs, pact.toml", "all/b")
    by_path = run("compare", "all/letters", "all/b", *FAST)
    assert by_path.stdout == result.stdout
    assert by_path.stderr == ""
    write_run(home / "b", rows(3, families=4), arm="here")
    assert "all/b" not in run("report", "b", *FAST).stderr
