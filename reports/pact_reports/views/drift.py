"""Drift between two runs: sentences, tables, JSON and gate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from pact_eval._choices import ClusterUnit
from pact_eval._json import Json
from pact_eval.drift.drift import (
    AccuracyChange,
    AnswerChanges,
    Drift,
    GateChange,
    MetricChange,
)
from pact_eval.drift.pairs import ServedTempering, Tempering
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.data import after_leak
from pact_eval.numbers import (
    CLUSTERS,
    GENERALISATION,
    UNDEFINED,
    estimate_text,
    interval_text,
    methods_text,
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
from pact_reports.table import Cell, Column, Line, Part, Table, columns_and_rows, table_row
from pact_reports.tables.cells import estimate_cell
from pact_reports.views.brief import Brief, Fact
from pact_reports.views.presenter import Presenter
from pact_reports.views.thresholds import NO_GUARANTEE, rule_text, verdict_text
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
    parts = ("pairing", "differences", "accuracy", "metrics", "answers", "distance")
    return {
        "answer": answer_json([drift.data]) | {"drift": drift_answer(drift)},
        "a": first,
        "b": second,
        "finding": drift.finding,
        "decoding": {**drift.settings.label},
        "views": drift.views,
        "intervals": GENERALISATION[drift.settings.unit],
        **attributes(drift, *parts),
        "temperatures": to_json(drift.temperings),
        **attributes(drift, "gates", "mix"),
        "warnings": warnings_json(drift.warnings),
    }


_DOMAINS_SHOWN: Final = 12
_GATES_SHOWN: Final = 3
_Group = TypeVar("_Group")


def drift_facts(drift: Drift) -> Iterator[Fact]:
    """Yield the first screen on two runs, below the answer."""
    settings, test = drift.settings, drift.test
    yield Fact("needed", _say_needed(drift) if test.finding == "cannot tell" else "")
    if drift.answers:
        yield Fact("answers", _say_answers(drift.answers[0]))
    if drift.mix is not None:
        yield Fact("of this", ", ".join(_parts_of_change(drift.mix)))
    yield Fact("probabilities", "" if drift.distance is None else drift.distance.text)
    for gate in drift.gates[:_GATES_SHOWN]:
        text = f"{verdict_text(gate.after)} on B: {gate.after.seen(gate.target)}"
        yield Fact("threshold", one_line(f"{gate.after.group}: {text}"))
    differences = [*difference_sentences(drift)]
    more = f" {len(differences) - 1:,} more." if len(differences) > 1 else ""
    yield Fact("settings", f"{differences[0]}{more}" if differences else "", "caution")
    k = drift.views if settings.decoding == "ensemble" else 1
    names = [f"{name} = {run.title}" for name, run in zip("AB", drift.runs, strict=True)]
    decoding = plain_decoding(k, settings.calibration_name)
    yield Fact("runs", one_line(f"{', '.join(names)}; {decoding}; changes are B - A"))
    yield Fact("items", pairing_sentence(drift))


def drift_tables(drift: Drift) -> Iterator[Part]:
    """Yield the tables on the changes between two runs."""
    unit = drift.settings.unit
    yield from (Line(text, "caution") for text in [*difference_sentences(drift)][1:])
    yield accuracy_table(drift)
    if drift.answers:
        yield answers_table(drift)
    if drift.mix is not None:
        yield from (mix_table(drift.mix, unit), domains_table(drift.mix))
    if drift.metrics:
        yield metrics_table(drift)
    if drift.temperings:
        yield temperatures_table(drift)
    if drift.gates:
        yield gates_table(drift)


def _groups(groups: Sequence[_Group]) -> Sequence[_Group]:
    """Return the groups to show; a single group is all items once more."""
    return groups[:1] if len(groups) == 2 else groups


def accuracy_table(drift: Drift) -> Table:
    """Lay out the change in accuracy against the margin: one row per group."""
    unit, margin = drift.settings.unit, value_text(drift.test.margin, "percent")
    method = methods_text((change.test.change for change in drift.accuracy), unit)
    caption = (
        f"Rates in %, changes in points; in brackets the {method}. Equivalent: it is within the "
        "margin. Changed: it is beyond it. All items decide."
    )
    layout = columns_and_rows(
        _groups(drift.accuracy),
        (Column("items", "left", below=f"n, {CLUSTERS[unit]}"), _group_cell),
        ("A", lambda change: value_text(change.accuracies[0], "percent")),
        ("B", lambda change: value_text(change.accuracies[1], "percent")),
        ("B - A", lambda change: estimate_cell(change.test.change, "points", reasons=False)),
        (Column(f"margin {margin}", "left"), lambda change: change.test.finding),
    )
    return Table("drift-accuracy", "Accuracy against the margin", caption, *layout, keys=1)


def _group_cell(change: AccuracyChange) -> Cell:
    sizes = dict.fromkeys(f"{size:,}" for size in change.items)
    return Cell(change.group, below=f"{' / '.join(sizes)}, {change.test.change.clusters:,}")


def answers_table(drift: Drift) -> Table:
    """Lay out the changed answers: one row per group."""
    method = methods_text((changes.changed for changes in drift.answers), drift.settings.unit)
    layout = columns_and_rows(
        _groups(drift.answers),
        (Column("items", "left"), lambda changes: changes.group),
        ("n", lambda changes: f"{changes.items:,}"),
        (
            Column("changed", below="%"),
            lambda changes: estimate_cell(changes.changed, "percent", reasons=False),
        ),
        *(_DIRECTIONS if drift.has_references else ()),
    )
    caption = f"In brackets the {method}. Better: wrong in A, right in B."
    return Table("drift-answers", "Answers that changed", caption, *layout, keys=1)


_DIRECTIONS: Final[tuple[tuple[str, Callable[[AnswerChanges], str]], ...]] = (
    ("better", lambda changes: f"{changes.better:,}"),
    ("worse", lambda changes: f"{changes.worse:,}"),
    ("both wrong", lambda changes: f"{changes.both_wrong:,}"),
)


def metrics_table(drift: Drift) -> Table:
    """Lay out metrics before and after."""
    method = methods_text((metric.change for metric in drift.metrics), drift.settings.unit)

    def side(metric: MetricChange, estimate: Estimate) -> Cell:
        return estimate_cell(estimate, metric.spec.unit, reasons=False, test=False)

    def change(metric: MetricChange) -> Cell:
        return estimate_cell(metric.change, metric.spec.difference_unit, reasons=False)

    layout = columns_and_rows(
        drift.metrics,
        (Column("all items", "left"), lambda metric: metric.spec.title),
        ("A", lambda metric: side(metric, metric.a)),
        ("B", lambda metric: side(metric, metric.b)),
        ("B - A", change),
    )
    caption = f"Rates in %, changes of rates in points; in brackets the {method}."
    return Table("drift-metrics", "Before and after", caption, *layout, keys=1)


def temperatures_table(drift: Drift) -> Table:
    """Lay out fitted temperatures before and after: one row per kind."""
    layout = columns_and_rows(
        _groups(drift.temperings),
        (Column("items", "left"), lambda tempering: tempering.kind),
        ("T of A", lambda tempering: _temperature(tempering.a)),
        ("T of B", lambda tempering: _temperature(tempering.b)),
        ("T of A / T of B", _ratio_cell),
    )
    intervals = f"95% intervals over {CLUSTERS[drift.settings.unit]}"
    caption = (
        f"Temperatures fitted by NLL on the raw distributions of each run; {intervals}. The ratio "
        "is what the logits of B are divided by, if they are those of A."
    )
    return Table("drift-temperatures", "Calibration", caption, *layout, keys=1)


def _ratio_cell(tempering: Tempering) -> Cell:
    return replace(_temperature(tempering.ratio), reason=tempering.ratio.reason)


def _temperature(estimate: Estimate) -> Cell:
    if math.isnan(estimate.value):
        return Cell(UNDEFINED)
    interval = ""
    if not math.isnan(estimate.low):
        interval = f"[{estimate.low:.2f}, {estimate.high:.2f}]"
    return Cell(f"{estimate.value:.2f}", interval=interval)


def gates_table(drift: Drift) -> Table:
    """Lay out the gates of thresholds on both runs: one row per gate."""
    method = methods_text((gate.before.coverage for gate in drift.gates), drift.settings.unit)
    targets = dict.fromkeys(gate.target.limit for gate in drift.gates)
    decodings = dict.fromkeys(rule_text(gate.rule) for gate in drift.gates)
    caption = (
        f"Target: {'; '.join(targets)}; {'; '.join(decodings)}. Rates in %; in brackets the "
        f"{method}. Tested: one item of each family. A gate that is broken on B is a change."
    )
    layout = columns_and_rows(
        (row for gate in drift.gates for row in _gate_rows(gate)),
        (Column("gate", "left", below="on"), lambda row: row[0]),
        (Column("run", "left"), lambda row: row[1]),
        ("accepted", lambda row: estimate_cell(row[2].coverage, "percent", reasons=False)),
        ("error of accepted", lambda row: estimate_cell(row[2].error, "percent", reasons=False)),
        (Column("result", "left"), lambda row: verdict_text(row[2])),
    )
    return Table("drift-gates", "Gates before and after", caption, *layout, keys=2)


def _gate_rows(gate: GateChange) -> Iterator[tuple[str, str, CheckedGate]]:
    """Yield the gate on A and on B, each with its name and that of the run."""
    accepts = gate_text(gate.before.threshold, gate.rule.signal)
    yield one_line(f"{gate.before.group}: {accepts}"), "A", gate.before
    yield SIGNAL_NAMES[gate.rule.signal], "B", gate.after


def mix_table(mix: MixShift, unit: ClusterUnit) -> Table:
    """Lay out the parts of a change in accuracy on other items."""
    parts = _named_parts(mix)
    cells = {name: estimate_cell(part, "points", reasons=False) for name, part in parts.items()}
    cells["change in accuracy"] = Cell(value_text(mix.total, "points"))
    method = methods_text(parts.values(), unit)
    caption = f"In points; the parts add up to the change. In brackets the {method}."
    columns = (Column("part", "left"), Column("B - A"))
    rows = tuple(table_row(name, cell) for name, cell in cells.items())
    return Table("drift-mix", "Where the change is from", caption, columns, rows, keys=1)


def domains_table(mix: MixShift) -> Table:
    """Lay out kinds and domains, those with the largest parts first."""
    shown = mix.groups[:_DOMAINS_SHOWN]
    layout = columns_and_rows(
        shown,
        (Column("kind, domain", "left"), lambda domain: one_line(domain.group)),
        (Column("share", below="A -> B"), lambda domain: _from_to(domain.shares)),
        (Column("accuracy", below="A -> B"), lambda domain: _from_to(domain.rates)),
        ("by share", lambda domain: value_text(domain.mix, "points")),
        ("by accuracy", lambda domain: value_text(domain.within, "points")),
    )
    omitted = len(mix.groups) - len(shown)
    more = f" {omitted:,} more; --json lists all." if omitted else ""
    caption = f"Shares and accuracies in %, parts of the change in points.{more}"
    return Table("drift-domains", "", caption, *layout, keys=1)


def _from_to(pair: tuple[float, float]) -> str:
    return " -> ".join(value_text(value, "percent") for value in pair)


def _named_parts(mix: MixShift) -> dict[str, Estimate]:
    parts = {
        "other shares of kinds and domains": mix.mix,
        "other accuracy within them": mix.within,
    }
    return parts if mix.same_groups else parts | {"kinds and domains of one run": mix.unshared}


def _parts_of_change(mix: MixShift) -> Iterator[str]:
    for name, part in _named_parts(mix).items():
        yield f"{name} {value_text(part.value, 'points')} points"


def drift_answer(drift: Drift) -> str:
    """Write the leak, and whether two runs are equivalent."""
    broken = [gate.after.group for gate in drift.broken_gates]
    parts = []
    if broken:
        parts.append(f"{counted(len(broken), 'threshold')} broken on B ({first_of(broken)})")
    parts.append(accuracy_change_text(drift))
    return after_leak(f"{drift.finding.capitalize()}: {'; '.join(parts)}.", drift.data.leak)


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


def _say_answers(changes: AnswerChanges) -> str:
    counted = f"{changes.count:,} of {changes.items:,} changed"
    if changes.better is None:
        return counted
    both_wrong = f"{changes.both_wrong:,} wrong before and after"
    return f"{counted} ({changes.better:,} better, {changes.worse:,} worse, {both_wrong})"


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
