"""Tables of arms: ablations, calibration, groups, paired differences, splits and selection."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from pact_eval.calibration.temperatures import TemperatureSummary
from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.arms.arm_metrics import MetricQuestion
from pact_eval.evaluation.arms.released_results import (
    ItemTest,
    ReleasedSetting,
    published_tests,
    released_settings,
    released_splits,
)
from pact_eval.evaluation.arms.released_training import ReleasedCalibration
from pact_eval.evaluation.arms.table_results import (
    CALIBRATED_METRICS,
    Ablation,
    Ablations,
    CalibratedRun,
    ablations,
    calibrated_runs,
    group_accuracy,
)
from pact_eval.evaluation.calibration_error import ChanceError
from pact_eval.evaluation.comparison import GroupComparison
from pact_eval.evaluation.curves.training import Trajectory
from pact_eval.evaluation.item_records import Split, data_splits
from pact_eval.evaluation.registry import (
    DIFFERENCE,
    SINGLE,
    MetricDecoding,
    find_metric,
    metric_spec,
)
from pact_reports.request import Request
from pact_reports.table import Cell, Column, Mark, Row, Table, columns_and_rows, table_row
from pact_reports.tables.cells import (
    NOISE,
    RUN_COLUMNS,
    arm_cell,
    chance_cell,
    chance_column,
    count_cell,
    count_column,
    decoding_words,
    interval_cell,
    interval_column,
    items_and_pairs,
    metric_column,
    p_value_cell,
    run_rows,
    seed_cell,
    unit_of,
    value_cell,
    with_interval,
)

_TITLES: Final = {"view_tv": "TV", "flip_rate": "Flips"}


def build_ablations(request: Request) -> Table:
    """Make the table of the runs of each seed below that of the method, changes marked.

    Raises:
        InputError: the runs do not compare, or as `ablations`.
    """
    result = ablations(request.metrics, request.main_arm, request.decoding, request.clear)
    method = request.names.arm(result.method)
    columns = [Column("Seed"), Column("Arm", "left")]
    for metric, decoding in result.questions:
        spec = metric_spec(metric)
        unit = unit_of(spec, decoding)
        title = _TITLES.get(metric, spec.title)
        numbers = (f"{title} ({unit})", f"{title} minus the method's ({unit})")
        column = Column(title, numbers=numbers, better=spec.better)
        with_chance = not result.published and find_metric(metric).noise_floor
        columns.append(chance_column(column, unit) if with_chance else column)
    rows = tuple(
        table_row(
            Cell(str(seed)),
            arm_cell(ablation.arm, request.names),
            *_ablations_cells(result, ablation, is_method=number == 0),
            rule=number == 0,
        )
        for seed, block in result.blocks.items()
        for number, ablation in enumerate(block)
    )
    caption = (
        f"{_decodings(result.questions)} Changes are from {method} at the same seed, "
        f"the first row of each block. One run each: {items_and_pairs(result.sizes)}."
        f"{_marks(result)}"
    )
    notes = () if result.published else (NOISE,)
    title = f"Runs next to {method} at the same seed"
    return Table("ablations", title, caption, tuple(columns), rows, notes=notes)


def _ablations_cells(result: Ablations, ablation: Ablation, *, is_method: bool) -> Iterator[Cell]:
    for row, change, mark in zip(ablation.rows, ablation.changes, ablation.marks, strict=True):
        spec = metric_spec(row.cell.metric)
        numbers = (row.value, None if is_method else change)
        cell = Cell(spec.shown(row.value), numbers, None if is_method else mark, row.reason)
        with_chance = not result.published and find_metric(spec.name).noise_floor
        yield chance_cell(cell, ChanceError.of([row.calibration])) if with_chance else cell


def _decodings(questions: tuple[MetricQuestion, ...]) -> str:
    """Name the decoding of every column; flips rest on the argmax, which no temperature changes."""
    single = {decoding for metric, decoding in questions if not find_metric(metric).uses_all_views}
    parts = [f"Decoding: {', '.join(decoding_words(name) for name in sorted(single))}"]
    parts += [f"TV: {decoding_words(name)}" for metric, name in questions if metric == "view_tv"]
    parts += ["flips: K views" for metric, _ in questions if metric == "flip_rate"]
    return f"{'; '.join(parts)}."


def _marks(result: Ablations) -> str:
    """Explain the marks; empty without thresholds."""
    if not result.clear:
        return ""
    titles_by_margin: dict[str, list[str]] = {}
    for metric, margin in result.clear.items():
        title = _TITLES.get(metric, metric_spec(metric).title)
        titles_by_margin.setdefault(str(margin), []).append(title)
    clear = "; ".join(f"{', '.join(titles)} {words}" for words, titles in titles_by_margin.items())
    return (
        f" Clear changes: {clear}; nothing is marked below a quarter of that. Marks are directions "
        "and do not show significance."
    )


_FIT_COLUMNS: Final = (
    Column("log C", numbers=("slope on log C",)),
    Column("log L", numbers=("slope on log(L / 1000)",)),
    *(Column(f"Fit ECE {when}", numbers=(f"ECE of the fit {when} (fraction)",), better=-1)
      for when in ("before", "after")),
)  # fmt: skip
_OF_FIT: Final = (
    "Of the calibration split: T(x) as mean [lowest, highest], the slopes of T(x) on log C and "
    "log(L / 1000), and ECE before and after. "
)


def build_calibration(request: Request) -> Table:
    """Make the table of runs before and after calibration.

    Raises:
        InputError: the runs do not compare, or none has a calibrator.
    """
    runs = calibrated_runs(request.metrics, request.decoding)
    with_t = any(run.temperature is not None for run in runs)
    fitted = any(run.fitted is not None for run in runs)
    published = any(run.shown_worse is None for run in runs)
    columns = [*RUN_COLUMNS]
    if with_t or fitted:
        columns.append(Column("T(x)", numbers=("T mean", "T lowest", "T highest")))
    columns += _FIT_COLUMNS if fitted else ()
    for metric in CALIBRATED_METRICS:
        spec = metric_spec(metric)
        for how, when in (("raw", "before"), ("calibrated", "after")):
            name = MetricDecoding(request.decoding, how == "calibrated")
            column = metric_column(spec, name, f"{spec.title} {when}")
            with_chance = not published and find_metric(metric).noise_floor
            columns.append(chance_column(column, unit_of(spec, name)) if with_chance else column)
    worse = "is shown to make it worse: the 95% interval of the paired change excludes 0"
    if published:
        worse = "made it worse, by any amount: published numbers have no intervals"
    shown = "T(x): mean [lowest, highest] over the items. " if with_t else ""
    rows = ((run.arm, run.seed, _cells(run, with_t=with_t, fitted=fitted)) for run in runs)
    return Table(
        name="calibration",
        title="Before and after calibration",
        caption=(
            f"Decoding: {decoding_words(MetricDecoding(request.decoding))}, and divided by T(x). "
            f"{_OF_FIT if fitted else shown}Each run: {items_and_pairs(request.metrics.sizes)}. "
            "ECE and AURC in %, NLL in nats. No temperature changes an accuracy."
        ),
        columns=tuple(columns),
        rows=run_rows(rows, request.names),
        legend=(("worse", f"T(x) {worse}"),),
        notes=() if published else (NOISE,),
    )


def _cells(run: CalibratedRun, *, with_t: bool, fitted: bool) -> list[Cell]:
    cells: list[Cell] = []
    if fitted:
        cells += _fit_cells(run.fitted)
    elif with_t:
        cells.append(_temperature(run.temperature))
    for before, after, worse in zip(run.before, run.after, run.worse, strict=True):
        spec = metric_spec(before.cell.metric)
        pair = [value_cell(row.value, spec, row.reason) for row in (before, after)]
        if run.shown_worse is not None and find_metric(spec.name).noise_floor:
            pair = [
                chance_cell(cell, ChanceError.of([row.calibration]))
                for cell, row in zip(pair, (before, after), strict=True)
            ]
        cells += [pair[0], replace(pair[1], mark="worse" if worse else None)]
    return cells


def _fit_cells(fitted: ReleasedCalibration | None) -> list[Cell]:
    """Return T(x), its slopes, and ECE before and after on the split of the fit."""
    if fitted is None:
        return [_temperature(None), *(Cell("–") for _ in _FIT_COLUMNS)]
    weights, ece = fitted.calibrator.weights, metric_spec("ece")
    before, after = (value_cell(value, ece) for value in (fitted.ece_before, fitted.ece_after))
    worse = fitted.ece_after > fitted.ece_before
    return [
        _temperature(fitted.temperature),
        *(Cell(f"{slope:+.2f}", (slope,)) for slope in (weights.log_choices, weights.log_tokens)),
        before,
        replace(after, mark="worse" if worse else None),
    ]


def _temperature(temperature: TemperatureSummary | None) -> Cell:
    if temperature is None:
        return Cell("–", reason="temperatures are not known")
    text = f"{temperature.mean:.2f} [{temperature.low:.2f}, {temperature.high:.2f}]"
    return Cell(text, (temperature.mean, temperature.low, temperature.high))


_ACCURACY: Final = metric_spec("accuracy")
_MAE: Final = metric_spec("score_mae")
_GROUP_ACCURACY_TITLES: Final = {"choice": "Choice", "boolean": "Boolean", "score": "Score"}


def build_kinds(request: Request) -> Table:
    """Make the table of accuracy by kind.

    Raises:
        InputError: the runs do not compare.
    """
    return _groups_table(request, "kind")


def build_domains(request: Request) -> Table:
    """Make the table of accuracy by domain.

    Raises:
        InputError: the runs do not compare, or their items have no domains.
    """
    published = request.metrics.published
    if not published and not any(request.comparable[0].predictions.domain.tolist()):
        raise InputError("the items name no domains")
    return _groups_table(request, "domain")


def _groups_table(request: Request, by: Literal["kind", "domain"]) -> Table:
    """Lay out accuracy by group: one row per run, one column per group."""
    result = group_accuracy(request.metrics, by, MetricDecoding(request.decoding))
    # The last number of a run is its Score MAE.
    specs = [_ACCURACY] * len(result.groups) + [_MAE] * (by == "kind")
    named = [_GROUP_ACCURACY_TITLES.get(name, name) or "(none)" for name, _ in result.groups]
    sizes = [
        f"{name} {size:,}" if size is not None else name
        for name, (_, size) in zip(named, result.groups, strict=True)
    ]
    levels = " Score MAE in levels, on Score items." if _MAE in specs else ""
    titles = zip(specs, [*named, None], strict=False)
    rows = (
        (
            run[0].cell.arm,
            run[0].seed,
            [
                value_cell(row.value, spec, row.reason)
                for row, spec in zip(run, specs, strict=False)
            ],
        )
        for run in result.rows
    )
    return Table(
        name=f"{by}s",
        title=f"Accuracy by {by}",
        caption=(
            f"Accuracy (%) of each run; decoding: {decoding_words(result.decoding)}. "
            f"Items: {', '.join(sizes)}.{levels}"
        ),
        columns=(
            *RUN_COLUMNS,
            *(metric_column(spec, result.decoding, title) for spec, title in titles),
        ),
        rows=run_rows(rows, request.names),
    )


def build_paired(request: Request) -> Table:
    """Make the table of differences over families of runs.

    Raises:
        InputError: the runs do not compare or lack the decoding, or no other arm has a seed in
            common with the method.
    """
    tests, decoding, compared = _matched(request)
    difference = tests[0][2].metrics["accuracy"].difference
    a, b = (metric_column(_ACCURACY, decoding, f"Acc. {side}") for side in "AB")
    families = interval_column("95% families", unit_of(DIFFERENCE, decoding))
    columns, rows = columns_and_rows(
        [(arm, seed, test.metrics["accuracy"]) for arm, seed, test in tests],
        (_OTHER, lambda row: arm_cell(row[0], request.names)),
        ("Seed", lambda row: seed_cell(row[1])),
        (a, lambda row: value_cell(row[2].a.value, _ACCURACY)),
        (b, lambda row: value_cell(row[2].b.value, _ACCURACY)),
        (
            metric_column(DIFFERENCE, decoding, "A - B"),
            lambda row: value_cell(row[2].difference.value, DIFFERENCE),
        ),
        (families, lambda row: interval_cell(row[2].difference, DIFFERENCE)),
        (
            Column("p", numbers=("p",)),
            lambda row: p_value_cell(row[2].evidence.p_value, row[2].difference.reason),
        ),
        rule=lambda row: row[0],
    )
    return Table(
        name="paired",
        title=f"{_method(request)} next to other arms at the same seed",
        caption=(
            f"{compared} Accuracy in %, A - B in points with its interval over families "
            f"(n = {difference.n:,}, clusters = {difference.clusters:,}). p is below 0.05 if the "
            "interval excludes 0; it is not adjusted for the number of tests."
        ),
        columns=columns,
        rows=rows,
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
    columns, cells = _item_test_cells(rows, decoding, request.names)
    return Table(
        name="mcnemar",
        title=f"Tests of {_method(request)} over items",
        caption=(
            f"{compared} Only A, only B: items that only one of them answers correctly. McNemar: "
            f"exact, two-sided. A - B in points, with {interval}. Both treat items as independent, "
            "as papers do; the table of differences over families does not. No p-value is adjusted "
            f"for the number of tests.{notes}"
        ),
        columns=columns,
        rows=cells,
        legend=_SHOWN,
    )


def _item_test_cells(
    tests: Sequence[ItemTest], decoding: MetricDecoding, names: ArmNames
) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
    only = Column("Only A/B", numbers=("only A right (items)", "only B right (items)"))
    interval = interval_column("95% items", unit_of(DIFFERENCE, decoding))

    def accuracy(at: int) -> tuple[Column, Callable[[ItemTest], Cell]]:
        column = metric_column(_ACCURACY, decoding, f"Acc. {'AB'[at]}")
        return column, lambda test: value_cell((test.accuracies or _UNKNOWN)[at], _ACCURACY)

    with_accuracies = any(test.accuracies for test in tests)
    return columns_and_rows(
        tests,
        (_OTHER, lambda test: arm_cell(test.control, names)),
        ("Seed", lambda test: seed_cell(test.seed)),
        *((accuracy(0), accuracy(1)) if with_accuracies else ()),
        (
            metric_column(DIFFERENCE, decoding, "A - B"),
            lambda test: value_cell(test.test.difference, DIFFERENCE),
        ),
        (only, lambda test: Cell(f"{test.test.b:,}/{test.test.c:,}", (test.test.b, test.test.c))),
        (interval, lambda test: interval_cell(test.interval, DIFFERENCE)),
        (
            Column("McNemar p", numbers=("McNemar p",)),
            lambda test: p_value_cell(test.test.p_value, test.test.reason),
        ),
        rule=lambda test: test.control,
    )


_UNKNOWN: Final = (math.nan, math.nan)
_OTHER: Final = Column("B", "left")
_SHOWN: Final[tuple[tuple[Mark, str], ...]] = (("significant", "p below 0.05"),)


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


def build_splits(request: Request) -> Table:
    """Make the table of data splits: named folders, the data that runs scored or were trained on.

    Raises:
        InputError: a folder holds no dataset, or there is neither run nor folder.
        RecordError: a line is not a record.
    """
    splits = data_splits(request.experiment, request.data)
    longest: list[int] = []
    if request.published is not None:
        splits = (*splits, *released_splits(request.published))
        trainings = request.published.trainings
        longest = [run.longest_prompt for run in trainings if run.longest_prompt is not None]
    if not splits:
        unknown = request.published is not None
        raise InputError(f"no {'split in results.json files' if unknown else 'run'} and no dataset")
    kinds = ("Choice", "Boolean", "Score")
    layout = columns_and_rows(
        splits,
        (Column("File", "left"), lambda split: split.name),
        (Column("Role", "left"), lambda split: split.role or "–"),
        (count_column("Source fam."), _source_families),
        (count_column("Records"), lambda split: count_cell(split.records)),
        (count_column("Families"), lambda split: _families(split.families)),
        (count_column("Pairs"), lambda split: _families(split.pairs)),
        *(
            (count_column(kind), lambda split, at=at: count_cell(split.kinds[at]))
            for at, kind in enumerate(kinds)
        ),
        (count_column("Runs"), lambda split: count_cell(split.runs)),
    )
    caption = (
        "Records of each file by kind, the families that they form, those of them that are "
        "pairs of a base and a counterfactual record, and the source families above them. "
        "Runs: how many of those shown here scored the file."
    )
    if longest:
        caption += f" The longest prompt has {max(longest):,} tokens."
    return Table("splits", "Data splits", caption, *layout)


def _families(count: int | None) -> Cell:
    unknown = "the released files do not say how many records a family has"
    return count_cell(count, unknown if count is None else None)


def _source_families(split: Split) -> Cell:
    reason = None if split.source_families is not None else "no source family is named"
    return count_cell(split.source_families, reason)


def build_settings(request: Request) -> Table:
    """Make the table of settings: one row per key, with the arms that differ from the method.

    Raises:
        InputError: no released run of the method has settings.
    """
    if request.published is None:
        raise InputError("needs a released folder")
    names, method = request.names, _method(request)

    def others(setting: ReleasedSetting) -> str:
        by_value: dict[str, list[str]] = {}
        for arm, value in setting.others.items():
            by_value.setdefault(value, []).append(names.arm(arm))
        return "; ".join(f"{value} ({', '.join(arms)})" for value, arms in by_value.items())

    layout = columns_and_rows(
        released_settings(request.published, request.main_arm),
        (Column("Setting", "left"), lambda setting: setting.key),
        (Column(method, "left"), lambda setting: setting.value),
        (Column("Other arms", "left"), lambda setting: others(setting) or "–"),
        rule=lambda setting: setting.key.split(".")[0],
    )
    caption = (
        f"Settings of {method} by their keys in the released configuration; values of "
        "several seeds are separated by semicolons. Other arms: those with another value."
    )
    return Table("settings", "Settings of training and evaluation", caption, *layout)


def build_selection(request: Request) -> Table:
    """Make the table of selected checkpoints: one row per run.

    Raises:
        InputError: no run has a history of selection.
    """
    runs, _ = request.trajectories
    decoding = MetricDecoding("single" if request.published is not None else request.decoding)
    rows = ((run.arm, run.seed, _selection_cells(run)) for run in runs)
    return Table(
        name="selection",
        title="Selected checkpoints",
        caption=(
            "Each run: the selected step of training, the number of steps at which the selection "
            "split was evaluated, its NLL in nats and accuracy in % at the selected step, and the "
            f"accuracy of the run in %. Decoding of the run: {decoding_words(decoding)}."
        ),
        columns=(
            *RUN_COLUMNS,
            count_column("Step"),
            count_column("Selections"),
            Column("Selection NLL", numbers=("selection NLL (nats)",), better=-1),
            Column("Selection accuracy", numbers=("selection accuracy (fraction)",), better=1),
            metric_column(_ACCURACY, decoding),
        ),
        rows=run_rows(rows, request.names),
        brackets="In brackets: 95% interval over families, left out if there is none.",
    )


def _selection_cells(run: Trajectory) -> tuple[Cell, ...]:
    return (
        count_cell(run.selected_step),
        count_cell(len(run.steps)),
        Cell(f"{run.selected_nll_nats:.3f}", (run.selected_nll_nats,)),
        _selection_accuracy(run.selected_accuracy),
        with_interval(value_cell(run.accuracy.value, _ACCURACY), run.accuracy, _ACCURACY),
    )


def _selection_accuracy(accuracy: float | None) -> Cell:
    if accuracy is None:
        return Cell("–", reason="the training log has no accuracy of the selection split")
    return Cell(f"{100 * accuracy:.1f}", (accuracy,))
