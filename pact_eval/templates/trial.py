"""The first rendering of a decision template, with a question of each kind, within limits."""

from __future__ import annotations

import json
from typing import Final

from pact_eval._json import Json
from pact_eval.data.records import Field, FieldKind, parse_field
from pact_eval.prompts.trial import CHAT_VARIABLES, Trial, render_within_limits
from pact_eval.templates.files import TYPES, DecisionFiles

PROBE_STATE: Final[Json] = {"note": "The seal is broken."}
"""The state of the requests that a template is probed with."""

PROBES: Final[dict[FieldKind, Field]] = {
    "choice": parse_field(
        "probe",
        {
            "type": "choice",
            "instructions": "Which desk?",
            "criteria": {"first": "One of them", "second": None, "third": "The last"},
        },
    ),
    "boolean": parse_field(
        "probe",
        {
            "type": "noul",
            "instructions": "Is it so?",
            "criteria": {"false": "Not so", "true": "It is so"},
        },
    ),
    "score": parse_field(
        "probe", {"type": "score", "instructions": "How bad?", "criteria": ["Fine", "Bad", "Worse"]}
    ),
}
"""A question of each kind that a template is probed with."""


def first_rendering(files: DecisionFiles) -> Trial:
    """Render the template of decision files with a question of each kind, within limits.

    Whether it can be rendered is not judged here, only that it ends within `TRIAL_SECONDS` and
    `TRIAL_BYTES`.

    Examples:
        >>> first_rendering(DecisionFiles("{{ state }}"))
        'ends'
        >>> first_rendering(DecisionFiles("{{ 'a' * 10**10 }}"))
        'memory'
    """
    if files.template is None:
        return "ends"
    variables = [_variables(field, files) for field in PROBES.values()]
    return render_within_limits(files.template, json.dumps(variables))


def _variables(field: Field, files: DecisionFiles) -> Json:
    """Return what transformers shows to a template of one question."""
    labels = files.labels_of(field.kind)[: len(field.answers)]
    question: Json = {
        "name": field.name,
        "type": TYPES[field.kind],
        "instructions": field.instructions,
        "options": [answer.key for answer in field.answers],
        "labels": [*labels],
        "descriptions": [answer.description for answer in field.answers],
    }
    return {
        "messages": [{"role": "user", "content": ""}],
        "state": PROBE_STATE,
        "question": question,
        **CHAT_VARIABLES,
    }
