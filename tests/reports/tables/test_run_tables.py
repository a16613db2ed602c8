"""Tables of run folders against hand computation, and what becomes of gaps and hostile names."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from messages import assert_says
from reports.tables.table_runs import cells, marked, run_of, share, texts
from run_frames import rows, write_run

from pact_eval.calibration.temperatures import (
    Calibrator,
    Weights,
    inverse_softplus,
    write_calibrator,
)
from pact_eval.errors import InputError, RecordError, ShapeError
from pact_eval.evaluation.arms.arm_differences import Margin
from pact_eval.evaluation.arms.table_results import read_clear_changes
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.evaluation.settings import Settings
from pact_reports.request import Request
from pact_reports.table import Cell, Table
from pact_reports.tables.cells import chance_text, marked_best
from pact_reports.writers.csv import to_csv
from pact_reports.writers.files import BuiltTables, build_tables, markdown_report
from pact_reports.writers.latex import to_latex
from pact_reports.writers.markdown import to_markdown

HOSTILE = "=x|<b>_%\n\\end{table}\u202e"


def build(folders: list[Path], *names: str, **options: object) -> BuiltTables:
    chosen = {name: options.pop(name) for name in ("method", "decoding") if name in options}
    settings = Settings(resamples=100, **chosen)  # type: ignore[arg-type]
    request = Request(Experiment.read(folders, settings), **options)  # type: ignore[arg-type]
    return build_tables(request, names or None)


def made(folders: list[Path], name: str, **options: object) -> Table:
    return build(folders, name, **options).tables[name]


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One arm with 30, 36 and 42 of 60 right, one with 45 at two seeds, a base model with 24."""
    tmp_path = tmp_path_factory.mktemp("arms")
    folders = [
        run_of(tmp_path / f"a-{seed}", share(right, 60), arm="a", seed=seed, k=2)
        for seed, right in ((1, 30), (2, 36), (3, 42))
    ]
    folders += [
        run_of(tmp_path / f"b-{seed}", share(45, 60), arm="b", seed=seed, k=2) for seed in (2, 3)
    ]
    return [*folders, run_of(tmp_path / "base", share(24, 60), arm="base", seed=None, k=2)]


def test_means_and_deviations_by_hand(arms: list[Path]) -> None:
    table = made(arms, "main")
    assert texts(table, "Arm", "Runs", "Accuracy", "Pair accuracy") == [
        ["a", "3", "60.0 ± 10.0", "60.0 ± 10.0"],
        ["b", "2", "75.0 ± 0.0", "73.3 ± 0.0"],
        ["base", "1", "40.0", "40.0"],
    ]
    mean, deviation, n = cells(table, "Accuracy")[0][0].numbers
    assert mean == pytest.approx(0.6)
    assert deviation == pytest.approx(statistics.stdev([0.5, 0.6, 0.7]))
    assert n == 3
    # One run has no deviation: neither 0 nor a mark of one.
    assert math.isnan(cells(table, "Accuracy")[2][0].numbers[1] or 0.0)
    assert "has no deviation" in table.caption
    # At the shared seeds, a and b differ in five families: too few for an exact test to show.
    assert marked(table, "Accuracy", "best") == []


def test_best_with_ties_and_where_lower_is_better() -> None:
    def of(*values: float) -> list[Cell]:
        return [Cell(f"{100 * value:.1f}", (value,)) for value in values]

    def marks(cells: list[Cell], better: Literal[-1, 0, 1]) -> list[str | None]:
        return [cell.mark for cell in marked_best(cells, [cell.text for cell in cells], better)]

    assert marks(of(0.5, 0.5, 0.4), 1) == ["best", "best", None]
    assert marks(of(0.5, 0.5, 0.4), -1) == [None, None, "best"]
    assert marks(of(0.5, 0.4), 0) == [None, None]
    assert marks(of(0.5), 1) == [None]
    # What prints the same is marked the same.
    assert marks(of(0.50001, 0.50002), 1) == ["best", "best"]
    undefined = [*of(0.5, math.nan), Cell("–")]
    assert marks(undefined, 1) == [None, None, None]
    infinite = [Cell("∞", (math.inf,)), Cell("∞", (math.inf,))]
    assert marks(infinite, -1) == [None, None]
    assert marks([*infinite, *of(9.0)], -1) == [None, None, "best"]


def test_paired_tests_match_seeds_and_base_models(arms: list[Path]) -> None:
    table = made(arms, "paired")
    assert texts(table, "B", "Seed", "Acc. A", "Acc. B", "A - B") == [
        ["b", "2", "60.0", "75.0", "−15.0"],
        ["b", "3", "70.0", "75.0", "−5.0"],
        ["base", "1", "50.0", "40.0", "+10.0"],
        ["base", "2", "60.0", "40.0", "+20.0"],
        ["base", "3", "70.0", "40.0", "+30.0"],
    ]
    for ends, p_value in cells(table, "95% families", "p"):
        low, high = ends.numbers[:2]
        assert low is not None
        assert high is not None
        assert (p_value.mark == "significant") == (low > 0 or high < 0), "both say the same"
    of_items = made(arms, "mcnemar")
    counts = [["0/9"], ["0/3"], ["6/0"], ["12/0"], ["18/0"]]
    assert texts(of_items, "Only A/B") == counts
    # Exact McNemar by hand: 2 * 2^-9, and 2 * 2^-3, which cannot be below 0.05.
    first, second = (row[0] for row in cells(of_items, "McNemar p")[:2])
    assert (first.text, first.mark) == ("0.004", "significant")
    assert first.numbers[0] == pytest.approx(2 * 2**-9)
    assert (second.text, second.mark) == ("0.250", None)
    assert second.reason is not None
    assert all((*table.reasons, *of_items.reasons)), "no footnote without its text"
    swapped = made(arms[1:4], "paired", method="b")
    # One number, one place: what `compare` shows of the same two runs.
    experiment = Experiment.read(arms, Settings(resamples=100))
    runs = experiment.arms["a"][1], experiment.arms["b"][0]
    shown = replace(experiment, runs=runs).comparisons.of_first[0].groups[0]
    difference = shown.metrics["accuracy"].difference
    interval = cells(table, "95% families")[0][0].numbers
    assert interval[:2] == (difference.low, difference.high)
    assert texts(swapped, "B", "Seed")[0] == ["a", "2"]


def test_ablations_at_shared_seeds_only(arms: list[Path]) -> None:
    table = made(arms, "ablations", clear={"accuracy": Margin(2, "points")})
    assert texts(table, "Seed", "Arm", "Accuracy") == [
        ["2", "a", "60.0"],
        ["2", "b", "75.0"],
        ["3", "a", "70.0"],
        ["3", "b", "75.0"],
    ]
    method, other = cells(table, "Accuracy")[:2]
    assert (method[0].mark, method[0].numbers[1]) == (None, None)
    assert other[0].mark == "clearly better"
    assert other[0].numbers[1] == pytest.approx(0.15)
    assert "Clear changes: Accuracy 2 points;" in table.caption
    unmarked = made(arms, "ablations")
    assert {cell.mark for row in cells(unmarked) for cell in row} == {None}
    assert "Clear" not in unmarked.caption


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('speed = "2 points"', "names of metrics, got 'speed'"),
        ('accuracy = "2 nats"', 'accuracy: expected a number of points, such as "2 points"'),
        ("accuracy = ", "not valid TOML"),
    ],
)
def test_wrong_clear_changes_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "clear.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=expected):
        read_clear_changes(path)


def test_calibration_is_marked_where_it_hurts(tmp_path: Path) -> None:
    right = run_of(tmp_path / "a", share(45, 60), arm="a", seed=1, sure=math.log(3))
    sure = run_of(tmp_path / "b", share(45, 60), arm="b", seed=1, sure=3.0)
    hot = Calibrator("scalar", Weights((inverse_softplus(2.0), 0.0, 0.0)))
    for folder in (right, sure):
        write_calibrator(folder / "calibration.json", hot)
    table = made([right, sure], "calibration")
    assert texts(table, "Arm", "T(x)") == [["a", "2.00 [2.00, 2.00]"], ["b", "2.00 [2.00, 2.00]"]]
    before, after = cells(table, "ECE before", "ECE after")[0]
    # 0.75 right at a confidence of sqrt(3) / (1 + sqrt(3)).
    assert before.text == "0.0"
    assert after.numbers[0] == pytest.approx(0.75 - math.sqrt(3) / (1 + math.sqrt(3)), abs=1e-6)
    # ECE rose from exactly 0, which has no interval: nothing is shown.
    assert marked(table, "ECE after", "worse") == []
    assert marked(table, "NLL after", "worse") == []
    main = made([right, sure], "main")
    assert texts(main, "ECE after T(x)")[0] == [after.text]


def test_calibration_marks_what_is_shown_to_be_worse(tmp_path: Path) -> None:
    """Mean change of NLL 0.031, standard deviation 0.24: with 600 items, three standard errors."""
    right = run_of(tmp_path / "a", share(450, 600), arm="a", seed=1, sure=math.log(3))
    hot = Calibrator("scalar", Weights((inverse_softplus(2.0), 0.0, 0.0)))
    write_calibrator(right / "calibration.json", hot)
    table = made([right], "calibration")
    assert marked(table, "NLL after", "worse") == ["a"]
    assert_says(table.meaning("worse"), "T(x)", "worse")


def test_choices_that_cannot_be_met_are_refused(arms: list[Path], tmp_path: Path) -> None:
    collection = Experiment.read(arms)
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.jsonl").write_text("{}\n")
    with pytest.raises(ShapeError) as error:
        build_tables(Request(collection, data=(data,)), ["splits"])
    assert_says(error.value, "train.jsonl", "no keys", "--columns")
    (data / "train.jsonl").write_text('{"id": "a", "input": {}}\n')
    with pytest.raises(RecordError):
        build_tables(Request(collection, data=(data,)), ["splits"])


@pytest.mark.parametrize(
    "names", [("splits", "kinds"), pytest.param((), marks=pytest.mark.slow)], ids=["two", "all"]
)
def test_hostile_arm_names_do_no_harm(tmp_path: Path, names: tuple[str, ...]) -> None:
    folders = [
        write_run(
            tmp_path / f"{arm}-{seed}", rows(10 * arm + seed), arm=f"{HOSTILE}{arm}", seed=seed
        )
        for arm in (1, 2)
        for seed in (17, 18)
    ]
    collection = Experiment.read(folders, Settings(resamples=200))
    request = Request(collection)
    built = build_tables(request, names or None)
    assert len(built.tables) > 1
    for table in built.tables.values():
        latex, markdown, text = to_latex(table), to_markdown(table), to_csv(table)
        assert latex.isascii()
        assert latex.count("\\end{table") == 1
        for written in (latex, markdown, text):
            assert "\u202e" not in written
        assert "<b>" not in markdown
        assert "\n=x" not in text
    report = markdown_report(request, built)
    assert "<b>" not in report
    assert "- =x\\|&lt;b&gt;\\_%\\\\n\\\\end\\{table\\}\\\\u202e1: seeds 17, 18" in report


@pytest.mark.slow
def test_means_are_marked_as_compare_marks_them(tmp_path: Path) -> None:
    """Best if the difference is shown, tied if another is shown to be worse, otherwise unmarked."""
    folders = [
        write_run(tmp_path / f"{arm}-{seed}", rows(10 * seed + at, skill=skill), arm=arm, seed=seed)
        for at, (arm, skill) in enumerate((("a", 2.5), ("b", 1.0), ("c", 1.1)))
        for seed in (1, 2, 3)
    ]
    experiment = Experiment.read(folders, Settings(resamples=300))
    compared = experiment.comparisons.of_arms
    table = build_tables(Request(experiment), ["main"]).tables["main"]
    marks = set()
    for spec in registered_metrics("full", "main results"):
        column = [cell for (cell,) in cells(table, spec.title)]
        expected = [arm.summaries["all"][spec.name].standing for arm in compared.arms]
        if expected == ["tied"] * 3:  # no difference is shown
            expected = [None] * 3
        assert [cell.mark for cell in column] == expected, spec.name
        marks |= {cell.mark for cell in column}
    assert marks == {"best", None}
    for (cell,), arm in zip(cells(table, "ECE noise"), compared.arms, strict=True):
        chance = arm.summaries["all"]["ece"].chance
        assert chance is not None
        assert cell.numbers == (chance.floor, chance.lowest_p, chance.highest_p)
        assert cell.text.startswith(chance_text(chance).removeprefix("noise ").split(",")[0])
        assert chance.lowest_p < chance.highest_p
