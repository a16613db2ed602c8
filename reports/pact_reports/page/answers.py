"""What a page says: its first screen, and its sections by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.experiment_conclusions import RunConclusions, conclude_runs
from pact_eval.evaluation.diagnostics import Topic
from pact_eval.evaluation.item_outcomes import ItemOutcomes, item_outcomes
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_reports.figures.style import Looks
from pact_reports.page.data_audit import audited_checks
from pact_reports.page.figures import Contents, reliability_diagrams
from pact_reports.page.first_screen import drawn_claims, examples, pictures
from pact_reports.page.html import table_formats
from pact_reports.page.matrix import MATRIX_RUNS, run_matrix
from pact_reports.page.plots import Plot, differences_plot, order_plot
from pact_reports.page.questions import (
    SECTIONS,
    Remark,
    better_findings,
    judge,
    remarks_of,
    run_findings,
)
from pact_reports.page.request import PageRequest
from pact_reports.page.tables import answer_table
from pact_reports.page.verdicts import verdicts
from pact_reports.table import Table
from pact_reports.tables.cells import leak_lines


@dataclass(frozen=True)
class Parts:
    """What some sections have besides findings, figures and tables.

    Attributes:
        plot: differences of the main arm from the others, or the letters that runs prefer.
        copies: what the buttons below it copy.
        criteria: the verdicts on hypotheses, or why there are none.
        groups: metrics by the column that the user named.
        diagrams: reliability diagrams of the runs.
        bins: number of their bins.
        checks: the audit of the data, check by check.
    """

    plot: Plot | None = None
    copies: Mapping[str, str] = field(default_factory=dict)
    criteria: dict[str, Any] | str | None = None
    groups: Table | None = None
    diagrams: Sequence[dict[str, Any]] = ()
    bins: int = 0
    checks: Sequence[dict[str, Any]] = ()

    @property
    def some(self) -> bool:
        """Whether there is anything to see."""
        seen = (self.plot, self.criteria, self.groups, self.diagrams, self.checks)
        return any(map(bool, seen))


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

    request: PageRequest
    conclusions: Sequence[RunConclusions]
    outcomes: Sequence[ItemOutcomes]
    better: Sequence[BetterConclusion]
    judged: JudgedHypotheses | str | None
    remarks: Mapping[Topic, Sequence[Remark]]

    @classmethod
    def of(cls, request: PageRequest) -> Answers:
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
            "critical": [
                remark
                for remarks in self.remarks.values()
                for remark in remarks
                if remark.severity == "critical"
            ],
            "matrix_of_runs": run_matrix(request, self.conclusions) if matrix else None,
            "pictures": [] if matrix else [*pictures(request, self.conclusions, self.better)],
            "examples": examples(request, self.outcomes),
        }

    def sections(
        self, contents: Mapping[Topic, Contents], groups: Table | None
    ) -> list[dict[str, Any]]:
        """Return the sections that have something to say, in the order of the page.

        Args:
            contents: figures and tables by topic.
            groups: metrics by the column that the user named, or None.
        """
        findings = run_findings(self.request, self.conclusions, self.outcomes)
        findings["better"] = [*better_findings(self.request, self.better)]
        own = self._own(groups)
        sections = [
            {
                "topic": topic,
                "id": name,
                "title": title,
                "short": short,
                "findings": findings.get(topic, []),
                "remarks": self.remarks[topic],
                "contents": contents[topic],
                "parts": own.get(topic, Parts()),
            }
            for topic, (name, title, short) in SECTIONS.items()
        ]
        return [section for section in sections if _says_something(section)]

    def _own(self, groups: Table | None) -> dict[Topic, Parts]:
        """Return what one section alone has, by topic."""
        request = self.request
        experiment, names = request.experiment, request.names
        method, judged = experiment.main_arm, self.judged
        verdict = verdicts(judged, names) if isinstance(judged, JudgedHypotheses) else judged
        checks = audited_checks(request.audit, self._ids())
        slots = [experiment.order_audit(run).slots for run in experiment.runs]
        return {
            "better": Parts(
                plot=differences_plot(
                    *(self.better, method, names, drawn_claims(self.conclusions, self.better))
                ),
                copies=table_formats(answer_table(self.better, names)),
                criteria=verdict,
            ),
            "where": Parts(groups=groups),
            "order": Parts(plot=order_plot(request.called, slots)),
            "probabilities": Parts(
                diagrams=reliability_diagrams(experiment, Looks.of(experiment, request.palette)),
                bins=experiment.settings.ece_bins,
            ),
            "data": Parts(checks=checks),
        }

    def _ids(self) -> frozenset[str]:
        """Return the ids of the items of the page, if findings of an audit may name them."""
        if not self.request.audit.checks:
            return frozenset()
        experiment = self.request.experiment
        runs = experiment.runs[:1] if experiment.same_items else experiment.runs
        return frozenset(item for run in runs for item in run.predictions.ids.tolist())


def _says_something(section: dict[str, Any]) -> bool:
    contents: Contents = section["contents"]
    drawn = contents.shown or contents.folded or contents.tables
    return bool(section["findings"] or section["remarks"] or drawn or section["parts"].some)
