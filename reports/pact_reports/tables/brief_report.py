"""Brief output of `report` for a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.notes import Incomplete, Unverified
from pact_eval.evaluation.report import Evaluation
from pact_eval.evaluation.run_rates import DecodedRates
from pact_eval.numbers import rate_text, sample_text, value_text, views_words
from pact_eval.plain_text import one_line
from pact_eval.stats.estimate import Estimate
from pact_reports.sentences.brief import not_known_text, report_line
from pact_reports.table import Line, Part
from pact_reports.tables.brief import Brief, Fact, data_fact, tone_of
from pact_reports.tables.cells import leak_lines


def brief_report(
    report: RunReport, names: ArmNames = KEYS, others: Sequence[Line] = ()
) -> tuple[Part, ...]:
    """Lay out what a run is worth.

    Args:
        report: of a run on full contexts.
        names: display names of arms.
        others: further lines before the last one.
    """
    evaluation, leak = report.evaluation, report.experiment.data.leak
    place = one_line(report.run.place)
    gaps = [note for note in evaluation.notes if isinstance(note, Incomplete | Unverified)]
    return Brief(
        answer=(*leak_lines(leak), Line(report_line(evaluation, leak), "strong")),
        facts=[
            *_conclusions(report),
            *_rates(report.rates, evaluation),
            Fact("not known", not_known_text(report.conclusions)),
            Fact("run", run_text(report, names)),
            Fact("log", "; ".join(gap.words for gap in gaps), "caution"),
        ],
        notes=[note for note in evaluation.notes if note not in gaps],
        more=f"All metrics: pact-eval report {place} --full, or --html page.html",
        lines=others,
    ).parts()


def _rates(rates: Sequence[DecodedRates], evaluation: Evaluation) -> Iterator[Fact]:
    of_asked = rates[0].accuracy_of_asked
    over_orders = evaluation.groups[0].estimates["order_accuracy"]
    if of_asked is not None:
        yield Fact("all items", f"{rate_text(of_asked)} right if unanswered items count as wrong")
    if len(rates) > 1:
        accuracy = _by_views([(rate.accuracy, rate) for rate in rates])
        if not math.isnan(over_orders.value):
            accuracy += f", {value_text(over_orders.value, 'percent')}% (mean of orders)"
        yield Fact("accuracy", accuracy)
    if not math.isnan(rates[0].pair_accuracy.value):
        pairs = [(rate.pair_accuracy, rate) for rate in rates]
        yield Fact("pair accuracy", _by_views(pairs))


def _by_views(rates: Iterable[tuple[Estimate, DecodedRates]]) -> str:
    return ", ".join(
        f"{rate_text(estimate)} ({views_words(rate.k, rate.repeats)})" for estimate, rate in rates
    )


def _conclusions(report: RunReport) -> Iterator[Fact]:
    for conclusion in report.conclusions:
        tone = tone_of(conclusion)
        match conclusion:
            case OrderConclusion():
                yield Fact("order", conclusion.line, tone)
            case ProbabilitiesConclusion():
                yield Fact("probabilities", conclusion.line, tone)
            case DataConclusion():
                yield data_fact(conclusion)
            case _:
                yield Fact("acting alone", conclusion.line, tone)


def run_text(report: RunReport, names: ArmNames) -> str:
    """Name the arm, the seed, the sample and the decoding of a run; the last line has its place."""
    evaluation, provenance = report.evaluation, report.run.provenance
    everything = evaluation.groups[0]
    seed = report.run.seed
    arm = None if provenance.arm is None else names.arm(report.run.arm)
    facts = (
        None if arm == report.run.name else arm,
        provenance.quantisation,
        provenance.contract.short_remark,
        None if seed is None else f"seed {seed}",
        sample_text(everything.items, everything.clusters, evaluation.unit),
        *_decoding(evaluation),
        evaluation.calibration,
    )
    return one_line(", ".join(fact for fact in facts if fact))


def _decoding(evaluation: Evaluation) -> tuple[str, str]:
    """Name the views, or repeats, and how they become one answer."""
    if evaluation.repeats == 1:
        return f"K = {evaluation.k}", evaluation.decoding
    together = "decoded together" if evaluation.decoding == "ensemble" else "mean"
    return f"{evaluation.repeats} repeats", together
