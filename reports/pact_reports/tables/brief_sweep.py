"""Brief output of `report --views`: the gain of K views, and a row per K."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.evaluation.sweep import SweepPoint
from pact_eval.numbers import sample_text, value_text
from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.brief import Brief, Fact
from pact_reports.tables.cells import leak_lines

_MOST_ROWS: Final = 6


def brief_sweep(
    experiment: Experiment, title: str, points: Sequence[SweepPoint], answers: Sequence[str]
) -> tuple[Part, ...]:
    """Lay out a run at several numbers of views, without intervals.

    Args:
        experiment: what it was computed with.
        title: the run.
        points: its numbers for each number of views, one or more.
        answers: the first lines.
    """
    group = points[0].group
    shown = _few(points)
    left_out = "" if len(shown) == len(points) else f"All {len(points)} numbers of views and "
    sample = sample_text(group.items, group.families, experiment.settings.unit)
    return Brief(
        answer=(
            *leak_lines(experiment.data.leak),
            *(Line(answer, "strong") for answer in answers or (one_line(title),)),
        ),
        facts=[
            Fact("run", one_line(f"{title}, {sample}, {experiment.settings.calibration_name}")),
        ],
        notes=(),
        more=f"{left_out}{'i' if left_out else 'I'}ntervals: --full.",
        tables=[_table(shown)],
    ).parts()


def _few(points: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Return all points, or if they are many, the first, the last, and those at doubled K."""
    if len(points) <= _MOST_ROWS:
        return list(points)
    ks = [points[0].k]
    while 2 * ks[-1] < points[-1].k:
        ks.append(2 * ks[-1])
    doubled = [point for point in points[:-1] if point.k in ks]
    return [*doubled[: _MOST_ROWS - 1], points[-1]]


def _table(points: Sequence[SweepPoint]) -> Table:
    specs = registered_metrics("full", "sweep")
    return Table(
        name="sweep",
        title="",
        caption="",
        columns=(Column("K"), *(Column(spec.title) for spec in specs)),
        rows=tuple(
            Row(
                (
                    Cell(str(point.k)),
                    *(
                        Cell(value_text(point.group.estimates[spec.name].value, spec.unit))
                        for spec in specs
                    ),
                )
            )
            for point in points
        ),
        bare=True,
    )
