"""The answers of a model to one request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pact_eval._json import Json
from pact_eval.prompts.requests import Decision
from pact_reports.presenters.presenter import Presenter
from pact_reports.tables.decision import decision_table


def present(decisions: Sequence[Decision]) -> Presenter:
    """Present one decision per field."""
    return Presenter(
        tables=lambda: [decision_table(decisions)],
        to_json=lambda: {"answers": {**answers_json(decisions)}},
    )


def answers_json(decisions: Iterable[Decision]) -> dict[str, dict[str, Json]]:
    """Turn decisions into JSON values, by the name of their field."""
    return {
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
