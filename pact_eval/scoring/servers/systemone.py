"""The wire of `POST /v1/systemone`: the server gets the question and builds the prompt itself.

A choice is asked in another order by sending its `criteria` in that order: most servers show them
as they come (the order probe tells). A score shows levels by number, so another order is another
question unless the server letters them; it is asked on request only. A boolean has one order on
every server.

One question per request: some servers show all questions of a request in one prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pact_eval._json import Json, describe, dumps
from pact_eval.data.records import Field
from pact_eval.scoring.servers.answers import (
    check_choice,
    check_score,
    in_canonical_order,
    number,
    prompt_tokens,
    shown,
)
from pact_eval.scoring.servers.replies import shortened
from pact_eval.scoring.servers.wire import (
    AskedView,
    Call,
    NoAnswer,
    QuestionWire,
    ReadReply,
    UnusableReplyError,
    ViewAnswer,
    checked_log_probabilities,
)

_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "choice": ("choice",),
    "boolean": ("noul", "boolean"),
    "score": ("score",),
}
_SLACK: Final = 1e-3


class SystemOne(QuestionWire):
    """The wire of `/v1/systemone`; see `QuestionWire`."""

    name = "systemone"
    path = "/v1/systemone"

    def request_fields(self, view: AskedView) -> dict[str, Json]:
        """Return the context and the question of a request."""
        return {
            "state": _state(view.state),
            "questions": {view.field.name: question(view.field, view.order)},
        }

    def read(self, call: Call, reply: Json) -> ReadReply:
        """Read the answer to one view; see `Wire`."""
        (view,) = call.views
        answers = reply.get("answers") if isinstance(reply, dict) else None
        if not isinstance(reply, dict) or not isinstance(answers, dict):
            message = f"expected an object with answers, got {describe(reply)}"
            raise UnusableReplyError(message)
        model = reply.get("model")
        name = model if isinstance(model, str) and model else None
        answer = answers.get(view.field.name)
        if answer is None:
            return ReadReply(name, (NoAnswer("missing", "the reply has no answer to it"),))
        mass = _answer_mass(reply, answer, view.field.name)
        return ReadReply(name, (ViewAnswer(_logits(view, answer), mass, prompt_tokens(reply)),))


def question(field: Field, order: Sequence[int]) -> dict[str, Json]:
    """Return a question as a request has it, with its answers in some order.

    Args:
        field: the question.
        order: the canonical index at each position.

    Examples:
        >>> from pact_eval.data.records import parse_field
        >>> field = parse_field("team", {"type": "choice", "instructions": "Who?",
        ...                              "criteria": {"sales": "Prices", "support": None}})
        >>> question(field, (1, 0))["criteria"]
        {'support': None, 'sales': 'Prices'}
    """
    answers = [field.answers[index] for index in order]
    body: dict[str, Json] = {"type": _TYPES[field.kind][0], "instructions": field.instructions}
    if field.kind == "choice":
        body["criteria"] = {answer.key: answer.description for answer in answers}
    elif field.kind == "score":
        # A level without a description is refused by servers: its number describes it.
        body["criteria"] = [
            answer.key if answer.description is None else answer.description for answer in answers
        ]
    else:
        descriptions = {a.key: a.description for a in answers if a.description is not None}
        body |= {"criteria": dict(descriptions)} if descriptions else {}
    return body


def _state(state: Json) -> Json:
    """Return a context as servers take it: text, an object or a list."""
    return state if isinstance(state, str | dict | list) else dumps(state)


def _logits(view: AskedView, answer: Json) -> tuple[float, ...]:
    """Return the log-probabilities of an answer in canonical order."""
    kind = answer.get("type") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or kind not in _TYPES[view.field.kind]:
        message = f"expected an answer of type {_TYPES[view.field.kind][0]}, got {shown(kind)}"
        raise UnusableReplyError(message)
    if view.field.kind == "boolean":
        true = number(answer.get("noul"), "noul")
        return checked_log_probabilities([1.0 - true, true])
    positions = _positions(view, answer.get("probabilities"))
    logits = checked_log_probabilities(positions)
    if view.field.kind == "choice":
        names = [view.field.answers[index].key for index in view.order]
        check_choice(answer.get("choice"), names, positions)
    else:
        check_score(answer.get("score"), range(len(positions)), positions)
    return in_canonical_order(logits, view.order)


def _positions(view: AskedView, probabilities: Json) -> list[float]:
    """Return the probabilities at each position; names are compared exactly."""
    names = [view.field.answers[index].key for index in view.order]
    if view.field.kind == "score":
        names = [str(position) for position in range(len(names))]
    if not isinstance(probabilities, dict) or probabilities.keys() != set(names):
        got = (
            f"{len(probabilities):,} names"
            if isinstance(probabilities, dict)
            else describe(probabilities)
        )
        listed = probabilities if isinstance(probabilities, dict) else {}
        other = next((name for name in listed if name not in names), None)
        other_names = "" if other is None else f", such as {shown(other)}"
        message = f"probabilities: expected those of the {len(names)} answers asked, got {got}"
        raise UnusableReplyError(message + other_names)
    return [number(probabilities[name], f"probabilities.{shortened(name)}") for name in names]


def _answer_mass(reply: Mapping[str, Json], answer: Json, name: str) -> float | None:
    """Return the mass on the labels where a server tells it (vLLM, SGLang)."""
    diagnostics = reply.get("diagnostics")
    of_name = diagnostics.get(name) if isinstance(diagnostics, dict) else None
    for place, key in ((of_name, "label_mass"), (answer, "x_label_mass")):
        mass = place.get(key) if isinstance(place, dict) else None
        if isinstance(mass, int | float) and not isinstance(mass, bool) and 0 <= mass <= 1 + _SLACK:
            return min(float(mass), 1.0)
    return None
