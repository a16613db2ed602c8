"""Accuracy, calibration and cost by number of views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Final

from pact_eval._json import Json
from pact_eval.evaluation.conclusions.data import after_leak
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.registry import MetricSpec, registered_metrics
from pact_eval.evaluation.report import Calibration, SweepPoint
from pact_eval.numbers import interval_text, methods_text, plain_decoding, sample_text, value_text
from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Column, Line, Table, columns_and_rows
from pact_reports.tables.cells import NOISE, estimate_cell
from pact_reports.views.brief import Brief, Fact
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import answer_json, to_json, warnings_json


def present_sweep(
    experiment: Experiment, run: ExperimentRun, points: Sequence[SweepPoint]
) -> Presenter:
    """Present a sweep.

    Args:
        experiment: what it was computed with.
        run: the run.
        points: its numbers for each number of views, one or more.
    """

    def headline() -> list[str]:
        answer = sweep_answer(points)
        return [] if answer is None else [after_leak(answer, experiment.data.leak)]

    return Presenter(
        tables=lambda: (
            Line(one_line(run.run.title), "strong"),
            sweep_table(points, experiment.settings.calibration_name),
        ),
        to_json=lambda: {
            "answer": answer_json([experiment.data]),
            "run": run.place,
            "decoding": {**experiment.settings.label},
            "points": [*map(_point_json, points)],
            "warnings": warnings_json(experiment.applied_warnings),
        },
        warnings=[*map(str, experiment.applied_warnings)],
        leak=lambda: experiment.data.leak,
        headline=headline,
        first=lambda: brief_sweep(experiment, run, points),
        retold=True,
    )


def _point_json(point: SweepPoint) -> Json:
    group = point.group
    values = {
        field.name: to_json(getattr(group, field.name)) for field in fields(group) if field.repr
    }
    scores = {"answer_scores": to_json(group.answer_scores), "chance": to_json(group.chance)}
    return {"k": point.k, "group": values | scores}


_MOST_ROWS: Final = 6


def brief_sweep(experiment: Experiment, run: ExperimentRun, points: Sequence[SweepPoint]) -> Brief:
    """Return a run at several numbers of views, without intervals; arguments as above."""
    group, title = points[0].group, run.run.title
    shown, asked = _few(points), "repeats" if run.provenance.repeats else "orders"
    left_out = "" if len(shown) == len(points) else f"All {len(points)} numbers of {asked} and "
    decoding = plain_decoding(1, experiment.settings.calibration_name)
    sample = sample_text(group.items, group.families, experiment.settings.unit)
    return Brief(
        [Fact("run", one_line(f"{title}, {sample}, {decoding}"))],
        more=f"{left_out}{'i' if left_out else 'I'}ntervals: --full.",
        cautions=[Line(one_line(title), "strong")] if sweep_answer(points) is None else [],
        tables=[_table(shown, asked)],
    )


def _few(points: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Return all points, or if they are many, the first, the last, and those at doubled K."""
    if len(points) <= _MOST_ROWS:
        return list(points)
    ks = [points[0].k]
    while 2 * ks[-1] < points[-1].k:
        ks.append(2 * ks[-1])
    doubled = [point for point in points[:-1] if point.k in ks]
    return [*doubled[: _MOST_ROWS - 1], points[-1]]


_PLAIN: Final = {
    "view_tv": "Probabilities move",
    "flip_rate": "Answers change",
    "ensemble_gain": "Gain, points",
}
"""Titles of metrics of several orders in plain words; `--full` has those of the other commands."""


def _table(points: Sequence[SweepPoint], asked: str) -> Table:
    """Lay out the metrics that some point has, in plain words."""
    specs = [
        spec
        for spec in registered_metrics("full", "sweep")
        if not all(math.isnan(point.group.estimates[spec.name].value) for point in points)
    ]

    def value(point: SweepPoint, spec: MetricSpec) -> str:
        return value_text(point.group.estimates[spec.name].value, spec.unit)

    layout = columns_and_rows(
        points,
        (asked, lambda point: str(point.k)),
        *((_PLAIN.get(spec.name, spec.title), partial(value, spec=spec)) for spec in specs),
    )
    return Table("sweep", "", "", *layout, bare=True)


def sweep_table(points: Sequence[SweepPoint], calibration: Calibration) -> Table:
    """Lay out a run at every number of views: a row per number.

    Args:
        points: the run at each of them, one or more.
        calibration: whether the distributions were calibrated.
    """
    group = points[0].group
    specs = registered_metrics("full", "sweep")  # JSON has every metric
    method = methods_text(group.estimates[spec.name] for spec in specs)
    caption = (
        f"Decoding: ensemble of the first K views, {calibration}; {group.items:,} items, "
        f"{group.families:,} families. View TV and flips are of the raw views.\n"
        f"Rates in %, gain in points, NLL in nats; in brackets the {method}. {NOISE}"
    )

    def cell(point: SweepPoint, spec: MetricSpec) -> Cell:
        return estimate_cell(point.group.estimates[spec.name], spec.unit)

    layout = columns_and_rows(
        points,
        ("K", lambda point: str(point.k)),
        *(
            (Column(spec.title, "left", better=spec.better), partial(cell, spec=spec))
            for spec in specs
        ),
    )
    return Table("sweep", "", caption, *layout)


def sweep_answer(points: Sequence[SweepPoint]) -> str | None:
    """Write the gain of several orders over the first; None if the points do not show it."""
    last = points[-1]
    gain = last.group.estimates["ensemble_gain"]
    if last.k < 2:
        return "Cannot tell what more orders would do: each item was asked in one order."
    if math.isnan(gain.value):
        return None
    shown = "is not shown to change accuracy"
    if gain.excludes_zero:
        shown = f"{'helps' if gain.value > 0 else 'hurts'} accuracy"
    flips = interval_text(last.group.estimates["flip_rate"], "percent", "%")
    return (
        f"The mean over {last.k} orders {shown}: {interval_text(gain, 'points', ' points')} from "
        f"the first order alone; the answer to {flips} of the items changes with the order."
    )
