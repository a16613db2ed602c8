"""Thresholds and answer sets of a run, checks of them, and whether a model may act alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
    Unit,
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
    GateNote,
    PromiseCheck,
    ThresholdsCheck,
)
from pact_eval.thresholds.choice import Gate, Rule, Thresholds
from pact_eval.thresholds.conclusion import Acting, acting
from pact_eval.thresholds.files import choice_json
from pact_eval.thresholds.gates import SIGNAL_NAMES, GateTest, Target, gate_text, sure_answers
from pact_reports.cases import STATUS_OF, CiReport, gate_report, judged_case
from pact_reports.table import Cell, Column, ColumnOf, Item, Part, Table, make_table
from pact_reports.tables.cells import estimate_cell
from pact_reports.views.presenter import Brief, Fact, Presenter
from pact_reports.writers.json import attributes, conclusion_json, to_json, warnings_json


def present_thresholds(thresholds: Thresholds) -> Presenter:
    """Present the gates of a run."""
    conclusion = acting(thresholds)
    return Presenter(
        first=partial(thresholds_facts, thresholds, conclusion),
        tables=lambda: [thresholds_table(thresholds)],
        to_json=lambda: {
            "answer": {
                name: value
                for name, value in conclusion_json(conclusion).items()
                if name != "gates"
            },
            "thresholds": choice_json(thresholds),
            **attributes(thresholds, "gates"),
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
            "sets": choice_json(sets),
            **attributes(sets, "kinds", "groups"),
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
    numbers = {
        **attributes(check, "kinds", "groups"),
        "items_without_sets": check.without_sets,
        "unanswered": check.unanswered,
    }
    return _present_check(
        check,
        numbers,
        [Fact("asked", coverage_text(file.coverage, file.confidence))],
        lambda: [_check_table(check), *_groups(check.groups, len(check.kinds), file.rule, "")],
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
    yield Fact("tested", f"{_tested(test, target)}, {p_value_text(test.p_value)}")
    accepted = percent_text(gate.realised_coverage.value)
    yield Fact(
        "left out",
        f"{accepted}% accepted and {rate_text(gate.realised_error)} of these wrong, if tried on "
        "items that did not choose the threshold",
    )
    if gate.cost is not None:
        cost, asking = gate.cost
        yield Fact("cost", f"{cost:.3g} per item; {asking:.3g} if a person decides all")


def _tested(test: GateTest, target: Target) -> str:
    return f"{test.wrong:,} {'wrong' if target.limits_error else 'left'} of {test.accepted:,}"


def _by_group(gates: Sequence[Gate], rule: Rule, target: Target) -> Iterator[Fact]:
    """Yield what every gate accepts, and its test."""
    for gate in gates[:_MOST_ROWS]:
        test = gate.chosen.test
        tested = "" if test is None else f"; {_tested(test, target)} tested"
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
    gates, rule, target = thresholds.gates, thresholds.rule, thresholds.target
    method = methods_text((gate.coverage for gate in gates), rule.unit)

    def name(gate: Gate) -> Cell:
        below = f"{gate.items:,}, {gate.units:,}, {gate.chosen.tested_units:,}"
        return Cell(gate.group, below=below)

    def tested(gate: Gate) -> Cell:
        test = gate.chosen.test
        if test is None:
            return Cell(UNDEFINED)
        return Cell(f"{test.wrong:,} of {test.accepted:,}", below=p_value_number(test.p_value))

    def left_out(gate: Gate) -> Cell:
        accepted = percent_text(gate.realised_coverage.value)
        return replace(rate_cell(gate.realised_error), below=accepted)

    def cost(gate: Gate) -> Cell:
        expected, asking = gate.cost or (math.nan, math.nan)
        return Cell(f"{expected:.3g}", below=f"{asking:.3g}")

    costs: list[ColumnOf[Gate]] = [(Column("cost per item", below="of asking always"), cost)]
    return make_table(
        "thresholds",
        gates,
        (_items_column(rule), name),
        (SIGNAL_NAMES[rule.signal], lambda gate: gate_text(gate.chosen.threshold, rule.signal)),
        (Column("tested", below="p-value"), tested),
        ("accepted", lambda gate: rate_cell(gate.coverage)),
        ("error, same items", lambda gate: rate_cell(gate.same_items_error)),
        (Column("error, left out", below="of so many accepted"), left_out),
        *(costs if target.kind == "cost" else ()),
        caption=(
            f"Rates in %; in brackets the {method}. Tested: {_say_drawn(rule, target)}, with the "
            "exact p-value. Left out: source families that were left out when their gate was "
            "chosen."
        ),
        keys=1,
    )


def _items_column(rule: Rule) -> Column:
    return Column("items", "left", below=f"n, {CLUSTERS[rule.unit]}, tested")


def check_table(check: ThresholdsCheck) -> Table:
    """Lay out a check: one row per gate."""
    rule, target = check.file.rule, check.file.target
    method = methods_text((gate.coverage for gate in check.gates), rule.unit)
    together = " The p-values are adjusted for all gates together (Holm)."

    def name(gate: CheckedGate) -> Cell:
        return Cell(gate.group, below=f"{gate.coverage.n:,}, {gate.units:,}, {gate.tested:,}")

    return make_table(
        "thresholds-check",
        check.gates,
        (_items_column(rule), name),
        (SIGNAL_NAMES[rule.signal], lambda gate: gate_text(gate.threshold, rule.signal)),
        ("accepted", lambda gate: rate_cell(gate.coverage)),
        ("error of accepted", lambda gate: rate_cell(gate.error)),
        ("tested", lambda gate: f"{gate.wrong:,} of {gate.drawn:,}"),
        ("p, exceeded", lambda gate: p_value_number(gate.p_holds)),
        ("p, kept", lambda gate: p_value_number(gate.p_broken)),
        ("result", verdict_text),
        caption=(
            f"Target: {target.limit}. Rates in %; in brackets the {method}. Tested: "
            f"{_say_drawn(rule, target)}.{together if len(check.gates) > 1 else ''}"
        ),
        keys=1,
    )


def verdict_text(gate: CheckedGate) -> str:
    """Write the verdict on a gate, which may guarantee nothing."""
    return gate.verdict if gate.threshold is not None else _NO_GATE


_NO_GATE: Final = "no guarantee"


def _set_columns(
    sets_of: Callable[[Item], GroupSets],
) -> list[ColumnOf[Item]]:
    """Return what every table of sets has of them."""

    def size(item: Item) -> Cell:
        group = sets_of(item)
        if not group.items:
            return Cell(UNDEFINED)
        size = group.size
        ends = f"[{size.low:.2f}, {size.high:.2f}]" if has_width(size) else ""
        return Cell(f"{size.value:.2f}", interval=ends, below=f"{group.answers:.2f}")

    return [
        (Column("answers per set", below="of so many"), size),
        ("one answer", lambda item: rate_cell(sets_of(item).single)),
        ("coverage", lambda item: rate_cell(sets_of(item).coverage)),
    ]


def _say_drawn(rule: Rule, target: Target) -> str:
    unit = CLUSTER[rule.unit]
    drawn = f"one item of each {unit}" if rule.counting == "families" else f"items, drawn by {unit}"
    return f"{drawn}; {'wrong of accepted' if target.limits_error else 'escalated of all'}"


def percent_text(rate: float) -> str:
    """Write a rate in percent."""
    return value_text(rate, "percent")


def rate_cell(estimate: Estimate, unit: Unit = "percent") -> Cell:
    """Return a rate, or a difference of rates, with its interval."""
    return estimate_cell(estimate, unit, reasons=False)


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


def sets_tables(sets: AnswerSets) -> Iterator[Part]:
    """Lay out the sets of a run by kind or question, and by domain."""
    yield _kinds_table(sets)
    left_out = "Coverage of source families that were left out."
    yield from _groups(sets.groups, len(sets.kinds), sets.rule, left_out)


def _groups(groups: Sequence[GroupSets], kinds: int, rule: Rule, note: str) -> Iterator[Table]:
    """Yield the sets of all items and of every domain, unless there is one kind and one domain."""
    if len(groups) == 1 and kinds == 1:
        return
    kind = f"{rule.by}s"
    yield make_table(
        "answer-sets-groups",
        groups,
        (
            Column("items", "left", below=f"n, {CLUSTERS[rule.unit]}"),
            lambda group: Cell(group.group, below=_basis(group)),
        ),
        *_set_columns(_itself),
        title=f"All {kind}" if len(groups) == 1 else f"All {kind}, and domains",
        caption=f"{_shares_text(groups, rule)} The guarantee is for {kind}. {note}".strip(),
        keys=1,
    )


def _itself(group: GroupSets) -> GroupSets:
    return group


def _shares_text(groups: Iterable[GroupSets], rule: Rule) -> str:
    """Say what the shares and intervals of sets are."""
    estimates = [estimate for group in groups for estimate in (group.coverage, group.size)]
    return f"Shares in %; in brackets the {methods_text(estimates, rule.unit)}."


def _basis(group: GroupSets) -> str:
    return f"{group.items:,}, {group.units:,}"


def _kinds_table(sets: AnswerSets) -> Table:
    rule = sets.rule

    def floor(kind: KindSets) -> Cell:
        level = kind.level
        text = UNDEFINED if level.threshold is None else percent_text(level.floor)
        return Cell(text, below=f"{level.missed:,} of {level.drawn:,}")

    return make_table(
        "answer-sets",
        sets.kinds,
        (_kind_column(rule), lambda kind: Cell(kind.kind, below=_basis(kind.sets))),
        ("probability", lambda kind: level_text(kind.level.threshold)),
        (Column("floor", below="missed of drawn"), floor),
        *_set_columns(_sets_of),
        caption=(
            "A set has the most probable answer and those with the probability shown; for levels, "
            f"the interval with them. {_shares_text((kind.sets for kind in sets.kinds), rule)} "
            "Floor: coverage that this choice keeps with "
            f"{100 * sets.kinds[0].level.confidence:g}% confidence: one item of each "
            f"{CLUSTER[rule.unit]} is drawn, and the sets of some miss the answer. Coverage of "
            "source families that were left out when their sets were chosen."
        ),
        keys=1,
    )


def _sets_of(kind: KindSets | CheckedSets) -> GroupSets:
    return kind.sets


def _kind_column(rule: Rule) -> Column:
    return Column(rule.by, "left", below=f"n, {CLUSTERS[rule.unit]}")


def _check_table(check: AnswerSetsCheck) -> Table:
    file, unit = check.file, CLUSTER[check.file.rule.unit]
    together = f" The p-values are adjusted for all {file.rule.by}s together (Holm)."

    def shown(kind: CheckedSets) -> Cell:
        text = UNDEFINED if kind.threshold is None else percent_text(kind.shown)
        return Cell(text, below=f"{kind.test.wrong:,} of {kind.test.drawn:,}")

    def p_values(kind: CheckedSets) -> Cell:
        lower, higher = map(p_value_number, (kind.test.p_holds, kind.test.p_broken))
        return Cell(lower, below=higher)

    return make_table(
        "answer-sets-check",
        check.kinds,
        (_kind_column(file.rule), lambda kind: Cell(kind.kind, below=_basis(kind.sets))),
        ("probability", lambda kind: level_text(kind.threshold)),
        *_set_columns(_sets_of)[::2],
        (Column("shown", below="tested"), shown),
        (Column("p, lower", below="p, higher"), p_values),
        ("result", lambda kind: kind.test.verdict if kind.threshold is not None else _NO_GATE),
        caption=(
            f"Guarantee, by {file.rule.by}: {coverage_text(file.coverage, file.confidence)}. "
            f"Tested: this coverage, by one item of each {unit}; missed of drawn, the coverage "
            "that they show, and the p-values of a lower and of a higher one. "
            f"{_shares_text((kind.sets for kind in check.kinds), file.rule)}"
            f"{together if len(check.kinds) > 1 else ''}"
        ),
        keys=1,
    )


def gate_notes(notes: Sequence[GateNote], names: ArmNames) -> tuple[str, ...]:
    """Write the notes on chosen gates, with the display names of runs."""
    return tuple(text if run is None else f"{names.run(run)}: {text}" for run, text in notes)


NO_GUARANTEE: Final = "nothing is guaranteed, so there is nothing to check"


def _cases(check: PromiseCheck) -> CiReport:
    """Return the cases of a check: one per promise."""
    code, file = ("gate" if check.what == "thresholds" else "sets"), check.file.path
    cases = []
    for gate, seen in check.promises:
        status, text = STATUS_OF[gate.verdict], f"{gate.verdict}: {seen}"
        if gate.threshold is None:
            status, text = "skipped", NO_GUARANTEE
        cases.append(judged_case(code, gate.group, status, text, file))
    if all(gate.threshold is None for gate, _ in check.promises):  # the exit code of "cannot tell"
        cases.append(judged_case(code, "file", "cannot tell", check.answer, file))
    return gate_report("pact-eval thresholds --check", check.answer, cases, check.warnings)
