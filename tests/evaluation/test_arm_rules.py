"""Rules of arms by hand: cells, summaries, matching, margins, changes, standings and marks."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from messages import assert_says

from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.arms.arm_differences import (
    NO_MARGIN,
    ArmDifference,
    ArmSummary,
    Margin,
    best_mean,
    margin_unit,
    matched_seeds,
    parse_margin,
    sorted_seeds,
    standings,
)
from pact_eval.evaluation.arms.arm_metrics import (
    ArmMetrics,
    MetricCell,
    MetricRow,
    MetricTable,
    k_views,
    main_results,
    refuse,
)
from pact_eval.evaluation.arms.figure_results import arm_differences
from pact_eval.evaluation.arms.published import metric_table, read_csv_rows
from pact_eval.evaluation.arms.table_results import (
    CalibratedRun,
    ablations,
    calibrated_runs,
    change_mark,
    group_accuracy,
    read_clear_changes,
)
from pact_eval.evaluation.registry import (
    ENSEMBLE,
    ENSEMBLE_CALIBRATED,
    SINGLE,
    SINGLE_CALIBRATED,
    MetricDecoding,
    find_metric,
)
from pact_eval.evaluation.resampled_groups import Evidence, adjusted, sign_of
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.seeds import same_sign

NAN = math.nan


def estimate(value: float, low: float = NAN, high: float = NAN) -> Estimate:
    return Estimate(value, low, high, 324, 162)


def row(
    arm: str,
    seed: int | None,
    value: float,
    metric: str = "accuracy",
    decoding: MetricDecoding = SINGLE,
    group: str = "all",
    **more: Any,
) -> MetricRow:
    return MetricRow(MetricCell(metric, arm, decoding, group), seed, value, **more)


def test_a_row_of_an_estimate() -> None:
    cell = MetricCell("accuracy", "pact", SINGLE, "all")
    made = MetricRow.of(cell, 17, estimate(0.8, 0.7, 0.9), k=4)
    assert (made.value, made.low, made.high, made.n, made.k) == (0.8, 0.7, 0.9, 324, 4)
    assert made.calibration is None
    assert made.run == "pact seed 17"
    assert MetricRow.of(cell, None, estimate(0.8)).run == "pact"
    assert MetricRow.of(cell, 0, estimate(0.8)).run == "pact seed 0"


def test_a_table_finds_a_number_or_says_why_there_is_none() -> None:
    table = MetricTable(
        [
            row("pact", 18, 0.8),
            row("pact", 17, 0.7),
            row("pact", 17, NAN, "ece"),
            row("pact", 17, NAN, "brier", reason="no items"),
            row("pact", 17, 0.6, decoding=ENSEMBLE, group="score"),
            row("base", None, 0.5),
        ]
    )
    assert table.arms == ("base", "pact")
    assert table.seeds("pact") == (17, 18)
    assert table.seeds("base") == table.seeds("none") == ()
    assert len(table) == len(table.rows) == 6
    assert len(table.with_rows([row("late", 1, 0.1)])) == 7
    accuracy = MetricCell("accuracy", "pact", SINGLE, "all")
    assert table.row(accuracy, 18).value == 0.8
    # A base model is compared with every seed of the others.
    of_base = replace(accuracy, arm="base")
    assert [table.row(of_base, seed).value for seed in (None, 17, 99)] == [0.5] * 3
    reasons = {
        "no run of none (there are base, pact)": (replace(accuracy, arm="none"), 17),
        "pact has no run with seed 19 (it has 17, 18)": (accuracy, 19),
        "pact has no run without a seed (it has 17, 18)": (accuracy, None),
        "no ensemble numbers of pact seed 18 (there are single)": (
            replace(accuracy, decoding=ENSEMBLE),
            18,
        ),
        "no ensemble numbers of base (there are single)": (replace(of_base, decoding=ENSEMBLE), 1),
        "no group all of pact seed 17 (there are score)": (
            replace(accuracy, decoding=ENSEMBLE),
            17,
        ),
        "no nll_nats of pact seed 17 (single, all)": (replace(accuracy, metric="nll_nats"), 17),
        "ece of pact seed 17 (single, all): undefined": (replace(accuracy, metric="ece"), 17),
        "brier of pact seed 17 (single, all): no items": (replace(accuracy, metric="brier"), 17),
    }
    for reason, (cell, seed) in reasons.items():
        absent = table.row(cell, seed)
        assert absent.reason == reason
        assert math.isnan(absent.value)
    empty = MetricTable([]).row(accuracy, 17)
    assert_says(empty.reason, "no runs at all")


def test_a_repeated_row_counts_once_and_another_number_is_refused() -> None:
    assert len(MetricTable([row("pact", 17, 0.5), row("pact", 17, 0.5)])) == 1
    assert len(MetricTable([row("pact", 17, NAN), row("pact", 17, NAN)])) == 1
    for other in (0.6, NAN):
        with pytest.raises(InputError, match="pact seed 17, single, all: two runs say accuracy"):
            MetricTable([row("pact", 17, 0.5), row("pact", 17, other)])
    with pytest.raises(InputError, match="speed under single"):
        MetricTable([row("pact", 17, 0.5, "speed")])


def test_a_summary_of_an_arm_by_hand() -> None:
    runs: dict[int | None, Estimate] = {
        17: estimate(0.8),
        18: estimate(0.9),
        19: estimate(0.7),
    }
    summary = ArmSummary.of("pact", runs)
    assert [summary.mean, summary.deviation] == pytest.approx([0.8, 0.1])
    assert math.isnan(summary.low)
    assert summary.values == (0.8, 0.9, 0.7)
    assert summary.chance is None
    drawn = ArmSummary.of("pact", runs, estimate(0.81, 0.75, 0.86))
    assert (drawn.mean, drawn.low, drawn.high) == (0.81, 0.75, 0.86)
    assert drawn.deviation == pytest.approx(0.1)
    alone = ArmSummary.of("pact", {None: estimate(0.8)})
    assert alone.mean == 0.8
    assert math.isnan(alone.deviation)


def test_seeds_are_matched_in_ascending_order() -> None:
    a: dict[int | None, str] = {3: "a3", 1: "a1", 2: "a2"}
    b: dict[int | None, str] = {2: "b2", 3: "b3", 9: "b9"}
    assert [(match.seed, match.a, match.b) for match in matched_seeds(a, b)] == [
        (2, "a2", "b2"),
        (3, "a3", "b3"),
    ]
    base: dict[int | None, str] = {None: "base"}
    assert [(m.seed, m.a, m.b) for m in matched_seeds(base, b)] == [
        (2, "base", "b2"),
        (3, "base", "b3"),
        (9, "base", "b9"),
    ]
    assert [(m.seed, m.a, m.b) for m in matched_seeds(a, base)] == [
        (seed, f"a{seed}", "base") for seed in (1, 2, 3)
    ]
    assert [(m.seed, m.a, m.b) for m in matched_seeds(base, {None: "other"})] == [
        (None, "base", "other")
    ]
    assert matched_seeds({1: "a"}, {None: "b", 2: "c"}) == ()
    assert sorted_seeds({2: "", None: "", -1: "", 0: ""}) == [None, -1, 0, 2]


@pytest.mark.parametrize(
    ("amount", "unit", "distance", "text"),
    [
        (1.0, "points", 0.01, "1 point"),
        (2.5, "points", 0.025, "2.5 points"),
        (0.5, "nats", 0.5, "0.5 nats"),
        (0.25, "", 0.25, "0.25"),
    ],
)
def test_margins_in_their_units(amount: float, unit: str, distance: float, text: str) -> None:
    margin = Margin(amount, unit)
    assert margin.distance == pytest.approx(distance)
    assert str(margin) == text
    assert NO_MARGIN.distance == 0


@pytest.mark.parametrize(
    ("text", "metric", "expected"),
    [
        ("2 points", "accuracy", Margin(2, "points")),
        (" 1 point ", "accuracy", Margin(1, "points")),
        ("0.5points", "ece", Margin(0.5, "points")),
        ("0.02 nats", "nll_nats", Margin(0.02, "nats")),
        ("1 level", "score_mae", Margin(1, "levels")),
        ("0.01", "brier", Margin(0.01, "")),
        ("2", "accuracy", None),
        ("2 nats", "accuracy", None),
        ("-2 points", "accuracy", None),
        ("0.01 points", "brier", None),
        ("2. points", "accuracy", None),
        ("9" * 400 + " points", "accuracy", None),
    ],
)
def test_margins_are_read_strictly(text: str, metric: str, expected: Margin | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="expected a number"):
            parse_margin(text, metric)
    else:
        assert parse_margin(text, metric) == expected


def test_the_unit_of_a_difference_is_that_of_its_metric() -> None:
    units = {name: margin_unit(name) for name in ("flip_rate", "nll_nats", "score_mae", "brier")}
    assert units == {"flip_rate": "points", "nll_nats": "nats", "score_mae": "levels", "brier": ""}


@pytest.mark.parametrize(
    ("metric", "change", "mark"),
    [
        ("accuracy", 0.02, "clearly better"),
        ("accuracy", 0.0199, "better"),
        ("accuracy", 0.005, "better"),
        ("accuracy", 0.0049, None),
        ("accuracy", -0.005, "worse"),
        ("accuracy", -0.02, "clearly worse"),
        ("accuracy", 0.1 + 0.2 - 0.28, "clearly better"),  # 0.02 but for rounding
        ("nll_nats", 0.03, "clearly worse"),
        ("nll_nats", -0.006, "better"),
        ("accuracy", 0.0, None),
        ("accuracy", NAN, None),
    ],
)
def test_changes_of_a_quarter_and_of_the_whole_margin(
    metric: str, change: float, mark: str | None
) -> None:
    margin = Margin(2, "points") if metric == "accuracy" else Margin(0.02, "nats")
    assert change_mark(metric, change, margin) == mark


def test_clear_changes_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "clear.toml"
    path.write_text('accuracy = "2 points"\nbrier = 0.01\n')
    assert read_clear_changes(path) == {
        "accuracy": Margin(2, "points"),
        "brier": Margin(0.01, ""),
    }
    for text, message in (("speed = 1", "names of metrics, got 'speed'"), ("ece = 2", "ece: ")):
        path.write_text(text)
        with pytest.raises(InputError) as refused:
            read_clear_changes(path)
        assert_says(refused.value, str(path), message)


def published(arm: str, seed: int | None, accuracy: float, nll: float) -> list[MetricRow]:
    return [
        row(arm, seed, accuracy, n=324),
        row(arm, seed, nll, "nll_nats", n=324),
        row(arm, seed, nll / 2, "nll_nats", SINGLE_CALIBRATED, n=324),
    ]


def arms() -> ArmMetrics:
    """Return the metrics of two arms over two seeds, one arm of another seed, and a base model."""
    return ArmMetrics(
        MetricTable(
            [
                *published("pact", 17, 0.80, 0.50),
                *published("pact", 18, 0.90, 0.40),
                *published("ce", 17, 0.78, 0.52),
                *published("ce", 18, 0.91, 0.30),
                *published("late", 19, 0.70, 0.60),
                *published("base", None, 0.50, 0.90),
            ]
        )
    )


def test_ablations_by_hand() -> None:
    clear = {"accuracy": Margin(2, "points"), "ece": Margin(1, "points")}
    table = ablations(arms(), "pact", clear=clear)
    assert [*table.blocks] == [17, 18]
    assert [entry.arm for entry in table.blocks[17]] == ["pact", "ce"]
    metrics = [metric for metric, _ in table.questions]
    assert metrics == ["accuracy", "nll_nats"]
    own, other = table.blocks[17]
    assert own.changes == (0.0, 0.0)
    assert own.marks == (None, None)
    assert other.changes == pytest.approx((-0.02, 0.02))
    assert other.marks == ("clearly worse", None)
    assert table.blocks[18][1].marks == ("better", None)
    assert table.clear == {"accuracy": Margin(2, "points")}
    with pytest.raises(InputError, match="in common with late"):
        ablations(arms(), "late")


def test_main_results_by_hand() -> None:
    results = main_results(arms())
    assert [*results.arms] == ["pact", "ce", "base"]
    assert results.left_out == ("late",)
    of_accuracy = results.questions.index(("accuracy", SINGLE))
    summary = results.arms["pact"][of_accuracy]
    assert [summary.mean, summary.deviation] == pytest.approx([0.85, 0.1 / math.sqrt(2)])
    # ECE alone is shown after calibration too, and these tables have none.
    assert ("nll_nats", SINGLE_CALIBRATED) not in results.questions
    with pytest.raises(InputError, match="more views than one"):
        k_views(arms())


def test_runs_before_and_after_calibration() -> None:
    runs = {(run.arm, run.seed): run for run in calibrated_runs(arms())}
    assert set(runs) == {
        ("pact", 17),
        ("pact", 18),
        ("ce", 17),
        ("ce", 18),
        ("late", 19),
        ("base", None),
    }
    of_pact = runs["pact", 17]
    assert [of_pact.before[0].value, of_pact.after[0].value] == [0.5, 0.25]
    assert of_pact.worse == (False, False, False)
    assert of_pact.temperature is None
    raw = ArmMetrics(MetricTable([row("pact", 17, 0.8)]))
    with pytest.raises(InputError, match="no run has a calibrator"):
        calibrated_runs(raw)


@pytest.mark.parametrize(("after", "worse"), [(0.4, False), (0.5, False), (0.501, True)])
def test_published_numbers_are_worse_by_any_amount_but_rounding(after: float, worse: bool) -> None:
    before = row("pact", 17, 0.5, "nll_nats")
    calibrated = row("pact", 17, after, "nll_nats", SINGLE_CALIBRATED)
    assert CalibratedRun("pact", 17, (before,), (calibrated,), None).worse == (worse,)
    shown = CalibratedRun("pact", 17, (before,), (calibrated,), None, frozenset({"nll_nats"}))
    assert shown.worse == (True,)
    other = CalibratedRun("pact", 17, (before,), (calibrated,), None, frozenset({"ece"}))
    assert other.worse == (False,)


def test_accuracy_by_kind_by_hand() -> None:
    table = MetricTable(
        [
            row("pact", 17, 0.8, group="all", n=20),
            row("pact", 17, 0.7, group="choice", n=12),
            row("pact", 17, 0.9, group="score", n=8),
            row("pact", 17, 0.4, "score_mae", group="all"),
            row("ce", 17, 0.6, group="choice"),
        ]
    )
    accuracy = group_accuracy(ArmMetrics(table), "kind", SINGLE)
    assert accuracy.groups == (("choice", 12), ("score", 8))
    by_arm = {cells[0].cell.arm: [cell.value for cell in cells] for cells in accuracy.rows}
    assert by_arm["pact"] == [0.7, 0.9, 0.4]
    assert by_arm["ce"][0] == 0.6
    assert math.isnan(by_arm["ce"][1])
    with pytest.raises(InputError, match="no numbers by kind"):
        group_accuracy(arms(), "kind", SINGLE)


def test_published_differences_by_hand() -> None:
    ce, base = (arm_differences(arms(), "pact", other) for other in ("ce", "base"))
    assert (ce.a, ce.b, ce.seeds, ce.items, ce.families) == ("pact", "ce", (17, 18), 324, None)
    (group,) = ce.groups
    assert (group.by, group.name, group.items) == ("all", "all", 324)
    assert group.values == pytest.approx((0.02, -0.01))
    assert group.mean.value == pytest.approx(0.005)
    assert base.seeds == (17, 18)
    assert base.groups[0].values == pytest.approx((0.3, 0.4))
    alone = ArmMetrics(MetricTable([row("pact", 1, 0.5), row("late", 2, 0.5)]))
    with pytest.raises(InputError, match="pact and late have no seed in common"):
        arm_differences(alone, "pact", "late")


def difference(value: float, low: float, high: float, *, marked: bool) -> ArmDifference:
    same = estimate(value, low, high)
    return ArmDifference(
        spec=find_metric("accuracy").spec,
        a=estimate(0.5 + value),
        b=estimate(0.5),
        difference=same,
        evidence=Evidence("interval", 0.01 if marked else 0.5, marked=marked),
        verdict=None,
        new_seeds=replace(same, low=NAN, high=NAN),
        sign=same_sign([value]),
        generalises_to="new families, same seeds",
    )


@pytest.mark.parametrize(
    ("marked", "expected"), [(True, {"a": "best"}), (False, {"a": "tied", "b": "tied"})]
)
def test_an_arm_is_best_if_every_other_is_shown_worse(
    marked: bool, expected: dict[str, str]
) -> None:
    spec = find_metric("accuracy").spec
    lead = difference(0.1, 0.05, 0.15, marked=marked)
    assert standings({"a": 0.9, "b": 0.8}, spec, {"b": lead}) == expected
    # An interval that leans the other way does not show the top to be better.
    contrary = {"b": difference(0.1, -0.15, -0.05, marked=True)}
    assert standings({"a": 0.9, "b": 0.8}, spec, contrary) == {"a": "tied", "b": "tied"}
    assert standings({"a": 0.9, "b": 0.8, "c": NAN}, spec, {"b": lead}) == expected


def test_the_best_mean_has_a_direction_and_is_finite() -> None:
    accuracy, nll = (find_metric(name).spec for name in ("accuracy", "nll_nats"))
    means = {"a": 0.3, "b": 0.2}
    assert (best_mean(means, accuracy), best_mean(means, nll)) == ("a", "b")
    assert best_mean({"a": 0.3, "b": NAN}, accuracy) is None
    assert best_mean({"a": math.inf, "b": math.inf}, nll) is None
    assert best_mean({"a": math.inf, "b": 2.0}, nll) == "b"


@pytest.mark.parametrize(
    ("value", "low", "high", "sign"),
    [
        (0.1, 0.05, 0.2, 1),
        (-0.1, -0.2, -0.05, -1),
        (-0.1, -0.3, 0.1, -1),
        (0.0, -0.1, 0.1, 0),
        (0.01, -0.09, -0.02, -1),
        (0.1, NAN, NAN, 1),
    ],
)
def test_the_sign_is_that_of_the_interval_first(
    value: float, low: float, high: float, sign: int
) -> None:
    assert sign_of(estimate(value, low, high)) == sign


def test_holm_takes_marks_away_and_gives_none() -> None:
    tests = [
        Evidence("interval", p, marked=marked)
        for p, marked in ((0.01, True), (0.03, True), (NAN, False), (0.02, False))
    ]
    together = adjusted(tests)
    assert [test.adjusted_p_value for test in together[:2]] == pytest.approx([0.03, 0.04])
    assert [test.tests for test in together] == [3] * 4
    # 0.02 * 2 = 0.04: small enough, and its interval includes 0.
    assert [test.marked for test in together] == [True, True, False, False]


HEADER = "run,seed,decoding,group,count,correct,pairs,accuracy,nll,ece,level_mae,permutation_tv\n"


def read(tmp_path: Path, *lines: str) -> MetricTable:
    path = tmp_path / "metrics.csv"
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return metric_table(read_csv_rows(path))


def test_ensemble_rows_are_calibrated_if_their_run_is(tmp_path: Path) -> None:
    table = read(
        tmp_path,
        "pact,17,single,all,20,,10,0.8,0.5,0.1,,",
        "pact,17,single_calibrated,all,20,,10,0.8,0.4,0.05,,",
        "pact,17,ensemble,all,20,,10,0.85,0.3,0.04,,0.02",
        "base,,ensemble,all,20,,10,0.6,0.9,0.2,,0.03",
    )
    assert {
        (entry.cell.metric, entry.cell.decoding)
        for entry in table.rows
        if entry.cell.arm == "pact" and entry.cell.decoding.views == "ensemble"
    } == {
        ("accuracy", ENSEMBLE),
        ("accuracy", ENSEMBLE_CALIBRATED),
        ("nll_nats", ENSEMBLE_CALIBRATED),
        ("ece", ENSEMBLE_CALIBRATED),
        ("view_tv", ENSEMBLE_CALIBRATED),
    }
    assert {entry.cell.decoding for entry in table.rows if entry.cell.arm == "base"} == {ENSEMBLE}


def test_numbers_count_what_they_rest_on(tmp_path: Path) -> None:
    table = read(
        tmp_path,
        "pact,17,single,all,20,16,10,0.8,0.5,0.1,0.3,",
        "pact,17,single,score,6,,3,0.5,0.5,0.1,0.3,",
        "pact,17,single,noul,14,,7,0.9,0.5,0.1,,",
    )
    counts = {(entry.cell.metric, entry.cell.group): entry.n for entry in table.rows}
    assert counts["accuracy", "all"] == 20
    assert counts["score_level_mae", "all"] == 6
    assert counts["accuracy", "boolean"] == 14


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("pact,17,single,all,20,16,10,0.75,,,,", "accuracy"),
        ("pact,17,single,all,20,21,10,1.0,,,,", "accuracy"),
        ("pact,17,single,all,20,,10,1.01,,,,", "accuracy"),
        ("pact,17,single,all,20,,10,-0.01,,,,", "accuracy"),
        ("pact,17,single,all,20,,10,0.8,x,,,", "nll"),
        ("pact,17,single,all,2.5,,10,0.8,,,,", "count"),
        ("pact,1.5,single,all,20,,10,0.8,,,,", "seed"),
        (",17,single,all,20,,10,0.8,,,,", "run"),
        ("pact,17,single,,20,,10,0.8,,,,", "group"),
        ("pact,17,both,all,20,,10,0.8,,,,", "decoding"),
    ],
)
def test_a_wrong_cell_is_named_by_line_and_column(tmp_path: Path, line: str, column: str) -> None:
    with pytest.raises(RecordError) as refused:
        read(tmp_path, "ce,17,single,all,20,16,10,0.8,,,,", line)
    assert_says(refused.value, ":3", f"column {column}: ")


@pytest.mark.parametrize(
    "line",
    [
        "pact,-1,single,all,20,16,10,0.80,,,,",
        "pact,,single,all,324,273,10,0.843,,,,",  # 0.84259, rounded
        "pact,17,single,all,20,16,10,1,0,1.0,,",
        "pact,17,single,all,0,0,10,0.8,,,,",
        "pact,17,single,all,20,,10,0,7.5,0,,",
    ],
)
def test_what_is_rounded_or_at_the_end_of_its_range_is_taken(tmp_path: Path, line: str) -> None:
    if line.startswith("pact,17,single,all,20,16,10,1,"):
        with pytest.raises(RecordError, match="contradicts 16 correct of 20"):
            read(tmp_path, line)
    else:
        assert read(tmp_path, line).arms == ("pact",)


def test_rows_that_appear_twice_and_short_rows_are_refused(tmp_path: Path) -> None:
    good = "pact,17,single,all,20,16,10,0.8,,,,"
    with pytest.raises(RecordError) as twice:
        read(tmp_path, good, good.replace("all", "score"), good)
    assert_says(twice.value, ":4", "as line 2")
    with pytest.raises(RecordError) as short:
        read(tmp_path, good, "pact,18,single,all")
    assert_says(short.value, ":3", "expected 12 cells")


@pytest.mark.parametrize(("problems", "lines"), [(1, 1), (20, 20), (21, 21), (40, 21)])
def test_twenty_problems_are_listed(problems: int, lines: int) -> None:
    refuse([])
    with pytest.raises(InputError) as refused:
        refuse([f"problem {number}" for number in range(problems)])
    text = str(refused.value).splitlines()
    assert len(text) == lines
    if problems > 20:
        assert_says(text[-1], f"and {problems - 20} more problems")
