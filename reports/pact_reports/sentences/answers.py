"""The answer first: what a command found, in one sentence or in ten lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pact_eval.evaluation.answers import DecodedRates
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.report import Evaluation
from pact_reports.arm_names import KEYS, ArmNames
from pact_reports.numbers import (
    CLUSTERS,
    interval_text,
    views_words,
)
from pact_reports.plain_text import one_line
from pact_reports.sentences.conclusions import conclusion_line, not_known
from pact_reports.sentences.notes import note_sentence
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.cells import estimate_cell

if TYPE_CHECKING:  # a report does not wait for what fits calibrators, sweeps and judges
    from pact_eval.calibration.effect import CalibrationEffect
    from pact_eval.evaluation.sweep import SweepPoint
    from pact_eval.preregistration.run_scorecard import JudgedHypotheses

_MOST_NOTES: Final = 3


def headline_parts(report: RunReport, names: ArmNames = KEYS) -> tuple[Part, ...]:
    """Lay out what a report found in about ten lines.

    Args:
        report: of a run on full contexts.
        names: display names of arms.

    Returns:
        The run; accuracy and pair accuracy by decoding; its conclusions; notes; the command that
        prints all tables.
    """
    evaluation = report.evaluation
    return (
        Line(_run(report, names), "strong"),
        _rates_table(evaluation, report.rates),
        *(Line(text) for text in _findings(report)),
        *_notes(evaluation),
        Line(f"All tables: pact-eval report {one_line(report.run.place)} --full", "faint"),
    )


def _run(report: RunReport, names: ArmNames) -> str:
    evaluation, provenance = report.evaluation, report.run.provenance
    everything = evaluation.groups[0]
    arm = provenance.arm and provenance.named(provenance.arm)
    labels = [
        names.arm(arm) if arm else provenance.quantisation,
        None if provenance.seed is None else f"seed {provenance.seed}",
    ]
    named = ", ".join(label for label in labels if label)
    basis = f"{everything.items:,} items, {everything.clusters:,} {CLUSTERS[evaluation.unit]}"
    times = f"K = {evaluation.k}; {evaluation.decoding}"
    if evaluation.repeats > 1:
        together = ", decoded together" if evaluation.decoding == "ensemble" else ", mean"
        times = f"{evaluation.repeats} repeats{together}"
    made = f"{times}, {evaluation.calibration}"
    return one_line(f"{report.run.place}: {f'{named}; ' if named else ''}{basis}, {made}")


def _rates_table(evaluation: Evaluation, rates: Sequence[DecodedRates]) -> Table:
    flips = evaluation.groups[0].estimates["flip_rate"]
    of_asked = rates[0].accuracy_of_asked
    first = {} if of_asked is None else {"Accuracy, unanswered wrong": [of_asked]}
    rows = {
        **first,
        "Accuracy, answered items" if first else "Accuracy": [each.accuracy for each in rates],
        "Pair accuracy": [each.pair_accuracy for each in rates],
    }
    lines = [
        Row(
            (
                Cell(title),
                *(estimate_cell(each, "percent", reasons=False) for each in found),
                *([Cell("")] * (len(rates) - len(found))),
            )
        )
        for title, found in rows.items()
        if not math.isnan(found[0].value)
    ]
    if evaluation.k > 1 and evaluation.repeats == 1:
        cell = estimate_cell(flips, "percent", reasons=False)
        blank = [Cell("")] * (len(rates) - 1)
        lines.append(Row((Cell("Flip rate"), *blank, cell)))
    return Table(
        name="headline",
        title="",
        caption="",
        columns=(
            Column("%", "left"),
            *(Column(views_words(each.k, each.repeats), "left") for each in rates),
        ),
        rows=tuple(lines),
        keys=1,
    )


def _findings(report: RunReport) -> Iterator[str]:
    """Say what is concluded of the run, and what was not checked."""
    estimates = report.evaluation.groups[0].estimates
    for conclusion in report.conclusions:
        yield conclusion_line(conclusion)
    if not math.isnan(estimates["nll_nats"].value):
        yield f"NLL {interval_text(estimates['nll_nats'], 'nats')} nats."
    yield from not_known(report.conclusions)


def sweep_answer(points: Sequence[SweepPoint]) -> str | None:
    """Say what K views gain over view 0; None if the points do not show it."""
    last = points[-1]
    gain = last.group.estimates["ensemble_gain"]
    if last.k < 2 or math.isnan(gain.value):
        return None
    shown = "No change of accuracy shown"
    if gain.excludes_zero:
        shown = f"Views {'help' if gain.value > 0 else 'hurt'} accuracy"
    flips = interval_text(last.group.estimates["flip_rate"], "percent", "%")
    return (
        f"{shown}: {last.k} views - view 0 {interval_text(gain, 'points', ' points')}; the answer "
        f"to {flips} of the items changes with the order."
    )


def calibration_answer(name: str, effect: CalibrationEffect) -> str:
    """Say whether the temperatures help on a run, by the paired interval of NLL.

    Args:
        name: what the run is called.
        effect: scores before and after.
    """
    change = effect.groups[0].changes["nll_nats"]
    if not math.isnan(change.low):
        ends = f" [{change.low:+.3f}, {change.high:+.3f}] nats"
    else:
        ends = " nats" if change.reason is None else f" nats ({change.reason})"
    if not change.excludes_zero:
        found = "No effect on the probabilities shown"
    else:
        better = "better" if change.value < 0 else "worse"
        found = f"The probabilities get {better}"
    return f"{one_line(name)}: {found}: NLL {change.value:+.3f}{ends}."


def scorecard_answer(judged: JudgedHypotheses) -> str:
    """Say how many hypotheses are supported and contradicted, by value and as shown.

    Example:
        "2 of 5 hypotheses are supported (H1, H3), 1 of them shown (H1); ..."
    """
    results = judged.scorecard.results
    untested = [each.hypothesis.id for each in results if each.verdict == "UNTESTED"]
    supported = [each.hypothesis.id for each in results if each.verdict == "SUPPORTED"]
    against = [each.hypothesis.id for each in results if each.verdict == "CONTRADICTED"]
    proven = [each.hypothesis.id for each in results if each.shown == "supported"]
    refuted = [each.hypothesis.id for each in results if each.shown == "refuted"]
    said = (
        f"Of {len(results)} hypotheses, by value {_listed(supported, 'supported')} and "
        f"{_listed(against, 'contradicted')}, {_listed(untested, 'untested')}; "
        f"{_listed(proven, 'shown to hold')}, {_listed(refuted, 'shown to fail')}"
    )
    return f"{said}. {judged.registration.status.capitalize()}."


def _listed(ids: Sequence[str], what: str) -> str:
    named = f" ({one_line(', '.join(ids))})" if ids else ""
    return f"{len(ids)} {what}{named}"


def _notes(evaluation: Evaluation) -> Iterator[Line]:
    for note in evaluation.notes[:_MOST_NOTES]:
        yield Line(f"Note: {note_sentence(note)}", "caution")
    more = len(evaluation.notes) - _MOST_NOTES
    if more > 0:
        notes = "note: --full shows it" if more == 1 else "notes: --full shows them"
        yield Line(f"{more} more {notes}.", "caution")
