"""Predictions: the scored views of one run as arrays, and the decodings made from them.

This module turns the rows of a run, scored or imported, into the arrays that `metrics` reads: items
by views by answers, padded, in canonical order.

Ablated contexts have no correct answer. Their references are absent; reading them is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval._choices import Decoding
from pact_eval._typing import BoolArray, FloatArray, IntArray, TextArray
from pact_eval.errors import RunError
from pact_eval.metrics import decode_ensemble, decode_single, log_softmax, mean_answer_mass
from pact_eval.runs.identity import QUESTION, question_texts
from pact_eval.runs.provenance import Known, Rounding
from pact_eval.runs.rows import ABLATED, ABLATED_SCHEMA, check_values, metadata_of_rows, type_family

FIRST_REPEAT: Final = " (repeat 1)"
"""What the id of the first repeat has after the id of its item."""


@dataclass(frozen=True)
class Predictions:
    """The scored views of one run: n items, K views, up to C answers.

    A run on ablated contexts has no references. Each item has two answers instead, between which
    the context no longer decides.

    Attributes:
        ids: shape (n,), text.
        family, source_family, domain, kind, variant: shape (n,), text; variant is "" if unknown.
        n_choices: shape (n,), number of answers of each item.
        logits: shape (n, K, C), canonical order, float64, unused slots -inf.
        code_order: shape (n, K, C), canonical index at each letter, unused slots -1; all -1 in a
            view whose order is unknown (some imports).
        prompt_tokens: shape (n,), length of view 0; NaN if unknown.
        answer_mass: shape (n, K), probability on the answer letters; NaN if unknown.
        references: shape (n,), canonical index of the correct answer; None for ablated contexts.
        answers: shape (n, 2), the references of the base record and of its counterfactual; only
            for ablated contexts, otherwise None.
        known: what is known of every item.
        censored: shape (n, K, C), whether the log did not list an answer: its logit is the largest
            that it can have; None if all are listed.
        accepted: shape (n, C), all right answers, if items have several; None otherwise. The
            reference of such an item is the most probable of them in view 0, so an answer counts if
            it is one of them.
        view_tv: shape (n,), TV between orders that an imported log states of each item, NaN if it
            does not; None if it states none, or if items have several views.
        repeats: whether the views of an item repeat one prompt or show its answers in one order, as
            epochs and trials do.
        metadata: n rows, further columns of the records by their names; None if there are none.
    """

    ids: TextArray
    family: TextArray
    source_family: TextArray
    domain: TextArray
    kind: TextArray
    variant: TextArray
    n_choices: IntArray
    logits: FloatArray
    code_order: IntArray
    prompt_tokens: FloatArray
    answer_mass: FloatArray
    references: IntArray | None = None
    answers: IntArray | None = None
    known: Known = "probabilities"
    censored: BoolArray | None = None
    accepted: BoolArray | None = None
    view_tv: FloatArray | None = None
    repeats: bool = False
    metadata: pl.DataFrame | None = None

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> Predictions:
        """Gather the rows of a run, one per item and view, into arrays.

        Args:
            frame: columns as in `SCHEMA`, or as in `ABLATED_SCHEMA` if the variant of the rows is
                "ablated". Items keep the order of their first rows.

        Raises:
            RunError: an item lacks a view or a reference, only some rows are ablated contexts, or
                an ablated context has a reference or lacks its two different answers.

        Examples:
            >>> frame = pl.DataFrame({
            ...     "id": ["a", "a"], "family": "f", "source_family": "s", "domain": "d",
            ...     "kind": "boolean", "variant": "base", "reference": 1, "n_choices": 2,
            ...     "view": [0, 1], "code_order": [[0, 1], [1, 0]],
            ...     "logits": [[0.0, 2.0], [1.0, 2.0]], "prompt_tokens": 9, "answer_mass": 1.0})
            >>> predictions = Predictions.from_frame(frame)
            >>> predictions.logits.shape, predictions.reference.tolist()
            ((1, 2, 2), [1])
        """
        ablated = int((frame["variant"].cast(pl.String) == ABLATED).sum())
        if ablated and ablated != len(frame):
            raise RunError(
                f"expected only ablated contexts or none, got {ablated:,} in {len(frame):,} rows"
            )
        first, views = _gather(frame)
        n_references = first["reference"].count()
        if ablated and n_references:
            message = f"expected ablated contexts without references, {n_references:,} have one"
            raise RunError(message)
        if ablated:
            return cls(**views, answers=_two_answers(first, views["n_choices"]))
        if n_references < len(first):
            message = f"{len(first) - n_references:,} of {len(first):,} items have no reference"
            raise RunError(message)
        accepted, references = right_answers(first)
        return cls(**views, references=references, accepted=accepted)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def k(self) -> int:
        """Number of views per item."""
        return int(self.logits.shape[1])

    @property
    def ablated(self) -> bool:
        """Whether the items are ablated contexts, which have no references."""
        return self.references is None

    @property
    def reference(self) -> IntArray:
        """Canonical index of the correct answer, shape (n,).

        Raises:
            RunError: the items are ablated contexts.
        """
        if self.references is None:
            raise RunError("ablated contexts have no references: no answer is correct or wrong")
        return self.references

    @property
    def right_answers(self) -> BoolArray:
        """Mask (n, C) of the right answers.

        Raises:
            RunError: the items are ablated contexts.
        """
        if self.accepted is not None:
            return self.accepted
        right: BoolArray = np.arange(self.logits.shape[2]) == self.reference[:, None]
        return right

    @property
    def declared(self) -> IntArray | None:
        """Shape (n,), the first right answer of each item, which does not depend on the model.

        It is None for ablated contexts.
        """
        return self.references if self.accepted is None else self.accepted.argmax(axis=1)

    def log_probs(self, decoding: Decoding) -> FloatArray:
        """Return the canonical log-probabilities under a decoding, shape (n, C), uncalibrated."""
        decode = decode_single if decoding == "single" else decode_ensemble
        return decode(self.logits, self.n_choices)

    @cached_property
    def question(self) -> TextArray | None:
        """Name of the question of each item, shape (n,); None without such a column."""
        if self.metadata is None or QUESTION not in self.metadata.columns:
            return None
        return question_texts(self.metadata[QUESTION])

    @cached_property
    def log_probs_by_view(self) -> FloatArray:
        """Canonical log-probabilities of every view, shape (n, K, C)."""
        return log_softmax(self.logits, self.n_choices)

    def taken(self, rows: IntArray) -> Predictions:
        """Return the items at the given rows, in that order."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        per_item: dict[str, Any] = {
            name: column[rows] for name, column in columns.items() if isinstance(column, np.ndarray)
        }
        if self.metadata is not None:
            per_item["metadata"] = self.metadata[rows]
        return replace(self, **per_item)

    @property
    def answer_mass_by_item(self) -> FloatArray:
        """(n,) mean answer mass over the views of which it is known; NaN if it is of none."""
        return mean_answer_mass(self.answer_mass)

    def with_views(self, views: int | IntArray) -> Predictions:
        """Return the items with some of their views only; letter orders do not depend on K.

        Args:
            views: how many of the first views, or (n, k) the views of each item, in that order.
        """
        if isinstance(views, int):
            columns = self._views(lambda column: column[:, :views])
        else:
            rows = np.arange(len(self))[:, np.newaxis]
            columns = self._views(lambda column: column[rows, views])
        return replace(self, **columns, repeats=self.repeats and columns["logits"].shape[1] > 1)

    def _views(self, pick: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> dict[str, Any]:
        """Return what a function picks of every (n, K, ...) column of the views."""
        names = ("logits", "code_order", "answer_mass", "censored")
        columns = {name: getattr(self, name) for name in names}
        return {name: pick(column) for name, column in columns.items() if column is not None}

    def repeats_as_items(self) -> Predictions:
        """Return every view as an item with one view: n times K items, in the order of the items.

        Means over them are means over the repeats. They keep the family of their item, so that
        intervals over families allow for their dependence.

        Examples:
            >>> frame = pl.DataFrame({
            ...     "id": ["a", "a"], "family": "f", "source_family": "s", "domain": "d",
            ...     "kind": "boolean", "variant": "base", "reference": 1, "n_choices": 2,
            ...     "view": [0, 1], "code_order": [[0, 1], [0, 1]],
            ...     "logits": [[0.0, 2.0], [1.0, 0.0]], "prompt_tokens": 9, "answer_mass": 1.0})
            >>> Predictions.from_frame(frame).repeats_as_items().ids.tolist()
            ['a (repeat 1)', 'a (repeat 2)']
        """
        n, k, _ = self.logits.shape
        rows = self.taken(np.repeat(np.arange(n), k))
        numbers = np.tile(np.arange(1, k + 1), n).tolist()
        names = [f"{name} (repeat {at})" for name, at in zip(rows.ids, numbers, strict=True)]
        columns = self._views(lambda column: column.reshape(n * k, 1, *column.shape[2:]))
        references = rows.references
        if rows.accepted is not None and references is not None:
            references = _reference_of_several(rows.accepted, references, columns["logits"][:, 0])
        return replace(
            rows,
            ids=np.array(names, dtype=np.object_),
            references=references,
            repeats=False,
            **columns,
        )


def right_answers(first: pl.DataFrame) -> tuple[BoolArray | None, IntArray]:
    """Return which answers are right, and the reference of each item.

    Args:
        first: the rows of view 0, columns `reference`, `n_choices`, `logits`, and `accepted` if
            items have several right answers.

    Returns:
        (n, C) which answers are right, None if each item has one; (n,) canonical indices: the most
        probable of the right answers.

    Examples:
        >>> first = pl.DataFrame({
        ...     "reference": [0, 1], "n_choices": [3, 3], "accepted": [[0, 2], None],
        ...     "logits": [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]})
        >>> right_answers(first)[1].tolist()
        [2, 1]
    """
    references = first["reference"].to_numpy().astype(np.int64)
    if "accepted" not in first.columns or first["accepted"].null_count() == len(first):
        return None, references
    width = int(first["n_choices"].max() or 2)  # type: ignore[arg-type]
    accepted = _marks(first["accepted"], width)
    accepted[np.arange(len(first)), references] = True
    return accepted, _reference_of_several(
        accepted, references, _pad(first["logits"], width, -np.inf)
    )


def _reference_of_several(
    accepted: BoolArray, references: IntArray, values: FloatArray
) -> IntArray:
    """Return the most probable right answer of items that have several, (n,)."""
    # Below minus infinity: an answer of probability 0 may be the only right one.
    bounded = np.where(accepted, np.maximum(values, -np.finfo(np.float64).max), -np.inf)
    several = accepted.sum(axis=1) > 1
    return np.where(several, bounded.argmax(axis=1), references)


_TEXT_COLUMNS = ("family", "source_family", "domain", "kind", "variant")


def _gather(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the rows of view 0, and the arrays that every run has, by name."""
    items = frame.select("id").unique(maintain_order=True).with_row_index("item")
    frame = frame.join(items, on="id", maintain_order="left").sort("item", "view")
    first = frame.filter(pl.col("view") == 0)
    n, k = len(first), int(frame["view"].max() or 0) + 1  # type: ignore[arg-type]
    views = frame["view"].to_numpy()
    if len(frame) != n * k or not (views.reshape(n, k) == np.arange(k)).all():
        raise RunError(f"expected {k} views for each of {n:,} items, got {len(frame):,} rows")
    check_values(frame, k)
    return first, _arrays(first, frame, n, k)


def _arrays(first: pl.DataFrame, frame: pl.DataFrame, n: int, k: int) -> dict[str, Any]:
    """Return the arrays of n items with k rows each, by name."""
    n_choices = first["n_choices"].to_numpy().astype(np.int64)
    width = int(n_choices.max(initial=2))
    order = _pad(frame["code_order"], width, -1).astype(np.int64)
    return {
        **{name: _texts(first, name) for name in _TEXT_COLUMNS},
        "ids": _texts(first, "id"),
        "n_choices": n_choices,
        "logits": _pad(frame["logits"], width, -np.inf).reshape(n, k, width),
        "code_order": order.reshape(n, k, width),
        "prompt_tokens": _floats(first["prompt_tokens"]),
        "answer_mass": _floats(frame["answer_mass"]).reshape(n, k),
        "censored": _marks(frame["censored"], width).reshape(n, k, width)
        if "censored" in frame.columns
        else None,
        "view_tv": _floats(first["view_tv"]) if k == 1 and "view_tv" in frame.columns else None,
        "metadata": metadata_of_rows(first),
    }


def _two_answers(first: pl.DataFrame, n_choices: IntArray) -> IntArray:
    dtype = ABLATED_SCHEMA["answers"]
    if "answers" not in first.columns or type_family(first.schema["answers"]) != type_family(dtype):
        raise RunError(f"ablated contexts: expected a column answers ({dtype})")
    if (first["answers"].list.len() == 2).all() and first["answers"].null_count() == 0:
        answers = _pad(first["answers"], 2, -1)
        inside = (answers >= 0) & (answers < n_choices[:, None])
        if inside.all() and (answers[:, 0] != answers[:, 1]).all():
            return answers.astype(np.int64)
    raise RunError("answers: expected two different answers for each ablated context")


def _texts(frame: pl.DataFrame, name: str) -> TextArray:
    texts: TextArray = frame[name].cast(pl.String).fill_null("").to_numpy().astype(np.object_)
    return texts


def _floats(column: pl.Series) -> FloatArray:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _marks(lists: pl.Series, width: int) -> BoolArray:
    """Turn lists of indices into a (rows, width) array of marks; null is an empty list."""
    lengths = lists.list.len().fill_null(0).to_numpy()
    indices = lists.explode(empty_as_null=False).drop_nulls().to_numpy()
    marks = np.zeros((len(lists), width), dtype=np.bool_)
    marks[np.repeat(np.arange(len(lists)), lengths), indices] = True
    return marks


def _pad(lists: pl.Series, width: int, fill: float) -> FloatArray:
    """Turn a list column into a (rows, width) array; short lists are filled up."""
    lengths = lists.list.len().to_numpy().astype(np.int64)
    padded = np.full((len(lists), width), fill, dtype=np.float64)
    values = lists.explode(empty_as_null=False)
    padded[np.arange(width) < lengths[:, None]] = values.cast(pl.Float64).to_numpy()
    return padded


FEWEST_DECIMALS: Final = 2
MOST_DECIMALS: Final = 6
"""Probabilities that are exact at 2 to 6 decimals are rounded."""

_EXACT: Final = 1e-9
_SAME: Final = 1e-11  # more than what tells a tie from the answer of a log
SUM_TOLERANCE: Final = 1e-3
"""A sum of probabilities may miss 1 by this, whatever their rounding."""


def decimals(values: Iterable[float]) -> int | None:
    """Return to how many decimals numbers are rounded, 2 to 6; None if they are not.

    Examples:
        >>> decimals([0.25, 0.75]), decimals([0.125, 0.875]), decimals([1 / 3, 2 / 3])
        (2, 3, None)
        >>> decimals([1.0, 1e-46, 0.0])
    """
    array = values if isinstance(values, np.ndarray) else np.fromiter(values, np.float64)
    for digits in range(FEWEST_DECIMALS, MOST_DECIMALS + 1):
        # Only a difference of the last bits: a value between two decimals was not rounded. The
        # first values nearly always tell.
        parts = (array[:1000], array)
        if all((np.abs(x - np.round(x, digits)) <= _SAME * x).all() for x in parts):
            return digits
    return None


def rounding_unit(values: Sequence[float]) -> float:
    """Return the last decimal of one distribution, such as 0.01; 0.0 if it is not rounded."""
    # For one distribution, numpy takes longer than Python.
    for digits in range(FEWEST_DECIMALS, MOST_DECIMALS + 1):
        if all(abs(value - round(value, digits)) <= _SAME * value for value in values):
            return 10.0**-digits
    return 0.0


def log_probabilities_of(
    values: Sequence[float], tolerance: float = SUM_TOLERANCE
) -> tuple[float, ...]:
    """Return the logs of probabilities, after checking that they are a distribution.

    Args:
        values: (C,) probabilities.
        tolerance: how far their sum may be from 1, if not by rounding.

    Raises:
        ValueError: a value is not in [0, 1], or the sum is not 1 within rounding.

    Examples:
        >>> log_probabilities_of([1.0, 0.0])
        (0.0, -inf)
        >>> log_probabilities_of([0.33, 0.33, 0.33])[0] == math.log(0.33)
        True
        >>> try:
        ...     log_probabilities_of([0.7, 0.7])
        ... except ValueError as error:
        ...     print(error)
        probabilities: expected a sum of 1, got 1.4
    """
    if not all(0.0 <= value <= 1.0 + _EXACT for value in values):
        text = ", ".join(f"{value:.6g}" for value in values[:8])
        raise ValueError(f"probabilities: expected values from 0 to 1, got {text}")
    total = math.fsum(values)
    rounded = 0.5 * rounding_unit(values) * len(values) + _EXACT
    if not abs(total - 1.0) <= max(rounded, tolerance):
        raise ValueError(f"probabilities: expected a sum of 1, got {total:.6g}")
    return tuple(math.log(value) if value > 0.0 else -math.inf for value in values)


def mass_of_log_probabilities(values: Sequence[float], tolerance: float = SUM_TOLERANCE) -> float:
    """Return the probability of disjoint tokens or letters, at most 1 but for rounding.

    Args:
        values: their log-probabilities.
        tolerance: how far the sum may exceed 1 by rounding.

    Raises:
        ValueError: a value is above 0, or the sum is above 1.

    Examples:
        >>> round(mass_of_log_probabilities([math.log(0.25), math.log(0.5)]), 9)
        0.75
    """
    if values and max(values) > tolerance:
        raise ValueError(f"log-probabilities: expected values of at most 0, got {max(values):.6g}")
    mass = math.fsum(math.exp(value) for value in values)
    if mass > 1.0 + tolerance:
        message = f"log-probabilities: expected probabilities that sum to at most 1, got {mass:.6g}"
        raise ValueError(message)
    return mass


def with_censored_zeros(
    logits: npt.NDArray[np.float64], digits: int
) -> tuple[npt.NDArray[np.float64], bool]:
    """Return the log-probabilities of one view with a finite value for probabilities of 0.00.

    The zeros of a view share half a unit of the last decimal, the most that each of them can be. So
    other probabilities change by less than their rounding, the ensemble of several views is
    defined, and `exp` of a value below half a unit still says that the server sent 0.00.

    Args:
        logits: (C,) log-probabilities as sent.
        digits: decimals to which the server rounds.

    Returns:
        The values, and whether there were zeros.

    Examples:
        >>> values, censored = with_censored_zeros(np.log([0.99, 0.01]), 2)
        >>> censored
        False
        >>> values, censored = with_censored_zeros(np.array([0.0, -np.inf]), 2)
        >>> np.exp(values).round(4).tolist(), censored
        ([1.0, 0.005], True)
    """
    zeros = np.isneginf(logits)
    count = int(zeros.sum())
    if not count:
        return logits, False
    return np.where(zeros, _shared_by_zeros(count, digits), logits), True


def _shared_by_zeros(count: int, digits: int) -> float:
    return math.log(0.5 * 10.0**-digits / count)


def sent_decimals(logits: pl.Series) -> int | None:
    """Return to how many decimals a server rounds; None if it does not, or nothing shows it.

    Values of 0 and 1 alone do not show that they are rounded.

    Args:
        logits: lists of logs of the probabilities that it has sent.

    Examples:
        >>> sent_decimals(pl.Series([[math.log(0.75), math.log(0.25)], [0.0, -math.inf]]))
        2
    """
    sent = np.exp(logits.explode(empty_as_null=False).drop_nulls().to_numpy())
    return decimals(sent) if ((sent > 0) & (sent < 1)).any() else None


def with_rounding(rows: pl.DataFrame) -> tuple[pl.DataFrame, Rounding | None]:
    """Give rows whose probabilities are rounded finite values for probabilities of 0.00.

    Args:
        rows: rows of a run whose logits are the logs of recorded probabilities.

    Returns:
        The rows, and how the values are rounded; None if they are not.
    """
    digits = sent_decimals(rows["logits"])
    if digits is None:
        return rows, None
    lengths = rows["logits"].list.len().to_numpy()
    values = rows["logits"].explode(empty_as_null=False).cast(pl.Float64).to_numpy(writable=True)
    view_of, zeros = np.repeat(np.arange(len(rows)), lengths), np.isneginf(values)
    counts = np.bincount(view_of[zeros], minlength=len(rows))
    for count in np.unique(counts[counts > 0]).tolist():
        values[zeros & (counts == count)[view_of]] = _shared_by_zeros(count, digits)
    views = pl.DataFrame({"view": view_of, "logits": values})
    lists = views.group_by("view", maintain_order=True).agg("logits")
    return rows.with_columns(lists["logits"]), Rounding(digits, int((counts > 0).sum()))


# Two neighbouring values, such as 0.81 and 0.82, were different before they were rounded.
_OPEN = 1 - 1e-9


def recorded_bounds(
    predictions: Predictions, decoding: Decoding, decimals: int | None
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest probability that each recorded one stands for.

    Args:
        predictions: the views; logits are logs of the recorded probabilities.
        decoding: single or ensemble.
        decimals: to how many decimals they were rounded; None if they were not.

    Returns:
        Two arrays (n, K, C), of view 0 alone under the single decoding; unused slots are 0.
    """
    views = 1 if decoding == "single" else predictions.k
    low = np.minimum(np.exp(predictions.logits[:, :views]), 1.0)
    high = low
    if decimals is not None:
        half = 0.5 * 10.0**-decimals
        sent = np.where(low <= half * (1 + 1e-9), 0.0, low)
        used = np.arange(sent.shape[2]) < predictions.n_choices[:, None, None]
        low = np.where(used, np.maximum(sent - half * _OPEN, 0.0), 0.0)
        high = np.where(used, np.minimum(sent + half * _OPEN, 1.0), 0.0)
    if predictions.censored is not None:
        low = np.where(predictions.censored[:, :views], 0.0, low)
    return low, high


def censored_references(predictions: Predictions, decoding: Decoding, decimals: int | None) -> int:
    """Count the items whose correct answer can have had a probability of 0 in a view.

    It was rounded to 0, or the log did not list it; see `recorded_bounds`.
    """
    low, high = recorded_bounds(predictions, decoding, decimals)
    rows = np.arange(len(predictions))
    least, most = (bounds[rows, :, predictions.reference] for bounds in (low, high))
    return int(((least == 0) & (most > 0)).any(axis=1).sum())
