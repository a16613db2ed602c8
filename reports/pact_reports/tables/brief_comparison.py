"""Brief output of `compare` for two runs, or for a run and several others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from pact_eval.drift.run_comparison import RunComparison
from pact_eval.evaluation.conclusions.better import (
    BetterConclusion,
    Claim,
    claim_text,
)
from pact_eval.evaluation.conclusions.headline import Side, headline_of
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.notes import DifferentViews, RoundedProbabilities, SeveralRight
from pact_eval.evaluation.registry import ANSWER_MASS
from pact_eval.evaluation.spending import spent
from pact_eval.notes import Note
from pact_eval.numbers import (
    at_views,
    interval_text,
    sample_text,
    value_text,
    views_words,
)
from pact_eval.plain_text import one_line, short_names
from pact_reports.table import Cell, Column, Line, Table, left_columns, table_row
from pact_reports.views.brief import (
    MOST_LINES,
    Brief,
    Fact,
    beside,
    data_fact,
    tone_of,
    worst_tone,
)

_TWO: Final = 2
_LONGEST_NAME: Final = 20


def brief_comparison(
    comparison: RunComparison, others: Sequence[Line] = (), *, items: bool = False
) -> Brief:
    """Return what else is known of two runs, the better one first.

    Args:
        comparison: of the runs.
        others: further lines before the last one.
        items: whether the items that only one of them answers correctly follow.
    """
    conclusion = comparison.conclusion.better_first
    turn = -1 if conclusion is not comparison.conclusion else 1
    names = short_names((conclusion.left, conclusion.right))
    orders, probabilities = comparison.orders[::turn], comparison.probabilities[::turn]
    notes = [_name_runs(note, names[::turn]) for note in comparison.notes]
    return Brief(
        cautions=[*cautions(comparison.experiment)],
        facts=[
            Fact("items", _discordant(comparison, names, turn)),
            *_difference_not_shown(conclusion, names),
            *difference_facts(conclusion),
            *_margin_facts(comparison, conclusion, names[::turn]),
            *_where(comparison, names, turn),
            Fact(
                "probabilities",
                beside(names, [one.mark for one in probabilities]),
                worst_tone(probabilities),
            ),
            Fact("order", beside(names, [one.mark for one in orders]), worst_tone(orders)),
            *_letter_prior(comparison),
            Fact("requests", spending_words(comparison)),
            data_fact(comparison.data),
        ],
        notes=notes,
        more=more_text(items=items),
        lines=others,
    )


def comparison_headline(comparisons: Sequence[RunComparison]) -> str:
    """Write the first line on a run and the others that it is compared with; see `headline_of`."""
    first, conclusions = comparisons[0], [comparison.conclusion for comparison in comparisons]
    sides = [Side(conclusions[0].left, first.runs[:1])]
    sides += [Side(pair.conclusion.right, pair.runs[1:]) for pair in comparisons]
    return headline_of(first.experiment, sides, conclusions)


def _difference_not_shown(conclusion: BetterConclusion, names: Sequence[str]) -> Iterator[Fact]:
    """Write the difference with its interval, if the first line has the half width alone."""
    claim, statuses = conclusion.leading, {one.status for one in conclusion.of("accuracy")}
    if claim and not claim.shown and len(statuses) == 1:
        text = claim_text(claim, word=True, at=False)
        yield Fact("difference", f"{names[0]} - {names[1]} {text}", spare=True)


def _name_runs(note: Note, names: Sequence[str]) -> Note:
    """Return a note that names the runs instead of A and B."""
    called = dict(zip("AB", names, strict=True))
    match note:
        case DifferentViews():
            return replace(note, ks={called.get(run, run): k for run, k in note.ks.items()})
        case RoundedProbabilities() | SeveralRight():
            return replace(note, run=called.get(note.run, note.run))
        case _:
            return note


def cautions(experiment: Experiment) -> Iterator[Line]:
    """Yield which runs are one, and in what runs differ that are compared nevertheless."""
    for same in experiment.same_runs:
        yield Line(f"Caution: {one_line(str(same))}.", "caution")
    for lines in experiment.matched_by_line:
        yield Line(f"Caution: {one_line(str(lines))}.", "caution")
    for unlike in experiment.unlike:
        yield Line(f"Caution: {unlike!s}.", "caution")


def _where(comparison: RunComparison, names: Sequence[str], turn: int) -> Iterator[Fact]:
    """Name the groups in which a run is wrong, if any are shown to differ."""
    found = [
        f"{name}: {where.line}"
        for name, where in zip(names, comparison.where[::turn], strict=True)
        if where.status == "found"
    ]
    yield Fact("where", "; ".join(found), "bad")


def spending_words(comparison: RunComparison) -> str:
    """Say which run is cheaper or faster; "" if that is not known."""
    spending, names = comparison.spending, short_names([run.name for run in comparison.runs])
    return "" if spending is None else one_line(spending.words(*names))


def _letter_prior(comparison: RunComparison) -> Iterator[Fact]:
    """Say which run has a letter prior removed, if they differ by one."""
    removal = comparison.prior_removal
    if removal is not None:
        first, second = comparison.runs
        yield Fact("letter prior", removal.sentence((first.title, second.title)))


def _discordant(comparison: RunComparison, names: Sequence[str], turn: int) -> str:
    """Count the items that only one run answers correctly, of how many."""
    group = comparison.groups[0]
    test = group.accuracy.items
    left, right = (test.b, test.c)[::turn]
    answers = "" if group.answers == group.items else f"{group.answers:,} answers to "
    sample = f"{answers}{sample_text(group.items, group.clusters, comparison.unit)}"
    counted = f"only {names[0]} right {left:,}, only {names[1]} right {right:,}, of {sample}"
    return f"{counted}{unusual_decoding(comparison.experiment)}"


def unusual_decoding(experiment: Experiment) -> str:
    """Say how answers came about, if not from the first order and raw probabilities.

    Example:
        "; probabilities averaged over orders, calibrated"
    """
    label = experiment.settings.label
    averaged = "probabilities averaged over orders" if label["views"] == "ensemble" else ""
    calibrated = "calibrated" if label["calibration"] == "calibrated" else ""
    unusual = ", ".join(filter(None, (averaged, calibrated)))
    return f"; {unusual}" if unusual else ""


def decoding_text(experiment: Experiment) -> str:
    """Name the views and the calibration behind every number, such as "single, raw"."""
    label = experiment.settings.label
    return f"{label['views']}, {label['calibration']}"


def difference_facts(conclusion: BetterConclusion) -> Iterator[Fact]:
    """Write the differences that the answer does not have: the better run minus the other."""
    accuracy = [claim for claim in conclusion.of("accuracy") if claim is not conclusion.leading]
    for claim in accuracy:
        yield Fact(at_views(claim.k, claim.repeats), claim_text(claim, at=False))
    pairs = conclusion.of("pair_accuracy")
    yield Fact("pairs", ", ".join(claim_text(claim, shown=True) for claim in pairs), spare=True)
    large = conclusion.large_mass_difference is not None
    masses = (
        claim_text(claim, word=large, shown=True)
        for claim in conclusion.of(ANSWER_MASS)
        if claim.shown
    )
    yield Fact("answer mass", ", ".join(masses), "bad" if large else None, spare=not large)


def _margin_facts(
    comparison: RunComparison, conclusion: BetterConclusion, names: Sequence[str]
) -> Iterator[Fact]:
    """Write the verdict on the margin, with the names of A and B, and what could be shown."""
    verdict = comparison.groups[0].metrics["accuracy"].verdict
    if verdict is not None:
        margin = value_text(verdict.margin, "percent")
        unknown = math.isnan(verdict.low)
        text = "no verdict without an interval" if unknown else verdict.about(*names)
        yield Fact("margin", f"{margin} points: {text}")
    yield Fact("power", conclusion.power_words)


def brief_comparisons(
    comparisons: Sequence[RunComparison], others: Sequence[Line] = (), *, items: bool = False
) -> Brief:
    """Return how a run compares with each of several others, one line each.

    Args:
        comparisons: of the first run with each of the others, from one experiment.
        others: further lines before the last one.
        items: whether the items that only one of two runs answers correctly follow.
    """
    first, experiment = comparisons[0], comparisons[0].experiment
    group, conclusions = first.groups[0], [pair.conclusion for pair in comparisons]
    sample = sample_text(group.items, group.clusters, first.unit)
    notes = _each_once(comparisons)
    return Brief(
        cautions=[*cautions(experiment)],
        facts=[
            Fact("sample", f"{sample}{unusual_decoding(experiment)}; {shown_text(conclusions)}"),
            data_fact(experiment.data),
        ],
        notes=notes,
        more=more_text(items=items),
        tables=[_runs_table(comparisons)],
        lines=others,
        most=MOST_LINES + len(comparisons) - _TWO,
    )


def more_text(*, items: bool) -> str:
    """Say how to see more than the first screen, which the items may follow."""
    return "All metrics: --full." if items else "Items: --items 20.  All metrics: --full."


def _each_once(comparisons: Sequence[RunComparison]) -> list[Note]:
    """Return the notes of several comparisons, equal ones once; they cannot be hashed."""
    notes: list[Note] = []
    for comparison in comparisons:
        sides = short_names([run.name for run in comparison.runs])
        named = [_name_runs(note, sides) for note in comparison.notes]
        notes += [note for note in named if note not in notes]
    return notes


def _runs_table(comparisons: Sequence[RunComparison]) -> Table:
    """Lay out the runs: accuracy, its difference from the first run's, conclusions, and costs."""
    first = comparisons[0].runs[0]
    runs = [first, *(comparison.runs[1] for comparison in comparisons)]
    others = [comparison.conclusion.right for comparison in comparisons]
    names = short_names([comparisons[0].conclusion.left, *others], _LONGEST_NAME)
    accuracy = [comparison.groups[0].metrics["accuracy"] for comparison in comparisons]
    values = [accuracy[0].a.value, *(metric.b.value for metric in accuracy)]
    conclusions = [pair.conclusion for pair in comparisons]
    experiment = comparisons[0].experiment
    spending = [spent(run) for run in runs]
    costs = [[Cell(one.cell if one else "")] * any(spending) for one in spending]
    orders = map(experiment.order, runs)
    probabilities = map(experiment.probabilities, runs)
    heads = claim_heads(conclusions)
    differences = claim_cells(conclusions)
    rows = zip(names, values, differences, orders, probabilities, costs, strict=True)
    return Table(
        name="runs",
        columns=(
            Column("run", "left"),
            Column("accuracy"),
            *(Column(head.format(f"{names[0]} - run"), "left") for head in heads),
            *left_columns("order", "probabilities", *["price, latency (95%)"] * any(spending)),
        ),
        rows=tuple(
            table_row(
                name,
                value_text(value, "percent"),
                *texts,
                Cell(order.word, tone=tone_of(order)),
                Cell(probability.word, tone=tone_of(probability)),
                *cost,
            )
            for name, value, texts, order, probability, cost in rows
        ),
        bare=True,
    )


def _accuracy(conclusion: BetterConclusion) -> list[Claim]:
    """Return the claims on accuracy, that of the settings first."""
    return [claim for claim in conclusion.claims if claim.metric == "accuracy"]


def claim_heads(conclusions: Sequence[BetterConclusion]) -> list[str]:
    """Return the heads of `claim_cells`; the first takes what is subtracted."""
    claims = max(map(_accuracy, conclusions), key=len)
    heads = [views_words(claim.k, claim.repeats) for claim in claims]
    heads = [head if at else f"{{}}, {head}" for at, head in enumerate(heads)] or ["{}"]
    return [*heads, "mass"] if any(map(_large_mass, conclusions)) else heads


def _large_mass(conclusion: BetterConclusion) -> Claim | None:
    return conclusion.large_mass_difference


def claim_cells(conclusions: Sequence[BetterConclusion]) -> list[list[str]]:
    """Write the differences in accuracy, that of the settings with its interval.

    If a large difference in answer mass is shown, those in answer mass are the last column.

    Returns:
        Texts of the first run or arm, which are empty, and of each other one, by decoding.
    """
    columns = len(claim_heads(conclusions))
    with_mass = any(map(_large_mass, conclusions))

    def texts(conclusion: BetterConclusion) -> list[str]:
        cells: list[str] = [] if conclusion.claims else [conclusion.status]
        for claim in _accuracy(conclusion):
            cells.append(_claim_cell(claim, interval=not cells))
        cells += [""] * (columns - with_mass - len(cells))
        masses = [_claim_cell(claim) for claim in conclusion.of(ANSWER_MASS)] or [""]
        return cells + masses * with_mass

    return [[""] * columns, *map(texts, conclusions)]


def _claim_cell(claim: Claim, *, interval: bool = False) -> str:
    """Write a difference, with its interval or without, and its mark."""
    difference = claim.difference
    text = value_text(difference.value, "points")
    marks = {"better": " *", "worse": " *", "equivalent": ", equivalent"}
    return (interval_text(difference, "points") if interval else text) + marks.get(claim.status, "")


def shown_text(conclusions: Sequence[BetterConclusion]) -> str:
    """Explain the mark of `claim_cells`."""
    counts = [_most_tests(map(_accuracy, conclusions))]
    if any(map(_large_mass, conclusions)):
        counts.append(_most_tests(conclusion.of(ANSWER_MASS) for conclusion in conclusions))
    if max(counts) <= 1:
        return "* shown"
    of_mass = f"; of mass, for {counts[1]:,}" if len(counts) > 1 else ""
    return f"* shown, adjusted for {counts[0]:,} tests (Holm){of_mass}"


def _most_tests(groups: Iterable[Sequence[Claim]]) -> int:
    return max((claim.evidence.tests for claims in groups for claim in claims), default=0)
