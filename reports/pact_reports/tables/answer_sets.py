"""Answer sets: what the sets of a run are like, under other decodings too, and checks of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pact_eval._choices import ClusterUnit
from pact_eval.thresholds.answer_sets import AnswerSets, GroupSets, KindSets
from pact_eval.thresholds.set_checking import AnswerSetsCheck, CheckedSets
from pact_eval.thresholds.set_files import AnswerSetsFile
from pact_reports.numbers import CLUSTER, CLUSTERS, UNDEFINED, has_width, methods_text
from pact_reports.plain_text import one_line
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.thresholds import p_text, percent_text, rate_cell, rule_text

_DIGITS = 4
_ONLY_TOP = 1 - 1e-6


def promise_text(found: AnswerSets | AnswerSetsFile) -> str:
    """Say what the sets promise."""
    share = f"{100 * found.coverage:g}%"
    if found.confidence is None:
        return f"the right answer is in the set for {share} of the items of new families"
    return (
        f"the right answer is in the set for at least {share} of the items of new families, with "
        f"{100 * found.confidence:g}% confidence"
    )


def level_text(threshold: float | None) -> str:
    """Say which answers are in a set.

    Example:
        >>> level_text(0.12345), level_text(1 - 1e-9), level_text(None)
        ('>= 0.1235', 'most probable', 'every answer')
    """
    if threshold is None:
        return "every answer"
    return "most probable" if threshold > _ONLY_TOP else f">= {threshold:.{_DIGITS}g}"


def sets_parts(found: AnswerSets) -> list[Part]:
    """Lay out the sets of a run, by kind, by domain, and under other decodings."""
    items = sum(each.sets.items for each in found.kinds)
    head = (
        f"{one_line(found.run.title)}: {items:,} items, {len(found.families):,} families; "
        f"{rule_text(found.rule)}"
    )
    lines = [Line(head, "strong"), Line(f"Guarantee, by kind: {promise_text(found)}.")]
    if found.unanswered:
        lines.append(Line(f"{found.unanswered:,} items have no answer, and no set."))
    unit = found.rule.unit
    return [
        *lines,
        _kinds_table(found),
        *_groups(
            found.groups, len(found.kinds), unit, "Coverage of source families that were left out."
        ),
        *_other_decodings(found),
    ]


def sets_check_parts(check: AnswerSetsCheck) -> list[Part]:
    """Lay out a check of sets on a run."""
    file = check.file
    head = f"{one_line(str(file.path))} on {one_line(check.run.title)}: "
    unit = file.rule.unit
    return [
        Line(f"{head}{rule_text(file.rule)}", "strong"),
        _check_table(check),
        *_groups(check.groups, len(check.kinds), unit, ""),
    ]


def _groups(
    groups: Sequence[GroupSets], kinds: int, unit: ClusterUnit, note: str
) -> Iterator[Table]:
    """Yield the sets of all items and of every domain, unless there is one kind and one domain."""
    if len(groups) == 1 and kinds == 1:
        return
    method = methods_text([each for group in groups for each in (group.coverage, group.size)], unit)
    caption = f"Shares in %; in brackets the {method}. The guarantee is for kinds. {note}".strip()
    yield Table(
        name="answer-sets-groups",
        title="All kinds" if len(groups) == 1 else "All kinds, and domains",
        caption=caption,
        columns=(
            Column("items", "left", below=f"n, {CLUSTERS[unit]}"),
            *_like_columns(),
        ),
        rows=tuple(
            Row((Cell(each.group, below=_basis(each)), *_like_cells(each))) for each in groups
        ),
        keys=1,
    )


def _kinds_table(found: AnswerSets) -> Table:
    unit = found.rule.unit
    method = methods_text(
        (each for kind in found.kinds for each in (kind.sets.coverage, kind.sets.size)), unit
    )
    confidence = f"{100 * found.kinds[0].level.confidence:g}%"
    caption = (
        "A set has the most probable answer and those with the probability shown; for levels, the "
        f"interval with them. Shares in %; in brackets the {method}. Floor: coverage that this "
        f"choice keeps with {confidence} confidence: one item of each {CLUSTER[unit]} is drawn, "
        "and the sets of some miss the answer. Coverage of source families that were left out when "
        "their sets were chosen."
    )
    return Table(
        name="answer-sets",
        title="",
        caption=caption,
        columns=(
            Column("kind", "left", below=f"n, {CLUSTERS[unit]}"),
            Column("probability"),
            Column("floor", below="missed of drawn"),
            *_like_columns(),
        ),
        rows=tuple(Row(_kind_cells(each)) for each in found.kinds),
        keys=1,
    )


def _kind_cells(found: KindSets) -> tuple[Cell, ...]:
    level = found.level
    floor = UNDEFINED if level.threshold is None else percent_text(level.floor)
    return (
        Cell(found.kind, below=_basis(found.sets)),
        Cell(level_text(level.threshold)),
        Cell(floor, below=f"{level.missed:,} of {level.drawn:,}"),
        *_like_cells(found.sets),
    )


def _check_table(check: AnswerSetsCheck) -> Table:
    file = check.file
    unit = file.rule.unit
    method = methods_text(
        (each for kind in check.kinds for each in (kind.sets.coverage, kind.sets.size)), unit
    )
    caption = (
        f"Guarantee, by kind: {promise_text(file)}. Tested: this coverage, by one item of each "
        f"{CLUSTER[unit]}; missed of drawn, the coverage that they show, and the p-values of a "
        f"lower and of a higher one. Shares in %; in brackets the {method}."
    )
    if len(check.kinds) > 1:
        caption += " The p-values are adjusted for all kinds together (Holm)."
    return Table(
        name="answer-sets-check",
        title="",
        caption=caption,
        columns=(
            Column("kind", "left", below=f"n, {CLUSTERS[unit]}"),
            Column("probability"),
            *_like_columns()[::2],
            Column("shown", below="tested"),
            Column("p, lower", below="p, higher"),
            Column("result"),
        ),
        rows=tuple(Row(_checked_cells(each)) for each in check.kinds),
        keys=1,
    )


def _checked_cells(found: CheckedSets) -> tuple[Cell, ...]:
    test, level = found.test, found.threshold
    return (
        Cell(found.kind, below=_basis(found.sets)),
        Cell(level_text(level)),
        *_like_cells(found.sets)[::2],
        Cell(
            UNDEFINED if level is None else percent_text(found.shown),
            below=f"{test.wrong:,} of {test.drawn:,}",
        ),
        Cell(p_text(test.p_holds), below=p_text(test.p_broken)),
        Cell(test.verdict if level is not None else "no guarantee"),
    )


def _other_decodings(found: AnswerSets) -> list[Part]:
    if len(found.alternatives) < 2:
        return []
    rows = [
        Row((Cell(rule_text(each.rule)), Cell(f"{each.size:.2f}"), Cell(percent_text(each.single))))
        for each in found.alternatives
    ]
    table = Table(
        name="answer-sets-decodings",
        title="Which decoding has the smallest sets",
        caption=(
            "Each guarantee holds alone: to take the best one after a look costs some confidence."
        ),
        columns=(Column("decoding", "left"), Column("answers per set"), Column("one answer (%)")),
        rows=tuple(rows),
        keys=1,
    )
    return [table]


def _like_columns() -> tuple[Column, ...]:
    return (Column("answers per set", below="of so many"), Column("one answer"), Column("coverage"))


def _like_cells(found: GroupSets) -> tuple[Cell, ...]:
    if not found.items:
        return (Cell(UNDEFINED),) * 3
    size = found.size
    ends = f"[{size.low:.2f}, {size.high:.2f}]" if has_width(size) else ""
    cell = Cell(f"{size.value:.2f}", interval=ends, below=f"{found.answers:.2f}")
    return cell, rate_cell(found.single), rate_cell(found.coverage)


def _basis(found: GroupSets) -> str:
    return f"{found.items:,}, {found.units:,}"
