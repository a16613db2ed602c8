"""Scores of items: the columns that the views of items fill, slice by slice.

A slice is made of views in memory, or of rows of a file. No other module makes columns of items.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval import metrics
from pact_eval._choices import Decoding
from pact_eval._typing import BoolArray, FloatArray, IntArray, TextArray
from pact_eval.calibration.temperatures import Calibrator, at_temperatures
from pact_eval.errors import RunError
from pact_eval.evaluation.registry import Contexts, metrics_for
from pact_eval.progress import step
from pact_eval.runs.identity import QUESTION, question_texts
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import UNSURE, Known
from pact_eval.runs.rows import PREFIX, check_values
from pact_eval.stats.letter_preference import distinct_orders

BlockFunction = Callable[[metrics.ItemBlock], npt.NDArray[Any]]
"""Takes a block of m items to (m,) values of one metric."""

_ALL_ITEMS: Final = frozenset({"references", "ablated contexts", "ensemble"})


@dataclass(frozen=True, eq=False)
class ViewFacts:
    """Facts on the views of a run that are not metrics; a unit is a view of known letter order.

    Attributes:
        picked: (units,) letter position that was chosen.
        held: (units,) letter position of the reference; empty for ablated contexts.
        of_item: (units,) the item of each unit.
        weight: (units,) share of each unit: of m letters that tie in a view, each is 1/m of it;
            None if no letters tie.
        answer_mass: mean share of the next-token distribution on the letters; NaN if unknown.
        smallest_probability: smallest probability above 0 of any view; NaN if they are unknown.
        logit_gap: (n,) distance of the two best logits of view 0; empty if they are unknown.
    """

    picked: npt.NDArray[np.int16]
    held: npt.NDArray[np.int16]
    of_item: IntArray
    weight: FloatArray | None
    answer_mass: float
    smallest_probability: float
    logit_gap: FloatArray


NO_FACTS: Final = ViewFacts(
    picked=np.empty(0, dtype=np.int16),
    held=np.empty(0, dtype=np.int16),
    of_item=np.empty(0, dtype=np.int64),
    weight=None,
    answer_mass=math.nan,
    smallest_probability=math.nan,
    logit_gap=np.empty(0),
)
"""Of no views."""


@dataclass(frozen=True, eq=False)
class ViewSlice:
    """Some items with all their views, in the layout of the run's file.

    Attributes:
        k: number of views per item.
        n_choices: (n,) number of answers.
        logits: logits of all views one after another, without padding.
        codes: known letter orders of all views one after another.
        code_lengths: (n * k,) length of each letter order, 0 if unknown; empty if not read.
        distinct: (n, k) False for a view whose order an earlier view of the item has.
        kind: (n,) field kind.
        reference: (n,) canonical index of the correct answer; None for ablated contexts.
        answers: (n, 2) the two answers of ablated contexts, or None.
        prompt_tokens: (n,) length of view 0; None if not read.
        question: (n,) name of the question; None if not read, or unknown.
        answer_mass: (n, k) share of the next-token distribution on the letters; None if not read.
        other_reference: (n,) reference of the other member of the pair, -1 without one; None if the
            run has no pairs.
        view_tv: (n,) view TV that a log states of items with one view, NaN if it does not; or None.
    """

    k: int
    n_choices: IntArray
    logits: npt.NDArray[np.floating]
    codes: npt.NDArray[np.integer]
    code_lengths: IntArray
    distinct: BoolArray
    kind: TextArray | pl.Series
    reference: IntArray | None
    answers: IntArray | None
    prompt_tokens: FloatArray | None
    question: TextArray | None
    answer_mass: FloatArray | None
    other_reference: IntArray | None
    view_tv: FloatArray | None


def slice_of_views(views: Predictions, other_reference: IntArray | None) -> ViewSlice:
    """Return views in memory as one slice.

    Args:
        views: with references, or of ablated contexts.
        other_reference: as in `ViewSlice`.
    """
    n, k, width = views.logits.shape
    used = np.arange(width) < views.n_choices[:, None, None]
    recorded = views.code_order >= 0
    return ViewSlice(
        k=k,
        n_choices=views.n_choices,
        logits=views.logits[np.broadcast_to(used, (n, k, width))],
        codes=views.code_order[recorded],
        code_lengths=recorded.sum(axis=2).ravel(),
        distinct=distinct_orders(views.code_order),
        kind=views.kind,
        reference=views.references,
        answers=views.answers,
        prompt_tokens=views.prompt_tokens,
        question=views.question,
        answer_mass=views.answer_mass,
        other_reference=other_reference,
        view_tv=views.view_tv,
    )


def slice_of_rows(
    frame: pl.DataFrame,
    k: int,
    reference: IntArray | None,
    other_reference: IntArray | None,
    *,
    letters: bool,
) -> ViewSlice:
    """Return rows of a file as a slice.

    Args:
        frame: the rows of its items; the k views of an item are next to each other, in order.
        k: number of views of each item.
        reference: (n,) canonical index of the correct answer.
        other_reference: as in `ViewSlice`.
        letters: keep the letter orders.

    Raises:
        RunError: a row has no reference, or a value that rows of a run do not have.
    """
    missing = frame["reference"].null_count()
    if missing:
        raise RunError(f"{missing:,} of {len(frame):,} rows have no reference")
    check_values(frame, k)
    first = frame.gather_every(k)
    lengths, codes = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if "code_order" in frame.columns:
        lengths = frame["code_order"].list.len().fill_null(0).to_numpy().astype(np.int64)
        codes = frame["code_order"].explode(empty_as_null=False).drop_nulls().to_numpy()
    distinct = _distinct(codes, lengths, k) if k > 1 else np.ones((len(first), 1), dtype=np.bool_)
    mass = _floats(frame, "answer_mass")
    asked = first.get_column(PREFIX + QUESTION, default=None)
    return ViewSlice(
        k=k,
        n_choices=first["n_choices"].to_numpy().astype(np.int64),
        logits=frame["logits"].explode(empty_as_null=False).to_numpy(),
        codes=codes if letters else codes[:0],
        code_lengths=lengths if letters else lengths[:0],
        distinct=distinct,
        kind=first["kind"],
        reference=reference,
        answers=None,
        prompt_tokens=_floats(first, "prompt_tokens"),
        question=None if asked is None else question_texts(asked),
        answer_mass=None if mass is None else mass.reshape(-1, k),
        other_reference=other_reference,
        view_tv=_floats(first, "view_tv"),
    )


def _floats(frame: pl.DataFrame, name: str) -> FloatArray | None:
    """Return a column of numbers, NaN for null; None if it was not read."""
    if name not in frame.columns:
        return None
    return frame[name].cast(pl.Float64).fill_null(math.nan).to_numpy()


def _distinct(codes: npt.NDArray[np.integer], lengths: IntArray, k: int) -> BoolArray:
    """Return (n, k) False for a view whose order an earlier view of the item has."""
    slots = np.arange(lengths.max(initial=1))
    orders = np.full((lengths.size, slots.size), -1, dtype=codes.dtype)
    orders[slots < lengths[:, None]] = codes
    return distinct_orders(orders.reshape(-1, k, slots.size))


def item_functions(
    contexts: Contexts, k: int, *, score_items: bool, pairs: bool
) -> dict[str, BlockFunction]:
    """Return the per-item functions of the metrics whose needs a run meets, by name.

    Args:
        contexts: with references, or ablated.
        k: number of views per item.
        score_items: whether there are Score items.
        pairs: whether there are complete pairs.
    """
    met = {"several views": k > 1, "score items": score_items, "pairs": pairs}
    needs = _ALL_ITEMS | {need for need, is_met in met.items() if is_met}
    return {
        metric.name: metric.per_item
        for metric in metrics_for(contexts)
        if metric.per_item is not None and metric.needs <= needs
    }


class Facts(NamedTuple):
    """Facts on the views of a slice: as in `ViewFacts`, but masses and weights of every view."""

    of_item: IntArray
    slots: npt.NDArray[np.int16]
    weight: FloatArray
    answer_mass: npt.NDArray[np.floating]
    smallest_log_prob: float


@dataclass(frozen=True, eq=False)
class ItemScores:
    """Columns of n items, which slices fill: joining the columns of slices would copy them all.

    Attributes:
        n: number of items.
        decoding: single or ensemble.
        calibrator: temperatures to divide by; None leaves the distributions raw.
        functions: see `item_functions`.
        letters: also fill what the test of letters needs.
        columns: by name, what is filled: a metric, `predicted`, `confidence`, `logit_gap`,
            or `reordered`: False for items whose K > 1 views have one order (unknown orders count
            as others), and for those of which a log does not state view TV.
    """

    n: int
    decoding: Decoding
    calibrator: Calibrator | None
    functions: Mapping[str, BlockFunction]
    letters: bool = True
    columns: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def _put(self, name: str, rows: IntArray | slice, values: npt.NDArray[Any]) -> None:
        if name not in self.columns:  # if another thread makes it too, one of both is kept
            self.columns.setdefault(name, np.empty(self.n, dtype=values.dtype))
        self.columns[name][rows] = values

    def fill(self, views: ViewSlice, start: int) -> Facts:
        """Score a slice.

        Args:
            views: the items of the slice.
            start: row of the first of them.

        Raises:
            ValueError: a distribution or its ensemble is undefined; see `metrics.item_blocks`.
        """
        n, k = len(views.n_choices), views.k
        picks = np.empty((n, k) if self.letters else (0, k), dtype=np.int64)
        ties: list[tuple[IntArray, IntArray]] = []
        smallest = 0.0
        with step("Scoring items", n, "items") as scored:
            for block in self._blocks(views):
                rows = start + block.rows
                self._put("predicted", rows, block.predicted.astype(np.int16))
                self._put("confidence", rows, block.confidence)
                for name, function in self.functions.items():
                    self._put(name, rows, np.asarray(function(block)))
                    scored.done += len(rows) / len(self.functions)
                if self.letters:
                    self._put("logit_gap", rows, block.logit_gap)
                    picks[block.rows] = block.predicted_by_view
                    ties += _ties(block)
                    smallest = min(smallest, block.smallest_log_prob)
        at, reordered = slice(start, start + n), (views.distinct.sum(axis=1) > 1) | (k == 1)
        if views.view_tv is not None:
            reordered = ~np.isnan(views.view_tv)
            self._put("view_tv", at, views.view_tv)
        if k > 1 or views.view_tv is not None:
            self._put("reordered", at, reordered)
        of_item, slots, weight = _slots(views, picks, ties, reordered)
        mass = np.empty(0) if views.answer_mass is None else views.answer_mass.ravel()
        return Facts(start + of_item, slots, weight, mass, smallest)

    def _blocks(self, views: ViewSlice) -> Iterator[metrics.ItemBlock]:
        decode = None
        if self.calibrator is not None:
            # Those of all items: messages of a block would name its own rows.
            temperature = self.calibrator.temperatures(views)

            def decode(log_probs: FloatArray, rows: IntArray) -> FloatArray:
                return at_temperatures(log_probs, views.n_choices[rows], temperature[rows])

        return metrics.item_blocks(
            views.logits,
            views.n_choices,
            views.reference,
            answers=views.answers,
            answer_mass=views.answer_mass,
            views=views.k,
            counted=None if views.distinct.all() else counted_views(views.distinct),
            other_reference=views.other_reference,
            ensemble=self.decoding == "ensemble",
            decode=decode,
        )

    def columns_of(self, contexts: Contexts, known: Known) -> dict[str, Any]:
        """Return the columns of `ScoredItems`, by name; NaN where a number is not known.

        Args:
            contexts: with references, or ablated.
            known: what is known of every item.
        """
        # In the memory of one number: most runs lack some metrics.
        unknown = np.broadcast_to(np.nan, self.n)
        reordered, by_metric = self.columns.get("reordered"), {}
        if reordered is not None and reordered.all():
            reordered = None
        for metric in metrics_for(contexts):
            if metric.per_item is None:
                continue
            values = self.columns.get(metric.name, unknown)
            # If the views of one item rule out all answers, the ensemble of the run is undefined.
            no_ensemble = "ensemble" in metric.needs and np.isnan(values).any()
            if no_ensemble or not metric.defined_for(known):
                values = unknown
            elif metric.uses_all_views and reordered is not None:
                values = np.where(reordered, values, np.nan)
            by_metric[metric.name] = values
        sure = known not in UNSURE
        return {
            "predicted": self.columns.get("predicted", np.empty(0, dtype=np.int16)),
            "confidence": self.columns.get("confidence", np.empty(0)) if sure else unknown,
            "values": by_metric,
            "reordered": reordered,
        }

    def facts(self, parts: Sequence[Facts], known: Known) -> ViewFacts:
        """Join the facts of slices.

        Args:
            parts: of every slice, in order.
            known: what is known of every item.
        """
        of_item, slots, weights, masses, smallest = zip(*parts, strict=True)
        picked, held = np.concatenate(slots, axis=1)
        weight, mass = np.concatenate(weights), np.concatenate(masses)
        recorded, probable = mass[~np.isnan(mass)], known == "probabilities"
        gap = self.columns.get("logit_gap", NO_FACTS.logit_gap)
        # Imports may hold logits whose probabilities are below the smallest float64.
        least = max(float(np.exp(min(smallest))), math.ulp(0.0))
        return ViewFacts(
            picked=picked,
            held=held,
            of_item=np.concatenate(of_item),
            weight=weight if (weight < 1).any() else None,
            answer_mass=float(recorded.mean()) if recorded.size else math.nan,
            smallest_probability=least if probable else math.nan,
            logit_gap=gap if probable else gap[:0],
        )


def counted_views(distinct: BoolArray) -> BoolArray:
    """Return which views count for view TV: the first of each order of an item.

    An item of one order has no view TV. All of its views count, so that the value of a gate is then
    how far its repeats differ.

    Args:
        distinct: (n, K) False for a view whose order an earlier view of the item has.

    Examples:
        >>> counted_views(np.array([[True, True, False], [True, False, False]]))
        array([[ True,  True, False],
               [ True,  True,  True]])
    """
    one_order = distinct.sum(axis=1) == 1
    return np.asarray(distinct | one_order[:, None], dtype=np.bool_)


def _ties(block: metrics.ItemBlock) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the views of a block in which letters tie, and another answer that is as probable."""
    if block.tied_by_view.shape[2] > 1:
        at_row, view, tied = np.nonzero(block.tied_by_view[:, :, 1:] >= 0)
        yield block.rows[at_row] * block.k + view, block.tied_by_view[at_row, view, tied + 1]


def _slots(
    views: ViewSlice,
    picks: IntArray,
    ties: Sequence[tuple[IntArray, IntArray]],
    reordered: BoolArray,
) -> tuple[IntArray, npt.NDArray[np.int16], FloatArray]:
    """Return the item of each view of known letter order; its answer and reference as positions.

    Views that repeat the only order of an item are left out.

    Args:
        views: the slice.
        picks: (n, K) the first of the most probable answers.
        ties: views, and another answer that is as probable there.
        reordered: (n,) whether an item is shown in several orders.

    Returns:
        Items, (2, m) positions, and the share of each of them in its view.
    """
    lengths = views.code_lengths
    recorded = np.flatnonzero(lengths)
    if views.reference is None or not recorded.size:
        return np.zeros(0, dtype=np.int64), np.zeros((2, 0), dtype=np.int16), np.zeros(0)
    starts = np.cumsum(lengths) - lengths
    answers = picks.ravel(), np.repeat(views.reference, views.k)
    slots = np.empty((2, recorded.size), dtype=np.int16)
    for row, answer in zip(slots, answers, strict=True):
        # Each answer has one code in each view, as the reader of rows has checked.
        row[:] = np.flatnonzero(views.codes == np.repeat(answer, lengths)) - starts[recorded]
    if ties:
        tied, others = (np.concatenate(column) for column in zip(*ties, strict=True))
        tied, others = tied[lengths[tied] > 0], others[lengths[tied] > 0]
        width, first = lengths[tied], np.cumsum(lengths[tied]) - lengths[tied]
        codes = views.codes[np.arange(width.sum()) + np.repeat(starts[tied] - first, width)]
        places = np.flatnonzero(codes == np.repeat(others, width)) - first
        held = slots[1, np.searchsorted(recorded, tied)]
        slots = np.append(slots, np.stack([places.astype(np.int16), held]), axis=1)
        recorded = np.append(recorded, tied)
    if not reordered.all():
        kept = reordered[recorded // views.k] | (recorded % views.k == 0)
        recorded, slots = recorded[kept], slots[:, kept]
    return recorded // views.k, slots, 1 / np.bincount(recorded, minlength=1)[recorded]
