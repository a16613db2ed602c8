"""The answer first: what a command found, in one sentence or in ten lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pact_eval.evaluation import (
    PLANNED_DIFFERENCE,
    ArmDifference,
    ArmPair,
    CalibrationError,
    ComparisonAnswer,
    DecodedComparison,
    DecodedRates,
    Evaluation,
    MetricComparison,
    OrderEffect,
    RunReport,
    SweepPoint,
)
from pact_reports.arm_names import KEYS, ArmNames
from pact_reports.numbers import (
    CLUSTERS,
    estimate_parts,
    has_width,
    interval_text,
    p_value_text,
    value_text,
)
from pact_reports.plain_text import one_line
from pact_reports.sentences.notes import note_sentence
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.cells import estimate_cell
from pact_reports.tables.order_audit import order_sentence
from pact_reports.tables.report import letter_verdict

if TYPE_CHECKING:  # a report waits neither for what fits calibrators nor for what judges
    from pact_eval.calibration import CalibrationEffect
    from pact_eval.preregistration import JudgedHypotheses

NOT_SHOWN: Final = "No accuracy difference shown"
"""The finding of an answer if neither run, or arm, is shown to be better."""

_MOST_NOTES: Final = 3


@dataclass(frozen=True)
class Said:
    """An answer in words: what was found, and the numbers behind it."""

    finding: str
    numbers: str

    def __str__(self) -> str:
        return f"{self.finding}: {self.numbers}"


def comparison_answer(answer: ComparisonAnswer, names: tuple[str, str]) -> Said:
    """Say whether A is better than B, with the difference at view 0 and over K views.

    Args:
        answer: of the comparison.
        names: what the two runs are called.

    Example:
        "No accuracy difference shown: pact - base +0.3 points [-3.4, +4.0] (view 0), ..."
    """
    a, b = map(one_line, names)
    chosen, views = answer.chosen, answer.by_views
    accuracy = ", ".join(
        _decoded(each.accuracy, each, word=not at) for at, each in enumerate(views)
    )
    said = f"{a} - {b} {accuracy}"
    if not math.isnan(chosen.pair_accuracy.difference.value):
        pairs = ", ".join(_decoded(each.pair_accuracy, each, word=False) for each in views)
        said += f"; pair accuracy {pairs}"
    return Said(_finding(chosen.accuracy, a, b), f"{said}. {_power(chosen)}".rstrip())


def _finding(accuracy: MetricComparison | ArmDifference, a: str, b: str) -> str:
    """Say what is shown of a difference in accuracy."""
    value = accuracy.difference if isinstance(accuracy, MetricComparison) else accuracy.same_seeds
    if not accuracy.marked:
        return NOT_SHOWN
    direction = "more" if value.value > 0 else "less"
    p_value = accuracy.evidence.adjusted_p_value or accuracy.evidence.p_value
    return f"{a} is {direction} accurate than {b} ({p_value_text(p_value)})"


def _decoded(metric: MetricComparison, each: DecodedComparison, *, word: bool) -> str:
    difference, unit = metric.difference, " points" if word else ""
    if has_width(difference):
        value, interval = estimate_parts(difference, "points")
        return f"{value}{unit} {interval} ({_views(each.k)})"
    return f"{interval_text(difference, 'points', unit)} ({_views(each.k)})"


def _views(k: int) -> str:
    return "view 0" if k == 1 else f"{k} views"


def _power(chosen: DecodedComparison) -> str:
    """Say which difference this holdout shows, and how many items a small one would need."""
    planned = value_text(PLANNED_DIFFERENCE, "percent").removesuffix(".0")
    needed = ""
    if chosen.needed is not None:
        about = "at least" if chosen.at_least else "about"
        needed = f"{planned} points would need {about} {_about(chosen.needed)} items"
    if math.isnan(chosen.detectable.value):
        return f"{needed}." if needed else ""
    detectable = value_text(chosen.detectable.value, "percent")
    if not needed or chosen.detectable.value <= PLANNED_DIFFERENCE:
        return f"Detectable here: {detectable} points."
    return f"Detectable here: {detectable} points; {needed}."


def _about(number: int) -> str:
    """Round to two digits.

    Example:
        >>> _about(2688), _about(97)
        ('2,700', '97')
    """
    digits = max(0, len(str(number)) - 2)
    return f"{round(number, -digits):,}"


def arms_answer(pair: ArmPair, names: ArmNames = KEYS) -> Said:
    """Say whether the first arm is better than the second over the seeds that both have."""
    found = pair.differences["all"]
    accuracy = found["accuracy"]
    a, b = one_line(names.arm(pair.a)), one_line(names.arm(pair.b))
    seeds = "1 seed" if len(pair.seeds) == 1 else f"{len(pair.seeds)} seeds"
    said = f"{a} - {b} {interval_text(accuracy.same_seeds, 'points')} points over {seeds}"
    pairs = found["pair_accuracy"]
    if not math.isnan(pairs.same_seeds.value):
        said += f"; pair accuracy {interval_text(pairs.same_seeds, 'points')}"
    tested = f"Tested for {accuracy.generalises_to}."
    return Said(_finding(accuracy, a, b), f"{said}. {tested}")


def headline_parts(report: RunReport, names: ArmNames = KEYS) -> tuple[Part, ...]:
    """Lay out what a report found in about ten lines.

    Args:
        report: of a run on full contexts.
        names: display names of arms.

    Returns:
        The run; accuracy and pair accuracy by decoding; letters, order, calibration,
        notes; the command that prints all tables.
    """
    evaluation = report.evaluation
    return (
        Line(_run(report, names), "strong"),
        _rates_table(evaluation, report.rates),
        *(Line(text) for text in _findings(evaluation, report.order)),
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
    made = f"K = {evaluation.k}; {evaluation.decoding}, {evaluation.calibration}"
    return one_line(f"{report.run.place}: {f'{named}; ' if named else ''}{basis}, {made}")


def _rates_table(evaluation: Evaluation, rates: Sequence[DecodedRates]) -> Table:
    flips = evaluation.groups[0].estimates["flip_rate"]
    rows = {
        "Accuracy": [each.accuracy for each in rates],
        "Pair accuracy": [each.pair_accuracy for each in rates],
    }
    lines = [
        Row((Cell(title), *(estimate_cell(each, "percent", reasons=False) for each in found)))
        for title, found in rows.items()
        if not math.isnan(found[0].value)
    ]
    if evaluation.k > 1:
        cell = estimate_cell(flips, "percent", reasons=False)
        blank = [Cell("")] * (len(rates) - 1)
        lines.append(Row((Cell("Flip rate"), *blank, cell)))
    return Table(
        name="headline",
        title="",
        caption="",
        columns=(Column("%", "left"), *(Column(_views(each.k), "left") for each in rates)),
        rows=tuple(lines),
        keys=1,
    )


def _findings(evaluation: Evaluation, effect: OrderEffect) -> Iterator[str]:
    if evaluation.letters is not None:
        yield letter_verdict(evaluation.letters, evaluation.unit, basis=False)
    order = order_sentence(effect)
    if order is not None:
        yield order
    estimates = evaluation.groups[0].estimates
    if not math.isnan(estimates["nll_nats"].value):
        yield f"NLL {interval_text(estimates['nll_nats'], 'nats')} nats."
    error = estimates["ece"]
    if isinstance(error, CalibrationError) and not math.isnan(error.value):
        yield calibration_verdict(error)


def calibration_verdict(error: CalibrationError) -> str:
    """Say whether ECE is above what a calibrated model shows by chance."""
    found = "shown" if error.rejected else "not shown"
    ece, floor, high = (
        value_text(each, "percent") for each in (error.value, error.floor, error.floor_high)
    )
    return (
        f"Miscalibration {found}: ECE {ece}%; a calibrated model with these confidences has "
        f"{floor}% on average, up to {high}% ({p_value_text(error.p_value)})."
    )


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
        f"to {flips} of the items depends on the letters."
    )


def calibration_answer(name: str, effect: CalibrationEffect) -> str:
    """Say whether the temperatures help on a run, by the paired interval of NLL.

    Args:
        name: what the run is called.
        effect: scores before and after.
    """
    change = effect.groups[0].changes["nll_nats"]
    ends = "" if math.isnan(change.low) else f" [{change.low:+.3f}, {change.high:+.3f}]"
    if not change.excludes_zero:
        found = "No effect on the probabilities shown"
    else:
        better = "better" if change.value < 0 else "worse"
        found = f"The probabilities get {better}"
    return f"{one_line(name)}: {found}: NLL {change.value:+.3f}{ends} nats."


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
