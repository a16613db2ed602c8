"""Drift: accuracy and a margin, changed answers, calibration, gates, and shifts of the mix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from pact_eval._choices import ClusterUnit
from pact_eval.drift.drift import AccuracyChange, AnswerChanges, Drift, GateChange
from pact_eval.drift.mix import Mix
from pact_eval.drift.tempering import Tempering
from pact_eval.numbers import CLUSTERS, UNDEFINED, methods_text, value_text
from pact_eval.plain_text import one_line
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.signals import SIGNAL_NAMES, gate_text
from pact_reports.sentences.drift import (
    difference_sentences,
    distance_sentence,
    pairing_sentence,
)
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.cells import estimate_cell
from pact_reports.tables.thresholds import rule_text

_DOMAINS_SHOWN: Final = 12
_Group = TypeVar("_Group")


def drift_parts(drift: Drift) -> list[Part]:
    """Lay out the changes between two runs, without the answer.

    Args:
        drift: of both runs.
    """
    settings = drift.settings
    k = f" of {drift.views} views" if settings.decoding == "ensemble" else ""
    parts: list[Part] = [
        *(
            Line(one_line(f"{letter} = {run.title}"), "strong")
            for letter, run in zip("AB", drift.runs, strict=True)
        ),
        Line(f"{settings.decoding}{k}, {settings.calibration_name}; changes are B - A."),
        Line(pairing_sentence(drift)),
        *(Line(text, "caution") for text in difference_sentences(drift)),
        accuracy_table(drift),
    ]
    parts += _answers(drift)
    if drift.mix is not None:
        parts += [mix_table(drift.mix, settings.unit), domains_table(drift.mix)]
    if drift.metrics:
        parts.append(metrics_table(drift))
    if drift.temperings:
        parts.append(temperatures_table(drift))
    if drift.gates:
        parts.append(gates_table(drift))
    return parts


def _answers(drift: Drift) -> Iterator[Part]:
    if drift.answers:
        yield answers_table(drift)
    sentence = distance_sentence(drift)
    if sentence is not None:
        yield Line(sentence)


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
    columns = (
        Column("items", "left", below=f"n, {CLUSTERS[unit]}"),
        Column("A"),
        Column("B"),
        Column("B - A"),
        Column(f"margin {margin}", "left"),
    )
    rows = tuple(Row(_accuracy_cells(change)) for change in _groups(drift.accuracy))
    return Table("drift-accuracy", "Accuracy against the margin", caption, columns, rows, keys=1)


def _accuracy_cells(change: AccuracyChange) -> tuple[Cell, ...]:
    test = change.test
    sizes = list(dict.fromkeys(f"{size:,}" for size in change.items))
    return (
        Cell(change.group, below=f"{' / '.join(sizes)}, {test.change.clusters:,}"),
        *(Cell(value_text(value, "percent")) for value in change.accuracies),
        estimate_cell(test.change, "points", reasons=False),
        Cell(test.finding),
    )


def answers_table(drift: Drift) -> Table:
    """Lay out the changed answers: one row per group."""
    unit = drift.settings.unit
    method = methods_text((changes.changed for changes in drift.answers), unit)
    directions = (Column("better"), Column("worse"), Column("both wrong"))
    columns = (
        Column("items", "left"),
        Column("n"),
        Column("changed", below="%"),
        *(directions if drift.has_references else ()),
    )
    caption = f"In brackets the {method}. Better: wrong in A, right in B."
    rows = tuple(Row(_answer_cells(changes)) for changes in _groups(drift.answers))
    return Table("drift-answers", "Answers that changed", caption, columns, rows, keys=1)


def _answer_cells(changes: AnswerChanges) -> tuple[Cell, ...]:
    counts = (changes.better, changes.worse, changes.both_wrong)
    return (
        Cell(changes.group),
        Cell(f"{changes.items:,}"),
        estimate_cell(changes.changed, "percent", reasons=False),
        *(Cell(f"{count:,}") for count in counts if count is not None),
    )


def metrics_table(drift: Drift) -> Table:
    """Lay out metrics before and after."""
    unit = drift.settings.unit
    method = methods_text((metric.change for metric in drift.metrics), unit)
    rows = tuple(
        Row(
            (
                Cell(metric.spec.title),
                *(
                    estimate_cell(estimate, metric.spec.unit, reasons=False, test=False)
                    for estimate in (metric.a, metric.b)
                ),
                estimate_cell(metric.change, metric.spec.difference_unit, reasons=False),
            )
        )
        for metric in drift.metrics
    )
    columns = (Column("all items", "left"), Column("A"), Column("B"), Column("B - A"))
    caption = f"Rates in %, changes of rates in points; in brackets the {method}."
    return Table("drift-metrics", "Before and after", caption, columns, rows, keys=1)


def temperatures_table(drift: Drift) -> Table:
    """Lay out fitted temperatures before and after: one row per kind."""
    columns = (
        Column("items", "left"),
        Column("T of A"),
        Column("T of B"),
        Column("T of A / T of B"),
    )
    rows = tuple(
        Row(
            (
                Cell(tempering.kind),
                *map(_temperature, (tempering.a, tempering.b)),
                _ratio_cell(tempering),
            )
        )
        for tempering in _groups(drift.temperings)
    )
    intervals = f"95% intervals over {CLUSTERS[drift.settings.unit]}"
    caption = (
        f"Temperatures fitted by NLL on the raw distributions of each run; {intervals}. The ratio "
        "is what the logits of B are divided by, if they are those of A."
    )
    return Table("drift-temperatures", "Calibration", caption, columns, rows, keys=1)


def _temperature(estimate: Estimate) -> Cell:
    if math.isnan(estimate.value):
        return Cell(UNDEFINED)
    interval = ""
    if not math.isnan(estimate.low):
        interval = f"[{estimate.low:.2f}, {estimate.high:.2f}]"
    return Cell(f"{estimate.value:.2f}", interval=interval)


def _ratio_cell(tempering: Tempering) -> Cell:
    return replace(_temperature(tempering.ratio), reason=tempering.ratio.reason)


def gates_table(drift: Drift) -> Table:
    """Lay out the gates of thresholds on both runs: one row per gate."""
    unit = drift.settings.unit
    method = methods_text((gate.before.coverage for gate in drift.gates), unit)
    targets = dict.fromkeys(gate.target.text for gate in drift.gates)
    decodings = dict.fromkeys(rule_text(gate.rule) for gate in drift.gates)
    caption = (
        f"Target: {'; '.join(targets)}; {'; '.join(decodings)}. Rates in %; in brackets the "
        f"{method}. Tested: one item of each family. A gate that is broken on B is a change."
    )
    columns = (
        Column("gate", "left", below="on"),
        Column("run", "left"),
        Column("accepted"),
        Column("error of accepted"),
        Column("result", "left"),
    )
    rows = tuple(Row(cells) for gate in drift.gates for cells in _gate_rows(gate))
    return Table("drift-gates", "Gates before and after", caption, columns, rows, keys=2)


def _gate_rows(gate: GateChange) -> Iterator[tuple[Cell, ...]]:
    rule = gate.rule
    accepts = gate_text(gate.before.threshold, rule.signal)
    names = (one_line(f"{gate.before.group}: {accepts}"), SIGNAL_NAMES[rule.signal])
    for name, run, checked in zip(names, "AB", (gate.before, gate.after), strict=True):
        yield (
            Cell(name),
            Cell(run),
            estimate_cell(checked.coverage, "percent", reasons=False),
            estimate_cell(checked.error, "percent", reasons=False),
            Cell(checked.verdict if checked.threshold is not None else "no guarantee"),
        )


def mix_table(mix: Mix, unit: ClusterUnit) -> Table:
    """Lay out the parts of a change in accuracy on other items."""
    parts = [("other shares of kinds and domains", mix.mix)]
    parts.append(("other accuracy within them", mix.within))
    if not mix.same_domains:
        parts.append(("kinds and domains of one run only", mix.unshared))
    method = methods_text((part for _, part in parts), unit)
    rows = (
        *(Row((Cell(name), estimate_cell(part, "points", reasons=False))) for name, part in parts),
        Row((Cell("change in accuracy"), Cell(value_text(mix.total, "points")))),
    )
    caption = f"In points; the parts add up to the change. In brackets the {method}."
    columns = (Column("part", "left"), Column("B - A"))
    return Table("drift-mix", "Where the change is from", caption, columns, rows, keys=1)


def domains_table(mix: Mix) -> Table:
    """Lay out kinds and domains, those with the largest parts first."""
    shown = mix.domains[:_DOMAINS_SHOWN]
    columns = (
        Column("kind, domain", "left"),
        Column("share", below="A -> B"),
        Column("accuracy", below="A -> B"),
        Column("by share"),
        Column("by accuracy"),
    )
    rows = tuple(
        Row(
            (
                Cell(one_line(f"{domain.kind}, {domain.domain}" if domain.domain else domain.kind)),
                *(
                    Cell(" -> ".join(value_text(value, "percent") for value in pair))
                    for pair in (domain.shares, domain.accuracies)
                ),
                *(Cell(value_text(value, "points")) for value in (domain.mix, domain.within)),
            )
        )
        for domain in shown
    )
    omitted = len(mix.domains) - len(shown)
    more = f" {omitted:,} more; --json lists all." if omitted else ""
    caption = f"Shares and accuracies in %, parts of the change in points.{more}"
    return Table("drift-domains", "", caption, columns, rows, keys=1)
