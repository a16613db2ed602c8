"""Questions and answers as requests and replies write them.

    question   {"type": "noul", "instructions"}                           "boolean", "predicate" too
               {"type": "choice", "criteria": {name: text}}               or "choices", "options": a
                                                                          list of texts or objects
               {"type": "score", "criteria": [text]}                      or "levels"
    answer     {"noul": p}                                                or "probability", "p"
               {"choice", "probabilities": {name: p}}                     or a list of objects
               {"score", "probabilities": {"0": p}}, {"type": "refusal"}

A question of yes or no has the options false, true; levels are numbered from 0; the options of a
choice have the order of their names, so that logs which asked in another order agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval._json import Json, describe, dumps, sha256_of_json
from pact_eval.data.labelled.answers import cell_text, fold_label
from pact_eval.data.records import FieldKind

BOOLEAN: Final = ("false", "true")
_KINDS: Final[Mapping[str, FieldKind]] = {
    **dict.fromkeys(("noul", "boolean", "bool", "predicate", "yes_no"), "boolean"),
    **dict.fromkeys(("choice", "classification"), "choice"),
    "score": "score",
}
_OPTIONS: Final = ("criteria", "choices", "options", "levels", "labels")
_NAMES: Final = ("value", "name", "key", "label", "option", "id")
_TRUE: Final = ("noul", "probability", "p")
_CHOICES: Final = ("choice", "selected", "answer", "value")
_DISTRIBUTIONS: Final = ("probabilities", "distribution")
_DIGITS: Final = 12
_LEAST_LEFT: Final = 1e-12


@dataclass(frozen=True)
class Asked:
    """A question of a request.

    Attributes:
        kind: of the question.
        options: (C,) names of its answers in canonical order.
        texts: (C,) what the levels of a score say; empty if that is not known.
        shown: (C,) canonical indices in the order of the request; empty if it is not known.
        wording: hash of the question, whatever the order of its options; "" without a request.
    """

    kind: FieldKind
    options: tuple[str, ...]
    texts: tuple[str, ...] = ()
    shown: tuple[int, ...] = ()
    wording: str = ""

    def index(self, cell: Json) -> int | None:
        """Return the option that a cell names, a level also by its text; None if it names none.

        Examples:
            >>> Asked("boolean", BOOLEAN).index(True), Asked("choice", ("a", "b")).index("B ")
            (1, 1)
        """
        text = cell_text(cell)
        if text is None:
            return None
        if text in self.options:
            return self.options.index(text)
        words = {"yes": "true", "no": "false", "1": "true", "0": "false"}
        word = fold_label(text)
        word = words.get(word, word) if self.kind == "boolean" else word
        folded = [fold_label(option) for option in self.options]
        return folded.index(word) if folded.count(word) == 1 else self.level(text)

    def level(self, cell: Json) -> int | None:
        """Return the level of a score that a cell names by its text; None if it names none."""
        text = cell_text(cell)
        return self.texts.index(text) if text is not None and self.texts.count(text) == 1 else None


@dataclass(frozen=True)
class Said:
    """An answer of a reply.

    Attributes:
        probabilities: (C,) of the options; None if the reply has the answer alone.
        listed: (C,) log-probabilities, if the reply has those of the most probable tokens; None
            for an option that it does not list.
        answer: index of the option that it names; None if it names none.
        status: why there is no answer; None if there is one.
        reason: what the reply says of that.
    """

    probabilities: tuple[float, ...] | None = None
    listed: tuple[float | None, ...] | None = None
    answer: int | None = None
    status: str | None = None
    reason: str | None = None

    def row(self) -> dict[str, Json]:
        """Return the columns of a row of our own format.

        Examples:
            >>> Said(listed=(math.log(0.75), None), answer=0).row()["ceiling"] == math.log(0.25)
            True
        """
        if self.status is not None:
            return {"status": self.status, "reason": self.reason}
        row: dict[str, Json] = {} if self.answer is None else {"answer": self.answer}
        if self.probabilities is not None:
            row["probabilities"] = [*self.probabilities]
        if self.listed is not None:
            known = [value for value in self.listed if value is not None]
            mass = math.fsum(math.exp(min(value, 0.0)) for value in known)
            row |= {"logits": [*self.listed], "answer_mass": min(mass, 1.0)}
            if len(known) < len(self.listed):
                row["ceiling"] = min(*known, math.log(max(1 - mass, _LEAST_LEFT)))
        return row


def asked_of(definition: Json) -> Asked:
    """Read the question of a request.

    Raises:
        ValueError: it has no known type, or not two different options.

    Examples:
        >>> asked = asked_of({"type": "choice", "criteria": {"no": "Declines", "maybe": None}})
        >>> asked.options, asked.shown
        (('maybe', 'no'), (1, 0))
    """
    if not isinstance(definition, dict):
        raise ValueError(f"question: expected an object, got {describe(definition)}")
    kind = _KINDS.get(str(definition.get("type") or definition.get("kind")))
    if kind is None:
        raise ValueError(
            f"question: expected a type of {', '.join(_KINDS)}, got {_show(definition)}"
        )
    names, texts = _named(next((definition[k] for k in _OPTIONS if definition.get(k)), None))
    booleans = {*names} == {*BOOLEAN} and _are_truths(definition.get("choices"))
    wording = _wording(definition, texts if kind == "score" else sorted(texts))
    if kind == "boolean" or booleans:
        return Asked("boolean", BOOLEAN, shown=(0, 1), wording=wording)
    if len(names) < 2 or len({*names}) < len(names):
        raise ValueError(f"question: expected two or more different options, got {_show([*names])}")
    if kind == "score":
        levels = tuple(str(level) for level in range(len(names)))
        return Asked(kind, levels, tuple(names), tuple(range(len(names))), wording)
    options = tuple(sorted(names))
    return Asked(kind, options, shown=tuple(map(options.index, names)), wording=wording)


def asked_by(answers: Sequence[Json]) -> Asked | None:
    """Return the question of a log that has answers alone; None if they do not tell its options.

    Args:
        answers: to one question.

    Examples:
        >>> asked_by([{"type": "choice", "probabilities": {"b": 0.25, "a": 0.75}}]).options
        ('a', 'b')
    """
    for answer in answers:
        if not isinstance(answer, dict):
            continue
        kind = _KINDS.get(str(answer.get("type") or answer.get("primitive")))
        names = [*_distribution(answer)]
        if kind == "boolean" or any(answer.get(key) is not None for key in _TRUE):
            return Asked("boolean", BOOLEAN)
        if not names:
            continue
        if kind == "score" or (kind is None and "score" in answer):
            levels = tuple(sorted(names, key=lambda name: (len(name), name)))
            legend = answer.get("legend")
            texts = [legend.get(level) for level in levels] if isinstance(legend, dict) else []
            known = all(isinstance(text, str) for text in texts)
            return Asked("score", levels, tuple(map(str, texts)) if known else ())
        return Asked("choice", tuple(sorted(names)))
    return None


def read_answer(answer: Json, asked: Asked) -> Said:
    """Read the answer of a reply.

    Args:
        answer: an object, or the option alone.
        asked: its question.

    Raises:
        ValueError: its probabilities are not those of the options, or a score is not a level.

    Examples:
        >>> read_answer({"type": "noul", "noul": 0.93}, Asked("boolean", BOOLEAN)).probabilities
        (0.07, 0.93)
    """
    if not isinstance(answer, dict):
        answer = {"choice": answer}
    if answer.get("type") == "refusal":
        return Said(status="refused", reason="the reply is a refusal")
    true = next((answer[key] for key in _TRUE if answer.get(key) is not None), None)
    if true is not None and asked.kind == "boolean":
        p = _probability(true, "probability of yes")
        rest = round(1 - p, _DIGITS)
        return Said(
            (rest if rest > 0 or p == 1 else 1 - p, p), answer=int(p >= 0.5)
        )  # a half is yes
    said = _distribution(answer)
    chosen = next((answer[key] for key in _CHOICES if answer.get(key) is not None), None)
    at = None if chosen is None else asked.index(chosen)
    if chosen is not None and at is None:
        return Said(status="failed", reason=f"the answer is not an option: {_show(chosen)}")
    _check_score(answer, asked)
    if not said:
        missing = Said(status="missing", reason="the reply has no answer to it")
        return missing if at is None else Said(answer=at)
    indices = {name: asked.index(name) for name in said}
    if {*indices.values()} != {*range(len(asked.options))} or len(said) != len(asked.options):
        raise ValueError(
            f"probabilities: expected one for each of {', '.join(asked.options)[:80]}, got those "
            f"of {', '.join(said)[:80]}"
        )
    by_index = {
        indices[name]: _probability(p, f"probability of {name}") for name, p in said.items()
    }
    return Said(tuple(by_index[index] for index in range(len(said))), answer=at)


def _wording(definition: Mapping[str, Json], options: Sequence[str]) -> str:
    asked = {key: value for key, value in definition.items() if key not in {*_OPTIONS, "name"}}
    return sha256_of_json({**asked, "options": [*options]})


def _named(options: Json) -> tuple[list[str], list[str]]:
    """Return the names of options, and what a request says of each."""
    if isinstance(options, dict):
        return [*options], [dumps([name, text]) for name, text in options.items()]
    names = []
    for option in options if isinstance(options, list) else ():
        key = _name_key(option) if isinstance(option, dict) else None
        name = option[key] if isinstance(option, dict) and key else option
        names.append(cell_text(name) or dumps(name))
    return names, [dumps(option) for option in options] if isinstance(options, list) else []


def _name_key(item: Mapping[str, Json]) -> str | None:
    return next((key for key in _NAMES if item.get(key) is not None), None)


def _are_truths(choices: Json) -> bool:
    listed = choices if isinstance(choices, list) else []
    values = [choice.get("value") if isinstance(choice, dict) else choice for choice in listed]
    return bool(values) and all(isinstance(value, bool) for value in values)


def _distribution(answer: Mapping[str, Json]) -> dict[str, Json]:
    """Return the probabilities of an answer by the name of the option."""
    said = next((answer[key] for key in _DISTRIBUTIONS if answer.get(key)), None)
    if isinstance(said, dict):
        return said
    named: dict[str, Json] = {}
    for item in said if isinstance(said, list) else ():
        key = _name_key(item) if isinstance(item, dict) else None
        if not isinstance(item, dict) or key is None:
            raise ValueError(f"probabilities: expected objects with a name, got {_show(item)}")
        name = cell_text(item[key]) or ""
        if name in named:
            raise ValueError(f"probabilities: {name} is listed twice")
        named[name] = item.get("probability", item.get("prob"))
    return named


def _check_score(answer: Mapping[str, Json], asked: Asked) -> None:
    """Check that a score lies between the first and the last level.

    Raises:
        ValueError: it does not.
    """
    score, last = answer.get("score"), len(asked.options) - 1
    if asked.kind != "score" or score is None:
        return
    if not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= last:
        raise ValueError(f"score: expected a number from 0 to {last}, got {_show(score)}")


def _probability(value: Json, name: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise ValueError(f"{name}: expected a number from 0 to 1, got {_show(value)}")


def _show(value: Json) -> str:
    return dumps(value)[:60]
