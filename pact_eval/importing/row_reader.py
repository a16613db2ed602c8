"""A row of our format: one item, or one view of an item; its columns, and checks of their values.

A row holds an id, a reference, and one of: probabilities (or logits, or log-probabilities) in
canonical order; the answer alone, if that is all that is known, or with its confidence; a
confidence, and whether the answer is right; a status, if there is no answer. A probability of 0
stays 0, unless all probabilities are rounded: see `runs/probabilities.py`.

Logs of the most probable tokens list only some answers. Those that are not listed are null among
log-probabilities or logits, and `ceiling` is the largest value that they can have. A reference may
be a list of several right answers, if the caller allows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, get_args

from pact_eval._json import Json, describe, dumps, finite_number
from pact_eval.data.records import MAX_ANSWERS, MIN_ANSWERS, PairVariant
from pact_eval.errors import InputError, Problem
from pact_eval.runs.predictions import SUM_TOLERANCE, rounding_unit
from pact_eval.runs.provenance import ANSWERS, CONFIDENCES, GRADES, OUTCOMES
from pact_eval.runs.rows import STATUSES

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id",),
    "family": ("family",),
    "source_family": ("source_family",),
    "domain": ("domain",),
    "kind": ("kind", "type"),
    "variant": ("variant",),
    "reference": ("reference", "gold"),
    "probabilities": ("probabilities",),
    "log_probabilities": ("log_probabilities",),
    "logits": ("logits",),
    "view": ("view",),
    "code_order": ("code_order",),
    "prompt_tokens": ("prompt_tokens",),
    "answer_mass": ("answer_mass",),
    "view_tv": ("view_tv", "permutation_tv"),
    "ceiling": ("ceiling",),
    "answer": ("answer",),
    "confidence": ("confidence",),
    "n_choices": ("n_choices",),
    "status": ("status",),
    "reason": ("reason",),
    "correct": (),
    "scored": (),
    "grade": (),
}
"""Our columns, and the names that are tried without `--map`. `correct` says whether the answer is
right by the log that the row is from, and must agree. `scored` says whether the log counts an entry
without an answer (as wrong), which is the default. `grade` says whether an answer is right that
nothing else is known of; `reference` is then 0."""

OWN_NAMES: Final[Mapping[str, str]] = {
    name: name for name in ("correct", "answer", "scored", "grade")
}
"""The mapping of rows that a source has made: it means these columns where it gives them."""

_ANSWERED = ("ok", "answered")
_VALUES = ("probabilities", "log_probabilities", "logits")
_KINDS = {"choice": "choice", "noul": "boolean", "boolean": "boolean", "score": "score"}
# The largest float32, which some servers write (negative) for an answer that cannot be chosen.
# Squares and differences of such numbers are finite.
_LARGEST = 3.4028234663852886e38
_MOST_VIEWS = 10_000
_MOST_TOKENS = 2**31 - 1
_EXACT_SUM = 1e-6
# Answers within 1e-12 nats tie, so this much more makes one the most probable.
_AHEAD = 4e-12


def parse_mapping(pairs: Sequence[str]) -> dict[str, str]:
    """Read `column=name` pairs: our column, and its name in the file.

    Raises:
        InputError: a pair has no `=`, or names a column that a run does not have.

    Examples:
        >>> parse_mapping(["reference=label", "id=example_id"])
        {'reference': 'label', 'id': 'example_id'}
    """
    mapping: dict[str, str] = {}
    for pair in pairs:
        column, equals, name = pair.partition("=")
        if not equals:
            raise InputError(_no_mapping(pair))
        if column in mapping:
            message = f"--map {pair}: {column} is already mapped to {mapping[column]}"
            raise InputError(message)
        mapping |= check_mapping({column: name})
    return mapping


def check_mapping(mapping: Mapping[str, str]) -> dict[str, str]:
    """Return the names of our columns in a file.

    Raises:
        InputError: one is not a column of a run, or has no name.
    """
    for column, name in mapping.items():
        if column not in COLUMNS or not name:
            raise InputError(_no_mapping(f"{column}={name}"))
    return dict(mapping)


def _no_mapping(pair: str) -> str:
    return f"--map {pair}: expected COLUMN=NAME, COLUMN one of {', '.join(COLUMNS)}"


class SeveralRightError(ValueError):
    """A row has several right answers, and nobody said how they count."""


@dataclass
class _View:
    """The columns of a row that belong to its view.

    Attributes:
        n_choices: number of answers.
        view: number of the view, from 0.
        code_order: the order of the answers; empty if it is unknown.
        logits: one per answer; empty without an answer.
        censored: answers whose logits are upper bounds; None if there are none.
        prompt_tokens: length of the prompt.
        answer_mass: probability on the answer letters.
        view_tv: TV between orders that the log states of the item.
        scored: whether the log counts the row.
        right: whether the answer is right.
        answer: the index of the answer; None without one.
    """

    n_choices: int
    view: int
    code_order: list[int] = field(default_factory=list)
    logits: list[float] = field(default_factory=list)
    censored: list[int] | None = None
    prompt_tokens: int | None = None
    answer_mass: float | None = None
    view_tv: float | None = None
    scored: bool = True
    right: bool = False
    answer: int | None = None


class RowReader:
    """Reads rows one by one and collects remarks about them.

    Args:
        mapping: our column -> its name in the rows; overrides the defaults.
        tolerance: how far probabilities may miss a sum of 1, if not by rounding.
        several_right: whether an answer counts if it is one of several right ones.
    """

    def __init__(
        self,
        mapping: Mapping[str, str] | None = None,
        tolerance: float = SUM_TOLERANCE,
        *,
        several_right: bool = False,
    ) -> None:
        mapped_names = {} if mapping is None else mapping
        self._names = {
            column: (mapped_names[column],) if column in mapped_names else names
            for column, names in COLUMNS.items()
        }
        self._tolerance = tolerance
        self._several_right = several_right
        self._answer_is_meant = "answer" in mapped_names
        others = (names for column, names in self._names.items() if column != "confidence")
        self.used = {name for names in others for name in names}
        self._mapped_but_not_met = dict(mapped_names)
        self.values: str | None = None
        self.renormalised = 0
        self.zero_on_reference = 0
        self.compared = 0
        self.correct = 0
        self.not_most_probable = 0

    def read(self, value: Json) -> tuple[tuple[str, int], dict[str, Json]]:
        """Return (id, view) of a row, and its columns.

        Raises:
            ValueError: the row is malformed.
        """
        obj = as_object(value)
        record_id = self._text(obj, "id")
        status = self._status(obj)
        view = self._without_answer(obj) if status else self._read_view(obj)
        item = self._item(obj, record_id, view.n_choices)
        if status is None:
            self._check_outcome(obj, item, view)
        reason = self._text(obj, "reason", "") if status else None
        return (record_id, view.view), {**item, **vars(view), "status": status, "reason": reason}

    def id_if_readable(self, value: Json) -> str | None:
        """Return the id of a row, even if the row is otherwise malformed."""
        record_id = self._get(value, "id") if isinstance(value, dict) else None
        is_id = isinstance(record_id, str | int) and not isinstance(record_id, bool)
        return str(record_id) if is_id else None

    def unmet_mapping(self) -> list[Problem]:
        """Return one problem per mapped column that no row has."""
        return [
            Problem(None, None, f"--map {column}={name}: no row has a column {name}")
            for column, name in self._mapped_but_not_met.items()
        ]

    def _item(self, obj: Mapping[str, Json], record_id: str, n_choices: int) -> dict[str, Json]:
        """Return the columns that are the same in every view of an item."""
        kind = self._kind(obj)
        variant = self._text(obj, "variant", default="") or None
        if variant is not None:
            _one_of("variant", variant, {name: name for name in get_args(PairVariant)})
        if kind == "boolean" and n_choices != 2:
            message = f"expected 2 numbers for a boolean, got {n_choices}"
            raise ValueError(message)
        family = self._text(obj, "family", default=record_id)
        return {
            "id": record_id,
            "family": family,
            "source_family": self._text(obj, "source_family", default=family),
            "domain": self._text(obj, "domain", default="unknown"),
            "kind": kind,
            "variant": variant,
            **self._reference(obj, n_choices),
        }

    def _kind(self, obj: Mapping[str, Json]) -> str:
        return _one_of("kind", self._text(obj, "kind", default="choice"), _KINDS)

    def _reference(self, obj: Mapping[str, Json], n_choices: int) -> dict[str, Json]:
        """Return the first right answer, and all of them if there are several."""
        value = self._get(obj, "reference")
        if not isinstance(value, list):
            return {"reference": self._whole(obj, "reference", 0, n_choices - 1), "accepted": None}
        inside = [
            index
            for index in value
            if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < n_choices
        ]
        if not inside or len(set(inside)) < len(value):
            message = f"reference: expected indices from 0 to {n_choices - 1}, got {_show(value)}"
            raise ValueError(message)
        if len(inside) > 1 and not self._several_right:
            message = f"expected one right answer, got {len(inside)}"
            raise SeveralRightError(message)
        right: list[Json] = [*sorted(inside)]
        return {"reference": right[0], "accepted": right if len(right) > 1 else None}

    def _read_view(self, obj: Mapping[str, Json]) -> _View:
        """Return the columns of one view."""
        logits, censored = self._logits(obj)
        view = self._whole(obj, "view", 0, _MOST_VIEWS, default=0)
        return _View(
            n_choices=len(logits),
            view=view,
            code_order=self._code_order(obj, len(logits), view),
            logits=logits,
            censored=censored or None,
            prompt_tokens=self._whole(obj, "prompt_tokens", 1, _MOST_TOKENS)
            if self._get(obj, "prompt_tokens") is not None
            else None,
            answer_mass=self._share(obj, "answer_mass"),
            view_tv=self._share(obj, "view_tv"),
        )

    def _without_answer(self, obj: Mapping[str, Json]) -> _View:
        if self._get(obj, "n_choices") is None and self._kind(obj) != "boolean":
            message = "n_choices: a row without an answer needs it, except for booleans; add it"
            raise ValueError(message)
        return _View(
            n_choices=self._whole(obj, "n_choices", MIN_ANSWERS, MAX_ANSWERS, default=2),
            view=self._whole(obj, "view", 0, _MOST_VIEWS, default=0),
            scored=self._get(obj, "scored") is not False,
        )

    def _status(self, obj: Mapping[str, Json]) -> str | None:
        """Return why a row has no answer; None if it has one."""
        status = self._text(obj, "status", "ok")
        if status in _ANSWERED:
            return None
        return _one_of("status", status, {name: name for name in (*STATUSES, *_ANSWERED)})

    def _check_outcome(
        self, obj: Mapping[str, Json], item: Mapping[str, Json], view: _View
    ) -> None:
        """Compare our reading of a row with what its source says of the answer."""
        logits = view.logits
        accepted, most_probable = item["accepted"], logits.index(max(logits))
        right = {
            index
            for index in (accepted if isinstance(accepted, list) else [item["reference"]])
            if isinstance(index, int)
        }
        self.zero_on_reference += all(logits[index] == -math.inf for index in right)
        answer = most_probable
        if self._answer_is_meant and self._get(obj, "answer") is not None:
            answer = self._whole(obj, "answer", 0, len(logits) - 1)
            self.not_most_probable += logits[answer] < logits[most_probable]
            if answer != most_probable and logits[answer] == logits[most_probable]:
                # Of equal ones, the answer of the log is the most probable: probabilities that were
                # rounded tie, and the first would be taken.
                logits[answer] += _AHEAD
        view.right, view.answer = answer in right, answer
        correct = self._get(obj, "correct")
        if correct is None or self.values == OUTCOMES:
            return
        if correct not in (True, False):
            message = f"correct: expected true or false, got {_show(correct)}"
            raise ValueError(message)
        if bool(correct) != view.right:
            message = (
                f"the log counts this answer as {'right' if correct else 'wrong'}; read as answer "
                f"{answer} and reference {' or '.join(map(str, sorted(right)))}, it is "
                f"{'wrong' if correct else 'right'}"
            )
            raise ValueError(message)
        self.compared += 1
        self.correct += bool(correct)

    def _get(self, obj: Mapping[str, Json], column: str) -> Json:
        for name in self._names[column]:
            if obj.get(name) is not None:
                self._mapped_but_not_met.pop(column, None)
                return obj[name]
        return None

    def _share(self, obj: Mapping[str, Json], column: str) -> float | None:
        value = self._get(obj, column)
        if value is None or (
            isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
        ):
            return value
        message = f"{column}: expected a number from 0 to 1, got {_show(value)}"
        raise ValueError(message)

    def _text(self, obj: Mapping[str, Json], column: str, default: str | None = None) -> str:
        value = self._get(obj, column)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if default is not None and (value is None or str(value).strip() == ""):
            return default
        if not isinstance(value, str) or not value:
            message = f"{'/'.join(self._names[column])}: expected text, got {_show(value)}"
            raise ValueError(message)
        return value

    def _whole(
        self, obj: Mapping[str, Json], column: str, low: int, high: int, default: int | None = None
    ) -> int:
        value = self._get(obj, column)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        name = "/".join(self._names[column])
        message = f"{name}: expected an integer from {low} to {high}, got {_show(value)}"
        raise ValueError(message)

    def _logits(self, obj: Mapping[str, Json]) -> tuple[list[float], list[int]]:
        """Return the logits of a view, and the answers whose logits are upper bounds."""
        columns = [column for column in _VALUES if self._get(obj, column) is not None]
        if not columns:
            columns = self._without_distribution(obj)
        if len(columns) != 1:
            message = f"expected one of {', '.join(_VALUES)}, answer; got {_list_names(columns)}"
            raise ValueError(message)
        if self.values not in (None, columns[0]):
            message = f"expected {self.values} as in earlier rows, got {columns[0]}"
            raise ValueError(message)
        self.values = columns[0]
        if columns[0] in (ANSWERS, GRADES):
            return self._one_answer(obj), []
        if columns[0] in (CONFIDENCES, OUTCOMES):
            return self._one_confidence(obj), []
        if columns[0] == "probabilities":
            return self._from_probabilities(_numbers(self._get(obj, columns[0]), columns[0])), []
        value, censored = self._get(obj, columns[0]), list[int]()
        if isinstance(value, list) and self._get(obj, "ceiling") is not None:
            ceiling = self._get(obj, "ceiling")
            censored = [at for at, entry in enumerate(value) if entry is None]
            value = [ceiling if entry is None else entry for entry in value]
        numbers = _numbers(value, columns[0])
        if len(censored) == len(numbers):
            raise ValueError(f"{columns[0]}: expected a listed answer, got none")
        if columns[0] == "log_probabilities" and not censored:
            self._check_sum([math.exp(min(number, 1.0)) for number in numbers])
        return numbers, censored

    def _without_distribution(self, obj: Mapping[str, Json]) -> list[str]:
        """Return what a row without the probabilities of all answers has; nothing without any."""
        has_answer = self._get(obj, "answer") is not None
        if self._get(obj, "confidence") is None:
            if has_answer:
                return [ANSWERS]
            return [] if self._get(obj, "grade") is None else [GRADES]
        self.used |= {*self._names["confidence"]}
        if has_answer:
            return [CONFIDENCES]
        return [] if self._get(obj, "correct") is None else [OUTCOMES]

    def _one_confidence(self, obj: Mapping[str, Json]) -> list[float]:
        """Return log p of the answer and of the others, which share the rest; see `CONFIDENCES`."""
        confidence = self._share(obj, "confidence") or 0.0
        if self.values == OUTCOMES:
            answer = int(not self._get(obj, "correct"))
            n_choices = fewest_answers(confidence)
            if self._get(obj, "view") not in (None, 0):
                message = "view: expected one per item, as it is not known which answers are equal"
                raise ValueError(message)
        else:
            n_choices = self._whole(obj, "n_choices", MIN_ANSWERS, MAX_ANSWERS)
            answer = self._whole(obj, "answer", 0, n_choices - 1)
        return confident_logits(confidence, answer, n_choices)

    def _one_answer(self, obj: Mapping[str, Json]) -> list[float]:
        """Return 0 for the answer and minus infinity for the others; `ANSWERS` says what it is."""
        if self.values == GRADES:
            return [0.0, -math.inf] if self._get(obj, "grade") else [-math.inf, 0.0]
        n_choices = self._whole(obj, "n_choices", MIN_ANSWERS, MAX_ANSWERS)
        answer = self._whole(obj, "answer", 0, n_choices - 1)
        return [0.0 if index == answer else -math.inf for index in range(n_choices)]

    def _from_probabilities(self, probabilities: list[float]) -> list[float]:
        self._check_sum(probabilities)
        return [math.log(p) if p > 0 else -math.inf for p in probabilities]

    def _check_sum(self, probabilities: list[float]) -> None:
        if min(probabilities) < 0 or max(probabilities) > 1 + _EXACT_SUM:
            message = f"probabilities: expected values from 0 to 1, got {_show([*probabilities])}"
            raise ValueError(message)
        off = abs(math.fsum(probabilities) - 1)
        if off <= _EXACT_SUM:
            return
        if off > max(self._tolerance, 0.5 * rounding_unit(probabilities) * len(probabilities)):
            message = f"probabilities: expected a sum of 1, got {math.fsum(probabilities):.6g}"
            raise ValueError(message)
        self.renormalised += 1

    def _code_order(self, obj: Mapping[str, Json], n_choices: int, view: int) -> list[int]:
        """View 0 is canonical by default, and other views unknown; an empty list says so."""
        value = self._get(obj, "code_order")
        if value is None:
            return list(range(n_choices)) if view == 0 else []
        entries = value if isinstance(value, list) else []
        if value == []:
            return []
        order = [item for item in entries if isinstance(item, int) and not isinstance(item, bool)]
        if len(order) != len(entries) or sorted(order) != list(range(n_choices)):
            message = f"code_order: expected an order of 0 to {n_choices - 1}, got {_show(value)}"
            raise ValueError(message)
        return order


def fewest_answers(confidence: float) -> int:
    """Return the least number of answers with which one of this probability is the most probable.

    Raises:
        ValueError: it is larger than a run can have.

    Examples:
        >>> [fewest_answers(confidence) for confidence in (1.0, 0.51, 0.5, 0.25)]
        [2, 2, 3, 5]
    """
    for n_choices in range(MIN_ANSWERS, MAX_ANSWERS + 1):
        if (1 - confidence) / (n_choices - 1) < confidence:
            return n_choices
    message = (
        f"confidence: expected the probability of the most probable of at most {MAX_ANSWERS} "
        f"answers, got {confidence:g}"
    )
    raise ValueError(message)


def confident_logits(confidence: float, answer: int, n_choices: int) -> list[float]:
    """Return log p of all answers if the others share equally what one leaves.

    Args:
        confidence: probability of the answer.
        answer: its index.
        n_choices: number of answers.

    Raises:
        ValueError: it is too small to be the most probable answer, by more than rounding.

    Examples:
        >>> [round(math.exp(logit), 3) for logit in confident_logits(0.6, 1, 3)]
        [0.2, 0.6, 0.2]
    """
    least = 1 / n_choices
    if confidence < least - max(_EXACT_SUM, 0.5 * rounding_unit([confidence])):
        message = (
            f"confidence: expected at least 1/{n_choices}, as the most probable of {n_choices} "
            f"answers has, got {confidence:g}; if there are more answers, name them all "
            "(--options, or n_choices)"
        )
        raise ValueError(message)
    confidence = max(confidence, least)
    top = math.log(confidence)
    rest = (1 - confidence) / (n_choices - 1)
    other = min(math.log(rest), top - _AHEAD) if rest > 0 else -math.inf
    return [top if index == answer else other for index in range(n_choices)]


def missing_views(seen: Set[tuple[str, int]]) -> list[Problem]:
    """Check that every item has the views 0 to K - 1."""
    k = max(view for _, view in seen) + 1 if seen else 0
    views: dict[str, set[int]] = {}
    for record_id, view in seen:
        views.setdefault(record_id, set()).add(view)
    return [
        Problem(None, record_id, f"expected views 0 to {k - 1}, got {sorted(item_views)}")
        for record_id, item_views in views.items()
        if len(item_views) != k
    ]


def inconsistent_views(rows: Sequence[Mapping[str, Json]]) -> list[Problem]:
    """Check that the values of an item are the same in all of its views."""
    columns = (
        *("family", "source_family", "domain", "kind", "variant", "reference", "accepted"),
        "n_choices",
    )
    first: dict[str, Mapping[str, Json]] = {}
    problems = []
    for row in rows:
        first_row = first.setdefault(str(row["id"]), row)
        for column in columns:
            if first_row[column] != row[column]:
                values = f"{_show(first_row[column])} and {_show(row[column])}"
                message = f"{column}: expected the same value in every view, got {values}"
                problems.append(Problem(None, str(row["id"]), message))
    return problems


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _one_of(column: str, value: str, allowed: Mapping[str, str]) -> str:
    if value not in allowed:
        message = f"{column}: expected {', '.join(allowed)}, got {_show(value)}"
        raise ValueError(message)
    return allowed[value]


def _numbers(value: Json, name: str) -> list[float]:
    if not isinstance(value, list) or not MIN_ANSWERS <= len(value) <= MAX_ANSWERS:
        description = f"{len(value)} numbers" if isinstance(value, list) else _show(value)
        message = (
            f"{name}: expected a list of {MIN_ANSWERS} to {MAX_ANSWERS} numbers, got {description}"
        )
        raise ValueError(message)
    numbers = [finite_number(item) for item in value]
    finite = [number for number in numbers if number is not None and abs(number) <= _LARGEST]
    if len(finite) < len(numbers):
        allowed = f"finite numbers from -{_LARGEST:.2g} to {_LARGEST:.2g}"
        message = f"{name}: expected {allowed}, got {_show(value)}"
        raise ValueError(message)
    return finite


def as_object(value: Json) -> dict[str, Json]:
    """Return a JSON object.

    Raises:
        ValueError: it is not one.
    """
    if not isinstance(value, dict):
        message = f"expected an object, got {describe(value)}"
        raise ValueError(message)
    return value


def _show(value: Json) -> str:
    text = "nothing" if value is None else dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
