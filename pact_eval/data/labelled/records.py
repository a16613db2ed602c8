"""Records of drafts: ids, defaults, and the full format of every question.

What the file does not name has a default, and `provenance.labelled.defaults` of a record lists it:

    id               a hash of state and questions, so it does not depend on the file or the order
    family           the id of the entry, which all of its questions share
    source_family    the family
    split            validation
    domain           empty
    variant          base
    instructions     the name of the question

If an entry has several questions, the id of each record ends with "/" and the question's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pact_eval._json import Json, dumps, sha256_of_json
from pact_eval.data.defaults import LABELLED
from pact_eval.data.labelled.draft import AskedQuestion, Draft, DraftError, as_object, target_of
from pact_eval.data.records import Field, parse_field

__all__ = ["FIELD", "default_id", "records_of_draft"]

FIELD: Final = "decision"
_HASH: Final = 12
_SPLITS: Final[Mapping[str, str]] = {
    "train": "train",
    "training": "train",
    **dict.fromkeys(("validation", "valid", "dev", "test", "eval"), "validation"),
}
_VARIANTS: Final = ("base", "counterfactual")


def default_id(draft: Draft) -> str:
    """Return the id of an entry that names none.

    Examples:
        >>> default_id(Draft("The gate is open.", [], {}, {}))
        'f76c61eff41f'
    """
    questions: list[Json] = [
        [asked_question.name, asked_question.question] for asked_question in draft.questions
    ]
    return sha256_of_json([draft.state, questions])[:_HASH]


def records_of_draft(
    draft: Draft, line: int, shape: str, own_id: str | None = None, levels_from: int = 0
) -> Iterator[dict[str, Json]]:
    """Yield the full format of every question of an entry.

    Args:
            draft: the entry.
            line: its line in the file.
            shape: name of its shape.
            own_id: the id if the entry names none; None takes `default_id`.
            levels_from: number of the first level of a rubric.

    Raises:
        DraftError: a question is malformed, or its answer is not one of the options.

    Examples:
        >>> from pact_eval.data.labelled.draft import AskedQuestion, Draft
        >>> asked_question = AskedQuestion("open", {"type": "noul", "instructions": "Open?"}, True)
        >>> draft = Draft("The gate is open.", [asked_question], {}, {})
        >>> record, = records_of_draft(draft, 7, "questions")
        >>> record["id"] == record["family"], record["split"], record["reference"]
        (True, 'validation', {'target': True})
    """
    labels, metadata = _labels(draft, own_id or default_id(draft))
    provenance, nested = (metadata.pop(name, None) for name in ("provenance", "metadata"))
    metadata |= {
        name: value
        for name, value in (nested if isinstance(nested, dict) else {}).items()
        if name not in metadata
    }
    entry_id = labels["id"]
    several = draft.always_named or len(draft.questions) > 1
    unused = {name for name in ("split", "variant") if labels[name] != draft.labels.get(name)}
    unused -= {"split"} if draft.labels.get("split", "").lower() in _SPLITS else set()
    named_labels = draft.labels.keys() - unused
    for asked_question in draft.questions:
        question, filled = _question(asked_question)
        field = _field(asked_question, question)
        defaults: list[Json] = [*sorted({*labels} - named_labels | filled)]
        own = dict(metadata)
        if asked_question.name is not None:
            own.setdefault("question", asked_question.name)
        yield {
            **labels,
            "id": f"{entry_id}/{asked_question.name}" if several else entry_id,
            "input": {"state": draft.state, "questions": {FIELD: question}},
            "reference": {"target": target_of(field, asked_question.answer, levels_from)},
            "provenance": {
                **(provenance if isinstance(provenance, dict) else {}),
                LABELLED: {"line": line, "shape": shape, "defaults": defaults},
            },
            **({"metadata": own} if own else {}),
        }


def _labels(draft: Draft, own_id: str) -> tuple[dict[str, str], dict[str, Json]]:
    """Return the labels of a record with defaults, and further columns.

    A split or variant of another kind is a column like any other.
    """
    own, metadata = dict(draft.labels), dict(draft.metadata)
    split, variant = own.get("split", ""), own.get("variant", "")
    known_split = _SPLITS.get(split.lower())
    if split and known_split != split:
        metadata["split"] = split
    if variant and variant not in _VARIANTS:
        metadata["variant"] = variant
    entry_id = own.get("id", own_id)
    family = own.get("family", entry_id)
    labels = {
        "id": entry_id,
        "family": family,
        "source_family": own.get("source_family", family),
        "split": known_split or "validation",
        "domain": own.get("domain", ""),
        "variant": variant if variant in _VARIANTS else "base",
    }
    return labels, metadata


def _question(asked_question: AskedQuestion) -> tuple[dict[str, Json], set[str]]:
    """Return a question in our form, and the names of what was filled in."""
    question = dict(as_object(asked_question.question, "question"))
    filled = set()
    if question.get("instructions") in (None, ""):
        question["instructions"] = asked_question.name or "Which answer is right?"
        filled.add("instructions")
    criteria = question.get("criteria")
    if question.get("type") == "choice" and isinstance(criteria, list):
        texts = [text if isinstance(text, str) else dumps(text) for text in criteria]
        if len(set(texts)) < len(texts):
            message = "criteria: expected different options; remove the repeated one"
            raise DraftError(message, "options that cannot be read")
        question["criteria"] = dict.fromkeys(texts)
    elif isinstance(criteria, dict):
        question["criteria"] = {key: _description(text) for key, text in criteria.items()}
    elif isinstance(criteria, list):
        question["criteria"] = [_description(text) for text in criteria]
    return question, filled


def _description(value: Json) -> Json:
    """Return a description as text: servers also take JSON values."""
    return value if value is None or isinstance(value, str) else dumps(value)


def _field(asked_question: AskedQuestion, question: dict[str, Json]) -> Field:
    try:
        return parse_field(asked_question.name or FIELD, question)
    except ValueError as error:
        raise DraftError(str(error), "questions that cannot be read") from None
