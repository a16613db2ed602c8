"""What a page says: its first screen, its sections by question, and plots as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, Final

from pact_eval.data.records import position_name
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.conclusion import TONES
from pact_eval.evaluation.conclusions.headline import RunConclusions, conclude_runs
from pact_eval.evaluation.diagnostics import Topic
from pact_eval.evaluation.item_records import ItemOutcomes, item_outcomes
from pact_eval.evaluation.registry import metric_spec
from pact_eval.evaluation.report import COMPARED
from pact_eval.evaluation.run_comparisons import run_differences
from pact_eval.evaluation.run_records import texts_of
from pact_eval.evaluation.wrong_items import (
    SUREST,
    confidence_text,
    differing_items,
    surest_first,
    wrong_items,
)
from pact_eval.numbers import Unit, p_value_text, value_text, views_words
from pact_eval.plain_text import upper_first
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.letter_preference import SlotPreferences
from pact_reports.page.figures import Contents, reliability_diagrams
from pact_reports.page.html import Compared, item_href, items_href
from pact_reports.page.item_blocks import compared_runs
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

_STEPS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_MOST_RATES: Final = 5
_MARGIN: Final = 4.0
_MOST_BARS: Final = 9
_OPEN_ROWS: Final = 16
"""Groups beyond these rows are folded."""


@dataclass(frozen=True)
class Axis:
    """A horizontal axis.

    Attributes:
        low: smallest value on it, a fraction.
        high: largest value on it.
        step: distance of two ticks.
        unit: of the ticks: points with a line at 0, or percent.
    """

    low: float
    high: float
    step: float
    unit: Unit = "percent"

    @classmethod
    def of_differences(cls, values: Iterable[float]) -> Axis:
        """Choose the axis around 0 that holds some values, with a tick on either side of 0.

        Args:
            values: NaN are left out.

        Examples:
            >>> Axis.of_differences([-0.115, 0.04])
            Axis(low=-0.115, high=0.115, step=0.1, unit='points')
        """
        end = max((abs(value) for value in values if not math.isnan(value)), default=0.0)
        end = max(end, _STEPS[0])
        step = next((width for width in _STEPS if end / width < 2), _STEPS[-1])
        return cls(-end, end, step, "points")

    @classmethod
    def of_rates(cls, values: Iterable[float]) -> Axis:
        """Choose the axis of rates that holds some values, between two ticks.

        Examples:
            >>> [text for _, text in Axis.of_rates([0.61, 0.719]).ticks]
            ['60', '65', '70', '75']
        """
        known = [value for value in values if not math.isnan(value)]
        least, most = min(known, default=0.0), max(known, default=1.0)
        step = next((width for width in _STEPS if (most - least) / width < _MOST_RATES - 1), 0.5)
        low, high = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
        return cls(max(0.0, low * step), min(1.0, max(high, low + 1) * step), step)

    @property
    def ticks(self) -> tuple[tuple[str, str], ...]:
        """The places of the ticks and their texts, ascending."""
        first = math.ceil(self.low / self.step - 1e-9)
        last = math.floor(self.high / self.step + 1e-9)
        values = [at * self.step for at in range(first, last + 1)]
        return tuple(
            (self.place(at), value_text(at, self.unit).removesuffix(".0")) for at in values
        )

    @property
    def zero(self) -> str | None:
        """The place of the line at 0; None for rates."""
        return self.place(0.0) if self.unit == "points" else None

    def place(self, value: float) -> str:
        """Return the place of a value, in percent of the width.

        Examples:
            >>> Axis.of_differences([0.1]).place(0.0), Axis.of_differences([0.1]).place(0.1)
            ('50%', '96%')
        """
        share = _MARGIN + (100 - 2 * _MARGIN) * (value - self.low) / (self.high - self.low)
        return f"{share:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Row:
    """A row of a plot.

    Attributes:
        name: what it is of.
        estimate: the value with its interval.
        shown: whether the mark is filled.
        remark: after the numbers, such as a p-value.
        href: the items behind it.
        beside: another value on the same axis, such as the mean confidence; NaN without one.
        differs: whether the bar is coloured as bad: of a group that is shown to be worse.
    """

    name: str
    estimate: Estimate
    shown: bool = True
    remark: str = ""
    href: str | None = None
    beside: float = math.nan
    differs: bool = False


Rows = tuple[str | None, Sequence[Row]]
"""A heading, or None, and the rows below it."""


@dataclass(frozen=True)
class Plot:
    """Rows on one axis.

    Attributes:
        label: what they show, for those who do not see them.
        groups: the rows; those beyond `_OPEN_ROWS` are folded, group by group.
        unit: percent or points.
        bars: whether a bar from 0 leads to each value.
        ends: what lies to the left and to the right of 0, or None.
        hint: how to read it.
    """

    label: str
    groups: Sequence[Rows]
    unit: Unit = "points"
    bars: bool = False
    ends: tuple[str, str] | None = None
    hint: str = ""

    @cached_property
    def axis(self) -> Axis:
        """The axis of all rows."""
        if self.bars:
            return Axis(0.0, 1.0, 0.25)
        values = (end for _, rows in self.groups for row in rows for end in ends_of(row.estimate))
        return Axis.of_rates(values) if self.unit == "percent" else Axis.of_differences(values)

    @property
    def shown(self) -> Sequence[Rows]:
        """The groups that are open."""
        totals = accumulate(len(rows) for _, rows in self.groups)
        return self.groups[: max(1, sum(total <= _OPEN_ROWS for total in totals))]

    @property
    def folded(self) -> Sequence[Rows]:
        """The other groups."""
        return self.groups[len(self.shown) :]


def groups_plot(run: RunConclusions, hrefs: Mapping[str, str | None]) -> Plot:
    """Return the accuracy of a run, and of the groups of one column, the worst first, as bars.

    Args:
        run: its conclusions.
        hrefs: links to the wrong answers of the groups, by their values.
    """
    where, probabilities = run.where, run.probabilities
    bars = sorted(where.column_bars, key=lambda group: group.accuracy.value)
    rows = [
        Row(
            f"{group.value} ({group.items:,})",
            group.accuracy,
            differs=group in where.groups and not group.better,
            href=hrefs.get(group.value),
            beside=group.confidence,
        )
        for group in (bars if len(bars) > 1 else ())
    ]
    everything = Row(
        f"all items ({run.accuracy.n:,})",
        run.accuracy,
        href=items_href(0, outcome="wrong"),
        beside=probabilities.confidence,
    )
    more: list[Rows] = [(None, rows[_MOST_BARS:])] if rows[_MOST_BARS:] else []
    beside = "" if math.isnan(probabilities.confidence) else " Line: mean confidence."
    worse = any(row.differs for row in rows)
    differs = " Red: shown to be worse than the others." if worse else ""
    return Plot(
        f"Right answers by {bars[0].column}" if rows else "Right answers",
        [(None, [everything, *rows[:_MOST_BARS]]), *more],
        "percent",
        bars=True,
        hint=f"In %, with 95% intervals.{beside}{differs}",
    )


def differences_plot(
    conclusions: Sequence[BetterConclusion],
    method: str,
    names: ArmNames,
    drawn: Collection[Claim] = (),
) -> Plot | None:
    """Return the differences of a method from the other arms; None if there are none to draw.

    Args:
        conclusions: on the method and each other arm.
        method: the arm.
        names: display names of arms.
        drawn: differences that are drawn elsewhere.
    """
    left, elsewhere = names.arm(method), {*map(id, drawn)}
    groups: list[Rows] = []
    compared = []
    for each in conclusions:
        claims = [claim for name in COMPARED for claim in each.of(name)]
        rows = [
            difference_row(
                f"{metric_spec(claim.metric).title}, {views_words(claim.k, claim.repeats)}", claim
            )
            for claim in claims
            if id(claim) not in elsewhere
        ]
        if rows:
            seeds = f", mean of {each.seeds} seeds" if each.seeds > 1 else ""
            groups.append((f"{left} − {names.arm(each.right)}{seeds}", rows))
            compared.append(each)
    if not compared:
        return None
    other = names.arm(compared[0].right) if len(compared) == 1 else "the other arm"
    over_seeds = ", and over seeds if there are three" if compared[0].seeds > 1 else ""
    return Plot(
        "Paired differences",
        groups,
        ends=(f"{other} better", f"{left} better"),
        hint=(
            f"In points, with 95% intervals over families{over_seeds}. Filled: shown. Hollow: "
            f"not shown, with its p-value. {upper_first(compared[0].adjustment)}"
        ),
    )


def order_plot(names: Sequence[str], preferences: Sequence[SlotPreferences]) -> Plot | None:
    """Return how much more often than by chance runs choose each letter; None without orders.

    Args:
        names: of the runs.
        preferences: of each run.
    """
    groups: list[Rows] = []
    for name, of_run in zip(names, preferences, strict=True):
        last = [] if of_run.last is None else [of_run.last]
        rows = [
            Row(
                "the last place" if slot.slot < 0 else position_name(slot.slot),
                slot.preference,
                slot.marked,
            )
            for slot in (*of_run.slots, *last)
            if not math.isnan(slot.preference.value)
        ]
        if of_run.items:
            groups.append((name if len(names) > 1 else None, rows))
    if not any(rows for _, rows in groups):
        return None
    return Plot(
        "Choices of each letter beyond chance",
        groups,
        ends=("avoided", "preferred"),
        hint=(
            "Share of the views that choose the answer next to a letter, in points beyond the "
            "same answers in other orders; 95% intervals over families. Filled: shown."
        ),
    )


def difference_row(
    name: str, claim: Claim, href: str | None = None, *, worded: bool = False
) -> Row:
    """Return the row of a difference; the p-value of one that is not shown follows.

    Args:
        name: of the row.
        claim: on the difference.
        href: link to the items.
        worded: whether a sentence of the page gives the p-value of an interval without 0.
    """
    p_value = claim.evidence.deciding
    said = claim.shown or (worded and claim.difference.excludes_zero)
    remark = "" if said or math.isnan(p_value) else p_value_text(p_value)
    return Row(name, claim.difference, claim.shown, remark, href)


def ends_of(estimate: Estimate) -> tuple[float, float, float]:
    """Return what an axis must hold of an estimate."""
    return estimate.value, estimate.low, estimate.high


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
    experiment, runs = request.experiment, range(len(conclusions))
    chosen, _ = compared_runs(experiment)
    every = runs if len(runs) <= MOST_REFERENCES else (chosen,)
    differences: Iterable[Sequence[Claim | None]] = ()
    if experiment.same_items:
        differences = run_differences(experiment, every, chosen)
    # With one run per arm, the sentences are about the differences from the first reference.
    one_each = len(experiment.arms) == len(conclusions)
    references: dict[int, list[Any]] = {}
    for at, claims in zip(every, differences, strict=False):
        worded = one_each and at == chosen
        references[at] = [
            claim
            and (difference_row("", claim, items_href(run, b=at), worded=worded), claim.status)
            for run, claim in enumerate(claims)
        ]
    rows = []
    for at, run in enumerate(conclusions):
        answers = [
            (one.question.capitalize(), one.tone, one.words.finding, SECTIONS[one.question][0])
            for one in (run.order, run.probabilities)
        ]
        rows.append((Row("", run.accuracy, href=items_href(at, outcome="wrong")), answers))
    return {
        "names": request.called,
        "chosen": chosen,
        "references": references,
        "axis": Axis.of_rates(end for run in conclusions for end in ends_of(run.accuracy)),
        "runs": rows,
        "tones": TONES,
        "most": MOST_REFERENCES,
    }


def examples(request: Request, outcomes: Sequence[ItemOutcomes]) -> dict[str, Any]:
    """Return three items to look at first, as a template writes them.

    Of one run, these are the wrong answers that it is surest of; of several, the items that only
    one of the two compared runs answers right, the surest wrong answers first.

    Args:
        request: the runs.
        outcomes: of every run, in their order.
    """
    experiment, names = request.experiment, request.called
    a, b = compared_runs(experiment)
    run = experiment.runs[a]
    texts = texts_of(run, {} if request.records is None else request.records.records)
    listed = []
    if b is not None:
        differing = experiment.comparisons.differing(run, experiment.runs[b])
        sides = differing_items(differing, run.predictions, texts, SUREST)
        for (right, wrong), items in zip(((a, b), (b, a)), sides.values(), strict=True):
            listed += [(item, names[wrong], names[right]) for item in items]
    if b is not None and listed:
        title, every = "Right in one run only", []
        pairs: tuple[tuple[int, int, Compared], ...] = ((a, b, "only-a"), (b, a, "only-b"))
        for at, other, side in pairs:
            only = int((outcomes[at].correct & ~outcomes[other].correct).sum())
            every.append((f"only {names[at]}: {only:,}", items_href(a, b=b, compared=side)))
        listed = sorted(listed, key=lambda example: surest_first(example[0]))[:SUREST]
    else:
        b, wrong_ones = None, wrong_items(run, experiment.items(run, letters=False), texts, SUREST)
        known = any(confidence_text(item.confidence) for item in wrong_ones.items)
        title = "Surest wrong answers" if known else "Wrong answers"
        title = f"{title} of {names[a]}" if len(names) > 1 else title
        every = [(f"all {wrong_ones.wrong:,}", items_href(a, outcome="wrong"))]
        listed = [(item, "", "") for item in wrong_ones.items]
    shown = [
        {"item": item, "href": item_href(item.id, a=a, b=b), "wrong": wrong, "right": right}
        for item, wrong, right in listed
    ]
    return {"title": title, "every": every, "listed": shown}


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
            conclusions=conclude_runs(experiment, request.experiment.data),
            outcomes=[item_outcomes(experiment, run) for run in experiment.runs],
            better=[*experiment.comparisons.better_than(experiment.main_arm).values()],
            judged=judged,
            remarks=remarks_of(request, judged),
        )

    def first_screen(self) -> dict[str, Any]:
        """Return what the template of the first screen writes, by the names that it uses."""
        request, leak = self.request, self.request.experiment.data.leak
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
        rows = [
            Row(request.called[at], conclusions[at].accuracy, href=items_href(at, outcome="wrong"))
            for at in (a, 1 - a)
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
        experiment = request.experiment
        findings = run_findings(request, self.conclusions, self.outcomes)
        findings["better"] = [*better_findings(request, self.better, self.judged)]
        slots = [experiment.order_audit(run).slots for run in experiment.runs]
        drawn = drawn_claims(self.conclusions, self.better)
        checks = request.experiment.data.checks
        audited = experiment.runs if checks else ()
        ids = {item for run in audited for item in run.predictions.ids.tolist()}
        plots = {
            "better": differences_plot(self.better, experiment.main_arm, request.names, drawn),
            "order": order_plot(request.called, slots),
        }
        diagrams = reliability_diagrams(experiment, request.looks)
        sections: list[dict[str, Any]] = [
            {
                "topic": topic,
                "id": name,
                "title": title,
                "short": short,
                "findings": findings.get(topic, []),
                "remarks": self.remarks[topic],
                "contents": contents[topic],
                "plot": plots.get(topic),
                "diagrams": diagrams if topic == "probabilities" else [],
                "checks": checks if topic == "data" else (),
                "ids": ids,
            }
            for topic, (name, title, short) in SECTIONS.items()
        ]
        said = ("findings", "remarks", "contents", "plot")
        return [section for section in sections if any(map(section.get, said))]
