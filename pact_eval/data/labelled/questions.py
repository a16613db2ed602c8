"""Entries with questions by name, and drafts of records: what every shape becomes first.

    questions          {"state", "questions": {name: question}, "expected": {name: answer}}
    systemone          a request of `/v1/systemone`, or one in "request", with "expected"
    decision-index     rows of the Decision Index suite: as questions, with "_evaluation", "scoring"
    typed-decisions    {"state", "questions", "gold": {name: {"label": answer}}}, each as JSON text
    jevbench           {"state", "question", "labels": [answer], "expected"}, one question
    labels             {"state", "labels": {name: answer}}, with the questions in another file

A question is `{"type": "choice" | "noul" | "boolean" | "score", "instructions", "criteria"}`. A
draft has questions and answers as the file writes them; `reader.py` makes records of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pact_eval._json import Json, describe, loads, short
from pact_eval.data.records import Answer, Field

LABELS: Final = ("id", "family", "source_family", "split", "domain", "variant")
"""What a record names besides its state, its question and its answer."""

ShapeName = str
"""Name of a shape, for `--shape`."""

_NO: Final = frozenset({"false", "no", "n", "0"})
_YES: Final = frozenset({"true", "yes", "y", "1"})


class DraftError(ValueError):
    """One entry cannot be translated.

    Args:
        message: what was expected and found, and what to do.
        kind: what sort of problem it is, in the plural.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of an entry, as the file writes it.

    Attributes:
        name: its name among the questions of the entry; None if it has none.
        question: `{"type", "instructions", "criteria"}`.
        answer: the right answer; see `target_of`.
    """

    name: str | None
    question: Json
    answer: Json


@dataclass(frozen=True)
class Draft:
    """One entry, translated.

    Attributes:
        state: the context.
        questions: its questions with their answers.
        labels: those of `LABELS` that the entry names.
        metadata: its further columns.
        left_out: questions without one right answer, counted by the reason.
        always_named: whether the ids of records end with the name of the question even if there is
            only one.
    """

    state: Json
    questions: Sequence[AskedQuestion]
    labels: Mapping[str, str]
    metadata: Mapping[str, Json]
    left_out: Mapping[str, int] = field(default_factory=dict)
    always_named: bool = False


def target_of(field_: Field, answer: Json, levels_from: int = 0) -> str | bool | int:
    """Return an answer as the full format writes it.

    Args:
        field_: the question.
        answer: the key of a choice; true or false, also as text or as yes and no; a level, also as
            text or as its description.
        levels_from: number of the first level.

    Raises:
        DraftError: it is not one of the allowed answers.

    Examples:
        >>> from pact_eval.data.records import parse_field
        >>> open_ = parse_field("open", {"type": "noul", "instructions": "Is the gate open?"})
        >>> target_of(open_, "yes"), target_of(open_, False)
        (True, False)
    """
    text = _text_of(answer)
    keys = [option.key for option in field_.answers]
    if field_.kind == "choice" and text in keys and not isinstance(answer, bool):
        return str(text)
    if field_.kind == "boolean" and text is not None and text.strip().lower() in _NO | _YES:
        return text.strip().lower() in _YES
    if field_.kind == "score" and text is not None and not isinstance(answer, bool):
        level = _level(field_.answers, text, levels_from)
        if level is not None:
            return level
    last = len(keys) - 1 + levels_from
    expected = {"boolean": "true or false", "score": f"a level from {levels_from} to {last}"}
    allowed = expected.get(field_.kind, f"one of {_list_keys(keys)}")
    got = "null" if answer is None else short(answer)
    message = f"expected {allowed}, got {got}; correct the answer, or add it to the options"
    raise DraftError(message, "answers outside the options")


def _text_of(answer: Json) -> str | None:
    if isinstance(answer, bool):
        return "true" if answer else "false"
    if isinstance(answer, float) and answer.is_integer():
        return str(int(answer))
    return str(answer) if isinstance(answer, str | int) else None


def _level(answers: Sequence[Answer], text: str, first: int) -> int | None:
    """Return the level that a text names: its number, or the description of one level."""
    number = text.strip()
    if number.isascii() and number.isdigit() and len(number) < 5:
        level = int(number) - first
        if 0 <= level < len(answers):
            return level
    described = [level for level, option in enumerate(answers) if option.description == text]
    return described[0] if len(described) == 1 else None


def as_object(value: Json, name: str) -> dict[str, Json]:
    """Return a JSON object.

    Raises:
        DraftError: it is something else.
    """
    if isinstance(value, dict):
        return value
    message = f"{name}: expected an object, got {describe(value)}; see docs/labelled.md"
    raise DraftError(message, "values of another type")


def as_text(value: Json) -> str | None:
    """Return text or a number as text; None for anything else and for empty text.

    Examples:
        >>> as_text(7), as_text("a"), as_text(""), as_text(None)
        ('7', 'a', None, None)
    """
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(value)


def own_labels(entry: Mapping[str, Json], names: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the labels that an entry names.

    Args:
        entry: its values.
        names: by label, the name of the value; None takes equal names.

    Raises:
        DraftError: one of them is not text.
    """
    labels: dict[str, str] = {}
    for label, name in (names or dict(zip(LABELS, LABELS, strict=True))).items():
        if entry.get(name) is None:
            continue
        text = as_text(entry[name])
        if text is None:
            message = f"{name}: expected text, got {short(entry[name])}; write text or leave it out"
            raise DraftError(message, "values of another type")
        labels[label] = text
    return labels


def remaining(entry: Mapping[str, Json], *used: str) -> dict[str, Json]:
    """Return the further columns of an entry."""
    return {name: value for name, value in entry.items() if name not in used}


def _list_keys(keys: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(short(key, 43) for key in keys[:limit])
    return f"{shown}, ... ({len(keys)} in all)" if len(keys) > limit else shown


_SEVERAL_RIGHT: Final = frozenset(
    {"retrieval_ranking", "routing_outcome", "chess_reference_value", "human_group_rank"}
)
_FALSE_WORDS: Final = frozenset({"false", "no"})


def of_questions(entry: Mapping[str, Json], _questions: Mapping[str, Json]) -> Draft:
    """Translate an entry of the shape "questions".

    Raises:
        DraftError: the entry is malformed.
    """
    questions, expected = (_unpack(entry[name], name) for name in ("questions", "expected"))
    return _draft(entry, entry["state"], questions, expected, "state", "questions", "expected")


def of_systemone(entry: Mapping[str, Json], _questions: Mapping[str, Json]) -> Draft:
    """Translate a request of `/v1/systemone` with its expected answers.

    Raises:
        DraftError: the entry is malformed.
    """
    request = as_object(entry.get("request", dict(entry)), "request")
    if "state" not in request or request.get("assets"):
        what = "a state" if "state" not in request else "no assets (images are not read)"
        message = f"request: expected {what}; leave this request out"
        raise DraftError(message, "requests that cannot be read")
    used = ("request", "expected", "state", "questions", "model", "assets")
    return _draft(entry, request["state"], request.get("questions"), entry["expected"], *used)


def of_decision_index(entry: Mapping[str, Json], _questions: Mapping[str, Json]) -> Draft:
    """Translate a row of the Decision Index suite; ids are those of imported results.

    Raises:
        DraftError: the entry is malformed.
    """
    evaluation = as_object(entry["_evaluation"], "_evaluation")
    scoring = as_object(entry.get("scoring") or {}, "scoring")
    run_id = as_text(evaluation.get("run_id"))
    if run_id is None:
        message = "_evaluation.run_id: expected text, got none; results are joined by it"
        raise DraftError(message, "missing values")
    unscored = scoring.get("unscored_fields")
    expected = as_object(entry["expected"], "expected")
    left_out: Counter[str] = Counter()
    questions = as_object(entry["questions"], "questions")
    if scoring.get("type") in _SEVERAL_RIGHT:
        left_out[f"scored by {scoring['type']}"] += len(questions)
        questions = {}
    if isinstance(unscored, list):
        left_out["not scored"] += sum(name in unscored for name in questions)
        questions = {name: question for name, question in questions.items() if name not in unscored}
    answers = {name: answer for name, answer in expected.items() if name in questions}
    asked_questions, without = _join_questions(questions, answers)
    labels = {"id": run_id, "family": as_text(evaluation.get("group_id")) or run_id}
    labels["source_family"] = as_text(evaluation.get("track")) or labels["family"]
    dataset = as_text(evaluation.get("dataset"))
    labels |= {"domain": dataset} if dataset else {}
    counts = +(left_out + Counter(without))
    own = {name: entry[name] for name in ("family", "split", "metadata") if name in entry}
    return Draft(entry["state"], asked_questions, labels, own, counts, always_named=True)


def of_typed_decisions(entry: Mapping[str, Json], _questions: Mapping[str, Json]) -> Draft:
    """Translate a case of LocalLLaMA/typed-decisions: its values are JSON texts.

    Raises:
        DraftError: the entry is malformed.
    """
    state, questions, gold = (_unpack(entry[name], name) for name in ("state", "questions", "gold"))
    answers = {
        name: answer.get("label") if isinstance(answer, dict) else answer
        for name, answer in as_object(gold, "gold").items()
    }
    draft = _draft(entry, state, questions, answers, "state", "questions", "gold", "workflow")
    workflow = as_text(entry.get("workflow"))
    domain = {} if workflow is None else {"domain": workflow}
    return replace(draft, labels=domain | {**draft.labels})


def of_jevbench(entry: Mapping[str, Json], _questions: Mapping[str, Json]) -> Draft:
    """Translate a task of JevBench; its family is a subject, its group shares one answer.

    Raises:
        DraftError: the entry is malformed.
    """
    names = entry["labels"]
    labels = [as_text(name) for name in names] if isinstance(names, list) else []
    answers = [label for label in labels if label is not None]
    if len(answers) < len(labels) or len(set(answers)) < len(answers):
        message = "labels: expected different texts; correct the list"
        raise DraftError(message, "options that cannot be read")
    question = dict(as_object(entry["question"], "question"))
    answer = entry.get("expected")
    question["criteria"] = _jevbench_criteria(question, answers)
    group, subject = as_text(entry.get("group")), as_text(entry.get("family"))
    own_id = own_labels(entry, {"id": "id"})
    grouped = {"family": group, "source_family": group} if group else {}
    domain = {"domain": subject} if subject else {}
    asked_questions = [AskedQuestion(None, question, answer)] if answer is not None else []
    left_out = {} if asked_questions else {"without a reference": 1}
    own = remaining(entry, *("id", "family", "state", "question", "labels", "expected", "group"))
    return Draft(entry["state"], asked_questions, own_id | grouped | domain, own, left_out)


def _jevbench_criteria(question: Mapping[str, Json], labels: list[str]) -> Json:
    """Return the criteria of a task in our form; its labels give the order."""
    criteria = question.get("criteria")
    listed = criteria if isinstance(criteria, list) else []
    texts: dict[str, Json] = dict(zip(labels, listed, strict=False))
    if isinstance(criteria, dict):
        texts = criteria
    if question.get("type") == "score":
        return [texts.get(label) for label in labels] if labels else listed
    if question.get("type") in ("noul", "boolean"):
        words = {
            "false" if label.lower() in _FALSE_WORDS else "true": texts.get(label)
            for label in (*labels, "false", "true")
            if texts.get(label) is not None
        }
        return {**words}
    return {label: texts.get(label) for label in labels}


def of_labels(entry: Mapping[str, Json], questions: Mapping[str, Json]) -> Draft:
    """Translate a labelled item, whose questions are in another file.

    Raises:
        DraftError: the entry is malformed, or names a question that the file does not have.
    """
    answers = as_object(entry["labels"], "labels")
    unknown = [name for name in answers if name not in questions]
    if unknown:
        message = (
            f"labels: expected names of questions ({', '.join(questions)}), got "
            f"{', '.join(unknown)}; add the question to the file of questions"
        )
        raise DraftError(message, "unknown questions")
    named = {name: questions[name] for name in answers}
    return _draft(entry, entry["state"], named, answers, "state", "labels")


def _draft(
    entry: Mapping[str, Json], state: Json, questions: Json, answers: Json, *used: str
) -> Draft:
    """Return an entry whose labels have their own names; `used` are its other keys that count."""
    asked_questions, left_out = _join_questions(questions, answers)
    own = remaining(entry, *LABELS, *used)
    return Draft(state, asked_questions, own_labels(entry), own, left_out)


def _join_questions(questions: Json, answers: Json) -> tuple[list[AskedQuestion], dict[str, int]]:
    """Join questions and answers by name; a null answer leaves the question out."""
    by_name = as_object(questions, "questions")
    answer_of = as_object(answers, "expected")
    missing = [name for name in by_name if name not in answer_of]
    unknown = [name for name in answer_of if name not in by_name]
    if missing or unknown:
        what = (
            f"an answer to {', '.join(missing)}, got none; null leaves a question out"
            if missing
            else f"names of questions, got {', '.join(unknown)}; remove the answer"
        )
        message = f"expected {what}"
        raise DraftError(message, "questions without an answer" if missing else "unknown questions")
    asked_questions = [
        AskedQuestion(name, question, answer_of[name])
        for name, question in by_name.items()
        if answer_of[name] is not None
    ]
    without = len(by_name) - len(asked_questions)
    return asked_questions, {"without a reference": without} if without else {}


def _unpack(value: Json, name: str) -> Json:
    """Return what a JSON text holds; a state may be plain text."""
    if not isinstance(value, str):
        return value
    try:
        return loads(value)
    except ValueError as error:
        if name == "state":
            return value
        message = f"{name}: {error}; expected JSON as text"
        raise DraftError(message, "lines that cannot be parsed") from None
