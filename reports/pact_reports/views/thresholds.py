"""Thresholds and answer sets of a run, checks of them, and whether a model may act alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pact_eval._json import Json
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.numbers import (
    CLUSTER,
    CLUSTERS,
    UNDEFINED,
    about,
    has_width,
    methods_text,
    p_value_number,
    p_value_text,
    plain_decoding,
    plain_units,
    rate_text,
    sample_text,
    value_text,
)
from pact_eval.plain_text import one_line
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.answer_sets import AnswerSets, GroupSets, KindSets, coverage_text
from pact_eval.thresholds.checking import (
    AnswerSetsCheck,
    CheckedGate,
    CheckedSets,
    GateVerdict,
    PromiseCheck,
    ThresholdsCheck,
)
from pact_eval.thresholds.choice import Alternative, Gate, Rule, Thresholds
from pact_eval.thresholds.conclusion import Acting, acting
from pact_eval.thresholds.decision_curves import GateMarks
from pact_eval.thresholds.files import (
    answer_sets_json,
    thresholds_json,
)
from pact_eval.thresholds.gates import SIGNAL_NAMES, Target, gate_text, sure_answers
from pact_reports.cases import CaseStatus, CiReport, gate_report, judged_case
from pact_reports.table import Cell, Column, Part, Row, Table, right_columns, table_row
from pact_reports.tables.cells import estimate_cell
from pact_reports.views.brief import Brief, Fact
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import conclusion_json, to_json, warnings_json


def present_thresholds(thresholds: Thresholds) -> Presenter:
    """Present the gates of a run."""
    conclusion = acting(thresholds)
    return Presenter(
        first=partial(thresholds_facts, thresholds, conclusion),
        tables=lambda: [thresholds_table(thresholds), alternatives_table(thresholds)],
        to_json=lambda: {
            "answer": conclusion_json(conclusion),
            "thresholds": thresholds_json(thresholds),
            "gates": to_json(thresholds.gates),
            "alternatives": to_json(thresholds.alternatives),
            "warnings": warnings_json(thresholds.warnings),
        },
        headline=lambda: [str(conclusion.words)],
        warnings=[*map(str, thresholds.warnings)],
    )


def present_acting(conclusion: Acting) -> Presenter:
    """Present a conclusion without gates."""
    return Presenter(
        tables=tuple,
        to_json=lambda: {"answer": conclusion_json(conclusion)},
        headline=lambda: [str(conclusion.words)],
    )


def present_answer_sets(sets: AnswerSets) -> Presenter:
    """Present the answer sets of a run."""
    return Presenter(
        first=partial(sets_facts, sets),
        tables=partial(sets_tables, sets),
        to_json=lambda: {
            "answer": sets.answer,
            "sets": answer_sets_json(sets),
            "kinds": to_json(sets.kinds),
            "groups": to_json(sets.groups),
            "alternatives": to_json(sets.alternatives),
            "warnings": warnings_json(sets.warnings),
        },
        headline=lambda: [sets.answer],
        warnings=[*map(str, sets.warnings)],
    )


def present_thresholds_check(check: ThresholdsCheck) -> Presenter:
    """Present a check of gates."""
    numbers = {"gates": to_json(check.gates), "items_without_gate": check.without_gate}
    return _present_check(check, numbers, check_facts(check), lambda: [check_table(check)])


def present_answer_sets_check(check: AnswerSetsCheck) -> Presenter:
    """Present a check of answer sets."""
    file = check.file
    numbers: dict[str, Json] = {
        "kinds": to_json(check.kinds),
        "groups": to_json(check.groups),
        "items_without_sets": check.without_sets,
        "unanswered": check.unanswered,
    }
    return _present_check(
        check,
        numbers,
        [Fact("asked", coverage_text(file.coverage, file.confidence))],
        lambda: [
            _check_table(check),
            *_groups(check.groups, len(check.kinds), file.rule, ""),
        ],
    )


def _present_check(
    check: PromiseCheck,
    numbers: dict[str, Json],
    facts: Iterable[Fact],
    tables: Callable[[], Iterable[Part]],
) -> Presenter:
    """Present a check of gates or of sets, with its own numbers, facts and tables."""
    answer, views, path = check.answer, check.run.predictions, check.file.path
    run = _run_fact(check.run, check.file.rule, len(views.ids), {*views.family.tolist()})
    screen = Brief([*facts, Fact("file", one_line(str(path))), run])
    return Presenter(
        first=lambda: screen,
        tables=tables,
        to_json=lambda: {
            check.what: str(path),
            "run": check.run.place,
            "verdict": check.verdict,
            **numbers,
            "differences": to_json(check.differences),
            "model_known": check.model_known,
            "answer": answer,
            "warnings": [*check.warnings],
        },
        headline=lambda: [answer],
        warnings=check.warnings,
        ci=lambda: _cases(check),
    )


def rule_text(rule: Rule) -> str:
    """Name the decoding of a rule: "single, raw"."""
    return f"{rule.decoding}, {rule.calibration}"


_MOST_ROWS: Final = 5
"""Gates or kinds on a first screen."""


def thresholds_facts(thresholds: Thresholds, conclusion: Acting) -> Brief:
    """Return the first screen on the gates of a run, below the answer."""
    gates, rule, target = thresholds.gates, thresholds.rule, thresholds.target
    scope = "" if len(gates) == 1 else ", all together" if thresholds.together else ", each"
    unanswered = sum(thresholds.run.provenance.counts.unanswered.values())
    asked = f"{target.limit}, with {100 * thresholds.confidence:.4g}% confidence{scope}"
    facts = [
        Fact("asked", "" if conclusion.status == "share guaranteed" else asked),
        *(_tested_facts(gates[0], target) if len(gates) == 1 else _by_group(gates, rule, target)),
        Fact("needed", conclusion.needed),
        Fact("unanswered", f"{unanswered:,} items are left to a person" if unanswered else ""),
        _run_fact(thresholds.run, rule, sum(gate.items for gate in gates), thresholds.families),
    ]
    return Brief(facts)


def _tested_facts(gate: Gate, target: Target) -> Iterator[Fact]:
    """Yield what the only gate rests on, if there is one."""
    test = gate.chosen.test
    if not gate.guaranteed or test is None:
        return
    what = "wrong" if target.limits_error else "left"
    yield Fact(
        "tested", f"{test.wrong:,} {what} of {test.accepted:,}, {p_value_text(test.p_value)}"
    )
    accepted = percent_text(gate.realised_coverage.value)
    yield Fact(
        "left out",
        f"{accepted}% accepted and {rate_text(gate.realised_error)} of these wrong, if tried on "
        "items that did not choose the threshold",
    )
    if gate.cost is not None:
        cost, asking = gate.cost
        yield Fact("cost", f"{cost:.3g} per item; {asking:.3g} if a person decides all")


def _by_group(gates: Sequence[Gate], rule: Rule, target: Target) -> Iterator[Fact]:
    """Yield what every gate accepts, and its test."""
    what = "wrong" if target.limits_error else "left"
    for gate in gates[:_MOST_ROWS]:
        test = gate.chosen.test
        tested = "" if test is None else f"; {test.wrong:,} {what} of {test.accepted:,} tested"
        accepts = sure_answers(gate.chosen.threshold, rule.signal)
        share = f" ({rate_text(gate.coverage)} of the items)" if gate.guaranteed else ""
        needed = ""
        if gate.needed is not None and gate.needed > gate.units:
            units = plain_units(gate.items, gate.units, rule.unit)
            needed = f"; about {about(gate.needed):,} {units} like these would do"
        yield Fact(one_line(gate.group), f"{accepts}{share}{tested}{needed}")
    if len(gates) > _MOST_ROWS:
        yield Fact("...", f"{len(gates) - _MOST_ROWS:,} more {rule.by}s")


def _run_fact(run: ExperimentRun, rule: Rule, items: int, families: Collection[str]) -> Fact:
    sample = sample_text(items, len(families))
    return Fact(
        "run", f"{one_line(run.title)}: {sample}, {plain_decoding(rule.k, rule.calibration)}"
    )


def check_facts(check: ThresholdsCheck) -> Iterator[Fact]:
    """Yield what was promised, and what the gates accept here."""
    file = check.file
    sure = f"{100 * file.confidence.each:.4g}% confidence"
    yield Fact("asked", f"{file.target.limit}, with {sure}")
    for gate in [gate for gate in check.gates if gate.threshold is not None][:_MOST_ROWS]:
        name = "accepted" if gate.group == "all" else one_line(gate.group)
        accepts = sure_answers(gate.threshold, file.rule.signal)
        error = "" if math.isnan(gate.error.value) else f", {rate_text(gate.error)} of them wrong"
        yield Fact(name, f"{accepts}: {rate_text(gate.coverage)} of the items{error}")


def thresholds_table(thresholds: Thresholds) -> Table:
    """Lay out the gates of a run: one row per group."""
    gates, rule = thresholds.gates, thresholds.rule
    costs = thresholds.target.kind == "cost"
    columns = (
        Column("items", "left", below=f"n, {CLUSTERS[rule.unit]}, tested"),
        Column(SIGNAL_NAMES[rule.signal]),
        Column("tested", below="p-value"),
        *right_columns("accepted", "error, same items"),
        Column("error, left out", below="of so many accepted"),
    )
    method = methods_text((gate.coverage for gate in gates), rule.unit)
    caption = (
        f"Rates in %; in brackets the {method}. Tested: {_say_drawn(rule)}; "
        f"{_counting(thresholds.target)}, with the exact p-value. Every fifth {CLUSTER[rule.unit]} "
        "orders the gates instead. Left out: source families that were left out when their gate "
        "was chosen."
    )
    return Table(
        name="thresholds",
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
        table_row(
            SIGNAL_NAMES[signal],
            *(_alternative_cell(by_place.get((signal, name))) for name in decodings),
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
        f"{_say_drawn(rule)}; {_counting(check.file.target)}."
    )
    if len(check.gates) > 1:
        caption += " The p-values are adjusted for all gates together (Holm)."
    return Table(
        name="thresholds-check",
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
        Cell(tested, below="" if test is None else p_value_number(test.p_value)),
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
        Cell(p_value_number(gate.p_holds)),
        Cell(p_value_number(gate.p_broken)),
        Cell(gate.verdict if gate.threshold is not None else "no guarantee"),
    )


def _alternative_cell(other: Alternative | None) -> Cell:
    if other is None or other.threshold is None:
        return Cell(UNDEFINED)
    return Cell(percent_text(other.coverage))


def _say_drawn(rule: Rule) -> str:
    unit = CLUSTER[rule.unit]
    return f"one item of each {unit}" if rule.counting == "families" else f"items, drawn by {unit}"


def _counting(target: Target) -> str:
    return "wrong of accepted" if target.limits_error else "escalated of all"


def percent_text(rate: float) -> str:
    """Write a rate in percent."""
    return value_text(rate, "percent")


def rate_cell(estimate: Estimate) -> Cell:
    """Return a rate with its interval."""
    if math.isnan(estimate.value):
        return Cell(UNDEFINED)
    return estimate_cell(estimate, "percent", reasons=False)


_DIGITS = 4
_ONLY_TOP = 1 - 1e-6


def level_text(threshold: float | None) -> str:
    """Describe the answers in a set.

    Example:
        >>> level_text(0.12345), level_text(1 - 1e-9), level_text(None)
        ('>= 0.1235', 'most probable', 'every answer')
    """
    if threshold is None:
        return "every answer"
    return "most probable" if threshold > _ONLY_TOP else f">= {threshold:.{_DIGITS}g}"


def sets_facts(sets: AnswerSets) -> Brief:
    """Return the first screen on the sets of a run, below the answer."""
    everything, kinds = sets.groups[0], sets.kinds
    sure = f"{100 * kinds[0].level.confidence:g}%"
    floors = [
        f"{kind.kind} {percent_text(kind.level.floor)}%"
        for kind in kinds
        if kind.level.threshold is not None
    ]
    alone = "" if math.isnan(everything.single.value) else f"{rate_text(everything.single)} of sets"
    left_out = f"{rate_text(everything.coverage)} of items that did not choose the sets have it"
    facts = [
        Fact("one answer", alone),
        Fact("left out", "" if math.isnan(everything.coverage.value) else left_out),
        Fact("at least", f"{', '.join(floors)}, with {sure} confidence" if floors else ""),
        Fact("unanswered", f"{sets.unanswered:,} items, which have no set" * bool(sets.unanswered)),
        _run_fact(sets.run, sets.rule, sum(kind.sets.items for kind in kinds), sets.families),
    ]
    return Brief(facts)


def sets_tables(sets: AnswerSets) -> list[Part]:
    """Lay out the sets of a run by kind or question, by domain, and under other decodings."""
    left_out = "Coverage of source families that were left out."
    return [
        _kinds_table(sets),
        *_groups(sets.groups, len(sets.kinds), sets.rule, left_out),
        *_other_decodings(sets),
    ]


def _groups(groups: Sequence[GroupSets], kinds: int, rule: Rule, note: str) -> Iterator[Table]:
    """Yield the sets of all items and of every domain, unless there is one kind and one domain."""
    if len(groups) == 1 and kinds == 1:
        return
    unit, kind = rule.unit, f"{rule.by}s"
    method = methods_text(
        [estimate for group in groups for estimate in (group.coverage, group.size)], unit
    )
    caption = f"Shares in %; in brackets the {method}. The guarantee is for {kind}. {note}".strip()
    yield Table(
        name="answer-sets-groups",
        title=f"All {kind}" if len(groups) == 1 else f"All {kind}, and domains",
        caption=caption,
        columns=(
            Column("items", "left", below=f"n, {CLUSTERS[unit]}"),
            *_like_columns(),
        ),
        rows=tuple(
            table_row(Cell(group.group, below=_basis(group)), *_like_cells(group))
            for group in groups
        ),
        keys=1,
    )


def _kinds_table(sets: AnswerSets) -> Table:
    unit = sets.rule.unit
    method = methods_text(
        (estimate for kind in sets.kinds for estimate in (kind.sets.coverage, kind.sets.size)), unit
    )
    confidence = f"{100 * sets.kinds[0].level.confidence:g}%"
    caption = (
        "A set has the most probable answer and those with the probability shown; for levels, the "
        f"interval with them. Shares in %; in brackets the {method}. Floor: coverage that this "
        f"choice keeps with {confidence} confidence: one item of each {CLUSTER[unit]} is drawn, "
        "and the sets of some miss the answer. Coverage of source families that were left out when "
        "their sets were chosen."
    )
    return Table(
        name="answer-sets",
        caption=caption,
        columns=(
            Column(sets.rule.by, "left", below=f"n, {CLUSTERS[unit]}"),
            Column("probability"),
            Column("floor", below="missed of drawn"),
            *_like_columns(),
        ),
        rows=tuple(Row(_kind_cells(kind)) for kind in sets.kinds),
        keys=1,
    )


def _kind_cells(kind_sets: KindSets) -> tuple[Cell, ...]:
    level = kind_sets.level
    floor = UNDEFINED if level.threshold is None else percent_text(level.floor)
    return (
        Cell(kind_sets.kind, below=_basis(kind_sets.sets)),
        Cell(level_text(level.threshold)),
        Cell(floor, below=f"{level.missed:,} of {level.drawn:,}"),
        *_like_cells(kind_sets.sets),
    )


def _check_table(check: AnswerSetsCheck) -> Table:
    file = check.file
    unit = file.rule.unit
    method = methods_text(
        (estimate for kind in check.kinds for estimate in (kind.sets.coverage, kind.sets.size)),
        unit,
    )
    caption = (
        f"Guarantee, by {file.rule.by}: {coverage_text(file.coverage, file.confidence)}. "
        f"Tested: this coverage, by one item of each {CLUSTER[unit]}; missed of drawn, the "
        "coverage that they show, and the p-values of a lower and of a higher one. Shares in %; "
        f"in brackets the {method}."
    )
    if len(check.kinds) > 1:
        caption += f" The p-values are adjusted for all {file.rule.by}s together (Holm)."
    return Table(
        name="answer-sets-check",
        caption=caption,
        columns=(
            Column(file.rule.by, "left", below=f"n, {CLUSTERS[unit]}"),
            Column("probability"),
            *_like_columns()[::2],
            Column("shown", below="tested"),
            Column("p, lower", below="p, higher"),
            Column("result"),
        ),
        rows=tuple(Row(_answer_sets_checked_cells(kind)) for kind in check.kinds),
        keys=1,
    )


def _answer_sets_checked_cells(checked: CheckedSets) -> tuple[Cell, ...]:
    test, level = checked.test, checked.threshold
    return (
        Cell(checked.kind, below=_basis(checked.sets)),
        Cell(level_text(level)),
        *_like_cells(checked.sets)[::2],
        Cell(
            UNDEFINED if level is None else percent_text(checked.shown),
            below=f"{test.wrong:,} of {test.drawn:,}",
        ),
        Cell(p_value_number(test.p_holds), below=p_value_number(test.p_broken)),
        Cell(test.verdict if level is not None else "no guarantee"),
    )


def _other_decodings(sets: AnswerSets) -> list[Part]:
    if len(sets.alternatives) < 2:
        return []
    rows = [
        table_row(
            rule_text(alternative.rule), f"{alternative.size:.2f}", percent_text(alternative.single)
        )
        for alternative in sets.alternatives
    ]
    table = Table(
        name="answer-sets-decodings",
        title="Which decoding has the smallest sets",
        caption=(
            "Each guarantee holds alone: to take the best one after a look costs some confidence."
        ),
        columns=(Column("decoding", "left"), *right_columns("answers per set", "one answer (%)")),
        rows=tuple(rows),
        keys=1,
    )
    return [table]


def _like_columns() -> tuple[Column, ...]:
    return (Column("answers per set", below="of so many"), *right_columns("one answer", "coverage"))


def _like_cells(group: GroupSets) -> tuple[Cell, ...]:
    if not group.items:
        return (Cell(UNDEFINED),) * 3
    size = group.size
    ends = f"[{size.low:.2f}, {size.high:.2f}]" if has_width(size) else ""
    cell = Cell(f"{size.value:.2f}", interval=ends, below=f"{group.answers:.2f}")
    return cell, rate_cell(group.single), rate_cell(group.coverage)


def _basis(group: GroupSets) -> str:
    return f"{group.items:,}, {group.units:,}"


def gate_notes(marks: GateMarks, names: ArmNames) -> tuple[str, ...]:
    """Write the notes on chosen gates, with the display names of runs."""
    return tuple(
        note.text if note.run is None else f"{names.run(note.run)}: {note.text}"
        for note in marks.notes
    )


NO_GUARANTEE: Final = "nothing is guaranteed, so there is nothing to check"
_OF_VERDICT: Final[Mapping[GateVerdict, CaseStatus]] = {
    "holds": "passed",
    "cannot tell": "cannot tell",
    "broken": "failed",
}


def _cases(check: PromiseCheck) -> CiReport:
    """Return the cases of a check: one per promise."""
    code, file = ("gate" if check.what == "thresholds" else "sets"), check.file.path
    cases = []
    for promise in check.promises:
        status, text = _OF_VERDICT[promise.gate.verdict], f"{promise.gate.verdict}: {promise.seen}"
        if not promise.made:
            status, text = "skipped", NO_GUARANTEE
        cases.append(judged_case(code, promise.name, status, text, file))
    if not any(promise.made for promise in check.promises):  # the exit code is of "cannot tell"
        cases.append(judged_case(code, "file", "cannot tell", check.answer, file))
    return gate_report("pact-eval thresholds --check", check.answer, cases, check.warnings)
