"""Cells of tables: numbers for the answers, confidences, truth values.

The numbers of one row are a list, an object by name, objects with "label" and "score" or "token"
and "logprob", or the `top_logprobs` of a chat completion; each also as text in a cell.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import polars as pl

from pact_eval._json import Json, dumps, loads
from pact_eval.data.labelled.answers import of_texts

_NAMES: Final = ("label", "token", "name", "option")
_VALUES: Final = ("score", "prob", "probability", "logprob")
_NUMBER: Final = re.compile(r"[-+]?(\d+([.,]\d*)?|[.,]\d+)(e[-+]?\d+)?%?", re.IGNORECASE)
_ARRAY: Final = re.compile(r"\[\s*[-+.\de]+(\s+[-+.\de]+)+\s*\]")  # as numpy prints it
_SPACES: Final = " \t\r\n\u0120\u2581"  # as byte-level tokenizers and SentencePiece write it
_THOUSANDS: Final = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
_TRUE: Final = frozenset({"1", "true", "yes", "right", "correct", "c"})
_FALSE: Final = frozenset({"0", "false", "no", "wrong", "incorrect", "i"})


class Scores(NamedTuple):
    """The numbers of one row.

    Attributes:
        kind: "probabilities", "log_probabilities" or "logits".
        numbers: (n,) one per name, or one per option in the order of the file.
        names: what each is of; None for a list.
        listed: whether these are the most probable tokens only.
    """

    kind: str
    numbers: tuple[float, ...]
    names: tuple[str, ...] | None = None
    listed: bool = False


def number_of(cell: Json) -> float | None:
    """Return a number, also as text, with a decimal comma or a percent sign; None without one.

    Raises:
        ValueError: the cell has something else.

    Examples:
        >>> number_of(0.5), number_of("0,5"), number_of("50%"), number_of("-1e-3"), number_of("")
        (0.5, 0.5, 0.5, -0.001, None)
    """
    if cell is None or cell == "":
        return None
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        with suppress(OverflowError):  # an integer of JSON has any length
            return float(cell)
    text = cell.strip() if isinstance(cell, str) else ""
    if text.lower() in ("-inf", "-infinity"):
        return -math.inf
    if _THOUSANDS.fullmatch(text):
        raise ValueError(
            f"{text} has a decimal comma or a separator of thousands; write it with a point"
        )
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"expected a number, got {_show(cell)}")
    number = float(text.rstrip("%").replace(",", "."))
    return number / 100 if text.endswith("%") else number


def number_or_none(cell: Json) -> float | None:
    """Return a number as `number_of` does; None for anything else.

    Examples:
        >>> number_or_none("50%"), number_or_none("half")
        (0.5, None)
    """
    try:
        return number_of(cell)
    except ValueError:
        return None


def numbers_in(cells: Sequence[Json]) -> list[float | None]:
    """Return the numbers of cells, as `number_of` does.

    Raises:
        ValueError: a cell has something else.

    Examples:
        >>> numbers_in(["0.5", None, "1e-3"]), numbers_in(["0,5", "50%"])
        ([0.5, None, 0.001], [0.5, 0.5])
    """
    given: Sequence[Any] = cells
    if None in cells:
        given = [cell for cell in cells if cell is not None]
    if {*map(type, given)} == {str}:  # polars reads no text as a number that we do not
        found = pl.Series(given, dtype=pl.String).cast(pl.Float64, strict=False)
        if found.is_finite().all(ignore_nulls=False):
            numbers: list[float | None] = found.to_list()
            rest = iter(numbers)
            return numbers if given is cells else [x if x is None else next(rest) for x in cells]
    return [*map(number_of, cells)]


def read_each(
    function: Callable[[Any], Any],
    cells: Sequence[Any],
    wrong: dict[int, ValueError],
    column: str = "",
) -> list[Any]:
    """Return a function of every cell, called once for each different one if they are texts.

    Args:
        function: raises a `ValueError` if it cannot read a cell, which is None then.
        cells: of one column.
        wrong: by the number of its row, what is wrong; added to, where nothing is wrong yet.
        column: its name, with which the message begins.

    Examples:
        >>> wrong: dict[int, ValueError] = {}
        >>> read_each(number_of, ["0.5", "x"], wrong, "p"), wrong
        ([0.5, None], {1: ValueError('p: expected a number, got "x"')})
    """

    def attempt(cell: Any) -> Any:
        try:
            return function(cell)
        except ValueError as error:
            return ValueError(f"{column}: {error}") if column else error

    found = of_texts(attempt, cells)
    for at, value in enumerate(found):
        if isinstance(value, ValueError):
            wrong.setdefault(at, value)
            found[at] = None
    return found


def confidence_of(cell: Json) -> float | None:
    """Return the probability of the answer that a model chose; None without one.

    Raises:
        ValueError: it is not a number from 0 to 1.

    Examples:
        >>> confidence_of("0,75"), confidence_of("75%"), confidence_of("")
        (0.75, 0.75, None)
    """
    number = number_of(cell)
    if number is None or 0 <= number <= 1:
        return number
    message = f"expected a probability from 0 to 1, got {_show(cell)}"
    scaled = "; divide it by 100, or add a percent sign" if 1 < number <= 100 else ""
    raise ValueError(f"{message}{scaled}")


def truth_of(cell: Json) -> bool | None:
    """Return whether a cell says that an answer is right; None without a value.

    Raises:
        ValueError: it says neither.

    Examples:
        >>> truth_of(1), truth_of("False"), truth_of("")
        (True, False, None)
    """
    if cell is None or cell == "":
        return None
    word = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
    word = word.strip().casefold()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"expected true or false, got {_show(cell)}")
    return word in _TRUE


def scores_of(kind: str, cell: Json) -> Scores | None:
    """Read the numbers in one cell.

    Args:
        kind: what they are by the name of their column.
        cell: see the forms above.

    Returns:
        The numbers; None if the cell is empty. Two tokens of one text are summed.

    Raises:
        ValueError: the cell has another form.

    Examples:
        >>> scores_of("probabilities", '{"yes": 0.75, "no": 0.25}').names
        ('yes', 'no')
        >>> scores_of("log_probabilities", [{"token": "A", "logprob": -0.5}]).listed
        True
    """
    if isinstance(cell, str):
        cell = _unpack(cell)
    if cell is None or cell in ([], {}):
        return None
    if isinstance(cell, dict):
        return _scores_of_object(kind, cell)
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        raise ValueError(
            f"expected a list or an object of numbers, got {_show(cell)}; if this is the "
            "probability of the answer that the model chose: --columns confidence=NAME"
        )
    if not isinstance(cell, list):
        raise ValueError(f"expected a list or an object of numbers, got {_show(cell)}")
    if all(isinstance(item, dict) for item in cell):
        return _scores_of_objects(kind, [item for item in cell if isinstance(item, dict)])
    if len(cell) == 1 and isinstance(cell[0], list):
        return scores_of(kind, cell[0])
    numbers = [number_of(item) for item in cell]
    present = [number for number in numbers if number is not None]
    if len(present) < len(numbers):
        raise ValueError(f"expected a number for every answer, got {_show(cell)}")
    return Scores(kind, tuple(present))


def scored_answer(cell: Json) -> tuple[Json, Json] | None:
    """Return the label and the score of an object with both, or of a list of one; None for others.

    Examples:
        >>> scored_answer({"label": "spam", "score": 0.98}), scored_answer("spam")
        (('spam', 0.98), None)
    """
    if isinstance(cell, str):
        try:
            cell = _unpack(cell)
        except ValueError:
            return None
    if isinstance(cell, list) and len(cell) == 1:
        cell = cell[0]
    value = cell if isinstance(cell, dict) else {}
    name, number = (next((k for k in keys if k in value), None) for keys in (_NAMES, _VALUES))
    return None if name is None or number is None else (value[name], value[number])


def with_names(scores: Scores, names: Json) -> Scores:
    """Return a list of numbers with the list of their labels in another cell, if there is one.

    Examples:
        >>> with_names(Scores("probabilities", (0.75, 0.25)), ["yes", "no"]).names
        ('yes', 'no')
    """
    if scores.names is not None or not isinstance(names, list):
        return scores
    if len(names) != len(scores.numbers) or not all(isinstance(name, str) for name in names):
        return scores
    return _sum_by_text(scores.kind, [str(name) for name in names], scores.numbers)


def _unpack(text: str) -> Json:
    """Return what a cell of text holds: JSON, a Python literal or a printed array.

    Raises:
        ValueError: it is none of these.
    """
    text = text.strip()
    if not text:
        return None
    if _ARRAY.fullmatch(text):
        return [float(part) for part in text.strip("[] ").split()]
    try:
        return loads(text)
    except ValueError:
        pass
    try:
        value: Json = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"expected a list or an object of numbers, got {text!r:.60}") from None
    return value


def _scores_of_object(kind: str, cell: Mapping[str, Json]) -> Scores | None:
    content = cell.get("content")
    if isinstance(content, list):
        return _scores_of_first_token(content)
    tops = cell.get("top_logprobs")
    if isinstance(tops, list):
        return _scores_of_first_token(
            tops if all(map(_is_token, tops)) else [{"top_logprobs": tops[0]}]
        )
    numbers = {name: number_of(value) for name, value in cell.items()}
    present = {name: number for name, number in numbers.items() if number is not None}
    return _sum_by_text(kind, [*present], [*present.values()])


def _is_token(value: Json) -> bool:
    return isinstance(value, dict) and "top_logprobs" in value


def _scores_of_first_token(content: Sequence[Json]) -> Scores | None:
    """Return the most probable tokens at the only position of a completion.

    Raises:
        ValueError: there are several positions, so the one of the answer is not known.
    """
    if len(content) != 1:
        raise ValueError(
            f"expected the log-probabilities of one token, got those of {len(content)}"
        )
    first = content[0]
    tops = first.get("top_logprobs") if isinstance(first, dict) else None
    if isinstance(tops, dict):
        named = _scores_of_object("log_probabilities", tops)
        return None if named is None else Scores(named.kind, named.numbers, named.names, True)
    items = [item for item in tops if isinstance(item, dict)] if isinstance(tops, list) else []
    if isinstance(first, dict) and first.get("token") not in [item.get("token") for item in items]:
        items.append(first)
    return _scores_of_objects("log_probabilities", items)


def _scores_of_objects(kind: str, items: Sequence[Mapping[str, Json]]) -> Scores:
    if not items:
        raise ValueError("expected tokens with log-probabilities, got none")
    name = next((key for key in _NAMES if all(key in item for item in items)), None)
    value = next((key for key in _VALUES if all(key in item for item in items)), None)
    if name is None or value is None:
        raise ValueError(f"expected objects with a label and a score, got {_show({**items[0]})}")
    numbers = [number_of(item[value]) for item in items]
    if None in numbers:
        raise ValueError(f"expected a number for every answer, got {_show({**items[0]})}")
    tokens = value == "logprob"
    found = [number for number in numbers if number is not None]
    scores = _sum_by_text(
        "log_probabilities" if tokens else kind, [str(item[name]) for item in items], found
    )
    return Scores(scores.kind, scores.numbers, scores.names, listed=tokens)


def _sum_by_text(kind: str, names: Sequence[str], numbers: Sequence[float]) -> Scores:
    """Return numbers by name; those of one text, such as "A" and " A", are summed."""
    by_name: dict[str, list[float]] = {}
    for name, number in zip(names, numbers, strict=True):
        by_name.setdefault(name.strip(_SPACES), []).append(number)
    if kind == "logits" and any(len(values) > 1 for values in by_name.values()):
        raise ValueError("expected one logit for every answer, got two of one name")
    add = math.fsum if kind == "probabilities" else log_sum
    summed = tuple(values[0] if len(values) == 1 else add(values) for values in by_name.values())
    return Scores(kind, summed, tuple(by_name))


def log_sum(values: Sequence[float]) -> float:
    """Return the log of the sum of probabilities, from their logs.

    Examples:
        >>> log_sum([math.log(0.25), math.log(0.5)]) == math.log(0.75)
        True
    """
    most = max(values)
    if most == -math.inf:
        return most
    return most + math.log(math.fsum(math.exp(value - most) for value in values))


def _show(value: Json) -> str:
    return dumps(value)[:60]
