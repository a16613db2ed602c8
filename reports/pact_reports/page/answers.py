"""What a page says: its first screen, and its sections by question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
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
from pact_reports.tables.cells import leak_lines


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
            "critical": [*self._critical()],
            "matrix_of_runs": run_matrix(request, self.conclusions) if matrix else None,
            "pictures": [] if matrix else [*self._pictures()],
            "examples": examples(request, self.outcomes),
        }

    def _pictures(self) -> Iterator[Plot]:
        return pictures(self.request, self.conclusions, self.outcomes, self.better)

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
        experiment, looks = request.experiment, Looks.of(request.experiment, request.palette)
        findings = run_findings(request, self.conclusions, self.outcomes)
        findings["better"] = [*better_findings(request, self.better, self.judged)]
        slots = [experiment.order_audit(run).slots for run in experiment.runs]
        drawn = drawn_claims(self.conclusions, self.better)
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
                "checks": audited_checks(request.audit, self._ids()) if topic == "data" else [],
            }
            for topic, (name, title, short) in SECTIONS.items()
        ]
        said = ("findings", "remarks", "contents", "plot")
        return [section for section in sections if any(map(section.get, said))]

    def _ids(self) -> frozenset[str]:
        """Return the ids of the items of the page, if findings of an audit may name them."""
        runs = self.request.experiment.runs if self.request.audit.checks else ()
        return frozenset(item for run in runs for item in run.predictions.ids.tolist())
