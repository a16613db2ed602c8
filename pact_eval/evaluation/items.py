"""Scored items: the columns of numbers from which every metric of a run is computed.

`ScoredItems.of` takes the views of a run in memory. `read_items` reads the file of a run in slices
and keeps only the columns (about 70 bytes per item). Both use the same function to score slices of
views. `report`, `compare`, tables and figures use the result.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval import metrics
from pact_eval._choices import OWN_GROUPS, Bins, ClusterUnit, Decoding, GroupBy
from pact_eval._typing import BoolArray, FloatArray, IntArray, TextArray
from pact_eval.calibration.temperatures import Calibrator, at_temperatures
from pact_eval.errors import InputError, RunError, missing_probabilities
from pact_eval.evaluation.labels import (
    Labels,
    column_labels,
    count_repeats,
    family_labels,
    find_column,
    text_labels,
)
from pact_eval.evaluation.registry import (
    CONFIDENT,
    PAIR_MARGIN,
    Contexts,
    find_metric,
    metrics_for,
)
from pact_eval.progress import step
from pact_eval.runs.predictions import Predictions, right_answers
from pact_eval.runs.provenance import UNSURE, Known
from pact_eval.runs.questions import QUESTION, question_texts
from pact_eval.runs.rows import PREFIX, check_columns, check_values, collected
from pact_eval.stats.permuted_slots import distinct_orders

"""Bins of equal width, from 0 to 1, of ECE and of reliability diagrams."""

_GROUPINGS: Final[tuple[GroupBy, ...]] = OWN_GROUPS
# Rows of a slice: as many as polars writes into a row group, so no row is decoded twice.
_SLICE_ROWS: Final = 2**18

BlockFunction = Callable[[metrics.ItemBlock], npt.NDArray[Any]]
Derived = TypeVar("Derived")


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
        smallest_probability: smallest probability above 0 of any view.
        logit_gap: (n,) distance of the two best logits of view 0.
    """

    picked: npt.NDArray[np.int16]
    held: npt.NDArray[np.int16]
    of_item: IntArray
    weight: FloatArray | None
    answer_mass: float
    smallest_probability: float
    logit_gap: FloatArray


@dataclass(frozen=True, eq=False)
class PairMargins:
    """The margins of the complete pairs of some items; see `metrics.pair_margin_nats`.

    Attributes:
        values: (P,) margin of each pair in nats, in the order of `ScoredItems.pairs`. It is NaN or
            infinite if both members have the same right answer, or if one of the two right answers
            has probability 0 or is not offered.
        is_finite: (P,) whether a margin is finite; None if all are.
        pairs: number of pairs with a margin.
        families: number of units that they form.
        rows: (n,) whether an item is the base of such a pair; None if all pairs have a margin.
    """

    values: FloatArray
    is_finite: BoolArray | None
    pairs: int
    families: int
    rows: BoolArray | None


@dataclass(frozen=True, eq=False)
class ScoredItems:
    """The items of a run under one decoding.

    Attributes:
        decoding: single or ensemble.
        calibrator: temperatures that were applied; None for raw distributions.
        k: number of views per item; 1 if the repeats of an item are rows of their own.
        family_labels: the family of each item.
        labels: kind, domain and source family; only the requested ones if read from a file.
        is_base: (n,) whether the item is the base of its pair.
        reference: (n,) canonical index of the correct answer; None for ablated contexts.
        predicted: (n,) canonical index of the most probable answer.
        confidence: (n,) probability of that answer.
        values: by name of a registered metric, (n,) its per-item values.
        facts: facts on the views of all items of the run.
        reordered: (n,) whether the views of an item show its answers in more than one order; None
            if those of all items do, or may, because their orders are unknown.
        views: the scored views in memory; None for items read from a file.
        unit: units of intervals and exact tests: families, or source families.
        known: what is known of every item; without probabilities, confidences are NaN.
        repeats: number of repeats per item; 1 if the views are not repeats.
        repeat: (n,) number of the repeat that a row is, if the repeats of an item are rows of their
            own: then every mean is a mean over repeats. None otherwise.
        ece_bins: number of bins of ECE.
    """

    decoding: Decoding
    calibrator: Calibrator | None
    k: int
    family_labels: Labels
    labels: Mapping[GroupBy, Labels]
    is_base: BoolArray
    reference: IntArray | None
    predicted: IntArray
    confidence: FloatArray
    values: Mapping[str, npt.NDArray[Any]]
    facts: ViewFacts
    reordered: BoolArray | None = None
    views: Predictions | None = None
    unit: ClusterUnit = "family"
    known: Known = "probabilities"
    repeats: int = 1
    repeat: IntArray | None = None
    ece_bins: int = metrics.BINS
    _rows: IntArray | None = field(default=None, repr=False)
    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls, predictions: Predictions, decoding: Decoding, calibrator: Calibrator | None = None
    ) -> ScoredItems:
        """Decode the views of a run, and score every item.

        Args:
            predictions: the views, with references or of ablated contexts.
            decoding: single or ensemble.
            calibrator: temperatures to divide by; None leaves the distributions raw. TV, flips and
                ensemble gain always use the raw views.

        Raises:
            ValueError: the views of an item have no answer of positive probability in common.
            InputError: the calibrator needs prompt lengths that are unknown; or probabilities are
                not known, and are to be combined or calibrated.
        """
        known = predictions.known
        _check_known(decoding, calibrator, known)
        repeats = predictions.k if predictions.repeats else 1
        by_repeat = repeats > 1 and decoding == "single"
        predictions = predictions.repeats_as_items() if by_repeat else predictions
        scoring = _Scoring(decoding, calibrator)
        columns, values = _Columns(len(predictions)), _Columns(len(predictions))
        views = _slice_of_views(predictions, repeats if by_repeat else 1)
        part = _score(views, scoring, 0, columns, values)
        labels = {by: Labels.of(getattr(predictions, by)) for by in _GROUPINGS}
        family = Labels.of(predictions.family)
        items = _join_slices([part], columns, values, family, labels, scoring, predictions.k)
        items = _as_known(items, known)
        items = replace(items, views=predictions, repeats=repeats)
        return items._with_repeats() if by_repeat else items

    def __len__(self) -> int:
        return len(self.family)

    @property
    def n_items(self) -> int:
        """Number of items; fewer than rows if the repeats of an item are rows of their own."""
        return len(self) if self.repeat is None else len(self) // self.repeats

    @property
    def contexts(self) -> Contexts:
        """Full contexts, with references, or ablated contexts."""
        return "ablated" if self.reference is None else "full"

    @property
    def n_families(self) -> int:
        """Number of families."""
        return len(self.family_labels)

    @property
    def family(self) -> IntArray:
        """(n,) code of the family."""
        return self.family_labels.codes

    @property
    def families(self) -> TextArray:
        """Names of the families, by code."""
        return self.family_labels.names

    @property
    def clusters(self) -> Labels:
        """The units of intervals and exact tests, by item."""
        if self.unit == "family":
            return self.family_labels
        return self.labels["source_family"]

    @property
    def cluster(self) -> IntArray:
        """(n,) code of the unit of each item, 0..F-1."""
        return self.clusters.codes

    @property
    def n_clusters(self) -> int:
        """Number of units, F."""
        return len(self.clusters)

    def count_clusters(self, rows: IntArray | BoolArray) -> int:
        """Return the number of units that some items form.

        Args:
            rows: rows of items, or (n,) whether an item counts.
        """
        # Rows of a mask first: an index that is a mask takes twice as long.
        counted = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return _count_distinct(self.cluster.take(counted), self.n_clusters)

    def over(self, unit: ClusterUnit) -> ScoredItems:
        """Return the items with other units of intervals and exact tests; pairs stay families.

        Args:
            unit: family or source_family.

        Raises:
            InputError: there are fewer than two source families.
        """
        items = self
        if unit != self.unit:
            items = self.once(("unit", unit), lambda: replace(self, unit=unit))
        if unit == "source_family" and items.n_clusters < 2:
            raise InputError(
                "--unit source_family: expected two or more source families, got "
                f"{items.n_clusters:,}; use --unit family"
            )
        return items

    @cached_property
    def correct(self) -> BoolArray:
        """(n,) whether the reference is predicted."""
        return np.asarray(self.predicted == self._references, dtype=np.bool_)

    @property
    def nll(self) -> FloatArray:
        """(n,) NLL in nats."""
        return self.values["nll_nats"]

    @property
    def view_tv(self) -> FloatArray:
        """(n,) mean TV over pairs of orders, uncalibrated; NaN for one view or one order."""
        return self._order_column("view_tv")

    @property
    def flipped(self) -> FloatArray:
        """(n,) 1 if the answer changes between views; NaN for one view or one order."""
        return self._order_column("flip_rate")

    @cached_property
    def pairs(self) -> metrics.PairIndex:
        """The complete pairs, in the order of their families; each repeat has its own."""
        if self.repeat is None:
            return metrics.pairs_of_codes(self.family, self.is_base, self.n_families)
        codes = self.family.astype(np.int64) * self.repeats + self.repeat
        pairs = metrics.pairs_of_codes(codes, self.is_base, self.n_families * self.repeats)
        return replace(pairs, incomplete_families=pairs.incomplete_families // self.repeats)

    @cached_property
    def pair_cluster(self) -> IntArray:
        """(P,) code of the unit of each complete pair, in the order of `pairs`."""
        return self.cluster.take(self.pairs.base)

    @cached_property
    def n_pair_clusters(self) -> int:
        """Number of units that the complete pairs form."""
        return _count_distinct(self.pair_cluster, self.n_clusters)

    @cached_property
    def pair_margins(self) -> PairMargins:
        """The margins of the complete pairs."""
        base = self.pairs.base
        values = metrics.pair_margin_nats(self.pairs, self.values[PAIR_MARGIN])
        finite = np.isfinite(values)
        if finite.all():
            return PairMargins(values, None, len(base), self.n_pair_clusters, None)
        rows = np.zeros(len(self), dtype=np.bool_)
        rows[base[finite]] = True
        counts = int(finite.sum()), self.count_clusters(base[finite])
        return PairMargins(values, finite, *counts, rows)

    @property
    def confident_errors(self) -> BoolArray:
        """(n,) whether the answer is wrong with a confidence of `CONFIDENT` or more."""
        return metrics.is_confident(self.confidence, CONFIDENT) & ~self.correct

    @cached_property
    def predictions(self) -> Predictions:
        """The scored views of the items.

        Raises:
            ValueError: the items were read from a file, without their views.
        """
        if self.views is None:
            raise ValueError("these items were read from a file; read the run for its views")
        return self.views if self._rows is None else self.views.taken(self._rows)

    @cached_property
    def log_probs(self) -> FloatArray:
        """(n, C) canonical log-probabilities under the decoding."""
        if self.calibrator is not None:
            raw = self.predictions.log_probs(self.decoding)
            return self.calibrator.apply(raw, self.predictions)
        return self.predictions.log_probs(self.decoding)

    @cached_property
    def confidence_bin(self) -> IntArray:
        """(n,) bin of ECE: 0 to `ece_bins` - 1, of equal width; 0 if it is unknown."""
        return metrics.bin_index(np.nan_to_num(self.confidence), self.ece_bins)

    @cached_property
    def score_items(self) -> ScoredItems:
        """The Score items."""
        kind = self.labels["kind"]
        # One comparison of codes: looking up every item takes five times as long.
        score = np.flatnonzero(kind.names == "score")
        return self.taken(np.flatnonzero(kind.codes == score[0]) if score.size else score)

    def once(self, key: Hashable, derive: Callable[[], Derived]) -> Derived:
        """Return what was derived from the items under this key; derived at the first call.

        It is kept as long as the items are, so it must not refer to them. Nothing is kept of items
        that were read from a file: they may be many.

        Args:
            key: all that it depends on, besides the items.
            derive: makes it.
        """
        if self.views is None:
            return derive()
        if key not in self._kept:
            self._kept[key] = derive()
        kept: Derived = self._kept[key]
        return kept

    def taken(self, rows: IntArray) -> ScoredItems:
        """Return the items of some rows, in their order, with new codes for their families."""
        return replace(
            self,
            family_labels=self.family_labels.taken(rows),
            labels={by: labels.taken(rows) for by, labels in self.labels.items()},
            is_base=self.is_base[rows],
            reference=None if self.reference is None else self.reference[rows],
            predicted=self.predicted[rows],
            confidence=self.confidence[rows],
            reordered=None if self.reordered is None else self.reordered[rows],
            values={name: values[rows] for name, values in self.values.items()},
            repeat=None if self.repeat is None else self.repeat[rows],
            _rows=rows if self._rows is None else self._rows[rows],
        )

    def with_views(self, k: int) -> ScoredItems:
        """Return the items as if the run had been scored with its first k views only.

        Raises:
            ValueError: the items were read from a file, without their views.
        """
        if k == self.k:
            return self
        return self.once(
            ("views", k), lambda: self._items_of_views(self.predictions.first_views(k))
        )

    def with_chosen_views(self, views: IntArray) -> ScoredItems:
        """Return the items as if the run had been scored with these views only.

        Args:
            views: (n, k) the views of each item.

        Raises:
            ValueError: the items were read from a file, without their views.
        """
        return self._items_of_views(self.predictions.chosen_views(views))

    def _items_of_views(self, views: Predictions) -> ScoredItems:
        items = ScoredItems.of(views, self.decoding, self.calibrator).over(self.unit)
        items = replace(items, ece_bins=self.ece_bins)
        if self.repeat is None:
            return items
        return replace(items, repeats=self.repeats, repeat=self.repeat)

    def with_repeats(self, number: int) -> ScoredItems:
        """Return the items with a number of rows each, to compare runs row by row.

        Repeats, or the one row of an item, are used several times. Means do not change, and
        families stay the unit.

        Args:
            number: rows per item, a multiple of the rows that an item has.
        """
        now = self.repeats if self.repeat is not None else 1
        if now == number:
            return self
        rows = np.arange(len(self)).reshape(-1, now)
        repeated = self.taken(np.tile(rows, number // now).ravel())
        return replace(repeated, repeats=number)._with_repeats()

    def _with_repeats(self) -> ScoredItems:
        numbers = np.tile(np.arange(self.repeats), len(self) // self.repeats)
        return replace(self, repeat=numbers)

    def with_sorted_families(self) -> ScoredItems:
        """Return a copy with families numbered by name: resamples do not depend on the rows."""
        return self.once(
            "sorted families", lambda: replace(self, family_labels=self.family_labels.sorted())
        )

    def with_values(self, name: str, values: npt.NDArray[Any]) -> ScoredItems:
        """Return the items with other per-item values of one metric."""
        return replace(self, values={**self.values, name: values})

    def grouped(self, by: GroupBy, bins: Bins | None = None) -> ScoredItems:
        """Return the items with the groups of a further column; of others, they have them.

        Args:
            by: kind, domain, source_family, or a further column of the records.
            bins: bins of its numbers.

        Raises:
            InputError: there is no such column, or it needs bins.
        """
        if by in self.labels:
            return self

        def with_labels() -> ScoredItems:
            column = find_column(self.predictions.metadata, by)
            return replace(self, labels={**self.labels, by: column_labels(column, by, bins)})

        return self.once(("grouped", by, bins), with_labels)

    def rows_by_group(self, by: GroupBy) -> dict[str, IntArray]:
        """Return the rows of all items, then of each group, by name; see `grouped`."""
        return {"all": np.arange(len(self))} | self.labels[by].rows_by_name()

    def _order_column(self, name: str) -> FloatArray:
        values = self.values[name]
        return values if self.reordered is None else np.where(self.reordered, values, np.nan)

    @property
    def _references(self) -> IntArray:
        if self.reference is None:
            raise ValueError("ablated contexts have no reference")
        return self.reference


def read_items(
    path: Path,
    decoding: Decoding,
    *,
    by: GroupBy = "kind",
    bins: Bins | None = None,
    unit: ClusterUnit = "family",
    calibrator: Calibrator | None = None,
    letters: bool = True,
    known: Known = "probabilities",
    repeats: bool = False,
) -> ScoredItems:
    """Score the items of a run from its file in slices, without keeping its rows.

    Args:
        path: `predictions.parquet` of a run with references; the K views of an item are next to
            each other, in order, as `score` writes them.
        decoding: single or ensemble.
        by: grouping of the items, in addition to their kind.
        bins: bins of the numbers of a further column.
        unit: units of intervals and exact tests.
        calibrator: temperatures to divide by; None leaves the distributions raw.
        letters: also read the letter orders and answer mass, and check that ids are unique. The
            notes and the letter test need these data.
        known: what is known of every item.
        repeats: whether the views are repeats of one order.

    Returns:
        The same as `ScoredItems.of`, without the views.

    Raises:
        RunError: the file cannot be read, lacks a column, has no item, has rows that are not a run,
            repeats an id, or has an item without a distribution (see `metrics.item_blocks`).
    """
    _check_known(decoding, calibrator, known)
    scan = pl.scan_parquet(path, glob=False)  # a folder may be called "[new]"
    k, rows = _views_and_rows(scan, path)
    by_repeat = repeats and decoding == "single" and k > 1
    per_item, k = (k, 1) if by_repeat else (1, k)
    groupings = _groupings_read(by, unit)
    scoring = _Scoring(decoding, calibrator, letters=letters)
    columns_read = [
        *_columns_read(scoring, several_views=k > 1),
        *(groupings if k > 1 else ["kind"]),
    ]
    optional = ["accepted", *(["view_tv"] if k * per_item == 1 else [])]
    by_question = calibrator is not None and calibrator.weights.questions is not None
    optional += [PREFIX + QUESTION] if by_question else []
    columns_read += [name for name in optional if name in scan.collect_schema()]
    frames = scan.select(list(dict.fromkeys(columns_read)))
    size = _SLICE_ROWS if _SLICE_ROWS % (k * per_item) == 0 else _SLICE_ROWS * k * per_item
    columns, values = _Columns(rows // k), _Columns(rows // k)
    family, is_base, others = _read_families(scan, path, k, per_item)

    def scored(start: int) -> _Part:
        frame = collected(path, frames.slice(start, size))
        try:
            at = slice(start // k, (start + len(frame)) // k)
            other = None if others is None else others[at]
            views = _slice_of_frame(frame, k, is_base[at], other, letters=letters)
            return _score(views, scoring, start // k, columns, values)
        except ValueError as error:
            message = f"{path}, rows {start:,} to {start + len(frame) - 1:,}: {error}"
            raise RunError(message) from None

    parts = []
    # numpy uses one core: two threads take about a third less of the time of point metrics.
    with ThreadPoolExecutor(2) as pool, step("Reading items", rows // k, "items") as read:
        for part in pool.map(scored, range(0, rows, size)):
            parts.append(part)
            read.done = min(len(parts) * size, rows) // k
    if letters:
        ids = collected(path, scan.select(pl.col("id").hash()).gather_every(k * per_item))
        _refuse_repeated_ids(ids["id"].to_numpy(), path)
    labels = {
        name: text_labels(_read_column(scan, path, name, k).fill_null("")) for name in groupings
    }
    if by not in OWN_GROUPS:
        labels[by] = column_labels(_metadata_column(scan, path, by, k), by, bins)
    items = _join_slices(parts, columns, values, family, labels, scoring, k)
    items = _as_known(items, known)
    if repeats and max(k, per_item) > 1:
        items = replace(items, repeats=max(k, per_item))
    items = items._with_repeats() if by_repeat else items
    return items.over(unit)


def _read_families(
    scan: pl.LazyFrame, path: Path, k: int, rows_per_item: int
) -> tuple[Labels, BoolArray, IntArray | None]:
    """Return the items' families, which are bases, and the reference of the other of each pair.

    They are not read in slices: the members of a family may be far apart.
    """
    names = ["family", "variant", "reference", "n_choices"]
    if "accepted" in scan.collect_schema():  # the model says which right answer is the reference
        names += ["accepted", "logits"]
    first = collected(path, scan.select(names).gather_every(k))
    families = family_labels(first["family"].fill_null(""))
    is_base = (first["variant"] == "base").fill_null(value=False).to_numpy()
    try:
        check_values(first, 1)
    except RunError:  # the slice with the wrong value says where it is
        return families, is_base, None
    reference = right_answers(first.with_columns(pl.col("reference").fill_null(0)))[1]
    return families, is_base, _other_references(families, is_base, reference, rows_per_item)


def _metadata_column(scan: pl.LazyFrame, path: Path, by: GroupBy, k: int) -> pl.Series:
    """Return a further column of the items of a run, whose views are next to each other."""
    names = [name for name in scan.collect_schema().names() if name.startswith(PREFIX)]
    if PREFIX + by not in names:
        schema = {name.removeprefix(PREFIX): pl.String() for name in names}
        return find_column(pl.DataFrame(schema=schema), by, str(path.parent))
    return _read_column(scan, path, PREFIX + by, k)


def _read_column(scan: pl.LazyFrame, path: Path, name: str, k: int) -> pl.Series:
    return collected(path, scan.select(name).gather_every(k)).to_series()


def _columns_read(scoring: _Scoring, *, several_views: bool) -> list[str]:
    """Return the columns that the scores of a slice need, without those of groups."""
    columns = ["reference", "n_choices", "logits", "answer_mass"]
    columns += ["family", "variant"] if several_views else []  # the same in all views of an item
    columns += ["id", "code_order"] if several_views or scoring.letters else []
    return columns + (["prompt_tokens"] if scoring.calibrator is not None else [])


def _groupings_read(by: GroupBy, unit: ClusterUnit) -> tuple[GroupBy, ...]:
    """Return the columns of groups that are read with the rows; further columns are joined."""
    units = ["source_family"] if unit == "source_family" else []
    return tuple(dict.fromkeys(["kind", *([by] if by in OWN_GROUPS else []), *units]))


def _check_known(decoding: Decoding, calibrator: Calibrator | None, known: Known) -> None:
    """Refuse what needs probabilities.

    Raises:
        InputError: they are not known, and are to be combined or calibrated.
    """
    if known != "probabilities" and (decoding == "ensemble" or calibrator is not None):
        what = "an ensemble" if decoding == "ensemble" else "a calibrator"
        raise missing_probabilities(what, known)


def _as_known(items: ScoredItems, known: Known) -> ScoredItems:
    """Return items with what is known of them; values of metrics that need more are NaN."""
    if known == "probabilities":
        return items
    item_values = {
        name: values if find_metric(name).defined_for(known) else _all_nan(len(items))
        for name, values in items.values.items()
    }
    facts = replace(items.facts, smallest_probability=math.nan, logit_gap=np.empty(0))
    confidence = _all_nan(len(items)) if known in UNSURE else items.confidence
    return replace(items, confidence=confidence, values=item_values, facts=facts, known=known)


def streamable_items(path: Path) -> int:
    """Count the items of a run whose file can be read in slices.

    Args:
        path: `predictions.parquet` of a run.

    Returns:
        Number of items. It is 0 if the file must be read in one piece: the items are ablated
        contexts, or their views are not next to each other (as in some imports), or the file is
        damaged (`read_any_run` then raises the error).
    """
    scan = pl.scan_parquet(path, glob=False)
    try:
        views = _view_numbers(scan, path)
        variants = collected(path, scan.select("variant").head(1))["variant"]
    except RunError:
        return 0
    k = int(views.max(initial=0)) + 1
    ablated = "ablated" in variants.to_list()  # a damaged column may have any type
    return 0 if ablated or not _in_order(views, k) else views.size // k


def pair_partners(predictions: Predictions) -> IntArray:
    """Return (n,) the row of the other member of each item's pair; -1 without a complete pair."""
    pairs = metrics.pair_rows(predictions.family, predictions.variant == "base")
    other = np.full(len(predictions), -1, dtype=np.int64)
    other[pairs.base], other[pairs.counterfactual] = pairs.counterfactual, pairs.base
    return other


@dataclass(frozen=True, eq=False)
class _ViewSlice:
    """Some items with all their views, in the layout of the run's file.

    Attributes:
        k: number of views per item.
        n_choices: (n,) number of answers.
        logits: logits of all views one after another, without padding.
        codes: known letter orders of all views one after another.
        code_lengths: (n * k,) length of each letter order, 0 if unknown; empty if not read.
        distinct: (n, k) False for a view whose order an earlier view of the item has.
        kind: (n,) field kind.
        is_base: (n,) whether the item is the base of its pair.
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
    is_base: BoolArray
    reference: IntArray | None
    answers: IntArray | None
    prompt_tokens: FloatArray | None
    question: TextArray | None
    answer_mass: FloatArray | None
    other_reference: IntArray | None = None
    view_tv: FloatArray | None = None

    @property
    def several_orders(self) -> BoolArray:
        """(n,) False for items whose K > 1 views have one order; unknown orders count as others.

        Of a log that states view TV, it is False for the items without one.
        """
        if self.view_tv is not None:
            return ~np.isnan(self.view_tv)
        return np.asarray((self.distinct.sum(axis=1) > 1) | (self.k == 1), dtype=np.bool_)


@dataclass(frozen=True)
class _Scoring:
    """Settings for scoring slices."""

    decoding: Decoding
    calibrator: Calibrator | None
    letters: bool = True


@dataclass(frozen=True, eq=False)
class _Columns:
    """Columns of n items, which slices fill: joining the columns of slices would copy them all.

    Attributes:
        n: number of items.
        found: by name, the columns that a slice has.
    """

    n: int
    by_name: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, name: str, rows: IntArray | slice, values: npt.NDArray[Any]) -> None:
        """Write the values of some items."""
        with self._lock:
            if name not in self.by_name:
                self.by_name[name] = np.empty(self.n, dtype=values.dtype)
        self.by_name[name][rows] = values

    def leave_out(self, parts: Sequence[_Part]) -> None:
        """Write NaN where a slice has no such values."""
        for name, column in self.by_name.items():
            for part in parts:
                if name not in part.metrics:
                    column[part.rows] = np.nan


@dataclass(frozen=True, eq=False)
class _Part:
    """Results of one slice, in addition to columns.

    Attributes:
        rows: its items.
        metrics: names of the metrics that its items have values of.
        slots: (m, K) letter positions of the answers of some items.
        of_item: (m,) rows of these items.
        weight: (m,) share of each letter position in its view.
        answer_mass: of all views.
        smallest_log_prob: of all views.
    """

    rows: slice
    metrics: frozenset[str]
    slots: npt.NDArray[np.int16]
    of_item: IntArray
    weight: FloatArray
    answer_mass: npt.NDArray[np.floating]
    smallest_log_prob: float


def _slice_of_views(views: Predictions, rows_per_item: int) -> _ViewSlice:
    n, k, width = views.logits.shape
    is_base = views.variant == "base"
    used = np.arange(width) < views.n_choices[:, None, None]
    recorded = views.code_order >= 0
    return _ViewSlice(
        k=k,
        n_choices=views.n_choices,
        logits=views.logits[np.broadcast_to(used, (n, k, width))],
        codes=views.code_order[recorded],
        code_lengths=recorded.sum(axis=2).ravel(),
        distinct=distinct_orders(views.code_order),
        kind=views.kind,
        is_base=is_base,
        reference=views.references,
        answers=views.answers,
        prompt_tokens=views.prompt_tokens,
        question=views.question,
        answer_mass=views.answer_mass,
        other_reference=None
        if views.references is None
        else _other_references(Labels.of(views.family), is_base, views.references, rows_per_item),
        view_tv=views.view_tv,
    )


def _slice_of_frame(
    frame: pl.DataFrame,
    k: int,
    is_base: BoolArray,
    other_reference: IntArray | None,
    *,
    letters: bool,
) -> _ViewSlice:
    if frame["reference"].null_count():
        message = f"{frame['reference'].null_count():,} of {len(frame):,} rows have no reference"
        raise RunError(message)
    check_values(frame, k)
    first = frame.gather_every(k)
    lengths, codes = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if "code_order" in frame.columns:
        lengths = frame["code_order"].list.len().fill_null(0).to_numpy().astype(np.int64)
        codes = frame["code_order"].explode(empty_as_null=False).drop_nulls().to_numpy()
    distinct = _distinct(codes, lengths, k) if k > 1 else np.ones((len(first), 1), dtype=np.bool_)
    if not letters:
        lengths, codes = lengths[:0], codes[:0]
    tokens = None
    if "prompt_tokens" in frame.columns:
        tokens = first["prompt_tokens"].cast(pl.Float64).fill_null(math.nan).to_numpy()
    mass = None
    if "answer_mass" in frame.columns:
        masses = frame["answer_mass"].cast(pl.Float64).fill_null(math.nan)
        mass = masses.to_numpy().reshape(-1, k)
    return _ViewSlice(
        k=k,
        n_choices=first["n_choices"].to_numpy().astype(np.int64),
        logits=frame["logits"].explode(empty_as_null=False).to_numpy(),
        codes=codes,
        code_lengths=lengths,
        distinct=distinct,
        kind=first["kind"],
        is_base=is_base,
        reference=right_answers(first)[1],
        answers=None,
        prompt_tokens=tokens,
        question=question_texts(first[PREFIX + QUESTION])
        if PREFIX + QUESTION in frame.columns
        else None,
        answer_mass=mass,
        other_reference=other_reference,
        view_tv=first["view_tv"].cast(pl.Float64).fill_null(math.nan).to_numpy()
        if "view_tv" in frame.columns
        else None,
    )


def _other_references(
    families: Labels, is_base: BoolArray, reference: IntArray, rows_per_item: int
) -> IntArray | None:
    """Return (n,) the reference of the other member of each pair, -1 without one; None if no pair.

    Args:
        families: of the rows.
        is_base: (n,) whether a row is of the base of its pair.
        reference: (n,) canonical index of the correct answer.
        rows_per_item: number of repeats that are rows of their own; repeats have their own pairs.
    """
    codes = families.codes.astype(np.int64, copy=False)
    if rows_per_item > 1:
        codes = codes * rows_per_item + np.arange(codes.size) % rows_per_item
    pairs = metrics.pairs_of_codes(codes, is_base, len(families) * rows_per_item)
    if not len(pairs):
        return None
    other: IntArray = np.full(codes.size, -1, dtype=np.int64)
    other[pairs.base] = reference[pairs.counterfactual]
    other[pairs.counterfactual] = reference[pairs.base]
    return other


def _distinct(codes: npt.NDArray[np.integer], lengths: IntArray, k: int) -> BoolArray:
    """Return (n, k) False for a view whose order an earlier view of the item has."""
    slots = np.arange(lengths.max(initial=1))
    orders = np.full((lengths.size, slots.size), -1, dtype=codes.dtype)
    orders[slots < lengths[:, None]] = codes
    return distinct_orders(orders.reshape(-1, k, slots.size))


def _score(
    views: _ViewSlice, scoring: _Scoring, start: int, columns: _Columns, values: _Columns
) -> _Part:
    """Score a slice of views; no other function makes columns of items.

    Args:
        views: the items of the slice.
        scoring: how they are scored.
        start: row of the first of them.
        columns: where their predictions, confidences and labels are written.
        values: where the per-item values of metrics are written, by name of the metric.
    """
    n, k = len(views.n_choices), views.k
    functions = _item_functions(views)
    picks = np.empty((n, k) if scoring.letters else (0, k), dtype=np.int64)
    ties: list[tuple[IntArray, IntArray]] = []
    smallest = 0.0
    with step("Scoring items", n, "items") as scored:
        for block in _blocks(views, scoring):
            rows = start + block.rows
            columns.put("predicted", rows, block.predicted.astype(np.int16))
            columns.put("confidence", rows, block.confidence)
            for name, function in functions.items():
                values.put(name, rows, np.asarray(function(block)))
                scored.done += len(rows) / len(functions)
            if scoring.letters:
                columns.put("logit_gap", rows, block.logit_gap)
                picks[block.rows] = block.predicted_by_view
                if block.tied_by_view.shape[2] > 1:
                    at_row, view, tied = np.nonzero(block.tied_by_view[:, :, 1:] >= 0)
                    answers = block.tied_by_view[at_row, view, tied + 1]
                    ties.append((block.rows[at_row] * k + view, answers))
                smallest = min(smallest, block.smallest_log_prob)
    reordered = views.several_orders
    if views.view_tv is not None:
        values.put("view_tv", slice(start, start + n), views.view_tv)
    if k > 1 or views.view_tv is not None:
        columns.put("reordered", slice(start, start + n), reordered)
    columns.put("is_base", slice(start, start + n), views.is_base)
    if views.reference is not None:
        columns.put("reference", slice(start, start + n), views.reference.astype(np.int16))
    of_item, slots, weight = _slots(views, picks, ties, reordered)
    return _Part(
        rows=slice(start, start + n),
        metrics=frozenset(functions) | ({"view_tv"} if views.view_tv is not None else set()),
        slots=slots,
        of_item=start + of_item,
        weight=weight,
        answer_mass=np.empty(0) if views.answer_mass is None else views.answer_mass.ravel(),
        smallest_log_prob=smallest,
    )


def _item_functions(views: _ViewSlice) -> dict[str, BlockFunction]:
    """Return the per-item functions that are defined on a slice."""
    contexts: Contexts = "ablated" if views.reference is None else "full"
    has_score = bool((views.kind == "score").any())
    has_pairs = views.other_reference is not None
    return {
        metric.name: metric.per_item
        for metric in metrics_for(contexts)
        if metric.per_item is not None
        and (views.k > 1 or "several views" not in metric.needs)
        and (has_score or "score items" not in metric.needs)
        and (has_pairs or "pairs" not in metric.needs)
    }


def _blocks(views: _ViewSlice, scoring: _Scoring) -> Any:
    decode = None
    if scoring.calibrator is not None:
        # Those of all items: messages of a block would name its own rows.
        temperature = scoring.calibrator.temperatures(views)

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
        ensemble=scoring.decoding == "ensemble",
        decode=decode,
    )


def counted_views(distinct: BoolArray) -> BoolArray:
    """Return which views count for view TV: the first of each order of an item.

    An item of one order has no view TV (`ScoredItems.view_tv`). All of its views count, so that the
    value of a gate is then how far its repeats differ.

    Args:
        distinct: (n, K) False for a view whose order an earlier view of the item has.

    Examples:
        >>> counted_views(np.array([[True, True, False], [True, False, False]]))
        array([[ True,  True, False],
               [ True,  True,  True]])
    """
    one_order = distinct.sum(axis=1) == 1
    return np.asarray(distinct | one_order[:, None], dtype=np.bool_)


def _slots(
    views: _ViewSlice,
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


def _join_slices(
    parts: Sequence[_Part],
    columns: _Columns,
    values: _Columns,
    family: Labels,
    labels: Mapping[GroupBy, Labels],
    scoring: _Scoring,
    k: int,
) -> ScoredItems:
    """Return the items of all slices."""
    values.leave_out(parts)
    item_columns, n = columns.by_name, columns.n
    reordered = item_columns.get("reordered")
    contexts: Contexts = "full" if "reference" in item_columns else "ablated"
    by_metric = {
        metric.name: values.by_name.get(metric.name, _all_nan(n))
        for metric in metrics_for(contexts)
        if metric.per_item is not None
    }
    for name in by_metric:
        # If the views of one item rule out all answers, the ensemble of the run is undefined.
        if "ensemble" in find_metric(name).needs and np.isnan(by_metric[name]).any():
            by_metric[name] = _all_nan(n)
    return ScoredItems(
        decoding=scoring.decoding,
        calibrator=scoring.calibrator,
        k=k,
        family_labels=family,
        labels=labels,
        is_base=item_columns["is_base"],
        reference=item_columns.get("reference"),
        predicted=item_columns.get("predicted", np.empty(0, dtype=np.int16)),
        confidence=item_columns.get("confidence", np.empty(0)),
        values=by_metric,
        reordered=None if reordered is None or reordered.all() else reordered,
        facts=_facts(parts, item_columns.get("logit_gap", np.empty(0))),
    )


def _count_distinct(codes: IntArray, number: int) -> int:
    """Count the codes that occur, of 0 to number - 1.

    A table of all codes: np.unique takes longer than all metrics of millions of items.
    """
    present = np.zeros(number, dtype=np.bool_)
    present[codes] = True
    return int(np.count_nonzero(present))


def _all_nan(n: int) -> FloatArray:
    """Return (n,) NaN in the memory of one number: most runs lack some metrics."""
    return np.broadcast_to(np.nan, n)


def _facts(parts: Sequence[_Part], logit_gap: FloatArray) -> ViewFacts:
    mass = np.concatenate([part.answer_mass for part in parts])
    recorded = mass[~np.isnan(mass)]
    picked, held = np.concatenate([part.slots for part in parts], axis=1)
    weight = np.concatenate([part.weight for part in parts])
    return ViewFacts(
        picked=picked,
        held=held,
        of_item=np.concatenate([part.of_item for part in parts]),
        weight=weight if (weight < 1).any() else None,
        answer_mass=float(recorded.mean()) if recorded.size else math.nan,
        # Imports may hold logits whose probabilities are below the smallest float64.
        smallest_probability=max(
            float(np.exp(min(part.smallest_log_prob for part in parts))), math.ulp(0.0)
        ),
        logit_gap=logit_gap,
    )


def _refuse_repeated_ids(hashes: npt.NDArray[np.uint64], path: Path) -> None:
    repeated = count_repeats(hashes)
    if repeated:
        raise RunError(f"{path}: expected one item per id, got {repeated:,} ids more than once")


def _in_order(views: npt.NDArray[np.integer], k: int) -> bool:
    return views.size % k == 0 and bool((views.reshape(-1, k) == np.arange(k)).all())


def _view_numbers(scan: pl.LazyFrame, path: Path) -> npt.NDArray[np.integer]:
    """Return the column `view`, after checking that every row has one."""
    views = collected(path, scan.select("view"))["view"]
    if views.dtype == pl.Null or views.null_count():
        raise RunError(f"{path}: view: expected a value in every row, got null")
    return views.to_numpy()


def _views_and_rows(scan: pl.LazyFrame, path: Path) -> tuple[int, int]:
    """Return K and the number of rows, after checking columns and the order of the views."""
    try:
        check_columns(collected(path, scan.head(0)))
    except RunError as error:
        raise RunError(f"{path}: {error}") from None
    views = _view_numbers(scan, path)
    k = int(views.max(initial=0)) + 1
    if not views.size:
        raise RunError(f"{path}: the run holds no item")
    if not _in_order(views, k):
        raise RunError(f"{path}: expected the {k} views of each item next to each other, in order")
    return k, views.size
