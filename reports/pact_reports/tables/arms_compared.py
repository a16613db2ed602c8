"""Tables of arms: main results, K views, changes and tests at the same seed, settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.arms.arm_differences import ArmSummary, Standing
from pact_eval.evaluation.arms.arm_metrics import (
    ArmSummaries,
    MetricQuestion,
    k_views,
    main_results,
)
from pact_eval.evaluation.arms.released_results import (
    ItemTest,
    ReleasedSetting,
    published_tests,
    released_settings,
)
from pact_eval.evaluation.arms.table_results import Ablation, Ablations, ablations
from pact_eval.evaluation.calibration_error import ChanceError
from pact_eval.evaluation.comparison import GroupComparison
from pact_eval.evaluation.registry import (
    DIFFERENCE,
    SINGLE,
    MetricDecoding,
    find_metric,
    metric_spec,
)
from pact_eval.numbers import UNDEFINED
from pact_reports.request import Request
from pact_reports.table import Cell, Column, ColumnOf, Mark, Row, Table, make_table
from pact_reports.tables.cells import (
    CALIBRATION_ERROR,
    NOISE,
    STANDING_LEGEND,
    arm_cell,
    chance_cell,
    chance_column,
    count_cell,
    count_column,
    decoding_words,
    few_pairs,
    interval_cell,
    interval_column,
    items_and_pairs,
    marked_best,
    mean_cell,
    mean_column,
    metric_column,
    noise_cell,
    noise_column,
    p_value_cell,
    seed_text,
    unit_of,
    value_cell,
    with_interval,
)

_SHORT: Final = {"view_tv": "TV", "flip_rate": "Flips", "ensemble_gain": "Gain"}
_BY_VALUE: Final[tuple[tuple[Mark, str], ...]] = (
    ("best", "best mean of its column, by value; no difference is tested"),
)
_UNITS: Final = {
    "nll_nats": "NLL in nats",
    "brier": "Brier not halved",
    "score_mae": "MAE in levels",
    "score_rps": "RPS in levels",
}


def build_main(request: Request) -> Table:
    """Make the table of main results of runs.

    Raises:
        InputError: the runs do not compare.
    """
    results = main_results(request.metrics, request.decoding)
    decoding = decoding_words(MetricDecoding(request.decoding))
    calibrated = any(decoding.calibrated for _, decoding in results.questions)
    caption = f"Decoding: {decoding}{', except for ECE after T(x)' if calibrated else ''}."
    return _means_table(results, request.names, "main", "Main results", caption)


def build_views(request: Request) -> Table:
    """Make the table of K-view decoding of runs.

    Raises:
        InputError: the runs do not compare, or have one view.
    """
    results = k_views(request.metrics)
    k = "K" if results.published else str(max(run.predictions.k for run in request.comparable))
    caption = (
        f"Decoding: {k} views together; raw, except for the columns after T(x), which are "
        "calibrated. TV: mean total variation between views; flips: items whose answer the "
        "views change; gain: accuracy minus that of view 0 alone, in points."
    )
    return _means_table(results, request.names, "views", "K-view decoding", caption)


def _means_table(
    results: ArmSummaries, names: ArmNames, name: str, title: str, caption: str
) -> Table:
    """Lay out metrics of arms: one row per arm; the best of each metric, or those tied, marked.

    Args:
        results: what to show; the best of published metrics are marked by value.
        names: display names of arms.
        name: of the table's files.
        title: what it shows.
        caption: names the decodings; what numbers rest on is added.
    """
    runs = [len(summaries[0].runs) if summaries else None for summaries in results.arms.values()]
    columns = [Column("Arm", "left"), count_column("Runs")]
    by_column: list[list[Cell]] = [
        [arm_cell(arm, names) for arm in results.arms],
        [count_cell(count) for count in runs],
    ]
    for at, (metric, decoding) in enumerate(results.questions):
        spec = metric_spec(metric)
        head = _SHORT.get(metric, spec.title) if name == "views" else spec.title
        head += " after T(x)" if decoding.calibrated else ""
        summaries = [of_arm[at] for of_arm in results.arms.values()]
        columns.append(mean_column(spec, decoding, head))
        by_column.append(_mean_cells(summaries, metric, published=results.published))
        if find_metric(metric).noise_floor and not results.published:
            columns.append(noise_column(head, decoding))
            by_column.append([noise_cell(summary.chance) for summary in summaries])
    means = ""
    if max((count or 0 for count in runs), default=0) > 1:
        alone = "; one run has no deviation" if 1 in runs else ""
        means = f"Mean ± sample standard deviation over the seeds of an arm{alone}. "
    asked = {metric for metric, _ in results.questions}
    units = ["Rates in %", *(words for metric, words in _UNITS.items() if metric in asked)]
    scope = f"{means}Each run: {items_and_pairs(results.sizes)}. {', '.join(units)}."
    legend = _BY_VALUE if results.published else STANDING_LEGEND
    shown = {cell.mark for cells in by_column for cell in cells}
    left_out = ", ".join(map(names.arm, results.left_out))
    notes = [] if results.published else [NOISE]
    notes += [f"Left out because trained with one seed only: {left_out}"] if left_out else []
    return Table(
        name,
        title,
        f"{caption} {scope}",
        tuple(columns),
        tuple(map(Row, zip(*by_column, strict=True))),
        legend=tuple(entry for entry in legend if entry[0] in shown),
        notes=tuple(notes),
        brackets=(
            "In brackets for arms with one run: 95% interval over families, left out if there "
            f"is none. {CALIBRATION_ERROR}"
        ),
    )


def _mean_cells(summaries: Sequence[ArmSummary], metric: str, *, published: bool) -> list[Cell]:
    """Return the column of a metric: means, of one run its interval, and the marks.

    No arm is marked if none is shown to be worse than another.
    """
    spec, entry = metric_spec(metric), find_metric(metric)
    cells = [mean_cell(summary, spec) for summary in summaries]
    if published:
        return marked_best(cells, [spec.shown(one.mean) for one in summaries], spec.better)
    differ = any(
        summary.standing == "best" or (summary.standing is None and math.isfinite(summary.mean))
        for summary in summaries
    )
    for at, summary in enumerate(summaries):
        if len(summary.runs) == 1:
            (run,) = summary.runs
            few = few_pairs(run) if "pairs" in entry.needs else ""
            cells[at] = with_interval(cells[at], run, spec, few=few)
        standing: Standing | None = summary.standing if differ else None
        # A column of its own has the noise floor.
        below = "" if entry.noise_floor else cells[at].below
        cells[at] = replace(cells[at], mark=standing, below=below)
    return cells


def build_ablations(request: Request) -> Table:
    """Make the table of the runs of each seed below that of the method, changes marked.

    Raises:
        InputError: the runs do not compare, or as `ablations`.
    """
    result = ablations(request.metrics, request.main_arm, request.decoding, request.clear)
    method = request.names.arm(result.method)
    caption = (
        f"{_decodings(result.questions)} Changes are from {method} at the same seed, "
        f"the first row of each block. One run each: {items_and_pairs(result.sizes)}."
    )
    if result.clear:
        titles: dict[str, list[str]] = {}
        for metric, margin in result.clear.items():
            title = _SHORT.get(metric, metric_spec(metric).title)
            titles.setdefault(str(margin), []).append(title)
        clear = "; ".join(f"{', '.join(of_them)} {margin}" for margin, of_them in titles.items())
        caption += (
            f" Clear changes: {clear}; nothing is marked below a quarter of that. Marks are "
            "directions and do not show significance."
        )
    return make_table(
        "ablations",
        [(seed, ablation) for seed, block in result.blocks.items() for ablation in block],
        ("Seed", lambda row: str(row[0])),
        (Column("Arm", "left"), lambda row: arm_cell(row[1].arm, request.names)),
        *(_change_column(result, at) for at in range(len(result.questions))),
        rule=lambda row: row[0],
        title=f"Runs next to {method} at the same seed",
        caption=caption,
        notes=() if result.published else (NOISE,),
    )


def _change_column(result: Ablations, at: int) -> ColumnOf[tuple[int, Ablation]]:
    """Return the column of a metric, with the change from the method, and of ECE its noise."""
    metric, decoding = result.questions[at]
    spec = metric_spec(metric)
    unit, title = unit_of(spec, decoding), _SHORT.get(metric, spec.title)
    numbers = (f"{title} ({unit})", f"{title} minus the method's ({unit})")
    column = Column(title, numbers=numbers, better=spec.better)
    with_chance = find_metric(metric).noise_floor and not result.published

    def cell(entry: tuple[int, Ablation]) -> Cell:
        seed, ablation = entry
        row, is_method = ablation.rows[at], ablation is result.blocks[seed][0]
        numbers = (row.value, None if is_method else ablation.changes[at])
        mark = None if is_method else ablation.marks[at]
        made = Cell(spec.shown(row.value), numbers, mark, row.reason)
        return chance_cell(made, ChanceError.of([row.calibration])) if with_chance else made

    return chance_column(column, unit) if with_chance else column, cell


def _decodings(questions: tuple[MetricQuestion, ...]) -> str:
    """Name the decoding of every column; flips rest on the argmax, which no temperature changes."""
    single = {decoding for metric, decoding in questions if not find_metric(metric).uses_all_views}
    parts = [f"Decoding: {', '.join(decoding_words(name) for name in sorted(single))}"]
    parts += [f"TV: {decoding_words(name)}" for metric, name in questions if metric == "view_tv"]
    parts += ["flips: K views" for metric, _ in questions if metric == "flip_rate"]
    return f"{'; '.join(parts)}."


_ACCURACY: Final = metric_spec("accuracy")
_OTHER: Final = Column("B", "left")
_SHOWN: Final[tuple[tuple[Mark, str], ...]] = (("significant", "p below 0.05"),)


def build_paired(request: Request) -> Table:
    """Make the table of differences over families of runs.

    Raises:
        InputError: the runs do not compare or lack the decoding, or no other arm has a seed in
            common with the method.
    """
    tests, decoding, compared = _matched(request)
    difference = tests[0][2].metrics["accuracy"].difference
    return make_table(
        "paired",
        [(arm, seed, test.metrics["accuracy"]) for arm, seed, test in tests],
        (_OTHER, lambda row: arm_cell(row[0], request.names)),
        ("Seed", lambda row: seed_text(row[1])),
        (
            metric_column(_ACCURACY, decoding, "Acc. A"),
            lambda row: value_cell(row[2].a.value, _ACCURACY),
        ),
        (
            metric_column(_ACCURACY, decoding, "Acc. B"),
            lambda row: value_cell(row[2].b.value, _ACCURACY),
        ),
        (
            metric_column(DIFFERENCE, decoding, "A - B"),
            lambda row: value_cell(row[2].difference.value, DIFFERENCE),
        ),
        (
            interval_column("95% families", unit_of(DIFFERENCE, decoding)),
            lambda row: interval_cell(row[2].difference, DIFFERENCE),
        ),
        (
            Column("p", numbers=("p",)),
            lambda row: p_value_cell(row[2].evidence.p_value, row[2].difference.reason),
        ),
        rule=lambda row: row[0],
        title=f"{_method(request)} next to other arms at the same seed",
        caption=(
            f"{compared} Accuracy in %, A - B in points with its interval over families "
            f"(n = {difference.n:,}, clusters = {difference.clusters:,}). p is below 0.05 if the "
            "interval excludes 0; it is not adjusted for the number of tests."
        ),
        legend=_SHOWN,
    )


def build_mcnemar(request: Request) -> Table:
    """Make the table of tests and intervals over items, as papers print them: one row per seed.

    Published tests may be of other runs than the published metrics, so they have their accuracies.

    Raises:
        InputError: as `build_paired`, or no test is published.
    """
    if request.published is None:
        tests, decoding, compared = _matched(request)
        rows: Sequence[ItemTest] = [
            ItemTest(arm, seed, test.accuracy.items, test.accuracy.item_interval)
            for arm, seed, test in tests
        ]
        interval, notes = f"the {tests[0][2].accuracy.item_interval.method}", ""
    else:
        result = published_tests(request.published, request.main_arm)
        rows, decoding, notes = result.tests, SINGLE, " ".join(["", *result.notes])
        n = {test.interval.n for test in rows}
        items = f"{min(n):,}" if len(n) == 1 else f"{min(n):,} to {max(n):,}"
        compared = f"A = {_method(request)} and the other arm B on the same {items} items."
        interval = "the published 95% interval"

    def accuracy(test: ItemTest, at: int) -> Cell:
        return value_cell(test.accuracies[at] if test.accuracies else math.nan, _ACCURACY)

    sides: list[ColumnOf[ItemTest]] = [
        (metric_column(_ACCURACY, decoding, f"Acc. {side}"), partial(accuracy, at=at))
        for at, side in enumerate("AB")
    ]
    return make_table(
        "mcnemar",
        rows,
        (_OTHER, lambda test: arm_cell(test.control, request.names)),
        ("Seed", lambda test: seed_text(test.seed)),
        *(sides if any(test.accuracies for test in rows) else ()),
        (
            metric_column(DIFFERENCE, decoding, "A - B"),
            lambda test: value_cell(test.test.difference, DIFFERENCE),
        ),
        (
            Column("Only A/B", numbers=("only A right (items)", "only B right (items)")),
            lambda test: Cell(f"{test.test.b:,}/{test.test.c:,}", (test.test.b, test.test.c)),
        ),
        (
            interval_column("95% items", unit_of(DIFFERENCE, decoding)),
            lambda test: interval_cell(test.interval, DIFFERENCE),
        ),
        (
            Column("McNemar p", numbers=("McNemar p",)),
            lambda test: p_value_cell(test.test.p_value, test.test.reason),
        ),
        rule=lambda test: test.control,
        title=f"Tests of {_method(request)} over items",
        caption=(
            f"{compared} Only A, only B: items that only one of them answers correctly. McNemar: "
            f"exact, two-sided. A - B in points, with {interval}. Both treat items as independent, "
            "as papers do; the table of differences over families does not. No p-value is adjusted "
            f"for the number of tests.{notes}"
        ),
        legend=_SHOWN,
    )


def _matched(
    request: Request,
) -> tuple[Sequence[tuple[str, int | None, GroupComparison]], MetricDecoding, str]:
    """Return the tests of the method at shared seeds, their decoding, and what they compare."""
    _ = request.comparable
    decoding = MetricDecoding(request.decoding)
    tests = request.raw.comparisons.matched_rates(request.main_arm)
    first = tests[0][2].accuracy
    compared = (
        f"A = {_method(request)} and the other arm B on the same {first.items.n:,} items of "
        f"{first.families.clusters:,} families; decoding: {decoding_words(decoding)}."
    )
    return tests, decoding, compared


def _method(request: Request) -> str:
    return request.names.arm(request.main_arm)


def build_settings(request: Request) -> Table:
    """Make the table of settings: one row per key, with the arms that differ from the method.

    Raises:
        InputError: no released run of the method has settings.
    """
    if request.published is None:
        raise InputError("needs a released folder")
    method = _method(request)

    def others(setting: ReleasedSetting) -> str:
        by_value: dict[str, list[str]] = {}
        for arm, value in setting.others.items():
            by_value.setdefault(value, []).append(request.names.arm(arm))
        listed = (f"{value} ({', '.join(arms)})" for value, arms in by_value.items())
        return "; ".join(listed) or UNDEFINED

    return make_table(
        "settings",
        released_settings(request.published, request.main_arm),
        (Column("Setting", "left"), lambda setting: setting.key),
        (Column(method, "left"), lambda setting: setting.value),
        (Column("Other arms", "left"), others),
        rule=lambda setting: setting.key.split(".")[0],
        title="Settings of training and evaluation",
        caption=(
            f"Settings of {method} by their keys in the released configuration; values of "
            "several seeds are separated by semicolons. Other arms: those with another value."
        ),
    )
