"""Sentences on remedies of order effects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from pact_eval.remedies.comparison import FittedNote, RemedyComparison, RemedyMetric, RemedyRow
from pact_eval.remedies.sequential import SequentialReplay
from pact_eval.runs.view_rule import ViewRule
from pact_reports.numbers import has_width, interval_text
from pact_reports.sentences.calibration import calibration_sentence


def remedies_answer(comparison: RemedyComparison) -> str:
    """Answer whether any remedy helps, and which of them is enough."""
    if comparison.status == "cannot tell":
        if comparison.k == 1:
            return (
                "Cannot tell whether a remedy helps: the run has one view per item. Views and "
                "letter priors need several: `pact-eval score --k 4`, or a log with a row per view."
            )
        return "Cannot tell whether a remedy helps: there are too few families for an interval."
    if comparison.status == "none shown":
        return "None is shown to help: to improve accuracy or NLL over one view and worsen none."
    if comparison.enough is None:
        titles = [comparison.row(name).remedy.title for name in comparison.helping]
        return f"Shown to help over one view: {'; '.join(titles)}."
    row = comparison.row(comparison.enough)
    return (
        f"Cheapest that is shown to help, and not to be worse than K = {comparison.k}: "
        f"{row.remedy.title} ({_prompts(row.cost.prompts)} per item). {_gain(row)}"
    )


def sequential_answer(replay: SequentialReplay) -> str:
    """Answer whether views one by one are fewer than all, and how often they agree with them."""
    risk = f"At a risk of {replay.risk:.0%}"
    if not replay.points:
        return (
            "Views one by one: cannot tell, because the views of every item repeat one order. "
            "Score the data with --k 4 to get several orders."
        )
    point = replay.point(replay.risk)
    if replay.fitted_families < replay.least_families:
        return (
            f"Views one by one: cannot tell. A risk of {replay.risk:.0%} needs "
            f"{replay.least_families:,} families for a threshold, and a fit has "
            f"{replay.fitted_families:,}."
        )
    if replay.status == "cannot tell":
        return "Views one by one: cannot tell, because there are too few families for an interval."
    views = f"{point.views.value:.2f}"
    if has_width(point.views):
        views += f" [{point.views.low:.2f}, {point.views.high:.2f}]"
    if replay.status == "none saved":
        taken = f"{views} of {replay.most:.2f} are taken"
        return f"{risk}, views one by one are not shown to save any: {taken}."
    agreement = interval_text(point.agreement, "percent", "%")
    worse = ""
    if point.nll_difference.low > 0:
        worse = (
            " Their probabilities are worse: NLL is higher by "
            f"{interval_text(point.nll_difference, 'nats', ' nats')}."
        )
    return (
        f"{risk}, views one by one take {views} per item instead of {replay.most:.2f}. "
        f"They give the answer of all views in {agreement} of the items.{worse}"
    )


def rule_sentence(rule: ViewRule, fitted_on: Path) -> str:
    """Say when an adaptive run stops, and where that was chosen."""
    chosen = f"Views one by one: chosen on {fitted_on} for a risk of {rule.risk:g}"
    if math.isinf(rule.threshold):
        return f"{chosen}; no threshold keeps it, so all views are taken."
    return (
        f"{chosen}, an item stops at a firmness of {rule.threshold:.3g}. "
        f"{100 * rule.full_share:g}% of the families get all views."
    )


def fit_sentences(notes: Sequence[FittedNote]) -> Iterator[str]:
    """Yield what a reader must know of remedies that were fitted on other runs."""
    for fitted in notes:
        yield f"{fitted.file}: {calibration_sentence(fitted.note)}"


def _gain(row: RemedyRow) -> str:
    """Say which of accuracy and NLL is better than that of one view, with the interval."""
    shown = [row.metric(name) for name in ("accuracy", "nll_nats")]
    return " ".join(_difference(metric) for metric in shown if metric.is_better("k1"))


def _difference(metric: RemedyMetric) -> str:
    difference = metric.differences["k1"].difference
    unit = metric.spec.difference_unit
    word = " points" if unit == "points" else " nats"
    return f"{metric.spec.title} changes by {interval_text(difference, unit, word)}."


def _prompts(number: float) -> str:
    return "1 prompt" if number == 1 else f"{number:g} prompts"
