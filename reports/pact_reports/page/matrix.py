"""The matrix of runs: accuracy as a dot, the difference from a reference, order, probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.experiment_conclusions import RunConclusions
from pact_eval.evaluation.run_comparisons import run_differences
from pact_reports.page.item_blocks import compared_runs
from pact_reports.page.item_links import items_href
from pact_reports.page.plots import Axis, Row, difference_row, ends_of
from pact_reports.page.questions import SECTIONS
from pact_reports.page.request import PageRequest

MATRIX_RUNS: Final = 3
"""From this number of runs on, the matrix is the picture of the headline."""

MOST_REFERENCES: Final = 15
"""Of more runs, one reference has differences: their number is the square of the runs."""


def run_matrix(request: PageRequest, conclusions: Sequence[RunConclusions]) -> dict[str, Any]:
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

    references = [
        {
            "at": at,
            "run": request.called[at],
            "chosen": at == chosen,
            "rows": [
                claim and (row(claim, run, at), claim.status) for run, claim in enumerate(claims)
            ],
        }
        for at, claims in rows.items()
    ]
    return {
        "references": references,
        "axis": Axis.of_rates(end for run in conclusions for end in ends_of(run.accuracy)),
        "runs": [
            {
                "at": at,
                "name": request.called[at],
                "chosen": at == chosen,
                "accuracy": Row("", run.accuracy, href=items_href(at, outcome="wrong")),
                "answers": _answers(run),
            }
            for at, run in enumerate(conclusions)
        ],
        "tones": BetterConclusion.tones,
        "hint": _hint(len(rows)),
    }


def _differences(request: PageRequest) -> tuple[int, Mapping[int, Sequence[Claim | None]]]:
    """Return the first reference, and the differences of all runs from every reference."""
    experiment = request.experiment
    chosen, _ = compared_runs(experiment)
    if not experiment.same_items:
        return chosen, {}
    runs = len(experiment.runs)
    every = range(runs) if runs <= MOST_REFERENCES else (chosen,)
    return chosen, dict(zip(every, run_differences(experiment, every, chosen), strict=True))


def _hint(references: int) -> str:
    text = "Accuracy in %, with 95% intervals; differences in points, run minus reference."
    if not references:
        return "With 95% intervals. The runs have different items, so none is compared."
    if references > 1:
        return f"{text} Choose a run to make it the reference."
    return f"{text} With more than {MOST_REFERENCES} runs, the reference is fixed."


def _answers(run: RunConclusions) -> list[tuple[str, str, str, str]]:
    """Return the question, tone, word, and section of what is concluded of a run."""
    return [
        ("Order", run.order.tone, run.order.words.finding, SECTIONS["order"][0]),
        (
            *("Probabilities", run.probabilities.tone, run.probabilities.words.finding),
            SECTIONS["probabilities"][0],
        ),
    ]
