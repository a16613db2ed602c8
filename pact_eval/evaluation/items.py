"""Scored items: the columns of numbers from which every metric of a run is computed.

`ScoredItems.of` takes the views of a run in memory. `read_items` reads the file of a run in slices
and keeps only the columns (about 70 bytes per item). `ItemScores` makes the columns of both, and is
the door: what a run does not know is NaN in them. `report`, `compare`, tables and figures use the
result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval import metrics
from pact_eval._choices import OWN_GROUPS, Bins, ClusterUnit, Decoding, GroupBy
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.calibration.temperatures import Calibrator
from pact_eval.errors import InputError, RunError, missing_probabilities
from pact_eval.evaluation.item_scores import (
    NO_FACTS,
    Facts,
    ItemScores,
    ViewFacts,
    item_functions,
    slice_of_rows,
    slice_of_views,
)
from pact_eval.evaluation.labels import (
    Labels,
    column_labels,
    count_repeats,
    family_labels,
    find_column,
    text_labels,
)
from pact_eval.evaluation.registry import Contexts
from pact_eval.progress import step
from pact_eval.runs.identity import QUESTION
from pact_eval.runs.predictions import Predictions, right_answers
from pact_eval.runs.provenance import Known
from pact_eval.runs.rows import PREFIX, check_columns, check_values, collected

# Rows of a slice: as many as polars writes into a row group, so no row is decoded twice.
_SLICE_ROWS: Final = 2**18

Derived = TypeVar("Derived")


@dataclass(frozen=True, eq=False)
class ScoredItems:
    """The items of a run under one decoding. What is not known of them is NaN.

    Attributes:
        decoding: single or ensemble.
        calibrator: temperatures that were applied; None for raw distributions.
        k: number of views per row: 1 if the repeats of an item are rows.
        families: the family of each item.
        labels: kind, domain and source family; only the requested ones if read from a file.
        is_base: (n,) whether the item is the base of its pair.
        reference: (n,) canonical index of the correct answer; None for ablated contexts.
        predicted: (n,) canonical index of the most probable answer.
        confidence: (n,) probability of that answer.
        values: by name of a registered metric, (n,) its per-item values. Those of several views are
            NaN for items that are not `reordered`.
        facts: facts on the views of all items of the run.
        reordered: (n,) whether the views of an item show its answers in more than one order; None
            if those of all items do, or may, because their orders are unknown.
        views: the scored views in memory; None for items read from a file.
        unit: units of intervals and exact tests: families, or source families.
        known: what is known of every item.
        repeats: number of repeats per item; 1 if the views are not repeats. Under the decoding
            single, each is a row, next to the others, and every mean is a mean over repeats.
        ece_bins: number of bins of ECE.
    """

    decoding: Decoding
    calibrator: Calibrator | None
    k: int
    families: Labels
    labels: Mapping[GroupBy, Labels]
    is_base: BoolArray
    reference: IntArray | None
    predicted: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int16))
    confidence: FloatArray = field(default_factory=lambda: np.empty(0))
    values: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    facts: ViewFacts = NO_FACTS
    reordered: BoolArray | None = None
    views: Predictions | None = None
    unit: ClusterUnit = "family"
    known: Known = "probabilities"
    repeats: int = 1
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
        known, repeats = predictions.known, predictions.k if predictions.repeats else 1
        _check_known(decoding, calibrator, known)
        as_rows = repeats > 1 and decoding == "single"
        views = predictions.repeats_as_items() if as_rows else predictions
        items = cls(
            decoding=decoding,
            calibrator=calibrator,
            k=views.k,
            families=Labels.of(views.family),
            labels={by: Labels.of(getattr(views, by)) for by in OWN_GROUPS},
            is_base=views.variant == "base",
            reference=None if views.references is None else views.references.astype(np.int16),
            views=views,
            known=known,
            repeats=repeats,
        )
        in_memory = slice_of_views(views, _other_references(items))
        return _scored(items, lambda scores: [scores.fill(in_memory, 0)])

    def __len__(self) -> int:
        return len(self.is_base)

    @property
    def asked(self) -> int:
        """Number of rows of each item: its repeats, or 1 if they are decoded together."""
        return self.repeats if self.decoding == "single" else 1

    @property
    def n_items(self) -> int:
        """Number of items, however often each was asked."""
        return len(self) // self.asked

    @property
    def contexts(self) -> Contexts:
        """Full contexts, with references, or ablated contexts."""
        return "ablated" if self.reference is None else "full"

    @property
    def clusters(self) -> Labels:
        """The units of intervals and exact tests, by item."""
        if self.unit == "family":
            return self.families
        return self.labels["source_family"]

    @property
    def cluster(self) -> IntArray:
        """(n,) code of the unit of each item, 0..F-1."""
        return self.clusters.codes

    @property
    def n_clusters(self) -> int:
        """Number of units, F."""
        return len(self.clusters)

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
        if self.reference is None:
            raise ValueError("ablated contexts have no reference")
        return np.asarray(self.predicted == self.reference, dtype=np.bool_)

    @cached_property
    def pairs(self) -> metrics.PairIndex:
        """The complete pairs, in the order of their families; each repeat has its own."""
        codes = self.families.codes.astype(np.int64, copy=False)
        if self.asked > 1:
            codes = codes * self.asked + np.arange(len(self)) % self.asked
        pairs = metrics.pairs_of_codes(codes, self.is_base, len(self.families) * self.asked)
        return replace(pairs, incomplete_families=pairs.incomplete_families // self.asked)

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
        raw = self.predictions.log_probs(self.decoding)
        return raw if self.calibrator is None else self.calibrator.apply(raw, self.predictions)

    @cached_property
    def score_items(self) -> ScoredItems:
        """The Score items."""
        return self.taken(np.flatnonzero(self.labels["kind"].has("score")))

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
        """Return the items of some rows, in their order, with new codes for their families.

        Args:
            rows: all rows of each item, next to each other.
        """
        return replace(
            self,
            families=self.families.taken(rows),
            labels={by: labels.taken(rows) for by, labels in self.labels.items()},
            is_base=self.is_base[rows],
            reference=None if self.reference is None else self.reference[rows],
            predicted=self.predicted[rows],
            confidence=self.confidence[rows],
            reordered=None if self.reordered is None else self.reordered[rows],
            values={name: values[rows] for name, values in self.values.items()},
            _rows=rows if self._rows is None else self._rows[rows],
        )

    def with_views(self, views: int | IntArray) -> ScoredItems:
        """Return the items as if the run had been scored with some of its views only.

        Args:
            views: how many of the first views, or (n, k) the views of each item.

        Raises:
            ValueError: the items were read from a file, without their views.
        """

        def scored() -> ScoredItems:
            some = self.predictions.with_views(views)
            items = ScoredItems.of(some, self.decoding, self.calibrator).over(self.unit)
            repeats = self.repeats if self.asked > 1 else items.repeats
            return replace(items, ece_bins=self.ece_bins, repeats=repeats)

        if not isinstance(views, int):
            return scored()
        return self if views == self.k else self.once(("views", views), scored)

    def with_repeats(self, number: int) -> ScoredItems:
        """Return the items with a number of rows each, to compare runs row by row.

        Repeats, or the one row of an item, are used several times. Means do not change, and
        families stay the unit.

        Args:
            number: rows per item, a multiple of the rows that an item has.
        """
        if self.asked == number:
            return self
        rows = np.arange(len(self)).reshape(-1, self.asked)
        repeated = self.taken(np.tile(rows, number // self.asked).ravel())
        return replace(repeated, repeats=number)

    def with_sorted_families(self) -> ScoredItems:
        """Return a copy with families numbered by name: resamples do not depend on the rows."""
        return self.once("sorted families", lambda: replace(self, families=self.families.sorted()))

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


def _other_references(items: ScoredItems) -> IntArray | None:
    """Return (n,) the reference of the other member of each pair, -1 without one; None if no pair.

    Args:
        items: that need not be scored.
    """
    pairs = items.pairs
    if items.reference is None or not len(pairs):
        return None
    other: IntArray = np.full(len(items), -1, dtype=np.int64)
    other[pairs.base] = items.reference[pairs.counterfactual]
    other[pairs.counterfactual] = items.reference[pairs.base]
    return other


def _scored(
    items: ScoredItems, fill: Callable[[ItemScores], Sequence[Facts]], *, letters: bool = True
) -> ScoredItems:
    """Return items with their scores.

    Args:
        items: without scores.
        fill: fills the columns, and returns the facts of its slices.
        letters: whether they have what the test of letters needs.
    """
    functions = item_functions(
        items.contexts,
        items.k,
        score_items="score" in items.labels["kind"].names,
        pairs=len(items.pairs) > 0,
    )
    scores = ItemScores(len(items), items.decoding, items.calibrator, functions, letters)
    facts = scores.facts(fill(scores), items.known)
    return replace(items, facts=facts, **scores.columns_of(items.contexts, items.known))


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
    views = _check_views(scan, path)
    k = 1 if repeats and decoding == "single" else views
    families, is_base, reference = _read_families(scan, path, k)
    labels = _read_labels(scan, path, k, by, bins, unit)
    items = ScoredItems(
        decoding=decoding,
        calibrator=calibrator,
        k=k,
        families=families,
        labels=labels,
        is_base=is_base,
        reference=reference,
        known=known,
        repeats=views if repeats else 1,
    )
    columns = _columns_read(items, scan.collect_schema(), letters=letters)
    fill = partial(_fill_slices, items, scan.select(columns), path)
    items = _scored(items, fill, letters=letters)
    if letters:
        ids = collected(path, scan.select(pl.col("id").hash()).gather_every(views))["id"]
        repeated = count_repeats(ids.to_numpy())
        if repeated:
            raise RunError(f"{path}: expected one item per id, got {repeated:,} ids more than once")
    return items.over(unit)


def _fill_slices(
    items: ScoredItems, frames: pl.LazyFrame, path: Path, scores: ItemScores
) -> Sequence[Facts]:
    """Fill the scores of the items of a file, and return the facts of its slices."""
    k, rows, other = items.k, len(items) * items.k, _other_references(items)
    views = k * items.asked  # of an item
    size = _SLICE_ROWS if _SLICE_ROWS % views == 0 else _SLICE_ROWS * views

    def fill(start: int) -> Facts:
        frame = collected(path, frames.slice(start, size))
        at = slice(start // k, (start + len(frame)) // k)
        references = (None if column is None else column[at] for column in (items.reference, other))
        try:
            of_slice = slice_of_rows(frame, k, *references, letters=scores.letters)
            return scores.fill(of_slice, at.start)
        except ValueError as error:
            message = f"{path}, rows {start:,} to {start + len(frame) - 1:,}: {error}"
            raise RunError(message) from None

    facts = []
    # numpy uses one core: two threads take about a third less of the time of point metrics.
    with ThreadPoolExecutor(2) as pool, step("Reading items", len(items), "items") as read:
        for of_slice in pool.map(fill, range(0, rows, size)):
            facts.append(of_slice)
            read.done = min(len(facts) * size, rows) // k
    return facts


def _read_families(
    scan: pl.LazyFrame, path: Path, k: int
) -> tuple[Labels, BoolArray, IntArray | None]:
    """Return families, which rows are bases, and references; None if some are no answers.

    They are not read in slices: the members of a family may be far apart.
    """
    names = ["family", "variant", "reference", "n_choices"]
    if "accepted" in scan.collect_schema():  # the model says which right answer is the reference
        names += ["accepted", "logits"]
    first = collected(path, scan.select(names).gather_every(k))
    families = family_labels(first["family"].fill_null(""))
    is_base = (first["variant"] == "base").fill_null(value=False).to_numpy()
    reference = None
    with contextlib.suppress(RunError):  # the slice with the wrong value says where it is
        check_values(first, 1)
        reference = right_answers(first.with_columns(pl.col("reference").fill_null(0)))[1]
    return families, is_base, None if reference is None else reference.astype(np.int16)


def _read_labels(
    scan: pl.LazyFrame, path: Path, k: int, by: GroupBy, bins: Bins | None, unit: ClusterUnit
) -> dict[GroupBy, Labels]:
    """Return the labels of kinds, of the units of intervals, and of the grouping."""
    own = ["kind", *([by] if by in OWN_GROUPS else []), *([unit] if unit != "family" else [])]
    labels: dict[GroupBy, Labels] = {
        name: text_labels(_read_column(scan, path, name, k).fill_null("")) for name in own
    }
    if by not in labels:
        labels[by] = column_labels(_metadata_column(scan, path, by, k), by, bins)
    return labels


def _columns_read(items: ScoredItems, schema: pl.Schema, *, letters: bool) -> list[str]:
    """Return the columns that the scores of a slice need, and those that are checked with them."""
    columns = ["kind", "reference", "n_choices", "logits", "answer_mass"]
    if items.k > 1:  # the same in all views of an item
        columns += ["family", "variant", *(name for name in items.labels if name in OWN_GROUPS)]
    columns += ["id", "code_order"] if items.k > 1 or letters else []
    columns += ["prompt_tokens"] if items.calibrator is not None else []
    optional = ["accepted", *(["view_tv"] if items.k * items.asked == 1 else [])]
    if items.calibrator is not None and items.calibrator.weights.questions is not None:
        optional.append(PREFIX + QUESTION)
    return list(dict.fromkeys([*columns, *(name for name in optional if name in schema)]))


def _check_known(decoding: Decoding, calibrator: Calibrator | None, known: Known) -> None:
    """Refuse what needs probabilities.

    Raises:
        InputError: they are not known, and are to be combined or calibrated.
    """
    if known != "probabilities" and (decoding == "ensemble" or calibrator is not None):
        what = "an ensemble" if decoding == "ensemble" else "a calibrator"
        raise missing_probabilities(what, known)


def _metadata_column(scan: pl.LazyFrame, path: Path, by: GroupBy, k: int) -> pl.Series:
    """Return a further column of the items of a run, whose views are next to each other."""
    names = [name for name in scan.collect_schema().names() if name.startswith(PREFIX)]
    if PREFIX + by not in names:
        schema = {name.removeprefix(PREFIX): pl.String() for name in names}
        return find_column(pl.DataFrame(schema=schema), by, str(path.parent))
    return _read_column(scan, path, PREFIX + by, k)


def _read_column(scan: pl.LazyFrame, path: Path, name: str, k: int) -> pl.Series:
    return collected(path, scan.select(name).gather_every(k)).to_series()


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


def _in_order(views: npt.NDArray[np.integer], k: int) -> bool:
    return views.size % k == 0 and bool((views.reshape(-1, k) == np.arange(k)).all())


def _view_numbers(scan: pl.LazyFrame, path: Path) -> npt.NDArray[np.integer]:
    """Return the column `view`, after checking that every row has one."""
    views = collected(path, scan.select("view"))["view"]
    if views.dtype == pl.Null or views.null_count():
        raise RunError(f"{path}: view: expected a value in every row, got null")
    return views.to_numpy()


def _check_views(scan: pl.LazyFrame, path: Path) -> int:
    """Return K, after checking columns and the order of the views."""
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
    return k
