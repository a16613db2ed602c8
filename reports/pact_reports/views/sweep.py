"""Accuracy, calibration and cost by number of views.

Decodings that may undo effects of the order, compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
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
from pact_eval.remedies import NoTokens, RemedyComparison, RemedyRow
from pact_reports.table import Cell, Column, ColumnOf, Line, Part, Table, make_table
from pact_reports.tables.cells import NOISE, estimate_cell, unit_of, value_cell
from pact_reports.views.presenter import Brief, Fact, Presenter, line_count
from pact_reports.writers.json import answer_json, attributes, members, to_json, warnings_json


def present_sweep(
    experiment: Experiment, run: ExperimentRun, points: Sequence[SweepPoint]
) -> Presenter:
    """Present a sweep.

    Args:
        experiment: what it was computed with.
        run: the run.
        points: its numbers for each number of views, one or more.
    """
    answer, warnings = sweep_answer(points), experiment.applied_warnings
    return Presenter(
        tables=lambda: (
            Line(one_line(run.run.title), "strong"),
            sweep_table(points, experiment.settings.calibration_name),
        ),
        to_json=lambda: {
            "answer": answer_json([experiment.data]),
            "run": run.place,
            "decoding": {**experiment.settings.label},
            "points": [
                {
                    "k": point.k,
                    "group": cast("dict[str, Json]", to_json(point.group))
                    | attributes(point.group, "answer_scores", "chance"),
                }
                for point in points
            ],
            "warnings": warnings_json(warnings),
        },
        warnings=[*map(str, warnings)],
        leak=lambda: experiment.data.leak,
        headline=lambda: [after_leak(answer, experiment.data.leak)] if answer else [],
        first=lambda: brief_sweep(experiment, run, points),
        retold=True,
    )


_MOST_ROWS: Final = 6


def brief_sweep(experiment: Experiment, run: ExperimentRun, points: Sequence[SweepPoint]) -> Brief:
    """Return a run at several numbers of views, without intervals; arguments as above.

    Of many points, the first, the last, and those at doubled K are shown.
    """
    group, title, shown = points[0].group, run.run.title, [*points]
    if len(points) > _MOST_ROWS:
        doubled = {points[0].k * 2**power for power in range(_MOST_ROWS - 1)}
        shown = [*(point for point in points[:-1] if point.k in doubled), points[-1]]
    asked = "repeats" if run.provenance.repeats else "orders"
    left_out = "" if len(shown) == len(points) else f"All {len(points)} numbers of {asked} and "
    decoding = plain_decoding(1, experiment.settings.calibration_name)
    sample = sample_text(group.items, group.families, experiment.settings.unit)

    def value(point: SweepPoint, spec: MetricSpec) -> str:
        return value_text(point.group.estimates[spec.name].value, spec.unit)

    # In plain words the metrics that some point has; `--full` has those of the other commands.
    table = make_table(
        "sweep",
        shown,
        (asked, lambda point: str(point.k)),
        *(
            (_PLAIN.get(spec.name, spec.title), partial(value, spec=spec))
            for spec in registered_metrics("full", "sweep")
            if any(value(point, spec) != UNDEFINED for point in points)
        ),
        bare=True,
    )
    return Brief(
        [Fact("run", one_line(f"{title}, {sample}, {decoding}"))],
        more=f"{left_out}{'i' if left_out else 'I'}ntervals: --full.",
        cautions=[Line(one_line(title), "strong")] if sweep_answer(points) is None else [],
        tables=[table],
    )


_PLAIN: Final = {
    "view_tv": "Probabilities move",
    "flip_rate": "Answers change",
    "ensemble_gain": "Gain, points",
}


def sweep_table(points: Sequence[SweepPoint], calibration: Calibration) -> Table:
    """Lay out a run at every number of views: a row per number.

    Args:
        points: the run at each of them, one or more.
        calibration: whether the distributions were calibrated.
    """
    group = points[0].group
    specs = registered_metrics("full", "sweep")  # JSON has every metric
    method = methods_text(group.estimates[spec.name] for spec in specs)

    def cell(point: SweepPoint, spec: MetricSpec) -> Cell:
        return estimate_cell(point.group.estimates[spec.name], spec.unit)

    return make_table(
        "sweep",
        points,
        ("K", lambda point: str(point.k)),
        *(
            (Column(spec.title, "left", better=spec.better), partial(cell, spec=spec))
            for spec in specs
        ),
        caption=(
            f"Decoding: ensemble of the first K views, {calibration}; {group.items:,} items, "
            f"{group.families:,} families. View TV and flips are of the raw views.\n"
            f"Rates in %, gain in points, NLL in nats; in brackets the {method}. {NOISE}"
        ),
    )


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
    """Return the remedies; a row has the name of its remedy, as it is in the table."""
    rows: list[Json] = [
        {**attributes(row.remedy, "name", "title"), **members(row)} for row in comparison.rows
    ]
    return {
        "answer": attributes(comparison, "status", "helping", "enough", "price"),
        "remedies": cast("dict[str, Json]", to_json(comparison)) | {"rows": rows},
    }


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
            why = "the fit has no items, or too few orders, of their number of answers"
            if row.remedy.contextual:
                why = "they have no content-free probabilities, or one of 0"
            yield Line(
                f"Note: {row.remedy.title}: {row.without_prior:,} of {comparison.items:,} items "
                f"stay as they are, because {why}.",
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


def _remedies_table(comparison: RemedyComparison) -> Table:
    no_tokens = comparison.no_tokens

    def metric(name: str, *, tempered: bool = False) -> ColumnOf[RemedyRow]:
        spec = comparison.rows[0].metric(name).spec
        title = f"{spec.title} at T" if tempered else spec.title
        numbers = (f"{title} ({unit_of(spec, SINGLE)})",)

        def cell(row: RemedyRow) -> Cell:
            try:
                found = row.metric(name, tempered=tempered)
            except KeyError:
                return Cell(UNDEFINED, (math.nan,), reason="no temperature can be fitted")
            return value_cell(found.value.value, spec, found.value.reason)

        return Column(_SHORT.get(title, title), numbers=numbers, better=spec.better), cell

    def tokens(number: float, why: NoTokens | None) -> Cell:
        if math.isnan(number):
            return Cell(UNDEFINED, (math.nan,), reason=None if why is None else _NO_TOKENS[why])
        return Cell(f"{number:,.0f}", (number,))

    return make_table(
        "remedies",
        comparison.rows,
        (Column("Remedy", "left"), lambda row: Cell(row.remedy.title, data=row.remedy.name)),
        metric("accuracy"),
        metric("pair_accuracy"),
        metric("nll_nats"),
        metric("nll_nats", tempered=True),
        metric("ece"),
        metric("flip_rate"),
        (
            Column("Prompts", numbers=("prompts per item",)),
            lambda row: Cell(prompts_text(row.cost.prompts), (row.cost.prompts,)),
        ),
        (
            Column("Computed", numbers=("computed tokens per item",)),
            lambda row: tokens(row.cost.tokens, no_tokens),
        ),
        (
            Column("Sent", numbers=("sent tokens per item",)),
            lambda row: tokens(row.cost.sent_tokens, "unknown"),
        ),
        title=f"Remedies, the cheapest in {comparison.price} first",
        caption=(
            f"{comparison.items:,} items, {comparison.families:,} families. Priors and "
            f"temperatures are fitted on other families ({comparison.folds} folds by "
            f"{comparison.fold_unit}).\n"
            "K: views per item. Rates in %, NLL in nats. At T: after a temperature. Flips: another "
            "answer from the next views.\n"
            "Per item: prompts; tokens computed with shared prefixes counted once; tokens sent in "
            "full prompts."
        ),
    )


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
    """Return some remedies with their differences from one view, and the sample."""
    marks = "" if comparison.k == 1 else "; * shown after Holm's adjustment"
    sample = sample_text(comparison.items, comparison.families)

    def value(row: RemedyRow, name: str) -> str:
        metric = row.metric(name)
        percent = "%" if metric.spec.unit == "percent" else ""
        return f"{value_text(metric.value.value, metric.spec.unit)}{percent}"

    def from_one(row: RemedyRow, name: str) -> str:
        metric = row.metric(name)
        against = metric.differences.get("k1")
        if against is None:
            return ""
        difference = interval_text(against.difference, metric.spec.difference_unit)
        return f"{difference}{'*' if against.marked else ''}"

    one = f"- 1 {comparison.asked}"
    table = make_table(
        "remedies",
        [row for row in comparison.rows if row.remedy.name in shown],
        (Column("remedy", "left"), lambda row: _called(comparison, row)),
        ("accuracy", partial(value, name="accuracy")),
        (Column(f"{one}, points", "left"), partial(from_one, name="accuracy")),
        ("NLL", partial(value, name="nll_nats")),
        (Column(one, "left"), partial(from_one, name="nll_nats")),
        bare=True,
    )
    return Brief(
        [Fact("sample", f"{sample}{marks}")],
        more="Pairs, ECE, flips and costs: --full.",
        tables=[table],
    )


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
    better = []
    for metric in (row.metric(name) for name in ("accuracy", "nll_nats")):
        if metric.is_better("k1"):
            unit = metric.spec.difference_unit
            word = " points" if unit == "points" else ""
            text = interval_text(metric.differences["k1"].difference, unit, word)
            better.append(f"{metric.spec.title} changes by {text}.")
    return " ".join(better)
