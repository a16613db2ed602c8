"""Gates of a run, guarantees of other rules, and checks on other runs."""

from __future__ import annotations

import math
from dataclasses import replace

from pact_eval.numbers import CLUSTER, CLUSTERS, UNDEFINED, methods_text, value_text
from pact_eval.plain_text import one_line
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.checking import CheckedGate, ThresholdsCheck
from pact_eval.thresholds.choice import Alternative, Gate, Rule, Thresholds
from pact_eval.thresholds.signals import SIGNAL_NAMES, gate_text
from pact_eval.thresholds.targets import Target
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.cells import estimate_cell


def rule_text(rule: Rule) -> str:
    """Name the decoding of a rule: "single, raw"."""
    return f"{rule.decoding}, {rule.calibration}"


def thresholds_parts(thresholds: Thresholds) -> list[Part]:
    """Lay out the gates of a run, and the guarantees of other gates."""
    provenance, rule = thresholds.run.provenance, thresholds.rule
    items = sum(gate.items for gate in thresholds.gates)
    head = (
        f"{one_line(thresholds.run.title)}: {items:,} items, "
        f"{len(thresholds.families):,} families; {rule_text(rule)}"
    )
    without = sum(provenance.counts.unanswered.values())
    lines = [Line(head, "strong"), Line(f"Target: {thresholds.target.text}.")]
    if without:
        lines.append(Line(f"{without:,} items have no answer and are escalated."))
    return [*lines, thresholds_table(thresholds), alternatives_table(thresholds)]


def check_parts(check: ThresholdsCheck) -> list[Part]:
    """Lay out a check of thresholds on a run."""
    head = (
        f"{one_line(str(check.file.path))} on {one_line(check.run.title)}: "
        f"{rule_text(check.file.rule)}"
    )
    return [Line(head, "strong"), check_table(check)]


def thresholds_table(thresholds: Thresholds) -> Table:
    """Lay out the gates of a run: one row per group."""
    gates, rule = thresholds.gates, thresholds.rule
    costs = thresholds.target.kind == "cost"
    columns = (
        Column("items", "left", below=f"n, {CLUSTERS[rule.unit]}, tested"),
        Column(SIGNAL_NAMES[rule.signal]),
        Column("tested", below="p-value"),
        Column("accepted"),
        Column("error, same items"),
        Column("error, left out", below="of so many accepted"),
    )
    method = methods_text((gate.coverage for gate in gates), rule.unit)
    caption = (
        f"Rates in %; in brackets the {method}. Tested: {_drawn(rule)}; "
        f"{_counted(thresholds.target)}, with the exact p-value. Every fifth {CLUSTER[rule.unit]} "
        "orders the gates instead. Left out: source families that were left out when their gate "
        "was chosen."
    )
    return Table(
        name="thresholds",
        title="",
        caption=caption,
        columns=(
            *columns,
            *((Column("cost per item", below="of asking always"),) if costs else ()),
        ),
        rows=tuple(Row(_gate_cells(gate, rule, costs=costs)) for gate in gates),
        keys=1,
    )


def alternatives_table(thresholds: Thresholds) -> Table:
    """Lay out the guarantee of each signal for all items.

    Rows are signals, columns are decodings.
    """
    alternatives = thresholds.alternatives
    decodings = list(dict.fromkeys(rule_text(alternative.rule) for alternative in alternatives))
    signals = list(dict.fromkeys(alternative.rule.signal for alternative in alternatives))
    by_place = {
        (alternative.rule.signal, rule_text(alternative.rule)): alternative
        for alternative in alternatives
    }
    rows = [
        Row(
            (
                Cell(SIGNAL_NAMES[signal]),
                *(_alternative_cell(by_place.get((signal, name))) for name in decodings),
            )
        )
        for signal in signals
    ]
    return Table(
        name="threshold-rules",
        title="Which gate accepts most",
        caption=(
            "Accepted items in %, with the same target for all items. Each number is guaranteed "
            f"alone at {100 * thresholds.confidence:g}%: to take the best one after a look costs "
            "confidence."
        ),
        columns=(Column("gate on", "left"), *(Column(name) for name in decodings)),
        rows=tuple(rows),
        keys=1,
    )


def check_table(check: ThresholdsCheck) -> Table:
    """Lay out a check: one row per gate."""
    rule = check.file.rule
    titles = (
        SIGNAL_NAMES[rule.signal],
        "accepted",
        "error of accepted",
        "tested",
        "p, exceeded",
        "p, kept",
        "result",
    )
    method = methods_text((gate.coverage for gate in check.gates), rule.unit)
    caption = (
        f"Target: {check.file.target.text}. Rates in %; in brackets the {method}. Tested: "
        f"{_drawn(rule)}; {_counted(check.file.target)}."
    )
    if len(check.gates) > 1:
        caption += " The p-values are adjusted for all gates together (Holm)."
    return Table(
        name="thresholds-check",
        title="",
        caption=caption,
        columns=(
            Column("items", "left", below=f"n, {CLUSTERS[rule.unit]}, tested"),
            *(Column(title) for title in titles),
        ),
        rows=tuple(Row(_checked_cells(gate, rule)) for gate in check.gates),
        keys=1,
    )


def _gate_cells(gate: Gate, rule: Rule, *, costs: bool) -> tuple[Cell, ...]:
    test = gate.chosen.test
    tested = UNDEFINED if test is None else f"{test.wrong:,} of {test.accepted:,}"
    cells = (
        Cell(gate.group, below=f"{gate.items:,}, {gate.units:,}, {gate.chosen.tested_units:,}"),
        Cell(gate_text(gate.chosen.threshold, rule.signal)),
        Cell(tested, below="" if test is None else p_text(test.p_value)),
        rate_cell(gate.coverage),
        rate_cell(gate.same_items_error),
        replace(rate_cell(gate.realised_error), below=percent_text(gate.realised_coverage.value)),
    )
    if not costs or gate.cost is None:
        return cells
    cost, asking = gate.cost
    return (*cells, Cell(f"{cost:.3g}", below=f"{asking:.3g}"))


def _checked_cells(gate: CheckedGate, rule: Rule) -> tuple[Cell, ...]:
    return (
        Cell(gate.group, below=f"{gate.coverage.n:,}, {gate.units:,}, {gate.tested:,}"),
        Cell(gate_text(gate.threshold, rule.signal)),
        rate_cell(gate.coverage),
        rate_cell(gate.error),
        Cell(f"{gate.wrong:,} of {gate.drawn:,}"),
        Cell(p_text(gate.p_holds)),
        Cell(p_text(gate.p_broken)),
        Cell(gate.verdict if gate.threshold is not None else "no guarantee"),
    )


def _alternative_cell(other: Alternative | None) -> Cell:
    if other is None or other.threshold is None:
        return Cell(UNDEFINED)
    return Cell(percent_text(other.coverage))


def _drawn(rule: Rule) -> str:
    unit = CLUSTER[rule.unit]
    return f"one item of each {unit}" if rule.counting == "families" else f"items, drawn by {unit}"


def _counted(target: Target) -> str:
    return "wrong of accepted" if target.limits_error else "escalated of all"


def percent_text(rate: float) -> str:
    """Write a rate in percent."""
    return value_text(rate, "percent")


def rate_cell(estimate: Estimate) -> Cell:
    """Return a rate with its interval."""
    if math.isnan(estimate.value):
        return Cell(UNDEFINED)
    return estimate_cell(estimate, "percent", reasons=False)


def p_text(p_value: float) -> str:
    """Write a p-value, never as 0."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
