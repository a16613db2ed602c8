"""The sections of a page, one per question of a reader.

Each has its findings, which conclusions word, the diagnostics that belong to it, its figures and
its tables. A finding that several runs share is one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.conclusion import (
    NOT_SHOWN,
    QUESTIONS,
    SEVERITIES,
    Conclusion,
    Sentence,
    Severity,
    Tone,
    unchecked_list,
)
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.headline import RunConclusions
from pact_eval.evaluation.conclusions.where import WhereConclusion, WhereGroup, items_of_groups
from pact_eval.evaluation.diagnostics import CATALOGUE, Diagnostic, Topic, diagnose, on_other_data
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.item_records import ItemOutcomes
from pact_eval.evaluation.spending import compare_spending, spent
from pact_eval.plain_text import first_of
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.preregistration.scorecard import on_verdicts
from pact_reports.page.html import items_href
from pact_reports.request import Request, reason

SECTIONS: Final[Mapping[Topic, tuple[str, str, str]]] = {
    "better": ("better", QUESTIONS["better"], "Better?"),
    "where": ("where", QUESTIONS["where"], "Where"),
    "order": ("order-of-answers", QUESTIONS["order"], "Order"),
    "probabilities": ("calibration", QUESTIONS["probabilities"], "Probabilities"),
    "data": ("data", QUESTIONS["data"], "Data"),
    "acting": ("acting", QUESTIONS["acting"], "Act alone"),
    "runs": ("provenance", "How were the runs made?", "Runs"),
}
"""By topic: the id of its section, its title, and its name in the navigation."""

_MOST_NAMES: Final = 4
_PAIR: Final = 2
_MOST_IDS: Final = 300
"""Of a link; a list of more items is too long for an address."""


@dataclass(frozen=True)
class Finding:
    """What is concluded of some runs.

    Attributes:
        runs: names of the runs that share it; "" if it needs no name.
        tone: decides the colour.
        words: the finding, and its numbers.
        items: what the items behind it are called, and the link to them; None without.
    """

    runs: str
    tone: Tone
    words: Sentence
    items: tuple[str, str] | None = None


@dataclass(frozen=True)
class Remark:
    """Diagnostics of a kind.

    Attributes:
        anchor: id of the remark.
        severity: of all of them.
        title: of the kind.
        why: why it matters.
        lines: names of the runs or "", the text, and the link to the items or None.
    """

    anchor: str
    severity: Severity
    title: str
    why: str
    lines: Sequence[tuple[str, str, str | None]]


def run_findings(
    request: Request, conclusions: Sequence[RunConclusions], outcomes: Sequence[ItemOutcomes]
) -> dict[Topic, list[Finding]]:
    """Return what is concluded of each run, by question.

    Args:
        request: the runs.
        conclusions: on every run, in their order.
        outcomes: of every run, in their order.
    """
    experiment = request.experiment
    findings: dict[Topic, list[Finding]] = {}
    for at, (run, of_run) in enumerate(zip(conclusions, outcomes, strict=True)):
        changed, wrong = int(of_run.flipped.sum()), int((~of_run.correct).sum())
        of_order = (changed, f"the {changed:,} that change", items_href(at, outcome="flips"))
        of_wrong = (wrong, f"the {wrong:,} wrong answers", items_href(at, outcome="wrong"))
        n_leaked, leaked = len(run.data.items), items_href(at, ids=run.data.items)
        said: list[tuple[Topic, Conclusion, tuple[int, str, str]]] = [
            ("where", run.where, _there(experiment.runs[at], run.where, of_run, at)),
            ("order", run.order, of_order),
            ("probabilities", run.probabilities, of_wrong),
            ("data", run.data, (n_leaked, f"the {n_leaked:,} items", leaked)),
        ]
        for topic, conclusion, (n, text, href) in said:
            items = (text, href) if n else None
            finding = Finding(request.called[at], conclusion.tone, _words(conclusion), items)
            findings.setdefault(topic, []).append(finding)
    joined = {topic: _shared(of_runs) for topic, of_runs in findings.items()}
    spent_by_run = zip(request.called, map(spent, experiment.runs), strict=True)
    made = [
        Finding(name, "open", Sentence("Requests", one.words)) for name, one in spent_by_run if one
    ]
    return {**joined, "acting": [acting_finding(request)], "runs": made}


def _words(conclusion: Conclusion) -> Sentence:
    """Return the finding with what was not checked; of data, without the leak, which is said."""
    words = conclusion.words
    if isinstance(conclusion, DataConclusion):
        parts = [part for part in conclusion.parts if part != str(conclusion.leak)]
        return Sentence(words.finding, f"{'; '.join(parts)}." if parts else "")
    if not conclusion.unchecked:
        return words
    numbers = words.numbers.removesuffix(".")
    return Sentence(words.finding, f"{numbers}; {unchecked_list(conclusion.unchecked)}.")


def _there(
    run: ExperimentRun, conclusion: WhereConclusion, outcomes: ItemOutcomes, at: int
) -> tuple[int, str, str]:
    """Return the link to the wrong answers of the groups that differ, if the script can list them.

    Returns:
        Their number, what they are called, and the link.
    """
    inside = {*conclusion.items}
    rows = zip(run.predictions.ids.tolist(), outcomes.correct.tolist(), strict=True)
    wrong = [name for name, right in rows if not right and name in inside]
    href = items_href(at, ids=wrong)
    if len(wrong) > _MOST_IDS:
        href = group_href(conclusion.groups[0], at, ()) or ""
    return len(wrong) if href else 0, "their wrong answers", href


def bar_hrefs(
    request: Request, at: int, where: WhereConclusion, outcomes: ItemOutcomes
) -> dict[str, str | None]:
    """Return the links to the wrong answers of the groups that are drawn, by their values.

    Args:
        request: the runs.
        at: index of the run.
        where: its groups.
        outcomes: of its items.
    """
    experiment, run = request.experiment, request.experiment.runs[at]
    inside = items_of_groups(experiment.items(run, letters=False), where.column_bars)
    wrong = run.predictions.ids[~outcomes.correct].tolist()
    return {
        group.value: group_href(
            group, at, [name for name in wrong if name in inside.get(group.value, ())]
        )
        for group in where.column_bars
    }


def group_href(group: WhereGroup, at: int, wrong: Sequence[str]) -> str | None:
    """Return the link to the wrong answers of a group: a filter of the script, or their ids.

    Args:
        group: of a column.
        at: index of the run.
        wrong: ids of its wrong answers.

    Returns:
        The link; None if the script cannot filter by the column, and there are no ids or too many.
    """
    if group.column == "kind":
        return items_href(at, outcome="wrong", kind=group.value)
    if group.column == "domain":
        return items_href(at, outcome="wrong", domain=group.value)
    return items_href(at, ids=wrong) if 0 < len(wrong) <= _MOST_IDS else None


def _shared(findings: Sequence[Finding]) -> list[Finding]:
    """Join the findings of runs that say the same; those of all runs need no name."""
    by_words: dict[Sentence, list[Finding]] = {}
    for finding in findings:
        by_words.setdefault(finding.words, []).append(finding)
    joined = []
    for words, group in by_words.items():
        names = first_of([finding.runs for finding in group], _MOST_NAMES)
        every = len(group) == len(findings)
        texts = {finding.items and finding.items[0] for finding in group}
        items = group[0].items if len(texts) == 1 else None
        joined.append(Finding("" if every else names, group[0].tone, words, items))
    return joined


def acting_finding(request: Request) -> Finding:
    """Return whether the main arm may act alone, or how to ask."""
    acting = request.acting
    if acting is None:
        return Finding("", "open", Sentence("Not asked", "give --target-error, such as 0.05."))
    labels = [run.label for run in request.experiment.runs]
    name = request.called[labels.index(acting.run)] if len(labels) > 1 else ""
    return Finding(name, acting.tone, acting.words)


def better_findings(
    request: Request,
    conclusions: Sequence[BetterConclusion],
    judged: JudgedHypotheses | str | None,
) -> Iterator[Finding]:
    """Yield whether the main arm is better than each of the others; a broken registration first.

    Args:
        request: the runs.
        conclusions: on the main arm and each of the others; plots have their numbers.
        judged: the hypotheses, why they cannot be judged, or None without any.
    """
    if isinstance(judged, str):
        yield Finding("", "open", Sentence("The criteria cannot be judged", f"{judged}."))
    elif judged is not None and judged.registration.broken:
        reasons = "; ".join((*judged.registration.reasons, "the verdicts below prove nothing."))
        yield Finding("", "bad", Sentence(f"Registration: {judged.registration.status}", reasons))
    for conclusion in conclusions:
        named = conclusion.named(request.names)
        finding, numbers = named.words.finding, named.power_words
        several = len(conclusions) > 1 and finding.startswith(NOT_SHOWN)
        words = Sentence(finding, numbers if named.claims else named.words.numbers)
        yield Finding(f"{named.left} − {named.right}" if several else "", conclusion.tone, words)
    experiment = request.experiment
    if conclusions and len(experiment.runs) == _PAIR and experiment.same_items:
        spending = compare_spending(experiment, *experiment.runs)
        if spending is not None:
            yield Finding("", "open", Sentence("Requests", spending.words(*request.called)))


def remarks_of(
    request: Request, judged: JudgedHypotheses | str | None
) -> dict[Topic, list[Remark]]:
    """Return the diagnostics by topic and kind, the most severe first."""
    diagnostics = [*diagnose(request.experiment, request.names)]
    if request.records is not None:
        diagnostics += map(on_other_data, request.records.different)
    if isinstance(judged, JudgedHypotheses):
        diagnostics += on_verdicts(judged.scorecard)
    runs = [run.label for run in request.experiment.runs]

    def line(diagnostic: Diagnostic) -> tuple[str, str, str | None]:
        if diagnostic.run not in runs:
            return diagnostic.run or "", diagnostic.text, None
        # The link has the number of the run, since labels may have characters shown as escapes.
        number = runs.index(diagnostic.run)
        name = request.called[number] if len(runs) > 1 else ""
        href = items_href(number, **diagnostic.items) if diagnostic.items else None
        return name, diagnostic.text, href

    remarks: dict[Topic, list[Remark]] = {topic: [] for topic in SECTIONS}
    for severity in SEVERITIES:
        for kind, (topic, title, why) in CATALOGUE.items():
            group = [each for each in diagnostics if (each.severity, each.kind) == (severity, kind)]
            if group:
                anchor = f"diagnostic-{severity}-{kind}"
                place = topic if topic != "better" or request.compares else "runs"
                remarks[place].append(Remark(anchor, severity, title, why, [*map(line, group)]))
    return remarks


def judge(request: Request) -> JudgedHypotheses | str | None:
    """Judge the criteria, or return the reason that prevents it; None without criteria.

    Raises:
        RecordError: the file of criteria has an error.
    """
    if request.criteria is None:
        return None
    try:
        return request.judged
    except RecordError:
        # The user named this file, so an error in it must stop the command.
        raise
    except InputError as error:
        return reason(error)
