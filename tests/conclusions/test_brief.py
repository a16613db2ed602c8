"""Six planted cases, read from the first lines that `report` and `compare` print.

Two readers answer the four questions from five lines; here a test reads the same lines.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conclusions import surfaces
from conclusions.planted import PLAIN, Plan, drawn_to, scaled, shifted
from conclusions.test_data import LEAKED, leaking, scored
from messages import assert_says
from run_frames import edit_run

import pact_eval
from pact_cli.main import main
from pact_eval.evaluation.settings import Settings

pytestmark = pytest.mark.slow

RESAMPLES = ("--resamples", "1000")
LINES = 5
"""Lines from which every question about a run is answered."""

MOST, COLUMNS = 12, 100
"""Lines of a brief output, and columns at which they are counted."""

RUNS: Mapping[str, tuple[Plan, int]] = {
    "plain": (PLAIN, 3),
    "alike": (PLAIN, 4),
    "better": (shifted(1.0, PLAIN), 3),
    "letters": (Plan(change=drawn_to(0, 2.5)), 3),
    "confident": (Plan(change=scaled(3)), 5),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Planted runs, and runs `leaked` and `clean` on the holdout of a leaking dataset."""
    home = tmp_path_factory.mktemp("brief")
    for name, (plan, seed) in RUNS.items():
        plan.write(home / name, seed)
    holdout = leaking(home / "data") / "holdout.jsonl"
    scored(home / "leaked", holdout, 1, leaked=True)
    scored(home / "clean", holdout, 2, leaked=False)
    return home


def printed(home: Path, *words: object) -> Result:
    """Runs a command at 100 columns."""
    arguments = [_placed(home, str(word)) for word in words]
    return CliRunner().invoke(main, arguments, env={"COLUMNS": str(COLUMNS)})


def _placed(home: Path, word: str) -> str:
    """Returns a word of a command; a run, or that of NAME=RUN, below the folder of runs."""
    name, separator, run = word.rpartition("=")
    return f"{name}{separator}{home / run}" if run in RUNS else word


def first_lines(result: Result) -> str:
    return "\n".join(result.stdout.splitlines()[:LINES])


SINGLE = {
    "better": ("stable", "no error shown"),
    "letters": ("follows a letter", "over-confident"),
    "confident": ("stable", "over-confident"),
}


@pytest.mark.parametrize("name", SINGLE)
def test_five_lines_of_a_report_answer_every_question(home: Path, name: str) -> None:
    result = printed(home, "report", name, *RESAMPLES)
    assert result.exit_code == 0, result.output
    lines = first_lines(result)
    order, probabilities = SINGLE[name]
    assert surfaces.fact_statuses(lines) == {
        "data": "not checked",
        "order": order,
        "probabilities": probabilities,
    }
    answer = lines.splitlines()[0]
    assert answer.startswith(f"{name} answers ")
    assert ("FOLLOWS THE LETTER A" in answer) == (order == "follows a letter")
    assert ("OVER-CONFIDENT" in answer) == (probabilities == "over-confident")


BETTER = [
    ("better", "plain", "better", ("stable", "stable"), ("no error shown", "no error shown")),
    ("plain", "better", "worse", ("stable", "stable"), ("no error shown", "no error shown")),
    ("plain", "alike", "not shown", ("stable", "stable"), ("no error shown", "no error shown")),
    (
        *("plain", "letters", "better"),
        ("stable", "follows a letter"),
        ("no error shown", "over-confident"),
    ),
    ("plain", "confident", "not shown", ("stable", "stable"), ("no error shown", "over-confident")),
]


@pytest.mark.parametrize("case", BETTER, ids=lambda case: "-".join(case[:2]))
def test_five_lines_of_a_comparison_answer_every_question(
    home: Path, case: tuple[str, str, str, tuple[str, str], tuple[str, str]]
) -> None:
    first, second, better, orders, probabilities = case
    result = printed(home, "compare", first, second, *RESAMPLES)
    lines = first_lines(result)
    statuses = surfaces.first_line_statuses(lines, (1, 4), second=second)
    assert statuses[1] == better
    named = surfaces.facts(lines)
    assert surfaces.data_status(named["data"]) == "not checked"
    names = (first, second)
    assert of_runs(named["order"], names, surfaces.order_status) == orders
    assert of_runs(named["probabilities"], names, surfaces.probabilities_status) == probabilities
    assert ("Detectable here" in result.stdout) == (better == "not shown")


def of_runs(text: str, names: tuple[str, str], status: object) -> tuple[str, str]:
    """Returns the statuses of two runs in "a FOLLOWS ...; b: stable", or in "both: stable"."""
    assert callable(status)
    if text.startswith("both: "):
        return (status(text.removeprefix("both: ")),) * 2
    parts = dict(re.split(r":? ", part, maxsplit=1) for part in text.split("; "))
    return status(parts[names[0]]), status(parts[names[1]])


@pytest.mark.parametrize("data", ["data/holdout.jsonl", "data"], ids=["file", "folder"])
@pytest.mark.parametrize("words", [("report", "leaked"), ("compare", "leaked", "clean")],
                         ids=lambda words: words[0])  # fmt: skip
def test_the_leak_of_a_file_or_a_folder_comes_first(
    home: Path, words: tuple[str, ...], data: str
) -> None:
    command, *names = words
    runs = [home / name for name in names]
    result = printed(home, command, *runs, "--data", home / data, *RESAMPLES)
    assert result.exit_code == 3
    leak, answer, *_ = result.stdout.splitlines()
    assert leak.startswith(f"Leak: {2 * LEAKED} items")
    assert leak.endswith("without them.")
    assert answer.startswith(f"Leak of {2 * LEAKED} items; ")  # so that it is not quoted alone
    assert len(result.stdout.splitlines()) <= MOST


@pytest.mark.parametrize("data", ["data/holdout.jsonl", "data"], ids=["file", "folder"])
def test_five_lines_answer_every_question_of_leaking_data(home: Path, data: str) -> None:
    options = ("--data", home / data, *RESAMPLES)
    lines = first_lines(printed(home, "report", home / "leaked", *options))
    expected = {"data": "leak", "order": "cannot tell", "probabilities": "no error shown"}
    assert surfaces.fact_statuses(lines) == expected
    lines = first_lines(printed(home, "compare", home / "leaked", home / "clean", *options))
    assert surfaces.data_status(lines) == "leak"
    answer, named = lines.splitlines()[1].partition("; ")[2], surfaces.facts(lines)
    assert surfaces.first_line_statuses(answer, (1,), second="clean") == {1: "not shown"}
    names = ("leaked", "clean")
    assert of_runs(named["order"], names, surfaces.order_status) == ("cannot tell", "cannot tell")
    probabilities = of_runs(named["probabilities"], names, surfaces.probabilities_status)
    assert probabilities == ("no error shown", "no error shown")


@pytest.mark.parametrize(
    "words",
    [
        *(("report", name) for name in RUNS),
        ("report", "letters", "--target-error", "0.05"),
        ("compare", "better", "letters"),
        ("compare", "plain", "alike"),
        ("compare", "plain", "alike", "--margin", "0.05"),
        ("compare", "plain", "alike", "better"),
        ("compare", "--arms", "a=plain", "b=letters"),
        ("compare", "--arms", "a=plain", "b=alike", "--margin", "0.05"),
        ("compare", "--arms", "a=plain", "b=letters", "c=better"),
    ],
    ids="-".join,
)
def test_an_answer_has_at_most_twelve_lines(home: Path, words: tuple[str, ...]) -> None:
    lines = printed(home, *words, *RESAMPLES).stdout.splitlines()
    assert 0 < len(lines) <= MOST
    assert max(map(len, lines)) <= COLUMNS


def test_every_further_run_adds_one_line(home: Path) -> None:
    names = [*RUNS]
    lines = printed(home, "compare", *names, *RESAMPLES).stdout.splitlines()
    assert len(lines) <= MOST + len(names) - 3
    assert lines[0].startswith("plain is ")
    rows = {line.split()[0]: line for line in lines if line.split()[0] in names}
    assert [*rows] == names
    for name, (order, probabilities) in SINGLE.items():
        assert ("FOLLOWS A" in rows[name]) == (order == "follows a letter")
        assert ("OVER-CONFIDENT" in rows[name]) == (probabilities == "over-confident")


ARMS = [
    (("a=plain", "b=better"), {"b": "better"}, "b is more accurate than a"),
    (("a=plain", "b=alike"), {"b": "not shown"}, "No accuracy difference shown"),
    (("a=plain", "b=alike", "c=better"), {"b": "not shown", "c": "better"}, "a is less accurate"),
]


@pytest.mark.parametrize(("words", "better", "first"), ARMS, ids=lambda value: "-".join(value))
def test_arms_answer_first_with_the_statuses_of_their_json(
    home: Path, words: tuple[str, ...], better: dict[str, str], first: str
) -> None:
    arguments = ("compare", "--arms", *words, *RESAMPLES)
    result = printed(home, *arguments)
    assert result.stdout.startswith(first)
    answer = json.loads(printed(home, *arguments, "--json").stdout)["answer"]["better"]
    turned = {"worse": "better", "better": "worse"}
    statuses = {one["right"]: turned.get(one["status"], one["status"]) for one in answer}
    assert statuses == better
    full = printed(home, *arguments, "--full").stdout
    assert full.splitlines()[0] == result.stdout.splitlines()[0]
    assert_says(full, "Accuracy of all items", "single seeds", "exact tests")
    assert "exact tests" not in result.stdout


def test_an_arm_is_as_bad_as_its_worst_run(home: Path, tmp_path: Path) -> None:
    for seed, name in ((1, "plain"), (2, "letters")):
        shutil.copytree(home / name, tmp_path / f"x-{seed}")
        edit_run(tmp_path / f"x-{seed}", seed=seed)
        shutil.copytree(home / "better", tmp_path / f"y-{seed}")
        edit_run(tmp_path / f"y-{seed}", seed=seed)
    arms = (f"x={tmp_path}/x-*", f"y={tmp_path}/y-*")
    named = surfaces.facts(printed(home, "compare", "--arms", *arms, *RESAMPLES).stdout)
    assert of_runs(named["order"], ("x", "y"), surfaces.order_status)[0] == "follows a letter"
    probabilities = of_runs(named["probabilities"], ("x", "y"), surfaces.probabilities_status)
    assert probabilities == ("over-confident", "no error shown")
    assert "2 shared" in named["seeds"]
    assert "worst run" in named["seeds"]


def test_full_prints_the_tables_and_mcnemar_the_items(home: Path) -> None:
    pair = ("compare", "better", "plain", *RESAMPLES)
    first = printed(home, *pair).stdout.splitlines()[0]
    full = printed(home, *pair, "--full").stdout
    assert full.splitlines()[0] == first
    assert "Pair accuracy" in full
    assert "Wilson" in full
    items = printed(home, *pair, "--mcnemar").stdout
    assert items.splitlines()[0] == first
    assert items.count("only one run answers") == 1
    assert "McNemar over items" in items


def test_print_in_python_begins_with_the_same_line(home: Path) -> None:
    settings = Settings(resamples=1_000)
    comparison = pact_eval.compare(home / "letters", home / "plain", settings)
    line = printed(home, "compare", "letters", "plain", *RESAMPLES).stdout.splitlines()[0]
    assert str(comparison).splitlines()[0] == line
    evaluation = pact_eval.evaluate(home / "letters", settings)
    line = printed(home, "report", "letters", *RESAMPLES).stdout.splitlines()[0]
    assert str(evaluation).splitlines()[0] == line
    for result in (comparison, evaluation):
        assert len(repr(result)) <= 200
        assert "\n" not in repr(result)
