"""Drift between two runs, and between two logs without right answers."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

from pact_eval._choices import ClusterUnit
from pact_eval._json import Json
from pact_eval.drift.drift import AccuracyChange, AnswerChanges, Drift, MetricChange
from pact_eval.drift.pairs import ServedTempering, Tempering
from pact_eval.drift.unlabelled import LogSide, SameItems, Shift, UnlabelledDrift
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.data import after_leak
from pact_eval.evaluation.conclusions.order import CHANGES
from pact_eval.numbers import (
    CLUSTERS,
    GENERALISATION,
    UNDEFINED,
    estimate_text,
    interval_text,
    methods_text,
    p_value_number,
    p_value_text,
    plain_decoding,
    plain_units,
    value_text,
)
from pact_eval.plain_text import first_of, one_line
from pact_eval.runs.provenance import NAME as PROVENANCE_NAME
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.rate_differences import MixShift
from pact_eval.thresholds.checking import CheckedGate
from pact_eval.thresholds.gates import SIGNAL_NAMES, gate_text
from pact_reports.cases import STATUS_OF, CaseStatus, CiReport, data_case, gate_report, judged_case
from pact_reports.table import Cell, Column, ColumnOf, Line, Part, Table, make_table
from pact_reports.tables.cells import estimate_cell
from pact_reports.views.presenter import Brief, Fact, Presenter
from pact_reports.views.thresholds import NO_GUARANTEE, rate_cell, rule_text, verdict_text
from pact_reports.writers.json import answer_json, attributes, to_json, warnings_json


def present_drift(drift: Drift) -> Presenter:
    """Present the drift between two runs."""
    return Presenter(
        first=lambda: Brief([*drift_facts(drift)]),
        tables=partial(drift_tables, drift),
        to_json=partial(_json, drift),
        headline=lambda: [drift_answer(drift)],
        warnings=[*map(str, drift.warnings)],
        leak=lambda: drift.data.leak,
        ci=partial(drift_report, drift),
    )


def tempering_json(tempering: ServedTempering) -> dict[str, Json]:
    """Return the temperatures of a served run and a local run as JSON."""
    return attributes(tempering, "local", "served") | {"found": to_json(tempering.temperings)}


def _json(drift: Drift) -> dict[str, Json]:
    """Return the parts of a drift; those without a counterpart are null or empty."""
    first, second = (run.place for run in drift.runs)
    parts = ("pairing", "differences", "accuracy", "metrics", "answers", "distance", "gates", "mix")
    return {
        "answer": answer_json([drift.data]) | {"drift": drift_answer(drift)},
        "a": first,
        "b": second,
        "decoding": {**drift.settings.label},
        "intervals": GENERALISATION[drift.settings.unit],
        **attributes(drift, "finding", "views", *parts, temperatures="temperings"),
        "warnings": warnings_json(drift.warnings),
    }


_DOMAINS_SHOWN: Final = 12
_GATES_SHOWN: Final = 3
_Group = TypeVar("_Group")


def drift_facts(drift: Drift) -> Iterator[Fact]:
    """Yield the first screen on two runs, below the answer."""
    settings = drift.settings
    yield Fact("needed", _say_needed(drift) if drift.test.finding == "cannot tell" else "")
    for changes in drift.answers[:1]:
        counts = f"{changes.count:,} of {changes.items:,} changed"
        if changes.better is not None:
            both_wrong = f"{changes.both_wrong:,} wrong before and after"
            counts += f" ({changes.better:,} better, {changes.worse:,} worse, {both_wrong})"
        yield Fact("answers", counts)
    if drift.mix is not None:
        parts = _named_parts(drift.mix).items()
        texts = (f"{name} {value_text(part.value, 'points')} points" for name, part in parts)
        yield Fact("of this", ", ".join(texts))
    yield Fact("probabilities", "" if drift.distance is None else drift.distance.text)
    for gate in drift.gates[:_GATES_SHOWN]:
        text = f"{verdict_text(gate.after)} on B: {gate.after.seen(gate.target)}"
        yield Fact("threshold", one_line(f"{gate.after.group}: {text}"))
    differences = [*difference_sentences(drift)]
    more = f" {len(differences) - 1:,} more." if len(differences) > 1 else ""
    yield Fact("settings", f"{differences[0]}{more}" if differences else "", "caution")
    k = drift.views if settings.decoding == "ensemble" else 1
    runs = ", ".join(f"{name} = {run.title}" for name, run in zip("AB", drift.runs, strict=True))
    decoding = plain_decoding(k, settings.calibration_name)
    yield Fact("runs", one_line(f"{runs}; {decoding}; changes are B - A"))
    yield Fact("items", pairing_sentence(drift))


def drift_tables(drift: Drift) -> Iterator[Part]:
    """Yield the tables on the changes between two runs."""
    yield from (Line(text, "caution") for text in [*difference_sentences(drift)][1:])
    yield _accuracy_table(drift)
    if drift.answers:
        yield _answers_table(drift)
    if drift.mix is not None:
        yield from (_mix_table(drift.mix, drift.settings.unit), _domains_table(drift.mix))
    if drift.metrics:
        yield _metrics_table(drift)
    if drift.temperings:
        yield _temperatures_table(drift)
    if drift.gates:
        yield _gates_table(drift)


def _groups(groups: Sequence[_Group]) -> Sequence[_Group]:
    """Return the groups to show; a single group is all items once more."""
    return groups[:1] if len(groups) == 2 else groups


def _accuracy_table(drift: Drift) -> Table:
    """Lay out the change in accuracy against the margin: one row per group."""
    unit, margin = drift.settings.unit, value_text(drift.test.margin, "percent")
    method = methods_text((change.test.change for change in drift.accuracy), unit)

    def group(change: AccuracyChange) -> Cell:
        sizes = " / ".join(dict.fromkeys(f"{size:,}" for size in change.items))
        return Cell(change.group, below=f"{sizes}, {change.test.change.clusters:,}")

    return make_table(
        "drift-accuracy",
        _groups(drift.accuracy),
        (Column("items", "left", below=f"n, {CLUSTERS[unit]}"), group),
        ("A", lambda change: value_text(change.accuracies[0], "percent")),
        ("B", lambda change: value_text(change.accuracies[1], "percent")),
        ("B - A", lambda change: rate_cell(change.test.change, "points")),
        (Column(f"margin {margin}", "left"), lambda change: change.test.finding),
        title="Accuracy against the margin",
        caption=(
            f"Rates in %, changes in points; in brackets the {method}. Equivalent: it is within "
            "the margin. Changed: it is beyond it. All items decide."
        ),
        keys=1,
    )


def _answers_table(drift: Drift) -> Table:
    """Lay out the changed answers: one row per group."""
    method = methods_text((changes.changed for changes in drift.answers), drift.settings.unit)
    directions: list[ColumnOf[AnswerChanges]] = [
        ("better", lambda changes: f"{changes.better:,}"),
        ("worse", lambda changes: f"{changes.worse:,}"),
        ("both wrong", lambda changes: f"{changes.both_wrong:,}"),
    ]
    return make_table(
        "drift-answers",
        _groups(drift.answers),
        (Column("items", "left"), lambda changes: changes.group),
        ("n", lambda changes: changes.items),
        (Column("changed", below="%"), lambda changes: rate_cell(changes.changed)),
        *(directions if drift.has_references else ()),
        title="Answers that changed",
        caption=f"In brackets the {method}. Better: wrong in A, right in B.",
        keys=1,
    )


def _metrics_table(drift: Drift) -> Table:
    """Lay out metrics before and after."""
    method = methods_text((metric.change for metric in drift.metrics), drift.settings.unit)

    def side(metric: MetricChange, name: Literal["a", "b"]) -> Cell:
        estimate = getattr(metric, name)
        return estimate_cell(estimate, metric.spec.unit, reasons=False, test=False)

    return make_table(
        "drift-metrics",
        drift.metrics,
        (Column("all items", "left"), lambda metric: metric.spec.title),
        ("A", partial(side, name="a")),
        ("B", partial(side, name="b")),
        (
            "B - A",
            lambda metric: estimate_cell(metric.change, metric.spec.difference_unit, reasons=False),
        ),
        title="Before and after",
        caption=f"Rates in %, changes of rates in points; in brackets the {method}.",
        keys=1,
    )


def _temperatures_table(drift: Drift) -> Table:
    """Lay out fitted temperatures before and after: one row per kind."""

    def temperature(tempering: Tempering, name: Literal["a", "b", "ratio"]) -> Cell:
        estimate: Estimate = getattr(tempering, name)
        reason = estimate.reason if name == "ratio" else None
        if math.isnan(estimate.value):
            return Cell(UNDEFINED, reason=reason)
        ends = "" if math.isnan(estimate.low) else f"[{estimate.low:.2f}, {estimate.high:.2f}]"
        return Cell(f"{estimate.value:.2f}", interval=ends, reason=reason)

    return make_table(
        "drift-temperatures",
        _groups(drift.temperings),
        (Column("items", "left"), lambda tempering: tempering.kind),
        ("T of A", partial(temperature, name="a")),
        ("T of B", partial(temperature, name="b")),
        ("T of A / T of B", partial(temperature, name="ratio")),
        title="Calibration",
        caption=(
            "Temperatures fitted by NLL on the raw distributions of each run; 95% intervals over "
            f"{CLUSTERS[drift.settings.unit]}. The ratio is what the logits of B are divided by, "
            "if they are those of A."
        ),
        keys=1,
    )


def _gates_table(drift: Drift) -> Table:
    """Lay out the gates of thresholds on both runs: two rows per gate."""
    method = methods_text((gate.before.coverage for gate in drift.gates), drift.settings.unit)
    targets = dict.fromkeys(gate.target.limit for gate in drift.gates)
    decodings = dict.fromkeys(rule_text(gate.rule) for gate in drift.gates)
    rows: list[tuple[str, str, CheckedGate]] = []
    for gate in drift.gates:
        accepts = gate_text(gate.before.threshold, gate.rule.signal)
        rows.append((one_line(f"{gate.before.group}: {accepts}"), "A", gate.before))
        rows.append((SIGNAL_NAMES[gate.rule.signal], "B", gate.after))
    return make_table(
        "drift-gates",
        rows,
        (Column("gate", "left", below="on"), lambda row: row[0]),
        (Column("run", "left"), lambda row: row[1]),
        ("accepted", lambda row: rate_cell(row[2].coverage)),
        ("error of accepted", lambda row: rate_cell(row[2].error)),
        (Column("result", "left"), lambda row: verdict_text(row[2])),
        title="Gates before and after",
        caption=(
            f"Target: {'; '.join(targets)}; {'; '.join(decodings)}. Rates in %; in brackets the "
            f"{method}. Tested: one item of each family. A gate that is broken on B is a change."
        ),
        keys=2,
    )


def _mix_table(mix: MixShift, unit: ClusterUnit) -> Table:
    """Lay out the parts of a change in accuracy on other items."""
    parts = _named_parts(mix)
    cells = {name: rate_cell(part, "points") for name, part in parts.items()}
    cells["change in accuracy"] = Cell(value_text(mix.total, "points"))
    method = methods_text(parts.values(), unit)
    return make_table(
        "drift-mix",
        cells.items(),
        (Column("part", "left"), lambda row: row[0]),
        ("B - A", lambda row: row[1]),
        title="Where the change is from",
        caption=f"In points; the parts add up to the change. In brackets the {method}.",
        keys=1,
    )


def _domains_table(mix: MixShift) -> Table:
    """Lay out kinds and domains, those with the largest parts first."""
    omitted = len(mix.groups) - _DOMAINS_SHOWN
    more = f" {omitted:,} more; --json lists all." if omitted > 0 else ""

    def from_to(pair: tuple[float, float]) -> str:
        return " -> ".join(value_text(value, "percent") for value in pair)

    return make_table(
        "drift-domains",
        mix.groups[:_DOMAINS_SHOWN],
        (Column("kind, domain", "left"), lambda domain: one_line(domain.group)),
        (Column("share", below="A -> B"), lambda domain: from_to(domain.shares)),
        (Column("accuracy", below="A -> B"), lambda domain: from_to(domain.rates)),
        ("by share", lambda domain: value_text(domain.mix, "points")),
        ("by accuracy", lambda domain: value_text(domain.within, "points")),
        caption=f"Shares and accuracies in %, parts of the change in points.{more}",
        keys=1,
    )


def _named_parts(mix: MixShift) -> dict[str, Estimate]:
    parts = {
        "other shares of kinds and domains": mix.mix,
        "other accuracy within them": mix.within,
    }
    return parts if mix.same_groups else parts | {"kinds and domains of one run": mix.unshared}


def drift_answer(drift: Drift) -> str:
    """Write the leak, and whether two runs are equivalent."""
    broken, text = [gate.after.group for gate in drift.broken_gates], ""
    if broken:
        text = f"{counted(len(broken), 'threshold')} broken on B ({first_of(broken)}); "
    text = f"{drift.finding.capitalize()}: {text}{accuracy_change_text(drift)}."
    return after_leak(text, drift.data.leak)


def accuracy_change_text(drift: Drift) -> str:
    """Write the change in accuracy next to the margin."""
    test = drift.test
    margin = f"{value_text(test.margin, 'percent').removesuffix('.0')} points"
    if math.isnan(test.change.low):
        return f"accuracy {interval_text(test.change, 'points', ' points')}; the margin is {margin}"
    if not drift.has_references:
        most = value_text(test.change.high, "percent")
        return f"accuracy cannot have changed by more than {most} points, margin {margin}"
    change = f"accuracy {estimate_text(test.change, 'points')} points"
    if test.finding == "cannot tell":
        return f"{change}; the margin is {margin}"
    place = "within" if test.finding == "equivalent" else "beyond"
    return f"{change}, {place} the margin of {margin}"


def _say_needed(drift: Drift) -> str:
    needed, change = drift.test.needed, drift.test.change
    units = plain_units(drift.accuracy[0].items[0], change.clusters, drift.settings.unit)
    if math.isnan(change.low):
        return ""
    if needed is None:
        return f"the change is too close to the margin for any number of {units}"
    return f"about {needed:,} {units}; there are {change.clusters:,}"


def pairing_sentence(drift: Drift) -> str:
    """Write whether the items of two runs are the same, and the number left out."""
    pairing, (first, second) = drift.pairing, drift.pairing.unanswered
    without = ""
    if first or second:
        without = f" Without an answer: {first:,} items in A, {second:,} in B."
    if pairing.paired:
        left = pairing.only_a + pairing.only_b
        dropped = f" {left:,} items that only one run has answered are left out." if left else ""
        return f"The same {counted(pairing.common, 'item')}.{dropped}{without}"
    sizes = pairing.common + pairing.only_a, pairing.common + pairing.only_b
    return (
        f"Other items: {sizes[0]:,} in A, {sizes[1]:,} in B, {pairing.common:,} in both. Changed "
        f"answers and distances need the same items and are omitted.{without}"
    )


def difference_sentences(drift: Drift) -> Iterator[str]:
    """Yield the different settings of two runs: intended changes, and others."""
    for difference in drift.differences:
        yield f"Another {difference.words}: {difference.before} in A, {difference.after} in B."


def drift_report(drift: Drift) -> CiReport:
    """Return the cases of a gate on drift: the data, accuracy, and each gate on the second run."""
    second = drift.runs[1].folder / PROVENANCE_NAME
    finding = STATUS_OF[drift.test.finding]
    needed = _say_needed(drift) if finding == "cannot tell" else ""
    accuracy = f"{accuracy_change_text(drift)}{needed and f'; needed: {needed}'}"
    cases = [
        data_case(drift.data, second),
        judged_case("accuracy", "accuracy", finding, accuracy, second),
    ]
    for change in drift.gates:
        status: CaseStatus = "failed" if change.broken else "passed"
        text = f"{change.after.verdict} on B: {change.after.seen(change.target)}"
        if change.after.threshold is None:
            status, text = "skipped", NO_GUARANTEE
        name = f"gate {change.after.group} of {change.file}"
        cases.append(judged_case("gate", name, status, text, change.file))
    warnings = map(str, drift.warnings)
    return gate_report("pact-eval compare --gate", drift_answer(drift), cases, warnings)


_MOST_SHIFTS: Final = 2


def present_unlabelled_drift(drift: UnlabelledDrift) -> Presenter:
    """Present the drift between two logs."""

    def cases() -> CiReport:
        text, log = drift_sentence(drift), Path(drift.logs[1].place)
        case = judged_case("drift", "drift", STATUS_OF[drift.finding], text, log)
        return gate_report("pact-eval drift", text, [case], map(str, drift.warnings))

    def as_json() -> dict[str, Json]:
        parts = ("names", "items", "families", "same", "shifts", "below", "to_label")
        of_logs = ("logs", "prompts") if drift.logs else ()
        numbers = attributes(drift, "finding", *parts, *of_logs)
        return numbers | {"warnings": warnings_json(drift.warnings)}

    return Presenter(
        headline=lambda: [drift_sentence(drift)],
        first=lambda: Brief([*_log_facts(drift)]),
        tables=partial(_log_tables, drift),
        to_json=as_json,
        warnings=[*map(str, drift.warnings)],
        ci=cases if drift.logs else None,
    )


def drift_sentence(drift: UnlabelledDrift) -> str:
    """Write whether two logs differ, and in what most."""
    if drift.finding == "too few to tell":
        return f"TOO FEW TO TELL: {min(drift.families)} independent items in a log."
    if drift.finding == "no change shown":
        said = f"NO CHANGE SHOWN between {drift.names[0]} and {drift.names[1]}"
        same = drift.same
        if same is None or not same.ids or not math.isnan(same.noise):
            return f"{said}."
        differ = f"the answers to {counted(len(same.ids), 'item')} differ"
        most = f"not shown to be above {100 * CHANGES:g}%, and none was asked again"
        return one_line(f"{said}: {differ}, {most}.")
    parts = []
    if drift.same is not None and drift.same.shown:
        parts.append(changed_text(drift.same))
    parts += [shift_text(shift, drift.below) for shift in drift.shown[: 1 if parts else 2]]
    return one_line(f"CHANGED: {'; '.join(parts)}.")


def changed_text(same: SameItems) -> str:
    """Write how many answers to the same items changed, next to those that asking again changes."""
    changed = f"{estimate_text(same.changed, 'percent')}% of answers to the same items are others"
    if math.isnan(same.noise):
        return changed
    return f"{changed}, {value_text(same.noise, 'percent')}% by asking again"


def shift_text(shift: Shift, below: float | None) -> str:
    """Write a share or a mean before and after.

    Example:
        "answer refund: 31.0% to 44.0% (p < 0.001)"
    """
    ends = " to ".join(f"{value_text(at, 'percent')}%" for at in (shift.before, shift.after))
    return f"{shift_name(shift, below)}: {ends} ({p_value_text(shift.p)})"


def shift_name(shift: Shift, below: float | None) -> str:
    """Name what is compared."""
    match shift.what:
        case "confidence":
            return "mean confidence"
        case "below":
            return f"answers below {100 * (below or 0):g}%"
        case "unanswered":
            return "without an answer"
        case "question":
            return f"items of question {shift.name}"
        case "answer":
            asked = f" to {shift.question}" if shift.question else ""
            return f"answer {shift.name}{asked}"


def _log_facts(drift: UnlabelledDrift) -> Iterator[Fact]:
    """Yield the first screen below the sentence: at most ten lines."""
    same, shown = drift.same, drift.shown
    if same is not None:
        yield Fact("same items", f"{changed_text(same)}; {same.items:,} items in both")
    for shift in shown[:_MOST_SHIFTS]:
        yield Fact("shown", shift_text(shift, drift.below))
    always = {"unanswered", "confidence", "below"}
    others = [s for s in drift.shifts if s.what in always and s not in shown[:_MOST_SHIFTS]]
    yield Fact("others", "; ".join(shift_text(shift, drift.below) for shift in others))
    yield from _service(drift)
    sizes = " and ".join(f"{n:,}" for n in drift.items)
    tested = f"{counted(len(drift.shifts), 'number')} tested together, {len(shown)} shown"
    yield Fact("compared", f"{sizes} items; {tested}")
    yield Fact("not known", _unknown(drift))
    labelled = [log for log in drift.logs if log.labelled]
    if labelled:
        where = "in both logs" if len(labelled) == 2 else f"in {labelled[0].place}"
        before, after = (log.place for log in drift.logs)
        words = (
            ["compare", after, before, "--not-worse", "2"] if same else ["report", before, after]
        )
        yield Fact("not used", one_line(f"right answers {where}: pact-eval {shlex.join(words)}"))


def _service(drift: UnlabelledDrift) -> Iterator[Fact]:
    """Yield what is known of the models and requests of two logs."""
    if not drift.logs:
        return
    models = [log.model for log in drift.logs]
    if models[0] != models[1]:
        first, second = (model or "not known" for model in models)
        yield Fact("model", one_line(f"{first}, then {second}"), "caution")
    else:
        yield Fact("model", one_line(models[0] or ""))
    others = ", ".join(name or "the only question" for name in drift.prompts)
    yield Fact("prompt", one_line(f"another text: {others}") if others else "", "caution")
    yield Fact("service", "; ".join(_measured(*drift.logs)))


def _measured(*logs: LogSide) -> Iterator[str]:
    """Yield latency, price and replies without an answer, if a log has any."""
    latencies = ["{:,.0f} ms (95%: {:,.0f})".format(*log.latency_ms) for log in logs]
    for name, texts in (
        ("latency", latencies),
        ("price of an answer", [f"{log.price:.3g}" for log in logs]),
    ):
        known = [text if "nan" not in text else "not known" for text in texts]
        if {*known} != {"not known"}:
            yield f"{name} {' to '.join(known)}"
    if any(log.refused for log in logs):
        shares = (f"{value_text(log.refused, 'percent')}%" for log in logs)
        yield f"refused {' to '.join(shares)}"


def _unknown(drift: UnlabelledDrift) -> str:
    """Say what no log without right answers says, and what would say it."""
    same = drift.same
    if same is None:
        known = f"right answers of {drift.to_label:,} items of each log would show 5 points"
        return f"whether answers are right; {known}"
    most = value_text(same.changed.value, "percent")
    known = f"accuracy on the same items moved by at most {most} points"
    if same.ids:
        changed = counted(len(same.ids), "item")
        known += f", and right answers of the {changed} that changed say which way"
    return f"whether answers are right; {known}"


def _log_tables(drift: UnlabelledDrift) -> Iterator[Part]:
    """Yield every number that was compared."""

    def p_value(shift: Shift) -> Cell:
        return Cell(p_value_number(shift.p), mark="significant" if shift.shown else None)

    yield make_table(
        "drift-shifts",
        drift.shifts,
        (Column("compared", "left"), lambda shift: one_line(shift_name(shift, drift.below))),
        ("before", lambda shift: value_text(shift.before, "percent")),
        ("after", lambda shift: value_text(shift.after, "percent")),
        ("change", lambda shift: estimate_cell(shift.change, "points", reasons=False)),
        ("p", p_value),
        title="Two logs without right answers",
        caption=(
            "In %, changes in points; in brackets 95% t intervals over groups that belong "
            "together; p of permutations over them, adjusted for all rows (Holm)."
        ),
        keys=1,
    )
    if drift.same is not None and drift.same.ids:
        yield Line(one_line(f"Changed: {', '.join(drift.same.ids)}"))
