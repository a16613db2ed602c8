"""Tables of runs: data, groups, calibration, scores, risks, gates, selection and costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from pact_eval.calibration.temperatures import TemperatureSummary
from pact_eval.custody import TRAINING_RECORD
from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.arms.released_results import released_splits
from pact_eval.evaluation.arms.table_results import (
    CALIBRATED_METRICS,
    TRAINING_NAME,
    ArmCost,
    CalibratedRun,
    RunCost,
    arm_costs,
    calibrated_runs,
    group_accuracy,
    run_answer_scores,
    run_costs,
)
from pact_eval.evaluation.calibration_error import ChanceError
from pact_eval.evaluation.curves.distributions import run_risks
from pact_eval.evaluation.curves.training import Trajectory
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import data_splits
from pact_eval.evaluation.registry import (
    SINGLE,
    MetricDecoding,
    MetricSpec,
    find_metric,
    metric_spec,
)
from pact_eval.evaluation.report import Calibration, ChanceMiscalibration, Group
from pact_eval.metrics.recalibration import AnswerScores
from pact_eval.numbers import UNDEFINED, has_width, reason_text, short_clusters
from pact_eval.plain_text import one_line
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.checking import GateMark, gate_marks
from pact_eval.thresholds.gates import SIGNAL_NAMES
from pact_reports.request import Request
from pact_reports.table import Cell, Column, ColumnOf, Table, make_table
from pact_reports.tables.cells import (
    NOISE,
    arm_cell,
    chance_cell,
    chance_column,
    count_cell,
    count_column,
    decoding_words,
    estimate_cell,
    interval_column,
    items_and_pairs,
    mean_cell,
    mean_column,
    metric_column,
    run_columns,
    seed_text,
    unit_of,
    value_cell,
    with_interval,
)
from pact_reports.views.thresholds import gate_notes, rule_text

_ACCURACY: Final = metric_spec("accuracy")


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
    caption = (
        "Records of each file by kind, the families that they form, those of them that are "
        "pairs of a base and a counterfactual record, and the source families above them. "
        "Runs: how many of those shown here scored the file."
    )
    if longest:
        caption += f" The longest prompt has {max(longest):,} tokens."
    no_source = "no source family is named"
    unknown_size = "the released files do not say how many records a family has"
    return make_table(
        "splits",
        splits,
        (Column("File", "left"), lambda split: split.name),
        (Column("Role", "left"), lambda split: split.role or UNDEFINED),
        (count_column("Source fam."), lambda split: count_cell(split.source_families, no_source)),
        (count_column("Records"), lambda split: count_cell(split.records)),
        (count_column("Families"), lambda split: count_cell(split.families, unknown_size)),
        (count_column("Pairs"), lambda split: count_cell(split.pairs, unknown_size)),
        (count_column("Choice"), lambda split: count_cell(split.kinds[0])),
        (count_column("Boolean"), lambda split: count_cell(split.kinds[1])),
        (count_column("Score"), lambda split: count_cell(split.kinds[2])),
        (count_column("Runs"), lambda split: count_cell(split.runs)),
        title="Data splits",
        caption=caption,
    )


def build_kinds(request: Request) -> Table:
    """Make the table of accuracy by kind.

    Raises:
        InputError: the runs do not compare.
    """
    return _accuracy_table(request, "kind")


def build_domains(request: Request) -> Table:
    """Make the table of accuracy by domain.

    Raises:
        InputError: the runs do not compare, or their items have no domains.
    """
    published = request.metrics.published
    if not published and not any(request.comparable[0].predictions.domain.tolist()):
        raise InputError("the items name no domains")
    return _accuracy_table(request, "domain")


_KINDS: Final = {"choice": "Choice", "boolean": "Boolean", "score": "Score"}


def _accuracy_table(request: Request, by: Literal["kind", "domain"]) -> Table:
    """Lay out accuracy by group: one row per run, one column per group."""
    result = group_accuracy(request.metrics, by, MetricDecoding(request.decoding))
    sizes = [(_KINDS.get(name, name) or "(none)", size) for name, size in result.groups]
    listed = ", ".join(name if size is None else f"{name} {size:,}" for name, size in sizes)
    columns = [(_ACCURACY, name) for name, _ in sizes]
    levels = ""
    if by == "kind":  # the last number of a run
        mae = metric_spec("score_mae")
        columns.append((mae, mae.title))
        levels = " Score MAE in levels, on Score items."
    return make_table(
        f"{by}s",
        result.rows,
        (Column("Arm", "left"), lambda run: arm_cell(run[0].cell.arm, request.names)),
        ("Seed", lambda run: seed_text(run[0].seed)),
        *(
            (
                metric_column(spec, result.decoding, title),
                lambda run, at=at, spec=spec: value_cell(run[at].value, spec, run[at].reason),
            )
            for at, (spec, title) in enumerate(columns)
        ),
        rule=lambda run: run[0].cell.arm,
        title=f"Accuracy by {by}",
        caption=(
            f"Accuracy (%) of each run; decoding: {decoding_words(result.decoding)}. "
            f"Items: {listed}.{levels}"
        ),
    )


_NOTE: Final = (
    "Of many groups, some stand out by chance; the line `where` of pact-eval report RUN names "
    "those that also differ in other families."
)


def run_groups_table(experiment: Experiment, names: ArmNames) -> Table:
    """Lay out the metrics of every run by group; the first row of a run has all items.

    Args:
        experiment: the runs; its settings name the column, and bins of its numbers.
        names: display names of arms.

    Raises:
        InputError: a run lacks the column, or its numbers need bins.
    """
    settings = experiment.settings
    decoding = MetricDecoding(settings.decoding, calibrated=settings.calibrated)
    by = one_line(settings.by.replace("_", " "))
    groups = [
        (run, group) for run in experiment.runs for group in experiment.evaluation(run).groups
    ]
    several = len(experiment.runs) > 1

    def metric(name: str) -> ColumnOf[tuple[object, Group]]:
        spec = metric_spec(name)
        unit, title = unit_of(spec, decoding), spec.title
        numbers = (f"{title} ({unit})", f"{title} low ({unit})", f"{title} high ({unit})")

        def cell(row: tuple[object, Group]) -> Cell:
            estimate = row[1].estimates[name]
            reason = reason_text(estimate.reason, settings.unit)
            values = (estimate.value, estimate.low, estimate.high)
            made = estimate_cell(estimate, spec.unit, test=False)
            return replace(made, numbers=values, reason=reason)

        return Column(title, numbers=numbers, better=spec.better), cell

    return make_table(
        "groups",
        groups,
        *([(Column("Run", "left"), lambda row: one_line(names.run(row[0].label)))] * several),
        (Column(by, "left"), lambda row: one_line(row[1].name) or "(none)"),
        ("items", lambda row: row[1].items),
        (short_clusters(settings.unit), lambda row: row[1].clusters),
        *map(metric, ("accuracy", "nll_nats", "ece", "flip_rate")),
        rule=lambda row: row[0].label,
        title=f"Metrics by {by}",
        caption=(
            f"Decoding: {decoding_words(decoding)}; flips are between the K views. NLL in nats, "
            "the rest in %."
        ),
        notes=(_NOTE,),
        brackets="In brackets: 95% interval over families.",
    )


_OF_FIT: Final = (
    "Of the calibration split: T(x) as mean [lowest, highest], the slopes of T(x) on log C and "
    "log(L / 1000), and ECE before and after. "
)
_OF_ITEMS: Final = "T(x): mean [lowest, highest] over the items. "


def build_calibration(request: Request) -> Table:
    """Make the table of runs before and after calibration.

    Raises:
        InputError: the runs do not compare, or none has a calibrator.
    """
    runs = calibrated_runs(request.metrics, request.decoding)
    fitted = any(run.fitted is not None for run in runs)
    known = any(run.temperature is not None for run in runs)
    published = any(run.shown_worse is None for run in runs)
    temperature = Column("T(x)", numbers=("T mean", "T lowest", "T highest"))
    columns: list[ColumnOf[CalibratedRun]] = []
    if fitted:
        columns = [(temperature, _fitted_temperature), *_fit_columns()]
    elif known:
        columns = [(temperature, lambda run: _temperature(run.temperature))]
    for at, metric in enumerate(CALIBRATED_METRICS):
        spec = metric_spec(metric)
        for after in (False, True):
            name = MetricDecoding(request.decoding, after)
            column = metric_column(spec, name, f"{spec.title} {'after' if after else 'before'}")
            if find_metric(metric).noise_floor and not published:
                column = chance_column(column, unit_of(spec, name))
            columns.append((column, partial(_calibrated_cell, at=at, after=after)))
    worse = "is shown to make it worse: the 95% interval of the paired change excludes 0"
    if published:
        worse = "made it worse, by any amount: published numbers have no intervals"
    shown = _OF_FIT if fitted else _OF_ITEMS * known
    return make_table(
        "calibration",
        runs,
        *run_columns(request.names),
        *columns,
        rule=lambda run: run.arm,
        title="Before and after calibration",
        caption=(
            f"Decoding: {decoding_words(MetricDecoding(request.decoding))}, and divided by T(x). "
            f"{shown}Each run: {items_and_pairs(request.metrics.sizes)}. "
            "ECE and AURC in %, NLL in nats. No temperature changes an accuracy."
        ),
        legend=(("worse", f"T(x) {worse}"),),
        notes=() if published else (NOISE,),
    )


def _calibrated_cell(run: CalibratedRun, *, at: int, after: bool) -> Cell:
    """Return a metric before or after calibration; ECE has its noise floor, if it was tested."""
    row = (run.after if after else run.before)[at]
    spec = metric_spec(row.cell.metric)
    cell = value_cell(row.value, spec, row.reason)
    if find_metric(spec.name).noise_floor and run.shown_worse is not None:
        cell = chance_cell(cell, ChanceError.of([row.calibration]))
    return replace(cell, mark="worse") if after and run.worse[at] else cell


def _fit_columns() -> Iterator[ColumnOf[CalibratedRun]]:
    """Yield the slopes of T(x), and ECE before and after on the split of the fit."""
    ece = metric_spec("ece")

    def slope(run: CalibratedRun, name: Literal["log_choices", "log_tokens"]) -> Cell:
        if run.fitted is None:
            return Cell(UNDEFINED)
        value: float = getattr(run.fitted.calibrator.weights, name)
        return Cell(f"{value:+.2f}", (value,))

    def error(run: CalibratedRun, *, after: bool) -> Cell:
        if run.fitted is None:
            return Cell(UNDEFINED)
        before, now = run.fitted.ece_before, run.fitted.ece_after
        worse = after and now > before
        return replace(value_cell(now if after else before, ece), mark="worse" if worse else None)

    yield Column("log C", numbers=("slope on log C",)), partial(slope, name="log_choices")
    yield Column("log L", numbers=("slope on log(L / 1000)",)), partial(slope, name="log_tokens")
    for after, when in ((False, "before"), (True, "after")):
        numbers = (f"ECE of the fit {when} (fraction)",)
        yield Column(f"Fit ECE {when}", numbers=numbers, better=-1), partial(error, after=after)


def _fitted_temperature(run: CalibratedRun) -> Cell:
    return _temperature(None if run.fitted is None else run.fitted.temperature)


def _temperature(temperature: TemperatureSummary | None) -> Cell:
    if temperature is None:
        return Cell(UNDEFINED, reason="temperatures are not known")
    text = f"{temperature.mean:.2f} [{temperature.low:.2f}, {temperature.high:.2f}]"
    return Cell(text, (temperature.mean, temperature.low, temperature.high))


_WHEN: Final[dict[Calibration, str]] = {
    "raw": "raw",
    "calibrated": "after T(x)",
    "as shipped": "as shipped",
}
_MEANING: Final = (
    "Scores of the top probability as the forecast of a right answer: score = miscalibration - "
    "discrimination + uncertainty (CORP). Noise: mean miscalibration of a calibrated model with "
    "these confidences and families, by chance alone."
)


def build_answer_scores(request: Request) -> Table:
    """Make the table of scores in parts, of runs.

    Raises:
        InputError: the runs do not compare.
    """
    _ = request.comparable
    scores = run_answer_scores(request.experiment)
    if not scores:
        raise InputError("no run has probabilities")
    decoding = MetricDecoding(request.decoding)
    sizes = [run.scores.items for run in scores]
    scope = items_and_pairs({"accuracy": (min(sizes), max(sizes))})
    names = request.names
    return make_table(
        "answer-scores",
        [(run.scores, run.chance, run) for run in scores],
        (Column("Arm", "left"), lambda row: arm_cell(row[2].arm, names)),
        ("Seed", lambda row: seed_text(row[2].seed)),
        (Column("Probabilities", "left"), lambda row: _WHEN[row[2].calibration]),
        *_score_columns(0, decoding),
        *_score_columns(1, decoding),
        rule=lambda row: row[2].arm,
        title="Miscalibration, discrimination and uncertainty",
        caption=(
            f"Decoding: {decoding_words(decoding)}, and divided by T(x) if the run has a "
            f"calibrator. {_MEANING} Each run: {scope}. Brier from 0 to 1, log score in nats."
        ),
    )


def answer_scores_table(groups: tuple[Group, ...]) -> Table:
    """Lay out the scores of groups in parts: one row per group."""
    return make_table(
        "answer-scores",
        [
            (group.answer_scores, group.chance, group)
            for group in groups
            if group.answer_scores is not None and group.chance is not None
        ],
        (Column("", "left"), lambda row: row[2].name),
        *_score_columns(0),
        *_score_columns(1),
        title="Right answers as events: miscalibration, discrimination and uncertainty",
        notes=(_MEANING,),
        keys=1,
    )


_SCORES: Final = (
    MetricSpec("answer_brier", "Brier", "score", -1),
    MetricSpec("answer_log_score", "Log score", "nats", -1),
)
Scored = tuple[AnswerScores, ChanceMiscalibration, object]


def _score_columns(at: int, decoding: MetricDecoding = SINGLE) -> list[ColumnOf[Scored]]:
    """Return the columns of the Brier or the log score in parts; CSV files name the decoding."""
    spec, unit = _SCORES[at], unit_of(_SCORES[at], decoding)

    def column(title: str, better: Literal[-1, 0, 1], *parts: str) -> Column:
        numbers = tuple(f"{spec.title} {part} ({unit})" for part in parts)
        return Column(title, numbers=numbers, better=better)

    def part(row: Scored, name: str) -> Cell:
        parts = (row[0].brier, row[0].log_nats)[at]
        return value_cell(getattr(parts, name), spec, parts.reason)

    def miscalibration(row: Scored) -> Cell:
        cell, chance = part(row, "miscalibration"), row[1]
        drawn = ((chance.brier, chance.brier_high), (chance.log_nats, chance.log_nats_high))[at]
        below = "" if math.isnan(drawn[0]) else f"noise {spec.shown(drawn[0])}"
        return replace(cell, numbers=(*cell.numbers, *drawn), below=below)

    by_chance = ("miscalibration by chance", "95% of miscalibration by chance")
    return [
        (column(spec.title, -1, "mean"), partial(part, name="score")),
        (column("Miscal.", -1, "miscalibration", *by_chance), miscalibration),
        (column("Discrim.", 1, "discrimination"), partial(part, name="discrimination")),
        (column("Uncert.", 0, "uncertainty"), partial(part, name="uncertainty")),
    ]


_COVERAGES: Final = (0.25, 0.5, 0.75, 0.9, 1.0)


def build_risk_coverage(request: Request) -> Table:
    """Make the table of error rates among the most confident items of every run.

    Raises:
        InputError: the runs do not compare, or have no probabilities.
    """
    risks = run_risks(request.raw, _COVERAGES)
    first = risks[0][1][0]
    return make_table(
        "risk-coverage",
        risks,
        (Column("Arm", "left"), lambda row: arm_cell(row[0].arm, request.names)),
        ("Seed", lambda row: seed_text(row[0].seed)),
        *(
            (_rate_column(f"{100 * share:g}%"), lambda row, at=at: _rate(row[1][at]))
            for at, share in enumerate(_COVERAGES)
        ),
        title="Error rate among the most confident items",
        caption=(
            f"Error rate (%) if this share of the items is kept, with its {first.method}; "
            f"decoding: {decoding_words(MetricDecoding(request.decoding))}. "
            f"{first.n:,} items, {first.clusters:,} families."
        ),
    )


def build_gates(request: Request) -> Table:
    """Make the table of chosen gates on the runs of their model.

    Raises:
        InputError: there are no thresholds, or none is of the model of a run.
    """
    if not request.thresholds:
        raise InputError("no thresholds were given (--thresholds FILE)")
    marks, told = gate_marks(request.experiment, request.thresholds)
    notes = gate_notes(told, request.names)
    if not marks:
        raise InputError("; ".join(notes))

    def gates_on(mark: GateMark) -> str:
        rule = mark.file.rule
        return f"{SIGNAL_NAMES[rule.signal]}, by {rule.by}; {rule_text(rule)}"

    return make_table(
        "gates",
        marks,
        *run_columns(request.names),
        (Column("Target", "left"), lambda mark: mark.file.target.limit),
        (Column("Gates on", "left"), gates_on),
        (_rate_column("Accepted"), lambda mark: _rate(mark.accepted)),
        (_rate_column("Error"), lambda mark: _rate(mark.error)),
        title="Chosen gates",
        caption=(
            "Items that the gates of a file accept, and the error among them (%), with 95% Wilson "
            "intervals over families. Items without an answer count as escalated."
        ),
        notes=notes,
    )


def _rate_column(title: str) -> Column:
    ends = interval_column(title, "fraction").numbers
    return Column(title, numbers=(f"{title} (fraction)", *ends))


def _rate(estimate: Estimate) -> Cell:
    numbers = (estimate.value, estimate.low, estimate.high, estimate.n, estimate.clusters)
    cell = replace(estimate_cell(estimate, "percent"), numbers=numbers)
    return cell if has_width(estimate) else replace(cell, interval="")


def build_selection(request: Request) -> Table:
    """Make the table of selected checkpoints: one row per run.

    Raises:
        InputError: no run has a history of selection.
    """
    runs, _ = request.trajectories
    decoding = MetricDecoding("single" if request.published is not None else request.decoding)

    def selected_accuracy(run: Trajectory) -> Cell:
        if run.selected_accuracy is None:
            reason = "the training log has no accuracy of the selection split"
            return Cell(UNDEFINED, reason=reason)
        return value_cell(run.selected_accuracy, _ACCURACY)

    return make_table(
        "selection",
        runs,
        *run_columns(request.names),
        (count_column("Step"), lambda run: count_cell(run.selected_step)),
        (count_column("Selections"), lambda run: count_cell(len(run.steps))),
        (
            Column("Selection NLL", numbers=("selection NLL (nats)",), better=-1),
            lambda run: Cell(f"{run.selected_nll_nats:.3f}", (run.selected_nll_nats,)),
        ),
        (
            Column("Selection accuracy", numbers=("selection accuracy (fraction)",), better=1),
            selected_accuracy,
        ),
        (
            metric_column(_ACCURACY, decoding),
            lambda run: with_interval(
                value_cell(run.accuracy.value, _ACCURACY), run.accuracy, _ACCURACY
            ),
        ),
        rule=lambda run: run.arm,
        title="Selected checkpoints",
        caption=(
            "Each run: the selected step of training, the number of steps at which the selection "
            "split was evaluated, its NLL in nats and accuracy in % at the selected step, and the "
            f"accuracy of the run in %. Decoding of the run: {decoding_words(decoding)}."
        ),
        brackets="In brackets: 95% interval over families, left out if there is none.",
    )


_GIB: Final = 1024**3
_NOT_RECORDED: Final = "not recorded by the run"


def build_cost(request: Request) -> Table:
    """Make the table of costs: one row per run, or per arm of published metrics.

    Raises:
        InputError: there is no run on full contexts, or published metrics say nothing of training.
    """
    if request.published is not None:
        return _arm_cost_table(arm_costs(request.published), request.names)
    costs = run_costs(request.experiment)
    if not costs:
        raise InputError("no run on full contexts")

    def measured(title: str, number: str, name: str, decimals: int = 0) -> ColumnOf[RunCost]:
        """Return the column of a number that a run, or the training of its adapter, records."""

        def cell(cost: RunCost) -> Cell:
            reason = _NOT_RECORDED
            if name.startswith("training"):
                no_log = f"not recorded in {TRAINING_NAME}"
                reason = no_log if cost.has_adapter else "no adapter"
            value = getattr(cost, name)
            scaled = value / _GIB if value and name == "training_peak_bytes" else value
            return _measure_cell(scaled, decimals, reason)

        return Column(title, numbers=(number,)), cell

    return make_table(
        "cost",
        costs,
        *run_columns(request.names),
        (count_column("Views"), lambda cost: count_cell(cost.views)),
        (count_column("K"), lambda cost: count_cell(cost.k)),
        measured("Seconds", "scoring (s)", "wall_seconds", 1),
        measured("Longest prompt", "longest prompt (tokens)", "longest_prompt_tokens"),
        (Column("Device", "left"), lambda cost: cost.device or UNDEFINED),
        (Column("Type", "left"), lambda cost: cost.dtype or UNDEFINED),
        measured("Train. steps", "training steps", "training_steps"),
        measured("Views per pair", "training views per pair", "training_views_per_pair", 1),
        measured("Train. min", "training (min)", "training_minutes", 1),
        measured("Train. GiB", "training, peak memory (GiB)", "training_peak_bytes", 1),
        rule=lambda cost: cost.arm,
        title="Cost",
        caption=(
            "Scoring: views of all items, K of each item, seconds of wall time on the device and "
            "in the type named, longest prompt in tokens. Training: optimiser steps, views of a "
            "pair, minutes of wall time and peak memory of the GPU (or else of the process), if "
            f"{TRAINING_NAME} or {TRAINING_RECORD} next to the adapter records it."
        ),
    )


def _measure_cell(value: float | None, decimals: int, reason: str) -> Cell:
    if value is None:
        return Cell(UNDEFINED, reason=reason)
    return Cell(f"{value:,.{decimals}f}", (value,))


def _arm_cost_table(costs: tuple[ArmCost, ...], names: ArmNames) -> Table:
    """Lay out costs of training: one row per arm."""

    def steps(cost: ArmCost) -> Cell:
        low, high = min(cost.steps), max(cost.steps)
        return Cell(f"{low:,}" if low == high else f"{low:,} to {high:,}", (low, high))

    def hours(cost: ArmCost) -> Cell:
        mean, deviation = cost.hours.mean, cost.hours.deviation
        text = f"{mean:.2f}" if math.isnan(deviation) else f"{mean:.2f} ± {deviation:.2f}"
        return Cell(text, (mean, deviation))

    return make_table(
        "cost",
        costs,
        (Column("Arm", "left"), lambda cost: arm_cell(cost.arm, names)),
        (count_column("Runs"), lambda cost: count_cell(len(cost.steps))),
        (Column("Steps", numbers=("training steps, lowest", "training steps, highest")), steps),
        (
            Column("Views/pair", numbers=("training views per pair",)),
            lambda cost: _measure_cell(cost.views_per_pair, 1, ""),
        ),
        (Column("Hours", numbers=("hours mean", "hours deviation")), hours),
        (
            Column("Peak GiB", numbers=("peak GPU memory (GiB)",)),
            lambda cost: _measure_cell(cost.peak_gib, 1, "not measured in every run"),
        ),
        (mean_column(_ACCURACY, SINGLE), lambda cost: mean_cell(cost.accuracy, _ACCURACY)),
        title="Cost of training",
        caption=(
            "Each arm: optimiser steps, training views per pair, hours of wall time (mean ± "
            "deviation over seeds), highest peak of GPU memory of a run, and accuracy of view 0."
        ),
    )
