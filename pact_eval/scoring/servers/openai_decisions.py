"""The wire of OpenAI's `POST /v1/decisions`, which LocalAI speaks too; SGLang's is another.

A boolean is a `predicate`, which the server answers with the probability that it is true. It has no
place for descriptions of true and false: they follow the instructions. Choices are a list, so
another order of the list is another view. The levels of a score are labelled with their
descriptions, and asked in another order on request only; a boolean has one order.

The input is text: a context that is not text is sent as JSON text. One question per request.
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

_TYPES: Final[Mapping[str, str]] = {"choice": "choice", "boolean": "predicate", "score": "score"}


class OpenAIDecisions(QuestionWire):
    """The wire of `/v1/decisions`; see `QuestionWire`."""

    name = "openai-decisions"
    path = "/v1/decisions"

    def request_fields(self, view: AskedView) -> dict[str, Json]:
        """Return the context and the question of a request."""
        return {
            "input": _text(view.state),
            "questions": [question(view.field, view.order)],
        }

    def read(self, call: Call, reply: Json) -> ReadReply:
        """Read the answer to one view; see `Wire`."""
        (view,) = call.views
        answers = reply.get("answers") if isinstance(reply, dict) else None
        if not isinstance(reply, dict) or not isinstance(answers, list):
            message = f"expected an object with a list of answers, got {describe(reply)}"
            raise UnusableReplyError(message)
        model = reply.get("model")
        name = model if isinstance(model, str) and model else None
        if not answers:
            return ReadReply(name, (NoAnswer("missing", "the reply has no answer to it"),))
        if len(answers) > 1 or not isinstance(answers[0], dict):
            message = f"answers: expected one object, got {len(answers):,} values"
            raise UnusableReplyError(message)
        answer = answers[0]
        _check_name(view, answer)
        if answer.get("type") == "refusal":
            return ReadReply(name, (NoAnswer("refused", "the model declined to answer it"),))
        return ReadReply(name, (ViewAnswer(_logits(view, answer), None, prompt_tokens(reply)),))


def question(field: Field, order: Sequence[int]) -> dict[str, Json]:
    """Return a question as a request has it, with its answers in some order.

    Args:
        field: the question.
        order: the canonical index at each position.

    Examples:
        >>> from pact_eval.data.records import parse_field
        >>> field = parse_field("team", {"type": "choice", "instructions": "Who?",
        ...                              "criteria": {"sales": "Prices", "support": None}})
        >>> question(field, (1, 0))["choices"]
        [{'value': 'support'}, {'value': 'sales', 'description': 'Prices'}]
    """
    body: dict[str, Json] = {
        "type": _TYPES[field.kind],
        "name": field.name,
        "instructions": _text(field.instructions),
    }
    described = [(answer.key, answer.description) for answer in field.answers]
    if field.kind == "boolean":
        meanings = [f"\n{key}: {text}" for key, text in described if text is not None]
        return body | {"instructions": "".join([_text(field.instructions), *meanings])}
    if field.kind == "choice":
        choices: list[dict[str, Json]] = [
            {"value": key, **({} if text is None else {"description": text})}
            for key, text in described
        ]
        return body | {"choices": [choices[index] for index in order]}
    labels = _labels(field)
    levels: list[Json] = [
        {"label": label, **({} if text in (None, label) else {"description": text})}
        for label, (_, text) in zip(labels, described, strict=True)
    ]
    return body | {"levels": [levels[index] for index in order]}


def _labels(field: Field) -> list[str]:
    """Return the labels of the levels: their descriptions, or their numbers if two are the same."""
    labels = [
        answer.key if answer.description is None else answer.description for answer in field.answers
    ]
    return labels if len(set(labels)) == len(labels) else [answer.key for answer in field.answers]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else dumps(value)


def _check_name(view: AskedView, answer: Mapping[str, Json]) -> None:
    name = answer.get("name")
    if name is not None and name != view.field.name:
        message = f"answers: expected that of {view.field.name}, got that of {shown(name)}"
        raise UnusableReplyError(message)


def _logits(view: AskedView, answer: Mapping[str, Json]) -> tuple[float, ...]:
    """Return the log-probabilities of an answer in canonical order."""
    kind = _TYPES[view.field.kind]
    if answer.get("type") != kind:
        message = f"expected an answer of type {kind}, got {shown(answer.get('type'))}"
        raise UnusableReplyError(message)
    if view.field.kind == "boolean":
        true = number(answer.get("probability"), "probability")
        return checked_log_probabilities([1.0 - true, true])
    is_choice = view.field.kind == "choice"
    names = [answer.key for answer in view.field.answers] if is_choice else _labels(view.field)
    names = [names[index] for index in view.order]
    entries_by_name = _by_name(
        answer.get("probabilities"), "value" if is_choice else "label", names
    )
    positions = [number(entries_by_name[name].get("probability"), "probability") for name in names]
    logits = checked_log_probabilities(positions)
    if is_choice:
        check_choice(answer.get("choice"), names, positions)
    else:
        check_score(answer.get("score"), _levels(entries_by_name, names), positions)
    return in_canonical_order(logits, view.order)


def _by_name(probabilities: Json, key: str, names: Sequence[str]) -> dict[str, dict[str, Json]]:
    """Return the entries of a list of probabilities by their name, each name once."""
    entries = probabilities if isinstance(probabilities, list) else []
    by_name = {
        entry[key]: entry
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get(key), str)
    }
    if len(entries) != len(names) or by_name.keys() != set(names):
        got = (
            f"{len(probabilities):,}"
            if isinstance(probabilities, list)
            else describe(probabilities)
        )
        other = next((name for name in by_name if name not in names), None)
        other_name = "" if other is None else f", such as {shown(other)}"
        message = (
            f"probabilities: expected one for each of the {len(names)} answers asked, got {got}"
        )
        raise UnusableReplyError(message + other_name)
    return {str(name): entry for name, entry in by_name.items()}


def _levels(entries_by_name: Mapping[str, Mapping[str, Json]], names: Sequence[str]) -> list[int]:
    """Return the number of each level, which must increase with its position."""
    values = [entries_by_name[name].get("value") for name in names]
    levels = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(levels) != len(names) or levels != sorted(set(levels)):
        message = f"value: expected increasing numbers of levels, got {shown(values)}"
        raise UnusableReplyError(message)
    return levels
