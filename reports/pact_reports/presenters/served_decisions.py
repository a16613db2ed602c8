"""The answers of a server to one request, and their changes by order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pact_eval._json import Json
from pact_reports.presenters.decide import answers_json
from pact_reports.presenters.presenter import Presenter
from pact_reports.tables.decision import served_parts
from pact_reports.writers.json import to_json

if TYPE_CHECKING:  # decisions of a model here need no client
    from pact_eval.scoring.servers.decide import ServedDecisions, ServedField


def present(served: ServedDecisions) -> Presenter:
    """Present the answers of a server; TV is a fraction in JSON."""
    return Presenter(tables=partial(served_parts, served), to_json=partial(_json, served))


def _json(served: ServedDecisions) -> dict[str, Json]:
    decisions = [field.decision for field in served.fields if field.decision is not None]
    answers = answers_json(decisions)
    for field in served.fields:
        answers[field.field.name] = answers.get(field.field.name, {}) | _spreads(field)
    return {
        "answers": {**answers},
        "server": {
            "wire": served.wire,
            "asked": served.model,
            "answered_by": served.answered_by,
            "decimals": served.decimals,
            "requests": served.requests,
        },
    }


def _spreads(field: ServedField) -> dict[str, Json]:
    """Return the probabilities in each order, and what orders and repeats move."""
    return {
        "orders": [
            {
                "order": [field.field.answers[index].key for index in view.order],
                "probabilities": {
                    answer.key: p
                    for answer, p in zip(field.field.answers, view.probabilities, strict=True)
                },
            }
            for view in field.orders
        ],
        "between_orders": to_json(field.between_orders),
        "between_repeats": to_json(field.between_repeats),
        "missing": to_json(field.missing),
    }
