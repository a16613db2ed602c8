"""The answers to one request, as a small table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import ASCII2, SIMPLE_HEAD
from rich.table import Table

from pact_eval._json import Json
from pact_eval.prompts import Decision
from pact_reports.plain_text import cell, lines

__all__ = ["decision_json", "decision_table"]


def decision_table(decisions: Sequence[Decision], *, plain: bool) -> Table:
    """Lay out one line a field: its answer, the probability of every answer, the answer mass."""
    table = Table(box=ASCII2 if plain else SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for title in ("field", "kind", "answer", "probabilities", "answer mass"):
        table.add_column(title)
    for decision in decisions:
        ranked = sorted(
            zip(decision.field.answers, decision.probabilities, strict=True),
            key=lambda pair: -pair[1],
        )
        answer = [decision.answer]
        if decision.expected_level is not None:
            answer = [f"{decision.answer} (expected level {decision.expected_level:.2f})"]
        if decision.views_agree is False:
            answer.append("changes with the letters")
        table.add_row(
            cell(decision.field.name),
            decision.field.kind,
            lines(answer),
            lines(f"{probability:6.1%} {answer.key}" for answer, probability in ranked),
            f"{decision.answer_mass:.1%}",
        )
    return table


def decision_json(decisions: Sequence[Decision]) -> dict[str, Json]:
    """Turn decisions into `{"answers": {field: ...}}`."""
    return {
        "answers": {
            decision.field.name: {
                "type": decision.field.kind,
                "answer": decision.answer,
                "probabilities": {
                    answer.key: probability
                    for answer, probability in zip(
                        decision.field.answers, decision.probabilities, strict=True
                    )
                },
                "expected_level": decision.expected_level,
                "answer_mass": decision.answer_mass,
                "views_agree": decision.views_agree,
            }
            for decision in decisions
        }
    }
