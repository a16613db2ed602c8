"""Accuracy, calibration and cost by number of views.

Decodings that may undo effects of the order, compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import Final, cast

from pact_eval._json import Json
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.data import after_leak
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.registry import SINGLE, MetricSpec, registered_metrics
from pact_eval.evaluation.report import Calibration, SweepPoint
from pact_eval.numbers import (
    UNDEFINED,
    interval_text,
    methods_text,
    plain_decoding,
    prompts_text,
    sample_text,
    value_text,
)
from pact_eval.plain_text import one_line
from pact_eval.remedies import (
    NoTokens,
    RemedyComparison,
    RemedyMetric,
    RemedyRow,
)
from pact_reports.table import Cell, Column, Line, Part, Table, columns_and_rows
from pact_reports.tables.cells import NOISE, estimate_cell, unit_of, value_cell
from pact_reports.views.brief import Brief, Fact, line_count
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


def present_remedy_comparison(comparison: RemedyComparison) -> Presenter:
    """Present the remedies of a run."""
    return Presenter(
        tables=partial(remedies_parts, comparison),
        to_json=lambda: _json(comparison),
        leak=lambda: comparison.leak,
        headline=lambda: [remedies_answer(comparison)],
        first=partial(brief_remedies, comparison),
        retold=True,
    )


def _json(comparison: RemedyComparison) -> dict[str, Json]:
    return {
        "answer": {
            "status": comparison.status,
            "helping": list(comparison.helping),
            "enough": comparison.enough,
            "price": comparison.price,
        },
        "remedies": cast("dict[str, Json]", to_json(comparison))
        | {"rows": [_row(row) for row in comparison.rows]},
    }


def _row(row: RemedyRow) -> dict[str, Json]:
    """Return a row with the name of its remedy, as it is in the table."""
    return {
        "name": row.remedy.name,
        "title": row.remedy.title,
        **cast("dict[str, Json]", to_json(row)),
    }


_VALUES: Final = (
    ("accuracy", False),
    ("pair_accuracy", False),
    ("nll_nats", False),
    ("nll_nats", True),
    ("ece", False),
    ("flip_rate", False),
)
_SHORT: Final = {"Pair accuracy": "Pairs", "Flip rate": "Flips"}
_NO_TOKENS: Final[dict[NoTokens, str]] = {
    "served": "a server answered: whether it shares prefixes is not known",
    "older": "the run does not record its shared prefixes: score it again",
    "unknown": "the run does not record the lengths of its prompts",
}
"""Why tokens through the prefix tree are not known."""


def remedies_parts(comparison: RemedyComparison) -> Iterator[Part]:
    """Lay out remedies: values and costs, and items without a prior."""
    yield _remedies_table(comparison)
    for row in comparison.rows:
        if row.without_prior:
            yield Line(
                f"Note: {row.remedy.title}: {row.without_prior:,} of {comparison.items:,} items "
                f"stay as they are, because {_why_untouched(row)}.",
                "caution",
            )
    if not comparison.content_free:
        yield Line(
            "Contextual calibration needs prompts without a context: repeat the scoring command "
            "with --content-free, which adds them to the run."
        )
    yield Line(
        "Batch calibration takes right answers to be at every letter equally often; the check "
        "`balance` of `pact-audit data` says whether they are."
    )


def _why_untouched(row: RemedyRow) -> str:
    if row.remedy.contextual:
        return "they have no content-free probabilities, or one of 0"
    return "the fit has no items, or too few orders, of their number of answers"


def _remedies_table(comparison: RemedyComparison) -> Table:
    folds = f"{comparison.folds} folds by {comparison.fold_unit}"
    no_tokens = comparison.no_tokens
    why = None if no_tokens is None else _NO_TOKENS[no_tokens]
    layout = columns_and_rows(
        comparison.rows,
        (Column("Remedy", "left"), lambda row: Cell(row.remedy.title, data=row.remedy.name)),
        *(_value_column(comparison, name, tempered=tempered) for name, tempered in _VALUES),
        (Column("Prompts", numbers=("prompts per item",)), _prompts_cell),
        (_COMPUTED, lambda row: _tokens_cell(row.cost.tokens, why)),
        (_SENT, lambda row: _tokens_cell(row.cost.sent_tokens, _NO_TOKENS["unknown"])),
    )
    caption = (
        f"{comparison.items:,} items, {comparison.families:,} families. Priors and "
        f"temperatures are fitted on other families ({folds}).\n"
        "K: views per item. Rates in %, NLL in nats. At T: after a temperature. Flips: another "
        "answer from the next views.\n"
        "Per item: prompts; tokens computed with shared prefixes counted once; tokens sent in "
        "full prompts."
    )
    return Table(
        "remedies", f"Remedies, the cheapest in {comparison.price} first", caption, *layout
    )


_COMPUTED: Final = Column("Computed", numbers=("computed tokens per item",))


_SENT: Final = Column("Sent", numbers=("sent tokens per item",))


def _value_column(
    comparison: RemedyComparison, name: str, *, tempered: bool
) -> tuple[Column, Callable[[RemedyRow], Cell]]:
    spec = comparison.rows[0].metric(name).spec
    title = f"{spec.title} at T" if tempered else spec.title
    numbers = (f"{title} ({unit_of(spec, SINGLE)})",)
    column = Column(_SHORT.get(title, title), numbers=numbers, better=spec.better)
    return column, lambda row: _value_cell(row, name, tempered)


def _prompts_cell(row: RemedyRow) -> Cell:
    return Cell(prompts_text(row.cost.prompts), (row.cost.prompts,))


def _value_cell(row: RemedyRow, name: str, tempered: bool) -> Cell:
    try:
        metric = row.metric(name, tempered=tempered)
    except KeyError:
        return Cell(UNDEFINED, (math.nan,), reason="no temperature can be fitted")
    return value_cell(metric.value.value, metric.spec, metric.value.reason)


def _tokens_cell(tokens: float, why: str | None) -> Cell:
    if math.isnan(tokens):
        return Cell(UNDEFINED, (math.nan,), reason=why)
    return Cell(f"{tokens:,.0f}", (tokens,))


_MAIN: Final = ("k2", "k2_additive", "k1_additive", "k1_batch", "k1_contextual")
"""Remedies that most runs can show, after those of the answer."""

_MOST_BELOW: Final = 10


def brief_remedies(comparison: RemedyComparison) -> Brief:
    """Return the main remedies, in at most ten lines below the answer."""
    names = [*comparison.references, comparison.enough, *_MAIN]
    compared = {row.remedy.name for row in comparison.rows}
    shown = [name for name in dict.fromkeys(names) if name in compared]
    while True:
        brief = _brief(comparison, shown)
        if line_count(brief.parts(())) <= _MOST_BELOW or len(shown) == 1:
            return brief
        shown.pop()


def _brief(comparison: RemedyComparison, shown: Collection[str | None]) -> Brief:
    """Return some remedies, and the sample."""
    marks = "" if comparison.k == 1 else "; * shown after Holm's adjustment"
    sample = sample_text(comparison.items, comparison.families)
    layout = columns_and_rows(
        [row for row in comparison.rows if row.remedy.name in shown],
        (Column("remedy", "left"), lambda row: _called(comparison, row)),
        ("accuracy", lambda row: _value(row, "accuracy")),
        (Column(f"- 1 {comparison.asked}, points", "left"), lambda row: _from_one(row, "accuracy")),
        ("NLL", lambda row: _value(row, "nll_nats")),
        (Column(f"- 1 {comparison.asked}", "left"), lambda row: _from_one(row, "nll_nats")),
    )
    return Brief(
        [Fact("sample", f"{sample}{marks}")],
        more="Pairs, ECE, flips and costs: --full.",
        tables=[Table("remedies", "", "", *layout, bare=True)],
    )


def _value(row: RemedyRow, name: str) -> str:
    metric = row.metric(name)
    percent = "%" if metric.spec.unit == "percent" else ""
    return f"{value_text(metric.value.value, metric.spec.unit)}{percent}"


def _from_one(row: RemedyRow, name: str) -> str:
    """Write the difference of a metric from that of one view."""
    metric = row.metric(name)
    against = metric.differences.get("k1")
    if against is None:
        return ""
    difference = interval_text(against.difference, metric.spec.difference_unit)
    return f"{difference}{'*' if against.marked else ''}"


def remedies_answer(comparison: RemedyComparison) -> str:
    """Answer whether any remedy helps, and which of them is enough."""
    asked = comparison.asked
    if comparison.status == "cannot tell":
        if comparison.k == 1:
            return (
                "Cannot tell whether a remedy helps: each item was asked in one order. For 2 to 4 "
                "orders and letter priors, repeat the scoring command with --k 4 and another "
                "--out, or import a log with a row per order."
            )
        return "Cannot tell whether a remedy helps: too few independent items for an interval."
    if comparison.status == "none shown":
        return (
            f"None is shown to help: to improve accuracy or NLL over one {asked}, and harm neither."
        )
    all_views = comparison.row(comparison.references[-1])
    every = _called(comparison, all_views)
    if comparison.enough is None:
        rows = [comparison.row(name) for name in comparison.helping]
        listed = "; ".join(_called(comparison, row) for row in rows)
        answer = f"Shown to help over one {asked}: {listed}."
        price = comparison.price
        if any(row.cost.price(price) < all_views.cost.price(price) for row in rows):
            answer += f" Those that cost less ({price}) are worse than {every} by a 95% interval."
        return answer
    row = comparison.row(comparison.enough)
    return (
        f"Cheapest in {comparison.price} that helps (shown), and is not shown to be worse than "
        f"{every}: {_called(comparison, row)} ({_price(comparison, row)} per item; "
        f"{every}: {_price(comparison, all_views)}). {_gain(row)}"
    )


def _called(comparison: RemedyComparison, row: RemedyRow) -> str:
    """Name a remedy by its number of orders, or of repeats, such as "2 orders, prior removed"."""
    remedy = row.remedy
    number = counted(remedy.views, comparison.asked)
    return remedy.title.replace(f"K = {remedy.views}", number, 1)


def _price(comparison: RemedyComparison, row: RemedyRow) -> str:
    price = row.cost.price(comparison.price)
    return prompts_text(price) if comparison.price == "prompts" else f"{price:,.0f}"


def _gain(row: RemedyRow) -> str:
    """Say which of accuracy and NLL is better than that of one view, with the interval."""
    shown = [row.metric(name) for name in ("accuracy", "nll_nats")]
    return " ".join(_difference(metric) for metric in shown if metric.is_better("k1"))


def _difference(metric: RemedyMetric) -> str:
    difference = metric.differences["k1"].difference
    unit = metric.spec.difference_unit
    word = " points" if unit == "points" else ""
    return f"{metric.spec.title} changes by {interval_text(difference, unit, word)}."
