"""The first screen of a page: the headline, its picture, and three items."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

from pact_eval.data.records import position_name
from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.experiment_conclusions import RunConclusions
from pact_eval.evaluation.example_items import count_only_right, only_one_right, surest_errors
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.item_outcomes import ItemOutcomes
from pact_eval.numbers import value_text
from pact_reports.page.item_blocks import compared_runs
from pact_reports.page.item_links import Compared, item_href, items_href
from pact_reports.page.plots import Plot, Row, difference_row, groups_plot
from pact_reports.page.request import PageRequest

_EXAMPLES: Final = 3
_LONGEST: Final = 110


@dataclass(frozen=True)
class Example:
    """An item of the first screen.

    Attributes:
        href: the link that opens it.
        text: its question; its id if the texts are not known.
        right: the right answer; "" if a run gives it.
        given: by name of a run, its answer, the confidence in percent or "", and whether it is
            right.
    """

    href: str
    text: str
    right: str
    given: Sequence[tuple[str, str, str, bool]]


@dataclass(frozen=True)
class Examples:
    """Items to look at first.

    Attributes:
        title: what they have in common.
        every: texts and links that lead to all such items.
        items: the first ones.
    """

    title: str
    every: Sequence[tuple[str, str]]
    items: Sequence[Example]


def examples(request: PageRequest, outcomes: Sequence[ItemOutcomes]) -> Examples:
    """Return three items to look at first.

    Of one run, these are the wrong answers that it is surest of; of several, the items that only
    one of the two compared runs answers right, the surest wrong answers first.

    Args:
        request: the runs.
        outcomes: of every run, in their order.
    """
    a, b = compared_runs(request.experiment)
    names = request.called
    rows = [] if b is None else only_one_right(outcomes[a], outcomes[b], _EXAMPLES)
    if b is None or not rows:
        of_run = f" of {names[a]}" if len(names) > 1 else ""
        rows = surest_errors(outcomes[a], _EXAMPLES)
        wrong = int((~outcomes[a].correct).sum())
        every = [(f"all {wrong:,}", items_href(a, outcome="wrong"))]
        items = [_example(request, outcomes, [a], row) for row in rows]
        known = rows and not math.isnan(outcomes[a].raw.confidence[rows[0]])
        title = "Surest wrong answers" if known else "Wrong answers"
        return Examples(f"{title}{of_run}", every, items)
    sides: tuple[tuple[int, int, Compared], ...] = ((a, b, "only-a"), (b, a, "only-b"))
    counts = {side: count_only_right(outcomes[at], outcomes[of]) for at, of, side in sides}
    every = [
        (f"only {names[at]}: {counts[side]:,}", items_href(a, b=b, compared=side))
        for at, _, side in sides
    ]
    items = [_example(request, outcomes, [a, b], row) for row in rows]
    return Examples("Right in one run only", every, items)


def _example(
    request: PageRequest, outcomes: Sequence[ItemOutcomes], shown: Sequence[int], row: int
) -> Example:
    runs, (a, *others) = request.experiment.runs, shown
    views = runs[a].predictions
    name, names = str(views.ids[row]), _answer_names(request, runs[a], row)
    record = None if request.records is None else request.records.records.get(name)
    asked = record.field.instructions if record is not None else None
    given = []
    for at in shown:
        of_run = outcomes[at]
        called = request.called[at] if others else ""
        confidence = float(of_run.raw.confidence[row])
        sure = "" if math.isnan(confidence) else f"{value_text(confidence, 'percent')}%"
        answer = names[int(of_run.predicted[row])]
        given.append((called, answer, sure, bool(of_run.correct[row])))
    return Example(
        href=item_href(name, a=a, b=others[0] if others else None),
        text=_cut(asked) if isinstance(asked, str) else name,
        right="" if others else " or ".join(compress(names, views.right_answers[row].tolist())),
        given=given,
    )


def _answer_names(request: PageRequest, run: ExperimentRun, row: int) -> list[str]:
    """Return the names of the answers of an item, or their letters."""
    views = run.predictions
    n, kind = int(views.n_choices[row]), str(views.kind[row])
    log = run.provenance.recorded.get("log")
    options = log.get("options") if isinstance(log, dict) else None
    if views.known == "outcomes":
        return ["wrong", "right"] if n == 2 else [*map(str, range(n))]
    if request.records is not None:
        answers = request.records.records[str(views.ids[row])].field.answers
        return [_cut(answer.key) for answer in answers]
    if isinstance(options, list) and len(options) == n:
        return [_cut(str(option)) for option in options]
    if kind == "boolean":
        return ["false", "true"]
    return [*map(str if kind == "score" else position_name, range(n))]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def pictures(
    request: PageRequest, conclusions: Sequence[RunConclusions], better: Sequence[BetterConclusion]
) -> Iterator[Plot]:
    """Yield what is drawn below the headline of one or two runs; of more, there is the matrix.

    Args:
        request: the runs.
        conclusions: on every run, in their order.
        better: the main arm compared with each of the others.
    """
    experiment = request.experiment
    if len(conclusions) == 1:
        yield groups_plot(conclusions[0])
        return
    a, b = compared_runs(experiment)
    order = [a] if b is None else [a, b]
    order += [at for at in range(len(conclusions)) if at not in order]
    rows = [
        Row(request.called[at], conclusions[at].accuracy, href=items_href(at, outcome="wrong"))
        for at in order
    ]
    yield Plot("Accuracy of the runs", [(None, rows)], "percent", hint="In %, with 95% intervals.")
    for claim in drawn_claims(conclusions, better):
        row = difference_row("points", claim, items_href(a, b=b), worded=True)
        yield Plot(f"Difference: {rows[0].name} − {rows[1].name}", [(None, [row])])


def drawn_claims(
    conclusions: Sequence[RunConclusions], better: Sequence[BetterConclusion]
) -> list[Claim]:
    """Return the differences that the first screen draws: of pairs of runs, in accuracy."""
    pairs = [each for each in better if each.seeds == 1 and each.claims]
    if len(conclusions) == 2:
        return [claim for each in pairs if (claim := each.leading) is not None]
    return [each.claims[0] for each in pairs]
