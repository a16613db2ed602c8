"""Differences between runs: the axis and the forest plot of arms, and the matrix of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.experiment_conclusions import RunConclusions
from pact_eval.evaluation.registry import MetricDecoding, metric_spec
from pact_eval.evaluation.report import COMPARED
from pact_eval.evaluation.run_comparisons import run_differences
from pact_eval.numbers import value_text, views_words
from pact_reports.page.html import table_formats
from pact_reports.page.item_blocks import compared_runs
from pact_reports.page.item_links import DATA_AUDIT, items_href
from pact_reports.page.request import PageRequest
from pact_reports.page.tables import matrix_table
from pact_reports.tables.cells import decoding_words

_STEPS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_MOST_TICKS: Final = 1
"""On either side of 0: more would overlap where the plot of a narrow screen has 7 rem."""
_MARGIN: Final = 4.0
_MARKS: Final = (
    "Filled: shown. Hollow: not shown, with its p-value. What is named together is adjusted "
    "together (Holm), so the interval of a hollow mark may exclude 0."
)
_OPEN_ROWS: Final = 8
"""More rows than these are folded, so that the diagnostics below stay on the first screen."""

_LOOSE_ROWS: Final = 4


@dataclass(frozen=True)
class Axis:
    """A symmetric axis of differences, with 0 in the middle.

    Attributes:
        step: distance of two ticks, as a fraction.
        end: largest value on it.
    """

    step: float
    end: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Axis:
        """Choose the axis that holds some values, with one tick on either side of 0.

        Args:
            values: NaN are left out.

        Examples:
            >>> Axis.of([-0.115, 0.04])
            Axis(step=0.1, end=0.115)
        """
        end = max((abs(value) for value in values if not math.isnan(value)), default=0.0)
        end = max(end, _STEPS[0])
        step = next((width for width in _STEPS if end / width < _MOST_TICKS + 1), _STEPS[-1])
        return cls(step, end)

    @classmethod
    def of_claims(cls, claims: Sequence[Claim]) -> Axis:
        """Choose the axis that holds differences with their intervals."""
        estimates = [claim.difference for claim in claims]
        return cls.of([end for each in estimates for end in (each.value, each.low, each.high)])

    @property
    def ticks(self) -> tuple[float, ...]:
        """The values of the ticks, ascending."""
        n = math.floor(self.end / self.step + 1e-9)
        return tuple(at * self.step for at in range(-n, n + 1))

    def place(self, value: float) -> str:
        """Return the place of a value, in percent of the width.

        Examples:
            >>> Axis(0.05, 0.1).place(0.0), Axis(0.05, 0.1).place(0.1)
            ('50%', '96%')
        """
        share = 50 + (50 - _MARGIN) * value / self.end
        return f"{share:.2f}".rstrip("0").rstrip(".") + "%"


def forest_plot(
    conclusions: Sequence[BetterConclusion], method: str, names: ArmNames
) -> dict[str, Any] | str:
    """Return the differences of a method from the other arms, as a template draws them.

    Args:
        conclusions: on the method and each other arm.
        method: the arm.
        names: display names of arms.

    Returns:
        The plot, or the reason that there is nothing to compare.
    """
    compared = [conclusion for conclusion in conclusions if conclusion.claims]
    if not compared:
        return "; ".join(dict.fromkeys(str(conclusion.reason) for conclusion in conclusions))
    claims = [claim for conclusion in compared for claim in conclusion.claims]
    rows = [len(conclusion.claims) for conclusion in compared]
    n_open = max(1, sum(sum(rows[: at + 1]) <= _OPEN_ROWS for at in range(len(rows))))
    arms = [_forest_arm(conclusion, names) for conclusion in compared]
    return {
        "method": names.arm(method),
        "axis": Axis.of_claims(claims),
        "open": arms[:n_open],
        "folded": arms[n_open:],
        "dense": len(claims) > _LOOSE_ROWS,
        "marks": _MARKS,
    }


def _forest_arm(conclusion: BetterConclusion, names: ArmNames) -> dict[str, Any]:
    return {
        "name": names.arm(conclusion.right),
        "seeds": conclusion.seeds,
        "rows": [
            (f"{metric_spec(claim.metric).title}, {views_words(claim.k, claim.repeats)}", claim)
            for name in COMPARED
            for claim in conclusion.of(name)
        ],
    }


MATRIX_RUNS: Final = 3
"""From this number of runs on, the matrix replaces the cards."""

MOST_REFERENCES: Final = 15
"""Of more runs, one reference has differences: their number is the square of the runs."""


def run_matrix(request: PageRequest, conclusions: Sequence[RunConclusions]) -> dict[str, Any]:
    """Return runs by questions, as a template writes them: every cell is a link to items.

    Args:
        request: the runs.
        conclusions: on every run, in their order.
    """
    chosen, rows = _differences(request)
    labels = [run.label for run in request.experiment.runs]
    references = [
        {
            "at": at,
            "run": request.names.run(labels[at]),
            "chosen": at == chosen,
            "claims": claims,
            "axis": Axis.of_claims([claim for claim in claims if claim is not None]),
        }
        for at, claims in rows.items()
    ]
    runs = [
        {
            "at": at,
            "name": request.names.run(run.run),
            "chosen": at == chosen,
            "accuracy": run.accuracy,
            "answers": _answers(run, at),
        }
        for at, run in enumerate(conclusions)
    ]
    copies: dict[str, dict[str, str]] = {}
    for at, claims in rows.items():
        table = matrix_table(conclusions, claims, labels[at], request.names)
        for name, text in table_formats(table).items():
            copies.setdefault(name, {})[str(at)] = text
    return {
        "references": references,
        "runs": runs,
        "tones": BetterConclusion.tones,
        "hint": _hint(request, len(rows)),
        "copies": copies,
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


def _hint(request: PageRequest, references: int) -> str:
    if not references:
        return "The runs have different items, so none is compared with another."
    decoding = decoding_words(MetricDecoding(request.experiment.settings.decoding))
    text = (
        f"Decoding: {decoding}. Differences are points of accuracy, run minus reference, with 95% "
        f"intervals over families. {_MARKS}"
    )
    if references > 1:
        return f"Choose a run to make it the reference. {text}"
    return f"{text} With more than {MOST_REFERENCES} runs, the reference is fixed."


def _answers(run: RunConclusions, at: int) -> list[tuple[object, ...]]:
    """Return what is concluded of a run: the question, conclusion, word, number, and link."""
    data, order, probabilities = run.data, run.order, run.probabilities
    changes = order.flip_rate.value
    ece = f"ECE {value_text(probabilities.ece.value, 'percent')}%"
    return [
        (
            *("Data", data, data.status.capitalize(), ""),
            items_href(at, ids=data.items) if data.items else f"#{DATA_AUDIT}",
        ),
        (
            *("Order", order, order.words.finding),
            "" if math.isnan(changes) else f"{value_text(changes, 'percent')}% change",
            items_href(at, outcome="flips"),
        ),
        (
            *("Probabilities", probabilities, probabilities.words.finding),
            "" if probabilities.status == "cannot tell" else ece,
            items_href(at),
        ),
    ]
