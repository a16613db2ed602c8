"""The items of the probe: frozen, so that probes of other days and other servers can be compared.

The evidence of each is mixed on purpose: a model that is sure of every answer shows neither noise
nor the effect of an order.
"""

from __future__ import annotations

from typing import Final

from pact_eval._json import Json, sha256_of_json
from pact_eval.data.records import Record, parse_record

_LOST_PARCEL = (
    "Customer: The parcel came a day late and one corner was torn. Nothing seems to be missing, "
    "but the lamp flickers now and then. I would like to keep it if it is safe.\n"
    "Clerk: Our courier noted rain damage at the depot."
)
_MEETING = (
    "Ana wants the hall on Monday, but may take Tuesday. Ben has asked first, for either day. The "
    "choir practises on Monday in most weeks."
)
_LEAVES = "The leaves are yellow at the edge, the soil was dry on Friday and is wet today."

_QUESTIONS: Final[tuple[tuple[str, Json, dict[str, Json]], ...]] = (
    (
        "choice-parcel",
        _LOST_PARCEL,
        {
            "type": "choice",
            "instructions": "Choose the next step.",
            "criteria": {
                "replace": "Send another lamp.",
                "inspect": "Have the lamp looked at.",
                "refund": "Pay the price back.",
                "close": "Nothing more is needed.",
            },
        },
    ),
    (
        "choice-hall",
        _MEETING,
        {
            "type": "choice",
            "instructions": "Who gets the hall on Monday?",
            "criteria": {"choir": "The choir.", "ana": "Ana.", "none": "Nobody.", "ben": "Ben."},
        },
    ),
    (
        "choice-leaves",
        {"notes": [_LEAVES]},
        {
            "type": "choice",
            "instructions": "What does the plant most likely need?",
            "criteria": {"water": None, "light": None, "food": None, "rest": None},
        },
    ),
    ("boolean-safe", _LOST_PARCEL, {"type": "noul", "instructions": "Is the lamp safe to use?"}),
    (
        "score-urgency",
        _LOST_PARCEL,
        {
            "type": "score",
            "instructions": "How urgent is this?",
            "criteria": ["It can wait.", "This week.", "Today."],
        },
    ),
)


def _record(name: str, state: Json, question: dict[str, Json]) -> Record:
    value: dict[str, Json] = {
        "id": name,
        "family": name,
        "source_family": "probe",
        "split": "validation",
        "domain": "probe",
        "variant": "base",
        "input": {"state": state, "questions": {"decision": question}},
    }
    return parse_record(value, require_reference=False)


PROBE_RECORDS: Final = tuple(_record(*row) for row in _QUESTIONS)
"""Three choices of four answers, a boolean and a score."""

PROBE_SHA256: Final = sha256_of_json(
    [[name, state, question] for name, state, question in _QUESTIONS]
)
"""Identifies the set: answers to another set are not compared."""
