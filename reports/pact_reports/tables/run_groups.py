"""Groups of items by a column that the user chose: the metrics of every run, a row per group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pact_eval._choices import ClusterUnit
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.decoding import MetricDecoding
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.registry import metric_spec
from pact_eval.evaluation.report import Group
from pact_eval.numbers import reason_text, short_clusters
from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import decoding_words, estimate_cell, unit_of

_METRICS: Final = tuple(map(metric_spec, ("accuracy", "nll_nats", "ece", "flip_rate")))
_NOTE: Final = (
    "Of many groups, some stand out by chance; pact-eval report RUN --find-slices tests those that "
    "do on other families."
)


def run_groups_table(experiment: Experiment, names: ArmNames = KEYS) -> Table:
    """Lay out the metrics of every run by group; the first row of a run has all items.

    Args:
        experiment: the runs; its settings name the column, and bins of its numbers.
        names: display names of arms.

    Raises:
        InputError: a run lacks the column, or its numbers need bins.
    """
    settings = experiment.settings
    rows: list[Row] = []
    several = len(experiment.runs) > 1
    for run in experiment.runs:
        named = [Cell(one_line(names.run(run.label)))] if several else []
        for at, group in enumerate(experiment.evaluation(run).groups):
            cells = (*named, *_cells(group, settings.unit))
            rows.append(Row(cells, rule=at == 0 and bool(rows)))
    decoding = MetricDecoding(settings.decoding, calibrated=settings.calibrated)
    by = one_line(settings.by.replace("_", " "))
    return Table(
        name="groups",
        title=f"Metrics by {by}",
        caption=(
            f"Decoding: {decoding_words(decoding)}; flips are between the K views. NLL in nats, "
            "the rest in %."
        ),
        columns=(
            *([Column("Run", "left")] if several else []),
            Column(by, "left"),
            Column("items"),
            Column(short_clusters(settings.unit)),
            *(_column(spec, decoding) for spec in _METRICS),
        ),
        rows=tuple(rows),
        notes=(_NOTE,),
        brackets="In brackets: 95% interval over families.",
    )


def _cells(group: Group, unit: ClusterUnit) -> Iterator[Cell]:
    yield Cell(one_line(group.name) or "(none)")
    yield Cell(f"{group.items:,}")
    yield Cell(f"{group.clusters:,}")
    for spec in _METRICS:
        estimate = group.estimates[spec.name]
        cell = estimate_cell(estimate, spec.unit, test=False)
        numbers = (estimate.value, estimate.low, estimate.high)
        yield replace(cell, numbers=numbers, reason=reason_text(estimate.reason, unit))


def _column(spec: MetricSpec, decoding: MetricDecoding) -> Column:
    unit = unit_of(spec, decoding)
    ends = (f"{spec.title} {end} ({unit})" for end in ("low", "high"))
    return Column(spec.title, numbers=(f"{spec.title} ({unit})", *ends), better=spec.better)
