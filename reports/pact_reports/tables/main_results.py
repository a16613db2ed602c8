"""Main results: every metric of every arm, mean and deviation over seeds, the best marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pact_eval.preregistration import METRIC_SPECS, DecodingName, MetricTable, decoding_name
from pact_eval.runs import Decoding
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import (
    count_cell,
    count_column,
    few_pairs,
    marked_best,
    mean_cell,
    mean_column,
    text_cell,
    with_interval,
)
from pact_reports.tables.metric_values import (
    DECODING_WORDS,
    ArmValue,
    arm_value,
    items_and_pairs,
    known_decodings,
    repeated_arms,
)
from pact_reports.tables.request import TableRequest
from pact_reports.tables.run_reports import RunReport

__all__ = ["ArmValues", "arm_values", "build_main", "main_results", "means_table"]

Question = tuple[str, DecodingName]
"""A metric and the decoding that it is taken under."""

_METRICS: Final = ("accuracy", "pair_accuracy", "nll_nats", "brier", "ece", "aurc", "score_mae")


@dataclass(frozen=True)
class ArmValues:
    """Metrics of arms over seeds.

    Attributes:
        questions: metric and decoding of each column.
        values: by arm, one value a question.
        scope: items and pairs behind them, in words.
        left_out: arms with one seed, where others have several: no mean to compare.
    """

    questions: tuple[Question, ...]
    values: Mapping[str, tuple[ArmValue, ...]]
    scope: str
    left_out: tuple[str, ...] = ()


def main_results(table: MetricTable, decoding: Decoding = "single") -> ArmValues:
    """Summarise the metrics of the main comparison.

    Args:
        table: the numbers.
        decoding: single or ensemble; ECE is taken raw and, where a run is calibrated, calibrated.

    Returns:
        Mean and deviation over the seeds of each arm.
    """
    raw, calibrated = decoding_name(decoding, "raw"), decoding_name(decoding, "calibrated")
    questions: list[Question] = []
    for metric in _METRICS:
        questions.append((metric, raw))
        if metric == "ece":
            questions.append((metric, calibrated))
    return arm_values(table, questions)


def arm_values(table: MetricTable, questions: Sequence[Question]) -> ArmValues:
    """Summarise metrics of arms with several seeds; metrics that no run has are left out."""
    asked = tuple(
        (metric, decoding)
        for metric, decoding in questions
        if known_decodings(table, metric, (decoding,))
        or (metric == "ensemble_gain" and known_decodings(table, "accuracy", (decoding,)))
    )
    arms, single = repeated_arms(table)
    values = {
        arm: tuple(arm_value(table, arm, metric, decoding) for metric, decoding in asked)
        for arm in arms
    }
    return ArmValues(asked, values, items_and_pairs(table), single)


def build_main(request: TableRequest) -> Table:
    """Make the table of main results of runs.

    Raises:
        InputError: the runs do not compare.
    """
    results = main_results(request.metrics, request.decoding)
    decoding = DECODING_WORDS[decoding_name(request.decoding, "raw")]
    return means_table(
        results,
        name="main",
        title="Main results",
        caption=f"Decoding: {decoding}, but for ECE after T(x), which is calibrated.",
        reports={
            arm: request.report(runs[0])
            for arm, runs in request.collection.arms.items()
            if len(runs) == 1 and arm in results.values
        },
    )


def means_table(
    results: ArmValues,
    *,
    name: str,
    title: str,
    caption: str,
    titles: Mapping[Question, str] | None = None,
    reports: Mapping[str, RunReport] | None = None,
) -> Table:
    """Lay out metrics of arms: a row an arm, the best of each metric marked.

    Args:
        results: what to show.
        name: of the table's files.
        title: what it shows.
        caption: names the decodings; what numbers rest on is added.
        titles: of columns, where they are not those of the metrics.
        reports: of arms with one run, whose intervals stand where others have a deviation.
    """
    arms = list(results.values)
    columns = [Column("Arm", "left"), count_column("Runs")]
    by_column: list[list[Cell]] = [
        [text_cell(arm) for arm in arms],
        [count_cell(_runs(results, arm)) for arm in arms],
    ]
    for at, (metric, decoding) in enumerate(results.questions):
        spec = METRIC_SPECS[metric]
        head = (titles or {}).get((metric, decoding)) or _title(metric, decoding)
        columns.append(mean_column(spec, decoding, head))
        found = [results.values[arm][at] for arm in arms]
        cells = [mean_cell(each.summary, spec, each.reason) for each in found]
        for place, arm in enumerate(arms):
            report = (reports or {}).get(arm)
            cells[place] = _with_interval(cells[place], report, (metric, decoding))
        by_column.append(marked_best(cells, spec.better))
    scope = (
        f"Mean ± sample standard deviation over the seeds of an arm; one run has no deviation. "
        f"Each run: {results.scope}. {_units(results.questions)}"
    )
    return Table(
        name=name,
        title=title,
        caption=f"{caption} {scope}".strip(),
        columns=tuple(columns),
        rows=tuple(Row(cells) for cells in zip(*by_column, strict=True)),
        legend=(("best", "best mean of its column"),),
        notes=(
            (f"Left out, since trained at one seed only: {', '.join(results.left_out)}",)
            if results.left_out
            else ()
        ),
        brackets=(
            "In brackets where there is one run: 95% bootstrap interval over families, left out "
            "where there is none or it has no width. That of ECE leans upwards, so that it can lie "
            "above its value."
        ),
    )


def _with_interval(cell: Cell, report: RunReport | None, question: Question) -> Cell:
    """Put the interval of the one run of an arm beside its value; n where pairs are few."""
    metric, decoding = question
    estimate = None if report is None else report.estimate(metric, decoding)
    if estimate is None:
        return cell
    few = few_pairs(estimate) if metric == "pair_accuracy" else ""
    shown = with_interval(cell, estimate, METRIC_SPECS[metric], few=few)
    # No footnotes: LaTeX shows no interval that they could be about.
    return replace(cell, interval=shown.interval)


def _units(questions: tuple[Question, ...]) -> str:
    said = {"nll_nats": "NLL in nats", "brier": "Brier not halved", "score_mae": "MAE in levels"}
    asked = [words for metric, words in said.items() if metric in {name for name, _ in questions}]
    return f"{', '.join(['Rates in %', *asked])}."


def _runs(results: ArmValues, arm: str) -> int | None:
    values = results.values[arm]
    return values[0].summary.n if values else None


def _title(metric: str, decoding: DecodingName) -> str:
    title = METRIC_SPECS[metric].title
    calibrated = decoding.endswith("_calibrated")
    return f"{title} after T(x)" if metric == "ece" and calibrated else title
