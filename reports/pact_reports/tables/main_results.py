"""Main results: mean and deviation over seeds of every metric of every arm, the best marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.arms.arm_metrics import (
    ArmSummaries,
    MetricQuestion,
    k_views,
    main_results,
)
from pact_eval.evaluation.arms.comparison import ArmSummary, Standing
from pact_eval.evaluation.registry import MetricDecoding, find_metric, metric_spec
from pact_reports.request import Request
from pact_reports.table import Cell, Column, Mark, Row, Table
from pact_reports.tables.cells import (
    CALIBRATION_ERROR,
    NOISE,
    STANDING_LEGEND,
    arm_cell,
    count_cell,
    count_column,
    decoding_words,
    few_pairs,
    items_and_pairs,
    marked_best,
    mean_cell,
    mean_column,
    noise_cell,
    noise_column,
    with_interval,
)

_BY_VALUE: Final[tuple[tuple[Mark, str], ...]] = (
    ("best", "best mean of its column, by value; no difference is tested"),
)


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
    k = "K"
    if not results.published:
        k = str(max(run.predictions.k for run in request.comparable))
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
    arms = list(results.arms)
    columns = [Column("Arm", "left"), count_column("Runs")]
    by_column: list[list[Cell]] = [
        [arm_cell(arm, names) for arm in arms],
        [count_cell(_runs(results, arm)) for arm in arms],
    ]
    for at, (metric, decoding) in enumerate(results.questions):
        spec = metric_spec(metric)
        head = _SHORT.get(metric, spec.title) if name == "views" else spec.title
        head += " after T(x)" if decoding.calibrated else ""
        summaries = [results.arms[arm][at] for arm in arms]
        cells = [mean_cell(summary, spec) for summary in summaries]
        columns.append(mean_column(spec, decoding, head))
        if results.published:
            printed = [spec.shown(summary.mean) for summary in summaries]
            by_column.append(marked_best(cells, printed, spec.better))
            continue
        cells = [
            _with_estimates(cell, summary, metric)
            for summary, cell in zip(summaries, cells, strict=True)
        ]
        own_noise = find_metric(metric).noise_floor
        if own_noise:  # a column of its own has it
            cells = [replace(cell, below="") for cell in cells]
        marks = _standings(summaries)
        by_column.append([replace(c, mark=mark) for c, mark in zip(cells, marks, strict=True)])
        if own_noise:
            columns.append(noise_column(head, decoding))
            by_column.append([noise_cell(summary.chance) for summary in summaries])
    legend = _BY_VALUE if results.published else STANDING_LEGEND
    shown = {cell.mark for cells in by_column for cell in cells}
    left_out = ", ".join(map(names.arm, results.left_out))
    notes = () if results.published else (NOISE,)
    if left_out:
        notes = (*notes, f"Left out because trained with one seed only: {left_out}")
    return Table(
        name=name,
        title=title,
        caption=f"{caption} {_scope(results)}".strip(),
        columns=tuple(columns),
        rows=tuple(Row(cells) for cells in zip(*by_column, strict=True)),
        legend=tuple(entry for entry in legend if entry[0] in shown),
        notes=notes,
        brackets=(
            "In brackets for arms with one run: 95% interval over families, left out if there "
            f"is none. {CALIBRATION_ERROR}"
        ),
    )


def _scope(results: ArmSummaries) -> str:
    counts = {_runs(results, arm) or 0 for arm in results.arms}
    means = ""
    if max(counts, default=0) > 1:
        alone = "; one run has no deviation" if 1 in counts else ""
        means = f"Mean ± sample standard deviation over the seeds of an arm{alone}. "
    return f"{means}Each run: {items_and_pairs(results.sizes)}. {_units(results.questions)}"


def _with_estimates(cell: Cell, summary: ArmSummary, metric: str) -> Cell:
    """Add the interval if an arm has one run, and n if its pairs are few."""
    if len(summary.runs) == 1:
        (run,) = summary.runs
        few = few_pairs(run) if "pairs" in find_metric(metric).needs else ""
        cell = with_interval(cell, run, metric_spec(metric), few=few)
    return cell


def _standings(summaries: Sequence[ArmSummary]) -> list[Standing | None]:
    """Return the marks of a column; no mark if no arm is shown to be worse than another."""
    standings = [summary.standing for summary in summaries]
    differ = "best" in standings or any(
        standing is None and math.isfinite(summary.mean)
        for summary, standing in zip(summaries, standings, strict=True)
    )
    return standings if differ else [None] * len(standings)


def _units(questions: tuple[MetricQuestion, ...]) -> str:
    units = {
        "nll_nats": "NLL in nats",
        "brier": "Brier not halved",
        "score_mae": "MAE in levels",
        "score_rps": "RPS in levels",
    }
    shown_units = [
        words for metric, words in units.items() if metric in {name for name, _ in questions}
    ]
    return f"{', '.join(['Rates in %', *shown_units])}."


def _runs(results: ArmSummaries, arm: str) -> int | None:
    summaries = results.arms[arm]
    return len(summaries[0].runs) if summaries else None


_SHORT: Final = {"view_tv": "TV", "flip_rate": "Flips", "ensemble_gain": "Gain"}
