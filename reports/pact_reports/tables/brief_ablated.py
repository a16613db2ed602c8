"""Brief output of `report` for a run on ablated contexts."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.registry import ABLATED_GAP
from pact_eval.numbers import interval_text, rate_text
from pact_eval.plain_text import one_line
from pact_reports.sentences.brief import ablated_line
from pact_reports.table import Line, Part
from pact_reports.tables.brief import Brief, Fact, data_fact
from pact_reports.tables.brief_report import run_text
from pact_reports.tables.cells import leak_lines


def brief_ablated(
    report: RunReport, names: ArmNames = KEYS, others: Sequence[Line] = ()
) -> tuple[Part, ...]:
    """Lay out how sure a run is without the evidence, and how far its answers move.

    Args:
        report: of a run on ablated contexts, which have no correct answer.
        names: display names of arms.
        others: further lines before the last one.
    """
    evaluation, leak = report.evaluation, report.experiment.data.leak
    estimates = evaluation.groups[0].estimates
    gap = interval_text(estimates[ABLATED_GAP], "nats", " nats")
    flips, tv = (rate_text(estimates[name]) for name in ("flip_rate", "view_tv"))
    moved = "" if evaluation.k == 1 else f"{flips} of answers change; view TV {tv}"
    return Brief(
        answer=(*leak_lines(leak), Line(ablated_line(evaluation, leak), "strong")),
        facts=[
            *map(data_fact, [report.experiment.data]),
            Fact("expected", "no answer is correct here: lower confidence and gap are better"),
            Fact(
                "answer gap", f"{gap} between the two answers that the contexts cannot tell apart"
            ),
            Fact("order", moved),
            Fact("answer mass", rate_text(estimates["answer_mass"])),
            Fact("run", run_text(report, names)),
        ],
        notes=evaluation.notes,
        more=f"All metrics: pact-eval report {one_line(report.run.place)} --full",
        lines=others,
    ).parts()
