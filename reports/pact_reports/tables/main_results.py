"""Main results: every metric of every arm, mean and deviation over seeds, the best marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pact_eval.errors import InputError
from pact_eval.evaluation import Estimate, ExperimentRun, metric_spec
from pact_eval.preregistration import (
    ArmValues,
    DecodingName,
    MetricQuestion,
    decoding_name,
    main_results,
)
from pact_reports.calibration_sentences import CALIBRATION_ERROR
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
from pact_reports.tables.metric_values import DECODING_WORDS, items_and_pairs
from pact_reports.tables.request import TableRequest


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
        caption=f"Decoding: {decoding}, except for ECE after T(x), which is calibrated.",
        intervals={
            arm: _intervals(request, runs[0], results.questions)
            for arm, runs in request.experiment.arms.items()
            if len(runs) == 1 and arm in results.values
        },
    )


def _intervals(
    request: TableRequest, run: ExperimentRun, questions: Sequence[MetricQuestion]
) -> dict[MetricQuestion, Estimate]:
    """Return the estimates of all items of a run, as far as they are known."""
    found: dict[MetricQuestion, Estimate] = {}
    for metric, decoding in questions:
        calibrated = decoding.endswith("_calibrated")
        try:
            evaluation = request.raw.evaluation(run, calibrated=calibrated)
        except InputError:
            # No calibrator, or it needs prompt lengths that the run does not know.
            if not calibrated:
                raise
            continue
        estimates = evaluation.groups[0].estimates
        if metric in estimates:
            found[metric, decoding] = estimates[metric]
    return found


def means_table(
    results: ArmValues,
    *,
    name: str,
    title: str,
    caption: str,
    titles: Mapping[MetricQuestion, str] | None = None,
    intervals: Mapping[str, Mapping[MetricQuestion, Estimate]] | None = None,
) -> Table:
    """Lay out metrics of arms: one row per arm, the best of each metric marked.

    Args:
        results: what to show.
        name: of the table's files.
        title: what it shows.
        caption: names the decodings; what numbers rest on is added.
        titles: of columns, if they are not those of the metrics.
        intervals: of arms with one run, shown in place of a deviation.
    """
    arms = list(results.values)
    columns = [Column("Arm", "left"), count_column("Runs")]
    by_column: list[list[Cell]] = [
        [text_cell(arm) for arm in arms],
        [count_cell(_runs(results, arm)) for arm in arms],
    ]
    for at, (metric, decoding) in enumerate(results.questions):
        spec = metric_spec(metric)
        head = (titles or {}).get((metric, decoding)) or _title(metric, decoding)
        columns.append(mean_column(spec, decoding, head))
        found = [results.values[arm][at] for arm in arms]
        cells = [mean_cell(each.summary, spec, each.reason) for each in found]
        for place, arm in enumerate(arms):
            estimate = (intervals or {}).get(arm, {}).get((metric, decoding))
            cells[place] = _with_interval(cells[place], estimate, metric)
        by_column.append(marked_best(cells, spec.better))
    scope = (
        f"Mean ± sample standard deviation over the seeds of an arm; one run has no deviation. "
        f"Each run: {items_and_pairs(results.sizes)}. {_units(results.questions)}"
    )
    return Table(
        name=name,
        title=title,
        caption=f"{caption} {scope}".strip(),
        columns=tuple(columns),
        rows=tuple(Row(cells) for cells in zip(*by_column, strict=True)),
        legend=(("best", "best mean of its column, by value; no difference is tested"),),
        notes=(
            (f"Left out because trained with one seed only: {', '.join(results.left_out)}",)
            if results.left_out
            else ()
        ),
        brackets=(
            "In brackets for arms with one run: 95% interval over families, left out if there "
            f"is none. {CALIBRATION_ERROR}"
        ),
    )


def _with_interval(cell: Cell, estimate: Estimate | None, metric: str) -> Cell:
    """Show the interval of the one run of an arm next to its value, and n if pairs are few."""
    if estimate is None:
        return cell
    few = few_pairs(estimate) if metric == "pair_accuracy" else ""
    shown = with_interval(cell, estimate, metric_spec(metric), few=few)
    # No footnotes: LaTeX shows no interval that they could be about.
    return replace(cell, interval=shown.interval)


def _units(questions: tuple[MetricQuestion, ...]) -> str:
    said = {
        "nll_nats": "NLL in nats",
        "brier": "Brier not halved",
        "score_mae": "MAE in levels",
        "score_rps": "RPS in levels",
    }
    asked = [words for metric, words in said.items() if metric in {name for name, _ in questions}]
    return f"{', '.join(['Rates in %', *asked])}."


def _runs(results: ArmValues, arm: str) -> int | None:
    values = results.values[arm]
    return values[0].summary.n if values else None


def _title(metric: str, decoding: DecodingName) -> str:
    title = metric_spec(metric).title
    calibrated = decoding.endswith("_calibrated")
    return f"{title} after T(x)" if metric == "ece" and calibrated else title
