"""Predictions: the scored views of one run as arrays, and the decodings made from them.

This module turns the rows of a run, scored or imported, into the arrays that `metrics` reads: items
by views by answers, padded, in canonical order.

Ablated contexts have no correct answer. Their references are absent; reading them is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from pact_eval._choices import Decoding
from pact_eval._typing import BoolArray, FloatArray, IntArray, TextArray
from pact_eval.errors import RunError
from pact_eval.metrics import decode_ensemble, decode_single, log_softmax, mean_answer_mass
from pact_eval.runs.metadata import metadata_of_rows
from pact_eval.runs.provenance import Known
from pact_eval.runs.rows import (
    ABLATED,
    ABLATED_SCHEMA,
    check_values,
    type_family,
)


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
            message = (
                f"expected only ablated contexts or none, got {ablated:,} in {len(frame):,} rows"
            )
            raise RunError(message)
        first, views = _gathered(frame)
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

    def first_views(self, k: int) -> Predictions:
        """Return the items with the first k views only; letter orders do not depend on K."""
        return replace(
            self,
            repeats=self.repeats and k > 1,
            logits=self.logits[:, :k],
            code_order=self.code_order[:, :k],
            answer_mass=self.answer_mass[:, :k],
            censored=None if self.censored is None else self.censored[:, :k],
        )

    def chosen_views(self, views: IntArray) -> Predictions:
        """Return the items with the given views of each, shape (n, k), in that order."""
        rows = np.arange(len(self))[:, np.newaxis]
        return replace(
            self,
            logits=self.logits[rows, views],
            code_order=self.code_order[rows, views],
            answer_mass=self.answer_mass[rows, views],
            censored=None if self.censored is None else self.censored[rows, views],
            repeats=self.repeats and views.shape[1] > 1,
        )

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
        n, k, width = self.logits.shape
        rows = self.taken(np.repeat(np.arange(n), k))
        numbers = np.tile(np.arange(1, k + 1), n).tolist()
        names = [f"{name} (repeat {at})" for name, at in zip(rows.ids, numbers, strict=True)]
        logits = self.logits.reshape(n * k, 1, width)
        references = rows.references
        if rows.accepted is not None and references is not None:
            references = _reference_of_several(rows.accepted, references, logits[:, 0])
        return replace(
            rows,
            ids=np.array(names, dtype=np.object_),
            logits=logits,
            code_order=self.code_order.reshape(n * k, 1, width),
            answer_mass=self.answer_mass.reshape(n * k, 1),
            censored=None if self.censored is None else self.censored.reshape(n * k, 1, width),
            references=references,
            repeats=False,
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
    accepted = _marked(first["accepted"], width)
    accepted[np.arange(len(first)), references] = True
    return accepted, _reference_of_several(
        accepted, references, _padded(first["logits"], width, -np.inf)
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


def _gathered(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the rows of view 0, and the arrays that every run has, by name."""
    items = frame.select("id").unique(maintain_order=True).with_row_index("item")
    frame = frame.join(items, on="id", maintain_order="left").sort("item", "view")
    first = frame.filter(pl.col("view") == 0)
    n, k = len(first), int(frame["view"].max() or 0) + 1  # type: ignore[arg-type]
    views = frame["view"].to_numpy()
    if len(frame) != n * k or not (views.reshape(n, k) == np.arange(k)).all():
        message = f"expected {k} views for each of {n:,} items, got {len(frame):,} rows"
        raise RunError(message)
    check_values(frame, k)
    return first, _arrays(first, frame, n, k)


def _arrays(first: pl.DataFrame, frame: pl.DataFrame, n: int, k: int) -> dict[str, Any]:
    """Return the arrays of n items with k rows each, by name."""
    n_choices = first["n_choices"].to_numpy().astype(np.int64)
    width = int(n_choices.max(initial=2))
    order = _padded(frame["code_order"], width, -1).astype(np.int64)
    return {
        **{name: _texts(first, name) for name in _TEXT_COLUMNS},
        "ids": _texts(first, "id"),
        "n_choices": n_choices,
        "logits": _padded(frame["logits"], width, -np.inf).reshape(n, k, width),
        "code_order": order.reshape(n, k, width),
        "prompt_tokens": _floats(first["prompt_tokens"]),
        "answer_mass": _floats(frame["answer_mass"]).reshape(n, k),
        "censored": _marked(frame["censored"], width).reshape(n, k, width)
        if "censored" in frame.columns
        else None,
        "view_tv": _floats(first["view_tv"]) if k == 1 and "view_tv" in frame.columns else None,
        "metadata": metadata_of_rows(first),
    }


def _two_answers(first: pl.DataFrame, n_choices: IntArray) -> IntArray:
    dtype = ABLATED_SCHEMA["answers"]
    if "answers" not in first.columns or type_family(first.schema["answers"]) != type_family(dtype):
        message = f"ablated contexts: expected a column answers ({dtype})"
        raise RunError(message)
    if (first["answers"].list.len() == 2).all() and first["answers"].null_count() == 0:
        answers = _padded(first["answers"], 2, -1)
        inside = (answers >= 0) & (answers < n_choices[:, None])
        if inside.all() and (answers[:, 0] != answers[:, 1]).all():
            return answers.astype(np.int64)
    message = "answers: expected two different answers for each ablated context"
    raise RunError(message)


def _texts(frame: pl.DataFrame, name: str) -> TextArray:
    texts: TextArray = frame[name].cast(pl.String).fill_null("").to_numpy().astype(np.object_)
    return texts


def _floats(column: pl.Series) -> FloatArray:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _marked(lists: pl.Series, width: int) -> BoolArray:
    """Turn lists of indices into a (rows, width) array of marks; null is an empty list."""
    lengths = lists.list.len().fill_null(0).to_numpy()
    indices = lists.explode(empty_as_null=False).drop_nulls().to_numpy()
    marks = np.zeros((len(lists), width), dtype=np.bool_)
    marks[np.repeat(np.arange(len(lists)), lengths), indices] = True
    return marks


def _padded(lists: pl.Series, width: int, fill: float) -> FloatArray:
    """Turn a list column into a (rows, width) array; short lists are filled up."""
    lengths = lists.list.len().to_numpy().astype(np.int64)
    padded = np.full((len(lists), width), fill, dtype=np.float64)
    values = lists.explode(empty_as_null=False)
    padded[np.arange(width) < lengths[:, None]] = values.cast(pl.Float64).to_numpy()
    return padded
