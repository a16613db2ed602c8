"""Answer sets of a run under each decoding, and checks of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pact_eval._choices import ClusterUnit
from pact_eval.numbers import CLUSTER, CLUSTERS, UNDEFINED, has_width, methods_text
from pact_eval.plain_text import one_line
from pact_eval.thresholds.answer_sets import AnswerSets, GroupSets, KindSets
from pact_eval.thresholds.set_checking import AnswerSetsCheck, CheckedSets
from pact_eval.thresholds.set_files import AnswerSetsFile
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.thresholds import p_text, percent_text, rate_cell, rule_text

_DIGITS = 4
_ONLY_TOP = 1 - 1e-6


def promise_text(sets: AnswerSets | AnswerSetsFile) -> str:
    """Write the coverage guarantee of the sets."""
    share = f"{100 * sets.coverage:g}%"
    if sets.confidence is None:
        return f"the right answer is in the set for {share} of the items of new families"
    return (
        f"the right answer is in the set for at least {share} of the items of new families, with "
        f"{100 * sets.confidence:g}% confidence"
    )


def level_text(threshold: float | None) -> str:
    """Describe the answers in a set.

    Example:
        >>> level_text(0.12345), level_text(1 - 1e-9), level_text(None)
        ('>= 0.1235', 'most probable', 'every answer')
    """
    if threshold is None:
        return "every answer"
    return "most probable" if threshold > _ONLY_TOP else f">= {threshold:.{_DIGITS}g}"


def sets_parts(sets: AnswerSets) -> list[Part]:
    """Lay out the sets of a run, by kind, by domain, and under other decodings."""
    items = sum(kind.sets.items for kind in sets.kinds)
    head = (
        f"{one_line(sets.run.title)}: {items:,} items, {len(sets.families):,} families; "
        f"{rule_text(sets.rule)}"
    )
    lines = [Line(head, "strong"), Line(f"Guarantee, by kind: {promise_text(sets)}.")]
    if sets.unanswered:
        lines.append(Line(f"{sets.unanswered:,} items have no answer, and no set."))
    unit = sets.rule.unit
    return [
        *lines,
        _kinds_table(sets),
        *_groups(
            sets.groups, len(sets.kinds), unit, "Coverage of source families that were left out."
        ),
        *_other_decodings(sets),
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
    method = methods_text(
        [estimate for group in groups for estimate in (group.coverage, group.size)], unit
    )
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
            Row((Cell(group.group, below=_basis(group)), *_like_cells(group))) for group in groups
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
        title="",
        caption=caption,
        columns=(
            Column("kind", "left", below=f"n, {CLUSTERS[unit]}"),
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
        rows=tuple(Row(_checked_cells(kind)) for kind in check.kinds),
        keys=1,
    )


def _checked_cells(checked: CheckedSets) -> tuple[Cell, ...]:
    test, level = checked.test, checked.threshold
    return (
        Cell(checked.kind, below=_basis(checked.sets)),
        Cell(level_text(level)),
        *_like_cells(checked.sets)[::2],
        Cell(
            UNDEFINED if level is None else percent_text(checked.shown),
            below=f"{test.wrong:,} of {test.drawn:,}",
        ),
        Cell(p_text(test.p_holds), below=p_text(test.p_broken)),
        Cell(test.verdict if level is not None else "no guarantee"),
    )


def _other_decodings(sets: AnswerSets) -> list[Part]:
    if len(sets.alternatives) < 2:
        return []
    rows = [
        Row(
            (
                Cell(rule_text(alternative.rule)),
                Cell(f"{alternative.size:.2f}"),
                Cell(percent_text(alternative.single)),
            )
        )
        for alternative in sets.alternatives
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


def _like_cells(group: GroupSets) -> tuple[Cell, ...]:
    if not group.items:
        return (Cell(UNDEFINED),) * 3
    size = group.size
    ends = f"[{size.low:.2f}, {size.high:.2f}]" if has_width(size) else ""
    cell = Cell(f"{size.value:.2f}", interval=ends, below=f"{group.answers:.2f}")
    return cell, rate_cell(group.single), rate_cell(group.coverage)


def _basis(group: GroupSets) -> str:
    return f"{group.items:,}, {group.units:,}"
