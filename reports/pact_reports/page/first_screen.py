"""The first screen of a page: the headline, its picture, and three items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.experiment_conclusions import RunConclusions
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.item_outcomes import ItemOutcomes
from pact_eval.evaluation.run_records import ItemTexts, cut, texts_of
from pact_eval.evaluation.wrong_items import (
    SUREST,
    WrongItem,
    confidence_text,
    differing_items,
    surest_first,
    wrong_items,
)
from pact_reports.page.item_blocks import compared_runs
from pact_reports.page.item_links import Compared, item_href, items_href
from pact_reports.page.plots import Plot, Row, difference_row, groups_plot
from pact_reports.page.questions import bar_hrefs
from pact_reports.page.request import PageRequest

_LONGEST: Final = 110


@dataclass(frozen=True)
class Example:
    """An item of the first screen.

    Attributes:
        item: the item, and the wrong answer to it.
        href: the link that opens it.
        wrong: name of the run that gives the wrong answer; "" if the page has no other.
        right: name of the run that is right; "" if no run is compared.
    """

    item: WrongItem
    href: str
    wrong: str = ""
    right: str = ""

    @property
    def text(self) -> str:
        """Its question or context, whichever tells items apart; its id if neither is known."""
        return cut(self.item.text or self.item.id, _LONGEST)

    @property
    def given(self) -> str:
        """The wrong answer; "" if it is not known."""
        return cut(self.item.given or "", _LONGEST)

    @property
    def sure(self) -> str:
        """The confidence in the wrong answer; "" if it is not known."""
        return confidence_text(self.item.confidence)

    @property
    def reference(self) -> str:
        """The right answers; "" if they are not known."""
        return " or ".join(cut(answer, _LONGEST) for answer in self.item.right)


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
    differing = None if b is None else _differing(request, outcomes, a, b)
    return _wrong(request, a) if differing is None else differing


def _texts(request: PageRequest, run: ExperimentRun) -> ItemTexts:
    return texts_of(run, {} if request.records is None else request.records.records)


def _wrong(request: PageRequest, at: int) -> Examples:
    """Return the surest wrong answers of a run."""
    experiment, run = request.experiment, request.experiment.runs[at]
    items = experiment.items(run, letters=False)
    wrong = wrong_items(run, items, _texts(request, run), SUREST)
    known = any(confidence_text(item.confidence) for item in wrong.items)
    title = "Surest wrong answers" if known else "Wrong answers"
    return Examples(
        f"{title} of {request.called[at]}" if len(request.called) > 1 else title,
        [(f"all {wrong.wrong:,}", items_href(at, outcome="wrong"))],
        [Example(item, item_href(item.id, a=at)) for item in wrong.items],
    )


def _differing(
    request: PageRequest, outcomes: Sequence[ItemOutcomes], a: int, b: int
) -> Examples | None:
    """Return the items that only one of two runs answers right; None without any."""
    names, runs = request.called, request.experiment.runs
    differing = request.experiment.comparisons.differing(runs[a], runs[b])
    texts = _texts(request, runs[a])
    sides = differing_items(differing, runs[a].predictions, texts, SUREST)
    listed = [
        Example(item, item_href(item.id, a=a, b=b), names[wrong], names[right])
        for (right, wrong), items in zip([(a, b), (b, a)], sides.values(), strict=True)
        for item in items
    ]
    every: list[tuple[str, str]] = []
    pairs: tuple[tuple[int, int, Compared], ...] = ((a, b, "only-a"), (b, a, "only-b"))
    for at, other, side in pairs:
        only = int((outcomes[at].correct & ~outcomes[other].correct).sum())
        every.append((f"only {names[at]}: {only:,}", items_href(a, b=b, compared=side)))
    first = sorted(listed, key=lambda example: surest_first(example.item))[:SUREST]
    return Examples("Right in one run only", every, first) if first else None


def pictures(
    request: PageRequest,
    conclusions: Sequence[RunConclusions],
    outcomes: Sequence[ItemOutcomes],
    better: Sequence[BetterConclusion],
) -> Iterator[Plot]:
    """Yield what is drawn below the headline of one or two runs; of more, there is the matrix.

    Args:
        request: the runs.
        conclusions: on every run, in their order.
        outcomes: of every run.
        better: the main arm compared with each of the others.
    """
    experiment = request.experiment
    if len(conclusions) == 1:
        hrefs = bar_hrefs(request, 0, conclusions[0].where, outcomes[0])
        yield groups_plot(conclusions[0], hrefs)
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
