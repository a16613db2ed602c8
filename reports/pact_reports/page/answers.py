"""What a page says: its first screen, and its sections by question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.experiment_conclusions import RunConclusions, conclude_runs
from pact_eval.evaluation.diagnostics import Topic
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.item_outcomes import ItemOutcomes, item_outcomes
from pact_eval.evaluation.run_comparisons import run_differences
from pact_eval.evaluation.run_records import ItemTexts, texts_of
from pact_eval.evaluation.wrong_items import (
    SUREST,
    WrongItem,
    confidence_text,
    differing_items,
    surest_first,
    wrong_items,
)
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_reports.page.figures import Contents, reliability_diagrams
from pact_reports.page.item_blocks import compared_runs
from pact_reports.page.item_links import Compared, item_href, items_href
from pact_reports.page.plots import (
    Axis,
    Plot,
    Row,
    difference_row,
    differences_plot,
    ends_of,
    groups_plot,
    order_plot,
)
from pact_reports.page.questions import (
    SECTIONS,
    Remark,
    bar_hrefs,
    better_findings,
    judge,
    remarks_of,
    run_findings,
)
from pact_reports.request import Request
from pact_reports.tables.cells import leak_lines

MATRIX_RUNS: Final = 3
"""From this number of runs on, the matrix is the picture of the headline."""

MOST_REFERENCES: Final = 15
"""Of more runs, one reference has differences: their number is the square of the runs."""


def run_matrix(request: Request, conclusions: Sequence[RunConclusions]) -> dict[str, Any]:
    """Return runs by questions, as a template writes them.

    Args:
        request: the runs.
        conclusions: on every run, in their order.
    """
    chosen, rows = _differences(request)
    # With one run per arm, the sentences are about these differences.
    one_each = len(request.experiment.arms) == len(conclusions)

    def row(claim: Claim, run: int, at: int) -> Row:
        href = items_href(run, b=at)
        return difference_row("", claim, href, worded=one_each and at == chosen)

    return {
        "names": request.called,
        "chosen": chosen,
        "references": {
            at: [claim and (row(claim, run, at), claim.status) for run, claim in enumerate(claims)]
            for at, claims in rows.items()
        },
        "axis": Axis.of_rates(end for run in conclusions for end in ends_of(run.accuracy)),
        "runs": [
            (Row("", run.accuracy, href=items_href(at, outcome="wrong")), _answers(run))
            for at, run in enumerate(conclusions)
        ],
        "tones": BetterConclusion.tones,
        "most": MOST_REFERENCES,
    }


def _differences(request: Request) -> tuple[int, Mapping[int, Sequence[Claim | None]]]:
    """Return the first reference, and the differences of all runs from every reference."""
    experiment = request.experiment
    chosen, _ = compared_runs(experiment)
    if not experiment.same_items:
        return chosen, {}
    runs = len(experiment.runs)
    every = range(runs) if runs <= MOST_REFERENCES else (chosen,)
    return chosen, dict(zip(every, run_differences(experiment, every, chosen), strict=True))


def _answers(run: RunConclusions) -> list[tuple[str, str, str, str]]:
    """Return the question, tone, word, and section of what is concluded of a run."""
    return [
        (one.question.capitalize(), one.tone, one.words.finding, SECTIONS[one.question][0])
        for one in (run.order, run.probabilities)
    ]


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


def examples(request: Request, outcomes: Sequence[ItemOutcomes]) -> Examples:
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


def _texts(request: Request, run: ExperimentRun) -> ItemTexts:
    return texts_of(run, {} if request.records is None else request.records.records)


def _wrong(request: Request, at: int) -> Examples:
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
    request: Request, outcomes: Sequence[ItemOutcomes], a: int, b: int
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


def drawn_claims(
    conclusions: Sequence[RunConclusions], better: Sequence[BetterConclusion]
) -> list[Claim]:
    """Return the differences that the first screen draws: of pairs of runs, in accuracy."""
    pairs = [each for each in better if each.seeds == 1 and each.claims]
    if len(conclusions) == 2:
        return [claim for each in pairs if (claim := each.leading) is not None]
    return [each.claims[0] for each in pairs]


@dataclass(frozen=True)
class Answers:
    """The conclusions of a page, computed once.

    Attributes:
        request: the runs.
        conclusions: on every run, in their order.
        outcomes: of the items of every run.
        better: the main arm compared with each of the others.
        judged: the hypotheses, why they cannot be judged, or None without any.
        remarks: diagnostics by topic.
    """

    request: Request
    conclusions: Sequence[RunConclusions]
    outcomes: Sequence[ItemOutcomes]
    better: Sequence[BetterConclusion]
    judged: JudgedHypotheses | str | None
    remarks: Mapping[Topic, Sequence[Remark]]

    @classmethod
    def of(cls, request: Request) -> Answers:
        """Conclude on the runs of a page.

        Raises:
            InputError: a run does not have the decoding of the settings.
            RecordError: the criteria cannot be read.
        """
        experiment, judged = request.experiment, judge(request)
        return cls(
            request=request,
            conclusions=conclude_runs(experiment, request.audit),
            outcomes=[item_outcomes(experiment, run) for run in experiment.runs],
            better=[*experiment.comparisons.better_than(experiment.main_arm).values()],
            judged=judged,
            remarks=remarks_of(request, judged),
        )

    def first_screen(self) -> dict[str, Any]:
        """Return what the template of the first screen writes, by the names that it uses."""
        request, leak = self.request, self.request.audit.leak
        matrix = len(self.conclusions) >= MATRIX_RUNS
        sentences = [conclusion.named(request.names).words for conclusion in self.better]
        copied = "\n".join(map(str, [request.answer, *sentences]))
        return {
            "leak": [line.text for line in leak_lines(leak)],
            "headline": request.answer,
            "copies": {"sentence": copied},
            "critical": [*self._critical()],
            "matrix_of_runs": run_matrix(request, self.conclusions) if matrix else None,
            "pictures": [] if matrix else [*self._pictures()],
            "examples": examples(request, self.outcomes),
        }

    def _pictures(self) -> Iterator[Plot]:
        """Yield what is drawn of one or two runs; of more, there is the matrix."""
        request, conclusions = self.request, self.conclusions
        if len(conclusions) == 1:
            hrefs = bar_hrefs(request, 0, conclusions[0].where, self.outcomes[0])
            yield groups_plot(conclusions[0], hrefs)
            return
        a, b = compared_runs(request.experiment)
        order = dict.fromkeys([a, *([] if b is None else [b]), *range(len(conclusions))])
        rows = [
            Row(request.called[at], conclusions[at].accuracy, href=items_href(at, outcome="wrong"))
            for at in order
        ]
        hint = "In %, with 95% intervals."
        yield Plot("Accuracy of the runs", [(None, rows)], "percent", hint=hint)
        for claim in drawn_claims(conclusions, self.better):
            row = difference_row("points", claim, items_href(a, b=b), worded=True)
            yield Plot(f"Difference: {rows[0].name} − {rows[1].name}", [(None, [row])])

    def _critical(self) -> Iterator[tuple[str, str]]:
        """Yield the ids and titles of what may make the numbers meaningless."""
        if isinstance(self.judged, JudgedHypotheses) and self.judged.registration.broken:
            yield SECTIONS["better"][0], f"Registration: {self.judged.registration.status}"
        for remark in chain.from_iterable(self.remarks.values()):
            if remark.severity == "critical":
                yield remark.anchor, remark.title

    def sections(self, contents: Mapping[Topic, Contents]) -> list[dict[str, Any]]:
        """Return the sections that have something to say, in the order of the page.

        Args:
            contents: figures and tables by topic.
        """
        request = self.request
        experiment, looks = request.experiment, request.looks
        findings = run_findings(request, self.conclusions, self.outcomes)
        findings["better"] = [*better_findings(request, self.better, self.judged)]
        slots = [experiment.order_audit(run).slots for run in experiment.runs]
        drawn = drawn_claims(self.conclusions, self.better)
        ids = {
            item
            for run in experiment.runs
            if request.audit.checks
            for item in run.predictions.ids.tolist()
        }
        plots = {
            "better": differences_plot(self.better, experiment.main_arm, request.names, drawn),
            "order": order_plot(request.called, slots),
        }
        sections = [
            {
                "topic": topic,
                "id": name,
                "title": title,
                "short": short,
                "findings": findings.get(topic, []),
                "remarks": self.remarks[topic],
                "contents": contents[topic],
                "plot": plots.get(topic),
                "diagrams": reliability_diagrams(experiment, looks)
                if topic == "probabilities"
                else [],
                "checks": request.audit.checks if topic == "data" else (),
                "ids": ids,
            }
            for topic, (name, title, short) in SECTIONS.items()
        ]
        said = ("findings", "remarks", "contents", "plot")
        return [section for section in sections if any(map(section.get, said))]
